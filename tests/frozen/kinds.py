"""The kind of a configuration: which code of its family a problem takes, and how often it takes what repeats.

    sum: HeadTail columns side groups split float wide | HeadTail columns side groups float     tiles 2, ...
    permute: staged cp.async lead swizzled aligned/anywhere 2 to 1

`Kind.name` is what a record counts: the form of a walk and the words of a configuration that change the text
of a kernel.  `Kind.more` are numbers of tiles, rounds and ends, each as none, one or several, and what has to
stay for a smaller problem to be one of the same structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

from layoutalg.arch import Arch
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.elementwise import MapConfig, refusal
from layoutalg.kernels.gemm.gemv import GemvConfig, block_columns
from layoutalg.kernels.gemm.gemv import check as check_gemv
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.matrix import MatrixProblem, vector_elems
from layoutalg.kernels.move.problem import PermuteProblem, normalise
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.kernels.rowwise import CrossEntropyProblem, NormConfig, NormProblem, ReduceConfig, plan_with
from layoutalg.kernels.rowwise.packed import PackedWalk
from layoutalg.kernels.rowwise.ways.norm_plan import form_of
from layoutalg.kernels.rowwise.ways.reduce_plan import Pass
from layoutalg.kernels.rowwise.ways.schedule import Schedule, checked_walk


class Kind(NamedTuple):
    """See the module's text."""

    name: str
    more: tuple[Any, ...]


def several(n: int, most: int = 2) -> int:
    """A number up to `most`, which stands for those past it."""
    return min(n, most)


def kind_of(family: str, problem: Any, config: Any, arch: str | Arch) -> Kind:
    """The kind of a configuration.  Raises what making its plan raises where it does not stand."""
    if isinstance(problem, CrossEntropyProblem):
        kind = _reduction(problem.losses, config, arch)
        shown = "losses" if problem.reduction == "none" else f"{problem.reduction} of losses"
        return Kind(f"{family}, {shown}: {kind.name}", kind.more)
    ways: dict[type, Callable[..., Kind]] = {
        ReduceConfig: _reduction, NormConfig: _norm, PermuteConfig: _permute, MapConfig: _map,
        GemvConfig: _gemv,
    }  # fmt: skip
    usual: Callable[..., Kind] = _product if isinstance(problem, GemmProblem) else _matrix
    way = ways.get(type(config), usual)
    kind = way(problem, config, arch)
    group = family if way not in (_reduction, _map) else "reduction" if way is _reduction else "map"
    return Kind(f"{group}: {kind.name}", kind.more)


def fewer(config: Any) -> Iterator[Any]:
    """A configuration with fewer blocks per row, parts of k and resident blocks, and as it is."""
    splits, resident = getattr(config, "splits", 1), getattr(config, "resident", 0)
    for n in dict.fromkeys((*(n for n in (2, 3, 4, 5, 7, 8) if n < splits), splits)):
        one = replace(config, splits=n) if n != splits else config
        if not resident:
            yield one
        elif config.together:
            yield replace(one, resident=n * min(2, resident // splits))
        else:
            yield from (replace(one, resident=r) for r in range(1, min(4, resident)))
    yield config


# --- rows and columns ------------------------------------------------------------------------------------


def _walk(walk: Any) -> tuple[list[str], list[Any]]:
    """Words of a walk, and its numbers."""
    t, form = walk.tiling, walk.form
    words = [type(walk).__name__, "rows" if form.lead.reduced else "columns"]
    words += ["apart"] * (form.lead.src != 1) + ["vectors"] * (t.vec > 1) + ["side"] * (t.rows_per_block > 1)
    words += ["warp" if t.lanes == 32 else "lanes"] * (t.lanes > 1) + ["groups"] * (t.groups > 1)
    words += ["turns"] * (t.rows_per_thread > 1)
    more = [several(len(form.kept), 3), several(len(form.reduced), 3), several(walk.tiles)]
    more += [walk.places % (t.rows_per_block * t.rows_per_thread) > 0]
    if isinstance(walk, PackedWalk):
        words += ["several runs"] * (walk.parts.runs > 1) + ["shifted"] * walk.shifted
        words += ["from units"] * walk.starts_at_units + ["ends short"] * walk.ends_short
        words += ["outer"] * bool(walk.parts.outer)
        more += [several(walk.slabs), several(walk.tiles_along), several(len(walk.parts.outer), 3)]
    elif walk.cut:
        words.append("cut")
    return words, more


def _pass(q: Pass) -> tuple[str, list[Any]]:
    c = q.config
    words, more = _walk(q.walk)
    words += ["split"] * (c.splits > 1) + ["edges"] * (q.edge_rounds > 0) + ["left"] * (q.left > 0)
    words += [f"later {type(c.later).__name__}"] * (c.later is not None) + ["joins"] * q.joins
    words += [q.fold if q.words > 1 else "floats", *["labels"] * (q.labels is not None and not q.joins)]
    words += ["counts"] * (q.labels is not None and q.labels.counts and c.splits == 1)
    words += ["narrow"] * (q.element.nbytes < 4) + ["stores vectors"] * (q.store_vec > 1)
    more += [several(q.rounds // c.splits), q.rounds % c.splits > 0, q.tail_steps > 0, q.factor != 1.0]
    return " ".join(words), more


def _reduction(p: Any, c: ReduceConfig, arch: str | Arch) -> Kind:
    first, *others = plan_with(p, c, arch).passes
    name, more = _pass(first)
    for q in others:  # a reduction of what the first one wrote, by a plan of its own
        name += f" | {type(q.walk).__name__} {'rows' if q.walk.rows else 'columns'}{' joins' * q.joins}"
        more.append(several(q.walk.tiles))
    return Kind(name, tuple(more))


def _norm(p: NormProblem, c: NormConfig, arch: str | Arch) -> Kind:
    walk = checked_walk(p, form_of(p), c)
    schedule = Schedule(walk, c)
    words, more = _walk(walk)
    words += [c.hold, *["split"] * (c.splits > 1), *["cluster"] * (c.cluster > 1)]
    words += ["stream"] * (c.width > 0) + ["resident"] * (c.resident > 0) + ["staged"] * (c.staged > 0)
    words += ["narrow"] * (p.dtype.nbytes < 4) + ["weight"] * p.weight + ["bias"] * p.bias
    if not c.turns:
        words += [f"{s.hold}{' plain' * s.plain}" for s in schedule.segments]
        more += [several(schedule.rounds, 3), walk.steps % (c.threads_per_row * c.splits * c.cluster) > 0]
        at_once = c.resident // c.splits if c.together else c.resident
        more += [at_once and walk.tiles > at_once]
        if schedule.ring is not None:
            words.append(f"ring{' plain' * schedule.ring.plain}")
            more += [several(schedule.ring.slots), several(schedule.ring.turns)]
    return Kind(" ".join(words), tuple(more))


# --- moves and maps --------------------------------------------------------------------------------------


def _permute(p: PermuteProblem, c: PermuteConfig, arch: str | Arch) -> Kind:
    x = normalise(p)
    if len(c.tile) != x.rank or any(t > m.extent for t, m in zip(c.tile, x.modes, strict=True)):
        raise UnsupportedError(f"tile {c.tile} of {x}")
    s = Stage(x, c)
    words = [c.way, f"{s.size} to {s.dst_size}" if x.cast else "bits", *["narrow"] * (s.size < 4)]
    more: list[Any] = [several(x.rank, 4), tuple(several(n) for n in s.counts)]
    more += [tuple(m.extent % t > 0 for m, t in zip(s.modes, c.tile, strict=True))]
    if c.way == "direct":
        return Kind(" ".join(words), tuple(more))
    if c.turned and s.lead and s.modes[s.src_run[0]].dst % s.unit:
        raise UnsupportedError(f"words of {x} are turned, and runs start at different places of their units")
    words += [c.via, *["chunks"] * (c.chunk > 1), *["vectors"] * (c.vec > 1)]
    words += [n for n in ("turned", "lanes", "loading", "storing") if getattr(c, n)]
    words += ["swizzled"] * (c.swizzle.bits > 0) + ["lead"] * (s.lead > 0) + ["halo"] * bool(s.halo)
    words += ["source aligned"] * s.src_aligned + ["target aligned"] * s.dst_aligned
    more += [len(s.src_run), len(s.dst_run), s.loads > c.threads, s.stores > c.threads, s.walk, c.align]
    return Kind(" ".join(words), tuple(more))


def _matrix(p: MatrixProblem, c: Any, arch: str | Arch) -> Kind:
    words = [f"{f.name}={getattr(c, f.name)}" for f in fields(c) if f.name in ("via", "edges")]
    words += [f"{n} {'several' if getattr(c, n) > 1 else 'one'}" for n in VECTORS if hasattr(c, n)]
    more: tuple[Any, ...] = tuple(min(vector_elems(x, p.element_bytes), 16) for x in (p.lds, p.ldd))
    more += (p.m % c.tile_m > 0, p.n % c.tile_n > 0, several(p.m // c.tile_m), several(p.n // c.tile_n))
    return Kind(f"{p.element_bytes} bytes {' '.join(words)}", more)


VECTORS = ("vec", "edge_vec", "src_vec", "dst_vec")


def _map(p: Any, c: MapConfig, arch: str | Arch) -> Kind:
    if (why := refusal(p, c.vec)) is not None:
        raise why
    total = p.form[0].extent
    for m in p.form[1:]:
        total *= m.extent
    blocks = total // c.vec / (c.threads * c.depth)
    name = f"{len(p.formula.inputs)} inputs vectors of {c.vec}, {c.depth} in flight"
    return Kind(name, (several(len(p.form), 3), several(int(blocks)), blocks != int(blocks)))


# --- products --------------------------------------------------------------------------------------------


def _gemv(p: GemmProblem, c: GemvConfig, arch: str | Arch) -> Kind:
    check_gemv(p, c)
    along_k = p.b_major == "k"
    step = (c.lanes * c.vec if along_k else c.groups) * c.depth
    across = block_columns(p, c)
    words = [f"along {p.b_major}", *["columns"] * (c.columns > 1), *["warps"] * (c.lanes > 32)]
    words += ["vectors"] * (c.vec > 1) + ["rows"] * (c.rows > 1) + ["narrow"] * (p.operand.nbytes < 4)
    more = (several(p.k // step), p.k % step > 0, p.k % c.vec > 0, several(p.n // across), p.n % across > 0)
    return Kind(" ".join(words), (*more, p.n % c.vec == 0, p.ldb % c.vec == 0, p.lda % c.vec == 0))


def _product(p: GemmProblem, c: Any, arch: str | Arch) -> Kind:
    check_config(p, c)
    words = [c.via, p.a_major + p.b_major, *["cut"] * c.edges]
    words += [f"{f} {getattr(c, f)}" for f in ("through", "mma_m") if hasattr(c, f)]
    words += [f for f in ("cluster_m", "cluster_n", "cluster_k", "consumers") if getattr(c, f, 1) > 1]
    words += ["ping-pong"] * getattr(c, "pingpong", False) + ["parts"] * (c.splits > 1)
    words += ["groups"] * p.grouped + ["narrow"] * (p.operand.nbytes == 1)
    more: list[Any] = [c.panel]
    for n, tile, most in (
        (p.m, c.tile_m * getattr(c, "cluster_m", 1), 2), (p.n, c.tile_n * getattr(c, "cluster_n", 1), 2),
        (p.k, c.tile_k, (c.stages + 1) * c.splits),
    ):  # fmt: skip
        more += [several(n // tile, most), n % tile > 0]
    return Kind(" ".join(words), tuple(more))
