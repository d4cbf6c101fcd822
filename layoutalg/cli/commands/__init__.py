"""The commands of `layoutalg`, one per file, in rooms by what one wants to know.

    layouts     a layout itself: solve, synthesize, eval, explain, code, identify, convert, draw; yes or no,
                with a reason: check, legal, ci
    accesses    what accesses cost: analyze, report, kernel, profile
    kernels     a kernel and what it holds: generate, verify, inspect sass, inspect occupancy,
                inspect pipeline, inspect registers, inspect l2
    times       times, measured and searched for: bench, tune, inspect chart, inspect roofline
    help        help, doctor, doctor cache, and doctor demo, which shows commands of other rooms

`layoutalg.cli.table` lists them; each is imported when it is asked for.
"""

from __future__ import annotations
