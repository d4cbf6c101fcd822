"""The peers, as functions on our layouts: pycute (nvidia-cutlass) and tensor-layouts, when installed.

Each operation is given as the function that ours and theirs have in common, and converts layouts on the way
in and out.  `make peers` installs both, without their dependencies.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import layoutalg as algebra
from layoutalg.layout import Layout

PEERS = {"pycute": "pycute", "tensor-layouts": "tensor_layouts"}
"""Name -> module."""


def present(peer: str) -> bool:
    """True when the peer is installed."""
    return importlib.util.find_spec(PEERS[peer]) is not None


@dataclass(frozen=True)
class Operation:
    """An operation on `arity` layouts: ours, and its name in each peer (None: it has none)."""

    name: str
    arity: int
    ours: Callable[..., Any]
    pycute: str | None
    tensor_layouts: str | None

    def theirs(self, peer: str) -> Callable[..., Any] | None:
        """The peer's function on the peer's layouts."""
        name = self.pycute if peer == "pycute" else self.tensor_layouts
        return None if name is None else getattr(importlib.import_module(PEERS[peer]), name)


OPERATIONS = (
    Operation("coalesce", 1, algebra.coalesce, "coalesce", "coalesce"),
    Operation("composition", 2, algebra.composition, "composition", "compose"),
    Operation("complement", 1, algebra.complement, "complement", "complement"),
    Operation("right_inverse", 1, algebra.right_inverse, "right_inverse", "right_inverse"),
    Operation("left_inverse", 1, algebra.left_inverse, "left_inverse", "left_inverse"),
    Operation("logical_divide", 2, algebra.logical_divide, "logical_divide", "logical_divide"),
    Operation("zipped_divide", 2, algebra.zipped_divide, "zipped_divide", "zipped_divide"),
    Operation("tiled_divide", 2, algebra.tiled_divide, "tiled_divide", "tiled_divide"),
    Operation("logical_product", 2, algebra.logical_product, "logical_product", "logical_product"),
    Operation("zipped_product", 2, algebra.zipped_product, "zipped_product", "zipped_product"),
    Operation("tiled_product", 2, algebra.tiled_product, "tiled_product", "tiled_product"),
    Operation("blocked_product", 2, algebra.blocked_product, None, "blocked_product"),
    Operation("raked_product", 2, algebra.raked_product, None, "raked_product"),
    Operation("max_common_vector", 2, algebra.max_common_vector, None, "max_common_vector"),
    Operation("nullspace", 1, algebra.nullspace, None, "nullspace"),
)
"""What all have in common, under our name."""


def to_peer(peer: str, layout: Layout) -> Any:
    """The peer's layout of the same shape and stride."""
    return importlib.import_module(PEERS[peer]).Layout(layout.shape, layout.stride)
