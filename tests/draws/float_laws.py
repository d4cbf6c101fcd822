"""Kernels that compute every operation of floats on all numbers of 16 and of 8 bits, and convert all codes.

Each is a kernel with its arguments, as `value_kernels` has them, beside what its tensors have to hold by a
definition in float64: by Python's functions, or by NumPy on numbers of which float64 holds the exact result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from layoutalg import codegen as cg
from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.instr import OPERATIONS, converted
from layoutalg.codegen.instr.conversions import TYPES, bits_of
from layoutalg.codegen.instr.words import CODES, numbers_of
from layoutalg.codegen.terms import Value
from layoutalg.layout import Layout
from tests.draws.value_kernels import THREADS, ValueKernel

VECTOR = 8


class Law(NamedTuple):
    """A kernel of tensors that hold, within `places` units of the last place, what is `wanted` of them."""

    made: ValueKernel
    wanted: Mapping[str, Any]


def in_float64(function: Callable[..., float], infinite: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python's on an array; where Python refuses, by `infinite`."""

    def one(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return infinite(x)

    return lambda x: np.array([one(v) for v in x.tolist()])


def _of_nothing(x: float) -> float:
    return math.nan


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x, "abs": abs, "sqrt": in_float64(math.sqrt, _of_nothing),
    "reciprocal": lambda x: 1 / x, "rcp": lambda x: 1 / np.where(abs(x) < 2.0**-126, 0 * x, x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp2": in_float64(lambda x: 2.0**x, lambda x: math.inf),
    # its argument is a product that is rounded
    "exp": lambda x: UNARY["exp2"]((x.astype("f4") * np.float32(1.4426950408889634)).astype("f8")),
    "log": in_float64(math.log, lambda x: -math.inf if x == 0 else math.nan),
    "log2": in_float64(math.log2, lambda x: -math.inf if x == 0 else math.nan),
    "log1p": in_float64(math.log1p, lambda x: -math.inf if x == -1 else math.nan),
    "tanh": in_float64(math.tanh, _of_nothing), "sin": in_float64(math.sin, _of_nothing),
    "cos": in_float64(math.cos, _of_nothing), "erf": in_float64(math.erf, _of_nothing),
    "normcdf": in_float64(lambda x: math.erfc(-x / math.sqrt(2)) / 2, _of_nothing),
    "to_s32": lambda x: np.where(np.isnan(x), 0, np.clip(np.trunc(x), -(2**31), 2**31 - 1)),
    "to_u32": lambda x: np.where(np.isnan(x), 0, np.clip(np.trunc(x), 0, 2**32 - 1)),
}  # fmt: skip
"""The operations of one float, on float64."""

FLUSHED = ("rcp", "exp2", "exp")
"""Operations whose subnormal results are 0."""

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
"""The operations of two; of numbers of 8 bits float64 has all but quotients exactly, and 53 bits of these."""


class _Writer:
    """A kernel whose threads have VECTOR words each of what is loaded."""

    def __init__(self, name: str, n: int) -> None:
        self.k, self.blocks = cg.Kernel(name, threads=THREADS), n // THREADS // VECTOR
        (self.block,) = self.k.grid((n,), (THREADS * VECTOR,))
        self.arguments: dict[str, Any] = {}
        self.elements: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.wanted: dict[str, Any] = {}

    def part(self, name: str, words: Any, element: str, *, writable: bool = False) -> Any:
        """The thread's part of a tensor of so many words."""
        n = len(words) // self.blocks // THREADS
        copy = make_tiled_copy(
            f"UniversalCopy<uint{min(128, 8 * n * words.itemsize)}_t>", element, Layout(THREADS), Layout(n)
        )
        tensor = self.k.tensor(name, element, (len(words),), (1,), writable=writable)
        return self.k.get_slice(copy).partition_S(cg.local_tile(tensor, (THREADS * n,), (self.block,)))

    def load(self, name: str, element: str, words: Any) -> Any:
        """Registers of all words."""
        self.arguments[name] = words
        part = self.part(name, words, element)
        return self.k.load(part, into=self.k.fragment(f"{name}_held", element, part.shape, values=VECTOR))

    def store(self, name: str, element: str, value: Any, wanted: Any, places: int = 0) -> None:
        """Store a value of registers as a tensor that has to hold what is wanted."""
        self.k.store(value, self.part(name, wanted, element, writable=True))
        self.elements[name], self.wanted[name], self.places[name] = element, wanted, places
        self.arguments[name] = np.zeros_like(wanted)

    def law(self) -> Law:
        made = ValueKernel(self.k.build(), self.arguments, self.places, self.elements)
        return Law(made, self.wanted)


def _as_f32(exact: Any, *, flushed: bool = False) -> Any:
    near = exact.astype("f4")
    return np.where(abs(near) < 2.0**-126, near * 0, near) if flushed else near


def unary(element: str) -> Law:
    """All 65,536 numbers of f16 or bf16 through each operation of one number."""
    me, codes = _Writer(f"unary_{element}", 1 << 16), np.arange(1 << 16, dtype="u2")
    v, x = me.load("x", element, codes), converted(codes, element, "f64").view("f8")
    with np.errstate(all="ignore"):
        for op, function in UNARY.items():
            result = OPERATIONS[op].result or "f32"
            exact = function(x)
            wanted = (
                exact.astype(f"{'i' if result == 's32' else 'u'}4")
                if result != "f32"
                else _as_f32(exact, flushed=op in FLUSHED)
            )
            me.store(f"y_{op}", result, Value(op, (v,)) if result == "f32" else v.to(result), wanted,
                     OPERATIONS[op].places)  # fmt: skip
    return me.law()


def binary(element: str) -> Law:
    """All pairs of 8-bit floats through each operation of two numbers."""
    me, every = _Writer(f"binary_{element}", 1 << 16), np.arange(256, dtype="u1")
    pairs = {"x": np.repeat(every, 256), "y": np.tile(every, 256)}
    held = [me.k.map(me.load(name, element, codes).to("f32")) for name, codes in pairs.items()]
    x, y = (numbers_of(element)[codes] for codes in pairs.values())
    with np.errstate(all="ignore"):
        for op, function in BINARY.items():
            value, exact = Value(op, tuple(held)), function(x, y)
            if exact.dtype == bool:
                me.store(f"z_{op}", "u32", value.to("u32"), exact.astype("u4"))
            else:
                me.store(f"z_{op}", "f32", value, exact.astype("f4"))
        me.store("z_fma", "f32", cg.fma(held[0], held[1], held[0]), (x * y + x).astype("f4"))
        chosen = cg.where(held[0] < held[1], held[0], held[1])
        me.store("z_where", "f32", chosen, np.where(x < y, x, y).astype("f4"))
    return me.law()


def conversion(source: str) -> Law:
    """All numbers of a type, or the edges of f32, as every type that is converted to."""
    narrow, words = bits_of(source) < 8, edges() if source == "f32" else _codes(source)
    stored = words[::2] | words[1::2] << 4 if narrow else words
    me = _Writer(f"convert_{source}", len(stored))
    held = me.load("x", "u8" if narrow else source, stored)
    held = held.recast(source) if narrow else held
    for target in TYPES:
        wanted, value = converted(words, source, target), held.to(target)
        if bits_of(target) < 8:
            me.store(f"y_{target}", "u8", me.k.map(value).recast("u8"), wanted[::2] | wanted[1::2] << 4)
        elif target != source:
            me.store(f"y_{target}", target, value, wanted)
    return me.law()


def _codes(element: str) -> Any:
    """All words of a type, as often as fills whole blocks: of 4 bits all pairs."""
    if bits_of(element) == 16:
        return np.arange(1 << 16, dtype="u2")
    every = np.arange(256, dtype="u1")
    codes = every if bits_of(element) == 8 else np.stack([every & 15, every >> 4], 1).reshape(-1)
    return np.tile(codes, THREADS * VECTOR // 256)


def edges() -> Any:
    """The floats at the middles between the numbers of each narrower type, their neighbours, and the ends of
    integers; every second one is negative.
    """
    found = []
    for element in ("f16", "bf16", *CODES):
        numbers = numbers_of(element) if element in CODES else converted(
            np.arange(1 << 15, dtype="u2"), element, "f64"
        ).view("f8")  # fmt: skip
        finite = numbers[: len(numbers) // (2 if element in CODES else 1)]
        finite = finite[np.isfinite(finite)]
        found.append(np.append((finite[1:] + finite[:-1]) / 2, finite[-1] * 1.5))
    found.append(np.array([2.0**n + d for n in (3, 4, 7, 8, 15, 16, 31, 32, 63) for d in (-1, -0.5, 0, 0.5)]))
    near = np.concatenate(found)
    near = near[near < np.finfo("f4").max].astype("f4")
    bits = np.concatenate([near.view("i4") + d for d in (-1, 0, 1)]).view("u4")
    bits[1::2] |= 0x80000000
    bits = np.append(bits, np.array([0, 1 << 31, 0x7FC00000, 0x7F800000, 0xFF800000], "u4"))
    return np.pad(bits, (0, -len(bits) % (THREADS * VECTOR)))


SOURCES = ("f16", "bf16", "e4m3", "e5m2", "e2m1", "s4", "u4", "u8", "s8", "s16", "u16", "f32")

LAWS: dict[str, Callable[[], Law]] = {
    **{f"unary {x}": partial(unary, x) for x in ("f16", "bf16")},
    **{f"binary {x}": partial(binary, x) for x in ("e4m3", "e5m2")},
    **{f"convert {x}": partial(conversion, x) for x in SOURCES},
}
"""Every law by name."""
