"""`layoutalg report`: layouts and what accesses cost on them, as one page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layoutalg.cli.completions import accesses
from layoutalg.cli.inputs import or_input
from layoutalg.cli.options import ArchOption, DtypeOption, JsonOption
from layoutalg.cli.output import progress, say_json, write_whole
from layoutalg.cli.refusals import header
from layoutalg.errors import printable

REPORT = Path("report.html")


def report_command(
    layouts: Annotated[
        list[str],
        typer.Argument(
            metavar="LAYOUT...",
            help="Layouts in CuTe notation, such as '(64,64):(64,1)'; - reads one from standard input.",
            show_default=False,
            callback=or_input,
        ),
    ],
    access: Annotated[
        list[str] | None,
        typer.Option(
            help="OP, OP@row, OP@col or OP@TV layout, such as ldmatrix.x4, ld.shared.b32@col or LDS.128. "
            "Repeats. Default: loads of one element, by row and by column.",
            show_default=False,
            autocompletion=accesses,
        ),
    ] = None,
    dtype: DtypeOption = "f32",
    arch: ArchOption = "sm_90",
    base: Annotated[int, typer.Option(help="Bytes added to every address.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write to this file, whole or not at all.")
    ] = REPORT,
    as_json: JsonOption = False,
) -> None:
    """Write a page of layouts and accesses: pictures, costs, sliders, ranked layouts, index functions.

    The page is one file that loads nothing: open it from the disk, or send it to someone.

    layoutalg report "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4 -o report.html
    """
    from layoutalg.page import report_html

    with progress("drawing", quiet=as_json):
        page = report_html(layouts, access or (), dtype=dtype, arch=arch, base_bytes=base).encode()
    write_whole(output, page, private=True)
    if as_json:
        fields = {"layouts": layouts, "dtype": dtype, "arch": arch, "accesses": access or []}
        say_json(header("report") | fields | {"output": str(output), "bytes": len(page)})
    else:
        print(printable(f"wrote {output} ({len(page):,} bytes): open it in a browser"))
