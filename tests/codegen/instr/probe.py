"""One warp that runs instructions on registers: what the simulator says, the printed text has to say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np

from layoutalg.codegen import instr as isa
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import LDG, STG, Instr
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from tests.hostshim import run_cuda_text

LANES = 32
GROUP = SimpleNamespace(lanes=LANES)

ALL: Mapping[str, Instr] = {
    instr.name: instr
    for value in vars(isa).values()
    for instr in (value.values() if isinstance(value, Mapping) else (value,))
    if isinstance(instr, Instr)
}
"""Every instruction that has a name of its own, or is a row of a table."""

ROWS = [(op, x) for op, own in isa.OPERATIONS.items() for x in (*isa.COMPUTED, "bool") if own.text_of(x)]
"""The operations of formulas, each with each type that it takes."""


def trial(op: str, kind: str) -> isa.Formula:
    """An operation of as many operands as it has, the second one for all elements, as registers hold it."""
    own = isa.OPERATIONS[op]
    arity = 1 + sum(f"{{{x}}}" in own.text_of(kind) for x in "bc")
    args: list[isa.Formula] = [
        isa.Input(i, "u32" if kind == "bool" or i < own.of else kind, i == 1) for i in range(arity)
    ]
    if op in ("shl", "shr"):
        args[1] = isa.Apply("and", (args[1], isa.Number(31, kind)))
    tested = range(arity) if kind == "bool" else range(own.of)
    for i in tested:
        args[i] = isa.Apply("lt", (isa.Number(0, "u32"), args[i]))
    made = isa.Apply(op, tuple(args))
    return isa.Apply("to_u32", (made,)) if isa.element_of(made) == "bool" else made


MADE = (
    isa.fma_outer(8, 8), isa.fma_outer(1, 4), isa.fma_outer(2, 2, "f64"), isa.scale(1), isa.scale(8),
    isa.add_scaled(1, "f32"), isa.add_scaled(8, "f16"), isa.add_scaled(2, "bf16"),
    isa.convert(8, "f32", "f16"), isa.scale_and_add(2, "bf16"), isa.convert(2, "f32", "bf16"),
    isa.add_same(4, "f16"), isa.fill(1), isa.fill(3), isa.within(4), isa.window(8, 2),
    isa.fold("sum", 4, 1), isa.fold("max", 2, 2), isa.butterfly("sum", 2), isa.butterfly("max", 1),
    isa.add_exp(4, 1), isa.add_exp(2, 2), isa.rescale(2), isa.apply_softmax(4, 1), isa.reciprocal(2),
    isa.add_square(4, 1), isa.merge_moments(2), isa.deviation(1), isa.apply_norm(4, 4), isa.multiply(4, 1),
    *(f.instr(n, kind) for n, f in enumerate(isa.FUNCTIONS.values(), 1) for kind in f.elements),
    *(isa.elementwise(trial(op, kind), 4) for op, kind in ROWS),
)  # fmt: skip
"""Instructions that are made for a number of elements."""

Case = tuple[Instr, list[np.ndarray], Sequence[float]]
"""An instruction, the words of its register operands, and its other operands: floats, or ints as they are."""


def probe(cases: Sequence[Case]) -> Kernel:
    """One warp loads the operands of every case, runs it and stores what it has written."""
    k, first = KernelBuilder("probe", LANES), 0
    data = k.pointer(
        "data", 4, (sum(sum(map(taken, registers)) for _, registers, _ in cases), 1), writable=True
    )
    for n, (instr, registers, values) in enumerate(cases):
        regs = [k.reg(f"r{n}_{i}", x.shape[1]) for i, x in enumerate(registers)]
        others = [o for o in instr.operands if o.role in OTHERS]
        given = [
            x if o.role == "imm" else k.param(f"value{n}_{i}", 0xFFFFFFFF, 0)
            for i, (o, x) in enumerate(zip(others, values, strict=True))
        ]
        places = {}
        for reg, x in zip(regs, registers, strict=True):
            size = math.gcd(x.shape[1], 4)
            places[reg] = [(reg.slice(w, count=size), first + w) for w in range(0, x.shape[1], size)]
            first += taken(x)
            for part, at in places[reg]:
                k.do(LDG[4 * size], part, k.at(data, k.tid, at))
        k.do(instr, *in_order(instr, regs, given))
        for reg, operand in zip(regs, (o for o in instr.operands if o.role not in OTHERS), strict=True):
            for part, at in places[reg] if operand.role != "in" else ():
                k.do(STG[4 * part.words], k.at(data, k.tid, at), part)
    return k.build()


def taken(register: np.ndarray) -> int:
    """The words of the data that hold a register: whole vectors."""
    return -(-int(register.shape[1]) // 4) * 4


OTHERS = ("value", "imm")
"""The roles of operands that are no registers."""


def in_order(instr: Instr, registers: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Operands of both kinds as the instruction takes them."""
    of_both = iter(registers), iter(values)
    return [next(of_both[o.role in OTHERS]) for o in instr.operands]


def floats(words: np.ndarray) -> np.ndarray:
    """Words as f32."""
    return words.view(np.float32)


def word(x: float) -> np.ndarray:
    """The same number in each lane."""
    return np.full((LANES, 1), x, dtype=np.uint32 if isinstance(x, int) else np.float32).view(np.uint32)


def signature(text: str) -> list[tuple[str, str]]:
    """Type and name of each parameter of a helper."""
    found = re.search(r"void \w+\(([^)]*)\) \{", text)
    assert found, text
    return [(p.rsplit(" ", 1)[0], p.rsplit(" ", 1)[1]) for p in filter(None, found[1].split(", "))]


def packed(elements: np.ndarray) -> np.ndarray:
    """The words of elements (lane, n); what they leave of the last one is no zeros."""
    raw = np.ascontiguousarray(elements).view(np.uint8)
    return np.pad(raw, ((0, 0), (0, -raw.shape[1] % 4)), constant_values=0xAB).view(np.uint32)


def effect(instr: Instr, registers: Sequence[np.ndarray], *values: float) -> tuple[np.ndarray, ...]:
    """What the instruction makes of its registers and other operands, one array per operand it writes."""
    others = [o for o in instr.operands if o.role in OTHERS]
    given = [x if o.role == "imm" else word(x) for o, x in zip(others, values, strict=True)]
    read = in_order(instr, [x.copy() for x in registers], given)
    result = instr.effect(
        None, GROUP, *(x for o, x in zip(instr.operands, read, strict=True) if o.role != "out")
    )
    return result if isinstance(result, tuple) else (result,)


def ran(cases: Sequence[Case]) -> Iterator[tuple[Instr, list[np.ndarray], tuple[Any, ...]]]:
    """The texts on the host, beside the effects: of each case, its registers and the results."""
    every = [x for _, registers, _ in cases for x in registers]
    data = np.concatenate([np.pad(x, ((0, 0), (0, taken(x) - x.shape[1]))) for x in every], axis=1)
    args: list[np.ndarray | int] = [data]
    for instr, _, values in cases:
        others = (o.role for o in instr.operands if o.role in OTHERS)
        args += [int(word(v)[0, 0]) for role, v in zip(others, values, strict=True) if role == "value"]
    run_cuda_text(to_cuda(probe(cases)), "probe", (1,), (LANES,), args)
    got = iter(np.split(data, list(accumulate(map(taken, every)))[:-1], axis=1))
    for instr, registers, values in cases:
        mine = [np.ascontiguousarray(next(got)[:, : x.shape[1]]) for x in registers]
        yield instr, mine, effect(instr, registers, *values)
