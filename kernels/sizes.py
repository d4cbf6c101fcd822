"""How large the buffers of a problem's kernels are, in bytes, as expressions of the kernels' parameters.

    transpose of at most 4096 x 4096 f32      src    ((m - 1) * lds + n) * 4      m, n, lds are parameters
    softmax of (64,1000) f16                  src    128000                       all is built in

A problem has numbers, and its kernels may have parameters in their place: where there is one of that name, it
stands in the expression.  What a kernel touches of a buffer starts at its pointer and ends with the last
element; a load of a norm may take the rest of the aligned 16 bytes around that (`read_in_units`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Var, simplify
from layoutalg.codegen.program import SCRATCH, LaunchSequence
from layoutalg.errors import ArgumentTypeError
from layoutalg.kernels.elementwise import MapProblem
from layoutalg.kernels.gemm import AddMatrix, AddVector, GemmProblem, batch_scalars
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move import PermuteProblem
from layoutalg.kernels.rowwise import CrossEntropyProblem, NormProblem, ReduceProblem

Extent: TypeAlias = "Callable[[str], Expr]"
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
    parameters = {v.name: v for kernel in sequence.kernels for v in kernel.params if isinstance(v, Var)}
    numbers = batch_scalars(problem) if isinstance(problem, GemmProblem) else {}

    def extent(name: str) -> Expr:
        if name in parameters:
            return parameters[name]
        return Const(numbers[name] if name in numbers else getattr(problem, name))

    known = {name: simplify(elems * width) for name, (elems, width) in _buffers(problem, extent).items()}
    known[SCRATCH] = Const(sequence.scratch_bytes)
    names = dict.fromkeys(name for buffers in sequence.buffers for name in buffers)
    return {name: known[name] for name in names}


def read_in_units(problem: Any) -> tuple[str, ...]:
    """The buffers of which loads may take all of the aligned 16 bytes that hold the last element: those that
    a norm reads.

    >>> from layoutalg.kernels import FAMILIES
    >>> read_in_units(FAMILIES["softmax"].problem((7, 13), 1, "bf16"))
    ('src',)
    """
    if not isinstance(problem, NormProblem):
        return ()
    return ("dst" if problem.in_place else "src", *problem.parameters)


def _buffers(p: Any, extent: Extent) -> dict[str, tuple[Expr, int]]:
    """Elements of each buffer, and the bytes of one."""
    match p:
        case MatrixProblem():
            to = _matrix(extent, *(("n", "m", "ldd") if p.turned else ("m", "n", "ldd")))
            return {"src": (_matrix(extent, "m", "n", "lds"), p.element_bytes), "dst": (to, p.element_bytes)}
        case GemmProblem():
            return _product(p, extent)
        case PermuteProblem():
            target = Const(p.target_elems), p.result_bytes
            return {"src": (Const(p.source_elems), p.element_bytes), "dst": target}
        case MapProblem():
            return {x: (Const(n), p.dtype.nbytes) for x, n in zip(p.sides, p.elems, strict=True)}
        case NormProblem():
            given = {name: at + p.axes.count for name, at in p.parameters.items()}
            both = {"src": p.axes.source_elems, "dst": p.axes.target_elems}
            return {name: (Const(n), p.dtype.nbytes) for name, n in (given | both).items()}
        case ReduceProblem():
            source, result = p.axes.dtype.nbytes, p.result.nbytes
            return {"src": (Const(p.axes.source_elems), source), "dst": (Const(p.axes.target_elems), result)}
        case CrossEntropyProblem():
            sums = {"none": 0, "sum": 1, "mean": 2}[p.reduction]
            return {
                "src": (Const(p.axes.source_elems), p.dtype.nbytes),
                "target": (Const(p.target_offset + p.axes.outputs), p.target.nbytes),
                "losses": (Const(p.loss_words), 4),
                "sums": (Const(sums), 4),
                "dst": (Const(p.axes.dst_offset + p.outputs), p.result.nbytes),
            }
    raise ArgumentTypeError(f"{p!r} is not a problem of a family")


def _matrix(extent: Extent, rows: str, columns: str, leading: str) -> Expr:
    """Elements from the first to the last of a matrix whose rows lie `leading` apart."""
    return (extent(rows) - 1) * extent(leading) + extent(columns)


def _product(p: GemmProblem, extent: Extent) -> dict[str, tuple[Expr, int]]:
    a, b = (("m", "k") if p.a_major == "k" else ("k", "m")), (("n", "k") if p.b_major == "k" else ("k", "n"))
    operand, result = p.operand.nbytes, p.result.nbytes

    def last(name: str) -> Expr:
        """Elements to the first one of an operand's last matrix."""
        modes = [i for i, step in enumerate(p.steps(name)) if step]
        reach = ((extent(f"batch{i}") - 1) * extent(f"stride_{name}{i}") for i in modes)
        return sum(reach, start=Const(0))

    found = {
        "a": (last("a") + _matrix(extent, *a, "lda"), operand),
        "b": (last("b") + _matrix(extent, *b, "ldb"), operand),
        "d": (last("d") + _matrix(extent, "m", "n", "ldd"), result),
    }
    for step in p.epilogue.steps:
        match step:
            case AddMatrix(name):
                found[name] = last("c") + _matrix(extent, "m", "n", "ldc"), result
            case AddVector(name, along):
                found[name] = extent(along), result
    return found
