"""The text of a LinearLayout as Triton prints it in its logs, and as this library does.

    - register=1 -> (0, 1)            register=1 -> (0, 1)
      register=2 -> (8, 0)            register=2 -> (8, 0)
    - warp is a size 1 dimension      warp: size 1
    where out dims are: [dim0 (size 16), dim1 (size 2)]          outs: dim0 (size 16), dim1 (size 2)

Out dimensions without sizes are as large as the bases reach.  A map from offsets alone is read as the layout
of its tile, as the shared encodings are.

Source: Triton, lib/Tools/LinearLayout.cpp, LinearLayout::toString.
"""

from __future__ import annotations

import re
from typing import NoReturn

from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import Swizzle
from layoutalg.notation.forms.record import Options, Value
from layoutalg.notation.forms.tiles import offsets_of, tile_of
from layoutalg.notation.symbols import MAX_DIGITS
from layoutalg.notation.term import check_length, refuse

FAMILY = "a LinearLayout"

MAX_PARTS = 64
"""Most bits of an in dimension, and most out dimensions."""

BEGINS = re.compile(
    r"(?://[ \t]*)?(?:-[ \t]*)?[A-Za-z_]\w*(?:=1 +-> ?[(0-9]|[ \t]+is a size 1 dimension|: size 1\b)"
)

_BASIS = re.compile(r"(?:-\s*)?([A-Za-z_]\w*)=([0-9]{1,20})\s*->\s*(\(?)([0-9, ]*)(\)?)")
_ONE = re.compile(r"(?:-\s*)?([A-Za-z_]\w*)(?: is a size 1 dimension|: size 1)")
_OUTS = re.compile(r"(?:where out dims are: \[(.*)\]|outs: (.*))")
_OUT = re.compile(r"\s*([A-Za-z_]\w*)(?: \(size ([0-9]{1,20})\))?\s*")


def read_linear(text: str, options: Options) -> Value:
    """The map, or the layout of the tile where it maps offsets.  Raises ParseError with line and column."""
    check_length(text)
    ins: dict[str, list[tuple[int, ...]]] = {}
    outs: list[tuple[str, str | None]] | None = None
    at = 0

    def fail(why: str) -> NoReturn:
        refuse(text, FAMILY, why, min(at, len(text)))

    for line in text.splitlines(keepends=True):
        body = line.strip().removeprefix("//").strip()
        at += len(line) - len(line.lstrip())
        if body and outs is not None:
            fail("expected the end behind the out dimensions")
        if match := _BASIS.fullmatch(body):
            name, power, digits = match[1], match[2], match[4].split(",")
            bases = ins.setdefault(name, [])
            if int(power) != 1 << len(bases):
                fail(f"expected {name}={1 << len(bases)}, found {name}={power}")
            parts = [part.strip() for part in digits if part.strip()]
            if len(match[3]) != len(match[5]) or any(not p.isdigit() or len(p) > MAX_DIGITS for p in parts):
                fail("expected a basis such as (0, 1)")
            if len(parts) > MAX_PARTS or len(bases) >= MAX_PARTS:
                fail(f"expected at most {MAX_PARTS} bases of at most {MAX_PARTS} parts")
            bases.append(tuple(map(int, parts)))
        elif match := _ONE.fullmatch(body):
            if match[1] in ins:
                fail(f"{match[1]} is there already")
            ins[match[1]] = []
        elif match := _OUTS.fullmatch(body):
            listed = [_OUT.fullmatch(part) for part in (match[1] or match[2] or "").split(",")]
            if not all(listed):
                fail("expected out dimensions such as dim0 (size 32), dim1 (size 32)")
            outs = [(part[1], part[2]) for part in listed if part]
        elif body:
            fail("expected a basis such as register=1 -> (0, 1), or the out dimensions")
        at += len(line.lstrip()) if line.strip() else 0
    every = [basis for bases in ins.values() for basis in bases]
    if len({len(basis) for basis in every}) > 1:
        fail("bases of different ranks")
    rank = len(every[0]) if every else len(outs or ())
    named = outs or [(f"dim{i}" if rank > 1 else "offset", None) for i in range(rank)]
    if len(named) != rank:
        fail(f"{len(named)} out dimensions and bases of {rank} parts")
    try:
        sizes = [
            (name, int(extent) if extent else 1 << max([b[i] for b in every], default=0).bit_length())
            for i, (name, extent) in enumerate(named)
        ]
        return (
            tile_of(LinearLayout(ins, sizes)) if set(ins) <= {"offset", "block"} else LinearLayout(ins, sizes)
        )
    except LayoutAlgError as error:
        fail(error.message)


def write_linear(value: Value, options: Options) -> str:
    """The text of Triton's logs.  Raises UnsupportedError for tiles that are not a map of bits."""
    if isinstance(value, Swizzle):
        raise UnsupportedError(f"a LinearLayout maps a tensor, and {value} alone has no shape")
    linear = value if isinstance(value, LinearLayout) else offsets_of(value, "LinearLayout")
    lines: list[str] = []
    for name, bases in linear.ins:
        if not bases:
            lines.append(f" - {name} is a size 1 dimension")
        for j, basis in enumerate(bases):
            lines.append(f" {' ' if j else '-'} {name}={1 << j} -> ({', '.join(map(str, basis))})")
    outs = ", ".join([f"{name} (size {extent})" for name, extent in linear.outs])
    return "\n".join([*lines, f"where out dims are: [{outs}]"])
