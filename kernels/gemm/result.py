"""What a matrix product does with its sums: D = activation(alpha sums + beta C + bias), in rows of vectors.

    declare_result    the pointers and scalars that a problem's D needs
    Finish.write      a vector of sums, finished and stored at a row and column of D

Sums are finished in the accumulator's type (f16 sums in f32) and rounded once, at the end; integers are taken
modulo 2^32.  beta = 0 never reads C, not even where a problem has one.  With parts of k (see gemm_parts) the
sums themselves are stored, each part in its own matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

from layoutalg.codegen.expr import Const, Expr, Var
from layoutalg.codegen.instr import LDG, STG_WHOLE, Instr
from layoutalg.codegen.instr import arith as instr_float
from layoutalg.codegen.instr import double as instr_double
from layoutalg.codegen.program import Global, KernelBuilder, Reg, RegRef
from layoutalg.kernels.gemm.parts import part_problem
from layoutalg.kernels.gemm.problem import GemmProblem


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What is done to vectors of sums of one type; `add_scaled` takes the element type of what is added.

    `words` are those of a sum, `one` those of the number 1; `nonzero` asks it of a number's words.
    """

    words: int
    scale: Callable[[int], Instr]
    add_scaled: Callable[[int, str], Instr]
    activate: Callable[[int, str], Instr]
    one: tuple[int, ...]
    nonzero: Callable[[tuple[Expr, ...]], Expr]


def _nonzero_float(words: tuple[Expr, ...]) -> Expr:
    """Any bit but the sign, which is the first of the last word: -0 is 0, NaN is not."""
    *low, high = words
    return reduce(lambda some, word: some | (Const(0) < word), low, Const(0) < high % (1 << 31))


def _nonzero_integer(words: tuple[Expr, ...]) -> Expr:
    return Const(0) < words[0]


_F32 = Arithmetic(
    1, instr_float.scale, instr_float.add_scaled, instr_float.activate, (instr_float.ONE_F32,), _nonzero_float
)
ARITHMETIC: Mapping[str, Arithmetic] = MappingProxyType(
    {
        "f16": _F32,
        "f32": _F32,
        "s32": Arithmetic(
            1, lambda n: instr_float.scale(n, "s32"), instr_float.add_scaled,
            lambda n, what: instr_float.activate(n, what, "s32"), (1,), _nonzero_integer,
        ),
        "f64": Arithmetic(
            2, instr_double.scale, lambda n, _: instr_double.add_scaled(n), instr_double.activate,
            instr_double.ONE_F64, _nonzero_float,
        ),
    }
)  # fmt: skip
"""By accumulator."""


@dataclass(frozen=True, slots=True)
class Result:
    """Where results go, and what is done to sums on the way; `m`, `n` are the matrix's extents.

    A block stores from row and column `first` on; None: wherever it has sums.  `part` selects the matrix of
    a part's sums.  Without alpha sums are not scaled.
    """

    d: Global
    c: Global | None
    bias: Global | None
    alpha: tuple[Expr, ...]
    beta: tuple[Expr, ...]
    m: Var
    n: Var
    first: tuple[Expr, Expr] | None
    part: Var | None


def statement(p: GemmProblem, product: str = "A B", *, parts: bool = False) -> str:
    """What a kernel makes of its sums, as its text says it; `parts`: of some k alone, see gemm_parts.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> statement(gemm_problem(8, 8, 8, bias=True, activation="relu"))
    'D = relu(alpha A B + bias): f16 operands, f32 sums, f16 result'
    >>> statement(gemm_problem(8, 8, 8, "s8"), parts=True)
    'sums[s] = A B over part s of k: s8 operands, s32 sums'
    """
    types = f"{p.operand} operands, {p.accumulator} sums"
    if parts:
        return f"sums[s] = {product} over part s of k: {types}"
    value = f"alpha {product}{' + beta C' if p.reads_c else ''}{' + bias' if p.bias else ''}"
    if p.activation != "none":
        value = f"{p.activation}({value})"
    return f"D = {value}: {types}, {p.result} result"


def declare_result(
    k: KernelBuilder,
    p: GemmProblem,
    vec: int,
    m: Var,
    n: Var,
    *,
    first: tuple[Expr, Expr] | None = None,
    part: Var | None = None,
    static: bool = False,
) -> Result:
    """Declare what writing D takes: d, alpha, and c, beta and bias where the problem has them.

    A block's results start at row and column `first`.  With a `part`, declare the workspace `sums` instead.
    Rows start at multiples of `vec` elements; `static` makes the problem's leading dimensions constants.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> k = KernelBuilder("nothing", threads=32)
    >>> declare_result(k, gemm_problem(8, 8, 8), 4, k.param("m", 8), k.param("n", 8)).d.align_bytes
    8
    """

    def leading(name: str, value: int) -> Expr:
        return k.constant(name, value) if static else k.param(name, value, vec, multiple=vec)

    size = p.result.nbytes
    align = min(16, vec * size)
    if part is not None:
        size = part_problem(p).result.nbytes
        sums = k.pointer("sums", size, (m * n, n, 1), writable=True, align_bytes=min(16, vec * size))
        return Result(sums, None, None, (), (), m, n, first, part)
    ldd = leading("ldd", p.ldd)
    k.require(n <= ldd)
    d = k.pointer("d", size, (ldd, 1), writable=True, align_bytes=align)
    alpha = _factor(k, "alpha", p)
    c = bias = None
    beta: tuple[Expr, ...] = ()
    if p.reads_c:
        c = k.pointer("c", size, (leading("ldc", p.ldc), 1), align_bytes=align)
        beta = _factor(k, "beta", p)
    if p.bias:
        bias = k.pointer("bias", size, (1,), align_bytes=align)
    return Result(d, c, bias, alpha, beta, m, n, first, None)


def _factor(k: KernelBuilder, name: str, p: GemmProblem) -> tuple[Expr, ...]:
    """A scalar parameter: one word, or the two of a double."""
    number = {"s32": "s32", "f64": "f64"}.get(p.accumulator.name, "f32")
    if ARITHMETIC[number].words == 1:
        return (k.word(name, f"the 32 bits of the {number} {name}"),)
    return tuple(
        k.word(f"{name}_{part}", f"the {part} 32 bits of the {number} {name}") for part in ("low", "high")
    )


class Finish:
    """How `vec` sums of a row become results; it keeps a register array for what is read or packed."""

    def __init__(
        self, k: KernelBuilder, p: GemmProblem, r: Result, vec: int, stores: Mapping[int, Instr] = STG_WHOLE
    ) -> None:
        stored = p if r.part is None else part_problem(p)
        self.k, self.r, self.vec = k, r, vec
        self.element, self.activation = stored.result.name, stored.activation
        self.do = ARITHMETIC[p.accumulator.name]
        self.nbytes = vec * stored.result.nbytes
        self.store = stores[self.nbytes]
        self.packed = k.reg("packed", max(1, self.nbytes // 4))

    def write(self, sums: Reg | RegRef, row: Expr, column: Expr) -> None:
        """Finish the sums, in place, and store them at a row and column of D, where it has them."""
        k, r, vec = self.k, self.r, self.vec
        inside = (row < r.m) & (column < r.n)
        if r.first is not None:
            inside = inside & (r.first[0] <= row) & (r.first[1] <= column)
        with k.If(inside):
            if r.alpha:
                k.do(self.do.scale(vec), sums, *r.alpha)
            if r.c is not None:
                with k.If(self.do.nonzero(r.beta)):
                    k.do(LDG[self.nbytes], self.packed, k.at(r.c, row, column))
                    k.do(self.do.add_scaled(vec, self.element), sums, self.packed, *r.beta)
            if r.bias is not None:
                k.do(LDG[self.nbytes], self.packed, k.at(r.bias, column))
                k.do(self.do.add_scaled(vec, self.element), sums, self.packed, *map(Const, self.do.one))
            if self.activation != "none":
                k.do(self.do.activate(vec, self.activation), sums)
            to = k.at(r.d, row, column) if r.part is None else k.at(r.d, r.part, row, column)
            narrow = self.element in ("f16", "bf16")
            if narrow:
                k.do(instr_float.pack(vec, self.element), self.packed, sums)
            k.do(self.store, to, self.packed if narrow else sums)
