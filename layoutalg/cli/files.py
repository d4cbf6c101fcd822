"""Files of the command: read up to a limit, written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

from layoutalg.errors import ArgumentTypeError, shown
from layoutalg.limits import Most, text_of


def read_source(place: str) -> str:
    """The text of a source file, or of standard input where `place` is "-".

    Raises ParseError with line and column for bytes that are not UTF-8, ResourceError for a file past
    Most.TEXT, ArgumentTypeError for an expression in place of a file, OSError.
    """
    if re.search(r"[+*%^&|] *[\w(]", place) and not os.path.lexists(place):
        raise ArgumentTypeError(f"{shown(place)} is not a file; layoutalg identify --index reads expressions")
    return text_of(read_bytes(place, Most.TEXT), "standard input" if place == "-" else place)


def read_bytes(source: str, limit: Most) -> bytes:
    """The bytes of a file or of standard input; no more than one past the limit is read."""
    if source != "-":
        return limit.read(Path(source))
    raw = sys.stdin.buffer.read(limit.number + 1)
    limit.guard(len(raw), "size of standard input in bytes")
    return raw


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file through a temporary one in the same folder: readers see all of it, or what was there.

    A symbolic link stays and its target is written; a `private` file that is new is its owner's alone.
    Raises OSError naming `path`, also for what is not a regular file or may not be written.
    """
    try:
        target = path.resolve()
        if target.exists():
            if not target.is_file():
                raise OSError(errno.EINVAL, "not a regular file")
            if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
                raise OSError(errno.EACCES, "the file is read-only")
        _replace(target, data, 0o600 if private else 0o666 & ~_umask())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    except RuntimeError as error:  # what pathlib says of a link that leads to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error


def _replace(path: Path, data: bytes, new_mode: int) -> None:
    import tempfile  # dear to import, and most commands write no file

    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else new_mode
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
