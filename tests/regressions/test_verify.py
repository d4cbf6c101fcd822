"""What `layoutalg verify` did not see: the printed program, wrong maxima, divided warps, a lost wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import layoutalg
from layoutalg.codegen.expr import Const
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import LDMATRIX, MMA_SYNC, Instr, fill
from layoutalg.codegen.instr.mma import find_mma
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do, Global, Kernel, MemRef, RegRef, Stmt, lower, walk
from layoutalg.codegen.program import lowering as printed_module
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, SimulationError
from layoutalg.kernels import FAMILIES, VerifyReport, verify
from layoutalg.kernels.calls.operation import printed_launches
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.layout import Layout
from tests.draws.sequences import TENSOR_OPS, launches_of, problem_of, verified
from tests.mutants import planting
from tests.mutants.cases import CASES


def _from_the_start(s: Stmt) -> tuple[Stmt, ...]:
    """Loads of global memory all read the first element."""
    if not isinstance(s, Do):
        return (s,)
    args = list(s.args)
    for n, (operand, arg) in enumerate(s.pairs):
        if operand.role == "read" and isinstance(arg, MemRef) and isinstance(arg.buffer, Global):
            args[n] = MemRef(arg.buffer, Const(0))
    return (Do(s.instr, tuple(args)),)


def _wrongly_lowered(kernel: Kernel) -> Kernel:
    return planting.rewrite(lower(kernel), _from_the_start)


def _product(name: str, *extents: int) -> Callable[[], VerifyReport]:
    family = FAMILIES[name]
    return lambda: verify(family, family.problem(*extents, reads_c=True, bias=True))


def _in_parts() -> VerifyReport:
    config = Sm80Config(64, 64, 32, 2, 2, 2, splits=2, result_vec=4)
    return verify(FAMILIES["gemm-sm80"], gemm_problem(64, 64, 128), config)


def _tensor(op: str) -> Callable[[], VerifyReport]:
    return lambda: verified(problem_of(op, (24, 40), (1, 0) if op == "permute" else (1,), "f16"))


def _matrix(name: str) -> Callable[[], VerifyReport]:
    return lambda: verify(FAMILIES[name], FAMILIES[name].problem(40, 48, "f32"))


VERIFIED: dict[str, Callable[[], VerifyReport]] = {
    **{name: _matrix(name) for name in ("tiled_copy", "transpose")},
    **{op: _tensor(op) for op in TENSOR_OPS},
    "gemm-sm80": _product("gemm-sm80", 24, 40, 48), "gemm-simt": _product("gemm-simt", 24, 40, 16),
    "parts of k": _in_parts,
}  # fmt: skip


@pytest.mark.deep(only=("gemm-sm80", "gemm-simt", "parts of k"))
@pytest.mark.parametrize("name", VERIFIED)
def test_verify_runs_the_program_that_is_printed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran the one before lowering, so that a wrong lowering passed."""
    assert VERIFIED[name]().passed
    monkeypatch.setattr(printed_module, "lower", _wrongly_lowered)
    try:
        report = VERIFIED[name]()
    except SimulationError:
        return
    assert not report.passed
    assert any(not c.passed for c in report.checks if c.name.startswith("result"))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: layoutalg.ops.permute(x, (1, 0), simulate=True),
        lambda x: layoutalg.ops.transpose(x, simulate=True),
        lambda x: layoutalg.ops.reduce(x, "sum", 1, simulate=True),
        lambda x: layoutalg.ops.softmax(x, 1, simulate=True),
        lambda x: layoutalg.ops.layer_norm(x, 1, simulate=True),
        lambda x: layoutalg.ops.matmul(x, x.T, simulate=True),
    ],
    ids=["permute", "transpose", "reduce", "softmax", "layer_norm", "matmul"],
)
def test_simulated_arrays_go_through_the_program_that_is_printed(
    compute: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed_launches.cache_clear()
    x = np.random.default_rng(0).standard_normal((12, 20)).astype("f4")
    right = compute(x)
    printed_launches.cache_clear()
    monkeypatch.setattr(printed_module, "lower", _wrongly_lowered)
    try:
        assert not np.array_equal(compute(x), right)
    finally:
        printed_launches.cache_clear()


@pytest.mark.parametrize("instr", [MMA_SYNC[find_mma("f16", "f32", 16)], LDMATRIX[4]], ids=str)
def test_half_a_warp_does_not_multiply_nor_load_matrices(instr: Instr) -> None:
    """`check` and the simulator let mma.sync and ldmatrix (.aligned) stand under half of a warp."""
    k = KernelBuilder("divided", threads=32)
    tile = k.shared_buffer("tile", 1, Layout(512), 512, 128)
    args: list[Any] = [k.reg(o.name, o.words) for o in instr.operands if o.role != "read"]
    for register in args:
        k.do(fill(*register.shape), register, Const(0))
    if instr is LDMATRIX[4]:
        args.append(k.at(tile, k.tid * 16))
    with k.If(k.tid < 16):
        k.do(instr, *args)
    with pytest.raises(IRError, match="of a whole warp"):
        check(k.build())
    with pytest.raises(SimulationError, match="thread 16 does not reach"):
        simulate(k.build(), {})


def test_a_dropped_grid_wait_is_refused() -> None:
    """Nothing saw it: the simulator runs one kernel after the other."""
    for op, shape, axis in (("sum", (1 << 26,), 0), ("softmax", (1, 1 << 20), 1)):
        second = launches_of(problem_of(op, shape, (axis,), "f32")).kernels[1]
        to_cuda(second)
        with pytest.raises(IRError, match="while the kernel in front works on it"):
            to_cuda(planting.without(second, "grid_wait"))


@pytest.mark.deep
@pytest.mark.parametrize("name", ["softmax rows", "softmax twice"])
def test_every_instruction_that_makes_a_maximum_matters(name: str) -> None:
    """Of N(0, 1) a softmax is right without most of them: 7 of 10 could be dropped, one at a time."""
    case = CASES[name]()
    (kernel,) = map(lower, case.kernels)
    statements = list(walk(kernel.body))
    dropped = [m for m in case.mutants() if m.kind == "drop" and _writes(statements[m.site]) & {"m", "old"}]
    assert len(dropped) >= 8
    assert [str(m) for m in dropped if not case.verdict(m)] == []


@pytest.mark.deep
def test_a_dropped_barrier_before_the_epilogue_is_seen() -> None:
    """It was seen only where the ring of tiles ended in one of its places: not at k = 64 and 160."""
    case = CASES["sm80 ring"]()
    *_, last = (m for m in case.mutants() if m.kind == "drop" and m.text == "block_sync()")
    assert case.verdict(last) == "hazard"


def _writes(s: Stmt) -> set[str]:
    """The registers that a statement writes, by name."""
    assert isinstance(s, Do)
    return {a.reg.name for o, a in s.pairs if o.role in ("out", "inout") and isinstance(a, RegRef)}


@pytest.mark.deep(only=("gemm-simt-k", "gemm-simt-mn"))
@pytest.mark.parametrize("major", ["k", "mn"])
@pytest.mark.parametrize("name", ["gemm-simt", "gemm-sm80"])
def test_rows_that_no_vector_divides_are_predicted_as_they_are_traced(name: str, major: str) -> None:
    """The prediction of a product whose lda is odd was refused for the vectors that it does not have."""
    family = FAMILIES[name]
    report = verify(family, family.problem(64, 64, 64, lda=65, a_major=major))
    assert report.passed and any(c.name.startswith("accesses, ") for c in report.checks)
