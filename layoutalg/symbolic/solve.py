"""Answers in symbols: for which leading dimensions, pads and bases an access has no conflicts.

The idea.  A stride, the offset or the base address may be a + b s in one integer symbol s, and the question
"for which s" has an exact answer, since what an access costs repeats in s:

    f32 (32,ld):(ld,1), lanes down a column        ld odd, or ld = 0
    f16 ldmatrix, rows of ld halves                ld mod 16 = 8, or ld = 0
    f32 (48,20):(ld,1), row by row, sectors        as few as for large ld: ld mod 8 = 4, or ld = 20 ...

It repeats for all values but finitely many, by the theorem of layoutalg.symbolic.generic_values.  So an
answer takes one concrete analysis for each residue modulo the period and for each of those; nothing depends
on the size of the tile.  What cannot be decided comes back as the condition itself
(layoutalg.symbolic.question).

>>> from sympy import Symbol
>>> from layoutalg.layout import Layout
>>> ld = Symbol("ld", positive=True)
>>> column = Access("ld.shared.b32", Layout((32, 1, 32), (1, 0, 32)), "f32")
>>> print(solve_conflict_free(((32, 32), (ld, 1)), column, ld))
ld odd
>>> symbolic_cost(((32, 32), (ld, 1)), column, ld).piecewise().args[0]
(32, Eq(Mod(ld, 2), 1))

Notes.  Strides of value vectors may hold the symbol too; then vectors are contiguous for single values only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from layoutalg import budget
from layoutalg.analysis import Access, Place, ideal_wavefronts, instruction_offsets, wavefronts
from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.budget import budget_of, spend
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UndecidedError
from layoutalg.layout import free_symbols, product
from layoutalg.limits import Most
from layoutalg.symbolic.distinct import solve_distinct
from layoutalg.symbolic.generic_values import first_value, linear_terms, special_values, symbol_period
from layoutalg.symbolic.question import (
    FEWEST,
    NO_CONFLICTS,
    Condition,
    Criterion,
    OpenQuestion,
    Symbolic,
    as_symbolic,
    concrete,
    count,
    is_negative,
    make_question,
)
from layoutalg.symbolic.solutions import Periodic, ResidueSet

if TYPE_CHECKING:
    import sympy

T = TypeVar("T")

COUNTED = 2
"""Budgets that all counts of one answer have together."""

PER_COUNT = 400
"""Units of work that a concrete analysis takes, whatever it finds."""


def solve_conflict_free(
    layout: Symbolic,
    access: Access,
    symbol: sympy.Symbol,
    *,
    base: Any = 0,
    least: int | None = None,
    distinct: bool | None = None,
    arch: str | Arch = DEFAULT_ARCH,
) -> ResidueSet | Condition:
    """The exact set of values of `symbol`, from `least` on, at which `access` has no bank conflicts.

    With `distinct`, only those at which no two elements of the layout share an address (`solve_distinct`):
    by default of stores, which need that; a load may want a broadcast.

    `layout` has symbols in its strides, linearly; `base` is added to the access's base, in bytes, and may
    hold the symbol as well.  `least` is 1 for a positive symbol, else 0.  Values that the instruction
    refuses as misaligned are not in the set.  A Condition comes back where that cannot be decided.

    Raises UnsupportedError for an access to global memory, ArgumentTypeError for a symbol that is none.

    Source: the theorem in the module's text; tests/test_symbolic.py compares it with concrete analyses.

    >>> from sympy import Symbol
    >>> from layoutalg.layout import Layout
    >>> ld = Symbol("ld", positive=True)
    >>> rows = Access("ldmatrix.x1", Layout(((8, 4), 8), ((1, 0), 8)), "f16")
    >>> found = solve_conflict_free(((8, 8), (ld, 1)), rows, ld)
    >>> print(found, found.holds(72), found.holds(68))
    ld mod 16 = 8 True False
    >>> store = Access("st.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> solve_conflict_free(((32, 8), (1, ld)), store, ld).smallest
    32
    """
    question = make_question(layout, access, base, arch, "shared", distinct)

    def ask() -> ResidueSet:
        return ResidueSet(_tabulate(question, symbol, least, _is_free))

    return _answer(question, symbol, least, NO_CONFLICTS, ask)


def solve_sectors(
    layout: Symbolic,
    access: Access,
    symbol: sympy.Symbol,
    *,
    efficiency: float | Fraction | None = None,
    base: Any = 0,
    least: int | None = None,
    distinct: bool | None = None,
    arch: str | Arch = DEFAULT_ARCH,
) -> ResidueSet | Condition:
    """The exact set of values of `symbol` at which `access` moves few sectors.

    With `efficiency`, a share in (0, 1]: those at which at least that share of the moved bytes is useful.
    Without: those that take no more sectors than the best of all residues, that is of arbitrarily large
    values.  Everything else as in `solve_conflict_free`.

    >>> from sympy import Symbol
    >>> from layoutalg.layout import Layout
    >>> shift, row = Symbol("shift"), Access("ld.global.b32", Layout((32, 1), (1, 0)), "f32")
    >>> print(solve_sectors(Layout(32), row, shift, base=4 * shift))
    shift mod 8 = 0
    """
    question = make_question(layout, access, base, arch, "global", distinct)
    criterion = FEWEST
    if efficiency is not None:
        share = efficiency_share(efficiency)
        criterion = Criterion(f"has an efficiency of at least {efficiency}", ("efficiency", ""), share)

    def ask() -> ResidueSet:
        table = _tabulate(question, symbol, least, count)
        if efficiency is not None:
            return table.where(criterion.holds)
        fewest = min((cost.total for cost in table.values if cost is not None), default=0)
        return table.where(lambda cost: cost is not None and cost.total <= fewest)

    return _answer(question, symbol, least, criterion, ask)


def _answer(
    question: OpenQuestion,
    symbol: sympy.Symbol,
    least: int | None,
    criterion: Criterion,
    ask: Callable[[], ResidueSet],
) -> ResidueSet | Condition:
    """The values that `ask` finds, of a question of distinct addresses those that have them."""
    try:
        apart = solve_distinct(question.layout, symbol, least=least) if question.distinct else None
        if apart is not None and apart.smallest is None:
            return apart
        answer = ask()
    except UndecidedError as error:
        return Condition(question, criterion, error.message)
    return answer if apart is None else answer & apart


def efficiency_share(efficiency: float | Fraction) -> Fraction:
    """An efficiency as a share in (0, 1].  Raises ArgumentTypeError and ShapeError for everything else.

    >>> efficiency_share(0.9)
    Fraction(9, 10)
    """
    if type(efficiency) not in (int, float, Fraction):
        kind = type(efficiency).__name__
        raise ArgumentTypeError(f"efficiency {efficiency!r} is a {kind}; a number is needed")
    if not 0 < efficiency <= 1:
        raise ShapeError(f"efficiency is {efficiency}; a share above 0 and at most 1 is needed")
    return Fraction(str(efficiency))


def symbolic_cost(
    layout: Symbolic,
    access: Access,
    symbol: sympy.Symbol,
    *,
    base: Any = 0,
    least: int | None = None,
    arch: str | Arch = DEFAULT_ARCH,
) -> Periodic[int | None]:
    """Wavefronts or sectors of the whole access as a function of `symbol`; None where it is misaligned.

    `.piecewise()` is the closed form over residue classes.  Raises UndecidedError when there is none, and
    as `solve_conflict_free` does.

    >>> from sympy import Symbol
    >>> from layoutalg.layout import Layout
    >>> ld, rows = Symbol("ld", positive=True), Access("ldmatrix.x1", Layout(((8, 4), 8), ((1, 0), 8)), "f16")
    >>> cost = symbolic_cost(((8, 8), (ld, 1)), rows, ld)
    >>> [cost.at(bytes_ // 2) for bytes_ in (16, 32, 48, 64, 80, 128, 136, 144)]
    [1, 2, 1, 4, 1, 8, None, 1]
    """
    return tabulated_cost(make_question(layout, access, base, arch, None), symbol, least)


def tabulated_cost(question: OpenQuestion, symbol: sympy.Symbol, least: int | None) -> Periodic[int | None]:
    """The cost that a question asks for, as `symbolic_cost` gives it."""
    return _tabulate(question, symbol, least, _total)


def symbolic_access(spec: str | Access, layout: Symbolic, element: str | DType) -> Access:
    """`Access.of` on a layout with symbols: the access it would be for large values of them.

    >>> from sympy import Symbol
    >>> print(symbolic_access("ldmatrix.x4", ((64, 64), (Symbol("ld"), 1)), "f16").tv)
    ((16,2),8,(4,4)):((1,512),64,(1024,16))
    """
    symbolic = as_symbolic(layout)
    large = 1 << (product(symbolic.shape).bit_length() + 1)
    symbols = free_symbols(symbolic.stride, symbolic.offset)
    return Access.of(spec, symbolic.at(dict.fromkeys(symbols, large)), element)


def _tabulate(
    question: OpenQuestion,
    symbol: sympy.Symbol,
    least: int | None,
    ask: Callable[[OpenQuestion, Mapping[Any, int]], T],
) -> Periodic[T]:
    """Tabulate `ask` as a function of the symbol; raises UndecidedError saying why there is no table."""
    first = first_value(symbol, least)
    terms = linear_terms(question, symbol)
    period = symbol_period(question, terms)
    special = special_values(question, terms, first)
    Most.COUNTED.decide(max(period, len(special)), "residues or single values are to be counted")
    values: list[T] = []
    many = f"{period} residues and {len(special)} single values are to be counted, and"
    with budget_of(many, COUNTED * budget.UNITS):
        for residue in range(period):
            value = residue + max(0, -(-(first - residue) // period)) * period
            while value in special:
                value += period
            spend(PER_COUNT)
            values.append(ask(question, {symbol: value}))
        others = tuple((n, ask(question, {symbol: n})) for n in sorted(special))
    return Periodic(symbol, tuple(values), others, first)


def _total(question: OpenQuestion, values: Mapping[Any, int]) -> int | None:
    cost = count(question, values)
    return None if cost is None else cost.total


def _is_free(question: OpenQuestion, values: Mapping[Any, int]) -> bool:
    """Whether there are no conflicts; most often the first instruction shows that there are."""
    layout, access = concrete(question, values)
    if is_negative(layout, access):
        return NO_CONFLICTS.holds(count(question, values))
    try:
        first = instruction_offsets(layout, access, Place(0, 0, 0), question.machine)
    except AlignmentError:
        return False
    arch = question.machine
    if wavefronts(access.op, first, arch) > ideal_wavefronts(access.op, first, arch):
        return False
    return NO_CONFLICTS.holds(count(question, values))
