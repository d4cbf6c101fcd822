"""Instructions from Hopper on: a kernel that starts while the one in front of it ends.

GRID_WAIT waits until the kernels in front have ended and all that they wrote is visible; where nothing is in
front it does nothing.  LDG_FRESH[n] is a load of n bytes of such data: it stays behind the wait, and does not
go through the read-only path, which may hold what was there when the kernel started.

Source: PTX ISA 9.0, 9.7.13.13 (griddepcontrol), 9.7.9.8 (ld), 9.7.9.9 (ld.global.nc).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr.helpers import at
from layoutalg.codegen.instr.memory import WIDTHS_BYTES
from layoutalg.codegen.instr.record import ANY, Instr, Requires, out, read


def _already(machine: Any, group: Any) -> None:
    """The simulator runs kernels one after the other."""


def _fresh(nbytes: int) -> Instr:
    name, words, bits = f"ldg{8 * nbytes}_fresh", max(1, nbytes // 4), 8 * min(nbytes, 4)
    places = ", ".join(f"%{i}" for i in range(words))
    load = f"u{bits} %0, [%1];" if words == 1 else f"v{words}.b32 {{{places}}}, [%{words}];"

    def text(kind: str) -> str:
        given = f"{kind}{'&' if words == 1 else '*'} d, const void* p"
        held, before, after = "d", "", ""
        if kind == "float":
            held, before = "w", f"    u32 w{f'[{words}]' if words > 1 else ''};\n"
            after = "".join(
                f"    {at('d', i, words)} = __uint_as_float({at('w', i, words)});\n" for i in range(words)
            )
        takes = ", ".join(f'"=r"({at(held, i, words)})' for i in range(words))
        return (
            f'void {name}({given}) {{\n{before}    asm volatile("ld.global.{load}"\n'
            f'        : {takes} : "l"(p) : "memory");\n{after}}}'
        )

    operands = (
        out("d", words, ANY if nbytes >= 4 else ""), read("p", "global", nbytes, f"ld.global.b{8 * nbytes}")
    )  # fmt: skip
    return Instr(name, operands, text("u32"), float_text=text("float") if nbytes >= 4 else "")


LDG_FRESH: Mapping[int, Instr] = MappingProxyType({n: _fresh(n) for n in WIDTHS_BYTES})

GRID_WAIT = Instr(
    "grid_wait",
    (),
    'void grid_wait() {\n    asm volatile("griddepcontrol.wait;" ::: "memory");\n}',
    _already,
    Requires(sm=90),
)

INSTRUCTIONS: Mapping[str, Instr] = MappingProxyType({i.name: i for i in (*LDG_FRESH.values(), GRID_WAIT)})
"""Every instruction of this module by name."""
