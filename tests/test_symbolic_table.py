"""Every exported operation on symbols and on strides along modes: the table of symbolic_algebra, row by row.

A yes is a law: putting numbers into the answer gives the answer for the numbers.  A no is a refusal by name.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import layoutalg
from layoutalg import symbolic_algebra
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, UnsupportedError
from layoutalg.layout import Layout
from tests.exports import algebra
from tests.symbolic_calls import WITH_BASES, WITH_SYMBOLS, Call, number
from tests.symbolic_cases import K, M, N, put, table

OTHER_ERRORS: dict[str, tuple[type[LayoutAlgError], str, Call]] = {
    "parse_int_tuple": (ParseError, "cannot read", lambda f: f("(n,4)")),
    "parse_tiler": (ParseError, "cannot read", lambda f: f("(n,4):(1,n)")),
    "Swizzle": (ArgumentTypeError, "swizzle bits has n", lambda f: f(N, 0, 2)),
}
"""Refusals of symbols that are no UnsupportedError."""


def _documented(column: int) -> dict[str, str]:
    rows = re.findall(
        r"^    (\w+) +(yes|no|-) +(yes|no|-)(?: |$)", symbolic_algebra.__doc__ or "", re.MULTILINE
    )
    return {row[0]: row[column] for row in rows}


SYMBOLS, BASES = _documented(1), _documented(2)


def _refused(name: str, call: Call, kind: type[LayoutAlgError], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(getattr(layoutalg, name))


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, Layout):
        return table(got) == table(wanted)
    if type(wanted) is tuple:
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    return bool(got == wanted)


def test_the_table_has_every_exported_operation() -> None:
    assert set(SYMBOLS) == set(algebra())
    assert {n for n, word in SYMBOLS.items() if word != "-"} == WITH_SYMBOLS.keys() | OTHER_ERRORS.keys()
    assert {n for n, word in BASES.items() if word != "-"} == WITH_BASES.keys()


@pytest.mark.parametrize("name", [n for n, word in SYMBOLS.items() if word == "no"])
def test_what_takes_no_symbols_refuses_them_by_name(name: str) -> None:
    kind, words, call = OTHER_ERRORS.get(name) or (UnsupportedError, name, WITH_SYMBOLS[name])
    _refused(name, call, kind, words)


@pytest.mark.parametrize("name", [n for n, word in SYMBOLS.items() if word == "yes"])
@pytest.mark.parametrize("values", [(3, 5, 2), (8, 4, 1), (1, 3, 1), (6, 1, 1)])
def test_numbers_put_into_the_answer_give_the_answer_for_the_numbers(
    name: str, values: tuple[int, int, int]
) -> None:
    operation, numbers = getattr(layoutalg, name), dict(zip((N, M, K), values, strict=True))
    call = WITH_SYMBOLS[name]

    def with_numbers(*operands: Any) -> Any:
        return operation(*(put(o, numbers) if not isinstance(o, dict) else o for o in operands))

    assert _same(put(call(operation), numbers), put(call(with_numbers), numbers))


@pytest.mark.parametrize("name", [n for n, word in BASES.items() if word == "no"])
def test_what_takes_no_bases_refuses_them_by_name(name: str) -> None:
    _refused(name, WITH_BASES[name], UnsupportedError, name)


@pytest.mark.parametrize("name", [n for n, word in BASES.items() if word == "yes"])
def test_coordinates_are_numbers_in_a_radix_too_large_to_carry(name: str) -> None:
    operation, call = getattr(layoutalg, name), WITH_BASES[name]
    result = call(operation)
    assert _same(number(result), number(call(lambda *operands: operation(*map(number, operands)))))
