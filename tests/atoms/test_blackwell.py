"""Blackwell's products beside CUTLASS's traits: which there are, and where their operands lie."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from layoutalg.arch import ARCHS
from layoutalg.atoms import (
    MMA_ATOMS,
    MMAAtom,
    find_mma_atom,
    make_tiled_mma,
    require_atom,
    tmem_layout,
)
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.layout import Layout, flatten_tree, unflatten_tree
from tests.atoms.cute_blackwell import DATA, umma_rows
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [json.loads(line) for line in DATA.open(encoding="utf-8")][1:]
LANE = 1 << 16
"""The distance of lanes in an address of tensor memory, in columns of 32 bits."""


def addresses(layout: Layout, element_bits: int, column_bits: int) -> Layout:
    """A layout to lane + 128 column as one to CuTe's addresses, which count elements."""
    strides = tuple(
        (s % 128 * LANE * 32 + s // 128 * column_bits) // element_bits for s in flatten_tree(layout.stride)
    )
    return Layout(layout.shape, unflatten_tree(strides, layout.shape))


def ours(row: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Every field of a row but the instruction descriptor, as the library says it."""
    atom = find_mma_atom(row["atom"])
    yield from zip(
        ("Shape_MNK", "ThrID", "ALayout", "BLayout", "CLayout"),
        (atom.shape_mnk, atom.thr_layout, atom.a_tv, atom.b_tv, atom.c_tv),
        strict=True,
    )
    if "C" in row:
        bits = atom.dtypes.d.bits
        yield "C", addresses(tmem_layout(atom, "C", (1, 1)), bits, 32)
        if "C22" in row:
            yield "C22", addresses(tmem_layout(atom, "C", (2, 2)), bits, 32)
    if "A" in row:
        bits = atom.element_bits("A")
        yield "A", addresses(tmem_layout(atom, "A", (1, 1)), bits, bits)
    if atom.scales is not None:
        names = ("SFA", "SFB") if "SFA" in row else ("SFALayout", "SFBLayout")
        for name, layout in zip(names, (atom.scales.a, atom.scales.b), strict=True):
            one = Layout((layout.shape, 1, 1), (layout.stride, 0, 0))
            yield name, addresses(one, 8, 8) if "SFA" in row else layout


def check(row: dict[str, Any]) -> None:
    """CuTe counts 4 bits per element of a narrow A in tensor memory, where PTX (9.7.16.10.4.3) has a byte.

    It places D of a sparse product of two CTAs of 64 rows by data path B, where PTX (9.7.16.10.5) has C.
    """
    if "A" in row and "_unpacksmem_t" in row["atom"].split(",")[0]:
        row = {**row, "A": row["A"].replace("524288", "262144")}
    found = {name: str(value).replace(" ", "") for name, value in ours(row)}
    left = {"atom", "idesc"}
    if "2x1SM_SS_SPARSE" in row["atom"] and row["Shape_MNK"].startswith("(128,"):
        assert found["C"].startswith("(((16,4),"), row["atom"]
        left |= {"C", "C22"}
    for name in left:
        found.pop(name, None)
    assert found == {name: value for name, value in row.items() if name not in left}, row["atom"]


@each("row", ROWS[::150] + ROWS[-3:])
def test_an_atom_is_cutes(row: dict[str, Any]) -> None:
    check(row)


@pytest.mark.deep
def test_every_atom_is_cutes() -> None:
    for row in ROWS:
        check(row)


@pytest.mark.deep
def test_the_atoms_are_those_that_cute_admits() -> None:
    """Of each operation the first types in every M and N; the types in one; K-major and MN-major."""
    facts = {re.sub(r",(UMMA::Major::K+\b|4\b(?=>))", "", row["atom"]) for row in ROWS}
    facts = {name for name in facts if "Major::MN" not in name and "unpacksmem" not in name}
    made = {row.name for row in umma_rows()} | {name for name in MMA_ATOMS if name.startswith("SM120")}
    assert facts <= made
    first = {tuple(re.split(r"[<,]", name)[:3]) for name in facts}
    sized = {
        (row.name.partition("<")[0], row.m, row.n)
        for row in umma_rows()
        if tuple(re.split(r"[<,]", row.name)[:3]) in first
    }
    shaped = {
        (name.partition("<")[0], *map(int, re.findall(r",(\d+)", name)[:2]))
        for name in facts
        if name.startswith("SM100")
    }
    assert sized == shaped


def test_names_with_majors_and_namespaces() -> None:
    plain = "SM100_MMA_F8F6F4_SS<float_e4m3_t,float_e2m1_t,float,128,64>"
    spelled = (
        "MMA_Atom<SM100_MMA_F8F6F4_SS<cutlass::float_e4m3_t, cutlass::detail::float_e2m1_unpacksmem_t, float,"
        " 128, 64, UMMA::Major::MN, UMMA::Major::K, UMMA::ScaleIn::One, UMMA::ScaleIn::One>>"
    )
    atom = find_mma_atom(spelled)
    assert atom.name == plain and find_mma_atom(plain) == atom and atom.registers("C") == 0
    short = "SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>"
    assert find_mma_atom(short) is find_mma_atom(f"SM120::BLOCKSCALED::{short}")


def test_machines_that_have_them() -> None:
    umma, warp = find_mma_atom("SM100_MMA_TF32_SS<tfloat32_t,tfloat32_t,float,128,64>"), _warp()
    for name, atoms in (("sm_100", [umma]), ("sm_103", [umma]), ("sm_120", [warp]), ("sm_90", [])):
        for atom in (umma, warp):
            if atom in atoms:
                require_atom(atom, ARCHS[name])
            else:
                with pytest.raises(UnsupportedError, match="needs"):
                    require_atom(atom, ARCHS[name])


def _warp() -> MMAAtom:
    return find_mma_atom("SM120_16x8x32_TN<float_e3m2_t,float_e2m1_t,float>")


@each(
    ("error", "part", "name"),
    [
        (UnsupportedError, "M of 64 or 128, N of 8, 16", "SM100_MMA_F16BF16_SS<half_t,half_t,float,96,64>"),
        (UnsupportedError, "N of 16, 32, 48", "SM100_MMA_F16BF16_TS<half_t,half_t,float,128,24>"),
        (UnsupportedError, "f16 or f32", "SM100_MMA_F16BF16_SS<bfloat16_t,half_t,half_t,128,64>"),
        (UnsupportedError, "ue4m3 for 16",
         "SM100_MMA_MXF4_SS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,128,64,32>"),
        (UnsupportedError, "K-major",
         "SM100_MMA_TF32_TS<tfloat32_t,tfloat32_t,float,128,64,UMMA::Major::MN,UMMA::Major::K>"),
        (UnknownNameError, "SM100_MMA_F8F6F4_SS<A,B,D,M,N>", "SM100_MMA_F6_SS<half_t,half_t,float,128,64>"),
        (UnknownNameError, "SM100_MMA_TF32_SS<A,B,D,M,N>", "SM100_MMA_TF32_SS<float>"),
        (UnknownNameError, "dtype", "SM100_MMA_TF32_SS<quark,tfloat32_t,float,128,64>"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_refused(error: type[Exception], part: str, name: str) -> None:
    with pytest.raises(error, match=re.escape(part)):
        find_mma_atom(name)


def test_operands_that_do_not_lie_in_tensor_memory() -> None:
    atom = find_mma_atom("SM100_MMA_F16BF16_SS<half_t,half_t,float,128,64>")
    with pytest.raises(UnsupportedError, match=r"A of .* lies in shared"):
        tmem_layout(atom, "A")


@each(("m", "n"), list(product((64, 128), (8, 64))))
def test_tiles_of_accumulators_share_no_cell(m: int, n: int) -> None:
    """Four accumulators of one CTA, those of 64 rows in both halves of the lanes."""
    name = f"SM100_MMA_F16BF16_SS<half_t,half_t,float,{m},{n}>"
    layout = tmem_layout(find_mma_atom(name), "C", (2, 2))
    cells = {layout(i) for i in range(4 * m * n)}
    assert len(cells) == 4 * m * n == len(cells & set(range(4 * m * n)))


def test_the_fragment_of_a_tiled_mma_lies_in_tensor_memory() -> None:
    """CuTe's make_fragment_C of the first tutorial of Blackwell: a CTA's tile is products side by side."""
    mma = make_tiled_mma("SM100_MMA_F16BF16_SS<half_t,half_t,float,64,128>")
    part = mma.get_slice(0)
    assert part.partition_fragment_C(Layout((128, 256))) == Layout(
        (((16, 4), 128), 2, 2), (((1, 32), 128), 16, 128 * 128)
    )
    pair = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS<half_t,half_t,float,256,128>").get_slice(1)
    assert pair.partition_C(Layout((256, 128)))[1] == 128
    assert pair.partition_fragment_C(Layout((256, 128))) == Layout(((128, 128), 1, 1), ((1, 128), 0, 0))
    with pytest.raises(UnsupportedError, match="from shared memory"):
        part.partition_fragment_A(Layout((128, 64)))
