"""Launches: the template arguments with which a text uses a kernel, and the constants that these name.

The idea.  A kernel is read as an instance that the text itself makes.  Its arguments may be constants of the
function that launches it: the declarations in front of the launch go with them.  They may be template
parameters of that function, whose own uses then say what they are.

    instances    Instance of each use of a template, in the order of the text
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from layoutalg.source.front.census import Census, Function

DEPTH = 3
"""Functions around a launch whose template parameters are followed."""

_SPECIAL = re.compile(r"template\s*<\s*>[^;{}]*\Z")
_PARAMETER = re.compile(r"\s*(?P<kind>[\w\s:]+?)\s*\b(?P<name>\w+)\s*(?:=.*)?\Z", re.DOTALL)
_CONSTANT = re.compile(r"(?:static\s+)?const|using|typedef|enum")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARATIONS = frozenset({"declaration", "alias_declaration", "type_definition", "enum_specifier"})


class Instance(NamedTuple):
    """Template arguments of a use, and declarations of what they name."""

    arguments: tuple[str, ...]
    declared: str = ""


def instances(census: Census, name: str, values: dict[str, str], depth: int = DEPTH) -> list[Instance]:
    """The uses of a template in a text; `values` are those of names that are given."""
    text = census.text.decode("utf-8", "replace")
    found: dict[Instance, None] = {}
    for match in re.finditer(rf"\b{re.escape(name)}\s*<(?![<=])", text):
        split = arguments_at(text, match.end())
        if split is None or _SPECIAL.search(text[: match.start()][-400:]):
            continue
        offset = len(text[: match.start()].encode())
        inside = census.function(offset)
        constants = "" if inside is None else _constants(census, inside, offset, set(_words(split)))
        for declared, given in _around(census, inside, values, depth):
            found[Instance(tuple(_with(given, part) for part in split), declared + constants)] = None
    return list(found)


def _with(given: dict[str, str], text: str) -> str:
    """A text with the values of names in place of them."""
    return _WORD.sub(lambda word: given.get(word[0], word[0]), text)


def _around(
    census: Census, inside: Function | None, values: dict[str, str], depth: int
) -> Iterator[tuple[str, dict[str, str]]]:
    """Declarations and values of the template parameters of the function around a use."""
    outer = [] if inside is None else parameters_of(inside)
    if inside is None or not outer:
        yield "", {}
        return
    if all(name in values for _, name in outer):
        yield "".join(_declared(kind, name, values[name]) for kind, name in outer), values
        return
    for use in instances(census, inside.name, values, depth - 1) if depth else ():
        given = {name: values.get(name, v) for (_, name), v in zip(outer, use.arguments, strict=False)}
        lines = (_declared(kind, name, given[name]) for kind, name in outer if name in given)
        yield use.declared + "".join(lines), given


def _declared(kind: str, name: str, value: str) -> str:
    if kind.split()[-1] in ("typename", "class"):
        return f"using {name} = {value}; "
    return f"constexpr {kind.removeprefix('const ')} {name} = {value}; "


def arguments_at(text: str, at: int) -> tuple[str, ...] | None:
    """The arguments behind an opening bracket, where they are those of a use of a function.

    >>> arguments_at("k<128, f(1, 2), A<3>><<<g, b>>>(p);", 2)
    ('128', 'f(1, 2)', 'A<3>')
    >>> arguments_at("k < n + 1;", 3) is None
    True
    """
    parts, depth, start = [], 0, at
    for i in range(at, min(len(text), at + 2000)):
        c = text[i]
        if c in ";{}":
            return None
        if c == ">" and depth == 0:
            parts.append(" ".join(text[start:i].split()))
            used = re.compile(r"\s*(?:<<<|[(),;])").match(text, i + 1)
            return tuple(parts) if used is not None else None
        depth += (c in "(<[") - (c in ")>]")
        if c == "," and depth == 0:
            parts.append(" ".join(text[start:i].split()))
            start = i + 1
    return None


def _constants(census: Census, inside: Function, offset: int, needed: set[str]) -> str:
    """The declarations in front of a place, in the blocks around it, of the constants that it needs."""
    node: Any = census.tree.root_node.descendant_for_byte_range(offset, offset)
    lines: list[str] = []
    while node is not None and node.start_byte >= inside.start:
        before = node.prev_sibling
        while before is not None and before.start_byte > inside.start:
            said = census.said(before)
            if _declares(before.type, said, needed):
                lines.append(said)
                needed |= set(_words([said]))
            before = before.prev_sibling
        node = node.parent
    return "\n".join(("", *reversed(lines), ""))


def _declares(kind: str, said: str, needed: set[str]) -> bool:
    """Whether a statement, or a choice of the preprocessor, declares a constant or a type that is needed."""
    if kind.startswith("preproc_if"):
        return not needed.isdisjoint(_words([said]))
    if kind not in _DECLARATIONS or _CONSTANT.match(said) is None:
        return False
    names = _words([said if said.startswith("typedef") else said.partition("=")[0]])
    return not needed.isdisjoint(names if kind == "enum_specifier" else names[-1:])


def _words(texts: Iterable[str]) -> list[str]:
    return _WORD.findall(" ".join(texts))


def parameters_of(function: Function) -> list[tuple[str, str]]:
    """(kind, name) of each template parameter of a function."""
    opened = re.match(r"\s*template\s*<", function.words)
    if opened is None:
        return []
    parts, depth = [""], 0
    for c in re.sub(r"//[^\n]*|/\*.*?\*/", " ", function.words[opened.end() :], flags=re.DOTALL):
        if c == ">" and depth == 0:
            break
        depth += (c in "(<") - (c in ")>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    matches = [_PARAMETER.match(part) for part in parts]
    return [(" ".join(m["kind"].split()), m["name"]) for m in matches if m is not None]
