"""check_tma: may TMA copy these boxes of this tensor, and how do they then lie in shared memory?

The idea.  A tensor map is made from a tensor's layout, a box and a swizzle mode, and held against every rule
of layoutalg.legality.tma_rules.  A legal request becomes a TmaCopy: the map, the bytes to expect, and the
layout that the copy writes:

    tensor (4096,1024):(1024,1) f16      strides 2048 bytes (a multiple of 16), innermost leaf contiguous
    box (64,64), mode 128B               128 bytes per row: the span of the mode
    written as                           Sw<3,3,3> o 0 o (64,64):(64,1)

>>> report = check_tma(Layout((4096, 1024), (1024, 1)), (64, 64), "f16", mode="128B")
>>> print(report.require().layout)
Sw<3,3,3> o 0 o (64,64):(64,1)

Notes.  TMA XORs bits of the shared ADDRESS.  A base between two repetitions of the pattern is accepted by the
hardware and moves the chunks elsewhere than the layout says: Sw<3,4,3>(128) is 144, not 128.  So the base has
to be a multiple of the mode's period (256, 512 or 1024 bytes), where 128 would do for the copy alone.  A box
with rows shorter than the span of its mode is written with gaps: each row takes a span.

Comparison with CuTe.  make_tma_copy infers the box from a shared layout; here a box is given, and a shared
layout may be, which is then compared with what is written.

Sources.  CUDA Driver API, cuTensorMapEncodeTiled; CUDA C++ Programming Guide, "Asynchronous Data Copies using
the Tensor Memory Accelerator"; what is written: MEASURED on an H200, tests/data/h200_tma_writes.jsonl.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Arch, SwizzleMode, TensorMap, find_arch, find_swizzle_mode
from layoutalg.decide import find_difference
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, UnsupportedError, check_choice, check_type, shown
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    check_integers,
    flatten_tree,
    normalize,
    size,
    to_text,
    unflatten_tree,
)
from layoutalg.legality.rules import Legality, Violation
from layoutalg.legality.tma_rules import LOAD_MODES, TMA_RULES, TmaRequest, broken_rules, rules_asked


@dataclass(frozen=True, slots=True)
class TmaCopy:
    """A legal copy.

    `layout` maps a coordinate of the box, in the modes of the tensor, to an offset in elements (None with an
    interleave, whose order is not modelled); `transaction_bytes` is what an mbarrier has to expect,
    `shared_bytes` what the box spans, `order` the tensor's leaves in the order of the map, innermost first.
    """

    tensor_map: TensorMap
    layout: AnyLayout | None
    transaction_bytes: int
    shared_bytes: int
    order: tuple[int, ...]

    def __str__(self) -> str:
        m = self.tensor_map
        strides = f", strides {to_text(m.strides_bytes)} bytes" if m.strides_bytes else ""
        return (
            f"Tensor map of {m.element}, innermost first: dimensions {to_text(m.dims)}{strides}, box "
            f"{to_text(m.box)}; the box is {self.layout or 'interleaved'} in shared memory, and a barrier "
            f"expects {self.transaction_bytes} bytes"
        )


def check_tma(
    tensor: Layout,
    box: IntTuple,
    element: str | DType,
    *,
    mode: str | int | SwizzleMode = "none",
    element_strides: IntTuple | None = None,
    interleave_bytes: int = 0,
    nan_fill: bool = False,
    global_alignment_bytes: int = 256,
    shared_alignment_bytes: int = 1024,
    shared: AnyLayout | None = None,
    load_mode: str = "tile",
    ctas: int = 1,
    arch: str | Arch = DEFAULT_ARCH,
) -> Legality[TmaCopy]:
    """Whether TMA can copy boxes `box` of `tensor` to or from shared memory in this swizzle mode.

    `tensor` is the layout in global memory, in elements; each leaf of its shape is a dimension of the map,
    the contiguous one innermost, the others by stride.  `box` and `element_strides` have a leaf for each of
    its leaves.  The alignments are those of the tensor's address and of the box in shared memory.  `shared`
    is the layout that the caller expects there, (box coordinate) -> offset in elements; None for any.
    `load_mode` is that of the instruction, of which gather4 and scatter4 move four boxes of a row each, and
    `ctas` 2 for .cta_group::2.  Raises ShapeError when trees do not fit, UnknownNameError for another load
    mode, UnsupportedError for an architecture without TMA and for im2col modes, whose maps have no boxes.

    Source: CUDA Driver API, cuTensorMapEncodeTiled.

    >>> report = check_tma(Layout((64, 100), (100, 1)), (64, 64), "f16")
    >>> report.broken, dict(report.violations[0].fix)
    (('tma.stride',), {'tensor': Layout((64, 100), (104, 1))})
    """
    request = make_request(
        tensor, box, element, mode=mode, element_strides=element_strides, interleave_bytes=interleave_bytes,
        nan_fill=nan_fill, global_alignment_bytes=global_alignment_bytes,
        shared_alignment_bytes=shared_alignment_bytes, arch=arch,
    )  # fmt: skip
    check_choice("load mode", load_mode, LOAD_MODES)
    check_choice("number of CTAs", str(ctas), ("1", "2"))
    if load_mode.startswith("im2col"):
        raise UnsupportedError(
            f"{load_mode} ({LOAD_MODES[load_mode][2]}) takes a map of cuTensorMapEncodeIm2col, which is not "
            f"judged"
        )
    request = replace(request, load_mode=load_mode, ctas=ctas)
    subject = f"TMA of {request.element} {tensor} in boxes {to_text(normalize(box))}, mode {request.map.mode}"
    if interleave_bytes:
        subject += f", interleave {interleave_bytes} bytes"
    if request.boxes > 1:
        subject += f", {load_mode}"
    return _judged(request, subject, shared)


def check_tensor_map(
    tensor_map: TensorMap,
    *,
    name: str = "",
    global_alignment_bytes: int = 256,
    shared_alignment_bytes: int = 1024,
    arch: str | Arch = DEFAULT_ARCH,
) -> Legality[TmaCopy]:
    """May TMA copy boxes by this tensor map, as it is?

    The rules of `check_tma`, applied to the parameters of cuTensorMapEncodeTiled themselves: leaf i of a
    violation is dimension i of the map, innermost first, and a fix is another `tensor_map`.  The report
    calls it by its `name`.  Raises ShapeError for an extent that is not positive, UnsupportedError for an
    architecture without TMA.

    Source: CUDA Driver API, cuTensorMapEncodeTiled.

    >>> from layoutalg.dtype import dtype
    >>> report = check_tensor_map(TensorMap(dtype("f16"), (64, 100), (200,), (64, 64), (1, 1)))
    >>> report.broken, dict(report.violations[0].fix)["tensor_map"].strides_bytes
    (('tma.stride',), (208,))
    """
    check_type("check_tensor_map", tensor_map, TensorMap, "a tensor map")
    element, dims = tensor_map.element, tensor_map.dims
    tensor = Layout(dims, (1, *(8 * d // element.bits for d in tensor_map.strides_bytes)))
    order = tuple(range(tensor_map.rank))
    _check_alignments(global_alignment_bytes, shared_alignment_bytes)
    machine = _machine(arch)
    request = TmaRequest(tensor, tensor_map, order, global_alignment_bytes, shared_alignment_bytes, machine)
    box = to_text(tensor_map.box)
    label = f"tensor map {name} of" if name else "tensor map of"
    subject = f"{label} {element} {to_text(dims)} in boxes {box}, mode {tensor_map.mode}"
    report = _judged(request, subject, None)
    violations = tuple(replace(v, fix=tuple(_of_map(request, v.fix))) for v in report.violations)
    return replace(report, violations=violations)


def _of_map(request: TmaRequest, fix: tuple[tuple[str, object], ...]) -> Iterator[tuple[str, object]]:
    """A fix of `check_tma` as one of `check_tensor_map`."""
    for name, value in fix:
        if isinstance(value, Layout):
            old = flatten_tree(request.tensor.stride)
            changed = flatten_tree(value.stride)
            strides = tuple(
                was if before == other else other * request.element.bits // 8
                for was, before, other in zip(request.map.strides_bytes, old[1:], changed[1:], strict=True)
            )
            yield "tensor_map", replace(request.map, strides_bytes=strides)
        elif name == "mode":
            yield "tensor_map", replace(request.map, mode=find_swizzle_mode(str(value)))
        elif name in ("box", "element_strides", "interleave_bytes", "nan_fill"):
            changes: dict[str, Any] = {name: flatten_tree(value) if isinstance(value, tuple) else value}
            yield "tensor_map", replace(request.map, **changes)
        else:
            yield name, value


def _judged(request: TmaRequest, subject: str, shared: AnyLayout | None) -> Legality[TmaCopy]:
    """The verdict on a request, and what it writes where it is legal."""
    notes = tuple(_notes(request))
    broken = tuple(broken_rules(request))
    rules = rules_asked(request)
    if broken:
        return Legality(subject, broken, notes, rules=rules)
    layout = None if request.map.interleave_bytes else _written(request)
    if shared is not None and layout is not None:
        broken = tuple(_compared(request, shared, layout))
        rules += (TMA_RULES["tma.layout"],)
    if broken:
        return Legality(subject, broken, notes, rules=rules)
    transaction_bytes = prod(request.counts) * request.element.bits // 8
    copy = TmaCopy(request.map, layout, transaction_bytes, request.shared_bytes, request.order)
    return Legality(subject, (), notes, copy, rules)


def make_request(
    tensor: Layout,
    box: IntTuple,
    element: str | DType,
    *,
    mode: str | int | SwizzleMode = "none",
    element_strides: IntTuple | None = None,
    interleave_bytes: int = 0,
    nan_fill: bool = False,
    global_alignment_bytes: int = 256,
    shared_alignment_bytes: int = 1024,
    arch: str | Arch = DEFAULT_ARCH,
) -> TmaRequest:
    """The tensor map of a request, legal or not; arguments and errors as of `check_tma`.

    >>> make_request(Layout((8, (4, 64)), (64, (512, 1))), (8, (2, 64)), "u8").map.box
    (64, 8, 2)
    """
    check_type("tensor map", tensor, Layout, "a Layout")
    check_integers("tensor map", tensor)
    machine = _machine(arch)
    extents, strides = flatten_tree(tensor.shape), flatten_tree(tensor.stride)
    sides = flatten_tree(normalize(box, "box"))
    steps = (1,) * len(extents)
    if element_strides is not None:
        steps = flatten_tree(normalize(element_strides, "element strides"))
    if not extents or len(sides) != len(extents) or len(steps) != len(extents):
        raise ShapeError(
            f"TMA of {tensor} in boxes {to_text(normalize(box))}: {len(sides)} sides, {len(steps)} element "
            f"strides; one is needed for each of the {len(extents)} leaves of the tensor's shape"
        )
    _check_alignments(global_alignment_bytes, shared_alignment_bytes)
    element = dtype(element)
    order = dimension_order(tensor)
    tensor_map = TensorMap(
        element,
        tuple(extents[i] for i in order),
        tuple(strides[i] * element.bits // 8 for i in order[1:]),
        tuple(sides[i] for i in order),
        tuple(steps[i] for i in order),
        interleave_bytes,
        find_swizzle_mode(mode),
        nan_fill=nan_fill,
    )
    return TmaRequest(tensor, tensor_map, order, global_alignment_bytes, shared_alignment_bytes, machine)


def _machine(arch: str | Arch) -> Arch:
    """An architecture with TMA."""
    machine = find_arch(arch)
    if machine.compute_capability < (9, 0):
        raise UnsupportedError(f"{machine.name} has no TMA; sm_90 and later have")
    return machine


def _check_alignments(global_bytes: int, shared_bytes: int) -> None:
    for name, value in (("global", global_bytes), ("shared", shared_bytes)):
        if type(value) is not int or value < 1 or value & (value - 1):
            raise ShapeError(f"{name} alignment of {shown(value)} bytes; a power of two is needed")


def dimension_order(tensor: Layout) -> tuple[int, ...]:
    """The leaves of a tensor's shape as a tensor map has its dimensions: contiguous first, then by stride.

    Leaves of extent 1 come last, except that the innermost dimension has stride 1 wherever a leaf has.

    >>> dimension_order(Layout((4, (1, 64), 8), (64, (0, 1), 256)))
    (2, 0, 3, 1)
    """
    leaves = list(zip(flatten_tree(tensor.shape), flatten_tree(tensor.stride), strict=True))

    def key(i: int) -> tuple[bool, bool, int, int]:
        extent, stride = leaves[i]
        return stride != 1, extent == 1, abs(stride), i

    first = min(range(len(leaves)), key=key)
    rest = sorted((i for i in range(len(leaves)) if i != first), key=lambda i: key(i)[1:])
    return (first, *rest)


def _written(request: TmaRequest) -> AnyLayout:
    """The layout of a box in shared memory: rows a pitch apart, dimension by dimension, under the XOR."""
    bits = request.element.bits
    strides, shape = [0] * request.map.rank, [1] * request.map.rank
    step = 1
    for dimension, (mode, count) in enumerate(zip(request.order, request.counts, strict=True)):
        shape[mode], strides[mode] = count, step if count > 1 else 0
        step = 8 * request.pitch_bytes // bits if dimension == 0 else step * count
    tree = request.tensor.shape
    inner = Layout(unflatten_tree(tuple(shape), tree), unflatten_tree(tuple(strides), tree))
    swizzle = request.map.mode.in_elements(bits)
    return ComposedLayout(swizzle, 0, inner) if swizzle.bits else inner


def _compared(request: TmaRequest, shared: AnyLayout, written: AnyLayout) -> Iterator[Violation]:
    """The layout that is expected against the one that is written."""
    if size(shared) != size(written):
        fault = f"the shared layout {shared} has {size(shared)} elements"
        accepted = f"{size(written)} elements, as the box"
    else:
        c = find_difference(shared, written)
        if c is None:
            return
        width = request.element.bits
        fault = f"the shared layout {shared} has element {c} of the box at byte {shared(c) * width // 8}"
        accepted = f"byte {written(c) * width // 8}, where mode {request.map.mode} puts it"
    yield Violation(TMA_RULES["tma.layout"], fault, accepted, str(written), (("shared", written),))


def _notes(request: TmaRequest) -> Iterator[str]:
    bits, mode = request.element.bits, request.map.mode
    if request.map.element_strides[0] != 1:
        yield f"the element stride {request.map.element_strides[0]} of the innermost dimension is ignored"
    row_bytes = request.counts[0] * bits // 8
    if row_bytes < request.pitch_bytes and not request.map.interleave_bytes:
        yield (
            f"rows of {row_bytes} bytes are written {request.pitch_bytes} bytes apart, the span of mode "
            f"{mode}: the box spans {request.shared_bytes} bytes"
        )
    if request.map.interleave_bytes:
        yield "the order of an interleaved box in shared memory is not modelled"
