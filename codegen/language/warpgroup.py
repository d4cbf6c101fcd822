"""Products of warpgroups: the operands of wgmma are tensors in shared memory, named by descriptors.

    mma = make_tiled_mma("SM90_64x128x16_F32F16F16_SS")
    a, b = thread.partition_A(tile_a), thread.partition_B(tile_b)      (value, M, K) and (value, N, K)
    k.do(WGMMA_FENCE)
    k.mma(mma, acc, a, b, accumulate=0)
    k.do(WGMMA_COMMIT)
    k.warpgroup_wait(0, acc)

The idea.  It is checked that wgmma can read a shared buffer's layout (layoutalg.legality.check_wgmma).  The
answer is the same for every instruction except where it starts; so the descriptor is a constant, its form,
and the address of a place to which it is added.

Notes.  A swizzle XORs address bits, so a pattern that starts where it does not repeat is refused, and so are
stages that are not whole numbers of patterns.

Source: CUTLASS, include/cute/atom/mma_traits_sm90_gmma.hpp (make_gmma_desc, DescriptorIterator).
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.arch import CHUNK_BYTES, Major, SmemDescriptor, encode_descriptor
from layoutalg.atoms import TiledMMA
from layoutalg.codegen.expr import Const, Operand, simplify, terms
from layoutalg.codegen.instr import PACKED, WGMMA_WAIT, find_wgmma, hold
from layoutalg.codegen.language.fragment import Fragment
from layoutalg.codegen.language.tensor import Tensor
from layoutalg.codegen.program import Shared
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, concat, layout_size, leaves, modes
from layoutalg.legality import check_wgmma

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder

Side: TypeAlias = Literal["A", "B"]


def is_wgmma(tiled: TiledMMA) -> bool:
    """Whether the atom of a tiled MMA is a product of a warpgroup.

    >>> from layoutalg.atoms import make_tiled_mma
    >>> is_wgmma(make_tiled_mma("SM90_64x8x16_F32F16F16_SS"))
    True
    """
    return tiled.atom.ptx.startswith("wgmma")


def start_products(
    k: KernelBuilder,
    tiled: TiledMMA,
    acc: Fragment,
    a: Tensor | Fragment,
    b: Tensor | Fragment,
    accumulate: Operand,
) -> None:
    """Start acc += a b, every instruction of it; see `KernelBuilder.mma`."""
    instr = find_wgmma(tiled.atom)
    if not isinstance(b, Tensor) or isinstance(a, Tensor) != (tiled.atom.a_in == "shared"):
        kind = "a tensor in shared memory" if tiled.atom.a_in == "shared" else "a fragment"
        raise UnsupportedError(f"{tiled.atom} takes A as {kind}, and B as a tensor in shared memory")
    a_modes, b_modes = (modes(x.coordinates if isinstance(x, Tensor) else x.layout)[1:] for x in (a, b))
    if len(a_modes) != len(b_modes) or len(a_modes) not in (1, 2):
        raise ShapeError(
            f"product of {a} and {b}: (value, M) and (value, N), or with K behind both, are needed"
        )
    read = ([_form(a, "A")] if isinstance(a, Tensor) else []) + [_form(b, "B")]
    names = {o.name for o in instr.operands}
    scales = [1] * len(names & {"a_scale", "b_scale"})
    turned = [int(major == "MN") for _, major in read] if "b_mn" in names else []
    steps = layout_size(a_modes[1]) if len(a_modes) == 2 else None
    for step in range(steps or 1):
        at = () if steps is None else (step,)
        first = accumulate if step == 0 else 1
        with (
            k.Unroll(k.fresh("i"), layout_size(a_modes[0])) as i,
            k.Unroll(k.fresh("j"), layout_size(b_modes[0])) as j,
        ):
            (left, more), (right, units) = _from_start(a, (i, *at)), _from_start(b, (j, *at))
            forms = [form + n for (form, _), n in zip(read, (more, units)[-len(read) :], strict=True)]
            k.do(instr, acc[None, i, j], left, right, first, *forms, *scales, *turned)


def _from_start(part: Tensor | Fragment, at: tuple[Operand, ...]) -> tuple[Any, int]:
    """An operand, in shared memory without the constant of its index, and that in units of 16 bytes: a start
    in the descriptor is not worked out anew for each step of K."""
    if isinstance(part, Fragment):
        return part[(None, *at)], 0
    whole = part.at(0, *at)
    units = max(0, sum(x.value for x in terms(whole.index) if isinstance(x, Const)) // CHUNK_BYTES)
    return replace(whole, index=simplify(whole.index - CHUNK_BYTES * units)), units


def wait_for_products(k: KernelBuilder, newest: int = 0, *held: Fragment) -> None:
    """Wait until at most the `newest` groups of products of this warpgroup are unfinished.

    `held` are the accumulators, and fragments of A, that are used from here on.
    """
    k.do(WGMMA_WAIT, newest)
    for fragment in held:
        rows, words = fragment.reg.shape[0], fragment.reg.shape[-1]
        element = "f32" if fragment.element.name == "f32" else PACKED.get(fragment.element.name, "")
        with k.Unroll(k.fresh("i"), rows) as i:
            k.do(hold(words, element), fragment.reg[i])


def _form(part: Tensor, side: Side) -> tuple[int, Major]:
    """The descriptor of an operand without its start, and its major-ness."""
    buffer = part.buffer
    if not isinstance(buffer, Shared):
        raise UnsupportedError(f"operand {side} of wgmma in {buffer.name}: shared memory is needed")
    if part.element is None or part.part is None or not isinstance(part.part.tiled, TiledMMA):
        raise UnsupportedError(f"operand {side} {part} of wgmma: the partition of a tiled MMA is needed")
    pairs = [(extent, d) for extent, d in leaves(modes(part.coordinates)[0]) if extent > 1]
    steps: list[Any] = [d for _, d in pairs]
    axes = tuple(d.modes[0] for d in steps if d.value == 1 and len(d.modes) == 1)
    if len(pairs) != 2 or sorted(axes) != [0, 1]:
        raise UnsupportedError(
            f"operand {side} {part} of wgmma: a tile of two modes, each of step 1, is needed"
        )
    rows, _ = (extent for extent, _ in pairs)
    return _form_of(buffer, part.element, side, axes == (1, 0), rows)


@functools.lru_cache(maxsize=256)
def _form_of(buffer: Shared, element: DType, side: Side, turned: bool, rows: int) -> tuple[int, Major]:
    layout = _turned(buffer.layout) if turned else buffer.layout
    n = rows if side == "B" else None
    operand = check_wgmma(layout, element, side, n=n, base_bytes=buffer.offset_bytes).require()
    top, stage_bytes = operand.canonical, buffer.size_bytes // buffer.stages
    period = top.mode.period_bytes
    for what, nbytes in (("starts at byte", buffer.offset_bytes), ("has stages of", stage_bytes)):
        if nbytes % period:
            raise AlignmentError(
                f"{buffer.name} of mode {top.mode} {what} {nbytes}, no multiple of the {period} bytes after "
                f"which its pattern repeats; align_bytes={period}, and whole patterns per stage, are needed",
                offset=nbytes,
                required_bytes=period,
            )
    for i, line in enumerate(operand.blocks):
        for j, block in enumerate(line):
            same = (block.lbo_bytes, block.sbo_bytes, block.mode) == (top.lbo_bytes, top.sbo_bytes, top.mode)
            if not same or block.start_elems != layout(i * operand.rows, j * operand.k):
                raise UnsupportedError(
                    f"{buffer.name}: instruction ({i},{j}) of {layout} has the descriptor of {block}, the "
                    f"first that of {top}; one for all is needed"
                )
    form = SmemDescriptor(start_bytes=0, lbo_bytes=top.lbo_bytes, sbo_bytes=top.sbo_bytes, mode=top.mode)
    return encode_descriptor(form), top.major


def _turned(layout: AnyLayout) -> AnyLayout:
    """The layout with its two modes the other way round."""
    if isinstance(layout, Layout):
        return concat(*reversed(modes(layout)))
    return ComposedLayout(layout.outer, layout.offset, _turned(layout.inner))
