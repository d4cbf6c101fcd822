"""operation: the decorator of an operation on plain layouts, which makes it a public one on all layouts.

The idea.  An operation that only regroups, cuts or repeats modes does so inside of a composed layout: outer
functions and offsets stay.  What it refuses is named by the call.

>>> @operation
... def reverse(layout: Layout) -> Layout:
...     return Layout(layout.shape[::-1], layout.stride[::-1])
>>> print(reverse(ComposedLayout(Layout(64), 3, Layout((2, 8)))))
64:1 o 3 o (8,2):(2,1)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from layoutalg.errors import LayoutAlgError, named
from layoutalg.layout.layout import Layout
from layoutalg.layout.swizzle import AnyLayout, ComposedLayout, check_layouts

L = TypeVar("L", bound=AnyLayout)
P = ParamSpec("P")


class Operation(Protocol[P]):
    """An operation that makes of a Layout a Layout, and of a ComposedLayout a ComposedLayout."""

    __name__: str

    def __call__(self, layout: L, *operands: P.args, **options: P.kwargs) -> L: ...


def operation(plain: Callable[Concatenate[Layout, P], Layout]) -> Operation[P]:
    """The public operation of one on plain layouts: refusals are named by the call, swizzles stay outside.

    A `trace` notes what stays outside.  Raises ArgumentTypeError for what is not a layout.

    >>> @operation
    ... def doubled(layout: Layout) -> Layout:
    ...     return Layout((layout.shape, 2))
    >>> print(doubled(Layout(8)))
    (8,2):(1,8)
    """
    name = plain.__name__

    @functools.wraps(plain)
    def run(layout: Any, *operands: Any, **options: Any) -> Any:
        try:
            if isinstance(layout, Layout):
                return plain(layout, *operands, **options)
            check_layouts(name, layout)
            inner = run(layout.inner, *operands, **options)
        except LayoutAlgError as error:
            named(name, error, layout, *operands, *(v for k, v in options.items() if k != "trace"))
        result = ComposedLayout(layout.outer, layout.offset, inner)
        trace = options.get("trace")
        if trace is not None:
            trace.note("inside", operation=run, layout=layout, result=result)
        return result

    return run
