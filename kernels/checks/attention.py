"""Attention: the data on which it is verified, the bound of its error, and the problems that are timed.

It is verified on numbers of N(0, 1), on scores so large that the first key or another one decides ("peaks"),
and with NaN in some rows of q, k and v, beside PyTorch's back ends.

Bounds.  Exponents of 2 are c (q k - max), made of sums of d products in floats and rounded; what they may be
off is t, and e^t - 1 the relative error of a weight.  It is rounded to the type of v, which u bounds, and of
f16 to a multiple of 2^-24.  Weights and results are sums of n in floats, and so are the sums of rows:

    |o - exact| <= (u + 2 t + n 2^-22) sum w |v| / sum w  +  half a place of o

The largest weight of a row is 1.  The logarithm of a sum is off by t + n 2^-22 and rounding.  A result may be
anything where a v of its column that the query does not see is not finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy

from layoutalg.codegen.gpu import device_empty, random_normal, to_host
from layoutalg.kernels import elements
from layoutalg.kernels.attention import AttentionProblem, attention_problem, by_tma, memory, reference
from layoutalg.kernels.checks.baselines import Launch, torch_attention
from layoutalg.kernels.checks.record import Bench, Checks, Expected, Pace, not_defined
from layoutalg.kernels.family import Family

TRIALS = ("normal", "peaks", "NaN")

VERIFIED = (
    {"shape": (1, 2, 200, 64), "causal": True},
    {"shape": (1, 1, 130, 128)},
)
"""Shapes (batch, heads, length, d): tiles that are cut, with a mask and without."""

CHECKED = 256
"""Queries whose results are compared before a problem is timed."""

CASES = tuple((b, 2048 // d, n, d) for d in (128, 64, 256) for b, n in ((16, 1024), (4, 4096), (1, 16384)))
"""Shapes that are timed: 2^14 queries in 2048 columns."""


def _buffers(p: AttentionProblem, trial: str, seed: int) -> dict[str, Any]:
    rng = numpy.random.default_rng([seed, TRIALS.index(trial)])
    given = {name: rng.standard_normal(p.shape(name)) for name in "qkv"}
    if trial == "peaks":
        given["k"][:, :, :: max(1, p.n // 3)] *= 64
    if trial == "NaN":
        given["q"][:, :, ::7, 3] = numpy.nan
        given["k"][:, :, p.n // 2, 5] = given["v"][:, :, p.n // 3, 7] = numpy.nan
    made = {name: elements.bits_of(x.ravel(), p.element.name) for name, x in given.items()}
    made["dst"] = elements.set_bits(prod(p.shape("o")), p.element.nbytes)
    return made | ({"lse": elements.set_bits(prod(p.shape("o")[:3]), 4)} if p.sums else {})


def errors(p: AttentionProblem, q: Any, k: Any, v: Any, o: Any, lse: Any) -> tuple[Any, Any]:
    """The bounds of o and lse, the definition's, for arrays of numbers; see the module's text."""
    with numpy.errstate(all="ignore"):
        size = [numpy.abs(numpy.nan_to_num(x)) for x in (q, k)]
        keys = numpy.repeat(size[1].max(axis=2, keepdims=True, initial=0), p.group, axis=1)
        largest = abs(p.scale) * (size[0] * keys).sum(axis=3, keepdims=True)
        t = numpy.expm1(largest * (p.d + 4) * 2.0**-23 + 2.0**-21)
        half = elements.HALF_PLACE[p.element.name]
        finite = numpy.isfinite(v)
        v = numpy.where(finite, v, 0)
        weighed = reference(p, q, k, numpy.abs(v))[0]
        rest = p.n * 2.0**-22
        least = 2.0**-25 * p.n * numpy.abs(v).max(initial=0) if p.element.name == "f16" else 0.0
        allowed = (half + 2 * t + rest) * weighed * (1 + half) + half * numpy.abs(o) + least
        sums = t[..., 0] + rest + numpy.abs(lse) * 2.0**-22
        bad = ~finite.all(axis=(0, 1, 3))
        hidden = numpy.repeat(~p.seen[:, bad] @ ~finite[:, :, bad], p.group, axis=1)
        allowed = numpy.nan_to_num(allowed) + elements.SMALLEST_SUM[p.element.name]
    return numpy.where(hidden, numpy.inf, allowed), numpy.where(numpy.isfinite(lse), sums, 0.0)


def _expected(p: AttentionProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    q, k, v = (
        elements.values_of(given[name][: prod(p.shape(name))], p.element.name).reshape(p.shape(name))
        for name in "qkv"
    )
    o, lse = reference(p, q, k, v)
    allowed, of_sums = errors(p, q, k, v, o, lse)
    places = numpy.arange(o.size).reshape(o.shape)
    beside = None
    if p.sums:
        rows = numpy.arange(lse.size).reshape(lse.shape)
        beside = Expected("lse", lse, of_sums, "f32", rows)
    return Expected("dst", o, allowed, p.element.name, places, beside)


def _array_bytes(p: AttentionProblem) -> int:
    return 8 * (sum(prod(p.shape(name)) for name in "qkvo") + p.batch * p.heads * p.m * p.n)


# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: AttentionProblem, n: int) -> dict[str, Any]:
    made = {x: random_normal(prod(p.shape(x)), 3 * n + i, p.element.name) for i, x in enumerate("qkv")}
    made["dst"] = device_empty((prod(p.shape("o")),), made["q"].dtype)
    return made | ({"lse": device_empty((prod(p.shape("o")[:3]),), "f4")} if p.sums else {})


def _by(backend: str, p: AttentionProblem, arrays: Mapping[str, Any]) -> Launch | None:
    if p.score is not None or p.left is not None or p.right not in (None, 0) or (p.right == 0 and p.shift):
        return None
    given = [arrays[name][: prod(p.shape(name))].reshape(p.shape(name)) for name in "qkv"]
    return torch_attention(backend, given, p.element.name, causal=p.right == 0, scale=p.scale, group=p.group)


def _check(p: AttentionProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """The results of some queries of the first head, whose keys do not depend on the others, have to be those
    of the definition."""
    ours()
    rows = min(p.m, CHECKED)
    first = p.m - rows if p.align == "bottom-right" else 0
    one = replace(p, batch=1, heads=1, group=1, m=rows, sums=False)
    begin = {"q": first * p.d, "k": 0, "v": 0, "dst": first * p.d}
    given = {
        x: to_host(arrays[x][at : at + prod(one.shape("o" if x == "dst" else x))]).view("u2")
        for x, at in begin.items()
    }
    wanted, element = _expected(one, None, given), p.element.name
    found = elements.values_of(given["dst"], element).reshape(wanted.values.shape)
    return not_defined(~elements.agrees(found, wanted.values, wanted.allowed, element))


def _cases(
    dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, AttentionProblem]]:
    for batch, heads, n, d in CASES:
        for causal in (False, True):
            for dtype in dtypes or ("bf16",):
                if sizes is None or n in sizes:
                    p = attention_problem(batch, heads, n, d=d, dtype=dtype, causal=causal, sums=False)
                    yield str(p), p


def checks(family: Family) -> Checks:
    """The checks of the family."""
    return Checks(_buffers, _expected, _array_bytes, VERIFIED, lambda p: TRIALS)


def bench(family: Family) -> Bench:
    """The benchmark of the family."""
    contenders = {name: lambda p, arrays, name=name: _by(name, p, arrays) for name in ("cudnn", "flash")}
    pace = Pace(9, sample_ms=3.0, sets=1)

    def notes(p: AttentionProblem, c: Any, arch: str) -> dict[str, int]:
        return {"memory bytes": sum(memory(p, c, arch)), "tma bytes": sum(by_tma(p, c))}

    return Bench(
        _arrays, contenders, _check, _cases, unit="TFLOP/s", work=lambda p: p.flops, pace=lambda p: pace,
        notes=notes,
    )  # fmt: skip
