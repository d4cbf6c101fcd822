"""The proof that a printed function is its layout: at every coordinate, over F2, or by classes of digits.

The idea.  What is proved is the text: it is read again, by the reader of C or Python, and what it says is
compared with the layout called on numbers.

    enumerated       at every coordinate, where there are at most ENUMERATED
    F2               both are affine over F2, with the same columns
    digit classes    both move by the same number when a parameter moves by a period, which is read off their
                     operators: x % 8 comes back after 8, x // 8 * 64 moves by 64; then one period of every
                     parameter stands for all, and is enumerated; for sums, that of each parameter alone

CuTe C++ is read back as a layout, which is compared with the requested one.

>>> from layoutalg.codegen.expr import Var
>>> row = Var("row", 1 << 20)
>>> steps(row % 8 * 4 + row // 16 * 100, row)
Step(ratio=Fraction(25, 4), need=16)
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from layoutalg.codegen.expr import (
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Minus,
    Mod,
    Mul,
    Or,
    Shl,
    Shr,
    Var,
    Xor,
    affine,
    evaluate,
    terms,
    variables,
)
from layoutalg.decide import same_function
from layoutalg.errors import MismatchError, UndecidedError
from layoutalg.layout import AnyLayout
from layoutalg.notation import parse
from layoutalg.optional import has_numpy
from layoutalg.reading import Term, evaluated, ordered

ENUMERATED = 1 << 20
"""Coordinates that are looked at one by one."""

ENUMERATED_WITHOUT_NUMPY = 1 << 12
"""The same where each takes a walk over the expression in Python."""

Table = Callable[[Sequence[Any]], Any]


def proved(what: str, term: Term, parameters: Sequence[Var], raw: Expr, less: int, table: Table) -> str:
    """Prove that `term` is `raw - less` for every value of the parameters, and say how.

    `table` gives the numbers for arrays of the parameters, by definition.  Raises MismatchError where they
    differ, which is a defect, and UndecidedError where there is no proof.
    """
    extents = [v.facts.hi + 1 for v in parameters]
    count = math.prod(extents)
    most = ENUMERATED if has_numpy() else ENUMERATED_WITHOUT_NUMPY
    if count <= most:
        _compare(what, term, parameters, extents, table)
        return f"proved at all {count:,} coordinates" if count > 1 else "proved at its only coordinate"
    by_name = {v.name: v for v in parameters}
    read, taken = as_expression(what, term, by_name)
    printed, other = affine(read), affine(raw)
    if printed is not None and other is not None and taken == less:
        if printed == other:
            return "proved over F2"
        raise MismatchError(f"{what}: the printed function has other columns over F2 than the layout")
    box: list[int] = []
    for v, extent in zip(parameters, extents, strict=True):
        a, b = steps(read, v), steps(raw, v)
        if a is None or b is None or a.ratio != b.ratio:
            raise UndecidedError(f"{what}: no period in {v.name} is seen for all its {extent:,} values")
        box.append(min(extent, math.lcm(a.need, b.need, a.ratio.denominator)))
    if all(len(variables(t)) < 2 for node in (read, raw) for t in terms(node)) and sum(box) <= most:
        for k in range(len(box)):  # each parameter adds what it adds alone
            _compare(what, term, parameters, [n if j == k else 1 for j, n in enumerate(box)], table)
        return f"proved at {sum(box):,} coordinates, which stand for all {count:,}"
    if math.prod(box) > most:
        raise UndecidedError(
            f"{what}: {math.prod(box):,} classes of coordinates; up to {most:,} are looked at", budget=most
        )
    _compare(what, term, parameters, box, table)
    return f"proved at {math.prod(box):,} coordinates, which stand for all {count:,}"


def compare_one_by_one(
    what: str, term: Term, parameters: Sequence[Var], box: Sequence[int], table: Table
) -> None:
    """Compare at every coordinate of the box, the term as an exact expression; needs no NumPy.

    Raises MismatchError at the first coordinate where they differ, UndecidedError as `as_expression`.
    """
    read, less = as_expression(what, term, {v.name: v for v in parameters})
    for number, at in enumerate(itertools.product(*map(range, box))):
        if evaluate(read, dict(zip(parameters, at, strict=True))) - less != table(at):
            where = ", ".join(f"{v.name}={n}" for v, n in zip(parameters, at, strict=True))
            raise MismatchError(f"{what}: the printed function is not the layout at {where}", index=number)


def _compare(what: str, term: Term, parameters: Sequence[Var], box: Sequence[int], table: Table) -> None:
    if not has_numpy():
        compare_one_by_one(what, term, parameters, box, table)
        return
    import numpy as np

    grid = [axis.reshape(-1) for axis in np.indices(tuple(box), dtype=np.int64)] if box else []
    env = {v.name: axis for v, axis in zip(parameters, grid, strict=True)}
    values, bad = evaluated(term, env)
    expected = np.broadcast_to(table(grid), values.shape)
    wrong = values != expected
    if bad is not None:
        wrong |= bad.mask
    if wrong.any():
        at = int(wrong.reshape(-1).argmax())
        where = ", ".join(f"{name}={int(axis[at])}" for name, axis in env.items())
        raise MismatchError(f"{what}: the printed function is not the layout at {where}", index=at)


# --- terms as index expressions --------------------------------------------------------------------------


def as_expression(
    what: str, term: Term, given: Mapping[str, Var], exists: Callable[[Expr, Expr], bool] | None = None
) -> tuple[Expr, int]:
    """(expression, less): the term is expression - less, computed without any wrap.

    `exists(a, b)` says whether a - b is never below 0, where intervals do not show it.  Raises UndecidedError
    for an operator that has no such form, and where a number may leave its type.
    """
    less, types = 0, [term.ctype]  # what the difference has to fit
    while term.op == "cast":
        term = term.operands[0]
        types.append(term.ctype)
    if term.op == "-" and term.operands[1].op == "const":
        term, less = term.operands[0], term.operands[1].value
    known: dict[int, Expr] = {}
    for t in ordered(term):
        parts = [known[id(o)] for o in t.operands]
        made = _as_expression(t, parts, given)
        if made is None and t.op == "-" and len(parts) == 2 and exists is not None and exists(*parts):
            made = Minus(parts[0], parts[1], exact=True)
        if made is None or (t.ctype is not None and made.facts.hi > t.ctype.greatest):
            raise UndecidedError(f"{what}: intervals do not show that '{t.op}' keeps every bit")
        known[id(t)] = made
    result = known[id(term)]
    if any(
        t is not None and not t.least <= result.facts.lo - less <= result.facts.hi - less <= t.greatest
        for t in types
    ):
        raise UndecidedError(f"{what}: intervals do not show that its type holds every number")
    return result, less


def _as_expression(t: Term, parts: list[Expr], by_name: Mapping[str, Var]) -> Expr | None:
    if t.op == "var":
        return by_name[t.name]
    if t.op == "const":
        return Const(t.value) if t.value >= 0 else None
    if t.op in ("cast", "pos"):
        return parts[0]
    if len(parts) != 2:
        return None
    a, b = parts
    if t.op in ("/", "//", "%", "py%"):
        if b.facts.lo < 1:
            return None
        return FloorDiv(a, b) if t.op in ("/", "//") else Mod(a, b)
    if t.op in ("<<", ">>"):
        if not isinstance(b, Const) or b.value > 61:
            return None
        return Shl(a, b.value) if t.op == "<<" else Shr(a, b.value)
    if t.op == "-":
        made = Minus(a, b)
        return made if made.exact else None
    plain: Mapping[str, Callable[[Expr, Expr], Expr]] = {"+": Add, "*": Mul, "&": And, "^": Xor, "|": Or}
    return plain[t.op](a, b) if t.op in plain else None


class Step(NamedTuple):
    """An expression moves by `ratio * q` when its variable moves by any multiple q of `need`."""

    ratio: Fraction
    need: int


def steps(node: Expr, v: Var) -> Step | None:
    """The step of an expression in one of its variables; None where it does not follow from its operators.

    >>> steps(Var("i", 64) ^ Var("j", 8), Var("i", 64))
    Step(ratio=Fraction(1, 1), need=8)
    """
    match node:
        case Const():
            return _STILL
        case Var():
            return Step(Fraction(1), 1) if node == v else _STILL
        case Shl(a, amount) | Shr(a, amount):
            moved = steps(a, v)
            if moved is None:
                return None
            return _times(moved, 1 << amount) if isinstance(node, Shl) else _divided(moved, 1 << amount)
    if not isinstance(node, (Add, Minus, Mul, FloorDiv, Mod, And, Or, Xor)):
        return None
    left, right = steps(node.a, v), steps(node.b, v)
    if left is None or right is None:
        return None
    need = math.lcm(left.need, right.need)
    match node:
        case Add():
            return Step(left.ratio + right.ratio, need)
        case Minus():
            return Step(left.ratio - right.ratio, need) if node.exact else None
    if left.ratio == right.ratio == 0:
        return Step(Fraction(0), need)
    match node:
        case Mul(_, Const(c)):
            return _times(left, c)
        case Mul(Const(c), _):
            return _times(right, c)
        case FloorDiv(_, Const(c)):
            return _divided(left, c)
        case Mod(_, Const(c)):
            return Step(Fraction(0), _divided(left, c).need)
        case And(_, Const(c)):
            return Step(Fraction(0), _divided(left, 1 << c.bit_length()).need)
        case Xor(a, b) | Or(a, b) if right.ratio == 0:
            return Step(left.ratio, math.lcm(need, _divided(left, 1 << b.facts.hi.bit_length()).need))
        case Xor(a, b) | Or(a, b) if left.ratio == 0:
            return Step(right.ratio, math.lcm(need, _divided(right, 1 << a.facts.hi.bit_length()).need))
    return None


_STILL = Step(Fraction(0), 1)


def _times(step: Step, factor: int) -> Step:
    return Step(step.ratio * factor, step.need)


def _divided(step: Step, by: int) -> Step:
    """The step of a quotient, where whole multiples of `by` are moved."""
    top, bottom = step.ratio.numerator, step.ratio.denominator * by
    return Step(step.ratio / by, math.lcm(step.need, bottom // math.gcd(top, bottom)))


# --- CuTe C++ --------------------------------------------------------------------------------------------

LAYOUT_LINE = re.compile(r"^    auto (layout|through) = (.*);$", re.MULTILINE)


def proved_cute(what: str, text: str, wanted: Mapping[str, AnyLayout | None]) -> str:
    """Prove that a function in CuTe C++ has these layouts, and say how: they are read back and compared.

    Raises MismatchError where one differs, UndecidedError as `same_function` does.
    """
    read: dict[str, Any] = {name: parse(line, form="cpp") for name, line in LAYOUT_LINE.findall(text)}
    for name, layout in wanted.items():
        if layout is not None and not (
            name in read and read[name].shape == layout.shape and same_function(read[name], layout)
        ):
            raise MismatchError(f"{what}: the printed {name} is not {layout}")
    return "its layout was read back"
