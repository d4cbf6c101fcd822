"""Standard output and error of the command: every byte written, or it is known why not.

The idea.  A stream of Python's raises where a write fails, in the middle of a command or when the
interpreter ends, and an exception of either kind says nothing about the answer.  Here a write that fails is
remembered and all that follows is dropped, so that a command runs to its exit code; then `trouble` says
whether the answer has arrived.  A pipe whose reader has left is not an error.  A write that takes a part of
its bytes is continued.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_NONE = -1
"""In place of a descriptor that was closed from the start: what is opened later may have its number."""


class Output(io.RawIOBase):
    """A file descriptor that is written completely; the first error is kept in `error`, and ends writing."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.error: OSError | None = None

    def write(self, data: object, /) -> int:
        """Take all bytes, wherever they go."""
        left = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(left)
        while left and self.error is None:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # a pipe that its reader has made non-blocking
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.error = error
        return size

    def writable(self) -> bool:
        """Return True: the descriptor is only written."""
        return True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._descriptor != _NONE and os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The file descriptor; raises OSError where it was closed from the start."""
        if self._descriptor == _NONE:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor

    @property
    def trouble(self) -> str:
        """The reason why the written text has not arrived; "" where it has, or the reader has closed."""
        if self.error is None or self.error.errno == errno.EPIPE:
            return ""
        return self.error.strerror or str(self.error)


@contextmanager
def checked_streams() -> Iterator[Output]:
    """Put checked streams in place of the process's standard output and error; yields the first.

    What stands in place of those already, as in a test, is left there.  Characters that a stream's encoding
    lacks are replaced.  Closed descriptors are taken up, so that no file that is opened later is one of them.
    """
    before, out = (sys.stdout, sys.stderr), Output(_descriptor(sys.stdout, 1))
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free: this one
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(out, before[0], errors="replace", line_buffering=out.isatty())
    if sys.stderr is sys.__stderr__:
        error = Output(_descriptor(sys.stderr, 2))
        sys.stderr = _text(error, before[1], errors="backslashreplace", line_buffering=True)
    try:
        yield out
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _descriptor(stream: TextIO | None, number: int) -> int:
    return _NONE if stream is None else number


def _text(out: Output, like: TextIO | None, *, errors: str, line_buffering: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        out,  # type: ignore[arg-type]
        encoding=like.encoding if like is not None else "utf-8",
        errors=errors,
        line_buffering=line_buffering,
        write_through=bool(getattr(like, "write_through", False)),
    )
