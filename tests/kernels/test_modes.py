"""Normal forms of strided modes step through the same places, and no two of their modes are one."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise, product

import pytest

from layoutalg.errors import NotInjectiveError, ShapeError
from layoutalg.kernels.modes import (
    StridedMode,
    buffer_elems,
    check_written,
    compact_strides,
    lowest,
    normal_form,
)

Places = Counter[tuple[object, ...]]


def places(modes: tuple[StridedMode, ...], start: tuple[int, ...]) -> Places:
    """By definition: where every coordinate lies on every side, with the part of it that is of each kind."""
    found: Places = Counter()
    for crd in product(*(range(m.extent) for m in modes)):
        at = tuple(
            s + sum(c * m.strides[k] for c, m in zip(crd, modes, strict=True)) for k, s in enumerate(start)
        )
        found[at] += 1
    return found


def groups(modes: tuple[StridedMode, ...], start: tuple[int, ...]) -> Counter[frozenset[object]]:
    """The sets of places that differ in reduced modes alone."""
    kept = tuple(m for m in modes if m.kind != "reduced")
    rest = tuple(m for m in modes if m.kind == "reduced")
    found: Counter[frozenset[object]] = Counter()
    for crd in product(*(range(m.extent) for m in kept)):
        at = tuple(
            s + sum(c * m.strides[k] for c, m in zip(crd, kept, strict=True)) for k, s in enumerate(start)
        )
        found[frozenset(places(rest, at).items())] += 1
    return found


def drawn(rng: random.Random, sides: int) -> tuple[StridedMode, ...]:
    """Dense and strided modes, split, permuted, turned round, broadcast."""
    shape = [rng.choice((1, 2, 3, 4)) for _ in range(rng.randint(0, 4))]
    strides = [list(compact_strides(shape)) for _ in range(sides)]
    for side in strides:
        if rng.random() < 0.4:
            gap = rng.choice((1, 2, 3))
            side[:] = [d * gap for d in side]
        for k in range(len(side)):
            side[k] *= rng.choice((1, 1, 1, 1, -1, 0))
    kinds = [rng.choice(("reduced", "kept")) for _ in shape]
    modes = [StridedMode(n, tuple(side[k] for side in strides), kinds[k]) for k, n in enumerate(shape)]
    rng.shuffle(modes)
    return tuple(modes)


@pytest.mark.parametrize("sides", [1, 2, 3])
def test_normal_forms_have_the_same_places_in_the_same_groups(sides: int) -> None:
    rng = random.Random(sides)
    shorter = 0
    for _ in range(300):
        modes, lead = drawn(rng, sides), rng.randrange(sides)
        form = normal_form(modes, lead)
        extents = [m.extent for m in modes]
        start = (0,) * sides
        low = tuple(lowest(extents, [m.strides[k] for m in modes], 0) for k in range(sides))
        again = tuple(lowest([m.extent for m in form], [m.strides[k] for m in form], 0) for k in range(sides))
        begin = tuple(a - b for a, b in zip(low, again, strict=True))
        assert groups(form, begin) == groups(modes, start)
        assert all(m.extent > 1 and m.strides[lead] >= 0 for m in form) and normal_form(form, lead) == form
        for a, b in pairwise(form):
            assert a.kind != b.kind or b.strides != tuple(a.extent * d for d in a.strides)
        leading = [m.strides[lead] for m in form if m.strides[lead]]
        assert leading == sorted(leading)
        shorter += len(form) < sum(n > 1 for n in extents)
    assert shorter > 20


def test_a_dense_tensor_is_one_mode() -> None:
    modes = [StridedMode(n, (d, d)) for n, d in zip((3, 4, 1, 2), compact_strides((3, 4, 1, 2)), strict=True)]
    assert normal_form(modes) == (StridedMode(24, (1, 1)),) and normal_form([]) == ()


def test_what_starts_before_its_buffer_is_refused() -> None:
    assert buffer_elems("source", (4, 6), (-6, 1), 18) == 24
    assert buffer_elems("source", (0, 6), (-6, 1), 0) == 6
    with pytest.raises(ShapeError, match=r"the weight of offset 17 and strides \(-6, 1\) starts before"):
        buffer_elems("weight", (4, 6), (-6, 1), 17)


def test_a_destination_that_aliases_is_refused() -> None:
    check_written("a sum", (1, 6), (0, -1))
    check_written("a sum", (0, 6), (0, 0))
    with pytest.raises(NotInjectiveError, match="of a sum has one place for two coordinates") as refused:
        check_written("a sum", (4, 6), (5, 1))
    assert refused.value.a != refused.value.b
