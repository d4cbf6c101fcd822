"""Tiled copies: what every thread moves, by the partitions of a TiledCopy or a TiledMMA.

    thread = k.get_slice(copy)                     copy: layoutalg.atoms.TiledCopy
    src, dst = thread.partition_S(s), thread.partition_D(d)
    k.copy(src, dst)                               cp.async where the atom is one, else through registers
    v = k.load(src, where=src.inside)              a fragment; zeros where the predicate fails
    k.store(v, dst, where=dst.inside)

The idea.  A partition is (value, rest, ...): the values of one instruction, then the instructions.  A copy is
one unrolled loop over instructions; what a vector moves is as many values as lie next to each other in the
buffer, all of them or one by one.  A predicate is a function of the same place, tested at the first element
of each vector.

Notes.  The store instruction is an option: `instr=STG_WHOLE` keeps a vector one instruction under a branch.
A partition names the thread's part of its global coordinates once, where they are known; the rest stays an
immediate.

Source: CUTLASS, include/cute/algorithm/copy.hpp; include/cute/atom/copy_atom.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.atoms import CopyAtom, TiledCopy, TiledMMA
from layoutalg.codegen.expr import Const, Expr, Operand, simplify
from layoutalg.codegen.instr import (
    ATOMICS,
    CLEAR,
    CP_ASYNC,
    CP_ASYNC_ZFILL,
    FETCHES,
    LDG,
    LDMATRIX,
    LDMATRIX_TRANS,
    LDS,
    QUAD_PAIR_MMA,
    STG,
    STMATRIX,
    STMATRIX_TRANS,
    STS,
    Instr,
    mma_instruction,
)
from layoutalg.codegen.language.fragment import Fragment
from layoutalg.codegen.language.tensor import Side, Tensor, partition
from layoutalg.codegen.language.warpgroup import is_wgmma, start_products
from layoutalg.codegen.program import Global, MemRef, Shared
from layoutalg.codegen.terms import Value
from layoutalg.errors import AlignmentError, ArgumentTypeError, IRError, ShapeError, UnsupportedError
from layoutalg.layout import (
    ComposedLayout,
    Layout,
    ScaledBasis,
    flatten_tree,
    innermost,
    layout_size,
    leaves,
    modes,
)

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder

Where: TypeAlias = "Callable[..., Expr] | None"
"""A predicate by the place in a partition, such as its `inside`; None where every element is moved."""

Instrs: TypeAlias = "Mapping[int, Instr] | Instr | None"
"""An instruction, or a table of them by bytes per lane; None for plain ones."""

MATRIX_BITS = 128
"""The bits that ldmatrix.x4 leaves in a thread's registers: fragments of A and B lie in rows of it."""

_PLAIN: Mapping[tuple[str, str], Mapping[int, Instr]] = {
    ("global", "load"): LDG, ("shared", "load"): LDS, ("global", "store"): STG, ("shared", "store"): STS,
}  # fmt: skip

_MATRIX_MOVES: Mapping[str, Instr] = {
    operand.op: instr
    for table in (LDMATRIX, LDMATRIX_TRANS, STMATRIX, STMATRIX_TRANS)
    for instr in table.values()
    for operand in instr.operands
    if operand.op
}
"""ldmatrix and stmatrix by what the analysis calls their accesses."""


@dataclass(frozen=True, slots=True)
class ThreadSlice:
    """The slice of one thread of a tiled copy or a tiled MMA; `thread` is an expression.

    >>> from layoutalg.atoms import make_tiled_copy
    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> k = KernelBuilder("k", 32)
    >>> x = k.tensor("x", "f32", (4, 64), (64, 1))
    >>> copy = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((4, 8), (8, 1)), Layout((1, 4)))
    >>> print(k.get_slice(copy).partition_S(x))
    x from (x_0,x_1) o ((4,1),1,2):((1@1,0),0,32@1)
    """

    k: KernelBuilder
    tiled: TiledCopy | TiledMMA
    thread: Operand

    def partition(self, side: Side, tensor: Tensor) -> Tensor:
        """The thread's elements of a tensor, as (value, rest, ...).

        Raises ShapeError where the tile does not divide the tensor.
        """
        mine = partition(tensor, self.tiled, side, self.thread)
        if isinstance(mine.buffer, Shared):
            return mine  # lowering names the thread's part of a swizzled address
        names = (f"{mine.buffer.name}_{mode}" for mode in range(len(mine.origin)))
        return replace(mine, origin=tuple(map(self.k.once, names, mine.origin)))

    def partition_S(self, tensor: Tensor) -> Tensor:
        """The elements that the thread reads."""
        return self.partition("src", tensor)

    def partition_D(self, tensor: Tensor) -> Tensor:
        """The elements that the thread writes."""
        return self.partition("dst", tensor)

    def partition_A(self, tensor: Tensor) -> Tensor:
        """The thread's elements of A, an M x K tile."""
        return self.partition("A", tensor)

    def partition_B(self, tensor: Tensor) -> Tensor:
        """The thread's elements of B, an N x K tile."""
        return self.partition("B", tensor)

    def partition_C(self, tensor: Tensor) -> Tensor:
        """The thread's elements of C, an M x N tile."""
        return self.partition("C", tensor)

    def fragment_A(self, name: str, shape: tuple[int, ...]) -> Fragment:
        """Registers for the thread's elements of A, an M x K tile, as (value, M, K)."""
        return self._fragment(name, "A", shape)

    def fragment_B(self, name: str, shape: tuple[int, ...]) -> Fragment:
        """Registers for the thread's elements of B, an N x K tile, as (value, N, K)."""
        return self._fragment(name, "B", shape)

    def fragment_C(self, name: str, shape: tuple[int, ...]) -> Fragment:
        """Accumulators for the thread's elements of C, an M x N tile, as (value, M, N)."""
        return self._fragment(name, "C", shape)

    def _fragment(self, name: str, operand: Literal["A", "B", "C"], shape: tuple[int, ...]) -> Fragment:
        if not isinstance(self.tiled, TiledMMA):
            raise UnsupportedError(f"fragment_{operand} of {self.tiled}: a tiled MMA is needed")
        value, rests = modes(modes(self.tiled.tidfrg(operand, Layout(shape)))[1])
        places = Layout((value.shape, *(rest.shape for rest in modes(rests))))
        element, values = self.tiled.atom.dtype(operand), layout_size(value)
        row = values if operand == "C" else gcd(MATRIX_BITS // element.bits, layout_size(places))
        return self.k.fragment(name, element, places, values=max(row, values))

    def retile(self, held: Fragment) -> Fragment:
        """Registers of a tiled MMA as this copy fills or empties them: CuTe's retile_S and retile_D."""
        if not isinstance(self.tiled, TiledCopy):
            raise UnsupportedError(f"retile by {self.tiled}: a tiled copy is needed")
        return held.view(self.tiled.retile(held.layout))


def values_of(part: Tensor) -> int:
    """Elements that one instruction of a partition's copy moves per thread; without one, those of mode 0."""
    value = modes(part.coordinates)[0]
    if part.part is not None and isinstance(part.part.tiled, TiledCopy):
        return layout_size(modes(value)[0])
    return layout_size(value)


def run_of(part: Tensor) -> int:
    """Elements of an instruction that lie next to each other in the buffer, from the first on.

    All that a coordinate's layout says is checked on the strides; bits below a swizzle's stay where they are.
    """
    run = 1
    for extent, step in _steps(part):
        if step is None or simplify(step) != Const(run):
            break
        run *= extent
    run = gcd(run, values_of(part))
    if isinstance(part.buffer, Shared) and isinstance(part.buffer.layout, ComposedLayout):
        layout = part.buffer.layout
        run = gcd(run, layout.offset) if layout.offset else run
        for low in (min(pair) for pair in layout.swizzles.bit_pairs()):
            run = gcd(run, 1 << low)
    return run


def _steps(part: Tensor) -> list[tuple[int, Expr | None]]:
    """(extent, stride in the buffer) of the leaves of mode 0; None where one stride does not say it."""
    out: list[tuple[int, Expr | None]] = []
    for extent, d in leaves(modes(part.coordinates)[0]):
        if extent > 1:
            basis: Any = d
            out.append((extent, _stride(part.buffer, basis, extent) if basis else Const(0)))
    return out


def _stride(buffer: Global | Shared, basis: ScaledBasis, extent: int) -> Expr | None:
    (mode,), steps = basis.modes, int(basis.value)
    if isinstance(buffer, Global):
        return buffer.strides[mode] * steps
    inner = modes(innermost(buffer.layout))
    if mode >= len(inner):
        return None
    s, d = next((pair for pair in leaves(inner[mode]) if pair[0] > 1), (1, 0))
    steady = len(flatten_tree(inner[mode].shape)) == 1 or s % (extent * steps) == 0
    return Const(d * steps) if steady and d >= 0 else None


def load(
    k: KernelBuilder, part: Tensor, *, where: Where = None, into: Fragment | None = None, name: str = ""
) -> Fragment:
    """Load a partition into registers, new ones unless `into` says which.

    `where` is tested at the place of each vector's first element; where it fails the registers are zero.
    """
    values = values_of(part)
    matrix = _matrix_load(part)
    run = values if matrix else run_of(part)
    if into is None:
        # Elements that do not come together do not share a word, which each of them would overwrite.
        together = run if run % min(values, max(1, 4 // part.buffer.element_bytes)) else values
        into = k.fragment(name or f"{part.buffer.name}_v", part.element, part.shape, values=together)
    held = into
    each = _held_values(matrix, part) if matrix else values
    if held.size * values != part.size * each:
        raise ShapeError(f"load of {part} into {held}: {part.size * each // values} elements are needed")
    if run % held.per_word:
        raise UnsupportedError(
            f"load of {part} into {held}: {run} elements of {held.element} lie next to each other, and a "
            f"register holds {held.per_word}; load into=k.fragment(..., values={run})"
        )
    chosen = matrix or _chosen(None, part, "load", run)
    with k.Unroll(k.fresh("i"), part.size // values) as i, _pieces(k, values // run) as e:
        at = simplify(i * values + e * run)
        target = held.at(simplify(i * each + e * run), values=each if matrix else run)
        if where is None:
            k.do(chosen, target, part.at(at))
        else:
            with k.If(where(at)):
                k.do(chosen, target, part.at(at))
            with k.Else():
                k.do(CLEAR[4 * target.words], target)
    return held


def store(
    k: KernelBuilder, held: Fragment | Value, part: Tensor, *, where: Where = None, instr: Instrs = None
) -> None:
    """Store registers, or a value of them, to a partition of the same places; as in `load`, but nothing is
    stored where the predicate fails.  `instr` is an instruction, or a table of them by bytes per lane.
    """
    held = held if isinstance(held, Fragment) else k.map(held)
    values, matrix = values_of(part), _matrix_store(part)
    each = _held_values(matrix, part) if matrix else values
    if held.size * values != part.size * each:
        raise ShapeError(f"store of {held} to {part}: {part.size * each // values} elements are needed")
    run = values if matrix else run_of(part)
    if run % held.per_word:
        raise UnsupportedError(
            f"store of {held} to {part}: {run} elements of {held.element} lie next to each other, and a "
            f"register holds {held.per_word}; turn the corners in registers first"
        )
    if held.element.bits < 32 and held.per_word == 1 < run:
        raise UnsupportedError(
            f"store of {held} to {part}: a register holds one element of {held.element}, and {run} lie next "
            f"to each other; load what it is made of with into=k.fragment(..., values={run})"
        )
    chosen = matrix or _chosen(instr, part, "store", run)
    with k.Unroll(k.fresh("i"), part.size // values) as i, _pieces(k, values // run) as e:
        at = simplify(i * values + e * run)
        source = held.at(simplify(i * each + e * run), values=each if matrix else run)
        if where is None:
            k.do(chosen, part.at(at), source)
        else:
            with k.If(where(at)):
                k.do(chosen, part.at(at), source)


def atomic(
    k: KernelBuilder, op: Literal["add", "max", "min", "exch", "cas"], value: Fragment | Value | float,
    to: Tensor | MemRef, *, where: Where = None, fetch: bool = False,
    compare: Fragment | Value | float | None = None, name: str = "old",
) -> Any:  # fmt: skip
    """Join registers, or a value of them, to memory element by element: a partition, or the place `t.at(i)`.

    With `fetch` the registers of what was there before are returned, as they are by "exch", which puts the
    value there, and by "cas", which does so where the bits are those of `compare`; zeros where the predicate
    fails.  The order of atomics is undetermined, so that a sum of floats may be rounded in another way each
    time, and what is fetched is another element.  Raises UnsupportedError for an operation of a type that has
    none, ArgumentTypeError for a missing `compare`, ShapeError for other places.
    """
    place, tensor = (to, to.tensor) if isinstance(to, MemRef) else (None, to)
    if tensor is None or tensor.element is None:
        raise UnsupportedError(f"atomic {op} to {to}: the tensor that says its element type is needed")
    if (op == "cas") != (compare is not None):
        raise ArgumentTypeError(f"atomic {op} to {to}: `compare` is what cas takes, and it alone")
    fetch = fetch or op in ("exch", "cas")
    element, space, known = tensor.element.name, tensor.buffer.space, FETCHES if fetch else ATOMICS
    if (space, op, element) not in known:
        have = ", ".join(f"{way} of {kind}" for where_, way, kind in known if where_ == space)
        raise UnsupportedError(f"atomic {op} of {element}, {tensor.buffer.name}: there are {have}")
    size, instr = 1 if place is not None else tensor.size, known[space, op, element]
    given = []
    for x in (value,) if compare is None else (compare, value):
        if isinstance(x, int | float):
            x = k.map(x, into=k.fragment("joined", element, (1,)))
        held = x if isinstance(x, Fragment) else k.map(x)
        if held.size not in (1, size) or held.element.name != element:
            what = f"atomic {op} of {held} of {held.element}"
            raise ShapeError(f"{what} to {to}: {size} of {element} are needed")
        given.append(held)
    shape = (1,) if place is not None else tensor.shape
    fetched = [k.fragment(name, element, shape, values=1)] if fetch else []
    if place is not None:
        k.do(instr, *(old.at(0) for old in fetched), place, *(held.at(0) for held in given))
    else:
        for old in fetched if where is not None else ():
            clear(k, old)
        with k.Unroll(k.fresh("i"), size) as i, nullcontext() if where is None else k.If(where(i)):
            at = [held.at(i if held.size > 1 else 0) for held in given]
            k.do(instr, *(old.at(i) for old in fetched), tensor.at(i), *at)
    return fetched[0] if fetched else None


def mma(
    k: KernelBuilder, tiled: TiledMMA, acc: Fragment, a: Fragment | Tensor, b: Fragment | Tensor, *,
    accumulate: Operand = 1,
) -> None:  # fmt: skip
    """acc (value, M, N) += a (value, M) b (value, N): every instruction of one step along K.

    With an atom of a warpgroup the products are started and not waited for: b, and a where the atom says so,
    are partitions of tensors in shared memory; a mode K behind the others is for all of its steps; with
    `accumulate` 0 the first of them forgets what acc held.
    """
    if is_wgmma(tiled):
        return start_products(k, tiled, acc, a, b, accumulate)
    if not isinstance(a, Fragment) or not isinstance(b, Fragment) or accumulate != 1:
        raise UnsupportedError(
            f"{tiled.atom} adds products of fragments; tensors and sums from zero need wgmma"
        )
    volta = QUAD_PAIR_MMA.get(tiled.atom.name)
    instr = mma_instruction(tiled.atom) if volta is None else volta
    (_, rows), (_, columns) = (modes(x.layout) for x in (a, b))
    with k.Unroll(k.fresh("i"), layout_size(rows)) as i, k.Unroll(k.fresh("j"), layout_size(columns)) as j:
        k.do(instr, acc[None, i, j], a[None, i], b[None, j])
    return None


def clear(k: KernelBuilder, held: Fragment) -> None:
    """Set registers to zero."""
    rows, words = held.reg.shape[0], held.reg.shape[-1]
    piece = gcd(words, 4)
    with k.Unroll(k.fresh("i"), rows) as i, _pieces(k, words // piece) as e:
        at = held.reg[i] if piece == words else held.reg.slice(i, e * piece, count=piece)
        k.do(CLEAR[4 * piece], at)


def copy(k: KernelBuilder, src: Tensor, dst: Tensor, *, where: Where = None) -> None:
    """Copy a partition to another of the same places: by cp.async where the copy's atom is one, with zeros
    where the predicate fails; else through registers.
    """
    if src.size != dst.size:
        raise ShapeError(f"copy of {src} to {dst}: {src.size} elements and {dst.size}")
    if not _atom(src).src_op.startswith("cp.async"):
        return store(k, load(k, src, where=where), dst, where=where)
    values = values_of(src)
    if run_of(src) != values or run_of(dst) != values:
        raise AlignmentError(
            f"copy of {src} to {dst}: {values} elements are copied at once, of which {run_of(src)} and "
            f"{run_of(dst)} lie next to each other"
        )
    chosen = _chosen(CP_ASYNC if where is None else CP_ASYNC_ZFILL, src, "copy", values)
    with k.Unroll(k.fresh("i"), src.size // values) as i:
        at = simplify(i * values)
        guard = () if where is None else (where(at),)
        k.do(chosen, dst.at(at), src.at(at), *guard)
    return None


def _atom(part: Tensor) -> CopyAtom:
    """The copy instruction that a partition is for."""
    if part.part is None or not isinstance(part.part.tiled, TiledCopy):
        raise UnsupportedError(f"copy of {part}: the partition of a tiled copy is needed")
    return part.part.tiled.atom


def _bytes(part: Tensor) -> int:
    """Bytes of an element, which are those of the copy's type too."""
    own = part.buffer.element_bytes
    if part.part is not None and isinstance(part.part.tiled, TiledCopy):
        element = part.part.tiled.element
        if element.nbytes != own:
            raise IRError(
                "element", part, f"{part.part.tiled} moves {element}; {part.buffer.name} has {own} bytes"
            )
    return own


def _held_values(matrix: Instr, part: Tensor) -> int:
    """Elements that ldmatrix leaves in the registers of a lane, or stmatrix takes of them: with .x1 and .x2
    fewer than the row that the lane addresses has."""
    words = next(o.words for o in matrix.operands if o.role in ("in", "out"))
    return 4 * words // _bytes(part)


def _matrix_load(part: Tensor) -> Instr | None:
    """ldmatrix, where the partition's copy is one."""
    if part.part is None or part.part.side != "src" or not isinstance(part.part.tiled, TiledCopy):
        return None
    return _MATRIX_MOVES.get(part.part.tiled.atom.src_op)


def _matrix_store(part: Tensor) -> Instr | None:
    """stmatrix, where the partition's copy is one."""
    if part.part is None or part.part.side != "dst" or not isinstance(part.part.tiled, TiledCopy):
        return None
    tiled, values = part.part.tiled, values_of(part)
    instr = _MATRIX_MOVES.get(tiled.atom.dst_op)
    if instr and tiled.element.bits != 16:
        raise UnsupportedError(
            f"{tiled.atom} of {tiled.element}: stmatrix moves elements of 16 bits; "
            'make_tiled_copy_C(atom, mma, "f16") says so'
        )
    if instr and run_of(part) != values:
        raise AlignmentError(
            f"store to {part}: stmatrix writes rows of {values} elements, of which {run_of(part)} lie next "
            "to each other"
        )
    return instr


def _chosen(instr: Instrs, part: Tensor, way: str, run: int) -> Instr:
    """The instruction that moves `run` elements: the one that is given, or of a table by bytes."""
    if isinstance(instr, Instr):
        return instr
    table, nbytes = instr or _PLAIN[part.buffer.space, way], run * _bytes(part)
    if nbytes not in table:
        raise UnsupportedError(f"{way} of {part}: {nbytes} bytes per lane; {sorted(table)} are there")
    return table[nbytes]


@contextmanager
def _pieces(k: KernelBuilder, count: int) -> Iterator[Expr]:
    """An unrolled loop over the parts of a vector; no loop over one."""
    if count == 1:
        yield Const(0)
    else:
        with k.Unroll(k.fresh("e"), count) as e:
            yield e
