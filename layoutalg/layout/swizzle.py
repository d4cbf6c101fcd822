"""Swizzle, Swizzles, ComposedLayout: XOR permutations of offsets, and the one spelling of a swizzled layout.

The idea.  `Swizzle(bits, base, shift)` XORs one field of the bits of an offset into another:

    offset  0b .. Y Y Y . . Z Z Z . . .      `bits` wide each, Z starts at bit `base`,
                  |___________^              Y lies `shift` bits above Z
                                             (below, when shift is negative)

    f(x) = x ^ ((x & Y) >> shift)

Rows of a tile that would start in the same bank are so moved to different ones, without padding.  With
|shift| >= bits the two fields are disjoint and f is its own inverse.  With 0 < |shift| < bits the fields
overlap: still a bijection, no longer an involution.  bits > 0 with shift 0 clears bits and is refused.
A negative offset is its two's complement, whose bits go on without end: f(x + P) = f(x) + P holds for it too.

`Swizzles` is a chain of them, for any number of fields, and `ComposedLayout(outer, offset, inner)` is the
function `c -> outer(offset + inner(c))`.

>>> tile = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
>>> print(tile, tile(1, 0))
Sw<3,4,3> o 0 o (8,64):(64,1) 64
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, overload

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, check_type, shown
from layoutalg.layout.int_tuple import (
    IntTuple,
    as_int64,
    check_index,
    check_integers_of,
    has_arrays,
    inner_product,
    normalize,
    on_arrays,
)
from layoutalg.layout.layout import Layout, has_bases, integer_leaves
from layoutalg.layout.slicing import Coded, Coordinate
from layoutalg.layout.symbols import is_symbolic
from layoutalg.layout.value import Value

MAX_BITS = 64
"""Swizzles act on 64-bit offsets: bits + base + |shift| may not exceed this."""


class Swizzle(Value):
    """x -> x ^ ((x & yyy_mask) >> shift), a bijection on the integers; printed Sw<B,M,S>.

    `bits` is the width of the fields, `base` the number of lowest bits unchanged, `shift` the distance
    between them (negative: shifts left).  Raises ShapeError for values that do not make a bijection.

    >>> Swizzle(2, 0, 2)(0b0110), str(Swizzle(2, 0, 2))
    (7, 'Sw<2,0,2>')
    """

    __slots__ = ("base", "bits", "shift")
    __match_args__ = ("bits", "base", "shift")

    bits: int
    base: int
    shift: int

    def __init__(self, bits: int, base: int, shift: int) -> None:
        for name, part in (("bits", bits), ("base", base), ("shift", shift)):
            value = normalize(part, f"swizzle {name}")
            if isinstance(value, tuple):
                raise ArgumentTypeError(f"swizzle {name} is the tuple {value!r}; an integer is needed")
            object.__setattr__(self, name, value)
        if self.bits < 0 or self.base < 0:
            raise ShapeError(f"{self}: bits and base must not be negative")
        if self.bits + self.base + abs(self.shift) > MAX_BITS:
            raise ShapeError(f"{self}: its fields reach past bit {MAX_BITS}; offsets have {MAX_BITS} bits")
        if self.bits > 0 and self.shift == 0:
            raise ShapeError(f"{self} clears bits and is not a bijection: the shift must not be 0")

    @property
    def yyy_mask(self) -> int:
        """Bits that are read."""
        return ((1 << self.bits) - 1) << (self.base + max(0, self.shift))

    @property
    def zzz_mask(self) -> int:
        """Bits that are changed."""
        return ((1 << self.bits) - 1) << (self.base - min(0, self.shift))

    @property
    def period(self) -> int:
        """P with f(x + P) = f(x) + P for every x: all bits the swizzle reads or writes lie below P."""
        return 1 << (self.base + self.bits + abs(self.shift))

    @property
    def is_involution(self) -> bool:
        """True when the swizzle is its own inverse: the two fields do not overlap."""
        return self.bits == 0 or abs(self.shift) >= self.bits

    def bit_pairs(self) -> tuple[tuple[int, int], ...]:
        """(bit read, bit changed) for every bit of the fields, in an order in which they may be applied
        one after another: a bit is read before it is changed."""
        moves = [
            (self.base + max(0, self.shift) + i, self.base - min(0, self.shift) + i) for i in range(self.bits)
        ]
        return tuple(moves if self.shift > 0 else reversed(moves))

    def __call__(self, offset: Any) -> Any:
        """The swizzled offset of an int, a NumPy array or an index expression (not a sympy symbol).

        Arrays of signed integers become int64; raises ShapeError where a result is past that.
        """
        if type(offset) is not int:
            if is_symbolic(offset):
                raise UnsupportedError(f"{self} of the symbol {offset}: see layoutalg.symbolic.solve")
            if hasattr(offset, "dtype"):
                return self._of_array(offset)
            check_index(offset)
        return self._moved(offset)

    def most_offset(self, most: int, *, signed: bool = False) -> int:
        """A bound on the magnitudes of the swizzled offsets of 0 .. most, or of -most .. most.

        >>> Swizzle(3, 4, 3).most_offset(127), Swizzle(3, 4, 3).most_offset(130)
        (127, 255)
        """
        if not self.bits or (not signed and most < self.yyy_mask & -self.yyy_mask):
            return most
        return (1 << max(most, self.zzz_mask).bit_length()) - 1

    def _moved(self, offset: Any) -> Any:
        bits, shift = self.bits, self.shift
        if bits == 0:
            return offset
        if shift > 0:
            return offset ^ (offset & ((1 << bits) - 1) << self.base + shift) >> shift
        return offset ^ (offset & ((1 << bits) - 1) << self.base) << -shift

    def _of_array(self, offsets: Any) -> Any:
        if offsets.dtype.kind == "O" and all(type(x) is int for x in offsets.flat):
            return self._moved(offsets)
        check_integers_of(offsets)
        unsigned = offsets.dtype.kind == "u"
        if not (unsigned or offsets.ndim) and self.period <= 1 << 63:
            return as_int64(self._moved(int(offsets)))
        wide = offsets.astype("uint64" if unsigned else "int64", copy=False)
        if self.bits == 0:
            return wide
        if not unsigned and self.period > 1 << 63:  # bit 63 is int64's sign
            if any(self(x) >> 63 not in (0, -1) for x in wide.ravel().tolist()):
                raise ShapeError(f"{self} of an array has a value past int64; give offsets as uint64 or ints")
            wide = wide.astype("uint64")
        moved = wide & wide.dtype.type(self.yyy_mask)
        out = wide ^ (moved >> self.shift if self.shift > 0 else moved << -self.shift)
        return out if unsigned else out.astype("int64", copy=False)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


class Swizzles(Value):
    """Swizzles one after another, the leftmost applied last: a XOR matrix; printed Sw<..> o Sw<..>.

    A value like Swizzle, called on the same offsets, and the sequence of its `factors`, which are kept as
    given; a chain among them is taken apart.  `Swizzles()` changes nothing.  Raises ArgumentTypeError for
    what is not a swizzle.

    >>> chain = Swizzles(Swizzle(1, 0, 2), Swizzle(1, 2, 1))
    >>> print(chain, chain(8), len(chain), chain.inverse())
    Sw<1,0,2> o Sw<1,2,1> 13 2 Sw<1,2,1> o Sw<1,0,2>
    """

    __slots__ = ("factors",)
    __match_args__ = ("factors",)

    factors: tuple[Swizzle, ...]

    def __init__(self, *factors: Swizzle | Swizzles) -> None:
        out: list[Swizzle] = []
        for factor in factors:
            if isinstance(factor, Swizzle):
                out.append(factor)
            elif isinstance(factor, Swizzles):
                out.extend(factor.factors)
            else:
                raise ArgumentTypeError(f"Swizzles of {shown(factor)}: a swizzle is needed")
        object.__setattr__(self, "factors", tuple(out))

    @staticmethod
    def from_bit_pairs(pairs: Iterable[tuple[int, int]]) -> Swizzles:
        """The chain that XORs bit y into bit z for each pair (y, z), the first pair first.

        Pairs that step together become one swizzle.

        >>> print(Swizzles.from_bit_pairs([(3, 0), (4, 1), (2, 9)]))
        Sw<1,2,-7> o Sw<2,0,3>
        """
        out: list[Swizzle] = []
        for y, z in pairs:
            low, shift = min(y, z), y - z
            if out and out[0].shift == shift:
                bits, base = out[0].bits, out[0].base
                above, below = low == base + bits, low == base - 1
                if (bits < abs(shift) and (above or below)) or (above if shift > 0 else below):
                    out[0] = Swizzle(bits + 1, min(base, low), shift)
                    continue
            out.insert(0, Swizzle(1, low, shift))
        return _chain(out)

    def _arguments(self) -> tuple[Swizzle, ...]:
        return self.factors

    def __iter__(self) -> Iterator[Swizzle]:
        return iter(self.factors)

    def __len__(self) -> int:
        return len(self.factors)

    @overload
    def __getitem__(self, i: int) -> Swizzle: ...
    @overload
    def __getitem__(self, i: slice) -> Swizzles: ...
    def __getitem__(self, i: int | slice) -> Swizzle | Swizzles:
        return _chain(self.factors[i]) if isinstance(i, slice) else self.factors[i]

    def __call__(self, offset: Any) -> Any:
        """The offset after every swizzle, of what one swizzle takes."""
        if type(offset) is int:
            return self._moved(offset)
        for swizzle in reversed(self.factors or _NO_EFFECT):
            offset = swizzle(offset)
        return offset

    def _moved(self, offset: Any) -> Any:
        for swizzle in reversed(self.factors):
            offset = swizzle._moved(offset)
        return offset

    @property
    def period(self) -> int:
        """P with f(x + P) = f(x) + P for every x: the largest of the factors'; 1 where nothing moves."""
        return max([swizzle.period for swizzle in self.factors], default=1)

    def bit_pairs(self) -> tuple[tuple[int, int], ...]:
        """(bit read, bit changed), in an order in which they may be applied one after another."""
        return tuple(pair for swizzle in reversed(self.factors) for pair in swizzle.bit_pairs())

    def most_offset(self, most: int, *, signed: bool = False) -> int:
        """A bound on the magnitudes of all numbers on the way, as `Swizzle.most_offset`."""
        for swizzle in reversed(self.factors):
            most = swizzle.most_offset(most, signed=signed)
        return most

    def inverse(self) -> Swizzles:
        """The chain that undoes this one.

        A swizzle is I + N over F2 with N nilpotent, so its inverse is (I + N)(I + N^2)(I + N^4)..., and N^k
        of Sw<B,M,S> is that of Sw<B-(k-1)|S|,M,kS>: one factor unless the fields overlap.

        >>> print(Swizzles(Swizzle(3, 0, 1)).inverse())
        Sw<3,0,1> o Sw<2,0,2>
        """
        out: list[Swizzle] = []
        for swizzle in self.factors:
            factors = []
            bits, shift = swizzle.bits, swizzle.shift
            while bits > 0:
                factors.append(Swizzle(bits, swizzle.base, shift))
                bits -= abs(shift)
                shift *= 2
            out[:0] = factors
        return _chain(out)

    def reduced(self) -> Swizzles:
        """A chain with the same effect and no needless factor: empty when there is no effect.

        When no bit is both read and changed, the pairs commute and equal ones cancel; otherwise neighbours
        that undo each other do, and a chain that is a single swizzle becomes that one.

        >>> print(Swizzles(Swizzle(1, 4, 3), Swizzle(3, 4, 3)).reduced())
        Sw<2,5,3>
        >>> print(Swizzles(Swizzle(3, 0, 1), Swizzle(3, 0, 1)).reduced())
        Sw<2,0,2>
        """
        chain = [swizzle for swizzle in self.factors if swizzle.bits]
        if len(chain) < 2:
            return _chain(chain)
        pairs = self.bit_pairs()
        if {y for y, _ in pairs}.isdisjoint(z for _, z in pairs):
            odd = {pair for pair in pairs if pairs.count(pair) % 2}
            up = sorted((p for p in odd if p[0] > p[1]), key=lambda p: (p[0] - p[1], p))
            down = sorted((p for p in odd if p[0] < p[1]), key=lambda p: (p[1] - p[0], p), reverse=True)
            return Swizzles.from_bit_pairs(up + down)
        out: list[Swizzle] = []
        for swizzle in chain:
            if out and out[-1] == swizzle and swizzle.is_involution:
                out.pop()
            else:
                out.append(swizzle)
        left = _chain(out)
        single = left._as_one()
        return left if single is None else single

    def _as_one(self) -> Swizzles | None:
        """The chain of one swizzle, or of none, that does what this one does, or None: bit y is XORed into
        bit y - shift alone, for an unbroken run of bits y."""
        moves: list[tuple[int, int]] = []
        for y in range(self.period.bit_length() - 1):
            moved = self(1 << y) ^ 1 << y
            if moved & (moved - 1):
                return None
            if moved:
                moves.append((y, moved.bit_length() - 1))
        if not moves:
            return Swizzles()
        (first, to), bits = moves[0], len(moves)
        if moves != [(first + i, to + i) for i in range(bits)]:
            return None
        return Swizzles(Swizzle(bits, min(first, to), first - to))

    def simplest(self) -> Swizzle | Swizzles:
        """The one factor as a Swizzle, Sw<0,0,0> where there is none, else this chain."""
        if len(self.factors) > 1:
            return self
        return (self.factors or _NO_EFFECT)[0]

    def __str__(self) -> str:
        return " o ".join(map(str, self.factors or _NO_EFFECT))


_NO_EFFECT = (Swizzle(0, 0, 0),)
_set_factors = Swizzles.__dict__["factors"].__set__


def _chain(factors: Iterable[Swizzle]) -> Swizzles:
    """A chain of what is known to be swizzles: this module's own constructor, unchecked."""
    out = object.__new__(Swizzles)
    _set_factors(out, tuple(factors))
    return out


def as_chain(value: Any) -> Any:
    """A tuple of swizzles as the chain it stands for; every other value as it is.

    Public operations pass what they are given through it, so that a chain may be written as a tuple.

    >>> as_chain((Swizzle(1, 0, 2), Swizzle(1, 2, 1)))
    Swizzles(Swizzle(1, 0, 2), Swizzle(1, 2, 1))
    """
    if type(value) is tuple and value and all(isinstance(part, Swizzle) for part in value):
        return Swizzles(*value)
    return value


def swizzle_inverse(chain: Swizzle | Swizzles | tuple[Swizzle, ...]) -> Swizzles:
    """The chain that undoes a swizzle or a chain of them: of one factor unless fields overlap.

    >>> print(swizzle_inverse(Swizzle(3, 4, 3)), swizzle_inverse(Swizzle(3, 0, 1)), sep=", ")
    Sw<3,4,3>, Sw<3,0,1> o Sw<2,0,2>
    """
    factors = chain if isinstance(chain, (Swizzles, tuple)) else (chain,)
    for factor in factors:
        if not isinstance(factor, Swizzle):
            raise ArgumentTypeError(f"swizzle_inverse of {shown(factor)}: a swizzle is needed")
    return Swizzles(*factors).inverse()


def _check_image(outer: Outer, inner: AnyLayout) -> None:
    """Refuse coordinates inside a composed layout, and symbols under swizzles, which move bits of numbers."""
    part = inner
    while isinstance(part, ComposedLayout) and not isinstance(part.outer, Layout):
        part = part.inner
    image = part if isinstance(part, Layout) else part.outer
    if not isinstance(outer, Layout):
        check_integers("ComposedLayout under a swizzle", inner)
    elif isinstance(image, Layout) and has_bases(image):
        raise UnsupportedError(f"ComposedLayout({outer}, {inner}): coordinates are not indices of {outer}")


def innermost(layout: AnyLayout) -> Layout:
    """The plain layout inside all swizzles and outer layouts, whose modes are the whole's.

    >>> print(innermost(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((4, 8)))))
    (4,8):(1,4)
    """
    while isinstance(layout, ComposedLayout):
        layout = layout.inner
    return layout


@overload
def map_innermost(layout: Layout, change: Callable[[Layout], Layout]) -> Layout: ...
@overload
def map_innermost(layout: AnyLayout, change: Callable[[Layout], Layout]) -> AnyLayout: ...
def map_innermost(layout: AnyLayout, change: Callable[[Layout], Layout]) -> AnyLayout:
    """`change` applied to the plain layout at the bottom of a composed one; outer functions and offsets stay.

    >>> print(map_innermost(ComposedLayout(Swizzle(1, 0, 2), 0, Layout(8)), lambda plain: Layout(4)))
    Sw<1,0,2> o 0 o 4:1
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, map_innermost(layout.inner, change))
    return change(layout)


def check_integers(operation: str, layout: AnyLayout) -> None:
    """Refuse symbols and strides along modes, by the name of the operation that takes integers alone.

    >>> check_integers("is_bijective", Layout((4, 8)))
    """
    check_layouts(operation, layout)
    while isinstance(layout, ComposedLayout):
        if isinstance(layout.outer, Layout):
            integer_leaves(operation, layout.outer)
        layout = layout.inner
    integer_leaves(operation, layout)


Outer: TypeAlias = "Swizzle | Swizzles | Layout"
"""The outer function of a composed layout, on the left."""


class ComposedLayout(Coded, Value):
    """c -> outer(offset + inner(c)): the normal form of a swizzled layout.

    `outer` is a Swizzle, a chain of them (Swizzles, or a tuple that becomes one; a chain of one factor
    becomes that Swizzle) or a Layout.
    `offset` is in the units of the inner layout's image.  Raises ArgumentTypeError for other parts.

    >>> ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2)))(3)
    2
    """

    __slots__ = ("inner", "offset", "outer")
    __match_args__ = ("outer", "offset", "inner")

    outer: Outer
    offset: int
    inner: AnyLayout

    def __init__(self, outer: Outer | tuple[Swizzle, ...], offset: int, inner: AnyLayout) -> None:
        outer = as_chain(outer)
        if isinstance(outer, Swizzles):
            outer = outer.simplest()
        elif not isinstance(outer, (Swizzle, Layout)):
            raise ArgumentTypeError(f"outer {shown(outer)} is not a Swizzle, a tuple of Swizzles or a Layout")
        if not isinstance(inner, (Layout, ComposedLayout)):
            raise ArgumentTypeError(f"inner {shown(inner)} is not a Layout or a ComposedLayout")
        _check_image(outer, inner)
        value = normalize(offset, "offset")
        if isinstance(value, tuple) or value < 0:
            raise ShapeError(f"offset {offset!r} of a composed layout must be a non-negative integer")
        object.__setattr__(self, "outer", outer)
        object.__setattr__(self, "offset", value)
        object.__setattr__(self, "inner", inner)

    @property
    def shape(self) -> IntTuple:
        """The shape of the domain, which is the inner layout's."""
        return self.inner.shape

    @property
    def swizzles(self) -> Swizzles:
        """The outer swizzles as a chain, empty when the outer function is a Layout."""
        if isinstance(self.outer, Swizzles):
            return self.outer
        return _chain(() if isinstance(self.outer, Layout) else (self.outer,))

    def __call__(self, *crd: Any) -> Any:
        """Offset of a coordinate, or the layout that a coordinate with None in it keeps, as for Layout."""
        point = crd[0] if len(crd) == 1 else crd
        try:
            if type(point) is not int and has_arrays(point):
                return on_arrays(self._offset, point, self.most_offset)
            return self._offset(point)
        except ArgumentTypeError as error:
            return self.at_open(point, error)

    def sliced(self, crd: Coordinate) -> tuple[ComposedLayout, int]:
        """(rest, offset), as `slice_and_offset`."""
        inner, moved = self.inner.sliced(crd)
        return ComposedLayout(self.outer, self.offset + moved, inner), 0

    def most_offset(self, most: int) -> int:
        """A bound on every number on the way to the offset of a coordinate of integers up to `most`."""
        most = self.inner.most_offset(most) + self.offset
        if isinstance(self.outer, Layout):
            return max(most, self.outer.most_offset(most))
        return (1 << max(most, self.outer.period - 1).bit_length()) - 1

    def _offset(self, crd: Any, most: Any = None) -> Any:
        """The offset of a coordinate; `most` is the tree of its largest integers where it has arrays."""
        inner = self.inner
        if not isinstance(inner, Layout):
            value = inner._offset(crd, most)
        elif most is None:
            value = inner_product(crd, inner.shape, inner.stride)
        else:
            value = inner.of_arrays(crd, most)
        if self.offset:
            value = value + self.offset
        outer = self.outer
        if isinstance(outer, Layout):
            return outer(value)
        bounded = type(value) is int or (type(value).__module__ == "numpy" and value.dtype.kind == "i")
        return outer._moved(value) if bounded else outer(value)

    def __str__(self) -> str:
        return f"{self.outer} o {self.offset} o {self.inner}"


AnyLayout: TypeAlias = "Layout | ComposedLayout"


def check_layouts(operation: str, *layouts: object) -> None:
    """Refuse what is not a layout, by the name of the operation that takes layouts alone.

    >>> check_layouts("coalesce", Layout((4, 8)))
    """
    for layout in layouts:
        check_type(operation, layout, Coded, "a layout")
