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

NAMES: dict[type[Exception], tuple[str, ...]] = {
    ValueError: (
        *("ShapeError", "DivisibilityError", "NotInjectiveError", "NotLinearError", "AlignmentError"),
        *("ResourceError", "UnknownNameError", "UndecidedError", "ParseError", "IRError"),
    ),
    TypeError: ("ArgumentTypeError",), NotImplementedError: ("UnsupportedError",),
    RuntimeError: ("SimulationError", "CompileError", "ProfilerError"),
    AssertionError: ("MismatchError",),
}  # fmt: skip
BUILTINS = {name: kind for kind, names in NAMES.items() for name in names}
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


ATTRIBUTES: dict[str, dict[str, object]] = {
    "DivisibilityError": {"lhs": 1, "rhs": 2, "mode": 3, "witness": 4},
    "NotInjectiveError": {"layout": "L", "a": 0, "b": 4},
    "AlignmentError": {"offset": 136, "required_bytes": 16}, "UndecidedError": {"budget": 10},
    "ParseError": {"text": "(4", "position": 2}, "CompileError": {"log": "l", "source": "s"},
    "SimulationError": {"lane": 3, "address": 64, "statement": "lds"}, "MismatchError": {"index": (1, 2)},
}  # fmt: skip


@each("name", ATTRIBUTES)
def test_a_leaf_carries_what_a_program_needs(name: str) -> None:
    error = LEAVES[name]("no", **ATTRIBUTES[name])
    assert str(error) == error.message == "no"
    assert {name: getattr(error, name) for name in ATTRIBUTES[name]} == ATTRIBUTES[name]


MADE: tuple[tuple[LayoutAlgError, str, dict[str, object]], ...] = (
    (errors.ResourceError("shared memory of a block", 300000, 232448, hint="halve the tile"),
     "shared memory of a block: 300000 asked, the limit is 232448; halve the tile",
     {"resource": "shared memory of a block", "asked": 300000, "limit": 232448}),
    (errors.ResourceError("warps", 3, 2), "warps: 3 asked, the limit is 2", {}),
    (errors.UnknownNameError("arch", "sm90", ["sm_80", "sm_90"]),
     "unknown arch 'sm90': did you mean 'sm_90'? accepted are sm_80, sm_90",
     {"kind": "arch", "name": "sm90", "choices": ("sm_80", "sm_90")}),
    (errors.UnknownNameError("arch", "gfx", ["sm_80"]), "unknown arch 'gfx': accepted are sm_80", {}),
    (errors.IRError("barrier in divergent code", "node", "statement 3 stands under If(lane < 4)"),
     "barrier in divergent code: statement 3 stands under If(lane < 4)",
     {"rule": "barrier in divergent code", "node": "node"}),
    (errors.SimulationError("divergent", lane=3), "divergent", {"lane": 3}),
)  # fmt: skip


@each(("error", "said", "attributes"), MADE)
def test_an_error_says_what_was_asked_and_what_would_be_taken(
    error: LayoutAlgError, said: str, attributes: dict[str, object]
) -> None:
    assert str(error) == said and {name: getattr(error, name) for name in attributes} == attributes


@pytest.mark.parametrize("made", [pickle.dumps, copy.copy])
def test_errors_go_from_process_to_process(made: Callable[[object], object]) -> None:
    """A worker's error that cannot be read would end the pool that it is sent to."""
    for error, _, _ in MADE:
        found = made(error)
        again = pickle.loads(found) if isinstance(found, bytes) else found
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
