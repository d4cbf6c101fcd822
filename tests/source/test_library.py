"""Functions of CUDA's headers: what is read of them is what their documentation says that they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.analysis import wavefronts
from layoutalg.source import read_kernel
from tests.source.random_kernels import Tree, trees

HEAD = """\
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
"""
BLOCK = (16, 4, 2)

NUMBERS: tuple[tuple[str, Callable[[int], int]], ...] = (
    # a number in a kernel, and what it is in thread r of the block
    ("block.thread_rank()", lambda r: r),
    ("cg::this_thread_block().size() - block.thread_rank()", lambda r: 128 - r),
    ("cg::thread_block::num_threads() + block.thread_index().y", lambda r: 128 + r // 16 % 4),
    ("block.group_index().x + block.dim_threads().y * block.group_dim().z", lambda r: 8),
    ("warp.thread_rank() * warp.meta_group_rank()", lambda r: r % 32 * (r // 32)),
    ("warp.size() * warp.meta_group_size() - r", lambda r: 128 - r),
    ("four.thread_rank() + 8 * four.meta_group_rank()", lambda r: r % 4 + r % 32 // 4 * 8),
    ("four.meta_group_size()", lambda r: 8),
    ("cg::tiled_partition<8>(block).meta_group_rank() * 32", lambda r: r // 8 * 32),
    ("some.thread_rank() * 33 + some.size()", lambda r: r % 16 * 33 + 16),
    ("cg::thread_rank(warp) * 2 + cg::group_size(four)", lambda r: r % 32 * 2 + 4),
    ("rank_of(warp) * 8", lambda r: r % 32 * 8),
    ("cg::this_grid().thread_rank()", lambda r: r),
    ("__popc(r) * 32", lambda r: r.bit_count() * 32),
    ("__clz(r) * 32", lambda r: (32 - r.bit_length()) * 32),
    ("__ffs(r) * 32", lambda r: (r & -r).bit_length() * 32),
    ("(__brev(r) >> 25) * 4", lambda r: int(f"{r:07b}"[::-1], 2) * 4),
    ("__mul24((int)r - 64, -3) + 192", lambda r: 384 - 3 * r),
    ("umax(r, 70) - umin(r, 9)", lambda r: max(r, 70) - min(r, 9)),
    ("abs((int)r - 50) * 2", lambda r: abs(r - 50) * 2),
    ("(1u << (r & 7)) + (r << (r & 1))", lambda r: (1 << (r & 7)) + (r << (r & 1))),
    ("(r * 5 >> r % 3) * 32", lambda r: (r * 5 >> r % 3) * 32),
    ("__shfl_sync(~0u, r * 3, 5)", lambda r: (r // 32 * 32 + 5) * 3),
    ("__shfl_sync(~0u, r * 8 + 1, (int)r / 3, 4)", lambda r: (r // 4 * 4 + r // 3 % 4) * 8 + 1),
    ("__shfl_up_sync(~0u, r * 32, 3, 8)", lambda r: (r - 3 if r % 8 >= 3 else r) * 32),
    ("__shfl_down_sync(~0u, threadIdx.y * 33, 9)", lambda r: (r + 9 if r % 32 < 23 else r) // 16 % 4 * 33),
    ("__shfl_xor_sync(~0u, r * 8, 20, 16)", lambda r: (r if r % 32 < 16 else r ^ 20) * 8),
)


def test_numbers_of_groups_and_of_bits_are_those_of_every_thread() -> None:
    stores = "\n".join(f"s[{text}] = 1;" for text, _ in NUMBERS)
    text = f"""{HEAD}__device__ unsigned rank_of(cg::thread_group group) {{ return group.thread_rank(); }}
__global__ void k() {{ __shared__ int s[65536]; cg::thread_block block = cg::this_thread_block();
auto warp = cg::tiled_partition<32>(block); auto four = cg::tiled_partition<4>(warp);
cg::thread_group some = cg::tiled_partition(block, 16); unsigned r = block.thread_rank(); block.sync();
{stores}
}}"""
    reading = read_kernel(text, BLOCK)
    assert not reading.unfollowed
    for (said, number), access in zip(NUMBERS, reading.memory, strict=True):
        wanted = sum(
            wavefronts("st.shared.b32", [4 * number(r) for r in range(first, first + 32)])
            for first in range(0, 128, 32)
        )
        assert (access.op, access.total) == ("st.shared.b32", wanted), (said, access.why)


def test_what_threads_of_a_group_tell_each_other_is_not_known() -> None:
    given = ("warp.shfl_xor(t, 1)", "warp.ballot(t)", "cg::coalesced_threads().thread_rank()",
             "cg::reduce(warp, t, cg::plus<int>())", "*cg::this_cluster().map_shared_rank(s, 1)")  # fmt: skip
    stores = "\n".join(f"s[{number}] = 1;" for number in given)
    text = f"""{HEAD}__global__ void k() {{ __shared__ int s[64]; int t = threadIdx.x;
auto warp = cg::tiled_partition<32>(cg::this_thread_block());
{stores}
}}"""
    memory = read_kernel(text, 32).memory
    assert [a.line for a in memory if not a.read] == [5, 6, 7, 8, 9, 9]


COPIES = (
    # a copy in a block of 64 threads, the arch, bytes of a piece, threads that share it, and bytes of it
    ("cuda::memcpy_async(s + t * 4, g + t * 4, 16, barrier)", "sm_90", 4, 1, 16),
    ("cuda::memcpy_async(&s[t * 4], &g[t * 4], cuda::aligned_size_t<16>(16), pipe)", "sm_90", 16, 1, 16),
    ("cuda::memcpy_async(block, s, g, 4 * 150, barrier)", "sm_80", 4, 64, 600),
    ("cuda::memcpy_async(block, s, g, cuda::aligned_size_t<8>(8 * 100), pipe)", "sm_90", 8, 64, 800),
    ("cuda::memcpy_async(block, s, g, cuda::aligned_size_t<16>(1600), barrier)", "sm_80", 16, 64, 1600),
    ("cg::memcpy_async(block, s, g, 600)", "sm_90", 4, 64, 600),
    ("cg::memcpy_async(block, s, 200, g, 150)", "sm_90", 4, 64, 600),
    ("cg::memcpy_async(warp, s + t / 32 * 64, g, 256)", "sm_90", 4, 32, 256),
    ("cg::memcpy_async(block, (char*)s, (const char*)g, 1600)", "sm_90", 16, 64, 1600),
    ("cg::memcpy_async(block, (char*)s + 8, (const char*)g, 800)", "sm_90", 8, 64, 800),
)


COPYING = """__global__ void k(const float* g) { __shared__ alignas(16) float s[4096];
__shared__ cuda::barrier<cuda::thread_scope_block> barrier; auto pipe = cuda::make_pipeline();
auto block = cg::this_thread_block(); auto warp = cg::tiled_partition<32>(block); int t = threadIdx.x;
if (t == 0) init(&barrier, 64); block.sync(); pipe.producer_acquire();
COPY;
pipe.producer_commit(); barrier.arrive_and_wait(); cg::wait(block); }
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_copies_of_groups_are_divided_as_the_headers_divide_them(arch: str) -> None:
    copies = [each for each in COPIES if each[1] == arch]
    kernels = [COPYING.replace("k(", f"k{n}(", 1).replace("COPY", c) for n, (c, *_) in enumerate(copies)]
    reading = read_kernel(HEAD + "".join(kernels), 64, arch=arch)
    for number, (copy, _, piece, threads, size) in enumerate(copies):
        memory = [access for access in reading.memory if access.kernel == f"k{number}"]
        start = 16 if threads == 1 else 0  # of a thread's own copy, in bytes from that of the thread before
        rows = [
            [at + start * r if at < size else None
             for r in range(w, w + 32) for at in [piece * (r % threads + n)]]
            for w in (0, 32) for n in range(0, size // piece, threads)
        ]  # fmt: skip
        rows = [row for row in rows if any(at is not None for at in row)]
        wanted = len(rows), sum(wavefronts(f"cp.async.{piece}", row) for row in rows)
        assert [a.op for a in memory] == [f"cp.async.{piece}", f"cp.async.{piece}:global"], (copy, memory)
        assert all(a.line == 7 + 6 * number for a in memory), copy
        assert (memory[0].instructions, memory[0].total) == wanted, copy


def test_a_copy_that_is_none_of_cp_async_is_told_or_read_as_loads_and_stores() -> None:
    text = f"""{HEAD}__global__ void k(float* g, const float4* w) {{ __shared__ float s[64];
int t = threadIdx.x; __shared__ float4 v[64]; __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
cuda::memcpy_async(g + t, s + t, 4, barrier);
cuda::memcpy_async(v + t, w + t, 16, barrier);
}}"""
    memory = read_kernel(text, 32, arch="sm_90").memory
    assert [(a.line, a.op, a.read) for a in memory] == [
        (5, "ld.shared.b32", True), (5, "st.global.b32", True), (6, "call cp_async_bulk", False)
    ]  # fmt: skip


def test_fetches_are_listed_and_not_counted() -> None:
    text = """__global__ void k(float* a, cudaTextureObject_t t, cudaSurfaceObject_t u) { uchar4 w;
a[threadIdx.x] = -tex2D<float>(t, threadIdx.x, 0.5f);
surf2Dwrite(1.f, u, 4 * threadIdx.x, 0);
surf2Dread(&w, u, 1, 2);
surf2Dread(a + threadIdx.x, u, 1, 2);
}"""
    rows = [(a.line, a.op, a.array, a.read) for a in read_kernel(text, 32).accesses]
    assert rows == [
        (2, "st.global.b32", "a", True), (2, "fetch", "tex2D", True), (3, "fetch", "surf2Dwrite", True),
        (4, "fetch", "surf2Dread", True), (5, "call surf2Dread", "a", False),
    ]  # fmt: skip


def test_functions_of_ones_own_are_not_taken_for_those_of_the_headers() -> None:
    text = """__device__ float tex2D(float* p, int i); __device__ void printf(int n);
__device__ void assert_all(float* p, int n) { p[32 * n] = 1; }
__global__ void k(float* a) { float x = tex2D(a, 1); printf(3);
assert_all(a, threadIdx.x); }"""
    reading = read_kernel(text, 32)
    assert [(a.line, a.op, a.total) for a in reading.memory] == [
        (2, "st.global.b32", 32), (3, "call tex2D", None)
    ]  # fmt: skip
    assert [part.why for part in reading.unfollowed] == ["what printf does is not in the file"]


ATOMICS = (
    # an atomic operation; its op, the sectors or wavefronts of a warp, and the lanes at one address
    ("atomicAdd(g + t, 1)", "atom.global.b32", 4, 1),
    ("atomicMax_system(g + 2 * t, 1)", "atom.global.b32", 8, 1),
    ("atomicCAS((unsigned long long*)g + t, 0ull, 1ull)", "atom.global.b64", 8, 1),
    ("if (t == 3) atomicExch(g, 1)", "atom.global.b32", 1, 1),
    ("atomicAdd(g, 1)", "atom.global.b32", 1, 32),
    ("if (t < 20) atomicAdd(g + t % 3 * 8, 1)", "atom.global.b32", 3, 7),
    (
        'asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" :: "l"(g + t), "r"(1))',
        "atom.global.b32",
        4,
        1,
    ),
    ("cuda::atomic_ref<int>(g[4 * t]).fetch_add(1, cuda::memory_order_relaxed)", "atom.global.b32", 16, 1),
    ("atomicMin(s + 32 * t, 1)", "red.shared.u32", 32, 1),
    ("atomicInc((unsigned*)s + t / 2, 5)", "red.shared.u32", 2, 2),
    ("atomicCAS(s + t, 0, 1)", "call atomicCAS", None, 0),
    ("atomicAdd((float*)s + t, 1.f)", "call atomicAdd", None, 0),
)


def test_atomic_operations_of_all_forms() -> None:
    body = "(int* g) {{ __shared__ int s[1024]; int t = threadIdx.x; {}; }}\n"
    kernels = [f"__global__ void k{n}{body.format(each)}" for n, (each, *_) in enumerate(ATOMICS)]
    memory = read_kernel("".join(kernels), 32).memory
    assert len(memory) == len(ATOMICS)
    for access, (operation, *wanted) in zip(memory, ATOMICS, strict=True):
        assert [access.op, access.total, access.lanes] == wanted, (operation, access.why)


@settings(max_examples=2, deadline=None)
@given(st.lists(trees(("t",)), min_size=8, max_size=8))
def test_lanes_that_meet_are_counted_as_their_indices_are_evaluated(indices: list[Tree]) -> None:
    body = "".join(f"atomicAdd({'gs'[n % 2]} + {each.text}, 1);\n" for n, each in enumerate(indices))
    text = f"__global__ void k(int* g) {{ extern __shared__ int s[]; int t = threadIdx.x;\n{body}}}"
    lanes = [[each.value({"t": t}) for t in range(48)] for each in indices]
    wanted = [max(max(Counter(own[at : at + 32]).values()) for at in (0, 32)) for own in lanes]
    assert [access.lanes for access in read_kernel(text, 48).memory] == wanted


def test_functions_of_the_compiler_are_not_ones_own() -> None:
    text = """__global__ void k(float* p) { float x = INFINITY;
float* q = (float*)__builtin_assume_aligned(p, 16); q[2 * threadIdx.x] = x; __builtin_memset(q, 0, 4); }"""
    reading = read_kernel(text, 32)
    assert [(a.line, a.op, a.total) for a in reading.memory] == [
        (2, "st.global.b32", 8), (2, "call __builtin_memset", None)
    ]  # fmt: skip
    assert not reading.unfollowed


def test_what_a_number_of_the_headers_is_added_to_is_loaded_and_stored() -> None:
    text = """__global__ void k(__nv_bfloat16* b, float* f, __half* h) { int t = threadIdx.x;
b[t] += b[0];
f[t] += not_declared(1);
f[t] = not_declared(h[t]) > 3;
h[t] = 1; }"""
    rows = [(a.line, a.op, a.total) for a in read_kernel(text, 32).memory]
    assert rows == [
        (2, "ld.global.b16", 2), (2, "st.global.b16", 2), (2, "ld.global.b16", 1), (3, "ld.global.b32", 4),
        (3, "st.global.b32", 4), (4, "st.global.b32", 4), (4, "call not_declared", None),
        (5, "st.global.b16", 2),
    ]  # fmt: skip


def test_memcpy_moves_bytes_as_nvcc_does_whatever_its_pointers_are() -> None:
    text = """__global__ void k(float* p, const char* c, int n) { __shared__ float s[64]; float4 v;
int t = threadIdx.x;
memcpy(&v, c + 16 * t, 16);
memcpy((int2*)p + t, &v, 8);
memcpy(s + t, p + t, 4);
memcpy(p, s, n);
memcpy(p, s, 128); }"""
    rows = [(a.line, a.op, a.instructions, a.total) for a in read_kernel(text, 32).memory]
    assert rows == [
        (3, "ld.global.b8", 16, 256), (4, "st.global.b8", 8, 64), (5, "ld.global.b8", 4, 16),
        (5, "st.shared.b8", 4, 4), (6, "call memcpy", None, None), (7, "call memcpy", None, None),
    ]  # fmt: skip


def test_conversions_are_declared_by_what_their_names_say() -> None:
    text = """__global__ void k(__nv_bfloat162* b, half2* h, short* s, float x) {
b[threadIdx.x] = __float22bfloat162_rn({x, 2 * x});
h[threadIdx.x] = __floats2half2_rn(x, x);
s[threadIdx.x] = __half_as_short(__double2half(x));
}"""
    reading = read_kernel(text, 32)
    assert not reading.unfollowed
    assert [a.op for a in reading.memory if a.read] == ["st.global.b32", "st.global.b32", "st.global.b16"]


def test_collectives_of_cub_load_and_store_as_their_algorithms_say() -> None:
    text = """#include <cub/cub.cuh>
typedef cub::BlockLoad<float, 64, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
typedef cub::BlockReduce<float, 64> Reduce;
__global__ void k(const float* in, float* out, int n) {
__shared__ union { Load::TempStorage load; Reduce::TempStorage reduce; } temp;
__shared__ struct { Reduce::TempStorage reduce; float behind[64]; } both;
float items[4], x; int sum = 3; typename cub::WarpReduce<int>::TempStorage none;
Load(temp.load).Load(in, items, n, 0.f);
x = Reduce(temp.reduce).Reduce(items[0], cub::Max());
cub::BlockStore<float, 64, 4>().Store(out, items);
cub::BlockStore<float, 64, 4, cub::BLOCK_STORE_VECTORIZE>().Store(out, items);
sum = cub::WarpReduce<int>(none).Sum(sum);
out[sum] = 1;
both.behind[threadIdx.x] = x;
}"""
    reading = read_kernel(text, 64, sets={"n": 64})
    assert not reading.unfollowed
    rows = [(a.line, a.op, a.array, a.instructions, a.total) for a in reading.memory]
    assert rows == [
        (8, "call cub_exchange", "temp", None, None), (8, "ld.global.b32", "in", 2, 8),
        (9, "call cub_exchange", "temp", None, None), (10, "st.global.b32", "out", 8, 128),
        (11, "st.global.b128", "out", 2, 32), (13, "st.global.b32", "out", None, None),
        (14, "st.shared.b32", "both", None, None),
    ]  # fmt: skip


def test_accessors_of_torch_are_read_by_the_strides_that_are_given() -> None:
    text = """#include <torch/extension.h>
__global__ void k(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> a, at::Half* h) {
at::acc_type<at::Half, true> sum = h[threadIdx.x] * 2.f;
a[blockIdx.x][threadIdx.x % C10_WARP_SIZE] = sum;
if (threadIdx.x < a.size(1)) h[threadIdx.x] += 1;
gpuAtomicAdd(&a[0][2 * threadIdx.x], sum);
}"""
    sets = {"a.strides_[0]": 64, "a.strides_[1]": 2, "a.sizes_[1]": 16}
    reading = read_kernel(text, 32, sets=sets)
    assert not reading.unfollowed
    assert [(a.line, a.op, a.array, a.total) for a in reading.memory] == [
        (3, "ld.global.b16", "h", 2), (4, "st.global.b32", "a.data_", 8),
        (5, "ld.global.b16", "h", 1), (5, "st.global.b16", "h", 1), (6, "atom.global.b32", "a.data_", 16),
    ]  # fmt: skip


def test_a_reference_that_nobody_reads_is_not_loaded() -> None:
    text = """struct H { float v; __device__ H& operator+=(float y) { v = v + y; return *this; } };
__device__ int& at(int* p, int i) { return p[i]; }
__global__ void k(H* h, int* p) {
h[threadIdx.x] += 1;
(at(p, 1), at(p, 2)) = 3;
int x = at(p, threadIdx.x);
}"""
    assert [(a.line, a.op) for a in read_kernel(text, 32).memory] == [
        (1, "st.global.b32"), (1, "ld.global.b32"), (5, "st.global.b32"), (6, "ld.global.b32")
    ]  # fmt: skip
