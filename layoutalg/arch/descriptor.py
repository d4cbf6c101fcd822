"""The 64-bit matrix descriptor: how wgmma (sm_90) and tcgen05 (sm_100) learn where an operand lies.

The idea.  A tensor core instruction reads its operand from shared memory by five numbers in one register.
Addresses and offsets are multiples of 16 bytes below 2^18 and are kept without their low 4 bits; K-major
128B f16, rows of 128 bytes, eight rows an atom:

    bits      field        value    stored
    13..0     start        1024     64        where the first element lies
    29..16    lbo          16       1         leading dimension byte offset (unused here: 1)
    45..32    sbo          1024     64        stride dimension byte offset: eight rows further
    51..49    base_offset  0        0         0 when the swizzle pattern starts where it repeats
    63..62    mode         128B     1

A step of 16 f16 along K inside the atom is 32 bytes: 2 in the low word, everything else stays.

>>> d = SmemDescriptor(start_bytes=1024, lbo_bytes=16, sbo_bytes=1024, mode="128B")
>>> hex(encode_descriptor(d))
'0x4000004000010040'
>>> decode_descriptor(0x4000004000010040) == d
True

Notes.  The table of fields is data (`DESCRIPTOR_FIELDS`): encode, decode and the text are one loop over it.
Nothing is masked silently: a value that a field cannot hold is an error, and so is a bit that no field owns.
The sm_100 form is analysis data; nothing is generated from it.

Comparison with CUTLASS.  GmmaDescriptor and UmmaDescriptor are unions of bit-fields filled by
make_gmma_desc; here a field also says what it means, in which unit it counts, and where that is written.

Sources.  PTX ISA, wgmma.mma_async, "Matrix Descriptor Format"; tcgen05, "Shared memory descriptor".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.arch.swizzle_modes import CHUNK_BYTES, SWIZZLE_MODES, SwizzleMode, find_swizzle_mode
from layoutalg.errors import (
    AlignmentError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    check_type,
    shown,
)
from layoutalg.layout import normalize

DescriptorForm: TypeAlias = Literal["sm_90", "sm_100"]

MAX_OFFSET_BYTES = (1 << 18) - CHUNK_BYTES
"""The largest address or offset: 14 bits of 16 bytes."""


@dataclass(frozen=True, slots=True)
class Field:
    """Bits [low, low + bits) of a descriptor: `name` in units of `unit_bytes` (0: a plain number).

    >>> DESCRIPTOR_FIELDS["sm_90"][2].span
    '45..32'
    """

    name: str
    low: int
    bits: int
    unit_bytes: int
    meaning: str
    source: str

    @property
    def span(self) -> str:
        """The bits as PTX writes them, highest first."""
        high = self.low + self.bits - 1
        return f"{high}..{self.low}" if self.bits > 1 else str(self.low)

    @property
    def mask(self) -> int:
        """The field's bits, at their place."""
        return ((1 << self.bits) - 1) << self.low


_WGMMA = "PTX ISA, wgmma.mma_async, Matrix Descriptor Format"
_TCGEN05 = "PTX ISA, tcgen05, Shared memory descriptor"


def _common(source: str) -> tuple[Field, ...]:
    return (
        Field("start", 0, 14, CHUNK_BYTES, "address of the first element", source),
        Field("lbo", 16, 14, CHUNK_BYTES, "leading dimension byte offset", source),
        Field("sbo", 32, 14, CHUNK_BYTES, "stride dimension byte offset", source),
        Field("base_offset", 49, 3, 0, "phase of a pattern that starts between two repetitions", source),
    )


DESCRIPTOR_FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "sm_90": (*_common(_WGMMA), Field("mode", 62, 2, 0, "swizzle mode", _WGMMA)),
        "sm_100": (
            *_common(_TCGEN05),
            Field("version", 46, 3, 0, "always 1", _TCGEN05),
            Field("lbo_absolute", 52, 1, 0, "1: lbo is an address, not an offset", _TCGEN05),
            Field("mode", 61, 3, 0, "swizzle mode", _TCGEN05),
        ),
    }
)
"""The fields of both forms; bits between them are 0."""

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SmemDescriptor:
    """The fields of a matrix descriptor, in bytes.

    `start_bytes` is the address of the first element in shared memory, `lbo_bytes` and `sbo_bytes` what the
    canonical layouts call LBO and SBO (layoutalg.legality.canonical), `mode` a swizzle mode, given as such,
    by name or in bytes.  `base_offset` is (pattern start >> 7) & 7, 0 for a pattern that starts at a
    multiple of its period.  `lbo_absolute` exists in the sm_100 form alone.  Raises AlignmentError for what
    is not a multiple of 16 bytes, ResourceError for what does not fit its field, UnsupportedError for what
    the form does not have.

    >>> print(SmemDescriptor(start_bytes=0, lbo_bytes=16, sbo_bytes=512, mode="64B"))
    0x8000002000010000: start 0, LBO 16, SBO 512 bytes, mode 64B, base offset 0 (sm_90)
    """

    start_bytes: int
    lbo_bytes: int = 0
    sbo_bytes: int = 0
    mode: SwizzleMode | str | int = SWIZZLE_MODES["none"]
    base_offset: int = 0
    lbo_absolute: bool = False
    form: DescriptorForm = "sm_90"

    def __post_init__(self) -> None:
        fields = _fields(self.form)
        object.__setattr__(self, "mode", find_swizzle_mode(self.mode))
        for name in ("start_bytes", "lbo_bytes", "sbo_bytes", "base_offset"):
            value = normalize(getattr(self, name), name)
            if isinstance(value, tuple) or value < 0:
                raise ShapeError(f"{name} {shown(value)} of a descriptor; a non-negative integer is needed")
            object.__setattr__(self, name, value)
            if name.endswith("_bytes"):
                if value % CHUNK_BYTES:
                    raise AlignmentError(
                        f"{name} {value} of a descriptor is not a multiple of {CHUNK_BYTES} bytes",
                        offset=value,
                        required_bytes=CHUNK_BYTES,
                    )
                if value > MAX_OFFSET_BYTES:
                    raise ResourceError(f"{name} of a descriptor", value, MAX_OFFSET_BYTES)
        if self.base_offset > 7:
            raise ResourceError("base_offset of a descriptor", self.base_offset, 7)
        if _code(self.swizzle_mode, self.form) is None:
            raise UnsupportedError(f"the {self.form} descriptor has no mode {self.mode}")
        if self.lbo_absolute and not any(f.name == "lbo_absolute" for f in fields):
            raise UnsupportedError(f"the {self.form} descriptor has no absolute LBO; it is an offset there")

    @property
    def swizzle_mode(self) -> SwizzleMode:
        """`mode`, as the SwizzleMode it has become."""
        return find_swizzle_mode(self.mode)

    def __str__(self) -> str:
        absolute = " (an address)" if self.lbo_absolute else ""
        return (
            f"{encode_descriptor(self):#018x}: start {self.start_bytes}, LBO {self.lbo_bytes}{absolute}, "
            f"SBO {self.sbo_bytes} bytes, mode {self.mode}, base offset {self.base_offset} ({self.form})"
        )


def _fields(form: str) -> tuple[Field, ...]:
    check_type("descriptor form", form, str, "the name of a form")
    fields = DESCRIPTOR_FIELDS.get(form)
    if fields is None:
        raise UnknownNameError("descriptor form", form, DESCRIPTOR_FIELDS)
    return fields


def _code(mode: SwizzleMode, form: str) -> int | None:
    return mode.sm_90_code if form == "sm_90" else mode.sm_100_code


def _stored(descriptor: SmemDescriptor) -> dict[str, int]:
    """The number in each field, before it is shifted into place."""
    code = _code(descriptor.swizzle_mode, descriptor.form)
    return {
        "start": descriptor.start_bytes // CHUNK_BYTES,
        "lbo": descriptor.lbo_bytes // CHUNK_BYTES,
        "sbo": descriptor.sbo_bytes // CHUNK_BYTES,
        "base_offset": descriptor.base_offset,
        "version": _VERSION,
        "lbo_absolute": int(descriptor.lbo_absolute),
        "mode": 0 if code is None else code,
    }


def encode_descriptor(descriptor: SmemDescriptor) -> int:
    """The 64 bits of the register.

    >>> hex(encode_descriptor(SmemDescriptor(start_bytes=64, sbo_bytes=256, mode="32B", form="sm_100")))
    '0xc000401000000004'
    """
    check_type("encode_descriptor", descriptor, SmemDescriptor, "a descriptor")
    stored = _stored(descriptor)
    return sum(stored[field.name] << field.low for field in _fields(descriptor.form))


def decode_descriptor(value: int, form: DescriptorForm = "sm_90") -> SmemDescriptor:
    """The descriptor whose 64 bits are `value`: encode_descriptor backwards.

    Raises ShapeError, naming the bits, for a value that no descriptor of the form encodes to: more than
    64 bits, bits between the fields, a mode code or a version that does not exist.

    >>> decode_descriptor(0x4000004000010042).start_bytes
    1056
    """
    fields = _fields(form)
    number = normalize(value, "descriptor")
    if isinstance(number, tuple) or not 0 <= number < 1 << 64:
        raise ShapeError(f"descriptor {shown(value)}: 64 bits, 0 to 2^64 - 1, are needed")
    stray = number & ~sum(field.mask for field in fields)
    if stray:
        bits = ", ".join(str(i) for i in range(64) if stray >> i & 1)
        raise ShapeError(f"descriptor {number:#018x}: bits {bits} belong to no field of the {form} form")
    stored = {field.name: (number & field.mask) >> field.low for field in fields}
    if stored.get("version", _VERSION) != _VERSION:
        raise ShapeError(f"descriptor {number:#018x}: version {stored['version']}; {form} has {_VERSION}")
    codes = {_code(mode, form): mode for mode in SWIZZLE_MODES.values()}
    if stored["mode"] not in codes:
        known = ", ".join(f"{code} {mode}" for code, mode in codes.items() if code is not None)
        raise ShapeError(f"descriptor {number:#018x}: there is no mode {stored['mode']}; there are {known}")
    return SmemDescriptor(
        start_bytes=stored["start"] * CHUNK_BYTES,
        lbo_bytes=stored["lbo"] * CHUNK_BYTES,
        sbo_bytes=stored["sbo"] * CHUNK_BYTES,
        mode=codes[stored["mode"]],
        base_offset=stored["base_offset"],
        lbo_absolute=bool(stored.get("lbo_absolute", 0)),
        form=form,
    )


def descriptor_text(descriptor: SmemDescriptor) -> str:
    """The descriptor as a table: bits, field, what it stands for, what is stored, what it means.

    >>> print(descriptor_text(SmemDescriptor(start_bytes=1024, lbo_bytes=16, sbo_bytes=1024, mode="128B")))
    0x4000004000010040 (sm_90; PTX ISA, wgmma.mma_async, Matrix Descriptor Format)
    13..0   start         1024     64  address of the first element
    29..16  lbo             16      1  leading dimension byte offset
    45..32  sbo           1024     64  stride dimension byte offset
    51..49  base_offset      0      0  phase of a pattern that starts between two repetitions
    63..62  mode          128B      1  swizzle mode
    """
    check_type("descriptor_text", descriptor, SmemDescriptor, "a descriptor")
    fields = sorted(_fields(descriptor.form), key=lambda field: field.low)
    stored = _stored(descriptor)
    lines = [f"{encode_descriptor(descriptor):#018x} ({descriptor.form}; {fields[0].source})"]
    for field in fields:
        raw = stored[field.name]
        shown = str(descriptor.mode) if field.name == "mode" else str(raw * (field.unit_bytes or 1))
        lines.append(f"{field.span:<7} {field.name:<12} {shown:>5} {raw:>6}  {field.meaning}")
    return "\n".join(lines)
