"""What a page is made of: models that its JavaScript counts with, and pieces of HTML.

One function serves both pages: report.html holds its result, explore.html asks it in the browser.

>>> made = page_data(["(64,64):(64,1)"], ["ldmatrix.x4"], "f16")
>>> [model["text"] for model in made["models"]][:2]
['(64,64):(64,1)', 'Sw<3,3,3> o 0 o (64,64):(64,1)']
>>> sorted(made["html"])
['code', 'costs', 'pictures', 'ranking', 'terms']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layoutalg.analysis import Access, Report, analyze_access
from layoutalg.draw import PALETTE
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ResourceError
from layoutalg.layout import AnyLayout
from layoutalg.page import sections
from layoutalg.page.engine import Engine, engine_of, model_of

MOST_LAYOUTS = 16
"""Layouts, and accesses, that a page shows."""

MORE = (
    "ld.shared.b32@row",
    "ld.shared.b32@col",
    "ld.shared.b64@row",
    "ld.shared.b128@row",
    "ld.shared.b128@col",
    "ldmatrix.x4",
    "st.shared.b128@row",
    "ld.global.b32@row",
    "ld.global.b32@col",
    "ld.global.b128@row",
)
"""Accesses that a page offers besides those that were asked for, where they fit the layout."""


def default_accesses(element_bits: int) -> list[str]:
    """The accesses of a layout when nobody names one, as `layoutalg analyze` takes them.

    >>> default_accesses(32)
    ['ld.shared.b32@row', 'ld.shared.b32@col']
    """
    return [f"ld.shared.b{element_bits}@row", f"ld.shared.b{element_bits}@col"]


def page_data(
    layouts: Sequence[str],
    accesses: Sequence[str] = (),
    dtype: str = "f32",
    arch: str = "sm_90",
    base_bytes: int = 0,
) -> dict[str, Any]:
    """Models and pieces of HTML for layouts and accesses, given as texts.

    `models` are those of the layouts, then of what synthesis ranks for each.  An access that does not fit one
    of several layouts is told there.  Raises ArgumentTypeError without a layout, ResourceError for more than
    MOST_LAYOUTS layouts or accesses, what parsing raises, and what an access raises where none fits.
    """
    for what, given in (("layouts of a page", layouts), ("accesses of a page", accesses)):
        if len(given) > MOST_LAYOUTS:
            raise ResourceError(what, len(given), MOST_LAYOUTS)
    if not layouts:
        raise ArgumentTypeError("a page needs a layout")
    engines = [engine_of(text, dtype, arch, base_bytes) for text in layouts]
    specs = list(dict.fromkeys(accesses or default_accesses(engines[0].element.bits)))
    models: dict[AnyLayout, dict[str, Any]] = {}
    html: dict[str, list[str]] = {"costs": [], "ranking": [], "code": [], "pictures": []}
    room, reports = sections.MOST_PICTURE_BYTES, [_reports(engine, specs) for engine in engines]
    for engine, (named, refused) in zip(engines, reports, strict=True):
        models.setdefault(engine.layout, _model(engine, "given", [name for name, _ in named]))
        html["costs"].append(sections.costs(engine.layout, named, refused))
        html["code"].append(sections.index_code(engine))
        drawn = [(name, engine.access(name)) for name, _ in named]
        pictures = sections.pictures(engine.layout, drawn, engine.machine, room)
        room -= sum(map(len, pictures))
        html["pictures"] += pictures
    for engine, (named, _) in zip(engines, reports, strict=True):

        def number_of(layout: AnyLayout, engine: Engine = engine, asked: Sequence[Any] = named) -> int:
            other = Engine(layout, engine.element, engine.machine, engine.base_bytes)
            models.setdefault(layout, _model(other, "ranked", [name for name, _ in asked]))
            return list(models).index(layout)

        html["ranking"].append(sections.ranking(engine, named, number_of))
    return {
        "models": list(models.values()),
        "palette": [list(color) for color in PALETTE],
        "html": {name: "".join(dict.fromkeys(parts)) for name, parts in html.items()}
        | {"terms": sections.terms()},
    }


def _reports(engine: Engine, specs: Sequence[str]) -> tuple[list[tuple[str, Report]], list[tuple[str, str]]]:
    """(reports by access, refusals by access); raises the first refusal where nothing fits."""
    named: list[tuple[str, Report]] = []
    refused: list[tuple[str, str]] = []
    for spec in specs:
        try:
            named.append((spec, analyze_access(engine.layout, engine.access(spec), engine.machine)))
        except LayoutAlgError as error:
            if len(refused) + 1 == len(specs):
                raise
            refused.append((spec, str(error)))
    return named, refused


def _model(engine: Engine, title: str, specs: Sequence[str]) -> dict[str, Any]:
    """The data of one layout: the accesses that were asked for, and of MORE those that fit."""
    offered = [spec for spec in dict.fromkeys((*specs, *MORE)) if _fits(engine, spec)]
    plain: AnyLayout = engine.layout if engine.form is None else engine.form.layout
    return model_of(engine, offered) | {"title": title, "plain": str(plain)}


def _fits(engine: Engine, spec: str) -> bool:
    try:
        found: Access = engine.access(spec)
    except LayoutAlgError:
        return False
    return found is not None
