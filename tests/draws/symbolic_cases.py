"""Random symbolic operands, values for their symbols, and what a symbolic result has to agree with."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import sympy

from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout, ScaledBasis, flatten_tree

SYMBOLS: tuple[Any, ...] = sympy.symbols("n m k", integer=True, positive=True)
N, M, K = SYMBOLS

EXTENTS: tuple[Any, ...] = (1, 2, 3, 4, 6, N, M, 2 * N, 4 * M, N * M, N + 1)
STEPS: tuple[Any, ...] = (0, 1, 2, 4, 8, N, M, K, 2 * N, 4 * M, N * M, 4 * N * M, K * N, N + M)
Operands = tuple[Any, ...]


def layout(draw: random.Random, extents: Operands = EXTENTS, steps: Operands = STEPS) -> Layout:
    """One to three modes, one of them perhaps nested; half of the time compact."""
    shape: list[Any] = [draw.choice(extents) for _ in range(draw.randint(1, 3))]
    stride: list[Any] = [draw.choice(steps) for _ in shape]
    if draw.random() < 0.5:
        current: Any = draw.choice((1, 1, 2, K))
        for i in draw.sample(range(len(shape)), len(shape)):
            stride[i] = current
            current = current * shape[i] * draw.choice((1, 1, 2, M))
    if len(shape) == 1 and draw.random() < 0.7:
        return Layout(shape[0], stride[0])
    if len(shape) == 3 and draw.random() < 0.3:
        return Layout((tuple(shape[:2]), shape[2]), (tuple(stride[:2]), stride[2]))
    return Layout(tuple(shape), tuple(stride))


def put(value: Any, numbers: dict[Any, int]) -> Any:
    """`value` with numbers for its symbols: an int, a tuple, a Layout or a scaled basis of ints."""
    if isinstance(value, Layout):
        return Layout(put(value.shape, numbers), put(value.stride, numbers))
    if isinstance(value, tuple):
        return tuple(put(v, numbers) for v in value)
    if isinstance(value, ScaledBasis):
        return ScaledBasis(put(value.value, numbers), *value.modes)
    if isinstance(value, sympy.Basic):
        number = value.xreplace({s: sympy.Integer(x) for s, x in numbers.items()}).doit()
        return bool(number) if isinstance(number, sympy.logic.boolalg.Boolean) else int(number)
    return value


def numbers(draw: random.Random, top: int = 7) -> dict[Any, int]:
    """A value for every symbol."""
    return {s: draw.randint(1, top) for s in SYMBOLS}


def outcome(operation: Callable[..., Any], operands: Operands) -> Any:
    """The result, or the error."""
    try:
        return operation(*operands)
    except LayoutAlgError as error:
        return error


def table(layout: Layout) -> list[Any]:
    """Every value, in the order of flat coordinates."""
    return [layout(i) for i in range(prod(flatten_tree(layout.shape)))]
