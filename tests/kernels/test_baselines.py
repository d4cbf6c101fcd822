"""The libraries we compare with: absent ones are skipped by the bench, not guessed."""

from __future__ import annotations

import sys

import pytest

from layoutalg.kernels import baselines


def test_without_torch_there_is_no_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert baselines.torch_assign(None, None) is None
    assert baselines.torch_matmul(None, None, None, "f32") is None


def test_elements_that_torch_does_not_multiply_have_no_contender() -> None:
    assert baselines.torch_matmul(None, None, None, "u4") is None
