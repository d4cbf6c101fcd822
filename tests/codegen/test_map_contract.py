"""Tensor maps of a contract: what is left to the parameters, and how a map is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from layoutalg.arch import SWIZZLE_MODES
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, TensorMapParam, contract
from layoutalg.codegen.program.launch_contract import lines
from layoutalg.dtype import dtype
from tests.tma_programs import Boxes, copy_program


def mapped(**changed: Any) -> Kernel:
    """A kernel with one map, of a tensor whose rows are `ld` elements apart."""
    k = KernelBuilder("k", threads=32)
    m, n, ld = k.param("m", 1 << 20, 1), k.param("n", 1 << 34, 0), k.param("ld", 1 << 40, 8, multiple=8)
    x = k.pointer("x", 2, (ld, 1))
    given: dict[str, Any] = {
        "dims": (n, m), "strides_bytes": (ld * 2,), "box": (64, 8), "mode": SWIZZLE_MODES["128B"],
    }  # fmt: skip
    one = TensorMapParam("map_x", x, element=dtype("f16"), **given)
    return replace(k.build(), maps=(replace(one, **changed),))


def test_what_is_left_to_the_parameters_is_a_condition_of_the_launch() -> None:
    said = [str(c) for c in contract(mapped()).conditions]
    assert said == ["ld * 2 <= 1099511627775", "1 <= n", "n <= 4294967296"]
    assert contract(copy_program(Boxes((40, 9), (64, 8)))).conditions == ()


def test_a_map_is_said_in_words() -> None:
    changed = {"element_strides": (1, 2), "nan_fill": True, "l2_promotion_bytes": 128}
    assert list(lines(contract(mapped(**changed))))[-2:] == [
        "Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:",
        "  map_x  f16 of x: dims (n, m), strides (ld * 2) bytes, box (64, 8), element strides (1, 2), "
        "swizzle 128B, L2 promotion 128 bytes, NaN outside",
    ]
