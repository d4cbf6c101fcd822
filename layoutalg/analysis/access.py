"""Access: which thread touches which elements with which instruction, independently of where they lie.

The idea.  An access is a thread-value layout over the flat DOMAIN of a tile, not over its memory: `tv` maps
(thread, value[, iteration]) to a flat index of the tile's shape, and the tile's layout maps that index to
an offset.  So one access can be counted on every layout of the same shape, which is what synthesis does.

    byte address = base_bytes + element bytes * layout(tv(thread, value, iteration))

Threads past one warp are further warps.  The values of one instruction are the width of `op` in elements,
consecutive in mode 1 and contiguous in memory; more values are further instructions ("registers"), and so
are iterations.  A tile of 4 x 8 f32, row-major, read down its columns:

    layout = (4,8):(8,1)      tv = (32,1):(1,0)       thread t: flat index t = row t % 4, column t // 4

Three ways to say who touches what:

    Access.default(op, layout, "f16")        what the command assumes; see there
    Access.along(op, layout, "f16", "row")   lanes run along the last mode, or "col": down the first
    Access.of("ldmatrix.x4@col", layout, "f16")     the same as text, OP[@row|col|TV layout]

Kernels predicate their edges with comparisons: `if (row < m && col < n)`, `if (tid < n)`, or by lane.  Said
as data, a Guard, they cost nothing to analyse: the coordinate at which a warp starts decides which of its
lanes are inside, in a few intervals, and how many warps start in an interval is a count of digits.

    layout (128,64), Guard((100, 60))       rows 100..127 and columns 60..63 are left alone
    Guard(threads=200)                      thread < 200
    Guard(lanes=range(16))                  the first half of every warp

All conditions of a guard must hold.  They apply to the first value of each instruction, as a predicate
does.  Any other predicate is a callable (thread, value, iteration) -> bool; it is enumerated.

>>> guard = Guard((100, 60), threads=200)
>>> guard.admits((128, 64), 32, 199, 99 + 128 * 59), guard.admits((128, 64), 32, 199, 100)
(True, False)

ldmatrix and stmatrix of one or two matrices take addresses from 8 or 16 of the 32 lanes.  Whatever the other
lanes hold is ignored by the instruction, so it must not count anywhere: not in a rank, not for alignment, not
as a place outside the tile.  In `addressing`, and only there, those lanes are dropped, by letting them repeat
the addresses of the lanes that count:

    ldmatrix.x1    tv ((8,4),8):((8,64),1)    the same instructions as    ((8,4),8):((8,0),1)

Where a thread mode does not split at those lanes, a Guard leaves them out.

Mappings.  Where the user does not state which lane touches which part, the tile is cut into what one lane
moves at once, V contiguous elements along its stride-1 mode, and the pieces are counted in some order;
thread t takes piece t.  The order is the mapping:

    tile (4,8):(8,1) f32, ld.shared.b64 (V = 2)      thread      0       1       2       3       4
    "row": along the last mode first                 elements  0,0-1   0,2-3   0,4-5   0,6-7   1,0-1
    "col": down the first mode first                           0,0-1   1,0-1   2,0-1   3,0-1   0,2-3
    "default": along the stride-1 mode first, which is "row" for this tile

ldmatrix and stmatrix take 16-byte matrix rows instead: 8 lanes address 8 rows, .x2 16 rows, .x4 16 rows
and two 16-byte columns; the other pieces of the tile are iterations.  For them the mapping says along
which mode the 16-byte rows lie.

Comparison with CuTe.  `tv` is a TV layout as in TiledCopy, with iterations as an optional third mode.

Source: PTX ISA, ldmatrix and stmatrix, "threads 0-7", "threads 0-15" hold the addresses of .x1 and .x2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from layoutalg.arch import Arch, Instruction, find_arch, find_instruction, instruction_name
from layoutalg.compose import compose_layouts, find_normal_form, find_rotation
from layoutalg.dtype import DType, dtype
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    DivisibilityError,
    ParseError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
    check_choice,
    check_type,
    listed,
    shown,
)
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    check_integers,
    coalesce,
    leaf_lists,
    leaves,
    merge,
    modes,
    normalize,
    product,
    size,
    to_text,
    whole_number,
)
from layoutalg.notation import parse

MAPPINGS = ("default", "row", "col")
"""The orders in which lanes may run over a tile."""

WARP = 32
"""Lanes that ldmatrix and stmatrix are executed by."""

Leaf: TypeAlias = "tuple[int, int]"
"""(extent, stride in the flat domain)."""

TileMode: TypeAlias = "list[tuple[int, int, int]]"
"""A top-level mode of a tile: (extent, stride in memory, stride in the flat domain) of its leaves."""


def tile_tv(rule: Instruction, layout: AnyLayout, element: DType, mapping: str) -> Layout:
    """The layout (thread, value[, iteration]) -> flat index that covers the whole tile in this order.

    Raises AlignmentError when vectors do not lie along a stride-1 mode, ShapeError when matrices do not
    cover the tile, UnsupportedError for strides that are not integers or hidden behind an outer layout.

    >>> from layoutalg.arch import INSTRUCTIONS
    >>> from layoutalg.dtype import dtype
    >>> print(tile_tv(INSTRUCTIONS["ld.shared.b64"], Layout((4, 8), (8, 1)), dtype("f32"), "row"))
    ((4,4),2):((8,1),4)
    """
    check_integers(f"an access by {rule.name}", layout)
    tile = _tile_modes(rule.name, layout)
    elems = vector_elems(rule, element)
    vector = _vector_place(rule, layout, tile, elems, mapping)
    if rule.matrices:
        return _matrix_tv(rule, layout, tile, elems, vector)
    return _lane_tv(tile, elems, vector, mapping)


def vector_elems(rule: Instruction, element: DType) -> int:
    """Elements of one lane of one instruction.

    Raises UnsupportedError when an element is wider than what a lane moves.

    >>> from layoutalg.arch import INSTRUCTIONS
    >>> from layoutalg.dtype import dtype
    >>> vector_elems(INSTRUCTIONS["ld.shared.b128"], dtype("f16"))
    8
    """
    count, rest = divmod(8 * rule.width_bytes, element.bits)
    if not count or rest:
        raise UnsupportedError(
            f"{rule.name} moves {rule.width_bytes} bytes per lane, {element} has {element.bits} bits: "
            f"a lane must hold a whole number of elements"
        )
    return count


def _tile_modes(op: str, layout: AnyLayout) -> list[TileMode]:
    """The modes of the layout under its swizzles, each coalesced; a rank-1 layout gives its own leaves.

    A rotation has those of the rows that it turns.
    """
    rotation = find_rotation(layout)
    if rotation is not None:
        rows, columns = rotation.rows, rotation.columns
        return [[(rows, columns, 1)], [(columns, 1, rows)]]
    form = find_normal_form(layout)
    match layout:
        case ComposedLayout(outer=Layout() as outer, inner=inner) if (
            form is None and leaves(outer)[0][1] == 1
        ):
            form = find_normal_form(inner)  # a vector that pads part is refused as misaligned
    if form is None:
        raise UnsupportedError(
            f"no default {op} access for {layout}: its strides are hidden behind an outer layout; "
            f"give a thread-value layout"
        )
    parts = modes(form.layout)
    while len(parts) == 1 and isinstance(parts[0].shape, tuple):
        parts = modes(parts[0])
    out: list[TileMode] = []
    weight = 1
    for part in parts:
        mode: TileMode = []
        for extent, stride in leaves(coalesce(part)):
            if extent > 1:
                mode.append((extent, stride, weight))
            weight *= extent
        out.append(mode)
    return out or [[]]


def _vector_place(
    rule: Instruction, layout: AnyLayout, tile: list[TileMode], elems: int, mapping: str
) -> tuple[int, int]:
    """(mode, leaf) along which vectors lie: the leaf of stride 1, or of the least stride for scalars."""
    places = [(m, n) for m, mode in enumerate(tile) for n in range(len(mode))]
    if elems == 1:
        positive = [at for at in places if tile[at[0]][at[1]][1] > 0]
        return min(positive, key=lambda at: tile[at[0]][at[1]][1], default=(0, 0))
    wanted = {"row": len(tile) - 1, "col": 0}.get(mapping) if rule.matrices else None
    contiguous = [at for at in places if tile[at[0]][at[1]][1] == 1 and wanted in (None, at[0])]
    if not contiguous:
        where = "" if wanted is None else f" in mode {wanted}"
        raise AlignmentError(
            f"{rule.name} needs {elems} contiguous elements per lane, and {layout} has no stride-1 "
            f"mode{where}",
            required_bytes=rule.width_bytes,
        )
    mode, leaf = contiguous[0]
    extent = tile[mode][leaf][0]
    if extent % elems:
        raise AlignmentError(
            f"{rule.name} needs {elems} contiguous elements per lane, and the stride-1 mode of {layout} has "
            f"{extent}, which is not a multiple",
            required_bytes=rule.width_bytes,
        )
    return mode, leaf


def _lane_tv(tile: list[TileMode], elems: int, vector: tuple[int, int], mapping: str) -> Layout:
    """Threads in the order of `mapping`, values along the vector leaf."""
    order = list(range(len(tile)))
    if mapping == "row":
        order.reverse()
    elif mapping == "default":
        order.remove(vector[0])
        order.insert(0, vector[0])
    threads: list[Leaf] = []
    step = 0
    for m in order:
        of_mode: list[Leaf] = []
        for n, (extent, _, flat) in enumerate(tile[m]):
            if (m, n) == vector:
                step = flat
                of_mode.insert(0 if mapping == "default" else n, (extent // elems, flat * elems))
            else:
                of_mode.append((extent, flat))
        threads += of_mode
    return _tv(threads, elems, step, [])


def _matrix_tv(
    rule: Instruction, layout: AnyLayout, tile: list[TileMode], elems: int, vector: tuple[int, int]
) -> Layout:
    """Lanes supply row addresses: rows fastest, then the 16-byte column; the rest of the tile iterates."""
    mode, leaf = vector
    extent, _, step = tile[mode][leaf] if tile[mode] else (1, 0, 0)
    columns: list[Leaf] = [(extent // elems, step * elems)]
    rows: list[Leaf] = []
    for m, group in enumerate(tile):
        for n, (length, _, flat) in enumerate(group):
            if (m, n) != vector:
                (columns if m == mode and len(tile) > 1 else rows).append((length, flat))
    row_count, column_count = (16 if rule.matrices > 1 else 8), (2 if rule.matrices == 4 else 1)
    split_rows, split_columns = _split(rows, row_count), _split(columns, column_count)
    if split_rows is None or split_columns is None:
        raise ShapeError(
            f"{rule.name} covers a tile in pieces of {row_count} rows by {16 * column_count} bytes; {layout} "
            f"does not split into such pieces"
        )
    idle = WARP // (row_count * column_count)
    threads = split_rows[0] + split_columns[0] + ([(idle, 0)] if idle > 1 else [])
    return _tv(threads, elems, step, split_columns[1] + split_rows[1])


def _split(parts: list[Leaf], count: int) -> tuple[list[Leaf], list[Leaf]] | None:
    """The first `count` of the coordinates that `parts` count through, and what is left; None if ragged."""
    head: list[Leaf] = []
    for i, (extent, flat) in enumerate(parts):
        if count == 1:
            return head, parts[i:]
        if extent >= count:
            if extent % count:
                return None
            return [*head, (count, flat)], [(extent // count, flat * count), *parts[i + 1 :]]
        if count % extent:
            return None
        head.append((extent, flat))
        count //= extent
    return (head, []) if count == 1 else None


def _tv(threads: list[Leaf], elems: int, step: int, iterations: list[Leaf]) -> Layout:
    """The layout (thread, value[, iteration]) of these leaves, extents 1 dropped."""

    def mode(parts: list[Leaf]) -> tuple[int | tuple[int, ...], int | tuple[int, ...]]:
        longer = [part for part in parts if part[0] > 1] or [(1, 0)]
        if len(longer) == 1:
            return longer[0]
        return tuple(extent for extent, _ in longer), tuple(flat for _, flat in longer)

    both = [mode(threads), (elems, step if elems > 1 else 0)]
    if any(extent > 1 for extent, _ in iterations):
        both.append(mode(iterations))
    return Layout(tuple(shape for shape, _ in both), tuple(stride for _, stride in both))


@dataclass(frozen=True, slots=True)
class Guard:
    """Lanes are active where every bound holds; an absent bound admits everything.

    `below` has one bound for each top-level mode of the layout, or None: the coordinate must be less.
    `threads` is a bound on the thread number, `lanes` the lanes of every warp that take part.  Raises
    ArgumentTypeError or ShapeError for anything else.

    >>> Guard((None, 7), lanes=range(2)).lanes
    (0, 1)
    """

    below: tuple[int | None, ...] = ()
    threads: int | None = None
    lanes: Iterable[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.below, tuple):
            raise ArgumentTypeError(
                f"below is {shown(self.below)}; a tuple with a bound or None per mode is needed"
            )
        for bound in (*self.below, self.threads):
            if bound is not None and (type(bound) is not int or bound < 0):
                raise ShapeError(f"bound {shown(bound)} of a guard; a non-negative integer or None is needed")
        if self.lanes is not None:
            lanes = listed("a guard: lanes", self.lanes, "a list of lanes")
            if any(type(lane) is not int or lane < 0 for lane in lanes):
                raise ShapeError(f"lanes {shown(lanes)} of a guard; non-negative integers are needed")
            object.__setattr__(self, "lanes", tuple(sorted(set(lanes))))

    def bounds(self, shape: IntTuple) -> list[tuple[int, int]]:
        """(mode, bound) of the modes that have one; raises ShapeError for more bounds than modes."""
        count = len(mode_sizes(shape))
        if len(self.below) > count:
            raise ShapeError(
                f"guard {self.below} has {len(self.below)} bounds, and shape {to_text(shape)} has {count} "
                f"modes"
            )
        return [(k, bound) for k, bound in enumerate(self.below) if bound is not None]

    def admits(self, shape: IntTuple, warp_lanes: int, thread: Any, index: Any) -> Any:
        """Whether the lane of `thread` at flat index `index` of `shape` is active; also for NumPy arrays.

        Raises ShapeError when there are more bounds than modes.
        """
        sides, bounds = mode_sizes(shape), dict(self.bounds(shape))
        out: Any = thread >= 0
        for k, side in enumerate(sides):
            coordinate = index % side if k + 1 < len(sides) else index
            index = index // side
            if k in bounds:
                out = out & (coordinate < bounds[k])
        if self.threads is not None:
            out = out & (thread < self.threads)
        if self.lanes is not None:
            lane = thread % warp_lanes
            inside: Any = lane < 0
            for active in self.lanes:
                inside = inside | (lane == active)
            out = out & inside
        return out


def mode_sizes(shape: IntTuple) -> tuple[int, ...]:
    """Sizes of the top-level modes.

    >>> mode_sizes((4, (2, 8)))
    (4, 16)
    """
    return tuple(product(mode) for mode in shape) if isinstance(shape, tuple) else (shape,)


Active: TypeAlias = "Guard | Callable[[int, int, int], bool]"
"""The rule for which lanes are active, applied to the first value of each instruction: bounds, which closed
forms understand, or any predicate (thread, value, iteration) -> bool, which is enumerated."""


@dataclass(frozen=True, slots=True)
class Access:
    """An instruction `op` and the elements that each thread accesses with it: see the module's text.

    `tv` is a layout of two or three modes (thread, value[, iteration]) onto flat indices.  `base_bytes` is
    added to every address; the base itself is a multiple of `base_alignment_bytes`.  `active` says which
    lanes take part: a Guard, a predicate, or None for all.  `element` may be given by name.  Raises
    ShapeError, ArgumentTypeError or UnknownNameError for parts that do not fit.

    >>> Access("ld.shared.b32", Layout((32, 1), (4, 0)), "f32").element.bits
    32
    """

    op: str
    tv: Layout
    element: DType
    base_bytes: int = 0
    base_alignment_bytes: int = 1024
    active: Active | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "element", dtype(self.element))
        if isinstance(self.op, str):
            object.__setattr__(self, "op", instruction_name(self.op))
        if not isinstance(self.tv, Layout):
            raise ArgumentTypeError(
                f"tv {shown(self.tv)} is a {type(self.tv).__name__}; a Layout of (thread, value) or "
                f"(thread, value, iteration) is needed"
            )
        if not isinstance(self.tv.shape, tuple) or len(self.tv.shape) not in (2, 3):
            raise ShapeError(
                f"tv {self.tv} of {self.op}: two modes (thread, value) or three (thread, value, iteration) "
                f"are needed"
            )
        for name in ("base_bytes", "base_alignment_bytes"):
            value = normalize(getattr(self, name), name)
            if isinstance(value, tuple) or value < 0:
                raise ShapeError(f"{name} is {shown(value)}; a non-negative integer is needed")
            object.__setattr__(self, name, value)
        if self.active is not None and not isinstance(self.active, Guard) and not callable(self.active):
            raise ArgumentTypeError(
                f"active is {shown(self.active)}; a Guard, a predicate of (thread, value, iteration) or None "
                f"is needed"
            )
        aligned = self.base_alignment_bytes
        if aligned == 0 or aligned & (aligned - 1):
            raise ShapeError(f"base_alignment_bytes is {aligned}; a power of two is needed")

    @staticmethod
    def default(op: str, layout: AnyLayout, element: str | DType, arch: str | Arch | None = None) -> Access:
        """The access that covers the whole tile in the way `op` is meant to be used.

        ld and st: lanes run along the stride-1 mode in vectors of the op's width, then along the other
        modes in order.  ldmatrix and stmatrix: a matrix row is 16 bytes along the stride-1 mode; lane l of
        .x4 supplies row l % 16 and 16-byte column l // 16, of .x2 row l % 16, of .x1 row l % 8; iterations
        go along the stride-1 mode first.  Raises AlignmentError when there is no such mode or it is no
        multiple of the vector, ShapeError when the tile is too small.

        >>> tile = Layout((64, 64), (64, 1))
        >>> print(Access.default("ldmatrix.x4", tile, "f16").tv)
        ((16,2),8,(4,4)):((1,512),64,(1024,16))
        """
        return Access.along(op, layout, element, "default", arch)

    @staticmethod
    def along(
        op: str,
        layout: AnyLayout,
        element: str | DType,
        mapping: str | Layout = "default",
        arch: str | Arch | None = None,
    ) -> Access:
        """The access that covers the tile with lanes along `mapping`.

        "row": consecutive lanes along the last mode of the layout, then the one before, and so on; "col":
        along the first mode, then the next; "default": see `default`; a Layout is taken as the tv itself.
        Vectors lie along the stride-1 mode in every case; for ldmatrix and stmatrix, "row" and "col" say
        along which mode the 16-byte matrix rows lie.  With `arch`, the instruction is one of that
        architecture.  Raises as `default` does, and as `find_instruction`.

        >>> tile = Layout((32, 128), (128, 1))
        >>> print(Access.along("ld.shared.b128", tile, "f32", "col").tv)
        ((32,32),4):((1,128),32)
        """
        element = dtype(element)
        if isinstance(mapping, Layout):
            return Access(op, mapping, element)
        check_choice("mapping", mapping, MAPPINGS)
        rule = find_instruction(op, None if arch is None else find_arch(arch))
        return Access(rule.name, tile_tv(rule, layout, element, mapping), element)

    @staticmethod
    def of(
        spec: str | Access, layout: AnyLayout, element: str | DType, arch: str | Arch | None = None
    ) -> Access:
        """An Access as it is, or the one a text describes; it covers the whole tile unless a TV says else.

            ACCESS   OP | OP@row | OP@col | OP@TV
            OP       an instruction by any of its names: ldmatrix.x4, LDS.128, ld.shared.v4.f32, ...
            row      consecutive lanes along the last mode of the layout; of ldmatrix, 16-byte rows along it
            col      the same along the first mode
            TV       a layout (thread, value[, iteration]) -> flat index, in CuTe notation: (32,1):(2,0)

        Without "@", lanes run along the mode of stride 1 (`default`).  Blanks around "@" do not count.
        Raises ParseError for a TV that is not a layout text, and as `along` does.

        >>> print(Access.of("ld.shared.b32@(32,1):(2,0)", Layout((64, 2)), "f32").tv)
        (32,1):(2,0)
        """
        if isinstance(spec, Access):
            return spec
        check_type("access", spec, str, "an Access or a text OP[@row|col|TV]")
        op, at, mapping = (part.strip() for part in spec.partition("@"))
        if not at or mapping in ("row", "col"):
            return Access.along(op, layout, element, mapping or "default", arch)
        try:
            tv = parse(mapping)
        except ParseError as error:
            why = f"access {spec!r}: row, col or a layout is needed behind @; {error.message}"
            raise ParseError(why, text=error.text, position=error.position) from None
        if not isinstance(tv, Layout):
            raise ShapeError(f"access {spec!r}: {tv} is not a thread-value layout; row, col or a Layout is")
        return Access.along(op, layout, element, tv, arch)


@dataclass(frozen=True, slots=True)
class TmaAccess:
    """A tensor-map copy of `box` elements per side, stored with the `swizzle_bytes` mode (0: none).

    TMA has no lanes, and its own traffic has no bank conflicts to count; what it fixes is the layout, so
    it takes part in synthesis as a constraint.  Raises ShapeError for a box side outside 1..256 or a mode
    that is not 0, 32, 64 or 128.

    Source: CUDA Driver API, cuTensorMapEncodeTiled.

    >>> TmaAccess((64, 64), 128).swizzle_bytes
    128
    """

    box: tuple[int, ...]
    swizzle_bytes: int

    def __post_init__(self) -> None:
        box = normalize(self.box, "box")
        if not isinstance(box, tuple) or not box:
            raise ShapeError(f"TMA box {shown(self.box)}: a tuple of sides is needed")
        for side in box:
            if isinstance(side, tuple) or not 1 <= side <= 256:
                raise ShapeError(
                    f"TMA box {shown(self.box)} has the side {shown(side)}; sides are 1 to 256 elements"
                )
        if whole_number(self.swizzle_bytes, "TMA swizzle") not in (0, 32, 64, 128):
            raise ShapeError(f"TMA swizzle of {self.swizzle_bytes} bytes; the modes are 0, 32, 64 and 128")
        object.__setattr__(self, "box", box)


# --- the lanes that supply an address ------------------------------------------------------------------


def addressing(access: Access, rule: Instruction, machine: Arch) -> Access:
    """The access with the same instructions in which lanes that supply no address say nothing of their own.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> access = Access("ldmatrix.x1", Layout(((8, 4), 8), ((8, 64), 1)), "f16")
    >>> print(addressing(access, INSTRUCTIONS["ldmatrix.x1"], ARCHS["sm_90"]).tv)
    ((8,4,1),8):((8,0,0),1)
    """
    if rule.lanes >= machine.lanes:
        return access
    threads, *others = modes(access.tv)
    if size(threads) <= rule.lanes:
        return access
    warps, rest = divmod(size(threads), machine.lanes)
    if rest == 0 or rest >= rule.lanes:
        # A last warp without some of the lanes that are ignored is as good as a whole one.
        warps += rest > 0
        idle = machine.lanes // rule.lanes
        try:
            folded = compose_layouts(threads, Layout((rule.lanes, idle, warps), (1, 0, machine.lanes)))
        except (DivisibilityError, UndecidedError):
            pass
        else:
            if merge(*leaf_lists(folded)) == merge(*leaf_lists(threads)):
                return access
            parts = (folded, *others)
            tv = Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))
            return replace(access, tv=tv)
    guard = Guard() if access.active is None else access.active
    if not isinstance(guard, Guard):
        return access  # enumerated in any case, lane by lane
    lanes = range(machine.lanes) if guard.lanes is None else guard.lanes
    return replace(access, active=replace(guard, lanes=tuple(n for n in lanes if n < rule.lanes)))
