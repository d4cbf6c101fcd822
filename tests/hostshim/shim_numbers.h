// Numbers in 32-bit words: CUDA's casts and rounded operations, 16-bit floats, mma.sync and movmatrix.
//
// A PTX statement of a helper arrives here as a call with its operands in order (see ptx.py).
#pragma once
#include "shim.h"

template <class To, class From>
To shim_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits are moved, not converted");
    To y;
    memcpy(&y, &x, sizeof(To));
    return y;
}

inline float __uint_as_float(unsigned x) { return shim_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return shim_bits<unsigned>(x); }
inline float __fmul_rn(float x, float y) {  // whose NaN has no sign
    const float product = x * y;
    return product == product ? product : __uint_as_float(0x7FFFFFFFu);
}
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float fabsf(float x) { return __builtin_fabsf(x); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline float expf(float x) { return __builtin_expf(x); }
#define SHIM_FUNCTION(NAME) \
    inline double NAME(double x) { return __builtin_##NAME(x); } \
    inline float NAME##f(float x) { return static_cast<float>(__builtin_##NAME(static_cast<double>(x))); }
SHIM_FUNCTION(exp2) SHIM_FUNCTION(log) SHIM_FUNCTION(log1p) SHIM_FUNCTION(sqrt) SHIM_FUNCTION(tanh)
SHIM_FUNCTION(log2) SHIM_FUNCTION(sin) SHIM_FUNCTION(cos) SHIM_FUNCTION(erf)
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float fmaxf(float x, float y) { return x != x ? y : y != y ? x : __builtin_fmaxf(x, y); }  // of a signalling NaN too
inline float fminf(float x, float y) { return x != x ? y : y != y ? x : __builtin_fminf(x, y); }
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline double exp(double x) { return __builtin_exp(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float rsqrtf(float x) { return static_cast<float>(rsqrt(x)); }
inline double normcdf(double x) { return 0.5 * __builtin_erfc(-x * 0x1.6a09e667f3bcdp-1); }
inline float normcdff(float x) { return static_cast<float>(normcdf(x)); }
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline int __double2loint(double x) { return static_cast<int>(shim_bits<unsigned long long>(x)); }
inline int __double2hiint(double x) { return static_cast<int>(shim_bits<unsigned long long>(x) >> 32); }
inline double __hiloint2double(int hi, int lo) {
    const unsigned long long high = static_cast<unsigned>(hi), low = static_cast<unsigned>(lo);
    return shim_bits<double>(high << 32 | low);
}

inline int min(int x, int y) { return x < y ? x : y; }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned max(unsigned x, unsigned y) { return x < y ? y : x; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline int max(int x, int y) { return x < y ? y : x; }

// Conversions: to a float the nearest or, of _rz, towards zero; to an integer towards zero, inside of its ends,
// and of NaN what a GPU has, 0 or of doubles and 64 bits the least integer.
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __double2float_rz(double x) {
    const float near = static_cast<float>(x);
    if (__builtin_fabs(static_cast<double>(near)) <= __builtin_fabs(x) || x != x) return near;
    return shim_bits<float>(shim_bits<unsigned>(near) - 1);
}
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __int2float_rz(int x) { return __double2float_rz(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline float __ll2float_rz(long long x) {
    const float near = static_cast<float>(x);
    const bool past = near >= 0x1p63f || (x < 0 ? static_cast<long long>(near) < x : static_cast<long long>(near) > x);
    return past ? shim_bits<float>(shim_bits<unsigned>(near) - 1) : near;
}
inline float __uint2float_rz(unsigned x) { return __double2float_rz(x); }
template <class From>
unsigned shim_unsigned(From x) {
    return x != x || x <= 0 ? 0u : x >= From(4294967296.0) ? 0xFFFFFFFFu : static_cast<unsigned>(x);
}
inline unsigned __float2uint_rz(float x) { return shim_unsigned(x); }
inline unsigned __double2uint_rz(double x) { return shim_unsigned(x); }
template <class To, class From>
To shim_truncated(From x, To nan) {
    constexpr int bits = 8 * sizeof(To) - 1;
    const From end = __builtin_ldexp(1.0, bits);
    constexpr To least = To(1) << bits;
    return x != x ? nan : x >= end ? ~least : x < -end ? least : static_cast<To>(x);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, int by) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (by & 31)) >> 32);
}
inline int __float2int_rz(float x) { return shim_truncated<int>(x, 0); }
inline int __double2int_rz(double x) { return shim_truncated<int>(x, -0x7FFFFFFF - 1); }
inline long long __float2ll_rz(float x) { return shim_truncated<long long>(x, -0x7FFFFFFFFFFFFFFF - 1); }
inline long long __double2ll_rz(double x) { return shim_truncated<long long>(x, -0x7FFFFFFFFFFFFFFF - 1); }

namespace shim {

inline void ptx_max_nan(float& d, float a, float b) { d = a != a ? a : a < b || b != b ? b : a; }
inline void ptx_min_nan(float& d, float a, float b) { d = a != a ? a : b < a || b != b ? b : a; }
inline void ptx_rsqrt(float& d, float x) { d = static_cast<float>(1 / __builtin_sqrt(static_cast<double>(x))); }
inline void ptx_ex2(float& d, float x) {  // the nearest float; what is subnormal becomes 0
    d = static_cast<float>(__builtin_exp2(static_cast<double>(x)));
    if (d < 0x1p-126f) d = 0;
}
inline void ptx_rcp(float& d, float x) {  // the nearest float; what is subnormal counts as 0
    const float normal = __builtin_fabsf(x) < 0x1p-126f ? x * 0 : x;
    d = 1 / normal;
    if (__builtin_fabsf(d) < 0x1p-126f) d *= 0;
}

// A float of 16 bits, `mantissa` of them below the exponent, to and from its pattern.
template <int mantissa>
struct Float16 {
    static constexpr int bits = 16, exponent = 15 - mantissa, bias = (1 << (exponent - 1)) - 1;
    static double get(unsigned pattern) {
        const int e = pattern >> mantissa & ((1 << exponent) - 1);
        const double fraction = pattern & ((1 << mantissa) - 1), sign = pattern >> 15 ? -1 : 1;
        if (e == (1 << exponent) - 1) return fraction ? __builtin_nan("") : sign * __builtin_inf();
        if (e == 0) return sign * __builtin_ldexp(fraction, 1 - bias - mantissa);
        return sign * __builtin_ldexp(fraction + (1 << mantissa), e - bias - mantissa);
    }
    static unsigned put(double x) {  // to the nearest, ties to even
        const unsigned sign = __builtin_signbit(x) ? 0x8000 : 0;
        if (x != x) return 0x7FFF;
        int e = 0;
        const double size = __builtin_fabs(x);
        if (size == __builtin_inf()) return sign | ((1 << exponent) - 1) << mantissa;
        __builtin_frexp(size, &e);
        const int last = (e - 1 < 1 - bias ? 1 - bias : e - 1) - mantissa;  // exponent of the last place
        const unsigned steps = static_cast<unsigned>(__builtin_nearbyint(__builtin_ldexp(size, -last)));
        const unsigned pattern = steps + ((last + bias + mantissa - 1) << mantissa);  // carries into the exponent
        const unsigned infinity = ((1 << exponent) - 1) << mantissa;
        return sign | (size == 0 ? 0 : pattern > infinity ? infinity : pattern);
    }
};

}  // namespace shim

// Atomics: threads of the shim take turns.
template <class T>
T atomicAdd(T* p, T x) { const T old = *p; *p = old + x; return old; }
template <class T>
T atomicMax(T* p, T x) { const T old = *p; *p = old < x ? x : old; return old; }
template <class T>
T atomicMin(T* p, T x) { const T old = *p; *p = x < old ? x : old; return old; }
template <class T>
T atomicExch(T* p, T x) { const T old = *p; *p = x; return old; }
template <class T>
T atomicCAS(T* p, T compare, T x) { const T old = *p; *p = old == compare ? x : old; return old; }

namespace shim {

// A float of 8 or of 4 bits: to the nearest code, ties to the even one, past the largest number to that, by trying all.
template <int mantissa>
unsigned code_of(float low) {
    constexpr int exponents = mantissa == 1 ? 2 : 7 - mantissa, half = 1 << (exponents + mantissa);
    constexpr int bias = (1 << (exponents - 1)) - 1, numbers = half - (mantissa == 3) - 4 * (mantissa == 2);
    const double all = __builtin_fabs(static_cast<double>(low)), size = all < 65536 ? all : 65536;
    unsigned best = 0;
    double least = __builtin_inf();
    for (unsigned code = 0; code < numbers; ++code) {
        const unsigned e = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
        const double x = __builtin_ldexp(
            fraction + (e ? 1 << mantissa : 0), static_cast<int>(e ? e : 1) - bias - mantissa);
        const double off = __builtin_fabs(x - size);
        if (off < least || (off == least && code % 2 == 0)) best = code, least = off;
    }
    return low != low ? half - 1 : best | (__builtin_signbit(low) ? half : 0);
}
template <int mantissa>
void ptx_code(unsigned short& d, float high, float low) {
    d = static_cast<unsigned short>(code_of<mantissa>(high) << (mantissa == 1 ? 4 : 8) | code_of<mantissa>(low));
}

inline void ptx_e2m1x4(unsigned short& d, float a, float b, float c, float e) {
    unsigned short low, high;
    ptx_code<1>(low, b, a);
    ptx_code<1>(high, e, c);
    d = static_cast<unsigned short>(low | high << 8);
}

using f16 = Float16<10>;
using bf16 = Float16<7>;
struct tf32 {
    static constexpr int bits = 32;
    static double get(unsigned word) { return __uint_as_float(word & 0xFFFFE000u); }
};
struct e5m2 {  // the upper byte of an f16
    static constexpr int bits = 8;
    static double get(unsigned byte) { return f16::get(byte << 8); }
};
struct e4m3 {  // no infinity
    static constexpr int bits = 8;
    static double get(unsigned byte) {
        const int e = byte >> 3 & 15, fraction = byte & 7, sign = byte >> 7 ? -1 : 1;
        if ((byte & 0x7F) == 0x7F) return __builtin_nan("");
        return sign * (e ? __builtin_ldexp(8 + fraction, e - 10) : __builtin_ldexp(fraction, -9));
    }
};
struct s8 {
    static constexpr int bits = 8;
    static double get(unsigned byte) { return static_cast<signed char>(byte); }
};
struct u8 {
    static constexpr int bits = 8;
    static double get(unsigned byte) { return byte; }
};

template <int width, bool is_signed>
struct Narrow {
    static constexpr int bits = width;
    static double get(unsigned x) {
        return is_signed && x >> (width - 1) ? static_cast<int>(x) - (1 << width) : static_cast<int>(x);
    }
};
using s4 = Narrow<4, true>;
using u4 = Narrow<4, false>;
using b1 = Narrow<1, false>;

// Accumulators: how many a register holds, and a register with them replaced by what is added.
struct f32 {
    static constexpr int in_register = 1;
    static void add(float& d, int, double x) { d = static_cast<float>(d + x); }
};
struct s32 {
    static constexpr int in_register = 1;
    static void add(unsigned& d, int, double x) { d += static_cast<unsigned>(static_cast<long long>(x)); }
};
template <class T>
struct Sum : T {};
template <>
struct Sum<f16> {
    static constexpr int in_register = 2;
    static void add(unsigned& d, int half, double x) {
        const unsigned old = d >> 16 * half & 0xFFFF;
        d = (d & 0xFFFF0000u >> 16 * half) | f16::put(f16::get(old) + x) << 16 * half;
    }
};

struct f64 {
    static constexpr int bits = 64, in_register = 1;
    static double get(double x) { return x; }
    static void add(double& d, int, double x) { d += x; }
};

template <class Word>
struct Fragments { Word word[12]; };

template <class Element, class Word>
double element(const Fragments<Word>& held, int word, int part) {
    if constexpr (Element::bits >= 32) {
        return Element::get(held.word[word]);
    } else {
        const unsigned mask = (1u << Element::bits) - 1;
        return Element::get(held.word[word] >> (Element::bits * part) & mask);
    }
}

// d += a b for rows x 8 x k: A is cores of 8 rows by 4 registers (rows first), B of 8 columns by 4 registers.
template <class Element, class Other, class Accumulator, int rows, int k, bool is_xor, class Register, class Word>
void multiply(Register** d, const Fragments<Word>& mine) {
    constexpr int in_word = Element::bits > 32 ? 1 : 32 / Element::bits, core = 4 * in_word, cores = k / core;
    Fragments<Word> all[32];
    exchange(0xFFFFFFFF, mine, all);
    const int group = current->lane / 4, member = current->lane % 4;
    for (int i = 0; i < rows / 4; ++i) {
        const int row = group + 8 * (i / 2), column = 2 * member + i % 2;
        double sum = 0;
        for (int step = 0; step < k; ++step) {
            const int from = step % core / in_word, part = step % in_word;
            const double x =
                element<Element>(all[row % 8 * 4 + from], row / 8 + rows / 8 * (step / core), part);
            const double y = element<Other>(all[column * 4 + from], rows / 8 * cores + step / core, part);
            sum += is_xor ? x + y - 2 * x * y : x * y;
        }
        constexpr int n = Sum<Accumulator>::in_register;
        Sum<Accumulator>::add(*d[i / n], i % n, sum);
    }
}

template <class Element, class Other, class Accumulator, int rows, int k, bool is_xor, class Register, class... Words>
void ptx_mma(Register& d0, Register& d1, Words&&... rest) {
    if constexpr (Sum<Accumulator>::in_register == 2 || rows == 8) {
        Register* d[2] = {&d0, &d1};
        if constexpr (Element::bits == 64)
            multiply<Element, Other, Accumulator, rows, k, is_xor>(d, Fragments<double>{{rest...}});
        else
            multiply<Element, Other, Accumulator, rows, k, is_xor>(d, Fragments<unsigned>{{rest...}});
    } else {
        auto four = [&](Register& d2, Register& d3, auto... words) {
            Register* d[4] = {&d0, &d1, &d2, &d3};
            if constexpr (Element::bits == 64)
                multiply<Element, Other, Accumulator, rows, k, is_xor>(d, Fragments<double>{{words...}});
            else
                multiply<Element, Other, Accumulator, rows, k, is_xor>(d, Fragments<unsigned>{{words...}});
        };
        four(rest...);
    }
}

// Two elements of row l / 4 of an 8 x 8 matrix in lane l: of column l / 4 instead.
inline void ptx_movmatrix(unsigned& d, unsigned v) {
    unsigned all[32];
    exchange(0xFFFFFFFF, v, all);
    auto at = [&](int row, int column) { return all[4 * row + column / 2] >> 16 * (column % 2) & 0xFFFF; };
    const int near = current->lane % 4 * 2, far = current->lane / 4;
    d = at(near, far) | at(near + 1, far) << 16;
}

template <int half>
void ptx_half(float& d, unsigned word) { d = static_cast<float>(f16::get(word >> 16 * half & 0xFFFF)); }

template <class Element>
void ptx_pack(unsigned& word, float high, float low) { word = Element::put(high) << 16 | Element::put(low); }

inline void ptx_mul_f16x2(unsigned& word, unsigned a, unsigned b) {
    word = f16::put(f16::get(a >> 16) * f16::get(b >> 16)) << 16 | f16::put(f16::get(a & 0xFFFF) * f16::get(b & 0xFFFF));
}

}  // namespace shim
