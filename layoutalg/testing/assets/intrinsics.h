// Intrinsics of integers, as the CUDA Math API states them, and the variables of a thread.
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
