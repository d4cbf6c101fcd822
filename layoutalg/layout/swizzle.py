"""Swizzle and Swizzles: XOR permutations of offsets, and chains of them.

The idea.  `Swizzle(bits, base, shift)` XORs one field of the bits of an offset into another:

    offset  0b .. Y Y Y . . Z Z Z . . .      `bits` wide each, Z starts at bit `base`,
                  |___________^              Y lies `shift` bits above Z
                                             (below, when shift is negative)

    f(x) = x ^ ((x & Y) >> shift)

Rows of a tile that would start in the same bank are so moved to different ones, without padding.  With
|shift| >= bits the two fields are disjoint and f is its own inverse.  With 0 < |shift| < bits the fields
overlap: still a bijection, no longer an involution.  bits > 0 with shift 0 clears bits and is refused.
A negative offset is its two's complement, whose bits go on without end: f(x + P) = f(x) + P holds for it too.

`Swizzles` is a chain of them, for any number of fields.

>>> print(Swizzle(3, 4, 3), Swizzle(3, 4, 3)(128))
Sw<3,4,3> 144
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.layout.int_tuple import (
    as_int64,
    check_index,
    check_integers_of,
    whole_number,
)
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
            object.__setattr__(self, name, whole_number(part, f"swizzle {name}"))
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
