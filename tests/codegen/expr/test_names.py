"""Names in generated text: what is refused, by every record, and that what is accepted compiles."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from layoutalg.codegen.expr import Const, Var, check_name
from layoutalg.codegen.expr.names import BUILT_IN
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.codegen.instr import STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global, If, Kernel, Let, Reg, Shared
from layoutalg.codegen.program.checks import check
from layoutalg.errors import IRError
from layoutalg.layout import Layout
from tests.sweeps import each


@each("name", ["tile", "A", "x2", "a_b", "n" * 63, "y1", "j0", "maximum", "curve", "cull"])
def test_identifiers_are_names(name: str) -> None:
    assert check_name(name) == name


BROKEN = [
    "", "2x", "_x", "a-b", "a b", "a;", "x\n", "a__b", "__shfl_sync", "n" * 64, "naïve", "x)", '"', "//",
    "asm;",
]  # fmt: skip
TAKEN = [
    "int", "float", "threadIdx", "u32", "smem", "this", "main", "warpSize", "atomicAdd", "min", "max",
    "fmaxf", "sin", "sinf", "exp2f", "rsqrtf", "printf", "malloc", "memcpy", "clock64", "dim3", "uint4",
    "float2", "make_uint4", "cudaMalloc", "cuLaunchKernel", "CUDART_VERSION", "size_t", "co_await", "tex2D",
    "isnan",
]  # fmt: skip


@each("name", BROKEN + TAKEN)
def test_nothing_but_free_identifiers_reaches_cuda_text(name: str) -> None:
    why = "it has a meaning there" if name in TAKEN else "a letter, then letters, digits or _"
    with pytest.raises(IRError, match=f"cannot name something in CUDA text: {why}"):
        check_name(name)


@pytest.mark.parametrize("value", [None, 3, b"x", [], {}])
def test_a_name_is_a_text(value: object) -> None:
    with pytest.raises(IRError, match="cannot name"):
        check_name(value)  # type: ignore[arg-type]


def kernel() -> Kernel:
    k = KernelBuilder("k", threads=32)
    n, y, r = k.param("n", 100), k.pointer("y", 4, writable=True), k.reg("r", 1)
    k.shared_buffer("s", 4, Layout(8), 32, 16)
    with k.If(k.tid < n):
        k.do(STG[4], k.at(y, k.let("i", n + k.tid)), r)
    return k.build()


RECORDS: list[Callable[[str], object]] = [
    lambda name: Global(name, 4, (Const(1),), False), lambda name: Shared(name, 4, Layout(8), 32, 16, 0),
    lambda name: Reg(name, (1,)), lambda name: Var(name, 8), lambda name: Var(name, 8, "param", 1),
    lambda name: replace(kernel(), name=name),
]  # fmt: skip


@each("make", RECORDS)
def test_a_record_that_is_made_without_the_builder_checks_its_name(make: Callable[[str], object]) -> None:
    make("tile")
    for name in ("x; asm(", "int", "_x", "atomicAdd", "a__b", "x\n#define y"):
        with pytest.raises(IRError, match="cannot name"):
            make(name)


def test_a_kernel_is_a_function() -> None:
    """A variable may be y1; a function of that name is another one already."""
    with pytest.raises(IRError, match="'y1' cannot name"):
        KernelBuilder("y1", 32)
    with pytest.raises(IRError, match="'y1' cannot name"):
        replace(kernel(), name="y1")


def test_what_the_text_declares_itself_may_be_a_variable() -> None:
    assert {Var(name, 8).name for name in BUILT_IN} == BUILT_IN


def test_two_things_of_a_kernel_do_not_share_a_name() -> None:
    k = kernel()
    for change in (
        {"regs": (Reg("r", (1,)), Reg("r", (2,)))},
        {"regs": (Reg("y", (1,)),)},
        {"regs": (Reg("k", (1,)),)},
    ):
        with pytest.raises(IRError, match="names 2 things of k"):
            replace(k, **change)


def test_a_variable_does_not_hide_what_is_declared() -> None:
    (guard,) = kernel().body
    assert isinstance(guard, If)
    for name in ("y", "s", "r", "n"):
        hidden = replace(guard, body=(Let(Var(name, 8, "let"), Const(3)),))
        with pytest.raises(IRError, match="shadowing"):
            check(replace(kernel(), body=(hidden,)))


def headers() -> list[str]:
    """Identifiers that the CUDA headers mention."""
    spec = find_spec("nvidia")
    folders = [Path(f) for f in (spec.submodule_search_locations or ())] if spec else []
    found: set[str] = set()
    for path in sorted(p for folder in folders for p in folder.glob("*/include/*.h*")):
        found |= set(re.findall(r"\b[A-Za-z]\w{0,62}\b", path.read_text(errors="replace")))
    return sorted(found)


@pytest.mark.deep
def test_what_is_accepted_compiles() -> None:
    """Whatever the headers mention and we accept names a kernel, its parameter and a variable in it."""
    mentioned = headers()
    assert len(mentioned) > 3000
    free: list[str] = []
    for name in mentioned:
        try:
            free.append(check_name(name, "kernel"))
        except IRError:
            continue
    assert len(free) > 1500
    chosen = random.Random(7).sample(free, 400)
    text = "\n".join(
        f'extern "C" __global__ void {name}(unsigned* {name}_p, unsigned {other}) '
        f"{{ const unsigned v_{name} = {other}; {name}_p[threadIdx.x] = v_{name}; }}"
        for name, other in zip(chosen, chosen[1:] + chosen[:1], strict=True)
    )
    assert compile_cubin(text, chosen[0], "sm_80").image
