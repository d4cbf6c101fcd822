"""Calls of every operation with one wrong argument: refused by name before anything is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.calls.preparing import OPERATIONS, prepare
from layoutalg.kernels.norms import NORMS
from layoutalg.layout import Layout
from tests.sweeps import each

SEED = 20261129

WRITTEN = ("out", "residual", "lse")
BESIDE = object()
"""Stands for a part of x's own memory, from its second element on."""


def arrays_of(op: str, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays of a call that is right, `x` and `out` among them, and its other arguments."""
    m, n, k = (rng.randrange(2, 7) for _ in "mnk")
    kind = rng.choice(("f4", "f2"))
    x, numbers = np.ones((m, n), kind), {"x": np.ones((m, n), kind)}
    index, total = np.zeros(m, "i8"), np.zeros(m, kind)
    match op:
        case "permute":
            return numbers | {"out": np.zeros((n, m), kind)}, {"axes": (1, 0)}
        case "transpose":
            return numbers | {"out": np.zeros((n, m), kind)}, {}
        case "relayout":
            flat = np.ones(m * n, kind)
            return {"x": flat, "out": flat * 0}, {"src": Layout((m, n), (n, 1)), "dst": Layout((m, n))}
        case "matmul":
            return {"x": x, "b": np.ones((n, k), kind), "out": np.zeros((m, k), kind)}, {}
        case "attention":
            q, other = np.ones((1, 2, m, 64), "f2"), np.ones((1, 1, n, 64), "f2")
            made = {"x": q, "k": other, "v": other.copy(), "lse": np.zeros((1, 2, m), "f4")}
            return made | {"out": np.zeros_like(q)}, {}
        case "grouped_matmul":
            made = {"x": x, "b": np.ones((2, n, k), kind), "sizes": np.array([1, m - 1])}
            return made | {"out": np.zeros((m, k), kind)}, {}
        case "cross_entropy":
            return numbers | {"target": index, "out": np.zeros((), kind)}, {}
        case _ if op in NORMS:
            more: dict[str, Any] = {"residual": np.ones_like(x)} if NORMS[op].adds else {}
            more |= {name: np.ones(n, kind) for name in NORMS[op].parameters[:1]}
            return numbers | more | {"out": np.zeros_like(x)}, {}
    return numbers | {"out": index if op.startswith("arg") else total}, {"axes": 1}


def wrong_of(op: str, name: str, x: Any, arrays: dict[str, Any]) -> Iterator[Any]:
    """An array that is right, with one property broken."""
    yield from ([1.0], "x", 3, object())
    if name == "sizes":
        yield from (x.astype("f4"), x > 0, x[:1], -x)
        return
    yield x.astype(object)
    if op not in ("permute", "transpose", "relayout") or name == "out":
        yield from (x.astype(x.dtype.newbyteorder()), x.astype("c16"))
        if op != "relayout":  # which takes any contiguous buffer that is large enough
            yield np.ones((*x.shape, 2), x.dtype)
        yield x.astype("f4" if x.dtype.kind in "iu" else "u2")
    if name in WRITTEN:
        yield np.broadcast_to(x.ravel()[:1].reshape(()), x.shape) if x.ndim else x.reshape(1)
        fixed = x.copy()
        fixed.flags.writeable = False
        yield fixed
        fewer = (*x.shape[:-1], x.shape[-1] - 1) if x.ndim else (2,)
        yield np.zeros(fewer, x.dtype)
        several = x.size > 1 and op != "relayout"
        if several:  # rows that lie upon each other
            yield np.lib.stride_tricks.as_strided(x.copy(), x.shape, (0,) * x.ndim)
        if several and x.dtype == arrays["x"].dtype:
            yield BESIDE


@each("op", list(OPERATIONS))
def test_one_wrong_argument_of_any_operation_is_refused_and_nothing_is_written(op: str) -> None:
    rng, refused = random.Random(f"{SEED} {op}"), 0
    for _ in range(3):
        arrays, options = arrays_of(op, rng)

        def call(given: dict[str, Any], more: dict[str, Any] = options) -> Callable[[], Any]:
            given = dict(given)
            return prepare(op, given.pop("x"), given.pop("out"), **given, **more)

        before = call(arrays)()
        assert before is arrays["out"]
        for name, right in arrays.items():
            for wrong in wrong_of(op, name, right, arrays):
                given = arrays | {name: wrong}
                if wrong is BESIDE:
                    memory = np.zeros(2 * arrays["x"].size + 2 * right.size, right.dtype)
                    source = memory[: arrays["x"].size].reshape(arrays["x"].shape)
                    given |= {"x": source, name: memory[1 : right.size + 1].reshape(right.shape)}
                kept = {x: given[x].copy() for x in WRITTEN if isinstance(given.get(x), np.ndarray)}
                with pytest.raises(LayoutAlgError) as caught:
                    call(given)
                assert "\n" not in str(caught.value)
                for x, was in kept.items():
                    assert was.dtype == object or np.array_equal(was, given[x])
                refused += 1
    assert refused > 20
