"""Answers as records: the fields of a frozen dataclass are those of a JSON object, and of its schema.

    Answer              what a command prints with --json: a record with a command's name
    taken(kind, source) the record of a kind whose fields are attributes of the source
    fields_of(record)   the JSON object

A record states a type for each field, and under it, as a string, what the field means where its name does not
tell.  The schema of all answers, layoutalg/schema/output.json, is generated from these types and strings.

>>> from dataclasses import dataclass
>>> from layoutalg.layout import Layout
>>> @dataclass(frozen=True)
... class Mode:
...     shape: Positive
...     stride: Count
>>> fields_of(taken(Mode, Layout(8, 2)))
{'shape': 8, 'stride': 2}
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin, get_type_hints

R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A keyword of JSON Schema that a number or a text is held to, such as minimum."""

    keyword: str
    value: object


Count = Annotated[int, Bound("minimum", 0)]
Positive = Annotated[int, Bound("minimum", 1)]
Amount = Annotated[float, Bound("minimum", 0)]
Rate = Annotated[float, Bound("exclusiveMinimum", 0)]
Share = Annotated[float, Bound("minimum", 0), Bound("maximum", 1)]


class Answer:
    """A record that a command prints with --json.

    >>> class Nothing(Answer, command="nothing"): ...
    >>> Nothing.command
    'nothing'
    """

    command: ClassVar[str] = ""

    def __init_subclass__(cls, command: str = "") -> None:
        """Name the command of a kind of answers."""
        super().__init_subclass__()
        cls.command = command or cls.command


def fields_of(value: object) -> Any:
    """The JSON of a record, with its fields in order, and likewise for what it holds.

    A field whose name is a word of Python ends with "_", which JSON leaves out.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name.rstrip("_"): fields_of(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): fields_of(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [fields_of(held) for held in value]
    return value


def taken(kind: type[R], source: object, /, **more: Any) -> R:
    """The record of a kind: each field is in `more`, or an attribute of the source, fitted to its type.

    A value becomes text where the field is text, a record where the field is one, and a tuple where it is a
    sequence; where the field is of several kinds of records, the value has to be one of them. Raises
    AttributeError for a field that neither has.
    """
    hints = _hints(cast("Hashable", kind))
    values = {
        f.name: _fitted(hints[f.name], more[f.name] if f.name in more else getattr(source, f.name))
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.name in more or f.default is dataclasses.MISSING or hasattr(source, f.name)
    }
    return kind(**values)


@functools.cache
def _hints(kind: Hashable) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _fitted(hint: Any, value: Any) -> Any:
    """A value of a source, in the type of a field."""
    origin, args = get_origin(hint), get_args(hint)
    if value is None or hint is Any:
        return value
    if origin in (Union, UnionType):
        kinds = [arg for arg in args if arg is not NoneType]
        return _fitted(kinds[0], value) if len(kinds) == 1 else value
    if origin is tuple:
        return tuple(_fitted(args[0], held) for held in value)
    if origin is Mapping:
        return {str(name): _fitted(args[1], held) for name, held in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and not isinstance(value, hint):
        return taken(hint, value)
    return str(value) if hint is str else value
