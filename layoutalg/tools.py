"""Programs that are not ours, run with an end: a compiler, a disassembler, npm.

The idea.  A program with too large a task takes hours or all memory, and what it has started goes on after
it: the part of an ended compiler that compiles.  So each runs in a process group of its own, which
is ended as one, and under limits that all its processes inherit: `MEMORY_BYTES` of address space and as many
seconds of CPU time as it may take.

Nor does a program or a folder stay where this process is killed, which it cannot know beforehand.  A second
process, the guard, reads a pipe that this one holds open: when the pipe ends, however that came about, the
guard ends the groups that are still running and removes the folder that has all `scratch` folders in it.

>>> run_tool(["/bin/echo", "no; shell #"], timeout_s=60).out
b'no; shell #\\n'

Notes.  The limits are set by a fixed line of sh, which then becomes the program: arguments are handed over as
they are and are never read as a command.  (Setting them between fork and exec in Python is unsafe where there
are threads, and from outside it is too late for what a program starts at once.)  The line waits for an empty
line of input, so that nothing runs before the guard knows of it.  Linux would end a child with its parent
(PR_SET_PDEATHSIG), but not what the child has started, and with the thread that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import math
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import os
import pkgutil
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

MEMORY_BYTES = 4 << 30
"""Address space of each process of a tool."""

_LIMITED = """
read -r go || exit
test "$1" = any || ulimit -S -v "$1" 2>&- || :
ulimit -S -t "$2" 2>&- || :
shift 2; exec "$@"
"""
"""The shell that sets limits; where the user's own are stricter, those hold."""


class Ran(NamedTuple):
    """The end of a program, and what it wrote."""

    status: int
    out: bytes
    err: bytes

    @property
    def said(self) -> str:
        """Its messages, then its output, as text."""
        return (self.err + self.out).decode(errors="replace").strip()


def run_tool(command: Sequence[str], *, timeout_s: float, fed: bytes = b"", any_memory: bool = False) -> Ran:
    """Run a program to its end, with `fed` on its standard input; its messages are in English.

    With `any_memory` its address space is not limited: what talks to a GPU takes far more than it uses.

    Raises TimeoutError, with a sentence, when it takes longer than `timeout_s`: it and all that it started
    are ended then, as they are on an interrupt.  Raises OSError where no process can be started.

    >>> run_tool(["cat"], timeout_s=60, fed=b"text")
    Ran(status=0, out=b'text', err=b'')
    """
    limits = ["any" if any_memory else str(MEMORY_BYTES >> 10), str(math.ceil(timeout_s))]
    with scratch() as folder:
        # a program's own files go with it; the lock of NVIDIA's profiler is where others look for it
        own = {} if any_memory else {"TMPDIR": str(folder)}
        process = subprocess.Popen(
            ["/bin/sh", "-c", _LIMITED, "sh", *limits, *command],
            env={**os.environ, "LC_ALL": "C", **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        guard = _guard()
        try:
            guard.note(process.pid)
            out, err = process.communicate(b"\n" + fed, timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                _end(process)
            guard.note(-process.pid)
    return Ran(process.returncode, out, err)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group; its pipes are not read to the end, which others may hold."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


# --- what stays where this process is killed ---------------------------------------------------------------


def private_folder() -> Path:
    """A new folder for this user alone, which goes when this process ends, if not removed before.

    Raises OSError where none can be made.

    >>> folder = private_folder()
    >>> list(folder.iterdir()), folder.rmdir()
    ([], None)
    """
    return Path(tempfile.mkdtemp(dir=_guard().folder))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A `private_folder` that goes with the block.

    >>> with scratch() as folder:
    ...     _ = (folder / "file").write_text("text")
    >>> folder.exists()
    False
    """
    folder = private_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_with_parent(then: str = "", *given: object) -> None:
    """Let this process, which multiprocessing started, end as soon as the one that started it has ended.

    Pools do not: their processes wait for work for ever where their owner was killed.  `then` is called with
    what is `given`, a function as "package.module:name", which is imported only when this is in force:
    imports take longer than anything else that a process begins with.

    >>> end_with_parent("builtins:print", "ready")
    ready
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    if then:
        pkgutil.resolve_name(then)(*given)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold the first signal that the block is sent back until its end, where Python code takes signals.

    >>> with contextlib.suppress(KeyboardInterrupt), uninterrupted():
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("to the end")
    to the end
    """
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {n: handler for n in numbers if callable(handler := signal.getsignal(n))}
    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


class _Process(multiprocessing.context.SpawnProcess):
    def start(self) -> None:
        # Interrupted before it has written what to do, the owner would leave a process that reads nothing.
        with uninterrupted():
            super().start()


class Processes(multiprocessing.context.SpawnContext):
    """The context of multiprocessing whose processes begin anew, and are started whole."""

    Process = _Process


def _follow(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


_WATCH = """
umask 077; trap '' HUP INT TERM PIPE
mkdir -- "$1" || exit; echo
running=
while read -r word; do
    case $word in
        -*) rest=; for group in $running; do test "-$group" = "$word" || rest="$rest $group"; done
            running=$rest ;;
        *) running="$running $word" ;;
    esac
done
for group in $running; do kill -9 "-$group"; done
for attempt in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$1" && exit; sleep 0.1; done
"""
"""The guard: it receives each group that starts and, with a minus, each that has ended."""


class _Guard:
    """The process that cleans up after this one, and the folder that it made.  Raises OSError."""

    def __init__(self) -> None:
        self.folder = _temporary() / f"layoutalg-{secrets.token_hex(8)}"
        paths = filter(None, [os.defpath, os.environ.get("PATH")])
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self.folder)],
            env={**os.environ, "LC_ALL": "C", "PATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            bufsize=0,
            start_new_session=True,
        )
        ready = self._process.stdout.read(1) if self._process.stdout else b""
        if not ready:
            self.close()
            raise OSError(errno.EACCES, "no temporary folder can be made", str(self.folder))

    @property
    def watches(self) -> bool:
        """Whether it runs and its folder is there."""
        return self._process.poll() is None and self.folder.is_dir()

    def note(self, word: int) -> None:
        """Tell it of a group."""
        # it was killed, or closed meanwhile as this process ends; what runs still has its limits
        with contextlib.suppress(BrokenPipeError, ValueError):
            os.write(self._process.stdin.fileno(), f"{word}\n".encode())  # type: ignore[union-attr]

    def close(self) -> None:
        """Let it clean up, and wait until it has."""
        self.forget()
        self._process.wait()

    def forget(self) -> None:
        """Close the pipes: in a copy of this process, the guard is the other's."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


_guards: list[_Guard] = []
_starting = threading.Lock()


def _guard() -> _Guard:
    with _starting:
        if not _guards or not _guards[0].watches:
            _close()
            _guards[:] = [_Guard()]
        return _guards[0]


@atexit.register
def _close() -> None:
    for guard in _guards:
        guard.close()
    _guards.clear()


def _in_copy() -> None:
    global _starting
    _starting = threading.Lock()
    for guard in _guards:
        guard.forget()
    _guards.clear()


os.register_at_fork(after_in_child=_in_copy)


def _temporary() -> Path:
    """The folder of temporary folders, as Python's tempfile chooses it, but without writing a file there."""
    names = [tempfile.tempdir, *map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"]
    for folder in (Path(os.fsdecode(name)) for name in names if name):
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return folder.absolute()
    return Path.cwd()
