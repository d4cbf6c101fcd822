"""What an epilogue does to vectors of doubles; each double is two registers, low half first.

    scale(2)                 v[i] *= alpha
    add_scaled(2)            v[i] += beta * c[i]
    add_same(2)              v[i] += c

A scalar is passed as its two words.  For floats see arith.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from layoutalg.codegen.instr.packing import Array, decode, encode
from layoutalg.codegen.instr.record import Instr, Operand, into, updated, value

ONE_F64 = (0, 0x3FF00000)
"""1.0 as two words."""


def _get(name: str, i: int) -> str:
    return f"__hiloint2double({name}[{2 * i + 1}], {name}[{2 * i}])"


def _make(name: str, operands: tuple[Operand, ...], signature: str, lines: list[str], effect: Any) -> Instr:
    body = "".join(f"    {line}\n" for line in lines)
    return Instr(name, operands, f"void {name}({signature}) {{\n{body}}}", effect)


def _put(i: int, text: str) -> str:
    low, high = f"v[{2 * i}]", f"v[{2 * i + 1}]"
    return f"{{ const double x = {text}; {low} = __double2loint(x); {high} = __double2hiint(x); }}"


def _scalar(low: Array, high: Array) -> Array:
    return decode(numpy.concatenate([low, high], axis=1), "f64")


@functools.cache
def scale(n: int) -> Instr:
    """v[i] *= alpha for n doubles.

    >>> scale(2).name
    'scale_2_f64'
    """

    def effect(machine: Any, group: Any, v: Array, low: Array, high: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f64") * _scalar(low, high), "f64")

    lines = [_put(i, f"{_get('v', i)} * __hiloint2double(high, low)") for i in range(n)]
    operands = (updated("v", 2 * n), value("low"), value("high"))
    return _make(f"scale_{n}_f64", operands, "u32* v, u32 low, u32 high", lines, effect)


@functools.cache
def add_scaled(n: int) -> Instr:
    """v[i] += beta * c[i] for n doubles; the simulator rounds the product too, the hardware the sum alone.

    >>> add_scaled(2).operands[1].words
    4
    """

    def effect(machine: Any, group: Any, v: Array, c: Array, low: Array, high: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f64") + _scalar(low, high) * decode(c, "f64"), "f64")

    beta = "__hiloint2double(high, low)"
    lines = [_put(i, f"__fma_rn({beta}, {_get('c', i)}, {_get('v', i)})") for i in range(n)]
    operands = (updated("v", 2 * n), into("c", 2 * n), value("low"), value("high"))
    signature = "u32* v, const u32* c, u32 low, u32 high"
    return _make(f"add_scaled_{n}_f64", operands, signature, lines, effect)


@functools.cache
def add_same(n: int) -> Instr:
    """v[i] += c for n doubles and one double c.

    >>> add_same(2).operands[1].words
    2
    """

    def effect(machine: Any, group: Any, v: Array, c: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f64") + decode(c, "f64"), "f64")

    lines = [_put(i, f"__dadd_rn({_get('v', i)}, {_get('c', 0)})") for i in range(n)]
    return _make(
        f"add_same_{n}_f64", (updated("v", 2 * n), into("c", 2)), "u32* v, const u32* c", lines, effect
    )
