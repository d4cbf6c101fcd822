"""The reach of a program's shared accesses: an interval for every thread, under the branches it takes.

The idea.  The facts of an index hold for all threads and know no branch, so that eight threads
alone seem to leave a tile of 128 bytes:

    if (tid < 8) copy(tile + tid * 16)          facts of the index: tid * 16 <= 1008

Here the thread and the counters of constant loops are written out, as arrays; everything else (blocks,
parameters, other counters) stays an interval.  A condition is then, thread by thread, false, true or open,
and an index an interval, most often one number:

    most       no thread that may get there touches a byte past it: inside the buffer this is a proof
    outside    a thread that certainly gets there certainly leaves the buffer: a counterexample

An interval forgets that one variable occurs twice: (b ^ 1) * 64 ^ b * 8 of b in {0, 1}.  Where that leaves an
access open, its variables of few values are given each of them in turn, and so is b % 8 of any b.

Where neither is found for all blocks at once, some blocks of the smallest and of the largest launch, whose
numbers are not intervals, may give the counterexample.  Whatever stays open is left to the simulator.

Notes.  Lanes whose addresses an instruction ignores count too, as they do in the simulator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen.expr import (
    OPERATION,
    Add,
    And,
    Eq,
    Expr,
    FloorDiv,
    Le,
    Lt,
    Minus,
    Mod,
    Mul,
    Or,
    Select,
    Shl,
    Shr,
    Var,
    Xor,
    apply_operator,
    evaluate,
    resolved,
    variables,
)
from layoutalg.codegen.instr import WARP, Operand
from layoutalg.codegen.program.asynchronous import written
from layoutalg.codegen.program.tile import (
    Body,
    Do,
    For,
    If,
    Kernel,
    Let,
    Role,
    Roles,
    Shared,
    Stmt,
    Unroll,
    bodies,
    expressions,
    with_bodies,
)

LAUNCHES = 64
"""The most blocks in which a counterexample is sought."""

TABLED_NUMBERS = 1 << 17
"""Numbers of an array: loops whose counters would make more stay intervals."""

CASES = 256
"""The most combinations of values that the parts of one index are given in turn."""

WIDE = 62
"""Bits from which a value stays the interval that its facts are: int64 would not hold it."""

Interval: TypeAlias = "tuple[Any, Any]"
"""Least and most value, arrays over loops and threads; where every value is known both are one object."""


@dataclass(frozen=True, slots=True)
class Reach:
    """A shared operand of `statement`: `nbytes` of `buffer`, none of them past byte `most`.

    `outside` names a thread that certainly leaves the buffer, if one is known to.
    """

    statement: Do
    buffer: Shared
    nbytes: int
    most: int
    outside: str = ""

    @property
    def is_inside(self) -> bool:
        """True when no thread leaves the buffer."""
        return self.most <= self.buffer.size_bytes


def shared_reach(
    kernel: Kernel, launch: Mapping[Var, int] | None = None, *, cases: bool = True
) -> Iterator[Reach]:
    """The reach of every shared operand, in program order, in all blocks of all launches.

    Or in those where variables of a `launch`, which are blocks and parameters, have some values.  Without
    `cases` the `most` may be larger.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.instr import LDS
    >>> from layoutalg.layout import Layout
    >>> k = KernelBuilder("k", threads=64)
    >>> tile, v = k.shared_buffer("tile", 4, Layout(32), 32, 16), k.reg("v", 1)
    >>> with k.If(k.tid < 32):
    ...     k.do(LDS[4], v, k.at(tile, k.tid))
    >>> [(r.most, r.is_inside) for r in shared_reach(k.build())]
    [(128, True)]
    """
    tid = numpy.arange(kernel.threads)
    known: dict[Expr, Interval] = {kernel.tid: (tid, tid)}
    where = ""
    if launch:
        known.update((var, (n, n)) for var, n in launch.items())
        block = ", ".join(str(launch.get(var, 0)) for var in kernel.block_vars) or "0"
        values = "".join(f", {v.name} = {n}" for v, n in launch.items() if v.kind == "param")
        where = f" of block ({block}){values}"
    place = _Place(known, {}, (kernel.tid,), kernel.threads, True, True, where, cases)
    return _body(_shared_slice(kernel.body, set()), place)


def find_outside(kernel: Kernel) -> Reach | None:
    """A shared operand that leaves its buffer, by a thread of a launch that the kernel admits.

    None where all are proven to stay inside, and where none of `LAUNCHES` blocks shows one that leaves.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> find_outside(KernelBuilder("empty", threads=32).build())
    """
    if all(reach.is_inside for reach in shared_reach(kernel)):
        return None
    runs = (shared_reach(kernel, values, cases=False) for values in _launches(kernel))
    return next((reach for run in runs for reach in run if reach.outside), None)


def _launches(kernel: Kernel) -> Iterator[Mapping[Var, int]]:
    """Blocks of the smallest and of the largest launch, the first and the last ones among them."""
    scalars = kernel.integers
    for values in ({p: p.facts.lo for p in scalars}, {p: p.facts.hi for p in scalars}):
        if all(int(evaluate(condition, values)) for condition in kernel.conditions):
            x, y, z = kernel.blocks(values)
            last = x * y * z - 1
            for n in sorted({last * i // (LAUNCHES // 2 - 1) for i in range(LAUNCHES // 2)}):
                block = (n % x, n // x % y, n // (x * y))
                yield {**values, **dict(zip(kernel.block_vars, block, strict=False))}
        if not scalars:
            return


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a statement: what is known of values, which threads may and which certainly get there.

    Axis -1 of the arrays is the thread, axis -2 the counter of the outermost loop that is written out, and so
    on: `axes` are their variables, `numbers` how many numbers they make.  `cases`: an index that is not known
    to stay inside is looked at for each value of its parts.
    """

    known: dict[Expr, Interval]
    lets: dict[Var, Expr]
    axes: tuple[Var, ...]
    numbers: int
    may: Any
    sure: Any
    where: str
    cases: bool

    def under(self, condition: Interval) -> _Place:
        """The same place where a condition holds: 0 or 1, or open."""
        low, high = condition
        may, sure = numpy.logical_and(self.may, high), numpy.logical_and(self.sure, low)
        return replace(self, known=dict(self.known), may=may, sure=sure)

    def of_role(self, part: Role) -> _Place:
        """The threads of a role, counted from 0."""
        counted = self.known[self.axes[0]][0] - part.first_thread
        inside = (counted >= 0) & (counted < WARP * part.warps)
        place = self.under((inside, inside))
        mine = numpy.where(inside, counted, 0)
        place.known[part.thread] = mine, mine
        return place

    def looping(self, var: Var, count: Interval) -> _Place:
        """The body of a loop: its counter written out, or an interval."""
        least, most = count
        if least is most and isinstance(most, int) and 0 < most * self.numbers <= TABLED_NUMBERS:
            steps = numpy.arange(most).reshape(-1, *(1,) * len(self.axes))
            known = {**self.known, var: (steps, steps)}
            return replace(self, known=known, axes=(*self.axes, var), numbers=self.numbers * most)
        place = self.under((numpy.greater(least, 0), numpy.greater(most, 0)))
        place.known[var] = 0, numpy.maximum(most - 1, 0)
        return place


def _shared_slice(body: Body, needed: set[Var]) -> Body:
    """The statements that access shared memory, and those that say where, how often and whether they do.

    `needed` are the variables of what follows; those of the body are added.
    """
    out: list[Stmt] = []
    for s in reversed(body):
        match s:
            case Do():
                acts = any(isinstance(at.buffer, Shared) for _, at in s.memory)
            case Let(var):
                acts = var in needed
            case _:
                s = with_bodies(s, lambda inner: _shared_slice(inner, needed))
                acts = any(bodies(s))
        if acts:
            needed.update(*map(variables, expressions(s)))
            out.append(s)
    return tuple(reversed(out))


def _body(body: Body, place: _Place) -> Iterator[Reach]:
    for s in body:
        match s:
            case Do():
                yield from _do(s, place)
            case Let(var, value):
                if isinstance(value, Expr):  # of the number of a register only its range is known
                    place.known[var] = interval(value, place.known)
                    place.lets[var] = value
            case For(var, count, inner):
                yield from _body(inner, place.looping(var, interval(count, place.known)))
            case Unroll(var, count, inner):
                yield from _body(inner, place.looping(var, (count, count)))
            case Roles(roles):
                for part in roles:
                    yield from _body(part.body, place.of_role(part))
            case If(condition, inner, orelse):
                low, high = interval(condition, place.known)
                yield from _body(inner, place.under((low, high)))
                yield from _body(orelse, place.under((1 - high, 1 - low)))


def _do(s: Do, place: _Place) -> Iterator[Reach]:
    for operand, arg in s.memory:
        if not isinstance(arg.buffer, Shared):
            continue
        here = place
        for guard in s.guards if operand.role == "read" else ():
            here = here.under(interval(guard, here.known))
        nbytes = _bytes(s, operand)
        reach = _reach(s, arg.buffer, interval(arg.index, here.known), nbytes, here)
        if here.cases and not reach.is_inside and not reach.outside:
            cases = (_reach(s, arg.buffer, index, nbytes, here) for index in _cases(arg.index, here))
            reach = replace(
                reach, most=min(reach.most, max((case.most for case in cases), default=reach.most))
            )
        yield reach


def _bytes(s: Do, operand: Operand) -> int:
    """The bytes that an operand covers from its address on: through a tensor map all that the box spans."""
    by = s.tensor_map
    return written(by).shared_bytes if by and operand.role == "place" else operand.bytes


def _cases(index: Expr, place: _Place) -> Iterator[Interval]:
    """The interval of an index for each value of those of its parts that have few and are one per block.

    A named value that differs between threads is replaced by its definition.
    """
    parted = {v for v, (low, high) in place.known.items() if low is not high and _differs(low, high)}
    index = resolved(index, {v: value for v, value in place.lets.items() if v in parted})
    known: dict[Expr, Interval] = {v: at for v, at in place.known.items() if isinstance(v, Var)}
    parts: dict[Expr, range] = {}
    _is_open(index, known.copy(), parts, {})
    values: dict[Expr, range] = {}
    count = 1
    for part, numbers in sorted(parts.items(), key=lambda x: len(x[1])):
        count *= max(1, len(numbers))
        if count > CASES:
            break
        values[part] = numbers
    for combination in itertools.product(*values.values()):
        fixed = known.copy()
        fixed.update((part, (n, n)) for part, n in zip(values, combination, strict=True))
        yield interval(index, fixed)


def _is_open(
    node: Expr, known: dict[Expr, Interval], parts: dict[Expr, range], opens: dict[Expr, bool]
) -> bool:
    """Whether a node stays an interval when all of `parts` are numbers; adds its parts of few values.

    These are variables, and where a variable has many the least part around it that has few: b % 8 of any b.
    """
    if node not in opens:
        opens[node] = _opens(node, known, parts, opens)
    return opens[node]


def _opens(
    node: Expr, known: dict[Expr, Interval], parts: dict[Expr, range], opens: dict[Expr, bool]
) -> bool:
    low, high = interval(node, known)
    if low is high:
        return False
    inside = [_is_open(part, known, parts, opens) for part in node.children]
    if inside and not any(inside):
        return False
    if _differs(low, high):
        return True
    step = node.facts.stride or 1
    numbers = range(int(low) + (node.facts.offset - int(low)) % step, int(high) + 1, step)
    if len(numbers) > CASES:
        return True
    parts[node] = numbers
    return False


def _differs(low: Any, high: Any) -> bool:
    """Whether an interval is another one for other threads."""
    return numpy.ndim(low) > 0 or numpy.ndim(high) > 0


def _reach(s: Do, buffer: Shared, index: Interval, nbytes: int, place: _Place) -> Reach:
    may, sure, starts, last = numpy.broadcast_arrays(place.may, place.sure, *index)
    most = int(last[may].max()) + nbytes if may.any() else 0
    bad = numpy.argwhere(sure & (starts + nbytes > buffer.size_bytes))
    if not len(bad):
        return Reach(s, buffer, nbytes, most)
    first = bad[0].tolist()
    at = int(starts[tuple(first)])
    counters = dict(zip((var.name for var in place.axes), reversed(first), strict=False))
    thread = counters.pop(place.axes[0].name, 0)
    loops = "".join(f", {name} = {n}" for name, n in counters.items())
    return Reach(
        s, buffer, nbytes, most,
        f"thread {thread}{loops}{place.where}: bytes {at} to {at + nbytes - 1} of {buffer.name}, which has "
        f"{buffer.size_bytes}",
    )  # fmt: skip


# --- intervals of expressions ----------------------------------------------------------------------------


def interval(node: Expr, known: dict[Expr, Interval]) -> Interval:
    """The interval of an expression for given ones of its variables, its facts for others; `known` keeps it.

    >>> i = Var("i", 8)
    >>> [int(n) for n in interval(i * 4 + Var("j", 3), {i: (2, 2)})]
    [8, 10]
    """
    if node not in known:
        known[node] = _computed(node, known)
    return known[node]


def _computed(node: Expr, known: dict[Expr, Interval]) -> Interval:
    facts, parts = node.facts, node.children
    if not parts or facts.is_constant or any(n.facts.hi >> WIDE for n in (node, *parts)):
        return (facts.lo, facts.lo) if facts.is_constant else (facts.lo, facts.hi)
    of = [interval(n, known) for n in parts]
    if all(low is high for low, high in of):
        value = apply_operator(node, [low for low, _ in of])
        return value, value
    low, high = _between(node, of)
    return numpy.maximum(low, facts.lo), numpy.minimum(high, facts.hi)


def _between(node: Expr, of: list[Interval]) -> Interval:
    """The interval of an operator's value for intervals of its operands."""
    (a, b), (c, d) = of[0], of[-1]
    match node:
        case Add() | Mul():
            return OPERATION[type(node)](a, c), OPERATION[type(node)](b, d)
        case Minus():
            return OPERATION[Minus](a, d), OPERATION[Minus](b, c)
        case Shl(_, amount):
            return a << amount, b << amount
        case Shr(_, amount):
            return a >> amount, b >> amount
        case FloorDiv():
            return a // d, b // c
        case Mod():
            together = numpy.logical_and(c == d, a // c == b // c)
            return numpy.where(together, a % c, 0), numpy.where(together, b % c, numpy.minimum(b, d - 1))
        case Lt() | Le():
            return OPERATION[type(node)](b, c) * 1, OPERATION[type(node)](a, d) * 1
        case Eq():
            return ((a == b) & (c == d) & (a == c)) * 1, ((a <= d) & (c <= b)) * 1
        case Select():
            _, (c, d), (e, f) = of
            return numpy.minimum(c, e), numpy.maximum(d, f)
        case And() | Or() | Xor():
            both = numpy.logical_and(a == b, c == d)
            value = OPERATION[type(node)](a, c)
            least, most = _bits(node, of)
            return numpy.where(both, value, least), numpy.where(both, value, most)
        case _:
            return node.facts.lo, node.facts.hi


def _bits(node: Expr, of: list[Interval]) -> Interval:
    """a & b, a | b or a ^ b of intervals: their bits add, meet or cancel."""
    (a, b), (c, d) = of
    match node:
        case And():
            return 0, numpy.minimum(b, d)
        case Or():
            return numpy.maximum(a, c), b + d
        case _:
            return numpy.maximum(numpy.maximum(a - d, c - b), 0), b + d
