"""Every family of kernels by its name on the command line; its room is imported when it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from layoutalg.codegen.instr import FUNCTIONS
from layoutalg.errors import check_choice
from layoutalg.kernels.family import Family

_ROOMS = {
    "move.MOVE_FAMILIES": "tiled_copy transpose permute",
    "rowwise.ROWWISE_FAMILIES": (
        "sum mean max min prod argmax argmin var logsumexp softmax layer_norm rms_norm"
    ),
    "rowwise.CROSS_ENTROPY": "cross_entropy",
    "elementwise.ELEMENTWISE_FAMILIES": " ".join((*FUNCTIONS, "add")),
    "gemm.GEMM_FAMILIES": "gemm-simt gemm-sm75 gemm-sm80 gemm-sm90 gemv",
}
"""The names of the families by the room, and the name in it, that has their records."""

_PLACES = {name: place for place, names in _ROOMS.items() for name in names.split()}


@functools.cache
def _room(place: str) -> Mapping[str, Family]:
    """The families of a room by their names, those of matrix products with the steps of their ladders."""
    module, name = place.split(".")
    found: Family | tuple[Family, ...] = getattr(import_module(f"layoutalg.kernels.{module}"), name)
    families = {family.name: family for family in ((found,) if isinstance(found, Family) else found)}
    if module != "gemm":
        return families
    from layoutalg.kernels.ladder import LADDERS

    return {name: replace(family, steps=LADDERS.get(name, {})) for name, family in families.items()}


class _Families(Mapping[str, Family]):
    """The families by their names, read only."""

    def __getitem__(self, name: str) -> Family:
        return _room(_PLACES[name])[name]

    def __contains__(self, name: object) -> bool:
        return name in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


FAMILIES: Mapping[str, Family] = _Families()
"""The families, read only."""


def find_family(name: str) -> Family:
    """The family of a name.  Raises UnknownNameError.

    >>> find_family("transpose").name, find_family("gemm-sm80").name, find_family("softmax").name
    ('transpose', 'gemm-sm80', 'softmax')
    """
    check_choice("kernel family", name, FAMILIES)
    return FAMILIES[name]
