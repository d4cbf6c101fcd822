"""LinearLayouts put together and taken apart: product, quotients, sublayouts, pseudoinverse.

The idea.  The product a * b stacks two layouts: in every dimension, a has the low bits and b the high ones,
so that its matrix is made of two blocks.  What a hardware instruction fixes (its registers and lanes) is
such a factor, and dividing by it asks whether an access is made of whole instructions:

    lane=1 -> 1, lane=2 -> 2          times          lane=1 -> 1          is          lane=1 -> 1
    outs: offset (2 bits)                            outs: offset (1 bit)             lane=2 -> 2
                                                                                      lane=4 -> 4

A dimension on which a layout is the identity and with which nothing else mixes can be divided away
(`quotient`).  In bits that the columns before them span already are free: changing them changes nothing
that another bit could not (`free_variable_masks`).

Comparison with Triton.  operator*, divideLeft, divideRight, quotient, isTrivialOver, sublayout, concatIns,
concatOuts, transposeIns, transposeOuts, getFreeVariableMasks, pseudoinvert; what returns nothing there
raises here, and `pseudoinvert` accepts layouts that do not reach everything.

Source: Triton, include/triton/Tools/LinearLayout.h and lib/Tools/LinearLayout.cpp; Linear Layouts (arXiv
2505.23819).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.f2 import complement, solve
from layoutalg.linear import Bases, LinearLayout, from_columns


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*first, *second)))


def product(a: LinearLayout, b: LinearLayout) -> LinearLayout:
    """a * b: in each dimension, `a` on the low bits and `b` on the high ones; dimensions of both are kept.

    Source: Triton, LinearLayout operator*.

    >>> lanes = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    >>> print(product(lanes, LinearLayout({"register": [1]}, {"offset": 2})))
    lane=1     -> 1
    lane=2     -> 2
    register=1 -> 4
    outs: offset (3 bits)
    """
    a_outs, b_outs = dict(a.outs), dict(b.outs)
    outs = {n: a_outs.get(n, 1) * b_outs.get(n, 1) for n in _union(a_outs, b_outs)}
    a_ins, b_ins = dict(a.ins), dict(b.ins)
    ins: dict[str, Bases] = {}
    for name in _union(a_ins, b_ins):
        low = (_spread(basis, a.outs, outs) for basis in a_ins.get(name, ()))
        high = (_spread(basis, b.outs, outs, a_outs) for basis in b_ins.get(name, ()))
        ins[name] = (*low, *high)
    return LinearLayout(ins, outs)


def _spread(
    basis: tuple[int, ...],
    outs: tuple[tuple[str, int], ...],
    into: dict[str, int],
    scale: dict[str, int] | None = None,
) -> tuple[int, ...]:
    """A basis over `outs`, written over the dimensions of `into`, each multiplied by its `scale`."""
    known = {name: x for x, (name, _) in zip(basis, outs, strict=True)}
    return tuple(known.get(name, 0) * (scale or {}).get(name, 1) for name in into)


def divide_left(a: LinearLayout, b: LinearLayout) -> LinearLayout:
    """The layout c with a = product(b, c): `b` is what `a` does on the low bits.

    c keeps all dimensions of `a`, some of them perhaps with no bits left.  Raises DivisibilityError when
    there is none; `witness` is the first in bit of `a` that differs.

    Source: Triton, divideLeft.

    >>> tile = LinearLayout({"register": [1, 8], "lane": [2, 4]}, {"offset": 16})
    >>> vector = LinearLayout({"register": [1]}, {"offset": 2})
    >>> print(divide_left(tile, vector))
    register=1 -> 4
    lane=1     -> 1
    lane=2     -> 2
    outs: offset (3 bits)
    """
    return _divide(a, b, left=True)


def divide_right(a: LinearLayout, b: LinearLayout) -> LinearLayout:
    """The layout c with a = product(c, b): `b` is what `a` does on the high bits.

    Raises as `divide_left`.

    Source: Triton, divideRight.

    >>> tile = LinearLayout({"lane": [2, 1, 4]}, {"offset": 8})
    >>> print(divide_right(tile, LinearLayout({"lane": [1]}, {"offset": 2})))
    lane=1 -> 2
    lane=2 -> 1
    outs: offset (2 bits)
    """
    return _divide(a, b, left=False)


def _divide(a: LinearLayout, b: LinearLayout, *, left: bool) -> LinearLayout:
    have_in, have_out, b_in, b_out = a.in_bits, a.out_bits, b.in_bits, b.out_bits
    for kind, have, need in (("in", have_in, b_in), ("out", have_out, b_out)):
        for name, bits in need.items():
            if bits > have.get(name, -1):
                raise DivisibilityError(
                    f"the {kind} dimension {name!r} of the divisor has {bits} bits, and the dividend "
                    f"{'none of that name' if name not in have else f'has {have[name]}'}",
                    lhs=a,
                    rhs=b,
                )
    outs = {name: 1 << bits - b_out.get(name, 0) for name, bits in have_out.items()}
    sizes = {name: 1 << bits for name, bits in b_out.items()}
    shift = {name: sizes.get(name, 1) if left else 1 for name in outs}
    ins: dict[str, Bases] = {}
    for name, bases in a.ins:
        count = b_in.get(name, 0)
        rest = bases[count:] if left else bases[: len(bases) - count]
        ins[name] = tuple(
            tuple(x // shift[n] % size for x, (n, size) in zip(basis, outs.items(), strict=True))
            for basis in rest
        )
    quotient_ = LinearLayout(ins, outs)
    again = product(b, quotient_) if left else product(quotient_, b)
    found, wanted = _by_name(again, a), a.columns
    if found != wanted:
        witness = next(i for i, (x, y) in enumerate(zip(found, wanted, strict=True)) if x != y)
        raise DivisibilityError(
            f"the divisor is not what the dividend does on its {'low' if left else 'high'} bits: "
            f"in bit {witness} differs",
            lhs=a,
            rhs=b,
            witness=1 << witness,
        )
    return quotient_


def _by_name(layout: LinearLayout, like: LinearLayout) -> tuple[int, ...]:
    """The matrix of `layout` with the dimensions in the order that `like` has them in."""
    return transpose_outs(transpose_ins(layout, [n for n, _ in like.ins]), [n for n, _ in like.outs]).columns


def _reordered(kind: str, names: Sequence[str], order: Sequence[str]) -> None:
    if sorted(names) != sorted(order):
        raise ShapeError(f"{list(order)} is no order of the {kind} dimensions {list(names)}")


def transpose_ins(layout: LinearLayout, order: Sequence[str]) -> LinearLayout:
    """The same map with its in dimensions in another order.  Raises ShapeError for another set of names.

    >>> transpose_ins(LinearLayout({"lane": [1], "warp": [2]}, {"offset": 4}), ["warp", "lane"]).columns
    (2, 1)
    """
    ins = dict(layout.ins)
    _reordered("in", list(ins), order)
    return LinearLayout({name: ins[name] for name in order}, layout.outs)


def transpose_outs(layout: LinearLayout, order: Sequence[str]) -> LinearLayout:
    """The same map with its out dimensions in another order.  Raises ShapeError for another set of names.

    >>> tile = LinearLayout({"lane": [(1, 0), (0, 1)]}, {"row": 2, "col": 2})
    >>> transpose_outs(tile, ["col", "row"]).columns
    (2, 1)
    """
    names = [name for name, _ in layout.outs]
    _reordered("out", names, order)
    places = [names.index(name) for name in order]
    return LinearLayout(
        {name: [[basis[i] for i in places] for basis in bases] for name, bases in layout.ins},
        [layout.outs[i] for i in places],
    )


def sublayout(layout: LinearLayout, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
    """The block of the matrix for some in and out dimensions, in the order of `layout`.

    Raises ShapeError when a name is not one of the layout's.

    >>> tile = LinearLayout({"lane": [(1, 1)], "warp": [(0, 2)]}, {"row": 2, "col": 4})
    >>> print(sublayout(tile, ["lane"], ["col"]))
    lane=1 -> 1
    outs: col (2 bits)
    """
    for kind, names, known in (("in", ins, layout.in_bits), ("out", outs, layout.out_bits)):
        for name in names:
            if name not in known:
                raise ShapeError(f"there is no {kind} dimension {name!r}; there are {', '.join(known)}")
    places = [i for i, (name, _) in enumerate(layout.outs) if name in outs]
    return LinearLayout(
        {n: [[basis[i] for i in places] for basis in bases] for n, bases in layout.ins if n in ins},
        [layout.outs[i] for i in places],
    )


def is_trivial_over(layout: LinearLayout, names: Sequence[str]) -> bool:
    """True when the layout is the identity on these dimensions, and no other dimension mixes with them.

    The dimensions must be both in and out dimensions.  Raises ShapeError when one is not.

    Source: Triton, isTrivialOver.

    >>> move = LinearLayout({"lane": [(2, 0), (1, 0)], "warp": [(0, 1)]}, {"lane": 4, "warp": 2})
    >>> is_trivial_over(move, ["warp"]), is_trivial_over(move, ["lane"])
    (True, False)
    """
    square = sublayout(layout, names, names)
    ins, outs = [n for n, _ in layout.ins], [n for n, _ in layout.outs]
    others_in, others_out = [n for n in ins if n not in names], [n for n in outs if n not in names]
    same = transpose_outs(square, [n for n, _ in square.ins])
    return (
        same.in_bits == same.out_bits
        and same.columns == tuple(1 << i for i in range(len(same.columns)))
        and not any(sublayout(layout, names, others_out).columns)
        and not any(sublayout(layout, others_in, names).columns)
    )


def quotient(layout: LinearLayout, names: Sequence[str]) -> LinearLayout:
    """The layout without dimensions on which it is trivial.

    Raises DivisibilityError when it is not trivial over them, ShapeError when there is no such dimension.

    Source: Triton, quotient.

    >>> move = LinearLayout({"lane": [(2, 0), (1, 0)], "warp": [(0, 1)]}, {"lane": 4, "warp": 2})
    >>> quotient(move, ["warp"]) == LinearLayout({"lane": [2, 1]}, {"lane": 4})
    True
    """
    if not is_trivial_over(layout, names):
        raise DivisibilityError(
            f"the layout is not the identity on {', '.join(names)}, or other dimensions mix with it",
            lhs=layout,
        )
    return sublayout(
        layout, [n for n, _ in layout.ins if n not in names], [n for n, _ in layout.outs if n not in names]
    )


def concat_ins(a: LinearLayout, b: LinearLayout) -> LinearLayout:
    """The in dimensions of both, over the same out dimensions: a(x) ^ b(y).

    Raises ShapeError when a name repeats or the out dimensions differ.

    >>> a, b = LinearLayout({"lane": [1]}, {"offset": 4}), LinearLayout({"warp": [2]}, {"offset": 4})
    >>> concat_ins(a, b)(lane=1, warp=1)
    {'offset': 3}
    """
    if a.outs != b.outs:
        raise ShapeError(f"the out dimensions {dict(a.outs)} and {dict(b.outs)} differ")
    return LinearLayout((*a.ins, *b.ins), a.outs)


def concat_outs(a: LinearLayout, b: LinearLayout) -> LinearLayout:
    """The out dimensions of both, over the same in dimensions: (a(x), b(x)).

    Raises ShapeError when a name repeats or the in dimensions differ.

    >>> a, b = LinearLayout({"lane": [1]}, {"row": 2}), LinearLayout({"lane": [0]}, {"col": 1})
    >>> concat_outs(a, b)(lane=1)
    {'row': 1, 'col': 0}
    """
    if a.in_bits != b.in_bits or [n for n, _ in a.ins] != [n for n, _ in b.ins]:
        raise ShapeError(f"the in dimensions {a.in_bits} and {b.in_bits} (in bits) differ")
    ins = {
        n: [(*x, *y) for x, y in zip(left, right, strict=True)]
        for (n, left), (_, right) in zip(a.ins, b.ins, strict=True)
    }
    return LinearLayout(ins, (*a.outs, *b.outs))


def free_variable_masks(layout: LinearLayout) -> dict[str, int]:
    """For each in dimension, the bits whose column the bits before them span: broadcast, or redundant.

    Source: Triton, getFreeVariableMasks.

    >>> free_variable_masks(LinearLayout({"lane": [1, 2, 0], "warp": [3]}, {"offset": 4}))
    {'lane': 4, 'warp': 1}
    """
    masks: dict[str, int] = {}
    pivots: dict[int, int] = {}
    columns = iter(layout.columns)
    for name, bits in layout.in_bits.items():
        masks[name] = 0
        for j in range(bits):
            vector = next(columns)
            while vector and vector.bit_length() in pivots:
                vector ^= pivots[vector.bit_length()]
            if vector:
                pivots[vector.bit_length()] = vector
            else:
                masks[name] |= 1 << j
    return masks


def pseudoinvert(layout: LinearLayout) -> LinearLayout:
    """R with layout(R(y)) = y for every y that `layout` reaches; free in bits of R's result are 0.

    Out bits that complete what is reached are sent to 0, so that layout o R o layout = layout always.

    Source: Triton, pseudoinvert.

    >>> pseudoinvert(LinearLayout({"lane": [2, 2, 1]}, {"offset": 8}))(offset=3)
    {'lane': 5}
    """
    masks = free_variable_masks(layout)
    bound = [not masks[name] >> j & 1 for name, bits in layout.in_bits.items() for j in range(bits)]
    columns = layout.columns
    places = [i for i, keep in enumerate(bound) if keep]
    spanning = tuple(columns[i] for i in places)
    out_count = sum(layout.out_bits.values())
    whole = spanning + complement(spanning, out_count)
    found: list[int] = []
    for i in range(out_count):
        x = solve(whole, 1 << i) or 0
        found.append(sum(1 << place for k, place in enumerate(places) if x >> k & 1))
    ins = {name: 1 << bits for name, bits in layout.in_bits.items()}
    return from_columns(found, layout.out_bits, ins)
