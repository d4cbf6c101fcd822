"""Mutants of gemm-sm90: each is caught by the simulator, in any order of the warps, or is no mistake.

python -m tests.mutants.sm90 [CASE ...]

prints the mutants of the cases that some way of running them does not catch, with the reason why that is
right where EQUAL has one.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from layoutalg.codegen.program import Kernel, LaunchSequence, printed
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.gemm.groups import group_words
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.tiles import Sm90Config
from tests.kernels.gemm.cases import arguments, expected, grouped_arguments, grouped_expected, grouped_problem
from tests.mutants.ordering import mutants

Way = tuple[Literal["block", "warp"], int]
WAYS: tuple[Way, ...] = (("block", 0), ("warp", 1))

ONE, TWO = Sm90Config(64, 16, 2, 1), Sm90Config(128, 16, 2)
BY_ROWS = replace(ONE, through="shared", result_vec=1)
SIZES = {"groups": (128, 30, 70, 0, 128), "short groups": (64, 30, 30, 64, 30, 64)}
"""Rows of the groups, whose tiles two blocks compute in turn.  Of two boxes of a tile both, none, the first,
and both are whole; of one it is, is not, and is, in either order."""

CASES: dict[str, tuple[GemmProblem, Sm90Config]] = {
    "one consumer": (gemm_problem(8, 24, 136, "bf16"), ONE),
    "two consumers": (gemm_problem(72, 24, 136, "bf16"), TWO),
    "two boxes": (gemm_problem(8, 136, 200, "bf16"), replace(ONE, tile_n=128, stages=3)),
    "f32 result": (gemm_problem(8, 20, 136, "f16", result="f32"), replace(ONE, result_vec=4)),
    "by rows": (gemm_problem(8, 17, 136, "bf16"), BY_ROWS),
    "C and bias": (
        gemm_problem(72, 24, 136, "bf16", reads_c=True, bias=True),
        replace(TWO, through="shared"),
    ),
    "C in boxes": (gemm_problem(72, 24, 136, "bf16", reads_c=True, bias=True), TWO),
    "C of f32": (
        gemm_problem(8, 168, 456, "f16", result="f32", reads_c=True),
        replace(ONE, tile_n=160, result_vec=4, stages=7),
    ),
    "parts of k": (gemm_problem(8, 24, 328, "bf16"), replace(BY_ROWS, result_vec=4, splits=2)),
    "along rows": (
        gemm_problem(72, 72, 136, "bf16", a_major="mn", b_major="mn"),
        replace(ONE, tile_n=64),
    ),
    "ping-pong": (gemm_problem(8, 56, 136, "bf16"), Sm90Config(64, 16, 2, pingpong=True)),
    "cluster below": (gemm_problem(72, 24, 136, "bf16"), replace(ONE, cluster_m=2)),
    "cluster beside": (gemm_problem(72, 24, 136, "bf16"), replace(ONE, cluster_n=2)),
    "cluster along k": (gemm_problem(8, 32, 456, "bf16"), replace(ONE, tile_n=32, cluster_k=2)),
    "by registers": (gemm_problem(72, 24, 72, "tf32", a_major="mn"), replace(ONE, tile_k=32, result_vec=4)),
    "crossed": (
        gemm_problem(20, 72, 72, "tf32", b_major="mn"),
        replace(BY_ROWS, tile_k=32, result_vec=4, crossed=True),
    ),
    "turned boxes": (gemm_problem(24, 72, 136, "bf16", bias=True), replace(ONE, crossed=True)),
    "8-bit floats": (
        gemm_problem(8, 24, 272, "e4m3", b_dtype="e5m2", scale_a="m", scale_b="n"),
        replace(ONE, tile_k=128),
    ),
    "groups": (grouped_problem(SIZES["groups"], 40, 136), Sm90Config(128, 48, 2, 1)),
    "short groups": (grouped_problem(SIZES["short groups"], 16, 136), ONE),
}
"""Products of several tiles that one block or cluster computes, of more steps of k than stages; of groups
boxes leave by TMA and by threads, and one buffer holds both kinds in turn."""

TILE = r".*: consumer: wgmma_m\S+"
ONE_GROUP = (
    "one consumer|8-bit floats|two boxes|f32 result|along rows|cluster below|cluster beside|cluster along k|"
    "groups|short groups|C of f32|by registers|turned boxes"
)
PARTS = "parts of k|cluster along k"
TWO_GROUPS = "two consumers|ping-pong|C in boxes"
C = "C in boxes|C of f32"
BY_REGISTERS = "by registers|crossed"
EQUAL: dict[str, str] = {
    r".*: mbarrier_init .* before mbarrier_init .*": "barriers are initialised in any order",
    r".*: mbarrier_init full\[0\] by the last thread": "any one thread initialises",
    r".*: fence_barrier_init before mbarrier_init (empty|order).*": "no copy completes there",
    r".*: producer: mbarrier_wait .* by the last thread": "any one thread does all of it",
    r".*: producer: tma_load.* before mbarrier_arrive.*": "no phase ends before its arrival",
    r".*: producer: tma_load.* before tma_load.*": "copies of one phase are started in any order",
    r".*: consumer: wgmma_fence before mbarrier_wait .*": "no register is touched in between",
    TILE + r": [ab]_form LBO.*": "tiles are one atom wide along the mode that the LBO is for: it is not read",
    TILE + r" before wgmma_m.*": "sums in another order, each by the same wait",
    r".*: consumer: wgmma_commit twice.*": "a group of nothing: the wait behind it finishes more",
    r".*: consumer: (wgmma_wait|bulk_wait_read) (1: newest 0|2: newest 1|3: newest 2).*": (
        "waits for more than it needs"
    ),
    rf"({BY_REGISTERS}): consumer: wgmma_wait 3 before mbarrier_wait .*": "waits earlier",
    rf"({BY_REGISTERS}): consumer: warp_sync before wgmma_commit": "the warp meets before it arrives anyway",
    rf"({BY_REGISTERS}): consumer: mbarrier_arrive empty.* before warp_sync": (
        "what is handed back was read in the step before, behind which the warp has met"
    ),
    r"crossed: consumer: no warp_sync \(3\)": "the warp meets in the steps of the next tile",
    r".*: consumer: mbarrier_arrive.* by the last thread": "any one thread of the group arrives",
    r".*: consumer: mbarrier_arrive_remote .* by two threads": "the same threads arrive",
    r".*: consumer: (bulk_wait_read|wgmma_wait 0).* before mbarrier_(arrive|wait full).*": "waits earlier",
    r".*: consumer: bulk_wait\S* \d (without its condition|by two threads).*": "others wait for nothing",
    r".*: consumer: named_barrier \d by two threads.*": "the same threads take part",
    r".*: consumer: named_barrier 2 before named_barrier 1.*": "each group has a barrier of its own",
    rf"({ONE_GROUP}): consumer: named_barrier 1: number 2.*": "nobody else uses it",
    rf"({PARTS}): .*: mbarrier_wait .* without its condition.*": "each part has steps here",
    r"cluster along k: .*: mbarrier_arrive_expect_tx came.* before .*": "no phase ends before its bytes",
    r"cluster along k: .*: (no )?mbarrier_arrive empty\[\(trips.*": "no tile comes behind the only one",
    r"cluster along k: .*: (no )?bulk_wait_read 0[^(]*": "nothing was stored from the box before",
    r"cluster along k: .*: (no named_barrier 1|named_barrier 1 before bulk.*)": "nor has anybody used it",
    rf"({TWO_GROUPS}): consumer: named_barrier 2: number [34].*": "nobody else uses it",
    r".*: consumer: named_barrier 1 before fence_proxy_async.*": "the fence is for all it knows",
    r".*: consumer: bulk_commit twice.*": "a group of nothing: what waits behind it waits for more",
    r"(two boxes|groups|C of f32): consumer: (no bulk_commit|bulk_commit before tma_store).*": (
        "the next one closes both"
    ),
    r"groups: consumer: (no named_barrier 1|named_barrier 1 before bulk_wait_read 0)": (
        "what was in the first buffer was waited for in the tile before"
    ),
    rf"({C}): consumer: (bulk_wait_read 0 before wgmma_commit|wgmma_wait 1 before bulk_wait_read 0)": (
        "C is brought under the first step or behind it"
    ),
    rf"({C}): consumer: .* added.* without its condition.*": "beta is not 0",
    rf"({C}): consumer: (tma_load|mbarrier_arrive_expect_tx).* before mbarrier_arrive_expect_tx added.*": (
        "no phase of C ends before its arrival"
    ),
    r"C in boxes: consumer: mbarrier_arrive_expect_tx added.*: bar 1 stages on": (
        "the other consumer arrives here, for as many bytes"
    ),
    rf"({C}): consumer: mbarrier_wait added.* before (mbarrier_arrive empty|tma_store).*": (
        "waits for C earlier"
    ),
    rf"({C}): consumer: (no )?named_barrier \d"
    r"( never| without its condition|: (number|threads) \d+)?( \(\d+\))?": (
        "where beta is not 0, the mbarrier says that the place is free"
    ),
    r"8-bit floats: consumer: wgmma_m\S+ twice": "the first of a step forgets what was in D",
    r"8-bit floats: consumer: mbarrier_wait full.* without its condition": "each tile has steps here",
    r"8-bit floats: producer: mbarrier_arrive_expect_tx full.*: bar 1 stages on": (
        "each stage is full when the other one is expected, with as many bytes"
    ),
    r"cluster (below|beside): producer: mbarrier_wait empty.count.*: (bar 1 stages on|parity 0)": (
        "arrivals come in the order of steps, and the wait for the last one follows"
    ),
}
"""Mutants that are no mistakes, by a regular expression of case and label, and why."""


@dataclass(frozen=True)
class Case:
    """The launches of a product by one block, their arguments, and what D becomes."""

    launches: LaunchSequence
    args: dict[str, Any]
    d: Any

    @property
    def kernel(self) -> Kernel:
        """The kernel that is mutated: it multiplies."""
        return self.launches.kernels[0]

    def verdict(self, kernel: Kernel, ways: tuple[Way, ...] = WAYS) -> tuple[str, ...]:
        """What catches a kernel that is given for this one, in each way of running it: checked, hazard,
        result; "" for nothing."""
        try:
            program = printed(kernel)
        except LayoutAlgError:
            return ("checked",) * len(ways)
        return tuple(self._found(program, way) for way in ways)

    def _found(self, program: Kernel, way: Way) -> str:
        sequence = replace(self.launches, kernels=(program, *self.launches.kernels[1:]))
        args = {name: x.copy() if name == "d" else x for name, x in self.args.items()}
        try:
            simulate_sequence(sequence, args, group=way[0], seed=way[1], trace=False)
        except SimulationError:
            return "hazard"
        return "" if np.array_equal(args["d"], self.d) else "result"


@cache
def case(name: str) -> Case:
    """A case by name."""
    p, c = CASES[name]
    args = grouped_arguments(p) | group_words(SIZES[name], c.tile_m) if p.grouped else arguments(p)
    one = launches(p, c)
    if c.cluster_k == 1:
        blocks = 2 if p.grouped else c.cluster
        one = replace(one, scalars=(*one.scalars, ("blocks", blocks)))
    later = tuple(map(printed, one.kernels[1:]))
    d = grouped_expected(p, SIZES[name], args) if p.grouped else expected(p, args)
    return Case(replace(one, kernels=(one.kernels[0], *later)), args, d)


def reason(name: str, label: str) -> str:
    """Why a mutant of a case is no mistake; "" for one that is."""
    return next((why for like, why in EQUAL.items() if re.fullmatch(like, f"{name}: {label}")), "")


def main(names: list[str]) -> int:
    """Print what is not caught; the exit status is 1 where that is a mistake."""
    wrong = 0
    for name in names or CASES:
        one, counts = case(name), Counter[str]()
        assert one.verdict(one.kernel) == ("",) * len(WAYS), name
        for mutant in mutants(one.kernel):
            verdict = one.verdict(mutant.kernel)
            counts.update(verdict)
            if "" in verdict:
                why = reason(name, mutant.label)
                wrong += not why or set(verdict) != {""}
                print(f"{name}: {mutant.label}: {verdict} {why}", flush=True)
        print(name, dict(counts), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
