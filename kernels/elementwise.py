"""Maps: y[i] = f(x[i], ...) for every coordinate i of a shape, any strides on every side.

    relu, gelu, ...     the functions of `codegen.instr.functions`, and those of a user's own
    add                 x + y, where y may be broadcast: strides of 0

A thread loads `depth` vectors of every input, computes and stores as many.  Vector number v of the result
lies at layout(v), the layout of its modes in units of vectors; so does that of every input, which is why one
number serves all sides.  An input that is broadcast along the innermost mode is one element per vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import gcd, prod
from types import MappingProxyType
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.expr import Const, Expr, as_expr, simplify
from layoutalg.codegen.instr import FUNCTIONS, LDG, STG_WHOLE, ScalarFunction
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, LaunchSequence, MemRef, launch_sequence
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError, UnsupportedError, check_choice
from layoutalg.kernels.elements import HALF_PLACE
from layoutalg.kernels.family import NEEDED, Candidate, Family
from layoutalg.kernels.matrix import most_rows
from layoutalg.kernels.model import Clock, Expected, machine_of, moved_bytes, stream_us
from layoutalg.kernels.modes import StridedMode, buffer_elems, check_written, compact_strides, normal_form
from layoutalg.layout import Layout, ScaledBasis

PLACE = HALF_PLACE["f32"]

LONG: Mapping[str, int] = MappingProxyType(
    {"rcp": 3, "rsqrt": 3, "exp2": 3, "log2": 3, "sin": 4, "cos": 4, "exp": 9, "div": 15, "sqrt": 15,
     "reciprocal": 15, "tanh": 18, "erf": 22, "log": 24, "log1p": 28, "normcdf": 64}
)  # fmt: skip
"""Instructions of operations that have several, as nvcc 13.0 makes them for sm_90; one of the special
functions, of which a multiprocessor issues a quarter as many, counts as three."""

ISSUED_SHARE = 0.85
"""The share of the instructions of a formula that is seen, as some are joined."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of some registers, the same of NumPy's float64, and how far apart they may be before the
    result is rounded to the type of the elements."""

    inputs: tuple[str, ...]
    registers: Callable[..., Any]
    numbers: Callable[..., Any]
    bound: Callable[..., Any]
    instructions: float = 1.0
    """The approximate instructions of the formula."""


@lru_cache(maxsize=64)
def _of_one(f: ScalarFunction) -> Formula:
    def bound(exact: Any, x: Any) -> Any:
        share = f.relative * abs(exact) if f.relative else 0.0  # 0 times infinity is not a number
        return PLACE * f.places(x, exact) + f.absolute + share

    return Formula(("x",), f, f.meaning, bound, ISSUED_SHARE * sum(LONG.get(op, 1) for op in f.operations))


FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {name: _of_one(f) for name, f in FUNCTIONS.items()}
    | {
        "add": Formula(
            ("x", "y"), lambda x, y: x + y, lambda x, y: x + y, lambda exact, x, y: PLACE * abs(exact)
        )
    }
)
"""The formulas by name."""

ELEMENTS = ("f32", "f16", "bf16")
OUT = "dst"


@dataclass(frozen=True, slots=True)
class MapProblem:
    """`op` of every element of a shape; `strides`, in elements, are those of the inputs and of the result.

    >>> print(map_problem("add", (4, 6), "f16", [(6, 1), (0, 1)]))
    add (4,6) f16, x (6,1), y (0,1) -> dst (6,1)
    """

    op: str | ScalarFunction
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[tuple[int, ...], ...]

    @property
    def formula(self) -> Formula:
        """The formula of the operation, as results of this type are finished by it."""
        f = FUNCTIONS.get(self.op) if isinstance(self.op, str) else self.op
        return FORMULAS[str(self.op)] if f is None else _of_one(f.rounded_to(self.dtype.name))

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the buffers, the result last."""
        return (*self.formula.inputs, OUT)

    @property
    def elems(self) -> tuple[int, ...]:
        """Elements of every buffer, gaps included."""
        sides = zip(self.sides, self.strides, strict=True)
        return tuple(buffer_elems(name, self.shape, d, 0) for name, d in sides)

    @property
    def moved_bytes(self) -> int:
        """Bytes read plus bytes written, every element that exists once."""
        each = (prod(n for n, d in zip(self.shape, side, strict=True) if d) for side in self.strides)
        return sum(each) * self.dtype.nbytes

    @property
    def form(self) -> tuple[StridedMode, ...]:
        """The fewest modes, by the result's strides."""
        modes = (StridedMode(n, tuple(side)) for n, *side in zip(self.shape, *self.strides, strict=True))
        return normal_form(modes, len(self.strides) - 1) or (StridedMode(1, (1,) * len(self.strides)),)

    @property
    def outermost(self) -> int:
        """The mode of the shape with the largest stride in the result."""
        return max(range(len(self.shape)), key=lambda k: (self.shape[k] > 1, self.strides[-1][k]), default=0)

    @property
    def rows(self) -> int:
        """The extent of the outermost mode."""
        return self.shape[self.outermost] if self.shape else 1

    def __str__(self) -> str:
        *inputs, to = (
            f"{name} ({','.join(map(str, d))})" for name, d in zip(self.sides, self.strides, strict=True)
        )
        return f"{self.op} ({','.join(map(str, self.shape))}) {self.dtype}, {', '.join(inputs)} -> {to}"


def map_problem(
    op: str | ScalarFunction, shape: Sequence[int], dtype: str | DType = "f32",
    strides: Sequence[Sequence[int]] | None = None, dst: Sequence[int] | None = None,
) -> MapProblem:  # fmt: skip
    """A checked problem; `strides`, one for each input, and `dst` are row-major by default.

    Raises UnknownNameError for a formula there is not, UnsupportedError for other elements, ShapeError for
    extents and strides that make no tensor, NotInjectiveError for a result that aliases.

    >>> map_problem("gelu", (4, 6)).elems
    (24, 24)
    """
    if isinstance(op, str):
        check_choice("formula", op, FORMULAS)
    element, shape = find_dtype(dtype), tuple(shape)
    count = len(FORMULAS[op].inputs) if isinstance(op, str) else 1
    if element.name not in ELEMENTS:
        raise UnsupportedError(f"{op} of {element}: {', '.join(ELEMENTS)} are accepted")
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in shape):
        raise ShapeError(f"shape {shape}: extents must be positive integers")
    dense = compact_strides(shape)
    sides = tuple(tuple(d) for d in (*(strides or [dense] * count), dst or dense))
    if len(sides) != count + 1 or any(len(d) != len(shape) or min(d, default=0) < 0 for d in sides):
        raise ShapeError(f"{op} of shape {shape}: strides {sides}; every side needs one per mode, from 0 on")
    check_written(f"{op} of shape {shape}", shape, sides[-1])
    return MapProblem(op, shape, element, sides)


# --- the program ---------------------------------------------------------------------------------------

THREADS, DEPTH, VECTOR_BYTES = 256, 4, 16
"""Threads of a block, vectors of a thread in flight where there are enough, bytes of the widest vector."""

VECTOR = 18
"""Instructions of a thread per vector: to find it, to load it on each side and to store it."""


@dataclass(frozen=True, slots=True)
class MapConfig:
    """Elements of a vector, and vectors of a thread in flight."""

    vec: int
    depth: int
    threads: int = THREADS


def candidates(p: MapProblem, arch: str | Arch = DEFAULT_ARCH) -> Iterator[Candidate]:
    """Vectors from the widest on, each with the reason why it cannot be, None where it can.

    >>> [(c.config.vec, c.why) for c in candidates(map_problem("relu", (4, 6)))]
    [(4, ''), (2, ''), (1, '')]
    >>> next(candidates(map_problem("relu", (4, 7), dst=(8, 1)))).why
    'vectors of 4 elements: 7 elements in a row of relu (4,7) f32, x (7,1) -> dst (8,1)'
    """
    sms, size = machine_of(arch).sms, p.dtype.nbytes
    vec = VECTOR_BYTES // size
    while vec:
        vectors = prod(p.shape) // vec
        depth = DEPTH if vectors >= 2 * DEPTH * THREADS * sms else 1
        yield Candidate(MapConfig(vec, depth), refusal(p, vec))
        vec //= 2


def refusal(p: MapProblem, vec: int) -> LayoutAlgError | None:
    """Return the reason why vectors of so many elements cannot be moved, None where they can.

    >>> refusal(map_problem("add", (4, 8), "f32", [(8, 1), (0, 1)]), 4) is None
    True
    """
    if vec == 1:
        return None
    first = p.form[0]
    *inputs, last = (_aligned(p, k, vec) for k in range(len(p.sides)))
    row = f"{first.extent} elements in a row of {p}" if first.extent % vec else ""
    still = "" if any(first.strides[:-1]) else f"every input of {p} is broadcast along the innermost mode"
    reason = row or last or next(filter(None, inputs), still)
    if not reason:
        return None
    return AlignmentError(
        f"vectors of {vec} elements: {reason}", offset=0, required_bytes=vec * p.dtype.nbytes
    )


def _aligned(p: MapProblem, side: int, vec: int) -> str:
    """The reason why a side has no vectors of so many elements; empty where it has."""
    (inner, *steps), name = (m.strides[side] for m in p.form), p.sides[side]
    if inner not in ((1,) if name == OUT else (0, 1)):
        return f"{name} of {p} has stride {inner} in the innermost mode"
    if inner and any(d % vec for d in steps):
        return f"rows of {name} of {p} start inside of vectors"
    return ""


def build(p: MapProblem, c: MapConfig, *, any_rows: bool = False) -> Kernel:
    """The tile program of a configuration; for `any_rows` the extent of the outermost mode of the shape is a
    parameter, `rows`, of which as many as are asked for make whole vectors.

    >>> build(map_problem("gelu", (64, 64), "f16"), MapConfig(8, 1)).name
    'gelu_f16'
    """
    size, modes = p.dtype.nbytes, p.form
    notes = ["", f"{p}.", f"Vectors of {c.vec} elements, {c.depth} in flight per thread."]
    k = KernelBuilder(f"{p.op}_{p.dtype}", c.threads, notes=notes)
    extents = [as_expr(m.extent) for m in modes]
    if any_rows:
        each = modes[-1].extent // p.rows
        by = c.vec // gcd(c.vec, each) if len(modes) == 1 else 1
        notes.append(f"rows is the extent of mode {p.outermost}.")
        most = most_rows(modes[-1].extent, max(modes[-1].strides)) // each
        extents[-1] = simplify(k.param("rows", most, multiple=by) * each)
    shape = [extents[0] // c.vec, *extents[1:]]
    total = simplify(prod(shape, start=Const(1)))
    strides = [*zip(*(mode.strides for mode in modes), strict=True)]
    unchecked = (None,) * len(modes)  # the problem has been: no two results are one element
    sides = [
        replace(k.tensor(name, p.dtype, unchecked, side, writable=name == OUT), extents=(*extents,))
        for name, side in zip(p.sides, strides, strict=True)
    ]
    each = c.threads * c.depth
    block = k.block(0, simplify((total + (each - 1)) // each))
    widths = [c.vec if d else 1 for d in modes[0].strides]
    places = Layout(tuple(n.facts.hi for n in shape), tuple(ScaledBasis(1, k) for k in range(len(shape))))
    held = [
        k.fragment(name, p.dtype, (n, c.depth), values=n) for name, n in zip(p.sides, widths, strict=True)
    ]

    def vectors(i: Expr) -> tuple[list[MemRef], AbstractContextManager[None]]:
        """A vector of each side, and that it is one of the shape."""
        at = k.once("vector", as_expr((block * c.depth + i) * c.threads + k.tid))
        first, *others = map(as_expr, places(at)) if len(shape) > 1 else (at,)
        crd, inside = (first * c.vec, *others), (first, *others)[-1] < shape[-1] if any_rows else at < total
        refs = [MemRef(x.buffer, simplify(x.buffer.index(crd)), x, crd) for x in sides]
        return refs, nullcontext() if total.facts.divisible_by(each) else k.If(inside)

    *inputs, last = zip(widths, held, strict=True)
    with k.Unroll("i", c.depth) as i:
        (*sources, _), inside = vectors(i)
        with inside:
            for x, (n, registers) in zip(sources, inputs, strict=True):
                k.do(LDG[n * size], registers.at(i * n, values=n), x)
    with k.Unroll("j", c.depth) as j:
        (*_, y), inside = vectors(j)
        with inside:
            n, registers = last
            value = p.formula.registers(*(loaded[None, j] for _, loaded in inputs))
            k.map(value if p.dtype.name == "f32" else value.to(p.dtype), into=registers[None, j])
            k.do(STG_WHOLE[n * size], y, registers.at(j * n, values=n))
    return k.build()


# --- the records ---------------------------------------------------------------------------------------


def _launches(p: MapProblem, c: MapConfig, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    return launch_sequence([build(p, c)])


def _any_rows(p: MapProblem, c: MapConfig, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The same launch by a kernel for any extent of the outermost mode."""
    kernel = build(p, c, any_rows=True)
    return launch_sequence([kernel], scalars={"rows": p.rows})


def clock(p: MapProblem, c: MapConfig, arch: str | Arch) -> Clock:
    """The time of a map: memory, instructions of vectors and of the formula, and turns of loads.

    >>> p = map_problem("relu", (1 << 26,), "f16")
    >>> 60 < clock(p, MapConfig(8, 4), "sm_90")(machine_of("sm_90")).us < 66
    True
    """
    chip = find_arch(arch)
    vectors, flight = prod(p.shape) // c.vec, c.depth * c.vec * p.dtype.nbytes * len(p.formula.inputs)
    narrow = 0 if p.dtype.name == "f32" else len(p.sides) / 2
    instructions = vectors / chip.lanes * (VECTOR + c.vec * (p.formula.instructions + narrow))
    written = prod(p.shape) * p.dtype.nbytes
    nbytes = moved_bytes(p.moved_bytes - written, written)
    blocks = -(-vectors // (c.depth * c.threads))
    return lambda m: Expected(stream_us(nbytes, instructions, blocks, c.threads, flight, m))


def _family(op: str) -> Family:
    summary = f"dst = {op}({', '.join(FORMULAS[op].inputs)}), element by element"
    return Family(
        op,
        summary,
        partial(map_problem, op),
        candidates,
        _launches,
        {"shape": NEEDED},
        any_sizes=_any_rows,
        clock=clock,
    )


ELEMENTWISE_FAMILIES = tuple(map(_family, FORMULAS))
"""The families of this room."""
