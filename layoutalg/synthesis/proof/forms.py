"""The layouts of each form that a certificate names, listed from the definition of the form.

The idea.  A claim that a form has no conflict-free layout is repeated by looking at all of them, and a layout
of a form is recognised by finding it among them.  The lists are made here from the question alone:

    single-swizzle   every Sw<B,M,S> of the storage order that moves an offset within the memory
    padding          offset x moves to x + pad * (x // run), for every pad that keeps vectors aligned
    rotation         (m, n) moves to m N + (n + step (m / rows)) mod N, for each step that keeps vectors whole
    tma              what tensor-map copies write (layoutalg.synthesis.proof.tensor_maps)

Notes.  What is shared with the search is what the words of a claim mean: the storage order of a tile
(`storage_layout`) and the names of classes.  No list, and no step or bound of a list, is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, TmaAccess
from layoutalg.arch import find_instruction
from layoutalg.errors import ArgumentTypeError, check_type
from layoutalg.layout import IntTuple, Layout, Swizzle, flatten_tree, product, to_text
from layoutalg.synthesis.result import Synthesis, padding_class


def tile_bytes(synthesis: Synthesis) -> int:
    """The memory of the tile itself.

    >>> from layoutalg.synthesis import synthesize
    >>> tile_bytes(synthesize((64, 64), ["ldmatrix.x4"], element="f16"))
    8192
    """
    return -(-product(synthesis.shape) * synthesis.element.bits // 8)


def room_bytes(synthesis: Synthesis) -> int:
    """The memory that a layout may take: the tile's, what is allowed beyond it, and no more than there is.

    >>> from layoutalg.synthesis import synthesize
    >>> room_bytes(synthesize((64, 64), ["ldmatrix.x4"], element="f16", max_extra_bytes=100))
    8292
    """
    return min(tile_bytes(synthesis) + synthesis.max_extra_bytes, synthesis.arch.max_shared_bytes_per_block)


def is_tma(synthesis: Synthesis) -> bool:
    """Whether the layout must be one that tensor-map copies write.

    >>> from layoutalg.synthesis import synthesize
    >>> is_tma(synthesize((64, 64), ["ldmatrix.x4"], element="f16", form="tma"))
    True
    """
    return synthesis.form == "tma" or any(isinstance(access, TmaAccess) for access in synthesis.accesses)


def every_single(synthesis: Synthesis) -> Iterator[Swizzle]:
    """Every Sw<B,M,S> of whose fields a bit of an offset in `room_bytes` takes part, up to such bits.

    Two swizzles that differ past those bits move no offset differently, or both leave the memory.

    >>> from layoutalg.synthesis import synthesize
    >>> len(list(every_single(synthesize((64, 96), ["ldmatrix.x4"], element="f16"))))
    728
    """
    elements = 8 * room_bytes(synthesis) // synthesis.element.bits
    top = 0
    while 1 << top < elements:
        top += 1
    for high in range(1, top):  # the lowest bit of the upper field
        for low in range(high):
            for bits in range(1, top - high + 1):
                yield Swizzle(bits, low, high - low)
                yield Swizzle(bits, low, low - high)


def bytes_past(synthesis: Synthesis, swizzle: Swizzle) -> int:
    """The bytes that the storage order takes past the tile's own memory under a swizzle.

    >>> from layoutalg.synthesis import synthesize
    >>> bytes_past(synthesize((64, 96), ["ldmatrix.x4"], element="f16"), Swizzle(1, 12, -1))
    16384
    """
    elements = product(synthesis.shape)
    bits = elements.bit_length() - 1
    if elements == 1 << bits and all(swizzle(1 << j) < elements for j in range(bits)):
        return 0  # every offset is a XOR of these
    import numpy as np

    last = int(swizzle(np.arange(elements)).max())
    return max(0, -(-(last + 1) * synthesis.element.bits // 8) - tile_bytes(synthesis))


def pad_step(synthesis: Synthesis) -> int:
    """The number of elements by whose multiples a row may grow: whole bytes, whole vectors of every access.

    >>> from layoutalg.synthesis import synthesize
    >>> pad_step(synthesize((64, 64), ["ldmatrix.x4", "st.shared.b32"], element="f16"))
    8
    """
    ops = [access.op for access in synthesis.accesses if isinstance(access, Access)]
    widest = max((find_instruction(op, synthesis.arch).width_bytes for op in ops), default=1)
    return max(1, 8 * widest // synthesis.element.bits)


def paddings(synthesis: Synthesis, limit_bytes: int | None = None) -> Iterator[tuple[int, Layout]]:
    """(extra bytes, layout) of every pitch within max_extra_bytes that keeps vectors aligned.

    Pitches that differ by a whole turn of the banks have the same conflicts; the shortest of them is here.
    `limit_bytes` takes the place of max_extra_bytes.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((48, 4), ["ld.shared.b128"], element="f32", max_extra_bytes=1600)
    >>> [(extra, str(layout)) for extra, layout in paddings(found)]
    [(768, '(48,4):(8,1)'), (1536, '(48,4):(12,1)')]
    """
    base, machine = storage_layout(synthesis.shape, synthesis.order), synthesis.arch
    bits = synthesis.element.bits
    sides = [product(mode) for mode in (base.shape if isinstance(base.shape, tuple) else (base.shape,))]
    long = [extent for extent in (sides if synthesis.order == "col" else sides[::-1]) if extent > 1]
    if len(long) < 2:
        return  # one row, and nothing to set apart
    run, rows = long[0], product(tuple(long[1:]))
    step = pad_step(synthesis)
    limit = room_bytes(synthesis) - tile_bytes(synthesis) if limit_bytes is None else limit_bytes
    for pad in range(step, 8 * machine.banks * machine.bank_bytes // bits, step):
        extra = rows * pad * bits // 8
        if extra > limit:
            return
        yield extra, Layout(base.shape, _set_apart(base.stride, run, pad))


def rotations(synthesis: Synthesis) -> Iterator[Callable[[Any], Any]]:
    """Every rotation of the rows of a tile (M, N) by multiples of the widest vector, as a map of offsets.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((6, 40), ["ld.shared.b128"], element="f32", form="rotation")
    >>> len(list(rotations(found))), next(rotations(found))(41)
    (27, 45)
    """
    sides = synthesis.shape if isinstance(synthesis.shape, tuple) else ()
    if synthesis.order != "row" or len(sides) != 2 or not all(isinstance(n, int) for n in sides):
        return
    rows, length = (int(n) for n in flatten_tree(sides))
    for step in range(pad_step(synthesis), length, pad_step(synthesis)):
        for together in range(1, rows):
            if rows % together == 0:
                yield functools.partial(_turned, length, step, together)


def _turned(length: int, step: int, together: int, offset: Any) -> Any:
    """Map an offset: its row, of `length`, is rotated by `step` for every `together` rows above it."""
    row, column = offset // length, offset % length
    return row * length + (column + row // together * step) % length


def _set_apart(stride: IntTuple, run: int, pad: int) -> IntTuple:
    """Strides with `pad` more for every full run that they pass."""
    if isinstance(stride, tuple):
        return tuple(_set_apart(part, run, pad) for part in stride)
    return stride + pad * (stride // run)


def ruled_out(synthesis: Synthesis) -> str:
    """The layouts in which a synthesis without a layout says that none is conflict-free, in words.

    >>> from layoutalg.synthesis import synthesize
    >>> ruled_out(synthesize((48, 20), ["ld.shared.b32@col"], element="f32", max_extra_bytes=1024))
    'single swizzles Sw<B,M,S> of (48,20):(20,1) in its memory and 1024 bytes more; (48,20):(20,1) with longer
    rows, by multiples of 4 bytes, up to 1024 bytes in all'
    """
    check_type("ruled_out", synthesis, Synthesis, "what synthesize returned")
    return "; ".join(class_in_words(synthesis, name) for name in synthesis.certificate.classes)


def refusal(synthesis: Synthesis, shape: IntTuple | None = None, more: str = "") -> str:
    """State that no layout was found, and among which; that none exists only if all placements are ruled out.

    `shape` replaces that of the synthesis, whose accesses may touch only a part of it; `more` names what else
    was ruled out.

    >>> from layoutalg.synthesis import synthesize
    >>> refusal(synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32"))
    'No conflict-free layout of (32,32) f32 exists for these accesses, wherever its words are placed.'
    """
    check_type("refusal", synthesis, Synthesis, "what synthesize returned")
    if synthesis.layout is not None:
        raise ArgumentTypeError(f"{synthesis.layout} was found; there is nothing to refuse")
    tile = f"{to_text(synthesis.shape if shape is None else shape)} {synthesis.element}"
    if synthesis.certificate.classes == ("any-placement",):
        return f"No conflict-free layout of {tile} exists for these accesses, wherever its words are placed."
    among = ruled_out(synthesis) + (f"; {more}" if more else "")
    claim = f"No conflict-free layout of {tile} was found for these accesses among {among}."
    return f"{claim} Others were not searched."


def class_in_words(synthesis: Synthesis, name: str) -> str:
    """The layouts that one class of a certificate is about, for the tile in hand.

    >>> from layoutalg.synthesis import synthesize
    >>> class_in_words(synthesize((64, 64), ["ldmatrix.x4"], element="f16"), "any-placement")
    'all placements'
    """
    base, extra = storage_layout(synthesis.shape, synthesis.order), synthesis.max_extra_bytes
    memory = f"its memory and {extra} bytes more" if extra else "its own memory"
    kind, _, units = name.partition(" of whole ")
    keeping = f" that keep {units} whole" if units else ""
    if name == "any-placement":
        return "all placements"
    if name == "plain":
        return f"the storage order {base}"
    if name == "single-swizzle":
        return f"single swizzles Sw<B,M,S> of {base} in {memory}"
    if name == "rotation":
        return f"rotations of the rows of {base} by multiples of {pad_step(synthesis)} elements"
    if name == "tma":
        return f"what tensor-map copies write of {to_text(synthesis.shape)} in {memory}"
    if name == padding_class(extra):
        step_bytes = pad_step(synthesis) * synthesis.element.bits // 8
        return f"{base} with longer rows, by multiples of {step_bytes} bytes, up to {extra} bytes in all"
    if kind == "linear-in-place":
        return f"F2-linear maps of {base} onto itself{keeping}"
    return f"permutations of {base}{keeping}"
