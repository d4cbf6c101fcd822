"""The kernel language: tensors, fragments, tiled copies, pipelines; running and verifying a program.

tensor      Tensor: a view of a buffer by coordinates; local_tile, partition
fragment    Fragment: the registers of a thread, with the layout of a partition
values      arithmetic on fragments: v * alpha + b; choices, conversions, numbers taken as indices
reducing    reductions over lanes, by a named operation or a join of one's own
copying     tiled copies: load, store and copy partitions, under predicates; atomics
ring        pipeline: a circular buffer of shared tiles that cp.async or TMA fills
warpgroup   products of wgmma: tensors in shared memory as their operands
asynchronous  tensor maps, mbarriers, TMA, roles (warp specialization), clusters
builder     KernelBuilder: how a program is written
run         simulate, compile and launch, with parameters by name
verification   verify: a program on random sizes, which cover its paths, and values, compared with NumPy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.codegen.language.builder import KernelBuilder
from layoutalg.codegen.language.copying import ThreadSlice, Where
from layoutalg.codegen.language.fragment import Fragment
from layoutalg.codegen.language.ring import TmaRing, pipeline
from layoutalg.codegen.language.tensor import Side, Tensor, local_tile, partition, whole
from layoutalg.codegen.language.values import Scalar, converted
from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.codegen.language.run import Kernel, Program, compile, launch, simulate, words
    from layoutalg.codegen.language.verification import verify

_OF_RUN = "Kernel Program compile launch simulate words"

__all__ = [
    "Fragment",
    "Kernel",
    "KernelBuilder",
    "Program",
    "Scalar",
    "Side",
    "Tensor",
    "ThreadSlice",
    "TmaRing",
    "Where",
    "compile",
    "converted",
    "launch",
    "local_tile",
    "partition",
    "pipeline",
    "simulate",
    "verify",
    "whole",
    "words",
]

__getattr__ = later(__name__, {"run": _OF_RUN, "verification": "verify"})
