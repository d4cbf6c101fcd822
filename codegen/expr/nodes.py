"""Nodes of index expressions: a closed union of immutable records, each with what is known of its value.

The idea.  A node is its operator and its operands; its facts (interval, congruence, bits) and its hash are
computed once, when it is built, from the operands':

    >>> (Var("i", 8) * 4 + 1).facts.hi, Var("i", 8) * 4 == Var("i", 8) * 4
    (29, True)

Questions about whole expressions (variables, values, substitutes) are answered in expr.

Notes.  All values are >= 0.  `a - b` is a Minus where the facts prove that it is never below 0, and refused
elsewhere; built by its name, Minus(a, b) is 0 where b is greater.  `==` compares structure; the predicate is
the method `eq`.  Truth-testing a node raises.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from layoutalg.codegen.expr import facts as F
from layoutalg.codegen.expr.facts import Facts
from layoutalg.codegen.expr.names import check_variable
from layoutalg.errors import ArgumentTypeError, IRError

VarKind: TypeAlias = Literal["thread", "block", "loop", "unroll", "param", "let", "base", "place", "data"]

GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)
"""Blocks of a grid along x, y and z, at most.  Source: CUDA C++ Programming Guide, compute capabilities."""

_MOST_BLOCKS = dict(zip(("block_x", "block_y", "block_z"), GRID_LIMITS, strict=True))


class _Operators:
    """Python's operators build nodes; ints become constants.  (`self` is an Expr, which this cannot say.)"""

    __slots__ = ()

    def __add__(self: Any, other: Operand) -> Expr:
        return Add(self, _as_expr(other))

    def __radd__(self: Any, other: Operand) -> Expr:
        return Add(_as_expr(other), self)

    def __sub__(self: Any, other: Operand) -> Expr:
        return _difference(self, _as_expr(other))

    def __rsub__(self: Any, other: Operand) -> Expr:
        return _difference(_as_expr(other), self)

    def __mul__(self: Any, other: Operand) -> Expr:
        return Mul(self, _as_expr(other))

    def __rmul__(self: Any, other: Operand) -> Expr:
        return Mul(_as_expr(other), self)

    def __floordiv__(self: Any, other: Operand) -> Expr:
        return FloorDiv(self, _as_expr(other))

    def __mod__(self: Any, other: Operand) -> Expr:
        return Mod(self, _as_expr(other))

    def __xor__(self: Any, other: Operand) -> Expr:
        return Xor(self, _as_expr(other))

    def __rxor__(self: Any, other: Operand) -> Expr:
        return Xor(_as_expr(other), self)

    def __and__(self: Any, other: Operand) -> Expr:
        return And(self, _as_expr(other))

    def __rand__(self: Any, other: Operand) -> Expr:
        return And(_as_expr(other), self)

    def __or__(self: Any, other: Operand) -> Expr:
        return Or(self, _as_expr(other))

    def __ror__(self: Any, other: Operand) -> Expr:
        return Or(_as_expr(other), self)

    def __lshift__(self: Any, amount: int) -> Expr:
        return Shl(self, amount)

    def __rshift__(self: Any, amount: int) -> Expr:
        return Shr(self, amount)

    def __lt__(self: Any, other: Operand) -> Expr:
        return Lt(self, _as_expr(other))

    def __le__(self: Any, other: Operand) -> Expr:
        return Le(self, _as_expr(other))

    def __gt__(self: Any, other: Operand) -> Expr:
        return Lt(_as_expr(other), self)

    def __ge__(self: Any, other: Operand) -> Expr:
        return Le(_as_expr(other), self)

    def eq(self: Any, other: Operand) -> Expr:
        """The predicate `self == other` (the operator == compares structure)."""
        return Eq(self, _as_expr(other))

    def __bool__(self) -> bool:
        raise IRError("no truth value", self, f"'{self}' is decided when the kernel runs, not by Python")


@dataclass(frozen=True, slots=True, eq=False)
class _Node(_Operators):
    """The base of all nodes: facts and a hash, computed once from the operands'; equality is structural."""

    facts: Facts = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The operands, left to right."""
        return ()

    def _seal(self, facts: Facts) -> None:
        object.__setattr__(self, "facts", facts)
        object.__setattr__(self, "_hash", hash((type(self).__name__, self._key())))

    def _key(self) -> tuple[object, ...]:
        names: tuple[str, ...] = self.__match_args__
        return tuple([getattr(self, name) for name in names])

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or self._hash != other._hash:
            return False
        return self._key() == other._key()

    def __reduce__(self) -> tuple[type[_Node], tuple[object, ...]]:
        return type(self), self._key()

    def __str__(self) -> str:
        return render(_as_expr(self))


@dataclass(frozen=True, slots=True, eq=False)
class Var(_Node):
    """A named value in [lo, extent), `offset` modulo `multiple`; `extent` may itself be an expression.

    `kind` says when the value is fixed: thread, block, loop, unroll, param, let, base (a uniform base
    address), place (an index that a loop carries along) or data (the number of a register, of which nothing
    is known but its range); lowering is decided by it.  Of the block kind, block_x, block_y and block_z have
    no more values than GRID_LIMITS.  `exists` says of a let when no difference in its value is below 0, None
    where none can be.  Raises IRError for an empty range and a name that cannot be printed.

    >>> Var("lane", 32).facts.hi
    31
    """

    name: str
    extent: Expr | int
    kind: VarKind = "thread"
    lo: int = 0
    multiple: int = 1
    offset: int = 0
    exists: Expr | None = None

    def __post_init__(self) -> None:
        check_variable(self.name)
        top = self.extent if isinstance(self.extent, int) else self.extent.facts.hi
        if self.kind == "block":
            top = min(top, _MOST_BLOCKS.get(self.name, GRID_LIMITS[0]))
        first = self.lo + (self.offset - self.lo) % self.multiple if self.multiple > 0 else top
        if self.lo < 0 or first >= top:
            what = "no value" if self.multiple == 1 else f"no multiple of {self.multiple}"
            what += f" plus {self.offset}" if self.offset else ""
            raise IRError("variable range", self.name, f"{self.name} in [{self.lo}, {top}) has {what} >= 0")
        self._seal(F.between(first, top - 1, self.multiple, self.offset % self.multiple))

    def _key(self) -> tuple[object, ...]:
        return self.name, self.extent, self.kind, self.lo, self.multiple, self.offset, self.exists


@dataclass(frozen=True, slots=True, eq=False)
class Const(_Node):
    """A non-negative integer.

    >>> str(Const(3) + 4)
    '3 + 4'
    """

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise IRError("non-negative", self.value, f"constant {self.value}: index values are >= 0")
        self._seal(F.constant(self.value))

    def _key(self) -> tuple[object, ...]:
        return (self.value,)


@dataclass(frozen=True, slots=True, eq=False)
class _Binary(_Node):
    """Two operands; the table _TRANSFER gives each operator its facts."""

    a: Expr
    b: Expr

    def __post_init__(self) -> None:
        self._seal(_TRANSFER[type(self)](self.a.facts, self.b.facts))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.a, self.b

    def _key(self) -> tuple[object, ...]:
        return self.a, self.b


@dataclass(frozen=True, slots=True, eq=False)
class Add(_Binary):
    """a + b"""


@dataclass(frozen=True, slots=True, eq=False)
class Minus(_Node):
    """a - b, and 0 where b is greater than a: no value is below 0.

    `exact`: b is never greater, as the facts prove, or the branch in which the difference is used.

    >>> i = Var("i", 8)
    >>> str(Minus(Const(7), i)), str(Minus(i, Const(3)))
    ('7 - i', 'max(i - 3, 0)')
    """

    a: Expr
    b: Expr
    exact: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", self.exact or self.a.facts.lo >= self.b.facts.hi)
        self._seal(F.subtract(self.a.facts, self.b.facts))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.a, self.b


@dataclass(frozen=True, slots=True, eq=False)
class Mul(_Binary):
    """a * b"""


@dataclass(frozen=True, slots=True, eq=False)
class FloorDiv(_Binary):
    """a // b with b >= 1; v // b < q where v runs over a range of q * b values."""

    def __post_init__(self) -> None:
        _check_divisor(self.a, self.b)
        facts = F.floordiv(self.a.facts, self.b.facts)
        match self.a:
            case Var(extent=Mul(q, d)) if self.b in (q, d):
                quotient = q if self.b == d else d
                hi = min(facts.hi, quotient.facts.hi - 1)
                facts = F.reconcile(facts.lo, hi, facts.stride, facts.offset, facts.may, facts.must)
        self._seal(facts)


@dataclass(frozen=True, slots=True, eq=False)
class Mod(_Binary):
    """a % b with b >= 1"""

    def __post_init__(self) -> None:
        _check_divisor(self.a, self.b)
        _Binary.__post_init__(self)


@dataclass(frozen=True, slots=True, eq=False)
class Xor(_Binary):
    """a ^ b"""


@dataclass(frozen=True, slots=True, eq=False)
class And(_Binary):
    """a & b; for two predicates, their conjunction"""


@dataclass(frozen=True, slots=True, eq=False)
class Or(_Binary):
    """a | b; for two predicates, their disjunction"""


@dataclass(frozen=True, slots=True, eq=False)
class Lt(_Binary):
    """1 if a < b else 0"""


@dataclass(frozen=True, slots=True, eq=False)
class Le(_Binary):
    """1 if a <= b else 0"""


@dataclass(frozen=True, slots=True, eq=False)
class Eq(_Binary):
    """1 if a == b else 0"""


@dataclass(frozen=True, slots=True, eq=False)
class _Shift(_Node):
    """A shift by a constant amount."""

    a: Expr
    amount: int

    def __post_init__(self) -> None:
        if not isinstance(self.amount, int) or self.amount < 0:
            raise IRError("shift amount", self.amount, f"shift by {self.amount!r}: a constant >= 0 is needed")
        self._seal(_TRANSFER[type(self)](self.a.facts, F.constant(1 << self.amount)))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True, slots=True, eq=False)
class Shl(_Shift):
    """a << amount"""


@dataclass(frozen=True, slots=True, eq=False)
class Shr(_Shift):
    """a >> amount"""


@dataclass(frozen=True, slots=True, eq=False)
class Select(_Node):
    """a if condition else b"""

    condition: Expr
    a: Expr
    b: Expr

    def __post_init__(self) -> None:
        self._seal(F.join(self.a.facts, self.b.facts))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.condition, self.a, self.b


Expr: TypeAlias = (
    Var | Const | Add | Minus | Mul | FloorDiv | Mod | Xor | And | Or | Shl | Shr | Select | Lt | Le | Eq
)
Operand: TypeAlias = "Expr | int"


def as_expr(value: Operand) -> Expr:
    """The node itself, or an int as a constant.  Raises ArgumentTypeError for anything else.

    >>> as_expr(3)
    Const(value=3)
    """
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{value} is a bool; an int or an index expression is needed")
    return _as_expr(value)


def _as_expr(value: object) -> Expr:
    if isinstance(value, _Node):
        return value  # type: ignore[return-value]  # the union has all nodes
    try:
        return _number(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        kind = type(value).__name__
        raise ArgumentTypeError(f"{value!r} is a {kind}; an int or an index expression is needed") from None


@functools.lru_cache(maxsize=1 << 12)
def _number(value: int) -> Const:
    return Const(value)


def _difference(a: Expr, b: Expr) -> Minus:
    difference = Minus(a, b)
    if not difference.exact:
        raise IRError(
            "difference", difference, f"'{a}' - '{b}' can be below 0: from at least {a.facts.lo} up to "
            f"{b.facts.hi} are taken; minus(a, b) is 0 there, and a - b < c is a < b + c",
        )  # fmt: skip
    return difference


def _check_divisor(a: Expr, b: Expr) -> None:
    if b.facts.lo < 1:
        raise IRError("division by zero", b, f"the divisor of {a} can be {b.facts.lo}; it must be at least 1")


_TRANSFER: Mapping[type, Callable[[Facts, Facts], Facts]] = {
    Add: F.add, Mul: F.mul, FloorDiv: F.floordiv, Mod: F.mod,
    Xor: F.bitwise_xor, And: F.bitwise_and, Or: F.bitwise_or,
    Lt: F.less_than, Le: F.less_equal, Eq: F.equal, Shl: F.mul, Shr: F.floordiv,
}  # fmt: skip
# symbol and binding strength of each operator, C's order: higher binds tighter
SYMBOL: Mapping[type, tuple[str, int]] = {
    Mul: ("*", 10), FloorDiv: ("//", 10), Mod: ("%", 10), Add: ("+", 9), Minus: ("-", 9),
    Shl: ("<<", 8), Shr: (">>", 8), Lt: ("<", 7), Le: ("<=", 7), Eq: ("==", 6),
    And: ("&", 5), Xor: ("^", 4), Or: ("|", 3),
}  # fmt: skip


def render(node: Expr) -> str:
    """The expression as Python text, with as few parentheses as Python and C read alike.

    >>> i = Var("i", 8)
    >>> render((i + 1) * 2 ^ (i >> 1)), render((i < 4) & (i + 1 <= 7))
    ('(i + 1) * 2 ^ i >> 1', '(i < 4) & (i + 1 <= 7)')
    """
    return _render(node, 0)


def _render(node: Expr, outer: int) -> str:
    match node:
        case Var(name):
            return name
        case Const(value):
            return str(value)
        case Select(c, a, b):
            return f"({_render(a, 0)} if {_render(c, 0)} else {_render(b, 0)})"
        case Minus(a, b) if not node.exact:
            return f"max({_render(a, SYMBOL[Minus][1])} - {_render(b, SYMBOL[Minus][1] + 1)}, 0)"
        case Shl(a, amount) | Shr(a, amount):
            symbol, power = SYMBOL[type(node)]
            text = f"{_render(a, power)} {symbol} {amount}"
        case _:
            symbol, power = SYMBOL[type(node)]
            text = f"{_render(node.a, power)} {symbol} {_render(node.b, power + 1)}"
    compared = isinstance(node, Lt | Le | Eq)  # binds looser than & ^ | in Python, tighter in C
    return f"({text})" if power < outer or (compared and outer) else text
