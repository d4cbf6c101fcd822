"""The entry point of the console script, and the one place where an unforeseen failure gets an exit code.

The idea.  Exit code 1 says that a checked property fails, so nothing else may end with it.  A fault of the
input is an error of layoutalg.errors, which `app` turns into 2; everything else arrives here: memory that
ran out, a disk that is full, a library that does not import, and defects.  It ends with 3 and one
sentence.

Nothing heavy is imported before `main` runs: an interrupt while the rest is imported is as quiet as later.

Signals that end the command from outside: INT, TERM and HUP, with 128 and the number as the exit code.

The idea.  Each interrupts the command as Ctrl-C does, so that what it has begun is undone.  Python looks for
signals between its own instructions alone, and a library may compile for minutes: so a thread waits for the
number, which the system's handler writes into a pipe, and ends the process `GRACE_S` later, come what may.
What that leaves, as KILL does, the guard of `layoutalg.tools` removes.

Standard output and error of the command: every byte written, or it is known why not.

The idea.  A stream of Python's raises where a write fails, in the middle of a command or when the
interpreter ends, and an exception of either kind says nothing about the answer.  Here a write that fails is
remembered and all that follows is dropped, so that a command runs to its exit code; then `trouble` says
whether the answer has arrived.  A pipe whose reader has left is not an error.  A write that takes a part of
its bytes is continued.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn, TextIO

from layoutalg import __version__
from layoutalg.cli.refusals import INTERRUPTED, UNANSWERED, refuse
from layoutalg.errors import printable

_SHOWN = 300
"""Characters of a defect's own message that are shown."""


def main() -> NoReturn:
    """Run the command on sys.argv and exit with its code."""
    code = INTERRUPTED
    words, signals = sys.argv[1:], Signals()
    try:
        with checked_streams() as out, ending_signals(signals), warnings.catch_warnings():
            warnings.showwarning = _warn
            code = _run(words, signals)
            sys.stdout.flush()
            if out.trouble:
                code = UNANSWERED
                message = f"standard output: {out.trouble}; the answer is not whole"
                refuse([word for word in words if word != "--json"], "OSError", message)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(128 + signals.number if signals.number and code == INTERRUPTED else code)


def answer(words: Sequence[str]) -> int:
    """Answer a line, or refuse it; returns the exit code, and raises what is not foreseen."""
    if words and words[0] == "--version":
        print(f"layoutalg {__version__}")
        return 0
    from layoutalg.cli.app import run

    return run(words)


def _run(words: Sequence[str], signals: Signals) -> int:
    """The exit code of the command; it reports errors that are not foreseen."""
    try:
        return answer(words)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not an answer
        if signals.number:  # Python itself makes other errors of an interrupt, as while a class is made
            return INTERRUPTED
        refuse(words, type(error).__name__, _sentence(error))
        return UNANSWERED


def _warn(message: Warning | str, *place: object, **more: object) -> None:
    """Print a warning as a sentence, without the place in the source, which does not help a user."""
    sys.stderr.write(f"layoutalg: warning: {printable(' '.join(str(message).split()))}\n")


def _sentence(error: Exception) -> str:
    """Why there is no answer, and what to do about it."""
    match error:
        case MemoryError():
            return "memory ran out: the request is too large for this machine"
        case OSError():
            return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
        case ImportError():
            return f"a library that it needs cannot be imported: {error}"
    return (
        f"a defect of layoutalg {__version__}, not an answer: {type(error).__name__} in {_place(error)}: "
        f"{str(error)[:_SHOWN]}; please report it, with the command, to the project's issue tracker"
    )


def _place(error: Exception) -> str:
    """The innermost line of this package that an error came through."""
    places = [(frame.f_globals["__name__"], line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = [(name, line) for name, line in places if name.startswith("layoutalg")][-1]
    return f"{module}, line {line}"


GRACE_S = 3.0
"""Seconds that the command may take to end after a signal."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """The first signal that has come, 0 before."""

    def __init__(self) -> None:
        self.number = 0
        self.listens = True

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Take a signal; those that follow change nothing."""
        if self.listens and not self.number:
            self.number = number
            raise KeyboardInterrupt


@contextlib.contextmanager
def ending_signals(signals: Signals) -> Iterator[None]:
    """Raise KeyboardInterrupt within the block for a signal, and end the process soon after.

    A signal that is ignored, as nohup ignores HUP, stays so; in another thread than the main one nothing is
    done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_end_late, args=(reader,), daemon=True).start()
    pipe_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {s: signal.getsignal(s) for s in _ENDING if signal.getsignal(s) not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, signals.interrupt)
        yield
    finally:
        signals.listens = False
        signal.set_wakeup_fd(pipe_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)


def _end_late(reader: int) -> None:
    """End the process some time after its first signal of `_ENDING`; return when there will be none."""
    while number := os.read(reader, 1):
        if number[0] in _ENDING:
            time.sleep(GRACE_S)
            os._exit(128 + number[0])
    os.close(reader)


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


@contextlib.contextmanager
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
