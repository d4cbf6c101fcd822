"""The model of time: what its sum keeps, numbers that are refused, and boards without a file."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import ARCHS, find_board
from layoutalg.errors import LayoutAlgError, ParseError
from layoutalg.kernels.model import Work, machine_of, p_norm, read_machine, stated_machine, time_us
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.registry import FAMILIES
from tests.frozen.chosen_kinds import ROOMS
from tests.sweeps import each

H200 = machine_of("sm_90")
FILE = Path(__file__).parents[3] / "kernels" / "model" / "h200_sxm.json"
AMOUNT = st.floats(1e-3, 1e6)


@given(st.lists(AMOUNT, min_size=1, max_size=4))
def test_a_norm_is_between_the_longest_part_and_the_sum(parts: list[float]) -> None:
    assert max(parts) <= p_norm(*parts) * (1 + 1e-9) and p_norm(*parts) <= sum(parts) * (1 + 1e-9)


@each("field", ["nbytes", "instructions", "wavefronts", "blocks", "block_us", "beside_us"])
def test_more_of_anything_takes_longer(field: str) -> None:
    work = {"nbytes": 1e7, "instructions": 1e7, "wavefronts": 1e6, "blocks": 900.0, "at_once": 264.0}
    work |= {"block_us": 1.0, "beside_us": 1.0}
    more = Work(**{**work, field: 4 * work[field]})
    assert time_us(more, H200) > time_us(Work(**work), H200) > H200.launch_us


@each(
    ("field", "value", "part"),
    [
        ("version", 2, "version 2"), ("board", "L4", "the numbers of L4, not those of H200-SXM"),
        ("launch_us", -1, "launch_us: '-1' is not more than 0"), ("launch_us", 1e6, "is not at most 1000"),
        ("bytes_per_us", 0, "bytes_per_us: '0' is not at least"), ("sms", 1.5, "sms: '1.5' is not of"),
        ("cycles_per_us", None, "cycles_per_us: 'None' is not of"), ("arch", "sm_1", "'sm_1' is none of"),
        ("bytes_per_us", 4.4e12, "is not at most"), ("format", "other", "is not a file of the numbers"),
        ("source", "by hand", "does not say how it was measured"), ("dram_bytes_per_s", 1.0, "boost_hz"),
    ],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(field: str, value: Any, part: str, tmp_path: Path) -> None:
    named = json.loads(FILE.read_text(encoding="utf-8"))
    path = tmp_path / "board.json"
    path.write_text(json.dumps({**named, field: value}), encoding="utf-8")
    with pytest.raises(LayoutAlgError, match=part):
        read_machine(path, "H200-SXM")
    named.pop(field, None)
    if field != "dram_bytes_per_s":
        path.write_text(json.dumps(named), encoding="utf-8")
        with pytest.raises(LayoutAlgError, match="is not a file" if value in (2, "other") else f"no {field}"):
            read_machine(path, "H200-SXM")


@each(
    ("way", "field", "value", "part"),
    [
        ("gemv", "join", -1, "ways: gemv: join: '-1' is not more than 0"), ("gemv", "join", None, "no join"),
        ("gemv", "join", 1e7, "is not at most"), ("gemv", "joined", 1, "there is no number joined"),
        ("gemv", "", None, "it has no gemv"), ("gemw", "", {}, "there is no number gemw"),
        ("", "wave", 1, "there is no number wave"), ("", "l2_bytes", 1 << 40, "l2_bytes: .* is not at most"),
    ],
)  # fmt: skip
def test_numbers_of_ways_are_those_that_are_known(
    way: str, field: str, value: Any, part: str, tmp_path: Path
) -> None:
    """A number of a way that is missing, misspelt, negative or absurd is refused by its name."""
    named = json.loads(FILE.read_text(encoding="utf-8"))
    holder = named if not way else named["ways"] if not field else named["ways"][way]
    name = field or way
    holder.pop(name, None)
    if value is not None:
        holder[name] = value
    path = tmp_path / "board.json"
    path.write_text(json.dumps(named), encoding="utf-8")
    with pytest.raises(ParseError, match=part):
        read_machine(path)


@each("arch", [name for name, chip in ARCHS.items() if chip.board], ids=str)
def test_a_board_without_a_file_has_the_rates_of_its_sheet(arch: str) -> None:
    board, m = find_board(arch), machine_of(arch)
    assert m.board == board.name and m.sms == board.sms
    assert m.source.startswith("from the data sheet") == (board.name != "H200-SXM")
    assert m.bytes_per_us < board.dram_bytes_per_s / 1e6
    assert board.boost_hz is None or m.cycles_per_us < board.boost_hz / 1e6


SHEETS = ("h100_pcie", "l4", "rtx_4090")


@each("name", SHEETS)
def test_the_sheets_of_files_are_those_of_the_table(name: str) -> None:
    sheet = json.loads(FILE.with_name(f"{name}.json").read_text(encoding="utf-8"))
    board = find_board(sheet["board"])
    for number in ("sms", "l2_bytes", "dram_bytes_per_s", "boost_hz"):
        assert sheet[number] == getattr(board, number)
    m = machine_of(board.name)
    assert m.board == board.name and m.source.startswith("from the data sheet") and not m.is_measured
    assert m.launch_us == H200.launch_us and m.bytes_per_us < sheet["dram_bytes_per_s"] / 1e6


@pytest.fixture
def forgotten() -> Iterator[None]:
    """A process has one board, which its choices know: others are to have theirs."""
    machine_of.cache_clear()
    yield
    machine_of.cache_clear()
    configs.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_a_file_of_a_known_board_stands_for_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, f = tmp_path / "h200.json", FAMILIES["relu"]
    path.write_text(json.dumps({**json.loads(FILE.read_text("utf-8")), "launch_us": 100.0}), "utf-8")
    p = f.problem((64, 64), "f32")
    before = f.expected(p, f.choose(p)).us
    monkeypatch.setenv("LAYOUTALG_BOARD", str(path))
    machine_of.cache_clear()
    assert machine_of("sm_90").launch_us == stated_machine("sm_90").launch_us == 100.0
    assert f.expected(p, f.choose(p)).us > 90 + before


@pytest.mark.deep
@pytest.mark.usefixtures("forgotten")
def test_a_new_board_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that is not known: its file alone makes the choices of its architecture."""
    rng, sheet = random.Random(20261130), json.loads(FILE.with_name("l4.json").read_text(encoding="utf-8"))
    path = tmp_path / "small.json"
    path.write_text(json.dumps({**sheet, "board": "Small", "sms": 7, "dram_bytes_per_s": 1e11}), "utf-8")
    cases = [ROOMS[room](rng)._replace(arch="sm_89") for room in ROOMS for _ in range(5)]

    def choices() -> list[Any]:
        configs.cache_clear()
        machine_of.cache_clear()
        found = []
        for case in cases:
            with contextlib.suppress(LayoutAlgError):
                found.append(FAMILIES[case.family].choose(case.problem, case.arch))
        return found

    before = choices()
    monkeypatch.setenv("LAYOUTALG_BOARD", str(path))
    machine_of.cache_clear()
    assert machine_of("sm_89").sms == 7 and machine_of("L4").sms == 58 and machine_of("sm_90") == H200
    now = choices()
    assert len(now) == len(before) >= 20 and now != before
