"""Index expressions as text: what a person has in a kernel, read without evaluating any code.

The idea.  Someone with `smem[(lane / 8) * 144 + (lane % 8) * 16]` in a kernel has no CuTe text, but a
function from lanes to offsets, and that is all an access analysis needs:

    index = parse_index("(lane/8)*144 + (lane%8)*16")
    index(lane=numpy.arange(32))    ->  0, 16, 32, ..., 112, 144, 160, ...

The grammar.  Integers (decimal, 0x, 0b, with C's suffixes), variables, parentheses, and these operators,
tightest first, in the order on which Python and C agree:

    + - ~ (unary)     * / // %     + -     << >>     &     ^     |

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

Notes.  The text becomes a postfix program: neither the parser nor the evaluation recurses, so no nesting can
exhaust the stack.  Length, nesting and the size of every intermediate value are bounded.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from layoutalg.errors import ArgumentTypeError, ParseError, ResourceError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_LENGTH = 4096
"""Longest text accepted, in characters."""

MAX_NESTING = 128
"""Most operators and parentheses that may wait for an operand at once."""

MAX_VALUE = 1 << 62
"""No intermediate value may reach this magnitude, so that 64-bit arithmetic is exact."""

SIGNED, EITHER, UNSIGNED = range(3)
"""What a C type is: of numbers, of variables (as the kernel declares them), of numbers with the suffix u."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {"lane": "lane", "laneid": "lane", "tid": "tid", "threadIdx.x": "tid", "warp": "warp", "reg": "reg"}
)
"""Accepted spellings of a variable and what each means: lane 0..31, tid = 32 warp + lane, warp, reg."""

_BINARY: Mapping[str, int] = MappingProxyType(
    {"*": 6, "/": 6, "//": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4, "&": 3, "^": 2, "|": 1}
)
_UNARY: Mapping[str, str] = MappingProxyType({"+": "pos", "-": "neg", "~": "inv"})
_SPELLED: Mapping[str, str] = MappingProxyType({name: symbol for symbol, name in _UNARY.items()})
_UNARY_STRENGTH = 7
_NATURALS_ONLY = frozenset({"/", "//", "%", "<<", ">>"})
_APPLY: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "*": operator.mul, "/": operator.floordiv, "//": operator.floordiv, "%": operator.mod,
        "+": operator.add, "-": operator.sub, "<<": operator.lshift, ">>": operator.rshift,
        "&": operator.and_, "^": operator.xor, "|": operator.or_,
        "pos": operator.pos, "neg": operator.neg, "inv": operator.inv,
    }
)  # fmt: skip

_TOKEN = re.compile(
    r"(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)(?P<suffix>[uU]?(?:ll?|LL?)?|(?:ll?|LL?)[uU])(?![\w.])"
    r"|(?P<malformed>[0-9][\w.]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<changing>\+\+|--)"
    r"|(?P<symbol><<|>>|//|[-+*/%&^|~()])"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the postfix program: push a number, push a variable, or apply an operator.

    `action` is an int, a variable's name, or an operator (`"+"`, `"neg"`); `position` is where it stands in
    the text.  A number has `bits` in C and is `sign`, SIGNED or UNSIGNED.
    """

    action: int | str
    arity: int
    position: int
    bits: int = 32
    sign: int = SIGNED


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
    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that occur, in order of first use."""
        return tuple(dict.fromkeys(str(s.action) for s in self.steps if _is_name(s)))

    def __call__(self, **variables: Any) -> NDArray[Any]:
        """Evaluate on integer arrays, one per variable; returns an int64 array of the broadcast shape.

        Raises ArgumentTypeError when a variable is not given or is not of integers, ParseError for what has
        no agreed meaning (see the module's text), naming operator and lane, and ResourceError when a value
        may reach MAX_VALUE.
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
            if isinstance(step.action, int):
                stack.append(_Term(np.asarray(step.action, dtype=np.int64), step.bits, step.sign))
            elif _is_name(step):
                stack.append(_Term(environment[step.action], 32, EITHER))
            else:
                terms = [stack.pop() for _ in range(step.arity)][::-1]
                stack.append(self._apply(step, terms, environment))
        last = stack.pop()
        wraps = f"is past what C's unsigned integer of {last.bits} bits holds"
        self._require(last.sign < UNSIGNED or _fits(last), self.steps[-1], environment, wraps)
        return np.broadcast_to(last.values, shape).copy()

    def _apply(self, step: Step, terms: list[_Term], environment: dict[str, NDArray[Any]]) -> _Term:
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
        if largest >= MAX_VALUE:
            raise ResourceError(
                f"magnitude that {symbol!r} at character {step.position} of {self.text!r} may reach",
                largest,
                MAX_VALUE - 1,
            )
        result = _Term(_APPLY[symbol](*operands), bits, sign)
        if sign != UNSIGNED and bits == 32:
            held = (result.values >= -(1 << 31)) & (result.values < 1 << 31)
            why = "is past the 32 bits of C's int (a number with the suffix ll has 64)"
            self._require(held, step, environment, why)
        return result

    def _require(self, holds: Any, step: Step, environment: dict[str, NDArray[Any]], why: str) -> None:
        """Refuse a step for the first lane at which a condition fails."""
        import numpy as np

        mask = np.asarray(holds)
        if not mask.all():
            self._refuse(step, ~mask, environment, why)

    def _refuse(
        self, step: Step, mask: NDArray[Any], environment: dict[str, NDArray[Any]], why: str
    ) -> NoReturn:
        import numpy as np

        values = np.broadcast_arrays(mask, *environment.values())
        first = int(values[0].argmax())
        case = ", ".join(f"{n}={int(v.flat[first])}" for n, v in zip(environment, values[1:], strict=True))
        where = f" at {case}" if case else ""
        name = _SPELLED.get(str(step.action), str(step.action))
        raise ParseError(
            f"{name!r} at character {step.position} of {self.text!r} {why}{where}",
            text=self.text,
            position=step.position,
        )


def parse_index(text: str, variables: Mapping[str, str] = VARIABLES) -> IndexText:
    """Read an index expression; `variables` maps each accepted spelling to the variable it means.

    Raises ParseError with the position and what was expected there, ResourceError for a text longer than
    MAX_LENGTH characters or nested deeper than MAX_NESTING.

    >>> parse_index("threadIdx.x / 4 + 8*lane").names
    ('tid', 'lane')
    """
    if len(text) > MAX_LENGTH:
        raise ResourceError("length of the index expression in characters", len(text), MAX_LENGTH)
    output: list[Step] = []
    waiting: list[tuple[str, int, Step | None]] = []  # symbol, strength, the step it will emit
    operand_next, position = True, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        token = _TOKEN.match(text, position)
        if token is None:
            raise _unexpected(text, position, operand_next, variables)
        if token["changing"]:
            raise ParseError(
                f"{token[0]!r} at character {position} of {text!r} changes a variable in C; write a blank or "
                f"parentheses between two signs",
                text=text,
                position=position,
            )
        symbol = token["symbol"]
        if operand_next:
            if symbol == "(":
                waiting.append(("(", 0, None))
            elif symbol in _UNARY:
                waiting.append((symbol, _UNARY_STRENGTH, Step(_UNARY[symbol], 1, position)))
            elif symbol is None:
                output.append(_operand(text, token, variables))
                operand_next = False
            else:
                raise _unexpected(text, position, operand_next, variables)
        elif symbol == ")":
            while waiting and waiting[-1][2] is not None:
                _emit(waiting, output)
            if not waiting:
                raise ParseError(
                    f"')' at character {position} of {text!r} closes no '('", text=text, position=position
                )
            waiting.pop()
        elif symbol in _BINARY:
            while waiting and waiting[-1][1] >= _BINARY[symbol]:
                _emit(waiting, output)
            waiting.append((symbol, _BINARY[symbol], Step(symbol, 2, position)))
            operand_next = True
        else:
            raise _unexpected(text, position, operand_next, variables)
        if len(waiting) > MAX_NESTING:
            raise ResourceError("nesting of the index expression", len(waiting), MAX_NESTING)
        position = token.end()
    if operand_next:
        raise _unexpected(text, position, operand_next, variables)
    while waiting:
        if waiting[-1][2] is None:
            raise ParseError(
                f"{text!r} ends with an open '('; expected ')' at character {position}",
                text=text,
                position=position,
            )
        _emit(waiting, output)
    return IndexText(text, tuple(output))


def _emit(waiting: list[tuple[str, int, Step | None]], output: list[Step]) -> None:
    """Move the innermost waiting operator to the program."""
    step = waiting.pop()[2]
    if step is not None:
        output.append(step)


def _operand(text: str, token: re.Match[str], variables: Mapping[str, str]) -> Step:
    """The step of a number or a variable."""
    position = token.start()
    if token["malformed"]:
        raise ParseError(
            f"{token['malformed']!r} at character {position} of {text!r} is no integer; "
            f"accepted are decimal, 0x and 0b, with a C suffix u, l, ul or ull",
            text=text,
            position=position,
        )
    if token["number"] is None:
        if token["name"] not in variables:
            raise ParseError(
                f"unknown variable {token['name']!r} at character {position} of {text!r}: "
                f"accepted are {', '.join(variables)}",
                text=text,
                position=position,
            )
        return Step(variables[token["name"]], 0, position)
    digits = token["number"]
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        raise ParseError(
            f"{digits!r} at character {position} of {text!r} is octal in C and an error in Python; "
            f"write it without leading zeros, or as 0x{int(digits):x}",
            text=text,
            position=position,
        )
    value = int(digits, 0)
    if value >= MAX_VALUE:
        bits = value.bit_length()
        raise ResourceError(f"bits of the number at character {position} of the index expression", bits, 62)
    suffix = token["suffix"].lower()
    unsigned = "u" in suffix or (not digits.isdigit() and 1 << 31 <= value < 1 << 32 and "l" not in suffix)
    narrow = "l" not in suffix and value < (1 << 32 if unsigned else 1 << 31)
    return Step(value, 0, position, 32 if narrow else 64, UNSIGNED if unsigned else SIGNED)


def _unexpected(text: str, position: int, operand_next: bool, variables: Mapping[str, str]) -> ParseError:
    """The error for a character that fits nothing here."""
    found = repr(text[position]) if position < len(text) else "the end"
    if operand_next:
        wanted = f"a number, '(' or a variable ({', '.join(variables)})"
    else:
        wanted = f"an operator ({' '.join(_BINARY)}) or ')'"
    return ParseError(
        f"{found} at character {position} of {text!r}; expected {wanted}", text=text, position=position
    )


def _is_name(step: Step) -> bool:
    return step.arity == 0 and isinstance(step.action, str)


def _integers(name: str, given: Any) -> NDArray[Any]:
    """The values of a variable: 32-bit integers."""
    import numpy as np

    values = np.asarray(given)
    low, high = _span(values) if values.dtype.kind in "iu" else (1, 0)
    if not -(1 << 31) <= low <= high < 1 << 31:
        raise ArgumentTypeError(f"{name} is {shown(given)}: an array of integers of 32 bits is needed")
    return values.astype(np.int64)


def _fits(term: _Term) -> Any:
    """Where C has the exact value, signed or not."""
    bound = MAX_VALUE if term.bits == 64 else 1 << (32 if term.sign == UNSIGNED else 31)
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
