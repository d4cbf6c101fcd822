"""Trust, limits and faults: caches, threads, tools, streams and files."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy
import pytest

from layoutalg import tools
from layoutalg.codegen.gpu import runtime
from layoutalg.errors import CompileError
from layoutalg.kernels.calls.arrays import view
from layoutalg.layout import is_symbolic
from layoutalg.testing import compile_shared
from tests.command import answer, refusal, run
from tests.test_tools import gone

ROOT = Path(__file__).parents[2]


# --- threads -------------------------------------------------------------------------------------------

IMPORTED_MEANWHILE = """
import sys, threading, time
from layoutalg import Layout, coalesce
from layoutalg.layout import is_symbolic
from tests.command import answer, refusal, run
from tests.test_tools import gone
wrong, ready, done = [], threading.Event(), threading.Event()
def ask():
    while not done.is_set():
        ready.set()
        try:
            assert not is_symbolic(8)
            assert str(coalesce(Layout((2, 4), (1, 2)))) == "8:1"
        except Exception as error:
            wrong.append(repr(error))
        time.sleep(1e-4)
asking = threading.Thread(target=ask)
asking.start()
ready.wait()
import sympy
done.set()
asking.join()
print(len(wrong), *wrong[:1])
"""


@pytest.mark.deep
def test_threads_work_while_one_imports_sympy() -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED_MEANWHILE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.stdout == "0\n", run.stdout + run.stderr


@pytest.mark.parametrize("library", ["sympy", "torch", "cupy"])
def test_a_library_whose_import_has_just_begun_is_not_there_yet(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, ModuleType(library))
    assert not is_symbolic(8)
    assert view(numpy.zeros(3, "f4")).form.library == "numpy"


@pytest.mark.parametrize(
    "raised", ["ImportError('numpy is too new')", "AttributeError('x')", "OSError(5, 'y')"]
)
def test_a_cupy_that_does_not_import_is_a_gpu_that_is_not_there(
    raised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cupy.py").write_text(f"raise {raised}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    status = runtime.gpu_status()
    assert not status.available
    assert status.reason.startswith("cupy is installed but cannot be imported (")
    assert "cupy" not in sys.modules


# --- tools ---------------------------------------------------------------------------------------------

ENDLESS = """
template <unsigned long n, unsigned long m> struct F {
  static constexpr unsigned long value = F<n - 1, 2 * m>::value + F<n - 1, 2 * m + 1>::value;
};
template <unsigned long m> struct F<0, m> { static constexpr unsigned long value = m; };
extern "C" unsigned long f() { return F<26, 1>::value; }
"""


def test_a_compile_that_takes_too_long_leaves_no_compiler_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CompileError, match=r"no answer within 0\.5 s") as caught:
        compile_shared(ENDLESS, timeout_s=0.5)
    assert gone(caught.value.source)


@pytest.mark.deep
def test_a_compile_that_takes_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tools, "MEMORY_BYTES", 150 << 20)
    with pytest.raises(CompileError, match="memory"):
        compile_shared(ENDLESS, timeout_s=60)


# --- streams and files ---------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_is_nearly_full_does_not_cut_the_text_silently(tmp_path: Path, unbuffered: str) -> None:
    """A limit of file sizes stands for it: the write that meets it takes a part.

    Python would write its own compiled modules in part as well, which every later import would trip over.
    """
    path = tmp_path / "k.cu"
    script = f'ulimit -f 4; "$@" > {path}'
    quiet = {"PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}
    start = ["-c", "from layoutalg.cli import main; main()", "generate", "gemm-sm80"]
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, *start], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, **quiet}, check=False,
    )  # fmt: skip
    assert path.stat().st_size == 2048
    assert done.returncode == 3 and "File too large; the answer is not whole" in done.stderr


def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("kept")
    path.chmod(0o444)
    error, message = refusal("draw", "(4,8):(8,1)", "-o", str(path))
    assert (error, message) == ("OSError", f"{path}: the file is read-only")
    assert path.read_text() == "kept" and path.stat().st_mode & 0o777 == 0o444


def test_escapes_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = str(tmp_path / "a\x1b]0;owned\x07\x9b31m\u202eb")
    for words in (
        ("draw", "(4,8):(8,1)", "-o", name + ".txt"),
        ("draw", "(4,8):(8,1)", "-o", f"{name}/x.txt"),
        ("generate", "transpose", "-o", name + ".cu"),
        ("analyze", "--offsets", name, "--op", "ld.shared.b32"),
        ("explain", name),
        (name,),
    ):
        result = run(*words)
        shown = result.stdout + result.stderr
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown), shown
        assert "\\x1b" in shown


# --- the cache of compiled kernels ---------------------------------------------------------------------


def test_clearing_removes_all_that_the_cache_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    part = tmp_path / "1"
    part.mkdir(0o700)
    kept = part / "notes.txt"
    kept.write_text("mine")
    (part / ("1" * 64)).write_bytes(b"layoutalg-cubin 9\n of a later version")
    (part / ("2" * 64)).write_bytes(b"")
    (part / ("3" * 64)).symlink_to(kept)
    os.mkfifo(part / ("4" * 64))
    (part / ".new-young").write_bytes(b"half an entry")
    assert answer("doctor", "cache", "--clear")["removed"] == 4
    assert list(part.iterdir()) == [kept]
