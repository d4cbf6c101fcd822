"""tile_product: a block's product of tiles from two tensors, with all that lies between them found for it.

    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    acc = tile_product(k, mma, a, b, (block_m, block_n), (128, 128, 64), stages=3)

The idea.  A tiled MMA and a tile say what is wanted; everything between global memory and the fragments
follows from them, level by level:

    block's tile     the copy: cp.async of 16 bytes, as many lanes along a stored row as it has vectors
    shared memory    the layout: synthesised for that copy and for ldmatrix, free of bank conflicts
    the ring         `stages` tiles, filled while others are multiplied (see pipeline)
    warp's tile      ldmatrix.x4, transposed where a tensor is stored along its rows
    registers        `sets` of fragments: the next are loaded while one is multiplied

A tensor may be stored along k or along its rows; what is multiplied are whole tiles.

Comparison with TileLang.  There a block is written as copies and a gemm of tiles under T.Pipelined, and the
compiler chooses layouts and pipeline; here the same is a function on the same values that one would write
by hand, and everything it has chosen can be read from the kernel.

Source: CUTLASS, include/cutlass/gemm/collective/sm80_mma_multistage.hpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from layoutalg.analysis import Access
from layoutalg.atoms import TiledMMA, make_tiled_copy, make_tiled_copy_A, make_tiled_copy_B
from layoutalg.codegen.expr import Const, Expr
from layoutalg.codegen.language import Fragment, KernelBuilder, Tensor, local_tile, pipeline
from layoutalg.codegen.program import Global
from layoutalg.errors import DivisibilityError, ShapeError, UnsupportedError, check_type
from layoutalg.layout import Layout, layout_size, modes
from layoutalg.synthesis import synthesize

COPY_BITS = 128
"""The bits that a lane copies at once."""


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand on its way: its part of each tile, of the ring, and the ring as fragments are loaded."""

    source: Tensor
    target: Tensor
    fragments: Tensor
    copied: tuple[Any, ...]
    held: tuple[Any, ...]


def tile_product(
    k: KernelBuilder, mma: TiledMMA, a: Tensor, b: Tensor, block: Sequence[Expr],
    tile: tuple[int, int, int], *, stages: int = 3, sets: int = 2, name: str = "acc",
) -> Fragment:  # fmt: skip
    """Write acc = A B for the tile at `block` = (row, column) of tiles, and return acc, as `mma` has C.

    `a` is a tensor (m, k) and `b` (n, k), of 16-bit elements, each stored along k or along its rows; `tile`
    is (rows of A, rows of B, k), and all extents are multiples of it.  Shared memory holds `stages` tiles,
    registers `sets` of fragments.  Raises ShapeError and DivisibilityError for tiles that the MMA or the
    copies do not tile, UnsupportedError for tensors that are stored neither way, and what the builder raises.

    >>> from layoutalg import make_tiled_mma
    >>> k = KernelBuilder("product", threads=128)
    >>> m, n, depth = (k.extent(x, 1 << 12, 64) for x in "mnk")
    >>> a, b = k.tensor("a", "f16", (m, depth), (depth, 1)), k.tensor("b", "f16", (n, depth), (1, n))
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> acc = tile_product(k, mma, a, b, k.grid((m, n), (64, 64)), (64, 64, 64))
    >>> [(s.name, str(s.layout), s.stages) for s in k.build().shared]
    [('tile_a', 'Sw<3,3,3> o 0 o (64,64):(64,1)', 3), ('tile_b', 'Sw<3,3,3> o 0 o (64,64):(1,64)', 3)]
    """
    check_type("tile_product", mma, TiledMMA, "a tiled MMA")
    step = mma.tile_shape[2]
    if (threads := k.thread.facts.hi + 1) != mma.threads:
        raise ShapeError(f"{k.name} has {threads} threads for {mma}: {mma.threads} are needed")
    if layout_size(modes(mma.atom_layout)[2]) > 1:
        raise UnsupportedError(f"{mma}: warps along k would hold parts of the sums; 1 along k is accepted")
    if len(tile) != 3 or not all(type(x) is int and x > 0 for x in tile):
        raise ShapeError(f"tile {tile!r}: three positive integers (rows of A, rows of B, k) are needed")
    for what, extent, part in zip(("rows of A", "rows of B", "k"), tile, mma.tile_shape, strict=True):
        if extent % part:
            raise DivisibilityError(f"a tile of {extent} {what} is not tiled by the {part} of {mma}")
    if len(block) != 2:
        raise ShapeError(f"{len(block)} numbers of a block: its row and column of tiles are needed")
    steps = tile[2] // step
    if sets < 1 or steps % sets:
        raise DivisibilityError(f"{sets} sets of fragments do not divide the {steps} steps of k of a tile")
    thread = k.get_slice(mma)
    sides = (
        _side(k, mma, "A", a, block[0], (tile[0], tile[2]), stages, sets),
        _side(k, mma, "B", b, block[1], (tile[1], tile[2]), stages, sets),
    )
    depth = a.extents[-1]
    if depth is None:
        raise ShapeError(f"the extent of k of {a.buffer.name} is not stated: a product needs it")
    acc = thread.fragment_C(name, (tile[0], tile[1]))
    k.clear(acc)

    def produce(at: Expr, stage: Expr) -> None:
        for side in sides:
            k.copy(side.source[None, None, None, at], side.target[None, None, None, stage])

    def load(part: int, stage: Expr) -> None:
        for side in sides:
            k.load(side.fragments[None, None, part, stage], into=side.copied[part % sets])

    def consume(at: Expr, stage: Expr) -> None:
        for part in range(sets - 1):
            load(part, stage)
        for part in range(steps):
            if part + sets - 1 < steps:
                load(part + sets - 1, stage)
            left, right = (side.held[part % sets] for side in sides)
            for deep in range(layout_size(modes(left.layout)[2])):
                k.mma(mma, acc, left[None, None, deep], right[None, None, deep])

    pipeline(k, k.let(k.fresh("tiles"), depth // tile[2]), stages, produce, consume)
    return acc


def _side(
    k: KernelBuilder, mma: TiledMMA, operand: Literal["A", "B"], tensor: Tensor, block: Expr,
    tile: tuple[int, int], stages: int, sets: int,
) -> _Side:  # fmt: skip
    """The way of an operand's tile (rows, k) from its tensor to its fragments."""
    element, buffer = tensor.element, tensor.buffer
    if element is None or element.bits != 16 or not isinstance(buffer, Global):
        raise UnsupportedError(f"{buffer.name}: a tensor of 16-bit elements in global memory is needed")
    if element != mma.atom.dtype(operand):
        raise UnsupportedError(f"{buffer.name} of {element}: {mma.atom} multiplies {mma.atom.dtype(operand)}")
    along_k = buffer.strides[-1] == Const(1)
    if not along_k and buffer.strides[-2] != Const(1):
        raise UnsupportedError(f"{buffer.name} is stored neither along k nor along its rows: a stride of 1")
    vector, threads = COPY_BITS // element.bits, mma.threads
    near, far = (tile[1], tile[0]) if along_k else tile
    lanes = min(near // vector, threads)
    across = threads // lanes if lanes else 0
    if not across or near % (lanes * vector) or threads % lanes or far % across:
        raise DivisibilityError(
            f"a tile of {tile[0]} x {tile[1]} of {buffer.name} is not copied by {threads} threads in vectors "
            f"of {vector} along its stored rows of {near}"
        )
    atom = f"SM80_CP_ASYNC_CACHEGLOBAL<uint{COPY_BITS}_t>"
    if along_k:
        fill = make_tiled_copy(atom, element, Layout((across, lanes), (lanes, 1)), Layout((1, vector)))
    else:
        fill = make_tiled_copy(atom, element, Layout((lanes, across), (1, lanes)), Layout((vector, 1)))
    make = make_tiled_copy_A if operand == "A" else make_tiled_copy_B
    read = make("SM75_U32x4_LDSM_N" if along_k else "SM75_U16x8_LDSM_T", mma)
    accesses = (
        Access("cp.async.16", fill.tidfrg("dst", Layout(tile)), element),
        Access(read.atom.src_op, read.tidfrg("src", Layout(tile)), element),
    )
    synthesis = synthesize(tile, accesses, element=element, order="row" if along_k else "col")
    if synthesis.layout is None:
        raise UnsupportedError(f"no layout of {tile[0]} x {tile[1]} serves the copies of {buffer.name}")
    ring = k.shared(f"tile_{buffer.name}", element, synthesis.layout, stages=stages)
    thread, filling, reading = k.get_slice(mma), k.get_slice(fill), k.get_slice(read)
    fragment = thread.fragment_A if operand == "A" else thread.fragment_B
    held = tuple(fragment(f"f{buffer.name}{n}", (tile[0], mma.tile_shape[2])) for n in range(sets))
    return _Side(
        filling.partition_S(local_tile(tensor, tile, (block, None))), filling.partition_D(ring),
        reading.partition_S(ring), tuple(map(reading.retile, held)), held,
    )  # fmt: skip
