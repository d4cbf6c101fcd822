"""tiled_copy and transpose: layouts that cover the tile, swizzles without conflicts, and what is built."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from layoutalg.analysis import SharedReport, analyze
from layoutalg.codegen.program import Do, Let, MemRef, Shared, lower, walk
from layoutalg.codegen.program.checks import check
from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move import matrix_plan
from layoutalg.kernels.move.matrix import build_transpose
from layoutalg.kernels.registry import find_family
from layoutalg.layout import Layout, product
from layoutalg.synthesis import check_certificate, synthesize
from tests.sweeps import each

WIDTHS = {"u8": 1, "f16": 2, "f32": 4, "f64": 8, "c128": 16}
transpose_problem, copy_problem = (find_family(name).problem for name in ("transpose", "tiled_copy"))
LEADING = ((4096, 4096), (4097, 4097), (4096, 4097), (4098, 4100))


@functools.cache
def every_config() -> list[tuple[MatrixProblem, matrix_plan.TransposeConfig]]:
    problems = (transpose_problem(4096, 4096, kind, *both) for kind in WIDTHS for both in LEADING)
    return [(p, c) for p in problems for c in matrix_plan.transpose_configs(p)]


def best(*asked: Any) -> matrix_plan.TransposeConfig:
    """The configuration of a transpose."""
    return next(matrix_plan.transpose_configs(transpose_problem(*asked)))


def covers(tv: Any, c: Any) -> bool:
    """Whether the threads of a partitioned tile visit every element once."""
    everything = list(range(c.tile_m * c.tile_n))
    return bool(product(tv[0].shape) == c.threads and sorted(tv(i) for i in everything) == everything)


def every_copy() -> Iterator[tuple[MatrixProblem, Any]]:
    """The configurations of copies of all widths and some leading dimensions."""
    for kind in WIDTHS:
        for leading in (4096, 4097, 4100):
            p = copy_problem(4096, 4096, kind, leading, leading)
            yield from ((p, c) for c in matrix_plan.copy_configs(p))


@each(("p", "c"), every_copy, ids=str)
def test_the_layout_of_a_copy_visits_every_element_once(p: MatrixProblem, c: Any) -> None:
    assert covers(matrix_plan.row_copy(c, p.dtype).tidfrg("dst", Layout((c.tile_m, c.tile_n))), c)


@each(("p", "c"), every_config, ids=str, sample=4)
def test_both_layouts_of_a_transpose_visit_every_element_once(
    p: MatrixProblem, c: matrix_plan.TransposeConfig
) -> None:
    assert covers(matrix_plan.load_copy(c, p.dtype).tidfrg("src", Layout((c.tile_m, c.tile_n))), c)
    assert covers(matrix_plan.store_copy(c, p.dtype).tidfrg("dst", Layout((c.tile_n, c.tile_m))), c)


@pytest.mark.deep
@each(("dtype", "size"), WIDTHS.items(), sample=2)
@each("ld", [4096, 4097])
def test_a_thread_holds_at_most_32_words_of_a_tile(dtype: str, size: int, ld: int) -> None:
    """Between loading and storing, of tiles that a search looks at too: more would spill."""
    p = transpose_problem(4096, 4096, dtype, ld, ld)
    found = (*matrix_plan.transpose_configs(p), *matrix_plan.further_transposes(p))
    words = [c.tile_m * c.tile_n // (c.threads * c.src_vec) * (max(4, c.src_vec * size) // 4) for c in found]
    assert max(words) == 32


@each(("p", "c"), every_config, ids=str)
def test_every_configuration_is_free_of_bank_conflicts(
    p: MatrixProblem, c: matrix_plan.TransposeConfig
) -> None:
    for access in matrix_plan.tile_accesses(c, p.dtype):
        report = analyze(c.layout, access)
        assert isinstance(report, SharedReport)
        assert report.conflict_free and report.method == "f2"
        assert analyze(c.layout, access, method="enumerated").total == report.total  # type: ignore[union-attr]


def test_the_swizzle_carries_a_certificate() -> None:
    p, c = transpose_problem(4096, 4096, "f32"), best(4096, 4096, "f32")
    pattern = matrix_plan.tile_accesses(c, p.dtype)
    found = synthesize((c.tile_n, c.tile_m), pattern, element="f32", order="row", form="single")
    assert found.layout == c.layout and check_certificate(found)


@each(("dtype", "size"), WIDTHS.items(), sample=2)
def test_wide_problems_move_16_bytes_a_lane_in_ideal_sectors(dtype: str, size: int) -> None:
    """And what is left of the thread in a shared address of a full tile is one hoisted name."""
    c = best(16384, 16384, dtype)
    assert (c.src_vec * size, c.dst_vec * size, c.tile_m * size, c.tile_n * size) == (16, 16, 256, 256)
    for family in map(find_family, ("transpose", "tiled_copy")):
        p = family.problem(4096, 4096, dtype)
        for config in family.configs(p) if not p.turned else (family.choose(p),):
            assert all(cost.total == cost.ideal for cost in family.predict(p, config).values())
    kernel = lower(build_transpose(transpose_problem(4096, 4096, dtype), best(4096, 4096, dtype)))
    bases = [s.var.name for s in kernel.body if isinstance(s, Let) and s.var.name.startswith("lane")]
    found = [
        str(arg.index) for s in walk(kernel.body) if isinstance(s, Do) for arg in s.args
        if isinstance(arg, MemRef) and isinstance(arg.buffer, Shared)
    ]  # fmt: skip
    assert found and len(bases) == 2
    assert all("tid" not in at and sum(at.count(base) for base in bases) == 1 for at in found)


def test_what_is_chosen() -> None:
    for asked, edges in (((1000, 1000), "vectors"), ((1000, 999), "elements"), ((999, 1000), "elements")):
        assert best(*asked, "f16", 1000, 1000).edges == edges
    assert best(999, 999, "f16").edges == "vectors"
    assert best(600, 600, "u8").tile_m < best(16384, 16384, "u8").tile_m
    vectors = best(1000, 1001, "f16")
    assert (vectors.src_vec, vectors.dst_vec) == (1, 8)
    assert matrix_plan.copy_configs(copy_problem(64, 64, "f32", 64, 66))[0].vec == 2  # the narrower side's
    ops = [access.op for _, access in matrix_plan.accesses(best(4096, 4096, "u8"), dtype("u8"))]
    assert ops == ["ld.global.b128", "st.shared.b32", "ld.shared.b128", "st.global.b128"]


@each(
    ("leading", "dtype", "arch", "ways"),
    [
        (64, "f32", "sm_80", ["registers", "cp.async"]), (64, "f32", "sm_75", ["registers"]),
        (65, "u8", "sm_90", ["registers"]), (65, "f32", "sm_90", ["registers", "cp.async"]),
    ],
)  # fmt: skip
def test_asynchronous_copies_need_sm_80_and_four_bytes(
    leading: int, dtype: str, arch: str, ways: list[str]
) -> None:
    assert [
        c.via for c in matrix_plan.copy_configs(copy_problem(64, 64, dtype, leading, leading), arch)
    ] == ways
    with pytest.raises(UnsupportedError, match="4 bits"):
        transpose_problem(8, 8, "u4")


@pytest.mark.deep
@each("arch", ["sm_75", "sm_80", "sm_90"])
@each("leading", [4096, 4097, 4100], sample=2)
@each("dtype", WIDTHS, sample=1)
def test_every_transpose_passes_the_grammar(dtype: str, leading: int, arch: str) -> None:
    p = transpose_problem(4096, 4096, dtype, leading, leading)
    for c in matrix_plan.transpose_configs(p, arch):
        check(build_transpose(p, c), arch)
