"""Tokens of C and CUDA text: comments gone, macros replaced, each with its line and column.

The idea.  What a preprocessor does to an index function is done here on tokens, so that nothing is run:
`#define` of names and of macros with parameters, `#undef`, `#ifdef`, `#ifndef`, `#if 0`, `#if 1`, `#else`
and `#endif`; `#include`, `#pragma` and `#line` are skipped.

>>> [t.text for t in tokens("#define LD 64\\nrow * LD // rows")]
['row', '*', '64']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from layoutalg.errors import ParseError, check_type
from layoutalg.limits import Most

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\f\v]+|\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/)"
    r"|(?P<line>\n)"
    r"|(?P<open>/\*)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.'])*)"
    r"|(?P<name>[A-Za-z_$]\w*)"
    r"|(?P<mark><<<|>>>|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|##"
    r"|[-+*/%^&|]=|[-+*/%^&|~!<>=?:;,.(){}\[\]#])",
    re.DOTALL | re.ASCII,
)


class Token(NamedTuple):
    """A token and where it begins; one of a macro is placed where the macro was used."""

    kind: str
    text: str
    line: int
    column: int
    position: int

    @property
    def place(self) -> str:
        """`line 3, column 7`"""
        return f"line {self.line}, column {self.column}"


def refuse(token: Token, why: str, text: str = "") -> NoReturn:
    """Raise ParseError at a token."""
    shown = repr(token.text[:40]) if token.text else "the end"
    raise ParseError(f"{token.place}: {shown} {why}", text=text, position=token.position)


class _Macro(NamedTuple):
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


def tokens(text: str) -> list[Token]:
    """The tokens of a text after preprocessing.

    Raises ParseError with line and column, ResourceError for a text past Most.TEXT or Most.TOKENS.
    """
    check_type("tokens", text, str, "a text")
    Most.TEXT.guard(len(text), "characters of the source")
    macros: dict[str, _Macro] = {}
    taken: list[bool] = []  # of the #if that are open, whether their lines count
    out: list[Token] = []
    waiting: list[Token] = []  # lines under the same macros: a call of one may go over several
    seen = [0]
    for line in _lines(text):
        if line[0].text == "#":
            if len(line) > 1 and line[1].text in ("define", "undef"):
                out += _replaced(waiting, macros, frozenset(), seen)
                waiting = []
            _directive(line, macros, taken)
        elif all(taken):
            waiting += line
            Most.TOKENS.guard(len(waiting), "tokens of the source")
    return out + _replaced(waiting, macros, frozenset(), seen)


def macro_parameters(text: str, name: str) -> tuple[str, ...] | None:
    """The parameters of the macro that has this name at the end of a text; None where none has.

    >>> macro_parameters("#define AT(r, c) ((r) * 64 + (c))", "AT")
    ('r', 'c')
    """
    macros: dict[str, _Macro] = {}
    taken: list[bool] = []
    for line in _lines(text):
        if line[0].text == "#":
            _directive(line, macros, taken)
    macro = macros.get(name)
    return None if macro is None else macro.parameters


def _lines(text: str) -> list[list[Token]]:
    """Tokens by logical line, those without any left out."""
    lines: list[list[Token]] = [[]]
    position, number, start = 0, 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        here = Token("", text[position : position + 1], number, position - start + 1, position)
        if match is None:
            refuse(here, "is not C", text)
        kind = match.lastgroup or ""
        if kind == "open":
            refuse(here._replace(text="/*"), "opens a comment that does not end", text)
        if kind == "line":
            lines.append([])
        elif kind != "blank":
            lines[-1].append(here._replace(kind=kind, text=match[0]))
        if breaks := match[0].count("\n"):
            number, start = number + breaks, match.start() + match[0].rindex("\n") + 1
        position = match.end()
    return [line for line in lines if line]


def _directive(line: list[Token], macros: dict[str, _Macro], taken: list[bool]) -> None:
    if len(line) < 2:
        return
    word, rest = line[1].text, line[2:]
    if word in ("ifdef", "ifndef", "if"):
        if not rest:
            refuse(line[1], "says nothing")
        if word != "if":
            taken.append((rest[0].text in macros) == (word == "ifdef"))
        elif len(rest) == 1 and rest[0].text in ("0", "1"):
            taken.append(rest[0].text == "1")
        elif all(taken):
            refuse(rest[0], "is a condition of #if; read are 0, 1, #ifdef and #ifndef")
        else:
            taken.append(False)
    elif word == "elif":
        refuse(line[1], "is a condition that is not read; read are #if 0, #if 1, #ifdef and #ifndef")
    elif word in ("else", "endif"):
        if not taken:
            refuse(line[1], "has no #if")
        last = taken.pop()
        if word == "else":
            taken.append(not last)
    elif all(taken) and word == "define" and rest:
        macros[rest[0].text] = _macro(rest)
    elif all(taken) and word == "undef" and rest:
        macros.pop(rest[0].text, None)
    elif all(taken) and word not in ("include", "pragma", "line", "error", "warning", "define", "undef"):
        refuse(line[1], "is not a directive that is read")


def _macro(rest: list[Token]) -> _Macro:
    name = rest[0]
    adjoining = len(rest) > 1 and rest[1].text == "(" and rest[1].position == name.position + len(name.text)
    if not adjoining:
        return _Macro(None, tuple(rest[1:]))
    names: list[str] = []
    for k, token in enumerate(rest[2:], 2):
        if token.text == ")":
            return _Macro(tuple(names), tuple(rest[k + 1 :]))
        if token.kind == "name":
            names.append(token.text)
        elif token.text != ",":
            refuse(token, "stands in the parameters of a macro")
    refuse(name, "is a macro whose parameters do not end")


def _replaced(
    stream: Sequence[Token], macros: dict[str, _Macro], hidden: frozenset[str], seen: list[int]
) -> list[Token]:
    """Tokens with the macros replaced; a macro is not replaced inside its own replacement."""
    out: list[Token] = []
    k = 0
    while k < len(stream):
        seen[0] += 1
        Most.TOKENS.guard(seen[0], "tokens of the source with its macros replaced")
        token = stream[k]
        k += 1
        macro = macros.get(token.text) if token.kind == "name" and token.text not in hidden else None
        if macro is None or (macro.parameters is not None and (k >= len(stream) or stream[k].text != "(")):
            out.append(token)
            continue
        values: dict[str, list[Token]] = {}
        if macro.parameters is not None:
            arguments, k = _arguments(stream, k, token)
            if arguments == [[]] and not macro.parameters:
                arguments = []
            if len(arguments) != len(macro.parameters):
                refuse(token, f"takes {len(macro.parameters)} arguments, not {len(arguments)}")
            replaced = (_replaced(a, macros, hidden, seen) for a in arguments)
            values = dict(zip(macro.parameters, replaced, strict=True))
        body: list[Token] = []
        for part in macro.body:
            if part.text in ("#", "##"):
                refuse(token, f"is a macro with {part.text}, which is not read")
            placed = part._replace(line=token.line, column=token.column, position=token.position)
            body += values.get(part.text, [placed])
        out += _replaced(body, macros, hidden | {token.text}, seen)
    return out


def _arguments(stream: Sequence[Token], k: int, name: Token) -> tuple[list[list[Token]], int]:
    """The arguments of a macro from its "(" at `k` on, and where they end."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for at in range(k, len(stream)):
        token = stream[at]
        depth += token.text in "([{"
        depth -= token.text in ")]}"
        if depth == 0:
            return arguments, at + 1
        if token.text == "," and depth == 1:
            arguments.append([])
        elif not (at == k and token.text == "("):
            arguments[-1].append(token)
    refuse(name, "is a macro whose arguments do not end")
