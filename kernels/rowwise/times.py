"""The microseconds that the model gives what row families launch, of whichever way a configuration works.

reductions      the passes of a plan, see `reduce_model`
cross entropy   the losses, and the launches that add them up
norms           the time by which a configuration is ranked, see `norm_model`
"""

from __future__ import annotations

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.model import Clock, Expected
from layoutalg.kernels.rowwise.entropy import CrossEntropyProblem, total
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.reductions import ReduceProblem
from layoutalg.kernels.rowwise.ways import (
    NormConfig,
    ReduceConfig,
    Ways,
    form_of,
    norm_us,
    plan_us,
    plan_with,
    plans,
)


def reduction_clock(p: ReduceProblem, c: ReduceConfig, arch: str | Arch) -> Clock:
    """The time of all passes.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((1 << 26,), 0, "f32")
    >>> 60 < f.expected(p, f.choose(p), "sm_90").us < 80
    True
    """
    passes = plan_with(p, c, arch).passes
    return lambda m: Expected(plan_us(passes, m))


def loss_clock(p: CrossEntropyProblem, c: ReduceConfig, arch: str | Arch) -> Clock:
    """The time of the losses, and of what adds them up behind."""
    losses = reduction_clock(p.losses, c, arch)
    if p.reduction == "none":
        return losses
    summed = total(p)
    behind = reduction_clock(summed, plans(summed, arch)[0].passes[0].config, arch)
    return lambda m: Expected(losses(m).us + behind(m).us - m.launch_us + 2 * m.next_launch_us)


def norm_clock(p: NormProblem, c: NormConfig, arch: str | Arch) -> Clock:
    """The time of a norm's launches.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["softmax"]
    >>> p = f.problem((65536, 1024), 1, "f32")
    >>> 120 < f.expected(p, f.choose(p), "sm_90").us < 135
    True
    """
    form, chip = form_of(p), find_arch(arch)
    return lambda m: Expected(norm_us(Ways(p, form, c.vec, m, chip), c))
