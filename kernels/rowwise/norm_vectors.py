"""Which vectors a norm's elements can be moved by: whole ones, ones that a row starts inside of, skewed ones.

The idea.  A vector lies at a multiple of its size.  Where all rows start at such places, every vector has
elements of one row or of one set of columns.  Where they do not, but every element has the same place in a
vector of source and destination, whole vectors are read still, and written inside of rows:

    ragged      along a reduced mode: the first and the last vector of a row hold elements of others
    skewed      along a kept mode: each row of a tile of columns has a shift of its own

Notes.  In place neither is done: a vector would be read while a neighbour writes part of it.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.norm_modes import NormModes


def words(vec: int, element_bytes: int) -> int:
    """32-bit registers of a vector.

    >>> words(8, 2), words(1, 2)
    (4, 1)
    """
    return max(1, vec * element_bytes // 4)


def can_vector(x: NormModes, vec: int) -> bool:
    """True when `vec` elements can be read and written at once, at places that are multiples of vec.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> [can_vector(shortest(norm_problem("softmax", (9, 33), k, "f32")), 4) for k in (0, 1)]
    [False, True]
    """
    lead = x.modes[0]
    if vec == 1:
        return True
    if lead.src != 1 or lead.dst != 1 or lead.extent < vec:
        return False
    if lead.reduced and not x.problem.in_place:
        return _one_phase(x, vec)
    return not any(v % vec for v in places_of_rows(x))


def can_skew(x: NormModes, vec: int) -> bool:
    """True when vectors can lie across columns whose rows start at different places of vectors.

    The rows are those of one reduced mode, and elements lie alike in source and destination.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> [can_skew(shortest(norm_problem("softmax", (9, 33), k, "f32")), 4) for k in (0, 1)]
    [True, False]
    """
    lead, *others = x.modes
    rows = [m for m in others if m.reduced]
    dense = lead.src == lead.dst == 1 and not lead.reduced and lead.extent >= vec
    one = len(rows) == 1 and rows[0].dst > 0
    return dense and one and not x.problem.in_place and _one_phase(x, vec)


def _one_phase(x: NormModes, vec: int) -> bool:
    """True when every element's place in a vector of the source is that in one of the destination.

    Coordinate 0 has the same place in both, and so has every step from it, up or down.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> turned = norm_problem("softmax", (2, 3), 1, "f32", (-3, 1), (3, 1), 4, 1)
    >>> _one_phase(shortest(turned), 2)
    False
    """
    differences = [m.src - m.dst for m in x.modes[1:]] + [x.src_offset - x.dst_start]
    return not any(d % vec for d in differences)


def places_of_rows(x: NormModes) -> list[int]:
    """Where rows may start and end, in elements: vectors are whole where their size divides all of these.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> places_of_rows(shortest(norm_problem("softmax", (9, 33), 1, "f32")))
    [33, 33, 0, 0, 33]
    """
    return [v for m in x.modes[1:] for v in (m.src, m.dst)] + [x.src_offset, x.dst_offset, x.modes[0].extent]
