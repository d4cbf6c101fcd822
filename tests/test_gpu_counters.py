"""The tables of counters without a GPU: verdicts by hand, and every table on counters that are predicted."""

from __future__ import annotations

from functools import cache

import pytest

from layoutalg.kernels import find_family
from layoutalg.kernels.ladder.counters import work
from layoutalg.kernels.ladder.step import Step, held, predict_steps
from tests.gpu import gemm_ladder as ladder
from tests.gpu import gemm_sm90_counters as sm90
from tests.gpu.counters import (
    ARRIVED,
    COPIES,
    LDS,
    Row,
    table,
)
from tests.gpu.gemm_ladder import (
    BY_TMA,
    COPIES_ON,
    LOADED,
    LOADS,
    LOADS_ON,
    MOST_WARPS,
    WARPS,
    held_table,
    judge,
)


@pytest.mark.parametrize(
    ("predicted", "measured", "reason", "refuted"),
    [
        (10, 10, "", False), (10, 11, "", True), (10, 9, "joined", False), (0, 1, "", True),
    ],
)  # fmt: skip
def test_only_a_reason_excuses_a_difference(
    predicted: int, measured: int, reason: str, refuted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Row("k", "ld.shared", "wavefronts", predicted, measured, reason)
    assert row.refuted == refuted and table("kernel", [row]) == refuted
    said = capsys.readouterr().out
    assert str(row) in said and said.endswith(f"{int(not refuted)} of 1 numbers hold\n")
    assert (reason or "refuted") in str(row) or predicted == measured


def test_a_table_without_rows_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert table("kernel", []) == 1 and "no numbers were compared" in capsys.readouterr().out


# --- ladders of products, on counters as an H200 gave them --------------------------------------------------


@cache
def wide() -> Step:
    """Each warp goes through 12589056 loads of fragments and 792576 idle ones, and makes 1572864 copies."""
    (step,) = predict_steps(find_family("gemm-simt"), 2048, ("wide",))
    return step


@pytest.mark.deep
def test_loads_that_no_lane_makes_are_taken_off() -> None:
    step = wide()
    assert ladder.count_of(step, "lds", {LDS: 12589056 + 792576}) == 12589056 == step.counts["lds"]
    lds = step.counts["lds"]

    def verdict(fewer: float) -> str:
        return judge(step, "lds", lds, {LDS: 12589056 + 792576 - fewer, COPIES: 0.0})

    assert verdict(0) == "equal" and verdict(-1).startswith("refuted")
    assert step.idle_once == 2 * 3 * step.blocks * step.config.threads // 32
    assert verdict(6144) == "-0.05%: 6144 idle loads stand where branches pass them by"
    assert verdict(step.idle_once + 1).startswith("refuted")


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [
        (1572864, "equal"), (1573248, "+0.02%: 384 of 12288 that no lane makes are counted"),
        (1572863, "refuted: -0.00%"), (1572864 + 12289, "refuted: +0.78%"),
    ],
)  # fmt: skip
def test_copies_past_the_end_may_be_counted_and_no_others(counted: int, verdict: str) -> None:
    """Of 12288 copies that no lane makes the counter of predicates took 384 for made."""
    found = {LOADS: 0.0, LOADS_ON: 0.0, COPIES: 1572864.0 + 12288, COPIES_ON: float(counted)}
    assert judge(wide(), "global loads", 1572864, found) == verdict


@pytest.mark.deep
def test_what_was_not_seen_at_all_refutes_an_effect(capsys: pytest.CaptureFixture[str]) -> None:
    v4, v8 = predict_steps(find_family("gemm-simt"), 512, ("v4", "v8"))
    none = {LOADS: 0.0, LOADS_ON: 0.0, COPIES: 0.0, COPIES_ON: 0.0}
    loads = v8.counts["global loads"]
    assert ladder.counters_table([v4, v8], [none, none | {LOADS_ON: loads, LOADS: loads}])[0] == 1
    assert ladder.effects_table([v4, v8], [none, none | {LOADS_ON: loads}])[0] == 1
    assert "| global loads | x 0.062 | x inf | refuted |" in capsys.readouterr().out


def test_warps_are_those_that_the_driver_allows(capsys: pytest.CaptureFixture[str]) -> None:
    step = wide()
    warps, sectors = step.occupancy.warps_per_sm, step.counts["sectors loaded"]
    found = {MOST_WARPS: float(warps), WARPS: warps - 0.5, LOADED: 0.0, ladder.COPIED: 0.0}
    found |= {ARRIVED: float(sectors), ladder.ARRIVED_COPIED: 0.0}
    assert held_table([step], [found])[0] == 0
    assert capsys.readouterr().out.endswith(f"| {step.intensity:.1f} | {step.intensity:.1f} |\n")
    least = ladder.resolution_warps(step)
    assert least == step.occupancy.threads / 32 / 132
    for refuted, other in (
        (1, {MOST_WARPS: warps + 1.0}), (1, {WARPS: warps + 0.5}), (0, {WARPS: warps + 0.9 * least}),
        (1, {WARPS: warps + 1.01 * least}), (1, {WARPS: float("nan")}),
    ):  # fmt: skip
        assert held_table([step], [found | other])[0] == refuted
    assert held_table([step], [{}])[0] == 1


# --- products by wgmma, on counters that are as predicted, and on others ------------------------------------

RAGGED = sm90.CASES[1]


def rows_of_ragged(monkeypatch: pytest.MonkeyPatch, **more: float) -> list[Row]:
    """The rows of a ragged case on its own predictions, some of them with more."""
    p, c = RAGGED
    family = find_family("gemm-sm90")
    one = family.launches(p, c, "sm_90")
    found = work(p, c, one.kernels[0], {**dict(one.scalars), **family.scalars(p)})
    cubin, occupancy = held(one.kernels[0])
    seen = {metric: float(found.counts.get(what, 0)) for what, (metric, _) in sm90.COUNTED.items()}
    seen |= {sm90.REGISTERS: float(cubin.registers), MOST_WARPS: float(occupancy.warps_per_sm)}
    for what, n in more.items():
        seen[BY_TMA[what.replace("_", " ")]] += n
    monkeypatch.setattr(sm90, "CASES", ((p, c),))
    monkeypatch.setattr(sm90, "count_launches", lambda *asked: [seen])
    return list(sm90.rows())


def test_what_is_as_predicted_is_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows_of_ragged(monkeypatch)
    assert not any(row.refuted for row in found)
    assert {"wgmma", "TMA in", "L2 in", "registers", "occupancy"} <= {row.access for row in found}


@pytest.mark.deep
def test_the_l2_may_serve_a_little_more_and_nothing_else_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(row.refuted for row in rows_of_ragged(monkeypatch, L2_in=100))
    assert [row.access for row in rows_of_ragged(monkeypatch, L2_in=1e6) if row.refuted] == ["L2 in"]
    assert [row.access for row in rows_of_ragged(monkeypatch, TMA_in=32) if row.refuted] == ["TMA in"]
