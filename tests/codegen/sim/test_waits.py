"""Who waits for what: the ring of a product with roles, beside a closed form, and what is not followed."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.codegen.sim import RoleTimeline, role_timeline
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels import find_family
from tests.command import answer


def of(step: str, tiles: int, **given: Any) -> RoleTimeline:
    family = find_family("gemm-sm90")
    config, problem = family.steps[step], family.problem(4096)
    one = family.launches(problem, config, "sm_90")
    values = {**dict(one.scalars), **family.bench.scalars(problem), "m": config.tile_m, "n": config.tile_n}
    return role_timeline(one.kernels[0], {**values, "k": tiles * config.tile_k, **given})


@pytest.mark.parametrize("tiles", [1, 3, 4, 9])
@pytest.mark.parametrize("step", ["4 roles", "5 tile 128x256"])
def test_a_ring_with_roles_by_its_definition(step: str, tiles: int) -> None:
    """Tile t comes to stage t mod 4, and is copied once its stage is empty for the t // 4-th time."""
    found = of(step, tiles)
    (producer, fills), (consumer, reads) = found.rows
    assert producer == "producer 0" and consumer.startswith("consumer 0-")
    done = [turn.text for turn in fills if not turn.waits]
    assert done == [
        text.format(t % 4) for t in range(tiles) for text in ("empty{}", "full{}+", "copy{}", "copy{}")
    ]
    assert [turn.text for turn in reads if turn.text.startswith("full") and not turn.waits] == [
        f"full{t % 4}" for t in range(tiles)
    ]
    assert sum(turn.text == "mma" for turn in reads) == tiles
    for t in range(tiles):
        places = [n for n, turn in enumerate(fills) if turn.text == f"copy{t % 4}"]
        landed = places[2 * (t // 4) + 1] + 6
        passed = [n for n, turn in enumerate(reads) if turn.text == f"full{t % 4}"][t // 4]
        assert passed >= landed, "no stage is read before its last copy has landed"
        if t >= 4:
            freed = [n for n, turn in enumerate(reads) if turn.text == f"empty{t % 4}+"][t // 4 - 1]
            assert places[2 * (t // 4)] > freed, "no stage is filled before it was read"


def test_waits_are_counted_by_warp_and_barrier() -> None:
    found = of("4 roles", 6)
    assert {barrier for (_, barrier) in found.waited} == {"empty", "full", "mma"}
    for (name, barrier), number in found.waited.items():
        turns = dict(found.rows)[name]
        assert number == sum(turn.waits and turn.text.startswith(barrier) for turn in turns)
    picture = found.picture()
    assert [panel.title for panel in picture.panels][1] == "turns waited for"


def test_what_is_not_followed_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="runs in clusters"):
        of("7 clusters of 2", 2)
    family = find_family("gemm-sm80")
    problem = family.problem(256)
    one = family.launches(problem, family.choose(problem), "sm_90")
    with pytest.raises(UnsupportedError, match="have no roles"):
        role_timeline(one.kernels[0], dict(one.scalars))
    roles = find_family("gemm-sm90")
    one = roles.launches(roles.problem(256), roles.steps["4 roles"], "sm_90")
    with pytest.raises(ShapeError, match="needs m"):
        role_timeline(one.kernels[0], {})


def test_the_command_draws_who_waits() -> None:
    payload = answer("pipeline", "gemm-sm90", "--step", "4", "--tiles", "5")
    producer, consumer = payload["roles"]
    assert producer["warps"] == "producer 0" and "empty0" in producer["turns"]
    assert consumer["waited"]["full"] > 0 and payload["steps"] == []
