"""identify, check and kernel on one function: the same numbers, which NumPy computes, or a refusal.

A function f(i, j) of index arithmetic is drawn as text in C together with its values on a grid.  `identify`
reads it, `check` compiles it, and `kernel` follows a store to shared memory at its index.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import LayoutAlgError
from layoutalg.indexing import identify
from layoutalg.reading import evaluated, read_c
from layoutalg.testing import IndexCode
from tests.source.lane_oracle import SHARED, Case, told

ROWS, COLUMNS = 8, 16
BELOW = 1 << 20
"""Numbers on the way are brought below this, so that no int overflows."""


class Drawn:
    """The text of a function and its values: statements are drawn and computed side by side."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        j, i = np.divmod(np.arange(ROWS * COLUMNS), ROWS)
        self.names: dict[str, Any] = {"i": i, "j": j}
        self.lines: list[str] = []
        self.done = np.zeros(i.shape, dtype=bool)
        self.value = np.zeros(i.shape, dtype=np.int64)
        for _ in range(rng.randint(0, 3)):
            self.statement()
        text, value = self.expression(3)
        self.value = np.where(self.done, self.value, value & 1023)
        head = f"{rng.choice(('int', 'unsigned', 'long'))} f({rng.choice(('int', 'short', 'long'))} i, int j)"
        self.text = f"__device__ {head} {{ {' '.join(self.lines)} return ({text}) & 1023; }}"

    def expression(self, depth: int) -> tuple[str, Any]:
        """A number, as C computes it with ints."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            name = rng.choice((*self.names, *self.names, str(rng.randint(0, 40))))
            return name, self.names[name] if name in self.names else np.full(ROWS * COLUMNS, int(name))
        (a, x), (b, y) = self.expression(depth - 1), self.expression(depth - 1)
        n = rng.choice((1, 2, 3, 4, 5, 8, 16))
        bits = rng.randint(0, 4)
        down = np.sign(x) * (np.abs(x) // n)
        text, value = rng.choice((
            (f"{a} + {b}", x + y), (f"{a} - {b}", x - y), (f"{a} ^ {b}", x ^ y), (f"{a} & {b}", x & y),
            (f"{a} | {b}", x | y), (f"{a} * {n}", x * n), (f"{a} / {n}", down), (f"{a} % {n}", x - down * n),
            (f"{a} << {bits}", x << bits), (f"{a} >> {bits}", x >> bits), (f"{a} & {n - 1}", x & (n - 1)),
            (f"{a} < {b} ? {b} : {a}", np.maximum(x, y)), (f"{a} == {b} ? {n} : {a}", np.where(x == y, n, x)),
            (f"{a} % {n} != 0 && {b} > 3", (x % n != 0) & (y > 3)), (f"-{a}", -x), (f"~{b}", ~y),
        ))  # fmt: skip
        value = value.astype(np.int64)
        if np.abs(value).max() >= BELOW:
            text, value = f"({text}) & 255", value & 255
        return f"({text})", value

    def statement(self) -> None:
        """A declaration, a branch, a return or a loop."""
        rng, name = self.rng, f"v{len(self.names)}"
        (a, x), (b, y), (c, z) = (self.expression(2) for _ in range(3))
        kind, n = rng.choice(["set", "branch", "return", "loop"]), rng.randint(0, 4)
        if kind == "return":
            self.value = np.where((x > y) & ~self.done, z & 1023, self.value)
            self.done = self.done | (x > y)
            self.lines.append(f"if ({a} > {b}) return ({c}) & 1023;")
            return
        self.lines.append(f"int {name} = {a};")
        if kind == "branch":
            self.lines.append(f"if ({b} & 1) {name} = {c}; else {name} += {n};")
            x = np.where(y & 1, z, x + n)
        if kind == "loop":
            self.lines.append(f"for (int k = 0; k < {n}; ++k) {name} = (({name} ^ {b}) + k * 3) & 511;")
            for k in range(n):
                x = ((x ^ y) + k * 3) & 511
        self.names[name] = x


def in_a_kernel(drawn: Drawn) -> Case:
    """A store of every thread at the index of its row and column."""
    index = f"f(threadIdx.x % {ROWS}, threadIdx.x / {ROWS})"
    text = f"{drawn.text}\n__global__ void k(int n) {{ {SHARED}\ns[{index}] = 1;\n}}"
    return Case(text, threads=ROWS * COLUMNS)


def judged(functions: list[Drawn], compiled: int) -> Counter[str]:
    """The answers of the three, counted; `check` is asked of the first ones, and nothing may be wrong."""
    seen = Counter[str]()
    for n, (drawn, reading) in enumerate(
        zip(functions, told([in_a_kernel(d) for d in functions]), strict=True)
    ):
        wanted = drawn.value
        try:
            i, j = drawn.names["i"], drawn.names["j"]
            values, bad = evaluated(read_c(drawn.text).term, {"i": i, "j": j})
            assert bad is None and (values == wanted).all(), drawn.text
            found = identify(drawn.text, (ROWS, COLUMNS))
            assert found.why, drawn.text
            if found.layout is not None:
                assert (found.layout(np.arange(wanted.size)) == wanted).all(), (drawn.text, found)
            seen["no layout" if found.layout is None else "layout"] += 1
        except LayoutAlgError as error:
            assert "unsigned long long" in str(error), (drawn.text, error)
            seen[f"identify: {type(error).__name__}"] += 1
        if n < compiled:
            table = IndexCode(drawn.text, "f", (ROWS, COLUMNS)).table(0, wanted.size)
            assert (table == wanted).all(), drawn.text
        line = 3
        if reading.unread:
            assert all(reading.unread.values()), drawn.text
            seen[f"kernel: {reading.unread[line].partition(',')[0]}"] += 1
            continue
        lanes = (4 * wanted).reshape(-1, 32).tolist()
        assert reading.touched({})[line, True] == Counter(map(tuple, lanes)), drawn.text
        assert not reading.note
        seen["kernel"] += 1
    return seen


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.deep) for n in range(2, 12))])
def test_identify_check_and_kernel_say_the_same(seed: int) -> None:
    rng, many = random.Random(seed), 8 if seed == 1 else 50
    seen = judged([Drawn(rng) for _ in range(many)], compiled=0 if seed == 1 else 4)  # which takes a while
    assert 10 * seen["layout"] > many and 5 * seen["no layout"] > many and 5 * seen["kernel"] > 4 * many, seen
