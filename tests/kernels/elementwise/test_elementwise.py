"""Maps: what is computed, how wide, and that any strides give the same elements."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.errors import NotInjectiveError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.elementwise import DEPTH, FORMULAS, MapConfig, build, candidates, map_problem
from layoutalg.kernels.modes import compact_strides
from tests.codegen.instr.test_functions import DEFINITIONS
from tests.sweeps import each


def drawn(rng: random.Random, count: int) -> Any:
    """A shape, and strides of inputs and of the result: dense, permuted, with gaps, broadcast."""
    shape = tuple(rng.choice((1, 3, 4, 8, 24)) for _ in range(rng.randint(1, 3)))

    def strides(*, broadcast: bool) -> tuple[int, ...]:
        order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.3 else range(len(shape))
        steps = dict(zip(order, compact_strides([shape[k] for k in order]), strict=True))
        gap = rng.choice((1, 1, 1, 2))
        zero = [broadcast and rng.random() < 0.3 for _ in shape]
        return tuple(0 if z else gap * steps[k] for k, z in enumerate(zero))

    return shape, [strides(broadcast=True) for _ in range(count)], strides(broadcast=False)


@each("op", FORMULAS, sample=1)
@each("dtype", ["f32", "f16", "bf16"], sample=1)
def test_any_strides_agree_with_the_definition(op: str, dtype: str) -> None:
    rng, family = random.Random(f"{op} {dtype}"), FAMILIES[op]
    for _ in range(3):
        shape, strides, dst = drawn(rng, len(FORMULAS[op].inputs))
        p = family.problem(shape, dtype, strides, dst)
        report = verify(family, p, rng.choice(family.configs(p)), seed=rng.randrange(99))
        assert report.passed, report
        assert any(c.name.startswith("accesses, ") for c in report.checks)


def test_formulas_by_hand() -> None:
    """Compute torch's definitions on NumPy's numbers."""
    x = np.array([-3.0, -0.5, 0.0, 1.0, 20.0])
    by_hand: dict[str, Any] = {name: [f(v) for v in x] for name, f in DEFINITIONS.items()} | {"add": 2 * x}
    assert set(by_hand) == set(FORMULAS)
    for op, formula in FORMULAS.items():
        np.testing.assert_allclose(formula.numbers(*[x] * len(formula.inputs)), by_hand[op], 1e-12)


@each(
    ("strides", "dst", "vec", "why"),
    [
        ([(64, 1), (64, 1)], None, 8, ""),
        ([(64, 1), (0, 1)], None, 8, ""),
        ([(64, 1), (1, 0)], None, 8, ""),
        ([(66, 1), (64, 1)], None, 2, "rows of x of add .* start inside of vectors"),
        ([(64, 1), (1, 8)], None, 1, "y of add .* has stride 8 in the innermost mode"),
        ([(1, 0), (1, 0)], None, 1, "every input of add .* is broadcast along the innermost mode"),
        ([(64, 1), (64, 1)], (1, 8), 1, "x of add .* has stride 64 in the innermost mode"),
    ],
)
def test_vectors_are_as_wide_as_all_sides_allow(strides: Any, dst: Any, vec: int, why: str) -> None:
    family = FAMILIES["add"]
    p = family.problem((8, 64), "f16", strides, dst)
    assert family.choose(p).vec == vec
    dropped = [c for c in family.candidates(p, "sm_90") if c.dropped is not None]
    assert {c.config.vec for c in dropped} == {v for v in (8, 4, 2) if v > vec}
    assert all(re.search(why, c.why) for c in dropped)


def test_a_dense_map_is_one_mode_and_large_ones_have_several_vectors_in_flight() -> None:
    assert [m.extent for m in map_problem("gelu", (64, 32, 16)).form] == [64 * 32 * 16]
    first, *_ = candidates(map_problem("gelu", (4096, 4096)))
    assert first.config == MapConfig(4, DEPTH)


@pytest.mark.parametrize("op", FORMULAS)
def test_machine_code_moves_whole_vectors_and_spills_nothing(op: str) -> None:
    p = map_problem(op, (4096, 4096), "f16")
    kernel = build(p, next(candidates(p)).config)
    text = to_cuda(kernel, "sm_90a")
    assert "ldg128(" in text and "stg128_whole(" in text
    assert compile_cubin(text, kernel.name, "sm_90a").spill_bytes == 0


def test_an_exact_map_has_to_be_exact() -> None:
    family = FAMILIES["relu"]
    p = family.problem((16,), "f16")
    given = checks_of(family).buffers(p, "special", 0)
    expected = checks_of(family).expected(p, None, given)
    assert not expected.allowed.any() and np.isnan(expected.values).any()


@each(
    ("asked", "error", "text"),
    [
        (("sinc", (4,)), UnknownNameError, "relu, gelu, .*add"),
        (("relu", (4,), "f64"), UnsupportedError, "f32, f16"),
        (("relu", (4, 0)), ShapeError, "must be positive"),
        (("add", (4,), "f32", [(1,)]), ShapeError, "one per mode"),
        (("relu", (4,), "f32", [(-1,)]), ShapeError, "from 0 on"),
        (("relu", (4, 6), "f32", None, (5, 1)), NotInjectiveError, "one place"),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(asked: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        map_problem(*asked)
