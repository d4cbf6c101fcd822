"""Anything in every place of every operation and of the doors of the rooms: an answer or a LayoutAlgError.

Each is called with none to three operands out of ANYTHING, drawn anew for each by a fixed seed; an operation
that is exported tomorrow is called tomorrow.  NumPy integers are integers; bool and float are refused;
negative strides are exact or refused as NEGATIVE says.  What answers are worth is the business of others.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy
import pytest
import sympy

import layoutalg as la
from layoutalg import analysis, atoms, legality
from layoutalg.analysis import Access
from layoutalg.dtype import DTYPES
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    LayoutAlgError,
    ShapeError,
    UnsupportedError,
    shown,
)
from layoutalg.layout import MAX_DEPTH, ComposedLayout, Layout, ScaledBasis, Swizzle, make_identity_layout
from layoutalg.registers import converted
from tests.judges.brute import table
from tests.judges.exports import PUBLIC, algebra
from tests.sweeps import each

A, B = Layout((4, 8), (8, 1)), Layout(4, 2)
N = sympy.Symbol("n", positive=True, integer=True)
DRAWN = 120


def nested(levels: int) -> Any:
    """((((2))))"""
    value: Any = 2
    for _ in range(levels):
        value = (value,)
    return value


NEGATIVE_STRIDE = Layout((4, 2), (-2, 1))
STRANGE = (
    *(Layout(1), Layout((1, (1, 1))), Layout((1, 1), (5, 7)), Layout(()), Layout(((), 4), ((), 2))),
    *(Layout((4, 2), (0, 0)), Layout(nested(MAX_DEPTH - 1)), Layout((1 << 40, 1 << 20), (1 << 21, 1))),
    *(Layout((5, 7, 4), (3, 5, 2)), NEGATIVE_STRIDE, ComposedLayout(Swizzle(0, 0, 0), 3, A)),
    ComposedLayout(Layout((6, 10), (3, 1)), 1, ComposedLayout(Swizzle(1, 0, 2), 1, A)),
)
ANYTHING: tuple[Any, ...] = (
    *(5, 0, -1, True, 2.0, "x", None, [4], object(), numpy.int64(2), numpy.float32(2), numpy.True_),
    *((), (4, 8), (0, 4), (None, 1), (2.0, 4), nested(1000), ScaledBasis(1, 0), *STRANGE),
    *(make_identity_layout((4, 8)), Swizzle(1, 0, 2), ComposedLayout(Swizzle(1, 0, 2), 1, Layout((4, 8)))),
)
AT_DOORS: tuple[Any, ...] = (
    *(4, None, "x", "sm_90", "f16", -1, 2.5, True, [4], (4, 8), object(), b"x", {}, lambda x: x),
    *(Layout((8, 8)), Layout((8, 8), (N, 1)), make_identity_layout((4, 8)), NEGATIVE_STRIDE),
    *(Swizzle(1, 0, 2), ComposedLayout(Swizzle(1, 0, 2), 1, Layout((4, 8))), numpy.arange(4)),
    *(Access.of("ldmatrix.x4", Layout((64, 64), (64, 1)), "f16"), "ldmatrix.x4@row"),
    "SM80_16x8x16_F32F16F16F32_TN",
)
ODD: tuple[Any, ...] = (
    *((8,), (1, 1, 8), (nested(1000), numpy.int64(2)), ((2,), (3, 4)), [[1, 2], [3]], range(4), set(), int,
    ""),
    *(-5, numpy.array(3), numpy.zeros(0, int), numpy.zeros((2, 2)), 1j, float("nan"), 1 << 5000),
)  # fmt: skip
"""Lengths that nothing has, depths, arrays of any rank, and kinds of numbers that no place takes."""
VAST: tuple[Any, ...] = 1 << 40, 1 << 70, (1 << 40, 1 << 40), Layout((1 << 30, 1 << 30)), Layout(1 << 60)
"""What no memory holds, and what nobody waits for."""

OPERATIONS = [name for name in algebra() if name not in ("explain", "with_assumptions")]
"""Those two call any operation there is, and have their own tests."""

DOORS = {
    "analysis": "analyze sectors wavefronts analyze_access",
    "arch": "atom_layout board_rates decode_descriptor descriptor_text encode_descriptor find_arch "
    "find_instruction find_smem_atom find_swizzle_mode instruction_name tensor_map_arguments",
    "atoms": "copy_tensor find_copy_atom find_mma_atom make_tiled_copy make_tiled_copy_A "
    "make_tiled_copy_B make_tiled_copy_C make_tiled_copy_C_atom make_tiled_copy_D make_tiled_copy_S "
    "make_tiled_mma require_atom tile_copy Tensor",
    "draw": "access_picture layout_access_picture swizzle_picture as_dot as_svg as_text copy_picture "
    "layout_picture mma_picture tv_picture",
    "f2": "LinearLayout to_f2",
    "legality": "check_tma check_wgmma",
    "model": "balance_point mean_rate occupancy_of roofline_of tile_intensity",
    "notation": "parse parse_int_tuple parse_tiler",
    "registers": "convert_layout converted fragment holders linear_fragment reduction_of register_layout",
    "symbolic": "solve_conflict_free solve_sectors symbolic_access symbolic_cost",
    "synthesis": "certificate_words check_certificate synthesize",
    "testing": "check_bijective check_coalesced check_conflict_free check_family check_index_function "
    "check_same_function",
}


def calls_of(name: str, operands: tuple[Any, ...], drawn: int) -> list[tuple[Any, ...]]:
    """Calls of an operation: without operands, with each, and with two and three at random."""
    draw = random.Random(name)
    calls = [(), *((x,) for x in operands)]
    return calls + [tuple(draw.choices(operands, k=k)) for k in (2, 3) for _ in range(drawn)]


def outcome(call: Callable[..., Any], *operands: Any) -> Any:
    """The answer or the error; Python's own, where it refuses the number of operands, is None."""
    try:
        return call(*operands)
    except TypeError as error:
        number = any(w in str(error) for w in ("positional argument", "keyword-only", "keyword argument"))
        return None if number and not isinstance(error, LayoutAlgError) else error
    except Exception as error:  # noqa: BLE001
        return error


def surprises(asked: Iterable[tuple[str, Any]]) -> list[str]:
    """The outcomes that are neither an answer nor a LayoutAlgError with a text."""
    named = ((what, found) for what, found in asked if isinstance(found, Exception))
    return [f"{what}: {e!r}" for what, e in named if not (isinstance(e, LayoutAlgError) and str(e))]


@each("name", OPERATIONS, sample=40)
def test_anything_gets_an_answer_or_a_named_error(name: str) -> None:
    operation, calls = getattr(PUBLIC, name), calls_of(name, ANYTHING, DRAWN)
    found = [(f"call {n}", outcome(operation, *operands)) for n, operands in enumerate(calls)]
    assert not (wrong := surprises(found)), "\n".join(wrong)
    needed = [p for p in inspect.signature(operation).parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    assert len(needed) <= 3, "no call reaches it"


@pytest.mark.deep
def test_wrong_types_at_the_doors_are_refused_by_name() -> None:
    wrong = []
    for room, names in DOORS.items():
        face = importlib.import_module(f"layoutalg.{room}")
        for name in names.split():
            for operands in calls_of(name, AT_DOORS, 60):
                wrong += surprises(
                    [(f"{room}.{name}{operands}"[:300], outcome(getattr(face, name), *operands))]
                )
    assert not wrong, "\n".join(wrong)


# --- layouts and numbers in every operation --------------------------------------------------------------

ON_A_LAYOUT = [
    *(f"{name}(a)" for name in (
        *("size", "rank", "depth", "cosize", "coalesce", "coalesce_x", "filter", "filter_zeros"),
        *("complement", "right_inverse", "left_inverse", "nullspace", "max_alignment"),
        *("make_layout_like", "flatten", "sort", "append", "prepend", "normal_form", "find_collision"),
        *("is_injective", "is_surjective", "is_bijective", "image_size", "is_contiguous"),
        *("footprint", "gaps", "aliasing", "extremes", "cycles", "order", "make_layout"),
    )),
    *("composition(a, B)", "composition(A, a)", "logical_divide(a, 2)", "logical_divide(A, a)"),
    *(f"{form}_divide(a, B)" for form in ("zipped", "tiled", "flat")),
    *(f"{form}_product(a, B)" for form in ("logical", "zipped", "tiled", "flat", "blocked", "raked")),
    *("logical_product(A, a)", "blocked_product(B, a)", "tile_to_shape(a, (64, 64))"),
    *("max_common_layout(a, A)", "max_common_vector(A, a)", "upcast(a, 2)", "downcast(a, 2)"),
    *("recast_layout(a, 16, 32)", "group(a, 0, 1)", "select(a, 0)", "replace(a, 0, B)", "slice_(None, a)"),
    *("dice(0, a)", "slice_and_offset(0, a)", "domain_offset(0, a)", "local_tile(a, 2, 0)"),
    *("local_partition(a, Layout(2), 0)", "local_partition(A, a, 0)", "same_function(a, a)"),
    *("find_difference(a, a)", "find_offset_bit(a, 1)", "find_coordinate(a, 3)", "find_overlap(a, A)"),
    "overlap(A, a)",
]  # fmt: skip
"""Operations on one layout, the others being harmless."""

ON_A_NUMBER = [
    *("Layout(a)", "Layout((a, 4))", "Layout((2, 4), (a, 1))", "A(a)", "A(0, a)", "complement(B, a)"),
    *("composition(A, a)", "logical_divide(A, a)", "zipped_divide(A, (a, a))", "tiled_divide(A, a)"),
    *("flat_divide(A, a)", "logical_product(A, a)", "flat_product(A, a)", "tile_to_shape(B, a)"),
    *("make_ordered_layout((a, 4), (1, 0))", "upcast(A, a)", "downcast(A, a)", "recast_layout(A, a, 4)"),
    *("coalesce(A, (a, a))", "append(A, rank=a)", "group(Layout((2, 2, 2)), 0, a)"),
    *("select(Layout((2, 2, 2)), a)", "replace(Layout((2, 2, 2)), a, B)", "slice_((a, None), A)"),
    *("dice((a, None), A)", "domain_offset((a, 0), A)", "local_tile(A, (a, 2), (0, 0))"),
    *("local_partition(A, Layout((2, 4)), a)", "ceil_div(7, a)", "shape_div((4, 8), a)"),
    *("crd2crd(a, (4, 8), 32)", "find_coordinate(A, a)", "Swizzle(a, a, a)"),
    "ComposedLayout(Swizzle(1, 0, 1), a, A)",
]
ON_A_TREE = [
    *("congruent(a, a)", "weakly_congruent(a, a)", "compatible(a, a)", "product(a)", "flatten(a)"),
    *("unflatten((2,), a)", "crd2idx(a, a)", "idx2crd(0, a)", "slice_(a, Layout(2))", "coalesce(A, a)"),
]
NEGATIVE = {
    *("complement(a)", "left_inverse(a)", "composition(A, a)", "logical_divide(A, a)", "cycles(a)"),
    *(f"{form}_product(a, B)" for form in ("logical", "zipped", "tiled", "flat", "blocked", "raked")),
    *("logical_product(A, a)", "blocked_product(B, a)", "tile_to_shape(a, (64, 64))", "order(a)"),
}  # fmt: skip
"""What refuses a negative stride; all others are exact."""


def asked(call: str, value: Any) -> Any:
    """The outcome of a call that is written above."""
    names = vars(PUBLIC) | BESIDE | {"A": A, "B": B, "a": value}
    return outcome(lambda: eval(call, names))  # noqa: S307


def test_strange_layouts_numbers_and_trees_get_an_answer_or_a_named_error() -> None:
    found = [(f"{call} of {x}", asked(call, x)) for call in ON_A_LAYOUT for x in STRANGE]
    numbers = (0, -1, (), nested(1000), (nested(1000), 4), None)
    found += [(f"{call} of {i}", asked(call, x)) for call in ON_A_NUMBER for i, x in enumerate(numbers)]
    found += [(call, asked(call, nested(1000))) for call in ON_A_TREE]
    assert not (wrong := surprises(found)), "\n".join(wrong)


RIGHT = [
    "canonical_layout('128B', 'K', 'bf16', (64, 16), lbo_bytes=16, sbo_bytes=1024)",
    "check_memory('cp.async.cg.16', ROW, 'f16', tv=None, alignment_bytes=16, source=ROW, source_bytes=16)",
    "check_tma(ROW, (32, 32), 'bf16', mode='64B', arch='sm_90')", "nearest_legal(check_memory, {})",
    "check_wgmma(ROW, 'bf16', 'B', n=64, major='K', base_bytes=0)", "check_wgmma(ROW, 'bf16', 'A', n=None)",
    "check_wgmma_instruction('f16', 'f16', 'f32', 128, a_major='K', b_major='MN', a_source='shared')",
    "recognize(ROW, 'K', 'f16')", "find_copy_atom('SM75_U32x4_LDSM_N')",
    "find_mma_atom('SM80_16x8x16_F32F16F16F32_TN')",
    "make_tiled_copy('UniversalCopy<uint128_t>', 'f16', Layout((4, 8)), Layout((1, 8)))",
    "make_tiled_copy_A('SM75_U32x4_LDSM_N', MMA, 'f16')", "MMA.tidfrg('C', ROW)",
    "make_tiled_mma('SM80_16x8x16_F32F16F16F32_TN', (2, 2, 1), (32, 32, 16))",
    "tmem_load_tv(128, 8, '16x256b')",
    "collect(Layout((2, 2)), (2, 2), ONES)", "hold(Layout((2, 2)), ONES)", "Tensor(ONES[0], Layout(2), 0)",
    "analyze(ROW, 'ldmatrix.x4@row', 'f16', arch='sm_90')", "analyze_access(ROW, ACCESS, 'sm_90', 'auto')",
    "wavefronts('ld.shared.b32', [0] * 32, 'sm_90')", "sectors('ld.global.b32', [0] * 32, 'sm_90')",
    "reuse_of(ROW, [ACCESS], 'sm_90', 'auto')", "dram_of(ROW, [ACCESS])", "TmaAccess((64, 64), 128)",
    "Access('ld.shared.b32', Layout((4, 2), (2, 1)), DTYPES['f32'], 0)",
    "Access.of('ld.shared.b32@row', ROW, 'f32', 'sm_90')",
    "Guard((None, 7), 32, range(2))", "Layout((4, 8), (8, 1))", "ScaledBasis(1, 0)", "Swizzle(3, 3, 3)",
    "A(3, 4)", "A((3, 4))", "Layout((4, 2), (0, 0))(1, 1)", "Layout((4, (2, 8)))(3, (1, 2))",
    "Swizzle(1, 0, 1)(3)", "make_identity_layout((4, 8))(1, 2)",
    "ComposedLayout(Swizzle(1, 0, 1), 0, A)(3, 4)",
    "local_tile(A, (2, 4, 8), (0, 1, 0), (1, 1, None))", "local_partition(A, Layout((2, 4)), 3)",
    "rotated_layout((8, 12), step=4, rows_per_step=2)", "tile_to_shape(Layout((2, 2)), (4, 8), (1, 0))",
]  # fmt: skip
"""Calls that are answered, of what takes more operands than are drawn above, or is no operation."""

BESIDE = {
    **{name: getattr(face, name) for face in (analysis, atoms, legality) for name in face.__all__},
    "MMA": atoms.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1)), "ROW": Layout((64, 64), (64, 1)),
    "ONES": numpy.ones((2, 2)), "DTYPES": DTYPES,
    "ACCESS": Access.of("ld.global.b32@row", Layout((64, 64), (64, 1)), "f32"),
}  # fmt: skip


def with_another(call: str) -> list[str]:
    """The call with `a` in the place of each of its arguments in turn."""
    found = ast.parse(call, mode="eval").body
    assert isinstance(found, ast.Call)
    places = [*found.args, *(option.value for option in found.keywords)]
    return [f"{call[: x.col_offset]}a{call[x.end_col_offset :]}" for x in places]


@each("call", RIGHT, sample=len(RIGHT) // 2)
def test_another_argument_of_a_right_call_gets_an_answer_or_a_named_error(call: str) -> None:
    assert "nearest_legal" in call or not isinstance(asked(call, None), Exception)
    few = (*ANYTHING, *AT_DOORS, *ODD)
    values = [*random.Random(call).sample(few, 24), *ODD[:4], *VAST]
    found = [(f"{text} of {shown(x)}", asked(text, x)) for text in with_another(call) for x in values]
    assert not (wrong := surprises(found)), "\n".join(wrong)


def test_negative_strides_are_exact_or_refused_as_documented() -> None:
    assert {c for c in ON_A_LAYOUT if isinstance(asked(c, NEGATIVE_STRIDE), Exception)} == NEGATIVE


def test_what_is_no_integer_is_refused_and_numpy_integers_are_integers() -> None:
    none: tuple[Any, ...] = True, numpy.True_, 2.0, numpy.float32(2), "2"
    wrong = [
        f"{c} of {x!r}" for c in ON_A_NUMBER for x in none if not isinstance(asked(c, x), ArgumentTypeError)
    ]

    def told(found: Any) -> tuple[Any, str]:
        return (type(found), "") if isinstance(found, LayoutAlgError) else (found, str(found))

    kinds: tuple[Any, ...] = numpy.int64, numpy.uint8
    wrong += [f"{c} of {kind}({n})" for c in ON_A_NUMBER for n in (2, 1) for kind in kinds
              if told(asked(c, kind(n))) != told(asked(c, n))]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_results_that_nest_without_end_are_refused() -> None:
    layout = A
    with pytest.raises(ShapeError, match="nested deeper"):
        for _ in range(200):
            layout = la.group(layout, 0, 1)
    assert table(layout) == table(A)


def test_values_of_other_places_are_refused() -> None:
    """As many warps, lanes and registers as the source has, no more and no fewer."""
    held = la.LinearLayout({"register": [1], "lane": [2]}, {"n": 4})
    for shape in ((3,), (2, 2, 2), (1, 2, 1), (1, 4, 2), ()):
        with pytest.raises(ShapeError, match=r"of \(1, 2, 2\)"):
            converted(held, held, numpy.zeros(shape))
    with pytest.raises(ArgumentTypeError, match="converted of"):
        converted(held, held, [1, 2])  # type: ignore[arg-type]
    assert converted(held, held, numpy.arange(4).reshape(1, 2, 2)).tolist() == [[[0, 1], [2, 3]]]


# --- refusals --------------------------------------------------------------------------------------------

ON_LAYOUTS = [
    *("size", "rank", "depth", "cosize", "coalesce", "filter", "complement", "right_inverse", "left_inverse"),
    *("modes", "concat", "append", "sort", "is_injective", "image_size", "gaps", "cycles", "order", "to_f2"),
]


@each("name", ON_LAYOUTS)
@each("bad", [5, "x", None, (4, 8), Swizzle(1, 0, 1)], ids=str)
def test_what_is_no_layout_is_refused_by_the_operation_and_its_type(name: str, bad: Any) -> None:
    if name in ("size", "rank", "depth") and bad in (5, (4, 8)):
        return  # a shape is measured as well
    with pytest.raises(ArgumentTypeError, match=rf"{name} of .*its type is {type(bad).__name__}; a .*layout"):
        getattr(PUBLIC, name)(bad)


BY_ANOTHER_NAME = {
    "Layout", "Swizzle", "ComposedLayout", "LinearLayout",  # the part that is wrong is named
    "parse", "parse_int_tuple", "parse_tiler", "convert", "evaluate",  # the text is
    "rotated_layout",  # its shape is
    "code", "identify",  # the function, expression or table is
    "extremes", "find_collision",  # "cosize, extremes of", "is_injective, find_collision of"
    "append", "prepend",  # a sum
    "find_overlap",  # "do ... overlap?"
}  # fmt: skip
"""Operations whose refusals begin otherwise."""


def test_a_refusal_begins_with_the_operation_that_was_called() -> None:
    """Whichever part of it refuses; the inner reason is the cause."""
    wrong = []
    for name in sorted(set(OPERATIONS) - BY_ANOTHER_NAME):
        found = [outcome(getattr(PUBLIC, name), *operands) for operands in calls_of(name, ANYTHING, DRAWN)]
        wrong += [f"{e}" for e in found if isinstance(e, LayoutAlgError) and not str(e).startswith(name)]
    assert not wrong, "\n".join(wrong)


L, ROWS, TORN = Layout((4, 8), (16, 1)), Layout((8, 8), (8, 1)), Layout((2, 2), (3, 2))
REFUSED: dict[str, tuple[tuple[Any, ...], type[LayoutAlgError], str]] = {
    **{f"{form}_divide": ((L, 3), DivisibilityError, "composition(")
       for form in ("logical", "tiled", "flat")},
    **{f"{form}_product": ((TORN, 2), DivisibilityError, "complement of")
       for form in ("zipped", "tiled", "flat")},
    **{f"{form}_product": ((TORN, ROWS), DivisibilityError, "complement of")
       for form in ("blocked", "raked")},
    "zipped_divide": ((ROWS, (TORN, 8)), DivisibilityError, "complement of"),
    "logical_product": ((Layout(4, 0), Layout((2, 2), (-1, 1))), ShapeError, "composition("),
    "tile_to_shape": ((TORN, (4, 4)), DivisibilityError, "complement of"),
    "local_tile": ((L, 3, 0), DivisibilityError, "composition("),
    "local_partition": ((L, Layout(3), 0), DivisibilityError, "composition("),
    "max_common_vector": ((L, make_identity_layout((4, 8))), UnsupportedError, ""),
    "recast_layout": ((Layout(8, 3), 16, 32), DivisibilityError, "upcast("),
}  # fmt: skip


@each("name", REFUSED)
def test_the_reason_of_a_refusal_is_its_cause(name: str) -> None:
    """A composition that has no layout is refused by the divide that asked for it, with its witness."""
    operands, kind, reason = REFUSED[name]
    with pytest.raises(kind) as refused:
        getattr(PUBLIC, name)(*operands)
    error = refused.value
    assert str(error) == error.message and error.message.startswith(name), name
    inner = error.__cause__
    while inner is not None and inner.__cause__ is not None:
        inner = inner.__cause__
    if reason:
        assert type(inner) is type(error) and str(inner).startswith(reason) and str(inner) in str(error)
        assert getattr(inner, "witness", None) == getattr(error, "witness", None)
        assert str(error).count(reason) == 1
    assert type(pickle.loads(pickle.dumps(error))) is kind
