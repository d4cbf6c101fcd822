// Declarations of CuTe with which a text parses; `declarations.py` says how they are meant.
#define CUTE_STATIC_ASSERT_V(...) static_assert(true)
#define CUTE_STATIC_ASSERT(...) static_assert(true)
#define CUTE_HOST_DEVICE __forceinline__ __host__ __device__
#define CUTE_DEVICE __forceinline__ __device__
#define CUTE_HOST __host__
#define CUTLASS_HOST_DEVICE __forceinline__ __host__ __device__
#define CUTLASS_DEVICE __forceinline__ __device__
#define CUTLASS_GLOBAL __global__ static
#define CUTLASS_GRID_CONSTANT __grid_constant__
#define CUTE_INLINE_CONSTANT static constexpr
#define CUTE_UNROLL
#define CUTE_NO_UNROLL
#define CUTLASS_PRAGMA_UNROLL
#define CUTLASS_PRAGMA_NO_UNROLL
#define CUTE_GCC_UNREACHABLE
#pragma clang force_cuda_host_device begin

namespace cutlass {
using half_t = __half;
using bfloat16_t = __nv_bfloat16;
using float_e4m3_t = __nv_fp8_e4m3;
using float_e5m2_t = __nv_fp8_e5m2;
struct tfloat32_t { float x; };
struct alignas(16) uint128_t { unsigned long lo, hi; };
inline __device__ int canonical_warp_idx_sync() { return __shfl_sync(0xffffffff, threadIdx.x / 32, 0); }
template <unsigned N> struct PipelineState {
    int index_ = 0; unsigned phase_ = 0;
    int index() const { return index_; }
    unsigned phase() const { return phase_; }
    void operator++() { if (++index_ == N) { index_ = 0; phase_ ^= 1; } }
};
namespace arch {
#define CLUSTER_BARRIER(name) static void name(uint64_t const*, unsigned = 0) { __threadfence_block(); }
struct ClusterBarrier { CLUSTER_BARRIER(init) CLUSTER_BARRIER(wait) CLUSTER_BARRIER(arrive) };
struct ClusterTransactionBarrier : ClusterBarrier {
    CLUSTER_BARRIER(arrive_and_expect_tx) CLUSTER_BARRIER(expect_transaction) };
}
}

namespace cute {
using cutlass::half_t; using cutlass::bfloat16_t; using cutlass::float_e4m3_t; using cutlass::float_e5m2_t;
using cutlass::tfloat32_t; using cutlass::uint128_t;
using ::size_t; using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using std::conditional_t; using std::enable_if_t; using std::is_same; using std::is_same_v;
using std::remove_cvref_t; using std::remove_reference_t;

// Integers and tuples.
template <auto V> struct C {
    static constexpr auto value = V;
    using value_type = decltype(V);
    using type = C;
    constexpr operator value_type() const { return V; }
    constexpr value_type operator()() const { return V; }
};
template <class T, T V> using constant = C<V>;
template <class T, T V> using integral_constant = C<V>;
template <int N> using Int = C<N>;
template <bool B> using bool_constant = C<B>;
using true_type = C<true>; using false_type = C<false>;
#define LAYOUTALG_BINARY(op) template <auto A, auto B> constexpr C<(A op B)> operator op(C<A>, C<B>) { return {}; }
LAYOUTALG_BINARY(+) LAYOUTALG_BINARY(-) LAYOUTALG_BINARY(*) LAYOUTALG_BINARY(/) LAYOUTALG_BINARY(%)
LAYOUTALG_BINARY(<<) LAYOUTALG_BINARY(>>) LAYOUTALG_BINARY(&) LAYOUTALG_BINARY(|) LAYOUTALG_BINARY(^)
LAYOUTALG_BINARY(==) LAYOUTALG_BINARY(!=) LAYOUTALG_BINARY(<) LAYOUTALG_BINARY(<=) LAYOUTALG_BINARY(>=)
LAYOUTALG_BINARY(&&) LAYOUTALG_BINARY(||)
template <auto A, auto B> constexpr C<(A > B)> operator>(C<A>, C<B>) { return {}; }
template <auto A> constexpr C<(-A)> operator-(C<A>) { return {}; }
template <int... N> struct ints {};
template <class... T> struct types {};
template <class... T> struct tuple {
    constexpr tuple() {}
    template <class A, class... B> constexpr tuple(A const&, B const&...) {}
};
template <class... T> using Shape = tuple<T...>;
template <class... T> using Stride = tuple<T...>;
template <class... T> using Step = tuple<T...>;
template <class... T> using Coord = tuple<T...>;
template <class... T> using Tile = tuple<T...>;
struct Underscore {};
using X = Underscore;
static constexpr Underscore _{};
template <class T> struct keeps : C<false> {};
template <> struct keeps<Underscore> : C<true> {};
template <class... T> struct keeps<tuple<T...>> : C<(keeps<T>::value || ...)> {};
#define LAYOUTALG_TUPLE(name) template <class... A> constexpr tuple<A...> name(A const&...) { return {}; }
LAYOUTALG_TUPLE(make_tuple) LAYOUTALG_TUPLE(make_shape) LAYOUTALG_TUPLE(make_stride) LAYOUTALG_TUPLE(make_coord)
LAYOUTALG_TUPLE(make_tile) LAYOUTALG_TUPLE(make_step)

// The type of an expression is that expression; `known` is what C++ asks for.
template <class F, class... A> struct call;
struct made;
template <class E> struct known;
#define LAYOUTALG_SHAPED(Self) \
    constexpr auto shape() const { return known<call<f::shape, ints<>, Self>>::value(); } \
    constexpr auto stride() const { return known<call<f::stride, ints<>, Self>>::value(); } \
    constexpr auto size() const { return known<call<f::size, ints<>, Self>>::value(); }

// Layouts.
struct LayoutLeft {}; struct LayoutRight {};
using GenColMajor = LayoutLeft; using GenRowMajor = LayoutRight;
template <int B, int M, int S> struct Swizzle {};
template <class A, class O, class B> struct ComposedLayout {};
template <class S, class D = made> struct Layout {
    constexpr Layout() {}
    template <class A, class B> constexpr Layout(A const&, B const&) {}
    template <class A> explicit constexpr Layout(A const&) {}
    template <class... I> constexpr auto operator()(I const&...) const {
        if constexpr ((keeps<I>::value || ...)) return Layout<call<f::slice, Layout, I...>, made>{};
        else return known<call<f::at, Layout, I...>>::value();
    }
    template <class... A> constexpr auto compose(A const&...) const {
        return Layout<call<f::composition, Layout, A...>, made>{};
    }
    constexpr Layout layout() const { return {}; }
    LAYOUTALG_SHAPED(Layout)
};

// Tensors: a pointer and a layout.
template <class T> struct pointer {
    using value_type = std::remove_cv_t<T>;
    template <class I> pointer operator+(I const&) const;
    template <class I> T& operator[](I const&) const;
    T& operator*() const;
    T* get() const;
};
template <class E, class L> struct Tensor;
template <class T, class L> struct Tensor<pointer<T>, L> {
    using value_type = std::remove_cv_t<T>; using element_type = T; using reference = T&;
    using layout_type = L; using engine_type = pointer<T>;
    constexpr Tensor() {}
    template <class... I> decltype(auto) operator()(I const&... i) const {
        if constexpr ((keeps<I>::value || ...)) return Tensor<pointer<T>, Layout<call<f::slice, L, I...>, made>>{};
        else return (*this)[make_tuple(i...)];
    }
    template <class I> T& operator[](I const&) const;
    template <class... A> constexpr auto compose(A const&...) const {
        return Tensor<pointer<T>, Layout<call<f::composition, L, A...>, made>>{};
    }
    constexpr L layout() const { return {}; }
    constexpr pointer<T> data() const { return {}; }
    LAYOUTALG_SHAPED(L)
};
template <class E, class L> Tensor(Tensor<E, L>) -> Tensor<E, L>;
template <class A> struct layout_in { using type = A; };
template <class E, class L> struct layout_in<Tensor<E, L>> { using type = L; };

// Functions of layouts, and of tensors, whose elements stay.
template <class F, class... A> struct result { using type = Layout<call<F, A...>, made>; };
template <class F, class E, class L, class... A> struct result<F, Tensor<E, L>, A...> {
    using type = Tensor<E, Layout<call<F, L, A...>, made>>;
};
#define LAYOUTALG_MADE(name) template <class... A> constexpr typename result<f::name, A...>::type name( \
    A const&...) { return {}; }
LAYOUTALG_MADE(make_layout) LAYOUTALG_MADE(make_ordered_layout) LAYOUTALG_MADE(make_layout_like)
LAYOUTALG_MADE(make_identity_layout) LAYOUTALG_MADE(tile_to_shape) LAYOUTALG_MADE(composition)
LAYOUTALG_MADE(coalesce) LAYOUTALG_MADE(complement) LAYOUTALG_MADE(right_inverse) LAYOUTALG_MADE(left_inverse)
LAYOUTALG_MADE(nullspace) LAYOUTALG_MADE(logical_divide) LAYOUTALG_MADE(zipped_divide)
LAYOUTALG_MADE(tiled_divide) LAYOUTALG_MADE(flat_divide) LAYOUTALG_MADE(logical_product)
LAYOUTALG_MADE(zipped_product) LAYOUTALG_MADE(tiled_product) LAYOUTALG_MADE(flat_product)
LAYOUTALG_MADE(blocked_product) LAYOUTALG_MADE(raked_product) LAYOUTALG_MADE(filter)
LAYOUTALG_MADE(filter_zeros) LAYOUTALG_MADE(max_common_layout) LAYOUTALG_MADE(local_tile)
LAYOUTALG_MADE(local_partition) LAYOUTALG_MADE(domain_offset)
template <class F, class N, class... A> struct numbered {
    using type = decltype(known<call<F, N, A...>>::value());
};
template <class F, class N, class S, class D, class... B> struct numbered<F, N, Layout<S, D>, B...> {
    using type = Layout<call<F, N, Layout<S, D>, B...>, made>;
};
template <class F, class N, class E, class L, class... B> struct numbered<F, N, Tensor<E, L>, B...> {
    using type = Tensor<E, Layout<call<F, N, L, B...>, made>>;
};
#define LAYOUTALG_NUMBERED(name) \
    template <int... N, class A> constexpr auto name(A const&, ints<N...> = {}) { \
        return numbered_value<typename numbered<f::name, ints<N...>, A>::type>(); } \
    template <int... N, class A, class B> constexpr auto name(A const&, B const&, ints<N...> = {}) { \
        return numbered_value<typename numbered<f::name, ints<N...>, A, B>::type>(); }
template <class T> constexpr T numbered_value() { return {}; }
LAYOUTALG_NUMBERED(upcast) LAYOUTALG_NUMBERED(downcast) LAYOUTALG_NUMBERED(group)
LAYOUTALG_NUMBERED(group_modes) LAYOUTALG_NUMBERED(select) LAYOUTALG_NUMBERED(take) LAYOUTALG_NUMBERED(append)
LAYOUTALG_NUMBERED(prepend) LAYOUTALG_NUMBERED(replace) LAYOUTALG_NUMBERED(flatten) LAYOUTALG_NUMBERED(layout)
LAYOUTALG_NUMBERED(tensor)
#define LAYOUTALG_ASKED(name) template <int... N, class A> constexpr auto name(A const&, ints<N...> = {}) { \
    return known<call<f::name, ints<N...>, typename layout_in<A>::type>>::value(); }
LAYOUTALG_ASKED(size) LAYOUTALG_ASKED(rank) LAYOUTALG_ASKED(depth) LAYOUTALG_ASKED(cosize) LAYOUTALG_ASKED(get)
LAYOUTALG_ASKED(shape) LAYOUTALG_ASKED(stride) LAYOUTALG_ASKED(tile_size) LAYOUTALG_ASKED(product_each)
LAYOUTALG_ASKED(product)
#define LAYOUTALG_PLAIN(name) template <class A, class B> constexpr auto name(A const&, B const&) { \
    return known<call<f::name, typename layout_in<A>::type, typename layout_in<B>::type>>::value(); }
LAYOUTALG_PLAIN(ceil_div) LAYOUTALG_PLAIN(shape_div) LAYOUTALG_PLAIN(elem_less)
template <class L> inline constexpr auto cosize_v = decltype(known<call<f::cosize, ints<>, L>>::value())::value;
template <class L> inline constexpr auto size_v = decltype(known<call<f::size, ints<>, L>>::value())::value;
template <class L> inline constexpr auto rank_v = decltype(known<call<f::rank, ints<>, L>>::value())::value;
template <class L> struct is_static : decltype(known<call<f::is_static, L>>::value()) {};
template <class A, class B, class L> constexpr Layout<call<f::recast_layout, types<A, B>, L>, made>
recast_layout(L const&) { return {}; }

// Functions that make tensors.
#define LAYOUTALG_POINTER(name) \
    template <class T> pointer<T> name(T*); template <class T> pointer<T> name(pointer<T>); \
    template <class T> pointer<T> name(void*); template <class T> pointer<T const> name(void const*);
LAYOUTALG_POINTER(make_gmem_ptr) LAYOUTALG_POINTER(make_smem_ptr) LAYOUTALG_POINTER(make_rmem_ptr)
template <class T> T* raw_pointer_cast(T*); template <class T> T* raw_pointer_cast(pointer<T>);
template <class T, class... A> Tensor<pointer<T>, Layout<call<f::make_layout, A...>, made>>
make_tensor(pointer<T>, A const&...);
template <class T, class... A> Tensor<pointer<T>, Layout<call<f::make_layout, A...>, made>>
make_tensor(T*, A const&...);
template <class T, class... A> Tensor<pointer<T>, Layout<call<f::make_layout, A...>, made>> make_tensor(A const&...);
template <class S> struct coordinate;
template <class S, class L> struct Tensor<coordinate<S>, L> {
    constexpr Tensor() {}
    template <class... I> auto operator()(I const&...) const {
        if constexpr ((keeps<I>::value || ...)) return Tensor<coordinate<S>, Layout<call<f::slice, L, I...>, made>>{};
        else return known<call<f::coordinate, S>>::value();
    }
    constexpr L layout() const { return {}; }
    LAYOUTALG_SHAPED(L)
};
template <class S> Tensor<coordinate<S>, Layout<call<f::make_identity_layout, S>, made>> make_identity_tensor(S const&);
#define LAYOUTALG_REGISTERS(name) \
    template <class N, class A> Tensor<pointer<N>, Layout<call<f::name, typename layout_in<A>::type>, made>> \
    name(A const&); \
    template <class T, class L> Tensor<pointer<std::remove_cv_t<T>>, Layout<call<f::name, L>, made>> \
    name(Tensor<pointer<T>, L> const&);
template <class E, class L> Tensor<E, L> as_position_independent_swizzle_tensor(Tensor<E, L> const&);
LAYOUTALG_REGISTERS(make_tensor_like) LAYOUTALG_REGISTERS(make_fragment_like)
template <class N, class T, class L> Tensor<pointer<N>, Layout<call<f::recast, types<T, N>, L>, made>>
recast(Tensor<pointer<T>, L> const&);

// Atoms, and their tilings.
template <class... A> struct Copy_Atom {}; template <class... A> struct Copy_Traits {};
template <class... A> struct MMA_Atom {};
template <class Op, class... A> struct MMA_Traits { using Shape_MNK = typename known<call<f::shape_mnk, Op>>::type; };
template <class... T> struct UniversalFMA {}; template <class... T> struct UniversalCopy {};
template <class... T> struct SM80_CP_ASYNC_CACHEALWAYS {}; template <class... T> struct SM80_CP_ASYNC_CACHEGLOBAL {};
template <class... T> struct SM80_CP_ASYNC_CACHEALWAYS_ZFILL {};
template <class... T> struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL {};
template <int N = 128> struct AutoVectorizingCopyWithAssumedAlignment {};
using AutoVectorizingCopy = AutoVectorizingCopyWithAssumedAlignment<128>;
using DefaultCopy = AutoVectorizingCopyWithAssumedAlignment<8>;
#define LAYOUTALG_PART(Self, name) \
    template <class E, class L> Tensor<E, Layout<call<f::name, Self, L>, made>> name(Tensor<E, L> const&) const;
#define LAYOUTALG_FRAGMENT(Self, name, which) \
    template <class E, class L> auto name(Tensor<E, L> const&) const { return \
    Tensor<pointer<typename known<call<f::which, Self>>::type>, Layout<call<f::name, Self, L>, made>>{}; }
#define LAYOUTALG_TV(Self, name) constexpr Layout<call<f::name, Self>, made> name() const { return {}; }
#define LAYOUTALG_SLICES(Thr) \
    template <class I> Thr get_slice(I const&) const; template <class I> Thr get_thread_slice(I const&) const;
template <class Tiled> struct ThrCopy {
    constexpr ThrCopy() {}
    LAYOUTALG_PART(Tiled, partition_S) LAYOUTALG_PART(Tiled, partition_D)
    LAYOUTALG_PART(Tiled, retile_S) LAYOUTALG_PART(Tiled, retile_D)
};
template <class... A> struct TiledCopy {
    constexpr TiledCopy() {}
    LAYOUTALG_SLICES(ThrCopy<TiledCopy>)
    LAYOUTALG_TV(TiledCopy, get_layoutS_TV) LAYOUTALG_TV(TiledCopy, get_layoutD_TV)
};
template <class Tiled> struct ThrMMA {
    constexpr ThrMMA() {}
    LAYOUTALG_PART(Tiled, partition_A) LAYOUTALG_PART(Tiled, partition_B) LAYOUTALG_PART(Tiled, partition_C)
    LAYOUTALG_FRAGMENT(Tiled, partition_fragment_A, element_A)
    LAYOUTALG_FRAGMENT(Tiled, partition_fragment_B, element_B)
    LAYOUTALG_FRAGMENT(Tiled, partition_fragment_C, element_C)
    LAYOUTALG_FRAGMENT(Tiled, make_fragment_A, element_A) LAYOUTALG_FRAGMENT(Tiled, make_fragment_B, element_B)
    LAYOUTALG_FRAGMENT(Tiled, make_fragment_C, element_C)
};
template <class... A> struct TiledMMA {
    constexpr TiledMMA() {}
    LAYOUTALG_SLICES(ThrMMA<TiledMMA>)
    LAYOUTALG_TV(TiledMMA, get_layoutA_TV) LAYOUTALG_TV(TiledMMA, get_layoutB_TV)
    LAYOUTALG_TV(TiledMMA, get_layoutC_TV)
    LAYOUTALG_FRAGMENT(TiledMMA, make_fragment_A, element_A) LAYOUTALG_FRAGMENT(TiledMMA, make_fragment_B, element_B)
    LAYOUTALG_FRAGMENT(TiledMMA, make_fragment_C, element_C)
};
template <class... A> TiledCopy(TiledCopy<A...>) -> TiledCopy<A...>;
template <class... A> TiledMMA(TiledMMA<A...>) -> TiledMMA<A...>;
template <class A> ThrCopy(ThrCopy<A>) -> ThrCopy<A>;
template <class A> ThrMMA(ThrMMA<A>) -> ThrMMA<A>;
#define LAYOUTALG_TILED(Kind, name) \
    template <class... A> constexpr Kind<call<f::name, A...>> name(A const&...) { return {}; }
LAYOUTALG_TILED(TiledMMA, make_tiled_mma) LAYOUTALG_TILED(TiledCopy, make_tiled_copy)
LAYOUTALG_TILED(TiledCopy, make_tiled_copy_A) LAYOUTALG_TILED(TiledCopy, make_tiled_copy_B)
LAYOUTALG_TILED(TiledCopy, make_tiled_copy_C) LAYOUTALG_TILED(TiledCopy, make_tiled_copy_S)
LAYOUTALG_TILED(TiledCopy, make_tiled_copy_D) LAYOUTALG_TILED(TiledCopy, make_tiled_copy_C_atom)
template <class M, class S> auto partition_fragment_C(M const&, S const&) { return
    Tensor<pointer<typename known<call<f::element_C, M>>::type>, Layout<call<f::partition_shape_C, M, S>, made>>{}; }
template <class M, class S> constexpr auto partition_shape_C(M const&, S const&) {
    return known<call<f::shape, ints<>, Layout<call<f::partition_shape_C, M, S>, made>>>::value(); }

// Copies by the engine and products of wgmma: their calls are listed, and what they move is the engine's.
struct tma;
template <class Self> struct tma_copy {
    template <class S> Tensor<coordinate<S>, Layout<call<f::make_identity_layout, S>, made>>
    get_tma_tensor(S const&) const;
    template <class... A> Self with(A&&...) const;
};
template <> struct Copy_Atom<tma> : tma_copy<Copy_Atom<tma>> {};
template <> struct TiledCopy<tma> : tma_copy<TiledCopy<tma>> { LAYOUTALG_SLICES(ThrCopy<TiledCopy>) };
template <class... A> Copy_Atom(Copy_Atom<A...>) -> Copy_Atom<A...>;
template <class... A> constexpr Copy_Atom<tma> make_tma_atom(A const&...) { return {}; }
template <class... A> constexpr TiledCopy<tma> make_tma_copy(A const&...) { return {}; }
template <class G, class S> struct tma_parts { G global; S shared; };
template <class A, class C, class L, class S, class G>
tma_parts<G, S> tma_partition(A const&, C const&, L const&, S const&, G const&);
template <class A> void prefetch_tma_descriptor(A const*);
void warpgroup_arrive(); void warpgroup_commit_batch(); template <int N> void warpgroup_wait();
template <class A> void warpgroup_fence_operand(A&&);
bool elect_one_sync(); void cluster_sync(); void cluster_arrive(); void cluster_arrive_relaxed(); void cluster_wait();
unsigned block_rank_in_cluster();
namespace GMMA {
enum class Major { K, MN };
template <class T, int Bytes> using rows = Layout<Shape<C<8>, C<Bytes / int(sizeof(T))>>, Stride<C<Bytes / int(sizeof(T))>, C<1>>>;
template <class T, int Bytes> using columns = Layout<Shape<C<Bytes / int(sizeof(T))>, C<8>>, Stride<C<1>, C<Bytes / int(sizeof(T))>>>;
template <class T, int B, class L> using swizzled =
    ComposedLayout<Swizzle<B, sizeof(T) == 1 ? 4 : sizeof(T) == 2 ? 3 : 2, 3>, C<0>, L>;
#define GMMA_ATOM(name, B, Bytes) \
    template <class T> using Layout_K_##name##_Atom = swizzled<T, B, rows<T, Bytes>>; \
    template <class T> using Layout_MN_##name##_Atom = swizzled<T, B, columns<T, Bytes>>;
GMMA_ATOM(SW128, 3, 128) GMMA_ATOM(SW64, 2, 64) GMMA_ATOM(SW32, 1, 32)
GMMA_ATOM(INTER, 0, 16)
}

// What moves elements, and what does not.
template <class... A> void copy(A&&...); template <class... A> void copy_if(A&&...);
template <class... A> void copy_aligned(A&&...); template <class... A> void gemm(A&&...);
template <class... A> void axpby(A&&...); template <class... A> void clear(A&&...);
template <class... A> void fill(A&&...);
void cp_async_fence(); template <int N> void cp_async_wait();
template <class... A> void print(A const&...); template <class... A> void print_tensor(A const&...);
template <class... A> void print_layout(A const&...); template <class... A> void print_latex(A const&...);
bool thread0(); bool thread(int, int = 0);

// Memory.
template <class T, size_t N, size_t A = 16> struct alignas(A) array_aligned {
    T elements[N];
    constexpr T* data() { return elements; }
    constexpr T* begin() { return elements; }
    constexpr T& operator[](size_t i) { return elements[i]; }
};
template <class T, size_t N> struct ArrayEngine {
    alignas(16) T elements[N];
    constexpr T* begin() { return elements; }
};
template <class T> inline constexpr int sizeof_bits_v = 8 * sizeof(T);
template <class T> struct sizeof_bits : C<int(8 * sizeof(T))> {};
}
namespace std {
template <class T> struct tuple_size; template <size_t N, class T> struct tuple_element;
template <class... T> struct tuple_size<cute::tuple<T...>> { static constexpr size_t value = sizeof...(T); };
template <size_t N, class A, class... T> struct tuple_element<N, cute::tuple<A, T...>>
    : tuple_element<N - 1, cute::tuple<T...>> {};
template <class A, class... T> struct tuple_element<0, cute::tuple<A, T...>> { using type = A; };
}
#pragma clang force_cuda_host_device end
