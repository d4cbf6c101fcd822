"""The plan of a reduction: one pass or two, how many threads share a row, and how long that takes by a model.

The idea.  A reduction reads everything once and writes next to nothing, so a plan is good when memory never
waits: enough bytes in flight on every SM, and as much to do for each.

    rows, many           a warp or a block per row
    rows, few            several blocks per row, a workspace, a second pass
    columns              a block reads `rows_per_block` vectors side by side, its groups different steps

Where several modes are reduced the first pass may reduce one of them alone, and the second one the others:
pieces of rows that lie beside those of others are columns then, and columns of odd pitch can be skewed.  Rows
of few columns can lie beside each other in the first pass, so that these are whole vectors: see
`forms`.

Candidates are few; each is given a time by a model, see reduce_model, and the fastest comes first.  The
second pass of a split is a reduction too, of a workspace (splits, rows), and is planned in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from math import gcd, log, prod

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.instr import FOLDS
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import LayoutAlgError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.model import Machine, machine_of
from layoutalg.kernels.rowwise import reductions
from layoutalg.kernels.rowwise.forms import Beside, Later, first_pass, second_pass, with_rows
from layoutalg.kernels.rowwise.packed import (
    LONG_ROW_BYTES,
    REDUCTION,
    RUN_BYTES,
    SHORT_ROW_BYTES,
    packed_walk,
    ranked,
)
from layoutalg.kernels.rowwise.tensors import Form, normalise
from layoutalg.kernels.rowwise.unaligned import (
    LONG_VECTORS,
    HeadTail,
    reduction_walk,
)
from layoutalg.kernels.rowwise.walk import (
    MOST_THREADS,
    SECTOR_BYTES,
    VECTOR_BYTES,
    WARP,
    WORD_BYTES,
    Tiling,
    aligned,
    power_above,
)
from layoutalg.kernels.rowwise.ways.reduce_model import pass_us, plan_us, resident

VALUE = {1: "f32", 2: "u64", 4: "c128"}
"""The types of a workspace, as wide as values of so many words."""

MOST_WORDS = 8
"""The most words of the values of a thread that reduces columns."""

MOST_TURNS, LOADED_WORDS, PACKED_WAYS = 16, 64, 3
"""Limits for runs that are copied: rows of a thread, registers for their elements, and the number of ways
that are configurations."""

SHORT_PIECE, LEAST_TURNS = 1 << 12, 4
"""The most elements of a row that lie together for a first pass to keep them; the least rows of a first pass
that takes some of them beside each other."""

CUT_VECTORS = 4
"""Rows of at least so many of the widest vectors may be read by these from any start."""


def _words(fold: str) -> int:
    """Words of the values of a fold."""
    return FOLDS[fold].words if fold in FOLDS else 1


@dataclass(frozen=True, slots=True)
class ReduceConfig:
    """The way a block reduces its rows.

    `vec` elements per load; `lanes_per_row`, a power of two up to 32, `rows_per_block` and `groups_per_row`,
    a power of two, are threads; `rows_per_thread` where rows are reduced; `depth` loads of each in flight;
    `splits` blocks share the steps of a row.  With `packed` a block copies runs of rows to shared memory as
    they lie, and loads are from there.  The modes in `later` are reduced by a second pass; see `forms`.

    >>> from layoutalg.kernels.rowwise import plans, reduce_problem
    >>> plans(reduce_problem((64, 1000), 1, "sum", "f32"))[0].passes[0].config.lanes_per_row
    32
    """

    vec: int
    lanes_per_row: int
    rows_per_block: int
    groups_per_row: int
    depth: int
    rows_per_thread: int = 1
    splits: int = 1
    packed: bool = False
    later: Later | None = None

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows_per_block * self.threads_per_row

    @property
    def threads_per_row(self) -> int:
        """Threads of a block that share a row."""
        return self.lanes_per_row * self.groups_per_row

    def tiling(self, element: DType) -> Tiling:
        """The threads and vectors of a block, on elements of a type."""
        return Tiling(
            element, self.vec, self.rows_per_block, self.lanes_per_row, self.groups_per_row,
            self.rows_per_thread, self.splits,
        )  # fmt: skip


@dataclass(frozen=True)
class Pass:
    """The launch of a pass: `form` is walked as `config` says, results are multiplied by `factor`.

    To the result of a logsumexp the factor is added.
    """

    op: str
    form: Form
    config: ReduceConfig
    element: DType
    result: DType
    factor: float
    fold: str
    """The operation that joins two values."""
    joins: bool = False
    """Whether its elements are values of the fold."""
    labels: reductions.Labels | None = None
    left: int = 0
    """Elements of a last row of columns, which has fewer of them, behind the rows of its form."""

    @property
    def words(self) -> int:
        """Words of a value."""
        return _words(self.fold)

    @cached_property
    def walk(self) -> HeadTail:
        """The walk of a block."""
        tiling = self.config.tiling(self.element)
        if self.config.packed:
            return packed_walk(self.form, tiling, both=False)
        return reduction_walk(self.form, tiling, self.words)

    @property
    def values(self) -> int:
        """Values that a thread ends up with."""
        return self.config.rows_per_thread * self.walk.values

    @property
    def round_steps(self) -> int:
        """Steps of a whole round: `depth` of each thread of a row."""
        return self.config.threads_per_row * self.config.depth

    @property
    def rounds(self) -> int:
        """Rounds in which every thread has all its steps."""
        return self.walk.steps // self.round_steps

    @property
    def tail_steps(self) -> int:
        """Steps after the last whole round."""
        return self.walk.steps % self.round_steps

    @property
    def edge_rounds(self) -> int:
        """Single elements of a thread, at most."""
        return -(-self.walk.edge_steps // (self.config.threads_per_row * self.config.splits))

    @property
    def store_vec(self) -> int:
        """Elements of a store: those of a vector that lie together, aligned to their number."""
        c, widest = self.config, VECTOR_BYTES // self.result.nbytes
        if self.walk.rows:
            return 1
        if self.result.name in reductions.INTEGERS and self.result.nbytes < WORD_BYTES:
            return 1
        if c.splits > 1:
            return gcd(c.vec, self.form.outputs, widest)
        first, *others = self.form.kept
        if first.dst != 1:
            return 1
        behind = self.form.outputs if self.labels is not None and self.labels.counts else 0
        return gcd(c.vec, self.form.dst_offset, behind, *(m.dst for m in others), widest)

    @property
    def additions(self) -> int:
        """Roundings that an element can pass through, except that to the result's type: 0 for a maximum."""
        if self.fold in ("max", "min"):
            return 0
        c = self.config
        turns = -(-self.rounds // c.splits) * c.depth + -(-self.tail_steps // c.threads_per_row)
        within = (c.vec - 1).bit_length() if self.walk.rows and self.words == 1 else 0
        if self.words > 1:
            turns *= c.vec if self.walk.rows else 1
        between = (c.lanes_per_row - 1).bit_length() + (c.groups_per_row - 1).bit_length()
        turns += self.left > 0
        return within + turns + self.edge_rounds + between + (2 if self.factor != 1.0 else 0)


@dataclass(frozen=True)
class ReducePlan:
    """The launches of a problem, in order; the first of two writes a workspace that the second reads.

    >>> from layoutalg.kernels.rowwise.reductions import reduce_problem
    >>> plan = plans(reduce_problem((1 << 26,), 0, "sum", "f32"))[0]
    >>> len(plan.passes), plan.workspace_elems == plan.passes[0].config.splits
    (2, True)
    """

    problem: reductions.ReduceProblem
    passes: tuple[Pass, ...]
    predicted_us: float

    def for_any_rows(self) -> ReducePlan:
        """The plan whose only pass is for any number of rows; itself where there are two."""
        only, *others = self.passes
        return self if others else replace(self, passes=(replace(only, form=with_rows(only.form)),))

    @property
    def workspace_elems(self) -> int:
        """Words that the first pass writes for the second, in whole 16-byte units; 0 for one pass."""
        first = self.passes[0]
        if len(self.passes) == 1:
            return 0
        return -(-first.config.splits * first.form.outputs * first.words // 4) * 4

    @property
    def additions(self) -> int:
        """Roundings that an element can pass through, except that to the result's type."""
        return sum(p.additions for p in self.passes)


def plans(p: reductions.ReduceProblem, arch: str | Arch = DEFAULT_ARCH) -> tuple[ReducePlan, ...]:
    """The plans of a problem, the fastest by the model first.  Raises ShapeError where nothing is read.

    >>> from layoutalg.kernels.rowwise.reductions import reduce_problem
    >>> print(plans(reduce_problem((64, 256, 56, 56), (0, 2, 3), "mean", "f16"))[0].passes[0].form)
    R 3136:1, K 256:3136->1, R 64:802816
    """
    if p.empty:
        raise ShapeError(f"{p} reads nothing: there is nothing to launch")
    found = configs(_form(p)[0], p.dtype, find_arch(arch), words=_words(p.fold))
    return tuple(sorted((plan_with(p, c, arch) for c in found), key=lambda plan: plan.predicted_us))


def plan_with(p: reductions.ReduceProblem, c: ReduceConfig, arch: str | Arch = DEFAULT_ARCH) -> ReducePlan:
    """The plan whose first pass has a given configuration.  Raises UnsupportedError where it does not fit.

    >>> from layoutalg.kernels.rowwise.reductions import reduce_problem
    >>> plan = plan_with(reduce_problem((64, 4096), 1, "sum", "f32"), ReduceConfig(4, 32, 1, 2, 4, splits=2))
    >>> plan.workspace_elems
    128
    """
    chip, (form, factor) = find_arch(arch), _form(p)
    m = machine_of(chip)
    if c.splits == 1 and c.later is None:
        passes: tuple[Pass, ...] = (
            Pass(p.op, form, c, p.axes.dtype, p.result, factor, p.fold, labels=p.labels),
        )
    else:
        words = _words(p.fold)
        value, op = find_dtype(VALUE[words]), p.op if words > 1 else reductions.FOLD[p.op]
        own, left = (form, 0) if c.later is None else first_pass(form, c.later)
        part = Pass(op, own, c, p.axes.dtype, value, 1.0, p.fold, labels=p.labels, left=left)
        if left and (words > 1 or c.rows_per_thread > 1):
            raise UnsupportedError(
                f"{p} with {left} elements of a row that is left: floats by one column of vectors per thread "
                f"that all start at {c.vec} elements are accepted"
            )
        joined, joins = second_pass(form, c.later, c.splits, own.outputs), words > 1
        ways = (
            Pass(p.op, joined, d, value, p.result, factor, p.fold, joins, p.labels)
            for d in configs(joined, value, chip, False, words)
        )
        passes = (part, min(ways, key=lambda way: pass_us(way, m)))
    return ReducePlan(p, passes, plan_us(passes, m))


def _room(chip: Arch) -> int:
    """Bytes of a block for runs that it copies, none without asynchronous copies."""
    return min(RUN_BYTES, chip.max_shared_bytes_per_block) if chip.compute_capability >= (8, 0) else 0


@lru_cache(64)
def _form(p: reductions.ReduceProblem) -> tuple[Form, float]:
    """The normal form without reduced modes that broadcast, and the factor that stands for them.

    For a product and for integers no factor replaces the repetition.
    """
    form = normalise(p.axes, weighted=reductions.FOLDED[p.op] in ("arg", "nll"))
    again = prod(m.extent for m in form.reduced if not m.src)
    if p.op == "prod" or (p.op == "sum" and p.dtype.name in reductions.INTEGERS):
        return form, 1.0
    factor = {
        "sum": again, "mean": again / p.axes.count, "var": again * reductions.share_of(p),
        "logsumexp": log(again), "cross_entropy": log(again),
    }.get(p.op, 1.0)  # fmt: skip
    return replace(form, modes=tuple(m for m in form.modes if m.src or not m.reduced)), float(factor)


# --- candidates ----------------------------------------------------------------------------------------


def candidates(
    form: Form, element: DType, chip: Arch, split: bool = True, words: int = 1
) -> Iterator[tuple[ReduceConfig, LayoutAlgError | None]]:
    """Configurations worth a comparison, each with its refusal, None where it fits.

    `split`: with several blocks per row too; `words`: of a value that is folded.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem
    >>> form = normalise(axes_problem((8, 8192), 1, "f32"))
    >>> tried = candidates(form, find_dtype("f32"), find_arch("sm_90"))
    >>> next(str(why) for c, why in tried if c.groups_per_row == 16 and why is not None)
    'rows by 512 threads, split: each thread has one round of loads'
    """
    rows, widest = form.lead.reduced, VECTOR_BYTES // element.nbytes
    if split and _room(chip):
        yield from ((config, None) for config in _packed(form, element, chip))
    found = _rows(form, element, words) if rows else _columns(form, element, words)
    for config in found:
        yield from _with_splits(form, config, element, chip, words, split=split)
    if split and words == 1:
        for later in _kept_first(form, element, wide=config.vec == widest):
            own = first_pass(form, later).form
            for one in _columns(own, element, words):
                yield from _with_splits(own, replace(one, later=later), element, chip, words, split=True)
    if config.vec < (widest if rows else min(widest, MOST_WORDS // words)):
        yield replace(config, vec=widest), UnsupportedError(f"loads of {widest} elements: {_narrow(form)}")


def _kept_first(form: Form, element: DType, *, wide: bool) -> Iterator[Later]:
    """Yield the modes or rows that a first pass may leave to a second one.

    These are short pieces of rows, and one of two modes where columns are read by narrow vectors: rows of the
    other can be skewed.  Of three and more modes all but one are left, where there is a choice.  Adjacent
    rows are taken together, as few as make whole vectors, and as many as make those of a warp.
    """
    count, rows = len(form.reduced), form.lead.reduced
    if count == 1 and not rows and not wide and form.lead.src == 1:
        vec, n, (m,) = VECTOR_BYTES // element.nbytes, form.lead.extent, form.reduced
        least = vec // gcd(n, vec)
        whole = m.src == n and not any(v % vec for v in (form.src_offset, *(x.src for x in form.modes[2:])))
        for beside in dict.fromkeys((least, least * power_above(WARP * vec / (least * n)))):
            if whole and beside * LEAST_TURNS <= m.extent:
                yield Beside(beside)
    if count < 2 or (rows and form.lead.extent > SHORT_PIECE):
        return
    if rows:
        yield 0
    elif count == 2 and not wide:
        yield from range(2)
    if count > 2 and (rows or not wide):
        yield from (tuple(n for n in range(count) if n != one) for one in range(int(rows), count))


def _with_splits(
    form: Form, config: ReduceConfig, element: DType, chip: Arch, words: int, *, split: bool
) -> Iterator[tuple[ReduceConfig, LayoutAlgError | None]]:
    """A configuration, and it with several blocks per row."""
    said = f"{'rows' if form.lead.reduced else 'columns'} by {config.threads_per_row} threads"
    if config.threads > MOST_THREADS:
        yield config, ResourceError(f"threads per block, {said}", config.threads, MOST_THREADS)
        return
    yield config, None
    if split:
        walk = reduction_walk(form, config.tiling(element), words)
        yield from _split(config, walk, words, machine_of(chip), said)


def _split(
    config: ReduceConfig, walk: HeadTail, words: int, m: Machine, said: str
) -> Iterator[tuple[ReduceConfig, LayoutAlgError | None]]:
    """The configuration with as many blocks per row as fill the multiprocessors once or twice."""
    whole = walk.steps // (config.threads_per_row * config.depth)
    if whole <= 1:
        why = "each thread has one round of loads" if whole else "not every thread has a round of loads"
        yield replace(config, splits=2), UnsupportedError(f"{said}, split: {why}")
        return
    at_once = resident(config, walk, words, m)
    blocks = (waves * at_once * m.sms for waves in (1, 2))
    found = [min(whole, n // walk.tiles) for n in blocks if walk.tiles < 4 * m.sms]
    yield from ((replace(config, splits=n), None) for n in found if n > 1)
    if max(found, default=1) <= 1:
        why = f"{walk.tiles} blocks are enough for {m.sms} multiprocessors"
        yield replace(config, splits=2), UnsupportedError(f"{said}, split: {why}")


def _narrow(form: Form) -> str:
    """The reason why loads are not as wide as they can be."""
    if form.lead.src != 1:
        return f"neighbours lie {form.lead.src} elements apart"
    if form.lead.reduced:
        return f"rows of {form.lead.extent} elements are short, and do not start and end at such loads"
    return "not all rows of columns start at such loads"


def configs(
    form: Form, element: DType, chip: Arch, split: bool = True, words: int = 1
) -> tuple[ReduceConfig, ...]:
    """The candidates that fit, each once."""
    tried = candidates(form, element, chip, split, words)
    return tuple(dict.fromkeys(c for c, why in tried if why is None))


def refusals(
    p: reductions.ReduceProblem, arch: str | Arch = DEFAULT_ARCH
) -> dict[ReduceConfig, LayoutAlgError]:
    """The candidates of a problem that do not fit, with the reason.

    >>> from layoutalg.kernels.rowwise.reductions import reduce_problem
    >>> [str(why) for why in refusals(reduce_problem((4096, 31), 1, "sum", "f16")).values()][-1]
    'loads of 8 elements: rows of 31 elements are short, and do not start and end at such loads'
    """
    words = _words(p.fold)
    tried = candidates(_form(p)[0], p.dtype, find_arch(arch), words=words)
    return {c: why for c, why in tried if why is not None}


def _rows(form: Form, element: DType, words: int) -> Iterator[ReduceConfig]:
    """Try as many lanes per row as it has loads, up to a warp, and fewer with up to four loads in flight."""
    for vec in _row_vectors(form, element, words):
        walk = reduction_walk(form, Tiling(element, vec, 1, 1), words)
        near = power_above(walk.vectors if walk.outer else walk.steps)
        narrow = 1 if vec * element.nbytes >= 8 else 2
        for lanes in (
            (32,) if near >= 256 else [n for n in (32, 16, 8, 4, 2, 1) if n <= near and 32 * n >= near]
        ):
            yield from _by_lanes(walk, vec, lanes, narrow, near)


def _by_lanes(walk: HeadTail, vec: int, lanes: int, narrow: int, near: int) -> Iterator[ReduceConfig]:
    """Rows with so many lanes each."""
    share = -(-walk.steps // lanes)
    for depth in (8 * narrow, 4 * narrow) if lanes == min(32, near) else (4 * narrow,):
        for most in (8, 16, 32):
            groups = min(most, _power_below(max(1, share // depth)))
            least = max(1, 32 // (lanes * groups))
            rows = max(min(256 // (lanes * groups), power_above(walk.places)), least)
            mine = min(depth, -(-share // groups))
            own = 1
            while 2 * own * mine <= 4 * narrow and 2 * own * rows * 1024 <= walk.places:
                own *= 2
            yield ReduceConfig(vec, lanes, rows, groups, mine, own)


def _packed(form: Form, element: DType, chip: Arch) -> Iterator[ReduceConfig]:
    """Runs of slabs copied to shared memory, where rows are short, or columns few or not whole vectors.

    Slabs of one run alone, and no rows of one load: others are read as fast by vectors.
    """
    run, first = form.lead.extent * form.lead.src * element.nbytes, form.lead
    whole = run % VECTOR_BYTES == 0 and first.src == 1
    if (whole and run >= (SHORT_ROW_BYTES if first.reduced else 2 * SECTOR_BYTES)) or run > LONG_ROW_BYTES:
        return
    if first.reduced and _row_vector(form, element) == first.extent:
        return
    read = prod(m.extent for m in form.modes if m.src) * element.nbytes
    walks = (way.walk for way in ranked(form, element, REDUCTION, machine_of(chip), read, _room(chip)))
    fit = (w for w in walks if w.tiling.rows_per_thread <= MOST_TURNS and w.parts.runs == 1)
    for walk in islice(fit, PACKED_WAYS):
        t, accesses = walk.tiling, -(-walk.steps // walk.tiling.lanes)
        depth = max(1, min(accesses, LOADED_WORDS // (t.rows_per_thread * t.words)))
        yield ReduceConfig(t.vec, t.lanes, t.rows_per_block, 1, depth, t.rows_per_thread, packed=True)


def _row_vector(form: Form, element: DType) -> int:
    """Elements of a load along rows: wide where rows are long enough for what sticks out at their ends."""
    if not form.modes or form.lead.src != 1:
        return 1
    n, widest = form.lead.extent, VECTOR_BYTES // element.nbytes
    if n >= LONG_VECTORS * widest:
        return widest
    whole = (v for v in (8, 4, 2) if v <= widest and n % v == 0 and aligned(form, v))
    return next(whole, 1)


def _row_vectors(form: Form, element: DType, words: int) -> tuple[int, ...]:
    """Loads along rows: those, and of floats the widest ones where vectors may hold what other rows have."""
    vec, widest = _row_vector(form, element), VECTOR_BYTES // element.nbytes
    wide = words == 1 and form.lead.src == 1 and form.lead.extent >= CUT_VECTORS * widest
    return (vec, widest) if vec < widest and wide else (vec,)


def _columns(form: Form, element: DType, words: int) -> Iterator[ReduceConfig]:
    """Try as many columns per thread as a load has, and as registers hold values of `words` words."""
    first, *others = form.modes
    widest = min(VECTOR_BYTES // element.nbytes, MOST_WORDS // words) if first.src == 1 else 1
    vec = gcd(widest, first.extent, form.src_offset, *(m.src for m in others))
    walk = HeadTail(form, Tiling(element, vec, 1, 1))
    depth = 8 if vec * element.nbytes >= 8 else 16
    sides = [min(most * max(1, 4 // vec), 1024, walk.places) for most in (8, 16, 32, 64, 256)]
    for rows in dict.fromkeys((min(walk.vectors, 256), *sides)):
        for threads in (256, 512, 1024):
            groups = max(_power_below(max(1, threads // rows)), 32 // gcd(rows, 32))
            while groups > walk.steps and groups // 2 * rows % 32 == 0 and groups > 1:
                groups //= 2
            mine = min(depth, -(-walk.steps // groups))
            yield ReduceConfig(vec, 1, rows, groups, mine)
            if vec == 1 and words == 1 and 2 * mine <= depth and rows % 32 == 0:  # few steps: more columns
                yield ReduceConfig(vec, 1, rows, groups, mine, min(8, depth // mine))


def _power_below(x: int) -> int:
    return 1 << (x.bit_length() - 1)
