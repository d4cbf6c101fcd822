"""The values of a kernel's variables while it is read: numbers, addresses, records, and what is not known.

    Number    a sum of an integer type
    Address   bytes behind the start of an array: a pointer, or an address as an integer
    Real      a floating point number, None where it is not known
    Record    the members of a struct
    Cells     the elements of an array in registers, by byte offset
    Closure   a lambda, with the variables that it copied
    Unknown   not known, and why; `name` where --set NAME=.. would tell; `carried` where a loop makes it so;
              `array` where it is an address in it; `data` where loaded values decide it

Values never change; a variable is given another one.  A pointer reaches any byte of a variable, as any
type (`read`, `written`): where the type that is wanted is the one that was stored, at the same byte, the
value is known; everywhere else (a part of a number, a member of a union, a bit-field by its address) it is
not.

>>> int_, short = Type("int", "int", 4, 4, True), Type("int", "short", 2, 2, True)
>>> pair = Type("array", "int[2]", 8, 4, extent=2, to=int_)
>>> values = written(blank(pair), pair, 4, int_, number(7))
>>> read(values, pair, 4, int_).sum.constant, read(values, pair, 4, short) is PUNNED
(7, True)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from layoutalg.source.front import Type
from layoutalg.source.terms import (
    MOST_VALUE,
    ONE,
    ZERO,
    Sum,
    add,
    both,
    constant,
    either,
    held,
    minus,
    negated,
    select,
    truth,
    widest,
)
from layoutalg.source.terms import values as values_of


@dataclass(frozen=True, slots=True)
class Array:
    """Memory with a name: `space` is shared, global, constant or local (registers); `key` tells it apart.

    Of a `loaded` one the address is in memory, and an offset is the address itself, which may be null.
    `part` is the member, or the pointer, by which an address in it was first named.
    """

    name: str
    space: str
    key: int
    type: Type | None = field(default=None, compare=False)
    loaded: bool = False
    part: str = field(default="", compare=False)

    def joined(self, other: Array) -> Array:
        """The array, with the part that two addresses in it have."""
        return self if self.part == other.part else replace(self, part="")


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """An integer of `bits` bits; the sum is congruent to it, and is it once held."""

    sum: Sum
    bits: int = 32
    signed: bool = True

    @property
    def exact(self) -> Sum:
        """The value as its type holds it."""
        return held(self.sum, self.bits, self.signed)


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """`offset` bytes behind the start of `array`; `inner` are (index, extent) of the subscripts to it.

    `base` is the offset of the pointer that was subscripted last.
    """

    array: Array
    offset: Sum
    inner: tuple[tuple[Sum, int], ...] = ()
    base: Sum = ZERO


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """A part of an address: a sum, and a multiple of `step` that depends on where the array starts."""

    sum: Sum
    step: int


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A floating point number."""

    value: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The members of a struct."""

    members: Mapping[str, Value]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Elements in registers by byte offset; `rest` is what the others hold."""

    elements: Mapping[int, Value]
    rest: Value


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A lambda: what the variables held that it copied when it was made."""

    copies: Mapping[int, Value]


@dataclass(frozen=True, slots=True)
class Code:
    """The address of a function: its number."""

    function: int


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """A value of a library that is evaluated and not followed; see layoutalg.source.cute."""

    content: Any


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """Not known: `why` is a clause that follows "not read:".

    Of a condition that is asked in each lane, `asked` is its name: it holds where `least` does, and nowhere
    but where `most` does.  `data` is the place of a load whose values decide it.
    """

    why: str
    name: str = ""
    carried: bool = False
    array: Array | None = None
    asked: str = ""
    least: Sum = ZERO
    most: Sum = ONE
    data: str = ""


Value: TypeAlias = "Number | Address | Quotient | Real | Record | Cells | Closure | Code | Object | Unknown"

Condition: TypeAlias = "Sum | Unknown"
"""0 or 1 in each lane, or not known."""

REAL = Real()
LOADED = Unknown("it depends on values that are loaded from memory")
UNSET = Unknown("a variable has no value yet")


def is_loaded(why: Unknown) -> bool:
    """True where a value, or an address as a whole, comes from memory."""
    return why.why == LOADED.why and why.array is None


def not_given(name: str) -> Unknown:
    """A number that --set would give."""
    return Unknown(f"{name} is not known: --set {name}=VALUE", name)


def number(value: int, given: Type | None = None) -> Number:
    """A constant of a type, int where none is given."""
    if given is None or given.kind != "int":
        return Number(constant(value))
    return Number(constant(value), 8 * given.bytes, given.signed)


def unknown(value: Value) -> Unknown:
    """Why a value is not a number that an index can be made of."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Real):
        return Unknown("it depends on a floating point number that is not known")
    return Unknown("it depends on a value that is no number")


def conjunction(a: Condition, b: Condition) -> Condition:
    """Both conditions."""
    return both(a, b) if isinstance(a, Sum) and isinstance(b, Sum) else _joined(both, a, b)


def inverse(a: Condition) -> Condition:
    """The opposite of a condition."""
    if isinstance(a, Unknown):
        return replace(a, least=negated(a.most), most=negated(a.least))
    return negated(a)


def disjunction(a: Condition, b: Condition) -> Condition:
    """At least one of two conditions."""
    return either(a, b) if isinstance(a, Sum) and isinstance(b, Sum) else _joined(either, a, b)


def _joined(join: Callable[[Sum, Sum], Sum], a: Condition, b: Condition) -> Condition:
    """Two conditions joined, one of which is not known at least: between what both are joined to."""
    least, most = (
        join(*(each if isinstance(each, Sum) else getattr(each, bound) for each in (a, b)))
        for bound in ("least", "most")
    )
    if least.key == most.key:
        return least
    wider = min((each for each in (a, b) if isinstance(each, Unknown)), key=lambda each: each.asked != "")
    return replace(wider, least=least, most=most)


def chosen(condition: Condition, a: Value, b: Value) -> Value:
    """a where a condition is 1, else b."""
    if a is b:
        return a
    if isinstance(condition, Sum) and condition.known:
        return a if condition.constant else b
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return b if b.name or is_loaded(a) or a is UNSET else a
    if isinstance(a, Real) or isinstance(b, Real):
        return REAL
    same = a if isinstance(a, Code) and a == b else _same(a, b)
    if same is not None:
        return same
    if isinstance(condition, Unknown):
        return Unknown(f"it is set under a condition that is not known: {condition.why}", condition.name,
                       condition.carried, data=condition.data)  # fmt: skip
    if isinstance(a, Number) and isinstance(b, Number):
        x, y = (a.sum, b.sum) if a.bits == b.bits else (a.exact, b.exact)  # congruent is enough
        return Number(select(condition, x, y), a.bits, a.signed)
    if isinstance(a, Address) and isinstance(b, Address):
        if a.array == b.array:
            return Address(a.array.joined(b.array), select(condition, a.offset, b.offset))
        return Unknown(f"an address is in {a.array.name} or in {b.array.name}, by a condition")
    if isinstance(a, Record) and isinstance(b, Record):
        return Record({k: chosen(condition, v, b.members.get(k, UNSET)) for k, v in a.members.items()})
    if isinstance(a, Cells) and isinstance(b, Cells):
        keys = {*a.elements, *b.elements}
        merged = {
            k: chosen(condition, a.elements.get(k, a.rest), b.elements.get(k, b.rest)) for k in sorted(keys)
        }
        return Cells(merged, chosen(condition, a.rest, b.rest))
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        worse = a if isinstance(a, Unknown) else b
        other = b if worse is a else a
        if worse is UNSET:
            return other
        if isinstance(other, Address) and other.array.space == "local":
            return Unknown(f"an address is in {other.array.name} or is not known, by a condition")
        return worse
    return Unknown("it is one of two kinds of value, by a condition")


def _same(a: Value, b: Value) -> Value | None:
    if isinstance(a, Number) and isinstance(b, Number) and a.sum.key == b.sum.key:
        return a
    if isinstance(a, Address) and isinstance(b, Address) and a.array == b.array:
        return a if a.offset.key == b.offset.key else None
    return None


def converted(value: Value, to: Type | None) -> Value:
    """A value as a cast makes it another type's."""
    if to is None or isinstance(value, Unknown):
        return value
    if to.kind == "int":
        if isinstance(value, Number):
            if to.bool:
                return Number(truth(value.exact), 8, False)
            bits = 8 * to.bytes
            total = value.exact if bits > value.bits else value.sum
            return Number(total, bits, to.signed)
        if isinstance(value, Real):
            return _from_real(value, to)
        if isinstance(value, Address) and to.bool:
            return Number(present(value), 8, False)
        if isinstance(value, Address) and to.bytes < 4:
            return Unknown(f"a part of an address of {value.array.name}")
        return value
    if to.kind == "float":
        if isinstance(value, Number):
            exact = value.exact
            return Real(_rounded(float(exact.constant), to.bytes)) if exact.known else REAL
        if isinstance(value, Real) and value.value is not None:
            return Real(_rounded(value.value, to.bytes))
        return REAL
    if to.kind == "pointer" and isinstance(value, Number):
        if value.exact.known and value.exact.constant == 0:
            return value
        return Unknown("a pointer is made of a number")
    return value


def _from_real(value: Real, to: Type) -> Value:
    """A floating point number as an integer: towards zero, where the type holds it."""
    if value.value is None or not math.isfinite(value.value):
        return unknown(value)
    if to.bool:
        return number(int(value.value != 0), to)
    truncated = int(value.value)
    if held(constant(truncated), 8 * to.bytes, to.signed).constant != truncated:
        return Unknown("a floating point number is past the integer type that it becomes")
    return number(truncated, to)


def _rounded(value: float, width: int) -> float | None:
    """A number as a type of `width` bytes holds it; None where that is not known."""
    if width == 8 or not math.isfinite(value):
        return value
    if width == 4:
        try:
            return float(struct.unpack("f", struct.pack("f", value))[0])
        except OverflowError:
            return None
    return value if value == int(value) and abs(value) <= 256 else None  # exact in every 2-byte type


def moved(address: Address, by: Sum) -> Address:
    """An address some bytes on."""
    return Address(address.array, add(address.offset, by), address.inner, address.base)


def warp_uniform(one: Sum, threads: Mapping[str, Any]) -> bool:
    """Whether a sum is alike in all lanes of each warp, as far as that is seen of its parts.

    >>> import numpy as np
    >>> from layoutalg.source.terms import floor_div, size, variable
    >>> x, n = variable("x", 0, 63), size("n", 0, 9)
    >>> block = {"x": np.arange(64), "y": np.zeros(64), "z": np.zeros(64), "thread": np.arange(64)}
    >>> warp_uniform(add(floor_div(x, 32), n), block), warp_uniform(add(x, n), block)
    (True, False)
    """
    import numpy as np

    lanes = frozenset(("x", "y", "z", "thread"))
    mixed = [atom for atom, _ in one.parts if atom.variables & lanes and not atom.variables <= lanes]
    alone = Sum(0, tuple((atom, k) for atom, k in one.parts if atom.variables and atom.variables <= lanes))
    if alone.parts and widest(alone) >= MOST_VALUE:
        return False
    if alone.parts:
        found = np.broadcast_to(np.asarray(values_of(alone, threads)), threads["thread"].shape)
        warps = np.pad(found, (0, -len(found) % 32), mode="edge").reshape(-1, 32)
        if (warps != warps[:, :1]).any():
            return False
    return all(warp_uniform(arg, threads) for atom in mixed for arg in atom.args) and all(
        atom.op != "table" or atom.data.ndim == 1 for atom in mixed
    )


def present(address: Address) -> Sum:
    """1 where an address is not null, else 0."""
    return truth(address.offset) if address.array.loaded else ONE


def apart(a: Address, b: Address) -> Sum | None:
    """Bytes from b to a; None in two arrays."""
    return minus(a.offset, b.offset) if a.array == b.array else None


def blank(given: Type | None) -> Value:
    """The value of a variable of a type before it is set."""
    return lost(given, UNSET)


MOST_ELEMENTS = 64
"""The elements of an array in a parameter that have a value each."""


def elements(kind: Type, of: Callable[[int, Type], Value]) -> Cells | None:
    """An array of numbers or pointers, each of them made; None for another type."""
    part = kind.to if kind.kind == "array" and kind.extent <= MOST_ELEMENTS else None
    if part is None or part.kind not in ("int", "float", "pointer"):
        return None
    return Cells({i * part.bytes: of(i, part) for i in range(kind.extent)}, UNSET)


def only_real(given: Type) -> bool:
    """Whether a type has floating point numbers alone."""
    if given.kind == "array" and given.to is not None:
        return only_real(given.to)
    if given.kind == "record":
        return bool(given.fields) and all(only_real(t) for _, _, t in given.fields)
    return given.kind == "float"


# --- variables by their bytes ---------------------------------------------------------------------------

PUNNED = Unknown("bytes of a variable are read or set as another type")


def same_kind(a: Type, b: Type) -> bool:
    """Whether two types hold a value alike, up to the sign."""
    return a.kind == b.kind and a.kind in ("int", "float", "pointer") and a.bytes == b.bytes


def lost(kind: Type | None, why: Unknown) -> Value:
    """The value of a variable about which nothing is known; floating point numbers are never known."""
    if kind is None:
        return why
    if only_real(kind):
        return REAL
    if kind.kind == "array":
        return Cells({}, why)
    if kind.kind == "record" and (kind.fields or why is UNSET):
        return Record({name: lost(t, why) for name, _, t in kind.fields})
    return why


def leaf(kind: Type, offset: int) -> tuple[Type, int] | None:
    """The scalar around a byte and where it starts; None in unions, bit-fields and the gaps."""
    if kind.kind == "array" and kind.to is not None and kind.to.bytes:
        size = kind.to.bytes
        inner = leaf(kind.to, offset % size)
        return None if inner is None else (inner[0], offset // size * size + inner[1])
    if kind.kind == "record":
        if kind.union:
            return None
        for name, at, t in kind.fields:
            if 0 <= at <= offset < at + t.bytes and name not in kind.narrow:
                inner = leaf(t, offset - at)
                return None if inner is None else (inner[0], at + inner[1])
        return None
    return (kind, 0) if offset < kind.bytes else None


def read(value: Value, kind: Type, offset: int, wanted: Type | None) -> Value:
    """The value at a byte of a value of type `kind`, as the type that is wanted."""
    if isinstance(value, Unknown) or wanted is None:
        return value if isinstance(value, Unknown) else PUNNED
    if isinstance(value, Real) and kind.kind != "float":
        return REAL if only_real(wanted) else PUNNED
    if offset == 0 and _alike(kind, wanted):
        return converted(value, wanted) if kind.kind in ("int", "float", "pointer") else value
    if isinstance(value, Record):
        for name, at, t in kind.fields:
            if not kind.union and name not in kind.narrow and 0 <= at <= offset < at + t.bytes:
                return read(value.members.get(name, UNSET), t, offset - at, wanted)
        return PUNNED
    if isinstance(value, Cells):
        if wanted.kind == "record" and not wanted.union and not wanted.narrow:
            return Record({name: read(value, kind, offset + at, t) for name, at, t in wanted.fields})
        own = leaf(kind, offset)
        if own is not None and own[1] == offset and same_kind(own[0], wanted):
            return converted(value.elements.get(offset, value.rest), wanted)
    return PUNNED


def written(value: Value, kind: Type, offset: int, wanted: Type | None, new: Value) -> Value:
    """A value of type `kind` after a store of `new`, of the type that is wanted, at a byte."""
    if wanted is None:
        return lost(kind, PUNNED)
    if kind.kind not in ("array", "record"):
        return converted(new, kind) if offset == 0 and same_kind(kind, wanted) else PUNNED
    if offset == 0 and _alike(kind, wanted):
        return new
    if only_real(kind):
        return REAL
    if isinstance(value, Unknown):
        value = lost(kind, value)
    if isinstance(value, Record):
        for name, at, t in kind.fields:
            inside = 0 <= at <= offset and offset + wanted.bytes <= at + t.bytes
            if not kind.union and name not in kind.narrow and inside:
                part = written(value.members.get(name, UNSET), t, offset - at, wanted, new)
                return Record({**value.members, name: part})
        return lost(kind, PUNNED)
    if not isinstance(value, Cells):
        return lost(kind, PUNNED)
    elements = dict(value.elements)
    parts = _leaves(wanted, new, offset)
    for at, t, part in parts or ():
        own = leaf(kind, at)
        if own is None or own[1] != at or not same_kind(own[0], t):
            return lost(kind, PUNNED)
        elements[at] = converted(part, own[0])
    return lost(kind, PUNNED) if parts is None else Cells(elements, value.rest)


def _alike(a: Type, b: Type) -> bool:
    """Whether two types are the same, or scalars that hold a value alike."""
    return same_kind(a, b) or a.name.removeprefix("const ") == b.name.removeprefix("const ")


def _leaves(kind: Type, value: Value, offset: int) -> list[tuple[int, Type, Value]] | None:
    """The scalars of a value, each with its byte and type; None where it has a union or a bit-field."""
    if kind.kind == "record":
        if kind.union or kind.narrow or not kind.fields:
            return None
        members = value.members if isinstance(value, Record) else {name: value for name, _, _ in kind.fields}
        parts = [(at, t, members.get(name, UNSET)) for name, at, t in kind.fields]
    elif kind.kind == "array" and kind.to is not None:
        starts = [n * kind.to.bytes for n in range(kind.extent)]
        whole = not isinstance(value, Cells)
        parts = [(at, kind.to, value if whole else read(value, kind, at, kind.to)) for at in starts]
    else:
        return [(offset, kind, value)]
    scalars = list[tuple[int, Type, Value]]()
    for at, t, part in parts:
        inner = _leaves(t, part, offset + at)
        if inner is None:
            return None
        scalars += inner
    return scalars


def fitted(value: Value, width: int | None) -> Value:
    """A number as a bit-field of `width` bits holds it; None stands for a member that is not a bit-field."""
    if width is None or not isinstance(value, Number):
        return value
    return Number(held(value.sum, width, value.signed), value.bits, value.signed)


def arrays_in(value: Value, spaces: Collection[str] = ("local",)) -> set[int]:
    """The variables, or the arrays in other memory spaces, whose addresses are in a value."""
    if isinstance(value, Address):
        return {value.array.key} if value.array.space in spaces else set()
    parts: list[Value] = []
    if isinstance(value, Record):
        parts = list(value.members.values())
    elif isinstance(value, Cells):
        parts = [*value.elements.values(), value.rest]
    elif isinstance(value, Closure):
        parts = list(value.copies.values())
    return set().union(*(arrays_in(part, spaces) for part in parts)) if parts else set()
