"""The product of two arrays, and the problem that a kernel computes for it.

    product = find_product(a, b, ...)       from forms alone: shapes as in numpy.matmul, types, refusals
    plan_of(product, starts)                from the arrays' starts: the problem, and the copies before it

The idea.  Each operand is rows of k with a stride per mode of the batch, in bytes: A has m rows, B n, and
both are read in place where one of their strides is an element and the other leads from row to row.  D is
m x n row-major, or the transposed product is computed: n x m of B and A.  What no kernel reads, such as rows
that run backwards, is copied into dense rows of k; what none writes is computed apart and moved.

    a (5, 1, 40, 72), b (3, 72, 16)     batch (5, 3), steps of A (40*72, 0), of B (0, 72*16)

Modes of the batch that step alike in all operands are one mode.  Products that share B, and whose rows follow
one another in A and D, are one product of more rows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from layoutalg.codegen.instr import ScalarFunction
from layoutalg.dtype import DTYPES
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.kernels.calls.arrays import KEPT_FORMS, UNIT_BYTES, Form, View, check_fellows
from layoutalg.kernels.calls.factors import BYTE_KINDS, MOST_LEADING, factors_along, in_blocks
from layoutalg.kernels.elements import ELEMENT
from layoutalg.kernels.gemm import (
    BLOCKS,
    BYTE_FLOATS,
    FAST,
    BatchMode,
    Epilogue,
    GemmProblem,
    Major,
    gemm_problem,
    named_epilogue,
)
from layoutalg.kernels.modes import StridedMode, check_written, compact_strides, normal_form

Shape: TypeAlias = "tuple[int, ...]"
Name: TypeAlias = Literal["a", "b", "c", "bias", "scale_a", "scale_b", "out"]

RESULTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "float32": ("float32",), "float64": ("float64",), "float16": ("float16", "float32"),
        "bfloat16": ("bfloat16", "float32"), "int8": ("int32",),
        **dict.fromkeys(BYTE_KINDS, ("bfloat16", "float32", "float16")),
    }
)  # fmt: skip
"""The types of a product by those of its operands, the usual one first; for int8 it is that of the sums."""

NEAREST = MappingProxyType(
    {
        "bool": "int8", "uint8": "float16", "int16": "float32", "uint16": "float32", "int32": "float64",
        "uint32": "float64", "int64": "float64", "uint64": "float64", "complex64": "float32, part by part,",
        "complex128": "float64, part by part,",
    }
)  # fmt: skip
"""The type that replaces a type that is not multiplied: it holds its numbers, or most of them."""

FEW_ROWS, MANY_ROWS = 256, 1 << 14
"""Products that share B are one of as many rows as the kernels of calls address with 32 bits; those of fewer
rows than a tile has, of any."""

PITCH_BYTES = 128
"""The alignment of rows in copies of such operands: a box of TMA reads whole lines."""

FACTOR_BYTES = 4
"""The bytes of a factor."""

BY_TMA, BY_K = ("f16", "bf16", "tf32", *BYTE_FLOATS), ("s8", *BYTE_FLOATS)
"""Elements whose rows of whole 16 bytes TMA brings to wgmma; those that are multiplied along k alone."""

TURNED: Mapping[str, Major] = MappingProxyType({"tf32": "k", "f32": "mn"})
"""The order of copies of elements that are multiplied faster in one: wgmma turns elements of 16 bits alone,
and threads turn tiles of f32 element by element."""

MOST_STEP = 1 << 36
"""The largest step of a batch that a kernel takes, in elements."""


class Side(NamedTuple):
    """An operand as rows: its strides in bytes, along the batch, from row to row and along a row."""

    batch: Shape
    row: int
    along: int

    @property
    def turned(self) -> Side:
        """The same with rows and columns exchanged."""
        return Side(self.batch, self.along, self.row)


@dataclass(frozen=True, eq=False)
class Product:
    """The product of arrays of some forms, independent of their addresses; equal ones are the same object.

    `shape` and `kind` are the result's.  A has m rows of k, B n rows of k, C and D m rows of n; `bias` is one
    number per column, along "n", or per row, along "m".
    """

    forms: Mapping[str, Form]
    shape: Shape
    kind: str
    elements: tuple[str, str]
    m: int
    n: int
    k: int
    batch: Shape
    sides: Mapping[str, Side]
    along: Literal["m", "n", ""]
    activation: str | ScalarFunction
    copy: bool
    scales: Mapping[str, Literal["m", "n", ""]]
    arithmetic: str

    @property
    def element(self) -> str:
        """The element of A."""
        return self.elements[0]

    @property
    def integers(self) -> bool:
        """Whether sums are integers."""
        return self.element == "s8"

    @functools.cached_property
    def empty(self) -> bool:
        """Whether the result has no elements."""
        return not prod(self.shape)

    @functools.cached_property
    def epilogue(self) -> Epilogue:
        """activation(alpha v + beta C + bias)."""
        return named_epilogue(
            reads_c="c" in self.forms, bias=bool(self.along), activation=self.activation,
            along="m" if self.along == "m" else "n", scales=self.scales,
        ).rounded_to(ELEMENT[self.kind])  # fmt: skip


def find_product(
    a: Form, b: Form, c: Form | None = None, bias: Form | None = None, scale_a: Form | None = None,
    scale_b: Form | None = None, out: Form | None = None, activation: str | ScalarFunction = "none",
    out_dtype: str | None = None, tf32: bool = False, copy: bool = True, fast: bool = False,
) -> Product:  # fmt: skip
    """Return the product of arrays of these forms.

    Raises ArgumentTypeError, ShapeError and UnsupportedError as `matmul` does, NotInjectiveError for an `out`
    that has one place for two results.

    >>> from layoutalg.kernels.calls.arrays import form_of
    >>> f = form_of("numpy", None, "float32", 4, (5, 3, 4), (48, 16, 4))
    >>> g = form_of("numpy", None, "float32", 4, (4, 2), (8, 4))
    >>> p = find_product(f, g)
    >>> p.shape, p.m, p.batch, p.sides["b"]
    ((5, 3, 2), 15, (), Side(batch=(), row=4, along=8))
    """
    elements = _elements(a, b, tf32=tf32)
    element = elements[0]
    if fast and a.kind not in BYTE_KINDS:
        raise UnsupportedError(f"fast_accumulation of {a.kind}: sums of 8-bit floats alone may be fast")
    others = {"c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b, "out": out}
    forms = {"a": a, "b": b} | {name: form for name, form in others.items() if form is not None}
    for name, form in forms.items():
        check_fellows(View(None, 0, a), View(None, 0, form), name, "a")
    kind = _result(a, out, out_dtype)
    m, n, k, batch, shape = _shape(a.shape, b.shape)
    end = len(a.shape) > 1, len(b.shape) > 1
    left, right = a.strides, b.strides
    if len(a.shape) == 1:
        left = (0, *left)
    if len(b.shape) == 1:
        right = (*right, 0)
    sides = {
        "a": Side(_spread(a.shape[:-2], left[:-2], batch), left[-2], left[-1]),
        "b": Side(_spread(b.shape[:-2], right[:-2], batch), right[-1], right[-2]),
    }
    if out is not None:
        if out.shape != shape:
            raise ShapeError(f"out has shape {out.shape}; the product has {shape}")
        check_written("a product", (*shape, out.itemsize), (*out.strides, 1))
        sides["out"] = _matrix_side(out.strides, end)
    if c is not None:
        _check_kind("c", c, kind)
        fits = len(c.shape) <= len(shape) and all(
            x in (1, y) for x, y in zip(reversed(c.shape), reversed(shape), strict=False)
        )
        if not fits:
            raise ShapeError(f"c has shape {c.shape}, which does not broadcast to the product's {shape}")
        sides["c"] = _matrix_side(_spread(c.shape, c.strides, shape), end)
    along: Literal["m", "n", ""] = ""
    if bias is not None:
        _check_kind("bias", bias, kind)
        along = _along(bias.shape, m, n)
        length, step = (n, bias.strides[-1]) if along == "n" else (m, bias.strides[0])
        sides["bias"] = Side((), 0, step if length > 1 else bias.itemsize)
    scales: dict[str, Literal["m", "n", ""]] = {}
    arithmetic = FAST if fast else ""
    if scale_a and scale_b and in_blocks(a, scale_a, scale_b, (m, n, k)):
        if fast or batch:
            raise UnsupportedError(f"scales of blocks {'with fast_accumulation' if fast else 'of a batch'}")
        arithmetic = BLOCKS
        sides["scale_a"] = Side((), *scale_a.strides)
        sides["scale_b"] = Side((), *scale_b.strides[::-1])
    else:
        ways: tuple[tuple[str, Literal["m", "n"], Form | None, int], ...] = (
            ("scale_a", "m", scale_a, m), ("scale_b", "n", scale_b, n),
        )  # fmt: skip
        for name, mode, given, extent in ways:
            if given is not None:
                scales[name], step = factors_along(name, given, mode, extent)
                sides[name] = Side((), 0, step)
    if along != "m" and scales.get("scale_a") != "m":
        m, batch, sides = _folded(element, DTYPES[ELEMENT[kind]].nbytes, (m, n, k), batch, sides)
    product = Product(
        forms, shape, kind, elements, m, n, k, batch, sides, along, activation, copy, scales,
        arithmetic,
    )  # fmt: skip
    product.epilogue.check("s32" if product.integers else "f64" if element == "f64" else "f32")
    return product


# --- arguments -----------------------------------------------------------------------------------------


def _elements(a: Form, b: Form, *, tf32: bool) -> tuple[str, str]:
    accepted = ", ".join(RESULTS)
    for name, form in (("a", a), ("b", b)):
        if form.kind not in RESULTS:
            near = NEAREST.get(form.kind)
            hint = f": convert it to {near} first" if near else ""
            raise UnsupportedError(
                f"{name} holds {form.kind} elements, which matmul does not multiply; {accepted} are "
                f"accepted{hint}"
            )
    if a.kind in BYTE_KINDS and b.kind in BYTE_KINDS:
        if tf32:
            raise UnsupportedError(f"tf32 of {a.kind} elements: it is a way to multiply float32")
        return BYTE_KINDS[a.kind], BYTE_KINDS[b.kind]
    if a.kind != b.kind:
        both = {a.kind, b.kind}
        if "int8" in both or both & {*BYTE_KINDS}:
            near = next(iter(both - {"int8", *BYTE_KINDS}), "float16")
        else:
            near = "float64" if "float64" in both else "float32"
        raise ArgumentTypeError(f"a holds {a.kind}, b {b.kind}: both must be of one type, such as {near}")
    if tf32 and a.kind != "float32":
        raise UnsupportedError(f"tf32 of {a.kind} elements: it is a way to multiply float32")
    return ("tf32" if tf32 else ELEMENT[a.kind],) * 2


def _result(operand: Form, out: Form | None, asked: str | None) -> str:
    kind = operand.kind
    accepted = RESULTS[kind]
    if kind in BYTE_KINDS and operand.library != "torch":  # which alone has bfloat16
        accepted = accepted[1:]
    if asked is not None and asked not in accepted:
        are = "are" if len(accepted) > 1 else "is"
        raise UnsupportedError(f"a product of {kind} as {asked}: {' and '.join(accepted)} {are} accepted")
    if out is None:
        return asked or accepted[0]
    expected = accepted if asked is None else (asked,)
    if out.kind not in expected:
        raise ArgumentTypeError(f"out holds {out.kind}; this product of {kind} is {' or '.join(expected)}")
    return out.kind


def _check_kind(name: str, form: Form, kind: str) -> None:
    if form.kind != kind:
        raise ArgumentTypeError(f"{name} holds {form.kind}, the result {kind}: both must be of one type")


@functools.lru_cache(KEPT_FORMS)
def _shape(a: Shape, b: Shape) -> tuple[int, int, int, Shape, Shape]:
    """m, n, k, the batch and the result's shape, as numpy.matmul has them."""
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ShapeError(f"{name} has no modes: matmul needs one or more; alpha multiplies by a number")
    k, other = a[-1], b[-2] if len(b) > 1 else b[-1]
    if k != other:
        which = "the last but one" if len(b) > 1 else "the only one"
        raise ShapeError(
            f"a has shape {a}, b {b}: {k} along a's last mode and {other} along {which} of b, which must be "
            "equal"
        )
    left, right = a[:-2], b[:-2]
    rank = max(len(left), len(right))
    batch = []
    for x, y in zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True):
        if x != y and 1 not in (x, y):
            raise ShapeError(f"a has shape {a}, b {b}: their batches {left} and {right} do not broadcast")
        batch.append(y if x == 1 else x)
    m, n = a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
    ends = tuple(x for x, given in ((m, len(a) > 1), (n, len(b) > 1)) if given)
    return m, n, k, tuple(batch), (*batch, *ends)


def _spread(shape: Shape, strides: Shape, wide: Shape) -> Shape:
    """The strides of an array that is broadcast to a shape: 0 along modes that it has once, or not at all."""
    own = tuple(0 if x == 1 else d for x, d in zip(shape, strides, strict=True))
    return (0,) * (len(wide) - len(own)) + own


def _matrix_side(strides: Shape, end: tuple[bool, bool]) -> Side:
    """An array of the result's shape as matrices: of the modes m and n, one that it lacks has one element."""
    rest = list(strides)
    along = rest.pop() if end[1] else 0
    row = rest.pop() if end[0] else 0
    return Side(tuple(rest), row, along)


def _along(shape: Shape, m: int, n: int) -> Literal["m", "n"]:
    if shape in ((n,), (1, n)):
        return "n"
    if shape == (m, 1):
        return "m"
    raise ShapeError(
        f"bias has shape {shape}; ({n},) adds a number per column of the {m} x {n} product, ({m}, 1) one per "
        "row"
    )


def _folded(
    element: str, size: int, extents: Shape, batch: Shape, sides: Mapping[str, Side]
) -> tuple[int, Shape, dict[str, Side]]:
    """m, the batch and the sides, where products that share B and whose rows follow one another are one."""
    m, n, k = extents
    joined = dict(sides)

    def readable(name: str, side: Side, rows: int) -> bool:
        if name == "a":
            return _majors(element, k, side, rows, 0) is not None
        ways = _leading(rows, n, side, size, 0), _leading(n, rows, side.turned, size, 0)
        return any(way is not None for way in ways)

    def merged(name: str, side: Side, extent: int) -> Side | None:
        *rest, step = side.batch
        if extent == 1 or (name == "b" and step == 0):
            return side._replace(batch=tuple(rest))
        if name == "b" or (m > 1 and step != m * side.row):
            return None
        wide = Side(tuple(rest), step if m == 1 else side.row, side.along)
        return wide if readable(name, wide, m * extent) or not readable(name, side, m) else None

    while batch and (m < FEW_ROWS or m * batch[-1] <= MANY_ROWS or batch[-1] == 1):
        wide = {name: merged(name, side, batch[-1]) for name, side in joined.items() if side.batch}
        if None in wide.values():
            break
        joined |= {name: side for name, side in wide.items() if side is not None}
        m, batch = m * batch[-1], batch[:-1]
    return m, batch, joined


# --- the problem of arrays that start somewhere --------------------------------------------------------


class Copy(NamedTuple):
    """Elements moved between an operand and an array of its own: their shape, and the operand's strides.

    Rows of the copy are `pitch` elements apart, where it is not 0, which is as many as a row has.
    """

    shape: Shape
    strides: Shape
    pitch: int = 0

    @property
    def room(self) -> Shape:
        """The shape of the array that holds the copy."""
        return (*self.shape[:-1], self.pitch or self.shape[-1])

    @property
    def rows(self) -> tuple[int, int] | None:
        """Rows, and bytes from one to the next, where they are all of one matrix; None where they are not."""
        count, step = self.shape[-2:][0], self.strides[-2:][0]
        for extent, stride in zip(reversed(self.shape[:-2]), reversed(self.strides[:-2]), strict=True):
            if extent > 1 and stride != count * step:
                return None
            count *= extent
        return count, step


class Plan(NamedTuple):
    """The problem of a kernel, whose A is b where `turned`; what is copied before, `out` after."""

    p: GemmProblem
    turned: bool
    copies: Mapping[str, Copy]


def plan_of(product: Product, starts: Mapping[str, int], padded: Sequence[str] = ()) -> Plan:
    """The plan for arrays whose first elements lie `starts` bytes after multiples of 16, or 0.

    Of a and b those `padded` are copied into rows that start at multiples of PITCH_BYTES, in the order of
    TURNED.  Raises UnsupportedError where an operand has to be copied, and copies are not wanted.

    >>> from layoutalg.kernels.calls.arrays import form_of
    >>> f = form_of("numpy", None, "float32", 4, (8, 8), (4, 32))
    >>> g = form_of("numpy", None, "float32", 4, (8, 8), (-32, 4))
    >>> plan = plan_of(find_product(f, g), {})
    >>> str(plan.p), dict(plan.copies)
    ('8 x 8 x 8 f32 NN', {'b': Copy(shape=(8, 8), strides=(4, -32), pitch=0)})
    """
    sides, begin, copies = dict(product.sides), dict(starts), dict[str, Copy]()
    size = DTYPES[ELEMENT[product.kind]].nbytes
    dense = tuple(size * d for d in compact_strides((*product.batch, product.m, product.n)))
    dense_side = Side(dense[:-2], dense[-2], dense[-1])
    sides.setdefault("out", dense_side)

    def copied(name: str, side: Side, rows: int, columns: int) -> Side:
        if not product.copy:
            raise _not_copied(product, name)
        unique = tuple(1 if d == 0 else x for x, d in zip(product.batch, side.batch, strict=True))
        itemsize = product.forms[name].itemsize
        whole_rows = name in ("a", "b") and product.element in BY_TMA
        pitch = -(-columns * itemsize // PITCH_BYTES) * PITCH_BYTES // itemsize if whole_rows else columns
        copies[name] = Copy(
            (*unique, rows, columns), (*side.batch, side.row, side.along), 0 if pitch == columns else pitch
        )
        steps = tuple(itemsize * d for d in compact_strides(copies[name].room))
        begin[name] = 0
        batch = tuple(0 if x == 1 else d for x, d in zip(unique, steps[:-2], strict=True))
        return Side(batch, steps[-2], steps[-1])

    for name, rows in (("a", product.m), ("b", product.n)):
        stored = _majors(product.element, product.k, sides[name], rows, begin.get(name, 0))
        if stored is None or name in padded:
            if stored is None or TURNED.get(product.element, stored[0]) == "k":
                sides[name] = copied(name, sides[name], rows, product.k)
            else:
                sides[name] = copied(name, sides[name].turned, product.k, rows).turned
    turned = _turned(product, sides["out"], begin.get("out", 0), size)
    if turned and product.arithmetic == BLOCKS:  # A alone has factors of rows
        plain = _leading(product.m, product.n, sides["out"], size, begin.get("out", 0))
        turned = None if plain is None else False
    if turned is None:
        if not product.copy:
            raise _not_copied(product, "out")
        out = sides["out"]
        copies["out"] = Copy((*product.batch, product.m, product.n), (*out.batch, out.row, out.along))
        sides["out"], begin["out"], turned = dense_side, 0, False
    m, n = (product.n, product.m) if turned else (product.m, product.n)
    rest = {x: sides[x].turned if turned else sides[x] for x in ("c", "out") if x in sides}
    if "c" in rest and _leading(m, n, rest["c"], size, begin.get("c", 0)) is None:
        rest["c"] = copied("c", rest["c"], m, n)
    lengths = {"n": product.n, "m": product.m, "": 1}
    for name, mode in {**({"bias": product.along} if product.along else {}), **product.scales}.items():
        itemsize = product.forms[name].itemsize
        if sides[name].along != itemsize or begin.get(name, 0) % itemsize:
            if not product.copy:
                raise _not_copied(product, name)
            copies[name], begin[name] = Copy((lengths[mode],), (sides[name].along,)), 0
    return Plan(_problem(product, sides | rest, begin, m, n, turned=turned), turned, copies)


def paddable(product: Product, starts: Mapping[str, int]) -> tuple[str, ...]:
    """The operands that TMA does not read where they lie: "a", "b", both or none.

    >>> from layoutalg.kernels.calls.arrays import form_of
    >>> f = form_of("cupy", 0, "float16", 2, (64, 72), (144, 2))
    >>> g = form_of("cupy", 0, "float16", 2, (72, 65), (130, 2))
    >>> paddable(find_product(f, g), {})
    ('b',)
    """
    names = []
    for name, rows in (("a", product.m), ("b", product.n)):
        side, start = product.sides[name], starts.get(name, 0)
        stored = _majors(product.element, product.k, side, rows, start)
        if stored is None or product.element not in BY_TMA:
            continue
        steps = [start, *side.batch]
        lead = stored[1] * DTYPES[product.element].nbytes
        if any(step % UNIT_BYTES for step in (lead, *steps)):
            names.append(name)
    return tuple(names)


def copied_sets(product: Product, starts: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """The sets of operands whose copies may be worth their time: none, those that TMA does not read where
    they lie, and of elements of TURNED beside them one that does not lie so, or both; of f32 not A alone.

    >>> from layoutalg.kernels.calls.arrays import form_of
    >>> f = form_of("cupy", 0, "float32", 4, (64, 64), (4, 256))
    >>> copied_sets(find_product(f, f, tf32=True), {})
    ((), ('a',))
    """
    if not product.copy:
        return ((),)
    odd, wanted, across = paddable(product, starts), TURNED.get(product.element), list[str]()
    found: list[tuple[str, ...]] = [(), odd]
    for name, rows in (("a", product.m), ("b", product.n)):
        order = _majors(product.element, product.k, product.sides[name], rows, starts.get(name, 0))
        across += [name] if wanted and order is not None and order[0] != wanted else []
    sets = across[:1], across[1:], across
    found += [tuple(sorted({*odd, *x})) for x in sets if wanted == "k" or "b" in x]
    return tuple(dict.fromkeys(found))


def _leading(rows: int, columns: int, side: Side, size: int, start: int) -> int | None:
    """The leading dimension of rows of neighbouring elements; None where an operand does not lie so."""
    if start % size or any(d < 0 or d % size or d > MOST_STEP * size for d in side.batch):
        return None
    if columns > 1 and side.along != size:
        return None
    if rows == 1:
        return -(-columns * size // UNIT_BYTES) * UNIT_BYTES // size  # there is no next row: any will do
    if side.row % size or not columns * size <= side.row <= MOST_LEADING * size:
        return None
    return side.row // size


def _majors(element: str, k: int, side: Side, rows: int, start: int) -> tuple[Major, int] | None:
    """The order of an operand and its leading dimension; of two orders the one with the longest vectors."""
    size = DTYPES[element].nbytes
    along_k = _leading(rows, k, side, size, start)
    across = _leading(k, rows, side.turned, size, start)
    if element in BY_K:  # ldmatrix and wgmma turn elements of 16 bits alone
        across = None
    orders: list[tuple[int, Major, int]] = []
    if along_k is not None:
        orders.append((gcd(UNIT_BYTES // size, along_k, k), "k", along_k))
    if across is not None:
        orders.append((gcd(UNIT_BYTES // size, across, rows), "mn", across))
    if not orders:
        return None
    _, major, leading = max(orders, key=lambda x: x[0])
    return major, leading


def _turned(product: Product, out: Side, start: int, size: int) -> bool | None:
    """Whether the transposed product is computed; None where the result lies in rows neither way."""
    plain = _leading(product.m, product.n, out, size, start)
    other = _leading(product.n, product.m, out.turned, size, start)
    if plain is None or other is None:
        return None if plain is other else plain is None
    most = UNIT_BYTES // size
    return product.n == 1 < product.m or gcd(most, other, product.m) > gcd(most, plain, product.n)


def _problem(
    product: Product, sides: Mapping[str, Side], starts: Mapping[str, int], m: int, n: int, *, turned: bool
) -> GemmProblem:
    """The problem of operands that all can be read: C and D as its rows have them."""
    size, to = DTYPES[product.element].nbytes, DTYPES[ELEMENT[product.kind]].nbytes
    first, second = ("b", "a") if turned else ("a", "b")
    stored = {
        name: _majors(product.element, product.k, sides[name], rows, starts.get(name, 0)) or ("k", product.k)
        for name, rows in ((first, m), (second, n))
    }
    leading = {
        x: _leading(m, n, sides[x], to, starts.get(x, 0)) if x in sides else None for x in ("c", "out")
    }
    modes_of: Mapping[str, Any] = {"": "", "m": "n", "n": "m"} if turned else {x: x for x in ("", "m", "n")}
    along, elements = modes_of[product.along], product.elements[::-1] if turned else product.elements
    four = [(sides[first], size), (sides[second], size), (sides.get("c"), to), (sides["out"], to)]
    modes = [
        StridedMode(x, tuple(0 if side is None else side.batch[i] // unit for side, unit in four))
        for i, x in enumerate(product.batch)
    ]
    vectors = [starts.get(x, 0) for x in ("c", "out", *["bias"] * (along == "n")) if x in sides]
    return gemm_problem(
        m, n, product.k, elements[0], b_dtype=elements[1], result=ELEMENT[product.kind],
        arithmetic=product.arithmetic,
        scale_strides=tuple(
            step // FACTOR_BYTES for x in ("scale_a", "scale_b") for step in sides[x][1:]
        ) if product.arithmetic == BLOCKS else (),
        a_major=stored[first][0], b_major=stored[second][0], lda=stored[first][1], ldb=stored[second][1],
        ldc=leading["c"], ldd=leading["out"],
        epilogue=named_epilogue(
            reads_c="c" in product.forms, bias=bool(along), activation=product.activation,
            along="m" if along == "m" else "n", scales={x: modes_of[y] for x, y in product.scales.items()},
        ),
        batch=[BatchMode(mode.extent, *mode.strides) for mode in reversed(normal_form(modes, lead=3))],
        align_bytes=(
            gcd(UNIT_BYTES, starts.get(first, 0)), gcd(UNIT_BYTES, starts.get(second, 0)),
            gcd(UNIT_BYTES, *vectors),
        ),
    )  # fmt: skip


def _not_copied(product: Product, name: str) -> LayoutAlgError:
    form = product.forms[name]
    if name in ("a", "b") and product.element in BY_K:
        rows = "rows of neighbouring elements along k, as ldmatrix turns elements of 16 bits alone"
    elif name == "bias" or name in product.scales:
        rows = "neighbouring elements"
    elif name == "c":
        rows = "rows of neighbouring elements that lie as the result's do"
    else:
        rows = "rows or columns of neighbouring elements, a step of 0 or more from one to the next"
    return UnsupportedError(
        f"{name} of {product.element} has shape {form.shape} and strides {form.strides} in bytes: a kernel "
        f"takes {rows}; copy=True moves it first"
    )
