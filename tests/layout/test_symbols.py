"""What is decided about symbols: each answer against many values, each kind of question against its text."""

from __future__ import annotations

import itertools
import operator
import random
from typing import Any

import pytest
import sympy

from layoutalg.algebra import complement, logical_divide
from layoutalg.compose import composition
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UndecidedError
from layoutalg.layout import (
    Layout,
    canonical,
    decide,
    divides,
    is_nonnegative,
    is_symbolic,
    quotient,
    require,
    size,
    symbolic_leaf,
    with_assumptions,
)
from layoutalg.notation import parse, parse_polynomial
from tests.draws.symbolic_cases import K, M, N, put
from tests.sweeps import each

EXPRESSIONS: tuple[Any, ...] = (
    0, 1, 2, 6, N, M, N - 1, N + 1, 2 * N, 4 * N, N * M, N * M - N, N * M - N - M + 1, M + N - 2, 3 - N,
    N**2, N**2 - N, N // 2, 4 * (N // 4), sympy.ceiling(N / 4), N - 4 * (N // 4), sympy.Mod(N, 4), -N,
)  # fmt: skip
VALUES = [{N: n, M: m, K: 1} for n, m in itertools.product((1, 2, 3, 4, 5, 8), (1, 2, 3, 5))]
X = sympy.Symbol("x")
TABLES = [[put(e, v) for v in VALUES] for e in EXPRESSIONS]


@each("value", EXPRESSIONS, ids=str)
def test_nonnegative_is_never_claimed_wrongly(value: Any) -> None:
    if is_nonnegative(value):
        assert all(put(value, v) >= 0 for v in VALUES)


def test_nonnegative_is_found() -> None:
    missed = [e for e in EXPRESSIONS if not is_nonnegative(e) and all(put(e, v) >= 0 for v in VALUES)]
    assert missed == [N - 4 * (N // 4)]  # a fact about floor, which is an unknown of its own here


@pytest.mark.deep
@pytest.mark.parametrize("relation", [sympy.Le, sympy.Eq, sympy.Ne], ids=["Le", "Eq", "Ne"])
def test_relations_are_never_decided_wrongly(relation: Any) -> None:
    python = {sympy.Le: operator.le, sympy.Eq: operator.eq, sympy.Ne: operator.ne}[relation]
    some = [*zip(EXPRESSIONS, TABLES, strict=True)]
    for (a, left), (b, right) in itertools.product(some, some[:: 3 if relation is sympy.Le else 6]):
        answer = decide(relation(a, b))
        if answer is not None:
            assert {python(x, y) for x, y in zip(left, right, strict=True)} == {answer}, (a, b)


@pytest.mark.deep
def test_quotients_are_never_wrong() -> None:
    found = 0
    for (a, left), (b, right) in itertools.product(zip(EXPRESSIONS, TABLES, strict=True), repeat=2):
        whole = quotient(a, b)
        if whole is not None:
            found += 1
            numbers = zip(left, right, (put(whole, v) for v in VALUES), strict=True)
            assert all(x == y * q for x, y, q in numbers if y), (a, b, whole)
    assert found > 60


def test_integers_are_decided_as_integers() -> None:
    for a, b in itertools.product(range(9), repeat=2):
        assert quotient(a, b) == (a // b if b and a % b == 0 else None)
        assert decide(sympy.Le(a, b)) is (a <= b)
        if b:
            assert decide(divides(b, a)) is (a % b == 0)


def test_parity_in_the_symbol_is_used() -> None:
    even = sympy.Symbol("even", even=True, positive=True)
    assert quotient(even, 2) == even / 2
    assert decide(divides(2, even)) is True
    assert decide(divides(2, N)) is None
    assert decide(divides(N + 1, N)) is False


def test_canonical_forms() -> None:
    assert canonical(N * (M + 1)) == N * M + N
    assert type(canonical(N - N + 3)) is int
    assert canonical(-(-N // 8)) == sympy.ceiling(N / 8)
    assert canonical(N // 8) == sympy.floor(N / 8)
    assert not is_symbolic(3) and not is_symbolic("n") and is_symbolic(N + 1)


def test_equal_polynomials_are_equal_leaves() -> None:
    one, other = Layout((N * (M + 1), 2)), Layout((N * M + N, 2))
    assert one == other and hash(one) == hash(other)
    assert size(one) == 2 * N * M + 2 * N
    assert type(Layout((sympy.Integer(4), 2)).shape[0]) is int  # type: ignore[index]


@each(
    "leaf",
    [
        sympy.Symbol("x", integer=False),
        sympy.Symbol("x") / 2,
        N / 2,
        sympy.Rational(1, 2),
        sympy.pi,
        sympy.sqrt(N),
    ],
)
def test_leaves_must_be_integers(leaf: Any) -> None:
    for what in (lambda: symbolic_leaf(leaf, "shape"), lambda: Layout((leaf, 2)), lambda: Layout(2, leaf)):
        with pytest.raises(ArgumentTypeError, match="need not be an integer where its symbols are"):
            what()


def test_a_symbol_that_is_not_declared_stands_for_integers_of_which_nothing_is_known() -> None:
    assert str(Layout((4, 8), (X, 1))) == "(4,8):(x,1)"
    assert str(composition(Layout((4, 8), (X, 1)), Layout(4, 8))) == "4:2"
    with pytest.raises(UndecidedError, match="it is not decided whether 1 <= x"):
        Layout((X, 2))
    with pytest.raises(UndecidedError):
        size(complement(Layout((4, 8), (1, 2 * X)), 64))
    real = sympy.Symbol("r", positive=True)
    assert is_nonnegative(real) and not is_nonnegative(real - 1) and quotient(2 * real, 2) is None


def test_extents_must_be_positive() -> None:
    with pytest.raises(ShapeError, match=r"extent -n in shape \(-n,2\): extents must be positive"):
        Layout((-N, 2))
    with pytest.raises(ShapeError, match="extents must be positive"):
        Layout((N - N, 2))
    with pytest.raises(UndecidedError, match="it is not decided whether 1 <= n - 1") as info:
        Layout((N - 1, 2))
    assert info.value.condition == sympy.Le(1, N - 1)
    assert with_assumptions(Layout, (N - 1, 2))[1] == (sympy.Le(1, N - 1),)
    assert Layout((N * M - N + 1, 2)).shape == (N * M - N + 1, 2)


def test_an_undecided_condition_is_named() -> None:
    with pytest.raises(UndecidedError) as info:
        require("composition", sympy.Le(4, N))
    assert info.value.condition == sympy.Le(4, N) and info.value.budget is None
    assert info.value.message == (
        "composition: it is not decided whether 4 <= n; give the symbols assumptions that settle it "
        "(positive=True, 4*k for a multiple of 4), or take it for granted by with_assumptions"
    )
    assert require("composition", sympy.Le(1, N)) is True
    assert require("composition", sympy.Le(N, 0)) is False


def test_assumptions_come_back_with_the_result_and_do_not_stay() -> None:
    a = Layout((N, M), (M, 1))
    result, assumed = with_assumptions(composition, a, Layout(4))
    assert (result, assumed) == (Layout(4, M), (sympy.Le(4, N),))
    with pytest.raises(UndecidedError):
        composition(a, Layout(4))
    assert with_assumptions(size, a) == (N * M, ())


def test_an_assumption_made_once_settles_what_follows_from_it() -> None:
    result, assumed = with_assumptions(logical_divide, Layout((N, M), (M, 1)), 4)
    assert set(assumed) == {sympy.Le(4, N), sympy.Eq(sympy.Mod(N, 4), 0)}
    for n, m in ((4, 3), (8, 5), (12, 1)):
        v = {N: n, M: m, K: 1}
        if all(put(c, v) for c in assumed):
            got, whole = put(result, v), put(Layout((N, M), (M, 1)), v)
            want = logical_divide(whole, 4)
            assert [got(i) for i in range(n * m)] == [want(i) for i in range(n * m)]


def test_assumptions_of_calls_inside_each_other_are_kept_apart() -> None:
    def both() -> tuple[Any, Any]:
        inner = with_assumptions(composition, Layout((N, M), (M, 1)), Layout(2))
        return inner[1], complement(Layout((M, 2), (1, K)), 2 * K)

    (inner, _), outer = with_assumptions(both)
    assert inner == (sympy.Le(2, N),)
    assert outer == (sympy.Eq(sympy.Mod(K, M), 0),)


def test_an_error_ends_the_assumptions() -> None:
    with pytest.raises(ShapeError):
        with_assumptions(composition, Layout((N, M)), Layout(4, -1))
    with pytest.raises(UndecidedError):
        require("size", sympy.Le(4, N))


@each("seed", range(40))
def test_a_polynomial_is_read_as_it_is_written(seed: int) -> None:
    draw = random.Random(seed)
    terms = [N ** draw.randint(0, 2) * M ** draw.randint(0, 3) for _ in range(draw.randint(1, 4))]
    value = canonical(sum(draw.randint(-9, 9) * term for term in terms))
    text = str(value).replace(" ", "")
    assert parse_polynomial(text, {"n": N, "m": M}) == value


def test_text_of_symbolic_layouts_round_trips_through_named_symbols() -> None:
    names = {"n": N, "m": M}
    pitched = Layout((N, 8), (1, 4 * N + M**2 - 3))
    for layout in (pitched, Layout(((N * M, 2), M)), Layout((N + 1, 2), (-M, 1))):
        assert " " not in str(layout)
        assert parse(str(layout), symbols=names) == layout
    assert str(parse("(n,8):(1@0,2*n@1)", symbols=names)) == "(n,8):(1@0,2*n@1)"


@each(
    ("text", "symbols", "position", "why"),
    [
        ("(n,8):(1,n)", None, 1, "expected an integer"),
        ("(n,8):(1,q)", {"n": N}, 9, "'q' at character 0 of 'q' is an unknown variable; accepted are n"),
        ("(8,8):(1,q)", {}, 9, "'q' at character 0 of 'q' is an unknown variable; accepted are none"),
        ("(n,8):(1,n*)", {"n": N}, 11, r"the end at character 2 of 'n\*' stands where a number, '\(' or a"),
        ("(n,8):(1,2*n**m)", {"n": N, "m": M}, 12, "is read as a power of a name, up to 1000, as in n"),
        ("(n,8):(1,n+4u)", {"n": N}, 11, "'4u' at character 2 of 'n\\+4u' is not an integer"),
        ("-n:1", {"n": N}, 0, "extents must be positive"),
        ("n:" + "9" * 101 + "*n", {"n": N}, 2, "decimal ones of at most 100 digits"),
        ("n@0:1", {"n": N}, 1, "expected ':' and a stride"),
    ],
)
def test_text_with_names_is_refused_where_it_is_wrong(
    text: str, symbols: dict[str, Any] | None, position: int, why: str
) -> None:
    with pytest.raises(ParseError, match=why) as info:
        parse(text, symbols=symbols)
    assert info.value.position == position
