"""Parameters of commands, declared beside a function; argparse reads their words and writes their help.

A parameter of the function is Annotated with a Parameter, or with a text of help alone, which makes an option
that is called as the parameter is; one whose type is a dataclass stands for its fields.  The type says how
a word is read (str, int, float or Path); a list takes several words, a bool takes none, and a parameter that
has a default may be left out.

>>> from typing import Annotated
>>> def area(m: Annotated[int, Parameter("Rows.")], *, n: Annotated[int, "Columns."] = 2) -> int:
...     return m * n
>>> [(p.name, declared.help) for p, declared in parameters_of(area)], call(area, {"m": 3})
([('m', 'Rows.'), ('n', 'Columns.')], 6)

A shell completes commands, options and values by argcomplete, where that is installed:

    eval "$(register-python-argcomplete layoutalg)"
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, TypeAlias, cast, get_args, get_origin

from layoutalg import __version__
from layoutalg.cli.files import read_source
from layoutalg.cli.output import page_width
from layoutalg.cli.refusals import EXIT_CODES
from layoutalg.cli.table import COMMANDS, FIRST, Command
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, check_choice

Completer: TypeAlias = Callable[[str], list[str]]
"""The words that a shell offers for one that is begun."""

Stdin: TypeAlias = Literal["text", "file"]
"""The meaning of the word "-": the text of standard input, or standard input in place of a file."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command, as a person writes it."""

    help: str
    names: tuple[str, ...] | None = None
    """Names of an option, such as --output and -o; () is one made of the name; None is an argument."""
    complete: Completer | None = None
    stdin: Stdin | None = None


def parameters_of(command: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Parameter]]:
    """The parameters of a command in their order, the fields of its records among them."""
    for p in _signature(command):
        if record := _record(p):
            yield from parameters_of(record)
        else:
            declared = get_args(p.annotation)[1]
            yield p, Parameter(declared, ()) if isinstance(declared, str) else declared


def call(command: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The result of a command for values of its parameters, from which its records are made."""
    records = {p.name: call(record, values) for p in _signature(command) if (record := _record(p))}
    own = {p.name: values[p.name] for p in _signature(command) if p.name in values}
    return command(**own, **records)


def _signature(command: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(command, eval_str=True).parameters.values()


def _record(p: inspect.Parameter) -> Callable[..., Any] | None:
    """The dataclass that a parameter is, whose fields it stands for."""
    return cast("Callable[..., Any]", p.annotation) if is_dataclass(p.annotation) else None


ABOUT = f"""Analyse GPU memory layouts, find conflict-free ones, generate kernels from them and verify them.

{EXIT_CODES}"""
"""The text of help of the command."""

_TERMS = "The terms (wavefront, phase, ideal, worst base, K and F, ...) are explained by layoutalg help TERM."

_VALUES = {str: "TEXT", int: "INT", float: "NUMBER", Path: "PATH"}


_FEW = 12
"""Values of an option that a sentence lists."""


class UsageError(LayoutAlgError):
    """A word that is missing, too many or of another type."""


class _Help(argparse.HelpFormatter):
    """Help that fills the page, paragraph by paragraph; lines to copy are not broken."""

    def __init__(self, prog: str) -> None:

        super().__init__(prog, width=page_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            f"  {part}" if part.startswith("layoutalg ") else super(_Help, self)._fill_text(part, width, "")
            for part in text.split("\n\n")
        )


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are errors of this library."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **settings)

    def error(self, message: str) -> NoReturn:
        more = f"; {self.prog} --help lists them" if "are required" in message else ""
        raise UsageError(f"{message.replace(': -- ', ': ')}{more}")  # the -- is of `_sorted`


def overview(line: str = "") -> argparse.ArgumentParser:
    """The parser of all commands, with what each does, or for a shell the options of those in a line."""
    parser = _Parser(prog="layoutalg", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"layoutalg {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    words = line.split()
    for first in FIRST:
        parts = _parts(first)
        text = _INSPECT if first not in COMMANDS else COMMANDS[first].summary
        added = commands.add_parser(first, help=None if line else text)
        if first in words and parts:
            _add_parts(added, first, words)
        if first in words and first in COMMANDS:
            _fill(added, COMMANDS[first])
    return parser


_INSPECT = "Show what a kernel, a board or a run is made of: inspect WHAT."
"""The text of help of `inspect`, a word that needs a second one."""


def part_overview(first: str) -> argparse.ArgumentParser:
    """The parser of what the first word of a name shows, with what each does."""
    parser = _Parser(prog=f"layoutalg {first}", description=_INSPECT)
    _add_parts(parser, first, None)
    return parser


def _parts(first: str) -> list[str]:
    """The second words of the names that begin with a word."""
    return [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{first} ")]


def _add_parts(parser: argparse.ArgumentParser, first: str, words: Sequence[str] | None) -> None:
    """Parsers of the second words: for a shell those in a line are filled, else each has its text of help."""
    parts = parser.add_subparsers(title="parts", metavar="WHAT", required=False)
    for part in _parts(first):
        command = COMMANDS[f"{first} {part}"]
        added = parts.add_parser(part, help=command.summary if words is None else None)
        if words is not None and part in words:
            _fill(added, command)


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a command."""
    parser = _Parser(prog=f"layoutalg {name}")
    _fill(parser, COMMANDS[name])
    return parser


def read_line(name: str, words: Sequence[str]) -> dict[str, Any]:
    """The values of a command's parameters by their names, with what - names read from standard input.

    Those that have no words may be absent.  Raises UnknownNameError for an option that there is not,
    UsageError for words that are missing, too many or of another type, ArgumentTypeError for a second -, and
    as `read_source`.
    """
    parser = parser_of(name)
    read = vars(parser.parse_args(_sorted(words, parser)))
    values = {key: value for key, value in read.items() if value != []}
    piped = {p.name: declared.stdin for p, declared in parameters_of(COMMANDS[name].function)}
    words_of = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    dashes = [key for key in words_of if piped.get(key) for word in words_of[key] if str(word) == "-"]
    if len(dashes) > 1:
        raise ArgumentTypeError("standard input is read once: only one argument may be -")
    for key in dashes:
        if piped[key] == "text":
            text, value = read_source("-").rstrip("\n"), values[key]
            values[key] = text if value == "-" else [text if word == "-" else word for word in value]
    return values


def _fill(parser: argparse.ArgumentParser, command: Command) -> None:
    parser.description, parser.epilog = inspect.getdoc(command.function), _TERMS if command.terms else None
    for p, declared in parameters_of(command.function):
        _add(parser, p, declared)
    parser.add_argument("--json", action="store_true", help="Print one JSON object and nothing else.")
    if command.budget:
        text = "Factor on the work limit of searches, 1 or more. [default: 1]"
        parser.add_argument("--budget", type=int, default=1, metavar="INT", help=text)


def _add(parser: argparse.ArgumentParser, p: inspect.Parameter, declared: Parameter) -> None:
    hint = get_args(p.annotation)[0]
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    many = list in (get_origin(hint), get_origin(kinds[0]))
    kind = (get_args(kinds[0]) or kinds)[0]
    required = p.default is p.empty
    default = None if required else p.default
    shown = "" if default is None or default is False else f" [default: {default}]"
    settings: dict[str, Any] = {"help": f"{declared.help}{shown}".replace("%", "%%"), "default": default}
    names = declared.names
    if names is None:
        settings["type"] = kind
        if many or not required:
            settings["nargs"] = "?" if not many else "+" if required else "*"
    else:
        settings |= {"dest": p.name, "required": required}
        if kind is bool:
            settings["action"] = "store_true" if default is False else argparse.BooleanOptionalAction
        else:
            settings |= {"type": kind, "metavar": _VALUES[kind], "action": "append" if many else "store"}
        names = names or (f"--{p.name.replace('_', '-')}",)
    action: Any = parser.add_argument(*(names or [p.name]), **settings)
    if (complete := declared.complete) is not None:
        action.completer = lambda prefix, **_: complete(prefix)


def _sorted(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The options with their values joined to them, and behind -- the arguments.

    argparse refuses values that begin with a minus, such as an index expression, where they stand alone, and
    arguments on both sides of an option.
    """
    known = parser._option_string_actions
    options: list[str] = []
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            arguments += rest
        elif word == "-" or not word.startswith("-"):
            arguments.append(word)
        else:
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            takes_value = known[check_choice("option", name, known)].nargs != 0
            value = next(rest, None) if takes_value and word == name else None
            if takes_value and word == name and value in (None, "--"):  # argparse would drop the second
                raise UsageError(f"argument {name}: expected one argument{_choices(known[name])}")
            options.append(word if value is None else f"{name}={value}")
    return [*options, "--", *arguments] if arguments else options


def _choices(action: Any) -> str:
    """The words that a shell would offer for an option's value, behind a colon, where they are few."""
    words = completer("") if (completer := getattr(action, "completer", None)) else []
    return f": {', '.join(words)}" if 0 < len(words) <= _FEW else ""
