"""LinearLayout: an F2-linear map between named dimensions, in Triton's vocabulary.

The idea.  Where every extent is a power of two, a layout is known from where it sends the single bits of
its coordinates: these images are its bases.  What a thread holds is then a table of a few lines,

    register=1 -> (0, 1)          ins    register, lane, warp, block: who holds the element
    lane=1     -> (0, 2)          outs   the coordinates of the tensor, or one dimension `offset`
    lane=2     -> (1, 0)

and any coordinate is the XOR of the bases of its bits.  Swizzles are such maps, so a swizzled layout and a
register layout compose, invert and compare by linear algebra over F2 (layoutalg.f2).

>>> from layoutalg import ComposedLayout, Layout, Swizzle
>>> tile = from_layout(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1))), ("row", "col"))
>>> print(tile)
row=1 -> 3
col=1 -> 1
outs: offset (2 bits)
>>> tile(row=1, col=1)
{'offset': 2}
>>> print(to_layout(tile))
Sw<1,0,1> o 0 o (2,2):(2,1)

Notes.  Out dimensions are packed into one integer, the first in the lowest bits: `columns` is the matrix.
`to_layout` finds plain strides where the columns share no bit, then one swizzle, then a chain of them, and
swizzles of the index as well where columns depend on each other.

Comparison with Triton.  The same maps (include/triton/Tools/LinearLayout.h); here a size that is no power
of two is refused by an error, and the way to and from CuTe's layouts is part of the type.

Source: Linear Layouts (arXiv 2505.23819).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from layoutalg.composed import normal_form
from layoutalg.errors import ArgumentTypeError, DivisibilityError, ShapeError, shown
from layoutalg.f2 import Columns, apply, identity, solve, to_f2
from layoutalg.int_tuple import whole_number
from layoutalg.layout import Layout, concat, modes
from layoutalg.measure import merge, plain, rank, size
from layoutalg.realize import fold, separate
from layoutalg.swizzle import AnyLayout, ComposedLayout

T = TypeVar("T")

Pairs: TypeAlias = Mapping[str, T] | Iterable[tuple[str, T]]
"""Named dimensions, as a mapping or as pairs in order."""

Bases: TypeAlias = "tuple[tuple[int, ...], ...]"


class LinearLayout:
    """A linear map over F2 from the dimensions `ins` to the dimensions `outs`.  Immutable and hashable.

    `ins` maps each name to its bases, one a bit, lowest first: the coordinates in all out dimensions that
    the bit is sent to (a bare integer where there is one out dimension).  `outs` maps each name to its
    size.  Both keep their order, and accept a mapping or pairs.  Raises ShapeError when a size is no power
    of two or a basis does not fit.

    >>> LinearLayout({"lane": [1, 2], "register": [4]}, {"offset": 8})(lane=3, register=1)
    {'offset': 7}
    """

    __slots__ = ("ins", "outs")
    __match_args__ = ("ins", "outs")

    ins: tuple[tuple[str, Bases], ...]
    outs: tuple[tuple[str, int], ...]

    def __init__(
        self,
        ins: Mapping[str, Iterable[int | Iterable[int]]]
        | Iterable[tuple[str, Iterable[int | Iterable[int]]]],
        outs: Mapping[str, int] | Iterable[tuple[str, int]],
    ) -> None:
        out_pairs = tuple([(name, whole_number(n, f"out dimension {name!r}")) for name, n in _items(outs)])
        for name, extent in out_pairs:
            if extent < 1 or extent & (extent - 1):
                raise ShapeError(f"out dimension {name!r} has size {extent!r}; a power of two is needed")
        sizes = [extent for _, extent in out_pairs]
        in_pairs: list[tuple[str, Bases]] = []
        for name, bases in _items(ins):
            what = f"a basis of {name!r}"
            fixed = tuple(
                tuple([whole_number(x, what) for x in (b if isinstance(b, Iterable) else (b,))])
                for b in bases
            )
            for basis in fixed:
                if len(basis) != len(sizes) or not all(0 <= x < n for x, n in zip(basis, sizes, strict=True)):
                    raise ShapeError(
                        f"basis {basis} of {name!r} does not fit the out dimensions "
                        f"{', '.join(f'{n} (size {k})' for n, k in out_pairs)}"
                    )
            in_pairs.append((name, fixed))
        for kind, names in (("in", [n for n, _ in in_pairs]), ("out", [n for n, _ in out_pairs])):
            if len(set(names)) != len(names):
                raise ShapeError(f"{kind} dimensions {names} repeat a name")
        object.__setattr__(self, "ins", tuple(in_pairs))
        object.__setattr__(self, "outs", out_pairs)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a LinearLayout is immutable; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a LinearLayout is immutable; {name!r} stays")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearLayout):
            return NotImplemented
        return self.ins == other.ins and self.outs == other.outs

    def __hash__(self) -> int:
        return hash((self.ins, self.outs))

    def __reduce__(self) -> tuple[type[LinearLayout], tuple[object, object]]:
        return (LinearLayout, (self.ins, self.outs))

    @property
    def in_bits(self) -> dict[str, int]:
        """Number of bits of each in dimension."""
        return {name: len(bases) for name, bases in self.ins}

    @property
    def out_bits(self) -> dict[str, int]:
        """Number of bits of each out dimension."""
        return {name: extent.bit_length() - 1 for name, extent in self.outs}

    @property
    def columns(self) -> Columns:
        """The matrix: the packed image of every in bit, first in dimension first."""
        return tuple(self._pack(basis) for _, bases in self.ins for basis in bases)

    def _pack(self, coordinates: Sequence[int]) -> int:
        packed = shift = 0
        for x, (_, extent) in zip(coordinates, self.outs, strict=True):
            packed |= x << shift
            shift += extent.bit_length() - 1
        return packed

    def __call__(self, **coordinates: int) -> dict[str, int]:
        """The out coordinates of one in coordinate; dimensions left out are 0."""
        known = self.in_bits
        given: dict[str, int] = {}
        for name, value in coordinates.items():
            if name not in known:
                raise ShapeError(f"there is no in dimension {name!r}; there are {', '.join(known)}")
            given[name] = x = whole_number(value, name)
            if x < 0 or x >> known[name]:
                raise ShapeError(f"{name}={x} is outside [0, {1 << known[name]})")
        packed = shift = 0
        for name, bits in known.items():
            packed |= given.get(name, 0) << shift
            shift += bits
        return unpack(apply(self.columns, packed), self.outs)

    def __str__(self) -> str:
        lines: list[str] = []
        width = max((len(f"{n}={1 << len(b) >> 1}") for n, b in self.ins if b), default=0)
        for name, bases in self.ins:
            for j, basis in enumerate(bases):
                image = basis[0] if len(basis) == 1 else basis
                lines.append(f"{f'{name}={1 << j}':{width}} -> {image}")
            if not bases:
                lines.append(f"{name}: size 1")
        outs = ", ".join(f"{name} ({bits} bits)" for name, bits in self.out_bits.items())
        return "\n".join([*lines, f"outs: {outs}"])

    def __repr__(self) -> str:
        return f"LinearLayout({dict(self.ins)!r}, {dict(self.outs)!r})"


def _items(pairs: Pairs[T]) -> Iterable[tuple[str, T]]:
    if isinstance(pairs, Mapping):
        return pairs.items()
    try:
        return [(name, value) for name, value in pairs]
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"the dimensions {shown(pairs)}: a mapping from names, or pairs with a name, are needed"
        ) from None


def unpack(packed: int, outs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """A packed out coordinate, taken apart: the first dimension has the lowest bits.

    >>> unpack(0b1101, (("dim0", 4), ("dim1", 8)))
    {'dim0': 1, 'dim1': 3}
    """
    found: dict[str, int] = {}
    for name, extent in outs:
        packed, found[name] = divmod(packed, extent)
    return found


def from_columns(
    columns: Sequence[int],
    ins: Pairs[int],
    outs: Pairs[int],
) -> LinearLayout:
    """The layout with a given matrix; `ins` maps names to numbers of bits, `outs` to sizes.

    Raises ShapeError when the number of columns is not that of the bits, or a column does not fit.

    >>> print(from_columns((1, 6), {"lane": 2}, {"row": 2, "col": 4}))
    lane=1 -> (1, 0)
    lane=2 -> (0, 3)
    outs: row (1 bits), col (2 bits)
    """
    out_pairs = tuple(_items(outs))
    rest = list(columns)
    pairs: list[tuple[str, list[tuple[int, ...]]]] = []
    for name, bits in _items(ins):
        mine, rest = rest[:bits], rest[bits:]
        pairs.append((name, [tuple(unpack(c, out_pairs).values()) for c in mine]))
        if len(mine) < bits:
            raise ShapeError(f"{len(columns)} columns are fewer than the bits of the in dimensions")
    if rest:
        raise ShapeError(f"{len(columns)} columns are more than the bits of the in dimensions")
    result = LinearLayout(pairs, out_pairs)
    if result.columns != tuple(columns):
        raise ShapeError(f"columns {tuple(columns)} do not fit the out dimensions {dict(out_pairs)}")
    return result


def compose(outer: LinearLayout, inner: LinearLayout) -> LinearLayout:
    """outer o inner: first `inner`, whose out dimensions must be the in dimensions of `outer`.

    Raises ShapeError when the names differ or a dimension of `inner` is larger.

    >>> swap = LinearLayout({"offset": [2, 1]}, {"offset": 4})
    >>> compose(swap, swap) == LinearLayout({"offset": [1, 2]}, {"offset": 4})
    True
    """
    have, need = inner.out_bits, outer.in_bits
    if have.keys() != need.keys() or any(have[n] > need[n] for n in have):
        raise ShapeError(f"inner has the out dimensions {have} and outer the in dimensions {need} (in bits)")
    columns = [
        outer._pack(tuple(outer(**_named(inner, basis)).values()))
        for _, bases in inner.ins
        for basis in bases
    ]
    return from_columns(columns, inner.in_bits, outer.outs)


def _named(layout: LinearLayout, basis: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(layout.out_bits, basis, strict=True))


def invert(layout: LinearLayout) -> LinearLayout:
    """The inverse of a bijective layout: its outs become ins.

    Raises ShapeError when it is not bijective.

    >>> invert(LinearLayout({"lane": [3, 1]}, {"offset": 4}))(offset=2)
    {'lane': 3}
    """
    columns = layout.columns
    out_count = sum(layout.out_bits.values())
    found = [solve(columns, 1 << i) for i in range(out_count)]
    solved = [x for x in found if x is not None]
    if len(columns) != out_count or len(solved) != out_count:
        raise ShapeError(
            f"the layout is not bijective: {len(columns)} bits in, {out_count} out, {len(solved)} of the out "
            f"bits reached; an inverse needs all equal"
        )
    return from_columns(solved, layout.out_bits, {name: 1 << bits for name, bits in layout.in_bits.items()})


def invert_and_compose(outer: LinearLayout, inner: LinearLayout) -> LinearLayout:
    """C with outer(C(x)) = inner(x), where both have the same out dimensions; free bits of C are 0.

    The conversion between two layouts of one tensor: where, in `outer`'s terms, is what `inner` holds?
    Raises DivisibilityError when `outer` does not reach all that `inner` does (`witness` is the in bit).

    Source: Triton, LinearLayout::invertAndCompose.

    >>> a = LinearLayout({"register": [1], "lane": [2, 4]}, {"offset": 8})
    >>> b = LinearLayout({"register": [4], "lane": [1, 2]}, {"offset": 8})
    >>> invert_and_compose(b, a)(register=1)
    {'register': 0, 'lane': 1}
    """
    if outer.outs != inner.outs:
        raise ShapeError(f"the out dimensions {dict(outer.outs)} and {dict(inner.outs)} differ")
    columns: list[int] = []
    matrix = outer.columns
    for j, column in enumerate(inner.columns):
        x = solve(matrix, column)
        if x is None:
            place = unpack(column, inner.outs)
            raise DivisibilityError(
                f"the outer layout does not reach {place}, where the inner layout puts its in bit {j}",
                lhs=outer,
                rhs=inner,
                witness=1 << j,
            )
        columns.append(x)
    return from_columns(columns, inner.in_bits, {name: 1 << bits for name, bits in outer.in_bits.items()})


def from_layout(layout: AnyLayout, ins: Sequence[str] | None = None, out: str = "offset") -> LinearLayout:
    """A layout with power-of-two extents and no carries as a linear map to its offset.

    `ins` names the top-level modes; one name alone is that of the flat index (`index` when omitted).  The
    out dimension is as large as the largest offset needs.  Raises NotLinearError when the layout is not
    linear, or has an offset, and ShapeError when the number of names differs from the rank.

    >>> from layoutalg.layout import Layout
    >>> from_layout(Layout(((4, 8), 2), ((32, 1), 16)), ("lane", "register"))(lane=5, register=1)
    {'offset': 49}
    """
    normal = normal_form(layout)
    columns = to_f2(normal)
    extent = 1 << max(columns, default=0).bit_length()
    if ins is None or len(ins) == 1:
        return from_columns(columns, {ins[0] if ins else "index": len(columns)}, {out: extent})
    if len(ins) != rank(normal):
        raise ShapeError(f"{len(ins)} names for the {rank(normal)} modes of {layout}")
    inner = normal
    while isinstance(inner, ComposedLayout):
        inner = inner.inner
    sizes = [size(m).bit_length() - 1 for m in modes(inner)]
    return from_columns(columns, zip(ins, sizes, strict=True), {out: extent})


def to_layout(linear: LinearLayout) -> AnyLayout:
    """A layout with a mode for each in dimension and the packed outs as offset: there always is one.

    It is a Layout, or swizzles over one; where columns depend on each other without being 0, it is a layout
    over swizzles over a layout (see layoutalg.realize).

    >>> print(to_layout(LinearLayout({"lane": [4, 8], "register": [1, 2]}, {"offset": 16})))
    (4,4):(4,1)
    >>> print(to_layout(LinearLayout({"lane": [1, 2, 3]}, {"offset": 4})))
    (4,2):(1,0) o 0 o Sw<1,0,2> o Sw<1,1,1> o 0 o 8:1
    """
    before, folded = fold(linear.columns)
    swizzles, columns = separate(folded)
    bits = list(linear.in_bits.values())
    if not before:
        layout = _by_modes(columns, bits)
        return ComposedLayout(swizzles, 0, layout) if swizzles else layout
    index = ComposedLayout(before, 0, _by_modes(identity(len(columns)), bits))
    composed = ComposedLayout(_by_modes(columns, [len(columns)]), 0, index)
    return ComposedLayout(swizzles, 0, composed) if swizzles else composed


def _by_modes(columns: Columns, bits: Sequence[int]) -> Layout:
    """The layout with these strides, a mode for each number of bits."""
    parts: list[Layout] = []
    for count in bits:
        mine, columns = columns[:count], columns[count:]
        parts.append(plain(*merge([2] * count, mine)))
    return parts[0] if len(parts) == 1 else concat(*parts)
