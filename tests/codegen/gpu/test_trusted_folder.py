"""A folder whose files are believed: who may have written them, under any umask and while names change."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from layoutalg.codegen.gpu.trusted_folder import UntrustedError, trusted_folder

NAME, DATA = "name", b"what was written"
MINE, ROOT, THEIRS = 1000, 0, 2000


class Owners:
    """Who owns which file, as `os.fstat` says: to give files away takes root."""

    def __init__(self) -> None:
        self.by_inode: dict[int, int] = {}
        self.fstat = os.fstat

    def give(self, path: Path, owner: int) -> None:
        self.by_inode[path.lstat().st_ino] = owner

    def seen(self, descriptor: int) -> os.stat_result:
        status = self.fstat(descriptor)
        fields = list(status)
        fields[stat.ST_UID] = self.by_inode.get(status.st_ino, MINE)
        return os.stat_result(fields)


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> Owners:
    """This user is MINE, and all files are theirs who were given them."""
    owners = Owners()
    monkeypatch.setattr(os, "fstat", owners.seen)
    monkeypatch.setattr(os, "geteuid", lambda: MINE)
    return owners


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "folder"
    with trusted_folder(path, create=True) as opened:
        opened.write(NAME, DATA)
    yield path


def read(folder: Path) -> bytes | None:
    with trusted_folder(folder) as opened:
        return opened.read(NAME, 100)


@pytest.mark.parametrize("owner", [MINE, ROOT, THEIRS])
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o750, 0o770, 0o702, 0o1777, 0o720, 0o500])
def test_folders_of_this_user_and_root_that_others_cannot_write_to_are_trusted(
    folder: Path, owners: Owners, owner: int, mode: int
) -> None:
    owners.give(folder, owner)
    folder.chmod(mode)
    if owner != THEIRS and not mode & 0o022:
        assert read(folder) == DATA
        return
    with pytest.raises(UntrustedError) as refused:
        read(folder)
    assert refused.value.filename == str(folder)
    why = "it belongs to another user" if owner == THEIRS else "others may write to it"
    assert str(refused.value.strerror).startswith(why)


@pytest.mark.parametrize("owner", [MINE, ROOT, THEIRS])
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444, 0o660, 0o602])
def test_files_of_this_user_and_root_that_others_cannot_write_to_are_trusted(
    folder: Path, owners: Owners, owner: int, mode: int
) -> None:
    owners.give(folder / NAME, owner)
    (folder / NAME).chmod(mode)
    trusted = owner != THEIRS and not mode & 0o022
    assert read(folder) == (DATA if trusted else None)


def test_what_is_decided_once_is_decided_again(folder: Path) -> None:
    assert read(folder) == DATA
    folder.chmod(0o777)
    with pytest.raises(UntrustedError, match="others may write"):
        read(folder)
    folder.chmod(0o700)
    assert read(folder) == DATA


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling link", "folder", "socket", "large", "absent"])
def test_only_regular_files_of_some_size_are_read(folder: Path, tmp_path: Path, kind: str) -> None:
    path = folder / NAME
    path.rename(tmp_path / "elsewhere")
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "folder":
        path.mkdir(0o700)
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket is short
        socket.socket(socket.AF_UNIX).bind(NAME)
        os.chdir(here)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(101)
        path.chmod(0o600)
    assert read(folder) is None


def test_a_device_is_not_read(tmp_path: Path) -> None:
    with trusted_folder(Path("/dev")) as devices:
        assert devices.read("zero", 100) is None


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077, 0o277, 0o777])
def test_folders_and_files_are_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "a" / "b" / "c"
    before = os.umask(umask)
    try:
        with trusted_folder(path, create=True) as opened:
            opened.write(NAME, DATA)
    finally:
        os.umask(before)
    assert [p.stat().st_mode & 0o777 for p in (path, path.parent, path.parent.parent)] == [0o700] * 3
    assert (path / NAME).stat().st_mode & 0o777 == 0o600 and read(path) == DATA


def test_a_folder_that_was_made_by_another_meanwhile_is_looked_at(
    tmp_path: Path, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, mkdir = tmp_path / "folder", Path.mkdir

    def quicker(self: Path, mode: int = 0o777) -> None:
        mkdir(self, 0o700)
        owners.give(self, THEIRS)
        mkdir(self, mode)

    monkeypatch.setattr(Path, "mkdir", quicker)
    with pytest.raises(UntrustedError, match="belongs to another user"), trusted_folder(path, create=True):
        pytest.fail("it was opened")


def test_an_open_folder_is_not_exchanged(folder: Path, tmp_path: Path) -> None:
    with trusted_folder(folder) as opened:
        folder.rename(tmp_path / "moved")
        folder.mkdir(0o700)
        (folder / NAME).write_bytes(b"forged")
        assert opened.read(NAME, 100) == DATA
        opened.write("other", b"more")
    assert (tmp_path / "moved" / "other").read_bytes() == b"more" and not (folder / "other").exists()


def test_nothing_forged_is_read_while_names_change(tmp_path: Path) -> None:
    """A thread exchanges the folder for one that others may write to, as fast as it can."""
    path, good, forged = tmp_path / "folder", tmp_path / "good", tmp_path / "forged"
    for place, data in ((good, DATA), (forged, b"forged")):
        with trusted_folder(place, create=True) as opened:
            opened.write(NAME, data)
    forged.chmod(0o777)
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            for place in (good, forged):
                place.rename(path)
                path.rename(place)

    exchanging = threading.Thread(target=exchange)
    exchanging.start()
    seen = {"read": 0, "refused": 0, "absent": 0}
    try:
        for _ in range(2000):
            try:
                assert read(path) == DATA
                seen["read"] += 1
            except UntrustedError:
                seen["refused"] += 1
            except FileNotFoundError:
                seen["absent"] += 1
    finally:
        done.set()
        exchanging.join()
    assert sum(seen.values()) == 2000


def test_a_write_that_fails_leaves_nothing(folder: Path) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    with trusted_folder(folder) as opened, pytest.raises(OSError, match="No space"):
        opened.write(NAME, b"new", full)
    assert [p.name for p in folder.iterdir()] == [NAME] and read(folder) == DATA


def test_a_file_that_is_removed_while_it_is_written_stays_removed(folder: Path) -> None:
    def removed() -> None:
        for path in folder.glob(".new-*"):
            path.unlink()

    with trusted_folder(folder) as opened:
        opened.write("other", b"new", removed)
    assert [p.name for p in folder.iterdir()] == [NAME]
