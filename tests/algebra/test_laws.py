"""The laws of the algebra: equations between operations, over drawn layouts.

What an operation is defined by stands in its own test module; the laws themselves are those that a fuzz
checks (`layoutalg.testing.LAWS`), here on operands that hypothesis draws and shrinks.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.algebra import left_inverse
from layoutalg.compose import composition
from layoutalg.decide import is_bijective
from layoutalg.errors import NotLinearError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, size
from layoutalg.testing import LAWS, Undefined, composed_layouts, layouts, swizzles
from tests.judges.brute import table

small = layouts(max_leaves=3, max_size=48)
tiny = layouts(max_leaves=2, max_size=8, compact=True)
compact = layouts(max_leaves=3, max_size=64, compact=True)
anything = st.one_of(layouts(), composed_layouts())
linear = st.one_of(layouts(power_of_two=True), composed_layouts(power_of_two=True))
patient = settings(suppress_health_check=[HealthCheck.filter_too_much])


KINDS = {
    "any": anything, "small": small, "compact": compact, "tiny": tiny, "number": st.integers(1, 200),
    "linear": linear, "value": st.one_of(anything, swizzles()),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
@patient
@given(data=st.data())
def test_a_law_holds(name: str, data: st.DataObject) -> None:
    law = LAWS[name]
    operands = [data.draw(KINDS[kind]) for kind in law.operands]
    try:
        assert law.holds(*operands)
    except Undefined:
        reject()


def test_composition_is_associative_where_modes_are_cut() -> None:
    law = LAWS["composition is associative"]
    assert law.holds(Layout((4, 4), (4, 1)), Layout((2, 8)), Layout((4, 2), (2, 1)))


@patient
@given(st.one_of(compact, composed_layouts(power_of_two=True)))
def test_the_inverses_of_any_bijection_are_inverse(a: AnyLayout) -> None:
    assume(is_bijective(a))
    assert LAWS["the inverses of a bijection are inverse"].holds(a)


# --- linear layouts -----------------------------------------------------------------------------------


def defined_matrix(a: AnyLayout) -> LinearLayout:
    try:
        return LinearLayout.from_layout(a)
    except NotLinearError:
        reject()


@patient
@given(
    layouts(power_of_two=True, compact=True),
    st.one_of(
        st.builds(
            ComposedLayout,
            swizzles().map(lambda swizzle: (swizzle,)),
            st.just(0),
            layouts(power_of_two=True, compact=True, max_size=32),
        ),
        composed_layouts(power_of_two=True, max_size=32),
    ),
)
def test_composition_is_the_product_of_matrices(a: Layout, b: ComposedLayout) -> None:
    """A is made long enough to have a column for every bit that b reaches."""
    inner = defined_matrix(b)
    bits = sum(inner.out_bits.values())
    if (missing := (1 << bits) // size(a)) > 1:
        a = Layout((a.shape, missing), (a.stride, size(a)))
    outer = LinearLayout.from_layout(composition(a, Layout(1 << bits)), ("offset",), "offset")
    assert inner.compose(outer).columns == f2.multiply(f2.to_f2(a)[:bits], inner.columns)
    result = composition(a, b)
    assert table(result) == [f2.apply(inner.compose(outer).columns, i) for i in range(size(b))]


@given(st.one_of(layouts(power_of_two=True, compact=True), composed_layouts(power_of_two=True)))
def test_inverses_agree(a: AnyLayout) -> None:
    assume(is_bijective(a))
    matrix = defined_matrix(a)
    back = matrix.invert()
    assert table(left_inverse(a))[: size(a)] == [back(offset=x)["index"] for x in range(size(a))]
