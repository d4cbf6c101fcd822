"""A CUDA text parsed in a process of its own, with limits: back comes a tree of kernels, and the census.

    Parsed       kernels, the census' sites, what was taken out and why
    Kernel       the definition that is read: its nodes, types, declarations and functions
    Node         a statement or an expression; Type, Declaration

Nothing of the text is run.  The process has a time limit and 4 GiB; where it ends otherwise, that is the
error.
"""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from layoutalg.arch import DEFAULT_ARCH
from layoutalg.errors import CompileError, ParseError, UndecidedError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.source.front.census import LINES, Choice, Site
from layoutalg.source.front.uses import Use, Written
from layoutalg.tools import run_tool

SECONDS = 60.0
"""The longest time that parsing a text may take."""

T = TypeVar("T")

bool_: TypeAlias = bool
"""The type, where a field of Type has its name."""

_RUN = (
    "import sys; sys.path[:0] = sys.argv[1:]; from layoutalg.source.front.child import main; "
    "from layoutalg.source import cute; main(cute)"
)
"""The process; what declares CuTe is handed to it, since that room imports this one."""


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type: `kind` is int, float, pointer, reference, array, record, void or other.

    `to` is what a pointer points at or an array has `extent` of; `fields` are (name, byte offset, type),
    those of the first base in front, and `narrow` has the widths of bit-fields.  `bases` are the names of
    bases at the object's own address, `others` of those behind it.  `plain`: all members are in `fields`,
    and none has a value of its own.  `ends`: a destructor runs at the end of its life; `makes`: to
    make one executes more than plain numbers that is not in a constructor's text.
    """

    kind: str
    name: str
    bytes: int
    align: int = 1
    signed: bool = False
    bool: bool = False
    extent: int = 0
    to: Type | None = None
    fields: tuple[tuple[str, int, Type], ...] = ()
    const: bool_ = False
    narrow: Mapping[str, int] = field(default_factory=dict)
    bases: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    union: bool_ = False
    ends: bool_ = False
    makes: bool_ = False
    plain: bool_ = True


@dataclass(slots=True, eq=False)
class Node:
    """A node of the tree, as layoutalg.source.front.dump describes them."""

    kind: str
    line: int
    column: int
    type: Type | None
    value: Any
    children: tuple[Node | None, ...]

    @property
    def place(self) -> str:
        """The line and column of the node, in words."""
        return f"line {self.line % LINES}, column {self.column}"

    @property
    def below(self) -> list[Node]:
        """The children that are there."""
        return [child for child in self.children if child is not None]

    def part(self, index: int) -> Node:
        """A child that is always there; raises ParseError where it is not."""
        child = self.children[index]
        if child is None:
            raise ParseError(f"the {self.kind} at {self.place} lacks a part")
        return child

    def walk(self) -> Iterator[Node]:
        """This node and all below."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            if isinstance(node.value, dict) and isinstance(node.value.get("object"), Node):
                waiting.append(node.value["object"])
            waiting += reversed(node.below)


@dataclass(slots=True, eq=False)
class Declaration:
    """A variable: `space` is local, shared, constant or global.

    Of a shared one, `written` is its declaration in its text with its uses, None where that is not there
    as it is written, and `references` are the lines and columns where the front end's tree names it.
    """

    number: int
    name: str
    type: Type
    space: str
    line: int
    parameter: bool
    at_top: bool
    init: Node | None
    column: int = 0
    file: str = ""
    written: Written | None = None
    references: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> tuple[str, int, int, str]:
        """The place that tells a declaration from others of its name, in one kernel or in several."""
        return self.file, self.line, self.column, self.name


@dataclass(slots=True, eq=False)
class Function:
    """A function with its body, None where it is only declared; of a `foreign` one nothing is known.

    A `library` one is of CUDA's headers: what its body accesses is told at the call.

    `copies` are the variables that a lambda copied, `inits` what a constructor gives to its members.
    """

    name: str
    line: int
    parameters: tuple[int, ...]
    body: Node | None
    method: bool
    constructor: bool
    result: Type | None = None
    copies: tuple[int, ...] = ()
    inits: tuple[tuple[str, Node], ...] = ()
    extent: tuple[int, int] = (0, 0)
    foreign: bool = False
    library: bool = False

    def nodes(self) -> Iterator[Node]:
        """All nodes of the body."""
        return iter(()) if self.body is None else self.body.walk()


class Removed(NamedTuple):
    """A statement that was taken out: its lines, the error with its place, where it starts, and its function.

    `names` are the identifiers in it that may be variables, `text` is its beginning.  Of a part outside of
    all functions, `doubt` says whether what is left of the source still uses a name that it declares.
    """

    first: int
    last: int
    line: int
    column: int
    why: str
    at: int
    function: str
    names: tuple[str, ...]
    text: str
    file: str = ""
    doubt: bool = False


class Shape(NamedTuple):
    """A launch in a line: the text of its block, the block and the grid, None where they are not constant."""

    line: int
    text: str
    block: tuple[int, int, int] | None
    grid: tuple[int, int, int] | None


class Assumed(NamedTuple):
    """A function that uses a name which is declared nowhere: what was assumed of it, and the first line."""

    why: str
    line: int
    function: str


@dataclass(slots=True, eq=False)
class Kernel:
    """A kernel of the text; `root` is None where `why` says why it is not read.

    Of a template, `others` are the arguments of the instances in the text that are not read, and the
    options that choose them.  `launches` are those of the text, where it has some those of the instance;
    `instance` are its arguments, declarations of what they name, and what closes these; `taken` are the
    names that the text leaves open, with the values for which the kernel is read.
    """

    name: str
    line: int
    extent: tuple[int, int]
    why: str
    parameters: tuple[str, ...]
    template: tuple[str, ...]
    root: Function | None
    declarations: Mapping[int, Declaration] = field(default_factory=dict)
    functions: Mapping[int, Function] = field(default_factory=dict)
    others: tuple[tuple[str, str], ...] = ()
    launches: tuple[Shape, ...] = ()
    instance: tuple[tuple[str, ...], str, str] = ((), "", "")
    taken: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, eq=False)
class Parsed:
    """The reading of a text: `names` are all its kernels, `kernels` those requested.

    `removed` is what was taken out for its errors; `unknown` are names that are declared nowhere and for
    which a value helps, `defined` those of the given values that the preprocessor took.  `numbers` are the
    names that the text declares as plain numbers, `functions` those of its device functions with a body.
    `hidden` are kernels of the text, and their lines, that the front end does not have; `files` are the text
    and its own headers.  Lines count in one numbering of all of them.  `open` are the names that are read as
    numbers that are not known, `assumed` the functions in which something was assumed of a name.
    `choices` are the branches of each `if constexpr`, `absent` the lines that the preprocessor leaves out
    whatever a header or a build may say, `silent` functions of CuTe that touch no memory.
    """

    kernels: tuple[Kernel, ...]
    names: tuple[str, ...]
    sites: tuple[Site, ...]
    removed: tuple[Removed, ...]
    unknown: tuple[str, ...]
    defined: tuple[str, ...]
    headers: tuple[str, ...]
    numbers: frozenset[str]
    functions: frozenset[str]
    hidden: tuple[tuple[str, int], ...] = ()
    files: tuple[str, ...] = ("",)
    paths: tuple[str, ...] = ("",)
    open: tuple[str, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    choices: tuple[Choice, ...] = ()
    absent: tuple[tuple[int, int], ...] = ()
    silent: frozenset[str] = frozenset()

    def place(self, line: int) -> tuple[str, int]:
        """(file, line in it) of a line in the numbering of all texts; the main file's name is ""."""
        number, within = divmod(line, LINES)
        return self.files[number] if number < len(self.files) else "another header", within

    def line(self, file: str, line: int) -> int:
        """The number of a line of a file in the numbering of all texts."""
        return self.files.index(file) * LINES + line

    def removal(self, removed: Removed) -> str:
        """The error of a statement that was taken out, with its place."""
        file = f"{removed.file}, " if removed.file else ""
        return f"{file}line {removed.line % LINES}, column {removed.column}: {removed.why}"


def parse_cuda(
    text: str,
    *,
    kernel: str | None = None,
    sets: Mapping[str, str] | None = None,
    folder: str | None = None,
    include: Sequence[str] = (),
    arch: str = DEFAULT_ARCH,
    defines: Mapping[str, str] | None = None,
    changed: Mapping[str, str] | None = None,
) -> Parsed:
    """The kernels of a CUDA text.  `sets` gives values to names, `folder` has its own headers,
    as `include` have, in their order; `defines` are macros with their text,
    `changed` are texts in place of those of headers, by path.

    `__CUDA_ARCH__` is that of `arch`, the name of an architecture.

    Raises ParseError with line and column for a text that does not parse, ResourceError past 1 MiB,
    UnsupportedError where libclang or tree-sitter is missing, UndecidedError where parsing takes too long,
    CompileError where the process ends otherwise.
    """
    Most.TEXT.guard(len(text.encode()), "size of a CUDA source in bytes")
    number = 10 * int("".join(c for c in arch if c.isdigit()))
    question: dict[str, Any] = {"text": text, "kernel": kernel, "sets": dict(sets or {}), "arch": number}
    question["defines"] = _checked_defines(defines or {})
    question |= {"folders": [*filter(None, (folder, *include))], "changed": dict(changed or {})}
    command = [sys.executable, "-I", "-c", _RUN, *_folders()]
    try:
        ran = run_tool(command, timeout_s=SECONDS, fed=json.dumps(question).encode())
    except TimeoutError as error:
        raise UndecidedError(f"the source was not parsed: {error}", budget=int(SECONDS)) from None
    if ran.status != 0:
        ending = signal.Signals(-ran.status).name if ran.status < 0 else f"exit code {ran.status}"
        last = (ran.said.splitlines() or [ending])[-1][:300]
        raise CompileError(f"the process that parsed the source ended: {last}", log=ran.said)
    reply = json.loads(ran.out)
    if "error" in reply:
        raise ParseError(f"the source does not parse: {reply['error']}")
    return _parsed(reply)


def _checked_defines(defines: Mapping[str, str]) -> dict[str, str]:
    """Macros that are defined before a text; raises ParseError for what is not the name of one."""
    for name, value in defines.items():
        Most.LINE.guard(len(value), f"characters of the macro {name[:40]}")
        if not re.fullmatch(r"[A-Za-z_]\w*(\([\w, .]*\))?", name, re.ASCII) or re.search(r"[\r\n\0]", value):
            raise ParseError(f"{name}={value} is not the name of a macro and its text")
    return dict(defines)


def _folders() -> list[str]:
    """The folders in which the process finds this library and the two front ends."""
    needed = {
        "clang.cindex": "libclang",
        "tree_sitter": "tree-sitter",
        "tree_sitter_cuda": "tree-sitter-cuda",
    }
    folders = [str(Path(__file__).resolve().parents[3])]
    for module, wheel in needed.items():
        top = module.partition(".")[0]
        spec = importlib.util.find_spec(top)
        if spec is None or not spec.submodule_search_locations:
            raise UnsupportedError(
                f"reading CUDA sources needs {wheel}, which is not installed: "
                f"pip install 'layoutalg[source]' brings it"
            )
        folders.append(str(Path(next(iter(spec.submodule_search_locations))).parent))
    return list(dict.fromkeys(folders))


def _parsed(reply: Any) -> Parsed:
    named = {
        "kernels": tuple(map(_kernel, reply["kernels"])),
        "sites": tuple(Site(*_frozen(site)) for site in reply["sites"]),
        "removed": tuple(_read(Removed, each) for each in reply["removed"]),
        "assumed": tuple(Assumed(*each) for each in reply["assumed"]),
        "choices": tuple(Choice(*_frozen(choice)) for choice in reply["choices"]),
    }
    return _read(
        Parsed, reply, **named, **{n: frozenset(reply[n]) for n in ("numbers", "functions", "silent")}
    )


def _frozen(value: Any) -> Any:
    """A value of JSON with tuples for lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _read(kind: type[T], raw: Mapping[str, Any], **made: Any) -> T:
    """A record of what an answer has under the names of its fields, but those that are `made`."""
    names = kind.__annotations__.keys() & raw.keys() - made.keys()
    return kind(**{name: _frozen(raw[name]) for name in names}, **made)


def _kernel(raw: Any) -> Kernel:
    launches = tuple(_read(Shape, each) for each in raw["launches"])
    if raw["root"] < 0:
        return _read(Kernel, raw, root=None, launches=launches)
    types = _types(raw["types"])

    def node(raw: Any) -> Node | None:
        if raw is None:
            return None
        kind, line, column, number, value, children = raw
        if kind == "call" and value["object"] is not None:
            value = value | {"object": node(value["object"])}
        below = tuple(node(child) for child in children)
        return Node(kind, line, column, types[number] if number >= 0 else None, value, below)

    declarations = {
        number: _read(Declaration, d, number=number, type=types[d["type"]], init=node(d["init"]),
                      written=_written(d.get("written")))
        for number, d in enumerate(raw["decls"])
        if not d.get("function")
    }  # fmt: skip
    functions = {
        int(number): _read(
            Function, f, body=node(f["body"]), result=types[f["result"]] if f["result"] >= 0 else None,
            inits=tuple((name, made) for name, raw in f["inits"] if (made := node(raw)) is not None),
        )
        for number, f in raw["functions"].items()
    }  # fmt: skip
    for function in functions.values():
        for inner in function.nodes():
            if inner.kind == "name" and declarations[inner.value].space == "shared":
                declarations[inner.value].references += ((inner.line, inner.column),)
    tables = {"declarations": declarations, "functions": functions, "launches": launches}
    return _read(Kernel, raw, root=functions[raw["root"]], **tables)


def _written(raw: Any) -> Written | None:
    if raw is None:
        return None
    line, column, text, extents, uses = _frozen(raw)
    return Written(line, column, text, extents, tuple(Use(*use) for use in uses))


def _types(raw: list[Any]) -> list[Type]:
    """The table of types; a type that leads to itself is cut there."""
    made: dict[int, Type] = {}
    opened: set[int] = set()

    def make(number: int) -> Type:
        if number in made:
            return made[number]
        entry = raw[number]
        if number in opened:
            return Type("other", entry["name"], entry["bytes"], entry["align"])
        opened.add(number)
        to = make(entry["to"]) if "to" in entry else None
        fields = tuple((name, offset, make(t)) for name, offset, t in entry.get("fields", ()))
        made[number] = _read(Type, entry, to=to, fields=fields)
        return made[number]

    return [make(number) for number in range(len(raw))]
