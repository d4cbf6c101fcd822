"""Index code written in C, CUDA or Python, tabulated over the domain of a layout.

The idea.  A C++ template finds out how many coordinates the function takes; a loop in C then fills a table of
64-bit results, a million in a millisecond or two.  The digits of a flat index are computed there too, by the
rule of int_tuple: the last one is not reduced.  Functions, instances of templates, functors, lambdas and
macros are called alike; CUDA's types and intrinsics are those of cuda_shim, or of CUDA's own headers where
the shim lacks something and they are installed.

The code runs in a process of its own, one per table, under limits, so that a division by zero, a wild pointer
or an endless loop in it ends that process and not this one.  Both have one file: its first word says which
index is being computed, so that it is known however the process ended; the results follow it.

>>> code = IndexCode("__device__ long long f(int i, int j) { return 8LL * i + j; }", "f", (4, 8))
>>> code.table(0, 6).tolist()
[0, 8, 16, 24, 1, 9]

Index expressions, such as "row * 64 + (col ^ row % 8 * 8)", tabulated over the domain of a layout.

The idea.  An expression has no parameter list, which says what its variables are.  One variable is the flat
index; several are the modes, or the leaves, in the order of `names`, or of an order that everybody writes:
row in front of col, i in front of j.  Any other order has two readings, so that it is refused.

The text is read as `layoutalg analyze --index` reads it (layoutalg.reading.index_text), and is not executed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from layoutalg.errors import (
    ArgumentTypeError,
    CompileError,
    MismatchError,
    ParseError,
    ShapeError,
    UndecidedError,
    check_type,
)
from layoutalg.layout import IntTuple, coordinate_at, flatten_tree, product, to_text
from layoutalg.reading import parse_index
from layoutalg.testing.cuda_shim import (
    C_RUNNER,
    PYTHON_RUNNER,
    body_of,
    headers_of,
    is_of_cuda,
    prepared,
    shim,
    text_of,
)
from layoutalg.testing.hostcc import build_shared
from layoutalg.testing.triton_text import with_numbers
from layoutalg.tools import private_folder, run_tool

_NAME = re.compile(
    r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*(<[ ]*-?\w+([ ]*,[ ]*-?\w+)*[ ]*>)?(::[A-Za-z_]\w*)?\Z", re.ASCII
)
_PYTHON_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_LABEL = re.compile(r"[\w.<>:, +-]{1,100}\Z", re.ASCII)

TABLE_SECONDS = 120.0
"""A table of a million indices takes some milliseconds; code that takes longer than this is given up."""


def _choices(shape: IntTuple) -> dict[int, tuple[int, ...]]:
    """The extents of the coordinates that a function may take, by their number: one, or those of the modes or
    of the leaves."""
    choices: dict[int, tuple[int, ...]] = {1: (product(shape),)}
    if isinstance(shape, tuple):
        for extents in (tuple(map(product, shape)), flatten_tree(shape)):
            if extents:
                choices.setdefault(len(extents), extents)
    return choices


class IndexCode:
    """A compiled index function over the domain of `shape`; it takes one index, or one per mode or per leaf.

    `function` names a function, an instance of a template (`f<64>`), a functor, a lambda or a macro; in a
    function that reads threadIdx, the modes that its parameters do not take come first.  `language` is "c",
    which is C, C++ and CUDA, or "python".  `label` names the text in messages, `folders` are searched
    for its headers, and `timeout_s` is what one table may take.

    Raises CompileError for what does not compile or load; ParseError when `function` is not a C++ name;
    ShapeError when it takes another number of arguments.
    """

    def __init__(
        self,
        source: str,
        function: str,
        shape: IntTuple,
        *,
        language: str = "c",
        label: str | None = None,
        folders: Sequence[Path] = (),
        timeout_s: float = TABLE_SECONDS,
    ) -> None:
        python = language == "python"
        if not (_PYTHON_NAME if python else _NAME).match(function):
            raise ParseError(
                f"{function!r} is not the name of a {'Python' if python else 'C++'} function", text=function
            )
        choices = _choices(shape)
        self.function = function
        self._seconds = timeout_s
        self._label = label if label is not None and _LABEL.match(label) else function
        if python:
            self._product = self._written(source)
        else:
            self._product = self._built(source, choices, folders)
        weakref.finalize(self, shutil.rmtree, self._product.parent, ignore_errors=True)
        self._python = python
        self._lead = 0
        taken = int(self._run(0, 0, ())[1])
        self.extents = self._extents(
            taken, choices, shape, not python and "threadIdx" in body_of(source, function)
        )

    def _extents(
        self, taken: int, choices: dict[int, tuple[int, ...]], shape: IntTuple, threads: bool
    ) -> tuple[int, ...]:
        """The extents of the coordinates, those of threadIdx first."""
        if threads:
            for count, extents in sorted(choices.items(), key=lambda item: (item[0] == 1, item[0])):
                if 1 <= count - taken <= 3:
                    self._lead = count - taken
                    return extents
        if taken not in choices:
            accepted = ", ".join(map(str, sorted(choices)))
            raise ShapeError(
                f"{self.function} takes {taken} arguments; for the shape {to_text(shape)} it may take "
                f"{accepted}"
            )
        return choices[taken]

    def _written(self, source: str) -> Path:
        """The text of Python in a private folder."""
        product = private_folder() / "source.py"
        product.write_text(with_numbers(source), encoding="utf-8")
        return product

    def _built(self, source: str, choices: dict[int, tuple[int, ...]], folders: Sequence[Path]) -> Path:
        """The shared object: with the shim's types, else with CUDA's own headers where they are installed."""
        spot = private_folder()
        try:
            first, last = spot / "cuda", spot / "other"
            for folder in (first, last):
                folder.mkdir()
            headers = headers_of(source)
            for name in headers:
                empty = (first if is_of_cuda(name) else last) / name
                empty.parent.mkdir(parents=True, exist_ok=True)
                empty.touch()
            text = self._text(prepared(source), source, choices)
            own = [flag for folder in folders for flag in ("-iquote", str(folder))]
            try:
                return self._compiled(
                    f"{shim(types=True)}{text}",
                    ["-I", str(first), *own, "-idirafter", str(last)],
                )
            except CompileError:
                cuda = _cuda_headers() if any(map(is_of_cuda, headers)) else None
                if cuda is None:
                    raise
                before = "#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n"
                before += f"{_undefined()}{shim(types=False)}"
                with contextlib.suppress(CompileError):
                    return self._compiled(before + text, [*own, "-I", str(cuda), "-idirafter", str(last)])
                raise
        finally:
            shutil.rmtree(spot, ignore_errors=True)

    def _text(self, source: str, text: str, choices: dict[int, tuple[int, ...]]) -> str:
        """The text with what tabulates it."""
        from_text = text.replace("\\\n", " ")
        last = re.escape(self.function.rpartition("::")[2].partition("<")[0])
        target = f"&{self.function}"
        more = ""
        macro = re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{last}\(([^()]*)\)", from_text, re.MULTILINE)
        if macro:
            count = len(macro[-1].split(",")) if macro[-1].strip() else 0
            wide = max(map(max, choices.values())) > 1 << 31
            names = [f"layoutalg_{k}" for k in range(count)]
            kind = "long long" if wide else "int"
            declared = ", ".join(f"{kind} {name}" for name in names)
            more = (
                f"static auto layoutalg_macro({declared}) {{ return {self.function}({', '.join(names)}); }}\n"
            )
            target = "&layoutalg_macro"
        elif re.search(rf"\b(struct|class)\s+(alignas\s*\([^)]*\)\s*)?{last}\b[^;(]*\{{", from_text):
            target = f"{self.function}{{}}"
        elif re.search(rf"\b{last}\s*=\s*\[", from_text):
            target = self.function
        tail = text_of("tail.h").replace("TARGET", target).replace("MODES", str(max(choices)))
        table = text_of("table.h").replace(
            "CHOICES", ", ".join(map(str, sorted(choices, key=lambda n: (n == 1, n))))
        )
        return f'{table}\n#line 1 "{self._label}"\n{source}\n{more}{tail}'

    def _compiled(self, text: str, flags: Sequence[str]) -> Path:
        """The shared object; what the compiler refused is not kept, and the message quotes its line."""
        try:
            return build_shared(text, flags=flags)
        except CompileError as error:
            folder = Path(error.source).parent
            lines = [line for line in error.log.splitlines() if "error" in line]
            first = next(
                (line for line in lines if line.startswith(f"{self._label}:")), (lines or [error.log])[0]
            )
            shutil.rmtree(folder, ignore_errors=True)
            complaint = first.replace(str(folder), "").strip()[:400]
            raise CompileError(f"the compiler refused {self.function}: {complaint}", log=error.log) from None

    def table(self, first: int, count: int) -> Any:
        """The results at `count` flat indices from `first` on, as 64-bit integers.

        Raises MismatchError for an index that a parameter of the function is too narrow to hold, and for one
        at which the function ends its process; UndecidedError where it takes longer than its time.
        """
        words = self._run(first, count, self.extents)
        if (lost := int(words[1])) >= 0:
            raise MismatchError(
                f"the parameters of {self.function} cannot hold index {lost}; declare them wider", index=lost
            )
        if lost < -1:
            raise MismatchError(
                f"{self.function} points between two elements at index {-2 - lost}", index=-2 - lost
            )
        return words[2:]

    def _run(self, first: int, count: int, extents: tuple[int, ...]) -> Any:
        """The words of the file after a process has filled it."""
        import numpy

        with tempfile.NamedTemporaryFile(dir=self._product.parent) as file:
            file.truncate(8 * (count + 2))
            numbers = map(str, (self._lead, first, count, *extents))
            how = (
                ["-I", "-c", PYTHON_RUNNER.replace("@LABEL@", self._label)]
                if self._python
                else ["-I", "-S", "-c", C_RUNNER]
            )
            product = f"{self.function}:{self._product}" if self._python else str(self._product)
            status, log = None, ""
            with contextlib.suppress(TimeoutError):
                ran = run_tool([sys.executable, *how, product, file.name, *numbers], timeout_s=self._seconds)
                status, log = ran.status, ran.said
            words = numpy.fromfile(file.name, dtype=numpy.int64)
        state = int(words[0])
        if state == -1:
            return words
        at = f"at index {state - 1}" if state else "while it is loaded"
        if status is None or -status in (signal.SIGXCPU, signal.SIGKILL):
            raise UndecidedError(
                f"{self.function} has not returned {at} after {self._seconds:g} s", budget=int(self._seconds)
            )
        ending = _ending(status)
        reason = log.splitlines()[-1][:300] if log else ending
        if state:
            why = f"{reason}" if self._python else ending
            raise MismatchError(f"{self.function} ends its process {at} with {why}", index=state - 1)
        raise CompileError(f"{self.function} does not load: {reason}", log=log)


def _undefined() -> str:
    """Directives that take back what CUDA's headers define of the shim's words."""
    words = re.findall(r"#define (\w+)", text_of("qualifiers.h"))
    return "".join(f"#undef {word}\n" for word in words)


def _cuda_headers() -> Path | None:
    """The folder of CUDA's own headers, or None: in CUDA_HOME or CUDA_PATH, beside nvcc, or in a wheel."""
    places = [Path(home) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    if (nvcc := shutil.which("nvcc")) is not None:
        places.append(Path(nvcc).resolve().parent.parent / "include")
    for folder in map(Path, sys.path):
        places += sorted(folder.glob("nvidia/c*/include"))
    places += sorted(Path("/usr/local").glob("cuda*/include"), reverse=True)
    needed = ("cuda_runtime.h", "cuda_fp16.h", "crt/host_config.h")
    return next((path for path in places if all((path / name).is_file() for name in needed)), None)


def _ending(status: int) -> str:
    """Say how a process ended, and what usually ends one so."""
    if status >= 0:
        return f"exit code {status}"
    usual = {signal.SIGFPE: " (a division by zero)", signal.SIGSEGV: " (a wild pointer or endless recursion)"}
    return signal.Signals(-status).name + usual.get(signal.Signals(-status), "")


_FUNCTION = re.compile(r"[{};#]|(?<![=!<>])=(?!=)|\b(def|lambda)\b")
"""Marks of a function, a lambda or a macro, which no expression has."""

_VARIABLE = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)

ORDERS = (("row", "col"), ("i", "j", "k", "l"), ("m", "n", "k"))
"""Names of modes whose order needs no saying."""


def is_expression(text: str) -> bool:
    """Whether a text is an expression, and not a function.

    >>> is_expression("i % 4 * 8 + i / 4"), is_expression("int f(int i) { return i; }")
    (True, False)
    """
    text = text.strip()
    if _VARIABLE.fullmatch(text):  # a word alone is probably the name of a forgotten function
        return any(text in order for order in ORDERS)
    return bool(text) and _FUNCTION.search(text) is None


class IndexExpression:
    """An index expression over the domain of `shape`; `names` are its variables in the order of the modes.

    Raises ParseError for what is not an expression, ArgumentTypeError for names that are not its variables
    and where it has several whose order is not known, ShapeError where the shape has another number of modes.

    >>> index = IndexExpression("(col ^ (row % 8 * 8)) + row * 64", (8, 64))
    >>> index.names, index.table(0, 10).tolist()
    (('row', 'col'), [0, 72, 144, 216, 288, 360, 432, 504, 1, 73])
    """

    function = "the expression"

    def __init__(self, text: str, shape: IntTuple, names: Sequence[str] | None = None) -> None:
        occurring = tuple(dict.fromkeys(_VARIABLE.findall(text)))
        checked = None if names is None else _checked(names)
        self._index = parse_index(text.strip(), {name: name for name in occurring})
        self.names = _ordered(self._index.names, shape) if checked is None else checked
        if missing := [name for name in self._index.names if name not in self.names]:
            raise ArgumentTypeError(
                f"the expression uses {', '.join(missing)}, and its names are {', '.join(self.names)}"
            )
        choices = _choices(shape)
        if len(self.names) not in choices:
            accepted = ", ".join(map(str, sorted(choices)))
            raise ShapeError(
                f"the expression has {len(self.names)} variables, {', '.join(self.names)}; for the shape "
                f"{to_text(shape)} it may have {accepted}"
            )
        self.extents = choices[len(self.names)]

    def table(self, first: int, count: int) -> Any:
        """The results at `count` flat indices from `first` on, as 64-bit integers.

        Raises MismatchError for an index at which C and Python do not agree on the expression, and as
        `IndexText` does for numbers that are too large.
        """
        import numpy

        flat = numpy.arange(first, first + count, dtype=numpy.int64)
        digits = [flat] if len(self.extents) == 1 else flatten_tree(coordinate_at(flat, self.extents))
        try:
            return self._index(**dict(zip(self.names, digits, strict=True))) + numpy.zeros(count, numpy.int64)
        except ParseError as error:
            raise MismatchError(error.message) from None


def _checked(names: Sequence[str]) -> tuple[str, ...]:
    """Names of variables, each once.  Raises ArgumentTypeError."""
    if isinstance(names, str):
        raise ArgumentTypeError(f"names is {names!r}: a list of names, in the order of the modes, is needed")
    for name in names:
        check_type("check_index_function", name, str, "the name of a variable")
    if len(set(names)) < len(names):
        raise ArgumentTypeError(f"names are {', '.join(names)}: each is needed once")
    return tuple(names)


def _ordered(occurring: tuple[str, ...], shape: IntTuple) -> tuple[str, ...]:
    """The variables in the order of the modes.  Raises ArgumentTypeError where nothing states it."""
    rank = len(shape) if isinstance(shape, tuple) else 1
    for order in ORDERS:
        flat = occurring == order[:1] and order[0] != "row"  # a lone i is an index, a lone row is not
        if not flat and occurring and len(order) >= rank > 1 and set(occurring) <= set(order[:rank]):
            return order[:rank]
    if len(occurring) <= 1:
        return occurring or ("i",)
    raise ArgumentTypeError(
        f"the expression uses {', '.join(occurring)}, and nothing says which of them is which mode of "
        f"{to_text(shape)}: give names, such as names={list(occurring)!r}, or a function"
    )
