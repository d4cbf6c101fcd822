"""What the assembler reports as a potential performance loss is an error: one kernel per code."""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import compile_cubin, nvrtc
from layoutalg.errors import CompileError
from tests.sweeps import each

HEAD = """
typedef unsigned int u32;
typedef unsigned long long u64;
#define INLINE __device__ __forceinline__
INLINE void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INLINE void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
INLINE void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
INLINE void mma(float* d, u64 a, u64 b) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
INLINE void mma_rs(float* d, const u32* a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
extern "C" __device__ int printf(const char*, ...);
__device__ __noinline__ void product(float* d, u64 a, u64 b) { mma(d, a, b); }
extern "C" __global__ void __launch_bounds__(BOUNDS) k(float* out, u64 a, u64 b, u32 n) {
    const u32 tid = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    u32 x[4] = {0, 1, 2, 3};
    BODY
    for (int i = 0; i < 4; ++i) out[i * 128 + tid] = d[i];
}
"""


def source(body: str, bounds: str = "128") -> str:
    """A kernel of this body, in front of which d is cleared and behind which it is stored."""
    return HEAD.replace("BOUNDS", bounds).replace("BODY", body)


GOOD = "fence(); mma(d, a, b); mma(d, a + 2, b + 2); commit(); wait<0>();"

LOSSES = {
    "C7506": (
        '((void (*)(float*))a)(out); asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");',
        "128, 1", "inline them",
    ),
    "C7508": ('asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");', "128", "blocks per multiprocessor"),
    "C7510": ("fence(); product(d, a, b); commit(); wait<0>();", "128", "belong in one function"),
    "C7511": ("fence(); mma(d, a, b); d[0] = n; mma(d, a, b); commit(); wait<0>();", "128", "smaller tile"),
    "C7513": (
        'fence(); mma_rs(d, x, b); asm volatile("mov.u32 %0, 5;" : "+r"(x[0])); mma_rs(d, x, b); '
        "commit(); wait<0>();",
        "128", "registers of A",
    ),
    "C7514": (
        'fence(); mma(d, a, b); asm volatile("st.global.f32 [%0], %1;" :: "l"(out), "f"(d[2]) : "memory"); '
        "mma(d, a, b); commit(); wait<0>();",
        "128", "may be read only behind",
    ),
    "C7515": (
        "for (int k = 0; k < (int)n; ++k) { fence(); mma(d, a, b + k); commit(); } wait<0>();",
        "128", "a loop has to wait in its body",
    ),
    "C7517": ("fence(); mma(d, a, b); commit();", "128", "write the wait"),
    "C7518": (
        "fence(); mma(d, a, b); commit(); if (tid == n) wait<0>(); out[0] = d[0]; return;",
        "128", "all threads of a warpgroup",
    ),
    "C7519": (
        "if (tid < n) { fence(); mma(d, a, b); } commit(); wait<0>();", "128", "all threads of a warpgroup"
    ),
}  # fmt: skip
"""By code: the body of a kernel, its bounds, and a part of what helps."""


def test_a_right_pipeline_has_no_such_line() -> None:
    assert nvrtc._LOSS.search(compile_cubin(source(GOOD), "k").log) is None
    setmaxnreg = 'asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");'
    assert compile_cubin(source(setmaxnreg + GOOD, "128, 1"), "k").registers == 240


@pytest.mark.parametrize("code", LOSSES)
def test_a_loss_is_an_error_with_the_line_and_what_helps(code: str) -> None:
    body, bounds, cure = LOSSES[code]
    with pytest.raises(CompileError, match="is not what was written") as caught:
        compile_cubin(source(body, bounds), "k")
    lines = [m[1] for m in nvrtc._LOSS.finditer(caught.value.log)]
    assert lines[0] in str(caught.value)
    assert any(f"({code})" in line and cure in nvrtc._cure(line) for line in lines)


_SERIALIZED = "wgmma.mma_async instructions are serialized due to"
UNPROVOKED = {
    "'setmaxnreg' ignored to allow debugging.": "without -G",
    "'setmaxnreg' ignored to maintain compatibility across compilation units.": "compile the kernel whole",
    "'setmaxnreg' ignored to maintain minimum register requirements.": "a larger one helps",
    f"{_SERIALIZED} the presence of Extern calls in the function 'k' in line 3": "inline them",
    f"{_SERIALIZED} insufficient register resources for the function 'k'": "smaller tile",
    f"{_SERIALIZED} ill formed pipeline stage in the function 'k'": "every path needs",
}
"""Lines that no kernel of ours provokes with the options we compile with, and what helps against each."""


@each(("text", "cure"), UNPROVOKED.items())
def test_the_lines_that_no_kernel_here_provokes_are_read_too(text: str, cure: str) -> None:
    log = f"ptxas info    : 0 bytes gmem\nptxas info    : (C7509) Potential Performance Loss: {text}\n"
    found = nvrtc._LOSS.search(log)
    assert found is not None and found[1].endswith(text) and cure in nvrtc._cure(found[1])
