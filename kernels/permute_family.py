"""permute: dst[i] = src[i] for every i of a shape, any strides on both sides, elements of 1 to 16 bytes.

The idea.  The plan (permute_plan) decides, the stage (permute_stage) says where everything lies, and this
module writes it down as a tile program:

    direct     each thread moves single elements: load them all, store them all
    staged     1  chunks of the source, aligned as memory is, are copied to shared memory asynchronously
               2  after the barrier each thread gathers one vector of the destination from the tile:
                  element by element, or words of several rows that it transposes in registers
               3  and stores it; vectors that the tensor's edge cuts are stored element by element

A kernel is built for one problem: extents and strides are constants, only the pointers are parameters.
Pointers are multiples of 16 bytes; a tensor that starts elsewhere has an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, Expr, Var, as_expr
from layoutalg.codegen.instr_sm75 import BAR, LDG, LDS, MOVE, STG, STS, TRANSPOSE_8, TRANSPOSE_16
from layoutalg.codegen.instr_sm80 import CP_ASYNC, CP_COMMIT, CP_WAIT
from layoutalg.codegen.tile import Global, Kernel, MemRef, Reg, Shared
from layoutalg.kernels.permute_modes import Moves
from layoutalg.kernels.permute_stage import PermuteConfig, Stage, Store

TURN = {2: TRANSPOSE_16, 4: TRANSPOSE_8}
"""Transposes words of as many rows; of single elements, its first word is all of them together."""


def build(x: Moves, c: PermuteConfig) -> Kernel:
    """The tile program of a configuration.

    >>> from layoutalg.kernels.permute_modes import normalise, permute_problem
    >>> from layoutalg.kernels.permute_plan import configs
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> build(x, configs(x)[0]).name
    'permute_b32'
    """
    stage = Stage(x, c)
    k = KernelBuilder(f"permute_b{8 * stage.size}", c.threads, notes=_notes(stage))
    src = k.pointer("src", stage.size)
    dst = k.pointer("dst", stage.size, writable=True)
    block = k.block(0, stage.blocks)
    origins = [k.let(f"origin{n}", as_expr(o)) for n, o in enumerate(stage.origins(block))]
    if c.way == "direct":
        _direct(k, stage, src, dst, origins)
    else:
        tile = k.shared("tile", 1, stage.layout, stage.tile_bytes, 1024)
        _load(k, stage, src, tile, origins)
        k.do(BAR)
        _store(k, stage, tile, dst, origins)
    return k.build()


def _all(predicates: Iterable[Expr | bool]) -> Expr:
    """The conjunction; 1 of none."""
    total: Expr = Const(1)
    for p in predicates:
        total = total & (Const(int(p)) if isinstance(p, bool) else p)
    return total


def _step(k: KernelBuilder, loop: Var, total: int) -> tuple[Expr, list[Expr]]:
    """The thread's index in a round of a loop over `total`, and the predicate that it is below."""
    x = k.tid + loop * k.threads
    return x, [x < total] if total % k.threads else []


def _direct(k: KernelBuilder, stage: Stage, src: Global, dst: Global, origins: Sequence[Var]) -> None:
    passes = -(-stage.elements // k.threads)
    v = k.reg("v", passes, max(1, stage.size // 4))
    with k.Unroll("i", passes) as i:
        x, below = _step(k, i, stage.elements)
        source, _, exists = stage.direct(x, origins)
        with k.If(_all([*below, *exists])):
            k.do(LDG[stage.size], v[i], k.at(src, source))
    with k.Unroll("i", passes) as i:
        x, below = _step(k, i, stage.elements)
        _, target, exists = stage.direct(x, origins)
        with k.If(_all([*below, *exists])):
            k.do(STG[stage.size], k.at(dst, target), v[i])


def _load(k: KernelBuilder, stage: Stage, src: Global, tile: Shared, origins: Sequence[Var]) -> None:
    chunk, size = stage.config.chunk, stage.size
    held = k.reg("held", max(1, chunk * size // 4))
    with k.For("i", -(-stage.loads // k.threads), unroll=4) as i:
        x, below = _step(k, i, stage.loads)
        x = k.let("x", x)
        at = stage.load(x, origins)
        with k.If(_all([*below, *at.exists])):
            source, place = k.let("source", at.source), as_expr(at.place)
            if at.inside is None:
                _copy(k, stage, held, k.at(tile, place), k.at(src, source))
            else:
                with k.If(at.inside):
                    _copy(k, stage, held, k.at(tile, place), k.at(src, source))
                with k.Else(), k.For("e", chunk) as e, k.If(source + e < stage.moves.src_elems):
                    one = held.slice(0, count=max(1, size // 4))
                    k.do(LDG[size], one, k.at(src, source + e))
                    k.do(STS[size], k.at(tile, place + e * size), one)
    if stage.config.via == "cp.async":
        k.do(CP_COMMIT)
        k.do(CP_WAIT, 0)


def _copy(k: KernelBuilder, stage: Stage, held: Reg, place: MemRef, source: MemRef) -> None:
    nbytes = stage.config.chunk * stage.size
    if stage.config.via == "cp.async":
        k.do(CP_ASYNC[nbytes], place, source)
    else:
        k.do(LDG[nbytes], held, source)
        k.do(STS[nbytes], place, held)


def _store(k: KernelBuilder, stage: Stage, tile: Shared, dst: Global, origins: Sequence[Var]) -> None:
    c, size, group = stage.config, stage.size, stage.group
    words = max(1, c.vec * size // 4)
    v = k.reg("v", c.vec, max(1, size // 4))
    u = k.reg("u", group, words)
    with k.For("j", -(-stage.stores // k.threads), unroll=max(1, 4 // c.vec)) as j:
        x, below = _step(k, j, stage.stores)
        x = k.let("y", x)
        vectors = [stage.store(x, origins, member) for member in range(group)]
        with k.If(_all([*below, *vectors[0].row])):
            if group > 1:
                _turn(k, stage, tile, vectors[0], v, u)
                for member, vector in enumerate(vectors):
                    with k.If(_all(vector.row)):
                        with k.If(_all(vector.whole)):
                            _put_whole(k, stage, dst, vector, v, u, member)
                        if vector.whole:
                            with k.Else():
                                _put_elements(k, stage, tile, dst, vector, v)
            else:
                with k.If(_all(vectors[0].whole)):
                    _gather(k, stage, tile, vectors[0], v, u)
                    _put_whole(k, stage, dst, vectors[0], v, u, 0)
                if vectors[0].whole:
                    with k.Else():
                        _put_elements(k, stage, tile, dst, vectors[0], v)


def _turn(k: KernelBuilder, stage: Stage, tile: Shared, vector: Store, v: Reg, u: Reg) -> None:
    """Words of `group` neighbouring rows, transposed to words of each row."""
    group = stage.group
    for e, place in enumerate(vector.places):
        k.do(LDS[4], v[e], k.at(tile, place))
    t = k.reg("t", group)
    for word in range(len(vector.places) // group):
        k.do(TURN[group], t, *(v[word * group + e] for e in range(group)))
        for member in range(group):
            k.do(MOVE, u[member, word], t[member])


def _gather(k: KernelBuilder, stage: Stage, tile: Shared, vector: Store, v: Reg, u: Reg) -> None:
    """The elements of a vector, one by one, packed into words."""
    size, pack = stage.size, 4 // stage.size
    for e, place in enumerate(vector.places):
        where = v[e] if size < 4 else u.slice(0, e * size // 4, count=size // 4)
        k.do(LDS[size], where, k.at(tile, place))
    if pack > 1 and len(vector.places) > 1:
        t = k.reg("t", pack)
        for word in range(len(vector.places) // pack):
            k.do(TURN[pack], t, *(v[word * pack + e] for e in range(pack)))
            k.do(MOVE, u[0, word], t[0])


def _put_whole(
    k: KernelBuilder, stage: Stage, dst: Global, vector: Store, v: Reg, u: Reg, member: int
) -> None:
    """Store a vector from its words."""
    nbytes = stage.config.vec * stage.size
    k.do(STG[nbytes], k.at(dst, vector.target), v[0] if nbytes < 4 else u[member])


def _put_elements(k: KernelBuilder, stage: Stage, tile: Shared, dst: Global, vector: Store, v: Reg) -> None:
    """Fetch and store the elements of a vector that exist, one by one."""
    size = stage.size
    for e, (place, exists) in enumerate(zip(vector.places, vector.exists, strict=True)):
        with k.If(_all(exists)):
            one = v[0]
            k.do(LDS[size], one, k.at(tile, place))
            k.do(STG[size], k.at(dst, vector.target + e), one)


def _notes(stage: Stage) -> list[str]:
    c = stage.config
    lines = ["", f"dst[i] = src[i] for all i: {stage.moves}."]
    if c.way == "direct":
        return [*lines, f"A block of {c.threads} threads moves {stage.elements} elements, tile {c.tile}."]
    return [
        *lines,
        f"A block of {c.threads} threads stages a tile {stage.held} in rows of {stage.row_bytes} bytes,",
        f"{c.chunk * stage.size} bytes at a time by {c.via}, and stores {c.vec * stage.size} bytes a lane.",
        f"Byte b of the tile lies at {stage.layout}.",
    ]
