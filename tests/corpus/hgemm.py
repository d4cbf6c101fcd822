"""The accesses of hgemm_k1.cu to hgemm_k6.cu: row-major, M = N = 512, K = 128, block (0, 0).

A at (i, j) is element i K + j, B is i N + j, C and D are i N + j.  Blocks are (64, 4): thread t = 64 y + x is
of the warp that has the rows from 64 y and the columns from WN (x / 32) of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.corpus.measure import Access, Source

M = N = 512
K = 128
F16 = 2
THREADS = 256
BM = 256

Address = Callable[[int, int], int]
"""Bytes of an element (row, column)."""


def rows_of(pitch: int) -> Address:
    """Rows of so many halves, as they lie."""
    return lambda i, j: F16 * (pitch * i + j)


def swizzled(pitch: int, row_bits: int, first: int) -> Address:
    """The same with `row_bits` bits of the row, from bit `first` on, in the place of the 16-byte vector."""

    def place(i: int, j: int) -> int:
        vector = j // 8 ^ (i >> first) % (1 << row_bits)
        return F16 * (pitch * i + 8 * vector + j % 8)

    return place


def warp(t: int) -> tuple[int, int, int]:
    """The warp's row and column in the block, and the lane."""
    return t // 64, t // 32 % 2, t % 32


def copies(
    rows: int, cols: int, vector: int, ld: int, tile: Address, k_moves: tuple[int, int],
    load: str, store: str, arrays: tuple[str, str], turns: Iterable[int], first: Callable[[int], int],
) -> list[Access]:  # fmt: skip
    """A tile brought by all threads, `vector` halves each, to where `first` of the turn says."""
    lanes = cols // vector
    step = THREADS // lanes
    bits = 8 * F16 * vector
    matrix = rows_of(ld)

    def place(t: int, i: int) -> tuple[int, int]:
        return t // lanes + i * step, vector * (t % lanes)

    def read(t: int, k: int, i: int) -> int:
        row, col = place(t, i)
        return matrix(row + k * k_moves[0], col + k * k_moves[1])

    steps = range(rows // step)
    return [
        Access(load, f"ld.global.b{bits}", arrays[0], read, (turns, steps)),
        Access(
            store,
            f"st.shared.b{bits}",
            arrays[1],
            lambda t, k, i: first(k) + tile(*place(t, i)),
            (turns, steps),
        ),
    ]


def both(
    bn: int, bk: int, vector: int, a: Address, b: Address, load: str, store: str,
    arrays: tuple[str, str] = ("sA", "sB"), places: tuple[int, int] = (0, 0),
) -> list[Access]:  # fmt: skip
    """The copies of both tiles; `places`: bytes to the second buffer, and to the tile of B in a buffer."""
    turns = range(K // bk)
    buffer, first_b = places
    tile_a = copies(
        BM, bk, vector, K, a, (0, bk), load, store, ("A", arrays[0]), turns, lambda k: k % 2 * buffer
    )
    tile_b = copies(
        bk,
        bn,
        vector,
        N,
        b,
        (bk, 0),
        load,
        store,
        ("B", arrays[1]),
        turns,
        lambda k: k % 2 * buffer + first_b,
    )
    return [*tile_a, *tile_b]


def epilogue(
    wn: int, reads: list[tuple[str, list[int]]], writes: list[tuple[str, list[int]]]
) -> list[Access]:
    """Straight from the accumulators: 4 bytes per lane, eight rows of four lanes, in two halves of rows."""
    matrix = rows_of(N)

    def at(t: int, m: int, n: int, half: int) -> int:
        y, x, lane = warp(t)
        return matrix(64 * y + 16 * m + lane // 4 + 8 * half, wn * x + 8 * n + lane % 4 * 2)

    loops = (range(4), range(wn // 8))
    return [
        Access(text, op, array, at, (*loops, halves))
        for op, array, places in (("ld.global.b32", "C", reads), ("st.global.b32", "D", writes))
        for text, halves in places
    ]


def small(kernel: int, vector: int, a: Address, b: Address, load: str, store: str) -> Source:
    """Kernels 1 to 4: tile 256 x 128 x 64, fragments of 16 x 8 and 8 x 8."""
    bn, bk, wn = 128, 64, 64
    tiles = range(K // bk)

    def fragment_a(t: int, k0: int, k: int, m: int) -> int:
        y, _, lane = warp(t)
        return a(64 * y + 16 * m + lane % 16, 8 * k)

    def fragment_b(t: int, k0: int, k: int, n: int) -> int:
        _, x, lane = warp(t)
        return b(8 * k + lane % 8, wn * x + 8 * n)

    load_c = "r[{}] = *reinterpret_cast<const unsigned *>(src);"
    store_d = "*reinterpret_cast<unsigned *>(dst) = r[{}];"
    accesses = [
        *both(bn, bk, vector, a, b, load, store),
        Access("m8n8.x2.shared", "ldmatrix.x2", "sA", fragment_a, (tiles, range(8), range(4))),
        Access("m8n8.x1.trans", "ldmatrix.x1.trans", "sB", fragment_b, (tiles, range(8), range(8))),
        *epilogue(wn, [(load_c.format(h), [h]) for h in (0, 1)], [(store_d.format(h), [h]) for h in (0, 1)]),
    ]
    return source(kernel, bn, bk, wn, accesses)


def large(kernel: int) -> Source:
    """Kernels 5 and 6: tile 256 x 256 x 32, fragments of 16 x 16 and 32 x 8; kernel 6 has two buffers."""
    bn, bk, wn = 256, 32, 128
    a, b = swizzled(bk, 2, 1), swizzled(bn, 3, 0)
    tiles = range(K // bk)
    buffer = F16 * (BM * bk + bk * bn) if kernel == 6 else 0
    first_b = F16 * BM * bk if kernel == 6 else 0
    arrays = ("smem", "smem") if kernel == 6 else ("sA", "sB")

    def fragment_a(half: int) -> Callable[..., int]:
        def at(t: int, k0: int, m: int) -> int:
            y, _, lane = warp(t)
            return k0 % 2 * buffer + a(64 * y + 16 * m + lane % 16, 16 * half + lane // 16 * 8)

        return at

    def fragment_b(t: int, k0: int, n: int) -> int:
        _, x, lane = warp(t)
        return k0 % 2 * buffer + first_b + b(lane, wn * x + 8 * n)

    accesses = [
        *both(bn, bk, 8, a, b, "reg[i] = src4", "] = reg[i];", arrays, (buffer, first_b)),
        Access("m8n8.x4.shared", "ldmatrix.x4", arrays[0], fragment_a(0), (tiles, range(4))),
        Access("m8n8.x4.shared", "ldmatrix.x4", arrays[0], fragment_a(1), (tiles, range(4))),
        Access("m8n8.x4.trans", "ldmatrix.x4.trans", arrays[1], fragment_b, (tiles, range(wn // 8))),
        *epilogue(
            wn,
            [("const half2 c = *reinterpret_cast", [0, 1])],
            [("*reinterpret_cast<half2 *>(&dst[corner", [0, 1])],
        ),
    ]
    return source(kernel, bn, bk, wn, accesses)


def source(kernel: int, bn: int, bk: int, wn: int, accesses: list[Access]) -> Source:
    values = {"M": M, "N": N, "K": K, "BM": BM, "BN": bn, "BK": bk, "WM": 64, "WN": wn}
    if kernel > 1:
        values["THREADS"] = THREADS
    return Source(f"hgemm_k{kernel}.cu", f"hgemm_k{kernel}", (64, 4), values, accesses)


PLAIN = rows_of(64), rows_of(128)
SWIZZLED = swizzled(64, 3, 0), swizzled(128, 3, 0)

SOURCES = (
    small(1, 1, *PLAIN, "dst[row * cols + col] = src[", "dst[row * cols + col] = src["),
    small(2, 8, *PLAIN, "dst4[row * COLS4 + col] = src4[", "dst4[row * COLS4 + col] = src4["),
    small(3, 8, *SWIZZLED, "= src4[row * src_stride4", "= src4[row * src_stride4"),
    small(4, 8, *SWIZZLED, "reg[i] = src4", "] = reg[i];"),
    large(5),
    large(6),
)
