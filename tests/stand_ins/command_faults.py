"""Runs of the command under faults, drawn at random, and what each must end with.

Whatever happens to streams, files, environment and libraries: 0 and 1 answer the question, 2 says that the
input is at fault, 3 that there is no answer for another reason; no traceback, no escape, one sentence.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.stand_ins.compiled_once import hostcc

ROOT = Path(__file__).parents[2]
TILE = "(64,64):(64,1)"
ACCESS = ("--dtype", "f16", "--access", "ldmatrix.x4")

COMMANDS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("analyze", TILE, *ACCESS), 0),
    (("analyze", TILE, *ACCESS, "--fail-on", "conflicts"), 1),
    (("analyze", "Sw<3,3,3> o 0 o (64,64):(64,1)", *ACCESS, "--fail-on", "conflicts"), 0),
    (("analyze", "(4,8"), 2),
    (("solve", "(64,64):(ld,1)", *ACCESS), 0),
    (("synthesize", TILE, *ACCESS), 0),
    (("explain", "composition", "(6,2):(8,2)", "(4,3):(3,1)"), 0),
    (("explain", "left_inverse", "(4,4):(1,1)"), 1),
    (("explain", "nothing"), 2),
    (("generate", "transpose"), 0),
    (("generate", "softmax", "--shape", "4,100"), 0),
    (("generate", "gemm-sm80", "--arch", "sm_1"), 2),
    (("verify", "permute", "--shape", "6,4", "--axes", "1,0"), 0),
    (("bench", "gemm-sm80", "--predict", "--size", "1024"), 0),
    (("bench", "transpose"), 2),
    (("inspect", "sass", "tiled_copy", "--dtype", "f64"), 0),
    (("draw", "Sw<1,0,2> o 0 o (4,8):(8,1)"), 0),
    (("draw", "(4,8):(8,1)", "--format", "svg"), 0),
    (("draw",), 2),
    (("help", "wavefront"), 0),
    (("help", "nothing"), 2),
    (("doctor", "cache"), 0),
    (("--nonsense",), 2),
)
"""Words and the exit code of a run without faults; no run needs a GPU, or has one."""

QUIET = ("--help", "-h", "--version")
"""What is answered without a command, and takes no --json."""

STREAMS: dict[str, tuple[bool, bool]] = {
    '"$@"': (False, False),
    '"$@" <&-': (False, False),
    '"$@" >&-': (True, False),
    '"$@" >/dev/full': (True, False),
    '"$@" 2>&-': (False, True),
    '"$@" 2>/dev/full': (False, True),
    '"$@" >&- 2>&-': (True, True),
    '"$@" >/dev/full 2>/dev/full': (True, True),
    '"$@" <&- >&- 2>&-': (True, True),
    'ulimit -f 0; "$@" >"$OUT"': (True, False),
}
"""Lines of sh that start the command: whether standard output is lost, and whether error is."""

GONE = '{ "$@"; echo "$?" >&3; } 3>&2 2>"$OUT" | true; cat "$OUT" >&2'
"""A line of sh whose reader leaves at once: the exit code is the first line on standard error."""

SURROUNDINGS: tuple[dict[str, str], ...] = (
    {}, {}, {}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"},
    {"NO_COLOR": "1"}, {"COLUMNS": "1"}, {"COLUMNS": "0"}, {"COLUMNS": "wide"}, {"TERM": ""},
    {"TERM": "dumb"}, {"HOME": "/nowhere"}, {"TMPDIR": "/nowhere"}, {"LAYOUTALG_CACHE": "/proc/nothing/here"},
    {"LAYOUTALG_CACHE": "~nobody-here/x"},
    {"XDG_CACHE_HOME": "relative"}, {"PATH": ""}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONUNBUFFERED": "1"},
    {"PYTHONHASHSEED": "3"}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"},
    {"CUDA_VISIBLE_DEVICES": "nothing"}, {"LANG": "xx_YY"},
)  # fmt: skip

BROKEN: dict[str, tuple[str, ...]] = {
    "rich": ("",),
    "numpy": ("solve", "synthesize", "generate", "verify", "bench", "inspect"),
    "sympy": ("solve",),
}
"""Libraries that do not import, and the commands that cannot do without."""

TARGETS: dict[str, int] = {
    "plain.txt": 0, "a b.txt": 0, "\x1b[31mred\x07.txt": 0, "\u202eb\x9b.txt": 0, "new\nline.txt": 0,
    "dangling.txt": 0,
    "folder.txt": 2, "fifo.txt": 2, "read-only.txt": 2, "none/x.txt": 2, "loop.txt": 2, "x" * 300 + ".txt": 2,
    "plain.gif": 2, "full.txt": 2,
}  # fmt: skip
"""Names of files to write, and the exit code."""


@dataclass(frozen=True)
class Run:
    """A command under a fault, and what it must end with."""

    words: tuple[str, ...]
    code: int
    script: str = '"$@"'
    environment: Mapping[str, str] = field(default_factory=dict)
    out_is_lost: bool = False
    error_is_lost: bool = False


def random_run(rng: random.Random, folder: Path) -> Run:
    """A run with one fault, in some surroundings; `folder` has what `prepare` puts there."""
    words, code = rng.choice(COMMANDS)
    if rng.random() < 0.05:
        words, code = (rng.choice(QUIET),), 0
    elif rng.random() < 0.4:
        words = (*words, "--json")
    around = rng.choice(SURROUNDINGS)
    kind = rng.choice(["streams"] * 5 + ["gone"] * 2 + ["target"] * 2 + ["broken", "cupy", "deleted"])
    if kind == "gone":
        return Run(words, code, GONE, around, out_is_lost=True)
    if kind == "target":
        name = rng.choice(sorted(TARGETS))
        return Run(("draw", "(4,8):(8,1)", "-o", str(folder / name)), TARGETS[name], environment=around)
    if kind == "broken":
        library = rng.choice(sorted(BROKEN))
        needed = "" in BROKEN[library] or words[0] in BROKEN[library]
        return Run(words, 3 if needed else code, environment={"PYTHONPATH": str(folder / library)})
    if kind == "cupy":
        paths = {"PYTHONPATH": str(folder / "cupy"), "LD_LIBRARY_PATH": str(folder / "cupy")}
        return Run(words, code, environment=paths)
    if kind == "deleted":
        return Run(words, code, 'mkdir "$OUT.d" && cd "$OUT.d" && rmdir "$OUT.d" && "$@"', around)
    script = rng.choice(sorted(STREAMS))
    out_is_lost, error_is_lost = STREAMS[script]
    printed = code in (0, 1) or "--json" in words
    return Run(words, 3 if out_is_lost and printed else code, script, around, out_is_lost, error_is_lost)


def prepare(folder: Path) -> None:
    """Files of all kinds to be written over, and libraries that do not import."""
    for library in (*BROKEN, "cupy"):
        (folder / library).mkdir(exist_ok=True)
        (folder / library / f"{library}.py").write_text("raise ImportError('built for another\\nPython')")
    (folder / "driver.c").write_text("int cuInit(unsigned flags) { return 100; }")
    driver = folder / "cupy" / "libcuda.so.1"
    if not driver.exists():
        subprocess.run([*hostcc.find_compiler("c"), "-shared", "-o", driver, folder / "driver.c"], check=True)
    (folder / "folder.txt").mkdir(exist_ok=True)
    if not (folder / "fifo.txt").exists():
        os.mkfifo(folder / "fifo.txt")
    (folder / "read-only.txt").write_text("kept")
    (folder / "read-only.txt").chmod(0o444)
    for name, target in (("dangling.txt", "made.txt"), ("loop.txt", "loop.txt"), ("full.txt", "/dev/full")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)


def wrong_end(run: Run, folder: Path) -> list[str]:
    """What a run ends with and should not."""
    start = [sys.executable, "-c", "from layoutalg.cli import main; main()", *run.words]
    if "PATH" in run.environment:  # of the command alone: the line of sh has its own programs
        start = ["/usr/bin/env", f"PATH={run.environment['PATH']}", *start]
    paths = [run.environment.get("PYTHONPATH", ""), str(ROOT)]
    out_path = folder / "out"
    out_path.unlink(missing_ok=True)
    done = subprocess.run(
        ["/bin/sh", "-c", run.script, "sh", *start],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={
            **os.environ,
            "LAYOUTALG_CACHE": "off",
            **run.environment,
            "PYTHONPATH": ":".join(filter(None, paths)),
            "OUT": str(out_path),
            "PATH": os.environ["PATH"],
        },
        check=False,
        timeout=300,
    )
    code, out, err = done.returncode, done.stdout, done.stderr.decode(errors="replace")
    if run.script == GONE:
        first, _, err = err.partition("\n")
        code = int(first)
    wrong = []
    if "LAYOUTALG_CACHE" in run.environment:  # a folder that cannot be used may be said, in one sentence
        warned = "layoutalg: warning: compiled kernels are not kept in "
        err = "".join(line for line in err.splitlines(keepends=True) if not line.startswith(warned))
    if code != run.code:
        wrong.append(f"code {code} in place of {run.code}")
    if "Traceback" in err or "Exception ignored" in err:
        wrong.append("traceback")
    if "\x1b" in err or b"\x1b" in out or "\x9b" in err or "\u202e" in err:
        wrong.append("escape")
    as_json = "--json" in run.words and run.code != 3
    said = run.code in (2, 3) and not run.error_is_lost and not as_json
    if run.code == 3 and "--json" in run.words and not run.out_is_lost:
        said, as_json = False, True
    note = run.words[0] == "generate" and "softmax" in run.words and run.code in (0, 1)
    if not run.error_is_lost and not note and err.count("\n") != said:
        wrong.append(f"{err.count(chr(10))} lines of error in place of {int(said)}")
    if as_json and not run.out_is_lost and run.environment.get("PYTHONIOENCODING") != "utf-16":
        try:
            json.loads(out)
        except ValueError:
            wrong.append("no JSON")
    return [f"{text}: {run} {err[-300:]!r}" for text in wrong]
