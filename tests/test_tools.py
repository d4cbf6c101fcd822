"""Programs that are not ours: they end, with all that they started, and read no argument as a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from layoutalg import tools
from layoutalg.tools import run_tool

ROOT = Path(__file__).parents[1]


def running(mark: str) -> list[int]:
    """Processes that have a word in their command line, this one aside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        if mark.encode() in words and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def gone(mark: str) -> bool:
    """Whether no process has a word; those that were killed are given time to vanish."""
    for _ in range(600):
        if not running(mark):
            return True
        time.sleep(0.05)
    return False


def test_arguments_are_not_read_as_commands(tmp_path: Path) -> None:
    words = ["; touch owned", "$(touch owned)", "`touch owned`", "'", '"', "-n", "", "*", "\n", "sh"]
    code = "import sys; print(sys.argv[1:])"
    run = run_tool([sys.executable, "-c", code, *words], timeout_s=60)
    assert run.out.decode() == f"{words}\n" and run.status == 0
    assert not Path("owned").exists()


def test_status_output_and_messages_are_told_apart() -> None:
    run = run_tool(["sh", "-c", "echo out; echo err >&2; exit 7"], timeout_s=60)
    assert run == (7, b"out\n", b"err\n") and run.said == "err\nout"


def test_a_program_that_reads_nothing_may_be_fed() -> None:
    assert run_tool(["true"], timeout_s=60, fed=b"x" * (1 << 20)).status == 0


@pytest.mark.parametrize("script", ["sleep 300.25", "trap '' TERM; sleep 300.25", "sleep 300.25 & wait"])
def test_what_takes_too_long_is_ended_with_all_it_started(script: str) -> None:
    with pytest.raises(TimeoutError, match=r"no answer within 0\.3 s"):
        run_tool(["sh", "-c", script], timeout_s=0.3)
    assert gone("300.25")


def test_a_process_that_left_the_group_does_not_hold_us() -> None:
    """It keeps the pipes open, and is not waited for."""
    with pytest.raises(TimeoutError):
        run_tool(["setsid", "--fork", "sleep", "3.125"], timeout_s=0.3)
    for pid in running("3.125"):
        os.kill(pid, signal.SIGKILL)
    assert gone("3.125")


def test_an_interrupt_ends_the_program_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object, *args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tool(["sleep", "300.5"], timeout_s=60)
    assert gone("300.5")


def test_memory_of_what_talks_to_a_gpu_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MEMORY_BYTES", 1 << 27)
    asked = [sys.executable, "-c", "import mmap; mmap.mmap(-1, 1 << 30); print('mapped')"]
    assert run_tool(asked, timeout_s=60).status
    assert run_tool(asked, timeout_s=60, any_memory=True).out == b"mapped\n"


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MEMORY_BYTES", 1 << 30)
    run = run_tool([sys.executable, "-c", "x = bytearray(2 << 30)"], timeout_s=60)
    assert run.status == 1 and b"MemoryError" in run.err


def test_the_users_own_limits_stay() -> None:
    code = "ulimit -v 1000000; ulimit -t 5; "
    inside = (
        "from layoutalg.tools import run_tool; "
        "print(run_tool(['sh', '-c', 'ulimit -v; ulimit -t'], timeout_s=60).out.decode())"
    )
    run = subprocess.run(
        ["sh", "-c", code + 'exec "$@"', "sh", sys.executable, "-c", inside],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert run.stdout.split() == ["1000000", "5"], run.stderr


def test_what_outlives_a_killed_parent_ends_by_its_own_time() -> None:
    busy = ["sh", "-c", "while :; do :; done", "busy-after-its-parent"]
    code = f"from layoutalg.tools import run_tool; run_tool({busy!r}, timeout_s=1)"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    while not running("busy-after-its-parent"):
        assert parent.poll() is None
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    assert gone("busy-after-its-parent")
