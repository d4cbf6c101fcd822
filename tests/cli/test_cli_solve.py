"""`layoutalg solve`: its sets are where `analyze` says so, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.command import answer, run
from tests.sweeps import each


def holds(solution: dict[str, Any], value: int) -> bool:
    if solution["smallest"] is None or value < solution["smallest"]:
        return False
    if value in solution["also"] or value in solution["but"]:
        return value in solution["also"]
    return value % solution["modulus"] in solution["residues"]


def test_the_leading_dimension_of_a_tile_of_halves() -> None:
    words = ("solve", "(64,64):(ld,1)", "--dtype", "f16", "--access", "ldmatrix.x4")
    (solution,) = answer(*words)["answers"]
    assert (solution["condition"], solution["latex"]) == ("ld mod 16 = 8", r"ld \bmod 16 = 8")
    assert {c["condition"]: c["total"] for c in solution["costs"]}["ld mod 64 = 0"] == 512
    result = run(*words)
    assert result.exit_code == 0
    assert result.stdout.startswith("ldmatrix.x4 is free of conflicts for ld mod 16 = 8.\n")
    assert "misaligned  ld mod 8 in {1..7}" in result.stdout


@pytest.mark.deep(only=("Sw<2,3,3> o {} o (16,32):(32,1)-ld.shared.b32@col-conflicts-False",))
@pytest.mark.parametrize(
    ("layout", "access", "condition", "found"),
    [
        ("(32,16):({},1)", "ld.shared.b32@col", "conflicts", True),
        ("(16,16):(2*{}+4,1)", "ld.shared.b128@col", "conflicts", True),
        ("(16,16):({},1)", "ld.global.b32", "efficiency<0.9", True),
        ("Sw<2,3,3> o {} o (16,32):(32,1)", "ld.shared.b32@col", "conflicts", False),
    ],
)
def test_what_it_says_is_what_analyze_says(layout: str, access: str, condition: str, found: bool) -> None:
    words = ("--access", access, *(("--efficiency", "0.9") if "<" in condition else ()))
    (solution,) = answer("solve", layout.format("n"), *words, exit_code=int(not found))["answers"]
    for value in (20, 24, 28, 33, 40, 64):
        concrete = layout.replace("2*{}+4", str(2 * value + 4)).format(value)
        analysed = run("analyze", concrete, "--access", access, "--fail-on", condition)
        assert holds(solution, value) == (analysed.exit_code == 0), value


def test_bases() -> None:
    payload = answer("solve", "32:1", "--access", "ld.global.b32", "--base", "4*shift")
    assert payload["least"] == 0 and payload["answers"][0]["condition"] == "shift mod 8 = 0"
    text = run("solve", "32:1", "--access", "ld.global.b32", "--base", "shift").stdout
    assert text.startswith("ld.global.b32 moves as few sectors as large shift allow for shift mod 32 = 0.")


def test_no_value_and_no_answer_are_exit_code_1() -> None:
    words = ("solve", "(32,32):(2*ld,1)", "--access", "ld.shared.b32@col")
    assert answer(*words, exit_code=1)["answers"][0]["empty"]
    assert "for no ld." in run(*words).stdout
    words = ("solve", "(4,8):(ld,1)", "--access", "ld.shared.b32@(8,1):(3,0)")
    (solution,) = answer(*words, exit_code=1)["answers"]
    assert "do not compose" in solution["open"] and solution["modulus"] is None
    assert "(open: " in run(*words).stdout


def test_values_at_which_rows_overlap_are_left_out_for_a_store_and_the_least_is_named() -> None:
    words = ("solve", "(128,8):(1,ld)", "--access", "st.shared.b32@row")
    (solution,) = answer(*words)["answers"]
    assert (solution["condition"], solution["smallest"]) == ("ld mod 8 = 4 from ld = 132 on", 132)
    assert (
        solution["stores"] and solution["overlapping"] == [[1, 127]] and solution["smallest_distinct"] == 132
    )
    assert not any(holds(solution, value) for value in (1, 4, 12, 128)) and holds(solution, 132)
    said = " ".join(run(*words).stdout.split())
    assert "for ld mod 8 = 4 from ld = 132 on; the least is ld = 132." in said
    assert "Left out is ld in {1..127}, at which two elements share an address." in said


@pytest.mark.parametrize("layout", ["(64,64):(ld**2,1)", "(64,64):(-ld,1)", "(64,64):(256-ld,1)"])
def test_a_stride_that_is_no_growing_line_in_the_name_is_left_open(layout: str) -> None:
    (solution,) = answer("solve", layout, "--access", "ldmatrix.x4", "--dtype", "f16", exit_code=1)["answers"]
    assert "times" in solution["open"]


def test_terms_are_expressions() -> None:
    (one,) = answer("solve", "32:1", "--access", "ld.global.b32", "--base", "4*(shift+2)")["answers"]
    assert one["condition"] == "shift mod 8 = 6"
    words = ("--dtype", "f16", "--access", "ldmatrix.x4")
    (one,) = answer("solve", "(64,64):(8+2*ld+ld,1)", *words)["answers"]
    (other,) = answer("solve", "(64,64):(3*ld+8,1)", *words)["answers"]
    assert one == other


@pytest.mark.deep
@each(
    ("accesses", "condition", "empty"),
    [
        (("ld.shared.b32@col", "ld.shared.b128@row"), "no ld", True),
        (("ld.shared.b32@col", "ld.shared.b32@row"), "ld odd", False),
        (("ld.shared.b128@col", "ld.shared.b64@row"), "ld mod 8 = 4", False),
    ],
    sample=1,
)
def test_several_accesses_have_one_answer(accesses: tuple[str, ...], condition: str, empty: bool) -> None:
    words = ("solve", "(32,32):(ld,1)", *(word for one in accesses for word in ("--access", one)))
    together = answer(*words, exit_code=int(empty))["together"]
    assert (together["condition"], together["empty"]) == (condition, empty)
    assert run(*words).stdout.endswith(f"All of these together: {condition}.\n")
    for value in (4, 12, 16, 33, 40, 64):
        layout = f"(32,32):({value},1)"
        codes = [run("analyze", layout, "--access", x, "--fail-on", "conflicts").exit_code for x in accesses]
        assert holds(together, value) == (not any(codes)), value
