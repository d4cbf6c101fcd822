"""Quantising kernels on drawn matrices: verified, then timed beside a copy of the same bytes, cold L2.

python -m tests.gpu.drawn_quantize SEED OUT.json

Small matrices of drawn shapes, types and ways are compared with the definition in all bits; then the way by
vectors of 16 elements is timed on drawn large ones until 75 s are over, of which every third has rows of a
multiple of 8, 4 or 2 elements.  A line is a problem, with the share of the copy.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.bench import Method, benchmark_ways

NAMES = ("quantize_nvfp4", "quantize_mxfp4", "quantize_mxfp8")
VERIFIED, TIMED, MOST_S = 36, 18, 75.0


def main(seed: str, out: str) -> None:
    """Verify and time, and write the shares."""
    start, rng = time.monotonic(), random.Random(f"quantise {seed}")
    failed = list[str]()
    for i in range(VERIFIED):
        family = FAMILIES[NAMES[i % 3]]
        shape = rng.choice((1, 31, 128, 200, 300)), rng.choice((2, 6, 34, 36, 40, 52, 96, 264, 1000, 2050))
        p = family.problem(shape, rng.choice(("bf16", "f16", "f32")))
        way = rng.choice(family.configs(p, "sm_90"))
        if not verify(family, p, way, target="gpu", seed=i).passed:
            failed.append(f"{p} by {way}")
    print(f"verified {VERIFIED}, failed {failed}", flush=True)
    rows = list[dict[str, object]]()
    for i in range(TIMED):
        if time.monotonic() - start > MOST_S:
            break
        step = 32 if i % 3 else rng.choice((8, 4, 2))
        shape = rng.randint(1000, 14000), step * rng.randint(1280 // step, 10240 // step)
        name = NAMES[(0, 0, 1, 0, 1, 2)[i // 3 % 6]]
        p = FAMILIES[name].problem(shape, ("bf16", "bf16", "f16")[i % 3])
        widest = [c for c in FAMILIES[name].configs(p, "sm_90") if c.vec >= 16]
        timed = benchmark_ways(name, p, {str(c): c for c in widest}, method=Method(cold=True))
        shares = {row.way: round(row.share or 0, 3) for row in timed}
        rows.append({"problem": str(p), "copy GB/s": timed[0].rates["copy"], "shares": shares})
        print(p, *shares.values(), flush=True)
    Path(out).write_text(json.dumps({"seed": seed, "failed": failed, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
