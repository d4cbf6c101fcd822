"""Functions of one integer symbol that repeat: their values, the set where they hold, and both as text.

The idea.  What an access costs depends on a leading dimension only through its residue modulo some period,
except for finitely many small values at which rows run into each other.  So an answer in a symbol is a table
over the residues and a list of exceptions, and it is exact:

    wavefronts of a column of f32 (32,ld):(ld,1), ld >= 0

    ld mod 32     0   1   2   3   4  ...  16  ...          but ld = 0: 1 (every lane reads one word)
    wavefronts   32   1   2   1   4  ...  16  ...

A table is reduced to its shortest period, where a set has a short name: "ld odd" instead of sixteen residues
modulo 32.

>>> from sympy import Symbol
>>> table = Periodic(Symbol("ld"), (32, 1, 2, 1), ((0, 1),))
>>> print(table.where(lambda wavefronts: wavefronts == 1))
ld odd, or ld = 0
>>> table.piecewise()
Piecewise((1, Eq(ld, 0)), (1, Eq(Mod(ld, 2), 1)), (2, Eq(Mod(ld, 4), 2)), (32, Eq(Mod(ld, 4), 0)))
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from layoutalg.errors import ArgumentTypeError, ShapeError

if TYPE_CHECKING:
    import sympy

T = TypeVar("T")


@dataclass(frozen=True)
class Periodic(Generic[T]):
    """A function of the integers from `least` on: `values[n % len(values)]`, except for `exceptions`.

    `exceptions` holds (n, value).  Equal functions are equal: the period is reduced to the shortest, and an
    exception that agrees with its residue is dropped.

    >>> from sympy import Symbol
    >>> Periodic(Symbol("n"), (5, 7, 5, 7)).values
    (5, 7)
    """

    symbol: sympy.Symbol
    values: tuple[T, ...]
    exceptions: tuple[tuple[int, T], ...] = ()
    least: int = 0

    def __post_init__(self) -> None:
        values, count = self.values, len(self.values)
        periods = (n for n in range(1, count) if count % n == 0)
        values = values[: next((n for n in periods if values == values[:n] * (count // n)), count)]
        exceptions = {n: v for n, v in self.exceptions if n >= self.least and v != values[n % len(values)]}
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "exceptions", tuple(sorted(exceptions.items())))

    def at(self, value: int) -> T:
        """The value of the function; raises ShapeError below `least`, for which it is not known.

        Raises ArgumentTypeError for what is not an integer.

        >>> from sympy import Symbol
        >>> Periodic(Symbol("n"), (5, 7), ((3, 0),)).at(3)
        0
        """
        if type(value) is not int:
            raise ArgumentTypeError(f"{self.symbol} = {value!r}: an integer is needed")
        if value < self.least:
            raise ShapeError(f"{self.symbol} = {value}: the answer is for {self.symbol} >= {self.least}")
        index = bisect_left(self.exceptions, value, key=lambda pair: pair[0])
        if index < len(self.exceptions) and self.exceptions[index][0] == value:
            return self.exceptions[index][1]
        return self.values[value % len(self.values)]

    def where(self, holds: Callable[[T], bool]) -> ResidueSet:
        """The set of values at which `holds` is true of the function.

        >>> from sympy import Symbol
        >>> print(Periodic(Symbol("n"), (5, 7, 9, 7)).where(lambda v: v == 9))
        n mod 4 = 2
        """
        members = tuple((n, holds(v)) for n, v in self.exceptions)
        return ResidueSet(Periodic(self.symbol, tuple(map(holds, self.values)), members, self.least))

    def piecewise(self) -> sympy.Piecewise:
        """The function as a sympy Piecewise over residue classes, exceptions first.

        None, the value where there is none, becomes sympy's nan.

        >>> from sympy import Symbol
        >>> Periodic(Symbol("n"), (None, 7)).piecewise()
        Piecewise((7, Eq(Mod(n, 2), 1)), (nan, Eq(Mod(n, 2), 0)))
        """
        import sympy

        def spoken(value: T) -> Any:
            return sympy.nan if value is None else sympy.sympify(value)

        parts: list[tuple[Any, Any]] = []
        for rare in sorted({v for _, v in self.exceptions}, key=repr):
            at = [n for n, v in self.exceptions if v == rare]
            parts.append((spoken(rare), _among(sympy.Integer(0) + self.symbol, at)))
        general = Periodic(self.symbol, self.values, (), self.least)
        for rare in dict.fromkeys((*self.values[1:], self.values[0])):
            members = general.where(lambda v, rare=rare: v == rare)  # type: ignore[misc]
            parts.append((spoken(rare), members.condition()))
        return sympy.Piecewise(*parts, evaluate=False)


@dataclass(frozen=True)
class ResidueSet:
    """A set of integers: residues modulo `modulus`, and finitely many exceptions.

    `table` says which integers from its own `least` on are members.  The question was about those from
    `first` on, by default as many; integers in between are not members.  Equal sets are equal: the table
    begins at the smallest member.  Prints as one line, and as LaTeX through `sympy.latex`.

    >>> from sympy import Symbol, latex
    >>> found = ResidueSet(Periodic(Symbol("ld"), (False, True, False, True)))
    >>> print(found, found.holds(33), found.values(8, 16), latex(found))
    ld odd True (9, 11, 13, 15) ld \\bmod 2 = 1
    >>> print(ResidueSet(Periodic(Symbol("ld"), (False, True), (), 33), 0))
    ld odd from ld = 33 on
    """

    table: Periodic[bool]
    first: int | None = None

    def __post_init__(self) -> None:
        table = self.table
        first = table.least if self.first is None else self.first
        start = _smallest(table)
        values = table.values if start is not None else (False,)
        exceptions = table.exceptions if start is not None else ()
        least = first if start is None else start
        object.__setattr__(self, "table", Periodic(table.symbol, values, exceptions, least))
        object.__setattr__(self, "first", first)

    @property
    def symbol(self) -> sympy.Symbol:
        """The symbol whose values the set holds."""
        return self.table.symbol

    @property
    def modulus(self) -> int:
        """The shortest period."""
        return len(self.table.values)

    @property
    def smallest(self) -> int | None:
        """The smallest member, None of the empty set."""
        return self.table.least if any(self.table.values) or self.table.exceptions else None

    @property
    def residues(self) -> tuple[int, ...]:
        """The residues modulo `modulus` that are in the set, exceptions aside."""
        return tuple(r for r, member in enumerate(self.table.values) if member)

    @property
    def also(self) -> tuple[int, ...]:
        """Members whose residue is not among `residues`."""
        return tuple(n for n, member in self.table.exceptions if member)

    @property
    def but(self) -> tuple[int, ...]:
        """Values from `smallest` on that are not members although their residue is among `residues`."""
        return tuple(n for n, member in self.table.exceptions if not member)

    @property
    def begins(self) -> bool:
        """Whether values below `smallest` are not members although their residue is among `residues`."""
        first, least = self.first or 0, self.table.least
        return any(first + (r - first) % self.modulus < least for r in self.residues)

    def holds(self, value: int) -> bool:
        """True for a member; raises ShapeError below `first`, ArgumentTypeError for a non-integer."""
        first = self.first or 0
        if type(value) is int and first <= value < self.table.least:
            return False
        return Periodic(self.symbol, self.table.values, self.table.exceptions, first).at(value)

    def values(self, low: int, high: int) -> tuple[int, ...]:
        """The members in range(low, high), ascending."""
        return tuple(n for n in range(max(low, self.table.least), high) if self.table.at(n))

    def __and__(self, other: ResidueSet) -> ResidueSet:
        """The values that are in both sets, from the larger `least` on.

        Raises ArgumentTypeError for sets of values of different symbols.

        >>> from sympy import Symbol
        >>> n = Symbol("n")
        >>> even, third = (ResidueSet(Periodic(n, table)) for table in ((True, False), (False, True, False)))
        >>> print(even & third)
        n mod 6 = 4
        """
        if self.symbol != other.symbol:
            raise ArgumentTypeError(f"values of {self.symbol} and of {other.symbol} are not compared")
        tables, first = (self.table, other.table), max(self.first or 0, other.first or 0)
        least, period = max(t.least for t in tables), lcm(self.modulus, other.modulus)
        values = tuple(all(t.values[r % len(t.values)] for t in tables) for r in range(period))
        apart = sorted({n for t in tables for n, _ in t.exceptions if n >= least})
        exceptions = tuple((n, all(t.at(n) for t in tables)) for n in apart)
        return ResidueSet(Periodic(self.symbol, values, exceptions, least), first)

    def condition(self) -> sympy.Basic:
        """The set as a sympy condition on its symbol.

        >>> from sympy import Symbol
        >>> ResidueSet(Periodic(Symbol("n"), (False, True, True, False), ((0, True),))).condition()
        Eq(n, 0) | Contains(Mod(n, 4), {1, 2})
        """
        import sympy

        residue = sympy.Mod(self.symbol, self.modulus, evaluate=False)
        if len(self.residues) == self.modulus:
            general: Any = sympy.true
        else:
            general = _among(residue, self.residues) if self.residues else sympy.false
        if self.begins:
            general = sympy.And(
                general, sympy.Ge(self.symbol, self.table.least, evaluate=False), evaluate=False
            )
        for n in self.but:
            general = sympy.And(general, sympy.Ne(self.symbol, n, evaluate=False), evaluate=False)
        if not self.also:
            return general
        return sympy.Or(_among(self.symbol, self.also), general, evaluate=bool(general == sympy.false))

    def __str__(self) -> str:
        name, parts = str(self.symbol), []
        if len(self.residues) == self.modulus:
            parts.append(f"every {name}")
        elif self.modulus == 2:
            parts.append(f"{name} {'odd' if self.residues == (1,) else 'even'}")
        elif self.residues:
            parts.append(f"{name} mod {self.modulus} {_is_among(self.residues)}")
        if self.begins:
            parts[-1] += f" from {name} = {self.table.least} on"
        if self.also:
            parts.append(f"or {name} {_is_among(self.also)}" if parts else f"{name} {_is_among(self.also)}")
        if self.but:
            parts.append(f"but not {name} {_is_among(self.but)}")
        return ", ".join(parts) or f"no {name}"

    def _latex(self, printer: Any) -> str:
        """The text that `sympy.latex` prints."""
        text: str = printer.doprint(self.condition())
        return text


def _smallest(table: Periodic[bool]) -> int | None:
    """The smallest integer from the table's least on at which it is True."""
    among = [n for n, member in table.exceptions if member]
    period, left_out = len(table.values), {n for n, member in table.exceptions if not member}
    for residue, member in enumerate(table.values):
        if member:
            value = table.least + (residue - table.least) % period
            while value in left_out:
                value += period
            among.append(value)
    return min(among, default=None)


def _is_among(numbers: tuple[int, ...]) -> str:
    """`= 3`, or `in {1, 3, 8..13}`."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    parts = [f"{run[0]}..{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"= {numbers[0]}" if len(numbers) == 1 else f"in {{{', '.join(parts)}}}"


def _among(what: Any, numbers: Any) -> Any:
    """The condition that `what` is one of `numbers`, not evaluated."""
    import sympy

    members = [sympy.Integer(n) for n in numbers]
    if len(members) == 1:
        return sympy.Eq(what, members[0], evaluate=False)
    return sympy.Contains(what, sympy.FiniteSet(*members), evaluate=False)
