"""Reports of an H200: what was read of them, and that the counters are what the analysis predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from layoutalg.analysis import ideal_wavefronts, sectors, wavefronts
from layoutalg.profiling import read_report
from layoutalg.profiling.records import Row, by_line
from layoutalg.profiling.words import clock_words
from tests.profiling.reports import FOLDER, NAMES, launch, path, report, with_library

pytestmark = with_library

Lanes = Callable[[int], int]
"""The byte offset of a lane."""


@pytest.mark.deep(only=("async_copy", "no_lines", "no_source"))
@pytest.mark.parametrize("name", NAMES)
def test_every_access_has_a_line_and_a_name(name: str) -> None:
    """Every instruction that touches memory is known, and of a line that the source has."""
    found = report(name)
    assert found.names == tuple(each.name for each in found.launches)
    for each in found.launches:
        assert not each.missing and each.device == "NVIDIA H200" and each.capability == (9, 0)
        assert all(instruction.op for instruction in each.instructions)
        assert each.has_lines == (name != "no_lines")
        if each.has_lines and name != "no_source":
            source = (FOLDER / f"{name}.cu").read_text().splitlines()
            assert all(source[line - 1] == text for (_, line), text in each.text.items() if line)
            assert {(row.file, row.line) for row in by_line(each)} <= set(each.text)


def row(name: str, kernel: str, line: int, op: str) -> Row:
    """One row of a launch."""
    return next(r for r in by_line(launch(name, kernel)) if (r.line, r.op) == (line, op))


@pytest.mark.deep(only=("async_copy-copy-36-ld.shared.b128-<lambda>",))
@pytest.mark.parametrize(
    ("name", "kernel", "line", "op", "lanes"),
    [
        ("transpose_naive", "naive", 12, "st.shared.b32", lambda lane: 4 * lane),
        ("transpose_naive", "naive", 17, "ld.shared.b32", lambda lane: 128 * lane),
        ("transpose_fixed", "padded", 23, "ld.shared.b32", lambda lane: 132 * lane),
        ("transpose_fixed", "swizzled", 39, "ld.shared.b32", lambda lane: 128 * lane + 4 * lane),
        ("vector_pitch", "pitch", 21, "ld.shared.b128", lambda lane: 128 * lane),
        ("vector_pitch", "pitch", 22, "ld.shared.b128", lambda lane: 160 * lane),
        ("matrix_load", "plain", 11, "ldmatrix.x4", lambda lane: 128 * (lane % 16) + 16 * (lane // 16)),
        ("matrix_load", "plain", 18, "ldmatrix.x2.trans", lambda lane: 128 * (lane % 16)),
        ("matrix_load", "swizzled", 18, "ldmatrix.x2.trans", lambda t: 128 * (t % 16) + 16 * (t % 8)),
        ("matrix_load", "plain", 39, "st.shared.b128", lambda lane: 16 * lane),
        ("async_copy", "copy", 36, "ld.shared.b128", lambda lane: 128 * lane),
        ("async_copy", "copy", 38, "ld.shared.b32", lambda lane: 4 * lane),
        ("transpose_naive", "naive", 17, "st.global.b32", lambda lane: 4 * lane),
        ("transpose_fixed", "direct", 10, "st.global.b32", lambda lane: 1024 * lane),
        ("vector_pitch", "pitch", 31, "st.global.b32", lambda lane: 12 * lane),
        ("vector_pitch", "pitch", 30, "st.global.b128", lambda lane: 16 * lane),
        ("matrix_load", "plain", 51, "st.global.b64", lambda lane: 8 * lane),
    ],
)  # fmt: skip
def test_counters_are_the_analysis_s(name: str, kernel: str, line: int, op: str, lanes: Lanes) -> None:
    """Counted and predicted, measured and ideal, summed over all warps."""
    found, offsets = row(name, kernel, line, op), [lanes(lane) for lane in range(32)]
    executed = found.total("executed")
    assert executed is not None
    if "global" in op:
        assert found.total("sectors") == executed * sectors(op, offsets)
        return
    assert found.total("wavefronts") == executed * wavefronts(op, offsets)
    assert found.total("ideal_wavefronts") == executed * ideal_wavefronts(op, offsets)


@pytest.mark.deep
def test_launches_are_chosen_by_an_expression() -> None:
    chosen = read_report(path("transpose_fixed"), "padded|swizz")
    assert [each.name for each in chosen.launches] == ["transpose_padded", "transpose_swizzled"]
    assert [each.index for each in chosen.launches] == [1, 2]
    assert chosen.names == ("transpose_direct", "transpose_padded", "transpose_swizzled")


def test_instructions_that_only_take_a_place_are_left_out_of_lines() -> None:
    """The compiler puts loads that are never executed before asynchronous copies."""
    idle = [each for each in launch("async_copy").instructions if each.idle]
    assert any(each.sass.startswith("@!PT") for each in idle)
    counted = [each for found in by_line(launch("async_copy")) for each in found.instructions]
    assert not set(idle) & set(counted) and len(counted) + len(idle) == len(launch("async_copy").instructions)


def test_a_report_says_at_which_clock_it_was_recorded() -> None:
    """13,719 cycles in 6.9 us are 1.98 GHz, the GPU's boost: the profiler was told not to control clocks."""
    (found,) = report("transpose_naive").launches
    time, cycles = found.sums["nanoseconds"], found.sums["cycles"]
    assert time and cycles and cycles / time == pytest.approx(1.98, abs=0.01)
    assert clock_words(found)[0].startswith("6.9 us, 13,719 cycles at 1.98 GHz")
    for sums in ({}, {"cycles": 3}):
        assert clock_words(replace(found, sums=sums)) == []
    assert clock_words(replace(found, sums={"nanoseconds": 1500}))[0].startswith("1.5 us: of one run")
