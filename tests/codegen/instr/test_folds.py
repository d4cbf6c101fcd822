"""Values of several words: each fold is what Python makes of a list of elements, its text is its effect."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from layoutalg.codegen import instr as isa
from layoutalg.codegen.instr import (
    FOLDS,
    PARTIAL,
    absorb,
    butterfly,
    empty,
    finish,
    join,
)
from layoutalg.errors import UnsupportedError
from tests.codegen.instr.probe import LANES, Case, effect, floats, packed, ran, word
from tests.sweeps import each

NUMPY = {"f32": "f4", "s8": "i1", "u8": "u1", "s16": "i2", "s32": "i4", "s64": "i8"}
OF_FLOATS = ("logsumexp", "nll", "moments")
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38, 1e-42, 2.5]
IGNORED, CLASSES = -100, 40


class Fold(NamedTuple):
    """A fold of elements of a type; an index is of the largest or the smallest one."""

    name: str
    element: str
    way: str = "max"

    @property
    def result(self) -> str:
        """The type of what it stands for."""
        return "f32" if self.name in OF_FLOATS else "s64" if "arg" in self.name else self.element


FOLDED = [
    *(Fold(f"{op}_s64", kind) for op in ("sum", "prod", "max", "min") for kind in list(NUMPY)[1:]),
    *(Fold("arg_s64" if kind == "s64" else "arg", kind, way) for kind in NUMPY for way in ("max", "min")),
    *(Fold(name, "f32") for name in OF_FLOATS),
]


def numbers(rng: np.random.Generator, f: Fold, n: int, *, special: bool) -> np.ndarray:
    """Elements (lane, n) with ties and ends; of floats that are summed, small ones."""
    shape, kind = (LANES, n), NUMPY[f.element]
    if f.name in OF_FLOATS:
        wild = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf, 80.0], shape), 1.0)
        return np.asarray(rng.standard_normal(shape) * 4 * (wild if special else 1)).astype(kind)
    if f.element == "f32":
        return np.where(
            rng.random(shape) < 0.5, rng.choice(FLOATS, shape), rng.integers(-2, 3, shape)
        ).astype(kind)
    ends = np.iinfo(kind)
    wild = rng.integers(ends.min, ends.max, shape, kind, endpoint=True)
    return np.where(rng.random(shape) < 0.5, wild, rng.integers(0, 3, shape)).astype(kind)


def definition(f: Fold, elements: list[tuple[int, Any]], target: int | None, number: float) -> Any:
    """What a list of (index, element) stands for; a `target` is the index that a label names."""
    values = [x for _, x in elements]
    match f.name.removesuffix("_s64"):
        case "sum":
            return sum(values)
        case "prod":
            return math.prod(values)
        case "max":
            return max(values)
        case "min":
            return min(values)
        case "arg":
            sign = -1 if f.way == "max" else 1
            return min(elements, key=lambda e: (e[1] == e[1], sign * e[1] if e[1] == e[1] else 0, e[0]))[0]
        case "moments":
            x = np.array(values)
            return ((x - x.mean()) ** 2).sum() * number
    total = np.logaddexp.reduce(values)
    if f.name == "logsumexp":
        return total + number
    if target is None:
        return 0.0
    return total + number - sum(x for i, x in elements if i == target) if 0 <= target < CLASSES else math.nan


@np.errstate(all="ignore")
def steps(f: Fold, n: int, accumulators: int, seed: int) -> tuple[list[Case], np.ndarray, list[list[Any]]]:
    """The instructions of a fold with their operands, the words at the end, and by definition the numbers.

    Two vectors of each lane, of which the second may not be there, then of two lanes each.
    """
    rng = np.random.default_rng(seed)
    name, number, step = f.name, 0.5 if f.result == "f32" else 0, (1, 3, -1)[seed % 3]
    labels = rng.choice([IGNORED, -1, CLASSES, 1 << 33, *range(CLASSES)], (LANES, accumulators))
    made: list[Case] = []

    def do(instr: Any, registers: list[np.ndarray], *values: float) -> np.ndarray:
        made.append((instr, registers, values))
        return effect(instr, registers, *values)[0]

    d = do(empty(name, accumulators), [word(7).repeat(accumulators * FOLDS[name].words, 1)], 0)
    if name == "nll":
        known = np.where((labels >= 0) & (labels < CLASSES), labels + 1, isa.UNKNOWN)
        d = d.copy()
        d.reshape(LANES, accumulators, 4)[..., 3] = np.where(labels == IGNORED, isa.IGNORED, known)
    held: list[list[list[tuple[int, Any]]]] = [[[] for _ in range(accumulators)] for _ in range(LANES)]
    for first in (20, 20 + step * n):
        x, there = (
            numbers(rng, f, n, special=seed == 2),
            (rng.integers(0, 2, (LANES, 1)) | (first == 20)).astype("u4"),
        )
        d = do(absorb(name, f.element, f.way, n, accumulators), [d, packed(x), there], step, first)
        for lane, i in zip(*np.nonzero(np.broadcast_to(there, (LANES, n))), strict=True):
            index = first + int(i) * step
            held[lane][i % accumulators].append((index, x[lane, i].item()))
    if name != "nll":
        d = do(butterfly(name, accumulators * FOLDS[name].words), [d], 5)
        held = [
            [mine + other for mine, other in zip(held[lane], held[lane ^ 5], strict=True)]
            for lane in range(LANES)
        ]
    nothing = effect(empty(name, accumulators), [d], 0)[0]
    d = do(absorb(name, PARTIAL, "max", accumulators, accumulators), [nothing, d, word(1)], 0, 0)
    d = do(join(name, accumulators), [nothing, d])
    own = (labels if name == "nll" else np.zeros_like(labels)).tolist()
    wanted = [
        [
            definition(f, part, None if own[lane][i] == IGNORED else own[lane][i], number)
            for i, part in enumerate(parts)
        ]
        for lane, parts in enumerate(held)
    ]
    register = word(0).repeat(accumulators * max(4, np.dtype(NUMPY[f.result]).itemsize) // 4, 1)
    found = do(finish(name, f.result, accumulators), [register, d], number)
    return made, found, wanted


SHAPES = [(1, 1), (4, 1), (4, 4), (8, 1), (2, 2)]


@each("f", FOLDED, ids=str, sample=12)
@each("shape", SHAPES, sample=3)
def test_a_fold_is_what_python_makes_of_its_elements(f: Fold, shape: tuple[int, int]) -> None:
    for seed in range(3):
        _, found, wanted = steps(f, *shape, seed)
        if f.result == "f32":
            np.testing.assert_allclose(floats(found), wanted, rtol=1e-4, atol=1e-5)
            continue
        bits = 8 * np.dtype(NUMPY[f.result]).itemsize
        numbers = found if bits <= 32 else found.view("u8")
        assert numbers.tolist() == [[x % (1 << bits) for x in row] for row in wanted]


@pytest.mark.deep(but=("0",))
@pytest.mark.parametrize("part", range(4))
def test_the_texts_compute_the_effects(part: int) -> None:
    shapes = [(f, SHAPES[(n + more) % 5]) for n, f in enumerate(FOLDED[part::4]) for more in (0, 2)]
    for instr, got, wanted in ran(
        [case for n, (f, shape) in enumerate(shapes) for case in steps(f, *shape, n)[0]]
    ):
        registers = [o.role for o in instr.operands if o.role in ("out", "in", "inout")]
        written = [x for x, role in zip(got, registers, strict=True) if role != "in"]
        for x, y in zip(written, wanted, strict=True):
            if instr.name.split("_")[1] in OF_FLOATS:
                np.testing.assert_allclose(floats(x), floats(y), rtol=1e-6, err_msg=instr.name)
            else:
                np.testing.assert_array_equal(x, y, err_msg=instr.name)


def test_others_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="1 or 4 are accepted"):
        absorb("arg", "f32", "max", 4, 2)
