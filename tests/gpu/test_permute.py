"""Permutes on a GPU: random problems against NumPy, predictions against counters, the sanitizer."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from layoutalg.codegen.runtime import gpu_status

STATUS = gpu_status()
pytestmark = pytest.mark.skipif(not STATUS.available, reason=f"needs a GPU: {STATUS.reason}")


def test_2000_random_permutes_equal_numpy() -> None:
    from tests.gpu.permute_cases import wrong_cases

    assert list(wrong_cases(2000)) == []


def test_arrays_of_two_libraries_on_their_streams() -> None:
    pytest.importorskip("torch")
    from tests.gpu.array_cases import wrong_permutes, wrong_reductions, wrong_refusals, wrong_streams

    assert [*wrong_permutes(), *wrong_reductions(), *wrong_streams(), *wrong_refusals()] == []


def test_formats_of_relayout() -> None:
    import cupy

    import layoutalg
    from layoutalg import Layout

    nhwc = Layout((16, 56, 56, (32, 4)), (401408, 7168, 128, (1, 32)))
    blocked = Layout((16, 56, 56, (32, 4)), (401408, 1792, 32, (1, 100352)))
    x = cupy.random.randint(0, 127, 16 * 56 * 56 * 128).astype("i1")
    expected = x.reshape(16, 56, 56, 4, 32).transpose(0, 3, 1, 2, 4).ravel()
    y = layoutalg.relayout(x, nhwc, blocked)
    assert bool((y == expected).all()) and bool((layoutalg.relayout(y, blocked, nhwc) == x).all())


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_is_silent(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on PATH")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--target-processes", "application-only"]
    command += [sys.executable, "-m", "tests.gpu.permute_launch", "all"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert "launches correct" in run.stdout


def test_predictions_equal_the_hardware_counters() -> None:
    if shutil.which("ncu") is None:
        pytest.skip("ncu is not on PATH")
    from tests.gpu.permute_counters import CASES, measure

    for case in CASES:
        for row in measure(*case):
            near = row.predicted < row.measured <= 1.2 * row.predicted
            assert row.predicted == row.measured or (not row.exact and near), row
