"""The layout behind a number: which pitch of rows explains a conflict, and which layout has none.

The idea.  A conflict nearly always comes from rows a fixed number of bytes apart, read down a column.  So the
search is for the pitch that gives the measured multiple of the ideal: lane l at l * pitch, or for ldmatrix
row l mod 16 of 16 bytes, the second half of the lanes 16 bytes further.  Rows of one more chunk (a vector, or
a word) have an odd number of chunks and no conflict, whatever the pitch.  A swizzle depends on the pitch:
where only multiples of all banks fit, the least is taken, and `synthesize` finds the layout of a tile of such
rows without conflicts.

>>> fit = fit_pitch("ld.shared.b32", 32)
>>> fit.pitches[:3], fit.extra_bytes, str(fit.remedy.layout)
((128, 256, 384), 4, 'Sw<5,0,5> o 0 o (32,32):(32,1)')

What fits need not be what the kernel does: other index functions have the same number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from layoutalg.analysis import Access, ideal_wavefronts, wavefronts
from layoutalg.arch import find_instruction
from layoutalg.dtype import dtype
from layoutalg.layout import Layout
from layoutalg.synthesis import Synthesis, synthesize

MOST_PITCH = 512
"""Bytes up to which pitches are tried: multiples of the banks' 128 repeat."""

MOST_KNOWN = 2048
"""Largest pitch of an array for which a layout is looked for."""

BANK_BYTES = 4
BANKS_BYTES = 128
"""A bank, and one row of all banks."""

ROWS = 32
"""Rows of the tile that stands for the kernel's: a row for each lane."""

_ELEMENTS = {1: "u8", 2: "f16", 4: "f32", 8: "f32", 16: "f32"}
_MATRIX = "f16"


@dataclass(frozen=True, slots=True)
class Fit:
    """Pitches in bytes, up to MOST_PITCH, that give the measured multiple of the ideal, and what has none.

    `extra_bytes` more for each row remove the conflict, whichever of the pitches it is; None where they do
    not. `remedy` is a layout of rows of the least pitch; None where others fit than multiples of all banks.
    """

    op: str
    times: int
    pitches: tuple[int, ...]
    extra_bytes: int | None
    remedy: Synthesis | None


def column(op: str, pitch: int) -> tuple[int, ...]:
    """The byte offsets of one instruction that reads down a column of rows `pitch` bytes apart.

    >>> column("ldmatrix.x4", 128)[15:18], column("ld.shared.b64", 256)[:3]
    ((1920, 16, 144), (0, 256, 512))
    """
    if op.startswith(("ldmatrix", "stmatrix")):
        return tuple(pitch * (lane % 16) + 16 * (lane // 16) for lane in range(32))
    return tuple(pitch * lane for lane in range(32))


@cache
def fit_pitch(op: str, times: int | Fraction, known: int | None = None) -> Fit | None:
    """The pitches that give an instruction `times` times its ideal wavefronts; None where no pitch does.

    A `known` pitch, of an array's rows, is the only one where it fits.  None, too, for the ideal itself, for
    copies and for atomics, whose number does not come from the banks alone.
    """
    rule = find_instruction(op)
    if times <= 1 or not rule.broadcast or op.startswith("cp.async"):
        return None
    width = rule.width_bytes
    if known is not None and known <= MOST_KNOWN and known % width == 0 and _times(op, known) == times:
        pitches: tuple[int, ...] = (known,)
    else:
        known = None
        pitches = tuple(p for p in range(width, MOST_PITCH + 1, width) if _times(op, p) == times)
    if not pitches:
        return None
    chunk = max(width, BANK_BYTES)
    padded = all(_times(op, pitch + chunk) == 1 for pitch in pitches)
    sure = known is not None or pitches[0] % BANKS_BYTES == 0
    return Fit(op, int(times), pitches, chunk if padded else None, _remedy(op, pitches[0]) if sure else None)


@cache
def _times(op: str, pitch: int) -> Fraction:
    """Wavefronts over their ideal, down a column."""
    lanes = column(op, pitch)
    return Fraction(wavefronts(op, lanes), ideal_wavefronts(op, lanes))


def _remedy(op: str, pitch: int) -> Synthesis | None:
    """A layout of a tile of rows of `pitch` bytes in which reading down any column has no conflict.

    Rows are also written along by all lanes.  None where rows are shorter than a vector or where there is
    none.
    """
    rule = find_instruction(op)
    matrix = op.startswith(("ldmatrix", "stmatrix"))
    element = _MATRIX if matrix else _ELEMENTS[rule.width_bytes]
    nbytes = 2 if matrix else min(rule.width_bytes, 4)
    cols, vector = pitch // nbytes, rule.width_bytes // nbytes
    if cols % vector or cols <= vector:
        return None
    other = "st.shared" if op.startswith("ld") else "ld.shared"
    if matrix:
        wanted: list[Access | str] = [op, f"{other}.b128@row"]
    else:
        lanes = Layout((ROWS, (vector, cols // vector)), (1, (ROWS, ROWS * vector)))
        wanted = [Access(op, lanes, dtype(element)), f"{other}.b{8 * nbytes}@row"]
    answer = synthesize((ROWS, cols), wanted, element=element, max_extra_bytes=ROWS * 16)
    return answer if answer.layout is not None else None
