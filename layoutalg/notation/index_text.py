"""Index expressions as text: what a person has in a kernel, read without evaluating any code.

The idea.  Someone with `smem[(lane / 8) * 144 + (lane % 8) * 16]` in a kernel has no CuTe text, but a
function from lanes to offsets, and that is all an access analysis needs:

    index = parse_index("(lane/8)*144 + (lane%8)*16")
    index(lane=numpy.arange(32))    ->  0, 16, 32, ..., 112, 144, 160, ...

The grammar is that of expression_text, without powers; integers are decimal, 0x or 0b, with C's suffixes.

The meaning.  Values are exact integers, and so they are in C, or the expression is refused with the lane that
shows it.  `/` and `//` are both the integer division (`//` is Python's alone: in C it begins a comment).
C's types are followed: a variable is an int or an unsigned int, whichever the kernel declares, and a number
has 64 bits where it is that large or has the suffix l (as on Linux).  Refused is what Python, C with signed
and C with unsigned variables do not answer alike:

    / // % << >>      of a negative operand; a division by zero; a shift by all bits of its type or more
    32 bits           a result past an int, or past an unsigned int where a number has the suffix u
    64 bits           a negative 32-bit operand that C may have unsigned, in an expression of 64 bits
    ++ --             which change a variable in C and are two signs in Python

A negative result is that of signed variables; unsigned ones hold it modulo 2^32.

Notes.  The size of every intermediate value is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from layoutalg.errors import ArgumentTypeError, ParseError, ResourceError, shown
from layoutalg.limits import Most
from layoutalg.notation.expression_text import (
    EXACT,
    OPERATORS,
    SPELLED,
    Grammar,
    Number,
    PostfixStep,
    read_expression,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNED, EITHER, UNSIGNED = range(3)
"""The sign of a C type: of numbers, of variables (as the kernel declares them), of numbers with suffix u."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {"lane": "lane", "laneid": "lane", "tid": "tid", "threadIdx.x": "tid", "warp": "warp", "reg": "reg"}
)
"""Accepted spellings of a variable and what each means: lane 0..31, tid = 32 warp + lane, warp, reg."""

_NATURALS_ONLY = frozenset({"/", "//", "%", "<<", ">>"})


class _Term(NamedTuple):
    """Exact values, and the C type of the expression that has them."""

    values: NDArray[Any]
    bits: int
    sign: int


@dataclass(frozen=True, slots=True)
class IndexText:
    """A parsed index expression: call it with one integer array per variable (they broadcast).

    >>> import numpy
    >>> parse_index("(lane % 2) * 64 ^ 16")(lane=numpy.arange(4)).tolist()
    [16, 80, 16, 80]
    """

    text: str
    steps: tuple[PostfixStep, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that occur, in order of first use."""
        return tuple(dict.fromkeys(str(s.action) for s in self.steps if s.is_name))

    def __call__(self, **variables: Any) -> NDArray[Any]:
        """Evaluate on integer arrays, one per variable; returns an int64 array of the broadcast shape.

        Raises ArgumentTypeError when a variable is not given or is not of integers, ParseError for what has
        no agreed meaning (see the module's text), naming operator and lane, and ResourceError when a value
        may pass Most.MAGNITUDE.
        """
        import numpy as np

        if missing := [name for name in self.names if name not in variables]:
            raise ArgumentTypeError(
                f"{self.text!r} uses {', '.join(missing)}, for which no values were given"
            )
        environment = {name: _integers(name, v) for name, v in variables.items()}
        shape = np.broadcast_shapes(*(v.shape for v in environment.values()))
        stack: list[_Term] = []
        for step in self.steps:
            if isinstance(step.action, Number):
                value, bits, unsigned = step.action
                stack.append(_Term(np.asarray(value, dtype=np.int64), bits, UNSIGNED if unsigned else SIGNED))
            elif step.is_name:
                stack.append(_Term(environment[step.action], 32, EITHER))
            else:
                terms = [stack.pop() for _ in range(step.arity)][::-1]
                stack.append(self._apply(step, terms, environment))
        last = stack.pop()
        wraps = f"is past what C's unsigned integer of {last.bits} bits holds"
        self._require(last.sign < UNSIGNED or _fits(last), self.steps[-1], environment, wraps)
        return np.broadcast_to(last.values, shape).copy()

    def _apply(self, step: PostfixStep, terms: list[_Term], environment: dict[str, NDArray[Any]]) -> _Term:
        """The value of an operator; refuses what is undefined, disputed between languages, or too large."""
        symbol = str(step.action)
        operands = [t.values for t in terms]
        bits = max(t.bits for t in terms)
        sign = max(t.sign for t in terms if t.bits == bits)
        if symbol in _NATURALS_ONLY:
            for v in operands:
                why = f"has a negative operand ({_span(v)[0]}), on which Python and C disagree"
                self._require(v >= 0, step, environment, why)
        if symbol in ("/", "//", "%"):
            self._require(operands[1] != 0, step, environment, "divides by zero")
        if symbol in ("<<", ">>"):
            bits, sign = terms[0].bits, terms[0].sign
            why = f"shifts {bits} bits by {_span(operands[1])[1]}, which C leaves undefined"
            self._require(operands[1] < bits, step, environment, why)
        for t in terms:
            if symbol in _NATURALS_ONLY or (t.bits < bits and t.sign != SIGNED):
                why = f"has an operand that C may hold as another number in {t.bits} bits"
                self._require(_fits(t), step, environment, why)
        largest = _growth(symbol, [_span(v) for v in operands])
        Most.MAGNITUDE.guard(
            largest, f"magnitude that {symbol!r} at character {step.position} of {self.text!r} may reach"
        )
        result = _Term(EXACT[symbol](*operands), bits, sign)
        if sign != UNSIGNED and bits == 32:
            held = (result.values >= -(1 << 31)) & (result.values < 1 << 31)
            why = "is past the 32 bits of C's int (a number with the suffix ll has 64)"
            self._require(held, step, environment, why)
        return result

    def _require(self, holds: Any, step: PostfixStep, environment: dict[str, NDArray[Any]], why: str) -> None:
        """Refuse a step for the first lane at which a condition fails."""
        import numpy as np

        mask = np.asarray(holds)
        if not mask.all():
            self._refuse(step, ~mask, environment, why)

    def _refuse(
        self, step: PostfixStep, mask: NDArray[Any], environment: dict[str, NDArray[Any]], why: str
    ) -> NoReturn:
        import numpy as np

        values = np.broadcast_arrays(mask, *environment.values())
        first = int(values[0].argmax())
        case = ", ".join(f"{n}={int(v.flat[first])}" for n, v in zip(environment, values[1:], strict=True))
        where = f" at {case}" if case else ""
        name = SPELLED.get(str(step.action), str(step.action))
        raise ParseError(
            f"{name!r} at character {step.position} of {self.text!r} {why}{where}",
            text=self.text,
            position=step.position,
        )


def parse_index(text: str, variables: Mapping[str, str] = VARIABLES) -> IndexText:
    """Read an index expression; `variables` maps each accepted spelling to the variable it means.

    Raises ParseError with the position and what was expected there, ResourceError for a text longer than
    Most.LINE characters or nested deeper than Most.NESTING.

    >>> parse_index("threadIdx.x / 4 + 8*lane").names
    ('tid', 'lane')
    """
    return IndexText(text, read_expression(text, variables, _INDEX))


def _number(text: str, position: int, spelled: str) -> Number:
    """An integer as C spells it, and the type it has there."""
    digits = spelled.rstrip("uUlL")
    suffix = spelled[len(digits) :].lower()
    decimal = digits.isdigit()
    if decimal and len(digits) > 1 and digits[0] == "0":
        raise ParseError(
            f"{digits!r} at character {position} of {text!r} is octal in C and an error in Python; "
            f"write it without leading zeros, or as 0x{int(digits):x}",
            text=text,
            position=position,
        )
    value = int(digits, 0)
    if value > Most.MAGNITUDE.number:
        bits = value.bit_length()
        raise ResourceError(f"bits of the number at character {position} of the index expression", bits, 62)
    unsigned = "u" in suffix or (not decimal and 1 << 31 <= value < 1 << 32 and "l" not in suffix)
    narrow = "l" not in suffix and value < (1 << 32 if unsigned else 1 << 31)
    return Number(value, 32 if narrow else 64, unsigned)


_INDEX = Grammar("index expression", tuple(s for s in OPERATORS if s != "**"), "+-~", _number)


def _integers(name: str, data: Any) -> NDArray[Any]:
    """The values of a variable: 32-bit integers."""
    import numpy as np

    values = np.asarray(data)
    low, high = _span(values) if values.dtype.kind in "iu" else (1, 0)
    if not -(1 << 31) <= low <= high < 1 << 31:
        raise ArgumentTypeError(f"{name} is {shown(data)}: an array of integers of 32 bits is needed")
    return values.astype(np.int64)


def _fits(term: _Term) -> Any:
    """Whether C has the exact value, signed or not, at each point."""
    bound = 1 << (62 if term.bits == 64 else 32 if term.sign == UNSIGNED else 31)
    return (term.values >= 0) & (term.values < bound)


def _span(values: NDArray[Any]) -> tuple[int, int]:
    """Least and greatest element, as Python integers; (0, 0) when there is none."""
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def _growth(symbol: str, spans: list[tuple[int, int]]) -> int:
    """A bound on the magnitude of the result, in exact integers, before NumPy computes it."""
    sizes = [max(abs(low), abs(high)) for low, high in spans]
    match symbol:
        case "+" | "-":
            return sizes[0] + sizes[1]
        case "*":
            return sizes[0] * sizes[1]
        case "<<":
            return sizes[0] << min(sizes[1], 64)
        case "&" | "^" | "|":
            return (1 << max(sizes[0].bit_length(), sizes[1].bit_length())) - 1
        case _:
            return sizes[0] + 1 if symbol == "inv" else sizes[0]
