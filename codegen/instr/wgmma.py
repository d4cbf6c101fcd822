"""wgmma: D (64 x N) += A (64 x K) B (K x N) by the four warps of a warpgroup, asynchronously.

The idea.  An instruction is one of CuTe's SM90 atoms; everything it needs follows from the atom: the words of
D and of an A in registers, the PTX text, what is added.  An operand in shared memory is a place and a form,
the bits of its descriptor, whose start counts from the place:

    wgmma_m64n128k16_f32_f16_f16_ss<0x4000004000010002ull, 0x4000004000010002ull, 1, 1, 0, 0>(
        acc[0], tile_a + stage * 16384, tile_b + stage * 16384, 1)

Here a and b start 2 times 16 bytes behind the places; `accumulate` 0 forgets what was in D; the scales are 1
or -1, and exist for sums of f16 and f32; a_mn and b_mn are 1 for MN-major operands, and exist for elements of
16 bits.

    WGMMA_FENCE          before the first wgmma, and after D or A was touched by anything else
    find_wgmma(atom)     starts; D, A in registers, and the bytes of both tiles are its own from here on
    WGMMA_COMMIT         closes the group of what was started since the last one
    WGMMA_WAIT(n)        until at most the n newest groups are unfinished: what the others own is free again

Notes.  All of them are executed by whole warpgroups, four warps from a multiple of four on.  Shared memory
that ordinary stores have written needs fence.proxy.async before.  The simulator multiplies in float64 and
rounds once; on small integers both are exact.  Of tf32 the low 13 bits are ignored; TMA rounds them before.

Tiles.  The tensor core reads an operand in shared memory in chunks of 16 bytes: along K where it is K-major,
along M or N else.  A chunk's place is a sum of a few strides; the bits of the address are XORed last:

    K-major    (8,m):(W,SBO) rows, c chunks of 16 (swizzled) or LBO (none) bytes
    MN-major   (W,m):(1,LBO) bytes along M or N, (8,k):(W,SBO) rows along K; with no swizzle LBO and SBO swap

with W = 16, 32, 64, 128 bytes of a row of the swizzle mode.  layoutalg.legality's element_address is the
definition, an element at a time; tests compare the two, and both with what an H200 read.

Sources: PTX ISA 9.0, 9.7.15.5 (wgmma.mma_async; 9.7.15.5.1, matrix descriptor, canonical layouts), 9.7.15.7.1
(wgmma.fence), 9.7.15.7.2 (wgmma.commit_group), 9.7.15.7.3 (wgmma.wait_group); which types, sizes and majors
there are: layoutalg.arch.mma_kinds.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from layoutalg.arch import CHUNK_BYTES, Major, SmemDescriptor, decode_descriptor
from layoutalg.atoms import MMAAtom, find_mma_atom
from layoutalg.codegen.instr.mma import cached_places, gathered
from layoutalg.codegen.instr.record import (
    Asked,
    Instr,
    Operand,
    Requires,
    imm,
    in_ptx,
    into,
    nothing,
    place,
    updated,
    value,
)
from layoutalg.codegen.instr.words import ADDRESS, PACKED, Array, at, decode, each, encode, holes, ref
from layoutalg.errors import UnsupportedError

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
        """Byte addresses of the 16-byte chunks, where the descriptor's start counts from `start_bytes`.

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
        plain = (
            start_bytes
            + d.start_bytes
            + line % mode.rows * mode.row_bytes
            + line // mode.rows * between
            + along
        )
        phase = PHASE_BYTES * d.base_offset
        addresses: Array = mode.swizzle(plain - phase) + phase
        return addresses

    def matrix(self, chunks: Array) -> Array:
        """The operand's bytes (rows, k, bytes of an element), of chunks (outer, inner, 16) in that order."""
        lines = chunks.reshape(len(chunks), -1, self.element_bytes)
        return lines if self.major == "K" else lines.transpose(1, 0, 2)


WARPGROUP = 128
"""Threads of a warpgroup."""

_WARPGROUP = Requires(sm=90, warp_converged=True, warpgroup_converged=True, arch_specific=True)

_START = """u64 matrix_start(const void* p) {
    return (shared_address(p) & 0x3FFFFu) >> 4;
}"""
"""The start address of a descriptor: bits 13..0, in units of 16 bytes.  No sum with a constant start reaches
bit 14, which is 256 KiB."""


def find_wgmma(atom: MMAAtom | str) -> Instr:
    """The instruction of an SM90 atom, given as such or by name.

    Raises UnsupportedError for an atom that is not a dense wgmma, UnknownNameError for names.

    >>> find_wgmma("SM90_64x128x16_F32F16F16_SS").name
    'wgmma_m64n128k16_f32_f16_f16_ss'
    """
    atom = find_mma_atom(atom)
    if not atom.ptx.startswith("wgmma.mma_async.sync"):
        raise UnsupportedError(f"{atom} is {atom.ptx}; the atoms SM90_64xNxK_... without SPARSE are accepted")
    return _made(atom)


@functools.cache
def _made(atom: MMAAtom) -> Instr:
    effect = functools.partial(_start, atom)
    return Instr(_name(atom), _operands(atom), _text(atom), effect, _WARPGROUP, uses=(ADDRESS, _START))


def _name(atom: MMAAtom) -> str:
    m, n, k = atom.shape_mnk
    types = f"{atom.dtypes.d}_{atom.dtypes.a}_{atom.dtypes.b}"
    sources = "ss" if atom.a_in == "shared" else "rs"
    return f"wgmma_m{m}n{n}k{k}_{types}_{sources}{'_satfinite' if atom.arithmetic == 'saturate' else ''}"


def _immediates(atom: MMAAtom) -> tuple[str, ...]:
    """The names of the immediates behind the predicate, in PTX's order."""
    scales = () if atom.dtypes.d.name == "s32" else ("a_scale", "b_scale")
    if atom.dtypes.a.bits != 16:
        return scales
    return (*scales, *(("a_mn",) if atom.a_in == "shared" else ()), "b_mn")


def _words(atom: MMAAtom, operand: str) -> str:
    """The kind of the words of D or A in registers."""
    name = (atom.dtypes.d if operand == "d" else atom.dtypes.a).name
    return "f32" if name == "f32" else PACKED.get(name, "")


def _operands(atom: MMAAtom) -> tuple[Operand, ...]:
    d = updated("d", atom.registers("C"), _words(atom, "d"), deferred=True)
    shared = atom.a_in == "shared"
    a = place("a", 16) if shared else into("a", atom.registers("A"), _words(atom, "a"), deferred=True)
    forms = (imm("a_form", "u64"), imm("b_form", "u64")) if shared else (imm("b_form", "u64"),)
    more = tuple(imm(name) for name in _immediates(atom))
    return (d, a, place("b", 16), value("accumulate"), *forms, *more)


def _text(atom: MMAAtom) -> str:
    held, words = atom.registers("C"), atom.registers("A")
    a, inputs = f"%{held}", ['"l"(a_form + matrix_start(a))']
    if words:
        a, inputs = holes(held, words), [f'"r"(a[{i}])' for i in range(words)]
    behind = range(held + len(inputs), held + len(inputs) + 2 + len(_immediates(atom)))
    b, accumulate, *more = (f"%{i}" for i in behind)
    inputs += ['"l"(b_form + matrix_start(b))', '"r"(accumulate)']
    inputs += [f'"n"({name})' for name in _immediates(atom)]
    kind = "f" if _words(atom, "d") == "f32" else "r"
    ptx = f"{atom.ptx} {holes(0, held)}, {', '.join((a, b, 'p', *more))};"
    lines = [".reg .pred p;", f"setp.ne.b32 p, {accumulate}, 0;", *textwrap.wrap(ptx, 90)]
    shown = "\n".join(f'        "{line} "' for line in ["{", *lines, "}"])
    from_a = ref("a", words, _words(atom, "a"), const=True) if words else "const void* a"
    d = ref("d", held, _words(atom, "d"))
    return (
        f"void {_name(atom)}({d}, {from_a}, const void* b, u32 accumulate) {{\n    asm volatile(\n{shown}\n"
        f"{_filled(': ', [f'{chr(34)}+{kind}{chr(34)}(d[{i}])' for i in range(held)])}\n"
        f"{_filled(': ', inputs)});\n}}"
    )


def _filled(start: str, parts: list[str]) -> str:
    return textwrap.fill(
        start + ", ".join(parts), 104, initial_indent=" " * 8, subsequent_indent=" " * 10,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


# --- what it does ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Product:
    """The product that one wgmma is to make when it is waited for.

    `shape` is M, N, K and the type of D: instructions of one shape may follow each other on one D.  `a` is
    registers or None; `tiles` are what lies in shared memory, A before B, each with its place;
    `multiply(d, a, tiles)` takes words (128, n) and bytes (chunks along, chunks, 16), d None for zeros.
    """

    shape: tuple[int, int, int, str]
    d: Any
    a: Any
    tiles: tuple[tuple[Any, SharedTile], ...]
    accumulate: Array
    multiply: Callable[[Array | None, Array | None, Sequence[Array]], Array]

    @property
    def held(self) -> tuple[Any, ...]:
        """The registers that it owns until then."""
        return (self.d,) if self.a is None else (self.d, self.a)


def _start(
    atom: MMAAtom, machine: Any, group: Any, d: Any, a: Any, b: Any, accumulate: Array, *immediates: int
) -> None:
    """Tell the matrix engine what to multiply."""
    shared, (m, n, k) = atom.a_in == "shared", atom.shape_mnk
    forms = immediates[: 1 + shared]
    more = dict(zip(_immediates(atom), immediates[1 + shared :], strict=True))
    tiles = tuple(
        (place, SharedTile(decode_descriptor(form), "MN" if more.get(mn) else "K", element.nbytes, size, k))
        for (place, element, size, mn), form in zip(
            ((a, atom.dtypes.a, m, "a_mn"), (b, atom.dtypes.b, n, "b_mn"))[1 - shared :], forms, strict=True
        )
    )
    scale = more.get("a_scale", 1) * more.get("b_scale", 1)
    multiply = functools.partial(_multiply, atom, scale, tuple(tile for _, tile in tiles))
    shape = (m, n, k, atom.dtypes.d.name)
    machine.matrix.start(group, Product(shape, d, None if shared else a, tiles, accumulate, multiply))


def _multiply(
    atom: MMAAtom, scale: int, tiles: tuple[SharedTile, ...], d: Array | None, a: Array | None,
    read: Sequence[Array],
) -> Array:  # fmt: skip
    """The words of D (128, n): scale A B, or with `d` its words that much more."""
    m = atom.shape_mnk[0]
    matrices = [
        decode(numpy.ascontiguousarray(tile.matrix(chunks)).reshape(tile.rows, -1).view(numpy.uint32), name)
        for tile, chunks, name in zip(
            tiles, read, [x.name for x in (atom.dtypes.a, atom.dtypes.b)][-len(tiles) :], strict=True
        )
    ]
    if a is not None:
        matrices.insert(0, gathered(a, atom.a_tv, atom.dtypes.a.name, m, WARPGROUP)[0])
    left, right = matrices
    total = atom.dtypes.d.name
    with numpy.errstate(all="ignore"):
        before = 0 if d is None else gathered(d, atom.c_tv, total, m, WARPGROUP)[0]
        sums = scale * left @ right.T + before
        if atom.arithmetic == "saturate":
            sums = numpy.clip(sums, -(1 << 31), (1 << 31) - 1)
        flat = sums.T.reshape(-1)
        return encode(flat[cached_places(atom.c_tv)], total)


WGMMA_FENCE = in_ptx(
    "wgmma_fence", "wgmma.fence.sync.aligned;", Asked("matrix.fence"),
    requires=_WARPGROUP,
)  # fmt: skip
"""Orders what the warpgroup did to registers before what wgmma will do to them."""

WGMMA_COMMIT = in_ptx(
    "wgmma_commit", "wgmma.commit_group.sync.aligned;", Asked("matrix.commit"),
    requires=_WARPGROUP,
)  # fmt: skip
"""Closes the group of the wgmmas that were started since the last one."""

WGMMA_WAIT = in_ptx(
    "wgmma_wait", "wgmma.wait_group.sync.aligned %0;",
    Asked("matrix.wait"), imm("newest"), requires=_WARPGROUP,
)  # fmt: skip
"""Waits until at most the `newest` groups of the warpgroup are unfinished."""


@functools.cache
def hold(words: int, element: str = "") -> Instr:
    """Keeps other instructions on `words` registers of `element` behind a wait, or in front of a fence.

    It computes nothing.  The compiler does not know that a wait is what finishes accumulators, and could read
    them before: it would have to serialize the products then.

    >>> hold(4, "f32").name
    'hold_4_f32'
    """
    kind = "f" if element == "f32" else "r"
    name = f"hold_{words}{f'_{element}' if element else ''}"
    body = each(words, [f'asm volatile("" : "+{kind}"({at("d", "i", words)}));'])
    text = f"void {name}({ref('d', words, element)}) {{\n{body}}}"
    return Instr(name, (updated("d", words, element, deferred=True),), text, nothing)
