"""The operations of the algebra, as `layoutalg` exports them."""

from __future__ import annotations

import inspect

import layoutalg

OTHER_PARTS = tuple(
    f"layoutalg.{part}"
    for part in ("analysis", "arch", "atom", "codegen", "dtype", "kernels", "synthesis", "til")
)
"""Where exports come from that are no part of the algebra: hardware, kernels, tilings of atoms."""

RESULTS = {"Aliasing", "Footprint"}


def algebra() -> list[str]:
    """Names of all exported functions and types of values; errors, aliases and types of results aside."""
    out: list[str] = []
    for name in layoutalg.__all__:
        value = getattr(layoutalg, name)
        error = inspect.isclass(value) and issubclass(value, Exception)
        if callable(value) and not error and not value.__module__.startswith(OTHER_PARTS):
            out.append(name)
    return [name for name in out if name not in RESULTS]
