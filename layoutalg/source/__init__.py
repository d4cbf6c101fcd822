"""Reading a user's own CUDA source: every access of a kernel, with its cost or with why it is not read.

    read_kernel    text -> KernelReading: SourceAccess for SourceAccess

>>> text = "__global__ void k(float* p) { __shared__ float s[32][32]; s[threadIdx.x][0] = p[threadIdx.x]; }"
>>> reading = read_kernel(text, 32)
>>> [(access.op, access.array, access.ways) for access in reading.accesses]
[('st.shared.b32', 's', 32), ('ld.global.b32', 'p', None)]

Nothing of the text is run.  It is parsed in a process of its own, with limits, by libclang; a second grammar
counts what may touch memory, so that nothing is left out in silence (`pip install 'layoutalg[source]'`).

    front/         the tree of a kernel and the census, from a process of its own
    reading        read_kernel
    terms          integers of a kernel: sums over thread numbers, block numbers and turns of loops
    values         what variables hold: numbers, addresses, records, and what is not known
    machine        variables, conditions and loops while a kernel is read; what was touched
    expressions    values and places of expressions, loads and stores
    calls          device functions, intrinsics and asm
    statements     statements, read once for all threads
    loops          loops, read once for all turns
    recurrences    how a variable goes on from turn to turn
    fixes          fixes_of: the padding or swizzle that removes the conflicts of an array
    counting       the cost of an access: classes of turns and blocks, one of each counted
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.later import later
from layoutalg.source.reading import (
    CONSTANT,
    REGISTERS,
    KernelReading,
    SourceAccess,
    read_kernel,
    refuse_unread,
)

if TYPE_CHECKING:
    from layoutalg.source.fixes import Fix, fixes_of

__getattr__ = later(
    "layoutalg.source", {"Fix": "layoutalg.source.fixes", "fixes_of": "layoutalg.source.fixes"}
)  # a search is not imported by who only reads

__all__ = [
    "CONSTANT",
    "REGISTERS",
    "Fix",
    "KernelReading",
    "SourceAccess",
    "fixes_of",
    "read_kernel",
    "refuse_unread",
]
