"""Checks of layouts: what is true of a tile, what accesses to it cost, and what it is legal for.

[[layout]]
tile = "a"
limits = ["bijective", "extra_bytes <= 0", "legal for TMA", "equals Sw<3,3,3> o 0 o (64,64):(64,1)"]

[[access]]
tile = "a"
access = ["ldmatrix.x4", "st.shared.b128"]
limits = ["wavefronts <= ideal"]

[[tma]]
tensor = "(4096,1024):(1024,1)"
box = "(64,64)"
mode = "128B"
tile = "a"

[[wgmma]]
tile = "a"
operand = "A"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from layoutalg.algebra import make_ordered_layout
from layoutalg.analysis import Access, Report, analyze_access
from layoutalg.arch import HOPPER_MODES, Arch, find_instruction
from layoutalg.checks.fields import (
    ARCH,
    DTYPE,
    TILE,
    Field,
    Kind,
    Reading,
    Values,
    a_layout,
    a_name,
    a_text,
    a_tile,
    a_whole_number,
    an_int_tuple,
    one_of,
)
from layoutalg.checks.limits import Property, Quantities, Quantity, by_name
from layoutalg.decide import cosize, find_collision, find_difference, image_size
from layoutalg.dtype import DType
from layoutalg.errors import MismatchError
from layoutalg.layout import AnyLayout, ComposedLayout, size
from layoutalg.legality import Legality, check_memory, check_tma, check_wgmma
from layoutalg.testing import Scope, check_bijective


class Tile(NamedTuple):
    """The subject of a layout's limits."""

    layout: AnyLayout
    element: DType
    arch: Arch


def _bytes(elements: int, tile: Tile) -> int:
    return -(-elements * tile.element.bits // 8)


def _extra_bytes(tile: Tile) -> int:
    return _bytes(cosize(tile.layout), tile) - _bytes(image_size(tile.layout), tile)


QUANTITIES = by_name(
    Quantity("size", "coordinates", None, lambda t: size(t.layout)),
    Quantity("cosize", "the greatest offset and one, in elements", "less", lambda t: cosize(t.layout)),
    Quantity("bytes", "bytes up to the last element", "less", lambda t: _bytes(cosize(t.layout), t)),
    Quantity("extra_bytes", "bytes up to the last element that hold none", "less", _extra_bytes),
)
"""The quantities of layouts."""


def _collides(tile: Tile, _: object) -> str:
    pair = find_collision(tile.layout)
    if pair is None:
        return ""
    return f"coordinates {pair[0]} and {pair[1]} share the offset {tile.layout(pair[0])}"


def _not_bijective(tile: Tile, _: object) -> str:
    try:
        check_bijective(tile.layout)
    except MismatchError as error:
        return error.message
    return ""


def _differs(tile: Tile, other: AnyLayout) -> str:
    if size(other) != size(tile.layout):
        return f"it has {size(tile.layout)} coordinates, and {other} has {size(other)}"
    index = find_difference(tile.layout, other)
    if index is None:
        return ""
    return f"at the flat index {index} it is {tile.layout(index)}, and {other} is {other(index)}"


def _no_box(tile: Tile, _: object) -> str:
    """Why no box of a dense tensor is written as this layout: what each mode says."""
    inner = tile.layout
    while isinstance(inner, ComposedLayout):
        inner = inner.inner
    refusals = []
    for mode in HOPPER_MODES:
        # the tensor's leaves are stored in the order of the tile's strides, innermost first
        tensor = make_ordered_layout(inner.shape, inner.stride)
        verdict = check_tma(tensor, inner.shape, tile.element, mode=mode, shared=tile.layout, arch=tile.arch)
        if verdict.legal:
            return ""
        refusals.append(f"{mode}: {verdict.violations[0]}")
    return "; ".join(refusals)


def _not_operand(operand: Any) -> Property:
    def broken(tile: Tile, _: object) -> str:
        return _refused(check_wgmma(tile.layout, tile.element, operand, arch=tile.arch), None)

    return Property(f"legal for wgmma {operand}", f"wgmma reads the tile as its operand {operand}", broken)


def _refused(verdict: Legality[Any], _: object) -> str:
    return "; ".join(map(str, verdict.violations))


LEGAL = Property("legal", "no rule of the instruction is broken", _refused)

PROPERTIES = by_name(
    Property("injective", "no two coordinates share an offset", _collides),
    Property("bijective", "the offsets are 0 to size - 1, each once", _not_bijective),
    Property("equals ", "the same offset at every coordinate as a layout", _differs, a_tile),
    Property("legal for TMA", "a box of a dense tensor is written as this layout in some mode", _no_box),
    _not_operand("A"),
    _not_operand("B"),
)
"""The properties of layouts."""

LAYOUT = Kind(
    "layout",
    "what is true of a tile",
    (TILE, DTYPE, ARCH),
    lambda values: Tile(values["tile"], values["dtype"], values["arch"]),
    lambda table: str(table["tile"]),
    lambda values: QUANTITIES,
    lambda values: PROPERTIES,
    scope=lambda values, tile, part, allowed: Scope("coordinates", size(tile.layout)),
)


def _legal(
    name: str,
    what: str,
    fields: tuple[Field, ...],
    verdict: Callable[[Values], Legality[Any]],
    label: Callable[[Mapping[str, Any]], str],
) -> Kind:
    """A kind whose checks hold a request against the rules of an instruction."""
    return Kind(
        name, what, (*fields, DTYPE, ARCH), verdict, label,
        scope=lambda values, verdict, part, allowed: Scope("rules", len(verdict.rules)),
        properties=lambda values: by_name(LEGAL), always=("legal",),
    )  # fmt: skip


_MODES = one_of(*(mode.name for mode in HOPPER_MODES))

TMA = _legal(
    "tma",
    "whether TMA copies boxes of a tensor, and what it then writes",
    (
        Field("tensor", "a layout in CuTe notation", a_layout, required=True),
        Field("box", 'extents as a text, such as "(64,64)"', an_int_tuple, required=True),
        Field("mode", "none, 32B, 64B or 128B", _MODES, default="none"),
        Field("tile", "the layout that the box has in shared memory", TILE.read),
    ),
    lambda v: check_tma(v["tensor"], v["box"], v["dtype"], mode=v["mode"], shared=v["tile"], arch=v["arch"]),
    lambda table: f"boxes {table['box']} of {table['tensor']}",
)

WGMMA = _legal(
    "wgmma",
    "whether wgmma reads a tile as an operand",
    (
        TILE,
        Field("operand", "A or B", one_of("A", "B"), required=True),
        Field("major", "K or MN", one_of("K", "MN")),
        Field("n", "the N of the instruction", a_whole_number(8, 256)),
    ),
    lambda v: check_wgmma(v["tile"], v["dtype"], v["operand"], major=v["major"], n=v["n"], arch=v["arch"]),
    lambda table: f"{table['tile']} as operand {table['operand']}",
)

MEMORY = _legal(
    "memory",
    "whether ld, st, ldmatrix, stmatrix or cp.async may move a tile",
    (
        TILE,
        Field("op", "an instruction such as cp.async.cg.16 or ld.shared.v4.f32", a_name, required=True),
        Field("source", "of cp.async, the layout in global memory", TILE.read),
        Field("alignment", "bytes that the tile's address is a multiple of", a_whole_number(1), default=256),
    ),
    lambda v: check_memory(
        v["op"], v["tile"], v["dtype"], source=v["source"], alignment_bytes=v["alignment"], arch=v["arch"]
    ),
    lambda table: f"{table['op']} of {table['tile']}",
)


INSTRUCTIONS = Quantity("instructions", "instructions of all warps", None, lambda r: r.instructions)

SHARED = by_name(
    Quantity("wavefronts", "wavefronts of all instructions", "less", lambda r: r.total),
    Quantity("ideal", "the fewest wavefronts that the instructions can take", None, lambda r: r.ideal_total),
    Quantity("excess", "wavefronts beyond the ideal", "less", lambda r: r.excess),
    Quantity("ways", "the n of the worst n-way conflict, 1 without one", "less", lambda r: r.ways),
    Quantity("worst", "wavefronts of the costliest instruction", "less", lambda r: r.worst),
    INSTRUCTIONS,
)
"""The quantities of accesses to shared memory."""


def _efficiency(report: Any) -> Fraction:
    return Fraction(report.useful_bytes, report.moved_bytes) if report.moved_bytes else Fraction(1)


GLOBAL = by_name(
    Quantity("sectors", "sectors of all instructions", "less", lambda r: r.sectors),
    Quantity("ideal", "the fewest sectors that hold their bytes", None, lambda r: r.ideal),
    Quantity("lines", "cache lines of all instructions", "less", lambda r: r.lines),
    Quantity("efficiency", "useful bytes over bytes moved", "more", _efficiency),
    Quantity("worst_base", "sectors at the worst base address", "less", lambda r: r.worst_alignment),
    INSTRUCTIONS,
)
"""The quantities of accesses to global memory."""


def _op(access: str) -> str:
    return access.partition("@")[0].strip()


def _an_access(value: Any, reading: Reading) -> str:
    text = a_text(value, reading)
    find_instruction(_op(text))
    return text


def _quantities(values: Values) -> Quantities:
    space = find_instruction(_op(values["access"]), values["arch"]).space
    return GLOBAL if space == "global" else SHARED


def _report(values: Values) -> Report:
    layout: AnyLayout = values["tile"]
    access = Access.of(values["access"], layout, values["dtype"], values["arch"])
    return analyze_access(layout, replace(access, base_bytes=values["base"]), values["arch"])


def _conflict(report: Any, _: object) -> str:
    if report.total == report.ideal_total:
        return ""
    return f"{report.ways}-way conflicts: {report.total} wavefronts, and {report.ideal_total} without any"


CONFLICT_FREE = Property(
    "conflict-free", "no instruction takes more wavefronts than its ideal", _conflict, shows="ways"
)

_ACCESSES = "OP, OP@row, OP@col or OP@TV layout, or a list of them"

ACCESS = Kind(
    "access",
    "what an access to a tile costs",
    (
        TILE,
        Field("access", _ACCESSES, _an_access, required=True, each=True),
        DTYPE,
        ARCH,
        Field("base", "bytes added to every address", a_whole_number(0), default=0),
    ),
    _report,
    lambda table: f"{table['tile']}, {table['access']}",
    _quantities,
    lambda values: by_name(CONFLICT_FREE) if _quantities(values) is SHARED else {},
    scope=lambda values, report, part, allowed: Scope("instructions", report.instructions),
)
