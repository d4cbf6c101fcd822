"""The tutorial notebooks: scripts of cells under examples/notebooks, run, and written as .ipynb or Markdown.

    python -m tests.docs.notebooks FOLDER       writes every notebook as FOLDER/NAME.ipynb, with its outputs

The idea.  A notebook is kept as a script that runs from top to bottom, in the percent format that editors and
jupytext know: `# %%` begins a cell, `# %% [markdown]` one of comments.  The .ipynb file is made from it, so
that no output is ever committed.  A cell shows what it prints and its last value, as Jupyter does.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MARK = re.compile(r"^# %%(?: \[(markdown)\])?$", re.M)


@dataclass(frozen=True)
class Cell:
    """A cell: its text, and what it shows where it is code that was run."""

    source: str
    is_code: bool
    printed: str = ""
    shown: dict[str, str] | None = None


def cells(script: str) -> list[Cell]:
    """The cells of a script; what stands before the first mark is refused."""
    first, *parts = MARK.split(script)
    if first.strip():
        raise ValueError(f"a notebook begins with '# %%', not with {first.strip()[:40]!r}")
    found = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        source = text.strip("\n")
        if kind:
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in source.splitlines())
        found.append(Cell(source, not kind))
    return found


def _forms(value: Any) -> dict[str, str]:
    """A value as Jupyter asks for it, by media type."""
    forms = {"text/plain": repr(value)}
    for media, name in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        if (method := getattr(value, name, None)) and (text := method()):
            forms[media] = text
    return forms


def ran(found: list[Cell]) -> list[Cell]:
    """The cells with what they show, run in order under one set of names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    done = []
    for number, cell in enumerate(found):
        if not cell.is_code:
            done.append(cell)
            continue
        body = ast.parse(cell.source).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        out, value, where = io.StringIO(), None, f"cell {number}"
        with contextlib.redirect_stdout(out):
            exec(compile(ast.Module(body, []), where, "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307
        forms = None if value is None else _forms(value)
        done.append(Cell(cell.source, True, out.getvalue(), forms))
    return done


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def as_ipynb(found: list[Cell]) -> str:
    """Cells as a notebook of format 4.5."""
    written: list[dict[str, Any]] = []
    for number, cell in enumerate(found):
        common = {"id": f"cell-{number}", "metadata": {}, "source": _lines(cell.source)}
        if not cell.is_code:
            written.append({"cell_type": "markdown", **common})
            continue
        outputs: list[dict[str, Any]] = []
        if cell.printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(cell.printed)})
        if cell.shown:
            data = {media: _lines(text) for media, text in cell.shown.items()}
            outputs.append(
                {"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data}
            )
        written.append({"cell_type": "code", **common, "execution_count": None, "outputs": outputs})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def as_markdown(found: list[Cell]) -> str:
    """Cells as a page for Sphinx: what is shown as HTML stays HTML."""
    parts = []
    for cell in found:
        if not cell.is_code:
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if cell.printed:
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        if cell.shown and "text/html" in cell.shown:
            inside = cell.shown["text/html"].replace("\n\n", "\n")
            parts.append(f'````{{raw}} html\n<div class="shown">{inside}</div>\n````')
        elif cell.shown:
            parts.append(f"```text\n{cell.shown['text/plain']}\n```")
    return "\n\n".join(parts) + "\n"


def title(found: list[Cell]) -> str:
    """The heading of a notebook."""
    return found[0].source.splitlines()[0].removeprefix("# ")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for script in SCRIPTS:
        path = target / f"{script.stem}.ipynb"
        path.write_text(as_ipynb(ran(cells(script.read_text(encoding="utf-8")))), encoding="utf-8")
        print(f"wrote {path}")
