"""tcgen05: shapes that there are, where accumulators lie in tensor memory, and who has what after a load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layoutalg.arch import (
    ARCHS,
    TCGEN05_KINDS,
    TENSOR_CORES,
    find_copy_atom,
    tmem_accumulator,
    tmem_columns,
)
from layoutalg.atoms import COPY_ATOMS, require_atom, tmem_load_tv
from layoutalg.decide import image_size, is_bijective, is_injective
from layoutalg.errors import DivisibilityError, UnsupportedError
from layoutalg.layout import size
from layoutalg.registers import fragment, reduction_of, reduction_plans
from tests.draws.fragments import wgmma
from tests.sweeps import each


def test_shapes_are_those_of_the_table() -> None:
    """M and N that one CTA and two accept, of each kind; 256 bits along K."""
    steps = {step: tuple(range(step, 257, step)) for step in (8, 16, 32)}
    for kind in TCGEN05_KINDS.values():
        assert kind.rows(2) == (128, 256) and kind.rows() == ((128,) if kind.blocks else (64, 128))
        assert kind.rows(ws=True) == (() if kind.blocks else (32, 64, 128)) and kind.rows(2, ws=True) == ()
        if kind.name != "i8":
            assert (kind.columns(), kind.columns(2)) == (steps[8], steps[16])
        byte = kind.k == 32
        assert kind.columns(b_major="MN") == steps[16 if byte else 8]
        assert kind.columns(2, b_major="MN") == steps[32 if byte else 16]
    i8 = TCGEN05_KINDS["i8"]
    assert (i8.columns(), i8.columns(2)) == ((8, 16, 24, *range(32, 257, 16)), steps[32])
    bits = {"tf32": 32, "f16": 16, "mxf4": 4, "mxf4nvf4": 4}
    assert {k.k * bits.get(k.name, 8) for k in TCGEN05_KINDS.values()} == {256}


@each(
    ("m", "ctas", "ws", "letter", "rows", "lanes"),
    [
        (128, 1, False, "D", 128, 128), (64, 1, False, "F", 64, 64), (64, 1, True, "E", 64, 128),
        (32, 1, True, "G", 32, 128), (256, 2, False, "A", 128, 128), (128, 2, False, "B", 64, 128),
    ],
)  # fmt: skip
def test_every_element_has_a_place_in_tensor_memory(
    m: int, ctas: int, ws: bool, letter: str, rows: int, lanes: int
) -> None:
    found, layout = tmem_accumulator(m, 128, ctas=ctas, ws=ws)
    assert (found, size(layout)) == (letter, rows * 128) and is_injective(layout)
    assert tmem_columns(layout) == rows * 128 // lanes
    assert len({layout(i) % 128 for i in range(size(layout))}) == lanes
    if letter == "F":  # rows 16 w of warp w
        assert [layout(r, 0) for r in (0, 15, 16, 63)] == [0, 15, 32, 111]
    if letter == "E":
        assert (layout(3, 63), layout(3, 64)) == (3 + 128 * 63, 67)


@each("shape", ["32x32b", "16x64b", "16x128b", "16x256b"])
def test_loads_read_each_element_once_as_documented(shape: str) -> None:
    """The register of (lane, r): the published formula of each shape, beside the atom of CUTLASS's name."""
    formulas: dict[str, Callable[[int, int], tuple[int, int]]] = {
        "32x32b": lambda lane, r: (lane, r),
        "16x64b": lambda lane, r: (lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * r),
        "16x128b": lambda lane, r: (lane // 4 + 8 * (r % 2), lane % 4 + 4 * (r // 2)),
        "16x256b": lambda lane, r: (lane // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (lane % 4) + 8 * (r // 4)),
    }
    formula = formulas[shape]
    lanes, bits = map(int, shape.removesuffix("b").split("x"))
    for repeat in (1, 2, 8):
        atom = find_copy_atom(f"SM100_TMEM_LOAD_{lanes}dp{bits}b{repeat}x")
        held, columns = atom.bits_as("dst", 32), bits * repeat // 32
        for lane in range(32):
            for r in range(size(held) // 32):
                row, column = formula(lane, r)
                assert held(lane, r) == row * columns + column, (atom, lane, r)
    for m in (64, 128):
        if lanes == 32 and m == 64:
            continue
        tv = tmem_load_tv(m, 64, shape)
        assert is_bijective(tv) and image_size(tv) == m * 64
        if m == 128:  # warp w holds rows 32 w to 32 w + 31 alone
            assert all(tv(t, v) % m // 32 == t // 32 for t in range(0, 128, 7) for v in range(64))


def test_what_16x256b_leaves_in_registers_is_wgmmas_accumulator() -> None:
    assert tmem_load_tv(64, 96, "16x256b") == wgmma(96)


def test_a_row_of_an_accumulator_is_in_one_thread_or_in_four() -> None:
    row, core = (fragment(tmem_load_tv(128, 64, shape), (128, 64)) for shape in ("32x32b", "16x256b"))
    assert reduction_of(row, along="n").shuffles == 0
    assert reduction_of(core, along="n").shuffles == 8
    assert reduction_plans(row, along="n")[0].cycles < reduction_plans(core, along="n")[0].cycles


def test_atoms_of_tensor_memory_are_of_sm_100() -> None:
    names = [name for name in COPY_ATOMS if "TMEM" in name]
    assert len(names) == 2 * (8 + 8 + 7 + 6)
    for machine in ("sm_100", "sm_103"):
        require_atom(find_copy_atom(names[0]), ARCHS[machine])
    for machine in ("sm_90", "sm_120"):
        with pytest.raises(UnsupportedError, match="needs sm_100"):
            require_atom(find_copy_atom(names[0]), ARCHS[machine])


@each(
    ("error", "part", "call"),
    [
        (UnsupportedError, "one CTA has 64 or 128", lambda: tmem_accumulator(256, 128)),
        (DivisibilityError, "reads 8 columns", lambda: tmem_load_tv(128, 12, "16x256b")),
    ],
)
def test_what_there_is_not_is_refused(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=part):
        call()


def test_tensor_cores_reach_the_stated_rate_at_the_boards_clock() -> None:
    """Boost clocks of the data sheets, in MHz."""
    boost = {"sm_70": 1530, "sm_75": 1590, "sm_80": 1410, "sm_89": 2520, "sm_90": 1830, "sm_100": 1850}
    for name, cores in TENSOR_CORES.items():
        board = ARCHS[name].board
        assert board is not None
        clock = cores.clock_hz(board)
        assert clock is not None and abs(clock / 1e6 / boost[name] - 1) < 0.02, (name, clock)
    assert [cores.per_sm for cores in TENSOR_CORES.values()] == [8, 8, 4, 4, 4, 4]
