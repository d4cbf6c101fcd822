"""Published kernels under a profiler: what is left of a source compiles, and reports are compared by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from layoutalg.source.front import parse_cuda
from tests.profiling.reports import FOLDER, with_library
from tests.source import public_kernels
from tests.source.test_compiled import pytestmark as with_compiler

TEXT = """#include <torch/extension.h>
#include "own.h"
__global__ void k(float* p, int n) { p[threadIdx.x] = n; }
struct Args { int n; };
torch::Tensor run(torch::Tensor x) {
  k<<<1, 32>>>(x.data_ptr<float>(), 3); return x; }
TORCH_BINDING(k, torch::kFloat32,
              4)
__device__ int last(int i) { return i; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


def test_what_the_device_does_not_run_is_left_out_in_its_lines(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TEXT)
    left = [line.strip() for line in public_kernels.device_text(tmp_path / "k.cu").splitlines()]
    lines = TEXT.splitlines()
    assert {n: line for n, line in enumerate(left) if line} == {n: lines[n] for n in (1, 2, 3, 8)}


def test_a_program_launches_with_the_values_of_its_line() -> None:
    row = public_kernels.Row("a/k.cu", "k", (32, 4), (2,), 64, {"n": "7"})
    text = public_kernels.program(row, parse_cuda(TEXT).kernels[0])
    assert "<<<dim3(2), dim3(32, 4), 64>>>(Argument{zeros + 0, 1}, Argument{zeros + 67108864, 7});" in text


@pytest.mark.deep
@with_library
@with_compiler
def test_a_report_is_compared_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list").write_text("# a launch\ntranspose_naive.cu | transpose_naive | 32x8 | 32x32 | 0 |\n")
    monkeypatch.setattr(public_kernels, "LIST", tmp_path / "list")
    public_kernels.make(tmp_path / "made", FOLDER)
    report = str(FOLDER / "transpose_naive.ncu-rep")
    assert public_kernels.main(tmp_path / "made", report) == 0
    out = capsys.readouterr().out
    assert "transpose_naive: 4 of 4 read" in out and out.endswith("4 equal\n")
    text = (tmp_path / "list").read_text()
    (tmp_path / "list").write_text(text.replace("32x32", "32x16"))
    assert public_kernels.main(tmp_path / "made", report) == 0
    assert capsys.readouterr().out.endswith("1 not launched\n")
