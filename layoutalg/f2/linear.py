"""LinearLayout: a map between named dimensions that is linear over F2, in Triton's vocabulary.

The idea.  A layout says where things are: which element of a tensor a register of a lane
holds, or at which offset of shared memory (row, col) lies.  Where every size is a power of two, a coordinate
is a string of bits, and most layouts that matter (of tensor cores, transposed, broadcast, swizzled) are known
from where they send the SINGLE bits: a coordinate is sent to the XOR of the images of its bits, the bases.

    register=1 -> (0, 1)          ins    register, lane: who holds an element, or any other coordinate
    lane=1     -> (0, 2)          outs   row, col: the coordinates of the tensor, or one dimension `offset`
    lane=2     -> (1, 0)

reads: register 1 of lane 0 holds (0, 1), lane 1 holds (0, 2) in register 0, lane 2 holds (1, 0).  That is
all: register 1 of lane 3 holds (0, 1) ^ (0, 2) ^ (1, 0) = (1, 3).

    offset=1 -> 2, offset=2 -> 1                              bits exchanged: a transpose of 2 x 2
    lane=1 -> 1, lane=2 -> 0                                  two lanes hold the same: a broadcast
    row=1 -> 5, row=2 -> 10, col=1 -> 1, col=2 -> 2           row-major 4 x 4 under Sw<2,0,2>

Strides are added and bases are XORed; where no two bases share a bit that is the same, and the layout is one
of CuTe's.  In the last line they do share bits: the row is XORed into the column, which is a swizzle.

The bases, as columns of bits, are a matrix over F2 (`columns`; out dimensions are packed into one integer,
the first in the lowest bits), and questions about layouts are linear algebra:

    a.compose(b)                   first a, then b                             the product of the matrices
    a.invert()                     who holds an element                        the inverse
    dst.invert_and_compose(src)    where src holds what dst wants              a conversion of registers
    a * b                          a on the low bits, b on the high ones       two blocks on the diagonal
    a.divide_left(tile)            what is left of an access in whole tiles    one block taken off
    a.sublayout(ins, outs)         some dimensions alone                       a block

>>> from layoutalg import ComposedLayout, Layout, Swizzle
>>> swizzled = ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1)))
>>> tile = LinearLayout.from_layout(swizzled, ("row", "col"))
>>> print(tile)
row=1 -> 3
col=1 -> 1
outs: offset (size 4)
>>> tile(row=1, col=1)
{'offset': 2}
>>> print(tile.to_layout())
Sw<1,0,1> o 0 o (2,2):(2,1)

Comparison with Triton.  The same maps under the same names (operator*, invertAndCompose,
getFreeVariableMasks, ...).  What returns nothing there raises here, sizes that are not powers of two are
refused by an error, `pseudoinvert` accepts layouts that do not reach everything, flattened dimensions get a
name, and the way to and from CuTe's layouts is part of the type.

Source: Triton, include/triton/Tools/LinearLayout.h and lib/Tools/LinearLayout.cpp; Linear Layouts (arXiv
2505.23819).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from layoutalg.compose import normal_form
from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.f2.dims import (
    Bases,
    Pairs,
    check_known,
    check_order,
    checked_ins,
    checked_outs,
    items,
    low_bits,
    unpack,
)
from layoutalg.f2.matrix import Columns, Echelon, apply, complement, identity, multiply
from layoutalg.f2.matrix import rank as f2_rank
from layoutalg.f2.realize import realize, to_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Value, modes, rank, size, whole_number


class LinearLayout(Value):
    """A linear map over F2 from the dimensions `ins` to the dimensions `outs`.  Immutable and hashable.

    `ins` maps each name to its bases, one per bit, lowest first: the coordinates in all out dimensions that
    the bit is sent to (a bare integer where there is one out dimension).  `outs` maps each name to its
    size.  Both keep their order, and accept a mapping or pairs.  Raises ShapeError when a size is not a
    power of two or a basis does not fit.

    >>> LinearLayout({"lane": [1, 2], "register": [4]}, {"offset": 8})(lane=3, register=1)
    {'offset': 7}
    """

    __slots__ = ("ins", "outs")
    __match_args__ = ("ins", "outs")

    ins: tuple[tuple[str, Bases], ...]
    outs: tuple[tuple[str, int], ...]

    def __init__(self, ins: Pairs[Iterable[int | Iterable[int]]], outs: Pairs[int]) -> None:
        object.__setattr__(self, "outs", checked_outs(outs))
        object.__setattr__(self, "ins", checked_ins(ins, self.outs))

    def _arguments(self) -> tuple[object, ...]:
        return (dict(self.ins), dict(self.outs))

    def __str__(self) -> str:
        lines: list[str] = []
        width = max((len(f"{n}={1 << len(b) >> 1}") for n, b in self.ins if b), default=0)
        for name, bases in self.ins:
            for j, basis in enumerate(bases):
                image = basis[0] if len(basis) == 1 else basis
                lines.append(f"{f'{name}={1 << j}':{width}} -> {image}")
            if not bases:
                lines.append(f"{name}: size 1")
        outs = ", ".join(f"{name} (size {extent})" for name, extent in self.outs)
        return "\n".join([*lines, f"outs: {outs}"])

    def __repr__(self) -> str:
        flat = len(self.outs) == 1
        ins = {name: [basis[0] for basis in bases] if flat else list(bases) for name, bases in self.ins}
        return f"LinearLayout({ins!r}, {dict(self.outs)!r})"

    # --- made of other things ---------------------------------------------------------------------------

    @classmethod
    def from_columns(cls, columns: Sequence[int], ins: Pairs[int], outs: Pairs[int]) -> LinearLayout:
        """The layout with a given matrix; `ins` maps names to numbers of bits, `outs` to sizes.

        Raises ShapeError when the number of columns is not that of the bits, or a column does not fit.

        >>> LinearLayout.from_columns((1, 6), {"lane": 2}, {"row": 2, "col": 4})
        LinearLayout({'lane': [(1, 0), (0, 3)]}, {'row': 2, 'col': 4})
        """
        bits = [(name, whole_number(n, f"the number of bits of {name!r}")) for name, n in items(ins)]
        empty = cls([(name, ()) for name, _ in bits], outs)
        count = sum(max(n, 0) for _, n in bits)
        if len(columns) != count:
            more = "fewer" if len(columns) < count else "more"
            raise ShapeError(f"{len(columns)} columns are {more} than the bits of the in dimensions")
        fixed = tuple([whole_number(column, "a column") for column in columns])
        if any(x < 0 or x >> sum(empty.out_bits.values()) for x in fixed):
            raise ShapeError(f"columns {fixed} do not fit the out dimensions {dict(empty.outs)}")
        return empty._packed(fixed, dict(bits), empty.outs)

    @classmethod
    def _derived(cls, ins: tuple[tuple[str, Bases], ...], outs: tuple[tuple[str, int], ...]) -> LinearLayout:
        """Build what `__init__` makes of parts that are known to fit."""
        made = object.__new__(cls)
        object.__setattr__(made, "ins", ins)
        object.__setattr__(made, "outs", outs)
        return made

    @classmethod
    def _packed(
        cls, columns: Sequence[int], bits: Mapping[str, int], outs: tuple[tuple[str, int], ...]
    ) -> LinearLayout:
        """Build what `from_columns` makes of parts that are known to fit."""
        parts: list[list[int]] = []
        for _, extent in outs:
            parts.append([column & extent - 1 for column in columns])
            columns = [column >> extent.bit_length() - 1 for column in columns]
        images = iter(zip(*parts, strict=True) if outs else [()] * len(columns))
        ins = [(name, tuple([next(images) for _ in range(count)])) for name, count in bits.items()]
        return cls._derived(tuple(ins), outs)

    @classmethod
    def identity(cls, bits: int, name: str, out: str | None = None) -> LinearLayout:
        """The identity of 2^bits coordinates, from the dimension `name` to `out` (the same name by default).

        >>> LinearLayout.identity(2, "lane", "offset")(lane=3)
        {'offset': 3}
        """
        bits = whole_number(bits, "the number of bits")
        if bits < 0:
            raise ShapeError(f"an identity of {bits} bits; 0 or more are needed")
        outs = ((name if out is None else out, 1 << bits),)
        return cls._packed(identity(bits), {name: bits}, outs)

    @classmethod
    def from_layout(
        cls, layout: AnyLayout, ins: Sequence[str] | None = None, out: str = "offset"
    ) -> LinearLayout:
        """A layout with power-of-two extents and no carries as a linear map to its offset.

        `ins` names the top-level modes; one name alone is that of the flat index (`index` when omitted).  The
        out dimension is as large as the largest offset needs.  Raises NotLinearError when the layout is not
        linear, or has an offset, and ShapeError when the number of names differs from the rank.

        >>> from layoutalg import Layout
        >>> tv = Layout(((4, 8), 2), ((32, 1), 16))
        >>> LinearLayout.from_layout(tv, ("lane", "register"))(lane=5, register=1)
        {'offset': 49}
        """
        normal = normal_form(layout)
        columns = to_f2(normal)
        extent = 1 << max(columns, default=0).bit_length()
        if ins is None or len(ins) == 1:
            return cls.from_columns(columns, {ins[0] if ins else "index": len(columns)}, {out: extent})
        if len(ins) != rank(normal):
            raise ShapeError(f"{len(ins)} names for the {rank(normal)} modes of {layout}")
        inner = normal
        while isinstance(inner, ComposedLayout):
            inner = inner.inner
        sizes = [size(m).bit_length() - 1 for m in modes(inner)]
        return cls.from_columns(columns, zip(ins, sizes, strict=True), {out: extent})

    def to_layout(self) -> AnyLayout:
        """A layout with a mode for each in dimension and the packed outs as offset: there always is one.

        It is a Layout where no two columns share a bit, else one swizzle over a layout, else a chain of them;
        where columns depend on each other without being 0, it is a layout over swizzles over a layout (see
        layoutalg.f2.realize).

        >>> print(LinearLayout({"lane": [4, 8], "register": [1, 2]}, {"offset": 16}).to_layout())
        (4,4):(4,1)
        >>> print(LinearLayout({"lane": [1, 2, 3]}, {"offset": 4}).to_layout())
        (4,2):(1,0) o 0 o Sw<1,0,2> o Sw<1,1,1> o 0 o 8:1
        """
        return realize(self.columns, list(self.in_bits.values()))

    # --- asked ------------------------------------------------------------------------------------------

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
        bases = [basis for _, bases in self.ins for basis in bases]
        if not self.outs:
            return (0,) * len(bases)
        packed, extent = [basis[0] for basis in bases], self.outs[0][1]
        for i, (_, more) in enumerate(self.outs[1:], start=1):
            packed = [low + extent * basis[i] for low, basis in zip(packed, bases, strict=True)]
            extent *= more
        return tuple(packed)

    def columns_of(self, *names: str) -> Columns:
        """The columns of some in dimensions, in the order of `names`.  Raises ShapeError for another name.

        >>> LinearLayout({"lane": [1, 2], "warp": [4]}, {"offset": 8}).columns_of("warp", "lane")
        (4, 1, 2)
        """
        check_known("in", names, self.in_bits)
        starts, bits, columns = low_bits(self.in_bits), self.in_bits, self.columns
        return tuple([c for n in names for c in columns[starts[n] : starts[n] + bits[n]]])

    def __call__(self, **coordinates: int) -> dict[str, int]:
        """The out coordinates of one in coordinate; dimensions left out are 0.

        >>> LinearLayout({"lane": [(1, 0), (0, 1)]}, {"row": 2, "col": 2})(lane=3)
        {'row': 1, 'col': 1}
        """
        known, starts = self.in_bits, low_bits(self.in_bits)
        packed = 0
        for name, value in coordinates.items():
            if name not in known:
                raise ShapeError(f"there is no in dimension {name!r}; there are {', '.join(known)}")
            x = whole_number(value, name)
            if x < 0 or x >> known[name]:
                raise ShapeError(f"{name}={x} is outside [0, {1 << known[name]})")
            packed |= x << starts[name]
        return unpack(apply(self.columns, packed), self.outs)

    def is_injective(self) -> bool:
        """True when no two in coordinates have the same image.

        >>> LinearLayout({"lane": [1, 2, 3]}, {"offset": 4}).is_injective()
        False
        """
        columns = self.columns
        return f2_rank(columns) == len(columns)

    def is_surjective(self) -> bool:
        """True when every out coordinate is the image of some in coordinate.

        >>> LinearLayout({"lane": [1, 2, 3]}, {"offset": 4}).is_surjective()
        True
        """
        return f2_rank(self.columns) == sum(self.out_bits.values())

    def is_invertible(self) -> bool:
        """True when every out coordinate is the image of exactly one in coordinate: `invert` has an answer.

        >>> LinearLayout({"lane": [1, 3]}, {"offset": 4}).is_invertible()
        True
        """
        return self.is_injective() and self.is_surjective()

    def free_variable_masks(self) -> dict[str, int]:
        """For each in dimension, the bits whose column the bits before them span: broadcast, or redundant.

        Changing them changes nothing that another bit could not.

        >>> LinearLayout({"lane": [1, 2, 0], "warp": [3]}, {"offset": 4}).free_variable_masks()
        {'lane': 4, 'warp': 1}
        """
        echelon = Echelon()
        free = sum((not echelon.insert(column)) << j for j, column in enumerate(self.columns))
        return unpack(free, self._in_sizes())

    # --- composed and inverted --------------------------------------------------------------------------

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """First this layout, then `outer`: x -> outer(self(x)).

        Requires that the out dimensions are the in dimensions of `outer`, in any order, and not larger;
        raises ShapeError otherwise.

        >>> swap = LinearLayout({"offset": [2, 1]}, {"offset": 4})
        >>> swap.compose(swap) == LinearLayout.identity(2, "offset")
        True
        """
        have, need = self.out_bits, outer.in_bits
        if have.keys() != need.keys() or any(have[n] > need[n] for n in have):
            raise ShapeError(
                f"inner has the out dimensions {have} and outer the in dimensions {need} (in bits)"
            )
        starts, columns = low_bits(need), outer.columns
        matrix = [columns[starts[name] + j] for name, bits in have.items() for j in range(bits)]
        return self._packed(multiply(matrix, self.columns), self.in_bits, outer.outs)

    def invert(self) -> LinearLayout:
        """The inverse of a bijective layout: its outs become ins.

        Ensures layout.compose(layout.invert()) is an identity.  Raises ShapeError when it is not bijective.

        >>> LinearLayout({"lane": [3, 1]}, {"offset": 4}).invert()(offset=2)
        {'lane': 3}
        """
        if not self.is_invertible():
            columns, out_count = self.columns, sum(self.out_bits.values())
            reached = sum(map(Echelon(columns).contains, identity(out_count)))
            raise ShapeError(
                f"the layout is not bijective: {len(columns)} bits in, {out_count} out, {reached} of the out "
                f"bits reached; an inverse needs all equal"
            )
        return self.pseudoinvert()

    def pseudoinvert(self) -> LinearLayout:
        """R with self(R(y)) = y for every y that is reached; free in bits of R's result are 0.

        Out bits that complete what is reached are sent to 0, so that self o R o self = self always, and R is
        the inverse where there is one.

        >>> LinearLayout({"lane": [2, 2, 1]}, {"offset": 8}).pseudoinvert()(offset=3)
        {'lane': 5}
        """
        columns, out_count = self.columns, sum(self.out_bits.values())
        echelon = Echelon.of_columns(columns + complement(columns, out_count))
        low = (1 << len(columns)) - 1
        images = [(echelon.solve(unit) or 0) & low for unit in identity(out_count)]
        return self._packed(images, self.out_bits, self._in_sizes())

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """C with outer(C(x)) = self(x): where, in `outer`'s terms, is what this layout holds at x?

        The conversion between two layouts of one tensor.  Requires the same out dimensions (ShapeError) and
        that `outer` reaches all that this layout does (DivisibilityError; `witness` is the in bit).  Free
        bits of C are 0.

        >>> held = LinearLayout({"register": [4], "lane": [1, 2]}, {"offset": 8})
        >>> wanted = LinearLayout({"register": [1], "lane": [2, 4]}, {"offset": 8})
        >>> wanted.invert_and_compose(held)(register=1)
        {'register': 0, 'lane': 1}
        """
        if outer.outs != self.outs:
            raise ShapeError(f"the out dimensions {dict(outer.outs)} and {dict(self.outs)} differ")
        columns: list[int] = []
        echelon = Echelon.of_columns(outer.columns)
        for j, column in enumerate(self.columns):
            x = echelon.solve(column)
            if x is None:
                raise DivisibilityError(
                    f"the outer layout does not reach {unpack(column, self.outs)}, where the inner layout "
                    f"puts its in bit {j}",
                    lhs=outer,
                    rhs=self,
                    witness=1 << j,
                )
            columns.append(x)
        return self._packed(columns, self.in_bits, outer._in_sizes())

    # --- multiplied and divided -------------------------------------------------------------------------

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """a * b: in each dimension of either, `a` on the low bits and `b` on the high ones.

        >>> LinearLayout.identity(2, "lane", "n") * LinearLayout.identity(1, "register", "n")
        LinearLayout({'lane': [1, 2], 'register': [4]}, {'n': 8})
        """
        if not isinstance(other, LinearLayout):
            return NotImplemented
        low = dict(self.outs)
        high = dict(other.outs)
        outs = {name: low.get(name, 1) * high.get(name, 1) for name in {**low, **high}}
        ins: dict[str, Bases] = {name: () for name, _ in (*self.ins, *other.ins)}
        for factor, scale in ((self, dict.fromkeys(low, 1)), (other, low)):
            for name, bases in factor.ins:
                images = [dict(zip(factor.out_bits, basis, strict=True)) for basis in bases]
                ins[name] += tuple([tuple([x.get(n, 0) * scale.get(n, 1) for n in outs]) for x in images])
        return self._derived(tuple(ins.items()), tuple(outs.items()))

    def divide_left(self, divisor: LinearLayout) -> LinearLayout:
        """The layout c with self = divisor * c: `divisor` is what this layout does on the low bits.

        c keeps all dimensions, some of them perhaps with no bits left.  Raises DivisibilityError when there
        is none; `witness` is the first in bit that differs.

        >>> tile = LinearLayout({"register": [1, 8], "lane": [2, 4]}, {"offset": 16})
        >>> tile.divide_left(LinearLayout.identity(1, "register", "offset"))
        LinearLayout({'register': [4], 'lane': [1, 2]}, {'offset': 8})
        """
        return self._divide(divisor, left=True)

    def divide_right(self, divisor: LinearLayout) -> LinearLayout:
        """The layout c with self = c * divisor: `divisor` is what this layout does on the high bits.

        Raises as `divide_left`.

        >>> tile = LinearLayout({"lane": [2, 1, 4]}, {"offset": 8})
        >>> tile.divide_right(LinearLayout.identity(1, "lane", "offset"))
        LinearLayout({'lane': [2, 1]}, {'offset': 4})
        """
        return self._divide(divisor, left=False)

    def _divide(self, divisor: LinearLayout, *, left: bool) -> LinearLayout:
        b_in, b_out = divisor.in_bits, divisor.out_bits
        for kind, have, need in (("in", self.in_bits, b_in), ("out", self.out_bits, b_out)):
            for name, bits in need.items():
                if bits > have.get(name, -1):
                    raise DivisibilityError(
                        f"the {kind} dimension {name!r} of the divisor has {bits} bits, and the dividend "
                        f"{'none of that name' if name not in have else f'has {have[name]}'}",
                        lhs=self,
                        rhs=divisor,
                    )
        # The only possible quotient; whether it is one, the product decides.
        outs = {name: 1 << bits - b_out.get(name, 0) for name, bits in self.out_bits.items()}
        shifts = [b_out.get(name, 0) if left else 0 for name in outs]
        ins: list[tuple[str, Bases]] = []
        for name, bases in self.ins:
            count = b_in.get(name, 0)
            rest = bases[count:] if left else bases[: len(bases) - count]
            images = [zip(basis, shifts, outs.values(), strict=True) for basis in rest]
            ins.append((name, tuple([tuple([(x >> s) % n for x, s, n in image]) for image in images])))
        quotient = self._derived(tuple(ins), tuple(outs.items()))
        again = divisor * quotient if left else quotient * divisor
        again = again.transpose_ins(list(self.in_bits)).transpose_outs(list(self.out_bits))
        differing = [j for j, (x, y) in enumerate(zip(again.columns, self.columns, strict=True)) if x != y]
        if differing:
            raise DivisibilityError(
                f"the divisor is not what the dividend does on its {'low' if left else 'high'} bits: "
                f"in bit {differing[0]} differs",
                lhs=self,
                rhs=divisor,
                witness=1 << differing[0],
            )
        return quotient

    # --- dimensions taken apart, put together and renamed -----------------------------------------------

    def sublayout(self, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
        """The block of the matrix for some in and out dimensions, in the order of the layout.

        Raises ShapeError when a name is not one of the layout's.

        >>> tile = LinearLayout({"lane": [(1, 1)], "warp": [(0, 2)]}, {"row": 2, "col": 4})
        >>> tile.sublayout(["lane"], ["col"])
        LinearLayout({'lane': [1]}, {'col': 4})
        """
        known = [name for name, _ in self.outs]
        check_known("in", ins, dict(self.ins))
        check_known("out", outs, known)
        chosen = self._derived(tuple([(name, bases) for name, bases in self.ins if name in ins]), self.outs)
        return chosen._with_outs([name for name in known if name in outs])

    def sublayout_is_zero(self, ins: Sequence[str], outs: Sequence[str]) -> bool:
        """True when these in dimensions do not move these out dimensions.  Raises as `sublayout`.

        >>> tile = LinearLayout({"lane": [(1, 0)], "warp": [(0, 2)]}, {"row": 2, "col": 4})
        >>> tile.sublayout_is_zero(["lane"], ["col"])
        True
        """
        return not any(self.sublayout(ins, outs).columns)

    def concat_ins(self, other: LinearLayout) -> LinearLayout:
        """The in dimensions of both, over the same out dimensions: self(x) ^ other(y).

        Raises ShapeError when a name repeats or the out dimensions differ.

        >>> a, b = LinearLayout({"lane": [1]}, {"offset": 4}), LinearLayout({"warp": [2]}, {"offset": 4})
        >>> a.concat_ins(b)(lane=1, warp=1)
        {'offset': 3}
        """
        if self.outs != other.outs:
            raise ShapeError(f"the out dimensions {dict(self.outs)} and {dict(other.outs)} differ")
        return LinearLayout((*self.ins, *other.ins), self.outs)

    def concat_outs(self, other: LinearLayout) -> LinearLayout:
        """The out dimensions of both, over the same in dimensions: (self(x), other(x)).

        Raises ShapeError when a name repeats or the in dimensions differ.

        >>> a, b = LinearLayout({"lane": [1]}, {"row": 2}), LinearLayout({"lane": [0]}, {"col": 1})
        >>> a.concat_outs(b)(lane=1)
        {'row': 1, 'col': 0}
        """
        if list(self.in_bits.items()) != list(other.in_bits.items()):
            raise ShapeError(f"the in dimensions {self.in_bits} and {other.in_bits} (in bits) differ")
        ins = [
            (n, [(*x, *y) for x, y in zip(left, right, strict=True)])
            for (n, left), (_, right) in zip(self.ins, other.ins, strict=True)
        ]
        return LinearLayout(ins, (*self.outs, *other.outs))

    def transpose_ins(self, order: Sequence[str]) -> LinearLayout:
        """The same map with its in dimensions in another order.  Raises ShapeError for another set of names.

        >>> LinearLayout({"lane": [1], "warp": [2]}, {"offset": 4}).transpose_ins(["warp", "lane"]).columns
        (2, 1)
        """
        ins = dict(self.ins)
        check_order("in", order, list(ins))
        return self._derived(tuple([(name, ins[name]) for name in order]), self.outs)

    def transpose_outs(self, order: Sequence[str]) -> LinearLayout:
        """The same map with its out dimensions in another order.  Raises ShapeError for another set of names.

        >>> tile = LinearLayout({"lane": [(1, 0), (0, 1)]}, {"row": 2, "col": 2})
        >>> tile.transpose_outs(["col", "row"]).columns
        (2, 1)
        """
        check_order("out", order, list(self.out_bits))
        return self._with_outs(order)

    def _with_outs(self, names: Sequence[str]) -> LinearLayout:
        places = [i for name in names for i, (mine, _) in enumerate(self.outs) if mine == name]
        ins = [(n, tuple([tuple([basis[i] for i in places]) for basis in bases])) for n, bases in self.ins]
        return self._derived(tuple(ins), tuple([self.outs[i] for i in places]))

    def reshape_ins(self, bits: Pairs[int]) -> LinearLayout:
        """The same matrix with the in bits, in order, under other names; `bits` has numbers of bits.

        Raises ShapeError when there are not as many.

        >>> LinearLayout({"thread": [1, 2, 4]}, {"offset": 8}).reshape_ins({"lane": 2, "warp": 1})(warp=1)
        {'offset': 4}
        """
        return LinearLayout.from_columns(self.columns, bits, self.outs)

    def reshape_outs(self, sizes: Pairs[int]) -> LinearLayout:
        """The same matrix with the out bits, in order, under other names; `sizes` has sizes.

        Raises ShapeError when their product is not the same.

        >>> LinearLayout({"lane": [1, 2, 4]}, {"offset": 8}).reshape_outs({"row": 2, "col": 4})(lane=6)
        {'row': 0, 'col': 3}
        """
        reshaped = LinearLayout((), sizes)
        if sum(reshaped.out_bits.values()) != sum(self.out_bits.values()):
            raise ShapeError(
                f"the out dimensions {dict(reshaped.outs)} are not as large as {dict(self.outs)}"
            )
        return self._packed(self.columns, self.in_bits, reshaped.outs)

    def flatten_outs(self, name: str = "offset") -> LinearLayout:
        """The same matrix with one out dimension; the first had the lowest bits.

        >>> LinearLayout({"lane": [(1, 1)]}, {"row": 2, "col": 2}).flatten_outs()(lane=1)
        {'offset': 3}
        """
        return self.reshape_outs({name: 1 << sum(self.out_bits.values())})

    def _in_sizes(self) -> tuple[tuple[str, int], ...]:
        return tuple([(name, 1 << len(bases)) for name, bases in self.ins])
