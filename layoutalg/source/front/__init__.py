"""The front end of CUDA sources: a tree of kernels from libclang, a census from tree-sitter, in a process of its own.

    parsing    parse_cuda: text to Parsed, and the records that a tree is made of
    child      the process: the text is parsed until it has no error
    dump       libclang's tree in plain lists
    census     the second grammar: every site that may touch memory
    shim       the declarations of CUDA's headers
"""

from __future__ import annotations

from layoutalg.source.front.parsing import (
    Declaration,
    Function,
    Kernel,
    Node,
    Parsed,
    Site,
    Type,
    parse_cuda,
)

__all__ = ["Declaration", "Function", "Kernel", "Node", "Parsed", "Site", "Type", "parse_cuda"]
