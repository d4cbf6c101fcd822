"""CuTe's functions on the values of a kernel, by the library's functions of the same names.

The idea.  A function of layouts applies to tensors too: it changes their layout, and their elements stay.
A type has no pointer: there a tensor is its layout alone, and a slice forgets where it begins.  Types and
values both ask `call`.

    call       a function by its name, on layouts, tensors, tuples, atoms and tilings

Source.  CUTLASS, include/cute: tensor_impl.hpp, layout.hpp, atom/copy_atom.hpp, atom/mma_atom.hpp.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from layoutalg import algebra, atoms
from layoutalg.atoms import find_copy_atom, find_mma_atom, tile_copy
from layoutalg.compose import composition
from layoutalg.errors import UnsupportedError
from layoutalg.layout import (
    ArithTuple,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    concat,
    flatten_tree,
    innermost,
    map_innermost,
    modes,
    product,
    rank,
    unflatten_tree,
)
from layoutalg.notation import call_function
from layoutalg.source.cute.values import Atom, Index, Tensor, Tiled, dynamic, frozen, is_static

OPERANDS = ("A", "B", "C")


def call(name: str, *given: Any) -> Any:
    """The value of a function of CuTe.  Raises what the library's function raises, UnsupportedError."""
    if name in OWN:
        return OWN[name](*given)
    numbers, (first, *others) = (given[0], given[1:]) if isinstance(given[0], list) else ([], given)
    if name in NUMBERED:
        return NUMBERED[name](numbers, first)
    if isinstance(first, tuple) and name in _OF_TUPLES:
        return _OF_TUPLES[name](numbers, first, *others)
    others = [dynamic(other) for other in others]
    return _by(first, lambda layout: call_function(name, numbers, [dynamic(layout), *others], {}))


def _by(of: Any, change: Callable[[Any], Any]) -> Any:
    """A layout that is changed, or a tensor with its layout changed."""
    return of.of(change) if isinstance(of, Tensor) else change(of)


def as_layout(*given: Any) -> Any:
    """make_layout: of a shape and strides or an order, of layouts side by side."""
    if isinstance(given[0], (Layout, ComposedLayout)):
        return given[0] if len(given) == 1 else concat(*given)
    shape, *stride = map(dynamic, given)
    if stride == ["right"]:  # a compact layout counts from the left: of the tree that is turned over
        return _turned(Layout(_turned(shape)))
    return Layout(shape) if stride == ["left"] else Layout(shape, *stride)


def _turned(of: Any) -> Any:
    """A tree, or a layout, with its modes from the right to the left, on each level."""
    if isinstance(of, Layout):
        return Layout(_turned(of.shape), _turned(of.stride))
    return tuple(map(_turned, reversed(of))) if isinstance(of, tuple) else of


def tensor(pointer: Any, layout: Any, bits: int, kind: str) -> Tensor:
    """A tensor of a pointer and a layout."""
    if not isinstance(layout, ComposedLayout):
        return Tensor(pointer, layout, bits, kind)
    if not isinstance(layout.outer, (Swizzle, Swizzles)) or not isinstance(layout.inner, Layout):
        raise UnsupportedError(f"a tensor with the layout {layout} is not read")
    return Tensor(pointer, layout.inner, bits, kind, layout.offset, Swizzles(layout.outer))


def _identity_tensor(shape: Any) -> Tensor:
    """Every coordinate is its own element."""
    zeros: Any = unflatten_tree((0,) * len(flatten_tree(shape)), shape)
    layout = call("make_identity_layout", shape)
    return Tensor(None, layout, at=ArithTuple(zeros) if isinstance(zeros, tuple) else 0)


# --- parts ------------------------------------------------------------------------------------------------


def _slice(of: Any, *coordinate: Any) -> Any:
    point = coordinate[0] if len(coordinate) == 1 else coordinate
    if isinstance(of, Tensor):
        return of.sliced(point)
    return map_innermost(of, lambda layout: Tensor(None, layout).sliced(_started(point)).layout)


def _started(coordinate: Any) -> Any:
    """A coordinate with 0 for what is known at run time alone: of a type the form matters."""
    if isinstance(coordinate, tuple):
        return tuple(map(_started, coordinate))
    return 0 if isinstance(coordinate, Index) else coordinate


def _at(of: Any, *coordinate: Any) -> Any:
    point = coordinate[0] if len(coordinate) == 1 else coordinate
    if isinstance(of, ComposedLayout):
        return tensor(None, of, 0, "").index(point)
    return of.at + of.layout(point) if isinstance(of, Tensor) else of(point)


def _coordinate(shape: Any) -> Any:
    """An element of a tensor of coordinates, as a type."""
    numbers: Any = (Index.of(0),) * len(flatten_tree(shape))
    return unflatten_tree(numbers, shape)


def _part(of: Any, tiler: Any, coordinate: Any, *, element: bool) -> Any:
    """A tile, or an `element` of every tile."""
    tiles = call("zipped_divide", of, tiler)
    ranks = [rank(mode) for mode in modes(plain(tiles))]
    fixed = coordinate
    if isinstance(coordinate, tuple):
        fixed = (*coordinate, *(None,) * (ranks[not element] - len(coordinate)))
    every = (None,) * ranks[element]
    return _slice(tiles, *((fixed, every) if element else (every, fixed)))


def _without(step: Any, value: Any) -> Any:
    """The modes of a tuple or a layout that a Step, if there is one, does not leave out."""
    if step is None:
        return value
    return call("select", [n for n, part in enumerate(step) if part is not None], value)


def _local_tile(of: Any, tiler: Any, coordinate: Any, step: Any = None) -> Any:
    return _part(of, _without(step, tiler), _without(step, coordinate), element=False)


def _local_partition(of: Any, threads: Layout, index: Any, step: Any = None) -> Any:
    threads = _without(step, threads)
    return _part(of, _product_each(threads.shape), _thread(threads, index), element=True)


def _thread(threads: Layout, index: Any) -> Any:
    """get_flat_coord: the coordinate that a thread layout sends to a number, a number per mode."""
    parts = []
    for part in modes(threads):
        total, weight = Index.of(0), 1
        for s, d in zip(flatten_tree(part.shape), flatten_tree(part.stride), strict=True):
            digit = Index.of(index) // d % s if d and s != 1 else 0
            total, weight = total + digit * weight, weight * s
        parts.append(total)
    return tuple(parts) if isinstance(threads.shape, tuple) else parts[0]


def _domain_offset(coordinate: Any, of: Any) -> Any:
    return replace(of, at=of.at + of.layout(coordinate)) if isinstance(of, Tensor) else of


def _composition(first: Any, *others: Any) -> Any:
    if len(others) == 2:
        return ComposedLayout(first, *others)
    return _by(first, lambda layout: composition(layout, dynamic(others[0])))


# --- atoms and tilings ------------------------------------------------------------------------------------


def atom(kind: str, instruction: Any, element: Any = None) -> Atom:
    """A Copy_Atom or an MMA_Atom."""
    made = instruction if isinstance(instruction, Atom) else Atom(
        (find_mma_atom if kind.startswith("MMA") else find_copy_atom)(instruction)
    )  # fmt: skip
    if element is None or kind.startswith("MMA"):
        return made
    moved = find_copy_atom(f"UniversalCopy<uint{element.bits}_t>") if made.assumed else made.copy
    return replace(made, instruction=replace(moved, element=element))


def _tiled_copy(given: Atom, threads: Layout, *values: Layout) -> Tiled:
    return Tiled(atoms.make_tiled_copy(given.copy, None, threads, *values), given)


def _tiled_mma(given: Any, threads: Any = (1, 1, 1), tile: Any = ()) -> Tiled:
    made: Any = given if isinstance(given, Atom) else atom("MMA", given)
    return Tiled(atoms.make_tiled_mma(made.instruction, threads, tile), made)


def _copy_of(which: str) -> Callable[[Atom, Tiled], Tiled]:
    function = getattr(atoms, f"make_tiled_copy_{which}")
    return lambda given, other: Tiled(function(given.copy, other.tiling), given)


def tiled(kind: str, given: Atom, layout: Any = (1, 1, 1), tiler: Any = ()) -> Tiled:
    """TiledCopy<Atom, LayoutTV, Tiler> and TiledMMA<Atom, AtomLayout, Permutations> as types."""
    if kind == "TiledMMA":
        return _tiled_mma(given, layout, tiler)
    return Tiled(tile_copy(given.copy, None, layout, tiler), given)


def _partition(side: str) -> Callable[[Tiled, Any], Any]:
    """A thread's part of (thread, (value, (rest, ...))), as (value, rest, ...)."""

    def part(by: Tiled, of: Any) -> Any:
        if not isinstance(of, Tensor):
            return map_innermost(of, lambda layout: part(by, Tensor(None, layout)).layout)
        made = of.of(functools.partial(by.tiling.tidfrg, side))
        rest = modes(modes(modes(made.layout)[1])[1])
        return made.sliced((by.thread, (None, (None,) * len(rest))))

    return part


def plain(of: Any) -> Layout:
    """The layout of a tensor or a layout, without its swizzles."""
    return innermost(of.layout if isinstance(of, Tensor) else of)


def _like(of: Any, function: Callable[[Layout], Layout]) -> Layout:
    """Registers in the order of a layout, where dynamic strides come last."""
    layout = plain(of)
    if not is_static(layout.shape):
        raise UnsupportedError(f"registers of the dynamic shape of {layout}")
    return function(frozen(layout))


def fragment_like(of: Any) -> Layout:
    """make_fragment_like."""
    return _like(of, algebra.make_fragment_like)


def _fragment(operand: str, *, made: bool) -> Callable[[Tiled, Any], Layout]:
    """partition_fragment_X of a matrix, make_fragment_X of a part of it."""

    def make(by: Tiled, of: Any) -> Layout:
        if isinstance(of, tuple):
            return _partition_shape(by, of)
        part = plain(of if made else _partition(operand)(by, of))
        return Layout(part.shape) if operand == "C" else fragment_like(part)

    return make


def _partition_shape(by: Tiled, shape: Any) -> Layout:
    return Layout(plain(_partition("C")(replace(by, thread=0), Layout(shape))).shape)


# --- numbers ----------------------------------------------------------------------------------------------


def _measured(name: str) -> Callable[[Any, Any], Any]:
    """size, shape, rank and the like, of layouts and of what is inside of tensors."""

    def measure(numbers: Any, of: Any) -> Any:
        if isinstance(of, Tiled):
            return of.tiling.threads
        layout = of.layout if isinstance(of, Tensor) else of
        inside = isinstance(layout, ComposedLayout) and (numbers or name not in ("cosize", "stride"))
        return call_function(name, numbers, [innermost(layout) if inside else layout], {})

    return measure


def _layout(numbers: Any, of: Any) -> Any:
    if isinstance(of, Tensor) and of.swizzles:
        if isinstance(of.at, Index):
            raise UnsupportedError("the layout of a swizzled tensor that begins at run time")
        of = ComposedLayout(of.swizzles, of.at, of.layout)
    return _get(numbers, of.layout if isinstance(of, Tensor) else of)


def _get(numbers: Any, of: Any) -> Any:
    return call_function("get", numbers, [of], {})


def _ceil_div(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        others = b if isinstance(b, tuple) else (b,)
        return tuple(_ceil_div(x, y) for x, y in zip(a, others, strict=False)) + a[len(others) :]
    return -(-a // b) if type(a) is type(b) is int else (Index.of(a) + (Index.of(b) - 1)) // b


def _elem_less(a: Any, b: Any) -> Index:
    """Whether every number of a coordinate is less than the other's, as 0 or 1."""
    pairs = zip(flatten_tree(a), flatten_tree(b), strict=True)
    return functools.reduce(operator.mul, (Index.of(x).less(y) for x, y in pairs))


def recast(widths: Any, of: Any) -> Any:
    """The same bytes in elements of other bits."""
    old, new = widths
    if not isinstance(of, Tensor):
        return algebra.recast_layout(of, old, new)
    by = max(old, new) // min(old, new)
    step = (by.bit_length() - 1) * (1 if new > old else -1)
    if any(each.base < step for each in of.swizzles):
        raise UnsupportedError(f"a swizzle moves parts of {new} bits")
    return Tensor(
        of.pointer, plain(algebra.recast_layout(of.layout, old, new)), new, of.kind,
        of.at // by if new > old else of.at * by,
        Swizzles(*(Swizzle(s.bits, s.base - step, s.shift) for s in of.swizzles)),
        of.loose >> step if new > old else of.loose << -step,
    )  # fmt: skip


def _product_each(of: Any) -> Any:
    return tuple(map(product, of)) if isinstance(of, tuple) else of


_OF_TUPLES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "select": lambda numbers, of: tuple(of[at] for at in numbers),
        "take": lambda numbers, of: of[numbers[0] : None if numbers[1] == -1 else numbers[1]],
        "replace": lambda numbers, of, by: (*of[: numbers[0]], by, *of[numbers[0] + 1 :]),
        "append": lambda numbers, of, by=1: of + (by,) * (numbers[0] - len(of) if numbers else 1),
        "prepend": lambda numbers, of, by=1: (by,) * (numbers[0] - len(of) if numbers else 1) + of,
        "flatten": lambda numbers, of: flatten_tree(of),
    }
)
"""Functions of tuples of integers; read only."""

_TUPLES = ("make_tuple", "make_shape", "make_stride", "make_coord", "make_tile", "make_step")

OWN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "make_layout": as_layout, "slice": _slice, "at": _at, "coordinate": _coordinate,
        "local_tile": _local_tile, "local_partition": _local_partition, "domain_offset": _domain_offset,
        "composition": _composition, "make_tiled_copy": _tiled_copy, "make_tiled_mma": _tiled_mma,
        **dict.fromkeys(("retile_S", "retile_D"), lambda by, of: _by(of, by.tiling.retile)),
        "make_fragment_like": fragment_like,
        "make_tensor_like": lambda of: _like(of, algebra.make_layout_like),
        "make_identity_tensor": _identity_tensor, "ceil_div": _ceil_div, "elem_less": _elem_less,
        "is_static": is_static, "partition_shape_C": _partition_shape,
        "product_each": _product_each, "product": product,
        **dict.fromkeys(_TUPLES, lambda *parts: parts),
        **dict.fromkeys(("get_slice", "get_thread_slice"), lambda by, thread: replace(by, thread=thread)),
        "partition_S": _partition("src"), "partition_D": _partition("dst"),
        "get_layoutS_TV": lambda by: by.tiling.get_layoutS_TV(),
        "get_layoutD_TV": lambda by: by.tiling.get_layoutD_TV(),
        "shape_mnk": lambda given: _tiled_mma(given).tiling.atom.shape_mnk,
        **{f"make_tiled_copy_{x}": _copy_of(x) for x in ("A", "B", "C", "S", "D", "C_atom")},
        **{f"partition_{x}": _partition(x) for x in OPERANDS},
        **{f"partition_fragment_{x}": _fragment(x, made=False) for x in OPERANDS},
        **{f"make_fragment_{x}": _fragment(x, made=True) for x in OPERANDS},
        **{f"get_layout{x}_TV": (lambda by, x=x: by.tiling.layout_tv(x)) for x in OPERANDS},
        **{f"element_{x}": (lambda by, x=x: by.tiling.atom.dtype(x)) for x in OPERANDS},
    }
)  # fmt: skip
"""Functions that are not one function of the algebra; read only."""

NUMBERED: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "get": _get, "tensor": lambda numbers, of: _by(of, functools.partial(_get, numbers)),
        "layout": _layout, "tile_size": lambda numbers, by: by.tiling.tile_shape[numbers[0]],
        "recast": recast,
        **{name: _measured(name) for name in ("size", "rank", "depth", "cosize", "shape", "stride")},
    }
)  # fmt: skip
"""Functions with numbers, or bits of types, in <...>; read only."""
