"""FUNCTIONS: every function of CuTe that a source text may call, and the library's function that answers it.

The idea.  A row names what is called and how CuTe writes its arguments; there is no reader per function.

    raked_product(a, b)              raked_product(a, b)
    upcast<2>(a)                     upcast(a, 2)                      numbers in <...> go after the layout
    recast_layout<half_t, float>(a)  recast_layout(a, 16, 32)          of types, their bits
    append<4>(a)                     append(a, rank=4)
    size<0,1>(a)                     size of mode 1 of mode 0 of a

>>> print(call_function("upcast", [2], [Layout((8, 8))], {}))
(4,8):(1,4)

Notes.  docs/notations.md lists the names of this table; a test compares the two.

Sources.  CUTLASS, include/cute/layout.hpp, layout_composed.hpp, algorithm/tuple_algorithms.hpp; CuTe DSL,
cutlass.cute.core, for the order of the arguments of its recast_layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from layoutalg import algebra, decide
from layoutalg import layout as values
from layoutalg.layout import Layout, modes, rank


class Major(str):
    """The order of modes in memory: left, the first fastest, or right."""

    __slots__ = ()


Brackets = Literal["", "numbers", "types"]
"""Kinds of arguments in <...>: none, numbers, or element types, whose bits count."""

Call = Callable[[Callable[..., Any], Sequence[int], Sequence[Any], Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function: `answers` is the name of the library's, `call` gives it the numbers in <...>, the
    arguments and those with keys."""

    answers: str
    call: Call
    brackets: Brackets = ""


def _plain(
    f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]
) -> Any:
    return f(*args, **keys)


def _after(
    f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]
) -> Any:
    """select<0,2>(a), select(a, 0, 2) and select(a, mode=[0, 2])."""
    keys = dict(keys)
    return f(*args, *(numbers or keys.pop("mode", ())), **keys)


def _rank(f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]) -> Any:
    """append<4>(a) and append(a)."""
    (most,) = numbers or (None,)
    return f(*args, **keys) if most is None else f(*args, rank=most, **keys)


def _second(
    f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]
) -> Any:
    """replace<1>(a, b) and replace(a, 1, b)."""
    first, *others = args
    return f(first, *numbers, *others, **keys)


def _range(
    f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]
) -> Any:
    """take<1,3>(a): the modes from the first number on, up to the second."""
    (layout,), (begin, end) = args, numbers
    return f(layout, *range(begin, rank(layout) if end == -1 else end), **keys)


def _mode(f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]) -> Any:
    """size<0,1>(a): of a mode of a mode."""
    (part,) = args
    for at in numbers:
        part = modes(part)[at] if isinstance(part, Layout) else part[at]
    return f(part, **keys)


def _recast(
    f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]
) -> Any:
    """recast_layout<Old, New>(a) of C++, recast_layout(new_bits, old_bits, a) of the DSL."""
    if numbers:
        return f(*args, *numbers, **keys)
    names = ("new_type_bits", "old_type_bits", "src_layout")
    new, old, layout = [*args, *(keys[name] for name in names[len(args) :])]
    return f(layout, old, new)


def _ordered(
    f: Callable[..., Any], numbers: Sequence[int], args: Sequence[Any], keys: Mapping[str, Any]
) -> Any:
    """An order as numbers, or as LayoutLeft and LayoutRight of the shape before it."""
    *before, last = args
    if isinstance(last, Major):
        order = range(len(before[-1]) if isinstance(before[-1], tuple) else 1)
        last = tuple(order if last == "left" else reversed(order))
    return f(*before, last, **keys)


def _shape(layout: Layout) -> Any:
    return layout.shape


def _stride(layout: Layout) -> Any:
    return layout.stride


def _itself(value: Any) -> Any:
    return value


_OWN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"shape": _shape, "stride": _stride, "layout": _itself}
)
"""Functions that are not functions of the algebra by themselves."""

_BY_TILER = tuple(
    f"{kind}_{what}" for what in ("divide", "product") for kind in ("logical", "zipped", "tiled", "flat")
)

_PLAIN = (
    "coalesce", "complement", "composition", "right_inverse", "left_inverse", "filter", "filter_zeros",
    "flatten", *_BY_TILER, "blocked_product", "raked_product", "max_common_layout", "max_common_vector",
    "nullspace", "make_layout_like", "make_fragment_like", "make_identity_layout",
)  # fmt: skip

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        **{name: Function(name, _plain) for name in _PLAIN},
        "make_ordered_layout": Function("make_ordered_layout", _ordered),
        "tile_to_shape": Function("tile_to_shape", _ordered),
        "select": Function("select", _after, "numbers"),
        "group": Function("group", _after, "numbers"),
        "group_modes": Function("group", _after, "numbers"),
        "take": Function("select", _range, "numbers"),
        "upcast": Function("upcast", _after, "numbers"),
        "downcast": Function("downcast", _after, "numbers"),
        "recast_layout": Function("recast_layout", _recast, "types"),
        "append": Function("append", _rank, "numbers"),
        "prepend": Function("prepend", _rank, "numbers"),
        "replace": Function("replace", _second, "numbers"),
        **{name: Function(name, _mode, "numbers") for name in ("size", "cosize", "rank", "depth")},
        "shape": Function("shape", _mode, "numbers"),
        "stride": Function("stride", _mode, "numbers"),
        "layout": Function("layout", _mode, "numbers"),
        "get": Function("layout", _mode, "numbers"),
    }
)
"""Every function by CuTe's name; read only."""

OF_TENSORS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("local_tile", "local_partition", "inner_partition", "outer_partition", "make_tensor",
             "make_identity_tensor", "make_coord_tensor"),
            "it makes a tensor, which begins somewhere: give its layout",
        ),
        "recast": "it is of tensors; of layouts it is recast_layout<Old, New>(layout)",
    }
)  # fmt: skip
"""Functions of CuTe that are known and not called, and why."""


def call_function(name: str, numbers: Sequence[int], given: Sequence[Any], keys: Mapping[str, Any]) -> Any:
    """The result of a function of the table for the numbers in <...>, its arguments and those with keys.

    Raises TypeError for arguments that it does not take, and what the library's function raises.
    """
    row = FUNCTIONS[name]
    rooms = (algebra, decide, values)
    function = _OWN.get(row.answers) or next(f for r in rooms if (f := getattr(r, row.answers, None)))
    if numbers and not row.brackets:
        raise TypeError(f"{name} takes nothing in <...>")
    return row.call(function, numbers, given, keys)
