"""Other names of the instructions: PTX in full, SASS, and CuTe's copy atoms.

The idea.  The library's names are PTX's with the parts that do not matter left out (layoutalg.arch.
instructions).  A program, a disassembly or a CuTe kernel spells the same instruction otherwise:

    ld.shared.b128      ld.shared.v4.f32   ld.shared::cta.v2.b64   LDS.128
    st.global.b64       st.global.v2.u32   STG.E.64
    ld.global.b256      ld.global.v8.f32   ld.global.v4.u64          LDG.E.ENL2.256
    ldmatrix.x4.trans   ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16   LDSM.16.MT88.4   SM75_U16x8_LDSM_T
    cp.async.16         cp.async.cg.shared.global.16   cp.async.b128   LDGSTS.E.BYPASS.128
                        SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>

A name without a size is the one size that it can only mean (LDS is 4 bytes per lane), or the whole warp's
form (ldmatrix is ldmatrix.x4).  A copy from global to shared memory is its shared side; `:global` behind it
asks for the other.  Names that say neither memory nor direction (UniversalCopy<uint128_t>) are refused with
the instructions that they might be.

>>> instruction_name("LDS.128"), instruction_name("ld.global.v4.u32"), instruction_name("ldmatrix")
('ld.shared.b128', 'ld.global.b128', 'ldmatrix.x4')

Sources.  PTX ISA, ld, st, red, ldmatrix, stmatrix and cp.async; CUDA Binary Utilities, "Instruction Set
Reference", and the suffixes as cuobjdump prints them; CUTLASS, include/cute/arch/copy_sm75.hpp,
copy_sm80.hpp and copy_sm90.hpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from layoutalg.arch.architectures import ARCHS
from layoutalg.arch.instructions import INSTRUCTIONS
from layoutalg.arch.model import Arch, Instruction
from layoutalg.errors import UnknownNameError, UnsupportedError, check_type

_PTX_TYPES = {1: "b8 u8 s8", 2: "b16 u16 s16", 4: "b32 u32 s32 f32", 8: "b64 u64 s64 f64", 16: "b128"}
_SASS_SIZES = {".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, "": 4, ".32": 4, ".64": 8, ".128": 16}
_CUTE_TYPES = {"uint32_t": 4, "float": 4, "uint64_t": 8, "double": 8, "uint128_t": 16}
_WIDEST_BYTES = 16


def _ptx() -> Iterator[tuple[str, str]]:
    for kind in ("ld", "st"):
        for space in ("shared", "global"):
            for width, types in _PTX_TYPES.items():
                for vector, count in (("", 1), (".v2", 2), (".v4", 4)):
                    if count * width <= _WIDEST_BYTES:
                        name = f"{kind}.{space}.b{8 * count * width}"
                        yield from ((f"{kind}.{space}{vector}.{t}", name) for t in types.split())
        for types, vector in ((_PTX_TYPES[4], ".v8"), (_PTX_TYPES[8], ".v4")):
            yield from ((f"{kind}.global{vector}.{t}", f"{kind}.global.b256") for t in types.split())
    yield "red.shared.add.u32", "red.shared.u32"
    for width in (4, 8, 16):
        yield f"cp.async.b{8 * width}", f"cp.async.{width}"
        yield f"cp.async.ca.shared.global.{width}", f"cp.async.{width}"
    yield "cp.async.cg.shared.global.16", "cp.async.16"
    for kind in ("ldmatrix", "stmatrix"):
        for trans in ("", ".trans"):
            yield f"{kind}{trans}", f"{kind}.x4{trans}"
            for count in (1, 2, 4):
                name = f"{kind}.x{count}{trans}"
                yield f"{kind}.sync.aligned.m8n8.x{count}{trans}.shared.b16", name
                yield f"{kind}.sync.aligned.x{count}{trans}.m8n8.shared.b16", name  # as CUTLASS orders it


def _sass() -> Iterator[tuple[str, str]]:
    for code, name in (
        ("LDS", "ld.shared"),
        ("STS", "st.shared"),
        ("LDG", "ld.global"),
        ("STG", "st.global"),
    ):
        for middle in ("", ".E") if code.endswith("G") else ("",):
            for size, width in _SASS_SIZES.items():
                yield f"{code}{middle}{size}", f"{name}.b{8 * width}"
        if code.endswith("G"):
            yield f"{code}.E.ENL2.256", f"{name}.b256"
    for code, name in (("LDSM", "ldmatrix"), ("STSM", "stmatrix")):
        for letters, trans in (("M", ""), ("MT", ".trans")):
            for size, count in (("", 1), (".2", 2), (".4", 4)):
                yield f"{code}.16.{letters}88{size}", f"{name}.x{count}{trans}"
    for size, width in (("", 4), (".64", 8), (".128", 16), (".BYPASS.128", 16)):
        yield f"LDGSTS.E{size}", f"cp.async.{width}"


def _cute() -> Iterator[tuple[str, str]]:
    for prefix, code, name in (("SM75", "LDSM", "ldmatrix"), ("SM90", "STSM", "stmatrix")):
        for count in (1, 2, 4):
            yield f"{prefix}_U32x{count}_{code}_N", f"{name}.x{count}"
            yield f"{prefix}_U16x{2 * count}_{code}_T", f"{name}.x{count}.trans"
    for cache, widths in (("CACHEALWAYS", (4, 8, 16)), ("CACHEGLOBAL", (16,))):
        for fill in ("", "_ZFILL"):
            for text, width in _CUTE_TYPES.items():
                if width in widths:
                    yield f"SM80_CP_ASYNC_{cache}{fill}<{text}>", f"cp.async.{width}"


def _table() -> dict[str, str]:
    both = {alias: name for alias, name in (*_ptx(), *_sass(), *_cute()) if alias != name}
    copies = {f"{a}:global": f"{name}:global" for a, name in both.items() if name.startswith("cp.async")}
    return both | copies


INSTRUCTION_ALIASES: Mapping[str, str] = MappingProxyType(_table())
"""Other name -> the library's name of the same instruction, read only."""

_BY_SPELLING: Mapping[str, str] = MappingProxyType(
    {alias.lower(): name for alias, name in (*INSTRUCTION_ALIASES.items(), *((n, n) for n in INSTRUCTIONS))}
)


def instruction_name(name: str) -> str:
    """The library's name of an instruction in any of its spellings; any other text comes back as it is.

    Case, blanks, `cute::` and `::cta` behind `shared` do not count; `<T,T>` of a copy atom is `<T>`.

    >>> instruction_name("SM80_CP_ASYNC_CACHEGLOBAL<cute::uint128_t>"), instruction_name("mov")
    ('cp.async.16', 'mov')
    """
    check_type("instruction_name", name, str, "the name of an instruction")
    if name in INSTRUCTIONS:
        return name
    key = "".join(name.lower().split()).replace("cute::", "").replace("shared::cta", "shared")
    atom, bracket, types = key.partition("<")
    if bracket:
        first, _, second = types.partition(">")[0].partition(",")
        if first == second:
            key = f"{atom}<{first}>{types.partition('>')[2]}"
    return _BY_SPELLING.get(key, name)


def unknown_instruction(name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is none of `known` in any spelling.

    >>> "say ld.shared.b64, " in str(unknown_instruction("UniversalCopy<uint64_t>", INSTRUCTIONS))
    True
    """
    hint = ""
    if "copy" in name.lower():
        digits = "".join(c for c in name if c.isdigit())
        suffix = f"b{digits}" if f"ld.shared.b{digits}" in INSTRUCTIONS else "b128"
        both = ", ".join(
            f"{kind}.{space}.{suffix}" for space in ("shared", "global") for kind in ("ld", "st")
        )
        hint = f"a copy from anywhere to anywhere is not an instruction; say {both}; "
    return UnknownNameError("instruction", name, known, also=() if hint else INSTRUCTION_ALIASES, hint=hint)


def find_instruction(name: str, machine: Arch | None = None) -> Instruction:
    """The rule of an instruction on `machine`, or without a machine that of every 32-lane, 32-bank one.

    `name` is one of INSTRUCTIONS or any of its other spellings (layoutalg.arch.instruction_names).  Raises
    UnknownNameError for other names, UnsupportedError for an instruction that only other architectures have,
    ArgumentTypeError for what is not a text.

    >>> from layoutalg.arch import find_arch
    >>> find_instruction("ldmatrix.x4", find_arch("sm_80")).group_lanes, find_instruction("LDS.64").name
    (8, 'ld.shared.b64')
    """
    if machine is not None:
        check_type("find_instruction", machine, Arch, "an architecture")
    table = INSTRUCTIONS if machine is None else machine.instructions
    check_type("find_instruction", name, str, "a name")
    rule = table.get(name) or table.get(known := instruction_name(name))
    if rule is not None:
        return rule
    if known in INSTRUCTIONS and machine is not None:
        having = ", ".join(a.name for a in ARCHS.values() if known in a.instructions)
        raise UnsupportedError(f"{machine.name} has no {known}; it exists on {having}")
    raise unknown_instruction(name, table)
