"""The epilogue of a product: D = steps(A B), a chain of elementwise steps on rows of vectors.

    Scale("alpha")                  v *= alpha                   a scalar that a launch gives
    ScaleVector("scale_b", "n")     v *= scale_b[n], a float per column; "m": one per row; "": one for all
    AddMatrix("c", "beta")          v += beta * c[m][n]          where beta is not 0; else C is not read
    AddVector("bias", "n")          v += bias[n], one number per column; "m": one per row
    Map(f)                          v = f(v): a ScalarFunction, of FUNCTIONS or the user's own

The idea.  Each step declares its operands, writes itself on a vector of sums, and states its definition with
a bound of its error.  Sums are finished in the accumulator's type (f16 sums in f32) and rounded once, at the
end: the cast.  Integers are taken modulo 2^32.  A part of k (see parts) has the empty epilogue: its sums
alone are stored, each part in its own matrix.

An epilogue is identified by what it prints: the text of a function is part of the value and of the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Operand, Var, as_expr, check_name, simplify
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile, whole
from layoutalg.codegen.program import Global, Reg, RegRef
from layoutalg.codegen.terms import Value
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.kernels.gemm.rasterize import batch_strides

if TYPE_CHECKING:
    from layoutalg.kernels.gemm.problem import GemmProblem


def number_of(accumulator: str) -> str:
    """The type that sums are finished in: f16 sums in f32."""
    return "f32" if accumulator == "f16" else accumulator


def nonzero(words: tuple[Expr, ...], number: str) -> Expr:
    """Whether the words of a number are not those of 0: of a float any bit but the sign, NaN with them."""
    *low, high = words
    some = Const(0) < (high if number == "s32" else high % (1 << 31))
    return reduce(lambda some, word: some | (Const(0) < word), low, some)


@dataclass(frozen=True, slots=True)
class Scale:
    """v *= a scalar that a launch gives.

    >>> Scale("gamma").said("A B")
    'gamma A B'
    """

    name: str = "alpha"

    def said(self, value: str) -> str:
        """The value as the kernel's text states it."""
        return f"{self.name} {value if ' + ' not in value or value.endswith(')') else f'({value})'}"


@dataclass(frozen=True, slots=True)
class ScaleVector:
    """v *= vector[n], a float for each column of D, or vector[m], one for each row, or one for all of D.

    >>> ScaleVector("scale_b", "n").said("A B")
    'scale_b[n] A B'
    """

    name: str = "scale_a"
    along: Literal["n", "m", ""] = "m"

    def said(self, value: str) -> str:
        """The value as the kernel's text states it."""
        return Scale(self.name + (f"[{self.along}]" if self.along else "[0]")).said(value)


@dataclass(frozen=True, slots=True)
class AddMatrix:
    """v += factor * matrix[m][n]; the matrix is not read where the factor is 0.

    >>> AddMatrix().said("alpha A B")
    'alpha A B + beta C'
    """

    name: str = "c"
    factor: str = "beta"

    def said(self, value: str) -> str:
        """The value as the kernel's text states it."""
        return f"{value} + {self.factor} {self.name.upper()}"


@dataclass(frozen=True, slots=True)
class AddVector:
    """v += vector[n], one number for each column of D, or vector[m], one for each row.

    >>> AddVector().said("alpha A B")
    'alpha A B + bias'
    """

    name: str = "bias"
    along: Literal["n", "m"] = "n"

    def said(self, value: str) -> str:
        """The value as the kernel's text states it."""
        return f"{value} + {self.name}{'[m]' if self.along == 'm' else ''}"


@dataclass(frozen=True, slots=True)
class Map:
    """v = f(v).

    >>> Map(instr.FUNCTIONS["gelu"]).said("A B")
    'gelu(A B)'
    """

    function: instr.ScalarFunction

    def said(self, value: str) -> str:
        """The value as the kernel's text states it."""
        return f"{self.function}({value})"


Step: TypeAlias = Scale | ScaleVector | AddMatrix | AddVector | Map


def operands_of(step: Step) -> tuple[dict[str, str], tuple[str, ...]]:
    """The arrays that a step reads, each with the modes of D along which it lies, and the numbers.

    >>> operands_of(AddMatrix()), operands_of(AddVector())
    (({'c': 'mn'}, ('beta',)), ({'bias': 'n'}, ()))
    """
    match step:
        case Scale(name):
            return {}, (name,)
        case AddMatrix(name, factor):
            return {name: "mn"}, (factor,)
        case AddVector(name, along) | ScaleVector(name, along):
            return {name: along}, ()
        case Map():
            return {}, ()
    raise ArgumentTypeError(f"step {step!r} of an epilogue: a step is needed")


@lru_cache(maxsize=64)
def _instructions(step: Step) -> int:
    """Instructions of a step per element: of a function its operations, a product and its sum as one."""
    if not isinstance(step, Map):
        return {Scale: 0, ScaleVector: 1, AddVector: 1, AddMatrix: 2}[type(step)]
    parts, left = set[Value](), [step.function.formula]
    while left:
        value = left.pop()
        if isinstance(value, Value) and value not in parts:
            parts.add(value)
            left += value.args
    of_sums = {arg for x in parts if x.op == "add" for arg in x.args if isinstance(arg, Value)}
    fused = sum(x.op == "mul" for x in of_sums)
    return sum(x.op not in ("neg", "abs") for x in parts) - fused  # signs are changed as operands are read


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Steps from the first to the last; `a | b` is a, then b.

    Raises ArgumentTypeError for what is not a step, UnsupportedError for two operands of one name, two
    matrices, or two different functions of one name.

    >>> print((Epilogue() | Scale() | AddVector("bias") | Map(instr.FUNCTIONS["gelu"])).said("A B"))
    gelu(alpha A B + bias)
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        names: list[str] = []
        for step in self.steps:
            arrays, numbers = operands_of(step)
            names += [*arrays, *numbers]
            known = ("n", "m") if isinstance(step, AddVector) else ("n", "m", "")
            if isinstance(step, AddVector | ScaleVector) and step.along not in known:
                raise UnsupportedError(
                    f"along = {step.along!r}: {' and '.join(map(repr, known))} are accepted"
                )
        for name, count in Counter(map(check_name, names)).items():
            if count > 1 or name in ("a", "b", "d", "m", "n", "k", "lda", "ldb", "ldd", "sums", "splits"):
                raise UnsupportedError(f"{name} of an epilogue: another operand of the product has this name")
        if sum(isinstance(step, AddMatrix) for step in self.steps) > 1:
            raise UnsupportedError(
                "two matrices in an epilogue: one, with the leading dimension ldc, is added"
            )
        functions = {step.function for step in self.steps if isinstance(step, Map)}
        if len({f.name for f in functions}) < len(functions):
            raise UnsupportedError("two different functions of an epilogue have one name")

    def __or__(self, other: Epilogue | Step) -> Epilogue:
        return Epilogue((*self.steps, *(other.steps if isinstance(other, Epilogue) else (other,))))

    @property
    def arrays(self) -> dict[str, str]:
        """The arrays that are read, each with the modes of D along which it lies: "mn", "n", "m" or ""."""
        return {name: modes for step in self.steps for name, modes in operands_of(step)[0].items()}

    def type_of(self, name: str, result: DType) -> DType:
        """The type of an array that is read: of factors f32, of summands the result's."""
        return FACTOR if name in [x.name for x in self.steps if isinstance(x, ScaleVector)] else result

    @property
    def functions(self) -> tuple[instr.ScalarFunction, ...]:
        """The functions that are applied, in order."""
        return tuple(step.function for step in self.steps if isinstance(step, Map))

    @property
    def instructions(self) -> int:
        """Instructions per element of D, beside those that scale A B: a matrix is converted and added."""
        return sum(map(_instructions, self.steps))

    def rounded_to(self, result: str) -> Epilogue:
        """The epilogue whose last function is the one that results of a type are finished by."""
        match self.steps:
            case (*steps, Map(f)):
                return Epilogue((*steps, Map(f.rounded_to(result))))
        return self

    def said(self, value: str) -> str:
        """The expression of the finished value, as the kernel's text states it."""
        return reduce(lambda x, step: step.said(x), self.steps, value)

    def check(self, accumulator: str) -> None:
        """Raise UnsupportedError for a function that is not stated for the type that sums are finished in.

        >>> Epilogue((Map(instr.FUNCTIONS["gelu"]),)).check("s32")
        Traceback (most recent call last):
        layoutalg.errors.UnsupportedError: gelu of s32: it is stated for f32, f64
        """
        for f in self.functions:
            f.instr(1, number_of(accumulator))
        if number_of(accumulator) != "f32" and any(isinstance(step, ScaleVector) for step in self.steps):
            raise UnsupportedError(f"factors of f32 of {accumulator} sums: those of f32 sums are accepted")

    def definition(
        self, value: Any, error: Any, given: Mapping[str, Any], roundoff: float, *, integers: bool = False
    ) -> tuple[Any, Any]:
        """Return the result of the steps on float64 values that are known up to `error`, and its error bound.

        `given` has the scalars, the matrix and the vectors by name, in float64; `roundoff` is that of the
        type sums are finished in.  A matrix whose factor is 0 is not read.  A number that may be 0, times
        infinity, may be anything, and so may what is made of it: it is 0 with an infinite error.

        >>> import numpy
        >>> relu = Epilogue((Scale(), Map(instr.FUNCTIONS["relu"])))
        >>> relu.definition(numpy.array([-2.0, 3.0]), 0.0, {"alpha": 2.0}, 0.0)[0]
        array([0., 6.])
        """
        import numpy as np

        with np.errstate(all="ignore"):
            for step in self.steps:
                error = np.where(np.isfinite(value), error, 0)
                unknown = np.isinf(error)
                match step:
                    case Scale(name) | ScaleVector(name, _):
                        factor = given[name][:, None] if self.arrays.get(name) == "m" else given[name]
                        unknown = unknown | np.isinf(factor) & (error > 0) & (np.abs(value) <= error)
                        value, error = value * factor, error * np.abs(factor)
                    case AddMatrix(name, factor):
                        if given[factor]:
                            value = value + given[factor] * given[name]
                            error = error + roundoff * np.abs(given[factor] * given[name])
                    case AddVector(name, along):
                        vector = given[name] if along == "n" else given[name][:, None]
                        value, error = value + vector, error + roundoff * np.abs(vector)
                    case Map(f):
                        value = wrapped(value) if integers else value
                        # a function may be exact, or of any slope
                        error = np.where(np.equal(error, 0), 0, f.slope * error) + f.absolute
                        x, value = value, f.meaning(value)
                        error = error + roundoff * f.places(x, value) + f.relative * np.abs(value)
                error = np.where(unknown, np.inf, error + roundoff * np.abs(value))
                value = np.where(unknown, 0, value)
            return (wrapped(value) if integers else value), error


def wrapped(value: Any) -> Any:
    """Integers in float64, modulo 2^32, as the signed ones they are stored as.

    >>> wrapped(2.0**31)
    -2147483648.0
    """
    return (value + 2.0**31) % 2.0**32 - 2.0**31


FACTOR = dtype("f32")
"""The type of arrays of factors."""


def named_epilogue(
    *, reads_c: bool, bias: bool, activation: str | instr.ScalarFunction, along: Literal["n", "m"] = "n",
    scales: Mapping[str, Literal["n", "m", ""]] = MappingProxyType({}),
) -> Epilogue:  # fmt: skip
    """activation(alpha v + beta C + bias), with C, the bias and the activation if they are requested.

    v is multiplied by each of the `scales`, whose names have the mode of D that they lie along.  The bias is
    `along` n, a number per column, or m.  The activation is "none", a name of FUNCTIONS, or a function of the
    user's own; raises UnsupportedError for another name.

    >>> print(named_epilogue(reads_c=True, bias=False, activation="relu").said("A B"))
    relu(alpha A B + beta C)
    """
    function = activation if isinstance(activation, instr.ScalarFunction) else instr.FUNCTIONS.get(activation)
    if function is None and activation != "none":
        known = " and ".join(map(repr, ("none", *instr.FUNCTIONS)))
        raise UnsupportedError(f"activation {activation!r}: {known} are accepted")
    end = Epilogue((Scale(), *(ScaleVector(name, mode) for name, mode in scales.items())))
    if reads_c:
        end |= AddMatrix()
    if bias:
        end |= AddVector(along=along)
    return end | Map(function) if function else end


def statement(p: GemmProblem, product: str = "A B", *, parts: bool = False) -> str:
    """Return the sentence that states what a kernel computes; with `parts` for a part of k, see parts.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> statement(gemm_problem(8, 8, 8, bias=True, activation="relu"))
    'D = relu(alpha A B + bias): f16 operands, f32 sums, f16 result'
    >>> statement(gemm_problem(8, 8, 8, "s8"), parts=True)
    'sums[s] = A B over part s of k: s8 operands, s32 sums'
    """
    operands = " and ".join(map(str, dict.fromkeys(p.operands)))
    types = f"{operands} operands, {p.accumulator} sums{' of sums of tensor cores' if p.promoted else ''}"
    if p.block_scales:
        product = f"({product} over blocks of k, each times scale_a[m][k / 128] scale_b[n / 128][k / 128])"
    if parts:
        return f"sums[s] = {product} over part s of k: {types}"
    return f"D = {p.epilogue.said(product)}: {types}, {p.result} result"


class Output:
    """The path of a kernel's sums to memory, `vec` of a row at a time, through the epilogue.

    Declares d (or for a `part` the workspace `sums`) and the operands of the epilogue, with registers for
    what is read or packed.  A block's results start at row and column `first` of the product at `batch`; with
    None they are where the block has sums.  Rows start at multiples of `vec` elements; `static` makes the
    problem's leading dimensions constants.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> k = KernelBuilder("nothing", threads=32)
    >>> Output(k, gemm_problem(8, 8, 8), 4, k.param("m", 8), k.param("n", 8)).d.align_bytes
    8
    """

    def __init__(
        self,
        k: KernelBuilder,
        p: GemmProblem,
        vec: int,
        m: Var,
        n: Var,
        *,
        first: tuple[Expr, Expr] | None = None,
        part: Expr | None = None,
        batch: tuple[Expr, ...] = (),
        static: bool = False,
        stores: Mapping[int, instr.Instr] = instr.STG_WHOLE,
        crossed: bool = False,
    ) -> None:
        self.k, self.vec, self.n, self.first, self.crossed = k, vec, n, first, crossed
        self.m: Expr = m  # the row behind the last one that is written
        self.epilogue, self.element, size = p.epilogue, p.result.name, p.result.nbytes
        self.number = number_of(p.accumulator.name)
        self.nbytes, self.store = vec * size, stores[vec * size]
        self.scalars: dict[str, tuple[Expr, ...]] = {}
        self.buffers: dict[str, Global] = {}
        self.align = min(16, vec * size)

        def leading(name: str, value: int) -> Expr:
            return k.constant(name, value) if static else k.param(name, value, vec, multiple=vec)

        self.lead = batch if part is None else (part,)
        if part is not None:
            strides: tuple[Expr | int, ...] = (m * n, n, 1)
            self.d = k.pointer("sums", size, strides, writable=True, align_bytes=self.align)
        else:
            ldd = leading("ldd", p.ldd)
            k.require(n <= ldd)
            strides = (*batch_strides(k, p, "d", vec), ldd, 1)
            self.d = k.pointer("d", size, strides, writable=True, align_bytes=self.align)
        for step in self.epilogue.steps:
            arrays, numbers = operands_of(step)
            for name, modes in arrays.items():
                strides = (
                    (*batch_strides(k, p, "c", vec), leading("ldc", p.ldc), 1) if len(modes) > 1 else (1,)
                )
                own = self.epilogue.type_of(name, p.result).nbytes
                single = modes == "m" or isinstance(step, ScaleVector)  # elements are read one by one
                self.buffers[name] = k.pointer(name, own, strides, align_bytes=own if single else self.align)
            for name in numbers:
                self._scalar(name)
        self._registers: dict[str, Reg] = {}

    def _scalar(self, name: str) -> None:
        """A scalar parameter: one word, or the two of a double."""
        number = self.number
        if number != "f64":
            self.scalars[name] = (self.k.word(name, f"the 32 bits of the {number} {name}"),)
        else:
            self.scalars[name] = tuple(
                self.k.word(f"{name}_{half}", f"the {half} 32 bits of the {number} {name}")
                for half in ("low", "high")
            )

    def _register(self, name: str, words: int) -> Reg:
        if name not in self._registers:
            self._registers[name] = self.k.reg(name, words)
        return self._registers[name]

    def tile(self, corner: tuple[Expr, Expr], shape: tuple[int, int]) -> Tensor:
        """A tile of D, whose coordinates a thread's results have: where it starts, and its extents."""
        d = whole(self.d, extents=(None,) * len(self.d.strides))
        if self.lead:
            d = d[*self.lead, None, None]
        return local_tile(d, shape, (0, 0)).moved(*(Const(0),) * len(self.lead), *corner)

    def at_corner(self, own: Tensor, corner: tuple[Expr, Expr]) -> Tensor:
        """A thread's part of a tile at row and column 0, in the tile at a corner; its place has a name."""
        *before, row, column = own.moved(*(Const(0),) * len(self.lead), *corner).origin
        named = self.k.once("row0", row), self.k.once("col0", column)
        return replace(own, origin=(*before, *named))

    def write(self, sums: Reg | RegRef, place: tuple[Expr, ...]) -> None:
        """Finish the sums, in place, and store them at a coordinate of D, where it has them."""
        k = self.k
        row, column = place[-2:]
        packed = self._register("packed", max(1, self.nbytes // 4))
        with k.If(self._inside(row, column)):
            for step in self.epilogue.steps:
                self._step(step, sums, packed, row, column)
            to = k.at(self.d, *place)
            narrow = self.element in ("f16", "bf16")
            if narrow:
                k.do(instr.convert(self.vec, "f32", self.element), packed, sums)
            k.do(self.store, to, packed if narrow else sums)

    def put(self, packed: Reg, place: tuple[Expr, ...]) -> None:
        """Store a vector of finished results at a coordinate of D, where it has them."""
        with self.k.If(self._inside(*place[-2:])):
            self.k.do(self.store, self.k.at(self.d, *place), packed)

    def _inside(self, row: Expr, column: Expr) -> Expr:
        """Whether D has the row and column that are written."""
        inside = (row < self.m) & (column < self.n)
        if self.first is not None:
            inside = inside & (self.first[0] <= row) & (self.first[1] <= column)
        return inside

    def load_vectors(self, corner: tuple[Expr, Expr], shape: tuple[int, int]) -> None:
        """Read the vectors of the steps for a warpgroup's accumulators: of each 64 columns a lane keeps two,
        which others get by a shuffle when they need them, of each 64 rows its own two.
        """
        k, size = self.k, self.nbytes // self.vec
        lane, warp = k.thread % 32, k.thread // 32 % 4
        for step in (x for x in self.epilogue.steps if isinstance(x, AddVector | ScaleVector)):
            wide, pieces = (FACTOR.nbytes, 2) if isinstance(step, ScaleVector) else (size, 1)
            along, end = self._along(step), {"n": self.n, "m": self.m, "": Const(1)}[step.along]
            count, each, first = {
                "n": (-(-shape[1] // 64), 2 * wide, corner[1] + lane * 2),
                "m": (shape[0] // 32, wide, corner[0] + warp * 16 + lane // 4),
                "": (1, wide, Const(0)),
            }[along]
            pieces, words = pieces if along == "n" else 1, max(1, each // 4)
            kept, buffer = self._register(f"{step.name}_kept", count * words), self.buffers[step.name]
            k.do(instr.fill(count * words), kept, Const(0))  # where D ends before the tile
            with k.Unroll("v", count) as v:
                at = first + (v * 64 if along == "n" else v // 2 * 64 + v % 2 * 8)
                for e in range(pieces):
                    place, own = at + e if e else at, words // pieces
                    held = kept.slice(v * words + e * own, count=own)
                    with k.If(place < end):
                        k.do(instr.LDG[each // pieces], held, k.at(buffer, place))

    def finish(
        self, sums: RegRef, row: Operand, column: Operand, brought: Callable[[Reg], None] | None = None
    ) -> None:
        """Finish `vec` accumulators of a thread in place, of an 8 of a tile's rows and 8s of its columns.

        `brought` loads the elements of a matrix that is added; without it UnsupportedError is raised.
        """
        one = (*map(Const, instr.ONE[self.number]),)
        factor: tuple[Expr, ...] = one
        steps = self.epilogue.steps
        for step, after in zip(steps, (*steps, None)[1:], strict=True):
            match step:
                case AddMatrix(_, scale) if brought is not None:
                    words = self._register("matrix_words", max(1, self.nbytes // 4))
                    with self.k.If(nonzero(self.scalars[scale], self.number)):
                        brought(words)
                        self.k.do(instr.add_scaled(self.vec, self.element), sums, words, *self.scalars[scale])
                case AddMatrix(name):
                    raise UnsupportedError(f"{name} is added where the place in D is known")
                case Scale(name) if isinstance(after, AddVector) and self._along(after) == "n":
                    factor = self.scalars[name]  # in one operation with the sum
                case AddVector(name):
                    for eight in range(self.vec // 4):  # of columns: two of them in two rows
                        four = [_pair_of(sums, 4 * eight + 2 * h) for h in range(2)]
                        if self._along(step) == "n":
                            self._add_pair(name, four, as_expr(column) + eight, factor)
                        else:
                            self._add_rows(name, four, as_expr(row))
                    factor = one
                case ScaleVector():
                    self._scaled(step, sums, as_expr(row), as_expr(column))
                case _:
                    self._step(step, sums, sums, Const(0), Const(0))

    def _along(self, step: AddVector | ScaleVector) -> str:
        """The mode of tiles along which a vector of D lies: of those that are crossed the other one."""
        return {"m": "n", "n": "m"}.get(step.along, "") if self.crossed else step.along

    def _add_pair(self, name: str, rows: list[RegRef], eight: Expr, factor: tuple[Expr, ...]) -> None:
        """Add the two columns of an 8 that the lane has to scaled rows."""
        words = max(1, self.nbytes // self.vec // 2)
        pair = self._pair(self._registers[f"{name}_kept"], "pair", words, eight)
        for two in rows:
            self.k.do(instr.scale_and_add(2, self.element), two, pair, *factor)

    def _pair(self, kept: Reg, name: str, words: int, eight: Expr) -> Reg:
        """The numbers of the two columns of an 8 that the lane has, which another lane keeps."""
        k, pair = self.k, self._register(name, words)
        for word in range(words):
            of = kept.slice(eight // 8 * words + word, count=1)
            k.do(instr.SHUFFLE_LANE, pair.slice(word, count=1), of, eight % 8 * 4 + k.thread % 4)
        return pair

    def _scaled(self, step: ScaleVector, sums: RegRef, row: Expr, column: Expr) -> None:
        """Multiply accumulators by the factors of their columns, of their rows, or by one."""
        kept, along = self._registers[f"{step.name}_kept"], self._along(step)
        if not along:
            self.k.do(instr.multiply(self.vec, 1), sums, kept)
            return
        for eight in range(self.vec // 4):
            factors = self._pair(kept, "factors", 2, column + eight) if along == "n" else None
            for h in range(2):
                of = factors or kept.slice(row + h, count=1)
                self.k.do(instr.multiply(2, 2 if factors else 1), _pair_of(sums, 4 * eight + 2 * h), of)

    def _add_rows(self, name: str, rows: list[RegRef], row: Expr) -> None:
        """Add a number to each of two rows."""
        for h, two in enumerate(rows):
            own = self._registers[f"{name}_kept"].slice(row + h, count=1)
            self.k.do(instr.add_same(2, self.element), two, own)

    def _step(self, step: Step, sums: Reg | RegRef, packed: Reg | RegRef, row: Expr, column: Expr) -> None:
        k, vec = self.k, self.vec
        match step:
            case Scale(name):
                k.do(instr.scale(vec, self.number), sums, *self.scalars[name])
            case ScaleVector(name, along):
                count, at = {"n": (vec, column), "m": (1, row), "": (1, Const(0))}[along]
                factors = self._register(f"factors_{along or 'all'}", count)
                with k.Unroll("f", count) as f:
                    own = factors.slice(f, count=1) if count > 1 else factors
                    k.do(instr.LDG[FACTOR.nbytes], own, k.at(self.buffers[name], at + f))
                k.do(instr.multiply(vec, count), sums, factors)
            case AddMatrix(name, factor):
                with k.If(nonzero(self.scalars[factor], self.number)):
                    k.do(instr.LDG[self.nbytes], packed, k.at(self.buffers[name], *self.lead, row, column))
                    k.do(instr.add_scaled(vec, self.element), sums, packed, *self.scalars[factor])
            case AddVector(name, "n"):
                k.do(instr.LDG[self.nbytes], packed, k.at(self.buffers[name], column))
                k.do(instr.add_scaled(vec, self.element), sums, packed, *map(Const, instr.ONE[self.number]))
            case AddVector(name, _):
                size = self.nbytes // vec
                one = self._register("row_value", max(1, size // 4))
                k.do(instr.LDG[size], one, k.at(self.buffers[name], row))
                k.do(instr.add_same(vec, self.element), sums, one)
            case Map(f):
                k.do(f.instr(vec, self.number), sums)


def _pair_of(sums: RegRef, first: int) -> RegRef:
    """Two words of a row of registers."""
    *row, word = sums.index if len(sums.index) == len(sums.reg.shape) else (*sums.index, Const(0))
    return RegRef(sums.reg, (*row, simplify(word + first)), 2)


def epilogue_operands(epilogue: Epilogue, p: GemmProblem) -> dict[str, int]:
    """The arrays that an epilogue takes, with their elements: the matrix in rows of ldc, the vectors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> epilogue_operands((p := gemm_problem(8, 16, 4, reads_c=True, bias=True)).epilogue, p)
    {'c': 128, 'bias': 16}
    """
    elems = {"mn": p.c_elems, "n": p.n, "m": p.m, "": 1}
    return {name: elems[modes] for name, modes in epilogue.arrays.items()}
