"""Launch sequences: kernels in order, their buffers and scalars, in the simulator and as data for a GPU."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_sequence
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, LaunchSequence, launch_sequence, overlapped, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import ArgumentTypeError, ShapeError


def moved(name: str, of: str, to: str) -> Kernel:
    """to[i] = of[i + 1] for i below n."""
    k = KernelBuilder(name, threads=32)
    n, src, dst = k.param("n", 32), k.pointer(of, 4), k.pointer(to, 4, writable=True)
    v = k.reg("v", 1)
    with k.If(k.tid < n):
        k.do(LDG[4], v, k.at(src, k.tid + 1))
        k.do(STG[4], k.at(dst, k.tid), v)
    return k.build()


def two() -> LaunchSequence:
    names = {"src": "x"}, {"sums": "scratch"}
    kernels = moved("first", "src", "scratch"), moved("second", "sums", "dst")
    return launch_sequence(kernels, names, scalars={"n": 8}, scratch_bytes=36)


def test_pointers_are_the_buffers_of_their_names_or_of_others() -> None:
    one = two()
    assert one.buffers == (("x", "scratch"), ("scratch", "dst"))
    first, second = one.arguments({"x": 1, "dst": 2, "scratch": 3})
    assert first == {"n": 8, "src": 1, "scratch": 3} and second == {"n": 8, "sums": 3, "dst": 2}
    assert one.arguments({"x": 1, "dst": 2, "scratch": 3, "n": 7})[1]["n"] == 7
    with pytest.raises(ArgumentTypeError, match="second takes dst; got n, x, scratch"):
        one.arguments({"x": 1, "scratch": 3})


def test_scratch_memory_is_poison_before_it_is_written() -> None:
    x, dst = np.arange(64, dtype="u4"), np.zeros(64, "u4")
    runs = simulate_sequence(printed_sequence(two()), {"x": x, "dst": dst})
    assert dst[:9].tolist() == [2, 3, 4, 5, 6, 7, 8, 2**32 - 1, 0]
    assert [run.trace.total("st.global.b32")[0] for run in runs] == [1, 1]


def test_kernels_behind_others_start_early_where_the_architecture_can() -> None:
    for arch, early in (("sm_80", False), ("sm_90", True)):
        assert [kernel.dependent for kernel in overlapped(two(), arch).kernels] == [False, early]
    apart = launch_sequence([moved("first", "a", "b"), moved("second", "c", "d")], arch="sm_90")
    assert not any(kernel.dependent for kernel in apart.kernels)
    three = launch_sequence([moved(name, name[0], name[1]) for name in ("ab", "bc", "cd")], arch="sm_90")
    assert [kernel.awaited for kernel in three.kernels] == [(), ("b",), ("c",)]


def test_a_compiled_sequence_is_data_and_becomes_ready_when_its_scalars_are_bound() -> None:
    compiled = compile_sequence(two(), "sm_90a")
    assert pickle.loads(pickle.dumps(compiled)) == compiled and compiled.registers > 0
    assert not any(kernel.body for kernel in compiled.sequence.kernels)
    ready = compiled.ready({"n": 5})
    assert [kernel.scalars for kernel in ready.kernels] == [((0, 5),)] * 2
    assert ready.buffers == two().buffers and ready.scratch_bytes == 36
    with pytest.raises(ShapeError, match="n = 33"):
        compiled.ready({"n": 33})
