"""The fields of an encoding for a given map: what vec, perPhase and maxPhase a swizzle has, or why none.

The idea.  What is found makes the map again, or it is not found: every answer is compared with the map as
triton_maps.py makes it.

>>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
>>> from layoutalg.notation.form import Options
>>> from layoutalg.notation.forms.linear import offsets_of
>>> tile = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((64, 32), (32, 1)))
>>> find_swizzled_shared(offsets_of(tile, "swizzled_shared"), Options())
{'vec': 8, 'perPhase': 2, 'maxPhase': 4, 'order': (1, 0)}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product
from math import prod
from typing import Any

from layoutalg.budget import Budget
from layoutalg.decide import same_function
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout, innermost, modes, size
from layoutalg.notation.form import Options
from layoutalg.notation.forms import triton_maps as maps
from layoutalg.notation.forms.linear import LANES, padded, tile_of

Fields = Mapping[str, Any]

MAX_RANK = 4
"""Most dimensions of a tensor whose encoding is searched for."""


def _shape(linear: LinearLayout) -> tuple[int, ...]:
    return tuple([extent for _, extent in linear.outs])


def _rank(linear: LinearLayout, what: str) -> int:
    rank = len(linear.outs)
    if not 1 <= rank <= MAX_RANK:
        raise UnsupportedError(f"no {what} of rank {rank} is searched for: 1 to {MAX_RANK} dimensions are")
    return rank


def find_linear(found: LinearLayout, options: Options) -> Fields:
    """The bases of #ttg.linear, and the shape that Gluon requires."""
    bases = _bases(found, maps.DISTRIBUTED, "linear")
    return {**bases, "shape": _shape(found)}


def find_shared_linear(found: LinearLayout, options: Options) -> Fields:
    """The bases of #ttg.shared_linear."""
    return _bases(found, maps.SHARED, "shared_linear")


def _bases(linear: LinearLayout, names: tuple[str, ...], what: str) -> dict[str, Any]:
    ins = dict(linear.ins)
    if set(ins) - set(names):
        raise UnsupportedError(f"no {what}: it maps {', '.join(names)}, and this maps {', '.join(ins)}")
    if not any(ins.values()):
        raise UnsupportedError(f"no {what}: a tensor of one element has no bases, and so the text no rank")
    if not linear.is_surjective():
        raise UnsupportedError(f"no {what}: some elements of the tensor {_shape(linear)} are held nowhere")
    if [name for name, _ in linear.outs] != [f"dim{i}" for i in range(len(linear.outs))]:
        raise UnsupportedError(f"no {what}: its dimensions are dim0, dim1, ..., and not {dict(linear.outs)}")
    return {name: ins.get(name, ()) for name in names}


# --- shared memory ---------------------------------------------------------------------------------------


def find_swizzled_shared(found: LinearLayout, options: Options) -> Fields:
    """vec, perPhase, maxPhase and order, or an UnsupportedError that names the row that has none."""
    rank, shape = _rank(found, "swizzled_shared"), _shape(found)
    bases = _one_block(found, "swizzled_shared")
    order = _order(bases, shape)
    vec = per_phase = max_phase = 1
    if rank > 1:
        columns = shape[order[0]].bit_length() - 1
        rows = [basis[order[0]] for basis in bases[columns : columns + shape[order[1]].bit_length() - 1]]
        moved = [j for j, phase in enumerate(rows) if phase]
        if moved:
            first, last = moved[0], moved[-1]
            vec = rows[first]
            wanted = [vec << (j - first) if first <= j <= last else 0 for j in range(len(rows))]
            wrong = next((j for j, phase in enumerate(rows) if phase != wanted[j]), None)
            if wrong is None and vec & vec - 1:
                wrong = first
            if wrong is not None:
                raise UnsupportedError(
                    f"no vec, perPhase and maxPhase: row {1 << wrong} is XORed into columns by {rows[wrong]}"
                    f", and swizzled_shared XORs row / perPhase, from a power of two on, into columns / vec"
                )
            per_phase, max_phase = 1 << first, 1 << last - first + 1
    made = maps.swizzled_shared(vec, per_phase, max_phase, order, shape)
    if _aligned(made) != _aligned(found):
        raise UnsupportedError(
            "no swizzled_shared: offsets do not run along one dimension, then the next, with phases of rows "
            "XORed into the first"
        )
    return {"vec": vec, "perPhase": per_phase, "maxPhase": max_phase, "order": order}


def _one_block(linear: LinearLayout, what: str) -> tuple[tuple[int, ...], ...]:
    ins = dict(linear.ins)
    if set(ins) - {"offset", "block"} or ins.get("block"):
        raise UnsupportedError(f"no {what}: it is searched for offsets within one block")
    return ins["offset"]


def _order(bases: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions in the order in which offsets reach them; those of extent 1 last.

    The first is along which the first offset steps; a row's own bit is that in another dimension.
    """
    order: list[int] = []
    for basis in bases:
        steps = [dim for dim, part in enumerate(basis) if part]
        fresh = [dim for dim in steps if dim not in order]
        if len(steps) == 1 or (order and len(fresh) == 1):
            order += fresh
    order += [dim for dim in reversed(range(len(shape))) if dim not in order]
    return tuple(order)


def find_nvmma_shared(found: LinearLayout, options: Options) -> Fields:
    """The swizzle width of #ttg.nvmma_shared for the given element type."""
    rank, shape = _rank(found, "nvmma_shared"), _shape(found)
    _one_block(found, "nvmma_shared")
    bits = options.need_element("nvmma_shared", "has its element's width in it").bits
    for transposed, width in product((False, True), (128, 64, 32, 0)):
        try:
            made = maps.nvmma_shared(width, bits, shape, transposed=transposed)
        except LayoutAlgError:
            continue
        if made.columns == found.columns:
            return {
                "swizzlingByteWidth": width, "transposed": transposed, "elementBitWidth": bits, "rank": rank,
            }  # fmt: skip
    raise UnsupportedError(
        f"no nvmma_shared: offsets are not those of swizzled atoms of 8 rows of 32, 64 or 128 bytes of "
        f"elements of {bits} bits, one atom below the next"
    )


def find_padded_shared(tile: AnyLayout, options: Options) -> Fields:
    """The pads of #ttg.padded_shared, and the bases of its offsets, which step along one dimension each.

    The bits of coordinates, by their offsets, are the bits of an offset with pads: each is twice the one
    before, plus the pad whose interval begins there.
    """
    shape = tuple([size(mode) for mode in modes(innermost(tile))])
    maps.check_shape(shape, len(shape))
    units = [tuple([1 << j if i == dim else 0 for i in range(len(shape))])
             for dim, extent in enumerate(shape) for j in range(extent.bit_length() - 1)]  # fmt: skip
    offsets, bases = zip(*sorted((tile(*unit), unit) for unit in units), strict=True) if units else ((), ())
    steps = [offset - 2 * last for last, offset in zip((0, *offsets), offsets, strict=False)]
    pairs = tuple([(1 << j, pad - (j == 0)) for j, pad in enumerate(steps) if pad != (j == 0)])
    found = LinearLayout({"offset": bases, "block": ()}, [(f"dim{i}", n) for i, n in enumerate(shape)])
    dense = tile_of(found)
    right = bool(pairs) and all(pad > 0 and not pad & (pad - 1) for _, pad in pairs)
    if isinstance(dense, LinearLayout) or not right or not same_function(padded(dense, pairs), tile):
        raise UnsupportedError(
            f"no padded_shared for {tile}: bits of coordinates, each by itself, with a pad of a power of two "
            "behind every so many elements, are needed"
        )
    order = tuple(dict.fromkeys([dim for basis in bases for dim, part in enumerate(basis) if part]))
    order += tuple([dim for dim in range(len(shape)) if dim not in order])
    in_order = maps.swizzled_shared(1, 1, 1, order, shape) == found
    fields = {"interval_padding_pairs": pairs, "offset": bases, "block": ()}
    return fields | ({"order": order} if in_order else {}) | {"shape": shape}


def _aligned(linear: LinearLayout) -> tuple[tuple[str, Any], ...]:
    """The bases by name, empty in dimensions left out, to compare."""
    return tuple(sorted((name, bases) for name, bases in linear.ins if bases))


# --- registers -------------------------------------------------------------------------------------------


def find_blocked(found: LinearLayout, options: Options) -> Fields:
    """sizePerThread, threadsPerWarp, warpsPerCTA and order, searched among all encodings of one block.

    Bits that hold what others hold stand behind those of a dimension that is full; which, changes nothing.
    """
    rank, shape = _rank(found, "blocked"), _shape(found)
    bases = _distributed(found, "blocked")
    lanes, warps = [list(_counts(bases[name], rank, "blocked")) for name in ("lane", "warp")]
    registers = list(_counts(bases["register"], rank, "blocked"))
    budget = Budget("which blocked encoding is it?")
    for parts in product(registers, lanes, warps):
        for sizes in _sizes(parts[0]):
            for order in permutations(reversed(range(rank))):
                budget.spend(100)
                made = maps.blocked(sizes, *parts[1:], order, shape)
                if _aligned(made) == _aligned(found):
                    names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
                    return dict(zip(names, (sizes, *parts[1:], order), strict=True))
    raise UnsupportedError(
        "no blocked encoding: registers, lanes and warps do not run along one dimension after the other "
        "in one order"
    )


def _distributed(linear: LinearLayout, what: str) -> dict[str, Any]:
    """The bases of registers, lanes and warps of one block."""
    bases = {name: dict(linear.ins).get(name, ()) for name in maps.DISTRIBUTED}
    if set(dict(linear.ins)) - set(maps.DISTRIBUTED) or bases["block"]:
        raise UnsupportedError(f"no {what}: it is searched for registers, lanes and warps within one block")
    return bases


def _counts(bases: tuple[tuple[int, ...], ...], rank: int, what: str) -> Iterator[tuple[int, ...]]:
    """The possible numbers of coordinates along each dimension: each run of bases 0 belongs to one."""
    counts, runs, after = [1] * rank, [0], False
    for basis in bases:
        along = [dim for dim, part in enumerate(basis) if part]
        if len(along) > 1 or any(part & part - 1 for part in basis):
            raise UnsupportedError(f"no {what}: the basis {basis} steps along several dimensions or bits")
        if along:
            counts[along[0]] *= 2
            after = True
        elif after:
            runs.append(1)
            after = False
        else:
            runs[-1] += 1
    runs = [run for run in runs if run]
    for dims in product(range(rank), repeat=len(runs)):
        each = list(counts)
        for dim, run in zip(dims, runs, strict=True):
            each[dim] <<= run
        yield tuple(each)


def _sizes(most: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Sizes per thread up to `most`, the largest first."""
    powers = [[1 << j for j in reversed(range(extent.bit_length()))] for extent in most]
    yield from sorted(product(*powers), key=lambda sizes: [-prod(sizes), *sizes])


def find_nvidia_mma(found: LinearLayout, options: Options) -> Fields:
    """warpsPerCTA of an accumulator of mma.sync.m16n8 (version 2)."""
    rank, shape = _rank(found, "nvidia_mma"), _shape(found)
    bases = _distributed(found, "nvidia_mma")
    if rank == 2 and len(bases["lane"]) == LANES:
        warps = len(bases["warp"])
        for along in range(warps + 1):
            split = (1 << along, 1 << warps - along)
            made = maps.nvidia_mma(2, split, (16, 8), shape)
            if _aligned(made) == _aligned(found):
                return {"versionMajor": 2, "versionMinor": 0, "warpsPerCTA": split, "instrShape": (16, 8)}
    raise UnsupportedError("no nvidia_mma of version 2: lanes do not hold accumulators of mma.m16n8")
