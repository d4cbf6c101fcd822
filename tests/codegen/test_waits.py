"""A kernel that may start early waits before it touches what the one in front of it works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import CP_ASYNC, CP_COMMIT, CP_WAIT, GRID_WAIT, LDG, LDG_FRESH, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, LaunchSequence
from layoutalg.codegen.program.checks import check
from layoutalg.errors import IRError
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.rowwise import norm_problem, reduce_problem
from layoutalg.kernels.verification import verify
from layoutalg.layout import Layout
from tests import mutate
from tests.sequences import family_of, launches_of
from tests.sweeps import each

SECOND = (
    *(
        launches_of(p).kernels[1]
        for p in (
            reduce_problem((1 << 26,), 0, "sum", "f32"), norm_problem("softmax", (40000, 24), 0, "bf16"),
            norm_problem("layer_norm", (40001, 33), 0, "f32"),
            norm_problem("softmax", (1, 1 << 20), 1, "f32", in_place=True),
        )
    ),
    launches(gemm_problem(64, 64, 512), Sm80Config(64, 64, 32, 2, 2, 3, splits=4)).kernels[1],
)  # fmt: skip
"""The second kernels of chains."""


@pytest.mark.parametrize("kernel", SECOND, ids=lambda k: str(k.name))
def test_a_forgotten_wait_is_refused(kernel: Kernel) -> None:
    """Dropping it was seen by nothing: the simulator runs kernels one after the other."""
    check(kernel)
    broken = mutate.without(kernel, "grid_wait")
    for door in (check, to_cuda):
        with pytest.raises(IRError, match="while the kernel in front works on it"):
            door(broken)


def test_verify_refuses_it() -> None:
    p = norm_problem("layer_norm", (1, 1 << 15), 1, "f32")
    family = family_of(p)

    def broken(p: Any, config: Any, arch: Any) -> LaunchSequence:
        one = family.launches(p, config, arch)
        return replace(one, kernels=tuple(mutate.without(k, "grid_wait") for k in one.kernels))

    with pytest.raises(IRError, match="while the kernel in front"):
        verify(replace(family, launches=broken), p)


def test_who_waits_for_what() -> None:
    assert [k.awaited for k in SECOND] == [
        ("src",),
        ("partial",),
        ("partial",),
        ("partial", "dst"),
        ("sums",),
    ]
    assert all(k.dependent for k in SECOND)


Part = Callable[[KernelBuilder], None]


def _kernel(write: Part, awaited: tuple[str, ...] = ("x", "y")) -> Kernel:
    k = KernelBuilder("second", threads=32)
    k.param("n", 9)
    for name in "xyz":
        k.pointer(name, 4, writable=name == "y")
    k.reg("v", 1)
    write(k)
    return replace(k.build(), awaited=awaited)


def _read(k: KernelBuilder, name: str = "x", *, fresh: bool = True) -> None:
    (x,) = (p for p in k._params if p.name == name)
    k.do((LDG_FRESH if fresh else LDG)[4], k._regs[0], k.at(x, k.tid))  # type: ignore[arg-type]


def _store(k: KernelBuilder) -> None:
    k.do(STG[4], k.at(k._params[2], k.tid), k._regs[0])  # type: ignore[arg-type]


def _wait(k: KernelBuilder) -> None:
    k.do(GRID_WAIT)


def _in_a_branch(k: KernelBuilder) -> None:
    with k.If(k.tid < 4):
        _wait(k)
    _read(k)


def _in_both_branches(k: KernelBuilder) -> None:
    with k.If(k.tid < 4):
        _wait(k)
        _read(k)
    with k.Else():
        _wait(k)
    _read(k)


def _in_a_loop(k: KernelBuilder) -> None:
    with k.For("i", k._params[0]):  # type: ignore[arg-type]
        _wait(k)
    _read(k)


def _after_the_first_turn(k: KernelBuilder) -> None:
    with k.Unroll("i", 2):
        _read(k)
        _wait(k)


def _unrolled(k: KernelBuilder) -> None:
    with k.Unroll("i", 2):
        _wait(k)
    _read(k)


def _copied(k: KernelBuilder) -> None:
    tile = k.shared_buffer("tile", 4, Layout(32), 32, 128)
    k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(k._params[1], k.tid))  # type: ignore[arg-type]
    k.do(CP_COMMIT)
    k.do(CP_WAIT, 0)


@each(
    ("parts", "match"),
    [
        ([_wait, _read], None), ([_read, _wait], "may touch x"), ([_in_a_branch], "may touch x"),
        ([_in_both_branches], None), ([_in_a_loop], "may touch x"), ([_unrolled], None),
        ([_after_the_first_turn], "may touch x"), ([_wait, _read, _store], None),
        ([lambda k: _read(k, "z", fresh=False), _wait, _store], None),
        ([lambda k: _read(k, "z"), _store, _wait], "may touch y"),
        ([_wait, lambda k: _read(k, fresh=False)], "may be moved ahead of grid_wait: x takes ldg32_fresh"),
        ([_wait, lambda k: _read(k, "y", fresh=False)], None), ([_copied, _wait], "may touch x"),
        ([_wait, _copied], None),
    ],
)  # fmt: skip
def test_every_access_stands_behind_a_wait_of_its_thread(parts: list[Part], match: str | None) -> None:
    def write(k: KernelBuilder) -> None:
        for part in parts:
            part(k)

    if match is None:
        check(_kernel(write))
        return
    with pytest.raises(IRError, match=match):
        check(_kernel(write))
    check(_kernel(write, ()))


def test_what_is_awaited_exists() -> None:
    with pytest.raises(IRError, match="sum is not a pointer of second"):
        check(_kernel(_wait, ("sum",)))
