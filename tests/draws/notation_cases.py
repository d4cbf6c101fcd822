"""Random layouts and maps of bits, written in every form and read again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import layoutalg as la
from layoutalg.arch import SMEM_ATOMS, atom_layout
from layoutalg.layout import innermost
from layoutalg.notation import FORMS, Notation
from tests.draws import index_functions, random_layouts

ELEMENTS = ("u8", "f16", "f32", "f64", "s4")

_NAMES = {"Layout": la.Layout, "Swizzle": la.Swizzle, "ComposedLayout": la.ComposedLayout}


def layout(rng: random.Random) -> la.AnyLayout:
    """A layout of any kind: as kernels have them, atoms, tiles of powers of two, or wild."""
    kind = rng.random()
    if kind < 0.03:
        return atom_layout(rng.choice(list(SMEM_ATOMS)), rng.choice(ELEMENTS[:4]))
    if kind < 0.3:
        return index_functions.tile(rng)
    if kind < 0.6:
        return _tile(rng)
    while True:
        text = rng.choice((random_layouts.layout, random_layouts.swizzled, random_layouts.stacked))(rng)
        try:
            drawn: la.AnyLayout = eval(text, _NAMES)  # noqa: S307 - a call that is written there
        except la.LayoutAlgError:
            continue
        return drawn


def _tile(rng: random.Random) -> la.AnyLayout:
    """Rows or columns of powers of two, perhaps under swizzles."""
    shape = tuple(1 << rng.randint(0, 7) for _ in range(rng.choice((1, 2, 2, 2, 3))))
    strides = random_layouts.in_order(rng, shape)
    plain = la.Layout(shape, tuple(strides)) if len(shape) > 1 else la.Layout(shape[0], strides[0])
    chain = []
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        bits = rng.randint(1, 3)
        chain.append(la.Swizzle(bits, rng.randint(0, 4), rng.choice((1, 1, 1, -1)) * rng.randint(bits, 6)))
    return la.ComposedLayout(la.Swizzles(*chain), 0, plain) if chain else plain


def linear(rng: random.Random) -> la.LinearLayout:
    """A map of registers, lanes and warps: blocked, of mma, or with its bits shuffled."""
    shape = tuple(1 << rng.randint(2, 6) for _ in range(rng.choice((1, 2, 2, 3))))
    counts = [[1] * len(shape) for _ in range(3)]
    for each, bits in zip(counts, (rng.randrange(4), 5, rng.randrange(4)), strict=True):
        for _ in range(bits):
            each[rng.randrange(len(shape))] *= 2
    order = rng.sample(range(len(shape)), len(shape))
    text = (
        f"#ttg.blocked<{{sizePerThread = {counts[0]}, threadsPerWarp = {counts[1]}, warpsPerCTA = "
        f"{counts[2]}, "
        f"order = {order}}}>"
    )
    if len(shape) == 2 and rng.random() < 0.3:
        text = (
            f"#ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, warpsPerCTA = {counts[2]}, "
            f"instrShape = [16, 8]}}>"
        )
    found = la.parse(text, shape=shape)
    assert isinstance(found, la.LinearLayout)
    if rng.random() < 0.3:
        bases = [basis for _, held in found.ins for basis in held]
        rng.shuffle(bases)
        ins: dict[str, list[tuple[int, ...]]] = {}
        for name, held in found.ins:
            ins[name], bases = bases[: len(held)], bases[len(held) :]
        found = la.LinearLayout(ins, found.outs)
    return found


def joined(value: la.AnyLayout) -> la.AnyLayout:
    """The layout with a swizzle over swizzles as one chain, which source cannot tell apart."""
    if isinstance(value, la.Layout):
        return value
    inner = joined(value.inner)
    if value.offset == 0 and value.swizzles and isinstance(inner, la.ComposedLayout) and inner.swizzles:
        return la.ComposedLayout(la.Swizzles(*value.swizzles, *inner.swizzles), inner.offset, inner.inner)
    return la.ComposedLayout(value.outer, value.offset, inner)


def _extents(value: Notation) -> tuple[int, ...]:
    if isinstance(value, la.LinearLayout):
        return tuple(extent for _, extent in value.outs)
    assert not isinstance(value, la.Swizzle)
    return tuple(la.size(mode) for mode in la.layout.modes(innermost(value)))


def judged(value: la.AnyLayout | la.LinearLayout, form: str, element: str) -> str:
    """What becomes of one value in one form: same, refused (the reason is an UnsupportedError), or WRONG."""
    record = FORMS[form]
    options: dict[str, Any] = {"element": element} if "element" in record.writes else {}
    try:
        text = la.convert(value, form, **options)
    except la.errors.UnsupportedError as error:
        return "refused" if len(error.message) > 20 else "WRONG, without a reason"
    back = la.parse(text, **_reading(value, form, text))
    if isinstance(value, la.LinearLayout):
        if isinstance(back, la.LinearLayout):
            return "same" if _bases(back) == _bases(value) and back.outs == value.outs else "WRONG"
        assert not isinstance(back, la.Swizzle)
        mine = la.parse(la.convert(value, "cute"))
        return (
            "same"
            if not isinstance(mine, la.Swizzle | la.LinearLayout) and la.same_function(back, mine)
            else "WRONG"
        )
    if form.startswith(("ttg", "gluon", "triton", "linear")):
        alike = not isinstance(back, la.Swizzle | la.LinearLayout) and la.same_function(back, value)
        return "same" if alike and _extents(back) == _extents(value) else "WRONG"
    return (
        "same" if back == (value if form in ("cute", "dsl-print", "tensor") else joined(value)) else "WRONG"
    )


def _reading(value: Notation, form: str, text: str) -> Mapping[str, Any]:
    """The options with which the text is read."""
    own = text.startswith(("#ttg.linear", "#ttg.shared_linear", "DistributedLinear", "SharedLinear"))
    return {"shape": _extents(value)} if "shape" in FORMS[form].reads and not own else {}


def _bases(found: la.LinearLayout) -> dict[str, Any]:
    return {name: bases for name, bases in found.ins if bases}


def forms(value: la.AnyLayout | la.LinearLayout) -> list[str]:
    """The forms that are tried: thread-value layouts are maps of bits here."""
    written = [name for name, form in FORMS.items() if form.write is not None]
    return [
        n
        for n in written
        if isinstance(value, la.LinearLayout) or "shape" not in FORMS[n].writes or "." not in n
    ]
