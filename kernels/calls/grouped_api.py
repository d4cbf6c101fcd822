"""The product of groups of rows with a matrix per group: grouped_matmul.

    y = layoutalg.ops.grouped_matmul(x, w, sizes)       row block g of y = row block g of x @ w[g]

The idea.  Rows of all groups are one matrix, and so are the results; only b has a matrix per group.  The
arguments are checked as `matmul` checks a and the first b.  Where gemm-sm90 reads both as they are stored,
a single launch computes all groups (see `kernels.gemm.groups`): sizes are words of the launch, so that other
sizes of as many rows neither plan nor compile nor upload anything.  Otherwise each group is a `matmul`.

    print(layoutalg.ops.plan_grouped_matmul(x, w))

    8192 x 4096 x 7168 bf16 TN in 8 groups on sm_90: gemm-sm90, 128x256x64, 4 stages, ...,
    596 us expected on H200-SXM

Notes.  Time and configuration are those of groups of one size, so that they do not depend on the sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from layoutalg.arch import DEFAULT_ARCH
from layoutalg.codegen.instr import ScalarFunction
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, UnsupportedError, shown
from layoutalg.kernels import gemm
from layoutalg.kernels.calls.arrays import KEPT_FORMS, Form, View, in_simulator, launching
from layoutalg.kernels.calls.operation import Call, Operation, nothing, words_in
from layoutalg.kernels.calls.product_api import MATMUL, asked_of, dense_copy, planned_for, starts_of
from layoutalg.kernels.calls.product_plan import MOST_STEP, Product, plan_of
from layoutalg.kernels.elements import whole_units
from layoutalg.kernels.plan_cache import gpu_arch, plan_on_gpu
from layoutalg.kernels.registry import FAMILIES
from layoutalg.kernels.tuning import choose
from layoutalg.limits import Most

FAMILY = "gemm-sm90"


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """The plan of a product of groups of rows on an architecture.

    `problem` is what the kernel computes, with its configuration; both are None where each group is a
    `matmul` of its own, for which `reason` says why.  `ns` is the time by the law of the family.

    >>> import numpy
    >>> plan = plan_grouped_matmul(numpy.ones((96, 64), "f2"), numpy.ones((3, 64, 32), "f2"), arch="sm_90")
    >>> plan.launches, str(plan.problem)
    (1, '96 x 32 x 64 f16 TT in 3 groups')
    """

    arch: str
    groups: int
    problem: gemm.GemmProblem | None
    config: gemm.Sm90Config | None
    ns: float
    reason: str
    asked: str = DEFAULT_ARCH

    @property
    def expected_ns(self) -> float:
        """The expected nanoseconds for groups of equal size on the board that `asked` names.

        Raises UnsupportedError where no law is of that board, see `Family.machine_on`.
        """
        FAMILIES[FAMILY].machine_on(self.asked)
        return self.ns

    @property
    def launches(self) -> int:
        """Launches for any sizes, or where each group is a `matmul`, those of groups that have rows."""
        return self.groups if self.problem is None else -(-self.groups // gemm.MOST_TOGETHER)

    def __str__(self) -> str:
        if self.problem is None:
            return f"{self.groups} groups on {self.arch}: a matmul for each, for {self.reason}"
        text = f"{self.problem} on {self.arch}: {FAMILY}, {self.config}"
        try:
            return (
                f"{text}, {self.ns / 1e3:.0f} us expected on {FAMILIES[FAMILY].machine_on(self.asked).board}"
            )
        except UnsupportedError as error:
            return f"{text} ({error})"


def grouped_matmul(
    a: Any, b: Any, sizes: Iterable[int], out: Any = None, *, activation: str | ScalarFunction | None = None,
    out_dtype: Any = None, copy: bool = True, simulate: bool = False,
) -> Any:  # fmt: skip
    """activation(a_g @ b[g]) for groups of rows of a: a (m, k), b (groups, k, n), the result (m, n).

    `sizes` are the numbers of rows of the groups, integers on the host: groups are consecutive, the sum is m,
    and a group may have no rows.  Types, strides, `activation`, `out_dtype`,
    `out`, `copy` and `simulate` are those of `matmul`.  float16 and bfloat16 whose rows start at multiples of
    16 bytes take one launch on Hopper per 64 groups; others one launch per group.

    Raises what `matmul` raises; ArgumentTypeError for sizes that are not integers of the host, ShapeError for
    sizes that are negative, not as many as b has matrices, or not m together, ResourceError for groups
    past Most.ENTRIES.

    >>> import numpy
    >>> x, w = numpy.ones((3, 2), "f4"), numpy.array([[[1], [1]], [[9], [9]], [[2], [3]]], "f4")
    >>> grouped_matmul(x, w, [2, 0, 1]).tolist()
    [[2.0], [2.0], [5.0]]
    """
    return GROUPED_MATMUL.prepared((sizes, activation, out_dtype, copy), (a, b, out), simulate)()


def _multiplied(
    call: Call, sizes: Iterable[int], activation: Any, out_dtype: Any, copy: Any
) -> Callable[[], object]:
    given = call.views
    product = _product(given, activation, out_dtype, copy)
    rows = check_sizes(sizes, given["b"].shape[0], given["a"].shape[0])
    call.result(product.shape, (product.kind,))
    in_simulator(call.simulated, given["out"])
    if product.empty:
        return nothing
    run = None
    if call.simulated:
        run = _simulated(product, given, rows)
    elif given["a"].form.device is not None:
        with launching(given["a"]):
            run = _launched(call, product, rows)
    return run or _one_by_one(given, rows, (activation, out_dtype, copy), call.simulated)


GROUPED_MATMUL = Operation(
    "grouped_matmul", ("a", "b", "out"), ("sizes", "activation", "out_dtype", "copy"), _multiplied, needed=2
)


def plan_grouped_matmul(
    a: Any, b: Any, out: Any = None, *, activation: str | ScalarFunction | None = None, out_dtype: Any = None,
    copy: bool = True, arch: str | None = None,
) -> GroupedPlan:  # fmt: skip
    """Return the plan by which `grouped_matmul` computes the groups of these arrays, for all of their sizes.

    Arrays may lie anywhere, as for `plan_matmul`, and `arch` is as there.  Nothing is computed or compiled.
    Raises as `grouped_matmul` does, ShapeError for a product without elements, UnknownNameError for another
    architecture.

    >>> import numpy
    >>> x, w = numpy.ones((96, 64), "f4"), numpy.ones((3, 64, 32), "f4")
    >>> plan = plan_grouped_matmul(x, w, arch="sm_90")
    >>> print(str(plan)[:61])
    3 groups on sm_90: a matmul for each, for gemm-sm90 multiplie
    """
    given = Call(GROUPED_MATMUL, (), (a, b, out)).views
    product = _product(given, activation, out_dtype, copy)
    name, chip = planned_for(product, given, arch)
    return replace(_plan(product, given["b"].form, starts_of(given), chip), asked=name)


def _rows(size: object) -> int:
    """The rows of a group.  Raises TypeError for what is not an integer."""
    if isinstance(size, bool) or not isinstance(size, SupportsIndex):
        raise TypeError
    return index(size)


def check_sizes(sizes: Iterable[int], groups: int, m: int) -> tuple[int, ...]:
    """The rows of each group.  Raises as `grouped_matmul` does.

    >>> check_sizes([2, 0, 1], 3, 3)
    (2, 0, 1)
    >>> check_sizes([2, 2], 2, 3)
    Traceback (most recent call last):
    layoutalg.errors.ShapeError: sizes are 4 rows together; a has 3
    """
    if hasattr(sizes, "__cuda_array_interface__"):
        raise ArgumentTypeError("sizes lie on a GPU: integers of the host are needed, such as sizes.tolist()")
    try:
        numbers = [_rows(size) for size in sizes]
    except TypeError:
        raise ArgumentTypeError(f"sizes are {shown(sizes)}: an integer per group is needed") from None
    if len(numbers) != groups:
        raise ShapeError(f"sizes are of {len(numbers)} groups; b has {groups} matrices, one per group")
    for number, size in enumerate(numbers):
        if size < 0:
            raise ShapeError(f"sizes[{number}] = {size}: 0 rows or more are needed")
    if sum(numbers) != m:
        raise ShapeError(f"sizes are {sum(numbers)} rows together; a has {m}")
    return tuple(numbers)


# --- arguments -----------------------------------------------------------------------------------------


def _product(given: Mapping[str, View], activation: Any, out_dtype: Any, copy: Any) -> Product:
    """The product of a and the first matrix of b."""
    left, right = given["a"], given["b"]
    if len(left.shape) != 2 or len(right.shape) != 3:
        raise ShapeError(
            f"a has shape {left.shape}, b {right.shape}: (m, k) and (groups, k, n) are multiplied"
        )
    Most.ENTRIES.guard(right.shape[0], "groups of a product", hint="call it for parts of them")
    if left.shape[1] != right.shape[1]:
        raise ShapeError(
            f"a has shape {left.shape}, b {right.shape}: {left.shape[1]} along a's last mode and "
            f"{right.shape[1]} along the second of b, which must be equal"
        )
    first = View(None, right.address, right.form.laid(right.shape[1:], right.strides[1:]))
    return asked_of({**given, "b": first}, activation, out_dtype, False, copy)


@functools.lru_cache(KEPT_FORMS)
def _plan(product: Product, b: Form, starts: tuple[tuple[str, int], ...], arch: str) -> GroupedPlan:
    """The plan for arrays that start so many bytes after multiples of 16."""
    try:
        p = _problem(product, b, starts)
        for part in _parts(p):
            _check_fits(part.p, arch)
    except LayoutAlgError as error:
        return GroupedPlan(arch, b.shape[0], None, None, inf, str(error))
    config, _ = choose(FAMILIES[FAMILY], _parts(p)[0].p, arch)
    ns = sum(gemm.expected_family(part.p, arch)[0] for part in _parts(p))
    return GroupedPlan(arch, b.shape[0], p, config, ns, "")


def _problem(product: Product, b: Form, starts: tuple[tuple[str, int], ...]) -> gemm.GemmProblem:
    """The problem of one launch.  Raises where arrays do not lie so that there is one."""
    if b.shape[0] == 1:
        raise UnsupportedError("one group is a product")
    plan = plan_of(product, dict(starts))
    if plan.turned or plan.copies:
        raise UnsupportedError("the arrays do not lie in rows that one launch reads and writes as they are")
    step, between = divmod(b.strides[0], b.itemsize)
    if between:
        raise UnsupportedError(f"matrices of b are {b.strides[0]} bytes apart, which cuts elements")
    if step > MOST_STEP:
        raise UnsupportedError(f"matrices of b are {step} elements apart: {MOST_STEP} at most in one launch")
    return gemm.grouped(plan.p, b.shape[0], step)


class _Part(NamedTuple):
    """Groups of one launch: the number of the first, and the problem of A and D whole."""

    first: int
    p: gemm.GemmProblem

    @property
    def offset(self) -> int:
        """Bytes from b's start to the first of the groups' matrices."""
        return self.first * self.p.batch[0].b * self.p.operand.nbytes

    def words(self, rows: Sequence[int], config: gemm.Sm90Config) -> dict[str, int]:
        """The words of a configuration's launch, from the numbers of rows of all groups."""
        own = rows[self.first : self.first + self.p.products]
        high = config.tile_m * config.cluster_m
        return gemm.group_words(own, high, sum(rows[: self.first])) | gemm.scalar_words(self.p, "alpha", 1)


@functools.lru_cache(KEPT_FORMS)
def _parts(p: gemm.GemmProblem) -> tuple[_Part, ...]:
    """The launches of a problem."""
    parts = []
    for first in range(0, p.products, gemm.MOST_TOGETHER):
        extent = min(gemm.MOST_TOGETHER, p.products - first)
        parts.append(_Part(first, replace(p, batch=(replace(p.batch[0], extent=extent),))))
    return tuple(parts)


@functools.lru_cache(KEPT_FORMS)
def _check_fits(p: gemm.GemmProblem, arch: str) -> None:
    """Raise why the first configuration does not fit where none does."""
    best = next(iter(FAMILIES[FAMILY].candidates(p, arch)))
    if best.dropped is not None:
        raise best.dropped


# --- ways to run ---------------------------------------------------------------------------------------


def _launched(call: Call, product: Product, rows: Sequence[int]) -> Callable[[], object] | None:
    """Return the function that launches the groups on the current GPU; None if each is a `matmul`."""
    arch, given = gpu_arch(), call.views
    p = _plan(product, given["b"].form, starts_of(given), arch).problem if product.k else None
    if p is None:
        return None
    steps = []
    for part in _parts(p):
        if any(rows[part.first : part.first + part.p.products]):
            plan = plan_on_gpu(FAMILY, part.p, given["a"].form.device)
            words = {name: (0, word) for name, word in part.words(rows, plan.config).items()}
            steps.append((plan.sequence, {"a": (1, 0), "b": (2, part.offset), "d": (3, 0)} | words))
    return call.launched(steps, 0, kept=False)  # sizes differ from call to call


def _simulated(
    product: Product, given: Mapping[str, View], rows: Sequence[int]
) -> Callable[[], object] | None:
    """Return the function that simulates the launches, on dense copies; None if each group is a `matmul`."""
    by_k = given["b"].strides[1] == given["b"].form.itemsize

    def copied() -> dict[str, View]:
        return {x: dense_copy(v, v.shape, by_k=by_k and x == "b") for x, v in given.items()}

    if not product.k:
        return None
    copies = copied()
    own = _product(copies, product.activation, None, True)
    p = _plan(own, copies["b"].form, (), DEFAULT_ARCH).problem
    if p is None:
        return None
    parts = [(part, choose(FAMILIES[FAMILY], part.p, DEFAULT_ARCH)[0]) for part in _parts(p)]

    def run() -> None:
        memory = {x: whole_units(copy.host.ravel("K")) for x, copy in copied().items()}
        b, target = memory["b"], given["out"]
        memory["d"] = memory.pop("out")
        for part, config in parts:
            start = part.offset // p.operand.nbytes
            memory["b"] = whole_units(b[start : start + part.p.b_elems])
            sequence = FAMILIES[FAMILY].launches(part.p, config, DEFAULT_ARCH)
            simulate_sequence(printed_sequence(sequence), memory | part.words(rows, config), trace=False)
        words_in(target)[...] = memory["d"][: target.form.elems].reshape(target.shape)

    return run


def _one_by_one(
    given: Mapping[str, View], rows: Sequence[int], options: tuple[Any, ...], simulate: bool
) -> Callable[[], object]:  # fmt: skip
    """A `matmul` of each group that has rows."""
    a, b, out = (given[x].array for x in ("a", "b", "out"))
    activation, out_dtype, copy = options
    every, none = (1, 0, activation, out_dtype, False, copy, False, None, None), (None,) * 4
    calls = [
        MATMUL.prepared(every, (a[end - size : end], b[g], *none, out[end - size : end]), simulate)
        for g, (size, end) in enumerate(zip(rows, accumulate(rows), strict=True))
        if size
    ]

    def run() -> None:
        for call in calls:
            call()

    return run
