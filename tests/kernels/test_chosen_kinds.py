"""What is chosen at real sizes was run: each kind of configuration, on a smaller problem of its structure.

A plan that takes a way through a kernel which no published draw took before fails by the name of its kind:
`python -m tests.frozen.chosen_kinds --write` runs it and records it.
"""

from __future__ import annotations

from math import prod
from typing import Any
from unittest.mock import patch

import pytest

from layoutalg.kernels import FAMILIES
from layoutalg.kernels.rowwise.programs.reduce import _Reduction
from tests.frozen import chosen_kinds
from tests.frozen.kinds import kind_of
from tests.sweeps import each

OTHER_SEED, FEW_ELEMS, EVERY = 20261125, 20_000, 40
"""A seed of draws that are not published; of kinds that run on so few elements each time, one in so many."""


def test_what_is_drawn_is_of_real_sizes_and_the_same_for_a_seed() -> None:
    for room, count in chosen_kinds.PROBLEMS.items():
        cases = list(chosen_kinds.drawn(room, chosen_kinds.SEED, count))
        assert (
            cases
            == list(chosen_kinds.drawn(room, chosen_kinds.SEED, count))
            != list(chosen_kinds.drawn(room, OTHER_SEED, count))
        )
        assert room == "products" or sorted(prod(case.shape) for case in cases)[count // 4] > 1e5


@pytest.mark.deep(only=("sums", "norms", "moves"))
@pytest.mark.parametrize("room", chosen_kinds.PROBLEMS)
def test_every_kind_that_is_chosen_was_run(room: str) -> None:
    new = {
        name: case for name, (case, _, _) in chosen_kinds.unrecorded(chosen_kinds.SEED, rooms=[room]).items()
    }
    assert not new, f"chosen, and never run: {new}"


def _chosen(name: str, case: chosen_kinds.Case) -> tuple[chosen_kinds.Case, Any, Any]:
    (found,) = chosen_kinds.chosen([case])
    assert found[2].name == name, f"{case} is of the kind {found[2].name} now, and was of {name}"
    return found


FEW = [name for name, (_, elems) in chosen_kinds.recorded().items() if 0 < elems < FEW_ELEMS][EVERY::EVERY]


@each("name", FEW, sample=1)
def test_a_kind_is_right(name: str) -> None:
    assert not chosen_kinds.checked(*_chosen(name, chosen_kinds.recorded()[name][0]))


@pytest.mark.deep
@each("name", [name for name, (_, elems) in chosen_kinds.recorded().items() if elems and name not in FEW])
def test_a_further_kind_is_right(name: str) -> None:
    said = chosen_kinds.checked(*_chosen(name, chosen_kinds.recorded()[name][0]))
    assert not said or said.startswith(chosen_kinds.TOO_LARGE)


@pytest.mark.deep
@pytest.mark.parametrize("room", chosen_kinds.PROBLEMS)
def test_kinds_of_other_draws_are_right(room: str) -> None:
    seen = {
        name: chosen_kinds.checked(*one)
        for name, one in chosen_kinds.unrecorded(OTHER_SEED, rooms=[room]).items()
    }
    assert not {
        name: said for name, said in seen.items() if said and not said.startswith(chosen_kinds.TOO_LARGE)
    }


# --- the method ------------------------------------------------------------------------------------------

SHORT_COLUMNS = chosen_kinds.Case(
    "cross_entropy", "sm_80",
    {"shape": (8328, 2, 22, 8), "axes": (2,), "dtype": "f16", "reduction": "none", "target": "s64"},
)  # fmt: skip
"""Of which a thread has several rows, in tiles that are copied by runs."""


def test_a_smaller_problem_is_of_the_same_kind_and_has_several_tiles() -> None:
    case, config, kind = next(iter(chosen_kinds.chosen([SHORT_COLUMNS])))
    small, with_less = chosen_kinds.smaller(case, config, kind)
    assert kind_of(case.family, small.problem, with_less, case.arch) == kind
    assert prod(small.shape) < 10_000 < chosen_kinds.MOST_ELEMS < prod(case.shape)
    assert config not in FAMILIES[case.family].configs(small.problem, case.arch)[:1]


def test_labels_that_are_read_at_places_within_their_tile_are_found() -> None:
    """The defect that the method is for: no problem of a test's size was given this configuration."""

    def within_the_tile(self: Any, place: Any, e: int) -> Any:
        return self.walk.target(place, e)

    (one,) = chosen_kinds.chosen([SHORT_COLUMNS])
    assert not chosen_kinds.checked(*one)
    with patch.object(_Reduction, "_target", within_the_tile):
        assert chosen_kinds.checked(*one)
