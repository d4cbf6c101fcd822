"""Reading index functions: the compiler's numbers, Python's numbers, and refusals with line and column."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from layoutalg.errors import LayoutAlgError, ParseError, ResourceError, UnknownNameError
from layoutalg.indexing.reading import evaluated, read_c, read_c_expression, read_python
from layoutalg.testing import compile_shared
from tests.draws import index_functions
from tests.sweeps import each


def test_functions_in_c_have_the_numbers_that_the_compiler_gives_them() -> None:
    rng = random.Random(20261122)
    texts = [index_functions.function(rng, f"f{n}") for n in range(160)]
    wrapped = (
        f"{t}\nlong long w{n}(long long i, long long j) {{ return f{n}(i, j); }}" for n, t in enumerate(texts)
    )
    library = compile_shared('#include <stdint.h>\nextern "C" {\n' + "\n".join(wrapped) + "\n}")
    points = read = 0
    for n, text in enumerate(texts):
        try:
            found = read_c(text)
            most = [1 if t is not None and t.bits == 1 else 60 for _, t in found.parameters]
            i, j = (np.array([rng.randint(0, top) for _ in range(20)]) for top in most)
            values, bad = evaluated(found.term, {"i": i, "j": j})
        except ResourceError:
            continue  # past 62 bits
        read += 1
        call = library[f"w{n}"]
        call.restype, call.argtypes = ctypes.c_longlong, [ctypes.c_longlong] * 2
        for k in range(20):
            if bad is None or not bad.mask[k]:
                assert call(int(i[k]), int(j[k])) == values[k], (text, i[k], j[k])
                points += 1
    assert read > 140 and points > 2500


PYTHON = '''
LD = 8 * 8

def bits(x):
    return x ^ x >> 1

def f(row, col):
    """A function with everything that is read."""
    a, b = divmod(row, 3)
    out = -row // 4 % 5 + (a if row > col and not col == 2 else b or 7)
    for k in range(1, 7, 2):
        out += k * (col & k)
    for k in range(3, 0, -1):
        out ^= k
    while LD < 0:
        pass
    if 1 < row <= 4:
        out += min(row, col) - max(row, ~col)
    elif col % 2:
        return bits(out & 255) + LD
    return out << 1 | bits(row)
'''


def test_functions_in_python_have_pythons_numbers() -> None:
    space: dict[str, object] = {}
    exec(compile(PYTHON, "python", "exec"), space)
    f = space["f"]
    assert callable(f)
    row, col = (axis.reshape(-1) for axis in np.indices((12, 9)))
    values, bad = evaluated(read_python(PYTHON, "f").term, {"row": row, "col": col})
    assert bad is None
    assert values.tolist() == [f(int(a), int(b)) for a, b in zip(row, col, strict=True)]


def test_what_has_no_value_in_c_is_bad_where_it_counts() -> None:
    values, bad = evaluated(read_c_expression("i ? 12 / i : 7").term, {"i": np.arange(4)})
    assert bad is None and values.tolist() == [7, 12, 6, 4]
    _, bad = evaluated(read_c_expression("12 / i + (8 >> i)").term, {"i": np.arange(40)})
    assert bad is not None and bad.first() == (0, "a division by zero at line 1, column 4")
    assert np.flatnonzero(bad.mask).tolist() == [0, *range(32, 40)]
    _, bad = evaluated(read_c_expression("i * 1000000000").term, {"i": np.arange(4)})
    assert bad is not None and bad.first()[0] == 3 and "past the 32 bits of C's int" in bad.first()[1]
    wrapped, bad = evaluated(read_c_expression("i * 3000000000u").term, {"i": np.arange(4)})
    assert bad is None and wrapped.tolist() == [3000000000 * i % (1 << 32) for i in range(4)]


def test_macros_templates_constants_calls_and_lambdas() -> None:
    text = """
    #include "tile.cuh"
    #pragma once
    #ifndef LD
    #define LD 64
    #endif
    #define AT(r, c) ((r) * LD + (c))
    constexpr int K = LD / 8;
    using u32 = unsigned int;
    template <int N> __device__ __forceinline__ u32 pitch(u32 r, u32 c) { return r * N + c % K; }
    __device__ int twice(int x) { return 2 * x; }  // called below
    auto swz = [](int r, int c) -> int { int x = r & 7; { int x = 3; c += x - 3; }
        return AT(r, c ^ twice(x)); };
    """
    row, col = (axis.reshape(-1) for axis in np.indices((8, 16)))
    env = {"r": row, "c": col}
    assert (evaluated(read_c(text, "swz").term, env)[0] == row * 64 + (col ^ 2 * row)).all()
    assert (evaluated(read_c(text, "pitch<72>").term, env)[0] == row * 72 + col % 8).all()
    assert (evaluated(read_c(text, "AT").term, env)[0] == row * 64 + col).all()
    thread = read_c("__device__ int f(int u) { return threadIdx.x * 8 + u; }")
    assert thread.names == ("u", "threadIdx.x")


REFUSED = [
    ("int f(int i) { return i +; }", "line 1, column 26: ';' stands where a value is expected"),
    (
        "int f(int i)\n{\n  return k;\n}",
        "line 3, column 10: 'k' is a name without a value that is known; known are i",
    ),
    ("int f(int i) { return i; ", "line 1, column 14: '{' is never closed"),
    ("int f(int i) { return i; }}", "line 1, column 27: '}' closes nothing"),
    (
        "int f(int i) { while (i) i -= 1; return i; }",
        "line 1, column 16: this loop's length is not known before f",
    ),
    ("int f(int i) { if (i) return 1; }", "f can end without returning a value"),
    ("int f(float x) { return 1; }", "line 1, column 7: 'float' is not a type of integers that is read"),
    (
        "int f(int* p, int i) { return p[i]; }",
        "line 1, column 10: '*' stands where a parameter's name is expected",
    ),
    ("int f(int i) { return i++; }", "'++' is not read after a value"),
    ("int f(int i) { return 1.5 * i; }", "line 1, column 23: '1.5' is not an integer"),
    ("int f(int i) { return g(i); }", "line 1, column 23: 'g' is a function that is not in the text"),
    ("int f(int i) { return 08; }", "line 1, column 23: '08' is not an integer"),
    ("/* no end", "line 1, column 1: '/*' opens a comment that does not end"),
    ("#if A > 2\nint f(int i) { return i; }\n#endif", "line 1, column 5: 'A' is a condition of #if"),
    ("int f(int i) { switch (i) { default: return 1; } }", "'switch' begins a statement that is not read"),
    ("", "the text has no function with a body"),
    ("int é(int i) { return i; }", "line 1, column 5: 'é' is not C"),
    ("#define A A + B\n#define B A\nint f(int i) { return A; }", "'A' is a name without a value"),
    ("int f(int i) { int i2 = 1; i3 = 2; return i; }", "'i3' is a name without a value"),
    ("int LD = 64; int f(int i) { return i * LD; }", "'LD' is a name without a value"),
    (
        "struct A { static constexpr int N = 4; }; struct B { static constexpr int N = 8; };\n"
        "int f(int i) { return i * N; }",
        "'N' is a name without a value",
    ),
    (
        "int g(int& x) { x += 1; return x; } int f(int i) { return g(i) + i; }",
        "lets a call change its argument",
    ),
    (
        "int f(int i) { static int n = 0; n += 1; return n; }",
        "'static' declares what the next call finds changed",
    ),
    ("int f(int i) { int k; if (i) k = 1; return k; }", "'k' may have no value here"),
]


@each("text", [text for text, _ in REFUSED])
def test_what_is_not_read_says_where(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_c(text, "f" if "int g(" in text else None)
    assert dict(REFUSED)[text] in str(caught.value)


def test_what_has_no_end_is_ended() -> None:
    with pytest.raises(ResourceError, match="statements that f runs"):
        read_c("int f(int i) { for (;1;) i += 0; return i; }".replace("i += 0", "i = i"))
    with pytest.raises(ResourceError, match="calls one inside the other"):
        read_c("int f(int i) { return f(i) + 1; }")
    with pytest.raises(ResourceError, match="calls one inside the other"):
        read_python("def f(i): return f(i) + 1")
    for text in ("(" * 5000 + "i" + ")" * 5000, "-" * 5000 + "i", "!" * 5000 + "i"):
        with pytest.raises((ResourceError, ParseError)):
            read_c_expression(text.replace("--", "- -"))
    with pytest.raises(ResourceError, match="characters of the source"):
        read_c("x" * ((1 << 20) + 1))
    with pytest.raises(ResourceError, match="with its macros replaced"):
        read_c(
            "#define A0 1+1\n"
            + "\n".join(f"#define A{n} A{n - 1}+A{n - 1}" for n in range(1, 40))
            + "\nint f(int i) { return A39; }"
        )
    deep = "def f(i):\n return " + "(" * 300 + "i" + ")" * 300
    with pytest.raises(LayoutAlgError):
        read_python(deep)


def test_several_functions_need_a_name() -> None:
    text = "int f(int i) { return i; } int g(int i) { return 2 * i; }"
    with pytest.raises(
        UnknownNameError, match="the text has several, and --function names one; accepted are f, g"
    ):
        read_c(text)
    with pytest.raises(UnknownNameError, match="unknown function 'h'"):
        read_c(text, "h")
    assert read_c(text, "g").name == "g"


def test_python_refusals_say_where() -> None:
    for text, said in (
        ("def f(i): return i / 2", "line 1, column 18: BinOp is not read"),
        ("def f(i): return open('x')", "Constant is not read"),
        ("def f(i):\n  import os\n  return i", "line 2, column 3: Import is not read"),
        ("def f(i) return i", "line 1, column 10: expected ':'; this is not Python"),
        ("def f(i): return i.x", "Attribute is not read"),
        ("def f(*i): return 1", "has other parameters than plain ones"),
        ("def f(i):\n  while i: i -= 1\n  return i", "line 2, column 3: this loop's length is not known"),
        ("x = 1", "the text has no function"),
        ("LD = 64\nif LD: LD = 32\ndef f(i): return i * LD", "'LD' has no value that is known here"),
        ("LD = 64\nLD += 1\ndef f(i): return i * LD", "'LD' has no value that is known here"),
        ("@twice\ndef f(i): return i", "is a decorator that may change the function"),
        ("def f(i): return i\nif f(1): f = len", "set in more than one way"),
        ("from x import min\ndef f(i): return min(i, 1)", "of min, which is not known before it runs"),
    ):
        with pytest.raises(ParseError) as caught:
            read_python(text)
        assert said in str(caught.value), text
