"""What removes conflicts is found where it is known to exist; the changed source, read again, has none."""

from __future__ import annotations

import pytest

from layoutalg.layout import ComposedLayout
from layoutalg.source import fixes_of, read_kernel

VECTORS = """
__global__ void r(float4 *out) {{
  __shared__ float4 v[32][{pitch}];
  int t = threadIdx.x;
  v[t % 32][t / 32] = out[t];
  __syncthreads();
  out[t] = v[t / 8][t % 8];
}}
"""
ROWS = """
__device__ int at(int row, int col) {{ int o = row * 48 + col; return {index}; }}
__global__ void r(float *out) {{
  __shared__ float sm[32 * 48];
  int t = threadIdx.x;
  sm[at(t % 32, t / 32)] = out[t];
  __syncthreads();
  out[t] = sm[at(t / 16, t % 16)];
}}
"""
TREE = """
__device__ int at(int o) {{ return {index}; }}
__global__ void r(float *out) {{
  __shared__ float sm[{size}];
  int tid = threadIdx.x;
  for (int s = 1; s < 256; s *= 2) {{
    int i = 2 * s * tid;
    if (i < 256) sm[at(i)] += sm[at(i + s)];
    __syncthreads();
  }}
  out[tid] = sm[at(tid)];
}}
"""


def found(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The remedies of a source by their kind, each without a conflict left; and what is said beside them."""
    fixes, notes = fixes_of(read_kernel(text, 256))
    assert all(fix.before > fix.after == fix.ideal for fix in fixes)
    return {fix.kind: str(fix.layout) for fix in fixes}, notes


@pytest.mark.deep(but=("10",))
@pytest.mark.parametrize("pitch", [10, 12, 20, 32, 36])
def test_rows_of_vectors_are_padded_by_vectors(pitch: int) -> None:
    assert found(VECTORS.format(pitch=pitch))[0]["padding"] == f"(32,{pitch}):({pitch + 1},1)"
    assert not read_kernel(VECTORS.format(pitch=pitch + 1), 256).conflicting


def test_a_swizzle_is_found_for_rows_whose_length_is_not_a_power_of_two() -> None:
    assert found(ROWS.format(index="o"))[0]["swizzle"] == "Sw<4,0,5> o 0 o (48,32):(32,1)"
    assert not read_kernel(ROWS.format(index="o ^ (o / 32 % 16)"), 256).conflicting


@pytest.mark.deep
def test_a_tree_of_sums_has_both() -> None:
    remedies, _ = found(TREE.format(index="o", size=512))
    assert remedies == {"padding": "(16,32):(33,1)", "swizzle": "Sw<3,0,5> o 0 o (16,32):(32,1)"}
    for index in ("o + o / 32", "o ^ (o / 32 % 8)"):
        assert not read_kernel(TREE.format(index=index, size=528), 256).conflicting


@pytest.mark.deep(only=("513", "600"))
@pytest.mark.parametrize("size", [512, 513, 516, 528, 600])
def test_a_swizzle_stays_inside_of_the_array(size: int) -> None:
    fixes, _ = fixes_of(read_kernel(TREE.format(index="o", size=size), 256))
    (found,) = (fix for fix in fixes if fix.kind == "swizzle")
    assert isinstance(found.layout, ComposedLayout)
    reached = {found.layout.swizzles[0](at) for at in range(size)}
    assert max(reached) < size + found.extra_bytes // 4 and len(reached) == size


def test_where_nothing_is_found_what_was_tried_is_said() -> None:
    """Rows of 32 need an odd pad, those of 33 an even one; what takes 32 t to t takes 33 t to 0."""
    body = "__shared__ float s[1056]; int t = threadIdx.x; p[t] = s[32 * t] + s[33 * t];"
    fixes, notes = fixes_of(read_kernel(f"__global__ void k(float *p) {{ {body} }}", 32))
    assert not fixes
    assert notes == (
        "s: conflicts are left by every padding of up to 128 bytes per row of 33, 32 elements, and by every "
        "swizzle Sw<B,M,S> with B <= 5 and S >= B that maps the array onto itself; others were not tried",
    )
