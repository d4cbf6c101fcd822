"""stmatrix: a warp stores matrices of 8 x 8 elements of 16 bits from its registers to rows in shared memory.

The idea.  It is ldmatrix backwards.  Lane l gives the address of row l % 8 of matrix l // 8, 16 bytes, so
that x1, x2 and x4 take 8, 16 and 32 addresses; register r of a lane holds two elements of matrix r:

    STMATRIX[4]          of row l // 4, columns 2 (l % 4) and the next
    STMATRIX_TRANS[4]    of column l // 4, rows 2 (l % 4) and the next

Notes.  There are elements of 16 bits alone; a word of two narrower or half a wider one goes the same way.

Source: PTX ISA 9.0, 9.7.14.5.16 (stmatrix).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.record import WARP, Instr, Requires, into, write
from layoutalg.codegen.instr.sm90.mbarrier import ADDRESS
from layoutalg.codegen.instr.words import ref

Array = numpy.ndarray[Any, Any]


def _rows(count: int, machine: Any, group: Any, v: Array) -> Array:
    """Word w of the row that lane 8 m + i addresses is register m of lane 4 i + w."""
    return _addressed(v.reshape(-1, 8, 4, count).transpose(0, 3, 1, 2), len(v))


def _columns(count: int, machine: Any, group: Any, v: Array) -> Array:
    """Element c of row 2 p + j of matrix m is half j of register m of lane 4 c + p."""
    halves = numpy.ascontiguousarray(v).view(numpy.uint16).reshape(-1, 8, 4, count, 2)
    turned = numpy.ascontiguousarray(halves.transpose(0, 3, 2, 4, 1))  # warp, matrix, p, j, c
    return _addressed(turned.view(numpy.uint32).reshape(-1, count, 8, 4), len(v))


def _addressed(rows: Array, lanes: int) -> Array:
    """Rows (warp, matrix, row, word) by the lane that gives their address, zeros in the others."""
    words = numpy.zeros((lanes // WARP, WARP, 4), dtype=numpy.uint32)
    words[:, : 8 * rows.shape[1]] = rows.reshape(len(rows), -1, 4)
    return words.reshape(lanes, 4)


def _stmatrix(count: int, *, turned: bool) -> Instr:
    suffix = ".trans" if turned else ""
    name = f"stmatrix_x{count}{'_trans' if turned else ''}"
    places = ", ".join(f"%{i + 1}" for i in range(count))
    values = ", ".join(f'"r"(v[{i}])' for i in range(count)) if count > 1 else '"r"(v)'
    text = (
        f"void {name}(void* s, {ref('v', count, const=True)}) {{\n"
        f'    asm volatile("stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 [%0], {{{places}}};"\n'
        f'        :: "r"(shared_address(s)), {values} : "memory");\n'
        "}"
    )
    operands = (write("s", "shared", 16, f"stmatrix.x{count}{suffix}", lanes=8 * count), into("v", count))
    effect = functools.partial(_columns if turned else _rows, count)
    return Instr(name, operands, text, effect, Requires(sm=90, warp_converged=True), uses=(ADDRESS,))


STMATRIX: Mapping[int, Instr] = MappingProxyType({n: _stmatrix(n, turned=False) for n in (1, 2, 4)})
"""By the number of matrices: rows from registers that hold parts of rows."""

STMATRIX_TRANS: Mapping[int, Instr] = MappingProxyType({n: _stmatrix(n, turned=True) for n in (1, 2, 4)})
"""By the number of matrices: rows from registers that hold parts of columns."""
