"""`layoutalg explain`: how a result of the algebra comes about, step by step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from layoutalg.answers import Answer, taken
from layoutalg.cli.options import archs, argument, dtypes, operations, option
from layoutalg.cli.output import progress, say_answer, say_verbatim, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.errors import ArgumentTypeError, UnknownNameError
from layoutalg.layout import Swizzle
from layoutalg.notation import parse, parse_tiler

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_PARAMETER = re.compile(r"([a-z]\w{0,30})=(.*)", re.ASCII | re.DOTALL)
_CHAIN = re.compile(r"\s*Sw<[^>]*>(\s+o\s+Sw<[^>]*>)+\s*", re.ASCII)
_SWIZZLED = re.compile(r"Sw<|smem_ptr|\bo\b", re.ASCII)
_WORDS = {"None": None, "True": True, "False": False}


@dataclass(frozen=True)
class Step:
    """A law, and what follows from it."""

    law: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """Why an operation does not accept its operands."""

    error: str
    """Class of layoutalg.errors."""
    message: str


@dataclass(frozen=True)
class Explanation(Answer, command="explain"):
    """The derivation of a result of the algebra."""

    call: str
    """The operation and its operands in CuTe notation."""
    steps: tuple[Step, ...]
    result: str | None
    """null: the operation refuses its operands, exit code 1."""
    refusal: Refused | None


def explain_command(
    op: Annotated[
        str,
        argument(
            "An operation, such as composition; a layout or a swizzle, to explain its value; analyze, "
            "to explain a count; or synthesize, to explain a certificate; - reads it from standard input.",
            complete=operations,
            stdin="text",
        ),
    ],
    operands: Annotated[
        list[str] | None,
        argument(
            "Its operands in CuTe notation: layouts, swizzles, shapes, tilers, coordinates with _, "
            "numbers, and NAME=VALUE for parameters. Write -- before negative numbers. After analyze: a "
            "layout and an access (OP, OP@row, OP@col or OP@TV layout); after synthesize: a shape, accesses.",
            stdin="text",
        ),
    ] = None,
    dtype: Annotated[
        str | None, option("Element type of analyze and synthesize. Default: f32.", complete=dtypes)
    ] = None,
    arch: Annotated[
        str | None, option("Architecture of analyze and synthesize. Default: sm_90.", complete=archs)
    ] = None,
) -> int:
    """Explain an operation step by step: the laws it uses, up to the result or the error.

    layoutalg explain composition "(6,2):(8,2)" "(4,3):(3,1)"

    layoutalg explain analyze "Sw<3,3,3> o 0 o (64,64):(64,1)" ldmatrix.x4 --dtype f16

    layoutalg explain synthesize "(32,32)" ld.shared.b32@row ld.shared.b32@col

    Exits 1 when the operation refuses its operands, after the reason.
    """
    from layoutalg.explanation import OPERATIONS, explain

    if _NAME.fullmatch(op) and op not in OPERATIONS:
        raise UnknownNameError("operation to explain", op, OPERATIONS)
    function = op if op in OPERATIONS else _operand(op)
    values: list[Any] = []
    params: dict[str, Any] = {}
    counted = op in ("analyze", "synthesize")
    for name, value in (("element", dtype), ("arch", arch)):
        if value is not None and not counted:
            raise ArgumentTypeError(f"--dtype and --arch go with analyze and synthesize, not with {op}")
        params |= {} if value is None else {name: value}
    for text in operands or ():
        if match := _PARAMETER.fullmatch(text):
            params[match[1]] = match[2] if counted and not match[2].isdecimal() else _operand(match[2])
        else:
            values.append(text if counted and values else _operand(text))
    with progress(f"explaining {op}"):
        derivation = explain(function, *values, **params)
    if wants_json():
        refusal = derivation.refusal
        refused = None if refusal is None else Refused(type(refusal).__name__, str(refusal))
        result = derivation.answer.removeprefix("= ") if refusal is None else None
        say_answer(taken(Explanation, derivation, result=result, refusal=refused))
    else:
        for line in derivation.lines():
            say_verbatim(line)
    return FAILED if derivation.refusal is not None else 0


def _operand(text: str) -> Any:
    """Return the value that a word of the command stands for; raises ParseError."""
    if text in _WORDS:
        return _WORDS[text]
    if _CHAIN.fullmatch(text):
        swizzles = [parse(part) for part in re.split(r"\s+o\s+", text.strip())]
        return tuple(s for s in swizzles if isinstance(s, Swizzle))
    return parse(text) if _SWIZZLED.search(text) else parse_tiler(text)
