"""Signals that end the command from outside: INT, TERM and HUP, with 128 and the number as the exit code.

The idea.  Each interrupts the command as Ctrl-C does, so that what it has begun is undone.  Python looks for
signals between its own instructions alone, and a library may compile for minutes: so a thread waits for the
number, which the system's handler writes into a pipe, and ends the process `GRACE_S` later, come what may.
What that leaves, as KILL does, the guard of `layoutalg.tools` removes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

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
