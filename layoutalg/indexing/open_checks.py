"""Index functions with symbols, checked for all values in their ranges: a proof, or a counterexample.

    is_layout        the function is a layout with symbols
    is_permutation   the function takes each number below its count once, as a raster of blocks has to

The idea.  Where the text is a polynomial in digits and symbols, equal coefficients are a proof.  Otherwise
every combination of values is looked at, up to a limit, at every coordinate.  Texts are read, never executed.

>>> raster = "def f(pid, gm, gn): return pid % (8 * gn) % 8 + pid // (8 * gn) * 8 + pid % (8 * gn) // 8 * gm"
>>> print(is_permutation(raster, "gm*gn", where="gm in 1..16, gn in 1..4"))
at gm = 3, gn = 3: f(3) is 3, and so is f(8)
>>> print(is_permutation(raster, "gm*gn", where="gm in 8..64, gm % 8 == 0, gn in 1..4"))
holds at 2,880 coordinates of 32 combinations of values
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product as tuples
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.errors import MismatchError, ShapeError, UndecidedError
from layoutalg.indexing.open_layouts import opened, parts_of, prove_polynomial, variables_of
from layoutalg.indexing.proofs import as_expression
from layoutalg.indexing.recognition import read_function
from layoutalg.layout import Layout, free_symbols, product, substituted
from layoutalg.limits import Most
from layoutalg.notation import parse_polynomial
from layoutalg.reading import IndexFunction, evaluated
from layoutalg.symbolic import SymbolicLayout, Values, values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Held(NamedTuple):
    """Whether it holds, in a sentence, and where it does not: the values, and a coordinate."""

    holds: bool
    why: str
    values: Mapping[str, int] = {}
    coordinate: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.why


def is_layout(
    source: str,
    layout: Layout | SymbolicLayout,
    *,
    where: str | Mapping[str, Values | tuple[int, int]] | None = None,
    function: str | None = None,
    language: str | None = None,
) -> Held:
    """Whether a function of the modes' coordinates and the symbols is the layout, for all their values.

    Parameters that are symbols of the layout have its names; the others are its modes, in order.  Raises
    UndecidedError where there is no proof and the values are too many to look at one by one.

    >>> import sympy
    >>> tile = Layout((32, 32), (sympy.Symbol("ld", integer=True), 1))
    >>> text = "int f(int row, int col, int ld) { return row * ld + col; }"
    >>> print(is_layout(text, tile, where="ld < 4096"))
    holds for all values, as a polynomial in digits and symbols
    >>> print(is_layout(text.replace("col;", "col % 16;"), tile, where="ld < 99"))
    at ld = 0: f(0,16) is 0 instead of 16
    """
    read = read_function(source, function, language)
    swizzles, offset, inner = parts_of(layout)
    symbols = variables_of(inner, offset, where)
    modes = [name for name in read.names if name not in symbols]
    rank = len(inner.shape) if isinstance(inner.shape, tuple) else 1
    if len(modes) != rank or len(read.names) != rank + len(symbols):
        wanted = ", ".join(("a mode",) * rank + tuple(symbols))
        raise ShapeError(f"{read.name} takes ({', '.join(read.names)}), and ({wanted}) are needed")
    if not swizzles:
        try:
            made = opened((), offset, inner, symbols, modes)
            given = {v.name: v for v in (*made.parameters, *symbols.values())}
            prove_polynomial(read.name, *as_expression(read.name, read.term, given, made.reader.exists), made)
        except (MismatchError, UndecidedError):
            pass  # perhaps it differs, which a value shows, or is equal where no polynomial is seen
        else:
            return Held(True, "holds for all values, as a polynomial in digits and symbols")

    def at(values: Mapping[str, int], grid: Sequence[NDArray[Any]]) -> Any:
        numbers = {s: values[s.name] for s in free_symbols(inner.shape, inner.stride, offset)}
        if isinstance(layout, SymbolicLayout):
            return layout.at(numbers)(*grid)
        return Layout(substituted(inner.shape, numbers), substituted(inner.stride, numbers))(*grid)

    shape = inner.shape if isinstance(inner.shape, tuple) else (inner.shape,)
    extents = [product(part) for part in shape]
    return _looked_at(read, modes, extents, values_of(where, symbols, _least(inner)), at)


def is_permutation(
    source: str,
    size: str | int,
    *,
    where: str | Mapping[str, Values | tuple[int, int]] | None = None,
    function: str | None = None,
    language: str | None = None,
) -> Held:
    """Whether a function of one index takes each value from 0 to `size` - 1 once, for all values of symbols.

    `size` is an integer or a polynomial in the symbols, as text.  Raises as `is_layout` does.
    """
    import sympy

    read = read_function(source, function, language)
    names = {name: sympy.Symbol(name, integer=True, nonnegative=True) for name in read.names[1:]}
    extent = parse_polynomial(size, names) if isinstance(size, str) else size
    values = values_of(where, names)
    return _looked_at(read, read.names[:1], [extent], values, None)


def _least(inner: Layout) -> dict[str, int]:
    return dict.fromkeys((s.name for s in free_symbols(inner.shape)), 1)


def _looked_at(
    read: IndexFunction,
    modes: Sequence[str],
    extents: Sequence[Any],
    values: Mapping[str, Values],
    wanted: Callable[[Mapping[str, int], Sequence[NDArray[Any]]], Any] | None,
) -> Held:
    """The answer of the values at all coordinates, for all combinations of symbols."""
    import numpy as np

    combinations = math.prod(map(len, values.values()))
    Most.COUNTED.decide(
        combinations,
        f"{read.name}: narrower ranges leave fewer combinations of values, of which",
    )
    looked = 0
    for point in _points(values):
        sizes = [n if isinstance(n, int) else int(substituted(n, _numbers(n, point))) for n in extents]
        if min(sizes, default=1) < 1:
            raise ShapeError(f"{read.name}: the extents {tuple(sizes)} at {_said(point)} are not positive")
        Most.POINTS.guard(math.prod(sizes), f"coordinates at {_said(point)}")
        looked += math.prod(sizes)
        Most.LANES.guard(looked, "coordinates at all values of symbols")
        grid = [axis.reshape(-1) for axis in np.indices(tuple(sizes), dtype=np.int64)]
        env = dict(zip(modes, grid, strict=True)) | {n: np.int64(x) for n, x in point.items()}
        table, bad = evaluated(read.term, env)
        if bad is not None:
            k, why = bad.first()
            return Held(False, f"at {_said(point)}: {_call(read, grid, k)} has {why}", point, _at(grid, k))
        table = np.broadcast_to(table, grid[0].shape)
        wrong = (
            _wrong(read, table, grid, point)
            if wanted is None
            else _unlike(read, table, np.broadcast_to(wanted(point, grid), table.shape), grid, point)
        )
        if wrong is not None:
            return wrong
    return Held(True, f"holds at {looked:,} coordinates of {combinations:,} combinations of values")


def _points(values: Mapping[str, Values]) -> Iterator[dict[str, int]]:
    for at in tuples(*(v.range() for v in values.values())):
        yield dict(zip(values, at, strict=True))


def _numbers(extent: Any, point: Mapping[str, int]) -> dict[Any, int]:
    return {s: point[s.name] for s in free_symbols(extent)}


def _said(point: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in point.items()) or "its only values"


def _at(grid: Sequence[NDArray[Any]], k: int) -> tuple[int, ...]:
    return tuple(int(axis[k]) for axis in grid)


def _call(read: IndexFunction, grid: Sequence[NDArray[Any]], k: int) -> str:
    return f"{read.name}({','.join(map(str, _at(grid, k)))})"


def _unlike(
    read: IndexFunction, table: Any, wanted: Any, grid: Sequence[NDArray[Any]], point: Mapping[str, int]
) -> Held | None:
    """The first coordinate at which a table is not what is wanted."""
    differ = table != wanted
    if not differ.any():
        return None
    k = int(differ.argmax())
    why = f"at {_said(point)}: {_call(read, grid, k)} is {int(table[k])} instead of {int(wanted[k])}"
    return Held(False, why, point, _at(grid, k))


def _wrong(
    read: IndexFunction, table: Any, grid: Sequence[NDArray[Any]], point: Mapping[str, int]
) -> Held | None:
    """A value that is outside, or that two indices have."""
    import numpy as np

    count = len(table)
    outside = (table < 0) | (table >= count)
    if outside.any():
        k = int(outside.argmax())
        why = f"{_call(read, grid, k)} is {int(table[k])}; its values are to be 0 to {count - 1}"
        return Held(False, f"at {_said(point)}: {why}", point, _at(grid, k))
    _, first, inverse = np.unique(table, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(count))
    if not len(again):
        return None
    k = int(again[0])
    before = _call(read, grid, int(first[inverse[k]]))
    why = f"at {_said(point)}: {before} is {int(table[k])}, and so is {_call(read, grid, k)}"
    return Held(False, why, point, _at(grid, k))
