"""Launch sequences on a GPU: the one way from programs to launches, through the one cache of machine code.

    compiled = compile_sequence(sequence, "sm_90a")      printed and compiled; needs no GPU, is data
    ready = compiled.ready(alpha=1)                      all that its launches need: every scalar is bound
    run = load_sequence(ready)                           on the current GPU
    run({"src": address, "dst": address}, stream)        launches all kernels

What is compiled is data: another process may have done it, and `kernels.plan_cache` keeps it on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from layoutalg.codegen.gpu.preparation import Launchable, Prepared, launchable, prepare_all, words_at_launch
from layoutalg.codegen.gpu.runtime import device_array
from layoutalg.codegen.gpu.starts import Launch, load_launch
from layoutalg.codegen.program import SCRATCH, Global, Kernel, LaunchSequence

__all__ = ["CompiledSequence", "LoadedSequence", "ReadySequence", "compile_sequence", "load_sequence"]


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
