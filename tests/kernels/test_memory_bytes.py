"""What is predicted of memory, against a list of all bytes; cases beside peers, without their libraries."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from typing import Any

import pytest

from layoutalg.kernels import find_family
from layoutalg.kernels.family import Traffic
from layoutalg.kernels.move.problem import permute_problem
from layoutalg.kernels.rowwise import norm_problem, plans, reduce_problem
from layoutalg.kernels.rowwise.ways.norm_plan import norm_configs
from tests.gpu import peers

ARCH = "sm_90"


def memory(p: Any, config: Any) -> Traffic:
    """What the family of a problem says of it."""
    predicted = find_family(getattr(p, "op", "permute")).memory
    assert predicted is not None
    return predicted(p, config, ARCH)


def listed(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> list[int]:
    """The bytes of all elements."""
    places = (sum(i * s for i, s in zip(at, strides, strict=True)) for at in product(*map(range, shape)))
    return [place * size + n for place in places for n in range(size)]


@pytest.mark.parametrize("seed", range(40))
def test_a_permute_moves_the_half_lines_and_sectors_of_its_bytes(seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 4)
    shape = tuple(rng.choice((1, 2, 3, 5, 8, 17)) for _ in range(rank))
    dtype = rng.choice(("u8", "f16", "f32", "f64"))
    p = permute_problem(shape, tuple(rng.sample(range(rank), rank)), dtype)
    source, target = (listed(p.shape, strides, p.element_bytes) for strides in (p.src, p.dst))
    sectors: dict[int, set[int]] = {}
    for byte in target:
        sectors.setdefault(byte // 32, set()).add(byte)
    merged = sum(len(found) < 32 for found in sectors.values())
    found = memory(p, None)
    assert found.written == 32 * len(sectors)
    assert found.read == 64 * len({byte // 64 for byte in source}) + 32 * merged


def test_norms_and_reductions_move_what_must_be_moved_where_they_are_read_once() -> None:
    p = norm_problem("softmax", (65536, 1024), 1, "bf16")
    assert memory(p, norm_configs(p, ARCH)[0]) == (prod(p.axes.shape) * 2,) * 2
    q = reduce_problem((65536, 1024), 1, "sum", "f32")
    assert memory(q, plans(q, ARCH)[0].passes[0].config) == (q.read_bytes, q.written_bytes)


def test_what_a_split_keeps_is_written_too() -> None:
    p = reduce_problem((1 << 26,), 0, "sum", "f32")
    plan = plans(p, ARCH)[0]
    assert plan.workspace_elems
    read, written = memory(p, plan.passes[0].config)
    assert (read, written) == (p.read_bytes, p.written_bytes + 4 * plan.workspace_elems)


def test_cases_beside_peers_fill_what_is_timed() -> None:
    for case in peers.row_cases():
        assert (
            peers.ROW_BYTES * 0.99 < prod(case.shape) * (4 if case.dtype == "f32" else 2) <= peers.ROW_BYTES
        )
        assert case.shape[1] % 8 == 0
    drawn = peers.permute_cases(peers.PERMUTED, peers.TENSORS, peers.SEED)
    assert [dtype for dtype, _ in drawn] == [d for d in peers.PERMUTED for _ in range(peers.TENSORS)]
