"""The C types of registers, pointers and scalars of a kernel, read off the instructions that use them.

The idea.  A program has words; what a word is, the operands of its instructions say.  A register that is
computed with as a float is a float.  One that is only moved stays bits, so that a move is bitwise whatever it
moves.  A pointer has the type of the registers that its elements come from or go to, through shared memory
too:

    ldg128(v, src)  fold_max_4_to_1(m, v)         v is float, src is const float*
    ldg128(v, src)  stg128(dst, v)                v is u32, src and dst are u32*: nothing is computed
    cp_async_16(tile_a, a)  ldmatrix_x4(ra, tile_a)  mma_m16n8k16_f16_f32(acc, ra, rb)
                                                  a is const f16*, ra is f16x2, acc is float

Notes.  `f16x2` and `bf16x2` are u32, `f16` and `bf16` are u16, by other names: elements are computed with as
floats only.  A register that is used as floats and as bits is what more instructions take it for; the
printer converts where the others use it.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TypeAlias

from layoutalg.codegen.expr import Var, ctype
from layoutalg.codegen.instr import ANY, moves
from layoutalg.codegen.program import Do, Global, Kernel, RegRef, calls
from layoutalg.errors import UnsupportedError

Node: TypeAlias = tuple[str, str]
"""A register array or a buffer, by name."""

BITS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "uint4"}
"""The type whose pointer steps by one element, by its bytes: bits that are moved."""

WORD = {"": "u32", "f32": "float", "f16x2": "f16x2", "bf16x2": "bf16x2"}
"""The C type of a word, by what it is."""

_ELEMENT = {("f32", 4): "float", ("f16x2", 2): "f16", ("bf16x2", 2): "bf16"}
"""The C type of an element of some bytes, by what words of them are."""


class Types:
    """The types of a kernel.

    >>> from layoutalg.codegen.instr import LDG, fold
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("most", threads=32)
    >>> v, m, src = k.reg("v", 4), k.reg("m", 1), k.pointer("src", 4)
    >>> k.do(LDG[16], v, k.at(src, k.tid * 4))
    >>> k.do(fold("max", 4, 1), m, v)
    >>> types = Types(k.build())
    >>> types.word("v"), types.pointer(src)
    ('float', 'const float*')
    """

    def __init__(self, kernel: Kernel) -> None:
        every = list(calls(kernel.body))
        self._registers = {name: _most(votes) for (_, name), votes in _votes(every).items()}
        self._buffers = _map_elements(kernel) | _buffer_elements(every, self._registers)
        self._scalars = dict(kernel.scalars)

    def element(self, register: str) -> str:
        """The kind of the words of a register array: "f32", "f16x2", "bf16x2" or "", bits."""
        return self._registers.get(register, "")

    def word(self, register: str) -> str:
        """The C type of the words of a register array."""
        return WORD[self.element(register)]

    def pointer(self, buffer: Global) -> str:
        """The C type of a pointer parameter.  Raises UnsupportedError for elements that no type of C has."""
        if buffer.element_bytes not in BITS:
            have = ", ".join(map(str, BITS))
            raise UnsupportedError(
                f"{buffer.name} has elements of {buffer.element_bytes} bytes: {have} are printed"
            )
        bits = BITS[buffer.element_bytes]
        kind = _ELEMENT.get((self._buffers.get(buffer.name, ""), buffer.element_bytes), bits)
        return f"{'' if buffer.writable else 'const '}{kind}*"

    def scalar(self, parameter: Var) -> str:
        """The C type of an integer parameter, or of the bits of a number."""
        return "float" if self.is_float(parameter.name) else ctype(parameter)

    def is_float(self, parameter: str) -> bool:
        """Whether a parameter is the bits of one f32, which it is passed as."""
        return self._scalars.get(parameter, "") in ("f32", f"the 32 bits of the f32 {parameter}")

    def signature(self, kernel: Kernel) -> dict[str, str]:
        """The C type of every parameter, by name."""
        return {p.name: self.pointer(p) if isinstance(p, Global) else self.scalar(p) for p in kernel.params}

    def takes_floats(self, call: Do) -> bool:
        """Whether the helper for registers of floats is the one to call."""
        return bool(call.instr.float_text) and any(
            isinstance(arg, RegRef) and operand.element == ANY and self.element(arg.reg.name) == "f32"
            for operand, arg in call.pairs
        )


def _votes(every: list[Do]) -> dict[Node, Counter[str]]:
    """Count the types that instructions give a register array, including arrays that it is copied to."""
    same = _Classes()
    counts: dict[Node, Counter[str]] = {}
    for call in every:
        registers = [(o, ("register", arg.reg.name)) for o, arg in call.pairs if isinstance(arg, RegRef)]
        same.join([node for o, node in registers if o.element == ANY])
        # moves between memory and registers say nothing: they take any words
        moved = call.instr.effect is moves or [o.role for o in call.instr.operands] == ["out", "read"]
        for operand, node in registers:
            votes = counts.setdefault(node, Counter())
            if operand.element != ANY and not moved:
                votes[operand.element] += 1
    return same.merged(counts)


def _most(votes: Counter[str]) -> str:
    """The element that most take it for; packed elements are bits too."""
    floats, others = votes["f32"], {e: n for e, n in votes.items() if e != "f32"}
    packed = [e for e in others if e]
    if floats > sum(others.values()):
        return "f32"
    return packed[0] if len(packed) == 1 else ""


def _map_elements(kernel: Kernel) -> dict[str, str]:
    """The elements of buffers that TMA copies, as their maps say."""
    words = {"f16": "f16x2", "bf16": "bf16x2", "f32": "f32", "tf32": "f32"}
    return {m.source.name: words.get(m.element.name, "") for m in kernel.maps}


def _buffer_elements(every: list[Do], registers: dict[str, str]) -> dict[str, str]:
    """The elements of every buffer: those of all registers that they move to or from."""
    same = _Classes()
    kinds: dict[Node, Counter[str]] = {}
    for call in every:
        memory = [("buffer", at.buffer.name) for o, at in call.memory if o.role != "place"]
        same.join(memory)
        for node in memory:
            held = (registers.get(a.reg.name, "") for a in call.args if isinstance(a, RegRef))
            kinds.setdefault(node, Counter()).update(held)
    return {name: next(iter(kind)) for (_, name), kind in same.merged(kinds).items() if len(kind) == 1}


class _Classes:
    """Nodes that are of one type."""

    def __init__(self) -> None:
        self._above: dict[Node, Node] = {}

    def root(self, node: Node) -> Node:
        while node in self._above:
            node = self._above[node]
        return node

    def merged(self, counts: dict[Node, Counter[str]]) -> dict[Node, Counter[str]]:
        """Count for each node what is counted for all nodes of its type."""
        joined: dict[Node, Counter[str]] = {}
        for node, own in counts.items():
            joined.setdefault(self.root(node), Counter()).update(own)
        return {node: joined[self.root(node)] for node in counts}

    def join(self, nodes: list[Node]) -> None:
        for a, b in pairwise(nodes):
            a, b = self.root(a), self.root(b)
            if a != b:
                self._above[a] = b
