"""The C++ that tabulates an index function, and the processes that run it.

The idea.  Templates read the parameters of whatever is called, a function, a functor or a lambda: an integer
takes one coordinate, an int2 two, a pointer none, for it is a base from which the result is counted.
Coordinates that are left over come first and go to threadIdx.  A loop then fills a table of 64-bit results.

The words of the file that a process writes: 0 while the code is loaded, i + 1 while index i is computed, -1
when all is done; the number of coordinates it takes, or an index that its parameters cannot hold, or -2 - i
where the pointer at index i lies between two elements; the results.
"""

from __future__ import annotations

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
template <class R, class... A> struct signature<R (*)(A...)> { using type = call<R, A...>; };
template <class R, class... A>
struct signature<R (*)(A...) noexcept> { using type = call<R, A...>; };
template <class C, class R, class... A>
struct signature<R (C::*)(A...)> { using type = call<R, A...>; };
template <class C, class R, class... A>
struct signature<R (C::*)(A...) const> { using type = call<R, A...>; };
template <class C, class R, class... A>
struct signature<R (C::*)(A...) noexcept> { using type = call<R, A...>; };
template <class C, class R, class... A>
struct signature<R (C::*)(A...) const noexcept> { using type = call<R, A...>; };
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
