"""Refused configurations of products: the one that is named works."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from layoutalg.codegen.program.checks import check
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels.config_fields import difference
from layoutalg.kernels.gemm import GemmProblem, Major, SimtConfig, Sm80Config, gemm_problem
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.choice.suggest import check_or_suggest, suggest_config
from layoutalg.kernels.gemm.programs import simt as gemm_simt
from layoutalg.kernels.gemm.programs import sm80 as gemm_sm80
from tests.sweeps import first

EXTENTS = (1, 2, 7, 8, 13, 64, 100, 127, 128, 250, 1000, 1024)
COUNTS = (-64, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100, 128, 256, 512, 1000)
MAJORS: tuple[Major, Major] = ("k", "mn")
FAMILIES: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "sm80": (("f16", "bf16", "tf32", "s8"), SM80, gemm_sm80.build),
    "simt": (("f32", "f64"), SIMT, gemm_simt.build),
}


def random_problem(rng: random.Random, family: str) -> GemmProblem:
    dtype = rng.choice(FAMILIES[family][0])
    a, b = ("k", "k") if dtype in ("tf32", "s8") else (rng.choice(MAJORS), rng.choice(MAJORS))
    m, n, k = (rng.choice(EXTENTS) for _ in range(3))
    return gemm_problem(m, n, k, dtype, a_major=a, b_major=b, reads_c=rng.random() < 0.3)  # type: ignore[arg-type]


def spoilt(rng: random.Random, config: Any) -> Any:
    """A configuration with one to three fields of any value."""
    names = rng.sample([f.name for f in fields(config)], rng.choice((1, 1, 2, 3)))
    values: dict[type, tuple[Any, ...]] = {
        int: COUNTS, bool: (False, True), str: ("cp.async", "registers", "mn", "none")
    }  # fmt: skip
    return replace(config, **{x: rng.choice(values[type(getattr(config, x))]) for x in names})


@pytest.mark.deep(only=("sm80-6",))
@pytest.mark.parametrize("wanted", first(1, [6, 30]))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_named_works(family: str, wanted: int) -> None:
    """And what is accepted is a program; some of each are written."""
    _, configs, build = FAMILIES[family]
    rng, refused, accepted = random.Random(family), 0, 0
    while refused < wanted or not accepted:
        p = random_problem(rng, family)
        tile = rng.choice(configs.tiles).config
        c = spoilt(rng, rng.choice((tile, configs.fitted(p, tile))))
        try:
            check_or_suggest(p, c)
        except LayoutAlgError as error:
            refused += 1
            found = suggest_config(p, c)
            assert found is not None and str(error).endswith(" it works")
            assert all(f"{name}={value!r}" in str(error) for name, value in difference(c, found).items())
            check_or_suggest(p, found)
            if refused % 10 == 0:
                check(build(p, found))
                with pytest.raises(type(error)):
                    build(p, c)
        else:
            accepted += 1
            if c.threads <= 256:
                check(build(p, c))
    assert accepted


def test_a_single_change_is_preferred() -> None:
    p = gemm_problem(256, 256, 256)
    wanted: tuple[tuple[str, Any, Any], ...] = (
        ("stages", 8, 4), ("tile_n", 80, 64), ("via", "tma", "cp.async"), ("result_vec", 0, 8)
    )  # fmt: skip
    for name, asked, works in wanted:
        c = replace(Sm80Config(128, 256, 64, 2, 4, 4), **{name: asked})
        found = suggest_config(p, c)
        assert found is not None and difference(c, found) == {name: works}


def test_vectors_that_a_problem_does_not_allow_are_narrowed() -> None:
    c = suggest_config(gemm_problem(100, 102, 104), Sm80Config(128, 256, 64, 2, 4, 4))
    assert isinstance(c, Sm80Config) and c.edges and c.result_vec == 2
    assert (c.tile_m, c.tile_n, c.stages) == (128, 256, 4)


def test_where_no_configuration_works_it_says_so() -> None:
    p, c = gemm_problem(256, 256, 256, "bf16"), Sm80Config(128, 256, 64, 2, 4, 4)
    assert suggest_config(p, c, "sm_75") is None
    with pytest.raises(UnsupportedError, match=r"no configuration of its family works for .* on sm_75"):
        check_or_suggest(p, c, "sm_75")
    with pytest.raises(UnsupportedError, match="f32 and f64 are accepted; no configuration of its family"):
        check_or_suggest(gemm_problem(8, 8, 8), SimtConfig(128, 128, 8, 8, 8, 4))
