"""The accesses of CuTe's algorithms: copy, copy_if, gemm, axpby, clear, fill.

The idea.  A copy by an instruction moves its values once per coordinate of the other modes; a copy without
one is as wide as the elements lie together in both tensors and are known to be aligned.  What is in
registers is not an access.  Coordinates that the target gives the same element are moved once.

Source.  CUTLASS 4, include/cute/algorithm/copy.hpp, gemm.hpp, axpby.hpp, atom/copy_atom.hpp; since versions
differ in what a copy without an instruction assumes of layouts that are not static, those of 4 are taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

from layoutalg import algebra
from layoutalg.atoms import CopyAtom
from layoutalg.compose import composition
from layoutalg.errors import UnsupportedError
from layoutalg.layout import Layout, coalesce, concat, flatten_tree, layout_size, leaves, modes, rank
from layoutalg.source.cute import functions
from layoutalg.source.cute.spelling import FAULTS, words_of
from layoutalg.source.cute.values import FROZEN, Index, Tensor, Tiled, frozen, is_static
from layoutalg.source.front import Node
from layoutalg.source.places import Places
from layoutalg.source.terms import ONE, ZERO, Sum, truth
from layoutalg.source.values import Address, Condition, Number, Real, Unknown, unknown

SIDES: tuple[Literal["src"], Literal["dst"]] = ("src", "dst")

MOST_MOVED = 4096
"""Accesses of one thread in one copy that are listed."""


class Copies(Places):
    """Algorithms that move the elements of tensors."""

    def moved_by(self, node: Node, name: str, given: list[Any], nodes: list[Node]) -> None:
        """Read what an algorithm moves."""
        self.fence()
        made = len(self.touches)
        lost = next((part for part, of in zip(given, nodes, strict=True) if isinstance(part, Unknown)
                     and of.type is not None and of.type.kind == "record"), None)  # fmt: skip
        try:
            if lost is not None:
                raise UnsupportedError(lost.why)
            getattr(self, f"cute_{name}")(node, *given)
        except FAULTS as error:
            del self.touches[made:]
            found = Unknown(words_of(error)) if lost is None else lost
            self.touch(node, f"call cute::{name}", found, 0)
        for part in given[-1:] if name == "copy_if" else given:
            if isinstance(part, Tensor) and isinstance(part.pointer, Address) and not part.in_memory:
                self.lose((part.pointer.array.key,), Unknown(f"cute::{name} may set it"))
        self.fence()

    # --- copies -----------------------------------------------------------------------------------------

    def cute_copy(self, node: Node, *given: Any) -> None:
        *by, source, target = given
        if (how := _atom_of(*by)) is None:
            assumed = 128 if source.is_static and target.is_static else 8
            if _size(source) == _size(target):
                source, target = filtered(source, target)
            self._vectorized(node, source, target, assumed)
        elif how.assumed:
            self._vectorized(node, source, target, how.assumed)
        else:
            self._by_atom(node, how.copy, source, target)

    def cute_copy_aligned(self, node: Node, source: Tensor, target: Tensor) -> None:
        self._vectorized(node, *filtered(source, target), 128)

    def _vectorized(self, node: Node, source: Tensor, target: Tensor, assumed: int) -> None:
        """A copy as wide as elements lie together in both tensors and are aligned."""
        together = common_elements(source, target)
        if together > 1:
            aligned = math.gcd(alignment(source), alignment(target), assumed)
            width = math.gcd(together * target.bits, aligned)
            if width % 8 == 0 and width > target.bits:
                count = width // target.bits
                for verb, tensor in (("ld", source), ("st", target)):
                    for at in starts(tensor, count):
                        self._piece(node, verb, tensor, at, count)
                return
        for at in range(_size(target)):
            self._piece(node, "ld", source, at)
            self._piece(node, "st", target, at)

    def _piece(self, node: Node, verb: str, tensor: Tensor, at: Any, count: int = 1, op: str = "") -> None:
        """The access of some elements of a tensor that lie together, where that is in memory."""
        if tensor.pointer is None or not tensor.in_memory:
            return
        address, bits = tensor.address(at), tensor.bits * count
        array = address.array
        space = array.space if array is not None else "global"
        name = array.name if array is not None else ""
        self.touch(node, op or f"{verb}.{space}.b{bits}", address, bits // 8, name, array)

    def _by_atom(
        self, node: Node, atom: CopyAtom, source: Tensor, target: Tensor, predicate: Tensor | None = None
    ) -> None:
        """A copy by an instruction: once for each coordinate of the modes behind the first."""
        ranks = rank(source.layout), rank(target.layout)
        if ranks[0] != ranks[1]:
            raise UnsupportedError(f"a copy of {ranks[0]} modes into {ranks[1]}")
        for point in _distinct(target) if ranks[0] > 1 else [None]:
            holds = ONE if predicate is None else self._holds(predicate.sliced(point), 0)
            with self.under(holds):
                self._by_instruction(node, atom, source.sliced(point), target.sliced(point))

    def _by_instruction(self, node: Node, atom: CopyAtom, source: Tensor, target: Tensor) -> None:
        counts = [layout_size(modes(atom.value_layout(side))[1]) for side in SIDES]
        sizes = [_size(source), _size(target)]
        if counts[0] != sizes[0] and counts[1] != sizes[1]:
            inner = [t.layout.shape for t in (source, target)]
            if not all(isinstance(s, tuple) and len(s) == 1 and isinstance(s[0], tuple) for s in inner):
                raise UnsupportedError(f"{atom} moves {counts[0]} values, and a part has {sizes[0]}")
            self._by_atom(node, atom, *(t.of(lambda layout: layout[0]) for t in (source, target)))
            return
        for tensor, op, verb in ((source, atom.src_op, "ld"), (target, atom.dst_op, "st")):
            if tensor.in_memory and any(d != 1 for s, d in leaves(coalesce(tensor.layout)) if s != 1):
                raise UnsupportedError(f"{atom} moves elements that do not lie together, {tensor.layout}")
            self._piece(node, verb, tensor, 0, _size(tensor), op)

    def cute_copy_if(self, node: Node, *given: Any) -> None:
        *by, predicate, source, target = given
        if (how := _atom_of(*by)) is None:
            for at in range(_size(target)):
                with self.under(self._holds(predicate, at)):
                    self._piece(node, "ld", source, at)
                    self._piece(node, "st", target, at)
            return
        if how.assumed or "ZFILL" in how.copy.name:
            raise UnsupportedError("a copy_if by this atom is not read")
        if isinstance(predicate, Tensor) and rank(predicate.layout) == rank(source.layout):
            self._by_atom(node, how.copy, source, target, predicate)
            return
        with self.under(self._holds(predicate, 0)):
            self._by_atom(node, how.copy, source, target)

    def _holds(self, predicate: Any, at: int) -> Condition:
        """A predicate at a coordinate as a condition."""
        if isinstance(predicate, Tensor) and not predicate.in_memory:
            place = predicate.address(at)
            if isinstance(place, Address):
                kind = place.array.type.to if place.array.type is not None else None
                value = self.load_register(place, kind)
                return truth(value.exact) if isinstance(value, Number) else unknown(value)
        return Unknown("the predicate of copy_if is not followed")

    # --- the others -------------------------------------------------------------------------------------

    def cute_clear(self, node: Node, tensor: Tensor) -> None:
        for at in range(_size(tensor)):
            self._piece(node, "st", tensor, at)

    def cute_fill(self, node: Node, tensor: Tensor, _: Any) -> None:
        self.cute_clear(node, tensor)

    def cute_axpby(self, node: Node, _: Any, x: Tensor, beta: Any, y: Tensor) -> None:
        """y = alpha x + beta y, element by element; where beta is 0, y is not read."""
        for at in range(_size(x)):
            self._piece(node, "ld", x, at)
            with self.under(_condition(beta)):
                self._piece(node, "ld", y, at)
            self._piece(node, "st", y, at)

    def cute_gemm(self, node: Node, *given: Any) -> None:
        """A product of tensors: in shared memory A and B are copied for each k, in registers nothing is."""
        tensors = [part for part in given if isinstance(part, Tensor)]
        a, b = tensors[-3:-1]
        atoms = [_atom_of(part) for part in given if not isinstance(part, Tensor)]
        if any(atom.instruction.name.startswith("SM90_64x") for atom in atoms):
            raise UnsupportedError("how its tiles are read is the tensor core's")
        if any(t.in_memory for t in tensors if t is not a and t is not b):
            raise UnsupportedError("a product with sums in memory")
        if not a.in_memory and not b.in_memory:
            return
        spaces = {t.pointer.array.space for t in (a, b) if isinstance(t.pointer, Address)}
        if spaces != {"shared"} or any(atom.instruction.name.startswith("SM") for atom in atoms):
            raise UnsupportedError("what a product reads of memory that is not shared, or by a descriptor")
        for k in range(_size(a.of(lambda layout: modes(layout)[-1]))):
            for operand in (a, b):
                if len(modes(operand.layout)) == 2:
                    operand = operand.of(lambda layout: concat(Layout(1, 0), *modes(layout)))
                held = Tensor(None, functions.fragment_like(operand), operand.bits, operand.kind)
                self.cute_copy(node, operand.sliced((None, None, k)), held.sliced((None, None, k)))


def _atom_of(by: Any = None) -> Any:
    """The atom of a tiling, or an atom."""
    return by.atom if isinstance(by, Tiled) else by


def _size(tensor: Tensor) -> int:
    """The number of elements.  Raises UnsupportedError where it is not static."""
    count: Any = layout_size(tensor.layout)
    if not is_static(count) or count > MOST_MOVED:
        raise UnsupportedError(f"a copy of {count} elements, by the shape of {tensor.layout}")
    return int(count)


def _condition(number: Any) -> Condition:
    """A number as a condition."""
    if isinstance(number, Real) and number.value is not None:
        return ONE if number.value else ZERO
    total = Index.of(number).value if isinstance(number, (int, Index)) else unknown(number)
    return truth(total) if isinstance(total, Sum) else total


def _points(layout: Layout, step: Callable[[Any, Any], int]) -> list[int]:
    """The flat coordinates of a layout, in steps that its extents and strides tell."""
    points, weight = [0], 1
    for s, d in leaves(layout):
        if not is_static(s) or weight * s > MOST_MOVED:
            raise UnsupportedError(f"a copy of more than {MOST_MOVED} elements, or a dynamic shape: {layout}")
        points = [point + weight * at for at in range(0, s, step(s, d)) for point in points]
        weight *= s
    return points


def starts(tensor: Tensor, count: int) -> list[int]:
    """The flat coordinates at which vectors of some elements start."""

    def step(_: Any, d: Any) -> int:
        if is_static(d) and d and count % d and d % count:
            raise UnsupportedError(f"vectors of {count} elements of {tensor.layout}")
        return count // d if is_static(d) and 0 < d < count else 1

    return _points(tensor.layout, step)


def common_elements(a: Tensor, b: Tensor) -> int:
    """max_common_vector: the elements that lie together from the first on, 0 where a copy converts."""
    if a.kind != b.kind or (a.pointer is None and not a.bits):
        return 0
    a, b = a.normal(), b.normal()
    if b.swizzles and not a.swizzles:
        a, b = b, a
    joined = coalesce(composition(frozen(a.layout), algebra.right_inverse(frozen(b.layout))))
    extent, stride = (leaves(joined) or ((1, 0),))[0]
    count: int = extent if stride == 1 and extent < FROZEN else 1
    bases = [] if tuple(a.swizzles) == tuple(b.swizzles) else [*a.swizzles, *b.swizzles]
    return min(count, *(1 << each.base for each in bases)) if bases else count


def alignment(tensor: Tensor) -> int:
    """max_alignment: bits at whose multiples every vector starts, as far as the static layout says."""
    tensor = tensor.normal()
    flat = coalesce(frozen(tensor.layout))
    pairs = [(s if s < FROZEN else 1, d if d < FROZEN else 0) for s, d in leaves(flat)] or [(1, 0)]
    static = Layout(tuple(s for s, _ in pairs), tuple(d for _, d in pairs))
    divided = algebra.logical_divide(static, algebra.right_inverse(static))
    first, second = modes(divided)
    unit = math.gcd(layout_size(first), *flatten_tree(second.stride))
    if tensor.swizzles:
        start = (
            tensor.loose & -tensor.loose if tensor.loose else 0 if isinstance(tensor.at, Index) else tensor.at
        )
        unit = math.gcd(unit, start, *(1 << each.base for each in tensor.swizzles))
    return unit * tensor.bits


def filtered(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """AutoFilter: the coordinates that the target gives elements of their own."""
    if target.swizzles or all(d != 0 or s == 1 for s, d in leaves(target.layout)):
        return source, target
    null = algebra.nullspace(frozen(target.layout))
    source, target = (t.of(lambda layout: algebra.zipped_divide(layout, null)) for t in (source, target))
    return source.sliced((0, None)), target.sliced((0, None))


def _distinct(target: Tensor) -> Iterator[tuple[Any, ...]]:
    """The coordinates of the modes behind the first, which is kept, those that the target repeats once."""
    one = not target.swizzles
    ranges = [_points(mode, lambda s, d: s if one and d == 0 else 1) for mode in modes(target.layout)[1:]]
    return ((None, *reversed(point)) for point in itertools.product(*reversed(ranges)))
