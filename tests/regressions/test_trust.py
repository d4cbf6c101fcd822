"""Trust, limits and faults: caches, threads, tools, streams and files."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy
import pytest

from layoutalg import tools
from layoutalg.codegen import runtime
from layoutalg.errors import CompileError
from layoutalg.hostcc import compile_shared
from layoutalg.kernels.arrays import view
from layoutalg.symbols import is_symbolic
from tests.test_tools import gone

ROOT = Path(__file__).parents[2]


# --- threads -------------------------------------------------------------------------------------------

IMPORTED_MEANWHILE = """
import sys, threading, time
from layoutalg import Layout, coalesce
from layoutalg.symbols import is_symbolic
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


def test_a_compile_that_takes_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tools, "MEMORY_BYTES", 150 << 20)
    with pytest.raises(CompileError, match="memory"):
        compile_shared(ENDLESS, timeout_s=60)
