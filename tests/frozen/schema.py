"""The schema of the command's JSON, generated from the records of its answers.

python -m tests.frozen.schema            what differs from layoutalg/schema/output.json; exit status 1 if any
python -m tests.frozen.schema --write    write that file
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import importlib
import inspect
import json
import pkgutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from layoutalg.answers import Answer
from layoutalg.cli import commands
from layoutalg.cli.refusals import EXIT_CODES, SCHEMA

FILE = Path(__file__).parents[2] / "layoutalg" / "schema" / "output.json"
"""The schema that ships with the package."""


def kinds() -> list[type[Answer]]:
    """Every kind of answer, by the name of its command; that of `layoutalg ci` is below the commands."""
    for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module("layoutalg.checks.formats")
    return sorted(_below(Answer), key=lambda kind: (kind.command, kind.__name__))


def _below(kind: type[Answer]) -> Iterator[type[Answer]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith("layoutalg."):
            yield below
        yield from _below(below)


PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}  # fmt: skip


def described(record: type) -> dict[str, str]:
    """The strings under the fields of a record, and of those that it is derived from."""
    texts: dict[str, str] = {}
    for kind in reversed(record.__mro__[:-1]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        for line, below in pairwise(body.body):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(line, ast.AnnAssign) and isinstance(text, ast.Constant):
                texts[ast.unparse(line.target)] = " ".join(str(text.value).split())
    return texts


def schema_of(hint: Any, held: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; those of the records in it are put into `held`, by their names."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return dict(PLAIN[hint])
    if origin is Annotated:
        return schema_of(parts[0], held) | {bound.keyword: bound.value for bound in parts[1:]}
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(part, held) for part in parts]}
    if origin is tuple:
        return {"type": "array", "items": schema_of(parts[0], held)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": schema_of(parts[1], held)}
    if not isinstance(hint, type) or not dataclasses.is_dataclass(hint):
        raise TypeError(f"a field of an answer cannot be {hint!r}")
    if hint.__name__ not in held:
        held[hint.__name__] = {}
        held[hint.__name__] = object_of(hint, held)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def object_of(record: Any, held: dict[str, Any]) -> dict[str, Any]:
    """The schema of a record: all of its fields, and no other."""
    hints, texts, properties = get_type_hints(record, include_extras=True), described(record), {}
    if issubclass(record, Answer):
        properties["schema"] = {"const": SCHEMA}
        properties["command"] = {"const": record.command} if record.command else NONE
    for field in dataclasses.fields(record):
        text = {"description": texts[field.name]} if field.name in texts else {}
        properties[field.name.rstrip("_")] = schema_of(hints[field.name], held) | text
    return {
        "type": "object",
        "description": " ".join(inspect.cleandoc(record.__doc__ or "").partition("\n\n")[0].split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def schema() -> dict[str, Any]:
    """The JSON Schema of all answers."""
    held: dict[str, Any] = {}
    references = [schema_of(kind, held) for kind in kinds()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:layoutalg:output:1",
        "title": "Output of the layoutalg command with --json",
        "description": f"Every command prints exactly one such object. {EXIT_CODES}",
        "oneOf": references,
        "$defs": dict(sorted(held.items())),
    }


NONE = {"type": "string", "description": "Empty when no command was named."}


def text() -> str:
    """The schema as its file has it."""
    return json.dumps(schema(), indent=1, ensure_ascii=True) + "\n"


def main(args: list[str] | None = None) -> int:
    """Print the differences, or write the file."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.frozen.schema", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--write", action="store_true", help="write layoutalg/schema/output.json")
    now = text()
    if parser.parse_args(args).write:
        FILE.write_text(now, "utf-8")
    stored = FILE.read_text("utf-8")
    lines = list(difflib.unified_diff(stored.splitlines(), now.splitlines(), "stored", "now", lineterm=""))
    print("\n".join(lines) or "The schema is that of the records.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
