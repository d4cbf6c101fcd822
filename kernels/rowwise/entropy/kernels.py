"""Cross entropy as launches: losses by a reduction with labels, their sum by another, a mean by a division.

    none     losses                                             src, target -> dst
    sum      losses, their sum                                  src, target -> losses -> dst
    mean     losses and what counts, sums of both, quotient     src, target -> losses -> sums -> dst

The idea.  A row is read once: maximum, sum of exponentials and the element that a target names are one value
of a fold, "nll", which threads and blocks join like any other.  Losses are 4 bytes per row; what becomes of
them is a reduction of a vector, or of two.

Between the launches are the buffers `losses`, with what counts behind them, and `sums`.  Whoever launches may
have them behind the partials in the scratch memory: where, and how large that is then, says `room`.
"""

from __future__ import annotations

from typing import NamedTuple

from layoutalg.arch import Arch
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import LDG, STG, multiply, pack, reciprocal
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import SCRATCH, Kernel, LaunchSequence, launch_sequence
from layoutalg.kernels.rowwise.entropy.problem import CrossEntropyProblem
from layoutalg.kernels.rowwise.problems import ReduceProblem, reduce_problem
from layoutalg.kernels.rowwise.programs import build_reduction
from layoutalg.kernels.rowwise.reduce_plan import ReduceConfig, ReducePlan, plan_with, plans

UNIT_BYTES = 16
"""The alignment of buffers."""


class Room(NamedTuple):
    """The offsets in bytes of buffers in the scratch memory, behind partials, and its size."""

    losses: int
    sums: int
    end: int


def launches(p: CrossEntropyProblem, c: ReduceConfig, arch: str | Arch | None = "sm_90") -> LaunchSequence:
    """The launches of a problem whose losses are made by a configuration.

    >>> from layoutalg.kernels.rowwise.entropy.problem import cross_entropy_problem
    >>> p = cross_entropy_problem((64, 1000), dtype="f16")
    >>> [kernel.name for kernel in launches(p, configs(p)[0]).kernels]
    ['reduce_cross_entropy_f16_f32', 'reduce_sum_f32_f32', 'cross_entropy_mean_f16']
    """
    made = plan_with(p.losses, c, arch or "sm_90")
    kernels, steps = list(build_reduction(made)), [(len(made.passes), "src", "losses")]
    if p.reduction == "none":
        steps = [(len(made.passes), "src", "dst")]
    else:
        whole = p.reduction == "sum" and p.result.name == "f32"
        summed = plans(_total(p, p.axes.dst_offset if whole else 0), arch or "sm_90")[0]
        kernels += build_reduction(summed)
        steps.append((len(summed.passes), "losses", "dst" if whole else "sums"))
        if not whole:
            kernels.append(last(p))
            steps.append((1, "sums", "dst"))
    names = [one for step in steps for one in _names(*step)]
    return launch_sequence(kernels, names, scratch_bytes=partials_bytes(p, made, arch), arch=arch)


def room(p: CrossEntropyProblem, c: ReduceConfig, arch: str | Arch | None = "sm_90") -> Room:
    """Return the offsets in the scratch memory of what is passed from launch to launch.

    >>> from layoutalg.kernels.rowwise.entropy.problem import cross_entropy_problem
    >>> p = cross_entropy_problem((64, 1000), dtype="f16")
    >>> room(p, configs(p)[0])
    Room(losses=0, sums=512, end=528)
    """
    losses = partials_bytes(p, plan_with(p.losses, c, arch or "sm_90"), arch)
    if p.reduction == "none":
        return Room(losses, losses, losses)
    sums = losses + _units(p.loss_words)
    return Room(losses, sums, sums + UNIT_BYTES)


def partials_bytes(p: CrossEntropyProblem, made: ReducePlan, arch: str | Arch | None) -> int:
    """Bytes that the passes of either reduction have between them."""
    words = made.workspace_elems
    if p.reduction != "none":
        words = max(words, plans(_total(p), arch or "sm_90")[0].workspace_elems)
    return _units(words)


def configs(p: CrossEntropyProblem, arch: str | Arch = "sm_90") -> tuple[ReduceConfig, ...]:
    """The configurations that make the losses, the fastest by the model first.

    >>> from layoutalg.kernels.rowwise.entropy.problem import cross_entropy_problem
    >>> configs(cross_entropy_problem((64, 1000)))[0].lanes_per_row
    32
    """
    return tuple(plan.passes[0].config for plan in plans(p.losses, arch))


def _names(passes: int, given: str, to: str) -> list[dict[str, str]]:
    """The buffers behind the pointers of each pass of a reduction, from `given` to `to`."""
    if passes == 1:
        return [{"src": given, "dst": to}]
    return [{"src": given, "dst": SCRATCH}, {"src": SCRATCH, "dst": to}]


def _units(words: int) -> int:
    """Bytes of whole units of memory that hold so many words."""
    return -(-4 * words // UNIT_BYTES) * UNIT_BYTES


def _total(p: CrossEntropyProblem, to: int = 0) -> ReduceProblem:
    """The sums of losses and of what counts."""
    n = p.axes.outputs
    shape = (2, n) if p.reduction == "mean" else (n,)
    return reduce_problem(shape, len(shape) - 1, "sum", "f32", dst_offset=to)


def last(p: CrossEntropyProblem) -> Kernel:
    """The kernel that divides two sums, or rounds one."""
    k = KernelBuilder(
        f"cross_entropy_{p.reduction}_{p.result}", 32, notes=["", f"The {p.reduction} of losses."]
    )
    src, dst = k.pointer("src", 4), k.pointer("dst", p.result.nbytes, writable=True)
    v = k.reg("v", 2)
    with k.If(k.tid.eq(0)):
        if p.reduction == "mean":
            k.do(LDG[8], v, k.at(src, Const(0)))
            k.do(reciprocal(1), v[1])
            k.do(multiply(1, 1), v[0], v[1])
        else:
            k.do(LDG[4], v[0], k.at(src, Const(0)))
        if p.result.name != "f32":
            k.do(pack(1, p.result.name), v[0], v[0])
        k.do(STG[p.result.nbytes], k.at(dst, Const(p.axes.dst_offset)), v[0])
    return k.build()
