"""One warp that runs instructions on registers: what the simulator says, the printed text has to say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutalg.codegen.instr import LDG, STG, Instr
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel

LANES = 32

Case = tuple[Instr, list[np.ndarray], list[float]]
"""An instruction, the words of its register operands, and its value operands."""


def probe(cases: Sequence[Case]) -> Kernel:
    """One warp loads the operands of every case, runs it and stores what it may have written."""
    k = KernelBuilder("probe", LANES)
    for n, (instr, registers, values) in enumerate(cases):
        regs = [k.reg(f"r{n}_{i}", x.shape[1]) for i, x in enumerate(registers)]
        places = [k.pointer(f"p{n}_{i}", 4, (x.shape[1], 1), writable=True) for i, x in enumerate(registers)]
        for reg, place in zip(regs, places, strict=True):
            for w in range(reg.shape[0]):
                k.do(LDG[4], reg[w], k.at(place, k.tid, w))
        k.do(instr, *regs, *(k.param(f"value{n}_{i}", 0xFFFFFFFF, 0) for i in range(len(values))))
        for reg, place in zip(regs, places, strict=True):
            for w in range(reg.shape[0]):
                k.do(STG[4], k.at(place, k.tid, w), reg[w])
    return k.build()
