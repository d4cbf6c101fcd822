"""The fit of gemm-sm90's law: numbers come out of times that they made, the module's out of the data."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest

from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.times import LAW, WgmmaLaw, sm90_clock, tile_law
from tests.gpu import fit_tiles
from tests.gpu.fit_wgmma import (
    BOARD,
    FILES,
    UNSEEN,
    config_named,
    expected,
    fitted,
    measured,
    shares,
    text_of,
    times_of,
)

KNOWN = "gemm_choice_sm90.json"
RNG = random.Random(20261124)

Rows = list[dict[str, Any]]


def made(problems: int) -> Rows:
    """Problems whose times are those that the law expects, of all offered tiles."""
    rows = []
    for number in range(problems):
        m, n, k = (
            8 * RNG.randint(8, 32 if number % 2 else 500),
            8 * RNG.randint(8, 500),
            8 * RNG.randint(8, 800),
        )
        p = gemm_problem(m, n, k, "bf16")
        us = {str(c): ns / 1e3 for ns, c, _ in SM90.timed(p)}
        rows.append({"m": m, "n": n, "k": k, "choices": us})
    return rows


def test_one_configuration_and_arrays_of_them_have_one_law() -> None:
    rows = made(6)
    times = times_of(rows, np.inf)
    assert expected(times, LAW) == pytest.approx(times.ns)
    assert len(times.ns) == sum(len(row["choices"]) for row in rows) > 500
    p = gemm_problem(rows[0]["m"], rows[0]["n"], rows[0]["k"], "bf16")
    for text, us in rows[0]["choices"].items():
        c = config_named(p, text)
        assert (
            c is not None and str(c) == text and sm90_clock(p, BOARD)(c, c.splits) == pytest.approx(1e3 * us)
        )


@pytest.mark.deep
def test_numbers_come_out_of_the_times_that_they_made() -> None:
    times = times_of(made(60))
    wrong = WgmmaLaw(**{name: x * RNG.uniform(0.8, 1.25) for name, x in asdict(LAW).items()})
    found = fitted(times, wrong)
    before, after = (np.abs(np.log(expected(times, law) / times.ns)) for law in (wrong, found))
    assert before.mean() > 0.03 and after.mean() < 0.002 and after.max() < 0.02
    for name in ("element", "start", "memory", "latency", "launch"):
        assert asdict(found)[name] == pytest.approx(asdict(LAW)[name], rel=0.05)


@pytest.mark.deep
def test_the_numbers_of_the_module_are_what_the_data_make() -> None:
    parts = measured(*FILES)
    found = fitted(times_of([row for name, rows in parts.items() if name != UNSEEN for row in rows]))
    for name, x in asdict(found).items():
        assert asdict(LAW)[name] == pytest.approx(x, rel=0.04), name
    assert WgmmaLaw(**json.loads(text_of(LAW))) == LAW


def test_the_times_of_promotion_and_factors_are_those_of_8_bit_floats() -> None:
    """Expected times are farther off with none of it, and with three times as much."""
    for name, rows in measured("gemm_choice_bytes.json").items():
        number, times = {"plain": "promoted", "blocks": "factors"}[name], times_of(rows, 1.6)
        laws = [replace(LAW, **{number: getattr(LAW, number) * x}) for x in (1, 0, 3)]
        own, *others = (np.abs(np.log(expected(times, law) / times.ns)).mean() for law in laws)
        assert own < 0.07 and own < min(others)
        assert geometric_mean(first for first, *_ in shares(times_of(rows, np.inf), LAW)) > 0.98


@pytest.mark.deep(but=("simt",))
@pytest.mark.parametrize("name", ["simt", "sm80", "sm80 f64"])
def test_the_numbers_of_tiles_are_what_their_times_make(name: str) -> None:
    """A step of the fit from the numbers of the file on changes none."""
    t = fit_tiles.timed(name)
    law = fit_tiles.fitted(name, t, range(t.problem.max() + 1), steps=1)
    for x, value in asdict(tile_law(f"gemm-{name}", BOARD)).items():
        assert getattr(law, x) == pytest.approx(value, rel=0.03), x


@pytest.mark.deep
def test_first_choices_against_all_that_were_timed() -> None:
    """On problems that the law was not fitted to."""
    found = shares(times_of(measured(*FILES)[UNSEEN], np.inf), LAW)
    assert len(found) > 140
    first, _, _, eight, _ = (list(own) for own in zip(*found, strict=True))
    assert geometric_mean(first) >= 0.965 and min(first) >= 0.75 and geometric_mean(eight) >= 0.99


@pytest.mark.parametrize(("file", "part"), [(FILES[0], "fresh"), (FILES[1], "4302"), (FILES[1], "43117")])
def test_the_first_choices_of_the_family_were_timed_and_are_as_good(file: str, part: str) -> None:
    """Of the offered tiles alone: those that were not timed were not expected near the first."""
    found = []
    for row in measured(file)[part]:
        us = row["choices"]
        p = gemm_problem(row["m"], row["n"], row["k"], "bf16", b_major=row.get("b_major", "k"))
        found.append(min(us.values()) / next(us[name] for c in SM90.configs(p) if (name := str(c)) in us))
    assert geometric_mean(found) >= 0.95


def test_a_worse_law_chooses_worse() -> None:
    times = times_of(measured(KNOWN)["fresh few"], np.inf)
    blind = replace(LAW, issue=1.0, again=1e-9, latency=1.0, memory=1e9)
    good, bad = (geometric_mean(own[0] for own in shares(times, law)) for law in (LAW, blind))
    assert bad < good - 0.02
