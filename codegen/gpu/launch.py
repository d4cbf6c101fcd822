"""Launch sequences on a GPU: the one way from programs to launches, through the one cache of machine code.

    compiled = compile_sequence(sequence, "sm_90a")      printed and compiled; needs no GPU, is data
    ready = compiled.ready(alpha=1)                      all that its launches need: every scalar is bound
    run = load_sequence(ready)                           on the current GPU
    run({"src": address, "dst": address}, stream)        launches all kernels

What is compiled is data: another process may have done it, and `kernels.plan_cache` keeps it on disk.

A launch that is repeated costs the host a kernel with its grid as a function of addresses.

    launch = load_launch(kernel)                    on the current GPU
    launch([address, address], stream)              checks the addresses
    launch.picking(picks)(addresses, stream)        with what is picked of addresses that were checked
    launch.starting(addresses, picks)(stream)       with addresses that are packed once

Each launch writes into memory of its own, which it takes from those that no launch uses; so any number of
threads may start one kernel at a time.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from layoutalg.codegen.gpu.arguments import Packed, check_aligned
from layoutalg.codegen.gpu.preparation import Launchable, Prepared, launchable, prepare_all, words_at_launch
from layoutalg.codegen.gpu.runtime import (
    Start,
    current_stream,
    device_array,
    here,
    load_function,
    require_cluster,
    take_up,
)
from layoutalg.codegen.program import SCRATCH, Global, Kernel, LaunchSequence

__all__ = ["CompiledSequence", "LoadedSequence", "ReadySequence", "compile_sequence", "load_sequence"]

Picks: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""The addresses that a launch packs, per pointer: its place among the values, the number of an address, and
bytes from there."""


def _in_order(picks: Picks) -> tuple[Callable[..., None], Callable[[Sequence[int]], tuple[int, ...]]] | None:
    """Return the writer of addresses into the memory of values at once, and the chooser of these from all.

    None where they are not several in consecutive places, as they are.

    >>> import ctypes
    >>> values, (write, chosen) = (ctypes.c_uint64 * 2)(), _in_order(((0, 2, 0), (1, 1, 0)))
    >>> write(values, 0, *chosen([0, 64, 128]))
    >>> list(values)
    [128, 64]
    """
    if len(picks) < 2 or any(pick[::2] != (position, 0) for position, pick in enumerate(picks)):
        return None
    return struct.Struct(f"={len(picks)}Q").pack_into, operator.itemgetter(*(n for _, n, _ in picks))


class Launch:
    """A kernel, as a function of the addresses of its pointers in order, and of a stream (a cudaStream_t),
    CuPy's current one where that is None.  Raises AlignmentError."""

    __slots__ = ("_below", "_count", "_kernel", "_launch", "_start", "_unused", "places")

    def __init__(self, kernel: Launchable, start: Start) -> None:
        self._kernel, self._start = kernel, start
        self._below = max((align for _, align in kernel.pointers), default=1) - 1
        self._count = len(kernel.pointers) + len(kernel.scalars)
        integers = {position for position, _ in kernel.scalars}
        self.places = tuple(position for position in range(self._count) if position not in integers)
        """The places of pointers among the values of a launch."""
        every = tuple((position, n, 0) for n, position in enumerate(self.places))
        self._unused: list[Packed] = []
        """A launch takes one, so that no other, whoever starts it, writes there."""
        self._launch = self.picking(every)

    def __call__(self, addresses: Sequence[int], stream: int | None) -> None:
        bits = 0
        for address in addresses:
            bits |= address
        if bits & self._below or len(addresses) != len(self.places):
            self.check(addresses)
        self._launch(addresses, current_stream() if stream is None else stream)

    def check(self, addresses: Sequence[int]) -> None:
        """Raise AlignmentError unless addresses are multiples of what the kernel was built for."""
        for (name, align_bytes), address in zip(self._kernel.pointers, addresses, strict=True):
            check_aligned(name, align_bytes, address)

    def picking(self, picks: Picks) -> Callable[[Sequence[int], int], None]:
        """Return a function that launches, on a stream, with the addresses that `picks` chooses."""
        unused, start, make = self._unused, self._start, self._packed
        plain, shape = start.plain, start.shape
        write, chosen = _in_order(picks) or (None, None)

        def launch(addresses: Sequence[int], stream: int) -> None:
            try:
                packed = unused.pop()
            except IndexError:
                packed = make()
            values = packed.values
            if write is not None and chosen is not None:
                write(values, 0, *chosen(addresses))
            else:
                for position, number, nbytes in picks:
                    values[position] = addresses[number] + nbytes
            if plain:
                (getattr(here, "launch", None) or take_up())(*shape, stream, packed.pointers, 0)
            else:
                start(stream, packed)
            unused.append(packed)

        return launch

    def starting(self, addresses: Sequence[int], picks: Picks) -> Callable[[int], None] | None:
        """Return a function that launches on a stream with the addresses that `picks` chooses, packed here.

        None where a launch changes what is packed.  Any number of threads may call it at a time.
        """
        start = self._start
        if not start.plain:
            return None
        packed = self._packed()
        for position, number, nbytes in picks:
            packed.values[position] = addresses[number] + nbytes
        shape, pointers = start.shape, packed.pointers

        def launch(stream: int, alive: object = (start, packed)) -> None:
            (getattr(here, "launch", None) or take_up())(*shape, stream, pointers, 0)

        return launch

    def _packed(self) -> Packed:
        """New memory for the arguments of a launch, with the values of integers."""
        packed = self._start.packed(self._count)
        for position, value in self._kernel.scalars:
            packed.values[position] = value
        return packed


def load_launch(kernel: Launchable) -> Launch:
    """Load a kernel on the current GPU.

    Raises UnsupportedError without one, ResourceError where the kernel's clusters, or all blocks of a
    cooperative launch, do not fit it.
    """
    function = load_function(kernel.name, kernel.image, kernel.shared_bytes, math.prod(kernel.cluster))
    needs = kernel.cluster, kernel.threads, kernel.shared_bytes, kernel.source
    require_cluster(kernel.name, function, *needs)
    shape = kernel.grid, kernel.threads, kernel.shared_bytes
    return Launch(kernel, Start(kernel, function, *shape, kernel.maps))


@dataclass(frozen=True, slots=True)
class ReadySequence:
    """All that the launches of a sequence need, as plain data: every integer parameter has its value."""

    kernels: tuple[Launchable, ...]
    buffers: tuple[tuple[str, ...], ...]
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class CompiledSequence:
    """A sequence whose kernels, here without statements, are compiled; another process may have done that."""

    sequence: LaunchSequence
    prepared: tuple[Prepared, ...]

    @property
    def registers(self) -> int:
        """The most registers that a thread of any kernel takes."""
        return max((kernel.cubin.registers for kernel in self.prepared), default=0)

    def ready(self, scalars: Mapping[str, int] | None = None) -> ReadySequence:
        """The sequence with its scalars, and those given, bound; words of numbers that are not, such as
        alpha, every launch gives by name, as it gives addresses.

        Raises ArgumentTypeError for a scalar that is missing, ShapeError for one that a kernel is not right
        for, ResourceError for a grid past CUDA's limits.
        """
        bound = dict(self.sequence.scalars) | dict(scalars or {})
        kernels = tuple(launchable(kernel, bound) for kernel in self.prepared)
        names = zip(self.prepared, self.sequence.buffers, strict=True)
        buffers = tuple(tuple(_given(kernel.kernel, own, bound)) for kernel, own in names)
        return ReadySequence(kernels, buffers, self.sequence.scratch_bytes)


def _given(kernel: Kernel, buffers: tuple[str, ...], bound: Mapping[str, int]) -> Iterator[str]:
    """The name of what a launch gives for each parameter that has no value: its buffer's, or its own."""
    own, words = iter(buffers), words_at_launch(kernel, bound)
    for p in kernel.params:
        if isinstance(p, Global):
            yield next(own)
        elif p.name in words:
            yield p.name


def compile_sequence(sequence: LaunchSequence, arch: str) -> CompiledSequence:
    """Print and compile all kernels for `arch`, from the cache where they are there.

    Raises what `prepare_all` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.program import launch_sequence
    >>> one = launch_sequence([KernelBuilder("empty", threads=32).build()])
    >>> compile_sequence(one, "sm_80").ready().kernels[0].grid
    (1, 1, 1)
    """
    prepared = prepare_all(sequence.kernels, arch)
    return CompiledSequence(replace(sequence, kernels=tuple(ready.kernel for ready in prepared)), prepared)


@dataclass(frozen=True, slots=True)
class LoadedSequence:
    """A sequence on the GPU: call it with the address of every buffer by name, with the words of numbers that
    have no value yet, and a stream (a cudaStream_t), CuPy's current one where none is given.  The caller
    allocates "scratch", of `scratch_bytes`."""

    steps: tuple[tuple[Launch, tuple[str, ...]], ...]
    """The launches in order, each with the names of its buffers."""
    scratch_bytes: int

    def __call__(self, addresses: Mapping[str, int], stream: int | None = None) -> None:
        """Launch all kernels on the stream.  Raises AlignmentError."""
        for launch, names in self.steps:
            launch([addresses[name] for name in names], stream)

    def on_arrays(self, arrays: Mapping[str, Any]) -> Callable[[], None]:
        """A launch on CuPy arrays by name, whose scratch memory is allocated here; it keeps all alive."""
        held = {name: x for name, x in arrays.items() if hasattr(x, "data")}
        if self.scratch_bytes:
            held[SCRATCH] = device_array((self.scratch_bytes,), "uint8")
        addresses = {name: x.data.ptr for name, x in held.items()}

        def launch(alive: object = held) -> None:
            self(addresses)

        return launch


def load_sequence(ready: ReadySequence) -> LoadedSequence:
    """Load a sequence on the current GPU.  Raises UnsupportedError without one.

    >>> load_sequence(ReadySequence((), (), 0)).steps
    ()
    """
    steps = zip(map(load_launch, ready.kernels), ready.buffers, strict=True)
    return LoadedSequence(tuple(steps), ready.scratch_bytes)
