"""Arithmetic on registers: outer products, and what an epilogue does to its vectors.

Values live in 32-bit words (f64 in two).  Instructions are made for a number of elements and kept, so that
one kernel has one helper of each kind:

    fma_outer(8, 8, "f32")     d[i][j] += a[i] * b[j]
    scale(4, "f32")            v[i] *= alpha
    add_scaled(8, "f16")       v[i] += beta * c[i]            c packed, v float
    pack(8, "f16")             floats to packed elements, rounded to the nearest; unpack the other way
    add_same(8, "f16")         v[i] += c                      c one element

Notes.  A fused multiply-add of floats is rounded once, as by the hardware; of doubles the simulator rounds
product and sum, which can differ in the last bit.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy

from layoutalg.codegen.instr.operations import sum_to_odd
from layoutalg.codegen.instr.record import Instr, Operand, into, out, updated, value
from layoutalg.codegen.instr.words import (
    C_TYPE,
    HIGH,
    LOW,
    PACK,
    PACKED,
    Array,
    at,
    decode,
    each,
    encode,
    ref,
)
from layoutalg.errors import UnsupportedError

ONE_F32 = 0x3F800000
"""1.0f as a word."""


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


def _elementwise(
    name: str,
    operands: tuple[Operand, ...],
    lines: str,
    effect: Any,
    uses: tuple[str, ...] = (),
) -> Instr:
    text = f"void {name}({', '.join(map(_parameter, operands))}) {{\n{lines}}}"
    return Instr(name, operands, text, effect, uses=uses)


def _parameter(operand: Operand) -> str:
    """An operand as the helper declares it."""
    if operand.role == "value":
        return f"{C_TYPE[operand.element]} {operand.name}"
    return ref(operand.name, operand.words, operand.element, const=operand.role == "in")


def _kind(element: str) -> str:
    """The kind of a vector that is computed with: floats, or words of integers."""
    return "" if element == "s32" else "f32"


def _packed(element: str) -> str:
    """The kind of the words of a vector of elements."""
    return PACKED.get(element, _kind(element))


@functools.cache
def scale(n: int, element: str = "f32") -> Instr:
    """v[i] *= alpha for n floats, or n integers modulo 2^32; alpha is a word of the same kind.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> scale(4).name
    'scale_4_f32'
    """
    _known("scale", element, ("f32", "s32"))

    def effect(machine: Any, group: Any, v: Array, alpha: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, element) * decode(alpha, element), element)

    v, kind = at("v", "i", n), _kind(element)
    lines = each(n, [f"{v} *= alpha;" if element == "s32" else f"{v} = __fmul_rn({v}, alpha);"])
    return _elementwise(f"scale_{n}_{element}", (updated("v", n, kind), value("alpha", kind)), lines, effect)


@functools.cache
def add_scaled(n: int, element: str) -> Instr:
    """v[i] += beta * c[i]: n floats and n packed elements of f32, f16 or bf16; or integers modulo 2^32.

    One f16 or bf16 element lies zero-extended in its word.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> add_scaled(8, "f16").operands[1].words
    4
    """
    _known("add_scaled", element, ("f32", "s32", "f16", "bf16"))
    per = _per_word(n, element)
    words = -(-n // per)
    v, c = at("v", "i", n), at("c", "i", words)
    if element in PACKED:
        lines = each(words, [f"{x} = __fmaf_rn(beta, {y}, {x});" for x, y in _elements(n, element)])
    else:
        lines = each(n, [f"{v} += beta * {c};" if element == "s32" else f"{v} = __fmaf_rn(beta, {c}, {v});"])
    kind = "s32" if element == "s32" else "f32"

    def effect(machine: Any, group: Any, v: Array, c: Array, beta: Array) -> Array:
        with numpy.errstate(all="ignore"):
            left = decode(beta, kind) * decode(c, element)[:, :n]
            total = left + decode(v, kind) if kind == "s32" else sum_to_odd(left, decode(v, kind))
            return encode(total, kind)

    floats = _kind(element)
    operands = (updated("v", n, floats), into("c", words, _packed(element)), value("beta", floats))
    return _elementwise(f"add_scaled_{n}_{element}", operands, lines, effect, uses=_halves(n, element))


@functools.cache
def unpack(n: int, element: str) -> Instr:
    """n packed f16 or bf16 elements, in whole words or one, to floats.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> unpack(4, "f16").operands[1].words
    2
    """
    _known("unpack", element, ("f16", "bf16"))
    _per_word(n, element)
    words = -(-n // 2)
    lines = each(words, [f"{x} = {y};" for x, y in _elements(n, element)])

    def effect(machine: Any, group: Any, c: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(c, element)[:, :n], "f32")

    operands = (out("v", n, "f32"), into("c", words, PACKED[element]))
    return _elementwise(f"unpack_{n}_{element}", operands, lines, effect, uses=_halves(n, element))


@functools.cache
def pack(n: int, element: str) -> Instr:
    """n floats to packed f16 or bf16 elements.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> pack(8, "f16").operands[0].words
    4
    """
    _known("pack", element, ("f16", "bf16"))
    _per_word(n, element)
    words = -(-n // 2)
    low, high = ("v[2 * i]", "v[2 * i + 1]") if words > 1 else ("v[0]", "v[1]") if n > 1 else ("v", "0.0f")
    lines = each(words, [f"{at('d', 'i', words)} = pack_{PACKED[element]}({low}, {high});"])

    def effect(machine: Any, group: Any, v: Array) -> Array:
        values = decode(v, "f32")
        with numpy.errstate(all="ignore"):
            return encode(values if n > 1 else numpy.pad(values, ((0, 0), (0, 1))), element)

    operands = (out("d", words, PACKED[element]), into("v", n, "f32"))
    return _elementwise(f"pack_{n}_{element}", operands, lines, effect, uses=(PACK[element],))


@functools.cache
def add_same(n: int, element: str) -> Instr:
    """v[i] += c for n floats and one element c of f32, f16 or bf16, or n integers modulo 2^32.

    Raises UnsupportedError for elements that are not accepted.

    >>> add_same(8, "f16").name
    'add_same_8_f16'
    """
    _known("add_same", element, ("f32", "s32", "f16", "bf16"))
    kind = "s32" if element == "s32" else "f32"
    v = at("v", "i", n)
    if element == "s32":
        lines = each(n, [f"{v} += c;"])
    elif element == "f32":
        lines = each(n, [f"{v} = __fadd_rn({v}, c);"])
    else:
        lines = f"    const float x = low_{element}(c);\n" + each(n, [f"{v} = __fadd_rn({v}, x);"])

    def effect(machine: Any, group: Any, v: Array, c: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, kind) + decode(c, element)[:, :1], kind)

    operands = (updated("v", n, _kind(element)), into("c", 1, _packed(element)))
    return _elementwise(f"add_same_{n}_{element}", operands, lines, effect, uses=_halves(1, element))


def _known(what: str, element: str, accepted: tuple[str, ...]) -> None:
    if element not in accepted:
        raise UnsupportedError(f"{what} of {element}: {', '.join(accepted)} are accepted")


def _elements(n: int, element: str) -> list[tuple[str, str]]:
    """The floats that word i of n packed elements stands for, and what they are."""
    words = -(-n // 2)
    c = at("c", "i", words)
    if n == 1:
        return [("v", f"low_{element}({c})")]
    places = ("v[2 * i]", "v[2 * i + 1]") if words > 1 else ("v[0]", "v[1]")
    return [(places[0], f"low_{element}({c})"), (places[1], f"high_{element}({c})")]


def _halves(n: int, element: str) -> tuple[str, ...]:
    """The functions that read n packed elements."""
    if element not in PACKED:
        return ()
    return (LOW[element],) if n == 1 else (LOW[element], HIGH[element])


def _per_word(n: int, element: str) -> int:
    """Elements of a word; n of them must fill words, or be one."""
    per = 2 if element in ("f16", "bf16") else 1
    if n % per and n != 1:
        raise UnsupportedError(f"{n} elements of {element}: whole words, or one element, are accepted")
    return per
