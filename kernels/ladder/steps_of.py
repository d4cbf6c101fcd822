"""The steps of any family's ladder, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.errors import UnsupportedError, check_choice
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import Sm90Config
from layoutalg.kernels.ladder import gemm
from layoutalg.kernels.ladder.gemm import ARCH
from layoutalg.kernels.ladder.machines import find_machine
from layoutalg.kernels.ladder.step import Step
from layoutalg.kernels.ladder.wgmma import predict_wgmma


def predict_steps(family: Family, n: int, names: Sequence[str] = (), arch: str = ARCH) -> Iterator[Step]:
    """The steps of a family's ladder, all or those named, on n x n x n.  Compiles each; needs no GPU.

    Raises UnknownNameError for a step there is not, ShapeError for an `n` that tiles do not divide,
    UnsupportedError without NVRTC or a disassembler, and for an architecture that lacks what they need.

    >>> from layoutalg.kernels.registry import find_family
    >>> [step.bound for step in predict_steps(find_family("gemm-sm90"), 1024, ("2 TMA",))]
    ['L1']
    """
    if not isinstance(next(iter(family.steps.values()), None), Sm90Config):
        yield from gemm.predict_steps(family, n, names, arch)
        return
    if find_machine(arch).arch != ARCH:
        raise UnsupportedError(f"wgmma needs {ARCH}; {find_machine(arch).arch} does not have it")
    for name in names or family.steps:
        check_choice(f"step of {family.name}", name, family.steps)
        yield predict_wgmma(family, family.problem(n), name, family.steps[name])
