"""The bench of two trees' kernels: what the first step stores, and the second step on a simulated GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg.codegen.gpu import gpu_status, version
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, norm_problem
from layoutalg.kernels.rowwise.programs import norm_launches
from tests.bench import bench_kernels, kernel_images
from tests.bench.kernel_images import Pair, pairs, side, store, write
from tests.frozen import kernel_adapter
from tests.frozen.kernel_adapter import Case, Planned, plan
from tests.stand_ins.cubin_gpu import CubinGpu
from tests.sweeps import each

TRANSPOSE: Case = {"family": "transpose", "m": 40, "n": 24, "dtype": "f32", "lds": 28}
COPY: Case = {"family": "tiled_copy", "m": 40, "n": 24, "dtype": "f32", "lds": 28}
SUM: Case = {"family": "sum", "shape": [1 << 18], "axes": [0], "dtype": "f32"}
SPLIT: Case = {"family": "gemm-sm80", "m": 64, "n": 64, "k": 256, "dtype": "f16", "bias": True, "splits": 2}
IN_PLACE: Case = {"family": "softmax", "shape": [6, 520], "axes": [1], "dtype": "bf16", "in_place": True}


@pytest.fixture(autouse=True)
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bench_kernels, "MOST_SETS", 2)
    monkeypatch.setattr(bench_kernels, "ROUNDS", 5)


class Asked:
    """Kernels of both sides of some cases: records, machine code, and the programs that it is the code of."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]) -> None:
        self.folder, self.records, self.patch, self.said = folder, list[Mapping[str, Any]](), patch, said
        self.programs: dict[bytes, Any] = {}
        self.costs: dict[bytes, float] = {}

    def side(self, planned: Planned, ms: float) -> dict[str, Any]:
        """One side, whose kernels take so long."""
        adapter: Any = SimpleNamespace(plan=lambda case: planned, compiled=kernel_adapter.compiled)
        found, images = side(adapter, {})
        for launch, image in zip(planned.launches, images, strict=True):
            store(self.folder, image)
            self.programs[image], self.costs[image] = launch.kernel, ms
        return found

    def add(
        self, name: str, base: Mapping[str, Any], now: Mapping[str, Any], case: Case | None = None
    ) -> None:
        """A case, as it is labelled and as it is asked for."""
        self.records.append({"case": name, "asked": case or {}, "base": base, "now": now})

    def run(self, seconds: float = 1e6) -> tuple[int, CubinGpu, str]:
        """The second step, the GPU on which it was, and what it printed."""
        write(self.folder, self.records)
        gpu = CubinGpu(self.programs, self.costs)
        kept = bench_kernels.Buffers.__init__

        def made(held: Any, pair: Pair, most: int) -> None:
            kept(held, pair, most)
            for one in held.sets:
                for array in one.values():
                    gpu.seen(array)

        with self.patch.context() as patch, gpu.installed():
            patch.setattr(bench_kernels.Buffers, "__init__", made)
            status = bench_kernels.run(self.folder, seconds)
        return status, gpu, self.said.readouterr().out


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    folder = tmp_path / "kernels"
    folder.mkdir()
    return Asked(folder, monkeypatch, capsys)


def bounded(planned: Planned) -> Planned:
    """The plan, its first kernel compiled so that two blocks fit: other machine code that does the same."""
    first, *others = planned.launches
    return replace(planned, launches=(replace(first, kernel=replace(first.kernel, min_blocks=2)), *others))


@pytest.mark.deep
def test_other_machine_code_of_equal_results_passes_where_it_is_faster(asked: Asked) -> None:
    asked.add("turned", asked.side(plan(TRANSPOSE), 0.5), asked.side(bounded(plan(TRANSPOSE)), 0.4))
    status, gpu, out = asked.run()
    assert status == 0 and "| turned | 500.00 | 400.00 | 1.250 A/A 1.000 |" in out
    assert "1 timed: 1.250 to 1.250, 0 under 0.98" in out and "geometric mean of all 1.2500" in out
    assert len(gpu.launched) >= 3 * bench_kernels.ROUNDS


@pytest.mark.deep
def test_a_slower_kernel_is_timed_again_and_fails(asked: Asked) -> None:
    asked.patch.setattr(bench_kernels, "AGAIN", 13)
    asked.add("turned", asked.side(plan(TRANSPOSE), 0.6), asked.side(bounded(plan(TRANSPOSE)), 0.625))
    status, gpu, out = asked.run()
    assert status == 1 and "0.960 A/A 1.000 first 0.960 |" in out and "slower: turned: 0.960" in out
    assert len(gpu.launched) >= 3 * bench_kernels.ROUNDS + 2 * 13


def test_other_results_fail(asked: Asked) -> None:
    asked.add("turned", asked.side(plan(TRANSPOSE), 0.5), asked.side(plan(COPY), 0.5))
    status, _, out = asked.run()
    assert status == 1 and "bytes of the results differ" in out


@pytest.mark.deep(only=("True",))
@pytest.mark.parametrize("right", [True, False])
def test_results_of_another_order_of_sums_are_timed_where_the_definition_agrees(
    right: bool, asked: Asked
) -> None:
    product: Case = {"family": "gemm-simt", "m": 8, "n": 8, "k": 8, "dtype": "f32"}
    asked.patch.setattr(bench_kernels, "verify", lambda *_, **__: SimpleNamespace(passed=right))
    asked.add("summed", asked.side(plan(TRANSPOSE), 0.5), asked.side(plan(COPY), 0.5), product)
    status, _, out = asked.run()
    assert status == (0 if right else 1)
    assert ("| 1.000 other order of sums, verified A/A 1.000 |" in out) == right
    assert ("bytes of the results differ" in out) != right


def test_results_of_moves_may_not_differ(asked: Asked) -> None:
    asked.patch.setattr(bench_kernels, "verify", lambda *_, **__: SimpleNamespace(passed=True))
    asked.add("turned", asked.side(plan(TRANSPOSE), 0.5), asked.side(plan(COPY), 0.5), TRANSPOSE)
    assert asked.run()[0] == 1


@pytest.mark.deep
def test_equal_machine_code_counts_as_one_and_is_timed_beside_itself(asked: Asked) -> None:
    for name, case in (("turned", TRANSPOSE), ("copied", COPY), ("in place", IN_PLACE)):
        asked.add(name, asked.side(plan(case), 0.5), asked.side(plan(case), 0.5))
    status, _, out = asked.run()
    assert status == 0 and out.count("equal, A/A 1.000") == 3
    assert "A/A of 3: 1.000 to 1.000, mean 1.0000" in out
    assert "3 with equal machine code; geometric mean of all 1.0000" in out


@pytest.mark.deep
def test_launches_in_parts_with_scalars_and_scratch_memory_agree(asked: Asked) -> None:
    product = plan(SPLIT)
    assert len(product.launches) == 2
    asked.add("product", asked.side(product, 0.5), asked.side(bounded(product), 0.5))
    status, gpu, out = asked.run()
    assert status == 0, out
    assert gpu.early * 2 == len(gpu.launched) > 0


def test_a_case_that_this_tree_lost_fails_and_one_that_is_new_does_not(asked: Asked) -> None:
    asked.add("new", {"raised": "TypeError: no such argument"}, asked.side(plan(COPY), 0.5))
    status, _, out = asked.run()
    assert status == 0 and "1 cases that the older tree does not compute: new" in out
    asked.add("lost", asked.side(plan(COPY), 0.5), {"raised": "KeyError: 'x'"})
    status, _, out = asked.run()
    assert status == 1 and "lost: now: KeyError: 'x'" in out


def test_what_there_was_no_time_for_fails(asked: Asked) -> None:
    asked.add("turned", asked.side(plan(TRANSPOSE), 0.5), asked.side(bounded(plan(TRANSPOSE)), 0.4))
    status, _, out = asked.run(-1.0)
    assert status == 1 and "1 cases were not timed" in out


@pytest.mark.deep
def test_both_steps_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This tree as the older one too: what is stored is private, each CUBIN once, and equal on both sides."""
    adapter = kernel_images.ROOT / "tests" / "frozen" / "kernel_adapter.py"
    monkeypatch.setattr(kernel_images, "adapter_at", lambda revision, folder: adapter)
    cases = [("turned", TRANSPOSE), ("sum", SUM), ("none", {**TRANSPOSE, "m": 0}), ("again", TRANSPOSE)]
    folder = tmp_path / "kernels"
    kernel_images.prepared(folder, cases, kernel_images.ROOT, "any")
    turned, total, none, again = pairs(folder)
    assert turned.equal and total.equal and again.base == turned.base and not none.equal
    assert none.raised.startswith("base: ShapeError: m = 0") and not none.only_before
    assert len([*folder.glob("*.cubin")]) == 3 and folder.stat().st_mode & 0o77 == 0
    assert all(path.stat().st_mode & 0o77 == 0 for path in folder.iterdir())
    (folder / "mine.txt").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        kernel_images.prepared(folder, cases, kernel_images.ROOT, "any")


CLUSTER = norm_problem("softmax", (1, 1 << 19), 1, "f32")


@each("blocks", [1, 8, 16])
def test_a_case_is_loaded_with_the_clusters_and_the_residence_of_its_program(
    blocks: int, tmp_path: Path
) -> None:
    """More than 8 blocks are clusters that the driver has to be told of."""
    shared = NormConfig(4, 1, 512, "shared", 2, cluster=blocks)
    split = NormConfig(4, 1, 32, "global", 2, 2, 4, resident=2)
    kernels = [kernel for c in (shared, split) for kernel in norm_launches(CLUSTER, config=c).kernels]
    launches = [
        SimpleNamespace(kernel=kernel, arguments=tuple(p.name for p in kernel.params)) for kernel in kernels
    ]
    code: Any = SimpleNamespace(grid=(1, 1, 1), threads=32, dynamic_bytes=0, dependent=False, image=b"")
    adapter: Any = SimpleNamespace(
        plan=lambda case: SimpleNamespace(launches=launches, buffers={}),
        compiled=lambda launch: SimpleNamespace(name=launch.kernel.name, **vars(code)),
    )
    store(tmp_path, b"")
    found = bench_kernels.sequence(side(adapter, {})[0], tmp_path).kernels
    assert [(x.cluster, x.cooperative) for x in found] == [(x.cluster, x.cooperative) for x in kernels]
    assert found[0].cluster == (blocks, 1, 1) and found[-1].cooperative


def test_a_folder_that_cannot_travel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_images, "MOST_BYTES", 100)
    store(tmp_path, b"0" * 101)
    with pytest.raises(SystemExit, match="more than the 100 that may travel"):
        write(tmp_path, [])


def test_without_a_gpu_the_second_step_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if gpu_status().available:
        pytest.skip("there is a GPU")
    assert bench_kernels.main(["--run", str(tmp_path)]) == 2
    assert "running kernels needs a GPU" in capsys.readouterr().err


def test_the_process_of_a_tree_imports_that_tree(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(kernel_images.__file__)), str(tmp_path), "no adapter", str(tmp_path)]
    ran = subprocess.run(command, input="[]", capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and f"not from {tmp_path}" in ran.stderr


def test_the_frozen_cases_and_further_ones_are_asked_for_once() -> None:
    names = [name for name, _ in bench_kernels.cases_of(5, 3)]
    assert len(names) == len(set(names)) >= 293 + 4
