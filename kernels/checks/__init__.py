"""The data that families are verified on, and the problems and libraries with which they are timed.

    record                 Checks and Bench: what a family is verified and timed on, by its name;
                           verify: a configuration compared with its definition
    move, elementwise      moves and maps
    rows, rowwise          rows: their data, and the bounds of results' errors; reductions, norms and losses
    gemm, quantize         products; quantisations
    attention              attention
    baselines              the times of other libraries, and lower bounds from the hardware

A module is imported when a family of its room is asked for.
"""

from __future__ import annotations

from layoutalg.kernels.checks.baselines import Launch, clock_of
from layoutalg.kernels.checks.record import (
    MOST_SETS,
    Bench,
    Checks,
    Pace,
    Target,
    VerifyReport,
    bench_of,
    check_run,
    checks_of,
    given_to,
    l2_bytes,
    rowwise_cases,
    run_on_gpu,
    verify,
)
