"""Which kernel is meant: the options that commands about kernels share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

import typer

from layoutalg.cli.completions import dtypes, families, one_of
from layoutalg.cli.options import GroupsOption

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
    str | None, typer.Option(help="Shape of a dense tensor: 64,1024,128. For permute and the following.")
]
AxesOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Order of a permute's axes; axes to reduce, by default the last.")
]
StepOption: TypeAlias = Annotated[
    str | None, typer.Option(help="A step of a product's ladder, by name or number. Default: the best tile.")
]
TileOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The tile of a product: 128x128x64. Default: the best.")
]


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """What a kernel computes, but for its element and the extents of its matrices."""

    lds: Annotated[
        int | None, typer.Option(help="Leading dimension of the source, in elements. Default: n.")
    ] = None
    ldd: Annotated[
        int | None, typer.Option(help="Leading dimension of the destination. Default: its row length.")
    ] = None
    shape: ShapeOption = None
    axes: AxesOption = None
    lda: Annotated[
        int | None, typer.Option(help="Leading dimension of A, of a product. Default: its row length.")
    ] = None
    ldb: Annotated[
        int | None, typer.Option(help="Leading dimension of B, of a product. Default: its row length.")
    ] = None
    ldc: Annotated[int | None, typer.Option(help="Leading dimension of C. Default: n.")] = None
    a_major: Annotated[
        str | None,
        typer.Option(
            help="The mode that A is stored along: k (row-major) or mn. Default: k.",
            autocompletion=one_of("k", "mn"),
        ),
    ] = None
    b_major: Annotated[
        str | None,
        typer.Option(
            help="The mode that B is stored along: mn (row-major), or k, the default of gemm-sm80, gemm-sm90 "
            "and gemv.",
            autocompletion=one_of("mn", "k"),
        ),
    ] = None
    accumulator: Annotated[
        str | None,
        typer.Option(
            help="Type of a product's sums. Default: f32; f64, s32 of s8, f16 of gemm-sm75.",
            autocompletion=dtypes,
        ),
    ] = None
    result: Annotated[
        str | None,
        typer.Option(
            help="Type of the result of a product or a permute. Default: that of the operands; s32 of s8.",
            autocompletion=dtypes,
        ),
    ] = None
    c: Annotated[bool | None, typer.Option("--c/--no-c", help="Add beta C to a product.")] = None
    bias: Annotated[
        str | None,
        typer.Option(
            help="Add a number per column (n) or per row (m) of a product, or none.",
            autocompletion=one_of("n", "m", "none"),
        ),
    ] = None
    activation: Annotated[
        str | None,
        typer.Option(
            help="Apply a function to a product: relu, gelu, silu. Default: none.",
            autocompletion=one_of("relu", "gelu", "silu", "none"),
        ),
    ] = None
    groups: GroupsOption = None

    def with_extents(self, dtype: str | None, m: int | None, n: int | None, k: int | None) -> dict[str, Any]:
        """The options of a problem by name, those that are not given as None."""
        return {"dtype": dtype, "m": m, "n": n, "k": k} | asdict(self)


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """How a kernel computes it, where that is not left to the choice."""

    step: StepOption = None
    tile: TileOption = None
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Which tiles a block of a product has: data_parallel, persistent, streamk. Default: the "
            "best.",
            autocompletion=one_of("data_parallel", "persistent", "streamk"),
        ),
    ] = None
