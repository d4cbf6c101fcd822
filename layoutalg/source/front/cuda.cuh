// The declarations of CUDA's headers that kernels name: what a front end needs is types, with their sizes and
// alignments, and functions without bodies.
// Sources: CUDA C++ Programming Guide, "Built-in Vector Types" and "C++ Language Extensions"; CUDA Math API,
// "Half Precision Intrinsics".

#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDA_VERSION 13000
#define CUDART_VERSION 13000
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __restrict __restrict__
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define NULL 0
#define assert(...) ((void)0)
#define CUDART_INF_F __builtin_inff()
#define INFINITY __builtin_inff()
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX __DBL_MAX__
#define HUGE_VALF __builtin_huge_valf()
#define NAN __builtin_nanf("")
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#define M_PI 3.14159265358979323846
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_2_SQRTPI 1.12837916709551257390
#define LONG_MAX __LONG_MAX__
#define LLONG_MAX __LONG_LONG_MAX__
#define CHAR_BIT 8
#define SIZE_MAX __SIZE_MAX__
#define EXIT_FAILURE 1
#define EXIT_SUCCESS 0
typedef unsigned long size_t; typedef long double max_align_t; typedef long ptrdiff_t;
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long uint64_t; typedef unsigned long uintptr_t; typedef long intptr_t;
typedef unsigned uint; typedef unsigned char uchar; typedef unsigned short ushort;
typedef unsigned long ulong;
namespace std {
using ::size_t; using ::ptrdiff_t; using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t;
typedef decltype(nullptr) nullptr_t;
template <class T, T V> struct integral_constant { static constexpr T value = V; using value_type = T;
    using type = integral_constant; __host__ __device__ constexpr operator T() const { return V; }
    __host__ __device__ constexpr T operator()() const { return V; } };
template <bool B> using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>; using false_type = bool_constant<false>;
#define LAYOUTALG_TRAIT(name) \
    template <class T> struct name : bool_constant<__##name(T)> {}; \
    template <class T> inline constexpr bool name##_v = name<T>::value;
LAYOUTALG_TRAIT(is_integral) LAYOUTALG_TRAIT(is_floating_point) LAYOUTALG_TRAIT(is_arithmetic)
LAYOUTALG_TRAIT(is_signed) LAYOUTALG_TRAIT(is_unsigned) LAYOUTALG_TRAIT(is_pointer) LAYOUTALG_TRAIT(is_void)
LAYOUTALG_TRAIT(is_const) LAYOUTALG_TRAIT(is_enum) LAYOUTALG_TRAIT(is_class)
LAYOUTALG_TRAIT(is_trivially_copyable)
#undef LAYOUTALG_TRAIT
#define LAYOUTALG_TRAIT(name, made) \
    template <class T> struct name { using type = made(T); }; template <class T> using name##_t = made(T);
LAYOUTALG_TRAIT(remove_cv, __remove_cv) LAYOUTALG_TRAIT(remove_const, __remove_const)
LAYOUTALG_TRAIT(remove_reference, __remove_reference_t) LAYOUTALG_TRAIT(remove_cvref, __remove_cvref)
LAYOUTALG_TRAIT(remove_pointer, __remove_pointer) LAYOUTALG_TRAIT(decay, __decay)
LAYOUTALG_TRAIT(make_unsigned, __make_unsigned) LAYOUTALG_TRAIT(underlying_type, __underlying_type)
#undef LAYOUTALG_TRAIT
template <class... T> using void_t = void;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class T, T... I> struct integer_sequence {};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
template <size_t N> using make_index_sequence = __make_integer_seq<integer_sequence, size_t, N>;
template <class...> struct layoutalg_template {};
template <class T, size_t N> struct array { T layoutalg_elements[N];
    __host__ __device__ constexpr T& operator[](size_t i) { return layoutalg_elements[i]; }
    __host__ __device__ constexpr const T& operator[](size_t i) const { return layoutalg_elements[i]; }
    __host__ __device__ constexpr T* data() { return layoutalg_elements; }
    __host__ __device__ constexpr const T* data() const { return layoutalg_elements; }
    __host__ __device__ static constexpr size_t size() { return N; } };
enum class byte : unsigned char {};
template <class T> class initializer_list { const T* layoutalg_first; size_t layoutalg_count;
public: constexpr size_t size() const { return layoutalg_count; }
    constexpr const T* begin() const { return layoutalg_first; }
    constexpr const T* end() const { return layoutalg_first + layoutalg_count; } };
#define LAYOUTALG_EXTREME(name, op) template <class T> constexpr T name(initializer_list<T> all) { \
    T out = *all.begin(); for (const T* p = all.begin(); p != all.end(); ++p) if (*p op out) out = *p; \
    return out; }
LAYOUTALG_EXTREME(max, >) LAYOUTALG_EXTREME(min, <)
#undef LAYOUTALG_EXTREME
template <class A, class B> struct pair { A first; B second; };
template <class A, class B> __host__ __device__ constexpr pair<A, B> make_pair(A a, B b) { return {a, b}; }
template <size_t N, size_t Align = alignof(max_align_t)> struct aligned_storage {
    struct type { alignas(Align) unsigned char data[N]; }; };
template <size_t N, size_t Align> using aligned_storage_t = typename aligned_storage<N, Align>::type;
template <class T> struct layoutalg_limits {
    static constexpr bool is_specialized = __is_arithmetic(T), is_integer = __is_integral(T);
    static constexpr bool is_iec559 = __is_floating_point(T), is_signed = __is_signed(T) || is_iec559; };
template <class T> struct numeric_limits : layoutalg_limits<T> {
    __host__ __device__ static T max(); __host__ __device__ static T min();
    __host__ __device__ static T lowest(); __host__ __device__ static T infinity();
    __host__ __device__ static T epsilon(); __host__ __device__ static T quiet_NaN(); };
#define LAYOUTALG_LIMITS(type, most, least) template <> struct numeric_limits<type> : layoutalg_limits<type> { \
    __host__ __device__ static constexpr type max() { return most; } \
    __host__ __device__ static constexpr type min() { return least; } \
    __host__ __device__ static constexpr type lowest() { return least; } };
LAYOUTALG_LIMITS(int, __INT_MAX__, -__INT_MAX__ - 1) LAYOUTALG_LIMITS(unsigned, ~0u, 0)
LAYOUTALG_LIMITS(long, __LONG_MAX__, -__LONG_MAX__ - 1) LAYOUTALG_LIMITS(unsigned long, ~0ul, 0)
LAYOUTALG_LIMITS(signed char, 127, -128) LAYOUTALG_LIMITS(unsigned char, 255, 0)
LAYOUTALG_LIMITS(short, 32767, -32768) LAYOUTALG_LIMITS(unsigned short, 65535, 0)
#undef LAYOUTALG_LIMITS
template <bool C, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool C, class A, class B> using conditional_t = typename conditional<C, A, B>::type;
template <bool C, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool C, class T = void> using enable_if_t = typename enable_if<C, T>::type;
}
#define LAYOUTALG_ASKED(name) template <class T> __host__ __device__ bool name(T); \
    namespace std { using ::name; }
LAYOUTALG_ASKED(isnan) LAYOUTALG_ASKED(isinf) LAYOUTALG_ASKED(isfinite) LAYOUTALG_ASKED(signbit)
#undef LAYOUTALG_ASKED
typedef struct CUstream_st* cudaStream_t; typedef int cudaError_t;
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t, CUtexObject, CUsurfObject;
typedef long clock_t;
struct layoutalg_any {
    template <class T> __host__ __device__ operator T() const;
    template <class T> __host__ __device__ layoutalg_any& operator=(const T&);
};
#define LAYOUTALG_OPERATOR(op) \
    template <class T> __host__ __device__ layoutalg_any operator op(layoutalg_any, T); \
    template <class T> __host__ __device__ layoutalg_any operator op(T, layoutalg_any); \
    __host__ __device__ layoutalg_any operator op(layoutalg_any, layoutalg_any);
LAYOUTALG_OPERATOR(+) LAYOUTALG_OPERATOR(-) LAYOUTALG_OPERATOR(*) LAYOUTALG_OPERATOR(/)
LAYOUTALG_OPERATOR(%) LAYOUTALG_OPERATOR(&) LAYOUTALG_OPERATOR(|) LAYOUTALG_OPERATOR(^)
LAYOUTALG_OPERATOR(<) LAYOUTALG_OPERATOR(>) LAYOUTALG_OPERATOR(<=) LAYOUTALG_OPERATOR(>=)
LAYOUTALG_OPERATOR(==) LAYOUTALG_OPERATOR(!=) LAYOUTALG_OPERATOR(<<) LAYOUTALG_OPERATOR(>>)
#undef LAYOUTALG_OPERATOR
__host__ __device__ layoutalg_any operator-(layoutalg_any); __host__ __device__ layoutalg_any operator~(
layoutalg_any);
#define LAYOUTALG_OPERATOR(op) template <class T> __host__ __device__ inline void operator op(T& x, \
    layoutalg_any y) { T before = x; x = static_cast<T>(y); }
LAYOUTALG_OPERATOR(+=) LAYOUTALG_OPERATOR(-=) LAYOUTALG_OPERATOR(*=) LAYOUTALG_OPERATOR(/=)
LAYOUTALG_OPERATOR(|=) LAYOUTALG_OPERATOR(&=) LAYOUTALG_OPERATOR(^=)
#undef LAYOUTALG_OPERATOR
typedef __fp16 __half; typedef __fp16 half;
#define LAYOUTALG_VECTORS(name, type) \
    struct __align__(sizeof(type)) name##1 { type x; }; \
    struct __align__(2 * sizeof(type)) name##2 { type x, y; }; \
    struct __align__(sizeof(type)) name##3 { type x, y, z; }; \
    struct __align__(sizeof(type) < 8 ? 4 * sizeof(type) : 16) name##4 { type x, y, z, w; }; \
    __host__ __device__ inline name##1 make_##name##1(type x) { return {x}; } \
    __host__ __device__ inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
    __host__ __device__ inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    __host__ __device__ inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
LAYOUTALG_VECTORS(char, signed char) LAYOUTALG_VECTORS(uchar, unsigned char) LAYOUTALG_VECTORS(short, short)
LAYOUTALG_VECTORS(ushort, unsigned short) LAYOUTALG_VECTORS(int, int) LAYOUTALG_VECTORS(uint, unsigned)
LAYOUTALG_VECTORS(long, long) LAYOUTALG_VECTORS(ulong, unsigned long) LAYOUTALG_VECTORS(longlong, long long)
LAYOUTALG_VECTORS(ulonglong, unsigned long long) LAYOUTALG_VECTORS(float, float)
LAYOUTALG_VECTORS(double, double)
#undef LAYOUTALG_VECTORS
typedef float2 cuFloatComplex, cuComplex;
typedef double2 cuDoubleComplex;

struct __nv_bfloat16 { unsigned short bits; __host__ __device__ __nv_bfloat16() = default;
    __host__ __device__ __nv_bfloat16(float); __host__ __device__ operator float() const;
    __host__ __device__ void operator+=(__nv_bfloat16 y) { *this = __nv_bfloat16(*this + y); }
    __host__ __device__ void operator-=(__nv_bfloat16 y) { *this = __nv_bfloat16(*this - y); }
    __host__ __device__ void operator*=(__nv_bfloat16 y) { *this = __nv_bfloat16(*this * y); } };
typedef __nv_bfloat16 nv_bfloat16;
struct __attribute__((aligned(4))) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __nv_bfloat162 nv_bfloat162;
struct __attribute__((aligned(4))) __half2 { __half x, y; __host__ __device__ __half2() = default;
    __host__ __device__ __half2(__half, __half); };
typedef __half2 half2;
struct __nv_fp8_e4m3 { unsigned char __x; __host__ __device__ __nv_fp8_e4m3() = default;
    __host__ __device__ explicit __nv_fp8_e4m3(float); __host__ __device__ explicit operator float() const; };
struct __nv_fp8_e5m2 { unsigned char __x; __host__ __device__ __nv_fp8_e5m2() = default;
    __host__ __device__ explicit __nv_fp8_e5m2(float); __host__ __device__ explicit operator float() const; };
#define LAYOUTALG_OPERATOR(type, op) __host__ __device__ type operator op(type, type); \
    __host__ __device__ inline type& operator op##=(type& x, type y) { return x = x op y; }
__host__ __device__ __half2 operator-(__half2); __host__ __device__ __nv_bfloat162 operator-(__nv_bfloat162);
LAYOUTALG_OPERATOR(__half2, +) LAYOUTALG_OPERATOR(__half2, -) LAYOUTALG_OPERATOR(__half2, *)
LAYOUTALG_OPERATOR(__half2, /) LAYOUTALG_OPERATOR(__nv_bfloat162, +) LAYOUTALG_OPERATOR(__nv_bfloat162, -)
LAYOUTALG_OPERATOR(__nv_bfloat162, *) LAYOUTALG_OPERATOR(__nv_bfloat162, /)
#undef LAYOUTALG_OPERATOR
typedef unsigned char __nv_fp8_storage_t; typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
struct curandStateXORWOW { unsigned d, v[5]; int flag, flag_double; float extra; double extra_double; };
typedef curandStateXORWOW curandState_t, curandState;
struct __attribute__((aligned(64))) CUtensorMap { void* layoutalg_array; char layoutalg_rest[120]; };
typedef CUtensorMap CUtensorMap_st;
struct dim3 { unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    };

extern const __device__ uint3 threadIdx, blockIdx; extern const __device__ dim3 blockDim, gridDim;
constexpr int warpSize = 32;
extern "C" __host__ unsigned cudaConfigureCall(dim3 g, dim3 b, size_t s = 0, void* st = 0);
extern "C" __host__ unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t s = 0, void* st = 0);
extern "C" __host__ cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
__device__ void __syncthreads(); __device__ void __syncwarp(unsigned = 0xffffffffu);
__device__ void __threadfence(); __device__ void __threadfence_block();
template <class T> __device__ T __ldg(const T*); template <class T> __device__ T __ldcg(const T*);
template <class T> __device__ T __ldca(const T*); template <class T> __device__ T __ldcs(const T*);
template <class T> __device__ T __ldlu(const T*); template <class T> __device__ T __ldcv(const T*);
template <class T> __device__ void __stwb(T*, T); template <class T> __device__ void __stcg(T*, T);
template <class T> __device__ void __stcs(T*, T); template <class T> __device__ void __stwt(T*, T);
__device__ size_t __cvta_generic_to_shared(const void*); 
__device__ size_t __cvta_generic_to_global(const void*);
__device__ unsigned __isShared(const void*); __device__ unsigned __isGlobal(const void*);
__device__ unsigned __isLocal(const void*); __device__ unsigned __isConstant(const void*);
__device__ void __pipeline_memcpy_async(void*, const void*, size_t, size_t = 0);
__device__ void __pipeline_commit(); __device__ void __pipeline_wait_prior(size_t);
template <class A, class B> using layoutalg_both = decltype(true ? A() : B());
template <class A, class B> __host__ __device__ constexpr layoutalg_both<A, B> min(A a, B b) { return b < a ?
b : a; }
template <class A, class B> __host__ __device__ constexpr layoutalg_both<A, B> max(A a, B b) { return a < b ?
b : a; }
namespace std { using ::min; using ::max; }
__device__ unsigned __ballot_sync(unsigned, int); __device__ unsigned
__activemask();
__device__ int __all_sync(unsigned, int); __device__ int __any_sync(unsigned, int);
__device__ int __syncthreads_count(int); __device__ int __syncthreads_or(int); __device__ long long clock64();
__device__ clock_t clock();
__device__ unsigned __byte_perm(unsigned, unsigned, unsigned);
template <class T> __device__ T __shfl_sync(unsigned, T, int, int = 32);
template <class T> __device__ T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T> __device__ T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T> __device__ T __shfl_xor_sync(unsigned, T, int, int = 32);
#define LAYOUTALG_ATOMIC(name) \
    template <class T, class V> __device__ T name(T*, V); \
    template <class T, class V> __device__ T name##_block(T*, V); \
    template <class T, class V> __device__ T name##_system(T*, V);
LAYOUTALG_ATOMIC(atomicAdd) LAYOUTALG_ATOMIC(atomicSub) LAYOUTALG_ATOMIC(atomicMin)
LAYOUTALG_ATOMIC(atomicMax) LAYOUTALG_ATOMIC(atomicOr) LAYOUTALG_ATOMIC(atomicAnd)
LAYOUTALG_ATOMIC(atomicXor) LAYOUTALG_ATOMIC(atomicInc)
LAYOUTALG_ATOMIC(atomicDec) LAYOUTALG_ATOMIC(atomicExch)
#undef LAYOUTALG_ATOMIC
template <class T, class V, class W> __device__ T atomicCAS(T*, V, W);
template <class T, class V, class W> __device__ T atomicCAS_block(T*, V, W);
template <class T, class V, class W> __device__ T atomicCAS_system(T*, V, W);
__device__ __half __low2half(__half2); __device__ __half __high2half(__half2);
#define LAYOUTALG_OPERATIONS(one, two) \
    __device__ two __hadd2(two, two); __device__ two __hsub2(two, two); __device__ two __hmul2(two, two); \
    __device__ two __hfma2(two, two, two); __device__ one __hadd(one, one); \
    __device__ one __hsub(one, one); __device__ one __hmul(one, one); \
    __device__ one __hdiv(one, one); __device__ one __hfma(one, one, one); \
    __device__ one __hmax(one, one); __device__ one __hmin(one, one); __device__ one __hneg(one);
LAYOUTALG_OPERATIONS(__half, __half2) LAYOUTALG_OPERATIONS(__nv_bfloat16, __nv_bfloat162)
#undef LAYOUTALG_OPERATIONS
namespace nvcuda { namespace wmma {
struct matrix_a; struct matrix_b; struct accumulator; struct row_major; struct col_major;
namespace precision { struct tf32; struct u4; struct s4; struct b1; }
template <class T> struct layoutalg_stored { typedef T type; };
template <> struct layoutalg_stored<precision::tf32> { typedef float type; };
template <> struct layoutalg_stored<precision::u4> { typedef unsigned type; };
template <> struct layoutalg_stored<precision::s4> { typedef int type; };
template <> struct layoutalg_stored<precision::b1> { typedef unsigned type; };
__device__ float __float_to_tf32(float);
enum layout_t { mem_row_major, mem_col_major };
template <class Use, int M, int N, int K, class T, class Order = void> struct fragment {
    static constexpr int num_elements = 8; typename layoutalg_stored<T>::type x[8]; };
template <class F, class V> __device__ void fill_fragment(F&, V);
template <class F, class T> __device__ void load_matrix_sync(F&, const T*, unsigned);
template <class F, class T> __device__ void load_matrix_sync(F&, const T*, unsigned, layout_t);
template <class F, class T> __device__ void store_matrix_sync(T*, const F&, unsigned, layout_t);
template <class D, class A, class B, class C> __device__ void mma_sync(D&, const A&, const B&, const C&);
} }
