"""`layoutalg analyze`: the same numbers as the library, for layouts, index expressions and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutalg.analysis import wavefronts
from layoutalg.arch import ARCHS
from tests.command import answer, process, refusal, run
from tests.sweeps import each

PADDED = "(lane//8)*144 + (lane%8)*16"
DATA = Path(__file__).parents[1] / "data" / "h200_wavefronts.jsonl"


def test_the_example_of_the_readme() -> None:
    payload = answer("analyze", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4")
    assert payload["layout"] == "(64,64):(64,1)" and payload["dtype"] == "f16" and payload["arch"] == "sm_90"
    (access,) = payload["accesses"]
    assert access == {
        "access": "ldmatrix.x4",
        "op": "ldmatrix.x4",
        "space": "shared",
        "instructions": 16,
        "total": 512,
        "ideal_total": 64,
        "worst": 32,
        "worst_ideal": 4,
        "ways": 8,
        "conflict_free": False,
        "witness": {"warp": 0, "value": 0, "iteration": 0, "ways": 8, "bank": 0, "lanes": list(range(8))},
        "method": "f2",
        "provenance": "measured",
        "notes": [],
    }
    text = run("analyze", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4").stdout
    assert "16 instructions, each 8-way: 32 wavefronts against an ideal of 4" in text
    assert "layoutalg synthesize '(64,64):(64,1)' --dtype f16 --access ldmatrix.x4" in text


def test_accesses_repeat_and_take_mappings() -> None:
    specs = ["ld.shared.b16@row", "ld.shared.b16@col", "ld.shared.b128@(32,8):(8,1)", "st.global.b32"]
    words = [word for spec in specs for word in ("--access", spec)]
    payload = answer("analyze", "(64,64):(1,64)", "--dtype", "f16", *words)
    assert [a["access"] for a in payload["accesses"]] == specs
    row, column, explicit, stored = payload["accesses"]
    assert (row["worst"], column["worst"]) == (32, 1)
    assert explicit["instructions"] == 1 and explicit["conflict_free"]
    assert stored["efficiency"] == 1.0 and stored["space"] == "global"


def test_memory_can_be_asked_instead_of_requests() -> None:
    """Rows of 32 bytes, 4096 apart: memory fills half lines, for either access and for both together."""
    words = ("--access", "ld.global.b128@row", "--access", "ld.global.b32@col", "--level", "dram")
    payload = answer("analyze", "(4096,8):(1024,1)", *words)
    assert [a["access"] for a in payload["accesses"]] == [words[1], words[3], "together"]
    for access in payload["accesses"]:
        assert access["space"] == "dram" and access["method"] == "digit-classes"
        assert (access["sectors"], access["halves"], access["read_bytes"]) == (4096, 4096, 64 * 4096)
    failing = run("analyze", "(4096,8):(1024,1)", *words, "--fail-on", "efficiency<0.9")
    assert failing.exit_code == 1 and "Fails: efficiency<0.9." in failing.stdout
    error, message = refusal("analyze", "--index", "4*lane", "--op", "ld.global.b32", "--level", "dram")
    assert error == "ArgumentTypeError" and "--level dram needs a layout" in message


@pytest.mark.parametrize("method", ["f2", "gcd", "digit-classes", "enumerated"])
def test_a_method_can_be_asked_for(method: str) -> None:
    payload = answer("analyze", "(32,32):(32,1)", "--access", "ld.shared.b32@col", "--method", method)
    (access,) = payload["accesses"]
    assert access["method"] == method and access["total"] == 1024


def test_large_tiles_take_no_longer() -> None:
    payload = answer("analyze", "(1073741824,4096):(4096,1)", "--dtype", "f16", "--access", "ldmatrix.x4")
    assert payload["accesses"][0]["instructions"] == (1 << 42) >> 8


# --- index expressions and files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [PADDED, "(threadIdx.x / 8) * 144 + (threadIdx.x % 8) * 16", "(lane >> 3)*0x90 + ((lane & 7) << 4)"],
)
def test_an_index_expression_instead_of_a_layout(text: str) -> None:
    payload = answer("analyze", "--index", text, "--op", "ld.shared.b128")
    (access,) = payload["accesses"]
    offsets = [lane // 8 * 144 + lane % 8 * 16 for lane in range(32)]
    assert (payload["layout"], payload["index"], payload["dtype"]) == (None, text, None)
    assert access["total"] == wavefronts("ld.shared.b128", offsets) == access["ideal_total"] == 4
    assert access["method"] == "enumerated"


def test_offsets_in_elements_when_a_type_is_given() -> None:
    bytes_, halves = (
        answer("analyze", "--index", f"lane*{pitch}", "--op", "ld.shared.b16", *dtype)["accesses"][0]["total"]
        for pitch, dtype in (("130", ()), ("65", ("--dtype", "f16")))
    )
    assert bytes_ == halves == 2


@pytest.mark.parametrize(
    ("measured", "op"),
    [
        ("LDSM4", "ldmatrix.x4"),
        ("LDS64", "ld.shared.b64"),
        ("CPA8", "cp.async.8"),
        ("STG32", "st.global.b32"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_file_of_measured_offsets(tmp_path: Path, measured: str, op: str, as_json: bool) -> None:
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["op"] == measured]
    lines = [" ".join("null" if o is None else str(o) for o in row["offsets"]) for row in rows]
    path = tmp_path / "offsets"
    path.write_text(json.dumps([row["offsets"] for row in rows]) if as_json else "\n".join(lines))
    (access,) = answer("analyze", "--offsets", str(path), "--op", op)["accesses"]
    here, there = ("sectors", "sectors") if "global" in op else ("total", "wavefronts")
    assert access[here] == sum(row[there] for row in rows), "what an H200 counted"
    assert access["instructions"] == len(rows) > 9


# --- exit codes ----------------------------------------------------------------------------------------


@pytest.mark.deep
def test_fail_on_decides_the_exit_code() -> None:
    conflict = ("analyze", "(32,32):(32,1)", "--access", "ld.shared.b32@col")
    assert answer(*conflict)["failed"] == []
    assert answer(*conflict, "--fail-on", "conflicts", exit_code=1)["failed"] == ["conflicts"]
    free = ("analyze", "(32,33):(33,1)", "--access", "ld.shared.b32@(32,1):(1,0)")
    assert answer(*free, "--fail-on", "conflicts")["failed"] == []
    half = ("analyze", "--index", "lane*8", "--op", "ld.global.b32")
    assert answer(*half, "--fail-on", "efficiency<0.5")["failed"] == []
    assert answer(*half, "--fail-on", "efficiency<0.501", exit_code=1)["failed"] == ["efficiency<0.501"]
    result = run(*half, "--fail-on", "efficiency<0.9")
    assert result.exit_code == 1 and "Fails: efficiency<0.9." in result.stdout
    assert process(*half, "--fail-on", "efficiency<0.9").returncode == 1


def test_a_condition_that_judges_nothing_is_bad_input() -> None:
    error, message = refusal(
        "analyze", "--index", "lane*4", "--op", "ld.shared.b32", "--fail-on", "efficiency<0.9"
    )
    assert error == "ShapeError" and "judges global memory, which none of the accesses uses" in message


@each("machine", sorted(ARCHS))
def test_every_architecture_can_be_asked(machine: str) -> None:
    words = ("analyze", "(32,32):(32,1)", "--arch", machine, "--access", "ld.shared.b32@col")
    payload = answer(*words)
    assert payload["arch"] == machine and payload["accesses"][0]["ways"] == 32
    if payload["accesses"][0]["provenance"] == "assumed":
        note = f"ld.shared.b32 on {machine} is assumed: carried over from the rule counted on sm_90."
        assert machine != "sm_90" and note in run(*words).stdout
        assert note in payload["accesses"][0]["notes"][0]
