"""What removes conflicts is found where it is known to exist; the changed source, read again, has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from layoutalg.layout import ComposedLayout
from layoutalg.source import Fix, fixes_of, read_kernel
from layoutalg.source.fixes import Edit, patch_of, patched_fixes
from tests.sweeps import each

ROWS = """
__device__ int at(int row, int col) {{ int o = row * 48 + col; return {index}; }}
__global__ void r(float *out) {{
  __shared__ float sm[32 * 48];
  int t = threadIdx.x;
  sm[at(t % 32, t / 32)] = out[t];
  __syncthreads();
  out[t] = sm[at(t / 16, t % 16)];
}}
"""
TREE = """
__device__ int at(int o) {{ return {index}; }}
__global__ void r(float *out) {{
  __shared__ float sm[{size}];
  int tid = threadIdx.x;
  for (int s = 1; s < 256; s *= 2) {{
    int i = 2 * s * tid;
    if (i < 256) sm[at(i)] += sm[at(i + s)];
    __syncthreads();
  }}
  out[tid] = sm[at(tid)];
}}
"""


def found(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The remedies of a source by their kind, each without a conflict left; and what is said beside them."""
    fixes, notes = fixes_of(read_kernel(text, 256))
    assert all(fix.before > fix.after == fix.ideal for fix in fixes)
    return {fix.kind: str(fix.layout) for fix in fixes}, notes


def test_a_swizzle_is_found_for_rows_whose_length_is_not_a_power_of_two() -> None:
    assert found(ROWS.format(index="o"))[0]["swizzle"] == "Sw<4,0,5> o 0 o (48,32):(32,1)"
    assert not read_kernel(ROWS.format(index="o ^ (o / 32 % 16)"), 256).conflicting


@pytest.mark.deep
@pytest.mark.parametrize("sizes", [(512, 516, 528), (513, 600)], ids=["512-528", "513-600"])
def test_a_swizzle_stays_inside_of_the_array(sizes: tuple[int, ...]) -> None:
    kernels = (TREE.format(index="o", size=size).replace("at(", f"at{size}(") for size in sizes)
    text = "".join(
        kernel.replace("void r", f"void r{size}") for kernel, size in zip(kernels, sizes, strict=True)
    )
    swizzles = [fix for fix in fixes_of(read_kernel(text, 256))[0] if fix.kind == "swizzle"]
    for found, size in zip(swizzles, sizes, strict=True):
        assert isinstance(found.layout, ComposedLayout)
        reached = {found.layout.swizzles[0](at) for at in range(size)}
        assert max(reached) < size + found.extra_bytes // 4 and len(reached) == size


def test_where_nothing_is_perfect_the_best_is_shown_with_what_is_left() -> None:
    """Rows of 32 need an odd pad, those of 33 an even one; what takes 32 t to t takes 33 t to 0."""
    body = "__shared__ float s[1056]; int t = threadIdx.x; p[t] = s[32 * t] + s[33 * t];"
    fixes, notes = fixes_of(read_kernel(f"__global__ void k(float *p) {{ {body} }}", 32))
    assert [(fix.kind, fix.before, fix.after, fix.left) for fix in fixes] == [
        (kind, 33, 3, ("line 1, ld.shared.b32: 2-way",)) for kind in ("padding", "swizzle")
    ]
    assert notes == (
        "s: conflicts are left by pads of 4, 8, ..., 128 bytes per row of 33 or 32 elements and by 110 "
        "swizzles Sw<B,M,S>, with B of 1 to 5, M of 0 to 8, S of 1 to 10; others were not tried",
    )


def fixed(
    body: str, block: tuple[int, ...] = (32, 32), head: str = ""
) -> tuple[tuple[Fix, ...], tuple[str, ...]]:
    """The fixes of a kernel of some lines, from line 2 on, and the notes."""
    start = f"{head}__global__ void k(float* o) {{ int tx = threadIdx.x, ty = threadIdx.y;"
    return fixes_of(read_kernel(f"{start}\n{body}\n}}", block))


PLAIN = "__shared__ float s[32][32];\ns[ty][tx] = 1; __syncthreads();\n"


def test_an_edit_is_offered_where_every_use_is_an_element() -> None:
    fixes, _ = fixed(f"{PLAIN}o[tx + 32 * ty] = s[tx][ty];")
    assert [fix.edits for fix in fixes] == [
        (Edit("", 2, 24, "32", "33"),),
        (Edit("", 3, 7, "tx", "tx ^ (ty % 32)"), Edit("", 4, 25, "ty", "ty ^ (tx % 32)")),
    ]


USES = (
    ("float* f = &s[0][0];\no[tx + 32 * ty] = s[tx][ty] + f[tx + 32 * ty];", "line 6, its address is taken"),
    ("o[tx + 32 * ty] = s[tx][ty] + ((float*)s)[tx];", "line 6, it is used as a pointer"),
    ("for (int i = tx; i < sizeof(s) / 4; i += 32) o[i] = s[tx][ty];", "line 6, its size is taken"),
    ("o[tx + 32 * ty] = s[tx][ty] + get(s[0]);", "line 6, it is handed to get"),
    ("o[tx + 32 * ty] = s[tx][ty]; memcpy(o, s, 4);", "line 6, it is handed to memcpy"),
    ("float& r = s[tx][ty];\no[tx + 32 * ty] = r + s[tx][ty];", "line 6, a reference is bound to it"),
    ("o[tx + 32 * ty] = s[tx][ty] + s[0][tx + 32 * ty];", "line 6, an index may be past the end of a row"),
    ("o[tx + 32 * ty] = s[tx][ty] + s[1][ty - 1];", "line 6, an index may be"),
    ("o[tx + 32 * ty] = s[tx][ty] + AT(tx);", "line 2, a macro names it"),
    ("o[tx + 32 * ty] = s[tx][ty];\no[0] = s[UNKNOWN.x][0];", "line 7 is not read"),
    ('o[tx + 32 * ty] = s[tx][ty];\nasm volatile("" :: "r"(s));', "line 7, it is used as a pointer"),
)
HEAD = "__device__ float get(float* p) { return p[0]; }\n#define AT(i) s[0][i]\n"


@pytest.fixture(scope="module")
def used() -> tuple[Fix, ...]:
    """The fixes of all kernels of USES, read together; the kernel of number n starts at line 3 + 10 n."""
    start = "__global__ void k{n}(float* o) {{ int tx = threadIdx.x, ty = threadIdx.y;\n"
    kernels = []
    for n, (body, _) in enumerate(USES):
        text = start.format(n=n) + PLAIN + body + "\n}\n"
        kernels.append(text + "\n" * (10 - text.count("\n")))
    return fixes_of(read_kernel(HEAD + "".join(kernels), (32, 32)))[0]


@each(("body", "said"), USES)
def test_another_use_is_named_and_no_edit_is_offered(body: str, said: str, used: tuple[Fix, ...]) -> None:
    number = [case for case, _ in USES].index(body)
    fixes = [fix for fix in used if fix.line == 4 + 10 * number]
    line = said.partition(", ")[0]
    at = int(line.removeprefix("line ").partition(" ")[0])
    wanted = said.replace(f"line {at}", f"line {at + (10 * number if at > 2 else 0)}")
    assert {fix.kind for fix in fixes} == {"padding", "swizzle"} and not any(fix.edits for fix in fixes)
    assert all(any(wanted in rewrite for rewrite in fix.rewrite) for fix in fixes), fixes[0].rewrite
    assert all("__shared__" not in fix.code for fix in fixes)


def test_arrays_of_one_name_are_several() -> None:
    """Of two kernels, and of two scopes: each has its own fix."""
    scope = "{{ __shared__ float s[32][{pitch}];\ns[ty][tx] = 1;\no[tx + 32 * ty] = s[tx][ty]; }}"
    body = "\n".join(scope.format(pitch=pitch) for pitch in (32, 64))
    fixes, notes = fixed(body)
    assert [fix.line for fix in fixes if fix.kind == "padding"] == [2, 5] and not notes
    start = "__global__ void a(float* o) { int tx = threadIdx.x, ty = threadIdx.y;\n"
    two = f"{start}{scope.format(pitch=32)} }}\n"
    fixes, notes = fixes_of(
        read_kernel(two + two.replace("void a", "void b").replace("[32];", "[64];"), (32, 32))
    )
    assert [(fix.line, fix.extra_bytes) for fix in fixes if fix.kind == "padding"] == [
        (2, 128),
        (6, 128),
    ] and not notes


def test_static_memory_past_the_limit_is_not_offered() -> None:
    body = "__shared__ float s[384][32];\ns[ty][tx] = 1; o[tx + 32 * ty] = s[tx][ty];"
    fixes, notes = fixed(body)
    (swizzle,) = fixes
    assert swizzle.code == "s[ty][tx ^ (ty % 32)] = 1; o[tx + 32 * ty] = s[tx][ty ^ (tx % 32)];"
    assert "50,688 bytes of static shared memory, and at most 49,152 compile" in notes[0]
    fixes, _ = fixed(body.replace("384", "352"))
    assert [fix.kind for fix in fixes] == ["padding", "swizzle"]


def test_memory_of_the_launch_stays_with_the_launch() -> None:
    fixes, _ = fixed("extern __shared__ float s[];\ns[tx + 32 * ty] = 1; o[tx + 32 * ty] = s[32 * tx + ty];")
    assert [(fix.kind, fix.launch_bytes) for fix in fixes] == [("padding", 4220), ("swizzle", 4096)]
    assert [len(fix.edits) for fix in fixes] == [0, 2]  # the text of the launch may be anywhere
    body = "extern __shared__ float s[];\ns[ty + 32 * tx + 56960] = 1; o[tx] = s[58112 - 1];"
    fixes, notes = fixed(body)
    assert [fix.kind for fix in fixes] == ["swizzle"] and "bytes of shared memory, and a block" in notes[0]


TILES = """extern __shared__ float s[];
float* a = s; float* b = &s[n * 32];
for (int x = 0; x < n; ++x) a[tx * n + x] = 1;
for (int x = 0; x < 32; ++x) b[32 * tx + x] = a[x * n];
"""


def test_the_tiles_of_one_array_have_rows_of_their_own() -> None:
    start = "__global__ void k(float* o, int n) { int tx = threadIdx.x;"
    fixes, notes = fixes_of(read_kernel(f"{start}\n{TILES}\n}}", 32, sets={"n": 64}))
    assert [(fix.start, fix.end, str(fix.layout)) for fix in fixes] == [
        (0, 8192, "(32,64):(65,1)"),
        (0, 8192, "Sw<5,0,6> o 0 o (32,64):(64,1)"),
        (8192, 12288, "(32,32):(33,1)"),
        (8192, 12288, "Sw<5,0,5> o 0 o (32,32):(32,1)"),
    ]
    assert [fix.launch_bytes for fix in fixes] == [12416, 12288, 12544, 12288] and not notes


@pytest.mark.deep
def test_a_header_of_the_user_is_patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = "__shared__ float s[W][W];\n  s[y][x] = o[x];\n  __syncthreads(); o[x] = s[x][y];"
    header = f"constexpr int W = 32;\n__device__ void turn(float* o, int x, int y) {{\n  {body}\n}}\n"
    (tmp_path / "turn.cuh").write_text(header)
    text = '#include "turn.cuh"\n__global__ void k(float* o) { turn(o, threadIdx.x, threadIdx.y); }\n'
    reading = read_kernel(text, (32, 32), folder=str(tmp_path))
    fixes, _ = fixes_of(reading)
    assert [(fix.file, fix.line, len(fix.edits)) for fix in fixes] == [("turn.cuh", 3, 1), ("turn.cuh", 3, 2)]
    patch = patch_of(reading, patched_fixes(fixes), "k.cu").splitlines()
    assert patch[:2] == ["--- turn.cuh", "+++ turn.cuh"] and "+  __shared__ float s[W][W + 1];" in patch


def test_structs_keep_their_type() -> None:
    body = "__shared__ Cell s[32][32];\ns[ty][tx].x = 1; o[tx + 32 * ty] = s[tx][ty].x;"
    body += "__shared__ Tile t;\nt.a[ty][tx] = 1; o[tx + 32 * ty] = t.a[tx][ty];"
    head = "struct Cell { float x; };\nstruct Tile { float a[32][32]; };\n"
    fixes, notes = fixed(body, head=head)
    assert next(fix.code for fix in fixes if fix.edits).startswith("__shared__ Cell s[32][33];")
    assert {fix.array for fix in fixes} == {"s"}
    assert any("it is one Tile of 4096 bytes, not an array of elements" in note for note in notes)


def test_edits_of_one_declaration_stand_together() -> None:
    body = "__shared__ float s[32][32], r[32][TILE * 2];\ns[ty][tx] = r[ty][tx] = 1;"
    body += "o[tx] = s[tx][ty] + r[tx][ty];"
    start = "#define TILE 16\n__global__ void k(float* o) { int tx = threadIdx.x, ty = threadIdx.y;\n"
    reading = read_kernel(f"{start}{body}\n}}", (32, 32))
    fixes, _ = fixes_of(reading)
    patch = patch_of(reading, patched_fixes(fixes), "a.cu")
    assert (
        "-__shared__ float s[32][32], r[32][TILE * 2];\n+__shared__ float s[32][33], r[32][(TILE * 2) + 1];"
        in patch
    )
