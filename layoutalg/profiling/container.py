"""The format of a report file: enough of it to recognise a file that is not a report, or that is cut off.

The idea.  ncu-report reads a file that is not a report, or whose end is missing, as a report of fewer
results or of none, without an error.  The format states the length of each part, so that this can be checked
beforehand:

    NVR\\0                          four bytes
    size, file header              a message whose field 1 is the version of the format
    size, block header, payload    again and again to the end; field 2 of the header is its number of results,
                                   field 5 the bytes of its payload

Sizes are 32-bit little-endian; messages are Protocol Buffers, of which only the outermost fields are read.

Source: Nsight Compute, Customization Guide, section Report File Format.

>>> frame(b"NVR\\0" + b"\\2\\0\\0\\0" + b"\\x08\\7" + b"\\4\\0\\0\\0" + b"\\x10\\1" + b"\\x28\\3" + b"abc")
Frame(version=7, blocks=1, results=1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from layoutalg.errors import ParseError

MAGIC = b"NVR\0"

_VERSION, _RESULTS, _PAYLOAD = 1, 2, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Frame(NamedTuple):
    """A report as its framing says: version of the format, blocks, results of launches in all of them."""

    version: int
    blocks: int
    results: int


def frame(raw: bytes, name: str = "the report") -> Frame:
    """The framing of a report; raises ParseError, with `name` and the byte, where a part is missing."""
    if not raw.startswith(MAGIC):
        begins = raw[:8].hex(" ") or "nothing"
        raise ParseError(f"{name} is not a report of Nsight Compute: it begins with {begins}, not with NVR")
    header, at = _message(raw, len(MAGIC), name)
    blocks = results = 0
    while at < len(raw):
        start = at
        fields, at = _message(raw, at, name)
        blocks, results = blocks + 1, results + fields.get(_RESULTS, 0)
        at += fields.get(_PAYLOAD, 0)
        if at > len(raw):
            raise ParseError(
                f"{name} is cut off: its part at byte {start} ends at byte {at}, the file at {len(raw)}",
                position=len(raw),
            )
    return Frame(header.get(_VERSION, 0), blocks, results)


def _message(raw: bytes, at: int, name: str) -> tuple[dict[int, int], int]:
    """The integers among the fields of a message with its size before it, and where it ends."""
    size = int.from_bytes(raw[at : at + 4], "little")
    first, end = at + 4, at + 4 + size
    if len(raw) < end:
        raise ParseError(
            f"{name} is cut off: a header at byte {at} ends at byte {end}, the file at {len(raw)}",
            position=len(raw),
        )
    try:
        return dict(_integers(memoryview(raw)[first:end])), end
    except (IndexError, ValueError):
        raise ParseError(f"{name} is damaged: the header at byte {at} does not decode", position=at) from None


def _integers(message: memoryview) -> Iterator[tuple[int, int]]:
    """(field, value) of the outermost integer fields; raises IndexError at a field that does not end."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(kind)
        at += size
        if at > len(message):
            raise IndexError(at)


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and the byte after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(value)
