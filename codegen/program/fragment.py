"""Fragment: the registers of a thread, by the same places (value, rest, ...) as the partition they stand for.

The idea.  Registers are a small array of 32-bit words, and what a thread holds of a tile has a shape: values
of one instruction first, then the instructions along each mode.  A layout of integers says where a place is:

    ((4,1),2,1):((1,0),4,0)      two vectors of four f32: v[2][4]
    ((2,2),4,8):((1,2),4,16)     accumulators of 4 x 8 mma

Elements narrower than a word share it, as they do in memory.  A place is found by integers and the variables
of unrolled loops, since registers have no address.

Source: CUTLASS, include/cute/tensor_impl.hpp, make_fragment_like.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from layoutalg.codegen.expr import Expr, as_expr, simplify
from layoutalg.codegen.program.tile import Reg, RegRef
from layoutalg.decide import cosize, is_injective
from layoutalg.dtype import DType
from layoutalg.errors import NotInjectiveError, ShapeError
from layoutalg.layout import Layout, layout_size, modes


@dataclass(frozen=True, slots=True)
class Fragment:
    """Elements of `reg` at the places of `layout`, which gives the number of the element; immutable.

    `per_word` elements share a word, from its low bits on; wider elements than a word take several.  Raises
    NotInjectiveError where two places are one element, ShapeError where one lies outside of the registers.
    """

    reg: Reg
    element: DType
    layout: Layout
    per_word: int = 1

    def __post_init__(self) -> None:
        if not is_injective(self.layout):
            raise NotInjectiveError(
                f"{self.reg.name}: two places of {self.layout} are one register", layout=self.layout
            )
        there = math.prod(self.reg.shape)
        if self.words(cosize(self.layout)) > there:
            raise ShapeError(
                f"{self.reg.name}: {self.layout} of {self.element} takes {self.words(cosize(self.layout))} "
                f"words, and {there} are there"
            )

    @property
    def shape(self) -> Any:
        """The shape of the places."""
        return self.layout.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return layout_size(self.layout)

    def words(self, elements: int) -> int:
        """32-bit words of so many elements side by side."""
        return words_of(self.element, elements, self.per_word)

    def at(self, *crd: Any, values: int = 1) -> RegRef:
        """The words of `values` elements from a place on: one flat index, or one per mode, at any depth.

        The place starts a word.
        """
        first = simplify(as_expr(self.layout(*crd)))
        wide = max(1, self.element.bits // 32)
        word = simplify(first * wide) if self.per_word == 1 else _divided(first, self.per_word)
        row = self.reg.shape[-1]
        count = self.words(values)
        if count == row:
            return RegRef(self.reg, (_divided(word, row),))
        return RegRef(self.reg, (_divided(word, row), simplify(word % row)), count)

    def __getitem__(self, rest: Any) -> RegRef:
        """The words of all values of mode 0, at a place in the other modes."""
        rest = rest if isinstance(rest, tuple) else (rest,)
        return self.at(0, *rest, values=layout_size(modes(self.layout)[0]))

    def view(self, layout: Layout) -> Fragment:
        """The same registers under another layout."""
        return Fragment(self.reg, self.element, layout, self.per_word)

    def __str__(self) -> str:
        return f"{self.reg.name} o {self.layout}"


def words_of(element: DType, elements: int, per_word: int) -> int:
    """32-bit words of so many elements side by side.

    >>> from layoutalg.dtype import dtype
    >>> words_of(dtype("f16"), 8, 2), words_of(dtype("f64"), 2, 1)
    (4, 4)
    """
    return -(-elements // per_word) * max(1, element.bits // 32)


def _divided(value: Expr, by: int) -> Expr:
    return simplify(value // by) if by > 1 else value
