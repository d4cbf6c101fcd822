"""Plans on disk: what comes back is what was made, and another problem or other code is another entry."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg.codegen import LDG, STG, Instr, gpu, updated
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import LaunchSequence, launch_sequence
from layoutalg.errors import ResourceError
from layoutalg.kernels import FAMILIES, Candidate, Family, plan_cache
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.identity import code_id
from layoutalg.kernels.plan_cache import plan_key
from layoutalg.kernels.rowwise import norm_problem
from tests.draws.sequences import family_of, launches_of, problem_of
from tests.stand_ins.cache_faults import place
from tests.sweeps import each
from tests.tiles.boxes import Boxes, copy_program

SPLIT = norm_problem("softmax", (1, 1 << 24), 1, "f32")
"""Of two kernels, with scratch memory between them."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cubins"
    gpu.cubin_cache._warned.clear()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Problems that were planned."""
    seen: list[str] = []

    compile_one = gpu.compile_sequence

    def counted(sequence: Any, arch: str) -> Any:
        seen.append(sequence.kernels[0].name)
        return compile_one(sequence, arch)

    monkeypatch.setattr(plan_cache, "compile_sequence", counted)
    return seen


def ready(p: Any, arch: str, folder: Path | None) -> gpu.ReadySequence:
    """The best plan of a problem, from a folder."""
    return plan_cache.ready_sequence(family_of(p).name, p, arch, folder)


def key_of(p: Any, arch: str) -> str:
    """The name of its entry."""
    key = plan_key(family_of(p).name, p, arch)
    assert key is not None
    return key


def test_a_plan_comes_back_as_it_was_and_is_planned_once(folder: Path, planned: list[str]) -> None:
    first, second = (ready(SPLIT, "sm_90a", folder) for _ in range(2))
    made = gpu.compile_sequence(launches_of(SPLIT, "sm_90a"), "sm_90a").ready()
    assert first == second == made and len(made.kernels) == 2 and made.scratch_bytes > 0
    assert planned == ["softmax_f32_clear"]


def test_kernels_that_calls_share_are_compiled_once(planned: list[str]) -> None:
    plan_cache._compiled.cache_clear()
    p = FAMILIES["gemm-simt"].problem(40, 24, 16)
    first, second = (plan_cache.ready_sequence("gemm-simt", p, "sm_80", None) for _ in range(2))
    assert first == second and len(planned) == 1


@pytest.fixture
def loading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Replaces what loads a sequence on a GPU, for plans of a folder that is empty at first."""
    monkeypatch.setattr(plan_cache, "require_gpu", lambda: SimpleNamespace(arch="sm_90a", name=""))
    monkeypatch.setattr(plan_cache, "cache_folder", lambda: folder)

    def by(loaded: Any) -> None:
        monkeypatch.setattr(plan_cache, "load_sequence", loaded)
        plan_cache.plan_on_gpu.cache_clear()

    yield by
    plan_cache.plan_on_gpu.cache_clear()


def test_what_the_gpu_does_not_fit_is_planned_with_smaller_clusters(loading: Callable[[Any], None]) -> None:
    """A GPU that fits clusters of 5 blocks gets the best plan of at most 5; one that fits none, of none."""
    p, tried = norm_problem("softmax", (512, 262144), 1, "f32"), list[int]()

    def loaded(most: int, sequence: gpu.ReadySequence) -> None:
        tried.append(sequence.kernels[0].cluster[0])
        if tried[-1] > most:
            raise ResourceError("blocks per cluster", tried[-1], most)

    for most, last in ((16, 16), (5, 4), (1, 1)):
        tried.clear()
        loading(partial(loaded, most))
        plan_cache.plan_on_gpu("softmax", p, 0)
        assert tried[-1] == last and len(tried) <= 2


def test_a_gpu_that_keeps_fewer_blocks_gets_another_way(loading: Callable[[Any], None]) -> None:
    """Where not all blocks of a launch are resident, two launches that need not wait."""
    p, tried = norm_problem("softmax", (1, 1 << 26), 1, "f32"), []

    def loaded(sequence: gpu.ReadySequence) -> None:
        tried.append([kernel.cooperative for kernel in sequence.kernels])
        if any(tried[-1]):
            raise ResourceError("blocks that are resident", 264, 100)

    for _ in range(2):
        tried.clear()
        loading(loaded)
        plan_cache.plan_on_gpu("softmax", p, 0)
        assert tried == [[False, True], [False, False]]


PERMUTE = problem_of("permute", (6, 40), (1, 0), "f32")


def test_without_a_folder_everything_is_planned(planned: list[str]) -> None:
    assert ready(PERMUTE, "sm_80", None) == ready(PERMUTE, "sm_80", None) and planned == ["permute_b32"] * 2


NO_KERNEL = {
    "name": "k", "pointers": [], "grid": [1, 1, 1], "threads": 32, "shared_bytes": 0,
    "image_bytes": 0,
}  # fmt: skip
CHANGES: tuple[dict[str, Any] | None, ...] = (
    None, {}, {"kernels": None}, {"kernels": [{}]}, {"buffers": [["src", 1]]}, {"buffers": []},
    {"scratch_bytes": "0"}, {"kernels": [1]}, {"kernels": [{**NO_KERNEL, "pointers": [5]}]},
    {"kernels": [{**NO_KERNEL, "dependent": False, "scalars": [[0]]}]},
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_an_entry_that_is_damaged_or_of_other_fields_or_less_code_is_planned_again(
    folder: Path, planned: list[str], change: dict[str, Any] | None
) -> None:
    p = SPLIT if change == {} else PERMUTE
    first, key = ready(p, "sm_80", folder), key_of(p, "sm_80")
    path = place(folder, key)
    whole, entry = path.read_bytes(), gpu.cubin_cache.fetch_entry(folder, key)
    assert entry is not None
    if change is None:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        code = entry[1] if change else entry[1][:-1]
        gpu.cubin_cache.store_entry(folder, key, {**entry[0], **change}, code)
    assert ready(p, "sm_80", folder) == first and path.read_bytes() == whole and len(planned) == 2


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, planned: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept in .*file"):
        chain = ready(problem_of("sum", (4, 8), (1,), "f32"), "sm_80", tmp_path / "file")
    assert chain.kernels and len(planned) == 1


def test_the_key_depends_on_all_that_kernels_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [
        problem_of("permute", (6, 40), (1, 0), "f32"), problem_of("permute", (6, 40), (1, 0), "f16"),
        problem_of("sum", (6, 40), (1,), "f32"), problem_of("max", (6, 40), (1,), "f32"),
        *(norm_problem("layer_norm", (6, 40), 1, "f32", eps=eps) for eps in (1e-5, 1e-6)),
        norm_problem("layer_norm", (6, 40), 1, "f32", weight=True),
        norm_problem("layer_norm", (6, 40), 1, "f32", (40, 1), (40, 1), 0, 4),
        norm_problem("layer_norm", (6, 40), 1, "f32", in_place=True),
    ]  # fmt: skip
    keys = {key_of(p, arch) for p in problems for arch in ("sm_80", "sm_90a")}
    monkeypatch.setattr(plan_cache, "version", lambda: (99, 0))
    keys.add(key_of(problems[0], "sm_80"))
    monkeypatch.setattr(plan_cache, "compile_options", lambda arch: ("--other",))
    keys.add(key_of(problems[0], "sm_80"))
    monkeypatch.setattr(plan_cache, "_CODE", "other")
    keys.add(key_of(problems[0], "sm_80"))
    assert len(keys) == 2 * len(problems) + 3


@each("family", FAMILIES.values(), ids=lambda family: family.name)
def test_the_problems_of_all_families_are_data(family: Family) -> None:
    for asked in checks_of(family).verified:
        one, other = (plan_key(family.name, family.problem(**asked), "sm_90a") for _ in range(2))
        assert one == other is not None


# --- instructions of a user's own ----------------------------------------------------------------------


@dataclass(frozen=True)
class Applied:
    """A problem with an instruction in it, which shows that one's name alone."""

    instr: Instr

    def __repr__(self) -> str:
        return f"Applied({self.instr})"


def applied(p: Applied, config: Any, arch: Any) -> LaunchSequence:
    k = KernelBuilder("applied", threads=32)
    x, v = k.pointer("x", 4, writable=True), k.reg("v", 1)
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(p.instr, v)
    k.do(STG[4], k.at(x, k.tid), v)
    return launch_sequence([k.build()])


def step(constant: int) -> Applied:
    """v += constant, always by the same name."""
    text = f"void step(u32& v) {{ v += {constant}; }}"
    return Applied(Instr("step", (updated("v", 1),), text, lambda machine, group, v: v + constant))


@pytest.fixture
def with_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(iter(FAMILIES.values()))
    family = replace(
        first, name="applied", launches=applied, called=None,
        candidates=lambda p, arch: [Candidate(None)],
    )  # fmt: skip
    monkeypatch.setattr(plan_cache, "FAMILIES", {"applied": family})


@pytest.mark.usefixtures("with_steps")
def test_kernels_with_an_instruction_of_a_user_are_found_by_their_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect is a function, of which no key can say what it does; the name may be another's too."""
    compiled: list[str] = []
    monkeypatch.setenv("LAYOUTALG_CACHE", str(folder))

    def counted(source: str, name: str, arch: str) -> Any:
        compiled.append(source)
        return gpu.compile_cubin(source, name, arch)

    monkeypatch.setattr(gpu.cubin_cache, "compile_cubin", counted)
    assert plan_key("applied", step(1), "sm_90a") is None and repr(step(1)) == repr(step(2))
    made = [plan_cache.ready_sequence("applied", step(n), "sm_90a", folder).kernels[0] for n in (1, 2, 1, 2)]
    assert len(compiled) == 2 and len(set(compiled)) == 2
    assert made[0].name == made[1].name == "applied"
    assert made[0].image == made[2].image != made[1].image == made[3].image


def test_a_function_of_this_package_is_data_and_one_of_elsewhere_is_not() -> None:
    def of_tests() -> None:
        pass

    assert plan_key("max", (problem_of,), "sm_90a") is None and plan_key("max", (of_tests,), "sm_90a") is None
    assert plan_key("max", (code_id,), "sm_90a") != plan_key("max", (plan_key,), "sm_90a")
    assert plan_key("max", (1.0,), "sm_90a") != plan_key("max", (1,), "sm_90a")


# --- the code ------------------------------------------------------------------------------------------


def test_other_code_is_another_id(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    (part / "plan.py").write_text("WIDTH = 4")
    (tmp_path / "linked").symlink_to(part)
    ids = [code_id(tmp_path)]
    assert code_id(tmp_path) == ids[0]
    os.utime(part / "plan.py", (1, 1))
    assert code_id(tmp_path) == ids[0], "what is the same is the same, whenever it was written"
    (part / "plan.py").write_text("WIDTH = 8")  # of the same length
    os.utime(part / "plan.py", (1, 1))
    ids.append(code_id(tmp_path))
    (part / "plan.py").rename(part / "plans.py")
    ids.append(code_id(tmp_path))
    (tmp_path / "more.py").write_text("")
    ids.append(code_id(tmp_path))
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".#plan.py").symlink_to("somebody@somewhere.1234")  # an editor's lock
    (tmp_path / "itself").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.py")
    assert len(set(ids)) == 4 and code_id(tmp_path) == ids[-1]


def test_the_code_of_an_archive_is_the_archive(tmp_path: Path) -> None:
    ids, archive = [], tmp_path / "package.zip"
    for content in (b"first", b"second", b"first"):
        archive.write_bytes(content)
        ids.append(code_id(archive / "layoutalg"))
    assert ids[0] == ids[2] != ids[1]


def test_tensor_maps_and_clusters_are_kept_with_a_sequence() -> None:
    """And a map whose fields are of other kinds is no map."""
    kernel = copy_program(Boxes((40, 9), (64, 8), mode="128B"), 2)
    cubin: Any = SimpleNamespace(image=b"code")
    one = gpu.launchable(gpu.Prepared(kernel, "the text", cubin))
    ready = gpu.ReadySequence((one, replace(one, image=b"other")), (("src", "dst"),) * 2, 0)
    packed, image = plan_cache._packed(ready)
    assert plan_cache._unpacked(json.loads(json.dumps(packed)), image) == ready
    assert one.maps and one.cluster == (2, 1, 1) and one.source == "the text"
    for name, wrong in (("mode", "no mode"), ("dims", ["1", 2]), ("box", 3), ("nan_fill", 0)):
        read = json.loads(json.dumps(packed))
        read["kernels"][1]["maps"][0][1][name] = wrong
        assert plan_cache._unpacked(read, image) is None
