"""TiledCopy: copy instructions side by side, and what every thread reads and writes of a tile.

The idea.  A tiled copy is a thread-value layout of a tile, (thread, value) -> index, columns first, and an
atom that moves some of those values at once.  Where an atom's source and destination spread their values
differently, as ldmatrix does, the tile is laid out by the side that is the atom's reference, and the other
side follows by going through the atom: source (thread, value) -> bits -> reference (thread, value) -> index.

    threads (32,4):(4,1), values (1,4):(0,1), 64-bit vectors of f16     a row of 16 by 4 threads, 4 each

>>> from layoutalg.layout import Layout
>>> copy = make_tiled_copy("UniversalCopy<uint64_t>", "f16", Layout((32, 4), (4, 1)), Layout((1, 4)))
>>> print(copy.threads, copy.tile_shape, copy.get_layoutS_TV())
128 (32, 16) ((4,32),(4,1)):((128,1),(32,0))
>>> mine, offset = copy.get_slice(5).partition_S(Layout((64, 16), (16, 1)))
>>> print(mine, offset)
((4,1),2,1):((1,0),512,0) 20

To feed a TiledMMA, the atom's reference side is the MMA's operand:

>>> from layoutalg.atoms import make_tiled_mma
>>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
>>> print(make_tiled_copy_A("SM75_U32x4_LDSM_N", mma).get_layoutS_TV())
((16,2,2,2),(8,1)):((1,256,16,0),(32,0))

of 32 lanes, 16 read rows and 2 halves along K; two warps read the same.

Notes.  Partitions are (value, rest, rest, ...), where value is (values of one instruction, instructions).
`element` is the type that values are counted in.

Source: CUTLASS, include/cute/atom/copy_atom.hpp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, overload

from layoutalg.algebra import (
    left_inverse,
    logical_product,
    raked_product,
    right_inverse,
    upcast,
    zipped_divide,
)
from layoutalg.atoms.atom import CopyAtom, Operand
from layoutalg.atoms.registry import find_copy_atom
from layoutalg.atoms.tensor import Tensor
from layoutalg.atoms.tiled_mma import OF_OPERAND, TiledMMA
from layoutalg.atoms.tiling import Matrix, as_layout, check_multiples, compose_first, nearest_multiple, take
from layoutalg.compose import Tiler, by_mode, compose_layouts, composition, tiler_text
from layoutalg.decide import cosize, is_bijective
from layoutalg.dtype import DType
from layoutalg.errors import NotInjectiveError, ShapeError, check_type
from layoutalg.layout import (
    AnyLayout,
    Layout,
    coalesce,
    concat,
    filter,
    layout_size,
    map_innermost,
    modes,
    size,
    whole_number,
)
from layoutalg.notebook import Shown

ONE = Layout(1)
"""The layout of one value per thread."""

Side: TypeAlias = Literal["src", "dst"]
"""A side of a copy."""


@dataclass(frozen=True, slots=True)
class TiledCopy(Shown):
    """`atom` on values of type `element`, tiled by `layout_tv` over tiles of shape `tiler`.

    `layout_tv` maps (thread, value) of the atom's reference side to the flat index of a tile, columns first.
    Made by `make_tiled_copy` and its kin, which check what this record takes as it is.
    """

    atom: CopyAtom
    element: DType
    layout_tv: Layout
    tiler: tuple[Tiler, ...]

    @property
    def threads(self) -> int:
        """Threads that take part."""
        return layout_size(modes(self.layout_tv)[0])

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Extents of the tile."""
        return tuple(size(as_layout(mode)) for mode in self.tiler)

    def _of_side(self, side: Side) -> Layout:
        """(thread, (FrgV,FrgX)) of one side -> flat index of the tile."""
        reference = self.atom.value_layout("ref", self.element)
        through = compose_layouts(right_inverse(reference), self.atom.value_layout(side, self.element))
        counts = tuple(layout_size(mode) for mode in modes(reference))
        atoms = zipped_divide(self.layout_tv, counts)
        held, rest = modes(compose_first(atoms, through))
        zipped = concat(concat(held[0], rest[0]), concat(held[1], rest[1]))
        return coalesce(zipped, (1, (1, 1)))

    def tidfrg(self, side: Side, matrix: Matrix) -> Matrix:
        """The matrix as (thread, ((FrgV,FrgX),(RestM,RestN,...))): CuTe's tidfrg_S and tidfrg_D.

        The thread may be an index expression as well as a number.  Of `Layout(shape)` it is the `tv` of an
        analysis.Access by the atom's `src_op` or `dst_op`.  Raises ShapeError when a mode is not a
        multiple of the tile, and what `composition` raises.
        """
        places = self._of_side(side)
        check_multiples(f"{side} of {self}", matrix, self.tile_shape)

        def change(layout: Layout) -> Layout:
            tiles = zipped_divide(layout, self.tiler)
            held, rest = modes(compose_first(tiles, places))
            return concat(held[0], concat(held[1], rest))

        return map_innermost(matrix, change)

    def get_layoutS_TV(self) -> Layout:
        """(thread, (FrgV,FrgX)) of the source -> flat index of the tile, columns first."""
        return compose_layouts(Layout(self.tile_shape), self._of_side("src"))

    def get_layoutD_TV(self) -> Layout:
        """(thread, (FrgV,FrgX)) of the destination -> flat index of the tile, columns first."""
        return compose_layouts(Layout(self.tile_shape), self._of_side("dst"))

    def get_slice(self, thread: int) -> ThrCopy:
        """The part of a copy that one thread does.  Raises ShapeError for a thread that takes no part."""
        number = whole_number(thread, "thread")
        if not 0 <= number < self.threads:
            raise ShapeError(f"thread {number} takes no part in {self}, which has {self.threads} threads")
        return ThrCopy(self, number)

    def retile(self, fragment: Layout) -> Layout:
        """Registers (V,M,N,...) that a TiledMMA laid out, as ((values of an instruction, more), M', N', ...).

        Raises what `upcast` and `composition` raise when the instructions do not divide the fragment.
        """
        values = layout_size(modes(fragment)[0])
        shape = Layout(self.tile_shape)
        by_index = upcast(compose_layouts(right_inverse(self.layout_tv), shape), self.threads * values)
        count = layout_size(modes(self.atom.value_layout("ref", self.element))[1])
        order = zipped_divide(logical_product(Layout(values), right_inverse(by_index)), Layout(count))
        extents = tuple(layout_size(mode) for mode in modes(by_index))
        tiles = zipped_divide(fragment, (values, *extents))
        held, rest = modes(compose_first(tiles, order))
        return concat(held, *modes(rest)[1:])

    def __str__(self) -> str:
        return f"{self.atom} of {self.element}, {self.layout_tv} on {tiler_text(self.tiler)}"


@dataclass(frozen=True, slots=True)
class ThrCopy:
    """A thread of a TiledCopy."""

    tiled: TiledCopy
    thread: int

    @overload
    def partition(self, side: Side, matrix: Tensor) -> Tensor: ...
    @overload
    def partition(self, side: Side, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition(self, side: Side, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The thread's elements as ((FrgV,FrgX),RestM,RestN,...): (layout, offset), or a tensor.

        Raises what `TiledCopy.tidfrg` raises.
        """
        layout = self.tiled.tidfrg(side, matrix.layout if isinstance(matrix, Tensor) else matrix)
        return take(matrix, layout, self.thread)

    @overload
    def partition_S(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_S(self, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition_S(self, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The elements that the thread reads."""
        return self.partition("src", matrix)

    @overload
    def partition_D(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_D(self, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition_D(self, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The elements that the thread writes."""
        return self.partition("dst", matrix)

    @overload
    def retile(self, fragment: Tensor) -> Tensor: ...
    @overload
    def retile(self, fragment: Layout) -> Layout: ...
    def retile(self, fragment: Layout | Tensor) -> Layout | Tensor:
        """Registers of a TiledMMA as this copy fills or empties them: CuTe's retile_S and retile_D."""
        if not isinstance(fragment, Tensor):
            return self.tiled.retile(fragment)
        if not isinstance(fragment.layout, Layout):
            raise ShapeError(f"retile of {fragment}: registers have a plain layout")
        return fragment.view(self.tiled.retile(fragment.layout))


def tile_copy(
    atom: str | CopyAtom, element: str | DType | None, layout_tv: Layout, tiler: tuple[Tiler, ...]
) -> TiledCopy:
    """A tiled copy from its thread-value layout: CuTe's make_tiled_copy_impl, checked.

    An `element` of None is that of the atom, a Copy_Atom<Op, T>.

    Raises UnknownNameError for names, ShapeError when threads or values are not multiples of the atom's or
    the layout leaves the tile.

    >>> print(tile_copy("UniversalCopy<uint32_t>", "f32", Layout((32, 4), (1, 32)), (32, 4)).get_layoutD_TV())
    (32,(1,4)):(1,(0,32))
    """
    atom = find_copy_atom(atom)
    element = atom.value_type(element)
    made = TiledCopy(atom, element, layout_tv, tiler)
    if len(modes(layout_tv)) != 2:
        raise ShapeError(f"{made}: {layout_tv} does not have the two modes (thread, value)")
    if cosize(layout_tv) > math.prod(made.tile_shape):
        raise ShapeError(
            f"{made}: {layout_tv} reaches index {cosize(layout_tv) - 1} of a tile of "
            f"{math.prod(made.tile_shape)} elements"
        )
    counts = (layout_size(mode) for mode in modes(atom.value_layout("ref", element)))
    for what, mode, count in zip(("threads", "values"), modes(layout_tv), counts, strict=True):
        if layout_size(mode) % count:
            raise ShapeError(
                f"{made}: {layout_size(mode)} {what}, of which {atom} takes {count}; the nearest multiple is "
                f"{nearest_multiple(layout_size(mode), count)}"
            )
    return made


def make_tiled_copy(
    atom: str | CopyAtom, element: str | DType | None, thr_layout: Layout, val_layout: Layout = ONE
) -> TiledCopy:
    """A copy by threads (m, n) -> thread, each of the values (m, n) -> value next to each other.

    An `element` of None is that of the atom, a Copy_Atom<Op, T>.

    Raises NotInjectiveError unless both layouts count from 0 without gaps and repetitions, and what
    `tile_copy` raises.

    Source: CUTLASS, include/cute/atom/copy_atom.hpp, make_tiled_copy.

    >>> threads, values = Layout((32, 8), (8, 1)), Layout((1, 4))
    >>> copy = make_tiled_copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "f32", threads, values)
    >>> print(copy.tile_shape, copy.get_layoutD_TV())
    (32, 32) ((8,32),(4,1)):((128,1),(32,0))
    """
    atom = find_copy_atom(atom)
    for what, layout in (("threads", thr_layout), ("values", val_layout)):
        if not is_bijective(layout):
            raise NotInjectiveError(
                f"make_tiled_copy({atom}, {element}, {thr_layout}, {val_layout}): {layout} does not number "
                f"{layout_size(layout)} {what} from 0, each once",
                layout=layout,
            )
    layout_mn = raked_product(thr_layout, val_layout)
    counts = (layout_size(thr_layout), layout_size(val_layout))
    layout_tv = compose_layouts(right_inverse(layout_mn), Layout(counts))
    return tile_copy(atom, element, layout_tv, tuple(layout_size(mode) for mode in modes(layout_mn)))


def _of_operand(
    operand: Operand, atom: str | CopyAtom, mma: TiledMMA, element: str | DType | None
) -> TiledCopy:
    """A copy by the threads and values of an operand, of its element type where none is given."""
    check_type(f"make_tiled_copy_{operand}", mma, TiledMMA, "a TiledMMA")
    if element is None:
        element = find_copy_atom(atom).element or mma.atom.dtype(operand)
    tile = tuple(mma.tile_shape[mode] for mode in OF_OPERAND[operand])
    return tile_copy(atom, element, mma.layout_tv(operand), tile)


def make_tiled_copy_A(atom: str | CopyAtom, mma: TiledMMA, element: str | DType | None = None) -> TiledCopy:
    """The copy of A's tile whose reference side is how `mma` holds A; `element` is A's type by default.

    Raises what `tile_copy` raises.

    >>> from layoutalg.atoms import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x8_F32TF32TF32F32_TN", (2, 1, 1))
    >>> print(make_tiled_copy_A("UniversalCopy<uint32_t>", mma).get_layoutD_TV())
    ((4,8,2),(1,(2,2))):((32,1,16),(0,(8,128)))
    """
    return _of_operand("A", atom, mma, element)


def make_tiled_copy_B(atom: str | CopyAtom, mma: TiledMMA, element: str | DType | None = None) -> TiledCopy:
    """The copy of B's tile whose reference side is how `mma` holds B; `element` is B's type by default.

    Raises what `tile_copy` raises.

    >>> from layoutalg.atoms import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1))
    >>> print(make_tiled_copy_B("SM75_U32x2_LDSM_N", mma).get_layoutS_TV())
    ((8,2,4),(8,1)):((1,64,0),(8,0))
    """
    return _of_operand("B", atom, mma, element)


def make_tiled_copy_C(atom: str | CopyAtom, mma: TiledMMA, element: str | DType | None = None) -> TiledCopy:
    """The copy of C's tile whose reference side is how `mma` holds C; `element` is C's type by default.

    Raises what `tile_copy` raises.

    >>> from layoutalg.atoms import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1))
    >>> print(make_tiled_copy_C("SM90_U32x2_STSM_N", mma, "f16").get_layoutD_TV())
    ((16,2,2),(8,1)):((1,0,16),(32,0))
    """
    return _of_operand("C", atom, mma, element)


def make_tiled_copy_S(atom: str | CopyAtom, copy: TiledCopy) -> TiledCopy:
    """The copy by another atom whose reference side is the source side of `copy`.

    Raises what `tile_copy` raises.

    >>> copy = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((8, 4), (4, 1)), Layout((1, 4)))
    >>> print(make_tiled_copy_S("UniversalCopy<uint64_t>", copy).get_layoutS_TV())
    ((4,8),(2,2)):((32,1),(8,16))
    """
    check_type("make_tiled_copy_S", copy, TiledCopy, "a TiledCopy")
    return tile_copy(atom, copy.element, copy.get_layoutS_TV(), copy.tiler)


def make_tiled_copy_D(atom: str | CopyAtom, copy: TiledCopy) -> TiledCopy:
    """The copy by another atom whose reference side is the destination side of `copy`.

    Raises what `tile_copy` raises.

    >>> copy = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((8, 4), (4, 1)), Layout((1, 4)))
    >>> print(make_tiled_copy_D("UniversalCopy<uint64_t>", copy).get_layoutD_TV())
    ((4,8),(2,2)):((32,1),(8,16))
    """
    check_type("make_tiled_copy_D", copy, TiledCopy, "a TiledCopy")
    return tile_copy(atom, copy.element, copy.get_layoutD_TV(), copy.tiler)


def make_tiled_copy_C_atom(
    atom: str | CopyAtom, mma: TiledMMA, element: str | DType | None = None
) -> TiledCopy:
    """The smallest copy of a part of C: every thread's first values, as many as one instruction takes.

    An epilogue stores C through it part by part.  Raises what `tile_copy` raises, and ShapeError when a
    thread holds fewer values.

    Source: CUTLASS, include/cute/atom/copy_atom.hpp, make_tiled_copy_C_atom.

    >>> from layoutalg.atoms import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1), (32, 32, 16))
    >>> copy = make_tiled_copy_C_atom("SM90_U32x2_STSM_N", mma, "f16")
    >>> print(copy.tile_shape, copy.layout_tv)
    (32, 8) ((4,8,2),(2,2)):((32,1,8),(128,16))
    """
    check_type("make_tiled_copy_C_atom", mma, TiledMMA, "a TiledMMA")
    atom = find_copy_atom(atom)
    element = atom.value_type(element or atom.element or mma.atom.dtypes.c)
    c_tv = mma.get_layoutC_TV()
    threads, values = (layout_size(mode) for mode in modes(c_tv))
    count = layout_size(modes(atom.value_layout("src", element))[1])
    if count > values:
        raise ShapeError(f"{atom} takes {count} values of {element}, and a thread of {mma} holds {values}")
    held = compose_layouts(c_tv, Layout((threads, count)))
    m, n, _ = mma.tile_shape
    tiler = tuple(filter(compose_layouts(Layout((m, n), unit), held)) for unit in ((1, 0), (0, 1)))
    to_mma = by_mode("composition", composition, Layout((m, n)), tiler, keep=False)
    return tile_copy(atom, element, compose_layouts(left_inverse(to_mma), held), tiler)
