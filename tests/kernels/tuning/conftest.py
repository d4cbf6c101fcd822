"""What tests of searches share: a store's path, an empty folder to work in, an engine of threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from layoutalg.kernels.tuning import Engine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be written."""
    return tmp_path / "times.jsonl"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Threads in place of processes: only the child that takes times is one."""
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        yield Engine(one, other, 1)
