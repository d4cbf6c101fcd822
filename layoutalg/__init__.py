"""layoutalg: analyse, generate and prove GPU memory layouts.

>>> import layoutalg as la
>>> tile = la.composition(la.Swizzle(3, 3, 3), la.Layout((8, 64), (64, 1)))
>>> print(tile, la.is_bijective(tile))
Sw<3,3,3> o 0 o (8,64):(64,1) True

Layouts and their composition are here at once; everything else is imported when it is first asked for, so
that `import layoutalg` stays cheap: `layoutalg.logical_divide`, `layoutalg.parse`, `layoutalg.analysis`, ...

The packages, lowest layer first.  `help("layoutalg.decide")` lists the files of one:

    layout       what a layout is: IntTuple, Layout, Swizzle, ComposedLayout; their modes, slices and sizes
    compose      composition of layouts, and their normal form
    f2           linear algebra over F2: the matrix of a layout, LinearLayout
    decide       questions about a layout as a function: cosize, injective or not, equal or not, footprint
    algebra      complement, inverses, divides, products, partitions, recasts
    arch         hardware facts: ADD AN ARCHITECTURE OR A MEMORY INSTRUCTION THERE
    notation     parsing and printing: CuTe notation, C++, Triton, NumPy, ...; index expressions
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

Single modules: ops (kernels called on arrays), widgets (sliders for a notebook), errors, dtype, budget
(limits on the work of searches), answers (JSON of records), glossary; and for internal use: later,
notebook, optional, tools.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from layoutalg.compose import Tiler, composition, normal_form, rotated_layout
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
from layoutalg.layout import (
    AnyLayout,
    ArithTuple,
    ComposedLayout,
    IntTuple,
    Layout,
    ScaledBasis,
    Swizzle,
    Swizzles,
    append,
    ceil_div,
    coalesce,
    coalesce_x,
    compatible,
    concat,
    congruent,
    crd2crd,
    crd2idx,
    depth,
    filter,
    filter_zeros,
    flatten,
    group,
    idx2crd,
    make_basis_like,
    make_identity_layout,
    make_layout,
    modes,
    prepend,
    product,
    rank,
    replace,
    select,
    shape_div,
    size,
    slice_and_offset,
    sort,
    swizzle_inverse,
    unflatten,
    weakly_congruent,
    with_assumptions,
)

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
    from layoutalg import registers as registers
    from layoutalg import source as source
    from layoutalg import symbolic as symbolic
    from layoutalg import synthesis as synthesis
    from layoutalg import testing as testing
    from layoutalg import widgets as widgets
    from layoutalg.algebra import (
        blocked_product,
        complement,
        dice,
        domain_offset,
        downcast,
        flat_divide,
        flat_product,
        left_inverse,
        local_partition,
        local_tile,
        logical_divide,
        logical_product,
        make_layout_like,
        make_ordered_layout,
        max_alignment,
        max_common_layout,
        max_common_vector,
        nullspace,
        raked_product,
        recast_layout,
        right_inverse,
        slice_,
        tile_to_shape,
        tiled_divide,
        tiled_product,
        upcast,
        zipped_divide,
        zipped_product,
    )
    from layoutalg.analysis import Access, analyze
    from layoutalg.atoms import (
        COPY_ATOMS,
        MMA_ATOMS,
        CopyAtom,
        MMAAtom,
        Tensor,
        TiledCopy,
        TiledMMA,
        copy_tensor,
        find_copy_atom,
        find_mma_atom,
        make_fragment_like,
        make_tiled_copy,
        make_tiled_copy_A,
        make_tiled_copy_B,
        make_tiled_copy_C,
        make_tiled_copy_C_atom,
        make_tiled_copy_D,
        make_tiled_copy_S,
        make_tiled_mma,
        tile_copy,
    )
    from layoutalg.decide import (
        Aliasing,
        Footprint,
        aliasing,
        cosize,
        cycles,
        extremes,
        find_collision,
        find_coordinate,
        find_difference,
        find_offset_bit,
        find_overlap,
        footprint,
        gaps,
        image_size,
        is_bijective,
        is_contiguous,
        is_injective,
        is_surjective,
        order,
        overlap,
        same_function,
    )
    from layoutalg.dtype import DTYPES, DType
    from layoutalg.explanation import explain
    from layoutalg.f2 import LinearLayout, to_f2
    from layoutalg.indexing import code, identify
    from layoutalg.notation import convert, parse, parse_int_tuple, parse_tiler
    from layoutalg.ops import layer_norm, permute, reduce, relayout, softmax, transpose
    from layoutalg.synthesis import check_certificate, synthesize

__version__ = "0.1.0"

_MODULES = frozenset(
    (
        "algebra", "analysis", "arch", "atoms", "checks", "cli", "codegen", "decide", "draw", "dtype",
        "explanation", "f2", "indexing", "kernels", "legality", "model", "notation", "ops", "page",
        "profiling", "registers", "source", "symbolic", "synthesis", "testing", "widgets",
    )
)  # fmt: skip
"""Rooms that are imported when they are first used."""

_PLACES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "algebra": (
            "blocked_product", "complement", "dice", "domain_offset", "downcast", "flat_divide",
            "flat_product", "left_inverse", "local_partition", "local_tile", "logical_divide",
            "logical_product", "make_layout_like", "make_ordered_layout", "max_alignment",
            "max_common_layout", "max_common_vector", "nullspace", "raked_product", "recast_layout",
            "right_inverse", "slice_", "tile_to_shape", "tiled_divide", "tiled_product", "upcast",
            "zipped_divide", "zipped_product",
        ),
        "analysis": ("Access", "analyze"),
        "atoms": (
            "COPY_ATOMS", "MMA_ATOMS", "CopyAtom", "MMAAtom", "Tensor", "TiledCopy", "TiledMMA",
            "copy_tensor", "find_copy_atom", "find_mma_atom", "make_fragment_like", "make_tiled_copy",
            "make_tiled_copy_A", "make_tiled_copy_B", "make_tiled_copy_C", "make_tiled_copy_C_atom",
            "make_tiled_copy_D", "make_tiled_copy_S", "make_tiled_mma", "tile_copy",
        ),
        "decide": (
            "Aliasing", "Footprint", "aliasing", "cosize", "cycles", "extremes", "find_collision",
            "find_coordinate", "find_difference", "find_offset_bit", "find_overlap", "footprint", "gaps",
            "image_size", "is_bijective", "is_contiguous", "is_injective", "is_surjective", "order",
            "overlap", "same_function",
        ),
        "dtype": ("DTYPES", "DType"),
        "explanation": ("explain",),
        "f2": ("LinearLayout", "to_f2"),
        "indexing": ("code", "identify"),
        "notation": ("convert", "parse", "parse_int_tuple", "parse_tiler"),
        "ops": ("layer_norm", "permute", "reduce", "relayout", "softmax", "transpose"),
        "synthesis": ("check_certificate", "synthesize"),
    }
)  # fmt: skip
"""Names that are imported from these rooms when they are first used.  Array functions live in layoutalg.ops;
here they keep working without being listed."""

_NAMES: Mapping[str, str] = MappingProxyType(
    {name: room for room, names in _PLACES.items() for name in names}
)

__all__ = [
    "COPY_ATOMS",
    "DTYPES",
    "MMA_ATOMS",
    "Access",
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
    "check_certificate",
    "coalesce",
    "coalesce_x",
    "code",
    "compatible",
    "complement",
    "composition",
    "concat",
    "congruent",
    "convert",
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
    "identify",
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
    "rotated_layout",
    "same_function",
    "select",
    "shape_div",
    "size",
    "slice_",
    "slice_and_offset",
    "softmax",
    "sort",
    "swizzle_inverse",
    "synthesize",
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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public: the names of `__all__`, and the rooms."""
    return sorted({*__all__, *_MODULES, "__all__", "__doc__", "__name__", "__version__"})
