"""The fields of a configuration: which values they can have at all, and which configurations are near.

The idea.  A configuration is a record of counts, switches and names.  Counts are positive, names are those
of their Literal: what breaks this, no rule has to make sense of.  Near a record are those that differ in
few fields and there by little:

    distance of counts    |log2(a / b)|          of anything else    1

so that halving a tile is as near as doubling its stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from itertools import combinations
from math import log2
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError

C = TypeVar("C")

LEAST: Mapping[str, int] = MappingProxyType({"mma_k": 0, "pad": 0})
"""Counts that may be less than 1."""

FAR = 10.0
"""The distance of what has no logarithm."""


@cache
def _kinds(of: Any) -> tuple[tuple[str, Any, tuple[Any, ...], int], ...]:
    """The type of each field, its values where that is a Literal, and the least value of a count."""
    hints = get_type_hints(of).items()
    return tuple(
        (name, kind, get_args(kind) if get_origin(kind) is Literal else (), LEAST.get(name, 1))
        for name, kind in hints
    )


def check_fields(config: Any) -> None:
    """Raise for a field that no rule could make sense of, for any problem.

    Raises ArgumentTypeError (no integer, no bool), ShapeError (a count under its least value), or
    UnsupportedError (not one of the names, or numbers, of its Literal).

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> check_fields(Sm80Config(128, 256, 64, 2, 4, 4))
    """
    record: Any = type(config)
    for name, kind, names, least in _kinds(record):
        value = getattr(config, name)
        if names:
            if isinstance(value, bool) or value not in names:
                accepted = " and ".join(map(repr, names))
                raise UnsupportedError(f"{name} = {value!r}: {accepted} are accepted")
        elif type(value) is not kind:
            raise ArgumentTypeError(f"{name} = {value!r}: {kind.__name__} is needed")
        elif kind is int and value < least:
            raise ShapeError(f"{name} = {value}: at least {least} is needed")


def difference(a: C, b: C) -> dict[str, Any]:
    """The fields in which b differs from a, with b's values.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> difference(Sm80Config(128, 256, 64, 2, 4, 4), Sm80Config(128, 128, 64, 2, 4, 3))
    {'tile_n': 128, 'stages': 3}
    """
    names = [f.name for f in fields(a)]  # type: ignore[arg-type]
    return {x: getattr(b, x) for x in names if getattr(a, x) != getattr(b, x)}


def distance(a: C, b: C) -> tuple[int, float]:
    """Return the distance of b from a: the number of fields that differ, and the sum of their steps.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> distance(Sm80Config(128, 256, 64, 2, 4, 4), Sm80Config(128, 64, 64, 2, 4, 2))
    (2, 3.0)
    """
    changes = difference(a, b)
    return len(changes), sum(_step(getattr(a, name), value) for name, value in changes.items())


def _step(old: Any, new: Any) -> float:
    if isinstance(new, bool) or not isinstance(new, int):
        return 1.0
    if type(old) is not int or old < 1 or new < 1:
        return FAR
    return abs(log2(old / new))


def neighbours(config: C, known: Iterable[C], changes: int) -> Iterator[C]:
    """Configurations with `changes` fields as some known one has them, or half or twice as large; near first.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> c = Sm80Config(128, 256, 64, 2, 4, 4)
    >>> [difference(c, x) for x in neighbours(c, [replace(c, stages=3)], 1)][0]
    {'stages': 3}
    """
    single: list[tuple[str, Any, float]] = []
    record: Any = type(config)
    models = tuple(known)
    for name, kind, names, _ in _kinds(record):
        old = getattr(config, name)
        tried = [*(getattr(x, name) for x in models), *names]
        if kind is bool:
            tried += [False, True]
        elif kind is int and type(old) is int:
            tried += [old // 2, old * 2, 1 << max(0, old).bit_length() - 1 if old > 0 else 1]
        values = dict.fromkeys(tried)  # in this order: of two that are as near, the first is named
        single += [(name, v, _step(old, v)) for v in values if v != old or type(v) is not type(old)]
    chosen = [x for x in combinations(single, changes) if len({name for name, _, _ in x}) == changes]
    chosen.sort(key=lambda x: (sum(step for _, _, step in x), [name for name, _, _ in x]))
    for x in chosen:
        yield replace(config, **{name: value for name, value, _ in x})  # type: ignore[type-var]


def nearest(config: C, known: Iterable[C], works: Callable[[C], bool], most: int = 2) -> C | None:
    """The nearest configuration that works: within `most` changes of fields, else of the `known` ones.

    None where not even one of these works.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> c = Sm80Config(128, 256, 64, 2, 4, 9)
    >>> difference(c, nearest(c, [replace(c, stages=3)], lambda x: x.stages <= 4))
    {'stages': 4}
    """
    models = tuple(known)
    for changes in range(1, most + 1):
        for candidate in neighbours(config, models, changes):
            if works(candidate):
                return candidate
    return min(filter(works, models), key=lambda x: distance(config, x), default=None)
