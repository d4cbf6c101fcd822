"""The `layoutalg` command; `commands` says which questions it answers.

Every command answers with tables, or with `--json` as one JSON object that follows
layoutalg/schema/output.json, and exits 0 when it answered or the check passed, 1 when the checked property
fails, 2 on bad input, 3 when there is no answer for another reason, 128 + n when signal n (INT, TERM or HUP)
ended it.

    entry         main: the entry point of the console script, the exit code of unexpected errors, signals
                  that end the command, and streams: every byte is written, or it is known why not
    table         the list of commands, ADD A COMMAND HERE
    app           the commands of the table, each imported when asked for; how expected errors are shown
    commands/     one file per command, grouped by topic
    options       options that commands of several groups share; values that the shell completes
    parameters    the parameters of a command, from its signature: their words, their help, their completion
    inputs        layouts, offsets and conditions, read and checked
    files         files, read up to a limit, written whole or not at all
    kernel_names  kernel families by their names on the command line
    reports       accesses, kernels and verified problems, as tables and as JSON; the conditions of --fail-on
    output        tables, one JSON object
    refusals      errors in one sentence on stderr or one JSON object; exit codes
"""

from layoutalg.cli.entry import main

__all__ = ["main"]
