"""The documented kernels of the kernel language on a GPU, and families that no other module here runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.gpu import gpu_status, to_device, to_host
from layoutalg.kernels import FAMILIES, verify

pytestmark = pytest.mark.skipif(not gpu_status().available, reason="needs a GPU")

SEED = 20261122
DOCUMENT = Path(__file__).parents[2] / "docs" / "kernel_language.md"


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """The programs of the document by name."""
    found = {}
    for text in re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S):
        names: dict[str, Any] = {"__name__": "document"}
        exec(compile(text, "document", "exec"), names)
        found[names["kernel"].name] = names["kernel"]
    return found


def launched(kernel: Any, numbers: Mapping[str, Any], arrays: Mapping[str, Any], out: str) -> Any:
    """An array after one launch."""
    on_gpu = {name: to_device(x) for name, x in arrays.items()}
    cg.launch(kernel, {**numbers, **on_gpu})
    return to_host(on_gpu[out])


@pytest.mark.parametrize(("m", "n"), [(64, 64), (132, 200), (4096, 1028)])
def test_scaled_transpose(documented: dict[str, Any], m: int, n: int) -> None:
    src = np.random.default_rng(SEED).standard_normal((m, n)).astype("f4")
    arrays = {"src": src, "dst": np.full((n, m), np.nan, "f4")}
    found = launched(documented["scaled_transpose"], {"m": m, "n": n, "alpha": -1.5}, arrays, "dst")
    assert np.array_equal(found, np.float32(-1.5) * src.T)


def test_softmax(documented: dict[str, Any]) -> None:
    x = np.random.default_rng(SEED).standard_normal((1000, 4096)).astype("f4")
    found = launched(documented["softmax"], {"rows": len(x)}, {"x": x, "y": np.full_like(x, np.nan)}, "y")
    powers = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    assert np.allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 64), (512, 512, 1024)])
def test_gemm(documented: dict[str, Any], m: int, n: int, k: int) -> None:
    """Of small integers every sum is exact."""
    rng = np.random.default_rng(SEED)
    a, b = (rng.integers(-3, 4, shape).astype("f2") for shape in ((m, k), (n, k)))
    arrays = {"a": a, "b": b, "d": np.full((m, n), np.nan, "f4")}
    found = launched(documented["gemm"], {"m": m, "n": n, "k": k}, arrays, "d")
    assert np.array_equal(found, a.astype("f4") @ b.astype("f4").T)


@pytest.mark.parametrize("name", ["rms_norm", "relu", "gelu", "silu", "add"])
def test_families_that_no_other_module_runs(name: str) -> None:
    family = FAMILIES[name]
    for asked in family.verified:
        verify(family, family.problem(**asked), target="gpu", seed=SEED).require()
