"""The search for kernels, against every subspace there is."""

from __future__ import annotations

import itertools
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import UndecidedError
from layoutalg.f2 import apply, basis, intersection, rank
from layoutalg.layout import Swizzle
from layoutalg.synthesis import search
from layoutalg.synthesis.proof.refutation import _has_kernel
from layoutalg.synthesis.search import degree_bits, find_graph, find_kernel, in_rows, single_swizzles

Question: TypeAlias = "tuple[list[tuple[int, ...]], int, int]"


def subspaces(dim: int, size: int) -> set[tuple[int, ...]]:
    """Every subspace of F2^dim of this dimension, as its reduced basis."""
    found = {basis(vectors) for vectors in itertools.combinations(range(1, 1 << dim), size)}
    return {space for space in found if len(space) == size}


KERNELS = {(dim, size): subspaces(dim, size) for dim in (3, 4) for size in range(dim + 1)}


def avoids(kernel: tuple[int, ...], spaces: list[tuple[int, ...]]) -> bool:
    return not any(intersection(kernel, space) for space in spaces)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """(spaces, dim, bank_dim) with spaces of at most bank_dim dimensions."""
    dim = draw(st.integers(3, 4))
    bank_dim = draw(st.integers(1, dim))
    vectors = st.lists(st.integers(1, (1 << dim) - 1), min_size=0, max_size=bank_dim)
    return draw(st.lists(vectors.map(basis), min_size=1, max_size=6)), dim, bank_dim


@given(questions())
def test_a_kernel_is_found_exactly_when_there_is_one(
    question: tuple[list[tuple[int, ...]], int, int],
) -> None:
    spaces, dim, bank_dim = question
    exists = any(avoids(kernel, spaces) for kernel in KERNELS[dim, dim - bank_dim])
    found = find_kernel(spaces, dim, bank_dim)
    assert (found.kernel is not None) == exists == _has_kernel(spaces, bank_dim)
    if found.kernel is not None:
        assert len(found.kernel) == dim - bank_dim and avoids(found.kernel, spaces)


@given(questions())
def test_a_graph_is_found_exactly_when_there_is_one(question: Question) -> None:
    spaces, dim, bank_dim = question
    banks = tuple(1 << j for j in range(bank_dim))
    graphs = [k for k in KERNELS[dim, dim - bank_dim] if not intersection(k, banks)]
    found = find_graph(spaces, dim, bank_dim)
    assert found is not None
    assert (found.kernel is not None) == any(avoids(kernel, spaces) for kernel in graphs)
    if found.kernel is not None:
        assert avoids(found.kernel, [*spaces, banks])


@given(st.integers(2, 5), st.data())
def test_two_spaces_always_leave_a_kernel(bank_dim: int, data: st.DataObject) -> None:
    dim = data.draw(st.integers(bank_dim, 10))
    vectors = st.lists(st.integers(1, (1 << dim) - 1), min_size=bank_dim, max_size=bank_dim).map(basis)
    spaces = [data.draw(vectors), data.draw(vectors)]
    found = find_kernel(spaces, dim, bank_dim)
    assert found.kernel is not None and avoids(found.kernel, spaces)


def test_a_search_gives_up_at_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "NODES", 0)
    spaces = [tuple(1 << c for c in five) for five in itertools.combinations(range(7), 5)]
    with pytest.raises(UndecidedError, match=r"after 0 vectors of F2\^7") as caught:
        find_kernel(spaces, 7, 5)
    assert caught.value.budget == 0
    monkeypatch.setattr(search, "GRAPH_NODES", 5)
    assert find_graph(spaces, 7, 5) is None


@pytest.mark.parametrize(("word_bits", "keep"), [(6, 0), (7, 2), (5, 4)])
def test_single_swizzles_are_all_that_change_banks_within_the_tile(word_bits: int, keep: int) -> None:
    listed = list(single_swizzles(word_bits, 5, keep))
    every = [
        Swizzle(b, m, s)
        for b in range(1, word_bits)
        for m in range(keep, min(5, word_bits))
        for s in range(1, word_bits)
        if b + m + s <= word_bits
    ]
    assert len(listed) == len(set(listed)) and set(listed) == set(every)
    assert [s.bits for s in listed] == sorted(s.bits for s in listed)


@given(st.integers(1, 4), st.integers(0, 4), st.integers(1, 5), st.lists(st.integers(1, 1023), max_size=5))
def test_left_shifts_never_change_who_shares_a_bank(
    bits: int, base: int, shift: int, vectors: list[int]
) -> None:
    footprint = basis(vectors)
    assert degree_bits(footprint, 5, (Swizzle(bits, base, -shift),)) == degree_bits(footprint, 5)


@given(st.lists(st.integers(0, 255), max_size=5), st.integers(0, 3))
def test_in_rows_is_an_intersection(vectors: list[int], keep: int) -> None:
    space = basis(vectors)
    points = {apply(space, n) for n in range(1 << len(space))}
    inside = {point >> keep for point in points if point % (1 << keep) == 0}
    found = in_rows(space, 8, keep)
    assert {apply(found, n) for n in range(1 << len(found))} == inside
    assert rank(found) == len(found)
