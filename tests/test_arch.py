"""Facts are consistent with each other, and a toy GPU is just another value."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from layoutalg.analysis.banks import wavefronts
from layoutalg.arch import (
    ARCHS,
    INSTRUCTIONS,
    Arch,
    find_arch,
    find_instruction,
    instruction_table,
)
from layoutalg.errors import ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError

ARCH = pytest.mark.parametrize("machine", ARCHS.values(), ids=lambda a: a.name)
TOY = dataclasses.replace(
    ARCHS["sm_90"], name="toy", targets=(), lanes=4, banks=4, instructions=instruction_table(lanes=4, banks=4)
)


def test_the_registry_is_complete_and_read_only() -> None:
    assert list(ARCHS) == ["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100"]
    with pytest.raises(TypeError):
        ARCHS["sm_90"] = ARCHS["sm_80"]  # type: ignore[index]
    with pytest.raises(TypeError):
        ARCHS["sm_90"].instructions["nop"] = INSTRUCTIONS["ld.shared.b32"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ARCHS["sm_90"].lanes = 64  # type: ignore[misc]


@ARCH
def test_limits_fit_each_other(machine: Arch) -> None:
    assert machine.static_shared_bytes_per_block <= machine.max_shared_bytes_per_block
    spent = machine.max_shared_bytes_per_block + machine.reserved_shared_bytes_per_block
    assert spent == machine.shared_bytes_per_sm
    assert machine.max_warps_per_sm * machine.lanes >= machine.max_threads_per_block
    assert machine.name == "sm_{}{}".format(*machine.compute_capability)
    assert machine.name in machine.targets
    assert machine.source and machine.board and machine.board.source


@ARCH
def test_every_rule_is_well_formed_and_cited(machine: Arch) -> None:
    for name, rule in machine.instructions.items():
        assert rule.name == name and name in INSTRUCTIONS
        assert rule.source
        assert rule.lanes <= machine.lanes and machine.lanes % rule.lanes == 0
        assert rule.lanes % rule.group_lanes == 0
        if rule.space == "shared" and not rule.matrices:
            row_bytes = machine.banks * machine.bank_bytes
            assert rule.group_lanes * max(rule.width_bytes, machine.bank_bytes) == row_bytes
        assert find_instruction(name, machine) is rule


def test_measured_means_that_the_repository_has_the_rows() -> None:
    rows = (Path(__file__).parent / "data" / "h200_wavefronts.jsonl").read_text().splitlines()
    counted = {json.loads(row)["op"] for row in rows}
    mnemonics = {"ldmatrix": "LDSM", "stmatrix": "STSM", "cp": "CPA", "red": "REDS"}
    for rule in ARCHS["sm_90"].instructions.values():
        kind, *rest = rule.name.split(".")
        if kind in ("ld", "st"):
            op = f"{kind.upper()}{rest[0][0].upper()}{rest[1].removeprefix('b')}"
        else:
            digits = "".join(c for c in rule.name if c.isdigit())
            op = f"{mnemonics[kind]}{digits}{'T' if rest[-1] == 'trans' else ''}"
        in_data = op in counted and ":global" not in rule.name
        assert (rule.provenance == "measured") == in_data, rule.name
    for name, machine in ARCHS.items():
        if name != "sm_90":
            assert all(rule.provenance != "measured" for rule in machine.instructions.values())


@pytest.mark.parametrize(
    ("name", "ideal"),
    [
        ("ld.shared.b8", 1), ("ld.shared.b32", 1), ("st.shared.b64", 2), ("ld.shared.b128", 4),
        ("ldmatrix.x1", 1), ("ldmatrix.x2.trans", 2), ("stmatrix.x4", 4), ("red.shared.u32", 1),
        ("cp.async.4", 4), ("cp.async.8", 5), ("cp.async.16", 4),
    ],
)  # fmt: skip
def test_ideal_of_a_full_warp(name: str, ideal: int) -> None:
    assert INSTRUCTIONS[name].ideal == ideal


def test_lookup_accepts_names_targets_and_values() -> None:
    assert find_arch("sm_90a") is find_arch("sm_90") is ARCHS["sm_90"]
    assert find_arch(TOY) is TOY
    with pytest.raises(UnknownNameError, match=r"did you mean 'sm_90'"):
        find_arch("sm90")
    with pytest.raises(ArgumentTypeError, match=r"architecture 90 is a int"):
        find_arch(90)  # type: ignore[arg-type]


def test_an_instruction_of_another_architecture_is_named_as_such() -> None:
    with pytest.raises(UnsupportedError, match=r"sm_80 has no stmatrix.x4; it exists on sm_90, sm_100"):
        find_instruction("stmatrix.x4", ARCHS["sm_80"])
    with pytest.raises(UnknownNameError, match=r"did you mean 'ldmatrix.x4'"):
        find_instruction("ldmatrix.4", ARCHS["sm_80"])


@pytest.mark.parametrize(
    ("offsets", "expected"), [((0, 4, 8, 12), 1), ((0, 8, 16, 24), 2), ((0, 16, 32, 48), 4)]
)
def test_the_toy_of_four_lanes_and_four_banks(offsets: tuple[int, ...], expected: int) -> None:
    assert wavefronts("ld.shared.b32", offsets, TOY) == expected


def test_the_toy_padded_and_swizzled() -> None:
    padded = [4 * (5 * row) for row in range(4)]
    swizzled = [4 * (i ^ ((i & 0b1100) >> 2)) for i in range(0, 16, 4)]
    assert wavefronts("ld.shared.b32", padded, TOY) == wavefronts("ld.shared.b32", swizzled, TOY) == 1


def test_banks_come_in_powers_of_two() -> None:
    with pytest.raises(ShapeError, match=r"banks of architecture odd is 6"):
        dataclasses.replace(TOY, name="odd", banks=6)
