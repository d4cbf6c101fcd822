"""check_wgmma_instruction: which wgmma.mma_async exist.

>>> report = check_wgmma_instruction("tf32", "tf32", "f32", 64, b_major="MN")
>>> print(report.violations[0])
wgmma.transpose: B of tf32 is MN-major; accepted are K-major operands; nearest: K

Source: PTX ISA, wgmma.mma_async; the table is layoutalg.arch.wgmma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutalg.arch import WGMMA_M, WGMMA_TYPES, Arch, Major
from layoutalg.dtype import DType, dtype
from layoutalg.errors import check_choice
from layoutalg.layout import whole_number
from layoutalg.legality.canonical import check_major
from layoutalg.legality.rules import Legality, Violation
from layoutalg.legality.wgmma_rules import WGMMA_RULES, no_n, no_type, require_wgmma


@dataclass(frozen=True, slots=True)
class WgmmaInstruction:
    """A wgmma that exists: its shape and its PTX name."""

    n: int
    k: int
    ptx: str

    def __str__(self) -> str:
        return self.ptx


def check_wgmma_instruction(
    a: str | DType,
    b: str | DType,
    accumulator: str | DType,
    n: int,
    *,
    a_major: Major = "K",
    b_major: Major = "K",
    a_source: Literal["shared", "registers"] = "shared",
    arch: str | Arch = "sm_90",
) -> Legality[WgmmaInstruction]:
    """Is there a wgmma m64nNk of these types, major-nesses and sources?

    Raises UnknownNameError for names, ArgumentTypeError for an N that is not an integer, UnsupportedError for
    an architecture without wgmma.

    Source: PTX ISA, wgmma.mma_async.

    >>> print(check_wgmma_instruction("f16", "f16", "f32", 128, b_major="MN").require())
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
    >>> check_wgmma_instruction("s8", "s8", "s32", 40, a_major="MN").broken
    ('wgmma.n', 'wgmma.transpose')
    """
    a, b, accumulator, n = dtype(a), dtype(b), dtype(accumulator), whole_number(n, "N of a wgmma")
    require_wgmma(arch)
    check_major(a_major)
    check_major(b_major)
    check_choice("source of A", a_source, ("shared", "registers"))
    subject = f"wgmma {accumulator} += {a} {b}, N {n}"
    kind = WGMMA_TYPES.get(a.name)
    if kind is None:
        return Legality(subject, (no_type(a, "a"),), rules=(WGMMA_RULES["wgmma.type"],))
    faults: list[Violation] = []
    if b.name not in kind.b_types:
        faults.append(_no_pair("wgmma.type", f"A of {a} and B of {b}", kind.b_types, "b"))
    if accumulator.name not in kind.accumulators:
        faults.append(
            _no_pair("wgmma.accumulator", f"sums of {accumulator} for {a}", kind.accumulators, "accumulator")
        )
    if n not in kind.n_sizes:
        faults.append(no_n(kind, n, min(kind.n_sizes, key=lambda size: (abs(size - n), size))))
    if a_source == "registers" and a_major == "MN":
        rule = WGMMA_RULES["wgmma.source"]
        faults.append(
            Violation(rule, "A is MN-major in registers", "K-major registers", "K", (("a_major", "K"),))
        )
    for name, major in (("a_major", a_major), ("b_major", b_major)):
        if major == "MN" and not kind.transposable:
            fault = f"{name[0].upper()} of {a if name == 'a_major' else b} is MN-major"
            faults.append(
                Violation(WGMMA_RULES["wgmma.transpose"], fault, "K-major operands", "K", ((name, "K"),))
            )
    ptx = f"wgmma.mma_async.sync.aligned.m{WGMMA_M}n{n}k{kind.k}.{accumulator}.{a}.{b}"
    if a.name == "b1":
        ptx += ".and.popc"
    result = None if faults else WgmmaInstruction(n, kind.k, ptx)
    names = ("type", "accumulator", "n", "source", "transpose")
    return Legality(subject, tuple(faults), (), result, tuple(WGMMA_RULES[f"wgmma.{name}"] for name in names))


def _no_pair(rule: str, fault: str, accepted: tuple[str, ...], argument: str) -> Violation:
    return Violation(WGMMA_RULES[rule], fault, ", ".join(accepted), accepted[0], ((argument, accepted[0]),))
