// Types and words of PyTorch's headers that device code names: read where the headers themselves are missing.
// Sources: PyTorch, c10/util/Half.h, c10/util/complex.h, c10/macros/Macros.h, ATen/AccumulateType.h,
// ATen/core/TensorAccessor.h, ATen/cuda/detail/TensorInfo.cuh, ATen/cuda/Atomic.cuh.

#define C10_WARP_SIZE 32
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_RESTRICT __restrict__
#define C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_1(...)
#define C10_LAUNCH_BOUNDS_2(...)
namespace c10 {
#define LAYOUTALG_STEP(name, op) \
    LAYOUTALG_DEVICE name& operator op##=(float y) { return *this = name(*this op y); }
#define LAYOUTALG_REAL(name, number) struct alignas(2) name { \
    unsigned short x; \
    name() = default; \
    LAYOUTALG_DEVICE name(float); \
    LAYOUTALG_DEVICE operator float() const; \
    LAYOUTALG_DEVICE explicit operator number() const; \
    LAYOUTALG_STEP(name, +) LAYOUTALG_STEP(name, -) LAYOUTALG_STEP(name, *) LAYOUTALG_STEP(name, /) \
};
LAYOUTALG_REAL(Half, __half) LAYOUTALG_REAL(BFloat16, __nv_bfloat16)
template <class T> struct alignas(2 * sizeof(T)) complex {
    using value_type = T;
    T real_, imag_;
    LAYOUTALG_DEVICE constexpr complex(T real = T(), T imag = T()) : real_(real), imag_(imag) {}
    LAYOUTALG_DEVICE T real() const { return real_; }
    LAYOUTALG_DEVICE T imag() const { return imag_; }
};
#define LAYOUTALG_COMPLEX(op) \
    template <class T> LAYOUTALG_DEVICE complex<T> operator op(complex<T> a, complex<T> b); \
    template <class T> LAYOUTALG_DEVICE complex<T> operator op(complex<T> a, T b); \
    template <class T> LAYOUTALG_DEVICE complex<T> operator op(T a, complex<T> b); \
    template <class T, class B> LAYOUTALG_DEVICE void operator op##=(complex<T>& a, B b) { a = a op b; }
LAYOUTALG_COMPLEX(+) LAYOUTALG_COMPLEX(-) LAYOUTALG_COMPLEX(*) LAYOUTALG_COMPLEX(/)
}
namespace at {
using c10::Half; using c10::BFloat16;
template <class T> struct layoutalg_wide { using type = std::conditional_t<__is_integral(T), int64_t, T>; };
template <> struct layoutalg_wide<Half> { using type = float; };
template <> struct layoutalg_wide<BFloat16> { using type = float; };
template <> struct layoutalg_wide<__half> { using type = float; };
template <> struct layoutalg_wide<bool> { using type = bool; };
template <class T, bool OnDevice> using acc_type = typename layoutalg_wide<T>::type;
template <class T>
using opmath_type = std::conditional_t<__is_integral(T), T, typename layoutalg_wide<T>::type>;
template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct TensorAccessor {
    typename Traits<T>::PtrType data_;
    const Index *sizes_, *strides_;
    LAYOUTALG_DEVICE TensorAccessor(T* data, const Index* sizes, const Index* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    LAYOUTALG_DEVICE decltype(auto) operator[](Index i) const {
        if constexpr (N == 1) return (data_[strides_[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
    LAYOUTALG_DEVICE Index size(Index i) const { return sizes_[i]; }
    LAYOUTALG_DEVICE Index stride(Index i) const { return strides_[i]; }
    LAYOUTALG_DEVICE T* data() const { return data_; }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
    typename Traits<T>::PtrType data_;
    Index sizes_[N], strides_[N];
    LAYOUTALG_DEVICE decltype(auto) operator[](Index i) const {
        if constexpr (N == 1) return (data_[strides_[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
    LAYOUTALG_DEVICE Index size(Index i) const { return sizes_[i]; }
    LAYOUTALG_DEVICE Index stride(Index i) const { return strides_[i]; }
    LAYOUTALG_DEVICE T* data() const { return data_; }
};
namespace cuda { namespace detail {
template <class T, class Index> struct TensorInfo { T* data; Index sizes[25], strides[25]; int dims; };
template <class T, class Index, int Dims> struct IndexToOffset {
    LAYOUTALG_DEVICE static Index get(Index linear, const TensorInfo<T, Index>& info) {
        Index offset = 0;
        for (int i = (Dims > 0 ? Dims : info.dims) - 1; i > 0; --i) {
            offset += linear % info.sizes[i] * info.strides[i];
            linear /= info.sizes[i];
        }
        return offset + linear * info.strides[0];
    }
};
} }
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
}
#define LAYOUTALG_GPU_ATOMIC(name) template <class T> \
    LAYOUTALG_DEVICE T gpuAtomic##name(T* p, T v) { return atomic##name(p, v); }
LAYOUTALG_GPU_ATOMIC(Add) LAYOUTALG_GPU_ATOMIC(Max) LAYOUTALG_GPU_ATOMIC(Min)
template <class T> LAYOUTALG_DEVICE void gpuAtomicAddNoReturn(T* p, T v) { atomicAdd(p, v); }
namespace torch {
using at::PackedTensorAccessor32; using at::PackedTensorAccessor64; using at::RestrictPtrTraits;
using at::DefaultPtrTraits; using at::TensorAccessor;
}
