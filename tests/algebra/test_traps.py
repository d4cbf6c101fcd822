"""Inputs on which other implementations are silently wrong, crash or hang: one named test each.

PC is pycute (nvidia-cutlass 4.2.0), TL tensor-layouts 0.3.2, DSL nvidia-cutlass-dsl 4.8.1, C++ the CuTe
headers of August 2026, TN Triton's LinearLayout.
"""

from __future__ import annotations

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
from layoutalg.layout import ComposedLayout, IntTuple, Layout, Swizzle, coalesce, size, swizzle_inverse
from layoutalg.notation import parse
from tests.judges.brute import is_layout_of, table
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


def test_composition_with_a_negative_index() -> None:
    """PC: (4,2):(2,1) o 4:-1 -> 4:0."""
    with pytest.raises(ShapeError, match="coordinate 3 of the second layout has the offset -3") as info:
        composition(layout("(4,2):(2,1)"), layout("4:-1"))
    assert info.value.witness == 3


def test_composition_past_the_domain() -> None:
    assert composition(layout("4:3"), layout("8:1")) == layout("8:3")


@pytest.mark.parametrize(
    ("text", "profile", "wanted"),
    [
        ("((2,2),(2,2)):((1,2),(4,8))", (1, 1), "(4,4):(1,4)"),  # TL: (1,1):(0,0)
        ("(2,2,4):(2,1,4)", (4, 4), "(2,2,4):(2,1,4)"),  # TL changes the function
    ],
)
def test_coalesce_by_profile(text: str, profile: IntTuple, wanted: str) -> None:
    assert coalesce(layout(text), profile) == layout(wanted)
    assert table(layout(wanted)) == table(layout(text))


@pytest.mark.parametrize(
    ("text", "target", "error"),
    [
        ("(4,4):(1,2)", 32, NotInjectiveError),  # PC and DSL return size 0, TL 4:8
        ("(5,2):(9,10)", 48, DivisibilityError),  # TL: (9,3):(1,20), which reaches 28 twice
        ("4:-1", 8, UnsupportedError),  # DSL: nonsense
    ],
)
def test_complement_where_there_is_none(text: str, target: int, error: type[LayoutAlgError]) -> None:
    with pytest.raises(error):
        complement(layout(text), target)


def test_complement_rounds_up_to_cover() -> None:
    rest = complement(layout("3:2"), 10)
    assert str(rest) == "(2,2):(1,6)"
    assert sorted(x + y for x in table(layout("3:2")) for y in table(rest)) == list(range(12))


def test_left_inverse_with_a_gap() -> None:
    """PC: (4,8):(1,5) -> 4:1."""
    padded = layout("(4,8):(1,5)")
    assert str(left_inverse(padded)) == "(5,8):(1,4)"
    assert [left_inverse(padded)(x) for x in table(padded)] == list(range(32))


def test_right_inverse_without_a_first_mode() -> None:
    """PC gives (2,3):(15,1) and TL (2,15):(0,1) for (3,5):(2,7); DSL and C++ refuse."""
    assert str(right_inverse(layout("(3,5):(2,7)"))) == "1:0"
    assert str(right_inverse(layout("(4,8):(0,1)"))) == "8:4"


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


def test_product_with_an_extent() -> None:
    """PC: logical_product(L, int) divides."""
    assert str(logical_product(layout("(2,2):(4,1)"), 6)) == "((2,2),(2,3)):((4,1),(2,8))"


def test_two_swizzles_of_different_shifts_compose() -> None:
    inner = ComposedLayout(Swizzle(2, 0, 3), 0, Layout(256))
    both = composition(Swizzle(2, 2, 4), inner)
    assert table(both) == [Swizzle(2, 2, 4)(x) for x in table(inner)]
    assert str(both) == "Sw<2,2,4> o Sw<2,0,3> o 0 o 256:1"


def test_the_matrix_of_a_layout_that_carries() -> None:
    """TL: to_F2_matrix((4,4):(1,3)) is wrong on 9 of 16 points."""
    with pytest.raises(NotLinearError, match="carries"):
        f2.to_f2(layout("(4,4):(1,3)"))


def test_a_linear_layout_of_six() -> None:
    """TN: identity_1d(6) aborts the process."""
    with pytest.raises(NotLinearError, match="extent 6 is not a power of two"):
        LinearLayout.from_layout(Layout(6))
    with pytest.raises(ShapeError, match="a power of two is needed"):
        LinearLayout({"lane": [1, 2]}, {"offset": 6})


def test_cosize_of_a_negative_stride() -> None:
    """PC: cosize(8:-1) = -6."""
    assert cosize(layout("8:-1")) == 8


def test_cosize_under_a_swizzle_and_an_offset() -> None:
    """C++ ignores both."""
    tile = ComposedLayout(Swizzle(2, 0, 2), 16, Layout(5))
    assert cosize(tile) == max(table(tile)) + 1 == 22


def test_cosize_of_a_large_swizzle_takes_no_time() -> None:
    """TL enumerates: 7.4 s at 2^20 elements."""
    big = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 30, 1 << 30), ((1 << 30) + 8, 1)))
    assert cosize(big) >= 1 << 60


def test_upcast_that_is_not_exact() -> None:
    """TL and DSL: upcast(8:3, 2) -> 8:2."""
    with pytest.raises(DivisibilityError) as info:
        upcast(layout("8:3"), 2)
    assert info.value.witness == 1


def test_upcast_that_would_drop_a_swizzle_bit() -> None:
    """C++ drops it; here only where no offset has it."""
    with pytest.raises(DivisibilityError, match="moves parts of an element"):
        upcast(ComposedLayout(Swizzle(3, 0, 3), 0, Layout(32)), 4)
    dead = ComposedLayout(Swizzle(3, 1, 3), 0, Layout((2, 2)))
    assert str(upcast(dead, 8)) == "Sw<1,0,3> o 0 o (1,1):(0,0)"


def test_downcast_grows_one_mode() -> None:
    """C++ grows every mode of stride 1, and elements repeat."""
    assert str(downcast(layout("(1,2,8,2):(1,8,1,16)"), 8)) == "(1,2,64,2):(0,64,1,128)"


# --- atoms -----------------------------------------------------------------------------------------------


def test_b_of_m16n8k32_on_nibbles() -> None:
    """TL and C++ 4.2 have the stride 32: 160 of the 256 elements."""
    theirs = Layout(((4, 8), (8,)), ((32, 1), (8,)))
    assert image_size(theirs) == 160
    ours = find_mma_atom("SM80_16x8x32_S32S4S4S32_TN").b_tv
    assert ours == Layout(((4, 8), (8,)), ((64, 1), (8,))) and image_size(ours) == 256


def test_a_of_m16n8k128_on_bits() -> None:
    """C++ 4.2 has the value shape (32,2) with the stride ((16,8)), which is no layout."""
    with pytest.raises(ShapeError):
        Layout(((4, 8), (32, 2)), ((512, 1), ((16, 8),)))
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
