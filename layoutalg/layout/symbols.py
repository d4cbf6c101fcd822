"""Symbols in shapes and strides: sympy expressions as leaves, and what can be decided about them.

The idea.  A leaf may be an integer expression such as 4*n*m, with n and m positive integer symbols, and
stands for every layout that its symbols' values give.  An operation then has to decide questions for ALL
values at once:

    is a <= b?           b - a has no negative coefficient after n = 1 + t, t >= 0, for every positive n
    does b divide a?     a / b cancels to an expression that is an integer
    is a == b?           a - b expands to 0

Each answer is True, False or None: not decided.  What is not decided is never guessed.  `require` raises an
UndecidedError that names the condition; inside `with_assumptions` it takes the condition for granted, and
the conditions come back with the result:

>>> import sympy
>>> from layoutalg.layout import Layout
>>> from layoutalg.compose import composition
>>> n, m = sympy.symbols("n m", integer=True, positive=True)
>>> result, assumptions = with_assumptions(composition, Layout((n, m), (m, 1)), Layout(4))
>>> print(result, assumptions)
4:m (4 <= n,)

Notes.  Assumptions may also be put into the symbols: 64*k instead of n states that n is a multiple of 64, and
8 + k that it is larger than 8.  Leaves are kept expanded, so that equal polynomials are equal leaves.
sympy is imported only where one of its expressions is met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from layoutalg.errors import ArgumentTypeError, UndecidedError, UnsupportedError, shown
from layoutalg.optional import is_of

Result = TypeVar("Result")


class _Assumed:
    """The conditions taken for granted so far, and what follows from the simple ones."""

    def __init__(self) -> None:
        self.conditions: list[Any] = []
        self.multiples: dict[Any, Any] = {}
        self.origins: dict[Any, Any] = {}
        self.bounds: dict[Any, Any] = {}

    def add(self, condition: Any) -> None:
        """Note `condition`: n % c == 0 makes n a multiple c*k of a new symbol, c <= n bounds n from below."""
        import sympy

        self.conditions.append(condition)
        if isinstance(condition, sympy.Eq) and isinstance(condition.lhs, sympy.Mod):
            symbol, step = condition.lhs.args
            fresh = symbol.is_Symbol and symbol not in self.multiples and symbol not in step.free_symbols
            if fresh and step.is_positive:
                factor = sympy.Dummy(symbol.name, integer=True, positive=symbol.is_positive)
                self.multiples[symbol] = step.xreplace(self.multiples) * factor
                self.origins[factor] = symbol / step
        elif isinstance(condition, sympy.Le) and condition.lhs.is_Integer and condition.rhs.is_Symbol:
            self.bounds[condition.rhs] = max(condition.lhs, self.bounds.get(condition.rhs, condition.lhs))

    def view(self, value: Any) -> Any:
        """`value` with every symbol that is a multiple written as one."""
        return value.xreplace(self.multiples) if self.multiples else value

    def back(self, value: Any) -> Any:
        """Inverse of `view`."""
        for _ in self.origins:
            value = value.xreplace(self.origins)
        return value


_assumed: ContextVar[_Assumed | None] = ContextVar("assumed", default=None)


def with_assumptions(
    operation: Callable[..., Result], *operands: Any, **options: Any
) -> tuple[Result, tuple[Any, ...]]:
    """(operation(*operands), the conditions it took for granted): sympy relations, in the order met.

    The result is right for all values of the symbols that satisfy every condition.  Raises what the operation
    raises, except for an UndecidedError over one condition.

    >>> import sympy
    >>> from layoutalg.algebra import complement
    >>> from layoutalg.layout import Layout
    >>> n, ld = sympy.symbols("n ld", integer=True, positive=True)
    >>> result, assumptions = with_assumptions(complement, Layout((n, 8), (1, ld)), 8 * ld)
    >>> print(result, assumptions)
    ld/n:n (Eq(Mod(ld, n), 0),)
    """
    if not callable(operation):
        raise ArgumentTypeError(f"with_assumptions of {shown(operation)}: an operation is needed")
    known = _Assumed()
    token = _assumed.set(known)
    try:
        result = operation(*operands, **options)
    finally:
        _assumed.reset(token)
    return result, tuple(known.conditions)


def is_symbolic(value: object) -> bool:
    """True for a sympy expression; sympy is not imported to find out.

    >>> is_symbolic(8)
    False
    """
    return type(value) is not int and is_of(value, "sympy", "Expr")


def is_index_expression(value: object) -> bool:
    """True for an index expression of layoutalg.codegen, which is not imported to find out.

    >>> is_index_expression(8)
    False
    """
    return type(value).__module__.startswith("layoutalg.codegen.")


def canonical(value: Any) -> Any:
    """The expression expanded, a plain int when it is one, with ceilings for negated floors.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> canonical(n * (n + 1) - n), canonical(-((-n) // 4)), canonical(sympy.Integer(3))
    (n**2, ceiling(n/4), 3)
    """
    import sympy

    value = sympy.expand(value)
    if value.has(sympy.floor):
        value = value.replace(
            lambda term: isinstance(term, sympy.floor) and term.args[0].could_extract_minus_sign(),
            lambda term: -sympy.ceiling(-term.args[0]),
        )
    return int(value) if value.is_Integer else value


def symbolic_leaf(value: Any, what: str) -> Any:
    """The canonical form of a leaf, which must be an integer for all integer values of its symbols.

    Raises ArgumentTypeError when that does not follow.  A symbol that is not declared an integer stands for
    integers too, but only what holds for all numbers is decided about it.

    >>> import sympy
    >>> symbolic_leaf(2 * sympy.Symbol("n", integer=True), "shape")
    2*n
    """
    leaf = canonical(value)
    if type(leaf) is not int and leaf.is_integer is not True:
        import sympy

        open_symbols = [s for s in leaf.free_symbols if s.is_integer is None]
        declared = {s: sympy.Dummy(s.name, integer=True) for s in open_symbols}
        if leaf.xreplace(declared).is_integer is not True:
            raise ArgumentTypeError(f"{what} has {value}, which need not be an integer where its symbols are")
    return leaf


def quotient(a: Any, b: Any) -> Any:
    """a / b when that is an integer for all values of the symbols; None where this is not proved.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> quotient(4 * n * n, 2 * n), quotient(n, 4), quotient(12, 4)
    (2*n, None, 3)
    """
    if type(a) is int and type(b) is int:
        return a // b if b and a % b == 0 else None
    import sympy

    known = _assumed.get() or _Assumed()
    a, b = sympy.sympify(a), sympy.sympify(b)
    ratio = canonical(sympy.cancel(canonical(known.view(a)) / known.view(b)))
    return canonical(known.back(sympy.sympify(ratio))) if type(ratio) is int or ratio.is_integer else None


def is_nonnegative(value: Any) -> bool:
    """True when `value` >= 0 is proved for all values of the symbols.

    Every integer symbol, floor, ceiling or remainder x is written as its least value plus t, t >= 0; a
    polynomial in the t without negative coefficients is not negative.

    >>> import sympy
    >>> n, m = sympy.symbols("n m", integer=True, positive=True)
    >>> is_nonnegative(n * m - n), is_nonnegative(n - 2)
    (True, False)
    """
    import sympy

    known = _assumed.get() or _Assumed()
    value = sympy.sympify(canonical(known.view(sympy.sympify(value))))
    if value.is_nonnegative:
        return True
    polynomial = value.as_poly()
    if polynomial is None:
        return False
    shifted = {}
    for x in polynomial.gens:
        if not x.is_nonnegative:
            return False
        least = max(int(bool(x.is_integer and x.is_positive)), known.bounds.get(x, 0))
        shifted[x] = least + sympy.Dummy(nonnegative=True)
    terms = sympy.Add.make_args(sympy.expand(value.xreplace(shifted)))
    return all(term.is_nonnegative for term in terms)


def decide(condition: Any) -> bool | None:
    """True or False where one is proved for all values of the symbols; None where neither is.

    Conditions are Eq, Ne and Le of two expressions; Eq(Mod(a, b), 0) asks whether b divides a.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> decide(sympy.Le(1, n)), decide(sympy.Le(2, n)), decide(sympy.Eq(4 * n, 4 * n + 1))
    (True, None, False)
    """
    import sympy

    if condition in (True, False):
        return bool(condition)
    known = _assumed.get()
    if known is not None and condition in known.conditions:
        return True
    if isinstance(condition, sympy.Ne):
        equal = decide(sympy.Eq(condition.lhs, condition.rhs))
        return None if equal is None else not equal
    left, right = condition.lhs, condition.rhs
    if isinstance(condition, sympy.Le):
        return True if is_nonnegative(right - left) else False if is_nonnegative(left - right - 1) else None
    if isinstance(left, sympy.Mod):
        a, b = left.args
        if quotient(a, b) is not None:
            return True
        return False if is_nonnegative(a - 1) and is_nonnegative(b - a - 1) else None
    difference = left - right
    if canonical(difference) == 0:
        return True
    return False if is_nonnegative(difference - 1) or is_nonnegative(-difference - 1) else None


def require(operation: str, condition: Any) -> bool:
    """True when `condition` is proved or taken for granted, False when its opposite is proved.

    Raises UndecidedError, with the condition, outside `with_assumptions`.

    >>> import sympy
    >>> require("composition", sympy.Le(1, sympy.Symbol("n", integer=True, positive=True)))
    True
    """
    answer = decide(condition)
    if answer is not None:
        return answer
    known = _assumed.get()
    if known is None:
        raise UndecidedError(
            f"{operation}: it is not decided whether {condition}; give the symbols assumptions that settle "
            f"it (positive=True, 4*k for a multiple of 4), or take it for granted by with_assumptions",
            condition=condition,
        )
    known.add(condition)
    return True


def substituted(value: Any, values: Mapping[Any, int]) -> Any:
    """An integer, expression or tree of them, with integers for its symbols.

    Raises UnsupportedError for what the values do not decide, and ArgumentTypeError for values that are not
    integers, or keys that are not symbols.

    >>> from sympy import Symbol
    >>> substituted((Symbol("ld") + 8, 1), {Symbol("ld"): 64})
    (72, 1)
    """
    import sympy

    if isinstance(value, tuple):
        return tuple(substituted(v, values) for v in value)
    if isinstance(value, int):
        return value
    for symbol, number in values.items():
        if not isinstance(symbol, sympy.Symbol) or type(number) is not int:
            raise ArgumentTypeError(f"{symbol!r}: {number!r}; an integer for each sympy Symbol is needed")
    result = value.subs(values)
    if not result.is_Integer:
        raise UnsupportedError(f"{value} is {result} for {dict(values)}; an integer is needed")
    return int(result)


def free_symbols(*values: Any) -> set[Any]:
    """The symbols in integers, expressions and trees of them.

    >>> from sympy import Symbol
    >>> free_symbols((2 * Symbol("ld") + 8, 1), 4)
    {ld}
    """
    parts = [free_symbols(*v) if isinstance(v, tuple) else getattr(v, "free_symbols", ()) for v in values]
    return {symbol for part in parts for symbol in part}


def divides(b: Any, a: Any) -> Any:
    """The condition that `b` divides `a`.

    >>> import sympy
    >>> divides(4, sympy.Symbol("n", integer=True))
    Eq(Mod(n, 4), 0)
    """
    import sympy

    return sympy.Eq(sympy.Mod(a, b), 0)
