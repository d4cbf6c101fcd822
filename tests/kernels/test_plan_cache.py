"""Plans on disk: what comes back is what was made, and another problem or other code is another entry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.gpu import ReadySequence, compile_sequence, cubin_cache
from layoutalg.kernels import FAMILIES, plan_cache
from layoutalg.kernels.gemm.problem import scalar_words
from layoutalg.kernels.plan_cache import code_id, plan_key
from layoutalg.kernels.rowwise.norm_modes import norm_problem
from tests.sequences import family_of, launches_of, problem_of

SPLIT = norm_problem("softmax", (1, 1 << 24), 1, "f32")
"""Of two kernels, with scratch memory between them."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cubins"
    cubin_cache._warned.clear()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Problems that were planned."""
    seen: list[str] = []

    compile_one = compile_sequence

    def counted(sequence: Any, arch: str) -> Any:
        seen.append(sequence.kernels[0].name)
        return compile_one(sequence, arch)

    monkeypatch.setattr(plan_cache, "compile_sequence", counted)
    return seen


def ready(p: Any, arch: str, folder: Path | None) -> ReadySequence:
    """The best plan of a problem, from a folder."""
    return plan_cache.ready_sequence(family_of(p).name, p, arch, folder)


def key_of(p: Any, arch: str) -> str:
    """The name of its entry."""
    return plan_key(family_of(p).name, p, arch)


def test_a_plan_comes_back_as_it_was_and_is_planned_once(folder: Path, planned: list[str]) -> None:
    first, second = (ready(SPLIT, "sm_90a", folder) for _ in range(2))
    made = compile_sequence(launches_of(SPLIT, "sm_90a"), "sm_90a").ready()
    assert first == second == made and len(made.kernels) == 2 and made.scratch_bytes > 0
    assert planned == ["softmax_f32_statistics"]


def test_scalars_of_a_call_are_kept_with_the_plan(folder: Path, planned: list[str]) -> None:
    """One text computes products with any factor: its machine code is compiled once."""
    p = FAMILIES["gemm-simt"].problem(40, 24, 16)
    for alpha in (1.0, 2.0, 1.0):
        words = tuple(scalar_words(p, "alpha", alpha).items())
        (kernel,) = plan_cache.ready_sequence("gemm-simt", p, "sm_80", folder, words).kernels
        assert words[0][1] in [value for _, value in kernel.scalars]
    assert len(planned) == 2


def test_without_a_folder_everything_is_planned(planned: list[str]) -> None:
    p = problem_of("permute", (6, 40), (1, 0), "f32")
    assert ready(p, "sm_80", None) == ready(p, "sm_80", None)
    assert planned == ["permute_b32"] * 2


def test_a_damaged_entry_is_planned_again(folder: Path, planned: list[str]) -> None:
    p = problem_of("permute", (6, 40), (1, 0), "f32")
    first = ready(p, "sm_80", folder)
    path = folder / key_of(p, "sm_80")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert ready(p, "sm_80", folder) == first and path.read_bytes() == whole
    assert len(planned) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"kernels": None}, {"kernels": [{}]}, {"buffers": [["src", 1]]}, {"buffers": []},
        {"scratch_bytes": "0"}, {"kernels": [1]},
        {"kernels": [{"name": "k", "pointers": [5], "grid": [1, 1, 1], "threads": 32, "shared_bytes": 0,
                      "image_bytes": 0}]},
        {"kernels": [{"name": "k", "pointers": [], "grid": [1, 1, 1], "threads": 32, "shared_bytes": 0,
                      "image_bytes": 0, "dependent": False, "scalars": [[0]]}]},
    ],
)  # fmt: skip
def test_an_entry_of_other_fields_is_planned_again(
    folder: Path, planned: list[str], change: dict[str, Any]
) -> None:
    p = problem_of("permute", (6, 40), (1, 0), "f32")
    first, key = ready(p, "sm_80", folder), key_of(p, "sm_80")
    entry = cubin_cache.fetch_entry(folder, key)
    assert entry is not None
    cubin_cache.store_entry(folder, key, {**entry[0], **change}, entry[1])
    assert ready(p, "sm_80", folder) == first and len(planned) == 2


def test_an_entry_whose_code_is_cut_is_planned_again(folder: Path, planned: list[str]) -> None:
    first, key = ready(SPLIT, "sm_80", folder), key_of(SPLIT, "sm_80")
    entry = cubin_cache.fetch_entry(folder, key)
    assert entry is not None
    cubin_cache.store_entry(folder, key, entry[0], entry[1][:-1])
    assert ready(SPLIT, "sm_80", folder) == first and len(planned) == 2


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
    archive = tmp_path / "package.zip"
    archive.write_bytes(b"first")
    first = code_id(archive / "layoutalg")
    archive.write_bytes(b"second")
    assert code_id(archive / "layoutalg") != first == code_id_of(b"first", tmp_path)


def code_id_of(content: bytes, folder: Path) -> str:
    (folder / "package.zip").write_bytes(content)
    return code_id(folder / "package.zip" / "layoutalg")
