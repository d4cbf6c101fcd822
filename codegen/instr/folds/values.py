"""Values of several words, and how they are made, join and end: records of statements.

    sum_s64, prod_s64, max_s64, min_s64     integers of 64 bits, modulo 2^64
    arg           an index carried with its value, as one number of 64 bits: the value, so that what comes
                  first is greater and NaN is the greatest, above the complement of the index
    arg_s64       the same of integers of 64 bits, in four words
    logsumexp     a maximum m and s = sum e^(v - m)
    nll           the same, the element that a label names, and the label: minus the logarithm of a share
    moments       (count, mean, sum of squares from the mean)

A `Fold` is a record of statements (`lanewise`), which are printed and computed.

The idea.  The greatest of numbers made of a value and the complement of its index is the first of the
greatest values, so that the join of `arg` is a maximum of integers: exact, in any order.  The others join in
the order of a kernel, and round as text and effect do alike.

Notes.  In a butterfly of moments lanes differ in the last place: the first one's counts.  A maximum that is
not finite counts as 0 while exponentials are made, so that one of -infinity has a sum of 0, and one of
infinity a sum that is infinite.

Sources: PTX ISA 9.0, 9.7.3.12 (max.NaN), 9.7.3.21 (ex2.approx); T. F. Chan, G. H. Golub,
R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy

from layoutalg.codegen.instr.lanewise import Block, Operation, Value, Writer, number, tree
from layoutalg.codegen.instr.words import Array, each, float_words, floats

Statements: TypeAlias = Mapping[str, Value]
"""Names in order, each with the value that it is set to."""

IGNORED, UNKNOWN = 0xFFFFFFFF, 0xFFFFFFFE
"""Labels of "nll" that name no element; others are one more than an index, and 0 is that of no label."""


def wide(a: Array) -> Array:
    """Numbers of 64 bits from pairs of words, low half first."""
    return a[..., 0].astype(numpy.uint64) | a[..., 1].astype(numpy.uint64) << numpy.uint64(32)


def words_of(numbers: Array) -> Array:
    """The inverse."""
    low = (numbers & numpy.uint64(0xFFFFFFFF)).astype(numpy.uint32)
    return numpy.stack([low, (numbers >> numpy.uint64(32)).astype(numpy.uint32)], axis=-1)


# --- operations on words -------------------------------------------------------------------------------

TOP = 1 << 31
"""The sign of a word."""

_FLOAT_ORDER = """u32 float_order(float x) {
    const u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}"""


def _float_order(a: Array) -> Array:
    bits = float_words(numpy.where(a == 0, numpy.float32(0), a))
    return numpy.where(bits >> 31 == 1, ~bits, bits | numpy.uint32(TOP))


_ADD, _MUL = Operation("{a} + {b}", numpy.add), Operation("{a} * {b}", numpy.multiply)
_MAX = Operation("{a} > {b} ? {a} : {b}", numpy.maximum)
_MIN = Operation("{a} < {b} ? {a} : {b}", numpy.minimum)
_GREATEST = Operation("max({a}, {b})", numpy.maximum)  # of words, where it is one instruction
_NOT = Operation("~{a}", numpy.invert)
_COMES_FIRST = Operation(
    "{a} > {b} || ({a} == {b} && {c} > {d})", lambda a, b, c, d: (a > b) | (a == b) & (c > d)
)
_WORD = Operation("(u32){a}", lambda a: a.astype(numpy.uint32))
_PAIR = Operation("(u64){a} << 32 | {b}", lambda a, b: wide(numpy.stack([b, a], axis=-1)))
_RANK = Operation("(u32){a} ^ 0x80000000u", lambda a: a.astype(numpy.uint32) ^ numpy.uint32(TOP))
_LONG_RANK = Operation("(u64){a} ^ 1ull << 63", lambda a: a.astype(numpy.uint64) ^ numpy.uint64(1 << 63))
_RANK_OF_FLOAT = Operation("float_order({a})", _float_order, uses=(_FLOAT_ORDER,))
_NAN_FIRST = Operation(
    "{a} != {a} ? 0xFFFFFFFFu : {b}", lambda a, b: numpy.where(a != a, numpy.uint32(0xFFFFFFFF), b)
)
_NAMED = Operation("{a} + 1 == {b} ? {c} : 0.0f", lambda a, b, c: numpy.where(a + 1 == b, c, c.dtype.type(0)))


# --- folds ---------------------------------------------------------------------------------------------

_C_FIELD = MappingProxyType(
    {
        "f32": "__uint_as_float({x}[{n}])", "u32": "{x}[{n}]", "u64": "((u64){x}[{m}] << 32 | {x}[{n}])",
        "s64": "(long long)((u64){x}[{m}] << 32 | {x}[{n}])",
    }
)  # fmt: skip
"""A field of a value in C, by its type: a number in its words from number n on."""

_FIELD: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "f32": lambda x: floats(x[..., 0]), "u32": lambda x: x[..., 0], "u64": wide,
        "s64": lambda x: wide(x).view(numpy.int64),
    }
)  # fmt: skip
"""The same of arrays of such words."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A way to join values of several words: the words of one that changes nothing, and statements.

    `fields` have a type and a first word each.  `lift` sets those of a value made of an element x with an
    `index`, or with its rank in an `order`; `join` those of a value that is joined with another one, whose
    fields end in _b; `finish` the `result`, what a value stands for.
    """

    fields: Mapping[str, tuple[str, int]]
    neutral: tuple[int, ...]
    lift: Statements
    join: Statements
    finish: Statements

    @property
    def words(self) -> int:
        """Words of a value: 2 or 4."""
        return len(self.neutral)

    # --- on arrays, whose last axis is that of a value's words -----------------------------------------

    def read(self, words: Array, behind: str = "") -> dict[str, Array]:
        """The fields of values, by their names with something behind them."""
        return {name + behind: _FIELD[kind](words[..., n:]) for name, (kind, n) in self.fields.items()}

    def made(self, statements: Statements, known: Mapping[str, Array]) -> Array:
        """Values whose fields statements set."""
        known, fields = dict(known), dict[str, Array]()
        with numpy.errstate(all="ignore"):
            for name, formula in statements.items():
                (fields if name in self.fields else known)[name] = number(formula, known)
        shape = numpy.broadcast_shapes(*(x.shape for x in fields.values()))
        words = numpy.zeros((*shape, self.words), numpy.uint32)
        for name, (kind, n) in self.fields.items():
            x = fields[name]
            words[..., n] = float_words(x) if kind == "f32" else x & 0xFFFFFFFF
            if kind.endswith("64"):
                words[..., n + 1] = x >> x.dtype.type(32)
        return words

    def effect(self, a: Array, b: Array) -> Array:
        """Values joined."""
        return self.made(self.join, self.read(a) | self.read(b, "_b"))

    # --- in C ------------------------------------------------------------------------------------------

    def named(self, x: str, behind: str = "") -> dict[str, str]:
        """The fields of the value x, by their names with something behind them."""
        return {
            name + behind: _C_FIELD[kind].format(x=x, n=n, m=n + 1) for name, (kind, n) in self.fields.items()
        }

    def lines(self, statements: Statements, to: str, known: Mapping[str, str]) -> list[str]:
        """Set the fields of the value `to` by statements, once all that they read is read."""
        # a field that is read twice has a name, or NVRTC 13 compares and selects each of its words apart
        reads, lines, last = dict[str, str](), list[str](), list[str]()

        def read(name: str) -> str:
            if name in known:
                reads[name] = f"const auto {name} = {known[name]};"
            return name

        for name, x in statements.items():
            own = f"new_{name}" if name in self.fields else name
            lines.append(f"const auto {own} = {WRITER.value(x, read)};")
            if own != name:
                kind, n = self.fields[name]
                last.append(f"{to}[{n}] = {'__float_as_uint' if kind == 'f32' else '(u32)'}({own});")
                last += [f"{to}[{n + 1}] = (u32)((u64){own} >> 32);"] if kind.endswith("64") else []
        return [*reads.values(), *lines, *last]

    @property
    def text(self) -> str:
        """The function that joins two values."""
        lines = self.lines(self.join, "a", self.named("a") | self.named("b", "_b"))
        name = next(name for name, fold in FOLDS.items() if fold is self)
        return f"void join_{name}(u32* a, const u32* b) {{\n{each(1, lines)}}}"

    def uses(self, *statements: Statements) -> tuple[str, ...]:
        """The functions that some statements call, and the join with those that it calls."""
        return (*WRITER.uses([Block(s) for s in (self.join, *statements)]), self.text)


WRITER = Writer("f32", ())
"""The writer of values, whose names `Fold.lines` reads."""


def _integers(kind: str, neutral: int, join: Operation) -> Fold:
    """Integers of 64 bits under a join."""
    words = (neutral & 0xFFFFFFFF, neutral >> 32)
    return Fold({"n": (kind, 0)}, words, {"n": "x"}, {"n": (join, "n", "n_b")}, {"result": "n"})


def ranked(element: str, way: str) -> Statements:
    """An element x in its `order`: a number without a sign, the greatest for the one that is looked for."""
    rank = {"f32": _RANK_OF_FLOAT, "s64": _LONG_RANK}.get(element, _RANK)
    order: Value = (_NOT, "rank") if way == "min" else "rank"
    return {"rank": (rank, "x"), "order": (_NAN_FIRST, "x", order) if element == "f32" else order}


def power_of(x: str) -> Value:
    """The statement of e^(x - base)."""
    return "exp", ("sub", x, "base")


ONE_MORE: Statements = MappingProxyType({"every": ("add", "count", 1.0), "share": ("inverse", "every")})
"""The statements that moments share which have as many elements so far, and are joined with one each."""

WITH_ONE: Statements = MappingProxyType(
    {
        "x": ("where", "there", "element", "mean"),
        "apart": ("sub", "x", "mean"),
        "at": ("fma", "apart", "share", "mean"),
        "count": ("where", "there", "every", "count"), "mean": "at",
        "q": ("fma", "apart", ("sub", "x", "at"), "q"),
    }
)  # fmt: skip
"""Moments joined with an element, or with their own mean and not counted where it is not `there`."""


def moments_of(n: int) -> Statements:
    """The moments of the elements x0 .. x{n - 1}: their mean from the first one on, so that no sum overflows
    where the squares do not."""
    differences: list[Value] = [("sub", f"x{i}", "x0") for i in range(1, n)]
    apart = tree(differences, lambda a, b: ("add", a, b))
    squares: Value = ("mul", "from0", "from0")
    for i in range(1, n):
        squares = "fma", f"from{i}", f"from{i}", squares
    return {
        "middle": ("fma", apart, 1 / n, "x0"),
        **{f"from{i}": ("sub", f"x{i}", "middle") for i in range(n)},
        "count": float(n), "mean": "middle", "q": squares,
    }  # fmt: skip


def _of_both(x: str, joined: str) -> Value:
    """A field of moments: joined, or that of the only part that has elements."""
    return "if_positive", "count_b", ("if_positive", "count", joined, f"{x}_b"), x


_EXPONENTIAL = Fold(
    {"m": ("f32", 0), "s": ("f32", 1)}, (0xFF800000, 0),
    lift={"m": "x", "s": 1.0},
    join={
        "most": ("max", "m", "m_b"),
        "base": ("where", ("lt", ("abs", "most"), math.inf), "most", 0.0), "m": "most",
        "s": ("add", ("mul", "s", power_of("m")), ("mul", "s_b", power_of("m_b"))),
    },
    finish={"result": ("add", ("add", "m", ("log", "s")), "number")},
)  # fmt: skip

FOLDS: Mapping[str, Fold] = MappingProxyType(
    {
        "sum_s64": _integers("u64", 0, _ADD),  # without a sign, since that of C may not overflow
        "prod_s64": _integers("u64", 1, _MUL),
        "max_s64": _integers("s64", 1 << 63, _MAX),
        "min_s64": _integers("s64", (1 << 63) - 1, _MIN),
        "arg": Fold(
            {"n": ("u64", 0)}, (0, 0),
            lift={"n": (_PAIR, "order", (_NOT, "index"))}, join={"n": (_MAX, "n", "n_b")},
            finish={"result": (_NOT, (_WORD, "n"))},
        ),
        "arg_s64": Fold(
            {"n": ("u64", 0), "after": ("u32", 2)}, (0, 0, 0, 0),
            lift={"n": "order", "after": (_NOT, "index")},
            join={
                "other": (_COMES_FIRST, "n_b", "n", "after_b", "after"),
                "n": ("where", "other", "n_b", "n"), "after": ("where", "other", "after_b", "after"),
            },
            finish={"result": (_NOT, "after")},
        ),
        "logsumexp": _EXPONENTIAL,
        "nll": Fold(
            {**_EXPONENTIAL.fields, "named": ("f32", 2), "label": ("u32", 3)}, (*_EXPONENTIAL.neutral, 0, 0),
            lift={**_EXPONENTIAL.lift, "named": (_NAMED, "index", "label", "x"), "label": 0},
            join={
                **_EXPONENTIAL.join, "named": ("add", "named", "named_b"),
                "label": (_GREATEST, "label", "label_b"),
            },
            finish={
                "loss": ("add", ("add", ("sub", "m", "named"), ("log", "s")), "number"),
                "result": (
                    "where", ("eq", "label", IGNORED), 0.0,
                    ("where", ("eq", "label", UNKNOWN), math.nan, "loss"),
                ),
            },
        ),
        "moments": Fold(
            {"count": ("f32", 0), "mean": ("f32", 1), "q": ("f32", 2)}, (0, 0, 0, 0),
            lift={"count": 1.0, "mean": "x", "q": ("sub", "x", "x")},  # NaN of what is not finite
            join={
                "every": ("add", "count", "count_b"), "apart": ("sub", "mean_b", "mean"),
                "share": ("mul", "count_b", ("inverse", "every")),
                "at": ("add", "mean", ("mul", "apart", "share")),
                "between": ("mul", ("mul", "apart", "apart"), ("mul", "count", "share")),
                "spread": ("add", ("add", "q", "q_b"), "between"),
                "count": _of_both("count", "every"), "mean": _of_both("mean", "at"),
                "q": _of_both("q", "spread"),
            },
            finish={"result": ("mul", "q", "number")},
        ),
    }
)  # fmt: skip
"""The folds of values of several words, by name."""
