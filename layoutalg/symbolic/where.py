"""The values that a symbol may have: an interval and a residue, as `--where` states them.

    ld in 32..4096, ld % 8 == 0        ld >= 32, ld < 4097        n in 1..64

>>> values = parse_where("ld in 32..4096, ld % 8 == 4", ["ld"])["ld"]
>>> print(values), values.least, values.most
ld in [36,4092], ld % 8 == 4
(None, 36, 4092)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UnknownNameError, shown
from layoutalg.limits import Most

MOST = (1 << 31) - 1
"""The greatest value of a symbol of which nothing is said: that of C's int."""

_CLAUSE = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*"
    r"(?:in\s+(?P<first>\d+)\s*\.\.\s*(?P<last>\d+)"
    r"|%\s*(?P<modulus>\d+)\s*==\s*(?P<residue>\d+)"
    r"|(?P<sign><=|>=|==|<|>)\s*(?P<bound>\d+))\s*\Z",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Values:
    """The integers from `first` to `last` that are `residue` modulo `modulus`; raises ShapeError for none."""

    name: str
    first: int = 0
    last: int = MOST
    modulus: int = 1
    residue: int = 0

    def __post_init__(self) -> None:
        if self.first < 0 or self.modulus < 1 or not 0 <= self.residue < self.modulus:
            raise ShapeError(f"{self.name}: {self._stated} is no set of integers from 0 on")
        if self.least > self.last:
            raise ShapeError(f"{self.name} has no value: {self._stated}")

    @property
    def least(self) -> int:
        """The least value."""
        return self.first + (self.residue - self.first) % self.modulus

    @property
    def most(self) -> int:
        """The greatest value."""
        return self.last - (self.last - self.residue) % self.modulus

    def __len__(self) -> int:
        return (self.most - self.least) // self.modulus + 1

    def __contains__(self, value: int) -> bool:
        return self.first <= value <= self.last and value % self.modulus == self.residue

    def range(self) -> range:
        """The values, ascending."""
        return range(self.least, self.most + 1, self.modulus)

    @property
    def _stated(self) -> str:
        residue = f", {self.name} % {self.modulus} == {self.residue}" if self.modulus > 1 else ""
        return f"{self.name} in [{self.first},{self.last}]{residue}"

    def __str__(self) -> str:
        return replace(self, first=self.least, last=self.most)._stated


def parse_where(text: str, names: Iterable[str], least: Mapping[str, int] | None = None) -> dict[str, Values]:
    """The values of each of `names` by clauses that commas separate; from `least` to MOST by default.

    A clause is `NAME in FIRST..LAST`, both included, `NAME % MODULUS == RESIDUE`, or a comparison with a
    number.  Raises ParseError, UnknownNameError for another name, ShapeError where no value is left.

    >>> print(*parse_where("n < 9, n % 2 == 0, n % 3 == 1", ["n", "m"]).values(), sep="; ")
    n in [4,4], n % 6 == 4; m in [0,2147483647]
    """
    Most.LINE.guard(len(text), "length of the text in characters")
    found = {name: Values(name, (least or {}).get(name, 0)) for name in names}
    position = 0
    for clause in text.split(",") if text.strip() else ():
        read = _CLAUSE.match(clause)
        if read is None:
            why = f"{clause.strip()!r} is read as 'ld in 32..4096', 'ld % 8 == 0' or 'ld >= 32'"
            raise ParseError(f"where: {why}", text=text, position=position)
        position += len(clause) + 1
        name = read["name"]
        if name not in found:
            raise UnknownNameError("symbol", name, tuple(found))
        found[name] = _narrowed(found[name], read)
    return found


def _narrowed(values: Values, read: re.Match[str]) -> Values:
    """The values that a clause leaves."""
    if read["first"]:
        first, last = _number(read["first"]), _number(read["last"])
        return replace(values, first=max(values.first, first), last=min(values.last, last))
    if read["modulus"]:
        return _both(values, _number(read["modulus"]), _number(read["residue"]))
    bound, sign = _number(read["bound"]), read["sign"]
    first = bound + (sign == ">") if sign in (">", ">=", "==") else 0
    last = bound - (sign == "<") if sign in ("<", "<=", "==") else MOST
    return replace(values, first=max(values.first, first), last=min(values.last, last))


def _number(text: str) -> int:
    Most.MAGNITUDE.guard(int(text), "magnitude of a bound")
    return int(text)


def _both(values: Values, modulus: int, residue: int) -> Values:
    """The values that are also `residue` modulo `modulus`: the Chinese remainder theorem."""
    if not 0 <= residue < modulus:
        raise ShapeError(f"{values.name} % {modulus} == {residue} holds for no integer")
    shared = math.gcd(values.modulus, modulus)
    if (residue - values.residue) % shared:
        raise ShapeError(f"{values.name} has no value: {values}, {values.name} % {modulus} == {residue}")
    step = (residue - values.residue) // shared * pow(values.modulus // shared, -1, modulus // shared)
    whole = math.lcm(values.modulus, modulus)
    return replace(
        values,
        modulus=whole,
        residue=(values.residue + values.modulus * (step % (modulus // shared))) % whole,
    )


def values_of(
    where: str | Mapping[str, Values | tuple[int, int]] | None,
    names: Iterable[str],
    least: Mapping[str, int] | None = None,
) -> dict[str, Values]:
    """The values of each of `names`: from a text, or a mapping to Values or (first, last).

    Raises as `parse_where`, and ArgumentTypeError for another mapping.

    >>> print(values_of({"n": (1, 64)}, ["n"])["n"])
    n in [1,64]
    """
    if where is None or isinstance(where, str):
        return parse_where(where or "", names, least)
    found = parse_where("", names, least)
    for name, given in where.items():
        if name not in found:
            raise UnknownNameError("symbol", str(name), tuple(found))
        if isinstance(given, tuple) and len(given) == 2 and all(type(n) is int for n in given):
            given = Values(name, *given)
        if not isinstance(given, Values):
            raise ArgumentTypeError(f"where {name}: {shown(given)}; Values or (first, last) are needed")
        found[name] = replace(given, name=name)
    return found
