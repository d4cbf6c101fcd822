"""Index expressions as text: what a person has in a kernel, read without evaluating any code.

The idea.  Someone with `smem[(lane / 8) * 144 + (lane % 8) * 16]` in a kernel has no CuTe text, but a
function from lanes to offsets, and that is all an access analysis needs:

    index = parse_index("(lane/8)*144 + (lane%8)*16")
    index(lane=numpy.arange(32))    ->  0, 16, 32, ..., 112, 144, 160, ...

The grammar.  Integers (decimal, 0x, 0b; the C suffixes u and l are read and mean nothing), variables,
parentheses, and these operators, tightest first, in the order on which Python and C agree:

    + - ~ (unary)     * / // %     + -     << >>     &     ^     |

The meaning.  Values are exact integers.  `/` and `//` are both the integer division.  Where Python, signed C
and unsigned C give different answers, namely `/ // % << >>` on a negative operand, the expression is refused
with the lane that shows it; everywhere else the three agree on every result that C can hold.

Notes.  The text becomes a postfix program: neither the parser nor the evaluation recurses, so no nesting can
exhaust the stack.  Length, nesting and the size of every intermediate value are bounded.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from layoutalg.errors import ArgumentTypeError, ParseError, ResourceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_LENGTH = 4096
"""Longest text accepted, in characters."""

MAX_NESTING = 128
"""Most operators and parentheses that may wait for an operand at once."""

MAX_VALUE = 1 << 62
"""No intermediate value may reach this magnitude, so that 64-bit arithmetic is exact."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {"lane": "lane", "laneid": "lane", "tid": "tid", "threadIdx.x": "tid", "warp": "warp", "reg": "reg"}
)
"""Accepted spellings of a variable and what each means: lane 0..31, tid = 32 warp + lane, warp, reg."""

_BINARY: Mapping[str, int] = MappingProxyType(
    {"*": 6, "/": 6, "//": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4, "&": 3, "^": 2, "|": 1}
)
_UNARY: Mapping[str, str] = MappingProxyType({"+": "pos", "-": "neg", "~": "inv"})
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
    r"(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)(?P<suffix>[uUlL]{0,3})(?![\w.])"
    r"|(?P<malformed>[0-9][\w.]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<symbol><<|>>|//|[-+*/%&^|~()])"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the postfix program: push a number, push a variable, or apply an operator.

    `action` is an int, a variable's name, or an operator (`"+"`, `"neg"`); `position` is where it stands in
    the text.
    """

    action: int | str
    arity: int
    position: int


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

        Raises ArgumentTypeError when a variable is not given, ParseError where an operator has no
        agreed meaning (division by zero, a negative operand of `/ // % << >>`), naming operator and
        lane, and ResourceError when a value may reach MAX_VALUE.
        """
        import numpy as np

        if missing := [name for name in self.names if name not in variables]:
            raise ArgumentTypeError(
                f"{self.text!r} uses {', '.join(missing)}, for which no values were given"
            )
        environment = {name: np.asarray(v, dtype=np.int64) for name, v in variables.items()}
        shape = np.broadcast_shapes(*(v.shape for v in environment.values()))
        stack: list[NDArray[Any]] = []
        for step in self.steps:
            if isinstance(step.action, int):
                stack.append(np.asarray(step.action, dtype=np.int64))
            elif _is_name(step):
                stack.append(environment[step.action])
            else:
                operands = [stack.pop() for _ in range(step.arity)][::-1]
                self._check(step, operands, environment)
                stack.append(_APPLY[step.action](*operands))
        return np.broadcast_to(stack.pop(), shape).copy()

    def _check(self, step: Step, operands: list[NDArray[Any]], environment: dict[str, NDArray[Any]]) -> None:
        """Refuse an application that is undefined, disputed between languages, or too large."""
        symbol = str(step.action)
        if symbol in _NATURALS_ONLY:
            for operand in operands:
                if operand.size and operand.min() < 0:
                    self._refuse(
                        step,
                        operand < 0,
                        environment,
                        f"has a negative operand ({int(operand.min())}), on which Python and C disagree",
                    )
            if symbol in ("/", "//", "%") and not operands[1].all():
                self._refuse(step, operands[1] == 0, environment, "divides by zero")
        largest = _growth(symbol, [_span(v) for v in operands])
        if largest >= MAX_VALUE:
            raise ResourceError(
                f"magnitude that {symbol!r} at character {step.position} of {self.text!r} may reach",
                largest,
                MAX_VALUE - 1,
            )

    def _refuse(
        self, step: Step, mask: NDArray[Any], environment: dict[str, NDArray[Any]], why: str
    ) -> NoReturn:
        import numpy as np

        values = np.broadcast_arrays(mask, *environment.values())
        first = int(values[0].argmax())
        case = ", ".join(f"{n}={int(v.flat[first])}" for n, v in zip(environment, values[1:], strict=True))
        where = f" at {case}" if case else ""
        raise ParseError(
            f"{step.action!r} at character {step.position} of {self.text!r} {why}{where}",
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
        raise ResourceError(f"number at character {position} of the index expression", value, MAX_VALUE - 1)
    return Step(value, 0, position)


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
