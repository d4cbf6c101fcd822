"""The tables of counters without a GPU: verdicts by hand, and every table on counters that are predicted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from layoutalg.codegen.costs import Cost
from layoutalg.codegen.gpu import version
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from tests.bench import bench_kernels
from tests.bench.kernel_images import Pair
from tests.frozen import kernel_adapter
from tests.frozen.kernel_cases import label
from tests.gpu import kernel_counters
from tests.gpu.counters import BY_INSTRUCTION, COPIED, COPIES, LDS, LOST, METRICS, Row, idle_most, table
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
