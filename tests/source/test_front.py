"""Sources as people have them: what does not parse is left out by its name, and everything else is read."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.source import KernelReading, cute, read_kernel, refuse_unread
from layoutalg.source.front import child
from layoutalg.source.front.census import Census
from tests.source.lane_oracle import HEAD, Case, lines_with_errors
from tests.source.random_programs import program
from tests.sweeps import first

KERNEL = "__global__ void k(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }\n"
COPIED = [("st.global.b32", 8), ("ld.global.b32", 8)]
"""The two accesses of KERNEL in a block of 64 threads, and their sectors."""


def read(text: str, folder: Path | None = None, **values: int | str) -> KernelReading:
    return read_kernel(text, 64, sets=values, folder=None if folder is None else str(folder))


def rows(reading: KernelReading) -> list[tuple[str, int | None]]:
    return [(access.op, access.total) for access in reading.memory]


def test_a_value_counts_at_each_use_of_a_name() -> None:
    text = """__global__ void __launch_bounds__(PITCH) k(const float* a, float* b) {
  __shared__ float s[64 * 33];
  int step = PITCH + PITCH;
  s[threadIdx.x * PITCH] = a[threadIdx.x + step];
  b[threadIdx.x] = s[threadIdx.x * PITCH]; }"""
    reading = read(text, PITCH=33)
    assert rows(reading) == [("st.shared.b32", 2), ("ld.global.b32", 10), ("st.global.b32", 8),
                             ("ld.shared.b32", 2)]  # fmt: skip
    assert not reading.unfollowed and not reading.wanted
    assert {a.op for a in read(text).memory if a.read} == {"st.global.b32"}  # and the others say why
    assert read(text).wanted == ("PITCH",)


HOST = (
    "template <int N> void run(torch::Tensor x) { k<<<1, 64>>>(x.data_ptr<float>()); }",
    "template <> void launch<float>(const float* a, float* b) { k<<<1, 64>>>(a, b); }",
    "template <class T> void Runner<T>::run(Stream& s) { k<<<1, 64, 0, s>>>(p); }",
    "struct Runner { Stream s; void run() { k<<<1, 64, 0, s>>>(p, q); } };",
    "static const std::vector<Stream> streams = {first(), second()};",
    "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"k\", &run); }",
    "INSTANTIATE(float)",
    "#if __has_it(x) && OTHER(y)\nint other() { return }\n#endif",
)  # fmt: skip


@pytest.mark.parametrize("host", first(3, HOST))
def test_host_code_is_not_read(host: str, tmp_path: Path) -> None:
    assert rows(read(f"#include <missing.h>\n{KERNEL}{host}\n")) == COPIED
    assert rows(read(f"{host}\n{KERNEL}")) == COPIED
    (tmp_path / "own.h").write_text(host + "\n", encoding="utf-8")
    assert rows(read(f'#include "own.h"\n{KERNEL}', tmp_path)) == COPIED


DOUBTED = (
    "template <class T> struct Pad { static constexpr int v = 0; };\n"
    "template <> struct Pad<float> : missing::Base { static constexpr int v = 1; };\n",
    "struct Pad { static constexpr int v = 0; };\nunion Gone { missing::Part part; };\n",
)
"""A declaration with an error that leaves another one of its name, and one of which no name is used."""


@pytest.mark.parametrize(("before", "name"), list(zip(DOUBTED, ("Pad<float>", "Pad"), strict=True)))
def test_a_declaration_that_is_left_out_is_told(before: str, name: str) -> None:
    """What its name means for the compiler may be something else where another declaration is left."""
    body = f"__shared__ float s[32 * 33]; s[threadIdx.x * (32 + {name}::v)] = p[threadIdx.x];"
    reading = read(f"{before}__global__ void k(float* p) {{ {body} }}")
    assert [part.line for part in reading.unfollowed] == ([2] if name == "Pad<float>" else [])
    assert [note for note in reading.notes if "line 2" in note] or reading.unfollowed


@pytest.mark.parametrize("head", ["#define PREFIX\nPREFIX", "PREFIX", "PREFIX // of a library\n", ""])
def test_a_macro_in_front_of_a_namespace_hides_no_kernel(head: str) -> None:
    """And a kernel that the grammar takes for a part of something else is not passed over."""
    copied = KERNEL.replace(" k(", " other(")
    assert rows(read(f"{head} namespace lib {{\n{copied}}}\n{KERNEL}")) == [*COPIED, *COPIED]
    assert rows(read(f"{KERNEL}WEIRD(a, struct X {{)\n{copied}")) == [*COPIED, *COPIED]


def test_what_the_host_alone_declares_is_in_no_doubt() -> None:
    """And what a kernel reaches by way of other declarations is."""
    classes = "class Named : public std::string {};\nvoid host(const Named& n);\ntypedef Named Text;\n"
    assert not read(f"{classes}{KERNEL}").unfollowed
    pad = "template <class T> struct Pad { static constexpr int n = 1; };\nusing P = Pad<float>;\n"
    pad = pad.replace(
        "using", "template <> struct Pad<float> : std::string { static constexpr int n = 2; };\nusing"
    )
    assert read(f"{pad}{KERNEL.replace('a[', 'a[P::n + ')}").unfollowed


def test_a_condition_of_the_preprocessor_in_a_head_hides_no_kernel() -> None:
    split = KERNEL.replace("void ", "void\n#ifdef BOUNDS\n__launch_bounds__(32)\n#endif\n")
    uncalled = split.replace("global", "device").replace(" k(", " f(").replace("\nk(", "\nf(")
    found = rows(read(f"{split}{uncalled}{KERNEL.replace(' k(', ' other(')}"))
    assert found == [*COPIED, *COPIED]


@pytest.mark.parametrize("broken", ["#if A\nif (n) {\n#else\nif (!n) {\n#endif\n}", "CALL(n) else { m; } {"])
def test_host_code_that_the_grammar_ends_elsewhere_is_not_read(broken: str) -> None:
    text = f"namespace lib {{\nvoid host(int n) {{ unknown::call();\n{broken} more(n);\n}}\n{KERNEL}}}\n"
    text = text if broken.startswith("#") else text.replace("more(n);", "more(n); }")
    assert rows(read(text)) == COPIED


@pytest.mark.deep
def test_a_header_is_mended_as_the_file_is(tmp_path: Path) -> None:
    """Of a header that includes many that are missing, each bad part is left out, and said with its place."""
    missing = "".join(f"#include <missing{n}.h>\n" for n in range(24))
    text = """typedef NoSuchTexture tex;
__device__ inline float get(tex t, float* p) { return p[0]; }
__device__ inline unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ inline void put(float* p) { p[threadIdx.x * 32] = 1; no_such.thing(p); }
"""
    (tmp_path / "own.h").write_text(missing + text, encoding="utf-8")
    kernel = '#include "own.h"\n__global__ void k(const float* a, unsigned* b) {\n  float s[1];\n'
    reading = read(f"{kernel}  b[threadIdx.x] = bits_of(a[threadIdx.x]); }}", tmp_path)
    assert rows(reading) == COPIED and not reading.unfollowed
    reading = read(f"{kernel}  put((float*)b); }}", tmp_path)
    assert [(a.file, a.line, a.total, a.why) for a in reading.memory] == [
        ("own.h", 28, 64, None),
        ("own.h", 28, None, "the statement has an error: own.h, line 28, column 65: use of undeclared "
         "identifier 'no_such'"),
    ]  # fmt: skip


def test_a_place_in_a_header_hides_none_of_the_file(tmp_path: Path) -> None:
    line = "{} p[threadIdx.x] = 1; }}\n"
    (tmp_path / "own.h").write_text(line.format("__device__ void f(float* p) {"), encoding="utf-8")
    skipped = line.format("#define AT(i) \\\n__global__ void k(float* p) { if (0) { UNKNOWN x; }")
    reading = read(f'{skipped}#include "own.h"\n__global__ void k(float* p) {{ f(p); }}\n', tmp_path)
    assert [(a.place, a.read) for a in reading.memory] == [("own.h, line 1", True)]


def test_what_was_not_read_at_all_is_refused() -> None:
    text = """#include <cute/tensor.hpp>
using namespace cute;
template <class TS, class TD> __global__ void move_tile(TS S, TD D) {
  Tensor s = local_partition(S, Layout<Shape<_32, _8>>{}, threadIdx.x);
  copy(s, S); }"""
    with pytest.raises(UnsupportedError, match="call copy"):
        refuse_unread(read(text))
    with pytest.raises(UnsupportedError, match="no access could be read: line 1: what sync_all does"):
        refuse_unread(read("__global__ void k() { sync_all(); }"))
    refuse_unread(read("__global__ void k() { }"))


def test_a_number_that_is_not_known_loses_what_depends_on_it() -> None:
    """Not the statements, and not those that name what they set."""
    text = """__global__ void k(const float* a, float* b) {
  constexpr int warps = 64 / WARP;
  const int lane = threadIdx.x % WARP;
  const int warp = no_such.thing;
  if constexpr (warps > 1) b[lane] = 1;
#pragma unroll
  for (Index i = 0; i < 4; ++i) b[threadIdx.x] = 2;
  b[threadIdx.x] = block_max<float>(a[threadIdx.x] * warp);
  b[threadIdx.x + warp] = 3;
}"""
    reading = read(text)
    assert [(a.line, a.total) for a in reading.memory if a.read] == [(8, 8), (8, 8)]
    assert {a.line for a in reading.memory if not a.read} == {4, 5, 7, 9}
    assert "WARP is declared nowhere: --set WARP=VALUE" in [part.why for part in reading.unfollowed]
    assert "what block_max does is not in the file" in [part.why for part in reading.unfollowed]
    assert [a.total for a in read(text, WARP=32).memory if a.line == 5] == [2 * 4]


def test_a_macro_that_is_taken_to_be_empty_is_told() -> None:
    reading = read(
        "API __global__ void k(float* b) { UNROLL for (int i = 0; i < 2; ++i) b[threadIdx.x] = i; }"
    )
    assert rows(reading) == [("st.global.b32", 16)]
    assert [part.why for part in reading.unfollowed] == ["UNROLL is declared nowhere, and taken to be empty"]


LAUNCHES = """
template <const int N, int M, typename T> __global__ void k(T* p) { p[threadIdx.x * N * M] = 0; }
template <int Dim, typename T> void launch(Stream s) {
#ifdef WIDE
  constexpr int M = 4;
#else
  constexpr int M = Dim / 4;
#endif
  const int blocks = s.size(0);
  k<Dim, M, T><<<blocks, dim3(64, 1)>>>(s.data);
}
void all(int dim, Stream s) { switch (dim) { case 8: launch<8, float>(s); break; } }
"""


def test_arguments_are_those_of_the_launch() -> None:
    """Constants of the function that launches, and template parameters of it with what it is called with."""
    assert rows(read(LAUNCHES)) == [("st.global.b32", 64)]
    assert rows(read(LAUNCHES.replace("launch<8", "launch<4"))) == [("st.global.b32", 32)]
    assert rows(read(LAUNCHES, N=1, M=2)) == [("st.global.b32", 16)]
    two = LAUNCHES.replace("break;", "case 4: launch<4, float>(s);")
    assert [part.why for part in read(two).unfollowed] == [
        "the instance k<4, M, float> is not read: --set N=4"
    ]


def test_the_branch_that_an_instance_lacks_is_never_reached() -> None:
    text = """template <int N> __global__ void k(float* p) {
  if constexpr (N > 1) { p[threadIdx.x] = 1; } else { p[threadIdx.x * 2] = 2; }
  if constexpr (N > 2) p[threadIdx.x * 4] = 3;
}"""
    lines = {n: [(a.total, a.reached) for a in read(text, N=n).memory] for n in (1, 2, 3)}
    assert lines == {
        1: [(None, False), (16, True), (None, False)],
        2: [(8, True), (None, False), (None, False)],
        3: [(8, True), (None, False), (32, True)],
    }


def test_a_statement_that_a_grammar_takes_for_a_function_stays() -> None:
    text = """#define EACH
__global__ void k(float* p) {
  int n = 2;
  EACH while (int r = n--) { p[threadIdx.x * r] = 1; no_such.thing; }
  EACH if (n < 1) { p[threadIdx.x] = 2; }
}"""
    reading = read(text)
    assert [(a.line, a.read) for a in reading.memory] == [(4, True), (5, True)]
    assert [part.line for part in reading.unfollowed if "no_such" in part.why] == [4]


TOKENS = re.compile(r"\w+|[^\s\w]|\s+")
WRONG = ["}", "{", ")", "(", ";", "<", ">", "foo", "int", "*", "&", "#", '"', "'", "::", "template", "struct"]


def with_a_wrong_token(case: Case, draw: random.Random) -> Case:
    """A program in which one token is lacking, doubled, or another."""
    tokens = TOKENS.findall(case.text)
    at = draw.choice([i for i, token in enumerate(tokens) if not token.isspace()])
    tokens[at] = draw.choice(["", *WRONG, f"{tokens[at]} {tokens[at]}", draw.choice(tokens)])
    return replace(case, text="".join(tokens))


def lines_that_no_kernel_reaches(text: str) -> set[int]:
    """The lines of functions that no other part of a text names."""
    lines = set[int]()
    for function in Census(text.encode()).functions:
        others = text[: function.head] + text[function.end :]
        if function.sure and function.name != "k" and not re.search(rf"\b{function.name}\b", others):
            first, last = (text.count("\n", 0, at) + 1 for at in (function.head, function.end))
            lines |= set(range(first, last + 1))
    return lines


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20261130, 20261160))
def test_a_reading_of_what_has_an_error_is_never_clean(seed: int) -> None:
    draw = random.Random(seed)
    case = with_a_wrong_token(program(draw.randrange(10**6)), draw)
    errors = set(lines_with_errors(case)) - lines_that_no_kernel_reaches(case.text)
    try:
        reading = read_kernel(HEAD + case.text, case.threads, sets={"n": case.n})
    except LayoutAlgError:
        return
    unread = any(not access.read and access.reached for access in reading.accesses)
    assert unread or reading.unfollowed or reading.notes or not errors, (errors, case.text)


def test_words_that_nvcc_takes_and_clang_does_not_are_read() -> None:
    text = """struct Pair { std::pair<int, int> ends; };
template <class T> __device__ void moved(T* to, T* from, int i) {
  typedef typename std::aligned_storage<4 * sizeof(T), 4 * alignof(T)>::type Four;
  ((Four*)to)[i] = ((Four*)from)[i];
}
__global__ void k(float* a, float* b, long long* at, Pair pair) {
  extern __shared__ float s[32][33];
  long long now; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now) :: "memory");
  at[threadIdx.x] = now;
  moved(a, b, threadIdx.x);
  s[threadIdx.x][pair.ends.first] = 1;
}"""
    reading = read_kernel(text, 64, sets={"pair.ends.first": 0})
    assert rows(reading) == [
        ("st.global.b128", 32), ("ld.global.b128", 32), ("st.global.b64", 16), ("st.shared.b32", 2)
    ]  # fmt: skip


def test_what_the_preprocessor_leaves_out_for_sure_is_never_reached() -> None:
    """A name that a header or a build may define decides nothing, nor does a macro under its condition."""
    text = """#if defined(__HIP_PLATFORM_AMD__)
#define HIP 1
#else
#define HIP 0
#endif
#ifdef USE_ROCM
#define ROCM 1
#else
#define ROCM 0
#endif
__global__ void k(float* a) {
#if HIP
  a[0] = 1;
#elif HIP || 0
  a[1] = 2;
#endif
#if ROCM
  a[2] = 3;
#elif HIP
#ifdef OTHER
  a[3] = 4;
#endif
#else
  if (__builtin_expect(threadIdx.x < 8, 1)) a[threadIdx.x] = 5;
#endif
}"""
    memory = read(text).memory
    assert [(a.line, a.read, a.reached) for a in memory] == [
        (13, False, False), (15, False, False), (18, False, True), (21, False, True), (24, True, True)
    ]  # fmt: skip


def test_what_errors_say_by_themselves_is_mended_in_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong in front of it, in this text or another: a type that nothing declares, a call."""
    for name in ("one", "two", "three"):
        text = f"#pragma once\nstatic Lost{name} f{name}(Gone g);\nstruct Q{name} {{ Gone g; }};\n"
        (tmp_path / f"{name}.h").write_text(text, encoding="utf-8")
    includes = "".join(f'#include "{name}.h"\n' for name in ("one", "two", "three"))
    text = f"{includes}__global__ void k(float* p) {{ p[threadIdx.x] = unknown(p[0]); Gone g; }}\n"
    asked: dict[str, Any] = {
        "text": text,
        "kernel": None,
        "sets": {},
        "arch": 900,
        "defines": {},
        "changed": {},
    }
    folder = tmp_path / "spot"
    folder.mkdir()
    parser = child.Parser(asked | {"folders": [str(tmp_path)]}, folder, cute)
    rounds, parse = list[str](), parser.parse

    def counted(tail: str = "", options: int = 0) -> Any:
        rounds.append(tail)
        return parse(tail, options)

    monkeypatch.setattr(parser, "parse", counted)
    parser.settled()
    assert len(rounds) == 2 and len(parser.removed) == 7


def test_members_of_anonymous_unions_have_addresses() -> None:
    text = """
struct V { union { float x, r; }; union { float y; int g; }; struct { int u, w; }; };
__global__ void k(V* p, V* q, int* out) {
  p[threadIdx.x].y = 1; q[threadIdx.x].w = 2;
  V v; v.g = threadIdx.x; v.y = 2; out[v.g] = 1;
  p[threadIdx.x] = q[threadIdx.x];
}"""
    rows = [(a.line, a.op, a.part, a.instructions) for a in read_kernel(text, 32).memory if a.read]
    words = [(6, "ld.global.b32", "", 4), (6, "st.global.b32", "", 4)]
    assert rows[:2] == [(4, "st.global.b32", "p.y", 1), (4, "st.global.b32", "q.w", 1)]
    assert sorted(rows[2:]) == words, "and not line 5: another member of the union was set"


def test_a_macro_with_a_second_definition_still_makes_functions_of_the_device() -> None:
    text = """
#if 1
#define OWN __host__ __device__
#else
#define OWN
#endif
#define INLINE OWN inline
INLINE constexpr int twice(int i) { return 2 * i; }
__global__ void k(float* p) { p[twice(threadIdx.x)] = 1; }"""
    assert [a.total for a in read_kernel(text, 32).memory] == [8]


def test_a_class_that_is_not_closed_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "host.h").write_text("""
class Timer {
    std::array<int, 3> all(int loops)
    {
        int first = run(loops, [=](int way) {
#ifdef OTHER
#endif
        });
        int second = run(loops, [=](int way) {
#ifdef OTHER
#endif
        });
        int third = run(loops, [=](int way) {
#ifdef OTHER
#endif
        });
    }
    template <typename Func>
    int run(int loops, Func f)
    {
#ifdef OTHER
#ifdef OTHER
        for (int way = (int)FIRST;
             way <= (int)FIRST;
        for (int way = (int)FIRST;
             way <= (int)LAST;
#endif
#endif
             way++) {
            int warm = 5;
            for (int i = 0; i < warm; ++i) f(way);
            if (time < best) {
                best = time;
                found = way;
            }
        }

        return found;
    }
};
""")
    text = '#include "host.h"\n__global__ void k(float* p) { p[threadIdx.x] = 1; }'
    assert [a.read for a in read_kernel(text, 32, folder=str(tmp_path)).memory] == [True]
