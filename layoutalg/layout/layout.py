"""Layout: a shape and a stride of the same form, read as a function from coordinates to offsets.

The idea.  `Layout(shape, stride)(crd)` is the inner product of a coordinate with the stride.  The
coordinate may be one flat index, one index a mode, or a full tree (see int_tuple).

    Layout((4, 8), (8, 1))         4 x 8, row-major:    (i, j) -> 8 i + j
    Layout((4, 8))                 4 x 8, column-major: (i, j) -> i + 4 j, CuTe's default
    Layout(((2, 4), 8), ((1, 16), 2))     a mode may itself be a tuple: hierarchical tiles

    Layout((4, 8), (ScaledBasis(1, 1), ScaledBasis(1, 0)))     coordinates: (i, j) -> (j, i), see basis
    Layout((n, 8), (1, n))         n a sympy symbol: one layout for all its values, see symbols

Notes.  A flat index at or past the size extends the last mode, as in CuTe: 4:3 at 7 is 21.  Strides a user
gives are kept as given; default strides of modes of extent 1 are 0.  `==` compares structure; functions
are compared by `layoutalg.algebra.same_function`.

Comparison with CuTe.  The same algebra with run-time values only (`_8` and `8` are one value), and with
one contract more: every operation is exact or raises.

>>> print(Layout((4, 8), (8, 1)), Layout((4, 8), (8, 1))(2, 3))
(4,8):(8,1) 19
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    ShapeError,
    UnsupportedError,
    check_type,
    names_refusals,
    shown,
)
from layoutalg.layout.basis import ScaledBasis, StrideTuple, make_basis_like
from layoutalg.layout.int_tuple import (
    MAX_DEPTH,
    MAX_INT_BITS,
    IntTuple,
    array_product,
    check_index,
    congruent_trees,
    flatten_tree,
    has_arrays,
    index_at,
    inner_product,
    normalize,
    on_arrays,
    prefix_product,
    product,
    to_text,
    weight,
)
from layoutalg.layout.symbols import is_index_expression, is_symbolic, require, symbolic_leaf
from layoutalg.layout.value import Coded, Coordinate, Value

_LARGEST = (1 << MAX_INT_BITS) - 1
_LEAST = -_LARGEST


def _plain(shape: Any, stride: Any, levels: int = MAX_DEPTH) -> bool:
    """Whether two trees, of `levels` at most, are a layout of plain integers, as nearly all are."""
    if type(shape) is not tuple or type(stride) is not tuple or len(shape) != len(stride) or not levels:
        return type(shape) is int is type(stride) and 0 < shape <= _LARGEST >= stride >= _LEAST
    i = 0
    for s in shape:  # an index counted by hand takes half the time of zip and enumerate
        d = stride[i]
        i += 1  # noqa: SIM113
        if type(s) is int is type(d):
            if not 0 < s <= _LARGEST >= d >= _LEAST:
                return False
        elif not _plain(s, d, levels - 1):
            return False
    return True


class Layout(Coded, Value):
    """The function `crd -> <crd, stride>` on the coordinates of `shape`.  Immutable and hashable.

    `shape` and `stride` are IntTuples of the same form; extents are positive, strides any integers.  Leaves
    may be sympy expressions, and strides scaled bases; attributes are typed as the integers they stand for.
    Raises ShapeError or ArgumentTypeError for anything else, UndecidedError for an extent that need not be
    positive.

    >>> Layout((2, 4)).stride
    (1, 2)
    """

    __slots__ = ("_digits", "_weight", "shape", "stride")
    __match_args__ = ("shape", "stride")

    shape: IntTuple
    stride: IntTuple
    _digits: tuple[list[tuple[int, Any]], Any]
    _weight: int

    def __init__(self, shape: IntTuple, stride: StrideTuple | None = None) -> None:
        if _plain(shape, shape if stride is None else stride):
            _set_shape(self, shape)
            _set_stride(self, prefix_product(shape) if stride is None else stride)
            return
        shape = normalize(shape, "shape", leaf_of_shape)
        try:
            for s in flatten_tree(shape):
                if s <= 0:
                    raise ShapeError(f"extent {s} in shape {to_text(shape)}: extents must be positive")
        except TypeError:  # a sympy relation that is neither true nor false
            require_positive(shape)
        stride = prefix_product(shape) if stride is None else normalize(stride, "stride", leaf_of_stride)
        if not congruent_trees(shape, stride):
            raise ShapeError(
                f"stride {to_text(stride)} does not have the form of shape {to_text(shape)}: "
                f"every extent needs exactly one stride"
            )
        try:
            add = type(sum(flatten_tree(stride))) is int
        except ShapeError:
            add = False
        if not add:
            _check_bases(stride)
        _set_shape(self, shape)
        _set_stride(self, stride)

    @staticmethod
    def from_array(x: Any) -> Layout:
        """The layout of an array that has `.shape`, `.strides` (in bytes) and `.itemsize`: NumPy, CuPy.

        Raises AlignmentError when a byte stride is not a multiple of the item size.

        >>> import numpy
        >>> print(Layout.from_array(numpy.zeros((3, 5), dtype="f4").T))
        (5,3):(1,5)
        """
        for d in x.strides:
            if d % x.itemsize:
                raise AlignmentError(
                    f"byte stride {d} is not a multiple of the item size {x.itemsize}: "
                    f"no layout in elements describes this array",
                    offset=d,
                    required_bytes=x.itemsize,
                )
        return Layout(tuple(x.shape), tuple(d // x.itemsize for d in x.strides))

    # As in Value, with the parts written out: layouts are compared and hashed millions of times.

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.shape == other.shape and self.stride == other.stride

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (layout_of, (self.shape, self.stride))

    def __call__(self, *crd: Any) -> Any:
        """Offset of a coordinate: one flat index, or one argument per mode, each at any depth.

        Runs on ints, NumPy arrays, sympy symbols and index expressions alike; where strides are scaled
        bases the result is a coordinate.  None keeps a mode: L(None, 3) is the layout of the first mode (see
        `slice_and_offset`).  Raises ShapeError for a coordinate that is negative or does not fit
        the shape, ResourceError when an offset does not fit an int64 array.
        """
        point = crd[0] if len(crd) == 1 else crd
        if type(point) is int and point >= 0:
            offset = self._at(point)
            return offset.coordinate() if type(offset) is ScaledBasis else offset
        for part in point if type(point) is tuple else (point,):
            if type(part) is not int:
                try:
                    offset = _at_expression(self, point)
                    if offset is None and has_arrays(point):
                        offset = on_arrays(self.of_arrays, point, self.most_offset)
                    elif offset is None:
                        offset = inner_product(point, self.shape, self.stride)
                except ArgumentTypeError as error:
                    return self.at_open(point, error)
                break
        else:
            offset = inner_product(point, self.shape, self.stride)
        return offset.coordinate() if type(offset) is ScaledBasis else offset

    def _at(self, index: int) -> Any:
        """`inner_product` of a flat index, the extents and strides of its digits kept."""
        try:
            digits, last = self._digits
        except AttributeError:
            pairs = any_leaves(self) or ((1, 0),)
            digits = [(s, d) for s, d in pairs[:-1] if s != 1 or type(d) is not int]
            last = pairs[-1][1]
            _set_digits(self, (digits, last))
        if not digits:
            return index * last
        total: Any = 0
        for extent, stride in digits:
            total = total + index % extent * stride
            index = index // extent
        return total + index * last

    def most_offset(self, most: int) -> int:
        """A bound on every number on the way to the offset of a coordinate of integers up to `most`."""
        try:
            return (most + 1) * self._weight
        except AttributeError:
            _set_weight(self, weight(self.shape, self.stride))
            return (most + 1) * self._weight

    def of_arrays(self, crd: Any, most: Any) -> Any:
        """The offset of a coordinate of arrays, as `array_product`."""
        return array_product(crd, self.shape, self.stride, most)

    def sliced(self, crd: Coordinate) -> tuple[Layout, int]:
        """(rest, offset), as `slice_and_offset`."""
        if crd is None:
            return self, 0
        offset: int = self(_zeros(crd))
        free = _kept(crd, self)
        return layout_of(tuple(part.shape for part in free), tuple(part.stride for part in free)), offset

    def __getitem__(self, mode: int | slice) -> Layout:
        """Mode `mode` as a layout, or the layout of a range of modes; an int layout is its own mode 0."""
        if not isinstance(mode, (int, slice)) or isinstance(mode, bool):
            raise ArgumentTypeError(
                f"mode {shown(mode)} is a {type(mode).__name__}; an int or a slice is needed"
            )
        shape, stride = self.shape, self.stride
        if not isinstance(shape, tuple) or not isinstance(stride, tuple):
            shape, stride = (shape,), (stride,)
        try:
            return layout_of(shape[mode], stride[mode])
        except IndexError:
            raise ShapeError(f"mode {mode} of {self}: it has {len(shape)} modes") from None

    def __iter__(self) -> Iterator[Layout]:
        """The modes as layouts; an int layout is its one mode.

        >>> print(*Layout((4, (2, 8))))
        4:1 (2,8):(4,8)
        """
        return iter(modes(self))

    def __str__(self) -> str:
        return f"{to_text(self.shape)}:{to_text(self.stride)}"


def _zeros(crd: Coordinate) -> Any:
    """The coordinate with 0 where it keeps a mode."""
    if isinstance(crd, tuple):
        return tuple(map(_zeros, crd))
    return 0 if crd is None else crd


def _kept(crd: Coordinate, layout: Layout) -> list[Layout]:
    """Every mode that the coordinate keeps."""
    if crd is None:
        return [layout]
    if not isinstance(crd, tuple) or not isinstance(layout.shape, tuple):
        return []
    return [part for i, c in enumerate(crd) for part in _kept(c, layout[i])]


def _at_expression(layout: Layout, crd: Any) -> Any:
    """The coordinate that a layout of scaled bases gives for index expressions: an expression adds to numbers
    alone, so that the steps along each mode of the result are added up first.  None for any other layout and
    coordinate.
    """
    if not any(map(is_index_expression, flatten_tree(crd))) or not has_bases(layout):
        return None
    along: dict[tuple[int, ...], Any] = {}
    for digit, d in _digits(crd, layout.shape, layout.stride):
        along[d.modes] = along.get(d.modes, 0) + digit * d.value
    total: Any = 0
    for path, steps in along.items():
        total = total + ScaledBasis(1, *path).scaled(steps)
    return total


def _digits(crd: Any, shape: IntTuple, stride: Any) -> Iterator[tuple[Any, ScaledBasis]]:
    """The digits of a coordinate that move, with their strides; the last of a mode goes on past its end."""
    if isinstance(crd, tuple):
        index_at(tuple(0 for _ in crd), shape)  # refuses a coordinate of another form
        for c, s, d in zip(crd, shape, stride, strict=True):  # type: ignore[arg-type]
            yield from _digits(c, s, d)
        return
    check_index(crd)
    extents, strides = flatten_tree(shape), flatten_tree(stride)
    moves: tuple[Any, ...] = strides
    for i, (s, d) in enumerate(zip(extents, moves, strict=True)):
        last = i == len(extents) - 1
        if isinstance(d, ScaledBasis) and (last or s != 1):
            yield (crd if last else crd % s), d
        if not last and s != 1:
            crd = crd // s


def leaf_of_shape(value: Any, what: str) -> Any:
    """A leaf of a shape that is not an integer, in canonical form; None for what cannot be an extent.

    >>> leaf_of_shape(4.0, "shape") is None
    True
    """
    if is_index_expression(value):
        raise ArgumentTypeError(
            f"{what} has the index expression {value}; a layout holds integers, and an expression is an "
            f"extent or a stride of a tensor of layoutalg.codegen"
        )
    return symbolic_leaf(value, what) if is_symbolic(value) else None


def leaf_of_stride(value: Any, what: str) -> Any:
    """A leaf of a stride that is not an integer, in canonical form; None for what cannot be a stride.

    >>> print(leaf_of_stride(ScaledBasis(2, 0), "stride"))
    2@0
    """
    if isinstance(value, ScaledBasis):
        leaf = value.value if type(value.value) is int else leaf_of_shape(value.value, what)
        return None if leaf is None else value.scaled(leaf)
    return leaf_of_shape(value, what)


def require_positive(shape: IntTuple) -> None:
    """Every extent is positive for all values of its symbols; UndecidedError where that does not follow.

    >>> require_positive((4, 8))
    """
    import sympy

    for extent in flatten_tree(shape):
        if not require(f"a layout of shape {to_text(shape)}", sympy.Le(1, extent)):
            raise ShapeError(f"extent {extent} in shape {to_text(shape)}: extents must be positive")


def _check_bases(stride: IntTuple) -> None:
    """Refuse strides that do not add: integers beside bases, or a mode that is both a number and a tuple."""
    strides: tuple[Any, ...] = flatten_tree(stride)
    paths = {leaf.modes: leaf for leaf in strides if isinstance(leaf, ScaledBasis)}
    if not paths:
        return
    for leaf in strides:
        if not isinstance(leaf, ScaledBasis) and leaf != 0:
            raise ShapeError(
                f"stride {to_text(stride)} mixes the integer {leaf} with scaled bases, and an offset does "
                f"not add to a coordinate; either all strides move along modes or none (0 stands for both)"
            )
    for path, leaf in paths.items():
        for n in range(1, len(path)):
            if path[:n] in paths:
                raise ShapeError(
                    f"stride {to_text(stride)}: {paths[path[:n]]} and {leaf} do not add, since a mode of a "
                    f"coordinate is either a number or a tuple"
                )


_new = object.__new__
_set_shape = Layout.__dict__["shape"].__set__
_set_stride = Layout.__dict__["stride"].__set__
_set_digits = Layout.__dict__["_digits"].__set__
_set_weight = Layout.__dict__["_weight"].__set__


def layout_of(shape: IntTuple, stride: IntTuple) -> Layout:
    """A Layout from parts that are already known to be valid: the library's own constructor, unchecked.

    >>> print(layout_of((2, 4), (4, 1)))
    (2,4):(4,1)
    """
    out = _new(Layout)
    _set_shape(out, shape)
    _set_stride(out, stride)
    return out


@names_refusals
def make_identity_layout(shape: IntTuple) -> Layout:
    """The layout that sends every coordinate of `shape` to itself: strides 1 along each leaf's own path.

    Composed with and divided by tilers it gives the coordinates of tiles, as a TMA instruction takes them;
    here those of the first elements of the boxes of 32 x 8.

    Source: CUTLASS, include/cute/layout.hpp, make_identity_layout.

    >>> from layoutalg.algebra import zipped_divide
    >>> boxes = zipped_divide(make_identity_layout((128, 64)), (32, 8))
    >>> print(boxes, boxes(0, (2, 3)))
    ((32,8),(4,8)):((1@0,1@1),(32@0,8@1)) (64,24)
    """
    return Layout(shape, make_basis_like(Layout(shape).shape))


def modes(layout: Layout) -> tuple[Layout, ...]:
    """The top-level modes, each a layout.

    >>> [str(m) for m in modes(Layout(((2, 4), 8)))]
    ['(2,4):(1,2)', '8:8']
    """
    check_type("modes", layout, Layout, "a plain layout")
    shape, stride = layout.shape, layout.stride
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        return (layout,)
    return tuple(map(layout_of, shape, stride))


def concat(*layouts: Layout) -> Layout:
    """Make one layout whose modes are the given layouts, CuTe's make_layout(a, b, ...).

    Raises ShapeError when the result is nested deeper than MAX_DEPTH levels.

    >>> print(concat(Layout(4), Layout((2, 2), (8, 4))))
    (4,(2,2)):(1,(8,4))
    """
    try:
        shape = tuple([a.shape for a in layouts])
        stride = tuple([a.stride for a in layouts])
    except AttributeError:
        for part in layouts:
            check_type("concat", part, Layout, "a plain layout")
        raise
    check_depth(shape)
    return layout_of(shape, stride)


def check_depth(shape: tuple[IntTuple, ...]) -> None:
    """Refuse a shape that is nested deeper than MAX_DEPTH levels.

    >>> check_depth((4, (2, 2)))
    """
    nested = [s for s in shape if isinstance(s, tuple)]
    for _ in range(MAX_DEPTH):
        if not nested:
            return
        nested = [s for part in nested for s in part if isinstance(s, tuple)]
    raise ShapeError(
        f"the result is nested deeper than {MAX_DEPTH} levels; coalesce or flatten its modes first"
    )


def has_bases(layout: Layout) -> bool:
    """True when a stride is a scaled basis, so that the layout gives coordinates.

    >>> has_bases(make_identity_layout((4, 8))), has_bases(Layout(4))
    (True, False)
    """
    return any(isinstance(d, ScaledBasis) for _, d in any_leaves(layout))


def has_symbols(layout: Layout) -> bool:
    """True when an extent or a stride is a sympy expression.

    >>> has_symbols(Layout((4, 8)))
    False
    """
    strides = (d.value if isinstance(d, ScaledBasis) else d for _, d in any_leaves(layout))
    return any(map(is_symbolic, flatten_tree(layout.shape))) or any(map(is_symbolic, strides))


def integer_leaves(operation: str, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Flat extents and flat strides, for an operation that takes integers alone; refused by its name.

    >>> integer_leaves("right_inverse", Layout((4, 8)))
    ((4, 8), (1, 4))
    """
    extents, strides = leaf_lists(layout)
    if type(sum(extents)) is type(sum(strides)) is int:
        return extents, strides
    raise not_integers(operation, layout)


def not_integers(operation: str, layout: Layout) -> UnsupportedError:
    """The error of an operation that takes integers alone.

    >>> print(not_integers("right_inverse", make_identity_layout((4, 8))).message)
    right_inverse of (4,8):(1@0,1@1): its strides move along modes; integers are accepted
    """
    why = "its strides move along modes" if has_bases(layout) else "it has symbols"
    return UnsupportedError(f"{operation} of {layout}: {why}; integers are accepted")


def leaf_lists(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Flat extents and flat strides.

    >>> leaf_lists(Layout(((2, 4), 8), ((1, 16), 2)))
    ((2, 4, 8), (1, 16, 2))
    """
    return flatten_tree(layout.shape), flatten_tree(layout.stride)


def leaves(layout: Layout) -> tuple[tuple[int, int], ...]:
    """Flat (extent, stride) pairs, leftmost fastest.

    >>> leaves(Layout(((2, 4), 8), ((1, 16), 2)))
    ((2, 1), (4, 16), (8, 2))
    """
    return tuple(zip(*leaf_lists(layout), strict=True))


def any_leaves(layout: Layout) -> tuple[tuple[Any, Any], ...]:
    """`leaves`, typed as what they may be: integers, sympy expressions and, as strides, scaled bases.

    >>> any_leaves(make_identity_layout((4,)))
    ((4, ScaledBasis(1, 0)),)
    """
    return leaves(layout)


def layout_size(layout: Layout) -> int:
    """Number of coordinates.

    >>> layout_size(Layout((4, 8)))
    32
    """
    return product(layout.shape)
