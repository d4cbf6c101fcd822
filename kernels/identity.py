"""Problems and configurations by their fields: as data that no other value has, checked, and beside others.

    data_of(problem)         JSON: kind and fields, of records, tuples and functions of this package
    data_digest(problem)     64 hex digits of it
    code_id(folder)          64 hex digits of the Python files in a folder
    check_fields, difference, nearest      the values that a field can have; the configurations near one

A value is identified by the contents of all of its fields, independent of its `repr`.  One that holds a
function of its user's is not data.  Near a record are those that differ in few fields and there by little:

    distance of counts    |log2(a / b)|          of anything else    1

so that halving a tile is as near as doubling its stages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import combinations
from math import log2
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import Value

PACKAGE = __name__.partition(".")[0]


class NotDataError(ArgumentTypeError):
    """A value is not made of data alone."""


def data_of(value: Any) -> Any:
    """A value as JSON that no other value has; a function of this package is data, by where it is defined.

    Raises NotDataError for one that holds anything else.

    >>> data_of((4, 0.5, "f16"))
    ['tuple', 4, ['float', '0x1.0000000000000p-1'], 'f16']
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(data_of, value)]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, Value):
        return [kind, *(data_of(getattr(value, name)) for name in value.__match_args__)]
    if is_dataclass(value) and not isinstance(value, type):
        return [kind, *([f.name, data_of(getattr(value, f.name))] for f in fields(value))]
    if isinstance(value, FunctionType) and _is_of_this_package(value):
        named = "<" not in value.__qualname__
        line = [] if named else [value.__code__.co_firstlineno]
        return [kind, value.__module__, value.__qualname__, *line]
    raise NotDataError(f"a {kind} is not data: numbers, texts, tuples and records of these are")


def data_digest(value: Any) -> str:
    """64 hex digits of a value's data.  Raises NotDataError as `data_of` does.

    >>> len(data_digest((4, 0.5))), data_digest((1, 2)) == data_digest([1, 2])
    (64, False)
    """
    return hashlib.sha256(json.dumps(data_of(value)).encode()).hexdigest()


def _is_of_this_package(function: FunctionType) -> bool:
    """Whether its code is this package's, and it holds no values of its own."""
    own = (function.__closure__, function.__defaults__, function.__kwdefaults__)
    return function.__module__.startswith(f"{PACKAGE}.") and own == (None, None, None)


def code_id(root: Path) -> str:
    """64 hex digits of the names and contents of all Python files in a folder, linked ones too.

    Of a package that is imported from an archive: of the archive.  What is not a regular file, such as the
    lock of an editor or a link to nowhere, is not code; nor is what vanishes meanwhile.

    >>> len(code_id(Path(__file__).parent))
    64
    """
    digest = hashlib.sha256()
    paths: list[str] = sorted(_files(os.fspath(root), frozenset()))
    archives = [os.fspath(above) for above in (root, *root.parents) if above.is_file()]
    for path in paths or archives:
        with contextlib.suppress(OSError):
            content = Path(path).read_bytes()
            digest.update(json.dumps([os.path.relpath(path, root), len(content)]).encode() + content)
    return digest.hexdigest()


def _files(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Paths of regular Python files; of linked ones too, but of no folder inside itself."""
    with contextlib.suppress(OSError):
        status = Path(folder).stat()
        here = (status.st_dev, status.st_ino)
        with os.scandir(folder) as listing:
            for item in listing if here not in above else ():
                if item.is_dir():
                    yield from _files(item.path, above | {here})
                elif item.name.endswith(".py") and item.is_file():
                    yield item.path


C = TypeVar("C")

LEAST: Mapping[str, int] = MappingProxyType({"mma_k": 0})
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


def nearest(config: C, known: Iterable[C], works: Callable[[C], bool]) -> C | None:
    """The nearest configuration that works: within two changes of fields, else of the `known` ones.

    None where not even one of these works.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> c = Sm80Config(128, 256, 64, 2, 4, 9)
    >>> difference(c, nearest(c, [replace(c, stages=3)], lambda x: x.stages <= 4))
    {'stages': 4}
    """
    models = tuple(known)
    for changes in (1, 2):
        for candidate in neighbours(config, models, changes):
            if works(candidate):
                return candidate
    return min(filter(works, models), key=lambda x: distance(config, x), default=None)
