"""Rotations: the function, what composes with it, its inverse, its costs, and the search for one."""

from __future__ import annotations

import dataclasses
import random

import pytest

import layoutalg as la
from layoutalg.analysis import Access, analyze
from layoutalg.compose import Rotation, find_rotation
from layoutalg.dtype import dtype
from layoutalg.errors import DivisibilityError, MismatchError, ShapeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout
from layoutalg.synthesis import check_certificate, synthesize


def drawn(rng: random.Random) -> Rotation:
    many = rng.choice((1, 1, 2, 3, 4))
    columns = rng.choice((6, 10, 12, 20, 24, 32, 33, 36, 48, 96))
    return Rotation(many * rng.randint(1, 12), columns, rng.randrange(columns), many)


@pytest.mark.deep
def test_rotations_are_what_they_say_and_have_an_inverse() -> None:
    rng = random.Random(1)
    for _ in range(200):
        one = drawn(rng)
        layout = la.rotated_layout((one.rows, one.columns), step=one.step, rows_per_step=one.rows_per_step)
        expected = [
            m * one.columns + (n + one.step * (m // one.rows_per_step)) % one.columns
            for n in range(one.columns)
            for m in range(one.rows)
        ]
        assert [layout(i) for i in range(len(expected))] == expected, one
        found = find_rotation(layout)
        assert found is not None and found.layout() == layout
        back = la.right_inverse(layout)
        assert [layout(back(i)) for i in range(len(expected))] == list(range(len(expected)))
        assert [la.left_inverse(layout)(x) for x in expected] == list(range(len(expected)))


def test_layouts_compose_with_a_rotation_on_both_sides() -> None:
    turned = la.rotated_layout((16, 48))
    columns = la.composition(turned, Layout((4, 48), (1, 16)))
    assert all(columns(m, n) == turned(m, n) for m in range(4) for n in range(48))
    for left in (Layout((48, 16), (16, 1)), Layout((48, 16), (1, 50)), Layout((16, 48), (48, 1))):
        both = la.composition(left, turned)
        assert all(both(i) == left(turned(i)) for i in range(16 * 48)), left
    exchanged = la.composition(Layout((48, 16), (16, 1)), turned)
    assert str(exchanged) == "(48,2,16):(16,0,1) o 0 o (16,48):(97,1)"
    parts = la.logical_divide(turned, (4, 8))
    assert sorted(parts(i) for i in range(16 * 48)) == list(range(16 * 48))


@pytest.mark.deep(only=("ld.global",))
@pytest.mark.parametrize("op", ["ld.shared", "st.shared", "ld.global"])
def test_costs_in_closed_form_are_those_of_counting(op: str) -> None:
    rng, methods = random.Random(op), set()
    for _ in range(60):
        one, width = drawn(rng), rng.choice((1, 1, 2, 4))
        if one.columns % width:
            continue
        layout = one._replace(step=one.step // width * width).layout()
        access = Access.of(f"{op}.b{32 * width}@{rng.choice(('row', 'col'))}", layout, "f32")
        access = dataclasses.replace(access, base_bytes=rng.choice((0, 16)))
        found, counted = (analyze(layout, access, method=how) for how in ("auto", "enumerated"))
        methods.add(found.method)
        for name in ("total", "ideal_total", "worst", "sectors", "lines", "worst_alignment", "instructions"):
            assert getattr(found, name, None) == getattr(counted, name, None), (layout, access)
    assert "digit-classes" in methods and "enumerated" not in methods


def test_vectors_that_a_rotation_tears_are_refused() -> None:
    with pytest.raises(la.errors.AlignmentError):
        analyze(la.rotated_layout((8, 12), step=1), "ld.shared.b64@row", "f32")


def test_a_rotation_is_found_where_no_swizzle_is() -> None:
    block = Access("ld.shared.b128", Layout(((6, 4), 4, (5, 2)), ((1, 48), 12, (192, 6))), dtype("f32"))
    assert synthesize((12, 80), [block], element="f32").layout is None
    found = synthesize((12, 80), [block], element="f32", form="rotation")
    assert found.kind == "rotation" and found.extra_bytes == 0 and found.reports[0].conflict_free
    assert check_certificate(found).endswith("counted one by one")
    wrong = dataclasses.replace(found, layout=la.rotated_layout((12, 80), step=2))
    with pytest.raises(MismatchError):
        check_certificate(wrong)


@pytest.mark.deep
def test_that_no_rotation_serves_is_certified() -> None:
    asked = ["st.shared.b32@row", "ld.shared.b32@col"]
    none = synthesize((48, 48), asked, element="f32", form="rotation")
    assert none.layout is None and "rotations of the rows" in check_certificate(none)
    serves = synthesize((96, 96), asked, element="f32", form="rotation")
    claim = dataclasses.replace(none.certificate)
    lie = dataclasses.replace(serves, layout=None, kind="none", reports=(), certificate=claim)
    with pytest.raises(MismatchError, match="is free of conflicts"):
        check_certificate(lie)


def test_what_is_no_rotation_is_refused_or_not_found() -> None:
    with pytest.raises(ShapeError, match="a pair of integers"):
        la.rotated_layout((4, 4, 4))
    with pytest.raises(DivisibilityError, match="do not divide"):
        la.rotated_layout((6, 8), rows_per_step=4)
    with pytest.raises(UnsupportedError, match="swap its modes"):
        synthesize((12, 80), ["ld.shared.b32@row"], element="f32", form="rotation", order="col")
    turned = la.rotated_layout((6, 8))
    assert isinstance(turned.inner, Layout)
    assert find_rotation(ComposedLayout(turned.outer, 1, turned.inner)) is None
    assert find_rotation(ComposedLayout(la.Swizzle(1, 0, 1), 0, turned)) is None
