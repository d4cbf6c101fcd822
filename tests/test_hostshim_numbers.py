"""What the shim knows of 16-bit floats, rounded operations, matrix instructions and masked copies."""

from __future__ import annotations

import re

import numpy as np
import pytest

from layoutalg.codegen.instr import decode, encode
from layoutalg.errors import CompileError
from tests.hostshim import KernelFault, host_text, run_cuda_text
from tests.hostshim.ptx import in_cpp


def run(body: str, *args: np.ndarray, parameters: str, threads: int = 1, shared_bytes: int = 0) -> None:
    text = f'extern "C" __global__ void k({parameters}) {{\n{body}\n}}\n'
    run_cuda_text(text, "k", (1,), (threads,), args, shared_bytes)


def every_pattern() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.uint32)


def test_every_pattern_of_16_bits_is_the_number_it_stands_for() -> None:
    words = every_pattern()
    got = {name: np.zeros(1 << 16) for name in ("f16", "bf16")}
    run(
        "for (int i = 0; i < 65536; ++i) { f[i] = shim::f16::get(i); b[i] = shim::bf16::get(i); }",
        got["f16"], got["bf16"], parameters="double* f, double* b",
    )  # fmt: skip
    for name, values in got.items():
        np.testing.assert_array_equal(values, decode(words[None], name)[0], err_msg=name)


def test_numbers_are_rounded_to_16_bits_once() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate(
        [
            rng.standard_normal(2000) * 2.0 ** rng.integers(-30, 20, 2000),
            (rng.integers(0, 1 << 13, 500) + 0.5) * 2.0 ** rng.integers(-30, 4, 500),  # ties
            [0.0, -0.0, np.inf, -np.inf, 65504.0, 65519.99, 65520.0, 3.3e38, 3.4e38, 2.0**-25, 2.0**-133],
        ]
    )
    values = np.append(values, np.zeros(len(values) % 2))
    out = {name: np.zeros(len(values), dtype=np.uint16) for name in ("f16", "bf16")}
    run(
        f"for (int i = 0; i < {len(values)}; ++i)"
        "{ f[i] = shim::f16::put(x[i]); b[i] = shim::bf16::put(x[i]); }",
        values, out["f16"], out["bf16"], parameters="const double* x, unsigned short* f, unsigned short* b",
    )  # fmt: skip
    for name, got in out.items():
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got.view(np.uint32), encode(values[None], name)[0], err_msg=name)


def test_casts_move_bits_and_a_fused_operation_rounds_once() -> None:
    out, words = np.zeros(4), np.zeros(3, dtype=np.uint32)
    run(
        "out[0] = __fmaf_rn(1.0f + 0x1p-12f, 1.0f - 0x1p-12f, -1.0f);"
        "out[1] = __fma_rn(1 + 0x1p-30, 1 - 0x1p-30, -1.0);"
        "out[2] = __hiloint2double(0x3FF00000, 1);"
        "out[3] = __fadd_rn(1.0f, 0x1p-25f) * __fmul_rn(3.0f, 0.5f);"
        "words[0] = __float_as_uint(-2.0f);"
        "words[1] = __double2hiint(-1.5); words[2] = __double2loint(out[2]);",
        out, words, parameters="double* out, unsigned* words",
    )  # fmt: skip
    assert out.tolist() == [-(2.0**-24), -(2.0**-60), 1 + 2.0**-52, 1.5]
    assert words.tolist() == [0xC0000000, 0xBFF80000, 1]


@pytest.mark.parametrize("nbytes", [4, 8, 16])
def test_a_masked_copy_reads_nothing_and_writes_zeros(nbytes: int) -> None:
    n = nbytes // 4
    x, y = np.arange(1, 65, dtype=np.uint32), np.zeros(32 * n, dtype=np.uint32)
    run(
        "extern __shared__ unsigned s[]; const int t = threadIdx.x;"
        f"const bool inside = t < {64 // n} && t % 3;"
        f"cp_async_{nbytes}_zfill(s + {n} * t, inside ? x + {n} * t : x + (1 << 28), inside);"
        "cp_async_commit(); cp_async_wait<0>();"
        f"for (int i = 0; i < {n}; ++i) y[{n} * t + i] = s[{n} * t + i];",
        x, y, parameters="const unsigned* x, unsigned* y", threads=32, shared_bytes=32 * nbytes,
    )  # fmt: skip
    for t in range(32):
        wanted = x[n * t : n * t + n] if t < 64 // n and t % 3 else np.zeros(n)
        assert (y[n * t : n * t + n] == wanted).all()


def test_a_matrix_row_that_is_not_aligned_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="row is not aligned to 16 bytes"):
        run(
            "extern __shared__ unsigned s[]; unsigned d[4]; ldmatrix_x4(d, s + 4 * threadIdx.x + 2);",
            parameters="", threads=32, shared_bytes=1024,
        )  # fmt: skip


# --- PTX in helpers ------------------------------------------------------------------------------------

MMA = (
    "void mma(float* d, const u32* a, const u32* b) {\n"
    '    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, '
    '{%0, %1, %2, %3};"\n        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])\n'
    '        : "r"(a[0]), "r"(a[1]), "r"(b[0]));\n}'
)


def test_a_statement_becomes_a_call_with_its_operands_in_order() -> None:
    text = in_cpp(MMA)
    call = "shim::ptx_mma<shim::f16, shim::f32, 16, 8, 0>("
    call += "(d[0]), (d[1]), (d[2]), (d[3]), (a[0]), (a[1]), (b[0]));"
    assert re.sub(r"\s+", "", call) in re.sub(r"\s+", "", text) and "asm" not in text
    pack = in_cpp('asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(f(v[1])), "f"(f(v[0])));')
    assert re.sub(r"\s+", "", pack) == "shim::ptx_pack<shim::bf16>((d),(f(v[1])),(f(v[0])));"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("{%4, %5}", "{%5, %4}"),
        ("{%6}", "{%5}"),
        (", {%0, %1, %2, %3};", ", {%1, %0, %2, %3};"),
        ("k8.", "k8x."),
    ],
)
def test_a_statement_whose_registers_are_out_of_order_is_not_spelled(right: str, wrong: str) -> None:
    spoilt = MMA.replace(right, wrong)
    assert spoilt != MMA and "asm" in in_cpp(spoilt)
    source = f"// -- device helpers\n__device__ __forceinline__ {spoilt}\n// -- end of device helpers\n"
    assert "mma" not in host_text(source, "none").split("shim_helpers.h", 1)[1].split("extern", 1)[0]
    with pytest.raises(CompileError, match="mma"):
        run_cuda_text(source + "__global__ void k() { mma(0, 0, 0); }", "k", (1,), (1,), ())
