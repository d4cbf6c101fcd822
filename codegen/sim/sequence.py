"""A sequence of launches in the simulator: its kernels one after the other, scratch memory poisoned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from layoutalg.arch import Arch
from layoutalg.codegen.program import SCRATCH, LaunchSequence
from layoutalg.codegen.sim.simulator import Simulation, simulate

UNIT_BYTES = 16
"""Scratch memory is whole units."""


def simulate_sequence(
    sequence: LaunchSequence,
    given: Mapping[str, Any],
    *,
    arch: str | Arch = "sm_90",
    group: Literal["block", "warp"] = "block",
    seed: int = 0,
    trace: bool = True,
) -> tuple[Simulation, ...]:
    """Run all kernels, as they are, on NumPy buffers and scalars `given` by name; buffers are modified.

    All bits of scratch memory are set before: what is read there and was not written is not a number.  Raises
    what `simulate` raises, ArgumentTypeError for a missing name.

    >>> from layoutalg.codegen.program import launch_sequence
    >>> simulate_sequence(launch_sequence([]), {})
    ()
    """
    import numpy

    units = -(-sequence.scratch_bytes // UNIT_BYTES)
    scratch = numpy.full(max(units, 1) * UNIT_BYTES, 255, numpy.uint8)
    steps = zip(sequence.kernels, sequence.arguments({**given, SCRATCH: scratch}), strict=True)
    return tuple(
        simulate(kernel, _as_bytes(args), arch=arch, group=group, seed=seed, trace=trace)
        for kernel, args in steps
    )


def _as_bytes(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x.reshape(-1).view("u1") if hasattr(x, "dtype") else x for name, x in args.items()}
