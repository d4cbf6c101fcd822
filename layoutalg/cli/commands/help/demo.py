"""`layoutalg doctor demo`: the whole way from a layout to a verified kernel, by the commands that go it."""

from __future__ import annotations

import contextlib
import io
import shlex
import time
from dataclasses import dataclass

from layoutalg.answers import Amount, Answer, Count
from layoutalg.cli.output import say, say_answer, say_verbatim, wants_json
from layoutalg.cli.parameters import call, read_line
from layoutalg.cli.refusals import FAILED
from layoutalg.cli.table import COMMANDS

STEPS = (
    (
        "What ldmatrix costs on a 64 x 64 tile of f16, counted without enumerating lanes",
        'analyze "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4',
    ),
    (
        "A layout that serves 16-byte stores and ldmatrix without conflicts, and its proof",
        'synthesize "(64,64):(64,1)" --dtype f16 --access st.shared.b128 --access ldmatrix.x4',
    ),
    (
        "Where it puts each 16 bytes; ldmatrix reads a column, and finds eight different chunks",
        'draw "Sw<3,3,3> o 0 o (64,64):(64,1)" --dtype f16 --chunks --rows 8',
    ),
    (
        "A kernel, simulated thread by thread with every access traced, compiled, and run where a GPU is",
        "verify transpose --m 200 --n 136 --dtype f32",
    ),
)
"""The sentence of each step, and its command."""


@dataclass(frozen=True)
class DemoStep:
    """A command of the demo, and its exit code."""

    command: str
    exit_code: Count


@dataclass(frozen=True)
class Demo(Answer, command="doctor demo"):
    """The whole way from a layout to a verified kernel."""

    passed: bool
    seconds: Amount
    steps: tuple[DemoStep, ...]


def demo_command() -> int:
    """Analyse a layout, find a better one with a proof, draw it, and verify a kernel.

    Takes well under a minute and needs neither a GPU nor the CUDA toolkit.
    """
    started, steps = time.monotonic(), []
    for number, (what, command) in enumerate(STEPS, 1):
        if not wants_json():
            say(*[""] * (number > 1), f"{number}. {what}:")
            say_verbatim(f"$ layoutalg {command}")
        with contextlib.redirect_stdout(io.StringIO()) if wants_json() else contextlib.nullcontext():
            name, *words = shlex.split(command)
            steps.append(DemoStep(command, call(COMMANDS[name].function, read_line(name, words)) or 0))
    seconds = time.monotonic() - started
    passed = not any(step.exit_code for step in steps)
    if wants_json():
        say_answer(Demo(passed, round(seconds, 3), tuple(steps)))
    else:
        say("", f"{'Everything passed' if passed else 'SOMETHING FAILED'}, in {seconds:.1f} s.")
        say("To read the kernel: layoutalg generate transpose --dtype f32 -o transpose.cu")
    return 0 if passed else FAILED
