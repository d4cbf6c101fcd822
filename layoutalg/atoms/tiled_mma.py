"""TiledMMA: matrix instructions side by side, and what every thread then owns of A, B and C.

The idea.  `atom_layout` puts M x N x K atoms side by side, each with its own threads.  Together they cover a
tile once; `permutations` ask for a larger tile, which the same threads walk over in several steps, or for
another order of its rows and columns.

    atom 16 x 8 x 16 of 32 threads, atom_layout (2,2,1)          tile 32 x 16 x 16, 128 threads
    the same, permutations (32, 32, 16)                          tile 32 x 32 x 16, two steps along N

Everything follows by dividing a matrix three times: by the permutation, by the atom, whose (M,K) then becomes
(thread, value), and by the threads:

    thrfrg(A)     ((ThrV,(ThrM,ThrK)),(FrgV,(RestM,RestK)))     ThrV, FrgV: thread and value of the atom

>>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
>>> mma.threads, mma.tile_shape, str(mma.get_layoutC_TV())
(128, (32, 32, 16), '((4,8,2,2),((2,2),(1,2))):((64,1,16,256),((32,8),(0,512)))')
>>> mine, offset = mma.get_slice(37).partition_A(Layout((64, 32), (32, 1)))
>>> print(mine, offset)
((2,2,2),2,2):((1,256,8),1024,16) 546

Thread 37 is lane 5 of the second warp along M: its first element is row 17, column 2 of A, at 17 * 32 + 2,
and it holds 8 values of 2 x 2 atoms.

Notes.  A matrix is a Layout, a swizzled layout or a Tensor.  Of a layout, a partition is (layout, offset), of
a tensor a tensor over the same buffer.  CuTe hands out elements beyond the tile in two cases: where the atoms
overhang the tile, which make_tiled_mma refuses (the bare TiledMMA computes what CuTe does), and in the layout
of C when atoms lie along K, which here all hold the same C.

Source: CUTLASS, include/cute/atom/mma_atom.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from layoutalg.algebra import (
    complement,
    logical_divide,
    make_fragment_like,
    right_inverse,
    tiled_product,
    zipped_divide,
)
from layoutalg.atoms.atom import MMAAtom, Operand, check_operand
from layoutalg.atoms.registry import find_mma_atom
from layoutalg.atoms.tensor import Tensor
from layoutalg.atoms.tensor_memory import tmem_layout
from layoutalg.atoms.tiling import Matrix, as_layout, check_multiples, compose_first, nearest_multiple, take
from layoutalg.compose import Tiler, compose_layouts, tiler_text
from layoutalg.decide import cosize, find_coordinate, is_bijective, is_injective
from layoutalg.errors import (
    ArgumentTypeError,
    NotInjectiveError,
    ResourceError,
    ShapeError,
    UnsupportedError,
    shown,
)
from layoutalg.layout import (
    AnyLayout,
    Layout,
    concat,
    coordinate_at,
    flatten_tree,
    innermost,
    layout_size,
    map_innermost,
    modes,
    size,
)
from layoutalg.notebook import Shown

OF_OPERAND = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}
"""The numbers, among M, N and K, of the modes that are an operand's rows and columns."""

_MAX_THREADS = 1024
"""Threads of a block: CUDA C++ Programming Guide, "Compute Capabilities", on every architecture."""


@dataclass(frozen=True, slots=True)
class TiledMMA(Shown):
    """Atoms of `atom` side by side as `atom_layout` (M,N,K), over a tile that `permutations` make.

    Made by `make_tiled_mma`, which checks what this record takes as it is.
    """

    atom: MMAAtom
    atom_layout: Layout
    permutations: tuple[Tiler, Tiler, Tiler] = (None, None, None)

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(ThrV,ThrM,ThrN,ThrK) -> thread: the atom's threads, and its copies along M, N and K."""
        return tiled_product(self.atom.thr_layout, self.atom_layout)

    @property
    def threads(self) -> int:
        """Threads that take part."""
        return layout_size(self.thr_layout_vmnk)

    @property
    def tile_shape(self) -> tuple[int, int, int]:
        """(M, N, K) of the tile."""
        m, n, k = (size(tile) for tile in self._tiles())
        return m, n, k

    def _tiles(self) -> tuple[Layout, ...]:
        """The permutation of every mode; by default what the atoms cover once."""
        copies = (layout_size(mode) for mode in modes(self.atom_layout))
        parts = zip(self.permutations, self.atom.shape_mnk, copies, strict=True)
        return tuple(as_layout(extent * n if p is None else p) for p, extent, n in parts)

    def thrfrg(self, operand: Operand, matrix: Matrix) -> Matrix:
        """The matrix as ((ThrV,(ThrX,ThrY)),(FrgV,(RestX,RestY,...))): CuTe's thrfrg_A, thrfrg_B, thrfrg_C.

        `matrix` has the operand's two modes, and may have more, which stay as they are.  Raises ShapeError
        when a mode is not a multiple of the tile, and what `composition` raises.
        """
        tile = self._tile_of(operand)
        check_multiples(f"{operand} of {self}", matrix, tile)
        return map_innermost(matrix, lambda layout: self._thrfrg(operand, layout))

    def _tile_of(self, operand: Operand) -> tuple[int, int]:
        first, second = OF_OPERAND[check_operand(operand)]
        tile = self.tile_shape
        return tile[first], tile[second]

    def _thrfrg(self, operand: Operand, layout: Layout) -> Layout:
        first, second = OF_OPERAND[operand]
        tiles, extents, copies = self._tiles(), self.atom.shape_mnk, modes(self.thr_layout_vmnk)[1:]
        by_tile = logical_divide(layout, (tiles[first], tiles[second]))
        by_atom = zipped_divide(by_tile, (Layout(extents[first]), Layout(extents[second])))
        held, rest = modes(compose_first(by_atom, self.atom.tv(operand)))
        across = Layout(layout_size(copies[first])), Layout(layout_size(copies[second]))
        (thread, value), (others, steps) = modes(held), modes(zipped_divide(rest, across))
        return concat(concat(thread, others), concat(value, steps))

    def tidfrg(self, operand: Operand, matrix: Matrix) -> Matrix:
        """The matrix as (thread, (FrgV,(RestX,RestY,...))): `thrfrg` with threads by their number.

        The thread may be an index expression as well as a number.  Raises what `thrfrg` raises.
        """
        tile = self._tile_of(operand)
        check_multiples(f"{operand} of {self}", matrix, tile)
        return map_innermost(matrix, lambda layout: self._tidfrg(operand, layout))

    def _tidfrg(self, operand: Operand, layout: Layout) -> Layout:
        vmnk = self.thr_layout_vmnk
        m, n, k = (layout_size(mode) for mode in modes(vmnk)[1:])
        by_number = compose_layouts(
            Layout((layout_size(vmnk), 1), (1, 0)), right_inverse(concat(vmnk, complement(vmnk)))
        )
        # A has the threads (ThrM,ThrK) of (ThrM,ThrN,ThrK), those along N hold the same.  B and C likewise.
        along: dict[Operand, Tiler] = {
            "A": (Layout((m, n), (1, 0)), None),
            "B": (Layout((m, n), (0, 1)), None),
            "C": (None, Layout((n, k), (1, 0))),
        }
        tiled = self._thrfrg(operand, layout)
        if operand != "C" or k > 1:
            tiled = compose_first(tiled, (None, along[operand]))
        return compose_first(tiled, by_number)

    def layout_tv(self, operand: Operand) -> Layout:
        """(thread, value) -> flat index of the operand's tile, columns first."""
        return self._tidfrg(operand, Layout(self._tile_of(operand)))

    def get_layoutA_TV(self) -> Layout:
        """(thread, value) -> m + M k of the tile."""
        return self.layout_tv("A")

    def get_layoutB_TV(self) -> Layout:
        """(thread, value) -> n + N k of the tile."""
        return self.layout_tv("B")

    def get_layoutC_TV(self) -> Layout:
        """(thread, value) -> m + M n of the tile."""
        return self.layout_tv("C")

    def get_slice(self, thread: int) -> ThrMMA:
        """The part of a product that one thread does.  Raises ShapeError for a thread that takes no part."""
        vmnk = self.thr_layout_vmnk
        flat = find_coordinate(vmnk, thread)
        if flat is None:
            raise ShapeError(f"thread {thread} takes no part in {self}, whose threads are {vmnk}")
        crd = flatten_tree(coordinate_at(flat, tuple(layout_size(mode) for mode in modes(vmnk))))
        return ThrMMA(self, thread, (crd[0], crd[1], crd[2], crd[3]))

    def __str__(self) -> str:
        m, n, k = self.tile_shape
        return f"{self.atom} x {self.atom_layout}, tile ({m},{n},{k})"


@dataclass(frozen=True, slots=True)
class ThrMMA:
    """A thread of a TiledMMA: `vmnk` is its number in the atom, and the atom's place along M, N and K."""

    tiled: TiledMMA
    thread: int
    vmnk: tuple[int, int, int, int]

    @overload
    def partition(self, operand: Operand, matrix: Tensor) -> Tensor: ...
    @overload
    def partition(self, operand: Operand, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition(self, operand: Operand, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The thread's elements of a matrix as (FrgV,RestX,RestY,...): (layout, offset), or a tensor.

        Raises what `TiledMMA.thrfrg` raises.
        """
        first, second = OF_OPERAND[check_operand(operand)]
        across = self.vmnk[1 + first], self.vmnk[1 + second]
        layout = self.tiled.thrfrg(operand, matrix.layout if isinstance(matrix, Tensor) else matrix)
        return take(matrix, layout, (self.vmnk[0], across))

    @overload
    def partition_A(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_A(self, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition_A(self, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The thread's elements of A, an M x K matrix."""
        return self.partition("A", matrix)

    @overload
    def partition_B(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_B(self, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition_B(self, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The thread's elements of B, an N x K matrix."""
        return self.partition("B", matrix)

    @overload
    def partition_C(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_C(self, matrix: AnyLayout) -> tuple[AnyLayout, int]: ...
    def partition_C(self, matrix: AnyLayout | Tensor) -> tuple[AnyLayout, int] | Tensor:
        """The thread's elements of C or D, an M x N matrix."""
        return self.partition("C", matrix)

    @overload
    def partition_fragment(self, operand: Operand, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_fragment(self, operand: Operand, matrix: AnyLayout) -> Layout: ...
    def partition_fragment(self, operand: Operand, matrix: AnyLayout | Tensor) -> Layout | Tensor:
        """Registers for the thread's elements: a compact layout of the partition's shape, or a tensor.

        Those of A and B follow the order in which the partition's elements lie.  Of an operand in tensor
        memory, a layout to lane + 128 column.  Raises UnsupportedError for an operand in shared memory, and
        when `matrix` is a Tensor for one in tensor memory and for elements that NumPy has no type for.
        """
        atom = self.tiled.atom
        if atom.place(operand) == "shared" or (
            atom.place(operand) == "tensor" and isinstance(matrix, Tensor)
        ):
            raise UnsupportedError(
                f"{operand} of {atom} is read from {atom.place(operand)} memory and has no registers; "
                f"partition_{operand} gives its part there"
            )
        layout = matrix.layout if isinstance(matrix, Tensor) else matrix
        mine = self.partition(operand, layout)[0]
        if atom.place(operand) == "tensor":
            return tmem_layout(atom, operand, tuple(size(mode) for mode in modes(innermost(mine))[1:]))
        held = Layout(mine.shape) if operand == "C" else make_fragment_like(mine)
        if not isinstance(matrix, Tensor):
            return held
        import numpy as np

        element = atom.dtype(operand)
        if not element.numpy_name:
            raise UnsupportedError(f"a tensor of {element}: NumPy has no type of {element.bits} bits")
        return Tensor(np.zeros(cosize(held), element.numpy_name), held)

    @overload
    def partition_fragment_A(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_fragment_A(self, matrix: AnyLayout) -> Layout: ...
    def partition_fragment_A(self, matrix: AnyLayout | Tensor) -> Layout | Tensor:
        """Registers for `partition_A`."""
        return self.partition_fragment("A", matrix)

    @overload
    def partition_fragment_B(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_fragment_B(self, matrix: AnyLayout) -> Layout: ...
    def partition_fragment_B(self, matrix: AnyLayout | Tensor) -> Layout | Tensor:
        """Registers for `partition_B`."""
        return self.partition_fragment("B", matrix)

    @overload
    def partition_fragment_C(self, matrix: Tensor) -> Tensor: ...
    @overload
    def partition_fragment_C(self, matrix: AnyLayout) -> Layout: ...
    def partition_fragment_C(self, matrix: AnyLayout | Tensor) -> Layout | Tensor:
        """Accumulators for `partition_C`."""
        return self.partition_fragment("C", matrix)


def make_tiled_mma(
    atom: str | MMAAtom,
    atom_layout: Layout | tuple[int, ...] = (1, 1, 1),
    permutations: tuple[Tiler, ...] = (),
) -> TiledMMA:
    """Atoms side by side along M, N and K; missing modes count 1 and are not permuted.

    A permutation is the extent of the tile along its mode, or a bijective layout, by which the tile's rows or
    columns are taken in another order.  Raises UnknownNameError for the atom's name, ShapeError for a tile
    that is not a multiple of its atoms, NotInjectiveError for layouts that repeat, ResourceError for more
    threads than a block has.

    Source: CUTLASS, include/cute/atom/mma_atom.hpp, make_tiled_mma.

    >>> print(make_tiled_mma("SM80_16x8x8_F32TF32TF32F32_TN", (2, 4)).get_layoutB_TV())
    ((4,8,2,4),(2,(1,1))):((32,1,0,8),(128,(0,0)))
    """
    atom = find_mma_atom(atom)
    copies = as_layout(atom_layout)
    if not isinstance(permutations, tuple):
        raise ArgumentTypeError(
            f"make_tiled_mma({atom}, {copies}, {shown(permutations)}): permutations are a tuple, one per mode"
        )
    counts, tilers = modes(copies), permutations
    if len(counts) > 3 or len(tilers) > 3:
        raise ShapeError(
            f"make_tiled_mma({atom}, {copies}, {tiler_text(tilers)}): M, N and K are three modes; "
            f"{max(len(counts), len(tilers))} are given"
        )
    copies = concat(*counts, *(Layout(1, 0),) * (3 - len(counts)))
    if not is_injective(copies):
        raise NotInjectiveError(
            f"make_tiled_mma({atom}, {copies}): two atoms have the same threads", layout=copies
        )
    padded: tuple[Tiler, ...] = (*tilers, None, None, None)
    made = TiledMMA(atom, copies, (padded[0], padded[1], padded[2]))
    if made.threads > _MAX_THREADS:
        raise ResourceError(f"threads of {made}", made.threads, _MAX_THREADS, hint="use fewer atoms")
    _check_permutations(made)
    return made


def _check_permutations(mma: TiledMMA) -> None:
    """Every mode of the tile is a multiple of what the atoms cover, each row and column once."""
    for mode, tiler, extent, copies in zip(
        "MNK", mma.permutations, mma.atom.shape_mnk, modes(mma.atom_layout), strict=True
    ):
        if tiler is None:
            continue
        tile, covered = as_layout(tiler), extent * layout_size(copies)
        call = f"make_tiled_mma({mma.atom}, {mma.atom_layout}, {tiler_text(mma.permutations)}): along {mode}"
        if layout_size(tile) % covered:
            raise ShapeError(
                f"{call} the tile has {layout_size(tile)} elements, and {layout_size(copies)} atoms cover "
                f"{covered}; the nearest multiple is {nearest_multiple(layout_size(tile), covered)}"
            )
        if not is_bijective(tile):
            raise NotInjectiveError(
                f"{call} the permutation {tile} is not a bijection of its {layout_size(tile)} elements",
                layout=tile,
            )
