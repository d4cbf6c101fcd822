"""Closed form == definition on random (layout, swizzle, access) triples, stratum by stratum.

Each stratum is one way in which a short formula goes wrong, and is recognised by what the triple is, not by
how it was drawn.  The deep profile draws 3,500 of each, 21,000 in all: a sixth of them in every stratum by
its own count, and more by what triples of the other strata are besides.  The share that is answered without
enumeration is printed by `pytest -s` or `-rP`, and is at least 95 % in each.
That an answer is called closed is not taken on trust: the definition is watched while closed forms answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layoutalg.analysis import Access, CostClass, analyze, analyzer
from layoutalg.analysis.enumerated import count_all
from layoutalg.decide import cosize
from layoutalg.errors import NotLinearError
from layoutalg.f2 import affine_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, flatten_tree, leaves, modes, size
from layoutalg.testing import accesses
from tests.judges.reports import numbers

DEEP, SHARE = 3500, 0.95
"""Triples of a stratum, and the share of them without enumeration."""

Pair = tuple[AnyLayout, Access]


def strides_of(layout: AnyLayout) -> Layout:
    """The layout under its swizzles."""
    while not isinstance(layout, Layout):
        layout = layout.inner
    return layout


def is_padded(pair: Pair) -> bool:
    """The strides leave gaps."""
    layout = strides_of(pair[0])
    return cosize(layout) > size(layout)


def is_no_power_of_two(pair: Pair) -> bool:
    return any(n & (n - 1) for n in flatten_tree(pair[0].shape))


def is_straddling(pair: Pair) -> bool:
    """Some digit of the thread number, or a mode of the tile that threads walk along, ends inside a warp."""
    place, threads = 1, modes(pair[1].tv)[0]
    ends = list(accumulate(flatten_tree(pair[0].shape), mul))[:-1]
    for extent, step in leaves(threads):
        inside = [place * (end // step) for end in ends if step and end % step == 0 and end < extent * step]
        place *= extent
        for carry in (*inside, place):
            if carry < size(threads) and math.gcd(carry, 32) != min(carry, 32):
                return True
    return False


def is_partial(pair: Pair) -> bool:
    """Some lane is inactive, by a partial warp or by a guard."""
    return bool(size(modes(pair[1].tv)[0]) % 32) or pair[1].active is not None


def is_misaligned(pair: Pair) -> bool:
    """The base is no multiple of a row of all banks."""
    return pair[1].base_bytes % 128 != 0


def is_swizzled_with_carries(pair: Pair) -> bool:
    """A swizzle over offsets that carry: not linear over F2."""
    layout = pair[0]
    if not isinstance(layout, ComposedLayout) or not any(s.bits for s in layout.swizzles):
        return False
    try:
        affine_f2(layout)
    except NotLinearError:
        return True
    return False


STRATA: dict[str, tuple[tuple[str, ...], Callable[[Pair], bool]]] = {
    "padded": (("padded",), is_padded),
    "not a power of two": (("ragged",), is_no_power_of_two),
    "straddling": (("straddling", "loops"), is_straddling),
    "partially active": (("partial",), is_partial),
    "misaligned": (("misaligned",), is_misaligned),
    "swizzled with carries": (("swizzled",), is_swizzled_with_carries),
}
"""Stratum -> (the kinds that are drawn, beside mixed ones; what every triple of it is)."""


class Watch:
    """Counts how often the definition is asked for a whole access."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, *args: Any) -> list[CostClass]:
        self.asked += 1
        return count_all(*args)


@pytest.mark.deep(
    only=(
        "padded",
        "not a power of two",
        "straddling",
        "misaligned",
        "swizzled with carries",
    )
)
@pytest.mark.parametrize("stratum", STRATA)
def test_the_closed_form_is_the_definition(stratum: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds, belongs = STRATA[stratum]
    methods: Counter[str] = Counter()
    also: Counter[str] = Counter()
    examples = settings.default.max_examples if settings.default else 100
    wanted = DEEP if examples > 1000 else examples
    watch = Watch()
    monkeypatch.setattr(analyzer, "count_all", watch)

    pairs = st.sampled_from((*kinds, "mixed")).flatmap(lambda one: accesses(kind=one, max_size=1024))

    @settings(max_examples=wanted, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
    @given(pairs.filter(belongs))
    def check(pair: Pair) -> None:
        before = watch.asked
        report = analyze(*pair)
        assert (watch.asked > before) == (report.method == "enumerated")
        methods[report.method] += 1
        also.update(name for name, (_, is_one) in STRATA.items() if is_one(pair))
        assert numbers(report) == numbers(analyze(*pair, method="enumerated"))

    check()
    drawn = methods.total()
    closed = 1 - methods["enumerated"] / drawn
    print(f"{stratum}: {drawn} triples, {closed:.1%} without enumeration, {dict(methods)}, {dict(also)}")
    assert also[stratum] == drawn >= wanted
    assert closed >= (SHARE if drawn >= DEEP else 0.5)  # a few dozen draws are often variations of one
