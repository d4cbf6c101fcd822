"""Compiling to CUBIN without a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from layoutalg.codegen.gpu import compile_cubin, nvrtc
from layoutalg.errors import CompileError, UnknownNameError, UnsupportedError
from tests.stand_ins import compiled_once
from tests.sweeps import each

SOURCE = """
extern "C" __global__ void __launch_bounds__(128) fill(unsigned* p) {
    __shared__ unsigned s[128];
    s[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = s[127 - threadIdx.x];
}
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_a_kernel_becomes_machine_code(arch: str) -> None:
    cubin = compile_cubin(SOURCE, "fill", arch)
    assert cubin.image[:4] == b"\x7fELF"
    assert b"fill" in cubin.image
    assert (cubin.name, cubin.arch, cubin.shared_bytes, cubin.spill_bytes) == ("fill", arch, 512, 0)
    assert 1 <= cubin.registers <= 255


def test_the_report_is_there_the_second_time_too() -> None:
    """And the bytes are the same, which is why other tests compile a text once."""
    found = []
    for _ in range(2):
        with compiled_once.anew():
            found.append(compile_cubin(SOURCE, "fill", "sm_80"))
    first, second = found
    assert (first.registers, first.image) == (second.registers, second.image)


def test_spills_are_reported() -> None:
    loads = "".join(f"float v{i} = p[{i} * n];" for i in range(96))
    uses = "".join(f"p[{i} * n + 1] = v{i} * s;" for i in range(96))
    source = (
        'extern "C" __global__ void __launch_bounds__(1024, 2) crowd(float* p, unsigned n) {'
        f"{loads} __syncthreads(); float s = p[n]; {uses} }}"
    )
    cubin = compile_cubin(source, "crowd", "sm_80")
    assert cubin.registers == 32
    assert cubin.spill_bytes > 0


def test_a_failed_compile_keeps_source_and_log_and_names_both() -> None:
    broken = SOURCE.replace("threadIdx.x]", "no_such_name]", 1)
    with pytest.raises(CompileError, match="no_such_name") as caught:
        compile_cubin(broken, "fill", "sm_80")
    kept = Path(caught.value.source)
    log = kept.parent / "kernel.log"
    assert (kept.read_text(), log.read_text()) == (broken, caught.value.log)
    assert str(kept) in str(caught.value) and str(log) in str(caught.value)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="sm_90a"):
        compile_cubin(SOURCE, "fill", "sm_90b")


def test_without_nvrtc_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(()))
    nvrtc._library.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match=r"pip install 'layoutalg\[nvrtc\]'"):
            compile_cubin(SOURCE, "fill", "sm_80")
    finally:
        nvrtc._library.cache_clear()


def test_the_newest_library_of_an_installed_package_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [tmp_path / "cu13" / "lib" / f"libnvrtc.so.{n}" for n in (13, 12)]
    libraries[0].parent.mkdir(parents=True)
    for library in libraries:
        library.touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(nvrtc, "find_spec", lambda name: spec)
    assert [*nvrtc._candidates()][:2] == libraries


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

UNSAID_BY_13_0 = {"C7513", "C7517", "C7519"}


def test_a_right_pipeline_has_no_such_line() -> None:
    assert nvrtc._LOSS.search(compile_cubin(source(GOOD), "k").log) is None
    setmaxnreg = 'asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");'
    assert compile_cubin(source(setmaxnreg + GOOD, "128, 1"), "k").registers == 240


@pytest.mark.parametrize("code", LOSSES)
def test_a_loss_is_an_error_with_the_line_and_what_helps(code: str) -> None:
    if code in UNSAID_BY_13_0 and nvrtc.version() == (13, 0):
        pytest.skip("the assembler of NVRTC 13.0 reports no such loss")
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
