"""Operands of wgmma (check_wgmma): their layouts and descriptors; and which wgmma.mma_async there are.

The idea.  A tile (M or N, K) is read by instructions of 64 x K or N x K.  What each of them takes must be a
canonical layout, whatever its spelling; then a descriptor says where it starts and how it goes on, and the
next instruction's differs in the start address alone:

    f16 (128,64) K-major 128B      K = 16 is 32 bytes: + 2 in the low word; 64 rows: + 512

>>> from layoutalg.arch import encode_descriptor
>>> from layoutalg.arch import atom_layout
>>> from layoutalg.algebra import tile_to_shape
>>> tile = tile_to_shape(atom_layout("Layout_K_SW128_Atom", "f16"), (128, 64))
>>> operand = check_wgmma(tile, "f16", "A").require()
>>> print(operand)
A f16 64 x 16, K-major 128B: LBO 16, SBO 1024 bytes; low word + (0, 2, 4, 6) along K, + (0, 512) along M
>>> hex(encode_descriptor(operand.descriptor(1, 3)))
'0x4000004000010206'

Types, shapes and major-nesses are a table of their own, layoutalg.arch.mma_kinds:

>>> print(check_wgmma_instruction("tf32", "tf32", "f32", 64, b_major="MN").violations[0])
wgmma.transpose: B of tf32 is MN-major; accepted are K-major operands; nearest: K

Notes.  A base between two repetitions of the pattern needs a base offset: an H200 reads such operands where
`canonical.element_address` says (MEASURED, tests/data/h200_wgmma_reads.jsonl), but TMA cannot write them.
Shared memory that ordinary stores have written needs fence.proxy.async before wgmma reads it.

Comparison with CUTLASS.  make_gmma_desc accepts the canonical types alone, by static_assert; here any layout
that is the same function is accepted, and what is refused comes with the rule and a layout that is legal.

Sources.  PTX ISA, wgmma.mma_async.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, TypeAlias

from layoutalg.arch import (
    CHUNK_BYTES,
    DEFAULT_ARCH,
    MAX_OFFSET_BYTES,
    WGMMA_M,
    WGMMA_TYPES,
    Arch,
    DescriptorForm,
    Major,
    SmemDescriptor,
    WgmmaType,
    decode_descriptor,
    encode_descriptor,
)
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, check_choice
from layoutalg.layout import AnyLayout, Layout, whole_number
from layoutalg.legality.canonical import MAJORS, Canonical, check_major, operand_shape, recognize, restrict
from layoutalg.legality.rules import Legality, Violation
from layoutalg.legality.wgmma_rules import (
    WGMMA_RULES,
    best_guess,
    broken,
    diagnose,
    nearest_layout,
    no_n,
    no_type,
    require_wgmma,
)
from layoutalg.limits import Most

SharedOperand: TypeAlias = Literal["A", "B"]

PHASE_BYTES = 128
"""The bytes that one step of the base offset is worth."""


@dataclass(frozen=True, slots=True)
class WgmmaOperand:
    """An operand tile in shared memory: `blocks[i][j]` is what instruction i, j (along M or N, K) reads.

    `rows` x `k` elements go into one instruction; `base_bytes` is the tile's address, `base_offset` the phase
    of its swizzle pattern.
    """

    operand: SharedOperand
    element: DType
    rows: int
    k: int
    base_bytes: int
    base_offset: int
    blocks: tuple[tuple[Canonical, ...], ...]
    form: DescriptorForm = "sm_90"

    @property
    def canonical(self) -> Canonical:
        """The first instruction's canonical layout."""
        return self.blocks[0][0]

    def start_bytes(self, mn_step: int = 0, k_step: int = 0) -> int:
        """The address at which an instruction's part starts."""
        return self.base_bytes + self.blocks[mn_step][k_step].start_elems * self.element.bits // 8

    def descriptor(self, mn_step: int = 0, k_step: int = 0) -> SmemDescriptor:
        """The descriptor of instruction `mn_step` along M or N and `k_step` along K."""
        block = self.blocks[mn_step][k_step]
        return SmemDescriptor(
            start_bytes=self.start_bytes(mn_step, k_step),
            lbo_bytes=block.lbo_bytes,
            sbo_bytes=block.sbo_bytes,
            mode=block.mode,
            base_offset=self.base_offset,
            form=self.form,
        )

    def advance(self, axis: Literal["MN", "K"]) -> tuple[int, ...]:
        """The steps that each instruction along an axis adds to the first one's low word."""
        count = len(self.blocks[0]) if axis == "K" else len(self.blocks)
        starts = [self.start_bytes(*((0, i) if axis == "K" else (i, 0))) for i in range(count)]
        return tuple((start - starts[0]) // CHUNK_BYTES for start in starts)

    def __str__(self) -> str:
        side = "M" if self.operand == "A" else "N"
        return (
            f"{self.operand} {self.element} {self.rows} x {self.k}, {self.canonical}; low word + "
            f"{_listed(self.advance('K'))} along K, + {_listed(self.advance('MN'))} along {side}"
        )


def _listed(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))})"


def check_wgmma(
    layout: AnyLayout,
    element: str | DType,
    operand: SharedOperand,
    *,
    major: Major | None = None,
    n: int | None = None,
    base_bytes: int = 0,
    descriptor: int | None = None,
    arch: str | Arch = DEFAULT_ARCH,
) -> Legality[WgmmaOperand]:
    """Is `layout`, (M or N, K) -> offset in elements, a tile that wgmma can read as its operand A or B?

    `major` is "K" or "MN" (None: whichever it is), `n` the N of the instruction, for B (None: the largest
    that divides the tile), `base_bytes` the tile's address in shared memory, `descriptor` the 64 bits with
    which a kernel describes the first instruction's part (None: not compared).  Raises ShapeError for a
    layout without two modes, UnknownNameError for other operands, UnsupportedError for an architecture
    without wgmma.

    Source: PTX ISA, wgmma.mma_async, "Shared Memory Matrix Layout".

    >>> print(check_wgmma(Layout((64, 64), (64, 1)), "bf16", "A").violations[0])
    wgmma.swizzle: the swizzle is none; accepted are Sw<3,3,3>, of mode 128B; \
nearest: Sw<3,3,3> o 0 o (64,64):(64,1)
    """
    element = dtype(element)
    require_wgmma(arch)
    check_choice("operand", operand, ("A", "B"))
    if major is not None:
        check_major(major)
    shape = operand_shape(layout)
    subject = f"wgmma operand {operand}, {element} {layout}"
    kind = WGMMA_TYPES.get(element.name)
    if kind is None:
        return _report(subject, 0, (no_type(element),))
    rows = WGMMA_M if operand == "A" else rows_of(shape[0], n, kind.n_sizes)
    return judge_operand(subject, layout, kind, operand, rows, major, base_bytes, descriptor)


def judge_operand(
    subject: str,
    layout: AnyLayout,
    kind: WgmmaType,
    operand: SharedOperand,
    rows: int,
    major: Major | None,
    base_bytes: int,
    descriptor: int | None,
    form: DescriptorForm = "sm_90",
) -> Legality[WgmmaOperand]:
    """The verdict on an operand of which an instruction takes `rows` along M or N and the kind's K."""
    base, shape = whole_number(base_bytes, "base_bytes"), operand_shape(layout)
    if base < 0:
        raise ShapeError(f"base_bytes {base_bytes!r}; an address of at least 0 is needed")
    violations = _extents(kind, operand, shape, rows, major or best_guess(layout, kind))
    if violations:
        return _report(subject, 1, tuple(violations))
    answer = _blocks(layout, kind, operand, major, rows, shape)
    if isinstance(answer, Violation):
        return _report(subject, 2 if answer.rule.name == "wgmma.transpose" else 3, (answer,))
    base_offset = 0
    if answer[0][0].mode.swizzle.bits:
        base_offset = base % answer[0][0].mode.period_bytes // PHASE_BYTES
    result = WgmmaOperand(operand, dtype(kind.name), rows, kind.k, base, base_offset, answer, form)
    wrong, stage = tuple(_placement(result, layout, kind)), 4
    if not wrong and descriptor is not None:
        wrong, stage = tuple(_described(result, descriptor)), 5
    phase = f"base offset {base_offset}: TMA, which XORs addresses, cannot write this tile"
    report = _report(subject, stage, wrong, None if wrong else result)
    return replace(report, notes=(phase,)) if base_offset else report


_STAGES = (
    ("type",), ("n", "extent"), ("transpose",), ("major", "chunk", "pitch", "swizzle", "atom", "repeat"),
    ("start", "offset"), ("descriptor",),
)  # fmt: skip
"""The rules in the order in which they are checked: a stage only where the one before holds."""


def _report(
    subject: str, stage: int, faults: tuple[Violation, ...], result: WgmmaOperand | None = None
) -> Legality[WgmmaOperand]:
    """A verdict of the stages up to `stage`, the last of which holds as a whole or is broken by `faults`."""
    names = [f"wgmma.{name}" for part in _STAGES[: stage + (not faults)] for name in part]
    names += [violation.rule.name for violation in faults]
    return Legality(subject, faults, (), result, tuple(WGMMA_RULES[name] for name in names))


def nearest_size(value: int, sizes: Sequence[int]) -> int:
    """The size that is closest, the smaller of two.

    >>> nearest_size(40, (32, 48))
    32
    """
    return min(sizes, key=lambda size: (abs(size - value), size))


def rows_of(tile: int, rows: int | None, sizes: tuple[int, ...]) -> int:
    """The requested rows of an instruction; else the most that divide the tile, the fewest where none do.

    >>> rows_of(192, None, (8, 64, 128))
    64
    """
    if rows is not None:
        if whole_number(rows, "n") < 1:
            raise ShapeError(f"n {rows!r}; a positive integer is needed")
        return rows
    return max((size for size in sizes if tile % size == 0), default=sizes[0])


def _extents(
    kind: WgmmaType, operand: SharedOperand, shape: tuple[int, int], rows: int, major: Major
) -> list[Violation]:
    if operand == "B" and rows not in kind.n_sizes:
        nearest = min(kind.n_sizes, key=lambda size: (shape[0] % size != 0, abs(size - rows), size))
        return [no_n(kind, rows, nearest)]
    out = []
    for axis, extent, unit in (("M" if operand == "A" else "N", shape[0], rows), ("K", shape[1], kind.k)):
        if extent % unit:
            shaped = nearest_layout(kind, major if kind.transposable else "K", shape, rows)
            fault = f"the tile has {extent} elements along {axis}"
            out.append(broken("wgmma.extent", fault, f"multiples of {unit}", shaped))
    return out


def _blocks(
    layout: AnyLayout,
    kind: WgmmaType,
    operand: SharedOperand,
    major: Major | None,
    rows: int,
    shape: tuple[int, int],
) -> tuple[tuple[Canonical, ...], ...] | Violation:
    """The blocks that every instruction reads, or why one of them cannot."""
    mn, k = shape
    Most.COUNTED.guard((k // kind.k) * (mn // rows), f"instructions of wgmma that read {layout}")
    box = Layout((rows, kind.k), (1, mn))
    parts = [
        [restrict(layout, i * rows + j * kind.k * mn, box) for j in range(k // kind.k)]
        for i in range(mn // rows)
    ]
    first = parts[0][0]
    seen = (m for m in MAJORS if recognize(first, m, kind.name, kind.modes(m)))
    which = major or next(seen, None) or best_guess(first, kind)
    if which == "MN" and not kind.transposable:
        nearest = nearest_layout(kind, "K", shape, rows)
        fault = f"operand {operand} of {kind.name} is MN-major"
        accepted = f"K-major layouts of {kind.name}"
        rule = WGMMA_RULES["wgmma.transpose"]
        return rule.broken(fault, accepted, str(nearest), major="K", layout=nearest)
    out: list[tuple[Canonical, ...]] = []
    for line in parts:
        read = []
        for part in line:
            canonical = recognize(part, which, kind.name, kind.modes(which))
            if canonical is None:
                return diagnose(part, kind, which, layout, rows)
            read.append(canonical)
        out.append(tuple(read))
    return tuple(out)


def _described(operand: WgmmaOperand, descriptor: int) -> Iterator[Violation]:
    """The fields in which a descriptor departs from the operand's own."""
    right = operand.descriptor()
    value = encode_descriptor(right)
    try:
        decoded = decode_descriptor(descriptor, operand.form)
    except ShapeError as error:
        fault = error.message
    else:
        # Swizzled K-major operands do not use their LBO.
        unused = operand.canonical.major == "K" and right.swizzle_mode.swizzle.bits > 0
        names = ("start_bytes", *(() if unused else ("lbo_bytes",)), "sbo_bytes", "mode", "base_offset")
        wrong = [name for name in names if getattr(decoded, name) != getattr(right, name)]
        if not wrong:
            return
        fault = "the descriptor has " + ", ".join(f"{name} {getattr(decoded, name)}" for name in wrong)
    accepted = f"{operand.canonical}, start {right.start_bytes}, base offset {right.base_offset}"
    yield WGMMA_RULES["wgmma.descriptor"].broken(fault, accepted, f"{value:#018x}", descriptor=value)


def _placement(operand: WgmmaOperand, layout: AnyLayout, kind: WgmmaType) -> Iterator[Violation]:
    """Alignment and range of the base, then of the first instruction whose fields do not fit."""
    mode, base = operand.canonical.mode, operand.base_bytes
    period = mode.period_bytes
    unit = PHASE_BYTES if mode.swizzle.bits else CHUNK_BYTES
    if base % unit:
        aligned = -(-base // period) * period
        phases = f" with a base offset, of {period} without" if mode.swizzle.bits else ""
        fault, accepted = (
            f"the tile of mode {mode} starts at byte {base}",
            f"multiples of {unit} bytes{phases}",
        )
        yield WGMMA_RULES["wgmma.start"].broken(fault, accepted, f"byte {aligned}", base_bytes=aligned)
        return
    nearest = nearest_layout(kind, operand.canonical.major, operand_shape(layout), operand.rows)
    for (i, line), j in product(enumerate(operand.blocks), range(len(operand.blocks[0]))):
        start = operand.start_bytes(i, j)
        if start % CHUNK_BYTES:
            fault = f"instruction ({i},{j}) starts {start - base} bytes into the tile"
            yield broken("wgmma.start", fault, f"multiples of {CHUNK_BYTES} bytes", nearest)
            return
        for name, value in (("LBO", line[j].lbo_bytes), ("SBO", line[j].sbo_bytes), ("start", start)):
            if value % CHUNK_BYTES or not 0 <= value <= MAX_OFFSET_BYTES:
                fault = f"instruction ({i},{j}) has {name} {value} bytes"
                accepted = f"multiples of {CHUNK_BYTES} from 0 to {MAX_OFFSET_BYTES} bytes"
                if name == "start" and start - base <= MAX_OFFSET_BYTES:
                    lower = (MAX_OFFSET_BYTES - (start - base)) // period * period
                    change = f"a base of {lower} bytes"
                    yield WGMMA_RULES["wgmma.offset"].broken(fault, accepted, change, base_bytes=lower)
                else:
                    yield broken("wgmma.offset", fault, accepted, nearest)
                return


@dataclass(frozen=True, slots=True)
class WgmmaInstruction:
    """A wgmma that exists: its shape and its PTX name."""

    n: int
    k: int
    ptx: str

    def __str__(self) -> str:
        return self.ptx


def check_wgmma_instruction(
    a: str | DType,
    b: str | DType,
    accumulator: str | DType,
    n: int,
    *,
    a_major: Major = "K",
    b_major: Major = "K",
    a_source: Literal["shared", "registers"] = "shared",
    arch: str | Arch = DEFAULT_ARCH,
) -> Legality[WgmmaInstruction]:
    """Is there a wgmma m64nNk of these types, major-nesses and sources?

    Raises UnknownNameError for names, ArgumentTypeError for an N that is not an integer, UnsupportedError for
    an architecture without wgmma.

    Source: PTX ISA, wgmma.mma_async.

    >>> print(check_wgmma_instruction("f16", "f16", "f32", 128, b_major="MN").require())
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
    >>> check_wgmma_instruction("s8", "s8", "s32", 40, a_major="MN").broken
    ('wgmma.n', 'wgmma.transpose')
    """
    a, b, accumulator, n = dtype(a), dtype(b), dtype(accumulator), whole_number(n, "N of a wgmma")
    require_wgmma(arch)
    check_major(a_major)
    check_major(b_major)
    check_choice("source of A", a_source, ("shared", "registers"))
    subject = f"wgmma {accumulator} += {a} {b}, N {n}"
    kind = WGMMA_TYPES.get(a.name)
    if kind is None:
        return Legality(subject, (no_type(a, "a"),), rules=(WGMMA_RULES["wgmma.type"],))
    faults: list[Violation] = []

    def broken(rule: str, fault: str, accepted: Sequence[object], **fix: object) -> None:
        faults.append(WGMMA_RULES[f"wgmma.{rule}"].mended(fault, accepted, **fix))

    if b.name not in kind.b_types:
        broken("type", f"A of {a} and B of {b}", kind.b_types, b=kind.b_types[0])
    if accumulator.name not in kind.accumulators:
        sums = kind.accumulators
        broken("accumulator", f"sums of {accumulator} for {a}", sums, accumulator=sums[0])
    if n not in kind.n_sizes:
        faults.append(no_n(kind, n, nearest_size(n, kind.n_sizes)))
    if a_source == "registers" and a_major == "MN":
        broken("source", "A is MN-major in registers", ["K-major registers"], a_major="K")
    for name, major in (("a_major", a_major), ("b_major", b_major)):
        if major == "MN" and not kind.transposable:
            fault = f"{name[0].upper()} of {a if name == 'a_major' else b} is MN-major"
            broken("transpose", fault, ["K-major operands"], **{name: "K"})
    ptx = f"wgmma.mma_async.sync.aligned.m{WGMMA_M}n{n}k{kind.k}.{accumulator}.{a}.{b}"
    if a.name == "b1":
        ptx += ".and.popc"
    result = None if faults else WgmmaInstruction(n, kind.k, ptx)
    names = ("type", "accumulator", "n", "source", "transpose")
    return Legality(subject, tuple(faults), (), result, tuple(WGMMA_RULES[f"wgmma.{name}"] for name in names))
