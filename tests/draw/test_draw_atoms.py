"""Pictures of atoms: every cell is the lane and value that the layouts say."""

from __future__ import annotations

import pytest

from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, Operand
from layoutalg.draw import as_text, copy_picture, mma_picture
from layoutalg.draw.scene import Words
from layoutalg.draw.svg import picture_scene
from tests.sweeps import each


@pytest.mark.parametrize(
    "name", ["SM80_16x8x16_F32F16F16F32_TN", "SM70_8x8x4_F32F16F16F32_NT", "SM90_64x24x8_F32TF32TF32_RS_TN"]
)
def test_cells_are_lanes_and_values(name: str) -> None:
    atom = MMA_ATOMS[name]
    picture = mma_picture(atom)
    held: list[Operand] = [operand for operand in ("B", "A", "C") if atom.registers(operand)]
    drawn = [panel for panel in picture.panels if panel.cells]
    assert len(drawn) == len(held) and atom.ptx in picture.notes
    assert ("B: read from shared memory" in picture.notes) == (atom.b_in == "shared")
    for operand, panel in zip(held, drawn, strict=True):
        rows, columns = atom.extents(operand) if operand != "B" else atom.extents(operand)[::-1]
        assert panel.title == f"{operand}, {rows} x {columns} of {atom.dtype(operand)}"
        for thread in range(atom.threads):
            lane = atom.thr_layout(thread)
            for value in range(atom.values(operand)):
                column, row = divmod(atom.tv(operand)(thread, value), atom.extents(operand)[0])
                if operand == "B":  # N x K, drawn as K x N above C
                    row, column = column, row
                cell = panel.cells[row][column]
                assert (cell.text, cell.hue) == (f"T{lane}V{value}", lane % 32)


def test_rows_of_a_and_columns_of_b_line_up_with_c() -> None:
    picture = mma_picture(MMA_ATOMS["SM80_16x8x8_F32F16F16F32_TN"])
    free, b, a, c = picture.panels
    assert not free.cells and picture.across == 2 and picture.lined_up
    assert a.rows == c.rows and b.columns == c.columns
    boxes = {s.text: (s.x, s.y) for s in picture_scene(picture).shapes if isinstance(s, Words) and s.bold}
    assert boxes[b.title][0] == boxes[c.title][0] and boxes[a.title][1] == boxes[c.title][1]
    lines = as_text(picture, width=200, unicode=False).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("A, "))
    above = next(line for line in lines if "B, " in line)
    assert above.index("B, ") == lines[at].index("C, ")
    assert lines[at + 3].split("|")[0].strip() == "0" == lines[at + 3].split("|")[1].split()[-1]


def test_a_matrix_load_sends_rows_and_gives_columns() -> None:
    sent, received = copy_picture(COPY_ATOMS["SM75_U16x4_LDSM_T"]).panels
    for row in range(16):
        for column in range(8):
            assert sent.cells[row][column].text == f"T{row}V{column}+"
            matrix, place = divmod(row, 8)
            assert received.cells[row][column].text == f"T{4 * column + place // 2}V{2 * matrix + place % 2}"


@each("name", COPY_ATOMS, sample=24)
def test_every_copy_has_a_picture(name: str) -> None:
    picture = copy_picture(COPY_ATOMS[name])
    assert len(picture.panels) == 2 and picture.title == name
    assert max(map(len, as_text(picture).splitlines())) <= 100
    cells = {cell.text for row in picture.panels[1].cells for cell in row}
    assert "" not in cells
