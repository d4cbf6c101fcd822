"""The numbers of boards that the model of time takes: measured, in a file of the board, or from a data sheet.

    machine_of("sm_90")       h200_sxm.json, beside this module
    machine_of("sm_89")       no file: the rates of the data sheet, of which programs reach as much as they
                              do of an H200's

A file is JSON: a number for each field of `Machine`, and where they are from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from layoutalg.answers import Positive, Rate
from layoutalg.arch import Arch, find_arch, find_board
from layoutalg.errors import ParseError
from layoutalg.kernels.files import Format, read_as
from layoutalg.limits import Most

FORMAT = Format("layoutalg board", 1, "the numbers", "a file of the numbers of a board", Most.FILE)

MEASURED = "H200-SXM"
"""The board whose numbers stand for what is not known of others."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of a board: multiprocessors, microseconds of a launch, of one that follows another, of one
    that starts while another ends, and of a multiprocessor to start a block, bytes that memory moves and
    cycles of a multiprocessor in a microsecond, and those of single ways.

    A round of loads takes `load_us`, and `byte_us` more for every byte that a thread has in flight; a load
    costs memory `load_bytes` beside its own.

    >>> isinstance(machine_of("sm_80"), Machine), machine_of("sm_80").board
    (True, 'A100-SXM4-80GB')
    """

    board: str
    source: str
    sms: Positive
    launch_us: Rate
    next_launch_us: Rate
    dependent_us: Rate
    start_us: Rate
    bytes_per_us: Rate
    cycles_per_us: Rate
    load_us: Rate
    byte_us: Rate
    load_bytes: Rate
    ways: Mapping[str, Mapping[str, Rate]] = field(hash=False)


def read_machine(path: Path, board: str) -> Machine:
    """The numbers in a file.

    Raises OSError, ParseError for one of another format, version or board and for numbers that are missing
    or not positive, ResourceError for a file past Most.FILE.

    >>> read_machine(Path(__file__).with_name("h200_sxm.json"), "H200-SXM").sms
    132
    """
    named = FORMAT.read(path)
    try:
        machine: Machine = read_as(Machine, named)
    except ValueError as error:
        raise ParseError(f"{path} is not {FORMAT.kind}: {error}") from error
    if machine.board != board:
        raise ParseError(f"{path} has the numbers of {machine.board}, not those of {board}")
    return machine


@lru_cache(maxsize=64)
def machine_of(arch: str | Arch) -> Machine:
    """The numbers of the board that stands for an architecture.

    >>> machine_of("sm_90").source.split()[0], machine_of("sm_89").board, machine_of("sm_89").sms
    ('measured', 'L40S', 142)
    """
    measured, board = _measured(MEASURED), find_arch(arch).board
    if board is None:
        return measured
    if _file(board.name).exists():
        return _measured(board.name)
    sheet, clock = find_board(MEASURED), board.boost_hz
    return replace(
        measured,
        board=board.name,
        source=f"from the data sheet: {board.source}",
        sms=board.sms,
        bytes_per_us=measured.bytes_per_us * board.dram_bytes_per_s / sheet.dram_bytes_per_s,
        cycles_per_us=measured.cycles_per_us * (clock / sheet.boost_hz if clock and sheet.boost_hz else 1),
    )


@lru_cache(maxsize=64)
def _measured(board: str) -> Machine:
    return read_machine(_file(board), board)


def _file(board: str) -> Path:
    return Path(__file__).with_name(board.lower().replace("-", "_").replace(" ", "_") + ".json")
