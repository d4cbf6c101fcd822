"""Random tensors with some modes rowwise.reduced: shapes, axes, strides, gaps, broadcasts, misalignment."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from layoutalg.kernels import rowwise
from layoutalg.kernels.checks.rows import reduction_bound
from layoutalg.kernels.elements import agrees, bits_of, numbers_of
from layoutalg.kernels.modes import strided
from tests.draws.strides import drawn_order, drawn_shape, drawn_strides


def random_axes(rng: random.Random, most: int, *, keeps: bool = False) -> rowwise.AxesProblem:
    """A problem of up to `most` elements: half of them dense, the others with gaps and offsets."""
    dtype = rng.choice(("f32", "f16", "bf16"))
    shape = drawn_shape(rng, most, (1, 2, 2, 2, 3, 3, 4, 5, 6, 8))
    modes = range(len(shape))
    axes = tuple(k for k in modes if rng.random() < 0.5)
    wild = rng.random() < 0.5
    src, src_low = drawn_strides(rng, shape, drawn_order(rng, modes, 0.6 * wild), wild=wild, broadcast=0.1)
    kept = [k for k in modes if keeps or k not in axes]
    dst, dst_low = drawn_strides(rng, shape, drawn_order(rng, kept, 0.6 * wild), wild=wild)
    starts = (low + (rng.randrange(4 if dtype == "f32" else 8) if wild else 0) for low in (src_low, dst_low))
    return rowwise.axes_problem(tuple(shape), axes, dtype, src, dst, *starts, keeps=keeps)


def random_reduction(rng: random.Random, most: int) -> rowwise.ReduceProblem:
    """A problem of up to `most` elements, none of them empty."""
    x = random_axes(rng, most)
    op = rng.choice(("sum", "max", "mean"))
    result = rng.choice((None, None, "f32"))
    return rowwise.reduce_problem(
        x.shape, x.axes, op, x.dtype, x.src, x.dst, x.src_offset, x.dst_offset, result
    )  # fmt: skip


def random_plan(rng: random.Random, p: rowwise.ReduceProblem) -> rowwise.ReducePlan:
    """A plan with few threads and short rounds, so that small problems have many, and several blocks."""
    base = rng.choice(rowwise.plans(p)).passes[0].config
    if rng.random() < 0.3:
        return rowwise.plan_with(p, base)
    walk = rowwise.plan_with(p, base).passes[0].walk
    rows = walk.rows
    if base.packed and not rows:  # as wide loads as these do not suit all columns
        return rowwise.plan_with(p, base)
    fast = rng.choice((1, 2, 4, 8, 16, 32)) if rows else 1
    slow = rng.choice((1, 1, 2, 4))
    kept = max(1, 32 // (fast * slow)) * rng.choice((1, 1, 2, 3))
    own = rng.choice((1, 1, 2)) if rows else 1
    c = rowwise.ReduceConfig(base.vec, fast, kept, slow, rng.choice((1, 2, 3)), own, later=base.later)
    rounds = rowwise.plan_with(p, c).passes[0].rounds
    return rowwise.plan_with(p, replace(c, splits=rng.randint(1, min(5, rounds)) if rounds else 1))


UNTOUCHED = 0x5A5A


def data(p: rowwise.ReduceProblem, seed: int, numbers: Any = None) -> tuple[Any, Any, Any]:
    """The words of a source of normal numbers or given ones and of a destination, and the source's values.

    Behind the source are NaN up to a whole unit, which are read and not used.
    """
    import numpy

    element = p.axes.dtype.name
    if numbers is None:
        numbers = numpy.random.default_rng(seed).standard_normal(p.axes.source_elems)
    src = bits_of(numbers, element)
    behind = numpy.full(-src.nbytes % 16 // src.itemsize, -1).astype(src.dtype)
    old = numpy.full(p.axes.target_elems, UNTOUCHED, f"u{p.result.nbytes}")
    return numpy.append(src, behind), old, numbers_of(src, element)


def check(p: rowwise.ReduceProblem, additions: int, values: Any, got: Any) -> None:
    """Compare a destination with the definition, and what lies between its results with what it was."""
    import numpy

    with numpy.errstate(all="ignore"):
        wanted, bound = rowwise.reduced(p, values), reduction_bound(p, additions, values)
    found = outputs(p, numbers_of(got, p.result.name))
    assert agrees(found, wanted, bound, p.result.name).all(), f"{p}: {found} for {wanted}"
    rest = got.copy()
    outputs(p, rest)[...] = UNTOUCHED
    assert (rest == UNTOUCHED).all(), f"{p} writes between the results"


def outputs(p: rowwise.ReduceProblem, buffer: Any) -> Any:
    """The outputs inside a destination buffer, in the shape of the kept modes."""
    x = p.axes
    kept = [k for k in range(len(x.shape)) if k not in x.axes]
    return strided(buffer, x.kept_shape, tuple(x.dst[k] for k in kept), x.dst_offset)
