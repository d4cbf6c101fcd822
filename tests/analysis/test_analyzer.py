"""analyze: closed forms equal the definition, the right one is used, and none grows with the tile."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import layoutalg
from layoutalg.analysis import (
    Access,
    Place,
    SharedReport,
    analyze,
    instruction_offsets,
    wavefronts,
)
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import UndecidedError, UnknownNameError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree
from layoutalg.notation import parse_cute as parse
from layoutalg.testing import accesses
from tests.judges.reports import numbers
from tests.sweeps import each
from tests.work import counted, entered


@given(accesses(kind="plain"))
def test_every_linear_access_is_answered_by_rank(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    if all(n & (n - 1) == 0 for n in flatten_tree(access.tv.shape)):
        assert analyze(layout, access).method == "f2"


@given(accesses(space="shared"))
def test_the_witness_shows_the_worst_instruction(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    report = analyze(layout, access)
    assert isinstance(report, SharedReport)
    if report.witness is None:
        assert report.worst == 0
        return
    rule = ARCHS["sm_90"].instructions[access.op]
    elems = 8 * rule.width_bytes // access.element.bits
    place = Place(report.witness.warp, report.witness.value // elems, report.witness.iteration)
    offsets = instruction_offsets(layout, access, place)
    assert wavefronts(access.op, offsets) == report.worst
    for lane in report.witness.lanes:
        offset = offsets[lane]
        assert offset is not None
        words = range(offset // 4, offset // 4 + max(1, rule.width_bytes // 4))
        assert report.witness.bank in {word % 32 for word in words}


@given(accesses())
def test_a_named_method_is_used_or_refused(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    for method in ("f2", "gcd", "digit-classes"):
        try:
            report = analyze(layout, access, method=method)
        except UnsupportedError as error:
            assert f"method {method!r} does not apply" in str(error)
        else:
            assert report.method == method
            assert numbers(report) == numbers(analyze(layout, access))


@each(
    ("layout", "spec", "element", "method"),
    [
        ("(64,64):(64,1)", "ldmatrix.x4", "f16", "f2"),
        ("Sw<3,3,3> o 0 o (64,64):(64,1)", "ldmatrix.x4", "f16", "f2"),
        ("(32,32):(33,1)", "ld.shared.b32@col", "f32", "gcd"),
        ("(64,33):(33,1)", "ld.shared.b8@col", "u8", "gcd"),
        ("(32,9):(3,96)", "ld.shared.b8@col", "u8", "gcd"),
        ("(64,64):(72,1)", "ldmatrix.x4", "f16", "digit-classes"),
        ("Sw<3,3,3> o 0 o (64,64):(72,1)", "ldmatrix.x4", "f16", "digit-classes"),
        ("(48,20):(20,1)", "ld.global.b32@row", "f32", "gcd"),
        ("(48,20):(24,1)", "ld.global.b32@row", "f32", "digit-classes"),
    ],
)
def test_which_method_answers(layout: str, spec: str, element: str, method: str) -> None:
    tile = parse(layout)
    assert not isinstance(tile, Swizzle)
    access = Access.of(spec, tile, dtype(element))
    assert analyze(tile, access).method == method


def test_strides_that_do_not_compose_are_enumerated() -> None:
    tile = Layout((4, 8), (8, 1))
    access = Access("ld.shared.b32", Layout((8, 1), (3, 0)), dtype("f32"))
    assert analyze(tile, access).method == "enumerated"
    with pytest.raises(UnsupportedError, match="'auto' takes the one that does"):
        analyze(tile, access, method="digit-classes")
    wide = Layout((4, 1 << 40), (1 << 40, 1))
    with pytest.raises(UndecidedError):
        analyze(wide, Access("ld.shared.b32", Layout((1 << 30, 1), (3, 0)), dtype("f32")))


TILE, ROWS, LANES = Layout((64, 64), (64, 1)), Layout((4, 32), (32, 1)), Layout(((32, 4), 1), ((4, 1), 0))


@each(
    ("layout", "access", "counts"),
    [
        (TILE, Access.default("ldmatrix.x4", TILE, "f16"), (512, 64, 16, 32, 4, 8)),
        (ROWS, Access("ld.global.b32", LANES, "f32"), (16, 16, 4, 20, 512)),  # type: ignore[arg-type]
        (ROWS, Access("ld.global.b32", LANES, "f32", 4), (20, 16, 8, 20, 512)),  # type: ignore[arg-type]
        (ROWS, Access("ld.global.b32", Layout((32, 1), (0, 0)), "f32"), (1, 1, 1, 1, 4)),  # type: ignore[arg-type]
    ],
)
def test_numbers_of_small_tiles(layout: Layout, access: Access, counts: tuple[int, ...]) -> None:
    """A broadcast is one sector, and useful bytes are those of different elements."""
    report = analyze(layout, access)
    if isinstance(report, SharedReport):
        assert (report.total, report.ideal_total, report.instructions) == counts[:3]
        assert (report.worst, report.worst_ideal, report.ways) == counts[3:]
    else:
        counted = (report.sectors, report.ideal, report.lines, report.worst_alignment, report.useful_bytes)
        assert counted == counts


@each(
    ("spec", "element", "padding"),
    [
        ("ldmatrix.x4", "f16", 0), ("ld.shared.b32@col", "f32", 0), ("ld.shared.b32@col", "f32", 1),
        ("ldmatrix.x4", "f16", 8), ("ld.global.b128", "f16", 0), ("ld.global.b16@col", "f16", 1),
    ],
)  # fmt: skip
def test_the_work_does_not_grow_with_the_tile(spec: str, element: str, padding: int) -> None:
    """2^12 and 2^30 elements: about the same steps."""

    def steps(side: int) -> int:
        tile = Layout((side, side), (side + padding, 1))
        access = Access.of(spec, tile, dtype(element))
        report, taken = counted(lambda: analyze(tile, access))
        assert report.method != "enumerated"
        return taken

    assert steps(1 << 15) < 3 * steps(1 << 6)


def test_of_equal_costs_every_method_shows_the_busiest_bank() -> None:
    """Three instructions of 4, 4 and 3 wavefronts, of which one asks a bank for three words, one for two."""
    access = Access("ld.shared.b64", Layout((20, (2, 1), 3), (2, (1, 40), 40)), dtype("f32"))
    tile = ComposedLayout(Swizzle(0, 1, 0), 0, Layout((6, 6, 4), (1, 40, 8)))
    for report in (analyze(tile, access), analyze(tile, access, method="enumerated")):
        assert isinstance(report, SharedReport) and (report.worst, report.ways) == (4, 3)


def test_provenance_follows_the_architecture() -> None:
    wanted = {("ldmatrix.x4", "sm_90"): "measured", ("ldmatrix.x4", "sm_80"): "assumed",
              ("ld.global.b32", "sm_80"): "documented"}  # fmt: skip
    for (op, arch), provenance in wanted.items():
        assert analyze(TILE, Access.default(op, TILE, "f16"), arch).provenance == provenance


def test_unknown_names() -> None:
    access = Access.default("ldmatrix.x4", TILE, "f16")
    refused: list[tuple[type[Exception], str, Any]] = [
        (UnknownNameError, "unknown method 'rank'", lambda: analyze(TILE, access, method="rank")),  # type: ignore[call-overload]
        (UnsupportedError, "sm_70 has no", lambda: analyze(TILE, access, "sm_70")),
        (UnknownNameError, "b33", lambda: analyze(TILE, Access("ld.shared.b33", access.tv, dtype("f16")))),
    ]
    for error, part, call in refused:
        with pytest.raises(error, match=part):
            call()


@each(
    "access, element, padding, functions, files",
    [
        ("ldmatrix.x4@row", "f16", 0, 100, 24),
        ("ld.global.b128", "f32", 0, 119, 25),
        ("ld.shared.b32@col", "f32", 1, 128, 26),
    ],
)
def test_an_analysis_goes_through_no_more_functions(
    access: str, element: str, padding: int, functions: int, files: int
) -> None:
    """From the texts to the report, in the whole library; these numbers only fall."""
    ask = partial(analyze, f"(64,64):({64 + padding},1)", access, element)
    ask()  # imports, and what is made once
    seen = entered(ask, str(Path(layoutalg.__file__).parent))
    assert len(seen) <= functions
    assert len({code.co_filename for code in seen}) <= files
