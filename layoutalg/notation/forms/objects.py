"""Layouts of other libraries as objects: pycute, tensor-layouts, NumPy and PyTorch; none of them is imported
but to make one of theirs.

>>> import numpy
>>> print(from_object(numpy.zeros((8, 64), "float16")[:, ::2]))
(8,32):(64,2)
"""

from __future__ import annotations

import importlib
from typing import Any

from layoutalg.errors import ArgumentTypeError, UnsupportedError, shown
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree
from layoutalg.notation.form import joined

LIBRARIES = {"pycute": "pycute", "tensor-layouts": "tensor_layouts"}
"""Forms whose objects can be made, and the modules that define them."""


def is_object(value: object) -> bool:
    """True for an object of a library that is read here."""
    return _library(value) in ("pycute", "tensor_layouts", "numpy", "torch") and not isinstance(value, str)


def _library(value: object) -> str:
    return type(value).__module__.split(".")[0]


def from_object(value: Any) -> AnyLayout | Swizzle:
    """The layout of an object of pycute or tensor-layouts, or of an array.

    Raises ArgumentTypeError for other objects, ShapeError for what is not a layout here.
    """
    if isinstance(value, (Layout, ComposedLayout, Swizzle)):
        return value
    library, kind = _library(value), type(value).__name__
    if library == "numpy" and hasattr(value, "strides"):
        steps = [step // value.itemsize for step in value.strides]
        if any(step % value.itemsize for step in value.strides):
            raise ArgumentTypeError(
                f"an array whose strides {value.strides} are no multiples of its elements"
            )
        return _array(value.shape, steps)
    if library == "torch" and hasattr(value, "stride"):
        return _array(tuple(value.size()), list(value.stride()))
    if library in ("pycute", "tensor_layouts"):
        if kind == "Layout":
            return Layout(_tree(value.shape), _tree(value.stride))
        if kind == "Swizzle":
            return Swizzle(value.bits, value.base, value.shift)
        if kind == "ComposedLayout":
            outer, inner = (
                (value.layoutB, value.layoutA) if library == "pycute" else (value.outer, value.inner)
            )
            function = from_object(outer)
            if isinstance(function, ComposedLayout):
                raise ArgumentTypeError(f"{function} is no outer layout here")
            return joined(ComposedLayout(function, value.offset, _layout(inner)))
        if kind == "Tensor" and value.offset == 0:
            return _layout(value.layout)
    raise ArgumentTypeError(f"{shown(value)} is a {kind} of {library}, no layout that is read here")


def _layout(value: Any) -> AnyLayout:
    inner = from_object(value)
    if isinstance(inner, Swizzle):
        raise ArgumentTypeError(f"{inner} alone is not an inner layout")
    return inner


def _tree(tree: Any) -> Any:
    return tuple(map(_tree, tree)) if isinstance(tree, (tuple, list)) else tree


def _array(shape: Any, strides: list[int]) -> Layout:
    extents = tuple(map(int, shape))
    return Layout(extents[0], strides[0]) if len(strides) == 1 else Layout(extents, tuple(strides))


def to_object(value: AnyLayout | Swizzle, library: str) -> Any:
    """An object of pycute or tensor-layouts.

    Raises UnsupportedError where it has no such object, or where the library is not installed.
    """
    if library not in LIBRARIES:
        raise UnsupportedError(f"no objects of {library} are made: of {', '.join(LIBRARIES)} they are")
    try:
        module = importlib.import_module(LIBRARIES[library])
    except ImportError as error:
        raise UnsupportedError(f"{library} is not installed here") from error
    return _made(value, module, library)


def _made(value: AnyLayout | Swizzle, module: Any, library: str) -> Any:
    if isinstance(value, Swizzle):
        return module.Swizzle(value.bits, value.base, value.shift)
    if isinstance(value, Layout):
        if any(type(leaf) is not int for leaf in (*flatten_tree(value.shape), *flatten_tree(value.stride))):
            raise UnsupportedError(f"{library} has integers alone, and {value} has others")
        return module.Layout(value.shape, value.stride)
    inner = _made(value.inner, module, library)
    outers: list[Layout | Swizzle] = [value.outer] if isinstance(value.outer, Layout) else [*value.swizzles]
    offset = value.offset
    for outer in reversed(outers):
        made = _made(outer, module, library)
        if library == "pycute":
            inner = module.ComposedLayout(made, offset, inner)
        else:
            inner = module.ComposedLayout(made, inner, offset=offset)
        offset = 0
    return inner
