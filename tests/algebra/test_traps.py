"""Inputs on which other implementations are silently wrong, crash or hang: one named test each.

PC is pycute (nvidia-cutlass 4.2.0), TL tensor-layouts 0.3.2, DSL nvidia-cutlass-dsl 4.8.1, C++ the CuTe
headers of August 2026, TN Triton's LinearLayout.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layoutalg import f2
from layoutalg.algebra import complement, downcast, left_inverse, logical_product, right_inverse, upcast
from layoutalg.atoms import TiledMMA, find_copy_atom, find_mma_atom, make_tiled_mma
from layoutalg.compose import composition
from layoutalg.decide import cosize, image_size
from layoutalg.errors import (
    DivisibilityError,
    LayoutAlgError,
    NotInjectiveError,
    NotLinearError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.f2 import LinearLayout
from layoutalg.layout import ComposedLayout, Layout, Swizzle, coalesce, size, swizzle_inverse
from layoutalg.notation import parse
from tests.judges.brute import is_layout_of
from tests.sweeps import each


def layout(text: str) -> Layout:
    value = parse(text)
    assert isinstance(value, Layout)
    return value


@each(
    ("a", "b", "who"),
    [
        ("(6,2):(1,7)", "(3,2):(2,3)", "PC, TL, DSL and C++ give (3,2):(2,3), whose value at 5 is 7, not 8"),
        ("(2,2):(4,0)", "(2,2):(1,1)", "all give (2,2):(4,4), 8 at 3 instead of 0"),
        ("(4,6,8):(2,3,5)", "6:3", "C++ is wrong"),
        ("(4,2):(1,16)", "6:1", "PC gives 4:1, of size 4"),
        ("(2,5):(8,4)", "(2,3,2):(1,1,6)", "PC gives a layout of size 8"),
        ("(6,4):(4,1)", "3:4", "C++ is wrong for run-time extents"),
    ],
)
def test_composition_that_carries(a: str, b: str, who: str) -> None:
    left, right = layout(a), layout(b)
    values = [left(right(c)) for c in range(size(right))]
    assert not is_layout_of(right.shape, values), who
    with pytest.raises(DivisibilityError) as info:
        composition(left, right)
    assert info.value.witness is not None


BIG = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 30, 1 << 30), ((1 << 30) + 8, 1)))
DEAD = ComposedLayout(Swizzle(3, 1, 3), 0, Layout((2, 2)))


@each(
    ("answer", "wanted", "who"),
    [
        (lambda: composition(layout("4:3"), layout("8:1")), "8:3", "past the domain"),
        (lambda: coalesce(layout("((2,2),(2,2)):((1,2),(4,8))"), (1, 1)), "(4,4):(1,4)", "TL: (1,1):(0,0)"),
        (lambda: coalesce(layout("(2,2,4):(2,1,4)"), (4, 4)), "(2,2,4):(2,1,4)", "TL changes the function"),
        (lambda: complement(layout("3:2"), 10), "(2,2):(1,6)", "it rounds up to cover"),
        (lambda: left_inverse(layout("(4,8):(1,5)")), "(5,8):(1,4)", "PC: 4:1"),
        (lambda: right_inverse(layout("(3,5):(2,7)")), "1:0", "PC: (2,3):(15,1), TL: (2,15):(0,1)"),
        (lambda: right_inverse(layout("(4,8):(0,1)")), "8:4", "DSL and C++ refuse"),
        (lambda: logical_product(layout("(2,2):(4,1)"), 6), "((2,2),(2,3)):((4,1),(2,8))", "PC divides"),
        (lambda: cosize(layout("8:-1")), "8", "PC: -6"),
        (lambda: cosize(ComposedLayout(Swizzle(2, 0, 2), 16, Layout(5))), "22", "C++ ignores both"),
        (lambda: cosize(BIG) >= 1 << 60, "True", "TL enumerates: 7.4 s at 2^20 elements"),
        (lambda: upcast(DEAD, 8), "Sw<1,0,3> o 0 o (1,1):(0,0)", "no offset has the bit that is dropped"),
        (lambda: downcast(layout("(1,2,8,2):(1,8,1,16)"), 8), "(1,2,64,2):(0,64,1,128)",
         "C++ grows every mode of stride 1, and elements repeat"),
        (lambda: composition(Swizzle(2, 2, 4), ComposedLayout(Swizzle(2, 0, 3), 0, Layout(256))),
         "Sw<2,2,4> o Sw<2,0,3> o 0 o 256:1", "shifts differ"),
    ],
)  # fmt: skip
def test_what_others_answer_wrongly(answer: Callable[[], object], wanted: str, who: str) -> None:
    assert str(answer()) == wanted, who


@each(
    ("ask", "error", "witness", "who"),
    [
        (lambda: composition(layout("(4,2):(2,1)"), layout("4:-1")), ShapeError, 3, "PC: 4:0"),
        (lambda: complement(layout("(4,4):(1,2)"), 32), NotInjectiveError, None, "PC, DSL: size 0; TL: 4:8"),
        (lambda: complement(layout("(5,2):(9,10)"), 48), DivisibilityError, 10, "TL reaches 28 twice"),
        (lambda: complement(layout("4:-1"), 8), UnsupportedError, None, "DSL: nonsense"),
        (lambda: f2.to_f2(layout("(4,4):(1,3)")), NotLinearError, None, "TL: wrong on 9 of 16 points"),
        (lambda: LinearLayout.from_layout(Layout(6)), NotLinearError, None, "TN: aborts the process"),
        (lambda: LinearLayout({"lane": [1, 2]}, {"offset": 6}), ShapeError, None, "TN: aborts the process"),
        (lambda: upcast(layout("8:3"), 2), DivisibilityError, 1, "TL and DSL: 8:2"),
        (lambda: upcast(ComposedLayout(Swizzle(3, 0, 3), 0, Layout(32)), 4), DivisibilityError, 8,
         "C++ drops the bit"),
        (lambda: Layout(((4, 8), (32, 2)), ((512, 1), ((16, 8),))), ShapeError, None, "C++ 4.2: a table"),
    ],
)  # fmt: skip
def test_what_others_do_not_refuse(
    ask: Callable[[], object], error: type[LayoutAlgError], witness: int | None, who: str
) -> None:
    with pytest.raises(error) as info:
        ask()
    assert getattr(info.value, "witness", None) == witness, who


def test_a_swizzle_of_no_bits() -> None:
    """PC: Swizzle(0,4,0)(x) recurses for ever."""
    assert [Swizzle(0, 4, 0)(x) for x in range(64)] == list(range(64))


def test_a_swizzle_that_overlaps_itself() -> None:
    """Sw<3,0,2>: bijective, no involution; DSL inverts it to the identity without a word."""
    swizzle = Swizzle(3, 0, 2)
    assert not swizzle.is_involution
    first, second = swizzle_inverse(swizzle)
    assert [first(second(swizzle(x))) for x in range(64)] == list(range(64))
    assert any(swizzle(swizzle(x)) != x for x in range(64))


# --- atoms -----------------------------------------------------------------------------------------------


def test_b_of_m16n8k32_on_nibbles() -> None:
    """TL and C++ 4.2 have the stride 32: 160 of the 256 elements."""
    theirs = Layout(((4, 8), (8,)), ((32, 1), (8,)))
    assert image_size(theirs) == 160
    ours = find_mma_atom("SM80_16x8x32_S32S4S4S32_TN").b_tv
    assert ours == Layout(((4, 8), (8,)), ((64, 1), (8,))) and image_size(ours) == 256


def test_a_of_m16n8k128_on_bits() -> None:
    """C++ 4.2 has the value shape (32,2) with the stride ((16,8)), which is no layout."""
    assert str(find_mma_atom("SM80_16x8x128_S32U1U1S32_TN_ANDPOPC").a_tv) == "((4,8),(32,2)):((512,1),(16,8))"


def test_movmatrix_transposes() -> None:
    """C++: the traits of source and destination are the same, which moves nothing."""
    atom = find_copy_atom("SM75_U32x1_MOVM_T")
    assert atom.src_tv != atom.dst_tv and str(atom.dst_tv) == "((4,8),(16,2)):((256,16),(1,128))"


def test_dp2a_multiplies_halves_with_bytes() -> None:
    """C++: int16_t on both sides."""
    assert [t.name for t in find_mma_atom("SM61_DP2A").dtypes] == ["s32", "s16", "s8", "s32"]


def test_atoms_that_overhang_their_tile() -> None:
    """C++: 4 atoms of 16 rows over a tile of 32 are accepted, and C reaches index 1055 of 1024 elements."""
    asked = find_mma_atom("SM80_16x8x16_F32F16F16F32_TN"), Layout((4, 1, 1)), (32, 32, 16)
    assert cosize(TiledMMA(*asked).get_layoutC_TV()) == 1056
    with pytest.raises(ShapeError, match="along M the tile has 32 elements, and 4 atoms cover 64"):
        make_tiled_mma(*asked)


def test_atoms_along_k_share_c() -> None:
    """C++: the second atom along K gets elements past the tile, ((4,8,2),...):((32,1,128),...)."""
    layout = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (1, 1, 2)).get_layoutC_TV()
    assert str(layout) == "((4,8,2),((2,2),(1,1))):((32,1,0),((16,8),(0,0)))" and cosize(layout) == 128
