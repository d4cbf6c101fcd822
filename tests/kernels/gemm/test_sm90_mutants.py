"""Mutants of what orders gemm-sm90, its barriers, phases, stages, descriptors, fences: each is caught."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.mutants.ordering import Mutant, mutants
from tests.mutants.sm90 import CASES, EQUAL, WAYS, case, reason
from tests.sweeps import each

QUICK = ("one consumer", "two consumers")
EACH = 15
"""Mutants of each quick case that every run makes; all of all cases are deep."""


def judged(name: str, mutant: Mutant) -> None:
    """It is caught however it is run, or never, for a reason."""
    found = case(name).verdict(mutant.kernel)
    if any(found):
        assert all(found), found
    else:
        assert reason(name, mutant.label), "nothing catches it"


@each("name", QUICK)
def test_the_kernel_itself_passes(name: str) -> None:
    assert case(name).verdict(case(name).kernel) == ("",) * len(WAYS)


def test_there_are_mutants_of_everything_that_orders() -> None:
    found = list(mutants(case("two consumers").kernel))
    assert len(found) > 280
    parts = """mbarrier_wait empty|mbarrier_wait full|parity turned|slot =|bar 1 stages on|nbytes fewer|
        arrivals for|a 32 bytes on|b_form SBO|a_form mode|accumulate 1|newest 2|one turn fewer|
        before wgmma_wait|no wgmma_fence|no fence_proxy_async_cta|no fence_barrier_init|no block_sync|
        no wgmma_commit|no bulk_wait_read|no bulk_commit|no named_barrier"""
    for part in map(str.strip, parts.split("|")):
        assert any(part in mutant.label for mutant in found), part


@pytest.mark.deep
@each("name", QUICK)
def test_a_sample_of_mutants(name: str) -> None:
    every = list(mutants(case(name).kernel))
    for mutant in random.Random(f"sample of {name}").sample(every, EACH):
        judged(name, mutant)


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_every_mutant(name: str) -> None:
    for mutant in mutants(case(name).kernel):
        try:
            judged(name, mutant)
        except AssertionError as error:
            raise AssertionError(f"{mutant.label}: {error}") from error


@pytest.mark.deep
def test_every_reason_is_of_a_mutant() -> None:
    met = Counter(reason(name, m.label) for name in CASES for m in mutants(case(name).kernel))
    assert set(EQUAL.values()) <= set(met)
