"""explain: each statement is true, the result is the operation's own, and the words say what was computed.

Statements are read and computed by tests.explanation.paper, which holds every intermediate layout to its
definition by enumeration (tests.judges.definitions).
"""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutalg
from layoutalg import ComposedLayout, Layout, Swizzle, errors, explain
from layoutalg.analysis import Access, analyze, conflict_words
from layoutalg.dtype import dtype
from layoutalg.explanation import OPERATIONS
from layoutalg.explanation.steps import PAGE, Derivation, Step, notation
from layoutalg.layout import ScaledBasis, make_identity_layout
from layoutalg.synthesis import certificate_words, synthesize
from tests.command import answer, run
from tests.draws.operands import ANY, CHAINS, SOURCES, Call, located
from tests.explanation.paper import Judge, statements
from tests.judges.definitions import judge
from tests.judges.exports import PUBLIC
from tests.sweeps import each

ALGEBRA = sorted(set(OPERATIONS) - {"analyze", "synthesize"})
A = Layout((4, 8), (8, 1))
LARGE = Layout((1 << 20, 1 << 20), (1 << 20, 1))
EXAMPLES = max(20, settings().max_examples // 2)


def proved(op: Any, *operands: Any, **params: Any) -> Derivation:
    """explain(op, ...), after checking it against the operation, the definition and its own statements."""
    derivation = explain(op, *operands, **params)
    said = statements(derivation)
    operation = getattr(PUBLIC, op) if isinstance(op, str) else op
    assert max(map(len, derivation.lines())) <= PAGE
    if derivation.refusal is not None:
        with pytest.raises(type(derivation.refusal), match=re.escape(str(derivation.refusal))):
            operation(*operands, **params)
        return derivation
    assert derivation.result == operation(*operands, **params)
    assert "".join(str(derivation).split()).endswith("".join(notation(derivation.result).split()))
    if isinstance(op, str):
        assert judge(op, derivation.result, *operands, **params), str(derivation)
        text = " ; ".join([*said, ""])
        assert re.search(rf" {re.escape(notation(derivation.result))} ;", text), str(derivation)
    return derivation


@pytest.mark.deep
@each("op", ALGEBRA, sample=3)
def test_the_steps_are_true_and_come_to_the_operations_own_result(op: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(SOURCES[op])
    def check(call: Call) -> None:
        operands, params = call
        proved(op, *operands, **params)

    check()


@given(ANY, st.data())
def test_values_of_layouts(layout: Any, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, layoutalg.size(layout) - 1))
    derivation = explain(layout, index)
    assert derivation.result == layout(index) and f"= {layout(index)}" in statements(derivation)[-1]


@given(located())
def test_values_at_trees(call: Call) -> None:
    crd, shape = call[0]
    derivation = explain(Layout(shape), crd)
    assert derivation.result == Layout(shape)(crd)
    assert statements(derivation)[-1].endswith(f" = {derivation.result}")


@given(CHAINS, st.integers(0, 500))
def test_values_of_swizzles(chain: tuple[Swizzle, ...], x: int) -> None:
    value = x
    for swizzle in reversed(chain):
        value = swizzle(value)
    derivation = explain(chain, x)
    assert derivation.result == value and statements(derivation)[-1].endswith(f"= {value}")


def test_the_words_of_a_composition() -> None:
    text = str(proved("composition", Layout((6, 4), (4, 1)), Layout(12, 2)))
    for line in ("A(2 * x) = 8 * x for every x < 3", "2 * 3 = 6", "A(6 * x) = 1 * x for every x < 4"):
        assert line in text


def test_a_refusal_ends_with_its_witness() -> None:
    derivation = proved("composition", Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    assert isinstance(derivation.refusal, errors.DivisibilityError) and derivation.result is None
    assert derivation.steps[-1].statements[-1] == "A(B(5)) = A(7) = 8 != 7"
    assert derivation.answer.startswith("refused, DivisibilityError (witness 5): composition((6,2):(1,7)")
    derivation = proved("complement", Layout((4, 2), (1, 3)), 24)
    assert derivation.steps[-1].statements[-1] == "A(3) = 3 = A(4)"


@pytest.mark.parametrize("op", ["coalesce", "left_inverse", "right_inverse", "normal_form"])
def test_large_layouts_are_explained_without_enumeration(op: str) -> None:
    for layout in (LARGE, ComposedLayout(Swizzle(3, 3, 3), 0, LARGE)):
        assert explain(op, layout).steps


@each(
    ("wrong", "why"),
    [
        ("A(1) = 9", "is false"),
        ("A(c) = 8 * c for every c < 5", "is false"),
        ("B(0) = 0", "not defined"),
        ("A(1)", "states nothing"),
        ("A(1) = 8 8", "cannot read on"),
        ("A o 2:1 = 2:7", "is false"),
        ("A(1) = True", "is false"),
    ],
)
def test_the_judge_refuses(wrong: str, why: str) -> None:
    page = Judge()
    page.accept("A = (4,8):(8,1)")
    page.accept("A(c) = 8 * c for every c < 4")
    with pytest.raises(AssertionError, match=why):
        page.accept(wrong)


@each(
    "call",
    [
        ("coalesce", Layout((2, (1, 6)), (1, (6, 2)))),
        ("complement", Layout((2, 2), (1, 6)), 24),
        ("composition", Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))),
        ("left_inverse", ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4)))),
        ("logical_divide", Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)),
        ("raked_product", Layout((2, 5), (5, 1)), Layout((3, 4))),
        ("right_inverse", A),
    ],
    ids=lambda call: str(call[0]),
)
def test_another_number_would_be_seen(call: tuple[Any, ...]) -> None:
    """Every equation that ends in a number or a layout is false with another number at its end."""
    page, tried = Judge(), 0
    for statement in statements(explain(*call)):
        if re.search(r" = \S*\d\)*$", statement) and not re.match(r"[A-Z]\d* = ", statement):
            wrong = re.sub(r"(\d+)(\)*)$", lambda m: f"{int(m[1]) + 1}{m[2]}", statement)
            with pytest.raises((AssertionError, errors.LayoutAlgError)):
                page.accept(wrong)
            tried += 1
        page.accept(statement)
    assert tried


# --- counts and certificates ---------------------------------------------------------------------------

SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
COUNTS: tuple[tuple[Any, Any, str], ...] = (
    (Layout((64, 64), (64, 1)), "ldmatrix.x4", "f16"),
    (Layout((64, 64), (72, 1)), "ldmatrix.x4", "f16"),
    (SWIZZLED, "ldmatrix.x4", "f16"),
    (SWIZZLED, "ld.shared.b16@col", "f16"),
    (SWIZZLED, "cp.async.4@(32,2):(1,64)", "f16"),
    (ComposedLayout((Swizzle(2, 3, 3), Swizzle(1, 5, 4)), 0, SWIZZLED.inner), "ldmatrix.x4", "f16"),
    (Layout((32, 32), (32, 1)), "ld.shared.b32@col", "f32"),
    (Layout((32, 32), (32, 1)), "ld.shared.b32@row", "f32"),
    (Layout((48, 20), (20, 1)), "st.shared.b32@col", "f32"),
    (Layout((64, 64), (64, 1)), "red.shared.u32@(32,1):(0,0)", "f32"),
    (ComposedLayout(Layout((2, 512), (512, 1)), 0, Layout((32, 32), (32, 1))), "ld.shared.b32@col", "f32"),
    (Layout((64, 256), (256, 1)), "ld.shared.b128", "u4"),
    (
        Layout((64, 64), (64, 1)),
        Access("ld.shared.b32", Layout((32, 1), (1, 0)), dtype("f32"), base_bytes=8),
        "f32",
    ),
    (Layout((64, 64), (64, 1)), "ld.global.b32@col", "f32"),
    (Layout((64, 64), (64, 1)), "ld.global.b128", "f16"),
)


def test_counts_are_those_of_analyze_and_their_words_are_true() -> None:
    for layout, access, element in COUNTS:
        derivation = explain("analyze", layout, access, element=element)
        statements(derivation)
        chosen = Access.of(access, layout, element)
        assert derivation.result == analyze(layout, chosen), access
        said = [f"{step.law}." for step in derivation.steps[1:-1]]
        assert said == conflict_words(layout, chosen, analyze(layout, chosen)), access
        assert max(map(len, derivation.lines())) <= PAGE


def test_a_conflict_is_explained_at_the_layout_in_hand() -> None:
    text = " ".join(str(explain("analyze", SWIZZLED, "ldmatrix.x4", element="f16")).split())
    for words in (
        "rows 0 to 7 start 128 bytes apart, and 128 bytes are all 32 banks, so they start in bank 0",
        "Sw<3,3,3> adds bits 6 to 8 of an element's offset, without carry, to bits 3 to 5",
        "it adds r there for row r, 0 to 7, counted in 8 elements = 16 bytes",
        "1 + 1 + 1 + 1 = 4 wavefronts",
        "= 64 wavefronts, and 64 without conflicts",
    ):
        assert words in text


CERTIFICATES: tuple[tuple[Any, tuple[str, ...], dict[str, Any]], ...] = (
    ((32, 32), ("ld.shared.b32@row", "ld.shared.b32@col"), {}),
    ((64, 64), ("ldmatrix.x4", "ld.shared.b16@col"), {"element": "f16"}),
    ((48, 20), ("ld.shared.b32@col",), {"max_extra_bytes": 1024}),
    ((64, 96), ("ld.shared.b32@col",), {"form": "single"}),
    ((33, 32), ("ld.shared.b32@row",), {}),
)


@pytest.mark.deep
def test_certificates_are_those_of_synthesize_and_are_proved_again() -> None:
    reasons = set()
    for shape, accesses, params in CERTIFICATES:
        derivation = explain("synthesize", shape, *accesses, **params)
        statements(derivation)
        found = synthesize(shape, list(accesses), **({"element": "f32"} | params))
        assert derivation.result == found
        assert [f"{step.law}." for step in derivation.steps] == certificate_words(found)
        reasons.add(found.certificate.reason)
        said = notation(found)
        assert said == ("none found" if found.layout is None else str(found.layout)), "none is said to exist"
    assert len(reasons) > 2


# --- the call ------------------------------------------------------------------------------------------


N = sympy.Symbol("n", integer=True, positive=True)


def test_symbols_and_coordinates_are_refused_by_name() -> None:
    for value in (Layout((N, 4)), N, make_identity_layout((4, 8)), ScaledBasis(1, 0)):
        for call in (("coalesce", value), ("composition", A, (4, value)), (A, value)):
            with pytest.raises(errors.UnsupportedError, match=r"^explain of .*; integers are accepted$"):
                explain(*call)


@each(
    ("call", "error", "message"),
    [
        (("compose", A), errors.UnknownNameError, "did you mean 'composition'[?] accepted are composition, "),
        (("size", A), errors.UnknownNameError, "unknown operation to explain 'size'"),
        ((len, A), errors.UnknownNameError, "operation"),
        (("coalesce",), errors.ArgumentTypeError, r"coalesce\(\): missing a required argument"),
        (("coalesce", A, A, A), errors.ArgumentTypeError, "too many positional arguments"),
        (("coalesce", 8), errors.ArgumentTypeError, "8"),
        (("composition", A, "4:1"), errors.ArgumentTypeError, "4:1"),
        ((A, 1.0), errors.ArgumentTypeError, "a layout takes a coordinate of integers"),
        ((A,), errors.ArgumentTypeError, "a layout takes a coordinate of integers"),
        ((Swizzle(1, 0, 1), -1), errors.ArgumentTypeError, "a swizzle takes one integer"),
        (("analyze", A, "ld.shared.b33"), errors.UnknownNameError, "ld.shared.b33"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_cannot_be_explained(call: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        explain(*call)
    with pytest.raises(errors.ArgumentTypeError, match="unexpected keyword argument 'trace'"):
        explain("coalesce", A, trace=1)


def test_anything_gets_a_derivation_or_a_named_error() -> None:
    """Operands of every kind, also those that an operation does not take."""
    things = (
        5,
        0,
        -1,
        True,
        2.0,
        "x",
        None,
        (),
        (4, 8),
        (0, 4),
        Layout(4),
        Layout((4, 2), (-2, 1)),
        Swizzle(1, 0, 2),
    )
    draw = random.Random(14)
    for op in OPERATIONS:
        for count in (1, 2, 2, 3):
            for _ in range(20):
                with contextlib.suppress(errors.LayoutAlgError):
                    explain(op, *draw.choices(things, k=count))


def test_lines_fit_the_page_and_say_everything() -> None:
    long = " + ".join(str(n) for n in range(60)) + " = 1770"
    wide = "A = (" + ",".join(["1234567"] * 40) + ")"
    solid = "9" * 300
    derivation = Derivation(f"f({wide})", (Step("a law " * 40, (long, wide, solid)),), 1770)
    lines = str(derivation).splitlines()
    assert max(map(len, lines)) <= PAGE and not any(line != line.rstrip() for line in lines)
    packed = "".join(str(derivation).split())
    assert all("".join(text.split()) in packed for text in (long, wide, solid))


# --- the command ---------------------------------------------------------------------------------------

COMMANDS: tuple[tuple[tuple[str, ...], Derivation], ...] = (
    (
        ("composition", "(6,2):(8,2)", "(4,3):(3,1)"),
        explain("composition", Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))),
    ),
    (("zipped_divide", "(8,32):(1,8)", "(4,8:1)"), explain("zipped_divide", Layout((8, 32)), (4, Layout(8)))),
    (
        ("logical_divide", "(8,32):(1,8)", "(_,8:4)"),
        explain("logical_divide", Layout((8, 32)), (None, Layout(8, 4))),
    ),
    (
        ("coalesce", "(6,2):(8,2)", "profile=(1,1)"),
        explain("coalesce", Layout((6, 2), (8, 2)), profile=(1, 1)),
    ),
    (("complement", "4:1", "None"), explain("complement", Layout(4), None)),
    (("(6,2):(8,2)", "(5,1)"), explain(Layout((6, 2), (8, 2)), (5, 1))),
    (("Sw<2,0,3>", "26"), explain(Swizzle(2, 0, 3), 26)),
    (("Sw<1,0,2> o Sw<2,2,2>", "26"), explain((Swizzle(1, 0, 2), Swizzle(2, 2, 2)), 26)),
    (
        ("analyze", str(SWIZZLED), "ldmatrix.x4@row", "--dtype", "f16"),
        explain("analyze", SWIZZLED, "ldmatrix.x4@row", element="f16"),
    ),
    (
        ("synthesize", "(32,32)", "ld.shared.b32@row", "ld.shared.b32@col", "--arch", "sm_80"),
        explain("synthesize", (32, 32), "ld.shared.b32@row", "ld.shared.b32@col", arch="sm_80"),
    ),
)


@pytest.mark.deep
def test_the_command_says_what_the_library_says() -> None:
    for words, derivation in COMMANDS:
        result = run("explain", *words)
        assert result.stdout == f"{derivation}\n", words
        assert result.exit_code == 0 and result.stderr == "", words
        payload = answer("explain", *words)
        assert payload["call"] == derivation.call and f"= {payload['result']}" == derivation.answer


def test_a_refused_operation_is_explained_and_exits_1() -> None:
    words = ("explain", "composition", "(6,2):(1,7)", "(3,2):(2,3)")
    result = run(*words)
    assert result.exit_code == 1 and "refused, DivisibilityError (witness 5)" in result.stdout
    payload = answer(*words, exit_code=1)
    assert payload["result"] is None and payload["refusal"]["error"] == "DivisibilityError"
    assert payload["steps"][-1]["statements"][-1] == "A(B(5)) = A(7) = 8 != 7"
