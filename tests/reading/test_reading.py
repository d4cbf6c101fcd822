"""Reading index functions: the compiler's numbers, Python's numbers, and refusals with line and column."""

from __future__ import annotations

import ctypes
import random
import re
from collections import Counter

import numpy as np
import pytest

from layoutalg.errors import LayoutAlgError, ParseError, ResourceError, UnknownNameError
from layoutalg.reading import evaluated, read_c, read_c_expression, read_python
from layoutalg.testing import compile_shared
from tests.reading.drawn_functions import c_text, python_text
from tests.sweeps import each

RUNTIME = """
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
static jmp_buf back_;
#define UNDEFINED(what) extern "C" void __ubsan_handle_##what(void*, void*, void*) { longjmp(back_, 1); }
UNDEFINED(add_overflow) UNDEFINED(sub_overflow) UNDEFINED(mul_overflow) UNDEFINED(negate_overflow)
UNDEFINED(divrem_overflow) UNDEFINED(shift_out_of_bounds)
#define __device__ static
template <class A, class B> auto min(A a, B b) { decltype(a + b) x = a, y = b; return y < x ? y : x; }
template <class A, class B> auto max(A a, B b) { decltype(a + b) x = a, y = b; return x < y ? y : x; }
static unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static int low24(int a) { return (int)((unsigned)a << 8) >> 8; }
static int __mul24(int a, int b) { return (unsigned)low24(a) * (unsigned)low24(b); }
"""
"""What a compiled text needs, and the way out of what C leaves undefined."""


def plain(text: str) -> bool:
    """Whether the functions of a text are an expression each, of which every operator counts."""
    return re.search(r"^ {4}(?!return|\"\"\")", text, re.M) is None


def compiled(texts: list[tuple[str, str]]) -> ctypes.CDLL:
    """Functions w0, w1, ... of (i, j, where the value goes), which return whether there is none."""
    parts = [RUNTIME]
    for n, (text, name) in enumerate(texts):
        call = f"if (setjmp(back_)) return 1; *out = (long long)t{n}::{name}(i, j); return 0;"
        parts.append(f"namespace t{n} {{\n{text}\n}}\n#undef LD\n#undef AT\n#undef S")
        parts.append(f'extern "C" int w{n}(long long i, long long j, long long* out) {{ {call} }}')
    flags = ("-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift", "-O0")
    return compile_shared("\n".join(parts), flags=flags)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.deep) for n in range(2, 12))])
def test_a_text_in_c_has_the_numbers_that_the_compiler_gives_it(seed: int) -> None:
    """And none where the compiler's sanitizer finds that C leaves it undefined."""
    rng = random.Random(seed)
    texts = [c_text(rng) for _ in range(150)]
    library, seen = compiled(texts), Counter[str]()
    for n, (text, name) in enumerate(texts):
        try:
            found = read_c(text, name)
            most = [1 if t is not None and t.bits == 1 else 60 for _, t in found.parameters]
            i, j = (np.array([rng.randint(0, top) for _ in range(20)]) for top in most)
            values, bad = evaluated(found.term, {"i": i, "j": j})
        except ResourceError:
            seen["past 62 bits"] += 1
            continue
        except ParseError as error:
            assert "loop's length" in str(error) or "template, which" in str(error), (text, error)
            seen["open loops"] += 1
            continue
        for k in range(20):
            out = ctypes.c_longlong()
            none = library[f"w{n}"](*map(ctypes.c_longlong, (int(i[k]), int(j[k]))), ctypes.byref(out))
            refused = bad is not None and bool(bad.mask[k])
            agreed = refused == bool(none) or (bool(none) and not plain(text))  # a value that nothing reads
            assert agreed or "<<" in text, (text, i[k], j[k])
            seen["undefined" if refused else "defined"] += 1
            if not refused and not none:
                assert out.value == values[k], (text, i[k], j[k], bad and bad.reasons)
    assert seen["defined"] > 1500 and seen["undefined"] > 50, seen


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.deep) for n in range(2, 12))])
def test_a_text_in_python_has_pythons_numbers(seed: int) -> None:
    rng, seen = random.Random(seed), Counter[str]()
    for _ in range(200):
        text = python_text(rng)
        i, j = (np.array([rng.randint(0, 40) for _ in range(8)]) for _ in range(2))
        try:
            values, bad = evaluated(read_python(text, "f").term, {"i": i, "j": j})
        except ResourceError:
            seen["past 62 bits"] += 1
            continue
        space: dict[str, object] = {}
        exec(compile(text, "python", "exec"), space)
        f = space["f"]
        assert callable(f)
        for k in range(8):
            try:
                wanted = f(int(i[k]), int(j[k]))
            except (ZeroDivisionError, ValueError):
                wanted = None
            seen["none" if wanted is None else "numbers"] += 1
            refused = bad is not None and bool(bad.mask[k])
            assert (wanted is None) == refused or (wanted is None and not plain(text)), (text, i[k], j[k])
            assert wanted is None or values[k] == wanted, (text, i[k], j[k])
    assert seen["numbers"] > 800 and seen["none"] > 30, seen


def test_what_has_no_value_in_c_is_bad_where_it_counts() -> None:
    values, bad = evaluated(read_c_expression("i ? 12 / i : 7").term, {"i": np.arange(4)})
    assert bad is None and values.tolist() == [7, 12, 6, 4]
    _, bad = evaluated(read_c_expression("12 / i + (8 >> i)").term, {"i": np.arange(40)})
    assert bad is not None and bad.first() == (0, "a division by zero at line 1, column 4")
    assert np.flatnonzero(bad.mask).tolist() == [0, *range(32, 40)]
    _, bad = evaluated(read_c_expression("i * 1000000000").term, {"i": np.arange(4)})
    assert bad is not None and bad.first()[0] == 3 and "past the 32 bits of C's int" in bad.first()[1]


def test_macros_templates_and_threads_are_asked_for_by_name() -> None:
    text = """
    #include "tile.cuh"
    #pragma once
    #define AT(r, c) ((r) * 64 + (c))
    template <int N> __device__ __forceinline__ int pitch(int r, int c) { return r * N + c % 8; }
    """
    row, col = (axis.reshape(-1) for axis in np.indices((8, 16)))
    env = {"r": row, "c": col}
    assert (evaluated(read_c(text, "pitch<72>").term, env)[0] == row * 72 + col % 8).all()
    assert (evaluated(read_c(text, "AT").term, env)[0] == row * 64 + col).all()
    thread = read_c("__device__ int f(int u) { return threadIdx.y * 8 + u + threadIdx.x; }")
    assert thread.names == ("u", "threadIdx.x", "threadIdx.y")
    assert read_c_expression("min(row, 3) + threadIdx.x * (int)k").names == ("row", "threadIdx.x", "k")


F = "int f(int i) { "
REFUSED = (
    (F + "return i +; }", "line 1, column 26: ';' stands where a value"),
    ("int f(int i)\n{\n  return k;\n}", "line 3, column 10: 'k' is a name without a value"),
    (F + "return i; ", "line 1, column 14: '{' is never closed"),
    (F + "return i; }}", "line 1, column 27: '}' closes nothing"),
    (F + "while (i) i -= 1; return i; }", "line 1, column 16: this loop's length"),
    (F + "if (i) return 1; }", "f can end without returning"),
    ("int f(float x) { return 1; }", "line 1, column 7: 'float' is not a type"),
    ("int f(int* p, int i) { return p[i]; }", "line 1, column 10: '*' stands where a parameter"),
    (F + "return i++; }", "'++' is not read after a value"),
    (F + "return 1.5 * i; }", "line 1, column 23: '1.5' is not an integer"),
    (F + "return g(i); }", "line 1, column 23: 'g' is a function"),
    (F + "return 08; }", "line 1, column 23: '08' is not an integer"),
    (F + "return i + 1_000; }", "line 1, column 27: '1_000' is not an integer"),
    ("/* no end", "line 1, column 1: '/*' opens a comment"),
    ("#if A > 2\nint f(int i) { return i; }\n#endif", "line 1, column 5: 'A' is a condition of #if"),
    ("#if 1\n#elif 0\n#endif", "#if"), ("#else\n", "has no #if"), ("#if\n", "says nothing"),
    ("#warp\n", "not a directive"), ("#define A(1) 1\n", "parameters of a macro"),
    ("#define A(x\n", "parameters do not end"), ("#define A(x) #x\n" + F + "return A(1); }", "with #"),
    ("#define A(x) x\n" + F + "return A(1, 2); }", "takes 1 arguments"),
    ("#define A(x) x\n" + F + "return A(1", "do not end"),
    (F + "switch (i) { default: return 1; } }", "'switch' begins a statement"),
    ("", "the text has no function"),
    ("int é(int i) { return i; }", "line 1, column 5: 'é' is not C"),
    ("#define A A + B\n#define B A\nint f(int i) { return A; }", "'A' is a name without a value"),
    (F + "int i2 = 1; i3 = 2; return i; }", "'i3' is a name without a value"),
    ("int LD = 64; int f(int i) { return i * LD; }", "'LD' is a name without a value"),
    ("struct A { static constexpr int N = 4; }; struct B { static constexpr int N = 8; };\n" + F
     + "return i * N; }", "'N' is a name without a value"),
    ("int g(int& x) { x += 1; return x; } int f(int i) { return g(i) + i; }", "lets a call change"),
    (F + "static int n = 0; n += 1; return n; }", "'static' declares"),
    (F + "int k; if (i) k = 1; return k; }", "'k' may have no value"),
    ("int g(int x) { return x; } int f(int i) { return g(i, 1); }", "takes 1 arguments, not 2"),
    ("int g(int x) { return x; } int f(int i) { return g(i i); }", "stands where ','"),
    ("template <int N> int g(int x) { return N; } int f(int i) { return g(i); }", "is a template"),
    ("int g(int x) { return x; } int g(long x) { return x; } int f() { return g(1); }", "declared twice"),
)  # fmt: skip


@each(("text", "said"), REFUSED)
def test_what_is_not_read_says_where(text: str, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_c(text, "f" if "int g(" in text else None)
    assert said in str(caught.value)


@each(("text", "said"), [
    ("def f(i): return i / 2", "line 1, column 18: BinOp is not read"),
    ("def f(i): return open('x')", "Constant is not read"),
    ("def f(i):\n  import os\n  return i", "line 2, column 3: Import"),
    ("def f(i) return i", "line 1, column 10: expected ':'"),
    ("def f(i): return i.x", "Attribute"),
    ("def f(*i): return 1", "other parameters"),
    ("def f(i):\n  while i: i -= 1\n  return i", "line 2, column 3: this loop's length"),
    ("def f(i):\n  for k in range(1, 4, i): pass\n  return i", "a step that is not a number"),
    ("def f(i):\n  for k in range(): pass\n  return i", "For"),
    ("x = 1", "the text has no function"),
    ("LD = 64\nif LD: LD = 32\ndef f(i): return i * LD", "'LD' has no value"),
    ("LD = 64\nLD += 1\ndef f(i): return i * LD", "'LD' has no value"),
    ("@twice\ndef f(i): return i", "a decorator that may change"),
    ("def f(i): return i\nif f(1): f = len", "set in more than one way"),
    ("from x import min\ndef f(i): return min(i, 1)", "of min, which is not known"),
    ("def f(i): return g(i)", "of g, a function that is not in the text"),
    ("g = lambda x: x\ndef f(i): return g(i, i)", "gives g 2 arguments"),
    (f"def f(i): return i + {1 << 62}", "past the integers"),
])  # fmt: skip
def test_python_refusals_say_where(text: str, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_python(text, "f" if "lambda" in text else None)
    assert said in str(caught.value)


@pytest.mark.deep
def test_what_has_no_end_is_ended() -> None:
    doubled = "#define A0 1+1\n" + "\n".join(f"#define A{n} A{n - 1}+A{n - 1}" for n in range(1, 40))
    for text, said in (
        (F + "for (;1;) i = i; return i; }", "statements that f runs"),
        (F + "return f(i) + 1; }", "calls one inside the other"),
        ("x" * ((1 << 20) + 1), "characters of the source"), ("x " * (1 << 17), "tokens of the source"),
        (f"{doubled}\nint f(int i) {{ return A39; }}", "with its macros replaced"),
        (F + "{" * 70 + "}" * 70 + "}", "nesting of statements"),
    ):  # fmt: skip
        with pytest.raises(ResourceError, match=said):
            read_c(text)
    with pytest.raises(ResourceError, match="calls one inside the other"):
        read_python("def f(i): return f(i) + 1")
    for text in ("(" * 5000 + "i" + ")" * 5000, "- " * 5000 + "i", "!" * 5000 + "i"):
        with pytest.raises(ResourceError, match="nesting"):
            read_c_expression(text)
    with pytest.raises(LayoutAlgError):
        read_python("def f(i):\n return " + "(" * 300 + "i" + ")" * 300)


def test_several_functions_need_a_name() -> None:
    for read, text in (
        (read_c, "int f(int i) { return i; } int g(int i) { return 2 * i; }"),
        (read_python, "def f(i): return i\ndef g(i): return 2 * i"),
    ):
        with pytest.raises(UnknownNameError, match="accepted are f, g"):
            read(text)
        with pytest.raises(UnknownNameError, match="unknown function 'h'"):
            read(text, "h")
        assert read(text, "g").name == "g"
