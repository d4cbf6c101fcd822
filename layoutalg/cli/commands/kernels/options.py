"""The options by which commands about kernels name a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from layoutalg.cli.options import (
    FUNCTION_NAMES,
    GroupsOption,
    argument,
    dtypes,
    families,
    one_of,
    option,
)
from layoutalg.kernels.norms import NORMS

FamilyArgument: TypeAlias = Annotated[
    str,
    argument(
        "tiled_copy, transpose, gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90, gemv; attention; permute, sum, "
        f"max, mean, min, prod, argmax, argmin, var, logsumexp, {', '.join(NORMS)}, "
        f"cross_entropy, {FUNCTION_NAMES}, add, quantize_nvfp4, quantize_mxfp8, quantize_mxfp4.",
        complete=families,
    ),
]
KernelDtypeOption: TypeAlias = Annotated[
    str | None,
    option(
        "Element type. Default: f16 for gemm-sm75 and gemm-sm80, bf16 for gemm-sm90, gemv, attention and "
        "quantize_*, "
        "else f32.",
        complete=dtypes,
    ),
]
ShapeOption: TypeAlias = Annotated[
    str | None, "Shape of a dense tensor: 64,1024,128. For permute and the families listed after it."
]
AxesOption: TypeAlias = Annotated[
    str | None, "Order of a permute's axes; axes to reduce, by default the last."
]
StepOption: TypeAlias = Annotated[
    str | None,
    "A step of a GEMM's optimisation ladder, by name or number. Default: no step, the best tile.",
]
TileOption: TypeAlias = Annotated[
    str | None, "The thread block's tile of a GEMM: 128x128x64. Default: the best."
]


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """The element type and the extents of a kernel's problem."""

    dtype: KernelDtypeOption = None
    m: Annotated[
        int | None,
        "Rows of the source, or of a GEMM, at most. Default: 16384 to generate, some to verify, else 4096.",
    ] = None
    n: Annotated[int | None, "Columns of the source, or of a GEMM, likewise."] = None
    k: Annotated[int | None, "k of a GEMM, at most. Default: 4096; several to verify."] = None
    shape: ShapeOption = None
    axes: AxesOption = None


@dataclass(frozen=True, slots=True)
class ProblemOptions(SizeOptions):
    """The options of a kernel's problem."""

    lds: Annotated[int | None, "Leading dimension of the source, in elements. Default: n."] = None
    ldd: Annotated[int | None, "Leading dimension of the destination. Default: its row length."] = None
    lda: Annotated[int | None, "Leading dimension of A, of a GEMM. Default: its row length."] = None
    ldb: Annotated[int | None, "Leading dimension of B, of a GEMM. Default: its row length."] = None
    ldc: Annotated[int | None, "Leading dimension of C. Default: n."] = None
    a_major: Annotated[
        str | None,
        option("The contiguous mode of A: k (row-major) or mn. Default: k.", complete=one_of("k", "mn")),
    ] = None
    b_major: Annotated[
        str | None,
        option(
            "The contiguous mode of B: mn (row-major), or k, the default of gemm-sm80, gemm-sm90 and gemv.",
            complete=one_of("mn", "k"),
        ),
    ] = None
    accumulator: Annotated[
        str | None,
        option(
            "Accumulator type of a GEMM. Default: f32; f64 for f64, s32 for integers, f16 for gemm-sm75.",
            complete=dtypes,
        ),
    ] = None
    result: Annotated[
        str | None,
        option(
            "Result type of a GEMM or a permute. Default: that of the operands; of a GEMM s32 for integers. "
            "Elements of quantize_mxfp8: e4m3, the default, or e5m2.",
            complete=dtypes,
        ),
    ] = None
    c: Annotated[bool | None, "Add beta C to a GEMM."] = None
    bias: Annotated[
        str | None,
        option(
            "Add a bias to a GEMM: n, a number per column, m, a number per row, or none.",
            complete=one_of("n", "m", "none"),
        ),
    ] = None
    activation: Annotated[
        str | None,
        option(
            f"Apply a function to the result of a GEMM: {FUNCTION_NAMES}. Default: none.",
            complete=one_of(*FUNCTION_NAMES.split(", "), "none"),
        ),
    ] = None
    b_dtype: Annotated[
        str | None,
        option("Element type of B, of a GEMM of 8-bit floats. Default: that of A.", complete=dtypes),
    ] = None
    scale_a: Annotated[
        str | None,
        option(
            "Multiply a GEMM by f32 factors: m, one per row, one, a single one, or none.",
            complete=one_of("m", "one", "none"),
        ),
    ] = None
    scale_b: Annotated[
        str | None, option("The same: n, one per column, one, or none.", complete=one_of("n", "one", "none"))
    ] = None
    arithmetic: Annotated[
        str | None,
        option(
            "Sums of 8-bit floats: fast, by tensor cores alone, or blocks, with a factor each. Default: 128 "
            "of k at a time. Of bits: xor. Default: and.",
            complete=one_of("fast", "blocks", "and", "xor"),
        ),
    ] = None
    groups: GroupsOption = None


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """The options of a kernel's configuration, where the user does not leave it to the choice."""

    step: StepOption = None
    tile: TileOption = None
    stages: Annotated[int | None, "Tiles of each operand of a GEMM in shared memory. Default: the best."] = (
        None
    )
    warps: Annotated[
        str | None, "Warps of a block along m and n, of gemm-sm75 and gemm-sm80: 2x4. Default: the best."
    ] = None
