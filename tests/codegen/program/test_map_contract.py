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
from tests.tiles.boxes import Boxes, copy_program, ring_program


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
    for more, is_inside in ((128, True), (0, False)):
        moved = replace(tile, size_bytes=tile.size_bytes + more)
        bar = replace(kernel.barriers[0], offset_bytes=moved.size_bytes)
        body = tuple(_changed(s, {tile: moved}, bar, 128) for s in kernel.body)
        changed = replace(kernel, shared=(moved,), barriers=(bar,), body=body)
        if is_inside:
            check(changed)
        else:
            with pytest.raises(IRError, match=r"bounds: .* leaves its buffer .* 128 to 1151 of tile"):
                check(changed)


def _changed(s: Any, buffers: dict[program.Shared, program.Shared], bar: program.Mbarrier, start: int) -> Any:
    """A statement with other declarations, its places so many bytes later."""
    if isinstance(s, program.If):
        return replace(s, body=tuple(_changed(inner, buffers, bar, start) for inner in s.body))
    args: list[Any] = []
    for arg in s.args:
        if isinstance(arg, program.MemRef) and isinstance(arg.buffer, program.Shared):
            arg = replace(arg, buffer=buffers[arg.buffer], index=arg.index + start, tensor=None)
        elif isinstance(arg, program.BarrierRef):
            arg = replace(arg, barrier=bar)
        args.append(arg)
    return replace(s, args=tuple(args))


def test_a_tensor_that_tma_loads_and_stores_is_updated_in_place() -> None:
    kernel = copy_program(Boxes((40, 9), (64, 8)))
    assert not program.contract(kernel).in_place
    _, dst = kernel.maps
    *first, start = kernel.body
    assert isinstance(start, program.If)
    expect, load, *rest = start.body
    assert isinstance(load, program.Do)
    changed = replace(load, args=(load.args[0], dst, *load.args[2:]))
    body = (*first, replace(start, body=(expect, changed, *rest)))
    assert program.contract(replace(kernel, body=body)).in_place


def test_rows_that_end_inside_a_chunk_are_said_to_be_written_whole() -> None:
    for dims, chunks in (((40, 9), ()), ((41, 9), ("dst",)), ((7,), ("dst",)), ((8,), ())):
        terms = program.contract(copy_program(Boxes(dims, (64, 8)[: len(dims)])))
        assert terms.in_chunks == chunks
        assert any("rows of dst in chunks of 16 bytes" in line for line in lines(terms)) == bool(chunks)
    assert program.contract(ring_program()).in_chunks == ()
