"""FAMILIES: every family of kernels by name, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.errors import UnknownNameError
from layoutalg.kernels import copy_family, transpose_family, transpose_plan
from layoutalg.kernels.family import Family
from layoutalg.kernels.matrix import reference

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        f.name: f
        for f in (
            Family(
                "tiled_copy", "dst[m, n] = src[m, n] with leading dimensions", copy_family.problem,
                copy_family.configs, copy_family.build, reference, copy_family.predict,
            ),
            Family(
                "transpose", "dst[n, m] = src[m, n] with leading dimensions", transpose_family.problem,
                transpose_plan.configs, transpose_family.build, reference, transpose_plan.predict,
            ),
        )
    }
)  # fmt: skip
"""Every family by name, read only."""


def find_family(name: str) -> Family:
    """The family of a name.  Raises UnknownNameError.

    >>> find_family("transpose").name
    'transpose'
    """
    found = FAMILIES.get(name)
    if found is None:
        raise UnknownNameError("kernel family", str(name), FAMILIES)
    return found
