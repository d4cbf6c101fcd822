"""Canonical layouts against what a descriptor addresses by definition, and found again in any spelling."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import (
    HOPPER_MODES,
    SMEM_ATOMS,
    SWIZZLE_MODES,
    Major,
    SmemAtom,
    SmemDescriptor,
    atom_layout,
)
from layoutalg.decide import same_function
from layoutalg.dtype import DTYPES, dtype
from layoutalg.errors import NotLinearError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.f2 import LinearLayout, to_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree, size, unflatten_tree
from layoutalg.legality import Canonical, canonical_layout, recognize
from layoutalg.legality.canonical import (
    canonical_digits,
    check_major,
    element_address,
    match_mode,
    operand_shape,
    restrict,
)
from layoutalg.notation import parse
from tests.sweeps import each

ELEMENTS = ("u8", "f16", "tf32", "f64")
K_BYTES = 32
"""What one instruction reads along K."""


@st.composite
def parameters(draw: st.DrawFn) -> tuple[Canonical, str, tuple[int, int]]:
    """A canonical layout of one instruction's operand: its parameters, element type and shape."""
    element = draw(st.sampled_from(ELEMENTS))
    major: Major = draw(st.sampled_from(("K", "MN")))
    mode = draw(st.sampled_from(HOPPER_MODES))
    element_bytes = dtype(element).nbytes
    if major == "K":
        shape = (8 * draw(st.integers(1, 12)), K_BYTES // element_bytes)
    else:
        width = mode.row_bytes // element_bytes
        shape = (width * draw(st.integers(1, 4)), 8 * draw(st.integers(1, 3)))
    free = st.integers(1, 64).map(lambda n: n * max(mode.period_bytes, 16))
    lbo, sbo = draw(free), draw(free)
    return Canonical(major, mode, lbo, sbo), element, shape


def build(canonical: Canonical, element: str, shape: tuple[int, int]) -> AnyLayout:
    return canonical_layout(
        canonical.mode, canonical.major, element, shape,
        lbo_bytes=canonical.lbo_bytes, sbo_bytes=canonical.sbo_bytes,
    )  # fmt: skip


@given(parameters(), st.integers(0, 30))
def test_a_layout_says_what_its_descriptor_addresses(
    drawn: tuple[Canonical, str, tuple[int, int]], block: int
) -> None:
    """element_address is the manual's table, element by element; the layout is the same, all at once."""
    canonical, element, shape = drawn
    layout = build(canonical, element, shape)
    base = 1024 * block
    descriptor = SmemDescriptor(
        start_bytes=base, lbo_bytes=canonical.lbo_bytes, sbo_bytes=canonical.sbo_bytes, mode=canonical.mode
    )
    element_bytes = dtype(element).nbytes
    for row in range(shape[0]):
        for k in range(shape[1]):
            place = base + layout(row, k) * element_bytes
            assert element_address(descriptor, canonical.major, element, row, k) == place


def used(canonical: Canonical, element: str, shape: tuple[int, int]) -> Canonical:
    """The parameters that show in a layout of this shape."""
    bits = dtype(element).bits
    shown = {d.stride for d in canonical_digits(canonical.mode, canonical.major, bits, shape) if d.extent > 1}
    lbo = canonical.lbo_bytes if "LBO" in shown else 0
    if canonical.major == "K" and canonical.mode.swizzle.bits:
        lbo = 16
    return Canonical(canonical.major, canonical.mode, lbo, canonical.sbo_bytes if "SBO" in shown else 0)


@given(parameters())
def test_a_canonical_layout_is_recognized(drawn: tuple[Canonical, str, tuple[int, int]]) -> None:
    canonical, element, shape = drawn
    found = recognize(build(canonical, element, shape), canonical.major, element)
    assert found == used(canonical, element, shape), "no two modes describe one function"


@given(parameters(), st.data())
def test_spelling_does_not_count(drawn: tuple[Canonical, str, tuple[int, int]], data: st.DataObject) -> None:
    """The same function through its matrix over F2, a split swizzle, an undone one, a nested one."""
    canonical, element, shape = drawn
    layout = build(canonical, element, shape)
    found = recognize(layout, canonical.major, element)
    swizzles = layout.swizzles if isinstance(layout, ComposedLayout) else (Swizzle(0, 0, 0),)
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    (one,) = swizzles
    other = Swizzle(2, 1, 9)
    spellings: list[AnyLayout] = [
        ComposedLayout((other, other, one), 0, inner),
        ComposedLayout(one, 0, ComposedLayout(Swizzle(0, 3, 2), 0, inner)),
        ComposedLayout(Layout(1 << 40), 0, layout),
    ]
    if one.bits > 1:
        low = Swizzle(1, one.base, 3)
        spellings.append(ComposedLayout((low, Swizzle(one.bits - 1, one.base + 1, 3)), 0, inner))
    if all(extent & (extent - 1) == 0 for extent in shape):
        with contextlib.suppress(NotLinearError):
            columns = to_f2(layout)
            rows = shape[0].bit_length() - 1
            ins = {"mn": rows, "k": len(columns) - rows}
            spellings.append(LinearLayout.from_columns(columns, ins, {"offset": 1 << 40}).to_layout())
    spelled = data.draw(st.sampled_from(spellings))
    assert recognize(spelled, canonical.major, element) == found


@given(parameters(), st.sampled_from(("swizzle", "pitch", "strides")))
def test_what_is_changed_is_not_recognized_as_it_was(
    drawn: tuple[Canonical, str, tuple[int, int]], change: str
) -> None:
    canonical, element, shape = drawn
    layout = build(canonical, element, shape)
    bits = dtype(element).bits
    mode = canonical.mode
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    assert isinstance(inner, Layout)
    changed: AnyLayout
    if change == "swizzle":
        changed = ComposedLayout(Swizzle(2, 4 - (bits // 8).bit_length() + 1, 4), 0, inner)
    else:
        pitch = 8 * mode.row_bytes // bits
        moved = [d + 1 if d == pitch else d for d in flatten_tree(inner.stride)]
        strides = moved if change == "pitch" else [2 * d for d in flatten_tree(inner.stride)]
        longer = Layout(inner.shape, unflatten_tree(tuple(strides), inner.shape))
        changed = ComposedLayout(mode.in_elements(bits), 0, longer)
    found = recognize(changed, canonical.major, element)
    if found is not None:
        assert change != "pitch" and same_function(build(found, element, shape), changed)


PTX_EXAMPLES = [
    ("none", "K", "tf32", "((8,2),(4,4)):((4,32),(1,64))", 64 * 4, 32 * 4),
    ("none", "MN", "bf16", "((8,1,2),(8,2)):((1,8,64),(8,128))", 128 * 2, 64 * 2),
    ("32B", "MN", "bf16", "((8,2,2),(8,2)):((1,8,128),(16,256))", 128 * 2, 256 * 2),
    ("64B", "MN", "bf16", "((8,4,2),(8,2)):((1,8,256),(32,512))", 256 * 2, 512 * 2),
    # of two instructions of K = 8, the first
    ("32B", "K", "tf32", "((8,2),(4,2)):((8,64),(1,4))", 16, 64 * 4),
]
"""PTX ISA, wgmma.mma_async, "Canonical Layouts": mode, major-ness, type, exact layout, LBO, SBO in bytes."""


@each(("mode", "major", "element", "text", "lbo", "sbo"), PTX_EXAMPLES)
def test_worked_examples_of_the_manual(
    mode: str, major: Major, element: str, text: str, lbo: int, sbo: int
) -> None:
    inner = parse(text)
    assert isinstance(inner, Layout)
    layout = ComposedLayout(SWIZZLE_MODES[mode].in_elements(dtype(element).bits), 0, inner)
    assert recognize(layout, major, element) == Canonical(major, SWIZZLE_MODES[mode], lbo, sbo)


@each("element", ["u8", "f16", "bf16", "tf32"])
@each("atom", SMEM_ATOMS.values(), ids=lambda atom: atom.name)
def test_tiled_atoms(atom: SmemAtom, element: str) -> None:
    """tile_to_shape of an atom, of two atoms along both axes, in both orders: LBO and SBO as they follow."""
    mode, bits = atom.mode, dtype(element).bits
    piece = atom_layout(atom, element)
    mn, k = operand_shape(piece)
    atom_bytes = mode.rows * mode.row_bytes
    for order in ((0, 1), (1, 0)):
        tile = tile_to_shape(piece, (2 * mn, 2 * k), order)
        if atom.major == "K":
            box = (2 * mn, K_BYTES * 8 // bits)
            tile = restrict(tile, 0, Layout(box, (1, 2 * mn)))
        if mode.sm_90_code is None:
            digits = canonical_digits(mode, atom.major, bits, operand_shape(tile))
            assert [d.extent for d in digits] == [128 // bits, 8, 2, 4, 2]
            found = match_mode(tile, mode, atom.major, bits).found
        else:
            found = recognize(tile, atom.major, element)
        assert found is not None and found.mode == mode
        along_mn, along_k = (atom_bytes, 2 * atom_bytes) if order == (0, 1) else (2 * atom_bytes, atom_bytes)
        if atom.major == "K":
            lbo = along_k if mode.name == "none" else 16
            assert (found.lbo_bytes, found.sbo_bytes) == (lbo, along_mn)
        elif mode.name == "none":
            assert (found.lbo_bytes, found.sbo_bytes) == (along_k, along_mn)
        else:
            assert (found.lbo_bytes, found.sbo_bytes) == (along_mn, along_k)


def test_a_witness_is_a_coordinate_that_differs() -> None:
    plain = Layout((64, 16), (64, 1))
    match = match_mode(plain, SWIZZLE_MODES["128B"], "K", 16)
    assert match.found is None and match.witness is not None
    wanted = canonical_layout("128B", "K", "f16", (64, 16), sbo_bytes=1024)
    assert plain(match.witness) != wanted(match.witness)


def test_a_start_inside_the_pattern_is_kept() -> None:
    tile = atom_layout("Layout_K_SW128_Atom", "f16")
    for step in range(4):
        part = restrict(tile, 8 * 16 * step, Layout((8, 16), (1, 8)))
        found = recognize(part, "K", "f16")
        assert found is not None and found.start_elems == 16 * step


def test_restrict_is_the_layout_on_the_part() -> None:
    for layout in (
        Layout((6, 8), (8, 1)),
        atom_layout("Layout_K_SW32_Atom", "f16"),
        ComposedLayout(Swizzle(2, 0, 3), 5, Layout((6, 8), (9, 1))),
    ):
        mn = operand_shape(layout)[0]
        box = Layout((3, 4), (1, mn))
        part = restrict(layout, 2 + 3 * mn, box)
        assert [part(i) for i in range(12)] == [layout(2 + i % 3, 3 + i // 3) for i in range(12)]


def test_bad_input() -> None:
    refused: list[tuple[type[Exception], str, Any]] = [
        (
            ShapeError,
            "M or N, and a multiple of 8 along K",
            lambda: canonical_layout("128B", "MN", "f16", (96, 16)),
        ),
        (ShapeError, "at most 32 along K", lambda: canonical_layout("64B", "K", "f16", (64, 64))),
        (ShapeError, "LBO of 3", lambda: canonical_layout("none", "K", "f16", (64, 16), lbo_bytes=3)),
        (ShapeError, "two modes", lambda: recognize(Layout(64), "K", "f16")),
        (UnknownNameError, "'M'", lambda: check_major("M")),
        (UnsupportedError, "bytes", lambda: element_address(SmemDescriptor(start_bytes=0), "K", "b1", 0, 0)),
    ]
    for error, part, call in refused:
        with pytest.raises(error, match=part):
            call()
    assert recognize(Layout((8, 16), (-64, 1)), "K", "f16") is None
    assert size(canonical_layout("none", "K", DTYPES["c128"], (8, 2), lbo_bytes=128)) == 16
