"""Formulas of registers: an arithmetic expression of values, as one instruction for a vector of n elements.

The idea.  A formula is a tree: inputs are registers, a vector of them or one that stands for all elements,
words that the kernel is given, and numbers; what is above them computes with floats, with integers modulo
2^32, with a sign or without, and with predicates, by which `where` chooses.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen import terms
from layoutalg.codegen.instr.conversions import WORD_BITS
from layoutalg.codegen.instr.lanewise import NUMPY, OPERATIONS, Block, Value, Writer, lanewise
from layoutalg.codegen.instr.record import Instr, Operand, into, out, updated, value
from layoutalg.codegen.instr.words import PACKED, float_words, words_of_vector
from layoutalg.errors import UnknownNameError, UnsupportedError


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
    """A number, rounded to the nearest of its type; 0 and -0 are two."""

    value: float
    element: str
    negative: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "negative", str(self.value).startswith("-"))


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation of OPERATIONS on formulas of one type, but for the predicate of a choice."""

    op: str
    args: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Floats rounded to a narrower type: the last step of a formula."""

    arg: Formula
    element: str


COMPUTED = ("f32", "s32", "u32")
"""The types that formulas compute with and registers hold."""

Formula: TypeAlias = Input | Word | Number | Apply | Cast


def element_of(formula: Formula) -> str:
    """The type of a formula's elements: f16 and bf16 only of an input or a cast, bool of a predicate.

    Raises UnsupportedError where types differ, UnknownNameError for an operation.

    >>> element_of(Apply("add", (Input(0, "f16"), Number(1.0, "f32"))))
    'f32'
    """
    match formula:
        case Cast(arg, element):
            if element not in PACKED or computed(arg) != "f32":
                raise UnsupportedError(
                    f"cast from {element_of(arg)} to {element}: from f32 to f16 or bf16 is accepted, other "
                    "narrow types as the last step alone"
                )
            return element
        case Apply(op, args):
            if op not in OPERATIONS:
                raise UnknownNameError("operation", op, OPERATIONS)
            own, kinds = OPERATIONS[op], [computed(a) for a in args]
            if own.of and kinds[0] != "bool":
                raise UnsupportedError(f"{op} by a value of {kinds[0]}: a comparison is needed")
            if len(set(kinds[own.of :])) > 1:
                raise UnsupportedError(
                    f"{op} of {' and '.join(sorted(set(kinds[own.of :])))}: one type is needed"
                )
            if not own.text_of(kind := kinds[own.of]):
                there = ", ".join(x for x in NUMPY if own.text_of(x))
                raise UnsupportedError(f"{op} of {kind}: {there} is needed")
            if op in ("shl", "shr") and (most := largest(args[1])) >= WORD_BITS:
                raise UnsupportedError(
                    f"{op} of {kind} by an amount that may be {most}: the fact that it is below {WORD_BITS} "
                    f"is missing, such as amount & {WORD_BITS - 1} states it"
                )
            return own.result or kind
        case _:
            return formula.element


def computed(formula: Formula) -> str:
    """The type that a formula's elements are computed with: f32, s32, u32 or bool.

    Raises UnsupportedError for other types, and for a cast that is not the last step.

    >>> computed(Input(0, "bf16"))
    'f32'
    """
    element = element_of(formula)
    if isinstance(formula, Cast):
        raise UnsupportedError(f"a cast to {element} is the last step; keep the floats to go on")
    if element not in (*NUMPY, *PACKED):
        raise UnsupportedError(
            f"arithmetic on {element}: f32, f16, bf16, s32 and u32 are accepted; convert it first"
        )
    return "f32" if element in PACKED else element


def largest(formula: Formula) -> int:
    """The largest integer that a formula can be, taken as one without a sign.

    >>> x = Input(0, "u32")
    >>> largest(Apply("and", (x, Number(31, "u32")))), largest(x) == 2**32 - 1
    (31, True)
    """
    match formula:
        case Number(value, kind) if kind != "f32":
            return int(value) % (1 << WORD_BITS)
        case Apply("and", (a, b)):
            return min(largest(a), largest(b))
        case Apply("mod", (_, Number(by, _))) if by > 0:
            return int(by) - 1
        case Apply("min", (a, b)) if computed(a) == "u32":
            return min(largest(a), largest(b))
        case Apply("shr", (a, Number(amount, _))) if computed(a) == "u32":
            return largest(a) >> int(amount)
        case Apply("where", (_, a, b)):
            return max(largest(a), largest(b))
        case Apply("to_u32", (a,)) if computed(a) == "bool":
            return 1
    return (1 << WORD_BITS) - 1


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


@functools.cache
def elementwise(formula: Formula, n: int) -> Instr:
    """d[i] = formula for the n elements of a vector: operands d, the inputs, then the given words.

    Raises what `element_of` and `words_of_vector` raise.

    >>> x, y = Input(0, "f32"), Input(1, "f32")
    >>> elementwise(Apply("add", (Apply("mul", (x, Word(0, "f32"))), y)), 4).text.splitlines()[3].strip()
    'd[i] = __fmaf_rn(a[i], s0, b[i]);'
    """
    element = element_of(formula)
    if element == "bool":
        raise UnsupportedError("registers hold no predicates: to('u32') makes one 0 or 1")
    formula = fused(formula)
    leaves, steps = _leaves(formula), list(_steps(formula))
    ops = f"{len(steps)}_ops" if len(steps) > 2 else "_".join(steps) or "move"
    name = f"map{n}_{ops}_{sha256(repr((formula, n)).encode()).hexdigest()[:6]}"
    kind = "f32" if element in PACKED else element
    operands = [out("d", words_of_vector(n, element), PACKED.get(element, ""))]
    operands += [_operand(leaf, spelled, n) for leaf, spelled in leaves.items()]
    read: dict[Formula, Value] = {
        x: ("first", spelled) if isinstance(x, Input) and x.single and x.element in PACKED else spelled
        for x, spelled in leaves.items()
    }
    types = {spelled: computed(leaf) for leaf, spelled in leaves.items()}
    made = lanewise(name, operands, Block({"d": _stated(formula, read)}, n), element=kind, types=types)
    return _stepwise(made, "d", formula, leaves, read, n, kind)


def in_place(name: str, formula: Any, n: int) -> Instr:
    """v[i] = a formula of v[i] for n floats: one of terms, whose leaves are numbers and something else, v."""

    def applied(x: Any) -> Formula:
        if isinstance(x, terms.Value):
            return Apply(x.op, tuple(map(applied, x.args)))
        return Number(x, "f32") if isinstance(x, int | float) else v

    v = Input(0, "f32")
    steps = fused(applied(formula))
    made = lanewise(name, [updated("v", n)], Block({"v": _stated(steps, {v: "v"})}, n))
    return _stepwise(made, "v", steps, {v: "x"}, {v: "v"}, n, "f32")


def _stepwise(
    made: Instr, target: str, formula: Formula, leaves: Mapping[Input | Word, str],
    read: Mapping[Formula, Value], n: int, kind: str,
) -> Instr:  # fmt: skip
    """The instruction with its formula, if that has several operations, in a function of one element."""
    if sum(step not in PACKED for step in _steps(formula)) < 2:
        return made
    function = f"{made.name}_of"
    call = ("call", function, *read.values())
    text = Writer(kind, made.operands).helper(made.name, [Block({target: call}, n)])
    own = _function(function, formula, leaves, kind)
    return replace(made, text=f"{own}__device__ __forceinline__ {text}")


def _letter(index: int) -> str:
    """The name of an input in C, beside d, the result, and i, which counts elements."""
    return "abc"[index] if index < 3 else f"x{index}"


def _operand(leaf: Input | Word, name: str, n: int) -> Operand:
    if isinstance(leaf, Word):
        return value(name)
    words = words_of_vector(1 if leaf.single else n, leaf.element)
    return into(name, words, PACKED.get(leaf.element, ""))


def _leaves(formula: Formula) -> dict[Input | Word, str]:
    """The inputs and words of a formula, each in order, and their names in C."""
    found: dict[type, dict[int, Input | Word]] = {Input: {}, Word: {}}

    def visit(f: Formula) -> None:
        match f:
            case Input(index) | Word(index):
                found[type(f)][index] = f
            case Apply(_, args):
                for a in args:
                    visit(a)
            case Cast(arg):
                visit(arg)

    visit(formula)
    for leaves in found.values():
        if sorted(leaves) != list(range(len(leaves))):
            raise UnsupportedError(f"a formula of the operands {sorted(leaves)}: they count from 0")
    names = {Input: _letter, Word: "s{}".format}
    return {leaves[i]: names[kind](i) for kind, leaves in found.items() for i in range(len(leaves))}


def _steps(formula: Formula) -> Iterator[str]:
    """The operations and casts of a formula, from the first that is done to the last."""
    match formula:
        case Apply(op, args):
            for a in args:
                yield from _steps(a)
            yield op
        case Cast(arg, element):
            yield from _steps(arg)
            yield element


def _stated(formula: Formula, read: Mapping[Formula, Value]) -> Value:
    """A formula as a value of a statement."""
    match formula:
        case Apply(op, args):
            return (op, *(_stated(a, read) for a in args))
        case Cast(arg):
            return _stated(arg, read)
        case Number(number, element):
            if element == "f32":  # NumPy's own, so that a number has a type beside others
                return numpy.float32(float_words(numpy.array([number])).view(numpy.float32)[0])
            word: Value = numpy.array(int(number) % (1 << WORD_BITS), numpy.uint32).view(NUMPY[element])[()]
            return word
    return read[formula]


def _function(name: str, formula: Formula, leaves: Mapping[Input | Word, str], kind: str) -> str:
    """The text of a function of one element: each operation on a line of its own."""
    known: dict[Formula, str] = dict(leaves.items())
    lines: list[str] = []
    types = {x: computed(leaf) for leaf, x in leaves.items()}

    def visit(f: Formula) -> Value:
        match f:
            case Cast(arg):
                return visit(arg)
            case Apply(op, args) if f not in known:
                text = Writer(kind, (), types=types).value((op, *(visit(a) for a in args)))
                known[f] = f"t{len(lines)}"
                types[known[f]] = element_of(f)
                lines.append(f"    const {_C_NAME[element_of(f)]} {known[f]} = {text};\n")
        return known[f] if f in known else _stated(f, {})

    result = Writer(kind, ()).value(visit(formula))
    parameters = ", ".join(f"{_C_NAME[types[x]]} {x}" for x in leaves.values())
    return f"{_C_NAME[kind]} {name}({parameters}) {{\n{''.join(lines)}    return {result};\n}}\n"


_C_NAME = {"f32": "float", "s32": "u32", "u32": "u32", "bool": "bool"}
"""The C type of a value that is computed; integers wrap."""
