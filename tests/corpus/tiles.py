"""The accesses of samples of tiles: products, stencils, convolutions, pipelines, fragments."""

from __future__ import annotations

from collections.abc import Callable

from tests.corpus.measure import Access, Source

LOAD, STORE = "ld.shared.b32", "st.shared.b32"
READ, WRITE = "ld.global.b32", "st.global.b32"


def stencil_2d() -> Source:
    nx = 256
    block = 32, 8

    def at(i: int, j: int) -> Callable[[int], int]:
        """In the tile, so far from the thread's own element."""
        return lambda t: 4 * ((t // 32 + 1 + i) * 34 + t % 32 + 1 + j)

    def image(i: int, j: int) -> Callable[[int], int]:
        """In the image, from block (1, 1)."""
        return lambda t: 4 * ((8 + t // 32 + i) * nx + 32 + t % 32 + j)

    def only(inside: Callable[[int], bool], offset: Callable[[int], int]) -> Callable[[int], int | None]:
        return lambda t: offset(t) if inside(t) else None

    def left(t: int) -> bool:
        return t % 32 < 1

    def top(t: int) -> bool:
        return t // 32 < 1

    values = {"nx": nx, "ny": 64, "blockIdx.x": 1, "blockIdx.y": 1}
    halo = (
        ("s[ly][lx - RADIUS] =", left, 0, -1), ("s[ly][lx + BX] =", left, 0, 32),
        ("s[ly - RADIUS][lx] =", top, -1, 0), ("s[ly + BY][lx] =", top, 8, 0),
    )  # fmt: skip
    around = (("-4.f * s[ly][lx];", 0, 0), ("s[ly][lx - 1];", 0, -1), ("s[ly][lx + 1];", 0, 1),
              ("s[ly - 1][lx];", -1, 0), ("s[ly + 1][lx];", 1, 0))  # fmt: skip
    return Source("stencil_2d.cu", "stencil_2d", block, values, [
        Access("s[ly][lx] = in", READ, "in", image(0, 0)),
        Access("s[ly][lx] = in", STORE, "s", at(0, 0)),
        *(Access(text, READ, "in", only(inside, image(i, j))) for text, inside, i, j in halo),
        *(Access(text, STORE, "s", only(inside, at(i, j))) for text, inside, i, j in halo),
        *(Access(text, LOAD, "s", at(i, j)) for text, i, j in around),
        Access("out[gy * nx + gx] = sum;", WRITE, "out", image(0, 0)),
    ])  # fmt: skip


def stencil_3d() -> Source:
    dimx, dimy, dimz, radius = 64, 32, 2, 4
    stride_y = dimx + 2 * radius
    stride_z = stride_y * (dimy + 2 * radius)
    planes = range(dimz)

    def x(t: int) -> int:
        return t % 32

    def y(t: int) -> int:
        return t // 32

    def volume(t: int, plane: int, i: int = 0, j: int = 0) -> int:
        return 4 * ((y(t) + radius + i) * stride_y + x(t) + radius + j + plane * stride_z)

    def tile(i: int, j: int) -> int:
        return 4 * (i * 40 + j)

    def rim(offset: Callable[[int, int], int], rows: bool) -> Callable[[int, int], int | None]:
        """The first four rows or columns of threads."""
        return lambda t, z: offset(t, z) if (y(t) if rows else x(t)) < radius else None

    values = {"dimx": dimx, "dimy": dimy, "dimz": dimz}
    halo: tuple[tuple[str, bool, Callable[[int, int], int], Callable[[int, int], int]], ...] = (
        ("tile[ltidy][tx] =", True, lambda t, z: volume(t, 4 + z, -4), lambda t, z: tile(y(t), x(t) + 4)),
        ("tile[ltidy + TY + RADIUS][tx] =", True, lambda t, z: volume(t, 4 + z, 16),
         lambda t, z: tile(y(t) + 20, x(t) + 4)),
        ("tile[ty][ltidx] =", False, lambda t, z: volume(t, 4 + z, 0, -4), lambda t, z: tile(y(t) + 4, x(t))),
        ("tile[ty][ltidx + TX + RADIUS] =", False, lambda t, z: volume(t, 4 + z, 0, 32),
         lambda t, z: tile(y(t) + 4, x(t) + 36)),
    )  # fmt: skip
    sums = "(tile[ty - i][tx] + tile[ty + i][tx]);", "(tile[ty][tx - i] + tile[ty][tx + i]);"
    steps = range(1, radius + 1)
    near: tuple[tuple[str, int, int], ...] = (
        (sums[0], -1, 0), (sums[0], 1, 0), (sums[1], 0, -1), (sums[1], 0, 1)
    )  # fmt: skip
    return Source("stencil_3d.cu", "stencil_3d", (32, 16), values, [
        Access("behind[i] = input[index];", READ, "input", volume, (range(3),)),
        Access("current = input[index];", READ, "input", lambda t: volume(t, 3)),
        Access("infront[i] = input[index];", READ, "input", volume, (range(4, 8),)),
        Access("infront[RADIUS - 1] = input[index];", READ, "input",
               lambda t, z: volume(t, 8 + z), (planes,)),
        *(Access(text, READ, "input", rim(away, rows), (planes,)) for text, rows, away, _ in halo),
        *(Access(text, STORE, "tile", rim(into, rows), (planes,)) for text, rows, _, into in halo),
        Access("tile[ty][tx] = current;", STORE, "tile", lambda t, z: tile(y(t) + 4, x(t) + 4), (planes,)),
        *(
            Access(text, LOAD, "tile",
                   lambda t, z, n, i=i, j=j: tile(y(t) + 4 + n * i, x(t) + 4 + n * j), (planes, steps))
            for text, i, j in near
        ),
        Access("output[out_index] = value;", WRITE, "output", lambda t, z: volume(t, 4 + z), (planes,)),
    ])  # fmt: skip


def matrix_mul() -> Source:
    wide_a, wide_b = 64, 96
    tiles, inner = range(0, wide_a, 32), range(32)

    def x(t: int) -> int:
        return t % 32

    def y(t: int) -> int:
        return t // 32

    read = "Csub += As[ty][k] * Bs[k][tx];"
    values = {"BLOCK_SIZE": 32, "wA": wide_a, "wB": wide_b}
    return Source("matrix_mul.cu", "matrix_mul", (32, 32), values, [
        Access("As[ty][tx] =", READ, "A", lambda t, k: 4 * (k + wide_a * y(t) + x(t)), (tiles,)),
        Access("As[ty][tx] =", STORE, "As", lambda t, k: 4 * t, (tiles,)),
        Access("Bs[ty][tx] =", READ, "B", lambda t, k: 4 * (k * wide_b + wide_b * y(t) + x(t)), (tiles,)),
        Access("Bs[ty][tx] =", STORE, "Bs", lambda t, k: 4 * t, (tiles,)),
        Access(read, LOAD, "As", lambda t, k, i: 4 * (32 * y(t) + i), (tiles, inner)),
        Access(read, LOAD, "Bs", lambda t, k, i: 4 * (32 * i + x(t)), (tiles, inner)),
        Access("C[c + wB * ty + tx] = Csub;", WRITE, "C", lambda t: 4 * (wide_b * y(t) + x(t))),
    ])  # fmt: skip


def convolution_rows() -> Source:
    pitch, row = 512, 160
    own, taps = range(1, 9), range(-8, 9)

    def image(t: int, i: int) -> int:
        return 4 * (t // 16 * pitch + 112 + t % 16 + 16 * i)

    def tile(t: int, i: int) -> int:
        return 4 * (t // 16 * row + t % 16 + 16 * i)

    values = {"imageW": 512, "imageH": 16, "pitch": pitch, "blockIdx.x": 1}
    left, right = "(baseX >= -i * ROWS_BLOCKDIM_X) ?", "(imageW - baseX > i * ROWS_BLOCKDIM_X) ?"
    into = "s_Data[threadIdx.y][threadIdx.x + i * ROWS_BLOCKDIM_X] ="
    before_left = "for (int i = 0; i < ROWS_HALO_STEPS; i++)\n        " + into
    before_right = "i < 2 * ROWS_HALO_STEPS + ROWS_RESULT_STEPS; i++)\n        " + into
    read = "* s_Data[threadIdx.y][threadIdx.x + i * ROWS_BLOCKDIM_X + j];"
    return Source("convolution_rows.cu", "convolution_rows", (16, 4), values, [
        Access(into + " d_Src", READ, "d_Src", image, (own,)),
        Access(into + " d_Src", STORE, "s_Data", tile, (own,)),
        Access(left, READ, "d_Src", image, ((0,),)),
        Access(before_left, STORE, "s_Data", tile, ((0,),)),
        Access(right, READ, "d_Src", image, ((9,),)),
        Access(before_right, STORE, "s_Data", tile, ((9,),)),
        Access(read, LOAD, "s_Data", lambda t, i, j: tile(t, i) + 4 * j, (own, taps)),
        Access("d_Dst[i * ROWS_BLOCKDIM_X] = sum;", WRITE, "d_Dst", image, (own,)),
    ])  # fmt: skip


def convolution_columns() -> Source:
    pitch, row = 64, 81
    every, own, taps = range(10), range(1, 9), range(-8, 9)

    def image(t: int, i: int) -> int:
        return 4 * ((56 + t // 16 + 8 * i) * pitch + t % 16)

    def tile(t: int, i: int) -> int:
        return 4 * (t % 16 * row + t // 16 + 8 * i)

    values = {"imageW": 64, "imageH": 256, "pitch": pitch, "blockIdx.y": 1}
    return Source("convolution_columns.cu", "convolution_columns", (16, 8), values, [
        Access("(y >= 0 && y < imageH) ? d_Src", READ, "d_Src", image, (every,)),
        Access("i * COLUMNS_BLOCKDIM_Y] =", STORE, "s_Data", tile, (every,)),
        Access("i * COLUMNS_BLOCKDIM_Y + j];", LOAD, "s_Data",
               lambda t, i, j: tile(t, i) + 4 * j, (own, taps)),
        Access("d_Dst[i * COLUMNS_BLOCKDIM_Y * pitch] = sum;", WRITE, "d_Dst", image, (own,)),
    ])  # fmt: skip


def nbody() -> Source:
    tiles, block = range(2), 256
    text = "shared_positions[threadIdx.x] = positions["
    return Source("nbody.cu", "nbody", (block,), {"bodies": 512}, [
        Access("float4 mine = positions[i];", "ld.global.b128", "positions", lambda t: 16 * t),
        Access(text, "ld.global.b128", "positions", lambda t, n: 16 * (n * block + t), (tiles,)),
        Access(text, "st.shared.b128", "shared_positions", lambda t, n: 16 * t, (tiles,)),
        Access("mine, shared_positions[j]", "ld.shared.b128", "shared_positions",
               lambda t, n, j: 16 * j, (tiles, range(block))),
        Access("forces[i] =", "st.global.b128", "forces", lambda t: 16 * t),
    ])  # fmt: skip


def async_pipeline() -> Source:
    stages, tiles = 4, 6

    def ring(t: int, tile: int) -> int:
        return 4 * (tile % stages * 512 + t // 8 * 32 + t % 8 * 4)

    def rows(t: int, tile: int) -> int:
        return 4 * ((tile * 16 + t // 8) * 32 + t % 8 * 4)

    def across(t: int, tile: int, k: int) -> int:
        return 4 * (tile % stages * 512 + t % 16 * 32 + t // 16 + 8 * k)

    early, late = "CP_ASYNC_16(dst, in + (s * 16", "CP_ASYNC_16(dst, in + (next * 16"
    return Source("async_pipeline.cu", "async_pipeline", (128,), {"STAGES": stages, "tiles": tiles}, [
        Access(early, "cp.async.16", "ring", ring, (range(stages - 1),)),
        Access(early, "cp.async.16:global", "in", rows, (range(stages - 1),)),
        Access(late, "cp.async.16", "ring", ring, (range(stages - 1, tiles),)),
        Access(late, "cp.async.16:global", "in", rows, (range(stages - 1, tiles),)),
        Access("sum += ring[tile % STAGES]", LOAD, "ring", across, (range(tiles), range(4))),
        Access("out[blockIdx.x * 128 + t] = sum;", WRITE, "out", lambda t: 4 * t),
    ])  # fmt: skip


def fragment_load() -> Source:
    steps = range(0, 64, 16)
    to_a, to_b = "*(int4 *)&s_a[", "*reinterpret_cast<int4 *>(&s_b["

    def result(rows: int) -> Callable[[int], int]:
        return lambda t: 4 * ((t // 4 + rows) * 8 + t % 4 * 2)

    return Source("fragment_load.cu", "fragment_load", (32,), {}, [
        Access(to_a, "ld.global.b128", "a", lambda t, i: 16 * (32 * i + t), (range(4),)),
        Access(to_a, "st.shared.b128", "s_a",
               lambda t, i: 2 * ((4 * i + t // 8) * 72 + t % 8 * 8), (range(4),)),
        Access(to_b, "ld.global.b128", "b", lambda t, i: 16 * (32 * i + t), (range(2),)),
        Access(to_b, "st.shared.b128", "s_b", lambda t, i: 2 * 16 * (32 * i + t), (range(2),)),
        Access("LDMATRIX_X4(ra", "ldmatrix.x4", "s_a",
               lambda t, k: 2 * (t % 16 * 72 + k + t // 16 * 8), (steps,)),
        Access("LDMATRIX_X2_T(rb", "ldmatrix.x2.trans", "s_b", lambda t, k: 2 * 16 * (k + t % 16), (steps,)),
        Access("= make_float2(c[0], c[1]);", "st.global.b64", "d", result(0)),
        Access("= make_float2(c[2], c[3]);", "st.global.b64", "d", result(8)),
    ])  # fmt: skip


def attention() -> Source:
    head, blocks = 64, range(2)
    four = range(4)

    def x(t: int) -> int:
        return t % 16

    def y(t: int) -> int:
        return t // 16

    def matrix(t: int, n: int, i: int) -> int:
        return 4 * (n * 64 * head + t + 256 * i)

    def stored(pitch: int) -> Callable[[int, int, int], int]:
        return lambda t, n, i: 4 * ((t + 256 * i) // head * pitch + (t + 256 * i) % head)

    query = "reinterpret_cast<float4 *>(&sQ[0][0])[i] ="
    turns = range(16)
    return Source("attention.cu", "attention", (256,), {"length": 128}, [
        Access(query, "ld.global.b128", "Q", lambda t, i: 16 * (t + 256 * i), (four,)),
        Access(query, "st.shared.b128", "sQ", lambda t, i: 16 * (t + 256 * i), (four,)),
        Access("sK[i / D][i % D] =", READ, "K", matrix, (blocks, turns)),
        Access("sK[i / D][i % D] =", STORE, "sK", stored(65), (blocks, turns)),
        Access("sV[i / D][i % D] =", READ, "V", matrix, (blocks, turns)),
        Access("sV[i / D][i % D] =", STORE, "sV", stored(64), (blocks, turns)),
        Access("qv = sQ[ty * 4 + i][d];", LOAD, "sQ",
               lambda t, n, d, i: 4 * ((4 * y(t) + i) * 64 + d), (blocks, range(64), four)),
        Access("* sK[tx + 16 * j][d];", LOAD, "sK",
               lambda t, n, d, i, j: 4 * ((x(t) + 16 * j) * 65 + d), (blocks, range(64), four, four)),
        Access("sP[ty * 4 + i][tx + 16 * j] = p;", STORE, "sP",
               lambda t, n, i, j: 4 * ((4 * y(t) + i) * 65 + x(t) + 16 * j), (blocks, four, four)),
        Access("(&sV[n][tx * 4]);", "ld.shared.b128", "sV",
               lambda t, n, k: 4 * (64 * k + 4 * x(t)), (blocks, range(64))),
        Access("p = sP[ty * 4 + i][n];", LOAD, "sP",
               lambda t, n, k, i: 4 * ((4 * y(t) + i) * 65 + k), (blocks, range(64), four)),
        Access("(&O[(blockIdx.y", "st.global.b128", "O",
               lambda t, i: 4 * ((4 * y(t) + i) * head + 4 * x(t)), (four,)),
    ])  # fmt: skip


SOURCES = (
    stencil_2d(), stencil_3d(), matrix_mul(), convolution_rows(), convolution_columns(), nbody(),
    async_pipeline(), fragment_load(), attention(),
)  # fmt: skip
