"""The simulator runs what is written, in blocks and warp by warp; arguments that do not fit are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import errors
from layoutalg.codegen import instr as isa
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.layout import Layout
from tests.sweeps import each
from tests.tiles.simt import WAYS, copy_through_shared, floats

BOTH = pytest.mark.parametrize("way", WAYS, ids=str)


INCREMENT = isa.Instr(
    "increment", (isa.Operand("d", "inout", 1),), "", lambda machine, group, d: d + numpy.uint32(1)
)


# --- programs ------------------------------------------------------------------------------------------


def _saxpy() -> Kernel:
    """y[i] = x[i] for i < n, in blocks of 64, two dimensions of blocks."""
    k = KernelBuilder("edges", 64)
    n = k.param("n", 1 << 20)
    x, y = k.pointer("x", 2), k.pointer("y", 2, writable=True)
    half = (n + 127) // 128
    i = k.let("i", (k.block(1, 2) * half + k.block(0, half)) * 64 + k.tid)
    v = k.reg("v", 1)
    with k.If(i < n):
        k.do(isa.LDG[2], v, k.at(x, i))
        k.do(isa.STG[2], k.at(y, i), v)
    return k.build()


@given(st.integers(1, 700), st.sampled_from(WAYS))
def test_ragged_edges(n: int, way: dict[str, Any]) -> None:
    x = numpy.arange(n, dtype=numpy.uint16) + 1
    y = numpy.zeros(n, dtype=numpy.uint16)
    run = simulate(_saxpy(), {"n": n, "x": x, "y": y}, **way)
    assert (x == y).all()
    assert run.grid == (-(-n // 128), 2, 1)
    assert sum(run.executed["ldg16"]) == -(-n // 32), "a warp with no active lane does not execute"


def test_chosen_blocks() -> None:
    x, y = numpy.ones(300, dtype=numpy.uint16), numpy.zeros(300, dtype=numpy.uint16)
    run = simulate(_saxpy(), {"n": 300, "x": x, "y": y}, blocks=[(1, 0, 0), (0, 1, 0)])
    assert run.blocks == 2
    assert numpy.flatnonzero(y).tolist() == [*range(64, 128), *range(192, 256)]
    with pytest.raises(errors.ShapeError, match=re.escape("block (3, 0, 0) is not in the grid (3, 2, 1)")):
        simulate(_saxpy(), {"n": 300, "x": x, "y": y}, blocks=[(3, 0, 0)])


@BOTH
def test_branches_and_a_loop_whose_lanes_disagree(way: dict[str, Any]) -> None:
    """Each lane runs its own branch and number of iterations; a warp without any lane does not execute."""
    k = KernelBuilder("branches", 64)
    y, v = k.pointer("y", 4, writable=True), k.reg("v", 1)
    with k.If(k.tid % 2 < 1):
        with k.If(k.tid < 40):
            k.do(isa.fill(1), v, 10)
        with k.Else():
            k.do(isa.fill(1), v, 20)
    with k.Else():
        k.do(isa.fill(1), v, 30)
    with k.For("kt", k.tid % 5):
        k.do(INCREMENT, v)
    with k.If(k.tid < 32), k.For("kt", k.tid // 32 + 3):
        k.do(isa.WARP_SYNC)
    k.do(isa.STG[4], k.at(y, k.tid), v)
    got = numpy.zeros(64, dtype=numpy.uint32)
    run = simulate(k.build(), {"y": got}, **way)
    assert got.tolist() == [(30 if t % 2 else 10 if t < 40 else 20) + t % 5 for t in range(64)]
    assert run.executed["increment"] == (4, 4) and run.executed["warp_sync"] == (3, 0)


@BOTH
def test_a_barrier_in_a_loop_whose_lanes_disagree(way: dict[str, Any]) -> None:
    k = KernelBuilder("loop", 64)
    with k.For("kt", k.tid // 32 + 1):
        k.do(isa.BAR)
    with pytest.raises(errors.SimulationError, match=r"thread 0 does not reach|warp 1 waits .*, warp 0 has"):
        simulate(k.build(), {}, **way)


@BOTH
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_pipeline_of_asynchronous_copies(stages: int, way: dict[str, Any]) -> None:
    """Tiles of 64 x 16 bytes travel through a ring of stages; each thread reads its neighbour's 16 bytes."""
    tiles = 5
    k = KernelBuilder("pipeline", 64)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    ring = k.shared_buffer("ring", 4, Layout((256, stages)), 256 * stages, 16)
    v = k.reg("v", 4)
    for stage in range(stages - 1):
        k.do(isa.CP_ASYNC[16], k.at(ring, k.tid * 4, stage), k.at(x, stage * 256 + k.tid * 4))
        k.do(isa.CP_COMMIT)
    with k.For("kt", tiles) as kt:
        ahead = kt + (stages - 1)
        with k.If(ahead < tiles):
            k.do(isa.CP_ASYNC[16], k.at(ring, k.tid * 4, ahead % stages), k.at(x, ahead * 256 + k.tid * 4))
        k.do(isa.CP_COMMIT)
        k.do(isa.CP_WAIT, stages - 1)
        k.do(isa.BAR)
        k.do(isa.LDS[16], v, k.at(ring, (k.tid ^ 33) * 4, kt % stages))
        k.do(isa.STG[16], k.at(y, kt * 256 + k.tid * 4), v)
        k.do(isa.BAR)
    x_in, y_out = floats(256 * tiles), numpy.zeros(256 * tiles, dtype=numpy.float32)
    simulate(k.build(), {"x": x_in, "y": y_out}, **way)
    want = x_in.reshape(tiles, 64, 4)[:, [t ^ 33 for t in range(64)]].reshape(-1)
    assert (y_out == want).all()


@BOTH
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_every_width_moves_its_bytes(width: int, way: dict[str, Any]) -> None:
    k = KernelBuilder("widths", 64)
    x, y = k.pointer("x", width), k.pointer("y", width, writable=True)
    tile = k.shared_buffer("tile", width, Layout((64,)), 64, 16)
    v, w = k.reg("v", max(1, width // 4)), k.reg("w", max(1, width // 4))
    k.do(isa.LDG[width], v, k.at(x, k.tid))
    k.do(isa.STS[width], k.at(tile, k.tid), v)
    k.do(isa.BAR)
    k.do(isa.LDS[width], w, k.at(tile, k.tid ^ 63))
    k.do(isa.STG[width], k.at(y, k.tid), w)
    raw = numpy.random.default_rng(0).integers(0, 256, (64, width), dtype=numpy.uint8)
    got = numpy.zeros_like(raw)
    simulate(k.build(), {"x": raw, "y": got}, **way)
    assert (got == raw[::-1]).all()


def test_offsets_past_32_bits(tmp_path: Path) -> None:
    """Lanes 2^28 bytes apart, in a file that is nearly all hole."""
    k = KernelBuilder("far", 32)
    ld = k.param("ld", 1 << 40)
    x, y = k.pointer("x", 1, (ld, 1)), k.pointer("y", 1, writable=True)
    v = k.reg("v", 1)
    k.do(isa.LDG[1], v, k.at(x, k.tid, 0))
    k.do(isa.STG[1], k.at(y, k.tid), v)
    step = 1 << 28
    far = numpy.memmap(tmp_path / "far", numpy.uint8, "w+", shape=(31 * step + 1,))
    far[::step] = numpy.arange(1, 33)
    near = numpy.zeros(32, dtype=numpy.uint8)
    simulate(k.build(), {"ld": step, "x": far, "y": near})
    assert near.tolist() == list(range(1, 33))
    with pytest.raises(
        errors.SimulationError, match=f"reads bytes {step * 32} to {step * 32} of x, which has"
    ):
        simulate(k.build(), {"ld": step * 2, "x": far, "y": near})


# --- waiting -------------------------------------------------------------------------------------------


def _flag_program(warp0: str, warp1: str) -> Kernel:
    """y += 1, then a warp that awaits the flag needs the other one to raise it."""
    raised: list[bool] = []
    todo = {
        "await": isa.Instr(
            "await", (), "", lambda machine, group: None, ready=lambda machine, group: any(raised)
        ),
        "raise": isa.Instr("raise", (), "", lambda machine, group: raised.append(True)),
    }
    k = KernelBuilder("flag", 64)
    y = k.pointer("y", 4, writable=True)
    v = k.reg("v", 1)
    k.do(isa.LDG[4], v, k.at(y, k.tid))
    k.do(INCREMENT, v)
    k.do(isa.STG[4], k.at(y, k.tid), v)
    with k.If(k.tid < 32):
        k.do(todo[warp0])
    with k.Else():
        k.do(todo[warp1])
    return k.build()


def test_what_looks_dead_in_lockstep_is_run_again_warp_by_warp() -> None:
    y = numpy.full(64, 7, dtype=numpy.uint32)
    assert simulate(_flag_program("await", "raise"), {"y": y}).group == "warp"
    assert (y == 8).all(), "the second run starts from the arguments as they were given"
    assert simulate(_flag_program("raise", "await"), {"y": y}).group == "block"


@BOTH
def test_a_deadlock_names_who_waits_where(way: dict[str, Any]) -> None:
    said = r"^deadlock in block \(0, 0, 0\): .*; warp 0 waits at 'await\(\)', warp 1 waits at 'await\(\)'$"
    with pytest.raises(errors.SimulationError, match=said) as caught:
        simulate(_flag_program("await", "await"), {"y": numpy.zeros(64, dtype=numpy.uint32)}, **way)
    assert caught.value.statement == "'await()'"


# --- arguments -----------------------------------------------------------------------------------------


def _sized() -> Kernel:
    k = KernelBuilder("sized", 32)
    n = k.param("n", 64, least=8, multiple=4)
    k.pointer("x", 4, (n, 1))
    k.pointer("y", 4, (n, 1), writable=True)
    return k.build()


X, Y = numpy.zeros(64, dtype=numpy.float32), numpy.zeros(64, dtype=numpy.float32)
FROZEN = numpy.zeros(64, dtype=numpy.float32)
FROZEN.flags.writeable = False

REFUSED: dict[str, tuple[dict[str, Any], type[errors.LayoutAlgError], str]] = {
    "missing": ({"n": 8, "x": X}, errors.ArgumentTypeError, "sized needs the argument y"),
    "unknown": ({"n": 8, "x": X, "y": Y, "z": 1}, errors.UnknownNameError, "unknown argument of sized 'z'"),
    "too small": ({"n": 4, "x": X, "y": Y}, errors.ShapeError, "n = 4: .* 8 <= n <= 64"),
    "too large": ({"n": 68, "x": X, "y": Y}, errors.ShapeError, "n = 68: .* 8 <= n <= 64"),
    "no multiple": ({"n": 10, "x": X, "y": Y}, errors.ShapeError, "n = 10: .*, multiples of 4"),
    "no int": ({"n": 8.0, "x": X, "y": Y}, errors.ArgumentTypeError, "n of sized is 8.0; an int is needed"),
    "a bool": ({"n": True, "x": X, "y": Y}, errors.ArgumentTypeError, "an int is needed"),
    "no array": ({"n": 8, "x": [1], "y": Y}, errors.ArgumentTypeError, "x of sized is a list"),
    "objects": ({"n": 8, "x": numpy.array([None]), "y": Y}, errors.ArgumentTypeError, "of numbers is needed"),
    "wide": ({"n": 8, "x": X.astype(float), "y": Y}, errors.ArgumentTypeError, "has elements of 8 bytes"),
    "ragged bytes": ({"n": 8, "x": numpy.zeros(7, numpy.uint8), "y": Y}, errors.ArgumentTypeError, "7 in"),
    "strided": ({"n": 8, "x": X[::2], "y": Y}, errors.ArgumentTypeError, "x of sized is not C-contiguous"),
    "frozen": ({"n": 8, "x": X, "y": FROZEN}, errors.ArgumentTypeError, "y of sized is written"),
    "overlap": ({"n": 8, "x": X[:32], "y": X[16:48]}, errors.ArgumentTypeError, "y of sized .* overlaps x"),
}  # fmt: skip


@each("case", REFUSED)
def test_arguments_that_do_not_fit(case: str) -> None:
    args, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        simulate(_sized(), args)


def test_options_of_a_run() -> None:
    simulate(_sized(), {"n": numpy.int64(8), "x": FROZEN, "y": numpy.zeros(64, dtype=numpy.uint8)})
    for option, said in ({"group": "lane"}, "unknown group 'lane'"), ({"arch": "sm_9000"}, "sm_9000"):
        with pytest.raises(errors.UnknownNameError, match=said):
            simulate(_sized(), {"n": 8, "x": X, "y": Y}, **option)  # type: ignore[arg-type]
    with pytest.raises(errors.UnsupportedError, match="trace=False"):
        _ = simulate(_sized(), {"n": 8, "x": X, "y": Y}, trace=False).trace


def test_all_ways_agree_on_what_was_executed() -> None:
    runs, y = [], numpy.zeros(128, dtype=numpy.float32)
    for way in WAYS:
        runs.append(simulate(copy_through_shared(128, mirror=127), {"x": floats(128), "y": y}, **way))
        assert (y == floats(128)[::-1]).all()
        assert (runs[-1].grid, runs[-1].blocks, runs[-1].group) == ((1, 1, 1), 1, way["group"])
        y[:] = 0
    names = "ldg32", "sts32", "block_sync", "lds32", "stg32"
    assert all(run.executed == dict.fromkeys(names, (1,) * 4) for run in runs)
    assert len({run.trace.totals() for run in runs}) == 1
