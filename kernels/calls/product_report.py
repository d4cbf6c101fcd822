"""The plan of a product of arrays, without computing it: plan_matmul.

    print(layoutalg.ops.plan_matmul(x, w))

    4095 x 4095 x 4095 f16 TN, lda 4096, ldb 4096 on sm_90: gemm-sm90, 256x128x64, 4 stages, clusters of
    1x2x1, 230 us expected on H200-SXM, 51 us of it copies
      a is copied into rows of 4096 elements (4095 x 4095)
      b is copied into rows of 4096 elements (4095 x 4095)
    otherwise gemm-sm80, 64x64x32, 2 stages, 1458 us expected on H200-SXM

Times are those of the cost model, with a cold cache: they choose among ways, and promise nothing.  They are
stated for the board that the law of the family was fitted on; on others the law only chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import gpu_status
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.calls.operation import Call
from layoutalg.kernels.calls.product_api import MATMUL, asked_of, starts_of
from layoutalg.kernels.calls.product_choice import Way, ways
from layoutalg.kernels.gemm import GEMM_FAMILIES, Config, GemmProblem, GemvConfig

DEFAULT_ARCH = "sm_90"

_FAMILIES = MappingProxyType({family.name: family for family in GEMM_FAMILIES})


@dataclass(frozen=True, eq=False)
class MatmulPlan:
    """The ways to compute a product on an architecture, the one that `matmul` takes first.

    `problem` is what its kernel computes, b^T a^T where the result lies in columns.  Times are nanoseconds on
    the board that `asked` names.

    >>> import numpy
    >>> plan = plan_matmul(numpy.ones((1, 4096), "f4"), numpy.ones((4096, 4096), "f4"), arch="sm_90")
    >>> plan.family, str(plan.problem)
    ('gemv', '1 x 4096 x 4096 f32 TT')
    """

    arch: str
    ways: tuple[Way, ...]
    asked: str

    @property
    def problem(self) -> GemmProblem:
        """The problem that the kernel computes."""
        return self.ways[0].plan.p

    @property
    def family(self) -> str:
        """The family of kernels."""
        return self.ways[0].family

    @property
    def config(self) -> Config | GemvConfig | None:
        """The configuration of the family; None where none fits, and a call is refused."""
        return self.ways[0].config

    @property
    def copies(self) -> tuple[str, ...]:
        """The arrays that are copied before, or "out" after."""
        return tuple(sorted(self.ways[0].plan.copies))

    @property
    def expected_ns(self) -> float:
        """The time that the call is expected to take, copies included.

        Raises UnsupportedError where no law exists for the board that `asked` names, see `Family.law_on`.
        """
        if _by_law(self.ways[0]):
            _FAMILIES[self.family].law_on(self.asked)
        return self.ways[0].ns

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        first, *rest = self.ways
        yield f"{self.problem} on {self.arch}: {_said(first, self.asked)}"
        for name, part in sorted(first.plan.copies.items()):
            shape = " x ".join(map(str, part.shape))
            verb = "is computed apart and moved" if name == "out" else "is copied"
            yield f"  {name} {verb}{f' into rows of {part.pitch} elements' if part.pitch else ''} ({shape})"
        for way in rest:
            copied = f", copying {' and '.join(sorted(way.plan.copies))}" if way.plan.copies else ""
            yield f"otherwise {_said(way, self.asked)}{copied}"


def _by_law(way: Way) -> bool:
    """Whether a way was chosen by the law of its family, not by a lock file."""
    return way.source == "cost model"


def _said(way: Way, asked: str) -> str:
    if way.ns == inf:
        return f"{way.family}, which has no configuration for it"
    where = ""
    if _by_law(way):
        try:
            where = f" on {_FAMILIES[way.family].law_on(asked).board}"
        except UnsupportedError as error:
            return f"{way.family}, {way.config} ({error})"
    copies = f", {way.copies_ns / 1e3:.0f} us of it copies" if way.copies_ns else ""
    source = "" if _by_law(way) else f", by the {way.source}"
    return f"{way.family}, {way.config}, {way.ns / 1e3:.0f} us expected{where}{copies}{source}"


def plan_matmul(
    a: Any, b: Any, out: Any = None, *, c: Any = None, bias: Any = None, activation: str | None = None,
    out_dtype: Any = None, tf32: bool = False, copy: bool = True, arch: str | None = None,
) -> MatmulPlan:  # fmt: skip
    """Return the plan of `matmul` for these arrays: family, configuration, copies, expected time.

    Arrays on the CPU are treated as arrays on a GPU with the same strides and alignment.  `arch` names an
    architecture, a GPU or a board: that of the current GPU, or sm_90 where there is none.  Nothing is
    computed or compiled.  Raises as `matmul` does, ShapeError for a product without elements,
    UnknownNameError for another architecture.

    >>> import numpy
    >>> x, w = numpy.ones((4096, 4096), "f2"), numpy.ones((4096, 4096), "f2")
    >>> plan = plan_matmul(x, w.T, arch="sm_90")
    >>> plan.family, plan.copies
    ('gemm-sm90', ())
    >>> print(plan_matmul(x[:, 1:], w[:, 1:].T, arch="sm_90").family)
    gemm-sm90
    """
    given = Call(MATMUL, (), (a, b, c, bias, out)).views
    product = asked_of(given, activation, out_dtype, tf32, copy)
    if product.empty or not product.k:
        shapes = " and ".join(str(given[x].form.shape) for x in "ab")
        raise ShapeError(f"a product of {shapes} has no elements to add up: no kernel is launched")
    name = arch or gpu_status().arch or DEFAULT_ARCH
    chip = find_arch(name).name
    return MatmulPlan(chip, ways(product, starts_of(given), chip), name)
