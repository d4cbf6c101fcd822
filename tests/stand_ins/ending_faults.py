"""Commands that are ended from outside at a random moment, and what must be gone soon after.

The definition.  Within `GONE_S` of a signal to the command, or to its whole group as from a terminal, no
process that it has started is alive, whatever that one was doing and whoever started it, and the folder of
temporary files is empty.  The exit code is 128 and the signal's number, or that of the answer where it came
first; until the command has imported its first modules, the signal ends it as it ends any process.  No
traceback, which Python alone writes, once the command runs.

What may stay, and is not looked at: of KILL, a file beside one that is being written.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from layoutalg.cli.entry import GRACE_S

ROOT = Path(__file__).parents[2]
MARK = "LAYOUTALG_TEST_ENDING"

GONE_S = GRACE_S + 3
"""What a command may take to end, and the guard to clean up after it."""

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)

LAYOUT = "Sw<3,3,3> o 0 o (8,64):(64,1)"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("kernel", "turn.cu", "--block", "32x32"),
    ("kernel", "turn.cu", "--block", "32x32", "--fix"),
    ("check", LAYOUT, "swz.cu", "--function", "swz"),
    ("check", LAYOUT, "swz.py", "--function", "swz"),
    ("check", LAYOUT, "slow.cu", "--function", "swz"),
    ("check", LAYOUT, "slow.py", "--function", "swz"),
    ("identify", "swz.cu", "--function", "swz", "--shape", "(8,64)"),
    ("verify", "transpose", "--random", "200", "--workers", "2"),
    ("tune", "transpose", "--sizes", "64", "--timing", "model", "--arch", "sm_90", "--store", "times.jsonl"),
    ("bench", "gemm-sm80", "--predict", "--size", "1024"),
    ("generate", "transpose", "--ptx", "--arch", "sm_80"),
    ("generate", "gemm-sm80", "-o", "gemm.cu"),
    ("inspect", "sass", "transpose"),
    ("ci",),
)
"""None of them is refused, which would keep the refused text for the user."""

FILES = {
    "turn.cu": """
__global__ void turn(const float* in, float* out) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
""",
    "swz.cu": "__device__ int swz(int row, int col) { return row * 64 + (col ^ row % 8 * 8); }",
    "swz.py": "def swz(row, col):\n    return row * 64 + (col ^ row % 8 * 8)\n",
    "slow.cu": "__device__ int swz(int row, int col) { for (volatile int i = 0; i < 1; i = 0); return row; }",
    "slow.py": "import time\ndef swz(row, col):\n    time.sleep(300)\n",
    "layoutalg.toml": '[[function]]\nfile = "swz.cu"\nfunction = "swz"\ntile = "' + LAYOUT + '"\n',
    "slow-compiler": """#!/bin/sh
: >"${TMPDIR:-/tmp}/object.$$"
: >begun
sleep 300 & wait
""",
}
"""A compiler that takes long leaves its own file and a process behind it."""


@dataclass(frozen=True)
class Ending:
    """A command, the signal it gets and when, and whether its whole group gets it."""

    words: tuple[str, ...]
    number: signal.Signals
    after_s: float
    to_group: bool
    slow_compiler: bool


def random_ending(rng: random.Random, longest_s: float = 6.0) -> Ending:
    """A command and its end; more often early, when most happens."""
    delay = longest_s * rng.random() ** 1.5
    return Ending(rng.choice(COMMANDS), rng.choice(SIGNALS), delay, rng.random() < 0.3, rng.random() < 0.3)


def prepare(folder: Path) -> None:
    """The files that commands read."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "slow-compiler").chmod(0o755)


COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests may ignore it
from layoutalg.cli import main
main()
"""


def alive(mark: str) -> list[str]:
    """The command lines of processes whose environment has a mark, but those that are only not yet reaped."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found += [f"{process.name} {words[:200]}"] if words else []
        except OSError:  # another's, or gone
            continue
    return found


def wrong_end(ending: Ending, folder: Path, begun: Path | None = None) -> list[str]:
    """What an ended command leaves, and whether its exit code is another; ends what is left.

    Where a file is `begun`, the signal comes as soon as it is there.
    """
    mark, temporary = secrets.token_hex(8), folder / "temporary"
    temporary.mkdir(exist_ok=True)
    slow = str(folder / "slow-compiler")
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *ending.words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={
            **os.environ,
            **({"CXX": slow, "CC": slow} if ending.slow_compiler else {}),
            "LAYOUTALG_CACHE": "off",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(temporary),
            MARK: mark,
        },
        start_new_session=True,
    )
    assert process.stderr is not None
    with process, process.stderr as stream:
        until = time.monotonic() + ending.after_s
        while process.poll() is None and time.monotonic() < until and not (begun and begun.exists()):
            time.sleep(0.01)
        if process.poll() is None:
            (os.killpg if ending.to_group else os.kill)(process.pid, ending.number)
        until = time.monotonic() + GONE_S
        wrong = []
        while left := alive(mark):
            if time.monotonic() > until:
                wrong = [f"alive: {left}"]
                for line in left:
                    os.kill(int(line.split()[0]), signal.SIGKILL)
                break
            time.sleep(0.05)
        code, said = process.wait(), stream.read().decode(errors="replace")
    if names := sorted(str(path.relative_to(temporary)) for path in temporary.rglob("*")):
        wrong.append(f"left: {names}")
        subprocess.run(["rm", "-rf", temporary], check=True)
    if code not in (0, 1, -ending.number, 128 + ending.number):
        wrong.append(f"code {code}")
    if code == 128 + ending.number and "Traceback" in said and not ending.to_group:
        wrong.append("traceback")
    return [f"{text}: {ending} {said[-300:]!r}" for text in wrong]
