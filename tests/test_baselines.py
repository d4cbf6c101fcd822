"""The libraries we compare with: absent ones are skipped by the bench, not guessed."""

from __future__ import annotations

import pytest

from layoutalg.kernels import baselines


def test_without_torch_there_is_no_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    assert baselines.torch_assign(None, None) is None
