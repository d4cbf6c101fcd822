"""Values of CuTe while a kernel is read: integers that change from thread to thread, tensors, atoms, tilings.

The idea.  A layout holds integers, and a symbol where C++ has an `int`, whether its value is known or not:
what is static decides what CuTe does.  A coordinate is an Index, a sum over threads and turns, and
`Layout.__call__` runs on it as on any number.  A tensor is a pointer, swizzles, an offset under them and a
plain layout: a slice moves the offset, as in CuTe.

    Index      an integer of the kernel with the operators of numbers
    symbol     an int in a layout
    Tensor     a pointer and a layout
    Atom       an instruction, or a copy whose width CuTe chooses
    Tiled      a TiledCopy or a TiledMMA, and the thread of a slice
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from layoutalg.atoms import CopyAtom, MMAAtom
from layoutalg.errors import UnsupportedError
from layoutalg.layout import (
    Layout,
    ScaledBasis,
    Swizzles,
    flatten_tree,
    is_symbolic,
    leaves,
    modes,
    slice_and_offset,
    unflatten_tree,
)
from layoutalg.source import terms
from layoutalg.source.terms import Sum, constant
from layoutalg.source.values import Address, Unknown, moved

NONE = Swizzles()
"""No swizzles."""

FROZEN = 1 << 40
"""Greater than every static extent and stride: a symbol stands for more in `frozen`."""

MOST_EXTENT = 1 << 16
"""The longest mode under a swizzle whose bits are looked at."""

_numbers = itertools.count()


def _operator(operation: Callable[[Sum, Sum], Sum | None]) -> Callable[[Index, Any], Index]:
    """An operator of Index by that of sums."""

    def apply(self: Index, other: Any) -> Index:
        a, b = self.value, Index.of(other).value
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return Index(a if isinstance(a, Unknown) else b)
        result = operation(a, b)
        return Index(Unknown("a number is divided by one that may be zero") if result is None else result)

    return apply


class Index:
    """An integer of the kernel: its sum, or why it is not known."""

    __slots__ = ("value",)

    def __init__(self, value: Sum | Unknown) -> None:
        self.value = value

    @staticmethod
    def of(value: Any) -> Index:
        """A number, an expression of symbols or an Index as an Index."""
        if isinstance(value, Index):
            return value
        return Index(constant(value)) if isinstance(value, int) else _of_expression(value)

    __add__ = __radd__ = _operator(terms.add)
    _times = _operator(terms.multiply)
    __sub__ = _operator(terms.minus)
    __floordiv__ = _operator(terms.divide)
    __mod__ = _operator(terms.remainder)
    __and__, __xor__ = (_operator(functools.partial(terms.bits, name)) for name in ("and", "xor"))
    less = _operator(functools.partial(terms.compare, "<"))
    """1 where it is less than another, else 0."""

    def __mul__(self, other: Any) -> Any:
        """The product; a stride of 0 leaves nothing that is known at run time alone, as in CuTe."""
        if isinstance(other, ScaledBasis):
            return NotImplemented
        return 0 if type(other) is int and other == 0 else self._times(other)

    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Index:
        return Index.of(other) - self

    def __rshift__(self, other: int) -> Index:
        return self // (1 << other)

    def __lshift__(self, other: int) -> Index:
        return self._times(1 << other)

    def __str__(self) -> str:
        return str(self.value)


@functools.cache
def _symbols() -> Any:
    """The class of symbols that stand for an Index."""
    import sympy

    class Dynamic(sympy.Symbol):  # type: ignore[misc]
        """A symbol with the `index` that it stands for."""

        __slots__ = ("index",)

    return Dynamic


def symbol(index: Index) -> Any:
    """A symbol for an int in a layout."""
    made = _symbols()(f"n{next(_numbers)}", integer=True, positive=True)
    made.index = index
    return made


def _of_expression(value: Any) -> Index:
    """An expression of symbols as sympy writes it."""
    import sympy

    if value.is_Integer:
        return Index(constant(int(value)))
    if value.is_Symbol and isinstance(value, _symbols()):
        return Index(value.index.value)
    parts = value.args
    if value.is_Add or value.is_Mul:
        total: Index = Index.of(parts[0])
        for part in parts[1:]:
            total = total + part if value.is_Add else total * part
        return total
    if isinstance(value, (sympy.floor, sympy.ceiling)):
        above, below = map(Index.of, sympy.fraction(sympy.together(parts[0])))
        return Index.of((above if isinstance(value, sympy.floor) else above + (below - 1)) // below)
    if isinstance(value, sympy.Mod):
        return Index.of(Index.of(parts[0]) % parts[1])
    if value.is_Pow and parts[1].is_Integer and parts[1] > 0:
        return Index.of(Index.of(parts[0]) * parts[0] ** (parts[1] - 1))
    return Index(Unknown(f"{value} is computed at run time"))


def dynamic(value: Any) -> Any:
    """A coordinate as a part of a layout: every Index becomes a symbol."""
    if isinstance(value, tuple):
        return tuple(map(dynamic, value))
    return symbol(value) if isinstance(value, Index) else value


def is_static(value: Any) -> bool:
    """Whether C++ knows a value at compile time: a number, a tuple or a plain layout without symbols."""
    if isinstance(value, Layout):
        return is_static((value.shape, value.stride))
    parts: tuple[object, ...] = flatten_tree(value)
    return not any(isinstance(v, Index) or is_symbolic(v) for v in parts)


def frozen(layout: Layout) -> Layout:
    """A layout with a large number in place of every symbol, the larger the further right.

    CuTe puts dynamic strides behind all static ones, and joins none of them.
    """
    count = itertools.count(1)

    def of(tree: Any) -> Any:
        parts = tuple(FROZEN * next(count) + 1 if is_symbolic(v) else v for v in flatten_tree(tree))
        return unflatten_tree(parts, tree)

    return layout if is_static(layout) else Layout(of(layout.shape), of(layout.stride))


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """Elements of type `kind`, of `bits` bits, at pointer + swizzles(at + layout(coordinate)).

    Of `at`, `loose` are the bits that C++ does not know.  A tensor of coordinates has no pointer: its strides
    go along modes of a coordinate, and `at` is one.
    """

    pointer: Address | Unknown | None
    layout: Layout
    bits: int = 0
    kind: str = ""
    at: Any = 0
    swizzles: Swizzles = NONE
    loose: int = 0

    def of(self, change: Callable[[Layout], Layout]) -> Tensor:
        """The same elements by another layout."""
        return replace(self, layout=change(self.layout))

    def sliced(self, coordinate: Any) -> Tensor:
        """The tensor of the modes that a coordinate keeps with None."""
        rest, moved_by = slice_and_offset(coordinate, self.layout)
        if not isinstance(rest, Layout):
            raise UnsupportedError(f"a part of {self.layout}")
        loose = self.loose | (_loose_bits(coordinate, self.layout) if self.swizzles else 0)
        return replace(self, layout=rest, at=self.at + moved_by, loose=loose)

    def index(self, coordinate: Any) -> Index:
        """The number of an element from the pointer on."""
        offset = Index.of(self.at + self.layout(coordinate))
        for swizzle in reversed(tuple(self.swizzles)):
            offset = swizzle._moved(offset)
        return offset

    def address(self, *coordinate: Any) -> Address | Unknown:
        """The address of an element."""
        if not isinstance(self.pointer, Address):
            return self.pointer or Unknown("a coordinate has no address")
        if self.bits % 8:
            return Unknown(f"elements of {self.bits} bits have no address of their own")
        offset = self.index(coordinate[0] if len(coordinate) == 1 else coordinate).value
        if isinstance(offset, Unknown):
            return Unknown(offset.why, offset.name, offset.carried, self.pointer.array)
        return moved(self.pointer, terms.scale(offset, self.bits // 8))

    @property
    def in_memory(self) -> bool:
        """Whether the elements are in memory, or not known to be in registers."""
        return not (isinstance(self.pointer, Address) and self.pointer.array.space == "local")

    def normal(self) -> Tensor:
        """The tensor without swizzles where CuTe has none after a slice; a bit may decide a stride then.

        The layout under a swizzle that has both bits of a pair stays under it.
        """
        pairs = [pair for each in self.swizzles for pair in each.bit_pairs()]
        if not pairs:
            return self
        every = functools.reduce(operator.or_, (bits_of_leaf(s, d) for s, d in leaves(self.layout)), 0)
        if any(every >> y & 1 and every >> z & 1 for y, z in pairs):
            return self
        strides = []
        for s, d in leaves(self.layout):
            mine = bits_of_leaf(s, d)
            others = [b for y, z in pairs for a, b in ((y, z), (z, y)) if mine >> a & 1]
            if any(self.loose >> bit & 1 for bit in others):
                strides.append(symbol(Index.of(d)))
            elif others and type(self.at) is int and self.at:
                raise UnsupportedError("a swizzle that begins at a number that is not 0")
            else:
                strides.append(d)
        layout = Layout(self.layout.shape, unflatten_tree(tuple(strides), self.layout.shape))
        return replace(self, layout=layout, swizzles=NONE)

    @property
    def is_static(self) -> bool:
        """Whether the layout is static for CuTe: that of swizzles has the offset in it."""
        normal = self.normal()
        moved_bits = sum(each.yyy_mask | each.zzz_mask for each in normal.swizzles)
        return is_static(normal.layout) and not normal.loose & moved_bits


def bits_of_leaf(extent: Any, stride: Any) -> int:
    """The bits of the offsets that a mode reaches."""
    if not (is_static(extent) and is_static(stride)):
        raise UnsupportedError("a swizzle of a layout that is not static")
    if extent > MOST_EXTENT:
        raise UnsupportedError(f"a swizzle of a mode of {extent} elements")
    return functools.reduce(operator.or_, (abs(stride) * at for at in range(extent)), 0)


def _loose_bits(coordinate: Any, layout: Layout) -> int:
    """The bits of an offset that C++ does not know, where a coordinate has numbers of the run time."""
    if isinstance(coordinate, tuple) and isinstance(layout.shape, tuple):
        return functools.reduce(operator.or_, map(_loose_bits, coordinate, modes(layout)), 0)
    if not isinstance(coordinate, Index):
        return 0
    return functools.reduce(operator.or_, (bits_of_leaf(s, d) for s, d in leaves(layout)), 0)


@dataclass(frozen=True, slots=True)
class Atom:
    """An instruction; AutoVectorizingCopyWithAssumedAlignment<`assumed`> is as wide as CuTe makes it."""

    instruction: CopyAtom | MMAAtom
    assumed: int = 0

    @property
    def copy(self) -> CopyAtom:
        """The instruction of a copy.  Raises UnsupportedError for one that multiplies."""
        if not isinstance(self.instruction, CopyAtom):
            raise UnsupportedError(f"a copy by {self.instruction}, which multiplies")
        return self.instruction


@dataclass(frozen=True, slots=True)
class Tiled:
    """A TiledCopy or a TiledMMA, with the atom as it was given, and the thread of a slice."""

    tiling: Any
    atom: Atom
    thread: Any = 0
