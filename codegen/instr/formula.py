"""ScalarFunction arithmetic on registers: a formula of values, as one instruction for a vector of n elements.

The idea.  A formula is a tree: inputs are registers, a vector of them or one that stands for all elements,
words that the kernel is given, and numbers; what is above them computes with floats, or with integers modulo
2^32.

    x * alpha + y           d[i] = fma(x[i], alpha, y[i])
    exp(x - m)              d[i] = e^(x[i] - m)                  m is one value for all
    cast(max(x, 0), f16)    d packed, two elements per word

The tree is printed statement by statement and computed on arrays operation by operation, each rounded as the
hardware rounds it.  A product that is added to is one fused multiply-add.

Notes.  f16 and bf16 are read as the floats that they are; a cast to them rounds to the nearest, ties to even,
and is the last step.  exp, exp2, tanh and rsqrt are the hardware's approximations: the simulator takes the
nearest float instead, so that results agree within units of the last place, not to the bit.  A maximum or a
minimum is NaN when a value is.

Sources: PTX ISA 9.0, 9.7.3 (floating-point instructions); CUDA C++ Programming Guide, "Mathematical
Functions".
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen.instr.arith import PACK_TEXT, sum_to_odd
from layoutalg.codegen.instr.packing import Array, decode, encode
from layoutalg.codegen.instr.record import Instr, Operand, Requires, into, out, value
from layoutalg.errors import UnknownNameError, UnsupportedError

NARROW = ("f16", "bf16")
"""Types of two elements per word, which are computed with as floats."""


@dataclass(frozen=True, slots=True)
class Input:
    """Register operand number `index`: a value per element, or one for all of them (`single`)."""

    index: int
    element: str
    single: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """Operand number `index` of the words that the kernel is given, such as a parameter."""

    index: int
    element: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number, rounded to the nearest of its type."""

    value: float
    element: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation of OPERATIONS on formulas of one type."""

    op: str
    args: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Floats rounded to a narrower type: the last step of a formula."""

    arg: Formula
    element: str


Formula: TypeAlias = Input | Word | Number | Apply | Cast


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation is in C, of floats `a`, `b`, `c`, and on arrays of float32; the same of integers.

    `text` is an expression, or a statement that sets {d}; "" where there is none.
    """

    text: str
    effect: Callable[..., Array]
    integers: str = ""
    integer_effect: Callable[..., Array] | None = None
    sm: int = 70


def _fma(a: Array, b: Array, c: Array) -> Array:
    product, addend = a.astype(numpy.float64) * b.astype(numpy.float64), c.astype(numpy.float64)
    return sum_to_odd(*numpy.broadcast_arrays(product, addend)).astype(numpy.float32)


def _nearest(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of floats, rounded once; results below the normal floats are 0."""

    def rounded(a: Array) -> Array:
        found = function(a.astype(numpy.float64)).astype(numpy.float32)
        return numpy.where(numpy.abs(found) < numpy.finfo(numpy.float32).tiny, found * 0, found)

    return rounded


def _exp(a: Array) -> Array:
    return _nearest(numpy.exp2)(a * numpy.float32(1.4426950408889634))


def _signed(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a.view(numpy.int32), b.view(numpy.int32)).view(numpy.uint32)


def _ptx(ptx: str) -> str:
    """A statement of one PTX instruction."""
    names = ", ".join(f"%{i + 1}" for i in range(2 if "max" in ptx or "min" in ptx else 1))
    given = '"f"({a}), "f"({b})' if "%2" in names else '"f"({a})'
    return f'asm("{ptx} %0, {names};" : "=f"({{d}}) : {given});'


_LOG2_E = "__uint_as_float(0x3FB8AA3Bu)"

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": Operation("__fadd_rn({a}, {b})", numpy.add, "{a} + {b}", numpy.add),
        "sub": Operation("__fsub_rn({a}, {b})", numpy.subtract, "{a} - {b}", numpy.subtract),
        "mul": Operation("__fmul_rn({a}, {b})", numpy.multiply, "{a} * {b}", numpy.multiply),
        "div": Operation("__fdiv_rn({a}, {b})", numpy.divide),
        "fma": Operation("__fmaf_rn({a}, {b}, {c})", _fma, "{a} * {b} + {c}", lambda a, b, c: a * b + c),
        "max": Operation(
            _ptx("max.NaN.f32"), numpy.maximum, "static_cast<u32>(max(static_cast<int>({a}), "
            "static_cast<int>({b})))", _signed(numpy.maximum), sm=80,
        ),
        "min": Operation(
            _ptx("min.NaN.f32"), numpy.minimum, "static_cast<u32>(min(static_cast<int>({a}), "
            "static_cast<int>({b})))", _signed(numpy.minimum), sm=80,
        ),
        "neg": Operation("-{a}", numpy.negative, "0u - {a}", lambda a: numpy.uint32(0) - a),
        "widen": Operation("{a}", lambda a: a),
        "abs": Operation("fabsf({a})", numpy.abs),
        "sqrt": Operation("__fsqrt_rn({a})", numpy.sqrt),
        "reciprocal": Operation("__frcp_rn({a})", numpy.reciprocal),
        "rsqrt": Operation(_ptx("rsqrt.approx.f32"), lambda a: (1 / numpy.sqrt(a.astype("f8"))).astype("f4")),
        "exp2": Operation(_ptx("ex2.approx.ftz.f32"), _nearest(numpy.exp2)),
        "exp": Operation(_ptx("ex2.approx.ftz.f32").replace("{a}", f"__fmul_rn({{a}}, {_LOG2_E})"), _exp),
        "tanh": Operation("tanhf({a})", lambda a: numpy.tanh(a.astype("f8")).astype("f4")),
    }
)  # fmt: skip
"""Every operation by name."""


def element_of(formula: Formula) -> str:
    """The type of a formula's elements, f16 and bf16 only of an input or a cast.

    Raises UnsupportedError where types differ, UnknownNameError for an operation.

    >>> element_of(Apply("add", (Input(0, "f16"), Number(1.0, "f32"))))
    'f32'
    """
    match formula:
        case Cast(arg, element):
            if element not in NARROW or computed(arg) != "f32":
                raise UnsupportedError(f"cast from {element_of(arg)} to {element}: from f32 to f16 or bf16")
            return element
        case Apply(op, args):
            if op not in OPERATIONS:
                raise UnknownNameError("operation", op, OPERATIONS)
            kinds = {computed(a) for a in args}
            if len(kinds) > 1 or (kinds == {"s32"} and not OPERATIONS[op].integers):
                needed = "one type" if len(kinds) > 1 else "f32"
                raise UnsupportedError(f"{op} of {' and '.join(sorted(kinds))}: {needed} is needed")
            return kinds.pop()
        case _:
            return formula.element


def computed(formula: Formula) -> str:
    """The type that a formula's elements are computed with: f32 or s32.

    Raises UnsupportedError for other types, and for a cast that is not the last step.

    >>> computed(Input(0, "bf16"))
    'f32'
    """
    element = element_of(formula)
    if isinstance(formula, Cast):
        raise UnsupportedError(f"a cast to {element} is the last step; keep the floats to go on")
    if element not in ("f32", "s32", *NARROW):
        raise UnsupportedError(f"arithmetic on {element}: f32, f16, bf16 and s32 are accepted")
    return "f32" if element in NARROW else element


def fused(formula: Formula) -> Formula:
    """The formula with every product that is added to as a multiply-add.

    >>> a, b = Input(0, "f32"), Input(1, "f32")
    >>> fused(Apply("add", (b, Apply("mul", (a, a))))).op
    'fma'
    """
    match formula:
        case Apply(op, args):
            args = tuple(map(fused, args))
            for i, other in ((0, 1), (1, 0)):
                if op == "add" and isinstance(inner := args[i], Apply) and inner.op == "mul":
                    return Apply("fma", (*inner.args, args[other]))
            return Apply(op, args)
        case Cast(arg, element):
            return Cast(fused(arg), element)
        case _:
            return formula


def words_of_vector(n: int, element: str) -> int:
    """32-bit words of n elements; two of a narrow type share one, and one has its own.

    Raises UnsupportedError for an odd number of several.

    >>> words_of_vector(8, "f16"), words_of_vector(1, "bf16")
    (4, 1)
    """
    if element in NARROW:
        if n % 2 and n != 1:
            raise UnsupportedError(f"{n} elements of {element}: whole words, or one element, are accepted")
        return -(-n // 2)
    return n


@functools.cache
def elementwise(formula: Formula, n: int) -> Instr:
    """d[i] = formula for the n elements of a vector: operands d, the inputs, then the given words.

    Raises what `element_of` and `words_of_vector` raise.

    >>> x, y = Input(0, "f32"), Input(1, "f32")
    >>> elementwise(Apply("add", (Apply("mul", (x, Word(0, "f32"))), y)), 4).text.splitlines()[3].strip()
    'const float t0 = __fmaf_rn(__uint_as_float(a[i]), __uint_as_float(s0), __uint_as_float(b[i]));'
    """
    element = element_of(formula)
    formula = fused(formula)
    inputs, given = _leaves(formula)
    writer = _Writer(formula, n, element, inputs)
    name = f"map{n}_{'_'.join(writer.ops) or 'move'}_{sha256(repr((formula, n)).encode()).hexdigest()[:6]}"
    regs = [(_name(i), _words(x, n), x) for i, x in enumerate(inputs)]
    refs = [f"u32{'&' if words_of_vector(n, element) == 1 else '*'} d"]
    refs += [f"const u32{'&' if words == 1 else '*'} {x}" for x, words, _ in regs]
    refs += [f"u32 s{w.index}" for w in given]
    operands: list[Operand] = [out("d", words_of_vector(n, element))]
    operands += [into(x, words) for x, words, _ in regs] + [value(f"s{w.index}") for w in given]

    def effect(machine: Any, group: Any, *args: Array) -> Array:
        with numpy.errstate(all="ignore"):
            found = _evaluated(formula, args[: len(inputs)], args[len(inputs) :], n)
            kind = "f32" if element in NARROW else element
            values = numpy.broadcast_to(found, (group.lanes, n))
            if element in NARROW and n == 1:
                values = numpy.pad(values, ((0, 0), (0, 1)))
            return encode(values, element) if kind == "f32" else numpy.ascontiguousarray(values)

    text = f"void {name}({', '.join(refs)}) {{\n{writer.body()}}}"
    return Instr(name, tuple(operands), text, effect, Requires(sm=writer.sm))


def _name(index: int) -> str:
    """Of an operand, beside d, the result, and i, which counts elements."""
    return "abc"[index] if index < 3 else f"x{index}"


def _leaves(formula: Formula) -> tuple[tuple[Input, ...], tuple[Word, ...]]:
    inputs: dict[int, Input] = {}
    given: dict[int, Word] = {}

    def visit(f: Formula) -> None:
        match f:
            case Input(index):
                inputs[index] = f
            case Word(index):
                given[index] = f
            case Apply(_, args):
                for a in args:
                    visit(a)
            case Cast(arg):
                visit(arg)

    visit(formula)
    for found in (inputs, given):
        if sorted(found) != list(range(len(found))):
            raise UnsupportedError(f"a formula of the operands {sorted(found)}: they count from 0")
    return tuple(inputs[i] for i in range(len(inputs))), tuple(given[i] for i in range(len(given)))


def _words(x: Input, n: int) -> int:
    return words_of_vector(1 if x.single else n, x.element)


def _evaluated(f: Formula, inputs: tuple[Array, ...], given: tuple[Array, ...], n: int) -> Array:
    """float32 or uint32 of shape (lanes, n) or (lanes, 1)."""
    match f:
        case Input(index, element, single):
            return _typed(inputs[index], element)[:, : 1 if single else n]
        case Word(index, element):
            return _typed(given[index], element)[:, :1]
        case Number(number, element):
            return numpy.array([[number]], numpy.float32) if element == "f32" else _modular(number)
        case Cast(arg, _):
            return _evaluated(arg, inputs, given, n)
        case Apply(op, args):
            parts = [_evaluated(a, inputs, given, n) for a in args]
            known = OPERATIONS[op]
            integers = computed(f) == "s32"
            function = known.integer_effect if integers and known.integer_effect else known.effect
            found: Array = function(*parts)
            return found


def _typed(words: Array, element: str) -> Array:
    return words if element == "s32" else decode(words, element).astype(numpy.float32)


def _modular(number: float) -> Array:
    return numpy.array([[int(number) % (1 << 32)]], numpy.uint32)


class _Writer:
    """The lines of a helper: a loop over elements, or over words where two elements share one."""

    def __init__(self, formula: Formula, n: int, element: str, inputs: tuple[Input, ...]) -> None:
        self.formula, self.n, self.element = formula, n, element
        packed = element in NARROW or any(x.element in NARROW and not x.single for x in inputs)
        self.step = 2 if packed and n > 1 else 1
        self.sm = 80 if element in NARROW else 70
        self.ops: list[str] = []
        self._note(formula)

    def _note(self, f: Formula) -> None:
        match f:
            case Apply(op, args):
                for a in args:
                    self._note(a)
                self.ops.append(op)
                self.sm = max(self.sm, OPERATIONS[op].sm)
            case Cast(arg, element):
                self._note(arg)
                self.ops.append(element)

    def body(self) -> str:
        lines: list[str] = []
        count = self.n // self.step
        results = [self._value(e, lines) for e in range(self.step)]
        lines.append(self._put(results))
        if count == 1:
            return "".join(f"    {line}\n" for line in lines)
        inner = "".join(f"        {line}\n" for line in lines)
        return f"    #pragma unroll\n    for (int i = 0; i < {count}; ++i) {{\n{inner}    }}\n"

    def _put(self, results: list[str]) -> str:
        d = self._at("d", words_of_vector(self.n, self.element), 0)
        if self.element in NARROW:
            high = results[1] if len(results) > 1 else "0.0f"
            ptx = PACK_TEXT[self.element]
            return f'asm("{ptx} %0, %1, %2;" : "=r"({d}) : "f"({high}), "f"({results[0]}));'
        puts = []
        for e, result in enumerate(results):
            d = self._at("d", self.n, e)
            puts.append(f"{d} = {f'__float_as_uint({result})' if self.element == 'f32' else result};")
        return " ".join(puts)

    def _at(self, name: str, words: int, e: int, *, whole: bool = True) -> str:
        """The word of element e of a step; `whole`: each element has its own."""
        if words == 1:
            return name
        if self.n == self.step:
            return f"{name}[{e}]"
        return f"{name}[i]" if self.step == 1 or not whole else f"{name}[{self.step} * i + {e}]"

    def _value(self, e: int, lines: list[str]) -> str:
        """The name of the formula's value for element e of a step; what it takes is added to the lines."""
        kind = "float" if self.element != "s32" else "u32"
        count = 0

        def name() -> str:
            nonlocal count
            count += 1
            return f"t{count - 1}" + (f"_{e}" if self.step > 1 else "")

        def visit(f: Formula) -> str:
            match f:
                case Input():
                    return self._input(f, e, name, lines)
                case Word(index, element):
                    return f"__uint_as_float(s{index})" if element == "f32" else f"s{index}"
                case Number(number, element):
                    return _literal(number, element)
                case Cast(arg):
                    return visit(arg)
                case Apply(op, args):
                    known = OPERATIONS[op]
                    text = known.integers if kind == "u32" else known.text
                    parts = dict(zip("abc", map(visit, args), strict=False))
                    made = name()
                    if "{d}" in text:
                        lines.append(f"{kind} {made};")
                        lines.append(text.format(d=made, **parts))
                    else:
                        lines.append(f"const {kind} {made} = {text.format(**parts)};")
                    return made

        return visit(self.formula)

    def _input(self, f: Input, e: int, name: Callable[[], str], lines: list[str]) -> str:
        x, words = _name(f.index), _words(f, self.n)
        if f.element not in NARROW:
            at = self._at(x, words, e)
            return f"__uint_as_float({at})" if f.element == "f32" else at
        at, high = self._at(x, words, 0, whole=False), e == 1 and not f.single
        if f.element == "bf16":
            return f"__uint_as_float({at} & 0xFFFF0000u)" if high else f"__uint_as_float({at} << 16)"
        made = name()
        lines.append(f"float {made};")
        half = "h" if high else "l"
        lines.append(
            f'asm("{{.reg .b16 l, h; mov.b32 {{l, h}}, %1; cvt.f32.f16 %0, {half};}}" '
            f': "=f"({made}) : "r"({at}));'
        )
        return made


def _literal(number: float, element: str) -> str:
    """A number in C: decimal where that is exact, else by its bits."""
    if element == "s32":
        return f"{int(number) % (1 << 32)}u"
    single = struct.unpack("<f", struct.pack("<f", number))[0]
    if single == single and abs(single) != float("inf"):
        return f"{single!r}f"
    return f"__uint_as_float(0x{struct.unpack('<I', struct.pack('<f', number))[0]:08X}u)"
