"""Loads, stores, cp.async, barriers of a block; moves, selects and shuffles of registers.

Loads and stores are tables keyed by the bytes that a lane moves: LDG[16] is a 16-byte global load.  Values of
1 and 2 bytes live zero-extended in one 32-bit word; vectors of 32 bytes, of global memory alone, need sm_100.

From sm_80 on: CP_ASYNC[n] starts a copy of n bytes per lane from global to shared memory; CP_COMMIT closes
the group of copies started since the last one; CP_WAIT(n) waits until at most the n newest groups of this
thread are unfinished.  Other threads' copies are visible only after a barrier that follows their wait.
CP_ASYNC_LINE[n] is CP_ASYNC[n] with the hint that the L2 fetch the whole line of 128 bytes: for lines of
which the rest is read soon.

From sm_90 on: GRID_WAIT waits until the kernels in front have ended and all that they wrote is visible; with
none in front it does nothing.  LDG_FRESH[n] is a load of n bytes of such data: it stays behind the wait, and
does not go through the read-only path, which may hold what was there when the kernel started.

Between the registers of a warp:

    SELECT           d = odd ? b : a                       a lane chooses between two of its registers
    BYTE_PERMUTE     any four bytes of two registers       selector 0x5410: low halves of both
    SHUFFLE_XOR      d = v of lane ^ mask                  lanes exchange in pairs
    SHUFFLE_LANE     d = v of any lane                     every lane asks for one
    REDUX            d = the sum, max or min of all lanes  integers, from sm_80 on

Atomics join a number of each lane to memory: ATOMICS["global", "add", "f32"] has no result, and FETCHES, of
the same keys and of "exch" and "cas", give what was there before.  Their order is undetermined, so that sums
of floats are exact only where every order gives the same.

Shuffles are `sync` over the whole warp: a lane that does not arrive is an error.  They order no memory: what
lanes wrote to shared memory still needs a barrier.

Sources: PTX ISA 9.0, 9.7.9.6 (shfl.sync), 9.7.7.8 (selp), redux.sync, 9.7.9.7 (prmt), 9.7.9.8 (ld), 9.7.9.9
(ld.global.nc), 9.7.9.12 (st), 9.7.9.25.3 (cp.async, cp.async.commit_group, cp.async.wait_group), 9.7.13.1
(barrier), 9.7.13.2 (bar.warp.sync), 9.7.13.6 (atom), 9.7.13.7 (red), 9.7.13.13 (griddepcontrol); CUDA C++
Programming Guide, "Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.record import (
    ANY,
    WARP,
    Asked,
    Instr,
    Requires,
    Space,
    guard,
    imm,
    in_ptx,
    into,
    nothing,
    of_any,
    out,
    read,
    table,
    update,
    value,
    write,
)
from layoutalg.codegen.instr.words import at, double_at, doubles, holes, ref

WIDTHS_BYTES = (1, 2, 4, 8, 16)
"""Bytes a lane can load or store at once, in any memory."""

WIDE_BYTES = 32
"""The same from sm_100 on, in global memory alone."""

GLOBAL: Space = "global"
SHARED: Space = "shared"
_GLOBAL_BYTES = (*WIDTHS_BYTES, WIDE_BYTES)
_CARRIER = {1: "u8", 2: "u16", 4: "u32", 8: "uint2", 16: "uint4", WIDE_BYTES: "Words"}
_FIELDS = "xyzwabcd"
_DECLARED = {WIDE_BYTES: "    struct alignas(32) Words { u32 x, y, z, w, a, b, c, d; };\n"}
"""A vector that CUDA does not have: what is aligned to its size, nvcc moves by one instruction."""


def _needs(nbytes: int) -> Requires:
    return Requires(sm=100) if nbytes == WIDE_BYTES else Requires()


def _element(nbytes: int) -> str:
    """The element of a load: that of a narrow value, zero-extended in its word, is left to its user."""
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
        head = f"void {name}({kind}* d, const void* p) {{\n{_DECLARED.get(nbytes, '')}"
        return f"{head}    const {carrier} q = {source};\n    {takes}\n}}"

    words, floats = _both(nbytes, text, "__uint_as_float")
    operands = (
        out("d", max(1, nbytes // 4), _element(nbytes)), read("p", space, nbytes, f"ld.{space}.b{8 * nbytes}")
    )  # fmt: skip
    return Instr(name, operands, words, requires=_needs(nbytes), float_text=floats)


def _store(prefix: str, space: Space, nbytes: int) -> Instr:
    name, carrier = f"{prefix}{8 * nbytes}", _CARRIER[nbytes]
    target = f"*static_cast<{carrier}*>(p)"

    def text(kind: str, typed: Callable[[str], str]) -> str:
        if nbytes <= 4:
            word = typed("v") if nbytes == 4 else f"static_cast<{carrier}>(v)"
            return f"void {name}(void* p, const {kind}& v) {{ {target} = {word}; }}"
        words = ", ".join(typed(f"v[{i}]") for i in range(nbytes // 4))
        head = f"void {name}(void* p, const {kind}* v) {{\n{_DECLARED.get(nbytes, '')}"
        made = f"{carrier}{{{words}}}" if nbytes in _DECLARED else f"make_{carrier}({words})"
        return f"{head}    {target} = {made};\n}}"

    words, floats = _both(nbytes, text, "__float_as_uint")
    operands = (
        write("p", space, nbytes, f"st.{space}.b{8 * nbytes}"),
        into("v", max(1, nbytes // 4), _element(nbytes)),
    )
    return Instr(name, operands, words, requires=_needs(nbytes), float_text=floats)


def _store_whole(nbytes: int) -> Instr:
    name, words = f"stg{8 * nbytes}_whole", nbytes // 4

    def text(kind: str, typed: Callable[[str], str]) -> str:
        values = ", ".join(f'"r"({typed(f"v[{i}]")})' for i in range(words))
        return (
            f"void {name}(void* p, const {kind}* v) {{\n"
            f'    asm volatile("st.global.v{words}.b32 [%0], {holes(1, words)};"\n'
            f'        :: "l"(p), {values});\n'
            "}"
        )

    bits, floats = _both(nbytes, text, "__float_as_uint")
    operands = (write("p", "global", nbytes, f"st.global.b{8 * nbytes}"), into("v", words, ANY))
    return Instr(name, operands, bits, requires=_needs(nbytes), float_text=floats)


def _zeros(words: int, machine: Any, group: Any) -> Any:
    return numpy.zeros((group.lanes, words), numpy.uint32)


def _clear(nbytes: int) -> Instr:
    name, words = f"clear{8 * nbytes}", max(1, nbytes // 4)

    zeros = " ".join(f"{at('d', i, words)} = 0;" for i in range(words))
    text = f"void {name}({ref('d', words).replace('u32', 'WORD')}) {{ {zeros} }}"
    return of_any(name, (out("d", words, ANY),), text, partial(_zeros, words))


LDG = table(partial(_load, "ldg", "global"), _GLOBAL_BYTES)
STG = table(partial(_store, "stg", "global"), _GLOBAL_BYTES)
STG_WHOLE = table(lambda n: _store_whole(n) if n > 4 else STG[n], _GLOBAL_BYTES)
"""Stores that stay one: under a branch the compiler splits vectors of STG into single words, which costs
four times the sectors.  No memory clobber: they may not write what the kernel loads."""

LDS = table(partial(_load, "lds", "shared"), WIDTHS_BYTES)
STS = table(partial(_store, "sts", "shared"), WIDTHS_BYTES)
CLEAR = table(_clear, _GLOBAL_BYTES)
"""Registers set to zero: what replaces a load in lanes that must not load."""


BAR = Instr(
    "block_sync",
    (),
    "void block_sync() { __syncthreads(); }",
    Asked("arrive_block_barrier"),
    Requires(block_converged=True),
    ready=Asked("block_barrier_open"),
)
"""bar.sync 0: every thread of the block arrives, then all go on."""


WARP_SYNC = Instr(
    "warp_sync", (), "void warp_sync() { __syncwarp(); }", Asked("sync_warp"),
    Requires(warp_converged=True),
)  # fmt: skip
"""bar.warp.sync of all lanes: what one lane wrote, the others may read after it."""


def _interleave16(machine: Any, group: Any, a: Any, b: Any) -> Any:
    low = (a & 0xFFFF) | (b & 0xFFFF) << 16
    high = a >> 16 | b & 0xFFFF0000
    return numpy.concatenate([low, high], axis=1)


def _interleave8(machine: Any, group: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    def column(i: int) -> Any:
        x, y, z, w = ((v >> 8 * i) & 0xFF for v in (a, b, c, d))
        return x | y << 8 | z << 16 | w << 24

    return numpy.concatenate([column(i) for i in range(4)], axis=1)


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

MOVE = of_any(
    "move32", (out("d", 1, ANY), into("v", 1, ANY)), "void move32(WORD& d, const WORD& v) { d = v; }"
)
"""A word copied between registers: it costs nothing once registers are allocated."""


# --- asynchronous copies -----------------------------------------------------------------------------------


def _cp_async(nbytes: int, suffix: str = "", hint: str = "", *, guarded: bool = False) -> Instr:
    name, cache, op = f"cp_async_{nbytes}{suffix}", "cg" if nbytes == 16 else "ca", f"cp.async.{nbytes}"
    parameter, hole, size = (
        (", bool inside", ", %2", f', "r"(inside ? {nbytes} : 0)') if guarded else ("", "", "")
    )
    ptx = f"cp.async.{cache}.shared.global{hint} [%0], [%1], {nbytes}{hole};"
    text = (
        f"void {name}(void* s, const void* p{parameter}) {{\n"
        "    const u32 to = static_cast<u32>(__cvta_generic_to_shared(s));\n"
        f'    asm volatile("{ptx}" :: "r"(to), "l"(p){size} : "memory");\n'
        "}"
    )
    guards = (guard("inside"),) if guarded else ()
    operands = (write("s", "shared", nbytes, op), read("p", "global", nbytes, f"{op}:global"), *guards)
    return Instr(name, operands, text, requires=Requires(sm=80), engine="cp.async")


_COPIED_BYTES = (4, 8, 16)

CP_ASYNC = table(_cp_async, _COPIED_BYTES)
CP_ASYNC_ZFILL = table(partial(_cp_async, suffix="_zfill", guarded=True), _COPIED_BYTES)
"""The same, but where the guard fails nothing is read and zeros are written."""

CP_ASYNC_LINE = table(partial(_cp_async, suffix="_line", hint=".L2::128B"), _COPIED_BYTES)
"""The same, and the L2 fetches the whole line."""


CP_COMMIT = in_ptx(
    "cp_async_commit", "cp.async.commit_group;", Asked("commit_copies"),
    requires=Requires(sm=80),
)  # fmt: skip
CP_WAIT = in_ptx(
    "cp_async_wait", "cp.async.wait_group %0;",
    Asked("wait_copies"), imm("newest"),
    requires=Requires(sm=80),
)  # fmt: skip


# --- atomics -----------------------------------------------------------------------------------------------

_OWN = {"f32": "float", "f64": "double", "s32": "int", "u32": "u32", "s64": "long long", "u64": "u64"}
"""The types that have atomics, and their names in C."""


def _atomic(key: tuple[Space, str, str], *, fetch: bool = False) -> Instr:
    space, op, element = key
    nbytes, swaps = int(element[1:]) // 8, op in ("exch", "cas")
    # of integers in two's complement a sum is the same with a sign and without, and C++ has it without alone
    own = _OWN[f"u{8 * nbytes}" if swaps or (op == "add" and element[0] == "s") else element]
    word, words = ("f32" if own == "float" else ""), nbytes // 4
    given = ("compare", "v") if op == "cas" else ("v",)
    name = f"{'fetch' if fetch else 'atomic'}_{op}_{element}_{space}"
    called = "CAS" if op == "cas" else op.capitalize()
    call = f"atomic{called}(static_cast<{own}*>(p), {', '.join(_number(own, x) for x in given)})"
    parameters = ["void* p", *(ref(x, words, word, const=True) for x in given)]
    lines = f"    {call};\n"
    if fetch:
        parameters.insert(0, ref("d", words, word))
        old = call if own in ("float", "double", "u32", "u64") else f"static_cast<u{8 * nbytes}>({call})"
        lines = f"    d = {old};\n" if words == 1 else (
            doubles(1, lambda _: old, "d") if own == "double" else
            f"    const u64 old = {old};\n    d[0] = static_cast<u32>(old);\n    d[1] = old >> 32;\n"
        )  # fmt: skip
    effect = Asked("update", (("op", op), ("element", element), ("fetch", fetch)))
    target = update("p", space, nbytes, f"{'atom' if fetch else 'red'}.{space}.{op}.{element}")
    operands = (target, *(into(x, words, word) for x in given))
    text = f"void {name}({', '.join(parameters)}) {{\n{lines}}}"
    return Instr(name, (out("d", words, word), *operands) if fetch else operands, text, effect)


def _number(own: str, x: str) -> str:
    """An operand's words as a number of C."""
    if own in ("long long", "u64"):
        return f"static_cast<{own}>(static_cast<u64>({x}[1]) << 32 | {x}[0])"
    return double_at(x, 0) if own == "double" else x if own == "float" else f"static_cast<{own}>({x})"


_JOINED: list[tuple[Space, str, str]] = [
    (space, op, element)
    for space in (GLOBAL, SHARED)
    for op in ("add", "max", "min")
    for element in _OWN
    if op == "add" or element[0] != "f"
]
_SWAPPED: list[tuple[Space, str, str]] = [
    (space, op, element) for space in (GLOBAL, SHARED) for op in ("exch", "cas") for element in _OWN
]

ATOMICS: Mapping[tuple[Space, str, str], Instr] = table(_atomic, _JOINED)
"""An atomic by space, operation and element."""

FETCHES: Mapping[tuple[Space, str, str], Instr] = table(partial(_atomic, fetch=True), _JOINED + _SWAPPED)
"""Atomics that give what was there before; "exch" puts a number there, "cas" where the bits are `compare`."""


# --- kernels that start early ------------------------------------------------------------------------------


def _fresh(nbytes: int) -> Instr:
    name, words, bits = f"ldg{8 * nbytes}_fresh", max(1, nbytes // 4), 8 * min(nbytes, 4)
    load = f"u{bits} %0, [%1];" if words == 1 else f"v{words}.b32 {holes(0, words)}, [%{words}];"

    def text(kind: str) -> str:
        parameters = f"{kind}{'&' if words == 1 else '*'} d, const void* p"
        held, before, after = "d", "", ""
        if kind == "float":
            held, before = "w", f"    u32 w{f'[{words}]' if words > 1 else ''};\n"
            after = "".join(
                f"    {at('d', i, words)} = __uint_as_float({at('w', i, words)});\n" for i in range(words)
            )
        takes = ", ".join(f'"=r"({at(held, i, words)})' for i in range(words))
        return (
            f'void {name}({parameters}) {{\n{before}    asm volatile("ld.global.{load}"\n'
            f'        : {takes} : "l"(p) : "memory");\n{after}}}'
        )

    operands = (
        out("d", words, ANY if nbytes >= 4 else ""), read("p", "global", nbytes, f"ld.global.b{8 * nbytes}")
    )  # fmt: skip
    floats = text("float") if nbytes >= 4 else ""
    return Instr(name, operands, text("u32"), requires=_needs(nbytes), float_text=floats)


LDG_FRESH = table(_fresh, _GLOBAL_BYTES)

GRID_WAIT = in_ptx(
    "grid_wait", "griddepcontrol.wait;",
    nothing,  # the simulator runs kernels one after the other
    requires=Requires(sm=90),
)  # fmt: skip


def _select(machine: Any, group: Any, a: Any, b: Any, odd: Any) -> Any:
    return numpy.where(odd & 1, b, a)


SELECT = of_any(
    "select32",
    (out("d", 1, ANY), into("a", 1, ANY), into("b", 1, ANY), value("odd")),
    "void select32(WORD& d, WORD a, WORD b, u32 odd) { d = odd & 1 ? b : a; }",
    _select,
)
"""d = b in lanes where `odd` is odd, a in the others."""


def _byte_permute(machine: Any, group: Any, a: Any, b: Any, selector: int) -> Any:
    total = numpy.zeros_like(a)
    for i in range(4):
        pick = selector >> 4 * i & 7
        total |= ((b if pick & 4 else a) >> numpy.uint32(8 * (pick & 3)) & 0xFF) << numpy.uint32(8 * i)
    return total


BYTE_PERMUTE = Instr(
    "byte_permute",
    (out("d", 1), into("a", 1), into("b", 1), imm("selector")),
    "void byte_permute(u32& d, u32 a, u32 b) { d = __byte_perm(a, b, selector); }",
    _byte_permute,
)
"""Byte i of d is byte number `selector >> 4 i & 7` of the eight of a and b, a's first."""


def _shuffled(group: Any, v: Any, source: Any) -> Any:
    """Each lane's `v` from lane `source` of its warp."""
    lane = numpy.arange(group.lanes)
    return v[lane // WARP * WARP + source]


def _shuffle_xor(machine: Any, group: Any, v: Any, mask: int) -> Any:
    return _shuffled(group, v, numpy.arange(group.lanes) % WARP ^ mask)


SHUFFLE_XOR = of_any(
    "shuffle_xor",
    (out("d", 1, ANY), into("v", 1, ANY), imm("mask")),
    "void shuffle_xor(WORD& d, WORD v) { d = __shfl_xor_sync(0xFFFFFFFFu, v, mask); }",
    _shuffle_xor,
    Requires(warp_converged=True),
)
"""d = v of the lane whose number differs in the bits of `mask`: shfl.sync.bfly."""


def _shuffle_lane(machine: Any, group: Any, v: Any, lane: Any) -> Any:
    return _shuffled(group, v, lane[:, 0] % WARP)


SHUFFLE_LANE = of_any(
    "shuffle_lane",
    (out("d", 1, ANY), into("v", 1, ANY), value("lane")),
    "void shuffle_lane(WORD& d, WORD v, u32 lane) "
    "{ d = __shfl_sync(0xFFFFFFFFu, v, static_cast<int>(lane)); }",
    _shuffle_lane,
    Requires(warp_converged=True),
)
"""d = v of lane `lane`, modulo 32: shfl.sync.idx."""


def _reduced(join: Any, machine: Any, group: Any, v: Any) -> Any:
    with numpy.errstate(over="ignore"):
        of_warp = join.reduce(v.view(numpy.int32).reshape(-1, WARP, 1), axis=1, dtype=numpy.int32)
    return numpy.repeat(of_warp, WARP, axis=0).view(numpy.uint32)


def _redux(op: str, call: str, join: numpy.ufunc) -> Instr:
    """redux.sync of all lanes of a warp, of s32."""
    name = f"redux_{op}_s32"
    text = (
        f"void {name}(u32& d, u32 v) {{\n"
        f"    d = static_cast<u32>(__reduce_{call}_sync(0xFFFFFFFFu, static_cast<int>(v)));\n}}"
    )
    requires = Requires(sm=80, warp_converged=True)
    return Instr(name, (out("d", 1), into("v", 1)), text, partial(_reduced, join), requires)


REDUX: Mapping[str, Instr] = MappingProxyType(
    {
        "sum": _redux("sum", "add", numpy.add),
        "max": _redux("max", "max", numpy.maximum),
        "min": _redux("min", "min", numpy.minimum),
    }
)
"""redux.sync by operation: every lane gets the result of all 32; sums wrap."""
