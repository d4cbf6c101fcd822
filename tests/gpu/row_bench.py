"""Norms and reductions on one GPU: cases, their ways compiled, checked and timed beside a copy and PyTorch.

Case n of a seed has 1 to 6 modes, 64 to 512 MB and f32, f16 or bf16 elements; its last extent is a multiple
of 8 if n is even, and only then.

Every way of a case is checked, the first one against PyTorch's float64, others against the first one's
result, and each against the bits of its own first launch.  All are then launched in turn on normal numbers;
a copy of the source, or the only way, runs twice, which says what repeats.  A share is the rate of bytes that
must be moved over that of the copy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import exp, log, prod
from typing import Any, NamedTuple

from layoutalg.codegen import gpu
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import LayoutAlgError, ResourceError
from layoutalg.kernels import find_family
from layoutalg.kernels.checks import baselines, bench_of
from layoutalg.kernels.checks.rowwise import Case
from tests.gpu.counters import verdict
from tests.gpu.timing import Run, Turns, as_torch, write

FIT, FRESH = 20261123, 20261124
"""The seeds: of cases that choices are made on, and of cases that they are tried on."""

LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20
NORMED, REDUCED = ("softmax", "layer_norm", "rms_norm"), ("sum", "mean", "max")
DTYPES = ("f32", "f16", "bf16")
AHEAD_CYCLES, SLOW_US, EPS = 200_000, 5000.0, 1e-5


def drawn(seed: int, norms: int = 40, reductions: int = 60) -> tuple[Case, ...]:
    """The cases of a seed: norms, then reductions.

    >>> drawn(FIT) == drawn(FIT), len(drawn(FIT, 3, 2))
    (True, 5)
    """
    return (*_drawn(f"{seed} norms", NORMED, norms), *_drawn(f"{seed} reductions", REDUCED, reductions))


def _drawn(seed: str, ops: tuple[str, ...], count: int) -> Iterator[Case]:
    rng, n = random.Random(seed), 0
    while n < count:
        dtype = rng.choice(DTYPES)
        size = find_dtype(dtype).nbytes
        elems = exp(rng.uniform(log(LEAST_BYTES), log(MOST_BYTES))) / size
        rank, grain = rng.randint(1, 6), 1 if n % 2 else 8
        cuts = [0.0, *sorted(rng.random() for _ in range(rank - 1)), 1.0]
        extents = [elems ** (b - a) for a, b in pairwise(cuts)]
        last = max(grain, round(extents[-1] / grain) * grain)
        shape = (*(max(1, round(x)) for x in extents[:-1]), last)
        axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, max(1, rank - 1)))))
        if LEAST_BYTES <= prod(shape) * size <= MOST_BYTES and (grain == 8) == (last % 8 == 0):
            yield Case(rng.choice(ops), shape, axes, dtype)
            n += 1


def columns_of(op: str, dtype: str, rows: int, nbytes: int = 256 << 20) -> Case:
    """So many rows, reduced, of as many whole lines of 128 bytes as `nbytes` have."""
    columns = max(1, round(nbytes / rows / 128)) * 128 // find_dtype(dtype).nbytes
    return Case(op, (rows, columns), (0,), dtype)


def problem_of(case: Case) -> Any:
    """The problem of a case, in its family."""
    return find_family(case.op).problem(*case[1:])


class Way(NamedTuple):
    """A configuration of a case and its launches, or why there are none."""

    config: Any
    sequence: gpu.CompiledSequence | None
    refusal: str = ""


def compiled_way(asked: tuple[Case, Any, str]) -> Way:
    """A way of a case for an architecture; None: the one that is chosen."""
    case, config, arch = asked
    family, p = find_family(case.op), problem_of(case)
    try:
        config = config or family.choose(p, arch)
        return Way(config, gpu.compile_sequence(family.launches(p, config, arch), arch))
    except LayoutAlgError as error:
        return Way(config, None, str(error))


def compiled_ways(asked: Iterable[tuple[Case, Any]]) -> list[tuple[Case, Way]]:
    """The ways of some cases for this GPU, compiled by all cores."""
    work, arch = list(asked), gpu.require_gpu().arch
    ways = gpu.in_processes(compiled_way, [(case, config, arch) for case, config in work])
    return [(case, way) for (case, _), way in zip(work, ways, strict=True)]


def formula(case: Case) -> Callable[[Any], Any]:
    """A case as a function of a tensor of its shape, for torch.compile."""
    import torch

    op, axes = case.op, case.axes
    if op in REDUCED:
        reduction = getattr(torch, "amax" if op == "max" else op)
        return lambda x: reduction(x, axes)
    if op == "softmax" and len(axes) == 1:
        return lambda x: torch.softmax(x, axes[0])

    def norm(x: Any) -> Any:
        y = x.float()
        if op == "softmax":
            e = (y - y.amax(axes, keepdim=True)).exp()
            return (e / e.sum(axes, keepdim=True)).to(x.dtype)
        if op == "rms_norm":
            return (y * torch.rsqrt(y.square().mean(axes, keepdim=True) + EPS)).to(x.dtype)
        variance, mean = torch.var_mean(y, axes, correction=0, keepdim=True)
        return ((y - mean) * torch.rsqrt(variance + EPS)).to(x.dtype)

    return norm


def compiled_by_torch(case: Case, x: Any) -> Run:
    """The launch of what torch.compile makes of a case, tuned."""
    import torch

    torch._dynamo.reset()
    best = torch.compile(formula(case), mode="max-autotune-no-cudagraphs", dynamic=False)
    y = as_torch(x, case.dtype, case.shape)
    best(y)
    best(y)
    return lambda: best(y)


def near(found: Any, right: Any, dtype: str) -> bool:
    """Whether two results differ by a few last places of the largest number, in all elements."""
    a, b = (as_torch(x, dtype, (-1,)) for x in (found, right))
    allowed = float(b.abs().max()) * (2.0**-18 if dtype == "f32" else 2.0**-7)
    return bool(((a.float() if dtype != "f32" else a) - b).abs().max() <= allowed)


@dataclass(frozen=True)
class Timed:
    """Median microseconds by name, what is wrong, and the ways that ran."""

    us: dict[str, float]
    moved: float
    """Bytes that must be moved, over those that the copy moves."""
    wrong: str = ""
    ways: dict[str, Way] = field(default_factory=dict)

    def share(self, name: str) -> float:
        """The rate of a contender over that of the copy."""
        return self.moved * self.us["copy"] / self.us[name]


class Bench:
    """Sources and a destination, once for all cases."""

    def __init__(self, turns: Turns) -> None:
        self.turns, most = turns, MOST_BYTES + 4096
        self.sources = {d: gpu.random_normal(most // find_dtype(d).nbytes, 1, d) for d in DTYPES}
        self.target = gpu.device_empty((most,), "u1")

    def arrays(self, case: Case) -> tuple[Any, Any, int]:
        """The source and the destination in whole units of 16 bytes, and the bytes of the source."""
        p, nbytes = problem_of(case), prod(case.shape) * find_dtype(case.dtype).nbytes
        src = (
            self.sources[case.dtype].view("u1")[: -(-nbytes // 16) * 16].view(self.sources[case.dtype].dtype)
        )
        dst = self.target[: max(16, -(-p.axes.target_elems * p.result.nbytes // 16) * 16)].view(src.dtype)
        return src, dst, nbytes

    def timed(
        self, case: Case, ways: Mapping[str, Way], again: str = "copy", others: Sequence[str] = (),
        more: Mapping[str, Run] | None = None,
    ) -> Timed:  # fmt: skip
        """The times of ways, of a copy, of `again`, and of `others`: "compile", "eager" PyTorch."""
        p, (src, dst, nbytes) = problem_of(case), self.arrays(case)
        runs: dict[str, Run] = {"copy": gpu.device_copy(self.target[:nbytes], src.view("u1")[:nbytes])}
        wrong, ran = "", dict[str, Way]()
        for name, way in ways.items():
            try:
                if way.sequence is None:
                    raise LayoutAlgError(way.refusal)
                run = gpu.load_sequence(way.sequence.ready()).on_arrays({"src": src, "dst": dst})
            except LayoutAlgError as error:  # a cluster that the device does not fit
                print("   refused", case, way.config, error, flush=True)
                continue
            dst.fill(0)
            if not ran:
                wrong += bench_of(find_family(case.op)).check(p, {"src": src, "dst": dst}, run)
                right = dst.copy()
            run()
            wrong += "" if near(dst, right, case.dtype) else f"another result by {way.config}"
            first = dst.view("u1").copy()
            run()
            wrong += "" if bool((first == dst.view("u1")).all()) else f"other bits by {way.config}"
            runs[name], ran[name] = run, way
        x = src.reshape(-1)[: prod(case.shape)].reshape(case.shape)
        if "compile" in others:
            runs["compile"] = compiled_by_torch(case, x)
        if "eager" in others and (eager := baselines.torch_reduction(case.op, x, case.axes, case.dtype)):
            runs["eager"] = eager
        runs |= {"again": runs[again], **(more or {})}
        for each in runs.values():
            each()
        return Timed(self.turns.medians(runs), p.moved_bytes / (2 * nbytes), wrong, ran)


def bench(rounds: int, *, seed: int = FIT, once_us: float = float("inf")) -> Bench:
    """A bench whose rounds are so many."""
    return Bench(Turns(rounds, seed, AHEAD_CYCLES, once_us))


def active_clusters(way: Way) -> int:
    """Clusters of a way that run at a time; 0 where it has none, or they do not fit."""
    try:
        loaded = gpu.load_prepared(way.sequence.prepared[0]) if way.sequence else None
        return loaded.active_clusters if loaded and getattr(way.config, "cluster", 1) > 1 else 0
    except ResourceError:
        return 0


def row_of(case: Case, timed: Timed) -> dict[str, Any]:
    """A case with the medians of its contenders, their shares, and what the compiler made of its ways."""
    ways: dict[str, dict[str, Any]] = {}
    for name, way in timed.ways.items():
        one = way.sequence.prepared[0] if way.sequence else None
        if one is not None:
            ways[name] = {
                **asdict(way.config), "registers": one.cubin.registers, "spills": one.cubin.spill_bytes,
            }  # fmt: skip
            ways[name] |= {"shared_bytes": one.kernel.shared_bytes, "clusters": active_clusters(way)}
    shares = {name: timed.share(name) for name in timed.us}
    return {**case._asdict(), "us": timed.us, "share": shares, "wrong": timed.wrong, "ways": ways}


def said(row: Mapping[str, Any]) -> str:
    """The contenders of a case, the fastest first."""
    case, (us, ways) = Case(*(row[name] for name in Case._fields)), (row["us"], row["ways"])
    lines = [f"\n{case}, again {row['aa']:.3f} {row['wrong']}"]
    for name in sorted(us, key=us.__getitem__):
        registers = f"{ways[name]['registers']:3d} registers" if name in ways else ""
        lines.append(f"   {row['share'][name]:.3f} {us[name]:8.1f} us  {registers:13}  {name}")
    return "\n".join(lines)


def sweep(
    out: str, cases: Iterable[tuple[Case, Mapping[str, Way]]], bench: Bench, others: Sequence[str] = (),
    rows: Sequence[Mapping[str, Any]] = (), again: str = "copy",
) -> list[dict[str, Any]]:  # fmt: skip
    """Time the ways of cases, `others` and `again`; print and write their rows, behind those there are."""
    made: list[dict[str, Any]] = []
    for case, ways in cases:
        made.append(row_of(case, bench.timed(case, ways, again, others)))
        made[-1]["aa"] = made[-1]["us"]["again"] / made[-1]["us"][again]
        print(said(made[-1]), flush=True)
        write(out, [*rows, *made])
    return made


def by_case(asked: Iterable[tuple[Case, Any]]) -> dict[Case, dict[str, Way]]:
    """The ways of some cases for this GPU, compiled by all cores, by their configurations' texts."""
    found: dict[Case, dict[str, Way]] = {}
    for case, way in compiled_ways(asked):
        found.setdefault(case, {})[str(way.config)] = way
    print(f"{sum(map(len, found.values()))} ways of {len(found)} cases compiled", flush=True)
    return found


def wrong_rows(rows: Iterable[Mapping[str, Any]]) -> int:
    """Print how many results are right; the exit status."""
    wrong = [bool(row["wrong"]) for row in rows]
    return verdict(sum(wrong), len(wrong), "results")
