"""Permutes that convert: definition == simulator == host-run text, and costs of either element size."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest

import layoutalg as la
from layoutalg.codegen.costs import Cost, traffic
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.program import is_dynamic
from layoutalg.codegen.sim import simulate
from layoutalg.errors import AlignmentError, ArgumentTypeError, UnsupportedError
from layoutalg.kernels import find_family, verify
from layoutalg.kernels.move import least_bytes
from layoutalg.kernels.move.plan import best, configs
from layoutalg.kernels.move.problem import (
    PermuteProblem,
    normalise,
    permute_problem,
    reference,
    relayout_problem,
)
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import Stage
from layoutalg.kernels.move.tiles import loaded_units, moved_bytes, stored_units
from layoutalg.kernels.sizes import buffer_bytes
from tests.hostshim import run_cuda_text
from tests.permutations import random_buffers, random_conversion, same_numbers
from tests.sweeps import each, first

RANDOM, A_BATCH = 300, 20
NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "u8": "uint8", "s8": "int8", "s16": "int16",
    "s32": "int32", "s64": "int64",
}  # fmt: skip


def raw(array: Any) -> Any:
    return array.view("u1").copy()


def same(p: PermuteProblem, found: Any, expected: Any) -> bool:
    assert p.result is not None
    return same_numbers(found.view(expected.dtype), expected, p.result.name)


@pytest.mark.deep
@pytest.mark.parametrize("batch", first(3, range(RANDOM // A_BATCH)))
def test_random_conversions_agree(batch: int) -> None:
    for seed in range(batch * A_BATCH, (batch + 1) * A_BATCH):
        rng = random.Random(seed)
        p = random_conversion(rng, 1500)
        x = normalise(p)
        c = rng.choice(configs(x))
        src, old = random_buffers(p, seed)
        dst = raw(old)
        given = {"src": raw(src), "dst": dst}
        run = simulate(build(x, c), given, group="warp" if seed % 10 == 0 else "block")
        assert same(p, dst, reference(p, src, old)), (p, c)
        ran = {site.op for site in run.trace.sites if run.trace.total(site.op)[0]}
        assert {op: Cost(*run.trace.total(op)) for op in ran} == dict(traffic(build(x, c), {})), (p, c)


@pytest.mark.deep
@each(
    "types", [("f64", "bf16"), ("s64", "f16"), ("f32", "s64"), ("f64", "u8"), ("bf16", "s16"), ("u8", "f64")]
)
def test_the_printed_text_converts_as_the_definition(types: tuple[str, str]) -> None:
    p = permute_problem((7, 22, 33), (2, 0, 1), types[0], result=types[1])
    kernel = build(normalise(p), best(normalise(p)))
    src, old = random_buffers(p, 3)
    dst = raw(old)
    dynamic = kernel.shared_bytes if is_dynamic(kernel) else 0
    grid = launch_grid(kernel, {})
    run_cuda_text(to_cuda(kernel), kernel.name, grid, (kernel.threads, 1, 1), [raw(src), dst], dynamic)
    assert same(p, dst, reference(p, src, old))


@each("source", NUMPY, sample=7)
@each("result", NUMPY, sample=1)
def test_calls_are_numpys_of_numbers_that_fit(source: str, result: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 128, (7, 5, 9)).astype(NUMPY[source])
    if source.startswith("f"):
        x += rng.choice([0, 0.25, 0.5], x.shape).astype(x.dtype)
    expected = x.transpose(2, 0, 1).astype(NUMPY[result])
    for options in ({}, {"simulate": True}):
        found = la.ops.permute(x, (2, 0, 1), dtype=NUMPY[result], **options)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    out = np.zeros((9, 14, 5), NUMPY[result])[:, ::2]
    assert la.ops.permute(x, (2, 0, 1), out, NUMPY[result]) is out and np.array_equal(out, expected)
    assert np.array_equal(la.ops.transpose(x[::-2], dtype=result), x[::-2].T.astype(NUMPY[result]))


@each("simulate", [False, True])
def test_a_relayout_converts(simulate: bool) -> None:
    src, dst = la.Layout((4, 6), (6, 1)), la.Layout((4, 6), (1, 5))
    x = np.arange(24, dtype="f4") + 0.5
    y = la.ops.relayout(x, src, dst, dtype="s16", simulate=simulate)
    assert y.dtype == np.int16 and len(y) == 29
    crd = np.arange(24)
    expected = np.zeros(29, "i2")
    expected[[dst(int(i)) for i in crd]] = x[[src(int(i)) for i in crd]].astype("i2")
    assert y.tolist() == expected.tolist()
    assert str(relayout_problem(src, dst, "f32", result="s16")).startswith("permute (4,6) f32 to s16")


def test_what_is_not_converted_is_refused() -> None:
    x = np.zeros((4, 6), "f4")
    with pytest.raises(UnsupportedError, match="bfloat16: numpy has no such type"):
        la.ops.permute(x, (1, 0), dtype="bfloat16")
    for order in (">f4", ">f2"):  # never the machine's order, for one that is asked for
        with pytest.raises(UnsupportedError, match=f"float32 converted to {order}"):
            la.ops.permute(x, (1, 0), dtype=order)
    turned = x.astype(">f4")
    assert la.ops.permute(turned, (1, 0), dtype=">f4").dtype == turned.dtype
    with pytest.raises(UnsupportedError, match="float32 converted to complex64"):
        la.ops.permute(x, (1, 0), dtype="complex64")
    with pytest.raises(ArgumentTypeError, match="out may hold float16"):
        la.ops.permute(x, (1, 0), np.zeros((6, 4), "f4"), "float16")
    with pytest.raises(ArgumentTypeError, match="a type such as 'float32'"):
        la.ops.permute(x, (1, 0), dtype=3)
    cut = np.zeros(100, "u1")[2:98].view("f4").reshape(4, 6)
    with pytest.raises(AlignmentError, match="at multiples of 4"):
        la.ops.permute(cut, (1, 0), dtype="float16")
    with pytest.raises(UnsupportedError, match="conversions of c64"):
        permute_problem((2, 3), (1, 0), "c64", result="f32")


def test_the_type_of_the_source_asked_for_moves_bits() -> None:
    p = permute_problem((64, 128), (0, 1), "f32", result="f32")
    assert p.result is None and normalise(p).element_bytes == 16
    q = permute_problem((64, 128), (0, 1), "u8", result="s8")
    assert normalise(q).cast is None and normalise(q).element_bytes == 16
    assert la.ops.permute(np.ones((2, 3), "c8"), (1, 0), dtype="complex64").dtype == np.complex64


@each("types", [("f32", "f16"), ("u8", "f32"), ("f64", "s8"), ("s16", "s64")])
def test_bytes_are_those_of_either_size(types: tuple[str, str]) -> None:
    source, result = types
    p = permute_problem((64, 32, 96), (2, 1, 0), source, result=result)
    n, (read, written) = prod(p.shape), (p.element_bytes, p.result_bytes)
    assert p.moved_bytes == n * (read + written)
    x = normalise(p)
    least = least_bytes(x)
    assert least == (-(-n * read // 64) * 64, -(-n * written // 32) * 32)
    stage = Stage(x, best(x))
    assert moved_bytes(stage) == n * (read + written) / 2
    assert loaded_units(stage, 32) >= n * read / 32 and stored_units(stage, 32) >= n * written / 32
    costs = traffic(build(x, stage.config), {})
    stored = sum(cost.total for op, cost in costs.items() if op.startswith("st.global"))
    assert stored == n * written / 32
    family = find_family("permute")
    sizes = buffer_bytes(p, family.launches(p, stage.config, "sm_90"))
    assert {name: str(nbytes) for name, nbytes in sizes.items()} == {
        "src": str(n * read), "dst": str(n * written)
    }  # fmt: skip


@pytest.mark.deep
@each("types", [("f32", "f16"), ("f16", "s8"), ("u8", "bf16")])
def test_a_conversion_verifies(types: tuple[str, str]) -> None:
    family = find_family("permute")
    p = family.problem((13, 22, 35), (2, 0, 1), types[0], result=types[1])
    report = verify(family, p)
    assert report.passed and {c.name for c in report.checks} >= {"result, one warp at a time"}
