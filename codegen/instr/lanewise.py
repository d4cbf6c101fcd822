"""Arithmetic on the floats of a lane, stated once: each statement is printed in C and computed on arrays.

    Block({"c": ("sub", "v", "mean"), "e": ("mul", "c", "c")}, 4)       for each i of 4, of a vector v

        const float c = __fsub_rn(v[i], mean);                          c = v - mean
        e[i] = __fmul_rn(c, c);                                         e = c * c

    Block({"q": ("add", "q", ("tree", "add", "e"))})                    once

        q = __fadd_rn(q, __fadd_rn(__fadd_rn(e[0], e[1]), __fadd_rn(e[2], e[3])));

An operand of one word stands for every i.  A name that is not an operand is a constant of its block, or, if
`arrays` has it, an array of n floats that later blocks read.  Operations are those of `operations`,
and those of `KNOWN` beside them; "tree" joins all elements of a vector, neighbours first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy

from layoutalg.codegen.instr.operations import OPERATIONS, Operation
from layoutalg.codegen.instr.record import Instr, Operand
from layoutalg.codegen.instr.words import Array, at, each, float_literal, float_words, floats, ref

T = TypeVar("T")
Value: TypeAlias = "str | float | tuple[Any, ...]"
"""The name of an operand or of a statement, a number, or an operation and its values."""


def _if_positive(a: Array, b: Array, c: Array) -> Array:
    return numpy.where(a > 0, b, c)


KNOWN: Mapping[str, Operation] = MappingProxyType(
    {
        **OPERATIONS,
        # the maximum that exponentials are taken from: of values that are all -infinity so far, 0
        "finite": Operation(
            "{a} == -INFINITY ? 0.0f : {a}", lambda a: numpy.where(a == -numpy.inf, numpy.float32(0), a)
        ),
        "if_positive": Operation("{a} > 0.0f ? {b} : {c}", _if_positive),
        "rsqrt_rn": Operation(
            "__frsqrt_rn({a})", lambda a: (1 / numpy.sqrt(a.astype("f8"))).astype("f4")
        ),
    }
)  # fmt: skip


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
    name: str, operands: Sequence[Operand], *blocks: Block, arrays: Mapping[str, int] = MappingProxyType({})
) -> Instr:
    """The instruction that runs blocks of statements on float operands; `arrays` have their lengths."""
    words = {o.name: o.words for o in operands} | dict(arrays)

    def text(value: Value) -> str:
        match value:
            case ("tree", op, x):
                parts = [at(x, i, words[x]) for i in range(words[x])]
                return tree(parts, lambda a, b: KNOWN[op].text.format(a=a, b=b))
            case str():
                return at(value, "i", words.get(value, 1))
            case float():
                return float_literal(value)
        return KNOWN[value[0]].text.format(**dict(zip("abc", map(text, value[1:]), strict=False)))

    def block_text(block: Block) -> str:
        lines = list[str]()
        for is_set, group in groupby(block.statements.items(), lambda one: one[0] in words):
            said = [f"{text(x)} = {text(value)}" for x, value in group]
            constants = [", ".join(said)] if block.n else said
            lines += [f"{x};" for x in said] if is_set else [f"const float {x};" for x in constants]
        own = [x for x in arrays if x in block.statements]
        arrays_text = "".join(f"    float {x}{f'[{words[x]}]' if words[x] > 1 else ''};\n" for x in own)
        return arrays_text + each(block.n or 1, lines)

    def effect(machine: Any, group: Any, *inputs: Array) -> Any:
        known = {o.name: floats(x) for o, x in zip(operands, inputs, strict=True)}
        with numpy.errstate(all="ignore"):
            for block in blocks:
                for target, value in block.statements.items():
                    known[target] = _number(value, known)
            results = [float_words(known[o.name]) for o in operands if o.role in ("inout", "out")]
        return results[0] if len(results) == 1 else tuple(results)

    parameters = ", ".join(
        f"float {o.name}" if o.role == "value" else ref(o.name, o.words, "f32", const=o.role == "in")
        for o in operands
    )
    typed = tuple(replace(o, element="f32") for o in operands)
    uses = dict.fromkeys(u for b in blocks for value in b.statements.values() for u in _uses(value))
    body = "".join(map(block_text, blocks))
    return Instr(name, typed, f"void {name}({parameters}) {{\n{body}}}", effect, uses=tuple(uses))


def _number(value: Value, known: Mapping[str, Array]) -> Array:
    match value:
        case ("tree", op, x):
            return tree([known[x][:, i : i + 1] for i in range(known[x].shape[1])], KNOWN[op].effect)
        case (op, *args):
            return KNOWN[op].effect(*map(partial(_number, known=known), args))
        case str():
            return known[value]
        case _:
            return numpy.array([[value]], numpy.float32)


def _uses(value: Value) -> Sequence[str]:
    """The functions that the operations of a value call."""
    match value:
        case ("tree", op, _):
            return KNOWN[op].uses
        case (op, *args):
            return [*KNOWN[op].uses, *(u for x in args for u in _uses(x))]
        case _:
            return ()
