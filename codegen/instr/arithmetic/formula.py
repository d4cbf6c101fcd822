"""Formulas of registers: an arithmetic expression of values, as one instruction for a vector of n elements.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen.instr.operations import OPERATIONS
from layoutalg.codegen.instr.record import Instr, Operand, into, out, value
from layoutalg.codegen.instr.words import (
    C_TYPE,
    HIGH,
    LOW,
    PACK,
    PACKED,
    Array,
    decode,
    each,
    encode,
    float_literal,
    ref,
)
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
    'd[i] = __fmaf_rn(a[i], s0, b[i]);'
    """
    element = element_of(formula)
    formula = fused(formula)
    inputs, scalars = _leaves(formula)
    writer = _Writer(formula, n, element, inputs, scalars)
    ops = "_".join(writer.ops) if len(writer.ops) < 3 else f"{len(writer.ops)}_ops"
    name = f"map{n}_{ops or 'move'}_{sha256(repr((formula, n)).encode()).hexdigest()[:6]}"
    operands: list[Operand] = [out("d", words_of_vector(n, element), _kind(element))]
    operands += [into(_letter(i), _words(x, n), _kind(x.element)) for i, x in enumerate(inputs)]
    operands += [value(f"s{w.index}", _kind(w.element)) for w in scalars]

    def effect(machine: Any, group: Any, *args: Array) -> Array:
        with numpy.errstate(all="ignore"):
            result = _evaluated(formula, args[: len(inputs)], args[len(inputs) :], n)
            kind = "f32" if element in NARROW else element
            values = numpy.broadcast_to(result, (group.lanes, n))
            if element in NARROW and n == 1:
                values = numpy.pad(values, ((0, 0), (0, 1)))
            return encode(values, element) if kind == "f32" else numpy.ascontiguousarray(values)

    return Instr(
        name, tuple(operands), writer.text(name, operands), effect, uses=tuple(dict.fromkeys(writer.uses))
    )  # fmt: skip


def _letter(index: int) -> str:
    """The name of an input in C, beside d, the result, and i, which counts elements."""
    return "abc"[index] if index < 3 else f"x{index}"


def _kind(element: str) -> str:
    """The kind of the words of elements."""
    return PACKED.get(element, "f32" if element == "f32" else "")


def _leaves(formula: Formula) -> tuple[tuple[Input, ...], tuple[Word, ...]]:
    inputs: dict[int, Input] = {}
    scalars: dict[int, Word] = {}

    def visit(f: Formula) -> None:
        match f:
            case Input(index):
                inputs[index] = f
            case Word(index):
                scalars[index] = f
            case Apply(_, args):
                for a in args:
                    visit(a)
            case Cast(arg):
                visit(arg)

    visit(formula)
    for leaves in (inputs, scalars):
        if sorted(leaves) != list(range(len(leaves))):
            raise UnsupportedError(f"a formula of the operands {sorted(leaves)}: they count from 0")
    return tuple(inputs[i] for i in range(len(inputs))), tuple(scalars[i] for i in range(len(scalars)))


def _words(x: Input, n: int) -> int:
    return words_of_vector(1 if x.single else n, x.element)


def _evaluated(f: Formula, inputs: tuple[Array, ...], scalars: tuple[Array, ...], n: int) -> Array:
    """float32 or uint32 of shape (lanes, n) or (lanes, 1)."""
    match f:
        case Input(index, element, single):
            return _typed(inputs[index], element)[:, : 1 if single else n]
        case Word(index, element):
            return _typed(scalars[index], element)[:, :1]
        case Number(number, element):
            return numpy.array([[number]], numpy.float32) if element == "f32" else _modular(number)
        case Cast(arg, _):
            return _evaluated(arg, inputs, scalars, n)
        case Apply(op, args):
            parts = [_evaluated(a, inputs, scalars, n) for a in args]
            known = OPERATIONS[op]
            integers = computed(f) == "s32"
            function = known.integer_effect if integers and known.integer_effect else known.effect
            result: Array = function(*parts)
            return result


def _typed(words: Array, element: str) -> Array:
    return words if element == "s32" else decode(words, element).astype(numpy.float32)


def _modular(number: float) -> Array:
    return numpy.array([[int(number) % (1 << 32)]], numpy.uint32)


class _Writer:
    """The text of a helper: a function of one element, and a loop over words, each of one or two of them."""

    def __init__(
        self, formula: Formula, n: int, element: str, inputs: tuple[Input, ...], scalars: tuple[Word, ...]
    ) -> None:
        self.formula, self.n, self.element, self.inputs, self.given = formula, n, element, inputs, scalars
        packed = element in NARROW or any(x.element in NARROW and not x.single for x in inputs)
        self.step = 2 if packed and n > 1 else 1
        self.ops: list[str] = []
        self.uses = [PACK[element]] if element in NARROW else []
        self._note(formula)

    def _note(self, f: Formula) -> None:
        match f:
            case Apply(op, args):
                for a in args:
                    self._note(a)
                self.ops.append(op)
                if self.element != "s32":
                    self.uses += OPERATIONS[op].uses
            case Cast(arg, element):
                self._note(arg)
                self.ops.append(element)
            case Input(_, element, single) if element in NARROW:
                self.uses.append(LOW[element])
                if self.step == 2 and not single:
                    self.uses.append(HIGH[element])

    def text(self, name: str, operands: Sequence[Operand]) -> str:
        """The helper; where more than one operation is done, behind the function of one element."""
        applied = sum(op not in NARROW for op in self.ops)
        kind = "u32" if self.element == "s32" else "float"
        lines: list[str] = []
        names = {x: _letter(x.index) for x in self.inputs} | {w: f"s{w.index}" for w in self.given}
        result = _value(self.formula, kind, names, lines)
        function = ""
        if applied > 1:
            parameters = ", ".join(f"{kind} {x}" for x in names.values())
            body = "".join(f"    {line}\n" for line in lines)
            function = f"{kind} {name}_of({parameters}) {{\n{body}    return {result};\n}}\n"
            function += "__device__ __forceinline__ "
        values = [self._element(e, name, kind, inline=applied <= 1) for e in range(self.step)]
        parameters = ", ".join(
            f"{C_TYPE[o.element]} {o.name}"
            if o.role == "value"
            else ref(o.name, o.words, o.element, const=o.role == "in")
            for o in operands
        )
        return f"{function}void {name}({parameters}) {{\n{each(self.n // self.step, self._put(values))}}}"

    def _element(self, e: int, name: str, kind: str, *, inline: bool) -> str:
        """The value of element e of a step."""
        spelled = {x: self._input(x, e) for x in self.inputs} | {w: f"s{w.index}" for w in self.given}
        if inline:
            return _value(self.formula, kind, spelled, None)
        return f"{name}_of({', '.join(spelled.values())})"

    def _put(self, results: list[str]) -> list[str]:
        if self.element in NARROW:
            d = self._at("d", words_of_vector(self.n, self.element), 0, separate=False)
            low, high = (*results, "0.0f")[:2]
            return [f"{d} = pack_{PACKED[self.element]}({low}, {high});"]
        return [f"{self._at('d', self.n, e)} = {result};" for e, result in enumerate(results)]

    def _at(self, name: str, words: int, e: int, *, separate: bool = True) -> str:
        """The word of element e of a step; `separate`: each element has its own."""
        if words == 1:
            return name
        if self.n == self.step:
            return f"{name}[{e}]"
        if self.step == 1 or not separate:
            return f"{name}[i]"
        return f"{name}[{self.step} * i + {e}]" if e else f"{name}[{self.step} * i]"

    def _input(self, f: Input, e: int) -> str:
        x, words = _letter(f.index), _words(f, self.n)
        if f.element not in NARROW:
            return self._at(x, words, e)
        which = "high" if e == 1 and not f.single else "low"
        return f"{which}_{f.element}({self._at(x, words, 0, separate=False)})"


def _value(f: Formula, kind: str, spelled: Mapping[Any, str], lines: list[str] | None) -> str:
    """A formula in C: each operation on a line of its own, or without `lines` one expression."""
    known: dict[Any, str] = dict(spelled)

    def visit(f: Formula) -> str:
        match f:
            case Number(number, element):
                return float_literal(number) if element == "f32" else f"{int(number) % (1 << 32)}u"
            case Cast(arg):
                return visit(arg)
            case Apply(op, args):
                if f not in known:
                    text = OPERATIONS[op].integers if kind == "u32" else OPERATIONS[op].text
                    made = text.format(**dict(zip("abc", map(visit, args), strict=False)))
                    if lines is None:
                        return made
                    known[f] = f"t{len(lines)}"
                    lines.append(f"const {kind} {known[f]} = {made};")
                return known[f]
            case _:
                return known[f]

    return visit(f)
