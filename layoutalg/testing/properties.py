"""Property checks to point at your own layouts, access patterns and index code; failures come out small.

The idea.  A check states a property of a layout, looks at its WHOLE domain and raises MismatchError where
the property fails.  Hand-written index code is compared with the layout it is meant to be:

>>> from layoutalg.notation import parse
>>> tile = parse("Sw<3,0,3> o 0 o (8,8):(8,1)")
>>> check_index_function("__device__ int f(int row, int col) { return 8 * row + (col ^ row); }", tile)

A failure is shrunk.  For one layout: modes are dropped and extents cut as long as the property still fails,
and what is left is printed in CuTe notation.

>>> check_bijective(Layout((8, 4, 16), (4, 1, 16)))
Traceback (most recent call last):
...
layoutalg.errors.MismatchError: (8,4,16):(4,1,16) is not injective: 4 = (4,0,0) and 32 = (0,0,1) share the
offset 16; the smallest part that fails is (5,2):(4,16)

For a family of layouts, `check_family` draws members from a hypothesis strategy and reports the smallest
one that fails; the strategies `layouts`, `swizzles`, `composed_layouts` and `accesses` are here too:

>>> from layoutalg.testing import layouts
>>> check_family(layouts(compact=True), check_bijective)

In a test of your own use them with `hypothesis.given`, which shrinks in the same way.  The strategies need
hypothesis (`pip install 'layoutalg[testing]'`), the checks do not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from layoutalg.decide import find_difference, is_bijective
from layoutalg.errors import (
    ArgumentTypeError,
    MismatchError,
    UnknownNameError,
    UnsupportedError,
    check_type,
    shown,
)
from layoutalg.layout import (
    AnyLayout,
    Layout,
    check_integers,
    coordinate_at,
    flatten_tree,
    leaves,
    size,
    to_text,
)
from layoutalg.testing.indexcode import TABLE_SECONDS, IndexCode, IndexExpression, is_expression
from layoutalg.testing.minimal import part_up_to, shrink

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


CHUNK_ELEMS = 1 << 20
"""Offsets compared at a time, so that memory stays bounded on large domains."""

TABLE_ELEMS = 1 << 24
"""Layouts up to this size are looked at offset by offset; larger ones are decided in closed form."""

LANGUAGES = ("c", "python")
"""The languages of index code; c is C, C++ and CUDA."""

_PYTHON = re.compile(r"^[ \t]*(def\s+\w+\s*\(|\w+\s*=\s*lambda\b)", re.MULTILINE)

T = TypeVar("T")


def check_bijective(layout: AnyLayout) -> None:
    """The layout takes every offset in [0, size) exactly once.

    Raises MismatchError; its `index` is the pair of coordinates that collide, or the offset that is missed
    (None past TABLE_ELEMS, where the answer comes from `is_bijective`, or an UndecidedError).

    >>> check_bijective(Layout((4, 8), (8, 1)))
    """
    check_integers("check_bijective", layout)
    if size(layout) > TABLE_ELEMS:
        if not is_bijective(layout):
            raise MismatchError(f"{layout} is not one-to-one onto [0,{size(layout)})")
        return
    pair = _collision(layout)
    if pair is not None:
        a, b = pair
        part = shrink(layout, lambda smaller: _collision(smaller) is not None)
        raise MismatchError(
            f"{layout} is not injective: {_place(layout, a)} and {_place(layout, b)} share the offset "
            f"{layout(a)}; the smallest part that fails is {part}",
            index=pair,
        )
    missed = _missed(layout)
    if missed is not None:
        part = shrink(layout, lambda smaller: _collision(smaller) is None and _missed(smaller) == missed)
        raise MismatchError(
            f"{layout} does not fill [0,{size(layout)}): it never takes the offset {missed}; "
            f"the smallest part that fails is {part}",
            index=missed,
        )


def _collision(layout: AnyLayout) -> tuple[int, int] | None:
    """The first index whose offset an earlier index has, with that one before it; None when injective."""
    import numpy

    offsets = _offsets(layout, 0, size(layout))
    _, first, inverse = numpy.unique(offsets, return_index=True, return_inverse=True)
    again = numpy.flatnonzero(first[inverse] != numpy.arange(len(offsets)))
    return (int(first[inverse[again[0]]]), int(again[0])) if len(again) else None


def _missed(layout: AnyLayout) -> int | None:
    """The least offset of [0, size) that is not taken."""
    import numpy

    n = size(layout)
    offsets = _offsets(layout, 0, n)
    taken = numpy.zeros(n, dtype=bool)
    taken[offsets[(offsets >= 0) & (offsets < n)]] = True
    return None if taken.all() else int(taken.argmin())


def check_same_function(a: AnyLayout, b: AnyLayout) -> None:
    """Both layouts give every flat index of their common domain the same offset.

    Shapes may differ, sizes may not.  Raises MismatchError; its `index` is the flat index shown.  Past
    TABLE_ELEMS the answer comes from `find_difference`, which may raise UndecidedError.

    >>> check_same_function(Layout((4, 8)), Layout(32))
    """
    for layout in (a, b):
        check_integers("check_same_function", layout)
    if size(a) != size(b):
        raise MismatchError(f"{a} and {b} have different domains: {size(a)} and {size(b)} coordinates")
    if size(a) > TABLE_ELEMS:
        worst = find_difference(a, b)
    else:
        worst = _worst(a, lambda first, count: _offsets(a, first, count) != _offsets(b, first, count))
    if worst is not None:
        alike = flatten_tree(a.shape) == flatten_tree(b.shape)
        parts = f"; the smallest parts that differ are {part_up_to(a, worst)} and {part_up_to(b, worst)}"
        raise MismatchError(
            f"{a} and {b} differ at {_place(a, worst)}: {a(worst)} and {b(worst)}{parts if alike else ''}",
            index=worst,
        )


def check_index_function(
    c_source: str,
    layout: AnyLayout,
    function: str = "f",
    *,
    names: Sequence[str] | None = None,
    language: str | None = None,
    label: str | None = None,
    folders: Sequence[Path] = (),
    timeout_s: float | None = None,
) -> None:
    """Hand-written C, CUDA or Python index code computes the layout, on the whole domain.

    The code is an expression or has a function.  Of an expression, which is read as `layoutalg analyze
    --index` reads it and not executed, one variable is the flat index; several are the modes, or the leaves
    of the shape, in the order of `names`, which may be left out of row and col, i, j, k, l, and m, n, k.

    `function` takes the flat index, one integer per mode, or one per leaf of the shape, and returns an
    integer of any width; it may be a function, an instance of a template (`f<64>`), a functor, a lambda or a
    macro.  An int2 is two integers; a pointer is a base, from which a pointer or a reference that is returned
    is counted in elements; modes that the parameters do not take are threadIdx.x, .y and .z, the first modes.
    CUDA's words, types and intrinsics are defined for the host; headers are looked up in `folders`.
    `language` is c or python, by default what the text looks like.

    A function is built with the host's C++ compiler and runs in a process of its own, with the rights of this
    one, under limits of memory and time, at most `timeout_s` per table.  Raises MismatchError, whose
    `index` is the flat index shown, also where the function ends its process, as a division by zero does;
    CompileError, with the line under `label`; ShapeError for another number of parameters; ParseError for a
    name that is not one, and for what is not an expression; ArgumentTypeError for an expression whose
    variables nothing orders; UndecidedError for a function that does not return.

    >>> check_index_function("i % 4 * 8 + i / 4", Layout((4, 8), (8, 1)))
    >>> check_index_function("int f(int i) { return i % 4 * 8 + i / 4; }", Layout((4, 8), (8, 1)))
    >>> check_index_function("def f(i): return i % 4 * 8 + i // 4", Layout((4, 8), (8, 1)))
    """
    check_integers("check_index_function", layout)
    check_type("check_index_function", c_source, str, "C, CUDA or Python code")
    check_type("check_index_function", function, str, "the name of a function")
    if language not in (None, *LANGUAGES):
        raise UnknownNameError("language", language, LANGUAGES)
    code: IndexCode | IndexExpression
    if is_expression(c_source):
        code = IndexExpression(c_source, layout.shape, names)
    elif names is not None:
        raise ArgumentTypeError("names are those of an expression; a function has its parameters")
    else:
        code = IndexCode(
            c_source,
            function,
            layout.shape,
            language=language or ("python" if _PYTHON.search(c_source) else "c"),
            label=label,
            folders=folders,
            timeout_s=TABLE_SECONDS if timeout_s is None else timeout_s,
        )

    def differ(first: int, count: int) -> Any:
        return code.table(first, count) != _offsets(layout, first, count)

    worst = _worst(layout, differ)
    if worst is not None:
        value = int(code.table(worst, 1)[0])
        raise MismatchError(
            f"{code.function} is not {layout}: at {_place(layout, worst)} it returns {value} instead of "
            f"{layout(worst)}; the smallest part that fails is {part_up_to(layout, worst)}",
            index=worst,
        )


def check_family(
    strategy: SearchStrategy[T], check: Callable[[T], object], *, max_examples: int = 200
) -> None:
    """`check` passes for every member drawn from `strategy`; a failure is reported at the smallest.

    The draw is the same in every run.  Raises MismatchError, whose `index` is the member; any other error
    of `check` is passed on, also at the smallest member.

    >>> from layoutalg.testing import layouts
    >>> def flat(layout): return Layout(size(layout), 1)
    >>> def check(layout): check_same_function(flat(layout), layout)
    >>> check_family(layouts(max_size=64), check)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    layoutalg.errors.MismatchError: fails for ...: 2:1 and ... differ at ...
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.strategies import SearchStrategy

    check_type("check_family", strategy, SearchStrategy, "a strategy of hypothesis")
    if not callable(check):
        raise ArgumentTypeError(f"check_family by {shown(check)}: a function is needed")
    last: list[T] = []

    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(member: T) -> None:
        last[:] = [member]
        check(member)

    try:
        run()
    except MismatchError as error:
        raise MismatchError(f"fails for {last[0]}: {error.message}", index=last[0]) from None


def _worst(layout: AnyLayout, differ: Callable[[int, int], Any]) -> int | None:
    """The index that spans the smallest part, among those at which `differ(first, count)` holds."""
    import numpy

    best: tuple[int, int] | None = None
    for first in range(0, size(layout), CHUNK_ELEMS):
        bad = numpy.flatnonzero(differ(first, min(CHUNK_ELEMS, size(layout) - first))) + first
        if len(bad):
            digits = flatten_tree(coordinate_at(bad, layout.shape))
            volume = numpy.ones(len(bad))
            for d in digits:
                volume *= d + 1
            at = int(volume.argmin())
            best = min(best or (sys.maxsize, 0), (int(volume[at]), int(bad[at])))
    return best[1] if best else None


def _place(layout: AnyLayout, index: int) -> str:
    """A flat index, and the coordinate it is where that says more."""
    crd = coordinate_at(index, layout.shape)
    return f"{index} = {to_text(crd)}" if isinstance(crd, tuple) else str(index)


def _offsets(layout: AnyLayout, first: int, count: int) -> Any:
    """The offsets of `count` flat indices from `first` on, as 64-bit integers."""
    import numpy

    if _reach(layout) > sys.maxsize:
        raise UnsupportedError(f"{layout} has offsets past 63 bits; the checks compare 64-bit integers")
    indices = numpy.arange(first, first + count, dtype=numpy.int64)
    return layout(indices) + numpy.zeros(count, dtype=numpy.int64)


def _reach(layout: AnyLayout) -> int:
    """A bound on the absolute value of every offset and of what is added up on the way."""
    if isinstance(layout, Layout):
        return sum(abs(d) * (s - 1) for s, d in leaves(layout))
    inner = layout.offset + _reach(layout.inner)
    if isinstance(layout.outer, Layout):
        return max(inner, inner * sum(abs(d) for _, d in leaves(layout.outer)))
    return 1 << max(inner, *(f.yyy_mask | f.zzz_mask for f in layout.swizzles)).bit_length()
