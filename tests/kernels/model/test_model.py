"""The model of time: what its sum keeps, numbers that are refused, and boards without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import ARCHS, find_board
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.model import Work, machine_of, p_norm, read_machine, time_us
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
        ("launch_us", -1, "not of the kind"), ("bytes_per_us", 0, "not of the kind"),
        ("cycles_per_us", None, "not of the kind"), ("sms", 1.5, "not of the kind"),
        ("bytes_per_us", 1e31, "not of the kind"), ("format", "other", "is not a file of the numbers"),
    ],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(field: str, value: Any, part: str, tmp_path: Path) -> None:
    named = json.loads(FILE.read_text(encoding="utf-8"))
    path = tmp_path / "board.json"
    path.write_text(json.dumps({**named, field: value}), encoding="utf-8")
    with pytest.raises(LayoutAlgError, match=part):
        read_machine(path, "H200-SXM")
    del named[field]
    path.write_text(json.dumps(named), encoding="utf-8")
    with pytest.raises(LayoutAlgError):
        read_machine(path, "H200-SXM")


@each("arch", [name for name, chip in ARCHS.items() if chip.board], ids=str)
def test_a_board_without_a_file_has_the_rates_of_its_sheet(arch: str) -> None:
    board, m = find_board(arch), machine_of(arch)
    assert m.board == board.name and m.sms == board.sms
    assert m.source.startswith("from the data sheet") == (board.name != "H200-SXM")
    assert m.bytes_per_us < board.dram_bytes_per_s / 1e6
    assert board.boost_hz is None or m.cycles_per_us < board.boost_hz / 1e6
