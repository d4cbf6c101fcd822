"""`layoutalg report`: one page in one file, from the command line."""

from __future__ import annotations

from pathlib import Path

from tests.command import answer, refusal, run


def test_a_page_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ("report", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4", "-o", str(page))
    found = answer(*words)
    assert found["bytes"] == page.stat().st_size and found["accesses"] == ["ldmatrix.x4"]
    assert page.stat().st_mode & 0o077 == 0
    assert "Sw&lt;3,3,3&gt; o 0 o (64,64):(64,1)" in page.read_text()
    assert "open it in a browser" in run(*words).stdout


def test_several_layouts_stand_in_one_page(tmp_path: Path) -> None:
    page = tmp_path / "two.html"
    run("report", "(64,64):(64,1)", "(64,64):(72,1)", "--dtype", "f16", "-o", str(page))
    text = page.read_text()
    assert (
        "<title>(64,64):(64,1) and 1 more, f16, sm_90</title>" in text and '"text":"(64,64):(72,1)"' in text
    )


def test_nothing_is_written_where_it_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert "cannot read" in refusal("report", "(64,64", "-o", str(page))[1]
    assert refusal("report", "(60,60):(60,1)", "--access", "ldmatrix.x4", "--dtype", "f16", "-o", str(page))
    assert not page.exists()
