"""Norms over streams: what is read where, by the definition, and simulated kernels beside NumPy."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from typing import Any

import pytest

from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.columns import Stream, rows_of, stream_of, streamed, with_fold
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.problems import Form
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.norms import check, data, launch_all
from tests.sweeps import each

VEC = {"f32": 4, "f16": 8, "bf16": 8}

CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((131, 24), (0,)), ((203, 13), (0,)), ((203, 5, 3), (0, 2)), ((99, 8, 6), (0, 2)), ((3, 99, 8), (1,)),
    ((13, 6, 3, 5, 2), (0, 2, 4)), ((2, 61, 7, 4), (1, 3)), ((40, 3, 2, 9), (0, 3)), ((64, 32), (0,)),
)  # fmt: skip


def places(form: Form) -> dict[tuple[int, ...], list[int]]:
    """The places in the source of the elements of each group, by definition."""
    found: dict[tuple[int, ...], list[int]] = {}
    for crd in product(*(range(m.extent) for m in form.modes)):
        group = tuple(i for i, m in zip(crd, form.modes, strict=True) if not m.reduced)
        place = form.src_offset + sum(i * m.src for i, m in zip(crd, form.modes, strict=True))
        found.setdefault(group, []).append(place)
    return {group: sorted(some) for group, some in found.items()}


def from_streams(s: Stream, splits: int) -> dict[tuple[int, ...], list[int]]:
    """The same from the columns whose partials a group joins, and from the rows that are left."""
    columns = places(s.columns)
    kept = [m.extent for m in s.beyond if not m.reduced]

    def column(at: int) -> list[int]:
        crd, at = [at % s.width], at // s.width
        for n in kept:
            crd.append(at % n)
            at //= n
        return columns[tuple(crd)]

    left = places(s.left) if s.left else {}
    found = {}
    for group, some in places(s.joined(splits)).items():
        every = [x for at in some if at < s.places for x in column(at)]
        assert len(some) == splits * len([at for at in some if at < s.places])
        found[group] = sorted(every + left.get(group, []))
    return found


@each("fold", [1, 2, 4, 8])
def test_groups_of_a_stream_are_those_of_the_form(fold: int) -> None:
    judged = 0
    for shape, axes in CASES:
        form = form_of(norm_problem("softmax", shape, axes, "f32"))
        for inside, _ in rows_of(form):
            if (s := with_fold(form, inside, fold)) is not None:
                assert from_streams(s, 3) == places(s.form)
                assert stream_of(form, s.width) == s
                judged += 1
    assert judged >= 8


def test_what_is_no_stream() -> None:
    def none(p: NormProblem, width: int = 8) -> bool:
        return stream_of(form_of(p), width) is None

    assert none(norm_problem("softmax", (8, 100), 1, "f32"))
    assert none(norm_problem("softmax", (100,), 0, "f32"))
    assert none(norm_problem("softmax", (100, 8), 0, "f32", (16, 2), (16, 2)))
    assert none(norm_problem("softmax", (100, 8), 0, "f32", (8, 1), (1, 100)))
    assert none(norm_problem("softmax", (100, 8), 0, "f32", (8, 1), (-8, 1), 0, 792))
    assert not none(norm_problem("softmax", (100, 8), 0, "f32", (16, 1), (16, 1)))
    assert none(norm_problem("softmax", (100, 8), 0, "f32", (16, 1), (16, 1)), 16)
    assert none(norm_problem("layer_norm", (100, 8), 0, "f32", weight=True), 16)
    assert none(norm_problem("rms_norm", (100, 8, 3), (0, 2), "f32", weight=True), 24)
    assert not none(norm_problem("layer_norm", (100, 8), 0, "f32", weight=True, bias=True))


def run(p: NormProblem, c: NormConfig, seed: int = 1, **options: Any) -> None:
    """Simulate what is printed of a configuration and compare it with the definition."""
    d = data(p, seed)

    def launch(kernel: Kernel, args: dict[str, Any]) -> None:
        simulate(printed(kernel), args, **options)

    check(p, d, launch_all(plan(p, "sm_90a", c), d, launch, lambda x: x))


@each("op", ["softmax", "layer_norm", "rms_norm"])
def test_results(op: str) -> None:
    rng = random.Random(op)
    for shape, axes in CASES:
        dtype = rng.choice(list(VEC))
        p = norm_problem(op, shape, axes, dtype)
        ways = streamed(form_of(p), p.dtype, 2, 2)
        for way in rng.sample(ways, min(2, len(ways))):
            share = max(1, 64 // way.side)
            staged = rng.choice([0, 0, 4])
            c = NormConfig(
                way.vec, way.side, share, "global", 2, rng.choice([1, 2, 3]), staged=staged, width=way.width
            )  # fmt: skip
            run(p, c, rng.randrange(99))


def test_weights_pitches_and_offsets() -> None:
    p = norm_problem(
        "layer_norm", (2, 45, 24), 1, "f16", (2000, 40, 1), (2000, 40, 1), 8, 16, weight=True, bias=True
    )
    run(p, NormConfig(8, 4, 8, "global", 2, 2, width=24))
    run(
        norm_problem("rms_norm", (90, 16), 0, "f32", weight=True),
        NormConfig(4, 4, 8, "global", 4, 1, width=16),
    )


@each("op", ["softmax", "layer_norm"])
def test_in_place(op: str) -> None:
    run(norm_problem(op, (77, 5), 0, "bf16", in_place=True), NormConfig(8, 4, 8, "global", 2, 2, width=40))


def test_warps_in_any_order() -> None:
    p = norm_problem("layer_norm", (99, 6, 3), (0, 2), "f32")
    for seed in range(3):
        run(p, NormConfig(4, 4, 16, "global", 2, 2, width=36), group="warp", seed=seed)


def test_a_large_tensor_of_odd_pitch_is_a_stream() -> None:
    for shape, axes in (((557855, 117), (0,)), ((9873, 2369, 3), (0, 2)), ((100376, 166, 8), (0, 2))):
        p = norm_problem("rms_norm", shape, axes, "bf16")
        c = configs(p)[0]
        assert c.width and c.vec == 8
        s = stream_of(form_of(p), c.width)
        assert s is not None and s.has_vectors(8)
    assert not any(c.width for c in configs(norm_problem("softmax", (999, 117), 0, "bf16")))


def test_a_stream_of_few_rows_is_not_chosen_by_wide_vectors() -> None:
    """Of 2 rows of 9e7 columns the partials are 5 times the tensor: narrower vectors have more rows."""
    (c, *_) = configs(norm_problem("layer_norm", (2, 98, 7, 379, 6, 31), (0, 2, 3, 5), "bf16"))
    assert (c.width, c.vec) == (372, 2)


def test_short_pieces_that_start_within_vectors_are_a_stream() -> None:
    assert configs(norm_problem("softmax", (1666, 10, 9, 9, 45), (0, 1, 4), "f32"))[0].width
    assert not configs(norm_problem("softmax", (1666, 10, 9, 9, 48), (0, 1, 4), "f32"))[0].width
    assert not configs(norm_problem("softmax", (1666, 10, 9, 9, 65), (0, 1, 4), "f32"))[0].width


def test_refusals() -> None:
    p = norm_problem("softmax", (99, 13), 0, "f16")
    for c in (
        NormConfig(8, 8, 8, "global", 2, 2, width=52), NormConfig(8, 8, 8, "registers", width=104),
        NormConfig(8, 8, 8, "global", 2, cluster=2, width=104),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=r"dense rows that are whole vectors are read twice"):
            plan(p, "sm_90a", c)


def test_the_cheapest_way_leaves_few_threads_without_columns() -> None:
    for width in (13, 58, 104, 117, 184):
        p = norm_problem("rms_norm", (1 << 20, width), 0, "f16")
        form = form_of(p)
        way = streamed(form, p.dtype, 1, 132)[0]
        s = stream_of(form, way.width)
        assert s is not None
        tiles = -(-s.places // (way.vec * way.side))
        assert prod((tiles, way.vec, way.side)) <= 1.1 * s.places
