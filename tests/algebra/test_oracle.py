"""Every operation on the layouts that CuTe's C++ headers were run on: 1,504 rows of inputs and answers.

A row agrees when the answer is the same text, or the same function on a shape that refines CuTe's or is
refined by it.  A row that CuTe refuses may be exact here, and is then checked against the definition.  The
rows in CUTE_IS_WRONG are the exceptions: each names the coordinate that shows it.

`tests/data/cute_cpp.jsonl`: CUTLASS of August 2026; `_` marks static integers, `dyn` rows have run-time
ones, about which CuTe knows less: it may stop short of what is true of the values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layoutalg.compose import composition
from layoutalg.decide import same_function
from layoutalg.errors import DivisibilityError, LayoutAlgError, NotInjectiveError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    ceil_div,
    compatible,
    coordinate_at,
    flatten,
    flatten_tree,
    index_at,
    shape_div,
    size,
    to_text,
)
from layoutalg.notation import parse_cute as parse
from layoutalg.notation import parse_int_tuple, parse_tiler
from tests.judges.brute import is_layout_of, table
from tests.judges.exports import PUBLIC as algebra
from tests.sweeps import each

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "cute_cpp.jsonl").open(encoding="utf-8")
]
Row = dict[str, Any]


def layout(text: str) -> AnyLayout:
    value = parse(text)
    assert not isinstance(value, Swizzle)
    return value


def by_shapes(function: Callable[..., object]) -> Callable[[Row], object]:
    """(layout, shape, ...) operations."""
    return lambda row: function(layout(row["in"][0]), *map(parse_int_tuple, row["in"][1:]))


def by_tiler(function: Callable[..., object]) -> Callable[[Row], object]:
    return lambda row: function(layout(row["in"][0]), parse_tiler(row["in"][1]))


def by_values(function: Callable[..., object]) -> Callable[[Row], object]:
    return lambda row: function(*map(parse, row["in"]))


OPERATIONS: dict[str, Callable[[Row], object]] = {
    "blocked_product": by_values(algebra.blocked_product),
    "ceil_div": lambda row: ceil_div(*map(parse_int_tuple, row["in"])),
    "coalesce": by_values(algebra.coalesce),
    "coalesce_profile": by_shapes(algebra.coalesce),
    "complement": by_shapes(algebra.complement),
    "composition": by_values(composition),
    "composition_affine_swizzle": by_values(composition),
    "composition_composed": by_values(composition),
    "composition_swizzle": by_values(composition),
    "composition_tiler": by_tiler(composition),
    "cosize": by_values(algebra.cosize),
    "crd2idx": lambda row: _crd2idx(row),
    "downcast": lambda row: algebra.downcast(layout(row["in"][0]), row["params"]["N"]),
    "filter": by_values(algebra.filter),
    "filter_zeros": by_values(algebra.filter_zeros),
    "flat_divide": by_tiler(algebra.flat_divide),
    "flatten": by_values(flatten),
    "flat_product": by_tiler(algebra.flat_product),
    "idx2crd": lambda row: coordinate_at(parse_int_tuple(row["in"][0]), parse_int_tuple(row["in"][1])),
    "left_inverse": by_values(algebra.left_inverse),
    "logical_divide": by_tiler(algebra.logical_divide),
    "logical_product": by_tiler(algebra.logical_product),
    "make_layout_like": by_values(algebra.make_layout_like),
    "make_ordered_layout": lambda row: algebra.make_ordered_layout(*map(parse_int_tuple, row["in"])),
    "max_alignment": by_values(algebra.max_alignment),
    "max_common_layout": by_values(algebra.max_common_layout),
    "max_common_vector": by_values(algebra.max_common_vector),
    "nullspace": by_values(algebra.nullspace),
    "raked_product": by_values(algebra.raked_product),
    "recast_layout": lambda row: algebra.recast_layout(
        layout(row["in"][0]), row["params"]["old_bits"], row["params"]["new_bits"]
    ),
    "right_inverse": by_values(algebra.right_inverse),
    "shape_div": lambda row: shape_div(*map(parse_int_tuple, row["in"])),
    "tile_to_shape": by_shapes(algebra.tile_to_shape),
    "tile_to_shape_gmma": lambda row: algebra.tile_to_shape(
        layout(row["in_cute"][0]), *map(parse_int_tuple, row["in"][1:])
    ),
    "tile_to_shape_gmma_pi": lambda row: algebra.tile_to_shape(
        layout(row["in_cute"][0]), *map(parse_int_tuple, row["in"][1:])
    ),
    "tiled_divide": by_tiler(algebra.tiled_divide),
    "tiled_product": by_tiler(algebra.tiled_product),
    "upcast": lambda row: algebra.upcast(layout(row["in"][0]), row["params"]["N"]),
    "zipped_divide": by_tiler(algebra.zipped_divide),
    "zipped_product": by_tiler(algebra.zipped_product),
}


def _crd2idx(row: Row) -> object:
    whole = layout(row["in"][1])
    assert isinstance(whole, Layout)
    return index_at(parse_int_tuple(row["in"][0]), whole.shape, whole.stride)


CARRIES = "a digit of A carries: no layout is A o B"
CUT = "`_` keeps mode 1, and CuTe takes that mode's own two submodes for a tile and a rest"
PAST_THE_END = "the common vector runs past the end of the smaller layout"
GROWS_TWICE = "every mode of stride 1 grows, those of extent 1 too, and elements repeat"
DROPS_BITS = "a swizzle moves parts of the wider elements, and CuTe drops its bits"
CUTE_IS_WRONG = {
    **dict.fromkeys((182, 240, 377, 1002, 2030, 2178), CARRIES),
    **dict.fromkeys((324, 1942), CUT),
    **dict.fromkeys((1299, 1710, 2034, 2131), PAST_THE_END),
    **dict.fromkeys((526, 985, 2013), GROWS_TWICE),
    **dict.fromkeys((500, 2099), DROPS_BITS),
}
"""Row id -> what is wrong; the test shows it."""

STOPS_SHORT = {436: 4 * 96, 572: 48, 1191: 3 * 4 * 12 * 2}
"""right_inverse rows with run-time strides: how far the values allow to go, where CuTe stops earlier."""

KNOWN = [row for row in ROWS if row["op"] in OPERATIONS]


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 1504 and len({row["id"] for row in ROWS}) == 1504
    assert {row["op"] for row in KNOWN} == set(OPERATIONS)
    assert {row["op"] for row in ROWS} - set(OPERATIONS) == ELSEWHERE


ELSEWHERE = {
    *("mma_traits", "copy_traits", "tiled_mma", "tiled_copy"),
    *("smem_atom", "smem_atom_pi", "smem_atom_bits"),
}
"""Rows about atoms, which are facts and no operations of the algebra; read and compared further down."""


@each("row", KNOWN, ids=lambda row: f"{row['id']}-{row['op']}")
def test_row(row: Row) -> None:
    answer: object
    try:
        answer = OPERATIONS[row["op"]](row)
    except LayoutAlgError as error:
        answer = error
    if row["id"] in CUTE_IS_WRONG:
        check_that_cute_is_wrong(row, answer)
    elif row["id"] in STOPS_SHORT:
        assert isinstance(answer, Layout) and size(answer) == STOPS_SHORT[row["id"]]
        original = layout(row["in"][0])
        assert [original(x) for x in table(answer)] == list(range(size(answer)))
        assert row["dyn"] and size(layout(row["out"])) < size(answer)
    elif "error" in row:
        check_against_the_definition(row, answer)
    else:
        assert agrees(answer, row["out"]), f"{row['op']}{row['in']}: CuTe {row['out']}, here {answer}"
        if row["op"] == "tile_to_shape_gmma":
            in_bytes = parse(row["out"].partition(" o ")[0])
            assert isinstance(in_bytes, Swizzle) and isinstance(answer, ComposedLayout)
            applied = [in_bytes(x) for x in table(answer.inner)]
            assert applied[: len(row["tab"])] == row["tab"], "CuTe applies the swizzle of bytes to elements"
        elif row.get("tab") is not None and isinstance(answer, (Layout, ComposedLayout)):
            assert table(answer)[: len(row["tab"])] == row["tab"], "tables hold the first offsets"


ATOMS = [row for row in ROWS if row["op"] == "smem_atom"]
INDEPENDENT = [row for row in ROWS if row["op"] == "smem_atom_pi"]


def test_shared_memory_atoms_are_read_in_elements() -> None:
    """What CuTe calls the position independent form of an atom is the atom's swizzle in elements.

    Called as it is, a CuTe atom applies its swizzle of BYTES to offsets in elements; the rows hold those.
    """
    forms = {str(row["params"]): row for row in INDEPENDENT}
    compared = 0
    for row in ATOMS:
        atom = layout(row["out"])
        assert isinstance(atom, ComposedLayout)
        in_bytes = parse(row["out"].partition(" o ")[0])
        assert isinstance(in_bytes, Swizzle)
        assert [in_bytes(x) for x in table(atom.inner)][: len(row["tab"])] == row["tab"]
        form = forms.get(str(row["params"]))
        if form is not None:
            compared += 1
            assert same_function(atom, layout(form["out"]))
    for row in INDEPENDENT:
        assert table(layout(row["out"]))[: len(row["tab"])] == row["tab"]
    assert len(ATOMS) == len(INDEPENDENT) == 38 and compared >= 8


@pytest.mark.parametrize("op", ["mma_traits", "copy_traits", "tiled_mma", "tiled_copy", "smem_atom_bits"])
def test_everything_cute_prints_is_read(op: str) -> None:
    for row in ROWS:
        if row["op"] == op and "out" in row and ":" in row["out"]:
            assert parse(str(parse(row["out"]))) == parse(row["out"])


def agrees(answer: object, text: str) -> bool:
    if not isinstance(answer, (Layout, ComposedLayout)):
        return str(answer).replace(" ", "") == text.replace("_", "")
    wanted = layout(text)
    return str(answer) == text.replace("_", "") or (
        same_function(answer, wanted)
        and (
            compatible(answer.shape, wanted.shape)
            or compatible(wanted.shape, answer.shape)
            or trimmed(answer, wanted)
        )
    )


def trimmed(answer: AnyLayout, wanted: AnyLayout) -> bool:
    """CuTe keeps run-time modes of extent 1, which it cannot see are 1: the shapes differ by those alone."""
    return isinstance(wanted.shape, tuple) and compatible(
        tuple(s for s in _modes_over_one(wanted.shape)), tuple(_modes_over_one(answer.shape))
    )


def _modes_over_one(shape: Any) -> list[Any]:
    parts = shape if isinstance(shape, tuple) else (shape,)
    inner = [tuple(_modes_over_one(p)) if isinstance(p, tuple) else p for p in parts]
    return [p[0] if isinstance(p, tuple) and len(p) == 1 else p for p in inner if p not in (1, ())]


def check_that_cute_is_wrong(row: Row, answer: object) -> None:
    why = CUTE_IS_WRONG[row["id"]]
    whole = layout(row["in"][0])
    if why == PAST_THE_END:
        length = size(answer) if isinstance(answer, Layout) else answer
        claimed = size(layout(row["out"])) if ":" in row["out"] else int(row["out"].strip("_"))
        shorter = min(size(layout(text)) for text in row["in"])
        assert isinstance(length, int) and length == shorter < claimed
        return
    cute = layout(row["out"])
    if why == CARRIES:
        assert isinstance(answer, DivisibilityError) and answer.witness is not None
        a, b = answer.lhs, answer.rhs
        assert isinstance(a, Layout) and isinstance(b, Layout)
        right = [a(b(c)) for c in range(size(b))]
        assert not is_layout_of(b.shape, right)
        assert [cute(i) for i in range(size(cute))] != right
    elif why == CUT:
        assert isinstance(cute, Layout) and isinstance(answer, Layout) and isinstance(whole, Layout)
        assert sorted(table(answer)) == sorted(table(whole)) == sorted(table(cute))
        first = cute[0] if row["op"] == "zipped_divide" else cute[0:2]
        assert size(first) > 1, "the tile has one element of mode 0 and none of mode 1 to take"
        assert to_text(whole[1].shape) in to_text(answer.shape)
    elif why == GROWS_TWICE:
        assert isinstance(answer, (Layout, ComposedLayout))
        factor = size(answer) // size(whole)
        assert sorted(table(answer)) == sorted(x * factor + j for x in table(whole) for j in range(factor))
        assert size(cute) > size(answer)
    else:
        assert why == DROPS_BITS and isinstance(answer, DivisibilityError) and answer.witness is not None
        n, c = answer.rhs, answer.witness
        assert isinstance(n, int) and isinstance(whole, ComposedLayout)
        assert whole(c) % n != (whole.offset + whole.inner(c)) % n, "a part that moves inside its element"


def check_against_the_definition(row: Row, answer: object) -> None:
    """CuTe has no answer: either nor is there one, or ours satisfies the definition."""
    if isinstance(answer, NotInjectiveError):
        whole = layout(row["in"][0])
        assert answer.a is not None and answer.b is not None and whole(answer.a) == whole(answer.b)
    elif isinstance(answer, DivisibilityError) and row["op"] in ("upcast", "downcast"):
        assert answer.rhs == row["params"]["N"]
    elif isinstance(answer, DivisibilityError) and row["op"] == "shape_div":
        extents, rest = flatten_tree(parse_int_tuple(row["in"][0])), parse_int_tuple(row["in"][1])
        assert isinstance(rest, int)
        while rest % extents[0] == 0:
            extents, rest = extents[1:], rest // extents[0]
        assert extents[0] % rest, "what is left of the divisor is part of a mode, and no whole part"
    elif isinstance(answer, DivisibilityError):
        a, b = answer.lhs, answer.rhs
        assert isinstance(a, Layout) and isinstance(b, Layout)
        assert not is_layout_of(b.shape, [a(b(c)) for c in range(size(b))])
    else:
        check_an_answer_that_cute_has_not(row, answer)


def check_an_answer_that_cute_has_not(row: Row, answer: object) -> None:
    whole = layout(row["in"][0])
    if row["op"] == "max_common_vector":
        assert answer == 1 and not any(whole(i) == 1 == layout(row["in"][1])(i) for i in range(size(whole)))
        return
    assert isinstance(answer, Layout)
    if row["op"] == "left_inverse":
        assert [answer(x) for x in table(whole)] == list(range(size(whole)))
    elif row["op"] == "complement":
        sums = sorted(x + y for x in table(whole) for y in table(answer))
        assert sums == list(range(len(sums))) and len(sums) >= max(table(whole)) + 1
    elif row["op"] == "downcast":
        n = row["params"]["N"]
        assert sorted(table(answer)) == sorted(x * n + j for x in table(whole) for j in range(n))
    else:
        assert row["op"].endswith("_divide") and "_" in row["in"][1].strip("()").split(",")
        assert sorted(table(answer)) == sorted(table(whole)), "tilers that keep a mode"
