"""Simplification: the table of every theorem the code generator uses, applied until none fires.

The idea.  A rule's name states what it proves; its condition reads the facts every node carries (interval,
congruence, bits).  For a 256-thread block walking rows of 64:

    0 + tid % 64 * 1 + tid // 64 % 4 * 64     ->   tid
    (row * 64 + col & 448) >> 3               ->   row % 8 * 8       for col < 64
    tid * 4 + 3 < n * 4                       ->   tid < n

Constants end on the right, multipliers are distributed over sums, a XOR or OR of disjoint bits becomes a
sum: the normal form that `lower` splits into thread base, XOR constant and immediate.

Notes.  No rule copies a variable, so the result never reads one more often than the input does.  Each rule
is proved exhaustively over small ranges in its test.  sympy is not used here: it knows neither ranges nor
bits.
"""

from __future__ import annotations

from layoutalg.codegen.expr.nodes import Expr
from layoutalg.codegen.expr.rewrite import Rules, rewrite
from layoutalg.codegen.expr.rules_bits import BIT_RULES
from layoutalg.codegen.expr.rules_order import MINUS_RULES, TRUTH_RULES
from layoutalg.codegen.expr.rules_sums import BASIC_RULES, SUM_RULES
from layoutalg.codegen.expr.trees import variables

RULES = Rules((*BASIC_RULES, *SUM_RULES, *MINUS_RULES, *BIT_RULES, *TRUTH_RULES))
"""Every theorem the simplifier uses, in the order they are tried."""


MOST_KNOWN = 1 << 16
"""Normal forms past which all are forgotten: those of some ten large kernels."""

_known: dict[Expr, Expr] = {}
"""Normal forms of expressions and of all their parts, most of which are needed again."""


def simplify(node: Expr) -> Expr:
    """The normal form of an expression: equal for every value of its variables.

    >>> from layoutalg.codegen.expr import Var
    >>> tid = Var("tid", 256)
    >>> str(simplify(tid % 64 * 1 + tid // 64 % 4 * 64))
    'tid'
    """
    form = _known.get(node)
    if form is None:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        form = rewrite(node, RULES, _known)
    return form


def forget() -> None:
    """Forget what is kept of expressions: normal forms and variables.

    >>> forget()
    """
    _known.clear()
    variables.cache_clear()
