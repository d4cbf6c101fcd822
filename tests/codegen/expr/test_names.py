"""Names in generated text: what is refused, by every record, and that what is accepted compiles."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen import program
from layoutalg.codegen.expr import Const, Var, check_name
from layoutalg.codegen.expr.names import BUILT_IN
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.codegen.instr import STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program.checks import check
from layoutalg.errors import IRError, LayoutAlgError
from layoutalg.indexing import code
from layoutalg.layout import Layout
from tests.stand_ins.compiled_once import hostcc
from tests.stand_ins.nvcc import NVCC, needs_nvcc
from tests.sweeps import each

BROKEN_WORDS = '2x _x a-b a; a__b __shfl_sync naïve x) // "'
BROKEN = [*BROKEN_WORDS.split(), "", "a b", "x\n", "n" * 64]
TAKEN = """
    threadIdx u32 smem main warpSize atomicAdd min max fmaxf sin sinf exp2f rsqrtf printf malloc memcpy
    clock64 dim3 uint4 float2 make_uint4 cudaMalloc cuLaunchKernel CUDART_VERSION size_t tex2D isnan
"""
WORDS = """
    auto break case char const continue default do double else enum extern float for goto if int long register
    return short signed sizeof static struct switch typedef union unsigned void volatile while
    inline restrict
    alignas alignof bool constexpr false nullptr static_assert thread_local true typeof typeof_unqual

    alignas alignof asm auto bool break case catch char char8_t char16_t char32_t class concept
    const consteval constexpr constinit const_cast continue contract_assert co_await co_return
    co_yield decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept nullptr operator private
    protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while and and_eq bitand bitor compl
    not not_eq or or_eq xor xor_eq

    asm inline typeof linux unix i386
"""
"""ISO C89, what C99 and what C23 added (6.4.1) but for those that begin with _; ISO C++, table 5 (keywords)
of C++98 to C++26, and table 6 (alternative tokens); GCC manual, "Alternate Keywords" and "System-specific
Predefined Macros" of the gnu dialects."""
STANDARD = WORDS.split()
DIALECTS = {
    "c": ("gnu89", "gnu99", "gnu11", "gnu17", "gnu2x", "c99", "c17", "c2x"),
    "c++": ("gnu++98", "gnu++11", "gnu++17", "gnu++20", "gnu++2b", "c++17", "c++20"),
}


@each("name", [*BROKEN, *TAKEN.split(), *sorted(set(STANDARD))])
def test_nothing_but_free_identifiers_reaches_generated_text(name: str) -> None:
    why = "letters, digits or _" if name in BROKEN else "has a meaning there"
    with pytest.raises(IRError, match=f"cannot name something in CUDA text: .*{why}"):
        check_name(name)
    for language, more in (("c", {"name": name}), ("cuda", {"parameters": ["row", name]})):
        if name in STANDARD:
            with pytest.raises(LayoutAlgError):
                code(Layout((8, 64), (64, 1)), language, **more)


def test_identifiers_are_names_and_a_name_is_a_text() -> None:
    for name in ("tile", "A", "x2", "a_b", "n" * 63, "y1", "j0", "maximum", "curve", "cull"):
        assert check_name(name) == name
    others: tuple[Any, ...] = (None, 3, b"x", [], {})
    for value in others:
        with pytest.raises(IRError, match="cannot name"):
            check_name(value)


def kernel() -> program.Kernel:
    k = KernelBuilder("k", threads=32)
    n, y, r = k.param("n", 100), k.pointer("y", 4, writable=True), k.reg("r", 1)
    k.shared_buffer("s", 4, Layout(8), 32, 16)
    with k.If(k.tid < n):
        k.do(STG[4], k.at(y, k.let("i", n + k.tid)), r)
    return k.build()


RECORDS: list[Callable[[str], object]] = [
    lambda name: program.Global(name, 4, (Const(1),), False),
    lambda name: program.Shared(name, 4, Layout(8), 32, 16, 0),
    lambda name: program.Reg(name, (1,)),
    lambda name: Var(name, 8, "param", 1),
    lambda name: KernelBuilder(name, 32),
    lambda name: replace(kernel(), name=name),
]


@each(("number", "make"), list(enumerate(RECORDS)))
def test_a_record_checks_its_name(number: int, make: Callable[[str], object]) -> None:
    """A variable may be y1; a function of that name is another one already, and a kernel is a function."""
    make("tile")
    for name in (
        "x; asm(",
        "int",
        "_x",
        "atomicAdd",
        "a__b",
        "x\n#define y",
        *(["y1"] if number > 3 else []),
    ):
        with pytest.raises(IRError, match="cannot name"):
            make(name)


def test_what_the_text_declares_itself_may_be_a_variable() -> None:
    assert {Var(name, 8).name for name in BUILT_IN} == BUILT_IN


def test_two_things_of_a_kernel_do_not_share_a_name() -> None:
    k = kernel()
    for regs in ((("r", 1), ("r", 2)), (("y", 1),), (("k", 1),)):
        with pytest.raises(IRError, match="names 2 things of k"):
            replace(k, regs=tuple(program.Reg(name, (n,)) for name, n in regs))
    (guard,) = k.body
    assert isinstance(guard, program.If)
    for name in ("y", "s", "r", "n"):
        hidden = replace(guard, body=(program.Let(Var(name, 8, "let"), Const(3)),))
        with pytest.raises(IRError, match="shadowing"):
            check(replace(k, body=(hidden,)))


def accepted(names: Iterable[str]) -> list[str]:
    """The names that a kernel may have."""
    free = []
    for name in sorted(names):
        try:
            free.append(check_name(name, "kernel"))
        except IRError:
            continue
    return free


@pytest.mark.deep
def test_what_is_accepted_compiles() -> None:
    """Whatever the headers mention and we accept names a kernel, its parameter and a variable in it."""
    spec = find_spec("nvidia")
    folders = [Path(f) for f in (spec.submodule_search_locations or ())] if spec else []
    texts = [p.read_text(errors="replace") for f in folders for p in sorted(f.glob("*/include/*.h*"))]
    free = accepted({name for text in texts for name in re.findall(r"\b[A-Za-z]\w{0,62}\b", text)})
    assert len(free) > 1500
    chosen = random.Random(7).sample(free, 400)
    text = "\n".join(
        f'extern "C" __global__ void {name}(unsigned* {name}_p, unsigned {other}) '
        f"{{ const unsigned v_{name} = {other}; {name}_p[threadIdx.x] = v_{name}; }}"
        for name, other in zip(chosen, chosen[1:] + chosen[:1], strict=True)
    )
    assert compile_cubin(text, chosen[0], "sm_80").image


def defined(*command: str) -> set[str]:
    """The macros that a compiler has before any text."""
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    return set(re.findall(r"^#define ([A-Za-z]\w*)", done.stdout, re.M))


def host(language: str) -> list[str]:
    return [*hostcc.find_compiler("c" if language == "c" else "c++")]


@each("language", DIALECTS)
def test_a_macro_of_the_host_compiler_is_not_a_name(language: str) -> None:
    for dialect in (DIALECTS[language][0], DIALECTS[language][-1]):
        words = "-x", language, f"-std={dialect}", "-dM", "-E", "-"
        assert not accepted(defined(*host(language), *words)), dialect


@needs_nvcc
def test_a_macro_of_what_nvcc_includes_is_not_a_name(tmp_path: Path) -> None:
    source = tmp_path / "empty.cu"
    source.touch()
    found = defined(str(NVCC), "-E", "-Xcompiler", "-dM", str(source))
    assert len(found) > 100 and not accepted(found)


def assert_compiles(text: str, language: str, folder: Path, *flags: str) -> None:
    source = folder / f"text.{'c' if language == 'c' else 'cpp'}"
    source.write_text(text + "\n", encoding="utf-8")
    words = [*host(language), *flags, "-Wall", "-fsyntax-only", str(source)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (flags, done.stderr[:2000])


@each("language", DIALECTS)
def test_a_name_that_is_accepted_compiles_in_every_dialect(language: str, tmp_path: Path) -> None:
    """Words like those that are taken, and parts and joins of them, as functions and as parameters."""
    rng, words = random.Random(20261129), [*STANDARD, "row", "far", "near", "module", "final"]
    drawn = {other for word in words for other in (word, word.upper(), word[:-1], f"{word}s")}
    drawn |= {f"{rng.choice(words)}_{rng.choice(words)}" for _ in range(40)}
    names = accepted(name for name in drawn if len(name) > 1)
    assert len(names) > 200
    text = "\n".join(
        f"unsigned {name}(unsigned {other}, unsigned t) {{ return {other} * 2 + t; }}"
        for name, other in zip(names, names[1:] + names[:1], strict=True)
    )
    for dialect in DIALECTS[language]:
        assert_compiles(text, language, tmp_path, f"-std={dialect}")


@each("language", DIALECTS)
def test_index_functions_compile_without_warnings(language: str, tmp_path: Path) -> None:
    """A mode of stride 0, or of one element, has a parameter that nothing reads."""
    rng, texts = random.Random(20261129), []
    for number in range(24):
        shape = tuple(rng.choice((1, 2, 5, 8)) for _ in range(rng.randrange(1, 5)))
        layout = Layout(shape, tuple(rng.choice((0, 1, 8, 40)) for _ in shape))
        texts.append(code(layout, "c", f"at{number}"))
        if len(shape) > 2:
            texts.append(code(layout, "c", f"on{number}", carry=f"c{len(shape) - 1}", unit="bytes"))
    assert any("(void)" in text for text in texts)
    heads = [f"{text.partition('{')[0].strip()};" for text in texts]
    assert_compiles("\n".join(heads + texts), language, tmp_path, "-Wextra", "-Werror", "-pedantic-errors")
