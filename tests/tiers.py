"""Tiers of tests by counted work, a plugin of pytest: `make test` runs what does little, `make test-all` all.

    @pytest.mark.deep                          left out of `make test`
    @pytest.mark.deep(but=("f32-4", "u8-1"))   left out, except for the parameters of these ids
    @pytest.mark.deep(only=("f64-9",))         only the parameters of these ids are left out

The idea.  Seconds differ twofold from run to run, so what a test does is counted: units of layoutalg.budget,
which simulated statements and searches spend, expressions, kernels and layouts that are made, examples of
hypothesis, and requests to compilers and other programs.  Each has a price, about its milliseconds on one
core; their sum is the test's work.  A test that is in the first tier and does more than LIMIT fails, with
what it has done: it is to be made cheaper, or marked deep.

A compiled text costs the same whether a cache had it or not, and what a fixture of a wider scope than the
function makes is counted for no test, so that the order of tests changes little.  A run ends with the
COSTLIEST tests.  `--work-record FILE` writes what each has done, a line of JSON per test.

Notes.  What C code does in one call is not counted, nor what a child process does beside its start: the list
of costliest tests shows seconds as well.
"""

from __future__ import annotations

import functools
import json
import multiprocessing.process
import os
import resource
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from layoutalg import budget, tools
from layoutalg.codegen.expr import nodes
from layoutalg.codegen.gpu import nvrtc, sass
from layoutalg.codegen.program import Kernel
from layoutalg.layout import Layout
from tests.stand_ins.compiled_once import hostcc, parsing

PRICES: Mapping[str, float] = {
    "units of budget": 0.0006,
    "expressions": 0.02,
    "layouts": 0.005,
    "kernels": 0.1,
    "examples": 1.0,
    "NVRTC compilations": 30.0,
    "host compilations": 50.0,
    "disassemblies": 100.0,
    "Python processes": 100.0,
    "other processes": 20.0,
}
"""Milliseconds of one core, about: a fit to the seconds of all tests, rounded."""

LIMIT = 300.0
"""Work of a test of the first tier, at most."""

COSTLIEST = 10

_done: Counter[str] = Counter()
"""What the test that runs has done, but its units of budget."""


class Work(NamedTuple):
    """What a test has done: how often each of PRICES, and the seconds of CPU of it and of its processes."""

    done: Mapping[str, int]
    seconds: float

    @property
    def price(self) -> float:
        """The work in one number."""
        return sum(PRICES[name] * times for name, times in self.done.items())

    def __str__(self) -> str:
        dearest = sorted(self.done, key=lambda name: -PRICES[name] * self.done[name])
        return ", ".join(f"{self.done[name]:,} {name}" for name in dearest if self.done[name])


# --- counting --------------------------------------------------------------------------------------------


def _count(owner: Any, function: str, name: str, *, alone: bool = False) -> None:
    """Count the calls of a function; with `alone`, nothing of what a call does beside it."""
    inner = getattr(owner, function)

    @functools.wraps(inner)
    def counted(*args: Any, **options: Any) -> Any:
        if not alone:
            _done[name] += 1
            return inner(*args, **options)
        before = _done.copy()
        try:
            return inner(*args, **options)
        finally:
            _restore(before)
            _done[name] += 1

    setattr(owner, function, counted)


def _count_units() -> None:
    """Count what budgets are asked for; what is more than they have is refused, not done."""
    inner = budget.Budget.spend

    @functools.wraps(inner)
    def counted(self: budget.Budget, units: int = 1) -> None:
        inner(self, units)
        _done["units of budget"] += units

    budget.Budget.spend = counted  # type: ignore[method-assign]


def _restore(before: Counter[str]) -> None:
    _done.clear()
    _done.update(before)


def _count_process(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook: a process that `subprocess` starts, behind the shell that limits it or not.

    Python that is kept apart from its environment, as for index functions, starts as quickly as they do.
    The guard of layoutalg.tools, which the first program brings, is for all tests that follow.
    """
    if event == "subprocess.Popen" and tools._WATCH not in args[1]:
        words = [args[1]] if isinstance(args[1], (str, bytes)) else list(args[1])
        names = [Path(os.fsdecode(word)).name for word in words[:9]]
        python = any(name.startswith("python") for name in names) and not {"-S", "-I"} & set(names)
        _done["Python processes" if python else "other processes"] += 1


@functools.cache
def count_everything() -> None:
    """Let the library and the interpreter count from here on, in this process."""
    _count_units()
    _count(nodes._Node, "_seal", "expressions")
    _count(Layout, "__init__", "layouts")
    _count(Kernel, "__post_init__", "kernels")
    _count(nvrtc, "_compile", "NVRTC compilations", alone=True)
    _count(hostcc, "run_tool", "host compilations", alone=True)
    _count(parsing, "run_tool", "other processes", alone=True)
    _count(sass, "_disassembled", "disassemblies", alone=True)
    _count(multiprocessing.process.BaseProcess, "start", "Python processes", alone=True)
    sys.addaudithook(_count_process)


def _seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class _Meter:
    """The work since it was started, but what was done `apart`."""

    def __init__(self) -> None:
        self.began = _seconds()
        _done.clear()

    @property
    def work(self) -> Work:
        """What was done so far."""
        return Work(dict(_done), _seconds() - self.began)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is done inside is not counted."""
        before, seconds = _done.copy(), _seconds() - self.began
        try:
            yield
        finally:
            _restore(before)
            self.began = _seconds() - seconds


# --- the plugin ------------------------------------------------------------------------------------------


class Tiers:
    """Chooses, counts, enforces and reports; `enforced` where examples are as few as in the first tier."""

    def __init__(self, config: pytest.Config) -> None:
        count_everything()
        self.record: str | None = None if hasattr(config, "workerinput") else config.getoption("work_record")
        self.enforced = first_tier() and not config.getoption("work_record")
        self.complete = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        self.meter: _Meter | None = None
        self.seen: list[tuple[Work, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Leave the marker `deep` on the parameters that it is meant for."""
        named, seen = dict[str, set[str]](), dict[str, set[str]]()
        for item in items:
            mark = item.get_closest_marker("deep")
            if mark is not None and mark.kwargs:
                test = item.nodeid.partition("[")[0]
                named[test] = {name for names in mark.kwargs.values() for name in names}
                seen.setdefault(test, set()).add(_parameters(mark, item))
                if not _is_meant(mark, item):
                    item.own_markers.remove(mark)
        if self.complete:
            for test, names in named.items():
                if absent := sorted(names - seen[test]):
                    raise pytest.UsageError(f"{test} has no parameters {absent}, which its marker deep names")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count from here on."""
        self.meter = _Meter()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """What is made for several tests is counted for none."""
        if fixturedef.scope == "function" or self.meter is None:
            return (yield)
        with self.meter.apart():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count the examples of hypothesis."""
        handle = getattr(getattr(item, "obj", None), "hypothesis", None)
        if handle is not None and not hasattr(handle, "counted"):
            _count(handle, "inner_test", "examples")
            handle.counted = True
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Hand the work over with the report, and fail a test of the first tier that does too much."""
        report = yield
        if call.when == "call" and self.meter is not None:
            work = self.meter.work
            report.user_properties.append(("work", work._asdict()))
            exempt = (
                _is_deep(item) or _on_gpu(item) or (work.done.get("examples") and not settings().derandomize)
            )
            if self.enforced and report.passed and too_much(work, exempt=bool(exempt)):
                report.outcome = "failed"
                report.longrepr = sentence(work)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test has done, in the process that reports."""
        for name, value in report.user_properties:
            if name == "work" and report.when == "call":
                work = Work(**value)  # type: ignore[arg-type]
                self.seen.append((work, report.nodeid))
                if self.record:
                    with Path(self.record).open("a", encoding="utf-8") as file:
                        file.write(
                            json.dumps({"id": report.nodeid, "work": work.price, **work._asdict()}) + "\n"
                        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the costliest tests."""
        if len(self.seen) > COSTLIEST:
            terminalreporter.section(f"costliest tests (limit of work {LIMIT:g}; see tests/README.md)")
            for line in costliest(self.seen):
                terminalreporter.write_line(line)


FEW_EXAMPLES = 30
"""Examples of hypothesis per test in the first tier, at most."""


def first_tier() -> bool:
    """Whether tests run with the few examples of the first tier, and samples in place of long sweeps."""
    return settings().max_examples <= FEW_EXAMPLES


def _parameters(mark: pytest.Mark, item: pytest.Item) -> str:
    """The id of an item's parameters, in the brackets of its name."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or mark not in item.own_markers or set(mark.kwargs) not in ({"but"}, {"only"}):
        raise pytest.UsageError(f"{item.nodeid}: deep takes but= or only=, and these on a parametrised test")
    return str(callspec.id)


def _is_meant(mark: pytest.Mark, item: pytest.Item) -> bool:
    """Whether a marker with `but` or `only` means this item."""
    if "but" in mark.kwargs:
        return _parameters(mark, item) not in mark.kwargs["but"]
    return _parameters(mark, item) in mark.kwargs["only"]


def _is_deep(item: pytest.Item) -> bool:
    return item.get_closest_marker("deep") is not None


def _on_gpu(item: pytest.Item) -> bool:
    """Whether a test is of `make gpu`, which has no tiers: it skips where `make test` runs."""
    return "gpu" in item.path.relative_to(item.config.rootpath).parts


def too_much(work: Work, *, exempt: bool) -> bool:
    """Whether a test does more than LIMIT; deep ones may, and those of other examples in each run."""
    return not exempt and work.price > LIMIT


def sentence(work: Work) -> str:
    """Why such a test fails.

    >>> print(sentence(Work({"Python processes": 4, "layouts": 7}, 0.8)))
    This test does work of 400, and 300 is the most that one of the first tier may: 4 Python processes, 7
    layouts.  Make it cheaper, or mark it with pytest.mark.deep; tests/README.md says how.
    """
    return (
        f"This test does work of {work.price:.0f}, and {LIMIT:g} is the most that one of the first tier may: "
        f"{work}.  Make it cheaper, or mark it with pytest.mark.deep; tests/README.md says how."
    )


def costliest(seen: Sequence[tuple[Work, str]]) -> Iterator[str]:
    """Lines: the tests of most work, and those of most seconds that are not among them."""
    by_work = sorted(seen, key=lambda one: -one[0].price)[:COSTLIEST]
    by_time = sorted(seen, key=lambda one: -one[0].seconds)[:COSTLIEST]
    yield "  work  CPU s"
    for work, name in [*by_work, *(one for one in by_time if one not in by_work)]:
        yield f"{work.price:6.0f} {work.seconds:6.2f}  {name}"
