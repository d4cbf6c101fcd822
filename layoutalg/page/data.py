"""The data of a page: models that its JavaScript draws, and pieces of HTML.

One function serves both pages: report.html holds its result, explore.html asks it in the browser.

>>> made = page_data(PageRequest(["(64,64):(64,1)"], ["ldmatrix.x4"], "f16"))
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
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.analysis import Report, Wanted, analyze_access
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.draw import PALETTE
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, shown
from layoutalg.layout import AnyLayout
from layoutalg.limits import Most
from layoutalg.page import sections
from layoutalg.page.engine import Engine, engine_of, model_of

Counted: TypeAlias = tuple[Engine, list[tuple[str, Report]], list[tuple[str, str]]]
"""A layout of a page with (access, report) of those that fit it and (access, sentence) of the others."""

Models: TypeAlias = Callable[[Engine, Sequence[str]], dict[str, Any]]
"""The description of a layout and accesses on it, with what a report holds of them or without."""

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
"""Accesses that explore.html offers besides the requested ones, where they fit the layout."""


@dataclass(frozen=True)
class PageRequest:
    """Layouts and accesses of a page, as texts of `layoutalg analyze`, and how their costs are counted.

    Without accesses they are loads of one element by row and by column.  `method` is that of
    `analyze_access`.

    >>> [report.op for report in PageRequest(["(32,32):(32,1)"]).reports]
    ['ld.shared.b32', 'ld.shared.b32']
    """

    layouts: Sequence[str]
    accesses: Sequence[str] = ()
    dtype: str = "f32"
    arch: str = DEFAULT_ARCH
    base_bytes: int = 0
    method: Wanted = "auto"

    @functools.cached_property
    def counted(self) -> list[Counted]:
        """The layouts with what the accesses cost on each; raises as `page_data`."""
        for what, items in (("layouts of a page", self.layouts), ("accesses of a page", self.accesses)):
            Most.PARTS.guard(len(items), what)
        if not self.layouts:
            raise ArgumentTypeError("a page needs a layout")
        engines = [engine_of(text, self.dtype, self.arch, self.base_bytes) for text in self.layouts]
        bits = engines[0].element.bits
        specs = dict.fromkeys(self.accesses or (f"ld.shared.b{bits}@{way}" for way in ("row", "col")))
        return [(engine, *_reports(engine, [*specs], self.method)) for engine in engines]

    @property
    def reports(self) -> list[Report]:
        """The costs of the accesses, layout by layout; raises as `page_data`."""
        return [report for _, named, _ in self.counted for _, report in named]


def page_data(asked: PageRequest, describe: Models | None = None) -> dict[str, Any]:
    """Models and pieces of HTML for layouts and accesses; the models by default those of explore.html.

    `models` are those of the layouts, then of what synthesis ranks for each.  An access that does not fit one
    of several layouts is said there.  Raises ArgumentTypeError without a layout, ResourceError for more than
    Most.PARTS layouts or accesses, what parsing raises, and what an access raises where none fits.
    Ranked layouts are counted by the first method that applies.
    """
    describe = describe or _with_more
    models: dict[AnyLayout, dict[str, Any]] = {}
    html: dict[str, list[str]] = {"costs": [], "ranking": [], "code": [], "pictures": []}
    room = sections.MOST_PICTURE_BYTES
    for engine, named, refused in asked.counted:
        if engine.layout not in models:
            models[engine.layout] = _titled(engine, "given", describe(engine, [name for name, _ in named]))
        html["costs"].append(sections.costs(engine.layout, named, refused))
        html["code"].append(sections.index_code(engine))
        drawn = [(name, engine.access(name)) for name, _ in named]
        pictures = sections.pictures(engine.layout, drawn, engine.machine, room)
        room -= sum(map(len, pictures))
        html["pictures"] += pictures
    for engine, named, _ in asked.counted:

        def number_of(layout: AnyLayout, engine: Engine = engine, specs: Sequence[Any] = named) -> int:
            if layout not in models:
                other = Engine(layout, engine.element, engine.machine, engine.base_bytes)
                models[layout] = _titled(other, "ranked", describe(other, [name for name, _ in specs]))
            return list(models).index(layout)

        html["ranking"].append(sections.ranking(engine, named, number_of))
    return {
        "models": list(models.values()),
        "palette": [list(color) for color in PALETTE],
        "html": {name: "".join(dict.fromkeys(parts)) for name, parts in html.items()}
        | {"terms": sections.terms()},
    }


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


def _with_more(engine: Engine, specs: Sequence[str]) -> dict[str, Any]:
    """The model of an engine with the requested accesses, and those of MORE that fit."""
    return model_of(engine, [spec for spec in dict.fromkeys((*specs, *MORE)) if _fits(engine, spec)])


def _titled(engine: Engine, title: str, model: dict[str, Any]) -> dict[str, Any]:
    plain: AnyLayout = engine.layout if engine.form is None else engine.form.layout
    return model | {"title": title, "plain": str(plain)}


def _fits(engine: Engine, spec: str) -> bool:
    try:
        engine.access(spec)
    except LayoutAlgError:
        return False
    return True


class Question(dict[str, Any]):
    """A question of a page, whose fields are read by name; one that is missing is refused."""

    def __missing__(self, name: str) -> Any:
        raise ParseError(f"this question of a page has no {shown(name)}")


def _engine(q: Question) -> Engine:
    return engine_of(q["layout"], q["dtype"], q["arch"], 0)


def _setting(q: Question) -> tuple[Any, int]:
    """The swizzle and the pad of a question."""
    return None if q["swizzle"] is None else tuple(q["swizzle"]), q["pad"]


_ANSWERS: Mapping[str, Callable[[Question], Any]] = {
    "page": lambda q: page_data(PageRequest(q["layouts"], q["accesses"], q["dtype"], q["arch"])),
    "offsets": lambda q: _engine(q).offsets(*_setting(q)),
    "numbers": lambda q: _engine(q).numbers(*_setting(q), q["access"]),
    "services": lambda q: _engine(q).services(*_setting(q), q["access"], q["place"]),
}


def answer(question: str) -> str:
    """The answer to a question of a page, {"answer": ...}, or {"refused": sentence} where it is refused.

    `ask` is page (of layouts and accesses), offsets, numbers or services (of a setting).  Raises ParseError
    for a question that is none.  What needs a library that the browser lacks is refused by its name.
    """
    try:
        request = json.loads(question, object_hook=Question)
        handler = _ANSWERS[request["ask"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"no question of a page: {error}", text=question[:200]) from None
    try:
        return json.dumps({"answer": handler(request)})
    except LayoutAlgError as error:
        return json.dumps({"refused": str(error)})
    except ModuleNotFoundError as error:
        return json.dumps({"refused": f"this needs the Python library {error.name}, which is not here"})
