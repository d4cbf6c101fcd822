"""Random kernels, printed as CUDA and read back, cost what their indices cost when evaluated plainly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from layoutalg.arch import find_arch
from layoutalg.source import read_kernel
from layoutalg.source.costs import Launch, cost_of
from tests.source.random_kernels import RandomKernel, sources


def _compared(kernels: tuple[RandomKernel, ...]) -> None:
    text = "\n".join(kernel.text for kernel in kernels)
    first = kernels[0]
    reading = read_kernel(text, first.block, grid=first.grid)
    found = {}
    for access in reading.accesses:
        assert access.read, (access, text)
        verb = "st" if access.op.startswith("st.shared") else "ld"
        row = (access.instructions, access.total, access.ideal_total, access.ways or 1)
        found[access.line, verb] = row
    line = 1
    for kernel in kernels:
        lines = kernel.text.count("\n") + 1
        at = line + lines - 2
        wanted = kernel.counts()
        assert {verb: found[at, verb] for verb in ("ld", "st")} == wanted, kernel.text
        line += lines
    machine, launch = (
        find_arch("sm_90"),
        Launch((*first.block, 1), None if first.grid is None else (*first.grid, 1)),
    )
    for touch in reading.touches:
        assert cost_of(touch, launch, machine) == cost_of(touch, launch, machine, enumerated=True), str(
            touch.offset
        )


@pytest.mark.deep
@settings(max_examples=6, deadline=None)
@given(sources())
def test_what_is_read_is_what_is_evaluated(kernels: tuple[RandomKernel, ...]) -> None:
    _compared(kernels)


@pytest.mark.deep
@settings(max_examples=150, deadline=None)
@given(sources(12))
def test_what_is_read_is_what_is_evaluated_at_length(kernels: tuple[RandomKernel, ...]) -> None:
    _compared(kernels)
