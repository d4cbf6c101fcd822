"""What TMA counts of boxes that a cluster shares, case by case, beside what the simulator counts.

python -m tests.gpu.multicast_counters boxes out.json     rows of 128 bytes, from one `ncu` run
python -m tests.gpu.multicast_counters others out.json    rows of other widths
python -m tests.gpu.multicast_counters products           products by gemm-sm90 whose clusters share rows

One cluster, whose block r loads the box of rows from r * high on, and one step of k, into itself or into all
blocks.  Few rows are in bounds, so that a counter less the zeros tells what single rows cost; the first row
starts at a multiple of 256 bytes, and row i at i times the pitch.  Exit status 1 where a count is other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from layoutalg import codegen as cg
from layoutalg.algebra import tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.codegen.gpu import to_device
from layoutalg.codegen.program import Kernel
from layoutalg.dtype import dtype
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.ladder.counters import work
from layoutalg.layout import AnyLayout, Layout
from tests.gpu.counters import count_launches, verdict
from tests.gpu.gemm_ladder import BY_TMA, launch_all

FAMILY = find_family("gemm-sm90")

TMA_IN = BY_TMA["TMA in"]
METRICS = (TMA_IN, TMA_IN.replace(".sum", ".max"), BY_TMA["L2 in"])
SECTOR_BYTES, MOST = 32, 1 << 13


@dataclass(frozen=True, slots=True)
class Case:
    """A launch: `rows` of `nbytes` bytes, `pitch` bytes apart, by boxes of `high` rows, at a step of k, which
    is `wide` bytes."""

    rows: int
    nbytes: int
    pitch: int
    high: int = 8
    blocks: int = 2
    shared: bool = True
    step: int = 0
    wide: int = 128
    mode: str = "128B"


def all_cases() -> Iterator[Case]:
    """The cases in the order of their launches."""
    for nbytes in (128, 112, 96, 80, 64, 48, 32, 16):
        for start in range(0, 128, 16):  # where the second row starts
            yield Case(2, nbytes, 256 + start)
    for start in range(128, 256, 16):
        yield Case(2, 128, 256 + start)
    for rows in range(1, 33):
        yield Case(rows, 1040, 1040, 64, step=0)
    for step in range(9):
        yield Case(128, 1040, 1040, 128, step=step)
    for high in (8, 16, 32, 64, 128, 256):
        for blocks, shared in ((2, True), (4, True), (2, False), (1, False)):
            yield Case(high * blocks, 1040, 1040, high, blocks, shared, 1)
    for pitch in (1024, 1056, 1072, 1088, 1104, 1120, 1136, 1152, 1168):
        yield Case(128, 1024, pitch, 64, step=1)
    for start in range(0, 128, 16):  # alone, without a cluster's masks, and of four
        yield Case(2, 128, 256 + start, blocks=4)
        yield Case(2, 128, 256 + start, shared=False)


def other_cases() -> Iterator[Case]:
    """Rows of other widths, in the order of their launches."""
    for wide, mode in ((64, "64B"), (32, "32B"), (256, "none"), (128, "none"), (64, "none")):
        for nbytes in (wide, wide - 16, wide // 2, 16):
            for start in range(0, 128, 16 if nbytes == wide else 48):
                yield Case(2, nbytes, 512 + start, wide=wide, mode=mode)


PRODUCTS: tuple[tuple[GemmProblem, Sm90Config], ...] = (
    (gemm_problem(1000, 1000, 520, "bf16"), Sm90Config(128, 256, 4, cluster_m=2)),
    (gemm_problem(1000, 1000, 520, "bf16"), Sm90Config(128, 256, 4, cluster_n=2)),
    (gemm_problem(1000, 1000, 520, "bf16"), Sm90Config(128, 128, 4, cluster_m=4)),
    (gemm_problem(1000, 1000, 520, "bf16", lda=528), Sm90Config(128, 256, 4, cluster_m=2)),
    (gemm_problem(1000, 1000, 520, "bf16", ldb=528), Sm90Config(128, 256, 4, cluster_m=2)),
    (gemm_problem(1000, 1000, 512, "bf16", lda=520, ldb=520), Sm90Config(128, 256, 4, cluster_m=2)),
    (gemm_problem(712, 904, 328, "bf16"), Sm90Config(128, 160, 4, cluster_m=2)),
    (gemm_problem(712, 904, 1032, "bf16"), Sm90Config(192, 192, 3, 3, cluster_m=2)),
    (gemm_problem(712, 904, 328, "f16", a_major="mn", b_major="mn"), Sm90Config(128, 128, 4, cluster_m=2)),
    (gemm_problem(1160, 1352, 424, "bf16", lda=432), Sm90Config(128, 128, 5, cluster_n=2)),
    (gemm_problem(520, 1352, 1000, "f16", b_major="mn"), Sm90Config(128, 256, 4, cluster_m=2)),
    (gemm_problem(1352, 520, 776, "bf16", a_major="mn"), Sm90Config(256, 128, 4, cluster_n=2)),
    (gemm_problem(2000, 328, 264, "bf16"), Sm90Config(128, 192, 4, cluster_m=2, pingpong=True)),
)
"""Products whose counts judge a law."""


@cache
def program(high: int, blocks: int, shared: bool, wide: int = 128, mode: str = "128B") -> Kernel:
    """A cluster that loads a box per block."""
    k = cg.Kernel("brought", threads=32)
    m, n, ld = k.extent("m", MOST), k.extent("n", MOST, 8), k.extent("ld", MOST, 8)
    deep = wide // 2
    step, block = k.param("step", MOST // deep, 0), k.block(0, blocks)
    k.cluster(blocks)
    src = k.tensor("src", "f16", (m, n), (ld, 1))
    load = k.tensor_map("load", src, (high, deep), mode=mode, l2_promotion_bytes=128)
    layout: AnyLayout = Layout((high, deep), (deep, 1))
    if mode != "none":
        layout = tile_to_shape(atom_layout(f"Layout_K_SW{mode[:-1]}_Atom", dtype("f16")), (high, deep))
    tile = k.shared("tile", "f16", layout, stages=blocks if shared else 2, align_bytes=1024)
    full = k.mbarrier("full", 1)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], high * wide * (blocks if shared else 1))
        rank = k.rank if blocks > 1 else block
        there = cg.local_tile(src, (high, deep), (rank, step))
        into = tile[None, None, rank if shared else 0]
        k.tma_load(load, there, into, full[0], blocks=(1 << blocks) - 1 if shared else None)
    k.wait(full[0], 0)
    if blocks > 1:
        k.cluster_sync()
    return k.build()


def sizes_of(case: Case) -> dict[str, int]:
    """The integers of a launch."""
    return {"m": case.rows, "n": case.nbytes // 2, "ld": case.pitch // 2, "step": case.step}


def kernel_of(case: Case) -> Kernel:
    """The program of a case; those of many are one."""
    return program(case.high, case.blocks, case.shared, case.wide, case.mode)


def simulated(case: Case) -> int:
    """What the simulator counts."""
    src = np.zeros(case.pitch * max(case.rows, 2), np.float16)
    return cg.simulate(kernel_of(case), {"src": src, **sizes_of(case)}).counted["load"]


def products() -> int:
    """What products count, beside the prediction; the exit status."""
    wrong = 0
    launches = count_launches("^gemm_sm90", METRICS, "tests.gpu.multicast_counters", "products", "launch")
    for (p, c), counters in zip(PRODUCTS, launches, strict=True):
        sequence = FAMILY.launches(p, c, "sm_90")
        given = {**dict(sequence.scalars), **FAMILY.scalars(p)}
        predicted = work(p, c, sequence.kernels[0], given).read_bytes
        counted = int(counters.get(TMA_IN, -1))
        more = (counted - predicted) / SECTOR_BYTES
        print(f"{p}, rows of {p.lda} and {p.ldb}, {c}: {predicted} {counted} {more:+}", flush=True)
        wrong += more != 0
    return verdict(wrong, len(PRODUCTS), "products")


def launch_boxes(which: Iterable[Case]) -> None:
    """Every case once."""
    src = to_device(np.zeros(1 << 20, np.float16))
    for case in which:
        cg.launch(kernel_of(case), {"src": src, **sizes_of(case)})


def boxes(cases: Sequence[Case], word: str, path: Path) -> int:
    """What boxes count, beside what the simulator does; the exit status."""
    launches = count_launches("^brought", METRICS, "tests.gpu.multicast_counters", word, "launch")
    if len(launches) != len(cases):
        raise RuntimeError(f"{len(launches)} launches were counted, {len(cases)} were made")
    rows = []
    for case, counters in zip(cases, launches, strict=True):
        counted = [int(counters.get(metric, -1)) for metric in METRICS]
        rows.append(asdict(case) | {"predicted": simulated(case), "counted": counted})
        more = (counted[0] - rows[-1]["predicted"]) / SECTOR_BYTES
        print(*asdict(case).values(), rows[-1]["predicted"], *counted, f"{more:+}", flush=True)
    path.write_text(json.dumps(rows).replace("{", "\n{") + "\n", encoding="utf-8")
    return verdict(sum(row["counted"][0] != row["predicted"] for row in rows), len(cases), "boxes")


def main(args: list[str]) -> int:
    """See the module's text."""
    word, *rest = args
    if word == "products":
        if rest:
            for p, c in PRODUCTS:
                launch_all(FAMILY, p, [c])
            return 0
        return products()
    cases = list(dict.fromkeys(all_cases() if word == "boxes" else other_cases()))
    if rest == ["launch"]:
        launch_boxes(cases)
        return 0
    return boxes(cases, word, Path(rest[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
