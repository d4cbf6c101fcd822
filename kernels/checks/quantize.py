"""Quantisations: the matrices on which they are verified, and the problems that are timed.

They are verified on numbers of all sizes, on ties between two elements, and on those that are not ordinary
(NaN, infinities, zeros, subnormal ones), and timed beside the driver's copy of as many bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy

from layoutalg.arch import SCALE_TILE
from layoutalg.codegen.gpu import device_copy, device_empty, random_normal, to_host
from layoutalg.codegen.instr import ONE
from layoutalg.kernels.checks.baselines import Launch
from layoutalg.kernels.checks.record import Bench, Checks, Expected, Pace, not_defined, square_cases
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.kernels.family import Family
from layoutalg.kernels.quantize import QuantizeProblem, quantized

TRIALS = ("wide", "ties", "special")
DTYPES, SIDES = ("bf16", "f32"), (4096, 8192)
VERIFIED = ({"shape": (37, 136)}, {"shape": (130, 64)}, {"shape": (3, 70)})
GLOBAL_SCALE = 0x3EC00000
"""0.375 as a float."""


def _buffers(p: QuantizeProblem, trial: str, seed: int) -> dict[str, Any]:
    rng = numpy.random.default_rng([seed, TRIALS.index(trial)])
    values: Any = rng.standard_normal(p.shape) * numpy.exp2(rng.integers(-30, 12, (p.shape[0], 1)))
    if trial == "ties":
        values = 1.0 * rng.integers(-255, 256, p.shape) * numpy.exp2(rng.integers(-9, 1, p.shape))
    elif trial == "special":
        ends = [numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1e-40, 3e38, 2.0**-126]
        values = numpy.where(rng.random(p.shape) < 0.03, rng.choice(ends, p.shape), values)
        values[:, :32] = rng.choice([0.0, -0.0], (p.shape[0], min(32, p.shape[1])))
    given = {"x": bits_of(values, p.dtype.name).ravel()}
    given |= {name: numpy.full(n, 0xA5, "u1") for name, n in zip(("q", "scales"), p.bytes[1:], strict=True)}
    return given | ({"global_scale": GLOBAL_SCALE} if p.format.scale == "ue4m3" else {})


def _expected(p: QuantizeProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    scale = numpy.array([given.get("global_scale", 0)], "u4").view("f4")[0]
    elements, scales = quantized(p, numbers_of(given["x"], p.dtype.name).reshape(p.shape), scale)
    return Expected("q", elements.ravel(), beside=Expected("scales", scales))


def _arrays(p: QuantizeProblem, n: int) -> dict[str, Any]:
    elems, half = p.shape[0] * p.shape[1], p.moved_bytes // 2
    written = {"q": p.bytes[1], "scales": p.bytes[2], "copied": half, "copy": half}
    x = random_normal(elems, n, p.dtype.name)
    return {"x": x, **{name: device_empty((size,), "u1") for name, size in written.items()}}


def _check(p: QuantizeProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """The first rows, a tile of scales high, have to be those of the definition."""
    ours()
    some = replace(p, shape=(min(p.shape[0], SCALE_TILE[0]), p.shape[1]))
    parts = zip(("x", "q", "scales"), some.bytes, strict=True)
    given = {name: to_host(arrays[name].view("u1")[:n]) for name, n in parts}
    words = given["x"].view(f"u{p.dtype.nbytes}")
    wanted = _expected(some, None, {"x": words, "global_scale": ONE["f32"][0]})
    off = [wanted.values != given["q"], wanted.beside and wanted.beside.values != given["scales"]]
    return not_defined(numpy.concatenate(off))


def checks(family: Family) -> Checks:
    """The checks of a family of quantisations."""
    return Checks(_buffers, _expected, lambda p: 8 * sum(p.bytes), VERIFIED, lambda p: TRIALS)


def bench(family: Family) -> Bench:
    """The benchmark of a family: a copy moves as many bytes, half of them read and half written."""
    copy = {"copy": lambda p, arrays: device_copy(arrays["copied"], arrays["copy"])}
    square = square_cases(lambda n, dtype: family.problem((n, n), dtype), DTYPES, SIDES)
    pace = Pace(11, sample_ms=3.0)
    return Bench(_arrays, copy, _check, square, limit="copy", pace=lambda p: pace)
