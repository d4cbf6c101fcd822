"""Kernels made ready to load: by one process or by several, with the same result."""

from __future__ import annotations

import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen import gpu
from layoutalg.codegen.instr import LDG, STG, Instr, Requires
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, launch_sequence
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError


def shift(words: int) -> Kernel:
    """dst[i] = src[i + words] for 64 words."""
    k = KernelBuilder("shift", threads=64)
    src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    v = k.reg("v", 1, 1)
    k.do(LDG[4], v[0], k.at(src, k.tid + words))
    k.do(STG[4], k.at(dst, k.tid), v[0])
    return k.build()


def made(words: int) -> tuple[int, gpu.Prepared]:
    if words > 90:
        raise ShapeError(f"{words} words")
    return os.getpid(), gpu.prepare(shift(words), "sm_80")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path / "cubins"))
    return tmp_path / "cubins"


def test_a_prepared_kernel_is_what_a_launch_needs(folder: Path) -> None:
    kernel = shift(3)
    ready = gpu.prepare(kernel, "sm_80")
    assert ready.source == gpu.to_cuda(kernel, "sm_80") and ready.cubin.image[:4] == b"\x7fELF"
    assert ready.kernel == replace(kernel, regs=(), body=()) and not ready.kernel.body
    assert pickle.loads(pickle.dumps(ready)) == ready
    assert gpu.usage(folder)[0] == 1


@pytest.mark.deep
def test_several_processes_give_what_one_gives(folder: Path) -> None:
    results = gpu.in_processes(made, range(4))
    assert [r.source for _, r in results] == [made(words)[1].source for words in range(4)]
    assert os.getpid() not in {pid for pid, _ in results} or len(os.sched_getaffinity(0)) == 1
    assert [r.cubin for _, r in results] == [made(words)[1].cubin for words in range(4)]
    assert gpu.usage(folder)[0] == 4


def test_one_item_needs_no_process() -> None:
    assert gpu.in_processes(made, [7])[0][0] == os.getpid()
    assert gpu.in_processes(made, []) == []


@pytest.mark.deep
def test_errors_come_back() -> None:
    with pytest.raises(ShapeError, match="91 words"):
        gpu.in_processes(made, [1, 91, 92])


def of_one_arch() -> Kernel:
    """A kernel with an instruction of sm_90a alone."""
    k = KernelBuilder("fewer", threads=128)
    text = 'void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }'
    k.do(Instr("fewer_registers", (), text, lambda *_: None, Requires(sm=90, arch_specific=True)))
    return k.build()


def test_what_exists_on_one_architecture_alone_is_compiled_for_it() -> None:
    for arch in ("sm_90", "sm_90a", "H200"):
        assert gpu.kernel_target(of_one_arch(), arch) == "sm_90a"
    assert gpu.prepare(of_one_arch(), "H100").cubin.arch == "sm_90a"
    assert [gpu.kernel_target(shift(3), arch) for arch in ("H100", "sm_90a", "A100")] == [
        "sm_90", "sm_90a", "sm_80",
    ]  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a", "sm_120"])
def test_another_architecture_is_refused_before_anything_is_compiled(arch: str, folder: Path) -> None:
    for asked in (gpu.kernel_target, gpu.prepare, gpu.to_cuda):
        with pytest.raises(UnsupportedError, match="fewer_registers exists on sm_90a alone; sm_"):
            asked(of_one_arch(), arch)
    assert not folder.exists()
    with pytest.raises(UnknownNameError, match="compile target"):
        gpu.kernel_target(of_one_arch(), "sm_70")


def test_kernels_of_a_sequence_are_compiled_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    both, alone = threading.Barrier(2, timeout=60), vars(gpu.preparation)["cached_cubin"]

    def together(*asked: Any) -> Any:
        both.wait()
        return alone(*asked)

    kernels = [shift(words) for words in (1, 2)]
    monkeypatch.setattr(gpu.preparation, "cached_cubin", together)
    found = gpu.compile_sequence(launch_sequence(kernels), "sm_80").prepared
    monkeypatch.setattr(gpu.preparation, "cached_cubin", alone)
    assert found == tuple(gpu.prepare(kernel, "sm_80") for kernel in kernels)


def test_the_first_of_a_sequence_that_does_not_compile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    later, right = threading.Event(), vars(gpu.preparation)["cached_cubin"]

    def refused(text: str, *asked: Any) -> Any:
        if "+ 1" in text:
            return right(text, *asked)
        if "+ 2" in text:
            assert later.wait(60)
            raise ShapeError("the second")
        later.set()
        raise ShapeError("the third")

    monkeypatch.setattr(gpu.preparation, "cached_cubin", refused)
    with pytest.raises(ShapeError, match="the second"):
        gpu.compile_sequence(launch_sequence([shift(words) for words in (1, 2, 3)]), "sm_80")
