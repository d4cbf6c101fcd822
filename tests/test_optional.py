"""Libraries that may be absent: never imported to find out, never trusted before they are whole."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from layoutalg.optional import import_trouble, is_of, loaded

SLOW = """
import {name}_gate
{name}_gate.begun.set()
{name}_gate.go_on.wait(60)
class Thing:
    pass
"""


def test_what_is_being_imported_has_no_classes_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread holds the import in the middle; the others see the module, and not its names."""
    (tmp_path / "slowlib_gate.py").write_text(
        "import threading\nbegun, go_on = threading.Event(), threading.Event()"
    )
    (tmp_path / "slowlib.py").write_text(SLOW.format(name="slowlib"))
    monkeypatch.syspath_prepend(str(tmp_path))
    import slowlib_gate  # type: ignore[import-not-found]

    importing = threading.Thread(target=import_trouble, args=("slowlib", ""))
    importing.start()
    try:
        assert slowlib_gate.begun.wait(60)
        assert "slowlib" in sys.modules
        assert loaded("slowlib", "Thing") is None
        assert not is_of(3, "slowlib", "Thing")
    finally:
        slowlib_gate.go_on.set()
        importing.join()
    thing = loaded("slowlib", "Thing")
    assert is_of(thing(), "slowlib", "Thing") and not is_of(3, "slowlib", "Thing")
    for name in ("slowlib", "slowlib_gate"):
        monkeypatch.delitem(sys.modules, name)


def test_a_library_that_was_blocked_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blocked", None)
    assert loaded("blocked", "x") is None and not is_of(1, "blocked", "x")
    assert import_trouble("blocked", "unblock it") == "blocked is not installed: unblock it"


def test_what_a_library_needs_and_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy.py").write_text("import layoutalg_needs_this")
    monkeypatch.syspath_prepend(str(tmp_path))
    said = import_trouble("needy", "pip install needy")
    assert said.startswith("needy is installed but cannot be imported (ModuleNotFoundError: No module named")
