"""`layoutalg verify`: run a kernel and compare it with its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from layoutalg.cli.kernel_names import find_tensor, is_product, is_tensor
from layoutalg.cli.kernel_words import verify_fields, verify_tables
from layoutalg.cli.options import AxesOption, JsonOption, LddOption, LdsOption, ShapeOption
from layoutalg.cli.output import progress, say, say_json
from layoutalg.cli.refusals import header
from layoutalg.errors import UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.family import Target, VerifyReport

TARGETS = ("auto", "simulator", "gpu")

VERIFIED = ((200, 136), (67, 259), (256, 256))
"""What `verify` checks when no size is given: with and without tiles that stick out."""

VERIFIED_PRODUCTS = (
    (128, 128, 64), (67, 131, 45), (64, 72, 16), (64, 72, 96), (40, 72, 200), (64, 72, 264), (40, 72, 328),
    (64, 72, 392),
)  # fmt: skip
"""The same of products: m, n and k; of tiles of k there are one, two and more, a ring ends in each place."""

VERIFIED_TENSORS = (
    ((37, 131), (0,)), ((37, 131), (1,)), ((4, 33, 20), (0, 2)), ((5, 3001), (1,)), ((601, 5), (0,))
)  # fmt: skip
"""The same of reductions and norms: shape and axes."""

VERIFIED_PERMUTES = (((13, 22, 35), (2, 0, 1)), ((16, 64, 48), (0, 2, 1)))
"""The same of permutes."""


def verify_command(
    family: Annotated[
        str,
        typer.Argument(
            help="tiled_copy, transpose, gemm-simt, gemm-sm80; permute, sum, max, mean, softmax, "
            "layer_norm, rms_norm.",
            show_default=False,
        ),
    ],
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="Element type. Default: f16 for gemm-sm80, else f32.", show_default=False
        ),
    ] = None,
    m: Annotated[
        int | None, typer.Option(help="Rows of the source, or of a product.", show_default=False)
    ] = None,
    n: Annotated[
        int | None, typer.Option(help="Columns of the source, or of a product.", show_default=False)
    ] = None,
    k: Annotated[int | None, typer.Option(help="k of a product.", show_default=False)] = None,
    lds: LdsOption = None,
    ldd: LddOption = None,
    shape: ShapeOption = None,
    axes: AxesOption = None,
    target: Annotated[
        str, typer.Option(help="auto (the GPU too where there is one), simulator, gpu.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the order of warps, from 0 on.")] = 0,
    as_json: JsonOption = False,
) -> int:
    """Run a kernel and compare: its result with the definition, its traced accesses with the prediction.

    layoutalg verify transpose --dtype f32

    layoutalg verify gemm-sm80 --m 200 --n 136 --k 72

    layoutalg verify softmax --shape 12,515 --axes 0 --dtype bf16
    """
    from layoutalg.codegen.gpu import gpu_status

    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS)
    status = gpu_status()
    targets: list[Target] = []
    if target in ("auto", "simulator"):
        targets.append("simulator")
    if target == "gpu" or (target == "auto" and status.available):
        targets.append("gpu")
    if is_tensor(family):
        if any(x is not None for x in (m, n, k, lds, ldd)):
            raise UnsupportedError(f"{family} has no m, n, k, lds and ldd: its tensor has a --shape")
        problems, check = _tensors(family, shape, axes, dtype)
    elif shape is not None or axes is not None:
        raise UnsupportedError(f"{family} has no shape and axes: its matrices have --m and --n")
    elif is_product(family):
        if lds is not None or ldd is not None:
            raise UnsupportedError(f"{family} has no lds and ldd: its matrices are dense here")
        problems, check = _products(family, dtype, (m, n, k))
    else:
        if k is not None:
            raise UnsupportedError(f"{family} has no k: gemm-simt and gemm-sm80 do")
        problems, check = _moves(family, "f32" if dtype is None else dtype, (m, n), lds, ldd)
    reports = []
    with progress(f"verifying {family}", len(problems) * len(targets), quiet=as_json) as step:
        for where in targets:
            for problem in problems:
                reports.append(check(problem, where, seed))
                step()
    passed = all(report.passed for report in reports)
    element = _element(problems[0])
    if as_json:
        say_json(
            header("verify")
            | {"family": family, "dtype": str(element), "passed": passed}
            | {"gpu": {"available": status.available, "name": status.name, "reason": status.reason}}
            | {"reports": [verify_fields(report) for report in reports]}
        )
    else:
        parts = verify_tables(reports)
        if "gpu" not in targets and target == "auto":
            parts.append(f"Not run on a GPU: {status.reason}.")
        say(*parts, "Passed." if passed else "FAILED.")
    return 0 if passed else 1


Verifier: TypeAlias = "Callable[[Any, Target, int], VerifyReport]"
"""Checks a problem on a target, with a seed."""


def _element(problem: Any) -> str:
    """The type of a problem's elements."""
    where = getattr(problem, "axes", problem)
    return str(getattr(where, "operand", None) or where.dtype)


def _tensors(
    family: str, shape: str | None, axes: str | None, dtype: str | None
) -> tuple[list[Any], Verifier]:
    from layoutalg.kernels.chain_verify import verify_chain
    from layoutalg.kernels.chains import find_problem

    sizes = VERIFIED_PERMUTES if family == "permute" else VERIFIED_TENSORS
    if shape is None and axes is None:
        problems = [
            find_problem(family, extents, over, "f32" if dtype is None else dtype) for extents, over in sizes
        ]
    else:
        problems = [find_tensor(family, shape, axes, dtype)]
    return list(problems), lambda p, target, seed: verify_chain(p, target=target, seed=seed)


def _moves(
    family: str, dtype: str, extents: tuple[int | None, int | None], lds: int | None, ldd: int | None
) -> tuple[list[Any], Verifier]:
    from layoutalg.kernels.families import matrix_family
    from layoutalg.kernels.family import verify

    chosen, (m, n) = matrix_family(family), extents
    sizes = VERIFIED
    if m is not None or n is not None:
        sizes = ((n if m is None else m, m if n is None else n),)  # type: ignore[assignment]
    problems = [chosen.problem(m=a, n=b, dtype=dtype, lds=lds, ldd=ldd) for a, b in sizes]
    return problems, lambda p, target, seed: verify(chosen, p, target=target, seed=seed)


def _products(family: str, dtype: str | None, extents: tuple[int | None, ...]) -> tuple[list[Any], Verifier]:
    from layoutalg.kernels.gemm.bench import find_gemm_family
    from layoutalg.kernels.gemm.verify import verified_problem, verify_product

    chosen, given = find_gemm_family(family), [x for x in extents if x is not None]
    sizes = VERIFIED_PRODUCTS
    if given:
        m, n, k = (given[0] if x is None else x for x in extents)
        sizes = ((m, n, k),)  # type: ignore[assignment]
    problems = [verified_problem(chosen, size, dtype) for size in sizes]
    return problems, lambda p, target, seed: verify_product(chosen, p, target=target, seed=seed)
