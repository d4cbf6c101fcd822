"""What operations mean, by enumeration: values by definition, and equations that a result must satisfy.

`DEFINITIONS` computes the answer again; `HOLDS` says whether a result is right, where more than one would be.
Both take the operands of the operation; `judge` asks whichever there is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from math import lcm, prod
from typing import Any

from layoutalg.layout import ComposedLayout, Layout, flatten_tree, layout_size
from tests.judges.brute import table

MAX_TABLE = 1 << 12
"""Layouts of this size are small enough to enumerate."""


def small(value: Any) -> bool:
    """True for a layout of at most MAX_TABLE coordinates, and for what is no layout."""
    while isinstance(value, ComposedLayout):
        value = value.inner
    return not isinstance(value, Layout) or layout_size(value) <= MAX_TABLE


def _reach(a: Any) -> tuple[int, int]:
    return min(table(a)), max(table(a))


def _gaps(a: Any) -> tuple[tuple[int, int], ...]:
    """(length, count) of the runs of offsets between the extremes that are not taken."""
    taken = set(table(a))
    low, high = _reach(a)
    runs = [len(list(run)) for free, run in groupby(range(low, high + 1), lambda x: x not in taken) if free]
    return tuple((n, runs.count(n)) for n in sorted(set(runs)))


def _cycles(a: Any) -> tuple[tuple[int, int], ...]:
    """(length, count) of the cycles of a permutation."""
    values, seen, lengths = table(a), set[int](), []
    for start in range(len(values)):
        turns = 0
        while start not in seen:
            seen.add(start)
            start, turns = values[start], turns + 1
        lengths.append(turns)
    return tuple((n, lengths.count(n)) for n in sorted(set(lengths) - {0}))


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "cosize": lambda a: max(0, *table(a)) - min(0, *table(a)) + 1,
    "cycles": _cycles,
    "extremes": _reach,
    "footprint": lambda a: (*_reach(a), len(set(table(a))), len(table(a))),
    "gaps": _gaps,
    "image_size": lambda a: len(set(table(a))),
    "is_bijective": lambda a: sorted(table(a)) == list(range(len(table(a)))),
    "is_contiguous": lambda a: len(set(table(a))) == len(table(a)) == _reach(a)[1] - _reach(a)[0] + 1,
    "is_injective": lambda a: len(set(table(a))) == len(table(a)),
    "is_surjective": lambda a, codomain=None: (
        set(table(a))
        >= set(range(max(0, *table(a)) + 1 - min(0, *table(a)) if codomain is None else codomain))
    ),
    "order": lambda a: lcm(*(length for length, _ in _cycles(a))),
    "overlap": lambda a, b: not set(table(a)).isdisjoint(table(b)),
    "same_function": lambda a, b: table(a) == table(b),
    "size": lambda a: len(table(a)),
}
"""The answer again; the layouts must be small."""


def _collides(pair: Any, a: Any, moving: bool = False) -> bool:
    """A pair that shares an offset; None where there is none, or none but along strides of 0."""
    if pair is not None:
        return bool(pair[0] != pair[1] and a(pair[0]) == a(pair[1]))
    modes = zip(flatten_tree(a.shape), flatten_tree(a.stride), strict=True) if moving else ()
    still = prod(s for s, d in modes if d == 0)
    return len(set(table(a))) * still == len(table(a))


def _completes(c: Any, a: Any, target: Any = None) -> bool:
    """Sums of an offset of each are all different, and are everything below the target."""
    count = prod(flatten_tree(max(table(a)) + 1 if target is None else target))
    offsets = set(table(a))
    sums = {x + y for x in offsets for y in table(c)}
    return len(sums) == len(offsets) * len(table(c)) and sums >= set(range(count))


def _is_same(r: Any, a: Any, *_: Any) -> bool:
    return not isinstance(a, (Layout, ComposedLayout)) or table(r) == table(a)


HOLDS: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(("coalesce", "coalesce_x", "flatten", "group", "normal_form", "unflatten"), _is_same),
    "aliasing": lambda r, a: (
        r.repeats == len(table(a)) - len(set(table(a))) and (r.pair is None or _collides(r.pair, a))
    ),
    "complement": _completes,
    "composition": lambda r, a, b: (
        not isinstance(b, (Layout, ComposedLayout)) or table(r) == [a(x) for x in table(b)]
        if isinstance(a, (Layout, ComposedLayout))
        else True
    ),
    "downcast": lambda r, a, n: sorted(table(r)) == sorted(x * n + i for x in table(a) for i in range(n)),
    "filter": lambda r, a: set(table(r)) == set(table(a)),
    "filter_zeros": lambda r, a: set(table(r)) == set(table(a)),
    "find_collision": _collides,
    "find_coordinate": lambda r, a, x: x not in table(a) if r is None else table(a)[r] == x,
    "find_difference": lambda r, a, b: table(a) == table(b) if r is None else table(a)[r] != table(b)[r],
    "find_offset_bit": lambda r, a, bit: (
        all(x >> bit & 1 == 0 for x in table(a)) if r is None else table(a)[r] >> bit & 1 == 1
    ),
    "find_overlap": lambda r, a, b: (
        set(table(a)).isdisjoint(table(b)) if r is None else table(a)[r[0]] == table(b)[r[1]]
    ),
    "left_inverse": lambda r, a: all(r(x) == i for i, x in enumerate(table(a))),
    "max_common_layout": lambda r, a, b: all(a(x) == b(x) == i for i, x in enumerate(table(r))),
    "nullspace": lambda r, a: all(a(x) == 0 for x in table(r)),
    "right_inverse": lambda r, a: all(a(x) == i for i, x in enumerate(table(r))),
    "upcast": lambda r, a, n: (
        sorted(x // n for x in table(a)) == sorted(table(r) * (len(table(a)) // len(table(r))))
    ),
    "sort": lambda r, a: sorted(table(r)) == sorted(table(a)),
}
"""Whether a result is right; the layouts must be small."""


def judge(name: str, result: Any, *operands: Any, **params: Any) -> bool:
    """Whether a result is right by definition; True for operations and sizes that nothing is known about."""
    if not all(map(small, (result, *operands))):
        return True
    if name in DEFINITIONS:
        return bool(DEFINITIONS[name](*operands, **params) == result)
    return name not in HOLDS or HOLDS[name](result, *operands, **params)
