"""What CONTRIBUTING, the first lines of modules and the help of commands state, held to what is so."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from hypothesis import settings

import layoutalg
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm import family as gemm_family
from layoutalg.kernels.move import cases as move_cases
from layoutalg.kernels.move.families import MATRIX_DTYPES, SIDES
from layoutalg.kernels.rowwise import families as rowwise_cases
from tests.command import run
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


def test_the_first_line_of_a_module_lists_what_is_in_it() -> None:
    """Names in parentheses that are functions somewhere in the library are functions of this module."""
    modules = {
        m.name: importlib.import_module(m.name)
        for m in pkgutil.walk_packages(layoutalg.__path__, "layoutalg.")
        if not m.name.endswith("__main__") and ".codegen" not in m.name and ".kernels" not in m.name
    }
    functions = {
        name
        for m in modules.values()
        for name, value in vars(m).items()
        if callable(value) and getattr(value, "__module__", "") == m.__name__
    }
    seen = 0
    for module in modules.values():
        first = (module.__doc__ or "").splitlines()[0]
        for listed in re.findall(r"\(([a-z_]+(?:, [a-z_]+)+)\)", first):
            for name in set(listed.split(", ")) & functions:
                assert hasattr(module, name), f"{module.__name__}: {name}"
                seen += 1
    assert seen >= 3


def words_of(command: str) -> str:
    """The help of a command without its frame, on one line."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", run(command, "--help").stdout).split())


@pytest.mark.parametrize("command", ["generate", "verify", "bench", "sass"])
def test_the_help_names_the_families_that_are_served(command: str) -> None:
    served = {*FAMILIES} | ({"reduce"} if command == "bench" else set())
    listed = words_of(command).split("family <str> ")[1].split(". [required]")[0]
    assert set(re.findall(r"[a-z][\w-]+", listed)) - {"all", "six"} == served


def test_the_help_of_bench_states_its_defaults() -> None:
    said = words_of("bench")
    assert f"Default: {', '.join(MATRIX_DTYPES)}; reductions {', '.join(rowwise_cases.DTYPES)}" in said
    assert move_cases.DTYPES == MATRIX_DTYPES
    sizes = gemm_family.SIZES
    assert f"Default: {SIDES[0]}, {SIDES[1]}; GEMM {min(sizes)} to {max(sizes)}." in said


def test_axes_have_a_default_where_the_help_says_so() -> None:
    assert "Order of a permute's axes; axes to reduce, by default the last." in words_of("generate")
    assert run("generate", "permute", "--shape", "4,8").exit_code == 2
    assert "// sum of f32 to f32, rows: R 8:1" in run("generate", "sum", "--shape", "4,8").stdout
