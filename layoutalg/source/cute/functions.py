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
from typing import Any, Literal

from layoutalg import algebra, atoms
from layoutalg.atoms import MMAAtom, Operand, find_copy_atom, find_mma_atom, tile_copy
from layoutalg.compose import composition
from layoutalg.errors import UnsupportedError
from layoutalg.layout import (
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
    unflatten_tree,
)
from layoutalg.notation import Major, call_function
from layoutalg.source.cute.values import (
    TENSORS,
    Atom,
    Coordinates,
    Index,
    Tensor,
    Tiled,
    Vectorizing,
    copy_tiling,
    dynamic,
    frozen,
    is_static,
    mma_tiling,
)

OPERANDS: tuple[Operand, ...] = ("A", "B", "C")


def call(name: str, *given: Any) -> Any:
    """The value of a function of CuTe.  Raises what the library's function raises, UnsupportedError."""
    numbers, (first, *others) = (given[0], given[1:]) if isinstance(given[0], list) else ([], given)
    if name in OWN:
        return OWN[name](first, *others)
    if name in NUMBERED:
        return NUMBERED[name](numbers, first)
    if isinstance(first, tuple):
        return _OF_TUPLES[name](numbers, first, *others)
    others = [dynamic(other) for other in others]
    if isinstance(first, TENSORS):
        return first.of(lambda layout: call_function(name, numbers, [layout, *others], {}))
    return call_function(name, numbers, [dynamic(first), *others], {})


def as_layout(*given: Any) -> Any:
    """make_layout: of a shape and strides or an order, of layouts side by side."""
    if isinstance(given[0], (Layout, ComposedLayout)):
        return given[0] if len(given) == 1 else concat(*given)
    shape, stride = dynamic(given[0]), dynamic(given[1]) if len(given) > 1 else None
    if not isinstance(stride, Major):
        return Layout(shape) if stride is None else Layout(shape, stride)
    if stride == "left":
        return Layout(shape)
    strides: list[Any] = []
    step: Any = 1
    for extent in reversed(flatten_tree(shape)):
        strides.append(step)
        step = step * extent
    return Layout(shape, unflatten_tree(tuple(strides[::-1]), shape))


def tensor(pointer: Any, layout: Any, bits: int, kind: str) -> Tensor:
    """A tensor of a pointer and a layout."""
    if isinstance(layout, ComposedLayout):
        outer = layout.outer
        if isinstance(outer, Swizzle):
            outer = Swizzles(outer)
        if not isinstance(outer, Swizzles) or not isinstance(layout.inner, Layout):
            raise UnsupportedError(f"a tensor with the layout {layout} is not read")
        return Tensor(pointer, layout.inner, bits, kind, layout.offset, outer)
    return Tensor(pointer, layout, bits, kind)


def _slice(of: Any, *coordinate: Any) -> Any:
    point = coordinate[0] if len(coordinate) == 1 else coordinate
    if isinstance(of, TENSORS):
        return of.sliced(point)
    return map_innermost(of, lambda layout: Tensor(None, layout).sliced(_started(point)).layout)


def _started(coordinate: Any) -> Any:
    """A coordinate with 0 for what is known at run time alone: of a type the form matters."""
    if isinstance(coordinate, tuple):
        return tuple(map(_started, coordinate))
    return 0 if isinstance(coordinate, Index) else coordinate


def _at(of: Any, *coordinate: Any) -> Any:
    point = coordinate[0] if len(coordinate) == 1 else coordinate
    if isinstance(of, Coordinates):
        return of.element(point)
    if isinstance(of, ComposedLayout):
        return tensor(None, of, 0, "").index(point)
    return of(point)


def _coordinate(shape: Any) -> Any:
    """An element of a tensor of coordinates, as a type."""
    numbers: Any = (Index.of(0),) * len(flatten_tree(shape))
    return unflatten_tree(numbers, shape)


def _projected(value: Any, by: tuple[Any, ...]) -> Any:
    """The modes of a tuple or a layout that a Step does not leave out."""
    kept = [part for part, step in zip(modes(value) if isinstance(value, Layout) else value, by, strict=True)
            if step is not None]  # fmt: skip
    return concat(*kept) if isinstance(value, Layout) else tuple(kept)


def _filled(coordinate: Any, rank: int) -> Any:
    return (*coordinate, *(None,) * (rank - len(coordinate))) if isinstance(coordinate, tuple) else coordinate


def _tiles(of: Any, tiler: Any) -> tuple[Any, int, int]:
    """zipped_divide, and the ranks of both of its modes."""
    tiles = call("zipped_divide", of, tiler)
    layout = innermost(tiles.layout if isinstance(tiles, TENSORS) else tiles)
    first, second = (len(s) if isinstance(s, tuple) else 1 for s in tuple(layout.shape))  # type: ignore[arg-type]
    return tiles, first, second


def _local_tile(of: Any, tiler: Any, coordinate: Any, step: Any = None) -> Any:
    if step is not None:
        tiler, coordinate = _projected(tiler, step), _projected(coordinate, step)
    tiles, first, second = _tiles(of, tiler)
    return _slice(tiles, (None,) * first, _filled(coordinate, second))


def _local_partition(of: Any, threads: Layout, index: Any, step: Any = None) -> Any:
    if step is not None:
        threads = _projected(threads, step)
    extents = tuple(product(s) for s in threads.shape) if isinstance(threads.shape, tuple) else threads.shape
    tiles, first, second = _tiles(of, extents)
    return _slice(tiles, _filled(_thread(threads, index), first), (None,) * second)


def _thread(threads: Layout, index: Any) -> Any:
    """get_flat_coord: the coordinate that a thread layout sends to a number, a number per mode."""
    parts = []
    for part in modes(threads) if isinstance(threads.shape, tuple) else (threads,):
        total, weight = Index.of(0), 1
        for s, d in zip(flatten_tree(part.shape), flatten_tree(part.stride), strict=True):
            digit = Index.of(index) // d % s if d and s != 1 else 0
            total, weight = total + digit * weight, weight * s
        parts.append(total)
    return tuple(parts) if isinstance(threads.shape, tuple) else parts[0]


def _domain_offset(coordinate: Any, of: Any) -> Any:
    if not isinstance(of, Tensor):
        return of
    return replace(of, at=of.at + of.layout(coordinate))


def _composition(first: Any, *others: Any) -> Any:
    if len(others) == 2:
        return ComposedLayout(first, *others)
    if isinstance(first, TENSORS):
        return first.of(lambda layout: composition(layout, dynamic(others[0])))
    return composition(first, dynamic(others[0]))


# --- atoms and tilings ------------------------------------------------------------------------------------


def atom(kind: str, instruction: Any, element: Any = None) -> Atom:
    """A Copy_Atom or an MMA_Atom."""
    if isinstance(instruction, Atom):
        made = instruction.instruction
        return (
            instruction
            if element is None
            else replace(instruction, instruction=replace(made, element=element))
        )
    if isinstance(instruction, Vectorizing):  # elements are moved, as wide as they lie together
        found = find_copy_atom(f"UniversalCopy<uint{element.bits}_t>")
        return Atom(replace(found, element=element), instruction.bits)
    if kind.startswith("MMA"):
        return Atom(find_mma_atom(instruction))
    found = find_copy_atom(instruction)
    return Atom(found if element is None else replace(found, element=element))


def _atom_of(given: Any) -> Atom:
    return given if isinstance(given, Atom) else atom("MMA", given)


def _tiled_copy(given: Atom, threads: Layout, *values: Layout) -> Tiled:
    return Tiled(atoms.make_tiled_copy(given.copy, None, threads, *values), given)


def _tiled_mma(given: Any, threads: Any = (1, 1, 1), tile: Any = ()) -> Tiled:
    made = _atom_of(given)
    if not isinstance(made.instruction, MMAAtom):
        raise UnsupportedError("a product is made of an atom that copies")
    return Tiled(atoms.make_tiled_mma(made.instruction, threads, tile), made)


def _copy_of(operand: str) -> Callable[[Atom, Any], Tiled]:
    function = getattr(atoms, f"make_tiled_copy_{operand}")

    def make(given: Atom, other: Any) -> Tiled:
        tiling = copy_tiling(other) if operand in "SD" else mma_tiling(other)
        return Tiled(function(given.copy, tiling), given)

    return make


def tiled(kind: str, given: Atom, layout: Any = (1, 1, 1), tiler: Any = ()) -> Tiled:
    """TiledCopy<Atom, LayoutTV, Tiler> and TiledMMA<Atom, AtomLayout, Permutations> as types."""
    if kind == "TiledMMA":
        return _tiled_mma(given, layout, tiler)
    return Tiled(tile_copy(given.copy, None, layout, tiler), given)


def _partition(how: Callable[[Layout], Layout], thread: Any, of: Any) -> Any:
    """A thread's part of (thread, (value, (rest, ...))), as (value, rest, ...)."""

    def sliced(one: Any) -> Any:
        made = one.of(how)
        rest = modes(modes(modes(made.layout)[1])[1])
        return made.sliced((thread, (None, (None,) * len(rest))))

    if isinstance(of, TENSORS):
        return sliced(of)
    return map_innermost(of, lambda layout: sliced(Tensor(None, layout)).layout)


def _copied(side: Literal["src", "dst"]) -> Callable[[Tiled, Any], Any]:
    def part(by: Tiled, of: Any) -> Any:
        return _partition(functools.partial(copy_tiling(by).tidfrg, side), by.thread, of)

    return part


def _operand(which: Operand) -> Callable[[Tiled, Any], Any]:
    def part(by: Tiled, of: Any) -> Any:
        return _partition(functools.partial(mma_tiling(by).tidfrg, which), by.thread, of)

    return part


def _retile(by: Tiled, of: Any) -> Any:
    return of.of(copy_tiling(by).retile) if isinstance(of, Tensor) else copy_tiling(by).retile(of)


def plain(of: Any) -> Layout:
    """The layout of a tensor or a layout, without its swizzles."""
    return innermost(of.layout if isinstance(of, TENSORS) else of)


def fragment_like(of: Any) -> Layout:
    """make_fragment_like, where dynamic strides come last."""
    layout = plain(of)
    if not is_static(layout.shape):
        raise UnsupportedError(f"registers of the dynamic shape of {layout}")
    return algebra.make_fragment_like(frozen(layout))


def tensor_like(of: Any) -> Layout:
    """make_tensor_like, where dynamic strides come last."""
    layout = plain(of)
    if not is_static(layout.shape):
        raise UnsupportedError(f"registers of the dynamic shape of {layout}")
    return algebra.make_layout_like(frozen(layout))


def _fragment(which: Operand, *, made: bool) -> Callable[[Tiled, Any], Layout]:
    """partition_fragment_X of a matrix, make_fragment_X of a part of it."""

    def make(by: Tiled, of: Any) -> Layout:
        if isinstance(of, tuple):
            return _partition_shape(by, of)
        part = plain(of if made else _operand(which)(by, of))
        return Layout(part.shape) if which == "C" else fragment_like(part)

    return make


def _partition_shape(by: Tiled, shape: Any) -> Layout:
    return Layout(plain(_operand("C")(replace(by, thread=0), Layout(shape))).shape)


def _size(numbers: Any, of: Any) -> Any:
    if isinstance(of, Tiled):
        return of.tiling.threads
    return _measured("size")(numbers, of)


def _measured(name: str) -> Callable[[Any, Any], Any]:
    """size, shape, rank and the like, of layouts and of what is inside of tensors."""

    def measure(numbers: Any, of: Any) -> Any:
        if isinstance(of, Coordinates) and name == "stride":
            if product(of.layout.shape) != 1:
                raise UnsupportedError("strides that are coordinates")
            return Major("left")
        if numbers or name not in ("cosize", "stride"):
            return call_function(
                name, numbers, [plain(of) if isinstance(of, (*TENSORS, ComposedLayout)) else of], {}
            )
        return call_function(name, numbers, [of.layout if isinstance(of, TENSORS) else of], {})

    return measure


def _get(numbers: Any, of: Any) -> Any:
    for at in numbers:
        of = modes(of)[at] if isinstance(of, Layout) else of[at]
    return of


def _layout(numbers: Any, of: Any) -> Any:
    if isinstance(of, Tensor):
        made: Any = of.layout
        for swizzles in (of.swizzles,) if of.swizzles else ():
            if isinstance(of.at, Index):
                raise UnsupportedError("the layout of a swizzled tensor that begins at run time")
            made = ComposedLayout(swizzles, of.at, made)
        of = made
    return _get(numbers, of)


def _mode(numbers: Any, of: Any) -> Any:
    """tensor<0>(t): a mode of a tensor."""
    return of.of(lambda layout: _get(numbers, layout)) if isinstance(of, TENSORS) else _get(numbers, of)


def _tile_size(numbers: Any, by: Tiled) -> Any:
    return mma_tiling(by).tile_shape[numbers[0]]


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
    return tuple(product(part) for part in of) if isinstance(of, tuple) else of


def _replaced(numbers: Any, of: tuple[Any, ...], by: Any) -> Any:
    return (*of[: numbers[0]], by, *of[numbers[0] + 1 :])


def _taken(numbers: Any, of: tuple[Any, ...]) -> Any:
    begin, end = numbers
    return of[begin : len(of) if end == -1 else end]


_OF_TUPLES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "select": lambda numbers, of: tuple(of[at] for at in numbers), "take": _taken, "replace": _replaced,
        "append": lambda numbers, of, by=1: of + (by,) * (numbers[0] - len(of) if numbers else 1),
        "prepend": lambda numbers, of, by=1: (by,) * (numbers[0] - len(of) if numbers else 1) + of,
        "flatten": lambda numbers, of: flatten_tree(of), "make_identity_layout": lambda _, of: (
            call_function("make_identity_layout", [], [dynamic(of)], {})),
        "make_ordered_layout": lambda _, of, order: call_function("make_ordered_layout", [], [of, order], {}),
    }
)  # fmt: skip
"""Functions of tuples of integers; read only."""

OWN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "make_layout": as_layout, "slice": _slice, "at": _at, "coordinate": _coordinate,
        "local_tile": _local_tile, "local_partition": _local_partition, "domain_offset": _domain_offset,
        "composition": _composition, "make_tiled_copy": _tiled_copy, "make_tiled_mma": _tiled_mma,
        "partition_S": _copied("src"), "partition_D": _copied("dst"),
        "retile_S": _retile, "retile_D": _retile, "make_fragment_like": fragment_like,
        "make_tensor_like": tensor_like, "ceil_div": _ceil_div, "elem_less": _elem_less,
        "is_static": is_static, "partition_shape_C": _partition_shape,
        "product_each": _product_each, "product": product,
        **{f"make_tiled_copy_{x}": _copy_of(x) for x in ("A", "B", "C", "S", "D", "C_atom")},
        **{f"partition_{x}": _operand(x) for x in OPERANDS},
        **{f"partition_fragment_{x}": _fragment(x, made=False) for x in OPERANDS},
        **{f"make_fragment_{x}": _fragment(x, made=True) for x in OPERANDS},
        **{f"get_layout{x}_TV": (lambda by, x=x: mma_tiling(by).layout_tv(x)) for x in OPERANDS},
        "shape_mnk": lambda given: _tiled_mma(given).tiling.atom.shape_mnk,  # type: ignore[union-attr]
        "get_layoutS_TV": lambda by: copy_tiling(by).get_layoutS_TV(),
        "get_layoutD_TV": lambda by: copy_tiling(by).get_layoutD_TV(),
        **{f"element_{x}": (lambda by, x=x: mma_tiling(by).atom.dtype(x)) for x in OPERANDS},
    }
)  # fmt: skip
"""Functions that are not one function of the algebra; read only."""

NUMBERED: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "size": _size, "get": _get, "tensor": _mode, "layout": _layout, "tile_size": _tile_size,
        "recast": recast,
        **{name: _measured(name) for name in ("rank", "depth", "cosize", "shape", "stride")},
    }
)  # fmt: skip
"""Functions with numbers, or bits of types, in <...>; read only."""
