"""The rules of instructions that move memory per lane: ld and st, ldmatrix and stmatrix, cp.async.

The idea.  An instruction is read into a `MemoryOp`, legal or not, so that what does not exist can be named
together with the nearest that does.  Every requirement is a row of `MEMORY_RULES` with its source.

    vector.count    ld.shared.v3.f32          .v2 or .v4                       ld.shared.v2.b32
    matrix.trans    ldmatrix.x4.trans of f32  16-bit elements                  ldmatrix.x4
    copy.cache      cp.async.cg.8             .cg copies 16 bytes, .ca 4, 8, 16   cp.async.ca.8

>>> str(read_memory_op("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"))
'ldmatrix.x4.trans'
>>> [str(read_memory_op(name)) for name in ("ld.shared.v3.f32", "LDS.128", "cp.async.cg.8")]
['ld.shared.v3.b32', 'ld.shared.b128', 'cp.async.cg.8']

Notes.  That lanes hold whole elements and tiles whole vectors is not a rule of the hardware: it is what the
instruction would need to move the tile and nothing else.

Sources.  PTX ISA: "Vectors", "Addresses as Operands", ld, st, ldmatrix, stmatrix, cp.async.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.arch import INSTRUCTIONS, Arch, instruction_name
from layoutalg.errors import AlignmentError, UnknownNameError, UnsupportedError, check_type
from layoutalg.legality.rules import Rule

Family: TypeAlias = Literal["vector", "matrix", "copy"]

ROW_BYTES = 16
"""Bytes of a row of an 8 x 8 matrix of ldmatrix and stmatrix, which one lane addresses."""

MATRIX_ROWS = 8

SCALAR_BITS = (8, 16, 32, 64, 128)
COPY_BYTES = (4, 8, 16)

_VECTORS = {32: (8, 32), 16: (4, 32), 8: (2, 32), 4: (1, 32), 2: (1, 16), 1: (1, 8)}
"""(registers, bits of each) of the usual vector of so many bytes."""

_LD = "PTX ISA, ld and st, syntax; Vectors"
_ALIGNED = "PTX ISA, Addresses as Operands: naturally aligned to the size of the access"
_MATRIX = "PTX ISA, ldmatrix and stmatrix"
_COPY = "PTX ISA, cp.async"
_USE = "the tile itself: nothing beside it may be moved"

_RULES = (
    Rule("vector.width", "a register has 8, 16, 32, 64 or 128 bits", _LD, UnsupportedError),
    Rule("vector.count", "a vector has 2 or 4 registers, or 8 (global, sm_100)", _LD, UnsupportedError),
    Rule("vector.bytes", "a lane moves at most 16 bytes, or 32 (global, sm_100)", _LD, UnsupportedError),
    Rule("matrix.exists", "ldmatrix needs sm_75, stmatrix sm_90", _MATRIX, UnsupportedError),
    Rule("matrix.count", "an instruction moves 1, 2 or 4 matrices", _MATRIX, UnsupportedError),
    Rule("matrix.trans", ".trans transposes 16-bit elements", _MATRIX, UnsupportedError),
    Rule("matrix.tile", "a tile is whole instructions of 8 rows of 16 bytes per matrix", _USE),
    Rule("copy.exists", "cp.async needs sm_80", _COPY, UnsupportedError),
    Rule("copy.bytes", "a lane copies 4, 8 or 16 bytes", _COPY, UnsupportedError),
    Rule("copy.cache", ".cg copies 16 bytes, .ca any size", _COPY, UnsupportedError),
    Rule("copy.source_bytes", "a lane reads at most as many bytes as it writes", _COPY),
    Rule(
        "copy.source_contiguous", "what a lane copies is contiguous in global memory", _COPY, AlignmentError
    ),
    Rule("copy.source_aligned", "a lane's source is aligned to the size of the copy", _COPY, AlignmentError),
    Rule(
        "copy.source_base", "the source starts at a multiple of the size of the copy", _COPY, AlignmentError
    ),
    *(
        Rule(f"{family}.{name}", text, source, error)
        for family, where in (("vector", _ALIGNED), ("matrix", _MATRIX), ("copy", _COPY))
        for name, text, source, error in (
            ("element", "a lane holds whole elements", _USE, UnsupportedError),
            ("divides", "the contiguous mode is cut into whole vectors", _USE, AlignmentError),
            ("contiguous", "what a lane moves is contiguous", where, AlignmentError),
            ("aligned", "a lane's address is a multiple of what it moves", where, AlignmentError),
            ("base", "the layout starts at a multiple of what a lane moves", where, AlignmentError),
        )
    ),
)

MEMORY_RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})
"""Every rule by name; read only."""


@dataclass(frozen=True, slots=True)
class MemoryOp:
    """An instruction as it was requested, whether it exists or not.

    `count` registers of `bits` bits per lane (vector), `count` matrices (matrix), or one copy of `bits` bits;
    `cache` is "ca", "cg", or "" where it was not stated.
    """

    family: Family
    mnemonic: str
    space: Literal["shared", "global"]
    count: int
    bits: int
    trans: bool = False
    cache: str = ""

    @property
    def lane_bytes(self) -> int:
        """The bytes that one address covers."""
        return ROW_BYTES if self.family == "matrix" else self.count * self.bits // 8

    def of_bytes(self, lane_bytes: int) -> MemoryOp:
        """The same with another number of bytes per lane, in the form in which that is usual.

        >>> print(*(read_memory_op(op).of_bytes(8) for op in ("ld.shared.v8.f16", "cp.async.cg.12")))
        ld.shared.v2.b32 cp.async.ca.8
        """
        if self.family == "copy":
            cache = "ca" if self.cache == "cg" and lane_bytes != ROW_BYTES else self.cache
            return replace(self, bits=8 * lane_bytes, cache=cache)
        count, bits = _VECTORS[lane_bytes]
        return replace(self, count=count, bits=bits)

    def __str__(self) -> str:
        if self.family == "matrix":
            return f"{self.mnemonic}.x{self.count}{'.trans' if self.trans else ''}"
        if self.family == "copy":
            return f"cp.async{self.cache and '.' + self.cache}.{self.bits // 8}"
        vector = f".v{self.count}" if self.count != 1 else ""
        return f"{self.mnemonic}.{self.space}{vector}.b{self.bits}"


_VECTOR = re.compile(r"(ld|st)\.(shared|global)(?:\.v([0-9]{1,3}))?\.[busf]([0-9]{1,4})")
_MATRICES = re.compile(r"(ldmatrix|stmatrix)(?:\.x([0-9]{1,3}))?(\.trans)?")
_ASYNC = re.compile(r"cp\.async(?:\.(ca|cg))?(?:\.shared\.global)?\.([0-9]{1,3})")


def read_memory_op(text: str) -> MemoryOp:
    """An instruction by any of its names, or one that does not exist but is spelled like one that does.

    Raises UnknownNameError for any other text.

    >>> read_memory_op("st.global.v2.u32").lane_bytes
    8
    """
    check_type("read_memory_op", text, str, "the name of an instruction")
    spelled = "".join(text.lower().split()).replace("shared::cta", "shared")
    cache = _ASYNC.fullmatch(spelled)
    name = spelled if cache else instruction_name(text)
    match = _VECTOR.fullmatch(name)
    if match is None or int(match[4]) not in SCALAR_BITS:
        match = _VECTOR.fullmatch(spelled) or match
    if match:
        space: Literal["shared", "global"] = "shared" if match[2] == "shared" else "global"
        count, bits = int(match[3] or 1), int(match[4])
        if match[0] in INSTRUCTIONS and bits not in SCALAR_BITS:  # the library's name of a vector
            count, bits = _VECTORS[bits // 8]
        return MemoryOp("vector", match[1], space, count, bits)
    matrices = _MATRICES.fullmatch(name)
    if matrices:
        return MemoryOp("matrix", matrices[1], "shared", int(matrices[2] or 4), 16, bool(matrices[3]))
    copy = cache or _ASYNC.fullmatch(name)
    if copy:
        return MemoryOp("copy", "cp.async", "shared", 1, 8 * int(copy[2]), cache=copy[1] or "")
    known = [name for name in INSTRUCTIONS if not name.endswith(":global") and not name.startswith("red")]
    raise UnknownNameError("instruction", text, known)


def widest_vector_bytes(op: MemoryOp, machine: Arch) -> int:
    """The most bytes a lane moves: 32 of global memory from sm_100 on, in eight or four registers.

    >>> from layoutalg.arch import ARCHS
    >>> [widest_vector_bytes(read_memory_op("ld.global.v8.f32"), ARCHS[a]) for a in ("sm_90", "sm_100")]
    [16, 32]
    """
    wide = f"{op.mnemonic}.{op.space}.b256" in machine.instructions
    return 32 if wide and (op.count, op.bits) in ((8, 32), (4, 64)) else 16
