"""Random products of arrays, what they are by definition, and how far a result may be from that.

    case = draw(seed)           types, shapes, strides, a batch, an epilogue, an out array
    wrong = run(case, library)  "" or what is wrong, bytes around the result included

The idea.  A case says of every array how it lies in a buffer of its own: modes in any order, padded, stepped
over, run backwards, broadcast.  The libraries are those of tests/judges/view_judge.py and
tests/gpu/views.py.  The definition is NumPy's product in float64; of int8 in integers.  A result may differ
from it by
    k eps |alpha| (|A| |B|) + eps of every step of the epilogue, then one rounding of the result's type

and by what its activation is off by where the function has one of its own for results of 16 bits,
with eps the distance of the numbers next to 1 in the type that sums are made in, 2^-23 or 2^-52.  The
operands of TF32 have 11 bits: 2^-9 |alpha| (|A| |B|) more.  Integers have to be equal.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from layoutalg.codegen.instr import FUNCTIONS, ScalarFunction
from layoutalg.kernels.calls.product_api import matmul
from tests.draws import views
from tests.draws.strides import drawn_order, drawn_strides
from tests.judges.view_judge import Arrays

KINDS = ("float32", "float16", "bfloat16", "float64", "int8")
NBYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int8": 1, "int32": 4}
SHORT = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float64": "f64",
    "int8": "s8",
    "int32": "s32",
}
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
LEAST = {"float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134, "float64": 2.0**-1074}
MOST = {"float32": 2.0**128, "float16": 65520.0, "bfloat16": 2.0**128, "float64": math.inf}
GUARD_BYTES = 64
FILL = 0xA5


@dataclass(frozen=True)
class Placed:
    """How an array lies in its buffer: the place of its first element and its strides, in elements."""

    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    elems: int

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, guards included."""
        return self.elems * NBYTES[self.kind] + 2 * GUARD_BYTES

    @property
    def start_bytes(self) -> int:
        """Where the first element lies in it."""
        return GUARD_BYTES + self.start * NBYTES[self.kind]

    def at(self, name: str) -> views.Placed:
        """The same in bytes."""
        strides = tuple(d * NBYTES[self.kind] for d in self.strides)
        return views.Placed(self.shape, strides, self.start_bytes, name)

    def of(self, raw: Any) -> Any:
        """The array's bits in its buffer, as unsigned integers."""
        return self.at("").of(raw, NBYTES[self.kind])


@dataclass(frozen=True)
class Case:
    """One call; arrays by name, `out` among them where it is given.  `c_is_out`: c is the same array."""

    seed: int
    kind: str
    result: str
    arrays: dict[str, Placed]
    shape: tuple[int, ...]
    m: int
    n: int
    k: int
    options: dict[str, Any] = field(default_factory=dict)
    c_is_out: bool = False

    def __str__(self) -> str:
        arrays = ", ".join(f"{x} {p.shape}:{p.strides}" for x, p in self.arrays.items())
        return f"seed {self.seed}: {self.kind} -> {self.result}, {arrays}, {self.options}" + (
            ", c is out" if self.c_is_out else ""
        )


def draw(seed: int, *, most: int = 70, kinds: tuple[str, ...] = KINDS, most_elems: int = 1 << 16) -> Case:
    """A case of its own for every seed, all arrays together of `most_elems` elements at most."""
    for attempt in range(1000):
        case = _drawn(seed, random.Random(f"product number {seed} {attempt}"), most, kinds)
        sizes = [p.elems for p in case.arrays.values()]
        if sum(sizes) + math.prod(case.shape) <= most_elems:
            return case
    raise AssertionError(f"no product of {most_elems} elements in 1000 tries")


def _drawn(seed: int, rng: random.Random, most: int, kinds: tuple[str, ...]) -> Case:
    kind = rng.choice(kinds)
    m, n, k = (_extent(rng, most) for _ in range(3))
    if rng.random() < 0.1:  # parts of k
        m, n, k = min(m, 24), min(n, 24), rng.randrange(256, 600)
    batch = tuple(_extent(rng, 4, empty=0.02) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
    flat = rng.choice(("", "", "", "", "", "", "a", "b", "ab"))
    parts = {"a": batch, "b": batch}
    for x in "ab":
        own = tuple(1 if rng.random() < 0.25 else n for n in batch)
        parts[x] = () if x in flat else own[rng.randrange(len(own) + 1) if rng.random() < 0.4 else 0 :]
    whole = np.broadcast_shapes(parts["a"], parts["b"])
    shapes = {
        "a": (k,) if "a" in flat else (*parts["a"], m, k),
        "b": (k,) if "b" in flat else (*parts["b"], k, n),
    }
    m, n = 1 if "a" in flat else m, 1 if "b" in flat else n
    shape = (*whole, *([] if "a" in flat else [m]), *([] if "b" in flat else [n]))
    result = {"int8": "int32"}.get(kind, kind)
    options: dict[str, Any] = {}
    if kind in ("float16", "bfloat16") and rng.random() < 0.3:
        result = options["out_dtype"] = "float32"
    if kind == "float32" and rng.random() < 0.25:
        options["tf32"] = True
    if rng.random() < 0.5:
        options["alpha"] = rng.randrange(-9, 10) if kind == "int8" else rng.choice((2, -0.75, 1.5, 0))
    arrays = {x: _placed(rng, s, kind) for x, s in shapes.items()}
    if rng.random() < 0.35:
        options["beta"] = rng.randrange(1, 10) if kind == "int8" else rng.choice((1, -3, 0.5))
        narrow = tuple(1 if rng.random() < 0.2 else n for n in shape)
        arrays["c"] = _placed(
            rng, narrow[rng.randrange(len(narrow) + 1) if rng.random() < 0.3 else 0 :], result
        )
    if rng.random() < 0.4:
        arrays["bias"] = _placed(rng, rng.choice(((n,), (1, n), (m, 1))), result)
    if rng.random() < 0.4:
        options["activation"] = "relu" if kind == "int8" else rng.choice([*FUNCTIONS])
    c_is_out = False
    if rng.random() < 0.45:
        arrays["out"] = _placed(rng, shape, result, written=True)
        c_is_out = "c" in arrays and rng.random() < 0.5
        if c_is_out:
            arrays["c"] = arrays["out"]
    return Case(seed, kind, result, arrays, shape, m, n, k, options, c_is_out)


def _extent(rng: random.Random, most: int, empty: float = 0.03) -> int:
    if rng.random() < empty:
        return 0
    drawn = rng.randrange(1, 10), rng.randrange(1, most + 1), 8 * rng.randrange(1, most // 8 + 2)
    return min(most, rng.choice((1, 8, 16, 64, *drawn)))


def _placed(rng: random.Random, shape: tuple[int, ...], kind: str, *, written: bool = False) -> Placed:
    """Dense in half of the cases; otherwise modes in any order, with gaps, backwards, broadcast."""
    odd = rng.random() < 0.5
    order = drawn_order(rng, range(len(shape)), 0.3 * odd)
    if rng.random() < 0.4:
        order[:2] = order[1::-1]
    strides, low = drawn_strides(rng, shape, order, wild=odd, broadcast=0.0 if written else 0.12)
    front = low + (rng.choice((0, 0, 0, 1, 4, 8)) if odd else 0)
    high = sum(max(0, (n - 1) * d) for n, d in zip(shape, strides, strict=True) if n)
    return Placed(kind, shape, strides, front, front + high + 1)


# --- numbers -------------------------------------------------------------------------------------------


def bits(numbers: Any, kind: str) -> Any:
    """Numbers of float64 rounded to a type, as unsigned integers."""
    if kind == "bfloat16":
        wide = numbers.astype("f4").view("u4").astype("u8")
        return (wide + 0x7FFF + (wide >> 16 & 1) >> 16).astype("u2")
    return numbers.astype(kind).view(f"u{NBYTES[kind]}")


def numbers(found: Any, kind: str) -> Any:
    """The inverse of `bits`."""
    if kind == "bfloat16":
        return (found.astype("u4") << 16).view("f4").astype(float)
    return found.view(kind).astype(float)


def make(case: Case) -> dict[str, Any]:
    """The bytes of every array's buffer, drawn; c is out's where they are one."""
    rng = np.random.default_rng(case.seed)
    found = {}
    for name, p in case.arrays.items():
        raw = np.full(p.nbytes, FILL, "u1")
        inner = raw[GUARD_BYTES : GUARD_BYTES + p.elems * NBYTES[p.kind]]
        if p.kind in ("int8", "int32"):
            inner[:] = rng.integers(0, 256, inner.size, dtype="u1")
        else:
            inner[:] = bits(rng.standard_normal(p.elems), p.kind).view("u1")
        found[name] = raw
    if case.c_is_out:
        found["c"] = found["out"]
    return found


def expected(case: Case, made: dict[str, Any]) -> tuple[Any, Any]:
    """The result by definition, and how far each element may be from it; of integers 0."""
    inputs = {x: p for x, p in case.arrays.items() if x != "out"}
    given = {x: numbers(np.ascontiguousarray(p.of(made[x])), p.kind) for x, p in inputs.items()}
    whole = case.kind == "int8"
    if whole:
        given = {x: v.astype("i8") for x, v in given.items()}
    alpha, beta = case.options.get("alpha", 1), case.options.get("beta", 0)
    eps = 2.0**-52 if case.kind == "float64" else 2.0**-23
    total, size = given["a"] @ given["b"], np.abs(given["a"]) @ np.abs(given["b"])
    error = (case.k * eps + (2.0**-9 if "tf32" in case.options else 0)) * size
    value, error = alpha * total, abs(alpha) * (error + eps * np.abs(total))
    if "c" in given:
        value = value + beta * given["c"]
        error = error + eps * (np.abs(beta * given["c"]) + np.abs(value))
    if "bias" in given:
        value = value + _spread(case, given["bias"])
        error = error + eps * np.abs(value)
    if whole:
        value = (value + (1 << 31)) % (1 << 32) - (1 << 31)
    if name := case.options.get("activation"):
        value, error = _activated(FUNCTIONS[name].rounded_to(SHORT[case.result]), value, error, eps)
    if whole:
        return value, np.zeros(case.shape)
    return value, error + ROUNDOFF[case.result] * (np.abs(value) + error) + LEAST[case.result]


def _spread(case: Case, bias: Any) -> Any:
    """The bias as it is added to the result, whose last modes may be missing."""
    row = bias.shape not in ((case.n,), (1, case.n))
    two = np.broadcast_to(bias.reshape(-1, 1) if row else bias.reshape(1, -1), (case.m, case.n))
    ends = (0 if len(case.arrays["a"].shape) == 1 else None, 0 if len(case.arrays["b"].shape) == 1 else None)
    return two[tuple(slice(None) if x is None else x for x in ends)]


def _activated(f: ScalarFunction, x: Any, error: Any, eps: float) -> tuple[Any, Any]:
    with np.errstate(over="ignore"):
        value = f.meaning(x)
    return value, f.slope * error + eps * f.places(x, value) + f.absolute + f.relative * np.abs(value)


def judge(case: Case, before: dict[str, Any], result: Any, after: dict[str, Any]) -> str:
    """What is wrong with a result, as bits, and with the buffers after the call; empty where nothing is.

    `before` are the buffers as they were made; of `after`, all bytes that are not results have to be those.
    """
    if result.shape != case.shape:
        return f"the shape is {result.shape}, not {case.shape}"
    exact, allowed = (np.asarray(x).reshape(case.shape) for x in expected(case, before))
    found = np.asarray(numbers(np.ascontiguousarray(result), case.result)).reshape(case.shape)
    with np.errstate(all="ignore"):
        near = np.abs(found - exact) <= allowed
        if case.result in MOST:
            past = np.abs(exact) + allowed >= MOST[case.result]
            near |= np.isinf(found) & (np.sign(found) == np.sign(exact)) & past
    if not near.all():
        at = tuple(map(int, np.argwhere(~near)[0]))
        seen = f"[{at}] = {found[at]!r}, not {exact[at]!r} +- {allowed[at]!r}"
        return f"{(~near).sum()} of {near.size} are wrong: {seen}"
    for name, p in case.arrays.items():
        kept, now = before[name].copy(), after[name].copy()
        if name == "out" or (name == "c" and case.c_is_out):
            p.of(kept)[...] = 0
            p.of(now)[...] = 0
        if not np.array_equal(kept, now):
            return f"bytes of {name} that are no results were written"
    return ""


def run(case: Case, library: Arrays, **options: Any) -> str:
    """Make the call on arrays of a library, and judge it."""
    made = make(case)
    held = {x: library.place(raw) for x, raw in made.items() if not (x == "c" and case.c_is_out)}
    arrays = {x: library.view(h, case.arrays[x].at(x), case.arrays[x].kind) for x, h in held.items()}
    if case.c_is_out:
        arrays["c"], held["c"] = arrays["out"], held["out"]
    a, b = arrays.pop("a"), arrays.pop("b")
    result = matmul(a, b, **arrays, **case.options, **options)
    if "out" in arrays and result is not arrays["out"]:
        return "out is not what is returned"
    return judge(case, made, library.words(result), {x: library.read(h) for x, h in held.items()})
