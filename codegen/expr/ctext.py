"""Index expressions as C text, and what that text costs in machine instructions.

The idea.  Text is 32 bits wide where that is proved enough, 64 where it is not.  Every value is >= 0, so
unsigned C arithmetic agrees with the expression as long as nothing wraps.  The interval of a node tells its
width: below 2^32 the node is computed in `u32`; above, an operand is widened to `u64` exactly where two
narrow operands meet a wide result:

    row * ld + col     with row, ld < 2^30      ->     (u64)row * ld + col

A difference is computed modulo the width, which is what it is wherever it is proved not to be below 0;
elsewhere it is compared first, and 0 there:

    15 - i                              ->     15 - i                       of i < 16
    Minus(n, i)                         ->     i < n ? n - i : 0

A literal and a comparison are ints in C.  Beside an unsigned operand C converts them; where no operand is
unsigned they are written so.  No operation is done on signed integers:

    y + (x < 4 ? 1 : 2) * 3                     ->     y + (x < 4 ? 1u : 2u) * 3

The cost is counted without compiling.  On recent GPUs a few instructions do more than one operator of C, and
that decides what an address costs:

    IMAD, LEA    a * c + b         a product is free in a sum
    IADD3        a + b + c         two sums in one
    LOP3         any function of the bits of three inputs:  a ^ b & 56
    SHF ISETP SEL                  one operator each

so that the swizzled address `(tid * 8 ^ tid & 56) + i * 1024` is three instructions:

    >>> tid, i = Var("tid", 128), Var("i", 4)
    >>> dict(instructions((tid * 8 ^ tid & 56) + i * 1024))
    {'LEA': 1, 'LOP3': 1, 'SHF': 1}

Notes.  The cost is a model, not a promise: the compiler sees more (ranges of thread indices, what neighbours
share).  It counts each distinct subexpression once, constants as immediates, x % 2^n as a mask, a quotient by
a constant as a high product and a shift, values past 32 bits twice.  Uniform forms (UIADD3, ULOP3, USHF,
ULEA) count like the vector ones.  Its test compares it with the SASS that NVRTC makes for sm_90a.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

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
    Or,
    Select,
    Shl,
    Shr,
    Var,
    Xor,
)
from layoutalg.codegen.expr.trees import (
    is_power_of_two,
    is_predicate,
    signed_terms,
    terms,
)
from layoutalg.errors import ResourceError

_SELECT_POWER = 1
_CAST_POWER = 11
_Rank: TypeAlias = Literal[0, 1, 2]
_INT: Final = 0
_U32: Final = 1
_U64: Final = 2
"""C types of a text, the narrower first; an int is a literal below 2^31 or a truth value."""


def is_wide(node: Expr) -> bool:
    """True when the value may need 64 bits.  Raises ResourceError past 64.

    >>> is_wide(Var("i", 2**32)), is_wide(Var("i", 2**32 + 1))
    (False, True)
    """
    if node.facts.hi >= 1 << 64:
        raise ResourceError(f"bits of index {node}", node.facts.hi.bit_length(), 64)
    return node.facts.hi >= 1 << 32


def ctype(node: Expr) -> str:
    """`u32` or `u64`: the type that holds every value of the expression.

    >>> ctype(Var("i", 100))
    'u32'
    """
    return "u64" if is_wide(node) else "u32"


def to_c(node: Expr) -> str:
    """The expression in C, with casts where the proved bound needs 64 bits.

    >>> i, ld = Var("i", 1 << 30), Var("ld", 1 << 30, "param")
    >>> to_c(i * ld + 3), to_c(i % 8 * 4)
    ('(u64)i * ld + 3', 'i % 8 * 4')
    """
    return _emit(node, 0)[0]


def summands(node: Expr) -> str:
    """The summands of a sum, to be added to a pointer one by one.

    Pointers do not wrap, so that the compiler may add the parts in any order and fold constants into the
    address; a sum in 32 bits it must add as it is.  Of an exact difference both parts are summands.

    >>> i, ld = Var("i", 1 << 30), Var("ld", 1 << 30, "param")
    >>> summands(i * ld + (i ^ 8) + 3)
    '(u64)i * ld + (i ^ 8) + 3'
    """
    texts = [(_emit(t, SYMBOL[Add][1] + 1)[0], sign) for t, sign in signed_terms(node)]
    return texts[0][0] + "".join(f" {'+' if sign > 0 else '-'} {text}" for text, sign in texts[1:])


def _emit(node: Expr, outer: int) -> tuple[str, _Rank]:
    """The text of a node and its C type."""
    match node:
        case Var(name):
            return name, _U64 if is_wide(node) else _U32
        case Const(value):
            if value < 1 << 31:
                return str(value), _INT
            return (f"{value}ull", _U64) if is_wide(node) else (f"{value}u", _U32)
        case Select(c, a, b):
            condition = _emit(c, _SELECT_POWER + 1)[0]
            left, right, rank = _pair(a, _SELECT_POWER + 1, b, _SELECT_POWER, wide=False)
            return _wrap(f"{condition} ? {left} : {right}", _SELECT_POWER, outer), rank
        case Shl(a, amount) | Shr(a, amount):
            if amount >= 64 and not (is_wide(a) and is_wide(node)):
                return "0", _INT  # C shifts by less than the width, and no value has bits past 64
            symbol, power = SYMBOL[type(node)]
            left, rank = _emit(a, power)
            if rank < _U64 and (is_wide(node) or amount >= 32):
                left, rank = _widen(a), _U64
            elif rank == _INT:
                left, rank = _unsigned(a), _U32
            return _wrap(f"{left} {symbol} {amount}", power, outer), rank
        case _:
            return _emit_binary(node, outer)


def _emit_binary(node: Expr, outer: int) -> tuple[str, _Rank]:
    match node:
        case Var() | Const() | Select() | Shl() | Shr():
            raise TypeError(node)
        case Minus() if not node.exact:
            return _emit_monus(node, outer)
    symbol, power = SYMBOL[type(node)]
    if isinstance(node, FloorDiv):
        symbol = "/"
    if is_predicate(node):
        if isinstance(node, (And, Or)):
            symbol, power = ("&&", 3) if isinstance(node, And) else ("||", 2)
        left, right = _emit(node.a, power)[0], _emit(node.b, power + 1)[0]
        return _wrap(f"{left} {symbol} {right}", power, outer), _INT
    bitwise = isinstance(node, (Xor, And, Or))
    same = type(node.a) is type(node)  # mixed with anything else, a bitwise operand gets its parentheses
    strong = _CAST_POWER if bitwise else power + 1
    left, right, rank = _pair(node.a, power if same or not bitwise else strong, node.b, strong, is_wide(node))
    return _wrap(f"{left} {symbol} {right}", power, outer), rank


def _emit_monus(node: Minus, outer: int) -> tuple[str, _Rank]:
    power = SYMBOL[Minus][1]
    left, right, rank = _pair(node.a, power, node.b, power + 1, wide=False)
    positive = to_c(Lt(node.b, node.a))
    return _wrap(f"{positive} ? {left} - {right} : 0", _SELECT_POWER, outer), rank


def _pair(a: Expr, power_a: int, b: Expr, power_b: int, wide: bool) -> tuple[str, str, _Rank]:
    """Two operands that C brings to one type, unsigned and as wide as the result, and that type.

    One unsigned operand makes the other one unsigned; where both are ints, each is made so.
    """
    (left, rank_a), (right, rank_b) = _emit(a, power_a), _emit(b, power_b)
    rank = max(rank_a, rank_b)
    if wide and rank < _U64:
        return _widen(a), right, _U64
    return (_unsigned(a), _unsigned(b), _U32) if rank == _INT else (left, right, rank)


def _widen(node: Expr) -> str:
    return f"(u64){_emit(node, _CAST_POWER)[0]}"


def _unsigned(node: Expr) -> str:
    """Convert what C holds as an int, a short literal or a truth value, to u32."""
    return f"{node.value}u" if isinstance(node, Const) else f"(u32){_emit(node, _CAST_POWER)[0]}"


def _wrap(text: str, power: int, outer: int) -> str:
    return f"({text})" if power < outer else text


# --- what it costs -----------------------------------------------------------------------------------------

VARIABLE_DIVISION = 18
"""Instructions of a 32-bit quotient by a variable: float reciprocal, two corrections (measured, sm_90a)."""


def index_cost(*nodes: Expr) -> int:
    """Integer instructions of one or several expressions together, equal parts counted once.

    >>> from layoutalg.codegen.expr import Var
    >>> i = Var("i", 256)
    >>> index_cost(i // 8 * 33 + i % 8), index_cost(i // 12), index_cost(i // 8, i // 8 + 1)
    (3, 2, 2)
    """
    return sum(instructions(*nodes).values())


def instructions(*nodes: Expr) -> Mapping[str, int]:
    """Name -> count of the SASS instructions of expressions, computed together, as they are.

    `DIV` counts the whole sequence of a quotient by a variable.

    >>> from layoutalg.codegen.expr import Var
    >>> dict(instructions(Var("i", 256) % 12))
    {'IMAD': 2, 'SHF': 1}
    """
    counts: Counter[str] = Counter()
    seen: set[Expr] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            names, operands = _work(node)
            for name in names:
                counts[name] += 2 if node.facts.hi >> 32 else 1
            waiting += operands
    return MappingProxyType(dict(sorted(counts.items())))


def _work(node: Expr) -> tuple[list[str], list[Expr]]:
    """The instructions of one node, given its operands, and the operands."""
    match node:
        case Var() | Const():
            return [], []
        case Add():
            products = [t for t in terms(node) if isinstance(t, Mul)]
            plain = [t for t in terms(node) if not isinstance(t, Mul)]
            names = ["LEA" if _shifts(t) else "IMAD" for t in products] + ["IADD3"] * (len(plain) // 2)
            return names, [*plain, *(part for t in products for part in (t.a, t.b))]
        case Minus(a, b):
            operands = [a, *terms(b)]
            products = [t for t in operands if isinstance(t, Mul)]
            plain = [t for t in operands if not isinstance(t, Mul)]
            names = ["IMAD"] * len(products) + ["IADD3"] * (len(plain) // 2 + (not node.exact))
            return names, [*plain, *(part for t in products for part in (t.a, t.b))]
        case Mul(a, b):
            return ["SHF" if _shifts(node) else "IMAD"], [a, b]
        case Shl(a) | Shr(a):
            return ["SHF"], [a]
        case Mod(a, Const(c)) if is_power_of_two(c):
            return _bits(node)
        case FloorDiv(FloorDiv(a, Const(c)), Const(d)):
            return [], [FloorDiv(a, Const(c * d))]
        case Mod(FloorDiv() as a, Const()):  # the compiler shares this quotient with none
            return ["IMAD", "IMAD", "SHF"], [a]
        case FloorDiv(a, Const(c)):
            return (["SHF"] if is_power_of_two(c) else ["IMAD", "SHF"]), [a]
        case FloorDiv(a, b):
            return ["DIV"] * VARIABLE_DIVISION, [a, b]
        case Mod(a, b):
            return ["IMAD"], [FloorDiv(a, b), a, b]
        case And(a, b) | Or(a, b) if is_predicate(node):
            return [], [a, b]  # a comparison combines with an earlier one
        case And() | Or() | Xor():
            return _bits(node)
        case Lt(a, b) | Le(a, b) | Eq(a, b):
            return ["ISETP"], [a, b]
        case Select(c, a, b):
            return ["SEL"], [c, a, b]


def _shifts(product: Mul) -> bool:
    return isinstance(product.b, Const) and is_power_of_two(product.b.value)


def _bits(node: Expr) -> tuple[list[str], list[Expr]]:
    """A tree of bitwise operators: each LOP3 joins two more inputs to one."""
    inputs = list(dict.fromkeys(_inputs(node)))
    return ["LOP3"] * max(1, len(inputs) // 2), inputs


def _inputs(node: Expr) -> list[Expr]:
    match node:
        case And(a, b) | Or(a, b) | Xor(a, b) if not is_predicate(node):
            return _inputs(a) + _inputs(b)
        case Mod(a, Const(c)) if is_power_of_two(c):
            return [*_inputs(a), Const(c - 1)]
        case _:
            return [node]
