"""FUNCTIONS: every function of CuTe that a source text may call, and the library's function that answers it.

The idea.  A row names what is called and how CuTe writes its arguments; there is no reader per function.

    raked_product(a, b)              raked_product(a, b)
    upcast<2>(a)                     upcast(a, 2)                      numbers in <...> go after the layout
    recast_layout<half_t, float>(a)  recast_layout(a, 16, 32)          of types, their bits
    append<4>(a)                     append(a, rank=4)
    size<0,1>(a)                     size of mode 1 of mode 0 of a

>>> print(call_function("upcast", [2], [Layout((8, 8))], {}))
(4,8):(1,4)

Notes.  docs/algebra.md lists the names of this table; a test compares the two.

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
from layoutalg.layout import Layout, Swizzle, modes, rank


class Major(str):
    """The order of modes in memory: left, the first fastest, or right."""

    __slots__ = ()


Brackets = Literal["", "numbers", "types"]
"""Kinds of arguments in <...>: none, numbers, or element types, whose bits count."""

Answer = Callable[..., Any]
"""A function of the library, and a way to call it with the numbers in <...> before the arguments."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: `answers` is the name of the library's, `call` gives it the numbers in <...>, the
    arguments and those with keys."""

    answers: str
    call: Answer
    brackets: Brackets = ""


def _plain(f: Answer, numbers: Sequence[int], /, *args: Any, **keys: Any) -> Any:
    return f(*args, **keys)


def _after(f: Answer, numbers: Sequence[int], /, *args: Any, **keys: Any) -> Any:
    """select<0,2>(a), select(a, 0, 2) and select(a, mode=[0, 2])."""
    return f(*args, *(numbers or keys.pop("mode", ())), **keys)


def _rank(f: Answer, numbers: Sequence[int], /, *args: Any, **keys: Any) -> Any:
    """append<4>(a) and append(a)."""
    (most,) = numbers or (None,)
    return f(*args, **keys) if most is None else f(*args, rank=most, **keys)


def _second(f: Answer, numbers: Sequence[int], first: Any, /, *others: Any, **keys: Any) -> Any:
    """replace<1>(a, b) and replace(a, 1, b)."""
    return f(first, *numbers, *others, **keys)


def _range(f: Answer, numbers: Sequence[int], layout: Any, /, **keys: Any) -> Any:
    """take<1,3>(a): the modes from the first number on, up to the second."""
    begin, end = numbers
    return f(layout, *range(begin, rank(layout) if end == -1 else end), **keys)


def _mode(f: Answer, numbers: Sequence[int], part: Any, /, **keys: Any) -> Any:
    """size<0,1>(a): of a mode of a mode."""
    for at in numbers:
        part = modes(part)[at] if isinstance(part, Layout) else part[at]
    return f(part, **keys)


def _recast(f: Answer, numbers: Sequence[int], /, *args: Any, **keys: Any) -> Any:
    """recast_layout<Old, New>(a) of C++, recast_layout(new_bits, old_bits, a) of the DSL."""
    if numbers:
        return f(*args, *numbers, **keys)
    names = ("new_type_bits", "old_type_bits", "src_layout")
    new, old, layout = [*args, *(keys[name] for name in names[len(args) :])]
    return f(layout, old, new)


def _ordered(f: Answer, numbers: Sequence[int], /, *args: Any, **keys: Any) -> Any:
    """An order as numbers, or as LayoutLeft and LayoutRight of the shape before it."""
    *before, last = args
    if isinstance(last, Major):
        order = range(len(before[-1]) if isinstance(before[-1], tuple) else 1)
        last = tuple(order if last == "left" else reversed(order))
    return f(*before, last, **keys)


def _shaped(value: Any) -> Any:
    """The value; raises TypeError for a swizzle, which has neither shape nor stride."""
    if isinstance(value, Swizzle):
        raise TypeError
    return value


_OWN: Mapping[str, Answer] = MappingProxyType(
    {"shape": lambda x: _shaped(x).shape, "stride": lambda x: _shaped(x).stride, "layout": lambda x: x}
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
        **{name: Function(name, _ordered) for name in ("make_ordered_layout", "tile_to_shape")},
        **{name: Function(name, _after, "numbers") for name in ("select", "group", "upcast", "downcast")},
        "group_modes": Function("group", _after, "numbers"),
        "take": Function("select", _range, "numbers"),
        "recast_layout": Function("recast_layout", _recast, "types"),
        **{name: Function(name, _rank, "numbers") for name in ("append", "prepend")},
        "replace": Function("replace", _second, "numbers"),
        **{name: Function(name, _mode, "numbers") for name in ("size", "cosize", "rank", "depth", *_OWN)},
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
    return row.call(function, numbers, *given, **keys)
