"""CPU seconds of imports, of the least commands and of each job of docs/jobs.md, a process each.

    python tests/bench/bench_jobs.py [RUNS]

The least of RUNS runs counts, 3 unless it is given.  Byte code is kept between the runs in a folder of its
own, as an installed package has it, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.documents import BLOCK, REPORTS, ROOT

IMPORTS = ("pass", "import layoutalg", "import numpy")
LEAST = (
    "--version", "--help", "analyze (32,32):(32,1) --access ld.shared.b32@col",
    "convert (8,8):(8,1) --to triton", "eval composition((8,8):(8,1),4:2)",
)  # fmt: skip
COMMAND = ("-m", "layoutalg")


@functools.cache
def kept_code() -> dict[str, str]:
    """The environment of a process that finds the byte code of the last one."""
    folder = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, folder)
    return {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}


def seconds(words: list[str], runs: int) -> float:
    """The least processor time of Python with some words, which may end with any code that is an answer."""

    def one() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, *words], capture_output=True, check=False, env=kept_code())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode in (0, 1, 2), words
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(one() for _ in range(runs))


def jobs(runs: int) -> dict[str, float]:
    """Seconds of the commands of each job; jobs that are Python alone are left out."""
    out = {}
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    for part in re.split(r"^### ", text, flags=re.M):
        times = []
        for language, body in BLOCK.findall(part):
            if language == "cuda" and (name := re.match(r"// (\w+\.cu)\n", body)):
                Path(name[1]).write_text(body, encoding="utf-8")
            elif language == "python":
                subprocess.run([sys.executable, "-c", body], capture_output=True, check=True)
            elif language == "console":
                commands = re.findall(r"^\$ layoutalg (.*?)(?:; echo .*)?$", body, re.M)
                times += [seconds([*COMMAND, *shlex.split(command)], runs) for command in commands]
        if times and not part.startswith("#"):
            out[part.partition("\n")[0]] = sum(times)
    return out


if __name__ == "__main__":
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        REPORTS.symlink_to(ROOT / "tests" / "data" / REPORTS)
        for words in [["-c", code] for code in IMPORTS] + [[*COMMAND, *shlex.split(x)] for x in LEAST]:
            print(f"{1e3 * seconds(words, most):8.0f} ms  {' '.join(words[1:])}")
        found = jobs(most)
    for job, spent in found.items():
        print(f"{1e3 * spent:8.0f} ms  {job}")
    print(f"{len(found)} jobs: {sum(found.values()):.1f} s")
