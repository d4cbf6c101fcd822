"""What an index expression costs: the integer instructions of its machine code, counted without compiling.

The idea.  On recent GPUs a few instructions do more than one operator of C, and that decides what an address
costs:

    IMAD, LEA    a * c + b         a product is free in a sum
    IADD3        a + b + c         two sums in one
    LOP3         any function of the bits of three inputs:  a ^ b & 56
    SHF ISETP SEL                  one operator each

so that the swizzled address `(tid * 8 ^ tid & 56) + i * 1024` is three instructions:

    >>> from layoutalg.codegen.expr import Var
    >>> tid, i = Var("tid", 128), Var("i", 4)
    >>> dict(instructions((tid * 8 ^ tid & 56) + i * 1024))
    {'LEA': 1, 'LOP3': 1, 'SHF': 1}

Notes.  A model, not a promise: the compiler sees more (ranges of thread indices, what neighbours share).  It
counts each distinct subexpression once, constants as immediates, x % 2^n as a mask, a quotient by a constant
as a high product and a shift, values past 32 bits twice.  Uniform forms (UIADD3, ULOP3, USHF, ULEA) count
like the vector ones.  Its test compares it with the SASS that NVRTC makes for sm_90a.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.codegen.expr.nodes import (
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
from layoutalg.codegen.expr.trees import is_power_of_two, is_predicate, terms

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
    """Name -> count of the SASS instructions of expressions, computed together, as they stand.

    `DIV` stands for the whole sequence of a quotient by a variable.

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
