"""The steps of kernels on values of several words: from elements to what they stand for.

    empty("arg", 2)                      d = what changes nothing
    absorb("arg", "f32", "max", 8, 1)    d = d joined with 8 elements, that have indices
    join("arg", 2)                       d[i] joined with v[i], values of the same fold
    exchange("arg", 2)                   d[i] joined with that of the lane whose number differs in a mask
    finish("arg", "s64", 2)              what d stands for: here the indices
    label(8, 1)                          the label of a value of "nll", from an integer of 8 bytes
    labelled(1)                          1 where such a value counts, 0 where its label is ignored

Values of one accumulator are joined one after the other, in the order of their elements.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.folds.values import FOLDS, TOP, exponential, words_of
from layoutalg.codegen.instr.record import WARP, Instr, Requires, imm, into, updated, value
from layoutalg.codegen.instr.record import out as output
from layoutalg.codegen.instr.words import Array, at, each, float_words, floats, ref
from layoutalg.errors import UnsupportedError

PARTIAL = "partial"
"""The element of `absorb` that is a value of the fold itself."""

IGNORED, UNKNOWN = 0xFFFFFFFF, 0xFFFFFFFE
"""Labels of "nll" that name no element; others are one more than an index, and 0 is that of no label."""

_SIGN_EXTENDED = MappingProxyType(
    {"s8": "signed char", "u8": "unsigned char", "s16": "short", "s32": "int", "s64": "long long"}
)
"""C's name of integers that are folded."""

_INTEGER = MappingProxyType(
    {"s8": numpy.int8, "u8": numpy.uint8, "s16": numpy.int16, "s32": numpy.int32, "s64": numpy.int64}
)


def _words_per(element: str, n: int, fold: str) -> int:
    """Words of n elements."""
    if element == PARTIAL:
        return n * FOLDS[fold].words
    return n if element == "f32" else max(1, n * numpy.dtype(_INTEGER[element]).itemsize // 4)


def _element_text(element: str, n: int) -> str:
    """Element i of a register of n, as a float or an integer of 64 bits."""
    words = _words_per(element, n, "")
    if element == "f32":
        return f"const float x = {at('v', 'i', n)};"
    if element == "s64":
        return "const long long x = (long long)((u64)v[2 * i + 1] << 32 | v[2 * i]);"
    per = 4 // numpy.dtype(_INTEGER[element]).itemsize
    word = at("v", f"i / {per}" if per > 1 else "i", words)
    shifted = f"({word} >> {32 // per} * (i % {per}))" if per > 1 else word
    return f"const long long x = ({_SIGN_EXTENDED[element]}){shifted};"


_FLOAT_ORDER = """    const u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
    u32 order = bits >> 31 ? ~bits : bits | 0x80000000u;
    order = x != x ? 0xFFFFFFFFu : {};
"""


def _lift_text(fold: str, element: str, way: str) -> str:
    """The lines that make a value e of the fold from an element x with an index."""
    if fold.endswith("_s64") and fold != "arg_s64":
        return "    e[0] = (u32)(u64)x;\n    e[1] = (u32)((u64)x >> 32);\n"
    if fold == "logsumexp":
        return "    e[0] = __float_as_uint(x);\n    e[1] = 0x3F800000u;\n"
    if fold == "nll":
        return (
            "    e[0] = __float_as_uint(x);\n    e[1] = 0x3F800000u;\n"
            "    e[2] = index + 1 == to[3] ? __float_as_uint(x) : 0;\n    e[3] = 0;\n"
        )
    if fold == "moments":
        return (
            "    e[0] = 0x3F800000u;\n    e[1] = __float_as_uint(x);\n"
            "    e[2] = __float_as_uint(__fsub_rn(x, x));\n    e[3] = 0;\n"
        )
    turned = "~" if way == "min" else ""
    if fold == "arg_s64":
        return (
            f"    const u64 order = {turned}((u64)x ^ 0x8000000000000000ull);\n"
            "    e[0] = (u32)order;\n    e[1] = (u32)(order >> 32);\n    e[2] = ~index;\n    e[3] = 0;\n"
        )
    if element == "f32":
        order = _FLOAT_ORDER.format(f"{turned}order")
    else:
        order = f"    const u32 order = {turned}((u32)x ^ 0x80000000u);\n"
    return f"{order}    e[0] = ~index;\n    e[1] = order;\n"


def _lifted(fold: str, element: str, way: str, x: Array, index: Array, to: Array) -> Array:
    """Values of the fold from elements, each with its index, that are joined `to` some."""
    ones = numpy.full(x.shape, 0x3F800000, numpy.uint32)
    if fold.endswith("_s64") and fold != "arg_s64":
        return words_of(x.astype(numpy.int64).view(numpy.uint64))
    if fold == "logsumexp":
        return numpy.stack([float_words(x), ones], axis=-1)
    if fold == "nll":
        named = numpy.where(index + numpy.uint32(1) == to[..., 3], float_words(x), 0 * ones)
        return numpy.stack([float_words(x), ones, named, 0 * ones], axis=-1)
    if fold == "moments":
        with numpy.errstate(invalid="ignore"):
            return numpy.stack([ones, float_words(x), float_words(x - x), 0 * ones], axis=-1)
    if fold == "arg_s64":
        order = x.astype(numpy.int64).view(numpy.uint64) ^ numpy.uint64(1 << 63)
        words = words_of(~order if way == "min" else order)
        return numpy.concatenate([words, ~index[..., None], 0 * index[..., None]], axis=-1)
    if element == "f32":
        bits = float_words(numpy.where(x == 0, numpy.float32(0), x))
        order = numpy.where(bits >> 31 == 1, ~bits, bits | numpy.uint32(TOP))
        order = ~order if way == "min" else order
        order = numpy.where(numpy.isnan(x), numpy.uint32(0xFFFFFFFF), order)
    else:
        order = x.astype(numpy.int64).astype(numpy.uint32) ^ numpy.uint32(TOP)
        order = ~order if way == "min" else order
    return numpy.stack([~index, order.astype(numpy.uint32)], axis=-1)


def _elements_of(v: Array, element: str, n: int) -> Array:
    """The elements of words (lanes, words): floats, or integers."""
    if element == "f32":
        return floats(v)
    return numpy.ascontiguousarray(v).view(_INTEGER[element])[:, :n]


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


@functools.cache
def join(name: str, n: int) -> Instr:
    """d[i] joined with v[i], for n values of a fold.

    >>> join("moments", 1).operands[0].words
    4
    """
    fold, count = FOLDS[name], n * FOLDS[name].words

    def effect(machine: Any, group: Any, d: Array, v: Array) -> Array:
        return fold.effect(_values(d, name), _values(v, name)).reshape(d.shape)

    line = f"join_{name}(d + {fold.words} * i, v + {fold.words} * i);"
    lines = each(n, [line]) if n > 1 else f"    join_{name}(d, v);\n"
    text = f"void join_{name}_{n}(u32* d, const u32* v) {{\n{lines}}}"
    operands, uses = (updated("d", count), into("v", count)), (*fold.uses, fold.text)
    return Instr(f"join_{name}_{n}", operands, text, effect, uses=uses)


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

    shuffled = f"    u32 v[{count}];\n" + each(count, ["v[i] = __shfl_xor_sync(0xFFFFFFFFu, d[i], mask);"])
    line = f"join_{name}(d + {fold.words} * i, v + {fold.words} * i);"
    lines = shuffled + (each(n, [line]) if n > 1 else f"    join_{name}(d, v);\n")
    text = f"void butterfly_{name}_{n}(u32* d) {{\n{lines}}}"
    requires = Requires(warp_converged=True)
    operands, uses = (imm("mask"), updated("d", count)), (*fold.uses, fold.text)
    return Instr(f"butterfly_{name}_{n}", operands, text, effect, requires, uses=uses)


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
    fold, per = FOLDS[name], FOLDS[name].words
    words = _words_per(element, n, name)
    of_arg = name.startswith("arg") and element != PARTIAL
    of_index = of_arg or (name == "nll" and element != PARTIAL)

    def effect(machine: Any, group: Any, step: int, d: Array, v: Array, first: Array, there: Array) -> Array:
        values, on = _values(d, name).copy(), there[:, :1, None] != 0
        if element == PARTIAL:
            every = _values(v, name)
        else:
            index = ((first.astype(numpy.int64) + step * numpy.arange(n)) & 0xFFFFFFFF).astype(numpy.uint32)
            every = _lifted(name, element, way, _elements_of(v, element, n), index, values)
        every = numpy.where(on, every, numpy.array(fold.neutral, numpy.uint32))
        if accumulators == n:
            return fold.effect(values, every).reshape(d.shape)
        for i in range(n):
            values[:, 0] = fold.effect(values[:, 0], every[:, i])
        return values.reshape(d.shape)

    if element == PARTIAL:
        made = [f"for (int w = 0; w < {per}; ++w) e[w] = v[{per} * i + w];"]
    else:
        number = ["const u32 index = first + (u32)i * (u32)step;"] if of_index else []
        lines = _lift_text(name, element, way).splitlines()
        made = [_element_text(element, n), *number, *(line.strip() for line in lines)]
    neutral = [f"if (!there) e[{w}] = {word}u;" for w, word in enumerate(fold.neutral)]
    to = f"d + {per} * i" if accumulators > 1 else "d"
    if name == "nll" and element != PARTIAL:
        made, to = [f"u32* const to = {to};", *made], "to"
    body = [f"u32 e[{per}];", *made, *neutral, f"join_{name}({to}, e);"]
    inside = "\n".join(f"        {line}" for line in body)
    loop = f"    #pragma unroll\n    for (int i = 0; i < {n}; ++i) {{\n{inside}\n    }}\n"
    kind = "f32" if element == "f32" else ""
    title = f"absorb_{name}{f'_{way}' if of_arg else ''}_{element}_{n}_to_{accumulators}"
    parameters = f"u32* d, {ref('v', words, kind, const=True)}, u32 first, {ref('there', 1, const=True)}"
    text = f"void {title}({parameters}) {{\n{loop}}}"
    accumulated, elements = updated("d", per * accumulators), into("v", words, kind)
    operands = (imm("step"), accumulated, elements, value("first"), into("there", 1))
    return Instr(title, operands, text, effect, uses=(*fold.uses, fold.text))


def _absorb_exponentials(name: str, n: int) -> Instr:
    """The same for n floats at once: one maximum, and an exponential for each of them and for the value."""
    fold, per, named = FOLDS[name], FOLDS[name].words, name == "nll"

    def effect(machine: Any, group: Any, step: int, d: Array, v: Array, first: Array, there: Array) -> Array:
        out, on = d.copy(), there[:, :1] != 0
        with numpy.errstate(all="ignore"):
            x = numpy.where(on, floats(v), numpy.float32(-numpy.inf))
            m, s = floats(d[:, :1]), floats(d[:, 1:2])
            most = numpy.maximum(m, x.max(axis=1, keepdims=True))
            base = numpy.where(numpy.isfinite(most), most, numpy.float32(0))
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

    hit = ["if (there && first + (u32)i * (u32)step + 1 == d[3]) d[2] = __float_as_uint(v[i]);"]
    lines = "    const float m = __uint_as_float(d[0]);\n"
    lines += f"    float most = m, x[{n}];\n"
    lines += each(n, ["x[i] = there ? v[i] : -INFINITY;", "most = max_nan(most, x[i]);"])
    lines += "    const float base = fabsf(most) < INFINITY ? most : 0.0f;\n"
    lines += f"    float s = __fmul_rn(__uint_as_float(d[1]), {EXPONENTIAL.format('m')});\n"
    lines += each(n, [f"s = __fadd_rn(s, {EXPONENTIAL.format('x[i]')});"])
    lines += "    d[0] = __float_as_uint(most);\n    d[1] = __float_as_uint(s);\n"
    lines += each(n, hit) if named else ""
    title = f"absorb_{name}_f32_{n}_to_1"
    parameters = f"u32* d, {ref('v', n, 'f32', const=True)}, u32 first, {ref('there', 1, const=True)}"
    operands = (imm("step"), updated("d", per), into("v", n, "f32"), value("first"), into("there", 1))
    return Instr(title, operands, f"void {title}({parameters}) {{\n{lines}}}", effect, uses=fold.uses)


EXPONENTIAL = "exp2_approx(__fmul_rn(__fsub_rn({}, base), 1.44269502f))"
"""e^x beside a base, as in `join`."""


@functools.cache
def finish(name: str, result: str, n: int) -> Instr:
    """d = what n values of a fold stand for: integers of a type, indices, or floats.

    A logsumexp is m + log s + `number`, of "nll" less the element that is named: 0 where that is ignored, NaN
    where it is none.  Moments are q * `number`; for others it counts for nothing.

    >>> finish("arg", "s64", 2).operands[0].words, finish("moments", "f32", 2).operands[0].words
    (4, 2)
    """
    per, of_float = FOLDS[name].words, name in ("logsumexp", "moments", "nll")
    size = 1 if of_float else max(1, numpy.dtype(_INTEGER[result]).itemsize // 4)
    low = 1 if of_float else numpy.dtype(_INTEGER[result]).itemsize

    def effect(machine: Any, group: Any, a: Array, number: Array) -> Array:
        every = _values(a, name)
        if of_float:
            m, s, q = (floats(every[..., i]) for i in (0, 1, 2 if per > 2 else 1))
            with numpy.errstate(all="ignore"):
                if name == "moments":
                    return float_words(q * floats(number))
                log = numpy.log(s.astype(numpy.float64)).astype(numpy.float32)
                if name == "nll":
                    loss, label = ((m - q) + log) + floats(number), every[..., 3]
                    loss = numpy.where(label == IGNORED, 0, numpy.where(label == UNKNOWN, numpy.nan, loss))
                    return float_words(loss.astype(numpy.float32))
                return float_words((m + log) + floats(number))
        if name.startswith("arg"):
            index = ~every[..., 2 if name == "arg_s64" else 0]
            return numpy.stack([index, 0 * index], axis=-1).reshape(len(a), -1)
        if size == 2:
            return every.reshape(len(a), -1)
        return every[..., 0] & numpy.uint32((1 << 8 * low) - 1)

    word = f"a[{per} * i + {{}}]"
    d = at("d", "i", n * size) if size == 1 else "d[2 * i]"
    if name == "moments":
        lines = [f"{d} = __fmul_rn(__uint_as_float({word.format(2)}), number);"]
    elif name == "logsumexp":
        m, s = (f"__uint_as_float({word.format(w)})" for w in range(2))
        lines = [f"{d} = __fadd_rn(__fadd_rn({m}, logf({s})), number);"]
    elif name == "nll":
        m, s, named = (f"__uint_as_float({word.format(w)})" for w in range(3))
        lines = [
            f"const u32 label = {word.format(3)};",
            f"const float loss = __fadd_rn(__fadd_rn(__fsub_rn({m}, {named}), logf({s})), number);",
            f"{d} = label == {IGNORED}u ? 0.0f : label == {UNKNOWN}u ? __uint_as_float(0x7FC00000u) : loss;",
        ]
    elif name.startswith("arg"):
        lines = [f"d[2 * i] = ~{word.format(2 if name == 'arg_s64' else 0)};", "d[2 * i + 1] = 0;"]
    elif size == 2:
        lines = [f"d[2 * i] = {word.format(0)};", f"d[2 * i + 1] = {word.format(1)};"]
    else:
        mask = f" & {(1 << 8 * low) - 1}u" if low < 4 else ""
        lines = [f"{d} = {word.format(0)}{mask};"]
    inside = "\n".join(f"        {line}" for line in lines)
    loop = f"    #pragma unroll\n    for (int i = 0; i < {n}; ++i) {{\n{inside}\n    }}\n"
    kind = "f32" if of_float else ""
    title = f"finish_{name}_{result}_{n}"
    parameters = f"{ref('d', n * size, kind)}, const u32* a, float number"
    operands = (output("d", n * size, kind), into("a", n * per), value("number", "f32"))
    return Instr(title, operands, f"void {title}({parameters}) {{\n{loop}}}", effect)


@functools.cache
def label(nbytes: int, n: int) -> Instr:
    """The labels of n values d of "nll" from integers with a sign: `step` times one from 0 to `classes` - 1.

    The integer of the words `low` and `high` is IGNORED, and others are UNKNOWN.  Raises UnsupportedError for
    integers that are not 4 or 8 bytes wide.

    >>> label(8, 1).operands[1].words
    2
    """
    if nbytes not in (4, 8):
        raise UnsupportedError(f"labels of {nbytes} bytes: 4 or 8 are accepted")

    def effect(
        machine: Any, group: Any, d: Array, t: Array, classes: Array, step: Array, low: Array, high: Array
    ) -> Array:
        kind = numpy.int32 if nbytes == 4 else numpy.int64
        number = numpy.ascontiguousarray(t).view(kind).astype(numpy.int64)
        ignored = words_to_numbers(low, high)
        inside = (number >= 0) & (number < classes.astype(numpy.int64))
        labels = numpy.where(inside, number * step.astype(numpy.int64) + 1, UNKNOWN)
        out = _values(d, "nll").copy()
        out[..., 3] = numpy.where(number == ignored, IGNORED, labels).astype(numpy.uint32)
        return out.reshape(d.shape)

    words = n * nbytes // 4
    number = "(u64)t[2 * i + 1] << 32 | t[2 * i]" if nbytes == 8 else f"(int){at('t', 'i', n)}"
    lines = [
        f"const long long number = (long long)({number});",
        f"u32 found = (u64)number < classes ? (u32)number * step + 1 : {UNKNOWN}u;",
        f"if (number == (long long)((u64)high << 32 | low)) found = {IGNORED}u;",
        "d[4 * i + 3] = found;",
    ]
    inside = "\n".join(f"        {line}" for line in lines)
    loop = f"    #pragma unroll\n    for (int i = 0; i < {n}; ++i) {{\n{inside}\n    }}\n"
    title = f"label_s{8 * nbytes}_{n}"
    parameters = f"u32* d, {ref('t', words, const=True)}, u32 classes, u32 step, u32 low, u32 high"
    operands = (
        updated("d", 4 * n), into("t", words), value("classes"), value("step"), value("low"), value("high")
    )  # fmt: skip
    return Instr(title, operands, f"void {title}({parameters}) {{\n{loop}}}", effect)


def words_to_numbers(low: Array, high: Array) -> Array:
    """Integers of 64 bits from their halves."""
    return (low.astype(numpy.uint64) | high.astype(numpy.uint64) << numpy.uint64(32)).view(numpy.int64)


@functools.cache
def labelled(n: int) -> Instr:
    """d[i] = 1.0f where value i of "nll" counts, 0 where its label is ignored.

    >>> labelled(1).name
    'labelled_1'
    """

    def effect(machine: Any, group: Any, a: Array) -> Array:
        counts = _values(a, "nll")[..., 3] != IGNORED
        return float_words(counts.astype(numpy.float32))

    word = "a[4 * i + 3]" if n > 1 else "a[3]"
    loop = each(n, [f"{at('d', 'i', n)} = {word} == {IGNORED}u ? 0.0f : 1.0f;"])
    parameters = f"{ref('d', n, 'f32')}, const u32* a"
    operands = (output("d", n, "f32"), into("a", 4 * n))
    return Instr(f"labelled_{n}", operands, f"void labelled_{n}({parameters}) {{\n{loop}}}", effect)
