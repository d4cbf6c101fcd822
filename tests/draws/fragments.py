"""Register layouts of tensor cores, as the PTX manual draws them, and random ones.

Columns first: an element (m, n) of an M x N tile has the index m + M n.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from layoutalg.atoms import MMA_ATOMS
from layoutalg.f2 import LinearLayout, apply, rank
from layoutalg.layout import Layout

M16N8 = MMA_ATOMS["SM80_16x8x16_F32F16F16F32_TN"].c_tv
"""The accumulator of mma m16n8, whatever its operands."""

M8N8_F64 = MMA_ATOMS["SM80_8x8x4_F64F64F64F64_TN"].c_tv
"""The accumulator of mma m8n8k4 in f64, and of the integer m8n8 forms."""

VOLTA_F32 = MMA_ATOMS["SM70_8x8x4_F32F16F16F32_TN"].c_tv
"""The f32 accumulator of mma m8n8k4 on sm_70, of the 8 threads of a quad pair."""


def wgmma(n: int) -> Layout:
    """The accumulator of wgmma m64nN: four warps of 16 rows each."""
    return MMA_ATOMS[f"SM90_64x{n}x16_F32F16F16_SS"].c_tv


def operand_a(element_bits: int) -> Layout:
    """The A operand of the mma m16 form that is 256 bits of k deep."""
    shape = (16, 8, 256 // element_bits)
    return next(
        atom.a_tv
        for atom in MMA_ATOMS.values()
        if atom.shape_mnk == shape and atom.dtype("A").bits == element_bits
    )


def accumulators(columns: int) -> Layout:
    """Side by side, m16n8 accumulators that make a tile of 16 x `columns`."""
    return Layout(((4, 8), (2, 2, columns // 8)), ((32, 1), (16, 8, 128)))


def swapped(layout: LinearLayout) -> LinearLayout:
    """The same places for the transposed tile: (m, n) where (n, m) was."""
    (m, rows), (n, columns) = layout.outs
    return LinearLayout({name: [b[::-1] for b in bases] for name, bases in layout.ins}, {m: columns, n: rows})


@st.composite
def matrices(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """Invertible matrices: sums of columns added to a permutation, which shrink to the identity."""
    columns = [1 << j for j in draw(st.permutations(range(size)))]
    for _ in range(draw(st.integers(0, 2 * size)) if size > 1 else 0):
        i, j = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
        if i != j:
            columns[i] ^= columns[j]
    return tuple(columns)


@st.composite
def conversions(
    draw: st.DrawFn, *, in_warp: bool | None = None, min_lanes: int = 0, max_lanes: int = 3
) -> tuple[LinearLayout, LinearLayout]:
    """Pairs (src, dst) of register layouts of one tensor: bijections, broadcasts, and parts of the tensor.

    `in_warp` draws only pairs that keep every value in its warp.
    """
    registers, lanes = draw(st.integers(0, 3)), draw(st.integers(min_lanes, max_lanes))
    warps = draw(st.integers(0, 2))
    size = registers + lanes + warps
    held = list(draw(matrices(size)))
    for j in draw(st.lists(st.integers(0, max(size - 1, 0)), max_size=2 if size else 0)):
        held[j] = draw(st.sampled_from([0, *held]))
    wanted = registers
    if draw(st.booleans()):
        places = list(draw(matrices(size if not in_warp else registers + lanes)))
    else:
        wanted = draw(st.integers(0, 4))
        place = st.integers(0, (1 << (registers + lanes if in_warp else size)) - 1)
        places = draw(st.lists(place, min_size=wanted + lanes + warps, max_size=wanted + lanes + warps))
        places = places[: wanted + lanes] if in_warp else places
    if in_warp:
        inside = st.integers(0, (1 << (registers + lanes)) - 1)
        places += [draw(inside) | 1 << (registers + lanes + j) for j in range(warps)]
    outs = {"n": 1 << size}
    src = LinearLayout.from_columns(held, {"register": registers, "lane": lanes, "warp": warps}, outs)
    dst = LinearLayout.from_columns(
        [apply(held, place) for place in places], {"register": wanted, "lane": lanes, "warp": warps}, outs
    )
    return src, dst


def at(places: LinearLayout, register: int, lane: int, warp: int) -> tuple[int, int, int]:
    """What a map of places says, as (register, lane, warp)."""
    found = places(register=register, lane=lane, warp=warp)
    return found["register"], found["lane"], found["warp"]


def is_bijective(layout: LinearLayout) -> bool:
    """True when every element has exactly one place."""
    return rank(layout.columns) == len(layout.columns) == sum(layout.out_bits.values())


def elements(layout: LinearLayout) -> NDArray[np.int64]:
    """(warp, lane, register) -> the packed index of the element there: values that tell where they belong."""
    names = ("register", "lane", "warp")
    parts = [layout.columns_of(name) if name in layout.in_bits else () for name in names]
    registers, lanes, warps = (np.array([apply(part, x) for x in range(1 << len(part))]) for part in parts)
    found: NDArray[np.int64] = warps[:, None, None] ^ lanes[:, None] ^ registers
    return found


LARGE = LinearLayout(
    {
        "register": [1 << j for j in range(7)],
        "lane": [1 << j for j in range(7, 12)],
        "warp": [1 << j for j in range(12, 17)],
    },
    {"n": 1 << 17},
)
"""More elements of four bytes than shared memory holds."""
