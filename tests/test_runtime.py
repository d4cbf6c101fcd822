"""What can be checked of launching without a GPU: arguments, grids, and the word on what is missing."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from layoutalg.codegen import runtime
from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.runtime import check_argument, gpu_status, launch_grid, load, require_gpu
from layoutalg.codegen.tile import Kernel
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnsupportedError


def kernel() -> Kernel:
    k = KernelBuilder("k", threads=32)
    n = k.param("n", 1 << 40)
    k.block(0, (n + 31) // 32)
    k.block(1, n)
    return k.build()


def test_arguments_are_held_to_their_declaration() -> None:
    ld = KernelBuilder("k", threads=32).param("ld", 4096, 8, multiple=8)
    check_argument(ld, 8)
    check_argument(ld, 4096)
    for bad in (0, 4, 4104, 12, -8):
        with pytest.raises(ShapeError, match=rf"ld = {bad}: this kernel was built for 8 <= ld <= 4096, mult"):
            check_argument(ld, bad)
    for wrong in (8.0, "8", True, None):
        with pytest.raises(ArgumentTypeError, match="an int is needed"):
            check_argument(ld, wrong)


def test_the_grid_follows_the_parameters() -> None:
    assert launch_grid(kernel(), {"n": 33}) == (2, 33, 1)


def test_a_grid_past_the_limits_is_refused() -> None:
    with pytest.raises(ResourceError, match="blocks along y of k: 65536 asked, the limit is 65535"):
        launch_grid(kernel(), {"n": 65536})


def test_without_a_driver_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*args: Any, **kwargs: Any) -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    status = gpu_status()
    assert not status.available
    assert "no CUDA driver" in status.reason
    with pytest.raises(UnsupportedError, match="running a kernel needs a GPU: no CUDA driver"):
        require_gpu()
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        load(kernel())


def test_without_cupy_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    assert "pip install 'layoutalg[cuda13]'" in gpu_status().reason
