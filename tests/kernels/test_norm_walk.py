"""The walk covers every element of every statistic once, by the threads that share it."""

from __future__ import annotations

import random

import numpy as np

from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.norm_walk import NormConfig, Walk, powers
from tests.norms import random_problem
from tests.sweeps import each


def covered(w: Walk) -> dict[int, tuple[int, int, int]]:
    """Destination -> (source, weight, column) of every element that some thread takes."""
    found: dict[int, tuple[int, int, int]] = {}
    vec = w.config.vec
    for block in range(w.blocks):
        first, split = w.block(block)
        for tid in range(w.config.threads):
            side, y = w.thread(tid)
            column = first + side
            if column >= np.prod(w.columns):
                continue
            for s in w.segments:
                for i in range(s.first, s.first + s.count):
                    step = w.step(split, i, y)
                    if step >= w.steps:
                        assert not s.plain
                        continue
                    chunk = w.chunk(w.bases(column), step)
                    if not all(w.exists(step, chunk)):
                        assert not s.plain
                        continue
                    for e in range(vec):
                        inside = not (w.rows or w.skewed) or chunk.has(e)
                        inside = inside and all(w.owned(side))
                        assert inside or ((w.ragged or w.skewed) and not s.plain)
                        if not inside:
                            continue
                        target = chunk.target + e * w.lead.dst
                        weight = chunk.weight + (w.weight_of(chunk, e) if w.rows else 0)
                        assert target not in found, "an element is taken twice"
                        owner = column if w.rows else column * vec + e
                        if w.skewed:
                            owner = column // w.columns[0] * w.lead.extent + chunk.at + e - chunk.low
                        found[target] = (chunk.source + e * w.lead.src, weight, owner)
    return found


@each("seed", range(40))
def test_every_element_is_taken_once(seed: int) -> None:
    rng = random.Random(seed)
    p = random_problem(rng, 300)
    x = shortest(p)
    w = Walk(x, rng.choice(configs(x)))
    found = covered(w)
    a, wanted = p.axes, {}
    for crd in np.ndindex(*a.shape):
        source = a.src_offset + sum(i * s for i, s in zip(crd, a.src, strict=True))
        target = a.dst_offset + sum(i * s for i, s in zip(crd, a.dst, strict=True))
        inner = tuple(crd[k] for k in a.axes)
        weight = int(np.ravel_multi_index(inner, tuple(a.shape[k] for k in a.axes)))
        wanted[target] = (source, weight, tuple(i for k, i in enumerate(crd) if k not in a.axes))
    assert {t: s for t, (s, _, _) in found.items()} == {t: s for t, (s, _, _) in wanted.items()}
    if p.weight or p.bias:
        assert {t: v for t, (_, v, _) in found.items()} == {t: v for t, (_, v, _) in wanted.items()}
    owners = {(found[t][2], wanted[t][2]) for t in wanted}  # a bijection of columns and kept coordinates
    assert len(owners) == len({o for o, _ in owners}) == len({k for _, k in owners}) == x.outputs


def test_segments_cover_the_rounds() -> None:
    for n in (5, 31, 32, 33, 1000, 1001, 4096):
        x = shortest(norm_problem("softmax", (3, n), 1, "f16"))
        for splits in (1, 3):
            w = Walk(x, NormConfig(8 if n >= 8 else 1, 1, 32, "global", splits=splits))
            taken = [i for s in w.segments for i in range(s.first, s.first + s.count)]
            assert taken == list(range(w.rounds))


def test_powers() -> None:
    assert powers(1, 33) == [1, 2, 4, 8, 16, 32] and powers(8, 8) == []


@each(("vec", "kept", "sharing"), [(4, 4, 8), (4, 8, 4), (8, 4, 16), (8, 32, 8)])
@each("pitch", [33, 34, 36, 71])
def test_skewed_columns_meet_whatever_their_rows_shift(vec: int, kept: int, sharing: int, pitch: int) -> None:
    p = norm_problem("softmax", (3, 21, pitch), 1, "f16", src_offset=5, dst_offset=5)
    w = Walk(shortest(p), NormConfig(vec, kept, sharing, "global"))
    assert w.skewed and sharing % w.period == 0
    for column in range(0, w.columns[0] * 3, kept):
        wanted: dict[int, int] = {}  # column of the row -> place, of the columns that any row writes
        held: list[dict[int, int]] = []
        for step in range(21):
            y, mine = step % sharing, {}
            for side in range(kept):
                bases = w.bases(column + side)
                chunk = w.chunk(bases, step)
                for e in range(vec):
                    place, c = w.place(side, w.shift(bases, y), e), chunk.at + e - chunk.low
                    mine[place] = c
                    if chunk.has(e) and all(w.owned(side)):
                        assert wanted.setdefault(c, place) == place
            assert sorted(mine) == list(range(kept * vec))
            held.append(mine)
        for c, place in wanted.items():
            assert all(mine[place] == c for mine in held)
