"""Fragment: the registers of a thread, by the same places (value, rest, ...) as the partition they hold.

The idea.  Registers are a small array of 32-bit words, and what a thread holds of a tile has a shape: values
of one instruction first, then the instructions along each mode.  A layout of integers says where a place is:

    ((4,1),2,1):((1,0),4,0)      two vectors of four f32: v[2][4]
    ((2,2),4,8):((1,2),4,16)     accumulators of 4 x 8 mma

Elements narrower than a word share it, as they do in memory.  A place is found by integers and the variables
of unrolled loops, since registers have no address.

Source: CUTLASS, include/cute/tensor_impl.hpp, make_fragment_like.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, cast

from layoutalg.algebra import recast_layout
from layoutalg.codegen.expr import Const, Expr, as_expr, simplify
from layoutalg.codegen.program import Reg, RegRef
from layoutalg.codegen.terms import Arithmetic
from layoutalg.decide import cosize, is_injective
from layoutalg.dtype import DType, dtype
from layoutalg.errors import NotInjectiveError, ShapeError
from layoutalg.layout import Layout, coalesce, layout_size, leaves, modes


@dataclass(frozen=True, slots=True)
class Fragment(Arithmetic):
    """Elements of `reg` at the places of `layout`, which gives the number of the element from `start` on.

    Immutable.  `per_word` elements share a word, from its low bits on; wider elements than a word take
    several.  Raises NotInjectiveError where two places are one element, ShapeError where one lies outside of
    the registers.

    >>> from layoutalg.dtype import dtype
    >>> acc = Fragment(Reg("acc", (8, 4)), dtype("f32"), Layout(((2, 2), 4, 2)))
    >>> print(acc[None, 3, 1].words, acc.at(6, values=2))
    acc[7] acc[1][2]..+2
    """

    reg: Reg
    element: DType
    layout: Layout
    per_word: int = 1
    start: Expr = field(default_factory=lambda: Const(0))

    def __post_init__(self) -> None:
        if not is_injective(self.layout):
            raise NotInjectiveError(
                f"{self.reg.name}: two places of {self.layout} are one register", layout=self.layout
            )
        there, needed = math.prod(self.reg.shape), self.start.facts.hi + cosize(self.layout)
        if words_of(self.element, needed, self.per_word) > there:
            raise ShapeError(
                f"{self.reg.name}: {self} of {self.element} takes "
                f"{words_of(self.element, needed, self.per_word)} words, and {there} are there"
            )

    @property
    def shape(self) -> Any:
        """The shape of the places."""
        return self.layout.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return layout_size(self.layout)

    @property
    def vector(self) -> int:
        """Elements of a row of registers: what an instruction loads or computes at once."""
        return self.reg.shape[-1] * self.per_word // max(1, self.element.bits // 32)

    @property
    def run(self) -> int:
        """Elements of a row that are side by side in the order of the places, from each multiple of it on.

        >>> from layoutalg.dtype import dtype
        >>> pairs = Fragment(Reg("v", (1, 8)), dtype("f32"), Layout((2, 4)))
        >>> pairs.run, pairs[0, None].run
        (8, 1)
        """
        extent, step = next(((s, d) for s, d in leaves(coalesce(self.layout)) if s > 1), (1, 1))
        most = gcd(self.vector, extent) if step == 1 else 1
        return next(n for n in range(most, 0, -1) if most % n == 0 and self.start.facts.divisible_by(n))

    def at(self, *crd: Any, values: int = 1) -> RegRef:
        """The words of `values` elements from a place on: one flat index, or one per mode, at any depth.

        The place starts a word.  Raises ShapeError where the elements do not lie side by side.
        """
        if not _is_run(self.layout, values):
            raise ShapeError(f"{values} elements of {self} do not lie side by side in registers")
        first = simplify(self.start + as_expr(self.layout(*crd)))
        word = first * (self.element.bits // 32) if self.element.bits > 32 else first // self.per_word
        (*outer, row), count = self.reg.shape, words_of(self.element, values, self.per_word)
        rows = (simplify(word // row),) if outer else ()
        if count == row:
            return RegRef(self.reg, rows)
        return RegRef(self.reg, (*rows, simplify(word % row)), count)

    @property
    def words(self) -> RegRef:
        """All its words, which lie side by side."""
        return self.at(0, values=self.size)

    def __getitem__(self, crd: Any) -> Fragment:
        """The modes that None keeps, at a place in the others: `acc[None, i, j]` is what one mma adds to,
        `v[i]` the element at a flat index."""
        crd = crd if isinstance(crd, tuple) else (crd,)
        if len(crd) != len(modes(self.layout)) and (len(crd) > 1 or None in crd):
            raise ShapeError(f"{self}[{crd}]: the fragment has {len(modes(self.layout))} modes")
        kept = any(c is None for c in crd)
        rest: Layout = self.layout(*(None if c is None else 0 for c in crd)) if kept else Layout(1)
        moved = self.layout(*(0 if c is None else c for c in crd))
        return replace(self, layout=rest, start=simplify(self.start + as_expr(moved)))

    def view(self, layout: Layout) -> Fragment:
        """The same registers under another layout, such as `TiledCopy.retile` of its own."""
        return replace(self, layout=layout)

    def recast(self, element: str | DType) -> Fragment:
        """The same bits as elements of another width, such as the two s4 of each u8, from the low bits on.

        Raises ShapeError where an element would lie in two parts.

        >>> from layoutalg.dtype import dtype
        >>> print(Fragment(Reg("v", (2, 1)), dtype("u8"), Layout((4, 2)), 4).recast("s4").layout)
        (8,2):(1,8)
        """
        new, old = dtype(element), self.element.bits
        side_by_side = self.per_word * old
        if side_by_side % new.bits or not self.start.facts.divisible_by(max(1, new.bits // old)):
            raise ShapeError(f"{self} of {self.element} as {new}: {side_by_side} bits lie in a register")
        layout = cast(Layout, recast_layout(self.layout, old, new.bits))
        start = simplify(self.start * old // new.bits)
        per_word = max(1, min(32, side_by_side) // new.bits)
        return replace(self, element=new, layout=layout, per_word=per_word, start=start)

    def __str__(self) -> str:
        return f"{self.reg.name} + {self.start} o {self.layout}"


@functools.lru_cache(maxsize=1 << 10)
def _is_run(layout: Layout, values: int) -> bool:
    """True where the first places lie side by side."""
    return all(layout(v) == v for v in range(values))


def words_of(element: DType, elements: int, per_word: int) -> int:
    """32-bit words of so many elements side by side.

    >>> from layoutalg.dtype import dtype
    >>> words_of(dtype("f16"), 8, 2), words_of(dtype("f64"), 2, 1)
    (4, 4)
    """
    return -(-elements // per_word) * max(1, element.bits // 32)
