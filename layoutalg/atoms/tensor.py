"""Tensor: a layout over a NumPy buffer, read and written through coordinates; CuTe's Tensor.

The idea.  A tensor is three things: a flat `buffer`, a `layout` and an `offset`.  The element at a
coordinate is buffer[offset + layout(coordinate)].  Slicing, composing and tiling never move an element:
they make another layout and another offset over the same buffer.

    t = Tensor(buffer, (4,8):(8,1))     t[1, 2] = buffer[10]
    t[1, None]                          layout (8):(1), offset 8: row 1
    t.local_tile((2, 4), (1, 0))        layout (2,4):(8,1), offset 16: the tile in tile row 1, column 0

>>> import numpy
>>> t = Tensor(numpy.arange(32), Layout((4, 8), (8, 1)))
>>> print(t[1, 2], t[1, None], t[1, None].to_array())
10 int64[32] + 8 o (8):(1) [ 8  9 10 11 12 13 14 15]

Notes.  A Tensor is immutable, its buffer is not: two tensors over one buffer see each other's writes.
Every element must lie inside the buffer when the tensor is made, and every coordinate inside the shape
when it is used.  A write through a layout that gives two coordinates one element is refused, naming them,
unless `allow_alias=True` asks for it.

Comparison with CuTe.  Slices, compose, domain_offset, local_tile, local_partition and copy as in CuTe; bounds
and aliasing are checked, which CuTe leaves to the caller.

Source: CUTLASS, include/cute/tensor_impl.hpp; media/docs/cpp/cute/03_tensor.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from layoutalg.algebra import domain_offset, local_partition, local_tile, zipped_divide
from layoutalg.compose import Tiler, composition, tiler_text
from layoutalg.decide import aliasing, extremes
from layoutalg.errors import (
    ArgumentTypeError,
    NotInjectiveError,
    ShapeError,
    UnsupportedError,
    check_type,
    shown,
)
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Coordinate,
    IntTuple,
    Layout,
    Value,
    check_integers,
    fit_coordinate,
    keeps_mode,
    product,
    size,
    slice_and_offset,
    span,
    to_text,
    whole_number,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Tensor(Value):
    """buffer[offset + layout(c)] for every coordinate c of `layout`: a value that holds a mutable buffer.

    `buffer` is a one-dimensional NumPy array, `offset` counts its elements.  Two tensors are equal when
    they are the same view: one buffer object, equal layouts, equal offsets.  Raises ShapeError when the
    buffer has another dimension or an element would lie outside of it, ArgumentTypeError for other types,
    UnsupportedError for symbols and coordinate strides, and what `extremes` raises.

    >>> import numpy
    >>> print(Tensor(numpy.arange(8.0), Layout((2, 4), (4, 1))).to_array()[1])
    [4. 5. 6. 7.]
    """

    __slots__ = ("buffer", "layout", "offset")
    __match_args__ = ("buffer", "layout", "offset")

    buffer: NDArray[Any]
    layout: AnyLayout
    offset: int

    def __init__(self, buffer: NDArray[Any], layout: AnyLayout, offset: int = 0) -> None:
        import numpy as np

        check_type("Tensor", buffer, np.ndarray, "a NumPy array")
        check_type("Tensor", layout, (Layout, ComposedLayout), "a layout")
        start = whole_number(offset, "offset")
        if buffer.ndim != 1:
            raise ShapeError(
                f"a buffer of shape {buffer.shape}: a buffer has one dimension; Tensor.from_array takes an "
                f"array of any shape"
            )
        check_integers("Tensor", layout)
        low, high = extremes(layout)
        if start + low < 0 or start + high >= len(buffer):
            raise ShapeError(
                f"{layout} at offset {start} reaches the elements {start + low} to {start + high}; "
                f"the buffer has {len(buffer)}"
            )
        object.__setattr__(self, "buffer", buffer)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "offset", start)

    @staticmethod
    def from_array(x: NDArray[Any]) -> Tensor:
        """The elements of an array of any shape and strides, without copying: one mode an axis.

        The buffer runs from the array's first element in memory to its last.  Raises AlignmentError when
        a byte stride is not a multiple of the item size, ShapeError for an array without elements.

        >>> import numpy
        >>> print(Tensor.from_array(numpy.zeros((4, 8), "f4")[::-1, ::2]))
        float32[31] + 24 o (4,4):(-8,2)
        """
        import numpy as np

        check_type("from_array", x, np.ndarray, "a NumPy array")
        layout = Layout.from_array(x)
        low, high = span(layout)
        first = x[(..., *(slice(None, None, -1 if d < 0 else 1) for d in x.strides))]  # type: ignore[arg-type]
        flat = np.lib.stride_tricks.as_strided(first, (high - low + 1,), (x.itemsize,))
        return Tensor(flat, layout, -low)

    def to_array(self) -> NDArray[Any]:
        """A copy of the elements; every top-level mode is an axis, a nested one runs leftmost fastest.

        >>> import numpy
        >>> Tensor(numpy.arange(8), Layout(((2, 2), 2), ((4, 1), 2))).to_array()
        array([[0, 2],
               [4, 6],
               [1, 3],
               [5, 7]])
        """
        array: NDArray[Any] = self.buffer[self._places()].reshape(
            tuple(map(product, self.shape)) if isinstance(self.shape, tuple) else self.shape, order="F"
        )
        return array

    @property
    def shape(self) -> IntTuple:
        """The shape of the layout."""
        return self.layout.shape

    def view(self, layout: AnyLayout) -> Tensor:
        """The same buffer and offset under another layout."""
        return Tensor(self.buffer, layout, self.offset)

    def compose(self, tiler: Tiler) -> Tensor:
        """The elements layout(tiler(c)): a view through `composition`, which says what a tiler is."""
        return self.view(composition(self.layout, tiler))

    def domain_offset(self, crd: Coordinate) -> Tensor:
        """The tensor whose coordinate 0 is `crd` of this one, with the same shape.

        Raises ShapeError when its far end would lie outside the buffer.

        >>> import numpy
        >>> print(Tensor(numpy.arange(64), Layout((4, 4), (8, 1))).domain_offset((1, 2)))
        int64[64] + 10 o (4,4):(8,1)
        """
        return self._part(*domain_offset(crd, self.layout))

    def local_tile(self, tiler: Tiler, crd: Any) -> Tensor:
        """The tile at tile coordinate `crd`; None in it keeps a mode that counts tiles.

        Only this tile has to lie inside the buffer.  Raises ShapeError for a coordinate past the last tile.

        >>> import numpy
        >>> print(Tensor(numpy.arange(32), Layout((4, 8), (8, 1))).local_tile((2, 4), (1, None)))
        int64[32] + 16 o (2,4,2):(8,1,4)
        """
        shape = zipped_divide(self.layout, tiler).shape
        counts = shape[1] if isinstance(shape, tuple) else 1
        if isinstance(crd, tuple) and isinstance(counts, tuple):
            counts = counts[: len(crd)]
        fit_coordinate(crd, counts, f"the tiles {tiler_text(tiler)} of {self}")
        return self._part(*local_tile(self.layout, tiler, crd))

    def local_partition(self, threads: Layout, index: int) -> Tensor:
        """The share of thread `index` of the layout `threads`: its element of every tile of that shape.

        >>> import numpy
        >>> print(Tensor(numpy.arange(32), Layout((4, 8), (8, 1))).local_partition(Layout((2, 4), (4, 1)), 5))
        int64[32] + 9 o (2,2):(16,4)
        """
        return self._part(*local_partition(self.layout, threads, index))

    def _part(self, layout: AnyLayout, moved: int) -> Tensor:
        return Tensor(self.buffer, layout, self.offset + moved)

    def __getitem__(self, crd: Any) -> Any:
        """The element at a coordinate; with None for a mode, the tensor of what is kept."""
        inside = fit_coordinate(crd, self.shape, self)
        if not keeps_mode(inside):
            return self.buffer[self.offset + self.layout(inside)]
        return self._part(*slice_and_offset(inside, self.layout))

    def __call__(self, *crd: Any) -> Any:
        """Return `tensor[crd]`, with one argument per mode or one flat index."""
        return self[crd[0] if len(crd) == 1 else crd]

    def __setitem__(self, crd: Any, value: Any) -> None:
        self.put(crd, value)

    def put(self, crd: Any, value: Any, *, allow_alias: bool = False) -> None:
        """Write one element, or with None in `crd` every element that is kept, from a scalar or a Tensor.

        What `tensor[crd] = value` does.  Raises NotInjectiveError with two coordinates when the tensor
        gives them one element, unless `allow_alias`; ArgumentTypeError for a value that the buffer's type
        does not hold, UnsupportedError for a buffer that is read only.
        """
        inside = fit_coordinate(crd, self.shape, self)
        self._check_write(allow_alias)
        target = self[crd] if keeps_mode(inside) else Tensor(self.buffer, Layout(()), self._place(inside))
        if isinstance(value, Tensor):
            copy_tensor(value, target, allow_alias=allow_alias)
        else:
            self.buffer[target._places()] = _as_element(value, self)

    def _place(self, crd: Coordinate) -> int:
        index: int = self.offset + self.layout(crd)
        return index

    def _places(self) -> NDArray[Any]:
        """The place in the buffer of every element, in the order of the flat index."""
        import numpy as np

        count = size(self.layout)
        places: NDArray[Any] = self.offset + np.broadcast_to(self.layout(np.arange(count)), (count,))
        return places

    def _check_write(self, allow_alias: bool) -> None:
        if not self.buffer.flags.writeable:
            raise UnsupportedError(f"write to {self}: the buffer is read only")
        pair = None if allow_alias else aliasing(self.layout).pair
        if pair is not None:
            raise NotInjectiveError(
                f"write to {self}: coordinates {pair[0]} and {pair[1]} share the element "
                f"{self._place(pair[0])} of the buffer; allow_alias=True lets the last write win",
                layout=self.layout,
                a=pair[0],
                b=pair[1],
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        same = self.buffer is other.buffer and self.offset == other.offset
        return same and self.layout == other.layout

    def __hash__(self) -> int:
        return hash((id(self.buffer), self.layout, self.offset))

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentTypeError(f"{self} has no single order to iterate in; use to_array() or t[i]")

    def __str__(self) -> str:
        start = f" + {self.offset}" if self.offset else ""
        return f"{self.buffer.dtype}[{len(self.buffer)}]{start} o {self.layout}"

    def __repr__(self) -> str:
        held = f"<{self.buffer.dtype}[{len(self.buffer)}]>"
        return f"Tensor({held}, {self.layout!r}, {self.offset})"


def copy_tensor(src: Tensor, dst: Tensor, *, allow_alias: bool = False) -> None:
    """dst[i] = src[i] for every flat index i; all elements are read before the first is written.

    The shapes must agree in size, mode by mode as far as both are tuples, so that a coordinate means the
    same in both: else ShapeError.  Raises NotInjectiveError with two coordinates when `dst` gives them one
    element, unless `allow_alias` (then the larger flat index wins); ArgumentTypeError when the type of
    `src` is not held by that of `dst`; UnsupportedError when the buffer of `dst` is read only.

    Source: CUTLASS, include/cute/algorithm/copy.hpp.

    >>> import numpy
    >>> by_row, by_column = Layout((2, 3), (3, 1)), Layout((2, 3))
    >>> target = Tensor(numpy.zeros(6, int), by_column)
    >>> copy_tensor(Tensor(numpy.arange(6), by_row), target)
    >>> print(target.buffer)
    [0 3 1 4 2 5]
    """
    import numpy as np

    for side in (src, dst):
        check_type("copy_tensor", side, Tensor, "a Tensor")
    if not _agree(src.shape, dst.shape):
        raise ShapeError(
            f"copy from {src} to {dst}: the shapes {to_text(src.shape)} and {to_text(dst.shape)} do not have "
            f"the same coordinates; sizes must agree mode by mode"
        )
    if not np.can_cast(src.buffer.dtype, dst.buffer.dtype, "safe"):
        raise ArgumentTypeError(
            f"copy from {src} to {dst}: {dst.buffer.dtype} does not hold every {src.buffer.dtype}; "
            f"convert the source first"
        )
    dst._check_write(allow_alias)
    dst.buffer[dst._places()] = src.buffer[src._places()]


def _agree(a: IntTuple, b: IntTuple) -> bool:
    """True when sizes agree mode by mode as far as both shapes are tuples."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_agree, a, b))
    return product(a) == product(b)


def _as_element(value: Any, tensor: Tensor) -> Any:
    """A scalar as an element of the tensor's buffer; numbers are rounded only to a floating-point type."""
    import numpy as np

    dtype = tensor.buffer.dtype
    scalar = np.asarray(value)
    order = "biufc"
    known = scalar.dtype.kind in order and dtype.kind in order
    if scalar.ndim or not known or (dtype.kind == "f" and scalar.dtype.kind == "c"):
        raise ArgumentTypeError(
            f"write {shown(value)} to {tensor}: a number that {dtype} holds is needed, or a Tensor"
        )
    if dtype.kind in "fc":
        return scalar.astype(dtype)
    with np.errstate(invalid="ignore"):
        cast = scalar.astype(dtype)
    if cast != scalar:
        raise ArgumentTypeError(f"write {shown(value)} to {tensor}: {dtype} does not hold it")
    return cast
