"""Kernels of CuTe: what their copies move, by CUTLASS's own headers, and what is not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutalg.errors import ParseError
from layoutalg.source import KernelReading, read_kernel
from layoutalg.source.cute.spelling import read_type
from tests.source import cute_oracle
from tests.source.random_cute import kernel, read_moves
from tests.sweeps import each

FACTS = json.loads(Path(__file__).parents[1].joinpath("data", "cute_moves.json").read_text("utf-8"))
HEAD = "#include <cute/tensor.hpp>\nusing namespace cute;\n"
TILE = """  auto gA = local_tile(make_tensor(make_gmem_ptr(A), make_shape(m, n), make_stride(n, Int<1>{})),
                       make_shape(Int<64>{}, Int<32>{}), make_coord(blockIdx.x, _));
  __shared__ float smem[cosize_v<Layout<Shape<_64, _32>, Stride<_32, _1>>>];
  auto sA = make_tensor(make_smem_ptr(smem), Layout<Shape<_64, _32>, Stride<_32, _1>>{});
"""


def rows(text: str, block: int = 128, **sets: int | str) -> list[tuple[str, str, int | None, int | None]]:
    """(op, array, instructions, wavefronts or sectors) of each access."""
    reading = read_kernel(HEAD + text, block, sets=sets)
    assert not reading.unfollowed, reading.unfollowed
    return [(a.op, a.array, a.instructions, a.total) for a in reading.accesses]


@pytest.mark.deep
@each("seed", tuple(sorted(FACTS, key=int))[:8], sample=2)
def test_copies_move_what_cutlass_moves(seed: str) -> None:
    moves = read_moves(kernel(int(seed)))
    assert not isinstance(moves, str), moves
    assert len(moves) == FACTS[seed]["moves"]
    assert cute_oracle.digest(moves) == FACTS[seed]["digest"]


@pytest.mark.deep
@pytest.mark.skipif(
    cute_oracle.folders() is None, reason="CUTLASS's headers are not there: LAYOUTALG_CUTLASS names them"
)
def test_random_kernels_move_what_cutlass_moves(tmp_path: Path) -> None:
    cases = [kernel(seed) for seed in range(1000, 1024)]
    compiled = 0
    for case, moves in zip(cases, cute_oracle.moves(cases, tmp_path), strict=True):
        if moves is not None:
            compiled += 1
            assert sorted(read_moves(case)) == sorted(moves), case.text
    assert compiled > 12


def test_a_loop_over_tiles_and_its_copies_are_read() -> None:
    text = f"""__global__ void k(float const* A, float* B, int m, int n) {{
{TILE}  auto tA = make_layout(make_shape(Int<8>{{}}, Int<16>{{}}), LayoutRight{{}});
  Tensor g = local_partition(gA, tA, threadIdx.x);
  Tensor s = local_partition(sA, tA, threadIdx.x);
  for (int k = 0; k < size<2>(g); ++k) {{
    copy(g(_, _, k), s);
    __syncthreads();
    B[threadIdx.x] = sA(threadIdx.x % 32, 0);
  }}
}}"""
    assert rows(text, m=64, n=128) == [
        ("ld.global.b32", "A", 4 * 16 * 4, 4 * 16 * 4 * 4), ("st.shared.b32", "smem", 256, 512),
        ("st.global.b32", "B", 16, 64), ("ld.shared.b32", "smem", 16, 16 * 32),
    ]  # fmt: skip


def test_template_arguments_that_a_launch_deduces_are_read() -> None:
    text = """template <class Shape, class SmemLayout, class Copy> __global__
void k(Shape mn, float* A, SmemLayout l, Copy by) {
  __shared__ float smem[cosize_v<SmemLayout>];
  Tensor g = make_tensor(make_gmem_ptr(A), select<0, 1>(mn), LayoutRight{});
  Tensor s = make_tensor(make_smem_ptr(smem), l);
  ThrCopy mine = by.get_slice(threadIdx.x);
  copy(by, mine.partition_S(g), mine.partition_D(s));
}
void launch(float* A, int m) {
  auto mn = make_shape(Int<32>{}, Int<64>{}, m);
  auto l = tile_to_shape(composition(Swizzle<3, 2, 3>{}, Layout<Shape<_8, _32>, Stride<_32, _1>>{}),
                         Shape<_32, _64>{});
  TiledCopy by = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, float>{},
                                 Layout<Shape<_8, _16>, Stride<_16, _1>>{}, Layout<Shape<_1, _4>>{});
  k<<<1, 128>>>(mn, A, l, by);
}"""
    assert rows(text) == [("cp.async.16:global", "A", 16, 256), ("cp.async.16", "smem", 16, 64)]


def test_a_predicate_of_coordinates_is_followed() -> None:
    text = f"""__global__ void k(float* A, float* B, int m, int n) {{
{TILE}  auto c = local_tile(make_identity_tensor(make_shape(m, n)), make_shape(Int<64>{{}}, Int<32>{{}}),
                      make_coord(blockIdx.x, 0));
  auto tA = make_layout(make_shape(Int<4>{{}}, Int<32>{{}}), LayoutRight{{}});
  Tensor s = local_partition(sA, tA, threadIdx.x);
  Tensor g = local_partition(gA(_, _, 0), tA, threadIdx.x);
  Tensor at = local_partition(c, tA, threadIdx.x);
  Tensor p = make_tensor<bool>(shape(s));
  for (int i = 0; i < size<0>(p); ++i)
    for (int j = 0; j < size<1>(p); ++j) p(i, j) = elem_less(at(i, j), make_coord(m, n));
  copy_if(p, g, s);
}}"""
    assert rows(text, m=8, n=32) == [("ld.global.b32", "A", 8, 32), ("st.shared.b32", "smem", 8, 8)]


UNREAD = {
    "copy_if([&](int i) { return i < n; }, g, s);": "the predicate of copy_if is not followed",
    "copy(recast<void*>(g), s);": "elements of type void * are not read",
    "frobnicate(g, s);": "what frobnicate does is not in the file",
    "copy(make_tma_copy(SM90_TMA_LOAD{}, gA, sA.layout()), g, s);": "the copy engine's",
    "auto mma = make_tiled_mma(SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{}); "
    "auto c = partition_fragment_C(mma, Shape<_64, _64>{}); gemm(mma, c, c, c);": "the tensor core's",
    "auto h = make_tensor(make_gmem_ptr(A + int(A[0])), make_shape(Int<8>{})); "
    "copy(h, make_fragment_like(h));": "floating point",
}


def reading_of(statement: str) -> KernelReading:
    """The reading of a kernel with a statement about parts g and s of a tile."""
    head = "__global__ void k(float* A, int m, int n) {\n"
    parts = """  auto tA = Layout<Shape<_4, _32>, Stride<_32, _1>>{};
  auto g = local_partition(gA(_, _, 0), tA, threadIdx.x);
  auto s = local_partition(sA, tA, threadIdx.x);
"""
    return read_kernel(f"{HEAD}{head}{TILE}{parts}  {statement}\n}}", 128, sets={"m": 64, "n": 32})


@each("statement", tuple(UNREAD))
def test_what_is_not_evaluated_is_told(statement: str) -> None:
    reading = reading_of(statement)
    told = [a.why for a in reading.accesses if not a.read] + [part.why for part in reading.unfollowed]
    assert any(UNREAD[statement] in str(why) for why in told), (told, reading.accesses)


@pytest.mark.deep
def test_what_depends_on_a_size_names_it() -> None:
    text = f"__global__ void k(float* A, int m, int n) {{\n{TILE}  copy(gA(_, _, 0), sA);\n}}"
    reading = read_kernel(HEAD + text, 32)
    assert {a.op: a.depends for a in reading.accesses} == {"ld.global.b32": ("n",), "st.shared.b32": ()}


@each("text", ("", "<", "A<B", "A<B>::C<D>", "f<A<B>::C<D>, E>"))
def test_a_type_that_is_no_value_of_cute_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="the type"):
        read_type(text)


def test_a_record_without_members_is_read() -> None:
    text = "struct Empty {};\n__global__ void k(float* p) { Empty e; p[threadIdx.x] = sizeof(e); }"
    assert [(a.op, a.total) for a in read_kernel(text, 32).accesses] == [("st.global.b32", 4)]
