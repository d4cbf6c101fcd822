"""`layoutalg kernel`: its table, its JSON by the schema, and what it says of sources that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutalg.source.front import parsing
from tests.command import answer, refusal, run
from tests.sweeps import first

TRANSPOSE = """
#include <cuda_runtime.h>
#define TILE 32
__global__ void transpose(float* out, const float* in, int n) {
  __shared__ float tile[TILE][TILE];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  out[x * n + y] = tile[threadIdx.x][threadIdx.y];
}
"""


def written(folder: Path, text: str) -> str:
    place = folder / "kernel.cu"
    place.write_text(text, encoding="utf-8")
    return str(place)


def test_a_table_by_line(tmp_path: Path) -> None:
    result = run("kernel", written(tmp_path, TRANSPOSE), "--block", "32x32", "--set", "n=1024")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["9", "ld.shared.b32", "tile", "32", "1,024", "32", "32-way"] in rows
    assert ["7", "ld.global.b32", "in", "32", "128", "128", "100.0%"] in rows
    assert "4 of 4 accesses are read." in result.stdout


def test_json_and_fixes(tmp_path: Path) -> None:
    place = written(tmp_path, TRANSPOSE)
    found = answer("kernel", place, "--block", "32x32", "--set", "n=1024", "--grid", "32x32", "--fix")
    assert found["kernels"] == ["transpose"] and found["grid"] == [32, 32, 1]
    store = next(a for a in found["accesses"] if a["op"] == "st.global.b32")
    assert store == {
        "line": 9, "column": 3, "op": "st.global.b32", "array": "out",
        "instructions": 32 * 1024, "total": 32 * 32 * 1024,
        "ideal_total": 4 * 32 * 1024, "ways": None, "efficiency": 0.125, "read": True, "why": None,
        "note": None, "compiled": None, "file": "", "sizes": [], "depends": [], "bounds": None,
        "kernel": "transpose", "function": "transpose", "elsewhere": False, "lanes": 0, "part": "",
    }  # fmt: skip
    assert [(fix["kind"], fix["layout"]) for fix in found["fixes"]] == [
        ("padding", "(32,32):(33,1)"),
        ("swizzle", "Sw<5,0,5> o 0 o (32,32):(32,1)"),
    ]
    assert "tile[TILE][TILE + 1];" in found["fixes"][0]["code"]
    edit = {"file": "", "line": 5, "column": 31, "before": "TILE", "after": "TILE + 1"}
    padding, swizzle = found["fixes"]
    assert padding["edits"] == [edit] and len(swizzle["edits"]) == 2 and found["patch"] is None
    patch = answer("kernel", place, "--block", "32x32", "--set", "n=1024", "--patch")["patch"]
    assert "+  __shared__ float tile[TILE][TILE + 1];" in patch.splitlines()


@pytest.mark.deep
def test_a_value_that_is_wanted(tmp_path: Path) -> None:
    place = written(tmp_path, TRANSPOSE)
    found = answer("kernel", place, "--block", "32x32")
    assert found["taken"] == [{"name": "n", "value": 1024}] and found["wanted"] == []
    assert {a["array"]: a["depends"] for a in found["accesses"]} == {"tile": [], "in": ["n"], "out": ["n"]}
    assert [a["read"] for a in found["accesses"] if a["op"].startswith("ld.shared")] == [True]
    refused = refusal("kernel", place, "--block", "32x32", "--set", "m=4")[1]
    assert "unknown name to set 'm'" in refused


P = "__global__ void k(float* p"
REFUSED = (
    (f"{P}) {{ p[", "--block 32", "line 1, column"),
    ("int main() { return 0; }", "--block 32", "no __global__ function"),
    (TRANSPOSE, "--set n=64 --set gridDim.x=2", "no launch of it is in the source: --block is wanted"),
    (f"{P}, float n) {{ for (int i = 0; i < n; ++i) p[i] = 1; }}", "--block 32", "--set n=VALUE"),
    (f"{P}) {{ for (;;) p[threadIdx.x] = 1; }}", "--block 32", "the turns of its loop"),
    (f"__device__ int f(float* p) {{ return f(p + 1); }} {P}) {{ f(p); }}", "--block 32", "f calls itself"),
    (f'#include "/etc/passwd"\n{P}) {{ p[threadIdx.x] = q[0]; }}', "--block 32", "undeclared identifier 'q'"),
    (f"{P}) {{ *(float4*)(p + threadIdx.x) = float4(); }}", "--block 32", "multiples of 16 bytes; lane 1"),
    (f"{P}, float n) {{ p[int(n) * threadIdx.x] = 1; return; p[5] = 2; }}", "--block 32", "none of"),
    ("#include <cute/tensor.hpp>\ntemplate <class S, class D> __global__ void move(S from, D to) {\n"
     "  Tensor s = from; Tensor d = to;\n  copy(s, d);\n}", "--block 32",
     "column 3: call copy: the statement has an error"),
    *((TRANSPOSE, f"--block {words}", said) for words, said in (
        ("0", "cannot read the block '0'"), ("a", "cannot read the block 'a'"),
        ("64x64", "a block has 4096 threads"),
        ("32 --set n", "--set 'n' is not NAME=VALUE"), ("32 --set n=1;2", "NAME=VALUE with a number"),
        ("32 --set n=1 --set n=2", "names n twice"), ("32 --kernel other", "unknown kernel 'other'"),
        ("32 --set n=float", "the parameter n is a int"), ("32 --set m=4", "unknown name to set 'm'"))),
    (P + ") { p[" + "1+" * 20_000 + "1] = 1; }", "--block 32", "the process that parsed the source ended"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "words", "said"), first(2, REFUSED))
def test_what_cannot_be_read_is_refused(text: str, words: str, said: str, tmp_path: Path) -> None:
    """The last one brings the parser down, in its own process."""
    assert said in refusal("kernel", written(tmp_path, text), *words.split())[1]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    place = tmp_path / "kernel.cu"
    place.write_bytes(b"__global__ void k() {}\n\xff\xfe")
    assert "line 2, byte 1" in refusal("kernel", str(place), "--block", "32")[1]
    place.write_bytes(b" " * ((1 << 20) + 1))
    assert "size of" in refusal("kernel", str(place), "--block", "32")[1]


def test_a_source_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "SECONDS", 0.01)
    place = written(tmp_path, TRANSPOSE)
    assert "the source was not parsed: no answer within" in refusal("kernel", place, "--block", "32")[1]


def test_the_extra_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refusal("kernel", written(tmp_path, TRANSPOSE), "--block", "32")[1]
    assert "needs libclang, which is not installed: pip install 'layoutalg[source]'" in said


@pytest.mark.parametrize("body", first(1, ("while (true) { break; x[threadIdx.x] = 1; } return; x[3] = 4;",
                                           "if (true) return; x[0] = 1; x[1] = 2;",
                                           "for (;;) { return; x[threadIdx.x] = 1; }")))  # fmt: skip
def test_code_that_is_never_reached_is_an_answer(body: str, tmp_path: Path) -> None:
    place = written(tmp_path, f"__global__ void k(float* x) {{ {body} }}")
    result = run("kernel", place, "--block", "32")
    assert (
        result.exit_code == 0 and "it is never reached." in result.stdout and "not read" not in result.stdout
    )
    assert {a["why"] for a in answer("kernel", place, "--block", "32")["accesses"]} == {"it is never reached"}


WRAPPED = """
struct Tile { float* p; __device__ explicit Tile(float* q);
  __device__ float& operator()(int r, int c) { return p[r * 32 + c]; } };
__global__ void k(float* o) { __shared__ float s[1024]; Tile t(s); t(threadIdx.x, 0) = 1.f;
  o[threadIdx.x] = t(0, threadIdx.x); }
"""


def test_what_is_said_of_all_is_said_where_all_were_read(tmp_path: Path) -> None:
    said = run("kernel", written(tmp_path, WRAPPED), "--block", "32", "--fix").stdout
    assert "No bank conflict is in the 1 of 4 accesses that were read." in said
    assert "No shared array" not in said
    plain = "__global__ void k(float* o) { __shared__ float s[64]; s[threadIdx.x] = o[threadIdx.x]; }"
    assert (
        "No shared array has bank conflicts."
        in run("kernel", written(tmp_path, plain), "--block", "32", "--fix").stdout
    )


def test_nothing_is_said_of_all_sizes_that_some_change(tmp_path: Path) -> None:
    body = "{{ __shared__ float s[4096]; s[threadIdx.x{}] = 1; o[n] = 2; if (n == 3) s[threadIdx.x] = 3; }}"
    text = "__global__ void k(float* o, int n) "
    said = run("kernel", written(tmp_path, text + body.format(" / n")), "--block", "32", "--fix").stdout
    assert "as they are counted; with other n may be one." in said
    said = run("kernel", written(tmp_path, text + body.format(" + n")), "--block", "32", "--fix").stdout
    assert "No shared array has bank conflicts." in said
    assert "Not given, and counted as 1,024: n." in said and "counted with n = 3" in said


def test_a_note_is_in_the_table_and_in_the_fields(tmp_path: Path) -> None:
    text = """
__global__ void k(const float4* x, float* y) { __shared__ float4 s[32]; s[threadIdx.x] = x[threadIdx.x];
  const float* c = reinterpret_cast<const float*>(&s[threadIdx.x]); float a = 0;
  __syncthreads(); for (int k = 0; k < 4; k++) a += c[k]; y[threadIdx.x] = a; }
"""
    note = "counted as written; a compiler probably joins these into one ld.shared.v4.b32 of 4 wavefronts"
    place = written(tmp_path, text)
    assert [a["note"] for a in answer("kernel", place, "--block", "32")["accesses"]] == [
        None,
        None,
        note,
        None,
    ]
    said = " ".join(run("kernel", place, "--block", "32").stdout.split())
    assert f"Note: line 4, ld.shared.b32 s: {note}." in said


def test_fixes_claim_nothing_of_what_is_not_followed_or_not_executed(tmp_path: Path) -> None:
    body = "__global__ void k() {{ __shared__ float s[1024]; s[threadIdx.x] = 1; {} }}"
    for rest, said in (
        ("absent(threadIdx.x);", "No bank conflict is in the 1 of 1 accesses that were read."),
        ("if (blockIdx.x == 1) s[threadIdx.x * 32] = 1;", "accesses that block (0,0,0) executes"),
    ):
        result = run("kernel", written(tmp_path, body.format(rest)), "--block", "32", "--fix")
        assert said in result.stdout and "No shared array has" not in result.stdout
    parts = answer("kernel", written(tmp_path, body.format("absent(3);")), "--block", "32")["unfollowed"]
    assert parts == [{"line": 1, "why": "what absent does is not in the file", "file": ""}]


def test_a_kernel_without_accesses_is_told_to_have_none(tmp_path: Path) -> None:
    text = "#include <stdio.h>\n__global__ void k(int n) {{ {} }}\n"
    result = run("kernel", written(tmp_path, text.format('printf("%d", n); assert(n);')), "--block", "32")
    assert (result.exit_code, result.stdout) == (0, "k has no access to shared or global memory.\n")
    _, why = refusal("kernel", written(tmp_path, text.format("hidden(n);")), "--block", "32")
    assert why == "no access could be read: line 2: what hidden does is not in the file"


@pytest.mark.deep
def test_macros_and_folders_come_from_the_build(tmp_path: Path) -> None:
    source = f"#include <own.h>\n{P}) {{ p[threadIdx.x * PITCH] = OTHER; }}\n"
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "own.h").write_text("#ifndef WIDE\n#define PITCH 2\n#endif\n", encoding="utf-8")
    place, build = written(tmp_path, source), tmp_path / "compile_commands.json"
    command = "nvcc -I headers -isystem=gone -D OTHER=1 -DTEXT='a b' -c kernel.cu; touch no"
    for entry in ({"command": command}, {"arguments": ["nvcc", "-Iheaders", "-DOTHER=1", "kernel.cu"]}):
        build.write_text(
            json.dumps([{"directory": str(tmp_path), "file": "kernel.cu", **entry}]), encoding="utf-8"
        )
        found = answer("kernel", place, "--block", "32", "--compile-commands", str(build))
        assert [a["total"] for a in found["accesses"]] == [8] and found["unfollowed"] == []
    wide = ("--compile-commands", str(build), "-D", "WIDE", "-D", "PITCH=4")
    assert answer("kernel", place, "--block", "32", *wide)["accesses"][0]["total"] == 16
    assert "is not the name of a macro" in refusal("kernel", place, "--block", "32", "-D", "A B=1")[1]
    for text, said in (
        ("[]", "has no command for"),
        ("{", "is not a list of commands"),
        ("[3]", "is not a list"),
    ):
        build.write_text(text, encoding="utf-8")
        assert said in refusal("kernel", place, "--block", "32", "--compile-commands", str(build))[1]
