"""Derivations on trees of modes: flatten, unflatten, product, the congruences, ceil_div, shape_div, append,
prepend, replace, group, select, sort, concat, make_layout,
make_identity_layout, make_basis_like, modes.

>>> paper = Paper()
>>> explain_compatible(paper, (4, 6), ((2, 2), 6))
True
>>> print(*(statement for step in paper.steps for statement in step.statements), sep="\\n")
compatible(4, (2,2)) = True
product((2,2)) = 4
compatible(6, 6) = True
product(6) = 6
compatible((4,6), ((2,2),6)) = True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutalg.derivation import Paper, attempt, notation
from layoutalg.explain_measure import explain_inside, explain_outside, innermost
from layoutalg.int_tuple import IntTuple, compatible, congruent, flatten, product, to_text, weakly_congruent
from layoutalg.layout import Layout, concat, leaves, make_identity_layout, modes
from layoutalg.measure import rank
from layoutalg.regroup import append, group, make_layout, prepend, replace, select, sort, unflatten
from layoutalg.regroup import flatten as flatten_modes
from layoutalg.shapes import shape_div
from layoutalg.swizzle import AnyLayout, ComposedLayout

Operation = Callable[..., Any]


def explain_tree_product(paper: Paper, value: IntTuple) -> int:
    """All leaves multiplied.

    >>> explain_tree_product(Paper(), ((2, 4), 8))
    64
    """
    factors = " * ".join(map(str, flatten(value))) or "1"
    paper.step(
        "the leaves are multiplied; an empty tuple is 1",
        f"product({to_text(value)}) = {factors} = {product(value)}",
    )
    return product(value)


def _explain_tree(paper: Paper, operation: Operation, a: IntTuple, b: IntTuple) -> bool:
    """Two trees walked down together, up to the first place that decides."""
    name = operation.__name__
    result = bool(operation(a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            paper.step(
                "two tuples of different lengths do not fit", f"{name}({to_text(a)}, {to_text(b)}) = False"
            )
            paper.write(f"{len(a)} != {len(b)}")
            return result
        paper.step(f"two tuples of {len(a)} modes are compared mode by mode")
        for s, t in zip(a, b, strict=True):
            both = isinstance(s, tuple) and isinstance(t, tuple)
            if not (_explain_tree if both else _explain_leaf)(paper, operation, s, t):
                break
        paper.step("so", f"{name}({to_text(a)}, {to_text(b)}) = {result}")
        return result
    paper.step("one of them is a number")
    _explain_leaf(paper, operation, a, b)
    return result


def _explain_leaf(paper: Paper, operation: Operation, a: IntTuple, b: IntTuple) -> bool:
    """A pair of which at least one is a number."""
    result = bool(operation(a, b))
    paper.write(f"{operation.__name__}({to_text(a)}, {to_text(b)}) = {result}")
    if operation is compatible and not isinstance(a, tuple):
        paper.write(f"product({to_text(b)}) {'=' if result else '!='} {a}")
    return result


def explain_congruent(paper: Paper, a: IntTuple, b: IntTuple) -> bool:
    """The same form: tuples of one length, and numbers where the other has numbers.

    >>> explain_congruent(Paper(), (1, (2, 3)), (9, (9, 9)))
    True
    """
    paper.step("congruent: tuples meet tuples of the same length, and numbers meet numbers")
    return _explain_tree(paper, congruent, a, b)


def explain_weakly_congruent(paper: Paper, a: IntTuple, b: IntTuple) -> bool:
    """As congruent, but a number on the left meets anything.

    >>> explain_weakly_congruent(Paper(), (1, 2), 3)
    False
    """
    paper.step(
        "weakly congruent: tuples meet tuples of the same length, and a number on the left meets anything"
    )
    return _explain_tree(paper, weakly_congruent, a, b)


def explain_compatible(paper: Paper, a: IntTuple, b: IntTuple) -> bool:
    """As weakly congruent, with the sizes equal where a number on the left meets a tree.

    >>> explain_compatible(Paper(), 24, (4, 6))
    True
    """
    paper.step(
        "compatible: a number on the left meets a tree of its size, so that every coordinate of a is one of b"
    )
    return _explain_tree(paper, compatible, a, b)


def explain_quotient(
    paper: Paper, a: IntTuple, b: IntTuple, *, operation: Operation = shape_div
) -> IntTuple | None:
    """ceil_div and shape_div: numbers divide, tuples mode by mode, and a number takes modes from the left.

    >>> explain_quotient(Paper(), (2, (2, 3)), 4)
    (1, (1, 3))
    """
    result: IntTuple | None = attempt(operation, a, b)[0]
    name = operation.__name__
    if isinstance(a, tuple) and isinstance(b, tuple):
        paper.step("two tuples divide mode by mode; modes past the divisor stay")
        if len(a) < len(b):
            paper.write(f"{len(a)} < {len(b)}")
        for s, t in zip(a, b, strict=False):
            part, _ = attempt(operation, s, t)
            if part is None:
                explain_quotient(paper, s, t, operation=operation)
                return None
            paper.write(f"{name}({to_text(s)}, {to_text(t)}) = {to_text(part)}")
    elif isinstance(a, tuple) and not isinstance(b, tuple):
        paper.step("a number takes whole modes from the left, then a part of the next one")
        rest = b
        for s in a:
            part, _ = attempt(operation, s, rest)
            if part is None:
                explain_quotient(paper, s, rest, operation=operation)
                return None
            paper.write(f"{name}({to_text(s)}, {rest}) = {to_text(part)}")
            left = -(-rest // product(s))
            if left != rest:
                paper.write(f"ceil_div({rest}, {product(s)}) = {left}")
            rest = left
    else:
        _explain_number(paper, a, product(b), result)
    if isinstance(result, tuple):
        paper.step("so", f"{name}({to_text(a)}, {to_text(b)}) = {to_text(result)}")
    return result


def _explain_number(paper: Paper, a: Any, n: int, result: Any) -> None:
    if result is not None:
        paper.step("the quotient, rounded up", f"{a} <= {result} * {n}", f"({result} - 1) * {n} < {a}")
    elif a < 1 or n < 1:
        paper.step("extents are positive", *(f"{x} < 1" for x in (a, n) if x < 1))
    else:
        paper.step("neither number divides the other", f"{a} % {n} = {a % n}", f"{n} % {a} = {n % a}")


def explain_flatten(paper: Paper, value: AnyLayout | IntTuple) -> Any:
    """Leaves from left to right, one level of nesting after the other.

    >>> explain_flatten(Paper(), ((2, 4), 8))
    (2, 4, 8)
    """
    result: Any = flatten_modes(value)
    if isinstance(value, (Layout, ComposedLayout)):
        inner = explain_inside(paper, "flatten", value)
        name = paper.name(inner, "A")
        paper.step("the leaves become modes; a flat index runs through them in the same order")
        flat = flatten_modes(inner)
        paper.write(f"flatten({name}) = {flat}", f"same_function({name}, {flat}) = True")
        explain_outside(paper, value, result)
        return result
    paper.step("a tuple inside a tuple is replaced by its elements, until none is left")
    tree: Any = value
    while isinstance(tree, tuple) and any(isinstance(v, tuple) for v in tree):
        spliced = tuple(leaf for v in tree for leaf in (v if isinstance(v, tuple) else (v,)))
        paper.write(f"flatten({to_text(tree)}) = flatten({to_text(spliced)})")
        tree = spliced
    paper.write(f"flatten({to_text(tree)}) = {to_text(result)}")
    return result


def explain_unflatten(paper: Paper, value: Any, profile: IntTuple) -> Any:
    """The elements in order, in the tree of the profile.

    >>> explain_unflatten(Paper(), (2, 3, 5), ((0, 0), 0))
    ((2, 3), 5)
    """
    result: Any = attempt(unflatten, value, profile)[0]
    count = len(flatten(profile))
    have = len(value) if isinstance(value, tuple) else rank(value)
    paper.step(f"the profile {to_text(profile)} has {count} leaves, each of which takes the next element")
    paper.write(f"{have} {'=' if have == count else '!='} {count}")
    if isinstance(result, tuple):
        paper.write(
            f"congruent({to_text(result)}, {to_text(profile)}) = True",
            f"flatten({to_text(result)}) = {to_text(value)}",
        )
    elif result is not None:
        inner, rebuilt = innermost(value), innermost(result)
        paper.write(f"same_function({inner}, {rebuilt}) = True")
        explain_outside(paper, value, result)
    return result


def explain_modes(paper: Paper, layout: Layout) -> tuple[Layout, ...]:
    """The top-level modes.

    >>> print(*explain_modes(Paper(), Layout(((2, 4), 8))))
    (2,4):(1,2) 8:8
    """
    name = paper.name(layout, "A")
    paper.step("each element of the shape is a mode, with its strides; an integer is its own only mode")
    paper.write(*(f"{name}[{i}] = {mode}" for i, mode in enumerate(modes(layout))))
    return modes(layout)


def explain_concat(paper: Paper, *layouts: Layout) -> Layout | None:
    """The layouts become modes.

    >>> print(explain_concat(Paper(), Layout(4), Layout((2, 2), (8, 4))))
    (4,(2,2)):(1,(8,4))
    """
    result, _ = attempt(concat, *layouts)
    names = [paper.name(layout, "A") for layout in layouts]
    paper.step("each layout becomes a mode, and its strides stay: the result adds up their offsets")
    if result is not None:
        r = paper.name(result, "R")
        paper.write(
            f"concat({', '.join(names)}) = {r}", *(f"{r}[{i}] = {name}" for i, name in enumerate(names))
        )
    return result


def explain_make_layout(paper: Paper, *parts: Any, stride: IntTuple | None = None) -> Layout | None:
    """A shape with its strides, packed from left to right when there are none; or layouts as modes.

    >>> print(explain_make_layout(Paper(), (4, 8)))
    (4,8):(1,4)
    """
    result, _ = attempt(make_layout, *parts, stride=stride)
    if parts and all(isinstance(part, Layout) for part in parts):
        if len(parts) > 1:
            explain_concat(paper, *parts)
        else:
            name = paper.name(parts[0], "A")
            paper.step("one layout is that layout", f"make_layout({name}) = {name}")
        return result
    if len(parts) == 2 or stride is not None:
        shape, strides = parts if len(parts) == 2 else (*parts, stride)
        fits = congruent(shape, strides)
        paper.step(
            "every extent has one stride", f"congruent({notation(shape)}, {notation(strides)}) = {fits}"
        )
        if result is not None:
            r = paper.name(result, "R")
            paper.write(f"make_layout({notation(shape)}, {notation(strides)}) = {r}")
    elif result is not None:
        r = paper.name(result, "R")
        paper.step(
            "without strides the leaves are packed: each stride is the product of the extents before it"
        )
        current = 1
        for s, d in leaves(result):
            if s > 1:
                paper.write(f"{r}({current}) = {d}", f"{current} * {s} = {current * s}")
            current *= s
        paper.write(f"make_layout({to_text(result.shape)}) = {r}")
    return result


def explain_identity(paper: Paper, shape: IntTuple, *, operation: Operation = make_identity_layout) -> Any:
    """make_identity_layout and make_basis_like: one step along each leaf's own path.

    >>> print(explain_identity(Paper(), (4, 8)))
    (4,8):(1@0,1@1)
    """
    result: Any = attempt(operation, shape)[0]
    layout, _ = attempt(make_identity_layout, shape)
    if layout is not None:
        name = paper.name(layout, "A")
        paper.step(
            "each leaf has a stride of one step along its own path: 1@0 is mode 0, 1@1@0 mode 1 of mode 0"
        )
        paper.step(
            "so a coordinate is sent to itself",
            f"{name}(i) = idx2crd(i, {to_text(layout.shape)}) for every i < {product(layout.shape)}",
        )
    return result


def explain_modes_moved(
    paper: Paper, layout: AnyLayout, *arguments: Any, operation: Operation, law: str, **params: Any
) -> AnyLayout | None:
    """append, prepend, replace, group, select and sort: where each mode of the result comes from.

    >>> print(explain_modes_moved(Paper(), Layout((2, 3, 5)), 2, 0, operation=select, law="by number"))
    (5,2):(6,1)
    """
    result: AnyLayout | None = attempt(operation, layout, *arguments, **params)[0]
    inner = explain_inside(paper, operation.__name__, layout)
    name = paper.name(inner, "A")
    paper.step(law)
    paper.write(*(f"{name}[{i}] = {mode}" for i, mode in enumerate(modes(inner))))
    if result is None:
        paper.write(f"rank({name}) = {rank(inner)}")
        return None
    moved = innermost(result)
    r = paper.name(moved, "R")
    paper.step(
        "so the modes of the result are",
        f"rank({r}) = {rank(moved)}",
        *(f"{r}[{i}] = {mode}" for i, mode in enumerate(modes(moved))),
    )
    if operation in (group,):
        paper.write(f"same_function({name}, {r}) = True")
    elif operation is sort:
        paper.write(f"size({name}) = size({r})", f"cosize({name}) = cosize({r})")
    explain_outside(paper, layout, result)
    return result


MOVES: tuple[tuple[Operation, str], ...] = (
    (append, "the new mode goes behind the modes that are there, as often as it takes to fill the rank"),
    (prepend, "the new mode goes before the modes that are there, as often as it takes to fill the rank"),
    (replace, "one mode, counted from 0, or from the end when negative, makes room for the new one"),
    (group, "a range of neighbouring modes is bound into one; a flat index runs through them as before"),
    (select, "the modes are taken by their numbers, in the order asked for"),
    (sort, "all leaves become modes, the least stride first, equal strides by extent"),
)
"""Operations that only move modes, and the law of each."""
