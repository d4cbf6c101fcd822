"""Timelines of main loops: a closed form of rings beside what is followed, and what cannot be followed."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.sim import Timeline, Use, timeline
from layoutalg.draw import as_svg, as_text
from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.ladder.steps import Sm80Step
from tests.command import answer, refusal, run

RINGS = [("gemm-sm80", "7 cp.async ring, mma k16"), ("gemm-sm80", "8 two fragments, tile 128x256x64"),
         ("gemm-simt", "cp.async"), ("gemm-simt", "wide")]  # fmt: skip


def of(name: str, step: str, tiles: int) -> tuple[Timeline, Any]:
    family = find_family(name)
    config, p = family.steps[step], family.problem(4096)
    (kernel,), scalars = (one := family.launches(p, config, "sm_90")).kernels, dict(one.scalars)
    return timeline(kernel, {**scalars, **family.bench.scalars(p), "k": tiles * config.tile_k}), config


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


@pytest.mark.parametrize("step", find_family("gemm-sm80").steps)
def test_nothing_is_read_that_is_on_its_way(step: str) -> None:
    found, _ = of("gemm-sm80", step, 5)
    stages = [(row, n, use) for (row, n), use in found.uses.items() if row.startswith("tile_")]
    assert all(not use.coming for _, _, use in stages if use.read) and any(use.read for _, _, use in stages)
    last = found.steps.index("4.0")
    assert any(use.tile == 4 and use.read for row, n, use in stages if n >= last - 1)


def test_copies_through_registers_are_ahead_of_their_stores() -> None:
    found, _ = of("gemm-sm80", "4 copy ahead", 4)
    ahead = [
        found.uses["staged_a 0", n].tile - found.uses["tile_a 0", n].tile for n in range(len(found.steps))
    ]
    assert ahead[0] == 0 and set(ahead[1:-4]) == {1} and set(ahead[-4:]) == {0}
    late, _ = of("gemm-sm80", "2 vectors", 4)
    assert {late.uses["staged_a 0", n].tile - late.uses["tile_a 0", n].tile for n in range(16)} == {0}


def test_a_timeline_is_a_picture() -> None:
    found, _ = of("gemm-sm80", "8 two fragments, tile 128x256x64", 2)
    text = as_text(found.picture(), width=120)
    assert "before" in text and "0.3+" in text and "1.3*" in text and "<svg" in as_svg(found.picture())


def test_what_has_no_main_loop_is_refused() -> None:
    family = find_family("transpose")
    p = family.problem(64, 64, "f32")
    one = family.launches(p, family.choose(p), "sm_90")
    given = {**dict(one.scalars), **family.bench.scalars(p)}
    with pytest.raises(UnsupportedError, match="multiplies nothing"):
        timeline(one.kernels[0], given)
    with pytest.raises(ShapeError, match="needs m"):
        timeline(one.kernels[0], {})
    with pytest.raises(LayoutAlgError):
        timeline(one.kernels[0], given | {"m": 3})
    with pytest.raises(UnsupportedError, match="multiplies nothing"):
        timeline(KernelBuilder("empty", threads=32).build(), {})


def test_a_kernel_of_roles_is_refused() -> None:
    family = find_family("gemm-sm90")
    p = family.problem(512)
    one = family.launches(p, family.choose(p), "sm_90a")
    with pytest.raises(UnsupportedError, match="have roles"):
        timeline(one.kernels[0], dict(one.scalars))


def test_the_command_draws_it(tmp_path: Any) -> None:
    words = ("pipeline", "gemm-sm80", "--step", "8", "--tiles", "3")
    payload = answer(*words)
    assert payload["steps"][:3] == ["", "0.0", "0.1"] and "tile_b 2" in payload["places"]
    assert run(*words).stdout.startswith("pipeline of gemm_sm80_f16\n")
    path = tmp_path / "pipeline.svg"
    assert run(*words, "-o", str(path)).exit_code == 0 and path.read_text(encoding="utf-8").startswith("<svg")
    for more, error, part in (
        (("softmax",), "UnsupportedError", "no matrix product"),
        (("gemm-sm80", "--tiles", "0"), "ResourceError", "tiles along k"),
        (("gemm-sm80", "--format", "gif"), "UnknownNameError", "picture format"),
        (("gemm-sm80", "--format", "png"), "UnsupportedError", "name a file"),
        (("gemm-sm90",), "UnsupportedError", "runs in clusters"),
    ):
        found, sentence = refusal("pipeline", *more)
        assert found == error and part in sentence


@pytest.mark.parametrize("sets", [1, 2, 4])
def test_sets_of_fragments_are_loaded_so_many_steps_ahead(sets: Any) -> None:
    """Of S sets, part p goes to set p mod S, S - 1 parts before it is multiplied: 3 stages and 4 sets."""
    family = find_family("gemm-sm80")
    p = family.problem(512, accumulator="f16")
    config = Sm80Step(128, 128, 64, 2, 2, 3, fragments=sets)
    one = family.launches(p, config, "sm_90")
    found = timeline(one.kernels[0], {**dict(one.scalars), **family.bench.scalars(p), "k": 4 * 64})
    assert found.steps[1:] == tuple(f"{t}.{part}" for t in range(4) for part in range(4))
    for n in range(1, 17 - sets):
        loaded = divmod(n - 1 + sets - 1, 4)
        use = found.uses[f"ra {loaded[1] % sets}", n]
        assert (use.tile, use.part, use.begins) == (*loaded, True)
        assert found.uses[f"ra {(n - 1) % 4 % sets}", n].read
