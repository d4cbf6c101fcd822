"""A GPU that is host memory: the whole path of arrays on a GPU, its launches made by the simulator.

    with simulated_gpu("sm_90") as gpu:
        x = gpu.array(raw, start, "float32", (3, 4), (-16, 4))      a view of raw bytes, on "the GPU"
        y = layoutalg.ops.softmax(x, 0)                             as of a CuPy array, Python line by line

The idea.  While it lasts, `cupy` names a module of a few lines whose arrays are views of NumPy bytes, and the
one function that loads a problem's kernels gives launches that run in the simulator, on the bytes at the very
addresses that a GPU would be given.  So forms, offsets, overlaps, problems and plans are those of the call on
a GPU, and what the kernels read and write lies where it would lie there.  A launch may touch the 16-byte
units that an array has an element in, and nothing else: what it does elsewhere is a SimulationError.

Notes.  `planning_gpu` launches nothing: what is called inside plans and compiles its kernels, into the cache.
Every such GPU has a number of its own, that no other has: whatever the package keeps by it is kept apart.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from layoutalg.codegen.expr import Var
from layoutalg.codegen.gpu import LoadedSequence, ReadySequence, preparation
from layoutalg.codegen.gpu.cubin_cache import cached_cubin
from layoutalg.codegen.gpu.launch import Picks, check_aligned
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.program import Global, Kernel, LaunchSequence, lower
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.kernels import plan_cache
from layoutalg.kernels.elements import bits_of
from tests.draws.sequences import called_of

UNIT_BYTES = 16
ALIGNED_BYTES = 256
"""Allocations start at multiples of it, as on a GPU."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Kind:
    """A type of elements, as much of a NumPy type as an array has to show; NumPy has no bfloat16."""

    name: str
    itemsize: int
    hasobject = False
    isnative = True

    @property
    def str(self) -> str:
        """Its name."""
        return self.name


KINDS = {
    name: Kind(name, nbytes)
    for name, nbytes in (
        ("bool", 1), ("uint8", 1), ("float16", 2), ("bfloat16", 2), ("float32", 4), ("int64", 8),
        ("float64", 8), ("complex128", 16), ("int8", 1), ("int16", 2), ("int32", 4), ("complex64", 8),
    )
}  # fmt: skip
CARRIERS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}


def allocation(nbytes: int) -> Bytes:
    """Bytes that start at a multiple of 256; of what a GPU would hold there before they are written."""
    whole = np.full(nbytes + ALIGNED_BYTES, 0xFF, "u1")
    return whole[-whole.ctypes.data % ALIGNED_BYTES :][:nbytes]


class HostArray:
    """A view of host bytes, as a CuPy array shows itself."""

    def __init__(
        self,
        device: int,
        raw: Bytes,
        start: int,
        dtype: Kind,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
    ) -> None:
        step, dense = dtype.itemsize, []
        for n in reversed(shape):
            dense.append(step)
            step *= n
        self.raw, self.dtype, self.shape = raw, dtype, shape
        self.strides = tuple(dense[::-1]) if strides is None else strides
        self.data = SimpleNamespace(ptr=raw.ctypes.data + start, device_id=device)
        carrier = np.dtype(CARRIERS[dtype.itemsize])
        self.bits: np.ndarray[Any, Any] = np.ndarray(shape, carrier, raw.data, start, self.strides)

    def __getitem__(self, at: slice | int) -> HostArray:
        """Some of the first mode: a view of the same bytes."""
        part = self.bits[at]
        start = part.ctypes.data - self.raw.ctypes.data
        return HostArray(self.data.device_id, self.raw, start, self.dtype, part.shape, part.strides)

    def fill(self, value: float) -> None:
        """Write one number everywhere."""
        short = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}.get(
            self.dtype.name
        )
        self.bits[...] = bits_of(np.array([value]), short)[0] if short else value


@dataclass
class HostGpu:
    """Its number, and what lies in its memory: the parts, as (address, bytes), that launches may touch."""

    device: int = field(default_factory=itertools.count(1 << 20).__next__)
    parts: list[tuple[int, Bytes]] = field(default_factory=list)

    def array(
        self, raw: Bytes, start: int, kind: str, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> HostArray:
        """A view of an allocation, whose 16-byte units launches may touch from now on."""
        made = HostArray(self.device, raw, start, KINDS[kind], shape, strides)
        reach = [(n - 1) * d for n, d in zip(shape, strides, strict=True)]
        if prod(shape):
            low = start + sum(r for r in reach if r < 0)
            end = start + sum(r for r in reach if r > 0) + made.dtype.itemsize
            first, past = low & -UNIT_BYTES, -(-end // UNIT_BYTES) * UNIT_BYTES
            self.parts.append((raw.ctypes.data + first, raw[first:past]))
        return made

    def empty(self, shape: tuple[int, ...], dtype: Kind | str) -> HostArray:
        """A new array, of any content."""
        dtype = KINDS[dtype] if isinstance(dtype, str) else dtype
        nbytes = -(-prod(shape) * dtype.itemsize // UNIT_BYTES) * UNIT_BYTES
        raw = allocation(nbytes)
        self.parts.append((raw.ctypes.data, raw))
        return HostArray(self.device, raw, 0, dtype, shape)

    def bytes_at(self, address: int) -> Bytes:
        """The bytes that a launch given an address may touch: from there to the end of an array."""
        found = [raw[address - at :] for at, raw in self.parts if at <= address < at + len(raw)]
        return max(found, key=len)


class HostLaunch:
    """A kernel as `codegen.gpu.Launch` is: a function of the addresses of its pointers, in order."""

    def __init__(self, run: Callable[[Sequence[int]], None], count: int) -> None:
        self.run, self.places = run, tuple(range(count))

    def __call__(self, addresses: Sequence[int], stream: int | None) -> None:
        self.run(addresses)

    def check(self, addresses: Sequence[int]) -> None:
        """Nothing: whoever runs checks, and knows of scratch memory too."""
        assert len(addresses) == len(self.places)

    def picking(self, picks: Picks) -> Callable[[Sequence[int], int], None]:
        """The run of a kernel with the addresses that are picked."""
        assert [place for place, _, _ in picks] == list(self.places)
        return lambda addresses, stream: self.run([addresses[n] + further for _, n, further in picks])

    def starting(self, addresses: Sequence[int], picks: Picks) -> Callable[[int], None]:
        """The same run, with the addresses bound."""
        return partial(self.picking(picks), addresses)


def _simulated(
    gpu: HostGpu, kernel: Kernel, buffers: tuple[str, ...], scalars: dict[str, int], arch: str
) -> tuple[Any, tuple[str, ...]]:
    """A kernel as a launch on the bytes at addresses, checked and lowered as for printing; what it takes."""
    check(kernel, arch)
    kernel = lower(kernel)
    own = {p.name: p for p in kernel.params if isinstance(p, Var)}
    bound = {name: value for name, value in scalars.items() if name in own}
    taken = [p for p in kernel.params if p.name not in bound]
    of = iter(buffers)
    names = tuple(next(of) if isinstance(p, Global) else p.name for p in taken)

    def launch(addresses: Sequence[int]) -> None:
        given: dict[str, Any] = dict(bound)
        for p, at in zip(taken, addresses, strict=True):
            if isinstance(p, Global):
                check_aligned(p.name, p.align_bytes, at)
                found = gpu.bytes_at(at)  # a source whose gaps are written: the simulator wants it apart
                given[p.name] = found if p.writable else found.copy()
            else:
                given[p.name] = at
        simulate(kernel, given, arch=arch, trace=False)

    return HostLaunch(launch, len(names)), names


def _module(gpu: HostGpu) -> ModuleType:
    """What of CuPy the package calls."""
    made = ModuleType("cupy")
    made.__spec__ = ModuleSpec("cupy", None)
    memory = SimpleNamespace(OutOfMemoryError=MemoryError)
    runtime = SimpleNamespace(getDevice=lambda: gpu.device, getDeviceCount=lambda: 2)
    cuda = SimpleNamespace(memory=memory, runtime=runtime, get_current_stream=lambda: SimpleNamespace(ptr=0))
    made.__dict__.update(ndarray=HostArray, empty=gpu.empty, cuda=cuda)
    return made


@contextlib.contextmanager
def _named(name: str, module: ModuleType) -> Iterator[None]:
    """A module by a name, and what was there before it afterwards."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


@contextlib.contextmanager
def _standing_in(
    arch: str, kept: Callable[..., Any], load: Callable[..., LoadedSequence]
) -> Iterator[HostGpu]:
    gpu = HostGpu()
    status = GpuStatus(True, "host memory", arch)
    with (
        _named("cupy", _module(gpu)),
        patch("layoutalg.codegen.gpu.runtime.require_gpu", lambda: status),
        patch.object(plan_cache, "require_gpu", lambda: status),
        patch.object(plan_cache, "ready_sequence", kept),
        patch.object(plan_cache, "load_sequence", load),
    ):
        yield gpu


@contextlib.contextmanager
def simulated_gpu(arch: str) -> Iterator[HostGpu]:
    """A GPU whose launches the simulator makes."""
    made: list[HostGpu] = []

    def load(sequence: LaunchSequence) -> LoadedSequence:
        steps = zip(sequence.kernels, sequence.buffers, strict=True)
        scalars = dict(sequence.scalars)
        launches = (_simulated(made[0], kernel, names, scalars, arch) for kernel, names in steps)
        return LoadedSequence(tuple(launches), sequence.scratch_bytes)

    def planned(family: str, p: Any, arch: str, folder: object, gpu: str) -> LaunchSequence:
        return called_of(family, p, arch)

    with _standing_in(arch, planned, load) as gpu:
        made.append(gpu)
        yield gpu


@contextlib.contextmanager
def planning_gpu(arch: str) -> Iterator[HostGpu]:
    """A GPU whose launches do nothing: their kernels are planned and compiled, and kept on disk."""

    def load(ready: ReadySequence) -> LoadedSequence:
        steps: Any = tuple((HostLaunch(lambda _: None, len(names)), names) for names in ready.buffers)
        return LoadedSequence(steps, ready.scratch_bytes)

    with _standing_in(arch, plan_cache.ready_sequence, load) as gpu:
        yield gpu


@contextlib.contextmanager
def compiled_names() -> Iterator[list[str]]:
    """The names of the kernels that are compiled meanwhile, whatever a cache holds."""
    found: list[str] = []

    def counted(text: str, name: str, *rest: Any) -> Any:
        found.append(name)
        return cached_cubin(text, name, *rest)

    plan_cache._compiled.cache_clear()
    with (
        patch.dict(os.environ, LAYOUTALG_CACHE="off"),
        patch.object(preparation, "cached_cubin", counted),
    ):
        yield found
