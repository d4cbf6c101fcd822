"""The host C and C++ compiler: found, called without a shell, its product loaded through ctypes.

The idea.  Index code printed for a GPU is ordinary C++ once `__device__` is defined away.  Compiling it for
the host and tabulating it answers "is this text the layout?" at a million points in a millisecond or two,
on a machine without a GPU.

>>> library = compile_shared('extern "C" int twice(int i) { return 2 * i; }')
>>> library.twice(21)
42

Notes.  `CC` and `CXX` are honoured, arguments included (`CC="ccache gcc"`); else the usual names are looked
up on PATH.  The source is a file in a fresh private folder, which is removed once the object is loaded:
the mapping outlives the file.  After a failure the folder stays, with the source and the compiler's log,
and the CompileError names both.  What is loaded runs in this process with all its rights: compile only
text that you would run.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.errors import CompileError, UnsupportedError, check_choice
from layoutalg.tools import private_folder, run_tool

Language: TypeAlias = Literal["c", "c++"]


@dataclass(frozen=True, slots=True)
class _Toolchain:
    variable: str
    candidates: tuple[str, ...]
    suffix: str
    standard: str


_TOOLCHAINS: Mapping[str, _Toolchain] = MappingProxyType(
    {
        "c": _Toolchain("CC", ("cc", "gcc", "clang"), ".c", "-std=c11"),
        "c++": _Toolchain("CXX", ("c++", "g++", "clang++"), ".cpp", "-std=c++17"),
    }
)


def find_compiler(language: Language = "c++") -> tuple[str, ...]:
    """The command of the host compiler: its path, then any arguments the environment variable adds.

    Raises UnsupportedError when there is none, saying how to get one.

    >>> len(find_compiler("c")) >= 1
    True
    """
    check_choice("host language", language, _TOOLCHAINS)
    chain = _TOOLCHAINS[language]
    try:
        wanted = shlex.split(os.environ.get(chain.variable, ""))
    except ValueError as error:
        raise UnsupportedError(f"{chain.variable} cannot be split into words: {error}") from None
    for name in wanted[:1] or chain.candidates:
        path = shutil.which(name)
        if path is not None:
            return (path, *wanted[1:])
    if wanted:
        raise UnsupportedError(
            f"{chain.variable} names {wanted[0]!r}, which is not on PATH; unset it or name a compiler"
        )
    raise UnsupportedError(
        f"no {language} compiler: none of {', '.join(chain.candidates)} is on PATH; install one "
        f"(Debian and Ubuntu: apt-get install g++) or name one in {chain.variable}"
    )


def compile_shared(
    source: str, *, language: Language = "c++", flags: Sequence[str] = (), timeout_s: float = 120.0
) -> ctypes.CDLL:
    """Compile `source` to a shared object and load it; C++ functions to be called need `extern "C"`.

    `flags` are appended to the command as they are, one argument each.  Raises CompileError, with the
    compiler's log and the path of the source it kept, when the text does not compile, does not load, takes
    longer than `timeout_s` or more memory than tools may (`layoutalg.tools`); UnsupportedError when there is
    no compiler.

    >>> compile_shared("int seven(void) { return 7; }", language="c").seven()
    7
    """
    product = build_shared(source, language=language, flags=flags, timeout_s=timeout_s)
    try:
        library = ctypes.CDLL(str(product))
    except OSError as error:
        text = product.with_name(f"source{_TOOLCHAINS[language].suffix}")
        raise _refused(text, ["dlopen", str(product)], f"does not load: {error}") from None
    shutil.rmtree(product.parent)
    return library


def build_shared(
    source: str, *, language: Language = "c++", flags: Sequence[str] = (), timeout_s: float = 120.0
) -> Path:
    """Compile `source` as `compile_shared` does, without loading it: the path of the shared object.

    It lies in a folder of its own, which the caller removes.  Raises CompileError and UnsupportedError.

    >>> product = build_shared("int seven(void) { return 7; }", language="c")
    >>> shutil.rmtree(product.parent)
    """
    compiler = find_compiler(language)
    chain = _TOOLCHAINS[language]
    folder = private_folder()
    text, product = folder / f"source{chain.suffix}", folder / "product.so"
    text.write_text(source, encoding="utf-8")
    command = [*compiler, chain.standard, "-O1", "-w", "-fPIC", "-shared", *flags]
    command += ["-o", str(product), str(text)]
    try:
        run = run_tool(command, timeout_s=timeout_s)
    except TimeoutError as error:
        raise _refused(text, command, str(error)) from None
    if run.status != 0:
        raise _refused(text, command, run.said)
    return product


def _refused(source: Path, command: Sequence[str], log: str) -> CompileError:
    """The error for a failed compile: source and log in a folder that stays, the first complaint quoted."""
    folder, before = Path(tempfile.mkdtemp(prefix="layoutalg-")), source.parent
    source = Path(shutil.copy(source, folder))
    ran, log = (text.replace(str(before), str(folder)) for text in (shlex.join(command), log))
    shutil.rmtree(before)
    log_file = source.with_suffix(".log")
    log_file.write_text(f"$ {ran}\n{log}", encoding="utf-8")
    lines = log.strip().splitlines() or ["no message"]
    first = next((line for line in lines if "error" in line), lines[0]).replace(f"{source}:", "line ")
    return CompileError(
        f"{Path(command[0]).name} refused the source: {first} (source kept as {source}, log as {log_file})",
        log=log,
        source=str(source),
    )
