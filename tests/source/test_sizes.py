"""Numbers that are not given: what is said of an access without them holds with each value of them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.source import SourceAccess, read_kernel
from tests.source.random_kernels import Tree, const, trees
from tests.sweeps import each

VALUES = (-3, 0, 1, 2, 5, 8, 31, 32, 33, 64, 100, 1000, 1024)
NAMES = ("t", "t", "n", "m", "i")


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A loop whose turns a size may decide, a condition, a store to shared and a load of global memory."""
    first, bound = draw(st.sampled_from(("0", "t", "m"))), draw(st.sampled_from(("n", "n / 4", "n + m", "8")))
    step = draw(st.sampled_from(("1", "3", "32", "gridDim.x * 32")))
    left = draw(trees(("t", "n", "i"), 1))
    right = draw(st.sampled_from((Tree("var", ("n",)), Tree("var", ("m",)), const(20))))
    condition = f"{left.text} {draw(st.sampled_from(('<', '>=', '==', '!=')))} {right.text}"
    shift = draw(st.sampled_from(("", "32 * n + ", "n * m + ", "(n / 3) * 64 + ")))
    index, source = draw(trees(("t", "t", "i"), 2)), draw(trees(NAMES, 2))
    head = f"for (int i = {first}; i < {bound}; i += {step}) if ({condition})"
    return f"{head} s[{shift}{index.text}] = g[{source.text}];"


def read(texts: list[str], **values: int) -> list[SourceAccess]:
    """The accesses of kernels of one thread dimension, a kernel for each text."""
    head = (
        "(float* p, float* g, int n, int m) {{ extern __shared__ float s[]; const int t = threadIdx.x; {} }}"
    )
    kernels = [f"__global__ void k{at}{head.format(text)}" for at, text in enumerate(texts)]
    return [a for a in read_kernel("\n".join(kernels), 64, sets=values).memory if a.reached]


def compare(texts: list[str], values: list[int]) -> None:
    """What is said without sizes, with those that it takes and with others."""
    open_ = {(a.line, a.column): a for a in read(texts) if a.read}
    counts = {key: (a.instructions, a.total, a.ideal_total, a.ways) for key, a in open_.items()}
    for n, m in ((1024, 1024), *pairwise(values)):
        for a in read(texts, n=n, m=m, **{f"gridDim.{axis}": 1024 for axis in "xyz"}):
            key, known = (a.line, a.column), open_.get((a.line, a.column))
            if known is None or not a.read:
                continue
            here = (a.instructions, a.total, a.ideal_total, a.ways)
            if not known.sizes or (n == m == 1024 and not known.note):
                assert here == counts[key], (texts[a.line - 1], n, m)
            elif a.instructions and not known.depends and known.ways is not None:
                assert (a.ways or 1) <= known.ways, (texts[a.line - 1], n, m)
            elif a.instructions and not known.depends:
                assert a.efficiency == known.efficiency, (texts[a.line - 1], n, m)


@settings(max_examples=2, deadline=None)
@given(st.lists(bodies(), min_size=6, max_size=6), st.lists(st.sampled_from(VALUES), min_size=3, max_size=3))
def test_what_is_said_without_sizes_holds_with_each(texts: list[str], values: list[int]) -> None:
    compare(texts, values)


@pytest.mark.deep
@settings(max_examples=80, deadline=None)
@given(
    st.lists(bodies(), min_size=12, max_size=12), st.lists(st.sampled_from(VALUES), min_size=6, max_size=6)
)
def test_what_is_said_without_sizes_holds_with_each_at_length(texts: list[str], values: list[int]) -> None:
    compare(texts, values)


ROWS = (
    # the body, (ways of the store, the numbers it depends on, its note); None where it is not read
    ("for (int k = 0; k < n; k += 32) if (m > t) s[32 * t + k] = 1;", (32, (), None)),
    ("if (n == 3) s[2 * t] = 1;", (2, (), "counted with n = 3")),
    ("if (t >= n) s[t] = 1;", (1, (), "counted with n = 1")),
    ("for (int k = 0; k < n; ++k) s[k * 64 + t] = 1;", (1, (), None)),
    ("s[t * n] = 1;", (32, ("n",), None)),
    ("if (t == n) s[32 * t] = 1;", (1, ("n",), "counted with n = 1")),
    ("s[t / n] = 1;", (1, ("n",), None)),
    ("int b = 0; for (int k = 0; k < n; ++k) { s[b * 64 + t] = 1; b ^= 1; }", (1, (), None)),
    ("int b = 0; for (int k = 0; k < n; ++k) { s[b * 64 + t] = 1; b = (b + 1) % 3; }", (1, (), None)),
    ("int b = 1; for (int k = 0; k < n; ++k) { s[b * t] = 1; b = b * 2 % 63; }", (32, ("n",), None)),
    ("if (n % 8 == 7 && m == 0) s[2 * t] = 1;", (2, (), "counted with m = 0 and n = 1023")),
    ("s[t % (n - n)] = 1;", None),
    ("s[g[0] > 0 ? n : t] = 1;", None),
)  # fmt: skip


@each("number", range(len(ROWS)), sample=6)
def test_a_row_names_what_it_depends_on(number: int) -> None:
    body, said = ROWS[number]
    store = read([body])[0]
    assert store.op == "st.shared.b32"
    assert (store.ways, store.depends, store.note) == said if said is not None else not store.read


def test_a_branch_that_is_not_taken_depends_on_nothing() -> None:
    text = "__global__ void k(float* g, int n) { for (int i = 0; i < n; ++i) if (0) g[threadIdx.x] = 0; }"
    (access,) = read_kernel(text, 64).memory
    assert (access.read, access.instructions, access.depends) == (True, 0, ())


def test_what_no_size_brings_a_thread_to_is_never_executed() -> None:
    text = """__global__ void k(float* p, const float* q, int n) {
  for (int i = threadIdx.x; i < n; i += 32) if (q == nullptr) p[i] = 1; else p[2 * i] = 2;
}"""
    first, second = read_kernel(text, 32).memory
    assert (first.read, first.instructions, first.sizes) == (True, 0, ())
    assert (second.read, second.sizes) == (True, ("n",))
    text = "__global__ void k(float* p, int n) { for (int i = 2000; i < n; ++i) p[i + threadIdx.x] = 1; }"
    (access,) = read_kernel(text, 32).memory
    assert access.instructions and access.sizes == ("n",)


DATA = ("p[t] > 0.5f", "t < n && p[t] > 0.5f", "!(t >= n || p[t] <= 0.5f)", "n > 8 && v")
MASKED = (
    "if (COND) s[t * 3 % 64 + (t / 8 & 1)] = g[t * 5];",
    "if (!(COND)) return; s[t % 8 * 8 + i * 32] = g[t + i * 64];",
    "for (int j = 0; j < 4; ++j) { if (COND) break; s[t * 2 + j] = g[t * 2 + j]; }",
    "switch (COND) { case 1: s[t * 4 & 127] = g[t]; break; default: s[t] = g[t * 8]; }",
    "int k = t; if (COND) k = 3 * t; s[t * 2] = g[k]; if (t & 1) s[t] = 1;",
)


@each("number", range(len(MASKED)), sample=3)
def test_lanes_that_data_turns_off_add_nothing(number: int) -> None:
    drawn = random.Random(7300 + number)
    masks = [f"(int)({drawn.getrandbits(64) & drawn.getrandbits(64)}ull >> t & 1)" for _ in range(6)]
    head = "const int i = blockIdx.x; const bool v = p[t] > 0.5f; "
    texts = [head + MASKED[number].replace("COND", cond) for cond in (DATA[number % len(DATA)], *masks)]
    rows: list[list[SourceAccess]] = [[] for _ in texts]
    for access in read(texts, n=1024):
        rows[access.line - 1] += [access] if access.array in ("s", "g") else []
    most, *others = rows
    assert any("the condition of line 1" in access.sizes for access in most)
    for known, ran in [pair for other in others for pair in zip(most, other, strict=True)]:
        assert known.op == ran.op
        if known.read:
            assert (ran.instructions or 0) <= (known.instructions or 0)
            assert (ran.total or 0) <= (known.total or 0)
            assert (ran.ways or 1) <= (known.ways or 1)
            assert known.space == "global" or not known.depends, "the ways are at most these"
