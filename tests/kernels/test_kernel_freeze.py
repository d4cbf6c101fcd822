"""Choices, predictions and machine code are what they were, or `tests.frozen.kernel_freeze` names it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.gpu import parse_sass, version
from layoutalg.errors import UnsupportedError
from tests.frozen import kernel_freeze as freeze
from tests.frozen.kernel_cases import benched, drawn, label
from tests.sweeps import each

STORED = freeze.stored()
CASES: Sequence[freeze.Record] = STORED["cases"]


def failures(cases: Sequence[freeze.Record], made: Callable[[Any], freeze.Record]) -> Iterator[str]:
    for before in cases:
        yield from (str(x) for x in freeze.differences(before, made(before["case"])) if x.fails)


def needs_the_same_compiler() -> None:
    try:
        now = list(version())
    except UnsupportedError as error:
        pytest.skip(str(error))
    if now != STORED["nvrtc"]:
        pytest.skip(f"the machine code that is stored was made by NVRTC {STORED['nvrtc']}, this is {now}")


def test_the_file_has_every_case_of_the_bench_and_those_drawn() -> None:
    drawn_cases = drawn(STORED["seed"], STORED["drawn"])
    assert len(drawn_cases) == 60 and len({case["family"] for case in drawn_cases}) == 11
    assert [label(one["case"]) for one in CASES] == [label(case) for case in (*benched(), *drawn_cases)]


@pytest.mark.deep
def test_all_are_chosen_and_predicted_as_before() -> None:
    assert not list(failures(CASES, freeze.plan_record))


@pytest.mark.deep
@pytest.mark.parametrize("part", range(8))
def test_all_compile_to_no_more_than_before(part: int) -> None:
    needs_the_same_compiler()
    assert not list(failures(CASES[part::8], freeze.record))


def changed(*path: Any, value: Any) -> tuple[freeze.Record, freeze.Record]:
    """A stored record, and the same one with something else at a path."""
    before = next(one for one in CASES if one["case"]["family"] == "gemm-sm80" and len(one["launches"]) == 2)
    now = copy.deepcopy(before)
    at: Any = now
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value(at.get(path[-1]) if isinstance(at, dict) else at[path[-1]])
    return before, now


CODE = ("launches", 0, "code")


@each(
    ("path", "value", "fails"),
    [
        (("choice", "stages"), lambda n: n + 1, True), (("kernels", 0), lambda name: name + "_else", True),
        (("launches", 1, "grid"), lambda grid: [grid[0] + 1, *grid[1:]], True),
        (("launches", 0, "threads"), lambda n: 2 * n, True),
        (("launches", 0, "dynamic_bytes"), lambda n: n + 16, True),
        ((*CODE, "total"), lambda n: int(1.02 * n) + 1, True),
        ((*CODE, "total"), lambda n: int(1.02 * n), False),
        ((*CODE, "loop"), lambda n: int(1.02 * n) + 1, True), ((*CODE, "loop"), lambda n: n - 1, False),
        ((*CODE, "memory"), lambda d: {k: n - 1 for k, n in d.items()}, True),
        (("launches", 1, "code", "memory"), lambda d: {**d, "LDG.8": 1}, True),
        ((*CODE, "memory"), lambda d: {**d, "STL.32": 1}, True),
        ((*CODE, "spill_bytes"), lambda n: n + 4, True), ((*CODE, "registers"), lambda n: n + 1, False),
        ((*CODE, "blocks"), lambda n: n - 1, True), ((*CODE, "blocks"), lambda n: n + 1, False),
        ((*CODE, "classes"), lambda d: {**d, "integer": 1}, False),
        (("launches",), lambda found: found[:1], True),
        (("raised",), lambda none: "ValueError: nothing", True),
    ],
)  # fmt: skip
def test_what_is_past_the_limits_fails_and_what_is_within_them_is_said(
    path: tuple[Any, ...], value: Any, fails: bool
) -> None:
    before, now = changed(*path, value=value)
    assert not list(freeze.differences(before, before))
    assert [x.fails for x in freeze.differences(before, now)] == [fails]


def test_another_prediction_fails_and_one_that_was_refused_may_be_made() -> None:
    before = {**CASES[0], "predicted": "ResourceError: more than the limit"}
    now = {**before, "predicted": [{"ld.global.b32": [1, 4, 4]}]}
    assert [x.fails for x in freeze.differences(before, now)] == [False]
    assert [x.fails for x in freeze.differences(now, before)] == [True]
    others = [{"ld.global.b32": [1, 4, 4], "st.global.b32": [1, 1, 1]}, {"ld.global.b32": [1, 5, 4]}]
    for other in others:
        (found,) = freeze.differences(now, {**now, "predicted": [other]})
        assert found.fails


def test_a_case_that_raises_is_a_difference() -> None:
    before = {"case": {"family": "softmax", "shape": [2, 3], "axes": [7], "dtype": "f32"}}
    (found,) = freeze.compared([before], code=False)
    assert found.fails and found.now.startswith("ShapeError: axis 7")


def test_some_cases_are_written_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_the_same_compiler()
    text, only = freeze.STORED.read_text(encoding="utf-8"), "^max shape=1216,1696"
    line = next(line for line in text.splitlines() if '"max","shape":[1216,1696]' in line)
    monkeypatch.setattr(freeze, "STORED", tmp_path / "stored.json")
    freeze.STORED.write_text(text.replace(line, line.replace('"spill_bytes":0', '"spill_bytes":4')))
    assert freeze.main(["--write", "--only", only]) == 0 and freeze.STORED.read_text(encoding="utf-8") == text


def test_the_hot_loop_of_what_multiplies_nothing_has_the_most_accesses() -> None:
    (function,) = parse_sass("""
        .text.k:
                /*0000*/   LDG.E R0, [R2] ;
        .L_x_0:
                /*0010*/   LDG.E.128 R4, [R2] ;
        .L_x_1:
                /*0020*/   IADD3 R4, R4, 0x1, RZ ;
                /*0030*/   @P0 BRA `(.L_x_1) ;
                /*0040*/   STS.64 [R4], R2 ;
                /*0050*/   @P0 BRA `(.L_x_0) ;
                /*0060*/   EXIT ;
    """)
    loop = freeze.hot_loop(function)
    assert len(loop) == 5 and freeze.memory_classes(loop) == {"LDG.128": 1, "STS.64": 1}
    assert freeze.hot_loop(parse_sass("        .text.k:\n        /*0000*/   EXIT ;")[0]) == ()
