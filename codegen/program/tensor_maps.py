"""Tensor maps of a kernel: whether they can be legal, what a launch must give for that, and both in words.

The idea.  A map's box, mode and element are constants; its extents and strides are expressions of the integer
parameters.  What the constants break is refused before anything is compiled, by the rules of TMA and with
the nearest legal change; what is left to the parameters becomes conditions of the launch:

    // Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:
    //   map_src  f16 of src: dims (k, m), strides (ld * 2) bytes, box (64, 128), swizzle 128B
    // ld * 2 % 16 == 0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.arch import Arch, TensorMap
from layoutalg.codegen.expr import Const, Expr, Le, render, simplify, variables
from layoutalg.codegen.program.tile import Kernel, TensorMapParam
from layoutalg.errors import AlignmentError, IRError
from layoutalg.legality import check_tensor_map

STRIDE_MULTIPLE, MOST_EXTENT, MOST_STRIDE = 16, 1 << 32, (1 << 40) - 1
"""Rules tma.stride (bytes), tma.extent and tma.stride_range of layoutalg.legality."""


def check_maps(kernel: Kernel, chip: Arch) -> None:
    """Raise for a map that no launch can give: the error of the rule that is broken, with the nearest change.

    IRError for a map of a pointer that is no parameter, or of other variables than parameters.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> check_maps(KernelBuilder("empty", threads=32).build(), find_arch("sm_90"))
    """
    for m in kernel.maps:
        if m.source not in kernel.params:
            raise IRError("map", m, f"{m.name} is a map of {m.source.name}, no parameter of {kernel.name}")
        for e in (*m.dims, *m.strides_bytes):
            if not variables(e) <= set(kernel.params):
                raise IRError("map", m, f"{m.name} has {e}, and may use parameters only")
        aligned = min(m.source.align_bytes, 256)
        check_tensor_map(_of_least(m), name=m.name, global_alignment_bytes=aligned, arch=chip).require()


def _of_least(m: TensorMapParam) -> TensorMap:
    """The map of the least extents and strides that are legal, or of those that are constants."""
    return TensorMap(
        m.element,
        tuple(e.facts.lo if e.facts.is_constant else max(1, e.facts.lo) for e in m.dims),
        tuple(
            e.facts.lo if e.facts.is_constant else -(-max(0, e.facts.lo) // STRIDE_MULTIPLE) * STRIDE_MULTIPLE
            for e in m.strides_bytes
        ),
        m.box,
        m.element_strides or (1,) * m.rank,
        mode=m.mode,
        l2_promotion_bytes=m.l2_promotion_bytes,
        nan_fill=m.nan_fill,
    )


def map_conditions(kernel: Kernel) -> Iterator[Expr]:
    """What has to hold between parameters so that maps are legal, where their ranges do not say so.

    Raises AlignmentError for a stride that no value makes a multiple of 16 bytes.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> list(map_conditions(KernelBuilder("empty", threads=32).build()))
    []
    """
    for m in kernel.maps:
        for stride in m.strides_bytes:
            aligned = simplify((stride % STRIDE_MULTIPLE).eq(0))
            if aligned == Const(0):
                needed = f"multiples of {STRIDE_MULTIPLE} are accepted"
                raise AlignmentError(
                    f"{m.name} has a stride of {_text(stride)} bytes; {needed}",
                    required_bytes=STRIDE_MULTIPLE,
                )
            if aligned != Const(1):
                yield aligned
            if stride.facts.hi > MOST_STRIDE:
                yield Le(stride, Const(MOST_STRIDE))
        for n in m.dims:
            if n.facts.lo < 1:
                yield Le(Const(1), n)
            if n.facts.hi > MOST_EXTENT:
                yield Le(n, Const(MOST_EXTENT))


def _text(node: Expr) -> str:
    return render(node).replace("//", "/")


def map_lines(maps: Sequence[TensorMapParam]) -> Iterator[str]:
    """How tensor maps are encoded, in words, one line for each.

    >>> from layoutalg.codegen.expr import Var
    >>> from layoutalg.codegen.program.tile import Global
    >>> from layoutalg.dtype import dtype
    >>> src, m = Global("src", 2, (Const(64), Const(1)), False), Var("m", 100, "param", 8, 8)
    >>> one = TensorMapParam("map_src", src, (Const(64), m), (Const(128),), (64, 8), dtype("f16"))
    >>> for line in map_lines([one]): print(line)
    Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:
      map_src  f16 of src: dims (64, m), strides (128) bytes, box (64, 8), swizzle none
    """
    if maps:
        yield "Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:"
    width = max((len(m.name) for m in maps), default=0)
    for m in maps:
        dims, strides = (", ".join(map(_text, part)) for part in (m.dims, m.strides_bytes))
        parts = [f"{m.element} of {m.source.name}: dims ({dims})"]
        if strides:
            parts.append(f"strides ({strides}) bytes")
        parts.append(f"box ({', '.join(map(str, m.box))})")
        if any(step != 1 for step in m.element_strides):
            parts.append(f"element strides ({', '.join(map(str, m.element_strides))})")
        parts.append(f"swizzle {m.mode}")
        if m.l2_promotion_bytes:
            parts.append(f"L2 promotion {m.l2_promotion_bytes} bytes")
        if m.nan_fill:
            parts.append("NaN outside")
        yield f"  {m.name:<{width}}  {', '.join(parts)}"
