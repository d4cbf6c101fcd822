"""The numbers of boards that the model of time takes: measured, in a file of the board, or from a data sheet.

    machine_of("sm_90")         h200_sxm.json, beside this module
    machine_of("H100-PCIe")     h100_pcie.json: what a data sheet states
    machine_of("sm_80")         no file: the sheet of that board in `layoutalg.arch`

A file is JSON, and has a number for each field of `Machine`, or of `Sheet`.  A new board is a file here, or
one that the environment names, which then stands for its architecture in this process:

    LAYOUTALG_BOARD=mine.json

The rule of data sheets.  Programs reach as much of what a sheet states as they reach of what the sheet of
the measured board does: rates of memory and clocks are in proportion.  What no sheet states is taken from
the measured board: microseconds of launches and of loads, and an L2 in proportion to the multiprocessors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from layoutalg.answers import Bound
from layoutalg.arch import ARCHS, Arch, find_arch, find_board
from layoutalg.errors import ParseError, UnknownNameError
from layoutalg.kernels.files import Format, of_environment, read_as
from layoutalg.limits import Most

FORMAT = Format("layoutalg board", 1, "the numbers", "a file of the numbers of a board", Most.FILE)

VARIABLE = "LAYOUTALG_BOARD"
"""The environment variable that names the file of the board that stands for its architecture."""

MEASURED = "H200-SXM"
"""The board whose numbers stand for what is not known of others."""

_MORE = Bound("exclusiveMinimum", 0)
Sms: TypeAlias = Annotated[int, Bound("minimum", 1), Bound("maximum", 1 << 12)]
Micros: TypeAlias = Annotated[float, _MORE, Bound("maximum", 1e3)]
BytesPerUs: TypeAlias = Annotated[float, Bound("minimum", 1e3), Bound("maximum", 1e9)]
CyclesPerUs: TypeAlias = Annotated[float, Bound("minimum", 10), Bound("maximum", 1e5)]
BytesPerSecond: TypeAlias = Annotated[float, Bound("minimum", 1e9), Bound("maximum", 1e15)]
Hertz: TypeAlias = Annotated[float, Bound("minimum", 1e7), Bound("maximum", 1e11)]
CacheBytes: TypeAlias = Annotated[int, Bound("minimum", 1 << 16), Bound("maximum", 1 << 36)]
OfWay: TypeAlias = Annotated[float, _MORE, Bound("maximum", 1e6)]


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of a board: multiprocessors, bytes of L2, microseconds of a launch, and less for every
    halving of its blocks below the multiprocessors, of one that follows another, of one that starts while
    another ends, and of a multiprocessor to start a block, bytes that memory moves and cycles of a
    multiprocessor per microsecond, and those of single ways.

    A round of loads takes `load_us`, and `byte_us` more for every byte that a thread has in flight; a load
    costs memory `load_bytes` beside its own.  `source` begins with "measured", or "from the data sheet".

    >>> isinstance(machine_of("sm_80"), Machine), machine_of("sm_80").board
    (True, 'A100-SXM4-80GB')
    """

    board: str
    arch: str
    source: str
    sms: Sms
    l2_bytes: CacheBytes
    launch_us: Micros
    halving_us: Micros
    next_launch_us: Micros
    dependent_us: Micros
    start_us: Micros
    bytes_per_us: BytesPerUs
    cycles_per_us: CyclesPerUs
    load_us: Micros
    byte_us: Micros
    load_bytes: Annotated[float, _MORE, Bound("maximum", 1e3)]
    ways: Mapping[str, Mapping[str, OfWay]] = field(hash=False)

    @property
    def is_measured(self) -> bool:
        """Whether its times are those of this board, not derived."""
        return self.source.startswith("measured")


@dataclass(frozen=True, slots=True)
class Sheet:
    """The numbers of a data sheet; None for what it does not state.

    >>> Sheet("Small", "sm_90", "made up", 10, None, 1e11, None).machine.source
    'from the data sheet: made up'
    """

    board: str
    arch: str
    source: str
    sms: Sms
    l2_bytes: CacheBytes | None
    dram_bytes_per_s: BytesPerSecond
    boost_hz: Hertz | None

    @property
    def machine(self) -> Machine:
        """The numbers by the rule of data sheets, see the module's text."""
        measured, sheet = _packaged(MEASURED), find_board(MEASURED)
        clock = self.boost_hz / sheet.boost_hz if self.boost_hz and sheet.boost_hz else 1.0
        return replace(
            measured,
            board=self.board,
            arch=self.arch,
            source=f"from the data sheet: {self.source}",
            sms=self.sms,
            l2_bytes=self.l2_bytes or measured.l2_bytes * self.sms // measured.sms,
            bytes_per_us=measured.bytes_per_us * self.dram_bytes_per_s / sheet.dram_bytes_per_s,
            cycles_per_us=measured.cycles_per_us * clock,
        )


def read_machine(path: Path, board: str = "") -> Machine:
    """The numbers in a file, which have to be those of a `board`, if one is named.

    Raises OSError, ParseError for one of another format, version or board and for numbers that are missing,
    of a name that no board has, not positive or past what any board has, ResourceError past Most.FILE.

    >>> read_machine(Path(__file__).with_name("h200_sxm.json"), "H200-SXM").sms
    132
    """
    named = FORMAT.read(path)
    kind: Any = Sheet if "dram_bytes_per_s" in named else Machine
    _check_names(path, {f.name for f in fields(kind)}, named.keys() - FORMAT.head.keys())
    try:
        found = read_as(kind, named)
    except ValueError as error:
        raise ParseError(f"{path} is not {FORMAT.kind}: {error}") from error
    if board and found.board != board:
        raise ParseError(f"{path} has the numbers of {found.board}, not those of {board}")
    if found.arch not in ARCHS:
        raise ParseError(f"{path} is not {FORMAT.kind}: arch {found.arch!r} is none of {', '.join(ARCHS)}")
    own = board == MEASURED and path.name.endswith(_file(MEASURED).name)  # out of an archive by a longer name
    if isinstance(found, Machine) and not own:
        known = {way: {way, *numbers} for way, numbers in _packaged(MEASURED).ways.items()}
        _check_names(path, known.keys(), found.ways.keys())
        for way, names in known.items():
            _check_names(path, names, {way, *found.ways[way]})
    machine: Machine = found.machine if isinstance(found, Sheet) else found
    if isinstance(found, Machine) and not found.is_measured:
        raise ParseError(f"{path} is not {FORMAT.kind}: its source does not say how it was measured")
    return machine


def _check_names(path: Path, known: Set[str], named: Set[str]) -> None:
    """Raise ParseError for a number that is missing, or that none is known of."""
    for words, names in (("it has no", known - named), ("there is no number", named - known)):
        if names:
            raise ParseError(f"{path} is not {FORMAT.kind}: {words} {min(names)}")


@lru_cache(maxsize=64)
def machine_of(arch: str | Arch) -> Machine:
    """The numbers of a board, or of the board that stands for an architecture in this process.

    >>> machine_of("sm_90").source.split()[0], machine_of("sm_89").board, machine_of("L4").sms
    ('measured', 'L40S', 58)
    """
    chip = find_arch(arch)
    return _named(chip) or _machine(chip)


def _named(chip: Arch) -> Machine | None:
    """The numbers in the file that the environment names, where they stand for this architecture."""
    mine = of_environment(VARIABLE, read_machine)
    return mine if mine is not None and mine.arch == chip.name and chip == ARCHS[chip.name] else None


def chip_of(arch: str, gpu: str) -> str | Arch:
    """The architecture, with the board that the name of a GPU means where one is known.

    >>> machine_of(chip_of("sm_90", "NVIDIA H100 PCIe")).sms, chip_of("sm_90", "NVIDIA H100 80GB HBM3")
    (114, 'sm_90')
    """
    with contextlib.suppress(UnknownNameError):
        if (chip := find_arch(gpu)).name == find_arch(arch).name and chip != ARCHS[chip.name]:
            return chip
    return arch


def stated_machine(arch: str | Arch) -> Machine:
    """The same, where there is a board of the architecture: none lends its numbers to another's.

    Raises as `find_board` does.

    >>> stated_machine("sm_80").l2_bytes >> 20
    40
    """
    chip = find_arch(arch)
    return _named(chip) or _machine(replace(chip, board=find_board(arch)))


@lru_cache(maxsize=64)
def _machine(chip: Arch) -> Machine:
    board = chip.board
    if board is None:
        return _packaged(MEASURED)
    if _file(board.name).is_file():
        return _packaged(board.name)
    numbers = board.sms, board.l2_bytes, board.dram_bytes_per_s, board.boost_hz
    return Sheet(board.name, chip.name, board.source, *numbers).machine


@lru_cache(maxsize=64)
def _packaged(board: str) -> Machine:
    with as_file(_file(board)) as path:
        return read_machine(path, board)


def _file(board: str) -> Traversable:
    name = board.lower().removeprefix("geforce ").replace("-", "_").replace(" ", "_")
    return files(__package__ or "").joinpath(f"{name}.json")
