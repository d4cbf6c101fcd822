"""Many cases in few tests: loops that report every failure, and samples of what is long for `make test`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.tiers import first_tier

Test = Callable[..., None]


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, those after the first `count` marked deep."""
    return [
        case
        if i < count
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.deep)
        for i, case in enumerate(cases)
    ]


def each(
    names: str | tuple[str, ...],
    cases: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Callable[[Any], object] | Iterable[str] | None = None,
    *,
    sample: int | None = None,
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test: every case is tried, and what fails is reported at once.

    For cases that are many and short: an item of pytest costs some milliseconds in every process.  Fixtures
    are made once for all cases.  A function makes the cases when the test runs, not when it is collected.
    In the first tier only so many cases are tried as `sample` says, from the first to near the last.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    @functools.cache
    def tried_cases() -> list[tuple[Any, str]]:
        listed = [_values(case, len(split)) for case in (cases() if callable(cases) else cases)]
        if ids is not None and not callable(ids):
            labels = list(ids)
        else:
            labels = [_label(case, ids) for case in listed]
        tried = list(zip(listed, labels, strict=True))
        return spread(tried, sample) if sample is not None and first_tier() else tried

    if not callable(cases):
        tried_cases()

    def decorated(test: Test) -> Test:
        def tried(**fixtures: Any) -> None:
            failures: list[Exception] = []
            skipped: list[BaseException] = []
            for case, label in tried_cases():
                try:
                    test(**dict(zip(split, case, strict=True)), **fixtures)
                except pytest.skip.Exception as skip:
                    skipped.append(skip)
                except Exception as error:  # noqa: BLE001
                    error.add_note(f"the case {label}")
                    failures.append(error)
                except pytest.fail.Exception as failure:
                    failures.append(AssertionError(f"the case {label}: {failure}"))
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(tried_cases())} cases fail", failures)
            if skipped and len(skipped) == len(tried_cases()):
                raise skipped[0]

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in split]
        tried.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        tried.__name__, tried.__doc__ = test.__name__, test.__doc__
        tried.__qualname__, tried.__module__ = test.__qualname__, test.__module__
        if hasattr(test, "pytestmark"):
            tried.pytestmark = test.pytestmark  # type: ignore[attr-defined]
        return tried

    return decorated


def spread(cases: list[Any], count: int) -> list[Any]:
    """So many of the cases, at equal distances.

    >>> spread(list(range(10)), 3), spread([7], 3)
    ([0, 3, 6], [7])
    """
    return [cases[i * len(cases) // count] for i in range(count)] if count < len(cases) else cases


def _values(case: Any, count: int) -> Any:
    """The operands of a case, also of a `pytest.param`, whose marks a loop cannot keep."""
    if isinstance(case, type(pytest.param())):
        if case.marks:
            raise TypeError(f"each takes no marks: {case}")
        return case.values
    return case if count > 1 else (case,)


def _label(case: Any, ids: Callable[[Any], object] | None) -> str:
    return ", ".join(str(ids(value)) if ids else repr(value)[:80] for value in case)
