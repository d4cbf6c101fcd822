"""What a launch must give: read from the record, stated in every place alike, true at its edges, held to."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen.expr import GRID_LIMITS, Var
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import (
    check_argument,
    check_integers,
    contract,
    dynamic_bytes,
    lines,
    text,
)
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.launch_contract import Parameter
from layoutalg.errors import ArgumentTypeError, IRError, ShapeError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.registry import LADDERS, find_steps
from layoutalg.layout import Layout
from tests.command import answer
from tests.draws.domains import TRIALS, misstated, stated
from tests.draws.sequences import launches_of, problem_of
from tests.sweeps import each


def many() -> KernelBuilder:
    """Every kind of parameter, a condition, a grid of three axes that can be too long, shared memory."""
    k = KernelBuilder("many", threads=64)
    m, n = k.param("m", 1 << 33, 8, multiple=8), k.param("n", 100)
    k.pointer("src", 2)
    k.pointer("dst", 16, writable=True, align_bytes=32)
    k.word("alpha", "the 32 bits of the f32 alpha")
    k.constant("ld", 96)
    k.shared_buffer("tile", 4, Layout(20000), 20000, 16)
    k.block(0, (m + 7) // 8 * 4)
    k.block(1, n)
    k.require(n <= m + 1)
    return k


def test_a_contract_is_what_the_record_declares() -> None:
    terms = contract(many().build())
    assert terms.parameters == (
        Parameter("m", "int", 8, 1 << 33, 8), Parameter("n", "int", 1, 100, 1),
        Parameter("src", "pointer", align_bytes=16),
        Parameter("dst", "pointer", align_bytes=32, written=True),
        Parameter("alpha", "scalar", 0, (1 << 32) - 1, 1, holds="the 32 bits of the f32 alpha"),
        Parameter("ld", "int", 96, 96, 1, built_in=True),
    )  # fmt: skip
    assert (terms.block, terms.dynamic_shared_bytes) == ((64, 1, 1), 80000)
    assert [text(n) for n in terms.grid] == ["(m + 7) / 8 * 4", "n", "1"]
    assert [text(c) for c in terms.conditions] == ["n <= m + 1", f"(m + 7) / 8 * 4 <= {GRID_LIMITS[0]}"]
    assert dynamic_bytes(many().build()) and not dynamic_bytes(replace(many().build(), shared=()))


def test_a_contract_in_words() -> None:
    assert list(lines(contract(many().build()))) == [
        "Launch ((m + 7) / 8 * 4, n, 1) blocks of 64 threads, 80000 bytes of dynamic shared memory, for",
        "  m      8 to 8589934592, a multiple of 8", "  n      1 to 100",
        "  src    an address that is a multiple of 16",
        "  dst    an address that is a multiple of 32",
        "  alpha  the 32 bits of the f32 alpha", "  ld     96, built in", "  n <= m + 1",
        "  (m + 7) / 8 * 4 <= 2147483647",
        "A buffer that is written must not overlap another one.",
    ]  # fmt: skip
    k = KernelBuilder("one", threads=32)
    assert list(lines(contract(k.build()))) == ["Launch 1 block of 32 threads."]
    k.param("m", 70, 64, multiple=64)
    assert list(lines(contract(k.build()))) == ["Launch 1 block of 32 threads, for", "  m  64"]


def test_integers_are_held_to_ranges_multiples_and_conditions() -> None:
    kernel = many().build()
    given: dict[str, object] = {"m": 8, "n": 9, "alpha": 5, "src": None, "dst": None}
    check_integers(kernel, given)
    for name, wrong in (("m", 12), ("m", 0), ("m", 1 << 34), ("n", 101), ("n", 0), ("alpha", 1 << 32)):
        with pytest.raises(ShapeError, match=f"{name} = {wrong}: this kernel was built for"):
            check_integers(kernel, {**given, name: wrong})
    with pytest.raises(ShapeError, match=r"many was built for n <= m \+ 1, not for m = 8, n = 10"):
        check_integers(kernel, {**given, "n": 10})
    with pytest.raises(ArgumentTypeError, match=r"n = 9\.0: an int is needed"):
        check_integers(kernel, {**given, "n": 9.0})
    check_argument(Var("m", 9, "param"), 8)


def test_a_condition_is_of_parameters() -> None:
    k = KernelBuilder("thread", threads=32)
    k.require(k.tid < k.param("n", 8))
    with pytest.raises(IRError, match="the condition tid < n must compare parameters only"):
        check(k.build())
    one = KernelBuilder("one", threads=32)
    one.require(one.param("n", 64, 64) <= one.param("ld", 80))
    assert [text(c) for c in one.build().conditions] == ["n <= ld"]  # as it was written, not 63 < ld
    always = KernelBuilder("always", threads=32)
    always.require(always.param("n", 8) < 9)
    assert always.build().conditions == ()


def test_statements_cannot_rely_on_more_than_is_declared() -> None:
    """A parameter that is declared anew, with another range or multiple, is not the statements' one."""
    family = FAMILIES["transpose"]
    p = family.problem(256, 256, "f32")
    kernel = family.build(p, family.configs(p, "sm_90")[0])
    (m,) = (p for p in kernel.params if isinstance(p, Var) and p.name == "m")
    check(kernel)
    assert (m.facts.lo, m.facts.hi, m.multiple) == (4, 256, 4)
    for wrong in (Var("m", 257, "param", 4), Var("m", 300, "param", 4, 4), Var("m", 257, "param", 8, 4)):
        params = tuple(wrong if p == m else p for p in kernel.params)
        with pytest.raises(IRError, match=r"parameters only|not in scope"):
            check(replace(kernel, params=params))


@pytest.mark.deep
@each("name", TRIALS)
def test_a_kernel_is_right_at_the_edges_of_what_its_text_states(name: str) -> None:
    """The bench runs many more."""
    assert TRIALS[name](random.Random(f"edges of {name}"), 1) == []


LADDER = [
    (name, step)
    for name in LADDERS
    if name != "gemm-sm90"  # whose texts state maps and clusters: test_map_contract
    for step in list(find_steps(name))[::4]
]


@each(("family", "step"), LADDER, sample=5)
def test_the_steps_of_a_ladder_state_what_they_are_held_to(family: str, step: str) -> None:
    chosen = FAMILIES[family]
    kernel = chosen.build(chosen.problem(512), find_steps(family)[step])
    assert misstated(kernel, random.Random(step)) == []


COMMANDS = {
    "transpose": ("--m", "100", "--n", "80", "--ldd", "104", "--dtype", "f16"),
    "tiled_copy": ("--m", "1000000", "--n", "1000000", "--dtype", "u8"),
    "gemm-simt": ("--m", "256", "--n", "256", "--k", "256", "--dtype", "f64"),
    "gemm-sm80": ("--m", "256", "--n", "256", "--k", "2048"),
    "permute": ("--shape", "8,30,16", "--axes", "2,0,1"),
    "sum": ("--shape", "64,1000"),
    "softmax": ("--shape", "20000,8", "--axes", "0", "--part", "2"),
}


@each("family", COMMANDS, sample=4)
def test_json_says_what_the_text_says(family: str) -> None:
    payload = answer("generate", family, *COMMANDS[family])
    launch, says = payload["launch"], stated(payload["source"])
    kinds: dict[Any, dict[str, Any]] = {kind: {} for kind in ("int", "scalar", "pointer", "built in")}
    for p in launch["parameters"]:
        kinds["built in" if p["built_in"] else p["kind"]][p["name"]] = p
    ints = {name: (p["least"], p["most"], p["multiple"]) for name, p in kinds["int"].items()}
    assert ints == says.ranges and sorted(kinds["scalar"]) == sorted(says.scalars)
    assert {name: p["align_bytes"] for name, p in kinds["pointer"].items()} == says.aligned
    assert {name: p["least"] for name, p in kinds["built in"].items()} == says.built_in
    assert tuple(map(str, launch["grid"])) == says.grid
    assert launch["conditions"] == [f"{a} <= {b}" for a, b in says.conditions]
    assert (launch["block"], launch["dynamic_shared_bytes"]) == ([says.threads, 1, 1], says.dynamic)
    signature = re.sub(r"\s+", " ", payload["source"].split(f"{payload['kernel']}(")[1].split(")")[0])
    assert signature == ", ".join(
        f"{p['type']} __restrict__ {p['name']}" if p["kind"] == "pointer"
        else f"const {p['type']} {p['name']}"
        for p in launch["parameters"] if not p["built_in"]
    )  # fmt: skip


def test_a_chain_says_it_of_each_of_its_kernels() -> None:
    kernels = launches_of(problem_of("softmax", (20000, 8), (0,), "f32"), "sm_90").kernels
    assert len(kernels) == 2
    for kernel in kernels:
        assert not misstated(kernel, random.Random(1)) and launch_grid(kernel, {})[0] > 0
