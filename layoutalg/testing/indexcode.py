"""Index code written in C or CUDA, built for the host and tabulated over the domain of a layout.

The idea.  A C++ template finds out how many integers the function takes; a loop in C then fills a table of
64-bit results, a million in a millisecond or two.  The digits of a flat index are computed there too, by the
rule of int_tuple: the last one is not reduced.

The code runs in a process of its own, one per table, so that a division by zero, a wild pointer or an endless
loop in it ends that process and not this one.  Both have one file: its first word says which index is being
computed, so that it is known however the process ended; the results stand behind it.

>>> code = IndexCode("__device__ long long f(int i, int j) { return 8LL * i + j; }", "f", (4, 8))
>>> code.table(0, 6).tolist()
[0, 8, 16, 24, 1, 9]
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import sys
import tempfile
import weakref
from typing import Any

from layoutalg.errors import CompileError, MismatchError, ParseError, ShapeError, UndecidedError
from layoutalg.layout import IntTuple, flatten_tree, product, to_text
from layoutalg.testing.hostcc import build_shared
from layoutalg.tools import run_tool

_NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*\Z", re.ASCII)
_QUALIFIERS = ("__device__", "__host__", "__global__", "__constant__", "__forceinline__", "__noinline__")

_TABLE = """
#include <type_traits>
#include <utility>
namespace layoutalg_table_ {
template <class R, class... A>
constexpr int arity(R (*)(A...)) { return sizeof...(A); }

template <class R, class... A, std::size_t... I>
bool call(R (*g)(A...), const long long* x, long long* out, std::index_sequence<I...>) {
    static_assert(std::is_integral_v<R> && (std::is_integral_v<A> && ...), "index code maps integers to one");
    *out = static_cast<long long>(g(static_cast<A>(x[I])...));
    return ((static_cast<long long>(static_cast<A>(x[I])) == x[I]) && ...);
}

template <class R, class... A>
bool apply(R (*g)(A...), const long long* x, long long* out) {
    return call(g, x, out, std::index_sequence_for<A...>{});
}
}
extern "C" int layoutalg_arity() { return layoutalg_table_::arity(&FUNCTION); }
extern "C" long long layoutalg_table(long long first, long long count, const long long* extents, int modes,
                                     long long volatile* at, long long* out) {
    static const auto volatile function = &FUNCTION;  // volatile, so that no call begins before `at` says so
    long long x[MODES];
    for (long long i = 0; i < count; ++i) {
        long long rest = first + i;
        *at = rest + 1;
        for (int m = 0; m + 1 < modes; ++m) { x[m] = rest % extents[m]; rest /= extents[m]; }
        x[modes - 1] = rest;
        const auto f = function;
        if (!layoutalg_table_::apply(f, x, out + i)) return first + i;
    }
    return -1;
}
"""

_RUNNER = """
import ctypes, mmap, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
product, path, (first, count, *extents) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:])
with open(path, "r+b") as file:
    words = (ctypes.c_longlong * (count + 2)).from_buffer(mmap.mmap(file.fileno(), 0))
library = ctypes.CDLL(product)
if extents:
    table, place = library.layoutalg_table, ctypes.addressof(words)
    table.restype = ctypes.c_longlong
    table.argtypes = [ctypes.c_longlong] * 2 + [ctypes.c_void_p, ctypes.c_int] + [ctypes.c_void_p] * 2
    sides = (ctypes.c_longlong * len(extents))(*extents)
    words[1] = table(first, count, sides, len(sides), place, place + 16)
else:
    words[1] = library.layoutalg_arity()
words[0] = -1
"""
"""The process that runs index code.  The words of its file: 0 while the code is loaded, i + 1 while index i
is computed, -1 when all is done; the number of parameters, or an index that they cannot hold; the results."""

TABLE_SECONDS = 120.0
"""A table of a million indices takes some milliseconds; code that takes longer than this is given up."""


class IndexCode:
    """A compiled index function over the domain of `shape`; it takes one index, or one per mode or per leaf.

    Raises CompileError for what does not compile or load; ParseError when `function` is not a C++ name;
    ShapeError when it takes another number of arguments.
    """

    def __init__(self, source: str, function: str, shape: IntTuple) -> None:
        if not _NAME.match(function):
            raise ParseError(f"{function!r} is not the name of a C++ function", text=function)
        choices: dict[int, tuple[int, ...]] = {1: (product(shape),)}
        if isinstance(shape, tuple):
            for extents in (tuple(map(product, shape)), flatten_tree(shape)):
                if extents:
                    choices.setdefault(len(extents), extents)
        away = "".join(f"#define {word}\n" for word in _QUALIFIERS)
        table = _TABLE.replace("FUNCTION", function).replace("MODES", str(max(choices)))
        self.function = function
        self._product = build_shared(f'#include <cstdint>\n{away}#line 1 "{function}"\n{source}\n{table}')
        weakref.finalize(self, shutil.rmtree, self._product.parent, ignore_errors=True)
        arity = int(self._run(0, 0, ())[1])
        if arity not in choices:
            accepted = ", ".join(map(str, sorted(choices)))
            raise ShapeError(
                f"{function} takes {arity} arguments; for the shape {to_text(shape)} it may take {accepted}"
            )
        self.extents = choices[arity]

    def table(self, first: int, count: int) -> Any:
        """The results at `count` flat indices from `first` on, as 64-bit integers.

        Raises MismatchError for an index that a parameter of the function is too narrow to hold, and for one
        at which the function ends its process; UndecidedError where it takes longer than TABLE_SECONDS.
        """
        found = self._run(first, count, self.extents)
        if (lost := int(found[1])) >= 0:
            raise MismatchError(
                f"the parameters of {self.function} cannot hold index {lost}; declare them wider", index=lost
            )
        return found[2:]

    def _run(self, first: int, count: int, extents: tuple[int, ...]) -> Any:
        """The words of the file after a process has filled it."""
        import numpy

        with tempfile.NamedTemporaryFile(dir=self._product.parent) as file:
            file.truncate(8 * (count + 2))
            numbers = map(str, (first, count, *extents))
            command = [sys.executable, "-I", "-S", "-c", _RUNNER, str(self._product), file.name, *numbers]
            status, log = None, ""
            with contextlib.suppress(TimeoutError):
                ran = run_tool(command, timeout_s=TABLE_SECONDS)
                status, log = ran.status, ran.said
            found = numpy.fromfile(file.name, dtype=numpy.int64)
        state = int(found[0])
        if state == -1:
            return found
        at = f"at index {state - 1}" if state else "while it is loaded"
        if status is None:
            raise UndecidedError(
                f"{self.function} has not returned {at} after {TABLE_SECONDS:g} s", budget=int(TABLE_SECONDS)
            )
        ending = _ending(status)
        if state:
            raise MismatchError(f"{self.function} ends its process {at} with {ending}", index=state - 1)
        reason = log.splitlines()[-1] if log else ending
        raise CompileError(f"{self.function} does not load: {reason}", log=log)


def _ending(status: int) -> str:
    """How a process ended, and what usually ends one so."""
    if status >= 0:
        return f"exit code {status}"
    usual = {signal.SIGFPE: " (a division by zero)", signal.SIGSEGV: " (a wild pointer or endless recursion)"}
    return signal.Signals(-status).name + usual.get(signal.Signals(-status), "")
