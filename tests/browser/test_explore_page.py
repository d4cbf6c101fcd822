"""explore.html in a browser: the library runs there without NumPy, with the numbers that it gives here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from layoutalg.page import Engine, parse_layout
from tests.browser.conftest import Opened

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def explorer(browser: Any, site: str) -> Iterator[Opened]:
    opened = Opened(browser, f"{site}/explore.html")
    yield opened
    assert opened.said == []
    assert {address.split("/explore")[0] for address in opened.asked} == {site}


def ask(explorer: Opened, layout: str, accesses: str, dtype: str = "f16") -> None:
    """Fill in the form and wait for the answer."""
    explorer.page.locator("#ask-layout").fill(layout)
    explorer.page.locator("#ask-accesses").fill(accesses)
    explorer.page.locator("#ask-dtype").select_option(dtype)
    explorer.page.locator("#ask-layout").press("Enter")
    explorer.page.locator("#status", has_text="Counting").wait_for(state="detached", timeout=60_000)


def test_it_counts_and_searches_without_numpy(explorer: Opened) -> None:
    ask(explorer, "(64,96):(96,1)", "ldmatrix.x4 st.shared.b128")
    engine = Engine(parse_layout("(64,96):(96,1)"), "f16")
    assert explorer.score() == engine.numbers(None, 0, "ldmatrix.x4")["total"] == 384
    assert "Sw<2,3,3> o 0 o (64,96):(96,1)" in explorer.text("#html-ranking")
    assert "row * 96 + col" in explorer.page.locator("#html-code").inner_html()
    assert explorer.page.locator("#html-pictures svg").count() == 2
    for name, value in (("bits-b", 2), ("bits-m", 3), ("bits-s", 3)):
        explorer.slide(name, value)
    assert explorer.score() == 96
    explorer.slide("bits-b", 0)
    explorer.slide("pad", 8)
    assert explorer.score() == engine.numbers((0, 3, 3), 8, "ldmatrix.x4")["total"]
    explorer.page.locator("#html-ranking button").first.click()
    assert "conflict-free" in explorer.text("#score")


@pytest.mark.parametrize(
    ("layout", "accesses", "said"),
    [
        ("(64,", "ldmatrix.x4", "cannot read"),
        ("(60,60):(60,1)", "ldmatrix.x4", "a multiple"),
        ("(64,64):(64,1)", "<b>x</b>", "unknown instruction '<b>x</b>'"),
        ("(8,?):(1,8)", "", "this needs the Python library sympy"),
    ],
)
def test_what_it_refuses_it_says(explorer: Opened, layout: str, accesses: str, said: str) -> None:
    ask(explorer, layout, accesses)
    assert said in explorer.text("#asked-wrong")
    assert explorer.page.locator("#asked-wrong b").count() == 0


def test_an_address_holds_the_question(browser: Any, explorer: Opened, site: str) -> None:
    ask(explorer, "(32,32):(33,1)", "ld.shared.b32@col", "f32")
    address = explorer.page.url
    again = Opened(browser, address, width=390, height=844)
    assert again.page.locator("#ask-layout").input_value() == "(32,32):(33,1)"
    assert again.score() == 32 and again.overhang <= 0 and again.said == []
    again.page.close()


def test_its_link_holds_the_sliders(browser: Any, site: str, explorer: Opened) -> None:
    ask(explorer, "(32,32):(32,1)", "ld.shared.b32@col", "f32")
    explorer.page.locator("#bits-b").fill("2")
    address = explorer.page.locator("#state-link").get_attribute("href")
    assert address and address.startswith(f"{site}/explore.html#") and "swizzle=2" in address
    again = Opened(browser, address)
    assert again.page.locator("#bits-b").input_value() == "2"
