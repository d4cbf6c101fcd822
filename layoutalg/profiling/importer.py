"""The content of a report of Nsight Compute, as one JSON object: the only place that imports `ncu_report`.

    python importer.py REPORT MOST [REGEX]

The idea.  ncu-report is a compiled library that reads files which users hand over: it may crash, or read a
file that is not a report as one without results.  So it runs here, as a program of its own, under limits
(layoutalg.tools); nothing else of layoutalg is imported.  Only what the face needs crosses over: for each
launch the counters of instructions that touch memory, some sums, and the text of the lines that they come
from.

Output: {"names": those of all launches, "launches": [...]} where REGEX matches a part of the name, at
most MOST of them; {"error": kind, "message"} for a report that is refused.  Kinds: "missing", the library is
not installed; "damaged", a launch lacks its name; "regex", the expression is invalid; "many", more than MOST.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

COUNTERS = {
    "executed": "inst_executed",
    "threads": "thread_inst_executed_true",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
    "sectors": "memory_l2_theoretical_sectors_global",
    "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
}
"""The counters of instructions: our name -> the metric of the section SourceCounters."""

_PIPE = "l1tex__data_pipe_lsu_wavefronts"
_CLASHES = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"

SUMS = {
    "pipe": f"{_PIPE}.sum",
    "pipe_shared": f"{_PIPE}_mem_shared.sum",
    "pipe_loads": f"{_PIPE}_mem_shared_op_ld.sum",
    "pipe_stores": f"{_PIPE}_mem_shared_op_st.sum",
    "conflicts_loads": f"{_CLASHES}_op_ld.sum",
    "conflicts_stores": f"{_CLASHES}_op_st.sum",
    "conflicts_copies": f"{_CLASHES}_op_ldgsts.sum",
    "sectors_loads": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "sectors_stores": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "nanoseconds": "gpu__time_duration.sum",
    "cycles": "gpc__cycles_elapsed.max",
}
"""The sums of launches: counters of the hardware, in MemoryWorkloadAnalysis_Tables, and times."""

_MEMORY = ("wavefronts", "sectors")


class Refused(Exception):
    """A refusal, which the output states instead of launches."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def metric_value(action: Any, name: str) -> Any:
    """A metric of a launch as a plain value, None where the report has none."""
    metric = action.metric_by_name(name)
    return None if metric is None else metric.value()


def metric_values(action: Any, name: str, parts: Iterable[str]) -> list[Any]:
    """The metrics of these parts of a name, those that the report has."""
    values = (metric_value(action, f"{name}{part}") for part in parts)
    return [value for value in values if value is not None]


def instances(action: Any, name: str) -> dict[int, int] | None:
    """A counter by address of the instruction; None where it was not recorded."""
    metric = action.metric_by_name(name)
    if metric is None:
        return None
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(i): metric.as_uint64(i) for i in range(metric.num_instances())}


def launch(action: Any, index: int) -> dict[str, Any]:
    """A launch: its configuration, its sums, and its instructions that touch memory, in order."""
    by_name = {name: instances(action, metric) for name, metric in COUNTERS.items()}
    touched = {at for name in _MEMORY for at in by_name[name] or ()}
    first = min(by_name["executed"] or touched or (0,))
    files: dict[str, dict[int, str]] = {}
    texts = {str(name): str(text) for name, text in dict(action.source_files()).items()}
    instructions = []
    for at in sorted(touched):
        where = action.source_info(at)
        file, line = (None, None) if where is None else (str(where.file_name()), int(where.line()) or None)
        if file is not None and line is not None and texts.get(file):
            lines = texts[file].splitlines()
            if 0 < line <= len(lines):
                files.setdefault(file, {})[line] = lines[line - 1][:400]
        counts = {name: values[at] for name, values in by_name.items() if values is not None and at in values}
        sass = str(action.sass_by_pc(at)).strip()
        instructions.append({"at": at - first, "sass": sass, "file": file, "line": line, **counts})
    return {
        "index": index,
        "name": action.name(),
        "signature": action.name(action.NameBase_DEMANGLED) or action.name(),
        "block": metric_values(action, "launch__block_dim_", "xyz"),
        "grid": metric_values(action, "launch__grid_dim_", "xyz"),
        "device": metric_value(action, "device__attribute_display_name") or "",
        "capability": metric_values(action, "device__attribute_compute_capability_", ("major", "minor")),
        "missing": [COUNTERS[name] for name, values in by_name.items() if values is None],
        "sums": {
            name: None if (value := metric_value(action, metric)) is None else round(value)
            for name, metric in SUMS.items()
        },
        "instructions": instructions,
        "text": {file: {str(line): text for line, text in lines.items()} for file, lines in files.items()},
    }


def read(path: str, most: int, wanted: str | None) -> dict[str, Any]:
    """The whole output for a report."""
    try:
        import ncu_report
    except ImportError as error:
        raise Refused("missing", str(error)) from None
    try:
        pattern = re.compile(wanted or "")
    except re.error as error:
        raise Refused("regex", str(error)) from None
    report = ncu_report.load_report(path)
    actions = [action for part in report for action in part]
    names = [action.name() for action in actions]
    if not all(isinstance(name, str) and name for name in names):
        raise Refused("damaged", "a launch in it has no name")
    chosen = [i for i, name in enumerate(names) if pattern.search(name)]
    if len(chosen) > most:
        raise Refused("many", str(len(chosen)))
    launches = [launch(actions[i], i) for i in chosen]
    return {"names": names, "launches": launches}


def main() -> int:
    """Print what was read; a damaged file makes the library raise anything, which ends this program."""
    path, most, *wanted = sys.argv[1:]
    try:
        answer = read(path, int(most), wanted[0] if wanted else None)
    except Refused as refused:
        answer = {"error": refused.kind, "message": str(refused)}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
