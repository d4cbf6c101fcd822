"""`import layoutalg`: what it offers; what it loads is in test_packaging."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import layoutalg

SOURCE = Path(layoutalg.__file__)


def test_every_name_is_there() -> None:
    names = layoutalg.__all__
    assert len(set(names)) == len(names) <= 70
    for name in names:
        assert getattr(layoutalg, name) is not None
    assert set(names) <= set(dir(layoutalg))
    assert str(layoutalg.layout.filter(layoutalg.Layout((4, 2), (0, 1)))) == "2:1"


def test_type_checkers_see_what_is_loaded_later() -> None:
    """The block for type checkers names the same things as the table for the interpreter."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    seen = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    wanted = {("layoutalg", module) for module in layoutalg._MODULES}
    wanted |= {
        (f"layoutalg.{module}", name) for module, names in layoutalg._PLACES.items() for name in names.split()
    }
    assert seen == wanted


def test_loaded_later_is_loaded() -> None:
    for module, names in layoutalg._PLACES.items():
        for name in names.split():
            assert getattr(layoutalg, name) is getattr(import_module(f"layoutalg.{module}"), name)
    with pytest.raises(AttributeError, match="module 'layoutalg' has no attribute 'nothing'"):
        layoutalg.nothing  # noqa: B018
