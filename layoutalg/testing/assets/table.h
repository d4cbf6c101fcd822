// Templates that call a function of CHOICES coordinates.  They come before the user's text, whose macros may have
// any name.
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
