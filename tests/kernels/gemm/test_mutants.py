"""Mistakes in programs of gemm-simt and gemm-sm80: each is seen by the simulator, or changes nothing for a
reason; some are planted in a text that the host runs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from layoutalg.codegen.program import Kernel, lower
from layoutalg.errors import SimulationError
from layoutalg.kernels.gemm import gemm_problem
from layoutalg.kernels.gemm.programs.sm80 import build
from layoutalg.kernels.ladder.steps import Sm80Step
from tests.hostshim import KernelFault
from tests.kernels.gemm.cases import arguments, expected, host_run
from tests.mutants import planting
from tests.mutants.cases import CASES
from tests.mutants.reasons import reason
from tests.sweeps import each, spread
from tests.tiers import first_tier

PRODUCTS = [name for name in CASES if name.startswith(("sm80", "simt"))]


@pytest.mark.deep(but=("sm80 ring of two", "simt ring", "simt registers"))
@pytest.mark.parametrize("name", PRODUCTS)
def test_mistakes_are_seen(name: str) -> None:
    case = CASES[name]()
    mutants = [m for m in case.mutants() if m.kind not in ("part", "unguard")]  # some guards hold anyway
    random.Random(name).shuffle(mutants)
    for mutant in spread(mutants, 6 if first_tier() else 30):
        assert case.verdict(mutant) or reason(name, case, mutant), f"{name}: {mutant}"


PLANTED = gemm_problem(20, 56, 152)
MISTAKES: dict[str, Any] = {
    **{f"no {name}": lambda kernel, name=name: planting.without(kernel, name)
       for name in ("cp_async_wait", "warp_sync")},
    "no predicate on D": planting.unguarded,
}  # fmt: skip


def wrong_on_host(kernel: Kernel, order: Any) -> bool:
    args = arguments(PLANTED)
    try:
        return bool((host_run(kernel, args, order=order) != expected(PLANTED, args)).any())
    except (SimulationError, KernelFault):
        return True


@pytest.mark.deep
@each("mistake", MISTAKES)
def test_the_text_on_the_host_shows_it(mistake: str) -> None:
    """Block barriers aside: on the host every ldmatrix and mma lets all threads catch up."""
    right = lower(build(PLANTED, Sm80Step(32, 32, 32, 2, 1, 3, panel=1, edges=True)))
    wrong, orders = MISTAKES[mistake](right), ("forward", "reverse")
    assert wrong != right and not any(wrong_on_host(right, order) for order in orders)
    assert any(wrong_on_host(wrong, order) for order in orders)
