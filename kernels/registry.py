"""Every family of kernels by its name on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from layoutalg.errors import check_choice
from layoutalg.kernels.elementwise import ELEMENTWISE_FAMILIES
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import GEMM_FAMILIES
from layoutalg.kernels.ladder import LADDERS
from layoutalg.kernels.move import MOVE_FAMILIES
from layoutalg.kernels.rowwise import CROSS_ENTROPY, ROWWISE_FAMILIES

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: replace(family, steps=LADDERS.get(family.name, {}))
        for room in (MOVE_FAMILIES, ROWWISE_FAMILIES, (CROSS_ENTROPY,), ELEMENTWISE_FAMILIES, GEMM_FAMILIES)
        for family in room
    }
)
"""The families, read only."""


def find_family(name: str) -> Family:
    """The family of a name.  Raises UnknownNameError.

    >>> find_family("transpose").name, find_family("gemm-sm80").name, find_family("softmax").name
    ('transpose', 'gemm-sm80', 'softmax')
    """
    check_choice("kernel family", name, FAMILIES)
    return FAMILIES[name]
