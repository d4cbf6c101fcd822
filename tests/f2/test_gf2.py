"""Matrices over F2 and their eliminations against enumeration of the whole space."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.errors import ShapeError
from layoutalg.f2 import matrix as gf2

N = 5
matrices = st.lists(st.integers(0, (1 << N) - 1), max_size=N).map(tuple)
squares = st.lists(st.integers(0, (1 << N) - 1), min_size=N, max_size=N).map(tuple)


def span(vectors: tuple[int, ...]) -> set[int]:
    """Every XOR of some of the vectors."""
    found = {0}
    for v in vectors:
        found |= {x ^ v for x in found}
    return found


@given(matrices)
def test_rank_basis_and_kernel(m: tuple[int, ...]) -> None:
    space = span(m)
    assert 1 << gf2.rank(m) == len(space)
    assert span(gf2.basis(m)) == space and len(gf2.basis(m)) == gf2.rank(m)
    assert gf2.basis(gf2.basis(m)) == gf2.basis(m)
    assert {x for x in range(1 << len(m)) if gf2.apply(m, x) == 0} == span(gf2.kernel(m))
    assert len(gf2.kernel(m)) == len(m) - gf2.rank(m)
    for y in range(1 << N):
        x = gf2.solve(m, y)
        assert (x is not None) == (y in space) == gf2.contains(m, y)
        assert x is None or gf2.apply(m, x) == y


@given(matrices, st.integers(0, 3))
@example((3, 3, 6, 5), 1)
def test_an_echelon_grows_by_what_its_span_lacks(m: tuple[int, ...], carried: int) -> None:
    """With every vector carrying all-ones below it: what is carried adds up with the vectors."""
    low = (1 << carried) - 1
    echelon = gf2.Echelon(carried=carried)
    for j, vector in enumerate(m):
        whole = vector << carried | low
        before = span(tuple(v << carried | low for v in m[:j]))
        rest = echelon.insert(whole)
        assert (rest != 0) == (whole not in before) and rest ^ whole in before
        reached = {x >> carried for x in before} | {x >> carried ^ vector for x in before}
        assert 1 << echelon.rank == len(reached)
        assert all(echelon.contains(x) == (x in reached) for x in range(1 << N))
    everything = span(tuple(v << carried | low for v in m))
    assert span(echelon.basis()) == {x >> carried for x in everything}
    assert span(echelon.kernel()) == {x for x in everything if not x >> carried}
    for x in range(1 << N):
        found = echelon.solve(x)
        assert (found is None) == all(y >> carried != x for y in everything)
        assert found is None or x << carried | found in everything


@given(matrices, matrices)
def test_a_basis_is_the_name_of_its_space(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert (gf2.basis(a) == gf2.basis(b)) == (span(a) == span(b))
    assert span(gf2.intersection(a, b)) == span(a) & span(b)


@given(matrices, squares)
def test_products_and_transposes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    product = gf2.multiply(b, a)
    assert all(gf2.apply(product, x) == gf2.apply(b, gf2.apply(a, x)) for x in range(1 << len(a)))
    turned = gf2.transpose(a, N)
    assert len(turned) == N and gf2.transpose(turned, len(a)) == a
    assert gf2.rank(turned) == gf2.rank(a)


@given(matrices, matrices)
def test_complement_completes_without_meeting(part: tuple[int, ...], whole: tuple[int, ...]) -> None:
    for rest, wanted in (
        (gf2.complement(part, N), set(range(1 << N))),
        (gf2.complement(part, whole), span(part + whole)),
    ):
        assert span(part + rest) == wanted
        assert span(part) & span(rest) == {0}
        assert len(rest) == gf2.rank(rest)


def test_vectors_fit() -> None:
    with pytest.raises(ShapeError, match="vector 4 has more bits than the 2 columns"):
        gf2.apply((1, 2), 4)
    with pytest.raises(ShapeError):
        gf2.apply((1, 2), -1)
