"""Random cases of every kind on a GPU against their definitions, sanitizers, counters beside predictions."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.draws.views import FOLDS
from tests.gpu.random_kernels import KINDS, wrong
from tests.gpu.tools import counters, needs_gpu, sanitize, tool

pytestmark = needs_gpu


@pytest.mark.parametrize(
    ("kind", "count"),
    [("norms", 600), ("permutes", 2000), ("reductions", 600), ("relayouts", 200), ("values", 300)],
)
def test_random_kernels_are_their_definition(kind: str, count: int) -> None:
    assert list(wrong(KINDS[kind], range(count))) == []


@pytest.mark.parametrize(
    "words",
    [
        "cross_entropies right 100", "products --seed 7 --cases 300",
        "products --seed 7 --cases 40 --most 700", "products --seed 7 --memcheck 40", "views --cases 1000",
        f"views --cases {300 * len(FOLDS)} --functions {' '.join(FOLDS)}",
    ],
)  # fmt: skip
def test_random_calls_are_their_definition(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On views of CuPy and PyTorch arrays: any strides and starts, NaN and infinities, ties, no elements."""
    module, *args = words.split()
    pytest.importorskip("torch")
    if "--memcheck" in args:
        tool("compute-sanitizer")
    monkeypatch.setenv("LAYOUTALG_CACHE", "off")  # the scripts set a folder of their own: undone afterwards
    assert import_module(f"tests.gpu.{module}").main(args) == 0


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("what", ["matrices", "norms", "permutes", "reductions"])
def test_the_sanitizer_is_silent(what: str, kind: str) -> None:
    assert "launches correct" in sanitize(kind, "tests.gpu.random_kernels", what, "plain")


@pytest.mark.parametrize(
    "words",
    [
        "kernel_counters 20261201 OUT --cases 4", "gemm_ladder gemm-sm80 4096", "gemm_ladder gemm-simt 2048",
        "gemm_ladder gemm-sm90 4096", "gemm_ladder chosen", "gemm_sm90_counters", "probe",
        "dram_probe counters OUT",
    ],
)  # fmt: skip
def test_no_prediction_is_refuted_by_a_counter(words: str, tmp_path: object) -> None:
    counters()
    module, *args = words.replace("OUT", f"{tmp_path}/out").split()
    assert import_module(f"tests.gpu.{module}").main(args) == 0
