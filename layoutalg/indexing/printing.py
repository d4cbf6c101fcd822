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

import keyword
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from layoutalg.codegen.expr import Const, Expr, Var, check_name, simplify, substitute
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
from layoutalg.indexing.lowering import Side, Through, offset_of, parameter_extents, through_layout
from layoutalg.indexing.proofs import proved, proved_cute
from layoutalg.indexing.targets import LONG_END, TARGETS, Function, text_of
from layoutalg.layout import AnyLayout, Layout, check_integers
from layoutalg.reading import apply, number, read_c, read_python, variable

UNITS = ("elements", "bytes")
SIDES = ("src", "dst")

_PYTHON = frozenset({*keyword.kwlist, "triton", "layout", "through", "cute", "T"})
"""Words that a name may not be in Python, and what the texts use themselves."""


def code(
    layout: AnyLayout,
    to: str = "c",
    name: str = "f",
    *,
    through: Through | None = None,
    side: Side = "src",
    element: str | DType = "f32",
    unit: str = "elements",
    parameters: Sequence[str] | None = None,
    carry: str | None = None,
) -> str:
    """The source of a function that computes a layout's offsets, without an end of line.

    It has one parameter per top-level mode, in order; that of a nested mode is its flat colexicographic
    index. `to` is c, cuda, cpp (CuTe), dsl (CuTe), triton or python.  `through` is a map composed with the
    layout: a TV layout, for parameters (tid, u), the `side`, src or dst, of a TiledCopy, or an access such as
    "ldmatrix.x4", for (lane, fragment).  `unit` is elements, or bytes of `element`.  `parameters` are names.
    `carry` is the parameter that a loop increments: the function then takes a pointer and returns the one
    with which the loop starts, and its comment says what each iteration adds.

    The function is proved: at every coordinate, over F2, or by classes of digits.  Raises UndecidedError
    where there is no proof, UnsupportedError for a loop whose increments are not constant, ResourceError for
    offsets past 2^62, UnknownNameError, ArgumentTypeError, ShapeError, and IRError for a name that cannot be
    used.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> print(code(tile, "python"))
    def f(row, col):
        # Sw<3,3,3> o 0 o (8,64):(64,1), in elements
        # row in [0,8), col in [0,64)
        # proved at all 512 coordinates
        return (col ^ row * 8) + row * 64
    """
    check_integers("code", layout)
    for kind_of, choice, names_of in (
        ("language", to, TARGETS),
        ("unit", unit, UNITS),
        ("side of a copy", side, SIDES),
    ):
        check_type("code", choice, str, f"a {kind_of} by its name")
        if choice not in names_of:
            raise UnknownNameError(kind_of, choice, names_of)
    kind = dtype(element)
    front, defaults = (None, None) if through is None else through_layout(through, layout, kind, side)
    domain = layout if front is None else front
    extents = parameter_extents(domain)
    names = _names(parameters, len(extents), defaults)
    for word in (name, *names):
        _check_word(word)
    if unit == "bytes" and kind.bits % 8:
        raise AlignmentError(f"code of {layout} in bytes: {kind} has {kind.bits} bits; count elements")
    scale = kind.bits // 8 if unit == "bytes" else 1
    variables = [Var(word, extent) for word, extent in zip(names, extents, strict=True)]
    value, less = _value(layout, front, variables, scale)

    def table(grid: Sequence[Any]) -> Any:
        at = grid if front is None else (front(*grid),)
        return layout(*at) * scale

    what = f"code of {layout}" + (f" of {front}" if front is not None else "")
    taken = tuple(zip(names, extents, strict=True))
    made = Function(name, str(layout), taken, value, less, unit, layout=layout, through=front, scale=scale)
    if carry is None:
        proof = _proof(what, made, to, variables, (value, less), table)
        return text_of(replace(made, notes=(proof,)), to)
    return _carried(what, made, to, carry, variables, table)


def _names(names: Sequence[str] | None, count: int, defaults: tuple[str, str] | None) -> tuple[str, ...]:
    """The names of the parameters."""
    if names is not None:
        if isinstance(names, str) or len(names) != count or not all(isinstance(n, str) for n in names):
            raise ArgumentTypeError(f"parameters {shown(names)}: {count} names are needed")
        if len({*names}) < count:
            raise ArgumentTypeError(f"parameters {shown(names)}: two have one name")
        return tuple(names)
    if defaults is not None:
        return defaults
    return {1: ("i",), 2: ("row", "col")}.get(count) or tuple(f"c{k}" for k in range(count))


def _check_word(word: str) -> None:
    if word in _PYTHON:
        raise ArgumentTypeError(
            f"{word!r} cannot be a name in every language that is printed: it has a meaning"
        )
    if word != "tid":
        check_name(word)


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
    parameters = tuple((v.name, v.facts.hi + 1) for v in rest)
    f = replace(
        f, parameters=parameters, value=start, fixed=tuple("0" if v == moved else v.name for v in variables)
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
