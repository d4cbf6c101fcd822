"""Compiled kernels on disk: what is damaged is not believed, processes do not disturb each other."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from layoutalg.codegen.gpu import Cubin, cache_folder, clear, compile_cubin, cubin_cache, usage
from layoutalg.codegen.gpu.cubin_cache import cached_cubin, cubin_key, fetch
from tests.stand_ins.cache_faults import place, store

SOURCE = 'extern "C" __global__ void two(unsigned* p) { p[threadIdx.x] *= 2; }'
CUBIN = Cubin("two", "sm_80", bytes(range(256)) * 8, 16, 8, 4, 1024, "ptxas info\nline two")
KEY = "ab" * 32
AMONG, OTHER = "a" * 64, "cd" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "deep" / "cubins"
    cubin_cache._warned.clear()


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that were compiled."""
    seen: list[str] = []

    def counted(source: str, name: str, arch: str) -> Cubin:
        seen.append(f"{name} {arch}")
        return compile_cubin(source, name, arch)

    monkeypatch.setattr(cubin_cache, "compile_cubin", counted)
    return seen


def code(cubin: Cubin) -> Cubin:
    """Without the compiler's words, which tell how long it took."""
    return replace(cubin, log="")


def test_a_kernel_is_compiled_once(folder: Path, compiles: list[str]) -> None:
    first, second = (cached_cubin(SOURCE, "two", "sm_80", folder) for _ in range(2))
    assert first == second and code(first) == code(compile_cubin(SOURCE, "two", "sm_80"))
    assert compiles == ["two sm_80"]
    assert names_in(folder) == {cubin_key(SOURCE, "two", "sm_80")}
    assert usage(folder)[0] == 1 and usage(folder)[1] > len(first.image)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_key_depends_on_all_that_the_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [(SOURCE, "two", "sm_80"), (SOURCE + " ", "two", "sm_80"), (SOURCE, "three", "sm_80")]
    asked += [(SOURCE, "two", "sm_90a"), ("ab", "c", "sm_80"), ("a", "bc", "sm_80")]
    keys = {cubin_key(*one) for one in asked}
    for name, value in (("version", lambda: (99, 0)), ("compile_options", lambda arch: ("--other",)),
                        ("_MAGIC", b"layoutalg-cubin 2\n")):  # fmt: skip
        monkeypatch.setattr(cubin_cache, name, value)
        keys.add(cubin_key(*asked[0]))
    assert len(keys) == 9


def test_what_is_damaged_in_any_way_is_noticed(tmp_path: Path) -> None:
    """A byte that differs, an end that is missing, more behind it, another name, fields of another kind."""
    store(tmp_path, KEY, CUBIN)
    path = place(tmp_path, KEY)
    whole = path.read_bytes()
    assert len(whole) > 2300 and fetch(tmp_path, OTHER) is None
    wrong = [whole[:at] + bytes([whole[at] ^ (1, 0x80)[at % 2]]) + whole[at + 1 :]
             for at in (*range(400), *range(400, len(whole), 13), len(whole) - 1)]  # fmt: skip
    wrong += [whole[:length] for length in (*range(300), *range(300, len(whole), 37), len(whole) - 1)]
    for data in (*wrong, whole + b"\0", whole + whole):
        path.write_bytes(data)
        assert fetch(tmp_path, KEY) is None, f"{len(data)} bytes were believed"
    path.write_bytes(whole)
    assert fetch(tmp_path, KEY) == CUBIN
    path.rename(place(tmp_path, AMONG))
    assert fetch(tmp_path, AMONG) is None
    for field in ("16", 16.0, None, True, [16]):
        store(tmp_path, KEY, replace(CUBIN, registers=field))  # type: ignore[arg-type]
        assert fetch(tmp_path, KEY) is None


def test_a_damaged_entry_is_compiled_again(folder: Path, compiles: list[str]) -> None:
    expected = cached_cubin(SOURCE, "two", "sm_80", folder)
    path = place(folder, cubin_key(SOURCE, "two", "sm_80"))
    path.write_bytes(path.read_bytes()[::-1])
    again = cached_cubin(SOURCE, "two", "sm_80", folder)
    assert code(again) == code(expected)
    assert fetch(folder, path.name) == again == cached_cubin(SOURCE, "two", "sm_80", folder)
    path.unlink()
    path.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert code(cached_cubin(SOURCE, "two", "sm_80", folder)) == code(expected)
    assert code(cached_cubin(SOURCE, "two", "sm_80", None)) == code(expected)
    assert len(compiles) == 4, "the first time, anew, beside a folder, and without a cache"


@pytest.mark.parametrize("kind", ["a file", "below a file", "writable by everybody"])
def test_a_folder_that_cannot_be_used_is_said_once(tmp_path: Path, folder: Path, kind: str) -> None:
    path = tmp_path / "place"
    if kind == "writable by everybody":
        path.mkdir()
        path.chmod(0o777)
    else:
        path.write_text("taken")
    folder = path / "below" if kind == "below a file" else path
    with pytest.warns(RuntimeWarning, match="are not kept in") as said:
        cached_cubin(SOURCE, "two", "sm_80", folder)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached_cubin(SOURCE, "two", "sm_80", folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="no folder is read-only for root")
def test_a_read_only_folder_is_read(folder: Path, compiles: list[str]) -> None:
    cached_cubin(SOURCE, "two", "sm_80", folder)
    folder.chmod(0o500)
    cached_cubin(SOURCE, "two", "sm_80", folder)
    assert len(compiles) == 1
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        cached_cubin(SOURCE, "two", "sm_75", folder)
    folder.chmod(0o700)


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nobody")
    home, usual = Path("/nobody/.cache/layoutalg/cubins"), {"XDG_CACHE_HOME": "/var/tmp/caches"}
    for variables, wanted in (
        ({}, home), ({"XDG_CACHE_HOME": "relative", "LAYOUTALG_CACHE": ""}, home),
        (usual, Path("/var/tmp/caches/layoutalg/cubins")),
        (usual | {"LAYOUTALG_CACHE": "/mine"}, Path("/mine")), (usual | {"LAYOUTALG_CACHE": "off"}, None),
        ({"LAYOUTALG_CACHE": "~/kept"}, Path("/nobody/kept")), ({"LAYOUTALG_CACHE": "~no-such-user/k"}, None),
    ):  # fmt: skip
        assert cache_folder(variables) == wanted

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder({}) is None


def filled(folder: Path, *used: float) -> list[str]:
    """The names of entries of a part that were stored, and used at these times."""
    names = [f"a{n + 1:063x}" for n in range(len(used))]
    for name, at in zip(names, used, strict=True):
        store(folder, name, CUBIN)
        os.utime(folder / "a" / name, (at, at))
    return names


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if not path.is_dir()}


def test_those_used_longest_ago_are_removed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not of the cache stays."""
    others, now = {"notes.txt", KEY[:-1], KEY.upper(), "x" * 64}, time.time()
    keys = filled(tmp_path, *(now - 1000 + n for n in range(8)))
    part, each = tmp_path / "a", (tmp_path / "a" / keys[0]).stat().st_size
    for name in (*others, ".new-young", ".new-old"):
        (part / name).write_bytes(b"x" * 100)
    os.utime(part / ".new-old", (1, 1))
    (part / AMONG).symlink_to(part / "notes.txt")
    assert fetch(tmp_path, keys[0]) == CUBIN  # used now: the youngest of all
    monkeypatch.setattr(cubin_cache, "LIMIT_BYTES", 16 * (3 * each + 100))
    store(tmp_path, KEY, CUBIN)
    assert names_in(tmp_path) == {KEY, keys[0], keys[7], AMONG, ".new-young", *others}
    assert clear(tmp_path) == 4 and usage(tmp_path) == (0, 0) and names_in(tmp_path) == others


def test_a_clock_that_was_set_back_keeps_no_entry_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote in the future is older than all that is used now, and its left files are left ones."""
    now = time.time()
    _, *kept, _ = filled(tmp_path, now + 86400, now + 30, now - 5, now + 1e9)
    (tmp_path / "a" / ".new-left").write_bytes(b"x" * 100)
    os.utime(tmp_path / "a" / ".new-left", (now + 86400, now + 86400))
    each = (tmp_path / "a" / kept[0]).stat().st_size
    monkeypatch.setattr(cubin_cache, "LIMIT_BYTES", 16 * 3 * each)
    store(tmp_path, KEY, CUBIN)
    assert names_in(tmp_path) == {*kept, KEY}


def test_every_store_keeps_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is cleaned on its own: entries of another one stay."""
    monkeypatch.setattr(cubin_cache, "LIMIT_BYTES", 16 * 10_000)
    store(tmp_path, OTHER, CUBIN)
    store(tmp_path, f"ff{0:062x}", CUBIN)
    (tmp_path / "f" / ".new-other").write_bytes(b"x" * 2000)
    for n in range(1, 30):
        store(tmp_path, f"ff{n:062x}", CUBIN)
        assert fetch(tmp_path, f"ff{n:062x}") == CUBIN
        assert sum(p.stat().st_size for p in (tmp_path / "f").iterdir()) <= 10_000
    assert usage(tmp_path) == (4, sum((tmp_path / "f" / x).stat().st_size for x in names_in(tmp_path / "f"))
                               + (tmp_path / "c" / OTHER).stat().st_size)  # fmt: skip
    store(tmp_path, KEY, replace(CUBIN, image=b"x" * 10_000))
    assert fetch(tmp_path, KEY) is None and usage(tmp_path)[0] == 4, "what is larger than a part is not kept"


def churn(folder: Path, seed: int) -> list[int]:
    """Store, fetch and remove the same few entries many times; what was fetched and not right."""
    wrong = []
    for n in range(150):
        which = (n * 7 + seed) % 5
        cubin = replace(CUBIN, registers=which, image=bytes([which]) * 200_000)
        store(folder, f"{which:064x}", cubin)
        if fetch(folder, f"{which:064x}") not in (None, cubin):
            wrong.append(which)
        if n % 10 == seed:
            clear(folder)
    return wrong


@pytest.mark.deep
def test_several_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        assert list(pool.map(churn, [tmp_path] * 4, range(4))) == [[]] * 4
    assert not list(tmp_path.rglob(".new-*"))
    for which in range(5):
        found = fetch(tmp_path, f"{which:064x}")
        assert found is None or set(found.image) == {which}
