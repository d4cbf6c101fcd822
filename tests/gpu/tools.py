"""Marks of tests that need a GPU, and tools of the CUDA toolkit that they run other processes under."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from layoutalg.codegen.gpu import gpu_status

STATUS = gpu_status()
needs_gpu = pytest.mark.skipif(not STATUS.available, reason=f"needs a GPU: {STATUS.reason}")
needs_hopper = pytest.mark.skipif(
    not STATUS.arch.startswith("sm_90"), reason=f"needs a Hopper GPU: {STATUS.reason or STATUS.name}"
)


def tool(name: str) -> str:
    """The path of a tool; the test is skipped where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} of the CUDA toolkit is not on PATH")
    return found


def alone() -> None:
    """Skip a test that reads counters or clocks where other tests use the GPU at the same time."""
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.skip("reads counters or clocks of a GPU that others use: pytest -n 0 tests/gpu, or make gpu")


def counters() -> None:
    """Skip a test of counters where they cannot be read, or would count what others do."""
    tool("ncu")
    alone()


def sanitize(kind: str, module: str, *args: str) -> str:
    """Run a module under compute-sanitizer, which must find nothing; what was printed."""
    command = [tool("compute-sanitizer"), "--tool", kind, "--error-exitcode", "9"]
    command += ["--target-processes", "application-only", sys.executable, "-m", module, *args]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert "SUMMARY: 0 " in run.stdout, run.stdout[-4000:]
    return run.stdout
