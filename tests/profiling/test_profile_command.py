"""`layoutalg profile`: tables, JSON and refusals."""

from __future__ import annotations

import pytest

from tests.command import answer, refusal, run
from tests.profiling.reports import FOLDER, path, with_library


@pytest.mark.deep(but=("transpose_fixed",))
@with_library
@pytest.mark.parametrize("name", ["transpose_fixed", "async_copy", "no_lines"])
def test_json_says_what_was_measured(name: str) -> None:
    payload = answer("profile", str(path(name)))
    assert payload["report"] == f"{name}.ncu-rep" and len(payload["launches"]) == len(payload["kernels"])
    for launch in payload["launches"]:
        by_at = {each["at"]: each for each in launch["instructions"]}
        for line in launch["lines"]:
            parts = [by_at[at] for at in line["instructions"]]
            for counter in ("executed", "wavefronts", "sectors"):
                counts = [each[counter] for each in parts if each[counter] is not None]
                assert line[counter] == (sum(counts) if counts else None)


@pytest.mark.deep
@with_library
def test_the_table_names_the_line_and_the_fix() -> None:
    result = run("profile", str(path("transpose_naive")), "--sass")
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "transpose_naive.cu:17, ld.shared.b32: bank conflicts, 32 times the ideal: 1,015,808" in said
    assert "Sw<5,0,5> o 0 o (32,32):(32,1)" in said and "LDS R9, [R4]" in said


@pytest.mark.deep
@with_library
def test_without_lines_it_says_how_to_have_them() -> None:
    assert "compile with -lineinfo" in run("profile", str(path("no_lines"))).stdout


@pytest.mark.deep
@with_library
def test_with_the_source_each_access_is_named() -> None:
    words = ("--source", str(FOLDER / "vector_pitch.cu"), "--set", "rounds=8")
    (launch,) = answer("profile", str(path("vector_pitch")), *words)["launches"]
    arrays = {(line["line"], line["op"]): line["arrays"] for line in launch["lines"]}
    assert arrays[21, "ld.shared.b128"] == ["tile"] and arrays[22, "ld.shared.b128"] == ["wide"]
    fixes = {line["line"]: line["fixes"] for line in launch["lines"] if line["conflicts"]}
    assert fixes[21] == [
        "tile as (32,32):(36,1) (padding, 512 bytes more)",
        "tile as Sw<3,2,3> o 0 o (32,32):(32,1) (swizzle)",
    ]
    shared = [line for line in launch["lines"] if ".shared.b" in line["op"]]
    assert all(line["predicted"] == line["wavefronts"] for line in shared)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ((str(path("missing")),), "OSError", "No such file"),
        ((str(FOLDER / "record.sh"),), "ParseError", "record.sh is not a report of Nsight Compute"),
        ((str(path("no_lines")), "--set", "N"), "ParseError", "--set 'N' is not NAME=VALUE"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], error: str, message: str) -> None:
    found, sentence = refusal("profile", *words)
    assert found == error and message in sentence
