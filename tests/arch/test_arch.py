"""Facts are consistent with each other, and a toy GPU is just another value."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from layoutalg.analysis import wavefronts
from layoutalg.arch import ARCHS, INSTRUCTIONS, Arch, find_arch, find_board, find_instruction, find_target
from layoutalg.errors import ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError
from tests.draws.synthesis_cases import TOY
from tests.sweeps import each

ARCH = each("machine", ARCHS.values(), ids=lambda a: a.name)


def test_the_registry_is_complete_and_read_only() -> None:
    assert list(ARCHS) == [
        "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"
    ]  # fmt: skip
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
    assert machine.source
    if machine.name != "sm_103":  # no document describes a board in full
        assert machine.board and machine.board.source


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
    rows = (Path(__file__).parents[1] / "data" / "h200_wavefronts.jsonl").read_text().splitlines()
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


@each(
    ("name", "ideal"),
    [
        ("ld.shared.b8", 1), ("ld.shared.b32", 1), ("st.shared.b64", 2), ("ld.shared.b128", 4),
        ("ldmatrix.x1", 1), ("ldmatrix.x2.trans", 2), ("stmatrix.x4", 4), ("red.shared.u32", 1),
        ("cp.async.4", 4), ("cp.async.8", 5), ("cp.async.16", 4),
    ],
)  # fmt: skip
def test_ideal_of_a_full_warp(name: str, ideal: int) -> None:
    assert INSTRUCTIONS[name].ideal == ideal


LIMITS = {
    "sm_70": (64, 32, 96, 96), "sm_75": (32, 16, 64, 64), "sm_80": (64, 32, 164, 163),
    "sm_86": (48, 16, 100, 99), "sm_87": (48, 16, 164, 163), "sm_89": (48, 24, 100, 99),
    "sm_90": (64, 32, 228, 227), "sm_100": (64, 32, 228, 227), "sm_103": (64, 32, 228, 227),
    "sm_120": (48, 24, 100, 99),
}  # fmt: skip
"""Warps and blocks per SM, KiB of shared memory per SM and per block, typed a second time.

CUDA Programming Guide 13, 5.1.3, tables 30 and 31; of sm_70 the guide of CUDA 12."""


@ARCH
def test_limits_are_those_of_the_programming_guide(machine: Arch) -> None:
    warps, blocks, per_sm, per_block = LIMITS[machine.name]
    assert (machine.max_warps_per_sm, machine.max_blocks_per_sm) == (warps, blocks)
    assert machine.shared_bytes_per_sm == per_sm << 10
    assert machine.max_shared_bytes_per_block == per_block << 10
    assert (machine.registers_per_sm, machine.max_registers_per_thread) == (1 << 16, 255)
    assert (machine.banks, machine.max_threads_per_block) == (32, 1024)


def test_instructions_exist_from_their_architecture_on() -> None:
    since = {
        "ldmatrix.x4": (7, 5), "cp.async.16": (8, 0), "stmatrix.x4": (9, 0), "ld.shared.b128": (7, 0),
        "ld.global.b256": (10, 0), "st.global.b256": (10, 0),
    }  # fmt: skip
    for machine in ARCHS.values():
        for name, first in since.items():
            assert (name in machine.instructions) == (machine.compute_capability >= first), machine.name


def test_architectures_have_many_names() -> None:
    expected = {
        "sm_70": "sm70 7.0 V100 tesla-v100", "sm_75": "75 7.5 T4 RTX2080Ti turing", "sm_80": "80 a100 A30",
        "sm_86": "86 8.6 rtx3090 RTX-3060 A10 rtxa6000", "sm_87": "orin AGX-Orin jetson_orin_nano 8.7",
        "sm_89": "rtx4090 L4 l40s ada GeForce-RTX-4090", "sm_90": "sm_90a sm90a 90a 9.0 h100 H200 hopper",
        "sm_100": "100 10.0 b200", "sm_103": "b300 GB300 10.3 sm_103a", "sm_120": "rtx5090 12.0 120",
    }  # fmt: skip
    found = {name: {find_arch(text).name for text in texts.split()} for name, texts in expected.items()}
    assert found == {name: {name} for name in expected}
    assert find_arch("NVIDIA GeForce RTX 4090").board == find_board("RTX 4090")
    assert find_arch("sm_90a") is find_arch("sm_90") is ARCHS["sm_90"] and find_arch(TOY) is TOY
    assert [find_target(name) for name in ("sm_90a", "h100", "10.3", ARCHS["sm_80"])] == [
        "sm_90a", "sm_90", "sm_103", "sm_80",
    ]  # fmt: skip


@each(
    ("name", "part"),
    [
        ("ampere", "a family of several; .* sm_80, sm_86, sm_87$"),
        ("Blackwell", "family of several; accepted are sm_100, sm_103, sm_120$"),
        ("rtx409", "did you mean 'RTX 4090'"),
        ("sm_9", "did you mean 'sm_90"),
        *((name, "architecture") for name in ("", "-", "sm_", "nvidia", "9", "sm_121", "1.00")),
    ],
)
def test_what_names_no_architecture_is_refused(name: str, part: str) -> None:
    with pytest.raises(UnknownNameError, match=part):
        find_arch(name)
    with pytest.raises(ArgumentTypeError, match="find_arch of 90: its type is int; a name"):
        find_arch(90)  # type: ignore[arg-type]


def test_an_instruction_of_another_architecture_is_named_as_such() -> None:
    for name in ("stmatrix.x4", "SM90_U32x4_STSM_N"):
        with pytest.raises(UnsupportedError, match="exists on sm_90, sm_100"):
            find_instruction(name, ARCHS["sm_80"])
    with pytest.raises(UnknownNameError, match=r"did you mean 'ldmatrix\.x4'"):
        find_instruction("ldmatrix.4", ARCHS["sm_80"])


@each(
    ("offsets", "expected"),
    [((0, 4, 8, 12), 1), ((0, 8, 16, 24), 2), ((0, 16, 32, 48), 4), ((0, 20, 40, 60), 1)],
)
def test_the_toy_of_four_lanes_and_four_banks(offsets: tuple[int, ...], expected: int) -> None:
    assert wavefronts("ld.shared.b32", offsets, TOY) == expected


def test_banks_come_in_powers_of_two() -> None:
    with pytest.raises(ShapeError, match=r"banks of architecture odd is 6"):
        dataclasses.replace(TOY, name="odd", banks=6)
