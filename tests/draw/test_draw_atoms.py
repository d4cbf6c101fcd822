"""Pictures of atoms: every cell is the lane and value that the layouts say."""

from __future__ import annotations

import pytest

from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, Operand
from layoutalg.draw import as_text, copy_picture, mma_picture
from tests.sweeps import each


@pytest.mark.parametrize(
    "name", ["SM80_16x8x16_F32F16F16F32_TN", "SM70_8x8x4_F32F16F16F32_NT", "SM90_64x24x8_F32TF32TF32_RS_TN"]
)
def test_cells_are_lanes_and_values(name: str) -> None:
    atom = MMA_ATOMS[name]
    picture = mma_picture(atom)
    held: list[Operand] = [operand for operand in ("A", "B", "C") if atom.registers(operand)]
    assert len(picture.panels) == len(held) and atom.ptx in picture.notes
    assert ("B: read from shared memory" in picture.notes) == (atom.b_in == "shared")
    for operand, panel in zip(held, picture.panels, strict=True):
        rows, columns = atom.extents(operand)
        assert panel.title == f"{operand}, {rows} x {columns} of {atom.dtype(operand)}"
        for thread in range(atom.threads):
            lane = atom.thr_layout(thread)
            for value in range(atom.values(operand)):
                column, row = divmod(atom.tv(operand)(thread, value), rows)
                cell = panel.cells[row][column]
                assert (cell.text, cell.hue) == (f"T{lane}V{value}", lane % 32)


def test_a_matrix_load_sends_rows_and_gives_columns() -> None:
    sent, received = copy_picture(COPY_ATOMS["SM75_U16x4_LDSM_T"]).panels
    for row in range(16):
        for column in range(8):
            assert sent.cells[row][column].text == f"T{row}V{column}+"
            matrix, place = divmod(row, 8)
            assert received.cells[row][column].text == f"T{4 * column + place // 2}V{2 * matrix + place % 2}"


@each("name", COPY_ATOMS)
def test_every_copy_has_a_picture(name: str) -> None:
    picture = copy_picture(COPY_ATOMS[name])
    assert len(picture.panels) == 2 and picture.title == name
    assert max(map(len, as_text(picture).splitlines())) <= 100
    cells = {cell.text for row in picture.panels[1].cells for cell in row}
    assert "" not in cells
