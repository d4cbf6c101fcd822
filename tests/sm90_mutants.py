"""Mutants of gemm-sm90: each is caught by the simulator, in any order of the warps, or is no mistake.

python -m tests.sm90_mutants [CASE ...]

prints the mutants of the cases that nothing catches, and those that only some orders catch.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.sm90 import build
from layoutalg.kernels.gemm.tiles import Sm90Config
from tests.gemm_cases import arguments, expected, taken
from tests.sync_mutants import Mutant, mutants

Way = tuple[Literal["block", "warp"], int]
WAYS: tuple[Way, ...] = (("block", 0), ("warp", 1))

CASES: dict[str, tuple[GemmProblem, Sm90Config, int]] = {
    "one consumer": (gemm_problem(72, 24, 264, "bf16"), Sm90Config(64, 16, 3, 1), 1),
    "two consumers": (gemm_problem(136, 24, 264, "bf16"), Sm90Config(128, 16, 3), 1),
}  # fmt: skip
"""Products of several tiles that one block computes, of more steps of k than stages."""


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, and what D becomes."""

    kernel: Kernel
    args: dict[str, Any]
    d: Any

    def found(self, kernel: Kernel, way: Way) -> str:
        """What catches a kernel that is given for this one: checked, hazard, result; "" for nothing."""
        try:
            program = printed(kernel)
        except LayoutAlgError:
            return "checked"
        args = taken(program, self.args)
        try:
            simulate(program, args, group=way[0], seed=way[1], trace=False)
        except SimulationError:
            return "hazard"
        return "" if np.array_equal(args["d"], self.d) else "result"

    def verdict(self, mutant: Mutant) -> tuple[str, ...]:
        """What catches a mutant, in each of WAYS."""
        return tuple(self.found(mutant.kernel, way) for way in WAYS)


@cache
def case(name: str) -> Case:
    p, c, blocks = CASES[name]
    args = arguments(p) | {"blocks": blocks}
    return Case(build(p, c), args, expected(p, args))


def main(names: list[str]) -> None:
    for name in names or CASES:
        one, counts = case(name), dict.fromkeys(("checked", "hazard", "result", ""), 0)
        assert one.verdict(Mutant("", one.kernel)) == ("",) * len(WAYS), name
        for mutant in mutants(one.kernel):
            verdict = one.verdict(mutant)
            for found in verdict:
                counts[found] += 1
            if "" in verdict:
                print(f"{name}: {mutant.label}: {verdict}", flush=True)
        print(name, counts)


if __name__ == "__main__":
    main(sys.argv[1:])
