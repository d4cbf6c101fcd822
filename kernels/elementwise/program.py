"""The program of a map: a thread loads `depth` vectors of every input, computes and stores as many.

Vector number v of the result lies at layout(v), the layout of its modes in units of vectors; so does that of
every input, which is why one number serves all sides.  An input that is broadcast along the innermost mode is
one element per vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.expr import Expr, as_expr
from layoutalg.codegen.instr import LDG, STG_WHOLE
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.errors import AlignmentError, LayoutAlgError
from layoutalg.kernels.elementwise.problem import OUT, MapProblem
from layoutalg.layout import Layout

THREADS, DEPTH, VECTOR_BYTES = 256, 4, 16


@dataclass(frozen=True, slots=True)
class MapConfig:
    """Elements of a vector, and vectors of a thread in flight."""

    vec: int
    depth: int
    threads: int = THREADS


def candidates(
    p: MapProblem, arch: str | Arch = "sm_90"
) -> Iterator[tuple[MapConfig, LayoutAlgError | None]]:
    """Vectors from the widest on, each with the reason why it cannot be, None where it can.

    >>> from layoutalg.kernels.elementwise.problem import map_problem
    >>> [(c.vec, str(why)) for c, why in candidates(map_problem("relu", (4, 6)))]
    [(4, 'None'), (2, 'None'), (1, 'None')]
    >>> str(next(candidates(map_problem("relu", (4, 7), dst=(8, 1))))[1])
    'vectors of 4 elements: 7 elements in a row of relu (4,7) f32, x (7,1) -> dst (8,1)'
    """
    board, size = find_arch(arch).board, p.dtype.nbytes
    vec = VECTOR_BYTES // size
    while vec:
        vectors = prod(p.shape) // vec
        depth = DEPTH if vectors >= 2 * DEPTH * THREADS * (board.sms if board else 1) else 1
        yield MapConfig(vec, depth), refusal(p, vec)
        vec //= 2


def refusal(p: MapProblem, vec: int) -> LayoutAlgError | None:
    """Return the reason why vectors of so many elements cannot be moved, None where they can.

    >>> from layoutalg.kernels.elementwise.problem import map_problem
    >>> refusal(map_problem("add", (4, 8), "f32", [(8, 1), (0, 1)]), 4) is None
    True
    """
    if vec == 1:
        return None
    first = p.form[0]
    *inputs, last = (_aligned(p, k, vec) for k in range(len(p.sides)))
    row = f"{first.extent} elements in a row of {p}" if first.extent % vec else ""
    still = "" if any(first.strides[:-1]) else f"every input of {p} is broadcast along the innermost mode"
    said = row or last or next(filter(None, inputs), still)
    if not said:
        return None
    return AlignmentError(f"vectors of {vec} elements: {said}", offset=0, required_bytes=vec * p.dtype.nbytes)


def _aligned(p: MapProblem, side: int, vec: int) -> str:
    """The reason why a side has no vectors of so many elements; empty where it has."""
    (inner, *steps), name = (m.strides[side] for m in p.form), p.sides[side]
    if inner not in ((1,) if name == OUT else (0, 1)):
        return f"{name} of {p} has stride {inner} in the innermost mode"
    if inner and any(d % vec for d in steps):
        return f"rows of {name} of {p} start inside of vectors"
    return ""


def build(p: MapProblem, c: MapConfig) -> Kernel:
    """The tile program of a configuration.

    >>> from layoutalg.kernels.elementwise.problem import map_problem
    >>> build(map_problem("gelu", (64, 64), "f16"), MapConfig(8, 1)).name
    'gelu_f16'
    """
    size, modes = p.dtype.nbytes, p.form
    shape = (modes[0].extent // c.vec, *(m.extent for m in modes[1:]))
    total = prod(shape)
    notes = ["", f"{p}.", f"Vectors of {c.vec} elements, {c.depth} in flight per thread."]
    k = KernelBuilder(f"{p.op}_{p.dtype}", c.threads, notes=notes)
    buffers = [k.pointer(name, size, writable=name == OUT) for name in p.sides]
    block = k.block(0, -(-total // (c.threads * c.depth)))
    widths = [c.vec if m else 1 for m in modes[0].strides]
    steps = [
        Layout(shape, (m[0] * c.vec, *m[1:])) for m in zip(*(mode.strides for mode in modes), strict=True)
    ]
    held = [
        k.fragment(name, p.dtype, (n, c.depth), values=n) for name, n in zip(p.sides, widths, strict=True)
    ]

    def vector(i: Expr) -> tuple[Expr, AbstractContextManager[None]]:
        """The number of a vector, and that it is one."""
        at = k.once("vector", as_expr((block * c.depth + i) * c.threads + k.tid))
        return at, k.If(at < total) if total % (c.threads * c.depth) else nullcontext()

    *inputs, last = zip(buffers, steps, widths, held, strict=True)
    with k.Unroll("i", c.depth) as i:
        at, inside = vector(i)
        with inside:
            for buffer, step, n, registers in inputs:
                k.do(LDG[n * size], registers.at(i * n, values=n), k.at(buffer, step(at)))
    with k.Unroll("j", c.depth) as j:
        at, inside = vector(j)
        with inside:
            buffer, step, n, registers = last
            value = p.formula.registers(*(one[3][None, j] for one in inputs))
            k.map(value if p.dtype.name == "f32" else value.to(p.dtype), into=registers[None, j])
            k.do(STG_WHOLE[n * size], k.at(buffer, step(at)), registers.at(j * n, values=n))
    return k.build()
