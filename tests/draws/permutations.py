"""Random permute problems: shapes, permutations, element widths, strides, gaps, broadcasts, misalignment; in
`random_conversion` elements of one type become another."""

from __future__ import annotations

import random
from typing import Any

from layoutalg.codegen.instr import CONVERTED, converted
from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.problem import PermuteProblem, move_problem
from tests.draws.strides import drawn_order, drawn_shape, drawn_strides

WIDTHS = {"u8": 1, "f16": 2, "f32": 4, "f64": 8, "c128": 16}


def random_problem(rng: random.Random, most: int) -> PermuteProblem:
    """A problem of up to `most` elements: half of them dense, the others with gaps and offsets."""
    dtype = rng.choice(list(WIDTHS))
    return _problem(rng, most, dtype, None)


def random_conversion(rng: random.Random, most: int) -> PermuteProblem:
    """The same with elements of one type that become another."""
    dtype, result = rng.sample(CONVERTED, 2)
    return _problem(rng, most, dtype, result)


def _problem(rng: random.Random, most: int, dtype: str, result: str | None) -> PermuteProblem:
    shape = drawn_shape(rng, most, (1, 2, 2, 3, 3, 4, 5, 6, 8))
    wild, modes = rng.random() < 0.5, range(len(shape))
    src, src_low = drawn_strides(rng, shape, drawn_order(rng, modes, 0.8), wild=wild, broadcast=0.15)
    dst, dst_low = drawn_strides(rng, shape, drawn_order(rng, modes, 0.8), wild=wild)
    at, to = (rng.randrange(16 // find_dtype(one).nbytes) if wild else 0 for one in (dtype, result or dtype))
    return move_problem(tuple(shape), dtype, src, dst, src_low + at, dst_low + to, result=result)


def random_buffers(p: PermuteProblem, seed: int) -> tuple[Any, Any]:
    """A random source and a random old destination, as flat arrays of words of the elements' widths.

    Of elements that are converted half are numbers of the order of 100, and a few are ends of their type.
    """
    import numpy

    rng = numpy.random.default_rng(seed)
    sides = (p.source_elems, p.element_bytes), (p.target_elems, p.result_bytes)
    src, dst = (rng.integers(0, 256, n * w, dtype=numpy.uint8).view(CARRIER[w]) for n, w in sides)
    if p.result:
        near = (100 * rng.standard_normal(len(src))).round(rng.integers(0, 3))
        ends = rng.choice((numpy.nan, numpy.inf, -numpy.inf, 65520.0, 2.0**31, -(2.0**63), -0.0), len(src))
        for values, share in ((near, 0.5), (ends, 0.1)):
            there = rng.random(len(src)) < share
            src = numpy.where(there, converted(values.view("u8"), "f64", p.dtype.name), src)
    return src, dst


def same_numbers(found: Any, expected: Any, element: str) -> bool:
    """Whether words hold the same elements, whatever the payload of a NaN."""
    import numpy

    nan = [numpy.isnan(converted(x, element, "f64").view("f8")) for x in (found, expected)]
    return bool(((found == expected) | (nan[0] & nan[1])).all())
