"""HTML pages: a self-contained report of layouts, and an explorer that runs the library in a browser.

    engine      Engine: a tile under the settings of the sliders, and the data by which a page draws it
    sections    the static parts, as HTML: costs, ranked layouts, index code, pictures
    data        PageRequest: layouts, accesses and their costs; page_data: models and pieces of HTML of them;
                answer: the requests that explore.html makes to the library
    document    report_html, explore_html: the pages as text; html_document: any page in their style
    explorer    write_explorer: explore.html with the library and Pyodide; python -m layoutalg.page FOLDER
    assets/     view.js (the panels), report.js, explore.js, style.css, live.html

>>> "<title>(32,32):(32,1), f32, sm_90</title>" in report_html(PageRequest(["(32,32):(32,1)"]))
True
"""

from __future__ import annotations

from layoutalg.page.data import PageRequest, answer
from layoutalg.page.document import report_html
from layoutalg.page.engine import Engine, model_of, parse_layout
from layoutalg.page.explorer import write_explorer

__all__ = [
    "Engine",
    "PageRequest",
    "answer",
    "model_of",
    "parse_layout",
    "report_html",
    "write_explorer",
]
