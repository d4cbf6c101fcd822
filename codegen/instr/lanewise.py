"""Arithmetic on the numbers of a lane, stated once: each statement is printed in C and computed on arrays.

    Block({"c": ("sub", "v", "mean"), "e": ("mul", "c", "c")}, 4)       for each i of 4, of a vector v

        const float c = __fsub_rn(v[i], mean);                          c = v - mean
        e[i] = __fmul_rn(c, c);                                         e = c * c

    Block({"q": ("add", "q", ("tree", "add", "e"))})                    once

        q = __fadd_rn(q, __fadd_rn(__fadd_rn(e[0], e[1]), __fadd_rn(e[2], e[3])));

An operand of one word stands for every i.  A name that is not an operand is a constant of its block, or, if
`arrays` has it, an array of n floats that later blocks read.  Operations are OPERATIONS, the text of each in
C beside its effect on arrays, and those of `KNOWN` beside them; "tree" joins all elements of a vector,
neighbours first.

Numbers are floats (f32), integers modulo 2^32 with a sign or without (s32, u32), predicates (bool), or
doubles of two words (f64).  An operation has a text for each type that it takes; statements are of one type
unless `types` names others, and a constant of NumPy's is of its own.  Floats may be read from packed f16 and
bf16, and rounded to them: then a turn of the loop does both elements of a word.  ("first", "c") is the first
element of a packed word, for every i.

Notes.  Text and effect round alike, so that what is simulated is what is printed; of the hardware's
approximations, and of C's functions, the effect is the nearest float, from which the device may differ by the
`places` of an operation.  Integers divide as Python's do, and by 0 give 0, as NumPy's do.

Sources: PTX ISA 9.0, 9.7.1 (integer instructions), 9.7.3 (floating-point instructions); CUDA C++ Programming
Guide, "Mathematical Functions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy

from layoutalg.codegen.instr.conversions import truncation
from layoutalg.codegen.instr.record import Instr, Operand
from layoutalg.codegen.instr.words import (
    C_TYPE,
    EXP2,
    HIGH,
    LOW,
    MAX_NAN,
    MIN_NAN,
    PACK,
    PACKED,
    RCP,
    RSQRT,
    Array,
    at,
    decode,
    double_at,
    doubles,
    each,
    encode,
    float_literal,
    ref,
    sum_to_odd,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation in C, of floats `a`, `b`, `c`, and its effect on arrays; the same of other types.

    Each text is an expression, "" where there is none: of f32, of integers with a sign, whose words are u32
    in C, of doubles, of integers without (by default those with one), of predicates.  `helpers` are the
    functions that a text may call: `uses` that of floats, `whole` those of integers.  Arrays are float32,
    int32, uint32, float64 or bool.  The type is that of argument `of`, and of the result if `result` names
    none.  Of floats the device is at most `places` units of the last place off the effect.

    `plain` is the operation as C writes it, of any type, with {f} for the f behind a function of floats; its
    value is `exact`, on arrays of float64 or int64.
    """

    text: str
    effect: Callable[..., Array]
    integers: str = ""
    doubles: str = ""
    uses: tuple[str, ...] = ()
    plain: str = ""
    exact: Callable[..., Array] | None = None
    unsigned: str = ""
    predicates: str = ""
    whole: tuple[str, ...] = ()
    result: str = ""
    of: int = 0
    places: int = 0

    def text_of(self, kind: str) -> str:
        """The text of a type, "" where the operation has none."""
        texts = {"f32": self.text, "f64": self.doubles, "bool": self.predicates, "s32": self.integers}
        return (self.unsigned or self.integers) if kind == "u32" else texts.get(kind, "")

    def helpers(self, kind: str) -> tuple[str, ...]:
        """The functions that the text of a type calls."""
        return self.uses if kind == "f32" else self.whole if kind in ("s32", "u32") else ()


def _fma(a: Array, b: Array, c: Array) -> Array:
    """Rounded once; of doubles, where the hardware rounds once too, twice."""
    if a.dtype != numpy.float32:
        return a * b + c
    product, addend = a.astype(numpy.float64) * b.astype(numpy.float64), c.astype(numpy.float64)
    return sum_to_odd(*numpy.broadcast_arrays(product, addend)).astype(numpy.float32)


def _infix(sign: str, rounded: str, effect: Callable[..., Array], doubles: str = "") -> Operation:
    """An operation that C writes between its operands."""
    plain = f"{{a}} {sign} {{b}}"
    return Operation(f"{rounded}({{a}}, {{b}})", effect, plain if sign != "/" else "", doubles, plain=plain)


def _best(sign: str, function: Callable[[Array, Array], Array]) -> Operation:
    """The maximum (`sign` <) or the minimum: NaN where one is."""

    def exact(a: Array, b: Array) -> Array:
        return numpy.where((a < b if sign == "<" else b < a) | (b != b), b, a)

    name, helper = ("max", MAX_NAN) if sign == "<" else ("min", MIN_NAN)
    integers = f"static_cast<u32>({name}(static_cast<int>({{a}}), static_cast<int>({{b}})))"
    plain = f"{{a}} {sign} {{b}} || {{b}} != {{b}} ? {{b}} : {{a}}"
    ends = f"{name}({{a}}, {{b}})"
    return Operation(f"{name}_nan({{a}}, {{b}})", function, integers, "", (helper,), plain, exact, ends)


def _function(
    name: str, exact: Callable[..., Array], text: str = "", effect: Callable[..., Array] | None = None,
    uses: tuple[str, ...] = (), places: int = 0,
) -> Operation:  # fmt: skip
    """A function of C's library; its effect on floats, and its text, unless others are given."""

    def nearest(a: Array) -> Array:
        return exact(a.astype(numpy.float64)).astype(numpy.float32)

    own = f"{name}{{f}}({{a}})"
    return Operation(
        text or own.format(f="f", a="{a}"),
        effect or nearest,
        uses=uses,
        plain=own,
        exact=exact,
        places=places,
    )


_INT = "static_cast<int>({%s})"
_SIGNED = {"a": _INT % "a", "b": _INT % "b"}


def _compared(sign: str, effect: Callable[[Array, Array], Array]) -> Operation:
    """A comparison: false of NaN, but for !=."""
    plain = f"{{a}} {sign} {{b}}"
    signed = plain if sign in ("==", "!=") else plain.format(**_SIGNED)
    return Operation(plain, effect, signed, plain=plain, unsigned=plain, result="bool")


def _bitwise(sign: str, effect: Callable[..., Array]) -> Operation:
    """An operation on the bits of integers, or on predicates."""
    words = f"{{a}} {sign} {{b}}" if sign != "~" else "~{a}"
    logical = {"&": "{a} && {b}", "|": "{a} || {b}", "^": "{a} != {b}", "~": "!{a}"}[sign]
    return Operation("", effect, words, predicates=logical)


def _to(result: str, of_float: str, of_signed: str, words: str, uses: tuple[str, ...] = ()) -> Operation:
    """The conversion of a number or a predicate to a type, as `conversions` defines it."""
    kind = NUMPY[result]

    def effect(a: Array) -> Array:
        if a.dtype == numpy.float32 and result != "f32":
            ends = numpy.iinfo(kind)
            inside = numpy.clip(numpy.trunc(a.astype(numpy.float64)), ends.min, ends.max)
            return numpy.where(numpy.isnan(a), 0, inside).astype(kind)
        return a.astype(kind)

    one, zero = ("1.0f", "0.0f") if result == "f32" else ("1u", "0u")
    predicates = f"{{a}} ? {one} : {zero}"
    return Operation(
        of_float, effect, of_signed, "", uses, unsigned=words, predicates=predicates, result=result
    )


def _normal(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of floats, rounded once; results below the normal floats are 0."""

    def rounded(a: Array) -> Array:
        result = function(a.astype(numpy.float64)).astype(numpy.float32)
        return numpy.where(numpy.abs(result) < numpy.finfo(numpy.float32).tiny, result * 0, result)

    return rounded


def _exp(a: Array) -> Array:
    return _normal(numpy.exp2)(a * numpy.float32(1.4426950408889634))


def _rcp(a: Array) -> Array:
    small = numpy.abs(a) < numpy.finfo(numpy.float32).tiny
    return _normal(numpy.reciprocal)(numpy.where(small, a * 0, a))


# a division has a slow path, behind whose branch the compiler moves the loads that are to be in flight; a
# rough reciprocal with a step of Newton's has none, and is exact for powers of two
_INVERSE = """float inverse(float x) {
    const float rough = rcp_approx(x);
    return __fmaf_rn(rough, __fmaf_rn(-x, rough, 1.0f), rough);
}"""


def _inverse(x: Array) -> Array:
    rough, one = _rcp(x), numpy.ones(1, numpy.float32)
    return _fma(rough, _fma(-x, rough, one), rough)


_FLOOR_DIV = """u32 floor_div(int a, int b) {
    if (b == 0 || b == -1) return b ? 0u - static_cast<u32>(a) : 0u;
    return static_cast<u32>(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}"""
_FLOOR_MOD = """u32 floor_mod(int a, int b) {
    if (b == 0 || b == -1) return 0u;
    const int rest = a % b;
    return static_cast<u32>(rest != 0 && (a < 0) != (b < 0) ? rest + b : rest);
}"""


def _whole(function: Callable[[Array, Array], Array], text: str, helper: str, words: str) -> Operation:
    """A quotient or a remainder of integers, rounded down; by 0 it is 0, and -2^31 by -1 wraps."""
    return Operation("", function, text.format(**_SIGNED), unsigned=words, whole=(helper,))


_erf = numpy.frompyfunc(math.erf, 1, 1)
_erfc = numpy.frompyfunc(math.erfc, 1, 1)


def _normcdf(x: Array) -> Array:
    """The normal distribution function; off by x^2 2^-53 of it, since the argument of erfc is rounded."""
    return 0.5 * numpy.asarray(_erfc(-x / math.sqrt(2.0)), dtype=numpy.float64)


def _erf_of(x: Array) -> Array:
    return numpy.asarray(_erf(x), dtype=numpy.float64)


def _rsqrt(a: Array) -> Array:
    return 1 / numpy.sqrt(a)


NUMPY: Mapping[str, Any] = MappingProxyType(
    {"f32": numpy.float32, "s32": numpy.int32, "u32": numpy.uint32, "bool": numpy.bool_}
)
"""The types of numbers, with the arrays that effects compute with."""

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": _infix("+", "__fadd_rn", numpy.add, "__dadd_rn({a}, {b})"),
        "sub": _infix("-", "__fsub_rn", numpy.subtract),
        "mul": _infix("*", "__fmul_rn", numpy.multiply, "{a} * {b}"),
        "div": _infix("/", "__fdiv_rn", numpy.divide),
        "fma": Operation(
            "__fmaf_rn({a}, {b}, {c})", _fma, "{a} * {b} + {c}", "__fma_rn({a}, {b}, {c})",
            plain="fma{f}({a}, {b}, {c})",
        ),
        "max": _best("<", numpy.maximum),
        "min": _best(">", numpy.minimum),
        "neg": Operation("-({a})", numpy.negative, "0u - {a}", plain="-{a}"),
        "widen": Operation("{a}", lambda a: a),
        "abs": replace(
            _function("fabs", numpy.abs, effect=numpy.abs),
            integers=f"{_INT % 'a'} < 0 ? 0u - {{a}} : {{a}}", unsigned="{a}",
        ),
        "sqrt": _function("sqrt", numpy.sqrt, "__fsqrt_rn({a})", numpy.sqrt),
        "reciprocal": Operation("__frcp_rn({a})", numpy.reciprocal, plain="1 / {a}"),
        "rcp": Operation(
            "rcp_approx({a})", _rcp, uses=(RCP,), plain="1 / {a}", exact=numpy.reciprocal, places=1
        ),
        "rsqrt": _function("rsqrt", _rsqrt, "rsqrt_approx({a})", uses=(RSQRT,), places=2),
        "exp2": _function("exp2", numpy.exp2, "exp2_approx({a})", _normal(numpy.exp2), (EXP2,), 2),
        "exp": _function("exp", numpy.exp, "exp2_approx(__fmul_rn({a}, 1.44269502f))", _exp, (EXP2,), 2),
        "log": _function("log", numpy.log, places=1),
        "log2": _function("log2", numpy.log2, places=1),
        "log1p": _function("log1p", numpy.log1p, places=1),
        "tanh": _function("tanh", numpy.tanh, places=2),
        "sin": _function("sin", numpy.sin, places=2),
        "cos": _function("cos", numpy.cos, places=2),
        "erf": _function("erf", _erf_of, places=2),
        "normcdf": _function("normcdf", _normcdf, places=5),
        "lt": _compared("<", numpy.less),
        "le": _compared("<=", numpy.less_equal),
        "eq": _compared("==", numpy.equal),
        "ne": _compared("!=", numpy.not_equal),
        "where": Operation(
            "{a} ? {b} : {c}", numpy.where, "{a} ? {b} : {c}", predicates="{a} ? {b} : {c}",
            plain="{a} ? {b} : {c}", of=1,
        ),
        "and": _bitwise("&", numpy.bitwise_and),
        "or": _bitwise("|", numpy.bitwise_or),
        "xor": _bitwise("^", numpy.bitwise_xor),
        "not": _bitwise("~", numpy.invert),
        "shl": Operation("", numpy.left_shift, "{a} << {b}"),
        "shr": Operation(
            "", numpy.right_shift, f"static_cast<u32>({_INT % 'a'} >> {{b}})", unsigned="{a} >> {b}"
        ),
        "floordiv": _whole(
            numpy.floor_divide, "floor_div({a}, {b})", _FLOOR_DIV, "{b} == 0u ? 0u : {a} / {b}"
        ),
        "mod": _whole(numpy.remainder, "floor_mod({a}, {b})", _FLOOR_MOD, "{b} == 0u ? 0u : {a} % {b}"),
        "to_f32": _to("f32", "{a}", f"__int2float_rn({_INT % 'a'})", "__uint2float_rn({a})"),
        **{
            f"to_{kind}": _to(kind, f"truncated_{kind}({{a}})", "{a}", "{a}", (truncation("float", kind),))
            for kind in ("s32", "u32")
        },
    }
)  # fmt: skip
"""Every operation by name."""


T = TypeVar("T")
Value: TypeAlias = "str | float | int | numpy.generic | tuple[Any, ...]"
"""The name of an operand or of a statement, a number, or an operation, or its name, and its values."""

NARROW: Mapping[str, str] = MappingProxyType({pair: element for element, pair in PACKED.items()})
"""The element type of packed words."""


def _if_positive(a: Array, b: Array, c: Array) -> Array:
    return numpy.where(a > 0, b, c)


def _joined(high: Array, low: Array) -> Array:
    return decode(numpy.concatenate([low, high], axis=1), "f64")


KNOWN: Mapping[str, Operation] = MappingProxyType(
    {
        **OPERATIONS,
        "inverse": Operation("inverse({a})", _inverse, uses=(RCP, _INVERSE)),
        "if_positive": Operation("{a} > 0.0f ? {b} : {c}", _if_positive),
        "rsqrt_rn": Operation(
            "__frsqrt_rn({a})", lambda a: (1 / numpy.sqrt(a.astype("f8"))).astype("f4")
        ),
        "double": Operation("", _joined, doubles="__hiloint2double({a}, {b})"),
    }
)  # fmt: skip


def _operation(op: str | Operation) -> Operation:
    return KNOWN[op] if isinstance(op, str) else op


class Block(NamedTuple):
    """Statements in order, each a name and the value that it is set to, for each i of n, or (n = 0) once."""

    statements: Mapping[str, Value]
    n: int = 0


def tree(parts: Sequence[T], join: Callable[[T, T], T]) -> T:
    """Parts joined pair by pair, neighbours first: the shape of every sum within a lane.

    >>> tree("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    while len(parts) > 1:
        pairs = [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, parts[-1]] if len(parts) % 2 else pairs
    return parts[0]


def lanewise(
    name: str, operands: Sequence[Operand], *blocks: Block,
    arrays: Mapping[str, int] = MappingProxyType({}), element: str = "f32",
    types: Mapping[str, str] = MappingProxyType({}),
) -> Instr:  # fmt: skip
    """The instruction that runs blocks of statements on operands; `arrays` have their lengths.

    `element` is the type that is computed with, f32, f64, s32 or u32; operands are of it unless they are
    packed, or `types` says another.
    """
    kinds = {o.name: types.get(o.name, element) for o in operands}
    typed = tuple(
        replace(o, element=o.element or ("f32" if kinds[o.name] == "f32" else "")) for o in operands
    )
    writer = Writer(element, typed, arrays, types)
    n = max(block.n for block in blocks) or 1

    def effect(machine: Any, group: Any, *inputs: Array) -> Any:
        read = zip((o for o in typed if o.role != "out"), inputs, strict=True)
        lanes = max(map(len, inputs)) if group is None else group.lanes
        with numpy.errstate(all="ignore"):
            known = {o.name: _read(o, words, kinds[o.name], n) for o, words in read}
            for block in blocks:
                for target, value in block.statements.items():
                    known[target] = number(value, known)
            results = [
                _written(o, known[o.name], kinds[o.name], (lanes, n))
                for o in typed
                if o.role in ("inout", "out")
            ]
        return results[0] if len(results) == 1 else tuple(results)

    return Instr(name, typed, writer.helper(name, blocks), effect, uses=writer.uses(blocks))


def _read(o: Operand, words: Array, element: str, n: int) -> Array:
    """The numbers of an operand: n of a packed one."""
    if o.element in NARROW:
        return decode(words, NARROW[o.element])[:, :n].astype(numpy.float32)
    if element == "f64":
        return words if o.role == "value" else decode(words, "f64")
    return numpy.ascontiguousarray(words).view(NUMPY[element])


def _written(o: Operand, numbers: Array, element: str, shape: tuple[int, int]) -> Array:
    """The words of an operand that is set to numbers, or to one for all."""
    lanes, n = shape
    if o.element in NARROW:
        padded = numpy.pad(numpy.broadcast_to(numbers, shape), ((0, 0), (0, n % 2)))
        return encode(padded.astype(numpy.float64), NARROW[o.element])  # where NaN becomes a quiet one
    numbers = numpy.broadcast_to(numbers, (lanes, o.words // 2 if element == "f64" else o.words))
    if element == "f64":
        return encode(numbers, element)
    return numpy.ascontiguousarray(numbers, NUMPY[element]).view(numpy.uint32)


def number(value: Value, known: Mapping[str, Array]) -> Array:
    """A value on arrays, of names that are `known` and of numbers: ints modulo 2^32, NumPy's of their type.

    >>> number(("add", "x", 1.0), {"x": numpy.float32([[2.0]])}).tolist()
    [[3.0]]
    """
    match value:
        case ("tree", op, x):
            return tree([known[x][:, i : i + 1] for i in range(known[x].shape[1])], KNOWN[op].effect)
        case ("first", x):
            return known[x][:, :1]
        case (op, *args):
            return _operation(op).effect(*(number(x, known) for x in args))
        case str():
            return known[value]
        case numpy.generic():
            return numpy.array([[value]])
        case int():
            return numpy.array([[value % (1 << 32)]], numpy.uint32)
        case _:
            return numpy.array([[value]], numpy.float32)


class Writer:
    """The text of statements on operands and arrays, of numbers of type `element` or of `types`."""

    def __init__(
        self, element: str, operands: Sequence[Operand], arrays: Mapping[str, int] = MappingProxyType({}),
        types: Mapping[str, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.element, self.operands, self.arrays, self.types = element, operands, arrays, types
        self.words = {o.name: o.words for o in operands if o.role != "value"} | dict(arrays)
        self.packed = {o.name: NARROW[o.element] for o in operands if o.element in NARROW}

    def helper(self, name: str, blocks: Sequence[Block]) -> str:
        """The function of an instruction."""
        parameters = ", ".join(map(_parameter, self.operands))
        return f"void {name}({parameters}) {{\n{''.join(map(self._block, blocks))}}}"

    def kind(self, value: Value) -> str:
        """The type of a value."""
        match value:
            case str():
                return self.types.get(value, self.element)
            case numpy.generic():
                return next(kind for kind, made in NUMPY.items() if isinstance(value, made))
            case (op, *_) if op not in ("tree", "first", "call"):
                return _operation(op).result or self._computed(value)
        return self.element

    def _computed(self, value: tuple[Any, ...]) -> str:
        """The type that an operation computes with."""
        return self.kind(value[1 + _operation(value[0]).of])

    def uses(self, blocks: Sequence[Block]) -> tuple[str, ...]:
        """The functions that the text calls."""
        found = list[str]()
        for block in blocks:
            for target, value in block.statements.items():
                found += [PACK[self.packed[target]]] if target in self.packed else []
                found += self._uses(value, self._step(block))
        return tuple(dict.fromkeys(found))

    def _uses(self, value: Value, step: int) -> Iterator[str]:
        match value:
            case ("tree", op, _):
                yield from KNOWN[op].uses
            case ("first", x):
                yield LOW[self.packed[x]]
            case (op, *args):
                for x in args:
                    yield from self._uses(x, step)
                yield from _operation(op).helpers(self._computed(value))
            case str() if value in self.packed:
                yield from (half[self.packed[value]] for half in (LOW, HIGH)[:step])

    def _step(self, block: Block) -> int:
        """Elements of a turn: both of a word where a vector is packed."""
        names = (x for target, value in block.statements.items() for x in (target, *_names(value)))
        return 2 if block.n > 1 and not self.packed.keys().isdisjoint(names) else 1

    def _block(self, block: Block) -> str:
        n, step, statements = block.n or 1, self._step(block), block.statements
        if self.element == "f64":
            (value,) = statements.values()
            return doubles(n, lambda i: self.value(value, partial(self._double, i=i)))
        lines = list[str]()
        for is_set, group in groupby(statements.items(), lambda one: one[0] in self.words):
            said = [line for x, value in group for line in self._statement(x, value, n, step)]
            constants = [", ".join(said)] if block.n else said
            lines += [f"{x};" for x in said] if is_set else [f"const float {x};" for x in constants]
        own = ((x, words) for x, words in self.arrays.items() if x in statements)
        arrays = "".join(f"    float {x}{f'[{words}]' if words > 1 else ''};\n" for x, words in own)
        return arrays + each(n // step, lines)

    def _statement(self, target: str, value: Value, n: int, step: int) -> list[str]:
        """A target set to a value, for each element of a turn."""
        values = [self.value(value, partial(self._read, e=e, n=n, step=step)) for e in range(step)]
        words = [self._word(target, e, n, step) for e in range(step)]
        match value:
            case ("add" | "mul" as op, x, other) if self.element in ("s32", "u32") and x == target:
                rest = self.value(other, partial(self._read, e=0, n=n, step=step))
                return [f"{words[0]} {'+' if op == 'add' else '*'}= {rest}"]
        if target in self.packed:
            low, high = (*values, "0.0f")[:2]
            return [f"{words[0]} = pack_{PACKED[self.packed[target]]}({low}, {high})"]
        return [f"{word} = {x}" for word, x in zip(words, values, strict=True)]

    def _word(self, name: str, e: int, n: int, step: int) -> str:
        """The word that has element e of a turn."""
        words = self.words.get(name, 1)
        if words == 1:
            return name
        if step == 1 or name in self.packed:
            return f"{name}[i]"
        if n == step:
            return f"{name}[{e}]"
        return f"{name}[{step} * i + {e}]" if e else f"{name}[{step} * i]"

    def _read(self, name: str, e: int, n: int, step: int) -> str:
        """Element e of a turn."""
        word = self._word(name, e, n, step)
        return f"{'high' if e else 'low'}_{self.packed[name]}({word})" if name in self.packed else word

    def _double(self, name: str, i: int) -> str:
        """Double i of an operand, or the only one; a word of a scalar."""
        return double_at(name, i if self.words[name] > 2 else 0) if name in self.words else name

    def value(self, value: Value, read: Callable[[str], str] = str) -> str:
        """An expression, whose names are printed as `read` says."""
        match value:
            case str():
                return read(value)
            case numpy.generic():
                return self.value(value.item(), read)
            case int():
                return f"{value % (1 << 32)}u"
            case float():
                return float_literal(value)
            case ("tree", op, x):
                parts = [at(x, i, self.words[x]) for i in range(self.words[x])]
                return tree(parts, lambda a, b: KNOWN[op].text.format(a=a, b=b))
            case ("first", x):
                return f"low_{self.packed[x]}({x})"
            case ("call", function, *args):
                return f"{function}({', '.join(self.value(x, read) for x in args)})"
        own, args = _operation(value[0]), [self.value(x, read) for x in value[1:]]
        return own.text_of(self._computed(value)).format(**dict(zip("abcd", args, strict=False)))


def _names(value: Value) -> Iterator[str]:
    """The operands and constants that a value has an element of, for each i."""
    match value:
        case ("first" | "tree", *_):
            pass
        case ("call", _, *args) | (_, *args):
            for x in args:
                yield from _names(x)
        case str():
            yield value


def _parameter(operand: Operand) -> str:
    """An operand as a helper declares it."""
    if operand.role == "value":
        return f"{C_TYPE[operand.element]} {operand.name}"
    return ref(operand.name, operand.words, operand.element, const=operand.role == "in")
