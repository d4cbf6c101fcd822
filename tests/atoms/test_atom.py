"""Atoms against CuTe's own text and against the PTX manual's formulas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import pytest

from layoutalg.arch import ARCHS, INSTRUCTIONS, WGMMA_TYPES
from layoutalg.atoms import (
    COPY_ATOMS,
    MMA_ATOMS,
    Operand,
    find_copy_atom,
    find_mma_atom,
    places,
    require_atom,
)
from layoutalg.decide import cosize, is_bijective, is_surjective
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import Layout, modes, size
from tests.draws.ptx_fragments import FRAGMENTS, quad_pair, wgmma_a, wgmma_sums
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "cute_cpp.jsonl").open(encoding="utf-8")
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


@each("row", rows("mma_traits") + rows("copy_traits"))
def test_what_cute_prints(row: dict[str, Any]) -> None:
    name, what = row["params"]["atom"], row["params"]["what"]
    atom: object = find_mma_atom(name) if row["op"] == "mma_traits" else find_copy_atom(name)
    assert str(getattr(atom, FIELDS[what])).replace(" ", "") == row["out"].replace("_", "")


def test_the_tables_are_read_only_and_name_their_atoms() -> None:
    with pytest.raises(TypeError):
        MMA_ATOMS["x"] = MMA_ATOMS["SM61_DP4A"]  # type: ignore[index]
    for name in (*WARP_ATOMS, *WGMMA_SAMPLE):
        assert MMA_ATOMS[name] is MMA_ATOMS[name] and MMA_ATOMS[name].name == name == str(MMA_ATOMS[name])
    assert all(name == atom.name == str(atom) for name, atom in COPY_ATOMS.items())
    dense, sparse = ([n for n in MMA_ATOMS if n.startswith(f"SM90_{kind}64x")] for kind in ("", "SPARSE_"))
    assert len(dense) == len(sparse) > 1000


@each(
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


@each(
    ("spelled", "name"),
    [
        ("UniversalCopy<half_t>", "UniversalCopy<uint16_t>"),
        ("UniversalCopy<float, uint32_t>", "UniversalCopy<uint32_t>"),
        ("UniversalCopy<int8_t>", "UniversalCopy<uint8_t>"),
        ("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<double>", "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>"),
        (
            "SM80_CP_ASYNC_CACHEGLOBAL<cute::uint128_t,cute::uint128_t>",
            "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>",
        ),
    ],
)
def test_copies_of_values_go_by_their_width(spelled: str, name: str) -> None:
    assert find_copy_atom(spelled) is COPY_ATOMS[name]


@each(
    ("error", "part", "call"),
    [
        (UnknownNameError, "copy atom", lambda: find_copy_atom("UniversalCopy<float,double>")),
        (UnknownNameError, "dtype 'nothing'", lambda: find_copy_atom("UniversalCopy<nothing>")),
        (UnknownNameError, "copy atom", lambda: find_copy_atom("SM80_CP_ASYNC_CACHEGLOBAL<float>")),
        (UnknownNameError, "did you mean 'SM80_16x8x16_F32F16F16F32_TN'",
         lambda: find_mma_atom("SM80_16x8x16_F32F16F16F23_TN")),
        (UnknownNameError, "did you mean 'SM75_U32x4_LDSM_N'", lambda: find_copy_atom("SM75_U32x4_LDMS_N")),
        (UnsupportedError, "in registers is K-major",
         lambda: find_mma_atom("SM90::GMMA::MMA_64x8x16_F32F16F16_RS<GMMA::Major::MN, GMMA::Major::K>")),
        (ArgumentTypeError, "a name or an atom", lambda: find_mma_atom(8)),  # type: ignore[arg-type]
        (ArgumentTypeError, "a name or an atom", lambda: find_copy_atom(8)),  # type: ignore[arg-type]
        (UnknownNameError, "operand 'D'", lambda: MMA_ATOMS["SM61_DP4A"].tv("D")),  # type: ignore[arg-type]
        (UnknownNameError, "side of a copy",
         lambda: COPY_ATOMS["SM75_U32x1_MOVM_T"].value_layout("to", "f16")),  # type: ignore[arg-type]
        (DivisibilityError, "splits", lambda: COPY_ATOMS["SM75_U16x2_LDSM_T"].value_layout("dst", "f32")),
    ],
)  # fmt: skip
def test_what_no_name_means_is_refused(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=part):
        call()


def test_what_an_architecture_lacks_is_refused() -> None:
    def refusal(name: str, arch: str) -> str:
        atom = find_copy_atom(name) if name in COPY_ATOMS else find_mma_atom(name)
        with pytest.raises(UnsupportedError) as caught:
            require_atom(atom, ARCHS[arch])
        return caught.value.message

    assert refusal("SM80_16x8x8_F32TF32TF32F32_TN", "sm_75").endswith(
        "which needs sm_80; it has no instruction for D of f32, A of tf32 and B of tf32"
    )
    assert refusal("SM90_64x96x16_F32F16F16_SS", "sm_80").endswith("it has SM80_16x8x16_F32F16F16F32_TN")
    assert refusal("SM90_64x96x16_F32F16F16_SS", "sm_100").endswith("it has SM80_16x8x16_F32F16F16F32_TN")
    assert refusal("SM90_U32x4_STSM_N", "sm_89") == "sm_89 has no SM90_U32x4_STSM_N, which needs sm_90"
    for name, atom in COPY_ATOMS.items():
        for machine in ARCHS.values():
            for op in {atom.src_op, atom.dst_op} - {""}:
                if op in machine.instructions:
                    require_atom(atom, machine)
                else:
                    assert refusal(name, machine.name)


# --- the data validates itself ---------------------------------------------------------------------------


def threads_of(tv: Layout) -> int:
    threads, _ = modes(tv)
    return size(threads)


def test_every_atom_is_a_matrix_instruction() -> None:
    """A and B reach every element of their matrix and nothing else, C every element once."""
    operands: tuple[Operand, ...] = ("A", "B", "C")
    for atom in MMA_ATOMS.values():
        for operand in operands:
            tv, count = atom.tv(operand), prod(atom.extents(operand))
            assert is_surjective(tv, count) and (cosize(tv), threads_of(tv)) == (count, atom.threads), atom
        assert is_bijective(atom.c_tv) and (atom.e_tv is None or threads_of(atom.e_tv) == atom.threads), atom
        assert atom.source.startswith("PTX ISA 9.0, 9.7.")
        assert atom.arch in {*ARCHS, "sm_61"}


def test_every_copy_moves_what_it_reads() -> None:
    """All sides reach the same bits."""
    for atom in COPY_ATOMS.values():
        bits = cosize(atom.src_tv)
        for tv in (atom.src_tv, atom.dst_tv, atom.ref_tv):
            assert threads_of(tv) == atom.threads and cosize(tv) == bits and is_surjective(tv, bits), atom
        assert atom.ref_tv in (atom.src_tv, atom.dst_tv), atom
        assert atom.source.startswith("PTX ISA 9.0, 9.7.")
        assert {atom.src_op, atom.dst_op} <= {*INSTRUCTIONS, ""}


# --- the manual ------------------------------------------------------------------------------------------


def lane_values(tv: Layout, lanes: list[int]) -> Iterator[tuple[int, int, int]]:
    """(lane, value, index) of a fragment whose threads are these lanes."""
    table = places(tv)
    for thread, lane in enumerate(lanes):
        for value in range(table.shape[1]):
            yield lane, value, int(table[thread, value])


@each("name", [n for n in WARP_ATOMS if not n.startswith(("SM61", "Universal"))])
def test_fragments_are_the_manuals(name: str) -> None:
    atom = MMA_ATOMS[name]
    (m, n, k), bits = atom.shape_mnk, min(atom.dtypes.a.bits, 64)
    lanes = [atom.thr_layout(i) for i in range(atom.threads)]
    if name.startswith("SM70"):
        formulas = quad_pair(name[-2:], atom.dtypes.c.name)
        assert lanes == [0, 1, 2, 3, 16, 17, 18, 19]
    else:
        formulas = FRAGMENTS[f"m{m}n{n}k{k}", 8 if atom.in_bytes else bits]
        assert lanes == list(range(32))
    for operand, formula in zip("ABC", formulas, strict=True):
        rows, columns = atom.extents(operand)  # type: ignore[arg-type]
        for lane, value, index in lane_values(atom.tv(operand), lanes):  # type: ignore[arg-type]
            group = lane // 16 if name.startswith("SM70") else lane // 4
            row, column = formula(group, lane % 4, value)
            if operand == "B":
                row, column = column, row
            assert row < rows and column < columns and index == row + rows * column, (operand, lane, value)


@each("name", WGMMA_SAMPLE)
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


@each(
    ("name", "counts"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", (4, 2, 4)), ("SM80_16x8x16_F16F16F16F16_TN", (4, 2, 2)),
        ("SM80_16x8x256_S32U1U1S32_TN_ANDPOPC", (4, 2, 4)), ("SM90_16x8x16_F64F64F64F64_TN", (16, 8, 8)),
        ("SM80_8x8x4_C64C64C64C64_TN", (4, 4, 8)), ("SM80_8x8x4_GC64C64C64GC64_TN", (4, 4, 12)),
        ("SM70_8x8x4_F32F16F16F32_NT", (2, 2, 8)), ("SM90_64x256x16_F32BF16BF16_SS", (0, 0, 128)),
        ("SM90_64x64x32_F16E4M3E5M2_RS_TN", (4, 0, 16)), ("SM90_SPARSE_64x64x32_F32F16F16_RS", (4, 0, 32)),
    ],
)  # fmt: skip
def test_registers(name: str, counts: tuple[int, ...]) -> None:
    assert tuple(MMA_ATOMS[name].registers(operand) for operand in ("A", "B", "C")) == counts


def test_wgmma_names_follow_the_table_of_types() -> None:
    for name in MMA_ATOMS:
        if re.match(r"SM90_(SPARSE_)?64x", name):
            atom = MMA_ATOMS[name]
            kind = WGMMA_TYPES[atom.dtypes.a.name]
            assert atom.shape_mnk[1] in kind.n_sizes and atom.shape_mnk[2] == kind.k * atom.sparsity
            assert atom.dtypes.b.name in kind.b_types and atom.dtypes.d.name in kind.accumulators
