"""Instructions that move words between the registers of a warp: select, byte permute, warp shuffle; redux.

    SELECT           d = odd ? b : a                       a lane chooses between two of its registers
    BYTE_PERMUTE     any four bytes of two registers       selector 0x5410: low halves of both
    SHUFFLE_XOR      d = v of lane ^ mask                  lanes exchange in pairs
    SHUFFLE_LANE     d = v of any lane                     every lane asks for one
    REDUX            d = the sum, max or min of all lanes  integers, from sm_80 on

Notes.  Shuffles are `sync` over the whole warp: a lane that does not arrive is an error.  They order no
memory: what lanes wrote to shared memory still needs a barrier.

Sources: PTX ISA 9.0, 9.7.9.6 (shfl.sync), 9.7.9.7 (prmt), 9.7.7.8 (selp); redux.sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.record import ANY, WARP, Instr, Requires, imm, into, out, value


def _select(machine: Any, group: Any, a: Any, b: Any, odd: Any) -> Any:
    return numpy.where(odd & 1, b, a)


SELECT = Instr(
    "select32",
    (out("d", 1, ANY), into("a", 1, ANY), into("b", 1, ANY), value("odd")),
    "void select32(u32& d, u32 a, u32 b, u32 odd) { d = odd & 1 ? b : a; }",
    _select,
    float_text="void select32(float& d, float a, float b, u32 odd) { d = odd & 1 ? b : a; }",
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


def _shuffle_lane(machine: Any, group: Any, v: Any, lane: Any) -> Any:
    return _shuffled(group, v, lane[:, 0] % WARP)


SHUFFLE_XOR = Instr(
    "shuffle_xor",
    (out("d", 1, ANY), into("v", 1, ANY), imm("mask")),
    "void shuffle_xor(u32& d, u32 v) { d = __shfl_xor_sync(0xFFFFFFFFu, v, mask); }",
    _shuffle_xor,
    Requires(warp_converged=True),
    float_text="void shuffle_xor(float& d, float v) { d = __shfl_xor_sync(0xFFFFFFFFu, v, mask); }",
)
"""d = v of the lane whose number differs in the bits of `mask`: shfl.sync.bfly."""

SHUFFLE_LANE = Instr(
    "shuffle_lane",
    (out("d", 1, ANY), into("v", 1, ANY), value("lane")),
    "void shuffle_lane(u32& d, u32 v, u32 lane) { d = __shfl_sync(0xFFFFFFFFu, v, static_cast<int>(lane)); }",
    _shuffle_lane,
    Requires(warp_converged=True),
    float_text="void shuffle_lane(float& d, float v, u32 lane) "
    "{ d = __shfl_sync(0xFFFFFFFFu, v, static_cast<int>(lane)); }",
)
"""d = v of lane `lane`, modulo 32: shfl.sync.idx."""


def _redux(op: str, call: str, join: Any) -> Instr:
    """redux.sync of all lanes of a warp, of s32."""

    def effect(machine: Any, group: Any, v: Any) -> Any:
        with numpy.errstate(over="ignore"):
            of_warp = join(v.view(numpy.int32).reshape(-1, WARP, 1), axis=1, dtype=numpy.int32)
        return numpy.repeat(of_warp, WARP, axis=0).view(numpy.uint32)

    name = f"redux_{op}_s32"
    text = (
        f"void {name}(u32& d, u32 v) {{\n"
        f"    d = static_cast<u32>(__reduce_{call}_sync(0xFFFFFFFFu, static_cast<int>(v)));\n}}"
    )
    requires = Requires(sm=80, warp_converged=True)
    return Instr(name, (out("d", 1), into("v", 1)), text, effect, requires)


REDUX: Mapping[str, Instr] = MappingProxyType(
    {
        "sum": _redux("sum", "add", numpy.add.reduce),
        "max": _redux("max", "max", numpy.maximum.reduce),
        "min": _redux("min", "min", numpy.minimum.reduce),
    }
)
"""redux.sync by operation: every lane gets the result of all 32; sums wrap."""
