"""Places of elements in padded shared memory, as a GPU has them of Triton.

python -m tests.gpu.padded_encodings FIRST COUNT

A Gluon kernel per drawn encoding fills shared memory with zeros, stores the row-major number of each element
through the encoding, and reads the bytes in the order of their addresses.  The offsets are compared with the
layout that the library reads from Gluon's constructor.  Encodings that need more memory than a block has are
counted apart.  It needs Triton 3.9 with Gluon, and PyTorch.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from math import prod
from multiprocessing import get_context
from typing import Any

import numpy

import layoutalg as la
from tests.draws.shared_encodings import Encoding, drawn

PROCESSES, MOST_BYTES, THREADS = 14, 200_000, 128

try:
    import torch
    from triton.experimental import gluon
    from triton.experimental.gluon import language as ttgl
except ImportError:
    sys.exit("Triton with Gluon, and PyTorch, are needed")


@gluon.jit  # type: ignore[untyped-decorator]
def placed(out, TOTAL: ttgl.constexpr, SHAPE: ttgl.constexpr, LAYOUT: ttgl.constexpr, N: ttgl.constexpr):  # type: ignore[no-untyped-def]
    """Store the numbers from 1 on through a layout; `out` is what lies at each offset."""
    REG: ttgl.constexpr = ttgl.BlockedLayout([1], [32], [4], [0])
    lane = ttgl.arange(0, 128, layout=REG)
    number = (ttgl.arange(0, TOTAL, layout=REG) + 1).to(ttgl.int16).reshape(SHAPE)
    memory = ttgl.allocate_shared_memory(ttgl.int16, SHAPE, LAYOUT)
    for i in range(0, N, 128):
        zero = ttgl.inline_asm_elementwise(
            "{.reg .b32 a; .reg .b16 z; mov.b32 a, global_smem; add.s32 a, a, $1; mov.b16 z, 0; "
            "st.shared.b16 [a], z; mov.b32 $0, 0;}",
            "=r,r", [(lane + i) * 2], dtype=ttgl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        ttgl.store(out + lane + i, zero)
    ttgl.barrier()
    memory.store(number)
    ttgl.barrier()
    for i in range(0, N, 128):
        found = ttgl.inline_asm_elementwise(
            "{.reg .b32 a; .reg .b16 z; mov.b32 a, global_smem; add.s32 a, a, $1; ld.shared.b16 z, [a]; "
            "cvt.u32.u16 $0, z;}",
            "=r,r", [(lane + i) * 2], dtype=ttgl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        ttgl.store(out + lane + i, found)
    ttgl.barrier()
    memory.store(number)  # so that the memory is in use until here


def judged(case: Encoding) -> str:
    """The number of elements that lie elsewhere than the library says, in words."""
    ours: Any = la.parse(case.gluon)
    total, size = prod(case.shape), la.cosize(ours)
    if 2 * (size + THREADS) > MOST_BYTES:
        return "too large"
    pairs, bases, shape = ([list(x) if isinstance(x, tuple) else x for x in part] for part in case)
    held = -(-size // THREADS) * THREADS
    out = torch.zeros(held, dtype=torch.int32, device="cuda")
    placed[(1,)](
        out,
        total,
        case.shape,
        ttgl.PaddedSharedLayout(pairs, bases, [], shape),
        held,
        num_warps=THREADS // 32,
    )
    numbers = numpy.arange(total).reshape(case.shape)
    places = ours(*numpy.indices(case.shape))
    wrong = int((out.cpu().numpy()[places] != numbers + 1).sum())
    return f"{wrong} elements elsewhere" if wrong else "equal"


def _answer(seed: int) -> tuple[int, str]:
    return seed, judged(drawn(seed))


def main(first: str, count: str) -> None:
    """Judge the encodings with pads of a range of seeds."""
    seeds = [seed for seed in range(int(first), int(first) + int(count)) if drawn(seed).pairs]
    counts = Counter[str]()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for seed, answer in pool.map(_answer, seeds, chunksize=8):
            counts[answer] += 1
            if answer not in ("equal", "too large"):
                print(seed, drawn(seed), answer, flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
