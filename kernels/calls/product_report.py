"""How a product of arrays would be computed, without computing it: plan_matmul.

    print(layoutalg.ops.plan_matmul(x, w))

    4095 x 4095 x 4095 f16 TN, lda 4096, ldb 4096 on sm_90: gemm-sm90, 256x128x64, 4 stages, clusters of
    1x2x1, 230 us expected, 51 us of it copies
      a is copied into rows of 4096 elements (4095 x 4095)
      b is copied into rows of 4096 elements (4095 x 4095)
    otherwise gemm-sm80, 64x64x32, 2 stages, 1458 us expected

Times are those of the cost model, with a cold cache: they choose among ways, and promise nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import gpu_status
from layoutalg.errors import ShapeError
from layoutalg.kernels.calls.product_api import asked, starts_of
from layoutalg.kernels.calls.product_choice import Way, ways
from layoutalg.kernels.gemm import Config, GemmProblem, GemvConfig

DEFAULT_ARCH = "sm_90"


@dataclass(frozen=True, eq=False)
class MatmulPlan:
    """The ways to compute a product on an architecture, the one that `matmul` takes first.

    `problem` is what its kernel computes, b^T a^T where the result lies in columns.  Times are nanoseconds.

    >>> import numpy
    >>> plan = plan_matmul(numpy.ones((1, 4096), "f4"), numpy.ones((4096, 4096), "f4"), arch="sm_90")
    >>> plan.family, str(plan.problem)
    ('gemv', '1 x 4096 x 4096 f32 TT')
    """

    arch: str
    ways: tuple[Way, ...]

    @property
    def problem(self) -> GemmProblem:
        """What the kernel computes."""
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
        """What the call is expected to take on a GPU, copies included."""
        return self.ways[0].ns

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        first, *rest = self.ways
        yield f"{self.problem} on {self.arch}: {_said(first)}"
        for name, part in sorted(first.plan.copies.items()):
            shape = " x ".join(map(str, part.shape))
            verb = "is computed apart and moved" if name == "out" else "is copied"
            yield f"  {name} {verb}{f' into rows of {part.pitch} elements' if part.pitch else ''} ({shape})"
        for way in rest:
            copied = f", copying {' and '.join(sorted(way.plan.copies))}" if way.plan.copies else ""
            yield f"otherwise {_said(way)}{copied}"


def _said(way: Way) -> str:
    if way.ns == inf:
        return f"{way.family}, which has no configuration for it"
    copies = f", {way.copies_ns / 1e3:.0f} us of it copies" if way.copies_ns else ""
    source = "" if way.source == "cost model" else f", by the {way.source}"
    return f"{way.family}, {way.config}, {way.ns / 1e3:.0f} us expected{copies}{source}"


def plan_matmul(
    a: Any, b: Any, out: Any = None, *, c: Any = None, bias: Any = None, activation: str | None = None,
    out_dtype: Any = None, tf32: bool = False, copy: bool = True, arch: str | None = None,
) -> MatmulPlan:  # fmt: skip
    """How `matmul` of these arrays computes the product: family, configuration, copies, expected time.

    Arrays on the CPU are treated as arrays on a GPU with the same strides and alignment.  `arch` is that of
    the current GPU, or sm_90 where there is none.  Nothing is computed or compiled.  Raises as `matmul` does,
    ShapeError for a product without elements, UnknownNameError for another architecture.

    >>> import numpy
    >>> x, w = numpy.ones((4096, 4096), "f2"), numpy.ones((4096, 4096), "f2")
    >>> plan = plan_matmul(x, w.T, arch="sm_90")
    >>> plan.family, plan.copies
    ('gemm-sm90', ())
    >>> print(plan_matmul(x[:, 1:], w[:, 1:].T, arch="sm_90").family)
    gemm-sm90
    """
    given, product = asked(a, b, out, c, bias, activation, out_dtype, tf32, copy)
    if product.empty or not product.k:
        shapes = " and ".join(str(given[x].form.shape) for x in "ab")
        raise ShapeError(f"a product of {shapes} has no elements to add up: no kernel is launched")
    chip = find_arch(arch or gpu_status().arch or DEFAULT_ARCH).name
    return MatmulPlan(chip, ways(product, starts_of(given), chip))
