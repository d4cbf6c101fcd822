"""Products of every family: definition == simulator == text on the host; accesses are what is predicted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.gemm import gemm_problem, mma_of
from layoutalg.kernels.gemm.family import definition
from layoutalg.kernels.gemm.launches import called_launches, launches, shared_launches
from layoutalg.kernels.gemm.problem import operand_view
from layoutalg.kernels.gemm.tiles import SimtConfig
from layoutalg.kernels.ladder.gemm import multiplies
from layoutalg.kernels.ladder.steps import SIMT_LADDER, SM75_LADDER, SM80_LADDER
from tests.kernels.gemm import cases
from tests.kernels.gemm.drawn import KINDS, SM90_OF, arch_of, drawn
from tests.sweeps import each, first

PREDICTED = [
    kind for kind in KINDS if kind.startswith(("simt", "sm80", "sm75", "gemv")) and "turn" not in kind
]
"""Kinds whose accesses are predicted."""


def disagreement(kind: str, seed: int) -> str:
    """What is wrong with a drawn product, by its own kernels or those that serve others; "" for nothing."""
    (p, c, _), rng = (found := drawn(kind, seed)), random.Random(seed)
    of: Any = rng.choice((launches, shared_launches, called_launches))
    ran = cases.launched(p, c, of, blocks=rng.randint(1, 12), arch=arch_of(kind))
    given = cases.arguments(p, seed, rng.choice(("integers", "normal", "not numbers"))) | found.words
    group = rng.choice(("warp", "block"))
    seen = cases.wrong(p, ran, given, group=group, seed=seed, traffic=kind in PREDICTED and of is launches)
    return seen and f"{kind} {seed}: {p} with {c} by {of.__name__}: {seen}"


@pytest.mark.deep(only=("sm80 tiles-7", "sm80 f64-1", "gemv-7"))
@pytest.mark.parametrize("seed", first(8, range(60)))
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.startswith(("sm90 tiles", "group tiles"))]
)
def test_what_is_drawn_is_the_definition(kind: str, seed: int) -> None:
    assert not disagreement(kind, seed)


@pytest.mark.deep(but=("0-sm90 tiles", "30-sm90 tiles", "60-sm90 tiles", "40-group tiles"))
@pytest.mark.parametrize("kind", ["sm90 tiles", "group tiles"])
@pytest.mark.parametrize("number", range(len(SM90_OF)))
def test_every_tile_of_wgmma_is_the_definition(number: int, kind: str) -> None:
    assert not disagreement(kind, number)


STEPS = {
    f"{family} {name}": (gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, **options), c)
    for family, ladder, options in (
        ("simt", SIMT_LADDER, {"dtype": "f32", "b_major": "mn"}), ("sm80", SM80_LADDER, {}),
        ("sm75", SM75_LADDER, {"accumulator": "f16", "b_major": "mn", "reads_c": True}),
    )
    for name, c in ladder.items()
}  # fmt: skip


@pytest.mark.deep(but=("simt v1", "simt v5", "simt v8", "simt warp tiles", "simt cp.async"))
@pytest.mark.parametrize("name", STEPS)
def test_every_step_of_a_ladder_is_the_definition(name: str) -> None:
    """And multiplies as often as its tiles say."""
    p, c = STEPS[name]
    ran = cases.launched(p, c, arch="sm_75" if name.startswith("sm75") else "sm_90")
    assert not cases.wrong(p, ran, cases.arguments(p), group="block", traffic=True)
    (run,) = simulate_sequence(ran, cases.arguments(p), trace=False)
    if isinstance(c, SimtConfig):
        made = sum(sum(counts) for op, counts in run.executed.items() if op.startswith("fma"))
        assert c.thread_m * c.thread_n * made == multiplies(p, c)
    else:
        assert sum(run.executed[mma_of(p, c).name]) == multiplies(p, c)


@pytest.mark.deep
@each("kind", [kind for kind in PREDICTED if kind != "gemv"])
@each("seed", range(4))
def test_the_text_on_the_host_is_the_definition(kind: str, seed: int) -> None:
    p, c, _ = drawn(kind, seed)
    one, args = cases.launched(p, c, arch=arch_of(kind)), cases.arguments(p)
    if len(one.kernels) > 1 or p.batch or p.activation in ("gelu", "silu"):
        return  # sums of parts have no buffer here
    kept = args | dict(one.scalars)
    value, allowed = definition(p, args)
    found = operand_view(p, "d", cases.host_run(one.kernels[0], kept), (p.m, p.n), (p.ldd, 1))
    assert np.all(np.abs(cases.unpacked(np.ascontiguousarray(found), p.result.name) - value) <= allowed)


@each("kind", ["simt", "sm80", "sm90"])
def test_lowering_changes_nothing(kind: str) -> None:
    p, c, _ = drawn(kind, 5)
    assert not cases.wrong(p, launches(p, c), cases.arguments(p, seed=1))


@pytest.mark.deep
@each("kind", ["gemv", "sm80 in turn", "sm90 streamk"])
@each("seed", range(2))
def test_equal_calls_give_equal_bits(kind: str, seed: int) -> None:
    """Whatever the order of warps and blocks: of numbers whose sums depend on the order of additions."""
    p, c, _ = drawn(kind, seed)
    ran, found = cases.launched(p, c, blocks=5), set()
    for order in range(3):
        given = cases.arguments(p, 7, "normal")
        simulate_sequence(ran, given, group="warp", seed=order, trace=False)
        found.add(given["d"].tobytes())
    assert len(found) == 1
