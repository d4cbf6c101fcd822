"""Index expressions compiled to Python closures over a frame of values, one value per lane.

The idea.  A simulated warp evaluates the same few hundred expressions over and over.  Walking the tree each
time would cost more than the arithmetic, so each expression becomes straight-line code once, a step for each
distinct subexpression:

    i = scope.declare(Var("i", 4, "unroll"))        slot 1 of every frame
    f = scope.compile(tid % 8 * 16 + i * 128)       frame -> int or int64 array (lanes,)
    f(frame)

A frame is a list: one slot a variable, plus the memo of what never changes.  A value is a Python int where
all lanes agree by construction (block indices, parameters, loop counters) and an int64 array otherwise.

Notes.  Variables are fixed or not: threads, parameters and unrolled indices are, and so is a let that is
made of them; blocks and loop counters are not.  The largest subexpressions over fixed variables are
computed once for each combination of unrolled indices and kept in the frame, across iterations and blocks:
the simulator's form of hoisting an address.  Stored arrays are read-only by convention: no one writes into
a value that came from a frame.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen.expr import OPERATION, Eq, Expr, Le, Lt, Select, Shl, Shr, Var
from layoutalg.errors import IRError, ResourceError

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Any]
Unrolled: TypeAlias = "frozenset[int] | None"
"""The slots of the unrolled indices that a fixed value depends on; None for a value that is not fixed."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that expressions may use, and the slots of the frames they are compiled for.

    >>> scope = Scope()
    >>> tid = Var("tid", 4)
    >>> slot = scope.declare(tid)
    >>> f = scope.compile(tid * 2 + 1)
    >>> frame = scope.frame()
    >>> frame[slot] = numpy.arange(4)
    >>> f(frame).tolist()
    [1, 3, 5, 7]
    """

    _bindings: dict[Var, tuple[int, Unrolled]] = field(default_factory=dict)  # slot and dependence
    _slots: list[bool] = field(default_factory=list)  # True: a memo, a dictionary in each frame
    _depends: dict[Expr, Unrolled] = field(default_factory=dict)  # of what was compiled
    _made: dict[Expr, Closure] = field(default_factory=dict)  # closures of whole expressions
    _kept: dict[Expr, Closure] = field(default_factory=dict)  # those of fixed values, with their memos

    def inner(self) -> Scope:
        """A scope inside this one: it sees these variables, and its own are not seen here."""
        return Scope(
            dict(self._bindings), self._slots, dict(self._depends), dict(self._made), dict(self._kept)
        )

    def frame(self) -> Frame:
        """A fresh frame for everything declared and compiled so far."""
        return [{} if memo else None for memo in self._slots]

    def declare(self, var: Var, value: Expr | None = None) -> int:
        """Give `var` a slot; `value` is what a let stands for."""
        slot = self._new_slot()
        if value is not None:
            unrolled = self._dependence(value)
        elif var.kind == "unroll":
            unrolled = frozenset({slot})
        else:
            unrolled = frozenset() if var.kind in {"thread", "param"} else None
        if var in self._bindings:
            for memory in (self._depends, self._made, self._kept):
                memory.clear()  # of the other variable of that name
        self._bindings[var] = (slot, unrolled)
        return slot

    def is_fixed(self, node: Expr) -> bool:
        """Whether a closure's value is computed once and kept: the same array comes again."""
        return self._dependence(node) is not None

    def compile(self, node: Expr) -> Closure:
        """A closure frame -> value.

        Raises IRError for a variable that is not in scope; the closure raises ResourceError where an array
        could hold a value past 63 bits.
        """
        made = self._made.get(node)
        if made is None:
            made = self._made[node] = self._compiled(node)
        return made

    def _compiled(self, node: Expr) -> Closure:
        if not node.children:
            return self._leaf(node)
        if self._dependence(node) is not None:
            return self._remembered(node)
        # the largest fixed parts: a fixed node below one that is not
        fixed = {
            part
            for n in _operands_first(node, ())
            if self._depends[n] is None
            for part in n.children
            if part.children and self._depends[part] is not None
        }
        return self._straight(node, {n: self._remembered(n) for n in fixed})

    def _new_slot(self, *, memo: bool = False) -> int:
        self._slots.append(memo)
        return len(self._slots) - 1

    def _dependence(self, node: Expr) -> Unrolled:
        """The indices that an expression depends on; they are then known for each of its subexpressions."""
        depends = self._depends
        for n in _operands_first(node, depends):
            if n in depends:
                continue
            if isinstance(n, Var):
                depends[n] = self._binding(n)[1]
            else:
                parts = [depends[c] for c in n.children]
                known = [p for p in parts if p is not None]
                depends[n] = frozenset().union(*known) if len(known) == len(parts) else None
        return depends[node]

    def _binding(self, var: Var) -> tuple[int, Unrolled]:
        if var not in self._bindings:
            raise IRError("scope", var, f"{var} is not in scope")
        return self._bindings[var]

    def _leaf(self, node: Expr) -> Closure:
        if isinstance(node, Var):
            return operator.itemgetter(self._binding(node)[0])
        value = node.facts.lo  # of a constant
        return lambda frame: value

    def _remembered(self, node: Expr) -> Closure:
        """A fixed value, computed once for each combination of the unrolled indices."""
        if node not in self._kept:
            self._kept[node] = self._memo(node)
        return self._kept[node]

    def _memo(self, node: Expr) -> Closure:
        compute, unrolled = self._straight(node, {}), sorted(self._depends[node] or ())
        memo = self._new_slot(memo=True)
        key_of: Closure = operator.itemgetter(*unrolled) if unrolled else _no_key

        def run(frame: Frame) -> Any:
            key, values = key_of(frame), frame[memo]
            value = values.get(key)
            if value is None:
                value = values[key] = compute(frame)
            return value

        return run

    def _straight(self, node: Expr, ready: dict[Expr, Closure]) -> Closure:
        """Straight-line code of a node: leaves and `ready` values first, then one step per subexpression."""
        order = list(_operands_first(node, ready))
        inner = [n for n in order if n not in ready and n.children]
        outer = [n for n in order if n in ready or not n.children]
        position = {n: i for i, n in enumerate(outer + inner)}
        leaves = [ready[n] if n in ready else self._leaf(n) for n in outer]
        steps = [(_step(n), [position[c] for c in n.children]) for n in inner]
        if len(steps) == 1 and len(leaves) == 2 and len(steps[0][1]) == 2:
            return _of_two(steps[0][0], leaves[steps[0][1][0]], leaves[steps[0][1][1]])
        if all(len(operands) == 2 for _, operands in steps):
            return _of_pairs(leaves, [(apply, i, j) for apply, (i, j) in steps])

        def run(frame: Frame) -> Any:
            values = [leaf(frame) for leaf in leaves]
            for apply, operands in steps:
                values.append(apply(*[values[i] for i in operands]))
            return values[-1]

        return run


def _no_key(frame: Frame) -> None:
    """The key of a value that depends on no unrolled index."""


def _of_two(apply: Callable[..., Any], a: Closure, b: Closure) -> Closure:
    """Straight-line code of one step."""
    return lambda frame: apply(a(frame), b(frame))


def _of_pairs(leaves: list[Closure], steps: list[tuple[Callable[..., Any], int, int]]) -> Closure:
    """Straight-line code whose every step has two operands, as nearly all have: half the time of any."""

    def run(frame: Frame) -> Any:
        values = [leaf(frame) for leaf in leaves]
        for apply, i, j in steps:
            values.append(apply(values[i], values[j]))
        return values[-1]

    return run


def _operands_first(node: Expr, stop: Container[Expr]) -> Iterator[Expr]:
    """Every distinct subexpression after its operands; those in `stop` without theirs."""
    done: set[Expr] = set()
    waiting = [(node, False)]
    while waiting:
        n, ready = waiting.pop()
        if n in done:
            continue
        if ready or n in stop:
            done.add(n)
            yield n
        else:
            waiting.append((n, True))
            waiting += [(c, False) for c in reversed(n.children)]


def _step(node: Expr) -> Callable[..., Any]:
    """The function that a node computes of its operands' values."""
    wide = any(n.facts.hi >> 63 for n in (node, *node.children))
    return partial(_of_ints, node, _operation(node)) if wide else _operation(node)


def _operation(node: Expr) -> Callable[..., Any]:
    match node:
        case Shl(_, amount):
            return lambda a: a << amount
        case Shr(_, amount):
            return lambda a: a >> amount
        case Select():
            return _select
        case Lt() | Le() | Eq():  # 0 or 1: NumPy's booleans do not add, nor subtract
            compare = OPERATION[type(node)]
            return lambda a, b: compare(a, b) * 1
        case _:
            return OPERATION[type(node)]


def _select(test: Any, yes: Any, no: Any) -> Any:
    return numpy.where(test, yes, no) if isinstance(test, numpy.ndarray) else yes if test else no


def _of_ints(node: Expr, apply: Callable[..., Any], *operands: Any) -> Any:
    if any(isinstance(value, numpy.ndarray) for value in operands):
        bits = max(n.facts.hi for n in (node, *node.children)).bit_length()
        raise ResourceError(
            f"bits of '{node}' in an int64 array",
            bits,
            63,
            hint="smaller ranges of its parameters are needed",
        )
    return apply(*operands)
