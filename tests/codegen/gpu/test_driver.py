"""What the driver's launch is given lies where its own header says."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from layoutalg.codegen.gpu.driver import LaunchAttribute, LaunchConfig, attribute_launcher
from layoutalg.testing import compile_shared

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
    assert spec and spec.submodule_search_locations
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
