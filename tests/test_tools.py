"""Programs that are not ours: they end, with all that they started, and read no argument as a command."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import pytest

from layoutalg import tools
from layoutalg.tools import Processes, run_tool
from tests.stand_ins.ending_faults import MARK, alive

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


def python(code: str, *start: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, started by some words."""
    words = [*start, sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)


def until(is_so: Callable[[], object]) -> bool:
    """Whether something becomes so; what was killed is given time to vanish."""
    for _ in range(600):
        if is_so():
            return True
        time.sleep(0.05)
    return False


def gone(mark: str) -> bool:
    """Whether no process has a word."""
    return until(lambda: not running(mark))


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


def test_memory_is_limited_but_for_what_talks_to_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MEMORY_BYTES", 1 << 27)
    asked = [sys.executable, "-c", "import mmap; mmap.mmap(-1, 1 << 30); print('mapped')"]
    assert run_tool(asked, timeout_s=60).status
    assert run_tool(asked, timeout_s=60, any_memory=True).out == b"mapped\n"
    monkeypatch.setattr(tools, "MEMORY_BYTES", 1 << 30)
    run = run_tool([sys.executable, "-c", "x = bytearray(2 << 30)"], timeout_s=60)
    assert run.status == 1 and b"MemoryError" in run.err


def test_the_users_own_limits_stay() -> None:
    limited = ["sh", "-c", 'ulimit -v 1000000; ulimit -t 5; exec "$@"', "sh"]
    inside = "print(run_tool(['sh', '-c', 'ulimit -v; ulimit -t'], timeout_s=60).out.decode())"
    assert python(f"from layoutalg.tools import run_tool; {inside}", *limited).stdout.split() == [
        "1000000",
        "5",
    ]


def killed(begun: Path, *words: str, cwd: Path = ROOT, **environment: str) -> None:
    """Start a process of Python, and kill it as soon as a file is there."""
    parent = subprocess.Popen([sys.executable, *words], cwd=cwd, env={**os.environ, **environment})
    while not begun.exists():
        assert parent.poll() is None
        time.sleep(0.01)
    parent.kill()
    parent.wait()


def test_a_killed_parent_takes_its_tools_with_it(tmp_path: Path) -> None:
    """One that waits, which no limit on CPU time ends, and its child."""
    busy = ["sh", "-c", f"sleep 300.75 & : >{tmp_path}/begun; wait"]
    killed(
        tmp_path / "begun", "-c", f"from layoutalg.tools import run_tool; run_tool({busy!r}, timeout_s=60)"
    )
    assert gone("300.75")


def test_a_killed_parent_takes_its_folders_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its own, and what a tool writes for itself."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    begun = tmp_path.with_name("begun")
    tool = ["sh", "-c", f"mktemp; : >{begun}; sleep 300.875"]
    code = (
        "from layoutalg.tools import private_folder, run_tool; "
        f"(private_folder() / 'file').touch(); run_tool({tool!r}, timeout_s=60)"
    )
    killed(begun, "-c", code)
    begun.unlink()
    assert gone("300.875")
    assert until(lambda: not list(tmp_path.iterdir())), list(tmp_path.rglob("*"))


def test_a_tool_does_not_begin_without_its_guard() -> None:
    """A parent that is killed before the guard knows of a tool has started nothing but a line of sh."""
    ran = subprocess.run(
        ["sh", "-c", tools._LIMITED, "sh", "any", "5", "echo", "begun"], stdin=subprocess.DEVNULL, check=False
    )
    assert ran.returncode


def test_a_folder_that_was_removed_is_made_anew() -> None:
    for _ in range(2):
        folder = tools.private_folder()
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        shutil.rmtree(folder.parent)


def test_a_copy_of_a_process_has_folders_of_its_own() -> None:
    """It ends without those of the process that it is a copy of."""
    folder = tools.private_folder()
    code = (
        "import os; from layoutalg.tools import private_folder; one = private_folder()\n"
        "if os.fork() == 0: raise SystemExit(private_folder().parent == one.parent)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), one.is_dir())"
    )
    run = python(code)
    assert (run.stdout, run.stderr) == ("0 True\n", "")
    folder.rmdir()


@pytest.mark.deep
def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    """Processes of a pool wait for work for ever where their owner was killed."""
    (tmp_path / "owner.py").write_text(
        "import pathlib, time\n"
        "from layoutalg.codegen.gpu import in_processes\n"
        "def work(n):\n    pathlib.Path(f'begun{n}').touch(); time.sleep(300)\n"
        "if __name__ == '__main__': in_processes(work, range(2))\n"
    )
    mark = secrets.token_hex(8)
    killed(tmp_path / "begun0", "owner.py", cwd=tmp_path, PYTHONPATH=str(ROOT), **{MARK: mark})
    assert until(lambda: not alive(mark)), "a worker is alive"


def test_an_interrupted_process_is_started_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was to read its work from an owner that is gone would end with a traceback."""
    dump = reduction.dump

    def interrupted(*given: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        dump(*given)

    monkeypatch.setattr(reduction, "dump", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = Processes().Process(target=abs, args=(-3,))
    with pytest.raises(KeyboardInterrupt):
        process.start()
    signal.signal(signal.SIGINT, before)
    process.join()
    assert process.exitcode == 0
