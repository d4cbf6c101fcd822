"""One judge of kernels that move data or work on rows, of any strides: results are the definition's, nothing
else is written, and accesses cost what is read off the programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from layoutalg.codegen.costs import sequence_traffic
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.program import SCRATCH, Kernel, LaunchSequence, dynamic_bytes, printed_sequence
from layoutalg.codegen.program.checks import check as check_program
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.checks.record import traced_costs
from layoutalg.kernels.move.problem import PermuteProblem, reference
from layoutalg.kernels.rowwise import NormProblem, plan_with
from tests.draws import norms, reductions
from tests.draws.permutations import random_buffers, same_numbers
from tests.draws.sequences import family_of
from tests.hostshim import run_cuda_text

Way = Literal["block", "warp", "text"]
"""In the simulator with all warps in step or one at a time, or as text on the host."""


def agree(
    p: Any, c: Any = None, seed: int = 1, way: Way = "block", *, d: Any = None, special: bool = True,
    arch: str = "sm_90", change: Callable[[Kernel], Kernel] | None = None,
) -> Any:  # fmt: skip
    """Run a configuration, the best when None, and assert what the module's text says; the destination.

    `d` is given data: norms.Data, or the numbers of a source that is reduced.  `change` plants a mistake in
    every kernel; costs are then not compared.
    """
    family = family_of(p)
    c = family.choose(p, arch) if c is None else c
    sequence = family.launches(p, c, arch)
    given, judge = trial(p, c, seed, special if d is None else d)
    if change is not None:
        sequence = replace(sequence, kernels=tuple(map(change, sequence.kernels)))
    elif way != "text":
        for kernel in sequence.kernels:
            check_program(kernel, arch)
    if way == "text":
        on_host(sequence, given)
    else:
        runs = simulate_sequence(printed_sequence(sequence), given, group=way, seed=seed)
        costs = [dict(one) for one in sequence_traffic(sequence, {}, arch)]
        assert change or [traced_costs([run.trace]) for run in runs] == costs, (str(p), c)
    judge(given["dst"])
    return given["dst"]


def trial(p: Any, c: Any, seed: int, d: Any = True) -> tuple[dict[str, Any], Callable[[Any], None]]:
    """The buffers of a problem, and what asserts that a destination is right.

    `d` is what a norm or a reduction is given, or whether some numbers of a norm are infinite or NaN.
    """
    if isinstance(p, PermuteProblem):
        src, old = random_buffers(p, seed)
        wanted = reference(p, src, old)

        def moved(new: Any) -> None:
            same = same_numbers(new, wanted, p.result.name) if p.result else new.tobytes() == wanted.tobytes()
            assert same, (str(p), c)

        return {"src": src.copy(), "dst": old.copy()}, moved
    if isinstance(p, NormProblem):
        mine = norms.data(p, seed, special=d) if isinstance(d, bool) else d
        given = {"src": mine.src.copy(), "dst": mine.old.copy(), "weight": mine.weight, "bias": mine.bias}
        return given, lambda new: norms.check(p, mine, new)
    src, old, values = reductions.data(p, seed, None if isinstance(d, bool) else d)
    additions = plan_with(p, c).additions
    return {"src": src, "dst": old}, lambda new: reductions.check(p, additions, values, new)


def on_host(sequence: LaunchSequence, given: Mapping[str, Any]) -> None:
    """Run the printed texts of all launches on the host."""
    scratch = np.full(max(16, sequence.scratch_bytes), 255, "u1")
    steps = zip(sequence.kernels, sequence.arguments({**given, SCRATCH: scratch}), strict=True)
    for kernel, args in steps:
        dynamic = dynamic_bytes(kernel)
        shape = launch_grid(kernel, {}), (kernel.threads, 1, 1)
        run_cuda_text(to_cuda(kernel), kernel.name, *shape, [args[q.name] for q in kernel.params], dynamic)
