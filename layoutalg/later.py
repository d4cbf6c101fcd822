"""Names that are imported when they are first asked for: what an importing module does not pay for.

>>> find = later("layoutalg.f2", {"LinearLayout": "layoutalg.f2.linear"})
>>> find("LinearLayout").__module__
'layoutalg.f2.linear'
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def later(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that has its names in `places` from other modules, each found once.

    Raises AttributeError for other names.

    >>> later("layoutalg", {})("nowhere")
    Traceback (most recent call last):
    ...
    AttributeError: module 'layoutalg' has no attribute 'nowhere'
    """

    def find(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(place), name)
        setattr(sys.modules[module], name, found)
        return found

    return find
