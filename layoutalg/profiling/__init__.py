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

>>> instruction_op("LDS.128 R8, [R8]"), fit_pitch("ld.shared.b128", 8).pitches[0]
('ld.shared.b128', 128)
"""

from __future__ import annotations

from layoutalg.profiling.counting import Pipe, excess
from layoutalg.profiling.explaining import Finding, explain_launch
from layoutalg.profiling.fitting import Fit, fit_pitch
from layoutalg.profiling.joining import Joined, with_ends
from layoutalg.profiling.reading import RECORD, Frame, Report, frame, read_report
from layoutalg.profiling.records import Launch, Measured, Row, instruction_op
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
    "HEADER",
    "RECORD",
    "SASS_HEADER",
    "Finding",
    "Fit",
    "Frame",
    "Joined",
    "Launch",
    "Measured",
    "Pipe",
    "ProfiledLaunch",
    "Report",
    "Row",
    "excess",
    "explain_launch",
    "finding_notes",
    "finding_rows",
    "fit_pitch",
    "frame",
    "instruction_op",
    "launch_answer",
    "read_report",
    "sass_rows",
    "title_of",
    "with_ends",
]
