"""Every question about a layout is answered as its enumerated definition does, on operands of all kinds."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from layoutalg import decide
from layoutalg.errors import NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, Swizzle, size
from tests.draws.operands import SOURCES, Call
from tests.judges.definitions import DEFINITIONS, HOLDS, judge
from tests.sweeps import each

QUESTIONS = sorted({*SOURCES} & {*DEFINITIONS, *HOLDS} & {*decide.__all__})


def check(op: str, *operands: Any, **params: Any) -> None:
    """Small layouts are always decided.

    A swizzle of negative offsets is refused, as are what must permute and layouts that are not comparable.
    """
    try:
        result = getattr(decide, op)(*operands, **params)
    except (UnsupportedError, NotInjectiveError):
        return
    except ShapeError:
        assert op == "find_difference" and size(operands[0]) != size(operands[1])
        return
    assert judge(op, result, *operands, **params), (op, operands, params, result)


@each("op", QUESTIONS, sample=2)
def test_a_question_is_answered_by_definition(op: str) -> None:
    @given(SOURCES[op])
    def ask(call: Call) -> None:
        operands, params = call
        check(op, *operands, **params)

    ask()


OUTER = Layout((6, 4), (4, 1))
PLAIN: list[tuple[IntTuple, IntTuple]] = [
    ((4, 3, 2), (1, 2, 30)), ((2, 2, 2, 2), (1, 4, 5, 40)), ((5, 4), (3, 4)), ((3, 3, 3), (6, 10, 15)),
    ((2, 3), (1, 0)), ((4, 4), (-1, 3)), ((3, 4, 5), (6, 10, 15)), ((2, 2, 3), (2, 4, 3)), ((), ()), (1, 5),
]  # fmt: skip
EDGES: list[AnyLayout] = [
    *(Layout(shape, stride) for shape, stride in PLAIN),
    *(ComposedLayout(Swizzle(*s), k, Layout((3, 5), (1, 7))) for s, k in [((2, 0, 2), 0), ((3, 1, -3), 5)]),
    ComposedLayout(Layout((4, 8), (9, 1)), 3, ComposedLayout(Swizzle(1, 0, 3), 1, Layout((2, 3), (5, 1)))),
    ComposedLayout(Swizzle(0, 0, 0), 3, Layout(4, -2)),
    ComposedLayout(Swizzle(5, 1, 8), 0, Layout((16, 16), (512, 1))),
    ComposedLayout(Swizzle(5, 1, 8), 32, Layout((16, 8), (512, 2))),
    ComposedLayout(Swizzle(5, 1, 8), 7, Layout((13, 11), (613, 3))),
    ComposedLayout((Swizzle(5, 1, -8), Swizzle(2, 0, 12)), 1, Layout((16, 8), (512, 2))),
    ComposedLayout(Layout((4, 2), (1, 0)), 1, Layout((2, 3))),
    ComposedLayout(Layout((3, 5), (7, 1)), 2, Layout((5, 2), (2, 1))),
    ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1))),
    ComposedLayout(Swizzle(3, 0, 1), 0, Layout((8, 8), (8, 1))),
    ComposedLayout(OUTER, 0, ComposedLayout(Swizzle(2, 0, 2), 3, Layout((4, 4), (4, 1)))),
]


@each("layout", EDGES, ids=str)
def test_edges_by_definition(layout: AnyLayout) -> None:
    for op in QUESTIONS:
        if op in ("find_coordinate", "find_offset_bit"):
            for number in (0, 1, 2, 5, 29):
                check(op, layout, number)
        elif op == "is_surjective":
            for codomain in (None, 0, 1, 7):
                check(op, layout, codomain)
        elif op in ("find_difference", "find_overlap", "overlap", "same_function"):
            check(op, layout, layout)
        else:
            check(op, layout)
