"""Batches by wgmma and TMA: tensor maps with modes of the batch, and none for what all products share."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen import compile as compile_program
from layoutalg.codegen import to_cuda
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels.elements import numbers_of
from layoutalg.kernels.gemm.choice.heuristic import SM90, expected_family
from layoutalg.kernels.gemm.family import definition, operands
from layoutalg.kernels.gemm.launches import called_launches, launches, shared_launches
from layoutalg.kernels.gemm.problem import BatchMode, GemmProblem, gemm_problem, operand_view
from layoutalg.kernels.gemm.programs.sm90 import build
from layoutalg.kernels.gemm.programs.streamk import block_count
from layoutalg.kernels.gemm.tiles import Sm90Config
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.ladder.sm90_steps import Sm90Step
from tests.sweeps import each

SMALL = Sm90Config(64, 64, 2, 1)
BLOCKS = 3
"""Blocks of a simulated launch: each computes tiles of several products."""


def right(p: GemmProblem, c: Any, *, of: Any = launches, seed: int = 0) -> bool:
    """Whether what a few blocks compute in the simulator is the definition, D between its rows untouched."""
    given = operands(p, "normal", seed)
    before = given["d"].copy()
    sequence = of(p, c)
    blocks = max(1, BLOCKS // getattr(c, "cluster", 1)) * getattr(c, "cluster", 1)
    few = tuple(
        (name, min(x, blocks) if name == "blocks" else x) for name, x in dict(sequence.scalars).items()
    )
    simulate_sequence(printed_sequence(replace(sequence, scalars=few)), given, trace=False, seed=seed)
    value, error = definition(p, given)
    places = places_of_results(p)
    got = numbers_of(given["d"], p.result.name)[places]
    rest = np.delete(np.arange(p.d_elems), places.ravel())
    return bool(np.all(np.abs(got - value) <= error)) and np.array_equal(given["d"][rest], before[rest])


def places_of_results(p: GemmProblem) -> Any:
    """Where the elements of all products lie in D's buffer."""
    return operand_view(p, "d", np.arange(p.d_elems), (p.m, p.n), (p.ldd, 1))


CASES: dict[str, GemmProblem] = {
    "an A and a B each": gemm_problem(
        72, 72, 72, "bf16", batch=[BatchMode(3, a=72 * 72, b=72 * 72, d=72 * 72)], b_major="mn"
    ),
    "one B for all": gemm_problem(70, 136, 40, batch=[BatchMode(5, a=70 * 40, d=70 * 136)]),
    "one A for all, C for each": gemm_problem(
        40, 72, 136, reads_c=True, batch=[BatchMode(4, b=136 * 72, c=40 * 72, d=40 * 72)]
    ),
    "crossed": gemm_problem(
        40, 72, 72, "bf16", bias="m",
        batch=[BatchMode(3, a=40 * 72, d=2 * 40 * 72), BatchMode(2, b=5184, d=2880)],
    ),
    "side by side": gemm_problem(
        66, 64, 64, "bf16", lda=4 * 64, ldb=4 * 64, ldd=4 * 64, batch=[BatchMode(4, a=64, b=64, d=64)]
    ),
    "three modes": gemm_problem(
        8, 16, 24,
        batch=[BatchMode(2, b=384, d=6 * 128), BatchMode(3, b=768, d=256), BatchMode(2, a=192, d=128)],
    ),
    "odd rows of D": gemm_problem(67, 71, 40, "bf16", batch=[BatchMode(3, a=67 * 40, b=71 * 40, d=67 * 71)]),
}  # fmt: skip


@each("name", CASES, sample=1)
def test_what_is_simulated_is_the_definition(name: str) -> None:
    p = CASES[name]
    assert right(p, SM90.fitted(p, SMALL))


@pytest.mark.deep
@each("option", [{"cluster_m": 2}, {"cluster_n": 2}, {"consumers": 2, "pingpong": True}])
def test_clusters_and_turns_of_consumers_compute_batches(option: dict[str, Any]) -> None:
    modes = BatchMode(2, a=72 * 136, d=2 * 72 * 72), BatchMode(2, b=72 * 136, d=72 * 72)
    p = gemm_problem(72, 72, 136, "bf16", batch=modes)
    assert right(p, SM90.fitted(p, replace(SMALL, **option)))


def test_kernels_for_many_compute_one() -> None:
    p = CASES["crossed"]
    for of in (shared_launches, called_launches):
        assert right(p, SM90.fitted(p, SMALL), of=of)


Extents = list[int]


def placed(
    rng: random.Random, rows: int, columns: int, batch: Extents, unit: int, *, shared: bool
) -> Extents:
    """The leading dimension and the steps of matrices whose rows lie anywhere among the batch; steps of 0 for
    what may be `shared`."""
    step, found = -(-columns // unit) * unit, {}
    for mode in rng.sample(range(-1, len(batch)), len(batch) + 1):
        if mode >= 0 and shared and rng.random() < 0.3:
            found[mode] = 0
        else:
            found[mode] = step
            step *= rows if mode < 0 else batch[mode]
    return [found[i] for i in range(-1, len(batch))]


def drawn(rng: random.Random) -> tuple[GemmProblem, Any]:
    """A small batch whose operands have their modes in any order, some broadcast."""
    while True:
        m, n, k = rng.randint(1, 90), rng.randint(1, 90), rng.randint(1, 100)
        batch = [rng.randint(2, 3) for _ in range(rng.randint(1, 3))]
        majors: Any = [rng.choice(["k", "mn"]) for _ in range(2)]
        shapes = [(x, k) if major == "k" else (k, x) for x, major in zip((m, n), majors, strict=True)]
        (lda, *a), (ldb, *b) = (placed(rng, *shape, batch, 8, shared=True) for shape in shapes)
        ldc, *c = placed(rng, m, n, batch, 1, shared=True)
        ldd, *d = placed(rng, m, n, batch, rng.choice([1, 8]), shared=False)
        p = gemm_problem(
            m, n, k, rng.choice(["f16", "bf16"]), a_major=majors[0], b_major=majors[1], lda=lda, ldb=ldb,
            ldc=ldc, ldd=ldd, batch=[BatchMode(*x) for x in zip(batch, a, b, c, d, strict=True)],
            reads_c=rng.random() < 0.3, result=rng.choice([None, "f32"]),
        )  # fmt: skip
        tile = Sm90Config(64, rng.choice([64, 128]), rng.randint(2, 3), 1, panel=rng.randint(1, 3))
        config = SM90.fitted(p, tile)
        try:
            check_config(p, config)
        except LayoutAlgError:
            continue
        return p, config


@each("seed", range(106), sample=2)
def test_random_batches_are_the_definition(seed: int) -> None:
    p, c = drawn(random.Random(20261123 + seed))
    assert right(p, c, seed=seed), (p, c)


def test_a_batch_shares_a_kernel_with_every_batch_of_its_kind() -> None:
    dense, other, shared = (
        gemm_problem(m, 256, 512, batch=[BatchMode(x, a=m * 512, b=b, d=m * 256)])
        for m, x, b in ((128, 7, 131072), (200, 9999, 262144), (128, 7, 0))
    )
    c = SM90.fitted(dense, Sm90Config(128, 128, 4))
    kernels = [called_launches(p, c).kernels for p in (dense, other, shared)]
    assert kernels[0] == kernels[1] != kernels[2] and compile_program(kernels[0][0]).spill_bytes == 0


def test_tiles_of_all_products_are_counted() -> None:
    p = gemm_problem(256, 256, 64, batch=[BatchMode(5, a=16384, b=16384, d=65536)])
    c = Sm90Config(128, 256, 4)
    sequence = launches(p, c)
    assert dict(sequence.scalars)["all_tiles"] == block_count(p, c) == 10
    large = replace(p, m=4096, n=4096, k=4096, lda=4096, ldb=4096, ldd=4096)
    assert expected_family(large)[1] == "gemm-sm90"


def test_the_main_loop_of_a_batch_counts_in_32_bits() -> None:
    """Tiles of all products and steps of k: a launch has fewer than 2^32."""
    p = gemm_problem(16384, 16384, 16384, batch=[BatchMode(6, a=1 << 28, b=1 << 28, d=1 << 28)])
    text = to_cuda(build(p, Sm90Config(128, 256, 4)))
    assert "const u32 count = before + kt" in text


def test_first_steps_of_the_ladder_compute_one_product() -> None:
    p = CASES["an A and a B each"]
    with pytest.raises(UnsupportedError, match="loop = 'threads' of a batch: take 'persistent'"):
        check_config(p, Sm90Step(64, 64, 2, 1, loop="threads"))
