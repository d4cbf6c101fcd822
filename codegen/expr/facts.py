"""The facts that are known of an integer before it is computed: an interval, a congruence and its bits.

The idea.  Every index expression carries three facts at once, and each sharpens the others:

    lo <= x <= hi              interval
    x = offset (mod stride)    congruence; stride 0 means x is the constant `offset`
    must <= x <= may, bitwise  bits that are always set, bits that can be set at all

For `tid % 8 * 16` with tid < 256: 0 <= x <= 112, x = 0 (mod 16), may = 0b1110000.  From `may` follows
that adding 3 is the same as OR-ing 3; from the congruence, that a 16-byte access at x is aligned; from
the interval, that 32 bits are enough.  All values are >= 0, so C's / and % agree with Python's.

Each function below is the transfer function of one operator.  They are sound, not complete: a test
checks every one exhaustively on all sets of small numbers.  Facts that no number satisfies are refused.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import gcd

from layoutalg.errors import IRError


@dataclass(frozen=True, slots=True)
class Facts:
    """lo <= x <= hi, x = offset mod stride (stride 0: constant), must <= bits of x <= may.

    >>> multiple(256, 16).may, multiple(256, 16).hi
    (240, 240)
    """

    lo: int
    hi: int
    stride: int
    offset: int
    may: int
    must: int

    @property
    def is_constant(self) -> bool:
        """True when only one value is possible."""
        return self.lo == self.hi

    def divisible_by(self, n: int) -> bool:
        """True when every possible value is a multiple of `n`."""
        return self.stride % n == 0 and self.offset % n == 0


def _low_mask(bits: int) -> int:
    return (1 << bits) - 1


@functools.lru_cache(maxsize=1 << 14)
def reconcile(lo: int, hi: int, stride: int, offset: int, may: int, must: int) -> Facts:
    """Let the three facts sharpen one another until none changes, and build the record.

    Raises IRError where no value satisfies all three.

    >>> reconcile(5, 40, 16, 0, 255, 0)
    Facts(lo=16, hi=32, stride=16, offset=0, may=48, must=0)
    """
    before, now = None, (lo, hi, stride, offset, may, must)
    while now != before and stride and lo < hi:
        free = _low_mask((lo ^ hi).bit_length())  # above these, lo and hi agree
        fixed = (stride & -stride) - 1  # these the congruence knows
        must |= hi & ~free | offset & fixed
        may &= (hi | free) & (offset | ~fixed)
        unknown = may & ~must
        stride, offset = _meet(stride, offset, unknown & -unknown, must)
        lo, hi = max(lo, must), min(hi, may)
        if stride:
            lo, hi = lo + (offset - lo) % stride, hi - (hi - offset) % stride
        before, now = now, (lo, hi, stride, offset, may, must)
    if stride == 0:
        lo, hi = max(lo, offset), min(hi, offset)
    if lo > hi or must & ~may:
        raise IRError("facts", (lo, hi), "no value satisfies what is claimed of it")
    return constant(lo) if lo == hi else Facts(lo, hi, stride, offset, may, must)


def _meet(stride: int, offset: int, power: int, value: int) -> tuple[int, int]:
    """x = offset (mod stride) and x = value (mod power), a power of two or 0, as one congruence."""
    if power == 0:
        return 0, value
    if stride % power == 0:
        return stride, offset % stride
    low = stride & -stride
    odd, rest = stride // low, power // low
    return stride * rest, offset + (value - offset) // low * pow(odd, -1, rest) % rest * stride


def constant(value: int) -> Facts:
    """The facts of one value.

    >>> constant(5).must
    5
    """
    return Facts(value, value, 0, value, value, value)


def between(lo: int, hi: int, stride: int = 1, offset: int = 0) -> Facts:
    """lo <= x <= hi with x = offset (mod stride), nothing else known.

    >>> between(1, 6).may
    7
    """
    return reconcile(lo, hi, stride, offset, _low_mask(hi.bit_length()), 0)


def multiple(extent: int, of: int = 1) -> Facts:
    """A multiple of `of` in [0, extent).

    >>> multiple(100, 32).hi
    96
    """
    return between(0, extent - 1, of)


def add(a: Facts, b: Facts) -> Facts:
    """Facts of x + y.

    >>> f = add(multiple(128, 16), constant(128))
    >>> f.divisible_by(16), f.must
    (True, 128)
    """
    may, must = _add_bits(a.may, a.must, b.may, b.must)
    return reconcile(a.lo + b.lo, a.hi + b.hi, gcd(a.stride, b.stride), a.offset + b.offset, may, must)


def _add_bits(may: int, must: int, also_may: int, also_must: int, carried: int = 0) -> tuple[int, int]:
    """may and must of a sum plus a carry; a bit is known where both bits and the carry into it are.

    The carries of the least and of the greatest sum bound every carry (LLVM's KnownBits::add).
    """
    most, least = may + also_may + carried, must + also_must + carried
    carry = (most ^ may ^ also_may) & ~(least ^ must ^ also_must)
    unknown = (may ^ must) | (also_may ^ also_must) | carry
    return least | unknown, least & ~unknown


def subtract(a: Facts, b: Facts) -> Facts:
    """Facts of x - y, and 0 where y is greater than x.

    >>> subtract(constant(127), multiple(128, 16)) == between(15, 127, 16, 15)
    True
    """
    lo, hi, stride, offset = a.lo - b.hi, a.hi - b.lo, gcd(a.stride, b.stride), a.offset - b.offset
    if hi <= 0:
        return constant(0)
    if lo < 0:  # some pairs are cut off at 0, and hardly a bit is known of the others
        return join(constant(0), between(0, hi, stride, offset))
    every = _low_mask(a.may.bit_length())  # of so many bits, x - y is x + ~y + 1
    may, must = _add_bits(a.may, a.must, every & ~b.must, every & ~b.may, 1)
    return reconcile(lo, hi, stride, offset, may & every, must & every)


def mul(a: Facts, b: Facts) -> Facts:
    """Facts of x * y; times a constant is a sum of shifted copies, whose bits may be disjoint.

    >>> bin(mul(multiple(4), constant(68)).may)
    '0b11001100'
    """
    stride = gcd(a.stride * b.stride, a.stride * b.offset, b.stride * a.offset)
    lo, hi = a.lo * b.lo, a.hi * b.hi
    may, must = _low_mask(hi.bit_length()), 0
    for x, y in ((a, b), (b, a)):
        if y.is_constant:
            may, must = 0, 0
            for k in range(y.lo.bit_length()):
                if y.lo >> k & 1:
                    may, must = _add_bits(may, must, x.may << k, x.must << k)
    return reconcile(lo, hi, stride, a.offset * b.offset, may, must)


def floordiv(a: Facts, b: Facts) -> Facts:
    """Facts of x // y for y >= 1.

    >>> floordiv(multiple(256, 48), constant(16)).stride
    3
    """
    lo, hi = a.lo // b.hi, a.hi // b.lo
    stride, offset, may, must = 1, 0, _low_mask(hi.bit_length()), 0
    if b.is_constant:
        if a.stride % b.lo == 0:
            stride, offset = a.stride // b.lo, a.offset // b.lo
        if b.lo & (b.lo - 1) == 0:
            may, must = a.may // b.lo, a.must // b.lo
    return reconcile(lo, hi, stride, offset, may, must)


def mod(a: Facts, b: Facts) -> Facts:
    """Facts of x % y for y >= 1; where x // y is one value, the interval moves as a whole.

    >>> mod(between(34, 40), constant(32)).hi
    8
    """
    if a.hi < b.lo:
        return a
    if not b.is_constant:
        return between(0, min(a.hi, b.hi - 1))
    c = b.lo
    lo, hi = (a.lo % c, a.hi % c) if a.lo // c == a.hi // c else (0, min(a.hi, c - 1))
    may, must = (a.may & (c - 1), a.must & (c - 1)) if c & (c - 1) == 0 else (_low_mask(hi.bit_length()), 0)
    return reconcile(lo, hi, gcd(a.stride, c), a.offset, may, must)


def bitwise_xor(a: Facts, b: Facts) -> Facts:
    """Facts of x ^ y, which lies between |x - y| and x + y.

    >>> bitwise_xor(multiple(64, 8), constant(4)).stride
    8
    """
    unknown = (a.may ^ a.must) | (b.may ^ b.must)
    must = (a.must ^ b.must) & ~unknown
    lo = max(a.lo - b.hi, b.lo - a.hi, 0)
    return reconcile(lo, a.hi + b.hi, 1, 0, must | unknown, must)


def bitwise_and(a: Facts, b: Facts) -> Facts:
    """Facts of x & y.

    >>> bitwise_and(multiple(256), constant(48)).may
    48
    """
    return reconcile(0, min(a.hi, b.hi), 1, 0, a.may & b.may, a.must & b.must)


def bitwise_or(a: Facts, b: Facts) -> Facts:
    """Facts of x | y.

    >>> bitwise_or(multiple(8), constant(16)).lo
    16
    """
    return reconcile(max(a.lo, b.lo), a.hi + b.hi, 1, 0, a.may | b.may, a.must | b.must)


def join(a: Facts, b: Facts) -> Facts:
    """Facts of a value that is either x or y.

    >>> join(constant(16), constant(48)).stride
    32
    """
    stride = gcd(a.stride, b.stride, abs(a.offset - b.offset))
    offset = a.offset % stride if stride else a.offset
    return reconcile(min(a.lo, b.lo), max(a.hi, b.hi), stride, offset, a.may | b.may, a.must & b.must)


def less_than(a: Facts, b: Facts) -> Facts:
    """Facts of x < y as 0 or 1, decided where the intervals are.

    >>> less_than(multiple(8), constant(8)) == constant(1)
    True
    """
    return _truth(a.hi < b.lo, a.lo >= b.hi)


def less_equal(a: Facts, b: Facts) -> Facts:
    """Facts of x <= y as 0 or 1.

    >>> less_equal(constant(9), multiple(8)) == constant(0)
    True
    """
    return _truth(a.hi <= b.lo, a.lo > b.hi)


def equal(a: Facts, b: Facts) -> Facts:
    """Facts of x == y as 0 or 1; different congruences or bits decide it too.

    >>> equal(multiple(64, 2), between(1, 63, 2, 1)) == constant(0)
    True
    """
    apart = a.hi < b.lo or b.hi < a.lo or bool(a.must & ~b.may or b.must & ~a.may)
    stride = gcd(a.stride, b.stride)
    apart = apart or bool(stride and (a.offset - b.offset) % stride)
    return _truth(a.is_constant and b.is_constant and a.lo == b.lo, apart)


def _truth(always: bool, never: bool) -> Facts:
    return constant(1) if always else constant(0) if never else between(0, 1)
