"""Names that have moved: each still works where it was, and says where it is now.

>>> find = moved("layoutalg.analysis", {"occupancy_of": "layoutalg.model"})
>>> find("occupancy_of").__module__
'layoutalg.model.occupancy'
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def moved(module: str, places: Mapping[str, str], frames: int = 1) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names are in other modules now: found there, with a warning.

    A place that begins with "module " is the module itself.  The warning is about the line that asks, so many
    `frames` above: Python shows it where that line is the user's own.  Raises AttributeError for other names.

    >>> moved("layoutalg", {})("nowhere")
    Traceback (most recent call last):
    ...
    AttributeError: module 'layoutalg' has no attribute 'nowhere'
    """

    def find(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        import warnings

        is_module = place.startswith("module ")
        place = place.removeprefix("module ")
        where = place if is_module else f"{place}.{name}"
        warnings.warn(f"{module}.{name} is now {where}", DeprecationWarning, stacklevel=1 + frames)
        found = importlib.import_module(place)
        return found if is_module else getattr(found, name)

    return find
