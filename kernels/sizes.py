"""Contents of the buffers of a problem's kernels, and their bytes, as expressions of the kernels'
parameters.

    transpose of at most 4096 x 4096 f32      src    ((m - 1) * lds + n) * 4      m, n, lds are parameters
                                                     f32, shape (m, n), strides (lds, 1)
    softmax of (64,1000) f16                  src    128000                       all is built in
                                                     f16, shape (64, 1000), strides (1000, 1)

A problem has numbers, and its kernels may have parameters in their place: where there is one of that name, it
stands in the expression.  What a kernel touches of a buffer starts at its pointer and ends with the last
element; a load of a norm may take the rest of the aligned 16 bytes around that (`read_in_units`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Operand, Var, simplify
from layoutalg.codegen.printing import BufferView
from layoutalg.codegen.program import SCRATCH, LaunchSequence
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError
from layoutalg.kernels.modes import compact_strides
from layoutalg.optional import is_of

if TYPE_CHECKING:
    from layoutalg.kernels.attention import AttentionProblem
    from layoutalg.kernels.gemm import GemmProblem
    from layoutalg.kernels.rowwise import AxesProblem

Extent: TypeAlias = "Callable[..., Expr]"
"""An extent or a leading dimension of a problem by its name: a parameter, or the number that is built in."""


def buffer_bytes(problem: Any, sequence: LaunchSequence) -> dict[str, Expr]:
    """Bytes of every buffer that the kernels of a problem's sequence point to, scratch memory too.

    Raises ArgumentTypeError for what is not a problem of a family.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(256, 128, "f32")
    >>> one = family.launches(p, family.choose(p), "sm_90")
    >>> {name: str(n) for name, n in buffer_bytes(p, one).items()}
    {'src': '(m - 1) * lds * 4 + n * 4', 'dst': '(n - 1) * ldd * 4 + m * 4'}
    """
    known = {
        name: simplify(elems * view.dtype.nbytes)
        for name, (elems, view) in _buffers(problem, _extents(problem, sequence)).items()
    }
    known[SCRATCH] = Const(sequence.scratch_bytes)
    names = dict.fromkeys(name for buffers in sequence.buffers for name in buffers)
    return {name: known[name] for name in names}


def buffer_views(problem: Any, sequence: LaunchSequence) -> dict[str, BufferView]:
    """The array that lies in every buffer of a problem's sequence, but for scratch memory.

    A tensor that does not start with its buffer, runs backwards or is swizzled is seen as the whole buffer,
    of one mode.  Raises ArgumentTypeError for what is not a problem of a family.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(256, 128, "f32")
    >>> print(buffer_views(p, family.launches(p, family.choose(p), "sm_90"))["dst"])
    f32, shape (n, m), strides (ldd, 1)
    """
    return {name: view for name, (_, view) in _buffers(problem, _extents(problem, sequence)).items()}


def outermost(x: AxesProblem) -> tuple[int, int]:
    """The kept mode with the largest stride in the source, and the extent of the mode of the normal form that
    it is a part of: the rows that a launch may give.  (0, 1) where no mode is kept.

    >>> from layoutalg.kernels.rowwise import axes_problem
    >>> outermost(axes_problem((4, 6, 1000), 2, "f32"))
    (0, 24)
    """
    from layoutalg.kernels.rowwise import normalise

    kept, wide = normalise(x).kept, (k for k in range(len(x.shape)) if k not in x.axes)
    mode = max(wide, key=lambda k: (x.shape[k] > 1, abs(x.src[k])), default=0)
    return mode, kept[-1].extent if kept else 1


def _extents(problem: Any, sequence: LaunchSequence) -> Extent:
    """The parameters of a sequence by name, and the problem's numbers where there is no parameter."""
    parameters = {v.name: v for kernel in sequence.kernels for v in kernel.params if isinstance(v, Var)}
    numbers: Mapping[str, int] = {}
    if is_of(problem, "layoutalg.kernels.gemm", "GemmProblem"):
        from layoutalg.kernels.gemm import SCALE_STEPS, batch_scalars

        numbers = batch_scalars(problem) | dict(zip(SCALE_STEPS, problem.scale_strides, strict=False))

    def extent(name: str, number: int | None = None) -> Expr:
        if name in parameters:
            return parameters[name]
        return Const(numbers[name] if name in numbers else number or getattr(problem, name))

    return extent


def read_in_units(problem: Any) -> tuple[str, ...]:
    """The buffers of which loads may take all of the aligned 16 bytes that hold the last element: those that
    a norm reads.

    >>> from layoutalg.kernels import FAMILIES
    >>> read_in_units(FAMILIES["softmax"].problem((7, 13), 1, "bf16"))
    ('src',)
    """
    if not is_of(problem, "layoutalg.kernels.rowwise", "NormProblem"):
        return ()
    return ("dst" if problem.in_place else "src", *problem.read[1:], *problem.parameters)


def _buffers(p: Any, extent: Extent) -> dict[str, tuple[Expr, BufferView]]:
    """Elements of each buffer, gaps included, and the array that lies in it."""
    match type(p).__name__:  # a name alone imports no room
        case "MatrixProblem":
            to = ("n", "m", "ldd") if p.turned else ("m", "n", "ldd")
            matrices = {"src": ("m", "n", "lds"), "dst": to}
            return {name: _matrix(p.dtype, extent, *side) for name, side in matrices.items()}
        case "GemmProblem":
            return _product(p, extent)
        case "AttentionProblem":
            return _attention(p, extent)
        case "PermuteProblem":
            target = _strided(
                p.result or p.dtype, p.shape, p.dst, p.dst_offset, p.target_elems, p.dst_swizzle
            )
            order = p.order or range(len(p.shape))
            shape, strides = ([side[k] for k in order] for side in (p.shape, p.src))
            source = _strided(p.dtype, shape, strides, p.src_offset, p.source_elems, p.src_swizzle)
            return {"src": source, "dst": target}
        case "QuantizeProblem":
            return {
                x: _strided(element, shape, compact_strides(shape), 0, prod(shape))
                for x, (element, shape) in p.arrays.items()
            }
        case "MapProblem":
            sides = zip(p.sides, p.strides, p.elems, strict=True)
            wide = _Rows(p.outermost, extent("rows", p.rows))
            return {
                x: _strided(p.dtype, p.shape, strides, 0, elems, rows=wide) for x, strides, elems in sides
            }
        case "NormProblem":
            x, rows = p.axes, _rows(p.axes, extent)
            over = tuple(x.shape[k] for k in x.axes)
            given = {
                name: _strided(p.dtype, over, compact_strides(over), at, at + x.count)
                for name, at in p.parameters.items()
            }
            source = _strided(p.dtype, x.shape, x.src, x.src_offset, x.source_elems, rows=rows)
            target = _strided(p.result, x.shape, x.dst, x.dst_offset, x.target_elems, rows=rows)
            return given | dict.fromkeys(p.read, source) | {"dst": target}
        case "ReduceProblem":
            return _reduced(p.axes, p.result, p.axes.target_elems, _rows(p.axes, extent))
        case "CrossEntropyProblem":
            x, kept = p.axes, p.axes.kept_shape
            sums, at = {"none": 0, "sum": 1, "mean": 2}[p.reduction], p.target_offset
            flat = dtype("f32")
            both = _reduced(x, p.result, x.dst_offset + p.outputs)
            if p.reduction != "none":
                both["dst"] = _strided(p.result, (), (), x.dst_offset, x.dst_offset + 1)
            return both | {
                "target": _strided(p.target, kept, compact_strides(kept), at, at + x.outputs),
                "losses": _strided(flat, (p.loss_words,), (1,), 0, p.loss_words),
                "sums": _strided(flat, (sums,), (1,), 0, sums),
            }
    raise ArgumentTypeError(f"{p!r} is not a problem of a family")


def _strided(
    element: DType,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
    elems: int,
    swizzle: object = None,
    rows: _Rows | None = None,
) -> tuple[Expr, BufferView]:
    """A tensor of built-in sizes but for its rows, or its whole buffer where strides from the pointer on do
    not say it."""
    extents: list[Expr] = [*map(Const, shape)]
    count: Expr = Const(elems)
    if rows is not None and strides:
        step = max(strides[rows.mode], 0) // rows.each
        extents[rows.mode] = simplify(rows.number // rows.each)
        last = elems - (shape[rows.mode] * rows.each - 1) * step
        count = rows.number * step + (last - step) if last >= step else (rows.number - 1) * step + last
    if offset or swizzle or any(d < 0 for d in strides):
        extents, strides = [count], (1,)
    return count, BufferView(element, (*extents,), tuple(map(Const, strides)))


class _Rows(NamedTuple):
    """The mode that steps by `each` rows, and the number of all rows, which a launch may give."""

    mode: int
    number: Expr
    each: int = 1


def _rows(x: AxesProblem, extent: Extent) -> _Rows | None:
    """The outermost kept mode; without one, and of a tensor without elements, None."""
    if not x.outputs or len(x.axes) == len(x.shape):
        return None
    mode, rows = outermost(x)
    return _Rows(mode, extent("rows", rows), rows // x.shape[mode])


def _reduced(
    x: AxesProblem, result: DType, elems: int, rows: _Rows | None = None
) -> dict[str, tuple[Expr, BufferView]]:
    """A source some of whose modes are reduced, and a destination of the others."""
    kept = tuple(d for k, d in enumerate(x.dst) if k not in x.axes)
    beside = rows and rows._replace(mode=rows.mode - sum(k < rows.mode for k in x.axes))
    return {
        "src": _strided(x.dtype, x.shape, x.src, x.src_offset, x.source_elems, rows=rows),
        "dst": _strided(result, x.kept_shape, kept, x.dst_offset, elems, rows=beside),
    }


def _matrix(
    element: DType,
    extent: Extent,
    rows: str,
    columns: str,
    leading: str,
    batch: Sequence[tuple[Expr, Expr]] = (),
) -> tuple[Expr, BufferView]:
    """A matrix whose rows lie `leading` apart, or a `batch` of them: the extent and the step of each mode."""
    first: Operand = sum(((n - 1) * step for n, step in batch), start=Const(0))
    elems = first + ((extent(rows) - 1) * extent(leading) + extent(columns))
    shape, strides = (extent(rows), extent(columns)), (extent(leading), Const(1))
    return elems, BufferView(
        element, (*(n for n, _ in batch), *shape), (*(step for _, step in batch), *strides)
    )


def _attention(p: AttentionProblem, extent: Extent) -> dict[str, tuple[Expr, BufferView]]:
    batch, heads, rows = extent("batch"), extent("heads"), extent("m")

    def array(name: str, rows: str, many: Expr) -> tuple[Expr, BufferView]:
        modes = [(batch, extent(f"{name}_batch")), (many, extent(f"{name}_head"))]
        return _matrix(p.element, extent, rows, "d", f"{name}_row", modes)

    made = {x: array(x, "n", extent("kv_heads")) for x in "kv"}
    made |= {"q": array("q", "m", heads), "dst": array("o", "m", heads)}
    view = BufferView(dtype("f32"), (batch, heads, rows), (heads * rows, rows, Const(1)))
    return made | ({"lse": (batch * heads * rows, view)} if p.sums else {})


def _product(p: GemmProblem, extent: Extent) -> dict[str, tuple[Expr, BufferView]]:
    from layoutalg.kernels.gemm import PROMOTED_K

    def matrix(name: str, element: DType, rows: str, columns: str) -> tuple[Expr, BufferView]:
        modes = [i for i, step in enumerate(p.steps(name)) if step]
        batch = [(extent(f"batch{i}"), extent(f"stride_{name}{i}")) for i in modes]
        return _matrix(element, extent, rows, columns, f"ld{name}", batch)

    a, b = (("m", "k") if p.a_major == "k" else ("k", "m")), (("n", "k") if p.b_major == "k" else ("k", "n"))
    operands = {
        "a": matrix("a", p.operands[0], *a),
        "b": matrix("b", p.operands[1], *b),
        "d": matrix("d", p.result, "m", "n"),
    }
    for name, rows, part in (("scale_a", "m", 1), ("scale_b", "n", PROMOTED_K)) if p.block_scales else ():
        shape = (extent(rows) + (part - 1)) // part, (extent("k") + (PROMOTED_K - 1)) // PROMOTED_K
        steps = extent(f"{name}_{rows}"), extent(f"{name}_k")
        first: Operand = sum(((x - 1) * d for x, d in zip(shape, steps, strict=True)), start=Const(0))
        operands[name] = first + Const(1), BufferView(dtype("f32"), shape, steps)
    for name, modes in p.epilogue.arrays.items():
        count = extent(modes[-1]) if modes else Const(1)
        vector = count, BufferView(p.epilogue.type_of(name, p.result), (count,), (Const(1),))
        operands[name] = matrix("c", p.result, "m", "n") if modes == "mn" else vector
    return operands
