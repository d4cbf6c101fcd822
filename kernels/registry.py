"""Every family of kernels by its name on the command line; its room is imported when it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from layoutalg.codegen.instr import FUNCTIONS
from layoutalg.errors import check_choice
from layoutalg.kernels.family import Family
from layoutalg.kernels.norms import NORMS

_ROOMS = {
    "move.MOVE_FAMILIES": "tiled_copy transpose permute",
    "rowwise.ROWWISE_FAMILIES": " ".join(
        ("sum mean max min prod argmax argmin var logsumexp", *NORMS, "cross_entropy")
    ),
    "elementwise.ELEMENTWISE_FAMILIES": " ".join((*FUNCTIONS, "add")),
    "attention.ATTENTION_FAMILIES": "attention",
    "quantize.QUANTIZE_FAMILIES": "quantize_nvfp4 quantize_mxfp8 quantize_mxfp4",
    "gemm.GEMM_FAMILIES": "gemm-simt gemm-sm75 gemm-sm80 gemm-sm90 gemv",
}
"""The names of the families by the room, and the name in it, that has their records."""

_PLACES = {name: place for place, names in _ROOMS.items() for name in names.split()}


@functools.cache
def _room(place: str) -> Mapping[str, Family]:
    """The families of a room by their names."""
    module, name = place.split(".")
    families: tuple[Family, ...] = getattr(import_module(f"layoutalg.kernels.{module}"), name)
    return {family.name: family for family in families}


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


def room_of(name: str) -> str:
    """The room of a family.

    >>> room_of("softmax")
    'rowwise'
    """
    return _PLACES[name].partition(".")[0]


LADDERS = ("gemm-simt", "gemm-sm75", "gemm-sm80", "gemm-sm90")
"""The families that have steps."""


def find_steps(name: str) -> Mapping[str, Any]:
    """The published steps of a family's kernel: configurations by name, which its launches take.

    Raises UnknownNameError for a family that has none.

    >>> list(find_steps("gemm-simt"))[:3]
    ['v1', 'v2', 'v3']
    """
    check_choice("family with steps", name, LADDERS)
    steps: Mapping[str, Any] = import_module("layoutalg.kernels.ladder").LADDERS[name]
    return steps
