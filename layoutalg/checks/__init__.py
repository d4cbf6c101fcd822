"""Checks for CI, from a file: limits on layouts, accesses, index functions and kernels.

    [tiles]
    a = "Sw<3,3,3> o 0 o (64,64):(64,1)"

    [[access]]
    tile = "a"
    dtype = "f16"
    access = ["ldmatrix.x4", "st.shared.b128"]
    limits = ["wavefronts <= ideal"]

`layoutalg ci` runs such a file, and so does pytest.

    file           load_checks: layoutalg.toml or pyproject.toml into checks: ADD A KIND OF CHECK HERE
    toml_lines     the line of each value of a TOML text
    fields         Kind and Field: the keys of a kind's tables, and the readers of their values
    limits         Limit, Quantity, Property: "ways <= 1", "injective", "equals (8,8):(8,1)"
    layouts        [[layout]], [[access]], [[tma]], [[wgmma]], [[memory]]: properties of a tile, its legality,
                   wavefronts and sectors of accesses
    functions      [[function]]: index functions in C, CUDA and Python
    kernels        [[kernel]]: the accesses of CUDA sources
    runner         run_checks, baselines
    formats        JUnit XML, SARIF, GitHub annotations, JSON fields
    pytest_plugin  checks as pytest items
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.checks.file import find_check_file, load_checks, read_checks
    from layoutalg.checks.formats import FORMATS, Results, check_answer, failure_lines
    from layoutalg.checks.functions import UNITS, function_layout, source_language
    from layoutalg.checks.runner import Outcome, baseline_text, load_baseline, named_baseline, run_checks

_PLACES = {
    "file": "find_check_file load_checks read_checks",
    "formats": "FORMATS Results check_answer failure_lines",
    "functions": "UNITS function_layout source_language",
    "runner": "Outcome baseline_text load_baseline named_baseline run_checks",
}

__all__ = [
    "FORMATS", "UNITS", "Outcome", "Results", "baseline_text", "check_answer", "failure_lines",
    "find_check_file", "function_layout", "load_baseline", "load_checks", "named_baseline", "read_checks",
    "run_checks", "source_language",
]  # fmt: skip

__getattr__ = later(__name__, _PLACES)
