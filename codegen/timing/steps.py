"""The steps of a loop: the pipe of each instruction, how long it keeps that busy, and its waits.

The idea.  The compiler has said most of it: control words give the cycles until a warp's next instruction and
the scoreboards that are waited for and released.  What it leaves open is how long variable latencies are and
how often a pipe takes an instruction: facts.  Pipes of a scheduler:

    fma, alu, uniform, xu   arithmetic; the interval is the pipe's
    tensor                  mma.sync
    lsu                     all memory, in order: a wavefront of shared memory is a slot of a multiprocessor,
                            of which a scheduler has every fourth
    branch                  barriers, branches and waits: a slot of issue and nothing else

Notes.  Instructions under a predicate count as executed: a loop in the middle of its run.  What a global load
moves comes from one level for all of them.  `notes` names every number that is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.codegen.gpu import SassInstruction
from layoutalg.codegen.timing.facts import Facts
from layoutalg.errors import UnknownNameError, UnsupportedError

Level: TypeAlias = Literal["L1", "L2", "DRAM"]
LEVELS: tuple[Level, ...] = ("L1", "L2", "DRAM")

SCHEDULERS = 4
"""The schedulers of a multiprocessor, of sm_70 and later."""

WARP_BYTES, WAVEFRONT_BYTES = 32, 128

PIPES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        pipe: frozenset(opcodes.split())
        for pipe, opcodes in {
            "tensor": "HMMA IMMA DMMA BMMA",
            "lsu": "LD LDG LDS LDSM LDL ST STG STS STSM STL LDGSTS",
            "fma": "FFMA FFMA32I FMUL FMUL32I FADD FADD32I IMAD HFMA2 HMUL2 HADD2 DFMA DMUL DADD",
            "alu": "IADD IADD3 IADD32I VIADD LEA LOP LOP3 LOP32I SHF SHL SHR PRMT SEL SGXT IABS IMNMX VIMNMX "
            "BMSK MOV MOV32I LDC CS2R ISETP ICMP PLOP3 PSETP P2R R2P VOTE FMNMX FSEL FSET FSETP HMNMX2 "
            "HSET2 HSETP2 F2FP",
            "xu": "MUFU F2F F2I I2F FRND POPC FLO BREV S2R S2UR SHFL MOVM",
            "branch": "BRA BRX JMP JMX EXIT BSSY BSYNC BREAK WARPSYNC NOP BAR DEPBAR LDGDEPBAR",
        }.items()
    }
)
"""Opcodes by the pipe that takes them; integer ones with a U in front are uniform.  Nothing states
what any other takes: wgmma, TMA, mbarriers, atomics, fences and calls among them."""

_SIZE = re.compile(r"\.(U8|S8|U16|S16|64|128|256)(?=\.|$)")
_BYTES = {"": 4, "64": 8, "128": 16, "256": 32, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
_MATRICES = re.compile(r"\.(2|4)$")
_WAIT = re.compile(r"^DEPBAR\.LE SB(?P<board>\d), 0x(?P<most>[0-9a-f]+)")
_LSU = frozenset({"lds", "sts", "ldsm", "ldg", "stg", "ldgsts", "local"})


@dataclass(frozen=True, slots=True)
class LoopStep:
    """An instruction of a loop, for one scheduler; times in cycles.

    It waits for the scoreboards `waits`, and as the kind "groups" until at most `groups` groups of copies are
    unfinished.  The pipe is busy for `interval`; the result is there `latency` after it was taken, and `busy`
    later where it conflicts.  The warp's next instruction issues `stall` later at the earliest.  `far` says
    that a result comes from global memory, `bytes` how many of them the warp requests.
    """

    text: str
    pipe: str
    interval: float
    stall: int
    latency: float = 0.0
    busy: float = 0.0
    waits: tuple[int, ...] = ()
    write: int | None = None
    read: int | None = None
    kind: Literal["", "barrier", "copy", "commit", "groups"] = ""
    groups: int = 0
    far: bool = False
    bytes: int = 0
    notes: tuple[str, ...] = field(default=(), compare=False)


def loop_steps(
    loop: Iterable[SassInstruction], facts: Facts, *, level: Level = "L2",
    wavefronts: Mapping[str, float] | None = None,
) -> tuple[LoopStep, ...]:  # fmt: skip
    """The steps of a main loop, whose instructions have their control words.

    `wavefronts` of an instruction by the analysis's name of it, such as "ldmatrix.x4": what it takes on
    average; the least possible where none is given.  Global memory is served by `level`.  Raises
    UnsupportedError for an instruction without a control word, UnknownNameError for a level that is none.

    >>> from layoutalg.codegen.gpu import Control
    >>> from layoutalg.codegen.timing.facts import find_facts
    >>> one = SassInstruction(0, "LDSM.16.M88.4 R4, [R2]", control=Control(1, write=2))
    >>> step = loop_steps([one], find_facts("sm_90"))[0]
    >>> step.pipe, step.interval, step.write
    ('lsu', 16.0, 2)
    """
    if level not in LEVELS:
        raise UnknownNameError("level of memory", level, LEVELS)
    return tuple(_step(instruction, facts, level, wavefronts or {}) for instruction in loop)


def _step(sass: SassInstruction, facts: Facts, level: Level, wavefronts: Mapping[str, float]) -> LoopStep:
    control = sass.control
    if control is None:
        raise UnsupportedError(f"{sass.text} has no control word: disassemble with encodings=True")
    notes: list[str] = []

    def known(what: str, other: str) -> float:
        fact = facts.fact(what) or facts.fact(other)
        if fact is None:
            raise UnknownNameError(f"number of {facts.arch}", what, facts.rows)
        if fact.provenance == "assumed":
            notes.append(f"{fact.what} {fact.value:g}")
        return fact.value

    opcode, kind = sass.opcode, sass.kind
    pipe = pipe_of(sass)
    interval = latency = busy = 0.0
    special: Literal["", "barrier", "copy", "commit", "groups"] = ""
    groups = moved = 0
    waits = control.waits
    if match := _WAIT.match(sass.text):
        special, groups = "groups", int(match["most"], 16)
    elif opcode.startswith("BAR.SYNC"):
        special, latency = "barrier", known("latency BAR", "latency other")
    elif opcode == "LDGDEPBAR":
        special = "commit"
    elif kind in _LSU:
        name, least, moved = _access(opcode, kind)
        slots = max(wavefronts.get(name, least), least)
        one_slot = facts.value("wavefront") if kind in ("lds", "sts", "ldsm") else 1.0
        interval, busy = SCHEDULERS * slots * one_slot, (slots - least) * one_slot
        special = "copy" if kind == "ldgsts" else ""
        latency = known(f"latency {_latency_name(opcode, kind, level)}", "latency other")
    elif pipe != "branch":
        interval = known(f"interval {opcode}", f"interval {pipe}")
        if control.write is not None:
            latency = known(f"latency {opcode}", "latency other")
    return LoopStep(
        sass.text, pipe, interval, max(1, control.stall), latency, busy, waits,
        control.write if special != "commit" else None, control.read, special, groups,
        kind in ("ldg", "ldgsts"), moved, tuple(notes),
    )  # fmt: skip


def pipe_of(instruction: SassInstruction) -> str:
    """The pipe that takes an instruction.  Raises UnsupportedError for one that is in none of PIPES.

    >>> [pipe_of(SassInstruction(0, x)) for x in ("HMMA.16816.F32 R4", "IMAD R1", "ULOP3.LUT UR1", "BRA 0x0")]
    ['tensor', 'fma', 'uniform', 'branch']
    """
    base = instruction.opcode.partition(".")[0]
    for pipe, opcodes in PIPES.items():
        if base in opcodes:
            return pipe
    if base == "R2UR" or (
        base.startswith("U") and base[1:] in {*PIPES["alu"], "IMAD", "POPC", "FLO", "BREV"}
    ):
        return "uniform"
    raise UnsupportedError(f"{instruction.opcode} is not timed: nothing states what it takes")


def _access(opcode: str, kind: str) -> tuple[str, int, int]:
    """The analysis's name of an access, its least wavefronts, and the global bytes of a warp."""
    if kind == "ldsm" or opcode.startswith("STSM"):
        match = _MATRICES.search(opcode)
        count, way = int(match[1]) if match else 1, "ldmatrix" if kind == "ldsm" else "stmatrix"
        return f"{way}.x{count}{'.trans' if 'MT88' in opcode else ''}", count, 0
    size = _SIZE.search(opcode)
    nbytes = _BYTES[size[1] if size else ""]
    least = max(1, WARP_BYTES * nbytes // WAVEFRONT_BYTES)
    way = {"lds": "ld.shared", "sts": "st.shared", "ldg": "ld.global", "stg": "st.global"}.get(kind, kind)
    name = f"cp.async.{nbytes}" if kind == "ldgsts" else f"{way}.b{8 * nbytes}"
    return name, least, WARP_BYTES * nbytes if kind in ("ldg", "ldgsts", "stg") else 0


def _latency_name(opcode: str, kind: str, level: Level) -> str:
    if kind in ("ldg", "ldgsts"):
        return f"LDG.{level}"
    if kind == "ldsm":
        match = _MATRICES.search(opcode)
        return f"LDSM.{match[1] if match else 1}"
    if kind == "lds":
        size = _SIZE.search(opcode)
        return f"LDS.{size[1] if size and size[1] in ('64', '128') else '32'}"
    return kind.upper()


def assumptions(steps: Sequence[LoopStep]) -> tuple[str, ...]:
    """Every number of a loop's steps that nothing states, once.

    >>> assumptions([LoopStep("x", "alu", 1.0, 1, notes=("latency BAR 20",))] * 2)
    ('latency BAR 20',)
    """
    return tuple(dict.fromkeys(note for step in steps for note in step.notes))
