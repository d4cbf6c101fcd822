"""Attention: its definition, what is refused, its layouts, and its kernel in the simulator."""

from __future__ import annotations

import math
import random
from itertools import islice
from typing import Any

import numpy as np
import pytest

from layoutalg import errors, make_tiled_mma
from layoutalg import ops as la_ops
from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.codegen.terms import exp2, tanh
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.attention import attention_problem, reference
from layoutalg.kernels.attention.family import CONFIGS, _near, by_tma
from layoutalg.kernels.attention.program import ROWS, AttentionConfig, as_operand, build
from layoutalg.kernels.checks.attention import _buffers
from layoutalg.layout import Layout, modes
from tests.command import run
from tests.kernels.attention.cases import Case, drawn
from tests.mutants.ordering import mutants
from tests.sweeps import each
from tests.tiers import first_tier

SMALL = AttentionConfig(2, 16)


def alibi(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return s - (i - j).to("f32") * exp2(h.to("f32") * -0.5)


def capped(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return tanh(s / 5.0) * 5.0


# --- the definition --------------------------------------------------------------------------------------


def by_rows(p: Any, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Attention, one query at a time."""
    o, lse = np.zeros(p.shape("o")), np.full(p.shape("o")[:3], -np.inf)
    for b, h, i in np.ndindex(lse.shape):
        at = i + (p.n - p.m if p.align == "bottom-right" else 0)
        first = 0 if p.left is None else max(0, at - p.left)
        end = p.n if p.right is None else min(p.n, at + p.right + 1)
        seen = slice(first, max(first, end))
        s = p.scale * k[b, h // p.group, seen] @ q[b, h, i]
        if s.size:
            lse[b, h, i] = np.logaddexp.reduce(s)
            o[b, h, i] = np.exp(s - lse[b, h, i]) @ v[b, h // p.group, seen]
    return o, lse


@each("align", ["bottom-right", "top-left"])
@each("window", [(None, None), (None, 0), (3, 0), (2, 4), (None, 7)])
def test_the_definition_is_that_of_a_query_at_a_time(align: Any, window: Any) -> None:
    rng = np.random.default_rng(3)
    for m, n in ((5, 9), (9, 5), (6, 6)):
        p = attention_problem(2, 4, m, n, 64, group=2, window=window, align=align)
        given = [rng.standard_normal(p.shape(x)) for x in "qkv"]
        for found, wanted in zip(reference(p, *given), by_rows(p, *given), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)


@each("name", ["q", "k", "v"])
def test_nan_reaches_the_rows_that_see_it(name: str) -> None:
    """The row of q, the rows that see the key of k and v, in one column of v."""
    p = attention_problem(1, 2, 5, 7, 64, window=(2, 1))
    given = {x: np.ones(p.shape(x)) for x in "qkv"}
    given[name][0, 1, 3, 9] = np.nan
    o, lse = reference(p, *given.values())
    rows = np.arange(5) == 3 if name == "q" else p.seen[:, 3]
    wanted = np.zeros(p.shape("o"), bool)
    wanted[0, 1, rows, slice(9, 10) if name == "v" else slice(None)] = True
    np.testing.assert_array_equal(np.isnan(o), wanted)
    np.testing.assert_array_equal(np.isnan(lse), wanted.all(axis=3))


def test_operations_of_keys_that_are_seen() -> None:
    assert attention_problem(1, 1, 4, 4, 64).flops == 4 * 64 * 16
    assert attention_problem(1, 2, 4, 4, 64, causal=True).flops == 2 * 4 * 64 * 10
    assert attention_problem(1, 1, 4, 2, 64, causal=True).flops == 4 * 64 * 3


@each(
    "asked",
    [
        (errors.UnsupportedError, "64, 128, 256", {"d": 96}),
        (errors.UnsupportedError, "bf16 and f16", {"dtype": "f32"}),
        (errors.ShapeError, "divisor", {"group": 3}),
        (errors.ShapeError, "0 to", {"m": -1}),
        (errors.ArgumentTypeError, "integer", {"m": 1.5}),
        (errors.ArgumentTypeError, "finite", {"scale": math.inf}),
        (errors.ArgumentTypeError, "bottom-right", {"align": "left"}),
    ],
)
def test_a_problem_that_there_is_no_kernel_of(asked: Any) -> None:
    error, text, changed = asked
    with pytest.raises(error, match=text):
        attention_problem(**{"batch": 1, "heads": 4, "m": 8, "d": 64, **changed})


# --- layouts, and the program ----------------------------------------------------------------------------


@each("keys", [16, 80, 128, 176])
def test_sums_are_the_operand_of_the_next_product(keys: int) -> None:
    """Register by register, and of the same thread: a conversion is all that is between the products."""
    sums, product = (make_tiled_mma(f"SM90_64x{keys}x16_F32BF16BF16_{x}") for x in ("SS", "RS"))
    held, needed = sums.tidfrg("C", Layout((ROWS, keys))), product.tidfrg("A", Layout((ROWS, keys)))
    order = as_operand(sums, product, (ROWS, keys))
    registers = [order(i) for i in range(keys // 2)]
    assert registers == list(range(keys // 2))
    threads = [modes(x)[0] for x in (held, needed)]
    assert threads[0] == threads[1]


@pytest.mark.deep
def test_every_configuration_is_compiled_without_spills() -> None:
    """And without products that ptxas serializes, which `prepare` refuses."""
    for d, configs in CONFIGS.items():
        for config in configs:
            made = prepare(build(attention_problem(1, 1, 8, d=d, causal=True), config), "sm_90")
            assert made.cubin.spill_bytes == 0 and made.kernel.shared_bytes <= 232448


def test_one_kernel_serves_all_sizes() -> None:
    family = FAMILIES["attention"]
    one, other = (
        family.launches(p, family.choose(p, "sm_90"), "sm_90")
        for p in (attention_problem(1, 4, 99, causal=True), attention_problem(3, 2, 7, 1000, causal=True))
    )
    assert one.kernels[0] is other.kernels[0] and one.scalars != other.scalars


def test_the_order_of_tiles_gives_blocks_about_as_much() -> None:
    """And the fewest heads near each other that do; what no launch would end in is refused."""
    family = FAMILIES["attention"]
    for m, heads, fewest in ((1024, 256, 1), (16384, 16, 16)):
        p = attention_problem(1, heads, m, d=128, causal=True)
        config = family.choose(p, "sm_90")
        near, load = _near(p, config, 132)
        every = sum(-(-min(m, row + config.rows) // config.keys) + 1.5 for row in range(0, m, config.rows))
        assert near == fewest and every * heads / 132 <= load <= 1.04 * every * heads / 132
    with pytest.raises(errors.ResourceError, match="steps of 132 blocks"):
        family.choose(attention_problem(1, 1 << 16, 1 << 20, d=128), "sm_90")


# --- the simulator ---------------------------------------------------------------------------------------


@pytest.mark.deep
@each("seed", range(12))
def test_drawn_problems_are_computed_within_the_bound(seed: int) -> None:
    assert drawn(seed).wrong(group="warp" if seed % 3 == 0 else "block") == ""


@pytest.mark.deep
@each("window", [(None, None), (None, 0), (20, 10)])
def test_the_simulator_counts_the_bytes_that_tma_is_predicted_to_move(window: Any) -> None:
    case = Case(attention_problem(1, 4, 150, 90, 64, group=2, window=window), SMALL, 3)
    given = _buffers(case.p, "normal", 0) | {"blocks": 3}
    (run,) = simulate_sequence(printed_sequence(case.sequence), given, trace=False)
    assert by_tma(case.p, SMALL) == (run.counted["load"], run.counted["store"])


@pytest.mark.deep
@each("window", [(None, None), (None, 0), (20, 10)])
def test_nan_reaches_the_same_rows_in_the_kernel(window: Any) -> None:
    p = attention_problem(1, 2, 70, 90, 64, group=2, window=window)
    assert Case(p, SMALL, 2, "NaN").wrong() == ""


@pytest.mark.deep
@each("score", [alibi, capped, None])
def test_functions_of_scores(score: Any) -> None:
    p = attention_problem(1, 2, 70, 90, 64, score=score, causal=True, scale=None if score else -0.3)
    assert Case(p, AttentionConfig(2, 48)).wrong() == ""


@pytest.mark.deep
def test_equal_calls_give_equal_bits() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 2, 70, 64)).astype("f2") for _ in "qkv")
    first, second = (la_ops.attention(q, k, v, causal=True, return_lse=True, simulate=True) for _ in "12")
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


CAUSAL = Case(attention_problem(1, 1, 130, 35, 64, causal=True), SMALL)
LONGER = Case(attention_problem(1, 1, 260, 60, 64, causal=True), SMALL)
"""Where a wait for another barrier means the same in the first one, of other numbers of steps."""

HARMLESS = (
    "newest 0", "wgmma_commit twice", "form LBO", "before wgmma_m64", "fence_barrier_init before",
    "mbarrier_init", "before named_barrier", "before tma_load", "before mbarrier_wait", "before wgmma_wait",
    "before mbarrier_arrive_expect_tx", "named_barrier 8: number 4", "named_barrier 8: number 16",
    "named_barrier 9: number 4", "named_barrier 9: number 10", "named_barrier 9: number 18",
    "bulk_wait_read 0 by two threads", "] by the last thread", "named_arrive 1: number 2",
)  # fmt: skip
"""Mutants that may change nothing: a wait for more, an empty group, a leading byte offset that swizzled
operands of one atom do not read, a barrier that no one else has, and statements in another order that do not
meet, or round otherwise: bytes may arrive before they are expected, since the phase waits for that too.  A
thread without copies waits for none, any thread of a warpgroup may say that its products are done, and either
consumer may have the first turn."""


@pytest.mark.deep
def test_mistakes_in_what_orders_the_kernel_are_seen() -> None:
    some = list(islice(mutants(CAUSAL.sequence.kernels[0], random.Random(7)), 10 if first_tier() else 100))
    assert len(some) > 9
    for mutant in some:
        harmless = any(x in mutant.label for x in HARMLESS)
        assert harmless or CAUSAL.wrong(mutant.kernel) or LONGER.wrong(mutant.kernel), mutant.label


@pytest.mark.deep
@each("name", ["reach", "drop", "n", "m"])
def test_mistakes_in_masks_are_seen(name: str) -> None:
    words = dict(CAUSAL.sequence.scalars)
    assert CAUSAL.wrong() == "" and CAUSAL.wrong(words={name: words[name] + 1}) != ""


@pytest.mark.deep
def test_the_pipeline_is_drawn() -> None:
    shown = run("inspect", "pipeline", "attention", "--tiles", "2", "--ascii").stdout
    assert "consumer 5-7" in shown and "full_k1" in shown and "empty_v0" in shown


# --- calls -----------------------------------------------------------------------------------------------


def halves(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f2")


def test_a_call_on_the_cpu_is_the_definition() -> None:
    q, k, v = halves(2, 4, 5, 64), halves(2, 2, 7, 64), halves(2, 2, 7, 64)
    p = attention_problem(2, 4, 5, 7, 64, "f16", group=2, window=(2, 1))
    o, lse = la_ops.attention(q, k, v, window=(2, 1), return_lse=True)
    wanted = reference(p, q, k, v)
    np.testing.assert_array_equal(o, wanted[0].astype("f2"))
    np.testing.assert_array_equal(lse, wanted[1].astype("f4"))


def strided(x: Any) -> dict[str, Any]:
    """Arrays that TMA does not read, of these elements or the first head's: for each reason one."""
    wide = np.zeros((*x.shape[:3], x.shape[3] + 4), x.dtype)
    wide[..., :-4] = x
    late = np.zeros(x.size + 1, x.dtype)[1:].reshape(x.shape)
    late[...] = x
    return {
        "rows": wide[..., :-4], "backwards": x[:, :, ::-1].copy()[:, :, ::-1], "start": late,
        "columns": x.swapaxes(2, 3).copy().swapaxes(2, 3), "one": np.broadcast_to(x[:, :1], x.shape),
    }  # fmt: skip


@pytest.mark.deep
@each("why", ["rows", "backwards", "columns", "start", "one"])
def test_arrays_that_tma_does_not_read_are_copied(why: str) -> None:
    q, k, v = (strided(halves(1, 2, n, 64))[why] for n in (5, 7, 9))
    v = v[:, :, :7]
    out = strided(halves(1, 2, 5, 64))[why] if why != "one" else None
    dense_q, dense_k, dense_v = map(np.ascontiguousarray, (q, k, v))
    wanted = la_ops.attention(dense_q, dense_k, dense_v, causal=True, simulate=True)
    found = la_ops.attention(q, k, v, causal=True, out=out, simulate=True)
    np.testing.assert_array_equal(found, wanted)
    assert out is None or found is out
    with pytest.raises(errors.AlignmentError, match="copy=True copies it"):
        la_ops.attention(q, k, v, causal=True, copy=False, simulate=True)
    la_ops.attention(q, k, v, causal=True, copy=False)  # the definition reads all


def test_queries_that_see_nothing() -> None:
    q, k = halves(1, 2, 3, 64), halves(1, 2, 0, 64)
    o, lse = la_ops.attention(q, k, k, return_lse=True)
    assert not o.any() and np.isneginf(lse).all()
    assert la_ops.attention(halves(1, 2, 0, 64), k, k).shape == (1, 2, 0, 64)
    one = halves(1, 2, 1, 64)
    o, lse = la_ops.attention(q, one, one, causal=True, return_lse=True)
    assert not o[:, :, :2].any() and np.isneginf(lse[:, :, :2]).all() and o[:, :, 2].any()


@each(
    "asked",
    [
        (errors.ShapeError, "is needed", {"q": halves(2, 3, 64)}),
        (errors.ShapeError, "number of heads", {"k": halves(1, 3, 7, 64), "v": halves(1, 3, 7, 64)}),
        (errors.ShapeError, "of one shape", {"v": halves(1, 2, 6, 64)}),
        (errors.UnsupportedError, "float32", {"q": np.ones((1, 4, 5, 64), "f4")}),
        (errors.UnsupportedError, "64, 128, 256", {x: halves(1, 2, 7, 80) for x in "qkv"}),
        (errors.ArgumentTypeError, "True or False", {"causal": 1}),
        (errors.ArgumentTypeError, "left, right", {"window": 3}),
        (errors.ArgumentTypeError, "overlaps", {"out": "q"}),
    ],
)
def test_what_a_call_refuses(asked: Any) -> None:
    error, text, changed = asked
    given: dict[str, Any] = {
        "q": halves(1, 4, 5, 64),
        "k": halves(1, 2, 7, 64),
        "v": halves(1, 2, 7, 64),
    } | changed
    if given.get("out") == "q":
        given["out"] = given["q"]
    with pytest.raises(error, match=text):
        la_ops.attention(**given)
