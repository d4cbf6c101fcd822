"""Functions of CUDA's headers: what is read of them is what their documentation says that they do."""

from __future__ import annotations

from collections.abc import Callable

from layoutalg.analysis import wavefronts
from layoutalg.source import read_kernel

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
