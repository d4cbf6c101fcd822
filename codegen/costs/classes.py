"""Classes of the executions of one access: which of them cannot be told apart by what they cost.

The idea.  A warp executes a memory access at many points: blocks, turns of loops, warps of a block.  Write
its address and its conditions as functions of the point p and the lane l.  Two points cost the same when
every condition holds for the same lanes, and

    address(p, l) - address(q, l)      is the same multiple of 32 bytes (128 for shared memory) for all l

A point is a tuple of axes, so whole ranges of points are divided into classes without looking at each: axis
after axis is taken in, the product of the classes so far and the new axis is evaluated at once (see split),
and points that no value of the REMAINING axes and no lane can tell apart become one class with a weight.

    row = block * 64 + i * 4 + tid // 32,  row < 1000      after `block`: 15 full blocks, the last

Notes.  The classes may be finer than necessary, never coarser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy

from layoutalg.codegen.costs.split import Array, Axis, Digits, Evaluator, Value, numbered, whole
from layoutalg.codegen.expr import Const, Expr, Var, terms, total
from layoutalg.errors import ResourceError
from layoutalg.limits import Most

MAX_EXECUTIONS = 1 << 50
"""Executions of one access that are counted; weights stay exact in float64, and no GPU runs as many."""

_ALONE = 16
"""Values of an axis from which on it is reduced alone before it is combined with the others."""

Points: TypeAlias = dict[Axis, Array]
"""The value of some axes at each of several points."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate of an access's path, or of its guard, that must be `wanted` in a lane."""

    predicate: Expr
    wanted: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope around a statement, which decides when and by which lanes it is executed.

    `names` defines every variable, as an expression of others, a constant, or a sum of `axes` and the lane of
    a warp.  `executions` counts the points, those without an active lane included.
    """

    names: Mapping[Var, Expr | Digits]
    axes: tuple[Axis, ...] = ()
    conditions: tuple[Condition, ...] = ()
    executions: int = 1

    def let(self, var: Var, value: Expr | Digits) -> Scope:
        """The scope in which a variable stands for a value."""
        return replace(self, names={**self.names, var: value})

    def where(self, predicate: Expr, wanted: bool = True) -> Scope:
        """The scope of the lanes in which a predicate is as wanted."""
        return replace(self, conditions=(*self.conditions, Condition(predicate, wanted)))

    def running(self, var: Var, extent: int, digits: Digits) -> Scope:
        """The scope in which a variable has every value below `extent`."""
        axes = (*self.axes, *(axis for axis, _ in digits))
        return replace(self.let(var, digits), axes=axes, executions=self.executions * extent)


@dataclass(frozen=True, slots=True)
class Address:
    """Byte `base_bytes` + `scale` * `index`; moving all lanes by `modulus` bytes does not change the cost."""

    index: Expr
    scale: int
    base_bytes: int
    modulus: int


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses of an access of `statement`, in the lanes of `scope`: one, or two for a copy."""

    statement: object
    addresses: tuple[Address, ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class Classes:
    """Representatives of all points: the values of each axis, and how many points are like them."""

    points: Mapping[Axis, Value]
    weights: Value


def classes_of(place: Place, known: dict[object, Classes] | None = None) -> Classes:
    """The classes of all points of a place at which a lane may be active.

    They do not change where every point's address moves by the same, so that a loop that is written out has
    many places with the same classes: `known` keeps them.  Raises ResourceError past Most.BLOCKS and
    MAX_EXECUTIONS.
    """
    if place.scope.executions > MAX_EXECUTIONS:
        raise ResourceError(f"executions of '{place.statement}'", place.scope.executions, MAX_EXECUTIONS)
    known = {} if known is None else known
    used, definitions = _used(place)
    free = prod(axis.extent for axis in place.scope.axes if axis not in used)
    addresses = tuple((_moving(a.index), a.scale, a.modulus) for a in place.addresses)
    key = addresses, place.scope.conditions, _numbered_axes(definitions, used), free
    if key not in known:
        known[key] = _divided(place, used, free)
    classes = known[key]
    return Classes(dict(zip(used, classes.points.values(), strict=True)), classes.weights)


def _moving(index: Expr) -> Expr:
    """An index without what is added to it at every point."""
    return total(t for t in terms(index) if not isinstance(t, Const))


def _numbered_axes(definitions: Mapping[Var, Expr | Digits], used: list[Axis]) -> tuple[object, ...]:
    """Names and their values, the axes by their places among those that are used: each loop has its own."""
    places: dict[Axis, object] = {axis: (n, axis.extent, axis.reach) for n, axis in enumerate(used)}
    return tuple(
        (var, tuple((places.get(a, a), weight) for a, weight in at) if isinstance(at, tuple) else at)
        for var, at in definitions.items()
    )


def _divided(place: Place, used: list[Axis], free: int) -> Classes:
    points: Points = {}
    weights = numpy.array([free])
    for axis in used:
        new: Points = {axis: numpy.arange(axis.extent)}
        count = numpy.ones(axis.extent, dtype=numpy.int64)
        if points and axis.extent > _ALONE:
            new, count = _merged(place, new, count)
        Most.BLOCKS.guard(len(weights) * len(count), f"points of '{place.statement}' that are told apart")
        points, weights = _merged(place, *_crossed(points, weights, new, count))
    return Classes(points, weights)


def lanes_of(
    place: Place, classes: Classes, lane: Axis, rows: slice
) -> tuple[tuple[Array, ...], Array, Array]:
    """Byte addresses and active lanes of some representatives, (rows, lanes) each, and their weights."""
    weights = classes.weights[rows]
    points = {axis: values[rows, None] for axis, values in classes.points.items()}
    evaluator = Evaluator(place.scope.names, {**points, lane: numpy.arange(lane.extent)[None, :]})
    active = numpy.ones((len(weights), lane.extent), dtype=bool)
    for condition in place.scope.conditions:
        active &= (evaluator.split(condition.predicate).own != 0) == condition.wanted
    bytes_at = (evaluator.split(a.index).own * a.scale + a.base_bytes for a in place.addresses)
    return tuple(numpy.broadcast_to(at, active.shape) for at in bytes_at), active, weights


def _used(place: Place) -> tuple[list[Axis], Mapping[Var, Expr | Digits]]:
    """The axes that the index or a condition depends on, short digits first; and the names that it has.

    Where short axes are known, an interval of a long one decides more: a row's end, once the row is known.
    """
    waiting = [*(a.index for a in place.addresses), *(c.predicate for c in place.scope.conditions)]
    seen: set[Expr] = set()
    axes: set[Axis] = set()
    definitions: dict[Var, Expr | Digits] = {}
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        value = place.scope.names.get(node) if isinstance(node, Var) else None
        if value is not None:
            definitions[node] = value  # type: ignore[index]  # a variable, as was asked
        match value:
            case tuple():
                axes.update(axis for axis, _ in value)
            case None:
                waiting += node.children
            case _:
                waiting.append(value)
    used = sorted((axis for axis in place.scope.axes if axis in axes), key=lambda axis: axis.reach)
    return used, definitions


def _crossed(points: Points, weights: Array, new: Points, count: Array) -> tuple[Points, Array]:
    """Every old point with every new one; weights multiply."""
    old, fresh = len(weights), len(count)
    crossed = {axis: numpy.repeat(values, fresh) for axis, values in points.items()}
    crossed |= {axis: numpy.tile(values, old) for axis, values in new.items()}
    return crossed, numpy.repeat(weights, fresh) * numpy.tile(count, old)


DENSE = 8
"""Numbers per point up to which points are counted by their number."""


def _merged(place: Place, points: Points, weights: Array) -> tuple[Points, Array]:
    """Keep one point of each set that nothing tells apart, without those where no lane is active."""
    if not len(weights):
        return points, weights
    evaluate = Evaluator(place.scope.names, points)
    active = numpy.ones(len(weights), dtype=bool)
    keys: list[Value] = []
    for condition in place.scope.conditions:
        holds = evaluate.split(condition.predicate)
        active &= holds.hi != 0 if condition.wanted else holds.lo == 0
        keys += whole(holds)
        evaluate.assume(condition.predicate, condition.wanted)
    for address in place.addresses:
        at = evaluate.split(address.index)
        keys += [*at.keys, at.own * address.scale % address.modulus]
    arrays = {id(k): k for k in keys if isinstance(k, numpy.ndarray)}  # equal parts share their keys
    code, span = numbered([k[active] for k in arrays.values()], int(active.sum()))
    if span <= DENSE * len(code):  # counted, not sorted
        first = numpy.full(span, -1)
        first[code[::-1]] = numpy.arange(len(code))[::-1]
        merged = numpy.bincount(code, weights[active], minlength=span)[first >= 0]
        first = first[first >= 0]
    else:
        _, first, which = numpy.unique(code, return_index=True, return_inverse=True)
        merged = numpy.bincount(which, weights[active], minlength=len(first))
    chosen = numpy.flatnonzero(active)[first]
    return {axis: values[chosen] for axis, values in points.items()}, merged.astype(numpy.int64)
