"""Reductions: within a lane's registers, and between the lanes of a warp.

The idea.  A lane folds its values into accumulators, then the lanes of a warp exchange them in a butterfly:

    fill(4)                  d[i] = a word, such as the neutral element
    within(8)                v[i] stays where low <= base + i < high, and is `other` elsewhere
    count_within(8)          d += the number of those that stay
    window(8, 2)             8 elements of 2 bytes, from `start` on, of 16: no aligned vector
    fold("max", 8, 1)        d = max(d, v[0], ..., v[7])             eight values of one sum
    fold("sum", 4, 4)        d[i] += v[i]                            four sums side by side
    butterfly("sum", 1)      d += d of the lane whose number differs in the bits of `mask`

After butterflies with the masks 1, 2, 4, 8, 16 every lane has the sum of all 32, and all have the same bits:
each adds the same pairs, and these operations commute.

A value that a float does not hold has several words, see `folds`: `butterfly` and `fold` know those by
name, n words of them.

Notes.  Several values of one accumulator are joined as a tree, pairs of neighbours first, then added to it;
text and effect walk the same tree, so that sums agree to the last bit.  A maximum and a minimum are NaN when
any value is.

Sources: PTX ISA 9.0, 9.7.3.12 (max.NaN), 9.7.3.3 (add.rn), 9.7.9.6 (shfl.sync.bfly).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.folds import FOLDS, exchange, join
from layoutalg.codegen.instr.lanewise import KNOWN, Block, lanewise
from layoutalg.codegen.instr.record import ANY, WARP, Instr, Requires, imm, into, updated, value
from layoutalg.codegen.instr.record import out as output
from layoutalg.codegen.instr.words import (
    Array,
    at,
    each,
    float_words,
    floats,
    ref,
)
from layoutalg.errors import UnknownNameError, UnsupportedError

NEUTRAL: Mapping[str, int] = MappingProxyType(
    {"sum": 0x00000000, "max": 0xFF800000, "min": 0x7F800000, "prod": 0x3F800000}
)
"""The word of each operation that changes nothing: 0.0f, -infinity, infinity and 1.0f."""

_JOIN: Mapping[str, str] = MappingProxyType({"sum": "add", "max": "max", "min": "min", "prod": "mul"})
"""The operation of `lanewise` that joins two floats."""


def joined(op: str, a: Array, b: Array) -> Array:
    """Words of floats joined by an operation, rounded to float32.

    >>> joined("sum", *(numpy.array([[x]], dtype="f4").view("u4") for x in (1.0, 2.0))).view("f4").tolist()
    [[3.0]]
    """
    with numpy.errstate(all="ignore"):
        return float_words(KNOWN[_JOIN[op]].effect(floats(a), floats(b)))


def _known(op: str) -> None:
    if op not in _JOIN:
        raise UnknownNameError("reduction", op, (*_JOIN, *FOLDS))


@functools.cache
def fill(n: int) -> Instr:
    """d[i] = word for n words.

    >>> fill(4).name
    'fill_4'
    """

    def effect(machine: Any, group: Any, word: Array) -> Array:
        return numpy.repeat(word, n, axis=1)

    def text(kind: str) -> str:
        # written out: from a loop nvcc makes other instructions, which take more registers
        lines = " ".join(f"{at('d', i, n)} = word;" for i in range(n))
        return f"void fill_{n}({_typed(ref('d', n), kind)}, {kind} word) {{\n    {lines}\n}}"

    operands = (output("d", n, ANY), value("word", ANY))
    return Instr(f"fill_{n}", operands, text("u32"), effect, float_text=text("float"))


def _typed(parameter: str, kind: str) -> str:
    return parameter.replace("u32", kind)


_INSIDE = """u32 inside(u32 n, u32 base, u32 low, u32 high) {
    const u32 first = min(max(base, low) - base, n), end = base < high ? min(high - base, n) : 0;
    return ((1u << end) - 1) & (0xFFFFFFFFu << first);
}"""
"""A bit for each of n < 32 numbers from base on: 1 where low <= base + i < high.  It is the same for all that
ask for one vector, which the compiler sees."""

_MANY = 8
"""Words from which on such bits take fewer instructions than two comparisons for each."""


def _are_inside(n: int, base: Array, low: Array, high: Array) -> Array:
    """Mark, of n numbers from base on, those from low on and below high, for each lane."""
    numbers = base.astype(numpy.int64) + numpy.arange(n)
    return (low <= numbers) & (numbers < high)


@functools.cache
def within(n: int) -> Instr:
    """v[i] stays where low <= base + i < high, and becomes `other` elsewhere, for n < 32 words.

    `base + n` must stay below 2^32.

    >>> within(8).name
    'within_8'
    """

    def effect(
        machine: Any, group: Any, v: Array, base: Array, low: Array, high: Array, other: Array
    ) -> Array:
        return numpy.where(_are_inside(n, base, low, high), v, other).astype(numpy.uint32)

    def text(kind: str) -> str:
        if n < _MANY:
            v, number = at("v", "i", n), "base + i" if n > 1 else "base"
            keeps = f"{v} = low <= {number} && {number} < high ? {v} : other;"
            lines = each(n, [keeps]).replace("(int i", "(u32 i")
        else:
            lines = f"    const u32 stays = inside({n}, base, low, high);\n"
            lines += each(n, ["v[i] = stays >> i & 1 ? v[i] : other;"])
        parameters = f"{_typed(ref('v', n), kind)}, u32 base, u32 low, u32 high, {kind} other"
        return f"void within_{n}({parameters}) {{\n{lines}}}"

    operands = (updated("v", n, ANY), value("base"), value("low"), value("high"), into("other", 1, ANY))
    uses = (_INSIDE,) if n >= _MANY else ()
    return Instr(f"within_{n}", operands, text("u32"), effect, uses=uses, float_text=text("float"))


@functools.cache
def count_within(n: int) -> Instr:
    """d += how many of n < 32 numbers from base on are from low on and below high: the words that `within`
    leaves as they are.

    >>> count_within(8).name
    'count_within_8'
    """

    def effect(machine: Any, group: Any, d: Array, base: Array, low: Array, high: Array) -> Array:
        count = _are_inside(n, base, low, high).sum(axis=1, keepdims=True)
        return joined("sum", d, float_words(count.astype(numpy.float32)))

    text = (
        f"void count_within_{n}(float& d, u32 base, u32 low, u32 high) {{\n"
        f"    d = __fadd_rn(d, __uint2float_rn(__popc(inside({n}, base, low, high))));\n}}"
    )
    operands = (updated("d", 1, "f32"), value("base"), value("low"), value("high"))
    return Instr(f"count_within_{n}", operands, text, effect, uses=(_INSIDE,))


@functools.cache
def window(n: int, element_bytes: int) -> Instr:
    """Elements start to start + n - 1 of a and b, n packed elements each, a first; 0 <= start <= n.

    Raises UnsupportedError for elements that are not 2 or 4 bytes wide, and for n that fill no power of two
    of words.

    >>> window(8, 2).name
    'window_8_b16'
    """
    words = n * element_bytes // 4
    if element_bytes not in (2, 4) or words < 1 or words & (words - 1) or words * 4 != n * element_bytes:
        raise UnsupportedError(
            f"window of {n} elements of {element_bytes} bytes: 1, 2 or 4 words are accepted"
        )
    per = 4 // element_bytes
    name, word = f"window_{n}_b{8 * element_bytes}", "start / 2" if per == 2 else "start"
    held = ", ".join(at(x, i, words) for x in "ab" for i in range(words))
    count = 2 * words + 1

    def moved(i: object, after: object) -> str:
        return f"__byte_perm(w[{i}], w[{after}], start % 2 ? 0x5432 : 0x3210)" if per == 2 else f"w[{i}]"

    def text(kind: str) -> str:
        lines = f"    {kind} w[{count}] = {{{held}, 0}};\n    const u32 first = {word};\n"
        bit = words
        while bit:  # so that every index is a constant
            lines += (
                f"    if (first & {bit}) {{\n        #pragma unroll\n"
                f"        for (int i = 0; i < {count - bit}; ++i) w[i] = w[i + {bit}];\n    }}\n"
            )
            bit //= 2
        here = moved(0, 1) if words == 1 else moved("i", "i + 1")
        lines += each(words, [f"{at('d', 'i', words)} = {here};"])
        parameters = ", ".join((ref("d", words), ref("a", words, const=True), ref("b", words, const=True)))
        return f"void {name}({_typed(parameters, kind)}, u32 start) {{\n{lines}}}"

    def effect(machine: Any, group: Any, a: Array, b: Array, start: Array) -> Array:
        carrier = numpy.uint16 if per == 2 else numpy.uint32
        both = numpy.ascontiguousarray(numpy.concatenate([a, b], axis=1)).view(carrier)
        at = numpy.minimum(start, n).astype(numpy.int64) + numpy.arange(n)
        return numpy.ascontiguousarray(numpy.take_along_axis(both, at, axis=1)).view(numpy.uint32)

    kind = ANY if per == 1 else ""
    operands = (output("d", words, kind), into("a", words, kind), into("b", words, kind), value("start"))
    return Instr(name, operands, text("u32"), effect, float_text=text("float") if per == 1 else "")


@functools.cache
def fold(op: str, n: int, accumulators: int) -> Instr:
    """n floats joined into 1 accumulator (a tree of them), or into n, one by one; `op` is "sum", "max", "min"
    or "prod", or a `Fold`, whose values are joined one by one, n words of them.

    Raises UnknownNameError for another operation, UnsupportedError for another number of accumulators.

    >>> fold("max", 8, 1).name, fold("sum", 4, 4).name
    ('fold_max_8_to_1', 'fold_sum_4_to_4')
    """
    if op in FOLDS and accumulators == n:
        return join(op, n // FOLDS[op].words)
    _known(op)
    if accumulators not in (1, n):
        raise UnsupportedError(f"fold of {n} values into {accumulators}: 1 or {n} are accepted")
    own = _JOIN[op]
    block = Block({"d": (own, "d", "v" if accumulators == n else ("tree", own, "v"))}, accumulators)
    operands = (updated("d", accumulators), into("v", n))
    return lanewise(f"fold_{op}_{n}_to_{accumulators}", operands, block)


@functools.cache
def butterfly(op: str, n: int) -> Instr:
    """d[i] joined with d[i] of lane ^ mask, for n floats, or n words of a `Fold`; all lanes of the warp must
    take part.

    Raises UnknownNameError for another operation.

    >>> butterfly("sum", 1).name
    'butterfly_sum_1'
    """
    if op in FOLDS:
        return exchange(op, n // FOLDS[op].words)
    _known(op)
    d = at("d", "i", n)
    other, own = f"__shfl_xor_sync(0xFFFFFFFFu, {d}, mask)", KNOWN[_JOIN[op]]
    lines = each(n, [f"{d} = {own.text.format(a=d, b=other)};"])

    def effect(machine: Any, group: Any, mask: int, d: Array) -> Array:
        return joined(op, d, d[numpy.arange(len(d)) ^ (mask % WARP)])

    name = f"butterfly_{op}_{n}"
    body = f"void {name}({ref('d', n, 'f32')}) {{\n{lines}}}"
    requires = Requires(warp_converged=True)
    return Instr(name, (imm("mask"), updated("d", n, "f32")), body, effect, requires, uses=own.uses)
