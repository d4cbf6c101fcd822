"""verify: a program on random sizes and values, beside what NumPy gives.

    verify(kernel, lambda src, alpha: alpha * src.T)

The idea.  A program's tensors say their extents, strides and types, and its parameters their ranges: enough
to draw arguments, to run the program on them as the GPU would, with every race and every wild address
refused, and to compare all that it wrote with what NumPy gives.

Sizes.  What an extent decides is counted by the program itself: blocks along the sides of its grid, turns of
its loops.  An extent is drawn so that all of these are several, and a stage of a ring is used again:

    case 0      the larger half of what is drawn: two blocks and more
    case 1      the same, in whole tiles
    case 2      anything from the least on

and again from the first.  Extents that decide nothing, such as a leading dimension, reach as far as the rest.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy

from layoutalg.codegen.costs import Cost, traffic, without_data
from layoutalg.codegen.expr import Const, Expr, FloorDiv, Var, evaluate, substitute, variables
from layoutalg.codegen.gpu import compare, predicted_run, require_gpu, to_device, to_host
from layoutalg.codegen.instr import Instr, converted
from layoutalg.codegen.language.run import Program, launch, words
from layoutalg.codegen.language.tensor import Tensor, whole
from layoutalg.codegen.program import For, Global, Kernel, Let, MemRef, calls, launch_sequence, printed, walk
from layoutalg.codegen.sim import MemTrace, Simulation
from layoutalg.codegen.sim import simulate as run
from layoutalg.errors import (
    ArgumentTypeError,
    MismatchError,
    UndecidedError,
    UnknownNameError,
    UnsupportedError,
)

DRAWS = 10_000
"""The most sizes that are drawn until the conditions of a program hold."""

SPAN = 160
"""The distance above its least up to which an extent is drawn that decides no count."""

BLOCKS = 3
"""Blocks that the largest extents give along a side of the grid."""

MOST_STEPS = 1 << 12
"""The most multiples of itself by which an extent is drawn above its least."""


def draw_sizes(kernel: Kernel, sizes: Mapping[str, int], rng: random.Random, case: int) -> dict[Var, int]:
    """Values of all integer parameters for which the conditions hold; those that `sizes` names are given.

    Raises ArgumentTypeError for a name that no parameter has, UndecidedError where no sizes were found.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("k", threads=32)
    >>> n = k.extent("n")
    >>> block = k.grid((n,), (100,))
    >>> [draw_sizes(k.build(), {}, random.Random(1), case)[n] for case in range(3)]
    [135, 200, 35]
    """
    scalars = {name for name, _ in kernel.scalars}
    params = [p for p in kernel.integers if p.name not in scalars]
    if unknown := set(sizes) - {p.name for p in params}:
        raise ArgumentTypeError(f"{kernel.name} has no extents {', '.join(sorted(unknown))}")
    counts = [(e, many) for e, many in _counts(kernel) if variables(e) and variables(e) <= set(params)]
    spans = {p: _span(p, params, counts) for p in params}
    widest = max(SPAN, *spans.values(), 0)
    tiles = {p: _tile(p, [e for e, _ in counts]) for p in params}
    for _ in range(DRAWS):
        drawn = {
            p: sizes[p.name] if p.name in sizes else _size(p, spans[p] or widest, tiles[p], case % 3, rng)
            for p in params
        }
        if all(evaluate(c, drawn) for c in kernel.conditions):
            return drawn
    conditions = ", ".join(map(str, kernel.conditions))
    raise UndecidedError(f"{DRAWS} draws of the sizes of {kernel.name} miss {conditions}; `sizes` gives some")


def _counts(kernel: Kernel) -> Iterator[tuple[Expr, int]]:
    """Blocks and turns, with how many of them the largest sizes should give."""
    yield from ((n, BLOCKS) for n in kernel.grid)
    turns = 2 * max((s.stages for s in kernel.shared), default=1) + 2
    lets: dict[Var, Expr] = {}
    for s in walk(kernel.body):
        match s:
            case Let(var, value) if isinstance(value, Expr):
                lets[var] = substitute(value, lets)
            case For(count=count):
                yield substitute(count, lets), turns


def _span(p: Var, params: list[Var], counts: list[tuple[Expr, int]]) -> int:
    """The distance above its least that an extent has to go; 0 for one that decides no count."""
    mine = [(e, many) for e, many in counts if p in variables(e)]
    if not mine:
        return 0
    least, steps = {q: q.facts.lo for q in params}, max(2, 8 // p.multiple)
    while steps < MOST_STEPS and p.facts.lo + steps * p.multiple < p.facts.hi:
        there = least | {p: p.facts.lo + steps * p.multiple}
        if all(evaluate(e, there) >= many for e, many in mine):
            break
        steps += max(1, steps // 4)
    return steps * p.multiple


def _tile(p: Var, counts: list[Expr]) -> int:
    """The largest number that an extent is divided by where something is counted."""
    return max((by for e in counts for by in _divisors(p, e)), default=1)


def _divisors(p: Var, e: Expr) -> Iterator[int]:
    match e:
        case FloorDiv(a, Const(by)) if p in variables(a):
            yield by
    for part in e.children:
        yield from _divisors(p, part)


def _size(p: Var, span: int, tile: int, kind: int, rng: random.Random) -> int:
    steps = max(2, span // p.multiple)
    drawn = min(p.facts.hi, p.facts.lo + p.multiple * rng.randrange(0 if kind == 2 else steps // 2, steps))
    rounded = -(-drawn // tile) * tile
    return rounded if kind == 1 and rounded <= p.facts.hi and rounded % p.multiple == 0 else drawn


Values: TypeAlias = "tuple[float, float] | Callable[[numpy.random.Generator, tuple[int, ...]], Any]"
"""The least and the most of numbers, or what makes them, of a shape."""

TARGETS = ("simulator", "gpu")
"""The places where a program is verified."""

CODED = ("bf16", "e4m3", "e5m2")
"""Floats that NumPy lacks."""

F16_WHOLE = 1 << 11
"""All whole numbers up to here are f16 (IEEE 754, 11 bits), and so are their sums that stay there."""


def verify(
    kernel: Program,
    reference: Callable[..., Any],
    *,
    sizes: Mapping[str, int] = MappingProxyType({}),
    values: Mapping[str, Values] = MappingProxyType({}),
    contiguous: Collection[str] = (),
    unordered: Collection[str] = (),
    cases: int = 3,
    tolerance: float = 0.0,
    seed: int = 0,
    target: Literal["simulator", "gpu"] = "simulator",
    counters: bool = False,
) -> tuple[Mapping[str, int], ...]:
    """Compare what a program writes with a reference, on random sizes and values; the sizes are returned.

    `reference` is called with the arguments that its signature names: tensors as NumPy arrays, those of bf16,
    e4m3 and e5m2 as float32, extents and scalars as numbers.  It returns the array that the program writes,
    or a mapping by name where it writes several.  Two values agree when what is written is the expected one
    rounded to its type, or differs from it by at most `tolerance` times the larger of 1 and the expected one.
    Elements beside a tensor's must not change.

    Extents that `sizes` does not give are drawn so that they cover several blocks and iterations of every
    loop (see `draw_sizes`).  Numbers are small, and where a program adds up in f16 they are whole
    and so small that f16 holds every sum of products over the longest extent: a right product is exact in any
    order of its additions.  `values` gives the least and the most of a tensor's or a scalar's, or a function
    of a NumPy generator and a shape that makes a tensor.  Arrays are laid out as the program states them: the
    names of `contiguous` are those that callers pass as NumPy makes them, row by row without gaps, which is
    then checked too.  Of the tensors that `unordered` names the numbers are compared, wherever they are.

    Target "simulator" runs the program as it is written, block by block, then the lowered program,
    which is printed, warp by warp in a random order, with atomics from the last block, warp and lane on, and
    compares the accesses whose places data does not decide with `traffic`.  Target "gpu"
    launches it: only that detects a CUDA text of an instruction that differs from its stated effect.  There
    `counters` compares those of Nsight Compute with `predicted_counters` too, see `codegen.gpu.compare`.

    Raises what is refused of a program (see codegen.program.checks), MismatchError at the first difference,
    SimulationError for a race or a wild address, UndecidedError where no sizes were found, ArgumentTypeError
    for pointers that are not tensors, UnsupportedError without a GPU where it is the target and for counters
    without it, ProfilerError where they cannot be read.

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
    if target not in TARGETS:
        raise UnknownNameError("target", str(target), TARGETS)
    if counters and target != "gpu":
        raise UnsupportedError('hardware counters are those of a GPU: counters goes with target="gpu"')
    rng, ran, tensors = random.Random(seed), printed(kernel), _tensors(kernel)
    scalars = dict(kernel.scalars)
    for option, names in (("values", values), ("contiguous", contiguous), ("unordered", unordered)):
        if unknown := set(names) - tensors.keys() - (scalars.keys() if option == "values" else set()):
            raise ArgumentTypeError(f"{option}: {kernel.name} has no tensors {', '.join(sorted(unknown))}")
    in_f16 = any(_adds_up_f16(s.instr) for s in calls(kernel.body))
    tried = list[_Case]()
    for n in range(cases):
        drawn, numbers = draw_sizes(kernel, sizes, rng, n), numpy.random.default_rng(rng.randrange(1 << 32))
        for name in contiguous:
            _check_contiguous(kernel, tensors[name], drawn)
        longest = max((n for t in tensors.values() for n in _places(t, drawn)[0]), default=1)
        whole = max(1, math.isqrt(F16_WHOLE // longest)) if in_f16 else 0
        buffers = {name: _drawn(t, drawn, numbers, values.get(name), whole) for name, t in tensors.items()}
        scalar_args = {v.name: n for v, n in drawn.items()} | {
            name: _number(kind, numbers, values.get(name)) for name, kind in scalars.items()
        }
        case = _Case(kernel, tensors, drawn, scalar_args, buffers, tolerance, unordered)
        case.check(ran, reference, target, rng.randrange(1024))
        tried.append(case)
    if counters:
        _compare_counters(kernel, tried)
    return tuple(MappingProxyType({v.name: n for v, n in case.drawn.items()}) for case in tried)


@dataclass(frozen=True, slots=True)
class _Case:
    """A program with its sizes, its numbers and its buffers."""

    kernel: Program
    tensors: Mapping[str, Tensor]
    drawn: Mapping[Var, int]
    given: Mapping[str, Any]
    buffers: Mapping[str, Any]
    tolerance: float
    unordered: Collection[str]

    def __str__(self) -> str:
        return f"{self.kernel.name} with {', '.join(f'{name} = {n}' for name, n in self.given.items())}"

    def check(self, ran: Program, reference: Callable[..., Any], target: str, seed: int) -> None:
        """Run it, and compare all that it writes; `ran` is the program that is printed."""
        views = self.views(self.buffers)
        known = {**self.given, **{name: _numbers(self.tensors[name], v) for name, v in views.items()}}
        wanted = _expected(self.kernel, reference, known)
        if target == "gpu":
            on_gpu = {name: to_device(b) for name, b in self.buffers.items()}
            launch(self.kernel, {**self.given, **on_gpu})
            self.compare(wanted, {name: to_host(b) for name, b in on_gpu.items()})
            return
        self.compare(wanted, self.simulated(self.kernel, "block", seed)[0])
        arrays, simulation = self.simulated(ran, "warp", seed)
        self.compare(wanted, arrays)
        args = words(self.kernel, self.given)
        counted = {id(s) for s in calls(without_data(ran.body))}
        numbers = {n for n, s in enumerate(calls(ran.body)) if id(s) in counted}
        _compare_accesses(str(self), traffic(self.kernel, args), simulation.trace, numbers)

    def views(self, buffers: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors, of buffers."""
        return {name: _view(t, self.drawn, buffers[name]) for name, t in self.tensors.items()}

    def simulated(
        self, program: Program, group: Literal["block", "warp"], seed: int
    ) -> tuple[Any, Simulation]:
        """The buffers after a launch in the simulator."""
        arrays = {name: b.copy() for name, b in self.buffers.items()}
        args = words(program, {**self.given, **arrays})
        return arrays, run(program, args, group=group, seed=seed, trace=group == "warp")

    def compare(self, wanted: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Refuse a wrong element, and a byte that changed beside the tensors that are written."""
        got, before = self.views(arrays), self.views(self.buffers)
        for name, expected in wanted.items():
            found, expected = _numbers(self.tensors[name], got[name]), numpy.asarray(expected)
            if name in self.unordered:
                found, expected = (numpy.sort(x, axis=None) for x in (found, expected))
            _compare(f"{name} of {self}", self.tensors[name], found, expected, self.tolerance)
            got[name][...] = before[name]
        for name, array in arrays.items():
            changed = numpy.flatnonzero(_bytes(array) != _bytes(self.buffers[name]))
            if len(changed):
                where = int(changed[0]) // array.itemsize
                raise MismatchError(
                    f"{self} writes beside {name}: element {where} of its memory", index=where
                )


def _check_contiguous(kernel: Program, t: Tensor, drawn: Mapping[Var, int]) -> None:
    """Refuse a tensor that does not lie row by row without gaps."""
    extents, strides = _places(t, drawn)
    wanted = tuple(math.prod(extents[i + 1 :]) for i in range(len(extents)))
    if any(n > 1 and d != w for n, d, w in zip(extents, strides, wanted, strict=True)):
        at = ", ".join(f"{v.name} = {n}" for v, n in drawn.items())
        raise MismatchError(
            f"{t.buffer.name} of {kernel.name} with {at} has the strides {strides}; a contiguous array has "
            f"{wanted}"
        )


def _compare_accesses(
    what: str, counted: Mapping[str, Cost], trace: MemTrace, statements: Collection[int]
) -> None:
    """Check that the accesses of the printed program, at some of its statements, are those counted of the one
    that was written."""
    ran = {op: Cost(*trace.total(op, statements=statements)) for op in sorted({x.op for x in trace.sites})}
    for op in sorted({*ran, *counted}):
        mine, theirs = (costs.get(op, Cost(0, 0, 0)) for costs in (ran, counted))
        if mine != theirs:
            raise MismatchError(f"{what}: {op} is {mine} where it is run, and {theirs} as it was written")


def _compare_counters(kernel: Program, cases: Sequence[_Case]) -> None:
    """Check that the counters of all cases are those predicted; the smallest case that differs is named."""
    sequence, arch = launch_sequence([kernel]), require_gpu().arch
    given = [words(kernel, {**case.given, **case.buffers}) for case in cases]
    runs = [predicted_run(sequence, args, arch) for args in given]
    differ = list[tuple[int, str]]()
    for case, found in zip(cases, compare(runs), strict=True):
        nbytes = sum(buffer.nbytes for buffer in case.buffers.values())
        if isinstance(found, str):
            differ.append((nbytes, f"{case}: {found}"))
            continue
        for name in (*found.apart, *found.missing):
            counted = found.counted.get(name, "nothing")
            said = f"{name} of {case}: predicted {found.predicted[name]}, counted {counted}"
            differ.append((nbytes, said))
    if differ:
        raise MismatchError(f"{len(differ)} counters are not those predicted; {min(differ)[1]}")


def _tensors(kernel: Program) -> dict[str, Tensor]:
    """The tensor of every pointer.  Raises ArgumentTypeError for a pointer without extents and type."""
    tensors: dict[str, Tensor] = {}
    for s in calls(kernel.body):
        for arg in s.args:
            match arg:
                case MemRef(Global(name=name), _, Tensor() as tensor):
                    tensors[name] = tensor
    for m in kernel.maps:
        extents = tuple(m.dims[m.order.index(mode)] for mode in range(m.rank))
        tensors.setdefault(m.source.name, whole(m.source, m.element, extents))
    for p in kernel.pointers:
        mine = tensors.get(p.name)
        if mine is None or mine.element is None or None in mine.extents:
            raise ArgumentTypeError(
                f"no statement of {kernel.name} reads or writes {p.name} as a tensor with extents and a type"
            )
    return tensors


def _known(e: Expr | None, drawn: Mapping[Var, int]) -> int:
    return 0 if e is None else int(evaluate(e, drawn))


def _places(t: Tensor, drawn: Mapping[Var, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    buffer = t.buffer
    strides = buffer.strides if isinstance(buffer, Global) else ()
    return tuple(_known(e, drawn) for e in t.extents), tuple(_known(d, drawn) for d in strides)


def _adds_up_f16(instr: Instr) -> bool:
    """Whether an instruction adds products of f16 up in f16: its sums are pairs of them, or no floats."""
    held = {o.role: o.element for o in instr.operands if o.role in ("in", "inout")}
    return held.get("inout") == "f16x2" or (held.get("inout"), held.get("in")) == ("", "f16x2")


def _drawn(
    t: Tensor, drawn: Mapping[Var, int], numbers: numpy.random.Generator, wanted: Values | None, whole: int
) -> Any:
    """A buffer that the tensor just fits in, of random elements: multiples of 1/4, or of 1; floats up to
    `whole`, if it is not 0, whole numbers.
    """
    extents, strides = _places(t, drawn)
    count = 1 + sum((n - 1) * d for n, d in zip(extents, strides, strict=True))
    kind = numpy.dtype(t.element.numpy_name if t.element else "")
    if t.element is None or t.element.name == "tf32" or kind.kind not in "fiu":
        raise UnsupportedError(f"verify of {t.buffer.name}: NumPy has no numbers of type {t.element}")
    per = 4 if _is_float(t) else 1
    own = wanted(numbers, extents) if callable(wanted) else None
    usual = (0 if kind.kind == "u" and per == 1 else -32 / per, 32 / per)
    if whole and wanted is None and per > 1:
        per, usual = 1, (-whole, whole)
    low, high = usual if wanted is None or callable(wanted) else wanted
    draws = numbers.integers(math.ceil(low * per), math.floor(high * per) + 1, count)
    buffer = _stored(t, draws / per if per > 1 else draws)
    if own is not None:
        _view(t, drawn, buffer)[...] = _stored(t, own)
    return buffer


def _is_float(t: Tensor) -> bool:
    return t.element is not None and (t.element.name in CODED or t.element.numpy_name.startswith("float"))


def _stored(t: Tensor, numbers: Any) -> Any:
    """Numbers as the elements of a tensor: floats that NumPy lacks as their bits."""
    element = t.element.name if t.element else ""
    if element not in CODED:
        return numpy.asarray(numbers).astype(t.element.numpy_name if t.element else "")
    return converted(numpy.asarray(numbers, numpy.float64, order="C").view(numpy.uint64), "f64", element)


def _numbers(t: Tensor, view: Any) -> Any:
    """The numbers of a tensor, which a reference may change: floats that NumPy lacks as float32."""
    if t.element is not None and t.element.name in CODED:
        return converted(view.copy(), t.element.name, "f32").view(numpy.float32)
    return view.copy()


def _number(kind: str, numbers: numpy.random.Generator, wanted: Values | None) -> float | int:
    """A random scalar: a multiple of 1/4, or of 1."""
    per = 4 if kind == "f32" else 1
    if callable(wanted):
        return wanted(numbers, ())  # type: ignore[no-any-return]
    least, most = wanted or (-8 / per, 8 / per)
    drawn = int(numbers.integers(math.ceil(least * per), math.floor(most * per) + 1))
    return drawn / per if per > 1 else drawn


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
    written = [p.name for p in kernel.pointers if p.writable]
    if isinstance(result, Mapping):
        if set(result) != set(written):
            raise ArgumentTypeError(f"{kernel.name} writes {', '.join(written)}; got {', '.join(result)}")
        return dict(result)
    if len(written) != 1:
        raise ArgumentTypeError(f"{kernel.name} writes {', '.join(written)}: a mapping of them is needed")
    return {written[0]: result}


def _compare(what: str, t: Tensor, got: Any, expected: Any, tolerance: float) -> None:
    if got.shape != expected.shape:
        raise MismatchError(f"{what} has the shape {got.shape}, the reference {expected.shape}")
    x, y = (v.astype(numpy.float64) for v in (got, expected))
    with numpy.errstate(invalid="ignore", over="ignore"):
        near = numpy.abs(x - y) <= tolerance * numpy.maximum(1, numpy.abs(y))
        rounded = _numbers(t, _stored(t, y)) if _is_float(t) else y
    wrong = ~(near | (x == y) | (x == rounded) | (numpy.isnan(x) & numpy.isnan(y)))
    if wrong.any():
        index = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        raise MismatchError(
            f"{what}: {got[index]} at {index}, where the reference has {expected[index]}; "
            f"{int(wrong.sum())} of {wrong.size} elements differ",
            index=index,
        )
