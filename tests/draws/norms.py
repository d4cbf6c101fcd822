"""Random softmaxes and layer norms, their data, and how near to the definition a result has to be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from layoutalg.codegen.program import Kernel
from layoutalg.kernels.checks.rows import norm_bound
from layoutalg.kernels.elements import agrees, bits_of, numbers_of, whole_units
from layoutalg.kernels.modes import strided
from layoutalg.kernels.rowwise import NormLaunches, NormProblem, norm_problem, normed
from layoutalg.kernels.rowwise.forms import rows_of, with_fold
from layoutalg.kernels.rowwise.ways.norm_plan import form_of
from tests.draws.strides import drawn_order, drawn_shape, drawn_strides

Array = np.ndarray[Any, Any]


def random_problem(rng: random.Random, most: int) -> NormProblem:
    """A problem of at most `most` elements, a few dozen at least if rank allows it."""
    if most >= ODD_ROWS * 9 and rng.random() < 0.1:
        return odd_pitch_problem(rng, most)
    shape = drawn_shape(rng, most, range(1, 6))
    axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    dtype = rng.choice(["f32", "f16", "bf16"])
    op = rng.choice(["softmax", "layer_norm"])
    offsets = [rng.choice([0, 0, 0, 8, rng.randint(0, 9)]) for _ in range(2)]
    src, src_low = _strides(rng, shape)
    dst, dst_low = (src, src_low) if rng.random() < 0.5 else _strides(rng, shape)
    in_place = dst == src and rng.random() < 0.3
    if in_place or rng.random() < 0.7:
        offsets[1] = offsets[0]
    if not in_place and rng.random() < 0.1:
        k = rng.randrange(len(shape))
        src_low -= (shape[k] - 1) * max(0, -src[k])
        src = tuple(0 if i == k else s for i, s in enumerate(src))
    return norm_problem(
        op, tuple(shape), axes, dtype, src, dst, src_low + offsets[0], dst_low + offsets[1],
        eps=rng.choice([1e-5, 0.1]), weight=op == "layer_norm" and rng.random() < 0.5,
        bias=op == "layer_norm" and rng.random() < 0.5, in_place=in_place,
    )  # fmt: skip


def _strides(rng: random.Random, shape: list[int]) -> tuple[tuple[int, ...], int]:
    return drawn_strides(rng, shape, drawn_order(rng, range(len(shape)), 0.3), wild=rng.random() < 0.4)


ODD_ROWS = 130


def odd_pitch_problem(rng: random.Random, most: int) -> NormProblem:
    """Many rows of odd pitch, over which columns are reduced: source and destination alike."""
    rows = rng.randint(ODD_ROWS, max(ODD_ROWS, min(3000, most // 9)))
    width = rng.randint(9, max(9, min(3000, most // rows)))
    outer = rng.randint(1, max(1, min(3, most // (rows * width))))
    pitch = width // 2 * 2 + 1 + rng.choice([0, 0, 2, 8])
    offset, strides = rng.choice([0, 0, rng.randint(1, 9)]), (rows * pitch, pitch, 1)
    op = rng.choice(["softmax", "layer_norm"])
    return norm_problem(
        op, (outer, rows, width), 1, rng.choice(["f32", "f16", "bf16"]), strides, strides, offset, offset,
        weight=op == "layer_norm" and rng.random() < 0.5, bias=op == "layer_norm" and rng.random() < 0.5,
    )  # fmt: skip


def streams(p: NormProblem) -> list[tuple[int, int]]:
    """Vectors and columns of the streams that a problem has."""
    form, found = form_of(p), []
    for (inside, _), fold in product(rows_of(form), (1, 2, 3, 4, 8, 24)):
        s = with_fold(form, inside, fold)
        vecs = (vec for vec in (8, 4, 2, 1) if s and vec * p.dtype.nbytes <= 16 and s.has_vectors(vec))
        if s and (vec := next(vecs, 0)):
            found.append((vec, s.width))
    return found


@dataclass(frozen=True)
class Data:
    """Buffers of a problem, whole 16-byte units of elements' bits, and the values in them as float64."""

    src: Array
    old: Array
    weight: Array
    bias: Array
    x: Array
    w: Array
    b: Array


def data(p: NormProblem, seed: int, *, special: bool = True) -> Data:
    """Random data; of a softmax, some elements are infinite or NaN."""
    rng, element, a = np.random.default_rng(seed), str(p.dtype), p.axes
    x = rng.standard_normal(a.source_elems) * rng.choice([1.0, 5.0]) + rng.choice([0.0, 10.0])
    if special and p.op == "softmax" and rng.random() < 0.3:
        at = rng.random(x.shape) < 3 / x.size
        x[at] = rng.choice([np.inf, -np.inf, np.nan], int(at.sum()))
        x[rng.random(x.shape) < 0.3] = -np.inf
    src, old = (whole_units(bits_of(v, element)) for v in (x, rng.standard_normal(a.target_elems)))
    if p.in_place:
        old = src.copy()
    shape = tuple(a.shape[k] for k in a.axes)
    weight, bias = (whole_units(bits_of(rng.standard_normal(prod(shape)), element)) for _ in range(2))
    seen = strided(numbers_of(src, element), a.shape, a.src, a.src_offset)
    w, b = (numbers_of(bits, element)[: prod(shape)].reshape(shape) for bits in (weight, bias))
    return Data(src, old, weight, bias, seen, w, b)


def check(p: NormProblem, d: Data, got: Array) -> None:
    """Compare a destination buffer with the definition, and what lies between its elements with the old."""
    element, a = str(p.dtype), p.axes
    wanted = normed(p, d.x, d.w, d.b)
    found = strided(numbers_of(got, element), a.shape, a.dst, a.dst_offset)
    bad = ~agrees(found, wanted, norm_bound(p, d.x, wanted, d.w, d.b), element)
    if bad.any():
        at = tuple(int(i[0]) for i in np.nonzero(bad))
        raise AssertionError(f"{p}: {int(bad.sum())} wrong, at {at}: {found[at]} for {wanted[at]}")
    kept, old = got.copy(), d.old.copy()
    for buffer in (kept, old):
        strided(buffer, a.shape, a.dst, a.dst_offset)[...] = 0
    assert (kept == old).all(), f"{p} writes between the elements"


def arguments(kernel: Kernel, **given: Any) -> dict[str, Any]:
    """The given arguments that are parameters of a kernel."""
    return {p.name: given[p.name] for p in kernel.params if p.name in given}


def launch_all(
    launches: NormLaunches,
    d: Data,
    run: Callable[[Kernel, dict[str, Any]], object],
    on: Callable[[Array], Any],
) -> Any:
    """Run every kernel with `run` on buffers made by `on`; the destination buffer."""
    partial = on(np.zeros(-(-max(1, launches.workspace_elems) // 4) * 4, dtype=np.float32))
    dst = on(d.old.copy())
    given = {"src": on(d.src), "dst": dst, "weight": on(d.weight), "bias": on(d.bias), "partial": partial}
    for kernel in launches.kernels:
        run(kernel, arguments(kernel, **given))
    return dst
