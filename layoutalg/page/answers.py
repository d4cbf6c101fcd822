"""The library's answers to explore.html, beside which it runs: one JSON text in, one out.

>>> import json
>>> asked = {"ask": "numbers", "layout": "(32,32):(32,1)", "dtype": "f32", "arch": "sm_90"}
>>> asked |= {"swizzle": None, "pad": 1, "access": "ld.shared.b32@col"}
>>> json.loads(answer(json.dumps(asked)))["answer"]["total"]
32
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from layoutalg.errors import LayoutAlgError, ParseError, UnsupportedError
from layoutalg.layout import size
from layoutalg.limits import Most
from layoutalg.page.data import page_data
from layoutalg.page.engine import engine_of


def _page(asked: Mapping[str, Any]) -> Any:
    return page_data(asked["layouts"], asked["accesses"], asked["dtype"], asked["arch"])


def _setting(asked: Mapping[str, Any]) -> tuple[Any, Any, int]:
    """The engine, the swizzle and the pad of a question."""
    swizzle = asked["swizzle"]
    engine = engine_of(asked["layout"], asked["dtype"], asked["arch"], 0)
    return engine, None if swizzle is None else tuple(swizzle), asked["pad"]


def _offsets(asked: Mapping[str, Any]) -> Any:
    engine, swizzle, pad = _setting(asked)
    if size(engine.layout) > Most.ONE_BY_ONE.number:
        raise UnsupportedError(
            f"{engine.layout} has {size(engine.layout):,} elements; this page draws up to "
            f"{Most.ONE_BY_ONE.number:,}.  The tables are of all of them."
        )
    return engine.offsets(swizzle, pad)


def _numbers(asked: Mapping[str, Any]) -> Any:
    engine, swizzle, pad = _setting(asked)
    return engine.numbers(swizzle, pad, asked["access"])


def _services(asked: Mapping[str, Any]) -> Any:
    engine, swizzle, pad = _setting(asked)
    return engine.services(swizzle, pad, asked["access"], asked["place"])


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
        asked = json.loads(question)
        found = _ANSWERS[asked["ask"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"no question of a page: {error}", text=question[:200]) from None
    try:
        return json.dumps({"answer": found(asked)})
    except LayoutAlgError as error:
        return json.dumps({"refused": str(error)})
    except ModuleNotFoundError as error:
        return json.dumps({"refused": f"this needs the Python library {error.name}, which is not here"})
