"""Names that have moved: each still works where it was, and says where it is now.

Names of a module are found by its `__getattr__`, modules that are imported by their old path by a finder that
Python asks last.

>>> find = moved("layoutalg.analysis", {"occupancy_of": "layoutalg.model"})
>>> find("occupancy_of").__module__
'layoutalg.model.occupancy'
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

MODULES: Mapping[str, str] = MappingProxyType(
    {
        "layoutalg.analysis.fragments": "layoutalg.registers.fragments",
        "layoutalg.atom": "layoutalg.atoms.atom",
        "layoutalg.atom_effect": "layoutalg.atoms.effect",
        "layoutalg.explanations": "layoutalg.explanation.explanations",
        "layoutalg.hostcc": "layoutalg.testing.hostcc",
        "layoutalg.index_text": "layoutalg.notation.index_text",
        "layoutalg.linear": "layoutalg.f2.linear",
        "layoutalg.strategies": "layoutalg.testing.strategies",
        "layoutalg.synthesis.checker": "layoutalg.synthesis.proof.checker",
        "layoutalg.synthesis.conversion": "layoutalg.registers.conversion",
        "layoutalg.tensor": "layoutalg.atoms.tensor",
        "layoutalg.tiled_copy": "layoutalg.atoms.tiled_copy",
        "layoutalg.tiled_mma": "layoutalg.atoms.tiled_mma",
        "layoutalg.tiling": "layoutalg.atoms.tiling",
    }
)
"""Modules that were public, and where each is now."""


def moved(module: str, places: Mapping[str, str], frames: int = 1) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names are in other modules now: found there, with a warning.

    Its modules that have moved are found as well.  The warning is about the line that asks, so many `frames`
    above: Python shows it where that line is the user's own.  Raises AttributeError for other names.

    >>> moved("layoutalg", {})("nowhere")
    Traceback (most recent call last):
    ...
    AttributeError: module 'layoutalg' has no attribute 'nowhere'
    """

    def find(name: str) -> Any:
        whole = MODULES.get(f"{module}.{name}")
        place = whole or places.get(name)
        if place is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", whole or f"{place}.{name}", 2 + frames)
        found = importlib.import_module(place)
        return found if whole else getattr(found, name)

    return find


def _warn(name: str, now: str, stacklevel: int) -> None:
    import warnings

    warnings.warn(f"{name} is now {now}", DeprecationWarning, stacklevel=stacklevel)


class MovedModules:
    """Finds the modules of MODULES, for `from layoutalg.index_text import parse_index`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """What Python asks of a finder: None for every other name."""
        if name not in MODULES:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type]  # a Loader by its two methods

    def create_module(self, spec: object) -> None:
        """Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Let every name of the module be that of the module that stands for it."""
        place = MODULES[module.__name__]
        _warn(module.__name__, place, 3)
        vars(module)["__getattr__"] = partial(getattr, importlib.import_module(place))


if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.append(MovedModules())
