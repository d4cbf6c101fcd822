"""Names in layouts on the command line: code, analyze, identify and check, for all of their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import answer, refusal, run

RASTER = (
    "int f(int pid, int gm, int gn) { return pid / (8*gn) * 8 + pid % (8*gn) % 8 + pid % (8*gn) / 8 * gm; }"
)


def test_code_takes_names_as_parameters() -> None:
    out = run("code", "(32,32):(ld,1)", "--to", "cuda", "--where", "ld in 32..4096, ld % 8 == 0").output
    assert "unsigned f(unsigned row, unsigned col, unsigned ld)" in out
    assert "ld in [32,4097), ld % 8 == 0" in out and "return row * ld + col;" in out
    out = run("code", "(n,(4,m)):(1,(n,4*n))", "--to", "python", "--where", "n < 100, m < 100").output
    assert "return row + col % 4 * n + col // 4 * (n * 4)" in out


def test_analyze_tells_the_best_and_the_worst() -> None:
    found = answer("analyze", "(32,32):(ld,1)", "--access", "ld.shared.b32@col", "--where", "ld in 32..64")
    pieces = found["open"][0]["pieces"]
    assert [piece["total"] for piece in pieces] == [32, 64, 128, 256, 512, 1024]
    assert pieces[0]["example"] == "ld = 33" and found["accesses"] == []
    assert "worst 1,024 at ld = 32" in run("analyze", "(32,32):(ld,1)", "--where", "ld in 32..64").output


def test_a_function_with_symbols_is_identified_and_checked(tmp_path: Path) -> None:
    source, raster = tmp_path / "f.cu", tmp_path / "raster.cu"
    source.write_text("int f(int row, int col, int ld) { return row * ld + col; }")
    raster.write_text(RASTER)
    named = "--where", "ld in 32..4096"
    assert answer("identify", str(source), "--shape", "(32,32)", *named)["layout"] == "(32,32):(ld,1)"
    assert answer("check", "(32,32):(ld,1)", str(source), *named)["equal"]
    wrong = run("check", "(32,32):(1,ld)", str(source), *named)
    assert wrong.exit_code == 1 and "instead of" in wrong.output
    ranges = "--permutation", "--where", "gm in 1..20, gn in 1..6"
    found = run("check", "gm*gn", str(raster), *ranges)
    assert found.exit_code == 1 and "and so is" in found.output
    assert (
        run("check", "gm*gn", str(raster), "--permutation", "--where", "gm in 8..8, gn < 7, gn > 0").exit_code
        == 0
    )


def test_a_header_of_assertions_is_written() -> None:
    out = run(
        "code", "(64,64):(72,1)", "--to", "cpp", "--assert", "--access", "ldmatrix.x4", "--dtype", "f16"
    ).output
    assert 'static_assert(f_0_cost().total == 64, "ldmatrix.x4: not 64 wavefronts");' in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("code", "(32,32):(int,1)"), "'int' cannot name"),
        (("code", "(32,32):(ld,1)", "--where", "n < 3"), "unknown symbol 'n'"),
        (("code", "(32,32):(ld,1)", "--where", "ld in 9..3"), "ld has no value"),
        (("code", "(32,32):(ld-8,1)", "--where", "ld in 3..9"), "ld in 3..9"),
        (("code", "(32,32):(ld,1)", "--to", "cpp", "--assert"), "a compiler checks numbers"),
        (("code", "(32,32):(1,32)", "--assert"), "--to cpp"),
        (("code", "(32,32):(1,32)", "--access", "ldmatrix.x4"), "--assert"),
        (("analyze", "(8,8):(8,1)", "--where", "n < 3"), "there are none"),
        (("analyze", "(8,8):(ld,1)", "--level", "dram"), "layouts of integers"),
        (("check", "(8,8):(8,1)", "-", "--where", "n < 3"), "holds no name"),
    ],
)
def test_what_is_missing_is_named(words: tuple[str, ...], said: str) -> None:
    assert said in refusal(*words)[1]
