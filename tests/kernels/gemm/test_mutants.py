"""Mistakes in programs of products: each is seen by the simulator, or changes nothing for a reason."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen.expr import Le, Lt, as_expr, minus
from layoutalg.codegen.program import If, Kernel, LaunchSequence, lower, printed
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels import find_family, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.gemm import GemmProblem, Sm80Config, Sm90Config, gemm_problem, group_words
from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.groups import sizes_of
from layoutalg.kernels.gemm.launches import called_launches
from layoutalg.kernels.gemm.programs.sm80 import build
from tests.hostshim import KernelFault
from tests.kernels.gemm import cases
from tests.mutants import planting, sm90
from tests.mutants.cases import CASES
from tests.mutants.ordering import Mutant, mutants
from tests.mutants.reasons import reason
from tests.sweeps import each, first, spread
from tests.tiers import first_tier

PRODUCTS = [name for name in CASES if name.startswith(("sm80", "simt"))]


@pytest.mark.deep(but=("simt ring", "simt registers"))
@pytest.mark.parametrize("name", PRODUCTS)
def test_mistakes_are_seen(name: str) -> None:
    case = CASES[name]()
    some = [m for m in case.mutants() if m.kind not in ("part", "unguard")]  # some guards hold anyway
    random.Random(name).shuffle(some)
    for mutant in spread(some, 6 if first_tier() else 30):
        assert case.verdict(mutant) or reason(name, case, mutant), f"{name}: {mutant}"


PLANTED = gemm_problem(20, 56, 152)
ON_HOST: dict[str, Any] = {
    **{f"no {name}": lambda kernel, name=name: planting.without(kernel, name)
       for name in ("cp_async_wait", "warp_sync")},
    "no predicate on D": planting.unguarded,
}  # fmt: skip


def wrong_on_host(kernel: Kernel, order: Any) -> bool:
    args = cases.arguments(PLANTED)
    try:
        return bool((cases.host_run(kernel, args, order=order) != cases.expected(PLANTED, args)).any())
    except (SimulationError, KernelFault):
        return True


@pytest.mark.deep
@each("mistake", ON_HOST)
def test_the_text_on_the_host_shows_it(mistake: str) -> None:
    """Block barriers aside: on the host every ldmatrix and mma lets all threads catch up."""
    right = lower(build(PLANTED, Sm80Config(32, 32, 32, 2, 1, 3, panel=1, edges=True)))
    wrong, orders = ON_HOST[mistake](right), ("forward", "reverse")
    assert wrong != right and not any(wrong_on_host(right, order) for order in orders)
    assert any(wrong_on_host(wrong, order) for order in orders)


# --- what orders gemm-sm90: its barriers, phases, stages, descriptors, fences ---------------------------

QUICK = ("one consumer", "two consumers")


def judged(name: str, mutant: Mutant) -> None:
    """It is caught however it is run, or never, for a reason."""
    seen = sm90.case(name).verdict(mutant.kernel)
    assert all(seen) if any(seen) else sm90.reason(name, mutant.label), f"{mutant.label}: {seen}"


@pytest.mark.deep
@each("name", QUICK)
def test_the_kernel_itself_passes(name: str) -> None:
    assert sm90.case(name).verdict(sm90.case(name).kernel) == ("",) * len(sm90.WAYS)


@pytest.mark.deep
def test_there_are_mutants_of_everything_that_orders() -> None:
    labels = [mutant.label for mutant in mutants(sm90.case("two consumers").kernel)]
    parts = """mbarrier_wait empty|mbarrier_wait full|parity turned|slot =|bar 1 stages on|nbytes fewer|
        arrivals for|a 32 bytes on|b_form SBO|a_form mode|accumulate 1|newest 2|one turn fewer|
        before wgmma_wait|no wgmma_fence|no fence_proxy_async_cta|no fence_barrier_init|no block_sync|
        no wgmma_commit|no bulk_wait_read|no bulk_commit|no named_barrier"""
    assert len(labels) > 280
    for part in map(str.strip, parts.split("|")):
        assert any(part in label for label in labels), part


@pytest.mark.deep
@pytest.mark.parametrize("name", sm90.CASES)
def test_every_mutant_of_gemm_sm90(name: str) -> None:
    for mutant in mutants(sm90.case(name).kernel):
        judged(name, mutant)


@pytest.mark.deep
def test_every_reason_is_of_a_mutant() -> None:
    met = Counter(sm90.reason(name, m.label) for name in sm90.CASES for m in mutants(sm90.case(name).kernel))
    assert set(sm90.EQUAL.values()) <= set(met)


# --- groups ---------------------------------------------------------------------------------------------

Planted = tuple[GemmProblem, tuple[Kernel, ...], LaunchSequence, dict[str, Any]]
"""A product in which mistakes are planted: its kernels as they are written, its launches, its arguments."""


def seen(planted: Planted, kernel: Kernel | None = None, number: int = 0, words: Any = None) -> bool:
    """Whether another kernel, or other words, are refused or leave something else in D."""
    p, _, ran, given = planted
    try:
        if kernel is not None:
            ran = replace(ran, kernels=(*ran.kernels[:number], printed(kernel), *ran.kernels[number + 1 :]))
        return bool(cases.wrong(p, ran, given, changed=words))
    except LayoutAlgError:
        return True


def later(name: str, by: int = 1) -> Any:
    """A mistake: a value that has a name is one more."""
    return lambda kernel: planting.with_let(kernel, name, lambda old: old + by if by > 0 else minus(old, -by))


def groups(sizes: tuple[int, ...], through: Any = "shared") -> Planted:
    """Groups by three blocks in turn: the last tile of a group is computed after the first one of the next,
    so that a row too many is seen."""
    p = cases.grouped_problem(sizes, 72, 8)
    c = replace(SM90.fitted(p, Sm90Config(64, 64, 2, 1)), through=through, result_vec=8)
    ran = cases.launched(p, c, called_launches, blocks=3)
    return p, called_launches(p, c).kernels, ran, cases.arguments(p) | group_words(sizes, 64)


@pytest.mark.deep
def test_every_mistake_in_the_words_of_groups_is_seen() -> None:
    """But that an empty group's next begins with the same tile, that a tile more has no rows, and that rows
    end with D."""
    planted = groups((65, 0, 66, 1))
    words = group_words((65, 0, 66, 1), 64)
    changes = [(name, by) for name, value in words.items() for by in (-1, 1) if value + by >= 0]
    assert not seen(planted)
    silent = {(name, by) for name, by in changes if not seen(planted, words={name: words[name] + by})}
    assert silent == {("opens1", 1), ("opens4", 1), ("begin4", 1)}


OF_SEARCH: dict[str, Any] = {
    "one tile late": lambda old: replace(old, condition=Lt(old.condition.a, old.condition.b)),
    "never": lambda old: old.b, "always": lambda old: old.a, "one more": lambda old: replace(old,
    a=old.a + 1),
}  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("g", first(1, (3, 1, 2)))
def test_every_mistake_in_the_search_for_a_group_is_seen(g: int) -> None:
    """In a kernel that has room for no more groups, of the last of which rows end with D."""
    planted = groups((65, 66, 67, 70))
    silent = {
        (name, wrong)
        for name in ("group", "begin", "opens", "end")
        for wrong, change in OF_SEARCH.items()
        if not seen(planted, planting.with_let(planted[1][0], f"{name}_{g}", change))
    }
    assert silent == ({("end", "one more")} if g == 3 else set())


OF_END: dict[str, Any] = {
    "never": lambda old: Lt(old.a, as_expr(0)), "always": lambda old: Le(as_expr(0), old.a),
    "one row later": lambda old: replace(old, a=old.a + 1),
    "one row earlier": lambda old: replace(old, b=old.b + 1),
}  # fmt: skip


@pytest.mark.deep
@each("kind", [Le, Lt])
@each("wrong", OF_END)
def test_every_mistake_in_what_leaves_by_tma_is_seen(kind: Any, wrong: str) -> None:
    """What is asked of the end of a box: by <= for TMA, by < for threads; groups end beside boxes."""
    planted = groups((63, 65, 64, 128, 1), "tma")

    def change(s: Any) -> tuple[Any, ...]:
        its = isinstance(s, If) and type(s.condition) is kind and "end" in str(s.condition)
        return (replace(s, condition=OF_END[wrong](s.condition)),) if its else (s,)

    kernel = planted[1][0]
    assert not seen(planted, kernel) and seen(planted, planting.rewrite(kernel, change))


@pytest.mark.deep
def test_a_row_of_another_group_is_seen_by_verify() -> None:
    family = find_family("gemm-sm90")

    def late(p: Any, c: Any, given: Any) -> dict[str, int]:
        words = dict(family.words(p, c, given))
        return words | {"begin2": words["begin2"] + 1}

    p = family.problem(100, 72, 40, groups=3)
    assert not verify(replace(family, words=late), p).passed


@each("count", [1, 2, 5])
def test_groups_that_are_verified_are_of_drawn_sizes_none_and_one_row_among_them(count: int) -> None:
    family = find_family("gemm-sm90")
    p = family.problem(100, 72, 40, groups=count)
    sizes = [sizes_of(checks_of(family).buffers(p, "normal", seed), count) for seed in range(9)]
    assert all(sum(drawn) == 100 for drawn in sizes)
    assert count == 1 or len({tuple(drawn) for drawn in sizes}) > 4
    assert count < 5 or all(drawn[1:3] in ([0, 0], [0, 1]) for drawn in sizes)
