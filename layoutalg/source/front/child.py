"""The process that parses a user's CUDA text: libclang and the census, on text that may be hostile.

The idea.  The text is parsed until it has no error: a missing header becomes an empty one, a function that
is known only by its name is declared, and a statement with an error is replaced by spaces, so that no line
moves.  The statements that were taken out are reported with the reason, and so is every site that the front
end's tree lacks.  A template is read as the instance that the given arguments make.

The question is one JSON object on standard input, the answer one on standard output.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from clang import cindex

from layoutalg.source.front.census import Census
from layoutalg.source.front.dump import Dump
from layoutalg.source.front.names import candidates, declared_names, helped
from layoutalg.source.front.shim import headers_named, shim_text, unknown_function
from layoutalg.source.front.uses import note_uses

MAIN = "kernel.cu"
ROUNDS = 16
MOST_ERRORS = 400
MOST_KEPT = 4000
"""The most characters that are shown of a statement that was taken out."""

_FLAGS = (
    "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc", "-nostdinc++", "-std=c++17",
    "--cuda-gpu-arch=sm_90", "-Wno-everything", "-ferror-limit=0", "-ftemplate-depth=128",
    "-fbracket-depth=256", "-fconstexpr-steps=100000", "-fms-extensions",
    "-Xclang", "-fnative-half-arguments-and-returns", "-Xclang", "-fnative-half-type",
)  # fmt: skip
_K = cindex.CursorKind
_UNDEFINED = "is used but not defined in this translation unit"
"""The link error of a function without a body that takes a lambda: its call is read like any other."""

_ABSOLUTE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]/[^\n]*", re.MULTILINE)
"""Includes of headers by an absolute path, which are never read for a user's text."""


_ALIGNED = re.compile(
    rb"\b((?:(?:extern|static|volatile)\s+)*__(?:shared|device|constant)__)(\s+)"
    rb"(alignas\((?:[^()]|\([^()]*\))*\))"
)
"""`__shared__ alignas(16)`, which nvcc reads and clang only the other way round."""


class Parser:
    """The rounds of parsing one text."""

    def __init__(self, asked: dict[str, Any], folder: Path) -> None:
        self.asked = asked
        self.given = asked["text"].encode()
        self.text = self.given
        self.text = _ABSOLUTE.sub(lambda line: b" " * len(line[0]), self.text)
        self.text = _ALIGNED.sub(rb"\3\2\1", self.text)
        self.census = Census(self.given)
        self.folder = folder
        self.path = str(folder / MAIN)
        self.own = asked.get("folder") or ""
        self.sets: dict[str, str] = asked["sets"]
        self.used: set[str] = set()
        self.defines = dict(self._conditional())
        self.declared: list[str] = []
        self.removed: list[dict[str, Any]] = []
        self.unknown: set[str] = set()
        self.headers: list[str] = []
        self.fresh: list[tuple[int, int]] = []
        self.just: set[str] = set()
        self.index = cindex.Index.create()
        (folder / "stubs").mkdir()
        for name in headers_named(asked["text"]):
            self._stub(name)

    def _conditional(self) -> list[tuple[str, str]]:
        """Names that are set and that a condition of the preprocessor asks for."""
        lines = " ".join(re.findall(r"^[ \t]*#[ \t]*(?:ifn?def|if|elif)\b([^\n]*)", self.asked["text"], re.M))
        return [
            (name, value) for name, value in self.sets.items() if re.search(rf"\b{re.escape(name)}\b", lines)
        ]

    def _stub(self, name: str) -> bool:
        """An empty header of that name, unless the user's folder has it."""
        if name.startswith("/") or len(name) > 200 or name in self.headers:
            return False
        if self.own and (Path(self.own) / name).is_file():
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

    def parse(self, tail: str = "") -> Any:
        """The translation unit of the text as it stands, `tail` behind it."""
        shim = str(self.folder / "shim.cuh")
        head = shim_text(self.asked["arch"]) + "".join(unknown_function(name) for name in self.declared)
        if not Path(shim).exists():
            Path(shim).touch()
        flags = [*_FLAGS, "-include", shim]
        if self.own:
            flags += ["-iquote", self.own]
        flags += ["-I", str(self.folder / "stubs" / "a" / "b" / "c")]
        flags += [f"-D{name}={value}" for name, value in self.defines.items()]
        files = [(self.path, self.text.decode("utf-8", "replace") + "\n" + tail), (shim, head)]
        return self.index.parse(self.path, args=flags, unsaved_files=files, options=0)

    def settled(self, tail: str = "") -> Any:
        """The unit without errors that can be taken out; raises ValueError with the error that cannot."""
        for _ in range(ROUNDS):
            unit = self.parse(tail)
            errors = [
                d for d in unit.diagnostics
                if d.severity >= cindex.Diagnostic.Error and _UNDEFINED not in d.spelling
            ]  # fmt: skip
            if not errors:
                return unit
            self.fresh, self.just = [], set()
            if not any([self._mended(error) for error in errors[:MOST_ERRORS]]):  # noqa: C419 - all of them
                where = errors[0].location
                raise ValueError(f"line {where.line}, column {where.column}: {errors[0].spelling}")
        raise ValueError("errors remain after all statements that have one were taken out")

    def _mended(self, error: Any) -> bool:
        """Handle an error, and return whether that succeeded."""
        message = error.spelling
        missing = re.match(r"'([^']+)' file not found", message)
        if missing is not None:
            return self._stub(missing[1]) or self._out(error)
        where = error.location
        if where.file is None or where.file.name != self.path:
            return self._out(error)
        name = re.match(r"(?:use of undeclared identifier|unknown type name) '(\w+)'", message)
        if name is not None and name[1] in self.sets and name[1] not in self.defines:
            self.defines[name[1]] = self.sets[name[1]]
            return True
        if name is not None:
            after = self.text[where.offset + len(name[1].encode()) :].lstrip()[:1]
            inside = self.census.function(where.offset)
            if (
                after == b"("
                and message.startswith("use")
                and inside is not None
                and inside.device
                and (name[1] not in self.declared or name[1] in self.just)
            ):
                self.just.add(name[1])
                if name[1] not in self.declared:
                    self.declared.append(name[1])
                return True
            if inside is not None and inside.device and message.startswith("use"):
                self.unknown.add(name[1])
        return self._out(error)

    def _out(self, error: Any) -> bool:
        """Take out what has an error: a statement of a device function, the body of a host's, or a line."""
        where = error.location
        if where.file is None or where.file.name != self.path:
            return False
        offset = where.offset
        if any(start <= offset < end for start, end in self.fresh):
            return True
        inside = self.census.function(offset)
        if inside is not None and not inside.device:
            return self._blank(inside.start + 1, inside.end - 1, None)
        span = self.census.statement(offset)
        while span is not None and not self.text[span[0] : span[1]].strip(b" \t\r\n;"):
            span = self.census.statement_around(span)
        if span is None:
            line = self.text.rfind(b"\n", 0, offset) + 1, self.text.find(b"\n", offset)
            span = line[0], line[1] if line[1] >= 0 else len(self.text)
        why = {"line": where.line, "column": where.column, "why": error.spelling}
        return self._blank(span[0], span[1], why)

    def _blank(self, start: int, end: int, why: dict[str, Any] | None) -> bool:
        before = self.text[start:end]
        after = re.sub(rb"[^\s]", b" ", before)
        if before == after:
            return False
        if why is not None and before.rstrip()[-1:] in (b";", b"}") and len(after) == len(before):
            trimmed = before.rstrip()  # an empty statement, at which what it may have set is lost
            after = after[: len(trimmed) - 1] + b";" + after[len(trimmed) :]
        self.fresh.append((start, end))
        self.text = self.text[:start] + after + self.text[end:]
        if why is not None:
            first, last = self._line(start), self._line(end)
            inside = self.census.function(start)
            where = {"start": start, "end": end, "first": first, "last": last}
            text = before[:MOST_KEPT].decode("utf-8", "replace")
            context = {"function": inside.name if inside is not None else "", "text": text}
            self.removed.append(why | where | context)
        return True

    def _line(self, offset: int) -> int:
        return int(self.text.count(b"\n", 0, offset)) + 1


def kernels_of(top: Any, path: str) -> list[Any]:
    """The __global__ functions and templates that the file itself defines, in its order."""
    kernels, waiting = [], [top]
    while waiting:
        cursor = waiting.pop()
        for child in cursor.get_children():
            if child.location.file is None or child.location.file.name != path:
                continue
            if child.kind in (_K.NAMESPACE, _K.LINKAGE_SPEC, _K.UNEXPOSED_DECL):
                waiting.append(child)
            elif child.kind in (_K.FUNCTION_DECL, _K.FUNCTION_TEMPLATE):
                parts = list(child.get_children())
                kernel = any(c.kind == _K.CUDAGLOBAL_ATTR for c in parts)
                if kernel and any(c.kind == _K.COMPOUND_STMT for c in parts):
                    kernels.append(child)
    return sorted(kernels, key=lambda c: c.location.offset)


def template_parameters(kernel: Any) -> list[dict[str, Any]]:
    """{"name", "kind", "default"} of each parameter of a template."""
    out = []
    for child in kernel.get_children():
        if child.kind in (_K.TEMPLATE_NON_TYPE_PARAMETER, _K.TEMPLATE_TYPE_PARAMETER):
            kind = "value" if child.kind == _K.TEMPLATE_NON_TYPE_PARAMETER else "type"
            tokens = [t.spelling for t in child.get_tokens()]
            out.append({"name": child.spelling, "kind": kind, "default": "=" in tokens})
    return out


def instances_in(text: str, name: str) -> list[str]:
    """Template arguments with which the text instantiates or launches a kernel, where they are plain.

    >>> instances_in("template __global__ void k<128, 8>(float*); k<BM><<<g, b>>>(p);", "k")
    ['128, 8', 'BM']
    """
    pattern = rf"\b{re.escape(name)}\s*<([\w\s,:]+)>\s*(?:<<<|\()"
    special = re.compile(r"template\s*<\s*>[^;{}]*\Z")  # a kernel by itself
    matches = [m for m in re.finditer(pattern, text) if special.search(text[: m.start()]) is None]
    return list(dict.fromkeys(" ".join(m[1].split()) for m in matches))


def qualified(cursor: Any) -> str:
    """A name with the namespaces around it."""
    names = [cursor.spelling]
    above = cursor.semantic_parent
    while above is not None and above.kind == _K.NAMESPACE:
        if above.spelling:
            names.append(above.spelling)
        above = above.semantic_parent
    return "::".join(reversed(names))


def instance(parser: Parser, kernel: Any) -> tuple[Any, str, list[str]]:
    """(the definition to read, why there is none, arguments of other instances) of a kernel or a template."""
    if kernel.kind == _K.FUNCTION_DECL:
        return kernel, "", []
    parameters = template_parameters(kernel)
    names = [p["name"] for p in parameters]
    chosen = [n for n in names if n in parser.sets]
    parser.used |= set(chosen)
    tries: list[str] = []
    if chosen or all(p["default"] for p in parameters):
        last = max([i for i, n in enumerate(names) if n in chosen], default=-1)
        if all(n in chosen for n in names[: last + 1]) and all(p["default"] for p in parameters[last + 1 :]):
            tries.append(", ".join(parser.sets[n] for n in names[: last + 1]))
    plain = bool(tries)
    if len(chosen) < len(names):
        for text in instances_in(parser.given.decode("utf-8", "replace"), kernel.spelling):
            words = text.split(", ") if ", " in text else text.split(",")
            for i, n in enumerate(names[: len(words)]):
                words[i] = parser.sets.get(n, words[i])
            tries.append(", ".join(word.strip() for word in words))
    tries = list(dict.fromkeys(tries))
    for arguments in tries[: 1 if plain else 8]:
        tail = f"void layoutalg_use() {{ auto p = &{qualified(kernel)}<{arguments}>; }}\n"
        try:
            unit = parser.settled(tail)
        except ValueError:
            continue
        for cursor in unit.cursor.get_children():
            if cursor.spelling == "layoutalg_use":
                for inner in cursor.walk_preorder():
                    target = inner.referenced if inner.kind == _K.DECL_REF_EXPR else None
                    if target is not None and target.kind == _K.FUNCTION_DECL and target.is_definition():
                        return target, "", [other for other in tries if other != arguments]
    missing = [p["name"] for p in parameters if not p["default"] and p["name"] not in chosen]
    if not missing:
        return None, f"its template arguments do not make an instance: {', '.join(chosen)}", []
    wanted = ", ".join(f"--set {n}=VALUE" for n in missing)
    return None, f"template parameters of {kernel.spelling} are not known: {wanted}", []


def answer(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The reading of a text, as a plain object."""
    parser = Parser(asked, folder)
    unit = parser.settled()
    wanted = asked.get("kernel")
    kernels = kernels_of(unit.cursor, parser.path)
    names = [qualified(k) for k in kernels]
    out: dict[str, Any] = {"kernels": [], "names": names}
    for name, kernel in zip(names, kernels, strict=True):
        if wanted is not None and wanted not in (name, kernel.spelling):
            continue
        where = kernel.location.line
        extent = [kernel.extent.start.line, kernel.extent.end.line]
        target, why, others = instance(parser, kernel)
        entry: dict[str, Any] = {"name": name, "line": where, "extent": extent, "why": why, "root": -1}
        entry["template"] = template_parameters(kernel)
        entry["others"] = others
        entry["parameters"] = [c.spelling for c in kernel.get_children() if c.kind == _K.PARM_DECL]
        if target is not None:
            dump = Dump({parser.path: parser.text}, parser.path)
            entry["root"] = dump.function_of(target)
            dump.finish()
            note_uses(parser.census, dump)
            entry |= {
                "types": dump.types,
                "decls": dump.decls,
                "functions": {str(k): v for k, v in dump.functions.items()},
            }
        out["kernels"].append(entry)
    census = parser.census
    extents = [range(k.extent.start.line, k.extent.end.line + 1) for k in kernels]
    kernel_lines = [(f.name, census.text.count(b"\n", 0, f.start) + 1) for f in census.functions if f.kernel]
    out["hidden"] = [
        [name, line]
        for name, line in kernel_lines
        if wanted in (None, name) and not any(line in extent for extent in extents)
    ]
    every, numbers = declared_names(census)
    out["sites"] = census.sites()
    out["removed"] = [each | _of_statement(census, each) for each in parser.removed]
    out["numbers"] = sorted(numbers)
    out["functions"] = sorted({f.name for f in census.functions if f.device})
    out["unknown"] = open_names(parser, folder, every)
    out["defined"] = sorted(parser.defines)
    out["headers"] = parser.headers
    return out


def _of_statement(census: Census, removed: dict[str, Any]) -> dict[str, Any]:
    """Start of a statement that was taken out, and the names in it."""
    start = removed["start"]
    column = start - census.text.rfind(b"\n", 0, start)
    return {"at": column, "names": census.names_between(start, removed["end"])}


def open_names(parser: Parser, folder: Path, declared: frozenset[str]) -> list[str]:
    """The names that nothing declares and for which a number lets statements be read."""
    names = candidates(parser.census, parser.unknown, declared)
    if not names:
        return []
    spot = folder / "open"
    spot.mkdir()
    other = Parser(parser.asked, spot)
    other.defines |= parser.defines | dict.fromkeys(names, "1")
    try:
        other.settled()
    except ValueError:
        return []
    return helped(parser.census, names, parser.removed, other.removed)


def main() -> None:
    """Read the question on standard input, and write the answer."""
    question = json.load(sys.stdin)
    sys.setrecursionlimit(20_000)
    with tempfile.TemporaryDirectory(prefix="layoutalg-") as spot:
        try:
            out = answer(question, Path(spot))
        except (ValueError, OverflowError) as error:
            out = {"error": str(error)}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
