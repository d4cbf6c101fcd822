"""The arithmetic of an epilogue on vectors of doubles; each double is two registers, low half first.

    scale(2)                 v[i] *= alpha
    add_scaled(2)            v[i] += beta * c[i]
    add_same(2)              v[i] += c

A scalar is passed as its two words.  For floats see arith.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from layoutalg.codegen.instr.record import Instr, Operand, into, updated, value
from layoutalg.codegen.instr.words import Array, decode, double_at, doubles, encode

ONE_F64 = (0, 0x3FF00000)
"""1.0 as two words."""


def _make(
    name: str, operands: tuple[Operand, ...], signature: str, n: int, value: Callable[[int], str], effect: Any
) -> Instr:
    """v[i] = value for n doubles."""
    return Instr(name, operands, f"void {name}({signature}) {{\n{doubles(n, value)}}}", effect)


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

    operands = (updated("v", 2 * n), value("low"), value("high"))
    return _make(
        f"scale_{n}_f64", operands, "u32* v, u32 low, u32 high", n,
        lambda i: f"{double_at('v', i)} * __hiloint2double(high, low)", effect,
    )  # fmt: skip


@functools.cache
def add_scaled(n: int) -> Instr:
    """v[i] += beta * c[i] for n doubles; the simulator rounds the product too, the hardware the sum alone.

    >>> add_scaled(2).operands[1].words
    4
    """

    def effect(machine: Any, group: Any, v: Array, c: Array, low: Array, high: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f64") + _scalar(low, high) * decode(c, "f64"), "f64")

    def sum_of(i: int) -> str:
        return f"__fma_rn(__hiloint2double(high, low), {double_at('c', i)}, {double_at('v', i)})"

    operands = (updated("v", 2 * n), into("c", 2 * n), value("low"), value("high"))
    signature = "u32* v, const u32* c, u32 low, u32 high"
    return _make(f"add_scaled_{n}_f64", operands, signature, n, sum_of, effect)


@functools.cache
def add_same(n: int) -> Instr:
    """v[i] += c for n doubles and one double c.

    >>> add_same(2).operands[1].words
    2
    """

    def effect(machine: Any, group: Any, v: Array, c: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f64") + decode(c, "f64"), "f64")

    operands = (updated("v", 2 * n), into("c", 2))
    return _make(
        f"add_same_{n}_f64", operands, "u32* v, const u32* c", n,
        lambda i: f"__dadd_rn({double_at('v', i)}, {double_at('c', 0)})", effect,
    )  # fmt: skip
