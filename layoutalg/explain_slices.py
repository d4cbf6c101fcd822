"""Derivations of slices: slice_, slice_and_offset, dice, domain_offset, local_tile, local_partition.

>>> paper = Paper()
>>> print(*explain_slice(paper, (2, None), Layout((4, 8))))
(8):(4) 2
>>> print(*(statement for step in paper.steps for statement in step.statements), sep="\\n")
A = (4,8):(1,4)
A((2,0)) = 2
K = (8):(4)
slice_((2,_), A) = K
size(K) * size(dice((2,_), A)) = 32
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutalg.derivation import Paper, attempt, notation
from layoutalg.divide import zipped_divide
from layoutalg.explain_measure import explain_inside, explain_outside
from layoutalg.explain_tiles import explain_divide
from layoutalg.int_tuple import IntTuple, idx2crd, product
from layoutalg.layout import Layout
from layoutalg.measure import rank, size
from layoutalg.partition import dice, domain_offset, local_partition, local_tile, slice_
from layoutalg.slicing import slice_and_offset
from layoutalg.solving import find_coordinate
from layoutalg.swizzle import AnyLayout, ComposedLayout

Operation = Callable[..., Any]


def explain_slice(
    paper: Paper, crd: Any, layout: AnyLayout, *, operation: Operation = slice_and_offset
) -> Any:
    """slice_, slice_and_offset, dice, domain_offset: what a coordinate with None keeps, and what it fixes.

    >>> print(*explain_slice(Paper(), (2, None), Layout((4, 8))))
    (8):(4) 2
    """
    result, _ = attempt(operation, crd, layout)
    inner = explain_inside(paper, operation.__name__, layout)
    name, shown = paper.name(inner, "A"), "_" if crd is None else notation(crd)
    paper.step(f"in {shown} a number fixes its mode of {name} and _ keeps it")
    part, _ = attempt(slice_and_offset, crd, inner)
    if part is None:
        paper.write(f"rank({name}) = {rank(inner)}")
        return result
    rest, offset = part
    zeros = notation(_zeros(crd))
    if operation is not dice:
        paper.step(
            "with 0 for what is kept, the rest of the coordinate is an offset", f"{name}({zeros}) = {offset}"
        )
    if operation is domain_offset:
        paper.step(f"the layout stays; counting from {shown} adds that offset to it")
        _explain_outside(paper, crd, layout, result, operation, offset)
        return result
    if operation is dice:
        fixed = dice(crd, inner)
        paper.step("what is fixed", f"dice({shown}, {name}) = {fixed}")
        return result
    r = paper.name(rest, "K")
    paper.step(
        "what is kept; modes kept in a nested coordinate move up into the tuple around it",
        f"slice_({shown}, {name}) = {r}",
        f"size({r}) * size(dice({shown}, {name})) = {size(inner)}",
    )
    _explain_outside(paper, crd, layout, result, operation, offset)
    return result


def _explain_outside(
    paper: Paper, crd: Any, layout: AnyLayout, result: Any, operation: Operation, offset: int
) -> None:
    """Where the offset goes, and what is left to add for the operations that return it."""
    if isinstance(layout, ComposedLayout):
        explain_outside(paper, layout, result if operation is slice_ else result[0], moved=offset)
        if operation is not slice_:
            call = f"{operation.__name__}({notation(crd)}, {paper.name(layout, 'X')})"
            paper.step("nothing is left to add outside", f"{call} = {notation(result)}")


def _zeros(crd: Any) -> Any:
    if isinstance(crd, tuple):
        return tuple(map(_zeros, crd))
    return 0 if crd is None else crd


def explain_local_tile(paper: Paper, layout: AnyLayout, tiler: Any, crd: Any, proj: Any = None) -> Any:
    """A zipped divide, of which the rests are fixed.

    >>> print(*explain_local_tile(Paper(), Layout((8, 32), (32, 1)), (4, 8), (1, 2)))
    (4,8):(32,1) 144
    """
    result, _ = attempt(local_tile, layout, tiler, crd, proj)
    if proj is not None:
        paper.step(f"the projection {notation(proj)} leaves out modes of the tiler and of the coordinate")
        if result is None or not isinstance(tiler, tuple) or not isinstance(crd, tuple):
            return result
        tiler, crd = (
            tuple(v for v, p in zip(part, proj, strict=True) if p is not None) for part in (tiler, crd)
        )
    tiles, _ = attempt(zipped_divide, layout, tiler)
    if tiles is None:
        explain_divide(paper, layout, tiler, operation=zipped_divide)
    else:
        _explain_part(paper, layout, tiles, notation(tiler), crd, 1)
    return result


def explain_local_partition(paper: Paper, layout: AnyLayout, threads: Layout, index: int) -> Any:
    """A zipped divide by the shape of the threads, of which the place inside the tiles is fixed.

    >>> print(*explain_local_partition(Paper(), Layout((8, 32), (32, 1)), Layout((2, 4), (4, 1)), 5))
    (4,8):(64,4) 33
    """
    result, _ = attempt(local_partition, layout, threads, index)
    t = paper.name(threads, "T")
    sizes = tuple(map(product, threads.shape)) if isinstance(threads.shape, tuple) else threads.shape
    place, _ = attempt(find_coordinate, threads, index)
    if result is None or place is None:
        paper.step(f"one coordinate of {t} has to be thread {index}", f"size({t}) = {size(threads)}")
        return result
    paper.step(
        "the tiles have the sizes of the modes of the threads", f"size({t}) = product({notation(sizes)})"
    )
    paper.step(f"thread {index} is the value of a coordinate of {t}", f"{t}({place}) = {index}")
    _explain_part(paper, layout, zipped_divide(layout, sizes), notation(sizes), idx2crd(place, sizes), 0)
    return result


def _explain_part(
    paper: Paper, layout: AnyLayout, tiles: AnyLayout, tiler: str, crd: Any, fixed: int
) -> None:
    """The slice of a zipped divide at a coordinate of mode `fixed`: 1 is the tiles, 0 the places in them."""
    name, z = paper.name(layout, "A"), paper.name(tiles, "Z")
    paper.step(
        "a zipped divide has the tile in mode 0 and the tiles in mode 1",
        f"zipped_divide({name}, {tiler}) = {z}",
    )
    shape = tiles.shape if isinstance(tiles.shape, tuple) else (tiles.shape,)
    kept = shape[1 - fixed]
    place = _filled(crd, shape[fixed]) if isinstance(crd, tuple) else crd
    rest = _filled((), kept) if isinstance(kept, tuple) else None
    paper.step("one mode is fixed, the other is kept mode by mode")
    explain_slice(paper, (rest, place) if fixed else (place, rest), tiles)


def _filled(crd: tuple[Any, ...], shape: IntTuple) -> Any:
    """The coordinate with None for every mode of a tuple that it does not reach."""
    return (*crd, *(None,) * (len(shape) - len(crd))) if isinstance(shape, tuple) else crd
