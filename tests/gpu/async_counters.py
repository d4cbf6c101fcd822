"""Copies by TMA, shared wavefronts and tensor instructions of programs for Hopper: simulated and counted.

python -m tests.gpu.async_counters              the table; the exit status is 1 when a number is other
python -m tests.gpu.async_counters launch       launch every program once

The programs are those of docs/hopper.md, of whole boxes and of boxes that stick out.
What is expected of TMA and of the tensor cores is what the simulator has run; wavefronts are those of its
trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from layoutalg import codegen as cg
from layoutalg.codegen.gpu import to_device
from tests.codegen.language.test_hopper_show import SIZES, documented, given_for
from tests.gpu.counters import BY_INSTRUCTION, Row, count_launches, table
from tests.gpu.gemm_ladder import BY_TMA
from tests.tiles.warpgroups import Case as Product
from tests.tiles.warpgroups import (
    cases,
    epilogue,
    multicast,
    one_block,
    operands,
    result,
    ring,
    ring_operands,
)

COUNTED = {
    **{what: (BY_TMA[what], "instructions") for what in ("TMA loads", "TMA stores", "wgmma")},
    "read by TMA": (BY_TMA["TMA in"], "bytes"), "written by TMA": (BY_TMA["TMA out"], "bytes"),
    "shared memory": (BY_INSTRUCTION, "wavefronts"),
}  # fmt: skip
"""What is compared: the metric of Nsight Compute, and its unit."""

WAVEFRONT_BYTES = 128
"""What wgmma reads of shared memory in a wavefront, in every mode and major."""

SEED = 20261124
"""Of the sizes of more copies."""

WHOLE = {"tma_copy": {"m": 128, "n": 192}, "tma_transpose": {"m": 128, "n": 96}}
"""Sizes of whole boxes, where the documented ones stick out."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program and the arguments of one launch."""

    name: str
    kernel: Any
    args: Mapping[str, Any]

    def on(self, place: Callable[[Any], Any]) -> dict[str, Any]:
        """The arguments with arrays that were copied somewhere."""
        return {name: place(x) if isinstance(x, np.ndarray) else x for name, x in self.args.items()}


def all_cases() -> Iterator[Case]:
    """The programs in the order of their launches."""
    for name, (kernel, _) in documented().items():
        for sizes in (WHOLE.get(name, SIZES[name]), SIZES[name])[: 1 + (name in WHOLE)]:
            args, _ = given_for(name, sizes)
            yield Case(f"{name} {'x'.join(map(str, sizes.values()))}", kernel, args)
    rng = np.random.default_rng(SEED)
    kernel, _ = documented()["tma_copy"]
    for _ in range(20):
        sizes = {"m": int(rng.integers(1, 300)), "n": 8 * int(rng.integers(1, 40))}
        args, _ = given_for("tma_copy", sizes)
        yield Case(f"tma_copy {sizes['m']}x{sizes['n']}", kernel, args)
    a, b = operands(Product("f16", "f16", "f32", n=128))
    yield Case("epilogue", epilogue(), {"a": a.stored, "b": b.stored, "d": np.zeros((64, 128), np.float16)})
    for case in cases():
        a, b = operands(case)
        yield Case(f"one block, {case}", one_block(case), {"a": a.stored, "b": b.stored, "d": result(case)})
    m, n, depth = 256, 128, 320
    a, b = ring_operands(m, n, depth)
    for stages, lag in ((2, 0), (3, 1), (4, 1), (5, 2)):
        args = {"a": a.stored, "b": b.stored, "d": np.zeros((m, n), np.float32), "m": m, "n": n, "k": depth}
        yield Case(f"ring of {stages}", ring(stages, lag=lag), args)
    args = {"a": a.stored, "b": b.stored, "d": np.zeros((m, n), np.float32), "m": m, "n": n, "k": depth}
    yield Case("multicast", multicast(), args)


def expected(case: Case) -> dict[str, int]:
    """What the simulator says of a launch."""
    run = cg.simulate(case.kernel, case.on(np.copy))
    counts = {name: sum(by_warp) for name, by_warp in run.executed.items()}

    def of(prefix: str) -> int:
        return sum(count for name, count in counts.items() if name.startswith(prefix))

    words = ("shared", "matrix")
    shared = sum(a.total for a in run.trace.totals() if any(word in a.site.op for word in words))
    own = of("lds32_remote") // prod(case.kernel.cluster)  # of the block itself; a peer's are not counted
    return {
        "TMA loads": of("tma_load"), "TMA stores": of("tma_store"),
        "read by TMA": run.counted["load"], "written by TMA": run.counted["store"],
        "wgmma": of("wgmma_m64"), "shared memory": shared + own + run.counted["wgmma"] // WAVEFRONT_BYTES,
    }  # fmt: skip


def main(args: list[str]) -> int:
    """Print the table."""
    found = list(all_cases())
    if args == ["launch"]:
        for case in found:
            cg.launch(case.kernel, case.on(to_device))
        return 0
    names = "|".join(sorted({case.kernel.name for case in found}))
    metrics = tuple(metric for metric, _ in COUNTED.values())
    launches = count_launches(f"^({names})$", metrics, "tests.gpu.async_counters", "launch")
    if len(launches) != len(found):
        raise RuntimeError(f"{len(launches)} launches were counted, {len(found)} were made")

    def rows() -> Iterator[Row]:
        for case, counters in zip(found, launches, strict=True):
            said = expected(case)
            for what, (metric, unit) in COUNTED.items():
                if said[what] or counters.get(metric):
                    yield Row(case.name, what, unit, said[what], int(counters.get(metric, -1)))

    return table("program", rows())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
