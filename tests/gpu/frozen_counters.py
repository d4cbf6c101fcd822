"""Predicted and counted accesses of every case of tests/frozen/kernel_freeze.py, from one `ncu` run of all.

python -m tests.gpu.frozen_counters            all of them; the exit status is 1 where one is refuted
python -m tests.gpu.frozen_counters permute    cases whose label a regular expression finds

What other modules of this folder know of counters (what copies ask of the L1, what the compiler merges, what
a full GPU loses) is asked of them.  Of ragged products, shared wavefronts of copies are refuted in some
cases: lanes past an edge copy one place to many, and of that only the sectors are known.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from layoutalg.arch import find_board
from layoutalg.codegen.gpu import in_processes
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm import Config, GemmProblem, SimtConfig
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move import normalise
from layoutalg.kernels.rowwise import NormProblem, ReduceProblem
from tests.bench import bench_kernels, kernel_images
from tests.frozen import kernel_adapter
from tests.frozen.kernel_cases import label
from tests.frozen.kernel_freeze import stored
from tests.gpu import counters, permute_counters, row_counters, split_counters
from tests.gpu.counters import Row, count_launches
from tests.gpu.gemm_ladder import ARRIVED, COPIES, LDS

METRICS = (*counters.TRAFFIC, ARRIVED, COPIES, LDS)
KERNELS = "^(permute|reduce|softmax|layer_norm|rms_norm|transpose|copy|gemm)_"
"""Names of kernels of ours."""

Case = Mapping[str, Any]
Found = Sequence[Mapping[str, float]]


def rows_of(asked: tuple[Case, Sequence[int], Found]) -> list[Row]:
    """What is predicted of a case beside the counters of its launches, whose blocks are given."""
    case, blocks, found = asked
    name, arch, (_, p, config) = label(case), kernel_adapter.ARCH, kernel_adapter.chosen(case)
    if isinstance(p, MatrixProblem):
        quiet = blocks[0] <= find_board(arch).sms
        (prediction,) = FAMILIES[case["family"]].costs(p, config, arch)
        return list(counters.compared(name, prediction, found, quiet=quiet))
    if isinstance(p, ReduceProblem | NormProblem):
        return list(row_counters.compared(name, p, config, found, arch))
    if isinstance(p, GemmProblem):
        return _product(name, p, config, found)
    made = permute_counters.plan_of(name, normalise(p), config, arch)
    return list(permute_counters.compared(made, found[0], arch))


def _product(name: str, p: GemmProblem, way: Config, found: Found) -> list[Row]:
    """Of a product whose loads the compiler may have merged, the prediction that holds, if any does."""
    simt = isinstance(way, SimtConfig)
    tried = [
        list(split_counters.product_rows(name, p, way, found, merged=merged))
        for merged in (False, True)[: 1 + simt]
    ]
    return next((rows for rows in tried if not any(row.refuted for row in rows)), tried[0])


def made(case: Case) -> tuple[dict[str, Any], list[bytes]]:
    """A case's launches as data, and their machine code."""
    return kernel_images.side(kernel_adapter, case)


def launch(folder: Path) -> None:
    """Launch every case of a folder once, on random numbers: what the profiler watches."""
    for pair in kernel_images.pairs(folder):
        held = bench_kernels.Buffers(pair, 1)
        held.launches(pair.now, folder)[0]()
        del held
        bench_kernels.free()


def measure(cases: Sequence[Case]) -> Iterator[Row]:
    """Launch all cases under ncu, and put what was counted beside what is predicted."""
    found = in_processes(made, cases)
    both = list(zip(cases, (one for one, _ in found), strict=True))
    if lost := [f"{label(case)}: {one['raised']}" for case, one in both if "raised" in one]:
        raise SystemExit("\n".join(lost))
    records = [{"case": label(case), "base": one, "now": one} for case, one in both]
    with tempfile.TemporaryDirectory(prefix="layoutalg-") as name:
        folder = Path(name)
        for _, images in found:
            for image in images:
                kernel_images.store(folder, image)
        kernel_images.write(folder, records)
        seen = iter(count_launches(KERNELS, METRICS, "tests.gpu.frozen_counters", "launch", name))
    asked = []
    for case, one in both:
        kernels = one["kernels"]
        blocks = [x * y * z for x, y, z in (kernel["grid"] for kernel in kernels)]
        asked.append((case, blocks, list(islice(seen, len(kernels)))))
    for rows in in_processes(rows_of, asked):
        yield from rows


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    if args[:1] == ["launch"]:
        launch(Path(args[1]))
        return 0
    cases = [one["case"] for one in stored()["cases"]]
    return counters.table("frozen case", measure([c for c in cases if re.search("".join(args), label(c))]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
