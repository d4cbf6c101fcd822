"""The process that parses a user's CUDA text: libclang and the census, on text that may be hostile.

The idea.  The text is parsed until it has no error: a missing header becomes an empty one, a function that
is known only by its name is declared, and a statement with an error is replaced by spaces, so that no line
moves.  The statements that were taken out are reported with the reason, and so is every site that the front
end's tree lacks.  A template is read as the instance that the given arguments make.

The question is one JSON object on standard input, the answer one on standard output.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from clang import cindex

from layoutalg.source.front.census import Census
from layoutalg.source.front.cursors import constant_of, qualified, skipped, template_parameters
from layoutalg.source.front.dump import Dump
from layoutalg.source.front.launches import Instance, instances, written_out
from layoutalg.source.front.names import candidates, declared_in, declared_names, parts_of
from layoutalg.source.front.shim import shim_text, takes_values, unknown_function, unknown_number
from layoutalg.source.front.templates import UNKNOWN, Choice, Templates, form_of, own_uses
from layoutalg.source.front.texts import Text, Texts, words_of
from layoutalg.source.front.uses import note_uses

MAIN = "kernel.cu"
ROUNDS = 80
MOST_ERRORS = 4000

_FLAGS = (
    "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc", "-nostdinc++", "-std=c++17",
    "--cuda-gpu-arch=sm_90", "-Wno-everything", "-ferror-limit=0", "-ftemplate-depth=128",
    "-ftemplate-backtrace-limit=0", "-fbracket-depth=256", "-fconstexpr-steps=100000", "-fms-extensions",
    "-Xclang", "-fnative-half-arguments-and-returns", "-Xclang", "-fnative-half-type",
)  # fmt: skip
_K = cindex.CursorKind
_UNDEFINED = "is used but not defined in this translation unit"
"""The link error of a function without a body that takes a lambda: its call is read like any other."""

_NO_MEMBER = re.compile(r"no (?:member|template) named '(\w+)' in namespace '([\w:]+)'")
_CALLED = re.compile(rb"((?:\s*::\s*\w+)*)\s*(<)?")
"""Text behind a name: further names in a namespace, and whether template arguments follow."""

_WORD_BEHIND = re.compile(
    rb"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*(?:__\w+|void|bool|char|short|int|long|unsigned|signed|float|double|auto|constexpr|static|inline|"
    rb"extern|template|struct|class|namespace|for|while|do)\b"
)
"""Words before which a name that is not declared can only be a macro of attributes."""


_REWRITTEN = (
    ("constexpr variable", b"constexpr", b"const"),
    ("constexpr if", b"constexpr", b""),
    ("__shared__ variable '.*' cannot be 'extern'", b"extern", b""),
)
"""Errors that another word mends: of a value that is not known, of an extent in dynamic memory."""


class Spot(NamedTuple):
    """A byte of a text, and whether an error is there itself, or a note on it."""

    text: Text
    offset: int
    own: bool


class Parser:
    """The rounds of parsing the texts of one file."""

    def __init__(self, asked: dict[str, Any], folder: Path, cute: Any) -> None:
        """`cute` declares CuTe: the room of that name."""
        self.asked, self.cute = asked, cute
        self.folder = folder
        self.path = str(folder / MAIN)
        self.own: list[str] = asked["folders"]
        self.texts = Texts(folder / MAIN, asked["text"], self.own, asked["changed"])
        self.census = self.texts.main.census
        self.sets: dict[str, str] = asked["sets"]
        self.used: set[str] = set()
        self.defines = asked["defines"] | dict(self._before_all())
        self.declared: dict[tuple[str, str], str] = {}
        self.unknown: set[str] = set()
        self.numbers: set[str] = set()
        self.empty: set[str] = set()
        self.headers: list[str] = []
        self.just: set[str] = set()
        self.gone: set[str] = set()
        self.answers: dict[str, str] = {}
        self.index = cindex.Index.create()
        (folder / "shim.cuh").touch()
        (folder / "stubs").mkdir()
        for name in self.texts.missing:
            self._stub(name)

    @property
    def removed(self) -> list[dict[str, Any]]:
        """Parts that were taken out of all texts."""
        return [each for text in self.texts for each in text.removed]

    def told(self) -> list[dict[str, Any]]:
        """The parts that were taken out, and which of those outside of all functions are in `doubt`.

        What parses without a declaration may mean another one: a primary template, another overload.
        """
        if not self.removed:
            return []
        used = self._reached()
        return [
            each | {"doubt": not each["function"] and not used.isdisjoint(each["declares"])}
            for each in self.removed
        ]

    def _reached(self) -> frozenset[str]:
        """The words of what is left of device functions, and of all that declares one of these words."""
        parts: dict[str, list[set[str]]] = {}
        words, waiting = set[str](), {"operator"}  # an operator is used without its name
        for text in self.texts:
            functions = [f for f in text.census.functions if f.device or not f.sure]
            spans = [(f.head, f.end) for f in functions if not f.inner]
            waiting = waiting.union(*(words_of(text.left[start:end]) for start, end in spans))
            for node, names in parts_of(text.census):
                inside = words_of(text.left[node.start_byte : node.end_byte])
                for name in names:
                    parts.setdefault(name, []).append(inside)
        while waiting:
            words |= waiting
            waiting = set[str]().union(*(w for name in waiting for w in parts.pop(name, ()))) - words
        return frozenset(words)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """All names that the texts declare."""
        return frozenset().union(*(declared_names(text.census)[0] for text in self.texts))

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """All identifiers of the texts."""
        return frozenset().union(*(words_of(text.given) for text in self.texts))

    def assumed(self) -> list[tuple[str, int, str]]:
        """(why, line, function) of each function that uses a name of which something was assumed."""
        whys = {name: f"{name} is declared nowhere: --set {name}=VALUE" for name in self.numbers}
        whys |= {name: f"{name} is declared nowhere, and taken to be empty" for name in self.empty}
        if not whys:
            return []
        word = re.compile(rb"\b(?:" + b"|".join(name.encode() for name in whys) + rb")\b")
        uses: dict[tuple[str, str], int] = {}
        for text in self.texts:
            for found in word.finditer(text.left):
                inside = text.census.function(found.start())
                if inside is not None:
                    uses.setdefault((whys[found[0].decode()], inside.name), text.line(found.start()))
        return [(why, line, function) for (why, function), line in uses.items()]

    def _before_all(self) -> list[tuple[str, str]]:
        """Names that are set and that a condition of the preprocessor or the bounds of a launch ask for."""
        pattern = r"^[ \t]*#[ \t]*(?:ifn?def|if|elif)\b([^\n]*)|__launch_bounds__\s*(\([^\n]*)"
        lines = " ".join(a or b for a, b in re.findall(pattern, self.asked["text"], re.M))
        return [
            (name, value) for name, value in self.sets.items()
            if re.search(rf"\b{re.escape(name)}\b", lines) and name not in self.names
        ]  # fmt: skip

    def _stub(self, name: str) -> bool:
        """An empty header of that name."""
        if name.startswith("/") or len(name) > 200 or name in self.headers:
            return False
        inner = self.folder / "stubs" / "a" / "b" / "c"  # room for ../../..
        path = Path(str(inner / name))
        resolved = path.resolve()
        if not resolved.is_relative_to((self.folder / "stubs").resolve()):
            return False
        resolved.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if resolved.is_dir():
            return False
        resolved.touch()
        self.headers.append(name)
        return True

    def absent(self) -> list[tuple[int, int]]:
        """The lines of branches that the preprocessor leaves out, whatever a header or a build may say."""
        branches = self.texts.decided(self.defines)
        unit = (
            self.parse(options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD) if branches else None
        )
        out = [
            (text.line(0) - 1 + first, text.line(0) - 1 + last)
            for text in (self.texts if unit is not None else ())
            for first, last in skipped(unit, text.path)
        ]
        return [(b.first, b.last) for b in branches if any(x <= b.first and b.last <= y for x, y in out)]

    def parse(self, tail: str = "", options: int = 0) -> Any:
        """The translation unit of the texts as they stand, `tail` behind the main one."""
        shim = str(self.folder / "shim.cuh")
        head = "".join((self.head, *self.answers.values(), *self.declared.values()))
        flags = [*_FLAGS, "-include", shim]
        for own in (str(self.folder / "stubs" / "a" / "b" / "c"), *self.own):
            flags += ["-I", own]
        flags += [f"-D{name}={value}" for name, value in self.defines.items()]
        files = [(text.path, text.left.decode("utf-8", "replace")) for text in self.texts]
        files[0] = files[0][0], files[0][1] + "\n" + tail
        return self.index.parse(self.path, args=flags, unsaved_files=[*files, (shim, head)], options=options)

    def parsed(self, tail: str = "") -> tuple[Any, list[Any]]:
        """The unit with all that is asked of CuTe's expressions, and its first errors."""
        for _ in range(ROUNDS):
            unit = self.parse(tail)
            errors = (
                d for d in unit.diagnostics
                if d.severity >= cindex.Diagnostic.Error and _UNDEFINED not in d.spelling
            )  # fmt: skip
            first = [*itertools.islice(errors, MOST_ERRORS)]
            if not (self.texts.name_cute and self._answered(first)):
                break
        return unit, first

    @functools.cached_property
    def head(self) -> str:
        """The declarations of CUDA's headers, and of CuTe's for texts that include them."""
        cuda = shim_text(self.asked["arch"], self.words, self.texts.missing)
        texts = (text.given.decode("utf-8", "replace") for text in self.texts)
        return cuda + self.cute.declared_text(texts) if self.texts.name_cute else cuda

    def _answered(self, errors: list[Any]) -> bool:
        """Answer what errors ask for of CuTe's expressions; whether anything was."""
        words = [part.spelling for error in errors for part in (error, *error.children)]
        fresh = [known for known in self.cute.asked(words) if known not in self.answers]
        self.answers |= {known: self.cute.definition_of(known) for known in fresh}
        return bool(fresh)

    def tried(self, parts: list[str]) -> tuple[Any, list[tuple[tuple[str, ...], int]]]:
        """The unit with some parts behind it, each in a namespace of its own, and of each part its errors:
        messages of its own ones, and the number of those in what it instantiates."""
        first = self.texts.main.left.count(b"\n") + 2
        tail, starts = "", list[int]()
        for number, part in enumerate(parts):
            starts.append(first + tail.count("\n"))
            tail += f"namespace layoutalg_use{number} {{ {part} }}\n"
        unit, errors = self.parsed(tail)
        own: list[list[str]] = [[] for _ in parts]
        inner = [0] * len(parts)
        for error in errors:
            for at in (error.location, *(note.location for note in error.children)):
                if at.file is not None and at.file.name == self.path and at.line >= first:
                    number = bisect.bisect_right(starts, at.line) - 1
                    if at == error.location:
                        own[number].append(error.spelling)
                    else:
                        inner[number] += 1
                    break
        return unit, [(tuple(each), count) for each, count in zip(own, inner, strict=True)]

    def settled(self, tail: str = "") -> Any:
        """The unit without errors that can be taken out; raises ValueError with the error that cannot."""
        for _ in range(ROUNDS):
            unit, errors = self.parsed(tail)
            if not errors:
                return unit
            self.just = set()
            for text in self.texts:
                text.fresh = []
            spots = [(self.spot(error, tail), error.spelling) for error in errors]
            supplied = [self._supplies(spot, said) for spot, said in spots]
            if any(supplied):  # errors for want of them may be none now, others stay
                for (spot, said), done in zip(spots, supplied, strict=True):
                    if not done and self._stays(said):
                        self._out(spot, said)
                continue
            first = next((spot for spot, _ in spots if spot is not None), None)
            if first is not None and first.text.census.function(first.offset) is None:
                spots = [
                    (spot, said) for spot, said in spots
                    if spot is None or spot.text is first.text or self._stays(said)
                ]  # fmt: skip
            if not any([self._out(spot, said) for spot, said in spots]):  # noqa: C419 - all of them
                where = errors[0].location
                name = self.texts.name(where.file.name) if where.file is not None else ""
                file = f"{name}: " if name else ""
                raise ValueError(f"{file}line {where.line}, column {where.column}: {errors[0].spelling}")
        raise ValueError("errors remain after all statements that have one were taken out")

    def _stays(self, message: str) -> bool:
        """Whether an error stays, whatever is mended in front of it: no text declares its name any more."""
        name = UNKNOWN.match(message)
        return name is not None and name[1] not in self.just | (self.names - self.gone)

    def spot(self, error: Any, tail: str = "") -> Spot | None:
        """The place of an error, or of a note on it, in the texts; None where it is elsewhere."""
        places = [error.location, *(child.location for child in error.children)]
        if error.spelling.startswith("expected '}'"):  # what is open is wrong, not the end of the text
            places = [*places[1:], places[0]]
        for at in places:
            text = self.texts.find(at.file.name) if at.file is not None else None
            if text is not None and at.offset < len(text.left):
                return Spot(text, at.offset, at == error.location)
            if text is not None and not tail:  # behind the end: of what was opened last
                return Spot(text, len(text.left.rstrip()) - 1, False)
        return None

    def _supplies(self, spot: Spot | None, message: str) -> bool:
        """Supply what an error is for want of: a header, a declaration, or a word as clang has it."""
        missing = re.match(r"'([^']+)' file not found", message)
        if missing is not None:
            return self._stub(missing[1])
        if spot is None or not spot.own:
            return False
        if any(
            spot.text.rewrite(spot.offset, old, new)
            for start, old, new in _REWRITTEN
            if re.match(start, message)
        ):
            return True
        if message.startswith("invalid % escape") and spot.text.name_registers(spot.offset):
            return True
        name = UNKNOWN.match(message)
        if name is not None:
            return self._supplied(spot.text, spot.offset, name[1], "")
        member = _NO_MEMBER.match(message)
        return member is not None and self._supplied(spot.text, spot.offset, member[1], member[2])

    def _supplied(self, text: Text, offset: int, name: str, within: str) -> bool:
        """Declare a name that an error names, where that is possible."""
        inside = text.census.function(offset)
        device = inside is not None and inside.device
        if not within and name in self.sets and (name not in self.defines or name in self.just):
            self.defines[name] = self.sets[name]
            self.just.add(name)
            return True
        end = offset + len(name.encode())
        if text.given[offset:end] != name.encode():  # a macro writes it
            return False
        first = not within and (name not in self.defines or name in self.just)
        if first and _WORD_BEHIND.match(text.given, end) is not None:
            self.defines[name] = ""
            self.empty.add(name)
            self.just.add(name)
            return True
        behind = _CALLED.match(text.given, end)
        if behind is None:  # the expression matches the empty text
            return False
        scopes = re.findall(r"\w+", f"{within}::{name}::{behind[1].decode()}")
        end = behind.end(1)
        span = text.census.template_arguments(end) if behind[2] is not None else None
        if behind[2] is not None and span is None:
            return False
        end = end if span is None else span[1]
        if text.given[end:].lstrip()[:1] == b"(" and device:
            spaces, called = "::".join(scopes[:-1]), scopes[-1]
            if spaces and takes_values(called):  # what it does is not known, whatever it is called
                return False
            key = spaces, called
            if key not in self.declared:
                self.declared[key] = unknown_function(called, spaces)
            elif f"{spaces}::{called}" not in self.just:
                return False
            self.just.add(f"{spaces}::{called}")
            if span is not None:
                text.take_out(*span, None)
            return True
        if not device or within:
            return False
        self.unknown.add(name)
        if name in self.names or not text.census.is_operand(offset):
            return False
        if ("", name) not in self.declared:
            self.declared["", name] = unknown_number(name)
            self.numbers.add(name)
            self.just.add(f"::{name}")
        return f"::{name}" in self.just

    def _out(self, spot: Spot | None, message: str) -> bool:
        """Take out what has an error: a statement of a device function, the body of a host's, or a line."""
        if spot is None:
            return False
        text, offset = spot.text, spot.offset
        if any(start <= offset < end for start, end in text.fresh):
            return True
        inside = text.census.function(offset)
        if text.undo_condition(offset):
            return True
        if inside is not None and not inside.device and text.take_out(inside.start + 1, inside.end - 1, None):
            return True
        why = {"line": text.line(offset), "column": text.column(offset), "why": message, "file": text.name}
        if inside is not None and text.take_out_value(offset, why):
            return True
        parameter = text.census.parameter(offset)
        if parameter is not None:
            return text.take_out(*parameter[:2], why, parameter[2])
        span = text.around(offset)
        declared = declared_in(text.left[slice(*span)]) if inside is None else frozenset()
        self.gone |= declared
        return text.take_out(*span, why | {"declares": sorted(declared)})


def kernels_of(top: Any, texts: Texts, written: list[Census]) -> list[Any]:
    """The __global__ functions and templates of the file, in its order, then those of own headers in use."""
    kernels, waiting = [], [top]
    main = texts.main
    own = [census for census in written if not census.before]
    while waiting:
        cursor = waiting.pop()
        for child in cursor.get_children():
            text = None if child.location.file is None else texts.find(child.location.file.name)
            if text is None:
                continue
            if child.kind in (_K.NAMESPACE, _K.LINKAGE_SPEC, _K.UNEXPOSED_DECL):
                waiting.append(child)
            elif child.kind in (_K.FUNCTION_DECL, _K.FUNCTION_TEMPLATE):
                parts = list(child.get_children())
                kernel = any(c.kind == _K.CUDAGLOBAL_ATTR for c in parts)
                defined = kernel and any(c.kind == _K.COMPOUND_STMT for c in parts)
                if defined and (text is main or instances(own, child.spelling, {})):
                    kernels.append((text.number, child.location.offset, child))
    return [child for *_, child in sorted(kernels, key=lambda each: each[:2])]


def shapes(parser: Parser, uses: list[tuple[str, Instance]]) -> list[dict[str, Any]]:
    """{"line", "text", "block", "grid"} of launches: three numbers, None where they are not constant."""
    tail = ""
    for at, (name, use) in enumerate(uses):
        tail += f"namespace layoutalg_shape{at} {{ {use.outside(name)}\n"
        tail += f"void shape() {{ {use.declared}{use.constants}"
        for side, text in zip(("grid", "block"), use.shape, strict=False):
            tail += f"constexpr dim3 {side}_ = {text};"
            tail += "".join(f"const long long {side}{axis} = {side}_.{axis};" for axis in "xyz")
        tail += f"}}{use.ends} }}\n"
    found: dict[str, dict[str, int | float | None]] = {}
    for cursor in parser.parse(tail).cursor.get_children() if uses else ():
        if cursor.spelling.startswith("layoutalg_shape"):
            variables = [
                c for c in cursor.walk_preorder() if c.kind == _K.VAR_DECL and c.type.is_const_qualified()
            ]
            found[cursor.spelling] = {c.spelling: constant_of(c) for c in variables}
    out = []
    for at, (_, use) in enumerate(uses):
        values = found.get(f"layoutalg_shape{at}", {})
        sides = {side: [values.get(f"{side}{axis}") for axis in "xyz"] for side in ("grid", "block")}
        known = {side: each if all(n and n > 0 for n in each) else None for side, each in sides.items()}
        out.append({"line": use.line, "text": use.shape[-1] if len(use.shape) > 1 else "", **known})
    return out


def answer(asked: dict[str, Any], folder: Path, cute: Any) -> dict[str, Any]:
    """The reading of a text, as a plain object."""
    parser = Parser(asked, folder, cute)
    unit = parser.settled()
    wanted = asked.get("kernel")
    texts = written_out([text.census for text in parser.texts])
    kernels = kernels_of(unit.cursor, parser.texts, texts)
    names = [qualified(k) for k in kernels]
    out: dict[str, Any] = {"kernels": [], "names": names}
    launched: list[list[Instance]] = []
    for name, kernel in zip(names, kernels, strict=True):
        if wanted is not None and wanted not in (name, kernel.spelling):
            continue
        first = parser.texts.first_line(kernel.location.file.name)
        where = first + kernel.location.line
        extent = [first + kernel.extent.start.line, first + kernel.extent.end.line]
        uses = instances(texts, kernel.spelling, parser.sets)
        plain = kernel.kind == _K.FUNCTION_DECL
        form = ""
        if names.count(name) > 1:
            uses, form = own_uses(parser, kernel, uses), form_of(parser.texts, kernel)
        choice = Choice(kernel) if plain else Templates(parser, kernel, uses, form).choice()
        entry: dict[str, Any] = {"name": name, "line": where, "extent": extent, "why": choice.why, "root": -1}
        launches, made = [each for each in uses if each.shape], choice.made or Instance(())
        entry["instance"] = made.arguments, made.bound + made.declared, made.ends
        if choice.use is not None:
            alike = [u._replace(bound=made.bound) for u in launches if u[:3] == choice.use[:3]]
            launches = alike or launches
        launched.append(launches)
        entry["template"] = [p["name"] for p in template_parameters(kernel)]
        entry["taken"], entry["others"] = choice.taken, choice.others
        entry["parameters"] = [c.spelling for c in kernel.get_children() if c.kind == _K.PARM_DECL]
        if choice.target is not None:
            dump = Dump(parser.texts)
            entry["root"] = dump.function_of(choice.target)
            dump.finish()
            note_uses(parser.texts, dump)
            entry |= {
                "types": dump.types,
                "decls": dump.decls,
                "functions": {str(k): v for k, v in dump.functions.items()},
            }
        out["kernels"].append(entry)
    pairs = zip(out["kernels"], launched, strict=True)
    known = iter(shapes(parser, [(entry["name"], use) for entry, uses in pairs for use in uses]))
    for entry, uses in zip(out["kernels"], launched, strict=True):
        entry["launches"] = [next(known) for _ in uses]
    census = parser.census
    main = [k for k in kernels if parser.texts.find(k.location.file.name) is parser.texts.main]
    extents = [range(k.extent.start.line, k.extent.end.line + 1) for k in main]
    kernel_lines = [(f.name, census.text.count(b"\n", 0, f.start) + 1) for f in census.functions if f.kernel]
    kernel_lines += census.lost_kernels()
    out["hidden"] = [
        [name, line]
        for name, line in kernel_lines
        if wanted in (None, name) and not any(line in extent for extent in extents)
    ]
    every, numbers = declared_names(census)
    out["sites"] = [site for text in parser.texts for site in text.census.sites()]
    out["choices"] = [choice for text in parser.texts for choice in text.census.choices()]
    out["absent"] = parser.absent()
    out["removed"] = parser.told()
    out["numbers"] = sorted(numbers)
    out["functions"] = sorted({f.name for text in parser.texts for f in text.census.functions if f.device})
    out["assumed"] = parser.assumed()
    out["open"] = sorted(parser.numbers)
    out["files"] = [text.name for text in parser.texts]
    out["paths"] = ["", *(text.path for text in [*parser.texts][1:])]
    out["defined"] = [*sorted(parser.defines), *sorted(parser.used)]
    out["headers"] = parser.headers
    out["silent"] = sorted(cute.silent_functions()) if parser.texts.name_cute else []
    out["unknown"] = open_names(parser, every)
    return out


def open_names(parser: Parser, declared: frozenset[str]) -> list[str]:
    """The names that nothing declares and for which a number lets statements be read.

    The parts that name them are put back for it: nothing else is asked of the texts behind it.
    """
    names = candidates(parser.census, parser.unknown, declared)
    if not names or not parser.removed:
        return []
    word = re.compile(rb"\b(?:" + b"|".join(name.encode() for name in names) + rb")\b")
    parts = [(text, range(*span)) for text in parser.texts for span in text.restore(word)]
    parser.defines |= dict.fromkeys(names, "1")
    unit, errors = parser.parsed()  # errors live as long as their unit
    wrong = [parser.spot(error) for error in errors]
    del unit
    cured = [
        text.given[part.start : part.stop]
        for text, part in parts
        if not any(spot is not None and spot.text is text and spot.offset in part for spot in wrong)
    ]
    helped = {found.decode() for part in cured for found in word.findall(part)}
    return [name for name in names if name in helped]


def main(cute: Any) -> None:
    """Read the question on standard input, and write the answer."""
    question = json.load(sys.stdin)
    sys.setrecursionlimit(20_000)
    with tempfile.TemporaryDirectory(prefix="layoutalg-") as spot:
        try:
            out = answer(question, Path(spot), cute)
        except (ValueError, OverflowError) as error:
            out = {"error": str(error)}
    json.dump(out, sys.stdout)
