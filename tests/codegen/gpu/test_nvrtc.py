"""Compiling to CUBIN without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from layoutalg.codegen.gpu import compile_cubin, nvrtc
from layoutalg.errors import CompileError, UnknownNameError, UnsupportedError
from tests.stand_ins import compiled_once

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
