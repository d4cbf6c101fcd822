"""Random kernels that choose, gather, reduce and update: what registers compute, of all types, and where it
goes.

Each part of a kernel writes a tensor of its own.  All but the approximated functions are exact, so that a
launch has to give the simulator's bits; those may be off by the places that their operation states.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from layoutalg import codegen as cg
from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.instr import FETCHES, LDG, LDS, OPERATIONS, STG, STS
from layoutalg.codegen.program import Global, Kernel, printed
from layoutalg.codegen.terms import Value
from layoutalg.dtype import DTYPES
from layoutalg.layout import Layout

THREADS, VECTOR, BINS, ROWS = 64, 4, 32, 48
TILE = THREADS * VECTOR

STORED = {
    "f32": ("f32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8"), "s32": ("s32", "s8", "u16", "f16", "u32"),
    "u32": ("u32", "u8", "s16", "bf16"),
}  # fmt: skip
"""The types that values of a kind are stored as."""

NEAR = [op for op, own in OPERATIONS.items() if own.places]
"""Operations that the device approximates."""

LOADED = {"a": "f32", "b": "s32", "c": "u8", "d": "f16", "e": "u32", "g": "s8", "h": "e4m3"}
"""The tensors that are read, and their types."""


@dataclass(frozen=True)
class ValueKernel:
    """A kernel, its arguments, the units of the last place by which tensors may be off, 0 of the others, and
    the tensors whose numbers stand anywhere."""

    kernel: Kernel
    arguments: Mapping[str, Any]
    places: Mapping[str, int]
    elements: Mapping[str, str]
    unordered: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return str(self.kernel)

    def simulated(self) -> dict[str, Any]:
        """What the printed program leaves, by tensor."""
        arrays = self.copies()
        cg.simulate(printed(self.kernel), {**self.arguments, **arrays}, group="warp", seed=1)
        return arrays

    def copies(self) -> dict[str, Any]:
        """The arrays that are written, as they are before."""
        return {name: self.arguments[name].copy() for name in self.elements}

    def differences(
        self, got: Mapping[str, Any], wanted: Mapping[str, Any], places: Mapping[str, int] | None = None
    ) -> list[str]:
        """The tensors that differ from what is wanted: by more than they may, or other `places` say."""
        within = self.places if places is None else places
        return [name for name, x in wanted.items() if not self._same(name, got[name], x, within.get(name, 0))]

    def _same(self, name: str, got: Any, wanted: Any, places: int) -> bool:
        element = self.elements[name]
        if name in self.unordered:
            got, wanted = np.sort(got), np.sort(wanted)
        if element in ("f64", "f32", "f16"):
            kind = {"f64": "f8", "f32": "f4", "f16": "f2"}[element]
            x, y = got.view(kind), wanted.view(kind)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            if places:
                with np.errstate(all="ignore"):
                    off = np.abs(x.astype("f8") - y) <= places * np.spacing(np.maximum(np.abs(y), 1e-37))
                same |= off
            return bool(same.all())
        bits, other = got.view(f"u{got.itemsize}"), wanted.view(f"u{wanted.itemsize}")
        if element == "bf16":  # of NaN the payload is left open, and 0 is -0
            nan, same_nan = (x & 0x7FFF > 0x7F80 for x in (bits, other))
            return bool(((bits == other) | (nan & same_nan) | ((bits | other) & 0x7FFF == 0)).all())
        if element in ("e4m3", "e5m2"):
            least = 0x7F if element == "e4m3" else 0x7D
            nan, same_nan = (x & 0x7F >= least for x in (bits, other))
            return bool(((bits == other) | (nan & same_nan) | ((bits | other) & 0x7F == 0)).all())
        return bool((bits == other).all())


@dataclass
class _Author:
    """Writes a kernel by drawing."""

    rng: random.Random
    k: Any
    leaves: dict[str, list[Any]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    unordered: set[str] = field(default_factory=set)
    counters: set[str] = field(default_factory=set)
    codes: Any = None
    places: dict[str, int] = field(default_factory=dict)

    def pick(self, options: Any) -> Any:
        return self.rng.choice(list(options))

    def value(self, kind: str, depth: int) -> Any:
        """A value of a kind that has registers in it."""
        if depth == 0:
            return self.pick(self.leaves[kind])
        return {"f32": self.floating, "bool": self.predicate}.get(kind, self.whole)(kind, depth - 1)

    def other(self, kind: str, depth: int) -> Any:
        """The same, or a number."""
        if self.rng.random() < 0.3:
            least = 0 if kind == "u32" else -9
            return self.rng.randint(least, 9) / 4 if kind == "f32" else self.rng.randint(least, 9)
        return self.value(kind, depth)

    def floating(self, kind: str, depth: int) -> Any:
        x = self.value("f32", depth)
        match self.pick(("+", "-", "*", "neg", "abs", "max", "min", "fma", "where", "to", "/", "sqrt")):
            case "+":
                return x + self.other(kind, depth)
            case "-":
                return self.other(kind, depth) - x
            case "*":
                return x * self.other(kind, depth)
            case "neg":
                return -x
            case "abs":
                return abs(x)
            case "max":
                return cg.maximum(x, self.other(kind, depth))
            case "min":
                return cg.minimum(x, self.other(kind, depth))
            case "fma":
                return cg.fma(x, self.other(kind, depth), self.other(kind, depth))
            case "where":
                return cg.where(self.value("bool", depth), x, self.other(kind, depth))
            case "/":
                return x / (abs(self.value(kind, depth)) + 1)
            case "sqrt":
                return cg.sqrt(abs(x))
            case _:
                return self.value(self.pick(("s32", "u32", "bool")), depth).to("f32")

    def whole(self, kind: str, depth: int) -> Any:
        x = self.value(kind, depth)
        way = self.pick(
            ("+", "-", "*", "//", "%", "&", "|", "^", "~", "<<", ">>", "max", "min", "where", "to")
        )
        match way:
            case "~":
                return ~x
            case "<<" | ">>":
                amount = self.pick((self.rng.randint(0, 31), self.value(kind, depth) & 31))
                return x << amount if way == "<<" else x >> amount
            case "max" | "min":
                return (cg.maximum if way == "max" else cg.minimum)(x, self.other(kind, depth))
            case "where":
                return cg.where(self.value("bool", depth), x, self.other(kind, depth))
            case "to":
                others = [other for other in ("f32", "s32", "u32", "bool") if other != kind]
                return self.value(self.pick(others), depth).to(kind)
        y = self.other(kind, depth)
        operators: dict[str, Callable[[], Any]] = {
            "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y,
            "%": lambda: x % y, "&": lambda: x & y, "|": lambda: x | y, "^": lambda: x ^ y,
        }  # fmt: skip
        return operators[way]()

    def predicate(self, kind: str, depth: int) -> Any:
        if depth and self.rng.random() < 0.3:
            x, y = self.value("bool", depth - 1), self.value("bool", depth - 1)
            return self.pick((x & y, x | y, x ^ y, ~x))
        of = self.pick(("f32", "s32", "u32"))
        x, y = self.value(of, depth), self.other(of, depth)
        return self.pick((x < y, x <= y, x > y, x >= y, x.eq(y), x.ne(y)))

    def tensor(self, element: str, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> Any:
        name = f"y{len(self.written)}"
        self.written[name] = element
        return self.k.tensor(name, element, shape, strides, writable=True)


def _part(k: Any, tensor: Any, element: str, block: Any) -> Any:
    bits = VECTOR * DTYPES[element].bits
    copy = make_tiled_copy(f"UniversalCopy<uint{bits}_t>", element, Layout(THREADS), Layout(VECTOR))
    return k.get_slice(copy).partition_S(cg.local_tile(tensor, (TILE,), (block,)))


def random_kernel(rng: random.Random) -> ValueKernel:
    """A kernel of several parts, and its arguments."""
    k = cg.Kernel("values", threads=THREADS)
    n, turns = k.extent("n", 1 << 16, VECTOR), k.extent("turns", 5)
    alpha, beta = k.scalar("alpha", "f32"), k.scalar("beta", "s32")
    (block,) = k.grid((n,), (TILE,))
    me = _Author(rng, k)
    loaded = {}
    for name, element in LOADED.items():
        part = _part(k, k.tensor(name, element, (n,), (1,)), element, block)
        loaded[name] = k.load(part, where=part.inside)
    me.leaves = {
        "f32": [
            loaded["a"],
            loaded["a"],
            loaded["d"],
            loaded["d"],
            k.map(loaded["h"].to("f32")),
            loaded["a"] * alpha,
        ],
        "s32": [loaded["b"], loaded["b"], loaded["c"].to("s32"), loaded["g"].to("s32"), loaded["b"] - beta],
        "u32": [loaded["e"], loaded["e"], loaded["c"].to("u32"), loaded["e"] ^ k.tid, loaded["e"] + block],
        "bool": [loaded["a"] > 0, loaded["b"] < beta, (loaded["e"] & 1).eq(0)],
    }
    parts = [_elementwise, _near, _gather, _scatter, _reduced, _updated, _carried, _quantised, _collected]
    parts += [_swapped]
    me.codes = loaded["c"]
    for part_of in [_elementwise, *rng.sample(parts, 3)]:
        part_of(me, n, block, turns)
    return ValueKernel(k.build(), _arguments(rng, me, k), me.places, me.written, frozenset(me.unordered))


def _elementwise(me: _Author, n: Any, block: Any, turns: Any) -> None:
    kind = me.pick(STORED)
    element = me.pick(STORED[kind])
    y = _part(me.k, me.tensor(element, (n,), (1,)), element, block)
    value = me.value(kind, me.rng.randint(1, 4))
    me.k.store(value if element == kind else value.to(element), y, where=y.inside)


def _near(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """An approximated function of what is exact."""
    op, x = me.pick(NEAR), me.value("f32", me.rng.randint(0, 2))
    x = abs(x) + 0.25 if op in ("log", "log2", "log1p", "rsqrt") else cg.minimum(cg.maximum(x, -60), 60)
    me.places[f"y{len(me.written)}"] = (
        OPERATIONS[op].places + 1
    )  # of the nearest float, and the device of the exact
    y = _part(me.k, me.tensor("f32", (n,), (1,)), "f32", block)
    me.k.store(Value(op, (x,)), y, where=y.inside)


def _gather(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """Elements of a table by numbers: below its extent by a mask, or by a predicate."""
    k, rows = me.k, me.k.tensor(f"table{len(me.written)}", "f32", (ROWS,), (1,))
    y = _part(k, me.tensor("f32", (n,), (1,)), "f32", block)
    where_to, got = k.map(me.value("u32", 2)), k.fragment("got", "f32", y.shape)
    by_mask = me.rng.random() < 0.5
    k.map(0.0, into=got)
    for i in range(VECTOR):
        chosen = cg.minimum(where_to[i], ROWS - 1) if by_mask else where_to[i] & 63
        at = k.index(k.fresh("row"), chosen)
        if by_mask:
            k.do(LDG[4], got.at(i), rows.at(at))
        else:
            with k.If(at < ROWS):
                k.do(LDG[4], got.at(i), rows.at(at))
    k.store(got * 2, y, where=y.inside)


def _scatter(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """Each thread stores at the number of another one, by a number in a register."""
    k, flip = me.k, me.rng.randrange(THREADS)
    to = me.tensor("s32", (block.extent, THREADS), (THREADS, 1))
    mine = k.fragment("mine", "u32", (1,))
    k.map((k.tid ^ flip), into=mine)
    total = me.value("s32", 1)
    held = k.map(total)
    at = k.index(k.fresh("at"), mine & (THREADS - 1))
    k.do(STG[4], to.at(block, at), held.at(0))


def _reduced(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """A reduction of groups of lanes; the first of each stores it."""
    k, lanes = me.k, me.pick((1, 2, 8, 32))
    op = me.pick(("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "own", "pairs"))
    groups, where = THREADS // lanes, k.tid % lanes
    kind = me.pick(("f32", "s32", "u32"))
    held = k.map(me.value(kind, me.rng.randint(1, 2)))
    if op == "pairs":
        squares = k.map(held * held)
        found = k.reduce(lambda a, b: (a[0] + b[0], cg.maximum(a[1], b[1])), (held, squares), lanes=lanes,
                         neutral=(0, 0), name="pairs")  # fmt: skip
    elif op == "own":
        found = k.reduce(lambda a, b: cg.maximum(a, b) + 0, held, lanes=lanes, neutral=0, name="own")
    elif op.startswith("arg"):
        numbers = k.fragment("numbers", "u32", held.shape)
        for i in range(VECTOR):
            k.map(k.tid * VECTOR + i, into=numbers[i])
        found = k.reduce(op, held, index=numbers, lanes=lanes)
    else:
        found = k.reduce(op, held, lanes=lanes)
    for one in found if isinstance(found, tuple) else (found,):
        to = me.tensor(one.element.name, (block.extent, groups), (groups, 1))
        with k.If(where.eq(0)):
            k.do(STG[4], to.at(block, k.tid // lanes), one)


def _updated(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """Atomics on bins that numbers choose: of integers, and of floats that are whole."""
    k, op, kind = me.k, me.pick(("add", "max", "min")), me.pick(("s32", "u32", "f32"))
    op = "add" if kind == "f32" else op
    bins = me.tensor(kind, (BINS,), (1,))
    numbers = k.map(me.value("u32", 1) & (BINS - 1))
    whole = (me.value("u32", 1) & 15).to("f32") if kind == "f32" else me.value(kind, 2)
    values = k.map(whole)
    with k.If(k.tid < me.pick((7, 40, THREADS))):
        for i in range(VECTOR):
            k.atomic(op, values[i], bins.at(k.index(k.fresh("bin"), numbers[i] & (BINS - 1))))


def _quantised(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """Pairs of 4 bits from and to bytes."""
    k, (source, target) = me.k, (me.pick(("e2m1", "s4", "u4")) for _ in range(2))
    y = _part(k, me.tensor("u8", (n,), (1,)), "u8", block)
    scaled = k.map(me.codes.recast(source).to("f32") * (me.rng.randint(-9, 9) / 4) + me.rng.randint(-2, 2))
    k.store(k.map(scaled.to(target)).recast("u8"), y, where=y.inside)


def _collected(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """Values of some lanes, in the order in which a counter gives them places."""
    k, kind = me.k, me.pick(("s32", "u32"))
    me.counters.add(f"y{len(me.written)}")
    count = me.tensor("u32", (1,), (1,))
    me.unordered.add(f"y{len(me.written)}")
    to = me.tensor(kind, (block.extent * THREADS,), (1,))
    held = k.map(me.value(kind, 2))
    with k.If(k.index(k.fresh("kept"), held[0] > me.rng.randint(0, 9)).eq(1)):
        place = k.index(k.fresh("place"), k.atomic("add", 1, count.at(0), fetch=True))
        with k.If(place < block.extent * THREADS):
            k.do(STG[4], to.at(place), held.at(0))


def _swapped(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """Atomics that fetch, each thread at a place of its own."""
    k, kind, op = me.k, me.pick(("s32", "u32")), me.pick(("add", "max", "min", "exch", "cas"))
    shape = (block.extent, THREADS), (THREADS, 1)
    memory, fetched = me.tensor(kind, *shape), me.tensor(kind, *shape)
    value, other = (k.map(me.value(kind, 1))[0] for _ in range(2))
    old = k.atomic(op, value, memory.at(block, k.tid), fetch=True, compare=other if op == "cas" else None)
    k.do(STG[4], fetched.at(block, k.tid), old)


def _carried(me: _Author, n: Any, block: Any, turns: Any) -> None:
    """A state that the turns of a loop change."""
    k, kind = me.k, me.pick(("f32", "s32", "u32"))
    y = _part(k, me.tensor(kind, (n,), (1,)), kind, block)
    state = k.map(me.value(kind, 1), name="state")
    with k.For(k.fresh("turn"), turns) as turn:
        more = me.value(kind, 1)
        k.map(
            cg.where(me.value("bool", 1), state + more, cg.maximum(state, turn if kind == "u32" else 3)),
            into=state,
        )
    k.store(state, y, where=y.inside)


def _arguments(rng: random.Random, me: _Author, k: Any) -> dict[str, Any]:
    """Sizes of several blocks, the last of them ragged, and random numbers of all types."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    n = VECTOR * rng.randint(1, 3 * TILE // VECTOR)
    blocks = -(-n // TILE)
    args: dict[str, Any] = {
        "n": n,
        "turns": rng.randint(1, 4),
        "alpha": rng.randint(-9, 9) / 4,
        "beta": rng.randint(-9, 9),
    }
    elements = LOADED | me.written
    for p in k._params:
        if isinstance(p, Global):
            element = elements.get(p.name, "f32")
            size = (
                ROWS
                if p.name.startswith("table")
                else max(n, BINS, blocks * THREADS, n * THREADS if len(p.strides) > 1 else 0)
            )
            args[p.name] = _drawn(element, size, numbers) * (p.name not in me.counters)
    return args


def _drawn(element: str, size: int, numbers: Any) -> Any:
    if element == "f32":
        x = (numbers.integers(-32, 33, size) / 4).astype("f4")
        special = numbers.random(size) < 0.05
        return np.where(special, numbers.choice([np.inf, -np.inf, np.nan, 0.0, 1e20, 0.1], size), x).astype(
            "f4"
        )
    if element == "f16":
        return (numbers.integers(-32, 33, size) / 4).astype("f2")
    width = DTYPES[element].bits // 8
    if element in ("s32", "u32") and numbers.random() < 0.7:
        return numbers.integers(-9 if element == "s32" else 0, 60, size).astype(
            "i4" if element == "s32" else "u4"
        )
    kinds = {"s8": "i1", "s16": "i2", "s32": "i4"}
    return numbers.integers(0, 256, size * width, np.uint8).view(kinds.get(element, f"u{width}"))


def fetching(element: str, space: str) -> tuple[Kernel, Callable[..., Any]]:
    """A kernel of every atomic of a type that fetches, each thread at its own place, and its reference."""
    k, nbytes = cg.Kernel("fetching", threads=THREADS), DTYPES[element].nbytes
    x, c = (k.tensor(name, element, (THREADS,), (1,)) for name in "xc")
    v, compare = (k.fragment(f"{t.buffer.name}_v", element, (1,)) for t in (x, c))
    for t, held in ((x, v), (c, compare)):
        k.do(LDG[nbytes], held, t.at(k.tid))
    ops: list[Any] = [op for where, op, kind in FETCHES if (where, kind) == (space, element)]
    for op in ops:
        memory, old = (
            k.tensor(f"{name}_{op}", element, (THREADS,), (1,), writable=True) for name in ("m", "old")
        )
        place, held = memory.at(k.tid), k.fragment("held", element, (1,))
        if space == "shared":
            k.do(LDG[nbytes], held, place)
            place = k.shared(f"tile_{op}", element, Layout(THREADS)).at(k.tid)
            k.do(STS[nbytes], place, held)
        fetched = k.atomic(op, v, place, fetch=True, compare=compare if op == "cas" else None)
        k.do(STG[nbytes], old.at(k.tid), fetched)
        if space == "shared":
            k.do(LDS[nbytes], held, place)
            k.do(STG[nbytes], memory.at(k.tid), held)

    def reference(x: Any, c: Any, **before: Any) -> dict[str, Any]:
        joined: dict[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum, "exch": lambda m, x: x,
                  "cas": lambda m, x: np.where(m == c, x, m)}  # fmt: skip
        after = {f"m_{op}": joined[op](before[f"m_{op}"], x) for op in ops}
        return after | {f"old_{op}": before[f"m_{op}"] for op in ops}

    asked = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        for name in ("x", "c", *(f"m_{op}" for op in ops))
    ]
    reference.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
    return k.build(), reference


kernels = st.builds(random_kernel, st.randoms(use_true_random=False))
"""Random kernels that hypothesis draws."""
