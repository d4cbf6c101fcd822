"""Layouts written as source: C++ calls and types, CuTe DSL, pycute, tensor-layouts, this library's own repr.

The idea.  All are one walk over the layout, with a record of how each part is spelled.

>>> print(write(Layout((4, 8), (8, 1)), CPP_TYPE))
cute::Layout<cute::tuple<cute::C<4>, cute::C<8>>, cute::tuple<cute::C<8>, cute::C<1>>>
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from layoutalg.errors import UnsupportedError
from layoutalg.layout import AnyLayout, Layout, ScaledBasis, Swizzle
from layoutalg.notation.symbols import leaf_parts

INT_END, LONG_END = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """The spelling of the parts of a layout in a language, which errors call by its `name`.

    `symbol` is None where a leaf has to be an integer, `basis` where it may not be a stride along a mode.
    `narrow` is True where a swizzle's fields may not overlap.
    """

    name: str
    integer: Callable[[int], str]
    shape: Callable[[list[str]], str]
    stride: Callable[[list[str]], str]
    layout: Callable[[str, str], str]
    swizzle: Callable[[Swizzle], str]
    composed: Callable[[str, str, str], str]
    symbol: Callable[[str], str] | None = None
    basis: Callable[[str, tuple[int, ...]], str] | None = None
    narrow: bool = True


def write(value: AnyLayout | Swizzle, spelling: Spelling) -> str:
    """A layout, or a swizzle alone, as one expression.  Raises UnsupportedError where there is none."""
    if isinstance(value, Swizzle):
        return _swizzle(value, spelling)
    if isinstance(value, Layout):
        shape = _tree(value.shape, spelling, spelling.shape)
        return spelling.layout(shape, _tree(value.stride, spelling, spelling.stride))
    inner = write(value.inner, spelling)
    if isinstance(value.outer, Layout):
        return spelling.composed(write(value.outer, spelling), spelling.integer(value.offset), inner)
    offset = value.offset
    for factor in reversed([*value.swizzles] or [Swizzle(0, 0, 0)]):
        inner = spelling.composed(_swizzle(factor, spelling), spelling.integer(offset), inner)
        offset = 0
    return inner


def _swizzle(swizzle: Swizzle, spelling: Spelling) -> str:
    if spelling.narrow and swizzle.bits > abs(swizzle.shift):
        raise UnsupportedError(
            f"{spelling.name} has no {swizzle}: its shift has to be at least its bits, or fields overlap"
        )
    return spelling.swizzle(swizzle)


def _tree(tree: Any, spelling: Spelling, many: Callable[[list[str]], str]) -> str:
    if isinstance(tree, tuple):
        return many([_tree(part, spelling, many) for part in tree])
    if isinstance(tree, ScaledBasis):
        if spelling.basis is None:
            raise UnsupportedError(
                f"{spelling.name} has no strides along modes of a coordinate, such as {tree}"
            )
        return spelling.basis(_tree(tree.value, spelling, many), tree.modes)
    parts = leaf_parts(tree, spelling.name)
    if parts is None:
        return spelling.integer(tree)
    if spelling.symbol is None:
        raise UnsupportedError(f"{spelling.name} has integers alone, and {tree} is a symbol")
    multiple, name = parts
    if multiple != 1:
        raise UnsupportedError(f"{spelling.name} is written with names and integers, and {tree} is a product")
    return spelling.symbol(name)


# --- C++ -------------------------------------------------------------------------------------------------


def _constant(number: int) -> str:
    """A static integer: of type int where it fits, else of type long long."""
    if not -LONG_END < number < LONG_END:
        raise UnsupportedError(f"C++ has no integer of 64 bits that is {number}")
    return f"cute::C<{number}>" if -INT_END < number < INT_END else f"cute::C<{number}ll>"


def _value(number: int) -> str:
    text = _constant(number)
    return f"{text if text.endswith('ll>') else text.replace('C<', 'Int<')}{{}}"


def _call(name: str) -> Callable[..., str]:
    return lambda parts: f"{name}({', '.join(parts)})"


CPP = Spelling(
    name="CuTe C++",
    integer=_value,
    shape=_call("cute::make_shape"),
    stride=_call("cute::make_stride"),
    layout=lambda shape, stride: f"cute::make_layout({shape}, {stride})",
    swizzle=lambda s: f"cute::Swizzle<{s.bits},{s.base},{s.shift}>{{}}",
    composed=lambda outer, offset, inner: f"cute::make_composed_layout({outer}, {offset}, {inner})",
    symbol=lambda name: name,
    basis=lambda value, path: f"cute::ScaledBasis<{value.removesuffix('{}')}, {_path(path)}>{{}}",
)


def _path(path: tuple[int, ...]) -> str:
    return ", ".join(map(str, path))


def _types(parts: list[str]) -> str:
    return f"cute::tuple<{', '.join(parts)}>"


CPP_TYPE = Spelling(
    name="a C++ type",
    integer=_constant,
    shape=_types,
    stride=_types,
    layout=lambda shape, stride: f"cute::Layout<{shape}, {stride}>",
    swizzle=lambda s: f"cute::Swizzle<{s.bits},{s.base},{s.shift}>",
    composed=lambda outer, offset, inner: f"cute::ComposedLayout<{outer}, {offset}, {inner}>",
    symbol=lambda name: "int",
    basis=lambda value, path: f"cute::ScaledBasis<{value}, {_path(path)}>",
)

# --- Python ----------------------------------------------------------------------------------------------


def _python_tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


DSL = Spelling(
    name="the CuTe DSL",
    integer=str,
    shape=_python_tuple,
    stride=_python_tuple,
    layout=lambda shape, stride: f"cute.make_layout({shape}, stride={stride})",
    swizzle=lambda s: f"cute.make_swizzle({s.bits}, {s.base}, {s.shift})",
    composed=lambda outer, offset, inner: f"cute.make_composed_layout({outer}, {offset}, {inner})",
    symbol=lambda name: name,
    basis=lambda value, path: f"cute.ScaledBasis({value}, {path[0] if len(path) == 1 else list(path)})",
)


PYCUTE = Spelling(
    name="pycute",
    integer=str,
    shape=_python_tuple,
    stride=_python_tuple,
    layout=lambda shape, stride: f"Layout({shape}, {stride})",
    swizzle=lambda s: f"Swizzle({s.bits}, {s.base}, {s.shift})",
    composed=lambda outer, offset, inner: f"ComposedLayout({outer}, {offset}, {inner})",
)
TENSOR_LAYOUTS = replace(
    PYCUTE,
    name="tensor-layouts",
    composed=lambda outer, offset, inner: f"ComposedLayout({outer}, {inner}, offset={offset})",
    narrow=False,
)


def cute_text(layout: AnyLayout) -> str:
    """A layout of static integers as an expression of CuTe C++.

    >>> print(cute_text(Layout((4, 8))))
    cute::make_layout(cute::make_shape(cute::Int<4>{}, cute::Int<8>{}), \
cute::make_stride(cute::Int<1>{}, cute::Int<4>{}))
    """
    return write(layout, CPP)
