"""Predicted and measured accesses of permutes, side by side, from one `ncu` run each.

python -m tests.gpu.permute_counters                                   the table of the README
python -m tests.gpu.permute_counters f16 31,63,127,255 3,1,0,2         one kernel
"""

from __future__ import annotations

import sys

from layoutalg.arch import find_arch
from layoutalg.codegen.runtime import require_gpu
from layoutalg.kernels.permute_bench import CASES as BENCH_CASES
from layoutalg.kernels.permute_modes import normalise, permute_problem
from layoutalg.kernels.permute_plan import configs
from layoutalg.kernels.permute_predict import predict
from layoutalg.kernels.permute_stage import Stage
from tests.gpu.counters import METRICS, Row, counted

SMALL = (
    ((5, 60, 60, 3), (0, 3, 1, 2)), ((5, 3, 60, 60), (0, 2, 3, 1)), ((20, 18, 16, 14), (3, 2, 1, 0)),
    ((3, 7, 101, 55), (3, 1, 0, 2)), ((4, 64, 16, 32), (0, 2, 1, 3)), ((333, 199), (1, 0)),
)  # fmt: skip
CASES = tuple((dtype, *case) for dtype in ("f32", "f16", "u8") for case in (*SMALL, *BENCH_CASES))


def measure(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> list[Row]:
    """Predict a launch of the best configuration, run it under ncu, and put both side by side."""
    p = permute_problem(shape, axes, dtype)
    x, arch = normalise(p), require_gpu().arch
    config = configs(x, arch)[0]
    prediction = predict(x, config, arch)
    board = find_arch(arch).board
    quiet = board is not None and Stage(x, config).blocks <= board.sms
    sizes = [dtype, *(",".join(map(str, part)) for part in (shape, axes))]
    found = counted("^permute_b", "tests.gpu.permute_launch", *sizes)
    copied = sum(cost.total for op, cost in prediction.items() if op.startswith("cp.async") and ":" in op)

    def total(prefix: str) -> int:
        return sum(cost.total for op, cost in prediction.items() if prefix in op)

    label = f"{'x'.join(map(str, shape))} -> {','.join(map(str, axes))} {dtype}"
    expected = {access: total(access) for access in METRICS}
    expected["ld.global"] += copied
    return [
        Row(label, access, unit, expected[access], found[metric], exact=_exact(access, quiet, copied))
        for access, (metric, unit) in METRICS.items()
        if unit == "sectors" or access == "ld.shared"
    ]


def _exact(access: str, quiet: bool, copied: int) -> bool:
    """True where the counter is known to be the prediction.

    Asynchronous copies of rows that start inside sectors read up to 19 % more sectors than the rule of loads
    says; which rule they follow is not known.
    """
    return not copied if access == "ld.global" else access == "st.global" or quiet


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    cases = CASES
    if args:
        dtype, shape, axes = args
        one = tuple(tuple(int(n) for n in part.split(",")) for part in (shape, axes))
        cases = ((dtype, one[0], one[1]),)
    wrong = 0
    print("| permute | access | unit | predicted | measured |\n|---|---|---|---:|---:|")
    for case in cases:
        for r in measure(*case):
            replayed = not r.exact and r.measured > r.predicted
            why = "asynchronous copies" if r.unit == "sectors" else "lost arbitration"
            lost = f" ({r.measured / r.predicted - 1:+.2%}, {why})" if replayed else ""
            print(f"| {r.kernel} | {r.access} | {r.unit} | {r.predicted} | {r.measured}{lost} |", flush=True)
            wrong += r.predicted != r.measured and not replayed
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
