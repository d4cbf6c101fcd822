"""Sentences of errors that named what nobody had written."""

from __future__ import annotations

import pytest

import layoutalg as la


def test_a_refused_composition_names_the_coordinates_that_were_given() -> None:
    """It named the integers that stand for coordinates inside: (2,4):(1,256)."""
    with pytest.raises(
        la.errors.ShapeError, match=r"^composition\(\(2,4\):\(1@0,1@1\), \(2,3\):\(3,-1\)\): "
    ):
        la.composition(la.make_identity_layout((2, 4)), la.Layout((2, 3), (3, -1)))
