"""Index expressions: immutable trees with proved facts, rules that simplify them, and their text in C.

    names        which names may reach CUDA text
    facts        Facts: the interval and the congruence of a value
    nodes        the nodes: constants, variables, arithmetic, comparisons
    trees        queries on any tree: its variables, value, substitutions, summands and digits
    rewrite      applies rules until none matches
    rules_bits, rules_order, rules_sums   the rules, each proved by enumeration in its test
    simplifier   simplify: all rules together
    columns      an expression as a map over F2: its columns
    ctext        an expression as C, and what it costs in instructions

Expressions are only added, multiplied, divided by constants and compared; no layout ever holds one.
"""

from __future__ import annotations

from layoutalg.codegen.expr.columns import Affine, affine
from layoutalg.codegen.expr.ctext import ctype, index_cost, summands, to_c
from layoutalg.codegen.expr.names import check_name
from layoutalg.codegen.expr.nodes import (
    GRID_LIMITS,
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
from layoutalg.codegen.expr.simplifier import simplify
from layoutalg.codegen.expr.trees import (
    OPERATION,
    apply_operator,
    evaluate,
    existing,
    is_predicate,
    minus,
    rebuild,
    resolved,
    substitute,
    terms,
    total,
    variables,
    weights,
)
