"""Atoms against CuTe's own text, against the PTX manual's formulas, and against A B + C."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.arch import ARCHS, COPY_ATOMS, INSTRUCTIONS, MMA_ATOMS, find_copy_atom, find_mma_atom
from layoutalg.arch.wgmma import WGMMA_TYPES
from layoutalg.atom import CopyAtom, MMAAtom, check_copy_atom, check_mma_atom
from layoutalg.atom_effect import collect, hold, multiply, places, run_copy, run_mma
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    MismatchError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import Layout
from tests.ptx_fragments import FRAGMENTS, quad_pair, wgmma_a, wgmma_sums

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "cute_cpp.jsonl").open(encoding="utf-8")
]
FIELDS = {
    "ThrID": "thr_layout", "Shape_MNK": "shape_mnk", "ALayout": "a_tv", "BLayout": "b_tv",
    "CLayout": "c_tv", "SrcLayout": "src_tv", "DstLayout": "dst_tv", "RefLayout": "ref_tv",
}  # fmt: skip
WARP_ATOMS = [name for name in MMA_ATOMS if not re.match(r"SM90_(SPARSE_)?64x", name)]
WGMMA_SAMPLE = [name for name in MMA_ATOMS if re.match(r"SM90_(64x(8|24)|SPARSE_64x8)x", name)]
WGMMA_SAMPLE += ["SM90_64x256x16_F32BF16BF16_SS", "SM90_64x96x8_F32TF32TF32_RS_TN"]


def rows(op: str) -> list[Any]:
    found = [row for row in ROWS if row["op"] == op]
    assert found
    return [pytest.param(row, id=str(row["id"])) for row in found]


# --- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("mma_traits") + rows("copy_traits"))
def test_what_cute_prints(row: dict[str, Any]) -> None:
    name, what = row["params"]["atom"], row["params"]["what"]
    atom: object = find_mma_atom(name) if row["op"] == "mma_traits" else find_copy_atom(name)
    assert str(getattr(atom, FIELDS[what])).replace(" ", "") == row["out"].replace("_", "")


def test_the_tables_are_whole_and_read_only() -> None:
    generations = Counter(re.match(r"SM\d+|Universal", name)[0] for name in WARP_ATOMS)  # type: ignore[index]
    assert generations == {"Universal": 2, "SM61": 2, "SM70": 8, "SM75": 3, "SM80": 65, "SM89": 8, "SM90": 6}
    families = Counter(name.split("_", 2)[2] for name in MMA_ATOMS if name.startswith("SM90_64x"))
    assert families["F32F16F16_SS"] == families["F32TF32TF32_RS_TN"] == 32
    assert families["S32U8S8_RS_TN_SATURATE"] == 18 and len(families) == 40
    sparse = [name for name in MMA_ATOMS if name.startswith("SM90_SPARSE_")]
    assert len(sparse) == sum(families.values())
    with pytest.raises(TypeError):
        MMA_ATOMS["x"] = MMA_ATOMS["SM61_DP4A"]  # type: ignore[index]
    for name in (*WARP_ATOMS, *WGMMA_SAMPLE):
        assert MMA_ATOMS[name].name == name == str(MMA_ATOMS[name])
        assert MMA_ATOMS[name] is MMA_ATOMS[name]
    assert all(name == atom.name == str(atom) for name, atom in COPY_ATOMS.items())


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("SM90::MMA_16x8x4_F64F64F64F64_TN", "SM90_16x8x4_F64F64F64F64_TN"),
        ("SM90_64x96x16_F32F16F16_SS<GMMA::Major::MN, GMMA::Major::MN>", "SM90_64x96x16_F32F16F16_SS"),
        ("SM90::GMMA::MMA_64x8x8_F32TF32TF32_RS_TN<>", "SM90_64x8x8_F32TF32TF32_RS_TN"),
        (
            "SM90::GMMA::SPARSE::GMMA_64x8x64_S32U8S8_RS_TN<>",
            "SM90_SPARSE_64x8x64_S32U8S8_RS_TN",
        ),
        ("cute::SM61_DP4A", "SM61_DP4A"),
        ("UniversalFMA<float>", "UniversalFMA<float,float,float,float>"),
    ],
)
def test_spellings(spelled: str, name: str) -> None:
    assert find_mma_atom(spelled) is MMA_ATOMS[name]
    assert find_mma_atom(MMA_ATOMS[name]) is MMA_ATOMS[name]


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_mma_atom("SM80_16x8x16_F32F16F16F23_TN")
    assert str(caught.value).startswith(
        "unknown MMA atom 'SM80_16x8x16_F32F16F16F23_TN': did you mean 'SM80_16x8x16_F32F16F16F32_TN'? "
    )
    assert str(caught.value).endswith(f" and {len(MMA_ATOMS) - 8} more")
    with pytest.raises(UnknownNameError, match="did you mean 'SM75_U32x4_LDSM_N'"):
        find_copy_atom("SM75_U32x4_LDMS_N")
    with pytest.raises(UnsupportedError, match="an operand in registers is K-major"):
        find_mma_atom("SM90::GMMA::MMA_64x8x16_F32F16F16_RS<GMMA::Major::MN, GMMA::Major::K>")
    for find in (find_mma_atom, find_copy_atom):
        with pytest.raises(ArgumentTypeError, match="a name or an atom is needed"):
            find(8)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown operand 'D'"):
        MMA_ATOMS["SM61_DP4A"].tv("D")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown side of a copy"):
        COPY_ATOMS["SM75_U32x1_MOVM_T"].value_layout("to", "f16")  # type: ignore[arg-type]
    with pytest.raises(DivisibilityError, match="splits them between threads"):
        COPY_ATOMS["SM75_U16x2_LDSM_T"].value_layout("dst", "f32")


# --- the data validates itself ---------------------------------------------------------------------------


def test_every_atom_is_a_matrix_instruction() -> None:
    for atom in MMA_ATOMS.values():
        check_mma_atom(atom)
        assert atom.source.startswith("PTX ISA 9.0, 9.7.")
        assert atom.arch in {*ARCHS, "sm_61"}


def test_every_copy_moves_what_it_reads() -> None:
    for atom in COPY_ATOMS.values():
        check_copy_atom(atom)
        assert atom.source.startswith("PTX ISA 9.0, 9.7.")
        assert {atom.src_op, atom.dst_op} <= {*INSTRUCTIONS, ""}


def test_wrong_data_is_caught() -> None:
    atom = MMA_ATOMS["SM80_16x8x32_S32S4S4S32_TN"]
    short = dataclasses.replace(atom, b_tv=Layout(((4, 8), (8,)), ((32, 1), (8,))))
    with pytest.raises(MismatchError, match="does not cover 8 x 32 elements"):
        check_mma_atom(short)
    with pytest.raises(MismatchError, match="gives an element to two places"):
        check_mma_atom(dataclasses.replace(atom, c_tv=Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 0)))))
    with pytest.raises(MismatchError, match="with 16 threads"):
        check_mma_atom(dataclasses.replace(atom, thr_layout=Layout(16)))
    copy = COPY_ATOMS["SM75_U32x4_LDSM_N"]
    with pytest.raises(MismatchError, match="does not cover the 4096 bits"):
        check_copy_atom(dataclasses.replace(copy, dst_tv=Layout((32, 128), (32, 1))))
    with pytest.raises(MismatchError, match="neither its source nor its destination"):
        check_copy_atom(dataclasses.replace(copy, ref_tv=Layout((32, 128), (1, 32))))


# --- the manual ------------------------------------------------------------------------------------------


def lane_values(tv: Layout, lanes: list[int]) -> Iterator[tuple[int, int, int]]:
    """(lane, value, index) of a fragment whose threads are these lanes."""
    table = places(tv)
    for thread, lane in enumerate(lanes):
        for value in range(table.shape[1]):
            yield lane, value, int(table[thread, value])


@pytest.mark.parametrize("name", [n for n in WARP_ATOMS if not n.startswith(("SM61", "Universal"))])
def test_fragments_are_the_manuals(name: str) -> None:
    atom = MMA_ATOMS[name]
    (m, n, k), bits = atom.shape_mnk, min(atom.dtypes.a.bits, 64)
    lanes = [atom.thr_layout(i) for i in range(atom.threads)]
    if name.startswith("SM70"):
        formulas = quad_pair(name[-2:], atom.dtypes.c.name)
        assert lanes == [0, 1, 2, 3, 16, 17, 18, 19]
    else:
        formulas = FRAGMENTS[f"m{m}n{n}k{k}", bits]
        assert lanes == list(range(32))
    for operand, formula in zip("ABC", formulas, strict=True):
        rows, columns = atom.extents(operand)  # type: ignore[arg-type]
        for lane, value, index in lane_values(atom.tv(operand), lanes):  # type: ignore[arg-type]
            group = lane // 16 if name.startswith("SM70") else lane // 4
            row, column = formula(group, lane % 4, value)
            if operand == "B":
                row, column = column, row
            assert row < rows and column < columns and index == row + rows * column, (operand, lane, value)


@pytest.mark.parametrize("name", WGMMA_SAMPLE)
def test_fragments_of_wgmma_are_the_manuals(name: str) -> None:
    atom = MMA_ATOMS[name]
    for thread, value, index in lane_values(atom.c_tv, list(range(128))):
        warp, lane = divmod(thread, 32)
        row, column = wgmma_sums(warp, lane // 4, lane % 4, value)
        assert index == row + 64 * column
    if atom.a_in == "registers" and atom.sparsity == 1:
        element = wgmma_a(atom.dtypes.a.bits)
        for thread, value, index in lane_values(atom.a_tv, list(range(128))):
            warp, lane = divmod(thread, 32)
            row, column = element(warp, lane // 4, lane % 4, value)
            assert index == row + 64 * column


def test_registers() -> None:
    def registers(name: str) -> tuple[int, ...]:
        atom = MMA_ATOMS[name]
        return tuple(atom.registers(operand) for operand in ("A", "B", "C"))

    assert registers("SM80_16x8x16_F32F16F16F32_TN") == (4, 2, 4)
    assert registers("SM80_16x8x16_F16F16F16F16_TN") == (4, 2, 2)
    assert registers("SM80_16x8x256_S32U1U1S32_TN_ANDPOPC") == (4, 2, 4)
    assert registers("SM90_16x8x16_F64F64F64F64_TN") == (16, 8, 8)
    assert registers("SM80_8x8x4_C64C64C64C64_TN") == (4, 4, 8)
    assert registers("SM80_8x8x4_GC64C64C64GC64_TN") == (4, 4, 12)
    assert registers("SM70_8x8x4_F32F16F16F32_NT") == (2, 2, 8)
    assert registers("SM90_64x256x16_F32BF16BF16_SS") == (0, 0, 128)
    assert registers("SM90_64x64x32_F16E4M3E5M2_RS_TN") == (4, 0, 16)
    assert registers("SM90_SPARSE_64x64x32_F32F16F16_RS") == (4, 0, 32)


def test_wgmma_names_follow_the_table_of_types() -> None:
    for name in MMA_ATOMS:
        if re.match(r"SM90_(SPARSE_)?64x", name):
            atom = MMA_ATOMS[name]
            kind = WGMMA_TYPES[atom.dtypes.a.name]
            assert atom.shape_mnk[1] in kind.n_sizes and atom.shape_mnk[2] == kind.k * atom.sparsity
            assert atom.dtypes.b.name in kind.b_types and atom.dtypes.d.name in kind.accumulators


# --- A B + C ---------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", WARP_ATOMS + WGMMA_SAMPLE)
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


@pytest.mark.parametrize("name", [n for n in COPY_ATOMS if re.search("LDSM|STSM", n)])
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
