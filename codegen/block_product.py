"""tile_product, tile_epilogue: a block's tile of a product, with all that lies on its way found for it.

    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    acc = tile_product(k, mma, a, b, (block_m, block_n), (128, 128, 64), stages=3)
    tile_epilogue(k, mma, acc, d, (block_m, block_n))

The idea.  A tiled MMA and a tile say what is wanted; everything between global memory and the fragments
follows from them, level by level:

    block's tile     the copy: cp.async of 16 bytes, by as many threads as divide the tile
    shared memory    the layout: synthesised for that copy and for ldmatrix, free of bank conflicts if one is
    the ring         `stages` tiles, filled while others are multiplied (see pipeline)
    warp's tile      ldmatrix, transposed where a tensor is stored along its rows; single loads of doubles
    registers        `sets` of fragments: the next are loaded while one is multiplied
    results          through shared memory, in a layout found alike, to 16-byte stores along stored rows

A tensor may be stored along either mode.  Elements past its extents are read as zeros and not written;
vectors are as wide as extents and strides are multiples of.  Any tile is legal that the MMA divides and that
fits shared memory and registers, and a refusal names the nearest one that is.

Comparison with TileLang.  There a block is written as copies and a gemm of tiles under T.Pipelined, and the
compiler chooses layouts and pipeline; here the same is a function on the same values that one would write
by hand, and everything it has chosen can be read from the kernel.

Source: CUTLASS, include/cutlass/gemm/collective/sm80_mma_multistage.hpp;
include/cutlass/epilogue/collective/sm70_epilogue_vectorized.hpp.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from math import gcd, log2
from typing import Literal

from layoutalg.algebra import logical_divide
from layoutalg.analysis import Access
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.atoms import TiledCopy, TiledMMA, make_tiled_copy, make_tiled_copy_A, make_tiled_copy_B
from layoutalg.codegen.expr import Const, Expr
from layoutalg.codegen.instr import BAR, CP_ASYNC, STG_WHOLE, mma_instruction
from layoutalg.codegen.language import (
    Fragment,
    KernelBuilder,
    Tensor,
    ThreadSlice,
    Where,
    converted,
    local_tile,
    pipeline,
)
from layoutalg.codegen.program import Global, check_available
from layoutalg.codegen.terms import Value
from layoutalg.dtype import DType
from layoutalg.errors import (
    AlignmentError,
    DivisibilityError,
    IRError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnsupportedError,
    check_type,
)
from layoutalg.layout import AnyLayout, Layout, any_leaves, concat, layout_size, modes
from layoutalg.synthesis import synthesize

VECTOR_BYTES, LEAST_BYTES = 16, 4
"""The most and the least bytes that a lane copies at once by cp.async."""

FREE_REGISTERS = 40
"""The registers that a thread is taken to need beside sums and fragments: addresses, counters, predicates."""

SWIZZLED_BYTES = 1024
"""The alignment of swizzled buffers in shared memory."""


@dataclass(frozen=True, slots=True)
class Unpack:
    """A function on an operand's way: of registers of the stored type to a value of the type that is
    multiplied, `per` of its elements from each stored one, such as the two s4 of a u8.

    >>> int4 = Unpack(lambda w: w.recast("s4").to("f16"), per=2)
    """

    function: Callable[[Fragment], Fragment | Value]
    per: int = 1


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor of two modes, of which `vector` elements along the mode `along` can be moved at once."""

    tensor: Tensor
    element: DType
    along: int
    vector: int
    extents: tuple[Expr | None, ...]

    @staticmethod
    def of(tensor: Tensor) -> _Stored:
        """Raises UnsupportedError for a tensor that is stored along neither of two modes."""
        buffer, element, both = tensor.buffer, tensor.element, modes(tensor.coordinates)
        if element is None or element.bits < 8 or not isinstance(buffer, Global) or len(both) != 2:
            raise UnsupportedError(f"{buffer.name}: a tensor of two modes in global memory is needed")
        places = [any_leaves(mode)[0][1].modes[0] for mode in both]
        near = next((place for place in places if buffer.strides[place] == Const(1)), None)
        if near is None:
            raise UnsupportedError(
                f"{buffer.name} is stored along neither of its modes: one needs a stride of 1"
            )
        cuts = [d.facts for place, d in enumerate(buffer.strides) if place != near]
        cuts += [n.facts for n in (tensor.extents[near],) if n is not None]
        most = gcd(buffer.align_bytes, VECTOR_BYTES) // element.nbytes
        vector = gcd(most, *(n for facts in cuts for n in (facts.stride, facts.offset)))
        extents = tuple(tensor.extents[place] for place in places)
        return _Stored(tensor, element, places.index(near), vector, extents)

    def inside(self, part: Tensor, tile: tuple[int, int]) -> Where:
        """The predicate of a part of a tile; None where every tile is whole."""
        whole = all(x is None or x.facts.divisible_by(n) for x, n in zip(self.extents, tile, strict=True))
        return None if whole else part.inside


def tile_product(
    k: KernelBuilder, mma: TiledMMA, a: Tensor, b: Tensor, block: Sequence[Expr],
    tile: tuple[int, int, int], *, stages: int = 3, sets: int = 2, name: str = "acc",
    arch: str | Arch = DEFAULT_ARCH, unpack_a: Unpack | None = None, unpack_b: Unpack | None = None,
) -> Fragment:  # fmt: skip
    """Write acc = A B for the tile at `block` = (row, column) of tiles, and return acc, as `mma` has C.

    `a` is a tensor (m, k) and `b` (n, k), of the types that `mma` multiplies, each stored along k or along
    its rows; `tile` is (rows of A, rows of B, k).  Shared memory holds `stages` tiles, registers `sets` of
    fragments, as `arch` has room for.  An operand with an Unpack is of another type, stored along k, and
    becomes the one that is multiplied on its way to shared memory, through registers.

    Raises DivisibilityError for a tile that the MMA does not divide and ResourceError for one that does not
    fit, both with the nearest that is legal, AlignmentError for rows that cut the smallest vectors,
    UnsupportedError for other MMAs, types and ways of storing, ShapeError for what is malformed.

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
    if len(tile) != 3 or not all(type(x) is int and x > 0 for x in tile):
        raise ShapeError(f"tile {tile!r}: three positive integers (rows of A, rows of B, k) are needed")
    if len(block) != 2:
        raise ShapeError(f"{len(block)} numbers of a block: its row and column of tiles are needed")
    if (threads := k.thread.facts.hi + 1) != mma.threads:
        raise ShapeError(f"{k.name} has {threads} threads for {mma}: {mma.threads} are needed")
    if layout_size(modes(mma.atom_layout)[2]) > 1:
        raise UnsupportedError(f"{mma}: warps along k would hold parts of the sums; 1 along k is accepted")
    chip = find_arch(arch)
    check_available(mma_instruction(mma.atom), chip)
    check_available(CP_ASYNC[VECTOR_BYTES], chip)
    stored_a, stored_b = _operand(mma, "A", a, unpack_a), _operand(mma, "B", b, unpack_b)
    rules = _Rules(mma, chip, k.shared_end(SWIZZLED_BYTES))
    try:
        rules.check(tile, stages, sets)
    except LayoutAlgError:
        rules.check(tile, stages, sets, rules.nearest(tile, stages, sets))
    per, depth = unpack_a.per if unpack_a else 1, stored_a.extents[1]
    if depth is None:
        raise ShapeError(f"the extent of k of {a.buffer.name} is not stated: a product needs it")
    depth = depth * per if per > 1 else depth
    if unpack_a and unpack_b and not depth.facts.divisible_by(tile[2]):
        raise UnsupportedError(
            f"{a.buffer.name} and {b.buffer.name} are unpacked: neither has to be 0 past k = {depth}, so "
            f"a multiple of {tile[2]} is needed"
        )
    sides = (
        _Side.of(k, mma, "A", stored_a, block[0], (tile[0], tile[2]), stages, sets, unpack_a),
        _Side.of(k, mma, "B", stored_b, block[1], (tile[1], tile[2]), stages, sets, unpack_b),
    )
    acc = k.get_slice(mma).fragment_C(name, (tile[0], tile[1]))
    k.clear(acc)

    def produce(at: Expr, stage: Expr) -> None:
        for side in sides:
            source, target = side.source[None, None, None, at], side.target[None, None, None, stage]
            where = side.stored.inside(source, side.tile)
            with _taking_part(k, side.fill):
                if side.unpack is None:
                    k.copy(source, target, where=where)
                else:
                    k.store(side.unpack.function(k.load(source, where=where)), target)

    def load(part: int, stage: Expr) -> None:
        for side in sides:
            k.load(side.fragments[None, None, part, stage], into=side.copied[part % sets])

    def consume(at: Expr, stage: Expr) -> None:
        for part in range(sets - 1):
            load(part, stage)
        for part in range(steps := tile[2] // mma.tile_shape[2]):
            if part + sets - 1 < steps:
                load(part + sets - 1, stage)
            left, right = (side.held[part % sets] for side in sides)
            for deep in range(layout_size(modes(left.layout)[2])):
                k.mma(mma, acc, left[None, None, deep], right[None, None, deep])

    pipeline(k, k.let(k.fresh("tiles"), (depth + (tile[2] - 1)) // tile[2]), stages, produce, consume)
    return acc


def tile_epilogue(k: KernelBuilder, mma: TiledMMA, acc: Fragment | Value, tile: Tensor) -> None:
    """Store accumulators that `mma` has as C, or a value of them, to a tile of a tensor, from local_tile.

    They are converted to its type (see codegen.instr.convert), go through shared memory, over all that the
    block has there, and are stored in vectors of up to 16 bytes along the mode in which they lie.

    Raises UnsupportedError for types that are not converted and for tensors that are stored along neither
    mode, ShapeError for a tile that the MMA does not divide or that other registers belong to.

    >>> from layoutalg import make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> k = KernelBuilder("zeros", threads=128)
    >>> acc, n = k.get_slice(mma).fragment_C("acc", (64, 64)), k.extent("n", 1 << 12, 64)
    >>> k.clear(acc)
    >>> d = k.tensor("d", "f16", (n, n), (n, 1), writable=True)
    >>> tile_epilogue(k, mma, acc, local_tile(d, (64, 64), k.grid((n, n), (64, 64))))
    >>> [(s.name, str(s.layout)) for s in k.build().shared]
    [('stage', 'Sw<3,3,3> o 0 o (32,64):(64,1)')]
    """
    check_type("tile_epilogue", mma, TiledMMA, "a tiled MMA")
    stored, held = _Stored.of(tile), acc if isinstance(acc, Fragment) else k.map(acc)
    rows, columns = (layout_size(mode) for mode in modes(tile.coordinates))
    if held.size != (needed := layout_size(modes(mma.tidfrg("C", Layout((rows, columns))))[1])):
        raise ShapeError(f"{held} in a tile of {rows} x {columns}: {needed} accumulators are needed")
    along, element, far, shape = stored.along, stored.element, 1 - stored.along, [rows, columns]
    # as many tiles of the MMA at a time as lie where the ring was, and one at least
    tiles, shape[far] = shape[far] // mma.tile_shape[far], mma.tile_shape[far]
    nbytes = rows * columns * element.nbytes // tiles
    group = max(n for n in _divisors(tiles) if n == 1 or n * nbytes <= k.shared_end(1))
    shape[far] *= group
    chunk, run, vector = (shape[0], shape[1]), 2 if along else 1, gcd(stored.vector, shape[along])
    bits = element.bits * vector
    take = _spread(f"UniversalCopy<uint{bits}_t>", element, mma.threads, chunk, along, vector)
    layout = _layout(
        chunk, element, along,
        Access(f"st.shared.b{element.bits * run}", mma.tidfrg("C", Layout(chunk)), element),
        Access(f"ld.shared.b{bits}", take.tidfrg("src", Layout(chunk)), element),
    )  # fmt: skip
    stage = k.shared(k.fresh("stage"), element, layout, over=True)
    parts = [*modes((held := _converted(k, held, element, run)).layout)]
    each = layout_size(parts[1 + far]) // tiles * group
    parts[1 + far], times = modes(logical_divide(parts[1 + far], each))
    held, put, taking = held.view(concat(*parts, times)), k.get_slice(mma).partition_C(stage), _slice(k, take)
    there = taking.partition_D(local_tile(tile, chunk, (None, None)))
    with k.Unroll(k.fresh("i"), tiles // group) as i:
        k.do(BAR)  # what is overwritten has been read
        k.store(held[None, None, None, i], put)
        k.do(BAR)
        to = there[None, None, None, 0, i] if far else there[None, None, None, i, 0]
        with _taking_part(k, take):
            where = stored.inside(to, (rows, columns))
            k.store(k.load(taking.partition_S(stage)), to, where=where, instr=STG_WHOLE)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for a tile, its stages and its sets of fragments: of an MMA and of what a block may have."""

    mma: TiledMMA
    chip: Arch
    used_bytes: int

    def check(self, tile: tuple[int, ...], stages: int, sets: int, hint: str = "") -> None:
        """Raise for the first rule that is broken, with a hint."""
        mma, chip, shown, tail = self.mma, self.chip, "x".join(map(str, tile)), f"; {hint}" if hint else ""
        for what, extent, part in zip(("rows of A", "rows of B", "k"), tile, mma.tile_shape, strict=True):
            if extent % part:
                raise DivisibilityError(
                    f"a tile of {extent} {what} is not tiled by the {part} of {mma}{tail}"
                )
        if stages < 2:
            raise IRError("pipeline", stages, f"a ring of {stages} stages: two or more are needed{tail}")
        across, down, steps = (extent // part for extent, part in zip(tile, mma.tile_shape, strict=True))
        if not 1 <= sets <= steps:
            raise DivisibilityError(
                f"{sets} sets of fragments of {steps} steps of k in a tile of {shown}{tail}"
            )
        ring_a, ring_b = (stages * nbytes for nbytes in self.stage_bytes(tile))
        needed = self.used_bytes + -(-ring_a // SWIZZLED_BYTES) * SWIZZLED_BYTES + ring_b
        most = chip.max_shared_bytes_per_block
        if needed > most:
            raise ResourceError(f"shared memory bytes of {stages} stages of {shown}", needed, most, hint=hint)
        a, b, sums = _words(mma)
        needed = FREE_REGISTERS + sets * (a * across + b * down) + sums * across * down
        most = min(chip.max_registers_per_thread, chip.registers_per_sm // mma.threads)
        if needed > most:
            raise ResourceError(f"registers per thread of {sets} sets of {shown}", needed, most, hint=hint)

    def stage_bytes(self, tile: tuple[int, ...]) -> list[int]:
        """Shared memory of a stage of each operand."""
        return [rows * tile[2] * self.mma.atom.dtypes.a.nbytes for rows in tile[:2]]

    def nearest(self, tile: tuple[int, ...], stages: int, sets: int) -> str:
        """The choice that is legal instead: the nearest tile, and of its stages and sets as many as fit."""
        ways = [
            {max(n // part, 1) * part, *(-(-n // (part << i)) * part for i in range(n.bit_length()))}
            for n, part in zip(tile, self.mma.tile_shape, strict=True)
        ]
        nearest = sorted(
            itertools.product(*ways),
            key=lambda t: sum(log2(x / y) ** 2 for x, y in zip(t, tile, strict=True)),
        )
        for near in nearest:
            rings = min(max(stages, 2), self.chip.max_shared_bytes_per_block // sum(self.stage_bytes(near)))
            held = min(max(sets, 1), near[2] // self.mma.tile_shape[2])
            for choice in itertools.product((near,), range(rings, 1, -1), range(held, 0, -1)):
                with suppress(LayoutAlgError):
                    self.check(*choice)
                    asked = zip(("tile", "stages", "sets"), (tile, stages, sets), choice, strict=True)
                    return f"the nearest is {', '.join(f'{what} = {y}' for what, x, y in asked if x != y)}"
        return "more warps are needed"


@functools.lru_cache(maxsize=64)
def _words(mma: TiledMMA) -> tuple[int, int, int]:
    """Registers of a thread for A, B and C of the tile of an MMA."""
    operands: tuple[Literal["A", "B", "C"], ...] = ("A", "B", "C")
    a, b, c = (layout_size(modes(mma.layout_tv(x))[1]) * mma.atom.dtype(x).bits // 32 for x in operands)
    return a, b, c


def _operand(mma: TiledMMA, operand: Literal["A", "B"], tensor: Tensor, unpack: Unpack | None) -> _Stored:
    """The tensor of an operand, of a type and a way of storing that copies and loads of fragments have."""
    stored, wanted, name = _Stored.of(tensor), mma.atom.dtype(operand), tensor.buffer.name
    if unpack is not None:
        if not stored.along:
            raise UnsupportedError(f"{name} is unpacked along k: store it along k")
        return stored
    if stored.element != wanted and (stored.element.name, wanted.name) != ("f32", "tf32"):
        raise UnsupportedError(f"{name} of {stored.element}: {mma.atom} multiplies {wanted}")
    if wanted.bits < 16 and not stored.along:
        raise UnsupportedError(
            f"{name} of {wanted} along its rows: ldmatrix turns 16-bit elements; store it along k"
        )
    if stored.vector * wanted.nbytes < LEAST_BYTES:
        raise AlignmentError(
            f"{name} has rows that cut vectors of {LEAST_BYTES} bytes, the least of cp.async: extents and "
            f"strides that are multiples of {LEAST_BYTES // wanted.nbytes} are needed",
            required_bytes=LEAST_BYTES,
        )  # fmt: skip
    return stored


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand on its way: its part of each tile, of the ring, and the ring as fragments are loaded."""

    stored: _Stored
    tile: tuple[int, int]
    fill: TiledCopy
    source: Tensor
    target: Tensor
    fragments: Tensor
    copied: tuple[Fragment, ...]
    held: tuple[Fragment, ...]
    unpack: Unpack | None

    @staticmethod
    def of(
        k: KernelBuilder, mma: TiledMMA, operand: Literal["A", "B"], stored: _Stored, block: Expr,
        tile: tuple[int, int], stages: int, sets: int, unpack: Unpack | None,
    ) -> _Side:  # fmt: skip
        """The way of an operand's tile (rows, k) from its tensor to its fragments."""
        element, along, buffer = mma.atom.dtype(operand), stored.along, stored.tensor.buffer
        per = unpack.per if unpack else 1
        vector = gcd(stored.vector * per, tile[along], VECTOR_BYTES // element.nbytes)
        if vector % per:
            raise DivisibilityError(f"a tile of {tile[1]} along k: {per} elements of {buffer.name} share one")
        nbytes, taken = vector * element.nbytes, (tile[0], tile[1] // per)
        cached, bits = "GLOBAL" if nbytes == VECTOR_BYTES else "ALWAYS", stored.element.bits * vector // per
        atom = "UniversalCopy" if unpack else f"SM80_CP_ASYNC_CACHE{cached}"
        fill = _spread(f"{atom}<uint{8 * nbytes}_t>", element, mma.threads, tile, along, vector)
        read = _fragment_copy(mma, operand, along)
        load = read.atom.src_op or f"ld.shared.b{element.bits}"
        layout = _layout(
            tile, element, along,
            Access(fill.atom.dst_op or f"st.shared.b{8 * nbytes}", fill.tidfrg("dst", Layout(tile)), element),
            Access(load, read.tidfrg("src", Layout(tile)), element),
        )  # fmt: skip
        ring = k.shared(f"tile_{buffer.name}", element, layout, stages=stages)
        thread, filling, reading = k.get_slice(mma), _slice(k, fill), k.get_slice(read)
        taking = filling
        if unpack:
            source = f"UniversalCopy<uint{bits}_t>"
            copy = _spread(source, stored.element, mma.threads, taken, along, vector // per)
            taking = _slice(k, copy)
        fragment = thread.fragment_A if operand == "A" else thread.fragment_B
        held = tuple(fragment(f"f{buffer.name}{n}", (tile[0], mma.tile_shape[2])) for n in range(sets))
        return _Side(
            stored, taken, fill, taking.partition_S(local_tile(stored.tensor, taken, (block, None))),
            filling.partition_D(ring), reading.partition_S(ring), tuple(map(reading.retile, held)), held,
            unpack,
        )  # fmt: skip


def _fragment_copy(mma: TiledMMA, operand: Literal["A", "B"], along: int) -> TiledCopy:
    """The widest ldmatrix that divides the fragments of a step; single loads of what it would tear."""
    make = make_tiled_copy_A if operand == "A" else make_tiled_copy_B
    bits, steps = mma.atom.dtype(operand).bits, mma.tile_shape[2] // mma.atom.shape_mnk[2]
    matrices = gcd(4, _words(mma)["AB".index(operand)] // steps)
    if bits == 64 or (bits == 32 and not along):
        return make(f"UniversalCopy<uint{bits}_t>", mma)
    return make(f"SM75_U32x{matrices}_LDSM_N" if along else f"SM75_U16x{2 * matrices}_LDSM_T", mma)


def _spread(
    atom: str, element: DType, threads: int, tile: tuple[int, int], along: int, vector: int
) -> TiledCopy:
    """The copy of a tile in vectors along a mode, by the most threads that divide it, most along it."""
    near, far = _divisors(tile[along] // vector), _divisors(tile[1 - along])
    used, lanes = max((x * y, x) for x in near for y in far if x * y <= threads)
    if along:
        return make_tiled_copy(atom, element, Layout((used // lanes, lanes), (lanes, 1)), Layout((1, vector)))
    return make_tiled_copy(atom, element, Layout((lanes, used // lanes)), Layout((vector, 1)))


def _slice(k: KernelBuilder, copy: TiledCopy) -> ThreadSlice:
    """The slice of a copy by the first threads of a block; the others have one that is not theirs."""
    return k.get_slice(copy, k.thread % copy.threads)


def _taking_part(k: KernelBuilder, copy: TiledCopy) -> AbstractContextManager[None]:
    """The branch of the threads that take part in a copy."""
    return nullcontext() if copy.threads > k.thread.facts.hi else k.If(k.thread < copy.threads)


def _layout(tile: tuple[int, int], element: DType, along: int, *accesses: Access) -> AnyLayout:
    """The layout of a tile that serves accesses without bank conflicts, or else with the fewest."""
    found = synthesize(tile, accesses, element=element, order="row" if along else "col")
    return found.layout if found.layout is not None else found.alternatives[0].layout


def _converted(k: KernelBuilder, held: Fragment, element: DType, together: int) -> Fragment:
    """Registers as elements of a type, `together` of the narrow ones in a word: 2, or 1."""
    if held.element == element and held.per_word <= together:
        return held
    if held.per_word > together:
        held = converted(k, held, "f32")
    return converted(k, held, element.name, values=together)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]
