"""The accesses of samples that stream global memory: rows, copies, records, gathers."""

from __future__ import annotations

from collections.abc import Callable

from tests.corpus.measure import Access, Source

READ, WRITE = "ld.global.b32", "st.global.b32"


def softmax() -> Source:
    vectors, block = 512, 256
    turns = range(0, vectors, block)

    def row(t: int, i: int) -> int:
        return 16 * (i + t)

    def warps(t: int) -> int | None:
        return t // 32 * 4 if t % 32 == 0 else None

    every = "for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {\n        float4 v = row[i];"
    return Source("softmax.cu", "softmax", (block,), {"cols": 4 * vectors}, [
        Access("float top = -INFINITY;\n    " + every, "ld.global.b128", "in", row, (turns,)),
        Access("maxima[warp] = top;", "st.shared.b32", "maxima", warps),
        Access("warp_max(maxima[lane & 7]);", "ld.shared.b32", "maxima", lambda t: 4 * (t % 8)),
        Access("= __ldg(row + i);", "ld.global.b128", "in", row, (turns,)),
        Access("sums[warp] = sum;", "st.shared.b32", "sums", warps),
        Access("lane < 8 ? sums[lane]", "ld.shared.b32", "sums",
               lambda t: 4 * (t % 32) if t % 32 < 8 else None),
        Access("scale = 1.f / sum;\n    " + every, "ld.global.b128", "in", row, (turns,)),
        Access("result[i] = v;", "st.global.b128", "out", row, (turns,)),
    ])  # fmt: skip


def layernorm() -> Source:
    cols = 1024
    steps = range(0, cols, 256)

    def row(t: int, s: int) -> int:
        return 2 * (t // 32 * cols + s + t % 32 * 8)

    def one(t: int, s: int) -> int:
        return 2 * (s + t % 32 * 8)

    return Source("layernorm.cu", "layernorm", (32, 4), {"COLS": cols, "rows": 8}, [
        Access("(x + row * COLS", "ld.global.b128", "x", row, (steps,)),
        Access("(gamma + col)", "ld.global.b128", "gamma", one, (steps,)),
        Access("(beta + col)", "ld.global.b128", "beta", one, (steps,)),
        Access("(y + row * COLS + col)", "st.global.b128", "y", row, (steps,)),
    ])  # fmt: skip


def embedding() -> Source:
    dim2 = 64
    turns = range(0, dim2, 32)
    text = "out[token * dim2 + i] = from[i];"
    return Source("embedding.cu", "embedding", (32, 8), {"tokens": 8, "dim2": dim2}, [
        Access("id = ids[token];", "ld.global.b64", "ids", lambda t: 8 * (t // 32)),
        Access(text, "ld.global.b64", "table", why="the row is read from memory"),
        Access(text, "st.global.b64", "out", lambda t, i: 8 * (t // 32 * dim2 + i + t % 32), (turns,)),
    ])  # fmt: skip


def vector_copy() -> Source:
    n, block = 4099, 256
    turns = range(0, n // 4, 2 * block)
    vectors, rest, shifted = "<int4 *>(d_out)[i]", "d_out[N - remainder + idx] =", "d_out[shifted] += "

    def tail(t: int) -> int | None:
        return 4 * (n - 3 + t) if t < 3 else None

    return Source("vector_copy.cu", "vector_copy", (block,), {"N": n, "gridDim.x": 2}, [
        Access(vectors, "ld.global.b128", "d_in", lambda t, i: 16 * (i + t), (turns,)),
        Access(vectors, "st.global.b128", "d_out", lambda t, i: 16 * (i + t), (turns,)),
        Access(rest, READ, "d_in", tail),
        Access(rest, WRITE, "d_out", tail),
        Access(shifted, READ, "d_out", lambda t: 4 * (t + 1)),
        Access(shifted, READ, "d_in", lambda t: 4 * (t + 1)),
        Access(shifted, WRITE, "d_out", lambda t: 4 * (t + 1)),
    ])  # fmt: skip


def records() -> tuple[Source, Source]:
    def field(at: int) -> Callable[[int], int]:
        return lambda t: 28 * t + 4 * at

    def word(t: int) -> int:
        return 4 * t

    aos, soa = [], []
    for at, name in enumerate("xyz"):
        text = f"particles[i].{name} +="
        aos += [
            Access(text, READ, "particles", field(at)),
            Access(text, READ, "particles", field(at + 3)),
            Access(text, WRITE, "particles", field(at)),
        ]
        text = f"p.{name}[i] +="
        soa += [
            Access(text, READ, f"p.{name}", word),
            Access(text, READ, f"p.v{name}", word),
            Access(text, WRITE, f"p.{name}", word),
        ]
    return (
        Source("records_aos.cu", "records_aos", (128,), {"n": 1024}, aos),
        Source("records_soa.cu", "records_soa", (128,), {"n": 1024}, soa),
    )


def spmv() -> Source:
    loop, term = "for (int j = row_ptr[row] + lane;", "sum += values[j] * x[cols[j]];"
    why = "the range of a row is read from memory"
    return Source("spmv.cu", "spmv", (128,), {"rows": 100}, [
        Access(loop, READ, "row_ptr", lambda t: 4 * (t // 32)),
        Access(loop, READ, "row_ptr", why="how often depends on the range of the row"),
        Access(term, "ld.global.b64", "values", why=why),
        Access(term, READ, "cols", why=why),
        Access(term, "ld.global.b64", "x", why="the index is read from memory"),
        Access("y[row] = sum;", "st.global.b64", "y", lambda t: 8 * (t // 32) if t % 32 == 0 else None),
    ])  # fmt: skip


def warp_transpose() -> Source:
    def row(t: int, r: int) -> int:
        return 4 * (t // 32 * 1024 + 32 * r + t % 32)

    return Source("warp_transpose.cu", "warp_transpose", (64,), {}, [
        Access("v[r] = tile[r * 32 + lane];", READ, "in", row, (range(32),)),
        Access("out[warp * 1024 + r * 32 + lane] = v[r];", WRITE, "out", row, (range(32),)),
    ])  # fmt: skip


SOURCES = (
    softmax(), layernorm(), embedding(), vector_copy(), *records(), spmv(), warp_transpose(),
)  # fmt: skip
