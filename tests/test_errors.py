"""Errors: each leaf is a LayoutAlgError and the builtin a caller would have caught anyway."""

from __future__ import annotations

import copy
import difflib
import inspect
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import errors
from layoutalg.arch import MMA_ATOMS
from layoutalg.errors import LayoutAlgError
from tests.sweeps import each

BUILTINS: dict[str, type[Exception]] = {
    "ShapeError": ValueError,
    "DivisibilityError": ValueError,
    "NotInjectiveError": ValueError,
    "NotLinearError": ValueError,
    "AlignmentError": ValueError,
    "ResourceError": ValueError,
    "UnknownNameError": ValueError,
    "UndecidedError": ValueError,
    "ParseError": ValueError,
    "ArgumentTypeError": TypeError,
    "UnsupportedError": NotImplementedError,
    "IRError": ValueError,
    "SimulationError": RuntimeError,
    "CompileError": RuntimeError,
    "MismatchError": AssertionError,
}
LEAVES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, LayoutAlgError) and kind is not LayoutAlgError
}


@given(st.text("SM890_x16F", max_size=30), st.lists(st.text("SM890_x16F"), max_size=20), st.integers(1, 8))
def test_the_nearest_names_are_those_of_difflib(name: str, choices: list[str], count: int) -> None:
    for table in (choices, list(MMA_ATOMS)[:40]):
        expected = difflib.get_close_matches(name, table, n=count, cutoff=0)
        assert errors.nearest(name, table, count) == expected


def test_the_table_lists_every_leaf() -> None:
    assert sorted(LEAVES) == sorted(BUILTINS)


@each("name", sorted(BUILTINS))
def test_a_leaf_is_what_a_caller_would_catch(name: str) -> None:
    leaf = LEAVES[name]
    assert leaf.__bases__ == (LayoutAlgError, BUILTINS[name])
    assert leaf.__doc__


@each(
    ("error", "attributes"),
    [
        (
            errors.DivisibilityError("no", lhs=1, rhs=2, mode=3, witness=4),
            {"lhs": 1, "rhs": 2, "mode": 3, "witness": 4},
        ),
        (errors.NotInjectiveError("no", layout="L", a=0, b=4), {"layout": "L", "a": 0, "b": 4}),
        (errors.AlignmentError("no", offset=136, required_bytes=16), {"offset": 136, "required_bytes": 16}),
        (errors.UndecidedError("no", budget=10), {"budget": 10}),
        (errors.ParseError("no", text="(4", position=2), {"text": "(4", "position": 2}),
        (
            errors.SimulationError("no", lane=3, address=64, statement="lds"),
            {"lane": 3, "address": 64, "statement": "lds"},
        ),
        (errors.CompileError("no", log="l", source="s"), {"log": "l", "source": "s"}),
        (errors.MismatchError("no", index=(1, 2)), {"index": (1, 2)}),
    ],
)
def test_a_leaf_carries_what_a_program_needs(error: LayoutAlgError, attributes: dict[str, object]) -> None:
    assert str(error) == error.message == "no"
    assert {name: getattr(error, name) for name in attributes} == attributes


def test_a_resource_names_what_was_asked_and_the_limit() -> None:
    error = errors.ResourceError("shared memory of a block", 300000, 232448, hint="halve the tile")
    assert str(error) == "shared memory of a block: 300000 asked, the limit is 232448; halve the tile"
    assert (error.resource, error.asked, error.limit) == ("shared memory of a block", 300000, 232448)
    assert str(errors.ResourceError("warps", 3, 2)) == "warps: 3 asked, the limit is 2"


def test_an_unknown_name_lists_the_choices_nearest_first() -> None:
    error = errors.UnknownNameError("arch", "sm90", ["sm_80", "sm_90"])
    assert str(error) == "unknown arch 'sm90': did you mean 'sm_90'? accepted are sm_80, sm_90"
    assert (error.kind, error.name, error.choices) == ("arch", "sm90", ("sm_80", "sm_90"))
    assert "did you mean" not in str(errors.UnknownNameError("arch", "gfx", ["sm_80"]))


def test_a_broken_rule_is_named_first() -> None:
    error = errors.IRError("barrier in divergent code", "node", "statement 3 stands under If(lane < 4)")
    assert str(error) == "barrier in divergent code: statement 3 stands under If(lane < 4)"
    assert (error.rule, error.node) == ("barrier in divergent code", "node")


@pytest.mark.parametrize("made", [pickle.dumps, copy.copy])
def test_errors_go_from_process_to_process(made: Callable[[object], object]) -> None:
    """A worker's error that cannot be read would end the pool that it is sent to."""
    for error in (
        errors.IRError("bounds", "x[tid]", "leaves its buffer"),
        errors.ResourceError("bytes", 5, 4, hint="take fewer"),
        errors.UnknownNameError("family", "gem", ["gemm"]),
        errors.SimulationError("divergent", lane=3),
        errors.DivisibilityError("no layout", witness=7),
    ):
        found = made(error)
        again = pickle.loads(found) if isinstance(found, bytes) else found
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
