"""Questions about accesses in a symbol, random and known, and the concrete analysis that they stand for."""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy
from hypothesis import strategies as st

from layoutalg.analysis import Access
from layoutalg.arch import INSTRUCTIONS
from layoutalg.dtype import dtype
from layoutalg.layout import AnyLayout, Layout
from layoutalg.symbolic import SymbolicLayout
from layoutalg.symbolic.question import as_symbolic
from layoutalg.testing import accesses

LD = sympy.Symbol("ld", positive=True)
ANY = sympy.Symbol("s")


def access(op: str, tv: tuple[Any, Any], element: str) -> Access:
    return Access(op, Layout(*tv), dtype(element))


def column(op: str, element: str, values: int = 1) -> Access:
    """Lane l reads row l of a tile of 32 rows."""
    return access(op, ((32, values), (1, 32 if values > 1 else 0)), element)


@st.composite
def questions(draw: st.DrawFn, space: str | None = None) -> tuple[SymbolicLayout, Access, Any]:
    """A layout in which some strides, the offset or the base are slope * s + constant."""
    layout, what = draw(accesses(space=space, max_size=256))
    plain = as_symbolic(layout)
    elems = max(1, 8 * INSTRUCTIONS[what.op].width_bytes // what.element.bits)
    unit = draw(st.sampled_from((elems, elems, 1)))

    def line(constant: int) -> Any:
        return draw(st.integers(1, 3)) * unit * ANY + draw(st.sampled_from((0, constant)))

    stride = tuple(line(d) if d != 1 and draw(st.booleans()) else d for d in plain.stride)
    stride = tuple(line(d) if d == 1 and draw(st.integers(0, 9)) == 0 else d for d in stride)
    moved = plain.swizzles and draw(st.sampled_from((False, True)))
    offset = line(plain.offset) if moved else plain.offset
    base = draw(st.sampled_from((0, 0, ANY, INSTRUCTIONS[what.op].width_bytes * ANY)))
    return SymbolicLayout(plain.shape, stride, plain.swizzles, offset), what, base


def at(question: tuple[SymbolicLayout, Access, Any], value: int) -> tuple[AnyLayout, Access]:
    layout, what, base = question
    extra = int(base.subs(ANY, value)) if isinstance(base, sympy.Expr) else base
    return layout.at({ANY: value}), dataclasses.replace(what, base_bytes=what.base_bytes + extra)
