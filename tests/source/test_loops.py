"""Loops, and rows that a compiler may join: what is read once for all turns is what each turn does."""

from __future__ import annotations

import pytest

from layoutalg.source import SourceAccess
from tests.source.lane_oracle import readings
from tests.sweeps import each

DEEP = "".join(f"for (int {name} = 0; {name} < 16; ++{name}) " for name in "cdef")
DEEP_TURNS = 40 * 16**4
LOOPS = (
    # the loop, and (instructions, total) of all accesses of 32 threads with n = 40
    ("for (unsigned i = 7; i > 0; --i) s[t + i] = 0;", 7, 7),
    ("unsigned u = 0; for (int i = 0; i < 6; ++i) { s[t * (u + 1)] = 0; u = (u - 1) % 3; }", 6, 6),
    ("unsigned u = 1; for (int i = 0; i < 6; ++i) { s[t * (u % 5)] = 0; u = u - 3; }", 6, 10),
    ("int u = -7; for (int i = 0; i < 6; ++i) { s[t * (u / 2 + 3)] = 0; ++u; }", 6, 8),
    ("for (int i = t; i < n; i += 32) s[i] = 0;", 2, 2),
    ("for (int d = 16; d > 0; d >>= 1) if (t < d) s[t + d] = 0;", 5, 5),
    ("for (int d = 1; d < 64; d *= 2) s[t * d] = 0;", 6, 63),
    ("int *a = s, *b = r; for (int i = 0; i < n; ++i) { a[t * 2] = 0; int* c = a; a = b; b = c; }", 40, 80),
    ("int o = 32; int* a = s; for (int i = 0; i < n; ++i) { a[t] = 0; a += o; o = -o; }", 40, 40),
    ("int* a = s + t; for (int i = 0; i < n; ++i) { a[i * 31] = 0; a += 1; }", 40, 40),
    ("int x = t; for (int i = 0; i < 8; ++i) { s[x * 32] = 0; x ^= 33; }", 8, 256),
    ("for (int i = 0; i < 4; ++i) for (int j = i; j < 4; ++j) s[t + i * j] = 0;", 10, 10),
    ("int m[4]; for (int i = 0; i < 4; ++i) m[i] = i * t; for (int i = 0; i < 4; ++i) s[m[i]] = 0;", 4, 5),
    ("int x; for (int i = 0; i < 4; ++i) { if (i == 2) x = 2 * t * (i - 1); if (i > 1) s[x] = 0; }", 2, 4),
    ("int x; for (int i = 0; i < n; ++i) x = t * (i - 35); s[x] = 0;", 1, 4),
    ("int x = g[t]; for (int i = 0; i < 4; ++i) x = t * (i + 1); s[x] = 0;", 2, 8),
    ("for (int i = 0; i < 3; ++i) { if (t == i) return; s[t] = 0; }", 3, 3),
    (f"int *a = s, *b = r; for (int i = 0; i < n; ++i) {{ int* h = a; a = b; b = h; {DEEP} s[t + c] = 0; }}",
     DEEP_TURNS, DEEP_TURNS),
    ("int c = 0; for (int i = 0; i < n; ++i) for (int j = 0; j < 4; ++j) { if (j == 2) c++; s[c * t] = 0; }",
     160, 514),
    ("while (g[0] > 0) s[t] = 1;", None, None),
)  # fmt: skip
VECTOR = "__shared__ float4 v[256]; v[t] = x[t]; __syncthreads(); const float* c = (const float*)&v[t]; "
PLAIN = "__shared__ float f[1024]; for (int i = t; i < 1024; i += 32) f[i] = o[i]; __syncthreads(); "
PADDED = PLAIN.replace("1024", "2048")
JOINED = (
    (f"{VECTOR} for (int k = 0; k < 4; k++) a += c[k];", "one ld.shared.v4.b32 of 4 wavefronts"),
    (f"{VECTOR} a = c[0] + c[1] + c[2] + c[3];", "one ld.shared.v4.b32 of 4 wavefronts"),
    (f"{VECTOR} a = c[0] + c[1];", "one ld.shared.v2.b32 of 4 wavefronts"),
    (
        f"{PLAIN} a = f[4 * t] + f[4 * t + 1] + f[4 * t + 2] + f[4 * t + 3];",
        "one ld.shared.v4.b32 of 4 wavefronts",
    ),
    (f"{PADDED} for (int k = 0; k < 16; k++) a += f[36 * t + k];", "4 ld.shared.v4.b32 of 16 wavefronts"),
)
NOT_JOINED = (
    f"{VECTOR} a = c[0] + c[2];",
    f"{VECTOR} a = c[0]; __syncthreads(); a += c[1];",
    f"{VECTOR} a = c[0]; v[t] = x[t]; a += c[1];",
    f"{VECTOR} for (int k = 0; k < 4; k++) {{ a += c[k]; __syncwarp(); }}",
    f"{PLAIN} for (int k = 0; k < 5; k++) a += f[5 * t + k];",
    f"{PLAIN} for (int k = 0; k < 16; k++) a += f[32 * t + (k ^ 1)];",
    "extern __shared__ float e[]; a = e[4 * t] + e[4 * t + 1] + e[4 * t + 2] + e[4 * t + 3];",
    "volatile __shared__ float q[256]; a = q[4 * t] + q[4 * t + 1] + q[4 * t + 2] + q[4 * t + 3];",
)
START = "const float4* x = (const float4*)g; float* o = (float*)g; float a = 0; "


@pytest.fixture(scope="module")
def read() -> list[list[SourceAccess]]:
    """The accesses of all loops, and of what is joined or not, read as one text."""
    bodies = [f"__shared__ int r[4096]; {loop}" for loop, _, _ in LOOPS]
    bodies += [f"{START}{body} o[t] = a;" for body in (*(body for body, _ in JOINED), *NOT_JOINED)]
    return readings(bodies, block=32, n=40)


@each("number", range(len(LOOPS)))
def test_a_loop_is_its_turns(number: int, read: list[list[SourceAccess]]) -> None:
    """And is not read where data ends it."""
    body, instructions, total = LOOPS[number]
    found = read[number]
    assert {a.read for a in found} == {instructions is not None}, [a.why for a in found]
    if instructions is not None:
        assert sum(a.instructions or 0 for a in found) == instructions, body
        assert sum(a.total or 0 for a in found) == total, body


@each("number", range(len(JOINED) + len(NOT_JOINED)))
def test_what_is_not_proved_has_no_note(number: int, read: list[list[SourceAccess]]) -> None:
    """And what a compiler may join has one, with the count of the joined form."""
    notes = {a.note for a in read[len(LOOPS) + number] if a.note and a.space == "shared"}
    said = (
        f"counted as written; a compiler probably joins these into {JOINED[number][1]}"
        if number < len(JOINED)
        else ""
    )
    assert notes == {said} - {""}
