"""Launches: the template arguments and the block with which a text uses a kernel, and what these name.

The idea.  A kernel is read as an instance that the text itself makes.  Its arguments may be constants of the
function that launches it: the declarations in front of the launch go with them.  They may be template
parameters of that function, whose own uses then say what they are.

    instances    Instance of each use of a kernel, in the order of the text

The block of a launch, and the types of what it hands on, come from the same function: declarations of
variables that are set once are constants there, those of others have a type alone.
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
_BY_FUNCTION = re.compile(r"\bcuda(?:Launch(?:Cooperative)?Kernel(Ex|ExC)?)\s*(?:<[^<>;]*>)?\s*\(")
_SETS = r"\bNAME\b(?:\.\w+)?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|&)\s*NAME\b|\bNAME\s*(?:\+\+|--)"
"""Text that sets a variable, or takes its address."""

_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "<": ">"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARATIONS = frozenset({"declaration", "alias_declaration", "type_definition", "enum_specifier"})


class Instance(NamedTuple):
    """A use of a kernel in a line: its template arguments, and declarations of what they name.

    Of a launch, `shape` are the grid and the block, `values` the arguments, `parameters` those of the
    function around it; `constants` declares what the shape names, `variables` what the arguments do.
    """

    arguments: tuple[str, ...]
    declared: str = ""
    line: int = 0
    shape: tuple[str, ...] = ()
    values: str = ""
    parameters: str = ""
    constants: str = ""
    variables: str = ""


def instances(census: Census, name: str, values: dict[str, str], depth: int = DEPTH) -> list[Instance]:
    """The uses of a kernel, or of a template, in a text; `values` are those of names that are given."""
    text = census.text.decode("utf-8", "replace")
    found: dict[Instance, None] = {}
    for match in re.finditer(rf"\b{re.escape(name)}\b(?=\s*(?:<|[,)]))", text):
        split, end = _template_arguments(text, match.end())
        shape, call = _launch(text, match.start(), end)
        if (split is None and not shape) or _SPECIAL.search(text[: match.start()][-400:]):
            continue
        offset = len(text[: match.start()].encode())
        inside = census.function(offset)
        line = census.before + text.count("\n", 0, match.start()) + 1
        words = [set(_words(part)) for part in (split or (), shape, (call,))]
        told = ("", "", "") if inside is None else _declarations(census, inside, offset, words)
        parameters = "" if inside is None else inside.parameters[: _closing(inside.parameters)]
        for declared, given in _around(census, inside, values, depth):
            arguments = tuple(_with(given, part) for part in split or ())
            found[Instance(arguments, declared + told[0], line, shape, call, parameters, *told[1:])] = None
    return list(found)


def _template_arguments(text: str, at: int) -> tuple[tuple[str, ...] | None, int]:
    """The template arguments behind a name, None where there are none, and where they end."""
    opened = re.compile(r"\s*<(?![<=])").match(text, at)
    split = None if opened is None else arguments_at(text, opened.end())
    return (None, at) if opened is None or split is None else (split, _end(text, opened.end(), ">"))


def arguments_at(text: str, at: int) -> tuple[str, ...] | None:
    """The arguments behind an opening bracket, where they are those of a use of a function.

    >>> arguments_at("k<128, f(1, 2), A<3>, (4 > 3)><<<g, b>>>(p);", 2)
    ('128', 'f(1, 2)', 'A<3>', '(4 > 3)')
    >>> arguments_at("k < n + 1;", 3) is None
    True
    """
    end = _end(text, at, ">")
    used = re.compile(r"\s*(?:<<<|[(),;])").match(text, end)
    return _parts(text[at : end - 1], "<") if end and used is not None else None


def _end(text: str, at: int, closing: str) -> int:
    """The place behind the bracket that closes what is open at a place; 0 where there is none."""
    waiting = [closing]
    for i in range(at, min(len(text), at + 4000)):
        c = text[i]
        if c == waiting[-1]:
            waiting.pop()
            if not waiting:
                return i + 1
        elif c in _CLOSED_BY and (c != "<" or closing == ">"):
            waiting.append(_CLOSED_BY[c])
        elif c in ")]}" or (c == ";" and closing == ">"):
            return 0
    return 0


def _parts(text: str, angle: str = "") -> tuple[str, ...]:
    """The parts between commas outside of brackets, of `angle` too, where these are brackets."""
    parts = [""]
    waiting: list[str] = []
    for c in text:
        if waiting and c == waiting[-1]:
            waiting.pop()
        elif c in f"([{{{angle}":
            waiting.append(_CLOSED_BY[c])
        parts = [*parts, ""] if c == "," and not waiting else [*parts[:-1], parts[-1] + c]
    return tuple(" ".join(part.split()) for part in parts)


def _launch(text: str, start: int, end: int) -> tuple[tuple[str, ...], str]:
    """(grid, block) and the arguments in brackets of a launch of the kernel that is named at a place."""
    opened = re.compile(r"\s*<<<").match(text, end)
    if opened is not None:
        close = text.find(">>>", opened.end())
        call = re.compile(r"\s*\(").match(text, close + 3)
        behind = _end(text, call.end(), ")") if call is not None and close >= 0 else 0
        if call is None or not behind:
            return (), ""
        return _parts(text[opened.end() : close])[:2], text[call.end() - 1 : behind]
    for called in _BY_FUNCTION.finditer(text[:start], max(start - 400, 0)):
        behind = _end(text, called.end(), ")")
        if behind > end:
            parts = _parts(text[called.end() : behind - 1])
            config = parts[0].lstrip("& ")
            if called[1] != "Ex":
                return parts[1:3], ""
            sides = [re.findall(rf"\b{re.escape(config)}\.{side}\s*=\s*([^;]+);", text[:start])[-1:]
                     for side in ("gridDim", "blockDim")]  # fmt: skip
            return tuple(" ".join(side) or config for side in sides), ""
    return (), ""


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


def _declarations(
    census: Census, inside: Function, offset: int, needed: list[set[str]]
) -> tuple[str, str, str]:
    """The declarations in front of a place, in the blocks around it, of the names that are needed.

    Of constants and types as they are; of variables that are set once as constants, and without their values.
    """
    node: Any = census.tree.root_node.descendant_for_byte_range(offset, offset)
    body = census.text[inside.start : inside.end].decode("utf-8", "replace")
    lines: tuple[list[str], list[str], list[str]] = ([], [], [])
    while node is not None and node.start_byte >= inside.start:
        before = node.prev_sibling
        while before is not None and before.start_byte > inside.start:
            said = census.said(before)
            for names, kind, form in zip(needed, lines, (None, _as_constant, _as_variable), strict=True):
                if said in lines[0]:
                    break
                if _declares(before.type, said, names):
                    kind.append(said)
                elif form is None or before.type != "declaration" or names.isdisjoint(_names(census, before)):
                    continue
                else:
                    kind.append(form(census, before, body))
                names |= set(_words([kind[-1]]))
            before = before.prev_sibling
        node = node.parent
    first, second, third = ("\n".join(("", *reversed(kind), "")) for kind in lines)
    return first, second, third


def _names(census: Census, declaration: Any) -> list[str]:
    """The names that a declaration declares."""
    heads = (re.split(r"[=({]", census.said(d))[0] for d in declaration.children_by_field_name("declarator"))
    return [words[-1] for head in heads if (words := _words([head]))]


def _as_constant(census: Census, declaration: Any, body: str) -> str:
    """A declaration of variables that nothing else sets, as constants; "" of others."""
    said = census.said(declaration)
    for name in _names(census, declaration):
        set_here = re.findall(_SETS.replace("NAME", re.escape(name)), body)
        if len(set_here) > len(re.findall(rf"\b{re.escape(name)}\s*=(?!=)", said)):
            return ""
    return f"constexpr {said}"


def _as_variable(census: Census, declaration: Any, body: str) -> str:
    """A declaration of variables, of numbers and pointers without their values."""
    said, kind = census.said(declaration), declaration.child_by_field_name("type")
    return (
        said
        if (kind is not None and kind.type == "type_identifier") or "auto" in said
        else without_values(said)
    )


def without_values(declarations: str) -> str:
    """Declarations of variables without what these are set to, but of those whose type it says."""
    lines = declarations.split("\n")
    values = re.compile(r"=(?!=)[^,;]*(?:\([^;]*\))?[^,;]*")
    return "\n".join(line if "auto" in line else values.sub("", line) for line in lines)


def _declares(kind: str, said: str, needed: set[str]) -> bool:
    """Whether a statement, or a choice of the preprocessor, declares a constant or a type that is needed."""
    if kind.startswith("preproc_if"):
        return not needed.isdisjoint(_words([said]))
    if kind not in _DECLARATIONS or _CONSTANT.match(said) is None:
        return False
    names = _words([said if said.startswith("typedef") else said.partition("=")[0]])
    return not needed.isdisjoint(names if kind == "enum_specifier" else names[-1:])


def _closing(text: str) -> int:
    """The end of the brackets that a text opens first, 0 where there are none."""
    at = text.find("(")
    return _end(text, at + 1, ")") if at >= 0 else 0


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
