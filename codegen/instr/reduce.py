"""Reductions of floats: within a lane's registers, and between the lanes of a warp.

The idea.  A lane folds its values into accumulators, then the lanes of a warp exchange them in a butterfly:

    fill(4)                  d[i] = a word, such as the neutral element
    within(8)                v[i] stays where low <= base + i < high, and is `other` elsewhere
    window(8, 2)             8 elements of 2 bytes, from `start` on, of 16: no aligned vector
    fold("max", 8, 1)        d = max(d, v[0], ..., v[7])             eight values of one sum
    fold("sum", 4, 4)        d[i] += v[i]                            four sums side by side
    butterfly("sum", 1)      d += d of the lane whose number differs in the bits of `mask`

After butterflies with the masks 1, 2, 4, 8, 16 every lane has the sum of all 32, and all have the same bits:
each adds the same pairs, and both operations commute.

Notes.  Several values of one accumulator are joined as a tree, pairs of neighbours first, then added to it;
text and effect walk the same tree, so that sums agree to the last bit.  A maximum is NaN when any value is.

Sources: PTX ISA 9.0, 9.7.3.12 (max.NaN, sm_80), 9.7.3.3 (add.rn), 9.7.9.6 (shfl.sync.bfly).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy

from layoutalg.codegen.instr.packing import Array
from layoutalg.codegen.instr.record import WARP, Instr, Requires, imm, into, updated, value
from layoutalg.codegen.instr.record import out as output
from layoutalg.errors import UnknownNameError, UnsupportedError

T = TypeVar("T")

NEUTRAL: Mapping[str, int] = MappingProxyType({"sum": 0x00000000, "max": 0xFF800000})
"""The word of each operation that changes nothing: 0.0f and -infinity."""

_JOIN: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {"sum": numpy.add, "max": numpy.maximum}
)
_TEXT: Mapping[str, str] = MappingProxyType(
    {
        "sum": "const float {d} = __fadd_rn({a}, {b});",
        "max": 'float {d};\n    asm("max.NaN.f32 %0, %1, %2;" : "=f"({d}) : "f"({a}), "f"({b}));',
    }
)
_SM = {"sum": 70, "max": 80}


def tree(parts: Sequence[T], join: Callable[[T, T], T]) -> T:
    """Parts joined pair by pair, neighbours first: the shape of every sum within a lane.

    >>> tree("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    while len(parts) > 1:
        pairs = [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, parts[-1]] if len(parts) % 2 else pairs
    return parts[0]


def joined(op: str, a: Array, b: Array) -> Array:
    """Words of floats joined by an operation, rounded to float32.

    >>> joined("sum", *(numpy.array([[x]], dtype="f4").view("u4") for x in (1.0, 2.0))).view("f4").tolist()
    [[3.0]]
    """
    with numpy.errstate(all="ignore"):
        x, y = (numpy.ascontiguousarray(w).view(numpy.float32) for w in (a, b))
        return _JOIN[op](x, y).view(numpy.uint32)


class _Lines:
    """C statements that join floats, each into a name of its own."""

    def __init__(self, op: str) -> None:
        self.op, self.lines = op, list[str]()

    def join(self, a: str, b: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"    {_TEXT[self.op].format(d=name, a=a, b=b)}\n")
        return name

    def put(self, place: str, a: str) -> None:
        self.lines.append(f"    {place} = __float_as_uint({a});\n")


def _known(op: str) -> None:
    if op not in _JOIN:
        raise UnknownNameError("reduction", op, _JOIN)


def _ref(name: str, words: int, const: str = "") -> str:
    return f"{const}u32{'&' if words == 1 else '*'} {name}"


def _at(name: str, i: int, words: int) -> str:
    return name if words == 1 else f"{name}[{i}]"


@functools.cache
def fill(n: int) -> Instr:
    """d[i] = word for n words.

    >>> fill(4).name
    'fill_4'
    """

    def effect(machine: Any, group: Any, word: Array) -> Array:
        return numpy.repeat(word, n, axis=1)

    lines = " ".join(f"{_at('d', i, n)} = word;" for i in range(n))
    text = f"void fill_{n}({_ref('d', n)}, u32 word) {{ {lines} }}"
    return Instr(f"fill_{n}", (output("d", n), value("word")), text, effect)


@functools.cache
def within(n: int) -> Instr:
    """v[i] stays where low <= base + i < high, and becomes `other` elsewhere, for n words.

    `base + n` must stay below 2^32.

    >>> within(8).name
    'within_8'
    """

    def effect(
        machine: Any, group: Any, v: Array, base: Array, low: Array, high: Array, other: Array
    ) -> Array:
        at = base.astype(numpy.int64) + numpy.arange(n)
        return numpy.where((low <= at) & (at < high), v, other).astype(numpy.uint32)

    lines = "".join(
        f"    {_at('v', i, n)} = base + {i}u >= low && base + {i}u < high ? {_at('v', i, n)} : other;\n"
        for i in range(n)
    )
    text = f"void within_{n}({_ref('v', n)}, u32 base, u32 low, u32 high, u32 other) {{\n{lines}}}"
    operands = (updated("v", n), value("base"), value("low"), value("high"), into("other", 1))
    return Instr(f"within_{n}", operands, text, effect)


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
    name, at = f"window_{n}_b{8 * element_bytes}", "start / 2" if per == 2 else "start"
    held = ", ".join(_at(x, i, words) for x in "ab" for i in range(words))
    lines, bit = f"    u32 w[{2 * words + 1}] = {{{held}, 0}};\n    const u32 q = {at};\n", words
    while bit:
        moved = " ".join(f"w[{i}] = w[{i + bit}];" for i in range(2 * words + 1 - bit))
        lines, bit = lines + f"    if (q & {bit}) {{ {moved} }}\n", bit // 2
    for i in range(words):
        half = f"__byte_perm(w[{i}], w[{i + 1}], start & 1 ? 0x5432 : 0x3210)"
        lines += f"    {_at('d', i, words)} = {half if per == 2 else f'w[{i}]'};\n"

    def effect(machine: Any, group: Any, a: Array, b: Array, start: Array) -> Array:
        carrier = numpy.uint16 if per == 2 else numpy.uint32
        both = numpy.ascontiguousarray(numpy.concatenate([a, b], axis=1)).view(carrier)
        at = numpy.minimum(start, n).astype(numpy.int64) + numpy.arange(n)
        return numpy.ascontiguousarray(numpy.take_along_axis(both, at, axis=1)).view(numpy.uint32)

    signature = f"{_ref('d', words)}, {_ref('a', words, 'const ')}, {_ref('b', words, 'const ')}, u32 start"
    operands = (output("d", words), into("a", words), into("b", words), value("start"))
    return Instr(name, operands, f"void {name}({signature}) {{\n{lines}}}", effect)


@functools.cache
def fold(op: str, n: int, accumulators: int) -> Instr:
    """n floats joined into 1 accumulator (a tree of them), or into n, one by one; `op` is "sum" or "max".

    Raises UnknownNameError for another operation, UnsupportedError for another number of accumulators.

    >>> fold("max", 8, 1).name, fold("sum", 4, 4).name
    ('fold_max_8_to_1', 'fold_sum_4_to_4')
    """
    _known(op)
    if accumulators not in (1, n):
        raise UnsupportedError(f"fold of {n} values into {accumulators}: 1 or {n} are accepted")
    text = _Lines(op)
    floats = [f"__uint_as_float({_at('v', i, n)})" for i in range(n)]
    shares = [floats] if accumulators == 1 else [[x] for x in floats]
    for i, share in enumerate(shares):
        d = _at("d", i, accumulators)
        text.put(d, text.join(f"__uint_as_float({d})", tree(share, text.join)))

    def effect(machine: Any, group: Any, d: Array, v: Array) -> Array:
        join = functools.partial(joined, op)
        return join(d, tree([v[:, i : i + 1] for i in range(n)], join) if accumulators == 1 else v)

    name = f"fold_{op}_{n}_to_{accumulators}"
    signature = f"{_ref('d', accumulators)}, {_ref('v', n, 'const ')}"
    operands = (updated("d", accumulators), into("v", n))
    body = f"void {name}({signature}) {{\n{''.join(text.lines)}}}"
    return Instr(name, operands, body, effect, Requires(sm=_SM[op]))


@functools.cache
def butterfly(op: str, n: int) -> Instr:
    """d[i] joined with d[i] of lane ^ mask, for n floats; all lanes of the warp must take part.

    Raises UnknownNameError for another operation than "sum" and "max".

    >>> butterfly("sum", 1).name
    'butterfly_sum_1'
    """
    _known(op)
    text = _Lines(op)
    for i in range(n):
        d = _at("d", i, n)
        other = f"__uint_as_float(__shfl_xor_sync(0xFFFFFFFFu, {d}, mask))"
        text.put(d, text.join(f"__uint_as_float({d})", other))

    def effect(machine: Any, group: Any, mask: int, d: Array) -> Array:
        return joined(op, d, d[numpy.arange(len(d)) ^ (mask % WARP)])

    name = f"butterfly_{op}_{n}"
    body = f"void {name}({_ref('d', n)}) {{\n{''.join(text.lines)}}}"
    requires = Requires(sm=_SM[op], warp_converged=True)
    return Instr(name, (imm("mask"), updated("d", n)), body, effect, requires)
