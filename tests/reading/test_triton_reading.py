"""Functions of Triton: `//` and `%` are C's on tensors and Python's on constants, read and run alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import MismatchError
from layoutalg.indexing import identify
from layoutalg.layout import Layout
from layoutalg.reading import evaluated, read_python
from layoutalg.testing import check_index_function, with_numbers
from tests.sweeps import each

ROTATION = "@triton.jit\ndef f(row, col):\n    return row * 8 + (col - row) % 8"


def c_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def test_a_remainder_on_tensors_is_no_rotation() -> None:
    """(col - row) % 8 is negative below the diagonal, as in C; without the decorator it is a rotation."""
    assert str(identify(ROTATION, (8, 8)).layout) == "(8,8):(7,1)"
    assert identify(ROTATION.partition("\n")[2], (8, 8)).kind == "rotation"
    check_index_function(ROTATION, Layout((8, 8), (7, 1)))
    with pytest.raises(MismatchError):
        check_index_function(ROTATION.partition("\n")[2], Layout((8, 8), (7, 1)))


HEAD = "import triton\nimport triton.language as tl\nK = -7\n"
CASES = (
    # the body of f(row, col), and its value at (5, 2)
    ("return (col - row) // 2", -1),
    ("return (-7) // 2 + row * 0", -4),
    ("a = -7\n    return a // 2", -3),
    ("a: tl.constexpr = -7\n    return a // 2", -4),
    ("return K // 2", -4),
    ("return (K + 0 * row) // 2", -3),
    ("a = col\n    a -= 7\n    a //= 2\n    return a % 2", 0),
    ("out = 0\n    for i in range(3):\n        out += (i - 4) // 3\n    return out", -2),
    ("return g(-7, row)", -4),
    ("return g(col - 9, row)", -3),
    ("return g(row - 12, row) % 2 if row > col else 1", -1),
    ("return (col - row) % 2 + ((col - row) & 1) * 8", 7),
    ("return h(row, -7)", -4),
)
G = "\n@triton.jit\ndef g(x, y):\n    return x // 2\n"
G += "\n@triton.jit\ndef h(x, n: tl.constexpr):\n    return n // 2\n"


@each(("body", "value"), CASES)
def test_what_triton_computes(body: str, value: int) -> None:
    text = f"{HEAD}\n@triton.jit\ndef f(row, col):\n    {body}\n{G}"
    found, bad = evaluated(read_python(text, "f").term, {"row": np.array([5]), "col": np.array([2])})
    assert bad is None
    assert found.tolist() == [value]
    assert _run(text)(5, 2) == value


@each(("head", "value"), [
    *((f"from numba import jit\n@{name}", 5) for name in ("numba.jit", "jit", "njit", "functools.cache")),
    ("import triton as tr\n@tr.jit", -3), ("from triton import jit\n@jit", -3),
    ("from triton import jit as fast\n@fast", -3), ("import triton\n@triton.jit(noinline=True)", -3),
    ("from triton.experimental import gluon\n@gluon.jit", -3),
])  # fmt: skip
def test_names_of_the_decorator(head: str, value: int) -> None:
    """Other decorators leave Python's numbers."""
    text = f"{head}\ndef f(row, col):\n    return (col - row) % 8"
    found, _ = evaluated(read_python(text, "f").term, {"row": np.array([5]), "col": np.array([2])})
    assert found.tolist() == [value]


Number = tuple[int, bool]
"""A value, and whether it is a tensor."""


def _leaf(rng: random.Random) -> tuple[str, Callable[[int, int], Number]]:
    n = rng.randint(-9, 9)
    leaves: list[tuple[str, Callable[[int, int], Number]]] = [
        ("row", lambda row, col: (row, True)),
        ("col", lambda row, col: (col, True)),
        ("K", lambda row, col: (-7, False)),
        (f"({n})", lambda row, col: (n, False)),
    ]
    return rng.choice(leaves)


def _expression(rng: random.Random, depth: int) -> tuple[str, Callable[[int, int], Number]]:
    """A text, and its value as Triton has it for (row, col)."""
    if depth == 0 or rng.random() < 0.2:
        return _leaf(rng)
    op = rng.choice(("+", "-", "*", "//", "%", "//", "%"))
    a, value_a = _expression(rng, depth - 1)
    b, value_b = _expression(rng, depth - 1)
    divisor = rng.choice((-5, -3, 2, 3, 4, 7))
    if op in ("//", "%"):
        b = f"({divisor})"

    def value(row: int, col: int) -> Number:
        x, first = value_a(row, col)
        y, second = (divisor, False) if op in ("//", "%") else value_b(row, col)
        tensor = first or second
        if op in ("+", "-", "*"):
            return {"+": x + y, "-": x - y, "*": x * y}[op], tensor
        quotient = c_quotient(x, y) if tensor else x // y
        return (quotient if op == "//" else x - quotient * y), tensor

    return f"({a} {op} {b})", value


def _run(text: str) -> Any:
    """The function, run as Python with the numbers of Triton."""
    module = SimpleNamespace(jit=lambda f: f)
    names: dict[str, Any] = {"triton": module, "tl": SimpleNamespace(constexpr=int)}
    imports = "import triton\nimport triton.language as tl"
    exec(compile(with_numbers(text.replace(imports, "")), "f", "exec"), names)
    made = names["layoutalg_number"]
    return lambda *given: int(names["f"](*map(made, given)))


def test_random_functions_of_triton_are_read_and_run_as_they_are_defined() -> None:
    rng = random.Random(20261129)
    rows, columns = (axis.reshape(-1) for axis in np.indices((6, 5)))
    negative = 0
    for _ in range(150):
        text, value = _expression(rng, 4)
        if "row" not in text and "col" not in text:
            continue
        source = f"{HEAD}\n@triton.jit\ndef f(row, col):\n    return {text}"
        found, bad = evaluated(read_python(source, "f").term, {"row": rows, "col": columns})
        assert bad is None
        wanted = [value(int(r), int(c))[0] for r, c in zip(rows, columns, strict=True)]
        assert found.tolist() == wanted, text
        ran = _run(source)
        assert [ran(int(r), int(c)) for r, c in zip(rows, columns, strict=True)] == wanted, text
        negative += any(n < 0 for n in wanted)
    assert negative > 20
