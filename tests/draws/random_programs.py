"""Random tile programs that read memory: nests of loops and branches, indices and predicates of all kinds.

A program writes no memory that it reads, so it runs in the simulator whatever its addresses are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Minus, Select, Var, evaluate, simplify
from layoutalg.codegen.instr import CP_ASYNC_ZFILL, CP_COMMIT, LDG, LDS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global, Kernel, MemRef, Reg, Shared
from layoutalg.layout import Layout

Draw = Callable[[st.SearchStrategy[Any]], Any]

TILE, MOST = 4096, 1 << 16
"""Elements of the shared tile; the largest index of a random expression."""

DIVISORS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 33, 63, 64, 96, 100, 128, 1000)
WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class RandomProgram:
    """A kernel and values of its parameters."""

    kernel: Kernel
    params: dict[str, int]

    def __repr__(self) -> str:
        return f"{self.kernel}\n{[str(n) for n in self.kernel.grid]} {self.kernel.threads} {self.params}"

    def arguments(self) -> dict[str, Any]:
        """What the simulator needs to run it."""
        buffers = [p for p in self.kernel.params if isinstance(p, Global)]
        sizes = {p.name: np.zeros((MOST + 1) * p.element_bytes, dtype=np.uint8) for p in buffers}
        return {**self.params, **sizes}


@dataclass
class _Author:
    """Writes a program by drawing."""

    draw: Draw
    k: KernelBuilder
    sources: dict[int, Global]
    tiles: dict[int, Shared]
    reg: Reg
    guards: bool
    names: list[Expr] = field(default_factory=list)
    made: int = 0
    runs: int = 1

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def expression(self, depth: int = 3) -> Expr:
        """An index expression whose values stay below MOST."""
        if depth == 0 or self.number(0, 5) == 0:
            named: Expr = self.pick(self.names)
            return named if self.number(0, 6) else Const(self.number(0, 70))
        found: Expr
        a = self.expression(depth - 1)
        kind = self.pick(("+", "+", "+", "*", "*", "//", "%", "^", "&", "|", "<<", ">>", "?", "x", "v", "-"))
        match kind:
            case "*":
                found = a * self.pick(DIVISORS)
            case "//":
                found = a // self.pick(DIVISORS)
            case "%":
                found = a % self.pick(DIVISORS)
            case "<<":
                found = a << self.number(0, 4)
            case ">>":
                found = a >> self.number(0, 6)
            case "v":  # a divisor that is not a constant
                divisor = self.expression(0) + 1
                found = self.pick((a // divisor, a % divisor))
            case "?":
                found = Select(self.predicate(1), a, self.expression(depth - 1))
            case _:
                b = self.expression(depth - 1)
                found = {"+": a + b, "^": a ^ b, "&": a & b, "|": a | b, "x": a * b, "-": Minus(a, b)}[kind]
        return found if found.facts.hi <= MOST else found % self.pick((31, 64, 1000, 4096))

    def predicate(self, depth: int = 2) -> Expr:
        """A comparison, or several."""
        a = self.expression(2)
        b = Const(self.number(0, min(a.facts.hi + 1, 2000))) if self.number(0, 2) else self.expression(1)
        found: Expr = self.pick((a < b, b < a, a <= b, b <= a, a.eq(b)))
        if depth == 1 or self.number(0, 2):
            return found
        return found & self.predicate(1) if self.number(0, 1) else found | self.predicate(1)

    def body(self, depth: int) -> None:
        """A few statements; what they name is known to those that follow."""
        outside = list(self.names)
        for _ in range(self.number(1, 3)):
            self.statement(depth)
        self.names = outside

    def statement(self, depth: int) -> None:
        kind = self.pick(("load", "load", "let", "for", "unroll", "if", "else") if depth else ("load", "let"))
        match kind:
            case "load":
                self.load()
            case "let":
                self.names.append(self.k.let(self.name("x"), self.expression(2)))
            case "for" | "unroll":
                self.loop(depth, rolled=kind == "for")
            case "if" | "else":
                with self.k.If(self.predicate()):
                    self.body(depth - 1)
                if kind == "else":
                    with self.k.Else():
                        self.body(depth - 1)

    def loop(self, depth: int, *, rolled: bool) -> None:
        if rolled:
            most = self.number(1, 5)
            count = self.expression(2) % (most + 1) if self.number(0, 1) else Const(most)
            scope = self.k.For(self.name("i"), count if simplify(count).facts.hi else 1)
        else:
            scope = self.k.Unroll(self.name("step"), self.number(1, 4))
        with scope as var:
            outside = list(self.names)
            if var.facts.hi:
                self.names.append(var)
            self.body(depth - 1)
            self.names = outside

    def load(self) -> None:
        width = self.pick(WIDTHS)
        if self.guards and width in CP_ASYNC_ZFILL and self.number(0, 2) == 0:
            to, source = self.shared(width), self.k.at(self.sources[width], self.expression())
            self.k.do(CP_ASYNC_ZFILL[width], to, source, self.predicate())
            return
        register = self.reg.slice(0, count=max(1, width // 4))
        if self.number(0, 1):
            self.k.do(LDS[width], register, self.shared(width))
        else:
            self.k.do(LDG[width], register, self.k.at(self.sources[width], self.expression()))

    def shared(self, width: int) -> MemRef:
        index = self.expression()
        return self.k.at(self.tiles[width], index if index.facts.hi < TILE else index % TILE)


@st.composite
def programs(draw: Draw, *, guards: bool = True) -> RandomProgram:
    """Random programs with values of their parameters; without `guards` they run in the simulator."""
    threads = draw(st.sampled_from((32, 64, 96) if not guards else (32, 40, 64, 96)))
    k = KernelBuilder("random", threads)
    n, ld = k.param("n", 300), k.param("ld", 3000, 0, multiple=draw(st.sampled_from((1, 8, 20))))
    sources = {w: k.pointer(f"src{w}", w) for w in WIDTHS}
    tiles = {w: k.shared_buffer(f"tile{w}", w, Layout((TILE,)), TILE, 16) for w in WIDTHS}
    author = _Author(draw, k, sources, tiles, k.reg("v", 4), guards, [k.tid, k.tid, n, ld])
    for axis in range(draw(st.integers(1, 3))):
        extent = (n + 31) // 32 if draw(st.booleans()) else Const(draw(st.integers(1, 5)))
        author.names.append(k.block(axis, extent if not axis else draw(st.integers(1, 3))))
    author.body(3)
    if guards:
        k.do(CP_COMMIT)
    params = {p.name: _value(draw, p) for p in (n, ld)}
    return RandomProgram(k.build(), params)


def _value(draw: Draw, p: Var) -> int:
    step = p.multiple
    return int(evaluate(Const(draw(st.integers(-(-p.facts.lo // step), p.facts.hi // step)) * step), {}))
