"""Wrong types at the doors of the rooms: ints, None, texts, shapes, layouts of coordinates and of symbols.

Each function is called with them in every place; it answers or raises a leaf of LayoutAlgError.  What the
answers are worth is the business of the other tests; the algebra at the root is in test_bad_operands.
"""

from __future__ import annotations

import importlib
import random
from typing import Any

import numpy
import pytest
import sympy

from layoutalg.analysis import Access
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import ComposedLayout, Layout, Swizzle, make_identity_layout

DRAWN = 60
N = sympy.Symbol("n", positive=True, integer=True)

ANYTHING: tuple[Any, ...] = (
    *(4, None, "x", "sm_90", "f16", -1, 2.5, True, [4], (4, 8), object(), b"x", {}, lambda x: x),
    *(Layout((8, 8)), Layout((8, 8), (N, 1)), make_identity_layout((4, 8)), Layout((4, 2), (-2, 1))),
    *(Swizzle(1, 0, 2), ComposedLayout(Swizzle(1, 0, 2), 1, Layout((4, 8))), numpy.arange(4)),
    *(Access.of("ldmatrix.x4", Layout((64, 64), (64, 1)), "f16"), "ldmatrix.x4@row"),
    "SM80_16x8x16_F32F16F16F32_TN",
)

DOORS = {
    "analysis": "analyze sectors wavefronts analyze_access",
    "arch": "atom_layout board_rates decode_descriptor descriptor_text encode_descriptor find_arch "
    "find_instruction find_smem_atom find_swizzle_mode instruction_name tensor_map_arguments tensor_map_text",
    "atoms": "copy_tensor find_copy_atom find_mma_atom make_fragment_like make_tiled_copy make_tiled_copy_A "
    "make_tiled_copy_B make_tiled_copy_C make_tiled_copy_C_atom make_tiled_copy_D make_tiled_copy_S "
    "make_tiled_mma require_atom tile_copy Tensor",
    "draw": "access_picture layout_access_picture swizzle_picture as_dot as_svg as_text copy_picture "
    "layout_picture mma_picture render tv_picture",
    "f2": "LinearLayout to_f2",
    "legality": "check_tma check_wgmma",
    "model": "balance_point mean_rate occupancy_of roofline_of tile_intensity",
    "notation": "parse parse_int_tuple parse_tiler",
    "registers": "convert_layout converted fragment holders linear_fragment reduction_of register_layout",
    "symbolic": "solve_conflict_free solve_sectors symbolic_access symbolic_cost",
    "synthesis": "certificate_words check_certificate ruled_out synthesize",
    "testing": "check_bijective check_coalesced check_conflict_free check_family check_index_function "
    "check_same_function",
}


def _wrong_number(error: TypeError) -> bool:
    """True when Python itself refused the number of operands."""
    return any(words in str(error) for words in ("positional argument", "keyword-only", "keyword argument"))


def test_wrong_types_are_refused_by_name() -> None:
    wrong = []
    for room, names in DOORS.items():
        face = importlib.import_module(f"layoutalg.{room}")
        for name in names.split():
            door = getattr(face, name, None)
            if door is None:
                wrong.append(f"{room}.{name} is not there")
                continue
            draw = random.Random(name)
            calls: list[tuple[Any, ...]] = [(x,) for x in ANYTHING]
            calls += [tuple(draw.choices(ANYTHING, k=k)) for k in (2, 3) for _ in range(DRAWN)]
            for operands in calls:
                try:
                    door(*operands)
                except LayoutAlgError as error:
                    assert str(error)
                except Exception as error:  # noqa: BLE001 - whatever else it is, it has no name
                    if not isinstance(error, TypeError) or not _wrong_number(error):
                        wrong.append(f"{room}.{name}{operands}: {type(error).__name__}: {error}")
                        break
    assert not wrong, "\n".join(wrong)


def test_values_of_other_places_are_refused() -> None:
    """As many warps, lanes and registers as the source has, no more and no fewer."""
    from layoutalg.registers import converted

    held = LinearLayout({"register": [1], "lane": [2]}, {"n": 4})
    for shape in ((3,), (2, 2, 2), (1, 2, 1), (1, 4, 2), ()):
        with pytest.raises(ShapeError, match=r"the source has \(warp, lane, register\) of \(1, 2, 2\)"):
            converted(held, held, numpy.zeros(shape))
    with pytest.raises(ArgumentTypeError, match="converted of"):
        converted(held, held, [1, 2])  # type: ignore[arg-type]
    assert converted(held, held, numpy.arange(4).reshape(1, 2, 2)).tolist() == [[[0, 1], [2, 3]]]
