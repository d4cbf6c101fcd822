"""Imports that wait: of names until they are used, and of libraries that may be absent or broken.

    later(module, places)           the names of a module that are imported when they are first used
    loaded("torch", "Tensor")       the class, where that library is loaded; nothing is imported to find out
    import_trouble("cupy", hint)    why a library cannot be imported here, in a sentence; "" where it can
    has_numpy()                     whether NumPy is here: many instructions are then counted at once

The idea.  A module is in `sys.modules` from the moment its import begins, without the names it will
define: a thread that finds it there must not count on them.  A value is of a class only where the class
exists, so that a name which is not there yet answers like a library that is not loaded.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loaded(library: str, name: str) -> Any:
    """The object that a loaded library calls `name`; None where neither is there, or not yet.

    >>> loaded("json", "dumps")([1]), loaded("json", "nothing"), loaded("no_such_library", "name")
    ('[1]', None, None)
    """
    return getattr(sys.modules.get(library), name, None)


def is_of(value: object, library: str, name: str) -> bool:
    """Whether a value is of a library's class; the library is not imported to find out.

    >>> from fractions import Fraction
    >>> is_of(Fraction(1, 2), "fractions", "Fraction"), is_of(Fraction(1, 2), "no_such_library", "Fraction")
    (True, False)
    """
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(value, kind)


def import_trouble(library: str, hint: str) -> str:
    """Why a library cannot be imported, as a sentence without its full stop; "" where it can.

    `hint` says how to get one that is not installed.

    >>> import_trouble("json", "it comes with Python")
    ''
    >>> import_trouble("no_such_library", "pip install it")
    'no_such_library is not installed: pip install it'
    """
    try:
        importlib.import_module(library)
    except Exception as error:  # noqa: BLE001 - another project's code runs, and may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == library:
            return f"{library} is not installed: {hint}"
        message = " ".join(str(error).split()) or "no reason given"
        return f"{library} is installed but cannot be imported ({type(error).__name__}: {message[:200]})"
    return ""


@functools.cache
def has_numpy() -> bool:
    """Whether NumPy can be imported; what counts with it has a definition that counts without.

    >>> has_numpy()
    True
    """
    try:
        importlib.import_module("numpy")
    except ImportError:
        return False
    return True


def later(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that has names from other modules, each found once.

    `places` has the names of each module, with blanks between; a module stands as in the package, or whole.
    Raises AttributeError for other names.

    >>> later("layoutalg.f2", {"linear": "LinearLayout"})("LinearLayout").__module__
    'layoutalg.f2.linear'
    >>> later("layoutalg", {})("nowhere")
    Traceback (most recent call last):
    ...
    AttributeError: module 'layoutalg' has no attribute 'nowhere'
    """
    homes = {name: module for module, names in places.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name] if homes[name].startswith("layoutalg.") else f"{package}.{homes[name]}"
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
