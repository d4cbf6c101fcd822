"""Operations with a definition give what that says, on operands of all kinds; questions: tests/decide."""

from __future__ import annotations

from hypothesis import given, settings

from layoutalg import decide
from layoutalg.errors import LayoutAlgError
from tests.draws.operands import SOURCES, Call
from tests.judges.definitions import DEFINITIONS, HOLDS, judge
from tests.judges.exports import PUBLIC
from tests.sweeps import each


@each("op", sorted(set(SOURCES) & {*DEFINITIONS, *HOLDS} - {*decide.__all__}), sample=5)
def test_an_operation_is_right_by_definition(op: str) -> None:
    operation = getattr(PUBLIC, op)

    @settings(max_examples=max(10, settings().max_examples // 2))
    @given(SOURCES[op])
    def check(call: Call) -> None:
        operands, params = call
        try:
            result = operation(*operands, **params)
        except LayoutAlgError:
            return
        assert judge(op, result, *operands, **params), (call, result)

    check()
