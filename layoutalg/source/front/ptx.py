"""Instructions of PTX in the text of an asm statement: which of them touch memory, and at which operand.

    "{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }"
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4 + 16];"

A statement is an opcode, its operands as they are written, and the predicate in front of it.  Addresses are
operands in brackets: a base and a number of bytes.

>>> statements("@p cp.async.cg.shared.global [%0], [%1 + 16], 16;")[0]
Instruction(predicate='p', negated=False, opcode='cp.async.cg.shared.global', operands=('[%0]', '[%1 + 16]',
'16'))
>>> address("[%1 + 16]"), memory_operations(statements("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];")[0])
(('%1', 16), (Operation(op='ld.shared.b128', width=16, operand='[%4]'),))

Source.  PTX ISA, "Instruction Statements", ld, st, cp.async, ldmatrix, stmatrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from layoutalg.arch import INSTRUCTIONS, instruction_name
from layoutalg.source.front.launches import parts_of

_MEMORY = (
    "ld.", "ldu.", "st.", "cp.async", "ldmatrix", "stmatrix", "red.", "atom.", "cp.reduce", "multimem",
    "wmma.load", "wmma.store", "prefetch", "tensormap", "wgmma.mma_async",
)  # fmt: skip
_NO_ACCESS = (
    "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group", "cp.async.mbarrier", "mbarrier", "fence", "tcgen05.commit",
)  # fmt: skip
"""Instructions that order accesses; the word of an mbarrier is its unit's, as that of any barrier."""

_TENSOR_MEMORY = ("tcgen05.ld", "tcgen05.st", "tcgen05.shift", "tcgen05.dealloc")
"""Instructions whose address in brackets is one of tensor memory."""

_ENGINES = {
    "cp.async.bulk": "how a bulk copy is divided is the copy engine's",
    "cp.reduce.async.bulk": "how a bulk copy is divided is the copy engine's",
    "wgmma.mma_async": "how its tiles are read is the tensor core's",
    "tcgen05.mma": "how its tiles are read is the tensor core's",
    "tcgen05.cp": "how its tiles are read is the tensor core's",
    "tcgen05.alloc": "how the address of tensor memory is written is the tensor core's",
    "prefetch": "a prefetch brings lines to a cache, and nothing to a lane",
}
"""Why accesses of other units than that of loads and stores are not counted, by instruction."""

_LEAVES = frozenset({"bra", "brx", "call", "exit", "ret"})
"""Instructions after which another one than the next may be executed."""

_BITS = re.compile(r"\.[busf](\d+)$")


class Instruction(NamedTuple):
    """A statement of PTX."""

    predicate: str
    negated: bool
    opcode: str
    operands: tuple[str, ...]


class Operation(NamedTuple):
    """An access: the analysis' name ("" where it has none), bytes per lane, the operand with its address."""

    op: str
    width: int
    operand: str


def statements(text: str) -> list[Instruction]:
    """The instructions of an asm text; declarations and labels left out."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    parts = (" ".join(part.split()).lstrip("{} ") for part in text.split(";"))  # of a scope the braces
    return [parsed for part in parts if (parsed := _statement(part)) is not None]


def _statement(text: str) -> Instruction | None:
    text = re.sub(r"^(?:[\w$%]+\s*:(?!:)\s*)+", "", text)  # labels
    match = re.match(r"(?:@(!?)([\w%$]+)\s+)?([A-Za-z][\w.:]*)\s*(.*)", text)
    if match is None or text.startswith("."):
        return None
    return Instruction(
        match[2] or "", bool(match[1]), match[3].replace("::cta", ""), parts_of(match[4]) if match[4] else ()
    )


def address(operand: str) -> tuple[str, int] | None:
    """(base, bytes) of an operand in brackets; None for one of another form."""
    match = re.fullmatch(r"\[\s*([\w%$]+)\s*(?:\+\s*(-?\d+|0[xX][0-9a-fA-F]+)\s*)?\]", operand)
    return None if match is None else (match[1], int(match[2], 0) if match[2] else 0)


def touches_memory(instruction: Instruction) -> bool:
    """Whether it may touch shared or global memory: a known one, or any that has an address in brackets."""
    op = instruction.opcode
    if op.startswith((*_NO_ACCESS, *_TENSOR_MEMORY)):
        return False
    return op.startswith(_MEMORY) or any("[" in operand for operand in instruction.operands)


def reason(instruction: Instruction) -> str:
    """Why an instruction that touches memory has no counts."""
    names = (why for front, why in _ENGINES.items() if instruction.opcode.startswith(front))
    return next(names, "the analysis has no such instruction")


def leaves(instruction: Instruction) -> bool:
    """Whether another instruction than the next may be executed after it.

    >>> leaves(statements("@p bra.uni DONE;")[0]), leaves(statements("DONE: add.u32 a, a, 1;")[0])
    (True, False)
    """
    return instruction.opcode.split(".")[0] in _LEAVES


def memory_operations(instruction: Instruction) -> tuple[Operation, ...]:
    """The accesses of an instruction; one without an op where it is none that the analysis counts."""
    places = [operand for operand in instruction.operands if operand.startswith("[")] or [""]
    counted = _counted(instruction.opcode, instruction.operands, places) if places[0] else ()
    return tuple(counted) or (Operation("", 0, places[0]),)


def _counted(op: str, operands: tuple[str, ...], places: list[str]) -> Iterator[Operation]:
    """The accesses of an instruction that the analysis counts, at its addresses."""
    kind, place = op.split(".")[0], places[0]
    space = "shared" if ".shared" in op else "global" if ".global" in op else "generic"
    width = int(bits[1]) if (bits := _BITS.search(op)) is not None else 0
    if op.startswith("cp.async.c") and len(places) == 2 and operands[2:]:
        if (size := operands[2]) in ("4", "8", "16"):
            yield Operation(f"cp.async.{size}", int(size), place)
            yield Operation(f"cp.async.{size}:global", int(size), places[1])
        return
    if kind in ("ldmatrix", "stmatrix"):
        count = re.search(r"\.x([124])\b", op)
        if count is not None and ".m8n8" in op and ".b8" not in op:
            yield Operation(f"{kind}.x{count[1]}{'.trans' if '.trans' in op else ''}", 16, place)
        return
    if kind in ("ld", "st", "ldu") and width and ".param" not in op and ".local" not in op:
        vector = re.search(r"\.v([248])\b", op)
        total = width // 8 * (int(vector[1]) if vector else 1)
        name = f"{kind[:2]}.{space}.b{8 * total}"
        if space == "generic" or name in INSTRUCTIONS:
            yield Operation(name, total, place)
            return
    if kind in ("red", "atom") and ".v" not in op:
        if space == "global" and width in (32, 64):
            yield Operation(f"atom.global.b{width}", width // 8, place)
            return
        if space == "shared" and width == 32 and ".f32" not in op and ".cas" not in op:
            yield Operation("red.shared.u32", 4, place)
            return
    if (name := instruction_name(op)) in INSTRUCTIONS:
        yield Operation(name, INSTRUCTIONS[name].width_bytes, place)
