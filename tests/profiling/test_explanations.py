"""What counters mean: conflicts and what is none, pitches that fit, accesses of the source."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from layoutalg.analysis import ideal_wavefronts, wavefronts
from layoutalg.errors import ParseError
from layoutalg.profiling import Launch, explain_launch, finding_notes, fit_pitch, with_ends
from layoutalg.profiling.counting import excess, pipe_counters
from layoutalg.profiling.fitting import MOST_PITCH, column
from layoutalg.profiling.records import Measured, by_line, instruction_op
from tests.profiling.reports import launch, with_library


def measured(sass: str, line: int | None = 1, executed: int = 1, **counts: int) -> Measured:
    """An instruction of f.cu with some counters."""
    file = None if line is None else "/src/f.cu"
    return Measured(0, sass, file, line, 32 * executed, executed, **counts)


def made(*instructions: Measured, grid: tuple[int, ...] = (2, 1, 1), **sums: int) -> Launch:
    """A launch of them."""
    return Launch(0, "f", "f()", (32, 1, 1), grid, "", (9, 0), (), sums, instructions, {})


def conflict(sass: str, times: int, line: int = 1) -> Measured:
    """An instruction that takes so many times its ideal."""
    op = instruction_op(sass)
    assert op is not None
    ideal = ideal_wavefronts(op, [16 * lane for lane in range(32)])
    return measured(sass, line, wavefronts=times * ideal, ideal_wavefronts=ideal)


OPS = (
    "ld.shared.b8", "ld.shared.b16", "ld.shared.b32", "ld.shared.b64", "ld.shared.b128", "st.shared.b32",
    "st.shared.b128", "ldmatrix.x2.trans", "ldmatrix.x4", "stmatrix.x4",
)  # fmt: skip


@pytest.mark.parametrize(
    ("op", "ways"),
    [(op, ways) for op in OPS for ways in (2, 8, 32)],
)
def test_pitches_that_fit_are_all_of_them(op: str, ways: int) -> None:
    """The pitches, the padding and the layout, each by looking at its lanes again."""
    fit = fit_pitch(op, ways)
    width = 16 if "matrix" in op else int(op.rpartition(".b")[2]) // 8

    def times(lanes: tuple[int, ...]) -> Fraction:
        return Fraction(wavefronts(op, lanes), ideal_wavefronts(op, lanes))

    found = tuple(p for p in range(width, MOST_PITCH + 1, width) if times(column(op, p)) == ways)
    assert (fit.pitches if fit else ()) == found
    if fit is None:
        return
    if fit.extra_bytes is not None:
        assert all(times(column(op, pitch + fit.extra_bytes)) == 1 for pitch in found)
    assert (fit.remedy is not None) == (found[0] % 128 == 0)
    if fit.remedy is not None:
        layout, nbytes = fit.remedy.layout, fit.remedy.element.bits // 8
        assert layout is not None
        rows = column(op, found[0])
        for at in range(0, found[0] - (16 if "matrix" in op else 0), width):
            lanes = [divmod(offset + at, found[0]) for offset in rows]
            assert times(tuple(nbytes * layout((row, byte // nbytes)) for row, byte in lanes)) == 1


def test_a_known_pitch_is_the_only_one() -> None:
    """160-byte rows of an array: 2-way as those of 32 and 96 bytes, but another swizzle."""
    fit = fit_pitch("ld.shared.b128", 2, 160)
    assert fit is not None and fit.pitches == (160,) and fit.remedy is not None
    assert str(fit.remedy.layout) == "Sw<1,2,3> o 0 o (32,40):(40,1)"
    assert fit_pitch("ld.shared.b128", 8, 160) == fit_pitch("ld.shared.b128", 8)


def test_no_pitch_is_made_up() -> None:
    assert fit_pitch("ld.shared.b32", 3) is None and fit_pitch("ld.shared.b32", 1) is None
    assert fit_pitch("ld.shared.b32", Fraction(7, 4)) is None
    assert fit_pitch("cp.async.16", 4) is None and fit_pitch("red.shared.u32", 32) is None


@pytest.mark.parametrize(
    ("sass", "conflicts"),
    [("LDS R0, [R1]", 31), ("STS.128 [R1], R4", 124), ("LDSM.16.M88.4 R0, [R1]", 124),
     ("LDGSTS.E.BYPASS.128 [R1], [R2]", None), ("LDGSTS.E [R1], [R2]", None),
     ("ATOMS.ADD RZ, [R1], R2", None), ("UNKNOWN [R1]", None)],
)  # fmt: skip
def test_an_excess_is_a_conflict_where_the_counter_is_exact(sass: str, conflicts: int | None) -> None:
    ideal = 4 if "128" in sass or ".4" in sass else 1
    (row,) = by_line(made(measured(sass, wavefronts=32 * ideal, ideal_wavefronts=ideal)))
    found = excess(row)
    assert found is not None and found.conflicts == conflicts and bool(found.why) == (conflicts is None)
    (none,) = by_line(made(measured(sass, wavefronts=ideal, ideal_wavefronts=ideal)))
    free = excess(none)
    assert free is not None and free.conflicts == 0 and not free.why


def test_a_launch_s_counters_beyond_its_instructions() -> None:
    """Equal ones are not told, what is more or less is, with the reason."""
    load = measured("LDS R0, [R1]", wavefronts=8, ideal_wavefronts=1)
    equal = made(load, pipe_loads=8, pipe_stores=0, conflicts_loads=7, pipe_shared=8, pipe=8)
    assert pipe_counters(equal) == ()
    found = {
        p.counter: p
        for p in pipe_counters(made(load, pipe_loads=10, conflicts_loads=9, pipe_shared=7, pipe=9))
    }
    rest = {name: pipe.launch - pipe.instructions for name, pipe in found.items()}
    assert rest["pipe_loads"] == 2 and "arbitration" in found["pipe_loads"].why
    assert rest["conflicts_loads"] == 2
    assert rest["pipe_shared"] == -1 and "copies" in found["pipe_shared"].why
    assert rest["pipe"] == 2 and "global" in found["pipe"].why


def access(line: int, op: str, **rest: Any) -> dict[str, Any]:
    """An access as it is read from a source."""
    counts = {"instructions": 1, "total": 8, "ideal_total": 1}
    return {"line": line, "op": op, "array": "tile", **counts, "why": None, **rest}


@pytest.mark.parametrize(
    ("accesses", "arrays", "predicted", "said"),
    [
        ([access(1, "ld.shared.b32")], ("tile",), 16, None),
        ([access(1, "ld.shared.b32", total=4)], ("tile",), 8, "the source predicts 8 wavefronts"),
        ([access(1, "ld.shared.b64")], ("tile",), 16, "the compiler made ld.shared.b32"),
        ([access(1, "ld.shared.b32", total=None, why="x is not known")], ("tile",), None, "x is not known"),
        ([access(1, "ld.shared.b32"), access(1, "st.shared.b32", array="b")], ("tile",), 16, None),
        ([access(1, "ld.shared.b32", total=4, array="a"), access(1, "ld.shared.b32", total=4, array="b")],
         ("a", "b"), 16, None),
        ([access(9, "ld.shared.b32")], ("tile",), 16, "the access of line 9"),
    ],
)  # fmt: skip
def test_a_row_is_joined_with_its_accesses(
    accesses: list[dict[str, Any]], arrays: tuple[str, ...], predicted: int | None, said: str | None
) -> None:
    """Of two blocks, of which the source has one."""
    found = made(measured("LDS R0, [R1]", executed=2, wavefronts=16, ideal_wavefronts=2))
    (finding,) = explain_launch(found, "f.cu", accesses)
    assert finding.joined is not None
    assert (finding.joined.arrays, finding.joined.predicted) == (arrays, predicted)
    assert any(said in note for note in finding.notes) if said else finding.agrees, finding.notes


@pytest.mark.parametrize(
    ("counted", "access_", "compared", "equal"),
    [
        ({"wavefronts": 8, "ideal_wavefronts": 1}, {"total": 4, "ideal_total": 4}, 1, 1),
        ({"wavefronts": 9, "ideal_wavefronts": 1}, {"total": 4, "ideal_total": 4}, 1, 0),
        ({"wavefronts": 8, "ideal_wavefronts": 1}, {"total": None, "ideal_total": None}, 0, 0),
        ({}, {"total": None, "ideal_total": None}, 0, 0),
        ({}, {"total": 4, "ideal_total": 4}, 0, 0),
    ],
)
def test_only_a_prediction_beside_a_counter_is_compared(
    counted: dict[str, int], access_: dict[str, Any], compared: int, equal: int
) -> None:
    found = made(measured("LDS R0, [R1]", **counted))
    read = [{"line": 1, "op": "ld.shared.b32", "array": "a", **access_}]
    findings = explain_launch(found, "f.cu", read)
    assert [(each.compared, each.agrees) for each in findings] == [(bool(compared), bool(equal))]
    (said,) = [line for line in finding_notes(found, findings) if line.startswith("Of 1 rows")]
    assert said.endswith(f"{equal} of 1 numbers equal." if compared else "none could be compared.")


def test_rows_of_other_files_lines_and_kinds_are_not_joined() -> None:
    found = made(measured("LDS R0, [R1]", wavefronts=8, ideal_wavefronts=1))
    for source, accesses in (
        ("g.cu", [access(1, "ld.shared.b32")]),
        ("f.cu", [access(1, "st.shared.b32")]),
        ("f.cu", [access(2, "ld.shared.b64")]),
        ("f.cu", [access(2, "ld.shared.b32"), access(3, "ld.shared.b32")]),
        (None, []),
    ):
        (finding,) = explain_launch(found, source, accesses)
        assert finding.joined is None


def test_a_statement_of_several_lines_is_one_place() -> None:
    text = 'a[t] = 0;\nasm("ldmatrix;"\n    : "=r"(x)\n    : "r"(at));\n'
    ends = with_ends([access(1, "st.shared.b32"), access(2, "ldmatrix.x4"), access(2, "ldmatrix.x1")], text)
    assert [each["last"] for each in ends] == [1, 4, 4]
    (finding,) = explain_launch(made(conflict("LDSM.16.M88.4 R0, [R1]", 8, line=4)), "f.cu", ends)
    assert finding.joined is not None and finding.joined.lines == (2,)


@pytest.mark.parametrize(
    "accesses", [None, "text", [1], [{"op": "x"}], [{"line": "1", "op": "x"}], [access(1, "x", total=1.5)]]
)
def test_accesses_of_another_form_are_refused(accesses: Any) -> None:
    with pytest.raises(ParseError):
        explain_launch(made(), "f.cu", accesses)


@pytest.mark.deep(
    only=(
        "transpose_naive--17-32-Sw<5,0,5> o 0 o (32,32):(32,1)",
        "vector_pitch--21-8-Sw<3,2,3> o 0 o (32,32):(32,1)",
        "matrix_load-plain-11-8-Sw<3,3,3> o 0 o (32,64):(64,1)",
    )
)
@with_library
@pytest.mark.parametrize(
    ("name", "kernel", "line", "times", "layout"),
    [
        ("transpose_naive", "", 17, 32, "Sw<5,0,5> o 0 o (32,32):(32,1)"),
        ("vector_pitch", "", 21, 8, "Sw<3,2,3> o 0 o (32,32):(32,1)"),
        ("vector_pitch", "", 22, 2, None),
        ("matrix_load", "plain", 11, 8, "Sw<3,3,3> o 0 o (32,64):(64,1)"),
    ],
)
def test_conflicts_of_the_reports(name: str, kernel: str, line: int, times: int, layout: str | None) -> None:
    findings = explain_launch(launch(name, kernel))
    found = next(each for each in findings if each.row.line == line and each.conflicts)
    assert found.fit is not None and found.fit.times == times and found.fit.extra_bytes is not None
    assert (str(found.fit.remedy.layout) if found.fit.remedy else None) == layout
    assert f"bank conflicts, {times} times the ideal:" in found.notes[0]


@pytest.mark.deep(only=("padded",))
@with_library
@pytest.mark.parametrize("kernel", ["padded", "swizzled", "direct"])
def test_what_has_no_conflict_is_not_blamed(kernel: str) -> None:
    assert not any(each.conflicts or each.fit for each in explain_launch(launch("transpose_fixed", kernel)))
