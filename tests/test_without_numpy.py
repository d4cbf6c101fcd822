"""Analysis, synthesis and pages give the same answers where NumPy and sympy cannot be imported."""

from __future__ import annotations

import pytest

from tests.stand_ins.without_numpy import printed_with_numpy, printed_without_numpy

ANALYSES = """
from layoutalg.analysis import Access, Guard, analyze, reuse_of
from layoutalg.errors import LayoutAlgError
from layoutalg.notation import parse
from dataclasses import replace
TILES = ("(64,96):(96,1)", "Sw<3,3,3> o 0 o (64,96):(96,1)", "Sw<2,4,3> o 0 o (64,64):(64,1)",
         "(63,65):(66,1)", "(64,(8,12)):(8,(1,512))", "(16,24,2):(1,16,400)",
         "Sw<1,0,3> o 8 o (12,20):(20,1)", "(4,8):(8,1)", "(6,2,4):(4,0,1) o 0 o (4,6):(13,1)")
OPS = ("ldmatrix.x4", "ldmatrix.x1", "ld.shared.b32@col", "ld.shared.b64@row", "red.shared.u32@col",
       "ld.global.b32@col", "ld.global.b128@row")
for text in TILES:
    tile = parse(text)
    for op in OPS:
        for method in ("auto", "enumerated"):
            try:
                access = Access.of(op, tile, "f16")
                print(text, op, analyze(tile, access, method=method))
                if ".global." in op:
                    print(reuse_of(tile, [access, access]))
            except LayoutAlgError as error:
                print(text, op, type(error).__name__)
tile = parse("(64,96):(96,1)")
access = Access.of("ld.shared.b32@col", tile, "f32")
print(analyze(tile, replace(access, active=Guard((50, 40)))))
print(analyze(tile, replace(access, active=lambda thread, value, iteration: thread % 3 > 0)))
"""

SYNTHESES = """
from layoutalg.analysis import Access, Guard
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout
from layoutalg.synthesis import synthesize
COLUMN = ["ld.shared.b32@col"]
SOME = Access("ldmatrix.x1", Layout((24, 8), (1, 33)), "f16", active=Guard(threads=20))
ASKED = (
    ((64, 96), "f16", ["ldmatrix.x4", "st.shared.b128"], {}),
    ((64, 64), "f16", ["ldmatrix.x4"], {}),
    ((48, 20), "f32", COLUMN, {}),
    ((48, 20), "f32", COLUMN, {"max_extra_bytes": 4096}),
    ((12, 20), "f32", COLUMN, {"max_extra_bytes": 256}),
    ((32, 128), "f32", ["st.shared.b32@row", "ld.shared.b32@col"], {}),
    ((64, 96), "f16", ["ldmatrix.x4"], {"form": "tma"}),
    ((64, 72), "f16", ["ldmatrix.x4"], {"form": "rotation"}),
    ((33, 40), "f16", [SOME], {}),
)
for shape, element, accesses, options in ASKED:
    try:
        found = synthesize(shape, accesses, element=element, **options)
        print(found, found.certificate)
    except LayoutAlgError as error:
        print(type(error).__name__, error)
"""

PAGES = """
from layoutalg.page import PageRequest, report_html
import re
asked = PageRequest(["(64,64):(64,1)", "Sw<3,3,3> o 0 o (32,96):(96,1)"], ["ldmatrix.x4"], dtype="f16")
page = report_html(asked)
page = re.sub(r"<details><summary>Why.*?</details>|<p class=.soft.>The certificate.*?</p>", "", page)
print(re.sub(r"proved [^<\\n]*", "proved", page))
"""


@pytest.mark.deep
def test_analysis_says_the_same_without_numpy() -> None:
    assert printed_without_numpy(ANALYSES) == printed_with_numpy(ANALYSES)


@pytest.mark.deep
def test_synthesis_finds_the_same_without_numpy() -> None:
    assert printed_without_numpy(SYNTHESES) == printed_with_numpy(SYNTHESES)


@pytest.mark.deep
def test_a_report_is_the_same_without_numpy() -> None:
    assert printed_without_numpy(PAGES) == printed_with_numpy(PAGES)
