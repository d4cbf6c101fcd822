"""The microseconds that the model gives what row families launch, of whichever way a configuration works.

reductions      the passes of a plan, see `reduce_model`
cross entropy   the losses, and the launches that add them up
norms           the time by which a configuration is ranked, see `norm_model`
"""

from __future__ import annotations

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.model import Clock, Expected
from layoutalg.kernels.rowwise import ways
from layoutalg.kernels.rowwise.entropy import CrossEntropyProblem, total
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.reductions import ReduceProblem


def reduction_clock(p: ReduceProblem, c: ways.ReduceConfig, arch: str | Arch) -> Clock:
    """The time of all passes.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((1 << 26,), 0, "f32")
    >>> 60 < f.expected(p, f.choose(p), "sm_90").us < 80
    True
    """
    passes = ways.plan_with(p, c, arch).passes
    return lambda m: Expected(ways.plan_us(passes, m))


def loss_clock(p: CrossEntropyProblem, c: ways.ReduceConfig, arch: str | Arch) -> Clock:
    """The time of the losses, and of what adds them up behind."""
    losses = reduction_clock(p.losses, c, arch)
    if p.reduction == "none":
        return losses
    summed = total(p)
    behind = reduction_clock(summed, ways.plans(summed, arch)[0].passes[0].config, arch)
    return lambda m: Expected(losses(m).us + behind(m).us - m.launch_us + 2 * m.next_launch_us)


def norm_clock(p: NormProblem, c: ways.NormConfig, arch: str | Arch) -> Clock:
    """The time of a norm's launches.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["softmax"]
    >>> p = f.problem((65536, 1024), 1, "f32")
    >>> 120 < f.expected(p, f.choose(p), "sm_90").us < 135
    True
    """
    form, chip = ways.form_of(p), find_arch(arch)
    return lambda m: Expected(ways.norm_us(ways.Ways(p, form, c.vec, m, chip), c))
