"""A headless Chromium, driven by playwright; without either, the tests here skip and say why."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import UnsupportedError
from layoutalg.page import write_explorer

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser: playwright's own, or one of the system."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as driver:
        own = Path(driver.chromium.executable_path).exists()
        if not own and found is None:
            pytest.skip("no Chromium: playwright install chromium, or apt-get install chromium")
        started = driver.chromium.launch(
            executable_path=None if own else found, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield started
        started.close()


class Opened:
    """A page, with what its console said and what it asked for."""

    def __init__(self, browser: Any, address: str, *, width: int = 1280, height: int = 900) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.page.locator(selector).inner_text())

    def slide(self, name: str, value: int) -> None:
        """Move a slider as its user does: the value is set, and the page is told."""
        self.page.locator(f"#{name}").fill(str(value))

    def fact(self, name: str) -> str:
        """A line about the selected element."""
        return str(self.page.locator(f"#facts dt:text-is('{name}') + dd").inner_text())

    def score(self) -> int:
        """The large number."""
        return int(self.page.locator("#score strong").first.inner_text().replace(",", ""))

    @property
    def overhang(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of explore.html and its files."""
    folder = tmp_path_factory.mktemp("site")
    given = os.environ.get("LAYOUTALG_PYODIDE")
    try:
        write_explorer(folder, Path(given) if given else None)
    except (UnsupportedError, OSError) as error:
        pytest.skip(f"no Pyodide: {error}")
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Files, without a line for each."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
