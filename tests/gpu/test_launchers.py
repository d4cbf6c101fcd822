"""Generated launchers on a GPU: a C++ program of two generated files, and modules for PyTorch and CuPy."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import gpu_status
from tests.command import answer
from tests.gpu.tools import needs_gpu
from tests.stand_ins.launchers import SOFTMAX, TRANSPOSE, linked
from tests.stand_ins.nvcc import needs_nvcc

pytestmark = needs_gpu

SEED = 20261123


@needs_nvcc
def test_two_generated_files_are_launched_from_one_program(tmp_path: Path) -> None:
    program = linked(tmp_path, gpu_status().arch)
    done = subprocess.run([program, "launch"], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout


def module(library: str, words: tuple[str, ...]) -> dict[str, Any]:
    """A generated module."""
    found: dict[str, Any] = {}
    exec(compile(answer("generate", *words, "--launcher", library)["source"], "launcher", "exec"), found)
    return found


def on_gpu(library: str, array: Any) -> Any:
    """A copy of an array as the library's."""
    if library == "torch":
        return pytest.importorskip("torch").from_numpy(array.copy()).cuda()
    return pytest.importorskip("cupy").asarray(array)


def on_host(array: Any) -> Any:
    return array.cpu().numpy() if hasattr(array, "cpu") else array.get()


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_modules_launch_and_refuse(library: str) -> None:
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((256, 128)).astype(np.float32)
    src, dst = on_gpu(library, x), on_gpu(library, np.zeros((128, 256), np.float32))
    transpose = module(library, TRANSPOSE)["launch"]
    transpose(src, dst, m=256, n=128, lds=128, ldd=256)
    assert on_host(dst).tobytes() == x.T.tobytes()
    with pytest.raises(ValueError, match="m = 258: 4 to 256, a multiple of 4, is accepted"):
        transpose(src, dst, m=258, n=128, lds=128, ldd=256)
    with pytest.raises(ValueError, match="src overlaps dst"):
        transpose(src, src.reshape(128, 256), m=256, n=128, lds=128, ldd=256)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_two_kernels_with_scratch_memory_between_them(library: str) -> None:
    x = np.random.default_rng(SEED).standard_normal((20000, 8)).astype(np.float32)
    src, dst = on_gpu(library, x), on_gpu(library, np.zeros_like(x))
    softmax = module(library, SOFTMAX)["launch"]
    for _ in range(3):
        softmax(src, dst)
    e = np.exp(x.astype(np.float64) - x.max(0))
    assert np.abs(on_host(dst) - e / e.sum(0)).max() < 1e-6


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_dynamic_shared_memory_and_a_scalar(library: str) -> None:
    n = 256
    rng = np.random.default_rng(SEED)
    a, b = (rng.integers(-3, 4, (n, n)).astype(np.float16) for _ in "ab")
    d = on_gpu(library, np.zeros((n, n), np.float16))
    product = module(library, ("gemm-sm80", "--m", "256", "--n", "256", "--k", "256"))["launch"]
    product(on_gpu(library, a), on_gpu(library, b), d, m=n, n=n, k=n, alpha=0.5)
    assert np.array_equal(on_host(d), (0.5 * (a.astype("f4") @ b.astype("f4").T)).astype(np.float16))
