"""Softmax, layer norm, rms norm: dst = f(src, statistics over some modes), any strides, f32, f16 or bf16.

    problem = norm_problem("softmax", shape, axes, dtype, src, dst, src_offset, dst_offset,
                           eps=1e-5, weight=False, bias=False, in_place=False)
    launches = plan(problem, "sm_90")         raises ShapeError for a tensor without elements: a no-op
    launches.kernels                          a few, with a buffer `partial` of workspace_elems floats

The idea.  A norm is a record of steps (`recipes`).  A program takes them as its configuration says: held or
online, whole, in halves or by a cluster, of runs that blocks copy, of columns that they keep or stream.

Notes.  In place there is no `src`.  Pointers are multiples of 16 bytes: a tensor that starts elsewhere has an
offset (elements from such a place on).  Where rows do not start at vectors, whole 16-byte units are read:
those that hold an element.  Weight and bias are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import STG, fill
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import ways
from layoutalg.kernels.rowwise.forms import with_rows
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.packed import PackedWalk
from layoutalg.kernels.rowwise.programs import streams
from layoutalg.kernels.rowwise.programs.block import ONE_WORD, RowBlock
from layoutalg.kernels.rowwise.programs.block_reduce import counters, give, given, meet, partials, save
from layoutalg.kernels.rowwise.programs.cluster import Exchange, build_slabs
from layoutalg.kernels.rowwise.programs.recipes import NORMS, Norm
from layoutalg.kernels.rowwise.walk import WARP, Walk

Part: TypeAlias = Literal["whole", "statistics", "joined", "result"]
"""The part of a norm in a kernel: all, either half of a split, or the step between those of a stream."""


@dataclass(frozen=True, slots=True)
class NormLaunches:
    """The launches of a problem: kernels in order, and the floats of scratch memory between them.

    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> found = plan(norm_problem("softmax", (64, 1000), 1, "f16"))
    >>> len(found.kernels), found.workspace_elems
    (1, 0)
    """

    problem: NormProblem
    config: ways.NormConfig
    kernels: tuple[Kernel, ...]
    workspace_elems: int


def plan(
    problem: NormProblem, arch: str | Arch = DEFAULT_ARCH, config: ways.NormConfig | None = None, *,
    free: bool = False,
) -> NormLaunches:  # fmt: skip
    """The launches of a problem, by the best configuration or a given one; `free`: of any number of rows.

    Raises ShapeError for a tensor without elements, UnsupportedError for a split whose parts are held, for
    clusters that keep anything but a row, or columns that start at vectors, for runs that are split or read
    twice, or in place do not start at units, and what `cannot_hold`, `checked_walk` and `packed_walk` say.
    """
    c = ways.norm_configs(problem, arch)[0] if config is None else config
    if (why := ways.cannot_hold(problem, c)) is not None:
        raise why
    if c.turns and (c.splits > 1 or c.hold == "global"):
        raise UnsupportedError(
            f"{problem} by runs, split in {c.splits}, by {c.hold}: runs are whole, and held"
        )
    form, free = ways.form_of(problem), free and c.splits == 1 and not c.resident and not c.width
    walk = ways.checked_walk(problem, with_rows(form) if free else form, c)
    if c.cluster > 1 and not ways.can_cluster(walk, c):
        raise UnsupportedError(
            f"{problem} in clusters of {c.cluster} by {c.hold}: a row, or aligned columns, are kept, on chip"
        )
    if problem.in_place and isinstance(walk, PackedWalk) and not walk.starts_at_units:
        raise UnsupportedError(f"{problem} by runs: two blocks would share a unit of {walk.unit} elements")
    if c.width:
        return _streamed(problem, walk, c)
    if c.splits == 1:
        return NormLaunches(problem, c, (build(problem, walk, c),), 0)
    at_once = c.resident / c.splits
    if c.together and not (walk.rows and c.staged and at_once in range(1, walk.tiles + 1)):
        raise UnsupportedError(
            f"{problem} by {c.resident} resident blocks: {c.splits} times the rows that are read at once, 1 "
            f"to {walk.tiles}, which keep what they read last in a ring of staged vectors"
        )
    if c.hold != "global":
        raise UnsupportedError(f"{problem} split in {c.splits} by {c.hold}: parts are read twice, by global")
    words = c.splits * walk.places * _words(problem, walk)
    if c.together:
        places = counters(walk, _words(problem, walk))
        return NormLaunches(problem, c, (_clear(problem, places), build(problem, walk, c)), places.stop)
    kernels = build(problem, walk, c, "statistics"), build(problem, walk, c, "result")
    return NormLaunches(problem, c, kernels, words)


def _words(p: NormProblem, walk: Walk) -> int:
    """Words of the partials of a row."""
    return sum(1 if name in ONE_WORD else walk.values for name in NORMS[p.formula].partials)


def _clear(p: NormProblem, places: range) -> Kernel:
    """The kernel that sets the counters of barriers, behind the partials, to 0."""
    k = KernelBuilder(f"{p.title}_clear", WARP, notes=["", "Counters of arrivals are 0."])
    zero, partial = k.reg("zero", 1), k.pointer("partial", 4, writable=True)
    k.do(fill(1), zero, Const(0))
    with k.For("n", -(-len(places) // WARP)) as n:
        which = k.let("which", n * WARP + k.tid)
        with k.If(which < len(places)):
            k.do(STG[4], k.at(partial, places.start + which * places.step), zero)
    return k.build()


def _streamed(p: NormProblem, walk: Walk, c: ways.NormConfig) -> NormLaunches:
    """Statistics of columns of memory, those of groups, and results."""
    s, norm = ways.stream_with(ways.form_of(p), c), NORMS[p.formula]
    joined = streams.build_joined(f"{p.title}_joined", p, s, c, _notes(p, walk, c, "joined"), norm)
    kernels = build(p, walk, c, "statistics"), joined, build(p, walk, c, "result")
    return NormLaunches(p, c, kernels, streams.workspace(s, c, norm))


def build(p: NormProblem, walk: Walk, c: ways.NormConfig, part: Part = "whole") -> Kernel:
    """The tile program of a configuration, or of one half of a split."""
    name, last = p.title + ("" if part == "whole" else f"_{part}"), part == "result"
    norm = NORMS[p.formula]
    if (c.cluster > 1 or c.resident) and not walk.rows:
        return build_slabs(name, p, walk, c, _notes(p, walk, c, part), norm)
    b = RowBlock(name, p, walk, c, _notes(p, walk, c, part), writes=part != "statistics", backwards=last)
    b.k.min_blocks = c.blocks_per_sm
    if c.turns:
        return _packed(b, norm)
    if c.together:
        return _together(b, norm)
    if c.width and (last or c.threads_per_row > 1):
        by_stream = streams.build_results if last else streams.build_statistics
        return by_stream(b, ways.stream_with(ways.form_of(p), c), c, norm)
    x = Exchange(b.k, c.threads // WARP, len(norm.partials)) if c.cluster > 1 else None
    if x is not None:
        x.open()
    b.hold()
    if x is not None:
        _cluster(b, x, norm)
    elif part == "whole" and c.hold != "global":
        norm.held(b)
    else:
        norm.start(b)
        b.ahead(backwards=last)
        if last:
            for _ in partials(b, *norm.others(b)):
                norm.join(b)
        else:
            norm.online(b)
        if part == "whole":
            b.ahead(backwards=True)
        norm.combine(b)
    if part == "statistics":
        save(b, *norm.planes(b))
        return b.k.build()
    norm.results(b, backwards=c.hold == "global")
    return b.k.build()


def _cluster(b: RowBlock, x: Exchange, norm: Norm) -> None:
    """Statistics of a row that a cluster holds: those of each warp, which all warps of all blocks join."""
    b.in_warps = True
    norm.start(b)
    norm.online(b)
    norm.combine(b)
    give(b, x, *norm.planes(b))
    norm.joined(b, given(b, x, *norm.others(b)))


def _together(b: RowBlock, norm: Norm) -> Kernel:
    """The program of blocks that are resident: statistics of each, which all of a row join."""
    with b.rows_in_turn() as turn:
        norm.start(b)
        b.ahead()
        norm.online(b)
        norm.combine(b)
        meet(b, turn, *norm.planes(b))
        norm.joined(b, partials(b, *norm.others(b)))
        norm.results(b, backwards=True)
    return b.k.build()


def _packed(b: RowBlock, norm: Norm) -> Kernel:
    """The program of a block that copies a run of rows: all steps are taken in shared memory."""
    b.run.copy_in(b.src.buffer)
    with b.turns():
        norm.held(b)
        norm.results(b)
    b.run.copy_out(b.dst.buffer)
    return b.k.build()


def _notes(p: NormProblem, w: Walk, c: ways.NormConfig, part: Part) -> list[str]:
    rounds = ways.Schedule(w, c).rounds
    held = {
        "registers": "held in registers",
        "shared": "held in shared memory" + (f", {c.staged} of them, or in registers" if c.staged else ""),
        "global": f"read twice, {c.depth} vectors of a thread at a time"
        + (f", {c.staged} on their way to shared memory" if c.staged else ""),
    }[c.hold]  # fmt: skip
    made = f" to {p.result}" if p.result != p.dtype else ""
    lines = [
        "",
        f"{p.op} of {w.form}, {p.dtype}{made}: {_formula(p)}.",
        f"{c.threads_per_row} threads share the statistics of a {'row' if w.rows else 'column'}, "
        f"{c.rows_per_block} groups of them per block; vectors of {c.vec} elements, "
        f"{rounds} per thread, {held}.",
    ]
    if isinstance(w, PackedWalk):
        lines.append("A block copies a run of rows to shared memory as it lies, and back.")
    if c.cluster > 1:
        what = "a row" if w.rows else f"a slab of {c.rows_per_block * c.vec} columns"
        stay = f"; {c.resident} clusters go from slab to slab" if 0 < c.resident < w.tiles else ""
        lines.append(
            f"The {c.cluster} blocks of a cluster hold {what} together, "
            f"and exchange its statistics once{stay}."
        )
    if c.width:
        does = {"statistics": "statistics of columns", "joined": "statistics of groups", "result": "results"}
        lines.append(f"A stream of rows of {c.width} columns, by {c.splits} blocks in turn: {does[part]}.")
    elif c.splits > 1:
        half = "its statistics are written" if part == "statistics" else "the statistics of all are joined"
        if c.together:
            half = "all are resident, join those of all, and keep what they have read last"
        lines.append(f"{c.splits} blocks have a part of a statistic each; {half}.")
    return lines


def _formula(p: NormProblem) -> str:
    """The formula for an element x."""
    if p.formula == "softmax":
        return "e^(x - max) / sum e^(x - max)"
    extra = f"{' * weight' if p.weight else ''}{' + bias' if p.bias else ''}"
    what, spread = ("(x - mean)", "variance") if p.formula == "layer_norm" else ("x", "mean x^2")
    of_sum = ", x = source + residual, which is written over the residual" if p.norm.adds else ""
    return f"{what} / sqrt({spread} + {p.eps}){extra}{of_sum}"
