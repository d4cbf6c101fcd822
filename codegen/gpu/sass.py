"""The machine code of a kernel: SASS disassembled, parsed, and counted by class, main loop apart.

The idea.  A disassembler prints one instruction per line; its opcode says what it occupies:

    /*21c0*/   HMMA.16816.F32 R4, R8, R2, R4 ;     tensor
    /*21d0*/   @P0 LDGSTS.E.BYPASS.128 [R7], ... ; ldgsts
    /*2190*/   @!P2 BRA `(.L_x_3) ;                control, back to .L_x_3: a loop

The main loop is the stretch from the target of a backward branch to that branch which holds the most tensor
instructions, or multiply-adds where there are none.

>>> code = parse_sass('''
...     .text.k:
...             /*0000*/   S2R R0, SR_TID.X ;
...     .L_x_0:
...             /*0010*/   FFMA R1, R2, R3, R1 ;
...             /*0020*/   IADD3 R4, R4, 0x1, RZ ;
...             /*0030*/   @P0 BRA `(.L_x_0) ;
...             /*0040*/   EXIT ;
... ''')[0]
>>> dict(count_classes(code.instructions)), dict(count_classes(main_loop(code)))
({'fma': 1, 'integer': 1, 'move': 1, 'control': 2}, {'fma': 1, 'integer': 1, 'control': 1})

Notes.  Padding is not counted: NOP, what is under @!PT, the branch to itself at the end.  IMAD.MOV is a
move, and so is HFMA2 of zeros, which makes a constant.  Uniform instructions (UIADD3, ULOP3) count
like their vector forms.  Counts are static: an instruction under a predicate that fails counts like any.
A loop that a compiler has unrolled is counted as it is.

With its encodings, an instruction shows the compiler's hints to the scheduler (`Control`): how many cycles
pass before the warp's next one, and which of six scoreboards it waits for or will release.

Source: CUDA Binary Utilities, instruction set references; Jia, Maggioni, Staiger, Scarpazza, Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking, 2018, 2.1 (control information).
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from layoutalg.codegen.expr import Const
from layoutalg.codegen.gpu.nvrtc import Cubin
from layoutalg.codegen.program import For, Kernel, walk
from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.tools import run_tool, scratch

CLASSES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        name: frozenset(opcodes.split())
        for name, opcodes in {
            "tensor": "HMMA IMMA DMMA BMMA QMMA HGMMA IGMMA QGMMA BGMMA",
            "fma": "FFMA FFMA2 FFMA32I HFMA2 DFMA",
            "float": "FADD FADD32I FMUL FMUL32I FMNMX FSEL FSET FSETP FCHK HADD2 HMUL2 HMNMX2 HSET2 HSETP2 "
            "DADD DMUL DSETP MUFU F2F F2FP F2I F2IP I2F I2FP I2IP FRND",
            "ldsm": "LDSM",
            "lds": "LDS",
            "sts": "STS STSM ATOMS",
            "ldg": "LD LDG",
            "stg": "ST STG RED ATOM ATOMG",
            "ldgsts": "LDGSTS UBLKCP UTMALDG UTMASTG",
            "local": "LDL STL",
            "integer": "IMAD IADD IADD3 IADD32I VIADD IDP IMUL ISCADD LEA LOP LOP3 LOP32I SHF SHL SHR PRMT "
            "SEL SGXT IABS VABSDIFF VABSDIFF4 IMNMX IMNMX3 VIMNMX VIADDMNMX BMSK BREV FLO POPC XMAD",
            "move": "MOV MOV32I CS2R S2R S2UR R2UR LDC SHFL MOVM REDUX R2B B2R",
            "predicate": "ISETP ICMP PLOP3 PSETP P2R R2P VOTE ELECT",
            "control": "BRA BRX JMP JMX EXIT CALL RET BSSY BSYNC BREAK WARPSYNC YIELD NANOSLEEP KILL BPT",
            "barrier": "BAR DEPBAR LDGDEPBAR SYNCS MEMBAR ERRBAR CCTL FENCE WARPGROUP ARRIVES UCGABAR",
        }.items()
    }
)
"""Opcodes, without suffix and without the U of uniform forms, by class; what is in none is "other"."""

INSTRUCTION_BYTES = 16

OTHER = "other"

_CLASS_OF = {opcode: name for name, opcodes in CLASSES.items() for opcode in opcodes}
_LINE = re.compile(r"/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*?)\s*;")
_FUNCTION = re.compile(r"^\s*(?:\.text\.(?P<section>[\w$.]+):|Function : (?P<name>[\w$.]+))\s*$")
_LABEL = re.compile(r"^\s*(\.L_\w+):\s*$")
_GUARD = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"\bBRA\b.*?(?:`\((?P<label>\.L_\w+)\)|\b0x(?P<address>[0-9a-f]+))")
_CONSTANT = re.compile(r"^HFMA2(\.MMA)? R\d+, -?RZ, RZ,")
_ENCODING = re.compile(r"/\*\s*0x(?P<word>[0-9a-f]{16})\s*\*/")
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Control:
    """The hints of an instruction of sm_70 and later to the scheduler of its warp.

    The next instruction issues `stall` cycles later at the earliest.  This one waits until the scoreboards
    in `waits` are released; it releases `write` when its result is there, and `read` when it has read its
    operands (None: neither).

    >>> Control.of(0x044FEA0000001804)
    Control(stall=5, waits=(2,), write=None, read=None)
    """

    stall: int
    waits: tuple[int, ...] = ()
    write: int | None = None
    read: int | None = None

    @classmethod
    def of(cls, high: int) -> Control:
        """From the upper 64 bits of an instruction's 128: bits 105 to 125 of all."""
        word = high >> 41
        write, read, mask = word >> 5 & 7, word >> 8 & 7, word >> 11 & 63
        return cls(
            word & 15, tuple(i for i in range(6) if mask >> i & 1), None if write == 7 else write,
            None if read == 7 else read,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """An instruction: its byte address in the function, and its text without guard and semicolon; `control`
    where its encoding was read.

    >>> SassInstruction(16, "IMAD.MOV.U32 R1, RZ, RZ, R2", "@P0").kind
    'move'
    """

    address: int
    text: str
    guard: str = ""
    control: Control | None = None

    @property
    def opcode(self) -> str:
        """The opcode with its suffixes."""
        return self.text.partition(" ")[0]

    @property
    def kind(self) -> str:
        """Its class: a key of CLASSES, or "other"."""
        return "move" if _CONSTANT.search(self.text) else classify(self.opcode)


@dataclass(frozen=True, slots=True)
class SassFunction:
    """The instructions of a function, the index of each label, and the padding left out."""

    name: str
    instructions: tuple[SassInstruction, ...]
    labels: Mapping[str, int]
    padding: tuple[SassInstruction, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of its code, of sm_70 and later."""
        return INSTRUCTION_BYTES * (len(self.instructions) + len(self.padding))


def classify(opcode: str) -> str:
    """The class of an opcode.

    >>> [classify(x) for x in ("LDGSTS.E.BYPASS.128", "UIADD3", "IMAD.MOV.U32", "IMAD.SHL", "ULDC.64", "TEX")]
    ['ldgsts', 'integer', 'move', 'integer', 'move', 'other']
    """
    base = opcode.partition(".")[0]
    if opcode.startswith(("IMAD.MOV", "UIMAD.MOV")):
        return "move"
    return _CLASS_OF.get(base) or _CLASS_OF.get(base.removeprefix("U"), OTHER)


def parse_sass(text: str) -> tuple[SassFunction, ...]:
    """The functions of what nvdisasm -c or cuobjdump -sass prints, in its order.

    >>> parse_sass("no code") == ()
    True
    """
    bodies: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            bodies.append((match["section"] or match["name"], []))
        elif bodies:
            bodies[-1][1].append(line)
    return tuple(_function(name, lines) for name, lines in bodies)


def _function(name: str, lines: Iterable[str]) -> SassFunction:
    instructions: list[SassInstruction] = []
    padding: list[SassInstruction] = []
    labels: dict[str, int] = {}
    last = padding
    for line in lines:
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif match := _LINE.search(line):
            guard = _GUARD.match(match["text"])
            text = match["text"][guard.end() if guard else 0 :]
            under = guard[0].strip() if guard else ""
            instruction = SassInstruction(int(match["address"], 16), text, under)
            idle = _is_padding(instruction, len(instructions), labels)
            last = padding if idle else instructions
            last.append(instruction)
        elif last and (high := _ENCODING.search(line)):
            last[-1] = replace(last[-1], control=Control.of(int(high["word"], 16)))
    return SassFunction(name, tuple(instructions), MappingProxyType(labels), tuple(padding))


def _is_padding(instruction: SassInstruction, index: int, labels: Mapping[str, int]) -> bool:
    if instruction.opcode == "NOP" or instruction.guard == "@!PT":
        return True
    target = _TARGET.search(instruction.text)
    if target is None:
        return False
    if target["label"]:
        return labels.get(target["label"]) == index and not instruction.guard
    return int(target["address"], 16) == instruction.address


def count_classes(instructions: Iterable[SassInstruction]) -> Mapping[str, int]:
    """The number of instructions of each class, in the order of CLASSES; classes without are left out.

    >>> dict(count_classes([SassInstruction(0, "FFMA R0, R1, R2, R0"), SassInstruction(16, "EXIT")]))
    {'fma': 1, 'control': 1}
    """
    counts = Counter(i.kind for i in instructions)
    return MappingProxyType({name: counts[name] for name in (*CLASSES, OTHER) if counts[name]})


def find_loops(function: SassFunction) -> tuple[tuple[int, int], ...]:
    """The numbers of the first and the last instruction of each loop, a loop before those in it.

    >>> branch = SassInstruction(16, "BRA 0x0", "@P0")
    >>> find_loops(SassFunction("k", (SassInstruction(0, "FADD R0, R0, R1"), branch), {}))
    ((0, 1),)
    """
    starts, loops = {i.address: n for n, i in enumerate(function.instructions)}, []
    for end, branch in enumerate(function.instructions):
        target = _TARGET.search(branch.text)
        if target is None:
            continue
        label, address = target["label"], target["address"]
        start = function.labels.get(label) if label else starts.get(int(address, 16))
        if start is not None and start <= end:
            loops.append((start, end))
    return tuple(sorted(loops, key=lambda loop: (loop[0], -loop[1])))


def main_loop(function: SassFunction, turns: Sequence[int | None] = ()) -> tuple[SassInstruction, ...]:
    """The instructions of a turn of the loop with the most tensor instructions or else multiply-adds; ()
    where no loop has any.

    Of several with as many, the shortest: the innermost.  `turns` are those of the program's loops, in its
    order, None where a launch decides.  If the machine code has as many loops, a main loop of so many turns
    is a part of the loop around it, and what a turn of that executes is repeated as often as its loops turn.

    >>> main_loop(SassFunction("k", (SassInstruction(0, "EXIT"),), {}))
    ()
    """
    code, loops = function.instructions, find_loops(function)

    def rank(loop: tuple[int, int]) -> tuple[int, int, int]:
        counts = count_classes(code[loop[0] : loop[1] + 1])
        return counts.get("tensor", 0), counts.get("fma", 0), loop[0] - loop[1]

    best = max(loops, key=rank, default=None)
    if best is None or not any(rank(best)[:2]):
        return ()
    stated = dict(zip(loops, turns, strict=True)) if len(turns) == len(loops) else {}
    around = [(first, last) for first, last in loops if first < best[0] and best[1] < last]
    while stated.get(best) and around:
        best = around.pop()

    def executed(first: int, last: int) -> Iterator[SassInstruction]:
        at = first
        for loop in loops:
            if first <= at <= loop[0] and loop[1] <= last and loop != (first, last):
                yield from code[at : loop[0]]
                yield from tuple(executed(*loop)) * (stated.get(loop) or 1)
                at = loop[1] + 1
        yield from code[at : last + 1]

    return tuple(executed(*best))


def read_code(
    kernel: Kernel, cubin: Cubin, *, encodings: bool = False
) -> tuple[SassFunction, tuple[SassInstruction, ...]]:
    """The machine code of a kernel, and the instructions of a turn of its main loop.

    Raises as `disassemble` does.
    """
    functions = parse_sass(disassemble(cubin.image, encodings=encodings))
    (function,) = (f for f in functions if f.name == cubin.name)
    counts = [loop.count for loop in walk(kernel.body) if isinstance(loop, For)]
    return function, main_loop(function, [n.value if isinstance(n, Const) else None for n in counts])


_WIDTHS = {".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, ".64": 8, ".128": 16}
_PLACE = re.compile(r"\[[^\]]*?(?:\+0x([0-9a-f]+))?\]")


MOST_CONDITIONS = 1 << 8
"""More conditions than any load of a program is behind."""


def shared_accesses(function: SassFunction) -> Mapping[tuple[str, int, int], int]:
    """The loads ("ld") and stores ("st") of shared memory by their bytes and the constant of their address:
    the most conditions of lanes that one is behind, MOST_CONDITIONS where the next store is behind no more.

    A condition is a predicate, a branch or an exit that the last store to shared memory is not behind.  A
    compiler makes one of several, so that their number says less of a load than the store does.

    >>> shared_accesses(SassFunction("f", (SassInstruction(0, "LDS.64 R2, [R4+0x80]", "@P0"),), {}))
    {('ld', 8, 128): 1}
    """
    found, loads = dict[tuple[str, int, int], int](), list[tuple[tuple[str, int, int], int]]()
    ends, behind, stored = {n: name for name, n in function.labels.items()}, set[str](), frozenset[str]()
    for n, instruction in enumerate(function.instructions):
        behind.discard(ends.get(n, ""))
        opcode, guard = instruction.opcode, instruction.guard
        base, target = opcode.partition(".")[0], _TARGET.search(instruction.text)
        depth = bool(guard) + len(behind - stored)
        if guard and base == "EXIT":
            behind.add(f"exit {n}")
        elif guard and target and target["label"]:
            behind.add(target["label"])
        elif base in ("LDS", "STS") and (place := _PLACE.search(instruction.text)):
            key = base[:2].lower(), _WIDTHS.get(opcode.removeprefix(base), 4), int(place[1] or "0", 16)
            found[key] = max(found.get(key, 0), depth)
            loads.append((key, depth))
            if base == "STS" and not guard:
                stored = frozenset(behind)
        if base in ("STG", "STS"):
            found.update((key, MOST_CONDITIONS) for key, its in loads if key[0] == "ld" and its >= depth > 0)
            loads.clear()
    return found


def disassemble(image: bytes, *, encodings: bool = False, lines: bool = False) -> str:
    """The SASS of a CUBIN, as nvdisasm or cuobjdump prints it; with `encodings` the words of each
    instruction, which cuobjdump prints always, with `lines` those of the source, which only nvdisasm does.

    Raises UnsupportedError when neither is installed, CompileError when it refuses the image.

    >>> from layoutalg.codegen.gpu import compile_cubin
    >>> cubin = compile_cubin('extern "C" __global__ void nothing() {}', "nothing", "sm_80")
    >>> [f.name for f in parse_sass(disassemble(cubin.image))]
    ['nothing']
    """
    tool, option = find_disassembler()
    if lines and option != "-c":
        raise UnsupportedError("lines of machine code need nvdisasm: pip install 'layoutalg[sass]' brings it")
    more = {"-hex": encodings, "-gi": lines} if option == "-c" else {}
    return _disassembled(tool, (option, *(word for word, wanted in more.items() if wanted)), image)


@lru_cache(maxsize=4)
def _disassembled(tool: str, words: tuple[str, ...], image: bytes) -> str:
    """The output of a tool for an image; the last few are kept, to be counted and to be timed."""
    with scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(image)
        try:
            run = run_tool([tool, *words, str(path)], timeout_s=_TIMEOUT_S)
        except TimeoutError as error:
            raise CompileError(f"{tool} refused the image: {error}") from None
    if run.status != 0:
        first = run.said.partition("\n")[0]
        raise CompileError(f"{Path(tool).name} refused the image: {first}", log=run.said)
    return run.out.decode(errors="replace")


def find_disassembler() -> tuple[str, str]:
    """The program that disassembles a CUBIN and the option it takes: nvdisasm, else cuobjdump.

    The wheel nvidia-cuda-nvdisasm is looked at first, then PATH.  Raises UnsupportedError.

    >>> find_disassembler()[1] in ("-c", "-sass")
    True
    """
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*/bin/nvdisasm*"), reverse=True):
            return str(path), "-c"
    for name, option in (("nvdisasm", "-c"), ("cuobjdump", "-sass")):
        tool = shutil.which(name)
        if tool is not None:
            return tool, option
    raise UnsupportedError(
        "reading machine code needs nvdisasm or cuobjdump, and neither is installed: "
        "pip install 'layoutalg[sass]' brings the first"
    )
