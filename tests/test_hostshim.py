"""The fibre shim: it runs CUDA text as a GPU would, and it can tell a wrong kernel from a right one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.instr import decode, encode
from layoutalg.errors import CompileError
from tests.hostshim import KernelFault, host_text, run_cuda_text
from tests.hostshim.ptx import in_cpp
from tests.sweeps import each

HELPERS = """\
typedef unsigned int u32;
// -- device helpers
__device__ __forceinline__ void ldg128(u32 (&d)[4], const void* p) {
    const uint4 q = *static_cast<const uint4*>(p); d[0] = q.x; d[1] = q.y; d[2] = q.z; d[3] = q.w;
}
__device__ __forceinline__ void sts32(void* p, const u32& v) { *static_cast<u32*>(p) = v; }
__device__ __forceinline__ void cp_async_16(void* s, const void* p) {
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(s));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(p) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int newest>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(newest) : "memory");
}
// -- end of device helpers
"""

TRANSPOSE = (
    HELPERS
    + """
extern "C" __global__ void __launch_bounds__(256) transpose(
    const float* __restrict__ x, float* __restrict__ y, int m, int n) {
    extern __shared__ __align__(1024) unsigned char smem[];
    float* const tile = reinterpret_cast<float*>(smem);
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row < m && column < n)
        sts32(&tile[threadIdx.y * 16 + (threadIdx.x ^ threadIdx.y)], __float_as_uint(x[row * n + column]));
    __syncthreads();
    const int i = blockIdx.x * 16 + threadIdx.y, j = blockIdx.y * 16 + threadIdx.x;
    if (i < n && j < m) y[i * m + j] = tile[threadIdx.x * 16 + (threadIdx.x ^ threadIdx.y)];
}
"""
).replace("__float_as_uint(x[row * n + column])", "*reinterpret_cast<const u32*>(&x[row * n + column])")


def transpose(text: str, m: int, n: int, **options: Any) -> bool:
    x = np.arange(m * n, dtype=np.float32).reshape(m, n)
    y = np.full((n, m), -1, dtype=np.float32)
    grid = (-(-n // 16), -(-m // 16))
    run_cuda_text(text, "transpose", grid, (16, 16), (x, y, m, n), 1024, **options)
    return bool((y == x.T).all())


@each(("m", "n"), [(16, 16), (1, 1), (33, 50), (100, 7)])
@each("order", ["forward", "reverse"])
def test_a_kernel_runs_to_its_result(m: int, n: int, order: str) -> None:
    assert transpose(TRANSPOSE, m, n, order=order)


@each(
    ("right", "wrong", "at"),
    [
        ("__syncthreads();", "", (33, 50)),
        ("(threadIdx.x ^ threadIdx.y)]", "(threadIdx.x ^ 2 * threadIdx.y & 15)]", (16, 16)),
    ],
)
def test_a_missing_barrier_or_a_wrong_swizzle_gives_another_result(
    right: str, wrong: str, at: tuple[int, int]
) -> None:
    text = TRANSPOSE.replace(right, wrong, 1)
    assert text != TRANSPOSE
    assert not all(transpose(text, *at, order=order) for order in ("forward", "reverse"))


def test_a_dropped_predicate_is_a_fault() -> None:
    for predicate in ("row < m && column < n", "i < n && j < m"):
        with pytest.raises(KernelFault, match=r"out of bounds.* in block \(\d,\d,0\) thread"):
            transpose(TRANSPOSE.replace(predicate, "true"), 33, 50)


COPY = (
    HELPERS
    + """
extern "C" __global__ void copy(const u32* x, u32* y) {
    extern __shared__ u32 stage[];
    const int t = threadIdx.x;
    cp_async_16(&stage[4 * t], &x[4 * t]); cp_async_commit();
    cp_async_16(&stage[4 * t + 128], &x[4 * t + 128]); cp_async_commit();
    cp_async_wait<WAIT>();
    __syncthreads();
    for (int i = 0; i < 4; ++i) y[32 * i + t] = stage[32 * i + t];
    cp_async_wait<0>();
    __syncthreads();
    for (int i = 4; i < 8; ++i) y[32 * i + t] = stage[32 * i + t];
}
"""
)


@pytest.mark.parametrize(("newest", "right"), [(0, True), (1, True), (2, False)])
def test_an_asynchronous_copy_lands_at_its_wait(newest: int, right: bool) -> None:
    x, y = np.arange(256, dtype=np.uint32), np.zeros(256, dtype=np.uint32)
    run_cuda_text(COPY.replace("WAIT", str(newest)), "copy", (1,), (32,), (x, y), 1024)
    assert (x == y).all() == right


def run(
    body: str, *args: Any, parameters: str = "unsigned* p", threads: int = 32, shared_bytes: int = 0
) -> None:
    text = f'extern "C" __global__ void k({parameters}) {{\n{body}\n}}\n'
    run_cuda_text(text, "k", (1,), (threads,), args, shared_bytes)


def words(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.uint32)


def test_a_ptx_helper_the_shim_lacks_does_not_compile() -> None:
    helper = '__device__ void bar_arrive(int id) { asm volatile("bar.arrive %0, 64;" :: "r"(id)); }\n'
    text = f"// -- device helpers\n{helper}// -- end of device helpers\n"
    with pytest.raises(CompileError, match="bar_arrive"):
        run_cuda_text(text + "__global__ void k() { bar_arrive(1); }", "k", (1,), (1,), ())


FAULTS = {
    "p[threadIdx.x + 1] = 0;": "an access out of bounds",
    "p[threadIdx.x] = p[1 << 20];": "an access out of bounds",
    "*reinterpret_cast<uint2*>(p + 1) = make_uint2(0, 0);": "undefined behaviour",
    "p[0] = (1 << 30) * (2 + static_cast<int>(p[1]));": "undefined behaviour",
    "if (threadIdx.x < 7) __syncwarp();": "deadlock: a warp operation",
    "__syncwarp(1);": "leaves out the caller",
    "smem[64] = 1;": "a write past the end of shared memory",
    "p[0] = smem[threadIdx.x + 256];": "an access out of bounds",
    "cp_async_16(smem + 1, p);": "a cp.async that is not aligned",
}
FAULTY = "".join(f"case {n}: {body} break;\n" for n, body in enumerate(FAULTS))


@each("body", FAULTS)
def test_a_fault_names_the_thread_and_spares_the_process(body: str) -> None:
    p, which = words(32), list(FAULTS).index(body)
    text = f"extern __shared__ unsigned smem[]; switch (which) {{\n{FAULTY}}}"
    with pytest.raises(KernelFault, match=rf"^k: .*{FAULTS[body]}.* in block \(0,0,0\) thread \(\d+,0,0\)"):
        run(text, p, which, parameters="unsigned* p, int which", shared_bytes=256)


def test_a_write_before_an_array_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="a write outside the array of argument 0"):
        run("p[-1] = 0;", words(32))


def test_a_barrier_releases_those_who_wait_when_the_others_have_left() -> None:
    p = words(64)
    run("if (threadIdx.x < 7) return; __syncthreads(); p[threadIdx.x] = 1;", p,
              threads=64)  # fmt: skip
    assert p.sum() == 57


def test_blocks_see_their_place_and_fresh_shared_memory() -> None:
    p = np.zeros((3, 2, 4), dtype=np.uint32)
    text = """extern "C" __global__ void k(unsigned* p, long long n, float scale) {
        extern __shared__ unsigned s[];
        if (s[0] != 0xA5A5A5A5u) p[0] = 1000;
        s[0] = 7;
        const unsigned i = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        p[i] += n * scale + i + blockDim.x;
    }"""
    run_cuda_text(text, "k", (4, 2, 3), (1,), (p, 1 << 33, 2.0**-33), 4)
    assert (p.ravel() == np.arange(24) + 2).all()


def test_static_shared_variables_are_shared_poisoned_and_bounded() -> None:
    declare = """__shared__ __align__(128) unsigned char bytes[24]; __shared__ unsigned tile[4][8];
        __shared__ int total; extern __shared__ float rest[];"""
    p = words(8)
    body = """ if (threadIdx.x == 0) {
            p[0] = total == static_cast<int>(0xA5A5A5A5u); p[1] = sizeof(tile); p[2] = bytes[23];
            total = 5; tile[3][7] = 6; rest[1] = 7;
            p[7] = reinterpret_cast<unsigned long long>(bytes) % 128;
        }
        __syncthreads();
        if (threadIdx.x == 1) { p[3] = total; p[4] = tile[3][7]; p[5] = rest[1]; p[6] = bytes[23]; }"""
    run(declare + body, p, shared_bytes=8)
    assert p.tolist() == [1, 128, 0xA5, 5, 6, 7, 0xA5, 0]
    with pytest.raises(KernelFault, match="undefined behaviour"):
        run(f"{declare} tile[threadIdx.x / 8][threadIdx.x % 9] = 0;", parameters="", threads=32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1,), "another number of parameters"),
        ((1, 2), "another kind"),
        ((np.zeros(1, np.float32), 1 << 31), "does not fit"),
        ((np.zeros(1, np.float32), 0.5), "another kind"),
    ],
)
def test_arguments_must_be_the_kernels(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(KernelFault, match=message):
        run("p[0] = n;", *args, parameters="float* p, int n")


def test_strided_arrays_and_empty_grids_are_refused() -> None:
    with pytest.raises(ValueError, match="must be contiguous"):
        run("p[0] = 0;", np.zeros((4, 4), np.float32).T, parameters="float* p")
    with pytest.raises(ValueError, match="positive extents"):
        run_cuda_text("__global__ void k() {}", "k", (0,), (1,), ())


# --- numbers of 16 bits, rounded operations, matrix instructions and masked copies -------------------------


def test_every_pattern_of_16_bits_is_the_number_it_stands_for() -> None:
    got = {name: np.zeros(1 << 16) for name in ("f16", "bf16")}
    run(
        "for (int i = 0; i < 65536; ++i) { f[i] = shim::f16::get(i); b[i] = shim::bf16::get(i); }",
        got["f16"], got["bf16"], parameters="double* f, double* b", threads=1,
    )  # fmt: skip
    for name, values in got.items():
        np.testing.assert_array_equal(
            values, decode(np.arange(1 << 16, dtype=np.uint16).view(np.uint32)[None], name)[0], err_msg=name
        )


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
        values, out["f16"], out["bf16"], threads=1,
        parameters="const double* x, unsigned short* f, unsigned short* b",
    )  # fmt: skip
    for name, got in out.items():
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got.view(np.uint32), encode(values[None], name)[0], err_msg=name)


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
