"""From a layout to an index expression, from a tile program to CUDA text or to NumPy lanes."""

from __future__ import annotations

if __name__ != "layoutalg.codegen":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.codegen")
