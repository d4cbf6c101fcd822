"""Random cases by seed: compiled by all cores, run on one GPU, and what is wrong of them printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from layoutalg.codegen.gpu import in_processes, require_gpu, to_device
from tests.gpu.counters import verdict
from tests.gpu.timing import plainly

Made = TypeVar("Made")


def wrong(
    compiled: Callable[[tuple[int, str]], Made], run: Callable[[int, str, Made], None], seeds: Sequence[int]
) -> Iterator[str]:
    """Run what is compiled for each seed; describe those of which `run` raises AssertionError."""
    arch = require_gpu().arch
    for seed, made in zip(seeds, in_processes(compiled, [(s, arch) for s in seeds]), strict=True):
        try:
            run(seed, arch, made)
        except AssertionError as error:
            yield f"seed {seed}: {error}"[:400]


def on_gpu(array: Any, dtype: Any, unit: int = 16) -> Any:
    """The bytes of an array on the GPU, as elements of a type, in whole units of so many bytes."""
    raw = np.zeros(-(-array.nbytes // unit) * unit, "u1")
    raw[: array.nbytes] = array.view("u1")
    return to_device(raw).view(dtype)


def main(
    args: Sequence[str],
    find: Callable[[Sequence[int]], Iterator[str]],
    what: str,
    count: int,
    small: Sequence[int],
) -> int:
    """Run `COUNT [FIRST]` seeds, or the `small` ones for "plain"; print what is wrong; the exit status."""
    seeds = small
    if args[:1] == ["plain"]:
        plainly()
    else:
        count, first = (*map(int, args), *(count, 0)[len(args) :])
        seeds = range(first, first + count)
    found = list(find(seeds))
    print(*found, "" if found else f"{len(seeds)} launches correct", sep="\n")
    return verdict(len(found), len(seeds), what)
