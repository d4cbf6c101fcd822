"""The cubin cache under faults, a few of each kind; tests/bench/bench_cache_faults.py has thousands."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from layoutalg.codegen.gpu import cubin_cache
from tests.stand_ins.cache_faults import (
    DAMAGE,
    SPECIAL,
    Case,
    damage_by_kills,
    forged_reads,
    past_the_limit,
    random_case,
    wrong_reads,
)


@pytest.mark.parametrize("kind", [*DAMAGE, *SPECIAL])
def test_an_entry_of_each_kind_is_believed_where_it_is_whole(kind: str, tmp_path: Path) -> None:
    case = Case(kind, 0o700, False, 0o600, False)
    assert case.believed == (kind == "good")
    assert wrong_reads(case, tmp_path, random.Random(1)) == []


def test_what_others_may_have_written_is_not_believed(tmp_path: Path) -> None:
    rng = random.Random(7)
    cases = [random_case(rng) for _ in range(150)]
    assert {case.believed for case in cases} == {case.folder_trusted for case in cases} == {True, False}
    assert [text for case in cases for text in wrong_reads(case, tmp_path, rng)] == []


def test_a_folder_that_another_makes_first_is_not_believed(tmp_path: Path) -> None:
    read, used = forged_reads(tmp_path, 150)
    assert read == [] and used <= 150


@pytest.mark.deep
def test_writers_that_are_killed_leave_no_damage(tmp_path: Path) -> None:
    assert damage_by_kills(tmp_path, 20, random.Random(7)) == []


@pytest.mark.deep(but=("64",))
@pytest.mark.parametrize("many", [cubin_cache.MANY, 1])
def test_writers_at_once_keep_the_limit(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin_cache, "MANY", many)
    monkeypatch.setattr(cubin_cache, "AHEAD", 8)
    meanwhile, at_the_end = past_the_limit(tmp_path, 4, 60, random.Random(7))
    assert at_the_end <= 0 and meanwhile <= 0
