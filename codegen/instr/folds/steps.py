"""The steps of kernels on values of several words: from elements to what they stand for.

    empty("arg", 2)                      d = what changes nothing
    absorb("arg", "f32", "max", 8, 1)    d = d joined with 8 elements, that have indices
    join("arg", 2)                       d[i] joined with v[i], values of the same fold
    exchange("arg", 2)                   d[i] joined with that of the lane whose number differs in a mask
    finish("arg", "s64", 2)              what d stands for: here the indices

Values of one accumulator are joined one after the other, in the order of their elements.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.folds.values import (
    FOLDS,
    ONE_MORE,
    WITH_ONE,
    WRITER,
    moments_of,
    power_of,
    ranked,
    words_of,
)
from layoutalg.codegen.instr.lanewise import KNOWN, number
from layoutalg.codegen.instr.record import WARP, Effect, Instr, Requires, imm, into, updated, value
from layoutalg.codegen.instr.record import out as output
from layoutalg.codegen.instr.words import Array, at, each, float_words, floats, ref
from layoutalg.errors import UnsupportedError

PARTIAL = "partial"
"""The element of `absorb` that is a value of the fold itself."""

INTEGERS = MappingProxyType(
    {
        "s8": ("signed char", numpy.int8), "u8": ("unsigned char", numpy.uint8),
        "s16": ("short", numpy.int16), "s32": ("int", numpy.int32), "s64": ("long long", numpy.int64),
    }
)  # fmt: skip
"""The types of integers that are folded, in C and as arrays."""


def _values(d: Array, name: str) -> Array:
    return d.reshape(len(d), -1, FOLDS[name].words)


@functools.cache
def empty(name: str, n: int) -> Instr:
    """d = n values of a fold that change nothing.

    >>> empty("arg", 2).operands[0].words
    4
    """
    neutral, count = FOLDS[name].neutral, n * FOLDS[name].words
    lines = " ".join(f"d[{i}] = {neutral[i % len(neutral)]}u;" for i in range(count))

    def effect(machine: Any, group: Any, on: Array) -> Array:
        return numpy.repeat(numpy.array([neutral * n], numpy.uint32), len(on), axis=0)

    text = f"void empty_{name}_{n}(u32* d, u32 lanes) {{\n    {lines}\n}}"
    return Instr(f"empty_{name}_{n}", (output("d", count), value("lanes")), text, effect)


def _join_lines(name: str, n: int) -> str:
    words = FOLDS[name].words
    return each(n, [f"join_{name}(d + {words} * i, v + {words} * i);"] if n > 1 else [f"join_{name}(d, v);"])


@functools.cache
def join(name: str, n: int) -> Instr:
    """d[i] joined with v[i], for n values of a fold.

    >>> join("moments", 1).operands[0].words
    4
    """
    fold, count = FOLDS[name], n * FOLDS[name].words

    def effect(machine: Any, group: Any, d: Array, v: Array) -> Array:
        return fold.effect(_values(d, name), _values(v, name)).reshape(d.shape)

    text = f"void join_{name}_{n}(u32* d, const u32* v) {{\n{_join_lines(name, n)}}}"
    return Instr(f"join_{name}_{n}", (updated("d", count), into("v", count)), text, effect, uses=fold.uses())


@functools.cache
def exchange(name: str, n: int) -> Instr:
    """d[i] joined with d[i] of lane ^ mask, for n values of a fold; all lanes of the warp must take part.

    >>> exchange("arg", 1).name
    'butterfly_arg_1'
    """
    fold, count = FOLDS[name], n * FOLDS[name].words

    def effect(machine: Any, group: Any, mask: int, d: Array) -> Array:
        other = d[numpy.arange(len(d)) ^ (mask % WARP)]
        return fold.effect(_values(d, name), _values(other, name)).reshape(d.shape)

    shuffled = each(count, ["v[i] = __shfl_xor_sync(0xFFFFFFFFu, d[i], mask);"])
    text = f"void butterfly_{name}_{n}(u32* d) {{\n    u32 v[{count}];\n{shuffled}{_join_lines(name, n)}}}"
    operands, requires = (imm("mask"), updated("d", count)), Requires(warp_converged=True)
    return Instr(f"butterfly_{name}_{n}", operands, text, effect, requires, uses=fold.uses())


def _loop(n: int, lines: Iterable[str]) -> str:
    """The lines of a helper that do `lines` for i = 0 .. n - 1, in a block of their own for one value too."""
    inside = "".join(f"        {line}\n" for line in lines)
    return f"    #pragma unroll\n    for (int i = 0; i < {n}; ++i) {{\n{inside}    }}\n"


def _element_line(element: str, n: int, words: int) -> str:
    """Element i of a register of n, as a float or an integer of 64 bits."""
    if element == "f32":
        return f"const float x = {at('v', 'i', n)};"
    if element == "s64":
        return "const long long x = (long long)((u64)v[2 * i + 1] << 32 | v[2 * i]);"
    kind, dtype = INTEGERS[element]
    per = 4 // numpy.dtype(dtype).itemsize
    word = at("v", f"i / {per}" if per > 1 else "i", words)
    shifted = f"({word} >> {32 // per} * (i % {per}))" if per > 1 else word
    return f"const long long x = ({kind}){shifted};"


@functools.cache
def absorb(name: str, element: str, way: str, n: int, accumulators: int) -> Instr:
    """d joined with n elements of a type, into 1 value of a fold, one after the other, or into n.

    Elements are "f32", packed integers such as "s8", or `PARTIAL`, values of the fold.  The first one has the
    given index, each after it that of `step` more.  Where `there` is 0 nothing is joined.  `way` says which
    elements the index is of: the "max", or the "min".  Raises UnsupportedError for another number of
    accumulators.

    >>> absorb("arg", "f32", "max", 4, 1).name
    'absorb_arg_max_f32_4_to_1'
    """
    if accumulators not in (1, n):
        raise UnsupportedError(f"fold of {n} values into {accumulators}: 1 or {n} are accepted")
    if name in ("logsumexp", "nll") and element == "f32" and accumulators == 1 < n:
        return _absorb_exponentials(name, n)
    if name == "moments" and element == "f32":
        return _absorb_together(n) if accumulators == 1 < n else _absorb_side_by_side(n)
    fold, per, of_arg = FOLDS[name], FOLDS[name].words, name.startswith("arg") and element != PARTIAL
    lift = {**ranked(element, way), **fold.lift} if of_arg else fold.lift
    words = n * per if element == PARTIAL else n if element == "f32" else max(1, n * _bytes(element) // 4)

    def effect(machine: Any, group: Any, step: int, d: Array, v: Array, first: Array, there: Array) -> Array:
        values, lifted = _values(d, name), _values(v, name) if element == PARTIAL else None
        if lifted is None:
            index = ((first.astype(numpy.int64) + step * numpy.arange(n)) & 0xFFFFFFFF).astype(numpy.uint32)
            x = floats(v) if element == "f32" else v.view(INTEGERS[element][1])[:, :n].astype(numpy.int64)
            lifted = fold.made(lift, {**fold.read(values), "x": x, "index": index})
        lifted = numpy.where(there[:, :1, None] != 0, lifted, numpy.array(fold.neutral, numpy.uint32))
        for some in [lifted] if accumulators == n else numpy.split(lifted, n, axis=1):
            values = fold.effect(values, some)
        return values.reshape(d.shape)

    lines = [f"u32* const to = d{f' + {per} * i' if accumulators > 1 else ''};", f"u32 e[{per}] = {{}};"]
    if element == PARTIAL:
        lines.append(f"for (int w = 0; w < {per}; ++w) e[w] = v[{per} * i + w];")
    else:
        index = {"index": "first + (u32)i * (u32)step"}
        lines += [_element_line(element, n, words), *fold.lines(lift, "e", fold.named("to") | index)]
    lines += [f"if (!there) e[{w}] = {word}u;" for w, word in enumerate(fold.neutral)]
    kind = "f32" if element == "f32" else ""
    title = f"absorb_{name}{f'_{way}' if of_arg else ''}_{element}_{n}_to_{accumulators}"
    loop = _loop(n, [*lines, f"join_{name}(to, e);"])
    return _absorbing(title, per * accumulators, words, kind, loop, effect, fold.uses(lift))


def _absorbing(
    title: str, values: int, words: int, kind: str, lines: str, effect: Effect, uses: tuple[str, ...]
) -> Instr:  # fmt: skip
    """The instruction that joins so many words of elements to so many of values."""
    parameters = f"u32* d, {ref('v', words, kind, const=True)}, u32 first, {ref('there', 1, const=True)}"
    operands = (
        imm("step"), updated("d", values), into("v", words, kind), value("first"), into("there", 1)
    )  # fmt: skip
    return Instr(title, operands, f"void {title}({parameters}) {{\n{lines}}}", effect, uses=uses)


def _absorb_exponentials(name: str, n: int) -> Instr:
    """The same for n floats at once: one maximum, and an exponential for each of them and for the value."""
    # joined one by one, each element would take two exponentials: here n + 1 serve n; those that are not
    # there are -infinity, and add 0
    fold, named = FOLDS[name], name == "nll"
    exponential = KNOWN["exp"].effect

    def effect(machine: Any, group: Any, step: int, d: Array, v: Array, first: Array, there: Array) -> Array:
        out, on = d.copy(), there[:, :1] != 0
        with numpy.errstate(all="ignore"):
            x = numpy.where(on, floats(v), numpy.float32(-numpy.inf))
            m, s = floats(d[:, :1]), floats(d[:, 1:2])
            most = numpy.maximum(m, x.max(axis=1, keepdims=True))
            base = number(fold.join["base"], {"most": most})
            s = s * exponential(m - base)
            for power in numpy.split(exponential(x - base), n, axis=1):
                s = s + power
        out[:, :1], out[:, 1:2] = float_words(most), float_words(s)
        if named:
            index = first[:, :1].astype(numpy.int64) + numpy.arange(n) * step + 1
            for i in range(n):
                hit = on[:, 0] & (index[:, i] & 0xFFFFFFFF == d[:, 3])
                out[:, 2] = numpy.where(hit, v[:, i], out[:, 2])
        return out

    power, base = WRITER.value(power_of("{}")), WRITER.value(fold.join["base"])
    lines = f"    const float m = __uint_as_float(d[0]);\n    float most = m, x[{n}];\n"
    lines += each(n, ["x[i] = there ? v[i] : -INFINITY;", "most = max_nan(most, x[i]);"])
    lines += f"    const float base = {base};\n"
    lines += f"    float s = __fmul_rn(__uint_as_float(d[1]), {power.format('m')});\n"
    lines += each(n, [f"s = __fadd_rn(s, {power.format('x[i]')});"])
    lines += "    d[0] = __float_as_uint(most);\n    d[1] = __float_as_uint(s);\n"
    hit = "if (there && first + (u32)i * (u32)step + 1 == d[3]) d[2] = __float_as_uint(v[i]);"
    lines += each(n, [hit]) if named else ""
    title = f"absorb_{name}_f32_{n}_to_1"
    return _absorbing(title, fold.words, n, "f32", lines, effect, fold.uses()[:-1])


def _absorb_together(n: int) -> Instr:
    """Moments joined with those of n floats: one division, where one by one each element would take one."""
    fold, made = FOLDS["moments"], moments_of(n)

    def effect(machine: Any, group: Any, step: int, d: Array, v: Array, first: Array, there: Array) -> Array:
        lifted = fold.made(made, {f"x{i}": floats(v[:, i : i + 1]) for i in range(n)})
        lifted = numpy.where(there[:, :1, None] != 0, lifted, numpy.array(fold.neutral, numpy.uint32))
        return fold.effect(_values(d, "moments"), lifted).reshape(d.shape)

    lines = [f"u32 e[{fold.words}] = {{}};", *fold.lines(made, "e", {f"x{i}": f"v[{i}]" for i in range(n)})]
    lines += [f"if (!there) e[{w}] = {word}u;" for w, word in enumerate(fold.neutral)]
    text = "".join(f"    {line}\n" for line in [*lines, "join_moments(d, e);"])
    return _absorbing(f"absorb_moments_f32_{n}_to_1", fold.words, n, "f32", text, effect, fold.uses())


def _absorb_side_by_side(n: int) -> Instr:
    """Moments of n columns joined with an element each: as many so far, so that one division serves all."""
    fold = FOLDS["moments"]

    def effect(machine: Any, group: Any, step: int, d: Array, v: Array, first: Array, there: Array) -> Array:
        values = _values(d, "moments")
        common = fold.read(values[:, :1])
        for target, formula in ONE_MORE.items():
            common[target] = number(formula, common)
        known = common | fold.read(values) | {"element": floats(v), "there": there[:, :1] != 0}
        return fold.made(WITH_ONE, known).reshape(d.shape)

    lines = [f"u32* const to = d{f' + {fold.words} * i' if n > 1 else ''};"]
    named = fold.named("to") | {"element": at("v", "i", n)}
    common = "".join(f"    {line}\n" for line in fold.lines(ONE_MORE, "", fold.named("d")))
    text = common + _loop(n, [*lines, *fold.lines(WITH_ONE, "to", named)])
    title = f"absorb_moments_f32_{n}_to_{n}"
    return _absorbing(title, fold.words * n, n, "f32", text, effect, fold.uses(ONE_MORE)[:-1])


def _bytes(element: str) -> int:
    return numpy.dtype(INTEGERS[element][1]).itemsize


@functools.cache
def finish(name: str, result: str, n: int) -> Instr:
    """d = what n values of a fold stand for: integers of a type, indices, or floats.

    A logsumexp is m + log s + `number`, of "nll" less the element that is named: 0 where that is ignored, NaN
    where it is none.  Moments are q * `number`; for others it counts for nothing.

    >>> finish("arg", "s64", 2).operands[0].words, finish("moments", "f32", 2).operands[0].words
    (4, 2)
    """
    fold, kind = FOLDS[name], "f32" if result == "f32" else ""
    nbytes = 4 if kind else _bytes(result)
    size = max(1, nbytes // 4)

    def effect(machine: Any, group: Any, a: Array, further: Array) -> Array:
        with numpy.errstate(all="ignore"):
            known = {**fold.read(_values(a, name)), "number": floats(further)}
            for target, formula in fold.finish.items():
                known[target] = number(formula, known)
        result = known["result"]
        if kind:
            return float_words(result)
        words = words_of(result.astype(numpy.uint64))[..., :size] & numpy.uint32(
            (1 << 8 * min(4, nbytes)) - 1
        )
        return words.reshape(len(a), -1)

    d = at("d", "i", n * size) if size == 1 else "d[2 * i]"
    lines = [f"const u32* const from = a + {fold.words} * i;"]
    lines += fold.lines(fold.finish, "", fold.named("from"))
    # a store takes the low bytes of a word; zeros above them keep the word as the effect has it
    mask = f" & {(1 << 8 * nbytes) - 1}u" if nbytes < 4 else ""
    lines += [f"{d} = result;"] if kind else [f"{d} = (u32)result{mask};"]
    lines += ["d[2 * i + 1] = (u32)((u64)result >> 32);"] * (size == 2)
    title = f"finish_{name}_{result}_{n}"
    parameters = f"{ref('d', n * size, kind)}, const u32* a, float number"
    operands = (output("d", n * size, kind), into("a", n * fold.words), value("number", "f32"))
    return Instr(title, operands, f"void {title}({parameters}) {{\n{_loop(n, lines)}}}", effect)
