"""The front end of CUDA sources: a tree from libclang and a census from tree-sitter, in a separate process.

`parse_cuda` takes a text and answers Parsed.

    parsing    parse_cuda, and the records that a tree is made of
    child      the process: supplies missing headers and declarations, removes statements with errors
    texts      the file and its own headers, and what is left of them
    launches   template arguments with which a text uses its kernels
    templates  the instance of a kernel that is read
    dump       libclang's tree in plain lists
    cursors    facts on parts of that tree, and the parts of an asm statement
    census     the second grammar: every site that may touch memory
    names      names that are declared as numbers, and open ones that --set may help with
    uses       the second grammar: every place that names a shared array
    shim       the declarations of CUDA's headers: cuda.cuh; library.cuh, cub.cuh and torch.cuh, what is read
    ptx        instructions in the text of an asm statement
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.source.front.census import LINES, Site
    from layoutalg.source.front.parsing import (
        Declaration,
        Function,
        Kernel,
        Node,
        Parsed,
        Removed,
        Type,
        parse_cuda,
    )
    from layoutalg.source.front.ptx import (
        Instruction,
        address,
        leaves,
        memory_operations,
        reason,
        statements,
        touches_memory,
    )
    from layoutalg.source.front.shim import takes_values
    from layoutalg.source.front.uses import MACRO, extents

_PLACES = {
    "census": "LINES Site",
    "parsing": "Declaration Function Kernel Node Parsed Removed Type parse_cuda",
    "ptx": "Instruction address leaves memory_operations reason statements touches_memory",
    "shim": "takes_values",
    "uses": "MACRO extents",
}
__getattr__ = later(__name__, _PLACES)
# The process that parses imports neither instructions nor what starts it.
