"""Expressions of integers and names as text: one reader, which evaluates no code.

The idea.  Wherever a text may hold more than a number, it is an expression of this grammar, tightest operator
first, in the order on which Python and C agree:

    **     + - ~ (unary)     * / // %     + -     << >>     &     ^     |

A Grammar says which of these a text may use, how its numbers are spelled and what they are.  What operators
mean is the reader's: index_text gives them the meaning that C and Python share, `parse_polynomial` adds and
multiplies.

    (lane/8)*144 + lane%8*16      index_text: a function of lanes
    2*ld+8, n**2*m                parse_polynomial: extents and strides in symbols, also those of `solve`

Notes.  The text becomes a postfix program: neither the reader nor the evaluation recurses, so no nesting can
exhaust the stack.  Length, nesting and the integers themselves are bounded.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from layoutalg.errors import ParseError, check_type
from layoutalg.limits import Most

MAX_DIGITS = 100
"""The most decimal digits of an integer where integers have no size."""

MAX_POWER = 1000
"""The highest power of a name."""

_STRENGTH: Mapping[str, int] = MappingProxyType(
    {"*": 6, "/": 6, "//": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4, "&": 3, "^": 2, "|": 1, "**": 8}
)
_UNARY: Mapping[str, str] = MappingProxyType({"+": "pos", "-": "neg", "~": "inv"})
_UNARY_STRENGTH = 7

OPERATORS = tuple(_STRENGTH)
"""The operators of two operands."""

SPELLED: Mapping[str, str] = MappingProxyType({name: symbol for symbol, name in _UNARY.items()})
"""The spelling of each operator of one operand."""

EXACT: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "*": operator.mul, "/": operator.floordiv, "//": operator.floordiv, "%": operator.mod,
        "+": operator.add, "-": operator.sub, "<<": operator.lshift, ">>": operator.rshift,
        "&": operator.and_, "^": operator.xor, "|": operator.or_, "**": operator.pow,
        "pos": operator.pos, "neg": operator.neg, "inv": operator.inv,
    }
)  # fmt: skip
"""The function that each operator computes, on exact integers."""

_TOKEN = re.compile(
    r"(?P<number>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)(?:[uU]?(?:ll?|LL?)?|(?:ll?|LL?)[uU]))(?![\w.])"
    r"|(?P<malformed>[0-9][\w.]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<changing>\+\+|--)"
    r"|(?P<symbol><<|>>|//|\*\*|[-+*/%&|^~()])"
)


class Number(NamedTuple):
    """An integer of a text; where integers have C's types, of `bits` bits and possibly `unsigned`."""

    value: int
    bits: int = 32
    unsigned: bool = False


class PostfixStep(NamedTuple):
    """A step of the postfix program: push a number or a variable, or apply an operator to `arity` operands.

    `action` is a Number, a variable's name, or an operator ("+", "neg"); `position` is its position in the
    text.
    """

    action: Number | str
    arity: int
    position: int

    @property
    def is_name(self) -> bool:
        """True for a variable."""
        return self.arity == 0 and isinstance(self.action, str)


class Grammar(NamedTuple):
    """The name of a kind of text, its operators of two and of one operand, and the reader of its numbers.

    `number` takes the text, the number's position and its spelling; it raises ParseError.
    """

    what: str
    operators: tuple[str, ...]
    unary: str
    number: Callable[[str, int, str], Number]


def read_expression(text: str, names: Mapping[str, str], grammar: Grammar) -> tuple[PostfixStep, ...]:
    """The postfix program of an expression; `names` maps each accepted spelling to the variable it means.

    Raises ParseError with the position and what was expected there, ResourceError for a text past
    Most.LINE or Most.NESTING.

    >>> [step.action for step in read_expression("-n+m*m", {"n": "n", "m": "m"}, POLYNOMIAL)]
    ['n', 'neg', 'm', 'm', '*', '+']
    """
    check_type(grammar.what, text, str, "a text")
    Most.LINE.guard(len(text), f"length of the {grammar.what} in characters")
    output: list[PostfixStep] = []
    waiting: list[tuple[int, PostfixStep | None]] = []  # strength, the step it will emit; None for '('
    operand_next, position = True, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        token = _TOKEN.match(text, position)
        symbol = token["symbol"] if token else None
        if token is None or (symbol and not _fits(symbol, operand_next, grammar)):
            raise _unexpected(text, position, symbol, operand_next, names, grammar)
        if token["changing"]:
            why = "changes a variable in C; write a blank or parentheses between two signs"
            raise _refusal(text, position, token[0], why)
        if not operand_next and symbol is None:
            raise _unexpected(text, position, None, operand_next, names, grammar)
        if symbol is None:
            output.append(_operand(text, token, names, grammar))
            operand_next = False
        elif symbol == "(":
            waiting.append((0, None))
        elif operand_next:
            waiting.append((_UNARY_STRENGTH, PostfixStep(_UNARY[symbol], 1, position)))
        elif symbol == ")":
            _emit(waiting, output, 1)
            if not waiting:
                raise _refusal(text, position, ")", "closes no '('")
            waiting.pop()
        else:
            _emit(waiting, output, _STRENGTH[symbol])
            waiting.append((_STRENGTH[symbol], PostfixStep(symbol, 2, position)))
            operand_next = True
        Most.NESTING.guard(len(waiting), f"nesting of the {grammar.what}")
        position = token.end()
    if operand_next:
        raise _unexpected(text, position, None, operand_next, names, grammar)
    _emit(waiting, output, 1)
    if waiting:
        why = f"{text!r} ends with an open '('; expected ')' at character {position}"
        raise ParseError(why, text=text, position=position)
    return tuple(output)


def evaluated(steps: Sequence[PostfixStep], values: Mapping[str, Any]) -> Any:
    """Compute the value of a postfix program exactly; the grammar of its text decided what is allowed.

    >>> evaluated(read_expression("2*n**2-1", {"n": "n"}, POLYNOMIAL), {"n": 5})
    49
    """
    stack: list[Any] = []
    for step in steps:
        if isinstance(step.action, Number):
            stack.append(step.action.value)
        elif step.is_name:
            stack.append(values[step.action])
        else:
            operands = [stack.pop() for _ in range(step.arity)][::-1]
            stack.append(EXACT[step.action](*operands))
    return stack.pop()


def parse_polynomial(text: str, symbols: Mapping[str, Any]) -> Any:
    """The value of a polynomial in `symbols`: sums and products of integers, names and powers of names.

    Raises ParseError and ResourceError as `read_expression` does, and for powers of anything but a name.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True)
    >>> parse_polynomial("4*n**2-n+3", {"n": n})
    4*n**2 - n + 3
    """
    steps = read_expression(text, {name: name for name in symbols}, POLYNOMIAL)
    for base, exponent, step in zip(steps, steps[1:], steps[2:], strict=False):
        if step.action != "**":
            continue
        if not (base.is_name and isinstance(exponent.action, Number) and exponent.action.value <= MAX_POWER):
            why = f"is read as a power of a name, up to {MAX_POWER}, as in n**2"
            raise _refusal(text, step.position, "**", why)
    return evaluated(steps, symbols)


def _decimal(text: str, position: int, spelled: str) -> Number:
    """A decimal integer, of at most MAX_DIGITS digits."""
    if not spelled.isdigit():
        raise _refusal(text, position, spelled, "is not an integer; accepted are decimal ones")
    if len(spelled) > MAX_DIGITS:
        shown = f"{spelled[:12]}..."
        raise _refusal(
            text, position, shown, f"is too long; integers of at most {MAX_DIGITS} digits are read"
        )
    return Number(int(spelled))


POLYNOMIAL = Grammar("polynomial", ("*", "+", "-", "**"), "-+", _decimal)
"""The grammar of an extent, a stride, an offset or a base in symbols."""


def _fits(symbol: str, operand_next: bool, grammar: Grammar) -> bool:
    """Whether a sign or parenthesis may stand here."""
    if operand_next:
        return symbol == "(" or symbol in grammar.unary
    return symbol == ")" or symbol in grammar.operators


def _emit(waiting: list[tuple[int, PostfixStep | None]], output: list[PostfixStep], strength: int) -> None:
    """Move the waiting operators that bind at least as tightly to the program, up to the last '('."""
    while waiting and waiting[-1][0] >= strength:
        step = waiting.pop()[1]
        if step is not None:
            output.append(step)


def _operand(text: str, token: re.Match[str], names: Mapping[str, str], grammar: Grammar) -> PostfixStep:
    """The step of a number or a variable."""
    position, spelled = token.start(), token[0]
    if token["malformed"]:
        why = "is not an integer; accepted are decimal, 0x and 0b, with a C suffix u, l, ul or ull"
        raise _refusal(text, position, spelled, why)
    if token["number"]:
        return PostfixStep(grammar.number(text, position, spelled), 0, position)
    if spelled not in names:
        raise ParseError(
            f"unknown variable {spelled!r} at character {position} of {text!r}: "
            f"accepted are {', '.join(names) or 'none'}",
            text=text,
            position=position,
        )
    return PostfixStep(names[spelled], 0, position)


def _refusal(text: str, position: int, spelled: str, why: str) -> ParseError:
    return ParseError(f"{spelled!r} at character {position} of {text!r} {why}", text=text, position=position)


def _unexpected(
    text: str,
    position: int,
    symbol: str | None,
    operand_next: bool,
    names: Mapping[str, str],
    grammar: Grammar,
) -> ParseError:
    """The error for a token that does not fit here."""
    token = repr(symbol or text[position]) if position < len(text) else "the end"
    if operand_next:
        wanted = f"a number, '(' or a variable ({', '.join(names) or 'none are given'})"
    else:
        wanted = f"an operator ({' '.join(grammar.operators)}) or ')'"
    return ParseError(
        f"{token} at character {position} of {text!r}; expected {wanted}", text=text, position=position
    )
