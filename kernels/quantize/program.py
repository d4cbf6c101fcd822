"""The program of a quantisation, and its ways.

A thread holds `vec` neighbouring elements of a block, so that a few lanes have a block and find its largest
element by a butterfly; each of them computes the scale, and the first one stores it.  Rows that vectors do
not divide are moved in units of their largest common divisor.  Vectors are counted along padded rows, so that
padding is written too.  A thread has one vector: with two, whose loads are in flight together, it holds 49
instead of 34 registers, and 15 of 18 drawn matrices took longer on an H200 (2026-12-01, seed 1405).

    number of a vector = part of a block + parts * (block of a row + blocks * row)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from math import frexp, gcd
from operator import and_
from typing import Any

from layoutalg.arch import BLOCK_FORMATS, DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.expr import simplify
from layoutalg.codegen.instr import CLEAR, LDG, ONE, STG, STG_WHOLE
from layoutalg.codegen.language import Fragment, KernelBuilder, converted
from layoutalg.codegen.program import Kernel, LaunchSequence, MemRef, launch_sequence
from layoutalg.codegen.terms import maximum, reciprocal, where
from layoutalg.errors import AlignmentError
from layoutalg.kernels.family import NEEDED, Candidate, Family
from layoutalg.kernels.model import Clock, Expected, moved_bytes, stream_us
from layoutalg.kernels.modes import compact_strides
from layoutalg.kernels.quantize.problem import LARGEST, TARGETS, QuantizeProblem, quantize_problem

THREADS, MOST_ELEMENTS, UNIT_BYTES, WORD_BYTES = 256, 16, 16, 4
INFINITY, MANTISSA_BITS = 0x7F800000, 23
INVERSE_OF_LARGEST = 0x00400000
"""2^-127 as a float."""


@dataclass(frozen=True, slots=True)
class QuantizeConfig:
    """Elements of a thread's vector.

    >>> build(quantize_problem("nvfp4", (128, 64)), QuantizeConfig(vec=16)).threads
    256
    """

    vec: int


def candidates(p: QuantizeProblem, arch: str | Arch = DEFAULT_ARCH) -> Iterator[Candidate]:
    """Vectors from the widest on, each with the reason why it cannot be.

    >>> [(c.config.vec, c.why) for c in candidates(quantize_problem("mxfp8", (5, 35)))][3:]
    [(2, 'vectors of 2 elements: rows of 35 bf16 start inside of words'), (1, '')]
    """
    vec = MOST_ELEMENTS
    while vec * p.result.bits >= 8:
        unit = gcd(p.shape[1], vec)
        reason = None
        # what is stored in pieces is shifted out of words of results
        if unit < vec and min(unit * p.dtype.nbytes, vec * p.result.bits // 8) < WORD_BYTES:
            what = f"vectors of {vec} elements: rows of {p.shape[1]} {p.dtype} start inside of words"
            reason = AlignmentError(what, offset=0, required_bytes=WORD_BYTES)
        yield Candidate(QuantizeConfig(vec), reason)
        vec //= 2


def build(p: QuantizeProblem, c: QuantizeConfig) -> Kernel:
    """The tile program of a configuration.

    >>> build(quantize_problem("mxfp8", (64, 64)), QuantizeConfig(8)).name
    'quantize_mxfp8_e4m3_bf16'
    """
    (m, columns), (rows, blocks), block = p.shape, p.padded, p.format.block
    k = KernelBuilder(f"quantize_{p.format.name}_{p.result}_{p.dtype}", THREADS, notes=["", f"{p}."])
    parts, per_byte = block // c.vec, 8 // p.result.bits
    x, q, scales = (
        k.tensor(name, element, shape, compact_strides(shape), writable=name != "x")
        for name, (element, shape) in p.arrays.items()
    )
    global_scale = k.scalar("global_scale", "f32") if p.format.scale == "ue4m3" else None
    unit = _unit(p, c)
    at_once = gcd(unit, UNIT_BYTES // p.dtype.nbytes)
    held = k.fragment("x", p.dtype, (c.vec,), values=c.vec)
    number = k.let("vector", k.block(0, rows * blocks * parts // THREADS) * THREADS + k.tid)
    part, row = number % parts, number // parts // blocks
    column = simplify(number // parts % blocks * block + part * c.vec)
    by_size = None
    if global_scale is not None:
        by_size = k.map(global_scale * (1 / LARGEST["e2m1"]), into=k.fragment("by_size", "f32", (1,)))

    def inside(n: int) -> AbstractContextManager[Any]:
        """A branch, where rows or columns are padded, that a unit of the matrix takes."""
        limits = ((row, m, rows), (simplify(column + n), columns, blocks * block))
        bounds = [e < n for e, n, most in limits if n < most]
        return k.If(reduce(and_, bounds)) if bounds else nullcontext()

    if (m, columns) != (rows, blocks * block):
        for n in range(0, c.vec, at_once):
            k.do(CLEAR[at_once * p.dtype.nbytes], held.at(n, values=at_once))
    for n in range(0, c.vec, unit):
        with inside(n):
            for e in range(n, n + unit, at_once):
                source = _element(x, (row, simplify(column + e)))
                k.do(LDG[at_once * p.dtype.nbytes], held.at(e, values=at_once), source)
    amax = k.reduce("max", k.map(abs(held)), lanes=parts, name="amax")
    if by_size is None:
        code, inverse = _power(k, amax, LARGEST[p.result.name])
    else:
        code, inverse = _number(k, amax, by_size, global_scale)
    made = converted(k, k.map(held * inverse), p.result.name, values=c.vec).recast("u8")
    for n in range(0, c.vec, unit):
        with inside(n):
            target, count = _element(q, (row, simplify((column + n) // per_byte))), unit // per_byte
            piece = made.at(n // per_byte, values=count)
            if shift := n // per_byte % WORD_BYTES * 8:
                piece = k.map(made.recast("u32")[n // per_byte // WORD_BYTES] >> shift).words
            k.do(STG_WHOLE[count], target, piece)
    with k.If(part < 1):
        k.do(STG[1], _element(scales, (p.scales(row, column),)), code.words)
    return k.build()


def _element(tensor: Any, crd: tuple[Any, ...]) -> MemRef:
    return MemRef(tensor.buffer, simplify(tensor.buffer.index(crd)), tensor, crd)


def _power(k: KernelBuilder, amax: Fragment, largest: float) -> tuple[Fragment, Fragment]:
    """The code of the least power of two s with amax / s <= largest, and 1 / s: a carry rounds it up."""
    part, exponent = frexp(largest)
    up = (1 << MANTISSA_BITS) - 1 - int((2 * part - 1) * (1 << MANTISSA_BITS))
    bits, above = amax.recast("u32"), exponent - 1
    finite = (maximum(bits + up, above << MANTISSA_BITS) >> MANTISSA_BITS) - above
    code = k.map(where(bits < INFINITY, finite, where(bits.eq(INFINITY), 254, 255)), name="code")
    inverse = where(bits < INFINITY, (254 - code) << MANTISSA_BITS, INVERSE_OF_LARGEST)
    return code, k.map(inverse, name="inverse").recast("f32")


def _number(
    k: KernelBuilder, amax: Fragment, by_size: Fragment, global_scale: Any
) -> tuple[Fragment, Fragment]:
    """The scale as an e4m3, and the inverse of what it stands for."""
    code = converted(k, k.map(amax * by_size, name="size"), "e4m3")
    number = converted(k, code, "f32")
    return code, k.map(where(number.eq(0.0), 0.0, global_scale * reciprocal(number)), name="inverse")


def launches(p: QuantizeProblem, c: QuantizeConfig, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The one launch of a configuration."""
    return launch_sequence([build(p, c)])


ACCESS, ELEMENT, HALF_BYTE, NUMBER = 55, 3, 7, 40
"""Instructions of a thread per load and store, per element of a byte and of half of one, and more for a scale
that is not a power of two.

Fitted to 35 drawn matrices on an H200 with a cold L2 (2026-12-01), of which 33 are expected within 10 %."""


def clock(p: QuantizeProblem, c: QuantizeConfig, arch: str | Arch) -> Clock:
    """The time of a quantisation: memory, instructions of vectors and their elements, and turns of loads.

    >>> from layoutalg.kernels.model import machine_of
    >>> p = quantize_problem("mxfp8", (8192, 8192))
    >>> 46 < clock(p, next(candidates(p)).config, "sm_90")(machine_of("sm_90")).us < 54
    True
    """
    vectors, size = p.padded[0] * p.padded[1] * p.format.block // c.vec, p.dtype.nbytes
    unit = _unit(p, c)
    each = ACCESS * (c.vec // gcd(unit, UNIT_BYTES // size) + c.vec // unit)
    each += c.vec * (HALF_BYTE if p.result.bits < 8 else ELEMENT) + NUMBER * (p.format.scale == "ue4m3")
    blocks, flight = -(-vectors // THREADS), c.vec * size
    nbytes = moved_bytes(p.bytes[0], sum(p.bytes[1:]))
    instructions = vectors / find_arch(arch).lanes * each
    return lambda m: Expected(stream_us(nbytes, instructions, blocks, THREADS, flight, m))


def _unit(p: QuantizeProblem, c: QuantizeConfig) -> int:
    """Elements that a thread stores at once: rows that vectors do not divide start inside of them."""
    return gcd(p.shape[1], c.vec, UNIT_BYTES * (8 // p.result.bits))


def _scalars(p: QuantizeProblem) -> dict[str, int]:
    return {"global_scale": ONE["f32"][0]} if p.format.scale == "ue4m3" else {}


QUANTIZE_FAMILIES = tuple(
    Family(
        f"quantize_{name}",
        f"elements and scales of {name}, the scales in tiles of 128 by 4 as cuBLAS takes them",
        partial(quantize_problem, name),
        candidates,
        launches,
        {"shape": NEEDED, "result": None},
        scalars=_scalars,
        clock=clock,
    )
    for name, kind in BLOCK_FORMATS.items()
    if kind.elements[0] in TARGETS
)
"""The families of this room."""
