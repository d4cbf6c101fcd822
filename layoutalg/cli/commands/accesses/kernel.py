"""`layoutalg kernel`: the accesses of a CUDA source as it is, by line, with wavefronts and sectors."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from layoutalg.answers import Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.files import read_source
from layoutalg.cli.inputs import read_extents, read_sets
from layoutalg.cli.options import ArchOption, argument, option
from layoutalg.cli.output import Table, count, progress, say, say_answer, say_verbatim, size_bytes, wants_json
from layoutalg.errors import ParseError
from layoutalg.limits import Most, text_of
from layoutalg.source import SourceAccess, TakenNumber, Unfollowed

if TYPE_CHECKING:
    from layoutalg.source import Fix, KernelReading


@dataclass(frozen=True)
class EditAnswer:
    """A change of a text."""

    file: str
    """The path of a header, empty for the source itself."""
    line: Positive
    column: Positive
    """In bytes."""
    before: str
    after: str


@dataclass(frozen=True)
class FixAnswer:
    """A change that removes the conflicts of an array, in wavefronts of all its accesses."""

    array: str
    file: str
    """The header that the line is in, empty for the source itself."""
    line: Positive
    """The line of the array's declaration."""
    kind: Literal["padding", "swizzle"]
    layout: str
    extra_bytes: Count
    before: Count
    after: Count
    ideal: Count
    code: str
    """The lines with the edits, or an index function."""
    edits: tuple[EditAnswer, ...]
    """All that has to be changed, read again and compared; empty where accesses must be rewritten."""
    rewrite: tuple[str, ...]
    """Without edits: what must be rewritten, by line."""
    launch_bytes: Count | None
    """Dynamic shared memory that the launch then gives, of what was read; null of a static array."""
    start: Count
    """The bytes of the array that it is for begin here."""
    end: Count
    left: tuple[str, ...]
    """The accesses that keep conflicts, where none was found that leaves none."""


@dataclass(frozen=True)
class KernelAnswer(Answer, command="kernel"):
    """The accesses of a CUDA source, counted for one block or for the grid."""

    source: str
    kernels: tuple[str, ...]
    arch: str
    blocks: tuple[tuple[Positive, ...] | None, ...]
    """The threads of a block of each kernel, null where they are not known."""
    grid: tuple[Positive, ...] | None
    accesses: tuple[SourceAccess, ...]
    unfollowed: tuple[Unfollowed, ...]
    taken: tuple[TakenNumber, ...]
    """Sizes and template parameters that are not given."""
    wanted: tuple[str, ...]
    """Names for --set without which accesses are not read."""
    notes: tuple[str, ...]
    fixes: tuple[FixAnswer, ...] | None
    """With --fix, null without it."""
    patch: str | None
    """With --patch, a unified diff, empty where no edit was found; null without it."""


MOST_PLACES = 6
"""Accesses that a sentence names."""


def kernel_command(
    source: Annotated[str, argument("A CUDA source file; - reads standard input.")],
    block: Annotated[
        str | None,
        "Threads of a block: 256, 16x16 or 8x8x4. Default: those of each kernel's launch in the source.",
    ] = None,
    grid: Annotated[
        str | None, "Blocks of the grid, to count all of them. Default: only block (0,0,0)."
    ] = None,
    sets: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE: a parameter, a template parameter (a type too), a macro or a constant that the "
            "source leaves open, blockIdx.x, gridDim.x. May be repeated.",
            "--set",
        ),
    ] = None,
    include: Annotated[
        list[str] | None, "A folder of headers, beside that of the source. May be repeated."
    ] = None,
    define: Annotated[
        list[str] | None,
        option("NAME or NAME=TEXT: a macro, as for a compiler. May be repeated.", "--define", "-D"),
    ] = None,
    compile_commands: Annotated[
        str | None, "A compile_commands.json, whose macros and folders of headers for the source are taken."
    ] = None,
    kernel: Annotated[str | None, "The kernel to read. Default: all."] = None,
    fix: Annotated[
        bool, "Show the padding or swizzle that removes the bank conflicts, and what to change."
    ] = False,
    patch: Annotated[
        bool, "Print the edits of --fix as a unified diff, for patch -p0 or git apply -p0."
    ] = False,
    compiled: Annotated[
        bool,
        option(
            "Compile the source with nvcc or NVRTC, count accesses as its machine code has joined them, and "
            "show how many instructions each became.",
            "--compile",
        ),
    ] = False,
    arch: ArchOption = DEFAULT_ARCH,
) -> int:
    """Count the wavefronts and sectors of every access of a kernel, from its CUDA source.

    layoutalg kernel sgemm.cu --set N=4096 --set BM=128

    The source is not executed. Every access is in the table, or is listed as not read, with the reason.
    Exits 2 if none could be read of those that are reached.
    """
    from layoutalg.source import read_kernel, refuse_unread

    sizes = None if block is None else read_extents("block", block, "16x16", "one to three")
    blocks = None if grid is None else read_extents("grid", grid, "16x16", "one to three")
    values = read_sets(sets or [])
    macros, folders = ({}, []) if compile_commands is None else read_build(compile_commands, source)
    macros |= dict(map(macro, define or []))
    folders += [str(Path(spot).resolve()) for spot in include or ()]
    text = read_source(source)
    folder = None if source == "-" else str(Path(source).resolve().parent)
    with progress("reading"):
        reading = read_kernel(
            text, sizes, grid=blocks, sets=values, kernel=kernel, arch=arch, folder=folder,
            include=folders, defines=macros, compiled=compiled,
        )  # fmt: skip
        refuse_unread(reading)
        fixes: tuple[Fix, ...] = ()
        notes: tuple[str, ...] = ()
        edits: tuple[Fix, ...] = ()
        diff = ""
        if fix or patch:
            from layoutalg.source import fixes_of, patch_of, patched_fixes

            fixes, notes = fixes_of(reading)
            edits = patched_fixes(fixes)
            diff = patch_of(reading, edits, source)
    if wants_json():
        asked = {"fixes": fixes if fix or patch else None, "patch": diff if patch else None}
        say_answer(taken(KernelAnswer, reading, source=source, notes=(*reading.notes, *notes), **asked))
    elif patch:
        _show_patch(edits, diff, fixes)
    else:
        _show(reading, notes)
        for repair in fixes:
            _show_fix(repair)
        if fix and not reading.conflicting:
            say(_without_conflicts(reading))
    return 0


def macro(text: str) -> tuple[str, str]:
    """The name and the text of a macro, as a compiler's -D takes them.

    >>> macro("N=64"), macro("NDEBUG")
    (('N', '64'), ('NDEBUG', '1'))
    """
    name, equals, value = text.partition("=")
    return name, value if equals else "1"


def read_build(place: str, source: str) -> tuple[dict[str, str], list[str]]:
    """The macros and the folders of headers with which a compile_commands.json compiles a source.

    Nothing of it is run.  Raises ParseError, ResourceError, OSError.
    """
    raw = text_of(Most.FILE.read(Path(place)), place)
    try:
        entries = json.loads(raw)
        for entry in entries:
            folder = Path(place).resolve().parent / entry["directory"]
            if (folder / entry["file"]).resolve() == Path(source).resolve():
                words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
                return _options(list(map(str, words)), folder)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = "a list of commands with directory, file and command or arguments"
        raise ParseError(f"{place} is not {what}: {error or type(error).__name__}") from None
    raise ParseError(f"{place} has no command for {source}")


def _options(words: list[str], folder: Path) -> tuple[dict[str, str], list[str]]:
    """The macros and folders of headers of a command."""
    macros: dict[str, str] = {}
    folders = []
    waiting = iter(words)
    for word in waiting:
        found = re.match(r"(-I|-isystem|-iquote|-D)=?(.*)", word, re.DOTALL)
        if found is None:
            continue
        value = found[2] or next(waiting, "")
        if found[1] == "-D":
            macros |= dict([macro(value)])
        else:
            folders.append(str((folder / value).resolve()))
    return macros, folders


def _without_conflicts(reading: KernelReading) -> str:
    """The sentence for a source in which no access that was read has conflicts."""
    read, memory = sum(a.read for a in reading.memory), len(reading.memory)
    if reading.grid is None and any(a.read and not a.instructions for a in reading.memory):
        return "No bank conflict is in the accesses that block (0,0,0) executes; --grid counts other blocks."
    open_ = sorted({name for a in reading.memory if a.ways is not None for name in a.depends})
    if open_:
        names = ", ".join(open_)
        return f"No bank conflict is in the accesses as they are counted; with other {names} may be one."
    if read == memory and not reading.unfollowed:
        return "No shared array has bank conflicts."
    return f"No bank conflict is in the {read} of {memory} accesses that were read."


def _show_patch(edits: tuple[Fix, ...], diff: str, fixes: tuple[Fix, ...]) -> None:
    """The sentences of the fixes that a patch makes, which tools skip, and the patch."""
    for fix in edits:
        say_verbatim(_head(fix))
    for fix in fixes:
        place = fix.array, fix.file, fix.line, fix.start
        if all((e.array, e.file, e.line, e.start) != place for e in edits):
            say_verbatim(f"Not in this patch: {_head(fix)}")
    if not diff:
        say_verbatim("No edit of the text was found that removes a bank conflict.")
    for line in diff.split("\n")[:-1]:
        say_verbatim(line)


def _head(fix: Fix) -> str:
    """A sentence on what a fix does."""
    extra = f"{size_bytes(fix.extra_bytes)} more" if fix.extra_bytes else "no extra memory"
    ideal = f", with {count(fix.ideal)} as the ideal" if fix.left else ", the ideal"
    counts = f"{count(fix.before)} wavefronts become {count(fix.after)}{ideal}"
    name = f"{fix.array}[{fix.start}:{fix.end}]" if fix.part else fix.array
    place = f"{fix.file}, line {fix.line}" if fix.file else f"line {fix.line}"
    return f"{name} ({place}), by {fix.kind}: {counts}; {extra}."


def _show_fix(fix: Fix) -> None:
    say("", _head(fix))
    if fix.left:
        say(f"Left are conflicts in {'; '.join(fix.left)}.")
    say_verbatim(str(fix.layout))
    for line in fix.code.splitlines():
        say_verbatim(line)
    if fix.rewrite:
        first, *others = fix.rewrite
        say(f"It is not enough to add this: {first}.")
        if others:
            say("Rewrite, too:")
        for line in others:
            say_verbatim(f"    {line}")
    if fix.launch_bytes is not None:
        say(f"The launch gives {count(fix.launch_bytes)} bytes of dynamic shared memory to what was read.")


def _show(reading: KernelReading, notes: tuple[str, ...]) -> None:
    parts: list[str | Table] = []
    what = "block (0,0,0)" if reading.grid is None else f"all {count(_blocks(reading))} blocks"
    rows = [a for a in reading.memory if a.read]
    compiled = any(a.compiled is not None for a in rows)
    more = ("compiled",) if compiled else ()
    columns = ("line", "access", "array", "instructions", "wavefronts", "sectors", "ideal", "", *more)
    for name, block in zip(reading.kernels, reading.blocks, strict=True):
        own = [(*_row(a), *([str(a.compiled or 0)] if compiled else ())) for a in rows if a.kernel == name]
        if own and block is not None:
            title = f"{name}: {what} of {'x'.join(map(str, block))} threads"
            parts.append(Table(title, columns, own, left=3))
    unread = [a for a in reading.memory if not a.read]
    for a in unread:
        why = f"not read: {a.why}" if a.reached else a.why
        parts.append(f"{a.place}, column {a.column}: {_named(a)}{why}.")
    unfollowed = [part for part in reading.unfollowed if part.why not in reading.notes]
    parts += [f"{part.place}: {part.why}." for part in unfollowed]
    if unread or unfollowed:
        parts.append("")
    parts += [
        f"{a.place}, column {a.column}: {a.array}: a texture unit makes its addresses, and it is not counted."
        for a in reading.accesses if a.op == "fetch"
    ]  # fmt: skip
    summary = f"{len(rows)} of {len(reading.memory)} accesses are read"
    if not reading.memory:
        verb = "has" if len(reading.kernels) == 1 else "have"
        summary = f"{', '.join(reading.kernels)} {verb} no access to shared or global memory"
        summary += " among what is followed" if reading.unfollowed else ""
    if never := sum(not a.reached for a in unread):
        summary += f"; {never} {'is' if never == 1 else 'are'} never reached"
    registers = sum(a.op == "registers" for a in reading.accesses)
    if registers:
        summary += f"; {registers} more are to arrays in registers"
    parts.append(f"{summary}.")
    parts += _taken(reading)
    if reading.unfollowed:
        parts.append("Some parts are not followed, and there may be more accesses than these.")
    if reading.wanted:
        parts.append(f"More is read with --set for {', '.join(reading.wanted)}.")
    noted = [f"{a.place}, {a.op} {a.array}: {a.note}" for a in reading.memory if a.note]
    parts += [f"Note: {note}." for note in (*noted, *reading.notes, *notes)]
    say(*parts)


def _taken(reading: KernelReading) -> list[str]:
    """The names that are not given, by the values that they are counted with."""
    by_value: dict[str, list[str]] = {}
    for number in reading.taken:
        value = number.value if isinstance(number.value, str) else count(number.value)
        by_value.setdefault(value, []).append(number.name)
    parts = [f"Not given, and counted as {value}: {', '.join(n)}." for value, n in by_value.items()]
    by_names: dict[tuple[str, ...], dict[str, None]] = {}
    for access in reading.memory:
        by_names.setdefault(access.depends, {})[f"{access.place} ({access.array})"] = None
    for names, places in by_names.items():
        if names:
            shown = [*list(places)[:MOST_PLACES], *["others"] * (len(places) > MOST_PLACES)]
            parts.append(f"The last column depends on {', '.join(names)} in {', '.join(shown)}.")
    return parts


def _named(access: SourceAccess) -> str:
    words = " ".join(word for word in (access.op, access.array) if word)
    return f"{words}: " if words else ""


def _row(access: SourceAccess) -> tuple[str, ...]:
    counts = tuple(count(n or 0) for n in (access.instructions, access.total, access.ideal_total))
    line = f"{access.file}:{access.line}" if access.file else str(access.line)
    if access.function != access.kernel.rpartition("::")[2]:
        line = f"{line} in {access.function}"
    last = f"{access.efficiency or 0:.1%}"
    if access.ways is not None:
        last = f"{access.ways}-way" if access.ways > 1 else "conflict-free"
    last += f"\n{access.lanes} lanes per address" if access.lanes > 1 else ""
    columns = (counts[1], "") if access.ways is not None else ("", counts[1])
    return (line, access.op, access.part or access.array, counts[0], *columns, counts[2], last)


def _blocks(reading: KernelReading) -> int:
    x, y, z = reading.grid or (1, 1, 1)
    return x * y * z
