"""permute: dst[i] = src[i] for every i of a shape, any strides on both sides, elements of 1 to 16 bytes.

The idea.  `plan` decides, `stage` says what a tile is made of, `partition` where chunk, vector and element x
lie, and this module writes it down as a tile program:

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

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Var, as_expr
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.codegen.program import Kernel, MemRef, Reg, RegRef, Shared
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.move import partition
from layoutalg.kernels.move.gather import begin_bytes, permutes, reads, words_of
from layoutalg.kernels.move.matrix import TRANSPOSE_WORDS
from layoutalg.kernels.move.problem import Moves
from layoutalg.kernels.move.stage import WORD_BYTES, PermuteConfig, Stage
from layoutalg.kernels.move.tiles import VECTOR_BYTES

_COPIES = {"cp.async": instr.CP_ASYNC, "registers": instr.LDG}
"""The instructions that copy a chunk to shared memory."""

BYTE_READS, BYTE_THREADS = 16, 1024
"""Loads of a vector, of single bytes, from which on registers are left for so many threads of a
multiprocessor where rounds repeat a vector's place in its run.

Left alone the compiler keeps the addresses of all for several rounds, in up to 255 registers: one block per
multiprocessor.  On an H200, 26 first choices of 64 drawn tensors take 0.961 of the time with this, from 0.52
to 1.09."""


def check_config(stage: Stage) -> None:
    """Raise for a configuration from any source that no kernel of its problem has.

    Raises ShapeError for a tile of other modes than the problem's, UnsupportedError for names and widths that
    no instruction has, and for words of rows that cannot be turned.
    """
    c, x = stage.config, stage.moves
    if len(c.tile) != x.rank or min(c.tile, default=1) < 1:
        raise ShapeError(f"a tile {c.tile} of {x}: {x.rank} extents from 1 on are needed, one per mode")
    for name, value, accepted in (("way", c.way, ("direct", "staged")), ("via", c.via, tuple(_COPIES))):
        if value not in accepted:
            raise UnsupportedError(f"{name} = {value!r}: {' and '.join(map(repr, accepted))} are accepted")
    if c.way == "direct":
        return
    widths = (
        ("chunk", c.chunk, stage.chunk_bytes, f"copied by {c.via}", _COPIES[c.via]),
        ("vec", c.vec, c.vec * stage.dst_size, "stored", instr.STG_WHOLE),
    )
    for name, elems, nbytes, how, table in widths:
        existing = [n for n in sorted(table) if n <= VECTOR_BYTES]
        if nbytes not in existing:
            shown = ", ".join(map(str, existing))
            raise UnsupportedError(f"{name} = {elems}, {nbytes} bytes of {x}, {how}: {shown} are accepted")
    if c.turned and not stage.can_turn:
        raise UnsupportedError(
            f"turned words of {x} with chunk = {c.chunk}, vec = {c.vec} and a tile {c.tile}: elements of "
            f"less than {WORD_BYTES} bytes, chunks, vectors and rows of whole words, and rows that start at "
            "words are needed"
        )


def build(x: Moves, c: PermuteConfig) -> Kernel:
    """The tile program of a configuration.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.plan import configs
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> build(x, configs(x)[0]).name
    'permute_b32'
    """
    stage = Stage(x, c)
    check_config(stage)
    kind = "{}_{}".format(*x.cast) if x.cast else f"b{8 * stage.size}"
    k = KernelBuilder(f"permute_{kind}", c.threads, notes=_notes(stage))
    if stage.size == 1 and c.storing and len(reads(stage)) >= BYTE_READS:
        k.min_blocks = max(1, BYTE_THREADS // c.threads)
    src, dst = partition.tensor_of(k, stage, "src"), partition.tensor_of(k, stage, "dst")
    block = k.block(0, stage.blocks)
    origins = [k.let(f"origin{n}", as_expr(o)) for n, o in enumerate(partition.block_origins(stage, block))]
    if c.way == "direct":
        _direct(k, stage, src, dst, origins)
    else:
        base = k.let("base", as_expr(partition.block_base(stage, origins)))
        tile = k.shared_buffer("tile", 1, stage.layout, stage.tile_bytes, 1024)
        _load(k, stage, src, tile, origins, base)
        k.do(instr.BAR)
        _store(k, stage, tile, dst, origins, base)
    return k.build()


def _all(predicates: Iterable[Expr | bool]) -> Expr:
    """The conjunction; 1 of none."""
    total: Expr = Const(1)
    for p in predicates:
        total = total & (Const(int(p)) if isinstance(p, bool) else p)
    return total


def _step(k: KernelBuilder, loop: Var, total: int, threads: int) -> tuple[Expr, list[Expr]]:
    """The index of one of `threads` threads in a round of a loop over `total`, and that it is one of them."""
    x = k.tid + loop * threads
    among = [k.tid < threads] if threads < k.threads else []
    return x, [*among, x < total] if total % threads else among


def _direct(k: KernelBuilder, stage: Stage, src: Tensor, dst: Tensor, origins: Sequence[Var]) -> None:
    passes, moves = -(-stage.elements // k.threads), stage.moves
    v = k.reg("v", passes, max(1, stage.size // 4))
    bent = moves.src_swizzle or moves.dst_swizzle or any(m.src < 0 for m in stage.modes)

    def element(x: Expr) -> tuple[MemRef, MemRef, Expr]:
        if bent:
            source, target, exists = partition.direct_element(stage, x, origins)
            return partition.flat(src, source), partition.flat(dst, target), _all(exists)
        here, there = (
            partition.part_of(stage, x, origins, "read"),
            partition.part_of(stage, x, origins, "write"),
        )
        return here.of(src), there.of(dst), _all(there.exists)

    with k.Unroll("i", passes) as i:
        x, below = _step(k, i, stage.elements, k.threads)
        source, _, exists = element(x)
        with k.If(_all([*below, exists])):
            k.do(instr.LDG[stage.size], v[i], source)
    w = k.reg("w", max(1, stage.dst_size // 4)) if moves.cast else None
    with k.Unroll("i", passes) as i:
        x, below = _step(k, i, stage.elements, k.threads)
        _, target, exists = element(x)
        with k.If(_all([*below, exists])):
            if w is not None:
                k.do(_conversion(stage, 1), w, v[i])
            k.do(instr.STG_WHOLE[stage.dst_size], target, v[i] if w is None else w)


def _conversion(stage: Stage, n: int) -> instr.Instr:
    """The conversion of n elements.  Raises UnsupportedError where there is none."""
    if stage.moves.cast is None:
        raise UnsupportedError(f"{stage.moves}: elements are not converted")
    source, target = stage.moves.cast
    return instr.convert(n, source.name, target.name)


def _load(
    k: KernelBuilder, stage: Stage, src: Tensor, tile: Shared, origins: Sequence[Var], base: Var
) -> None:
    """Chunks of rows with any start; past the end of the buffer single elements."""
    size, threads = stage.size, stage.config.loading or k.threads
    held = k.reg("held", max(1, stage.chunk_bytes // 4))
    with k.For("i", -(-stage.loads // threads), unroll=4) as i:
        x, below = _step(k, i, stage.loads, threads)
        chunk = partition.Load(stage, x, origins, base)
        with k.If(_all([*below, *chunk.exists])):
            ref = chunk.part.of(src) if stage.is_straight else partition.flat(src, chunk.source)
            source = k.let("source", ref.index)  # under a name, or the loop would carry a pointer of 64 bits
            place, ref = as_expr(chunk.place), replace(ref, index=source)
            if chunk.inside is None:
                _copy(k, stage, held, k.at(tile, place), ref)
            else:
                with k.If(chunk.inside):
                    _copy(k, stage, held, k.at(tile, place), ref)
                with k.Else(), k.For("e", stage.config.chunk) as e, k.If(source + e < stage.moves.src_elems):
                    one = held.slice(0, count=max(1, size // 4))
                    k.do(instr.LDG[size], one, partition.flat(src, source + e))
                    k.do(instr.STS[size], k.at(tile, place + e * size), one)
    if stage.config.via == "cp.async":
        k.do(instr.CP_COMMIT)
        k.do(instr.CP_WAIT, 0)


def _copy(k: KernelBuilder, stage: Stage, held: Reg, place: MemRef, source: MemRef) -> None:
    nbytes = stage.chunk_bytes
    if stage.config.via == "cp.async":
        k.do((instr.CP_ASYNC_LINE if stage.config.lines else instr.CP_ASYNC)[nbytes], place, source)
    else:
        k.do(instr.LDG[nbytes], held, source)
        k.do(instr.STS[nbytes], place, held)


def _store(
    k: KernelBuilder, stage: Stage, tile: Shared, dst: Tensor, origins: Sequence[Var], base: Var
) -> None:
    c, size, group = stage.config, stage.dst_size, stage.group
    u = k.reg("u", group, max(1, c.vec * stage.size // 4))
    w = k.reg("w", group, max(1, c.vec * size // 4)) if stage.moves.cast else u
    one = k.reg("one", 1)
    threads = c.storing or c.threads
    straight = stage.dst_aligned and not stage.moves.dst_swizzle
    with k.For("j", -(-stage.stores // threads), unroll=4) as j:
        x, below = _step(k, j, stage.stores, threads)
        vectors = [
            partition.Store(stage, x, partition.run_origins(stage, origins, member), base)
            for member in range(group)
        ]
        rows = [_all(v.part.exists) for v in vectors]
        with k.If(_all([*below, rows[0]])):
            (_turn if group > 1 else _gather)(k, stage, tile, vectors[0], u)
            for member in range(group) if w is not u else ():
                k.do(_conversion(stage, c.vec), w[member], u[member])
            for member, vector in enumerate(vectors):
                with k.If(rows[member] if member else Const(1)):
                    whole = vector.ends.exist(0, c.vec)
                    with k.If(_all(whole)):
                        at = vector.part.of(dst) if straight else partition.flat(dst, vector.target)
                        k.do(instr.STG_WHOLE[c.vec * size], at, w[member])
                    if whole:
                        with k.Else():
                            _store_parts(k, stage, dst, vector, w[member], one)


def _turn(k: KernelBuilder, stage: Stage, tile: Shared, vector: partition.Store, u: Reg) -> None:
    """Words of `group` neighbouring runs, transposed to words of each run."""
    group, vec = stage.group, stage.config.vec
    t, (v, begins) = k.reg("t", group), _read(k, stage, tile, vector)
    for word in range(vec // group):
        k.do(
            TRANSPOSE_WORDS[group],
            t,
            *(v[begins[e] // WORD_BYTES] for e in range(word * group, (word + 1) * group)),
        )
        for member in range(group):
            k.do(instr.MOVE, u[member, word], t[member])


def _gather(k: KernelBuilder, stage: Stage, tile: Shared, vector: partition.Store, u: Reg) -> None:
    """The elements of a vector in order, each word of it composed of bytes of what was read."""
    v, begins = _read(k, stage, tile, vector)
    for word, sources in enumerate(words_of(begins, stage.size)):
        first = v[sources[0] // WORD_BYTES]
        steps = permutes(sources)
        if not steps:
            k.do(instr.MOVE, u[0, word], first)
        for further, selector in steps:
            k.do(instr.BYTE_PERMUTE, u[0, word], first, v[further], selector)
            first = u[0, word]


def _read(k: KernelBuilder, stage: Stage, tile: Shared, vector: partition.Store) -> tuple[Reg, list[int]]:
    """Registers with a vector's elements, or words, read from the tile; the byte where each begins."""
    found = reads(stage)
    v, at = k.reg("v", sum(read.words for read in found)), 0
    carries = vector.carries if any(read.nbytes == stage.size for read in found) else None
    if carries is not None:
        rows = (k.let(f"row{n}", row) for n, row in enumerate(carries.rows))
        carries = replace(carries, digit=k.let("digit", carries.digit), rows=tuple(rows))
    for read in found:
        # a wide load's place has to be proved aligned, which is not known of what two rows choose between
        place = carries.place if carries and read.nbytes == stage.size else vector.place
        k.do(instr.LDS[read.nbytes], v.slice(at, count=read.words), k.at(tile, place(read.first)))
        at += read.words
    return v, begin_bytes(found)


def _store_parts(
    k: KernelBuilder, stage: Stage, dst: Tensor, vector: partition.Store, words: RegRef, one: Reg
) -> None:
    """Store what exists of a vector: words where they are whole, single elements of the others."""
    size, target = stage.dst_size, k.let("target", vector.target)
    for first, count in partition.parts(stage):
        word = _part(words, first * size // 4, max(1, size // 4))
        with k.If(_all(vector.ends.exist(first, count))):
            at = partition.flat(dst, target + first)
            if count > 1 or first * size % 4 == 0:
                k.do(instr.STG_WHOLE[count * size], at, word)
            else:
                _put_narrow(k, at, word, first * size % 4, size, one)
        if count > 1:
            with k.Else():
                for e in range(first, first + count):
                    with k.If(_all(vector.ends.exist(e))):
                        _put_narrow(k, partition.flat(dst, target + e), word, e * size % 4, size, one)


def _put_narrow(k: KernelBuilder, at: MemRef, word: RegRef, byte: int, size: int, one: Reg) -> None:
    """Store `size` bytes of a word, from number `byte` on."""
    k.do(instr.BYTE_PERMUTE, one, word, word, 0x3210 + byte * 0x1111 & 0x3333)
    k.do(instr.STG_WHOLE[size], at, one)


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
        f"modes {stage.coefficients} bytes apart, and stores {c.vec * stage.dst_size} bytes per lane.",
        f"Byte b of the tile lies at {stage.layout}.",
    ]
