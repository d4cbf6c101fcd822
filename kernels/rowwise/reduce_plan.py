"""The plan of a reduction: one pass or two, and how many threads share an output.

The idea.  A reduction reads everything once and writes next to nothing, so a plan is good when memory never
waits: enough bytes in flight on every SM, and as much to do for each.

    rows, many           a warp or a block a row
    rows, few            several blocks a row, a workspace, a second pass
    columns              a block reads `kept` vectors side by side, its `slow` groups different rows

Candidates are few; each is given a time by a model (reduce_model), and the fastest comes first.  The second
pass of a split is a reduction too, of a workspace (splits, outputs), and is planned in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, nan, prod
from types import MappingProxyType

from layoutalg.arch import Arch, find_arch
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels.rowwise.reduce_model import Rates, model_us, resident
from layoutalg.kernels.rowwise.reduce_modes import Axes, AxesProblem, Mode, axes_problem, normalise, shortest
from layoutalg.kernels.rowwise.reduce_walk import ReduceConfig, Walk

FOLD = MappingProxyType({"sum": "sum", "mean": "sum", "max": "max"})
"""What each operation folds its elements with."""

ELEMENTS = ("f32", "f16", "bf16")
"""Element types that can be reduced."""

VECTOR_BYTES = 16
"""The widest access of a lane."""


@dataclass(frozen=True, slots=True)
class ReduceProblem:
    """`op` over some modes of a tensor, the outputs of type `result`.

    >>> print(reduce_problem((2, 3), 1, "sum", "f16"))
    sum of (2,3) over (1) f16, src (3,1) -> dst (1,0)
    """

    op: str
    axes: AxesProblem
    result: DType

    @property
    def empty(self) -> bool:
        """True when nothing is read: no outputs, or outputs of nothing."""
        return self.axes.count * self.axes.outputs == 0

    @property
    def of_nothing(self) -> float | None:
        """What every output is if no element is reduced: 0 for a sum, NaN for a mean.

        None if some are, and if there are no outputs: then a maximum has no element either.
        """
        return None if self.axes.count or not self.axes.outputs else {"sum": 0.0, "mean": nan}[self.op]

    @property
    def read_bytes(self) -> int:
        """Bytes of the source that exist once."""
        return self.axes.read_elems * self.axes.dtype.nbytes

    @property
    def written_bytes(self) -> int:
        """Bytes of the outputs."""
        return self.axes.outputs * self.result.nbytes

    def __str__(self) -> str:
        return f"{self.op} of {self.axes}"


def reduce_problem(
    shape: tuple[int, ...],
    axes: int | tuple[int, ...] | None,
    op: str,
    dtype: str | DType,
    src: tuple[int, ...] | None = None,
    dst: tuple[int, ...] | None = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    result: str | DType | None = None,
) -> ReduceProblem:
    """A checked problem: the "sum", "max" or "mean" over `axes` (None: all), as type `result`.

    Strides, one for every mode of `shape` on either side, are in elements, row-major by default; those in
    `dst` of reduced modes count for nothing.  `result` is the source's type by default, or f32.  Raises
    UnknownNameError for another operation, UnsupportedError for other types, ShapeError for a maximum of
    nothing, and as `axes_problem` does.

    >>> reduce_problem((4, 0), 1, "sum", "f32").of_nothing
    0.0
    """
    if op not in FOLD:
        raise UnknownNameError("reduction", str(op), FOLD)
    p = axes_problem(shape, axes, dtype, src, dst, src_offset, dst_offset)
    to = p.dtype if result is None else find_dtype(result)
    for what, kind in (("elements", p.dtype), ("results", to)):
        if kind.name not in ELEMENTS:
            raise UnsupportedError(f"{op} with {what} of {kind}: {', '.join(ELEMENTS)} are accepted")
    if to.name not in (p.dtype.name, "f32"):
        raise UnsupportedError(f"{op} of {p.dtype} as {to}: {p.dtype} and f32 are accepted")
    if op == "max" and not p.count and p.outputs:
        raise ShapeError(f"the maximum over {p.axes} of shape {p.shape} is that of no elements: it has none")
    return ReduceProblem(op, p, to)


@dataclass(frozen=True)
class Pass:
    """One launch: `form` is walked as `config` says, results are multiplied by `factor`.

    >>> plans(reduce_problem((64, 1000), 1, "sum", "f32"))[0].passes[0].additions
    12
    """

    op: str
    form: Axes
    config: ReduceConfig
    element: DType
    result: DType
    factor: float

    @property
    def fold(self) -> str:
        """What joins two values: "sum" or "max"."""
        return FOLD[self.op]

    @cached_property
    def walk(self) -> Walk:
        """The geometry."""
        return Walk(self.form, self.config)

    @property
    def store_vec(self) -> int:
        """Elements of a store."""
        return gcd(self.walk.target_vec, VECTOR_BYTES // self.result.nbytes)

    @property
    def additions(self) -> int:
        """Roundings that an element can pass through, but for that to the result's type: 0 for a maximum."""
        return 0 if self.fold == "max" else self.walk.additions + (2 if self.factor != 1.0 else 0)


@dataclass(frozen=True)
class ReducePlan:
    """The launches of a problem, in order; the first of two writes a workspace that the second reads.

    >>> plan = plans(reduce_problem((1 << 26,), 0, "sum", "f32"))[0]
    >>> len(plan.passes), plan.workspace_elems == plan.passes[0].config.splits
    (2, True)
    """

    problem: ReduceProblem
    passes: tuple[Pass, ...]
    predicted_us: float

    @property
    def workspace_elems(self) -> int:
        """f32 elements that the first pass writes for the second; 0 for one pass."""
        first = self.passes[0]
        return first.config.splits * first.form.outputs if len(self.passes) > 1 else 0

    @property
    def additions(self) -> int:
        """Roundings that an element can pass through, but for that to the result's type."""
        return sum(p.additions for p in self.passes)


def plans(p: ReduceProblem, arch: str | Arch = "sm_90") -> tuple[ReducePlan, ...]:
    """The plans of a problem, the fastest by the model first.  Raises ShapeError where nothing is read.

    >>> print(plans(reduce_problem((64, 256, 56, 56), (0, 2, 3), "mean", "f16"))[0].passes[0].form)
    R 3136:1, K 256:3136->1, R 64:802816
    """
    if p.empty:
        raise ShapeError(f"{p} reads nothing: there is nothing to launch")
    rates = _rates(arch)
    configs = dict.fromkeys(candidates(_form(p)[0], p.axes.dtype, rates))
    return tuple(sorted((plan_with(p, c, arch) for c in configs), key=lambda plan: plan.predicted_us))


def plan_with(p: ReduceProblem, c: ReduceConfig, arch: str | Arch = "sm_90") -> ReducePlan:
    """The plan whose first pass has a given configuration.

    >>> plan = plan_with(reduce_problem((64, 4096), 1, "sum", "f32"), ReduceConfig(4, 32, 1, 2, 4, splits=2))
    >>> plan.workspace_elems
    128
    """
    rates, (form, factor) = _rates(arch), _form(p)
    if c.splits == 1:
        passes: tuple[Pass, ...] = (Pass(p.op, form, c, p.axes.dtype, p.result, factor),)
    else:
        f32 = find_dtype("f32")
        part = Pass(FOLD[p.op], form, c, p.axes.dtype, f32, 1.0)
        joined = _joining(part, form)
        ways = (Pass(p.op, joined, d, f32, p.result, factor) for d in candidates(joined, f32, rates, False))
        passes = (part, min(ways, key=lambda way: pass_us(way, rates)))
    return ReducePlan(p, passes, sum(pass_us(q, rates) for q in passes))


def _rates(arch: str | Arch) -> Rates:
    board = find_arch(arch).board
    return Rates() if board is None else Rates(sms=board.sms)


def _form(p: ReduceProblem) -> tuple[Axes, float]:
    """The shortest form without reduced modes that broadcast, and the factor that stands for them."""
    form = normalise(p.axes)
    again = prod(m.extent for m in form.reduced if not m.src)
    factor = {"max": 1.0, "sum": again, "mean": again / p.axes.count}[p.op]
    return replace(form, modes=tuple(m for m in form.modes if m.src or not m.reduced)), float(factor)


def _joining(part: Pass, form: Axes) -> Axes:
    """The reduction of the workspace that a split pass writes."""
    splits, outputs = part.config.splits, form.outputs
    modes, step = [Mode(splits, outputs, 0, True)], 1
    for m in form.kept:
        modes.append(Mode(m.extent, step, m.dst, False))
        step *= m.extent
    return Axes(4, shortest(modes), 0, form.dst_offset, splits * outputs, form.dst_elems)


def pass_us(p: Pass, rates: Rates) -> float:
    """The time that the model gives a pass, in microseconds.

    >>> p = plans(reduce_problem((8192, 8192), 1, "sum", "f32"))[0].passes[0]
    >>> 60 < pass_us(p, Rates()) < 70
    True
    """
    return model_us(p.walk, p.element.nbytes, p.result.nbytes, rates)


# --- candidates ----------------------------------------------------------------------------------------


def candidates(form: Axes, element: DType, rates: Rates, split: bool = True) -> Iterator[ReduceConfig]:
    """Configurations worth a comparison; `split`: with several blocks an output too.

    >>> from layoutalg.kernels.rowwise.reduce_modes import axes_problem
    >>> form = normalise(axes_problem((8192, 8192), 1, "f32"))
    >>> ReduceConfig(4, 32, 1, 8, 8) in list(candidates(form, find_dtype("f32"), Rates()))
    True
    """
    rows = not form.modes or form.modes[0].reduced
    for config in (_rows if rows else _columns)(form, element.nbytes):
        yield config
        walk = Walk(form, config)
        whole = walk.steps // walk.stride
        if split and whole > 1 and walk.groups < 4 * rates.sms:
            for waves in (1, 2):
                splits = min(whole, waves * resident(config, rates) * rates.sms // walk.groups)
                if splits > 1:
                    yield replace(config, splits=splits)


def _rows(form: Axes, size: int) -> Iterator[ReduceConfig]:
    """As many lanes a row as it has loads, up to a warp; or fewer, each with up to four loads in flight."""
    vec = _row_vector(form, size)
    walk = Walk(form, ReduceConfig(vec, 1, 1, 1, 1))
    near = _power_above(walk.vectors if walk.outer else walk.steps)
    narrow = 1 if vec * size >= 8 else 2
    for fast in (32,) if near >= 256 else [f for f in (32, 16, 8, 4, 2, 1) if f <= near and 32 * f >= near]:
        share = -(-walk.steps // fast)
        for depth in (8 * narrow, 4 * narrow) if fast == min(32, near) else (4 * narrow,):
            for most in (8, 16, 32):
                slow = min(most, _power_below(max(1, share // depth)))
                least = max(1, 32 // (fast * slow))
                kept = max(min(256 // (fast * slow), _power_above(walk.places)), least)
                mine = min(depth, -(-share // slow))
                outs = 1
                while 2 * outs * mine <= 4 * narrow and 2 * outs * kept * 1024 <= walk.places:
                    outs *= 2
                yield ReduceConfig(vec, fast, kept, slow, mine, outs)


def _row_vector(form: Axes, size: int) -> int:
    """Elements of a load along rows: wide where rows are long enough for what sticks out at their ends."""
    if not form.modes or form.modes[0].src != 1:
        return 1
    n, widest = form.modes[0].extent, VECTOR_BYTES // size
    if n >= 16 * widest:
        return widest
    for vec in (8, 4, 2):
        if vec <= widest and Walk(form, ReduceConfig(vec, 1, 1, 1, 1)).aligned and n % vec == 0:
            return vec
    return 1


def _columns(form: Axes, size: int) -> Iterator[ReduceConfig]:
    first, *others = form.modes
    vec = VECTOR_BYTES // size if first.src == 1 else 1
    vec = gcd(vec, first.extent, form.src_offset, *(m.src for m in others))
    walk = Walk(form, ReduceConfig(vec, 1, 1, 1, 1))
    depth = 8 if vec * size >= 8 else 16
    for most in (8, 16, 32, 64, 256):
        kept = min(most * max(1, 4 // vec), 1024, walk.places)
        for threads in (256, 512, 1024):
            slow = max(_power_below(max(1, threads // kept)), 32 // gcd(kept, 32))
            while slow > walk.steps and slow // 2 * kept % 32 == 0 and slow > 1:
                slow //= 2
            if kept * slow <= 1024:
                yield ReduceConfig(vec, 1, kept, slow, min(depth, -(-walk.steps // slow)))


def _power_below(x: int) -> int:
    return 1 << (x.bit_length() - 1)


def _power_above(x: int) -> int:
    return 1 << (max(1, x) - 1).bit_length()
