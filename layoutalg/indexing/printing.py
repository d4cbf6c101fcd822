"""code: the index function of a layout in C, CUDA, CuTe C++, CuTe DSL, Triton or Python, proved.

>>> print(code(Layout((8, 64), (72, 1)), "cuda", "at"))
__device__ __forceinline__ unsigned at(unsigned row, unsigned col) {
    // (8,64):(72,1), in elements
    // row in [0,8), col in [0,64)
    // proved at all 512 coordinates
    return row * 72 + col;
}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from layoutalg.codegen.expr import Const, Expr, Var, simplify, substitute
from layoutalg.dtype import DType, dtype
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    MismatchError,
    ResourceError,
    UnknownNameError,
    UnsupportedError,
    check_choice,
    check_type,
    shown,
)
from layoutalg.indexing.lowering import (
    Side,
    Through,
    check_word,
    offset_of,
    parameter_extents,
    parameter_names,
    through_layout,
)
from layoutalg.indexing.open_layouts import Asked, open_code
from layoutalg.indexing.proofs import proved, proved_cute
from layoutalg.indexing.targets import LONG_END, TARGETS, Function, text_of
from layoutalg.layout import AnyLayout, Layout, check_integers, has_symbols
from layoutalg.reading import apply, number, read_c, read_python, variable
from layoutalg.symbolic import SymbolicLayout, Values

UNITS = ("elements", "bytes")
SIDES = ("src", "dst")


def code(
    layout: AnyLayout | SymbolicLayout,
    to: str = "c",
    name: str = "f",
    *,
    through: Through | None = None,
    side: Side = "src",
    element: str | DType = "f32",
    unit: str = "elements",
    parameters: Sequence[str] | None = None,
    carry: str | None = None,
    where: str | Mapping[str, Values | tuple[int, int]] | None = None,
) -> str:
    """The source of a function that computes a layout's offsets, without an end of line.

    It has one parameter per top-level mode, in order; that of a nested mode is its flat colexicographic
    index. `to` is c, cuda, cpp (CuTe), dsl (CuTe), triton or python.  `through` is a map composed with the
    layout: a TV layout, for parameters (tid, u), the `side`, src or dst, of a TiledCopy, or an access such as
    "ldmatrix.x4", for (lane, fragment).  `unit` is elements, or bytes of `element`.  `parameters` are names.
    `carry` is the parameter that a loop increments: the function then takes a pointer and returns the one
    with which the loop starts, and its comment says what each iteration adds.

    Symbols in extents, strides and the offset are parameters behind those of the modes, in the order of
    their names.  `where` states their values, as "ld in 32..4096, ld % 8 == 0"; of those of which it says
    nothing they are those of C's int from 0 on, of extents from 1 on.

    The function is proved: at every coordinate, over F2, by classes of digits, or as a polynomial in digits
    and symbols, for all their values.  Raises UndecidedError where there is no proof, UnsupportedError for a
    loop whose increments are not constant and for what may be below 0, ResourceError for offsets past 2^62,
    UnknownNameError, ArgumentTypeError, ShapeError, and IRError for a name that cannot be used.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> print(code(tile, "python"))
    def f(row, col):
        # Sw<3,3,3> o 0 o (8,64):(64,1), in elements
        # row in [0,8), col in [0,64)
        # proved at all 512 coordinates
        return (col ^ row * 8) + row * 64
    """
    for kind_of, choice, names_of in (
        ("language", to, TARGETS),
        ("unit", unit, UNITS),
        ("side of a copy", side, SIDES),
    ):
        check_type("code", choice, str, f"a {kind_of} by its name")
        if choice not in names_of:
            raise UnknownNameError(kind_of, choice, names_of)
    kind = dtype(element)
    if isinstance(layout, SymbolicLayout) or (isinstance(layout, Layout) and has_symbols(layout)):
        asked = Asked(to, name, side, kind, unit, parameters, carry, _scale(layout, kind, unit))
        return open_code(layout, asked, through, where)
    check_integers("code", layout)
    if where:
        raise ArgumentTypeError(f"where {shown(where)}: {layout} has no symbol")
    front, defaults = (None, None) if through is None else through_layout(through, layout, kind, side)
    domain = layout if front is None else front
    extents = parameter_extents(domain)
    names = parameter_names(parameters, len(extents), defaults)
    for word in (name, *names):
        check_word(word)
    scale = _scale(layout, kind, unit)
    variables = [Var(word, extent) for word, extent in zip(names, extents, strict=True)]
    value, less = _value(layout, front, variables, scale)

    def table(grid: Sequence[Any]) -> Any:
        at = grid if front is None else (front(*grid),)
        return layout(*at) * scale

    what = f"code of {layout}" + (f" of {front}" if front is not None else "")
    made = Function(
        name, str(layout), tuple(variables), value, less, unit, layout=layout, through=front, scale=scale
    )
    if carry is None:
        proof = _proof(what, made, to, variables, (value, less), table)
        return text_of(replace(made, notes=(proof,)), to)
    return _carried(what, made, to, carry, variables, table)


def _scale(layout: object, kind: DType, unit: str) -> int:
    if unit == "bytes" and kind.bits % 8:
        raise AlignmentError(f"code of {layout} in bytes: {kind} has {kind.bits} bits; count elements")
    return kind.bits // 8 if unit == "bytes" else 1


def _value(layout: AnyLayout, front: Layout | None, at: Sequence[Expr], scale: int) -> tuple[Expr, int]:
    """(expression, less) of the layout at the parameters, in the unit."""
    if front is not None:
        at = (offset_of(front, at)[0],)
    value, less = offset_of(layout, at)
    value, less = (simplify(value * scale), less * scale) if scale > 1 else (value, less)
    if value.facts.hi >= LONG_END or less >= LONG_END:
        raise ResourceError("bits of an offset", value.facts.hi.bit_length(), 62)
    return value, less


def _proof(
    what: str, f: Function, to: str, variables: Sequence[Var], raw: tuple[Expr, int], table: Any
) -> str:
    """Prove that the text of a function is what it should be, and say how."""
    if to == "cpp":
        return proved_cute(what, text_of(f, to), {"layout": f.layout, "through": f.through})
    read = read_c if to in ("c", "cuda") else read_python
    return proved(what, read(text_of(f, to), f.name).term, variables, *raw, table)


def _carried(what: str, f: Function, to: str, carry: str, variables: Sequence[Var], table: Any) -> str:
    """The function of a loop's first offset, and its step in the comment."""
    import numpy as np

    names = [v.name for v in variables]
    check_choice("parameter", carry, names)
    moved = variables[names.index(carry)]
    rest = [v for v in variables if v != moved]
    ends = np.asarray([0, min(1, moved.facts.hi)])
    first, second = map(int, table([ends if v == moved else 0 * ends for v in variables]))
    step = second - first
    raw_value, start = f.value, simplify(substitute(f.value, {moved: Const(0)}))
    f = replace(
        f, parameters=tuple(rest), value=start, fixed=tuple("0" if v == moved else v.name for v in variables)
    )
    base = read_python(text_of(f, "python"), f.name).term
    total = apply("+", (base, apply("*", (variable(carry), number(step)))))
    try:
        proof = proved(f"{what} along {carry}", total, variables, raw_value, f.less, table)
    except MismatchError as error:
        where = error.message.rpartition(" at ")[2]
        raise UnsupportedError(
            f"{what}: {carry} does not move by equal steps: the first is {step}, and at {where} it is not; "
            f"no pointer is carried along it"
        ) from None

    def begins(grid: Sequence[Any]) -> Any:
        others = iter(grid)
        return table([0 if v == moved else next(others) for v in variables])

    _proof(what, f, to, rest, (start, f.less), begins)
    note = f"each step of {carry}, of {moved.facts.hi + 1}, adds {step} to the pointer; {proof}"
    return text_of(replace(f, notes=(note,), pointer="base" if "p" in names else "p"), to)
