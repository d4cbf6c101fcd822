"""Documents print the figures of one file, and the file says what the measured tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.figures import DOCUMENTS, FRONT, REGION, REGIONS, computed, data, executed, figure, printed
from tests.docs.tables import FOLDER, MEASURED, as_csv, section, stored, table
from tests.docs.tables import REGION as TABLE
from tests.documents import BLOCK

COMPUTED = [name for name, of in data()["figures"].items() if "lines" in of]
TABLES = ("products_drawn", "quack", "cutensor")
VERSIONS = {"2.0", "3.11", "4.7"}
"""Versions: of a licence, of Python and of CuTe DSL."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_prints_the_figures_of_the_file(path: Path) -> None:
    """`python -m tests.docs.pages` writes them."""
    assert printed(path).splitlines() == path.read_text(encoding="utf-8").splitlines()


def test_each_region_is_printed() -> None:
    names = {found[2] for path in DOCUMENTS for found in REGION.finditer(path.read_text(encoding="utf-8"))}
    assert names == set(REGIONS)
    assert len(FRONT) == 3


@pytest.mark.parametrize("name", COMPUTED)
def test_a_figure_is_that_of_its_table(name: str) -> None:
    """The mean is not stated without the least, and both come from the rows that docs/measured.md shows."""
    of, got = figure(name), computed(name)
    stated = (of["mean"], of["least"], of["least_case"], of["greatest"], of["cases"])
    assert stated == (got.mean, got.least, got.least_case, got.greatest, got.cases)


def test_the_numbers_that_are_counts_are_those_of_their_sections() -> None:
    for name in ("counts", "layouts", "closed-forms"):
        of = figure(name)
        counted = of["text"].split(" of ")[1]
        accesses = re.findall(r"^\| [\w ]+ \| (\d+) \| (\d+) \|", section(of["section"]), re.M)
        equal = {f"{sum(int(row[i]) for row in accesses):,}" for i in (0, 1)} if accesses else set()
        assert counted in section(of["section"]) or equal == {counted}, name


@pytest.mark.parametrize("name", [*data()["runs"], *TABLES])
def test_a_run_names_its_device_date_and_command(name: str) -> None:
    """The section has the command; a command that is not recorded is said to be so."""
    run = data()["runs"].get(name) or data()[name]
    assert run["device"] and re.fullmatch(r"20\d\d-\d\d-\d\d", run["date"]) and "seed" in run
    text = " ".join(re.sub(r"^### ", "", section_of(run["section"]), flags=re.M).split())
    assert (run["command"] or "command not recorded") in text


def section_of(heading: str) -> str:
    """The text under a heading of either depth."""
    measured = MEASURED.read_text(encoding="utf-8")
    return re.split(rf"^##+ {re.escape(heading)}$", measured, flags=re.M)[1].split("\n## ", 1)[0]


def test_every_stored_table_is_shown_in_part_and_no_other_is() -> None:
    """A table that a script printed is stored as it is, and the page shows or names those of the folder."""
    page = MEASURED.read_text(encoding="utf-8")
    shown = [found[2] for found in TABLE.finditer(page)]
    shown += set(re.findall(r"\(measured/(\w+)\.csv\)", page)) - set(shown)
    assert sorted(shown) == sorted(path.stem for path in FOLDER.glob("*.csv"))
    rows = stored("counters")
    head = list(rows[0])
    again = as_csv(table(head, [list(row.values()) for row in rows]))
    assert again == (FOLDER / "counters.csv").read_text(encoding="utf-8")


def test_drawn_products_state_the_least_beside_the_mean() -> None:
    keys = ("class", "drawn", "compared_with", "mean", "least", "least_case")
    for row in data()["products_drawn"]["rows"]:
        assert tuple(row) == keys
        assert (row["mean"] is None) == (row["least"] is None)
        assert row["mean"] is None or row["least"] <= row["mean"]


@pytest.mark.parametrize("path", DOCUMENTS[:2], ids=lambda path: path.stem)
def test_no_figure_stands_beside_the_regions(path: Path) -> None:
    """README and the comparison have no decimal number of their own, which could differ from the file."""
    text = REGION.sub("", BLOCK.sub("", path.read_text(encoding="utf-8")))
    text = re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)
    assert set(re.findall(r"(?<![\d.,])\d+\.\d+(?![\d.]*\d)", text)) <= VERSIONS


def test_the_published_kernels_execute_what_their_author_counts() -> None:
    """216,227,840 instructions of kernel 4 and about 90 million of kernel 5, and its registers.

    A turn of the main loop of kernel 5 stands before it, so that it turns once less than there are tiles.
    """
    rows = {row["kernel"]: row for row in data()["published_hgemm"]["rows"]}
    assert executed(rows[4]) == pytest.approx(216.227840, rel=0.001)
    assert executed(rows[5]) == pytest.approx(90, rel=0.06)
    assert all(rows[n]["registers"] == rows[n]["published_registers"] for n in (3, 4))
