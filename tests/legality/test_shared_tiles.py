"""shared_tiles: what CuTe's expression makes, bijective, legal, and filled by the boxes that are counted."""

from __future__ import annotations

import random

import pytest

import layoutalg as la
from layoutalg.errors import ShapeError, UnknownNameError
from layoutalg.layout import product
from layoutalg.legality import check_wgmma, shared_tiles
from layoutalg.source import evaluate
from tests.command import answer, refusal, run

USUAL = [(64, 64), (128, 64), (128, 128), (256, 64), (128, 32), (64, 256), (192, 64), (512, 64)]


def _cases() -> list[tuple[tuple[int, int], str, str]]:
    rng = random.Random("shared tiles")
    some = [(8 * rng.randint(1, 40), 8 * rng.randint(1, 24)) for _ in range(12)]
    return [
        (shape, element, major)
        for shape in [*USUAL, *some]
        for element, major in (("bf16", "K"), ("f16", "MN"), ("tf32", "K"), ("e4m3", "K"))
    ]


@pytest.mark.deep
def test_every_tile_is_bijective_legal_and_what_cute_makes() -> None:
    served = 0
    for shape, element, major in _cases():
        try:
            tiles = shared_tiles(shape, element, major=major)  # type: ignore[arg-type]  # K or MN
        except ShapeError:
            assert shape not in USUAL, (shape, element)
            continue
        widths = [tile.mode.row_bytes for tile in tiles]
        assert widths == sorted(widths, reverse=True)
        tile = tiles[0]
        served += 1
        bits = la.dtype.dtype(element).bits
        assert la.is_bijective(tile.layout) and la.size(tile.layout) == product(shape)
        assert tile.box is not None and tile.copy is not None
        assert product(tile.box) * tile.boxes == product(shape)
        assert tile.copy.transaction_bytes * tile.boxes == product(shape) * bits // 8
        for operand in tile.operands:
            assert check_wgmma(tile.layout, element, operand.operand, major=major).legal  # type: ignore[arg-type]
    assert served > 40


def test_the_expression_is_the_layout() -> None:
    for shape, dtype, order in (
        ("128x64", "bf16", "row"),
        ("(128,128)", "f16", "col"),
        ("64,64", "tf32", "row"),
    ):
        found = answer("synthesize", shape, "--dtype", dtype, "--order", order, "--for", "wgmma,tma")
        for tile in found["tiles"]:
            assert la.same_function(evaluate(tile["cute"]), evaluate(tile["layout"])), tile


def test_the_answer_of_the_hopper_question() -> None:
    lines = run("synthesize", "(128,64)", "--dtype", "bf16", "--for", "wgmma,tma").stdout.splitlines()
    assert lines[:3] == [
        "Sw<3,3,3> o 0 o (128,64):(64,1)",
        "tile_to_shape(GMMA::Layout_K_SW128_Atom<bfloat16_t>{}, make_shape(Int<128>{}, Int<64>{}))",
        "TMA: swizzle 128B, 1 box of (64,128) in the tensor map, innermost first, 16,384 bytes each",
    ]
    with_reads = answer(
        "synthesize", "(128,64)", "--dtype", "bf16", "--for", "tma", "--access", "ld.shared.b128@row"
    )
    totals = [tile["accesses"][0]["total"] for tile in with_reads["tiles"]]
    assert totals == sorted(totals) and not with_reads["tiles"][0]["wgmma"]


def test_what_no_mode_serves_is_said() -> None:
    none = answer("synthesize", "128x64", "--dtype", "tf32", "--order", "col", "--for", "wgmma", exit_code=1)
    assert none["tiles"] == [] and "operand B of tf32 is MN-major" in none["refusal"]
    assert refusal("synthesize", "128x64x2", "--for", "tma")[0] == "ShapeError"
    with pytest.raises(UnknownNameError, match="accepted are tma, wgmma"):
        shared_tiles((128, 64), "f16", ("ldmatrix",))
    with pytest.raises(ShapeError, match=r"128B multiples of \(8,64\)"):
        shared_tiles((12, 64), "f16")
