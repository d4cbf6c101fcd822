"""mma.sync, ldmatrix and movmatrix: what every row of the table computes, and that its text is PTX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from layoutalg.atoms import MMA_ATOMS, collect, find_copy_atom, find_mma_atom, hold, run_copy, run_mma
from layoutalg.codegen import instr as isa
from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.layout import Layout
from tests.codegen.instr.probe import Case, ran
from tests.draws.ptx_fragments import FRAGMENTS
from tests.hostshim import run_cuda_text
from tests.sweeps import each

ROWS = each("row", isa.MMAS, ids=lambda m: m.name)
BATCHES = [isa.MMAS[i : i + 10] for i in range(0, len(isa.MMAS), 10)]
RANDOM = np.random.default_rng(5)
LOW = {"u8": 0, "u4": 0, "b1": 0}
HIGH = {"s8": 127, "u8": 255, "s4": 7, "u4": 15, "b1": 1}


def integers(element: str, shape: tuple[int, int]) -> np.ndarray:
    """Numbers small enough that every sum is exact: of integers all, of the rest 0 to 8."""
    kind = np.int64 if element in HIGH else np.float64
    return RANDOM.integers(LOW.get(element, -8), HIGH.get(element, 8) + 1, shape).astype(kind)


def matrices(row: isa.Mma) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    types = row.atom.dtypes
    a, b = integers(types.a.name, (row.rows, row.k)), integers(types.b.name, (8, row.k))
    c = RANDOM.integers(-50, 50, (row.rows, 8)).astype(np.int64 if row.accumulator == "s32" else np.float64)
    return a, b, c


def words(row: isa.Mma, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """Registers (lanes, words) of C, A and B."""
    atom = row.atom
    return [
        isa.encode(hold(tv, x), element)
        for tv, x, element in (
            (atom.c_tv, c, row.accumulator), (atom.a_tv, a, atom.dtypes.a.name),
            (atom.b_tv, b, atom.dtypes.b.name),
        )
    ]  # fmt: skip


@ROWS
def test_a_row_is_an_atom_whose_fragments_are_those_of_ptx(row: isa.Mma) -> None:
    """Element i of a lane by the formulas of the PTX manual, not by a layout."""
    atom, rows = row.atom, row.rows
    assert atom in MMA_ATOMS.values() and atom.threads == 32
    assert row.words == tuple(o.words for i in (1, 2, 0) for o in [isa.MMA_SYNC[row].operands[i]])
    assert row.cores * row.core_words == row.words[1]
    assert isa.find_mma(row.operand, row.accumulator, row.k, rows, row.arithmetic) is row
    assert isa.mma_instruction(atom) is isa.MMA_SYNC[row]
    of_a, of_b, of_c = FRAGMENTS[f"m{rows}n8k{row.k}", atom.dtype("A").bits]
    for lane in range(32):
        for i in range(atom.values("A")):
            m, k = of_a(lane // 4, lane % 4, i)
            assert atom.a_tv(lane, i) == m + rows * k
        for i in range(atom.values("B")):
            k, n = of_b(lane // 4, lane % 4, i)
            assert atom.b_tv(lane, i) == n + 8 * k
        for i in range(rows // 4):
            m, n = of_c(lane // 4, lane % 4, i)
            assert atom.c_tv(lane, i) == m + rows * n


@ROWS
def test_it_multiplies_exactly(row: isa.Mma) -> None:
    a, b, c = matrices(row)
    d = isa.MMA_SYNC[row].effect(None, None, *words(row, a, b, c))
    assert d.dtype == np.uint32 and d.shape == (32, row.words[2])
    got = collect(row.atom.c_tv, (row.rows, 8), isa.decode(d, row.accumulator))
    wanted = (a[:, None] != b).sum(axis=2) if row.arithmetic == "xor" else a @ b.T
    np.testing.assert_array_equal(got, wanted + c)
    atom = row.atom
    again = run_mma(atom, hold(atom.a_tv, a), hold(atom.b_tv, b), hold(atom.c_tv, c))
    np.testing.assert_array_equal(collect(atom.c_tv, (row.rows, 8), again), got)


def test_each_warp_multiplies_its_own() -> None:
    row = isa.find_mma("f16", "f32", 16)
    each = [matrices(row) for _ in range(3)]
    together = [np.concatenate(x) for x in zip(*(words(row, *m) for m in each), strict=True)]
    d = isa.MMA_SYNC[row].effect(None, None, *together).reshape(3, 32, 4)
    for got, (a, b, c) in zip(d, each, strict=True):
        np.testing.assert_array_equal(collect(row.atom.c_tv, (16, 8), isa.decode(got, "f32")), a @ b.T + c)


def test_ends_of_numbers_reach_the_elements_they_should() -> None:
    row = isa.find_mma("bf16", "f32", 16)
    a, b, c = matrices(row)
    a[3, 5], c[7, 1] = np.nan, np.inf
    d = isa.MMA_SYNC[row].effect(None, None, *words(row, a, b, c))
    got = collect(row.atom.c_tv, (16, 8), isa.decode(d, "f32"))
    assert np.isnan(got[3]).all() and np.isnan(got).sum() == 8
    assert np.isinf(got[7, 1]) and np.isinf(got).sum() == 1
    row = isa.find_mma("s8", "s32", 32)
    a, b, c = (np.full(shape, x) for shape, x in (((16, 32), 127), ((8, 32), 127), ((16, 8), (1 << 31) - 1)))
    d = isa.MMA_SYNC[row].effect(None, None, *words(row, a, b, c))
    assert (isa.decode(d, "s32") == (1 << 31) - 1 + 32 * 127 * 127 - (1 << 32)).all()


def test_a_row_is_found_by_its_types_or_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown mma 'f16\.f32\.k4'"):
        isa.find_mma("f16", "f32", 4)
    alias = find_mma_atom("SM80_16x8x8_F32F16F16F32_TN")  # sm_75 has it under another name
    assert isa.mma_instruction(alias) is isa.MMA_SYNC[isa.find_mma("f16", "f32", 8)]
    for name, said in (
        ("SM80_8x8x4_C64C64C64C64_TN", "of generated kernels is SM80_8x8x4_C64C64"),
        ("SM80_16x8x32_S32S8S8S32_TN_SATURATE", "_SATURATE; of s8 there are SM75_8x8x16_S32S8S8S32_TN, "),
    ):
        with pytest.raises(UnsupportedError, match=said):
            isa.mma_instruction(find_mma_atom(name))


def test_each_architecture_has_what_ptx_says() -> None:
    """PTX ISA 9.0, 9.7.14.5.14, target notes."""
    first = {(m.operand, m.rows, m.k, m.arithmetic): m.sm for m in isa.MMAS}
    assert first["f64", 8, 4, ""] == 80 and {first["f64", 16, k, ""] for k in (4, 8, 16)} == {90}
    for operand, k in (("s8", 16), ("u8", 16), ("s4", 32), ("u4", 32)):
        assert [first[operand, rows, n, ""] for rows, n in ((8, k), (16, k), (16, 2 * k))] == [75, 80, 80]
    of_bits = (8, 128, "xor"), (8, 128, "and"), (16, 256, "xor")
    assert [first["b1", *key] for key in of_bits] == [75, 80, 80]


# --- the text ------------------------------------------------------------------------------------------


def cases_of(rows: Sequence[isa.Mma]) -> list[Case]:
    """An instruction of each row, on fragments."""
    return [(isa.MMA_SYNC[row], words(row, *matrices(row)), []) for row in rows]


@pytest.mark.deep(but=("mma_m16n8k64_s4_s32",))
@pytest.mark.parametrize("rows", BATCHES, ids=lambda rows: rows[0].name)
def test_the_texts_compute_the_effects(rows: Sequence[isa.Mma]) -> None:
    for instr, got, (wanted,) in ran(cases_of(rows)):
        np.testing.assert_array_equal(got[0], wanted, err_msg=instr.name)


def transposes(instr: isa.Instr) -> Kernel:
    """out[lane] = the registers of an ldmatrix of the 512 bytes of x, or of movmatrix of its first words."""
    k, count = KernelBuilder("matrices", 32), instr.operands[0].words
    x, y = k.pointer("x", 4, (4, 1)), k.pointer("y", 4, (count, 1), writable=True)
    tile, v = k.shared_buffer("tile", 4, Layout((32, 4), (4, 1)), 128, 128), k.reg("v", 4)
    d = k.reg("d", count)
    k.do(isa.LDG[16], v, k.at(x, k.tid, 0))
    k.do(isa.STS[16], k.at(tile, k.tid, 0), v)
    k.do(isa.WARP_SYNC)
    k.do(instr, d, v.slice(0, count=1) if instr is isa.MOVMATRIX else k.at(tile, k.tid % (8 * count), 0))
    k.do(isa.STG[4 * count], k.at(y, k.tid, 0), d)
    return k.build()


MOVES = [*isa.LDMATRIX.values(), *isa.LDMATRIX_TRANS.values(), isa.MOVMATRIX]


@pytest.mark.deep(but=("ldmatrix_x4", "ldmatrix_x2_trans", "movmatrix_trans"))
@pytest.mark.parametrize("instr", MOVES, ids=str)
def test_the_texts_of_matrix_moves_do_the_same_and_compile(instr: isa.Instr) -> None:
    x = RANDOM.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    results = []
    for order in ("forward", "reverse"):
        y = np.zeros((32, instr.operands[0].words), np.uint32)
        run_cuda_text(to_cuda(transposes(instr)), "matrices", (1,), (32,), (x, y), order=order)
        results.append(y)
    simulated = np.zeros_like(y)
    run = simulate(transposes(instr), {"x": x, "y": simulated})
    for y in (*results, simulated):
        np.testing.assert_array_equal(y, instr.effect(None, None, x[:, :1] if instr is isa.MOVMATRIX else x))
    if instr is not isa.MOVMATRIX:  # a wavefront per matrix of 128 bytes
        assert run.trace.total(instr.operands[1].op)[1] == instr.operands[0].words
    assert compile_cubin(to_cuda(transposes(instr), "sm_75"), "matrices", "sm_75").spill_bytes == 0
    with pytest.raises(UnsupportedError, match="needs sm_75"):
        to_cuda(transposes(instr), "sm_70")


# --- ldmatrix ------------------------------------------------------------------------------------------


def rows_of(matrices: np.ndarray) -> np.ndarray:
    """What lane l addresses: row l % 8 of matrix l // 8, as words."""
    return np.ascontiguousarray(matrices.reshape(-1, 8)).view(np.uint32)


@pytest.mark.parametrize("warps", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_ldmatrix_deals_rows_or_columns(turned: bool, count: int, warps: int) -> None:
    """PTX: lane l gets elements 2 (l % 4) and 2 (l % 4) + 1 of row l // 4; .trans: of column l // 4."""
    instr = (isa.LDMATRIX_TRANS if turned else isa.LDMATRIX)[count]
    atom = f"SM75_U16x{2 * count}_LDSM_T" if turned else f"SM75_U32x{count}_LDSM_N"
    tiles = RANDOM.integers(0, 1 << 16, (warps, 4, 8, 8), dtype=np.uint16)
    tiles[:, count:] = tiles[:, :1]  # what lanes without a matrix address
    got = instr.effect(None, None, rows_of(tiles))
    assert got.dtype == np.uint32 and got.shape == (32 * warps, count)
    halves = np.ascontiguousarray(got).view(np.uint16).reshape(warps, 32, count, 2)
    for warp in range(warps):
        for lane in range(32):
            for matrix in range(count):
                tile = tiles[warp, matrix].T if turned else tiles[warp, matrix]
                assert (halves[warp, lane, matrix] == tile[lane // 4, 2 * (lane % 4) :][:2]).all()
        rows = rows_of(tiles[warp]).view(np.uint16)
        rows = np.concatenate([rows[: 8 * count]] * (4 // count))
        moved = run_copy(find_copy_atom(atom), rows)
        np.testing.assert_array_equal(halves[warp].reshape(32, 2 * count), moved)


def test_movmatrix_transposes() -> None:
    tiles = RANDOM.integers(0, 1 << 16, (3, 8, 8), dtype=np.uint16)
    held = np.ascontiguousarray(tiles.reshape(96, 2)).view(np.uint32)
    turned = np.ascontiguousarray(tiles.transpose(0, 2, 1)).reshape(96, 2)
    np.testing.assert_array_equal(isa.MOVMATRIX.effect(None, None, held).view(np.uint16), turned)
    moved = run_copy(find_copy_atom("SM75_U32x1_MOVM_T"), tiles[0].reshape(32, 2))
    np.testing.assert_array_equal(moved, turned[:32])
