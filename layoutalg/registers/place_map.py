"""The place of every value of one register layout in another: the map that a conversion has to carry out.

The idea.  A register layout says which element of a tensor each (register, lane, warp) holds.  To turn
`src` into `dst`, each place of `dst` asks: where in `src` is my element?

    C = dst.invert_and_compose(src)        (register', lane', warp') -> (register, lane, warp)

C is a LinearLayout between places, and its blocks say what the conversion needs:

    C keeps lane and warp        names of registers change, nothing moves
    C keeps the warp             values move between lanes: shuffles
    otherwise                    values move between warps: through shared memory

>>> rows = LinearLayout({"register": [1], "lane": [2, 4]}, {"n": 8})
>>> columns = LinearLayout({"register": [4], "lane": [1, 2]}, {"n": 8})
>>> place_map(rows, columns)(register=1, lane=0, warp=0)
{'register': 0, 'lane': 2, 'warp': 0}

Notes.  Where `src` holds an element several times, the place nearest to the asking one is taken: its own
warp, if it can be, and its own lane.  The inverse of C, src.invert_and_compose(dst), says where values go;
but `dst` may want one value in several places, so asking is the direction that always works.

Source: Linear Layouts, arXiv 2505.23819, section on layout conversion.
"""

from __future__ import annotations

from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.f2 import Echelon, LinearLayout, apply, kernel, unpack
from layoutalg.registers.fragments import PLACE, over_places


def place_map(src: LinearLayout, dst: LinearLayout) -> LinearLayout:
    """C with src(C(place)) = dst(place) for every place of `dst`.

    Both layouts map (register, lane, warp) to the same tensor.  Raises ShapeError when the tensors or the
    numbers of lanes or warps differ, UnsupportedError for other dimensions (values of another block),
    DivisibilityError, naming it, when `dst` wants an element that `src` does not hold.

    >>> one = LinearLayout({"register": [1, 2]}, {"n": 4})
    >>> two = LinearLayout({"register": [2, 1]}, {"n": 4})
    >>> place_map(one, two).columns
    (2, 1)
    """
    wanted, held = over_places(dst), over_places(src)
    if src.outs != dst.outs:
        raise ShapeError(f"the layouts hold different tensors: {dict(src.outs)} and {dict(dst.outs)}")
    for name in PLACE[1:]:
        mine, theirs = held.in_bits[name], wanted.in_bits[name]
        if mine != theirs:
            raise ShapeError(
                f"the source has {1 << mine} {name}s, the destination {1 << theirs}; a conversion keeps them"
            )
    try:
        places = wanted.invert_and_compose(held)
    except DivisibilityError:
        reached = Echelon(held.columns)
        bit, element = next((j, c) for j, c in enumerate(wanted.columns) if not reached.contains(c))
        raise DivisibilityError(
            f"the destination holds element {unpack(element, dst.outs)}, which no place of the source does",
            lhs=src,
            rhs=dst,
            witness=1 << bit,
        ) from None
    return places if held.is_injective() else _nearest(places, held)


def crosses(places: LinearLayout, name: str) -> bool:
    """True when some value has to come from another `name`: "lane" or "warp".

    >>> one = LinearLayout({"register": [1], "lane": [2]}, {"n": 4})
    >>> two = LinearLayout({"register": [2], "lane": [1]}, {"n": 4})
    >>> crosses(place_map(one, two), "lane"), crosses(place_map(one, two), "warp")
    (True, False)
    """
    others = [other for other in places.in_bits if other != name]
    own = LinearLayout.identity(places.in_bits[name], name)
    return places.sublayout([name], [name]) != own or not places.sublayout_is_zero(others, [name])


def threads(layout: LinearLayout) -> LinearLayout:
    """The identity of as many lanes and warps as `layout` has.

    >>> threads(LinearLayout({"lane": [1, 2], "warp": [4]}, {"n": 8}))
    LinearLayout({'lane': [(1, 0), (2, 0)], 'warp': [(0, 1)]}, {'lane': 4, 'warp': 2})
    """
    lanes, warps = (LinearLayout.identity(layout.in_bits[name], name) for name in PLACE[1:])
    return lanes * warps


def _nearest(places: LinearLayout, held: LinearLayout) -> LinearLayout:
    """The places, among those that hold the same elements, whose warp, lane and register are their own."""
    have = held.in_bits
    registers = [1 << j if j < have["register"] else 0 for j in range(places.in_bits["register"])]
    own = LinearLayout({"register": registers}, {"register": 1 << have["register"]}) * threads(held)
    # Vectors between places that hold the same: all, those in one warp, those in one lane of a warp.
    levels = []
    same = kernel(held.columns)
    for shift in (have["register"] + have["lane"], have["register"], 0):
        echelon = Echelon.of_columns([vector >> shift for vector in same])
        levels.append((shift, same, echelon))
        same = tuple(apply(same, combination) for combination in echelon.kernel())
    columns: list[int] = []
    for column, mine in zip(places.columns, own.columns, strict=True):
        for shift, same, echelon in levels:
            move = echelon.solve((column ^ mine) >> shift)
            if move is None:
                break
            column ^= apply(same, move)
        columns.append(column)
    return LinearLayout.from_columns(columns, places.in_bits, places.outs)
