"""Index expressions: a closed union of immutable nodes, each carrying what is known of its value.

The idea.  A layout is called on a variable, and what comes back IS its index code:

    >>> from layoutalg.layout import Layout
    >>> print(Layout((4, 8), (8, 1))(Var("tid", 32)))
    0 + tid % 4 * 8 + tid // 4 * 1

because `Layout.__call__` uses only `+ * // % ^ & >> <<`.  `simplify` then removes what can be proved away.

Notes.  All values are >= 0.  `a - b` needs a proof that it is, from the facts of both; Minus(a, b) stops at
0, and `a - b < c` of any a and b is written `a < b + c`.  `==` compares structure; the predicate is the
method `eq`.  Comparisons have range [0, 1] and stand in If, Select and predicate operands only; `&` and `|`
combine them; truth-testing a node raises.

The union is read by `match`, where it matters with `assert_never`, so that a new node is found by the type
checker wherever it must be handled.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from layoutalg.codegen.expr.nodes import (
    SYMBOL,
    Add,
    And,
    Const,
    Eq,
    Expr,
    FloorDiv,
    Le,
    Lt,
    Minus,
    Mod,
    Mul,
    Operand,
    Or,
    Select,
    Shl,
    Shr,
    Var,
    VarKind,
    Xor,
    as_expr,
    render,
)
from layoutalg.errors import IRError, ResourceError

__all__ = [
    "OPERATION",
    "SYMBOL",
    "Add",
    "And",
    "Const",
    "Eq",
    "Expr",
    "FloorDiv",
    "Le",
    "Lt",
    "Minus",
    "Mod",
    "Mul",
    "Operand",
    "Or",
    "Select",
    "Shl",
    "Shr",
    "Var",
    "VarKind",
    "Xor",
    "apply_operator",
    "as_expr",
    "children",
    "evaluate",
    "is_predicate",
    "rebuild",
    "render",
    "substitute",
    "variables",
]


def is_predicate(node: Expr) -> bool:
    """True for a comparison, an And / Or of predicates, and 0 or 1: what a decided one simplifies to.

    >>> i = Var("i", 8)
    >>> is_predicate((i < 4) & (i > 2)), is_predicate(i & 1)
    (True, False)
    """
    match node:
        case Lt() | Le() | Eq() | Const(0 | 1):
            return True
        case And(a, b) | Or(a, b):
            return is_predicate(a) and is_predicate(b)
        case _:
            return False


def children(node: Expr) -> tuple[Expr, ...]:
    """The operands, left to right.

    >>> [str(c) for c in children(Var("i", 8) + 1)]
    ['i', '1']
    """
    return node.children


def rebuild(node: Expr, new: tuple[Expr, ...]) -> Expr:
    """The same operator on other operands.

    >>> str(rebuild(Var("i", 8) + 1, (Const(2), Const(3))))
    '2 + 3'
    """
    match node:
        case Var() | Const():
            return node
        case Shl(_, amount) | Shr(_, amount):
            return type(node)(new[0], amount)
        case Select():
            return Select(*new)
        case Minus():
            return Minus(new[0], new[1])
        case _:
            return type(node)(*new)


def substitute(node: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Replace variables by expressions.

    >>> i = Var("i", 8)
    >>> str(substitute(i * 2 + 1, {i: Const(3)}))
    '3 * 2 + 1'
    """
    return _substitute(node, {**values})


def _substitute(node: Expr, known: dict[Any, Expr]) -> Expr:
    if node not in known:
        old = children(node)
        new = tuple([_substitute(c, known) for c in old])
        known[node] = node if new == old else rebuild(node, new)
    return known[node]


@functools.lru_cache(maxsize=1 << 14)
def variables(node: Expr) -> frozenset[Var]:
    """Every variable that occurs (the extents of variables are not searched).

    >>> sorted(v.name for v in variables(Var("i", 8) * 4 + Var("j", 4)))
    ['i', 'j']
    """
    found, seen, waiting = [], {node}, [node]
    for x in waiting:
        if isinstance(x, Var):
            found.append(x)
        for child in x.children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return frozenset(found)


def evaluate(node: Expr, env: Mapping[Var, Any]) -> Any:
    """The value for given variables, which may be ints or integer NumPy arrays; predicates give 0 or 1.

    Arrays are computed in int64.  Raises IRError for a variable without a value, ResourceError where an
    array could hold a value past 63 bits.

    >>> i = Var("i", 8)
    >>> evaluate(i % 4 * 2 + 1, {i: 7})
    7
    """
    return _evaluate(node, {v: x.astype("int64") if hasattr(x, "astype") else x for v, x in env.items()})


def _evaluate(node: Expr, known: dict[Any, Any]) -> Any:
    if node not in known:
        parts = [_evaluate(c, known) for c in children(node)]
        value = apply_operator(node, parts)
        if node.facts.hi >> 63 and hasattr(value, "astype"):
            raise ResourceError(f"bits of '{node}' in an int64 array", node.facts.hi.bit_length(), 63)
        known[node] = value
    return known[node]


def apply_operator(node: Expr, parts: list[Any]) -> Any:
    """The value of a node from the values of its operands, ints or integer NumPy arrays.

    >>> apply_operator(Var("i", 8) + 1, [4, 1])
    5
    """
    match node:
        case Const(value):
            return value
        case Var(name):
            raise IRError("scope", node, f"no value is given for {name}")
        case Shl(_, amount):
            return parts[0] << amount
        case Shr(_, amount):
            return parts[0] >> amount
        case Select():
            test, yes, no = parts
            return test * yes + (1 - test) * no
        case Lt() | Le() | Eq():
            return OPERATION[type(node)](*parts) * 1
        case _:
            return OPERATION[type(node)](*parts)


def minus(a: Any, b: Any) -> Any:
    """a - b, and 0 where b is greater, of ints and NumPy arrays; where one is an expression, a Minus.

    >>> minus(9, 4), minus(4, 9), str(minus(Var("i", 8), 3))
    (5, 0, 'max(i - 3, 0)')
    """
    if isinstance(a, Expr) or isinstance(b, Expr):
        return Minus(as_expr(a), as_expr(b))
    return _monus(a, b)


def _monus(a: Any, b: Any) -> Any:
    return (a - b) * (a > b)


OPERATION: Mapping[type, Callable[[Any, Any], Any]] = {
    Add: operator.add, Minus: _monus, Mul: operator.mul, FloorDiv: operator.floordiv, Mod: operator.mod,
    Xor: operator.xor, And: operator.and_, Or: operator.or_,
    Lt: operator.lt, Le: operator.le, Eq: operator.eq,
}  # fmt: skip
"""What each operator of two operands computes, on ints and on NumPy arrays."""
