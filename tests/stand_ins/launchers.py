"""A C++ program of two generated files: their launchers called, and what they refuse."""

from __future__ import annotations

import re
from pathlib import Path

from tests.command import answer
from tests.stand_ins.nvcc import nvcc

TRANSPOSE = ("transpose", "--m", "256", "--n", "128", "--dtype", "f32")
SOFTMAX = ("softmax", "--shape", "20000,8", "--axes", "0")
"""One kernel with integers; two kernels with scratch memory between them."""

MAIN = """
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

using size = unsigned long long;
DECLARATIONS

template <class Call>
void said(Call call) {
    try {
        call();
        std::printf("accepted\\n");
    } catch (const std::invalid_argument& refusal) {
        std::printf("%s\\n", refusal.what());
    }
}

int refusals() {
    const size at = 1 << 20, far = 1 << 30, bytes = 256 * 128 * 4;
    auto transpose = [&](size m, size ldd, size src, size src_bytes, size dst) {
        said([&] {
            TRANSPOSE(m, 128, 128, ldd, reinterpret_cast<const void*>(src), src_bytes,
                reinterpret_cast<void*>(dst), bytes, nullptr);
        });
    };
    transpose(258, 256, at, bytes, far);
    transpose(512, 256, at, bytes, far);
    transpose(256, 128, at, bytes, far);
    transpose(256, 256, at + 4, bytes, far);
    transpose(256, 256, at, bytes - 4, far);
    transpose(256, 256, at, bytes, at + bytes - 16);
    transpose(256, 256, 0, bytes, far);
    said([&] {
        SOFTMAX(reinterpret_cast<const void*>(at), 640000, reinterpret_cast<void*>(at), 640000, nullptr);
    });
    return 0;
}

int launches() {
    const int m = 256, n = 128, rows = 20000, columns = 8;
    std::vector<float> a(m * n), b(m * n), x(rows * columns), y(rows * columns);
    for (int i = 0; i < m * n; ++i) a[i] = static_cast<float>(i);
    for (int i = 0; i < rows * columns; ++i) x[i] = static_cast<float>(i % 7);
    void *da, *db, *dx, *dy;
    cudaMalloc(&da, a.size() * 4), cudaMalloc(&db, b.size() * 4);
    cudaMalloc(&dx, x.size() * 4), cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaError_t status = TRANSPOSE(m, n, n, m, da, a.size() * 4, db, b.size() * 4, stream);
    if (status == cudaSuccess) status = SOFTMAX(dx, x.size() * 4, dy, y.size() * 4, stream);
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
    if (status != cudaSuccess) return std::printf("%s\\n", cudaGetErrorString(status)), 1;
    cudaMemcpy(b.data(), db, b.size() * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            if (b[j * m + i] != a[i * n + j]) return std::printf("transpose %d %d\\n", i, j), 1;
    for (int j = 0; j < columns; ++j) {
        double sum = 0;
        for (int i = 0; i < rows; ++i) sum += y[i * columns + j];
        if (!(std::fabs(sum - 1) < 1e-3)) return std::printf("softmax %d: %g\\n", j, sum), 1;
    }
    std::printf("right\\n");
    return 0;
}

int main(int count, char** words) {
    return count > 1 && std::strcmp(words[1], "launch") == 0 ? launches() : refusals();
}
"""


def declaration(source: str) -> tuple[str, str]:
    """The declaration of a text's launcher, as another file needs it, and its name."""
    (space,) = set(re.findall(r"^namespace ([\w:]+) \{$", source, re.M))
    (signature,) = re.findall(r"^(cudaError_t launch\([^)]*\)) \{$", source, re.M)
    return f"namespace {space} {{ {signature}; }}", f"{space}::launch"


def linked(folder: Path, target: str) -> Path:
    """The program: three files, each compiled by itself, linked together."""
    program, objects, declarations = MAIN, [], []
    for name, words in (("TRANSPOSE", TRANSPOSE), ("SOFTMAX", SOFTMAX)):
        source = answer("generate", *words, "--launcher", "cpp")["source"]
        declared, call = declaration(source)
        declarations.append(declared)
        program = program.replace(f"{name}(", f"{call}(")
        file = folder / f"{name.lower()}.cu"
        file.write_text(source, encoding="utf-8")
        objects.append(file.with_suffix(".o"))
        nvcc([f"-arch={target}", "-c", "-o", objects[-1], file])
    file = folder / "main.cpp"
    file.write_text(program.replace("DECLARATIONS", "\n".join(declarations)), encoding="utf-8")
    nvcc([f"-arch={target}", "-o", folder / "program", file, *objects])
    return folder / "program"
