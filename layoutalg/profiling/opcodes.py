"""SASS instructions by the names that the analysis has for them.

>>> texts = "LDS.128 R8, [R8]", "@!P0 STG.E.64 desc[UR4][R2.64], R4", "LDSM.16.MT88.2 R4, [R1]"
>>> [instruction_op(text) for text in texts]
['ld.shared.b128', 'st.global.b64', 'ldmatrix.x2.trans']

Notes.  Modifiers of caching, ordering and sign do not change which addresses are asked for.  Atomics of
shared memory are `red.shared.u32`, whatever they compute; local memory, atomics of global memory and loads
of other kinds have no name.
"""

from __future__ import annotations

import re

_PLAIN = {"LDS": "ld.shared", "STS": "st.shared", "LDG": "ld.global", "STG": "st.global"}
_MATRIX = {"LDSM": "ldmatrix", "STSM": "stmatrix"}
_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}
_NEVER = "@!PT"


def opcode(sass: str) -> str:
    """The instruction without its predicate and operands.

    >>> opcode("@!P2  LDGSTS.E [R15], desc[UR6][R4.64]")
    'LDGSTS.E'
    """
    words = re.sub(r"^@\S+\s+", "", sass.strip()).split(None, 1)
    return words[0].rstrip(";") if words else ""


def never_executed(sass: str) -> bool:
    """Whether the predicate is the constant that is false: the instruction only takes its place.

    >>> never_executed("@!PT  LDS RZ, [RZ]"), never_executed("LDS R0, [R1]")
    (True, False)
    """
    return sass.lstrip().startswith(_NEVER)


def instruction_op(sass: str) -> str | None:
    """The analysis's name of an instruction, None where it has none.

    >>> instruction_op("LDGSTS.E.BYPASS.LTC128B.128 [R9], desc[UR6][R6.64]"), instruction_op("LDL R0, [R1]")
    ('cp.async.16', None)
    """
    base, *parts = opcode(sass).split(".")
    bits = next((_BITS[part] for part in parts if part in _BITS), 32)
    if base in _PLAIN:
        return f"{_PLAIN[base]}.b{bits}"
    if base in _MATRIX:
        count = next((int(part) for part in parts if part in ("2", "4")), 1)
        trans = ".trans" if any(part.startswith("MT") for part in parts) else ""
        return f"{_MATRIX[base]}.x{count}{trans}"
    if base == "LDGSTS":
        return f"cp.async.{bits // 8}"
    return "red.shared.u32" if base in ("ATOMS", "REDS") else None
