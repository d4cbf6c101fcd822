"""A program of one file: kernels, their launcher in C++, and a main that allocates, launches and times.

    nvcc -arch=sm_90 kernel.cu -o kernel && ./kernel m=4096 n=4096

Integers are given as name=value; those that are not are the problem's.  Buffers
are filled with numbers that are finite in every float of their width.  What the launcher refuses, words that
are not arguments, and CUDA's first error are printed, and the program ends with 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from layoutalg.codegen.printing.cpp import cpp_launcher, parameter_type, size_of
from layoutalg.codegen.printing.cuda import wrapped
from layoutalg.codegen.printing.python import LIBRARIES, python_launcher
from layoutalg.codegen.printing.record import LaunchRecord
from layoutalg.errors import UnknownNameError

_BEFORE = """\

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace {

using size = unsigned long long;

const char* after(const char* word, const char* name) {
    const size length = std::strlen(name);
    return std::strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : nullptr;
}

void check_words(int count, char** words, std::initializer_list<const char*> names) {
    for (int i = 1; i < count; ++i) {
        bool known = false;
        std::string accepted;
        for (const char* name : names) {
            known = known || after(words[i], name) != nullptr;
            accepted += std::string(" ") + name + "=NUMBER";
        }
        if (!known) throw std::runtime_error(std::string(words[i]) + ": accepted are" + accepted);
    }
}

[[maybe_unused]] size given(int count, char** words, const char* name, size usual) {
    for (int i = 1; i < count; ++i) {
        const char* text = after(words[i], name);
        if (text == nullptr) continue;
        char* end = nullptr;
        const size value = std::strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end != 0)
            throw std::runtime_error(std::string(words[i]) + ": a number is needed");
        return value;
    }
    return usual;
}

void require(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

[[maybe_unused]] void* filled(size bytes, size width) {
    const size ones[] = {0x01, 0x3C00, 0x3F800000, 0x3FF0000000000000};
    const size one = ones[width == 8 ? 3 : width == 4 ? 2 : width == 2 ? 1 : 0];
    const size low = width == 1 ? 0x7F : 0xFF;
    std::vector<unsigned char> host(bytes);
    size state = bytes + 1;
    for (size at = 0; at + width <= bytes; at += width) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        const size value = one | (state >> 40 & low);
        std::memcpy(&host[at], &value, width);
    }
    void* device = nullptr;
    require(cudaMalloc(&device, (bytes + 15) / 16 * 16));  // loads may take the rest of the last 16 bytes
    require(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
    return device;
}

}  // namespace

int main(int count, char** words) try {
"""

_AFTER = """\
    cudaEvent_t start, stop;
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&stop));
    const int turns = 10;
    run();
    require(cudaEventRecord(start));
    for (int i = 0; i < turns; ++i) run();
    require(cudaEventRecord(stop));
    require(cudaEventSynchronize(stop));
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start, stop));
    std::printf("PROBLEM: %.4f ms per launch\\n", ms / turns);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 1;
}
"""


def cpp_program(record: LaunchRecord, source: str) -> str:
    """The text of a record's kernels, behind it their launcher and a main.

    >>> "int main(" in cpp_program(LaunchRecord("nothing", (), ()), "namespace layoutalg::nothing {}")
    True
    """
    name = record.steps[0].kernel if record.steps else "nothing"
    lines = [*_BEFORE.splitlines(), *_main(record, name)]
    lines += _AFTER.replace("PROBLEM", name).splitlines()
    text = "\n".join(x for line in lines for x in wrapped(line))
    return f"{cpp_launcher(record, source)}{text}\n"


def _main(record: LaunchRecord, name: str) -> Iterator[str]:
    names = ", ".join(f'"{p.name}"' for p in record.parameters if p.kind == "int")
    yield f"    check_words(count, words, {{{names}}});"
    arguments = []
    for p in record.parameters:
        kind = parameter_type(record, p)
        if p.kind == "int":
            yield f'    const size {p.name} = given(count, words, "{p.name}", {record.usual[p.name]}ull);'
        else:
            yield f"    const {kind} {p.name} = 1;"
        arguments.append(p.name)
    for b in record.given:
        yield f"    const size {b.name}_bytes = {size_of(b.bytes)};"
        yield f"    void* const {b.name} = filled({b.name}_bytes, {b.element_bytes});"
        arguments += [b.name, f"{b.name}_bytes"]
    call = ", ".join((*arguments, "nullptr"))
    yield f"    const auto run = [&] {{ require(layoutalg::{name}::launch({call})); }};"


def with_launcher(source: str, record: LaunchRecord, launcher: str | None) -> str:
    """The text of kernels with a launcher: "cpp", with a "main" too, "torch", "cupy", or as it is for None.

    Raises UnknownNameError for another.

    >>> with_launcher("// kernels", LaunchRecord("nothing", (), ()), None)
    '// kernels'
    """
    if launcher is None:
        return source
    if launcher == "cpp":
        return cpp_launcher(record, source)
    if launcher == "main":
        return cpp_program(record, source)
    if launcher not in LIBRARIES:
        raise UnknownNameError("launcher", launcher, ("cpp", "main", *LIBRARIES))
    return python_launcher(record, source, launcher)
