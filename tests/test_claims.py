"""Statements of documents, CONTRIBUTING, first lines of modules and the help, held to what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import rowwise as rowwise_cases
from layoutalg.kernels.checks.gemm import SIZES
from layoutalg.kernels.checks.move import DTYPES, MATRIX_DTYPES, SIDES
from tests.command import run
from tests.docs.claims import HOLDERS, claims, documents, figures, held, register, shown
from tests.test_architecture import MOST_LINES, MOST_MODULES

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_contributing_names_limits_and_targets_that_are_there() -> None:
    said = " ".join(CONTRIBUTING.split())
    assert f"80 to {MOST_LINES} lines, and at most a dozen modules in a room" in said
    assert MOST_MODULES == 12 and "a test fails past either" in said
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make ([\w-]+)", CONTRIBUTING, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    (profiles,) = re.findall(r"more examples: ([\w, ]+)", CONTRIBUTING)
    examples = [settings.get_profile(name).max_examples for name in profiles.split(", ")]
    assert examples == sorted(examples) and examples[-1] > 1000


def words_of(command: str) -> str:
    """The help of a command, on one line."""
    return " ".join(run(*command.split(), "--help").stdout.split())


@pytest.mark.parametrize("command", ["generate", "verify", "bench", "inspect sass"])
def test_the_help_names_the_families_that_are_served(command: str) -> None:
    served = {*FAMILIES} | ({"reduce"} if command == "bench" else set())
    listed = words_of(command).split("arguments: family ")[1].split(". options:")[0]
    assert set(re.findall(r"[a-z][\w-]+", listed)) - {"all", "of", "them"} == served


def test_the_help_of_bench_states_its_defaults() -> None:
    said = words_of("bench")
    assert f"Default: {', '.join(MATRIX_DTYPES)}; reductions {', '.join(rowwise_cases.DTYPES)}" in said
    assert DTYPES == MATRIX_DTYPES
    assert f"Default: {SIDES[0]}, {SIDES[1]}; GEMM {min(SIZES)} to {max(SIZES)}." in said


def test_axes_have_a_default_where_the_help_says_so() -> None:
    assert "Order of a permute's axes; axes to reduce, by default the last." in words_of("generate")
    assert run("generate", "permute", "--shape", "4,8").exit_code == 2
    assert "// sum of f32 to f32, rows: R 8:1" in run("generate", "sum", "--shape", "4,8").stdout


# --- claims of documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("document", [name for name in documents() if name not in register()["pages"]])
def test_a_claim_is_listed_with_what_holds_it(document: str) -> None:
    """A sentence of all cases or with a figure is in the register, or says less."""
    found, listed = claims(documents()[document]), held(document)
    assert [claim for claim in found if not any(excerpt in claim for excerpt in listed)] == []
    assert [excerpt for excerpt in listed if not any(excerpt in claim for claim in found)] == []


@pytest.mark.parametrize("document", [name for name in register() if name in documents()])
def test_a_figure_that_a_transcript_holds_stands_in_it(document: str) -> None:
    """In a block of the document or in a table that is printed, so that a sentence follows what is run."""
    text, excerpts = documents()[document], register()[document].get("transcript", [])
    sentences = [claim for claim in claims(text) if any(excerpt in claim for excerpt in excerpts)]
    assert {claim: missing for claim in sentences if (missing := figures(claim) - shown(text))} == {}


def test_what_holds_a_claim_exists() -> None:
    names = {name for document, holders in register().items() if document != "pages" for name in holders}
    assert set(register()) - {"pages"} <= set(documents()) and set(register()["pages"]) <= set(documents())
    missing = []
    for name in (names | {str(test) for test in register()["pages"].values()}) - set(HOLDERS):
        path, _, test = name.partition("::")
        file = ROOT / path
        if not (file.exists() and re.search(rf"^def {test}\(", file.read_text(encoding="utf-8"), re.M)):
            missing.append(name)
    assert missing == []


def test_claims_are_found_and_code_is_not() -> None:
    text = """# All

Every one is. It is `all` of [this](any.md), 3.5 of it.

```console
$ never
```

    always in code

| a | b |
|---|---|
| none | 1 |

Python >= 3.11 is. Half is 50 %.
"""
    found = claims(text)
    assert found == ["Every one is.", "It is `all` of [this](any.md), 3.5 of it.", found[2], "Half is 50 %."]
    assert found[2].startswith("| a | b |")


def test_a_section_of_the_measurements_names_its_command() -> None:
    """Or says that there is none: of rejected variants, and of a run whose command was not recorded."""
    text = documents()["docs/measured.md"].split("\n## What decided")[0]
    sections = re.split(r"^##+ (.*)$", text, flags=re.M)
    command = re.compile(r"`[^`]*\b(?:python|layoutalg|pytest)\b[^`]*`")
    pairs = zip(sections[1::2], sections[2::2], strict=True)
    assert [h for h, body in pairs if not command.search(body) and "command not recorded" not in body] == []


def test_clocks_are_never_set() -> None:
    """No source calls a function of NVML that sets anything; the command to type is only printed."""
    sources = [path for room in ("layoutalg", "codegen", "kernels") for path in (ROOT / room).rglob("*.py")]
    assert len(sources) > 300
    setting = re.compile(r"nvmlDevice(?:Set|Reset)[A-Z]")
    assert [path.name for path in sources if setting.search(path.read_text(encoding="utf-8"))] == []
