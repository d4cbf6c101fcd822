"""A launcher in C++ behind the kernels of a text: a function that checks what a launch must be given.

    cudaError_t launch(u64 m, ..., const void* src, u64 src_bytes, void* dst, u64 dst_bytes, cudaStream_t)

in the namespace of the text.  It throws std::invalid_argument, which names the kernel, the argument, its
value and what is accepted: a range of integers, bytes, an alignment, memory of the current GPU that no other
buffer has.  A pointer to void does not say what its elements are, which the caller has to know.  It returns
CUDA's first error; allocates scratch memory in the order of the stream;
sets the attributes of each kernel; encodes tensor maps; and launches all of them in order.  Arguments are the
integers and scalars of the record, then every buffer with its bytes.  The driver's cuTensorMapEncodeTiled is
found through the runtime, so that nothing is linked beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from layoutalg.codegen.expr import Expr, to_c
from layoutalg.codegen.printing.cuda import wrapped
from layoutalg.codegen.printing.record import (
    LaunchBuffer,
    LaunchRecord,
    Step,
    buffer_lines,
    map_enumerators,
)
from layoutalg.codegen.program import COOPERATIVE, EARLY, SCRATCH, Parameter, TensorMapParam, text

INCLUDES = ("#include <cuda_runtime.h>", "#include <stdexcept>", "#include <string>", "")
MAP_INCLUDES = ("#include <cuda.h>", INCLUDES[0], "#include <cstring>", *INCLUDES[1:])

_CHECKS = {
    "refuse": """\
[[noreturn]] void refuse(const std::string& what) {
    throw std::invalid_argument("KERNEL: " + what);
}
""",
    "check_integer": """\
void check_integer(const char* name, size value, size least, size most, size multiple) {
    if (value >= least && value <= most && value % multiple == 0) return;
    refuse(std::string(name) + " = " + std::to_string(value) + ": " + std::to_string(least) + " to "
        + std::to_string(most) + ", a multiple of " + std::to_string(multiple) + ", is accepted");
}
""",
    "check_buffer": """\
void check_buffer(const char* name, const void* start, size bytes, size needed, size align) {
    if (bytes < needed)
        refuse(std::string(name) + " has " + std::to_string(bytes) + " bytes: " + std::to_string(needed)
            + " are needed");
    if (start == nullptr || reinterpret_cast<size>(start) % align != 0)
        refuse(std::string(name) + " starts at " + std::to_string(reinterpret_cast<size>(start))
            + ": an address that is a multiple of " + std::to_string(align) + " is accepted");
}
""",
    "check_apart": """\
void check_apart(const char* name, const void* start, size bytes, const char* other, const void* from,
    size count) {
    const size a = reinterpret_cast<size>(start), b = reinterpret_cast<size>(from);
    if (a < b + count && b < a + bytes)
        refuse(std::string(name) + " overlaps " + other + ": buffers that lie apart are accepted");
}
""",
    "check_place": """\
cudaError_t check_place(const char* name, const void* start, int device) {
    cudaPointerAttributes where = {};
    int pageable = 0;
    cudaError_t status = cudaPointerGetAttributes(&where, start);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device);
    if (status != cudaSuccess) return status;
    const std::string accepted = ": memory of the current GPU, " + std::to_string(device) + ", is accepted";
    if (where.type == cudaMemoryTypeUnregistered && !pageable)
        refuse(std::string(name) + " is memory of the host" + accepted);
    if (where.type == cudaMemoryTypeDevice && where.device != device)
        refuse(std::string(name) + " is memory of GPU " + std::to_string(where.device) + accepted);
    return cudaSuccess;
}
""",
    "tensor_map": """\
TensorMap tensor_map(const char* name, CUtensorMapDataType element, unsigned rank, const void* start,
    const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
        cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess)
        refuse("this driver encodes no tensor maps: CUDA 12.0 or later is needed");
    CUtensorMap map;
    const CUresult encoded = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(&map, element, rank,
        const_cast<void*>(start), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        promotion, fill);
    if (encoded != CUDA_SUCCESS)
        refuse(std::string("cuTensorMapEncodeTiled of ") + name + " reports error "
            + std::to_string(static_cast<int>(encoded)));
    TensorMap copied;
    static_assert(sizeof copied == sizeof map, "a tensor map has 128 bytes");
    std::memcpy(&copied, &map, sizeof map);
    return copied;
}
""",
}
"""The functions with which a launcher checks, by name; those that it calls are printed."""


def cpp_launcher(record: LaunchRecord, source: str) -> str:
    """The text of a record's kernels, and behind it their launcher.

    >>> "launch(" in cpp_launcher(LaunchRecord("nothing", (), ()), "namespace layoutalg::nothing {}")
    True
    """
    name = record.steps[0].kernel if record.steps else "nothing"
    function = list(_function(record))
    used = [text for x, text in _CHECKS.items() if any(f"{x}(" in line for line in function)]
    checks = [_CHECKS["refuse"], *(text for text in used if text != _CHECKS["refuse"])] if used else []
    space, own = f"namespace layoutalg::{name}", "\n".join(checks).replace("KERNEL", name).splitlines()
    lines = [
        "", f"{space} {{", "", "using size = unsigned long long;", "", "namespace {", "", *own, "",
        "}  // namespace", "", *function, "", f"}}  // {space}", "",
    ]  # fmt: skip
    has_maps = any(step.terms.maps for step in record.steps)
    included = "\n".join(["", *(MAP_INCLUDES if has_maps else INCLUDES), "namespace "])
    return source.replace("\nnamespace ", included, 1) + "\n".join(x for line in lines for x in wrapped(line))


def cpp_header(record: LaunchRecord) -> str:
    """A header that declares the launcher of a record, with what holds for its arguments.

    >>> print(cpp_header(LaunchRecord("nothing", (), ())).splitlines()[-3])
    cudaError_t launch(cudaStream_t stream);
    """
    name = record.steps[0].kernel if record.steps else "nothing"
    said = [*buffer_lines(record), *(f"{p.name}: {p}" for p in record.parameters)]
    said += [f"{text(c)} is needed" for c in record.conditions]
    lines = [
        "#pragma once", "", "#include <cuda_runtime.h>", "", f"namespace layoutalg::{name} {{", "",
        "using size = unsigned long long;", "", *(f"// {line}" for line in said),
        f"{_signature(record)};", "", f"}}  // namespace layoutalg::{name}",
    ]  # fmt: skip
    return "\n".join(x for line in lines for x in wrapped(line)) + "\n"


def _signature(record: LaunchRecord) -> str:
    parameters = [f"{parameter_type(record, p)} {p.name}" for p in record.parameters]
    for b in record.given:
        parameters += [f"{'' if b.written else 'const '}void* {b.name}", f"size {b.name}_bytes"]
    return f"cudaError_t launch({', '.join((*parameters, 'cudaStream_t stream'))})"


def _function(record: LaunchRecord) -> Iterator[str]:
    yield f"{_signature(record)} {{"
    for p in record.parameters:
        if p.kind == "int":
            yield f'    check_integer("{p.name}", {p.name}, {p.least}ull, {p.most}ull, {p.multiple}ull);'
    for c in record.conditions:
        yield f'    if (!({size_of(c)})) refuse("{text(c)} is needed");'
    for b in record.given:
        yield f"    const size {b.name}_needed = {size_of(b.bytes)};"
        yield f'    check_buffer("{b.name}", {b.name}, {b.name}_bytes, {b.name}_needed, {b.align_bytes});'
    for a, b in combinations(record.given, 2):
        if a.written or b.written:
            both = ", ".join(f'"{x.name}", {x.name}, {x.name}_needed' for x in (a, b))
            yield f"    check_apart({both});"
    scratch = [b for b in record.buffers if b.name == SCRATCH]
    if record.given:
        yield "    int device = 0;"
        yield "    cudaError_t status = cudaGetDevice(&device);"
        for b in record.given:
            yield f'    if (status == cudaSuccess) status = check_place("{b.name}", {b.name}, device);'
        yield "    if (status != cudaSuccess) return status;"
    else:
        yield "    cudaError_t status = cudaSuccess;"
    for b in scratch:
        yield "    void* scratch = nullptr;"
        yield f"    status = cudaMallocAsync(&scratch, {size_of(b.bytes)}, stream);"
        yield "    if (status != cudaSuccess) return status;"
    for step in record.steps:
        yield from _launch(step, {b.name: b for b in record.buffers})
    if scratch:
        yield "    const cudaError_t freed = cudaFreeAsync(scratch, stream);"
        yield "    return status == cudaSuccess ? freed : status;"
    else:
        yield "    return status;"
    yield "}"


def parameter_type(record: LaunchRecord, p: Parameter) -> str:
    """The C++ type of an integer, wide so that every value can be refused, or of a scalar."""
    if p.kind == "int":
        return "size"
    kind = next(step.types[p.name] for step in record.steps if p.name in step.types)
    return kind if kind == "float" else "unsigned"


def size_of(e: Expr) -> str:
    """An expression in C++; all integers of a launcher have 64 bits."""
    return to_c(e).replace("(u64)", "")


def _launch(step: Step, buffers: dict[str, LaunchBuffer]) -> Iterator[str]:
    terms, pad = step.terms, " " * 8
    yield "    if (status == cudaSuccess) {"
    for name, value in terms.function_attributes.items():
        unless = "if (status == cudaSuccess) " if name != next(iter(terms.function_attributes)) else ""
        yield f"{pad}{unless}status = cudaFuncSetAttribute({step.kernel}, {name}, {value});"
    for m in terms.maps:
        yield from (f"{pad}{line}" for line in _encoded(m, step.buffers[m.source.name]))
    yield f"{pad}cudaLaunchConfig_t config = {{}};"
    grid = ", ".join(f"static_cast<unsigned>({size_of(n)})" for n in terms.grid)
    yield f"{pad}config.gridDim = dim3({grid});"
    yield f"{pad}config.blockDim = dim3({', '.join(map(str, terms.block))});"
    yield f"{pad}config.dynamicSmemBytes = {terms.dynamic_shared_bytes};"
    yield f"{pad}config.stream = stream;"
    for is_set, name, attribute, member in (
        (terms.cooperative, "together", COOPERATIVE, "cooperative"),
        (terms.early, "early", EARLY, "programmaticStreamSerializationAllowed"),
    ):
        if is_set:
            yield f"{pad}cudaLaunchAttribute {name} = {{}};"
            yield f"{pad}{name}.id = {attribute};"
            yield f"{pad}{name}.val.{member} = 1;"
            yield f"{pad}config.attrs = &{name};"
            yield f"{pad}config.numAttrs = 1;"
    given = {p.name: step.buffers.get(p.name, p.name) for p in step.arguments}
    arguments = [f"static_cast<{step.types[name]}>({value})" for name, value in given.items()]
    arguments += [m.name for m in terms.maps]
    call = ", ".join(("&config", step.kernel, *arguments))
    yield f"{pad}if (status == cudaSuccess) status = cudaLaunchKernelEx({call});"
    yield "    }"


def _encoded(m: TensorMapParam, buffer: str) -> Iterator[str]:
    """A variable of a tensor map's name, with its image."""

    def array(kind: str, name: str, values: Iterable[str]) -> str:
        return f"const {kind} {m.name}_{name}[] = {{{', '.join(values)}}};"

    steps = m.element_strides or (1,) * m.rank
    yield array("cuuint64_t", "dims", map(size_of, m.dims))
    if m.strides_bytes:
        yield array("cuuint64_t", "strides", map(size_of, m.strides_bytes))
    yield array("cuuint32_t", "box", map(str, m.box))
    yield array("cuuint32_t", "steps", map(str, steps))
    names = {name: value.name for name, value in map_enumerators(m).items()}
    strides = f"{m.name}_strides" if m.strides_bytes else "nullptr"
    arrays = f"{m.name}_dims", strides, f"{m.name}_box", f"{m.name}_steps"
    kinds = names["swizzle"], names["l2Promotion"], names["oobFill"]
    arguments = (f'"{m.name}"', names["tensorDataType"], str(m.rank), buffer, *arrays, *kinds)
    yield f"const TensorMap {m.name} = tensor_map({', '.join(arguments)});"
