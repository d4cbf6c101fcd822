"""Drawn kernels with several tiles: static, dynamic, carved out of one array, and named in many ways.

Every tile is filled in rows and read in columns.  It is an array of two or three dimensions, one of one
dimension, or a part of the launch's memory or of a static array behind pointers; its extents are literals,
macros, constants or the parameter n; its elements are named by subscripts, as vectors, through macros, casts,
row pointers, helpers and ldmatrix, and some kernels have branches that no thread takes, or a use that no edit
may forget.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

LDMATRIX = """\
__device__ float matrix_row(const float* p) {
  unsigned r, a = (unsigned)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(a));
  return (float)r;
}
"""
HOST_LDMATRIX = (
    "__device__ float matrix_row(const float* p) { return p[0] + 2 * p[1] + 3 * p[2] + 4 * p[3]; }\n"
)
HEAD = """\
template <class T> __device__ T get(const T* p, int i, int j, int pitch) { return p[i * pitch + j]; }
__device__ float first(const float* p) { return *p; }
"""


@dataclass(frozen=True)
class TileKernel:
    """A kernel: its number and text, and whether n is a size of its tiles."""

    number: int
    text: str
    sized: bool

    def rendered(self) -> str:
        """The text."""
        return self.text

    @property
    def whole(self) -> str:
        """The text with the functions that it calls."""
        return f"{HEAD}{LDMATRIX}{self.text}"


def host(text: str) -> str:
    """The text as a host compiles it: static arrays are its own, and asm is a plain function."""
    text = re.sub(r"(?<!extern )__shared__ float", "alignas(16) static float", text)
    return text.replace(LDMATRIX, HOST_LDMATRIX)


@dataclass(frozen=True)
class _Tile:
    """A tile: its storage, its pointer or array, rows, columns as they are spelled, and their number."""

    kind: str
    name: str
    rows: int
    columns: str
    width: int
    scalar: str
    macro: str
    plane: str

    def at(self, i: str, j: str) -> str:
        """The element by subscripts."""
        if self.kind == "plane":
            return f"{self.name}[{self.plane}][{i}][{j}]"
        if self.kind == "square":
            return f"{self.name}[{i}][{j}]"
        return f"{self.name}[({i}) * {self.columns} + ({j})]"


def drawn(rng: random.Random, number: int) -> TileKernel:
    """A kernel of one to three tiles."""
    sized = rng.random() < 0.35
    memory = rng.choice(("static", "static", "static", "launch", "launch", "carved", "bytes"))
    width = 32 if sized else rng.choice((32, 32, 32, 64, 64, 48, 33, 40))
    columns = "n" if sized else rng.choice((str(width), f"W{number}", "w"))
    tiles, declared, heads = [], [], [f"#define W{number} {width}\n"]
    start = "0"
    if memory != "static":
        kinds = {"launch": f"extern __shared__ float m{number}[];", "carved": "__shared__ float m[6144];"}
        declared.append(kinds.get(memory, f"extern __shared__ char m{number}[];"))
    for k in range(rng.choice((1, 2, 2, 3))):
        kind = rng.choice(("square", "square", "plane", "line")) if memory == "static" else "part"
        if sized and kind in ("square", "plane"):
            kind = "line"
        rows = 32 if kind in ("plane", "line") or rng.random() < 0.7 else 64
        rows = 32 if memory == "carved" or sized else rows
        name, base = f"t{k}", "m" if memory == "carved" else f"m{number}"
        size = rows * 48 if sized else f"{rows} * {columns}"
        part = rng.choice((f"float* {name} = {base} + {start};", f"float* {name} = &{base}[{start}];"))
        if memory == "bytes":
            part = f"float* {name} = reinterpret_cast<float*>(m{number} + ({start}) * 4);"
        shapes = {"square": f"[{rows}][{columns}]", "plane": f"[2][{rows}][{columns}]", "line": f"[{size}]"}
        declared.append(part if kind == "part" else f"__shared__ float {name}{shapes[kind]};")
        start = f"{start} + {rows} * {columns}"
        macro = f"S{number}_{k}"
        tile = _Tile(kind, name, rows, columns, width, "float", macro, rng.choice("01"))
        heads.append(f"#define {macro}(i, j) {tile.at('i', 'j')}\n")
        tiles.append(tile)
    body = [_fill(rng, tile) for tile in tiles] + ["__syncthreads();"] + [_read(rng, tile) for tile in tiles]
    body += [_extra(rng, rng.choice(tiles))]
    lines = "\n  ".join((*declared, *body))
    heads = [head for head in heads if head.split()[1].partition("(")[0] in f"{lines} {columns}"]
    text = (
        f"{''.join(heads)}__global__ void k{number}(float* o, int n) {{\n"
        f"  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;\n  constexpr int w = {width};\n"
        f"  {lines}\n}}\n"
    )
    return TileKernel(number, text, sized)


def _fill(rng: random.Random, tile: _Tile) -> str:
    c, value = tile.columns, f"(float)({rng.randrange(9)} + (i * 67 + j * 13) % 101)"
    store, each, times = f"{tile.at('i', 'j')} = {value}", c, ""
    if tile.width % 4 == 0 and tile.columns != "n" and rng.random() < 0.3:
        store = f"*reinterpret_cast<float4*>(&{tile.at('i', 'j')}) = make_float4({value}, i, j, i + j)"
        each, times = f"({c} / 4)", " * 4"
    elif rng.random() < 0.25:
        store = f"{tile.macro}(i, j) = {value}"
    return (
        f"for (int e = t; e < {tile.rows} * {each}; e += 256) {{\n"
        f"    int i = e / {each}, j = e % {each}{times};\n    {store}; }}"
    )


def _read(rng: random.Random, tile: _Tile) -> str:
    row = rng.choice(("tx", f"tx + {tile.rows - 32}"))
    column = rng.choice(("r", "r", f"(r + tx) % {tile.columns}"))
    form = rng.choices(
        ("plain", "macro", "address", "helper", "row", "matrix", "vector"), (8, 2, 2, 1, 1, 2, 2)
    )[0]  # fmt: skip
    if form in ("matrix", "vector") and (tile.width % 4 or tile.columns == "n"):
        form = "plain"
    here = tile.at(row, column)
    if form == "vector":
        quad = f"*reinterpret_cast<const float4*>(&{tile.at(row, 'r / 4 * 4')})"
        load = f"float4 q = {quad}; v = q.x + 2 * q.y + 3 * q.z + 4 * q.w;"
    elif form == "row" and tile.kind in ("square", "plane"):
        load = f"const float* p = &{tile.at(row, '0')}; v = p[{column}];"
    else:
        load = {
            "macro": f"v = {tile.macro}({row}, {column});",
            "address": f"v = first(&{here});",
            "helper": f"v = get(&{tile.at('0', '0')}, {row}, {column}, {tile.columns});",
            "matrix": f"v = matrix_row(&{tile.at(row, 'r / 4 * 4')});",
        }.get(form, f"v = {here};")
    return (
        f"for (int r = ty; r < {tile.columns}; r += 8) {{\n"
        f"    float v; {load}\n    o[(r * 32 + tx) % 1024] += v; }}"
    )


def _extra(rng: random.Random, tile: _Tile) -> str:
    """A part that no thread executes, that is no code, or that knows where elements are; mostly none."""
    here = tile.at("tx", "ty")
    return rng.choice((
        "", "", "", "", f"if (n < 0) {here} = 1;", f"#if 0\n  {here} = 2;\n#endif",
        f"__syncthreads();\n  if (t == 0) for (int e = 0; e < 32; ++e) (&{tile.at('0', '0')})[e] = 3;\n"
        f"  __syncthreads();\n  o[t] += {tile.at('0', 'tx')};",
        f"o[t] += *(&{tile.at('0', '0')} + tx);",
    ))  # fmt: skip
