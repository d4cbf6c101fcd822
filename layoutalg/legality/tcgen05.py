"""tcgen05 of sm_100: which products there are, what they read from shared memory, what loads reach.

The idea.  Three questions, each with its rules and the nearest request that keeps them.  A product is types,
M and N, CTAs and scales; the answer has its instruction descriptor and the place of D:

>>> print(check_tcgen05("f16", "f16", "f32", 128, 256).require())
tcgen05.mma.cta_group::1.kind::f16 of 128 x 256 x 16; instruction descriptor 0x08400010; D by data path D: \
(128,256):(1,128), 256 columns
>>> print(check_tcgen05("e2m1", "e2m1", "f32", 64, 256, scale="ue4m3,16").violations[0])
tcgen05.m: M is 64 for mxf4nvf4 and 1 CTA; accepted are 128; nearest: 128

An operand in shared memory is judged as one of wgmma (layoutalg.legality.wgmma), with the M and N of tcgen05,
its major-nesses and its descriptor:

>>> from layoutalg.layout import Layout
>>> print(check_tcgen05_operand(Layout((128, 64), (64, 1)), "bf16", "A").violations[0].change)
Sw<3,3,3> o 0 o (128,64):(64,1)

A load or store moves whole lanes of the warp's quarter of tensor memory:

>>> print(check_tcgen05_access("tcgen05.ld.16x256b.x2", warp=1, lane=48, column=8).require())
tcgen05.ld.16x256b.x2 of warp 1: lanes 48 to 63, columns 8 to 23, 8 registers
>>> check_tcgen05_access("tcgen05.ld.32x32b.x4", warp=1, lane=0).violations[0].fix
(('lane', 32),)

Notes.  None of it is measured, and all but the lanes at which a load starts is documented.  Narrow types of
kinds f8f6f4 and mxf8f6f4 take a byte each in shared memory.  Loads of shape 16x32bx2 and .pack::16b, and
K-major operands in mode 128B_ATOM_32B, are not described here and are refused as such.

Source: PTX ISA 9.0, 9.7.16.2.1 (table 39), 9.7.16.4.2 (instruction descriptor), 9.7.16.8 (loads and stores),
9.7.16.10.1 and 9.7.16.10.3 (transposition, swizzles).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from layoutalg.arch import (
    INSTRUCTION_FIELDS,
    TCGEN05_ARCH,
    TCGEN05_KINDS,
    TMEM_COLUMNS,
    TMEM_LANES,
    Arch,
    Major,
    Tcgen05Kind,
    WgmmaType,
    find_arch,
    find_swizzle_mode,
    instruction_descriptor,
    tmem_accumulator,
    tmem_columns,
)
from layoutalg.atoms import MOST_REGISTERS, TMEM_SHAPES
from layoutalg.compose import find_normal_form
from layoutalg.dtype import DType, dtype
from layoutalg.errors import (
    AlignmentError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    check_choice,
    check_type,
)
from layoutalg.layout import AnyLayout, Layout, size, whole_number
from layoutalg.legality.canonical import check_major, operand_shape
from layoutalg.legality.rules import Legality, Rule, Violation
from layoutalg.legality.wgmma import SharedOperand, WgmmaOperand, judge_operand, nearest_size, rows_of
from layoutalg.legality.wgmma_rules import best_guess
from layoutalg.limits import Most

_TABLE_39 = "PTX ISA 9.0, 9.7.16.2.1, table 39"
_PTXAS = "PTX ISA 9.0, tcgen05.mma, target notes; what ptxas 13.0 assembles"
_TRANSPOSE = "PTX ISA 9.0, 9.7.16.10.1, tables 51 and 52"
_MEMORY = "PTX ISA 9.0, 9.7.16.1, Tensor Memory"
_IDESC = "PTX ISA 9.0, 9.7.16.4.2, Instruction Descriptor"
_ACCESS = "PTX ISA 9.0, 9.7.16.8, tcgen05.ld and tcgen05.st"
_STARTS = f"{_ACCESS}; that shapes of 16 lanes start at 0 or 16 of the 32 is CuTe's"
_SHARED = "PTX ISA 9.0, 9.7.16.5, tcgen05, Shared Memory Layout and Swizzling"

_RULES = (
    Rule("tcgen05.type", "the operand types are those of a kind", _TABLE_39, UnsupportedError),
    Rule("tcgen05.kind", "the kind exists on the architecture: i8 on sm_100 alone", _PTXAS, UnsupportedError),
    Rule("tcgen05.accumulator", "the kind adds up in the accumulator's type", _TABLE_39, UnsupportedError),
    Rule("tcgen05.scale", "the kind has factors of this type and block", _TABLE_39, UnsupportedError),
    Rule("tcgen05.ws", ".ws is of one CTA, without scale factors", _TABLE_39, UnsupportedError),
    Rule("tcgen05.m", "M is one of the kind and the number of CTAs", _TABLE_39),
    Rule("tcgen05.n", "N is one of the kind, the number of CTAs and the major-ness of B", _TABLE_39),
    Rule("tcgen05.transpose", "packed 4-bit operands are K-major", _TRANSPOSE, UnsupportedError),
    Rule("tcgen05.source", "A in tensor memory is K-major", _TRANSPOSE, UnsupportedError),
    Rule("tcgen05.columns", "what is read or written lies in the 512 columns", _MEMORY),
    Rule("tcgen05.instruction", "the descriptor is that of the types and the shape", _IDESC),
    Rule("tcgen05.num", "repetitions are a power of two, of at most 128 registers per thread", _ACCESS),
    Rule("tcgen05.lanes", "warp w of a warpgroup reaches whole shapes of lanes 32 w to 32 w + 31", _STARTS,
         AlignmentError, "assumed"),
)  # fmt: skip

TCGEN05_RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})
"""Every rule of products and of loads and stores by name; those of operands are wgmma's."""


@dataclass(frozen=True, slots=True)
class Tcgen05Instruction:
    """A product that exists: its PTX name, shape and instruction descriptor, and where D lies.

    `accumulator` maps (row, column) of one CTA to lane + 128 column, by the data path `path`.
    """

    ptx: str
    shape: tuple[int, int, int]
    descriptor: int
    path: str
    accumulator: Layout

    def __str__(self) -> str:
        return (
            f"{self.ptx} of {' x '.join(map(str, self.shape))}; instruction descriptor "
            f"{self.descriptor:#010x}; D by data path {self.path}: {self.accumulator}, "
            f"{tmem_columns(self.accumulator)} columns"
        )


def require_tcgen05(arch: str | Arch) -> None:
    """Raise UnsupportedError for an architecture without tcgen05.

    >>> require_tcgen05("sm_103")
    """
    machine = find_arch(arch)
    if machine.compute_capability[0] != 10:
        has = "mma.sync of narrow types (SM120_16x8x32_TN)" if machine.name == "sm_120" else ""
        raise UnsupportedError(f"{machine.name} has no tcgen05{f', but {has}' if has else ''}; sm_100a has")


def check_tcgen05(
    a: str | DType,
    b: str | DType,
    accumulator: str | DType,
    m: int,
    n: int,
    *,
    kind: str | None = None,
    scale: str | None = None,
    ctas: int = 1,
    ws: bool = False,
    a_major: Major = "K",
    b_major: Major = "K",
    a_source: str = "shared",
    column: int = 0,
    descriptor: int | None = None,
    arch: str | Arch = TCGEN05_ARCH,
) -> Legality[Tcgen05Instruction]:
    """Is there a tcgen05.mma of these types, of M x N, by `ctas` CTAs?

    `scale` are the factors of blocks, "ue8m0,32": their type and the elements along K of one; `kind` is the
    .kind, found from the types where it is None.  `ws` is the weight-stationary form, `a_source` "shared" or
    "tensor", `column` the first column of D, `descriptor` the 32 bits with which a kernel asks for it.
    Raises UnknownNameError for names, ArgumentTypeError for what is not a number, ShapeError for another text
    of scales, UnsupportedError for an architecture without tcgen05.

    >>> check_tcgen05("s8", "s8", "s32", 128, 40, b_major="MN").broken
    ('tcgen05.n',)
    """
    types = dtype(a), dtype(b), dtype(accumulator)
    m, n, column = whole_number(m, "M"), whole_number(n, "N"), whole_number(column, "column")
    require_tcgen05(arch)
    check_major(a_major)
    check_major(b_major)
    check_choice("source of A", a_source, ("shared", "tensor"))
    names, block, by = (types[0].name, types[1].name, types[2].name), _block(scale), _ctas(ctas)
    subject = f"tcgen05.mma {types[2]} += {types[0]} {types[1]}, {m} x {n}, {by}"
    found = _kind_of(names, kind, block)
    if isinstance(found, Violation):
        return Legality(subject, (found,), rules=(found.rule,))
    faults = _missing(found, arch)
    if not found.multiplies(*names):
        sums = [d for d in found.accumulators if found.multiplies(*names[:2], d)]
        faults.append(
            _broken("accumulator", f"sums of {names[2]} for {found.name}", sums, accumulator=sums[0])
        )
    rows, columns = found.rows(ctas, ws=ws), found.columns(ctas, ws=ws, b_major=b_major)
    if not rows:
        faults.append(_broken("ws", f".ws of {found.name} and {by}", ["no .ws"], ws=False))
    elif m not in rows:
        faults.append(_broken("m", f"M is {m} for {found.name} and {by}", rows, m=nearest_size(m, rows)))
    if n not in columns:
        fault = f"N is {n} for {found.name}{', B N-major' if b_major == 'MN' else ''}"
        faults.append(_broken("n", fault, columns, n=nearest_size(n, columns)))
    for name, major, where in (("a_major", a_major, a_source), ("b_major", b_major, "shared")):
        if major == "MN" and (not found.transposable or where == "tensor"):
            rule = "source" if found.transposable else "transpose"
            fault = f"{name[0].upper()} of {found.name} is MN-major in {where} memory"
            faults.append(_broken(rule, fault, ["K-major operands"], **{name: "K"}))
    rules = ["type", "kind", "accumulator", "scale", "ws", "m", "n", "transpose", "source"]
    if faults:
        return Legality(subject, tuple(faults), rules=_named(rules))
    path, place = tmem_accumulator(m, n, ctas=ctas, ws=ws)
    wide, majors = tmem_columns(place), (a_major, b_major)
    right = instruction_descriptor(found, names, m, n, majors=majors, scale=block[0] if block else "")
    faults += _columns("D", column, wide)
    if descriptor is not None and descriptor != right:
        fields = [
            name
            for name, (low, bits) in INSTRUCTION_FIELDS.items()
            if (descriptor ^ right) >> low & (1 << bits) - 1
        ]
        fault = f"the descriptor departs in {', '.join(fields) or 'bits of no field'}"
        faults.append(_broken("instruction", fault, [f"{right:#010x}"], descriptor=right))
    rules += ["columns", *(["instruction"] if descriptor is not None else [])]
    ptx = found.ptx.replace("mma.", f"mma.{'ws.' if ws else ''}cta_group::{ctas}.")
    ptx += f".block{block[1]}" if block else ""
    result = None if faults else Tcgen05Instruction(ptx, (m, n, found.k), right, path, place)
    least = max(32, 1 << (column + wide - 1).bit_length())
    notes = () if faults else (f"tcgen05.alloc of {least} columns holds D",)
    return Legality(subject, tuple(faults), notes, result, _named(rules))


def _broken(rule: str, fault: str, accepted: Sequence[object], **fix: object) -> Violation:
    return TCGEN05_RULES[f"tcgen05.{rule}"].mended(fault, accepted, **fix)


def _named(rules: Sequence[str]) -> tuple[Rule, ...]:
    return tuple(TCGEN05_RULES[f"tcgen05.{name}"] for name in rules)


def _ctas(count: int) -> str:
    """The number of CTAs in words, if it is one that there is."""
    check_choice("number of CTAs", str(count), ("1", "2"))
    return "1 CTA" if count == 1 else "2 CTAs"


def _missing(kind: Tcgen05Kind, arch: str | Arch) -> list[Violation]:
    """The rule of the architecture, where the kind breaks it."""
    if (name := find_arch(arch).name) in kind.machines:
        return []
    return [_broken("kind", f"{kind.name} on {name}", kind.machines, arch=kind.machines[0])]


def _columns(what: str, column: int, wide: int) -> list[Violation]:
    """The rule of columns, where it is broken."""
    last = TMEM_COLUMNS - wide
    if 0 <= column <= last:
        return []
    fault = f"{what} takes columns {column} to {column + wide - 1}"
    return [_broken("columns", fault, [f"first columns of 0 to {last}"], column=max(0, min(column, last)))]


def _block(scale: str | None) -> tuple[str, int] | None:
    """The type and block of "ue8m0,32"."""
    if scale is None:
        return None
    if not (matched := re.fullmatch(r"(\w{1,16}),(\d{1,4})", scale, re.ASCII)):
        raise ShapeError(f"scale {scale!r}: a type and the elements of a block are needed, such as ue8m0,32")
    return dtype(matched[1]).name, int(matched[2])


def _kind_of(
    names: tuple[str, str, str], kind: str | None, block: tuple[str, int] | None
) -> Tcgen05Kind | Violation:
    """The kind of the operands, the one with the longest K first; or why there is none."""
    if kind is not None and kind not in TCGEN05_KINDS:
        raise UnknownNameError("kind of tcgen05.mma", kind, TCGEN05_KINDS)
    kinds = [k for k in TCGEN05_KINDS.values() if kind in (None, k.name)]
    taking = [k for k in kinds if set(names[:2]) <= set(k.operands)]
    if not taking:
        of = next((k for k in kinds if names[0] in k.operands), kinds[0])
        known = names[0] in of.operands
        same, fault = names[0] if known else of.operands[0], f"A of {names[0]} and B of {names[1]}"
        return _broken("type", fault, of.operands, **({"b": same} if known else {"a": same, "b": same}))
    scaled = [k for k in taking if (block in k.blocks if block else not k.blocks)]
    if not scaled:
        blocks = tuple(dict.fromkeys(x for k in taking for x in k.blocks))
        texts: list[str | None] = [f"{t},{of}" for t, of in blocks]
        accepted = [*(["no scales"] if any(not k.blocks for k in taking) else []), *texts]
        fault = f"scale factors {'of ' + ' for '.join(map(str, block)) if block else 'are missing'}"
        return _broken("scale", fault, accepted, scale=texts[0] if texts else None)
    # e2m1 by 32 is mxf4, twice as fast as mxf8f6f4; mxf4nvf4 has this form too.
    return next((k for k in scaled if k.name == "mxf4"), scaled[0])


def check_tcgen05_operand(
    layout: AnyLayout,
    element: str | DType,
    operand: SharedOperand,
    *,
    kind: str | None = None,
    m: int | None = None,
    n: int | None = None,
    ctas: int = 1,
    major: Major | None = None,
    base_bytes: int = 0,
    descriptor: int | None = None,
    arch: str | Arch = TCGEN05_ARCH,
) -> Legality[WgmmaOperand]:
    """Is `layout`, (M or N, K) -> offset in elements, a tile of one CTA that tcgen05.mma reads as A or B?

    `m` and `n` are those of the instruction, of which a CTA of two has half (None: the most that divide the
    tile), `descriptor` the 64 bits of the first instruction's part.  Other arguments are those of
    `check_wgmma`, and so are what it raises and the rules.

    >>> print(check_tcgen05_operand(Layout((256, 64), (64, 1)), "tf32", "B", n=24).broken)
    ('tcgen05.extent',)
    """
    element = dtype(element)
    require_tcgen05(arch)
    check_choice("operand", operand, ("A", "B"))
    by = _ctas(ctas)
    if kind is not None:
        check_choice("kind of tcgen05.mma", kind, TCGEN05_KINDS)
    if major is not None:
        check_major(major)
    subject = f"tcgen05 operand {operand}, {element} {layout}"
    taking = [k for k in TCGEN05_KINDS.values() if element.name in k.operands and kind in (None, k.name)]
    if not taking:
        known = TCGEN05_KINDS[kind].operands if kind else _OPERANDS
        nearest = "tf32" if element.bits == 32 and kind is None else known[0]
        return Legality(
            subject,
            (_broken("type", f"operands of {element}", known, element=nearest),),
            rules=_named(["type"]),
        )
    found = max(taking, key=lambda k: k.k)  # e2m1 is packed where nothing else is asked
    if missing := _missing(found, arch):
        return Legality(subject, tuple(missing), rules=_named(["type", "kind"]))
    sizes, asked = (found.rows(ctas), m) if operand == "A" else (found.columns(ctas), n)
    own = tuple(extent // ctas for extent in sizes)
    rows = rows_of(operand_shape(layout)[0], None if asked is None else asked // ctas, own)
    if operand == "A" and rows not in own:
        fault = _broken(
            "m", f"M is {asked} for {found.name} and {by}", sizes, m=nearest_size(rows * ctas, sizes)
        )
        return Legality(subject, (fault,), rules=_named(["m"]))
    stored = "u8" if found.k == 32 else element.name
    as_type = WgmmaType(stored, found.k, (), (), own, found.transposable)
    wide, form = find_swizzle_mode("128B_ATOM_32B"), find_normal_form(layout)
    if (
        form
        and str(form.swizzles) == str(wide.in_elements(dtype(stored).bits))
        and best_guess(layout, as_type) == "K"
    ):
        raise UnsupportedError(f"{subject}: the descriptor of a K-major tile in mode {wide} is not described")
    if found.name == "tf32":
        as_type = replace(as_type, mn_modes=(wide,))
    report = judge_operand(subject, layout, as_type, operand, rows, major, base_bytes, descriptor, "sm_100")
    faults = tuple(replace(fault, rule=_ours(fault.rule)) for fault in report.violations)
    return replace(report, violations=faults, rules=tuple(map(_ours, report.rules)))


_OPERANDS = tuple(dict.fromkeys(name for kind in TCGEN05_KINDS.values() for name in kind.operands))


def _ours(rule: Rule) -> Rule:
    """A rule of wgmma's operands as one of tcgen05's."""
    return replace(rule, name=rule.name.replace("wgmma", "tcgen05"), source=_SHARED)


@dataclass(frozen=True, slots=True)
class Tcgen05Access:
    """A load or store of tensor memory: a warp's lanes and columns, and 32-bit registers per thread."""

    op: str
    warp: int
    lanes: range
    columns: range
    registers: int

    def __str__(self) -> str:
        return (
            f"{self.op} of warp {self.warp}: lanes {self.lanes[0]} to {self.lanes[-1]}, columns "
            f"{self.columns[0]} to {self.columns[-1]}, {self.registers} register{'s' * (self.registers > 1)}"
        )


_OP = re.compile(r"tcgen05\.(ld|st)(?:\.sync\.aligned)?\.(\w+)\.x(\d{1,4})(?:\.b32)?", re.ASCII)


def check_tcgen05_access(
    op: str,
    accumulator: Layout | None = None,
    *,
    warp: int = 0,
    lane: int | None = None,
    column: int = 0,
    arch: str | Arch = TCGEN05_ARCH,
) -> Legality[Tcgen05Access]:
    """Does warp `warp` move what it asks for by `op`, tcgen05.ld.16x256b.x4, from `lane` and `column` on?

    `lane` is None for the first one that the warp reaches.  `accumulator` is a layout to lane + 128 column:
    a note says how many of the cells that are moved hold an element of it.  Raises UnknownNameError for an
    instruction that there is not, UnsupportedError for forms that are not described and for an architecture
    without tcgen05, ShapeError for a negative warp.
    """
    require_tcgen05(arch)
    matched = _OP.fullmatch(op.strip())
    if "pack::16b" in op or "16x32bx2" in op:
        raise UnsupportedError(f"{op}: .pack::16b, .unpack::16b and shape 16x32bx2 are not described")
    if matched is None or matched[2] not in TMEM_SHAPES:
        known = [f"tcgen05.{kind}.{shape}.x1" for kind in ("ld", "st") for shape in TMEM_SHAPES]
        raise UnknownNameError("load or store of tensor memory", op, known)
    kind, shape, repeat = matched[1], matched[2], int(matched[3])
    warp = whole_number(warp, "warp")
    if warp < 0:
        raise ShapeError(f"warp {warp}; a number of at least 0 is needed")
    height, bits, registers = TMEM_SHAPES[shape]
    own = warp % 4 * 32
    lane, column = own if lane is None else whole_number(lane, "lane"), whole_number(column, "column")
    most, starts, faults = MOST_REGISTERS // registers, range(own, own + 32, height), []
    if repeat > most or repeat < 1 or repeat & (repeat - 1):
        change = f"tcgen05.{kind}.{shape}.x{min(most, 1 << max(0, repeat.bit_length() - 1))}"
        faults.append(_broken("num", f".x{repeat} of {shape}", [f"powers of two up to {most}"], op=change))
    if lane not in starts:
        fault = f"warp {warp} starts at lane {lane}"
        faults.append(_broken("lanes", fault, starts, lane=nearest_size(lane, starts)))
    wide = bits * min(repeat, most) // 32
    faults += _columns("what is moved", column, wide)
    rules, subject = _named(["num", "lanes", "columns"]), f"{op} of warp {warp}"
    if faults:
        return Legality(subject, tuple(faults), rules=rules)
    moved = range(lane, lane + height), range(column, column + wide)
    access = Tcgen05Access(op, warp, *moved, registers * repeat)
    return Legality(subject, (), _reached(access, accumulator), access, rules)


def _reached(access: Tcgen05Access, accumulator: Layout | None) -> tuple[str, ...]:
    """The number of cells that are moved and hold an element of the accumulator."""
    if accumulator is None:
        return ()
    check_type("tcgen05", accumulator, Layout, "a plain layout to lane + 128 column")
    Most.POINTS.guard(size(accumulator), f"elements of {accumulator}")
    cells = {lane + TMEM_LANES * column for lane in access.lanes for column in access.columns}
    held = len(cells.intersection(map(accumulator, range(size(accumulator)))))
    return (f"{held} of the {len(cells)} cells that are moved hold elements of {accumulator}",)
