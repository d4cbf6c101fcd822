"""Pictures of atoms: which lane holds which element of A, B and C, or sends and receives what.

The idea.  An atom's layouts are thread-value layouts, so its picture is that of `tv_picture` for each of its
matrices.  A copy atom moves a run of bits; they are shown as rows of elements, once by who sends them and
once by who receives them.

>>> from layoutalg.atoms import find_mma_atom
>>> picture = mma_picture(find_mma_atom("SM80_8x8x4_F64F64F64F64_TN"))
>>> [panel.title for panel in picture.panels], picture.panels[2].cells[1][2].text
(['', 'B, 4 x 8 of f64', 'A, 8 x 4 of f64', 'C, 8 x 8 of f64'], 'T6V0')
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from layoutalg.arch import TMEM_LANES
from layoutalg.atoms import CopyAtom, MMAAtom, Operand, mode_of, tmem_layout
from layoutalg.compose import compose_layouts
from layoutalg.decide import cosize
from layoutalg.draw.picture import EMPTY_PANEL, Panel, Picture, tv_picture
from layoutalg.errors import DivisibilityError, check_type
from layoutalg.layout import Layout, concat, layout_size, leaves, modes

_OPERANDS: tuple[Operand, ...] = ("A", "B", "C")

_SIDES: tuple[tuple[Literal["src", "dst"], str], ...] = (("src", "sent by"), ("dst", "received by"))

_ROW_BITS = 128
"""A row of the matrices that ldmatrix and its kin move."""

_NOTE = "rows and columns are those of the matrix; the colour is the lane mod 32"


def mma_picture(atom: MMAAtom) -> Picture:
    """Lane and value of every element in registers: B (K x N) above C (M x N), A (M x K) at its left.

    So a row of A, a column of B and the element of C that they make stand in one line.  In tensor memory
    lanes and columns take the place of lanes and values, of one CTA's rows.  Raises ResourceError when a
    matrix has too many cells.

    >>> from layoutalg.atoms import find_mma_atom
    >>> len(mma_picture(find_mma_atom("SM90_64x8x16_F32F16F16_SS")).panels)
    1
    """
    check_type("mma_picture", atom, MMAAtom, "an MMA atom")
    drawn: dict[Operand, Panel] = {}
    for operand in _OPERANDS:
        if atom.place(operand) == "tensor":
            drawn[operand] = _in_tensor_memory(atom, operand)
        elif atom.registers(operand):
            rows, columns = atom.extents(operand)
            (panel,) = tv_picture(atom.tv(operand), (rows, columns), atom.thr_layout).panels
            if operand == "B":
                panel = Panel("", panel.columns, panel.rows, tuple(zip(*panel.cells, strict=True)))
            size = f"{len(panel.rows)} x {len(panel.columns)}"
            drawn[operand] = replace(panel, title=f"{operand}, {size} of {atom.dtype(operand)}")
    across = 2 if "A" in drawn else 1
    order: list[Operand | None] = [None, "B", "A", "C"] if across == 2 else ["B", "C"]
    if "B" not in drawn:
        order = order[-across:]
    panels = tuple(EMPTY_PANEL if operand is None else drawn[operand] for operand in order)
    notes = [atom.ptx, _NOTE]
    if "B" in drawn:
        notes.append("B stands above C and A at its left: a row of A and a column of B make an element of C")
    if atom.c_in == "tensor":
        notes.append("T is the lane of tensor memory, V the column, which for A is as wide as an element")
    shared = [operand for operand in _OPERANDS if operand not in drawn]
    if shared:
        notes.append(f"{' and '.join(shared)}: read from shared memory")
    return Picture(atom.name, panels, tuple(notes), across=across, lined_up=True)


def _in_tensor_memory(atom: MMAAtom, operand: Operand) -> Panel:
    """The lane and column of every element of an operand in tensor memory."""
    place = tmem_layout(atom, operand)
    rows, columns = (layout_size(mode) for mode in modes(place))
    digits, step = [], 1
    for extent, address in leaves(place):
        digits.append((address, extent, step))
        step *= extent
    digits.sort()
    thread, value = (
        mode_of([(extent, step) for address, extent, step in digits if (address < TMEM_LANES) == in_lanes])
        for in_lanes in (True, False)
    )
    numbers = mode_of([(extent, address) for address, extent, _ in digits if address < TMEM_LANES])
    (panel,) = tv_picture(concat(thread, value), (rows, columns), numbers).panels
    return replace(panel, title=f"{operand}, {rows} x {columns} of {atom.dtype(operand)}, in tensor memory")


def copy_picture(atom: CopyAtom) -> Picture:
    """Lane and value of every element that is moved: who sends it, and who receives it.

    Elements are those of a Copy_Atom<Op, T>; of an instruction alone they have 16 bits in matrix
    instructions, else up to 32 as far as they stay together.

    >>> from layoutalg.atoms import find_copy_atom
    >>> sent, received = copy_picture(find_copy_atom("SM75_U32x4_LDSM_N")).panels
    >>> sent.cells[9][3].text, received.cells[9][3].text
    ('T9V3', 'T5V3')
    """
    check_type("copy_picture", atom, CopyAtom, "a copy atom")
    bits = _width_bits(atom)
    row_bits = _ROW_BITS if "matrix" in atom.ptx else cosize(atom.src_tv) // _rows(atom)
    columns, rows = row_bits // bits, cosize(atom.src_tv) // row_bits
    by_rows = Layout((columns, rows), (rows, 1))  # element counted along rows -> counted down columns
    panels: list[Panel] = []
    notes = [atom.ptx, _NOTE]
    for side, title in _SIDES:
        tv, threads = atom.bits_as(side, bits), atom.thr_layout
        thread, value = modes(tv)
        if thread.shape == 32 and thread.stride == 0:  # all of it is shown to every thread: drawn once
            tv, threads, title = concat(Layout(1, 0), value), Layout(1, 0), "in tensor memory"
        drawn = tv_picture(compose_layouts(by_rows, tv), (rows, columns), threads)
        panels.append(replace(drawn.panels[0], title=f"{title}, elements of {bits} bits"))
        notes += drawn.notes[1:]
    return Picture(atom.name, tuple(panels), tuple(notes))


def _rows(atom: CopyAtom) -> int:
    """Rows of the picture: the lanes of tensor memory that tcgen05 reads, else the threads."""
    lanes = re.search(r"tcgen05.*\.(\d+)x\d+b", atom.ptx)
    return int(lanes[1]) if lanes else atom.threads


def _width_bits(atom: CopyAtom) -> int:
    """Bits of a Copy_Atom's element, else of what stays together."""
    own = () if atom.element is None else (atom.element.bits,)
    for bits in own or ((16,) if "matrix" in atom.ptx else (32, 16)):
        try:
            atom.bits_as("src", bits), atom.bits_as("dst", bits)
        except DivisibilityError:
            continue
        return bits
    return 8
