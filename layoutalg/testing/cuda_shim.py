"""CUDA text made ready for the host's C++ compiler: types, intrinsics and thread variables of CUDA's headers.

The idea.  An index function computes with integers, so that a host runs it once what CUDA adds is there:
vector types, half, threadIdx, __umul24 and the like.  What has no meaning on a host is taken out of the text,
its lines left in place: launches and inline asm, of kernels beside the function.  CUDA's own headers become
empty ones, and so does every other header that is not found.

>>> prepared("k<<<1, 32>>>(p);\\nasm volatile(\\"bar.sync 0;\\");").splitlines()
[';', ';']
>>> headers_of('#include <cuda_fp16.h>\\n#include "tile.cuh"')
('cuda_fp16.h', 'tile.cuh')

The C++ that tabulates an index function, and the processes that run it.

The idea.  Templates read the parameters of whatever is called, a function, a functor or a lambda: an integer
takes one coordinate, an int2 two, a pointer none, for it is a base from which the result is counted.
Coordinates that are left over come first and go to threadIdx.  A loop then fills a table of 64-bit results.

The words of the file that a process writes: 0 while the code is loaded, i + 1 while index i is computed, -1
when all is done; the number of coordinates it takes, or an index that its parameters cannot hold, or -2 - i
where the pointer at index i lies between two elements; the results.
"""

from __future__ import annotations

import re
from pathlib import Path

_VECTORS = (
    ("char", "signed char"), ("uchar", "unsigned char"), ("short", "short"), ("ushort", "unsigned short"),
    ("int", "int"), ("uint", "unsigned int"), ("long", "long"), ("ulong", "unsigned long"),
    ("longlong", "long long"), ("ulonglong", "unsigned long long"), ("float", "float"), ("double", "double"),
)  # fmt: skip


def _vector_types() -> str:
    lines = []
    for name, kind in _VECTORS:
        for count in range(1, 5):
            both, axes = f"{name}{count}", "xyzw"[:count]
            members = [f"{kind} {axis}" for axis in axes]
            lines.append(f"struct {both} {{ {'; '.join(members)}; }};")
            made = f"{both} make_{both}({', '.join(members)}) {{ return {both}{{{', '.join(axes)}}}; }}"
            lines.append(f"static inline {made}")
    return "\n".join(lines)


QUALIFIERS = """
#define __device__
#define __host__
#define __global__ static
#define __constant__
#define __shared__
#define __managed__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __grid_constant__
#define CUTE_HOST_DEVICE inline
#define CUTE_DEVICE inline
#define CUTLASS_HOST_DEVICE inline
#define CUTLASS_DEVICE inline
"""
"""The words of CUDA that come before a declaration."""

TYPES = (
    """
struct dim3 { unsigned x, y, z; constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
    : x(a), y(b), z(c) {} };
struct __half { unsigned short x; }; typedef __half half;
struct __half2 { __half x, y; }; typedef __half2 half2;
struct __nv_bfloat16 { unsigned short x; }; typedef __nv_bfloat16 nv_bfloat16;
struct __nv_bfloat162 { __nv_bfloat16 x, y; }; typedef __nv_bfloat162 nv_bfloat162;
struct __nv_fp8_e4m3 { unsigned char x; }; struct __nv_fp8_e5m2 { unsigned char x; };
typedef struct CUstream_st* cudaStream_t; typedef int cudaError_t;
"""
    + _vector_types()
    + "\n"
)
"""The types of cuda_runtime.h and cuda_fp16.h that index functions name."""

INTRINSICS = """
#include <stddef.h>
#include <stdint.h>
template <class A, class B> using layoutalg_both_ = decltype(true ? A() : B());
template <class A, class B> constexpr layoutalg_both_<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr layoutalg_both_<A, B> max(A a, B b) { return a < b ? b : a; }
static const int warpSize = 32;
namespace layoutalg_threads_ { struct Triple { unsigned x, y, z; }; }
static layoutalg_threads_::Triple threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim{1, 1, 1}, gridDim{1, 1, 1};
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
static inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
template <class T> static inline T __ldg(const T* p) { return *p; }
static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
static inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline unsigned __brev(unsigned a) {
    unsigned out = 0;
    for (int k = 0; k < 32; ++k) out |= (a >> k & 1u) << (31 - k);
    return out;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned out = 0;
    for (int k = 0; k < 4; ++k) out |= (unsigned)(both >> ((s >> 4 * k & 7u) * 8) & 0xffu) << 8 * k;
    return out;
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
    return (unsigned)((((unsigned long long)hi << 32 | lo) << (n & 31u)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31u));
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
static inline void __syncthreads() {}
static inline void __syncwarp(unsigned = 0xffffffffu) {}
"""
"""Intrinsics of integers, as the CUDA Math API states them, and the variables of a thread."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]{1,200})[">]', re.MULTILINE)
_OWN = re.compile(
    r"(cuda|cu(blas|rand|fft)|device_|driver_|host_|math_|mma|nvtx|sm_|vector_|cooperative_groups|"
    r"cute/|cutlass/|cub/|thrust/|crt/|nv/|nvrtc)[\w./+-]*\Z",
    re.ASCII,
)
_LAUNCH = re.compile(r"[A-Za-z_][\w:]*\s*(?:<[^<>;{}]*>)?\s*<<<")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__)?\s*\(")


def headers_of(source: str) -> tuple[str, ...]:
    """The headers that a text includes, each once; those outside of its folders are left out."""
    return tuple(
        dict.fromkeys(
            name
            for name in _INCLUDE.findall(source)
            if not name.startswith("/") and ".." not in Path(name).parts
        )
    )


def is_of_cuda(header: str) -> bool:
    """True for a header that the shim stands for.

    >>> is_of_cuda("cuda_fp16.h"), is_of_cuda("cstdint")
    (True, False)
    """
    return _OWN.match(header) is not None


def prepared(source: str) -> str:
    """The text without launches and inline asm; no line moves."""
    for pattern in (_LAUNCH, _ASM):
        at = 0
        while (match := pattern.search(source, at)) is not None:
            start = match.end() - 1 if pattern is _ASM else source.find(">>>", match.end())
            opened = source.find("(", start) if start >= 0 else -1
            end = _closing(source, opened)
            if end < 0:
                break
            gone = source[match.start() : end + 1]
            source = source[: match.start()] + "\n" * gone.count("\n") + source[end + 1 :]
            at = match.start()
    return source


def body_of(source: str, name: str) -> str:
    """The text between the braces of a function, lambda or functor; all of the text where none is found.

    >>> body_of("int g() { return 1; } int f(int i) { return i; }", "f")
    ' return i; '
    """
    last = name.rpartition("::")[2].partition("<")[0]
    for match in re.finditer(rf"\b{re.escape(last)}\b", source):
        opened = source.find("{", match.end())
        stop = source.find(";", match.end())
        if opened < 0 or 0 <= stop < opened:
            continue
        end = _closing(source, opened)
        if end > 0:
            return source[opened + 1 : end]
    return source


def _closing(source: str, opened: int) -> int:
    """The index that closes the bracket at `opened`; -1 where none does.  Strings in between do not count."""
    if opened < 0:
        return -1
    depth = 0
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|[()\[\]{}]', source[opened:]):
        if match[0] in ("(", "[", "{"):
            depth += 1
        elif match[0] in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return opened + match.start()
    return -1


TABLE = """
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
namespace layoutalg_table_ {
template <class T, class = void> struct has_y : std::false_type {};
template <class T> struct has_y<T, std::void_t<decltype(std::declval<T&>().y)>> : std::true_type {};
template <class T, class = void> struct has_z : std::false_type {};
template <class T> struct has_z<T, std::void_t<decltype(std::declval<T&>().z)>> : std::true_type {};
template <class T, class = void> struct has_w : std::false_type {};
template <class T> struct has_w<T, std::void_t<decltype(std::declval<T&>().w)>> : std::true_type {};

template <class T> using bare = std::remove_cv_t<std::remove_reference_t<T>>;
template <class A> constexpr int slots() {
    using T = bare<A>;
    if constexpr (std::is_integral_v<T>) return 1;
    else if constexpr (std::is_pointer_v<T>) return 0;
    else if constexpr (has_w<T>::value) return 4;
    else if constexpr (has_z<T>::value) return 3;
    else if constexpr (has_y<T>::value) return 2;
    else static_assert(std::is_integral_v<T>, "index code maps integers to one");
}
constexpr std::uintptr_t base = std::uintptr_t(1) << 45;  // an address that nothing has

template <class A> bare<A> made(const long long*& x, bool& held) {
    using T = bare<A>;
    if constexpr (std::is_integral_v<T>) {
        T value = static_cast<T>(*x);
        held = held && static_cast<long long>(value) == *x;
        ++x;
        return value;
    } else if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<T>(base);
    } else {
        T value{};
        value.x = made<decltype(value.x)>(x, held);
        value.y = made<decltype(value.y)>(x, held);
        if constexpr (slots<A>() > 2) value.z = made<decltype(value.z)>(x, held);
        if constexpr (slots<A>() > 3) value.w = made<decltype(value.w)>(x, held);
        return value;
    }
}
template <class R, class V> long long number(V&& value, bool& whole) {
    if constexpr (std::is_integral_v<bare<R>> && !std::is_lvalue_reference_v<R>) {
        return static_cast<long long>(value);
    } else {
        using P = std::conditional_t<std::is_pointer_v<bare<R>>, std::remove_pointer_t<bare<R>>, bare<R>>;
        static_assert(std::is_pointer_v<bare<R>> || std::is_lvalue_reference_v<R>,
                      "index code maps integers to one");
        std::ptrdiff_t bytes;
        if constexpr (std::is_pointer_v<bare<R>>) bytes = reinterpret_cast<std::uintptr_t>(value) - base;
        else bytes = reinterpret_cast<std::uintptr_t>(&value) - base;
        constexpr std::ptrdiff_t size = sizeof(std::conditional_t<std::is_void_v<P>, char, P>);
        whole = bytes % size == 0;
        return bytes / size;
    }
}
template <class R, class... A> struct call {  // `at` is opaque: no call begins before its index
    static constexpr int count = (0 + ... + slots<A>());
    template <class F> __attribute__((noinline, noipa))
    static int at(F&& f, const long long* x, long long* out) {
        bool held = true, whole = true;
        std::tuple<bare<A>...> given{made<A>(x, held)...};
        if (!held) return 1;
        *out = std::apply([&](auto&... values) -> long long {
            return number<R>(f(static_cast<A>(values)...), whole);
        }, given);
        return whole ? 0 : 2;
    }
};
template <class F, class = void> struct signature { using type = void; };
template <bool N, class R, class... A>
struct signature<R (*)(A...) noexcept(N)> { using type = call<R, A...>; };
template <bool N, class C, class R, class... A>
struct signature<R (C::*)(A...) noexcept(N)> { using type = call<R, A...>; };
template <bool N, class C, class R, class... A>
struct signature<R (C::*)(A...) const noexcept(N)> { using type = call<R, A...>; };
template <class F> struct signature<F, std::void_t<decltype(&F::operator())>>
    : signature<decltype(&F::operator())> {};

template <class F, int N, class = std::make_index_sequence<N>> struct generic;
template <class F, int N, std::size_t... I> struct generic<F, N, std::index_sequence<I...>> {
    template <std::size_t> using number = long long;
    static constexpr bool fits = std::is_invocable_v<F, number<I>...>;
    template <class G> static call<std::invoke_result_t<G, number<I>...>, number<I>...> result();
};
template <class T> struct tag { using type = T; };
template <class F> constexpr auto picked(std::integer_sequence<int>) { return tag<void>{}; }
template <class F, int N, int... M> constexpr auto picked(std::integer_sequence<int, N, M...>) {
    if constexpr (generic<F, N>::fits) return tag<decltype(generic<F, N>::template result<F>())>{};
    else return picked<F>(std::integer_sequence<int, M...>{});
}
template <class F> constexpr auto chosen() {
    if constexpr (std::is_void_v<typename signature<F>::type>)
        return picked<F>(std::integer_sequence<int, CHOICES>{});
    else return tag<typename signature<F>::type>{};
}
template <class F> using called = typename decltype(chosen<F>())::type;
}
"""
"""The templates; CHOICES are the numbers of coordinates that the function may take.  They come before
the user's text, whose macros may have any name."""

TAIL = """
static auto layoutalg_target = TARGET;
using layoutalg_call = layoutalg_table_::called<std::remove_cv_t<decltype(layoutalg_target)>>;
static_assert(!std::is_void_v<layoutalg_call>, "index code maps integers to one");
extern "C" int layoutalg_slots() { return layoutalg_call::count; }
extern "C" long long layoutalg_table(long long first, long long count, const long long* extents, int modes,
                                     int lead, long long volatile* at, long long* out) {
    long long x[MODES + 1];
    unsigned* thread[3] = {&threadIdx.x, &threadIdx.y, &threadIdx.z};
    unsigned* block[3] = {&blockDim.x, &blockDim.y, &blockDim.z};
    for (int m = 0; m < lead; ++m) *block[m] = static_cast<unsigned>(extents[m]);
    for (long long i = 0; i < count; ++i) {
        long long rest = first + i;
        *at = rest + 1;
        for (int m = 0; m + 1 < modes; ++m) { x[m] = rest % extents[m]; rest /= extents[m]; }
        if (modes) x[modes - 1] = rest;
        for (int m = 0; m < lead; ++m) *thread[m] = static_cast<unsigned>(x[m]);
        const int bad = layoutalg_call::at(layoutalg_target, x + lead, out + i);
        if (bad) return bad == 1 ? first + i : -2 - (first + i);
    }
    return -1;
}
"""
"""Names behind the text: TARGET is what is called, MODES the most coordinates that it may take."""

_LIMITS = """
import ctypes, mmap, resource, sys
for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_NOFILE, 64)):
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard < 0 else min(most, hard),) * 2)
product, path, (lead, first, count, *extents) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:])
with open(path, "r+b") as file:
    words = (ctypes.c_longlong * (count + 2)).from_buffer(mmap.mmap(file.fileno(), 0))
"""

C_RUNNER = (
    _LIMITS
    + """
library = ctypes.CDLL(product)
if extents:
    table, place = library.layoutalg_table, ctypes.addressof(words)
    table.restype = ctypes.c_longlong
    table.argtypes = [ctypes.c_longlong] * 2 + [ctypes.c_void_p] + [ctypes.c_int] * 2 + [ctypes.c_void_p] * 2
    sides = (ctypes.c_longlong * len(extents))(*extents)
    words[1] = table(first, count, sides, len(sides), lead, place, place + 16)
else:
    words[1] = library.layoutalg_slots()
words[0] = -1
"""
)
"""The process that runs compiled index code: product, file, leading coordinates, first, count, extents."""

PYTHON_RUNNER = (
    _LIMITS
    + """
import importlib, inspect, linecache, operator, types
name, _, product = product.partition(":")
with open(product, encoding="utf-8") as file:
    text = file.read()
def same(x, *more, **named):
    return x if callable(x) else same
for missing in ("triton", "triton.language", "cutlass", "cutlass.cute"):
    if missing.partition(".")[0] in text:
        try:
            importlib.import_module(missing)
        except ImportError:
            module = sys.modules[missing] = types.ModuleType(missing)
            module.__path__ = []
            module.__getattr__ = lambda name: same
            above, _, last = missing.rpartition(".")
            if above:
                setattr(sys.modules[above], last, module)
# Triton reads the source of a function, which must be a line of some file.
linecache.cache["@LABEL@"] = (len(text), None, text.splitlines(True), "@LABEL@")
space = {"__name__": "layoutalg_index_code"}
space |= {name: module for name, module in sys.modules.items() if name in ("triton", "cutlass")}
exec(compile(text, "@LABEL@", "exec"), space)
if name not in space:
    sys.exit(f"there is no {name} in the text")
function = getattr(space[name], "fn", space[name])
constants = space.get("layoutalg_constants", {}).get(name)
if extents:
    words[1] = -1
    for i in range(count):
        rest = first + i
        words[0] = rest + 1
        given = []
        for side in extents[:-1]:
            rest, digit = divmod(rest, side)
            given.append(digit)
        given.append(rest)
        if constants is not None:
            given = space["layoutalg_given"](function, given, constants)
        words[2 + i] = operator.index(function(*given))
else:
    words[1] = len(inspect.signature(function).parameters)
words[0] = -1
"""
)
"""The same of a function in Python, whose text is at `product`, after its name and a colon."""
