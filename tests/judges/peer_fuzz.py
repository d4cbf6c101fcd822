"""Random operands for every operation, and judges that know nothing of the algebra: tables and brute force.

A judge gives what the result must be, as a table, and whether any layout is that table.  So an answer is
right or wrong, and a refusal is right or not.  What a complement must be is forced: the least offset that is
not reached yet is the next of its offsets; modes of stride 0 are ignored, as CuTe does.  Whether a layout has
a left inverse is decided by trying every radix, for offsets up to RADIX_REACH.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

from layoutalg.layout import Layout, flatten_tree
from tests.judges.brute import is_layout_of, is_one_mode, table
from tests.judges.peers import OPERATIONS, refusals, to_peer

Wanted = tuple[list[int], bool] | None
"""The table of the result and whether a layout has it; None where there is none."""

VERDICTS = ("right", "wrong", "refused, rightly", "refused, representable", "refused, not judged")
RADIX_REACH = 72


def draw(rng: random.Random, size_limit: int) -> Layout:
    """A small layout: compact in some order, padded, or with any strides; nested at times."""
    while True:
        extents = [rng.choice((1, 2, 2, 3, 4, 4, 6, 8)) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.2:
            strides = [rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 12, 16)) for _ in extents]
        else:
            strides, current = [0] * len(extents), 1
            for i in rng.sample(range(len(extents)), len(extents)):
                strides[i] = current
                current = current * extents[i] * rng.choice((1, 1, 1, 2, 3)) + rng.choice((0, 0, 0, 1))
        if prod(extents) <= size_limit:
            break
    if len(extents) == 1 and rng.random() < 0.5:
        return Layout(extents[0], strides[0])
    if len(extents) == 3 and rng.random() < 0.3:
        return Layout((extents[0], tuple(extents[1:])), (strides[0], tuple(strides[1:])))
    return Layout(tuple(extents), tuple(strides))


def forced_complement(taken: list[int], target: int) -> list[int] | None:
    """The offsets r such that taken + r cover [0, N) once each, N >= target the first for which they do."""
    base = sorted(set(taken))
    if base[0] or len(base) > target * 2:
        return None
    covered: set[int] = set()
    out: list[int] = []
    following = 0
    while True:
        while following in covered:
            following += 1
        if following >= target and following == len(covered):
            return out
        if following > 4 * target + base[-1]:
            return None
        moved = {following + x for x in base}
        if not covered.isdisjoint(moved):
            return None
        covered |= moved
        out.append(following)


def want_composition(a: Layout, b: Layout) -> Wanted:
    values = [a(x) for x in table(b)]
    return values, is_layout_of(b.shape, values)


def want_same(a: Layout) -> Wanted:
    return table(a), True


def want_complement(a: Layout) -> Wanted:
    if not _only_broadcasts(a):
        return None
    rest = forced_complement(table(a), max(table(a)) + 1)
    return None if rest is None else (rest, is_one_mode(rest))


def _only_broadcasts(a: Layout) -> bool:
    """True when the layout repeats offsets in modes of stride 0 alone."""
    values, leaves = table(a), zip(flatten_tree(a.shape), flatten_tree(a.stride), strict=True)
    return len(set(values)) * prod(s for s, d in leaves if d == 0) == len(values)


def want_divide(a: Layout, b: Layout) -> Wanted:
    if not _only_broadcasts(b):
        return None
    rest = forced_complement(table(b), len(table(a)))
    if rest is None or not is_one_mode(rest):
        return None
    values = [a(x + r) for r in rest for x in table(b)]
    return values, is_layout_of((b.shape, len(rest)), values)


def want_product(a: Layout, b: Layout) -> Wanted:
    if not _only_broadcasts(a):
        return None
    rest = forced_complement(table(a), len(table(a)) * (max(table(b)) + 1))
    if rest is None or not is_one_mode(rest) or max(table(b)) >= len(rest):
        return None
    moved = [rest[x] for x in table(b)]
    return [x + m for m in moved for x in table(a)], is_layout_of(b.shape, moved)


JUDGES: dict[str, Callable[..., Wanted]] = {
    "coalesce": want_same,
    "composition": want_composition,
    "complement": want_complement,
    "logical_divide": want_divide,
    "zipped_divide": want_divide,
    "tiled_divide": want_divide,
    "logical_product": want_product,
    "zipped_product": want_product,
    "tiled_product": want_product,
}
JUDGED = tuple(op for op in OPERATIONS if op.name in JUDGES or op.name in ("right_inverse", "left_inverse"))


def has_left_inverse(values: list[int]) -> bool:
    """Some radix in which the coordinates are linear in the digits of their offsets."""
    import numpy

    top, wanted = max(values), numpy.arange(len(values))

    def fits(ends: list[int]) -> bool:
        digits = numpy.array([[x % b // a for a, b in pairwise([1, *ends, top + 1 << 8])] for x in values])
        weights = numpy.rint(numpy.linalg.lstsq(digits, wanted, rcond=None)[0]).astype(int)
        return bool((digits @ weights == wanted).all())

    def search(ends: list[int]) -> bool:
        last = ends[-1] if ends else 1
        return fits(ends) or any(search([*ends, end]) for end in range(2 * last, top + 1, last))

    return search([])


def verdict(name: str, operands: tuple[Layout, ...], result: Any, length: int | None) -> str:
    """One of VERDICTS; `result` is a function of the flat index of `length` coordinates, or None: refused."""
    if name == "right_inverse":
        if result is None or length is None:
            return "refused, representable"  # 1:0 always is one
        return "right" if _is_right_inverse(operands[0], result, length) else "wrong"
    if name == "left_inverse":
        values = table(operands[0])
        if result is None:
            if len(set(values)) < len(values):
                return "refused, rightly"
            if max(values) > RADIX_REACH:
                return "refused, not judged"
            return "refused, representable" if has_left_inverse(values) else "refused, rightly"
        return "right" if [result(x) for x in values] == list(range(len(values))) else "wrong"
    wanted = JUDGES[name](*operands)
    if result is None or length is None:
        return "refused, representable" if wanted is not None and wanted[1] else "refused, rightly"
    if wanted is None:
        return "wrong"
    got = [result(i) for i in range(length)]
    return "right" if got == wanted[0] else "wrong"


def _is_right_inverse(a: Layout, result: Any, length: int) -> bool:
    whole = len(table(a))
    found = [result(i) for i in range(length)]
    return all(0 <= x < whole and a(x) == i for i, x in enumerate(found))


def operands_of(name: str, arity: int, rng: random.Random) -> tuple[Layout, ...]:
    """Random operands; the right side of a composition or a divide stays in the domain of the left."""
    while True:
        a = draw(rng, 96)
        if arity == 1:
            return (a,)
        b = draw(rng, 24)
        if name.endswith("product") or max(table(b)) < len(table(a)):
            return a, b


def fuzz(who: str, count: int, seed: int = 0) -> dict[str, Counter[str]]:
    """Verdicts on `count` random operands for every operation; `who` is "layoutalg" or a peer."""
    out: dict[str, Counter[str]] = {}
    for op in JUDGED:
        function = op.ours if who == "layoutalg" else op.theirs(who)
        if function is None:
            continue
        rng = random.Random(f"{seed} {op.name}")
        out[op.name] = Counter(_one(who, op.name, op.arity, function, rng) for _ in range(count))
    return out


def _one(who: str, name: str, arity: int, function: Callable[..., Any], rng: random.Random) -> str:
    operands = operands_of(name, arity, rng)
    converted = operands if who == "layoutalg" else tuple(to_peer(who, a) for a in operands)
    try:
        result = function(*converted)
        length = _size(result)
    except refusals(who):
        return verdict(name, operands, None, None)
    return verdict(name, operands, result, length)


def _size(result: Any) -> int:
    size = getattr(result, "size", None)
    if callable(size):
        return int(size())
    return prod(flatten_tree(Layout(result.shape, result.stride).shape))


def report(who: str, found: dict[str, Counter[str]]) -> list[str]:
    """Lines of a table: one an operation."""
    return [
        f"{name:16} {who:15}" + "".join(f"{counts[v]:>24}" for v in VERDICTS)
        for name, counts in found.items()
    ]
