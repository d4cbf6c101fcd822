"""Answers in symbols: for which leading dimensions, pads and bases an access has no conflicts.

The idea.  A stride, the offset or the base address may be a + b s in one integer symbol s, and the question
"for which s" has an exact answer, since what an access costs repeats in s:

    f32 (32,ld):(ld,1), lanes down a column        ld odd, or ld = 0
    f16 ldmatrix, rows of ld halves                ld mod 16 = 8, or ld = 0
    f32 (48,20):(ld,1), row by row, sectors        fewest for ld = 20, then ld mod 8 = 4 ...

THEOREM.  Let P be the bytes after which banks repeat (128; sectors: 32), in elements, or the period of the
layout's swizzles if that is longer; both are powers of two.  Call s GENERIC when no two lanes of one
instruction whose distance depends on s lie within one unit (a vector or a word, whichever is longer; a
sector) of each other.  The cost is the same for generic s and s + P.
Proof.  Every element offset x before the swizzles changes by a multiple of P, and S(x + P) = S(x) + P, so
every address changes by a multiple of the bank period: the bank and the place in the word stay.  What
counts besides is which lanes share a unit.  A pair whose distance is fixed keeps it, and its place modulo
the unit; a pair whose distance is not fixed shares no unit, for both values.  A swizzle that leaves units
whole permutes them; of one that reaches inside units, the lanes may also be a period apart, so generic then
means further apart than a period.

Values that are not generic are finitely many, the integers near the roots of (a - a') + (b - b') s; they
are found from the warp classes (layoutalg.analysis.classes) and counted one by one.  So an answer takes one
concrete analysis for each residue modulo P and for each of them; nothing depends on the size of the tile.

What cannot be decided, as more than one symbol, or a stride that is not linear in it, comes back as the
condition itself: a Condition, which `holds` for values once all are known.

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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from layoutalg.analysis.access import Access
from layoutalg.analysis.analyzer import analyze
from layoutalg.analysis.banks import ideal_wavefronts, wavefronts
from layoutalg.analysis.classes import warp_families
from layoutalg.analysis.enumerated import instruction_offsets
from layoutalg.analysis.report import Place, SharedReport
from layoutalg.analysis.residues import Residues
from layoutalg.analysis.solutions import Periodic, ResidueSet
from layoutalg.arch import Arch, Instruction, find_arch, find_instruction
from layoutalg.digits import compose_layouts
from layoutalg.dtype import DType
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    DivisibilityError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.int_tuple import IntTuple, product, to_text
from layoutalg.layout import Layout, modes
from layoutalg.measure import leaf_lists, merge, size
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle

if TYPE_CHECKING:
    import sympy

T = TypeVar("T")

Symbolic: TypeAlias = "AnyLayout | SymbolicLayout | tuple[Any, Any]"
"""A layout with symbols in its strides: a layout that holds them, or (shape, stride) as plain tuples."""

MAX_COUNTS = 1 << 12
"""Concrete analyses behind one answer, at most; beyond it the condition comes back undecided."""


@dataclass(frozen=True, slots=True)
class SymbolicLayout:
    """swizzles(offset + shape:stride), with sympy expressions in `stride` and `offset`.

    >>> from sympy import Symbol
    >>> print(SymbolicLayout((8, 8), (Symbol("ld"), 1), (Swizzle(3, 3, 3),)).at({Symbol("ld"): 64}))
    Sw<3,3,3> o 0 o (8,8):(64,1)
    """

    shape: IntTuple
    stride: Any
    swizzles: tuple[Swizzle, ...] = ()
    offset: Any = 0

    def at(self, values: Mapping[Any, int]) -> AnyLayout:
        """The layout for these values of its symbols; raises UnsupportedError when some are missing."""
        inner = Layout(self.shape, _substituted(self.stride, values))
        offset = _substituted(self.offset, values)
        if not self.swizzles and not offset:
            return inner
        return ComposedLayout(self.swizzles or Swizzle(0, 0, 0), offset, inner)

    def __str__(self) -> str:
        inner = f"{to_text(self.shape)}:{to_text(self.stride)}"
        return f"{' o '.join(map(str, self.swizzles))} o {self.offset} o {inner}" if self.swizzles else inner


@dataclass(frozen=True, slots=True)
class Condition:
    """A question that has no closed answer: which values `satisfy` it, and why it is left open.

    >>> from sympy import symbols
    >>> from layoutalg.layout import Layout
    >>> ld, k = symbols("ld k")
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> open_ = solve_conflict_free(((32, 32), (ld * k, 1)), column, ld)
    >>> print(open_)
    ld.shared.b32 on (32,32):(k*ld,1) has no bank conflicts (open: k is not known)
    >>> open_.holds({ld: 11, k: 3}), open_.holds({ld: 11, k: 2})
    (True, False)
    """

    question: _Question
    criterion: Criterion
    why: str

    def holds(self, values: Mapping[Any, int]) -> bool:
        """Whether it is so for these values, one for every symbol."""
        return self.criterion.holds(_count(self.question, values))

    def condition(self) -> sympy.Basic:
        """The condition as an equation or inequality of unknown functions of the symbols."""
        import sympy

        symbols = sorted(_symbols(self.question), key=str)
        what, bound = self.criterion.sides
        left, right = (sympy.Function(name)(*symbols) if name else 0 for name in (what, bound))
        return sympy.Eq(left, right) if bound else sympy.Ge(left, self.criterion.threshold)

    def __str__(self) -> str:
        q = self.question
        return f"{q.access.op} on {q.layout} {self.criterion.text} (open: {self.why})"

    def _latex(self, printer: Any) -> str:
        text: str = printer.doprint(self.condition())
        return text


class Cost(NamedTuple):
    """What an access costs in all: wavefronts or sectors, the ideal, and useful and moved bytes."""

    total: int
    ideal: int
    useful_bytes: int = 0
    moved_bytes: int = 0


class Criterion(NamedTuple):
    """A property of a cost: none beyond the ideal (`threshold` None), or an efficiency of at least that."""

    text: str
    sides: tuple[str, str]
    threshold: Fraction | None = None

    def holds(self, cost: Cost | None) -> bool:
        """False where the instruction refuses the layout."""
        if cost is None:
            return False
        if self is _FEWEST:
            raise UndecidedError(
                "the fewest sectors are not known where it is open what other values take", budget=MAX_COUNTS
            )
        if self.threshold is None:
            return cost.total == cost.ideal
        return cost.useful_bytes >= self.threshold * cost.moved_bytes


_NO_CONFLICTS = Criterion("has no bank conflicts", ("wavefronts", "ideal"))
_FEWEST = Criterion("takes the fewest sectors", ("sectors", "fewest"))


class _Question(NamedTuple):
    layout: SymbolicLayout
    access: Access
    base: Any
    rule: Instruction
    machine: Arch


def solve_conflict_free(
    layout: Symbolic,
    access: Access,
    symbol: sympy.Symbol,
    *,
    base: Any = 0,
    least: int | None = None,
    arch: str | Arch = "sm_90",
) -> ResidueSet | Condition:
    """The exact set of values of `symbol`, from `least` on, at which `access` has no bank conflicts.

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
    """
    question = _question(layout, access, base, arch, "shared")
    try:
        return ResidueSet(_tabulate(question, symbol, least, _is_free))
    except UndecidedError as error:
        return Condition(question, _NO_CONFLICTS, error.message)


def solve_sectors(
    layout: Symbolic,
    access: Access,
    symbol: sympy.Symbol,
    *,
    efficiency: float | Fraction | None = None,
    base: Any = 0,
    least: int | None = None,
    arch: str | Arch = "sm_90",
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
    question = _question(layout, access, base, arch, "global")
    criterion = _FEWEST
    if efficiency is not None:
        share = Fraction(str(efficiency)) if isinstance(efficiency, float) else Fraction(efficiency)
        if not 0 < share <= 1:
            raise ShapeError(f"efficiency is {efficiency}; a share above 0 and at most 1 is needed")
        criterion = Criterion(f"has an efficiency of at least {efficiency}", ("efficiency", ""), share)
    try:
        table = _tabulate(question, symbol, least, _count)
    except UndecidedError as error:
        return Condition(question, criterion, error.message)
    if efficiency is not None:
        return table.where(criterion.holds)
    fewest = min((cost.total for cost in table.values if cost is not None), default=0)
    return table.where(lambda cost: cost is not None and cost.total <= fewest)


def symbolic_cost(
    layout: Symbolic,
    access: Access,
    symbol: sympy.Symbol,
    *,
    base: Any = 0,
    least: int | None = None,
    arch: str | Arch = "sm_90",
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
    return _tabulate(_question(layout, access, base, arch, None), symbol, least, _total)


def symbolic_access(spec: str | Access, layout: Symbolic, element: str | DType) -> Access:
    """`Access.of` on a layout with symbols: the access it would be for large values of them.

    >>> from sympy import Symbol
    >>> print(symbolic_access("ldmatrix.x4", ((64, 64), (Symbol("ld"), 1)), "f16").tv)
    ((16,2),8,(4,4)):((1,512),64,(1024,16))
    """
    given = as_symbolic(layout)
    large = 1 << (product(given.shape).bit_length() + 1)
    symbols = {s for leaf in (*_leaves(given.stride), given.offset) for s in _free(leaf)}
    return Access.of(spec, given.at(dict.fromkeys(symbols, large)), element)


def as_symbolic(layout: Symbolic) -> SymbolicLayout:
    """The layout in the form that this module works on; raises UnsupportedError for an outer layout.

    >>> print(as_symbolic(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    if isinstance(layout, SymbolicLayout):
        return layout
    if isinstance(layout, Layout):
        _check_extents(layout.shape)
        return SymbolicLayout(layout.shape, layout.stride)
    if isinstance(layout, ComposedLayout):
        if not layout.swizzles or not isinstance(layout.inner, Layout):
            raise UnsupportedError(
                f"{layout}: symbols are solved for under swizzles, not under outer layouts"
            )
        swizzles = tuple(s for s in layout.swizzles if s.bits)
        return SymbolicLayout(layout.inner.shape, layout.inner.stride, swizzles, layout.offset)
    if isinstance(layout, tuple) and len(layout) == 2:
        _check_extents(layout[0])
        return SymbolicLayout(layout[0], layout[1])
    raise ArgumentTypeError(f"{layout!r}: a layout or a tuple (shape, stride) is needed")


def _check_extents(shape: Any) -> None:
    for extent in _leaves(shape):
        if not isinstance(extent, int):
            raise UnsupportedError(
                f"the extent {extent} of shape {to_text(shape)} is no integer: symbols are solved for in "
                f"strides, offsets and bases"
            )


def _question(layout: Symbolic, access: Access, base: Any, arch: str | Arch, space: str | None) -> _Question:
    machine = find_arch(arch)
    rule = find_instruction(access.op, machine)
    if space is not None and rule.space != space:
        other = "solve_sectors" if space == "shared" else "solve_conflict_free"
        raise UnsupportedError(f"{access.op} addresses {rule.space} memory; {other} answers for it")
    return _Question(as_symbolic(layout), access, base, rule, machine)


def _tabulate(
    question: _Question,
    symbol: sympy.Symbol,
    least: int | None,
    ask: Callable[[_Question, Mapping[Any, int]], T],
) -> Periodic[T]:
    """What `ask` says, as a function of the symbol; raises UndecidedError saying why there is no table."""
    import sympy

    if not isinstance(symbol, sympy.Symbol):
        raise ArgumentTypeError(f"symbol {symbol!r} is a {type(symbol).__name__}; a sympy Symbol is needed")
    first = least if least is not None else int(symbol.is_positive is True)
    if first < 0:
        raise ShapeError(f"least is {least}; values are counted from 0 on")
    terms = _linear_terms(question, symbol)
    period = _period(question, terms)
    special = _special_values(question, terms, first)
    if period > MAX_COUNTS or len(special) > MAX_COUNTS:
        raise UndecidedError(
            f"{period} residues and {len(special)} single values are to be counted; the budget is "
            f"{MAX_COUNTS}",
            budget=MAX_COUNTS,
        )
    values: list[T] = []
    for residue in range(period):
        value = residue
        while value < first or value in special:
            value += period
        values.append(ask(question, {symbol: value}))
    others = tuple((n, ask(question, {symbol: n})) for n in sorted(special))
    return Periodic(symbol, tuple(values), others, first)


class _Terms(NamedTuple):
    """Strides, offset and base as slope * symbol + constant; strides in the form of the shape."""

    slope: Any
    constant: Any
    offset: tuple[int, int]
    base: tuple[int, int]


def _linear_terms(question: _Question, symbol: sympy.Symbol) -> _Terms:
    layout = question.layout
    stride = _mapped(layout.stride, lambda leaf: _linear(leaf, symbol))
    return _Terms(
        _mapped(stride, lambda pair: pair.slope),
        _mapped(stride, lambda pair: pair.constant),
        _linear(layout.offset, symbol),
        _linear(question.base, symbol),
    )


class _Line(NamedTuple):
    slope: int
    constant: int


def _linear(value: Any, symbol: sympy.Symbol) -> Any:
    """slope * symbol + constant, both integers; raises UndecidedError for anything else."""
    import sympy

    expression = sympy.sympify(value)
    others = sorted(expression.free_symbols - {symbol}, key=str)
    if others:
        raise UndecidedError(f"{', '.join(map(str, others))} {_is(len(others))} not known", budget=MAX_COUNTS)
    slope, constant = sympy.expand(expression).coeff(symbol, 1), expression.subs(symbol, 0)
    linear = sympy.expand(expression - slope * symbol - constant) == 0
    if not linear or not slope.is_Integer or not constant.is_Integer:
        raise UndecidedError(f"{value} is not an integer times {symbol} plus an integer", budget=MAX_COUNTS)
    return _Line(int(slope), int(constant))


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _period(question: _Question, terms: _Terms) -> int:
    """Values of the symbol after which every address has moved by a whole period."""
    machine, bits = question.machine, question.access.element.bits
    shared = question.rule.space == "shared"
    period_bytes = machine.banks * machine.bank_bytes if shared else machine.sector_bytes
    elems = max([1, 8 * period_bytes // bits, *(s.period for s in question.layout.swizzles)])
    slopes = [*_leaves(terms.slope), terms.offset[0]]
    in_elems = max(_steps(slope, elems) for slope in slopes)
    return max(in_elems, _steps(terms.base[0], period_bytes))


def _steps(slope: int, period: int) -> int:
    """The least n > 0 with n * slope a multiple of `period`, a power of two."""
    low = slope & -slope
    return max(1, period // low) if slope else 1


def _special_values(question: _Question, terms: _Terms, first: int) -> set[int]:
    """All values from `first` on that are not generic, and some that are."""
    rule, machine, bits = question.rule, question.machine, question.access.element.bits
    whole_bytes = machine.bank_bytes if rule.space == "shared" else machine.sector_bytes
    unit = max(1, 8 * max(rule.width_bytes, whole_bytes) // bits)
    reach = unit
    for swizzle in question.layout.swizzles:
        if (1 << (swizzle.base)) < unit:
            reach = max(reach, swizzle.period + unit)
    out: set[int] = set()
    for slope, constant in _distances(question, terms):
        near = [-(constant + end) * (1 if slope > 0 else -1) for end in (reach - 1, 1 - reach)]
        low, high = min(near), max(near)
        size_of = abs(slope)
        start, stop = max(first, -(-low // size_of)), high // size_of
        if stop - start > MAX_COUNTS or len(out) > MAX_COUNTS:
            raise UndecidedError(
                f"too many single values are to be counted; the budget is {MAX_COUNTS}", budget=MAX_COUNTS
            )
        out.update(range(start, stop + 1))
    return out


def _distances(question: _Question, terms: _Terms) -> Iterator[tuple[int, int]]:
    """(slope, constant) of the distances that depend on the symbol, each once.

    Between lanes of one instruction, and of a vector's elements from where they should lie.  At a value
    larger than twice every constant part, an offset spells out both of its parts.
    """
    shape, access = question.layout.shape, question.access
    slopes, constants = _leaves(terms.slope), _leaves(terms.constant)
    index = Layout(shape)
    reach = sum(abs(c) for c in constants) * (size(index) + size(access.tv))
    large = 1 << (2 * reach + 1).bit_length()
    stride = _paired(terms.slope, terms.constant, lambda slope, constant: slope * large + constant)
    try:
        whole = compose_layouts(Layout(shape, stride), access.tv)
    except (DivisibilityError, UndecidedError):
        raise UndecidedError(
            f"layout and access {access.tv} do not compose to strides", budget=MAX_COUNTS
        ) from None
    if not any(slopes):
        return
    threads, values = (_merged(mode) for mode in modes(whole)[:2])
    seen: set[tuple[int, int]] = set()
    elems = max(1, 8 * question.rule.width_bytes // access.element.bits)
    residues = Residues(1, question.machine.lanes)
    warps = warp_families(threads, size(access.tv[0]), question.rule.lanes, 0, (), residues)
    for relative in {relative for relative, _ in warps}:
        for i, one in enumerate(relative):
            seen.update(_parts(other - one, large) for other in relative[i + 1 :])
    for _, step in values:
        slope, constant = _parts(step, large)
        seen.update((slope, constant - n) for n in range(1, elems))
    yield from ((slope, constant) for slope, constant in seen if slope)


def _merged(mode: Layout) -> tuple[tuple[int, int], ...]:
    return tuple(zip(*merge(*leaf_lists(mode)), strict=True))


def _parts(offset: int, large: int) -> tuple[int, int]:
    """(slope, constant) of slope * large + constant, |constant| < large / 2."""
    slope = (offset + large // 2) // large
    return slope, offset - slope * large


def _count(question: _Question, values: Mapping[Any, int]) -> Cost | None:
    """The cost at these values by a concrete analysis; None where the instruction refuses the layout."""
    layout, access = _concrete(question, values)
    try:
        report = analyze(layout, access, question.machine)
    except AlignmentError:
        return None
    if isinstance(report, SharedReport):
        return Cost(report.total, report.ideal_total)
    return Cost(report.sectors, report.ideal, report.useful_bytes, report.moved_bytes)


def _total(question: _Question, values: Mapping[Any, int]) -> int | None:
    cost = _count(question, values)
    return None if cost is None else cost.total


def _is_free(question: _Question, values: Mapping[Any, int]) -> bool:
    """Whether there are no conflicts; most often the first instruction shows that there are."""
    layout, access = _concrete(question, values)
    try:
        first = instruction_offsets(layout, access, Place(0, 0, 0), question.machine)
    except AlignmentError:
        return False
    arch = question.machine
    if wavefronts(access.op, first, arch) > ideal_wavefronts(access.op, first, arch):
        return False
    return _NO_CONFLICTS.holds(_count(question, values))


def _concrete(question: _Question, values: Mapping[Any, int]) -> tuple[AnyLayout, Access]:
    """Layout and access at these values."""
    base = question.access.base_bytes + _substituted(question.base, values)
    return question.layout.at(values), replace(question.access, base_bytes=base)


def _substituted(value: Any, values: Mapping[Any, int]) -> Any:
    """Every leaf as an integer; raises UnsupportedError for what the values do not decide."""
    import sympy

    if isinstance(value, tuple):
        return tuple(_substituted(v, values) for v in value)
    if isinstance(value, int):
        return value
    found = sympy.sympify(value).subs(values)
    if not found.is_Integer:
        raise UnsupportedError(f"{value} is {found} for {dict(values)}; an integer is needed")
    return int(found)


def _symbols(question: _Question) -> set[Any]:
    leaves = [*_leaves(question.layout.stride), question.layout.offset, question.base]
    return {symbol for leaf in leaves for symbol in _free(leaf)}


def _free(leaf: Any) -> set[Any]:
    import sympy

    return set(sympy.sympify(leaf).free_symbols)


def _leaves(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in _leaves(part)] if type(tree) is tuple else [tree]


def _mapped(tree: Any, change: Any) -> Any:
    return tuple(_mapped(part, change) for part in tree) if type(tree) is tuple else change(tree)


def _paired(one: Any, other: Any, change: Any) -> Any:
    if type(one) is tuple:
        return tuple(_paired(a, b, change) for a, b in zip(one, other, strict=True))
    return change(one, other)
