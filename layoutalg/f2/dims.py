"""Named dimensions of a linear layout: as a caller states them, checked, and packed into one integer.

A coordinate in several dimensions is packed by its bits, the first dimension in the lowest ones.

>>> unpack(0b1101, (("dim0", 4), ("dim1", 8)))
{'dim0': 1, 'dim1': 3}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from layoutalg.errors import ArgumentTypeError, ShapeError, shown
from layoutalg.layout import whole_number

T = TypeVar("T")

Pairs: TypeAlias = Mapping[str, T] | Iterable[tuple[str, T]]
"""Named dimensions, as a mapping or as pairs in order."""

Bases: TypeAlias = "tuple[tuple[int, ...], ...]"
"""The images of the bits of an in dimension, lowest first: a coordinate in each out dimension."""


def items(pairs: Pairs[T]) -> Iterable[tuple[str, T]]:
    """The pairs of a mapping, or of a list of pairs; ArgumentTypeError for anything else."""
    if isinstance(pairs, Mapping):
        return pairs.items()
    try:
        return [(name, value) for name, value in pairs]
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"the dimensions {shown(pairs)}: a mapping from names, or pairs with a name, are needed"
        ) from None


def checked_outs(outs: Pairs[int]) -> tuple[tuple[str, int], ...]:
    """Out dimensions with sizes that are powers of two, or ShapeError."""
    pairs = tuple([(name, whole_number(n, f"out dimension {name!r}")) for name, n in items(outs)])
    for name, extent in pairs:
        if extent < 1 or extent & (extent - 1):
            raise ShapeError(f"out dimension {name!r} has size {extent!r}; a power of two is needed")
    _distinct("out", [name for name, _ in pairs])
    return pairs


def checked_ins(
    ins: Pairs[Iterable[int | Iterable[int]]], outs: Sequence[tuple[str, int]]
) -> tuple[tuple[str, Bases], ...]:
    """In dimensions with bases that lie in the out dimensions, or ShapeError."""
    sizes = [extent for _, extent in outs]
    pairs: list[tuple[str, Bases]] = []
    for name, bases in items(ins):
        what = f"a basis of {name!r}"
        fixed = tuple(
            tuple([whole_number(x, what) for x in (b if isinstance(b, Iterable) else (b,))]) for b in bases
        )
        for basis in fixed:
            if len(basis) != len(sizes) or not all(0 <= x < n for x, n in zip(basis, sizes, strict=True)):
                raise ShapeError(
                    f"basis {basis} of {name!r} does not fit the out dimensions "
                    f"{', '.join(f'{n} (size {k})' for n, k in outs)}"
                )
        pairs.append((name, fixed))
    _distinct("in", [name for name, _ in pairs])
    return tuple(pairs)


def _distinct(kind: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise ShapeError(f"{kind} dimensions {list(names)} repeat a name")


def check_known(kind: str, names: Sequence[str], known: Collection[str]) -> None:
    """ShapeError when one of `names` is not a dimension."""
    for name in names:
        if name not in known:
            raise ShapeError(f"there is no {kind} dimension {name!r}; there are {', '.join(known)}")


def check_order(kind: str, order: Sequence[str], names: Sequence[str]) -> None:
    """ShapeError when `order` does not have each of `names` once."""
    if sorted(names) != sorted(order):
        raise ShapeError(f"{list(order)} is not an order of the {kind} dimensions {list(names)}")


def low_bits(bits: Mapping[str, int]) -> dict[str, int]:
    """The lowest bit of each dimension in a packed coordinate."""
    lows: dict[str, int] = {}
    start = 0
    for name, count in bits.items():
        lows[name] = start
        start += count
    return lows


def unpack(packed: int, outs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """A packed coordinate, taken apart: the first dimension has the lowest bits.

    >>> unpack(6, (("lane", 2), ("register", 4)))
    {'lane': 0, 'register': 3}
    """
    parts: dict[str, int] = {}
    for name, extent in outs:
        packed, parts[name] = divmod(packed, extent)
    return parts
