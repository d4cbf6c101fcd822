"""The n of an n-way conflict is one number in every command: words of a bank of the worst instruction."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from layoutalg.analysis import batch_lanes, served_batch, warp_rule, worst_clash
from layoutalg.draw import schedule
from layoutalg.source import read_kernel
from tests.command import answer
from tests.sweeps import each

WIDTHS = {"unsigned char": 1, "short": 2, "float": 4, "double": 8, "float4": 16}


def kernel_ways(element: str, places: list[list[int]]) -> tuple[int, int]:
    """(wavefronts, ways) of loads of elements, a row of places for each warp, by `layoutalg kernel`."""
    picks = " + ".join(f"(t == {t}) * {at}" for t, at in enumerate(a for row in places for a in row))
    text = (
        f"__global__ void k({element}* o) {{ __shared__ {element} s[4096]; int t = threadIdx.x; "
        f"o[t] = s[{picks}]; }}"
    )
    access = next(a for a in read_kernel(text, 32 * len(places)).memory if a.space == "shared")
    assert access.total is not None and access.ways is not None
    return access.total, access.ways


@each("element", tuple(WIDTHS), sample=3)
def test_every_command_counts_the_same_ways(element: str) -> None:
    """Drawn lanes: the definition, many at once, the kernel's table, and the words of the picture."""
    rng = random.Random(f"ways {element}")
    width = WIDTHS[element]
    op = f"ld.shared.b{8 * width}"
    rule, machine = warp_rule(op, "shared", "sm_90")
    places = [
        [rng.choice((8 * t, 32 * t, t, rng.randrange(512))) % 4096 for t in range(32)] for _ in range(2)
    ]
    lanes = [[width * at for at in row] for row in places]
    wanted = [worst_clash(op, row).ways for row in lanes]
    import numpy as np

    checked = batch_lanes(rule, machine, np.array(lanes))
    assert served_batch(rule, machine, *checked)[2].tolist() == wanted
    for row, ways in zip(places, wanted, strict=True):
        total, found = kernel_ways(element, [row])
        assert found == (ways if total > rule.lanes // rule.group_lanes else 1)
        drawn = schedule(op, [width * at for at in row], "sm_90")
        assert 1 + max(service.wavefront for service in drawn) == ways


def test_a_worst_instruction_is_one_past_its_ideal() -> None:
    """Four phases without a conflict take more wavefronts than a phase of 3 ways, and are not the worst."""
    text = """
__global__ void k(float4* o) { __shared__ float4 s[512]; int t = threadIdx.x;
  if (t < 32 || t < 35) o[t] = s[t < 32 ? t : 8 * t]; }"""
    (access,) = (a for a in read_kernel(text, 64).memory if a.space == "shared")
    assert (access.total, access.ideal_total, access.ways) == (7, 5, 3)


@pytest.mark.parametrize("order", [1, -1])
def test_of_equal_instructions_the_busiest_bank_counts(order: int, tmp_path: Path) -> None:
    """8 + 1 + 1 + 1 wavefronts are as many as 3 + 3 + 3 + 2, in either order."""
    first = [8 * t if t < 8 else t for t in range(32)]
    second = [8 * (t % 8) if t % 8 < (3 if t < 24 else 2) else t % 8 for t in range(32)]
    rows = [first, second][::order]
    assert [worst_clash("ld.shared.b128", [16 * at for at in row]).ways for row in rows] == [8, 3][::order]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps([[16 * at for at in row] for row in rows]), encoding="utf-8")
    found = answer("analyze", "--offsets", str(offsets), "--op", "ld.shared.b128")["accesses"][0]
    assert (found["total"], found["ways"]) == (22, 8)
    assert kernel_ways("float4", rows) == (22, 8)
