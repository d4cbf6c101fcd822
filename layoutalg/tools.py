"""Programs that are not ours, run with an end: a compiler, a disassembler, graphviz's dot.

The idea.  A program that is asked too much takes hours or all memory, and what it has started goes on after
it: of a compiler that is ended, the part that compiles.  So each runs in a process group of its own, which
is ended as one, and under limits that all its processes inherit: `MEMORY_BYTES` of address space and as many
seconds of CPU time as it may take, which hold even where this process is killed.

>>> run_tool(["/bin/echo", "no; shell #"], timeout_s=60).out
b'no; shell #\\n'

Notes.  The limits are set by a fixed line of sh, which then becomes the program: arguments are handed over as
they are and are never read as a command.  (Setting them between fork and exec in Python is unsafe where there
are threads, and from outside it is too late for what a program starts at once.)
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

MEMORY_BYTES = 4 << 30
"""Address space of each process of a tool."""

_LIMITED = 'test "$1" = any || ulimit -S -v "$1" 2>&- || :; ulimit -S -t "$2" 2>&- || :; shift 2; exec "$@"'
"""Where the user's own limits are stricter, those hold."""


class Ran(NamedTuple):
    """How a program ended, and what it wrote."""

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
    process = subprocess.Popen(
        ["/bin/sh", "-c", _LIMITED, "sh", *limits, *command],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(fed, timeout_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"no answer within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            _end(process)
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
