"""mma.m8n8k4 of Volta: four quad pairs of a warp multiply at once, in each order of the operands."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg import find_mma_atom, make_tiled_mma
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.errors import UnknownNameError
from tests.sweeps import each

M, N, K = 32, 16, 16
ATOMS = [
    f"SM70_8x8x4_{sums}_{order}"
    for sums in ("F32F16F16F32", "F16F16F16F16")
    for order in ("TN", "NT", "NN", "TT")
]


def product(atom: str) -> cg.Program:
    """D = A B of one warp: 16 x 16 x 4 by each instruction, fragments straight from global memory."""
    mma = make_tiled_mma(atom, (2, 2, 1), (M, N, 4))
    k = cg.Kernel("volta", threads=32)
    a = k.tensor("a", "f16", (M, K), (K, 1) if atom[-2] == "T" else (1, M))
    b = k.tensor("b", "f16", (N, K), (K, 1) if atom[-1] == "N" else (1, N))
    d = k.tensor("d", mma.atom.dtypes.d, (M, N), (N, 1), writable=True)
    thread = k.get_slice(mma)
    acc = thread.fragment_C("acc", (M, N))
    k.clear(acc)
    of_a = thread.partition_A(cg.local_tile(a, (M, 4), (0, None)))
    of_b = thread.partition_B(cg.local_tile(b, (N, 4), (0, None)))
    with k.Unroll("step", K // 4) as step:
        k.mma(mma, acc, k.load(of_a[None, None, 0, step]), k.load(of_b[None, None, 0, step]))
    k.store(acc, thread.partition_C(d))
    return k.build()


@each("atom", ATOMS)
def test_a_product_on_quad_pairs_is_right(atom: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (M, K)).astype("f2"), rng.integers(-4, 5, (N, K)).astype("f2")
    d = np.zeros((M, N), "f4" if "_F32" in atom else "f2")
    given = {"a": a if atom[-2] == "T" else np.ascontiguousarray(a.T), "d": d}
    given["b"] = b if atom[-1] == "N" else np.ascontiguousarray(b.T)
    kernel = product(atom)
    cg.simulate(kernel, given)
    assert (d == a.astype("f4") @ b.astype("f4").T).all()
    assert find_mma_atom(atom).ptx in cg.to_cuda(kernel)


def test_four_quad_pairs_are_a_warp() -> None:
    mma = make_tiled_mma(ATOMS[0], (2, 2, 1))
    assert (mma.threads, mma.tile_shape) == (32, (16, 16, 4))
    rows = {lane: mma.get_layoutA_TV()(lane, 0) for lane in range(32)}
    assert [rows[lane] for lane in (0, 3, 16, 19)] == [0, 3, 4, 7]  # the first quad pair
    assert [rows[lane] for lane in (4, 7, 20, 23)] == [8, 11, 12, 15]  # the one below it


def test_the_text_compiles_where_the_compiler_has_the_target() -> None:
    kernel = product(ATOMS[0])
    assert compile_cubin(cg.to_cuda(kernel), kernel.name, "sm_75").spill_bytes == 0
    with pytest.raises(UnknownNameError, match="NVRTC 13 has none below sm_75: simulate the kernel"):
        cg.compile(kernel, arch="sm_70")
