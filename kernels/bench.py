"""Time a family beside the libraries: one table from one run, everything interleaved, on random data.

Contenders of a row share their buffers and run in turn, round by round; the figure is the median.  Small
problems rotate over several buffer sets, four times the L2 cache together, so that nobody reads from cache.
"Copy" is the driver's device-to-device copy of the same number of bytes: what memory can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import array_assign, device_copy, load, median_times_ms, random_bytes, require_gpu
from layoutalg.errors import MismatchError
from layoutalg.kernels.baselines import torch_assign
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.family import Family, arguments
from layoutalg.kernels.matrix import MatrixProblem

SIZES = (4096, 16384)
DTYPES = ("f32", "f16", "u8")
"""What `layoutalg bench` measures when nothing else is asked for: square matrices."""


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One problem: GB/s (10^9 bytes read and written a second) of each contender; None: not installed."""

    problem: str
    ours: float
    copy: float
    torch: float | None
    cupy: float

    @property
    def share(self) -> float:
        """Our rate as a share of the device copy's."""
        return self.ours / self.copy


def benchmark(family: Family, problems: Iterator[MatrixProblem]) -> Iterator[BenchRow]:
    """Measure each problem, rows in the order given.  Raises UnsupportedError without a GPU.

    Before a row is timed our result is compared with CuPy's on the same data: MismatchError if it differs.
    """
    chip = require_gpu()
    for problem in problems:
        kernel = load(family.build(problem, family.configs(problem, chip.arch)[0]))
        sets = [_buffers(problem, n) for n in range(set_count(problem, chip.arch))]
        contenders: list[list[Callable[[], Any]]] = [
            [kernel.launcher(**arguments(problem, s.src, s.dst)) for s in sets],
            [device_copy(s.dst, s.src) for s in sets],
            [array_assign(s.target, s.source) for s in sets],
        ]
        by_torch = [torch_assign(s.target, s.source) for s in sets]
        if all(launch is not None for launch in by_torch):
            contenders.append([launch for launch in by_torch if launch is not None])
        _compare(problem, contenders, sets[0])
        ours, copy, cupy, *torch = (problem.moved_bytes / ms / 1e6 for ms in median_times_ms(contenders))
        yield BenchRow(str(problem), ours, copy, torch[0] if torch else None, cupy)


@dataclass(frozen=True, slots=True)
class _Set:
    """Flat buffers, and `source` as the destination's shape sees it."""

    src: Any
    dst: Any
    source: Any
    target: Any


def _buffers(p: MatrixProblem, seed: int) -> _Set:
    carrier = CARRIER[p.element_bytes]
    src = random_bytes(p.m * p.lds * p.element_bytes, 2 * seed).view(carrier)
    rows, columns = p.target_shape
    dst = random_bytes(rows * p.ldd * p.element_bytes, 2 * seed + 1).view(carrier)
    matrix = src.reshape(p.m, p.lds)[:, : p.n]
    return _Set(src, dst, matrix.T if p.turned else matrix, dst.reshape(rows, p.ldd)[:, :columns])


def set_count(p: MatrixProblem, arch: str) -> int:
    """Buffer sets to rotate over: four times the L2 cache together, 64 at most."""
    board = find_arch(arch).board
    cache = board.l2_bytes if board else 0
    return min(64, 1 + 4 * cache // (p.moved_bytes + 1))


def _compare(p: MatrixProblem, contenders: list[list[Callable[[], Any]]], s: _Set) -> None:
    contenders[2][0]()
    expected = s.dst.copy()
    s.target[...] = 0
    contenders[0][0]()
    if not bool((s.dst.view("uint8") == expected.view("uint8")).all()):
        raise MismatchError(f"our result for {p} differs from CuPy's")
