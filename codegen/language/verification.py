"""verify: a program on random sizes and values, beside what NumPy gives.

    verify(kernel, lambda src, alpha: alpha * src.T)

The idea.  A program's tensors say their extents, strides and types, and its parameters their ranges: enough
to draw arguments, to run the program on them as the GPU would, with every race and every wild address
refused, and to compare all that it wrote with what NumPy gives.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.costs import Cost, traffic
from layoutalg.codegen.expr import Expr, Var, evaluate
from layoutalg.codegen.language.run import Program, words
from layoutalg.codegen.language.tensor import Tensor
from layoutalg.codegen.program import Do, Global, MemRef, printed, walk
from layoutalg.codegen.sim import MemTrace
from layoutalg.codegen.sim import simulate as run
from layoutalg.errors import ArgumentTypeError, MismatchError, UndecidedError, UnsupportedError

DRAWS = 10_000
"""Sizes that are drawn, at most, until the conditions of a program hold."""

SPAN = 160
"""How far above its least an extent is drawn, if its multiple allows that."""


def verify(
    kernel: Program,
    reference: Callable[..., Any],
    *,
    sizes: Mapping[str, int] = MappingProxyType({}),
    cases: int = 3,
    tolerance: float = 0.0,
    seed: int = 0,
) -> tuple[Mapping[str, int], ...]:
    """Compare what a program writes with a reference, on random sizes and values; the sizes are returned.

    `reference` is called with the arguments that its signature names: tensors as NumPy arrays, extents and
    scalars as numbers.  It returns the array that the program writes, or a mapping by name where it writes
    several.  Extents that `sizes` gives are not drawn.  Two values agree when they differ by at most
    `tolerance` times the larger of 1 and the expected one.  Elements beside a tensor's must not change.
    Every case runs the program whole blocks at a time, then the program that is printed for it, warp by warp in
    a random order; what that one accesses is counted and compared with `traffic`.

    Raises what is refused of a program (see codegen.program.checks), MismatchError at the first difference,
    SimulationError for a race or a wild address, UndecidedError where no sizes were found, ArgumentTypeError
    for pointers that are not tensors.

    >>> from layoutalg.codegen.instr import LDG, STG
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("copy", threads=32)
    >>> n, v = k.extent("n", 1 << 20), k.reg("v", 1)
    >>> x, y = k.tensor("x", "f32", (n,), (1,)), k.tensor("y", "f32", (n,), (1,), writable=True)
    >>> i = k.block(0, (n + 31) // 32) * 32 + k.tid
    >>> with k.If(i < n):
    ...     k.do(LDG[4], v, x.at(i))
    ...     k.do(STG[4], y.at(i), v)
    >>> len(verify(k.build(), lambda x: x))
    3
    """
    rng, ran = random.Random(seed), printed(kernel)
    found = []
    for _ in range(cases):
        drawn = _sizes(kernel, sizes, rng)
        _verify(kernel, ran, reference, drawn, tolerance, rng.randrange(1 << 32))
        found.append(MappingProxyType({v.name: n for v, n in drawn.items()}))
    return tuple(found)


def _verify(
    kernel: Program,
    ran: Program,
    reference: Callable[..., Any],
    drawn: Mapping[Var, int],
    tolerance: float,
    seed: int,
) -> None:
    numbers, scalars = numpy.random.default_rng(seed), dict(kernel.scalars)
    tensors = _tensors(kernel)
    buffers = {name: _drawn(t, drawn, numbers) for name, t in tensors.items()}
    views = {name: _view(t, drawn, buffers[name]) for name, t in tensors.items()}
    given: dict[str, Any] = {v.name: n for v, n in drawn.items()}
    given |= {name: float(numbers.integers(-8, 9)) / 4 if kind == "f32" else int(numbers.integers(-8, 9))
              for name, kind in scalars.items()}  # fmt: skip
    wanted = _expected(kernel, reference, {**given, **{n: v.copy() for n, v in views.items()}})
    at = ", ".join(f"{name} = {n}" for name, n in given.items())
    for group, program in (("block", kernel), ("warp", ran)):
        arrays = {name: b.copy() for name, b in buffers.items()}
        args = words(kernel, {**given, **arrays})
        simulated = run(program, args, group=group, seed=seed % 1024, trace=program is ran)
        for name, expected in wanted.items():
            got = _view(tensors[name], drawn, arrays[name])
            _compare(f"{name} of {kernel.name} with {at}", got, numpy.asarray(expected), tolerance)
            _view(tensors[name], drawn, arrays[name])[...] = views[name]
            if not numpy.array_equal(_bytes(arrays[name]), _bytes(buffers[name])):
                changed = numpy.flatnonzero(_bytes(arrays[name]) != _bytes(buffers[name]))
                where = int(changed[0]) // arrays[name].itemsize
                raise MismatchError(
                    f"{kernel.name} with {at} writes beside {name}: element {where} of its memory",
                    index=where,
                )
    integers = {p.name: args[p.name] for p in kernel.params if isinstance(p, Var)}
    _compare_accesses(f"{kernel.name} with {at}", traffic(kernel, integers), simulated.trace)


def _compare_accesses(what: str, counted: Mapping[str, Cost], trace: MemTrace) -> None:
    """What the printed program has accessed is what is counted of the one that was written."""
    ran = {op: Cost(*trace.total(op)) for op in sorted({site.op for site in trace.sites})}
    for op in sorted({*ran, *counted}):
        mine, theirs = (found.get(op, Cost(0, 0, 0)) for found in (ran, counted))
        if mine != theirs:
            raise MismatchError(f"{what}: {op} is {mine} where it is run, and {theirs} as it was written")


def _sizes(kernel: Program, sizes: Mapping[str, int], rng: random.Random) -> dict[Var, int]:
    """Values of all integer parameters for which the conditions hold."""
    scalars = {name for name, _ in kernel.scalars}
    params = [p for p in kernel.params if isinstance(p, Var) and p.name not in scalars]
    if unknown := set(sizes) - {p.name for p in params}:
        raise ArgumentTypeError(f"{kernel.name} has no extents {', '.join(sorted(unknown))}")
    for _ in range(DRAWS):
        drawn = {p: sizes[p.name] if p.name in sizes else _size(p, rng) for p in params}
        if all(evaluate(c, drawn) for c in kernel.conditions):
            return drawn
    conditions = ", ".join(map(str, kernel.conditions))
    raise UndecidedError(f"{DRAWS} draws of the sizes of {kernel.name} miss {conditions}; `sizes` gives some")


def _size(p: Var, rng: random.Random) -> int:
    steps = max(2, SPAN // p.multiple)
    return min(p.facts.hi, p.facts.lo + p.multiple * rng.randrange(steps))


def _tensors(kernel: Program) -> dict[str, Tensor]:
    """The tensor of every pointer.  Raises ArgumentTypeError for a pointer without extents and type."""
    found: dict[str, Tensor] = {}
    for s in walk(kernel.body):
        for arg in s.args if isinstance(s, Do) else ():
            match arg:
                case MemRef(Global(name=name), _, Tensor() as tensor):
                    found[name] = tensor
    for p in kernel.params:
        if isinstance(p, Global):
            mine = found.get(p.name)
            if mine is None or mine.element is None or None in mine.extents:
                raise ArgumentTypeError(f"{p.name} of {kernel.name} is not a tensor with extents and a type")
    return found


def _known(e: Expr | None, drawn: Mapping[Var, int]) -> int:
    return 0 if e is None else int(evaluate(e, drawn))


def _places(t: Tensor, drawn: Mapping[Var, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    buffer = t.buffer
    strides = buffer.strides if isinstance(buffer, Global) else ()
    return tuple(_known(e, drawn) for e in t.extents), tuple(_known(d, drawn) for d in strides)


def _drawn(t: Tensor, drawn: Mapping[Var, int], numbers: numpy.random.Generator) -> Any:
    """A buffer that the tensor just fits in, of random elements: small multiples of 1/4, or of 1."""
    extents, strides = _places(t, drawn)
    count = 1 + sum((n - 1) * d for n, d in zip(extents, strides, strict=True))
    kind = numpy.dtype(t.element.numpy_name if t.element else "")
    if t.element is None or t.element.name in ("bf16", "e4m3", "e5m2", "tf32") or kind.kind not in "fiu":
        raise UnsupportedError(f"verify of {t.buffer.name}: NumPy has no numbers of type {t.element}")
    low = 0 if kind.kind == "u" else -32
    found = numbers.integers(low, 33, count)
    return (found / 4).astype(kind) if kind.kind == "f" else found.astype(kind)


def _view(t: Tensor, drawn: Mapping[Var, int], buffer: Any) -> Any:
    extents, strides = _places(t, drawn)
    steps = tuple(d * buffer.itemsize for d in strides)
    return numpy.lib.stride_tricks.as_strided(buffer, extents, steps)


def _bytes(x: Any) -> Any:
    return x.view(numpy.uint8)


def _expected(kernel: Program, reference: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The reference's results by the names of the tensors that are written."""
    named = inspect.signature(reference).parameters
    if unknown := [n for n in named if n not in known]:
        raise ArgumentTypeError(f"the reference of {kernel.name} asks for {', '.join(unknown)}")
    result = reference(**{n: known[n] for n in named})
    written = [p.name for p in kernel.params if isinstance(p, Global) and p.writable]
    if isinstance(result, Mapping):
        if set(result) != set(written):
            raise ArgumentTypeError(f"{kernel.name} writes {', '.join(written)}; got {', '.join(result)}")
        return dict(result)
    if len(written) != 1:
        raise ArgumentTypeError(f"{kernel.name} writes {', '.join(written)}: a mapping of them is needed")
    return {written[0]: result}


def _compare(what: str, got: Any, expected: Any, tolerance: float) -> None:
    if got.shape != expected.shape:
        raise MismatchError(f"{what} has the shape {got.shape}, the reference {expected.shape}")
    x, y = (v.astype(numpy.float64) for v in (got, expected))
    with numpy.errstate(invalid="ignore"):
        near = numpy.abs(x - y) <= tolerance * numpy.maximum(1, numpy.abs(y))
    wrong = ~(near | (x == y) | (numpy.isnan(x) & numpy.isnan(y)))
    if wrong.any():
        index = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        raise MismatchError(
            f"{what}: {got[index]} at {index}, where the reference has {expected[index]}; "
            f"{int(wrong.sum())} of {wrong.size} elements differ",
            index=index,
        )
