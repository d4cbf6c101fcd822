"""evaluate: drawn expressions in C++, pycute and CuTe's prints, beside direct calls and pycute itself."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import layoutalg as la
from layoutalg.errors import LayoutAlgError, ParseError
from layoutalg.layout import Layout, flatten_tree, to_text
from layoutalg.limits import Most
from layoutalg.source import Call, evaluate, value_text
from tests.judges.peers import present
from tests.sweeps import each

FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None, derandomize=True)


class Drawn(NamedTuple):
    """An expression in each spelling, and its value by direct calls."""

    texts: dict[str, str]
    value: Callable[[], Any]

    @property
    def names(self) -> set[str]:
        return set(self.texts)


def _cpp(tree: Any) -> str:
    if isinstance(tree, tuple):
        return f"make_shape({', '.join(map(_cpp, tree))})"
    return f"_{tree}{{}}" if tree % 2 else f"cute::Int<{tree}>{{}}"


def _leaf(layout: Layout) -> Drawn:
    stride = _cpp(layout.stride).replace("make_shape", "make_stride")
    return Drawn(
        {
            "cpp": f"make_layout({_cpp(layout.shape)}, {stride})",
            "pycute": f"Layout({layout.shape}, {layout.stride})",
            "print": str(layout),
        },
        lambda: layout,
    )


@st.composite
def _leaves(draw: st.DrawFn) -> Drawn:
    extents = draw(st.lists(st.sampled_from((1, 2, 3, 4, 8)), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(extents))))
    made = la.make_ordered_layout(tuple(extents), tuple(order))
    if draw(st.booleans()):
        made = Layout(made.shape, tuple(2 * d for d in flatten_tree(made.stride)))
    if len(extents) == 3 and draw(st.booleans()):
        made = la.group(made, 1, 3)
    return _leaf(made if len(extents) > 1 else Layout(extents[0], draw(st.sampled_from((1, 2, 5)))))


UNARY = ("coalesce", "right_inverse", "left_inverse", "complement")
BINARY = ("composition", "logical_divide", "zipped_divide", "tiled_divide", "logical_product",
          "zipped_product", "tiled_product")  # fmt: skip
OURS = ("raked_product", "blocked_product", "flat_divide", "flatten")
"""Operations that pycute lacks."""


def _called(name: str, *given: Drawn) -> Drawn:
    names = given[0].names - ({"pycute"} if name in OURS else set())
    texts = {key: f"{name}({', '.join(d.texts.get(key, d.texts['cpp']) for d in given)})" for key in names}
    texts["cpp"] = f"decltype({texts['cpp']}){{}}" if name == "composition" else f"cute::{texts['cpp']}"
    if name == "composition":
        texts["print"] = f"({given[0].texts['print']}) o ({given[1].texts['print']})"
    function = getattr(la.algebra, name, None) or getattr(la, name)
    return Drawn(texts, lambda: function(*(d.value() for d in given)))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> Drawn:
    """An expression of calls, two levels deep."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(_leaves())
    name = draw(st.sampled_from((*UNARY, *BINARY, *BINARY, *OURS)))
    first = draw(expressions(depth - 1))
    if name in UNARY or name == "flatten":
        return _called(name, first)
    return _called(name, first, draw(expressions(depth - 1) if name == "composition" else _leaves()))


def _direct(drawn: Drawn) -> Any:
    with contextlib.suppress(LayoutAlgError):
        return drawn.value()
    return None


@given(expressions())
@FEW
def test_an_expression_is_what_direct_calls_make_in_each_spelling(drawn: Drawn) -> None:
    expected = _direct(drawn)
    for text in drawn.texts.values():
        if expected is None:
            with pytest.raises(LayoutAlgError):
                evaluate(text)
        else:
            assert evaluate(text) == expected, text


@given(expressions(), expressions(), st.data())
@FEW
def test_spellings_mix_and_names_stand_for_values(a: Drawn, b: Drawn, data: st.DataObject) -> None:
    both = _called("composition", a, b)
    expected = _direct(both)
    texts = [data.draw(st.sampled_from(sorted(d.texts.values()))) for d in (a, b)]
    for text, let in (
        (f"composition({texts[0]}, {texts[1]})", {}),
        ("A o B", {"A": texts[0], "B": texts[1]}),
        ("A.compose(B)", {"A": texts[0], "B": texts[1]}),
    ):
        if expected is None:
            with pytest.raises(LayoutAlgError):
                evaluate(text, let)
        else:
            assert evaluate(text, let) == expected, (text, let)


@pytest.mark.skipif(not present("pycute"), reason="pycute is not installed")
@given(expressions())
@FEW
def test_pycute_itself_gives_the_same_function(drawn: Drawn) -> None:
    """Where both have an answer; pycute answers some questions that have none."""
    text, expected = drawn.texts.get("pycute"), _direct(drawn)
    if text is None or not isinstance(expected, Layout):
        return
    pycute = importlib.import_module("pycute")
    try:
        theirs = eval(text, vars(pycute))  # noqa: S307 - a text of this test, for the peer
    except (AssertionError, ValueError, TypeError, ZeroDivisionError, IndexError):
        return
    ours = evaluate(text)
    assert la.size(ours) == theirs.size()
    assert [ours(c) for c in range(la.size(ours))] == [theirs(c) for c in range(theirs.size())], text


@given(st.recursive(st.integers(0, 99), lambda inner: st.tuples(inner, inner, st.sampled_from("+-*/%"))))
@FEW
def test_arithmetic_binds_and_rounds_as_in_cpp(tree: Any) -> None:
    def text(node: Any) -> str:
        return str(node) if isinstance(node, int) else f"({text(node[0])}{node[2]}{text(node[1])})"

    def value(node: Any) -> int:
        if isinstance(node, int):
            return node
        a, b = value(node[0]), value(node[1])
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if node[2] in "/%" else 0
        return {"+": a + b, "-": a - b, "*": a * b, "/": quotient, "%": a - quotient * b}[node[2]]

    try:
        expected = value(tree)
    except ZeroDivisionError:
        with pytest.raises(ParseError, match="a division by zero"):
            evaluate(text(tree))
        return
    if expected.bit_length() < 200:
        assert evaluate(text(tree)) == expected


KNOWN = {"A": "(64,64):(64,1)", "T": "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2,_2>>{})"}


@each(
    ("text", "expected"),
    [
        ("composition((8,64):(64,1), 4:2)", "4:128"),
        ("2+3*4-6/4%3", "13"),
        ("complement(4:2, 32)", "(2,4):(1,8)"),
        ("upcast<2>(A)", "(64,32):(32,1)"),
        ("recast_layout<half_t,float>((8,64):(64,1))", "(8,32):(32,1)"),
        ("tile_to_shape(Sw<3,3,3> o 0 o (8,64):(64,1), make_shape(_64{}, 128))",
         "Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))"),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o A", "Sw<3,3,3> o 0 o (64,64):(64,1)"),
        ("make_tile(8:1, _, 4)", "(8:1,_,4)"),
        ("logical_divide(A, <8:1, 4:2>)", "((8,8),(4,(2,8))):((64,512),(2,(1,8)))"),
        ("A.with_shape(8,512)", "(8,(8,64)):(64,(512,1))"),
        ("select<1,0>(A)", "(64,64):(1,64)"),
        ("group<0,2>(make_layout(make_shape(2,3,4)))", "((2,3),4):((1,2),6)"),
        ("local_tile(A, (8,8), (1,2))", "(8,8):(64,1) from offset 528"),
        ("local_tile(A, Shape<_8,_8,_4>{}, make_coord(1,_,2), Step<_1,_1,X>{})",
         "(8,8,8):(64,1,8) from offset 512"),
        ("local_partition(A, (8,4):(4,1), 5)", "(8,16):(512,4) from offset 65"),
        ("A(2,3)", "131"), ("A(_,3)", "(64):(64)"), ("A[1]", "64:1"), ("A.shape", "(64,64)"),
        ("size<0>(A)*2", "128"), ("cosize(A)", "4096"), ("crd2idx((1,2), A)", "66"),
        ("idx2crd(70, (64,64))", "(6,1)"), ("slice_and_offset((_,3), A)", "(64):(64) from offset 3"),
        ("is_bijective(A)", "true"), ("same_function(A, coalesce(A))", "true"),
        ("SM80_16x8x16_F32F16F16F32_TN.A", "((4,8),(2,2,2)):((32,1),(16,8,128))"),
        ("typename MMA_Traits<SM80_16x8x16_F32F16F16F32_TN>::CLayout", "((4,8),(2,2)):((32,1),(16,8))"),
        ("Copy_Atom<SM75_U32x4_LDSM_N, half_t>.dst", "(32,(2,4)):(2,(1,64))"),
        ("Copy_Atom<AutoVectorizingCopyWithAssumedAlignment<128>, half_t>.src", "(1,8):(0,1)"),
        ("T.get_layoutC_TV()", "((4,8,2,2),((2,2),(1,1))):((64,1,16,256),((32,8),(0,0)))"),
        ("T.get_slice(3).partition_A(A)", "((2,2,2),2,4):((1,512,8),2048,16) from offset 6"),
        ("make_tiled_copy(Copy_Atom<UniversalCopy<uint128_t>, half_t>{}, (16,8):(8,1), (1,8):(0,1)).S",
         "((8,16),(8,1)):((128,1),(16,0))"),
        ("make_layout(make_shape(n, Int<8>{}), LayoutRight{})", "(n,8):(8,1)"),
        ("(2*n+1,8):(1,2*n+1)", "(2*n+1,8):(1,2*n+1)"),
        ("-n", "-n"), ("(4,8):(1@0,1@1)", "(4,8):(1@0,1@1)"),
        ("cute.make_layout((8, 64), stride=(64, 1))", "(8,64):(64,1)"),
        ("auto layout = GMMA::Layout_K_SW128_Atom<half_t>{}", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
    ],
)  # fmt: skip
def test_what_cute_users_write(text: str, expected: str) -> None:
    assert value_text(evaluate(text, KNOWN, symbols=["n"])) == expected


@each(
    ("text", "said"),
    [
        ("foo(3)", "unknown function 'foo'"),
        ("cosize(B)", "unknown name 'B'"),
        ("raked_prodct(A, A)", "nearest: raked_product"),
        ("A.shpe", "unknown member 'shpe'; nearest: shape"),
        ("SM80_16x8x16_F32F16F16F3_TN", "did you mean 'SM80_16x8x16_F32F16F16F32_TN'"),
        ("make_tensor(A)", "give its layout"),
        ("composition(A)", "composition does not take"),
        ("__import__('os')", "unknown function '__import__'"),
        ("().__class__", "unknown member '__class__'"),
        ("A if 1 else 2", "expected ',' or the end"),
        ("1/0", "a division by zero"), ("1/n", "does not take"), ("A*2", "does not take"),
        ("A o 3 o 4 o A", "an offset stands between two layouts"), ("3 o", "expected a name"),
        ("(8,64):", "expected a name"), ("", "expected a name"), ("A.A", "unknown member 'A'"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        evaluate(text, KNOWN, symbols=["n"])
    assert said in str(caught.value)


def test_the_errors_of_functions_are_their_own() -> None:
    with pytest.raises(
        la.errors.DivisibilityError, match=r"^composition\(\(6,2\):\(1,7\), \(3,2\):\(2,3\)\)"
    ):
        evaluate("size(composition((6,2):(1,7), (3,2):(2,3)))")


def test_limits_of_size_and_depth() -> None:
    deep = Most.NESTING.number
    assert evaluate("(" * 40 + "7+1" + ")" * 40) == 8
    with pytest.raises(ParseError, match="nested brackets"):
        evaluate("(" * (deep + 2) + "7" + ")" * (deep + 2))
    assert evaluate("+".join(["1"] * 5000)) == 5000
    nested = "composition(8:1, " * (deep - 2) + "8:1" + ")" * (deep - 2)
    assert evaluate(nested) == Layout(8, 1)
    with pytest.raises(ParseError, match="inside each other"):
        evaluate("/".join(["1"] * 5000))
    with pytest.raises(LayoutAlgError, match="bits of a product"):
        evaluate("*".join(["999999999999"] * 200))
    with pytest.raises(LayoutAlgError, match="length of a text"):
        evaluate(" " * (Most.TEXT.number + 1))


def test_the_trace_holds_the_calls_innermost_first() -> None:
    trace: list[Call] = []
    evaluate("size<0>(composition(A, 4:2))", KNOWN, trace=trace)
    assert list(map(str, trace)) == ["composition((64,64):(64,1), 4:2) = 4:128", "size<0>(4:128) = 4"]
    assert to_text(trace[0].result.shape) == "4"
