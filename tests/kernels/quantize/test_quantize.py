"""Quantisation: the definition against exact fractions, the kernel against the definition, and refusals."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layoutalg.arch import scale_layout
from layoutalg.codegen.instr import converted
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.checks.record import compare, copied
from layoutalg.kernels.quantize import QuantizeProblem, quantize_problem, quantized
from tests.sweeps import each

NAMES = ("quantize_nvfp4", "quantize_mxfp8", "quantize_mxfp4")
E2M1 = [Fraction(x) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]


def sizes_of(p: QuantizeProblem, codes: Any) -> list[Fraction]:
    """The sizes of the elements of the first row."""
    if p.result.bits == 4:
        return [E2M1[code & 7] for byte in codes[0] for code in (byte & 15, byte >> 4)]
    return [Fraction(abs(x)) for x in converted(codes[0], p.result.name, "f64").view("f8")]


@each("format", ["mxfp8", "mxfp4"])
def test_a_scale_is_the_least_power_of_two_and_elements_are_nearest(format: str) -> None:
    p = quantize_problem(format, (1, 32), "f32")
    most = Fraction(448 if format == "mxfp8" else 6)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((1, 32)).astype("f4") * np.float32(2.0) ** rng.integers(-100, 100)
        values[0, 0] = float(most) * 2.0 ** int(rng.integers(-100, 100)) if seed % 3 == 0 else values[0, 0]
        codes, scales = quantized(p, values.astype("f8"))
        scale = Fraction(2) ** (int(scales[0]) - 127)
        exact = [abs(Fraction(float(x))) / scale for x in values[0]]
        assert max(exact) <= most < 2 * max(exact)
        sizes = converted(np.arange(8 if format == "mxfp4" else 127, dtype="u1"), p.result.name, "f64")
        table = [Fraction(x) for x in sizes.view("f8")]
        for size, found in zip(exact, sizes_of(p, codes), strict=True):
            assert abs(size - found) == min(abs(size - x) for x in table)


def test_two_levels_of_scales_cancel() -> None:
    """With the global scale of its largest number every block of a matrix decodes to within a step."""
    p = quantize_problem("nvfp4", (128, 64), "f32")
    values = np.random.default_rng(1).standard_normal((128, 64)).astype("f4").astype("f8")
    whole = float(np.float32(6 * 448 / np.abs(values).max()))
    codes, scales = quantized(p, values, whole)
    row, column = np.indices((128, 64))
    size = converted(scales[p.scales(row, column)], "e4m3", "f64").view("f8") / whole
    nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(128, 64)
    back = converted(nibbles, "e2m1", "f64").view("f8") * size
    assert np.all(np.abs(back - values) <= size * 1.01)
    assert np.abs(size).max() <= 448 / whole


@each("name", NAMES)
def test_a_kernel_writes_what_the_definition_says(name: str) -> None:
    family = FAMILIES[name]
    p, checks = family.problem((3, 70)), checks_of(family)  # a pitch of two elements, by whole vectors
    given = checks.buffers(p, "special", 1)
    launches = family.launches(p, family.choose(p), "sm_90")
    simulate_sequence(printed_sequence(launches), mine := copied(given), trace=False)
    assert compare(name, given, checks.expected(p, None, given), mine).passed


@pytest.mark.deep
@each("name", NAMES)
@each("seed", range(3))
def test_every_way_of_a_drawn_problem_is_verified(name: str, seed: int) -> None:
    family, rng = FAMILIES[name], random.Random(f"{name} {seed}")
    result = rng.choice(family.problem((1, 2)).format.elements)
    shape = rng.choice((1, 5, 33, 130)), rng.choice((2, 16, 50, 96, 264))
    p = family.problem(shape, rng.choice(("bf16", "f16", "f32")), result)
    for config in family.configs(p):
        verify(family, p, config, seed=seed).require()


def test_what_is_not_ordinary_has_the_scales_that_are_stated() -> None:
    values = np.zeros((4, 32))
    values[1, 3], values[2, 3], values[3, 3] = np.inf, np.nan, -np.inf
    values[1, 4] = 1.0
    for format, wanted in (
        ("mxfp8", [0, 254, 255, 254]),
        ("mxfp4", [0, 254, 255, 254]),
        ("nvfp4", [0, 126, 127, 126]),
    ):
        p = quantize_problem(format, (4, 32))
        codes, scales = quantized(p, values)
        assert [int(scales[p.scales(row, 0)]) for row in range(4)] == wanted
        assert int(scales.astype(int).sum()) == sum(wanted) and not codes[0].any()
        if format == "mxfp8":
            assert codes[1, 3] == 126 and codes[2, 3] & 127 == 127 and codes[3, 3] == 254


def test_scales_are_in_their_layout() -> None:
    p = quantize_problem("mxfp8", (200, 96))
    assert p.scales == scale_layout("mxfp8", 200, 96) and p.bytes == (200 * 96 * 2, 200 * 96, 256 * 4)


@each(
    ("error", "part", "arguments"),
    [
        (UnsupportedError, "no scales of its own: mxfp8 is needed", ("e4m3", (8, 8))),
        (UnknownNameError, "did you mean 'mxfp8'", ("mxfp9", (8, 8))),
        (UnsupportedError, "to e2m3: bf16, f16, f32 to e4m3", ("mxfp6", (8, 8))),
        (UnsupportedError, "its elements are e4m3 or e5m2", ("mxfp8", (8, 8), "bf16", "e2m1")),
        (UnsupportedError, "of f64", ("mxfp8", (8, 8), "f64")),
        (ShapeError, "two extents", ("mxfp8", (8, 8, 8))),
        (ShapeError, "rows of 8 or 10 are needed", ("mxfp4", (8, 9))),
        (ShapeError, "each at least 1", ("mxfp4", (8, 0))),
    ],
)
def test_other_problems_are_refused(error: type[Exception], part: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(error) as caught:
        quantize_problem(*arguments)
    assert part in str(caught.value)
