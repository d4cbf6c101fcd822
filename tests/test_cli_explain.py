"""`layoutalg explain`: the library's derivation as text and as JSON, and what it refuses."""

from __future__ import annotations

import pytest

from layoutalg.cli.output import PAGE
from layoutalg.derivation import Derivation
from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.command import answer, refusal, run

A = Layout((6, 2), (8, 2))
B = Layout((4, 2), (1, 0))
CHAIN = (Swizzle(1, 0, 2), Swizzle(2, 2, 2))


@pytest.mark.parametrize(
    ("words", "derivation"),
    [
        (("composition", "(6,2):(8,2)", "(4,3):(3,1)"), explain("composition", A, Layout((4, 3), (3, 1)))),
        (
            ("zipped_divide", "(8,32):(1,8)", "(4,8:1)"),
            explain("zipped_divide", Layout((8, 32)), (4, Layout(8))),
        ),
        (
            ("logical_divide", "(8,32):(1,8)", "(_,8:4)"),
            explain("logical_divide", Layout((8, 32)), (None, Layout(8, 4))),
        ),
        (("slice_", "(2,_)", "(4,8):(1,4)"), explain("slice_", (2, None), Layout((4, 8)))),
        (("is_surjective", "(6,2):(8,2)", "codomain=4"), explain("is_surjective", A, codomain=4)),
        (("find_collision", "(4,2):(1,0)", "moving=True"), explain("find_collision", B, moving=True)),
        (("swizzle_inverse", "Sw<1,0,2> o Sw<2,2,2>"), explain("swizzle_inverse", CHAIN)),
        (
            ("upcast", "Sw<3,3,3> o 0 o (8,64):(64,1)", "8"),
            explain("upcast", ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))), 8),
        ),
        (("(6,2):(8,2)", "(5,1)"), explain(A, (5, 1))),
        (("Sw<2,0,3>", "26"), explain(Swizzle(2, 0, 3), 26)),
        (("Sw<1,0,2> o Sw<2,2,2>", "26"), explain(CHAIN, 26)),
        (("complement", "4:1", "None"), explain("complement", Layout(4), None)),
        (("product", "()"), explain("product", ())),
        (
            ("--", "find_coordinate", "(4,8):(-1,4)", "-3"),
            explain("find_coordinate", Layout((4, 8), (-1, 4)), -3),
        ),
    ],
    ids=lambda v: " ".join(v)[:60] if isinstance(v, tuple) else "",
)
def test_it_says_what_the_library_says(words: tuple[str, ...], derivation: Derivation) -> None:
    result = run("explain", *words)
    assert result.stdout == f"{derivation}\n"
    assert max(map(len, result.stdout.splitlines())) <= PAGE
    assert result.exit_code == 0 and derivation.refusal is None and result.stderr == ""


def test_json() -> None:
    payload = answer("explain", "composition", "(6,2):(8,2)", "(4,3):(3,1)")
    assert payload["call"] == "composition((6,2):(8,2), (4,3):(3,1))"
    assert payload["result"] == "((2,2),3):((24,2),8)" and payload["refusal"] is None
    assert payload["steps"][2]["statements"][-1] == "A o 4:3 = (2,2):(24,2)"


def test_a_refused_operation_is_explained_and_exits_1() -> None:
    words = ("explain", "composition", "(6,2):(1,7)", "(3,2):(2,3)")
    result = run(*words)
    assert result.exit_code == 1 and "refused, DivisibilityError (witness 5)" in result.stdout
    payload = answer(*words, exit_code=1)
    assert payload["result"] is None
    assert payload["refusal"]["error"] == "DivisibilityError"
    assert payload["steps"][-1]["statements"][-1] == "A(B(5)) = A(7) = 8 != 7"


BAD = [
    (("compose", "4:1"), "UnknownNameError", "unknown operation 'compose'"),
    (("composition", "(4,8"), "ParseError", "position 4"),
    (("composition", "(6,2):(8,2)"), "ArgumentTypeError", "missing a required argument: 'b'"),
    (("size", "8"), "ArgumentTypeError", "layout is 8"),
    (("size", "4:1", "n=3"), "ArgumentTypeError", "unexpected keyword argument 'n'"),
    (("size", "(4,8):(1@0,1@1)"), "UnsupportedError", "its strides move along modes; integers are accepted"),
    (("size", "(n,8):(1,n)"), "ParseError", "position 1"),
    (("Sw<1,0,2>", "(1,2)"), "ArgumentTypeError", "a swizzle takes one integer"),
    (("swizzle_inverse", "Sw<1,0,2> o Sw<2,2,0>"), "ParseError", "Sw<2,2,0>"),
    (("(4,8)", "3"), "UnknownNameError", "operation"),
    ((), "UsageError", "Missing argument"),
]


@pytest.mark.parametrize(("words", "error", "part"), BAD, ids=lambda v: " ".join(v)[:60])
def test_bad_input(words: tuple[str, ...], error: str, part: str) -> None:
    got, message = refusal("explain", *words)
    assert (got, part in message) == (error, True), f"{got}: {message}"
