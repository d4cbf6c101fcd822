"""What a bench says of a GPU is what the GPU says: clocks while it works, energy, cold data."""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import watching
from layoutalg.kernels import find_family
from layoutalg.kernels.bench import LATER_HALF, Method, Timed, benchmark
from tests.gpu.tools import alone, needs_gpu

pytestmark = needs_gpu


def test_the_gpu_is_read() -> None:
    with watching() as monitor:
        if monitor.reason:
            pytest.skip(monitor.reason)
        seen = monitor.read()
    assert seen.sm_mhz and seen.memory_mhz and seen.power_w and seen.temperature_c
    assert 100 < seen.sm_mhz < 4000 and 10 < seen.power_w < 2000 and 10 < seen.temperature_c < 110


@pytest.mark.parametrize("name", ["gemm-simt", "gemm-sm80"])
def test_a_product_by_the_published_rule(name: str) -> None:
    """Power by the counter of energy is that of the GPU; the clock is not that of a GPU at rest."""
    alone()
    family = find_family(name)
    (row,) = benchmark([Timed(name, family.problem(2048))], Method(LATER_HALF, cold=True, energy=True))
    assert row.run.cold and row.run.launches == 718
    if row.run.unread:
        pytest.skip(row.run.unread)
    seen, joules = row.run.conditions["ours"], row.run.joules["ours"]
    assert seen.readings == 1 and seen.sm_mhz and seen.sm_mhz.median > 900
    if joules is None:
        pytest.skip("this GPU has no counter of energy")
    seconds = row.work / (row.ours * 1e12)
    assert 50 < joules / seconds < 1500, (joules, seconds)
    assert row.per_joule("ours") == row.work / joules


def test_rounds_and_the_later_half_agree() -> None:
    alone()
    family = find_family("gemm-simt")
    problem = family.problem(4096)
    rates = [
        next(benchmark([Timed("gemm-simt", problem)], Method(rule))).ours for rule in ("rounds", LATER_HALF)
    ]
    assert 0.85 < rates[0] / rates[1] < 1.18, rates
