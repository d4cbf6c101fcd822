"""A plugin of pytest: every check of a layoutalg.toml that pytest comes by is an item.

It is found by pytest where the package is installed; elsewhere, pytest -p layoutalg.checks.pytest_plugin.
Until there is such a file, nothing else is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

FILE_NAME = "layoutalg.toml"


class Broken(Exception):
    """A check that does not pass, and why."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A layoutalg.toml as a collector of its checks."""
    return CheckCollector.from_parent(parent, path=file_path) if file_path.name == FILE_NAME else None


class CheckCollector(pytest.File):
    """A file of checks; what is wrong with it is an error of collection."""

    def collect(self) -> Iterator[pytest.Item]:
        """An item per check."""
        from layoutalg.checks import load_checks, named_baseline
        from layoutalg.errors import LayoutAlgError

        try:
            file = load_checks(self.path)
            baseline = named_baseline(file)
        except LayoutAlgError as error:
            raise self.CollectError(error.message) from error
        for check in file.checks:
            single = replace(file, checks=(check,))
            yield CheckItem.from_parent(self, name=check.name, file=single, baseline=baseline)


class CheckItem(pytest.Item):
    """A check, as an item of pytest."""

    def __init__(self, *, file: Any, baseline: Any, **options: Any) -> None:
        super().__init__(**options)
        self.file, self.baseline = file, baseline

    def runtest(self) -> None:
        """Run it; raises Broken."""
        from layoutalg.checks import Results, failure_lines, run_checks

        lines = failure_lines(Results(self.path.name, run_checks(self.file, baseline=self.baseline)))
        if lines:
            raise Broken("\n".join(lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The broken limits, without a traceback."""
        return str(excinfo.value) if excinfo.errisinstance(Broken) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place where the check is stated."""
        return self.path, self.file.checks[0].line - 1, self.name
