"""Selects, byte permutes and shuffles beside their one-sentence meanings, and beside their C text."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import BYTE_PERMUTE, LDG, REDUX, SELECT, SHUFFLE_LANE, SHUFFLE_XOR, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from tests.hostshim import run_cuda_text

GROUP = SimpleNamespace(lanes=32)
WORDS = st.integers(0, (1 << 32) - 1)


@given(WORDS, WORDS, st.lists(st.integers(0, 7), min_size=4, max_size=4))
def test_a_byte_permute_picks_bytes(a: int, b: int, pick: list[int]) -> None:
    found = BYTE_PERMUTE.effect(
        None, GROUP, np.full((1, 1), a, np.uint32), np.full((1, 1), b, np.uint32),
        sum(byte << 4 * i for i, byte in enumerate(pick)),
    )  # fmt: skip
    pool = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    assert int(found[0, 0]).to_bytes(4, "little") == bytes(pool[byte] for byte in pick)


def every_instruction() -> Kernel:
    """Two warps: a select, a byte permute, a shuffle of either kind of their words, and each redux."""
    k = KernelBuilder("shuffles", 64)
    x, y = k.pointer("x", 4, (2, 1)), k.pointer("y", 4, (4, 1), writable=True)
    v, w = k.reg("v", 2), k.reg("w", 4)
    k.do(LDG[8], v, k.at(x, k.tid, 0))
    k.do(SELECT, w[0], v[0], v[1], (k.tid >> 1 & 1) ^ (k.tid >> 5 & 1))
    k.do(BYTE_PERMUTE, w[1], v[0], v[1], 0x2507)
    k.do(SHUFFLE_XOR, w[2], v[0], 5)
    k.do(SHUFFLE_LANE, w[3], v[1], k.tid * 7 % 32)
    k.do(STG[16], k.at(y, k.tid, 0), w)
    for n, instr in enumerate(REDUX.values()):
        k.do(instr, w[n], v[0])
    k.do(STG[16], k.at(y, k.tid + 64, 0), w)
    return k.build()


@pytest.mark.parametrize("way", ["simulator", "text"])
def test_what_each_does_is_what_its_text_says(way: str) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 32, (64, 2), dtype=np.uint32)
    y = np.zeros((128, 4), np.uint32)
    kernel = every_instruction()
    if way == "simulator":
        simulate(kernel, {"x": x, "y": y})
    else:
        run_cuda_text(to_cuda(kernel), kernel.name, (1,), (64,), (x, y))
    warps = x[:, 0].view(np.int32).reshape(2, 32)
    with np.errstate(over="ignore"):
        joined = [np.add.reduce(warps, axis=1, dtype=np.int32), warps.max(axis=1), warps.min(axis=1)]
    assert np.array_equal(y[64:, :3].view(np.int32), np.stack(joined, axis=1).repeat(32, axis=0))
    y, t = y[:64], np.arange(64)
    odd = (t >> 1 & 1) ^ (t >> 5 & 1)
    raw = x.view(np.uint8).reshape(64, 8)
    assert np.array_equal(y[:, 0], x[t, odd])
    assert np.array_equal(y[:, 1:2].view(np.uint8), raw[:, [7, 0, 5, 2]])
    assert np.array_equal(y[:, 2], x[t ^ 5, 0])
    assert np.array_equal(y[:, 3], x[t // 32 * 32 + t * 7 % 32, 1])
