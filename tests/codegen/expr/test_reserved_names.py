"""Names that C, C++ and CUDA have taken: what standards list is refused, and what is accepted compiles."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from layoutalg.codegen.expr import check_name
from layoutalg.errors import IRError, LayoutAlgError
from layoutalg.indexing import code
from layoutalg.layout import Layout
from layoutalg.testing import find_compiler
from tests.stand_ins.nvcc import NVCC, needs_nvcc
from tests.sweeps import each

C_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if int long register
    return short signed sizeof static struct switch typedef union unsigned void volatile while
    inline restrict
    alignas alignof bool constexpr false nullptr static_assert thread_local true typeof typeof_unqual
"""
"""ISO C89; what C99 added; what C23 added (6.4.1); those that begin with _ are not names here."""

CPP_WORDS = """
    alignas alignof asm auto bool break case catch char char8_t char16_t char32_t class concept
    const consteval constexpr constinit const_cast continue contract_assert co_await co_return
    co_yield decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept nullptr operator private
    protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while and and_eq bitand bitor compl
    not not_eq or or_eq xor xor_eq
"""
"""ISO C++, table 5 (keywords) of C++98 to C++26, and table 6 (alternative tokens)."""

GNU_WORDS = "asm inline typeof linux unix i386"
"""GCC manual: "Alternate Keywords", and "System-specific Predefined Macros" of the gnu dialects."""

DIALECTS = {
    "c": ("gnu89", "gnu99", "gnu11", "gnu17", "gnu2x", "c99", "c17", "c2x"),
    "c++": ("gnu++98", "gnu++11", "gnu++17", "gnu++20", "gnu++2b", "c++17", "c++20"),
}


@each("name", sorted({*C_WORDS.split(), *CPP_WORDS.split(), *GNU_WORDS.split()}))
def test_a_word_of_any_standard_is_not_a_name(name: str) -> None:
    with pytest.raises(IRError, match="it has a meaning there"):
        check_name(name)
    with pytest.raises(LayoutAlgError):
        code(Layout((8, 64), (64, 1)), "c", name)
    with pytest.raises(LayoutAlgError):
        code(Layout((8, 64), (64, 1)), "cuda", parameters=["row", name])


def accepted(names: set[str]) -> Iterator[str]:
    for name in sorted(names):
        try:
            yield check_name(name, "kernel")
        except IRError:
            continue


def defined(*command: str) -> set[str]:
    """The macros that a compiler has before any text."""
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    return set(re.findall(r"^#define ([A-Za-z]\w*)", done.stdout, re.M))


@each("language", list(DIALECTS))
def test_a_macro_of_the_host_compiler_is_not_a_name(language: str) -> None:
    words = find_compiler("c" if language == "c" else "c++")
    for dialect in (DIALECTS[language][0], DIALECTS[language][-1]):
        found = defined(*words, "-x", language, f"-std={dialect}", "-dM", "-E", "-")
        assert not list(accepted(found)), dialect


@needs_nvcc
def test_a_macro_of_what_nvcc_includes_is_not_a_name(tmp_path: Path) -> None:
    source = tmp_path / "empty.cu"
    source.touch()
    found = defined(str(NVCC), "-E", "-Xcompiler", "-dM", str(source))
    assert len(found) > 100 and not list(accepted(found))


@each("language", list(DIALECTS))
def test_a_name_that_is_accepted_compiles_in_every_dialect(language: str, tmp_path: Path) -> None:
    """Words like those that are taken, and parts and joins of them, as functions and as parameters."""
    rng = random.Random(20261129)
    words = [
        *C_WORDS.split(),
        *CPP_WORDS.split(),
        *GNU_WORDS.split(),
        "row",
        "far",
        "near",
        "module",
        "final",
    ]
    drawn = {word.upper() for word in words} | {word[:-1] for word in words} | {f"{word}s" for word in words}
    drawn |= {f"{rng.choice(words)}_{rng.choice(words)}" for _ in range(40)} | set(words)
    names = list(accepted({name for name in drawn if len(name) > 1}))
    assert len(names) > 200
    text = "\n".join(
        f"unsigned {name}(unsigned {other}, unsigned t) {{ return {other} * 2 + t; }}"
        for name, other in zip(names, names[1:] + names[:1], strict=True)
    )
    source = tmp_path / f"names.{'c' if language == 'c' else 'cpp'}"
    source.write_text(text + "\n", encoding="utf-8")
    words = [*find_compiler("c" if language == "c" else "c++"), "-Wall", "-fsyntax-only", str(source)]
    for dialect in DIALECTS[language]:
        done = subprocess.run([*words, f"-std={dialect}"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (dialect, done.stderr[:2000])


@each("language", ["c", "c++"])
def test_index_functions_compile_without_warnings(language: str, tmp_path: Path) -> None:
    """A mode of stride 0, or of one element, has a parameter that nothing reads."""
    rng = random.Random(20261129)
    texts = []
    for number in range(24):
        shape = tuple(rng.choice((1, 2, 5, 8)) for _ in range(rng.randrange(1, 5)))
        layout = Layout(shape, tuple(rng.choice((0, 1, 8, 40)) for _ in shape))
        texts.append(code(layout, "c", f"at{number}"))
        if len(shape) > 2:
            texts.append(code(layout, "c", f"on{number}", carry=f"c{len(shape) - 1}", unit="bytes"))
    assert any("(void)" in text for text in texts)
    source = tmp_path / f"index.{'c' if language == 'c' else 'cpp'}"
    head = "".join(f"{text.partition('{')[0].strip()};\n" for text in texts)
    source.write_text(head + "\n".join(texts) + "\n", encoding="utf-8")
    words = find_compiler("c" if language == "c" else "c++")
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-fsyntax-only")
    done = subprocess.run([*words, *flags, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
