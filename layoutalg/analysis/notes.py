"""What is true of a count and easily overlooked: assumed rules, elements under .trans, swizzles that overlap.

>>> from layoutalg.arch import ARCHS
>>> from layoutalg.dtype import dtype
>>> rule = ARCHS["sm_80"].instructions["ldmatrix.x4.trans"]
>>> print(*access_notes(rule, ARCHS["sm_80"], dtype("f32")), sep="\\n")
The rule of ldmatrix.x4.trans on sm_80 is assumed: carried over from the rule counted on sm_90.
ldmatrix.x4.trans transposes units of 16 bits: each f32 element is split over 2 lanes.

Sources.  PTX ISA, ldmatrix and stmatrix (.b16); CUTLASS, include/cute/swizzle.hpp (abs(shift) >= bits).
"""

from __future__ import annotations

from collections.abc import Iterator

from layoutalg.arch import Arch, Instruction
from layoutalg.dtype import DType
from layoutalg.layout import AnyLayout, ComposedLayout, Swizzle

UNIT_BITS = 16
"""What ldmatrix and stmatrix with .trans move as one."""


def access_notes(
    rule: Instruction, machine: Arch, element: DType | None = None, layout: AnyLayout | None = None
) -> tuple[str, ...]:
    """The notes on one access; without an element or a layout, nothing is said of them.

    >>> from layoutalg.arch import find_arch
    >>> access_notes(find_arch("sm_90").instructions["ld.shared.b32"], find_arch("sm_90"))
    ()
    """
    return tuple(_notes(rule, machine, element, layout))


def _notes(
    rule: Instruction, machine: Arch, element: DType | None, layout: AnyLayout | None
) -> Iterator[str]:
    if rule.provenance == "assumed":
        yield f"The rule of {rule.name} on {machine.name} is assumed: {rule.source or 'no source is given'}."
    if element is not None and rule.name.endswith(".trans") and element.bits != UNIT_BITS:
        yield _transposed(rule.name, element)
    if layout is not None:
        yield from swizzle_notes(layout)


def _transposed(op: str, element: DType) -> str:
    said = f"{op} transposes units of {UNIT_BITS} bits"
    if element.bits < UNIT_BITS:
        return f"{said}: the {UNIT_BITS // element.bits} {element} elements of a unit stay together."
    verb = "is split over" if op.startswith("ld") else "is put together from"
    return f"{said}: each {element} element {verb} {element.bits // UNIT_BITS} lanes."


def swizzle_notes(layout: AnyLayout | Swizzle) -> Iterator[str]:
    """A sentence for each swizzle that is not its own inverse.

    >>> print(*swizzle_notes(Swizzle(3, 3, 2)))
    Sw<3,3,2> is not an involution (|S| < B: its fields overlap), and CuTe refuses it; it is a bijection.
    """
    part: object = layout
    seen: set[Swizzle] = set()
    while isinstance(part, ComposedLayout):
        seen.update(part.swizzles)
        part = part.inner
    if isinstance(part, Swizzle):
        seen.add(part)
    for swizzle in sorted(seen, key=str):
        if not swizzle.is_involution:
            yield (
                f"{swizzle} is not an involution (|S| < B: its fields overlap), and CuTe refuses it; "
                f"it is a bijection."
            )
