"""Chains on disk: what comes back is what was made, and another problem or other code is another entry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.gpu import cubin_cache
from layoutalg.kernels import plan_cache as kept_chains
from layoutalg.kernels.chains import chain_of, find_problem, prepare_chain
from layoutalg.kernels.plan_cache import chain_key, code_id, kept_chain
from layoutalg.kernels.rowwise import norm_problem

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

    def counted(p: Any, arch: str) -> Any:
        seen.append(str(p))
        return chain_of(p, arch)

    monkeypatch.setattr(kept_chains, "chain_of", counted)
    return seen


def test_a_chain_comes_back_as_it_was_and_is_planned_once(folder: Path, planned: list[str]) -> None:
    first, second = (kept_chain(SPLIT, "sm_90a", folder) for _ in range(2))
    made = prepare_chain(chain_of(SPLIT, "sm_90a"), "sm_90a")
    assert first == second == made and len(made.kernels) == 2 and made.partial_bytes > 0
    assert planned == [str(SPLIT)]


def test_without_a_folder_everything_is_planned(planned: list[str]) -> None:
    p = find_problem("permute", (6, 40), (1, 0), "f32")
    assert kept_chain(p, "sm_80", None) == kept_chain(p, "sm_80", None)
    assert planned == [str(p)] * 2


def test_a_damaged_entry_is_planned_again(folder: Path, planned: list[str]) -> None:
    p = find_problem("permute", (6, 40), (1, 0), "f32")
    first = kept_chain(p, "sm_80", folder)
    path = folder / chain_key(p, "sm_80")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert kept_chain(p, "sm_80", folder) == first and path.read_bytes() == whole
    assert len(planned) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"kernels": None}, {"kernels": [{}]}, {"buffers": [["src", 1]]}, {"buffers": []},
        {"partial_bytes": "0"}, {"kernels": [1]},
        {"kernels": [{"name": "k", "pointers": [5], "grid": [1, 1, 1], "threads": 32, "shared_bytes": 0,
                      "image_bytes": 0}]},
    ],
)  # fmt: skip
def test_an_entry_of_other_fields_is_planned_again(
    folder: Path, planned: list[str], change: dict[str, Any]
) -> None:
    p = find_problem("permute", (6, 40), (1, 0), "f32")
    first, key = kept_chain(p, "sm_80", folder), chain_key(p, "sm_80")
    entry = cubin_cache.fetch_entry(folder, key)
    assert entry is not None
    cubin_cache.store_entry(folder, key, {**entry[0], **change}, entry[1])
    assert kept_chain(p, "sm_80", folder) == first and len(planned) == 2


def test_an_entry_whose_code_is_cut_is_planned_again(folder: Path, planned: list[str]) -> None:
    first, key = kept_chain(SPLIT, "sm_80", folder), chain_key(SPLIT, "sm_80")
    entry = cubin_cache.fetch_entry(folder, key)
    assert entry is not None
    cubin_cache.store_entry(folder, key, entry[0], entry[1][:-1])
    assert kept_chain(SPLIT, "sm_80", folder) == first and len(planned) == 2


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, planned: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept in .*file"):
        chain = kept_chain(find_problem("sum", (4, 8), (1,), "f32"), "sm_80", tmp_path / "file")
    assert chain.kernels and len(planned) == 1


def test_the_key_depends_on_all_that_kernels_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [
        find_problem("permute", (6, 40), (1, 0), "f32"), find_problem("permute", (6, 40), (1, 0), "f16"),
        find_problem("sum", (6, 40), (1,), "f32"), find_problem("max", (6, 40), (1,), "f32"),
        *(norm_problem("layer_norm", (6, 40), 1, "f32", eps=eps) for eps in (1e-5, 1e-6)),
        norm_problem("layer_norm", (6, 40), 1, "f32", weight=True),
        norm_problem("layer_norm", (6, 40), 1, "f32", (40, 1), (40, 1), 0, 4),
        norm_problem("layer_norm", (6, 40), 1, "f32", in_place=True),
    ]  # fmt: skip
    keys = {chain_key(p, arch) for p in problems for arch in ("sm_80", "sm_90a")}
    monkeypatch.setattr(kept_chains, "version", lambda: (99, 0))
    keys.add(chain_key(problems[0], "sm_80"))
    monkeypatch.setattr(kept_chains, "compile_options", lambda arch: ("--other",))
    keys.add(chain_key(problems[0], "sm_80"))
    monkeypatch.setattr(kept_chains, "_CODE", "other")
    keys.add(chain_key(problems[0], "sm_80"))
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
