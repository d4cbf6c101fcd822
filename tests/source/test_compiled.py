"""What a compiler makes of accesses: machine code decides which of them are one, and a gate heeds it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from layoutalg.codegen.gpu import find_disassembler
from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.source import KernelReading, SourceAccess, read_kernel
from tests.checks.test_gates import outcome
from tests.sweeps import first


def _is_there() -> bool:
    try:
        disassembler = find_disassembler()[1] == "-c"
    except UnsupportedError:
        return False
    return disassembler and importlib.util.find_spec("nvidia.cu13") is not None


pytestmark = pytest.mark.skipif(not _is_there(), reason="needs NVRTC and nvdisasm")

HELPER = "\n__device__ __forceinline__ float one(const float* p, int i) { return p[i]; }\n"
SUMS = """\
template <int N> __global__ void sums(const float4* in, float* out) {
  __shared__ float4 s[256]; __shared__ float u[32 * 5];
  s[threadIdx.x] = in[threadIdx.x];
  u[threadIdx.x * 5] = in[threadIdx.x].x;
  __syncthreads();
  const float* own = reinterpret_cast<const float*>(&s[threadIdx.x]);
  float sum = 0;
  BODY
  out[threadIdx.x] = sum * N;
}
"""
LOOP = "for (int k = 0; k < 4; ++k) sum += one(own, k) * u[threadIdx.x * 5 + k];"
ROLLED = f"#pragma unroll 1\n{LOOP}"
SPLIT = "sum = own[0];\nsum += own[1];\nsum += own[2];\nsum += own[3] + u[threadIdx.x * 5 + 1];"


def text_of(*bodies: str) -> str:
    """A kernel for each of some bodies: sums, sums1, sums2."""
    kernels = (SUMS.replace("sums", f"sums{n or ''}").replace("BODY", body) for n, body in enumerate(bodies))
    return HELPER + "".join(kernels)


def reading(monkeypatch: pytest.MonkeyPatch, *bodies: str, nvcc: bool = False) -> KernelReading:
    """The reading of kernels by their machine code."""
    if not nvcc:
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == "nvcc" else which(name))
    elif shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    return read_kernel(text_of(*bodies), 32, sets={"N": 3}, compiled=True)


@pytest.fixture(scope="module")
def loads() -> dict[str, list[SourceAccess]]:
    """The loads from shared memory of three kernels that are compiled together, by kernel."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        accesses = reading(monkeypatch, ROLLED, SPLIT, "own[1];").accesses
    names = ("sums", "sums1", "sums2")
    return {
        name: [a for a in accesses if a.kernel == name and a.op.startswith("ld.shared")] for name in names
    }


@pytest.mark.parametrize("nvcc", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_loop_of_neighbours_is_what_its_code_says(nvcc: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrolled, own is one vector, in the line of the helper, while u beside it has scalar loads."""
    rows = {(a.line, a.op, a.array): a for a in reading(monkeypatch, LOOP, nvcc=nvcc).accesses}
    joined, scalar = rows[2, "ld.shared.b128", "s"], rows[10, "ld.shared.b32", "u"]
    assert (joined.total, joined.ways, joined.compiled, joined.note) == (4, 1, 1, None)
    assert (scalar.total, scalar.ways, scalar.compiled, scalar.note) == (4, 1, 4, None)


def test_what_is_not_joined_stays_as_it_is_written(loads: dict[str, list[SourceAccess]]) -> None:
    (own,) = (a for a in loads["sums"] if a.array == "s")
    assert (own.op, own.total, own.ways, own.compiled, own.note) == ("ld.shared.b32", 16, 4, 1, None)


def test_neighbours_on_several_lines_are_one_access(loads: dict[str, list[SourceAccess]]) -> None:
    assert [(a.op, a.array, a.total, a.compiled) for a in loads["sums1"]] == [
        ("ld.shared.b128", "s", 4, 1), ("ld.shared.b32", "u", 1, 1),
    ]  # fmt: skip


def test_a_statement_without_instructions_says_so(loads: dict[str, list[SourceAccess]]) -> None:
    (gone,) = (a for a in loads["sums2"] if a.array == "s")
    assert gone.compiled == 0
    assert gone.note == "counted as written; its statement became no instruction like it"


@pytest.mark.deep
def test_a_gate_is_passed_by_what_the_compiler_joins(tmp_path: Path) -> None:
    text = text_of(LOOP)
    for keys, passed in (("set = {N = 3}", False), ("set = {N = 3}\ncompile = true", True)):
        found = outcome(tmp_path, text, "conflict-free", keys=keys)
        assert (found.status == "passed") is passed


@pytest.mark.deep
@pytest.mark.parametrize("more", first(1, ("static_assert(false);", "absent();")))
def test_what_does_not_compile_is_refused_with_its_error(more: str) -> None:
    with pytest.raises(CompileError, match=r"(nvcc|NVRTC) does not compile the source: .*error"):
        read_kernel(f"__global__ void k(float* p) {{ p[0] = 1; {more} }}", 32, compiled=True)
