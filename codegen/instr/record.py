"""Instr: one record per instruction, shared by the CUDA printer and the simulator.

The idea.  An instruction is data: its operands, the text of one device helper, and its effect on plain
arrays.  The printer emits a call of the helper; the simulator's machine performs the declared memory
accesses (bounds, alignment, hazards, trace) and hands `effect` arrays.  Nothing else knows the instruction.

    ldg128 = Instr("ldg128", (out("d", 4), read("p", "global", 16, "ld.global.b128")), text=...)

Operands, in the order of the helper's parameters:

    out in inout    registers: `words` 32-bit words per lane; narrower values live zero-extended in one word
    read write      memory: `bytes` per lane in `space`; `op` is the name the analysis knows the access by
    update          memory that an atomic reads and writes at each lane's address; a `void*` of the helper
    imm             a Python int, a template argument of the helper; with element "u64" one of 64 bits
    value           an index expression, one 32-bit word per lane
    guard           a predicate: where it fails the instruction reads no memory and takes zeros instead
    place           memory whose footprint is the effect's: the box of a TMA copy, the tile of a descriptor,
                    a peer's copy of it; `bytes` is the alignment of its start; a `void*` of the helper
    barrier         an mbarrier, a `u64*` of the helper
    map             a tensor map, a `const TensorMap*` of the helper

`element` says of a register or value operand what its words are: "f32", a float; "f16x2" or "bf16x2", two
packed elements; ANY, what the other ANY operands are, which the instruction moves and never computes with; ""
just bits.

`text` is the helper without its qualifiers: the printer adds `__device__ __forceinline__` and, for imm
operands, `template <int ...>`.  An instruction with ANY operands has a second text, `float_text`, for
registers of floats.  `uses` are texts of functions that the helper calls.

`effect(machine, group, *values)` takes one value per operand that carries data in (in, inout, read, value:
arrays of uint32 shaped (lanes, words); imm: the int; place, update, barrier, map and deferred registers: what
the simulator has for them) and returns one array per operand that carries data out (out, inout, write), a
bare array when there is one; deferred registers are written by the engine. `engine` names the asynchronous
engine that performs the writes; they land when it is waited for.  A group whose `ready(machine, group)` is
false is parked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

from layoutalg.codegen.instr.words import ADDRESS

Role: TypeAlias = Literal[
    "out", "in", "inout", "read", "write", "update", "imm", "value", "guard", "place", "barrier", "map"
]
Space: TypeAlias = Literal["global", "shared"]
Effect: TypeAlias = Callable[..., Any]
Key = TypeVar("Key")

WARP = 32
"""Lanes of a warp."""

ANY = "any"
"""The element of an operand whose words are of whatever type its register has."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Registers (`words` of `element`) or memory (`space`, `bytes` per lane, analysis name `op`)."""

    name: str
    role: Role
    words: int = 0
    space: Space | None = None
    bytes: int = 0
    op: str = ""
    element: str = ""
    deferred: bool = False
    lanes: int = WARP


def out(name: str, words: int, element: str = "") -> Operand:
    """A register operand that is written.

    >>> out("d", 4).role
    'out'
    """
    return Operand(name, "out", words, element=element)


def into(name: str, words: int, element: str = "", *, deferred: bool = False) -> Operand:
    """A register operand that is read; a `deferred` one by an engine, until it is waited for.

    >>> into("v", 1).words
    1
    """
    return Operand(name, "in", words, element=element, deferred=deferred)


def read(name: str, space: Space, bytes_per_lane: int, op: str, *, lanes: int = WARP) -> Operand:
    """Memory that is read, `bytes_per_lane` at each lane's address, aligned to as much; `lanes` of a warp
    read, the first ones.

    >>> read("p", "global", 16, "ld.global.b128").words
    4
    """
    return Operand(name, "read", max(1, bytes_per_lane // 4), space, bytes_per_lane, op, lanes=lanes)


def write(name: str, space: Space, bytes_per_lane: int, op: str, *, lanes: int = WARP) -> Operand:
    """Memory that is written, `bytes_per_lane` at each lane's address, aligned to as much; `lanes` of a warp
    write, the first ones.

    >>> write("p", "shared", 2, "st.shared.b16").bytes
    2
    """
    return Operand(name, "write", max(1, bytes_per_lane // 4), space, bytes_per_lane, op, lanes=lanes)


def update(name: str, space: Space, bytes_per_lane: int, op: str) -> Operand:
    """Memory that is read and written in one step, `bytes_per_lane` at each lane's address, aligned to as
    much.

    >>> update("p", "global", 4, "red.global.add.u32").bytes
    4
    """
    return Operand(name, "update", max(1, bytes_per_lane // 4), space, bytes_per_lane, op)


def imm(name: str, element: str = "") -> Operand:
    """A compile-time integer, an int of the helper or with element "u64" 64 bits.

    >>> imm("newest").role
    'imm'
    """
    return Operand(name, "imm", element=element)


def updated(name: str, words: int, element: str = "", *, deferred: bool = False) -> Operand:
    """A register operand that is read and written; a `deferred` one by an engine, until it is waited for.

    >>> updated("d", 4).role
    'inout'
    """
    return Operand(name, "inout", words, element=element, deferred=deferred)


def value(name: str, element: str = "") -> Operand:
    """An index expression, or the bits of a number, passed as one 32-bit word.

    >>> value("alpha").role
    'value'
    """
    return Operand(name, "value", 1, element=element)


def guard(name: str) -> Operand:
    """A predicate that masks the reads of the instruction: lanes in which it fails take zeros.

    >>> guard("inside").role
    'guard'
    """
    return Operand(name, "guard")


def place(name: str, align_bytes: int, op: str = "") -> Operand:
    """The start of a region of shared memory that the effect itself accesses.

    >>> place("box", 128).space
    'shared'
    """
    return Operand(name, "place", space="shared", bytes=align_bytes, op=op)


def barrier(name: str) -> Operand:
    """An mbarrier.

    >>> barrier("full").role
    'barrier'
    """
    return Operand(name, "barrier")


def tensor_map(name: str) -> Operand:
    """A tensor map.

    >>> tensor_map("map").role
    'map'
    """
    return Operand(name, "map")


@dataclass(frozen=True, slots=True)
class Requires:
    """The conditions where an instruction is executed: `sm` at least, and who arrives together.

    `block_converged`: all warps of the block; `warp_converged`: all lanes of the warp, for which PTX says
    .aligned or takes a full mask; `warpgroup_converged`: all of four warps from a multiple of four on.
    `arch_specific`: exactly `sm`, in machine code for the target with an "a" behind it, such as sm_90a: no
    other GPU has the instruction.  `all_blocks` of the launch have to be resident together.
    """

    sm: int = 70
    block_converged: bool = False
    warp_converged: bool = False
    warpgroup_converged: bool = False
    arch_specific: bool = False
    all_blocks: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The effect that a part of the machine has: `of` names its method, which takes the group and the values.

    Unlike a lambda it can be pickled, so that kernels go to the processes that compile them.
    """

    of: str
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, machine: Any, group: Any, *values: Any) -> Any:
        return attrgetter(self.of)(machine)(group, *values, **dict(self.options))


def nothing(machine: Any, group: Any, *values: Any) -> None:
    """The effect of an instruction that changes nothing that is simulated."""


def moves(machine: Any, group: Any, data: Any) -> Any:
    """The effect of a plain load or store: what is read is what is written.

    >>> moves(None, None, 7)
    7
    """
    return data


@dataclass(frozen=True, slots=True)
class Instr:
    """An instruction: `operands`, helper `text`, `effect`, and when it may run.

    >>> Instr("nop", (), "", lambda machine, group: None).requires.sm
    70
    """

    name: str
    operands: tuple[Operand, ...]
    text: str
    effect: Effect = moves
    requires: Requires = Requires()
    engine: str | None = None
    ready: Callable[[Any, Any], bool] | None = None
    float_text: str = ""
    uses: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The machine's method that is its effect, or empty; a method of an engine has a dot."""
        return self.effect.of if isinstance(self.effect, Asked) else ""

    def __str__(self) -> str:
        return self.name


def table(make: Callable[[Key], Instr], keys: Iterable[Key]) -> Mapping[Key, Instr]:
    """Instructions by what tells them apart, such as the bytes of a lane.

    >>> dict(table(lambda n: Instr(f"nop{n}", (), ""), (1, 2)))[2].name
    'nop2'
    """
    return MappingProxyType({key: make(key) for key in keys})


def of_any(
    name: str, operands: tuple[Operand, ...], text: str, effect: Effect = moves,
    requires: Requires = Requires(),
) -> Instr:  # fmt: skip
    """An instruction with ANY operands, whose type is WORD in the text.

    >>> of_any("move", (), "void move(WORD& d, WORD v) { d = v; }").float_text
    'void move(float& d, float v) { d = v; }'
    """
    bits, floats = (text.replace("WORD", kind) for kind in ("u32", "float"))
    return Instr(name, operands, bits, effect, requires, float_text=floats)


_DECLARED = {"value": "u32 {}", "barrier": "u64* {}"}
_GIVEN = {"imm": '"n"({})', "value": '"r"({})', "barrier": '"r"(shared_address({}))'}
"""The parameter of an operand, and what an asm statement takes of it."""


def in_ptx(
    name: str, code: str, effect: Effect, *operands: Operand, requires: Requires,
    ready: Callable[[Any, Any], bool] | None = None,
) -> Instr:  # fmt: skip
    """An instruction that is one of PTX: its operands are `%0`, `%1` ... of `code`, and it orders memory.

    >>> print(in_ptx("meet", "bar.sync %0;", lambda *_: None, imm("n"), requires=Requires()).text)
    void meet() {
        asm volatile("bar.sync %0;" :: "n"(n) : "memory");
    }
    """
    parameters = ", ".join(_DECLARED[o.role].format(o.name) for o in operands if o.role in _DECLARED)
    inputs = ", ".join(_GIVEN[o.role].format(o.name) for o in operands)
    start = "\n        " if parameters else " "
    text = (
        f'void {name}({parameters}) {{\n    asm volatile("{code}"{start}'
        f'::{f" {inputs} " if inputs else ""}: "memory");\n}}'
    )
    uses = (ADDRESS,) if any(o.role == "barrier" for o in operands) else ()
    return Instr(name, operands, text, effect, requires, ready=ready, uses=uses)
