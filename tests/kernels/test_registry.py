"""The registry: all families, read only, and every entry keeps the protocol."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from layoutalg import errors
from layoutalg.codegen.costs import Cost, total_costs
from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.program import Kernel, LaunchSequence
from layoutalg.codegen.program.checks import check
from layoutalg.kernels import FAMILIES, Candidate, Family, find_family
from layoutalg.kernels.checks import checks_of
from tests.command import run
from tests.sweeps import each


def first(name: str) -> tuple[Family, Any]:
    """A family and a problem of it."""
    family = FAMILIES[name]
    return family, family.problem(**checks_of(family).verified[0])


def test_all_are_there_and_the_command_names_them() -> None:
    named = set(re.findall(r"[a-z][\w-]+", run("generate", "--help").stdout))
    assert set(FAMILIES) <= named
    for name in FAMILIES:
        assert find_family(name) is FAMILIES[name] and FAMILIES[name].name == name
    with pytest.raises(TypeError):
        FAMILIES["x"] = FAMILIES["transpose"]  # type: ignore[index]
    with pytest.raises(errors.UnknownNameError, match="did you mean 'gemm-sm90'"):
        find_family("gemm")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_candidate_that_stands_makes_launches(name: str) -> None:
    family, p = first(name)
    assert family.summary and set(checks_of(family).verified[0]) & set(family.asks)
    configs = family.configs(p, "sm_90")
    assert family.choose(p, "sm_90") == configs[0]
    names = set(checks_of(family).buffers(p, checks_of(family).trials(p)[0], 0)) | {"scratch"}
    for config in configs[:3]:
        one = family.launches(p, config, "sm_90")
        assert isinstance(one, LaunchSequence) and {x for step in one.buffers for x in step} <= names
        assert (one.scratch_bytes > 0) == any("scratch" in step for step in one.buffers)
        for kernel in one.kernels:
            check(kernel)
        assert isinstance(family.build(p, config), Kernel) and isinstance(family.way(config), str)


NEWER = ("attention", "gemm-sm80", "gemm-sm90", "quantize_mxfp8", "quantize_nvfp4")


@pytest.mark.deep
@each("name", [name for name in FAMILIES if name not in NEWER])
def test_every_family_that_needs_nothing_newer_is_compiled_for_turing(name: str) -> None:
    family, sizes = FAMILIES[name], {"m": 4, "n": 72, "k": 256, "shape": (40, 136), "axes": (-1,)}
    asked: dict[str, Any] = {size: x for size, x in sizes.items() if size in family.asks}
    if name == "permute":
        asked = {"shape": (8, 64, 16), "axes": (1, 2, 0)}
    dtype = {"gemm-simt": "f32", "prod": "s8", "argmin": "s64", "logsumexp": "f32"}.get(name, "f16")
    p = family.problem(**asked, dtype=dtype)
    for kernel in family.launches(p, family.choose(p, "sm_75"), "sm_75").kernels:
        assert prepare(kernel, "sm_75").cubin.spill_bytes == 0


DROPPED: dict[str, tuple[type[errors.LayoutAlgError], str, str, dict[str, Any]]] = {
    "tiled_copy": (errors.UnsupportedError, "cp.async of 1 bytes", "sm_90", {"m": 64, "n": 63,
    "dtype": "u8"}),
    "transpose": (errors.UnsupportedError, "lanes of 32", "sm_90", {"m": 64, "n": 66, "dtype": "u8",
    "lds": 66}),
    "permute": (errors.UnsupportedError, "cp.async is not", "sm_75", {"shape": (64, 63), "axes": (1, 0)}),
    "softmax": (errors.ResourceError, "rows by 512 threads", "sm_90", {"shape": (64, 70000), "axes": 1}),
    "layer_norm": (errors.UnsupportedError, "registers hold them", "sm_90", {"shape": (64, 8), "axes": 1}),
    "sum": (errors.UnsupportedError, "split: each thread", "sm_90", {"shape": (64, 1024), "axes": 1}),
    "max": (errors.ResourceError, "columns by 32", "sm_90", {"shape": (3000, 63), "axes": 0}),
    "mean": (errors.UnsupportedError, "are enough for 108", "sm_80", {"shape": (8192, 8192), "axes": 1}),
    "rms_norm": (errors.ResourceError, "a thread holds", "sm_80", {"shape": (64, 70000), "axes": 1}),
    "add": (errors.AlignmentError, "7 elements", "sm_90", {"shape": (6, 7), "strides": [(7, 1), (0, 1)]}),
    "gemm-simt": (errors.ResourceError, "registers per thread of", "sm_75", {"m": 64, "n": 64, "k": 64}),
    "gemm-sm80": (errors.UnsupportedError, "cp.async", "sm_90", {"m": 64, "n": 63, "k": 65}),
}  # fmt: skip


@each("name", DROPPED, sample=7)
def test_a_dropped_candidate_says_why(name: str) -> None:
    error, text, arch, asked = DROPPED[name]
    family = FAMILIES[name]
    p = family.problem(**asked)
    dropped = [c for c in family.candidates(p, arch) if c.dropped is not None]
    assert any(isinstance(c.dropped, error) and text in c.why for c in dropped), [c.why for c in dropped]
    assert not {str(c.config) for c in dropped} & {str(c) for c in family.configs(p, arch)}


def test_where_nothing_stands_the_last_refusal_is_raised() -> None:
    def none(p: Any, arch: Any) -> list[Candidate]:
        return [
            Candidate("wide", errors.ShapeError("too wide")),
            Candidate("tall", errors.ShapeError("too tall")),
        ]

    family = replace(FAMILIES["transpose"], candidates=none)
    p = family.problem(8, 8)
    for ask in (family.choose, family.configs):
        with pytest.raises(errors.ShapeError, match="too tall"):
            ask(p)


def test_predictions_add_up() -> None:
    one, other = (
        {"ld.global.b32": Cost(1, 4, 4)},
        {"ld.global.b32": Cost(1, 1, 1), "st.global.b32": Cost(2, 8, 8)},
    )
    assert total_costs([one, other]) == {"ld.global.b32": Cost(2, 5, 5), "st.global.b32": Cost(2, 8, 8)}
    family, p = first("sum")
    c = family.choose(p)
    assert family.predict(p, c) == total_costs(family.costs(p, c, "sm_90"))
