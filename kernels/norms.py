"""Norms by name: a record each, which problems, plans, programs, calls and the command read.

    softmax         e^x / sum e^x
    layer_norm      (x - mean) / sqrt(variance + eps) * weight + bias
    rms_norm        x / sqrt(mean x^2 + eps) * weight
    add_rms_norm    the rms norm of x + residual, which is written over the residual

Importing this imports no kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm: its formula by the name of the plain one, its parameters, and whether it `adds` a residual.

    A residual lies as the source does, is added to it first, and becomes the sum.
    """

    formula: str
    parameters: tuple[str, ...] = ()
    adds: bool = False


NORMS: Mapping[str, Norm] = MappingProxyType(
    {
        "softmax": Norm("softmax"),
        "layer_norm": Norm("layer_norm", ("weight", "bias")),
        "rms_norm": Norm("rms_norm", ("weight",)),
        "add_rms_norm": Norm("rms_norm", ("weight",), adds=True),
    }
)
"""The norms."""
