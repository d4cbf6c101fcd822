"""A header for the user's own build: an index function, and static_asserts of what was found of its layout.

The idea.  The compiler enumerates the definitions once more, from the printed functions alone: every offset,
and for each warp instruction the words in each bank of a phase, or the sectors.  What is asserted are the
numbers of `analyze`, so that a header stops compiling when its function is edited into another layout.

>>> from layoutalg.layout import Layout
>>> header = assertions(Layout((8, 32), (32, 1)), ["ld.shared.b32@col"], "f32", name="tile")
>>> print(*(line for line in header.splitlines() if line.startswith("static_assert")), sep="\\n")
static_assert(tile_is_injective(), "(8,32):(32,1): two coordinates share an offset");
static_assert(tile_cosize() == 256, "(8,32):(32,1): its largest offset is another");
static_assert(tile_0_cost().total == 64, "ld.shared.b32@col: not 64 wavefronts");
static_assert(tile_0_cost().ideal == 8, "ld.shared.b32@col: not 8 of them without conflicts");
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files

from layoutalg.analysis import Access, SharedReport, analyze_access, warp_rule
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction
from layoutalg.decide import cosize, is_injective
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.indexing.lowering import parameter_extents, through_layout
from layoutalg.indexing.printing import code
from layoutalg.layout import AnyLayout, check_integers, modes, size
from layoutalg.limits import Most


def _asset(name: str) -> str:
    """The text of a file of this room's folder `assets`; where it is to be filled in, by %."""
    return (files("layoutalg.indexing") / "assets" / name).read_text(encoding="utf-8")


def assertions(
    layout: AnyLayout,
    accesses: Sequence[str | Access] = (),
    element: str | DType = "f32",
    arch: str | Arch = DEFAULT_ARCH,
    *,
    name: str = "f",
) -> str:
    """A header of C++17 and CUDA with the function `name` of a layout, and static_asserts.

    Asserted are that no two coordinates share an offset, or that two do, the largest offset, and of each
    access the wavefronts of all its instructions, and those without conflicts, or its sectors.  Raises
    ResourceError past Most.ASSERTED, UnsupportedError for negative offsets and for accesses with a guard, and
    what `code` and `analyze` raise.
    """
    check_integers("assertions", layout)
    if isinstance(accesses, (str, Access)):
        raise ArgumentTypeError("assertions: accesses are a list")
    kind = dtype(element)
    largest = cosize(layout)
    Most.ASSERTED.guard(max(largest, size(layout)), "offsets that a compiler tells apart")
    if any(layout(i) < 0 for i in range(size(layout))):
        raise UnsupportedError(f"assertions of {layout}: an offset is below 0")
    apart = is_injective(layout)
    parts = [_asset("head.cuh"), _function(code(layout, "c", name)), _injective(layout, name, largest)]
    checks = [
        f'static_assert({"" if apart else "!"}{name}_is_injective(), "{layout}: {"" if apart else "no "}two '
        f'coordinates share an offset");',
        f'static_assert({name}_cosize() == {largest}, "{layout}: its largest offset is another");',
    ]
    for number, access in enumerate(accesses):
        text, said = _access(layout, access, kind, arch, f"{name}_{number}")
        parts.append(text)
        checks += said
    return "\n".join([*parts, "\n".join(checks)])


def _function(text: str) -> str:
    return f"LAYOUTALG_FUNCTION {text}\n"


def _injective(layout: AnyLayout, name: str, largest: int) -> str:
    """Functions that enumerate all offsets."""
    extents = parameter_extents(layout)
    count = math.prod(extents)
    arguments, rest = [], 1
    for k, extent in enumerate(extents):
        digit = f"i / {rest}u" if rest > 1 else "i"
        arguments.append(digit if k == len(extents) - 1 else f"{digit} % {extent}u")
        rest *= extent
    call = f"{name}({', '.join(arguments)})"
    return f"""\
constexpr bool {name}_is_injective() {{
    bool met[{largest}] = {{}};
    for (unsigned i = 0; i < {count}u; ++i) {{
        const auto at = {call};
        if (at >= {largest}u || met[at]) return false;
        met[at] = true;
    }}
    return true;
}}

constexpr unsigned long long {name}_cosize() {{
    unsigned long long most = 0;
    for (unsigned i = 0; i < {count}u; ++i) {{
        const unsigned long long at = {call};
        most = at + 1 > most ? at + 1 : most;
    }}
    return most;
}}
"""


def _access(
    layout: AnyLayout, access: str | Access, kind: DType, arch: str | Arch, name: str
) -> tuple[str, list[str]]:
    """The functions of an access, and the assertions."""
    said = access if isinstance(access, str) else access.op
    if isinstance(access, str):
        access = Access.of(access, layout, kind, arch)
    if access.active is not None or access.base_bytes:
        raise UnsupportedError(f"assertions of {said}: of accesses without a guard and a base")
    report = analyze_access(layout, access, arch)
    shared = isinstance(report, SharedReport)
    rule, machine = warp_rule(access.op, "shared" if shared else "global", arch)
    front, _ = through_layout(access, layout, access.element)
    threads, fragments = map(size, modes(front))
    warps = -(-threads // machine.lanes)
    Most.ASSERTED.guard(warps * machine.lanes * fragments, f"lanes of the instructions of {said}")
    text = code(layout, "c", f"{name}_at", through=access, element=access.element, unit="bytes")
    body = _asset("shared.cuh" if shared else "global.cuh") % _numbers(name, rule, machine)
    loops = f"""\
constexpr {name}_count {name}_cost() {{
    {name}_count sum = {{0, 0}};
    for (unsigned warp = 0; warp < {warps}u; ++warp)
        for (unsigned fragment = 0; fragment < {fragments}u; ++fragment) {{
            unsigned long long address[{machine.lanes}] = {{}};
            bool active[{machine.lanes}] = {{}};
            for (unsigned lane = 0; lane < {rule.lanes}u; ++lane) {{
                const unsigned thread = warp * {machine.lanes}u + lane;
                active[lane] = thread < {threads}u;
                if (active[lane]) address[lane] = {name}_at(thread, fragment);
            }}
            const {name}_count cost = {name}_of(address, active);
            sum.total += cost.total;
            sum.ideal += cost.ideal;
        }}
    return sum;
}}
"""
    lines: tuple[tuple[str, int, str], ...]
    if isinstance(report, SharedReport):
        lines = (
            ("total", report.total, "wavefronts"),
            ("ideal", report.ideal_total, "of them without conflicts"),
        )
    else:
        lines = (("total", report.sectors, "sectors"),)
    return "\n".join([_function(text), body, loops]), [
        f'static_assert({name}_cost().{field} == {number}, "{said}: not {number} {unit}");'
        for field, number, unit in lines
    ]


def _numbers(name: str, rule: Instruction, machine: Arch) -> dict[str, object]:
    """The facts of an instruction that its definition reads."""
    return {
        "name": name, "lanes": machine.lanes, "served": rule.lanes, "group": rule.group_lanes,
        "width": rule.width_bytes,
        "order": ", ".join(f"{lane}u" for lane in rule.lane_order), "bias": rule.counter_bias,
        "banks": machine.banks, "bank_bytes": machine.bank_bytes, "sector": machine.sector_bytes,
        "words": max(1, rule.width_bytes // machine.bank_bytes),
        "reach": -(-rule.width_bytes // machine.sector_bytes) + 1,
        "broadcast": "true" if rule.broadcast else "false",
        "merges": " || ".join(f"{name}_agree(address, active, {x}u)" for x in rule.merge_xor) or "false",
    }  # fmt: skip
