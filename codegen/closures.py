"""Index expressions compiled to Python closures over a frame of values, one value a lane.

The idea.  A simulated warp evaluates the same few hundred expressions over and over.  Walking the tree each
time would cost more than the arithmetic, so each expression becomes a closure once:

    i = scope.declare(Var("i", 4, "unroll"))        slot 1 of every frame
    f = scope.compile(tid % 8 * 16 + i * 128)       frame -> int or int64 array (lanes,)
    f(frame)

A frame is a list: one slot a variable, plus the memo of what never changes.  A value is a Python int where
all lanes agree by construction (block indices, parameters, loop counters) and an int64 array otherwise.

Notes.  Variables are fixed or not: threads, parameters and unrolled indices are, and so is a let that is
made of them; blocks and loop counters are not.  The largest subexpressions over fixed variables are
computed once for each combination of unrolled indices and kept in the frame, across iterations and blocks:
the simulator's form of hoisting an address.  Kept arrays are read-only by convention: nobody writes into
a value that came from a frame.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy

from layoutalg.codegen.expr import OPERATION, Const, Expr, Select, Shl, Shr, Var, variables
from layoutalg.errors import IRError

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Any]


@dataclass(frozen=True, slots=True)
class _Binding:
    """Where a variable lives; `fixed` with the slots of the unrolled indices its value depends on."""

    slot: int
    fixed: bool
    unrolled: frozenset[int]


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

    _bindings: dict[Var, _Binding] = field(default_factory=dict)
    _slots: list[bool] = field(default_factory=list)  # True: a memo, a dictionary in each frame

    def inner(self) -> Scope:
        """A scope inside this one: it sees these variables, and its own are not seen here."""
        return Scope(dict(self._bindings), self._slots)

    def frame(self) -> Frame:
        """A fresh frame for everything declared and compiled so far."""
        return [{} if memo else None for memo in self._slots]

    def declare(self, var: Var, value: Expr | None = None) -> int:
        """Give `var` a slot; `value` is what a let stands for."""
        slot = self._new_slot()
        if value is not None:
            fixed, unrolled = self._dependence(value)
        else:
            fixed = var.kind in {"thread", "param", "unroll"}
            unrolled = frozenset({slot}) if var.kind == "unroll" else frozenset()
        self._bindings[var] = _Binding(slot, fixed, unrolled)
        return slot

    def compile(self, node: Expr) -> Closure:
        """A closure frame -> value.  Raises IRError for a variable that is not in scope."""
        if isinstance(node, Var | Const):
            return self._plain(node)
        fixed, unrolled = self._dependence(node)
        if fixed and variables(node):
            return self._remembered(self._plain(node), sorted(unrolled))
        return self._plain(node, self.compile)

    def _new_slot(self, *, memo: bool = False) -> int:
        self._slots.append(memo)
        return len(self._slots) - 1

    def _binding(self, var: Var) -> _Binding:
        binding = self._bindings.get(var)
        if binding is None:
            raise IRError("scope", var, f"{var} is not in scope")
        return binding

    def _dependence(self, node: Expr) -> tuple[bool, frozenset[int]]:
        used = [self._binding(v) for v in variables(node)]
        return all(b.fixed for b in used), frozenset().union(*(b.unrolled for b in used))

    def _remembered(self, compute: Closure, unrolled: list[int]) -> Closure:
        memo = self._new_slot(memo=True)

        def run(frame: Frame) -> Any:
            key = tuple([frame[slot] for slot in unrolled])
            kept = frame[memo]
            if key not in kept:
                kept[key] = compute(frame)
            return kept[key]

        return run

    def _plain(self, node: Expr, child: Callable[[Expr], Closure] | None = None) -> Closure:
        child = child or self._plain
        match node:
            case Const(value):
                return lambda frame: value
            case Var():
                return operator.itemgetter(self._binding(node).slot)
            case Shl(a, amount):
                return _with_constant(operator.lshift, child(a), amount)
            case Shr(a, amount):
                return _with_constant(operator.rshift, child(a), amount)
            case Select(condition, a, b):
                return _select(child(condition), child(a), child(b))
            case _ if isinstance(node.b, Const):
                return _with_constant(OPERATION[type(node)], child(node.a), node.b.value)
            case _:
                apply, left, right = OPERATION[type(node)], child(node.a), child(node.b)
                return lambda frame: apply(left(frame), right(frame))


def _with_constant(apply: Callable[[Any, Any], Any], operand: Closure, value: int) -> Closure:
    return lambda frame: apply(operand(frame), value)


def _select(condition: Closure, a: Closure, b: Closure) -> Closure:
    def run(frame: Frame) -> Any:
        test, yes, no = condition(frame), a(frame), b(frame)
        return numpy.where(test, yes, no) if isinstance(test, numpy.ndarray) else yes if test else no

    return run
