"""wgmma: what its descriptors read, what it computes, and that its text is PTX."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

from layoutalg.arch import HOPPER_MODES, Major, SmemDescriptor
from layoutalg.atoms import MMA_ATOMS, MMAAtom, find_mma_atom, hold
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.codegen.instr import WGMMA_COMMIT, WGMMA_FENCE, WGMMA_WAIT, SharedTile, find_wgmma
from layoutalg.codegen.instr.words import decode, encode
from layoutalg.codegen.printing.cuda import print_helpers
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.legality import canonical_layout
from tests.tiles.warpgroups import numbers, stored

READS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "h200_wgmma_reads.jsonl").open(encoding="utf-8")
]

DENSE = [
    atom
    for name, atom in MMA_ATOMS.items()
    if name.startswith("SM90_64x") and atom.ptx.startswith("wgmma.mma_async.sync")
]


def test_every_read_of_an_h200_is_reproduced() -> None:
    assert len(READS) == 184
    for row in READS:
        rows, k = row["shape"]
        nbytes = {"f16": 2, "bf16": 2, "tf32": 4}.get(row["element"], 1)
        fields = ("lbo_bytes", "sbo_bytes", "mode", "base_offset")
        for start in (0, row["start_bytes"] // 16 * 16):
            d = SmemDescriptor(start_bytes=start, **{f: row[f] for f in fields if f in row})
            tile = SharedTile(d, row["major"], nbytes, rows, k)
            assert tile.chunks(row["start_bytes"] - start).tolist() == row["chunks"], row


def test_the_chunks_are_those_of_the_canonical_layouts() -> None:
    sizes, majors = (("f16", 2), ("tf32", 4), ("s8", 1)), get_args(Major)
    for mode, major, (element, nbytes) in itertools.product(HOPPER_MODES, majors, sizes):
        shape, lbo, sbo = (128 // nbytes, 32 // nbytes), 4096, 2048
        d = SmemDescriptor(start_bytes=0, lbo_bytes=lbo, sbo_bytes=sbo, mode=mode)
        tile = SharedTile(d, major, nbytes, *shape)
        addresses = tile.matrix(tile.chunks(3072)[..., None] + np.arange(16))
        layout = canonical_layout(mode, major, element, shape, lbo_bytes=lbo, sbo_bytes=sbo)
        for crd in np.ndindex(shape):
            first = 3072 + layout(*crd) * nbytes
            assert addresses[crd].tolist() == list(range(first, first + nbytes)), (mode, major, element)


def encode_any(matrix: np.ndarray, element: str) -> np.ndarray:
    """Words of numbers that the element has."""
    narrow = element in ("e4m3", "e5m2")
    found: np.ndarray = stored(matrix, element).view(np.uint32) if narrow else encode(matrix, element)
    return found


SMALL = [atom for atom in DENSE if atom.shape_mnk[1] in (8, 48)]


@pytest.mark.parametrize("atom", SMALL, ids=str)
@pytest.mark.parametrize("adds", [False, True], ids=["zero", "adds"])
def test_what_it_computes(atom: MMAAtom, adds: bool) -> None:
    (m, n, k), (d, a, b) = atom.shape_mnk, (x.name for x in atom.dtypes[:3])
    shapes = (a, (m, k)), (b, (n, k)), ("f16", (m, n))
    left, right, before = (numbers(*one, seed).values for seed, one in enumerate(shapes, 1))
    if d == "s32":
        before = before.astype(np.int64) + ((1 << 31) - 5 if atom.arithmetic == "saturate" else 0)
    words, instr, started = encode(hold(atom.c_tv, before), d), find_wgmma(atom), []
    given = {"form": 0, "scale": 1, "mn": 0, "a_scale": -1}  # no swizzle and no offsets, but -A B
    imms = [o.name for o in instr.operands if o.name.endswith(("_form", "_scale", "_mn"))]
    engine = SimpleNamespace(matrix=SimpleNamespace(start=lambda group, product: started.append(product)))
    values = [given.get(name, given[name.rpartition("_")[2]]) for name in imms]
    instr.effect(engine, None, "d", "a", "b", np.full((128, 1), adds), *values)
    held = None if atom.a_in == "shared" else encode_any(hold(atom.a_tv, left), a)
    tiles = [encode_any(x, e).view(np.uint8).reshape(len(x), -1, 16) for x, e in ((left, a), (right, b))]
    got = started[0].multiply(words if adds else None, held, tiles[held is not None :])
    wanted = (-1 if "a_scale" in imms else 1) * (left @ right.T) + (before if adds else 0)
    if atom.arithmetic == "saturate":
        wanted = np.minimum(wanted, (1 << 31) - 1)
    assert got.shape == (128, atom.registers("C"))
    assert (got == encode(hold(atom.c_tv, wanted), d)).all()


def test_eight_bit_floats() -> None:
    """The largest, the smallest and the special numbers of PTX's e4m3 and e5m2."""

    def one(code: int, element: str) -> float:
        return float(decode(np.full((1, 1), code, np.uint32), element)[0, 0])

    assert [one(code, "e4m3") for code in (0x7E, 0x08, 0x01, 0x38, 0xB8)] == [448, 2**-6, 2**-9, 1, -1]
    assert np.isnan(one(0x7F, "e4m3")) and np.isnan(one(0xFF, "e4m3"))
    assert [one(code, "e5m2") for code in (0x7B, 0x04, 0x01, 0x3C, 0xBC)] == [57344, 2**-14, 2**-16, 1, -1]
    assert one(0x7C, "e5m2") == np.inf and np.isnan(one(0x7F, "e5m2"))


def kernel(atom: MMAAtom, number: int) -> str:
    """CUDA text of a kernel around one instruction."""
    instr = find_wgmma(atom)
    kind = "float" if atom.dtypes.d.name == "f32" else "u32"
    held, words = atom.registers("C"), atom.registers("A")
    imms = [o.name for o in instr.operands if o.role == "imm"]
    given = [
        {"form": "0x4000004000010000ull", "scale": "1", "mn": "1"}[name.rpartition("_")[2]] for name in imms
    ]
    a = "x" if words else "smem"
    return f"""
extern "C" __global__ void __launch_bounds__(128) k{number}({kind}* out, u32 n) {{
    extern __shared__ __align__(1024) unsigned char smem[];
    const u32 tid = threadIdx.x;
    {kind} d[{held}];
    u32 x[{words or 1}];
    for (u32 i = 0; i < {words}; ++i) x[i] = n + i;
    for (u32 i = 0; i < {held}; ++i) d[i] = 0;
    wgmma_fence();
    {instr.name}<{", ".join(given)}>(d, {a}, smem + 2048, n);
    wgmma_commit();
    wgmma_wait<0>();
    for (u32 i = 0; i < {held}; ++i) out[i * 128 + tid] = d[i];
}}"""


def compile_all(atoms: list[MMAAtom]) -> None:
    head = print_helpers([*(find_wgmma(atom) for atom in atoms), WGMMA_FENCE, WGMMA_COMMIT, WGMMA_WAIT])
    text = head + "".join(kernel(atom, i) for i, atom in enumerate(atoms))
    log = compile_cubin(text, "k0", "sm_90a").log
    spills = [line for line in log.splitlines() if "spill" in line]
    assert len(spills) == len(atoms)
    assert all("0 bytes spill stores, 0 bytes spill loads" in line for line in spills)


def test_every_type_is_ptx_and_the_largest_fits_the_registers() -> None:
    compile_all([atom for atom in DENSE if atom.shape_mnk[1] == 16])
    largest = "SM90_64x256x16_F32F16F16_SS", "SM90_64x256x32_S32S8S8_RS_TN"
    compile_all([find_mma_atom(name) for name in largest])


@pytest.mark.deep
@pytest.mark.parametrize("n", sorted({atom.shape_mnk[1] for atom in DENSE}))
def test_every_size_is_ptx(n: int) -> None:
    compile_all([atom for atom in DENSE if atom.shape_mnk[1] == n])


def test_others_are_refused() -> None:
    for name in ("SM80_16x8x16_F32F16F16F32_TN", "SM90_SPARSE_64x8x32_F32F16F16_SS"):
        with pytest.raises(UnsupportedError, match="without SPARSE are accepted"):
            find_wgmma(name)
    with pytest.raises(UnknownNameError):
        find_wgmma("SM90_64x12x16_F32F16F16_SS")
    assert find_wgmma("SM90_64x8x16_F32F16F16_SS") is find_wgmma(find_mma_atom("SM90_64x8x16_F32F16F16_SS"))
