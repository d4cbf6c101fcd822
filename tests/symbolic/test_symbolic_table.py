"""Substitution commutes with every operation that takes symbols, and the others refuse them by name.

Numbers put into the answer give the answer for the numbers; strides along modes are numbers in a large radix.
"""

from __future__ import annotations

import random
from typing import Any

from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, UnsupportedError
from layoutalg.layout import Layout
from tests.draws.symbolic_calls import (
    OFFSETS_ALONE,
    WITH_BASES,
    WITH_SYMBOLS,
    A,
    Call,
    I,
    integers_alone,
    number,
)
from tests.draws.symbolic_cases import K, M, N, put, table
from tests.judges.exports import PUBLIC
from tests.sweeps import each

DRAWS = 12


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, Layout):
        return table(got) == table(wanted)
    if type(wanted) is tuple:
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    return bool(got == wanted)


@each("name", WITH_SYMBOLS, sample=42)
def test_substitution_commutes_with_the_operation(name: str) -> None:
    operation, call, draw = getattr(PUBLIC, name), WITH_SYMBOLS[name], random.Random(name)
    in_symbols = call(operation)
    for _ in range(DRAWS):
        n, m = draw.randint(1, 12), draw.randint(1, 12)
        numbers = {N: n, M: m, K: draw.randint(1, max(1, min(n, m) // 2))}  # K - 1 is a coordinate

        def with_numbers(*operands: Any, numbers: dict[Any, int] = numbers) -> Any:
            return operation(*(put(o, numbers) if not isinstance(o, dict) else o for o in operands))

        assert _same(put(in_symbols, numbers), put(call(with_numbers), numbers)), numbers


@each("name", WITH_BASES)
def test_coordinates_are_numbers_in_a_radix_too_large_to_carry(name: str) -> None:
    operation, call = getattr(PUBLIC, name), WITH_BASES[name]
    result = call(operation)
    assert _same(number(result), number(call(lambda *operands: operation(*map(number, operands)))))


def test_what_takes_neither_refuses_them_by_name() -> None:
    calls: list[tuple[str, Call, type[LayoutAlgError], str]] = [
        *((n, call, UnsupportedError, n) for a in (A, I) for n, call in integers_alone(a).items()),
        *((n, call, UnsupportedError, n) for n, call in OFFSETS_ALONE.items()),
        ("parse_int_tuple", lambda f: f("(n,4)"), ParseError, "cannot read"),
        ("parse_tiler", lambda f: f("(n,4):(1,n)"), ParseError, "cannot read"),
        ("Swizzle", lambda f: f(N, 0, 2), ArgumentTypeError, "swizzle bits has n"),
    ]
    wrong: list[str] = []
    for name, call, kind, words in calls:
        try:
            wrong.append(f"{name} answers {call(getattr(PUBLIC, name))}")
        except kind as error:
            if words not in str(error):
                wrong.append(f"{name}: {error}")
    assert not wrong
