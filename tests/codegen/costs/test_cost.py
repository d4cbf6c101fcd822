"""The cost model against machine code: what NVRTC makes of the expression for sm_90a, read by nvdisasm."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from layoutalg.codegen.expr import Expr, Minus, Select, Var, as_expr, index_cost, simplify, to_c, variables
from layoutalg.codegen.expr.ctext import VARIABLE_DIVISION, instructions
from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, version
from layoutalg.codegen.gpu.sass import find_disassembler
from layoutalg.errors import UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, product
from layoutalg.testing import layouts
from tests.draws.ctext_cases import TYPES
from tests.sweeps import each

A, B, C, D = (Var(name, 256) for name in "abcd")
TILE = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
F32 = ComposedLayout(Swizzle(5, 0, 5), 0, Layout((32, 32), (32, 1)))

EXPRESSIONS: dict[str, Expr] = {
    "a variable": A, "a product": A * 12, "a shift": A * 8, "four terms": A + B + C + D,
    "a product in a sum": A * 12 + B, "a shift in a sum": A * 8 + B, "two products": A * 12 + B * 20,
    "products and a rest": A * 8 + B * 4 + C, "a sum times a constant": (A + B) * 12, "a remainder": A % 8,
    "a digit": A // 8 % 4, "a masked xor": (A ^ B) & 56, "four inputs": A ^ B ^ (C & 7),
    "a swizzle": (A ^ (A // 8 & 56)) + 1024, "a quotient by 3": A // 3, "a decimal digit": A // 10 % 10,
    "quotient and remainder share": A // 12 * 40 + A % 12,
    "three digits": A % 3 * 35 + A // 3 % 5 * 7 + A // 15,
    "three digits, step by step": A % 3 * 35 + A // 3 % 5 * 7 + A // 3 // 5,
    "a difference of a product": 4096 - A * 12, "a difference in a sum": (255 - A) * 12 + B,
    "a difference that stops at 0": Minus(A, B), "a guard": Select((A < B) & (C < D), C, D),
    "a swizzled tile": simplify(as_expr(TILE(A // 8, A % 8 * 8))),
    "hierarchical": simplify(as_expr(Layout(((2, 4), 8), ((1, 16), 2))(A))),
}  # fmt: skip


@pytest.fixture(scope="module")
def machine_code() -> dict[str, Counter[str]]:
    """Instructions of each expression by name, those of loading and storing left out."""
    try:
        find_disassembler()
        version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    source = TYPES
    for n, node in enumerate(EXPRESSIONS.values()):
        names = sorted(v.name for v in variables(node))
        loads = " ".join(f"const u32 {name} = p[{k}];" for k, name in enumerate(names))
        source += (
            f'extern "C" __global__ void k{n}(const u32* __restrict__ in, u32* __restrict__ out) '
            f"{{ const u32* p = in + threadIdx.x * 8; {loads} out[threadIdx.x] = {to_c(node)}; }}\n"
        )
    counts = {
        list(EXPRESSIONS)[int(f.name[1:])]: Counter(
            i.opcode.partition(".")[0].removeprefix("U") for i in f.instructions
        )
        for f in parse_sass(disassemble(compile_cubin(source, "k0", "sm_90a").image))
    }
    return {what: found - counts["a variable"] for what, found in counts.items()}


def integer_instructions(found: Counter[str]) -> int:
    kinds = {"IMAD", "IADD3", "VIADD", "LEA", "LOP3", "SHF", "ISETP", "SEL", "PRMT", "BFE", "SGXT"}
    return sum(n for name, n in found.items() if name in kinds)


def test_the_model_counts_what_the_compiler_makes(machine_code: dict[str, Counter[str]]) -> None:
    """Equal for NVRTC 13.5; another compiler may find or miss one instruction."""
    made = {what: integer_instructions(found) for what, found in machine_code.items()}
    for what, node in EXPRESSIONS.items():
        assert abs(index_cost(node) - made[what]) <= 1, what
    total = sum(made.values())
    assert total > 50 and abs(sum(map(index_cost, EXPRESSIONS.values())) - total) <= 0.05 * total


@each(
    ("node", "counts"),
    [
        (A, {}),
        (A * 8 + B * 3 + C + 5, {"LEA": 1, "IMAD": 1, "IADD3": 1}),
        (A << 3, {"SHF": 1}),
        (A // 3 // 5, {"IMAD": 1, "SHF": 1}),
        (A >> 3, {"SHF": 1}),
        (A * B, {"IMAD": 1}),
        ((A < 3) & (B < C) | A.eq(B), {"ISETP": 3}),
        (A // (B + 1), {"DIV": VARIABLE_DIVISION, "IADD3": 1}),
        (A % (B + 1), {"DIV": VARIABLE_DIVISION, "IADD3": 1, "IMAD": 1}),
        (A % 8 ^ A // 8 % 8, {"LOP3": 1, "SHF": 1}),
    ],
)
def test_what_is_counted(node: Expr, counts: dict[str, int]) -> None:
    assert instructions(node) == counts


def test_equal_parts_count_once_and_values_past_32_bits_twice() -> None:
    shared, wide = A // 3, Var("w", 1 << 40)
    assert index_cost(shared, shared * 5, shared + B) == 2 + 1 + 1 and index_cost() == 0
    assert instructions(wide // 8 + A) == {"IADD3": 2, "SHF": 2}
    assert index_cost(Var("row", 1 << 20) * Var("ld", 1 << 20) + A) == 2


@given(layouts())
def test_simplifying_a_layout_never_costs_more(layout: Layout) -> None:
    """And pays for swizzled, padded and hierarchical tiles that are called on thread and step."""
    called = as_expr(layout(Var("i", product(layout.shape))))
    assert index_cost(simplify(called)) <= index_cost(called)
    tid, step = Var("tid", 128), Var("i", 4)
    for tile in (TILE, Layout((64, 64), (65, 1)), Layout(((8, 8), (8, 8)), ((8, 512), (1, 64)))):
        called = as_expr(tile(tid // 8 + step * 16, tid % 8 * 8))
        assert index_cost(simplify(called)) < index_cost(called)
