"""Families of kernels written as tile programs: copy and transpose."""

from __future__ import annotations

if __name__ != "layoutalg.kernels":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.kernels")
