"""Time reductions, softmax and layer norm beside the libraries: one interleaved run, on normal random data.

A row is one operation over some axes of one tensor.  Rates are the bytes that have to be moved, each element
of the source read once and each result written once, over the time of each contender:

    ours       the first plan, compiled by all cores before anything is timed
    limit      what memory gave in the same rounds: to a reduction our sum of as many bytes as one long
               vector ("read"), to a norm the driver's copy of as many bytes ("copy")
    PyTorch    torch.sum, amax, mean, softmax, layer_norm; axes that PyTorch does not take at once are moved
               to the end first, as its users do, and stay there
    CuPy       its sum, max and mean, of f32 and f16

Notes.  `CASES` are shapes that the literature quotes, odd ones and small ones; `random_cases` draws more, the
same for the same seed.  `memory_bytes` is what the plan expects memory to move.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod, sqrt
from statistics import geometric_mean
from typing import Any, NamedTuple

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import (
    array_reduction,
    device_copy,
    device_empty,
    in_processes,
    median_times_ms,
    random_normal,
    require_gpu,
)
from layoutalg.dtype import dtype
from layoutalg.errors import MismatchError, UnsupportedError
from layoutalg.kernels.baselines import torch_difference, torch_reduction
from layoutalg.kernels.chains import (
    LoadedChain,
    Problem,
    ReadyChain,
    chain_of,
    find_problem,
    load_chain,
    prepare_chain,
)
from layoutalg.kernels.move.problem import PermuteProblem
from layoutalg.kernels.rounding import HALF_PLACE, SMALLEST_SUM
from layoutalg.kernels.rowwise.norm import plan
from layoutalg.kernels.rowwise.norm_modes import OPS, NormProblem
from layoutalg.kernels.rowwise.norm_traffic import traffic
from layoutalg.kernels.rowwise.reduce_plan import FOLD, ReducePlan, plans

Shape = tuple[int, ...]


class Case(NamedTuple):
    """`op` over `axes` of a dense tensor of `shape` and `dtype`."""

    op: str
    shape: Shape
    axes: Shape
    dtype: str

    def __str__(self) -> str:
        shape, axes = ("x".join(map(str, self.shape)), ",".join(map(str, self.axes)))
        return f"{self.op} {shape} over {axes} {self.dtype}"


DTYPES = ("f32", "f16", "bf16")

REDUCED: tuple[tuple[Shape, Shape], ...] = (
    ((8192, 8192), (1,)), ((8192, 8192), (0,)), ((65536, 1024), (1,)), ((65536, 1024), (0,)),
    ((1024, 65536), (1,)), ((1024, 65536), (0,)), ((64, 256, 56, 56), (0, 2, 3)), ((32, 1024, 1024), (1,)),
    ((1 << 26,), (0,)), ((8191, 8193), (1,)), ((8191, 8193), (0,)), ((256, 256), (1,)), ((256, 256), (0,)),
)  # fmt: skip
"""(shape, axes) that are summed, of every type."""

NORMED: tuple[tuple[Shape, Shape, tuple[str, ...]], ...] = (
    ((8192, 8192), (1,), ("f32", "bf16")), ((8192, 8192), (0,), ("f32", "bf16")),
    ((65536, 1024), (1,), ("f32", "bf16")), ((65536, 1024), (0,), ("f32", "bf16")),
    ((32, 1024, 1024), (1,), ("f32", "bf16")), ((64, 1000), (1,), ("f32",)), ((4096, 50257), (1,), ("f16",)),
    ((1, 1 << 24), (1,), ("f32",)), ((8191, 8193), (1,), ("f32", "bf16")),
    ((8191, 8193), (0,), ("f32", "bf16")),
)  # fmt: skip
"""(shape, axes, types) of which softmax and layer norm are made."""

CASES = tuple(
    [Case("sum", shape, axes, dtype) for shape, axes in REDUCED for dtype in DTYPES]
    + [Case(op, shape, axes, dtype) for op in OPS for shape, axes, dtypes in NORMED for dtype in dtypes]
)

SEED, DRAWN_REDUCED, DRAWN_NORMED = 2027, 12, 8
ELEMS = 1 << 25
"""Elements of a drawn tensor, about."""


def random_cases(
    seed: int = SEED, reduced: int = DRAWN_REDUCED, normed: int = DRAWN_NORMED
) -> tuple[Case, ...]:  # fmt: skip
    """Dense tensors of 2 to 5 modes with some of them reduced, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(1, 3, 2))
    (True, 5)
    """
    rng = random.Random(seed)
    found: list[Case] = []
    for ops, count in ((tuple(FOLD), reduced), (OPS, reduced + normed)):
        while len(found) < count:
            rank = rng.randint(2, 5)
            cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
            shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
            grain = rng.choice((1, 1, 8, 32))
            shape = tuple(max(1, round(ELEMS**share / grain)) * grain for share in shares)
            axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank - 1))))
            case = Case(rng.choice(ops), shape, axes, rng.choice(DTYPES))
            if ELEMS // 2 < prod(shape) < 2 * ELEMS:
                found.append(case)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ReduceRow:
    """One case: GB/s (10^9 bytes a second) of each contender; None: not installed, or it cannot.

    `limit` names what the share is of; `moved_bytes` have to be moved, `memory_bytes` are predicted to be.
    """

    case: str
    ours: float
    limit: str
    limit_rate: float
    torch: float | None
    cupy: float | None
    moved_bytes: int
    memory_bytes: int

    @property
    def share(self) -> float:
        """Our rate as a share of the limit's."""
        return self.ours / self.limit_rate

    @property
    def ratio(self) -> float | None:
        """Our rate over PyTorch's."""
        return None if self.torch is None else self.ours / self.torch


def mean_of(rates: Iterable[float | None]) -> float | None:
    """The geometric mean of those that are there; None of none.

    >>> mean_of([2.0, None, 8.0])
    4.0
    """
    known = [x for x in rates if x is not None]
    return geometric_mean(known) if known else None


@dataclass(frozen=True, slots=True)
class Ready:
    """A case whose kernels are compiled, and those of the long sum it is compared with."""

    case: Case
    chain: ReadyChain
    read: ReadyChain | None
    moved_bytes: int
    memory_bytes: int


def make_ready(asked: tuple[Case, str]) -> Ready:
    """Plan, predict, print and compile a case for an architecture.

    >>> ready = make_ready((Case("sum", (64, 96), (1,), "f16"), "sm_90a"))
    >>> ready.moved_bytes, ready.memory_bytes
    (12416, 12416)
    """
    case, arch = asked
    p = find_problem(*case)
    moved, memory = _bytes(p, arch)
    read = None
    if case.op in FOLD:
        words = prod(case.shape) * dtype(case.dtype).nbytes // 4
        read = prepare_chain(chain_of(find_problem("sum", (words,), (0,), "f32"), arch), arch)
    return Ready(case, prepare_chain(chain_of(p, arch), arch), read, moved, memory)


def _bytes(p: Problem, arch: str) -> tuple[int, int]:
    """Bytes that have to be moved, and bytes that memory is expected to move."""
    if isinstance(p, PermuteProblem):
        raise UnsupportedError(f"{p} is timed by the bench of permutes")
    if isinstance(p, NormProblem):
        expected = traffic(plan(p, arch), arch)
        return p.moved_bytes, expected.read + expected.written
    return p.read_bytes + p.written_bytes, memory_bytes(plans(p, arch)[0])


def memory_bytes(plan: ReducePlan) -> int:
    """Bytes that memory moves: every element that exists and every output once, the workspace twice.

    >>> from layoutalg.kernels.rowwise.reduce_plan import reduce_problem
    >>> memory_bytes(plans(reduce_problem((8192, 8192), 1, "sum", "f32"))[0]) == 8192 * 8193 * 4
    True
    """
    p = plan.problem
    return p.read_bytes + p.written_bytes + 2 * 4 * plan.workspace_elems


def benchmark_reductions(cases: Iterable[Case]) -> Iterator[ReduceRow]:
    """Measure every case; kernels are made first.

    Raises UnsupportedError without a GPU, MismatchError where our result is not that of the definition, up to
    rounding.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     row = next(benchmark_reductions(CASES[:1]))
    """
    chip = require_gpu()
    for ready in in_processes(make_ready, [(case, chip.arch) for case in cases]):
        yield _row(ready, chip.arch)


ROUNDS, INNER, SAMPLE_MS = 9, 16, 1.5


def _row(ready: Ready, arch: str) -> ReduceRow:
    case, board = ready.case, find_arch(arch).board
    elems, norm = prod(case.shape), case.op in OPS
    outputs = elems if norm else prod(n for k, n in enumerate(case.shape) if k not in case.axes)
    chain, read = load_chain(ready.chain), None if ready.read is None else load_chain(ready.read)
    sets = min(32, 1 + 4 * (board.l2_bytes if board else 0) // (ready.moved_bytes + 1))
    contenders: list[list[Callable[[], Any]]] = [[] for _ in range(4)]
    for n in range(sets):
        src = random_normal(-(-elems // 8) * 8, n, case.dtype)
        dst = device_empty((-(-outputs // 8) * 8,), src.dtype)
        scratch = device_empty((max(ready.chain.partial_bytes, 16),), "uint8")
        ours = _launch(chain, src=src, dst=dst, partial=scratch)
        if read is None:
            limit = device_copy(dst, src)
        else:
            sums = device_empty((max(read.partial_bytes, 16),), "uint8")
            limit = _launch(read, src=src, dst=device_empty((4,), "float32"), partial=sums)
        x = src[:elems].reshape(case.shape)
        others = torch_reduction(case.op, x, case.axes, case.dtype), array_reduction(case.op, x, case.axes)
        for launches, one in zip(contenders, (ours, limit, *others), strict=True):
            if one is not None:
                launches.append(one)
        if n == 0 and others[0] is not None:
            ours()
            _compare(case, x, dst[:outputs])
    running = [launches for launches in contenders if launches]
    times = iter(median_times_ms(running, rounds=ROUNDS, inner=INNER, sample_ms=SAMPLE_MS))
    rates = [ready.moved_bytes / next(times) / 1e6 if launches else None for launches in contenders]
    ours_rate, limit_rate, torch, cupy = rates
    return ReduceRow(
        str(case), ours_rate or 0.0, "copy" if norm else "read", limit_rate or 0.0, torch, cupy,
        ready.moved_bytes, ready.memory_bytes,
    )  # fmt: skip


def _launch(chain: LoadedChain, **arrays: Any) -> Callable[[], None]:
    """A launch of a chain on flat arrays, which are kept alive by it."""
    addresses = {name: array.data.ptr for name, array in arrays.items()}

    def launch(kept: Any = arrays) -> None:
        chain(addresses)

    return launch


def _compare(case: Case, x: Any, ours: Any) -> None:
    """Results may differ by 2^-16 of the largest and one last place of their type; maxima may not.

    The largest of few sums may happen to be near 0: it counts as what sums of normal numbers usually are.
    """
    seen, largest = torch_difference(case.op, x, case.axes, case.dtype, ours)
    spread = sqrt(prod(case.shape[a] for a in case.axes))
    usual = {"sum": spread, "mean": 1 / spread}.get(case.op, 0.0)
    last_place = max(max(largest, usual) * 2 * HALF_PLACE[case.dtype], SMALLEST_SUM[case.dtype])
    allowed = 0.0 if case.op == "max" else max(largest, usual) * 2.0**-16 + last_place
    if not seen <= allowed:
        raise MismatchError(f"{case}: {seen} from the definition, more than the {allowed} of rounding")
