"""Refused configurations of products: the one that is named works."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from layoutalg.codegen.program.checks import check
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels.gemm import SimtConfig, Sm80Config, gemm_problem
from layoutalg.kernels.gemm.choice import SIMT, SM80, check_or_suggest, suggest_config
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.identity import difference
from tests.kernels.gemm.drawn import product
from tests.sweeps import first

COUNTS = (-64, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100, 128, 256, 512, 1000)
FAMILIES: dict[str, tuple[tuple[str, ...], Any]] = {
    "sm80": (("f16", "bf16", "tf32", "s8"), SM80), "simt": (("f32", "f64"), SIMT),
}  # fmt: skip


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
    dtypes, configs = FAMILIES[family]
    rng, refused, accepted = random.Random(f"{family} 5"), 0, 0
    while refused < wanted or not accepted:
        p = product(rng, dtypes, (1024, 300, 1024), modes=0)
        tile = rng.choice(configs.tiles)
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
                check(launches(p, found).kernels[0])
                with pytest.raises(type(error)):
                    launches(p, c)
        else:
            accepted += 1
            if c.threads <= 256:
                check(launches(p, c).kernels[0])
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
