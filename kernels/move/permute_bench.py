"""Time permutes beside the libraries: the same problems, the same buffers, all in one process in turn.

The problems are five that the literature quotes and twenty drawn at random (`random_cases`, its seed is
`SEED`): dense tensors of 2 to 6 modes, with extents that are powers of two, multiples of eight, or neither.
"Copy" is the driver's device-to-device copy of as many bytes.  All cores make the kernels before the first is
timed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import (
    Prepared,
    array_assign,
    device_copy,
    in_processes,
    load_prepared,
    median_times_ms,
    prepare,
    random_bytes,
    require_gpu,
)
from layoutalg.codegen.traffic import Prediction
from layoutalg.errors import MismatchError
from layoutalg.kernels.baselines import torch_assign
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.limits import Bound
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.permute_predict import bounds, predict
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import PermuteProblem, normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig

Case: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""(shape, axes)."""

CASES: tuple[Case, ...] = (
    ((64, 1024, 16, 128), (0, 2, 1, 3)),
    ((256, 1024, 1024), (2, 0, 1)),
    ((128, 224, 224, 3), (0, 3, 1, 2)),
    ((96, 96, 96, 96), (3, 2, 1, 0)),
    ((31, 63, 127, 255), (3, 1, 0, 2)),
)
"""Heads before tokens, a batched transpose, NHWC to NCHW, all modes reversed, nothing a power of two."""

DTYPES = ("f32", "f16", "u8")
SEED, DRAWN = 2026, 20
ELEMS = 1 << 26
"""Elements of a drawn problem, about."""

ROUNDS, SAMPLE_MS = 11, 3.0
"""Samples of each contender, and about how long one of a slow contender takes."""


def random_cases(seed: int = SEED, count: int = DRAWN) -> tuple[Case, ...]:
    """Dense problems that are no plain copies, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(seed=1, count=3))
    (True, 3)
    """
    rng = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        rank = rng.randint(2, 6)
        cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
        shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
        kind = rng.choice(("power", "eight", "any", "mixed"))
        shape = tuple(_extent(rng, ELEMS**share, kind) for share in shares)
        axes = tuple(rng.sample(range(rank), rank))
        case = (shape, axes)
        if normalise(permute_problem(*case, "f32")).rank > 1 and ELEMS // 2 < prod(shape) < 2 * ELEMS:
            found.append(case)
    return tuple(found)


def _extent(rng: random.Random, about: float, kind: str) -> int:
    kind = rng.choice(("power", "eight", "any")) if kind == "mixed" else kind
    if kind == "power":
        return 1 << max(0, round(about).bit_length() - 1)
    if kind == "eight":
        return max(1, round(about / 8) * 8)
    return max(1, round(about))


@dataclass(frozen=True, slots=True)
class PermuteRow:
    """One problem: GB/s (10^9 bytes read and written a second) of each contender; None: not installed.

    `prediction` and `bound` are what the plan expects, `config` how it was done.
    """

    problem: str
    ours: float
    copy: float
    torch: float | None
    cupy: float
    config: PermuteConfig
    prediction: Prediction
    bound: Bound

    @property
    def share(self) -> float:
        """Our rate as a share of the device copy's."""
        return self.ours / self.copy

    def sectors(self, way: str) -> int:
        """Predicted sectors of loads ("ld") or stores ("st")."""
        reads = ("ld.global", ":global")
        return sum(
            cost.total
            for op, cost in self.prediction.items()
            if (op.startswith("st.global") if way == "st" else any(r in op for r in reads))
        )


def benchmark_permutes(
    cases: Iterable[Case], dtypes: Iterable[str] = DTYPES, which: int = 0
) -> Iterator[PermuteRow]:
    """Measure every case in every dtype with configuration number `which`; kernels are made first.

    Raises UnsupportedError without a GPU, MismatchError where our result differs from CuPy's.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     row = next(benchmark_permutes(CASES[:1], ["f32"]))
    """
    chip = require_gpu()
    cases = tuple(cases)
    asked = [(case, dtype, which, chip.arch) for dtype in dtypes for case in cases]
    for ready in in_processes(make_ready, asked):
        yield _row(ready, chip.arch)


@dataclass(frozen=True, slots=True)
class Ready:
    """A case whose kernel is compiled, and what is predicted of it."""

    case: Case
    problem: PermuteProblem
    config: PermuteConfig
    kernel: Prepared
    prediction: Prediction
    bound: Bound


def make_ready(asked: tuple[Case, str, int, str]) -> Ready:
    """Plan, predict, print and compile a case in a dtype, with configuration `which`, for an architecture.

    >>> make_ready((((64, 48), (1, 0)), "f32", 0, "sm_80")).kernel.cubin.spill_bytes
    0
    """
    case, dtype, which, arch = asked
    p = permute_problem(*case, dtype)
    x = normalise(p)
    found = configs(x, arch)
    config = found[min(which, len(found) - 1)]
    prediction = predict(x, config, arch)
    kernel = prepare(build(x, config), arch)
    return Ready(case, p, config, kernel, dict(prediction), bounds(x, prediction, arch)[0])


def _row(ready: Ready, arch: str) -> PermuteRow:
    (shape, axes), p = ready.case, ready.problem
    kernel = load_prepared(ready.kernel)
    board = find_arch(arch).board
    sets = min(64, 1 + 4 * (board.l2_bytes if board else 0) // (p.moved_bytes + 1))
    contenders: list[list[Callable[[], Any]]] = [[], [], []]
    by_torch = []
    nbytes = -(-prod(shape) * p.element_bytes // 16) * 16
    for n in range(sets):
        src, dst = (random_bytes(nbytes, 2 * n + side) for side in range(2))
        wide, plain = CARRIER[normalise(p).element_bytes], CARRIER[p.element_bytes]
        contenders[0].append(kernel.launcher(src=src.view(wide), dst=dst.view(wide)))
        contenders[1].append(device_copy(dst, src))
        source = src.view(plain)[: prod(shape)].reshape(shape).transpose(axes)
        target = dst.view(plain)[: prod(shape)].reshape(p.shape)
        contenders[2].append(array_assign(target, source))
        by_torch.append(torch_assign(target, source))
        if n == 0:
            _compare(str(p), contenders, dst[: prod(shape) * p.element_bytes])
    if all(launch is not None for launch in by_torch):
        contenders.append([launch for launch in by_torch if launch is not None])
    ours, copy, cupy, *torch = (
        p.moved_bytes / ms / 1e6 for ms in median_times_ms(contenders, rounds=ROUNDS, sample_ms=SAMPLE_MS)
    )
    name = f"{'x'.join(map(str, shape))} -> {','.join(map(str, axes))} {p.dtype}"
    return PermuteRow(
        name, ours, copy, torch[0] if torch else None, cupy, ready.config, ready.prediction, ready.bound
    )


def _compare(problem: str, contenders: list[list[Callable[[], Any]]], dst: Any) -> None:
    contenders[2][0]()
    expected = dst.copy()
    dst[...] = 0
    contenders[0][0]()
    if not bool((dst == expected).all()):
        raise MismatchError(f"our result for {problem} differs from CuPy's")
