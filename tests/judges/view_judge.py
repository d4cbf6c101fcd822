"""What calls on random views have to do, and whether they have done it.

    contents(case)                              the bytes of every allocation before the call
    judge(case, before, after, result)          "" where all is right, or what is wrong
    run_in_simulator(draw(7))                   a case by the code of a GPU, launched in the simulator
    run_in_numpy(draw(7))                       by the code of the CPU; CuPy and PyTorch: tests/gpu/views.py

The idea.  What the definition says is computed by NumPy, in float64.  Every byte of every allocation that is
not an element of the result must be what it was: guard bytes on either side, and the gaps between elements.

Every case is to be served, or to be refused for a reason that holds for it: `reasons` finds those by brute
force, from the bytes of the elements.  A case with reasons must raise one of their errors and leave all bytes
as they are; a case without must be served.

    AlignmentError         a reduction or a norm of elements that do not start at multiples of their width
                           relayout on a GPU of a swizzled buffer that does not start at a multiple of 16
                           bytes, or of one that does not start at an element
    NotInjectiveError      a destination with one place for two elements
    ArgumentTypeError      a destination that shares bytes with the source, but for a norm in place
    ShapeError             a maximum of nothing; a reduction or a norm of more than 8 modes

Notes.  Moved elements must be equal bit by bit.  Maxima are exact.  Sums of small integers are exact in
floats and must be rounded correctly; other sums, means and norms are held to the bounds of kernels.elements,
with as many additions as there are elements, the worst of any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

import layoutalg
from layoutalg.errors import AlignmentError, ArgumentTypeError, LayoutAlgError, NotInjectiveError, ShapeError
from layoutalg.kernels.checks.rows import norm_bound, reduction_bound
from layoutalg.kernels.elements import bits_of, numbers_of, values_of, words_of
from layoutalg.kernels.rowwise import norm_problem, reduce_problem, reduced
from layoutalg.kernels.rowwise import normed as norm_reference
from tests.draws.views import (
    FLOATS,
    FOLDS,
    GUARD_BYTES,
    INTEGERS,
    MOVES,
    NORMS,
    REDUCTIONS,
    Array,
    Case,
    Placed,
    Rng,
    indices,
    is_swizzled,
)
from tests.stand_ins.hostgpu import CARRIERS, KINDS, Bytes, HostGpu, allocation, simulated_gpu

MOST_RANK = 8
"""Modes that a reduction or a norm takes."""

NONE_OF_NOTHING = ("max", "min", "argmax", "argmin", "int_max")
"""What has no result of no elements."""


def contents(case: Case) -> dict[str, Bytes]:
    """The bytes of every allocation before the call: random ones, numbers where the arrays are."""
    rng = np.random.default_rng([case.seed, 1])
    memory: dict[str, Bytes] = {n: rng.integers(0, 256, k, "u1") for n, k in sorted(case.sizes.items())}
    if case.kind in FLOATS and case.function not in MOVES:
        for name, p in {"x": case.x, **case.parameters}.items():
            numbers = _numbers(rng, p.shape, case.numbers if name == "x" else "normal")
            if case.function == "prod":  # near 1, so that no part of a product overflows
                numbers = np.where(np.abs(numbers) < 100, 1 + np.tanh(numbers) / 64, numbers / 1000)
            short = FLOATS[case.kind]
            p.of(memory[p.allocation], KINDS[case.kind].itemsize)[...] = bits_of(numbers, short)
    elif case.kind in INTEGERS and case.function not in MOVES and case.numbers != "special":
        words = case.x.of(memory[case.x.allocation], KINDS[case.kind].itemsize)
        words[...] = words_of(rng.integers(-3, 4, case.x.shape), INTEGERS[case.kind])  # ties
    return memory


def _numbers(rng: Rng, shape: tuple[int, ...], which: str) -> Array:
    if which == "integers":  # sums of these are exact in floats
        return rng.integers(-8, 9, shape).astype("f8")
    x: Array = rng.standard_normal(shape) * rng.choice([1.0, 5.0]) + rng.choice([0.0, 10.0])
    if which == "special":
        at = rng.random(shape) < 3 / max(1, x.size)
        x = np.where(at, rng.choice([np.inf, -np.inf, np.nan, 3000.0, -3000.0]), x)
    return x


def reasons(case: Case, *, aligned_buffers: bool = True) -> dict[type[LayoutAlgError], str]:
    """The errors that a case may raise, and has to raise one of, each with what is wrong with it.

    `aligned_buffers`: relayout asks for buffers that start at certain bytes, as on a GPU.
    """
    found: dict[type[LayoutAlgError], str] = {}
    x, out, width = case.x, case.out, KINDS[case.kind].itemsize
    if case.function == "relayout":
        assert case.layouts is not None
        for p, layout in zip((x, out), case.layouts, strict=True):
            required = 16 if is_swizzled(layout) else width
            if aligned_buffers and p is not None and p.start % required:
                found[AlignmentError] = "a swizzled buffer that does not start at a multiple of 16 bytes"
        return found
    if case.function not in MOVES:
        if len(x.shape) > MOST_RANK:
            found[ShapeError] = "more than 8 modes"
        count = prod(x.shape[k] for k in case.over)
        if case.function in NONE_OF_NOTHING and count == 0 and 0 not in case.result_shape:
            found[ShapeError] = "a maximum of nothing"
    if case.function not in MOVES:
        factors = case.parameters.values() if 0 not in x.shape else ()
        widths = [(p, width) for p in (x, *factors)]
        widths += [(out, KINDS[case.result].itemsize)] if out is not None else []
        for p, nbytes in widths:
            steps = [d for n, d in zip(p.shape, p.strides, strict=True) if n > 1]
            if 0 not in p.shape and any(v % nbytes for v in (p.start, *steps)):
                found[AlignmentError] = "elements that start at no multiple of their width"
    if out is not None and 0 not in out.shape:
        written = _touched(out, KINDS[case.result].itemsize)
        if len(written) < prod(out.shape) * KINDS[case.result].itemsize:
            found[NotInjectiveError] = "a destination with one place for two elements"
        if out.allocation == x.allocation and not _in_place(case):
            read = _touched(x, width)
            if np.intersect1d(read, written, assume_unique=True).size:
                found[ArgumentTypeError] = "a destination that shares bytes with the source"
    return found


def _touched(p: Placed, nbytes: int) -> Array:
    """The bytes of an array's elements, each once."""
    touched: Array = np.unique(p.places()[..., None] + np.arange(nbytes))
    return touched


def _in_place(case: Case) -> bool:
    """Whether a norm's destination is its source, element by element."""
    x, out = case.x, case.out
    return case.function in NORMS and out is not None and bool((x.places() == out.places()).all())


def wanted(case: Case, memory: Mapping[str, Bytes]) -> tuple[Array, Array | None]:
    """The result by its definition: words and None, or float64 numbers and how far off they may be."""
    width = KINDS[case.kind].itemsize
    x = case.x.of(memory[case.x.allocation], width)
    if case.function == "relayout":
        assert case.layouts is not None
        if case.out is None:
            made = np.zeros(case.result_shape, x.dtype)
        else:
            made = case.out.of(memory[case.out.allocation], width).copy()
        made[indices(case.layouts[1])] = x[indices(case.layouts[0])]
        return made, None
    if case.function in MOVES:
        return x.transpose(case.order).copy(), None
    if case.function in FOLDS:
        return _folded(case, x)
    short, result = FLOATS[case.kind], FLOATS[case.result]
    numbers = numbers_of(x, short)
    with np.errstate(all="ignore"):
        if case.function in REDUCTIONS:
            return _reduced(case, numbers, short, result)
        p = norm_problem(
            case.function, x.shape, case.over, short, eps=case.eps, weight="weight" in case.parameters,
            bias="bias" in case.parameters,
        )  # fmt: skip
        w, b = (
            numbers_of(q.of(memory[q.allocation], width), short) if q else None
            for q in (case.parameters.get("weight"), case.parameters.get("bias"))
        )
        if not numbers.size:
            return numbers, numbers
        exact = norm_reference(p, numbers, w, b)
        return exact, norm_bound(p, numbers, exact, w, b)


def _reduced(case: Case, x: Array, short: str, result: str) -> tuple[Array, Array]:
    """A reduction, and how far off it may be."""
    over, shape = case.over, case.result_shape
    count = prod(case.x.shape[k] for k in over)
    if case.function == "max":
        exact = x.max(axis=over, initial=-np.inf)
    else:
        total = x.sum(axis=over)
        exact = total if case.function == "sum" else total / count if count else np.full(total.shape, np.nan)
    exact = exact.reshape(shape)
    if not x.size or (case.function == "sum" and case.numbers == "integers") or case.function == "max":
        rounded = numbers_of(bits_of(exact, result), result)
        return rounded.reshape(shape), np.zeros(shape)
    p = reduce_problem(case.x.shape, over, case.function, short, result=result)
    return exact, reduction_bound(p, count + 2, x.ravel()).reshape(shape)


def _folded(case: Case, x: Array) -> tuple[Array, Array | None]:
    """A reduction of several words, a minimum or a product, by the definition of its problem."""
    kinds = FLOATS | INTEGERS
    short, result, op = kinds[case.kind], kinds[case.result], case.function.removeprefix("int_")
    p = reduce_problem(case.x.shape, case.over, op, short, result=result)
    count = prod(case.x.shape[k] for k in case.over)
    values = np.ascontiguousarray(values_of(x, short)).ravel()
    if p.of_nothing is not None or not x.size:
        exact = np.full(case.result_shape, 0.0 if p.of_nothing is None else p.of_nothing)
        return (
            (words_of(exact, result), None) if result in INTEGERS.values() else (exact, np.zeros_like(exact))
        )
    exact = reduced(p, values).reshape(case.result_shape)
    if result in INTEGERS.values():
        return words_of(exact, result), None
    exact, apart = exact.astype("f8"), reduction_bound(p, count + 2, values).reshape(case.result_shape)
    return (numbers_of(bits_of(exact, result), result) if p.is_exact else exact), apart


def judge(case: Case, before: Mapping[str, Bytes], after: Mapping[str, Bytes], result: Array | None) -> str:
    """What is wrong after a call that was served, "" if nothing is; `result` are its words, without `out`."""
    nbytes = KINDS[case.result].itemsize
    expected = {name: raw.copy() for name, raw in before.items()}
    exact, apart = wanted(case, before)
    if case.out is None:
        if result is None or result.shape != exact.shape:
            return f"the result has shape {None if result is None else result.shape} for {exact.shape}"
        got = result
    else:
        got = case.out.of(after[case.out.allocation], nbytes)
        case.out.of(expected[case.out.allocation], nbytes)[...] = got
    for name, raw in expected.items():
        changed = np.flatnonzero(raw != after[name])
        if changed.size:
            where = f"the first at {changed[0] - GUARD_BYTES} of {name}"
            return f"{changed.size} bytes beside the destination are overwritten, {where}"
    if apart is None:
        bad = (_as_bytes(got) != _as_bytes(exact)).any(axis=-1)
        found: Array = np.asarray(got)
    else:
        found = numbers_of(got, FLOATS[case.result])
        bad = _is_wrong(found, exact, apart, FLOATS[case.result])
    if not bad.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(bad))
    return f"{int(bad.sum())} of {bad.size} elements are wrong, {at} is {found[at]} for {exact[at]}"


def _as_bytes(x: Array) -> Array:
    return np.ascontiguousarray(x)[..., None].view("u1")


def _is_wrong(found: Array, exact: Array, apart: Array, element: str) -> Array:
    """Where numbers are further off than they may be."""
    with np.errstate(all="ignore"):
        right: Array = (
            (np.abs(found - exact) <= apart) | (found == exact) | (np.isnan(found) & np.isnan(exact))
        )
        if element != "f32":  # past the largest number of the type
            right |= (found == numbers_of(bits_of(exact, element), element)) & np.isinf(found)
    wrong: Array = ~right
    return wrong


# --- running -------------------------------------------------------------------------------------------


class Arrays(Protocol):
    """How a library makes arrays, and shows what they hold."""

    def place(self, raw: Bytes) -> Any:
        """An allocation that holds these bytes, at a multiple of 256."""

    def view(self, held: Any, placed: Placed, kind: str) -> Any:
        """An array in it."""

    def read(self, held: Any) -> Bytes:
        """The bytes that it holds now."""

    def words(self, result: Any) -> Array:
        """The elements of a result, as words that carry them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A case was "right", "refused", for a reason that holds, or "wrong"."""

    kind: str
    why: str = ""


def arrays_of(case: Case, library: Arrays, held: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a case in its allocations, by name."""
    named = {"x": case.x, **({"out": case.out} if case.out else {}), **case.parameters}
    return {
        name: library.view(held[p.allocation], p, case.result if name == "out" else case.kind)
        for name, p in named.items()
    }


def call(case: Case, arrays: Mapping[str, Any]) -> Any:
    """Call the function of a case."""
    x, out = arrays["x"], arrays.get("out")
    match case.function:
        case "permute":
            return layoutalg.ops.permute(x, case.axes if isinstance(case.axes, tuple) else (), out)
        case "transpose":
            return layoutalg.ops.transpose(x, case.axes, out)  # type: ignore[arg-type]
        case "relayout":
            assert case.layouts is not None
            return layoutalg.ops.relayout(x, *case.layouts, out)
        case "softmax":
            return layoutalg.ops.softmax(x, case.axes, out)
        case "layer_norm":
            w, b = arrays.get("weight"), arrays.get("bias")
            return layoutalg.ops.layer_norm(x, case.axes, w, b, case.eps, out)
    return layoutalg.ops.reduce(x, case.function.removeprefix("int_"), case.axes, case.keepdims, out)


FAULTS = (ArithmeticError, AssertionError, AttributeError, LayoutAlgError, LookupError, MemoryError)
OTHER_FAULTS = (RuntimeError, TypeError, ValueError)
"""What a call may raise, for a reason; an error of the package's own is one of them."""


def run(case: Case, library: Arrays, *, aligned_buffers: bool = True) -> Verdict:
    """Run a case on the arrays of a library, and judge it."""
    before = contents(case)
    held = {name: library.place(raw) for name, raw in before.items()}
    arrays = arrays_of(case, library, held)
    allowed = reasons(case, aligned_buffers=aligned_buffers)
    try:
        result = call(case, arrays)
        words = None if case.out is not None else library.words(result)
    except (*FAULTS, *OTHER_FAULTS) as error:
        after = {name: library.read(h) for name, h in held.items()}
        named_so = f"{type(error).__name__}: {error}"
        reason = next((why for kind, why in allowed.items() if isinstance(error, kind)), None)
        if reason is None:
            return Verdict("wrong", f"refused without reason, {named_so}")
        if any((after[name] != raw).any() for name, raw in before.items()):
            return Verdict("wrong", f"refused after bytes were overwritten, {named_so}")
        return Verdict("refused", reason)
    if allowed:
        return Verdict("wrong", f"not refused: {', '.join(allowed.values())}")
    if case.out is not None and result is not arrays["out"]:
        return Verdict("wrong", "out is not what is returned")
    why = judge(case, before, {name: library.read(h) for name, h in held.items()}, words)
    return Verdict("wrong", why) if why else Verdict("right")


class Numpy:
    """Arrays on the CPU; NumPy has no bfloat16."""

    def place(self, raw: Bytes) -> Bytes:
        """An allocation."""
        held = allocation(len(raw))
        held[:] = raw
        return held

    def view(self, held: Bytes, placed: Placed, kind: str) -> Array:
        """An array in it."""
        return np.ndarray(placed.shape, kind, held.data, placed.start, placed.strides)

    def read(self, held: Bytes) -> Bytes:
        """Its bytes."""
        return held

    def words(self, result: Array) -> Array:
        """The elements of a result."""
        return result.view(CARRIERS[result.itemsize])


class Host(Numpy):
    """Arrays of a GPU that is host memory."""

    def __init__(self, gpu: HostGpu) -> None:
        self.gpu = gpu

    def view(self, held: Bytes, placed: Placed, kind: str) -> Any:
        """An array in an allocation."""
        return self.gpu.array(held, placed.start, kind, placed.shape, placed.strides)

    def words(self, result: Any) -> Array:
        """The elements of a result."""
        bits: Array = result.bits
        return bits


def run_in_simulator(case: Case, arch: str = "sm_90") -> Verdict:
    """Run a case by the code of a GPU, its launches made by the simulator."""
    with simulated_gpu(arch) as gpu:
        return run(case, Host(gpu))


def run_in_numpy(case: Case) -> Verdict:
    """Run a case by the code of the CPU."""
    return run(case, Numpy(), aligned_buffers=False)
