"""Index expressions as text: what a person has in a kernel, where C and Python agree on it.

The idea.  Someone with `smem[(lane / 8) * 144 + (lane % 8) * 16]` in a kernel has no CuTe text, but a
function from lanes to offsets, and that is all an access analysis needs:

    index = parse_index("(lane/8)*144 + (lane%8)*16")
    index(lane=numpy.arange(32))    ->  0, 16, 32, ..., 112, 144, 160, ...

The text is read three times: as C whose variables are int, as C whose variables are unsigned, whichever the
kernel declares, and as Python.  It has a value where all three have the same one; an unsigned result holds a
negative one modulo 2^32.  Elsewhere it is refused with the lane that shows it.

`/` and `//` are both the division of integers (`//` is Python's alone: in C it begins a comment), and numbers
may have C's suffixes.  A number has 64 bits where it is that large or has the suffix l (as on Linux).

Notes.  The text is never executed.  The size of every value on the way is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from layoutalg.errors import ArgumentTypeError, ParseError, check_type, shown
from layoutalg.limits import Most
from layoutalg.reading.c_source import read_c_expression
from layoutalg.reading.python_source import read_python_expression
from layoutalg.reading.terms import INT, UNSIGNED, Term, evaluated

if TYPE_CHECKING:
    from numpy.typing import NDArray

VARIABLES: Mapping[str, str] = MappingProxyType(
    {"lane": "lane", "laneid": "lane", "tid": "tid", "threadIdx.x": "tid", "warp": "warp", "reg": "reg"}
)
"""Accepted spellings of a variable and what each means: lane 0..31, tid = 32 warp + lane, warp, reg."""

LANGUAGES = ("in C with int variables", "in C with unsigned variables", "in Python")
"""The readings of a text, in the order of an IndexText's terms."""

_PART = re.compile(
    r"(?P<number>[0-9][\w.]*)|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)(?P<call> *\()?|(?P<division>//?)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class IndexText:
    """A parsed index expression: call it with one integer array per variable (they broadcast).

    `spelled` are the names in the text, in order of first use, and the variables that they mean; `terms` what
    each of LANGUAGES makes of the text.

    >>> import numpy
    >>> parse_index("(lane % 2) * 64 ^ 16")(lane=numpy.arange(4)).tolist()
    [16, 80, 16, 80]
    """

    text: str
    spelled: Mapping[str, str] = field(hash=False)
    terms: tuple[Term, Term, Term] = field(compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that occur, in order of first use."""
        return tuple(dict.fromkeys(self.spelled.values()))

    def __call__(self, **variables: Any) -> NDArray[Any]:
        """Evaluate on integer arrays, one per variable; returns an int64 array of the broadcast shape.

        Raises ArgumentTypeError when a variable is not given or is not of integers, ParseError for what has
        no agreed meaning (see the module's text), naming the lane, and ResourceError when a value may pass
        Most.MAGNITUDE.
        """
        import numpy as np

        if missing := [name for name in self.names if name not in variables]:
            raise ArgumentTypeError(
                f"{_quoted(self.text)} uses {', '.join(missing)}, for which no values were given"
            )
        lanes = {name: _integers(name, v) for name, v in variables.items()}
        shape = np.broadcast_shapes(*(v.shape for v in lanes.values()))

        def refuse(at: int, why: str) -> NoReturn:
            case = [f"{name}={int(np.broadcast_to(v, shape).flat[at])}" for name, v in lanes.items()]
            raise ParseError(
                f"{_quoted(self.text)} {why}{' at ' * bool(case)}{', '.join(case)}", text=self.text
            )

        names = {name: lanes[variable] for name, variable in self.spelled.items()}
        names |= {_python_name(k): v for k, v in enumerate(names.values())}
        values = []
        for language, term in zip(LANGUAGES, self.terms, strict=True):
            found, bad = evaluated(term, names)
            if bad is not None:
                at, why = bad.first()
                refuse(at, f"has no value {language}: {why}")
            values.append(np.broadcast_to(found, shape))
        signed, unsigned, python = values
        apart = (python - unsigned) & (UNSIGNED.greatest if self.terms[1].ctype == UNSIGNED else -1)
        wrong = (signed != python) | (apart != 0)
        if wrong.any():
            at = int(wrong.reshape(-1).argmax())
            each = zip(values, LANGUAGES, strict=True)
            refuse(at, f"is {', '.join(f'{int(v.flat[at])} {language}' for v, language in each)}")
        return python.copy()


def parse_index(text: str, variables: Mapping[str, str] = VARIABLES) -> IndexText:
    """Read an index expression; `variables` maps each accepted spelling to the variable it means.

    Raises ParseError with the position and what was expected there, ResourceError for a text longer than
    Most.LINE characters or nested deeper than Most.NESTING.

    >>> parse_index("threadIdx.x / 4 + 8*lane").names
    ('tid', 'lane')
    """
    check_type("index expression", text, str, "a text")
    Most.LINE.guard(len(text), "length of the index expression in characters")
    line = re.sub(r"[\t\r\n\f\v]", " ", text)
    spelled = {part["name"]: "" for part in _PART.finditer(line) if part["name"] and not part["call"]}
    for name in spelled:
        if name not in variables:
            at = next(part.start() for part in _PART.finditer(line) if part["name"] == name)
            known = ", ".join(variables) or "none"
            why = f"unknown variable {name!r} at character {at} of {_quoted(text)}: accepted are {known}"
            raise ParseError(why, text=text, position=at)
        spelled[name] = variables[name]
    order = [*spelled]

    def in_python(part: re.Match[str]) -> str:
        if part["name"]:
            return part[0] if part["call"] else _python_name(order.index(part["name"]))
        return "//" if part["division"] else part[0].rstrip("uUlL")

    with _refusals(text, "C"):
        in_c = line.replace("//", " /")
        signed, unsigned = (read_c_expression(in_c, order, ctype).term for ctype in (INT, UNSIGNED))
    with _refusals(text, "Python"):
        names = [_python_name(k) for k in range(len(order))]
        python = read_python_expression(f"({_PART.sub(in_python, line)})", names).term
    return IndexText(text, spelled, (signed, unsigned, python))


@contextmanager
def _refusals(text: str, language: str) -> Iterator[None]:
    """Refusals of a reader as those of the whole text; that of Python was changed, and has no place in it."""
    try:
        yield
    except ParseError as error:
        why = error.message if language == "C" else error.message.partition(": ")[2]
        why = f"{_quoted(text)} is not read as {language}: {why}"
        raise ParseError(why, text=text, position=error.position) from None
    except RecursionError:
        raise ParseError(f"{_quoted(text)} is nested too deep to be read", text=text) from None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _python_name(number: int) -> str:
    """A variable in the text for Python; a name of C may be a word of Python, and has no such letter."""
    return f"é{number}"


def _integers(name: str, data: Any) -> NDArray[Any]:
    """The values of a variable: 32-bit integers."""
    import numpy as np

    values = np.asarray(data)
    held = values.dtype.kind in "iu" and (
        not values.size or (INT.least <= values.min() and values.max() <= INT.greatest)
    )
    if not held:
        raise ArgumentTypeError(f"{name} is {shown(data)}: an array of integers of 32 bits is needed")
    return values.astype(np.int64)
