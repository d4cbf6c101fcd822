"""Maps: y[i] = f(x[i], ...) for every coordinate i of a shape, any strides on every side.

relu, gelu, ...     the functions of `codegen.instr.functions`, and those of a user's own
add                 x + y, where y may be broadcast: strides of 0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr import FUNCTIONS, ScalarFunction
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnsupportedError, check_choice
from layoutalg.kernels import modes
from layoutalg.kernels.elements import HALF_PLACE
from layoutalg.kernels.modes import StridedMode, buffer_elems, check_written, compact_strides, normal_form

PLACE = HALF_PLACE["f32"]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of some registers, the same of NumPy's float64, and how far apart they may be before the
    result is rounded to the type of the elements."""

    inputs: tuple[str, ...]
    registers: Callable[..., Any]
    numbers: Callable[..., Any]
    bound: Callable[..., Any]


def _of_one(f: ScalarFunction) -> Formula:
    return Formula(("x",), f, f.meaning, lambda exact, x: PLACE * f.places(x, exact) + f.absolute)


FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {name: _of_one(f) for name, f in FUNCTIONS.items()}
    | {
        "add": Formula(
            ("x", "y"), lambda x, y: x + y, lambda x, y: x + y, lambda exact, x, y: PLACE * abs(exact)
        )
    }
)
"""The formulas by name."""

ELEMENTS = ("f32", "f16", "bf16")
OUT = "dst"


@dataclass(frozen=True, slots=True)
class MapProblem:
    """`op` of every element of a shape; `strides`, in elements, are those of the inputs and of the result.

    >>> print(map_problem("add", (4, 6), "f16", [(6, 1), (0, 1)]))
    add (4,6) f16, x (6,1), y (0,1) -> dst (6,1)
    """

    op: str | ScalarFunction
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[tuple[int, ...], ...]

    @property
    def formula(self) -> Formula:
        """The formula of the operation."""
        return _of_one(self.op) if isinstance(self.op, ScalarFunction) else FORMULAS[self.op]

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
    op: str | ScalarFunction, shape: Sequence[int], dtype: str | DType = "f32",
    strides: Sequence[Sequence[int]] | None = None, dst: Sequence[int] | None = None,
) -> MapProblem:  # fmt: skip
    """A checked problem; `strides`, one for each input, and `dst` are row-major by default.

    Raises UnknownNameError for a formula there is not, UnsupportedError for other elements, ShapeError for
    extents and strides that make no tensor, NotInjectiveError for a result that aliases.

    >>> map_problem("gelu", (4, 6)).elems
    (24, 24)
    """
    if isinstance(op, str):
        check_choice("formula", op, FORMULAS)
    element, shape = find_dtype(dtype), tuple(shape)
    count = len(FORMULAS[op].inputs) if isinstance(op, str) else 1
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
