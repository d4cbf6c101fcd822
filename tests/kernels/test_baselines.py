"""Bounds of launches are what bytes and cycles take on the board; absent libraries are no contenders."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from layoutalg.arch import find_arch, find_board
from layoutalg.codegen.costs import Cost
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.checks import baselines
from layoutalg.kernels.checks.baselines import limits


def test_the_tightest_bound_comes_first() -> None:
    board = find_board("sm_90")
    few, many = {"ld.shared.b32": Cost(1, 32, 1)}, {"ld.shared.b32": Cost(1, 1 << 40, 1)}
    assert [b.unit for b in limits(1 << 20, [few])] == ["bytes of memory", "load-store cycles"]
    first, second = limits(1 << 20, [few, many])
    assert (first.unit, first.asked) == ("load-store cycles", 32 + (1 << 40))
    assert second.least_us == pytest.approx((1 << 20) / board.dram_bytes_per_s * 1e6)


def test_a_request_to_global_memory_is_a_cycle_whatever_its_sectors() -> None:
    (one,) = (b for b in limits(0, [{"ld.global.b128": Cost(7, 112, 112)}]) if b.unit == "load-store cycles")
    clock = find_board("sm_90").boost_hz
    assert clock is not None and one.asked == 7 and one.least_us == pytest.approx(7 / (132 * clock) * 1e6)


def test_without_a_board_nothing_is_bounded() -> None:
    with pytest.raises(UnsupportedError, match="no document describes a board"):
        limits(1, [], replace(find_arch("sm_90"), board=None))


def test_without_torch_there_is_no_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert baselines.torch_assign(None, None) is None
    assert baselines.torch_matmul(None, None, None, "f32") is None


def test_elements_that_torch_does_not_multiply_have_no_contender() -> None:
    assert baselines.torch_matmul(None, None, None, "u4") is None
