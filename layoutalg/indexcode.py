"""Index code written in C or CUDA, built for the host and tabulated over the domain of a layout.

The idea.  A C++ template finds out how many integers the function takes; a loop in C then fills a table of
64-bit results, a million in a millisecond or two.  The digits of a flat index are computed there too, by the
rule of int_tuple: the last one is not reduced.

>>> code = IndexCode("__device__ long long f(int i, int j) { return 8LL * i + j; }", "f", (4, 8))
>>> code.table(0, 6).tolist()
[0, 8, 16, 24, 1, 9]
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

from layoutalg.errors import MismatchError, ParseError, ShapeError
from layoutalg.hostcc import compile_shared
from layoutalg.int_tuple import IntTuple, flatten, product, to_text

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
                                     long long* out) {
    long long x[MODES];
    for (long long i = 0; i < count; ++i) {
        long long rest = first + i;
        for (int m = 0; m + 1 < modes; ++m) { x[m] = rest % extents[m]; rest /= extents[m]; }
        x[modes - 1] = rest;
        if (!layoutalg_table_::apply(&FUNCTION, x, out + i)) return first + i;
    }
    return -1;
}
"""


class IndexCode:
    """A compiled index function over the domain of `shape`; it takes one index, or one a mode or a leaf.

    Raises CompileError; ParseError when `function` is not a C++ name; ShapeError when it takes another
    number of arguments.
    """

    def __init__(self, source: str, function: str, shape: IntTuple) -> None:
        if not _NAME.match(function):
            raise ParseError(f"{function!r} is not the name of a C++ function", text=function)
        choices: dict[int, tuple[int, ...]] = {1: (product(shape),)}
        if isinstance(shape, tuple):
            for extents in (tuple(map(product, shape)), flatten(shape)):
                if extents:
                    choices.setdefault(len(extents), extents)
        away = "".join(f"#define {word}\n" for word in _QUALIFIERS)
        table = _TABLE.replace("FUNCTION", function).replace("MODES", str(max(choices)))
        library = compile_shared(f'#include <cstdint>\n{away}#line 1 "{function}"\n{source}\n{table}')
        arity = library.layoutalg_arity()
        if arity not in choices:
            accepted = ", ".join(map(str, sorted(choices)))
            raise ShapeError(
                f"{function} takes {arity} arguments; for the shape {to_text(shape)} it may take {accepted}"
            )
        self.function = function
        self.extents = choices[arity]
        self._table = library.layoutalg_table
        self._table.restype = ctypes.c_longlong
        self._table.argtypes = (
            ctypes.c_longlong, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
        )  # fmt: skip

    def table(self, first: int, count: int) -> Any:
        """The results at `count` flat indices from `first` on, as 64-bit integers.

        Raises MismatchError for an index that a parameter of the function is too narrow to hold.
        """
        import numpy

        extents = numpy.asarray(self.extents, dtype=numpy.int64)
        out = numpy.empty(count, dtype=numpy.int64)
        lost = self._table(first, count, extents.ctypes.data, len(extents), out.ctypes.data)
        if lost >= 0:
            raise MismatchError(
                f"the parameters of {self.function} cannot hold index {lost}; declare them wider", index=lost
            )
        return out
