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
