"""The sliders of a page: a tile under another swizzle and pitch, and what accesses cost on it.

The idea.  A page shows numbers and counts none: explore.html asks them here for each setting, and report.html
holds those of the layouts of its list, each under its own setting.

    swizzle   None: the layout's own; (B, M, S): one Sw<B,M,S> in its place, (0, 0, 0) none
    pad       elements between rows.  The pitch of a layout is its smallest stride above 1; where it divides
              all larger ones, stride d becomes d + pad * d / pitch.  (64,96):(96,1) and pad 8: (104,1)

An access is that of the layout as given: which lanes take which coordinates does not depend on where those
lie.

>>> tile = Engine(parse_layout("(64,64):(64,1)"), "f16")
>>> tile.numbers((0, 0, 0), 0, "ldmatrix.x4")["total"], tile.numbers((3, 3, 3), 0, "ldmatrix.x4")["total"]
(512, 64)
>>> print(tile.tile((2, 3, 3), 8))
Sw<2,3,3> o 0 o (64,64):(72,1)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from layoutalg.analysis import Access, Place, SharedReport, analyze_access, instruction_offsets
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch, find_instruction
from layoutalg.compose import NormalForm, find_normal_form
from layoutalg.draw import schedule
from layoutalg.dtype import DType, dtype
from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    has_symbols,
    leaves,
    modes,
    size,
    span,
    unflatten_tree,
)
from layoutalg.limits import Most
from layoutalg.notation import parse

MOST_OFFSET = 1 << 28
"""Offsets and pads of a page are below this: JavaScript's shifts have 32 bits, and addresses count bits."""

Bits = tuple[int, int, int]


def parse_layout(text: str) -> AnyLayout:
    """A layout from CuTe text, of integers; raises ShapeError or UnsupportedError for anything else.

    >>> print(parse_layout("(4,8):(8,1)"))
    (4,8):(8,1)
    """
    layout = parse(text)
    if not isinstance(layout, (Layout, ComposedLayout)):
        raise ShapeError(f"{layout} has no shape: a layout is needed, such as Sw<3,3,3> o 0 o (64,64):(64,1)")
    form = find_normal_form(layout)
    if form is not None and has_symbols(form.layout):
        raise UnsupportedError(f"a page counts for integers, and {layout} has symbols")
    return layout


def pitch_of(layout: Layout) -> int | None:
    """The smallest stride above 1, where it divides all larger ones; else None.

    >>> pitch_of(Layout((64, 96), (96, 1))), pitch_of(Layout(8, 1)), pitch_of(Layout((4, 4, 2), (1, 4, 6)))
    (96, None, None)
    """
    steps = sorted({stride for extent, stride in leaves(layout) if extent > 1 and stride > 1})
    return steps[0] if steps and all(step % steps[0] == 0 for step in steps) else None


def padded(layout: Layout, pad: int) -> Layout:
    """The layout with `pad` elements more between its rows; raises UnsupportedError without a pitch.

    >>> print(padded(Layout((64, (8, 12)), (8, (1, 512))), 2))
    (64,(8,12)):(10,(1,640))
    """
    if not pad:
        return layout
    pitch = pitch_of(layout)
    if pitch is None:
        raise UnsupportedError(f"{layout} has no rows to pad: no stride divides all larger ones")
    wider = tuple(stride + pad * (stride // pitch) if stride > 1 else stride for _, stride in leaves(layout))
    return Layout(layout.shape, unflatten_tree(wider, layout.shape))


class Engine:
    """A layout, its element type and its architecture, queried with settings.

    Raises what `dtype` and `find_arch` do, and ShapeError for a base below 0.
    """

    def __init__(
        self, layout: AnyLayout, element: str | DType, arch: str | Arch = DEFAULT_ARCH, base_bytes: int = 0
    ) -> None:
        self.layout, self.element, self.machine = layout, dtype(element), find_arch(arch)
        if not 0 <= base_bytes < MOST_OFFSET:
            raise ShapeError(f"base is {base_bytes}; 0 to {MOST_OFFSET - 1} bytes are accepted")
        self.base_bytes = base_bytes
        self.form = find_normal_form(layout)

    def refusal(self) -> str:
        """Why a page does not draw this layout; "" where it does."""
        if self.form is None:
            return f"{self.layout} is no chain of swizzles over one layout, so that it has no sliders."
        low, high = span(self.form.layout)
        if low < 0 or max(high, size(self.form.layout)) + self.form.offset >= MOST_OFFSET:
            return f"Offsets of {self.layout} are not all in 0 to {MOST_OFFSET - 1}: the page draws none."
        elements, most = size(self.form.layout), Most.ONE_BY_ONE.number
        if elements > most:
            return f"{self.layout} has {elements:,} elements; {most:,} are drawn.  The tables are of all."
        return ""

    def access(self, spec: str) -> Access:
        """The access that `spec` says, OP[@row|col|TV], on the layout as given; raises as `Access.of`."""
        return replace(Access.of(spec, self.layout, self.element, self.machine), base_bytes=self.base_bytes)

    def tile(self, swizzle: Bits | None, pad: int) -> AnyLayout:
        """The layout under a setting; raises ShapeError for bits that are not a swizzle, UnsupportedError."""
        if self.form is None:
            if swizzle is None and not pad:
                return self.layout
            raise UnsupportedError(self.refusal())
        chain = self.form.swizzles if swizzle is None else Swizzles(Swizzle(*swizzle))
        return NormalForm(chain, self.form.offset, padded(self.form.layout, pad)).whole

    def offsets(self, swizzle: Bits | None, pad: int) -> list[int]:
        """The offset of every flat index under a setting; raises UnsupportedError where `refusal` has one."""
        if self.refusal():
            raise UnsupportedError(self.refusal())
        tile = self.tile(swizzle, pad)
        return [tile(index) for index in range(size(tile))]

    def numbers(self, swizzle: Bits | None, pad: int, spec: str) -> dict[str, int | str]:
        """The cost of an access under a setting; raises as `analyze_access`."""
        report = analyze_access(self.tile(swizzle, pad), self.access(spec), self.machine)
        counts: dict[str, int | str]
        if isinstance(report, SharedReport):
            space, counts = "shared", {"total": report.total, "ideal": report.ideal_total}
            counts |= {"worst": report.worst, "worstIdeal": report.worst_ideal}
        else:
            space, counts = "global", {"total": report.sectors, "ideal": report.ideal}
            counts |= {"lines": report.lines, "usefulBytes": report.useful_bytes}
        return {"space": space, "instructions": report.instructions, **counts, "method": report.method}

    def addresses(self, swizzle: Bits | None, pad: int, spec: str, place: Sequence[int]) -> list[int | None]:
        """The byte address of every lane of one instruction: (warp, register, iteration)."""
        return instruction_offsets(self.tile(swizzle, pad), self.access(spec), Place(*place), self.machine)

    def services(self, swizzle: Bits | None, pad: int, spec: str, place: Sequence[int]) -> list[list[int]]:
        """(lane, bank, word, phase group, wavefront) of an instruction; for a global one, the last are 0."""
        return self._served(self.access(spec).op, self.addresses(swizzle, pad, spec, place))

    def _served(self, op: str, lanes: Sequence[int | None]) -> list[list[int]]:
        machine = self.machine
        rule = find_instruction(op, machine)
        if rule.space == "shared":
            return [[s.lane, s.bank, s.word, s.group, s.wavefront] for s in schedule(op, lanes, machine)]
        words = max(1, rule.width_bytes // machine.bank_bytes)
        firsts = [(lane, at // machine.bank_bytes) for lane, at in enumerate(lanes) if at is not None]
        return [
            [lane, word % machine.banks, word, 0, 0]
            for lane, first in firsts
            for word in range(first, first + words)
        ]

    def patterns(self, spec: str) -> dict[str, Any]:
        """The different patterns of an access's wavefronts, and that of each instruction, warps first.

        A pattern has for every word its lane, the number of the word in the lane, the phase group and the
        wavefront.

        >>> Engine(parse_layout("(4,8):(8,1)"), "f32").patterns("ld.shared.b32@row")["instructions"]
        [0]
        """
        access, bank = self.access(spec), self.machine.bank_bytes
        threads, values, iterations = ([*map(size, modes(access.tv)), 1])[:3]
        rule = find_instruction(access.op, self.machine)
        registers = values * self.element.bits // (8 * rule.width_bytes)
        patterns: dict[tuple[tuple[int, ...], ...], int] = {}
        instructions = []
        warps = range(-(-threads // self.machine.lanes))
        for iteration, register, warp in product(range(iterations), range(registers), warps):
            lanes = instruction_offsets(self.layout, access, Place(warp, register, iteration), self.machine)
            pattern = tuple(
                (lane, word - (lanes[lane] or 0) // bank, group, turn)
                for lane, _, word, group, turn in self._served(access.op, lanes)
            )
            instructions.append(patterns.setdefault(pattern, len(patterns)))
        return {"instructions": instructions, "patterns": list(patterns)}


@functools.lru_cache(maxsize=64)
def engine_of(layout: str, element: str, arch: str, base_bytes: int) -> Engine:
    """The engine of texts; kept, since a page asks it again and again.

    >>> engine_of("(4,8):(8,1)", "f32", "sm_90", 0).numbers(None, 0, "ld.shared.b32")["total"]
    1
    """
    return Engine(parse_layout(layout), element, arch, base_bytes)


def model_of(engine: Engine, specs: Sequence[str]) -> dict[str, Any]:
    """The engine as plain data, by which a page draws what the library counts.

    >>> model_of(Engine(parse_layout("(4,8):(8,1)"), "f32"), ["ld.shared.b32@row"])["pitch"]
    8
    """
    form, machine = engine.form, engine.machine
    out: dict[str, Any] = {
        "text": str(engine.layout),
        "refusal": engine.refusal(),
        "bits": engine.element.bits,
        "element": engine.element.name,
        "base": engine.base_bytes,
        "accesses": [_access_model(engine, spec) for spec in specs],
        "machine": {
            "lanes": machine.lanes,
            "banks": machine.banks,
            "bankBytes": machine.bank_bytes,
            "sectorBytes": machine.sector_bytes,
            "lineBytes": machine.line_bytes,
        },
    }
    if form is not None:
        out |= {
            "modes": [size(mode) for mode in modes(form.layout)],
            "offset": form.offset,
            "swizzles": [[s.bits, s.base, s.shift] for s in form.swizzles],
            "pitch": pitch_of(form.layout),
        }
    return out


def _access_model(engine: Engine, spec: str) -> dict[str, Any]:
    """The model of an access: its thread-value layout by modes of leaves, and what an instruction takes."""
    access = engine.access(spec)
    rule = find_instruction(access.op, engine.machine)
    tv = [[list(leaf) for leaf in leaves(mode)] for mode in modes(access.tv)]
    return {
        "spec": spec, "op": access.op, "tv": tv, "space": rule.space, "widthBytes": rule.width_bytes,
        "lanes": rule.lanes,
    }  # fmt: skip


class Room:
    """The room of a page for what it holds of its layouts: numbers of a table, and instructions counted."""

    def __init__(self) -> None:
        self.numbers, self.instructions = 200_000, 1_000

    def held(self, engine: Engine, specs: Sequence[str]) -> dict[str, Any]:
        """The model of an engine with its offsets, and its accesses with their costs and wavefronts.

        What has no room is refused.
        """
        model = model_of(engine, specs)
        self.numbers -= 0 if model["refusal"] else size(engine.layout)
        if self.numbers < 0:
            model["refusal"] = f"The page has no room for the elements of {engine.layout}."
        if model["refusal"]:
            return model
        model["offsets"] = engine.offsets(None, 0)
        for access in model["accesses"]:
            try:
                access["numbers"] = engine.numbers(None, 0, access["spec"])
                self.instructions -= access["numbers"]["instructions"]
                if self.instructions < 0:
                    access["refusal"] = f"The page has no room for the wavefronts of {access['spec']}."
                else:
                    access |= engine.patterns(access["spec"])
            except LayoutAlgError as error:
                access["refusal"] = str(error)
        return model
