"""What belongs together along rows, by definition: every element of a problem, or of a form of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from layoutalg.kernels.rowwise import AxesProblem
from layoutalg.kernels.rowwise.tensors import Form

STREAMS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((131, 24), (0,)), ((203, 13), (0,)), ((203, 5, 3), (0, 2)), ((99, 8, 6), (0, 2)), ((3, 99, 8), (1,)),
    ((13, 6, 3, 5, 2), (0, 2, 4)), ((2, 61, 7, 4), (1, 3)), ((40, 3, 2, 9), (0, 3)), ((64, 32), (0,)),
)  # fmt: skip
"""Shapes and axes of tensors that are read as streams."""


class Element(NamedTuple):
    """Which statistic an element belongs to, where it is read and written, and where its weight is."""

    group: tuple[int, ...]
    source: int
    target: int
    weight: int = 0


def of_problem(p: AxesProblem) -> Iterator[Element]:
    """The elements of a tensor, weights dense along the reduced axes."""
    dense = {k: prod(p.shape[j] for j in p.axes if j > k) for k in p.axes}
    for crd in product(*map(range, p.shape)):
        source, target = (
            start + sum(i * d for i, d in zip(crd, strides, strict=True))
            for start, strides in ((p.src_offset, p.src), (p.dst_offset, p.dst))
        )
        group = tuple(i for k, i in enumerate(crd) if k not in p.axes)
        yield Element(group, source, target, sum(crd[k] * step for k, step in dense.items()))


def of_form(x: Form) -> Iterator[Element]:
    """The same by a form, of which a side may run backwards."""
    for crd in product(*(range(m.extent) for m in x.modes)):
        both = list(zip(crd, x.modes, strict=True))
        target, weight = (
            sum((i if step >= 0 else n - 1 - i) * abs(step) for i, n, step in some)
            for some in (
                [(i, m.extent, m.dst) for i, m in both],
                [(i, m.extent, m.weight) for i, m in both],
            )
        )
        group = tuple(i for i, m in both if not m.reduced)
        source = x.src_offset + sum(i * m.src for i, m in both)
        yield Element(group, source, x.dst_offset + target, weight)


def groups(elements: Iterable[Element]) -> set[tuple[tuple[int, int], ...]]:
    """Sources with their targets, by statistic, whatever statistics are called."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for e in elements:
        found.setdefault(e.group, []).append((e.source, e.target))
    return {tuple(sorted(some)) for some in found.values()}
