"""The recorded answers of a Hopper GPU, asked again, and every mma and matrix instruction beside its atom.

python3 -m pytest tests/gpu/test_hopper.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layoutalg import arch
from layoutalg.algebra import tile_to_shape
from layoutalg.arch import Major, SmemDescriptor, SwizzleMode, TensorMap
from layoutalg.atoms import CopyAtom, MMAAtom, hold, run_copy, run_mma
from layoutalg.codegen.gpu.driver import encode_tiled
from layoutalg.dtype import dtype
from layoutalg.layout import Layout
from layoutalg.legality import canonical_layout, check_tma, check_wgmma
from tests.gpu import hopper
from tests.gpu.hopper import FILL, MATRIX_ATOMS, OPERANDS, WARP_ATOMS, ask_matrix, pack, tma_load, wgmma
from tests.gpu.tools import needs_hopper

pytestmark = needs_hopper
DATA = Path(__file__).parents[1] / "data"
SHARED_BYTES = 96 * 1024
OTHER_BYTES = 8 * 1024
"""Where the operand that is not asked about lies: in front of the one that is."""

EXACT = {"f16": 1024, "bf16": 128, "tf32": 1024, "s8": 100, "e4m3": 16}
"""A type holds the integers below this; element numbers are written digit by digit in this base."""

ACCUMULATORS = {"s8": "s32"}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").open(encoding="utf-8")]


def encoded(element: str, values: NDArray[Any]) -> NDArray[Any]:
    """Small integers as the bytes of an element type."""
    codes = hopper.codes_of(values, dtype(element))
    typed: NDArray[Any] = codes.astype(f"u{dtype(element).nbytes}").view(np.uint8)
    return typed


def addresses_read(
    element: str, descriptor: SmemDescriptor, operand: str, shape: tuple[int, int], major: Major
) -> NDArray[Any]:
    """The byte address that wgmma reads for every element of an operand: the other is unit vectors."""
    element_bytes, (mn, k) = dtype(element).nbytes, shape
    n = mn if operand == "B" else k
    units = np.zeros((64 if operand == "B" else n, k))
    units[np.arange(len(units)), np.arange(len(units)) % k] = 1
    place = canonical_layout("none", "K", element, units.shape, lbo_bytes=4096, sbo_bytes=128)
    other = np.zeros(OTHER_BYTES // element_bytes)
    for crd in np.ndindex(*units.shape):
        other[place(*crd)] = units[crd]
    others = SmemDescriptor(start_bytes=0, lbo_bytes=4096, sbo_bytes=128)
    numbers = np.arange(SHARED_BYTES // element_bytes)
    types = (ACCUMULATORS.get(element, "f32"), element, element)
    found = np.zeros(shape, np.int64)
    weight = 1
    while weight < len(numbers):
        image = encoded(element, numbers // weight % EXACT[element]).copy()
        image[:OTHER_BYTES] = encoded(element, other)
        if operand == "B":
            digits = wgmma(image, others, descriptor, n, types, (False, major == "MN"))[:k].T
        else:
            digits = wgmma(image, descriptor, others, n, types, (major == "MN", False))[:, :k]
        found += np.rint(digits).astype(np.int64) * weight
        weight *= EXACT[element]
    return found * element_bytes


def test_what_wgmma_reads() -> None:
    for row in rows("h200_wgmma_reads"):
        element, major = row["element"], row["major"]
        descriptor = SmemDescriptor(
            **{name: row[name] for name in ("start_bytes", "lbo_bytes", "sbo_bytes", "mode")},
            base_offset=row.get("base_offset", 0),
        )
        read = addresses_read(element, descriptor, row["operand"], tuple(row["shape"]), major)
        lines = read if major == "K" else read.T
        assert lines[:, :: 16 // dtype(element).nbytes].tolist() == row["chunks"], row


def test_what_tma_writes() -> None:
    for row in rows("h200_tma_writes"):
        element, dims = dtype(row["element"]), row["dims"]
        last = sum((n - 1) * d for n, d in zip(dims[1:], row["strides_bytes"], strict=True))
        words = np.arange((last + dims[0] * element.nbytes) // 2, dtype=np.uint16)
        tensor_map = TensorMap(
            element, tuple(dims), tuple(row["strides_bytes"]), tuple(row["box"]),
            tuple(row["element_strides"]), mode=arch.SWIZZLE_MODES[row["mode"]],
        )  # fmt: skip
        expected = 16 * len(row["chunks"])
        arrived, memory = tma_load(words.view(np.uint8), tensor_map, row["address"], expected, 16 * 1024)
        chunks = memory.view(np.uint16).reshape(-1, 8)
        written = [
            [16 * i, None if not chunk.any() else 2 * int(chunk[0])]
            for i, chunk in enumerate(chunks)
            if (chunk != FILL * 0x101).any()
        ]
        assert arrived and written == row["chunks"], row


def test_what_the_driver_takes() -> None:
    import cupy

    memory = cupy.zeros(1 << 12, "uint8")
    for row in rows("h200_tensor_maps"):
        tensor_map = TensorMap(
            dtype(row["element"]), tuple(row["dims"]), tuple(row["strides_bytes"]), tuple(row["box"]),
            tuple(row["element_strides"]), row["interleave_bytes"], arch.SWIZZLE_MODES[row["mode"]],
            nan_fill=row["nan_fill"],
        )  # fmt: skip
        assert encode_tiled(tensor_map, memory.data.ptr + row["address"])[0] == row["status"], row


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("mode", arch.HOPPER_MODES, ids=str)
def test_a_product_from_checked_layouts(mode: SwizzleMode, major: Major) -> None:
    """D = A B of whole tiles: operands laid out by `tile_to_shape`, every descriptor from `check_wgmma`."""
    k, rng = 64, np.random.default_rng(3)
    image = np.zeros(64 * 1024, np.uint8)
    matrices, operands = [], []
    for name, rows_, base in (("A", 64, 1024), ("B", 128, 17 * 1024)):
        tile = tile_to_shape(arch.atom_layout(f"Layout_{major}_{mode.atom}_Atom", "f16"), (rows_, k))
        values = rng.integers(-8, 9, (rows_, k)).astype(np.float16)
        memory = image[base : base + 2 * rows_ * k].view(np.float16)
        for crd in np.ndindex(rows_, k):
            memory[tile(*crd)] = values[crd]
        matrices.append(values.astype(np.float64))
        operands.append(check_wgmma(tile, "f16", name, major=major, base_bytes=base).require())  # type: ignore[arg-type]
    a, b = operands
    transposed = (major == "MN", major == "MN")
    parts = [
        wgmma(image, a.descriptor(0, j), b.descriptor(0, j), 128, ("f32", "f16", "f16"), transposed)
        for j in range(k // 16)
    ]
    assert np.array_equal(np.sum(parts, axis=0), matrices[0] @ matrices[1].T)


def test_a_copy_that_is_refused_lands_elsewhere() -> None:
    """The pattern rule, seen: a 128-byte swizzle from address 128 is not the layout moved by 128 bytes."""
    tensor = Layout((8, 64), (64, 1))
    source = np.arange(8 * 64, dtype=np.uint16)
    assert check_tma(tensor, (8, 64), "f16", mode=128, shared_alignment_bytes=128).broken == ("tma.pattern",)
    copy = check_tma(tensor, (8, 64), "f16", mode=128).require()
    assert copy.layout is not None
    wanted = np.empty(8 * 64, np.uint16)
    for crd in np.ndindex(8, 64):
        wanted[copy.layout(*crd)] = source[tensor(*crd)]
    for address, same in ((1024, True), (128, False)):
        arrived, memory = tma_load(
            source.view(np.uint8), copy.tensor_map, address, copy.transaction_bytes, 4096
        )
        there = memory[address : address + 1024].view(np.uint16)
        assert arrived and bool((there == wanted).all()) == same


@pytest.mark.parametrize("atom", WARP_ATOMS, ids=str)
def test_an_mma_is_what_its_atom_says(atom: MMAAtom) -> None:
    """All atoms of a warp at once: 32 of one thread, 4 quad pairs, 1 warp."""
    rng = np.random.default_rng(len(atom.name))
    words = {o: np.zeros((32, atom.registers(o)), np.uint32) for o in OPERANDS}
    wanted = np.zeros((32, atom.values("C")), atom.dtypes.d.numpy_name)
    lanes = np.array([atom.thr_layout(i) for i in range(atom.threads)])
    step = 4 if atom.threads == 8 else 1
    for first in range(32 // atom.threads):
        held = {}
        for o in OPERANDS:
            low, high = (
                (0, 2) if atom.dtype(o).bits == 1 else (0, 3) if atom.dtype(o).name[0] == "u" else (-2, 3)
            )
            held[o] = hold(atom.tv(o), rng.integers(low, high, atom.extents(o)))
            words[o][lanes + step * first] = pack(held[o], atom.dtype(o))
        wanted[lanes + step * first] = run_mma(atom, held["A"], held["B"], held["C"])
    found = hopper.unpack(hopper.ask_mma(atom, words["A"], words["B"], words["C"]), atom.dtypes.d)
    assert (found == wanted).all()


@pytest.mark.parametrize("atom", MATRIX_ATOMS, ids=str)
def test_a_matrix_instruction_moves_what_its_atom_says(atom: CopyAtom) -> None:
    halves = np.arange(256, dtype=np.uint16)
    memory, registers = (
        halves.view(np.uint32).reshape(32, 4),
        7 + np.arange(128, dtype=np.uint32).reshape(32, 4),
    )
    if atom.ptx.startswith("ldmatrix"):
        rows = 32 if "x4" in atom.ptx else 16 if "x2" in atom.ptx else 8
        given = halves.reshape(32, 8)[np.arange(32) % rows]
        after, _ = ask_matrix(atom, rows, registers, memory)
        moved = run_copy(atom, given)
        assert (after.view(np.uint16).reshape(32, 8)[:, : moved.shape[1]] == moved).all()
    elif atom.ptx.startswith("stmatrix"):
        rows = 32 if "x4" in atom.ptx else 16 if "x2" in atom.ptx else 8
        given = registers.view(np.uint16).reshape(32, 8)[:, : rows // 4]
        _, after = ask_matrix(atom, rows, registers, memory)
        assert (after.view(np.uint16).reshape(32, 8)[:rows] == run_copy(atom, given)[:rows]).all()
    else:
        after, _ = ask_matrix(atom, 32, registers, memory)
        given = registers.view(np.uint16).reshape(32, 8)[:, :2]
        assert (after.view(np.uint16).reshape(32, 8)[:, :2] == run_copy(atom, given)).all()
