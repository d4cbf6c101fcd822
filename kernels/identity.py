"""Values as data that no other value has: how problems and configurations are known outside of a process.

    data_of(problem)         JSON: kind and fields, of records, tuples and functions of this package
    data_digest(problem)     64 hex digits of it
    code_id(folder)          64 hex digits of the Python files in a folder

A value is identified by the contents of all of its fields, independent of its `repr`.  One that holds a
function of its user's is not data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from layoutalg.errors import ArgumentTypeError
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
    archives = [os.fspath(place) for place in (root, *root.parents) if place.is_file()]
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
