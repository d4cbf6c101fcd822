"""The tutorial notebooks run from top to bottom, are valid .ipynb files, and run in Jupyter where it is."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path

import pytest

from tests.docs.notebooks import SCRIPTS, Cell, as_ipynb, as_markdown, cells, ran, title


def read(script: Path) -> list[Cell]:
    return cells(script.read_text(encoding="utf-8"))


def test_there_are_six() -> None:
    assert [script.stem.split("_")[1] for script in SCRIPTS] == list("123456")
    assert [title(read(script))[:2] for script in SCRIPTS] == [f"{n}." for n in range(1, 7)]


@pytest.mark.deep(only=("tutorial_3_swizzles",))
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_one(script: Path) -> None:
    """Every one explains, checks something, and shows something; its file holds the cells in order."""
    found = ran(read(script))
    code = [cell for cell in found if cell.is_code]
    assert any("assert " in cell.source for cell in code)
    assert any(cell.shown or cell.printed for cell in code)
    notebook = json.loads(as_ipynb(found))
    assert ["".join(cell["source"]) for cell in notebook["cells"]] == [cell.source for cell in found]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(found)
    page = as_markdown(found)
    assert all(cell.source in page for cell in found)
    if importlib.util.find_spec("nbformat"):
        nbformat = importlib.import_module("nbformat")
        nbformat.validate(nbformat.reads(as_ipynb(found), as_version=4))


def test_cells_are_split_at_their_marks() -> None:
    found = ran(cells("# %% [markdown]\n# # A\n#\n# b\n\n# %%\nx = 1\nprint(x)\nx + 1\n\n# %%\nx = 3\n"))
    assert [(cell.source, cell.is_code) for cell in found] == [
        ("# A\n\nb", False), ("x = 1\nprint(x)\nx + 1", True), ("x = 3", True),
    ]  # fmt: skip
    assert (found[1].printed, found[1].shown, found[2].shown) == ("1\n", {"text/plain": "2"}, None)
    with pytest.raises(ValueError, match="begins with"):
        cells("x = 1\n# %%\n")


@pytest.mark.deep
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_jupyter(script: Path) -> None:
    pytest.importorskip(
        "ipykernel", reason="Jupyter is not installed: pip install nbclient nbformat ipykernel"
    )
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.reads(as_ipynb(read(script)), as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert shown and not [output for output in shown if output.output_type == "error"]
