"""The tables of counters without a GPU: verdicts by hand, and every table on counters that are predicted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from layoutalg.codegen.costs import Cost
from layoutalg.codegen.gpu import version
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.ladder.counters import work
from layoutalg.kernels.ladder.step import Step, held, predict_steps
from tests.bench import bench_kernels
from tests.bench.kernel_images import Pair
from tests.frozen import kernel_adapter
from tests.frozen.kernel_cases import label
from tests.gpu import gemm_ladder as ladder
from tests.gpu import gemm_sm90_counters as sm90
from tests.gpu import kernel_counters
from tests.gpu.counters import (
    ARRIVED,
    BY_INSTRUCTION,
    COPIED,
    COPIES,
    LDS,
    LOST,
    METRICS,
    Row,
    idle_most,
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
from tests.gpu.kernel_counters import KINDS, of_kernel
from tests.stand_ins.cubin_gpu import CubinGpu


@pytest.mark.parametrize(
    ("predicted", "measured", "reason", "refuted"),
    [
        (10, 10, "", False), (10, 11, "", True), (10, 11, LOST, False), (10, 9, LOST, True),
        (10, 9, COPIED, False), (0, 1, "", True),
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


def test_only_copies_that_no_lane_makes_may_add_wavefronts() -> None:
    """Numbers of a product of f64 in two parts on an H200; of 6144 past the end a third is of 16 bytes."""
    one = {
        "cp.async.8": Cost(65536, 655360, 1), "cp.async.8:global": Cost(65536, 524288, 524288),
        "cp.async.16": Cost(32768, 131072, 1), "cp.async.16:global": Cost(32768, 524288, 524288),
        "ld.shared.b128": Cost(787968, 1575936, 1), "st.global.b128": Cost(2048, 32768, 32768),
    }  # fmt: skip
    made, most = 65536.0 + 32768, 32 * 2048
    sectors = {METRICS["ld.global"][0]: 1048576.0, METRICS["st.global"][0]: 32768.0}
    for more, refuted in ((0, False), (32764, False), (most, False), (most + 1, True), (-1, True)):
        found = {**sectors, BY_INSTRUCTION: 2362368.0 + more, COPIES: made + 6144}
        loads, stores, shared = of_kernel("f64", one, found)
        assert not loads.refuted and not stores.refuted and shared.refuted == refuted
    less = {**sectors, BY_INSTRUCTION: 2362368.0 - 131072, COPIES: made + 6144}
    assert [r.refuted for r in of_kernel("f64", one, less, fewer=131072)] == [False, False, False]
    assert [r.refuted for r in of_kernel("f64", one, less, fewer=131071)] == [False, False, True]
    words = {op: cost for op, cost in one.items() if not op.startswith("cp.async.16")}
    assert idle_most(words, 6144) == 0 == idle_most({}, 0)
    idle = {**sectors, BY_INSTRUCTION: 2395132.0, COPIES: made + 6144}
    assert "(+1.39%, 6144 copies no lane makes)" in str([*of_kernel("f64", one, idle)][-1])


def test_words_that_the_compiler_loads_again_take_a_wavefront_each() -> None:
    """Step v5 of the ladder at 4096 on an H200: 33 loads of a tile's rows where 32 vectors would do."""
    one = {
        "ld.global.b32": Cost(134217728, 536870912, 1), "st.global.b32": Cost(524288, 8388608, 1),
        "st.shared.b32": Cost(134217728, 134217728, 1), "ld.shared.b128": Cost(671088640, 2684354560, 1),
    }  # fmt: skip
    again = 128 * 16384 * 8
    for loads, wavefronts, refuted in (
        (again, again, False), (again, again + 1, True), (again - 1, again, True), (0, 0, False)
    ):  # fmt: skip
        found = {
            METRICS["ld.global"][0]: 536870912.0, METRICS["st.global"][0]: 8388608.0, COPIES: 0.0,
            BY_INSTRUCTION: 2818572288.0 + wavefronts, LDS: 671088640.0 + loads,
        }  # fmt: skip
        assert [row.refuted for row in of_kernel("v5", one, found)] == [False, False, refuted]


FROZEN: tuple[kernel_adapter.Case, ...] = (
    {"family": "transpose", "m": 40, "n": 24, "dtype": "f32", "lds": 28},
    {"family": "permute", "shape": [5, 12, 7], "axes": [2, 0, 1], "dtype": "f16", "src_offset": 3},
    {"family": "permute", "shape": [5, 12, 7], "axes": [2, 0, 1], "dtype": "u8", "result": "f32"},
    {"family": "relayout", "src": "(8,64):(64,1)", "dst": "Sw<3,4,3> o 0 o (8,64):(64,1)", "dtype": "f16"},
    {"family": "max", "shape": [6, 520], "axes": [0], "dtype": "bf16", "result": "f32"},
    {"family": "layer_norm", "shape": [6, 520], "axes": [1], "dtype": "f32", "in_place": True, "bias": True},
    {"family": "gemm-simt", "m": 64, "n": 64, "k": 256, "dtype": "f32", "splits": 2},
    {"family": "gemm-sm80", "m": 61, "n": 64, "k": 100, "dtype": "f16", "reads_c": True},
)


@pytest.mark.deep
def test_a_table_has_cases_of_its_own_that_the_library_takes() -> None:
    for kind, cases in KINDS.items():
        small = list(cases(True))
        assert len({*map(label, small)}) == len(small) > 3, kind
        for case in small[:: 1 if kind != "frozen" else 40]:
            kernel_adapter.chosen(case)


@pytest.mark.deep
def test_every_family_is_launched_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the profiler would watch runs on a simulated GPU; counters that say nothing refute what moves."""
    try:
        version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    programs, loaded = dict[bytes, Kernel](), bench_kernels.Buffers.__init__
    for case in FROZEN:
        for one in kernel_adapter.plan(case).launches:
            programs[kernel_adapter.compiled(one).image] = one.kernel
    gpu = CubinGpu(programs, dict.fromkeys(programs, 1.0))

    def seen(held: bench_kernels.Buffers, pair: Pair, most: int) -> None:
        loaded(held, pair, most)
        for array in held.sets[0].values():
            gpu.seen(array)

    def count(kernel: str, metrics: Sequence[str], module: str, *args: str) -> list[dict[str, float]]:
        with gpu.installed():
            kernel_counters.launch(Path(args[1]))
        assert (module, args[0]) == ("tests.gpu.kernel_counters", "launch")
        assert all(re.search(kernel, name) for name in gpu.launched)
        return [dict.fromkeys(metrics, 0.0) for _ in gpu.launched]

    monkeypatch.setattr(bench_kernels.Buffers, "__init__", seen)
    monkeypatch.setattr(kernel_counters, "count_launches", count)
    monkeypatch.setattr(kernel_counters, "in_processes", lambda work, items: list(map(work, items)))
    rows = list(kernel_counters.measure(FROZEN))
    assert len(gpu.launched) == len(FROZEN) + 1
    for case in FROZEN:
        mine = [row for row in rows if row.label.startswith(label(case))]
        assert {row.access for row in mine} >= {"ld.global", "st.global"}
        assert all(row.refuted for row in mine if row.unit == "sectors" and row.predicted)
    assert len([row for row in rows if row.label.startswith(label(FROZEN[-2]))]) == 6


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
