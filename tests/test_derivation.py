"""Paper and Derivation: names, steps, and lines that fit a page."""

from __future__ import annotations

import pytest

from layoutalg.derivation import PAGE, Derivation, Paper, Step, attempt, notation
from layoutalg.describe import Footprint
from layoutalg.digits import compose_layouts
from layoutalg.errors import DivisibilityError, NotInjectiveError
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle


def test_a_name_is_given_once_and_defined_in_the_next_step() -> None:
    paper = Paper()
    a, b = Layout(4), Layout(8)
    assert [paper.name(a, "A"), paper.name(b, "A"), paper.name(a, "X")] == ["A", "B", "A"]
    paper.step("two layouts", "size(A) < size(B)")
    paper.write("size(A) = 4")
    assert paper.name(b, "B") == "B"
    paper.step("nothing new")
    assert paper.steps == [
        Step("two layouts", ("A = 4:1", "B = 8:1", "size(A) < size(B)", "size(A) = 4")),
        Step("nothing new"),
    ]


def test_letters_do_not_run_out() -> None:
    paper = Paper()
    names = [paper.name(Layout(n), "A") for n in range(1, 101)]
    assert len(set(names)) == 100
    assert names[:3] == ["A", "B", "C"] and names[-1].startswith("A")


def test_a_mode_is_named_after_its_layout() -> None:
    paper = Paper()
    whole = Layout((4, 8), (8, 1))
    paper.mode(whole, 1, Layout(8))
    assert paper.steps == [Step("mode 1", ("A = (4,8):(8,1)", "A1 = 8:1", "A[1] = A1"))]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        ((), "()"),
        ((1, (None, 2)), "(1,(_,2))"),
        ((Swizzle(1, 0, 1), Swizzle(1, 4, 2)), "Sw<1,0,1> o Sw<1,4,2>"),
        (ComposedLayout(Swizzle(1, 0, 1), 2, Layout(4)), "Sw<1,0,1> o 2 o 4:1"),
        (Footprint(0, 3, 4, 4), "Footprint(first=0, last=3, offsets=4, coordinates=4)"),
    ],
)
def test_notation(value: object, text: str) -> None:
    assert notation(value) == text


def test_the_answer_names_the_witnesses() -> None:
    error = NotInjectiveError("two are one", a=0, b=1)
    assert (
        Derivation("f()", (), None, error).answer
        == "refused, NotInjectiveError (witness 0 and 1): two are one"
    )
    assert Derivation("f()", (), None).answer == "= None"


def test_lines_fit_the_page_and_say_everything() -> None:
    long = " + ".join(str(n) for n in range(60)) + " = 1770"
    wide = "A = (" + ",".join(["1234567"] * 40) + ")"
    solid = "9" * 300
    derivation = Derivation(f"f({wide})", (Step("a law " * 40, (long, wide, solid)),), 1770)
    lines = str(derivation).splitlines()
    assert max(map(len, lines)) <= PAGE
    assert not any(line != line.rstrip() for line in lines)
    packed = "".join(str(derivation).split())
    for text in (long, wide, solid):
        assert "".join(text.split()) in packed
    assert lines[-1] == "  = 1770"


def test_steps_are_numbered() -> None:
    derivation = Derivation("f()", tuple(Step(f"law {n}") for n in range(1, 13)), 0)
    assert [line.split(".")[0].strip() for line in str(derivation).splitlines()[1:-1]] == [
        str(n) for n in range(1, 13)
    ]


def test_attempt() -> None:
    assert attempt(compose_layouts, Layout(8, 2), Layout(4)) == (Layout(4, 2), None)
    result, refusal = attempt(compose_layouts, Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    assert result is None and isinstance(refusal, DivisibilityError) and refusal.witness == 5
    with pytest.raises(TypeError):
        attempt(compose_layouts)
