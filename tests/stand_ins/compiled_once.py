"""Compilers in tests: the same text for the same target is compiled once, in this process and in later ones.

    .cache/compiled/<SHA-256 of the text, the target, the options and the compiler>

Many tests look at different things of the same kernels: in those of verification nearly half of NVRTC's time
went into texts that it had compiled before.  What it makes of a text are the same bytes each time, which
test_nvrtc holds it to.  So are objects of the host's compiler whose headers are the system's or lie in this
repository, disassemblies, and trees of CUDA sources that include no header of their own, for the library as
it is.  What does not compile is compiled anew, since its files are asked for.

Notes.  The library's own cache of kernels stays off in tests, so that these two cannot hide each other's
mistakes.  A folder that cannot be written is done without.  Files that were not used for longest are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import nvrtc, sass
from layoutalg.tools import Ran, run_tool

hostcc: Any = importlib.import_module("layoutalg.testing.hostcc")
parsing: Any = importlib.import_module("layoutalg.source.front.parsing")
"""Parts of them are replaced here, whichever room's tests run."""

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "compiled"

MOST_FILES = 6000
"""In FOLDER, of about 30 KB each."""

_KEPT = 1 << 10
"""Results in memory, likewise."""

_DIGEST = hashlib.sha256().digest_size

_in_memory: dict[str, bytes] = {}
_anew = False


@contextlib.contextmanager
def anew() -> Iterator[None]:
    """What is asked for inside is compiled."""
    global _anew
    _anew = True
    try:
        yield
    finally:
        _anew = False


def once(key: Iterable[object], make: Callable[[], bytes]) -> bytes:
    """What `make` returns for a key, whose parts are all that it depends on."""
    name = hashlib.sha256(repr(tuple(key)).encode()).hexdigest()
    made = None if _anew else _in_memory.get(name)
    if made is None:
        made = None if _anew else _read(FOLDER / name)
        if made is None:
            made = make()
            _write(FOLDER / name, made)
        if len(_in_memory) >= _KEPT:
            _in_memory.pop(next(iter(_in_memory)))
        _in_memory[name] = made
    return made


def _read(path: Path) -> bytes | None:
    """What a file holds; None where there is none, or a damaged one."""
    try:
        raw = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    return raw[_DIGEST:] if hashlib.sha256(raw[_DIGEST:]).digest() == raw[:_DIGEST] else None


def _write(path: Path, made: bytes) -> None:
    own = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(hashlib.sha256(made).digest() + made)
        own.replace(path)


def _remove_oldest() -> None:
    with contextlib.suppress(OSError):
        files = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(FOLDER)]
        for _, path in sorted(files)[: max(0, len(files) - MOST_FILES)]:
            Path(path).unlink(missing_ok=True)


def _stamp(program: str) -> tuple[object, ...]:
    """What tells a program from a newer one."""
    status = Path(program).resolve().stat()
    return program, status.st_size, status.st_mtime_ns


# --- NVRTC -----------------------------------------------------------------------------------------------

_nvrtc_compile = nvrtc._compile


def _compile(source: str, name: str, arch: str, options: tuple[str, ...], what: str) -> tuple[bytes, str]:
    library = nvrtc._library()  # a test may have put something else in its place, or nothing

    def make() -> bytes:
        image, said = _nvrtc_compile(source, name, arch, options, what)
        log = said.encode()
        return len(log).to_bytes(8, "little") + log + image

    made = once(("nvrtc", _stamp(library._name), source, name, arch, options, what), make)
    start = 8 + int.from_bytes(made[:8], "little")
    return made[start:], made[8:start].decode()


# --- the host's compiler and the disassembler ------------------------------------------------------------


def _run_compiler(command: Sequence[str], *, timeout_s: float) -> Ran:
    """What `run_tool` does for hostcc: the compiler, its options, `-o`, the object, the text."""
    *words, out, product, text = command
    headers = _headers(words)
    if headers is None or out != "-o" or timeout_s < 1:
        return run_tool(command, timeout_s=timeout_s)
    key = ("host", _stamp(words[0]), words[1:], Path(text).suffix, Path(text).read_bytes(), headers)

    def make() -> bytes:
        _succeeded(run_tool(command, timeout_s=timeout_s))
        return Path(product).read_bytes()

    try:
        Path(product).write_bytes(once(key, make))
    except _Failed as failed:
        return failed.ran
    return Ran(0, b"", b"")


class _Failed(Exception):
    """A program that ended with an error: nothing is kept of it."""

    def __init__(self, ran: Ran) -> None:
        super().__init__(ran.said)
        self.ran = ran


def _succeeded(ran: Ran) -> Ran:
    """What a program did, where it ended well."""
    if ran.status:
        raise _Failed(ran)
    return ran


def _headers(words: Sequence[str]) -> list[tuple[str, bytes]] | None:
    """The headers of this repository that options make findable; None where there may be others."""
    found: list[tuple[str, bytes]] = []
    for word in words:
        if word.startswith(("-i", "-include", "-B", "-x", "@")) or word == "-I":
            return None
        if word.startswith("-I"):
            folder = Path(word[2:])
            if not folder.is_relative_to(ROOT):
                return None
            found += [(str(file), file.read_bytes()) for file in sorted(folder.glob("*.h"))]
    return found


_disassemble = sass._disassembled


def _disassembled(tool: str, words: tuple[str, ...], image: bytes) -> str:
    key = ("sass", _stamp(tool), words, image)
    return once(key, lambda: _disassemble(tool, words, image).encode()).decode()


# --- the reader of CUDA sources ---------------------------------------------------------------------------

_OTHER_INCLUDES = re.compile(r"#\s*include(?!\s*[<\"])|has_include")
_HEADERS = re.compile(r"#\s*include\s*[<\"]([^<>\"\n]+)")


def _parse(command: Sequence[str], *, timeout_s: float, fed: bytes) -> Ran:
    """What `run_tool` does for the reader of CUDA sources, whose question is JSON."""
    asked = json.loads(fed)
    folders, text = asked["folders"], asked["text"]
    names = _HEADERS.findall(text)
    own = any((Path(folder) / name).exists() for folder in folders for name in names)
    if own or _OTHER_INCLUDES.search(text) or timeout_s < 1:
        return run_tool(command, timeout_s=timeout_s, fed=fed)
    key = ("cuda", _reader(), sorted((asked | {"folders": []}).items()))
    try:
        out = once(key, lambda: _succeeded(run_tool(command, timeout_s=timeout_s, fed=fed)).out)
    except _Failed as failed:
        return failed.ran
    return Ran(0, out, b"")


@cache
def _reader() -> tuple[str, ...]:
    """What an answer depends on beside the question: the library, and the front ends."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "layoutalg").rglob("*")):
        if path.suffix in (".py", ".cuh"):
            digest.update(path.read_bytes())
    return (digest.hexdigest(), *map(version, ("libclang", "tree-sitter", "tree-sitter-cuda")))


def install() -> None:
    """Let the library compile so, in this process."""
    _remove_oldest()
    nvrtc._compile = _compile
    hostcc.run_tool = _run_compiler
    parsing.run_tool = _parse
    sass._disassembled = _disassembled  # type: ignore[assignment]
