"""The schema of the command's JSON, generated from the records of its answers.

python -m tests.frozen.schema            what differs from layoutalg/schema/output.json; exit status 1 if any
python -m tests.frozen.schema --write    write that file
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from layoutalg.answers import Answer
from layoutalg.cli import commands
from layoutalg.cli.refusals import EXIT_CODES, SCHEMA

FILE = Path(__file__).parents[2] / "layoutalg" / "schema" / "output.json"
"""The schema that ships with the package."""


class Untitled(GenerateJsonSchema):
    """Schemas whose fields and types repeat their names in no title."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def kinds() -> list[type[Answer]]:
    """Every kind of answer, by the name of its command."""
    for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
        importlib.import_module(module.name)
    return sorted(_below(Answer), key=lambda kind: (kind.command, kind.__name__))


def _below(kind: type[Answer]) -> Iterator[type[Answer]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith("layoutalg."):
            yield below
        yield from _below(below)


def records(hint: Any) -> Iterator[type]:
    """The dataclasses that a type is made of."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
        for held in get_type_hints(hint).values():
            yield from records(held)
    for part in get_args(hint):
        yield from records(part)


def schema() -> dict[str, Any]:
    """The JSON Schema of all answers; the strings under fields are their descriptions."""
    config = ConfigDict(
        use_attribute_docstrings=True, extra="forbid", json_schema_serialization_defaults_required=True
    )
    answers = kinds()
    for record in {record for kind in answers for record in records(kind)}:
        record.__pydantic_config__ = config  # type: ignore[attr-defined]
    adapters: Any = [(kind, "serialization", TypeAdapter(kind)) for kind in answers]
    _, held = TypeAdapter.json_schemas(adapters, schema_generator=Untitled)
    definitions = held["$defs"]
    for definition in definitions.values():
        definition.pop("title", None)
        for name in [name for name in definition.get("properties", ()) if name.endswith("_")]:
            definition["properties"][name.rstrip("_")] = definition["properties"].pop(name)
            definition["required"][definition["required"].index(name)] = name.rstrip("_")
    for kind in answers:
        definition = definitions[kind.__name__]
        command = {"const": kind.command} if kind.command else {"type": "string", "description": NONE}
        definition["properties"] = {
            "schema": {"const": SCHEMA}, "command": command, **definition["properties"]
        }  # fmt: skip
        definition["required"] = list(definition["properties"])
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": "urn:layoutalg:output:1",
        "title": "Output of the layoutalg command with --json",
        "description": f"Every command prints exactly one such object. {EXIT_CODES}",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in answers],
        "$defs": definitions,
    }


NONE = "Empty when no command was named."


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
