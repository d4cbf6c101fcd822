"""Bad input of every command: exit code 2 and one sentence; no layout and no value brings a traceback.

refusals.txt has a command line, the class of its error and a part of its sentence in each line.  Exit code 1
says that a checked property fails, so that nothing that is no answer may end with it.
"""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pytest

from layoutalg.explanation import OPERATIONS
from tests.command import refusal, run
from tests.draws import random_layouts
from tests.sweeps import each, spread
from tests.tiers import first_tier

LINES = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.deep(only=("inspect",))
@pytest.mark.parametrize("command", sorted({line.split()[0] for line in LINES}))
def test_bad_input_is_one_sentence_and_exit_code_2(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong, lines = [], [line for line in LINES if line.split()[0] == command]
    for line in spread(lines, 8) if first_tier() else lines:
        words, _, said = line.partition(" | ")
        error, message = refusal(*shlex.split(words))
        name, _, part = said.partition(": ")
        if error != name or part not in message:
            wrong.append(f"{line}\n    {error}: {message}")
    assert not wrong, "\n".join(wrong)
    assert not list(tmp_path.iterdir()), "nothing is written where it is refused"


def door(*words: str, codes: tuple[int, ...] = (0, 1, 2)) -> int:
    """The exit code of a command; one of these, and what is refused is one sentence on standard error."""
    done = run(*words)
    assert done.exit_code in codes, (words, done.output[-100:])
    if done.exit_code == 2 and "--json" not in words:
        assert done.stderr.startswith("layoutalg ") and done.stderr.count("\n") == 1, (words, done.stderr)
    return int(done.exit_code)


BAD = ("(4,8):(1@0,1@1)", "(m,n):(n,1)", "(n,8):(1,n)", "x", "", "-1", "None", "1.5", "Sw<9,9,9>", "(0,4)")
"""Coordinates, symbols, and what is no layout, no number, no name and no shape."""

ONE_PLACE = """
analyze ?
analyze T --access ?
analyze T --dtype ?
analyze T --arch ?
analyze T --base ?
analyze T --fail-on ?
analyze T --method ?
analyze --index 4*lane --op ?
analyze --offsets ? --op LDS.32
analyze --index 4*lane --op LDS.32 --warps ?
draw T --tile ?
draw T --access ?
draw T --format ?
solve (64,64):(ld,1) --access ?
solve (64,64):(ld,1) --access LDS.32 --base ?
synthesize (64,64) --access ?
synthesize (64,64) --access LDS.32 --order ?
synthesize (64,64) --access LDS.32 --max-extra-bytes ?
help ?
doctor cache ?
doctor demo ?
generate ?
generate transpose --m ? --n 64
generate transpose --m 64 --n 64 --compile ?
generate permute --shape ? --axes 1,0
generate permute --shape 64,64 --axes ?
generate transpose --m 8 --n 8 --dtype ?
generate gemm-sm80 --m 64 --n 64 --dtype ?
verify ?
verify transpose --m ? --n 64
bench ?
inspect sass ?
"""
"""Commands with one place in which something is wrong; T is a tile."""


@each("bad", BAD, sample=5)
@each("line", ONE_PLACE.split("\n")[1:-1], sample=8)
def test_what_is_wrong_in_one_place_is_bad_input(line: str, bad: str) -> None:
    door(*({"?": bad, "T": "(64,64):(64,1)"}.get(w, w) for w in line.split()), codes=(2,))


WAYS = ("analyze", "analyze --access ldmatrix.x4", "analyze --access st.shared.b32@(32,1):(1,0) --dtype c128",
        "draw", "draw --format svg", "draw --format dot", "draw --access ld.shared.b32 --dtype u4",
        "draw --tile (8,8)", "draw --json", "solve --access ld.shared.b32@row", "synthesize",
        "synthesize --access ldmatrix.x4 --dtype f16", "explain")  # fmt: skip
EDGES = ("()", "():()", "1:0", "(1):(0)", "0:1", "(0,4):(1,1)", "(64,64):(ld,1)", "Sw<3,3,3>", "(4,8)", "4",
         "_:1", "(4,8):1", "", "x", "(4,8):(1@0,1@1) o 0 o 32:1", "(1099511627776,1048576):(1048576,1)",
         "(4,8):(99999999999999999999,1)", "Sw<1,0,1> o 99999999999999999999 o 8:1", "Sw<1,0,1> o 0 o 8:-1",
         "Sw<1,58,5> o 0 o (8,8):(8,1)", "(1,1):(-1,1)", "(1,64):(1,0)")  # fmt: skip


@pytest.mark.parametrize("count", [5, pytest.param(40, marks=pytest.mark.deep)])
def test_a_layout_is_served_or_refused_by_every_command(count: int) -> None:
    """Layouts of every kind, and texts that are none."""
    rng = random.Random(count)
    kinds = (random_layouts.anything, random_layouts.coordinates, random_layouts.symbolic)
    layouts = [str(rng.choice(kinds)(rng)) for _ in range(count)] + rng.sample(EDGES, min(count, len(EDGES)))
    codes = {door(*way.split(), "--", layout) for layout in layouts for way in WAYS}
    assert codes >= {0, 2}
    for name in sorted(OPERATIONS)[:: 80 // count]:
        operands = rng.choice([(), ("4:1",), ("(2,2):(1,2)",), ("3",)])
        door("explain", "--", name, rng.choice(layouts), *operands)
