"""Functions of one number, each a record: maps, the epilogues of products and the kernel language read it.

    f = ScalarFunction("leaky", lambda x: maximum(x, 0.125 * x), places=lambda x, y: 0.0)
    k.do(f.instr(4, "f32"), v)             v[i] = f(v[i]) for four numbers, in an epilogue
    k.store(f(v), part)                    the same in the kernel language

The idea.  A formula is stated once.  The kernel language prints it operation by operation, an epilogue as the
C that one would write, of floats, doubles or integers, unless the floats of a function are `stepwise`; its
value is that of NumPy in float64 (int64 of integers), or `exact` where that is more accurate.  The device may
differ from it by

    |device - f(x)| <= u places(x, f(x)) + relative |f(x)| + absolute

with u the roundoff of the type, and `slope` bounds how an error of x grows.  The number that arrives is exact
on both sides, so that a bound for a whole computation follows from these.

Results of 16 bits are rounded by far more than u: `narrow` is what stands for a function there, with less
work for each number and a bound of its own.  That of gelu is x Q(-x), Q(t) the normal distribution beyond t:

    gelu(x) = max(x, 0) - t Q(t),  t = |x|,  log2 Q(t) a polynomial up to where t Q(t) is below all floats

so that of -infinity it is 0, the limit, where the product is not a number.

Sources: CUDA C++ Programming Guide, "Mathematical Functions" (normcdff 5 ulp, expf 2 ulp, tanhf 2 ulp,
normcdf 5 ulp, exp 1 ulp; division is rounded to the nearest); D. Hendrycks, K. Gimpel, "Gaussian error linear
units", 2016.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.expr import check_name
from layoutalg.codegen.instr.formula import in_place
from layoutalg.codegen.instr.lanewise import OPERATIONS
from layoutalg.codegen.instr.record import Instr, updated
from layoutalg.codegen.instr.words import (
    PACKED,
    Array,
    at,
    decode,
    double_at,
    doubles,
    each,
    encode,
    float_literal,
    ref,
    words_of_vector,
)
from layoutalg.codegen.terms import Arithmetic, Value, exp, exp2, maximum, minimum, normcdf, rcp
from layoutalg.errors import ArgumentTypeError, UnknownNameError, UnsupportedError

_FORMS: Mapping[str, tuple[str, str, str]] = {
    "f32": ("float", "{v}", "{v} = {f};"),
    "s32": ("int", "static_cast<int>({v})", "{v} = static_cast<u32>({f});"),
}  # fmt: skip
"""The way a number leaves a helper's word and returns to it: its type, x, and the statement for `f` of x."""


@dataclass(frozen=True, slots=True)
class Argument(Arithmetic):
    """The number that a function is of."""

    def __str__(self) -> str:
        return "x"


X = Argument()


def four_places(x: Any, y: Any) -> Any:
    """Four roundoffs of a value."""
    return 4 * abs(y)


@dataclass(frozen=True)
class ScalarFunction:
    """A function of one number; `formula` is that of x, and is kept as the Value that it gives.

    `places` are the roundoffs by which the device may be off, by x and f(x), beside `absolute` and a share,
    `relative`, of f(x); no difference of two values is larger than `slope` times that of their x.  `stepwise`
    prints floats operation by operation, with the hardware's approximations; `narrow` stands for the function
    where results have 16 bits.  Two are equal when they have the same name, text of the formula, and bounds.
     Raises what `check_name` raises, ArgumentTypeError for what is not a
    formula of x, UnknownNameError for an operation that there is not.

    >>> double = ScalarFunction("twice", lambda x: x + x, slope=2.0)
    >>> double.instr(4, "f32").name, str(double.formula), double.elements
    ('twice_4_f32', 'add(x, x)', ('f32', 'f64', 's32'))
    """

    name: str
    formula: Callable[[Any], Any] | Arithmetic = field(compare=False)
    places: Callable[[Any, Any], Any] = four_places
    absolute: float = 0.0
    slope: float = 1.0
    exact: Callable[[Any], Any] | None = None
    relative: float = 0.0
    stepwise: bool = False
    narrow: ScalarFunction | None = None
    text: str = field(init=False, repr=False)  # other than numbers, it knows 0 from -0

    def __post_init__(self) -> None:
        check_name(self.name)
        made = self.formula(X) if callable(self.formula) else self.formula
        if not isinstance(made, Argument | Value):
            raise ArgumentTypeError(f"the formula of {self.name} is {made!r}: a formula of x is needed")
        for x in _parts(made):
            if isinstance(x, Value) and not getattr(OPERATIONS.get(x.op), "plain", ""):
                raise UnknownNameError("operation", x.op, [op for op, own in OPERATIONS.items() if own.plain])
            if not isinstance(x, Argument | Value | int | float):
                raise ArgumentTypeError(f"the formula of {self.name} has {x}: x and numbers are accepted")
        object.__setattr__(self, "formula", made)
        object.__setattr__(self, "text", str(made))

    def __call__(self, x: Any) -> Any:
        """The formula of registers, or of a formula of them."""
        return _applied(self.formula, x, Value)

    def meaning(self, x: Any) -> Any:
        """The values on an array of float64 or int64."""
        if self.exact:
            return self.exact(x)
        x = numpy.asarray(x)

        def apply(op: str, args: tuple[Any, ...]) -> Array:
            own = OPERATIONS[op]
            with numpy.errstate(all="ignore"):
                return (own.exact or own.effect)(*(numpy.asarray(arg, x.dtype) for arg in args))

        return _applied(self.formula, x, apply)

    @property
    def elements(self) -> tuple[str, ...]:
        """The element types that it is computed with; integers where every step is one of integers."""
        if self.relative:
            return ("f32",)
        whole = all(map(_is_whole, _parts(self.formula)))
        return ("f32", "f64", "s32") if whole else ("f32", "f64")

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations of the formula; what occurs several times is computed once."""
        return tuple(x.op for x in dict.fromkeys(_parts(self.formula)) if isinstance(x, Value))

    def rounded_to(self, result: str) -> ScalarFunction:
        """The function that results of a type are finished by."""
        return self.narrow if self.narrow and result in PACKED else self

    def instr(self, n: int, element: str) -> Instr:
        """v[i] = f(v[i]) for n numbers.  Raises UnsupportedError for a type that it is not computed with."""
        if element not in self.elements:
            raise UnsupportedError(f"{self.name} of {element}: it is stated for {', '.join(self.elements)}")
        return _instr(self, n, element)

    def __str__(self) -> str:
        return self.name


def _parts(formula: Any) -> Iterator[Any]:
    """A formula, and all that it is made of."""
    yield formula
    if isinstance(formula, Value):
        for arg in formula.args:
            yield from _parts(arg)


def _is_whole(part: Any) -> bool:
    """Whether a part of a formula has an integer value where x has one."""
    if isinstance(part, Value):
        own = OPERATIONS[part.op]
        return bool(own.integers) and "{f}" not in own.plain
    return isinstance(part, Argument) or float(part).is_integer()


def _applied(formula: Any, x: Any, apply: Callable[[str, tuple[Any, ...]], Any]) -> Any:
    """A formula of x, whose operations `apply` computes."""
    match formula:
        case Argument():
            return x
        case Value(op, args):
            return apply(op, tuple(_applied(arg, x, apply) for arg in args))
    return formula


def _text(formula: Any, element: str, *, inside: bool = False) -> str:
    """A formula in C, with brackets `inside` an operator unless it is a call.

    Numbers are written first, but last where they are compared.
    """
    match formula:
        case Argument():
            return "x"
        case Value(op, args):
            plain, compared = OPERATIONS[op].plain, op in ("max", "min")
            if compared or op in ("add", "mul"):
                args = tuple(sorted(args, key=lambda x: isinstance(x, int | float) is compared))
            calls = plain.endswith(")")
            a, b, c = (*(_text(x, element, inside=not calls) for x in args), "", "")[:3]
            text = plain.format(a=a, b=b, c=c, f="f" if element == "f32" else "")
            if isinstance(args[-1], int | float) and not math.isnan(args[-1]):
                text = text.replace(f" || {b} != {b}", "")
            return f"({text})" if inside and not calls else text
    if element == "s32":
        return str(int(formula))
    return repr(float(formula)) if element == "f64" and math.isfinite(formula) else float_literal(formula)


@functools.cache
def _instr(f: ScalarFunction, n: int, element: str) -> Instr:
    own = f"{f.name}_narrow" if f.relative else f.name  # what it stands for has the same name
    words, name = words_of_vector(n, element), f"{own}_{n}_{element}"
    if f.stepwise and element == "f32":
        return in_place(name, f.formula, n)
    v, text = at("v", "i", words), _text(f.formula, element)
    if element == "f64":
        apply = f"auto f = [](double x) {{ return {text}; }};"
        lines = f"    {apply}\n" + doubles(n, lambda i: f"f({double_at('v', i)})")
    else:
        kind, get, put = _FORMS[element]
        lines = each(n, [f"const {kind} x = {get.format(v=v)};", put.format(v=v, f=text)])

    def effect(machine: Any, group: Any, v: Array) -> Array:
        return encode(numpy.asarray(f.meaning(decode(v, element))), element)

    floats = "f32" if element == "f32" else ""
    helper = f"void {name}({ref('v', words, floats)}) {{\n{lines}}}"
    return Instr(name, (updated("v", words, floats),), helper, effect)


def _no_places(x: Any, y: Any) -> float:
    return 0.0


def _twelve_places(x: Any, y: Any) -> Any:
    return 12 * abs(y)


def _silu_places(x: Any, y: Any) -> Any:
    """Roundoffs that grow with -x, which e^-x multiplies for a power of 2."""
    return (4 * numpy.maximum(-x, 0) + 16) * abs(y)


def _silu(x: Any) -> Any:
    return x * rcp(exp(-x) + 1.0)


def _tanh_places(x: Any, y: Any) -> Any:
    """Roundoffs of x too: those of the exponent, up to the largest z e^-z."""
    return 16 * (abs(x) + abs(y))


_TANH = -2 * math.sqrt(2 / math.pi) * math.log2(math.e)


def _gelu_tanh(x: Any) -> Any:
    """x / (1 + e^-2z), which is x (1 + tanh z) / 2, with z = sqrt(2 / pi) (x + 0.044715 x^3)."""
    return x * rcp(exp2(x * (x * x * (0.044715 * _TANH) + _TANH)) + 1.0)


_LOG_TAIL = (
    -1.0003174543380737, -1.1467329263687134, -0.4688524603843689, -0.04509464278817177,
    0.00498826103284955, -0.00024299825599882752,
)  # fmt: skip
"""log2 of the normal distribution beyond t, times powers of t: minimax where t times it is above 2^-34."""


def _gelu_narrow(x: Any) -> Any:
    t = minimum(abs(x), 13.0)
    tail: Any = _LOG_TAIL[-1]
    for c in _LOG_TAIL[-2::-1]:
        tail = tail * t + c
    return maximum(x, 0.0) + -t * exp2(tail)


def _gelu(x: Any) -> Any:
    return x * normcdf(x)


def _gelu_or_limit(x: Any) -> Any:
    return numpy.where(x == -math.inf, 0.0, ScalarFunction("gelu", _gelu).meaning(x))


_NARROW_GELU = ScalarFunction(
    "gelu", _gelu_narrow, _twelve_places, 2.0**-34, slope=1.13, relative=2.0**-12, stepwise=True,
    exact=_gelu_or_limit,
)  # fmt: skip
"""Off by less than half a place of 16 bits from 2^-24 on, f16's least: rounded it is the exact result's
neighbour at most."""

FUNCTIONS: Mapping[str, ScalarFunction] = MappingProxyType(
    {
        f.name: f
        for f in (
            ScalarFunction("relu", lambda x: maximum(x, 0.0), _no_places, stepwise=True),
            # x times the normal distribution function of x, which from -13 down is 5 of the least floats off
            ScalarFunction("gelu", _gelu, _twelve_places, 2.0**-142, slope=1.13, narrow=_NARROW_GELU),
            # its approximation
            ScalarFunction("gelu_tanh", _gelu_tanh, _tanh_places, 2.0**-119, slope=1.13, stepwise=True),
            # 0 where e^-x is infinite: -88 e^-88 is -2.6e-37
            ScalarFunction("silu", _silu, _silu_places, 2.0**-119, slope=1.1, stepwise=True),
        )
    }
)  # fmt: skip
"""Functions by name, PyTorch's: gelu_tanh is its gelu with approximate="tanh"; relu keeps NaN.

Of -infinity relu is 0 and the others are NaN, but for the narrow gelu, which is 0."""
