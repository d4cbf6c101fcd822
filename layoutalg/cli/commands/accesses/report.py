"""`layoutalg report`: layouts and what accesses cost on them, as one page for a browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from layoutalg.answers import Answer, Count
from layoutalg.arch import find_arch
from layoutalg.cli.commands.accesses.explicit import layout_of, read_explicit
from layoutalg.cli.commands.accesses.options import AccessOptions, check_source
from layoutalg.cli.files import write_whole
from layoutalg.cli.inputs import read_fail_on, read_level, read_method
from layoutalg.cli.options import argument, option
from layoutalg.cli.output import progress, say, say_answer, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.cli.reports import failures
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import ArgumentTypeError, printable

REPORT = Path("report.html")


@dataclass(frozen=True)
class PageAnswer(Answer, command="report"):
    """A page that was written."""

    layouts: tuple[str, ...]
    dtype: str
    arch: str
    accesses: tuple[str, ...]
    """The accesses that were named, or that --index or --offsets are on their layout."""
    output: str
    """Path that was written."""
    bytes: Count
    failed: tuple[str, ...]
    """Conditions of --fail-on that hold; exit code 1 when there is one."""


def report_command(
    layouts: Annotated[
        list[str] | None,
        argument(
            "Layouts in CuTe notation, such as '(64,64):(64,1)'; - reads one from standard input.",
            stdin="text",
        ),
    ] = None,
    *,
    asked: AccessOptions,
    output: Annotated[
        Path, option("Write to this file; it is replaced only when complete.", "--output", "-o")
    ] = REPORT,
) -> int:
    """Write an HTML page of layouts and accesses: pictures, costs, ranked layouts, index functions.

    The page is one self-contained file: open it from the disk, or send it to someone.

    layoutalg report "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4 -o report.html

    layoutalg report --index "(lane//8)*144 + (lane%8)*16" --op ld.shared.b128 -o report.html
    """
    from layoutalg.page import PageRequest, report_html

    conditions = [read_fail_on(text) for text in asked.fail_on or ()]
    machine, wanted = find_arch(asked.arch), read_method(asked.method)
    if read_level(asked.level) != "request":
        raise ArgumentTypeError(
            f"a page shows requests, and --level {asked.level} has none to draw; layoutalg analyze counts it"
        )
    check_source(bool(layouts), asked)
    arch, base, dtype = asked.arch, asked.base, asked.dtype
    with progress("drawing"):
        if layouts:
            texts, specs, element = layouts, asked.access or [], "f32" if dtype is None else dtype
        else:
            element = "u8" if dtype is None else dtype
            explicit = read_explicit(asked.index, asked.offsets, asked.warps, asked.regs, machine)
            layout, spec = layout_of(explicit, str(asked.op), element_type(element), machine)
            texts, specs = [str(layout)], [spec]
        request = PageRequest(texts, specs, element, arch, base, wanted)
        page = report_html(request).encode()
        failed = failures(conditions, request.reports)
    write_whole(output, page, private=True)
    if wants_json():
        what = tuple(texts), element, arch, tuple(specs)
        say_answer(PageAnswer(*what, str(output), len(page), tuple(failed)))
    else:
        print(printable(f"wrote {output} ({len(page):,} bytes): open it in a browser"))
        for text in failed:
            say(f"Fails: {text}.")
    return FAILED if failed else 0
