"""Triton's encodings as the maps that Triton defines: what a register of a lane, or an offset, holds.

The idea.  Each encoding deals out the tensor bit by bit: the next bit of a dimension goes to the next bit of
a register, a lane, a warp or a block.  So each is a list of deals:

    blocked      registers in `order`, lanes in `order`, warps in `order`
    nvidia_mma   2 registers along n, 4 lanes along n, 8 lanes along m, registers for the rest, warps
    dot_op       the same over k, with kWidth registers; warps along k hold copies
    slice        its parent, one dimension left out
    shared       offsets along order[0], then order[1] with the phase XORed into the columns, then the rest

What the tensor is larger than the tile is dealt to further registers (or offsets), in the tile's order; what
it is smaller, the same element is held several times: those bits get the image 0, the largest first.  Of
blocked and of slice those bits of a register are left out.

>>> blocked((1, 2), (2, 2), (1, 1), (1, 0), (2, 8)).columns_of("register", "lane")
(2, 8, 4, 1)

Sources.  Triton, include/triton/Dialect/TritonGPU/IR/TritonGPUAttrDefs.td and
lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp (toLinearLayout of each attribute,
combineCtaCgaWithShape, ensureLayoutNotSmallerThan and NotLargerThan, nvmmaSharedToLinearLayout) and
getTMABlockShape, as of version 3.9.0; before it, blocked kept registers that hold what another one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeAlias

from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.f2 import LinearLayout

Ints: TypeAlias = tuple[int, ...]

MAX_RANK = 8
"""Most dimensions of a tensor."""

DISTRIBUTED = ("register", "lane", "warp", "block")
SHARED = ("offset", "block")


Blocks: TypeAlias = tuple[Ints, ...]
"""The split of the tensor among the blocks of a cluster: bases of the block index, in blocks."""


def blocks_of(per_cluster: Ints, split: Ints, order: Ints) -> Blocks:
    """The blocks of CTAsPerCGA, CTASplitNum and CTAOrder; those past the split hold copies."""
    bases: list[Ints] = []
    for dim in order:
        bits = _bits(per_cluster[dim], "CTAsPerCGA")
        parts = _bits(split[dim], "CTASplitNum")
        if parts > bits:
            raise ShapeError(f"CTASplitNum {split[dim]} is more than CTAsPerCGA {per_cluster[dim]}")
        rank = len(per_cluster)
        bases += [_unit(rank, dim, 1 << j) if j < parts else (0,) * rank for j in range(bits)]
    return tuple(bases)


class Deal:
    """Bits of a tensor of `rank` dimensions, dealt to bits of in dimensions."""

    def __init__(self, rank: int, ins: Sequence[str], order: Sequence[int]) -> None:
        self.rank, self.order = rank, tuple(order)
        self.sizes = [1] * rank
        self.bases: dict[str, list[Ints]] = {name: [] for name in ins}

    def give(self, name: str, count: int, dim: int) -> None:
        """The next bits of a dimension to `name`, for `count` coordinates."""
        for _ in range(_bits(count, name)):
            self.bases[name].append(_unit(self.rank, dim, self.sizes[dim]))
            self.sizes[dim] *= 2

    def copy(self, name: str, count: int) -> None:
        """Bits of `name` that change nothing."""
        self.bases[name] += [(0,) * self.rank] * _bits(count, name)

    def give_all(self, name: str, counts: Sequence[int], order: Iterable[int]) -> None:
        """The next bits of every dimension, in `order`."""
        for dim in order:
            self.give(name, counts[dim], dim)

    def fit(self, shape: Ints) -> None:
        """Deal to the first in dimension what `shape` has more, and hold several times what it has less."""
        first = next(iter(self.bases))
        for dim in self.order:
            if self.sizes[dim] < shape[dim]:
                self.give(first, shape[dim] // self.sizes[dim], dim)
        for dim in self.order:
            if self.sizes[dim] > shape[dim]:
                for bases in self.bases.values():
                    bases[:] = [_without(b, dim) if b[dim] >= shape[dim] else b for b in bases]
                self.sizes[dim] = shape[dim]

    def made(self, shape: Ints, blocks: Blocks) -> LinearLayout:
        """The map of a tensor of `shape`, split among blocks."""
        split = [1] * self.rank
        for basis in blocks:
            if len(basis) != self.rank:
                raise ShapeError(f"a basis {basis} of blocks, for a tensor of rank {self.rank}")
            for dim, part in enumerate(basis):
                if part and part & part - 1:
                    raise UnsupportedError(f"a basis {basis} of blocks, whose parts are no powers of two")
                split[dim] = max(split[dim], 2 * part)
        split = [min(parts, extent) for parts, extent in zip(split, shape, strict=True)]
        inner = tuple([extent // parts for extent, parts in zip(shape, split, strict=True)])
        self.fit(inner)
        self.bases["block"] = [
            tuple([p * n if p < s else 0 for p, n, s in zip(b, inner, split, strict=True)]) for b in blocks
        ]
        outs = [(f"dim{i}", extent) for i, extent in enumerate(shape)]
        return LinearLayout(self.bases, outs)


def _bits(count: int, what: str) -> int:
    if count < 1 or count & count - 1:
        raise ShapeError(f"{what} of {count}; a power of two is needed")
    return count.bit_length() - 1


def _unit(rank: int, dim: int, value: int) -> Ints:
    return tuple([value if i == dim else 0 for i in range(rank)])


def _without(basis: Ints, dim: int) -> Ints:
    return tuple([0 if i == dim else part for i, part in enumerate(basis)])


def check_shape(shape: Ints, rank: int) -> None:
    """Refuse shapes that are not powers of two, or of another rank than the encoding, by a ShapeError."""
    if len(shape) != rank or rank > MAX_RANK:
        raise ShapeError(f"a shape {shape} of rank {len(shape)}, for an encoding of rank {rank}")
    for extent in shape:
        _bits(extent, "an extent")


def check_order(order: Ints, rank: int) -> None:
    """Refuse what is not an order of the dimensions by a ShapeError."""
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"order {list(order)} is no order of {rank} dimensions")


def _reversed(rank: int, *, rows: bool = True) -> Ints:
    """The dimensions, the last fastest; with `rows` false, the last two exchanged."""
    order = list(range(rank))[::-1]
    if not rows:
        order[:2] = order[1::-1]
    return tuple(order)


# --- distributed -----------------------------------------------------------------------------------------


def blocked(
    per_thread: Ints, threads: Ints, warps: Ints, order: Ints, shape: Ints, blocks: Blocks = ()
) -> LinearLayout:
    """#ttg.blocked: registers, lanes and warps in tiles, the dimension order[0] first.

    Registers that hold what another one holds are left out, as Triton does from 3.9 on.  Raises ShapeError.
    """
    rank = len(order)
    check_shape(shape, rank)
    check_order(order, rank)
    if not len(per_thread) == len(threads) == len(warps) == rank:
        raise ShapeError(
            f"sizePerThread, threadsPerWarp, warpsPerCTA and order of {rank} dimensions are needed"
        )
    deal = Deal(rank, DISTRIBUTED, order)
    for name, counts in (("register", per_thread), ("lane", threads), ("warp", warps)):
        deal.give_all(name, counts, order)
    return _without_copies(deal.made(shape, blocks))


def _without_copies(linear: LinearLayout) -> LinearLayout:
    """The map without bits of a register that change nothing."""
    ins = {name: [b for b in bases if name != "register" or any(b)] for name, bases in linear.ins}
    return LinearLayout(ins, linear.outs)


def _mma_tile(deal: Deal, tile: Ints, width: int, order: Ints) -> None:
    """A tile of mma.m16n8: `width` registers and 4 lanes along order[0], 8 lanes along order[1]."""
    inner, outer = order[:2]
    if tile[outer] % 8 or tile[inner] % (4 * width):
        raise ShapeError(f"a tile of {tile[outer]} by {tile[inner]} is not made of parts of 8 by {4 * width}")
    deal.give("register", width, inner)
    deal.give("lane", 4, inner)
    deal.give("lane", 8, outer)
    deal.give("register", tile[outer] // 8, outer)
    deal.give("register", tile[inner] // (4 * width), inner)


def nvidia_mma(major: int, warps: Ints, instruction: Ints, shape: Ints, blocks: Blocks = ()) -> LinearLayout:
    """#ttg.nvidia_mma: the accumulator of mma.sync (major 2) or wgmma (major 3).

    Raises ShapeError, and UnsupportedError for other versions and tiles.
    """
    rank = len(warps)
    check_shape(shape, rank)
    tile = _instruction_tile(major, rank, instruction)
    deal = Deal(rank, DISTRIBUTED, _reversed(rank))
    _mma_tile(deal, tile, 2, _reversed(rank))
    deal.give_all("warp", warps, _reversed(rank, rows=major == 2))
    return deal.made(shape, blocks)


def _instruction_tile(major: int, rank: int, instruction: Ints) -> Ints:
    if rank not in (2, 3):
        raise UnsupportedError(f"nvidia_mma of rank {rank}: matrices, or batches of them, are needed")
    if major == 2:
        if instruction != ((1, 16, 8) if rank == 3 else (16, 8)):
            raise UnsupportedError(f"instrShape {list(instruction)} of version 2, whose tile is 16 by 8")
        return instruction
    if major == 3:
        if rank != 2 or len(instruction) != 3 or instruction[0] != 16:
            raise UnsupportedError(f"instrShape {list(instruction)} of version 3, which is [16, n, k]")
        return instruction[:2]
    raise UnsupportedError(f"nvidia_mma of version {major}: the maps of 2 (Ampere) and 3 (Hopper) are known")


def dot_operand(
    index: int, width: int, major: int, warps: Ints, instruction: Ints, shape: Ints, blocks: Blocks = ()
) -> LinearLayout:
    """#ttg.dot_op of an nvidia_mma: operand A (index 0) or B (1) with `width` registers in a row along k."""
    rank = len(warps)
    check_shape(shape, rank)
    _instruction_tile(major, rank, instruction)
    if index not in (0, 1) or (index == 1 and major == 3):
        raise UnsupportedError(f"operand {index} of version {major}: A, or B of version 2, is in registers")
    _bits(width, "kWidth")
    k = rank - 1 if index == 0 else rank - 2
    order = _reversed(rank, rows=index == 0)
    tile = [1] * rank
    tile[k], tile[2 * rank - 3 - k] = 8 * width, 16 if index == 0 else 8
    deal = Deal(rank, DISTRIBUTED, order)
    _mma_tile(deal, tuple(tile), width, order)
    _warps_along(deal, "warp", warps, _reversed(rank, rows=major == 2), k)
    return deal.made(shape, blocks)


def _warps_along(deal: Deal, name: str, counts: Ints, order: Ints, k: int) -> None:
    """Lanes or warps over the operands of a dot: those along k hold copies."""
    for dim in order:
        if dim == k:
            deal.copy(name, counts[dim])
        else:
            deal.give(name, counts[dim], dim)


def dot_operand_of_blocked(
    index: int,
    per_thread: Ints,
    threads: Ints,
    warps: Ints,
    order: Ints,
    shape: Ints,
    blocks: Blocks = (),
) -> LinearLayout:
    """#ttg.dot_op of a blocked encoding: every lane holds all of k."""
    rank = len(order)
    check_shape(shape, rank)
    check_order(order, rank)
    k = rank - 1 if index == 0 else rank - 2
    deal = Deal(rank, DISTRIBUTED, order)
    deal.give_all("register", [shape[k] if d == k else n for d, n in enumerate(per_thread)], order)
    _warps_along(deal, "lane", threads, order, k)
    _warps_along(deal, "warp", warps, order, k)
    return deal.made(shape, blocks)


def slice_of(parent: Callable[[Ints], LinearLayout], dim: int, shape: Ints) -> LinearLayout:
    """#ttg.slice: the parent's map of the tensor with an extent 1 put in at `dim`, that dimension left out.

    Registers that hold what another one holds are left out too.
    """
    if not 0 <= dim <= len(shape):
        raise ShapeError(f"a slice along dimension {dim} of a tensor of rank {len(shape) + 1}")
    wider = parent((*shape[:dim], 1, *shape[dim:]))
    ins = {name: [(*b[:dim], *b[dim + 1 :]) for b in bases] for name, bases in wider.ins}
    return _without_copies(LinearLayout(ins, [(f"dim{i}", extent) for i, extent in enumerate(shape)]))


# --- shared ----------------------------------------------------------------------------------------------


def swizzled_shared(
    vec: int, per_phase: int, max_phase: int, order: Ints, shape: Ints, blocks: Blocks = ()
) -> LinearLayout:
    """#ttg.swizzled_shared: offsets along order[0], rows with (row / perPhase % maxPhase) * vec XORed in."""
    rank = len(order)
    check_shape(shape, rank)
    check_order(order, rank)
    for name, value in (("vec", vec), ("perPhase", per_phase), ("maxPhase", max_phase)):
        _bits(value, name)
    split = [1] * rank
    for basis in blocks:
        split = [max(s, 2 * p) for s, p in zip(split, basis, strict=True)]
    inner = [max(1, extent // parts) for extent, parts in zip(shape, split, strict=True)]
    deal = Deal(rank, SHARED, order)
    for position, dim in enumerate(order):
        if position != 1:
            deal.give("offset", inner[dim], dim)
            continue
        for row in (1 << j for j in range(inner[dim].bit_length() - 1)):
            phase = vec * (row // per_phase % max_phase) % inner[order[0]]
            moved = {dim: row, order[0]: phase}
            deal.bases["offset"].append(tuple([moved.get(i, 0) for i in range(rank)]))
        deal.sizes[dim] = inner[dim]
    return deal.made(shape, blocks)


BOX_END = 256
"""Largest extent of a TMA box."""


def nvmma_shared(
    width: int, element_bits: int, shape: Ints, *, transposed: bool = False, blocks: Blocks = ()
) -> LinearLayout:
    """#ttg.nvmma_shared: what TMA writes and wgmma reads: rows of `width` bytes in swizzled atoms of 8 rows.

    `width` is 0, 32, 64 or 128.  Raises ShapeError for tensors smaller than an atom, UnsupportedError for
    what has no one definition: transposed tensors without a swizzle or of another rank than 2.
    """
    rank = len(shape)
    check_shape(shape, rank)
    if width not in (0, 32, 64, 128) or element_bits not in (8, 16, 32, 64):
        raise ShapeError(f"swizzlingByteWidth {width} of elements of {element_bits} bits")
    if transposed and (rank != 2 or not width):
        raise UnsupportedError("nvmma_shared, transposed, is read for matrices with a swizzle")
    if blocks:
        raise UnsupportedError("nvmma_shared is read for one block")
    if transposed:
        atoms = _atoms(width, element_bits, shape[::-1], (1, 0))
        ins = {name: [b[::-1] for b in bases] for name, bases in atoms.ins}
        return LinearLayout(ins, [(f"dim{i}", extent) for i, extent in enumerate(shape)])
    return _atoms(width, element_bits, shape, tuple(range(rank)))


def _atoms(width: int, element_bits: int, shape: Ints, order: Ints) -> LinearLayout:
    """Atoms in a TMA box, boxes in `order` of the dimensions; the last dimension is contiguous."""
    rank = len(shape)
    box = [min(extent, BOX_END) for extent in shape]
    row = 8 * width // element_bits
    if width:
        if rank < 2 or shape[-1] < row or prod(box[:-1]) < 8:
            raise ShapeError(f"a tensor {shape} is smaller than an atom of 8 rows of {row} elements")
        box[-1] = row
    deal = Deal(rank, SHARED, order)
    for dim in reversed(range(rank)):
        deal.give("offset", box[dim], dim)
    if width:
        vec, per_phase = 128 // element_bits, 128 // width
        first = _bits(row, "a row of elements")
        for j, power in enumerate((1, 2, 4)):  # of the rows of all outer dimensions, counted together
            *others, _ = deal.bases["offset"][first + j]
            deal.bases["offset"][first + j] = (*others, vec * (power // per_phase % (width // 16)))
    return deal.made(shape, ())
