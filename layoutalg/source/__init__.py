"""Analysis of existing CUDA sources: every access of a kernel, with its cost, or the reason why it has none.

    read_kernel    text -> KernelReading: one SourceAccess per access

>>> from layoutalg.source import read_kernel
>>> text = "__global__ void k(float* p) { __shared__ float s[32][32]; s[threadIdx.x][0] = p[threadIdx.x]; }"
>>> reading = read_kernel(text, 32)
>>> [(access.op, access.array, access.ways) for access in reading.accesses]
[('st.shared.b32', 's', 32), ('ld.global.b32', 'p', None)]

The source is not executed.  libclang parses it, in a separate process with limits; a second parser,
tree-sitter, counts the places that may access memory, so that none is dropped silently (`pip install
'layoutalg[source]'`).

    front/         the syntax tree of a kernel, and the census of accesses, from a separate process
    reading        read_kernel
    terms          integers of a kernel: sums over thread indices, block indices and loop iterations
    values         what variables hold: numbers, addresses, records, unknowns
    machine        the state of the symbolic execution: variables, conditions, loops, accesses seen
    places         what expressions name, loads and stores, and what a store to an unknown place changes
    expressions    values of expressions
    calls          device functions, intrinsics and asm
    statements     statements, executed once for all threads; what is not followed, and what it may change
    loops          loops, executed once for all iterations
    recurrences    how a variable changes from iteration to iteration
    fixes/         fixes_of: the padding or swizzle that removes the conflicts of an array; patch_of, its diff
    cute/          CuTe: evaluate, its expressions as texts; in kernels, and what its copies move
    unread         what may touch memory and was not read
    costs          what an access costs
    rows/          the records of a reading, sizes that are not given, what a compiler may join
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.source.cute.expression import Call, Part, evaluate, value_text
    from layoutalg.source.fixes import Fix, fixes_of, patch_of, patched_fixes
    from layoutalg.source.reading import read_kernel
    from layoutalg.source.rows import (
        CONSTANT,
        FETCH,
        REGISTERS,
        KernelReading,
        SourceAccess,
        TakenNumber,
        Unfollowed,
    )
    from layoutalg.source.unread import refuse_unread

_PLACES = {
    "cute.expression": "Call Part evaluate value_text",
    "fixes": "Fix fixes_of patch_of patched_fixes",
    "reading": "read_kernel",
    "rows": "CONSTANT FETCH REGISTERS KernelReading SourceAccess TakenNumber Unfollowed",
    "unread": "refuse_unread",
}

__getattr__ = later(__name__, _PLACES)
# Neither the process that parses nor an expression needs the reader, nor reading the search of fixes.

__all__ = [
    "CONSTANT",
    "FETCH",
    "REGISTERS",
    "Call",
    "Fix",
    "KernelReading",
    "Part",
    "SourceAccess",
    "TakenNumber",
    "Unfollowed",
    "evaluate",
    "fixes_of",
    "patch_of",
    "patched_fixes",
    "read_kernel",
    "refuse_unread",
    "value_text",
]
