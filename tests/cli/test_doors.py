"""Every command of the table: wrong names, missing words, shapes, files, pipes and libraries.

A new command is drawn from the table; it needs a line in ANSWERED where it
writes a file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layoutalg.cli.parameters import parameters_of, parser_of
from layoutalg.cli.table import COMMANDS, FIRST
from tests.command import answer, invoke, refusal, run
from tests.sweeps import each

LAYOUT = "(64,64):(64,1)"

ANSWERED: dict[str, tuple[str, ...]] = {
    "ci": (),
    "generate": ("transpose", "--m", "64", "--n", "64"),
    "tune": ("show",),
    "inspect pipeline": ("gemm-sm80", "--step", "4", "--tiles", "2"),
    "inspect roofline": ("--arch", "T4", "--rates", "achieved"),
    "inspect chart": ("none.json",),
    "draw": ("(4,8):(8,1)",),
    "report": ("(4,8):(8,1)",),
}
"""What each command that writes a file is asked."""

SHAPED: dict[str, tuple[str, ...]] = {
    "synthesize": ("?",),
    "identify": ("--index", "row*8+col", "--shape", "?"),
    "convert": ("shape=(8,64)", "--shape", "?"),
    "kernel": ("-", "--block", "?"),
    "legal": ("tma", LAYOUT, "--box", "?"),
    "generate": ("softmax", "--shape", "?"),
    "verify": ("softmax", "--shape", "?"),
    "code": (LAYOUT, "--copy", "UniversalCopy<uint128_t>", "--threads", "?"),
    "inspect sass": ("softmax", "--shape", "?"),
    "inspect occupancy": ("softmax", "--shape", "?"),
    "inspect registers": ("SM80_16x8x16_F32F16F16F32_TN:C", "--shape", "?"),
    "inspect l2": ("?",),
    "inspect roofline": ("--tile", "?"),
    "draw": ("(32,4):(4,1)", "--tile", "?"),
}
"""Where each command takes a shape."""

NO_SHAPE = ("64xx", "64;64", "(64,64", "64,x", "axb", "(64,-", "é")


def _required(name: str) -> bool:
    return any(
        action.required or (not action.option_strings and action.nargs not in ("?", "*"))
        for action in parser_of(name)._actions
    )


@each("name", [*COMMANDS], sample=18)
def test_wrong_and_missing_words_are_one_sentence(name: str) -> None:
    words = name.split()
    kind, sentence = refusal(*words, "--nonsense")
    assert kind == "UnknownNameError" and "'--nonsense'" in sentence
    if _required(name):
        assert refusal(*words)[0] in ("UsageError", "ArgumentTypeError")
    for p, declared in parameters_of(COMMANDS[name].function):
        if declared.names is not None and "str" in str(p.annotation) and "list" not in str(p.annotation):
            option = (declared.names or (f"--{p.name.replace('_', '-')}",))[0]
            done = run(*words, option)
            assert done.exit_code == 2 and "expected one argument" in done.stderr, done.output
            break


@each("first", FIRST)
def test_a_misspelt_name_is_corrected(first: str) -> None:
    done = run(f"{first}q")
    assert done.exit_code == 2 and f"did you mean '{first}'?" in done.stderr and done.stderr.count("\n") == 1


def test_parts_are_refused_by_name() -> None:
    assert "did you mean 'occupancy'?" in refusal("inspect", "ocupancy")[1]
    assert run("inspect").stdout == run("inspect", "--help").stdout == run("help", "inspect").stdout
    assert run("help", "inspect", "sass").stdout == run("inspect", "sass", "--help").stdout
    assert run("help").stdout == run().stdout and len(FIRST) <= 22


@each("name", [*SHAPED], sample=2)
def test_a_shape_has_the_same_forms_and_refusals(name: str) -> None:
    words = SHAPED[name]
    for text in NO_SHAPE:
        refusal(*name.split(), *(text if word == "?" else word for word in words))
    if name in ("synthesize", "identify", "inspect registers", "inspect l2", "draw"):
        texts = ("16x8", "16,8", "(16,8)", "( 16 , 8 )")
        shown = {
            run(*name.split(), *(text if word == "?" else word for word in words)).stdout for text in texts
        }
        assert len(shown) == 1, name


def test_every_command_that_writes_a_file_is_tried() -> None:
    writing = {
        name
        for name, command in COMMANDS.items()
        if any("-o" in (declared.names or ()) for _, declared in parameters_of(command.function))
    }
    assert writing == set(ANSWERED)


@each("name", [*ANSWERED])
def test_a_file_that_cannot_be_written_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "none" / "x.svg"
    done = invoke(*name.split(), *ANSWERED[name], "-o", str(target))
    assert done.exception is None and done.exit_code == 2, (name, done.output, done.exception)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"layoutalg {name}: ")
    assert not target.exists()


MISSING = {
    "clang": (("kernel", "-"), "layoutalg[source]"),
    "matplotlib": (("draw", "(4,8):(8,1)", "-o", "x.png"), "layoutalg[draw]"),
    "ncu_report": (("profile", "x.ncu-rep"), "layoutalg[profile]"),
}
"""Libraries of extras, and a question that needs them."""


@pytest.mark.deep
@each("library", [*MISSING])
def test_a_missing_extra_is_named_with_its_pip_line(library: str, tmp_path: Path) -> None:
    words, wanted = MISSING[library]
    (tmp_path / "x.ncu-rep").write_bytes(b"NVR\0")
    code = (
        f"import sys; sys.modules[{library!r}] = None; sys.argv = ['layoutalg', *{list(words)!r}]\n"
        "from layoutalg.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, input="__global__ void k(float* p) { p[0] = 1; }",
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert wanted in done.stderr or library == "ncu_report", done.stderr


@pytest.mark.deep
@each(
    "name",
    ["draw", "eval", "convert", "help", "doctor", "doctor cache"],
)
def test_a_closed_pipe_is_no_error(name: str) -> None:
    asked = {"draw": ("(64,64):(64,1)",), "eval": ("8:1",), "convert": ("8:1",)}
    code = "from layoutalg.cli import main; main()"
    words = [*name.split(), *asked.get(name, ())]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code, *words], stdout=writer, stderr=subprocess.PIPE, check=False, text=True
    )
    os.close(writer)
    assert done.stderr == "" and done.returncode in (0, 1)


def test_no_answer_has_a_repr_of_python() -> None:
    """Of a legal request too: its result is a sentence."""
    shown = run("legal", "tma", "(4096,1024):(1024,1)", "--box", "128x64", "--mode", "128B").stdout
    assert "Tensor map of f16, innermost first: dimensions (1024,4096)" in shown and "Layout(" not in shown
    assert answer("legal", "tma", "(4096,1024):(1024,1)", "--box", "128,64", "--mode", "128B")["legal"]


def test_an_option_without_its_value_names_the_values_that_it_takes() -> None:
    done = run("generate", "softmax", "--launcher")
    assert done.stderr.endswith("argument --launcher: expected one argument: cpp, main, torch, cupy\n")


def test_a_source_without_the_function_of_a_check_asks_for_its_name(tmp_path: Path) -> None:
    (tmp_path / "index.cu").write_text("int row_of(int i) { return i; }")
    kind, sentence = refusal("check", "4:1", str(tmp_path / "index.cu"))
    assert kind == "ArgumentTypeError" and "has no function f: --function names" in sentence
