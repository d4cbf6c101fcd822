"""LaunchSequence: kernels that one computation launches in order, and what each of their parameters is.

The idea.  A computation is one kernel, or several with scratch memory between them.  Its sequence says which
buffer every pointer is and what every integer is, so that whoever has the buffers can run it, in the
simulator or on a GPU, and need not know what it computes:

    transpose                src -> dst, with m, n and the leading dimensions as scalars
    sum of 2^26 floats       src -> scratch, scratch -> dst
    softmax, split           src -> scratch, (scratch, src) -> dst
    product in parts of k    (a, b) -> scratch, (scratch, c, bias) -> d, with alpha among the scalars

Notes.  "scratch" is memory that is written before it is read; only the sequence needs to know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.program.dependent_launch import dependent
from layoutalg.codegen.program.lowering import printed
from layoutalg.codegen.program.tile import Global, Kernel
from layoutalg.errors import ArgumentTypeError

SCRATCH = "scratch"
"""The buffer between kernels."""


@dataclass(frozen=True, slots=True)
class LaunchSequence:
    """Kernels in the order of their launches; see `launch_sequence`, which makes one.

    `buffers` has, for each kernel, the buffer of every pointer among its parameters; `scalars` are values of
    integer parameters by name, the same in all kernels; `scratch_bytes` is the size of the scratch buffer.
    """

    kernels: tuple[Kernel, ...]
    buffers: tuple[tuple[str, ...], ...]
    scalars: tuple[tuple[str, int], ...] = ()
    scratch_bytes: int = 0

    def arguments(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """The arguments of each kernel, by parameter: buffers and other scalars are `given` by name.

        Raises ArgumentTypeError for a name that is missing.
        """
        known, arguments = dict(self.scalars) | dict(given), []
        for kernel, buffers in zip(self.kernels, self.buffers, strict=True):
            of = {p.name: name for p, name in _pointers(kernel, buffers)}
            names = {p.name: of.get(p.name, p.name) for p in kernel.params}
            if missing := [name for name in names.values() if name not in known]:
                got = ", ".join(known) or "nothing"
                raise ArgumentTypeError(f"{kernel.name} takes {missing[0]}; got {got}")
            arguments.append({parameter: known[name] for parameter, name in names.items()})
        return tuple(arguments)


def launch_sequence(
    kernels: Iterable[Kernel],
    buffers: Mapping[str, str] | Iterable[Mapping[str, str]] = MappingProxyType({}),
    *,
    scalars: Mapping[str, int] | None = None,
    scratch_bytes: int = 0,
    arch: str | Arch | None = None,
) -> LaunchSequence:
    """The sequence of some kernels.  A pointer is the buffer of its own name unless `buffers` says otherwise:
    one mapping for all kernels, or one for each.

    With an `arch`, every kernel after the first may start while the one in front of it ends, where that
    architecture can.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("copy", threads=32)
    >>> src, dst, n = k.pointer("src", 4), k.pointer("dst", 4, writable=True), k.param("n", 32)
    >>> one = launch_sequence([k.build()], {"src": "x"}, scalars={"n": 8})
    >>> one.buffers, one.arguments({"x": 1, "dst": 2})
    ((('x', 'dst'),), ({'src': 1, 'dst': 2, 'n': 8},))
    """
    several = tuple(kernels)
    each = [buffers] * len(several) if isinstance(buffers, Mapping) else list(buffers)
    names = tuple(
        tuple(of.get(p.name, p.name) for p in kernel.pointers)
        for kernel, of in zip(several, each, strict=True)
    )
    sequence = LaunchSequence(several, names, tuple((scalars or {}).items()), scratch_bytes)
    return sequence if arch is None else overlapped(sequence, arch)


def overlapped(sequence: LaunchSequence, arch: str | Arch) -> LaunchSequence:
    """The sequence, each kernel after the first launched while the one in front of it ends, where `arch` can.

    >>> overlapped(launch_sequence([]), "sm_90").kernels
    ()
    """
    kernels = sequence.kernels[:1]
    steps = list(zip(sequence.kernels, sequence.buffers, strict=True))
    for (first, before), (second, after) in pairwise(steps):
        written = {name for p, name in _pointers(first, before) if p.writable}
        fresh = [p.name for p, name in _pointers(second, after) if name in written]
        read = [p.name for p, name in _pointers(second, after) if name in before]
        kernels += (dependent(second, fresh, arch, read),)
    return replace(sequence, kernels=kernels)


def printed_sequence(sequence: LaunchSequence, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The sequence of the programs that are printed, for the simulator.  Raises what `printed` raises.

    >>> printed_sequence(launch_sequence([])).kernels
    ()
    """
    return replace(sequence, kernels=tuple(printed(kernel, arch) for kernel in sequence.kernels))


def _pointers(kernel: Kernel, buffers: tuple[str, ...]) -> list[tuple[Global, str]]:
    return list(zip(kernel.pointers, buffers, strict=True))
