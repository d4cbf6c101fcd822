"""What atoms do: D = A B + C term by term, and copies as the PTX manual describes them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, CopyAtom, MMAAtom, collect, hold, run_copy, run_mma
from layoutalg.atoms.effect import multiply
from layoutalg.errors import MismatchError, ShapeError
from layoutalg.layout import Layout
from tests.sweeps import each

WARP_ATOMS = [name for name in MMA_ATOMS if not re.match(r"SM90_(SPARSE_)?64x", name)]
WGMMA_SAMPLE = [name for name in MMA_ATOMS if re.match(r"SM90_(64x(8|24)|SPARSE_64x8)x", name)]
WGMMA_SAMPLE += ["SM90_64x256x16_F32BF16BF16_SS", "SM90_64x96x8_F32TF32TF32_RS_TN"]


def small_integers(rng: np.random.Generator, atom: MMAAtom, operand: str) -> Any:
    """A matrix whose products and sums every type holds exactly."""
    element = atom.dtype(operand)  # type: ignore[arg-type]
    shape = atom.extents(operand)  # type: ignore[arg-type]
    low, high = (0, 2) if element.bits == 1 else (0, 4) if element.name.startswith("u") else (-2, 3)
    matrix = rng.integers(low, high, shape)
    if element.name == "c128":
        return matrix + 1j * rng.integers(low, high, shape)
    if operand == "A" and atom.sparsity == 2:
        matrix[:, np.arange(shape[1]) % 4 >= 2] = 0
    return matrix


@each("name", WARP_ATOMS + WGMMA_SAMPLE, sample=55)
def test_a_simulated_mma_is_a_b_plus_c(name: str) -> None:
    atom = MMA_ATOMS[name]
    rng = np.random.default_rng(len(name))
    a, b, c = (small_integers(rng, atom, operand) for operand in "ABC")
    d = run_mma(atom, hold(atom.a_tv, a), hold(atom.b_tv, b), hold(atom.c_tv, c))
    assert d.shape == (atom.threads, atom.values("C")) and d.dtype == np.dtype(atom.dtypes.d.numpy_name)
    m, n, _ = atom.shape_mnk
    wanted = [[c[i, j] for j in range(n)] for i in range(m)]
    for i in range(m) if m <= 16 else (0, m - 1):  # the definition, term by term
        for j in range(n):
            for x, y in zip(a[i], b[j], strict=True):
                wanted[i][j] += x ^ y if atom.arithmetic == "xor.popc" else x * y
        assert collect(atom.c_tv, (m, n), d)[i].tolist() == wanted[i]


def test_integer_sums_wrap_or_stop() -> None:
    four, top = np.full((1, 4), 127), np.array([[2**31 - 1]])
    wrapping = MMA_ATOMS["SM61_DP4A"]
    assert run_mma(wrapping, four, four, top)[0, 0] == 2**31 - 1 + 4 * 127 * 127 - 2**32
    stopping = dataclasses.replace(wrapping, arithmetic="saturate")
    assert run_mma(stopping, four, four, top)[0, 0] == 2**31 - 1
    assert run_mma(stopping, -four, four, -top)[0, 0] == -(2**31)


def test_infinity_and_nan_pass() -> None:
    atom = MMA_ATOMS["SM80_16x8x8_F32TF32TF32F32_TN"]
    a, b, c = np.ones((16, 8)), np.ones((8, 8)), np.zeros((16, 8))
    a[3, 2], a[5, 5] = np.inf, np.nan
    held = (hold(tv, x) for tv, x in zip((atom.a_tv, atom.b_tv, atom.c_tv), (a, b, c), strict=True))
    d = collect(atom.c_tv, (16, 8), run_mma(atom, *held))
    assert np.isinf(d[3]).all() and np.isnan(d[5]).all() and (d[[0, 15]] == 8).all()
    half = MMA_ATOMS["SM80_16x8x8_F16F16F16F16_TN"]
    assert np.isinf(multiply(half, np.full((16, 8), 256.0), np.full((8, 8), 256.0), c)).all()


def test_places_that_disagree_are_refused() -> None:
    atom = MMA_ATOMS["SM90_64x8x16_F32F16F16_SS"]
    b = hold(atom.b_tv, np.arange(128.0).reshape(8, 16))
    b[7, 3] = -1
    with pytest.raises(MismatchError, match="value 3 of thread 7 is -1") as caught:
        collect(atom.b_tv, (8, 16), b)
    assert caught.value.index == (7, 3)
    with pytest.raises(ShapeError, match="given are"):
        collect(atom.c_tv, (64, 8), b)
    with pytest.raises(ShapeError, match="reaches index 511"):
        hold(atom.c_tv, np.zeros((64, 4)))


# --- copies ----------------------------------------------------------------------------------------------


@each("name", [n for n in COPY_ATOMS if re.search("LDSM|STSM", n)])
def test_matrices_move_as_the_manual_says(name: str) -> None:
    atom = COPY_ATOMS[name]
    matrices, transposed = int(re.search(r"x(\d)_", name)[1]), name.endswith("_T")  # type: ignore[index]
    matrices //= 2 if transposed else 1
    tile = np.arange(64 * matrices).reshape(matrices, 8, 8)
    rows = np.array([tile.reshape(-1, 8)[lane % (8 * matrices)] for lane in range(32)])
    registers = np.array(
        [
            [tile[i, r, c] for i in range(matrices) for v in (0, 1) for r, c in [_cell(lane, v, transposed)]]
            for lane in range(32)
        ]
    )
    if "LDSM" in name:
        assert (run_copy(atom, rows) == registers).all()
    else:
        assert (run_copy(atom, registers) == rows).all()


def _cell(lane: int, value: int, transposed: bool) -> tuple[int, int]:
    """Row and column of a lane's half register of an 8 x 8 matrix."""
    row, column = lane // 4, 2 * (lane % 4) + value
    return (column, row) if transposed else (row, column)


def test_movmatrix_transposes() -> None:
    """CuTe's traits of it state the identity."""
    atom = COPY_ATOMS["SM75_U32x1_MOVM_T"]
    held = np.array([[8 * r + c for v in (0, 1) for r, c in [_cell(lane, v, False)]] for lane in range(32)])
    turned = np.array([[8 * r + c for v in (0, 1) for r, c in [_cell(lane, v, True)]] for lane in range(32)])
    assert (run_copy(atom, held) == turned).all() and atom.src_tv == Layout((32, 32), (32, 1))


@pytest.mark.parametrize("distance", [1, 4])
def test_shuffles_transpose_pairs(distance: int) -> None:
    atom = COPY_ATOMS[f"SM50_Shuffle_U32_2x2Trans_XOR{distance}"]
    words = np.arange(64).reshape(32, 2)
    moved = run_copy(atom, words)
    for lane in range(32):
        if not lane & distance:
            pair = words[[lane, lane | distance]]
            assert (moved[[lane, lane | distance]] == pair.T).all()


def test_vectors_stay_where_they_are() -> None:
    for name, atom in COPY_ATOMS.items():
        if atom.threads == 1:
            bits = np.arange(int(re.search(r"(\d+)(_t>)?$", name)[1])).reshape(1, -1)  # type: ignore[index]
            assert (run_copy(atom, bits) == bits).all()
            assert isinstance(atom, CopyAtom)
    with pytest.raises(ShapeError, match="given are elements of shape"):
        run_copy(COPY_ATOMS["ld.shared.b32"], np.zeros((1, 3)))
