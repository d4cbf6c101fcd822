"""The peers as functions on our layouts, when installed: pycute (nvidia-cutlass), tensor-layouts, CuTe DSL.

Each operation is given as the function that ours and theirs have in common, and converts layouts on the way
in and out.  `make peers` installs the first two, without their dependencies; CuTe DSL
(`pip install nvidia-cutlass-dsl`) has its algebra only while a function is traced.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from layoutalg.layout import Layout, flatten_tree
from tests.judges.exports import PUBLIC as algebra

PEERS = {"pycute": "pycute", "tensor-layouts": "tensor_layouts"}
"""Name -> module."""

DSL = "CuTe DSL"
"""The peer whose operations run inside of `traced` alone."""

DSL_OPERATIONS = ("coalesce", "composition", "complement", "right_inverse", "left_inverse")
"""Its divides and products end the process by SIGFPE on some operands, so that they are not counted."""


def present(peer: str) -> bool:
    """True when the peer is installed."""
    return importlib.util.find_spec("nvidia_cutlass_dsl" if peer == DSL else PEERS[peer]) is not None


def traced(work: Callable[[], Any]) -> Any:
    """The result of `work`, which runs while CuTe DSL traces a function."""
    cute = importlib.import_module("cutlass.cute")
    results = []

    def run() -> None:
        results.append(work())

    cute.jit(run, preprocess=False)()
    return results[0]


def refusals(peer: str) -> tuple[type[Exception], ...]:
    """Exceptions by which a peer refuses operands."""
    usual = (ValueError, TypeError, AssertionError, NotImplementedError, ZeroDivisionError, IndexError)
    return (*usual, importlib.import_module("cutlass._mlir.ir").MLIRError) if peer == DSL else usual


@dataclass(frozen=True)
class Answer:
    """A layout as CuTe DSL returns it, of any extents; ours refuses an extent of 0."""

    shape: Any
    stride: Any

    def size(self) -> int:
        """The number of coordinates."""
        return math.prod(flatten_tree(self.shape))

    def __call__(self, index: int) -> int:
        total = 0
        for extent, stride in zip(flatten_tree(self.shape), flatten_tree(self.stride), strict=True):
            total += index % extent * stride
            index //= extent
        return total


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
        if peer == DSL:
            return self.in_dsl if self.name in DSL_OPERATIONS else None
        name = self.pycute if peer == "pycute" else self.tensor_layouts
        return None if name is None else getattr(importlib.import_module(PEERS[peer]), name)

    def in_dsl(self, *operands: Any) -> Answer:
        """The operation in CuTe DSL; its complement needs a size, which is that of the operand's offsets."""
        cute = importlib.import_module("cutlass.cute")
        more = (cute.cosize(operands[0]),) if self.name == "complement" else ()
        got = getattr(cute, self.name)(*operands, *more)
        return Answer(got.shape, got.stride)


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
    if peer == DSL:
        return importlib.import_module("cutlass.cute").make_layout(layout.shape, stride=layout.stride)
    return importlib.import_module(PEERS[peer]).Layout(layout.shape, layout.stride)
