"""`layoutalg inspect sass`: instructions by class, as a table and as JSON."""

from __future__ import annotations

import re

import pytest

from layoutalg.codegen.gpu import sass
from layoutalg.errors import UnsupportedError
from tests.command import answer, refusal, run

SMALL = ("--m", "256", "--n", "256")


@pytest.mark.deep(but=("gemm-sm80-tensor",))
@pytest.mark.parametrize(("family", "works"), [("gemm-sm80", "tensor"), ("gemm-simt", "fma")])
def test_a_product_has_a_main_loop(family: str, works: str) -> None:
    payload = answer("inspect", "sass", family, *SMALL, "--k", "256")
    loop, whole = payload["main_loop"], payload["all"]
    assert loop["classes"][works] > loop["total"] / 3
    assert sum(loop["classes"].values()) == loop["total"] < whole["total"] == sum(whole["classes"].values())
    for part in (loop, whole):
        assert {kind: sum(n.values()) for kind, n in part["opcodes"].items()} == part["classes"]
    assert payload["spill_bytes"] == 0 and payload["problem"].startswith("256 x 256 x 256")


@pytest.mark.deep
def test_the_ladder_s_steps_differ_in_what_they_execute() -> None:
    """The published steps: single elements, vectors, then cp.async."""
    ladder = {
        step: answer("inspect", "sass", "gemm-sm80", *SMALL, "--k", "256", "--step", step) for step in "127"
    }
    loads = {step: payload["main_loop"]["classes"] for step, payload in ladder.items()}
    assert loads["1"]["ldg"] == 8 * loads["2"]["ldg"] and "ldgsts" in loads["7"] and "ldg" not in loads["7"]
    assert ladder["2"]["problem"].endswith("step 2 vectors")


@pytest.mark.deep
def test_a_main_loop_is_timed() -> None:
    payload = answer("inspect", "sass", "gemm-sm80", *SMALL, "--k", "256", "--time")
    time = payload["time"]
    assert time["instructions"] == payload["main_loop"]["total"] and time["level"] == "L2"
    assert max(time["bounds"].values()) <= time["cycles"] * 1.001
    assert sum(time["states"].values()) == pytest.approx(time["cycles_per_instruction"])
    shown = run("inspect", "sass", "gemm-sm80", *SMALL, "--k", "256", "--time").stdout
    assert re.search(rf"simulated +{round(time['cycles']):,} +100%", shown)


@pytest.mark.deep
def test_the_table_says_the_same() -> None:
    payload = answer("inspect", "sass", "transpose", *SMALL)
    assert payload["main_loop"] is None and payload["arch"] == "sm_90a"
    result = run("inspect", "sass", "transpose", *SMALL)
    rows = dict(line.split()[:2] for line in result.stdout.splitlines() if line.endswith(" -"))
    assert rows.pop("total") == str(payload["all"]["total"])
    assert {name: int(n) for name, n in rows.items()} == payload["all"]["classes"]
    assert "No loop of it multiplies" in result.stdout
    assert f" LOP3 {payload['all']['opcodes']['integer']['LOP3']}" in result.stdout


def test_without_a_disassembler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[str, str]:
        raise UnsupportedError("reading machine code needs nvdisasm")

    monkeypatch.setattr(sass, "find_disassembler", none)
    assert refusal("inspect", "sass", "transpose", *SMALL) == (
        "UnsupportedError",
        "reading machine code needs nvdisasm",
    )
