"""One warp that runs instructions on registers: what the simulator says, the printed text has to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import LDG, STG, Instr
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from tests.hostshim import run_cuda_text

LANES = 32

Case = tuple[Instr, list[np.ndarray], Sequence[float]]
"""An instruction, the words of its register operands, and its value operands: floats, or ints as they are."""


def probe(cases: Sequence[Case]) -> Kernel:
    """One warp loads the operands of every case, runs it and stores what it may have written."""
    k = KernelBuilder("probe", LANES)
    for n, (instr, registers, values) in enumerate(cases):
        regs = [k.reg(f"r{n}_{i}", x.shape[1]) for i, x in enumerate(registers)]
        places = [k.pointer(f"p{n}_{i}", 4, (x.shape[1], 1), writable=True) for i, x in enumerate(registers)]
        for reg, place in zip(regs, places, strict=True):
            for w in range(reg.shape[0]):
                k.do(LDG[4], reg[w], k.at(place, k.tid, w))
        params = [k.param(f"value{n}_{i}", 0xFFFFFFFF, 0) for i in range(len(values))]
        k.do(instr, *in_order(instr, regs, params))
        for reg, place in zip(regs, places, strict=True):
            for w in range(reg.shape[0]):
                k.do(STG[4], k.at(place, k.tid, w), reg[w])
    return k.build()


def in_order(instr: Instr, registers: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Operands of both kinds as the instruction takes them."""
    of_both = iter(registers), iter(values)
    return [next(of_both[o.role == "value"]) for o in instr.operands]


def floats(words: np.ndarray) -> np.ndarray:
    """Words as f32."""
    return words.view(np.float32)


def word(x: float) -> np.ndarray:
    """The same number in each lane."""
    return np.full((LANES, 1), x, dtype=np.uint32 if isinstance(x, int) else np.float32).view(np.uint32)


def ran(cases: Sequence[Case]) -> Iterator[tuple[Instr, list[np.ndarray], tuple[Any, ...]]]:
    """The texts on the host, beside the effects: of each case, its registers and the results."""
    data = [[x.copy() for x in registers] for _, registers, _ in cases]
    args: list[np.ndarray | int] = []
    for given, (*_, values) in zip(data, cases, strict=True):
        args += [*given, *(int(word(v)[0, 0]) for v in values)]
    run_cuda_text(to_cuda(probe(cases)), "probe", (1,), (LANES,), args)
    for got, (instr, registers, values) in zip(data, cases, strict=True):
        read = in_order(instr, [x.copy() for x in registers], [word(v) for v in values])
        result = instr.effect(None, None, *read[instr.operands[0].role == "out" :])
        yield instr, got, result if isinstance(result, tuple) else (result,)
