"""check_memory: may an instruction move a tile of this layout, lane by lane?

The idea.  A lane gives one address and moves what lies there: a vector (ld, st), a row of a matrix (ldmatrix,
stmatrix), or a copy (cp.async).  The tile is cut along its contiguous mode into such units, all of which
have to be contiguous and aligned; what the instruction itself requires is in layoutalg.legality.memory_rules.

>>> report = check_memory("ld.shared.v4.f32", Layout((32, 33), (33, 1)), "f32")
>>> print(report)
ld.shared.b128 of f32 (32,33):(33,1): illegal
  vector.divides: the contiguous mode has 33 elements: at (0,32) 1 is left; accepted are multiples of 4; \
nearest: ld.shared.b32
>>> check_memory("ldmatrix.x4", Layout((64, 64), (64, 1)), "f16").require().vectors
512

Notes.  Without a thread-value layout every unit of the tile is looked at: who moves it does not matter.  With
one, those that it gives, of the lanes that supply addresses.

Comparison with CuTe.  A copy atom of 16 bytes on a layout that tears its vectors fails a static_assert in
recast, or, where strides are not static, nothing until the kernel traps with a misaligned address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.compose import compose_layouts
from layoutalg.decide import extremes
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, check_type, shown
from layoutalg.layout import (
    AnyLayout,
    Layout,
    check_integers,
    concat,
    flatten_tree,
    idx2crd,
    modes,
    size,
    to_text,
    unflatten_tree,
)
from layoutalg.legality.memory_rules import (
    COPY_BYTES,
    MATRIX_ROWS,
    MEMORY_RULES,
    ROW_BYTES,
    SCALAR_BITS,
    MemoryOp,
    read_memory_op,
    widest_vector_bytes,
)
from layoutalg.legality.rules import Legality, Rule, Violation
from layoutalg.legality.vectors import Torn, Vectors, contiguous_leaf, find_torn, vectors_of, with_vectors

WARP = 32


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A legal use of an instruction: `elems` elements per address, `vectors` addresses for the whole tile."""

    op: str
    lane_bytes: int
    elems: int
    vectors: int

    def __str__(self) -> str:
        return f"{self.op}: {self.vectors} addresses of {self.elems} elements, {self.lane_bytes} bytes each"


@dataclass(frozen=True, slots=True)
class _Question:
    op: MemoryOp
    layout: AnyLayout
    element: DType
    tv: Layout | None
    alignment: int
    source: AnyLayout | None
    source_alignment: int
    source_bytes: int | None
    machine: Arch

    @property
    def elems(self) -> int:
        """Elements of one lane."""
        return 8 * self.op.lane_bytes // self.element.bits

    def rule(self, name: str) -> Rule:
        """A rule of the op's family."""
        return MEMORY_RULES[f"{self.op.family}.{name}"]


def check_memory(
    op: str,
    layout: AnyLayout,
    element: str | DType,
    *,
    tv: Layout | None = None,
    alignment_bytes: int = 256,
    source: AnyLayout | None = None,
    source_alignment_bytes: int = 256,
    source_bytes: int | None = None,
    arch: str | Arch = DEFAULT_ARCH,
) -> Legality[MemoryAccess]:
    """May `op` move a tile of `layout`, offsets in elements, in units that no element is torn from?

    `op` is ld, st, ldmatrix, stmatrix or cp.async by any of its names, also one that does not exist
    (ld.shared.v3.f32, cp.async.cg.8).  `tv` maps (thread, value[, iteration]) to flat indices of the layout's
    shape; None means the whole tile.  `alignment_bytes` is what the address of offset 0 is known to be a
    multiple of.  Of cp.async, `layout` is the shared side; `source` is the global one, of the same shape, and
    `source_bytes` what it reads of each copy (the rest is filled with 0).  Raises UnknownNameError for other
    instructions, ShapeError for parts that do not fit, UndecidedError for layouts without a closed form that
    are too large to be looked at.

    Source: PTX ISA, ld, st, ldmatrix, stmatrix, cp.async; see `layoutalg.legality.memory_rules`.

    >>> report = check_memory("cp.async.cg.8", Layout((64, 60), (60, 1)), "f16")
    >>> report.broken, dict(report.violations[0].fix)
    (('copy.cache',), {'op': 'cp.async.ca.8'})
    """
    for name, value in (
        ("alignment_bytes", alignment_bytes),
        ("source_alignment_bytes", source_alignment_bytes),
    ):
        if type(value) is not int or value < 1 or value & (value - 1):
            raise ShapeError(f"{name} is {shown(value)}; a power of two is needed")
    if source_bytes is not None and (type(source_bytes) is not int or source_bytes < 0):
        raise ShapeError(f"source_bytes is {shown(source_bytes)}; a non-negative integer is needed")
    check_integers("check_memory", layout)
    if source is not None:
        check_integers("check_memory: the source", source)
    question = _Question(
        read_memory_op(op), layout, dtype(element), tv, alignment_bytes, source, source_alignment_bytes,
        source_bytes, find_arch(arch),
    )  # fmt: skip
    if source is not None and question.op.family != "copy":
        raise ArgumentTypeError(f"{question.op} has no source beside its layout; cp.async has")
    if source is not None and size(source) != size(layout):
        raise ShapeError(f"the source {source} has {size(source)} elements, {layout} has {size(layout)}")
    subject = f"{question.op} of {question.element} {layout}"
    broken = tuple(_EXISTS[question.op.family](question)) or tuple(_holds(question))
    result, vectors = None, None if broken else _cut(question)
    if isinstance(vectors, Violation):
        broken = (vectors,)
    elif vectors is not None:
        broken = tuple(_placed(question, vectors))
        result = MemoryAccess(str(question.op), question.op.lane_bytes, question.elems, size(vectors.starts))
    rules = tuple(_asked(question, broken, is_cut=isinstance(vectors, Vectors)))
    return Legality(subject, broken, tuple(_notes(question)), None if broken else result, rules)


_ORDER = {
    "vector": ("width", "count", "bytes", "element"),
    "matrix": ("exists", "count", "trans", "element"),
    "copy": ("exists", "bytes", "cache", "source_bytes", "element"),
}
"""The rules of each family that come before those of the tile, in the order in which they are checked."""


def _asked(q: _Question, violations: tuple[Violation, ...], *, is_cut: bool) -> Iterator[Rule]:
    """The rules that were checked: up to the first broken one, and all that are broken."""
    names = list(_ORDER[q.op.family])
    if is_cut:  # the tile is cut
        names += [] if q.tv is not None else ["divides", *(["tile"] if q.op.family == "matrix" else [])]
        sides = ("", "source_") if q.source is not None else ("",)
        names += [side + name for side in sides for name in ("contiguous", "aligned", "base")]
    broken = [violation.rule.name for violation in violations]
    for name in (f"{q.op.family}.{name}" for name in names):
        if name in broken:
            break
        yield MEMORY_RULES[name]
    yield from (MEMORY_RULES[name] for name in dict.fromkeys(broken))


def _notes(q: _Question) -> Iterator[str]:
    if q.op.family == "matrix" and q.element.bits != 16 and not q.op.trans:
        yield (
            f"{q.op} moves 16-bit units: a lane's register holds 32 bits of a row, {32 / q.element.bits:g} "
            f"elements of {q.element}"
        )


# --- the instruction itself ----------------------------------------------------------------------------


def _other_op(rule: str, fault: str, accepted: str, nearest: MemoryOp) -> Violation:
    """A violation that another instruction mends."""
    return MEMORY_RULES[rule].broken(fault, accepted, str(nearest), op=str(nearest))


def _vector(q: _Question) -> Iterator[Violation]:
    op, most = q.op, widest_vector_bytes(q.op, q.machine)
    nearest = op.of_bytes(max((n for n in (1, 2, 4, 8, 16) if n <= op.lane_bytes), default=1))
    if op.bits not in SCALAR_BITS:
        accepted = ", ".join(map(str, SCALAR_BITS)) + " bits"
        yield _other_op("vector.width", f"a register has {op.bits} bits", accepted, nearest)
    elif op.count not in (1, 2, 4) and most == ROW_BYTES:
        fault = f"the vector has {op.count} registers"
        yield _other_op("vector.count", fault, ".v2, .v4 or none", nearest)
    elif op.lane_bytes > most:
        yield _other_op("vector.bytes", f"a lane moves {op.lane_bytes} bytes", f"at most {most}", nearest)


def _needs(q: _Question, major: int, minor: int) -> Iterator[Violation]:
    """The architecture has to be of this compute capability, or a later one."""
    if q.machine.compute_capability < (major, minor):
        name = f"sm_{major}{minor}"
        fault = f"{q.machine.name} has no {q.op.mnemonic}"
        yield q.rule("exists").broken(fault, f"{name} and later", name, arch=name)


def _matrix(q: _Question) -> Iterator[Violation]:
    op = q.op
    yield from _needs(q, 7, 5) if op.mnemonic == "ldmatrix" else _needs(q, 9, 0)
    if op.count not in (1, 2, 4):
        count = max((n for n in (1, 2, 4) if n <= op.count), default=1)
        fault = f"an instruction moves {op.count} matrices"
        yield _other_op("matrix.count", fault, ".x1, .x2 or .x4", replace(op, count=count))
    if op.trans and q.element.bits != 16:
        halves = f"{16 // q.element.bits} elements as one"
        if q.element.bits > 16:
            halves = f"each of its {q.element.bits // 16} halves of 16 bits as an element of its own"
        fault = f"{q.element} has {q.element.bits} bits: .trans would transpose {halves}"
        yield _other_op("matrix.trans", fault, "elements of 16 bits", replace(op, trans=False))


def _copy(q: _Question) -> Iterator[Violation]:
    op = q.op
    yield from _needs(q, 8, 0)
    if op.lane_bytes not in COPY_BYTES:
        nearest = op.of_bytes(max((n for n in COPY_BYTES if n <= op.lane_bytes), default=4))
        yield _other_op("copy.bytes", f"a lane copies {op.lane_bytes} bytes", "4, 8 or 16 bytes", nearest)
    elif op.cache == "cg" and op.lane_bytes != ROW_BYTES:
        accepted = "16 bytes with .cg; 4, 8 or 16 with .ca"
        yield _other_op("copy.cache", f".cg copies {op.lane_bytes} bytes", accepted, replace(op, cache="ca"))
    if q.source_bytes is not None and q.source_bytes > op.lane_bytes:
        fault = f"{q.source_bytes} bytes are read for {op.lane_bytes} that are written"
        accepted, change = f"0 to {op.lane_bytes}", f"{op.lane_bytes} bytes"
        yield q.rule("source_bytes").broken(fault, accepted, change, source_bytes=op.lane_bytes)


_EXISTS = {"vector": _vector, "matrix": _matrix, "copy": _copy}
"""The rules of the instruction itself, by family."""


def _holds(q: _Question) -> Iterator[Violation]:
    """Whether a lane holds whole elements."""
    bits = 8 * q.op.lane_bytes
    if bits % q.element.bits:
        fault = f"a lane moves {q.op.lane_bytes} bytes, {q.element} has {q.element.bits} bits"
        accepted = f"multiples of {q.element.bits} bits"
        fits = [n for n in (1, 2, 4, 8, 16) if 8 * n % q.element.bits == 0]
        if q.op.family == "matrix" or not fits:
            yield q.rule("element").broken(fault, accepted, "another element type")
            return
        nearest = q.op.of_bytes(min(fits, key=lambda n: (abs(n - q.op.lane_bytes), n)))
        yield _other_op(f"{q.op.family}.element", fault, accepted, nearest)


# --- the tile ------------------------------------------------------------------------------------------


def _cut(q: _Question) -> Vectors | Violation:
    """The units that the lanes move, or why the tile has none."""
    if q.tv is not None:
        return _given(q, q.tv)
    if q.elems == 1:
        return Vectors(Layout(size(q.layout), 1), 0, 1)
    leaf = contiguous_leaf(q.layout)
    if leaf is None:
        fault = f"no leaf of {q.layout} has stride 1: nothing follows the first element"
        accepted, first = f"{q.elems} elements in a row", idx2crd(0, q.layout.shape)
        return Violation(q.rule("contiguous"), fault, accepted, *_narrower(q, _in_rows(q.layout)), first)
    extent, position = leaf
    if extent % q.elems:
        tail = extent - extent % q.elems
        left = f"{extent % q.elems} {'is' if extent % q.elems == 1 else 'are'} left"
        at = idx2crd(tail * position, q.layout.shape)
        fault = f"the contiguous mode has {extent} elements: at {to_text(at)} {left}"
        return Violation(q.rule("divides"), fault, f"multiples of {q.elems}", *_narrower(q, _padded(q)), at)
    vectors = vectors_of(q.layout, q.elems, position)
    if q.op.family == "matrix":
        return _matrices(q, vectors, size(q.layout) // extent) or vectors
    return vectors


def _given(q: _Question, tv: Layout) -> Vectors:
    """The units of a thread-value layout: those of threads that supply addresses."""
    check_type("check_memory: tv", tv, Layout, "a layout")
    check_integers("check_memory: tv", tv)
    if not isinstance(tv.shape, tuple) or len(tv.shape) not in (2, 3):
        raise ShapeError(f"tv {tv}: a layout of (thread, value) or (thread, value, iteration) is needed")
    threads, values, *rest = modes(tv)
    if size(values) % q.elems:
        raise ShapeError(f"tv {tv} has {size(values)} values, {q.op} moves {q.elems} of {q.element} at once")
    if q.op.family == "matrix" and size(threads) > WARP:
        raise ShapeError(f"tv {tv} of {q.op} has {size(threads)} threads; give those of one warp")
    low, high = extremes(tv)
    if low < 0 or high >= size(q.layout):
        raise ShapeError(f"tv {tv} reaches the flat indices {low} to {high} of {size(q.layout)} elements")
    step = values(1) if q.elems > 1 else 0
    if any(values(i) != i * step for i in range(q.elems)):
        raise ShapeError(f"the first {q.elems} values of tv {tv} are not equally far apart in the flat index")
    lanes = min(size(threads), MATRIX_ROWS * q.op.count) if q.op.family == "matrix" else size(threads)
    first = compose_layouts(threads, Layout(lanes))
    registers = compose_layouts(values, Layout(size(values) // q.elems, q.elems))
    return Vectors(concat(first, registers, *rest), step, q.elems)


def _matrices(q: _Question, vectors: Vectors, rows: int) -> Violation | None:
    """A matrix is 8 of the tile's rows at one place, and an instruction takes several."""
    matrices, rest = size(vectors.starts) // MATRIX_ROWS, rows % MATRIX_ROWS
    if rest:
        wider = with_vectors(q.layout, q.elems, MATRIX_ROWS)
        change = "8 rows, or a multiple" if wider is None else f"layout {wider}"
        fix = {} if wider is None else {"layout": wider}
        return q.rule("tile").broken(
            f"the tile has {rows} rows", f"multiples of {MATRIX_ROWS}", change, **fix
        )
    if matrices % q.op.count == 0:
        return None
    fewer = next(n for n in (2, 1) if n < q.op.count and matrices % n == 0)
    fault = f"the tile has {matrices} matrices of 8 rows of 16 bytes, {q.op} moves {q.op.count}"
    accepted = f"multiples of {q.op.count} matrices"
    return _other_op("matrix.tile", fault, accepted, replace(q.op, count=fewer))


def _placed(q: _Question, vectors: Vectors) -> Iterator[Violation]:
    """Every unit is contiguous and aligned, on both sides of a copy."""
    sides = [("", q.layout, q.alignment, "layout")]
    if q.source is not None:
        sides.append(("source_", q.source, q.source_alignment, "source"))
    for prefix, layout, alignment, which in sides:
        torn = find_torn(layout, vectors)
        if torn is not None:
            yield _torn(q, torn, vectors, layout, prefix, which)
        if alignment % q.op.lane_bytes:
            fault, change = (
                f"the {which} starts at a multiple of {alignment} bytes",
                f"{q.op.lane_bytes} bytes",
            )
            fix = {f"{prefix}alignment_bytes": q.op.lane_bytes}
            yield q.rule(f"{prefix}base").broken(fault, f"multiples of {change}", change, **fix)


def _torn(
    q: _Question, torn: Torn, vectors: Vectors, layout: AnyLayout, prefix: str, which: str
) -> Violation:
    witness = idx2crd(torn.at, layout.shape)
    at, start = to_text(witness), layout(torn.at)
    if torn.contiguous:
        fault = f"at {at} of the {which} a lane's address is byte {start * q.element.bits / 8:g}"
        accepted = f"multiples of {q.op.lane_bytes} bytes"
    else:
        row = [layout(torn.at + i * vectors.step) - start for i in range(q.elems)]
        i = next(i for i, offset in enumerate(row) if offset != i)
        fault = f"at {at} of the {which} element {i} of a lane is at offset {start + row[i]}, not {start + i}"
        accepted = f"{q.elems} elements in a row"
    wider = with_vectors(layout, q.elems)
    leaf = None if wider is None else contiguous_leaf(wider)
    if leaf is None or leaf[1] != vectors.step:
        wider = None  # contiguous along another mode than that of the vectors
    change, fix = _narrower(q, wider, which)
    rule = q.rule(prefix + ("aligned" if torn.contiguous else "contiguous"))
    return Violation(rule, fault, accepted, change, fix, witness)


def _narrower(
    q: _Question, wider: AnyLayout | None, which: str = "layout"
) -> tuple[str, tuple[tuple[str, object], ...]]:
    """The widest instruction that is legal on the layout as it is; else the nearest layout, if any is."""
    for lane_bytes in (16, 8, 4, 2, 1):
        fits = lane_bytes < q.op.lane_bytes and 8 * lane_bytes % q.element.bits == 0
        if not fits or q.op.family == "matrix" or (q.op.family == "copy" and lane_bytes not in COPY_BYTES):
            continue
        other = replace(q, op=q.op.of_bytes(lane_bytes), source_bytes=None)
        cut = _cut(other)
        if isinstance(cut, Vectors) and not any("base" not in v.rule.name for v in _placed(other, cut)):
            return str(other.op), (("op", str(other.op)),)
    if wider is None:
        return "a layout that keeps what a lane moves together", ()
    return f"{which} {wider}", ((which, wider),)


def _padded(q: _Question) -> AnyLayout | None:
    """The nearest layout of whole vectors; None beside a source, whose shape it would no longer have."""
    rows = MATRIX_ROWS if q.op.family == "matrix" else 1
    return None if q.source is not None else with_vectors(q.layout, q.elems, rows)


def _in_rows(layout: AnyLayout) -> Layout:
    """The same shape with the last leaf contiguous."""
    strides, step = [], 1
    for extent in reversed(flatten_tree(layout.shape)):
        strides.append(step)
        step *= extent
    return Layout(layout.shape, unflatten_tree(tuple(reversed(strides)), layout.shape))
