"""Functions of symbols: right ones hold, wrong ones are shown by values and a coordinate that do it."""

from __future__ import annotations

import random

import pytest

from layoutalg import errors
from layoutalg.indexing import code, is_layout, is_permutation
from layoutalg.reading import evaluated, read_c
from tests.draws.open_layouts import drawn
from tests.indexing.test_open_code import _symbols

RASTER = """
int f(int pid, int gm, int gn) {
    int group = pid / (8 * gn), first = group * 8;
    int rows = %s;
    return first + pid %% (8 * gn) %% rows + pid %% (8 * gn) / rows * gm;
}"""


def test_a_raster_is_a_permutation_where_its_rows_divide() -> None:
    wrong = is_permutation(RASTER % "8", "gm*gn", where="gm in 1..20, gn in 1..6")
    assert not wrong.holds and wrong.values["gm"] % 8
    read = read_c(RASTER % "8")
    count = wrong.values["gm"] * wrong.values["gn"]
    table = [int(evaluated(read.term, dict(wrong.values) | {"pid": pid})[0]) for pid in range(count)]
    assert sorted(table) != [*range(count)]
    assert is_permutation(RASTER % "8", "gm*gn", where="gm in 8..64, gm % 8 == 0, gn in 1..6").holds
    assert is_permutation(
        RASTER % "gm - first < 8 ? gm - first : 8", "gm*gn", where="gm < 21, gm > 0, gn in 1..6"
    )
    with pytest.raises(errors.UndecidedError, match="narrower ranges"):
        is_permutation(RASTER % "8", "gm*gn", where="gm in 1..2000, gn in 1..2000")


@pytest.mark.parametrize(("seed", "count"), [(46301, 15), pytest.param(46302, 200, marks=pytest.mark.deep)])
def test_functions_are_their_layouts_and_mutants_are_not(seed: int, count: int) -> None:
    rng, shown = random.Random(seed), 0
    for _ in range(count):
        layout, values = drawn(rng, swizzles=False)
        names = sorted(s.name for s in _symbols(layout.shape, layout.stride, getattr(layout, "offset", 0)))
        where = {n: values[n] for n in names}
        if not names:
            continue
        try:
            text = code(layout, "c", where=where)
        except errors.UnsupportedError:
            continue
        assert is_layout(text, layout, where=where).holds, str(layout)
        try:
            held = is_layout(text.replace("return ", "return 1 + "), layout, where=where)
        except (errors.UndecidedError, errors.ResourceError):
            continue
        shown += 1
        assert not held.holds, str(layout)
    assert shown


def test_more_coordinates_than_an_array_holds_are_refused() -> None:
    with pytest.raises(errors.ResourceError, match="coordinates at n = 4194305"):
        is_permutation("int f(int i, int n) { return i % n; }", "n", where="n in 4194305..4194310")


def test_a_function_of_other_parameters_is_refused() -> None:
    layout = drawn(random.Random(3)).layout
    with pytest.raises(errors.ShapeError, match="are needed"):
        is_layout("int f(int i) { return i; }", layout)
