"""Machines: the rates of a multiprocessor per cycle, resource by resource, with the source of each number.

The idea.  A prediction divides counts by rates.  Counts are exact; a rate is measured here, published by
somebody else, only documented, or assumed, and a prediction is worth as much as its worst rate.  So each rate
has its provenance beside it, and what has none of the first two says so.

    H200    sm_90    registers alone counted by `python -m tests.gpu.peak`
    T4      sm_75    rates of microbenchmarks, as the author of the published kernels gives them (T4_ACHIEVED)

    >>> find_machine("sm_75").notes[0]
    'tensor: 777 flops per cycle, published (1,022 documented)'

Notes.  Bytes and operations per second become those per cycle and multiprocessor by the clock that the peaks
of the data sheet are stated at.  A T4 of 70 W does not hold that clock under load; rates per second, and so
shares, are right anyway, cycles are of the clock that is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.arch import T4_ACHIEVED, Arch, board_rates, find_arch, find_board
from layoutalg.errors import UnsupportedError

ARCH, TARGET = "sm_90", "sm_90a"
"""The default architecture of predictions, and its compilation target."""

FLOPS_PER_CYCLE: Mapping[str, float] = MappingProxyType({"f16.k16": 2699.0, "f16.k8": 2010.0, "ffma": 252.0})
"""Floating-point operations per cycle and multiprocessor on registers alone, on an H200: six cycles of a
partition for an mma of k = 16, four for an mma of k = 8.  Counted by `python -m tests.gpu.peak`."""

WGMMA_PER_CYCLE = 4096.0
"""Dense operations of f16 and bf16 of a multiprocessor.  Source: NVIDIA H100 Tensor Core GPU Architecture."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The rates of a board's multiprocessor per cycle of `clock_hz`.

    `flops` by the name of the instruction: the operand and k of an mma, or "ffma"; `wavefront_cycles` of a
    wavefront of shared memory; bytes of the `l2` and of `dram`.  `notes` state the source of each.

    >>> find_machine("sm_75").target, find_machine("sm_75").sms
    ('sm_75', 40)
    """

    name: str
    arch: str
    target: str
    sms: int
    flops: Mapping[str, float]
    wavefront_cycles: float
    l2: float
    dram: float
    notes: tuple[str, ...]

    def flops_of(self, name: str) -> float:
        """The rate of a kind of multiplication.  Raises UnsupportedError for one that is not known.

        >>> find_machine("sm_90").flops_of("f16.k16")
        2699.0
        """
        if name not in self.flops:
            known = ", ".join(self.flops)
            raise UnsupportedError(f"no rate of {name} is known on a {self.name}: there are {known}")
        return self.flops[name]


def _h200() -> Machine:
    chip, board = find_arch("sm_90"), find_board("sm_90")
    clock = board.f32_flops_per_s / (board.sms * 2 * chip.lanes * chip.sm_partitions)
    dram = board.dram_bytes_per_s / board.sms / clock
    return Machine(
        "H200", "sm_90", "sm_90a", board.sms, {**FLOPS_PER_CYCLE, "wgmma": WGMMA_PER_CYCLE}, 1.0, 64.0,
        dram,
        (
            "tensor and fma: measured on registers alone",
            f"wgmma: {WGMMA_PER_CYCLE:,.0f} flops per cycle, documented",
            "L1: a wavefront per cycle, measured",
            "L2: 64 bytes per cycle, assumed",
            f"DRAM: {dram:.1f} bytes per cycle, documented",
            "issue: 4 instructions per cycle, documented",
        ),
    )  # fmt: skip


_T4_BOOST_HZ = 1.59e9
"""The clock of a T4's stated peaks: 65 TFLOP/s are 40 x 1.59 GHz x 1022.  NVIDIA T4 data sheet."""


def _t4() -> Machine:
    chip, board = find_arch("sm_75"), find_board("sm_75")
    cycles, stated = board.sms * _T4_BOOST_HZ, board_rates(board)
    units, levels, peak, sheet = (
        {name: rate / cycles for name, rate in rates.items()}
        for rates in (T4_ACHIEVED.units, T4_ACHIEVED.levels, stated.units, stated.levels)
    )
    return Machine(
        "T4", "sm_75", "sm_75", board.sms, {"f16.k8": units["tensor"], "ffma": units["f32"]},
        chip.line_bytes / levels["shared"], levels["l2"], levels["dram"],
        (
            f"tensor: {units['tensor']:,.0f} flops per cycle, published ({peak['tensor']:,.0f} documented)",
            f"fma: {units['f32']:,.0f}, published ({peak['f32']:,.0f} documented)",
            f"L1: {levels['shared']:.1f} bytes per cycle, published",
            f"L2: {levels['l2']:.1f} bytes per cycle, published",
            f"DRAM: {levels['dram']:.2f} bytes per cycle, published ({sheet['dram']:.2f} documented)",
            "issue: 4 instructions per cycle, clock 1.59 GHz: documented only",
            "wavefronts: the rules that were counted on sm_90, assumed here",
        ),
    )  # fmt: skip


MACHINES: Mapping[str, Machine] = MappingProxyType({"sm_90": _h200(), "sm_75": _t4()})
"""The machines by architecture."""


def find_machine(arch: str | Arch) -> Machine:
    """The machine of an architecture or of a board.  Raises UnsupportedError for one whose rates are not
    known, and as `find_board` does.

    >>> find_machine("T4").name
    'T4'
    """
    name = find_arch(arch).name
    if name not in MACHINES:
        known = " and ".join(MACHINES)
        raise UnsupportedError(f"rates of {name} were neither measured nor published: {known} are predicted")
    if (board := find_board(arch)) != find_board(name):
        usual = find_board(name).name
        raise UnsupportedError(
            f"rates of {board.name} were neither measured nor published: name {name} for those of {usual}"
        )
    return MACHINES[name]
