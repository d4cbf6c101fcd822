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

Narrow elements.  Elements of 8 or 16 bits lie 4 or 2 to a register.  A select or a shuffle moves a whole
register, so a conversion is cheap where the elements of a register stay together from beginning to end.
Which ones do is read off C, the map of places: a direction u of the destination's registers qualifies when

    C u moves no lane and no warp                   both elements come from one lane
    C u is not made of what lanes and warps add     and their order does not depend on the lane

Such elements are put into one register by byte permutations first, unless they are there already, moved,
and put where they belong by byte permutations at the end.

>>> apart = LinearLayout({"register": [1, 2], "lane": [4, 8]}, {"n": 16})
>>> packing = pack(place_map(apart, LinearLayout({"register": [4, 2], "lane": [1, 8]}, {"n": 16})), 1)
>>> packing.before, packing.units.columns
((0, 2, 1, 3), (2, 1, 4))

Notes.  A PRMT takes any bytes of two registers, so a register with elements of s others takes s - 1 of them,
and one at least if their order changes.  PRMTs that depend on the lane, which would select and permute in
one, are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.f2 import Echelon, LinearLayout, apply, basis, complement, identity, kernel, unpack
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


REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class Packing:
    """Registers in orders in which 2^bits neighbours stay together: `before` of the source, `after` of the
    destination (the place of each of its registers in the packed order), and the map of the units."""

    bits: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    units: LinearLayout


def as_they_are(places: LinearLayout, most: int) -> Packing:
    """The packing of neighbours that stay together without being moved, at most 2^most of them.

    >>> places = LinearLayout.identity(2, "register")
    >>> as_they_are(places, 1).bits
    1
    """
    registers, from_registers = places.in_bits["register"], places.out_bits["register"]
    bits = min(registers, from_registers, most)
    while True:
        try:
            units = places.divide_left(LinearLayout.identity(bits, "register"))
        except DivisibilityError:
            bits -= 1
        else:
            return Packing(bits, tuple(range(1 << from_registers)), tuple(range(1 << registers)), units)


def pack(places: LinearLayout, most: int) -> Packing:
    """The packing of as many elements as stay together, at most 2^most; neighbours, where they do.

    >>> held, wanted = (LinearLayout({"register": bases}, {"n": 4}) for bases in ([1, 2], [2, 1]))
    >>> crossed = place_map(held, wanted)
    >>> pack(crossed, 1).bits, as_they_are(crossed, 1).bits
    (1, 0)
    """
    natural = as_they_are(places, most)
    registers, from_registers = places.in_bits["register"], places.out_bits["register"]
    register_part = places.columns_of("register")
    added = basis(places.sublayout(["lane", "warp"], ["register"]).columns)
    units = identity(natural.bits)
    still = kernel(places.sublayout(["register"], ["lane", "warp"]).columns)
    reached = {apply(register_part, u): u for u in still}
    more = complement(units + added, list(reached))[: most - natural.bits]
    if not more:
        return natural
    here = units + tuple(reached[target] for target in more)
    there = units + more
    sources = there + added + complement(there + added, from_registers)
    numbering = LinearLayout({"register": sources}, {"register": 1 << from_registers})
    from_packed = places.compose(numbering.invert() * threads(places))
    bits = len(here)
    low = (1 << bits) - 1
    # What is not in `here` must not end up among the low coordinates of the source.
    packed = from_packed.columns_of("register")
    rest = [1 << j ^ apply(here, column & low) for j, column in enumerate(packed)]
    wanted = LinearLayout({"register": here + complement(here, rest)}, {"register": 1 << registers})
    order = wanted.invert().columns
    return Packing(
        bits,
        tuple(apply(sources, i) for i in range(1 << from_registers)),
        tuple(apply(order, r) for r in range(1 << registers)),
        (wanted * threads(places)).compose(from_packed).divide_left(LinearLayout.identity(bits, "register")),
    )


def words(values: Sequence[int], unit_bits: int) -> list[tuple[int, ...]]:
    """Values of `unit_bits` bits in registers: as many to a register as fit.

    >>> words(range(5), 16), words(range(2), 64)
    ([(0, 1), (2, 3), (4,)], [(0,), (1,)])
    """
    each = max(1, REGISTER_BITS // unit_bits)
    return [tuple(values[i : i + each]) for i in range(0, len(values), each)]


def places_of(
    wanted: Iterable[tuple[int, ...]], held: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The places of the values of each wanted register: (which of the registers `held`, which value of it).

    A register that begins with what is wanted is preferred.

    >>> places_of([(0, 2), (2, 3)], [(0, 1), (2, 3)])
    {(0, 2): ((0, 0), (1, 0)), (2, 3): ((1, 0), (1, 1))}
    """
    homes = {value: (n, i) for n, word in enumerate(held) for i, value in enumerate(word)}
    prefixes = {word[:k]: n for n, word in enumerate(held) for k in range(1, len(word) + 1)}
    places = {}
    for word in dict.fromkeys(wanted):
        if word in prefixes:
            places[word] = tuple((prefixes[word], i) for i in range(len(word)))
        else:
            places[word] = tuple(homes[value] for value in word)
    return places


def serves_as_it_is(places: Sequence[tuple[int, int]]) -> bool:
    """True when what is wanted is what one register begins with.

    >>> serves_as_it_is(((3, 0), (3, 1))), serves_as_it_is(((3, 1),))
    (True, False)
    """
    return all(pair == (places[0][0], i) for i, pair in enumerate(places))


def permutes(wanted: Iterable[tuple[int, ...]], held: Iterable[tuple[int, ...]]) -> int:
    """PRMT instructions that make the registers `wanted` out of the registers `held`, each of them once.

    One takes bytes of two registers; a register that begins with what is wanted serves as it is.

    >>> permutes([(0, 2), (1, 3), (0,), (1,)], [(0, 1), (2, 3)])
    3
    """
    return sum(
        0 if serves_as_it_is(places) else max(1, len({n for n, _ in places}) - 1)
        for places in places_of(wanted, list(held)).values()
    )
