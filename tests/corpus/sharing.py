"""The accesses of samples that exchange data through shared memory: sums, scans, transposes, sorts."""

from __future__ import annotations

from collections.abc import Callable

from tests.corpus.measure import Access, Source

LOAD, STORE = "ld.shared.b32", "st.shared.b32"
READ, WRITE = "ld.global.b32", "st.global.b32"
N = 1024
BLOCK = 256


def first(t: int) -> int | None:
    """Thread 0 alone, at the first element."""
    return 0 if t == 0 else None


def below(bound: Callable[[int], int], index: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    """Words of the threads below a bound that depends on the turn."""
    return lambda t, s: 4 * index(t, s) if t < bound(s) else None


def ends(result: str) -> list[Access]:
    """The result of a block, stored by thread 0."""
    return [Access(result, WRITE, "out", first)]


def halves(text: str, turns: tuple[int, ...], array: str = "sdata") -> list[Access]:
    """The threads below s add what lies s above."""
    return [
        Access(text, LOAD, array, below(lambda s: s, lambda t, s: t + s), (turns,)),
        Access(text, STORE, array, below(lambda s: s, lambda t, s: t), (turns,)),
    ]


def reduction_0() -> Source:
    turns = tuple(2**i for i in range(8))
    text = "sdata[tid] += sdata[tid + s];"

    def at(t: int, s: int) -> int | None:
        return 4 * t if t % (2 * s) == 0 else None

    def partner(t: int, s: int) -> int | None:
        return 4 * (t + s) if t % (2 * s) == 0 else None

    return Source("reduction_0.cu", "reduction_0", (BLOCK,), {"n": N}, [
        Access("? in[i]", READ, "in", lambda t: 4 * t),
        Access("sdata[tid] = (i < n)", STORE, "sdata", lambda t: 4 * t),
        Access(text, LOAD, "sdata", at, (turns,)),
        Access(text, LOAD, "sdata", partner, (turns,)),
        Access(text, STORE, "sdata", at, (turns,)),
        Access("= sdata[0]", LOAD, "sdata", first),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def reduction_1() -> Source:
    turns = tuple(2**i for i in range(8))
    text = "sdata[index] += sdata[index + s];"

    def at(t: int, s: int) -> int | None:
        return 8 * s * t if 2 * s * t < BLOCK else None

    def partner(t: int, s: int) -> int | None:
        return 8 * s * t + 4 * s if 2 * s * t < BLOCK else None

    return Source("reduction_1.cu", "reduction_1", (BLOCK,), {"n": N}, [
        Access("? in[i]", READ, "in", lambda t: 4 * t),
        Access("sdata[tid] = (i < n)", STORE, "sdata", lambda t: 4 * t),
        Access(text, LOAD, "sdata", at, (turns,)),
        Access(text, LOAD, "sdata", partner, (turns,)),
        Access(text, STORE, "sdata", at, (turns,)),
        Access("= sdata[0]", LOAD, "sdata", first),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def reduction_2() -> Source:
    turns = (128, 64, 32, 16, 8, 4, 2, 1)
    text = "sdata[tid] += sdata[tid + s];"
    return Source("reduction_2.cu", "reduction_2", (BLOCK,), {"n": N}, [
        Access("? in[i]", READ, "in", lambda t: 4 * t),
        Access("sdata[tid] = (i < n)", STORE, "sdata", lambda t: 4 * t),
        Access(text, LOAD, "sdata", below(lambda s: s, lambda t, s: t), (turns,)),
        *halves(text, turns),
        Access("= sdata[0]", LOAD, "sdata", first),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def loads(second: str) -> list[Access]:
    """Two elements per thread, a block apart, their sum stored."""
    return [
        Access("? in[i]", READ, "in", lambda t: 4 * t),
        Access(second, READ, "in", lambda t: 4 * (t + BLOCK)),
        Access("sdata[tid] = mine;", STORE, "sdata", lambda t: 4 * t),
    ]


def last_warp(text: str) -> Access:
    """The first warp takes over the second's sums."""
    return Access(text, LOAD, "sdata", lambda t: 4 * (t + 32) if t < 32 else None)


def reduction_3() -> Source:
    return Source("reduction_3.cu", "reduction_3", (BLOCK,), {"n": N}, [
        *loads("mine += in[i + blockDim.x];"),
        *halves("= mine + sdata[tid + s];", (128, 64, 32, 16, 8, 4, 2, 1)),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def reduction_4() -> Source:
    return Source("reduction_4.cu", "reduction_4", (BLOCK,), {"n": N}, [
        *loads("mine += in[i + blockDim.x];"),
        *halves("= mine + sdata[tid + s];", (128, 64)),
        last_warp("mine += sdata[tid + 32];"),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def reduction_5() -> Source:
    return Source("reduction_5.cu", "reduction_5", (BLOCK,), {"n": N, "blockSize": BLOCK}, [
        *loads("mine += in[i + blockSize];"),
        *halves("= mine + sdata[tid + 256];", ()),
        *halves("= mine + sdata[tid + 128];", (128,)),
        *halves("= mine + sdata[tid + 64];", (64,)),
        last_warp("mine += sdata[tid + 32];"),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def reduction_6() -> Source:
    values = {"n": 65536, "blockSize": BLOCK, "isPow2": 1, "gridDim.x": 64}
    turns = range(0, 65536, 2 * BLOCK * 64)
    return Source("reduction_6.cu", "reduction_6", (BLOCK,), values, [
        Access("mine += in[i];", READ, "in", lambda t, i: 4 * (i + t), (turns,)),
        Access("mine += in[i + blockSize];", READ, "in", lambda t, i: 4 * (i + t + BLOCK), (turns,)),
        Access("sdata[tid] = mine;", STORE, "sdata", lambda t: 4 * t),
        *halves("= mine + sdata[tid + s];", (128, 64)),
        last_warp("mine += sdata[tid + 32];"),
        *ends("out[blockIdx.x] ="),
    ])  # fmt: skip


def scan() -> Source:
    n = 512
    up, down = tuple(256 >> i for i in range(9)), tuple(1 << i for i in range(9))

    def padded(i: int) -> int:
        return 4 * (i + i // 32)

    def left(t: int, d: int) -> int | None:
        return padded(n // 2 // d * (2 * t + 1) - 1) if t < d else None

    def right(t: int, d: int) -> int | None:
        return padded(n // 2 // d * (2 * t + 2) - 1) if t < d else None

    return Source("scan.cu", "scan", (BLOCK,), {"n": n}, [
        Access("= g_idata[ai];", READ, "g_idata", lambda t: 4 * t),
        Access("= g_idata[ai];", STORE, "temp", padded),
        Access("= g_idata[bi];", READ, "g_idata", lambda t: 4 * (t + 256)),
        Access("= g_idata[bi];", STORE, "temp", lambda t: padded(t + 256)),
        Access("temp[right] += temp[left];", LOAD, "temp", right, (up,)),
        Access("temp[right] += temp[left];", LOAD, "temp", left, (up,)),
        Access("temp[right] += temp[left];", STORE, "temp", right, (up,)),
        Access("temp[n - 1 +", STORE, "temp", lambda t: padded(n - 1) if t == 0 else None),
        Access("float t = temp[left];", LOAD, "temp", left, (down,)),
        Access("temp[left] = temp[right];", LOAD, "temp", right, (down,)),
        Access("temp[left] = temp[right];", STORE, "temp", left, (down,)),
        Access("temp[right] += t;", LOAD, "temp", right, (down,)),
        Access("temp[right] += t;", STORE, "temp", right, (down,)),
        Access("g_odata[ai] =", LOAD, "temp", padded),
        Access("g_odata[ai] =", WRITE, "g_odata", lambda t: 4 * t),
        Access("g_odata[bi] =", LOAD, "temp", lambda t: padded(t + 256)),
        Access("g_odata[bi] =", WRITE, "g_odata", lambda t: 4 * (t + 256)),
    ])  # fmt: skip


def histogram() -> Source:
    threads, bins = 192, 256

    def bin_of(t: int, b: int) -> int | None:
        return b + t if b + t < bins else None

    def counter(t: int, b: int, i: int) -> int | None:
        found = bin_of(t, b)
        return None if found is None else 4 * (found + i * bins)

    def partial(t: int, b: int) -> int | None:
        found = bin_of(t, b)
        return None if found is None else 4 * found

    turns = range(0, bins, threads)
    return Source("histogram.cu", "histogram", (threads,), {"count": 1152, "gridDim.x": 2}, [
        Access("WARP_SIZE] = 0;", STORE, "hist", lambda t, i: 4 * (t + i * threads), (range(8),)),
        Access("uint word = data[pos];", READ, "data", lambda t, p: 4 * (p + t), (range(0, 1152, 384),)),
        Access("atomicAdd(warp_hist + value", "red.shared.u32", "hist", why="the index is read from memory"),
        Access("sum += hist[bin + i * BINS];", LOAD, "hist", counter, (turns, range(6))),
        Access("partial[blockIdx.x * BINS + bin]", WRITE, "partial", partial, (turns,)),
    ])  # fmt: skip


def transposes() -> tuple[Source, ...]:
    width = 256
    rows = range(0, 32, 8)

    def matrix(row: Callable[[int], int], col: Callable[[int], int]) -> Callable[[int, int], int]:
        return lambda t, j: 4 * ((row(t) + j) * width + col(t))

    def x(t: int) -> int:
        return t % 32

    def y(t: int) -> int:
        return t // 32

    def tile(pitch: int, text: str, read: str) -> list[Access]:
        return [
            Access(text, READ, "idata", matrix(y, x), (rows,)),
            Access(text, STORE, "tile", lambda t, j: 4 * ((y(t) + j) * pitch + x(t)), (rows,)),
            Access(read, LOAD, "tile", lambda t, j: 4 * (x(t) * pitch + y(t) + j), (rows,)),
            Access(read, WRITE, "odata", matrix(y, x), (rows,)),
        ]

    text, read = "tile[threadIdx.y + j][threadIdx.x] =", "= tile[threadIdx.x][threadIdx.y + j];"
    naive = "odata[x * width + (y + j)] ="
    return (
        Source("transpose_naive.cu", "transpose_naive", (32, 8), {"gridDim.x": 8}, [
            Access(naive, READ, "idata", matrix(y, x), (rows,)),
            Access(naive, WRITE, "odata", lambda t, j: 4 * (x(t) * width + y(t) + j), (rows,)),
        ]),
        Source("transpose_coalesced.cu", "transpose_coalesced", (32, 8), {"gridDim.x": 8},
               tile(32, text, read)),
        Source(
            "transpose_padded.cu", "transpose_padded", (32, 8), {"width": width, "height": width},
            tile(33, text, read),
        ),
    )  # fmt: skip


def bitonic_sort() -> Source:
    length, threads = 1024, 512
    merges = tuple((size, stride) for size in powers(2, length) for stride in reversed(powers(1, size)))
    last = tuple(reversed(powers(1, length)))

    def low(t: int, stride: int) -> int:
        return 4 * (2 * t - t % stride)

    strides = tuple(stride for _, stride in merges) + last
    why = "which lanes exchange depends on the data"
    accesses = []
    for name in ("key", "val"):
        for half, plus in ((0, ""), (threads, " + LIMIT / 2")):
            at = f"[threadIdx.x{plus}]"
            into, back = f"s_{name}{at} = src", f"+ threadIdx.x{plus}] = s_{name}"
            accesses += [
                Access(into, READ, f"src_{name}", lambda t, half=half: 4 * (t + half)),
                Access(into, STORE, f"s_{name}", lambda t, half=half: 4 * (t + half)),
                Access(back, LOAD, f"s_{name}", lambda t, half=half: 4 * (t + half)),
                Access(back, WRITE, f"dst_{name}", lambda t, half=half: 4 * (t + half)),
            ]
    compare = "if ((key_a > key_b) == direction)"
    accesses += [
        Access(compare, LOAD, "s_key", low, (strides,)),
        Access(compare, LOAD, "s_key", lambda t, stride: low(t, stride) + 4 * stride, (strides,)),
        Access("unsigned t = key_a;", LOAD, "s_key", why=why),
        Access(" key_a = key_b;", LOAD, "s_key", why=why),
        Access(" key_a = key_b;", STORE, "s_key", why=why),
        Access(" key_b = t;", STORE, "s_key", why=why),
        Access(" t = val_a;", LOAD, "s_val", why=why),
        Access(" val_a = val_b;", LOAD, "s_val", why=why),
        Access(" val_a = val_b;", STORE, "s_val", why=why),
        Access(" val_b = t;", STORE, "s_val", why=why),
    ]
    return Source("bitonic_sort.cu", "bitonic_sort", (threads,), {"length": length, "direction": 1}, accesses)


def powers(start: int, stop: int) -> tuple[int, ...]:
    """start, 2 start, 4 start, ... below stop."""
    return () if start >= stop else (start, *powers(2 * start, stop))


def fft() -> Source:
    points = 512
    turns = powers(1, points)

    def reverse(t: int) -> int:
        return int(f"{t:09b}"[::-1], 2)

    def low(t: int, half: int) -> int:
        return 4 * (2 * t - t % half)

    def high(t: int, half: int) -> int:
        return low(t, half) + 4 * half

    accesses = []
    for part, word, name in (("x", 0, "re"), ("y", 4, "im")):
        for half, at in ((0, "t"), (256, "t + 256")):
            text = f"signal[{at}].{part};"
            accesses += [
                Access(text, READ, "data", lambda t, half=half, word=word: 8 * (t + half) + word),
                Access(text, STORE, name, lambda t, half=half: 4 * reverse(t + half)),
                Access(f"signal[{at}] = make", LOAD, name, lambda t, half=half: 4 * (t + half)),
            ]
        xr, lr = ("xr", "lr") if name == "re" else ("xi", "li")
        accesses += [
            Access(f"{xr} = {name}[high]", LOAD, name, high, (turns,)),
            Access(f"{lr} = {name}[low]", LOAD, name, low, (turns,)),
            Access(f" {name}[high] = ", STORE, name, high, (turns,)),
            Access(f" {name}[low] = ", STORE, name, low, (turns,)),
        ]
    for half, at in ((0, "t"), (256, "t + 256")):
        text = f"signal[{at}] = make"
        accesses.append(Access(text, "st.global.b64", "data", lambda t, half=half: 8 * (t + half)))
    return Source("fft.cu", "fft", (256,), {}, accesses)


SOURCES = (
    reduction_0(), reduction_1(), reduction_2(), reduction_3(), reduction_4(), reduction_5(), reduction_6(),
    scan(), histogram(), *transposes(), bitonic_sort(), fft(),
)  # fmt: skip
