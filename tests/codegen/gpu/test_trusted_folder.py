"""A folder whose files are believed: who may have written them, under any umask and while names change."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from layoutalg.codegen.gpu.trusted_folder import UntrustedError, trusted_folder
from tests.sweeps import each

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
def test_what_belongs_to_this_user_or_root_and_others_cannot_write_to_is_trusted(
    folder: Path, owners: Owners, owner: int
) -> None:
    """Folders that are not are refused, and files are not read; each time anew."""
    for mode in (0o600, 0o644, 0o444, 0o660, 0o602):
        owners.give(folder / NAME, owner)
        (folder / NAME).chmod(mode)
        assert read(folder) == (DATA if owner != THEIRS and not mode & 0o022 else None)
    owners.give(folder / NAME, MINE)
    (folder / NAME).chmod(0o600)
    for mode in (0o700, 0o755, 0o750, 0o770, 0o702, 0o1777, 0o720, 0o500):
        owners.give(folder, owner)
        folder.chmod(mode)
        if owner != THEIRS and not mode & 0o022:
            assert read(folder) == DATA
            continue
        with pytest.raises(UntrustedError) as refused:
            read(folder)
        why = "it belongs to another user" if owner == THEIRS else "others may write to it"
        assert refused.value.filename == str(folder) and str(refused.value.strerror).startswith(why)


@each("kind", ["fifo", "link", "dangling link", "folder", "socket", "large", "absent"])
def test_only_regular_files_of_some_size_are_read(kind: str, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / kind, tmp_path / "elsewhere"
    folder.mkdir(0o700)
    path = folder / NAME
    elsewhere.write_bytes(DATA)
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind in ("link", "dangling link"):
        path.symlink_to(elsewhere if kind == "link" else tmp_path / "nowhere")
    elif kind == "folder":
        path.mkdir(0o700)
    elif kind == "socket":
        with contextlib.chdir(folder):  # the name of a socket is short
            socket.socket(socket.AF_UNIX).bind(NAME)
    elif kind == "large":
        path.write_bytes(bytes(101))
        path.chmod(0o600)
    assert read(folder) is None
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


def test_a_write_that_fails_or_whose_file_is_removed_leaves_nothing(folder: Path) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    def removed() -> None:
        for path in folder.glob(".new-*"):
            path.unlink()

    with trusted_folder(folder) as opened:
        with pytest.raises(OSError, match="No space"):
            opened.write(NAME, b"new", full)
        opened.write("other", b"new", removed)
    assert [p.name for p in folder.iterdir()] == [NAME] and read(folder) == DATA
