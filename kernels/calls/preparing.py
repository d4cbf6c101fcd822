"""Calls that are worked out once and run many times: `prepare`, for every operation by its name.

The idea.  Whatever an operation decides of its arrays, from refusals to launches, is done by its own
`prepare_...`; the operation itself is that and one run.  So a prepared call computes what the operation does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from layoutalg.errors import ArgumentTypeError, check_choice
from layoutalg.kernels.calls.api import prepare_move, prepare_relayout
from layoutalg.kernels.calls.entropy_api import prepare_cross_entropy
from layoutalg.kernels.calls.grouped_api import prepare_grouped_matmul
from layoutalg.kernels.calls.product_api import prepare_matmul
from layoutalg.kernels.calls.reduce_api import prepare_norm, prepare_reduce
from layoutalg.kernels.calls.repeated import Prepared
from layoutalg.kernels.rowwise import FOLD, PARAMETERS

_ARRAYS = ("op", "x", "a", "out")


def _reduction(op: str, x: Any, **options: Any) -> Prepared:
    return prepare_reduce(x, op, **options)


def _options(prepare: Callable[..., Any], *without: str) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(prepare).parameters if name not in (*_ARRAYS, *without))


def _norm(op: str) -> tuple[Callable[..., Prepared], tuple[str, ...]]:
    has = (*PARAMETERS[op], *(["eps"] if PARAMETERS[op] else []))
    missing = {"weight", "bias", "eps"} - set(has)
    return partial(_with_eps if has else prepare_norm, op), _options(prepare_norm, *missing)


def _with_eps(op: str, x: Any, eps: float = 1e-5, **options: Any) -> Prepared:
    return prepare_norm(op, x, eps=eps, **options)


PREPARED: Mapping[str, tuple[Callable[..., Prepared], tuple[str, ...]]] = MappingProxyType(
    {
        **{op: (partial(prepare_move, op), _options(prepare_move)) for op in ("permute", "transpose")},
        "relayout": (prepare_relayout, _options(prepare_relayout)),
        **{op: (partial(_reduction, op), _options(prepare_reduce)) for op in FOLD},
        **{op: _norm(op) for op in PARAMETERS},
        "cross_entropy": (prepare_cross_entropy, _options(prepare_cross_entropy)),
        "matmul": (prepare_matmul, _options(prepare_matmul)),
        "grouped_matmul": (prepare_grouped_matmul, _options(prepare_grouped_matmul)),
    }
)
"""The function that prepares each operation, and its options."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"transpose": {"axes": None}})
_NEEDED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"permute": ("axes",), "relayout": ("src", "dst"), "matmul": ("b",), "cross_entropy": ("target",),
     "grouped_matmul": ("b", "sizes")}
)  # fmt: skip


def prepare(op: str, x: Any, out: Any = None, **options: Any) -> Prepared:
    """Plan a call of an operation on its arrays, and return a function that runs it, any number of times.

    `op` is "permute", "transpose", "relayout", "softmax", "layer_norm", "rms_norm", "cross_entropy",
    "matmul", "grouped_matmul" or a reduction such as "sum"; `options` are the other arguments of that
    function by name (`b`, `axes`, `weight`).  The arrays are kept alive, and read at each call, on the stream
    that is current then; the result, `out` or a new array, is written each time and returned.  On a GPU a
    call is little more than its launches.  Raises what the operation raises, here and not when it is called;
    UnknownNameError for another operation or option, ArgumentTypeError for one that is missing.

    >>> import numpy
    >>> x, out = numpy.ones((2, 3), "f4"), numpy.zeros(2, "f4")
    >>> total = prepare("sum", x, out, axes=1)
    >>> x[1] = 5
    >>> total().tolist(), total() is out
    ([3.0, 15.0], True)
    """
    check_choice("operation", op, PREPARED)
    made, names = PREPARED[op]
    for name in options:
        check_choice(f"option of {op}", name, names)
    if missing := [name for name in _NEEDED.get(op, ()) if name not in options]:
        raise ArgumentTypeError(f"{op} takes {' and '.join(missing)} too, by name")
    return made(x, out=out, **{**_DEFAULTS.get(op, {}), **options})
