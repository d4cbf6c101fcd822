"""Programs that launch the sources once, for a profiler: the source, and a main of a few lines.

    python -m tests.corpus.launches FOLDER      writes NAME.cu with its source beside it, and record.sh

`nvcc -lineinfo` compiles them; `ncu` counts them; `python -m tests.corpus.counted FOLDER` compares what was
counted with what is expected.  Blocks of a launch cost the same, so that the counters are those of a block
times their number.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.corpus import SOURCES
from tests.corpus.measure import FOLDER

GRIDS: dict[str, tuple[int, ...]] = {
    "transpose_naive": (8,), "transpose_coalesced": (8,), "reduction_6": (64,), "histogram": (2,),
    "vector_copy": (1,),
}  # fmt: skip
"""Blocks of a launch, where it is not one."""

_PRODUCT = "256, 256, 64, 1.f, f, f + 65536, 0.f, f + 131072"
_HALVES = "h, h + 262144, h + 524288, h + 786432, 1.f, 0.f, 512, 512, 128"

CALLS: dict[str, str] = {
    **{f"sgemm_v{version}": _PRODUCT for version in range(1, 9)},
    **{f"hgemm_k{kernel}": _HALVES for kernel in range(1, 7)},
    **{f"reduction_{step}": "f, f + 65536, 1024" for step in range(6)},
    "reduction_6": "f, f + 65536, 65536",
    "scan": "f, f + 65536, 512",
    "transpose_naive": "f, f + 65536",
    "transpose_coalesced": "f, f + 65536",
    "transpose_padded": "f, f + 65536, 256, 256",
    "matrix_mul": "f, f + 65536, f + 131072, 64, 96",
    "softmax": "f, f + 65536, 2048",
    "layernorm": "h, h + 65536, h + 131072, h + 196608, 8, 1e-5f",
    "nbody": "(float4 *)f, (float4 *)(f + 65536), 512, 1.f",
    "records_aos": "(Particle *)f, 1.f, 1024",
    "warp_transpose": "f, f + 65536",
    "fft": "(float2 *)f",
    "attention": "f, f + 65536, f + 131072, f + 196608, 128, 1.f",
    "async_pipeline": "f, f + 65536, 6",
    "fragment_load": "f, h + 262144, h + 524288",
    "stencil_3d": "f, f + 1048576, 64, 32, 2",
    "bitonic_sort": "u, u + 65536, u + 131072, u + 196608, 1024, 1",
}
"""The arguments of the kernels that are launched; f, h and u are one buffer, zeroed."""

TEMPLATES = {
    "hgemm_k1": "<256, 128, 64, 64, 64>", "hgemm_k5": "<256, 256, 32, 64, 128, 256>",
    **{f"hgemm_k{kernel}": "<256, 128, 64, 64, 64, 256>" for kernel in (2, 3, 4)},
    "hgemm_k6": "<256, 256, 32, 64, 128, 256>",
    "reduction_5": "<256>", "reduction_6": "<256, true>", "transpose_padded": "<float>", "matrix_mul": "<32>",
    "layernorm": "<1024>", "async_pipeline": "<4>",
}  # fmt: skip
"""What stands behind the name of a template."""

SHARED_BYTES = {
    "hgemm_k6": 65536,
    "scan": 4096,
    "nbody": 4096,
    **{f"reduction_{step}": 1024 for step in range(5)},
}
"""Dynamic shared memory."""

MAIN = """#include "../{file}"
#include <cuda_fp16.h>
#include <cstdio>

int main() {{
    float *f;
    cudaMalloc(&f, 64 << 20);
    cudaMemset(f, 0, 64 << 20);
    half *h = reinterpret_cast<half *>(f);
    unsigned *u = reinterpret_cast<unsigned *>(f);
    (void)h, (void)u;
    auto kernel = {kernel};
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {bytes});
    kernel<<<dim3({grid}), dim3({block}), {bytes}>>>({arguments});
    printf("{name}: %s\\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}}
"""

RECORD = """#!/usr/bin/env bash
# Compile and profile every program of main/: OUT=FOLDER bash record.sh
set -u
cd "$(dirname "$0")" || exit 1
: "${OUT:?a folder for the reports}"
mkdir -p "$OUT" /tmp/corpus
cp -r . /tmp/corpus && cd /tmp/corpus || exit 1
ncu=$(command -v ncu || ls /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -1)
nvcc=$(command -v nvcc || ls /usr/local/cuda*/bin/nvcc 2>/dev/null | tail -1)
build='"$0" -arch=sm_90a -lineinfo -O3 -o "$(basename "$1" .cu)" "$1"'
ls main/*.cu | xargs -P 8 -I{} sh -c "$build" "$nvcc" {}
for program in main/*.cu; do
    name=$(basename "$program" .cu)
    "$ncu" -f -o "$OUT/$name" --clock-control none --cache-control none --section SourceCounters \\
        --import-source yes "./$name" | grep -v "^==PROF==\\|^==WARNING=="
done
ls -l "$OUT" | tail -60
"""


def main(folder: Path) -> None:
    """Write the programs, the sources and the script into a folder."""
    (folder / "main").mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        name = source.kernel
        shutil.copy(FOLDER / source.file, folder / source.file)
        if name in CALLS:
            text = MAIN.format(
                file=source.file,
                kernel=name + TEMPLATES.get(name, ""),
                bytes=SHARED_BYTES.get(name, 0),
                grid=", ".join(map(str, GRIDS.get(name, (1,)))),
                block=", ".join(map(str, source.block)),
                arguments=CALLS[name],
                name=name,
            )
            (folder / "main" / source.file).write_text(text, encoding="utf-8")
    (folder / "record.sh").write_text(RECORD, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
