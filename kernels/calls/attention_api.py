"""Attention of arrays on a GPU or the CPU: softmax(score(scale q k^T)) v for every head.

    layoutalg.ops.attention(q, k, v, causal=True)                        (batch, heads, length, d)
    layoutalg.ops.attention(q, k, v, window=(1024, 0), return_lse=True)  (o, lse)

k and v may have fewer heads than q, of which each serves several in turn: grouped-query and multi-query
attention.  On a GPU the products are of bf16 or f16 and sums of float32, weights are rounded to the type of
v; arrays on the CPU are computed by the definition in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy

from layoutalg.decide import is_injective
from layoutalg.errors import AlignmentError, ArgumentTypeError, NotInjectiveError, ShapeError
from layoutalg.kernels.attention import Align, Score, attention_problem, reference
from layoutalg.kernels.calls.api import permute
from layoutalg.kernels.calls.arrays import (
    UNIT_BYTES,
    View,
    check_apart,
    check_fellows,
    check_result,
    fill,
    flag,
    new_array,
    view,
)
from layoutalg.kernels.calls.operation import Call, Operation, words_in
from layoutalg.kernels.calls.reduce_api import check_element, is_dense
from layoutalg.kernels.elements import ELEMENT, values_of, words_of
from layoutalg.kernels.modes import compact_strides
from layoutalg.layout import Layout

KINDS = "bfloat16", "float16"


def attention(
    q: Any, k: Any, v: Any, causal: bool = False, window: tuple[int | None, int | None] = (None, None),
    align: Align = "bottom-right", scale: float | None = None, score_mod: Score | None = None,
    return_lse: bool = False, out: Any = None, lse: Any = None, *, copy: bool = True, simulate: bool = False,
) -> Any:  # fmt: skip
    """softmax(scale q k^T) v over the keys that a query sees, for arrays of (batch, heads, length, d).

    Heads are 64, 128 or 256 elements of float16 or bfloat16; the heads of k and v divide those of q.  A query
    sees the keys `window` = (left, right) of its place, all by default, and with `causal` none to the right;
    its place is counted from the last key, or with align="top-left", as in PyTorch's is_causal, from the
    first.  `scale` is 1 / sqrt(d) by default; `score_mod(score, batch, head, query, key)` is a formula of the
    kernel language for each score, behind the scale.  A query that sees no key gives zeros.  With
    `return_lse` the result is (o, lse), the logarithm of the sum of each row's e^score, float32, -inf where a
    query sees no key; it is written to `lse` where that is given, a contiguous array.  On a GPU, where v is
    not finite at a key that a query does not see, its results of that column may be NaN.  Arrays that TMA
    does not read or write, whose rows are not contiguous or do not start at multiples of 16 bytes, are
    copied, unless `copy` is False.  `simulate` runs the kernel for arrays on the CPU in the simulator.

    Raises ShapeError for shapes that do not go together, UnsupportedError for other elements and heads,
    AlignmentError for what has to be copied and may not be; ArgumentTypeError for what is not an array,
    arrays of several libraries or devices and an `out` that overlaps.

    >>> import numpy
    >>> q, k, v = (numpy.ones((1, heads, 3, 64), "f2") for heads in (4, 2, 2))
    >>> o, lse = attention(q, k, v, causal=True, return_lse=True)
    >>> o.shape, lse[0, 0].round(3).tolist()
    ((1, 4, 3, 64), [8.0, 8.692999839782715, 9.098999977111816])
    """
    if flag("return_lse", return_lse) and lse is None:
        like = view(q)
        lse = new_array(like, like.form.shape[:3], kind="float32").array
    options = window, causal, align, scale, score_mod, copy
    o = ATTENTION.compute(options, (q, k, v, lse, out), simulate)
    return (o, lse) if return_lse else o


def _attended(
    call: Call, window: Any, causal: bool, align: Align, scale: float | None, score: Score | None, copy: bool
) -> Callable[[], object]:
    views, shapes = call.views, {name: call.views[name].form.shape for name in "qkv"}
    for name in "qkv":
        check_element(views[name].form, "attention", KINDS)
        check_fellows(call.first, views[name], name, "q")
        if views[name].form.kind != call.first.form.kind:
            raise ArgumentTypeError(f"{name} holds {views[name].form.kind}, q {call.first.form.kind}")
        if len(shapes[name]) != 4:
            raise ShapeError(f"{name} has shape {shapes[name]}: (batch, heads, length, d) is needed")
    (batch, heads, m, d), (_, kv_heads, n, _) = shapes["q"], shapes["k"]
    if shapes["k"] != shapes["v"] or shapes["k"] != (batch, kv_heads, n, d) or heads % max(kv_heads, 1):
        raise ShapeError(
            f"attention of q {shapes['q']}, k {shapes['k']} and v {shapes['v']}: k and v of one shape are "
            "needed, of q's batch and d and of a number of heads that divides q's"
        )
    target = call.result(shapes["q"], (call.first.form.kind,))
    form = target.form
    if form.elems and not is_injective(Layout((form.itemsize, *form.shape), (1, *map(abs, form.strides)))):
        raise NotInjectiveError(f"out has strides {form.strides} in bytes: elements lie upon each other")
    if "lse" in views:
        check_result(call.first, views["lse"], shapes["q"][:3], ("float32",), "lse")
        check_apart(views, written="lse")
        if not is_dense(views["lse"].form):
            raise ShapeError(f"lse has strides {views['lse'].form.strides} in bytes; it must be contiguous")
    if not isinstance(window, tuple) or len(window) != 2:
        raise ArgumentTypeError(f"window = {window}: (left, right) is needed")
    made = partial(
        attention_problem, batch, heads, m, n, d, ELEMENT[call.first.form.kind],
        group=heads // max(kv_heads, 1), causal=flag("causal", causal), window=window, align=align,
        scale=scale, score=score, sums="lse" in views,
    )  # fmt: skip
    if not (batch and m and n):
        made()
        return partial(_of_nothing, target, views.get("lse"))

    moved = [x for x in ("q", "k", "v", "out") if not _by_tma(views[x])] if flag("copy", copy) else []
    if moved and (call.simulated or call.first.form.device is not None):
        return _on_copies(call, (window, causal, align, scale, score, copy), moved)

    def problem(starts: Mapping[str, int] | None) -> Any:
        if starts is None:
            return made()
        return made(strides=tuple(_steps(x, views[x]) for x in ("q", "k", "v", "out")))

    def define() -> None:
        p, kind = made(), ELEMENT[call.first.form.kind]
        o, lse = reference(p, *(values_of(words_in(views[name]), kind) for name in "qkv"))
        words_in(target)[...] = words_of(o, kind).reshape(target.shape)
        if "lse" in views:
            views["lse"].host[...] = lse.astype(numpy.float32).view(views["lse"].host.dtype)

    if call.first.form.device is None and not call.simulated:
        return define
    return call.planned("attention", problem, define)


def _by_tma(v: View) -> bool:
    """True where TMA reads and writes the rows of an array: contiguous ones, at multiples of 16 bytes."""
    outer = [d for n, d in zip(v.shape[:3], v.strides, strict=False) if n > 1]
    whole = all(d > 0 and d % UNIT_BYTES == 0 for d in outer)
    return whole and v.address % UNIT_BYTES == 0 and v.strides[3] == v.form.itemsize


def _on_copies(call: Call, options: tuple[Any, ...], moved: list[str]) -> Callable[[], object]:
    """The call on dense copies of the arrays that are `moved`."""
    arrays = {name: v.array for name, v in call.views.items()}
    copies = {x: new_array(call.views[x], call.views[x].shape).array for x in moved}
    given = tuple((arrays | copies).get(x) for x in ATTENTION.arrays)

    def run() -> None:
        for x in moved:
            if x != "out":
                permute(arrays[x], range(4), copies[x])
        ATTENTION.compute(options, given, call.simulated)
        if "out" in copies:
            permute(copies["out"], range(4), arrays["out"])

    return run


def _steps(name: str, v: View) -> tuple[int, int, int]:
    """The strides of an array along batch, head and row, in elements."""
    if not _by_tma(v):
        raise AlignmentError(
            f"{name} starts at {v.address:#x} with strides {v.strides} in bytes: TMA reads rows that are "
            "contiguous and start at multiples of 16 bytes; copy=True copies it",
            offset=v.address, required_bytes=UNIT_BYTES,
        )  # fmt: skip
    sides = zip(v.shape, v.strides, compact_strides(v.shape), strict=True)
    batch, head, row, _ = (u if n == 1 else d // v.form.itemsize for n, d, u in sides)
    return batch, head, row


def _of_nothing(target: View, lse: View | None) -> None:
    """Write the results of queries that see no key."""
    fill(target, 0.0)
    if lse is not None:
        fill(lse, -numpy.inf)


ATTENTION = Operation(
    "attention", ("q", "k", "v", "lse", "out"), ("window", "causal", "align", "scale", "score_mod", "copy"),
    _attended, needed=3, updated=("lse",),
)  # fmt: skip
