"""Launches: the template arguments and the block with which a text uses a kernel, and what these name.

The idea.  A kernel is read as an instance that the text itself makes.  Its arguments may be constants of the
function that launches it: the declarations in front of the launch go with them.  They may be template
parameters of that function, whose own uses then say what they are; what no use says is open.  A macro that
launches, or is handed a launch, is written out where it is used.

    written_out  the texts with such macros written out
    instances    Instance of each use of a kernel, in the order of the texts

The block of a launch, and the types of what it hands on, come from the same function: declarations of
variables that are set once are constants there, those of others have a type alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from layoutalg.source.front.census import Census, Function

DEPTH = 3
"""Functions around a launch whose template parameters are followed, and macros in macros."""

_INNER = "namespace layoutalg_inner { "
"""The scope of the template parameters of a function."""

MOST_USES = 64
"""Uses of a function that are followed."""

MOST_WRITTEN = 1 << 18
"""The most characters that a macro may become."""

_SPECIAL = re.compile(r"template\s*<\s*>[^;{}]*\Z")
_PARAMETER = re.compile(
    r"(?P<kind>(?:template\s*<.*>)?[\w\s:]+?)\s*(?:\b(?P<name>\w+)|\(\*(?P<function>\w+)\)(?P<of>\(.*\)))\s*(?:=.*)?\Z"
)
FUNCTION = "(*)"
"""In the kind of a template parameter that is a function, its place; as its value, one without a body."""

_CONSTANT = re.compile(r"(?:static\s+)?const|using|typedef|enum")
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(((?:[^()\n\\]|\\\r?\n)*)\)((?:\\\r?\n|[^\n])*)", re.MULTILINE
)
_CALL = re.compile(r"\b([A-Za-z_]\w*)[ \t]*\(")
_COMMENT = re.compile(r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.DOTALL)
_BY_FUNCTION = re.compile(r"\bcuda(?:Launch(?:Cooperative)?Kernel(Ex|ExC)?)\s*(?:<[^<>;]*>)?\s*\(")
_HELD = re.compile(r"(?:\bauto|\*)\s*&?\s*(?:const\s+)?(\w+)\s*\)?\s*(?:\([^()]*\)\s*)?=\s*&?\s*(?:\w+::)*\Z")
"""Text in front of a kernel whose address a variable is given."""

_SETS = r"\bNAME\b(?:\.\w+)?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|&)\s*NAME\b|\bNAME\s*(?:\+\+|--)"
"""Text that sets a variable, or takes its address."""

_INTEGERS = frozenset(
    {"const", "int", "unsigned", "signed", "long", "short", "char", "size_t", "auto", "bool"}
)
_INTEGERS |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "<": ">"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARATIONS = frozenset({"declaration", "alias_declaration", "type_definition", "enum_specifier"})


_Form: TypeAlias = "Callable[[Census, Any, str], str]"


class Instance(NamedTuple):
    """A use of a kernel in a line: its template arguments, and declarations of what they name.

    `open` are the (kind, name) of template parameters around it that no use gives a value, `bound`
    declares the others.  Of a launch, `shape` are the grid and the block, `values` the arguments,
    `parameters` those of the function around it; `constants` declares what the shape names, `variables` what
    the arguments do.
    """

    arguments: tuple[str, ...]
    declared: str = ""
    bound: str = ""
    open: tuple[tuple[str, str], ...] = ()
    line: int = 0
    shape: tuple[str, ...] = ()
    values: str = ""
    parameters: str = ""
    constants: str = ""
    variables: str = ""

    def outside(self, name: str) -> str:
        """Scopes around a function that uses a kernel of this name, which `ends` closes."""
        spaces = name.split("::")[:-1]
        using = (f"using namespace {'::'.join(spaces[: n + 1])}; " for n in range(len(spaces)))
        return "".join(using) + self.bound

    @property
    def ends(self) -> str:
        """The ends of the scopes that are open behind `bound`."""
        return " }" * self.bound.count(_INNER)


def written_out(texts: Sequence[Census]) -> list[Census]:
    """Texts in which macros that name a kernel or a template are what they become, each in its line."""
    plain = [_COMMENT.sub(_without, census.text.decode("utf-8", "replace")) for census in texts]
    macros = {found[1]: (found[2], found[3]) for text in reversed(plain) for found in _DEFINE.finditer(text)}
    functions = [f for census in texts for f in census.functions]
    names = {f.name for f in functions if f.kernel or ("template" in f.words and not f.device)}
    out = []
    for census, text in zip(texts, plain, strict=True):
        written = _written(_DEFINE.sub(_without, text), macros, names)
        if not names.isdisjoint(_WORD.findall(written)):
            out.append(Census(written.encode(), census.before))
    return out


def _without(found: re.Match[str]) -> str:
    """Spaces in place of what is found, unless it is a literal."""
    return found[0] if found[0][:1] == '"' else re.sub(r"[^\n]", " ", found[0])


def _written(text: str, macros: dict[str, tuple[str, str]], names: set[str], depth: int = DEPTH) -> str:
    """A text with the macros written out that become text with one of these names."""
    parts, at = [""], 0
    for call in _CALL.finditer(text):
        known = call[1] in macros and call.start() >= at
        end = closed(text, call.end(), ")") if known else 0
        if not end:
            continue
        arguments, (head, body) = text[call.end() : end - 1], macros[call[1]]
        if depth:  # arguments are written out first, by the macro that they are handed to, too
            arguments = _written(arguments, macros, names, depth - 1)
        by = dict(zip(words_in([head]), parts_of(arguments), strict=False))
        if "..." in head:
            rest = head.count(",")
            by["__VA_ARGS__"] = ", ".join(parts_of(arguments)[rest:])
        body = re.sub(r"\s*##\s*", "##", re.sub(r"\\\r?\n", " ", body))
        body = with_values(by, re.sub(r"(?<!#)#(?!#)\s*\w+", '""', body)).replace("##", "")
        if depth and len(body) < MOST_WRITTEN:
            inner = {name: macro for name, macro in macros.items() if name != call[1]}
            body = _written(body, inner, names, depth - 1)
        if len(body) < MOST_WRITTEN and not names.isdisjoint(_WORD.findall(body)):
            parts += [text[at : call.start()], body, "\n" * text.count("\n", call.start(), end)]
            at = end
    return "".join((*parts, text[at:]))


def instances(
    texts: Sequence[Census], name: str, values: dict[str, str], depth: int = DEPTH
) -> list[Instance]:
    """The uses of a kernel, or of a template, in texts; `values` are those of names that are given."""
    found: dict[Instance, None] = {}
    for census, use in _uses(texts, name):
        text = census.text.decode("utf-8", "replace")
        split, end = _template_arguments(text, use.end())
        shape, call = _launch(text, use.start(), end)
        if not shape and (held := _HELD.search(text[: use.start()][-200:])) is not None:
            shape, call = _launch_of(text, held[1], end)
        if (split is None and not shape) or _SPECIAL.search(text[: use.start()][-400:]):
            continue
        offset = len(text[: use.start()].encode())
        inside = census.function(offset)
        line = census.before + text.count("\n", 0, use.start()) + 1
        words = [set(words_in(part)) for part in (split or (), shape, (call,))]
        typed = _as_variable if any("decltype" in part for part in split or ()) else None
        told = ("", "", "") if inside is None else _declarations(census, inside, offset, words, typed)
        parameters = "" if inside is None else bracketed(inside.parameters)
        outer = [] if inside is None else parameters_of(inside)
        local = set(words_in(told[:1]))
        for caller, given in _around(texts, inside, outer, values, depth):
            by = {name: value for name, value in given.items() if local.isdisjoint(words_in([value]))}
            arguments = tuple(with_values(by, part) for part in split or ())
            needed = set(words_in([*arguments, *told, parameters, *shape, call]))
            pairs = [(kind, name, given[name]) for kind, name in outer
                     if name in given and name in needed and kind != "template"]  # fmt: skip
            bound = caller.bound + caller.declared + _scope(pairs)
            open_ = caller.open + tuple(pair for pair in outer if pair[1] not in given)
            found[Instance(arguments, told[0], bound, open_, line, shape, call, parameters, *told[1:])] = None
        if len(found) > MOST_USES:
            break
    return list(found)


def _uses(texts: Sequence[Census], name: str) -> Iterator[tuple[Census, re.Match[str]]]:
    """The places of texts that name a function without calling it."""
    used = re.compile(rf"\b{re.escape(name)}\b(?=\s*(?:<|[,)]))")
    for census in texts:
        if name.encode() in census.text:
            for use in used.finditer(census.text.decode("utf-8", "replace")):
                yield census, use


def _template_arguments(text: str, at: int) -> tuple[tuple[str, ...] | None, int]:
    """The template arguments behind a name, None where there are none, and where they end."""
    opened = re.compile(r"\s*<(?![<=])").match(text, at)
    split = None if opened is None else arguments_at(text, opened.end())
    return (None, at) if opened is None or split is None else (split, closed(text, opened.end(), ">"))


def arguments_at(text: str, at: int) -> tuple[str, ...] | None:
    """The arguments behind an opening bracket, where they are those of a use of a function.

    >>> arguments_at("k<128, f(1, 2), A<3>, (4 > 3)><<<g, b>>>(p);", 2)
    ('128', 'f(1, 2)', 'A<3>', '(4 > 3)')
    >>> arguments_at("k < n + 1;", 3) is None
    True
    """
    end = closed(text, at, ">")
    used = re.compile(r"\s*(?:<<<|[(),;])").match(text, end)
    return parts_of(text[at : end - 1], "<") if end and used is not None else None


def closed(text: str, at: int, closing: str) -> int:
    """The place behind the bracket that closes what is open at a place; 0 where there is none."""
    waiting = [closing]
    for i in range(at, min(len(text), at + (4000 if closing == ">" else MOST_WRITTEN))):
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


def parts_of(text: str, angle: str = "") -> tuple[str, ...]:
    """The parts between commas outside of brackets, of `angle` too, where these are brackets."""
    ends = (-1, *signs(text, ",", angle), len(text))
    return tuple(" ".join(text[start + 1 : end].split()) for start, end in itertools.pairwise(ends))


def signs(text: str, sign: str, angle: str = "") -> Iterator[int]:
    """The places of a sign outside of brackets."""
    waiting: list[str] = []
    for at, c in enumerate(text):
        if waiting and c == waiting[-1]:
            waiting.pop()
        elif c in f"([{{{angle}":
            waiting.append(_CLOSED_BY[c])
        elif c == sign and not waiting:
            yield at


def _launch(text: str, start: int, end: int) -> tuple[tuple[str, ...], str]:
    """(grid, block) and the arguments in brackets of a launch of the kernel that is named at a place."""
    opened = re.compile(r"\s*<<<").match(text, end)
    if opened is not None:
        close = text.find(">>>", opened.end())
        call = re.compile(r"\s*\(").match(text, close + 3)
        behind = closed(text, call.end(), ")") if call is not None and close >= 0 else 0
        if call is None or not behind:
            return (), ""
        return parts_of(text[opened.end() : close])[:2], text[call.end() - 1 : behind]
    for called in _BY_FUNCTION.finditer(text[:start], max(start - 400, 0)):
        behind = closed(text, called.end(), ")")
        if behind > end:
            parts = parts_of(text[called.end() : behind - 1])
            config = parts[0].lstrip("& ")
            if called[1] != "Ex":
                return parts[1:3], ""
            sides = [re.findall(rf"\b{re.escape(config)}\.{side}\s*=\s*([^;]+);", text[:start])[-1:]
                     for side in ("gridDim", "blockDim")]  # fmt: skip
            return tuple(" ".join(side) or config for side in sides), ""
    return (), ""


def _launch_of(text: str, name: str, at: int) -> tuple[tuple[str, ...], str]:
    """The first launch behind a place of the kernel whose address a variable holds."""
    for used in re.finditer(rf"\b{re.escape(name)}\b", text[at : at + MOST_WRITTEN]):
        if (found := _launch(text, at + used.start(), at + used.end()))[0]:
            return found
    return (), ""


def with_values(given: dict[str, str], text: str) -> str:
    """A text with the values of names in place of them."""
    return _WORD.sub(lambda word: given.get(word[0], word[0]), text)


def _around(
    texts: Sequence[Census],
    inside: Function | None,
    outer: list[tuple[str, str]],
    values: dict[str, str],
    depth: int,
) -> Iterator[tuple[Instance, dict[str, str]]]:
    """The uses of the function around a use, and the values that each gives to its template parameters."""
    uses = [Instance(())]
    if inside is not None and depth and not all(name in values for _, name in outer):
        uses = instances(texts, inside.name, values, depth - 1) or uses
    names = [name for _, name in outer]
    for use in uses:
        given = dict(zip(names, use.arguments, strict=False))
        yield use, given | {name: values[name] for name in names if name in values}


def _scope(pairs: list[tuple[str, str, str]]) -> str:
    """A scope with template parameters, whose values may have names that it declares anew."""
    if not pairs:
        return ""
    values = "".join(
        declared(kind if is_type(kind) else "auto", f"layoutalg_{name}", value) for kind, name, value in pairs
    )
    return f"{values}{_INNER}{''.join(declared(kind, name, f'layoutalg_{name}') for kind, name, _ in pairs)}"


def declared(kind: str, name: str, value: str) -> str:
    """The declaration of a template parameter as a type or a constant."""
    if is_type(kind):
        return f"using {name} = {value}; "
    if value == FUNCTION:
        return f"__device__ {kind.replace(FUNCTION, name, 1)}; "
    plain = kind if kind.split()[-1] == "auto" else f"__typeof__({kind})"
    return f"constexpr {plain} {name} = {as_of(kind, value)}; "


def is_type(kind: str) -> bool:
    """Whether a template parameter of a kind is a type."""
    return kind.split()[-1] in ("typename", "class")


def is_integer(kind: str) -> bool:
    """Whether a type is an integer by its name."""
    return re.fullmatch(r"[\w\s]+", kind) is not None and set(words_in([kind])) <= _INTEGERS


def as_of(kind: str, value: str) -> str:
    """A value of a parameter, a number also of an enumeration and of no pointer."""
    return f"static_cast<{kind}>({value} + 0)" if value.isdigit() and not is_integer(kind) else value


def _declarations(
    census: Census, inside: Function, offset: int, needed: list[set[str]], typed: _Form | None
) -> tuple[str, str, str]:
    """The declarations in front of a place, in the blocks around it, of the names that are needed.

    Of constants and types as they are, with `typed` of variables, too; of variables that are set once as
    constants, and without their values.
    """
    node = census.node_at(offset, offset)
    body = census.text[inside.start : inside.end].decode("utf-8", "replace")
    lines: tuple[list[str], list[str], list[str]] = ([], [], [])
    while node is not None and node.start_byte >= inside.start:
        before = node.prev_sibling
        while before is not None and before.start_byte > inside.start:
            said = census.said(before)
            for names, kind, form in zip(needed, lines, (typed, _as_constant, _as_variable), strict=True):
                if said in lines[0]:
                    break
                if _declares(before.type, said, names):
                    kind.append(said)
                elif form is None or before.type != "declaration" or names.isdisjoint(_names(census, before)):
                    continue
                else:
                    kind.append(form(census, before, body))
                names |= set(words_in([kind[-1]]))
            before = before.prev_sibling
        node = node.parent
    first, second, third = ("\n".join(("", *reversed(kind), "")) for kind in lines)
    return first, second, third


def _names(census: Census, declaration: Any) -> list[str]:
    """The names that a declaration declares."""
    heads = (re.split(r"[=({]", census.said(d))[0] for d in declaration.children_by_field_name("declarator"))
    return [words[-1] for head in heads if (words := words_in([head]))]


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
    said, kind = " ".join(census.said(declaration).split()), declaration.child_by_field_name("type")
    return (
        said
        if (kind is not None and kind.type == "type_identifier") or "auto" in said
        else without_values(said)
    )


def without_values(declarations: str) -> str:
    """Declarations of variables that are set to nothing, but of those whose type their value says."""
    lines = declarations.split("\n")
    values = re.compile(r"=(?!=)[^,;]*(?:\([^;]*\))?[^,;]*")
    return "\n".join(line if "auto" in line else values.sub("= {}", line) for line in lines)


def _declares(kind: str, said: str, needed: set[str]) -> bool:
    """Whether a statement, or a choice of the preprocessor, declares a constant or a type that is needed."""
    if kind.startswith("preproc_if"):
        return not needed.isdisjoint(words_in([said]))
    if kind not in _DECLARATIONS or _CONSTANT.match(said) is None:
        return False
    names = words_in([said if said.startswith("typedef") else said.partition("=")[0]])
    return not needed.isdisjoint(names if kind == "enum_specifier" else names[-1:])


def bracketed(text: str) -> str:
    """The first brackets of a text with what is in them, "" where there are none."""
    at = text.find("(")
    return text[at : closed(text, at + 1, ")")] if at >= 0 else ""


def words_in(texts: Iterable[str]) -> list[str]:
    """The identifiers and keywords of texts."""
    return _WORD.findall(" ".join(texts))


def parameters_of(function: Function) -> list[tuple[str, str]]:
    """(kind, name) of each template parameter of a function."""
    opened = re.match(r"\s*template\s*<", function.words)
    if opened is None:
        return []
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", function.words[opened.end() :], flags=re.DOTALL)
    matches = map(_PARAMETER.match, parts_of(text[: closed(text, 0, ">") - 1], "<"))
    return [
        (f"{m['kind']} {FUNCTION}{m['of']}", m["function"]) if m["function"]
        else ("template" if m["kind"].startswith("template") else m["kind"], m["name"])
        for m in matches if m is not None
    ]  # fmt: skip
