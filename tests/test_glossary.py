"""The glossary: every word that tables of the command are headed by can be looked up."""

from __future__ import annotations

import random
import re
from typing import get_args

import pytest

from layoutalg.analysis import METHODS, ideal_wavefronts
from layoutalg.arch import Provenance
from layoutalg.errors import UnknownNameError
from layoutalg.glossary import GLOSSARY, find_term, look_up
from tests.command import answer, refusal, run

TILE, SPECS = "(64,96):(96,1)", ("--dtype", "f16", "--access", "ldmatrix.x4")


def headers(text: str) -> set[str]:
    """The columns of the tables in an answer, which stand above a rule."""
    lines = text.splitlines()
    above = [lines[i - 1] for i, line in enumerate(lines) if i and re.fullmatch(r"\s*[─━-]{8,}\s*", line)]
    return {name for line in above for name in re.split(r"\s{2,}", line.strip()) if name}


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", TILE, *SPECS),
        ("analyze", TILE, "--dtype", "f16", "--access", "ld.global.b32"),
        ("synthesize", TILE, *SPECS),
    ],
)
def test_what_tables_are_headed_by_is_explained(words: tuple[str, ...]) -> None:
    found = headers(run(*words).stdout)
    assert len(found) > 5
    assert not [name for name in found if not look_up(name)]


def test_what_reports_and_certificates_say_is_explained() -> None:
    said = (
        "wavefront", "phase", "mode", "TV layout", "K", "F", "ideal", "worst base", "provenance", "sector",
        "bank", "swizzle", "coalescing", "atom", "tile", "tiler", "certificate", "witness", "open",
        "normal form", "narrow-banks", "padding",
    )  # fmt: skip
    assert set(said) <= set(GLOSSARY)
    for name, values in (("provenance", get_args(Provenance)), ("method", METHODS)):
        assert all(value in look_up(name) for value in values)


def test_an_entry_is_one_or_two_sentences() -> None:
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)
    for term, meaning in GLOSSARY.items():
        assert meaning.endswith(".") and 10 < len(meaning) < 340, term
        assert term == find_term(term) or meaning.startswith("See "), term
        if meaning.startswith("See "):
            assert meaning[4:-1] in GLOSSARY


def test_the_command_looks_up_and_refuses() -> None:
    assert run("help", "wavefronts", "worst base").stdout.startswith("wavefront: One pass over the banks")
    assert answer("help", "k")["terms"] == {"K": GLOSSARY["K"]}
    assert set(answer("help")["terms"]) == set(GLOSSARY)
    kind, message = refusal("help", "wavefrnt")
    assert kind == "UnknownNameError" and "wavefront" in message
    assert "layoutalg help" in " ".join(run("analyze", "--help").stdout.split())
    with pytest.raises(TypeError):
        GLOSSARY["bank"] = ""  # type: ignore[index]
    with pytest.raises(UnknownNameError):
        look_up("warpfront")


PHASE_LANES = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}
"""Of an access of so many bytes per lane, as the entry "phase" says."""


def ideal_of(op: str, width: int, offsets: list[int | None]) -> int:
    """The ideal by the words of the glossary: one wavefront per phase with an active lane."""
    span = PHASE_LANES[width]
    pairs = [[(a, offsets[lane ^ by]) for lane, a in enumerate(offsets)] for by in (1, 2)]
    alike = any(all(a == b for a, b in near if a is not None and b is not None) for near in pairs)
    if op.startswith("ld.") and width > 4 and alike:
        span *= 2
    phases = {lane // span for lane, a in enumerate(offsets) if a is not None}
    return len(phases)


def test_the_ideal_is_what_the_glossary_says() -> None:
    """Of drawn lanes, and of those that all read one address."""
    assert "l ^ 1" in GLOSSARY["phase"] and "one wavefront per phase" in GLOSSARY["ideal"]
    assert ideal_wavefronts("ld.shared.b64", [0] * 32) == 1
    assert ideal_wavefronts("st.shared.b64", [0] * 32) == 2
    rng = random.Random(20261129)
    for op in ("ld.shared", "st.shared"):
        for width in PHASE_LANES:
            for _ in range(20):
                step, off = rng.choice((1, 2, 4)), rng.choice((0.0, 0.3))
                offsets = [
                    None if rng.random() < off else width * (lane // step if step < 4 else lane & ~2)
                    for lane in range(32)
                ]
                found = ideal_wavefronts(f"{op}.b{8 * width}", offsets)
                assert found == ideal_of(op, width, offsets), (op, width, offsets)
    for width, added in ((4, 3), (8, 3), (16, 0)):  # the 3 that the counter adds
        row = [width * lane for lane in range(32)]
        assert ideal_wavefronts(f"cp.async.{width}", row) == width // 4 + added
