"""Terms: what an index function computes, as a tree, and its values for whole arrays of coordinates at once.

The idea.  A function that was read, in C or in Python, becomes one tree of operators over its parameters.
Nothing of the text is executed; the tree is evaluated here, with the meaning that its language gives it:

    C        an operator has a type: int, unsigned, or one of 64 bits; operands are brought to it; unsigned
             ones wrap modulo 2^32 or 2^64, a signed one past its end has no value
    Python   integers without an end; // and % round down

Where C or Python gives no value (a division by zero, a shift by too many bits) the coordinate is bad, and the
operator that makes it so is known; in `c ? a : b` only the operand that is taken counts.

>>> row = variable("row")
>>> import numpy
>>> values, bad = evaluated(apply("%", (row, number(3))), {"row": numpy.arange(5)})
>>> values.tolist(), bad is None
([0, 1, 2, 0, 1], True)

Notes.  Values are held in 64-bit arrays; one that may reach 2^62 is refused, not wrapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.limits import Most

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CType(NamedTuple):
    """An integer type of C: its bits, and whether it has a sign."""

    bits: int
    signed: bool

    @property
    def least(self) -> int:
        """The least number it holds."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def greatest(self) -> int:
        """The greatest number it holds."""
        return (1 << (self.bits - self.signed)) - 1

    @property
    def promoted(self) -> CType:
        """The type that an operator takes it as: int, if that holds all of it."""
        return INT if self.bits < 32 else self

    def __str__(self) -> str:
        sign = "" if self.signed else "unsigned "
        return sign + {1: "bool", 8: "char", 16: "short", 32: "int", 64: "long long"}[self.bits]


INT, UNSIGNED = CType(32, True), CType(32, False)
LONG, UNSIGNED_LONG = CType(64, True), CType(64, False)
BOOL = CType(1, False)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An operator and its operands; "var" has a name, "const" a value.  `ctype` is None in Python.

    `place` says where it is in the text, as "line 3, column 7".
    """

    op: str
    operands: tuple[Term, ...] = ()
    ctype: CType | None = None
    value: int = 0
    name: str = ""
    place: str = ""


def variable(name: str, ctype: CType | None = None) -> Term:
    """A parameter.

    >>> variable("row").name
    'row'
    """
    return Term("var", (), ctype, name=name)


def number(value: int, ctype: CType | None = None) -> Term:
    """A constant.

    >>> number(8).value
    8
    """
    return Term("const", (), ctype, value=value)


def common(a: CType | None, b: CType | None) -> CType | None:
    """The type to which C brings two operands; None in Python.

    >>> print(common(INT, UNSIGNED), common(LONG, UNSIGNED))
    unsigned int long long
    """
    if a is None or b is None:
        return None
    a, b = a.promoted, b.promoted
    if a.bits != b.bits:
        return max(a, b)
    return CType(a.bits, a.signed and b.signed)


COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"})
_SHIFTS = frozenset({"<<", ">>"})


def apply(op: str, operands: tuple[Term, ...], place: str = "") -> Term:
    """An operator on its operands, with C's types where they have types; for constants, its value.

    `op` is a symbol of C, "//" and "py%" as Python rounds, "neg", "inv", "?", "min", "max", "u24", "s24".

    >>> apply("+", (number(2, INT), number(3, INT))).value
    5
    """
    if op == "?":
        left, right = operands[1].ctype, operands[2].ctype
        ctype = left if left == right else common(left, right)
        if operands[0].op == "const":
            return converted(operands[1] if operands[0].value else operands[2], ctype)
    elif op in COMPARISONS:
        ctype = None if operands[0].ctype is None else BOOL
    elif op in _SHIFTS or len(operands) == 1:
        first = operands[0].ctype
        ctype = None if first is None else first.promoted
    else:
        ctype = common(operands[0].ctype, operands[1].ctype)
    made = Term(op, operands, ctype, place=place)
    if all(o.op == "const" for o in operands):
        values, bad = _evaluated(made, {})
        if bad is None:
            return Term("const", (), ctype, value=int(values), place=place)
    return made


def converted(term: Term, ctype: CType | None) -> Term:
    """The term in another type, as an assignment or a cast converts it.

    >>> converted(number(300, INT), CType(8, False)).value
    44
    """
    if ctype is None or term.ctype is None or term.ctype == ctype:
        return term
    if term.op == "const":
        return Term("const", (), ctype, value=_wrapped(term.value, ctype), place=term.place)
    return Term("cast", (term,), ctype, place=term.place)


class Bad(NamedTuple):
    """Coordinates without a value: a mask, and the message for the first one."""

    mask: NDArray[Any]
    why: NDArray[Any]
    """Index into `reasons`, per coordinate."""
    reasons: tuple[str, ...]

    def first(self) -> tuple[int, str]:
        """The first coordinate without a value, as a position in the array, and why."""
        at = int(self.mask.reshape(-1).argmax())
        return at, self.reasons[int(self.why.reshape(-1)[at])]


def evaluated(term: Term, env: Mapping[str, Any]) -> tuple[NDArray[Any], Bad | None]:
    """The values of a term for arrays of its variables, and where it has none.

    Raises ResourceError for a value that may pass Most.MAGNITUDE, and for operators past Most.STATEMENTS.
    """
    values, bad = _evaluated(term, env)
    _whole(values, term.ctype)
    return values, bad


def _evaluated(term: Term, env: Mapping[str, Any]) -> tuple[NDArray[Any], Bad | None]:
    """The same; a number of unsigned long long past 2^63 is the negative one that is congruent to it."""
    import numpy as np

    known: dict[int, tuple[Any, Any]] = {}
    reasons: list[str] = []
    shape = np.broadcast_shapes(*(np.shape(v) for v in env.values()))
    for t in ordered(term):
        if t.op == "var":
            known[id(t)] = np.asarray(env[t.name], dtype=np.int64), None
        elif t.op == "const":
            known[id(t)] = np.asarray(t.value, dtype=np.int64), None
        else:
            parts = [known[id(o)] for o in t.operands]
            known[id(t)] = _step(t, parts, reasons)
    values, bad = known[id(term)]
    values = np.broadcast_to(values, shape).copy()
    if bad is None or not (bad >= 0).any():
        return values, None
    bad = np.broadcast_to(bad, shape)
    return values, Bad(bad >= 0, bad, tuple(reasons))


def ordered(term: Term) -> list[Term]:
    """Every term once, operands first.  Raises ResourceError past Most.STATEMENTS.

    >>> [t.op for t in ordered(apply("+", (variable("i"), number(1))))]
    ['var', 'const', '+']
    """
    out: list[Term] = []
    seen: set[int] = set()
    waiting = [(term, False)]
    while waiting:
        t, opened = waiting.pop()
        if opened:
            out.append(t)
            continue
        if id(t) in seen:
            continue
        seen.add(id(t))
        Most.STATEMENTS.guard(len(seen), "operators of an index function")
        waiting.append((t, True))
        waiting += [(o, False) for o in reversed(t.operands)]
    return out


def _step(t: Term, parts: list[tuple[Any, Any]], reasons: list[str]) -> tuple[Any, Any]:
    """Values and bad coordinates (-1, or an index of `reasons`) of one operator."""
    import numpy as np

    if t.op == "?":
        (c, bad_c), (a, bad_a), (b, bad_b) = parts
        a, b = _held(a, t.ctype), _held(b, t.ctype)
        if bad_a is not None or bad_b is not None:
            none = np.asarray(-1)
            taken = np.where(c != 0, none if bad_a is None else bad_a, none if bad_b is None else bad_b)
            return np.where(c != 0, a, b), _join(bad_c, taken)
        return np.where(c != 0, a, b), bad_c
    if t.op in ("&&", "||"):
        (a, bad_a), (b, bad_b) = parts
        decided = (a == 0) if t.op == "&&" else (a != 0)
        if bad_b is not None:
            bad_b = np.where(decided, -1, bad_b)
        truth = (a != 0) & (b != 0) if t.op == "&&" else (a != 0) | (b != 0)
        return truth.astype(np.int64), _join(bad_a, bad_b)
    bad = None
    for _, faults in parts:
        bad = _join(bad, faults)
    operands = [v for v, _ in parts]
    values, why, mask = _computed(t, operands)
    if mask is not None and mask.any():
        reasons.append(f"{why}{t.place and ' at '}{t.place}")
        bad = _join(bad, np.where(mask, len(reasons) - 1, -1))
    return values, bad


def _join(a: Any, b: Any) -> Any:
    """Bad coordinates of either; the first one's reason counts."""
    import numpy as np

    if a is None or b is None:
        return b if a is None else a
    return np.where(a >= 0, a, b)


def _computed(t: Term, operands: list[Any]) -> tuple[Any, str, Any]:
    """(values, why some are none, where) of an operator on arrays."""
    import numpy as np

    op = t.op
    if op == "cast":
        return _held(operands[0], t.ctype), "", None
    if op == "!":
        return (operands[0] == 0).astype(np.int64), "", None
    if op in COMPARISONS:
        kind = common(*(o.ctype for o in t.operands))
        a, b = (_whole(_held(v, kind), kind) for v in operands)
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
        chosen = compare.get(op) or {"==": np.equal, "!=": np.not_equal}[op]
        return chosen(a, b).astype(np.int64), "", None
    held = [_held(v, t.ctype) for v in operands[: 1 if op in _SHIFTS else 2]]
    if op in _OF_WHOLE:
        held = [_whole(v, t.ctype) for v in held]
    a, b = (*held, *operands[len(held) :], np.asarray(0))[:2]
    mask, why = None, ""
    if op in ("/", "%", "//", "py%"):
        mask, why = np.asarray(b == 0), "a division by zero"
        b = np.where(mask, 1, b)
    elif op in _SHIFTS:
        width = 62 if t.ctype is None else t.ctype.bits
        mask = np.asarray((b < 0) | (b >= width))
        why = "a shift by a number below 0" if t.ctype is None else f"a shift of {width} bits by too many"
        if op == ">>" and t.ctype is None:
            mask = np.asarray(b < 0)
        b = np.where(mask, 0, np.minimum(b, 62))
    if op == "*" and t.ctype == UNSIGNED and _top(a) * _top(b) > Most.MAGNITUDE.number:
        product = a.astype(np.uint64) * b.astype(np.uint64)  # both below 2^32: it does not wrap
        return (product & np.uint64(0xFFFFFFFF)).astype(np.int64), why, mask
    if op == "<<" and t.ctype == UNSIGNED and _top(a) << min(_top(b), 64) > Most.MAGNITUDE.number:
        a = a & ((1 << np.maximum(32 - b, 0)) - 1)  # bits that leave the type do not matter
    operator = f"'{_SHOWN.get(op, op)}'{t.place and ' at ' + t.place}"
    Most.MAGNITUDE.guard(_growth(op, a, b), f"magnitude that {operator} may reach")
    values = _exact(op, a, b)
    if t.ctype is None:
        return values, why, mask
    if t.ctype.signed:
        past = (values < t.ctype.least) | (values > t.ctype.greatest)
        if past.any():
            if mask is None or not mask.any():
                why = f"a result of '{_SHOWN.get(op, op)}' past the {t.ctype.bits} bits of C's {t.ctype}"
            mask = past if mask is None else mask | past
            values = np.where(past, 0, values)
        return values, why, mask
    return _held(values, t.ctype), why, mask


_SHOWN = {"neg": "-", "inv": "~", "py%": "%", "u24": "__umul24", "s24": "__mul24"}


def _exact(op: str, a: Any, b: Any) -> Any:
    """The operator on exact integers."""
    import numpy as np

    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
        case "%":
            return a - np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)) * b
        case "//":
            return a // b
        case "py%":
            return a % b
        case "<<":
            return a << b
        case ">>":
            return a >> b
        case "&":
            return a & b
        case "^":
            return a ^ b
        case "|":
            return a | b
        case "neg":
            return -a
        case "inv":
            return ~a
        case "pos":
            return a
        case "min":
            return np.minimum(a, b)
        case "max":
            return np.maximum(a, b)
        case "u24":
            return (a & 0xFFFFFF) * (b & 0xFFFFFF)
        case "s24":
            return (((a & 0xFFFFFF) ^ 0x800000) - 0x800000) * (((b & 0xFFFFFF) ^ 0x800000) - 0x800000)
    raise TypeError(op)


_OF_WHOLE = frozenset({"/", "%", ">>", "min", "max"})
"""Operators that need an operand itself; others do with a number that is congruent to it."""


def _whole(values: Any, ctype: CType | None) -> Any:
    """Values that are the numbers themselves, not congruent to them; raises ResourceError for others."""
    if ctype == UNSIGNED_LONG and values.size and values.min() < 0:
        what = "magnitude that a negative number has in unsigned long long"
        Most.MAGNITUDE.guard((1 << 64) + int(values.min()), what)
    return values


def _held(values: Any, ctype: CType | None) -> Any:
    """Values as a type holds them; those of unsigned long long stay congruent to its own."""
    import numpy as np

    if ctype is None or ctype.bits == 64:
        return values
    if ctype == BOOL:
        return (values != 0).astype(np.int64)
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if ctype.least <= low and high <= ctype.greatest:
        return values
    bits = values & ((1 << ctype.bits) - 1)
    return np.where(bits > ctype.greatest, bits - (1 << ctype.bits), bits)


def _wrapped(value: int, ctype: CType) -> int:
    """A number as a type holds it, as `_held`."""
    if ctype.bits in (1, 64):
        return int(value != 0) if ctype == BOOL else value
    bits = value & ((1 << ctype.bits) - 1)
    return bits - (1 << ctype.bits) if bits > ctype.greatest else bits


def _top(values: Any) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0


def _growth(op: str, a: Any, b: Any) -> int:
    """A bound on the magnitude of the result, in exact integers."""
    x, y = _top(a), _top(b)
    match op:
        case "+" | "-":
            return x + y
        case "*":
            return x * y
        case "<<":
            return x << min(y, 64)
        case "&" | "^" | "|":
            return (1 << max(x.bit_length(), y.bit_length())) - 1
        case "u24" | "s24":
            return 1 << 48
        case _:
            return max(x, y) + 1
