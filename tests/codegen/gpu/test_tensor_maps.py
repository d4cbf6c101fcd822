"""Arguments and tensor maps of a launch: held to what is declared, legal before the driver is asked."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg import errors
from layoutalg.arch import SWIZZLE_MODES, TensorMap
from layoutalg.codegen.expr import Var
from layoutalg.codegen.gpu import driver
from layoutalg.codegen.gpu.driver import (
    MAP_BYTES,
    LaunchAttribute,
    LaunchConfig,
    MapImages,
    attribute_launcher,
    encode_tensor_map,
    encode_tiled,
)
from layoutalg.codegen.gpu.launch import Packed, check_aligned, pointer_address
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import check_argument
from layoutalg.dtype import dtype
from layoutalg.legality import check_tensor_map
from layoutalg.testing import compile_shared
from tests.sweeps import each

TILED = TensorMap(dtype("bf16"), (100, 7, 3), (208, 1456), (64, 8, 2), (1, 2, 1), mode=SWIZZLE_MODES["128B"])

ENCODE = """
#include <cuda.h>
typedef unsigned long long u64;
extern "C" int cuTensorMapEncodeTiled_(CUtensorMap* map, CUtensorMapDataType element, cuuint32_t rank,
    void* start, const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    u64* out = reinterpret_cast<u64*>(map);
    if ((u64)map % alignof(CUtensorMap) || 64 > alignof(CUtensorMap) || sizeof(CUtensorMap) != 128) return 3;
    for (int i = 0; i < 16; ++i) out[i] = 0;
    out[0] = element | rank << 8 | interleave << 16 | swizzle << 20 | promotion << 24 | fill << 28;
    out[1] = (u64)start;
    for (cuuint32_t i = 0; i < rank; ++i) out[2 + i] = dims[i];
    for (cuuint32_t i = 0; i + 1 < rank; ++i) out[7 + i] = strides[i];
    for (cuuint32_t i = 0; i < rank; ++i) out[11 + i] = box[i] | (u64)steps[i] << 32;
    return 0;
}
"""
"""A driver whose images say what it was given, with the parameters that cuda.h declares."""


def named(status: int, name: Any) -> int:
    """cuGetErrorName, of a driver that knows one error."""
    ctypes.cast(name, ctypes.POINTER(ctypes.c_char_p))[0] = b"CUDA_ERROR_INVALID_VALUE"
    return 0


def test_the_driver_reads_what_the_record_says() -> None:
    library = compile_shared(ENCODE, flags=["-I", include_folder()])
    driver = SimpleNamespace(cuTensorMapEncodeTiled=library.cuTensorMapEncodeTiled_)
    for m, address in ((TILED, 1 << 20), (TensorMap(dtype("u8"), (64,), (), (64,), (1,)), 4096)):
        status, image = encode_tiled(m, address, driver)
        words = memoryview(image).cast("Q")
        kind = {"bf16": 9, "u8": 0}[m.element.name]
        assert (status, len(image)) == (0, MAP_BYTES)
        assert words[0] == kind | m.rank << 8 | m.mode.tensor_map_code << 20 and words[1] == address
        assert tuple(words[2 : 2 + m.rank]) == m.dims and tuple(words[7 : 6 + m.rank]) == m.strides_bytes
        assert tuple(w & 0xFFFFFFFF for w in words[11 : 11 + m.rank]) == m.box
        assert tuple(w >> 32 for w in words[11 : 11 + m.rank]) == m.element_strides


@each(
    ("change", "address", "arch", "error", "words"),
    [
        ({"strides_bytes": (200, 1456)}, 0, "H200", errors.AlignmentError, r"tma\.stride: .*nearest: 208"),
        ({"box": (64, 400, 1)}, 0, "H200", errors.ShapeError, r"tma\.box_side: .*; nearest: 2 boxes of 256"),
        ({}, 8, "H200", errors.AlignmentError, r"tma\.global_base: .* 8 bytes; .*; nearest: 16"),
        ({}, 0, "A100", errors.UnsupportedError, "sm_80 has no TMA"),
    ],
)
def test_what_is_illegal_is_refused_before_the_driver_is_asked(
    change: Any, address: int, arch: str, error: type[Exception], words: str
) -> None:
    asked: list[int] = []
    driver = SimpleNamespace(cuTensorMapEncodeTiled=lambda *_: asked.append(1))
    with pytest.raises(error, match=words):
        encode_tensor_map(replace(TILED, **change), (1 << 20) + address, arch=arch, library=driver)
    assert not asked


def test_a_map_is_legal_from_its_least_alignment_on() -> None:
    """Closed form beside the rules, asked of each alignment."""
    shape, strides, box = (32, 7, 3, 2), (32, 224, 672), (16, 7, 1, 1)
    interleaved = TensorMap(dtype("u8"), shape, strides, box, (1,) * 4, 32, SWIZZLE_MODES["32B"])
    wrong = replace(TILED, strides_bytes=(200, 1456))
    for tensor_map, least in ((TILED, 16), (interleaved, 32), (wrong, 512)):
        for alignment in (2, 8, 16, 32, 64, 256):
            legal = not check_tensor_map(tensor_map, global_alignment_bytes=alignment).violations
            assert legal == (alignment >= least)
            if legal:
                driver.require_legal(tensor_map, alignment)
            else:
                with pytest.raises(errors.LayoutAlgError):
                    driver.require_legal(tensor_map, alignment)


def test_what_the_driver_alone_refuses_has_its_name_for_it() -> None:
    driver = SimpleNamespace(cuTensorMapEncodeTiled=lambda *_: 1, cuGetErrorName=named)
    with pytest.raises(errors.UnsupportedError, match=r"0x100000: CUDA_ERROR_INVALID_VALUE \(1\)"):
        encode_tensor_map(TILED, 1 << 20, library=driver)
    with pytest.raises(errors.UnsupportedError, match="this driver encodes no tensor maps: CUDA 12"):
        encode_tensor_map(TILED, 1 << 20, library=SimpleNamespace())


def test_images_are_kept_by_address_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def encode(m: TensorMap, address: int, library: Any = None) -> tuple[int, bytes]:
        asked.append(address)
        return 0, address.to_bytes(MAP_BYTES, "little")

    monkeypatch.setattr(driver, "encode_tiled", encode)
    monkeypatch.setattr(driver, "MOST_IMAGES", 3)
    images = MapImages(TILED)
    for address in (1 << 10, 2 << 10, 1 << 10, 3 << 10, 4 << 10, 4 << 10, 1 << 10):
        assert int.from_bytes(images.at(address), "little") == address
        assert len(images) <= 3
    assert asked == [1 << 10, 2 << 10, 3 << 10, 4 << 10, 1 << 10]


# --- arguments of a launch ----------------------------------------------------------------------------


def array(address: int, typestr: str = "<f4", *, fixed: bool = False) -> Any:
    return SimpleNamespace(__cuda_array_interface__={"data": (address, fixed), "typestr": typestr})


def test_integers_are_held_to_their_range_and_multiple() -> None:
    extent = Var("n", 65, "param", 8, 8)
    for value in (8, 64):
        check_argument(extent, value)
    for value in (0, 4, 12, 72, -8):
        with pytest.raises(errors.ShapeError, match=f"n = {value}: .* 8 <= n <= 64, mult"):
            check_argument(extent, value)
    for wrong in (8.0, True, "8", None):
        with pytest.raises(errors.ArgumentTypeError):
            check_argument(extent, wrong)


def test_pointers_are_arrays_of_the_width_and_alignment_that_the_kernel_moves() -> None:
    k = KernelBuilder("copy", threads=32)
    src, dst = k.pointer("src", 4, align_bytes=16), k.pointer("dst", 4, writable=True)
    assert pointer_address(src, array(64)) == pointer_address(src, array(64, fixed=True)) == 64
    for pointer, given, error, words in (
        (src, array(68), errors.AlignmentError, "src starts at 0x44"),
        (src, array(64, "<f8"), errors.ArgumentTypeError, "elements of 8 bytes"),
        (src, [1.0], errors.ArgumentTypeError, "src is a list"),
        (src, array(64, ">f4"), errors.ArgumentTypeError, "byte order"),
        (dst, array(64, fixed=True), errors.ArgumentTypeError, "dst is read-only"),
    ):
        with pytest.raises(error, match=words):
            pointer_address(pointer, given)
    check_aligned("src", 8, 24)
    with pytest.raises(errors.AlignmentError):
        check_aligned("src", 16, 24)


def test_values_and_images_are_where_the_driver_looks_for_them() -> None:
    for count, maps in ((0, 1), (1, 2), (3, 3), (7, 0)):
        packed = Packed(count, maps)
        packed.values[:] = tuple(range(1 << 40, (1 << 40) + count))
        for number in range(maps):
            packed.place_map(number, 99, bytes([number + 1]) * MAP_BYTES)
        table = (ctypes.c_void_p * (count + maps)).from_address(packed.pointers)
        for number, place in enumerate(table[:count]):
            assert ctypes.c_uint64.from_address(place or 0).value == (1 << 40) + number
        for number, place in enumerate(table[count:]):
            assert (place or 0) % 64 == 0
            assert ctypes.string_at(place or 0, MAP_BYTES) == bytes([number + 1]) * MAP_BYTES
        assert packed.sources == [99] * maps


def test_the_grid_stays_within_what_a_launch_may_have() -> None:
    k = KernelBuilder("many", threads=32)
    n = k.param("n", 1 << 20)
    k.block(0, (n + 31) // 32)
    k.block(1, n)
    kernel = k.build()
    assert launch_grid(kernel, {"n": 65535}) == (2048, 65535, 1)
    with pytest.raises(errors.ResourceError, match="blocks along y"):
        launch_grid(kernel, {"n": 65536})


SEEN = """
#include <cuda.h>
typedef unsigned long long u64;
extern "C" int seen(const CUlaunchConfig* c, CUfunction f, void** pointers, void** extra, u64* out) {
    const CUlaunchAttribute& a = c->attrs[0];
    const u64 found[] = {
        c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
        c->sharedMemBytes, (u64)c->hStream, c->numAttrs, (u64)f, (u64)pointers, (u64)extra,
        a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        (u64)a.value.programmaticStreamSerializationAllowed,
        sizeof(CUlaunchConfig), sizeof(CUlaunchAttribute),
    };
    for (u64 x : found) *out++ = x;
    return 42;
}
"""


def include_folder() -> str:
    """Where cuda.h lies: with the CUDA runtime that the compiler is installed with."""
    spec = find_spec("nvidia")
    if spec is None:
        pytest.skip("cuda.h is not installed: pip install 'layoutalg[nvrtc]' brings it")
    assert spec.submodule_search_locations
    folders = [Path(place) for place in spec.submodule_search_locations]
    (found,) = {path.parent for folder in folders for path in folder.glob("*/include/cuda.h")}
    return str(found)


def test_the_driver_reads_what_was_asked_for() -> None:
    seen = compile_shared(SEEN, flags=["-I", include_folder()]).seen
    out = (ctypes.c_uint64 * 16)()

    def launch(*given: Any) -> int:
        return int(seen(*given, out))

    library = SimpleNamespace(cuLaunchKernelEx=launch)
    start = attribute_launcher(1 << 40, (70000, 3, 2), 256, 49152, 1 << 42, library=library)
    sizes = [ctypes.sizeof(LaunchConfig), ctypes.sizeof(LaunchAttribute)]
    for stream in (1 << 41, 0, 7):  # what is made once is read each time
        assert start(stream) == 42
        asked = [70000, 3, 2, 256, 1, 1, 49152, stream, 1, 1 << 40, 1 << 42, 0]
        assert list(out) == [*asked, 1, 1, *sizes]
