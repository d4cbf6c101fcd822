"""`layoutalg synthesize`: what it finds is what `analyze` confirms, and what it cannot find it proves."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from layoutalg import synthesis
from layoutalg.errors import MismatchError, UndecidedError
from tests.command import answer, run
from tests.sweeps import each


def test_the_example_of_the_readme() -> None:
    words = ("synthesize", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4")
    payload = answer(*words)
    assert payload["layout"] == "Sw<3,3,3> o 0 o (64,64):(64,1)" and payload["kind"] == "swizzle"
    assert payload["given"][0]["total"] == 512 and payload["accesses"][0]["total"] == 64
    assert payload["certificate"]["checked"] and payload["certificate"]["conflict_free"]
    text = run(*words)
    assert text.exit_code == 0
    assert text.stdout.startswith("Sw<3,3,3> o 0 o (64,64):(64,1)\none swizzle, no extra memory\n")
    assert "Certificate, proved again without the search: " in text.stdout


@each(
    "words",
    [
        ("(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4", "--access", "st.shared.b128"),
        ("(32,32)",),
        ("(32,32)", "--order", "col", "--form", "single"),
        ("(128,64):(1,128)", "--dtype", "u8", "--access", "ld.shared.b32", "--access", "st.shared.b128"),
        ("Sw<1,0,5> o 0 o (32,32):(32,1)", "--access", "ld.shared.b32@col"),
        ("(64,64)", "--dtype", "f16", "--access", "ldmatrix.x4", "--form", "tma"),
        ("(33,32):(32,1)", "--max-extra-bytes", "1024", "--access", "ld.shared.b128@col"),
        ("(64,96):(96,1)", "--dtype", "f16", "--access", "cp.async.16", "--access", "ldmatrix.x4"),
        ("(64,48):(48,1)", "--access", "ld.shared.b32@col"),
    ],
    sample=5,
)
def test_what_is_found_is_conflict_free_when_it_is_analysed(words: tuple[str, ...]) -> None:
    found = answer("synthesize", *words)
    specs = [word for a in found["accesses"] for word in ("--access", a["access"])]
    again = answer("analyze", found["layout"], "--dtype", found["dtype"], *specs, "--fail-on", "conflicts")
    assert again["accesses"] == found["accesses"]
    assert found["extra_bytes"] <= found["max_extra_bytes"]


@pytest.mark.deep
def test_a_part_of_a_buffer_is_refused_with_offers_that_can_be_had() -> None:
    words = ("(64,72):(128,1)", "--dtype", "f16", "--access", "ldmatrix.x4", "--access", "st.shared.b128")
    refused = answer("synthesize", *words, exit_code=1)
    assert "was found for these accesses among single swizzles" in refused["refusal"]
    assert refused["refusal"].endswith("Others were not searched.") and refused["certificate"]["checked"]
    assert [offer["extra_bytes"] for offer in refused["offers"]] == [0, 1024]
    text = run("synthesize", *words).stdout
    for offer in refused["offers"]:
        command = shlex.split(offer["command"])
        had = answer(*command[1:])
        assert had["layout"] == offer["layout"] and had["extra_bytes"] == offer["extra_bytes"]
        assert f"Free of conflicts with {offer['change']}".split(",")[0] in text and offer["command"] in text


def test_an_order_that_is_not_the_layouts_own_lays_the_shape_out_anew() -> None:
    found = answer("synthesize", "(64,32):(32,1)", "--order", "col", "--access", "ld.shared.b32@row")
    assert found["order"] == "col" and found["ranking"][-1]["layout"].endswith("(64,32):(1,64)")


ADVICE = "To look for one without conflicts: layoutalg synthesize "


def test_the_advice_of_analyze_promises_nothing() -> None:
    """It is given where there is no such layout too, which is what the search then says."""
    said = run("analyze", "(32,32):(32,1)", "--access", "st.shared.b128@row", "--access", "ld.shared.b32@col")
    words = shlex.split(said.stdout.splitlines()[-1].removeprefix(ADVICE))
    assert answer("synthesize", *words, exit_code=1)["layout"] is None
    odd = run("analyze", "(64,96):(96,1)", "--dtype", "f16", "--access", "ldmatrix.x4").stdout.splitlines()[
        -1
    ]
    assert answer("synthesize", *shlex.split(odd.removeprefix(ADVICE)))["layout"] is not None


def test_what_does_not_exist_is_proved_and_exit_code_1() -> None:
    words = ("synthesize", "(32,32)", "--access", "st.shared.b128@row", "--access", "ld.shared.b32@col")
    payload = answer(*words, exit_code=1)
    assert payload["layout"] is None and payload["kind"] == "none" and payload["accesses"] == []
    assert payload["certificate"]["checked"] and payload["certificate"]["reason"] == "narrow-banks"
    assert [a["layout"] for a in payload["ranking"]], "the best of what there is"
    text = run(*words)
    assert text.exit_code == 1 and text.stdout.startswith("No conflict-free layout of (32,32) f32")


def test_a_certificate_that_does_not_hold_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> str:
        raise MismatchError("footprint 0 is not that of the access")

    monkeypatch.setattr(synthesis, "check_certificate", fails)
    result = run("synthesize", "(32,32)")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "layoutalg synthesize: footprint 0 is not that of the access\n"
    assert answer("synthesize", "(32,32)", exit_code=1)["error"] == "MismatchError"


def test_a_proof_too_long_to_repeat_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(_: Any) -> str:
        raise UndecidedError("too many vectors", budget=1)

    monkeypatch.setattr(synthesis, "check_certificate", undecided)
    assert answer("synthesize", "(32,32)")["certificate"]["checked"] is False
    assert "Certificate (ranks), not proved again: too many vectors." in run("synthesize", "(32,32)").stdout
