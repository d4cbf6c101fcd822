"""The pages as text: one HTML file each, with its style, its scripts and its data inside.

The idea.  A page that is opened from a file may load nothing: no module, no request.  So everything is
in it, and its content security policy says so: scripts run by their digest alone, nothing is connected to.
Data are in a script element of type application/json, with every `<` written as an escape, so that no text
of a user's can end it.

>>> inline_json({"text": "</script>"})
'{"text":"\\\\u003c/script>"}'
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from layoutalg.limits import Most
from layoutalg.page.data import PageRequest, page_data
from layoutalg.page.engine import Room
from layoutalg.page.sections import escaped

_PARTS = (
    ("costs", "What it costs"),
    ("live", "Try it"),
    ("ranking", "Layouts, best first"),
    ("code", "The index function"),
    ("pictures", "Pictures"),
    ("terms", "Words"),
)


def asset(name: str) -> str:
    """The text of a file of this room's folder `assets`."""
    return (files("layoutalg.page") / "assets" / name).read_text(encoding="utf-8")


def inline_json(value: Any) -> str:
    """JSON that is safe in a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def digest(script: str) -> str:
    """The source expression by which a policy admits one inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def report_html(asked: PageRequest) -> str:
    """A page of layouts and what accesses cost on them, which opens from a file and loads nothing.

    Raises ResourceError for a page past Most.PAGE, and as `page_data`.

    >>> page = report_html(PageRequest(["(32,32):(32,1)"], ["ld.shared.b32@col"]))
    >>> page.startswith("<!doctype html>"), "https:" in page, "src=" in page
    (True, False, False)
    """
    made = page_data(asked, Room().held)
    html = made.pop("html")
    script = "\n".join(asset(name) for name in ("view.js", "report.js"))
    first, *others = asked.layouts
    title = f"{first}{f' and {len(others)} more' if others else ''}, {asked.dtype}, {asked.arch}"
    body = [
        f"<header><p class='soft'>layoutalg report</p><h1>{escaped(title)}</h1>{_contents()}</header><main>",
        *(_section(name, head, live_html() if name == "live" else html[name]) for name, head in _PARTS),
        "</main>",
        f'<script type="application/json" id="data">{inline_json(made)}</script>',
        f"<script>{script}</script>",
    ]
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {digest(script)}"
    page = html_document(title, policy, "".join(body))
    Most.PAGE.guard(len(page.encode()), "bytes of a report")
    return page


def explore_html(folder: str) -> str:
    """The page that runs the library in the browser, from files in `folder` beside it.

    >>> "explore/pyodide.mjs" in explore_html("explore")
    True
    """
    script = "\n".join(asset(name) for name in ("view.js", "explore.js"))
    script = script.replace("FOLDER", folder)
    body = asset("explore.html").replace("LIVE", live_html()).replace("CONTENTS", _contents())
    sections = "".join(
        _section(name, head, f'<div id="html-{name}"></div>') for name, head in _PARTS if name != "live"
    )
    body = body.replace("SECTIONS", sections) + f'<script type="module">{script}</script>'
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; connect-src 'self'; "
        f"script-src 'self' 'wasm-unsafe-eval' {digest(script)}"
    )
    return html_document("layoutalg: explore a layout", policy, body)


def html_document(title: str, policy: str, body: str) -> str:
    """A whole HTML document with the style of all pages.

    >>> html_document("times", "default-src 'none'", "<p>none</p>").count("<p>none</p>")
    1
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">'
        f"<title>{escaped(title)}</title><style>{asset('style.css')}</style></head><body>\n{body}\n</body></html>\n"
    )


def live_html() -> str:
    """The part of a page that moves: controls, score, three grids and the facts of one element."""
    return asset("live.html")


def _contents() -> str:
    links = "".join(f'<li><a href="#{name}">{escaped(head)}</a></li>' for name, head in _PARTS)
    return f'<nav aria-label="On this page"><ul>{links}</ul></nav>'


def _section(name: str, head: str, content: str) -> str:
    title = f'<h2 id="{name}-head">{escaped(head)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-head">{title}{content}</section>'
