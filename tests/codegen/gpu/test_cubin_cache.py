"""Compiled kernels on disk: what is damaged is not believed, processes do not disturb each other."""

from __future__ import annotations

import errno
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
from layoutalg.codegen.gpu.cubin_cache import cached_cubin, cubin_key, evict, fetch, store
from layoutalg.codegen.gpu.trusted_folder import Folder, Item, Reserved, trusted_folder

SOURCE = 'extern "C" __global__ void two(unsigned* p) { p[threadIdx.x] *= 2; }'
CUBIN = Cubin("two", "sm_80", bytes(range(256)) * 8, 16, 8, 4, 1024, "ptxas info\nline two")
KEY = "ab" * 32
OTHER = "cd" * 32


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
    assert [p.name for p in folder.iterdir()] == [cubin_key(SOURCE, "two", "sm_80")]
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
    path = tmp_path / KEY
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
    path.rename(tmp_path / OTHER)
    assert fetch(tmp_path, OTHER) is None
    for field in ("16", 16.0, None, True, [16]):
        store(tmp_path, KEY, replace(CUBIN, registers=field))  # type: ignore[arg-type]
        assert fetch(tmp_path, KEY) is None


def test_a_damaged_entry_is_compiled_again(folder: Path, compiles: list[str]) -> None:
    expected = cached_cubin(SOURCE, "two", "sm_80", folder)
    path = folder / cubin_key(SOURCE, "two", "sm_80")
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
    """The names of entries that were stored, and used at these times."""
    names = [f"{n + 1:064x}" for n in range(len(used))]
    for name, at in zip(names, used, strict=True):
        store(folder, name, CUBIN)
        os.utime(folder / name, (at, at))
    return names


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_those_used_longest_ago_are_removed_first(tmp_path: Path) -> None:
    """What is not of the cache stays."""
    others, now = {"notes.txt", KEY[:-1], KEY.upper(), "x" * 64}, time.time()
    for name in (*others, ".new-young", ".new-old"):
        (tmp_path / name).write_bytes(b"x" * 100)
    os.utime(tmp_path / ".new-old", (1, 1))
    (tmp_path / OTHER).symlink_to(tmp_path / "notes.txt")
    keys = filled(tmp_path, *(now - 1000 + n for n in range(8)))
    assert fetch(tmp_path, keys[0]) == CUBIN  # used now: the youngest of all
    each = (tmp_path / keys[0]).stat().st_size
    assert evict(tmp_path, 8 * each + 100) == 0
    assert evict(tmp_path, 3 * each + 101) == 5
    left = {*others, OTHER, ".new-young"}
    assert names_in(tmp_path) == {keys[0], keys[6], keys[7], *left}
    assert evict(tmp_path, 0) == 3 and names_in(tmp_path) == left
    store(tmp_path, KEY, CUBIN)
    assert clear(tmp_path) == 2 and usage(tmp_path) == (0, 0) and names_in(tmp_path) == others


def test_a_clock_that_was_set_back_keeps_no_entry_for_ever(tmp_path: Path) -> None:
    """What it wrote in the future is older than all that is used now, and its left files are left ones."""
    now = time.time()
    _, *kept, _ = filled(tmp_path, now + 86400, now + 30, now - 5, now + 1e9)
    for name in (".new-left", ".new-room-left"):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (now + 86400, now + 86400))
    assert evict(tmp_path, 2 * (tmp_path / kept[0]).stat().st_size) == 2
    assert names_in(tmp_path) == set(kept)


def test_every_store_keeps_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin_cache, "LIMIT_BYTES", 10_000)
    (tmp_path / ".new-other").write_bytes(b"x" * 2000)
    for n in range(1, 30):
        store(tmp_path, f"ff{n:062x}", CUBIN)
        assert fetch(tmp_path, f"ff{n:062x}") == CUBIN
        assert sum(p.stat().st_size for p in tmp_path.iterdir()) == usage(tmp_path)[1] <= 10_000
    assert usage(tmp_path)[0] == 3
    store(tmp_path, KEY, replace(CUBIN, image=b"x" * 10_000))
    assert fetch(tmp_path, KEY) is None and usage(tmp_path)[0] == 3, "what is larger than all is not kept"


LIMIT, STEP = 120_000, 15_000
"""Bytes of a small cache, and those that a writer takes ahead in it."""


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Looks at all files of a small cache, in which 5 files are many."""
    seen: list[int] = []
    look = Folder.items

    def counted(opened: Folder) -> Iterator[Item]:
        seen.append(1)
        return look(opened)

    monkeypatch.setattr(Folder, "items", counted)
    for name, value in (("LIMIT_BYTES", LIMIT), ("MANY", 5), ("AHEAD", LIMIT // STEP), ("ALL_AHEAD", 3)):
        monkeypatch.setattr(cubin_cache, name, value)
    return seen


def test_a_writer_that_finds_many_entries_looks_once_for_many(tmp_path: Path, looks: list[int]) -> None:
    for n in range(240):
        store(tmp_path, f"ff{n:062x}", CUBIN)
        assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= LIMIT
    each = (tmp_path / f"ff{239:062x}").stat().st_size
    assert 240 * each > 4 * LIMIT, "most of them were removed"
    assert len(looks) <= 5 + 3 * (240 // (STEP // each) + 1)
    (ahead,) = tmp_path.glob(".new-room-*")
    kept = len(list(tmp_path.iterdir())) - 1
    assert usage(tmp_path) == (kept, kept * each) and ahead.stat().st_blocks == 0


def test_many_that_take_ahead_leave_the_entries(tmp_path: Path, looks: list[int]) -> None:
    filled(tmp_path, *[time.time()] * 30)
    for _ in range(40):  # writers that end, or idle, with what they have taken
        cubin_cache._reserved.clear()
        store(tmp_path, KEY, CUBIN)
    kept, size = usage(tmp_path)
    taken = sum(p.stat().st_size for p in tmp_path.glob(".new-room-*"))
    assert STEP < taken <= LIMIT // 3 and size >= LIMIT // 2 and kept > 20


def test_what_is_taken_ahead_counts_for_others_and_is_lost_with_its_file(
    tmp_path: Path, looks: list[int]
) -> None:
    filled(tmp_path, *[time.time()] * 8)
    before = len(looks)
    assert clear(tmp_path) == 8 and not names_in(tmp_path)
    store(tmp_path, KEY, CUBIN)
    assert len(looks) > before + 1, "the file was removed: looked again"
    assert fetch(tmp_path, KEY) == CUBIN
    with trusted_folder(tmp_path) as opened:
        held = opened.reserve(10)
        pid = os.fork()
        if not pid:
            held.release()
            os._exit(held.take(1))
        assert os.waitpid(pid, 0)[1] == 0, "a forked process has nothing of it"
        assert held.take(4) and held.take(6) and not held.take(1)
        held.release()
        assert not held.take(0)
        held.release()


def test_threads_that_write_at_once_take_ahead_once(
    tmp_path: Path, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread that stores while one has what was taken takes some itself: one of both is kept."""
    filled(tmp_path, *[time.time()] * 8)
    take, others = Reserved.take, [OTHER]

    def interrupted(mine: Reserved, nbytes: int) -> bool:
        taken = take(mine, nbytes)
        if others:
            name = others.pop()
            store(tmp_path, name, CUBIN)
            others.append(name)
        return taken

    monkeypatch.setattr(Reserved, "take", interrupted)
    descriptors = Path("/proc/self/fd")
    opened = len(names_in(descriptors))
    for _ in range(3):
        store(tmp_path, KEY, CUBIN)
        assert len(list(tmp_path.glob(".new-room-*"))) == 1
    assert len(names_in(descriptors)) == opened


def test_an_entry_is_kept_where_nothing_can_be_taken_ahead(
    tmp_path: Path, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without sparse files, a limit of files' sizes, or one that is gone."""
    resize = os.ftruncate

    def refused(descriptor: int, nbytes: int) -> None:
        if ".new-room-" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.EFBIG, "File too large")
        resize(descriptor, nbytes)

    monkeypatch.setattr(os, "ftruncate", refused)
    store(tmp_path, OTHER, CUBIN)
    opened = len(names_in(Path("/proc/self/fd")))
    filled(tmp_path, *[time.time()] * 9)
    assert usage(tmp_path)[0] == 10 and len(names_in(tmp_path)) == 10
    assert len(names_in(Path("/proc/self/fd"))) == opened
    monkeypatch.setattr(os, "ftruncate", resize)
    store(tmp_path, KEY, CUBIN)
    assert len(list(tmp_path.glob(".new-room-*"))) == 1
    monkeypatch.setattr(os, "ftruncate", refused)
    store(tmp_path, KEY, CUBIN)
    assert fetch(tmp_path, KEY) == CUBIN and not list(tmp_path.glob(".new-*"))


def churn(folder: Path, seed: int) -> list[int]:
    """Store, fetch and evict the same few entries many times; what was fetched and not right."""
    wrong = []
    for n in range(150):
        which = (n * 7 + seed) % 5
        cubin = replace(CUBIN, registers=which, image=bytes([which]) * 200_000)
        store(folder, f"{which:064x}", cubin)
        if fetch(folder, f"{which:064x}") not in (None, cubin):
            wrong.append(which)
        if n % 10 == seed:
            evict(folder, 600_000)
    return wrong


@pytest.mark.deep
def test_several_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        assert list(pool.map(churn, [tmp_path] * 4, range(4))) == [[]] * 4
    assert not list(tmp_path.glob(".new-*"))
    for which in range(5):
        found = fetch(tmp_path, f"{which:064x}")
        assert found is None or set(found.image) == {which}
