"""Launches timed in turn: each on a cold L2, in an order drawn for each round, the host ahead of the GPU.

The idea.  What stands in the L2 from the launch before, and a GPU that waits for its host, would both be
timed too.  So a buffer of 256 MB is read before each launch, which leaves clean data, and the GPU is kept
waiting until the host has given it the launch and the events around it.  Contenders take turns, so that a
clock that drifts meets all of them alike.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from layoutalg.codegen.gpu import require_gpu
from layoutalg.tools import Processes, end_with_parent

AHEAD_CYCLES, CALL_CYCLES = 60_000, 400_000
"""The GPU waits so long before a launch, so that the host is ahead of it; before a call of an operation,
which may make copies and launch twice, 0.2 ms."""

FLUSH_ELEMS = 64 << 20
"""Elements of 4 bytes that are read before a launch: several times what an L2 holds."""

SEED = 20261123
"""Of the order of contenders, where a study has none of its own."""

COMPILING = 0.6
"""The share of a study's seconds in which problems are compiled; in the others they are timed."""

Run = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)
Case = TypeVar("Case")


def flush_buffer() -> Any:
    """A buffer that is read before each launch."""
    import cupy

    return cupy.zeros(FLUSH_ELEMS, "f4")


@dataclass
class Turns:
    """`rounds` in which each contender is launched once; what takes `once_us` or longer is timed once."""

    rounds: int
    seed: int = SEED
    cycles: int = AHEAD_CYCLES
    once_us: float = inf
    flush: Any = field(default_factory=flush_buffer)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def us(self, run: Run, cycles: int = 0) -> float:
        """Microseconds of one launch on a cold L2."""
        import cupy
        import torch

        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        self.flush.sum()
        torch.cuda._sleep(cycles or self.cycles)
        before.record()
        run()
        after.record()
        after.synchronize()
        return float(cupy.cuda.get_elapsed_time(before, after)) * 1e3

    def times(self, runs: Mapping[Name, Run], rounds: int = 0) -> dict[Name, list[float]]:
        """Microseconds of each in every round."""
        times: dict[Name, list[float]] = {name: [] for name in runs}
        for _ in range(rounds or self.rounds):
            for name in self.rng.sample(list(runs), len(runs)):
                if not times[name] or times[name][0] < self.once_us:
                    times[name].append(self.us(runs[name]))
        return times

    def medians(self, runs: Mapping[Name, Run], rounds: int = 0) -> dict[Name, float]:
        """The median of the microseconds of each."""
        return {name: median(us) for name, us in self.times(runs, rounds).items()}


@contextlib.contextmanager
def one_stream() -> Iterator[None]:
    """Launches of CuPy and PyTorch go to one stream, which waits for no other."""
    import cupy
    import torch

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        yield


def launch_of(code: Any, numbers: Mapping[str, int], arrays: Mapping[str, Any]) -> Run:
    """A launch of compiled kernels on arrays; buffers that are not among these hold random numbers."""
    from layoutalg.codegen import gpu

    loaded = gpu.load_sequence(code.ready(numbers))
    most = max(x.nbytes for x in arrays.values() if hasattr(x, "data"))
    missing = {name for _, names in loaded.steps for name in names} - {*arrays, "scratch"}
    more = {name: gpu.random_normal(most // 4 + 4, 9, "f32") for name in sorted(missing)}
    return loaded.on_arrays({**arrays, **more})


def seconds_of(words: Sequence[str], usual: float) -> float:
    """The seconds that words name.

    >>> seconds_of(["7", "40s"], 110.0), seconds_of(["7"], 110.0)
    (40.0, 110.0)
    """
    return next((float(word[:-1]) for word in words if word[:-1].isdigit() and word.endswith("s")), usual)


def in_time(
    drawn: Callable[[str], Sequence[Any]], seed: int, count: int, seconds: float
) -> Iterator[list[tuple[Any, Any, Any]]]:
    """The ways of each drawn problem, with their machine code and expected times, for so many seconds.

    Processes draw problems by `drawn` from a text for each, and compile what they drew, in a part of the
    seconds.  None of them is left when the first problem is timed: beside them the host falls behind the GPU.
    """
    began, made = time.monotonic(), list[list[tuple[Any, Any, Any]]]()
    with ProcessPoolExecutor(None, Processes(), end_with_parent) as pool:
        for ways in pool.map(functools.partial(_made, drawn), [f"{seed} {n}" for n in range(count)]):
            made.append(ways)
            if time.monotonic() > began + COMPILING * seconds:
                pool.shutdown(cancel_futures=True)
                break
    for ways in made:
        if ways and time.monotonic() < began + seconds:
            yield ways


def _made(drawn: Callable[[str], Sequence[Any]], text: str) -> list[tuple[Any, Any, Any]]:
    """The ways that are drawn, their machine code and expected times, or what refuses them."""
    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.errors import LayoutAlgError
    from layoutalg.kernels import FAMILIES
    from layoutalg.kernels.tuning.board import compiled

    made = []
    for way in drawn(text):
        code = compiled(way)
        try:
            expected = FAMILIES[way.family].expected(way.problem, way.config, require_gpu().arch)
        except LayoutAlgError as why:
            code, expected = why, None
        made.append((way, code, expected))
    return made


def cold_us(ways: Sequence[tuple[Any, Any, Any]], rounds: int) -> list[float | None]:
    """The microseconds on a cold L2 of ways of a problem; None where one is not launched, and why."""
    from layoutalg.codegen import gpu
    from layoutalg.errors import LayoutAlgError
    from layoutalg.kernels import FAMILIES
    from layoutalg.kernels.checks import bench_of

    family, p, found = FAMILIES[ways[0][0].family], ways[0][0].problem, list[float | None]()
    arrays = bench_of(family).arrays(p, 0)
    for case, code, _ in ways:
        try:
            if isinstance(code, LayoutAlgError):
                raise code
            launch = launch_of(code, family.numbers(p, case.config), arrays)
            found += gpu.cold_times_us([launch], rounds)
            del launch
        except LayoutAlgError as why:  # no machine code, or clusters that this GPU does not hold
            print(f"{case.family} {p} {case.config}: {why}")
            found.append(None)
    del arrays
    gc.collect()
    free()
    return found


def free() -> None:
    """Give the memory of a case back."""
    import cupy
    import torch

    cupy.get_default_memory_pool().free_all_blocks()
    torch.cuda.empty_cache()


def plainly() -> None:
    """Give each array an allocation of its own, so that a sanitizer sees its ends."""
    import cupy

    cupy.cuda.set_allocator(None)


def torch_type(name: str) -> Any:
    """PyTorch's type of an element."""
    import torch

    widths = {"f": "float", "u": "uint", "s": "int"}
    return torch.bfloat16 if name == "bf16" else getattr(torch, widths[name[0]] + name[1:])


def as_torch(x: Any, dtype: str, shape: Sequence[int]) -> Any:
    """The bytes of an array of CuPy as a tensor."""
    import torch

    return torch.as_tensor(x.view("u1"), device="cuda").view(torch_type(dtype)).reshape(tuple(shape))


def shown(row: Mapping[str, Any], *without: str) -> None:
    """Print what a row has, by name."""
    items = (
        (name, f"{x:.4g}" if isinstance(x, float) else x) for name, x in row.items() if name not in without
    )
    print(*(f"{name}={x}" for name, x in items), flush=True)


def write(path: str | Path, rows: Sequence[Mapping[str, Any]], name: str = "rows", **more: Any) -> None:
    """Put what is known so far into a file, a line per row, with the device and the date."""
    head = {"device": require_gpu().name, "date": time.strftime("%Y-%m-%d"), **more}
    lines = ",\n".join(map(json.dumps, rows))
    Path(path).write_text(f"{json.dumps(head)[:-1]}, {json.dumps(name)}: [\n{lines}\n]}}\n", encoding="utf-8")


def study(
    out: str | Path, cases: Iterable[Case], measured: Callable[[Case], Mapping[str, Any] | None], **more: Any
) -> list[Mapping[str, Any]]:
    """Measure cases one by one; each row is printed and written when it is there, None for nothing."""
    rows: list[Mapping[str, Any]] = []
    for case in cases:
        if (row := measured(case)) is not None:
            rows.append(row)
            shown(row)
            write(out, rows, **more)
    return rows


def write_lines(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The same without a head: a JSON object per line."""
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
