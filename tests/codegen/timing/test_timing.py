"""The time of a main loop: facts, steps of machine code, the scheduler's definition, and bounds beside it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen import timing
from layoutalg.codegen.gpu import Control, SassInstruction, parse_sass, prepare
from layoutalg.errors import CompileError, ParseError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm.launches import way
from layoutalg.kernels.gemm.times import SIMT_TILES, SM80_TILES
from tests.gpu import latency_probe
from tests.sweeps import each

LOAD = timing.LoopStep("LDS", "lsu", 4.0, 2, latency=23.0, write=0)
USE = timing.LoopStep("FFMA", "fma", 1.0, 4, waits=(0,))
MMA = timing.LoopStep("HMMA", "tensor", 8.0, 2)
BAR = timing.LoopStep("BAR", "branch", 0.0, 1, latency=20.0, kind="barrier")


# --- control words -------------------------------------------------------------------------------------


def test_encodings_are_read() -> None:
    (code,) = parse_sass("""
        .text.k:
        /*0000*/   HMMA.16816.F32 R4, R132.reuse, R136, R4 ;   /* 0x000000888404723c */
                                                               /* 0x044fea0000001804 */
        /*0010*/   NOP ;                                       /* 0x0000000000007918 */
                                                               /* 0x000fc00000000000 */
        /*0020*/   LDSM.16.M88.4 R180, [R200+0x11800] ;        /* 0x01180000c8b4783b */
                                                               /* 0x000e680000000200 */
    """)
    first, second = (i.control for i in code.instructions)
    assert first == Control(stall=5, waits=(2,))
    assert second == Control(stall=4, write=1) and code.padding[0].control
    assert parse_sass(".text.k:\n /*0000*/ EXIT ;")[0].instructions[0].control is None
    for stall in (0, 7, 15):
        word = stall | 1 << 4 | 3 << 5 | 4 << 8 | 0b100001 << 11
        assert Control.of(word << 41 | 0x123) == Control(stall, (0, 5), 3, 4)


# --- facts ---------------------------------------------------------------------------------------------


ROWS = json.loads(files("layoutalg.codegen.timing").joinpath(timing.FACTS).read_text())


def test_every_number_has_a_source() -> None:
    seen = [(row["arch"], row["what"]) for row in ROWS]
    assert len(set(seen)) == len(seen) and {arch for arch, _ in seen} == {"sm_75", "sm_80", "sm_90"}
    for row in ROWS:
        assert row["source"] and (row["provenance"] == "assumed" or row["source"] != "nothing states it")


def test_a_later_row_replaces_an_earlier_one() -> None:
    measured = {**ROWS[0], "value": 12, "provenance": "measured", "source": "a probe"}
    facts = timing.read_facts([*ROWS, measured])[measured["arch"]]
    assert facts.value(measured["what"]) == 12.0
    assert facts.fact("interval HMMA.1688.F16.X") is facts.fact("interval HMMA.1688")
    assert facts.fact("interval NOTHING.AT.ALL") is None


def read(**change: object) -> object:
    """Facts of a row with something else."""
    return timing.read_facts([{**ROWS[0], **change}])


BARE = [SassInstruction(0, "EXIT")]


@each(
    ("call", "error", "text"),
    [
        *((lambda value=value: read(value=value), ParseError, "positive") for value in (0, True, "1")),
        (lambda: read(provenance="guessed"), ParseError, "not a row"),
        (lambda: read(more=1), ParseError, "not a row"),
        (lambda: timing.find_facts("sm_75").value("wavefronts"), UnknownNameError, "number of sm_75"),
        (lambda: timing.find_facts("sm_86"), UnsupportedError, "no latencies of sm_86 .* sm_75"),
        (lambda: steps_of("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24"), UnsupportedError, "not timed"),
        (lambda: timing.loop_steps(BARE, timing.find_facts("sm_90")), UnsupportedError, "no control word"),
        (lambda: steps_of("EXIT", level="L3"), UnknownNameError, "level of memory"),
        (lambda: timing.simulate_loop([LOAD], 16, turns=10**6), ShapeError, "are the most"),
        *((lambda wrong=wrong: timing.simulate_loop([LOAD], **{"warps": 2, **wrong}), ShapeError, "positive")
          for wrong in ({"warps": 0}, {"blocks": 3}, {"turns": 3}, {"queue": 0}, {"l2_bytes": 0.0})),
    ],
)  # fmt: skip
def test_what_is_no_row_no_step_and_no_loop_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# --- steps ---------------------------------------------------------------------------------------------


def steps_of(*texts: str, arch: str = "sm_90", **given: object) -> tuple[timing.LoopStep, ...]:
    code = [SassInstruction(16 * i, text, control=Control(2, write=0)) for i, text in enumerate(texts)]
    return timing.loop_steps(code, timing.find_facts(arch), **given)  # type: ignore[arg-type]


def test_pipes_and_times_of_instructions() -> None:
    mma, ffma, imad, add, lds, ldsm, ldg, copy = steps_of(
        "HMMA.16816.F32 R4, R8, R2, R4", "FFMA R1, R2, R3, R1", "IMAD.WIDE R2, R3, 0x4, R4", "IADD3 R1, R2",
        "LDS.128 R4, [R2]", "LDSM.16.MT88.2 R4, [R2]", "LDG.E.64 R2, [R4]", "LDGSTS.E.BYPASS.128 [R1], [R2]",
    )  # fmt: skip
    assert [x.pipe for x in (mma, ffma, imad, add, lds)] == ["tensor", "fma", "fma", "alu", "lsu"]
    assert [x.interval for x in (mma, ffma, imad, add)] == [6.79, 1.01, 2.0, 2.0]
    assert (lds.interval, lds.latency, ldsm.interval) == (16.0, 26.38, 8.0)
    assert (ldg.far, ldg.bytes, ldg.latency) == (True, 256, 284.69)
    assert (copy.kind, copy.bytes, copy.interval, copy.write) == ("copy", 512, 16.0, 0)


def test_conflicts_and_levels_are_counted() -> None:
    waves = {"ldmatrix.x4": 32.0, "ld.shared.b128": 1.0}
    ldsm, lds, ldg = steps_of(
        "LDSM.16.M88.4 R4, [R2]", "LDS.128 R4, [R2]", "LDG.E R2, [R4]", arch="sm_75", wavefronts=waves,
        level="DRAM",
    )  # fmt: skip
    assert (ldsm.interval, ldsm.busy) == (4 * 32 * 2.0, 28 * 2.0)
    assert (lds.interval, lds.busy) == (4 * 4 * 2.0, 0.0)  # never less than the bytes take
    assert ldg.latency == 296.0
    commit, wait = steps_of("LDGDEPBAR", "DEPBAR.LE SB0, 0x2")
    assert (commit.kind, commit.write, wait.kind, wait.groups) == ("commit", None, "groups", 2)


# --- the scheduler, by hand ----------------------------------------------------------------------------


def test_a_warp_alone_waits_for_its_load() -> None:
    found = timing.simulate_loop([LOAD, USE], 1)
    assert found.cycles == 27.0  # 23 of the load, 4 of the sum's stall
    assert found.states["short scoreboard"] == pytest.approx((23 - 2) / 2)
    assert found.states["wait"] == pytest.approx((1 + 3) / 2) and found.cpi == 13.5
    far = timing.simulate_loop([replace(LOAD, far=True, latency=300.0), USE], 1).states
    assert far["long scoreboard"] > 140 and far["short scoreboard"] == 0


def test_warps_hide_latency_until_a_pipe_is_full() -> None:
    cycles = [timing.simulate_loop([LOAD, USE], warps).cycles / warps for warps in (1, 2, 4, 8)]
    assert cycles == sorted(cycles, reverse=True) and cycles[-1] == pytest.approx(4.0, rel=0.01)


def test_pipes_queues_and_the_l2_limit() -> None:
    """Also where an interval is no whole number."""
    found = timing.simulate_loop([replace(MMA, interval=6.75, stall=1)] * 4, 2)
    assert found.cycles == pytest.approx(4 * 2 * 6.75, rel=0.01)
    assert found.states["math pipe throttle"] > 0.8 * found.cpi
    states = timing.simulate_loop([replace(LOAD, interval=256.0, write=None)] * 4, 2, queue=2).states
    assert states["mio throttle"] > 0.9 * sum(states.values())
    load = replace(LOAD, stall=1, latency=200.0, far=True, bytes=512)
    found = timing.simulate_loop([load, *[replace(MMA, interval=1.0)] * 4, USE], 8, l2_bytes=16.0)
    assert found.cycles == pytest.approx(8 * 4 * 512 / 16, rel=0.02)
    assert timing.loop_bounds([load, USE], 8, l2_bytes=16.0).limiting == "l2"


def test_a_barrier_waits_for_all_warps_of_its_block_alone() -> None:
    together = timing.simulate_loop([MMA, MMA, BAR], 4)
    apart = timing.simulate_loop([MMA, MMA, BAR], 4, blocks=4)
    assert together.cycles > apart.cycles >= 64.0 and together.states["barrier"] > apart.states["barrier"]


def test_copies_in_flight_hide_their_latency() -> None:
    copy = timing.LoopStep("LDGSTS", "lsu", 4.0, 1, latency=300.0, kind="copy", far=True, bytes=512)
    commit = timing.LoopStep("LDGDEPBAR", "branch", 0.0, 1, kind="commit")
    wait = timing.LoopStep("DEPBAR", "branch", 0.0, 1, kind="groups")
    loops = [[copy, commit, replace(wait, groups=groups), *[MMA] * 10] for groups in (0, 1, 2, 5)]
    cycles = [timing.simulate_loop(loop, 1).cycles for loop in loops]
    assert cycles[0] > 300 + 70 and cycles[1] > 150 and cycles[3] == pytest.approx(80.0, rel=0.05)
    bounds = [timing.loop_bounds(loop, 1).least for loop in loops]
    assert all(bound <= cycle for bound, cycle in zip(bounds, cycles, strict=True))
    assert bounds[0] > 300 and bounds[1] > 150


# --- bounds, and the definition ------------------------------------------------------------------------


def drawn(rng: random.Random) -> list[timing.LoopStep]:
    """A random loop: arithmetic, loads of both kinds, stores, waits for what came before, some barriers."""
    loop: list[timing.LoopStep] = []
    for _ in range(rng.randint(2, 24)):
        waits = tuple(sorted(rng.sample(range(3), rng.choice((0, 0, 0, 1, 2)))))
        stall, way = rng.choice((1, 1, 2, 5)), rng.randrange(6)
        if way < 3:
            pipe, interval = rng.choice((("fma", 1.01), ("alu", 2.0), ("tensor", 6.75), ("xu", 8.0)))
            loop.append(timing.LoopStep(pipe, pipe, interval, stall, waits=waits))
        elif way < 5:
            far = rng.random() < 0.3
            loop.append(timing.LoopStep(
                "load", "lsu", float(rng.choice((4, 16, 40))), stall, float(rng.choice((19, 33, 263))),
                float(rng.choice((0, 12))), waits, rng.randrange(3), rng.choice((None, 1)), far=far,
                bytes=512 * far,
            ))  # fmt: skip
        else:
            loop.append(
                replace(BAR, waits=waits) if rng.random() < 0.3 else timing.LoopStep("BRA", "branch", 0.0, 5)
            )
    return loop


@each("seed", range(60), sample=8)
def test_no_schedule_is_faster_than_its_bounds(seed: int) -> None:
    """All that is issued takes so long; the chain of a warp fits so many times but one.  Of one warp whose
    pipes are always free the closed form is the definition."""
    rng = random.Random(seed)
    loop, blocks, turns = drawn(rng), rng.choice((1, 2, 3)), 24
    warps, l2_bytes = blocks * rng.choice((1, 2, 4)), rng.choice((8.0, 47.4))
    found = timing.simulate_loop(
        loop, warps, blocks=blocks, turns=turns, l2_bytes=l2_bytes, queue=rng.choice((1, 8))
    )
    bounds = timing.loop_bounds(loop, warps, l2_bytes=l2_bytes).cycles
    for name, cycles in bounds.items():
        assert cycles * (turns - (name == "path")) <= found.total + 1e-6, (name, found)
    assert sum(found.states.values()) == pytest.approx(found.cpi) and set(found.states) == set(timing.STATES)
    assert found.states["selected"] == pytest.approx(1.0, rel=0.03)
    free = [replace(one, interval=0.0, read=None) for one in loop]
    assert (
        timing.loop_bounds(free, 1).cycles["path"] <= timing.simulate_loop(free, 1, queue=1000).cycles + 1e-6
    )


# --- kernels -------------------------------------------------------------------------------------------


@pytest.mark.deep(but=("latency FFMA",))
@pytest.mark.parametrize("what", ["latency LDS.64", "latency LDSM.4", "latency FFMA", "interval IMMA.16832"])
def test_a_probe_holds_what_it_measures(what: str) -> None:
    (probe,) = (p for p in latency_probe.probes(90) if p.what == what)
    assert latency_probe.compiled(probe, "sm_90").spill_bytes == 0
    with pytest.raises(CompileError, match="0 of XMAD where 64 are repeated"):
        latency_probe.compiled(replace(probe, opcode="XMAD"), "sm_90")


@pytest.mark.deep
def test_every_row_of_the_page_is_what_is_simulated_and_near_what_was_measured() -> None:
    """Of a tile of k, beside cycles that were fitted to measured products."""
    page = (Path(__file__).parents[3] / "docs" / "timing.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (gemm-\w+) (\w+) \| (\d) \| ([\d,]+) (\w+) \| ([\d,]+) \| ([\d,]+) \|", page, re.M
    )
    tiles = {way(c): c for c in (*SM80_TILES, *SIMT_TILES)}
    assert len(rows) == 14
    for name, tile, blocks, *written, cycles in rows:
        family = find_family(name)
        kernel = family.launches(family.problem(4096), replace(tiles[tile], static_ld=True), "sm_90").kernels[
            0
        ]
        found = timing.time_main_loop(kernel, prepare(kernel, "sm_90").cubin, "sm_90", blocks=int(blocks))
        bounds, simulated = found.bounds, found.time.cycles
        assert written == [f"{bounds.least:,.0f}", bounds.limiting, f"{simulated:,.0f}"]
        assert 0.99 * bounds.least <= simulated and 0.85 < simulated / int(cycles.replace(",", "")) < 1.05
