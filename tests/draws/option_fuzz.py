"""Commands with option values that are drawn: each run ends with an answer or one sentence of refusal."""

from __future__ import annotations

import random

from tests.command import invoke

NUMBERS = (
    *("0", "1", "-1", "3", "64", "1003", "99999", "1" + "0" * 18, "9" * 22, "-" + "9" * 40, "9" * 5000),
    *("1e3", ""),
)
LAYOUTS = (
    *("(32,32):(32,1)", "(33,65):(65,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)", "Sw<1,58,5> o 0 o (32,33):(33,1)"),
    *("(65,65):(ld,65)", "(64,64):(ld,1)", "(9999999999999999999999,64):(ld,1)", "(4,8):(-1,4)", "(64,64)"),
    *("(2,3,5,7,11,13):(1000003,999983,17,1,3,77)", "(4,8):(8,1)\u00a0", "4:1", "", "((("),
)
ACCESSES = (
    *("ld.shared.b32", "ld.shared.b8@col", "ldmatrix.x4", "ld.global.b128", "ld.global.b8", "x"),
    "ld.shared.b32@(32,1):(1,0)",
)
INDEXES = (
    *("lane*4", "(lane%2)*0x2000000000000000", "lane<<70", "lane/0", "0x" + "f" * 4000, "(lane"),
    "lane*\u3000 4",
)
SHAPES = (
    *("3,4", "\x1e3,4", "0,4", "999999999999999999,999999999999999999", "2," * 70 + "2", "9" * 30, "5", "()"),
    "-3,4",
)
DTYPES = ("f32", "f16", "u8", "s4", "f64", "q7", "")
FAMILIES = ("transpose", "tiled_copy", "permute", "softmax", "sum", "gemm-sm80", "nothing")
ASKED = {"--access": ACCESSES, "--dtype": DTYPES}

COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "analyze": (LAYOUTS, {**ASKED, "--base": NUMBERS, "--method": ("f2", "enumerated", "auto", "x")}),
    "solve": (LAYOUTS, {**ASKED, "--base": ("0", "ld", "8*ld", "9" * 30), "--least": NUMBERS}),
    "synthesize": (LAYOUTS, {**ASKED, "--max-extra-bytes": NUMBERS, "--form": ("single", "tma", "x")}),
    "generate": (
        FAMILIES,
        {"--dtype": DTYPES, "--shape": SHAPES, "--axes": SHAPES, "--m": NUMBERS, "--n": NUMBERS},
    ),
    "draw": (LAYOUTS, {"--access": ACCESSES}),
    "explain": (("analyze", "coalesce", "nothing"), {"--dtype": DTYPES}),
}
"""Command -> first arguments, and values of its options."""


def draw_words(draw: random.Random) -> list[str]:
    """A command line."""
    if draw.random() < 0.15:
        words = ["analyze", "--index", draw.choice(INDEXES), "--op", draw.choice(ACCESSES[:5])]
        options = {"--base": NUMBERS, "--warps": NUMBERS, "--regs": NUMBERS, "--dtype": DTYPES}
    else:
        command = draw.choice(tuple(COMMANDS))
        first, options = COMMANDS[command]
        words = [command, draw.choice(first)]
        if command == "explain":
            words.append(draw.choice(LAYOUTS))
        if command == "solve":
            words += ["--access", draw.choice(ACCESSES)]
    for option, values in options.items():
        if draw.random() < 0.3:
            words += [option, draw.choice(values)]
    return [*words, "--json"] if draw.random() < 0.5 and "explain" not in words else words


def outcome(words: list[str]) -> str | None:
    """None for a command line that ends as it should, else what is wrong."""
    result = invoke(*words)
    if result.exception is not None:
        return f"{type(result.exception).__name__}: {str(result.exception)[:200]}"
    if result.exit_code not in (0, 1, 2):
        return f"exit code {result.exit_code}: {result.output[-300:]}"
    if result.exit_code == 2 and "--json" not in words and result.stderr.count("\n") != 1:
        return f"a refusal of {result.stderr.count(chr(10))} lines: {result.stderr[-300:]}"
    return None
