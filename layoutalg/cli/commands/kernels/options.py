"""The options by which commands about kernels name a kernel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

import typer

from layoutalg.cli.options import GroupsOption, dtypes, families, one_of

FamilyArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="tiled_copy, transpose, gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90, gemv; permute, sum, "
        "max, mean, min, prod, argmax, argmin, var, logsumexp, softmax, layer_norm, rms_norm, "
        "cross_entropy, relu, gelu, silu, add.",
        show_default=False,
        autocompletion=families,
    ),
]
KernelDtypeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Element type. Default: f16 for gemm-sm75 and gemm-sm80, bf16 for gemm-sm90 and gemv, else f32.",
        show_default=False,
        autocompletion=dtypes,
    ),
]
ShapeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Shape of a dense tensor: 64,1024,128. For permute and the families listed after it."),
]
AxesOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Order of a permute's axes; axes to reduce, by default the last."),
]
StepOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="A step of a GEMM's optimisation ladder, by name or number. Default: no step, the best tile."
    ),
]
TileOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The thread block's tile of a GEMM: 128x128x64. Default: the best.")
]


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """The options of a kernel's problem, except its element type and the extents of its matrices."""

    lds: Annotated[
        int | None, typer.Option(help="Leading dimension of the source, in elements. Default: n.")
    ] = None
    ldd: Annotated[
        int | None, typer.Option(help="Leading dimension of the destination. Default: its row length.")
    ] = None
    shape: ShapeOption = None
    axes: AxesOption = None
    lda: Annotated[
        int | None, typer.Option(help="Leading dimension of A, of a GEMM. Default: its row length.")
    ] = None
    ldb: Annotated[
        int | None, typer.Option(help="Leading dimension of B, of a GEMM. Default: its row length.")
    ] = None
    ldc: Annotated[int | None, typer.Option(help="Leading dimension of C. Default: n.")] = None
    a_major: Annotated[
        str | None,
        typer.Option(
            help="The contiguous mode of A: k (row-major) or mn. Default: k.",
            autocompletion=one_of("k", "mn"),
        ),
    ] = None
    b_major: Annotated[
        str | None,
        typer.Option(
            help="The contiguous mode of B: mn (row-major), or k, the default of gemm-sm80, gemm-sm90 "
            "and gemv.",
            autocompletion=one_of("mn", "k"),
        ),
    ] = None
    accumulator: Annotated[
        str | None,
        typer.Option(
            help="Accumulator type of a GEMM. Default: f32; f64 for f64, s32 for integers, f16 for "
            "gemm-sm75.",
            autocompletion=dtypes,
        ),
    ] = None
    result: Annotated[
        str | None,
        typer.Option(
            help="Result type of a GEMM or a permute. Default: that of the operands; of a GEMM s32 for "
            "integers.",
            autocompletion=dtypes,
        ),
    ] = None
    c: Annotated[bool | None, typer.Option("--c/--no-c", help="Add beta C to a GEMM.")] = None
    bias: Annotated[
        str | None,
        typer.Option(
            help="Add a bias to a GEMM: n, a number per column, m, a number per row, or none.",
            autocompletion=one_of("n", "m", "none"),
        ),
    ] = None
    activation: Annotated[
        str | None,
        typer.Option(
            help="Apply a function to the result of a GEMM: relu, gelu, silu. Default: none.",
            autocompletion=one_of("relu", "gelu", "silu", "none"),
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
        typer.Option(
            help="How a GEMM's tiles are scheduled on blocks: data_parallel, persistent, streamk. Default: "
            "the best.",
            autocompletion=one_of("data_parallel", "persistent", "streamk"),
        ),
    ] = None
