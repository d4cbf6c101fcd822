"""The tensor-core GEMM: what is refused, and what a kernel serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from layoutalg.codegen.expr import Var
from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.program import Kernel, check_argument, lower, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.gemm import Sm75Config, gemm_problem
from layoutalg.kernels.gemm.choice.heuristic import SM75, SM80
from layoutalg.kernels.gemm.choice.tables import SM75_TILES
from layoutalg.kernels.gemm.programs.sm80 import build
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.ladder.steps import SM75_LADDER, Sm80Step
from tests.kernels.gemm.cases import arguments, expected, taken
from tests.sweeps import each

SMALL = Sm80Step(64, 64, 32, 2, 2, 3, panel=2)
EDGES = replace(SMALL, edges=True)
REGISTERS = replace(SMALL, via="registers")
SINGLE = replace(REGISTERS, stages=2, edges=True, a_bytes=2, b_bytes=2, result_vec=1)
DOUBLE = replace(SMALL, tile_k=16, mma_k=4, result_vec=2)
NARROW = replace(SMALL, tile_k=64, result_vec=4)


@each("step", SM75_LADDER)
def test_steps_of_turing_are_printed_as_they_are_written_or_lowered(step: str) -> None:
    """The first four as they are written."""
    c = SM75_LADDER[step]
    kernel = build(gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, accumulator="f16", b_major="mn"), c)
    assert (printed(kernel, "sm_75") == kernel) == (not c.lowered) == (int(step[0]) < 5)


def test_the_turing_ladder_is_refused_on_volta_by_name() -> None:
    p = gemm_problem(256, 256, 64, accumulator="f16")
    with pytest.raises(UnsupportedError, match=r"needs sm_75; sm_70 does not have it"):
        check_config(p, Sm75Config(256, 256, 32, 4, 2), "sm_70")
    with pytest.raises(UnsupportedError, match=r"needs sm_75; sm_70 does not have it: its mma.m8n8k4"):
        SM75.configs(p, "sm_70")
    with pytest.raises(UnsupportedError, match=r"mma.sync of bf16 needs sm_80; sm_75 does not have it"):
        check_config(gemm_problem(256, 256, 64, "bf16"), Sm75Config(256, 256, 32, 4, 2), "sm_75")
    with pytest.raises(UnsupportedError, match=r"needs sm_80; sm_75 does not have it: take gemm-sm75"):
        SM80.configs(p, "sm_75")


@pytest.mark.parametrize("sums", ["f16", "f32"])
def test_every_tile_of_turing_fits_it_and_is_offered(sums: str) -> None:
    """256 x 256 holds f16 sums alone; the others hold both."""
    p = gemm_problem(4096, 4096, 4096, accumulator=sums)
    found, refused = SM75.tried(p, "sm_75")
    tiles = {(c.tile_m, c.tile_n) for c in found}
    assert len(tiles) == len(SM75_TILES) - (sums == "f32") and len(refused) == (sums == "f32")
    assert all(c.via == "registers" and c.mma_k == 8 for c in found)


def test_a_kernel_serves_smaller_problems() -> None:
    """Down to one tile; with fewer rows than a tile's, one for up to so many."""
    for kernel, sizes in (
        (build(gemm_problem(512, 512, 512), EDGES), ((64, 64, 8), (127, 64, 40), (65, 72, 8))),
        (build(gemm_problem(63, 512, 512), EDGES), ((1, 64, 8), (63, 72, 40))),
        (build(gemm_problem(63, 56, 512), EDGES), ((1, 8, 8), (62, 56, 72))),
    ):
        lowered = lower(kernel)
        for m, n, k in sizes:
            x = arguments(p := gemm_problem(m, n, k))
            assert run(lowered, x).tobytes() == expected(p, x).tobytes()


def test_a_kernel_says_how_many_rows_it_needs() -> None:
    m, n = [v for v in build(gemm_problem(512, 56, 512), EDGES).params if isinstance(v, Var)][:2]
    check_argument(m, 64)
    check_argument(n, 8)
    with pytest.raises(ShapeError, match="m = 63: this kernel was built for 64 <= m <= 512"):
        check_argument(m, 63)


def test_one_step_leaves_nothing_to_load_ahead() -> None:
    with pytest.raises(UnsupportedError, match="take tile_k = 32"):
        build(gemm_problem(128, 64, 96), replace(SMALL, tile_k=16))


def test_a_configuration_compiles_without_spills() -> None:
    kernel = build(gemm_problem(4096, 4096, 4096, reads_c=True), Sm80Step(128, 128, 32, 2, 2, 4, edges=True))
    assert compile_cubin(to_cuda(kernel, "sm_80"), kernel.name, "sm_80").spill_bytes == 0


def run(kernel: Kernel, args: dict[str, Any], *, group: Literal["block", "warp"] = "block") -> Any:
    """The bits of D behind a kernel that is simulated as it stands."""
    simulate(kernel, fresh := taken(kernel, args), group=group, trace=False)
    return fresh["d"]
