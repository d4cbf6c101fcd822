"""Arithmetic on registers: outer products, and the steps of epilogues, of softmax and of norms.

Values live in 32-bit words, a double in two, low half first.  Instructions are made for a number of elements
and kept, so that one kernel has one helper of each kind:

    fma_outer(8, 8, "f32")     d[i][j] += a[i] * b[j]
    scale(4, "f32")            v[i] *= alpha
    add_scaled(8, "f16")       v[i] += beta * c[i]            c packed, v float
    scale_and_add(2, "f16")    v[i] = alpha * v[i] + c[i]     c packed, v float
    add_same(8, "f16")         v[i] += c                      c one element

Statistics of rows.  n values v of a lane belong to one statistic (accumulators = 1) or to n of them:

    softmax      fold("max")                   m = the largest value
                 rescale(k)                    s *= e^(old - m) where the maximum has grown
                 add_exp(n, k)                 s += e^(v - m)
                 apply_softmax(n, k)           v = e^(v - m) * r,   r = 1 / s  (reciprocal)
    layer norm   add_square(n, k)              q += (v - mean)^2
                 average(k)                    mean = sum / count
                 merge_moments(k)              (count, mean, q) of a part joins those of what came before it
                 apply_norm(n, k)              v = (v - mean) * r,  r = rsqrt(q / count + eps)

An online softmax keeps (m, s) and rescales; a stable variance keeps (mean, q) and merges.  A maximum of
-infinity, of values that are all -infinity so far, counts as 0 while sums are made: their exponentials are 0.
The last step uses the true one, so that such a row becomes NaN, as -inf - -inf is.

Notes.  A fused multiply-add of floats is rounded once, as by the hardware; of doubles the simulator rounds
product and sum, which can differ in the last bit.  e^x is 2^(x log2 e) by ex2.approx.ftz.f32: within 2 units
of the last place, the bound of exp2f, which is this instruction; subnormal results are 0.  The simulator
computes the nearest float, so that the two agree within a bound, not to the bit.  Differences are taken
before the product, so that values near the largest float do not overflow.

Sources: PTX ISA 9.0, 9.7.3.21 (ex2.approx); CUDA C++ Programming Guide, "Mathematical Functions" (exp2f);
M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. F. Chan, G. H. Golub,
R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.lanewise import Block, Value, lanewise
from layoutalg.codegen.instr.record import Instr, Operand, into, updated, value
from layoutalg.codegen.instr.words import (
    PACKED,
    Array,
    at,
    decode,
    each,
    encode,
    ref,
    sum_to_odd,
    words_of_vector,
)
from layoutalg.errors import UnsupportedError

ONE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"f32": (0x3F800000,), "s32": (1,), "f64": (0, 0x3FF00000)}
)
"""The words of the number 1."""


def _with_zero(name: str, lines: list[str]) -> list[str]:
    """Lines of a loop of one turn, whose variable is declared where they read it."""
    read = any(re.search(rf"\b{name}\b", line) for line in lines)
    return [f"    const int {name} = 0;", *lines] if read else lines


@functools.cache
def fma_outer(m: int, n: int, element: str = "f32") -> Instr:
    """d[m][n] += a[m] * b[n], of f32 or f64 elements: m n fused multiply-adds per lane.

    The rows are walked boustrophedon: every multiply-add keeps an operand of the one before it, which saves
    a read of the register file.  Raises UnsupportedError for other elements.

    >>> fma_outer(8, 8).name
    'fma_outer_8x8_f32'
    """
    name = f"fma_outer_{m}x{n}_{element}"
    if element == "f32":
        words, kind, dw = 1, "f32", m * n
        x, y, z = at("a", "i", m), at("b", "j", n), at("d", f"i * {n} + j", dw)
        step = [f"{z} = __fmaf_rn({x}, {y}, {z});"]
    elif element == "f64":
        words, kind, dw = 2, "", 2 * m * n

        def get(x: str, index: str) -> str:
            return f"__hiloint2double({x}[2 * ({index}) + 1], {x}[2 * ({index})])"

        step = [
            f"const int ij = i * {n} + j;",
            f"const double x = __fma_rn({get('a', 'i')}, {get('b', 'j')}, {get('d', 'ij')});",
            "d[2 * ij] = __double2loint(x), d[2 * ij + 1] = __double2hiint(x);",
        ]
    else:
        raise UnsupportedError(f"fma_outer of {element}: f32 and f64 are accepted")
    signature = ", ".join(
        (ref("d", dw, kind), ref("a", words * m, kind, const=True), ref("b", words * n, kind, const=True))
    )
    boustrophedon = [f"const int j = i % 2 ? {n - 1} - s : s;", *step]
    inner = each(n, boustrophedon, "s").splitlines() if n > 1 else _with_zero("j", [f"    {x}" for x in step])
    rows = "\n".join([*_with_zero("i", inner), ""]) if m == 1 else each(m, [line[4:] for line in inner])
    text = f"void {name}({signature}) {{\n{rows}}}"

    def effect(machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
        left, right = decode(a, element), decode(b, element)
        with numpy.errstate(all="ignore"):
            products = (left[:, :, None] * right[:, None, :]).reshape(len(d), -1)
            addends = decode(d, element)
            return encode((sum_to_odd if element == "f32" else numpy.add)(products, addends), element)

    operands = (updated("d", dw, kind), into("a", words * m, kind), into("b", words * n, kind))
    return Instr(name, operands, text, effect)


@functools.cache
def scale(n: int, element: str = "f32") -> Instr:
    """v[i] *= alpha for n numbers; alpha is a word, or the two of a double, low half first.

    Raises UnsupportedError for elements that are not accepted.

    >>> scale(4).name, [o.name for o in scale(2, "f64").operands]
    ('scale_4_f32', ['v', 'low', 'high'])
    """
    _check("scale", element, _NUMBERS)
    alpha, given = _scalar("alpha", element)
    return _updated("scale", n, element, ("mul", "v", alpha), *given)


@functools.cache
def add_scaled(n: int, element: str) -> Instr:
    """v[i] += beta * c[i] for n numbers; c has f16 or bf16 elements, packed, where v has floats.

    One f16 or bf16 element lies zero-extended in its word.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> add_scaled(8, "f16").operands[1].words
    4
    """
    _check("add_scaled", element, (*_NUMBERS, *PACKED))
    beta, given = _scalar("beta", element)
    total = ("add", "v", ("mul", beta, "c")) if element == "s32" else ("fma", beta, "c", "v")
    return _updated("add_scaled", n, element, total, _vector("c", n, element), *given)


@functools.cache
def scale_and_add(n: int, element: str) -> Instr:
    """v[i] = alpha * v[i] + c[i] for n floats, rounded once; c has f32, f16 or bf16 elements, packed.

    Raises UnsupportedError for elements that are not accepted.

    >>> scale_and_add(2, "bf16").name
    'scale_and_add_2_bf16'
    """
    _check("scale_and_add", element, ("f32", *PACKED))
    alpha, given = _scalar("alpha", "f32")
    return _updated("scale_and_add", n, element, ("fma", alpha, "v", "c"), _vector("c", n, element), *given)


@functools.cache
def add_same(n: int, element: str) -> Instr:
    """v[i] += c for n numbers and one number c, f16 or bf16 where v has floats.

    Raises UnsupportedError for elements that are not accepted.

    >>> add_same(8, "f16").name
    'add_same_8_f16'
    """
    _check("add_same", element, (*_NUMBERS, *PACKED))
    once = [Block({"x": ("first", "c")})] if element in PACKED else []
    added = ("add", "v", "x" if once else "c")
    return _updated("add_same", n, element, added, _vector("c", 1, element), before=once)


_NUMBERS = ("f32", "s32", "f64")
"""The types that are computed with."""


def _check(what: str, element: str, accepted: Iterable[str]) -> None:
    if element not in accepted:
        raise UnsupportedError(f"{what} of {element}: {', '.join(accepted)} are accepted")


def _scalar(name: str, element: str) -> tuple[Value, tuple[Operand, ...]]:
    """A factor that a launch gives, and its operands."""
    if element == "f64":
        return ("double", "high", "low"), (value("low"), value("high"))
    return name, (value(name),)


def _vector(name: str, n: int, element: str) -> Operand:
    return into(name, words_of_vector(n, element), PACKED.get(element, ""))


def _updated(
    what: str, n: int, element: str, result: Value, *operands: Operand, before: Sequence[Block] = ()
) -> Instr:
    """v[i] = result for n numbers, whose other operands have elements of a type."""
    kind = "f32" if element in PACKED else element
    v = updated("v", words_of_vector(n, kind))
    blocks = *before, Block({"v": result}, n)
    return lanewise(f"{what}_{n}_{element}", (v, *operands), *blocks, element=kind)


def _shares(n: int, k: int) -> None:
    if k not in (1, n):
        raise UnsupportedError(f"{n} values of {k} statistics: 1 or {n} are accepted")


_FINITE: Value = ("where", ("eq", "m", -math.inf), 0.0, "m")
"""The maximum m that exponentials are taken from: of values that are all -infinity so far, 0."""


def _added(sums: str, n: int, k: int) -> Block:
    """The values e of n elements added to k sums: to one as a tree."""
    return Block({sums: ("add", sums, "e" if k == n else ("tree", "add", "e"))}, k)


@functools.cache
def add_exp(n: int, k: int) -> Instr:
    """s += e^(v - m) of n values of k statistics, 1 or n; where m is -infinity it counts as 0.

    Raises UnsupportedError for another k.

    >>> add_exp(8, 1).name
    'add_exp_8_to_1'
    """
    _shares(n, k)
    most: dict[str, Value] = {"most": _FINITE}
    power: dict[str, Value] = {"e": ("exp", ("sub", "v", "most"))}
    blocks = (Block(most), Block(power, n)) if k == 1 else (Block(most | power, n),)
    operands = updated("s", k), into("v", n), into("m", k)
    return lanewise(f"add_exp_{n}_to_{k}", operands, *blocks, _added("s", n, k), arrays={"e": n})


@functools.cache
def rescale(k: int) -> Instr:
    """s *= e^(old - m) for k sums whose maximum was `old` and is m; where m is -infinity s stays.

    >>> rescale(4).operands[1].name
    'old'
    """
    steps = {"most": _FINITE, "s": ("mul", "s", ("exp", ("sub", "old", "most")))}
    return lanewise(f"rescale_{k}", (updated("s", k), into("old", k), into("m", k)), Block(steps, k))


@functools.cache
def apply_softmax(n: int, k: int) -> Instr:
    """v = e^(v - m) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_softmax(4, 4).name
    'apply_softmax_4_of_4'
    """
    _shares(n, k)
    steps = {"v": ("mul", ("exp", ("sub", "v", "m")), "r")}
    operands = updated("v", n), into("m", k), into("r", k)
    return lanewise(f"apply_softmax_{n}_of_{k}", operands, Block(steps, n))


@functools.cache
def reciprocal(k: int) -> Instr:
    """d[i] = 1 / d[i], rounded to the nearest, for k floats.

    >>> reciprocal(1).name
    'reciprocal_1'
    """
    return lanewise(f"reciprocal_{k}", (updated("d", k),), Block({"d": ("reciprocal", "d")}, k))


@functools.cache
def add_square(n: int, k: int) -> Instr:
    """q += (v - mean)^2 of n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> add_square(8, 1).name
    'add_square_8_to_1'
    """
    _shares(n, k)
    square = Block({"c": ("sub", "v", "mean"), "e": ("mul", "c", "c")}, n)
    operands = updated("q", k), into("v", n), into("mean", k)
    return lanewise(f"add_square_{n}_to_{k}", operands, square, _added("q", n, k), arrays={"e": n})


@functools.cache
def merge_moments(k: int) -> Instr:
    """(count, mean, q) of k statistics joined with those of another part, which has `more` values.

    count and more are one float for all k; a part without values changes nothing.

    >>> merge_moments(1).name
    'merge_moments_1'
    """
    operands = (
        updated("count", 1), updated("mean", k), updated("q", k), into("more", 1), into("mean_b", k),
        into("q_b", k),
    )  # fmt: skip
    share = ("if_positive", "all", ("mul", "more", ("inverse", "all")), 0.0)
    square = ("add", "q_b", ("mul", ("mul", "d", "count"), "step"))
    joined = {
        "d": ("sub", "mean_b", "mean"), "step": ("mul", "d", "share"), "q": ("add", "q", square),
        "mean": ("add", "mean", "step"),
    }  # fmt: skip
    counted = Block({"all": ("add", "count", "more"), "share": share})
    return lanewise(f"merge_moments_{k}", operands, counted, Block(joined, k), Block({"count": "all"}))


@functools.cache
def average(k: int) -> Instr:
    """d[i] /= count for k sums and one count; they stay where it is 0.

    >>> average(1).name
    'average_1'
    """
    share = Block({"share": ("if_positive", "count", ("inverse", "count"), 1.0)})
    operands = updated("d", k), into("count", 1)
    return lanewise(f"average_{k}", operands, share, Block({"d": ("mul", "d", "share")}, k))


@functools.cache
def deviation(k: int) -> Instr:
    """d[i] = 1 / sqrt(d[i] * scale + eps) for k floats: the reciprocal of a standard deviation.

    >>> deviation(1).name
    'deviation_1'
    """
    steps = {"d": ("rsqrt_rn", ("add", ("mul", "d", "scale"), "eps"))}
    return lanewise(f"deviation_{k}", (updated("d", k), value("scale"), value("eps")), Block(steps, k))


@functools.cache
def apply_norm(n: int, k: int) -> Instr:
    """v = (v - mean) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_norm(8, 1).name
    'apply_norm_8_of_1'
    """
    _shares(n, k)
    operands = updated("v", n), into("mean", k), into("r", k)
    return lanewise(f"apply_norm_{n}_of_{k}", operands, Block({"v": ("mul", ("sub", "v", "mean"), "r")}, n))


@functools.cache
def multiply(n: int, k: int) -> Instr:
    """v[i] *= w[i] for n floats and as many factors, or one.  Raises UnsupportedError for another k.

    >>> multiply(4, 1).name
    'multiply_4_by_1'
    """
    _shares(n, k)
    operands = updated("v", n), into("w", k)
    return lanewise(f"multiply_{n}_by_{k}", operands, Block({"v": ("mul", "v", "w")}, n))
