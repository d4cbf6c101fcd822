"""Cross entropy: losses of rows with a target each, in one read of them; the problem and its launches.

    cross_entropy_problem((n, c), 1, "f16", "s64", ignore_index=-100, reduction="mean")
    losses(problem, numbers, targets)      a loss per row, and whether it counts, by definition
    joined_losses(problem, numbers, targets)     the outputs by definition

    loss of a row x with the target t      log sum e^x - x[t], 0 where t is ignore_index
    mean                                   the sum of losses over the number of those that count

A target that is neither of the classes nor ignore_index makes a loss that is NaN.

Losses are made by a reduction with labels, their sum by another, a mean by a division:

    none     losses                                             src, target -> dst
    sum      losses, their sum                                  src, target -> losses -> dst
    mean     losses and what counts, sums of both, quotient     src, target -> losses -> sums -> dst

The idea.  A row is read once: maximum, sum of exponentials and the element that a target names are one value
of a fold, "nll", which threads and blocks join like any other.  Losses are 4 bytes per row; what becomes of
them is a reduction of a vector, or of two.

Between the launches are the buffers `losses`, with what counts behind them, and `sums`.  Whoever launches may
have them behind the partials in the scratch memory: where, and how large that is then, says `room`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import SCRATCH, Kernel, LaunchSequence, launch_sequence
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels.modes import strided
from layoutalg.kernels.rowwise.programs import build_reduction
from layoutalg.kernels.rowwise.reductions import INT32_COUNT, Labels, ReduceProblem, reduce_problem
from layoutalg.kernels.rowwise.tensors import ELEMENTS, AxesProblem, axes_problem
from layoutalg.kernels.rowwise.ways import ReduceConfig, ReducePlan, plan_with, plans

Reduction: TypeAlias = Literal["none", "sum", "mean"]
"""The reduction of the losses."""

REDUCTIONS: tuple[Reduction, ...] = ("none", "sum", "mean")

TARGETS = ("s64", "s32")
"""Types of targets."""


@dataclass(frozen=True, slots=True)
class CrossEntropyProblem:
    """Losses of rows along the one mode in `axes.axes`, with a target each; or their sum, or their mean.

    >>> print(cross_entropy_problem((8, 1000), 1, "f16"))
    mean cross entropy of (8,1000) over (1) f16, src (1000,1) -> dst (1,0), targets s64
    """

    axes: AxesProblem
    target: DType
    ignore_index: int
    reduction: Reduction
    result: DType
    target_offset: int = 0

    op: ClassVar[str] = "cross_entropy"
    in_place: ClassVar[bool] = False
    parameters: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @property
    def dtype(self) -> DType:
        """Type of the elements of the source."""
        return self.axes.dtype

    @property
    def losses(self) -> ReduceProblem:
        """The reduction that makes the losses; of what is summed, as floats."""
        result, axes = self.result, self.axes
        if self.reduction != "none":
            result = find_dtype("f32")
            axes = replace(axes, dst_offset=0, target_elems=axes.outputs)
        labels = Labels(
            self.target.nbytes, self.axes.count, self.ignore_index, self.target_offset,
            self.reduction == "mean",
        )  # fmt: skip
        return ReduceProblem("cross_entropy", axes, result, labels=labels)

    @property
    def outputs(self) -> int:
        """Elements of the result."""
        return self.axes.outputs if self.reduction == "none" else 1

    @property
    def loss_words(self) -> int:
        """Floats between the launches: losses, and whether they count."""
        return {"none": 0, "sum": 1, "mean": 2}[self.reduction] * self.axes.outputs

    @property
    def moved_bytes(self) -> int:
        """Bytes that must be read and written."""
        targets = self.axes.outputs * self.target.nbytes
        return self.axes.read_elems * self.dtype.nbytes + targets + self.outputs * self.result.nbytes

    def __str__(self) -> str:
        made = {"none": "", "sum": "sum of ", "mean": "mean "}[self.reduction]
        ignored = f", {self.ignore_index} ignored" if self.ignore_index != IGNORE_INDEX else ""
        return f"{made}cross entropy of {self.axes}, targets {self.target}{ignored}"


IGNORE_INDEX = -100
"""The target that is ignored where none is named, as in PyTorch."""


def cross_entropy_problem(
    shape: tuple[int, ...],
    axis: int = -1,
    dtype: str | DType = "f32",
    target: str | DType = "s64",
    src: tuple[int, ...] | None = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    *,
    target_offset: int = 0,
    ignore_index: int = IGNORE_INDEX,
    reduction: str = "mean",
    result: str | DType | None = None,
) -> CrossEntropyProblem:
    """A checked problem: classes along `axis`, targets and losses dense, in the order of the other modes.

    Strides and offsets are in elements.  Raises ShapeError for axes and strides that make no tensor and where
    there is no class, UnknownNameError for another reduction, UnsupportedError for other types,
    ResourceError for more than INT32_COUNT classes, ArgumentTypeError for an ignore_index that is not an
    integer of 64 bits.

    >>> cross_entropy_problem((4, 3, 5), 1, reduction="none").outputs
    20
    """
    p = axes_problem(shape, axis, dtype, src, None, src_offset, dst_offset)
    if p.dtype.name not in ELEMENTS:
        raise UnsupportedError(f"cross entropy of {p.dtype}: {', '.join(ELEMENTS)} are accepted")
    kind, to = find_dtype(target), p.dtype if result is None else find_dtype(result)
    if kind.name not in TARGETS:
        raise UnsupportedError(f"targets of {kind}: {' and '.join(TARGETS)} are accepted")
    if to.name not in (p.dtype.name, "f32"):
        raise UnsupportedError(f"cross entropy of {p.dtype} as {to}: {p.dtype} and f32 are accepted")
    if reduction not in REDUCTIONS:
        raise UnknownNameError("reduction of losses", str(reduction), REDUCTIONS)
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise ArgumentTypeError(f"ignore_index is {ignore_index!r}: an int is needed")
    if not -(1 << 63) <= ignore_index < 1 << 63:
        raise ArgumentTypeError(f"ignore_index is {ignore_index}: an integer of 64 bits is needed")
    if not p.count and p.outputs:
        raise ShapeError(f"the cross entropy over {p.axes} of shape {p.shape} has no classes")
    if p.count > INT32_COUNT:
        raise ResourceError("classes of a cross entropy", p.count, INT32_COUNT)
    return CrossEntropyProblem(p, kind, ignore_index, reduction, to, target_offset)


def losses(p: CrossEntropyProblem, src: Any, targets: Any) -> tuple[Any, Any]:
    """The loss of every row, float64 of the other modes' shape, and 1.0 or 0.0: whether it counts.

    `src` holds numbers from the first place on, `targets` integers, both flat.

    >>> import numpy
    >>> p = cross_entropy_problem((2, 2), ignore_index=7)
    >>> loss, counts = losses(p, numpy.zeros(4), numpy.array([1, 7]))
    >>> loss.round(3).tolist(), counts.tolist()
    ([0.693, 0.0], [1.0, 0.0])
    """
    x = p.axes
    rows = numpy.moveaxis(strided(src, x.shape, x.src, x.src_offset).astype("f8"), x.axes[0], -1)
    at = targets[p.target_offset : p.target_offset + x.outputs].astype("i8").reshape(x.kept_shape)
    with numpy.errstate(all="ignore"):
        most = rows.max(axis=-1, initial=-numpy.inf)
        base = numpy.where(numpy.isfinite(most), most, 0)
        total = numpy.log(numpy.exp(rows - base[..., None]).sum(axis=-1))
        inside = (at >= 0) & (at < x.count)
        named = numpy.take_along_axis(rows, numpy.where(inside, at, 0)[..., None], axis=-1)[..., 0]
        loss = numpy.where(inside, (base - named) + total, numpy.nan)
    ignored = at == p.ignore_index
    return numpy.where(ignored, 0.0, loss), numpy.where(ignored, 0.0, 1.0)


def joined_losses(p: CrossEntropyProblem, src: Any, targets: Any) -> Any:
    """The result by definition, in float64.

    >>> import numpy
    >>> joined_losses(cross_entropy_problem((2, 4)), numpy.zeros(8), numpy.array([1, 2])).round(3).tolist()
    1.386
    """
    if not prod(p.axes.shape):
        nothing = {"none": numpy.zeros(p.axes.kept_shape), "sum": numpy.float64(0)}
        return nothing.get(p.reduction, numpy.float64(numpy.nan))
    loss, counts = losses(p, src, targets)
    if p.reduction == "none":
        return loss
    with numpy.errstate(all="ignore"):
        return loss.sum() / (counts.sum() if p.reduction == "mean" else 1.0)


UNIT_BYTES = 16
"""The alignment of buffers."""


class Room(NamedTuple):
    """The offsets in bytes of buffers in the scratch memory, behind partials, and its size."""

    losses: int
    sums: int
    end: int


def launches(
    p: CrossEntropyProblem, c: ReduceConfig, arch: str | Arch | None = DEFAULT_ARCH
) -> LaunchSequence:
    """The launches of a problem whose losses are made by a configuration.

    >>> from layoutalg.kernels.rowwise.entropy import cross_entropy_problem
    >>> p = cross_entropy_problem((64, 1000), dtype="f16")
    >>> [kernel.name for kernel in launches(p, configs(p)[0]).kernels]
    ['reduce_cross_entropy_f16_f32', 'reduce_sum_f32_f32', 'cross_entropy_mean_f16']
    """
    made = plan_with(p.losses, c, arch or DEFAULT_ARCH)
    kernels, steps = list(build_reduction(made)), [(len(made.passes), "src", "losses")]
    if p.reduction == "none":
        steps = [(len(made.passes), "src", "dst")]
    else:
        whole = p.reduction == "sum" and p.result.name == "f32"
        summed = plans(total(p, p.axes.dst_offset if whole else 0), arch or DEFAULT_ARCH)[0]
        kernels += build_reduction(summed)
        steps.append((len(summed.passes), "losses", "dst" if whole else "sums"))
        if not whole:
            kernels.append(last(p))
            steps.append((1, "sums", "dst"))
    names = [one for step in steps for one in _names(*step)]
    return launch_sequence(kernels, names, scratch_bytes=partials_bytes(p, made, arch), arch=arch)


def room(p: CrossEntropyProblem, c: ReduceConfig, arch: str | Arch | None = DEFAULT_ARCH) -> Room:
    """Return the offsets in the scratch memory of what is passed from launch to launch.

    >>> from layoutalg.kernels.rowwise.entropy import cross_entropy_problem
    >>> p = cross_entropy_problem((64, 1000), dtype="f16")
    >>> room(p, configs(p)[0])
    Room(losses=0, sums=512, end=528)
    """
    losses = partials_bytes(p, plan_with(p.losses, c, arch or DEFAULT_ARCH), arch)
    if p.reduction == "none":
        return Room(losses, losses, losses)
    sums = losses + _units(p.loss_words)
    return Room(losses, sums, sums + UNIT_BYTES)


def partials_bytes(p: CrossEntropyProblem, made: ReducePlan, arch: str | Arch | None) -> int:
    """Bytes that the passes of either reduction have between them."""
    words = made.workspace_elems
    if p.reduction != "none":
        words = max(words, plans(total(p), arch or DEFAULT_ARCH)[0].workspace_elems)
    return _units(words)


def configs(p: CrossEntropyProblem, arch: str | Arch = DEFAULT_ARCH) -> tuple[ReduceConfig, ...]:
    """The configurations that make the losses, the fastest by the model first.

    >>> from layoutalg.kernels.rowwise.entropy import cross_entropy_problem
    >>> configs(cross_entropy_problem((64, 1000)))[0].lanes_per_row
    32
    """
    return tuple(plan.passes[0].config for plan in plans(p.losses, arch))


def _names(passes: int, given: str, to: str) -> list[dict[str, str]]:
    """The buffers behind the pointers of each pass of a reduction, from `given` to `to`."""
    if passes == 1:
        return [{"src": given, "dst": to}]
    return [{"src": given, "dst": SCRATCH}, {"src": SCRATCH, "dst": to}]


def _units(words: int) -> int:
    """Bytes of whole units of memory that hold so many words."""
    return -(-4 * words // UNIT_BYTES) * UNIT_BYTES


def total(p: CrossEntropyProblem, to: int = 0) -> ReduceProblem:
    """The reduction to the sums of losses and of what counts."""
    n = p.axes.outputs
    shape = (2, n) if p.reduction == "mean" else (n,)
    return reduce_problem(shape, len(shape) - 1, "sum", "f32", dst_offset=to)


def last(p: CrossEntropyProblem) -> Kernel:
    """The kernel that divides two sums, or rounds one."""
    k = KernelBuilder(
        f"cross_entropy_{p.reduction}_{p.result}", 32, notes=["", f"The {p.reduction} of losses."]
    )
    src, dst = k.pointer("src", 4), k.pointer("dst", p.result.nbytes, writable=True)
    sums = 2 if p.reduction == "mean" else 1
    v = k.fragment("v", "f32", (sums,), values=sums)
    value = v[0] / v[1] if sums > 1 else v[0]
    with k.If(k.tid.eq(0)):
        k.do(LDG[4 * sums], v.words, k.at(src, Const(0)))
        result = k.map(value if p.result.name == "f32" else value.to(p.result))
        k.do(STG[p.result.nbytes], k.at(dst, Const(p.axes.dst_offset)), result.words)
    return k.build()
