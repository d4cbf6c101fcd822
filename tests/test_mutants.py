"""Mistakes planted in printed programs are seen: a sample of the sweep of tests/bench/bench_mutants.py."""

from __future__ import annotations

import random

import pytest

from layoutalg.codegen.program import Do, For, If, lower, walk
from tests.mutants.cases import CASES
from tests.mutants.reasons import reason
from tests.mutants.statements import KINDS, mutants_of, mutated
from tests.sweeps import each

FAST = (
    "copy cp.async", "transpose f16", "permute f32", "mean box", "sum rows", "softmax rows", "softmax split",
    "layer_norm columns", "sm80 ring of two", "sm80 parts", "simt parts",
)  # fmt: skip
EACH = 3


@each("name", FAST, sample=1)
def test_a_sample_of_mistakes_is_seen(name: str) -> None:
    case = CASES[name]()
    every = [m for m in case.mutants() if m.kind == "drop"]
    for mutant in random.Random(f"sample {name}").sample(every, EACH):
        assert case.verdict(mutant) or reason(name, case, mutant), f"{name}: {mutant}"


@pytest.mark.deep
def test_the_right_program_passes() -> None:
    for name in ("transpose f16", "softmax split", "simt parts"):
        assert CASES[name]().verdict(None) == ""


def test_a_mutant_differs_in_one_place() -> None:
    case = CASES["sm80 ring of two"]()
    (kernel,) = map(lower, case.kernels)
    sites = list(walk(kernel.body))
    seen = set()
    for mutant in mutants_of(0, kernel):
        wrong, s = mutated(kernel, mutant), sites[mutant.site]
        seen.add(mutant.kind)
        assert wrong != kernel and str(s) == mutant.text
        before, after = (list(walk(x.body)) for x in (kernel, wrong))
        if mutant.kind == "drop":
            assert isinstance(s, Do) and len(after) == len(before) - 1
        if mutant.kind in ("operand", "place", "source"):
            different = [
                n for n, (a, b) in enumerate(zip(before, after, strict=True)) if isinstance(a, Do) and a != b
            ]
            assert different == [mutant.site]
        if mutant.kind == "turn":
            assert isinstance(s, For)
        if mutant.kind in ("part", "skip", "unguard"):
            assert isinstance(s, If)
    assert seen == set(KINDS)


def test_every_statement_that_does_something_is_a_site() -> None:
    for name in ("softmax rows", "sm80 ring of two"):
        for n, kernel in enumerate(CASES[name]().kernels):
            sites = list(walk(lower(kernel).body))
            dropped = {m.site for m in mutants_of(n, lower(kernel), ("drop",))}
            assert dropped == {i for i, s in enumerate(sites) if isinstance(s, Do)}
