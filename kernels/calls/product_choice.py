"""The kernels that compute a product, and the copies that they need: all ways, best first.

    ways(product, starts, "sm_90")[0]      the way of a call whose arrays have these starts

The idea.  A product may be computed from where its operands lie, or from padded copies of those whose rows
do not start at multiples of 16 bytes, which TMA does not read.
Each way has a problem, the family and the configuration that the cost model expects to be fastest for it,
and the copies, whose time is that of a launch and of their bytes at the bandwidth of memory:

    copy = launch that follows another + (bytes read + bytes written) / (share * the memory's rate)

Notes.  `share`, of the board's file, is that of vectors of 16 bytes or of single elements, as of the f16
permutes of docs/measured.md on an H200 (a plain copy at 4,097 and 31x63x127x255 at 2,773 GB/s).  It was not
fitted to copies of operands: the choice is between ways whose times differ by more.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, prod

from layoutalg.kernels.calls.arrays import KEPT_FORMS
from layoutalg.kernels.calls.product_plan import Copy, Plan, Product, copied_sets, plan_of
from layoutalg.kernels.gemm import GEMM_FAMILIES, Config, GemmProblem, GemvConfig, expected_family
from layoutalg.kernels.model import machine_of
from layoutalg.kernels.tuning import current_lock


@dataclass(frozen=True, eq=False)
class Way:
    """A way to compute a product: its plan, the family and the configuration, and the time that is expected.

    `kernel_ns` is the product's, `copies_ns` that of the operands that are copied.  `config` is None where no
    configuration fits: the family then says why.  `source` is what chose: the cost model or a lock file.
    """

    plan: Plan
    family: str
    config: Config | GemvConfig | None
    kernel_ns: float
    copies_ns: float
    source: str = "cost model"

    @property
    def ns(self) -> float:
        """Nanoseconds in all."""
        return self.kernel_ns + self.copies_ns


def copy_ns(part: Copy, itemsize: int, arch: str) -> float:
    """Nanoseconds that are expected of a copy of an operand: see the module's text.

    >>> round(copy_ns(Copy((4096, 4096), (8192, 2)), 2, "sm_90"))
    18200
    """
    m, nbytes = machine_of(arch), 2 * prod(part.shape) * itemsize
    wide = part.strides[-1] == itemsize and not any(d % 16 for d in part.strides[:-1])
    share = m.ways["padded copies"]["wide" if wide else "narrow"]
    return 1e3 * (m.next_launch_us + nbytes / (share * m.bytes_per_us))


@functools.lru_cache(KEPT_FORMS)
def ways(product: Product, starts: tuple[tuple[str, int], ...], arch: str) -> tuple[Way, ...]:
    """The ways to compute a product of arrays whose first elements lie so many bytes after multiples of 16.

    Raises what `plan_of` raises.

    >>> from layoutalg.kernels.calls.arrays import form_of
    >>> from layoutalg.kernels.calls.product_plan import find_product
    >>> f = form_of("cupy", 0, "bfloat16", 2, (4095, 4095), (8190, 2))
    >>> [(way.family, sorted(way.plan.copies)) for way in ways(find_product(f, f), (), "sm_90")]
    [('gemm-sm90', ['a', 'b']), ('gemm-sm80', [])]
    """
    return tuple(sorted(_each(product, dict(starts), arch), key=lambda way: way.ns))


def chosen_family(p: GemmProblem, arch: str) -> tuple[float, str, Config | GemvConfig | None, str]:
    """Return the choice of the lock file if it has the product, else of `expected_family`, and its source.

    Raises what `tuning.Lock.chosen` raises.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> chosen_family(gemm_problem(4096, 4096, 4096), "sm_75")[1::2]
    ('gemm-sm75', 'cost model')
    """
    if (lock := current_lock()) is not None:
        for family in GEMM_FAMILIES:
            if (choice := lock.entry(family.name, p, arch)) is not None:
                return choice.ns, family.name, lock.chosen(family, p, arch), lock.source
    return *expected_family(p, arch), "cost model"


def _each(product: Product, starts: Mapping[str, int], arch: str) -> Iterator[Way]:
    """The ways without copies, and with copies of all odd operands: one left slows as much as two."""
    least = inf
    for padded in copied_sets(product, starts):
        plan = plan_of(product, starts, padded)
        copies = sum(copy_ns(part, product.forms[x].itemsize, arch) for x, part in plan.copies.items())
        if copies < least:
            ns, family, config, source = chosen_family(plan.p, arch)
            least = ns + copies
            yield Way(plan, family, config, ns, copies, source)
