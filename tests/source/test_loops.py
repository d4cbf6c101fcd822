"""Loops: what is read once for all turns is what each turn does, also where numbers wrap or are swapped."""

from __future__ import annotations

from layoutalg.source import read_kernel
from tests.sweeps import each

HEAD = "__global__ void k(float* p, int n) { __shared__ float s[4096], r[4096]; const int t = threadIdx.x; "

CASES = (
    # the loop, and (instructions, total) of all accesses of 32 threads with n = 40
    ("for (unsigned i = 7; i > 0; --i) s[t + i] = 0;", 7, 7),
    ("unsigned u = 0; for (int i = 0; i < 6; ++i) { s[t * (u + 1)] = 0; u = (u - 1) % 3; }", 6, 6),
    ("unsigned u = 1; for (int i = 0; i < 6; ++i) { s[t * (u % 5)] = 0; u = u - 3; }", 6, 10),
    ("int u = -7; for (int i = 0; i < 6; ++i) { s[t * (u / 2 + 3)] = 0; ++u; }", 6, 8),
    ("for (int i = t; i < n; i += 32) s[i] = 0;", 2, 2),
    ("for (int i = t; i + 1 < n; i += 16) s[i] = 0;", 3, 3),
    ("for (int d = 16; d > 0; d >>= 1) if (t < d) s[t + d] = 0;", 5, 5),
    ("for (int d = 1; d < 64; d *= 2) s[t * d] = 0;", 6, 63),
    ("int i = 0; while (i != 12) { s[t * i] = 0; i += 3; }", 4, 5),
    ("int i = 5; do { s[t + i] = 0; } while (--i > 0);", 5, 5),
    (
        "float *a = s, *b = r; for (int i = 0; i < n; ++i) { a[t * 2] = 0; float* c = a; a = b; b = c; }",
        40,
        80,
    ),
    ("int o = 32; float* a = s; for (int i = 0; i < n; ++i) { a[t] = 0; a += o; o = -o; }", 40, 40),
    ("int x = t; for (int i = 0; i < 8; ++i) { s[x * 32] = 0; x ^= 33; }", 8, 256),
    ("for (int i = 0; i < 9; ++i) { if (i == t) continue; if (i == 4) break; s[t] = 0; }", 8, 8),
    ("for (int i = 0; i < 4; ++i) for (int j = i; j < 4; ++j) s[t + i * j] = 0;", 10, 10),
    ("int m[4]; for (int i = 0; i < 4; ++i) m[i] = i * t; for (int i = 0; i < 4; ++i) s[m[i]] = 0;", 4, 5),
    ("int i = 0; for (;;) { s[t] = 0; if (++i == 10) break; }", 10, 10),
    ("for (int i = 0; i < 3; ++i) { if (t == i) return; s[t] = 0; }", 3, 3),
)


@each(("loop", "instructions", "total"), CASES, sample=1)
def test_a_loop_is_its_turns(loop: str, instructions: int, total: int) -> None:
    reading = read_kernel(HEAD + loop + " }", 32, sets={"n": 40})
    assert all(a.read for a in reading.memory), [a.why for a in reading.memory]
    assert sum(a.instructions or 0 for a in reading.memory) == instructions
    assert sum(a.total or 0 for a in reading.memory) == total


def test_a_loop_that_data_ends_is_told() -> None:
    reading = read_kernel(HEAD + "while (p[0] > 0) s[t] = 1; }", 32, sets={"n": 1})
    assert [a.read for a in reading.memory] == [False, False]
