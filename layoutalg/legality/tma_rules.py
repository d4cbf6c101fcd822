"""The rules of a TMA copy, and what a request breaks of them.

The idea.  Every requirement is a row of `TMA_RULES` with its source, and one small check that yields what was
asked, what would be accepted and the nearest change.  Nothing stops at the first broken rule.

    tma.stride      strides 200 bytes     multiples of 16 bytes     pad rows to 104 f16 (208 bytes)
    tma.box_inner   256 bytes, mode 128B  16, 32, ..., 128 bytes    2 boxes of 64 f16, or mode none

>>> TMA_RULES["tma.box_side"].text
'a box side is 1 to 256 elements'

Notes.  The driver's answers to 6000 requests, made on an H200 with driver 580, agree with these rules: it
refuses what breaks one of them and, beyond that, boxes of 2^18 bytes and more, which no block's shared memory
holds.  One rule is the manual's alone: the driver takes an interleave of 32 bytes in any swizzle mode.

Sources.  CUDA Driver API, cuTensorMapEncodeTiled; CUDA C++ Programming Guide, "Asynchronous Data Copies using
the Tensor Memory Accelerator", alignment tables and "Swizzle".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from layoutalg.arch import CHUNK_BYTES, FLOAT_TYPES, SOURCE, SWIZZLE_MODES, TENSOR_MAP_TYPES, Arch, TensorMap
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, UnsupportedError
from layoutalg.layout import Layout, flatten_tree, unflatten_tree
from layoutalg.legality.rules import Rule, Violation

MAX_RANK = 5
MAX_BOX_ELEMS = 256
MAX_EXTENT = 1 << 32
MAX_STRIDE_BYTES = 1 << 40
MAX_ELEMENT_STRIDE = 8
SHARED_ALIGNMENT_BYTES = 128

_GUIDE = "CUDA C++ Programming Guide, Tensor Memory Accelerator"
_H200 = "asked of the driver of an H200; tests/data/h200_tensor_maps.jsonl"
_MODES = "PTX ISA 9.0, 9.7.9.27.5, cp.async.bulk.tensor, target notes"
_GATHER = "PTX ISA 9.0, 5.5.3.4, .tile::scatter4 and .tile::gather4 modes"

LOAD_MODES: Mapping[str, tuple[str, tuple[int, ...], str]] = MappingProxyType(
    {
        "tile": ("any", (9, 10, 12), "1 to 5 dimensions"),
        "tile::gather4": ("global to shared", (10, 12), "4 rows of 2 dimensions"),
        "tile::scatter4": ("shared to global", (10,), "4 rows of 2 dimensions"),
        "im2col": ("any", (9, 10, 12), "3 to 5 dimensions"),
        "im2col::w": ("global to shared", (10, 12), "3 to 5 dimensions, mode 32B, 64B or 128B"),
        "im2col::w::128": ("global to shared", (10,), "128 pixels of 3 to 5 dimensions, mode 32B to 128B"),
    }
)
"""The direction of each load mode, the major compute capabilities that have it, what it needs; read only.

sm_120 has gather4 and im2col::w to the shared memory of the block alone (.shared::cta), and no .cta_group."""

_RULES = (
    Rule("tma.element", "the element type has a CUtensorMapDataType", SOURCE, UnsupportedError),
    Rule("tma.mode", "the swizzle mode exists on the architecture", _H200, UnsupportedError, "measured"),
    Rule("tma.rank", "1 to 5 dimensions, at least 3 with an interleave", SOURCE),
    Rule("tma.inner_stride", "the innermost dimension is contiguous", SOURCE),
    Rule("tma.global_base", "the tensor starts at a multiple of 16 bytes", SOURCE, AlignmentError),
    Rule("tma.extent", "an extent is at most 2^32", SOURCE),
    Rule("tma.stride", "strides are multiples of 16 bytes", SOURCE, AlignmentError),
    Rule("tma.stride_range", "strides are 0 to 2^40 - 1 bytes", SOURCE),
    Rule("tma.box_side", "a box side is 1 to 256 elements", SOURCE),
    Rule("tma.box_inner", "the innermost box side is whole chunks within the swizzle span", SOURCE),
    Rule("tma.element_stride", "an element stride is 1 to 8", SOURCE),
    Rule("tma.interleave", "an interleave of 32 bytes needs the 32-byte mode", SOURCE),
    Rule("tma.nan_fill", "only floating-point elements can be filled with NaN", SOURCE),
    Rule("tma.shared_size", "the box fits the shared memory of a block", _GUIDE),
    Rule("tma.shared_base", "the box starts at a multiple of 128 bytes", _GUIDE, AlignmentError),
    Rule("tma.pattern", "the box starts where the swizzle pattern does", _GUIDE, AlignmentError),
    Rule("tma.load_mode", "the load mode and CTA group exist on the architecture", _MODES, UnsupportedError),
    Rule("tma.gather", "gather4 and scatter4 move rows of two dimensions, one row per box", _GATHER),
    Rule("tma.layout", "the shared layout is what the copy writes", _GUIDE),
)

TMA_RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})
"""Every rule by name, in the order in which they are checked; read only."""


@dataclass(frozen=True, slots=True)
class TmaRequest:
    """A request to check: a tensor, its tensor map, and the alignments (bytes) of both ends.

    `order` lists the leaves of the tensor's shape in the order of the map's dimensions, innermost first.
    """

    tensor: Layout
    map: TensorMap
    order: tuple[int, ...]
    global_alignment: int
    shared_alignment: int
    machine: Arch
    load_mode: str = "tile"
    ctas: int = 1

    @property
    def element(self) -> DType:
        """The element type."""
        return self.map.element

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that an instruction delivers along each dimension: the innermost step is ignored."""
        steps = (1, *self.map.element_strides[1:])
        sides = tuple(-(-side // max(1, step)) for side, step in zip(self.map.box, steps, strict=True))
        return (sides[0], 4) if self.boxes == 4 and len(sides) == 2 else sides

    @property
    def pitch_bytes(self) -> int:
        """Bytes from one row of the box to the next in shared memory.

        Under a swizzle rows are a span apart, also where they are shorter: MEASURED on an H200
        (tests/data/h200_tma_writes.jsonl).
        """
        mode = self.map.mode
        return max(self.counts[0] * self.element.bits // 8, mode.row_bytes if mode.swizzle.bits else 0)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that what an instruction delivers spans."""
        return prod(self.counts[1:]) * self.pitch_bytes

    @property
    def boxes(self) -> int:
        """Boxes that one instruction moves, each of a row where they are four."""
        return 4 if self.load_mode.endswith("4") else 1

    def with_value(self, values: tuple[int, ...], dimension: int, value: int) -> object:
        """Values of the dimensions, one of them replaced, as a tree like the tensor's shape."""
        flat = [0] * len(values)
        for i, leaf in enumerate(self.order):
            flat[leaf] = value if i == dimension else values[i]
        return unflatten_tree(tuple(flat), self.tensor.shape)

    def with_stride(self, dimension: int, stride: int) -> Layout:
        """The tensor with another stride, in elements, of one dimension of the map."""
        flat = list(flatten_tree(self.tensor.stride))
        flat[self.order[dimension]] = stride
        return Layout(self.tensor.shape, unflatten_tree(tuple(flat), self.tensor.shape))


def broken_rules(request: TmaRequest) -> Iterator[Violation]:
    """Every broken rule, layout apart; an element without a tensor map is the only one that stops the rest.

    >>> from layoutalg.legality.tma import make_request
    >>> request = make_request(Layout((8, 64), (64, 1)), (8, 64), "f16", mode="64B")
    >>> [violation.rule.name for violation in broken_rules(request)]
    ['tma.box_inner']
    """
    if request.element.name not in TENSOR_MAP_TYPES:
        yield from _element(request)
        return
    for check in (
        _mode,
        _rank,
        _inner,
        _global_base,
        _extents,
        _strides,
        _box,
        _steps,
        _flags,
        _load_mode,
        _shared,
    ):
        yield from check(request)


def rules_asked(request: TmaRequest) -> tuple[Rule, ...]:
    """The rules that `broken_rules` holds a request against.

    >>> from layoutalg.legality.tma import make_request
    >>> [rule.name for rule in rules_asked(make_request(Layout((8, 64), (64, 1)), (8, 64), "s4"))]
    ['tma.element']
    """
    if request.element.name not in TENSOR_MAP_TYPES:
        return (TMA_RULES["tma.element"],)
    left = {"tma.layout"}
    if request.boxes == 1:
        left |= {"tma.gather"} | ({"tma.load_mode"} if request.ctas == 1 else set())
    if request.shared_alignment % SHARED_ALIGNMENT_BYTES:
        left.add("tma.pattern")
    if any(not 0 <= stride < MAX_STRIDE_BYTES for stride in request.map.strides_bytes):
        left.add("tma.stride")
    if request.map.box[0] <= 0:
        left.add("tma.box_inner")
    return tuple(rule for name, rule in TMA_RULES.items() if name not in left)


def _element(request: TmaRequest) -> Iterator[Violation]:
    bits = request.element.bits
    asked = f"the element is {request.element}, of {bits} bits"
    nearest = f"u8, with {8 // bits} elements to each" if bits < 8 else f"f64, {bits // 64} for each element"
    yield TMA_RULES["tma.element"].broken(asked, ", ".join(TENSOR_MAP_TYPES), nearest)


def _mode(request: TmaRequest) -> Iterator[Violation]:
    if request.machine.compute_capability < (10, 0) and request.map.mode.sm_90_code is None:
        asked = f"the mode is {request.map.mode} on {request.machine.name}"
        names = ", ".join(mode.name for mode in SWIZZLE_MODES.values() if mode.sm_90_code is not None)
        yield TMA_RULES["tma.mode"].broken(asked, names, "128B", mode="128B")


def _rank(request: TmaRequest) -> Iterator[Violation]:
    rank, least, rule = request.map.rank, 3 if request.map.interleave_bytes else 1, TMA_RULES["tma.rank"]
    asked, accepted = f"the tensor has {rank} leaves", f"{least} to {MAX_RANK}"
    if rank > MAX_RANK:
        change = f"merge contiguous leaves, or one map for each index of the {rank - MAX_RANK} outermost"
        yield rule.broken(asked, accepted, change)
    elif rank < least:
        asked += f" and an interleave of {request.map.interleave_bytes} bytes"
        yield rule.broken(asked, f"{accepted}, or no interleave", "no interleave", interleave_bytes=0)


def _inner(request: TmaRequest) -> Iterator[Violation]:
    stride = flatten_tree(request.tensor.stride)[request.order[0]]
    if stride != 1:
        asked = f"no leaf of {request.tensor} has stride 1, the least stride is {stride}"
        change = f"copy the tensor to one that is contiguous along leaf {request.order[0]} first"
        tensor = request.with_stride(0, 1)
        yield TMA_RULES["tma.inner_stride"].broken(asked, "a leaf of stride 1", change, tensor=tensor)


def _multiple(request: TmaRequest) -> int:
    """The number of bytes of which addresses and strides in global memory are multiples."""
    return 32 if request.map.interleave_bytes == 32 else 16


def _global_base(request: TmaRequest) -> Iterator[Violation]:
    need = _multiple(request)
    if request.global_alignment % need:
        asked, change = (
            f"the tensor's address is aligned to {request.global_alignment} bytes",
            f"{need} bytes",
        )
        rule = TMA_RULES["tma.global_base"]
        yield rule.broken(asked, f"multiples of {change}", change, global_alignment_bytes=need)


def _extents(request: TmaRequest) -> Iterator[Violation]:
    for extent in request.map.dims:
        if extent > MAX_EXTENT:
            change = f"{-(-extent // MAX_EXTENT)} tensor maps, each of a part of the extent"
            yield TMA_RULES["tma.extent"].broken(f"an extent is {extent}", f"1 to {MAX_EXTENT}", change)


def _strides(request: TmaRequest) -> Iterator[Violation]:
    need = _multiple(request)
    for dimension, stride in enumerate(request.map.strides_bytes, 1):
        if not 0 <= stride < MAX_STRIDE_BYTES:
            rule, accepted = TMA_RULES["tma.stride_range"], f"0 to {MAX_STRIDE_BYTES - 1}"
            nearest = -stride if stride < 0 else MAX_STRIDE_BYTES - need
            change = "a pointer to the other end of the leaf" if stride < 0 else f"at most {nearest} bytes"
        elif stride % need:
            rule, accepted = TMA_RULES["tma.stride"], f"multiples of {need} bytes"
            nearest = -(-stride // need) * need
            change = f"{nearest} bytes, {nearest - stride} bytes of padding"
        else:
            continue
        asked = f"the stride of leaf {request.order[dimension]} is {stride} bytes"
        tensor = request.with_stride(dimension, 8 * nearest // request.element.bits)
        yield rule.broken(asked, accepted, change, tensor=tensor)


def _box(request: TmaRequest) -> Iterator[Violation]:
    box, bits, mode = request.map.box, request.element.bits, request.map.mode
    for dimension, side in enumerate(box):
        if not 1 <= side <= MAX_BOX_ELEMS:
            asked = f"the box side of leaf {request.order[dimension]} is {side} elements"
            change = f"{-(-side // MAX_BOX_ELEMS)} boxes of {MAX_BOX_ELEMS}" if side > 1 else "1"
            nearest = request.with_value(box, dimension, min(max(side, 1), MAX_BOX_ELEMS))
            yield TMA_RULES["tma.box_side"].broken(asked, f"1 to {MAX_BOX_ELEMS}", change, box=nearest)
    spanned = mode.swizzle.bits > 0 and not request.map.interleave_bytes
    bytes_ = box[0] * bits // 8
    if box[0] > 0 and (bytes_ % CHUNK_BYTES or (spanned and bytes_ > mode.row_bytes)):
        chunk = 8 * CHUNK_BYTES // bits
        widest = min(8 * mode.row_bytes // bits if spanned else MAX_BOX_ELEMS, MAX_BOX_ELEMS)
        best = min(-(-box[0] // chunk) * chunk, widest)
        boxes = -(-box[0] // best)
        asked = f"the innermost box side is {box[0]} elements = {bytes_} bytes"
        accepted = f"multiples of {CHUNK_BYTES} bytes"
        accepted += f", at most {mode.row_bytes} in mode {mode}" if spanned else ""
        change = f"{boxes} boxes of {best}" if boxes > 1 else f"{best} elements"
        change += ", or mode none" if spanned and bytes_ % CHUNK_BYTES == 0 else ""
        nearest = request.with_value(box, 0, best)
        yield TMA_RULES["tma.box_inner"].broken(asked, accepted, change, box=nearest)


def _steps(request: TmaRequest) -> Iterator[Violation]:
    steps = request.map.element_strides
    for dimension, step in enumerate(steps):
        if not 1 <= step <= MAX_ELEMENT_STRIDE:
            asked = f"the element stride of leaf {request.order[dimension]} is {step}"
            least = min(max(step, 1), MAX_ELEMENT_STRIDE)
            nearest = request.with_value(steps, dimension, least)
            rule = TMA_RULES["tma.element_stride"]
            yield rule.broken(asked, f"1 to {MAX_ELEMENT_STRIDE}", str(least), element_strides=nearest)


def _flags(request: TmaRequest) -> Iterator[Violation]:
    mode = request.map.mode
    if request.map.interleave_bytes == 32 and mode.name != "32B":
        asked = f"an interleave of 32 bytes in mode {mode}"
        yield TMA_RULES["tma.interleave"].broken(asked, "mode 32B", "mode 32B", mode="32B")
    if request.map.nan_fill and request.element.name not in FLOAT_TYPES:
        asked = f"elements of {request.element} outside the tensor are to be NaN"
        accepted = ", ".join(sorted(FLOAT_TYPES))
        yield TMA_RULES["tma.nan_fill"].broken(asked, accepted, "fill with 0", nan_fill=False)


def _load_mode(request: TmaRequest) -> Iterator[Violation]:
    name, m, major = request.load_mode, request.map, request.machine.compute_capability[0]
    rule = TMA_RULES["tma.load_mode"]
    if request.ctas == 2 and major != 10:
        yield rule.broken(f".cta_group::2 on {request.machine.name}", "no CTA group", "1 CTA", ctas=1)
    if major not in LOAD_MODES[name][1]:
        has = ", ".join(mode for mode in ("tile", "tile::gather4") if major in LOAD_MODES[mode][1])
        yield rule.broken(f"{name} on {request.machine.name}", has, "tile", load_mode="tile")
    elif request.boxes == 4:
        rule = TMA_RULES["tma.gather"]
        if m.rank != 2:
            yield rule.broken(f"{name} of {m.rank} dimensions", "2 dimensions", "tile", load_mode="tile")
        elif m.box[1] != 1:
            one = request.with_value(m.box, 1, 1)
            yield rule.broken(f"the boxes of {name} have {m.box[1]} rows", "1 row", "1 row", box=one)
        elif m.interleave_bytes:
            asked = f"{name} with an interleave of {m.interleave_bytes} bytes"
            yield rule.broken(asked, "no interleave", "no interleave", interleave_bytes=0)


def _shared(request: TmaRequest) -> Iterator[Violation]:
    limit, box = request.machine.max_shared_bytes_per_block, request.map.box
    if request.shared_bytes > limit:
        longest = max(range(1, len(box)), key=lambda i: box[i], default=0)
        fits = max(1, limit // -(-request.shared_bytes // max(1, box[longest])))
        asked, nearest = f"the box spans {request.shared_bytes} bytes", request.with_value(box, longest, fits)
        change = f"{fits} along leaf {request.order[longest]}"
        yield TMA_RULES["tma.shared_size"].broken(asked, f"at most {limit}", change, box=nearest)
    alignment, mode = request.shared_alignment, request.map.mode
    asked = f"the box's address is aligned to {alignment} bytes"
    if alignment % SHARED_ALIGNMENT_BYTES:
        rule, accepted = TMA_RULES["tma.shared_base"], f"multiples of {SHARED_ALIGNMENT_BYTES} bytes"
        need = max(SHARED_ALIGNMENT_BYTES, mode.period_bytes)
    elif alignment % mode.period_bytes:
        rule, need = TMA_RULES["tma.pattern"], mode.period_bytes
        moved = mode.swizzle(alignment)
        asked += f": at address {alignment} the XOR of address bits puts its first chunk at {moved}"
        accepted = f"multiples of {need} bytes, after which the pattern of mode {mode} repeats"
    else:
        return
    yield rule.broken(asked, accepted, f"{need} bytes", shared_alignment_bytes=need)
