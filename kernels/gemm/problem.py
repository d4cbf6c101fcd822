"""GemmProblem: D = epilogue(A B), such as activation(alpha A B + beta C + bias), and its operands' strides.

A is m x k, B is k x n, C and D are m x n and row-major; a column-major D is the transposed problem.  Each
of A and B is stored along one of its modes:

    major "k"      A[m][k] row-major,  B[n][k] (B column-major): what cuBLAS calls TN
    major "mn"     A[k][m] (A column-major),  B[k][n] row-major

The accumulator is f32 (s32 for integers) by default.  beta = 0 never reads C, so that C may hold
anything, NaN included.

A batch is many such products, counted by modes with a step of each operand: step 0 where all share it.

Elements narrower than a byte are stored several to a byte, the first in its low bits, along k.  Such a
problem counts k, lda, ldb and the steps of A and B in bytes, and its operand is a byte of them:
gemm_problem(m, n, 256, "s4") has k = 128 bytes of s4x2.

Products of bits are a & b, or with arithmetic "xor" a ^ b: a sum counts the ones.

Of 8-bit floats A and B may be of two types.  Tensor cores keep 14 bits of their sums, so that the sums of
every 128 of k are added up in f32, in full; with arithmetic "fast" they are those of the tensor cores.  With
"blocks" the sums of block b of k are first multiplied by scale_a[m][b] scale_b[n / 128][b].
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.codegen.instr import MMAS, Mma, ScalarFunction
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.kernels.gemm.epilogue import Epilogue, named_epilogue
from layoutalg.kernels.modes import check_written, strided

if TYPE_CHECKING:
    from layoutalg.kernels.gemm.tiles import Sm80Config

Major: TypeAlias = Literal["k", "mn"]

BYTE_FLOATS = ("e4m3", "e5m2")
"""The floats of 8 bits, of which A and B may have one each."""

ACCUMULATORS = {"f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "f32": ("f32",), "f64": ("f64",),
                "s8": ("s32",), "s4": ("s32",), "u4": ("s32",), "b1": ("s32",),
                **dict.fromkeys(BYTE_FLOATS, ("f32",))}  # fmt: skip
"""Accumulators of each operand type, the usual one first."""

PACKED_BYTES: Mapping[str, DType] = MappingProxyType(
    {x: DType(f"{x}x{n}", 8, "uint8") for x, n in (("s4", 2), ("u4", 2), ("b1", 8))}
)
"""The type of a byte of each element type that is narrower than a byte."""

MOST_SPLITS = 64
"""The most parts of k."""

BITWISE = ("and", "xor")
"""The operations on pairs of bits whose results may be summed, the usual one first."""

PROMOTED_K = 128
"""The k of the sums of tensor cores that are added up in f32, of 8-bit floats."""

FAST, BLOCKS = "fast", "blocks"
"""The arithmetic of sums that are left to tensor cores, and of those with factors of blocks."""

PLAIN = named_epilogue(reads_c=False, bias=False, activation="none")
"""alpha A B."""

ALIGNED = (16, 16, 16)
"""The alignments in bytes of the buffers of A, of B, and of the operands of D's type."""


@dataclass(frozen=True, slots=True)
class BatchMode:
    """A mode of a batch of products: its extent, and the step of each operand from a product to the next, in
    elements; 0 where all products share the operand.

    >>> BatchMode(8, 64 * 128, 0, 0, 64 * 32).extent
    8
    """

    extent: int
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """A product, or a batch of products; leading dimensions in elements.  `gemm_problem` makes it.

    If it is `grouped`, the batch steps in B alone, and each of its products has some of the m rows.

    >>> print(gemm_problem(64, 32, 128, "f16"))
    64 x 32 x 128 f16 TN
    >>> print(gemm_problem(64, 32, 128, "f16", result="f32", ldd=40, bias=True))
    64 x 32 x 128 f16 TN, f32 result, ldd 40, alpha A B + bias
    """

    m: int
    n: int
    k: int
    operand: DType
    accumulator: DType
    result: DType
    a_major: Major
    b_major: Major
    lda: int
    ldb: int
    ldc: int
    ldd: int
    epilogue: Epilogue
    batch: tuple[BatchMode, ...] = ()
    align_bytes: tuple[int, int, int] = ALIGNED
    arithmetic: str = ""
    grouped: bool = False
    b_operand: DType | None = None
    scale_strides: tuple[int, ...] = ()

    @property
    def element(self) -> str:
        """The name of an element of A and B; the operand type may hold several."""
        return self.operand.name.partition("x")[0]

    @property
    def operands(self) -> tuple[DType, DType]:
        """The operand types of A and of B."""
        return self.operand, self.b_operand or self.operand

    @property
    def elements(self) -> tuple[str, str]:
        """The names of an element of A and of B."""
        return self.element, self.b_operand.name if self.b_operand else self.element

    @property
    def multiplied(self) -> str:
        """The element of A and B as an mma names it, both where they are two."""
        return "_".join(dict.fromkeys(self.elements))

    @property
    def promoted(self) -> bool:
        """Whether the sums of tensor cores are added up in f32."""
        return self.element in BYTE_FLOATS and self.arithmetic != FAST

    @property
    def packed(self) -> int:
        """Elements of A and B per stored element: more than 1 if they are narrower than a byte.

        >>> gemm_problem(8, 8, 64, "s4").packed
        2
        """
        return int(self.operand.name.partition("x")[2] or 1)

    @property
    def block_scales(self) -> dict[str, tuple[int, int]]:
        """The extents of factors of blocks by name: along rows, or blocks of columns, and along k."""
        if self.arithmetic != BLOCKS:
            return {}
        deep = -(-self.k // PROMOTED_K)
        return {"scale_a": (self.m, deep), "scale_b": (-(-self.n // PROMOTED_K), deep)}

    @property
    def products(self) -> int:
        """The number of products of the batch."""
        return prod(mode.extent for mode in self.batch) if self.batch else 1

    @property
    def rows(self) -> int:
        """Rows of each product; of groups, which have m rows together, the mean, rounded up.

        >>> gemm_problem(96, 200, 80).rows
        96
        """
        return -(-self.m // self.products) if self.grouped else self.m

    @property
    def reads_c(self) -> bool:
        """Whether a matrix is added."""
        return "mn" in self.epilogue.arrays.values()

    @property
    def by_registers(self) -> bool:
        """Whether wgmma takes an operand from registers, as it turns elements of 16 bits alone."""
        return self.operand.name == "tf32" and "mn" in (self.a_major, self.b_major)

    @property
    def a_elems(self) -> int:
        """Elements of A's buffer."""
        rows, columns = (self.m, self.k) if self.a_major == "k" else (self.k, self.m)
        return self.elems("a", rows, columns, self.lda)

    @property
    def b_elems(self) -> int:
        """Elements of B's buffer."""
        rows, columns = (self.n, self.k) if self.b_major == "k" else (self.k, self.n)
        return self.elems("b", rows, columns, self.ldb)

    @property
    def c_elems(self) -> int:
        """Elements of C's buffer."""
        return self.elems("c", self.m, self.n, self.ldc)

    @property
    def d_elems(self) -> int:
        """Elements of D's buffer."""
        return self.elems("d", self.m, self.n, self.ldd)

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products."""
        return 2 * self.m * self.n * self.k * self.packed * (1 if self.grouped else self.products)

    def steps(self, name: str) -> tuple[int, ...]:
        """The steps of an operand, "a", "b", "c" or "d", along the modes of the batch."""
        return tuple(getattr(mode, name) for mode in self.batch)

    def elems(self, name: str, rows: int, columns: int, leading: int) -> int:
        """Elements of an operand's buffer, to the last one of all products."""
        steps = zip(self.batch, self.steps(name), strict=True)
        reach = sum((mode.extent - 1) * step for mode, step in steps)
        return reach + (rows - 1) * leading + columns

    def __str__(self) -> str:
        majors = ("T" if self.a_major == "k" else "N") + ("N" if self.b_major == "k" else "T")
        many = "" if self.grouped else "".join(f"{mode.extent} x " for mode in self.batch)
        bits = f" {self.arithmetic}" if self.arithmetic else ""
        groups = f" in {self.products} groups" if self.grouped else ""
        types = " x ".join(dict.fromkeys(self.elements))
        usual = f"{many}{self.m} x {self.n} x {self.k * self.packed} {types} {majors}{bits}{groups}"
        return ", ".join([usual, *self._unusual()])

    def _unusual(self) -> Iterator[str]:
        """The properties that differ from the default: types, leading dimensions, the epilogue."""
        if self.accumulator.name != ACCUMULATORS[self.element][0]:
            yield f"{self.accumulator} sums"
        if self.result.name != _usual_result(self.element):
            yield f"{self.result} result"
        rows = _row_lengths(self.m, self.n, self.k, self.a_major, self.b_major)
        for name, least in rows.items():
            if (leading := getattr(self, name)) != least:
                yield f"{name} {leading * (self.packed if name in ('lda', 'ldb') else 1)}"
        if self.epilogue != PLAIN:
            yield self.epilogue.said("A B")


def gemm_problem(
    m: int,
    n: int,
    k: int,
    dtype: str | DType = "f16",
    *,
    accumulator: str | DType | None = None,
    result: str | DType | None = None,
    a_major: Major = "k",
    b_major: Major = "k",
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
    ldd: int | None = None,
    reads_c: bool = False,
    bias: bool | str = False,
    activation: str | ScalarFunction = "none",
    epilogue: Epilogue | None = None,
    batch: Iterable[BatchMode] = (),
    align_bytes: tuple[int, int, int] = ALIGNED,
    arithmetic: str = "",
    b_dtype: str | DType | None = None,
    scale_a: str = "none",
    scale_b: str = "none",
    scale_strides: tuple[int, ...] = (),
) -> GemmProblem:
    """A checked problem; leading dimensions default to the row lengths, D's type to the operands', of 8-bit
    floats to bf16.  B's type is `b_dtype` if that is another 8-bit float.  A B is multiplied by a float
    per row, `scale_a` "m", by one per column, `scale_b` "n", or by one each, "one".  Factors of blocks have
    `scale_strides`: those of scale_a, along rows and k, and of scale_b; by default k is the last mode.

    D is activation(alpha A B + beta C + bias), or what `epilogue` makes of A B; the bias is a number per
    column, True or "n", or per row, "m".  Extents, leading dimensions and steps count elements.  Raises
    ShapeError for extents, leading dimensions and steps that make no matrices or cut bytes, NotInjectiveError
    for results that would lie at the same place, UnsupportedError for types that do not go together.

    >>> print(gemm_problem(128, 256, 64))
    128 x 256 x 64 f16 TN
    """
    element = find_dtype(dtype)
    if element.name not in ACCUMULATORS:
        raise UnsupportedError(f"GEMM of {element}: {', '.join(ACCUMULATORS)} are accepted")
    other = find_dtype(b_dtype or element)
    mixed = other != element
    if mixed and not {element.name, other.name} <= {*BYTE_FLOATS}:
        raise UnsupportedError(
            f"a product of {element} and {other}: {' and '.join(BYTE_FLOATS)} alone may be mixed"
        )
    sums = find_dtype(accumulator or ACCUMULATORS[element.name][0])
    if sums.name not in ACCUMULATORS[element.name]:
        raise UnsupportedError(
            f"{element} products are added up in {' or '.join(ACCUMULATORS[element.name])}, not {sums}"
        )
    default = _usual_result(element.name)
    to, narrow = find_dtype(result or default), element.name in BYTE_FLOATS
    accepted = dict.fromkeys((default, *(("f16",) if narrow else ()), sums.name))
    if to.name not in accepted:
        known = " and ".join(accepted)
        raise UnsupportedError(
            f"a result of {to} from {element}: {known} {'are' if ' ' in known else 'is'} accepted"
        )
    for name, value in (("m", m), ("n", n), ("k", k)):
        _positive(name, value)
    for name, major in (("a_major", a_major), ("b_major", b_major)):
        if major not in ("k", "mn"):
            raise UnsupportedError(f"{name} = {major!r}: 'k' and 'mn' are accepted")
    if epilogue is None:
        if bias not in (True, False, "none", "n", "m"):
            raise UnsupportedError(f"bias = {bias!r}: 'none', 'n' and 'm' are accepted")
        scales: dict[str, Any] = {}
        for name, scale, along in (("scale_a", scale_a, "m"), ("scale_b", scale_b, "n")):
            if scale not in ("none", "one", along):
                raise UnsupportedError(f"{name} = {scale!r}: 'none', 'one' and {along!r} are accepted")
            scales |= {} if scale == "none" else {name: scale.removeprefix("one")}
        epilogue = named_epilogue(
            reads_c=reads_c, bias=bias not in (False, "none"), activation=activation,
            along="m" if bias == "m" else "n", scales=scales,
        )  # fmt: skip
    elif reads_c or bias or activation != "none" or {scale_a, scale_b} != {"none"}:
        raise UnsupportedError(
            "an epilogue and steps of its own: reads_c, bias, activation and scales belong into it"
        )
    epilogue.check(sums.name)
    epilogue = epilogue.rounded_to(to.name)
    rows = _row_lengths(m, n, k, a_major, b_major)
    given = {"lda": lda, "ldb": ldb, "ldc": ldc, "ldd": ldd}
    leading = {}
    for name, least in rows.items():
        wanted = given[name]
        leading[name] = least if wanted is None else wanted
        _positive(name, leading[name])
        if leading[name] < least:
            raise ShapeError(f"{name} = {leading[name]} is less than the row length {least}")
    several = tuple(batch)
    for mode in several:
        _positive("an extent of the batch", mode.extent)
        if min(mode.a, mode.b, mode.c, mode.d) < 0:
            raise ShapeError(f"{mode}: steps of 0 or more are needed")
    if several:
        steps = tuple(mode.d for mode in several)
        check_written("products", (*(x.extent for x in several), m, n), (*steps, leading["ldd"], 1))
    bits = _arithmetic(element, arithmetic)
    if bits == BLOCKS:
        if {"scale_a", "scale_b"} & {*epilogue.arrays}:
            raise UnsupportedError("scale_a and scale_b of blocks and of an epilogue: take one of them")
        scale_strides = tuple(scale_strides) or (-(-k // PROMOTED_K), 1) * 2
    if len(scale_strides) != (4 if bits == BLOCKS else 0) or min(scale_strides, default=0) < 0:
        raise ShapeError(f"scale_strides = {scale_strides}: four of factors of blocks, of 0 or more")
    if element.name in PACKED_BYTES:
        element, k, leading, several = _in_bytes(element, k, leading, several, (a_major, b_major))
    return GemmProblem(
        m, n, k, element, sums, to, a_major, b_major, leading["lda"], leading["ldb"], leading["ldc"],
        leading["ldd"], epilogue, several, align_bytes, bits, b_operand=other if mixed else None,
        scale_strides=scale_strides,
    )  # fmt: skip


def _usual_result(element: str) -> str:
    """D's type, of products of an element type."""
    others = dict.fromkeys(("s8", *PACKED_BYTES), "s32") | dict.fromkeys(BYTE_FLOATS, "bf16")
    return {"tf32": "f32", **others}.get(element, element)


def _row_lengths(m: int, n: int, k: int, a_major: str, b_major: str) -> dict[str, int]:
    """The least leading dimensions."""
    return {"lda": k if a_major == "k" else m, "ldb": k if b_major == "k" else n, "ldc": n, "ldd": n}


def _arithmetic(element: DType, arithmetic: str) -> str:
    """The operation on pairs of bits whose results are summed, or how 8-bit floats are; else empty."""
    known = BITWISE if element.name == "b1" else ("", FAST, BLOCKS) if element.name in BYTE_FLOATS else ("",)
    if arithmetic and len(known) == 1:
        raise UnsupportedError(
            f"arithmetic = {arithmetic!r} of {element}: bits and 8-bit floats alone have a choice"
        )
    if arithmetic not in ("", *known):
        raise UnsupportedError(f"arithmetic = {arithmetic!r}: {' and '.join(map(repr, known))} are accepted")
    return arithmetic or known[0]


def _in_bytes(
    element: DType, k: int, leading: Mapping[str, int], batch: tuple[BatchMode, ...], majors: tuple[str, str]
) -> tuple[DType, int, dict[str, int], tuple[BatchMode, ...]]:
    """Operand type, k, leading dimensions and batch of elements that share bytes along k."""
    byte, per = PACKED_BYTES[element.name], 8 // element.bits
    if majors != ("k", "k"):
        raise UnsupportedError(
            f"{per} elements of {element} share a byte along k, so that A and B must both be stored along k"
        )
    steps = [(f"a step of {x}", getattr(mode, x)) for mode in batch for x in "ab"]
    for name, value in (("k", k), ("lda", leading["lda"]), ("ldb", leading["ldb"]), *steps):
        if value % per:
            raise ShapeError(f"{name} = {value} of {element}: rows are whole bytes, multiples of {per}")
    halved = {x: value // per if x in ("lda", "ldb") else value for x, value in leading.items()}
    return byte, k // per, halved, tuple(replace(x, a=x.a // per, b=x.b // per) for x in batch)


def _positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ShapeError(f"{name} = {shown(value)}: a positive integer is needed")


def scalar_words(p: GemmProblem, name: str, value: Any) -> dict[str, int]:
    """alpha or beta as a kernel takes it, in words of the accumulator: one, or `name`_low and `name`_high.

    Integers are taken modulo 2^32 for integer sums; other values are rounded to f32 or f64.  Raises
    ArgumentTypeError for what is not a number, ShapeError for a fraction where sums are integers, and for a
    finite number that is past the accumulator's largest, or that it rounds to 0.

    >>> scalar_words(gemm_problem(2, 3, 4, "f32"), "alpha", 1.0) == {"alpha": 0x3F800000}
    True
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentTypeError(f"{name} is {shown(value)}: a number is needed")
    wide = p.accumulator.name == "f64"
    form = "<d" if wide else "<f"
    number: Any = value
    try:
        if p.accumulator.name == "s32" and number == int(number):
            return {name: int(number) & 0xFFFFFFFF}
        packed = struct.pack(form, float(number))
        if number != 0 and struct.unpack(form, packed)[0] == 0:
            raise OverflowError
    except (OverflowError, ValueError):
        raise ShapeError(f"{name} is {shown(value)}, which {p.accumulator} cannot hold") from None
    if p.accumulator.name == "s32":
        raise ShapeError(f"{name} is {value}: {p.operand} has integer sums, and {name} must be an integer")
    if not wide:
        return {name: struct.unpack("<I", packed)[0]}
    low, high = struct.unpack("<II", packed)
    return {f"{name}_low": low, f"{name}_high": high}


def scalar_value(p: GemmProblem, name: str, words: Mapping[str, Any]) -> float:
    """The inverse of `scalar_words`: the number that words stand for, of integer sums a signed one.

    >>> p = gemm_problem(2, 3, 4, "f64")
    >>> scalar_value(p, "alpha", scalar_words(p, "alpha", 0.1))
    0.1
    """
    if p.accumulator.name == "f64":
        packed = struct.pack("<II", words[f"{name}_low"], words[f"{name}_high"])
        return float(struct.unpack("<d", packed)[0])
    packed = struct.pack("<I", words[name])
    return float(struct.unpack("<i" if p.accumulator.name == "s32" else "<f", packed)[0])


def matrices(p: GemmProblem, a: Any, b: Any) -> tuple[Any, Any]:
    """A as m x k and B as k x n, views of their flat buffers; of a batch, its modes in front.

    >>> import numpy
    >>> p = gemm_problem(2, 3, 4, "f32")
    >>> [x.shape for x in matrices(p, numpy.zeros(8), numpy.zeros(12))]
    [(2, 4), (4, 3)]
    """
    left = operand_view(p, "a", a, (p.m, p.k), (p.lda, 1) if p.a_major == "k" else (1, p.lda))
    right = operand_view(p, "b", b, (p.k, p.n), (1, p.ldb) if p.b_major == "k" else (p.ldb, 1))
    return left, right


def operand_view(
    p: GemmProblem, name: str, buffer: Any, shape: tuple[int, int], strides: tuple[int, int]
) -> Any:
    """An operand's flat buffer as matrices of a shape and strides, the modes of the batch in front.

    >>> import numpy
    >>> p = gemm_problem(2, 3, 4, batch=[BatchMode(5, d=6)])
    >>> operand_view(p, "d", numpy.arange(30), (2, 3), (3, 1))[4].tolist()
    [[24, 25, 26], [27, 28, 29]]
    """
    extents = (mode.extent for mode in p.batch)
    return strided(buffer, (*extents, *shape), (*p.steps(name), *strides))


def multiplied(a: Any, b: Any, *scales: Any) -> Any:
    """a @ b; with factors of blocks, of A by (row, block of k) and of B by (block of columns, block of k),
    the sum of what these make of the product of each block of k.

    >>> import numpy
    >>> multiplied(numpy.ones((1, 130)), numpy.ones((130, 1)), numpy.array([[1, 2]]), numpy.array([[1, 10]]))
    array([[168.]])
    """
    if not scales:
        return a @ b
    total, (by_row, by_columns) = 0.0, scales
    for block in range(by_row.shape[1]):
        part = slice(block * PROMOTED_K, (block + 1) * PROMOTED_K)
        of_columns = by_columns[:, block].repeat(PROMOTED_K)[: b.shape[1]]
        total = total + a[:, part] @ b[part] * (by_row[:, block, None] * of_columns)
    return total


def scale_view(p: GemmProblem, name: str, buffer: Any) -> Any:
    """Factors of blocks as (rows or blocks of columns, blocks of k), a view of their flat buffer.

    >>> import numpy
    >>> scale_view(gemm_problem(8, 8, 200, "e4m3", arithmetic="blocks"), "scale_b", numpy.arange(2)).tolist()
    [[0, 1]]
    """
    return strided(buffer, p.block_scales[name], _scale_steps(p, name))


def _scale_steps(p: GemmProblem, name: str) -> tuple[int, ...]:
    return p.scale_strides[:2] if name == "scale_a" else p.scale_strides[2:]


def scale_elems(p: GemmProblem, name: str) -> int:
    """Elements of a buffer of factors of blocks.

    >>> scale_elems(gemm_problem(8, 200, 200, "e4m3", arithmetic="blocks"), "scale_a")
    16
    """
    return 1 + sum((n - 1) * d for n, d in zip(p.block_scales[name], _scale_steps(p, name), strict=True))


SCALE_STEPS = ("scale_a_m", "scale_a_k", "scale_b_n", "scale_b_k")
"""The parameters that the strides of factors of blocks are."""


def stored_problem(p: GemmProblem, splits: int) -> GemmProblem:
    """Return the problem whose result a product's kernel stores: with parts of k sums alone, in rows of n.

    >>> stored_problem(gemm_problem(64, 64, 512, ldd=80), 2).ldd
    64
    """
    if splits == 1:
        return p
    align = (*p.align_bytes[:2], ALIGNED[2])
    return replace(p, result=p.accumulator, ldd=p.n, ldc=p.n, epilogue=Epilogue(), align_bytes=align)


@lru_cache(maxsize=16)
def widest_vectors(p: GemmProblem) -> tuple[int, int, int]:
    """Elements of the widest vectors that rows of A, of B, and of D and C are cut into, wherever these start.

    >>> widest_vectors(gemm_problem(64, 66, 512))
    (8, 8, 2)
    """
    size = p.operand.nbytes
    a, b, d = p.align_bytes[0] // size, p.align_bytes[1] // size, p.align_bytes[2] // p.result.nbytes
    return (
        gcd(a, p.lda, p.k if p.a_major == "k" else p.m, *p.steps("a")),
        gcd(b, p.ldb, p.k if p.b_major == "k" else p.n, *p.steps("b")),
        gcd(d, p.ldd, p.n, *p.steps("d"), *((p.ldc, *p.steps("c")) if p.reads_c else ())),
    )


def mma_of(p: GemmProblem, c: Sm80Config) -> Mma:
    """The mma of a configuration: `mma_k`, or the largest k there is.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> mma_of(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4)).k
    16
    """
    fitting = [m for m in mmas_of(p) if m.rows == c.mma_m and c.mma_k in (0, m.k)]
    return max(fitting, key=lambda m: m.k)


def mmas_of(p: GemmProblem) -> tuple[Mma, ...]:
    """Every mma that multiplies a problem's elements into its sums.

    >>> [m.k for m in mmas_of(gemm_problem(256, 256, 64))]
    [8, 16]
    """
    return _mmas(p.multiplied, p.accumulator.name, p.arithmetic if p.element == "b1" else "")


@lru_cache
def _mmas(*kind: str) -> tuple[Mma, ...]:
    return tuple(m for m in MMAS if (m.operand, m.accumulator, m.arithmetic) == kind)


FRAGMENT_BYTES = 32
"""The bytes of k that fragments cover, unless an mma takes more."""


def fragment_k(p: GemmProblem, c: Sm80Config) -> int:
    """Stored elements of k that fragments cover at once.

    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> fragment_k(gemm_problem(256, 256, 64), Sm80Config(64, 64, 16, 2, 2, 4))
    16
    """
    return max(FRAGMENT_BYTES // p.operand.nbytes, mma_of(p, c).k // p.packed)
