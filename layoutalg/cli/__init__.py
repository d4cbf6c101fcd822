"""The `layoutalg` command: analyze, solve, synthesize, explain, code, identify, check, ci, generate, verify,
bench, chart, sass, occupancy, roofline, l2, registers, pipeline, draw, glossary, cache, doctor, demo.

Every command answers with tables, or with `--json` as one JSON object that follows
layoutalg/schema/output.json, and exits 0 when it answered or the check passed, 1 when the checked property
fails, 2 on bad input, 3 when there is no answer for another reason, 130 on an interrupt.

    entry         main: what the console script calls, and the exit code of what nobody foresaw
    app           the list of commands, ADD A COMMAND HERE; how errors that are foreseen are shown
    commands/     one file per command, in rooms by what one wants to know
    options       options that commands of several rooms share; records of options, spread
    inputs        layouts, files of offsets and conditions, read and checked
    kernel_names  kernels by the names the command line gives them
    kernel_words  kernels, compilations and verified problems, for people and as JSON
    stores/       stores of timings and of verified problems: what is done with them
    reports       reports of accesses, as tables and as JSON, and conditions that judge them
    output        tables, one JSON object, files written whole or not at all
    refusals      errors in one sentence on stderr or one JSON object; exit codes
    completions   values that the shell completes
    streams       standard output and error, every byte written or known why not
"""

from layoutalg.cli.entry import main

__all__ = ["main"]
