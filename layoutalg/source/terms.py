"""Integers of a kernel as sums over atoms: what threads, blocks and turns of loops make of an index.

The idea.  An index is nearly always a sum of products with constants, of thread numbers, block numbers and
turns of loops; what is not a sum (a division, a mask, an XOR, a comparison) is an ATOM in it.

    Sum      constant + coefficient * atom + ...      the parts of an address that only shift it stay apart
    Atom     var | open | div | mod | cdiv | cmod | and | or | xor | mul | min | max | nonneg | zero |
             select | wrap | table

`nonneg(x)` is 1 where x >= 0 and `zero(x)` where x == 0: every comparison is one of the two, so a condition
has the same parts as an index.  `table` holds the values of something that a loop changes in another way
than by a constant step, `open` a number that is alike in all lanes of a warp and not known, another one in
each turn of the loops that are its operands.  Atoms are unique: the same operation on the same operands is
the same object, and knows between which bounds its values lie.  Sums are exact integers; a value that its C
type may not hold is a `wrap` of it, which is how the machine wraps it.

>>> x = variable("x", 0, 31)
>>> print(add(scale(x, 4), floor_div(add(scale(x, 8), constant(3)), 8)))
5*x
>>> values(add(scale(x, 4), constant(1)), {"x": 3})
13
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

MOST_VALUE = 1 << 61
"""Limit of 64-bit arithmetic, with room for a sum."""

FREE = 1 << 70
"""The bound of sums without a bound."""


class Atom:
    """An operation on sums; `data` is a variable's name, a type's (bits, signed), or a table's array.

    `low` and `high` bound its values, `widest` the magnitude of all numbers that it is made of; `depth`
    counts the atoms inside one another.
    `fresh`: it depends on a value that is only being tried.
    """

    __slots__ = (
        "__weakref__", "args", "data", "depth", "fresh", "high", "low", "op", "order", "variables", "widest",
    )  # fmt: skip

    op: str
    args: tuple[Sum, ...]
    data: Any
    low: int
    high: int
    fresh: bool
    order: int
    variables: frozenset[str]
    widest: int
    depth: int

    def __str__(self) -> str:
        if self.op == "var":
            return str(self.data)
        inner = ", ".join(map(str, self.args))
        return f"{self.op}({inner})"


class Sum:
    """A constant and atoms with coefficients, in the order in which the atoms were made."""

    __slots__ = ("constant", "fresh", "high", "low", "parts")

    def __init__(self, constant: int, parts: tuple[tuple[Atom, int], ...] = ()) -> None:
        self.constant, self.parts = constant, parts
        low = high = constant
        fresh = False
        for atom, k in parts:
            low += k * (atom.low if k > 0 else atom.high)
            high += k * (atom.high if k > 0 else atom.low)
            fresh = fresh or atom.fresh
        self.low, self.high, self.fresh = low, high, fresh

    @property
    def known(self) -> bool:
        """Whether the sum is a constant."""
        return not self.parts

    @property
    def key(self) -> tuple[Any, ...]:
        """The key by which sums are equal."""
        return (self.constant, tuple((atom.order, k) for atom, k in self.parts))

    @property
    def depth(self) -> int:
        """Atoms that stand inside one another, at most."""
        return max((atom.depth for atom, _ in self.parts), default=0)

    @property
    def variables(self) -> frozenset[str]:
        """Names of the variables in it."""
        return frozenset().union(*(atom.variables for atom, _ in self.parts))

    def __str__(self) -> str:
        shown = [f"{k}*{atom}" if k != 1 else str(atom) for atom, k in self.parts]
        return " + ".join(shown + ([str(self.constant)] if self.constant or not shown else []))


_ATOMS: weakref.WeakValueDictionary[Any, Atom] = weakref.WeakValueDictionary()
_made = 0


def _atom(op: str, args: tuple[Sum, ...], low: int, high: int, data: Any = None, key: Any = None,
          fresh: bool = False) -> Sum:  # fmt: skip
    global _made
    name = (op, tuple(arg.key for arg in args), data if key is None else key)
    atom = _ATOMS.get(name)
    if atom is None:
        atom = Atom()
        _made += 1
        atom.op, atom.args, atom.data, atom.low, atom.high, atom.order = op, args, data, low, high, _made
        atom.fresh = fresh or any(arg.fresh for arg in args)
        atom.widest = widest(*args)
        atom.depth = 1 + max((arg.depth for arg in args), default=0)
        own = frozenset({data}) if op in ("var", "open") else frozenset()
        atom.variables = own.union(*(arg.variables for arg in args))
        if op == "table" and getattr(data, "ndim", 1) == 2:
            atom.variables |= {"thread"}
        _ATOMS[name] = atom
    return Sum(0, ((atom, 1),))


def constant(value: int) -> Sum:
    """A number."""
    return Sum(value)


ZERO, ONE = Sum(0), Sum(1)


def variable(name: str, low: int, high: int, *, fresh: bool = False) -> Sum:
    """A variable and the least and greatest number it takes; `fresh` while its values are only tried."""
    return constant(low) if low == high else _atom("var", (), low, high, name, (name, low, high), fresh)


SIZE = "$"
"""The first character of the names of numbers that are not given; no other variable's name has it."""


def size(name: str, low: int, high: int) -> Sum:
    """A number that is not given, alike in all lanes."""
    return variable(SIZE + name, low, high)


def opened(name: str, low: int, high: int, turns: Sequence[Sum]) -> Sum:
    """A number that is alike in all lanes of a warp and not known, another one in each of some turns."""
    return _atom("open", tuple(turns), low, high, SIZE + name, (name, low, high))


def sizes(*sums: Sum) -> list[str]:
    """Names of the numbers that are not given, in sums."""
    return sorted({v[1:] for each in sums for v in each.variables if v.startswith(SIZE)})


def add(*sums: Sum) -> Sum:
    """The sum of sums.

    >>> x = variable("x", 0, 3)
    >>> print(add(x, constant(2), x), add(x, scale(x, -1)))
    2*x + 2 0
    """
    total = 0
    parts: dict[int, tuple[Atom, int]] = {}
    for each in sums:
        total += each.constant
        for atom, k in each.parts:
            parts[atom.order] = (atom, k + parts[atom.order][1] if atom.order in parts else k)
    return Sum(total, tuple(parts[order] for order in sorted(parts) if parts[order][1]))


def scale(one: Sum, by: int) -> Sum:
    """A sum times a number."""
    if by == 0:
        return ZERO
    return Sum(one.constant * by, tuple((atom, k * by) for atom, k in one.parts))


def minus(a: Sum, b: Sum) -> Sum:
    """a - b."""
    return add(a, scale(b, -1))


def multiply(a: Sum, b: Sum) -> Sum:
    """a * b, each atom of one with each of the other."""
    if a.known or b.known:
        return scale(b, a.constant) if a.known else scale(a, b.constant)
    out = [constant(a.constant * b.constant)]
    out += [scale(Sum(0, ((atom, 1),)), k * b.constant) for atom, k in a.parts]
    out += [scale(Sum(0, ((atom, 1),)), k * a.constant) for atom, k in b.parts]
    for x, k in a.parts:
        for y, n in b.parts:
            ends = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
            first, second = sorted((x, y), key=lambda atom: atom.order)
            pair = (Sum(0, ((first, 1),)), Sum(0, ((second, 1),)))
            out.append(scale(_atom("mul", pair, min(ends), max(ends)), k * n))
    return add(*out)


def _split(total: Sum, by: int) -> tuple[Sum, Sum]:
    """(q, r) with total = by * q + r, where r has what `by` does not divide, its constant in 0..by-1."""
    divided = tuple((atom, k // by) for atom, k in total.parts if k % by == 0)
    rest = tuple((atom, k) for atom, k in total.parts if k % by)
    quotient, remainder = divmod(total.constant, by)
    if not rest:
        return Sum(quotient, divided), Sum(remainder)
    return Sum(quotient, divided), Sum(remainder, rest)


def floor_div(one: Sum, by: int) -> Sum:
    """one / by rounded down, by > 0.

    >>> x = variable("x", 0, 3)
    >>> print(floor_div(add(scale(x, 8), constant(9)), 4), floor_div(x, 4))
    2*x + 2 0
    """
    q, r = _split(one, by)
    if r.low >= 0 and r.high < by:
        return q
    return add(q, _atom("div", (r,), r.low // by, r.high // by, by))


def floor_mod(one: Sum, by: int) -> Sum:
    """one modulo by, in 0..by-1."""
    _, r = _split(one, by)
    if r.low >= 0 and r.high < by:
        return r
    common = math.gcd(by, r.constant, *(k for _, k in r.parts))
    return _atom("mod", (r,), 0, by - common, by)


def divide(a: Sum, b: Sum) -> Sum | None:
    """a / b as C rounds, towards zero; None where b is, or may be, zero, but by a number not given."""
    if b.known and b.constant and a.known:
        n = abs(a.constant) // abs(b.constant)
        return constant(n if (a.constant < 0) == (b.constant < 0) else -n)
    if b.known and b.constant > 0 and a.low >= 0:
        return floor_div(a, b.constant)
    if b.known and b.constant > 0:
        n = b.constant
        return _atom("cdiv", (a,), -(-a.low // n), max(a.high // n, 0), n)
    if b.low <= 0 <= b.high and (b.known or not sizes(b)):
        return None
    if a.low >= 0 and b.low > 0:
        return _atom("quot", (a, b), a.low // b.high, a.high // b.low)
    most = max(abs(a.low), abs(a.high))
    return _atom("quot", (a, b), -most, most)


def remainder(a: Sum, b: Sum) -> Sum | None:
    """a % b as in C; None as for `divide`."""
    if b.known and b.constant > 0 and a.low >= 0:
        return floor_mod(a, b.constant)
    quotient = divide(a, b)
    return None if quotient is None else minus(a, multiply(quotient, b))


def _trailing(total: Sum) -> int:
    """A power of two that divides every value of it."""
    common = math.gcd(total.constant, *(k for _, k in total.parts))
    return common & -common if common else 1 << 62


def bits(op: str, a: Sum, b: Sum) -> Sum:
    """a & b, a | b, a ^ b in two's complement; a sum where no bit is in both.

    >>> x = variable("x", 0, 7)
    >>> print(bits("and", x, constant(3)), bits("or", scale(x, 8), constant(5)))
    mod(x) 8*x + 5
    """
    if a.known and b.known:
        both = {"and": a.constant & b.constant, "or": a.constant | b.constant, "xor": a.constant ^ b.constant}
        return constant(both[op])
    if a.key == b.key:
        return ZERO if op == "xor" else a
    if a.known or (not b.known and b.key < a.key):
        a, b = b, a
    if b.known and b.constant == 0:
        return ZERO if op == "and" else a
    if op == "and" and b.known and b.constant > 0 and b.constant & (b.constant + 1) == 0:
        return floor_mod(a, b.constant + 1)
    for low, high in ((a, b), (b, a)):
        if low.low >= 0 and low.high < _trailing(high) and not low.fresh and not high.fresh:
            return ZERO if op == "and" else add(a, b)
    least, most = -FREE, FREE
    if a.low >= 0 and b.low >= 0 and max(a.high, b.high) < FREE:
        top = (1 << max(a.high.bit_length(), b.high.bit_length())) - 1
        least, most = 0, min(a.high, b.high) if op == "and" else top
    elif op == "and" and b.known and b.constant >= 0:
        least, most = 0, b.constant
    elif max(abs(a.low), abs(a.high), abs(b.low), abs(b.high)) < FREE:
        top = 1 << max((x if x >= 0 else ~x).bit_length() for x in (a.low, a.high, b.low, b.high))
        least, most = -top, top - 1
    return _atom(op, (a, b), least, most)


def nonnegative(one: Sum) -> Sum:
    """1 where one >= 0, else 0."""
    if one.low >= 0:
        return ONE
    if one.high < 0:
        return ZERO
    return _atom("nonneg", (one,), 0, 1)


def is_zero(one: Sum) -> Sum:
    """1 where one == 0, else 0."""
    if one.known:
        return ONE if one.constant == 0 else ZERO
    if one.low > 0 or one.high < 0:
        return ZERO
    common = math.gcd(*(k for _, k in one.parts))
    if one.constant % common:
        return ZERO
    return _atom("zero", (one,), 0, 1)


def compare(op: str, a: Sum, b: Sum) -> Sum:
    """1 where a op b, else 0."""
    if op in ("==", "!="):
        same = is_zero(minus(a, b))
        return same if op == "==" else negated(same)
    if op in (">", "<="):
        a, b, op = b, a, "<" if op == ">" else ">="
    return nonnegative(add(minus(b, a), constant(-1))) if op == "<" else nonnegative(minus(a, b))


def negated(condition: Sum) -> Sum:
    """1 where a condition, 0 or 1, is 0."""
    if len(condition.parts) == 1 and condition.constant == 0:
        atom, k = condition.parts[0]
        if k == 1 and atom.op == "nonneg":
            return nonnegative(add(scale(atom.args[0], -1), constant(-1)))
    return minus(ONE, condition)


def truth(one: Sum) -> Sum:
    """1 where a number is not zero."""
    return one if one.low >= 0 and one.high <= 1 else negated(is_zero(one))


def both(a: Sum, b: Sum) -> Sum:
    """1 where two conditions are both 1."""
    if a.known or b.known:
        return multiply(a, b)
    return a if a.key == b.key else _atom("and", (a, b) if a.key < b.key else (b, a), 0, 1)


def either(a: Sum, b: Sum) -> Sum:
    """1 where at least one of two conditions is 1."""
    return negated(both(negated(a), negated(b)))


def select(condition: Sum, a: Sum, b: Sum) -> Sum:
    """a where a condition is 1, else b; what both have in common is taken out."""
    if condition.known:
        return a if condition.constant else b
    if a.key == b.key:
        return a
    mine, other = dict(a.parts), dict(b.parts)
    shared = tuple((atom, k) for atom, k in a.parts if other.get(atom) == k)
    rest_a = Sum(a.constant, tuple((atom, k) for atom, k in a.parts if other.get(atom) != k))
    rest_b = Sum(b.constant, tuple((atom, k) for atom, k in b.parts if mine.get(atom) != k))
    low, high = min(rest_a.low, rest_b.low), max(rest_a.high, rest_b.high)
    return add(Sum(0, shared), _atom("select", (condition, rest_a, rest_b), low, high))


def extreme(op: str, a: Sum, b: Sum) -> Sum:
    """The lesser ("min") or greater ("max") of two."""
    low, high = (a, b) if op == "min" else (b, a)
    if low.high <= high.low:
        return a
    if high.high <= low.low:
        return b
    pick = min if op == "min" else max
    return _atom(op, (a, b), pick(a.low, b.low), pick(a.high, b.high))


def held(one: Sum, width: int, signed: bool) -> Sum:
    """A value as a type of `width` bits holds it: itself where it fits."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if low <= one.low and one.high <= high:
        return one
    if one.known:
        low_bits = one.constant & ((1 << width) - 1)
        return constant(low_bits - (1 << width) if low_bits > high else low_bits)
    return _atom("wrap", (one,), low, high, (width, signed))


def table(at: Sum, entries: Any) -> Sum:
    """entries[at], or entries[at, thread] of two axes; an array of integers."""
    flat = entries.reshape(-1)
    low, high = int(flat.min()), int(flat.max())
    if low == high:
        return constant(low)
    if at.known and entries.ndim == 1:
        return constant(int(entries[at.constant]))
    return _atom("table", (at,), low, high, entries, (entries.shape, entries.tobytes()))


def table_of(at: Sum, entries: Sequence[int]) -> Sum:
    """The entry of a list at a number, which is at least 0 and below its length."""
    import numpy as np

    return table(at, np.array(entries, dtype=np.int64))


def atoms_of(*sums: Sum) -> Iterator[Atom]:
    """Every atom in sums, and in their atoms, once."""
    seen: set[int] = set()
    waiting = list(sums)
    while waiting:
        for atom, _ in waiting.pop().parts:
            if atom.order not in seen:
                seen.add(atom.order)
                waiting += atom.args
                yield atom


def widest(*sums: Sum) -> int:
    """The greatest magnitude that a number in sums may reach."""
    return max((max(-one.low, one.high, *(atom.widest for atom, _ in one.parts)) for one in sums), default=0)


def tabled(one: Sum, threads: Mapping[str, Any]) -> Sum:
    """A sum of thread numbers alone as a table of its values, of others itself.

    What is read turn by turn grows a sum around a sum; the table is as exact and stays one atom.
    """
    import numpy as np

    if one.fresh or not one.variables <= {"x", "y", "z", "thread"} or widest(one) >= MOST_VALUE:
        return one
    if all(atom.op in ("var", "table") for atom, _ in one.parts) and len(one.parts) < 3:
        return one
    entries = np.broadcast_to(np.asarray(values(one, threads), dtype=np.int64), threads["thread"].shape)
    return table(ZERO, entries.reshape(1, -1))


def substitute(one: Sum, given: Mapping[str, Sum]) -> Sum:
    """A sum with variables replaced, simplified anew."""
    names = frozenset(given)
    known: dict[int, Sum] = {}

    def of(total: Sum) -> Sum:
        if not names & total.variables:
            return total
        return add(constant(total.constant), *(scale(atom(a), k) for a, k in total.parts))

    def atom(a: Atom) -> Sum:
        if a.order not in known:
            known[a.order] = _replaced(a, of, given) if names & a.variables else Sum(0, ((a, 1),))
        return known[a.order]

    return of(one)


def unwrapped(one: Sum) -> Sum:
    """A sum as if no number left its type.

    >>> print(unwrapped(held(add(variable("x", 0, 255), constant(1)), 8, False)))
    x + 1
    """
    known: dict[int, Sum] = {}

    def of(total: Sum) -> Sum:
        return add(constant(total.constant), *(scale(atom(a), k) for a, k in total.parts))

    def atom(a: Atom) -> Sum:
        if a.order not in known:
            known[a.order] = of(a.args[0]) if a.op == "wrap" else _replaced(a, of, {})
        return known[a.order]

    return of(one)


def _replaced(a: Atom, of: Any, replacing: Mapping[str, Sum]) -> Sum:
    """An atom on replaced operands."""
    if a.op == "var" or (a.op == "open" and a.data in replacing):
        return replacing.get(a.data, Sum(0, ((a, 1),)))
    args = [of(arg) for arg in a.args]
    if a.op == "open":
        return opened(a.data.removeprefix(SIZE), a.low, a.high, args)
    return table(args[0], a.data) if a.op == "table" else _OPERATIONS[a.op][0](a, *args)


def values(one: Sum, env: Mapping[str, Any], known: dict[int, Any] | None = None) -> Any:
    """The values for numbers or NumPy arrays of the variables; "thread" is the number that tables want.

    An open number has a function of its turns.
    """
    import numpy as np

    known = {} if known is None else known

    def of(total: Sum) -> Any:
        out: Any = total.constant
        for a, k in total.parts:
            out = out + k * atom(a)
        return out

    def made(a: Atom) -> Any:
        args = [of(arg) for arg in a.args]
        if a.op in ("var", "open"):
            return env[a.data](*args) if a.op == "open" else env[a.data]
        if a.op != "table":
            return _OPERATIONS[a.op][1](np, a, *args)
        at = np.clip(args[0], 0, len(a.data) - 1)
        return a.data[at, env["thread"]] if a.data.ndim == 2 else a.data[at]

    def atom(a: Atom) -> Any:
        if a.order not in known:
            known[a.order] = made(a)
        return known[a.order]

    return of(one)


def _low_bits(np: Any, a: Atom, x: Any) -> Any:
    """Numbers as a type of (bits, signed) holds them."""
    width, signed = a.data
    if width >= 64:
        return x
    low = x & ((1 << width) - 1)
    return np.where(low >= 1 << (width - 1), low - (1 << width), low) if signed else low


def _quotients(np: Any, a: Atom, x: Any, y: Any = None) -> Any:
    """Quotients towards zero by `y`, or the atom's number without it; 0 where the divisor is 0."""
    y = np.asarray(a.data if y is None else y)
    return np.sign(x) * np.sign(y) * (abs(x) // np.where(y == 0, 1, abs(y)))


_OPERATIONS: Mapping[str, tuple[Callable[..., Sum], Callable[..., Any]]] = MappingProxyType(
    {
        "div": (lambda a, x: floor_div(x, a.data), lambda _, a, x: x // a.data),
        "mod": (lambda a, x: floor_mod(x, a.data), lambda _, a, x: x % a.data),
        "cdiv": (lambda a, x: divide(x, constant(a.data)) or ZERO, _quotients),
        "quot": (lambda a, x, y: divide(x, y) or _atom("quot", (x, y), a.low, a.high), _quotients),
        "mul": (lambda a, x, y: multiply(x, y), lambda _, a, x, y: x * y),
        "and": (lambda a, x, y: bits("and", x, y), lambda _, a, x, y: x & y),
        "or": (lambda a, x, y: bits("or", x, y), lambda _, a, x, y: x | y),
        "xor": (lambda a, x, y: bits("xor", x, y), lambda _, a, x, y: x ^ y),
        "nonneg": (lambda a, x: nonnegative(x), lambda np, a, x: np.asarray(x >= 0).astype(np.int64)),
        "zero": (lambda a, x: is_zero(x), lambda np, a, x: np.asarray(x == 0).astype(np.int64)),
        "select": (lambda a, c, x, y: select(c, x, y), lambda np, a, c, x, y: np.where(c != 0, x, y)),
        "min": (lambda a, x, y: extreme("min", x, y), lambda np, a, x, y: np.minimum(x, y)),
        "max": (lambda a, x, y: extreme("max", x, y), lambda np, a, x, y: np.maximum(x, y)),
        "wrap": (lambda a, x: held(x, *a.data), _low_bits),
    }
)
"""The operation of an atom on sums (atom, operands), and on numbers (NumPy, atom, operands); read only."""
