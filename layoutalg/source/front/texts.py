"""The texts that are parsed together: the user's file, and the headers of the user's own that it includes.

The idea.  What does not parse is taken out, wherever it stands, and everything else is read.  A statement
that is taken out becomes spaces, so that nothing moves; where it was is a smaller place than where its error
is only if the error is inside.  Bodies of functions that no kernel can name are taken out before the first
parse: host code is not read, and its errors are nobody's.

    Text      one file: what is in it, what is left of it, and its census
    Texts     all of them, by path, and the headers that are missing

Lines of all texts count in one numbering, as in a compiler.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg.limits import Most
from layoutalg.source.front.census import LINES, Census, Function
from layoutalg.source.front.shim import headers_named

CUTE = ("cute/", "cutlass/")
"""Folders of headers for which declarations of the library stand; see layoutalg.source.cute."""

MOST_KEPT = 4000
"""The most characters that are shown of a statement that was taken out."""

_ABSOLUTE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]/[^\n]*", re.MULTILINE)
"""Includes of headers by an absolute path, which are never read for a user's text."""

_ALIGNED = re.compile(
    rb"\b((?:(?:extern|static|volatile)\s+)*__(?:shared|device|constant)__)(\s+)"
    rb"(alignas\((?:[^()]|\([^()]*\))*\))"
)
"""`__shared__ alignas(16)`, which nvcc reads and clang only the other way round."""

_NEXT_OPERAND = re.compile(rb"\)(\s*?)[ \t](\s*\"[=+&%]*\w+\"\s*\()")
"""Two operands of an asm statement without a comma between them, which nvcc reads."""

_PRAGMA = re.compile(
    rb"^[ \t]*#[ \t]*pragma[ \t]+(?!once\b|push_macro|pop_macro)(?:\\\r?\n|[^\n])*", re.MULTILINE
)
"""Lines that a compiler may heed, and that say nothing of what is accessed."""

_CONSTANT = re.compile(rb"\b(?:const|constexpr)\b")

_CONDITIONAL = re.compile(
    rb"^([ \t]*#[ \t]*)(ifdef|ifndef|if|elif|else|endif)\b((?:\\\r?\n|[^\n])*)", re.MULTILINE
)
"""Lines that a preprocessor pairs: they stay where what is around them is taken out."""

_MACRO = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)\b((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_CALL_ALONE = re.compile(rb"\s*[A-Za-z_]\w*\s*\(.*\)\s*;?\s*\Z")


_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)[ \t]*((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_PLATFORM = re.compile(
    r"__(HIP|SYCL|OPENCL|METAL)\w*|HIP_VERSION\w*|__CUDA_ARCH__|__CUDACC\w*|CUDA(RT)?_VERSION|__cplusplus|"
    r"_WIN\w+|_MSC_VER|"
    r"__APPLE__|defined"
)
"""Words of conditions that the compiler of CUDA decides, whatever a header or a build says."""


class Branch(NamedTuple):
    """A branch of the preprocessor: its lines, the words of all its conditions, what it defines."""

    first: int
    last: int
    words: frozenset[str]
    macros: tuple[str, ...]


class Text:
    """A file: `given` is what is in it, `whole` what the device runs, `left` what has not been taken out."""

    def __init__(self, path: str, name: str, number: int, given: bytes) -> None:
        self.path, self.name, self.number, self.given = path, name, number, given
        self.left = given
        for lines in (_ABSOLUTE, _PRAGMA):
            self.left = lines.sub(lambda line: re.sub(rb"\S", b" ", line[0]), self.left)
        self.left = _ALIGNED.sub(rb"\3\2\1", self.left)
        self.left = _NEXT_OPERAND.sub(rb")\1,\2", self.left)
        self.whole = self.left
        self.census = Census(given, number * LINES)
        self.fresh: list[tuple[int, int]] = []
        self.removed: list[dict[str, Any]] = []

    def line(self, offset: int) -> int:
        """The line of a byte, in the numbering of all texts."""
        return self.number * LINES + self.given.count(b"\n", 0, offset) + 1

    def column(self, offset: int) -> int:
        """The column of a byte."""
        return offset - self.given.rfind(b"\n", 0, offset)

    def around(self, offset: int) -> tuple[int, int]:
        """The smallest part around an error of which something is left: a statement, else a line.

        A part outside of all functions that has a kernel in it which the error is not in stays.
        """
        start = self.left.rfind(b"\n", 0, offset) + 1
        end = self.left.find(b"\n", offset)
        line = start, end if end >= 0 else len(self.left)
        inside = self.census.function(offset)
        span = self.census.statement(offset)
        if inside is None and self._is_left(line) and _CALL_ALONE.match(self.left[slice(*line)]):
            behind = line[1] + len(self.left[line[1] :]) - len(self.left[line[1] :].lstrip())
            ends = (f.end for f in self.census.functions if f.head <= behind < f.end)
            self.fresh.append((line[0], max(ends, default=line[1])))
            return line  # a macro that is not known: a grammar joins it with what follows
        while span is not None and not self._is_left(span):
            span = self.census.statement_around(span)
            if inside is not None and span is not None and span[0] < inside.start:  # its statements are left
                span = inside.start + 1, inside.end - 1
                break
        if span is None or self._has_other_kernel(span, offset):
            self.fresh.append(span or line)
            span = line
        while not self._is_left(span) and span[0] > 0:  # an error at the end of what was opened before
            span = self.left.rfind(b"\n", 0, span[0] - 1) + 1, span[0] - 1
        return span

    def _is_left(self, span: tuple[int, int]) -> bool:
        return bool(self.left[span[0] : span[1]].strip(b" \t\r\n;"))

    def _has_other_kernel(self, span: tuple[int, int], offset: int) -> bool:
        return any(
            f.kernel and span[0] <= f.head and f.end <= span[1] and not f.head <= offset < f.end
            for f in self.census.functions
        )

    def take_out(self, start: int, end: int, why: dict[str, Any] | None, function: str = "") -> bool:
        """Replace bytes by spaces, and return whether something was left of them."""
        before = self.left[start:end]
        after = _blank(before)
        if why is not None and before.rstrip()[-1:] in (b";", b"}"):
            trimmed = before.rstrip()  # an empty statement, at which what it may have set is lost
            after = after[: len(trimmed) - 1] + b";" + after[len(trimmed) :]
        self.fresh.append((start, end))
        if before == after:
            return False
        self.left = self.left[:start] + after + self.left[end:]
        if why is not None:
            inside = self.census.function(start)
            self.removed.append(
                why
                | {"start": start, "end": end, "first": self.line(start), "last": self.line(end)}
                | {
                    "function": inside.name if inside is not None else function,
                    "text": before[:MOST_KEPT].decode("utf-8", "replace"),
                    "at": self.column(start),
                    "names": self.census.names_between(start, end),
                }
            )
        return True

    def take_out_value(self, offset: int, why: dict[str, Any]) -> bool:
        """Take out what a variable is initialized with: it is there, and its value is not known."""
        span = self.census.initialized(offset)
        if span is None or not self._is_left((span[1], span[2])):
            return False
        start, sign, end = span
        head = self.left[start:sign]
        if b"*" not in head and b"&" not in head:
            head = _CONSTANT.sub(lambda word: b" " * len(word[0]), head)
        if re.search(rb"&|\b(?:auto|constexpr|__shared__|__constant__)\b", head):
            return False
        self.take_out(start, end, why)
        self.left = self.left[:start] + head + b";" + self.left[sign + 1 :]
        return True

    def restore(self, word: re.Pattern[bytes]) -> list[tuple[int, int]]:
        """Put the parts back that have a word in them, and return where they are."""
        spans = [(each["start"], each["end"]) for each in self.removed]
        back = [span for span in spans if word.search(self.given, *span)]
        for start, end in back:
            self.left = self.left[:start] + self.whole[start:end] + self.left[end:]
        for start, end in set(spans) - set(back):
            self.take_out(start, end, None)
        return back

    def rewrite(self, offset: int, old: bytes, new: bytes) -> bool:
        """Write another text for a word of the declaration or the condition in front of a byte."""
        span = self.census.initialized(offset) or self.census.statement(offset)
        at = -1 if span is None else self.left.rfind(old, span[0], offset)
        if at < 0:
            return False
        self.left = self.left[:at] + new.ljust(len(old)) + self.left[at + len(old) :]
        return True

    def name_registers(self, offset: int) -> bool:
        """Take the sign from the names of special registers in an asm statement, which nvcc takes single."""
        span = self.census.statement(offset)
        if span is None:
            return False
        before = self.left[slice(*span)]
        after = re.sub(rb"(?<!%)%(?=[a-z_]{2})", b" ", before)
        self.left = self.left[: span[0]] + after + self.left[span[1] :]
        return after != before

    def undo_condition(self, offset: int) -> bool:
        """Let the condition of the preprocessor in the line of a byte be false; False where there is none."""
        start = self.left.rfind(b"\n", 0, offset) + 1
        found = _CONDITIONAL.match(self.left, start)
        if found is None or found[2] not in (b"if", b"elif") or found[3].strip() == b"0":
            return False
        blank = re.sub(rb"[^\s]", b" ", found[3])
        self.left = self.left[: found.start(3)] + b" 0" + blank[2:] + self.left[found.end(3) :]
        return True

    def branches(self) -> Iterator[Branch]:
        """Each branch of a condition, then the whole text; a guard against inclusion has no words."""
        lines = list(_DIRECTIVE.finditer(self.given))
        opened: list[tuple[int, set[str], list[str]]] = [(0, set(), [])]
        for line, behind in itertools.zip_longest(lines, lines[1:]):
            kind, words = line[1], re.findall(r"\b[A-Za-z_]\w*", line[2].decode("utf-8", "replace"))
            number, (first, before, macros) = self.line(line.start()), opened[-1]
            if kind == b"define":
                macros += words[:1]
            elif kind in (b"if", b"ifdef", b"ifndef"):
                guards = kind == b"ifndef" and behind is not None and behind[1] == b"define"
                if guards and behind is not None and behind[2].split()[:1] == line[2].split()[:1]:
                    words = []
                opened.append((number, before | {*words}, []))
            elif kind in (b"elif", b"else", b"endif") and len(opened) > 1:
                yield Branch(first, number, frozenset(before), tuple(macros))
                opened[-1:] = [] if kind == b"endif" else [(number, before | {*words}, [])]
        yield Branch(0, 0, frozenset(), tuple(opened[0][2]))

    def words_of(self, function: Function) -> set[str]:
        """The words of a function, of the host's only those of its head."""
        return words_of(self.given[function.head : function.end if function.device else function.start])

    def forget(self, function: Function) -> None:
        """Take out a function that is never called: the device's keep their heads, so that a call is told."""
        start, end = (function.stop if function.device else function.head), function.end
        after = _blank(self.left[start:end])
        if function.device:
            after = after[:-1] + b";"
        self.left = self.left[:start] + after + self.left[end:]


def _blank(text: bytes) -> bytes:
    """Spaces in place of a text, but for the lines that a preprocessor pairs."""
    parts, at = [], 0
    for kept in _CONDITIONAL.finditer(text):
        if kept.start() or text[:1] == b"#":
            parts += [re.sub(rb"[^\s]", b" ", text[at : kept.start()]), kept[0]]
            at = kept.end()
    return b"".join((*parts, re.sub(rb"[^\s]", b" ", text[at:])))


class Texts:
    """The user's file and own headers; `missing` are the headers that it includes and that are not there."""

    def __init__(
        self, main: Path, text: str, folders: list[str], changed: Mapping[str, str] | None = None
    ) -> None:
        self.main = Text(str(main), "", 0, text.encode())
        self.folders, self.changed = folders, changed or {}
        self.by_path: dict[str, Text] = {str(main): self.main}
        self.missing: list[str] = []
        self._size = 0
        self._found: dict[str, Text | None] = {}
        self._follow(self.main)
        self._heads()
        self._unnamed()
        for own in self:
            own.whole = own.left

    def __iter__(self) -> Iterator[Text]:
        return iter(self.by_path.values())

    def decided(self, defines: Iterable[str]) -> list[Branch]:
        """The branches of which the texts say by themselves whether they are there."""
        branches = [branch for text in self for branch in text.branches()]
        known = {*defines, *(name for branch in branches for name in branch.macros)}

        def is_decided(branch: Branch) -> bool:
            return all(word in known or _PLATFORM.fullmatch(word) for word in branch.words)

        while lost := known & {name for b in branches if not is_decided(b) for name in b.macros}:
            known -= lost
        return [branch for branch in branches if branch.words and is_decided(branch)]

    def find(self, path: str) -> Text | None:
        """The text of a file as the front end names it."""
        if path not in self._found:
            self._found[path] = self.by_path.get(path) or self.by_path.get(str(Path(path).resolve()))
        return self._found[path]

    def name(self, path: str) -> str:
        """The name of a file in what is told: "" for the user's own, as it is included for a header."""
        text = self.find(path)
        return path if text is None else text.name

    @property
    def name_cute(self) -> bool:
        """Whether a header of CuTe is included."""
        return any(name.startswith(CUTE) for name in self.missing)

    def first_line(self, path: str) -> int:
        """The number that is added to the lines of a file, in the numbering of all texts."""
        text = self.find(path) if path else self.main
        return (len(self.by_path) if text is None else text.number) * LINES

    def _follow(self, main: Text) -> None:
        """Read the own headers that texts include, and note those that are missing."""
        waiting = [main]
        while waiting:
            text = waiting.pop(0)
            beside = [] if text is main else [str(Path(text.path).parent)]
            for name in headers_named(text.given.decode("utf-8", "replace")):
                spots = [Path(folder) / name for folder in (*beside, *self.folders)]
                known = name.startswith(("/", *CUTE))
                path = next((spot for spot in spots if not known and spot.is_file()), None)
                if path is None:
                    self.missing.append(name)
                    continue
                real = str(path.resolve())
                if real in self.by_path or self._size + path.stat().st_size > Most.TEXT.number:
                    continue
                given = self.changed[real].encode() if real in self.changed else path.read_bytes()
                self._size += len(given)
                self.by_path[real] = Text(real, name, len(self.by_path), given)
                waiting.append(self.by_path[real])

    def _heads(self) -> None:
        """Find the macros that stand for the words by which the device runs a function."""
        functions = set().union(*(text.census.macros for text in self))
        macros: dict[str, set[str]] = {}
        for name, body in itertools.chain.from_iterable(_MACRO.findall(text.given) for text in self):
            macros.setdefault(name.decode(), set()).update(words_of(body))  # of all its definitions
        kernels, devices = {"__global__"}, {"__device__", "constexpr"}
        for _ in range(4):  # macros of macros
            kernels |= {name for name, words in macros.items() if words & kernels}
            devices |= {name for name, words in macros.items() if words & devices}
        for text in self:
            text.census.macros = functions
            text.census.mark(kernels, devices)

    def _unnamed(self) -> None:
        """Take out what the device does not run: functions that no kernel can name, bodies of the host's.

        What host code names of the device's may be an argument of a template.
        """
        functions = [(text, f) for text in self for f in text.census.functions if not f.inner]
        if not any(f.kernel for _, f in functions):
            return
        by_name: dict[str, list[tuple[Text, Function]]] = {}
        for text, f in functions:
            by_name.setdefault(f.name.lstrip("~"), []).append((text, f))
        found = [
            (t, f) for t, f in functions
            if f.kernel or not f.sure or not f.name.lstrip("~").isidentifier()
        ]  # fmt: skip
        words = {word for text in self for word in _outside(text)}
        devices = {f.name for _, f in functions if f.device}
        for text, f in functions:
            words |= set() if f.device else words_of(text.given[f.start : f.end]) & devices
        waiting = words | {word for text, f in found for word in text.words_of(f)}
        reached: set[tuple[Text, int]] = {(text, f.start) for text, f in found}
        while waiting:
            words |= waiting
            found = [
                (t, f) for word in waiting for t, f in by_name.get(word, ()) if (t, f.start) not in reached
            ]
            reached |= {(text, f.start) for text, f in found}
            waiting = {word for text, f in found for word in text.words_of(f)} - words
        for text, f in functions:
            if (text, f.start) not in reached:
                text.forget(f)
            elif (
                f.sure
                and not f.device
                and f.name.isidentifier()
                and text.given[f.start : f.start + 1] == b"{"
            ):
                text.take_out(f.start + 1, f.end - 1, None)


def words_of(text: bytes) -> set[str]:
    """All identifiers and keywords of a text."""
    return {word.decode() for word in _WORD.findall(text)}


def _outside(text: Text) -> Iterable[str]:
    """The words of a text outside of its functions, but names of functions that are only declared."""
    out: set[str] = set()
    at = 0
    for start, end in sorted((*((f.head, f.end) for f in text.census.functions), *text.census.declared)):
        if start > at:
            out |= words_of(text.given[at:start])
        at = max(at, end)
    return out | words_of(text.given[at:])
