"""Arithmetic on registers: outer products, and what an epilogue does to its vectors.

Values live in 32-bit words, a double in two, low half first.  Instructions are made for a number of elements
and kept, so that one kernel has one helper of each kind:

    fma_outer(8, 8, "f32")     d[i][j] += a[i] * b[j]
    scale(4, "f32")            v[i] *= alpha
    add_scaled(8, "f16")       v[i] += beta * c[i]            c packed, v float
    add_same(8, "f16")         v[i] += c                      c one element
    pack(8, "f16")             floats to packed elements, rounded to the nearest; unpack the other way

Notes.  A fused multiply-add of floats is rounded once, as by the hardware; of doubles the simulator rounds
product and sum, which can differ in the last bit.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.lanewise import Block, Value, lanewise
from layoutalg.codegen.instr.operations import sum_to_odd
from layoutalg.codegen.instr.record import Instr, Operand, into, out, updated, value
from layoutalg.codegen.instr.words import PACKED, Array, at, decode, each, encode, ref, words_of_vector
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


@functools.cache
def unpack(n: int, element: str) -> Instr:
    """n packed f16 or bf16 elements, in whole words or one, to floats.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> unpack(4, "f16").operands[1].words
    2
    """
    _check("unpack", element, PACKED)
    operands = out("v", n), into("c", words_of_vector(n, element), PACKED[element])
    return lanewise(f"unpack_{n}_{element}", operands, Block({"v": "c"}, n))


@functools.cache
def pack(n: int, element: str) -> Instr:
    """n floats to packed f16 or bf16 elements.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> pack(8, "f16").operands[0].words
    4
    """
    _check("pack", element, PACKED)
    operands = out("d", words_of_vector(n, element), PACKED[element]), into("v", n)
    return lanewise(f"pack_{n}_{element}", operands, Block({"d": "v"}, n))


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
