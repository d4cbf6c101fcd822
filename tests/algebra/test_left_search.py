"""Left inverses in other radices: against every radix there is."""

from __future__ import annotations

import itertools

from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg.algebra.inverse import search_left_inverse
from layoutalg.decide import find_collision
from layoutalg.layout import Layout
from layoutalg.testing import layouts
from tests.judges.brute import table


def inverts(found: Layout, layout: Layout) -> bool:
    return [found(x) for x in table(layout)] == list(range(len(table(layout))))


@given(layouts(max_leaves=3, max_size=48))
@example(Layout((2, 2), (2, 3)))
@example(Layout((2, 3, 2), (9, 2, 31)))
def test_what_is_found_is_an_inverse(layout: Layout) -> None:
    assume(find_collision(layout) is None)
    found = search_left_inverse(layout)
    assert found is None or inverts(found, layout)


@given(st.lists(st.tuples(st.integers(2, 3), st.integers(1, 9)), min_size=2, max_size=2))
@example([(2, 2), (2, 3)])
def test_a_refusal_is_a_proof(pairs: list[tuple[int, int]]) -> None:
    """Every layout of two or three small modes with small strides is tried."""
    layout = Layout(tuple(s for s, _ in pairs), tuple(d for _, d in pairs))
    assume(find_collision(layout) is None and max(table(layout)) <= 24)
    if search_left_inverse(layout) is not None:
        return
    strides = range(-3, 6)
    radices = itertools.chain(
        (((n, 99), e) for n in range(2, 25) for e in itertools.product(strides, repeat=2)),
        (((n, m, 99), e) for n in (2, 3, 4) for m in (2, 3) for e in itertools.product(strides, repeat=3)),
    )
    assert not any(inverts(Layout(extents, weights), layout) for extents, weights in radices)
