"""Instructions every supported architecture has: loads, stores, barriers, byte permutes.

Loads and stores are tables keyed by the bytes a lane moves: LDG[16] is a 16-byte global load.  Values of
1 and 2 bytes live zero-extended in one 32-bit word.

Sources: PTX ISA 9.0, 9.7.9.8 (ld), 9.7.9.12 (st), 9.7.13.1 (barrier), 9.7.13.2
(bar.warp.sync), 9.7.9.7 (prmt).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr.record import ANY, Instr, Requires, Space, into, out, read, write

WIDTHS_BYTES = (1, 2, 4, 8, 16)
"""Bytes a lane can load or store at once."""

_CARRIER = {1: "u8", 2: "u16", 4: "u32", 8: "uint2", 16: "uint4"}
_FIELDS = "xyzw"


def _element(nbytes: int) -> str:
    """What a narrow value is, zero-extended in its word, only who computes with it says."""
    return ANY if nbytes >= 4 else ""


def _both(nbytes: int, text: Callable[[str, Callable[[str], str]], str], cast: str) -> tuple[str, str]:
    """The texts for words and, where there are whole ones, for floats, whose words are `cast`.

    Memory is accessed as words in both: what is moved keeps its bits, and nvcc joins accesses of one type.
    """
    floats = text("float", lambda word: f"{cast}({word})") if nbytes >= 4 else ""
    return text("u32", lambda word: word), floats


def _load(prefix: str, space: Space, nbytes: int) -> Instr:
    name, carrier = f"{prefix}{8 * nbytes}", _CARRIER[nbytes]
    source = f"*static_cast<const {carrier}*>(p)"

    def text(kind: str, typed: Callable[[str], str]) -> str:
        if nbytes <= 4:
            body = f"d = {typed(source)};"
            inner = f" {body} " if kind == "u32" else f"\n    {body}\n"
            return f"void {name}({kind}& d, const void* p) {{{inner}}}"
        ends = " " if kind == "u32" else "\n    "
        takes = ends.join(f"d[{i}] = {typed(f'q.{_FIELDS[i]}')};" for i in range(nbytes // 4))
        return f"void {name}({kind}* d, const void* p) {{\n    const {carrier} q = {source};\n    {takes}\n}}"

    words, floats = _both(nbytes, text, "__uint_as_float")
    operands = (
        out("d", max(1, nbytes // 4), _element(nbytes)), read("p", space, nbytes, f"ld.{space}.b{8 * nbytes}")
    )  # fmt: skip
    return Instr(name, operands, words, float_text=floats)


def _store(prefix: str, space: Space, nbytes: int) -> Instr:
    name, carrier = f"{prefix}{8 * nbytes}", _CARRIER[nbytes]
    target = f"*static_cast<{carrier}*>(p)"

    def text(kind: str, typed: Callable[[str], str]) -> str:
        if nbytes <= 4:
            word = typed("v") if nbytes == 4 else f"static_cast<{carrier}>(v)"
            return f"void {name}(void* p, const {kind}& v) {{ {target} = {word}; }}"
        words = ", ".join(typed(f"v[{i}]") for i in range(nbytes // 4))
        return f"void {name}(void* p, const {kind}* v) {{\n    {target} = make_{carrier}({words});\n}}"

    words, floats = _both(nbytes, text, "__float_as_uint")
    operands = (
        write("p", space, nbytes, f"st.{space}.b{8 * nbytes}"),
        into("v", max(1, nbytes // 4), _element(nbytes)),
    )
    return Instr(name, operands, words, float_text=floats)


def _store_whole(nbytes: int) -> Instr:
    name, words = f"stg{8 * nbytes}_whole", nbytes // 4
    places = ", ".join(f"%{i + 1}" for i in range(words))

    def text(kind: str, typed: Callable[[str], str]) -> str:
        values = ", ".join(f'"r"({typed(f"v[{i}]")})' for i in range(words))
        return (
            f"void {name}(void* p, const {kind}* v) {{\n"
            f'    asm volatile("st.global.v{words}.b32 [%0], {{{places}}};"\n        :: "l"(p), {values});\n'
            "}"
        )

    bits, floats = _both(nbytes, text, "__float_as_uint")
    operands = (write("p", "global", nbytes, f"st.global.b{8 * nbytes}"), into("v", words, ANY))
    return Instr(name, operands, bits, float_text=floats)


def _clear(nbytes: int) -> Instr:
    name, words = f"clear{8 * nbytes}", max(1, nbytes // 4)

    def text(kind: str) -> str:
        if words == 1:
            return f"void {name}({kind}& d) {{ d = 0; }}"
        return f"void {name}({kind}* d) {{ {' '.join(f'd[{i}] = 0;' for i in range(words))} }}"

    def zeros(machine: Any, group: Any) -> Any:
        import numpy

        return numpy.zeros((group.lanes, words), dtype=numpy.uint32)

    return Instr(name, (out("d", words, ANY),), text("u32"), zeros, float_text=text("float"))


def _table(make: Callable[[str, Space, int], Instr], prefix: str, space: Space) -> Mapping[int, Instr]:
    return MappingProxyType({n: make(prefix, space, n) for n in WIDTHS_BYTES})


LDG = _table(_load, "ldg", "global")
STG = _table(_store, "stg", "global")
STG_WHOLE = MappingProxyType({n: _store_whole(n) if n > 4 else STG[n] for n in WIDTHS_BYTES})
"""Stores that stay one: under a branch the compiler splits vectors of STG into single words, which costs
four times the sectors.  No memory clobber: they may not write what the kernel loads."""

LDS = _table(_load, "lds", "shared")
STS = _table(_store, "sts", "shared")
CLEAR = MappingProxyType({n: _clear(n) for n in WIDTHS_BYTES})
"""Registers set to zero: what stands in for a load in lanes that must not load."""


def _arrive(machine: Any, group: Any) -> None:
    machine.arrive_block_barrier(group)


def _released(machine: Any, group: Any) -> bool:
    return bool(machine.block_barrier_open(group))


BAR = Instr(
    "block_sync",
    (),
    "void block_sync() { __syncthreads(); }",
    _arrive,
    Requires(block_converged=True),
    ready=_released,
)
"""bar.sync 0: every thread of the block arrives, then all go on."""


def _meet(machine: Any, group: Any) -> None:
    machine.sync_warp(group)


WARP_SYNC = Instr("warp_sync", (), "void warp_sync() { __syncwarp(); }", _meet, Requires(warp_converged=True))
"""bar.warp.sync of all lanes: what one lane wrote, the others may read after it."""


def _interleave16(machine: Any, group: Any, a: Any, b: Any) -> Any:
    low = (a & 0xFFFF) | (b & 0xFFFF) << 16
    high = a >> 16 | b & 0xFFFF0000
    return _stack(low, high)


def _interleave8(machine: Any, group: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    def column(i: int) -> Any:
        x, y, z, w = ((v >> 8 * i) & 0xFF for v in (a, b, c, d))
        return x | y << 8 | z << 16 | w << 24

    return _stack(*map(column, range(4)))


def _stack(*columns: Any) -> Any:
    import numpy

    return numpy.concatenate(columns, axis=1)


TRANSPOSE_16 = Instr(
    "transpose_2x2_b16",
    (out("t", 2), into("a", 1), into("b", 1)),
    "void transpose_2x2_b16(u32* t, u32 a, u32 b) {\n"
    "    t[0] = __byte_perm(a, b, 0x5410);\n"
    "    t[1] = __byte_perm(a, b, 0x7632);\n"
    "}",
    _interleave16,
)
"""Words a, b hold two halves of two rows; word i of the result holds half i of both."""

TRANSPOSE_8 = Instr(
    "transpose_4x4_b8",
    (out("t", 4), into("a", 1), into("b", 1), into("c", 1), into("d", 1)),
    "void transpose_4x4_b8(u32* t, u32 a, u32 b, u32 c, u32 d) {\n"
    "    const u32 ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);\n"
    "    const u32 cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);\n"
    "    t[0] = __byte_perm(ab_low, cd_low, 0x5410);\n"
    "    t[1] = __byte_perm(ab_low, cd_low, 0x7632);\n"
    "    t[2] = __byte_perm(ab_high, cd_high, 0x5410);\n"
    "    t[3] = __byte_perm(ab_high, cd_high, 0x7632);\n"
    "}",
    _interleave8,
)
"""Words a, b, c, d hold four bytes of four rows; word i of the result holds byte i of all four."""

MOVE = Instr(
    "move32",
    (out("d", 1, ANY), into("v", 1, ANY)),
    "void move32(u32& d, const u32& v) { d = v; }",
    float_text="void move32(float& d, const float& v) { d = v; }",
)
"""A word copied between registers: it costs nothing once registers are allocated."""

INSTRUCTIONS: Mapping[str, Instr] = MappingProxyType(
    {
        i.name: i
        for i in (
            *LDG.values(), *STG.values(), STG_WHOLE[8], STG_WHOLE[16], *LDS.values(), *STS.values(),
            *CLEAR.values(), BAR, WARP_SYNC, MOVE, TRANSPOSE_16, TRANSPOSE_8,
        )
    }
)  # fmt: skip
"""Every instruction of this module by name."""
