"""CUDA text made ready for the host's C++ compiler: types, intrinsics and thread variables of CUDA's headers.

The idea.  An index function computes with integers, so that a host runs it once what CUDA adds is there:
vector types, half, threadIdx, __umul24 and the like.  What has no meaning on a host is taken out of the text,
its lines left in place: launches and inline asm, of kernels beside the function.  CUDA's own headers become
empty ones, and so does every other header that is not found.

>>> prepared("k<<<1, 32>>>(p);\\nasm volatile(\\"bar.sync 0;\\");").splitlines()
[';', ';']
>>> headers_of('#include <cuda_fp16.h>\\n#include "tile.cuh"')
('cuda_fp16.h', 'tile.cuh')
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
            members = "; ".join(f"{kind} {axis}" for axis in "xyzw"[:count])
            parameters = ", ".join(f"{kind} {axis}" for axis in "xyzw"[:count])
            taken = ", ".join("xyzw"[:count])
            lines.append(f"struct {name}{count} {{ {members}; }};")
            both = f"{name}{count}"
            lines.append(f"static inline {both} make_{both}({parameters}) {{ return {both}{{{taken}}}; }}")
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
