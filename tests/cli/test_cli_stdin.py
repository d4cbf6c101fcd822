"""- reads standard input wherever a text or a file is taken, once, and never while a shell completes."""

from __future__ import annotations

from layoutalg.limits import Most
from tests.command import Result, run
from tests.sweeps import each

SWIZZLED, PLAIN = "Sw<3,3,3> o 0 o (64,64):(64,1)", "(64,64):(64,1)"
OFFSETS = " ".join(str(4 * lane) for lane in range(32))


def fed(text: str | bytes, *words: str) -> Result:
    """The command with a text on its standard input."""
    return run(*words, input=text)


@each(
    "text, words",
    [
        (SWIZZLED, ("analyze", "-", "--dtype", "f16", "--access", "ldmatrix.x4")),
        ("4*lane", ("analyze", "--index", "-", "--op", "LDS.32")),
        ("(64,64):(ld,1)", ("solve", "-", "--dtype", "f16", "--access", "ldmatrix.x4")),
        ("(32,32)", ("synthesize", "-")),
        (SWIZZLED, ("explain", "-", "3")),
        ("4:1", ("explain", "coalesce", "-")),
        (SWIZZLED, ("code", "-", "--to", "python")),
        (SWIZZLED, ("draw", "-")),
        ("row*64 + col", ("identify", "--index", "-", "--shape", "row=64,col=64")),
    ],
    sample=3,
)
def test_a_text_from_standard_input(text: str, words: tuple[str, ...]) -> None:
    wanted = run(*(text if word == "-" else word for word in words))
    assert wanted.exit_code == 0
    for end in ("", "\n", "\r\n"):
        got = fed(text + end, *words)
        assert (got.exit_code, got.stdout) == (0, wanted.stdout), end


def test_a_file_from_standard_input() -> None:
    assert fed(OFFSETS, "analyze", "--offsets", "-", "--op", "LDS.32").exit_code == 0
    function = "int f(int r, int c) { return r * 64 + c; }"
    assert fed(function, "check", PLAIN, "-").exit_code == 0
    assert fed(function, "identify", "-", "--shape", "(64,64)").stdout.startswith(PLAIN)
    assert fed("[[layout]]\ntile = '4:1'\nlimits = ['injective']", "ci", "-").exit_code == 0


def test_what_standard_input_cannot_give() -> None:
    for text, words, part in (
        (PLAIN, ("check", "-", "-"), "standard input is read once: only one argument may be -"),
        ("4:1", ("explain", "composition", "-", "-"), "standard input is read once"),
        ("4:1", ("analyze", "-", "--index", "-"), "standard input is read once"),
        (b" " * (Most.TEXT.number + 1), ("draw", "-"), "size of standard input in bytes: 1048577 asked"),
        (b"4:\xff", ("draw", "-"), "standard input is not UTF-8 text: line 1, byte 3"),
        ("1 2 x", ("analyze", "--offsets", "-", "--op", "LDS.32"), "standard input line 1: 'x' is not an"),
        ("", ("draw", "-"), "cannot read ''"),
    ):  # fmt: skip
        got = fed(text, *words)
        assert got.exit_code == 2 and part in got.stderr, got.output
