"""Chain: what computes a permute, a reduction or a norm, as kernels launched one after the other.

The idea.  Each of these is one kernel, or two with floats between them.  A chain says which buffer every
pointer of every kernel is, so that whoever has the buffers can run it, in the simulator or on a GPU, and need
not know what it computes:

    permute                  src -> dst
    sum of 2^26 floats       src -> partial, partial -> dst
    softmax, split           src -> partial, (partial, src) -> dst
    layer norm               (src, weight, bias) -> dst

Notes.  Buffers start at multiples of 16 bytes and are whole 16-byte units; a tensor that starts elsewhere has
an offset in its problem.  "partial" is scratch memory, floats of 32 bits, written before it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from layoutalg.arch import Arch
from layoutalg.codegen.gpu import Launch, Launchable, launchable, load_launch, prepare
from layoutalg.codegen.program import Global, Kernel, dependent, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import UnknownNameError
from layoutalg.kernels.move import permute as permute_family
from layoutalg.kernels.move.plan import best
from layoutalg.kernels.move.problem import PermuteProblem, normalise, permute_problem
from layoutalg.kernels.rowwise import norm as norm_family
from layoutalg.kernels.rowwise import reduce as reduce_family
from layoutalg.kernels.rowwise.norm_modes import OPS, NormProblem, norm_problem
from layoutalg.kernels.rowwise.reduce_plan import FOLD, ReducePlan, ReduceProblem, plans, reduce_problem

UNIT_BYTES = 16
"""Buffers start at multiples of it, and end there."""


Problem: TypeAlias = PermuteProblem | ReduceProblem | NormProblem

OPERATIONS = ("permute", *FOLD, *OPS)
"""What can be asked of a dense tensor with some axes, by name."""


def find_problem(name: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> Problem:
    """The problem of an operation's name.  Raises UnknownNameError, and what the problem raises.

    >>> print(find_problem("max", (4, 6), (1,), "f16"))
    max of (4,6) over (1) f16, src (6,1) -> dst (1,0)
    """
    if name == "permute":
        return permute_problem(shape, axes, dtype)
    if name in FOLD:
        return reduce_problem(shape, axes, name, dtype)
    if name in OPS:
        return norm_problem(name, shape, axes, dtype)
    raise UnknownNameError("operation", name, OPERATIONS)


@dataclass(frozen=True, slots=True)
class Chain:
    """Kernels in the order of their launches, and the buffer of every pointer of each.

    >>> chain_of(reduce_problem((1 << 26,), 0, "sum", "f32")).buffers
    (('src', 'partial'), ('partial', 'dst'))
    """

    kernels: tuple[Kernel, ...]
    buffers: tuple[tuple[str, ...], ...]
    partial_bytes: int


def chain_of(p: Problem, arch: str | Arch = "sm_90") -> Chain:
    """The best plan of a problem.  Raises ShapeError where nothing is to be computed.

    >>> chain_of(norm_problem("layer_norm", (8, 64), 1, "f16", weight=True)).buffers
    (('src', 'dst', 'weight'),)
    """
    if isinstance(p, PermuteProblem):
        x = normalise(p)
        return Chain((permute_family.build(x, best(x, arch)),), (("src", "dst"),), 0)
    if isinstance(p, NormProblem):
        found = norm_family.plan(p, arch)
        names = tuple(tuple(q.name for q in kernel.params) for kernel in found.kernels)
        return overlapped(Chain(found.kernels, names, 4 * found.workspace_elems), arch)
    return overlapped(chain_of_passes(plans(p, arch)[0]), arch)


def chain_of_passes(plan: ReducePlan) -> Chain:
    """The passes of a reduction's plan.

    >>> chain_of_passes(plans(reduce_problem((64, 64), 1, "sum", "f32"))[0]).partial_bytes
    0
    """
    names = (("src", "dst"),) if len(plan.passes) == 1 else (("src", "partial"), ("partial", "dst"))
    return Chain(reduce_family.build(plan), names, 4 * plan.workspace_elems)


def overlapped(chain: Chain, arch: str | Arch) -> Chain:
    """The chain, its second kernel launched while the first one ends, where the architecture can.

    >>> chain = chain_of(reduce_problem((1 << 26,), 0, "sum", "f32"), "sm_80")
    >>> [[kernel.dependent for kernel in overlapped(chain, arch).kernels] for arch in ("sm_80", "sm_90")]
    [[False, False], [False, True]]
    """
    if len(chain.kernels) == 1:
        return chain
    (first, second), (before, after) = chain.kernels, chain.buffers
    pointers = zip(first.params, before, strict=True)
    written = {name for p, name in pointers if isinstance(p, Global) and p.writable}
    fresh = [p.name for p, name in zip(second.params, after, strict=True) if name in written]
    read = [p.name for p, name in zip(second.params, after, strict=True) if name in before]
    return replace(chain, kernels=(first, dependent(second, fresh, arch, read)))


def printed_chain(chain: Chain, arch: str | Arch = "sm_90") -> Chain:
    """The chain of the programs that are printed, for the simulator.  Raises what `printed` raises.

    >>> printed_chain(chain_of(reduce_problem((8, 64), 1, "max", "f16"))).buffers
    (('src', 'dst'),)
    """
    return replace(chain, kernels=tuple(printed(kernel, arch) for kernel in chain.kernels))


def simulate_chain(chain: Chain, buffers: Mapping[str, Any]) -> None:
    """Run a chain's kernels, as they stand, in the simulator; the buffer "dst" of those given is the result.

    >>> import numpy
    >>> src, dst = numpy.ones(64, "f4"), numpy.zeros(4, "f4")
    >>> chain = chain_of(reduce_problem((1, 64), 1, "sum", "f32"))
    >>> simulate_chain(chain, {"src": src.view("u4"), "dst": dst.view("u4")})
    >>> dst.tolist()
    [64.0, 0.0, 0.0, 0.0]
    """
    import numpy

    units = -(-chain.partial_bytes // UNIT_BYTES)
    given = {**buffers, "partial": numpy.zeros(units * UNIT_BYTES // 4, "u4")}
    for kernel, names in zip(chain.kernels, chain.buffers, strict=True):
        pointers = {p.name: given[name] for p, name in zip(kernel.params, names, strict=True)}
        simulate(kernel, pointers, trace=False)


@dataclass(frozen=True, slots=True)
class ReadyChain:
    """A chain whose kernels are compiled; another process may have done that."""

    kernels: tuple[Launchable, ...]
    buffers: tuple[tuple[str, ...], ...]
    partial_bytes: int


def prepare_chain(chain: Chain, arch: str) -> ReadyChain:
    """Compile the kernels of a chain.  Raises what `prepare` and `launchable` raise.

    >>> one = chain_of(reduce_problem((8, 64), 1, "max", "f16"))
    >>> prepare_chain(one, "sm_80").kernels[0].pointers
    (('src', 16), ('dst', 16))
    """
    kernels = tuple(launchable(prepare(kernel, arch)) for kernel in chain.kernels)
    return ReadyChain(kernels, chain.buffers, chain.partial_bytes)


@dataclass(frozen=True, slots=True)
class LoadedChain:
    """A chain on the GPU: call it with the address of every buffer by name, and a stream (a cudaStream_t),
    CuPy's current one where none is given."""

    steps: tuple[tuple[Launch, tuple[str, ...]], ...]
    """The launches in order, each with the names of its buffers."""
    partial_bytes: int

    def __call__(self, addresses: Mapping[str, int], stream: int | None = None) -> None:
        """Launch all kernels on the stream.  Raises AlignmentError."""
        for launch, names in self.steps:
            launch([addresses[name] for name in names], stream)


def load_chain(chain: ReadyChain) -> LoadedChain:
    """Load a chain on the current GPU.  Raises UnsupportedError without one.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     one = chain_of(reduce_problem((8, 64), 1, "max", "f16"))
    ...     loaded = load_chain(prepare_chain(one, gpu_status().arch))
    """
    steps = zip(map(load_launch, chain.kernels), chain.buffers, strict=True)
    return LoadedChain(tuple(steps), chain.partial_bytes)
