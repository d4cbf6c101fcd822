"""A folder whose files are believed: only this user and root can have put them there.

    with trusted_folder(path, create=True) as folder:
        folder.write("name", data)
        folder.read("name", limit_bytes)

The idea.  Machine code from a file runs in this process's name, and a digest proves no origin.  What proves
it is who could write: a folder and a file are trusted where their owner is this user or root and neither the
group nor others may write.  Names change under one's hands, open files do not: the folder is opened, looked
at and then only used through its descriptor, so that whoever can rename it or what lies above it exchanges
nothing; a file is opened without following links or waiting for a pipe's other end, and looked at then.
Nothing is remembered: each use opens the folder again.

Files are written under a name of their own and renamed, so that readers see one whole or not at all.

Source: open(2), O_NOFOLLOW; CERT C, FIO15-C "Ensure that file operations are performed in a secure directory"
and FIO45-C.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

TEMPORARY = ".new-"
"""The beginning of the names of files that are being written."""

MOST_LISTINGS = 8
"""The most listings of a folder in which others rename files all the time."""

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_WRITABLE_BY_OTHERS = 0o022


class UntrustedError(OSError):
    """A folder that is there and not to be trusted; `strerror` says why."""


class Item(NamedTuple):
    """A file of a folder: its size, when it was used last, and whether it is a regular one."""

    name: str
    size_bytes: int
    used: float
    regular: bool


class Folder:
    """A folder that is open; made by `trusted_folder`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, name: str, limit_bytes: int) -> bytes | None:
        """A file's content, None for one that is absent, not trusted or larger; marks it as used now."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or why_untrusted(status) or status.st_size > limit_bytes:
                return None
            data = _up_to(descriptor, limit_bytes)
            with contextlib.suppress(OSError):  # a folder that is only read from keeps the ages it has
                os.utime(descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return data if len(data) <= limit_bytes else None

    def write(self, name: str, data: bytes, make_room: Callable[[], object] = lambda: None) -> None:
        """Write a file whole or not at all; one that is removed meanwhile stays removed.  Raises OSError.

        `make_room` is called when the file has its size, but nothing is written yet.
        """
        temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor, renamed = os.open(temporary, flags, _PRIVATE_FILE, dir_fd=self._descriptor), False
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, _PRIVATE_FILE)  # whatever the umask has taken away
                os.ftruncate(descriptor, len(data))
                make_room()
                file.write(data)
            with contextlib.suppress(FileNotFoundError):
                os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
                renamed = True
        finally:
            if not renamed:
                self.remove(temporary)

    def remove(self, name: str) -> None:
        """Remove a file, or a link; nothing happens where it is absent.  Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def items(self) -> Iterator[Item]:
        """All that is in it but folders; what another process removes meanwhile is not there.

        A file that is gone under its name may have been given another one: it is looked for again.
        """
        seen: set[int] = set()
        for _ in range(MOST_LISTINGS):
            gone = False
            with os.scandir(self._descriptor) as listing:
                for entry in listing:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        gone = True
                        continue
                    kind = stat.S_IFMT(status.st_mode)
                    if kind != stat.S_IFDIR and status.st_ino not in seen:
                        seen.add(status.st_ino)
                        yield Item(entry.name, status.st_size, status.st_mtime, kind == stat.S_IFREG)
            if not gone:
                return


@contextlib.contextmanager
def trusted_folder(path: Path, *, create: bool = False, shared: bool = False) -> Iterator[Folder]:
    """A folder, opened; with `create` it is made where it is absent, and so are those above, all private.

    `shared` does not check who may write to it, which is enough to remove files.  Raises UntrustedError, and
    FileNotFoundError or another OSError for what cannot be opened or made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as base, trusted_folder(Path(base, "a", "b"), create=True) as made:
    ...     made.write("name", b"text")
    ...     made.read("name", 100), made.read("name", 3), made.read("other", 100)
    (b'text', None, None)
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        if not create:
            raise
        _make(path)
        descriptor = os.open(path, flags)
    try:
        why = why_untrusted(os.fstat(descriptor), shared=shared)
        if why:
            raise UntrustedError(0, why, str(path))
        yield Folder(descriptor)
    finally:
        os.close(descriptor)


def why_untrusted(status: os.stat_result, *, shared: bool = False) -> str:
    """Why a file's content may be another user's; "" where it may not.

    >>> why_untrusted(os.stat("/"))
    ''
    """
    if status.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    if status.st_mode & _WRITABLE_BY_OTHERS and not shared:
        return "others may write to it (chmod go-w mends that)"
    return ""


def _make(path: Path) -> None:
    """Make a folder, and those above it that are absent, each for this user alone under any umask."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path == path.parent:
            break
        path = path.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_PRIVATE_FOLDER)
            _open_up(folder)


def _open_up(folder: Path) -> None:
    """Give a new folder the rights that an unusual umask has taken from its owner."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and status.st_mode & 0o777 != _PRIVATE_FOLDER:
            Path(f"/proc/self/fd/{descriptor}").chmod(_PRIVATE_FOLDER)  # itself, whatever its name is now
    finally:
        os.close(descriptor)


def _up_to(descriptor: int, limit_bytes: int) -> bytes:
    """Read a file, and one byte past the limit of one that grows meanwhile."""
    parts, size = [], 0
    while size <= limit_bytes and (part := os.read(descriptor, min(1 << 20, limit_bytes + 1 - size))):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
