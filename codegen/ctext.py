"""Index expressions as C text, 32 bits wide where that is proved enough, 64 where it is not.

The idea.  Every value is >= 0, so unsigned C arithmetic agrees with the expression as long as nothing
wraps.  The interval of a node tells its width: below 2^32 the node is computed in `u32`; above, an operand
is widened to `u64` exactly where two narrow operands meet a wide result:

    row * ld + col     with row, ld < 2^30      ->     (u64)row * ld + col

`index_function` makes a complete C function of an expression, so that the text can be compiled with the
host compiler and compared with the layout over its whole domain.
"""

from __future__ import annotations

from layoutalg.codegen.expr import (
    SYMBOL,
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Or,
    Select,
    Shl,
    Shr,
    Var,
    Xor,
    is_predicate,
    variables,
)
from layoutalg.codegen.sums import terms
from layoutalg.errors import ResourceError

_SELECT_POWER = 1
_CAST_POWER = 11


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
    """The expression in C, with casts where the proved bound asks for 64 bits.

    >>> i, ld = Var("i", 1 << 30), Var("ld", 1 << 30, "param")
    >>> to_c(i * ld + 3), to_c(i % 8 * 4)
    ('(u64)i * ld + 3', 'i % 8 * 4')
    """
    return _emit(node, 0)[0]


def summands(node: Expr) -> str:
    """The summands of a sum, to be added to a pointer one by one.

    Pointers do not wrap, so that the compiler may add the parts in any order and fold constants into the
    address; a sum in 32 bits it must add as it stands.

    >>> i, ld = Var("i", 1 << 30), Var("ld", 1 << 30, "param")
    >>> summands(i * ld + (i ^ 8) + 3)
    '(u64)i * ld + (i ^ 8) + 3'
    """
    return " + ".join(_emit(t, SYMBOL[Add][1] + 1)[0] for t in terms(node))


def _emit(node: Expr, outer: int) -> tuple[str, bool]:
    """The text of a node and whether its C type is 64 bits wide."""
    match node:
        case Var(name):
            return name, is_wide(node)
        case Const(value):
            suffix = "ull" if is_wide(node) else "u" if value >= 1 << 31 else ""
            return f"{value}{suffix}", is_wide(node)
        case Select(c, a, b):
            left, wide_left = _emit(a, _SELECT_POWER + 1)
            right, wide_right = _emit(b, _SELECT_POWER)
            text = f"{_emit(c, _SELECT_POWER + 1)[0]} ? {left} : {right}"
            return _wrap(text, _SELECT_POWER, outer), wide_left or wide_right
        case Shl(a, amount) | Shr(a, amount):
            symbol, power = SYMBOL[type(node)]
            left, wide = _emit(a, power)
            if not wide and (is_wide(node) or amount >= 32):
                left, wide = _widen(a), True
            return _wrap(f"{left} {symbol} {amount}", power, outer), wide
        case _:
            return _emit_binary(node, outer)


def _emit_binary(node: Expr, outer: int) -> tuple[str, bool]:
    match node:
        case Var() | Const() | Select() | Shl() | Shr():
            raise TypeError(node)
    symbol, power = SYMBOL[type(node)]
    if isinstance(node, FloorDiv):
        symbol = "/"
    if isinstance(node, (And, Or)) and is_predicate(node):
        symbol, power = ("&&", 3) if isinstance(node, And) else ("||", 2)
    bitwise = isinstance(node, (Xor, And, Or)) and not is_predicate(node)
    same = type(node.a) is type(node)  # mixed with anything else, a bitwise operand gets its parentheses
    left, wide_left = _emit(node.a, _CAST_POWER if bitwise and not same else power)
    right, wide_right = _emit(node.b, _CAST_POWER if bitwise else power + 1)
    if isinstance(node.a, Const) and isinstance(node.b, Const) and left.isdigit():
        left += "u"  # two int literals would be added as signed ints
    if is_wide(node) and not wide_left and not wide_right:
        left, wide_left = _widen(node.a), True
    wide = (wide_left or wide_right) and not is_predicate(node)
    return _wrap(f"{left} {symbol} {right}", power, outer), wide


def _widen(node: Expr) -> str:
    return f"(u64){_emit(node, _CAST_POWER)[0]}"


def _wrap(text: str, power: int, outer: int) -> str:
    return f"({text})" if power < outer else text


TYPES = (
    "typedef unsigned char u8;\n"
    "typedef unsigned short u16;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
)
"""The integer types generated text uses."""


def index_function(node: Expr, name: str = "f") -> str:
    """C source of a function from the expression's variables, in order of their names, to its value.

    >>> print(index_function(Var("i", 8) * 4).splitlines()[-1])
    u32 f(u32 i) { return i * 4; }
    """
    args = sorted(variables(node), key=lambda v: v.name)
    signature = ", ".join(f"{ctype(v)} {v.name}" for v in args) or "void"
    return f"{TYPES}{ctype(node)} {name}({signature}) {{ return {to_c(node)}; }}\n"
