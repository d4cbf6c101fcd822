"""Rewriting: named theorems that replace a node by an equal one, and the driver that applies a table of them.

The idea.  A rule looks at one node, its operands already in normal form, and returns an equal expression or
None.  The driver works bottom-up: operands first, then the first rule of the table that fires, then again,
until none does.

    >>> from layoutalg.codegen.expr import Const, Expr, Mul, Var
    >>> def power(node: Expr) -> Expr | None:
    ...     match node:
    ...         case Mul(x, Const(8)):
    ...             return x << 3
    ...     return None
    >>> print(rewrite(Var("i", 8) * 8 + 3, Rules([Rule("x * 8 -> x << 3", power)])))
    (i << 3) + 3

Notes.  A sum is seen whole: its operands are its terms, not its partial sums, so that no rule settles for
half of it.  A normal form is reached once per distinct node: equal subexpressions share it.  Rules that undo
one another are a mistake in the table, not in the expression: the driver raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from layoutalg.codegen.expr.nodes import Add, Expr
from layoutalg.codegen.expr.trees import rebuild, terms, total
from layoutalg.errors import IRError

REWRITES_LIMIT = 1000
"""Rewrites one node may go through; real index code stays below twenty."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A theorem `name` and the rewrite it allows; None where it does not apply.

    It applies to nodes of the types `roots` alone; () means all types.
    """

    name: str
    apply: Callable[[Expr], Expr | None]
    roots: tuple[type, ...] = ()


def theorem(name: str, *roots: type) -> Callable[[Callable[[Expr], Expr | None]], Rule]:
    """The rule of a function, by what it proves, for nodes of some types."""
    return lambda apply: Rule(name, apply, roots)


class Rules:
    """Theorems in the order in which they are tried.

    >>> collect = Rule("x + x -> x * 2", lambda node: None, (Add,))
    >>> len(Rules([collect]).of(Add)), len(Rules([collect]).of(Expr))
    (1, 0)
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._of: dict[type, tuple[Rule, ...]] = {}

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def of(self, kind: type) -> tuple[Rule, ...]:
        """The rules that may apply to nodes of a type."""
        rules = self._of.get(kind)
        if rules is None:
            rules = tuple(rule for rule in self._rules if not rule.roots or kind in rule.roots)
            self._of[kind] = rules
        return rules


def rewrite(node: Expr, rules: Rules, done: dict[Expr, Expr] | None = None) -> Expr:
    """The expression with every rule applied wherever it applies.

    `done` holds normal forms by these rules, and those of all parts of this expression once it is returned.
    Raises IRError where a node still changes after REWRITES_LIMIT rewrites.

    >>> from layoutalg.codegen.expr import Const
    >>> print(rewrite(Const(3), Rules([])))
    3
    """
    return _rewrite(node, rules, {} if done is None else done)


def _rewrite(node: Expr, rules: Rules, done: dict[Expr, Expr]) -> Expr:
    current, name = node, ""
    for _ in range(REWRITES_LIMIT):
        if (known := done.get(current)) is not None:
            done[node] = known
            return known
        old = tuple(terms(current)) if isinstance(current, Add) else current.children
        new = tuple([_rewrite(operand, rules, done) for operand in old])
        if new != old:
            current = total(new) if isinstance(current, Add) else rebuild(current, new)
        for rule in rules.of(type(current)):
            step = rule.apply(current)
            if step is not None:
                current, name = step, rule.name
                break
        else:
            done[current] = done[node] = current
            return current
    raise IRError("normal form", node, f"'{node}' still changes after {REWRITES_LIMIT} rewrites, by '{name}'")
