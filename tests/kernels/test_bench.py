"""The bench: its rows and problems, and what it does on a stand-in for a GPU; its timings need one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import Monitor, Reading, gpu_status, in_processes
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.program import LaunchSequence, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import MismatchError, UnknownNameError, UnsupportedError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.baselines import GroupOperands
from layoutalg.kernels.bench import (
    LATER_HALF,
    REDUCE,
    BenchRow,
    Method,
    Timed,
    benchmark,
    benchmark_ways,
    launch_count,
    make,
    mean_of,
    timed_problems,
    with_drawn_rows,
)
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.kernels.family import set_count
from layoutalg.kernels.gemm import group_begins
from layoutalg.kernels.gemm.family import SIZES
from layoutalg.kernels.move.families import _permute_views
from layoutalg.kernels.rowwise import OPS, cross_entropy_problem, joined_losses, normed, reduced
from layoutalg.kernels.rowwise import families as rowwise_families
from layoutalg.kernels.rowwise.families import CASES, DTYPES
from tests.draws.sequences import problem_of


def row(ours: float, notes: Any = None, **rates: float | None) -> BenchRow:
    return BenchRow("f", "p", "w", "GB/s", {"ours": ours, **rates}, "copy", 40, notes or {})


def test_rows_compare() -> None:
    one = row(3000.0, copy=4000.0, torch=None, cupy=1500.0)
    assert (one.share, one.ratio("cupy"), one.ratio("torch"), one.ratio("cublas")) == (0.75, 2.0, None, None)
    assert mean_of([4.0, 9.0]) == pytest.approx(6.0) and mean_of([None]) is None


def test_small_problems_rotate_past_the_cache() -> None:
    family = FAMILIES["transpose"]
    for edge in (256, 1024, 4096, 16384):
        p = family.problem(edge, edge, "u8")
        sets = set_count(family.bench, p, p.moved_bytes, "sm_90")
        assert sets * p.moved_bytes >= 4 * 60e6 or sets == 64
    p = family.problem(16384, 16384, "f32")
    assert set_count(family.bench, p, p.moved_bytes, "sm_90") == 1


@pytest.mark.parametrize("name", [*FAMILIES, REDUCE])
def test_every_family_has_problems_that_are_timed(name: str) -> None:
    asked = timed_problems(name)
    assert len({timed.name for timed in asked}) == len(asked) > 1
    if name != REDUCE:
        family = FAMILIES[name]
        assert all(timed.family == name and family.bench.work(timed.problem) > 0 for timed in asked)


def test_the_table_of_reductions_has_every_case_in_order() -> None:
    asked = timed_problems(REDUCE)
    assert [timed.name for timed in asked[: len(CASES)]] == [str(case) for case in CASES]
    assert {str(timed.problem.axes.dtype) for timed in timed_problems(REDUCE, ["bf16"])} == {"bf16"}
    with pytest.raises(UnknownNameError, match="element type of reductions"):
        timed_problems(REDUCE, ["u8"])
    with pytest.raises(UnknownNameError, match=r"tiled_copy, .*, reduce"):
        timed_problems("nothing")


@pytest.mark.parametrize("name", ["gemm-simt", "gemm-sm80"])
def test_every_step_and_every_choice_can_be_built(name: str) -> None:
    family = FAMILIES[name]
    assert len(timed_problems(name)) == len(SIZES)
    p = family.problem(family.bench.steps_size)
    for config in (family.choose(p), *family.steps.values()):
        assert family.build(p, config).threads % 32 == 0


@pytest.mark.deep
def test_kernels_are_made_by_several_processes_as_by_one() -> None:
    asked = [
        (Timed(op, problem_of(op, (48, 64), axes, "bf16")), "sm_90a")
        for op, axes in (("mean", (0,)), ("softmax", (1,)), ("layer_norm", (0,)))
    ]
    asked += [(Timed("permute", problem_of("permute", (40, 24), (1, 0), "f16")), "sm_90a")]
    there, here = in_processes(make, asked), [make(one) for one in asked]
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
        list(benchmark([Timed("transpose", family.problem(64, 64))]))
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        benchmark_ways("gemm-simt", FAMILIES["gemm-simt"].problem(64), {})


# --- a stand-in for a GPU ------------------------------------------------------------------------------


@dataclass
class Simulated:
    """A sequence that the simulator runs on arrays."""

    gpu: Standin
    sequence: LaunchSequence
    scalars: dict[str, int] = field(default_factory=dict)
    registers: int = 40

    def ready(self, scalars: dict[str, int] | None = None) -> Simulated:
        return Simulated(self.gpu, self.sequence, dict(scalars or {}))

    def on_arrays(self, arrays: dict[str, Any]) -> Callable[[], None]:
        def launch() -> None:
            self.gpu.ran += [kernel.name for kernel in self.sequence.kernels]
            mine = {name: np.asarray(x).reshape(-1).view("u1") for name, x in arrays.items()}
            simulate_sequence(self.sequence, mine | self.scalars, trace=False)

        return launch


class Standin:
    """A GPU's part of the bench: the simulator runs the kernels, every launch takes a millisecond."""

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

    def joules(self) -> float | None:
        return self.used

    def normal(self, elems: int, seed: int, element: str) -> Any:
        numbers = np.random.default_rng(seed).standard_normal(elems)
        kinds = {"f32": "f4", "f16": "f2", "bf16": "u2"}
        return bits_of(numbers, element).view(kinds[element])

    def noted(self, name: str) -> Callable[..., Callable[[], None]]:
        return lambda *_: lambda: self.ran.append(name)

    def assign(self, dst: Any, src: Any) -> Callable[[], None]:
        def launch() -> None:
            self.ran.append("cupy")
            dst[...] = src

        return launch

    def difference(
        self, op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any
    ) -> tuple[float, float]:
        """What `torch_difference` says, by NumPy."""
        x, ours = (numbers_of(np.asarray(v).view(f"u{v.itemsize}"), element) for v in (x, ours))
        p = problem_of(op, x.shape, axes, element)
        wanted = normed(p, x) if op in OPS else reduced(p, x.ravel())
        return float(np.abs(ours.reshape(wanted.shape) - wanted).max()), float(np.abs(wanted).max())

    def loss_difference(
        self, x: Any, at: Any, axis: int, element: str, ignored: int, reduction: str, ours: Any, result: str
    ) -> tuple[float, float]:
        """What `torch_loss_difference` says, by NumPy."""
        p = cross_entropy_problem(x.shape, axis, element, ignore_index=ignored, reduction=reduction)
        x, ours = (
            numbers_of(np.asarray(v).view(f"u{v.itemsize}"), of) for v, of in ((x, element), (ours, result))
        )
        wanted = np.asarray(joined_losses(p, x.ravel(), at.ravel()))
        return float(np.abs(ours.reshape(wanted.shape) - wanted).max()), float(np.abs(wanted).max())

    def wrong_indices(self, op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any) -> int:
        """What `torch_wrong_indices` says, by NumPy."""
        x = numbers_of(np.asarray(x).view(f"u{x.itemsize}"), element)
        return int((getattr(np, op)(x, axis=axes[0]).ravel() != ours.view("i8")).sum())

    def matmul(self, d: Any, a: Any, b: Any, element: str) -> Callable[[], None]:
        def launch() -> None:
            self.ran.append("torch")
            d[...] = a.astype("f8") @ b.astype("f8")

        return launch

    def apart(self, x: Any, y: Any, element: str) -> float:
        """The largest difference of two results."""
        x, y = (numbers_of(np.ascontiguousarray(v).view(f"u{v.itemsize}"), element) for v in (x, y))
        return float(np.abs(x - y).max())

    def group_matmuls(self, d: Any, given: GroupOperands) -> Callable[[], None]:
        """A loop of products, by NumPy."""
        strides = tuple(2 * step for step in given.strides)
        b = np.lib.stride_tricks.as_strided(given.b, given.shape, strides)

        def launch() -> None:
            self.ran.append("loop")
            for g, (begin, end) in enumerate(zip((0, *given.ends), given.ends, strict=False)):
                rows, matrix = (numbers_of(np.ascontiguousarray(x), given.element)
                                for x in (given.a[begin:end], b[g]))  # fmt: skip
                d[begin:end] = bits_of(rows @ matrix, given.element).view(d.dtype).reshape(-1, d.shape[1])

        return launch

    def times(
        self, contenders: list[list[Callable[[], Any]]], *, meanwhile: Callable[[int], object], **_: Any
    ) -> list[float]:
        for number, launches in enumerate(contenders):
            launches[0]()
            meanwhile(number)
        return [1.0 + n for n in range(len(contenders))]

    def later(
        self, contenders: list[list[Callable[[], Any]]], count: int, meanwhile: Callable[[int], object]
    ) -> list[float]:
        self.counts.append(count)
        self.sets.append(len(contenders[0]))
        return self.times(contenders, meanwhile=meanwhile)

    def repeated(self, contender: list[Callable[[], Any]], count: int) -> None:
        self.counts.append(count)
        self.used += 2.0 * count


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Standin:
    gpu = Standin()
    status, random = GpuStatus(True, "a stand-in", "sm_90a"), np.random.default_rng(0)

    def compiled(sequence: LaunchSequence, arch: str) -> Simulated:
        return Simulated(gpu, printed_sequence(sequence, arch))

    made = {"require_gpu": lambda: status, "compile_sequence": compiled, "load_sequence": lambda one: one}
    usual = {"random_normal": gpu.normal, "device_empty": np.zeros, "device_copy": gpu.noted("copy")}
    rooms: dict[str, dict[str, Any]] = {
        "bench": made | {
            "in_processes": lambda function, items: list(map(function, items)), "repeat_for": gpu.repeated,
            "median_times_ms": gpu.times, "later_half_times_ms": gpu.later,
            "watching": lambda: contextlib.nullcontext(gpu.monitor),
        },
        "family": {"find_arch": lambda arch: SimpleNamespace(board=None)},
        "move.families": {
            "random_bytes": lambda n, seed: random.integers(0, 256, n, np.uint8), "array_assign": gpu.assign,
            "device_copy": gpu.noted("copy"), "torch_assign": gpu.noted("torch"),
        },
        "rowwise.families": made | usual | {
            "torch_difference": gpu.difference, "torch_wrong_indices": gpu.wrong_indices,
            "torch_reduction": gpu.noted("torch"),
        },
        "rowwise.entropy.family": usual | {
            "to_device": np.asarray, "torch_cross_entropy": gpu.noted("torch"),
            "torch_loss_difference": gpu.loss_difference,
        },
        "elementwise.families": usual | {"torch_map": gpu.noted("torch"), "to_host": np.asarray},
        "gemm.family": {
            "random_normal": gpu.normal, "device_array": np.zeros, "torch_matmul": gpu.matmul,
            "torch_group_matmuls": gpu.group_matmuls, "torch_grouped_mm": gpu.noted("grouped_mm"),
            "largest_difference": gpu.apart,
        },
    }  # fmt: skip
    for room, names in rooms.items():
        for name, value in names.items():
            monkeypatch.setattr(f"layoutalg.kernels.{room}.{name}", value)
    rowwise_families._long_sum.cache_clear()
    return gpu


BESIDE: dict[str, tuple[str, Any]] = {
    **{
        f"{name} {dtype}": (name, problem_of(name, (24, 65), (0,), dtype)) for name in OPS for dtype in DTYPES
    },
    **{name: (name, FAMILIES[name].problem((24, 65), "bf16")) for name in ("gelu", "add")},
    "cross_entropy": ("cross_entropy", FAMILIES["cross_entropy"].problem((12, 70), (1,), "bf16")),
}
LOSSES = ["reduce_cross_entropy_bf16_f32", "reduce_sum_f32_f32", "cross_entropy_mean_bf16"]


@pytest.mark.parametrize("case", BESIDE)
def test_norms_maps_and_losses_are_compared_and_timed_beside_a_copy(standin: Standin, case: str) -> None:
    name, p = BESIDE[case]
    (found,) = benchmark([Timed(name, p)])
    mine = LOSSES if name == "cross_entropy" else [f"{name}_{p.dtype}"]
    assert standin.ran == [*mine * 2, "copy", "torch"] and found.rates["cupy"] is None
    assert found.limit == "copy" and (found.ratio("torch"), found.share) == pytest.approx((3.0, 2.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "axes"), [("sum", (1,)), ("max", (0,)), ("mean", (0, 1)), ("sum", (0,))])
def test_a_reduction_is_compared_and_timed(standin: Standin, op: str, axes: Any, dtype: str) -> None:
    (found,) = benchmark([Timed(op, problem_of(op, (24, 65), axes, dtype), "case")])
    mine, long = f"reduce_{op}_{dtype}_{dtype}", "reduce_sum_f32_f32"
    assert [n for n in standin.ran if n != "torch"] == [mine, mine, long] and "torch" in standin.ran
    assert (found.limit, found.rates["cupy"] is None) == ("read", dtype == "bf16")
    assert found.ratio("torch") == pytest.approx(3.0) and found.share == pytest.approx(2.0)
    assert found.ours == pytest.approx(found.notes["moved bytes"] / 1e6) and found.problem == "case"


@pytest.mark.parametrize("shape", [(24, 40, 6), (7, 1, 33), (1, 1, 5)])
@pytest.mark.parametrize("axes", [(2, 0, 1), (1, 0, 2), (0, 2, 1)])
def test_a_permute_is_compared_with_an_assignment_of_the_same_strides(
    standin: Standin, shape: Any, axes: Any
) -> None:
    p = problem_of("permute", shape, axes, "f16")
    (found,) = benchmark([Timed("permute", p)])
    assert standin.ran[0] == "cupy" and standin.ran[2:] == [standin.ran[1], "copy", "torch", "cupy"]
    assert found.share == pytest.approx(2.0) and found.ratio("cupy") == pytest.approx(4.0)
    x = np.arange(p.source_elems, dtype="u2")
    arrays = {"src": np.concatenate([x, x]), "dst": np.zeros(2 * len(x), "u2")}
    target, source = _permute_views(p, arrays)
    assert np.array_equal(source, x.reshape(shape).transpose(axes)) and target.shape == source.shape


@pytest.mark.parametrize("name", ["tiled_copy", "transpose"])
def test_a_matrix_with_gaps_is_compared_and_timed(standin: Standin, name: str) -> None:
    (found,) = benchmark([Timed(name, FAMILIES[name].problem(40, 24, "f16", lds=32, ldd=56))])
    assert standin.ran[0] == "cupy" and found.share == pytest.approx(2.0) and found.unit == "GB/s"


@pytest.mark.parametrize("name", ["gemm-simt", "gemm-sm80"])
def test_ways_of_a_product_are_timed_in_turn_with_cublas(standin: Standin, name: str) -> None:
    family = FAMILIES[name]
    p = family.problem(64)
    ways = dict(zip(("one", "other"), family.configs(p), strict=False))
    first, second = benchmark_ways(name, p, ways)
    assert [first.way, second.way] == list(ways) and first.unit == "TFLOP/s"
    assert [x.ratio("cublas") for x in (first, second)] == pytest.approx([3.0, 1.5])
    assert first.ours == pytest.approx(p.flops / 1e9) and first.registers == 40
    assert standin.ran.count("torch") == 3


GROUPED = {"n": 40, "k": 72, "groups": 3}


@pytest.mark.parametrize("drawn", [False, True])
def test_groups_are_compared_and_timed_beside_a_loop(standin: Standin, drawn: bool) -> None:
    p = FAMILIES["gemm-sm90"].problem(330, **GROUPED)
    timed = Timed("gemm-sm90", p)
    (found,) = benchmark([with_drawn_rows(timed) if drawn else timed])
    assert found.problem == f"330 x 40 x 72 bf16 TN in 3 groups{', drawn rows' * drawn}"
    assert found.rates["ours"] == pytest.approx(p.flops / 1e9)
    assert [found.ratio(x) for x in ("cublas", "grouped_mm")] == pytest.approx([2.0, 3.0])
    assert standin.ran.count("loop") == 2 and standin.ran.count("grouped_mm") == 1
    assert found.notes["expected us"] > 1 and found.notes["boxes by threads"] > 0


def test_groups_that_begin_elsewhere_are_a_wrong_result(
    standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = Timed("gemm-sm90", FAMILIES["gemm-sm90"].problem(330, **GROUPED))
    timed = timed._replace(given=tuple(group_begins([100, 100, 130]).items()))
    ready = Simulated.ready
    (_,) = benchmark([timed])
    monkeypatch.setattr(
        Simulated, "ready", lambda self, scalars: ready(self, {**scalars, "begin1": scalars["begin1"] + 1})
    )
    with pytest.raises(MismatchError, match="from cuBLAS by"):
        list(benchmark([timed]))


def test_products_without_groups_have_no_rows_to_draw() -> None:
    with pytest.raises(UnsupportedError, match="has no groups, whose rows could be drawn"):
        with_drawn_rows(Timed("gemm-sm90", FAMILIES["gemm-sm90"].problem(64)))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_wrong_result_is_no_row(standin: Standin, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulated, "on_arrays", lambda self, arrays: lambda: None)
    family = FAMILIES[name]
    p = (
        family.problem(1 if name == "gemv" else 64, 64, 64, dtype="f32" if "simt" in name else "f16")
        if "gem" in name
        else family.problem(**family.verified[0])
    )
    said = r"from CuPy's|from the definition, more|from cuBLAS by|of the definition"
    with pytest.raises(MismatchError, match=said):
        list(benchmark([Timed(name, p)]))


# --- what a row was measured under ---------------------------------------------------------------------


def test_the_published_number_of_launches() -> None:
    """1000 exp((1024 - n) / 3100): 371 at 4096, of which 185 count; 1000 at 1024 and 22 at 12,800."""
    assert [launch_count(n) for n in (1024, 4096, 8192, 12800)] == [1000, 371, 99, 22]
    assert launch_count(4096) // 2 == 185 and launch_count(10**6) == 2


def test_a_row_has_what_was_read_while_each_contender_ran(standin: Standin) -> None:
    standin.monitor = SimpleNamespace(reason="", read=standin.read, joules=standin.joules)
    family = FAMILIES["gemm-simt"]
    (found,) = benchmark([Timed("gemm-simt", family.problem(64))], Method(energy=True))
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
    (found,) = benchmark([Timed("gemm-simt", FAMILIES["gemm-simt"].problem(64))], Method(energy=True))
    assert found.run.joules == {"ours": None, "cublas": None} and found.per_joule("ours") is None
    assert stands_still or (found.run.unread, found.run.conditions) == ("it is a stand-in", {})


@pytest.mark.parametrize(("l2_bytes", "sets", "cold"), [(30_000, 3, True), (3 << 20, 64, False)])
def test_cold_data_is_four_caches_or_is_not_called_cold(
    standin: Standin, monkeypatch: pytest.MonkeyPatch, l2_bytes: int, sets: int, cold: bool
) -> None:
    board = SimpleNamespace(board=SimpleNamespace(l2_bytes=l2_bytes))
    monkeypatch.setattr("layoutalg.kernels.family.find_arch", lambda arch: board)
    p = FAMILIES["gemm-simt"].problem(64)
    (found,) = benchmark([Timed("gemm-simt", p)], Method(LATER_HALF, cold=True))
    assert (found.run.cold, standin.sets, standin.counts) == (cold, [sets], [launch_count(64)])
    (warm,) = benchmark([Timed("gemm-simt", p)])
    assert not warm.run.cold and warm.run.launches == 0


def test_the_rule_of_products_is_refused_for_others(standin: Standin) -> None:
    with pytest.raises(UnsupportedError, match="no family of matrix products"):
        list(benchmark([Timed("sum", problem_of("sum", (24, 65), (1,), "f32"))], Method(LATER_HALF)))
