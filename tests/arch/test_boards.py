"""Boards: their numbers fit each other, and a name never gives those of another GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layoutalg.arch import ARCHS, BOARDS, TENSOR_CORES, Board, find_arch, find_board
from layoutalg.arch.architectures import _ARCH_FAMILIES, _GPUS, _key
from layoutalg.errors import UnsupportedError
from tests.command import answer, refusal
from tests.sweeps import each, first

EVERY = [(name, board) for name, boards in BOARDS.items() for board in boards]
GPUS = [(arch, gpu) for arch, names in _GPUS.items() for gpu in names.split(", ")]

FMA_LANES = {"sm_70": 64, "sm_75": 64, "sm_80": 64}
"""Results of 32-bit multiply-adds per clock and multiprocessor; 128 elsewhere."""


@each(("arch", "board"), EVERY, ids=lambda x: getattr(x, "name", x))
def test_the_numbers_of_a_board_fit_each_other(arch: str, board: Board) -> None:
    """Rates are those of the lanes at the clock, and tensor cores reach theirs at no higher one."""
    assert (
        board.source
        and find_arch(board.name) == replace(ARCHS[arch], board=board)
        and find_board(board.name) is board
    )
    if board.boost_hz is not None:
        flops = 2 * board.sms * FMA_LANES.get(arch, 128) * board.boost_hz
        assert flops == pytest.approx(board.f32_flops_per_s, rel=0.006)
        if board.f16_tensor_flops_per_s is not None and arch in TENSOR_CORES:
            most = 2 * board.sms * TENSOR_CORES[arch].fmas_per_cycle * board.boost_hz
            assert board.f16_tensor_flops_per_s <= 1.01 * most


def test_the_first_board_of_an_architecture_is_that_of_its_record() -> None:
    assert list(BOARDS) == list(ARCHS)
    for name, machine in ARCHS.items():
        assert machine.board is (BOARDS[name][0] if BOARDS[name] else None)
        if machine.board is not None:
            assert find_board(name) is find_board(machine) is machine.board


def test_no_gpu_has_the_rates_of_another() -> None:
    """Of every accepted name: a board that is called so, or a refusal that says so."""
    for arch, gpu in GPUS:
        if _key(gpu) in _ARCH_FAMILIES:
            assert find_board(gpu) is ARCHS[arch].board
            continue
        try:
            board = find_board(gpu)
        except UnsupportedError as error:
            assert f" {gpu} " in str(error)
            assert not any(name in str(error) for name, boards in BOARDS.items() if name != arch)
        else:
            rest = _key(board.name).removeprefix(_key(gpu))
            assert _key(board.name).startswith(_key(gpu)) and board in BOARDS[arch]
            assert not rest.startswith(("ti", "s", "0")) or rest.startswith("sxm"), (gpu, board.name)


@each(
    ("name", "sms", "gb_per_s"),
    [
        ("H200", 132, 4800), ("H100-SXM5", 132, 3350), ("H100-PCIe", 114, 2039), ("GH200-96GB", 132, 4000),
        ("GH200-144GB", 132, 4900), ("A100-SXM4-80GB", 108, 2039), ("A100-PCIe-80GB", 108, 1935),
        ("A100-SXM4-40GB", 108, 1555), ("A100-PCIe-40GB", 108, 1555), ("A30", 56, 933), ("T4", 40, 320),
        ("V100", 80, 900), ("L4", 58, 300), ("L40S", 142, 864), ("NVIDIA GeForce RTX 4090", 128, 1008),
        ("rtx-3060", 28, 360), ("RTX 3090", 82, 936), ("RTX 5060", 30, 448),
    ],
)  # fmt: skip
def test_rates_of_data_sheets(name: str, sms: int, gb_per_s: int) -> None:
    board = find_board(name)
    assert (board.sms, board.dram_bytes_per_s) == (sms, gb_per_s * 1e9)


@each(
    ("name", "part"),
    [
        ("H100", "depend on the board: name H100-SXM5 or H100-PCIe"), ("GH200", "GH200-96GB or GH200-144GB"),
        ("A100", "A100-SXM4-80GB or A100-SXM4-40GB or"), ("RTX 3060 Ti", "no rates of RTX 3060 Ti are"),
        ("L40", "no rates of L40 are recorded"), ("B300", "no rates of B300 are recorded"),
        ("sm_103", "no document describes a board"), ("GB200", "another board whose rates to take, B200"),
    ],
)  # fmt: skip
def test_a_name_without_rates_is_refused(name: str, part: str) -> None:
    with pytest.raises(UnsupportedError, match=part):
        find_board(name)


# --- the commands that print rates ---------------------------------------------------------------------


@pytest.mark.deep(only=("H100",))
@pytest.mark.parametrize("gpu", first(2, ["H100", "RTX 2080", "A100", "RTX 3060 Ti", "L40", "GB200"]))
def test_every_command_that_prints_rates_refuses_a_gpu_without(gpu: str) -> None:
    for words in (
        ("inspect", "roofline", "--arch", gpu, "--unit", "f32", "--dtype", "f32"),
        ("bench", "gemm-sm80", "--predict", "--arch", gpu),
        ("bench", "gemm-sm90", "--predict", "--groups", "4", "--size", "512", "--arch", gpu),
        ("tune", "transpose", "--sizes", "64", "--timing", "model", "--arch", gpu),
        ("inspect", "sass", "gemm-sm80", "--time", "--arch", gpu),
    ):
        assert refusal(*words)[0] == "UnsupportedError"


@pytest.mark.parametrize("gpu", ["H200", "L4", "RTX 4090", "A30", "H100-PCIe", "GH200-96GB", "RTX 5060"])
def test_a_roofline_is_of_the_board_that_is_named(gpu: str) -> None:
    found = answer("inspect", "roofline", "--arch", gpu, "--unit", "f32", "--dtype", "f32")
    board = find_board(gpu)
    assert found["rates"] == f"{board.name}, data sheet" and found["source"] == board.source
    assert found["tiles"][0]["bounds"][0]["bytes_per_s"] == board.dram_bytes_per_s
    assert found["peak_flops_per_s"] == board.f32_flops_per_s


@pytest.mark.parametrize("gpu", ["H100-SXM5", "GH200-96GB"])
def test_predictions_of_one_board_are_not_those_of_another(gpu: str) -> None:
    for words, part in (
        (("bench", "gemm-sm80", "--predict"), "name sm_90 for those of H200-SXM"),
        (("bench", "gemm-sm90", "--predict", "--groups", "4", "--size", "512"), "no times of gemm-sm90"),
        (("tune", "gemm-sm90", "--sizes", "512", "--timing", "model"), "name sm_90 for those on H200-SXM"),
        (("inspect", "sass", "gemm-sm80", "--time"), "name sm_90 for those of H200-SXM"),
    ):
        error, sentence = refusal(*words, "--arch", gpu)
        assert error == "UnsupportedError" and part in sentence and gpu in sentence


def test_rates_that_were_achieved_are_those_of_a_t4() -> None:
    """Another board of compute capability 7.5 has none."""
    assert answer("inspect", "roofline", "--arch", "sm_75", "--rates", "achieved")["rates"] == "T4, achieved"
    assert (
        refusal("inspect", "roofline", "--arch", "RTX 2080 Ti", "--rates", "achieved")[0]
        == "UnsupportedError"
    )
