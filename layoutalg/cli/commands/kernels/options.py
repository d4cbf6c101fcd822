"""The options by which commands about kernels name a kernel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

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
        "tiled_copy, transpose, gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90, gemv; permute, sum, "
        f"max, mean, min, prod, argmax, argmin, var, logsumexp, {', '.join(NORMS)}, "
        f"cross_entropy, {FUNCTION_NAMES}, add, quantize_nvfp4, quantize_mxfp8, quantize_mxfp4.",
        complete=families,
    ),
]
KernelDtypeOption: TypeAlias = Annotated[
    str | None,
    option(
        "Element type. Default: f16 for gemm-sm75 and gemm-sm80, bf16 for gemm-sm90, gemv and quantize_*, "
        "else f32.",
        complete=dtypes,
    ),
]
ShapeOption: TypeAlias = Annotated[
    str | None, option("Shape of a dense tensor: 64,1024,128. For permute and the families listed after it.")
]
AxesOption: TypeAlias = Annotated[
    str | None, option("Order of a permute's axes; axes to reduce, by default the last.")
]
StepOption: TypeAlias = Annotated[
    str | None,
    option("A step of a GEMM's optimisation ladder, by name or number. Default: no step, the best tile."),
]
TileOption: TypeAlias = Annotated[
    str | None, option("The thread block's tile of a GEMM: 128x128x64. Default: the best.")
]


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """The options of a kernel's problem, except its element type and the extents of its matrices."""

    lds: Annotated[int | None, option("Leading dimension of the source, in elements. Default: n.")] = None
    ldd: Annotated[
        int | None,
        option("Leading dimension of the destination. Default: its row length."),
    ] = None
    shape: ShapeOption = None
    axes: AxesOption = None
    lda: Annotated[int | None, option("Leading dimension of A, of a GEMM. Default: its row length.")] = None
    ldb: Annotated[int | None, option("Leading dimension of B, of a GEMM. Default: its row length.")] = None
    ldc: Annotated[int | None, option("Leading dimension of C. Default: n.")] = None
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
    c: Annotated[bool | None, option("Add beta C to a GEMM.")] = None
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
        str | None,
        option("The same: n, one per column, one, or none.", complete=one_of("n", "one", "none")),
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

    def with_extents(self, dtype: str | None, m: int | None, n: int | None, k: int | None) -> dict[str, Any]:
        """The options of a problem by name, those that are not given as None."""
        return {"dtype": dtype, "m": m, "n": n, "k": k} | asdict(self)


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """The options of a kernel's configuration, where the user does not leave it to the choice."""

    step: StepOption = None
    tile: TileOption = None
    schedule: Annotated[
        str | None,
        option(
            "How a GEMM's tiles are scheduled on blocks: data_parallel, persistent, streamk. Default: "
            "the best.",
            complete=one_of("data_parallel", "persistent", "streamk"),
        ),
    ] = None
    stages: Annotated[
        int | None, option("Tiles of each operand of a GEMM in shared memory. Default: the best.")
    ] = None
    warps: Annotated[
        str | None,
        option("Warps of a block along m and n, of gemm-sm75 and gemm-sm80: 2x4. Default: the best."),
    ] = None
