"""What the variables of a kernel hold while it is read: numbers, addresses, records, and what is not known.

    Number    a sum of an integer type
    Address   bytes behind the start of an array: a pointer, or an address as an integer
    Real      a floating point number, None where it is not known
    Record    the members of a struct
    Cells     the elements of an array in registers, by byte offset
    Unknown   not known, and why; `name` where --set NAME=.. would tell; `carried` where a loop makes it so;
              `array` where it is an address in it

Values never change; a variable is given another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from layoutalg.source.front.parsing import Type
from layoutalg.source.terms import Sum, add, constant, held, minus, select


@dataclass(frozen=True, slots=True)
class Array:
    """Memory with a name: `space` is shared, global, constant or local (registers); `key` tells it apart."""

    name: str
    space: str
    key: int
    type: Type | None = field(default=None, compare=False)


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
    """`offset` bytes behind the start of `array`; `inner` are (index, extent) of the subscripts to it."""

    array: Array
    offset: Sum
    inner: tuple[tuple[Sum, int], ...] = ()


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
class Unknown:
    """Not known: `why` is a clause that follows "not read:"."""

    why: str
    name: str = ""
    carried: bool = False
    array: Array | None = None


Value: TypeAlias = "Number | Address | Real | Record | Cells | Unknown"

REAL = Real()
LOADED = Unknown("it depends on values that are loaded from memory")
UNSET = Unknown("a variable has no value yet")


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


def chosen(condition: Sum | Unknown, a: Value, b: Value) -> Value:
    """a where a condition is 1, else b."""
    if a is b:
        return a
    if isinstance(condition, Sum) and condition.known:
        return a if condition.constant else b
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return b if b.name else a
    if isinstance(a, Real) or isinstance(b, Real):
        return REAL
    same = _same(a, b)
    if same is not None:
        return same
    if isinstance(condition, Unknown):
        return Unknown(f"it is set under a condition that is not known: {condition.why}", condition.name,
                       condition.carried)  # fmt: skip
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(select(condition, a.exact, b.exact), a.bits, a.signed)
    if isinstance(a, Address) and isinstance(b, Address):
        if a.array == b.array:
            return Address(a.array, select(condition, a.offset, b.offset))
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
        if worse is UNSET:
            return b if a is UNSET else a
        return worse
    return Unknown("it is one of two kinds of value, by a condition")


def _same(a: Value, b: Value) -> Value | None:
    if isinstance(a, Number) and isinstance(b, Number) and a.sum.key == b.sum.key:
        return a
    if (
        isinstance(a, Address)
        and isinstance(b, Address)
        and a.array == b.array
        and a.offset.key == b.offset.key
    ):
        return a
    return None


def converted(value: Value, to: Type | None) -> Value:
    """A value as a cast makes it another type's."""
    if to is None or isinstance(value, Unknown):
        return value
    if to.kind == "int":
        if isinstance(value, Number):
            if to.bool:
                from layoutalg.source.terms import truth

                return Number(truth(value.exact), 8, False)
            bits = 8 * to.bytes
            kept = value.exact if bits > value.bits else value.sum
            return Number(kept, bits, to.signed)
        if isinstance(value, Real):
            if value.value is not None and abs(value.value) < 1 << 53:
                return number(int(value.value), to)
            return unknown(value)
        return value
    if to.kind == "float":
        if isinstance(value, Number):
            return Real(float(value.exact.constant)) if value.exact.known else REAL
        return value if isinstance(value, Real) else REAL
    if to.kind == "pointer" and isinstance(value, Number):
        if value.exact.known and value.exact.constant == 0:
            return value
        return Unknown("a pointer is made of a number")
    return value


def moved(address: Address, by: Sum) -> Address:
    """An address some bytes on."""
    return Address(address.array, add(address.offset, by), address.inner)


def apart(a: Address, b: Address) -> Sum | None:
    """Bytes from b to a; None in two arrays."""
    return minus(a.offset, b.offset) if a.array == b.array else None


def blank(given: Type | None) -> Value:
    """What a variable of a type holds before it is set."""
    if given is None:
        return UNSET
    if given.kind == "float":
        return REAL
    if given.kind == "array":
        return blank(given.to) if _only_real(given) else Cells({}, UNSET)
    if given.kind == "record":
        return REAL if _only_real(given) else Record({name: blank(t) for name, _, t in given.fields})
    return UNSET


def _only_real(given: Type) -> bool:
    """Whether nothing but floating point numbers is in it."""
    if given.kind == "array" and given.to is not None:
        return _only_real(given.to)
    if given.kind == "record":
        return bool(given.fields) and all(_only_real(t) for _, _, t in given.fields)
    return given.kind == "float"
