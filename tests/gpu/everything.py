"""All that only a GPU can show, in one run: the tables of docs/measured.md, and every check.

python -m tests.gpu.everything build/gpu                       all of it, about an hour
python -m tests.gpu.everything build/gpu bench-reduce tests    these steps

What is timed or counted has a GPU to itself, one step after another; the other checks run together after it,
or meanwhile on a second GPU.  Each step writes NAME.txt into the folder; the exit status is 1 if any fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

SWEEP = [f"--size={n}" for n in (1024, *range(2048, 8193, 128), 10240, 12800)]
"""Sides of the squares on which f32 products are compared with cuBLAS."""

CLOCKS = ("--sizes", "1024:12800:512", "--launches", "later-half", "--cold", "--energy", "--json")
"""A published benchmark's method, at every fourth of its sizes: what `layoutalg inspect chart` draws."""

COLUMN_ROWS = "1024,4096,8192,14336,27648,55296"
"""Rows of the tensors whose columns are normalised."""


@dataclass(frozen=True, slots=True)
class Step:
    """A module to run with arguments; `alone` on its GPU where it measures; the seconds it may take."""

    name: str
    module: str
    args: Sequence[str]
    seconds: int
    alone: bool = True


def bench(family: str, *args: str, name: str = "", seconds: int = 120) -> Step:
    """A table of `layoutalg bench`."""
    return Step(name or f"bench-{family}", "layoutalg", ["bench", family, *args], seconds)


STEPS = (
    bench("reduce"),
    bench("permute"),
    bench("gemm-sm80"),
    bench("gemm-sm75"),
    bench("gemm-simt"),
    bench("gemm-simt", *SWEEP, name="bench-gemm-simt-sweep", seconds=180),
    bench("gemm-simt", *CLOCKS, name="bench-gemm-simt-clocks", seconds=400),
    bench("transpose"),
    Step("ladder-gemm-sm80", "tests.gpu.gemm_ladder", ["gemm-sm80"], 120),
    Step("ladder-gemm-sm75", "tests.gpu.gemm_ladder", ["gemm-sm75"], 120),
    Step("ladder-gemm-simt", "tests.gpu.gemm_ladder", ["gemm-simt", "2048"], 120),
    Step("ladder-gemm-sm90", "tests.gpu.gemm_ladder", ["gemm-sm90"], 120),
    Step("turing", "tests.gpu.turing", ["8192"], 90),
    Step("products-sm90", "tests.gpu.hopper_products", [os.devnull], 300),
    Step("products-everyday", "tests.gpu.everyday_products", ["20261129", os.devnull], 600),
    Step("products-checked", "tests.gpu.checked_products", ["20261201", os.devnull], 120),
    Step("products-grouped", "tests.gpu.grouped_products", [os.devnull], 200),
    Step("permutes-random", "tests.gpu.tune_permute", ["2029", "80"], 200),
    Step("permutes-converted", "tests.gpu.converted_permutes", [], 120),
    Step("search-products", "tests.gpu.tuning_study", ["products", "40", "120", os.devnull], 180),
    Step("search-movers", "tests.gpu.tuning_study", ["movers", "40", "120", os.devnull], 180),
    Step("search-rate", "tests.gpu.tuning_scaling", ["1", "2", "4", "--seconds", "60"], 250),
    Step("rows-random", "tests.gpu.ragged_rows", [os.devnull, "--seed", "20261125"], 200),
    Step("rows-short", "tests.gpu.ragged_rows", [os.devnull, "--short"], 200),
    Step("rows-times", "tests.gpu.long_rows", ["chosen", os.devnull, "softmax:fixed"], 200),
    Step("columns", "tests.gpu.column_norms", [os.devnull, "softmax", "f32,bf16", COLUMN_ROWS], 200),
    Step("losses-times", "tests.gpu.cross_entropies", ["times", os.devnull], 120),
    Step("rows-peers", "tests.gpu.peers", ["rows", os.devnull], 200),
    Step("permutes-peers", "tests.gpu.peers", ["permutes", os.devnull], 200),
    Step("calls", "tests.gpu.host_time", [], 90),
    Step("calls-first", "tests.gpu.host_time", ["first"], 90),
    Step("calls-products", "tests.gpu.host_time", ["shapes"], 60),
    Step("peak", "tests.gpu.peak", [], 90),
    Step("edges", "tests.gpu.edges", [], 60),
    Step("counters", "tests.gpu.kernel_counters", ["20261201", os.devnull], 240),
    Step("counters-gemm", "tests.gpu.gemm_ladder", ["chosen"], 120),
    Step("counters-gemm-sm90", "tests.gpu.gemm_sm90_counters", [], 120),
    Step("counters-async", "tests.gpu.async_counters", [], 120),
    Step("counters-multicast", "tests.gpu.multicast_counters", ["boxes", os.devnull], 60),
    Step("counters-memory", "tests.gpu.memory_bytes", [os.devnull], 200),
    Step("probe", "tests.gpu.probe", [], 180),
    Step("latency", "tests.gpu.host_time", ["kept"], 60),
    Step("tests", "pytest", ["-q", "-n", "0", "--durations=10", "tests/gpu"], 600),
    Step("permutes", "tests.gpu.random_kernels", ["permutes", "2000"], 400, alone=False),
    Step("reductions", "tests.gpu.random_kernels", ["reductions", "600"], 200, alone=False),
    Step("rows-long", "tests.gpu.long_rows", ["correct", "2000", "48"], 100, alone=False),
    Step("rows-whole", "tests.gpu.whole_rows", ["correct", "1", "48"], 100, alone=False),
    Step("losses", "tests.gpu.cross_entropies", ["right", "60"], 100, alone=False),
    Step("norms", "tests.gpu.random_kernels", ["norms", "600"], 200, alone=False),
    Step("relayouts", "tests.gpu.random_kernels", ["relayouts", "200"], 100, alone=False),
    Step("views", "tests.gpu.views", ["--cases=1000"], 300, alone=False),
    Step("views-memcheck", "tests.gpu.views", ["--memcheck=200", "--library=cupy"], 300, alone=False),
)


NEEDED = ("cupy", "hypothesis", "jsonschema", "pytest", "xdist")
"""What the steps import beside the library: extras `test` and `cuda12` or `cuda13`."""


def run(step: Step, folder: Path, gpu: str) -> bool:
    """Run a step on a GPU, its output into the folder; True if it succeeds."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "COLUMNS": "170"}
    command = [sys.executable, "-m", step.module, *step.args]
    start = time.monotonic()
    with (folder / f"{step.name}.txt").open("wb") as out:
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=step.seconds,
                check=False,
            )
            how = "ok" if done.returncode == 0 else f"exit status {done.returncode}"
        except subprocess.TimeoutExpired:
            how = f"stopped after {step.seconds} s"
    print(f"{step.name:24} {time.monotonic() - start:6.1f} s  {how}", flush=True)
    return how == "ok"


def main(args: list[str]) -> int:
    """See the module's text."""
    if not args:
        raise SystemExit(__doc__)
    folder, names = Path(args[0]), set(args[1:])
    unknown = names - {step.name for step in STEPS}
    if unknown:
        raise SystemExit(f"no step {sorted(unknown)}: there are {[step.name for step in STEPS]}")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} cannot be imported: pip install '.[test,cuda13]', or cuda12")
    import cupy

    folder.mkdir(parents=True, exist_ok=True)
    chosen = [step for step in STEPS if not names or step.name in names]
    measured = [step for step in chosen if step.alone]
    checked = [step for step in chosen if not step.alone]
    second = cupy.cuda.runtime.getDeviceCount() > 1
    passed: list[bool] = []
    with ThreadPoolExecutor() as pool:
        meanwhile = [pool.submit(run, step, folder, "1") for step in checked] if second else []
        passed += [run(step, folder, "0") for step in measured]
        later = [] if second else [pool.submit(run, step, folder, "0") for step in checked]
        passed += [task.result() for task in (*meanwhile, *later)]
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
