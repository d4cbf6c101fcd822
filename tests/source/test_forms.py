"""Forms of CUDA C++: what is read of each is what its threads do when they run; the rest says it is not read.

The texts are in forms.cu.  A line that is listed as not read is never wrong; NOT_READ are the forms that have
one.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from layoutalg.source import read_kernel
from tests.source.lane_oracle import SHARED, Case, Told, Touched, ran, readings, told
from tests.sweeps import each, spread
from tests.tiers import first_tier

FILE = Path(__file__).with_name("forms.cu")
SAMPLE = 12


@functools.cache
def forms() -> dict[str, Case]:
    found = {}
    for chunk in re.split(r"^// --- ", FILE.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, _, text = chunk.partition("\n")
        before, _, body = ("\n" + text).rpartition("\n==\n")
        head = f"__global__ void k(int n) {{\n{SHARED} const int t = threadIdx.x;\n"
        found[name] = Case(f"{before}\n{head}{body}}}")
    return found


@functools.cache
def answers() -> dict[str, tuple[Told, Touched]]:
    """All forms, in the first tier of the sample: they are read as one text."""
    names = spread(list(forms()), SAMPLE) if first_tier() else list(forms())
    cases = [forms()[name] for name in names]
    return dict(zip(names, zip(told(cases), ran(cases), strict=True), strict=True))


NOT_READ = {
    "pointer_chosen_by_a_condition", "jump_back", "jump_over", "jump_out_of_two_loops", "byte_of_an_int",
    "union_members", "lambda_captures", "range_for", "structured_binding", "recursion",
    "null_pointer_by_a_condition", "member_with_a_value_of_its_own", "reference_member",
    "float_decides_in_a_loop", "size_t_below_zero", "conditional_without_a_middle",
    "float_read_as_int", "braces_left_out", "bases",
    "pointer_that_changes_its_array_in_a_loop",
    "base_member_hidden", "anonymous_union", "destructor", "virtual_call", "function_pointer_of_a_table",
    "case_range", "case_inside_a_block", "lambda_that_calls_itself", "string", "bit_fields_by_list",
}  # fmt: skip
"""Forms of which some line is said not to be read."""


@each("name", re.findall(r"^// --- (\w+)$", FILE.read_text(encoding="utf-8"), re.M), sample=SAMPLE)
def test_a_form_is_followed_or_said_not_to_be(name: str) -> None:
    read, run = answers()[name]
    assert not read.wrong(run), forms()[name].text
    assert bool(read.unread) == (name in NOT_READ), read.unread


REPRODUCERS = (
    # [instructions, wavefronts] of all accesses, None where one of them is not read
    ("int a = 3, b = 1; if (t > 20 && (a = 2 * t)) b = a; s[a] = 1;", [2, 3]),
    ("int a = t, b = 2 * t; int* p = t < 32 ? &a : &b; *p = 5; s[a * 32] = 1;", None),
    ("int a = t, b = 2 * t; (t < 32 ? a : b) = 9; s[a * 32] = 1;", [2, 33]),
    ("int i = 0; again: s[t] = 1; if (++i < 3) goto again;", None),
    ("if (n > 3) goto done; s[2 * t] = 1; done:;", None),
    ("struct B { unsigned a : 3; } x; x.a = t; s[x.a * 32] = 1;", [2, 16]),
    ("int* p = &n; if (p != nullptr) s[t] = 1; if (p == nullptr) s[32 * t] = 1;", [2, 2]),
    ("unsigned char c = 250; c += t; s[c * 32] = 1;", [2, 64]),
    ("int a = t; a = max(a++, 2 * a); s[a] = 1;", None),
    ("int a = t, b = 3; int c = max(a++, b++); s[c + a] = 1;", [2, 4]),
    ("int q = (2 * t - 64) % 7; s[(q + 6) * 32] = 1;", [2, 14]),
    ("s[32 * (__brev(t) >> 27)] = 1;", [2, 64]),
    ("s[32 * abs(t - 8)] = 1;", [2, 56]),
    ("s[__umul24(t, 3)] = 1;", [2, 2]),
    ("if (t == 63) s[t] = 1; if (t >= 63) s[t] = 1; if (t < 1) s[t] = 1;", [3, 3]),
    ("if (t > 3) s[t] = 1; else s[2 * t] = 1;", [3, 3]),
)


def test_counts_that_were_wrong() -> None:
    for (body, wanted), memory in zip(REPRODUCERS, readings([b for b, _ in REPRODUCERS]), strict=True):
        assert all(a.read for a in memory) == (wanted is not None), (body, [a.why for a in memory])
        if wanted is not None:
            assert [sum(a.instructions or 0 for a in memory), sum(a.total or 0 for a in memory)] == wanted, (
                body
            )


@each(("arch", "wanted"), [("sm_80", 800), ("sm_90", 900), ("sm_100", 1000), ("sm_120", 1200)])
def test_the_architecture_decides_what_the_preprocessor_keeps(arch: str, wanted: int) -> None:
    body = f"#if __CUDA_ARCH__ == {wanted}\ns[t] = 1;\n#else\ns[32 * t] = 1;\n#endif"
    assert [(a.line, a.total) for a in readings([body], arch=arch)[0] if a.read] == [(3, 2)]


BROKEN = (
    # a statement with an error, and whether s[a * t] behind it is read, where a is 3
    ("a = WIDTH;", False),
    ("if (t < 4) { a += WIDTH; }", False),
    ("change(&a, WIDTH);", False),
    ("m[1] = WIDTH + a;", True),
    ("g[a] = WIDTH;", True),
    ("if (t < WIDTH) return;", False),
    ("float x = WIDTH * a;", True),
)


def test_what_a_statement_with_an_error_may_set_is_lost() -> None:
    bodies = [f"int a = 3, m[2];\n{statement}\ns[a * t] = 1;" for statement, _ in BROKEN]
    for (statement, kept), memory in zip(BROKEN, readings(bodies), strict=True):
        assert memory[-1].read == kept, statement


def test_functions_of_one_name_in_two_places_are_told_apart() -> None:
    """What stands in a function of the same name that is not called is no access that was left out."""
    text = (
        f"namespace one {{ __device__ int f(int x) {{ return x; }}\n__global__ void k() {{ {SHARED}\n"
        f"s[f(threadIdx.x)] = 1; }} }}\nnamespace two {{ __device__ int f(int x) {{ return 2 * x; }}\n"
        f"__global__ void k() {{ {SHARED}\ns[f(threadIdx.x)] = 1; }} }}"
    )
    found = read_kernel(text, 32)
    assert [(a.line, a.total, a.read) for a in found.memory] == [(3, 1, True), (6, 2, True)]


ASM = (
    # an asm statement, and the wavefronts of a store to s[v] behind it, None where v is not known
    ('asm("mov.u32 %0, %1;" : "=r"(v) : "r"(2 * t));', 4),
    ('asm("{ mov.u32 %0, %1; add.u32 %0, %0, 1; }" : "=r"(v) : "r"(t));', 2),
    ('asm("add.u32 %0, %0, 1;" : "+r"(v));', 4),
    ('asm("{ .reg .b32 a; shl.b32 a, %1, 3; and.b32 %0, a, 0x3f; }" : "=r"(v) : "r"(t));', 4),
    ('asm("add.sat.s32 %0, %1, 1;" : "=r"(v) : "r"(t));', None),
    ('asm("mov.u32 %0, %%laneid;" : "=r"(v));', 2),
    ('asm("{ .reg .u32 a; mov.u32 a, %%tid.x; xor.b32 %0, a, %1; }" : "=r"(v) : "r"(t & ~1));', 2),
    ('asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, -1;" : "=r"(v) : "r"(t * 32));', 2),
    ('asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, -1;" : "=r"(v) : "r"(t * 4));', 8),
    ('asm volatile("shfl.sync.down.b32 %0, %1, 8, 0x181f, -1;" : "=r"(v) : "r"(t / 8 * 32));', 8),
    ('asm volatile("shfl.sync.idx.b32 %0, %1, 0, %2, -1;" : "=r"(v) : "r"(t), "r"(n));', 2),
    ('asm volatile("shfl.sync.idx.b32 %0, %1, 0, %2, -1;" : "=r"(v) : "r"(t), "r"(g[t]));', None),
    ('asm("@p mov.u32 %0, %1;" : "+r"(v) : "r"(t));', None),
    ('asm("cvt.u8.u32 %0, %1;" : "=r"(v) : "r"(t));', None),
    ('asm("bra out; mov.u32 %0, %1; out:" : "=r"(v) : "r"(2 * t));', None),
    ('asm("bar.sync 0;" : "+r"(v));', 4),
    ('asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p mov.u32 %0, %2; }" : "+r"(v) : "r"(1), "r"(t));', None),
)


def test_what_an_asm_statement_leaves() -> None:
    bodies = [f"int v = 2 * t; {statement} s[v] = 1;" for statement, _ in ASM]
    for (statement, wanted), memory in zip(ASM, readings(bodies), strict=True):
        stores = [a for a in memory if a.op.startswith("st")]
        assert [a.total for a in stores] == [wanted], statement


STORE = 'unsigned b = (unsigned)__cvta_generic_to_shared(s + t * 32); asm volatile("{ .reg .pred p; '
PREDICATES = (
    # a predicate, the branch that a store of 32 ways is under, and (instructions, wavefronts)
    ("setp.ne.s32 p, %1, 0; @p", "t & 1", (2, 32)),
    ("setp.ne.s32 p, %1, 0; @!p", "t < 40", (1, 24)),
    ("setp.ne.b32 p, %1, 0x0; @p", "0", (0, 0)),
    ("setp.ne.s32 p, %1, 3; @p", "t", None),
    ("setp.lt.s32 p, %1, 0; @p", "t", None),
)


def test_a_predicate_of_an_asm_statement_is_a_condition() -> None:
    bodies = [
        f'{STORE}{asm} st.shared.u32 [%0], %1; }}" :: "r"(b), "r"({value}));' for asm, value, _ in PREDICATES
    ]
    for (asm, _, wanted), memory in zip(PREDICATES, readings(bodies), strict=True):
        assert all(a.read for a in memory) == (wanted is not None), asm
        if wanted is not None:
            assert (sum(a.instructions or 0 for a in memory), sum(a.total or 0 for a in memory)) == wanted, (
                asm
            )


def test_what_all_lanes_are_told_is_alike_in_them() -> None:
    """One word for all lanes is one wavefront; each lane of an atomic is told another number."""
    given = ("__ballot_sync(~0u, t & 1)", "__shfl_sync(~0u, g[t], 3)", "__syncthreads_count(t & 1)",
             "__syncthreads_or(t)", "g[n]", "atomicAdd(&s[0], 1)", "g[t]",
             "__shfl_sync(1 << t, g[t], 3)")  # fmt: skip
    found = readings([f"int v = {v};\ns[v] = 1;" for v in given])
    assert [memory[-1].read for memory in found] == [True] * 5 + [False] * 3
    assert all(memory[-1].total == memory[-1].instructions == 2 for memory in found[:5])


def test_numbers_that_are_loaded_are_others_each_time() -> None:
    """A difference of two loads is never taken to be zero, whatever is stored in between, or is not."""
    bodies = (
        "int a = g[n];\ng[n] = n;\nint b = g[n];\nif (a == b) s[t] = 1; else s[32 * t] = 1;",
        "int a = 0;\nfor (int i = 0; i < 4; ++i) {\nint b = g[n];\nif (a != b) s[32 * t] = 1;\na = b;\n}",
        "volatile int* v = g;\ns[v[n]] = 1;",
        "int* p = *(int**)(g + n);\nif (p) p[t] = 1;",
        "int x = 1; int* p = &x; *(int**)g = p;\np = *(int**)(g + n); p[0] = 2;\ns[32 * t] = 1;",
    )
    both, turns, volatile, pointer, own = readings(bodies)
    assert [(a.ways, a.instructions, a.depends) for a in both if a.array == "s"] == [(1, 2, ()), (32, 2, ())]
    assert [a.ways for a in turns if a.array == "s"] == [32]
    assert [a.bounds for a in volatile if a.array == "s"] == [(1, 32)]
    assert [(a.array, a.efficiency) for a in pointer if a.op.startswith("st")] == [("*g", 1.0)]
    assert not any(a.read for a in own if a.op == "st.global.b32" and a.array == "*g")
