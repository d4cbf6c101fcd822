"""Timelines of main loops and of roles: closed forms of rings beside what is followed, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import Use, role_timeline, timeline
from layoutalg.draw import as_svg, as_text
from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import Sm90Config
from layoutalg.kernels.registry import find_steps
from tests.command import answer, refusal, run

RINGS = [("gemm-sm80", "7 cp.async ring, mma k16"), ("gemm-sm80", "8 two fragments, tile 128x256x64"),
         ("gemm-simt", "cp.async"), ("gemm-simt", "wide")]  # fmt: skip


def kernel_of(name: str, config: Any = None, p: Any = None) -> tuple[Kernel, dict[str, Any], Any]:
    """A kernel of a family, its scalars and its configuration: the chosen one, or a step of the ladder."""
    family = find_family(name)
    p = p or family.problem(4096)
    config = find_steps(name)[config] if isinstance(config, str) else config or family.choose(p)
    one = family.launches(p, config, "sm_90")
    return one.kernels[0], {**dict(one.scalars), **family.scalars(p)}, config


def of(name: str, step: Any, tiles: int, p: Any = None) -> tuple[Any, Any]:
    """The timeline of so many tiles along k, of loops or of roles."""
    kernel, given, config = kernel_of(name, step, p)
    if name == "gemm-sm90":
        given |= {"m": config.tile_m, "n": config.tile_n}
        return role_timeline(kernel, {**given, "k": tiles * config.tile_k}), config
    return timeline(kernel, {**given, "k": tiles * config.tile_k}), config


@pytest.mark.parametrize(("name", "step"), RINGS)
def test_a_ring_by_its_definition(name: str, step: str) -> None:
    """Tile t lies in stage t mod S; its copy begins S - 1 tiles earlier, and it is read from the step before
    its first, as its fragments are loaded a step ahead, to its last but one."""
    tiles = 7
    found, config = of(name, step, tiles)
    parts = (len(found.steps) - 1) // tiles
    assert found.steps[1:] == tuple(f"{t}.{p}" for t in range(tiles) for p in range(parts))
    for n, step_name in enumerate(found.steps[1:], 1):
        t, p = map(int, step_name.split("."))
        for side in "ab":
            assert found.uses[f"r{side} {p % 2}", n] == Use(t, p, read=True)
            reading = t if p < parts - 1 else t + 1
            if reading < tiles:
                use = found.uses[f"tile_{side} {reading % config.stages}", n]
                assert (use.tile, use.read, use.coming) == (reading, True, False)
            coming = t + config.stages - 1
            for ahead in range(t + 2, min(coming, tiles - 1) + 1):
                use = found.uses[f"tile_{side} {ahead % config.stages}", n]
                assert (use.tile, use.coming, use.read) == (ahead, True, False)
            if p == 0 and config.stages - 1 <= coming < tiles:
                assert found.uses[f"tile_{side} {coming % config.stages}", n] == Use(coming, None, True, True)


@pytest.mark.parametrize("step", find_steps("gemm-sm80"))
def test_nothing_is_read_that_is_on_its_way(step: str) -> None:
    found, _ = of("gemm-sm80", step, 5)
    stages = [(n, use) for (row, n), use in found.uses.items() if row.startswith("tile_")]
    assert all(not use.coming for _, use in stages if use.read) and any(use.read for _, use in stages)
    last = found.steps.index("4.0")
    assert any(use.tile == 4 and use.read for n, use in stages if n >= last - 1)


def test_copies_through_registers_are_ahead_of_their_stores() -> None:
    for step, most in (("4 copy ahead", 1), ("2 vectors", 0)):
        found, _ = of("gemm-sm80", step, 4)
        staged, stored = (
            [found.uses[row, n].tile for n in range(len(found.steps))] for row in ("staged_a 0", "tile_a 0")
        )
        ahead = [a - b for a, b in zip(staged, stored, strict=True)]
        assert ahead[0] == 0 and set(ahead[1:-4]) == {most} and set(ahead[-4:]) == {0}


@pytest.mark.parametrize("tiles", [1, 3, 4, 9])
@pytest.mark.parametrize("step", ["4 roles", "5 tile 128x256"])
def test_a_ring_with_roles_by_its_definition(step: str, tiles: int) -> None:
    """Tile t comes to stage t mod 4, and is copied once its stage is empty for the t // 4-th time."""
    found, _ = of("gemm-sm90", step, tiles)
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
    found, _ = of("gemm-sm90", "4 roles", 6)
    assert {barrier for (_, barrier) in found.waited} == {"empty", "full", "mma"}
    for (name, barrier), number in found.waited.items():
        turns = dict(found.rows)[name]
        assert number == sum(turn.waits and turn.text.startswith(barrier) for turn in turns)
    assert [panel.title for panel in found.picture().panels][1] == "turns waited for"


@pytest.mark.parametrize("config", [
    Sm90Config(128, 64, 2, cluster_m=2), Sm90Config(256, 64, 2, cluster_n=2),
    Sm90Config(128, 64, 2, cluster_k=2), Sm90Config(128, 64, 2, cluster_m=2, pingpong=True),
], ids=str)  # fmt: skip
def test_the_blocks_of_a_cluster_wait_for_each_other(config: Sm90Config) -> None:
    """Each block has the rows of one alone; a stage that is loaded for all is filled again only behind the
    arrivals of all, and sums of peers come behind their products."""
    kernel, given, _ = kernel_of("gemm-sm90", config)
    given |= {"m": config.tile_m * config.cluster_m, "n": config.tile_n * config.cluster_n, "k": 64 * 12}
    rows = dict(role_timeline(kernel, given).rows)
    texts = {name: [turn.text for turn in turns] for name, turns in rows.items()}
    first = [name for name in rows if not name.startswith("block 1 ")]
    assert {name.removeprefix("block 1 ") for name in rows if name not in first} == set(first)
    if config.sharing > 1:
        again = min(texts[name].index("empty0", 2) for name in rows if "producer" in name)
        freed = [row.index("empty0+") for row in texts.values() if "empty0+" in row and "copy0" not in row]
        assert len(freed) == 4 // (1 + config.pingpong) and again > max(freed)
    else:
        own = texts["consumer 0"]
        assert own.index("came0") > max(n for n, text in enumerate(own) if text == "mma")


def test_what_is_not_followed_is_refused_by_name() -> None:
    transpose, given, _ = kernel_of("transpose", p=find_family("transpose").problem(64, 64, "f32"))
    empty, product = KernelBuilder("empty", threads=32).build(), kernel_of("gemm-sm80")[0]
    roles = kernel_of("gemm-sm90", "4 roles")[0]
    for follow, kernel, values, kind, said in (
        (timeline, transpose, given, UnsupportedError, "multiplies nothing"),
        (timeline, transpose, {}, ShapeError, "needs m"),
        (timeline, transpose, given | {"m": 3}, LayoutAlgError, "m = 3"),
        (timeline, empty, {}, UnsupportedError, "multiplies nothing"),
        (timeline, roles, given, UnsupportedError, "have roles"),
        (role_timeline, product, {}, UnsupportedError, "have no roles"),
        (role_timeline, roles, {}, ShapeError, "needs m"),
    ):
        with pytest.raises(kind, match=said):
            follow(kernel, values)


def test_the_command_draws_it(tmp_path: Path) -> None:
    words = ("inspect", "pipeline", "gemm-sm80", "--step", "8", "--tiles", "3")
    payload = answer(*words)
    assert payload["steps"][:3] == ["", "0.0", "0.1"] and "tile_b 2" in payload["places"]
    assert run(*words).stdout.startswith("pipeline of gemm_sm80_f16\n")
    path, picture = tmp_path / "pipeline.svg", of("gemm-sm80", RINGS[1][1], 2)[0].picture()
    assert run(*words, "-o", str(path)).exit_code == 0 and path.read_text(encoding="utf-8").startswith("<svg")
    assert all(part in as_text(picture, width=120) for part in ("before", "0.3+", "1.3*"))
    assert "<svg" in as_svg(picture)
    payload = answer("inspect", "pipeline", "gemm-sm90", "--step", "4", "--tiles", "5")
    assert {
        x["warps"].partition(" ")[0]
        for x in answer("inspect", "pipeline", "gemm-sm90", "--step", "11")["roles"]
    } > {"block"}
    producer, consumer = payload["roles"]
    assert producer["warps"] == "producer 0" and "empty0" in producer["turns"]
    assert consumer["waited"]["full"] > 0 and payload["steps"] == []
    for more, error, part in (
        (("softmax",), "UnsupportedError", "not a matrix product"),
        (("gemm-sm80", "--tiles", "0"), "ResourceError", "tiles along k"),
        (("gemm-sm80", "--format", "gif"), "UnknownNameError", "picture format"),
        (("gemm-sm80", "--format", "png"), "UnsupportedError", "name a file"),
    ):
        found, sentence = refusal("inspect", "pipeline", *more)
        assert found == error and part in sentence
