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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, TypeAlias

from layoutalg.codegen import terms
from layoutalg.codegen.instr.lanewise import OPERATIONS, Block, Value, Writer, lanewise
from layoutalg.codegen.instr.record import Instr, Operand, into, out, updated, value
from layoutalg.codegen.instr.words import PACKED, words_of_vector
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
            if element not in PACKED or computed(arg) != "f32":
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
    if element not in ("f32", "s32", *PACKED):
        raise UnsupportedError(f"arithmetic on {element}: f32, f16, bf16 and s32 are accepted")
    return "f32" if element in PACKED else element


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
    formula = fused(formula)
    leaves, steps = _leaves(formula), list(_steps(formula))
    ops = f"{len(steps)}_ops" if len(steps) > 2 else "_".join(steps) or "move"
    name = f"map{n}_{ops}_{sha256(repr((formula, n)).encode()).hexdigest()[:6]}"
    kind = "s32" if element == "s32" else "f32"
    operands = [out("d", words_of_vector(n, element), PACKED.get(element, ""))]
    operands += [_operand(leaf, spelled, n) for leaf, spelled in leaves.items()]
    read: dict[Formula, Value] = {
        x: ("first", spelled) if isinstance(x, Input) and x.single and x.element in PACKED else spelled
        for x, spelled in leaves.items()
    }
    made = lanewise(name, operands, Block({"d": _stated(formula, read)}, n), element=kind)
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
            return float(number) if element == "f32" else int(number)
    return read[formula]


def _function(name: str, formula: Formula, leaves: Mapping[Input | Word, str], kind: str) -> str:
    """The text of a function of one element: each operation on a line of its own."""
    known: dict[Formula, str] = dict(leaves.items())
    lines: list[str] = []
    c_type, writer = ("u32" if kind == "s32" else "float"), Writer(kind, ())

    def visit(f: Formula) -> str:
        match f:
            case Cast(arg):
                return visit(arg)
            case Apply(op, args) if f not in known:
                text = writer.value((op, *(visit(a) for a in args)))
                known[f] = f"t{len(lines)}"
                lines.append(f"    const {c_type} {known[f]} = {text};\n")
        return known[f] if f in known else writer.value(_stated(f, {}))

    result = visit(formula)
    parameters = ", ".join(f"{c_type} {x}" for x in leaves.values())
    return f"{c_type} {name}({parameters}) {{\n{''.join(lines)}    return {result};\n}}\n"
