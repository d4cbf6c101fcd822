"""layoutalg: analyse, generate and prove GPU memory layouts.

>>> import layoutalg as la
>>> tile = la.composition(la.Swizzle(3, 3, 3), la.Layout((8, 64), (64, 1)))
>>> print(tile, la.is_bijective(tile))
Sw<3,3,3> o 0 o (8,64):(64,1) True

Layouts and their composition are here at once; everything else is imported when it is first used, so
that `import layoutalg` stays cheap: `layoutalg.logical_divide`, `layoutalg.parse`, `layoutalg.analysis`, ...

The packages, lowest layer first.  `help("layoutalg.decide")` lists the files of one:

    layout       what a layout is: IntTuple, Layout, Swizzle, ComposedLayout; their modes, slices and sizes
    reading      functions, expressions and indices in C and Python, read as terms; none is executed
    compose      composition of layouts, and their normal form
    f2           linear algebra over F2: the matrix of a layout, LinearLayout
    decide       questions about a layout as a function: cosize, injective or not, equal or not, footprint
    algebra      complement, inverses, divides, products, partitions, recasts
    arch         hardware facts: ADD AN ARCHITECTURE OR A MEMORY INSTRUCTION THERE
    notation     parsing and printing: CuTe notation, C++, Triton, NumPy, ...
    atoms        MMA and copy atoms, TiledMMA, TiledCopy, Tensor: ADD AN ATOM THERE
    analysis     what an access costs: bank conflicts and phases, sectors; Access, analyze
    legality     whether TMA and wgmma accept a layout, and why one is refused
    model        estimates: occupancy, roofline, locality in L2
    symbolic     the leading dimensions, pads and bases for which an access is free of conflicts
    synthesis    the search for a layout without conflicts, and the proof of its certificates
    registers    values in registers: fragments, reductions, conversions of register layouts
    explanation  derivations of results, step by step, in words
    draw         pictures of layouts, swizzles, accesses and atoms
    testing      checks and hypothesis strategies for tests of your own
    codegen      index expressions, tile programs, CUDA text, the simulator
    indexing     index functions: printed from a layout in six languages, and read back to one
    page         HTML pages: a self-contained report of layouts; explore.html, the library in a browser
    profiling    Nsight Compute reports: which accesses conflict, which counts are not conflicts, the fix
    source       existing CUDA sources: every memory access of a kernel, with its cost
    checks       checks for CI, from a file: limits on tiles, accesses, index functions and kernels
    kernels      families of kernels: plans, predictions, verification
    cli          the `layoutalg` command

Modules: ops (kernels called on arrays), widgets (sliders for a notebook), errors, dtype, budget (work of
searches), limits (the most that a request may ask for), answers (JSON of records), glossary; and
for internal use: notebook, optional, tools.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from layoutalg.compose import composition, normal_form, rotated_layout
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzle,
    Swizzles,
    coalesce,
    concat,
    crd2idx,
    flatten,
    group,
    idx2crd,
    make_identity_layout,
    make_layout,
    rank,
    select,
    size,
    slice_and_offset,
)
from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg import algebra as algebra
    from layoutalg import analysis as analysis
    from layoutalg import arch as arch
    from layoutalg import atoms as atoms
    from layoutalg import checks as checks
    from layoutalg import cli as cli
    from layoutalg import codegen as codegen
    from layoutalg import decide as decide
    from layoutalg import draw as draw
    from layoutalg import dtype as dtype
    from layoutalg import explanation as explanation
    from layoutalg import f2 as f2
    from layoutalg import indexing as indexing
    from layoutalg import kernels as kernels
    from layoutalg import legality as legality
    from layoutalg import model as model
    from layoutalg import notation as notation
    from layoutalg import ops as ops
    from layoutalg import page as page
    from layoutalg import profiling as profiling
    from layoutalg import reading as reading
    from layoutalg import registers as registers
    from layoutalg import source as source
    from layoutalg import symbolic as symbolic
    from layoutalg import synthesis as synthesis
    from layoutalg import testing as testing
    from layoutalg import widgets as widgets
    from layoutalg.algebra import (
        blocked_product,
        complement,
        downcast,
        flat_divide,
        left_inverse,
        local_partition,
        local_tile,
        logical_divide,
        logical_product,
        make_layout_like,
        make_ordered_layout,
        max_common_vector,
        raked_product,
        recast_layout,
        right_inverse,
        slice_,
        tile_to_shape,
        tiled_divide,
        upcast,
        zipped_divide,
        zipped_product,
    )
    from layoutalg.analysis import Access, analyze
    from layoutalg.atoms import (
        Tensor,
        find_copy_atom,
        find_mma_atom,
        make_tiled_copy,
        make_tiled_copy_A,
        make_tiled_copy_B,
        make_tiled_copy_C,
        make_tiled_mma,
    )
    from layoutalg.decide import (
        cosize,
        find_collision,
        footprint,
        image_size,
        is_bijective,
        is_injective,
        same_function,
    )
    from layoutalg.explanation import explain
    from layoutalg.f2 import LinearLayout, to_f2
    from layoutalg.indexing import code, identify
    from layoutalg.notation import convert, parse
    from layoutalg.source import evaluate
    from layoutalg.synthesis import check_certificate, synthesize

__version__ = "0.1.0"

_MODULES = frozenset(
    (
        "algebra", "analysis", "arch", "atoms", "checks", "cli", "codegen", "decide", "draw", "dtype",
        "explanation", "f2", "indexing", "kernels", "legality", "model", "notation", "ops", "page",
        "profiling", "reading", "registers", "source", "symbolic", "synthesis", "testing", "widgets",
    )
)  # fmt: skip
"""Rooms that are imported when they are first used."""

_PLACES: Mapping[str, str] = MappingProxyType(
    {
        "algebra": (
            "blocked_product complement downcast flat_divide left_inverse local_partition local_tile "
            "logical_divide logical_product make_layout_like make_ordered_layout max_common_vector "
            "raked_product recast_layout right_inverse slice_ tile_to_shape tiled_divide upcast "
            "zipped_divide zipped_product"
        ),
        "analysis": "Access analyze",
        "atoms": (
            "Tensor find_copy_atom find_mma_atom make_tiled_copy make_tiled_copy_A make_tiled_copy_B "
            "make_tiled_copy_C make_tiled_mma"
        ),
        "decide": "cosize find_collision footprint image_size is_bijective is_injective same_function",
        "explanation": "explain",
        "f2": "LinearLayout to_f2",
        "indexing": "code identify",
        "notation": "convert parse",
        "source": "evaluate",
        "synthesis": "check_certificate synthesize",
    }
)
"""Names that are imported from these rooms when they are first used."""

_find = later(__name__, _PLACES)

__all__ = [
    "Access", "AnyLayout", "ComposedLayout", "IntTuple", "Layout", "LayoutAlgError", "LinearLayout",
    "Swizzle", "Swizzles", "Tensor", "analyze", "blocked_product", "check_certificate", "coalesce", "code",
    "complement", "composition", "concat", "convert", "cosize", "crd2idx", "downcast", "evaluate", "explain",
    "find_collision", "find_copy_atom", "find_mma_atom", "flat_divide", "flatten", "footprint", "group",
    "identify", "idx2crd", "image_size", "is_bijective", "is_injective", "left_inverse", "local_partition",
    "local_tile", "logical_divide", "logical_product", "make_identity_layout", "make_layout",
    "make_layout_like", "make_ordered_layout", "make_tiled_copy", "make_tiled_copy_A", "make_tiled_copy_B",
    "make_tiled_copy_C", "make_tiled_mma", "max_common_vector", "normal_form", "parse", "raked_product",
    "rank", "recast_layout", "right_inverse", "rotated_layout", "same_function", "select", "size", "slice_",
    "slice_and_offset", "synthesize", "tile_to_shape", "tiled_divide", "to_f2", "upcast", "zipped_divide",
    "zipped_product",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"layoutalg.{name}") if name in _MODULES else _find(name)


def __dir__() -> list[str]:
    """Return the public names: those of `__all__`, and the rooms."""
    return sorted({*__all__, *_MODULES, "__all__", "__doc__", "__name__", "__version__"})
