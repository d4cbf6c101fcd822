"""The front door of the analysis: what accesses cost on a layout, with the accesses said in text.

>>> from layoutalg.layout import Layout
>>> print(analyze(Layout((64, 64), (64, 1)), "ldmatrix.x4@row", "f16"))
Shared memory
access       instructions  wavefronts  ideal  worst  its ideal  conflict  method
────────────────────────────────────────────────────────────────────────────────
ldmatrix.x4            16         512     64     32          4     8-way      f2
<BLANKLINE>
ldmatrix.x4: 16 instructions, each 8-way: 32 wavefronts against an ideal of 4 (warp 0: bank 0 has 8
words to serve for lanes 0-7).

What a text may say is in `Access.of`; what the numbers mean in layoutalg.analysis.report.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, cast, overload

from layoutalg.analysis.access import Access, TmaAccess
from layoutalg.analysis.analyzer import METHODS, Wanted, analyze_access, check_layout
from layoutalg.analysis.memory.dram import dram_of
from layoutalg.analysis.report import DramReport, Report
from layoutalg.arch import Arch
from layoutalg.dtype import DTYPES, DType, dtype
from layoutalg.errors import ArgumentTypeError, check_choice, listed
from layoutalg.layout import AnyLayout

Level: TypeAlias = Literal["request", "dram"]
"""The place where costs are counted: each request of a warp, or the memory behind the L2 for all of them."""

LEVELS: tuple[Level, ...] = ("request", "dram")


@overload
def analyze(  # type: ignore[overload-overlap]  # a text is an iterable of texts, too
    layout: AnyLayout | str,
    access: str | Access,
    element: str | DType | Arch | None = None,
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
    *,
    level: Literal["request"] = "request",
) -> Report: ...


@overload
def analyze(
    layout: AnyLayout | str,
    access: Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
    *,
    level: Literal["request"] = "request",
) -> list[Report]: ...


@overload
def analyze(  # type: ignore[overload-overlap]
    layout: AnyLayout | str,
    access: str | Access,
    element: str | DType | Arch | None = None,
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
    *,
    level: Literal["dram"],
) -> DramReport: ...


@overload
def analyze(
    layout: AnyLayout | str,
    access: Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
    *,
    level: Literal["dram"],
) -> list[DramReport]: ...


def analyze(
    layout: AnyLayout | str,
    access: str | Access | Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
    *,
    level: Level = "request",
) -> Report | DramReport | list[Report] | list[DramReport]:
    """The cost of an access to `layout`: wavefronts in shared memory, sectors in global memory.

    By default every request is counted by itself.  With level="dram" the report is of the DRAM traffic of all
    requests of a global access together (see `dram_of`, which also takes several accesses).

    A layout may be a text that `parse` reads.  An access is an Access, or a text such as "ldmatrix.x4@row"
    that covers the whole tile (see `Access.of`) and needs the type of an `element`; an Access has its type,
    and the architecture may follow it.  A list of accesses gives a list of reports; `print(report)` is a
    table and a sentence.  Raises ParseError for a text that is not a layout, ArgumentTypeError for a text
    without an element, an element that differs from the access's own, and what is not a layout;
    AlignmentError, ShapeError and UnknownNameError for an access that does not fit, UnsupportedError when a
    named closed form does not apply, UndecidedError when the budget is spent.

    >>> from layoutalg.layout import Layout
    >>> analyze("(64,64):(64,1)", ["LDS.128", "cp.async.b128:global"], "f16", arch="A100")[0].ways
    1
    >>> slab = Layout((4096, 8), (1024, 1))
    >>> analyze(slab, "ld.global.b128@row", "f32", level="dram")
    <DramReport ld.global.b128: 256 instructions, 262,144 bytes moved, 50.0% efficient>
    """
    check_choice("level", level, LEVELS)
    if isinstance(layout, str):
        from layoutalg.notation import parse

        layout = cast("AnyLayout", parse(layout))
    if isinstance(access, Access) and (
        isinstance(element, Arch) or (isinstance(element, str) and element not in DTYPES)
    ):  # an access has its type: what follows it is the architecture, and then the method
        method = cast(Wanted, arch) if arch in {"auto", *METHODS} else method
        arch, element = element, None
    if not isinstance(access, Access):  # of one, analyze_access looks at the layout
        check_layout(layout)
    if isinstance(element, Arch):
        raise ArgumentTypeError(f"analyze with the element {element.name}: an architecture goes to `arch`")
    if isinstance(access, (str, Access, TmaAccess)):
        return _one(layout, access, element, arch, method, level)
    several = listed("analyze", access, "an access, its text or a list")
    reports = [_one(layout, each, element, arch, method, level) for each in several]
    return cast("list[Report] | list[DramReport]", reports)


def _one(
    layout: AnyLayout,
    access: str | Access | TmaAccess,
    element: str | DType | None,
    arch: str | Arch,
    method: Wanted,
    level: Level,
) -> Report | DramReport:
    if isinstance(access, str):
        if element is None:
            raise ArgumentTypeError(
                f'analyze of {access!r} needs the type of an element, such as "f16", as the third argument'
            )
        access = Access.of(access, layout, element, arch)
    elif isinstance(access, Access) and element is not None and dtype(element) != access.element:
        raise ArgumentTypeError(
            f"analyze of an access of {access.element} with the element {dtype(element)}: leave it out"
        )
    count = analyze_access if level == "request" else dram_of
    return count(layout, access, arch, method)
