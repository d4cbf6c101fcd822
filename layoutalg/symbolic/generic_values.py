"""The generic values of a symbol: all but finitely many, and the period after which they cost the same.

The idea.  Every address is slope * s + constant, and what an access costs depends on residues of addresses
and on which lanes share a unit.  Lanes whose distance holds s share one only near the root of that distance:

    f32 (32,32):(ld,1), lanes down a column     distances ld, 2 ld, ... 31 ld: generic from ld = 1 on
    f32 (8,8):(ld,1), 8 rows of 4 lane pairs    distances such as ld - 6: counted singly up to ld = 7

THEOREM.  Let P be the bytes after which banks repeat (128; sectors: 32), in elements, or the period of the
layout's swizzles if that is longer; both are powers of two.  Call s GENERIC when no stride, offset or base is
negative, and no two lanes of one instruction whose distance depends on s lie within one unit (a vector or a
word, whichever is longer; a sector) of each other.  The cost is the same for generic s and s + P.
Proof.  Every element offset x before the swizzles changes by a multiple of P, and S(x + P) = S(x) + P, so
every address changes by a multiple of the bank period: the bank and the place in the word stay.  What
counts besides is which lanes share a unit.  A pair whose distance is fixed keeps it, and its place modulo
the unit; a pair whose distance is not fixed shares no unit, for both values.  A swizzle that leaves units
whole permutes them; of one that reaches inside units, the lanes may also be a period apart, so generic then
means further apart than a period.

Values that are not generic are finitely many, the integers near the roots of (a - a') + (b - b') s; they
are found from the warp classes (layoutalg.analysis), in a time that does not depend on the size of
the tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.analysis import Residues, warp_families
from layoutalg.compose import Fields, compose_layouts
from layoutalg.errors import ArgumentTypeError, DivisibilityError, ShapeError, UndecidedError, check_type
from layoutalg.layout import Layout, flatten_tree, leaf_lists, merge, modes, size, unflatten_tree
from layoutalg.limits import Most
from layoutalg.symbolic.question import OpenQuestion

if TYPE_CHECKING:
    import sympy


class Line(NamedTuple):
    """slope * symbol + constant."""

    slope: int
    constant: int


class Terms(NamedTuple):
    """Strides, leaf by leaf, offset and base as lines in the symbol."""

    strides: tuple[Line, ...]
    offset: Line
    base: Line


def linear_terms(question: OpenQuestion, symbol: sympy.Symbol) -> Terms:
    """The terms of a question as lines in `symbol`; raises UndecidedError for what is none.

    >>> from sympy import Symbol
    >>> from layoutalg.analysis import Access
    >>> from layoutalg.symbolic.question import make_question
    >>> ld, column = Symbol("ld"), Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> question = make_question(((32, 32), (ld, 1)), column)
    >>> linear_terms(question, ld).strides[0]
    Line(slope=1, constant=0)
    """
    layout = question.layout
    return Terms(
        tuple(linear_term(leaf, symbol) for leaf in flatten_tree(layout.stride)),
        linear_term(layout.offset, symbol),
        linear_term(question.base, symbol),
    )


def linear_term(value: Any, symbol: sympy.Symbol) -> Line:
    """slope * symbol + constant, both integers; raises UndecidedError for anything else.

    >>> from sympy import Symbol
    >>> linear_term(2 * Symbol("ld") + 8, Symbol("ld"))
    Line(slope=2, constant=8)
    """
    import sympy

    expression = sympy.Integer(value) if type(value) is int else value
    others = sorted(expression.free_symbols - {symbol}, key=str)
    if others:
        are = "is" if len(others) == 1 else "are"
        raise UndecidedError(f"{', '.join(map(str, others))} {are} not known")
    slope, constant = sympy.expand(expression).coeff(symbol, 1), expression.subs(symbol, 0)
    linear = sympy.expand(expression - slope * symbol - constant) == 0
    if not linear or not slope.is_Integer or not constant.is_Integer:
        raise UndecidedError(f"{value} is not an integer times {symbol} plus an integer")
    return Line(int(slope), int(constant))


def first_value(symbol: Any, least: int | None) -> int:
    """The first value that counts: `least`, else 1 for a positive symbol and 0 for another.

    Raises ArgumentTypeError for a symbol that is none and a `least` that is not an integer, ShapeError for
    one below 0.

    >>> from sympy import Symbol
    >>> first_value(Symbol("ld", positive=True), None)
    1
    """
    import sympy

    check_type("symbol", symbol, sympy.Symbol, "a sympy Symbol")
    first = least if least is not None else int(symbol.is_positive is True)
    if type(first) is not int:
        raise ArgumentTypeError(f"least {least!r} is a {type(least).__name__}; an integer is needed")
    if first < 0:
        raise ShapeError(f"least is {least}; values are counted from 0 on")
    return first


def symbol_period(question: OpenQuestion, terms: Terms) -> int:
    """Values of the symbol after which every address has moved by a whole period.

    >>> from sympy import Symbol
    >>> from layoutalg.analysis import Access
    >>> from layoutalg.symbolic.question import make_question
    >>> ld, column = Symbol("ld"), Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> question = make_question(((32, 32), (ld, 1)), column)
    >>> symbol_period(question, linear_terms(question, ld))
    32
    """
    machine, bits = question.machine, question.access.element.bits
    shared = question.rule.space == "shared"
    period_bytes = machine.banks * machine.bank_bytes if shared else machine.sector_bytes
    elems = max([1, 8 * period_bytes // bits, *(s.period for s in question.layout.swizzles)])
    in_elems = max(_steps(line.slope, elems) for line in (*terms.strides, terms.offset))
    return max(in_elems, _steps(terms.base.slope, period_bytes))


def _steps(slope: int, period: int) -> int:
    """The least n > 0 with n * slope a multiple of `period`, a power of two."""
    low = slope & -slope
    return max(1, period // low) if slope else 1


def special_values(question: OpenQuestion, terms: Terms, first: int) -> set[int]:
    """All values from `first` on that are not generic, and some that are; raises UndecidedError for too many.

    Raises ShapeError for an access of more elements than 64-bit counts are exact for.

    >>> from sympy import Symbol
    >>> from layoutalg.analysis import Access
    >>> from layoutalg.symbolic.question import make_question
    >>> ld, column = Symbol("ld"), Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> question = make_question(((32, 32), (ld, 1)), column)
    >>> special_values(question, linear_terms(question, ld), 0)
    {0}
    """
    rule, machine, bits = question.rule, question.machine, question.access.element.bits
    whole_bytes = machine.bank_bytes if rule.space == "shared" else machine.sector_bytes
    unit = max(1, 8 * max(rule.width_bytes, whole_bytes) // bits)
    reach = unit
    for swizzle in question.layout.swizzles:
        if (1 << (swizzle.base)) < unit:
            reach = max(reach, swizzle.period + unit)
    out = _negative_values(terms, first)
    for slope, constant in _distances(question, terms):
        near = [-(constant + end) * (1 if slope > 0 else -1) for end in (reach - 1, 1 - reach)]
        low, high = min(near), max(near)
        size_of = abs(slope)
        start, stop = max(first, -(-low // size_of)), high // size_of
        _check_count(max(stop - start, len(out)))
        out.update(range(start, stop + 1))
    return out


def _negative_values(terms: Terms, first: int) -> set[int]:
    """The values at which a stride, the offset or the base is negative; raises UndecidedError without end."""
    ends = [first]
    for slope, constant in (*terms.strides, terms.offset, terms.base):
        if slope < 0 or (slope == 0 and constant < 0):
            raise UndecidedError(
                f"a stride, offset or base of {constant} + {slope} times the symbol is negative without end",
            )
        if constant < 0:
            ends.append(-(constant // slope))
    _check_count(max(ends) - first)
    return set(range(first, max(ends)))


def _check_count(count: int) -> None:
    Most.COUNTED.decide(count, "single values are to be counted")


def _distances(question: OpenQuestion, terms: Terms) -> Iterator[tuple[int, int]]:
    """(slope, constant) of the distances that depend on the symbol, each once.

    Between lanes of one instruction, and of a vector's elements from where they should lie.  Both parts of
    an offset are the fields of one integer.
    """
    shape, access = question.layout.shape, question.access
    if size(access.tv) > Most.MAGNITUDE.number:
        raise ShapeError(
            f"{access.op} on {question.layout} does not fit the 2^62 bytes that are counted exactly"
        )
    reach = sum(abs(line.constant) for line in terms.strides) * (size(Layout(shape)) + size(access.tv))
    fields = Fields((2 * reach + 1).bit_length())
    stride = unflatten_tree(tuple(fields.pack((line.constant, line.slope)) for line in terms.strides), shape)
    try:
        composed = compose_layouts(Layout(shape, stride), access.tv)
    except (DivisibilityError, UndecidedError):
        raise UndecidedError(f"layout and access {access.tv} do not compose to strides") from None
    if not any(line.slope for line in terms.strides):
        return
    threads, values = (_merged(mode) for mode in modes(composed)[:2])
    seen: set[tuple[int, ...]] = set()
    elems = max(1, 8 * question.rule.width_bytes // access.element.bits)
    residues = Residues(1, question.machine.lanes)
    warps = warp_families(threads, size(access.tv[0]), question.rule.lanes, 0, (), residues)
    for relative in {relative for relative, _ in warps}:
        for i, offset in enumerate(relative):
            seen.update(fields.unpack(other - offset, 2) for other in relative[i + 1 :])
    for _, step in values:
        constant, slope = fields.unpack(step, 2)
        seen.update((constant - n, slope) for n in range(1, elems))
    yield from ((slope, constant) for constant, slope in seen if slope)


def _merged(mode: Layout) -> tuple[tuple[int, int], ...]:
    return tuple(zip(*merge(*leaf_lists(mode)), strict=True))
