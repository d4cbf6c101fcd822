"""Calls that are worked out once and run many times: `prepare`, for every operation by its name.

The idea.  The function of an operation says the defaults of its arguments, its record which are arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any

from layoutalg.errors import ArgumentTypeError, check_choice
from layoutalg.kernels.calls import api, attention_api, grouped_api, product_api, reduce_api
from layoutalg.kernels.calls.operation import Operation, Prepared
from layoutalg.kernels.rowwise import FOLD

OPERATIONS: Mapping[str, tuple[Callable[..., Any], Operation]] = MappingProxyType(
    {
        "permute": (api.permute, api.PERMUTE),
        "transpose": (api.transpose, api.TRANSPOSE),
        "relayout": (api.relayout, api.RELAYOUT),
        **{op: (partial(reduce_api.reduce, op=op), reduce_api.REDUCE) for op in FOLD},
        **{op: (f, reduce_api.NORM_OPERATIONS[op]) for op, f in reduce_api.NORM_FUNCTIONS.items()},
        "attention": (attention_api.attention, attention_api.ATTENTION),
        "cross_entropy": (reduce_api.cross_entropy, reduce_api.CROSS_ENTROPY),
        "matmul": (product_api.matmul, product_api.MATMUL),
        "grouped_matmul": (grouped_api.grouped_matmul, grouped_api.GROUPED_MATMUL),
    }
)
"""Every operation by its name, with its function."""


@functools.cache
def _defaults(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The defaults of a function's arguments by name, in their order."""
    return {name: p.default for name, p in signature(function).parameters.items()}


def prepare(op: str, x: Any, out: Any = None, **options: Any) -> Prepared:
    """Plan a call of an operation on its arrays, and return a function that runs it, any number of times.

    `op` is "permute", "transpose", "relayout", "cross_entropy", "matmul", "grouped_matmul", a norm such as
    "softmax" or a reduction such as "sum"; `options` are the other arguments of that
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
    check_choice("operation", op, OPERATIONS)
    function, record = OPERATIONS[op]
    usual = _defaults(function)
    fixed = {record.arrays[0]: x, "out": out}
    taken = (*record.options, *record.arrays, "simulate")
    names = [name for name in usual if name in taken and name not in (*fixed, "op")]
    for name in options:
        check_choice(f"option of {op}", name, names)
    if missing := [name for name in names if usual[name] is Parameter.empty and name not in options]:
        raise ArgumentTypeError(f"{op} takes {' and '.join(missing)} too, by name")
    every = {**usual, **fixed, **options}
    arguments, arrays = (tuple(every[name] for name in part) for part in (record.options, record.arrays))
    return record.prepared(arguments, arrays, every["simulate"])
