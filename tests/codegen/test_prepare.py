"""Kernels made ready to load: by one process or by several, with the same result."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from layoutalg.codegen.gpu import Prepared, in_processes, prepare, to_cuda
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.errors import ShapeError


def shift(words: int) -> Kernel:
    """dst[i] = src[i + words] for 64 words."""
    k = KernelBuilder("shift", threads=64)
    src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    v = k.reg("v", 1, 1)
    k.do(LDG[4], v[0], k.at(src, k.tid + words))
    k.do(STG[4], k.at(dst, k.tid), v[0])
    return k.build()


def made(words: int) -> tuple[int, Prepared]:
    if words > 90:
        raise ShapeError(f"{words} words")
    return os.getpid(), prepare(shift(words), "sm_80")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path / "cubins"))
    return tmp_path / "cubins"


def test_a_prepared_kernel_is_what_a_launch_needs(folder: Path) -> None:
    kernel = shift(3)
    ready = prepare(kernel, "sm_80")
    assert ready.source == to_cuda(kernel, "sm_80") and ready.cubin.image[:4] == b"\x7fELF"
    assert ready.kernel == replace(kernel, regs=(), body=()) and not ready.kernel.body
    assert pickle.loads(pickle.dumps(ready)) == ready
    assert len(list(folder.iterdir())) == 1


def test_other_text_can_take_the_place_of_the_printed_one() -> None:
    source = to_cuda(shift(3), "sm_80").replace("// ", "// other: ", 1)
    assert prepare(shift(3), "sm_80", source).source == source


def test_several_processes_give_what_one_gives(folder: Path) -> None:
    results = in_processes(made, range(4))
    assert [r.source for _, r in results] == [made(words)[1].source for words in range(4)]
    assert os.getpid() not in {pid for pid, _ in results} or len(os.sched_getaffinity(0)) == 1
    assert [r.cubin for _, r in results] == [made(words)[1].cubin for words in range(4)]
    assert len(list(folder.iterdir())) == 4


def test_one_item_needs_no_process() -> None:
    assert in_processes(made, [7])[0][0] == os.getpid()
    assert in_processes(made, []) == []


def test_errors_come_back() -> None:
    with pytest.raises(ShapeError, match="91 words"):
        in_processes(made, [1, 91, 92])
