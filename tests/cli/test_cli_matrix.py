"""Every command that takes a layout, on every kind of layout: answered or refused by name, never a traceback.

The kinds: strides along modes, symbols, nested, empty, negative, of stride 0, composed with swizzles and with
layouts, huge, of rank 0 and of size 0, and texts that are no layouts.  Codes are 0, 1 and 2; a refusal is one
sentence on stderr.
"""

from __future__ import annotations

import random

from layoutalg.explanation import OPERATIONS
from tests.command import run
from tests.sweeps import each

LAYOUTS = (
    "(4,8):(1@0,1@1)",
    "(4,8):(1@1,2)",
    "32:1@0",
    "((2,2),8):((1@0,1@0@1),1@1)",
    "(4,8):(1@0,1@1) o 0 o 32:1",
    "Sw<1,0,1> o 0 o (4,8):(1@0,1@1)",
    "(64,64):(ld,1)",
    "(n,8):(1,n)",
    "((4,2),(2,4)):((1,16),(4,8))",
    "():()",
    "()",
    "1:0",
    "(1):(0)",
    "0:1",
    "(0,4):(1,1)",
    "(4,8):(-1,8)",
    "(64,64):(0,1)",
    "Sw<3,3,3>",
    "Sw<3,3,3> o 0 o (8,64):(64,1)",
    "Sw<3,3,2> o 0 o (8,64):(64,1)",
    "Sw<1,0,-1> o 3 o (4,8):(8,1)",
    "Sw<2,0,2> o Sw<1,0,3> o 0 o (8,8):(8,1)",
    "(4,4):(4,1) o 0 o (16):(1)",
    "Sw<1,58,5> o 0 o (8,8):(8,1)",
    "Sw<1,0,1> o 0 o 8:-1",
    "(1099511627776,1048576):(1048576,1)",
    "100000000000000000000:1",
    "(4,8):(99999999999999999999,1)",
    "Sw<1,0,1> o 99999999999999999999 o 8:1",
    "(4,8)",
    "4",
    "_:1",
    "(4,8):1",
    "",
    "x",
    "7:0",
    "(3,5,7):(35,7,1)",
)
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "analyze": ((), ("--access", "ldmatrix.x4"), ("--access", "ld.global.b32"),
                ("--access", "st.shared.b32@(32,1):(1,0)")),
    "draw": ((), ("--format", "svg"), ("--format", "dot"), ("--access", "ld.shared.b32"), ("--tile", "(8,8)"),
             ("--json",)),
    "solve": (("--access", "ld.shared.b32@row"),),
    "synthesize": ((), ("--access", "ldmatrix.x4", "--dtype", "f16"), ("--max-extra-bytes", "64")),
}  # fmt: skip


def door(*words: str) -> None:
    """Run the command; a traceback is an exception here, and fails the test."""
    done = run(*words)
    assert done.exit_code in (0, 1, 2), words
    assert done.exception is None or isinstance(done.exception, SystemExit), words
    if done.exit_code == 2 and "--json" not in words:
        assert done.stderr.startswith("layoutalg ") and done.stderr.count("\n") == 1, words


@each("layout", LAYOUTS, sample=8)
def test_a_layout_is_served_or_refused_by_every_command(layout: str) -> None:
    for command, ways in COMMANDS.items():
        for options in ways:
            door(command, *options, "--", layout)
    door("explain", "--", layout)
    door("explain", "--", layout, "3")


def test_operations_are_explained_or_refused() -> None:
    rng = random.Random(11)
    names = sorted(OPERATIONS)
    for name in names:
        for layout in rng.sample(LAYOUTS, 1):
            door("explain", "--", name, layout, *rng.choice([(), ("4:1",), ("(2,2):(1,2)",), ("3",)]))


def test_coordinates_are_drawn_and_not_analysed() -> None:
    layout = "(4,8):(1@0,1@1)"
    drawn = run("draw", layout)
    assert drawn.exit_code == 0 and "(3,7)" in drawn.stdout and "cells are coordinates" in drawn.stdout
    refused = run("analyze", layout)
    assert refused.exit_code == 2
    assert "(4,8):(1@0,1@1): its strides move along modes; integers are accepted" in refused.stderr
