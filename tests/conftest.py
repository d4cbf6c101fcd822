"""What every test module may count on: hypothesis profiles and golden files.

`LAYOUTALG_PROFILE` chooses how hard hypothesis looks: `dev` (default), `ci` (the same examples in each run),
`all` (likewise, four times as many) or `deep`.
`--update-golden` rewrites the golden files instead of comparing with them.  What is tested is
compiled, the same text once; no compiled kernel is kept, no folder of the user's is written to.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import importlib
import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import tiers
from tests.stand_ins import absent, compiled_once

os.environ.setdefault("LAYOUTALG_CACHE", "off")
GOLDEN = Path(__file__).parent / "golden"
collect_ignore = ["programs"]  # kernels as users write them: an import builds one, and there is no doctest
_PATIENT = [HealthCheck.too_slow]
for _name, _examples, _repeated in (
    ("dev", 25, False),
    ("ci", 25, True),
    ("all", 100, True),
    ("deep", 5000, False),
):
    settings.register_profile(
        _name, max_examples=_examples, deadline=None, derandomize=_repeated, suppress_health_check=_PATIENT
    )
settings.load_profile(os.environ.get("LAYOUTALG_PROFILE", "dev"))
compiled_once.install()
absent.install()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and items are kept to the end: no later look for garbage goes through them, nor often through
    what tests make and keep."""
    gc.disable()
    try:
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
            _import_from_the_end()
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20)
        gc.enable()


def _import_from_the_end() -> None:
    """Import the modules of tests from the last one on.

    Their asserts are rewritten once and kept, so that the first process, which begins with the first module,
    finds the second half ready, and this one the first half.
    """
    root = Path(__file__).parents[1]
    for path in sorted((root / "tests").rglob("test_*.py"), reverse=True):
        with contextlib.suppress(pytest.skip.Exception, ImportError):  # collection says so
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from this run")
    parser.addoption("--work-record", help="a file to which the work of each test is appended as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(tiers.Tiers(config), "tiers")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` must equal tests/golden/<name>, or becomes it under --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"there is no golden file {path}; make it with --update-golden and read it")
        wanted = path.read_text(encoding="utf-8")
        if text != wanted:
            lines = difflib.unified_diff(
                wanted.splitlines(), text.splitlines(), str(path), "now", lineterm=""
            )
            pytest.fail("\n".join(lines), pytrace=False)

    return check
