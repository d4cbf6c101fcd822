"""What a launch is given is held to what its kernel declares."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg.codegen.expr import Var
from layoutalg.codegen.gpu.arguments import Packed, check_aligned, launch_grid, pointer_address
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import check_argument
from layoutalg.errors import AlignmentError, ArgumentTypeError, ResourceError, ShapeError


def array(address: int, typestr: str = "<f4") -> Any:
    return SimpleNamespace(__cuda_array_interface__={"data": (address, False), "typestr": typestr})


def test_integers_are_held_to_their_range_and_multiple() -> None:
    extent = Var("n", 65, "param", 8, 8)
    for value in (8, 64):
        check_argument(extent, value)
    for value in (0, 4, 12, 72, -8):
        with pytest.raises(ShapeError, match=f"n = {value}: this kernel was built for 8 <= n <= 64, mult"):
            check_argument(extent, value)
    for wrong in (8.0, True, "8", None):
        with pytest.raises(ArgumentTypeError, match="an int is needed"):
            check_argument(extent, wrong)


def test_pointers_are_arrays_of_the_width_and_alignment_that_the_kernel_moves() -> None:
    src = KernelBuilder("copy", threads=32).pointer("src", 4, align_bytes=16)
    assert pointer_address(src, array(64)) == 64
    with pytest.raises(AlignmentError, match="src starts at 0x44"):
        pointer_address(src, array(68))
    with pytest.raises(ArgumentTypeError, match="elements of 8 bytes"):
        pointer_address(src, array(64, "<f8"))
    with pytest.raises(ArgumentTypeError, match="src is a list"):
        pointer_address(src, [1.0])
    with pytest.raises(ArgumentTypeError, match="src holds >f4: elements in the machine's byte order"):
        pointer_address(src, array(64, ">f4"))
    check_aligned("src", 8, 24)
    with pytest.raises(AlignmentError):
        check_aligned("src", 16, 24)


def test_what_a_kernel_writes_is_not_read_only() -> None:
    k = KernelBuilder("copy", threads=32)
    src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    fixed = SimpleNamespace(__cuda_array_interface__={"data": (64, True), "typestr": "<f4"})
    assert pointer_address(src, fixed) == 64
    with pytest.raises(ArgumentTypeError, match="dst is read-only, and the kernel writes it"):
        pointer_address(dst, fixed)


def test_the_grid_stays_within_what_a_launch_may_have() -> None:
    k = KernelBuilder("many", threads=32)
    n = k.param("n", 1 << 20)
    k.block(0, (n + 31) // 32)
    k.block(1, n)
    kernel = k.build()
    assert launch_grid(kernel, {"n": 65535}) == (2048, 65535, 1)
    with pytest.raises(ResourceError, match="blocks along y of many: 65536 asked, the limit is 65535"):
        launch_grid(kernel, {"n": 65536})


def test_packed_values_are_where_the_driver_looks_for_them() -> None:
    packed = Packed(3)
    packed.values[:] = (1 << 40, 7, 0)
    table = ctypes.cast(packed.pointers, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
    assert [table[i].contents.value for i in range(3)] == [1 << 40, 7, 0]
