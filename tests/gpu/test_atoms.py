"""Every mma and matrix instruction on the hardware, against what its atom says.

python3 -m pytest tests/gpu/test_atoms.py
"""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.atoms import CopyAtom, MMAAtom, hold, run_copy, run_mma
from tests.gpu.atoms import MATRIX_ATOMS, OPERANDS, WARP_ATOMS, ask_matrix, ask_mma, pack, unpack
from tests.gpu.tools import needs_hopper

pytestmark = needs_hopper


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
    found = unpack(ask_mma(atom, words["A"], words["B"], words["C"]), atom.dtypes.d)
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
