"""What is no answer: streams that take no more, memory that runs out, defects, interrupts."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from layoutalg.cli import app as app_module
from layoutalg.cli import entry
from layoutalg.cli.entry import Output, Signals
from layoutalg.cli.refusals import EXIT_CODES, UNANSWERED
from layoutalg.errors import printable
from tests.command import run, validator

ROOT = Path(__file__).parents[2]


# --- streams -------------------------------------------------------------------------------------------


def test_a_write_is_continued_until_all_is_written() -> None:
    """A pipe that does not block takes a part at a time."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data, got = bytes(range(256)) * 2000, bytearray()

    def read() -> None:
        while part := os.read(reader, 7001):
            got.extend(part)

    reading = threading.Thread(target=read)
    reading.start()
    out = Output(writer)
    assert out.write(data) == len(data) and out.trouble == ""
    os.close(writer)
    reading.join()
    os.close(reader)
    assert bytes(got) == data


def test_a_reader_that_has_left_is_no_trouble() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    out = Output(writer)
    assert out.write(b"text") == out.write(b"more") == 4
    assert out.error is not None and out.error.errno == errno.EPIPE and out.trouble == ""
    os.close(writer)


@pytest.mark.parametrize(("descriptor", "trouble"), [(-1, "Bad file descriptor"), (None, "No space left on")])
def test_trouble_is_kept_and_ends_writing(descriptor: int | None, trouble: str) -> None:
    number = os.open("/dev/full", os.O_WRONLY) if descriptor is None else descriptor
    out = Output(number)
    assert out.write(b"text") == 4 and trouble in out.trouble
    first = out.error
    assert out.write(b"more") == 4 and out.error is first
    if descriptor is None:
        os.close(number)
    else:
        assert not out.isatty()
        with pytest.raises(OSError, match="Bad file descriptor"):
            out.fileno()


# --- what nobody foresaw -------------------------------------------------------------------------------

UNFORESEEN: list[tuple[BaseException, str]] = [
    (MemoryError(), "memory ran out: the request is too large for this machine"),
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    (OSError(errno.EMFILE, "Too many open files", "/dev/null"), "/dev/null: Too many open files"),
    (FileNotFoundError(2, "No usable temporary directory"), "No usable temporary directory"),
    (ImportError("numpy is too new"), "a library that it needs cannot be imported: numpy is too new"),
    (ZeroDivisionError("by \x1b[31m0\nhere"), r"ZeroDivisionError in layoutalg.cli.entry, line"),
    (RecursionError("too deep"), "please report it, with the command, to the project's issue tracker"),
    (AssertionError(), "a defect of layoutalg"),
    (KeyError("x" * 10**6), "a defect of layoutalg"),
]


@pytest.mark.parametrize(("raised", "part"), UNFORESEEN, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_unforeseen_is_one_sentence_and_exit_code_3(
    raised: BaseException, part: str, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken(words: Sequence[str]) -> int:
        raise raised

    monkeypatch.setattr(app_module, "run", broken)
    words = ["analyze", "4:1"] + ["--json"] * as_json
    assert entry._run(words, Signals()) == UNANSWERED == 3
    out, err = capsys.readouterr()
    if as_json:
        payload = json.loads(out)
        validator().validate(payload)
        assert (payload["error"], err) == (type(raised).__name__, "")
        sentence = payload["message"]
    else:
        assert out == "" and err.startswith("layoutalg analyze: ") and err.count("\n") == 1
        sentence = err
    assert part in sentence and "\x1b" not in sentence and len(sentence) < 700


def test_the_commands_own_error_of_a_file_is_bad_input_unless_no_other_name_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("draw", "(4,8):(8,1)", "-o", str(tmp_path / "x.txt"))
    for number, foreseen in ((errno.EACCES, True), (errno.EROFS, True), (errno.ENOSPC, False)):

        def broken(descriptor: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", broken)
        if foreseen:
            assert run(*words).exit_code == 2
        else:
            with pytest.raises(OSError, match="No space left on device"):
                run(*words)


def test_exit_codes_are_told() -> None:
    help_text = " ".join(run("--help").stdout.split())
    assert EXIT_CODES in help_text
    assert all(f" {code} " in EXIT_CODES for code in (0, 1, 2, 3, 130))


INTERRUPTED = (
    # what stands in argparse's place when the command imports it, and the exit code
    (f"signal.signal(signal.SIGINT, signal.default_int_handler)\nos.kill(os.getpid(), {int(signal.SIGINT)})\n"
     "time.sleep(60)", 130),
    *((f"class Field:\n    def __set_name__(self, *names): os.kill(os.getpid(), {int(number)}); [0] * 10\n"
       "class Row: field = Field()", 128 + number) for number in (signal.SIGTERM, signal.SIGHUP)),
    ("from layoutalg.cli import entry\nentry.GRACE_S = 0.1\nimport threading\n"
     "def hear_none(): time.sleep(60)\n"
     f"threading.Timer(0.2, os.kill, (os.getpid(), {int(signal.SIGTERM)})).start()\n"
     "try: hear_none()\nexcept KeyboardInterrupt: hear_none()", 128 + signal.SIGTERM),
)  # fmt: skip


@pytest.mark.parametrize(("text", "code"), INTERRUPTED, ids=("key", "term", "hup", "deaf"))
def test_a_signal_ends_the_command_quietly(text: str, code: int, tmp_path: Path) -> None:
    """While it imports, where Python makes a RuntimeError of it, and in a library that hears none."""
    (tmp_path / "argparse.py").write_text(f"import os, signal, time\n{text}")
    heard = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # below nohup it is ignored
    done = subprocess.run(
        [sys.executable, "-c", f"{heard}; from layoutalg.cli import main; main()", "help", "phase"],
        capture_output=True, text=True, check=False, timeout=30,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_what_controls_a_terminal_is_shown_as_an_escape() -> None:
    for number in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028, 0xDC80, 0xFEFF):
        shown = printable(f"a{chr(number)}b")
        assert shown == "a\nb" if number == 10 else (shown.isprintable() and "\\" in shown)
    assert printable("größer 行 \\") == "größer 行 \\"


def test_a_warning_is_one_sentence(capsys: Any) -> None:
    entry._warn(RuntimeWarning("not kept in 'a\x1b':\n  full"), RuntimeWarning, "file.py", 3)
    assert capsys.readouterr().err == "layoutalg: warning: not kept in 'a\\x1b': full\n"
