"""Tensor maps of a contract: what is left to the parameters, and how a map is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.arch import SWIZZLE_MODES
from layoutalg.codegen import program
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.launch_contract import lines
from layoutalg.dtype import dtype
from layoutalg.errors import IRError
from tests.mutants import planting
from tests.tiles.boxes import Boxes, copy_program, ring_program
from tests.tiles.edits import edited, operand


def mapped(**changed: Any) -> program.Kernel:
    """A kernel with one map, of a tensor whose rows are `ld` elements apart."""
    k = KernelBuilder("k", threads=32)
    m, n, ld = k.param("m", 1 << 20, 1), k.param("n", 1 << 34, 0), k.param("ld", 1 << 40, 8, multiple=8)
    x = k.pointer("x", 2, (ld, 1))
    given: dict[str, Any] = {
        "dims": (n, m), "strides_bytes": (ld * 2,), "box": (64, 8), "mode": SWIZZLE_MODES["128B"],
    }  # fmt: skip
    one = program.TensorMapParam("map_x", x, element=dtype("f16"), **given)
    return replace(k.build(), maps=(replace(one, **changed),))


def test_what_is_left_to_the_parameters_is_a_condition_of_the_launch() -> None:
    said = [str(c) for c in program.contract(mapped()).conditions]
    assert said == ["ld * 2 <= 1099511627775", "1 <= n", "n <= 4294967296"]
    assert program.contract(copy_program(Boxes((40, 9), (64, 8)))).conditions == ()


def test_a_map_is_said_in_words() -> None:
    changed = {"element_strides": (1, 2), "nan_fill": True, "l2_promotion_bytes": 128}
    assert list(lines(program.contract(mapped(**changed))))[-2:] == [
        "Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:",
        "  map_x  f16 of x: dims (n, m), strides (ld * 2) bytes, box (64, 8), element strides (1, 2), "
        "swizzle 128B, L2 promotion 128 bytes, NaN outside",
    ]


def test_a_box_ends_inside_of_its_buffer() -> None:
    """However small it is, and wherever it starts."""
    check(copy_program(Boxes((1,), (16,), "u8")))
    kernel = copy_program(Boxes((40, 9), (64, 8)))
    (tile,) = kernel.shared
    for more in (128, 0):
        moved = replace(tile, size_bytes=tile.size_bytes + more)
        bar = replace(kernel.barriers[0], offset_bytes=moved.size_bytes)

        def later(s: Any, moved: Any = moved, bar: Any = bar) -> Any:
            if not isinstance(s, program.Do):
                return (s,)
            args: list[Any] = []
            for arg in s.args:
                if isinstance(arg, program.MemRef) and arg.buffer == tile:
                    arg = replace(arg, buffer=moved, index=arg.index + 128, tensor=None)
                args.append(replace(arg, barrier=bar) if isinstance(arg, program.BarrierRef) else arg)
            return (replace(s, args=tuple(args)),)

        changed = replace(planting.rewrite(kernel, later), shared=(moved,), barriers=(bar,))
        if more:
            check(changed)
        else:
            with pytest.raises(IRError, match=r"bounds: .* leaves its buffer .* 128 to 1151 of tile"):
                check(changed)


def test_a_tensor_that_tma_loads_and_stores_is_updated_in_place() -> None:
    kernel = copy_program(Boxes((40, 9), (64, 8)))
    assert not program.contract(kernel).updated
    assert program.contract(edited(kernel, operand("tma_load", 1, kernel.maps[1]))).updated


def test_rows_that_end_inside_a_chunk_are_said_to_be_written_whole() -> None:
    for dims, chunks in (((40, 9), ()), ((41, 9), ("dst",)), ((7,), ("dst",)), ((8,), ())):
        terms = program.contract(copy_program(Boxes(dims, (64, 8)[: len(dims)])))
        assert terms.in_chunks == chunks
        assert any("rows of dst in chunks of 16 bytes" in line for line in lines(terms)) == bool(chunks)
    assert program.contract(ring_program()).in_chunks == ()
