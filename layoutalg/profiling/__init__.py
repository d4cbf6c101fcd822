"""Nsight Compute reports: which accesses conflict, which counts are not bank conflicts, and the fix.

`read_report` reads a report (`ncu -o report`); `explain_launch` explains its counters, by source line.

    importer     reads the file with the package ncu-report, in a child process: the only module to import it
    reading      read_report: Report, and every refusal by name; whether a file is a report, and complete
    records      Launch, Measured, Row: instructions and their counters; by_line; SASS instructions by the
                 analysis's names
    counting     excess, pipe_counters: what counters include that is not a bank conflict
    fitting      fit_pitch: the row pitches that explain a measured count, and a layout without conflicts
    joining      join: instructions and the accesses that `layoutalg kernel` read, by file and line
    explaining   explain_launch, Finding: the explanation of a launch
    words        its tables, sentences and JSON fields

>>> fit_pitch("ld.shared.b128", 8).pitches[0]
128
"""

from __future__ import annotations

from layoutalg.profiling.explaining import Finding, explain_launch
from layoutalg.profiling.fitting import fit_pitch
from layoutalg.profiling.joining import with_ends
from layoutalg.profiling.reading import read_report
from layoutalg.profiling.records import Launch, instruction_op, never_executed
from layoutalg.profiling.words import (
    HEADER,
    SASS_HEADER,
    ProfiledLaunch,
    finding_notes,
    finding_rows,
    launch_answer,
    sass_rows,
    title_of,
)

__all__ = [
    "HEADER", "SASS_HEADER", "Finding", "Launch", "ProfiledLaunch", "explain_launch", "finding_notes",
    "finding_rows", "fit_pitch", "instruction_op", "launch_answer", "never_executed", "read_report",
    "sass_rows", "title_of", "with_ends",
]  # fmt: skip
