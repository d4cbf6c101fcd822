"""The bench: its rows and problems, and what it does on a stand-in for a GPU; its timings need one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import Monitor, Reading, gpu_status, in_processes
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.program import LaunchSequence, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import MismatchError, UnknownNameError, UnsupportedError
from layoutalg.kernels import FAMILIES, bench
from layoutalg.kernels.checks import bench_of, checks_of
from layoutalg.kernels.checks import rowwise as reduced_checks
from layoutalg.kernels.checks.baselines import GroupOperands
from layoutalg.kernels.checks.record import set_count
from layoutalg.kernels.checks.rowwise import CASES, DTYPES
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.kernels.gemm import group_begins
from layoutalg.kernels.norms import NORMS as OPS
from layoutalg.kernels.rowwise import cross_entropy_problem, joined_losses, normed, reduced
from tests.draws.sequences import problem_of


def row(ours: float, notes: Any = None, **rates: float | None) -> bench.BenchRow:
    return bench.BenchRow("f", "p", "w", "GB/s", {"ours": ours, **rates}, "copy", 40, notes or {})


def test_rows_compare() -> None:
    one = row(3000.0, copy=4000.0, torch=None, cupy=1500.0)
    assert (one.share, one.ratio("cupy"), one.ratio("torch"), one.ratio("cublas")) == (0.75, 2.0, None, None)
    assert bench.mean_of([4.0, 9.0]) == pytest.approx(6.0) and bench.mean_of([None]) is None


def test_small_problems_rotate_past_the_cache() -> None:
    family = FAMILIES["transpose"]
    for edge in (256, 1024, 4096, 16384):
        p = family.problem(edge, edge, "u8")
        sets = set_count(bench_of(family), p, p.moved_bytes, "sm_90")
        assert sets * p.moved_bytes >= 4 * 60e6 or sets == 64
    p = family.problem(16384, 16384, "f32")
    assert set_count(bench_of(family), p, p.moved_bytes, "sm_90") == 1


@pytest.mark.parametrize("name", [*FAMILIES, bench.REDUCE])
def test_every_family_has_problems_that_are_timed(name: str) -> None:
    asked = bench.timed_problems(name)
    assert len({timed.name for timed in asked}) == len(asked) > 1
    if name != bench.REDUCE:
        family = FAMILIES[name]
        assert all(timed.family == name and bench_of(family).work(timed.problem) > 0 for timed in asked)


def test_the_table_of_reductions_has_every_case_in_order() -> None:
    asked = bench.timed_problems(bench.REDUCE)
    assert [timed.name for timed in asked[: len(CASES)]] == [str(case) for case in CASES]
    assert {str(timed.problem.axes.dtype) for timed in bench.timed_problems(bench.REDUCE, ["bf16"])} == {
        "bf16"
    }
    with pytest.raises(UnknownNameError, match="element type of reductions"):
        bench.timed_problems(bench.REDUCE, ["u8"])
    with pytest.raises(UnknownNameError, match="unknown kernel family 'nothing': accepted are"):
        bench.timed_problems("nothing")


@pytest.mark.deep
def test_kernels_are_made_by_several_processes_as_by_one() -> None:
    asked = [
        (bench.Timed(op, problem_of(op, (48, 64), axes, "bf16")), "sm_90a")
        for op, axes in (("mean", (0,)), ("softmax", (1,)), ("layer_norm", (0,)))
    ]
    asked += [(bench.Timed("permute", problem_of("permute", (40, 24), (1, 0), "f16")), "sm_90a")]
    there, here = in_processes(bench.make, asked), [bench.make(one) for one in asked]
    for one, other in zip(there, here, strict=True):
        assert (one.timed, one.way, one.notes) == (other.timed, other.way, other.notes)
        assert [x.source for x in one.compiled.prepared] == [x.source for x in other.compiled.prepared]
    assert [made.notes["moved bytes"] for made in there[:3]] == [2 * (48 * 64 + 64), 4 * 48 * 64, 4 * 48 * 64]
    assert all(made.notes["memory bytes"] == made.notes["moved bytes"] for made in there[:3])
    assert there[3].compiled.prepared[0].kernel.name == "permute_b16"
    assert there[3].notes["sectors in"] > 0 and there[3].notes["bound"].endswith(" us")


@pytest.mark.skipif(gpu_status().available, reason="this is about a machine without a GPU")
def test_without_a_gpu_the_bench_says_so() -> None:
    family = FAMILIES["transpose"]
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        list(bench.benchmark([bench.Timed("transpose", family.problem(64, 64))]))
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        bench.benchmark_ways("gemm-simt", FAMILIES["gemm-simt"].problem(64), {})


# --- a stand-in for a GPU ------------------------------------------------------------------------------


@dataclass
class Simulated:
    """A sequence that the simulator runs on arrays."""

    gpu: Standin
    sequence: LaunchSequence
    scalars: dict[str, int] = field(default_factory=dict)
    registers: int = 40

    def ready(self, scalars: dict[str, int] | None = None) -> Simulated:
        return replace(self, scalars=dict(scalars or {}))

    def on_arrays(self, arrays: dict[str, Any]) -> Callable[[], None]:
        def launch() -> None:
            self.gpu.ran += [kernel.name for kernel in self.sequence.kernels]
            mine = {name: np.asarray(x).reshape(-1).view("u1") for name, x in arrays.items()}
            simulate_sequence(self.sequence, mine | self.scalars, trace=False)

        return launch


def numbers(x: Any, element: str) -> Any:
    """What an array of any words carries."""
    x = np.ascontiguousarray(x)
    return numbers_of(x.view(f"u{x.itemsize}"), element)


class Standin:
    """A GPU's part of the bench: the simulator runs the kernels, every launch takes a millisecond, and NumPy
    says what PyTorch would."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.counts: list[int] = []
        self.sets: list[int] = []
        self.used, self.asked = 100.0, 0
        self.monitor: Any = Monitor(reason="it is a stand-in")

    def read(self) -> Reading:
        """A clock that falls."""
        self.asked += 1
        return Reading(sm_mhz=2000 - self.asked, reasons=4 * (self.asked > 1))

    def noted(
        self, name: str, run: Callable[..., None] = lambda *_: None
    ) -> Callable[..., Callable[[], None]]:
        """A contender that does something to its operands, and is noted by its name."""

        def contender(*operands: Any) -> Callable[[], None]:
            def launch() -> None:
                self.ran.append(name)
                run(*operands)

            return launch

        return contender

    def times(self, contenders: list[list[Callable[[], Any]]], *, meanwhile: Any, **_: Any) -> list[float]:
        for number, launches in enumerate(contenders):
            launches[0]()
            meanwhile(number)
        return [1.0 + n for n in range(len(contenders))]

    def later(self, contenders: list[list[Callable[[], Any]]], count: int, meanwhile: Any) -> list[float]:
        self.counts.append(count)
        self.sets.append(len(contenders[0]))
        return self.times(contenders, meanwhile=meanwhile)

    def repeated(self, contender: list[Callable[[], Any]], count: int) -> None:
        self.counts.append(count)
        self.used += 2.0 * count


def normal(elems: int, seed: int, element: str) -> Any:
    words = bits_of(np.random.default_rng(seed).standard_normal(elems), element)
    return words.view({"f32": "f4", "f16": "f2", "bf16": "u2"}[element])


def apart(x: Any, y: Any, element: str) -> float:
    return float(np.abs(numbers(x, element) - numbers(y, element)).max())


def difference(op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any) -> tuple[float, float]:
    p, values = problem_of(op, x.shape, axes, element), numbers(x, element)
    wanted = normed(p, values) if op in OPS else reduced(p, values.ravel())
    return float(np.abs(numbers(ours, element).reshape(wanted.shape) - wanted).max()), float(
        np.abs(wanted).max()
    )


def loss_difference(
    x: Any, at: Any, axis: int, element: str, ignored: int, reduction: str, ours: Any, result: str
) -> tuple[float, float]:
    p = cross_entropy_problem(x.shape, axis, element, ignore_index=ignored, reduction=reduction)
    wanted = np.asarray(joined_losses(p, numbers(x, element).ravel(), at.ravel()))
    return float(np.abs(numbers(ours, result).reshape(wanted.shape) - wanted).max()), float(
        np.abs(wanted).max()
    )


def wrong_indices(op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any) -> int:
    return int((getattr(np, op)(numbers(x, element), axis=axes[0]).ravel() != ours.view("i8")).sum())


def assign(dst: Any, src: Any) -> None:
    dst[...] = src


def multiply(d: Any, a: Any, b: Any, element: str) -> None:
    d[...] = a.astype("f8") @ b.astype("f8")


def multiply_groups(d: Any, given: GroupOperands) -> None:
    b = np.lib.stride_tricks.as_strided(given.b, given.shape, tuple(2 * step for step in given.strides))
    for g, (begin, end) in enumerate(zip((0, *given.ends), given.ends, strict=False)):
        rows = numbers(given.a[begin:end], given.element) @ numbers(b[g], given.element)
        d[begin:end] = bits_of(rows, given.element).view(d.dtype).reshape(-1, d.shape[1])


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Standin:
    gpu = Standin()
    status, draws = GpuStatus(True, "a stand-in", "sm_90a"), np.random.default_rng(0)

    def compiled(sequence: LaunchSequence, arch: str) -> Simulated:
        return Simulated(gpu, printed_sequence(sequence, arch))

    torch, copy, cupy = gpu.noted("torch"), gpu.noted("copy"), gpu.noted("cupy", assign)
    usual = {"random_normal": normal, "device_empty": np.zeros, "device_copy": copy}
    rooms: dict[str, dict[str, Any]] = {
        "codegen.gpu": {
            "require_gpu": lambda: status, "compile_sequence": compiled, "load_sequence": lambda one: one,
            "in_processes": lambda function, items: list(map(function, items)), "repeat_for": gpu.repeated,
            "later_half_times_ms": gpu.later, "watching": lambda: contextlib.nullcontext(gpu.monitor),
            "device_empty": np.zeros, "device_copy": copy, "to_device": np.asarray,
        },
        "checks.record": {
            "find_arch": lambda arch: SimpleNamespace(board=None), "median_times_ms": gpu.times,
        },
        "checks.move": {
            "random_bytes": lambda n, seed: draws.integers(0, 256, n, np.uint8), "array_assign": cupy,
            "device_copy": copy, "torch_assign": torch,
        },
        "checks.rows": {"random_normal": normal, "device_empty": np.zeros},
        "checks.rowwise": {
            "torch_difference": difference, "torch_wrong_indices": wrong_indices, "torch_reduction": torch,
            "torch_map": torch, "torch_cross_entropy": torch, "torch_loss_difference": loss_difference,
        },
        "checks.elementwise": usual | {"torch_map": torch, "to_host": np.asarray},
        "checks.attention": {
            "random_normal": normal, "device_empty": np.zeros, "to_host": np.asarray,
            "torch_attention": torch,
        },
        "checks.quantize": usual | {"to_host": np.asarray},
        "checks.gemm": {
            "random_normal": normal, "device_array": np.zeros, "torch_matmul": gpu.noted("torch", multiply),
            "torch_group_matmuls": gpu.noted("loop", multiply_groups),
            "torch_grouped_mm": gpu.noted("grouped_mm"), "largest_difference": apart,
        },
    }  # fmt: skip
    for room, names in rooms.items():
        for name, value in names.items():
            place = room if room == "codegen.gpu" else f"kernels.{room}"
            monkeypatch.setattr(f"layoutalg.{place}.{name}", value)
    reduced_checks._long_sum.cache_clear()
    return gpu


SHAPE = (24, 65)
LOSSES = ["reduce_cross_entropy_bf16_f32", "reduce_sum_f32_f32", "cross_entropy_mean_bf16"]
TIMED: list[tuple[str, Any, list[str]]] = [
    *((name, problem_of(name, SHAPE, (0,), dtype), [f"{name}_{dtype}"]) for name in OPS for dtype in DTYPES),
    *((name, FAMILIES[name].problem(SHAPE, "bf16"), [f"{name}_bf16"]) for name in ("gelu", "add")),
    ("cross_entropy", FAMILIES["cross_entropy"].problem((12, 70), (1,), "bf16"), LOSSES),
    *((op, problem_of(op, SHAPE, axes, dtype), [f"reduce_{op}_{dtype}_{dtype}"])
      for op, axes in (("sum", (1,)), ("max", (0,)), ("mean", (0, 1)), ("sum", (0,))) for dtype in DTYPES),
    *(("permute", problem_of("permute", shape, axes, "f16"), [])
      for shape in ((24, 40, 6), (7, 1, 33), (1, 1, 5)) for axes in ((2, 0, 1), (1, 0, 2), (0, 2, 1))),
    *((name, FAMILIES[name].problem(40, 24, "f16", lds=32, ldd=56), []) for name in ("tiled_copy",
    "transpose")),
]  # fmt: skip
"""A problem, and its kernels where one name is known."""


@pytest.mark.deep(only=("permute-permute (24,6,40) f16, src (240,1,6) -> dst (240,40,1)-[]",))
@pytest.mark.parametrize(("name", "p", "mine"), TIMED, ids=str)
def test_a_case_is_compared_and_timed_beside_its_bound_and_others(
    standin: Standin, name: str, p: Any, mine: list[str]
) -> None:
    (found,) = bench.benchmark([bench.Timed(name, p, "case")])
    reduced, moved = name in ("sum", "max", "mean"), name in ("permute", "tiled_copy", "transpose")
    assert (found.limit, found.problem) == ("read" if reduced else "copy", "case")
    assert (found.share, found.ratio("torch")) == pytest.approx((2.0, 3.0))
    assert (found.rates["cupy"] is not None) == (moved or (reduced and p.dtype.name != "bf16"))
    others = ["reduce_sum_f32_f32"] if reduced else ["copy"] * (1 + (name in OPS and OPS[name].adds))
    if moved:
        assert standin.ran[0] == "cupy" and standin.ran[1] == standin.ran[2]
        assert found.ratio("cupy") == pytest.approx(4.0)
    else:
        assert [n for n in standin.ran if n != "torch"] == [*mine * 2, *others] and "torch" in standin.ran
    assert found.ours == pytest.approx(bench_of(FAMILIES[name]).work(p) / 1e6)


@pytest.mark.parametrize("name", ["gemm-simt", "gemm-sm80"])
def test_ways_of_a_product_are_timed_in_turn_with_cublas(standin: Standin, name: str) -> None:
    family = FAMILIES[name]
    p = family.problem(64)
    ways = dict(zip(("one", "other"), family.configs(p), strict=False))
    first, second = bench.benchmark_ways(name, p, ways)
    assert [first.way, second.way] == list(ways) and first.unit == "TFLOP/s"
    assert [x.ratio("cublas") for x in (first, second)] == pytest.approx([3.0, 1.5])
    assert first.ours == pytest.approx(p.flops / 1e9) and first.registers == 40
    assert standin.ran.count("torch") == 3


GROUPED = {"n": 40, "k": 72, "groups": 3}


@pytest.mark.parametrize("drawn", [False, True])
def test_groups_are_compared_and_timed_beside_a_loop(standin: Standin, drawn: bool) -> None:
    p = FAMILIES["gemm-sm90"].problem(170, **GROUPED)
    timed = bench.Timed("gemm-sm90", p)
    (found,) = bench.benchmark([bench.with_drawn_rows(timed) if drawn else timed])
    assert found.problem == f"170 x 40 x 72 bf16 TN in 3 groups{', drawn rows' * drawn}"
    assert found.rates["ours"] == pytest.approx(p.flops / 1e9)
    assert [found.ratio(x) for x in ("cublas", "grouped_mm")] == pytest.approx([2.0, 3.0])
    assert standin.ran.count("loop") == 2 and standin.ran.count("grouped_mm") == 1
    assert found.notes["expected us"] > 1 and found.notes["boxes by threads"] > 0


@pytest.mark.deep
def test_groups_that_begin_elsewhere_are_a_wrong_result(
    standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = bench.Timed("gemm-sm90", FAMILIES["gemm-sm90"].problem(130, **GROUPED))
    timed = timed._replace(given=tuple(group_begins([40, 40, 50]).items()))
    ready = Simulated.ready
    (_,) = bench.benchmark([timed])
    monkeypatch.setattr(
        Simulated, "ready", lambda self, scalars: ready(self, {**scalars, "begin1": scalars["begin1"] + 1})
    )
    with pytest.raises(MismatchError, match="from cuBLAS by"):
        list(bench.benchmark([timed]))


def test_products_without_groups_have_no_rows_to_draw() -> None:
    with pytest.raises(UnsupportedError, match="has no groups, whose rows could be drawn"):
        bench.with_drawn_rows(bench.Timed("gemm-sm90", FAMILIES["gemm-sm90"].problem(64)))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_wrong_result_is_no_row(standin: Standin, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulated, "on_arrays", lambda self, arrays: lambda: None)
    family = FAMILIES[name]
    p = (
        family.problem(1 if name == "gemv" else 64, 64, 64, dtype="f32" if "simt" in name else "f16")
        if "gem" in name
        else family.problem(**checks_of(family).verified[0])
    )
    said = r"from CuPy's|from the definition, more|from cuBLAS by|of the definition"
    with pytest.raises(MismatchError, match=said):
        list(bench.benchmark([bench.Timed(name, p)]))


# --- what a row was measured under ---------------------------------------------------------------------


def test_the_published_number_of_launches() -> None:
    """1000 exp((1024 - n) / 3100): 371 at 4096, of which 185 count; 1000 at 1024 and 22 at 12,800."""
    assert [bench.launch_count(n) for n in (1024, 4096, 8192, 12800)] == [1000, 371, 99, 22]
    assert bench.launch_count(4096) // 2 == 185 and bench.launch_count(10**6) == 2


def test_a_row_has_what_was_read_while_each_contender_ran(standin: Standin) -> None:
    standin.monitor = SimpleNamespace(reason="", read=standin.read, joules=lambda: standin.used)
    family = FAMILIES["gemm-simt"]
    (found,) = bench.benchmark([bench.Timed("gemm-simt", family.problem(64))], bench.Method(energy=True))
    ours, cublas = found.run.conditions["ours"], found.run.conditions["cublas"]
    assert [ours.sm_mhz, cublas.sm_mhz] == [(1999, 1999, 1999), (1998, 1998, 1998)]
    assert (ours.names, ours.held_back, cublas.names, cublas.held_back) == ((), 0, ("power cap",), 1)
    assert not ours.memory_mhz and found.run.unread == "" and found.run.joules == {"ours": 2.0, "cublas": 2.0}
    assert found.per_joule("ours") == 2 * 64**3 / 2.0
    assert standin.counts == [250, 1000, 125, 500]  # a second of 1 ms and of 2 ms each, behind a quarter


@pytest.mark.parametrize("stands_still", [False, True])
def test_without_a_monitor_or_with_a_counter_that_stands_still_nothing_is_made_up(
    standin: Standin, stands_still: bool
) -> None:
    if stands_still:
        standin.monitor = SimpleNamespace(reason="", read=standin.read, joules=lambda: 7.0)
    (found,) = bench.benchmark(
        [bench.Timed("gemm-simt", FAMILIES["gemm-simt"].problem(64))], bench.Method(energy=True)
    )
    assert found.run.joules == {"ours": None, "cublas": None} and found.per_joule("ours") is None
    assert stands_still or (found.run.unread, found.run.conditions) == ("it is a stand-in", {})


@pytest.mark.deep(only=("30000-3-True",))
@pytest.mark.parametrize(("l2_bytes", "sets", "cold"), [(30_000, 3, True), (3 << 20, 64, False)])
def test_cold_data_is_four_caches_or_is_not_called_cold(
    standin: Standin, monkeypatch: pytest.MonkeyPatch, l2_bytes: int, sets: int, cold: bool
) -> None:
    board = SimpleNamespace(board=SimpleNamespace(l2_bytes=l2_bytes))
    monkeypatch.setattr("layoutalg.kernels.checks.record.find_arch", lambda arch: board)
    p = FAMILIES["gemm-simt"].problem(64)
    (found,) = bench.benchmark([bench.Timed("gemm-simt", p)], bench.Method(bench.LATER_HALF, cold=True))
    assert (found.run.cold, standin.sets, standin.counts) == (cold, [sets], [bench.launch_count(64)])
    (warm,) = bench.benchmark([bench.Timed("gemm-simt", p)])
    assert not warm.run.cold and warm.run.launches == 0


def test_the_rule_of_products_is_refused_for_others(standin: Standin) -> None:
    with pytest.raises(UnsupportedError, match="no family of matrix products"):
        list(
            bench.benchmark(
                [bench.Timed("sum", problem_of("sum", (24, 65), (1,), "f32"))], bench.Method(bench.LATER_HALF)
            )
        )
