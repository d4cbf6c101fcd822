"""Texts for any number of rows: bit by bit those of their own number, proved for all, and compiled once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.gpu import cubin_cache
from layoutalg.codegen.program import check_integers, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError, ShapeError
from layoutalg.kernels import FAMILIES, plan_cache
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.checks.record import compare, copied, given_to
from layoutalg.kernels.elementwise import map_problem
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.rowwise import FOLD
from layoutalg.kernels.sizes import buffer_bytes, buffer_views
from tests.sweeps import each

MAPS = ("relu", "gelu", "add")


def drawn(rng: random.Random) -> tuple[str, Any, Any]:
    """A family, a function from a number of rows to a problem, and a number."""
    element, rows = rng.choice(("f32", "f16", "bf16")), rng.randint(2, 60)
    if rng.random() < 0.2:
        op, columns, gap = rng.choice(MAPS), rng.choice((8, 16, 5)), rng.choice((0, 8))
        steps = [(columns + gap, 1), (0, 1)][: 1 + (op == "add")]
        return op, lambda n: map_problem(op, (n, columns), element, steps), rows
    op, columns = rng.choice((*FOLD, *NORMS)), rng.choice((3, 10, 33, 64, 100, 130, 257, 1000))
    inside = () if rng.random() < 0.7 else (rng.randint(2, 9),)  # then columns of memory are kept
    return op, lambda n: FAMILIES[op].problem((n, *inside, columns), 1, element), rows


def agree(case: int, *, best: bool = False) -> int:
    """Hold a drawn text to the definition and to the texts of several numbers of rows; how many it was."""
    rng = random.Random(f"any rows {case} 20261130")
    op, problem, rows = drawn(rng)
    family = FAMILIES[op]
    p = problem(rows)
    c = family.choose(p) if best else rng.choice(family.configs(p))
    assert family.any_sizes is not None
    free, checked = family.any_sizes(p, c, "sm_90"), 0
    if not free.scalars:
        return 0
    ((rows_parameter,),) = [k.integers for k in free.kernels]
    for n in {1, rows, rng.randint(2, 90)}:
        if n % rows_parameter.multiple:
            continue
        q = problem(n)
        given = given_to(family, q, c, checks_of(family).trials(q)[0], case)
        mine, its = copied(given), copied(given)
        simulate_sequence(replace(printed_sequence(free), scalars=(("rows", n),)), mine, trace=False)
        result = compare("rows", given, checks_of(family).expected(q, None, given), mine)
        assert result.passed, (str(q), c, result.detail)
        checked += 1
        if n == 1:  # one row has another normal form, and so another order
            continue
        try:
            static = family.launches(q, c, "sm_90")
        except LayoutAlgError:  # fewer rows than the configuration is of
            continue
        simulate_sequence(printed_sequence(static), its, trace=False)
        assert all(its[x].tobytes() == mine[x].tobytes() for x in given), (str(q), c)
    return checked


def test_a_text_for_any_number_of_rows_has_the_bits_of_each_number() -> None:
    assert agree(9, best=True)


@pytest.mark.deep
@each("case", range(150))
def test_drawn_texts_for_any_number_of_rows_agree(case: int) -> None:
    agree(case)


@pytest.mark.deep
def test_most_drawn_texts_are_for_any_number_of_rows() -> None:
    rng, free = random.Random(20261130), 0
    for _ in range(60):
        op, problem, rows = drawn(rng)
        p = problem(rows)
        free += bool(FAMILIES[op].any_sizes(p, FAMILIES[op].choose(p), "sm_90").scalars)  # type: ignore[misc]
    assert free > 50


def found(op: str, *shape: int, axes: int = 1) -> tuple[Any, Any]:
    """A problem of a family and its launches for any number of rows."""
    family = FAMILIES[op]
    p = family.problem(shape, axes)
    assert family.any_sizes is not None
    return p, family.any_sizes(p, family.choose(p), "sm_90")


def test_the_text_says_how_many_rows_it_is_for_and_refuses_others() -> None:
    p, free = found("softmax", 6, 4, 1000, axes=2)
    (kernel,) = free.kernels
    assert dict(free.scalars) == {"rows": 24}
    (rows,) = kernel.integers
    assert (rows.facts.lo, rows.facts.hi) == (1, (1 << 30) // 1000)
    for wrong in (0, rows.facts.hi + 1):
        with pytest.raises(ShapeError, match=f"rows = {wrong}"):
            check_integers(kernel, {"rows": wrong})
    assert str(buffer_bytes(p, free)["src"]) == "rows * 4000"
    assert str(buffer_views(p, free)["src"]) == "f32, shape (rows / 4, 4, 1000), strides (4000, 1000, 1)"


def test_rows_that_blocks_share_or_that_others_lie_outside_of_are_built_in() -> None:
    assert found("softmax", 2, 1 << 22)[1].scalars == ()
    assert found("sum", 4096, 64, axes=0)[1].scalars == ()
    family = FAMILIES["softmax"]
    p = family.problem((8, 6, 4), (0, 2))
    assert family.any_sizes is not None
    assert family.any_sizes(p, family.choose(p), "sm_90").scalars == ()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The kernels that are compiled, with no machine code of before."""
    seen: list[str] = []
    compile_one = cubin_cache.compile_cubin

    def counted(source: str, name: str, arch: str) -> Any:
        seen.append(name)
        return compile_one(source, name, arch)

    monkeypatch.setattr(cubin_cache, "compile_cubin", counted)
    (tmp_path / "cubins").mkdir(mode=0o700)
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path / "cubins"))
    yield seen
    cubin_cache._warned.clear()


@pytest.mark.deep
def test_a_call_with_another_number_of_rows_compiles_nothing(compiled: list[str], tmp_path: Path) -> None:
    """A second number compiles nothing where its choice is the same; it has its own grids and arguments."""
    for op, name in (("softmax", "softmax_f32"), ("sum", "reduce_sum_f32_f32")):
        compiled.clear()
        grids = []
        for shape in ((4096, 999), (4100, 999), (4, 1025, 999)):
            p = FAMILIES[op].problem(shape, -1)
            ((kernel,),) = [plan_cache.ready_sequence(op, p, "sm_90a", tmp_path).kernels]
            grids.append((kernel.grid[0], kernel.scalars))
        assert compiled == [name]
        assert len(set(grids)) == 2 and grids[1] == grids[2]
