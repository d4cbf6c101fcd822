"""Random kernels with one load and one store: their CUDA text, and what they touch, evaluated plainly.

The text and the evaluation are made from one tree each time, and share nothing else: the text is read by
layoutalg.source, the tree is evaluated thread by thread, block by block and turn by turn, and every warp is
counted by the definition.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from layoutalg.analysis import ideal_wavefronts, traffic, wavefronts

ELEMENTS = {"unsigned char": 1, "short": 2, "float": 4, "double": 8, "float4": 16}


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "*": operator.mul, "/": operator.floordiv, "%": operator.mod, "^": operator.xor,
    "&": operator.and_, "|": operator.or_, ">>": operator.rshift, "<<": operator.lshift, "<": operator.lt,
    "==": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """An index: an operator on trees, a variable or a number."""

    op: str
    parts: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """In C."""
        if self.op in ("var", "const"):
            return str(self.parts[0])
        if self.op == "?":
            c, a, b = (p.text for p in self.parts)
            return f"({c} ? {a} : {b})"
        a, b = (p.text for p in self.parts)
        return f"({a} {self.op} {b})"

    def value(self, env: Mapping[str, int]) -> int:
        """The number that C computes: all of them are small and not negative."""
        if self.op == "var":
            return env[self.parts[0]]
        if self.op == "const":
            return int(self.parts[0])
        if self.op == "?":
            c, a, b = self.parts
            return int(a.value(env) if c.value(env) else b.value(env))
        a, b = (p.value(env) for p in self.parts)
        return int(OPERATORS[self.op](a, b))


def const(n: int) -> Tree:
    return Tree("const", (n,))


@st.composite
def trees(draw: st.DrawFn, names: tuple[str, ...], depth: int = 3) -> Tree:
    """An index over variables, mostly affine with a division, a mask or an XOR in it."""
    kinds = ("var", "var", "scaled", "sum", "sum", "div", "mod", "xor", "bits", "shift", "?")
    kind = draw(st.sampled_from(kinds))
    if depth == 0 or kind == "var":
        return Tree("var", (draw(st.sampled_from(names)),))
    inner = draw(trees(names, depth - 1))
    match kind:
        case "scaled":
            return Tree("*", (inner, const(draw(st.integers(0, 40)))))
        case "div" | "mod":
            return Tree("/" if kind == "div" else "%", (inner, const(draw(st.integers(1, 33)))))
        case "bits":
            return Tree(draw(st.sampled_from("&|")), (inner, const(draw(st.integers(0, 63)))))
        case "shift":
            return Tree(draw(st.sampled_from(("<<", ">>"))), (inner, const(draw(st.integers(0, 4)))))
    other = draw(trees(names, depth - 1))
    if kind == "xor":
        return Tree("^", (inner, other))
    if kind == "?":
        test = Tree(
            draw(st.sampled_from(("<", "=="))), (draw(trees(names, 1)), const(draw(st.integers(0, 20))))
        )
        return Tree("?", (test, inner, other))
    return Tree("+", (inner, other))


@dataclass(frozen=True)
class Loop:
    """`for (int name = first; name < bound; name += step)`; `first` may be a thread's number."""

    name: str
    first: Tree
    bound: int
    step: int


@dataclass(frozen=True)
class RandomKernel:
    """A store to shared memory of what is loaded from global memory, in loops and under a condition."""

    name: str
    element: str
    block: tuple[int, int]
    grid: tuple[int, int] | None
    loops: tuple[Loop, ...]
    condition: Tree | None
    store: Tree
    load: Tree

    @property
    def text(self) -> str:
        """The kernel in CUDA."""
        lines = [
            f"__global__ void {self.name}(const {self.element}* __restrict__ g, int n) {{",
            f"  extern __shared__ {self.element} s_{self.name}[];",
            "  const int tx = threadIdx.x; int ty = threadIdx.y, bx = blockIdx.x, by = blockIdx.y;",
        ]
        for loop in self.loops:
            lines.append(
                f"  for (int {loop.name} = {loop.first.text}; {loop.name} < {loop.bound}; "
                f"{loop.name} += {loop.step})"
            )
        if self.condition is not None:
            lines.append(f"  if ({self.condition.text})")
        lines.append(f"    s_{self.name}[{self.store.text}] = g[{self.load.text}];")
        return "\n".join([*lines, "}"])

    def counts(self) -> dict[str, tuple[int, int, int, int]]:
        """(instructions, total, ideal, worst ratio rounded up) of "ld" and "st", by the definition."""
        width = ELEMENTS[self.element]
        found = {"ld": [0, 0, 0, 1], "st": [0, 0, 0, 1]}
        threads = [(t % self.block[0], t // self.block[0]) for t in range(self.block[0] * self.block[1])]
        blocks = self.grid or (1, 1)
        for by in range(blocks[1]):
            for bx in range(blocks[0]):
                for warp in range(0, len(threads), 32):
                    lanes = [{"tx": x, "ty": y, "bx": bx, "by": by} for x, y in threads[warp : warp + 32]]
                    self._turns(lanes, 0, found, width)
        return {verb: (a, b, c, d) for verb, (a, b, c, d) in found.items()}

    def _turns(
        self, lanes: Sequence[dict[str, int] | None], depth: int, found: dict[str, list[int]], width: int
    ) -> None:
        if not any(lane is not None for lane in lanes):
            return
        if depth == len(self.loops):
            kept = [
                lane if lane is not None and (self.condition is None or self.condition.value(lane)) else None
                for lane in lanes
            ]
            if any(lane is not None for lane in kept):
                self._count(kept, found, width)
            return
        loop = self.loops[depth]
        now = [None if lane is None else lane | {loop.name: loop.first.value(lane)} for lane in lanes]
        while True:
            now = [lane if lane is not None and lane[loop.name] < loop.bound else None for lane in now]
            if not any(lane is not None for lane in now):
                return
            self._turns(now, depth + 1, found, width)
            now = [None if lane is None else lane | {loop.name: lane[loop.name] + loop.step} for lane in now]

    def _count(self, lanes: list[dict[str, int] | None], found: dict[str, list[int]], width: int) -> None:
        padded = [*lanes, *[None] * (32 - len(lanes))]
        stored = [None if lane is None else width * self.store.value(lane) for lane in padded]
        loaded = [None if lane is None else width * self.load.value(lane) for lane in padded]
        shared, bits = found["st"], 8 * width
        taken = wavefronts(f"st.shared.b{bits}", stored)
        ideal = ideal_wavefronts(f"st.shared.b{bits}", stored)
        shared[0], shared[1], shared[2] = shared[0] + 1, shared[1] + taken, shared[2] + ideal
        shared[3] = max(shared[3], -(-taken // ideal))
        moved = traffic(f"ld.global.b{bits}", loaded)
        own = found["ld"]
        own[0], own[1] = own[0] + 1, own[1] + moved.sectors
        own[2] += -(-moved.useful_bytes // 32)


@st.composite
def kernels(draw: st.DrawFn, name: str, block: tuple[int, int], grid: tuple[int, int] | None) -> RandomKernel:
    """A kernel of few threads, turns and blocks."""
    names: tuple[str, ...] = ("tx", "ty", "bx", "by")
    loops = []
    for n in range(draw(st.integers(0, 2))):
        first = Tree("var", ("tx",)) if draw(st.integers(0, 3)) == 0 else const(draw(st.integers(0, 2)))
        loops.append(Loop(f"i{n}", first, draw(st.integers(0, 9)), draw(st.sampled_from((1, 2, 3, 16)))))
        names = (*names, f"i{n}")
    condition = None
    if draw(st.booleans()):
        condition = Tree("<", (draw(trees(names, 2)), const(draw(st.integers(1, 60)))))
    element = draw(st.sampled_from(tuple(ELEMENTS)))
    return RandomKernel(
        name, element, block, grid, tuple(loops), condition, draw(trees(names)), draw(trees(names))
    )


@st.composite
def sources(draw: st.DrawFn, count: int = 8) -> tuple[RandomKernel, ...]:
    """Some kernels of one file, launched alike."""
    block = draw(st.sampled_from(((32, 1), (16, 4), (8, 8), (48, 1), (5, 7))))
    grid = draw(st.sampled_from((None, (3, 2), (1, 1), (4, 1))))
    return tuple(draw(kernels(f"k{n}", block, grid)) for n in range(count))
