"""The matrix descriptor: its bits, both forms, and everything that it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import errors
from layoutalg.arch import (
    HOPPER_MODES,
    MAX_OFFSET_BYTES,
    SWIZZLE_MODES,
    SmemDescriptor,
    decode_descriptor,
    descriptor_text,
    encode_descriptor,
)
from layoutalg.arch.descriptor import DESCRIPTOR_FIELDS, DescriptorForm
from tests.sweeps import each

FORMS: tuple[DescriptorForm, ...] = ("sm_90", "sm_100")
OFFSETS = st.integers(0, MAX_OFFSET_BYTES // 16).map(lambda x: 16 * x)


@st.composite
def descriptors(draw: st.DrawFn) -> SmemDescriptor:
    form = draw(st.sampled_from(FORMS))
    modes = HOPPER_MODES if form == "sm_90" else tuple(SWIZZLE_MODES.values())
    return SmemDescriptor(
        start_bytes=draw(OFFSETS),
        lbo_bytes=draw(OFFSETS),
        sbo_bytes=draw(OFFSETS),
        mode=draw(st.sampled_from(modes)),
        base_offset=draw(st.integers(0, 7)),
        lbo_absolute=draw(st.booleans()) if form == "sm_100" else False,
        form=form,
    )


@given(descriptors())
def test_decode_undoes_encode(descriptor: SmemDescriptor) -> None:
    value = encode_descriptor(descriptor)
    assert 0 <= value < 1 << 64
    assert decode_descriptor(value, descriptor.form) == descriptor


@given(st.integers(0, (1 << 64) - 1), st.booleans(), st.sampled_from(FORMS))
def test_a_value_is_decoded_whole_or_refused(value: int, masked: bool, form: DescriptorForm) -> None:
    owned = sum(field.mask for field in DESCRIPTOR_FIELDS[form])
    value &= owned if masked else -1
    try:
        descriptor = decode_descriptor(value, form)
    except errors.ShapeError:
        version = form == "sm_100" and value >> 46 & 7 != 1
        mode = form == "sm_100" and value >> 61 in (3, 5, 7)
        assert value & ~owned or version or mode
    else:
        assert encode_descriptor(descriptor) == value


@given(descriptors(), st.integers(0, 63))
def test_a_bit_that_no_field_owns_is_refused_by_number(descriptor: SmemDescriptor, bit: int) -> None:
    if not any(field.mask >> bit & 1 for field in DESCRIPTOR_FIELDS[descriptor.form]):
        with pytest.raises(errors.ShapeError, match=f"bits {bit} belong to no field"):
            decode_descriptor(encode_descriptor(descriptor) | 1 << bit, descriptor.form)


@pytest.mark.parametrize("form", FORMS)
def test_fields_do_not_overlap_and_cite_their_section(form: DescriptorForm) -> None:
    seen = 0
    for field in DESCRIPTOR_FIELDS[form]:
        assert not seen & field.mask and field.low + field.bits <= 64
        assert field.source.startswith("PTX ISA") and field.meaning
        seen |= field.mask
    names = [field.name for field in DESCRIPTOR_FIELDS[form]]
    assert names[:4] == ["start", "lbo", "sbo", "base_offset"] and names[-1] == "mode"


@each(
    ("mode", "form", "code"),
    [
        ("none", "sm_90", 0), ("128B", "sm_90", 1), ("64B", "sm_90", 2), ("32B", "sm_90", 3),
        ("none", "sm_100", 0), ("128B_ATOM_32B", "sm_100", 1), ("128B", "sm_100", 2), ("64B", "sm_100", 4),
        ("32B", "sm_100", 6),
    ],
)  # fmt: skip
def test_mode_codes(mode: str, form: DescriptorForm, code: int) -> None:
    value = encode_descriptor(SmemDescriptor(start_bytes=0, mode=mode, form=form))
    assert value >> (62 if form == "sm_90" else 61) == code
    assert value & 0x3FFFFFFFFFFF == 0 and (form == "sm_90" or value >> 46 & 7 == 1)


@pytest.mark.parametrize(
    ("lbo", "sbo", "stored"),
    [(256, 128, (16, 8)), (256, 512, (16, 32)), (512, 1024, (32, 64))],
)  # fmt: skip
def test_offsets_as_the_manual_encodes_them(lbo: int, sbo: int, stored: tuple[int, int]) -> None:
    """The worked examples of PTX ISA, wgmma.mma_async, "Canonical Layouts"."""
    value = encode_descriptor(SmemDescriptor(start_bytes=0, lbo_bytes=lbo, sbo_bytes=sbo))
    assert (value >> 16 & 0x3FFF, value >> 32 & 0x3FFF) == stored


def test_text() -> None:
    descriptor = SmemDescriptor(
        start_bytes=0x400, lbo_bytes=4096, sbo_bytes=512, mode="128B_ATOM_32B", form="sm_100"
    )
    assert str(descriptor) == (
        "0x2000402001000040: start 1024, LBO 4096, SBO 512 bytes, mode 128B_ATOM_32B, base offset 0 (sm_100)"
    )
    lines = descriptor_text(replace(descriptor, lbo_absolute=True)).splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["13..0", "start", "1024", "64"],
        ["29..16", "lbo", "4096", "256"],
        ["45..32", "sbo", "512", "32"],
        ["48..46", "version", "1", "1"],
        ["51..49", "base_offset", "0", "0"],
        ["52", "lbo_absolute", "1", "1"],
        ["63..61", "mode", "128B_ATOM_32B", "1"],
    ]
    assert "tcgen05" in lines[0] and "LBO 4096 (an address)" in str(replace(descriptor, lbo_absolute=True))


@each(
    ("wrong", "error", "message"),
    [
        ({"start_bytes": 8}, errors.AlignmentError, "start_bytes 8 .* multiple of 16 bytes"),
        ({"sbo_bytes": 1 << 18}, errors.ResourceError, "sbo_bytes of a descriptor: 262144 asked"),
        ({"lbo_bytes": -16}, errors.ShapeError, "lbo_bytes -16 of a descriptor; a non-negative integer"),
        ({"base_offset": 8}, errors.ResourceError, "base_offset of a descriptor: 8 asked, the limit is 7"),
        ({"start_bytes": 16.0}, errors.ArgumentTypeError, "16.0 of type float"),
        ({"mode": "128B_ATOM_32B"}, errors.UnsupportedError, "has no mode 128B_ATOM_32B"),
        ({"lbo_absolute": True}, errors.UnsupportedError, "the sm_90 descriptor has no absolute LBO"),
        ({"form": "sm_80"}, errors.UnknownNameError, "unknown descriptor form 'sm_80'"),
        ({"mode": "96B"}, errors.UnknownNameError, "unknown swizzle mode '96B'"),
    ],
)  # fmt: skip
def test_what_no_field_can_hold(wrong: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SmemDescriptor(**{"start_bytes": 0, **wrong})  # type: ignore[arg-type]


@each(
    ("value", "form", "error", "part"),
    [
        (1 << 64, "sm_90", errors.ShapeError, "64 bits, 0 to"),
        (-1, "sm_90", errors.ShapeError, "64 bits, 0 to"),
        (0, "sm_100", errors.ShapeError, "version 0; sm_100 has 1"),
        (3 << 61 | 1 << 46, "sm_100", errors.ShapeError, "no mode 3; there are 0 none, 6 32B"),
        (0, "sm_110", errors.UnknownNameError, "descriptor form"),
    ],
)
def test_values_that_are_no_descriptor(value: int, form: Any, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        decode_descriptor(value, form)
