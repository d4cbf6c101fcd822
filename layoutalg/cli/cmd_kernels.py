"""`layoutalg generate`, `verify` and `bench`: the kernel families from the command line."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from layoutalg.cli.options import JsonOption, OutputOption
from layoutalg.cli.output import (
    count,
    header,
    progress,
    say,
    say_json,
    size_bytes,
    table,
    write_whole,
)
from layoutalg.cli.products import find_kernel, is_product
from layoutalg.errors import UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.nvrtc import Cubin
    from layoutalg.codegen.tile import Kernel
    from layoutalg.kernels.bench import BenchRow
    from layoutalg.kernels.family import Family, VerifyReport
    from layoutalg.kernels.gemm_bench import GemmRow
    from layoutalg.kernels.permute_bench import PermuteRow

TARGETS = ("auto", "simulator", "gpu")

LARGEST = 16384
"""Default bound of m and n of a generated kernel."""

VERIFIED = ((200, 136), (67, 259), (256, 256))
"""What `verify` checks when no size is given: with and without tiles that stick out."""

FamilyArgument: TypeAlias = Annotated[
    str, typer.Argument(help="tiled_copy or transpose.", show_default=False)
]
ElementOption: TypeAlias = Annotated[str, typer.Option("--dtype", help="Element type: f16, f32, u8, ...")]
LdsOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Leading dimension of the source, in elements. Default: n.")
]
LddOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Leading dimension of the destination. Default: its row length.")
]


def generate_command(
    family: Annotated[
        str, typer.Argument(help="tiled_copy, transpose, gemm-simt or gemm-sm80.", show_default=False)
    ],
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="Element type. Default: f16 for gemm-sm80, else f32.", show_default=False
        ),
    ] = None,
    m: Annotated[int, typer.Option(help="Most rows of the source, or of a product.")] = LARGEST,
    n: Annotated[int, typer.Option(help="Most columns of the source, or of a product.")] = LARGEST,
    k: Annotated[
        int | None, typer.Option(help="Most k of a product. Default: 4096.", show_default=False)
    ] = None,
    lds: LdsOption = None,
    ldd: LddOption = None,
    arch: Annotated[str, typer.Option("--arch", help="Architecture to write for: sm_80, sm_90a.")] = "sm_90",
    compile_for: Annotated[
        list[str] | None,
        typer.Option(
            "--compile", help="Compile for this target, no GPU needed. Repeats.", show_default=False
        ),
    ] = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the CUDA source of a kernel, for all sizes up to m x n (and k).

    layoutalg generate transpose --dtype f32 -o transpose.cu

    layoutalg generate gemm-sm80 --m 8192 --n 8192 --k 8192 -o gemm.cu
    """
    from layoutalg.codegen.cuda import to_cuda
    from layoutalg.codegen.nvrtc import compile_cubin

    if is_product(family) and (lds is not None or ldd is not None):
        raise UnsupportedError(f"{family} has no lds and ldd: its matrices are dense here")
    if is_product(family) or k is not None or (lds is None and ldd is None):
        problem, kernel = find_kernel(family, dtype, (m, n, k), None, arch)
    else:
        chosen = _find_family(family)
        moved = chosen.problem(m=m, n=n, dtype=dtype or "f32", lds=lds, ldd=ldd)
        problem, kernel = str(moved), chosen.build(moved, chosen.configs(moved, arch)[0])
    source = to_cuda(kernel, arch)
    compiled = [compile_cubin(source, kernel.name, target) for target in compile_for or ()]
    if output is not None:
        write_whole(output, source.encode())
    if as_json:
        say_json(
            header("generate")
            | {"family": family, "kernel": kernel.name, "problem": problem, "arch": arch}
            | {"threads": kernel.threads, "shared_bytes": kernel.shared_bytes}
            | {"shared": [{"name": s.name, "layout": str(s.layout)} for s in kernel.shared]}
            | {"output": None if output is None else str(output)}
            | {"source": source if output is None else None}
            | {"compiled": [cubin_fields(cubin) for cubin in compiled]}
        )
        return
    if output is None:
        sys.stdout.write(source)
    else:
        lines = count(len(source.splitlines()))
        say(f"wrote {output}: {lines} lines, {kernel.name} for {problem}, and less", kernel_sentence(kernel))
        say(*(cubin_sentence(cubin) for cubin in compiled))


def verify_command(
    family: FamilyArgument,
    dtype: ElementOption = "f32",
    m: Annotated[int | None, typer.Option(help="Rows of the source.", show_default=False)] = None,
    n: Annotated[int | None, typer.Option(help="Columns of the source.", show_default=False)] = None,
    lds: LdsOption = None,
    ldd: LddOption = None,
    target: Annotated[
        str, typer.Option(help="auto (the GPU too where there is one), simulator, gpu.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the order of warps.")] = 0,
    as_json: JsonOption = False,
) -> int:
    """Run a kernel and compare: its result with the definition, its traced accesses with the prediction.

    layoutalg verify transpose --dtype f32
    """
    from layoutalg.codegen.runtime import gpu_status
    from layoutalg.kernels.family import Target, verify

    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS)
    chosen = _find_family(family)
    status = gpu_status()
    targets: list[Target] = []
    if target in ("auto", "simulator"):
        targets.append("simulator")
    if target == "gpu" or (target == "auto" and status.available):
        targets.append("gpu")
    sizes = VERIFIED if m is None and n is None else ((m or n or 0, n or m or 0),)
    problems = [chosen.problem(m=a, n=b, dtype=dtype, lds=lds, ldd=ldd) for a, b in sizes]
    reports = []
    with progress(f"verifying {family}", len(problems) * len(targets), quiet=as_json) as step:
        for where in targets:
            for problem in problems:
                reports.append(verify(chosen, problem, target=where, seed=seed))
                step()
    passed = all(report.passed for report in reports)
    if as_json:
        say_json(
            header("verify")
            | {"family": family, "dtype": dtype, "passed": passed}
            | {"gpu": {"available": status.available, "name": status.name, "reason": status.reason}}
            | {"reports": [verify_fields(report) for report in reports]}
        )
    else:
        parts = verify_tables(reports)
        if "gpu" not in targets and target == "auto":
            parts.append(f"Not run on a GPU: {status.reason}.")
        say(*parts, "Passed." if passed else "FAILED.")
    return 0 if passed else 1


def bench_command(
    family: Annotated[
        str,
        typer.Argument(help="tiled_copy, transpose, permute, gemm-simt or gemm-sm80.", show_default=False),
    ],
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="Element type. Repeats. Default: f32, f16, u8.", show_default=False),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            help="Side of the square matrices. Repeats. Default: 4096, 16384; products 1024 to 8192.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Time kernels beside a device copy, PyTorch, CuPy and cuBLAS, in one run. Needs a GPU."""
    import datetime

    from layoutalg.codegen.runtime import require_gpu
    from layoutalg.kernels.bench import DTYPES, SIZES, benchmark

    if family == "permute":
        permute_bench_command(dtype, as_json)
        return
    if family.startswith("gemm-"):
        gemm_bench_command(family, size, as_json)
        return
    chosen = _find_family(family)
    problems = [
        chosen.problem(m=side, n=side, dtype=name) for name in dtype or DTYPES for side in size or SIZES
    ]
    status = require_gpu()
    rows: list[BenchRow] = []
    with progress(f"timing {family}", len(problems), quiet=as_json) as step:
        for row in benchmark(chosen, iter(problems)):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": family, "device": status.name, "arch": status.arch, "date": today}
            | {"rows": [_bench_fields(row) for row in rows]}
        )
    else:
        columns = ("problem", "ours", "device copy", "PyTorch", "CuPy", "share of copy")
        say(table(f"{family} on {status.name}, {today}, GB/s", columns, map(_bench_row, rows)))


def permute_bench_command(dtypes: list[str] | None, as_json: bool) -> None:
    """`layoutalg bench permute`: the quoted cases and the drawn ones, with what was predicted of them."""
    import datetime

    from layoutalg.codegen.runtime import require_gpu
    from layoutalg.kernels.permute_bench import CASES, DTYPES, SEED, benchmark_permutes, random_cases

    status, cases, names = require_gpu(), (*CASES, *random_cases()), dtypes or list(DTYPES)
    rows: list[PermuteRow] = []
    with progress("timing permute", len(cases) * len(names), quiet=as_json) as step:
        for row in benchmark_permutes(cases, names):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": "permute", "device": status.name, "arch": status.arch, "date": today}
            | {"rows": [_bench_fields(row) for row in rows]}
        )
        return
    columns = ("problem", "ours", "copy", "PyTorch", "CuPy", "share")
    rates = ((row.problem, *_bench_row(row)[1:]) for row in rows)
    expected = (
        (row.problem, f"{row.sectors('ld'):,}", f"{row.sectors('st'):,}", str(row.bound)) for row in rows
    )
    mean = math.exp(math.fsum(math.log(row.share) for row in rows) / len(rows))
    say(
        table(f"permute on {status.name}, {today}, GB/s; cases drawn with seed {SEED}", columns, rates),
        table("What was predicted", ("problem", "sectors in", "sectors out", "bound"), expected),
        f"Geometric mean of the shares of the copy: {mean:.2f}.",
    )


def gemm_bench_command(family: str, sizes: list[int] | None, as_json: bool) -> None:
    """`layoutalg bench gemm-simt` and `gemm-sm80`: the steps at one size, then sizes, beside cuBLAS."""
    import datetime

    from layoutalg.codegen.runtime import require_gpu
    from layoutalg.kernels.gemm_bench import (
        SIZES,
        STEPS_SIZE,
        benchmark_sizes,
        benchmark_ways,
        find_gemm_family,
        mean_ratio,
    )

    chosen, status, asked = find_gemm_family(family), require_gpu(), sizes or list(SIZES)
    steps: list[GemmRow] = []
    if chosen.steps and sizes is None:
        steps = benchmark_ways(chosen, chosen.problem(STEPS_SIZE), chosen.steps)
    rows: list[GemmRow] = []
    with progress(f"timing {family}", len(asked), quiet=as_json) as step:
        for row in benchmark_sizes(chosen, [chosen.problem(n) for n in asked]):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": family, "device": status.name, "arch": status.arch, "date": today}
            | {"steps": [gemm_fields(row) for row in steps], "rows": [gemm_fields(row) for row in rows]}
        )
        return
    for name, part in (("steps", steps), ("sizes", rows)):
        if part:
            columns = ("problem", "way", "registers", "ours", "cuBLAS", "ratio")
            title = f"{family}, {name}, on {status.name}, {today}, TFLOP/s"
            say(table(title, columns, map(_gemm_row, part), left=2))
    if (mean := mean_ratio(rows)) is not None:
        say(f"Geometric mean of the ratios: {mean:.3f}.")


def gemm_fields(row: GemmRow) -> dict[str, Any]:
    """What `--json` says of one timed product."""
    return {
        "problem": row.problem,
        "way": row.way,
        "registers": row.registers,
        "ours_tflop_per_s": row.ours,
        "cublas_tflop_per_s": row.cublas,
        "ratio": row.ratio,
    }


def _gemm_row(row: GemmRow) -> tuple[str, ...]:
    cublas, ratio = ("-" if x is None else f"{x:.{d}f}" for x, d in ((row.cublas, 1), (row.ratio, 3)))
    return (row.problem, row.way, str(row.registers), f"{row.ours:.1f}", cublas, ratio)


def verify_tables(reports: list[VerifyReport]) -> list[Any]:
    """One table a report: every check, and what was seen."""
    return [
        table(
            f"{report.family}, {report.problem}, on the {report.target}",
            ("check", "", "seen"),
            ((c.name, "ok" if c.passed else "FAILS", c.detail) for c in report.checks),
            left=3,
        )
        for report in reports
    ]


def kernel_sentence(kernel: Kernel) -> str:
    """What a block of a kernel takes, and how its shared memory is laid out."""
    buffers = "".join(f", {s.name} as {s.layout}" for s in kernel.shared)
    shared = f"{size_bytes(kernel.shared_bytes)} of shared memory{buffers}" if buffers else "no shared memory"
    return f"{kernel.threads} threads a block, {shared}"


def cubin_sentence(cubin: Cubin) -> str:
    """What the assembler said of a kernel."""
    spills = "no spills" if not cubin.spill_bytes else f"{cubin.spill_bytes} bytes of spills"
    return (
        f"{cubin.name} for {cubin.arch}: {cubin.registers} registers a thread, {spills}, "
        f"{size_bytes(len(cubin.image))} of machine code"
    )


def _find_family(name: str) -> Family:
    from layoutalg.kernels.families import find_family

    return find_family(name)


def cubin_fields(cubin: Cubin) -> dict[str, Any]:
    """What `--json` says of one compilation."""
    return {
        "arch": cubin.arch,
        "registers": cubin.registers,
        "spill_bytes": cubin.spill_bytes,
        "shared_bytes": cubin.shared_bytes,
        "image_bytes": len(cubin.image),
    }


def verify_fields(report: VerifyReport) -> dict[str, Any]:
    """What `--json` says of one verified problem."""
    checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in report.checks]
    return {"problem": report.problem, "target": report.target, "passed": report.passed, "checks": checks}


def _bench_fields(row: BenchRow | PermuteRow) -> dict[str, Any]:
    return {
        "problem": row.problem,
        "ours_gb_per_s": row.ours,
        "copy_gb_per_s": row.copy,
        "torch_gb_per_s": row.torch,
        "cupy_gb_per_s": row.cupy,
        "share_of_copy": row.share,
    }


def _bench_row(row: BenchRow | PermuteRow) -> tuple[str, ...]:
    rates = (
        f"{rate:,.0f}" if rate is not None else "-" for rate in (row.ours, row.copy, row.torch, row.cupy)
    )
    return (row.problem, *rates, f"{row.share:.2f}")
