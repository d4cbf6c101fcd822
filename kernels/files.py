"""Files that others may have written, and records that are read from them by the types of their fields.

    with opened(path) as descriptor: ...       a regular file, never a pipe that keeps its reader waiting
    Format(...).read(path)                     a JSON file that names its format and version
    read_as(Record, named)                     a record, if each of its fields has the kind that its type says
    of_environment("LAYOUTALG_LOCK", read)     a file that the environment names, read once

The idea.  A frozen dataclass states a type for each of its fields, with bounds (`answers.Bound`): they say
what `answers.fields_of` writes and what may be believed when it is read again.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import operator
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from layoutalg.answers import Bound
from layoutalg.errors import ParseError
from layoutalg.limits import Most

MOST_NUMBER = 1e30
"""The largest number in files, so that squares and sums stay finite."""

Digest = Annotated[str, Bound("pattern", "[0-9a-f]{64}")]

T = TypeVar("T")

_HOLDS: Mapping[str, tuple[str, Callable[[Any, Any], object]]] = {
    "minimum": ("at least", operator.ge), "exclusiveMinimum": ("more than", operator.gt),
    "maximum": ("at most", operator.le), "pattern": ("like", lambda text, form: re.fullmatch(form, text)),
}  # fmt: skip


@contextlib.contextmanager
def opened(path: str | Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """The descriptor of a regular file; `flags` may ask that it is made, for its owner alone.

    Raises OSError, also for what is not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


class Format(NamedTuple):
    """A format of files that name it; messages call a file `what`, or say that it is not `kind`."""

    name: str
    version: int
    what: str
    kind: str
    limit: Most

    @property
    def head(self) -> dict[str, Any]:
        """The fields that name it."""
        return {"format": self.name, "version": self.version}

    def read(self, path: Path) -> dict[str, Any]:
        """Return the data of a JSON file.

        Raises OSError, also for what is not a regular file, ParseError for another format or version,
        ResourceError for a file past the limit.
        """
        with opened(path) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(self.limit.number + 1)
        self.limit.guard(len(data), f"bytes of {self.what} {path}")
        return self.checked(data, path)

    def checked(self, data: bytes, path: Path) -> dict[str, Any]:
        """Return JSON that names this format and version.  Raises ParseError for other bytes.

        >>> one = Format("some", 1, "the numbers", "numbers", Most.FILE)
        >>> one.checked(b'{"format": "some", "version": 1, "of": 2}', Path("one.json"))["of"]
        2
        """
        try:
            named = json.loads(data)
        except (ValueError, RecursionError):
            named = None
        if not isinstance(named, dict) or named.get("format") != self.name or "version" not in named:
            raise ParseError(f"{path} is not {self.kind}")
        number = named["version"]
        if number != self.version or isinstance(number, bool):
            are = "are" if self.what.endswith("s") else "is"
            raise ParseError(
                f"{self.what} {path} {are} of version {str(number)[:40]}: version {self.version} is read"
            )
        return named


def read_as(kind: Any, value: Any) -> Any:
    """A value of JSON as the type of a field.  Raises ValueError for one of another kind.

    >>> read_as(tuple[str, ...], ["a", "b"]), read_as(Annotated[int, Bound("minimum", 1)], 3)
    (('a', 'b'), 3)
    """
    origin, args = get_origin(kind), get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        kinds = _fields(kind)
        if isinstance(value, kind):
            return value
        if isinstance(value, dict) and kinds.keys() <= value.keys():
            return kind(**{name: _field(name, of, value[name]) for name, of in kinds.items()})
    elif origin is Annotated:
        inner = read_as(args[0], value)
        for bound in args[1:]:
            words, holds = _HOLDS[bound.keyword]
            if not holds(inner, bound.value):
                raise ValueError(f"{str(value)[:80]!r} is not {words} {bound.value}")
        return inner
    elif origin is Union:
        return None if value is None and type(None) in args else read_as(args[0], value)
    elif origin is tuple and isinstance(value, list):
        each = repeat(args[0], len(value)) if args[-1] is ... else args
        return tuple(read_as(of, x) for of, x in zip(each, value, strict=True))
    elif origin is Mapping and isinstance(value, dict):
        return {name: _field(name, args[1], x) for name, x in value.items()}
    elif kind is float and is_number(value):
        return float(value)
    elif (kind in (str, bool, bytes) or (kind is int and is_number(value))) and isinstance(value, kind):
        return value
    raise ValueError(f"{str(value)[:80]!r} is not of the kind {getattr(kind, '__name__', kind)}")


def _field(name: str, kind: Any, value: Any) -> Any:
    try:
        return read_as(kind, value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def is_number(x: object) -> bool:
    """Whether a value of JSON is a number to reckon with: no truth value, NaN, infinity or past MOST_NUMBER.

    >>> [is_number(x) for x in (3, 0.5, True, float("nan"), 10**400, "3")]
    [True, True, False, False, False, False]
    """
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= MOST_NUMBER


def of_environment(variable: str, read: Callable[[Path], T]) -> T | None:
    """The contents of the file that a variable of the environment names, read once by each process; None
    where it names none.  Raises as `read` does: nothing stands in the place of a file that cannot be read.
    """
    named = os.environ.get(variable, "")
    return read_once(read, named) if named else None


@functools.lru_cache(maxsize=8)
def read_once(read: Callable[[Path], T], path: str) -> T:
    """The contents of a file when it was first asked for."""
    return read(Path(path))
