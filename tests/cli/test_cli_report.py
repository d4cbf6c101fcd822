"""`layoutalg report`: one page in one file, from the command line."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.analysis import Access, analyze_access
from layoutalg.answers import fields_of
from layoutalg.arch import ARCHS
from layoutalg.cli.commands.accesses.explicit import count_explicit, layout_of, read_explicit, to_bytes
from layoutalg.cli.reports import access_answer
from layoutalg.dtype import dtype
from tests.command import answer, refusal, run

MACHINE = ARCHS["sm_90"]
SAME = ("op", "instructions", "total", "ideal_total", "worst", "conflict_free", "sectors", "lines")


def test_a_page_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ("report", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4", "-o", str(page))
    found = answer(*words)
    assert found["bytes"] == page.stat().st_size and found["accesses"] == ["ldmatrix.x4"]
    assert page.stat().st_mode & 0o077 == 0
    assert "Sw&lt;3,3,3&gt; o 0 o (64,64):(64,1)" in page.read_text()
    assert "open it in a browser" in run(*words).stdout


def test_nothing_is_written_where_it_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert "cannot read" in refusal("report", "(64,64", "-o", str(page))[1]
    assert refusal("report", "(60,60):(60,1)", "--access", "ldmatrix.x4", "--dtype", "f16", "-o", str(page))
    assert not page.exists()


# --- as analyze ----------------------------------------------------------------------------------------


def test_an_index_expression_becomes_the_layout_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ("--index", "(lane//8)*144 + (lane%8)*16", "--op", "ld.shared.b128")
    found = answer("report", *words, "-o", str(page))
    assert found["layouts"] == ["((8,4),16):((16,144),1)"] and found["dtype"] == "u8"
    assert found["accesses"] == ["ld.shared.b128@(32,16):(1,32)"]
    assert '"text":"((8,4),16):((16,144),1)"' in page.read_text()
    (counted,) = answer("analyze", *words)["accesses"]
    (access,) = answer(
        "analyze", found["layouts"][0], "--access", found["accesses"][0], "--dtype", found["dtype"]
    )["accesses"]
    assert {name: access.get(name) for name in SAME} == {name: counted.get(name) for name in SAME}


def test_a_file_of_offsets_becomes_the_layout_of_a_page(tmp_path: Path) -> None:
    offsets, page = tmp_path / "offsets", tmp_path / "report.html"
    rows = [[64 * lane + 32 * 64 * warp for lane in range(32)] for warp in range(2)]
    offsets.write_text("\n".join(" ".join(map(str, row)) for row in rows))
    words = ("--offsets", str(offsets), "--op", "ldmatrix.x4", "--dtype", "f16", "-o", str(page))
    assert answer("report", *words)["layouts"] == ["(64,8):(64,1)"]
    offsets.write_text(offsets.read_text().replace("128 ", "null ", 1))
    assert "instruction 0, lane 2 has no offset" in refusal("report", *words)[1]


SUMS = st.builds("lane%8*{} + lane//8*{} + warp*{} + reg*{}".format, *[st.integers(0, 40)] * 4)
XORS = st.sampled_from(
    ["lane*8 + (reg ^ lane%8)", "lane*8 + warp*256 + (reg ^ lane%8)", "(lane ^ lane//8%4) + warp*32"]
)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([("ld.shared.b32", "u8"), ("ldmatrix.x4", "f16"), ("st.global.b64", "f32")]),
    SUMS | XORS,
    st.tuples(st.integers(1, 2), st.sampled_from([1, 2, 4])),
)
def test_explicit_offsets_cost_what_their_layout_costs(
    asked: tuple[str, str], text: str, counts: tuple[int, int]
) -> None:
    """The layout counts by a closed form, the offsets by the definition."""
    (op, element), (warps, registers) = asked, counts
    vector = {"u8": 4, "f16": 8, "f32": 2}[element]
    read = read_explicit(f"{vector}*({text})", None, warps, registers, MACHINE)
    addresses = to_bytes(read.offsets, dtype(element).bits, 0)
    counted = count_explicit(op, addresses, read.mask, warps, MACHINE, dtype(element))
    layout, spec = layout_of(read, op, dtype(element), MACHINE)
    found = analyze_access(layout, Access.of(spec, layout, element), MACHINE)
    fields = [
        {k: v for k, v in fields_of(access_answer(report)).items() if k in SAME}
        for report in (found, counted)
    ]
    assert fields[0] == fields[1]


def test_conditions_decide_the_exit_code_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    conflict = (
        "report",
        "(32,33):(33,1)",
        "(32,32):(32,1)",
        "--access",
        "ld.shared.b32@col",
        "-o",
        str(page),
    )
    assert answer(*conflict)["failed"] == []
    page.unlink()
    assert answer(*conflict, "--fail-on", "conflicts", exit_code=1)["failed"] == ["conflicts"]
    assert page.exists(), "the page shows why"
    said = run(*conflict, "--fail-on", "conflicts")
    assert said.exit_code == 1 and "Fails: conflicts." in said.stdout
    assert answer(*conflict[:2], *conflict[3:], "--fail-on", "conflicts")["failed"] == []
