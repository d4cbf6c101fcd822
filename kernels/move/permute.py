"""permute: dst[i] = src[i] for every i of a shape, any strides on both sides, elements of 1 to 16 bytes.

The idea.  The plan (plan) decides, the stage (stage) says where everything lies, and this
module writes it down as a tile program:

    direct     each thread moves single elements: load them all, store them all
    staged     1  chunks of the source, aligned as memory is, are copied to shared memory asynchronously
               2  after the barrier each thread gathers one vector of the destination from the tile, what
                  lies side by side by one load (gather): elements that it puts in order by byte
                  permutes, or words of several rows that it transposes in registers
               3  and stores it; of vectors that the end of a run cuts, words and elements that exist

A kernel is built for one problem: extents and strides are constants, only the pointers are parameters.
Pointers are multiples of 16 bytes; a tensor that starts elsewhere has an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Operand, Var, as_expr
from layoutalg.codegen.instr import (
    BAR,
    BYTE_PERMUTE,
    CP_ASYNC,
    CP_ASYNC_LINE,
    CP_COMMIT,
    CP_WAIT,
    LDG,
    LDS,
    MOVE,
    STG_WHOLE,
    STS,
    TRANSPOSE_8,
    TRANSPOSE_16,
)
from layoutalg.codegen.program import Kernel, KernelBuilder, MemRef, Reg, RegRef, Shared, Tensor, whole
from layoutalg.kernels.move.gather import begin_bytes, permutes, reads, words_of
from layoutalg.kernels.move.misaligned import block_base, parts
from layoutalg.kernels.move.partition import Load, Store, block_origins, direct_element, load_chunk
from layoutalg.kernels.move.problem import Moves
from layoutalg.kernels.move.stage import WORD_BYTES, PermuteConfig, Stage, coordinates

TURN = {2: TRANSPOSE_16, 4: TRANSPOSE_8}
"""Transposes words of as many rows."""


def build(x: Moves, c: PermuteConfig) -> Kernel:
    """The tile program of a configuration.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.plan import configs
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> build(x, configs(x)[0]).name
    'permute_b32'
    """
    stage = Stage(x, c)
    k = KernelBuilder(f"permute_b{8 * stage.size}", c.threads, notes=_notes(stage))
    src = _tensor(k, stage, "src", [m.src for m in stage.modes])
    dst = _tensor(k, stage, "dst", stage.dst_strides)
    block = k.block(0, stage.blocks)
    origins = [k.let(f"origin{n}", as_expr(o)) for n, o in enumerate(block_origins(stage, block))]
    if c.way == "direct":
        _direct(k, stage, src, dst, origins)
    else:
        base = k.let("base", as_expr(block_base(stage, origins)))
        tile = k.shared_buffer("tile", 1, stage.layout, stage.tile_bytes, 1024)
        _load(k, stage, src, tile, origins, base)
        k.do(BAR)
        _store(k, stage, tile, dst, origins, base)
    return k.build()


def _all(predicates: Iterable[Expr | bool]) -> Expr:
    """The conjunction; 1 of none."""
    total: Expr = Const(1)
    for p in predicates:
        total = total & (Const(int(p)) if isinstance(p, bool) else p)
    return total


ELEMENT = MappingProxyType({1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"})
"""Element types by width: elements are moved, never computed with."""


Way: TypeAlias = Literal["load", "store", "read", "write"]
"""What a partition is of: chunks of the source, vectors of the destination, single elements of either."""


def _tensor(k: KernelBuilder, stage: Stage, name: str, strides: Sequence[int]) -> Tensor:
    """A side of the problem by its modes, and behind them a mode of stride 1: elements along a run, or all
    of an element's place where it is no inner product.
    """
    steps = (*map(abs, strides), 1)
    return k.tensor(name, ELEMENT[stage.size], (None,) * len(steps), steps, writable=name == "dst")


def _flat(tensor: Tensor, place: Expr) -> MemRef:
    """The element at a number of elements from the buffer's start."""
    return tensor.moved(*(0,) * (len(tensor.origin) - 1), place).at(0)


def _partition(stage: Stage, tensor: Tensor, origins: Sequence[Operand], way: Way) -> Tensor:
    """A block's part of a side, by the numbers of its elements, chunks or vectors.

    Along the modes of a run the tile is one mode, the last: its elements are counted from the buffer's start.
    """
    run, offset, digits = {
        "load": (stage.src_run, stage.moves.src_offset, stage.chunk_digits),
        "store": (stage.dst_run, stage.moves.dst_offset, stage.vector_digits),
        "read": ((), stage.moves.src_offset, stage.element_digits),
        "write": ((), stage.moves.dst_offset, stage.element_digits),
    }[way]
    ragged = [m.extent if m.extent % t else None for m, t in zip(stage.modes, stage.tile, strict=True)]
    at, bounds = [*map(as_expr, origins), Const(offset)], [*ragged, None]
    for k in run:
        at[k], bounds[k] = Const(0), None
    if run:
        inner = prod(stage.tile[k] for k in run[:-1])
        at[-1] = at[-1] + origins[run[-1]] * inner
        end = ragged[run[-1]]
        bounds[-1] = offset + end * inner if end and way == "load" else None
    return replace(
        tensor.moved(*at),
        extents=tuple(None if n is None else Const(n) for n in bounds),
        coordinates=coordinates(tuple(d for d in digits if d[0] > 1)),
    )


def _staged(stage: Stage, tile: Shared, base: Operand) -> Tensor:
    """The block's bytes in shared memory, by the numbers of chunks that start where no row is skewed."""
    steps = (*stage.coefficients, stage.size)
    layout = tuple((n, step * steps[k], 0) for n, step, k in stage.chunk_digits if n > 1)
    return replace(whole(tile).moved(base * stage.size + stage.lead_bytes), coordinates=coordinates(layout))


def _step(k: KernelBuilder, loop: Var, total: int, threads: int) -> tuple[Expr, list[Expr]]:
    """The index of one of `threads` threads in a round of a loop over `total`, and that it is one of them."""
    x = k.tid + loop * threads
    among = [k.tid < threads] if threads < k.threads else []
    return x, [*among, x < total] if total % threads else among


def _direct(k: KernelBuilder, stage: Stage, src: Tensor, dst: Tensor, origins: Sequence[Var]) -> None:
    passes, moves = -(-stage.elements // k.threads), stage.moves
    v = k.reg("v", passes, max(1, stage.size // 4))
    here, there = _partition(stage, src, origins, "read"), _partition(stage, dst, origins, "write")
    bent = moves.src_swizzle or moves.dst_swizzle or any(m.src < 0 for m in stage.modes)

    def element(x: Expr) -> tuple[MemRef, MemRef, Expr]:
        if not bent:
            return here.at(x), there.at(x), here.inside(x)
        source, target, exists = direct_element(stage, x, origins)
        return _flat(src, source), _flat(dst, target), _all(exists)

    with k.Unroll("i", passes) as i:
        x, below = _step(k, i, stage.elements, k.threads)
        source, _, exists = element(x)
        with k.If(_all([*below, exists])):
            k.do(LDG[stage.size], v[i], source)
    with k.Unroll("i", passes) as i:
        x, below = _step(k, i, stage.elements, k.threads)
        _, target, exists = element(x)
        with k.If(_all([*below, exists])):
            k.do(STG_WHOLE[stage.size], target, v[i])


def _load(
    k: KernelBuilder, stage: Stage, src: Tensor, tile: Shared, origins: Sequence[Var], base: Var
) -> None:
    held = k.reg("held", max(1, stage.chunk_bytes // 4))
    threads = stage.config.loading or k.threads
    here, there = _partition(stage, src, origins, "load"), _staged(stage, tile, base)
    with k.For("i", -(-stage.loads // threads), unroll=4) as i:
        x, below = _step(k, i, stage.loads, threads)
        if stage.is_straight:
            with k.If(_all([*below, here.inside(x)])):
                _copy(k, stage, held, there.at(x), here.at(x))
        else:
            _load_skewed(k, stage, held, src, tile, load_chunk(stage, x, origins, base), below)
    if stage.config.via == "cp.async":
        k.do(CP_COMMIT)
        k.do(CP_WAIT, 0)


def _load_skewed(
    k: KernelBuilder, stage: Stage, held: Reg, src: Tensor, tile: Shared, at: Load, below: list[Expr]
) -> None:
    """A chunk of a row that starts anywhere; past the end of the buffer single elements."""
    size = stage.size
    with k.If(_all([*below, *at.exists])):
        source, place = k.let("source", at.source), as_expr(at.place)
        if at.inside is None:
            _copy(k, stage, held, k.at(tile, place), _flat(src, source))
        else:
            with k.If(at.inside):
                _copy(k, stage, held, k.at(tile, place), _flat(src, source))
            with k.Else(), k.For("e", stage.config.chunk) as e, k.If(source + e < stage.moves.src_elems):
                one = held.slice(0, count=max(1, size // 4))
                k.do(LDG[size], one, _flat(src, source + e))
                k.do(STS[size], k.at(tile, place + e * size), one)


def _copy(k: KernelBuilder, stage: Stage, held: Reg, place: MemRef, source: MemRef) -> None:
    nbytes = stage.chunk_bytes
    if stage.config.via == "cp.async":
        k.do((CP_ASYNC_LINE if stage.config.lines else CP_ASYNC)[nbytes], place, source)
    else:
        k.do(LDG[nbytes], held, source)
        k.do(STS[nbytes], place, held)


def _store(
    k: KernelBuilder, stage: Stage, tile: Shared, dst: Tensor, origins: Sequence[Var], base: Var
) -> None:
    c, size, group = stage.config, stage.size, stage.group
    u = k.reg("u", group, max(1, c.vec * size // 4))
    one = k.reg("one", 1)
    threads = c.storing or c.threads
    with k.For("j", -(-stage.stores // threads), unroll=4) as j:
        x, below = _step(k, j, stage.stores, threads)
        vectors = [Store(stage, x, origins, base, member) for member in range(group)]
        with k.If(_all([*below, *vectors[0].row])):
            (_turn if group > 1 else _gather)(k, stage, tile, vectors[0], u)
            for member, vector in enumerate(vectors):
                with k.If(_all(vector.row if member else ())):
                    with k.If(_all(vector.ends.whole)):
                        k.do(STG_WHOLE[c.vec * size], _flat(dst, vector.target), u[member])
                    if vector.ends.whole:
                        with k.Else():
                            _store_parts(k, stage, dst, vector, u[member], one)


def _turn(k: KernelBuilder, stage: Stage, tile: Shared, vector: Store, u: Reg) -> None:
    """Words of `group` neighbouring runs, transposed to words of each run."""
    group, vec = stage.group, stage.config.vec
    t, (v, begins) = k.reg("t", group), _read(k, stage, tile, vector)
    for word in range(vec // group):
        k.do(TURN[group], t, *(v[begins[e] // WORD_BYTES] for e in range(word * group, (word + 1) * group)))
        for member in range(group):
            k.do(MOVE, u[member, word], t[member])


def _gather(k: KernelBuilder, stage: Stage, tile: Shared, vector: Store, u: Reg) -> None:
    """The elements of a vector in order, each word of it composed of bytes of what was read."""
    v, begins = _read(k, stage, tile, vector)
    for word, sources in enumerate(words_of(begins, stage.size)):
        first = v[sources[0] // WORD_BYTES]
        steps = permutes(sources)
        if not steps:
            k.do(MOVE, u[0, word], first)
        for further, selector in steps:
            k.do(BYTE_PERMUTE, u[0, word], first, v[further], selector)
            first = u[0, word]


def _read(k: KernelBuilder, stage: Stage, tile: Shared, vector: Store) -> tuple[Reg, list[int]]:
    """Registers with a vector's elements, or words, read from the tile; the byte where each begins."""
    found = reads(stage)
    v, at = k.reg("v", sum(read.words for read in found)), 0
    for read in found:
        k.do(LDS[read.nbytes], v.slice(at, count=read.words), k.at(tile, vector.place(read.first)))
        at += read.words
    return v, begin_bytes(found)


def _store_parts(k: KernelBuilder, stage: Stage, dst: Tensor, vector: Store, words: RegRef, one: Reg) -> None:
    """Store what exists of a vector: words where they are whole, single elements of the others."""
    size, target = stage.size, k.let("target", vector.target)
    for first, count in parts(stage):
        word = _part(words, first * size // 4, max(1, size // 4))
        with k.If(_all(vector.ends.all_of(first, count))):
            at = _flat(dst, target + first)
            if count > 1 or first * size % 4 == 0:
                k.do(STG_WHOLE[count * size], at, word)
            else:
                _put_narrow(k, at, word, first * size % 4, size, one)
        if count > 1:
            with k.Else():
                for e in range(first, first + count):
                    with k.If(_all(vector.ends.exists(e))):
                        _put_narrow(k, _flat(dst, target + e), word, e * size % 4, size, one)


def _put_narrow(k: KernelBuilder, at: MemRef, word: RegRef, byte: int, size: int, one: Reg) -> None:
    """Store `size` bytes of a word, from number `byte` on."""
    k.do(BYTE_PERMUTE, one, word, word, 0x3210 + byte * 0x1111 & 0x3333)
    k.do(STG_WHOLE[size], at, one)


def _part(words: RegRef, first: int, count: int) -> RegRef:
    """`count` of a vector's words, from number `first` on."""
    return words.reg.slice(*words.index, first, count=count)


def _notes(stage: Stage) -> list[str]:
    c = stage.config
    lines = ["", f"dst[i] = src[i] for all i: {stage.moves}."]
    if c.way == "direct":
        return [*lines, f"A block of {c.threads} threads moves {stage.elements} elements, tile {c.tile}."]
    return [
        *lines,
        f"A block of {c.threads} threads stages a tile {stage.held}, {stage.chunk_bytes} bytes at a time by "
        f"{c.via},",
        f"modes {stage.coefficients} bytes apart, and stores {c.vec * stage.size} bytes a lane.",
        f"Byte b of the tile lies at {stage.layout}.",
    ]
