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

Notes.  All of it is documented, none measured.  Narrow types of kinds f8f6f4 and mxf8f6f4 take a byte each in
shared memory.  Loads of shape 16x32bx2 and .pack::16b are not described here and are refused as such.

Source: PTX ISA 9.0, 9.7.16.2.1 (table 39), 9.7.16.4.2 (instruction descriptor), 9.7.16.8 (loads and stores),
9.7.16.10.1 and 9.7.16.10.3 (transposition, swizzles).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from layoutalg.arch import (
    TCGEN05_KINDS,
    TMEM_COLUMNS,
    TMEM_LANES,
    Arch,
    Major,
    Tcgen05Kind,
    WgmmaType,
    decode_instruction,
    find_arch,
    find_swizzle_mode,
    instruction_descriptor,
    tmem_accumulator,
    tmem_columns,
)
from layoutalg.atoms import MOST_REGISTERS, TMEM_SHAPES
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
from layoutalg.legality.wgmma import SharedOperand, WgmmaOperand, judge_operand, rows_of
from layoutalg.limits import Most

_TABLE_39 = "PTX ISA 9.0, 9.7.16.2.1, table 39"
_TRANSPOSE = "PTX ISA 9.0, 9.7.16.10.1, tables 51 and 52"
_MEMORY = "PTX ISA 9.0, 9.7.16.1, Tensor Memory"
_IDESC = "PTX ISA 9.0, 9.7.16.4.2, Instruction Descriptor"
_ACCESS = "PTX ISA 9.0, 9.7.16.8, tcgen05.ld and tcgen05.st"
_SHARED = "PTX ISA 9.0, 9.7.16.5, tcgen05, Shared Memory Layout and Swizzling"

_RULES = (
    Rule("tcgen05.type", "the operand types are those of a kind", _TABLE_39, UnsupportedError),
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
    Rule("tcgen05.lanes", "warp w of a warpgroup reaches whole shapes of lanes 32 w to 32 w + 31", _ACCESS,
         AlignmentError),
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
    arch: str | Arch = "sm_100",
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
    check_choice("number of CTAs", str(ctas), ("1", "2"))
    names = types[0].name, types[1].name, types[2].name
    block = _block(scale)
    found = _kind_of(names, kind, block)
    subject = f"tcgen05.mma {types[2]} += {types[0]} {types[1]}, {m} x {n}, {_ctas(ctas)}"
    rules = tuple(TCGEN05_RULES[f"tcgen05.{name}"] for name in _OF_PRODUCTS)
    if isinstance(found, Violation):
        return Legality(subject, (found,), rules=(found.rule,))
    faults: list[Violation] = []

    def broken(rule: str, fault: str, accepted: tuple[object, ...], **fix: object) -> None:
        (value,) = fix.values()
        text = ", ".join(map(str, accepted[:6])) + (f", ..., {accepted[-1]}" if len(accepted) > 6 else "")
        faults.append(TCGEN05_RULES[f"tcgen05.{rule}"].broken(fault, text, str(value), **fix))

    if not found.multiplies(*names):
        sums = tuple(d for d in found.accumulators if found.multiplies(*names[:2], d))
        broken("accumulator", f"sums of {names[2]} for {found.name}", sums, accumulator=sums[0])
    if ws and not found.rows(ctas, ws=True):
        broken("ws", f".ws of {found.name} and {ctas} CTAs", ("no .ws",), ws=False)
    rows, columns = found.rows(ctas, ws=ws), found.columns(ctas, ws=ws, b_major=b_major)
    if rows and m not in rows:
        fault = f"M is {m} for {found.name} and {_ctas(ctas)}"
        broken("m", fault, rows, m=min(rows, key=lambda rows: (abs(rows - m), rows)))
    if n not in columns:
        fault = f"N is {n} for {found.name}{', B N-major' if b_major == 'MN' else ''}"
        broken("n", fault, columns, n=min(columns, key=lambda own: (abs(own - n), own)))
    for name, major in (("a_major", a_major), ("b_major", b_major)):
        if major == "MN" and not found.transposable:
            broken(
                "transpose",
                f"{name[0].upper()} of {found.name} is MN-major",
                ("K-major operands",),
                **{name: "K"},
            )
    if a_source == "tensor" and a_major == "MN" and found.transposable:
        broken("source", "A is M-major in tensor memory", ("K-major operands",), a_major="K")
    if faults:
        return Legality(subject, tuple(faults), rules=rules)
    rules += (TCGEN05_RULES["tcgen05.columns"],)
    path, place = tmem_accumulator(m, n, ctas=ctas, ws=ws)
    wide = tmem_columns(place)
    if not 0 <= column <= TMEM_COLUMNS - wide:
        faults.append(_columns("D", column, wide))
    right = instruction_descriptor(
        found, names, m, n, majors=(a_major, b_major), scale=block[0] if block else ""
    )
    if descriptor is not None:
        rules += (TCGEN05_RULES["tcgen05.instruction"],)
    if descriptor is not None and descriptor != right:
        asked, wanted = decode_instruction(descriptor), decode_instruction(right)
        wrong = ", ".join(f"{name} {asked[name]}" for name in wanted if asked[name] != wanted[name])
        fault = f"the descriptor has {wrong or 'bits that no field owns'}"
        broken("instruction", fault, (f"{right:#010x}",), descriptor=right)
    shape = f".block{block[1]}" if block else ""
    name = found.ptx.replace("mma.", f"mma.{'ws.' if ws else ''}cta_group::{ctas}.") + shape
    result = None if faults else Tcgen05Instruction(name, (m, n, found.k), right, path, place)
    least = max(32, 1 << (column + wide - 1).bit_length())
    return Legality(
        subject,
        tuple(faults),
        (f"tcgen05.alloc of {least} columns holds D",) if result else (),
        result,
        rules,
    )


_OF_PRODUCTS = ("type", "accumulator", "scale", "ws", "m", "n", "transpose", "source")
"""The rules of products that are checked at once."""


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
        same = names[0] if names[0] in of.operands else of.operands[0]
        fault = f"A of {names[0]} and B of {names[1]}"
        fix = {"b": same} if names[0] in of.operands else {"a": same, "b": same}
        return TCGEN05_RULES["tcgen05.type"].broken(fault, ", ".join(of.operands), same, **fix)
    scaled = [k for k in taking if (block in k.blocks if block else not k.blocks)]
    if not scaled:
        blocks = tuple(dict.fromkeys(x for k in taking for x in k.blocks))
        texts = [f"{t},{of}" for t, of in blocks]
        plain = any(not k.blocks for k in taking)
        accepted = ", ".join([*(["no scales"] if plain else []), *texts])
        fault = f"scale factors {'of ' + ' for '.join(map(str, block)) if block else 'are missing'}"
        nearest = texts[0] if texts else None
        return TCGEN05_RULES["tcgen05.scale"].broken(fault, accepted, nearest or "no scales", scale=nearest)
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
    arch: str | Arch = "sm_100",
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
    check_choice("number of CTAs", str(ctas), ("1", "2"))
    if kind is not None:
        check_choice("kind of tcgen05.mma", kind, TCGEN05_KINDS)
    if major is not None:
        check_major(major)
    subject = f"tcgen05 operand {operand}, {element} {layout}"
    taking = [k for k in TCGEN05_KINDS.values() if element.name in k.operands and kind in (None, k.name)]
    if not taking:
        known = TCGEN05_KINDS[kind].operands if kind else _OPERANDS
        nearest = "tf32" if element.bits == 32 and kind is None else known[0]
        rule = TCGEN05_RULES["tcgen05.type"]
        fault = rule.broken(f"operands of {element}", ", ".join(known), nearest, element=nearest)
        return Legality(subject, (fault,), rules=(rule,))
    found = max(taking, key=lambda k: k.k)  # e2m1 is packed where nothing else is asked
    sizes = found.rows(ctas) if operand == "A" else found.columns(ctas)
    own = tuple(extent // ctas for extent in sizes)
    asked = m if operand == "A" else n
    rows = rows_of(operand_shape(layout)[0], None if asked is None else asked // ctas, own)
    if operand == "A" and rows not in own:
        nearest_m = min(sizes, key=lambda extent: (abs(extent - rows * ctas), extent))
        rule, fault = TCGEN05_RULES["tcgen05.m"], f"M is {asked} for {found.name} and {_ctas(ctas)}"
        accepted = ", ".join(map(str, sizes))
        return Legality(subject, (rule.broken(fault, accepted, str(nearest_m), m=nearest_m),), rules=(rule,))
    stored = "u8" if found.k == 32 else element.name
    as_type = WgmmaType(stored, found.k, (), (), own, found.transposable)
    if found.name == "tf32":
        as_type = replace(as_type, mn_modes=(find_swizzle_mode("128B_ATOM_32B"),))
    report = judge_operand(subject, layout, as_type, operand, rows, major, base_bytes, descriptor, "sm_100")
    faults = tuple(replace(fault, rule=_ours(fault.rule)) for fault in report.violations)
    return replace(report, violations=faults, rules=tuple(map(_ours, report.rules)))


def _columns(what: str, column: int, wide: int) -> Violation:
    """Columns outside of tensor memory."""
    last = TMEM_COLUMNS - wide
    fault, nearest = f"{what} takes columns {column} to {column + wide - 1}", max(0, min(column, last))
    rule = TCGEN05_RULES["tcgen05.columns"]
    return rule.broken(fault, f"first columns of 0 to {last}", str(nearest), column=nearest)


_OPERANDS = tuple(dict.fromkeys(name for kind in TCGEN05_KINDS.values() for name in kind.operands))


def _ours(rule: Rule) -> Rule:
    """A rule of wgmma's operands as one of tcgen05's."""
    return replace(rule, name=rule.name.replace("wgmma", "tcgen05"), source=_SHARED)


def _ctas(count: int) -> str:
    return "1 CTA" if count == 1 else f"{count} CTAs"


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
    arch: str | Arch = "sm_100",
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
    most = MOST_REGISTERS // registers
    faults: list[Violation] = []
    if repeat > most or repeat < 1 or repeat & (repeat - 1):
        nearest = min(most, 1 << max(0, repeat.bit_length() - 1))
        change = f"tcgen05.{kind}.{shape}.x{nearest}"
        accepted = f"powers of two up to {most}"
        faults.append(
            TCGEN05_RULES["tcgen05.num"].broken(f".x{repeat} of {shape}", accepted, change, op=change)
        )
    starts = range(own, own + 32, height)
    if lane not in starts:
        nearest = min(starts, key=lambda start: (abs(start - lane), start))
        accepted, fault = " or ".join(map(str, starts)), f"warp {warp} starts at lane {lane}"
        faults.append(TCGEN05_RULES["tcgen05.lanes"].broken(fault, accepted, str(nearest), lane=nearest))
    wide = bits * min(repeat, most) // 32
    if not 0 <= column <= TMEM_COLUMNS - wide:
        faults.append(_columns("what is moved", column, wide))
    rules = tuple(TCGEN05_RULES[f"tcgen05.{name}"] for name in ("num", "lanes", "columns"))
    subject = f"{op} of warp {warp}"
    if faults:
        return Legality(subject, tuple(faults), rules=rules)
    found = Tcgen05Access(
        op, warp, range(lane, lane + height), range(column, column + wide), registers * repeat
    )
    return Legality(subject, (), _reached(found, accumulator), found, rules)


def _reached(access: Tcgen05Access, accumulator: Layout | None) -> tuple[str, ...]:
    """How many of the cells that are moved hold an element of the accumulator."""
    if accumulator is None:
        return ()
    check_type("tcgen05", accumulator, Layout, "a plain layout to lane + 128 column")
    Most.POINTS.guard(size(accumulator), f"elements of {accumulator}")
    cells = {lane + TMEM_LANES * column for lane in access.lanes for column in access.columns}
    held = len(cells.intersection(map(accumulator, range(size(accumulator)))))
    return (f"{held} of the {len(cells)} cells that are moved hold elements of {accumulator}",)
