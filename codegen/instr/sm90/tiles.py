"""Tiles in shared memory as a matrix descriptor describes them: all addresses of an operand at once.

The idea.  The tensor core reads an operand in chunks of 16 bytes: along K where it is K-major, along M or N
else.  A chunk's place is a sum of a few strides; the bits of the address are XORed last:

    K-major    (8,m):(W,SBO) rows, c chunks of 16 (swizzled) or LBO (none) bytes
    MN-major   (W,m):(1,LBO) bytes along M or N, (8,k):(W,SBO) rows along K; with no swizzle LBO and SBO swap

with W = 16, 32, 64, 128 bytes of a row of the swizzle mode.

Notes.  layoutalg.legality's element_address is the definition, an element at a time; tests compare the two,
and both with what an H200 read.

Source: PTX ISA 9.0, 9.7.15.5.1 (matrix descriptor, canonical layouts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from layoutalg.arch import CHUNK_BYTES, Major, SmemDescriptor

Array = numpy.ndarray[Any, Any]

PHASE_BYTES = 128
"""The bytes that one step of a base offset is worth."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand of `rows` (along M or N) x `k` elements: `descriptor` says how it lies behind its start.

    >>> from layoutalg.arch import SmemDescriptor
    >>> form = SmemDescriptor(start_bytes=0, lbo_bytes=16, sbo_bytes=1024, mode="128B")
    >>> tile = SharedTile(form, "K", element_bytes=2, rows=16, k=16)
    >>> tile.chunks(1024)[[0, 1, 9]].tolist()
    [[1024, 1040], [1168, 1152], [2192, 2176]]
    """

    descriptor: SmemDescriptor
    major: Major
    element_bytes: int
    rows: int
    k: int

    def chunks(self, start_bytes: int) -> Array:
        """Byte addresses of the 16-byte chunks, for a tile that starts at `start_bytes`.

        A K-major tile has a row per row and its chunks along K, an MN-major one a row per k and its chunks
        along M or N.
        """
        d, mode = self.descriptor, self.descriptor.swizzle_mode
        swizzled = mode.swizzle.bits > 0
        outer, inner = (self.rows, self.k) if self.major == "K" else (self.k, self.rows)
        line = numpy.arange(outer, dtype=numpy.int64)[:, None]
        chunk = numpy.arange(inner * self.element_bytes // CHUNK_BYTES, dtype=numpy.int64)[None, :]
        if self.major == "K":
            between, along = d.sbo_bytes, chunk * (CHUNK_BYTES if swizzled else d.lbo_bytes)
        else:
            between, far = (d.sbo_bytes, d.lbo_bytes) if swizzled else (d.lbo_bytes, d.sbo_bytes)
            per_row = mode.row_bytes // CHUNK_BYTES
            along = chunk % per_row * CHUNK_BYTES + chunk // per_row * far
        plain = start_bytes + line % mode.rows * mode.row_bytes + line // mode.rows * between + along
        phase = PHASE_BYTES * d.base_offset
        addresses: Array = mode.swizzle(plain - phase) + phase
        return addresses

    def matrix(self, chunks: Array) -> Array:
        """The operand's bytes (rows, k, bytes of an element), of chunks (outer, inner, 16) in that order."""
        lines = chunks.reshape(len(chunks), -1, self.element_bytes)
        return lines if self.major == "K" else lines.transpose(1, 0, 2)
