"""layoutalg: analyse, generate and prove GPU memory layouts.

>>> import layoutalg as la
>>> tile = la.composition(la.Swizzle(3, 3, 3), la.Layout((8, 64), (64, 1)))
>>> print(tile, la.is_bijective(tile))
Sw<3,3,3> o 0 o (8,64):(64,1) True

Layouts and their algebra are here at once; everything else is imported when it is first asked for, so that
`import layoutalg` stays cheap: `layoutalg.parse`, `layoutalg.analysis`, `layoutalg.synthesis`, ...
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from layoutalg.algebra import (
    Aliasing,
    Footprint,
    Tiler,
    aliasing,
    append,
    blocked_product,
    ceil_div,
    coalesce,
    coalesce_x,
    complement,
    composition,
    cosize,
    crd2crd,
    crd2idx,
    cycles,
    depth,
    dice,
    domain_offset,
    downcast,
    extremes,
    filter,
    filter_zeros,
    find_collision,
    find_coordinate,
    find_difference,
    find_offset_bit,
    find_overlap,
    flat_divide,
    flat_product,
    flatten,
    footprint,
    gaps,
    group,
    idx2crd,
    image_size,
    is_bijective,
    is_contiguous,
    is_injective,
    is_surjective,
    left_inverse,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    make_layout,
    make_layout_like,
    make_ordered_layout,
    max_alignment,
    max_common_layout,
    max_common_vector,
    normal_form,
    nullspace,
    order,
    overlap,
    prepend,
    raked_product,
    rank,
    recast_layout,
    replace,
    right_inverse,
    same_function,
    select,
    shape_div,
    size,
    slice_,
    slice_and_offset,
    sort,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    unflatten,
    upcast,
    zipped_divide,
    zipped_product,
)
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    CompileError,
    DivisibilityError,
    IRError,
    LayoutAlgError,
    MismatchError,
    NotInjectiveError,
    NotLinearError,
    ParseError,
    ResourceError,
    ShapeError,
    SimulationError,
    UndecidedError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.int_tuple import IntTuple, product
from layoutalg.layout import Layout, concat, make_identity_layout, modes
from layoutalg.scaled_basis import ArithTuple, ScaledBasis, make_basis_like
from layoutalg.shapes import compatible, congruent, weakly_congruent
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle, Swizzles, swizzle_inverse
from layoutalg.symbols import with_assumptions

if TYPE_CHECKING:
    from layoutalg import analysis as analysis
    from layoutalg import arch as arch
    from layoutalg import atom as atom
    from layoutalg import atom_effect as atom_effect
    from layoutalg import cli as cli
    from layoutalg import codegen as codegen
    from layoutalg import draw as draw
    from layoutalg import dtype as dtype
    from layoutalg import explanations as explanations
    from layoutalg import f2 as f2
    from layoutalg import hostcc as hostcc
    from layoutalg import index_text as index_text
    from layoutalg import kernels as kernels
    from layoutalg import linear as linear
    from layoutalg import notation as notation
    from layoutalg import strategies as strategies
    from layoutalg import synthesis as synthesis
    from layoutalg import tensor as tensor
    from layoutalg import testing as testing
    from layoutalg import tiled_copy as tiled_copy
    from layoutalg import tiled_mma as tiled_mma
    from layoutalg import tiling as tiling
    from layoutalg.analysis.ask import analyze
    from layoutalg.arch import COPY_ATOMS, MMA_ATOMS, find_copy_atom, find_mma_atom
    from layoutalg.atom import CopyAtom, MMAAtom
    from layoutalg.dtype import DTYPES, DType
    from layoutalg.explanations import explain
    from layoutalg.f2 import to_f2
    from layoutalg.kernels import layer_norm, permute, reduce, relayout, softmax, transpose
    from layoutalg.linear import LinearLayout
    from layoutalg.notation import parse, parse_int_tuple, parse_tiler
    from layoutalg.tensor import Tensor, copy_tensor
    from layoutalg.tiled_copy import (
        TiledCopy,
        make_tiled_copy,
        make_tiled_copy_A,
        make_tiled_copy_B,
        make_tiled_copy_C,
        make_tiled_copy_C_atom,
        make_tiled_copy_D,
        make_tiled_copy_S,
        tile_copy,
    )
    from layoutalg.tiled_mma import TiledMMA, make_tiled_mma
    from layoutalg.tiling import make_fragment_like

__version__ = "0.1.0"

_MODULES = frozenset(
    (
        "analysis", "arch", "atom", "atom_effect", "cli", "codegen", "draw", "dtype", "explanations",
        "f2", "hostcc", "index_text", "kernels", "linear", "notation", "strategies",
        "synthesis", "tensor", "testing", "tiled_copy", "tiled_mma", "tiling",
    )
)  # fmt: skip
"""Submodules that are imported when they are first used."""

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "COPY_ATOMS": "arch",
        "CopyAtom": "atom",
        "DTYPES": "dtype",
        "DType": "dtype",
        "LinearLayout": "linear",
        "MMAAtom": "atom",
        "MMA_ATOMS": "arch",
        "Tensor": "tensor",
        "TiledCopy": "tiled_copy",
        "TiledMMA": "tiled_mma",
        "analyze": "analysis.ask",
        "copy_tensor": "tensor",
        "explain": "explanations",
        "find_copy_atom": "arch",
        "find_mma_atom": "arch",
        "layer_norm": "kernels",
        "make_fragment_like": "tiling",
        "make_tiled_copy": "tiled_copy",
        "make_tiled_copy_A": "tiled_copy",
        "make_tiled_copy_B": "tiled_copy",
        "make_tiled_copy_C": "tiled_copy",
        "make_tiled_copy_C_atom": "tiled_copy",
        "make_tiled_copy_D": "tiled_copy",
        "make_tiled_copy_S": "tiled_copy",
        "make_tiled_mma": "tiled_mma",
        "parse": "notation",
        "parse_int_tuple": "notation",
        "parse_tiler": "notation",
        "permute": "kernels",
        "reduce": "kernels",
        "relayout": "kernels",
        "softmax": "kernels",
        "tile_copy": "tiled_copy",
        "to_f2": "f2",
        "transpose": "kernels",
    }
)
"""Names that are imported from these modules when they are first used."""

__all__ = [
    "COPY_ATOMS",
    "DTYPES",
    "MMA_ATOMS",
    "Aliasing",
    "AlignmentError",
    "AnyLayout",
    "ArgumentTypeError",
    "ArithTuple",
    "CompileError",
    "ComposedLayout",
    "CopyAtom",
    "DType",
    "DivisibilityError",
    "Footprint",
    "IRError",
    "IntTuple",
    "Layout",
    "LayoutAlgError",
    "LinearLayout",
    "MMAAtom",
    "MismatchError",
    "NotInjectiveError",
    "NotLinearError",
    "ParseError",
    "ResourceError",
    "ScaledBasis",
    "ShapeError",
    "SimulationError",
    "Swizzle",
    "Swizzles",
    "Tensor",
    "TiledCopy",
    "TiledMMA",
    "Tiler",
    "UndecidedError",
    "UnknownNameError",
    "UnsupportedError",
    "aliasing",
    "analyze",
    "append",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "coalesce_x",
    "compatible",
    "complement",
    "composition",
    "concat",
    "congruent",
    "copy_tensor",
    "cosize",
    "crd2crd",
    "crd2idx",
    "cycles",
    "depth",
    "dice",
    "domain_offset",
    "downcast",
    "explain",
    "extremes",
    "filter",
    "filter_zeros",
    "find_collision",
    "find_coordinate",
    "find_copy_atom",
    "find_difference",
    "find_mma_atom",
    "find_offset_bit",
    "find_overlap",
    "flat_divide",
    "flat_product",
    "flatten",
    "footprint",
    "gaps",
    "group",
    "idx2crd",
    "image_size",
    "is_bijective",
    "is_contiguous",
    "is_injective",
    "is_surjective",
    "layer_norm",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_basis_like",
    "make_fragment_like",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_ordered_layout",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_C_atom",
    "make_tiled_copy_D",
    "make_tiled_copy_S",
    "make_tiled_mma",
    "max_alignment",
    "max_common_layout",
    "max_common_vector",
    "modes",
    "normal_form",
    "nullspace",
    "order",
    "overlap",
    "parse",
    "parse_int_tuple",
    "parse_tiler",
    "permute",
    "prepend",
    "product",
    "raked_product",
    "rank",
    "recast_layout",
    "reduce",
    "relayout",
    "replace",
    "right_inverse",
    "same_function",
    "select",
    "shape_div",
    "size",
    "slice_",
    "slice_and_offset",
    "softmax",
    "sort",
    "swizzle_inverse",
    "tile_copy",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "to_f2",
    "transpose",
    "unflatten",
    "upcast",
    "weakly_congruent",
    "with_assumptions",
    "zipped_divide",
    "zipped_product",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"layoutalg.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"layoutalg.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'layoutalg' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is there: help() asks for all of it, and `strategies` is there only with hypothesis."""
    from importlib.util import find_spec

    absent = () if find_spec("hypothesis") else ("strategies",)
    return sorted({*globals(), *_MODULES, *_NAMES}.difference(absent))
