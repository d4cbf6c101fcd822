"""The product of every published kernel, such as D = alpha A B + beta C, in a kernel that is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from layoutalg import codegen as cg
from layoutalg.atoms import TiledCopy, make_tiled_copy
from layoutalg.codegen.expr import Const, Expr, Var
from layoutalg.codegen.language import Scalar
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
from layoutalg.kernels.gemm import AddMatrix, AddVector, GemmProblem, Major, Map, Scale
from layoutalg.layout import Layout

SIGN = 1 << 31
"""The bit of a float that -0 has and 0 has not."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays and numbers of a product: A as (m, k), B as (n, k), D and what is added to it as (m, n).

    `extents` are m, n and k; `added` and `scalars` are what the epilogue's steps name.
    """

    k: cg.Kernel
    p: GemmProblem
    extents: tuple[Var, Var, Var]
    a: cg.Tensor
    b: cg.Tensor
    d: cg.Tensor
    added: dict[str, cg.Tensor]
    scalars: dict[str, Scalar]

    def store(
        self, sums: cg.Fragment, mine: Callable[[cg.Tensor], cg.Tensor], *, edges: bool = False
    ) -> None:
        """Store a thread's sums, as (value, m, n): `mine` makes its part of the block's tile of an array,
        which with `edges` may stick out.
        """
        k, result, (values, rows, columns) = self.k, self.p.result, sums.shape
        to, parts = mine(self.d), {name: mine(tensor) for name, tensor in self.added.items()}
        vector = sums.size // rows // columns
        x = k.fragment("x", "f32", values, values=vector)
        factor: Scalar | float = 1.0
        steps = self.p.epilogue.steps
        if steps and isinstance(steps[0], Scale):
            factor, steps = self.scalars[steps[0].name], steps[1:]
        with k.Unroll("i", rows) as i, k.Unroll("j", columns) as j:
            place = None, i, j
            where = to[place].inside if edges else None
            k.map(sums[place] * factor, into=x)
            for step in steps:
                match step:
                    case Scale(name):
                        k.map(x * self.scalars[name], into=x)
                    case AddMatrix(name, beta):
                        number = self.scalars[beta]
                        with k.If(Const(0) < number.var % SIGN):  # C may hold anything where beta is 0
                            k.map(x + k.load(parts[name][place], where=where) * number, into=x)
                    case AddVector(name, along):
                        part = parts[name][place]  # along m elements have registers of their own
                        own = k.fragment(f"{name}_v", result, part.shape, values=1 if along == "m" else 0)
                        k.map(x + k.load(part, where=where, into=own), into=x)
                    case Map(function):
                        k.do(function.instr(vector, "f32"), x)
            k.store(x.to(result) if result.bits < 32 else x, to[place], where=where)


def declare(
    k: cg.Kernel, p: GemmProblem, multiples: tuple[int, int, int], vectors: tuple[int, int, int]
) -> Arrays:
    """Declare the arrays of a product whose m, n and k are such multiples, and whose accesses of A, of B and
    of D are so many elements.

    Raises UnsupportedError for a batch, ShapeError and AlignmentError for sizes that are not such multiples.
    """
    if p.batch:
        raise UnsupportedError(f"{p}: a published kernel computes one product")
    for name, extent, part in zip("mnk", (p.m, p.n, p.k), multiples, strict=True):
        if extent % part:
            raise ShapeError(f"{name} = {extent} is not a multiple of {part}, as whole tiles and vectors are")
    m, n, depth = (k.extent(x, y, z) for x, y, z in zip("mnk", (p.m, p.n, p.k), multiples, strict=True))

    def matrix(name: str, source: str, rows: Expr, columns: Expr, elems: int, **how: bool) -> cg.Tensor:
        element, pitch = (p.operand if name in "ab" else p.result), getattr(p, f"ld{source}")
        if pitch % elems:
            raise AlignmentError(
                f"ld{source} = {pitch} cuts vectors of {elems} elements", offset=pitch * element.nbytes,
                required_bytes=elems * element.nbytes,
            )  # fmt: skip
        ld = k.param(f"ld{source}", pitch, elems, elems)
        return k.tensor(name, element, (rows, columns), (ld, 1), align_bytes=elems * element.nbytes, **how)

    def operand(name: str, major: Major, rows: Expr, elems: int) -> cg.Tensor:
        if major == "k":
            return matrix(name, name, rows, depth, elems)
        return matrix(name, name, depth, rows, elems).transposed

    along_a, along_b, across = vectors
    a, b = operand("a", p.a_major, m, along_a), operand("b", p.b_major, n, along_b)
    d = matrix("d", "d", m, n, across, writable=True)
    added, scalars = dict[str, cg.Tensor](), dict[str, Scalar]()
    for step in p.epilogue.steps:
        match step:
            case Scale(name):
                scalars[name] = k.scalar(name, "f32")
            case AddMatrix(name, factor):
                added[name] = matrix(name, "c", m, n, across)
                scalars[factor] = k.scalar(factor, "f32")
            case AddVector(name, along):
                strides = (0, 1) if along == "n" else (1, 0)
                align = p.result.nbytes * (across if along == "n" else 1)
                added[name] = k.tensor(name, p.result, (m, n), strides, align_bytes=align)
            case Map():
                pass
            case _:
                raise UnsupportedError(f"{step.name} of an epilogue: a published kernel has no factors")
    return Arrays(k, p, (m, n, depth), a, b, d, added, scalars)


def row_copy(
    element: DType, tile: tuple[int, int], major: Major, threads: int, vector: int, access: int
) -> TiledCopy:
    """The copy of a tile (row, k) by `threads` that lie along its stored rows, `vector` elements of each, by
    instructions that move `access` elements.
    """
    lanes = min(threads, tile[1 if major == "k" else 0] // vector)
    atom, across = f"UniversalCopy<uint{element.bits * access}_t>", threads // lanes
    if major == "k":
        return make_tiled_copy(atom, element, Layout((across, lanes), (lanes, 1)), Layout((1, vector)))
    return make_tiled_copy(atom, element, Layout((lanes, across)), Layout((vector, 1)))
