"""A note is on rows whose accesses a compiler may join, with the count of the joined form; on no others."""

from __future__ import annotations

from layoutalg.source import read_kernel
from tests.sweeps import each

VECTOR = "__shared__ float4 v[256]; v[t] = x[t]; __syncthreads(); const float* c = (const float*)&v[t]; "
PLAIN = "__shared__ float s[1024]; for (int i = t; i < 1024; i += 32) s[i] = o[i]; __syncthreads(); "
PADDED = "__shared__ float s[2048]; for (int i = t; i < 2048; i += 32) s[i] = o[i]; __syncthreads(); "

JOINED = (
    (f"{VECTOR} for (int k = 0; k < 4; k++) a += c[k];", "one ld.shared.v4.b32 of 4 wavefronts"),
    (f"{VECTOR} a = c[0] + c[1] + c[2] + c[3];", "one ld.shared.v4.b32 of 4 wavefronts"),
    (f"{VECTOR} a = c[0] + c[1];", "one ld.shared.v2.b32 of 4 wavefronts"),
    (
        f"{PLAIN} a = s[4 * t] + s[4 * t + 1] + s[4 * t + 2] + s[4 * t + 3];",
        "one ld.shared.v4.b32 of 4 wavefronts",
    ),
    (f"{PADDED} for (int k = 0; k < 16; k++) a += s[36 * t + k];", "4 ld.shared.v4.b32 of 16 wavefronts"),
)
NOT = (
    f"{VECTOR} a = c[0] + c[2];",
    f"{VECTOR} a = c[0]; __syncthreads(); a += c[1];",
    f"{VECTOR} a = c[0]; v[t] = x[t]; a += c[1];",
    f"{VECTOR} for (int k = 0; k < 4; k++) {{ a += c[k]; __syncwarp(); }}",
    f"{PLAIN} for (int k = 0; k < 5; k++) a += s[5 * t + k];",
    f"{PLAIN} for (int k = 0; k < 16; k++) a += s[32 * t + (k ^ 1)];",
    "extern __shared__ float e[]; a = e[4 * t] + e[4 * t + 1] + e[4 * t + 2] + e[4 * t + 3];",
    "volatile __shared__ float q[256]; a = q[4 * t] + q[4 * t + 1] + q[4 * t + 2] + q[4 * t + 3];",
)


def notes(body: str) -> set[str]:
    head = "__global__ void k(const float4* x, float* o) { int t = threadIdx.x; float a = 0; "
    return {
        a.note for a in read_kernel(f"{head}{body} o[t] = a; }}", 32).memory if a.note and a.space == "shared"
    }


@each(("body", "said"), JOINED)
def test_neighbours_that_may_be_joined_have_a_note(body: str, said: str) -> None:
    assert notes(body) == {f"counted as written; a compiler may join these into {said}"}


@each("body", NOT)
def test_what_is_not_proved_has_no_note(body: str) -> None:
    assert notes(body) == set()
