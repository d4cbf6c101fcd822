"""relayout as a permute: two layouts of one domain, cut into modes on which both are strided.

The idea.  Two layouts with the same coordinates say where every element comes from and goes to.  Written out
over flat coordinates each is a chain of modes; where one cuts the domain the other is cut too:

    NHWC   (8,16,16,64):(16384,1024,64,1)             n, h, w, c
    NC/32  (8,16,16,(32,2)):(16384,512,32,(1,8192))   channels in groups of 32 outside the image
    both   8, 16, 16, 32, 2                           64 channels were cut into 32 and 2

What is left is dst[i] = src[i] with a stride a mode on either side, which `permute` moves.  Swizzles stay
outside: an offset goes through them last.

Notes.  Layouts whose cuts do not nest (6 = 2 x 3 on one side, 3 x 2 on the other) have no common modes and
are refused.  Offsets may not be negative.
"""

from __future__ import annotations

from layoutalg.compose import NormalForm, find_normal_form
from layoutalg.decide import cosize
from layoutalg.dtype import DType
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.move.problem import PermuteProblem, move_problem
from layoutalg.layout import AnyLayout, Layout, flatten_tree, product


def relayout_problem(
    src: AnyLayout, dst: AnyLayout, dtype: str | DType, elems: tuple[int, int] | None = None
) -> PermuteProblem:
    """dst_buffer[dst(i)] = src_buffer[src(i)] for every coordinate i of both layouts.

    `elems` are the lengths of the buffers, the layouts' cosizes by default.  Raises ShapeError where the
    domains or buffers do not fit, UnsupportedError where the layouts have no common modes or are composed of
    more than swizzles and strides, and as `move_problem` does.

    >>> nhwc = Layout((4, 8, 64), (512, 64, 1))
    >>> print(relayout_problem(nhwc, Layout((4, 8, (32, 2)), (512, 32, (1, 256))), "u8"))
    permute (4,8,32,2) u8, src (512,64,1,32) -> dst (512,32,1,256)
    """
    (of, src_offset, from_plain), (to, dst_offset, to_plain) = _strided(src), _strided(dst)
    if product(from_plain.shape) != product(to_plain.shape):
        raise ShapeError(
            f"relayout from {src} to {dst}: their domains have {product(from_plain.shape)} and "
            f"{product(to_plain.shape)} coordinates; both layouts need the same"
        )
    reach = cosize(src), cosize(dst)
    elems = reach if elems is None else elems
    for name, layout, needed, given in zip(("source", "destination"), (src, dst), reach, elems, strict=True):
        if given < needed:
            raise ShapeError(f"the {name} layout {layout} needs {needed} elements; its buffer has {given}")
    shape, src_strides, dst_strides = common_modes(from_plain, to_plain)
    return move_problem(shape, dtype, src_strides, dst_strides, src_offset, dst_offset, of, to, elems)


def _strided(layout: AnyLayout) -> NormalForm:
    """The swizzles, the offset and the strided layout that a layout is composed of."""
    form = find_normal_form(layout)
    if form is None:
        raise UnsupportedError(f"{layout} is composed of layouts; swizzles over one strided layout move")
    if any(d < 0 for d in flatten_tree(form.layout.stride)):
        raise UnsupportedError(f"{layout} has a negative stride; relayout counts from the start of a buffer")
    return form


def common_modes(a: Layout, b: Layout) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(shape, strides of a, strides of b) of the coarsest modes on which both are strided.

    Raises UnsupportedError where the cuts of one do not divide those of the other.

    >>> common_modes(Layout((4, 6), (6, 1)), Layout((2, 12), (12, 1)))
    ((2, 2, 6), (6, 12, 1), (12, 1, 2))
    """
    shape: list[int] = []
    strides: tuple[list[int], list[int]] = ([], [])
    queues = [list(zip(flatten_tree(x.shape), flatten_tree(x.stride), strict=True)) for x in (a, b)]
    queues = [[(n, d) for n, d in q if n > 1][::-1] for q in queues]
    while queues[0] and queues[1]:
        (n, s), (m, d) = queues[0].pop(), queues[1].pop()
        step = min(n, m)
        if max(n, m) % step:
            raise UnsupportedError(
                f"{a} and {b} have no common modes: after {shape} the one continues with {n}, the other "
                f"with {m} coordinates, and neither divides the other"
            )
        shape.append(step)
        strides[0].append(s)
        strides[1].append(d)
        if n > step:
            queues[0].append((n // step, s * step))
        if m > step:
            queues[1].append((m // step, d * step))
    return tuple(shape), tuple(strides[0]), tuple(strides[1])
