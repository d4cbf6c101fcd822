"""Kernels on a GPU: the one way from programs to launches, through the one cache of machine code.

    load(kernel)(src=x, dst=y, n=3)                      arrays and integers by name, checked

    compiled = compile_sequence(sequence, "sm_90a")      printed and compiled; needs no GPU, is data
    ready = compiled.ready(alpha=1)                      all that its launches need: every scalar is bound
    run = load_sequence(ready)                           on the current GPU
    run({"src": address, "dst": address}, stream)        launches all kernels

A kernel's text relies on the declarations of its parameters: index code is simplified by the range of an
integer, and a vector access by the alignment of a pointer.  So every value is checked, once, before it is
launched with.  What is compiled is data: another process may have done it, and `kernels.plan_cache` keeps it
on disk.

A launch that is repeated costs the host a kernel with its grid as a function of addresses.

    launch = load_launch(kernel)                    on the current GPU
    launch([address, address], stream)              checks the addresses
    launch.picking(picks)(addresses, stream)        with what is picked of addresses that were checked
    launch.starting(addresses, picks)(stream)       with addresses that are packed once

What it costs is the driver's own work and little else: grid, block and shared memory are bound once, and
arguments are packed into memory of ours, as the driver's `cuLaunchKernel` reads them (CUDA Driver API,
"Execution Control"): an array of pointers to the values, which it has copied when it returns.  Tensor maps
are made from the addresses, once per address.  Each launch writes into memory of its own, which it takes
from those that no launch uses; so any number of threads may start one kernel at a time.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from layoutalg.codegen.gpu.driver import (
    MAP_ALIGNMENT,
    MAP_BYTES,
    MapImages,
    active_clusters,
    attribute_launcher,
    resident_blocks,
)
from layoutalg.codegen.gpu.preparation import (
    Launchable,
    Prepared,
    launchable,
    prepare,
    prepare_all,
    words_at_launch,
)
from layoutalg.codegen.gpu.runtime import (
    current_stream,
    device_array,
    driver_error,
    here,
    load_function,
    require_gpu,
    take_up,
)
from layoutalg.codegen.program import SCRATCH, Global, Kernel, LaunchSequence, dynamic_bytes
from layoutalg.errors import AlignmentError, ArgumentTypeError, ResourceError


class Packed:
    """Memory for the values of a launch and the address of the pointers to them.

    A value has 8 bytes, of which the driver reads as many as it needs; behind the values lie the tensor maps,
    of 128 bytes at multiples of as many.  `sources` are the addresses of the tensors that the maps describe;
    `early` launches with these values, where that needs memory of its own.
    """

    __slots__ = ("_images", "_memory", "_table", "early", "pointers", "sources", "values")

    def __init__(self, count: int, maps: int = 0) -> None:
        self.values: Any = (ctypes.c_uint64 * count)()
        self.sources: list[int | None] = [None] * maps
        self.early: Callable[[int], int] | None = None
        first = ctypes.addressof(self.values)
        self._memory = ctypes.create_string_buffer(MAP_BYTES * maps + MAP_ALIGNMENT)
        self._images = -(-ctypes.addressof(self._memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        places = (
            *range(first, first + 8 * count, 8),
            *range(self._images, self._images + MAP_BYTES * maps, MAP_BYTES),
        )
        self._table = (ctypes.c_void_p * len(places))(*places)
        self.pointers = ctypes.addressof(self._table)

    def place_map(self, number: int, address: int, image: bytes) -> None:
        """Put the image of a map of the tensor at `address` where the driver reads it."""
        ctypes.memmove(self._images + MAP_BYTES * number, image, MAP_BYTES)
        self.sources[number] = address


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
    CuPy's current one where that is None.  Raises AlignmentError; where it is made, ResourceError if the
    current GPU does not keep all blocks of a cooperative launch at a time."""

    __slots__ = (
        "_below", "_count", "_function", "_images", "_kernel", "_launch", "_plain", "_shape", "_unused",
        "every", "places",
    )  # fmt: skip

    def __init__(self, kernel: Launchable, function: Any) -> None:
        self._kernel, self._function = kernel, function  # which keeps the machine code loaded
        self._shape = (function.ptr, *kernel.grid, kernel.threads, 1, 1, kernel.shared_bytes)
        arch = require_gpu().arch if kernel.maps else ""
        self._images = [(position, MapImages(tensor_map, arch)) for position, tensor_map in kernel.maps]
        self._plain = not (kernel.dependent or kernel.cooperative or kernel.maps)
        """Whether a launch is one call of the driver, with what the shape and packed arguments say."""
        if kernel.cooperative:
            blocks = math.prod(kernel.grid)
            most = resident_blocks(function.ptr, kernel.threads, kernel.shared_bytes)
            if blocks > most:
                resource = f"blocks of {kernel.name} that are resident on {require_gpu().name}"
                raise ResourceError(resource, blocks, most)
        self._below = max((align for _, align in kernel.pointers), default=1) - 1
        self._count = len(kernel.pointers) + len(kernel.scalars)
        integers = {position for position, _ in kernel.scalars}
        self.places = tuple(position for position in range(self._count) if position not in integers)
        """The places of pointers among the values of a launch."""
        self.every: Picks = tuple((position, n, 0) for n, position in enumerate(self.places))
        """The picks that take all addresses in order."""
        self._unused: list[Packed] = []
        """A launch takes one, so that no other, whoever starts it, writes there."""
        self._launch = self.picking(self.every)

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
        plain, shape = self._plain, self._shape
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

    def starting(self, addresses: Sequence[int], picks: Picks) -> Callable[[int], None]:
        """Return a function that launches on a stream with the addresses that `picks` chooses, packed once
        where a launch does not change what is packed.  Any number of threads may call it at a time.
        """
        if not self._plain:
            return functools.partial(self.picking(picks), addresses)
        packed = self._packed()
        for position, number, nbytes in picks:
            packed.values[position] = addresses[number] + nbytes
        shape, pointers = self._shape, packed.pointers

        def launch(stream: int, alive: object = (self, packed)) -> None:
            (getattr(here, "launch", None) or take_up())(*shape, stream, pointers, 0)

        return launch

    def _packed(self) -> Packed:
        """New memory for the arguments of a launch, with the values of integers."""
        kernel, packed = self._kernel, Packed(self._count, len(self._images))
        for position, value in kernel.scalars:
            packed.values[position] = value
        if kernel.dependent or kernel.cooperative:
            packed.early = attribute_launcher(
                self._function.ptr, kernel.grid, kernel.threads, kernel.shared_bytes, packed.pointers,
                cooperative=kernel.cooperative,
            )  # fmt: skip
        return packed

    def _start(self, stream: int, packed: Packed) -> None:
        """Launch with packed arguments, and with the images of tensor maps of these addresses."""
        for number, (position, images) in enumerate(self._images):
            address = packed.values[position]
            if packed.sources[number] != address:
                packed.place_map(number, address, images.at(address))
        if packed.early is None:
            (getattr(here, "launch", None) or take_up())(*self._shape, stream, packed.pointers, 0)
        elif status := packed.early(stream):
            raise driver_error(status)


def load_launch(kernel: Launchable) -> Launch:
    """Load a kernel on the current GPU.

    Raises UnsupportedError without one, ResourceError where the kernel's clusters, or all blocks of a
    cooperative launch, do not fit it.
    """
    needs = kernel.cluster, kernel.threads, kernel.shared_bytes, kernel.source
    return Launch(kernel, load_function(kernel.name, kernel.image, *needs))


def pointer_address(p: Global, value: Any) -> int:
    """The address of an array on the GPU.

    Raises ArgumentTypeError for what is none, has elements of another width or byte order, or is read-only
    where the kernel writes; AlignmentError.

    >>> from types import SimpleNamespace
    >>> array = SimpleNamespace(__cuda_array_interface__={"data": (4096, False), "typestr": "<f4"})
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> pointer_address(KernelBuilder("copy", threads=32).pointer("src", 4), array)
    4096
    """
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise ArgumentTypeError(f"{p.name} is a {type(value).__name__}; an array on the GPU is needed")
    import numpy

    address = int(interface["data"][0])
    element = numpy.dtype(interface["typestr"])
    if element.itemsize != p.element_bytes:
        raise ArgumentTypeError(
            f"{p.name} has elements of {element.itemsize} bytes, the kernel moves {p.element_bytes}"
        )
    if not element.isnative:
        raise ArgumentTypeError(
            f"{p.name} holds {element.str}: elements in the machine's byte order are needed"
        )
    if p.writable and interface["data"][1]:
        raise ArgumentTypeError(f"{p.name} is read-only, and the kernel writes it")
    check_aligned(p.name, p.align_bytes, address)
    return address


def check_aligned(name: str, align_bytes: int, address: int) -> None:
    """Raise AlignmentError unless an address is a multiple of what the kernel was built for, in bytes.

    >>> check_aligned("src", 16, 4096)
    """
    if address % align_bytes:
        raise AlignmentError(
            f"{name} starts at {address:#x}: this kernel was built for {align_bytes}-byte alignment",
            offset=address,
            required_bytes=align_bytes,
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel on the GPU; call it with its arguments by name.

    `function` is CuPy's handle, which keeps the machine code loaded.
    """

    ready: Prepared
    function: Any

    def __call__(self, **args: Any) -> None:
        """Launch on the current stream.  Integers are checked against their range, pointers for alignment.

        Raises ArgumentTypeError for missing or foreign names, ShapeError and AlignmentError for values
        outside of what the kernel's text states (see contract), and the error of a rule that a tensor map
        breaks.
        """
        self.launcher(**args)()

    def launcher(self, **args: Any) -> Callable[[], None]:
        """Check the arguments once; the function returned launches and does nothing else.

        It keeps the arrays alive.  Any number of threads may call it, each on a stream of its own.
        """
        kernel = self.ready.kernel
        expected = [p.name for p in kernel.params]
        if set(args) != set(expected):
            raise ArgumentTypeError(f"{kernel.name} takes {', '.join(expected)}; got {', '.join(args)}")
        pointers = [p for p in kernel.params if isinstance(p, Global)]
        integers = {p.name: args[p.name] for p in kernel.params if not isinstance(p, Global)}
        launch = Launch(launchable(self.ready, integers), self.function)
        start = launch.starting([pointer_address(p, args[p.name]) for p in pointers], launch.every)

        def run(alive: object = args) -> None:
            start(current_stream())

        return run

    @property
    def active_clusters(self) -> int:
        """The number of clusters of it that the GPU runs at a time, as the driver says."""
        kernel = self.ready.kernel
        return active_clusters(self.function.ptr, kernel.cluster, kernel.threads, dynamic_bytes(kernel))


def load_prepared(ready: Prepared) -> Loaded:
    """Load a kernel that another process may have prepared, on the current GPU.

    Raises UnsupportedError without one, ResourceError where the kernel's clusters do not fit it.
    """
    kernel = ready.kernel
    needs = kernel.cluster, kernel.threads, dynamic_bytes(kernel), ready.source
    return Loaded(ready, load_function(kernel.name, ready.cubin.image, *needs))


def load(kernel: Kernel) -> Loaded:
    """Print, compile for this machine's GPU and load a kernel.

    Raises UnsupportedError without a GPU, CompileError, and what `to_cuda` raises.
    """
    return load_prepared(prepare(kernel, require_gpu().arch))


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
