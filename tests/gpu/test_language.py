"""The documented kernels of the kernel language on a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.gpu import to_device, to_host
from tests.gpu.tools import needs_gpu
from tests.mutants.texts import finding, listed

pytestmark = needs_gpu

SEED = 20261122
GPU_MUTANTS = [m for m in listed() if m.verdict == "gpu"]
DOCUMENT = Path(__file__).parents[2] / "docs" / "kernel_language.md"


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """The programs of the document by name."""
    found: dict[str, Any] = {}
    for text in re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S):
        names: dict[str, Any] = {"__name__": "document"}
        exec(compile(text, "document", "exec"), names)
        found |= {x.name: x for x in names.values() if isinstance(x, cg.Program)}
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


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (384, 512, 1024)])
def test_gemm_with_bias_and_gelu(documented: dict[str, Any], m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(SEED)
    a, b = (rng.standard_normal(shape).astype("f2") / 4 for shape in ((m, k), (n, k)))
    bias = rng.standard_normal(n).astype("f4")
    arrays = {"a": a, "b": b, "bias": bias, "d": np.full((m, n), np.nan, "f2")}
    found = launched(documented["gemm_bias_gelu"], {"m": m, "n": n, "k": k}, arrays, "d")
    x = a.astype("f8") @ b.astype("f8").T + bias
    wanted = x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2
    assert np.allclose(found, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["rotary_halves", "rotary_pairs"])
@pytest.mark.parametrize(("tokens", "heads"), [(1, 1), (37, 12), (2048, 32)])
def test_rotary(documented: dict[str, Any], name: str, tokens: int, heads: int) -> None:
    rng = np.random.default_rng(SEED)
    x, angles = rng.standard_normal((tokens, heads, 128)).astype("f2"), rng.uniform(0, 7, (tokens, 1, 64))
    cosines, sines = np.cos(angles).astype("f4"), np.sin(angles).astype("f4")
    arrays = {"x": x, "y": np.full_like(x, np.nan), "cosines": cosines, "sines": sines}
    found = launched(documented[name], {"tokens": tokens, "heads": heads}, arrays, "y").astype("f8")
    if name == "rotary_pairs":
        x, found = (y.reshape(tokens, heads, 64, 2).swapaxes(2, 3).reshape(x.shape) for y in (x, found))
    a, b = x[..., :64].astype("f8"), x[..., 64:].astype("f8")
    wanted = np.concatenate([a * cosines - b * sines, b * cosines + a * sines], 2)
    assert np.allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("number", range(len(GPU_MUTANTS)))
def test_the_text_of_an_instruction_is_verified_by_a_launch(number: int) -> None:
    """Mistakes that the simulator cannot see, since it runs what is stated."""
    mutant = GPU_MUTANTS[number]
    text = mutant.source.replace("cg.verify(kernel, ", 'cg.verify(kernel, target="gpu", reference=')
    assert finding(text)[0] == "result"
    assert finding(text.replace(mutant.new, mutant.old)) == ("", "")
