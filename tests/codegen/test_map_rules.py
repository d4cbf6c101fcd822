"""Tensor maps and clusters of a program: refused before anything is compiled, with what would be accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.arch import SWIZZLE_MODES, find_arch
from layoutalg.codegen.expr import Const, Var, as_expr
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, TensorMapParam, contract
from layoutalg.codegen.program.launch_contract import check_cluster, lines
from layoutalg.codegen.program.tensor_maps import check_maps, map_conditions
from layoutalg.dtype import dtype
from layoutalg.errors import (
    AlignmentError,
    IRError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnsupportedError,
)
from tests.tma_programs import Boxes, copy_program

HOPPER = find_arch("sm_90")


def mapped(**changed: Any) -> Kernel:
    """A kernel with one map, of a tensor whose rows are `ld` elements apart."""
    k = KernelBuilder("k", threads=32)
    m, n, ld = k.param("m", 1 << 20, 1), k.param("n", 1 << 34, 0), k.param("ld", 1 << 40, 8, multiple=4)
    x = k.pointer("x", 2, (ld, 1))
    given: dict[str, Any] = {
        "dims": (n, m), "strides_bytes": (ld * 2,), "box": (64, 8), "mode": SWIZZLE_MODES["128B"],
    }  # fmt: skip
    one = TensorMapParam("map_x", x, element=dtype("f16"), **given)
    return replace(k.build(), maps=(replace(one, **changed),))


RULES: list[tuple[dict[str, Any], type[LayoutAlgError], str, dict[str, Any]]] = [
    (
        {"box": (128, 8)},
        ShapeError,
        r"tma\.box_inner: .* 128 elements = 256 bytes; .*; nearest: 2 boxes of 64",
        {"box": (64, 8)},
    ),
    (
        {"box": (64, 300)},
        ShapeError,
        r"tma\.box_side: .* 300 elements; .*; nearest: 2 boxes of 256",
        {"box": (64, 256)},
    ),
    (
        {"strides_bytes": (Const(200),)},
        AlignmentError,
        r"tma\.stride: .* 200 bytes; .* nearest: 208",
        {"strides_bytes": (Const(208),)},
    ),
    (
        {"strides_bytes": (Const(1 << 40),)},
        ShapeError,
        r"tma\.stride_range: .* nearest: at most 1099511627760",
        {"strides_bytes": (Const((1 << 40) - 16),)},
    ),
    (
        {"dims": (Const(64), Const((1 << 32) + 1))},
        ShapeError,
        r"tma\.extent: .*; nearest: 2 tensor maps",
        {"dims": (Const(64), Const(1 << 32))},
    ),
    (
        {"element_strides": (1, 9)},
        ShapeError,
        r"tma\.element_stride: .* is 9; .*; nearest: 8",
        {"element_strides": (1, 8)},
    ),
    (
        {"mode": SWIZZLE_MODES["128B_ATOM_32B"]},
        UnsupportedError,
        r"tma\.mode: .*; nearest: 128B",
        {"mode": SWIZZLE_MODES["128B"]},
    ),
    (
        {"element": dtype("e4m3"), "nan_fill": True},
        ShapeError,
        r"tma\.nan_fill: .*; nearest: fill with 0",
        {"element": dtype("e4m3"), "nan_fill": False},
    ),
    ({"element": dtype("c128")}, UnsupportedError, r"tma\.element: .*; nearest: f64, 2 for each", {}),
    (
        {"dims": (Const(64),) * 6, "strides_bytes": (Const(128),) * 5, "box": (64, 1, 1, 1, 1, 1)},
        ShapeError,
        r"tma\.rank: .* 6 leaves; .* 1 to 5; nearest: merge contiguous leaves",
        {"dims": (Const(64),) * 5, "strides_bytes": (Const(128),) * 4, "box": (64, 1, 1, 1, 1)},
    ),
    (
        {"box": (256, 256), "element": dtype("f32"), "mode": SWIZZLE_MODES["none"]},
        ShapeError,
        r"tma\.shared_size: .* 262144 bytes; .*; nearest: 227 along leaf 1",
        {"box": (256, 227), "element": dtype("f32"), "mode": SWIZZLE_MODES["none"]},
    ),
]
"""What a map is changed to, the error, its text, and the nearest change, which is legal."""


@pytest.mark.parametrize(("changed", "error", "said", "nearest"), RULES, ids=lambda x: str(x)[:20])
def test_a_broken_rule_is_refused_with_the_nearest_change(
    changed: dict[str, Any], error: type[LayoutAlgError], said: str, nearest: dict[str, Any]
) -> None:
    check_maps(mapped(), HOPPER)
    with pytest.raises(error, match=f"tensor map map_x of .*{said}"):
        check_maps(mapped(**changed), HOPPER)
    check_maps(mapped(**nearest), HOPPER)


def test_a_pointer_of_few_bytes_is_refused() -> None:
    kernel = mapped()
    (m,) = kernel.maps
    source = replace(m.source, align_bytes=8)
    changed = replace(kernel, params=(*kernel.params[:3], source), maps=(replace(m, source=source),))
    with pytest.raises(AlignmentError, match=r"tma\.global_base: .* 8 bytes; .*; nearest: 16 bytes"):
        check_maps(changed, HOPPER)


def test_a_map_is_of_parameters_alone() -> None:
    kernel = mapped()
    with pytest.raises(IRError, match="map_x is a map of x, no parameter of k"):
        check_maps(replace(kernel, params=kernel.params[:3]), HOPPER)
    with pytest.raises(IRError, match="map_x has other, and may use parameters only"):
        check_maps(mapped(dims=(Var("other", 9, "param", 1), as_expr(8))), HOPPER)


def test_what_is_left_to_the_parameters_is_a_condition_of_the_launch() -> None:
    said = [str(c) for c in map_conditions(mapped())]
    assert said == ["ld % 8 == 0", "ld * 2 <= 1099511627775", "1 <= n", "n <= 4294967296"]
    assert list(map_conditions(copy_program(Boxes((40, 9), (64, 8))))) == []
    assert [str(c) for c in contract(mapped()).conditions] == said
    with pytest.raises(AlignmentError, match=r"map_x has a stride of .* bytes; multiples of 16"):
        list(map_conditions(mapped(strides_bytes=(mapped().params[2] * 16 + 8,))))  # type: ignore[operator]


def test_a_map_is_said_in_words() -> None:
    changed = {"element_strides": (1, 2), "nan_fill": True, "l2_promotion_bytes": 128}
    assert list(lines(contract(mapped(**changed))))[-2:] == [
        "Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:",
        "  map_x  f16 of x: dims (n, m), strides (ld * 2) bytes, box (64, 8), element strides (1, 2), "
        "swizzle 128B, L2 promotion 128 bytes, NaN outside",
    ]


def test_clusters_are_of_architectures_that_have_them() -> None:
    two = replace(KernelBuilder("k", threads=32).build(), cluster=(2, 1, 1))
    check_cluster(two, HOPPER)
    with pytest.raises(UnsupportedError, match="needs clusters, of sm_90 and later; sm_80 has clusters of"):
        check_cluster(two, find_arch("A100"))
    with pytest.raises(UnsupportedError, match="tensor maps, of sm_90 and later; sm_89 has copies by cp"):
        check_cluster(mapped(), find_arch("sm_89"))
    with pytest.raises(ResourceError, match="blocks per cluster of k: 32 asked, the limit is 16"):
        check_cluster(replace(two, cluster=(4, 4, 2)), HOPPER)
    for wrong in ((0, 1, 1), (2, 1), (True, 1, 1)):
        with pytest.raises(ShapeError, match="three positive ints are needed"):
            check_cluster(replace(two, cluster=wrong), HOPPER)  # type: ignore[arg-type]
