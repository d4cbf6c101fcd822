"""What is claimed of a tile's layout: counted as the simulator counts, and not to be beaten."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.analysis import wavefronts
from layoutalg.codegen.program import lower
from layoutalg.codegen.sim import simulate
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.move.cases import CASES, random_cases
from layoutalg.kernels.move.certificate import _accesses, certify
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.synthesis import check_certificate
from tests.permutations import random_buffers
from tests.sweeps import each

PROBLEMS = [(case, dtype) for case in (*CASES, *random_cases()[:9]) for dtype in ("u8", "f16", "f32")]


@pytest.mark.parametrize(("shape", "dtype"), [((64, 64), "f32"), ((64, 48), "f16"), ((33, 47), "u8")])
def test_claims_are_what_a_block_costs(shape: tuple[int, int], dtype: str) -> None:
    """One block moves everything."""
    p = permute_problem(shape, (1, 0), dtype)
    x = normalise(p)
    c = PermuteConfig("staged", tuple(m.extent for m in x.modes), 128, 16 // x.element_bytes, 4)
    src, dst = random_buffers(p, 0)
    run = simulate(lower(build(x, c)), {"src": src, "dst": dst})
    for claim in certify(x, c).claims:
        _, served, ideal = run.trace.total(claim.op)
        assert (claim.wavefronts, claim.ideal) == (served, ideal)


@each(("case", "dtype"), PROBLEMS, ids=str, sample=4)
def test_every_tile_of_the_bench_has_a_claim_that_holds(
    case: tuple[tuple[int, ...], tuple[int, ...]], dtype: str
) -> None:
    x = normalise(permute_problem(*case, dtype))
    c = configs(x)[0]
    if c.way == "direct":
        with pytest.raises(UnsupportedError, match="a direct move has no tile"):
            certify(x, c)
        return
    found = certify(x, c)
    for claim in found.claims:
        assert claim.ideal <= claim.least <= claim.wavefronts
    if found.synthesis is not None:
        check_certificate(found.synthesis)
        free = all(claim.wavefronts == claim.ideal for claim in found.claims)
        assert found.synthesis.certificate.conflict_free == free
        assert free or all(claim.is_least for claim in found.claims)


def test_no_placement_of_whole_chunks_takes_less_than_the_least() -> None:
    """Random placements of the chunks of a tile, its reads counted by the definition."""
    x = normalise(permute_problem((33554432, 2), (1, 0), "u8"))
    c = configs(x)[0]
    read = certify(x, c).claims[1]
    assert read.least > read.ideal
    _, (op, places, _) = _accesses(Stage(x, c))
    warps = places.reshape(-1, 32)[:64]
    rng = np.random.default_rng(0)
    chosen = certify(x, c).claims[1].wavefronts / (places.size // 32) * len(warps)
    for _ in range(10):
        chunks = rng.permutation(int(places.max()) // 16 + 1)
        total = sum(wavefronts(op, (chunks[w // 16] * 16 + w % 16).tolist()) for w in warps)
        assert total >= chosen
