"""Kernels made ready to load, by all cores: planning is Python, compiling is NVRTC, neither needs a GPU.

    made = in_processes(plan_and_prepare, problems)       a list, in the order of the problems
    kernels = [load_prepared(m) for m in made]            in the process that has the GPU
    chain = prepare_all(sequence.kernels, "sm_90a")       the kernels of one call, by threads

A family's kernel takes some 0.1 s to plan and print and as long to compile, one after the other more than a
bench takes to measure.  `in_processes` runs a function of a module in new processes, each with its own
interpreter; what comes back has to be data, so a `Prepared` kernel is without its statements, which no
launch needs.

Notes.  New processes import the main module again: a script that calls this at its top level has to do so
under `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from layoutalg.arch import TensorMap, find_arch
from layoutalg.codegen.expr import GRID_LIMITS, Var, evaluate
from layoutalg.codegen.gpu.cubin_cache import cache_folder, cached_cubin
from layoutalg.codegen.gpu.driver import require_legal
from layoutalg.codegen.gpu.nvrtc import Cubin, compile_target
from layoutalg.codegen.printing import to_cuda
from layoutalg.codegen.program import (
    Do,
    Global,
    Kernel,
    check_available,
    check_integers,
    dynamic_bytes,
    only_target,
    walk,
)
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError
from layoutalg.tools import Processes, end_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel up to loading it: its signature (`kernel`, without statements), its text, its machine code."""

    kernel: Kernel
    source: str
    cubin: Cubin


@dataclass(frozen=True, slots=True)
class Launchable:
    """All that a launch needs of a compiled kernel whose integers are known, as plain data.

    `pointers` are what every launch gives, in order: addresses by name, each with the bytes of which it has
    to be a multiple, and words of numbers, with 1; `shared_bytes` of shared memory are asked for at the
    launch; `image` is the machine code; `dependent`: it may start while the kernel in front of it ends;
    `scalars` are the values of integers, each with its place among all parameters; `maps` are tensor maps,
    each with the place of the pointer to its tensor; `cluster` are the blocks per cluster of a kernel whose
    text, `source`, has more than one; `cooperative`: all blocks are resident together.
    """

    name: str
    pointers: tuple[tuple[str, int], ...]
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    image: bytes
    dependent: bool = False
    scalars: tuple[tuple[int, int], ...] = ()
    maps: tuple[tuple[int, TensorMap], ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    source: str = ""
    cooperative: bool = False


def prepare(kernel: Kernel, arch: str, source: str | None = None) -> Prepared:
    """Print a kernel and compile it for `arch`, from the cache where it is there.

    `source` replaces the printed text.  A kernel with instructions of one architecture alone is compiled for
    the target that has them (see `kernel_target`).  Raises what `to_cuda` and `compile_cubin` raise.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> prepare(KernelBuilder("empty", threads=32).build(), "sm_80").cubin.name
    'empty'
    """
    text = to_cuda(kernel, arch) if source is None else source
    return _compiled(kernel, text, kernel_target(kernel, arch))


def prepare_all(kernels: Sequence[Kernel], arch: str) -> tuple[Prepared, ...]:
    """`prepare` of each kernel.  They are printed one after the other; NVRTC, which compiles programs of
    several threads at a time, meanwhile compiles those that are printed.  Raises as `prepare` of the first
    one that does not print, or else of the first one that does not compile.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> one, two = (KernelBuilder(name, threads=32).build() for name in ("one", "two"))
    >>> [made.cubin.name for made in prepare_all((one, two), "sm_80")]
    ['one', 'two']
    """
    threads = min(len(kernels), len(os.sched_getaffinity(0)))
    if threads <= 1:
        return tuple(prepare(kernel, arch) for kernel in kernels)
    with ThreadPoolExecutor(threads) as pool:
        try:
            started = [
                pool.submit(_compiled, kernel, to_cuda(kernel, arch), kernel_target(kernel, arch))
                for kernel in kernels
            ]
            return tuple(task.result() for task in started)
        finally:  # after an error, or an interrupt, nobody waits for the others
            pool.shutdown(wait=False, cancel_futures=True)


def _compiled(kernel: Kernel, text: str, target: str) -> Prepared:
    cubin = cached_cubin(text, kernel.name, target, cache_folder())
    return Prepared(replace(kernel, regs=(), body=()), text, cubin)


def kernel_target(kernel: Kernel, arch: str) -> str:
    """The compile target of a kernel on an architecture given by any of its names.

    It is the requested one, with an "a" behind it where the kernel has an instruction of that
    architecture alone.
    Raises UnknownNameError for what cannot be compiled for, UnsupportedError for an architecture that
    does not have an instruction.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> kernel_target(KernelBuilder("empty", threads=32).build(), "H100")
    'sm_90'
    """
    target, chip = compile_target(arch), find_arch(arch)
    for instr in dict.fromkeys(s.instr for s in walk(kernel.body) if isinstance(s, Do)):
        check_available(instr, chip)
    return only_target(kernel) or target


def in_processes(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`function` of every item, computed by as many processes as there are cores; in the items' order.

    `function` is found by name in its module; items and results are pickled.  One item, or one core, is
    computed here.  Raises what the function raises for the first item for which it does.

    >>> in_processes(abs, [-3])
    [3]
    """
    return list(each_in_processes(function, items))


def each_in_processes(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of `in_processes` as they come, in the items' order.

    >>> next(each_in_processes(abs, [-3]))
    3
    """
    work = list(items)
    processes = min(len(work), len(os.sched_getaffinity(0)))
    if processes <= 1:
        yield from map(function, work)
        return
    with ProcessPoolExecutor(processes, Processes(), end_with_parent) as pool:
        yield from pool.map(function, work)


def launchable(ready: Prepared, scalars: Mapping[str, int] = MappingProxyType({})) -> Launchable:
    """The part of a kernel that a launch needs, with values for its integer parameters by name.

    Every launch gives the words of numbers, such as alpha, that have no value here.  Raises
    ArgumentTypeError for an integer that is missing, ShapeError for one that the kernel is not right for,
    ResourceError for a grid past CUDA's limits, and what `kernel_maps` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> launchable(prepare(KernelBuilder("empty", threads=32).build(), "sm_80")).grid
    (1, 1, 1)
    """
    kernel = ready.kernel
    words = words_at_launch(kernel, scalars)
    integers = [
        (n, p.name) for n, p in enumerate(kernel.params) if isinstance(p, Var) and p.name not in words
    ]
    if missing := [name for _, name in integers if name not in scalars]:
        raise ArgumentTypeError(f"{kernel.name} takes {', '.join(missing)} beside its pointers")
    values = dict.fromkeys(words, 0) | dict(scalars)
    check_integers(kernel, values)
    return Launchable(
        kernel.name,
        tuple(
            (p.name, p.align_bytes if isinstance(p, Global) else 1)
            for p in kernel.params
            if isinstance(p, Global) or p.name in words
        ),
        launch_grid(kernel, values),
        kernel.threads,
        dynamic_bytes(kernel),
        ready.cubin.image,
        kernel.dependent,
        tuple((n, scalars[name]) for n, name in integers),
        kernel_maps(kernel, values),
        kernel.cluster,
        ready.source if kernel.cluster_blocks > 1 else "",
        kernel.cooperative,
    )


def launch_grid(kernel: Kernel, scalars: Mapping[str, int]) -> tuple[int, int, int]:
    """The grid for given integer arguments.

    Raises ResourceError past CUDA's limits, ShapeError where it is not whole clusters.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> launch_grid(KernelBuilder("empty", threads=32).build(), {})
    (1, 1, 1)
    """
    env = {p: scalars[p.name] for p in kernel.params if isinstance(p, Var)}
    x, y, z = (int(evaluate(extent, env)) for extent in kernel.grid)
    for axis, n, limit in zip("xyz", (x, y, z), GRID_LIMITS, strict=True):
        if n > limit:
            raise ResourceError(f"blocks along {axis} of {kernel.name}", n, limit)
    for axis, n, side in zip("xyz", (x, y, z), kernel.cluster, strict=True):
        if n % side:
            raise ShapeError(
                f"{kernel.name} has {n} blocks along {axis}, which are not whole clusters of {side}; nearest "
                f"are {-(-n // side) * side}"
            )
    return x, y, z


def kernel_maps(kernel: Kernel, values: Mapping[str, int]) -> tuple[tuple[int, TensorMap], ...]:
    """The tensor maps of a kernel for values of its integers, each with the place of its tensor's pointer.

    Raises the error of the first rule of TMA that one of them breaks, whatever the addresses are.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> kernel_maps(KernelBuilder("empty", threads=32).build(), {})
    ()
    """
    env = {p: values[p.name] for p in kernel.params if isinstance(p, Var)}
    maps = tuple((kernel.params.index(m.source), m.evaluate(env)) for m in kernel.maps)
    for (_, tensor_map), m in zip(maps, kernel.maps, strict=True):
        require_legal(tensor_map, m.source.align_bytes)
    return maps


def words_at_launch(kernel: Kernel, scalars: Mapping[str, int]) -> tuple[str, ...]:
    """The words of numbers among a kernel's parameters that have no value yet.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("scale", threads=32)
    >>> alpha = k.word("alpha", "f32")
    >>> words_at_launch(k.build(), {}), words_at_launch(k.build(), {"alpha": 0})
    (('alpha',), ())
    """
    return tuple(name for name, _ in kernel.scalars if name not in scalars)
