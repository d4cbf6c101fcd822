"""convert: what it prints, its exit codes, standard input, and texts that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

from layoutalg.cli.options import forms
from layoutalg.notation import FORMS
from tests.command import answer, invoke, refusal, run

TILE = "Sw<3,3,3> o 0 o (64,64):(64,1)"
SHARED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"


def test_it_prints_the_result_and_nothing_else() -> None:
    assert run("convert", TILE, "--to", "triton").stdout == SHARED + "\n"
    assert run("convert", SHARED, "--shape", "64,64").stdout == TILE + "\n"
    assert run("convert", SHARED, "--shape", "(64,64)", "--to", "cute").stdout == TILE + "\n"
    fields = answer("convert", "(8,64):(64,1)", "--to", "numpy", "--dtype", "f16")
    assert fields["result"] == "shape=(8, 64), strides=(128, 2), itemsize=2" and fields["to"] == "numpy"
    assert run("convert", "GMMA::Layout_K_SW128_Atom<half_t>").stdout == "Sw<3,3,3> o 0 o (8,64):(64,1)\n"


def test_standard_input_is_read_and_bad_bytes_are_placed() -> None:
    made = invoke("convert", "-", "--to", "torch", input="Layout((8, 64),\n(64, 1))\n")
    assert made.stdout == "size=(8, 64), stride=(64, 1)\n"
    bad = invoke("convert", "-", input=b"(8,64):\n\xff(64,1)")
    assert bad.exit_code == 2 and "line 2, byte 1" in bad.stderr
    large = invoke("convert", "-", input=b"1" * ((1 << 20) + 1))
    assert large.exit_code == 2 and "size of standard input" in large.stderr
    deep = invoke("convert", "-", input="Layout<" * 100_000)
    assert deep.exit_code == 2 and "at most 96 nested brackets" in deep.stderr
    assert "line 1, column" in deep.stderr


def test_other_commands_read_the_notations_too() -> None:
    plain = run("analyze", "(8,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4").stdout
    typed = "cute::Layout<cute::tuple<cute::C<8>,cute::C<64>>,cute::tuple<cute::C<64>,cute::C<1>>>"
    assert (
        run("analyze", typed, "--dtype", "f16", "--access", "ldmatrix.x4").stdout.replace(
            f"'{typed}'", "'(8,64):(64,1)'"
        )
        == plain
    )
    assert "a map of registers and lanes has no offsets" in refusal("code", " - lane=1 -> (1)")[1]


def test_the_names_of_forms_are_completed_and_documented() -> None:
    assert forms("") == [name for name, form in FORMS.items() if form.write is not None]
    text = (Path(__file__).parents[2] / "docs" / "algebra.md").read_text(encoding="utf-8")
    table = text.partition("| form |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"`([\w.-]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:])))
    assert listed - {"gluon.BlockedLayout"} == {name for name in FORMS if not name.startswith("gluon.")}
    shown = " ".join(run("convert", "--help").stdout.split())
    assert not [
        name for name in FORMS if "." not in name and not re.search(rf"(?<![\w-]){name}(?![\w-])", shown)
    ]
