"""The data of a page: models that its JavaScript counts with, and pieces of HTML.

One function serves both pages: report.html holds its result, explore.html asks it in the browser.

>>> made = page_data(["(64,64):(64,1)"], ["ldmatrix.x4"], "f16")
>>> [model["text"] for model in made["models"]][:2]
['(64,64):(64,1)', 'Sw<3,3,3> o 0 o (64,64):(64,1)']
>>> sorted(made["html"])
['code', 'costs', 'pictures', 'ranking', 'terms']

The library's answers to explore.html, beside which it runs: one JSON text in, one out.

>>> import json
>>> asked = {"ask": "numbers", "layout": "(32,32):(32,1)", "dtype": "f32", "arch": "sm_90"}
>>> asked |= {"swizzle": None, "pad": 1, "access": "ld.shared.b32@col"}
>>> json.loads(answer(json.dumps(asked)))["answer"]["total"]
32
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from layoutalg.analysis import Access, Report, Wanted, analyze_access
from layoutalg.draw import PALETTE
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, UnsupportedError
from layoutalg.layout import AnyLayout, size
from layoutalg.limits import Most
from layoutalg.page import sections
from layoutalg.page.engine import Engine, engine_of, model_of

Counted: TypeAlias = tuple[Engine, list[tuple[str, Report]], list[tuple[str, str]]]
"""A layout of a page with (access, report) of those that fit it and (access, sentence) of the others."""

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
"""Accesses that a page offers besides the requested ones, where they fit the layout."""


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
    method: Wanted = "auto",
) -> dict[str, Any]:
    """Models and pieces of HTML for layouts and accesses, given as texts.

    `models` are those of the layouts, then of what synthesis ranks for each.  An access that does not fit one
    of several layouts is said there.  Raises ArgumentTypeError without a layout, ResourceError for more than
    Most.PARTS layouts or accesses, what parsing raises, and what an access raises where none fits.
    `method` is that of `analyze_access`; ranked layouts are counted by the first that applies.
    """
    counted = _counted(tuple(layouts), tuple(accesses), dtype, arch, base_bytes, method)
    models: dict[AnyLayout, dict[str, Any]] = {}
    html: dict[str, list[str]] = {"costs": [], "ranking": [], "code": [], "pictures": []}
    room = sections.MOST_PICTURE_BYTES
    for engine, named, refused in counted:
        models.setdefault(engine.layout, _model(engine, "given", [name for name, _ in named]))
        html["costs"].append(sections.costs(engine.layout, named, refused))
        html["code"].append(sections.index_code(engine))
        drawn = [(name, engine.access(name)) for name, _ in named]
        pictures = sections.pictures(engine.layout, drawn, engine.machine, room)
        room -= sum(map(len, pictures))
        html["pictures"] += pictures
    for engine, named, _ in counted:

        def number_of(layout: AnyLayout, engine: Engine = engine, specs: Sequence[Any] = named) -> int:
            other = Engine(layout, engine.element, engine.machine, engine.base_bytes)
            models.setdefault(layout, _model(other, "ranked", [name for name, _ in specs]))
            return list(models).index(layout)

        html["ranking"].append(sections.ranking(engine, named, number_of))
    return {
        "models": list(models.values()),
        "palette": [list(color) for color in PALETTE],
        "html": {name: "".join(dict.fromkeys(parts)) for name, parts in html.items()}
        | {"terms": sections.terms()},
    }


def page_reports(
    layouts: Sequence[str],
    accesses: Sequence[str] = (),
    dtype: str = "f32",
    arch: str = "sm_90",
    base_bytes: int = 0,
    method: Wanted = "auto",
) -> list[Report]:
    """The costs of the accesses of a page, layout by layout; raises as `page_data`.

    >>> [report.op for report in page_reports(["(32,32):(32,1)"])]
    ['ld.shared.b32', 'ld.shared.b32']
    """
    counted = _counted(tuple(layouts), tuple(accesses), dtype, arch, base_bytes, method)
    return [report for _, named, _ in counted for _, report in named]


@functools.lru_cache(maxsize=4)
def _counted(
    layouts: tuple[str, ...],
    accesses: tuple[str, ...],
    dtype: str,
    arch: str,
    base_bytes: int,
    method: Wanted,
) -> list[Counted]:
    """The layouts of a page with what accesses cost on each; kept, as a page and its reports ask for it."""
    for what, items in (("layouts of a page", layouts), ("accesses of a page", accesses)):
        Most.PARTS.guard(len(items), what)
    if not layouts:
        raise ArgumentTypeError("a page needs a layout")
    engines = [engine_of(text, dtype, arch, base_bytes) for text in layouts]
    specs = list(dict.fromkeys(accesses or default_accesses(engines[0].element.bits)))
    return [(engine, *_reports(engine, specs, method)) for engine in engines]


def _reports(
    engine: Engine, specs: Sequence[str], method: Wanted
) -> tuple[list[tuple[str, Report]], list[tuple[str, str]]]:
    """(reports by access, refusals by access); raises the first refusal where nothing fits."""
    named: list[tuple[str, Report]] = []
    refused: list[tuple[str, str]] = []
    for spec in specs:
        try:
            named.append((spec, analyze_access(engine.layout, engine.access(spec), engine.machine, method)))
        except LayoutAlgError as error:
            if len(refused) + 1 == len(specs):
                raise
            refused.append((spec, str(error)))
    return named, refused


def _model(engine: Engine, title: str, specs: Sequence[str]) -> dict[str, Any]:
    """The data of one layout: the requested accesses, and those of MORE that fit."""
    offered = [spec for spec in dict.fromkeys((*specs, *MORE)) if _fits(engine, spec)]
    plain: AnyLayout = engine.layout if engine.form is None else engine.form.layout
    return model_of(engine, offered) | {"title": title, "plain": str(plain)}


def _fits(engine: Engine, spec: str) -> bool:
    try:
        access: Access = engine.access(spec)
    except LayoutAlgError:
        return False
    return access is not None


def _page(request: Mapping[str, Any]) -> Any:
    return page_data(request["layouts"], request["accesses"], request["dtype"], request["arch"])


def _setting(request: Mapping[str, Any]) -> tuple[Any, Any, int]:
    """The engine, the swizzle and the pad of a question."""
    swizzle = request["swizzle"]
    engine = engine_of(request["layout"], request["dtype"], request["arch"], 0)
    return engine, None if swizzle is None else tuple(swizzle), request["pad"]


def _offsets(request: Mapping[str, Any]) -> Any:
    engine, swizzle, pad = _setting(request)
    if size(engine.layout) > Most.ONE_BY_ONE.number:
        raise UnsupportedError(
            f"{engine.layout} has {size(engine.layout):,} elements; this page draws up to "
            f"{Most.ONE_BY_ONE.number:,}.  The tables are of all of them."
        )
    return engine.offsets(swizzle, pad)


def _numbers(request: Mapping[str, Any]) -> Any:
    engine, swizzle, pad = _setting(request)
    return engine.numbers(swizzle, pad, request["access"])


def _services(request: Mapping[str, Any]) -> Any:
    engine, swizzle, pad = _setting(request)
    return engine.services(swizzle, pad, request["access"], request["place"])


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "page": _page,
    "offsets": _offsets,
    "numbers": _numbers,
    "services": _services,
}


def answer(question: str) -> str:
    """The answer to a question of a page, {"answer": ...}, or {"refused": sentence} where it is refused.

    `ask` is page (of layouts and accesses), offsets, numbers or services (of a setting).  Raises ParseError
    for a question that is none.  What needs a library that the browser lacks is refused by its name.
    """
    try:
        request = json.loads(question)
        handler = _ANSWERS[request["ask"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"no question of a page: {error}", text=question[:200]) from None
    try:
        return json.dumps({"answer": handler(request)})
    except LayoutAlgError as error:
        return json.dumps({"refused": str(error)})
    except ModuleNotFoundError as error:
        return json.dumps({"refused": f"this needs the Python library {error.name}, which is not here"})
