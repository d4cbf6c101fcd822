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
from layoutalg.checks.limits import Property, Quantities, Quantity
from layoutalg.decide import cosize, find_collision, find_difference, image_size
from layoutalg.dtype import DType
from layoutalg.errors import MismatchError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, size
from layoutalg.legality import Legality, check_memory, check_tma, check_wgmma
from layoutalg.testing import Scope, check_bijective


class Tile(NamedTuple):
    """The subject of a layout's limits."""

    layout: AnyLayout
    element: DType
    arch: Arch


def _bytes(elements: int, tile: Tile) -> int:
    return -(-elements * tile.element.bits // 8)


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity("size", "coordinates", None, lambda t: size(t.layout)),
        Quantity("cosize", "the greatest offset and one, in elements", "less", lambda t: cosize(t.layout)),
        Quantity("bytes", "bytes up to the last element", "less", lambda t: _bytes(cosize(t.layout), t)),
        Quantity(
            "extra_bytes",
            "bytes up to the last element that hold none",
            "less",
            lambda t: _bytes(cosize(t.layout), t) - _bytes(image_size(t.layout), t),
        ),
    )
}
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
        verdict = check_tma(
            _dense(inner), inner.shape, tile.element, mode=mode, shared=tile.layout, arch=tile.arch
        )
        if verdict.legal:
            return ""
        refusals.append(f"{mode}: {verdict.violations[0]}")
    return "; ".join(refusals)


def _dense(layout: Layout) -> Layout:
    """A tensor of the layout's shape whose leaves are stored in the order of its strides, innermost first."""
    return make_ordered_layout(layout.shape, layout.stride)


def _not_operand(operand: Any) -> Property:
    def broken(tile: Tile, _: object) -> str:
        return _refused(check_wgmma(tile.layout, tile.element, operand, arch=tile.arch), None)

    return Property(f"legal for wgmma {operand}", f"wgmma reads the tile as its operand {operand}", broken)


def _refused(verdict: Legality[Any], _: object) -> str:
    return "; ".join(map(str, verdict.violations))


def _rules(values: Values, verdict: Legality[Any], part: str, allowed: bool) -> Scope:
    """The rules that a request was held against."""
    return Scope("rules", len(verdict.rules))


LEGAL = Property("legal", "no rule of the instruction is broken", _refused)

PROPERTIES = {
    known.name: known
    for known in (
        Property("injective", "no two coordinates share an offset", _collides),
        Property("bijective", "the offsets are 0 to size - 1, each once", _not_bijective),
        Property("equals ", "the same offset at every coordinate as a layout", _differs, a_tile),
        Property("legal for TMA", "a box of a dense tensor is written as this layout in some mode", _no_box),
        _not_operand("A"),
        _not_operand("B"),
    )
}
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


def _box(values: Values) -> Legality[Any]:
    return check_tma(
        values["tensor"], values["box"], values["dtype"], mode=values["mode"], shared=values["tile"],
        arch=values["arch"],
    )  # fmt: skip


TMA = Kind(
    "tma",
    "whether TMA copies boxes of a tensor, and what it then writes",
    (
        Field("tensor", "a layout in CuTe notation", a_layout, required=True),
        Field("box", 'extents as a text, such as "(64,64)"', an_int_tuple, required=True),
        Field(
            "mode", "none, 32B, 64B or 128B", one_of(*(mode.name for mode in HOPPER_MODES)), default="none"
        ),
        Field("tile", "the layout that the box has in shared memory", TILE.read),
        DTYPE,
        ARCH,
    ),
    _box,
    lambda table: f"boxes {table['box']} of {table['tensor']}",
    scope=_rules,
    properties=lambda values: {LEGAL.name: LEGAL},
    always=("legal",),
)


def _operand(values: Values) -> Legality[Any]:
    return check_wgmma(
        values["tile"], values["dtype"], values["operand"], major=values["major"], n=values["n"],
        arch=values["arch"],
    )  # fmt: skip


WGMMA = Kind(
    "wgmma",
    "whether wgmma reads a tile as an operand",
    (
        TILE,
        Field("operand", "A or B", one_of("A", "B"), required=True),
        Field("major", "K or MN", one_of("K", "MN")),
        Field("n", "the N of the instruction", a_whole_number(8, 256)),
        DTYPE,
        ARCH,
    ),
    _operand,
    lambda table: f"{table['tile']} as operand {table['operand']}",
    scope=_rules,
    properties=lambda values: {LEGAL.name: LEGAL},
    always=("legal",),
)


def _move(values: Values) -> Legality[Any]:
    return check_memory(
        values["op"], values["tile"], values["dtype"], source=values["source"],
        alignment_bytes=values["alignment"], arch=values["arch"],
    )  # fmt: skip


MEMORY = Kind(
    "memory",
    "whether ld, st, ldmatrix, stmatrix or cp.async may move a tile",
    (
        TILE,
        Field("op", "an instruction such as cp.async.cg.16 or ld.shared.v4.f32", a_name, required=True),
        Field("source", "of cp.async, the layout in global memory", TILE.read),
        Field("alignment", "bytes that the tile's address is a multiple of", a_whole_number(1), default=256),
        DTYPE,
        ARCH,
    ),
    _move,
    lambda table: f"{table['op']} of {table['tile']}",
    scope=_rules,
    properties=lambda values: {LEGAL.name: LEGAL},
    always=("legal",),
)


SHARED = {
    quantity.name: quantity
    for quantity in (
        Quantity("wavefronts", "wavefronts of all instructions", "less", lambda r: r.total),
        Quantity(
            "ideal", "the fewest wavefronts that the instructions can take", None, lambda r: r.ideal_total
        ),
        Quantity("excess", "wavefronts beyond the ideal", "less", lambda r: r.excess),
        Quantity("ways", "the n of the worst n-way conflict, 1 without one", "less", lambda r: r.ways),
        Quantity("worst", "wavefronts of the costliest instruction", "less", lambda r: r.worst),
        Quantity("instructions", "instructions of all warps", None, lambda r: r.instructions),
    )
}
"""The quantities of accesses to shared memory."""

GLOBAL = {
    quantity.name: quantity
    for quantity in (
        Quantity("sectors", "sectors of all instructions", "less", lambda r: r.sectors),
        Quantity("ideal", "the fewest sectors that hold their bytes", None, lambda r: r.ideal),
        Quantity("lines", "cache lines of all instructions", "less", lambda r: r.lines),
        Quantity("efficiency", "useful bytes over bytes moved", "more", lambda r: _efficiency(r)),
        Quantity("worst_base", "sectors at the worst base address", "less", lambda r: r.worst_alignment),
        Quantity("instructions", "instructions of all warps", None, lambda r: r.instructions),
    )
}
"""The quantities of accesses to global memory."""


def _efficiency(report: Any) -> Fraction:
    return Fraction(report.useful_bytes, report.moved_bytes) if report.moved_bytes else Fraction(1)


def _an_access(value: Any, reading: Reading) -> str:
    text = a_text(value, reading)
    find_instruction(text.partition("@")[0].strip())
    return text


def _quantities(values: Values) -> Quantities:
    op = values["access"].partition("@")[0].strip()
    return GLOBAL if find_instruction(op, values["arch"]).space == "global" else SHARED


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

ACCESS = Kind(
    "access",
    "what an access to a tile costs",
    (
        TILE,
        Field(
            "access",
            "OP, OP@row, OP@col or OP@TV layout, or a list of them",
            _an_access,
            required=True,
            each=True,
        ),
        DTYPE,
        ARCH,
        Field("base", "bytes added to every address", a_whole_number(0), default=0),
    ),
    _report,
    lambda table: f"{table['tile']}, {table['access']}",
    _quantities,
    lambda values: {"conflict-free": CONFLICT_FREE} if _quantities(values) is SHARED else {},
    scope=lambda values, report, part, allowed: Scope("instructions", report.instructions),
)
