"""Softmax and layer norm on a GPU: random problems against NumPy, counters, the sanitizer."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from layoutalg.codegen.runtime import gpu_status

STATUS = gpu_status()
pytestmark = pytest.mark.skipif(not STATUS.available, reason=f"needs a GPU: {STATUS.reason}")


def test_600_random_norms_are_within_the_bound() -> None:
    from tests.gpu.norm_cases import wrong_cases

    assert list(wrong_cases(600)) == []


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_is_silent(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on PATH")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--target-processes", "application-only"]
    command += [sys.executable, "-m", "tests.gpu.norm_launch", "all"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert "launches correct" in run.stdout


def test_predicted_sectors_equal_the_hardware_counters() -> None:
    if shutil.which("ncu") is None:
        pytest.skip("ncu is not on PATH")
    from tests.gpu.norm_counters import CASES, measure

    for case in CASES:
        for row in measure(*case):
            assert row.predicted == row.measured or not row.exact, row
