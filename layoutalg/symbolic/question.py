"""Layouts with symbols, a question about an access to one, and the question itself as an answer.

The idea.  For numbers in place of the symbols a question is one concrete analysis: `count`.  What cannot be
decided for all numbers, as more than one symbol, or a stride that is not linear in it, comes back as the
condition itself: a Condition, which `holds` for values once all are known, by that same analysis.

A leading dimension that is still open is a symbol in a stride.  A swizzle moves bits, which symbols do not
have, so that a ComposedLayout takes integers alone; here the swizzles, the offset and the layout below are
kept side by side until numbers are put in:

    Sw<3,3,3> o 0 o (8,8):(ld,1)      at ld = 64      Sw<3,3,3> o 0 o (8,8):(64,1)

Notes.  Extents are integers: how often an access happens is not open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from layoutalg.analysis import Access, SharedReport, addressing, analyze_access
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction, find_arch, find_instruction
from layoutalg.decide import is_injective
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UndecidedError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    Swizzles,
    flatten_tree,
    free_symbols,
    substituted,
    symbolic_leaf,
    to_text,
)

if TYPE_CHECKING:
    import sympy

Symbolic: TypeAlias = "AnyLayout | SymbolicLayout | tuple[Any, Any]"
"""A layout with symbols in its strides: a layout that holds them, or (shape, stride) as plain tuples."""


@dataclass(frozen=True, slots=True)
class SymbolicLayout:
    """swizzles(offset + inner), inner the layout shape:stride, with symbols in `stride` and `offset`.

    Raises UnsupportedError for extents that are not integers, ArgumentTypeError for strides or an offset that
    are neither integers nor sympy expressions, such as text, and what Layout raises.

    >>> from sympy import Symbol
    >>> print(SymbolicLayout((8, 8), (Symbol("ld"), 1), (Swizzle(3, 3, 3),)).at({Symbol("ld"): 64}))
    Sw<3,3,3> o 0 o (8,8):(64,1)
    """

    shape: IntTuple
    stride: Any
    swizzles: Swizzles | tuple[Swizzle, ...] = ()
    offset: Any = 0

    def __post_init__(self) -> None:
        for extent in flatten_tree(self.shape):
            if not isinstance(extent, int):
                raise UnsupportedError(
                    f"the extent {extent} of shape {to_text(self.shape)} is not an integer: symbols are "
                    f"solved for in strides, offsets and bases"
                )
        for leaf in (*flatten_tree(self.stride), self.offset):
            check_expression(leaf, "stride or offset")
        inner = self.inner
        object.__setattr__(self, "swizzles", Swizzles(*self.swizzles))
        object.__setattr__(self, "shape", inner.shape)
        object.__setattr__(self, "stride", inner.stride)
        if type(self.offset) is not int:
            object.__setattr__(self, "offset", symbolic_leaf(self.offset, "offset"))

    @property
    def inner(self) -> Layout:
        """The layout under the swizzles, which every operation of the algebra takes."""
        return Layout(self.shape, self.stride)

    def at(self, values: Mapping[Any, int]) -> AnyLayout:
        """The layout for these values of its symbols; raises UnsupportedError when some are missing."""
        inner = Layout(self.shape, substituted(self.stride, values))
        offset = substituted(self.offset, values)
        if not self.swizzles and not offset:
            return inner
        return ComposedLayout(self.swizzles or Swizzle(0, 0, 0), offset, inner)

    def __str__(self) -> str:
        if not self.swizzles and self.offset == 0:
            return str(self.inner)
        outer = " o ".join(map(str, self.swizzles or (Swizzle(0, 0, 0),)))
        return f"{outer} o {to_text(self.offset)} o {self.inner}"


def as_symbolic(layout: Symbolic) -> SymbolicLayout:
    """The layout in this form; raises UnsupportedError for an outer layout.

    >>> print(as_symbolic(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    """
    if isinstance(layout, SymbolicLayout):
        return layout
    if isinstance(layout, Layout):
        return SymbolicLayout(layout.shape, layout.stride)
    if isinstance(layout, ComposedLayout):
        if not layout.swizzles or not isinstance(layout.inner, Layout):
            raise UnsupportedError(
                f"{layout}: symbols are solved for under swizzles, not under outer layouts"
            )
        inner = layout.inner
        return SymbolicLayout(inner.shape, inner.stride, layout.swizzles.reduced(), layout.offset)
    if isinstance(layout, tuple) and len(layout) == 2:
        return SymbolicLayout(*layout)
    raise ArgumentTypeError(f"{layout!r}: a layout or a tuple (shape, stride) is needed")


def check_expression(value: Any, what: str) -> None:
    """Refuse what is neither an integer nor a sympy expression; text above all, which sympy would run.

    >>> check_expression("ld", "stride")
    Traceback (most recent call last):
    ...
    layoutalg.errors.ArgumentTypeError: stride 'ld' is a str; an integer or a sympy expression is needed
    """
    if type(value) is int:
        return
    import sympy

    if not isinstance(value, sympy.Expr):
        raise ArgumentTypeError(
            f"{what} {value!r} is a {type(value).__name__}; an integer or a sympy expression is needed"
        )


class AccessCost(NamedTuple):
    """The total cost of an access: wavefronts or sectors, the ideal, and useful and moved bytes."""

    total: int
    ideal: int
    useful_bytes: int = 0
    moved_bytes: int = 0


class Criterion(NamedTuple):
    """A property of a cost: none beyond the ideal (`threshold` None), or an efficiency of at least that."""

    text: str
    sides: tuple[str, str]
    threshold: Fraction | None = None

    def holds(self, cost: AccessCost | None) -> bool:
        """False where the instruction refuses the layout."""
        if cost is None:
            return False
        if self is FEWEST:
            raise UndecidedError("the fewest sectors are not known where it is open what other values take")
        if self.threshold is None:
            return cost.total == cost.ideal
        return cost.useful_bytes >= self.threshold * cost.moved_bytes


NO_CONFLICTS = Criterion("has no bank conflicts", ("wavefronts", "ideal"))
FEWEST = Criterion("takes the fewest sectors", ("sectors", "fewest"))


class OpenQuestion(NamedTuple):
    """The open cost of `access` on `layout` on `machine`, with `base` bytes added to its base address; with
    `distinct`, where no two elements of the layout share an address."""

    layout: SymbolicLayout
    access: Access
    base: Any
    rule: Instruction
    machine: Arch
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A question that has no closed answer: for which values it `holds`, and why it is left open.

    >>> from sympy import symbols
    >>> from layoutalg.symbolic import solve_conflict_free
    >>> from layoutalg.layout import Layout
    >>> ld, k = symbols("ld k")
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> open_ = solve_conflict_free(((32, 32), (ld * k, 1)), column, ld)
    >>> print(open_)
    ld.shared.b32 on (32,32):(k*ld,1) has no bank conflicts (open: k is not known)
    >>> open_.holds({ld: 11, k: 3}), open_.holds({ld: 11, k: 2})
    (True, False)
    """

    question: OpenQuestion
    criterion: Criterion
    why: str

    def holds(self, values: Mapping[Any, int]) -> bool:
        """Whether it is so for these values, one for every symbol."""
        q = self.question
        return self.criterion.holds(count(q, values)) and (
            not q.distinct or is_injective(q.layout.at(values))
        )

    def condition(self) -> sympy.Basic:
        """The condition as an equation or inequality of unknown functions of the symbols."""
        import sympy

        q = self.question
        symbols = sorted(free_symbols(q.layout.stride, q.layout.offset, q.base), key=str)
        what, bound = self.criterion.sides
        left, right = (sympy.Function(name)(*symbols) if name else 0 for name in (what, bound))
        cost = sympy.Eq(left, right) if bound else sympy.Ge(left, self.criterion.threshold)
        if not q.distinct:
            return cost
        return sympy.And(cost, sympy.Eq(sympy.Function("shared_addresses")(*symbols), 0), evaluate=False)

    def __str__(self) -> str:
        q = self.question
        apart = " and no two elements at one address" if q.distinct else ""
        return f"{q.access.op} on {q.layout} {self.criterion.text}{apart} (open: {self.why})"

    def _latex(self, printer: Any) -> str:
        text: str = printer.doprint(self.condition())
        return text


def make_question(
    layout: Symbolic,
    access: Access,
    base: Any = 0,
    arch: str | Arch = DEFAULT_ARCH,
    space: Literal["shared", "global"] | None = None,
    distinct: bool | None = False,
) -> OpenQuestion:
    """The question, with `distinct` None of distinct addresses where the instruction stores.

    Raises UnsupportedError for an instruction that does not address `space`.
    Raises ArgumentTypeError for what is not an Access, and for a base that is neither an integer nor a sympy
    expression.

    >>> from sympy import Symbol
    >>> from layoutalg.layout import Layout
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> print(make_question(((32, 32), (Symbol("ld"), 1)), column).layout)
    (32,32):(ld,1)
    """
    if not isinstance(access, Access):
        raise ArgumentTypeError(f"access {access!r} is a {type(access).__name__}; an Access is needed")
    check_expression(base, "base")
    machine = find_arch(arch)
    rule = find_instruction(access.op, machine)
    if space is not None and rule.space != space:
        other = "solve_sectors" if space == "shared" else "solve_conflict_free"
        raise UnsupportedError(f"{access.op} addresses {rule.space} memory; {other} answers for it")
    if distinct is not None and type(distinct) is not bool:
        raise ArgumentTypeError(
            f"distinct {distinct!r} is a {type(distinct).__name__}; a bool or None is needed"
        )
    apart = rule.stores if distinct is None else distinct
    return OpenQuestion(as_symbolic(layout), addressing(access, rule, machine), base, rule, machine, apart)


def count(question: OpenQuestion, values: Mapping[Any, int]) -> AccessCost | None:
    """The cost at these values by a concrete analysis; None where the instruction refuses the layout.

    It refuses addresses that are not aligned, and negative ones.

    >>> from sympy import Symbol
    >>> from layoutalg.layout import Layout
    >>> ld, column = Symbol("ld"), Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> count(make_question(((32, 32), (ld, 1)), column), {ld: 36})[:2]
    (4, 1)
    """
    layout, access = concrete(question, values)
    try:
        report = analyze_access(layout, access, question.machine)
    except AlignmentError:
        return None
    except ShapeError:
        if not is_negative(layout, access):
            raise
        return None
    if isinstance(report, SharedReport):
        return AccessCost(report.total, report.ideal_total)
    return AccessCost(report.sectors, report.ideal, report.useful_bytes, report.moved_bytes)


def concrete(question: OpenQuestion, values: Mapping[Any, int]) -> tuple[AnyLayout, Access]:
    """Layout and access at these values; raises UnsupportedError when a symbol's value is missing.

    >>> from sympy import Symbol
    >>> from layoutalg.layout import Layout
    >>> ld, column = Symbol("ld"), Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> print(concrete(make_question(((32, 32), (ld, 1)), column), {ld: 36})[0])
    (32,32):(36,1)
    """
    base = question.access.base_bytes + substituted(question.base, values)
    return question.layout.at(values), replace(question.access, base_bytes=base)


def is_negative(layout: AnyLayout, access: Access) -> bool:
    """Whether a stride, the offset or the base is negative, so that addresses may be.

    >>> from layoutalg.layout import Layout
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> is_negative(Layout((32, 32), (-1, 32)), column)
    True
    """
    offset, inner = 0, layout
    while not isinstance(inner, Layout):
        offset, inner = min(offset, inner.offset), inner.inner
    return min(offset, access.base_bytes, *flatten_tree(inner.stride)) < 0
