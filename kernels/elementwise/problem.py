"""Maps: y[i] = f(x[i], ...) for every coordinate i of a shape, any strides on every side.

A formula is written once for registers, as the kernel language writes it, and once for NumPy, by definition;
`bound` says how far the first may be from the second before it is rounded to the type of the elements.

    relu    max(x, 0)
    gelu    x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    silu    x / (1 + e^-x)
    add     x + y, where y may be broadcast: strides of 0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi, prod, sqrt
from types import MappingProxyType
from typing import Any

from layoutalg.codegen import exp, maximum, tanh
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnsupportedError, check_choice
from layoutalg.kernels import modes
from layoutalg.kernels.elements import HALF_PLACE
from layoutalg.kernels.modes import StridedMode, buffer_elems, check_written, compact_strides, normal_form

PLACE = HALF_PLACE["f32"]
LOST = 2.0**-119
"""The error of a silu where e^-x is infinite: -88 e^-88 is -2.6e-37."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of some registers, the same of NumPy's float64, and how far apart they may be."""

    inputs: tuple[str, ...]
    registers: Callable[..., Any]
    numbers: Callable[..., Any]
    bound: Callable[..., Any]


def _gelu(x: Any, tanh: Callable[[Any], Any]) -> Any:
    return (x * 0.5) * (tanh((x + x * x * x * 0.044715) * sqrt(2 / pi)) + 1.0)


def _numpy_tanh(x: Any) -> Any:
    import numpy

    return numpy.tanh(x)


def _numpy_silu(x: Any) -> Any:
    import numpy

    return x / (1.0 + numpy.exp(-x))


def _numpy_relu(x: Any) -> Any:
    import numpy

    return numpy.maximum(x, 0.0)


FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {
        "relu": Formula(("x",), lambda x: maximum(x, 0.0), _numpy_relu, lambda exact, x: 0.0 * exact),
        "gelu": Formula(
            ("x",), lambda x: _gelu(x, tanh), lambda x: _gelu(x, _numpy_tanh),
            lambda exact, x: 16 * PLACE * (abs(x) + abs(exact)),
        ),
        "silu": Formula(
            ("x",), lambda x: x / (exp(-x) + 1.0), _numpy_silu,
            lambda exact, x: 4 * PLACE * (abs(x) + 4) * abs(exact) + LOST,
        ),
        "add": Formula(
            ("x", "y"), lambda x, y: x + y, lambda x, y: x + y, lambda exact, x, y: PLACE * abs(exact)
        ),
    }
)  # fmt: skip
"""The formulas by name."""

ELEMENTS = ("f32", "f16", "bf16")
OUT = "dst"


@dataclass(frozen=True, slots=True)
class MapProblem:
    """`op` of every element of a shape; `strides`, in elements, are those of the inputs and of the result.

    >>> print(map_problem("add", (4, 6), "f16", [(6, 1), (0, 1)]))
    add (4,6) f16, x (6,1), y (0,1) -> dst (6,1)
    """

    op: str
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[tuple[int, ...], ...]

    @property
    def formula(self) -> Formula:
        """The formula of the operation."""
        return FORMULAS[self.op]

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the buffers, the result last."""
        return (*self.formula.inputs, OUT)

    @property
    def elems(self) -> tuple[int, ...]:
        """Elements of every buffer, gaps included."""
        sides = zip(self.sides, self.strides, strict=True)
        return tuple(buffer_elems(name, self.shape, d, 0) for name, d in sides)

    @property
    def moved_bytes(self) -> int:
        """Bytes read plus bytes written, every element that exists once."""
        each = (prod(n for n, d in zip(self.shape, side, strict=True) if d) for side in self.strides)
        return sum(each) * self.dtype.nbytes

    @property
    def form(self) -> tuple[StridedMode, ...]:
        """The fewest modes, by the result's strides."""
        modes = (StridedMode(n, tuple(side)) for n, *side in zip(self.shape, *self.strides, strict=True))
        return normal_form(modes, len(self.strides) - 1) or (StridedMode(1, (1,) * len(self.strides)),)

    def __str__(self) -> str:
        *inputs, to = (
            f"{name} ({','.join(map(str, d))})" for name, d in zip(self.sides, self.strides, strict=True)
        )
        return f"{self.op} ({','.join(map(str, self.shape))}) {self.dtype}, {', '.join(inputs)} -> {to}"


def map_problem(
    op: str, shape: Sequence[int], dtype: str | DType = "f32", strides: Sequence[Sequence[int]] | None = None,
    dst: Sequence[int] | None = None,
) -> MapProblem:  # fmt: skip
    """A checked problem; `strides`, one for each input, and `dst` are row-major by default.

    Raises UnknownNameError for a formula there is not, UnsupportedError for other elements, ShapeError for
    extents and strides that make no tensor, NotInjectiveError for a result that aliases.

    >>> map_problem("gelu", (4, 6)).elems
    (24, 24)
    """
    check_choice("formula", op, FORMULAS)
    element, shape, count = find_dtype(dtype), tuple(shape), len(FORMULAS[op].inputs)
    if element.name not in ELEMENTS:
        raise UnsupportedError(f"{op} of {element}: {', '.join(ELEMENTS)} are accepted")
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in shape):
        raise ShapeError(f"shape {shape}: extents must be positive integers")
    dense = compact_strides(shape)
    sides = tuple(tuple(d) for d in (*(strides or [dense] * count), dst or dense))
    if len(sides) != count + 1 or any(len(d) != len(shape) or min(d, default=0) < 0 for d in sides):
        raise ShapeError(f"{op} of shape {shape}: strides {sides}; every side needs one per mode, from 0 on")
    check_written(f"{op} of shape {shape}", shape, sides[-1])
    return MapProblem(op, shape, element, sides)


def places(p: MapProblem, side: int) -> Any:
    """Return the places of a side's elements in its flat buffer, an array of the problem's shape.

    >>> places(map_problem("relu", (2, 3), dst=(4, 1)), 1).tolist()
    [[0, 1, 2], [4, 5, 6]]
    """
    return modes.places(p.shape, p.strides[side])
