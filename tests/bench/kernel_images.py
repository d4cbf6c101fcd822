"""Kernels of two trees in a folder: machine code, launches and buffers as data, made without a GPU.

    folder = prepared(Path("build/kernels"), cases, "5299a5d")      compiles the cases on both trees
    for pair in pairs(folder):                                      each case as either tree computes it
        pair.equal                                                  the same machine code, launched alike

The idea.  A GPU machine has no history and no time to compile.  So each tree is asked here, in a process with
that tree first on its path, through an adapter: the tree's own tests/frozen/kernel_adapter.py, or of what is
older than that the one that the history has for release 0.1.0.  What comes back is data: cases.json, and each
different CUBIN once, by its SHA-256.  A tree that cannot compute a case says why.

    python tests/bench/kernel_images.py TREE ADAPTER FOLDER      one of the two processes; cases come on stdin
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

RELEASE_ADAPTER = "0321fd29:tests/bench/release_adapter.py"
"""Release 0.1.0 asked for kernels, which has no adapter: it imports that release's library alone."""

MOST_BYTES = 60 << 20
"""Of a folder: it travels to the machine with the GPU."""

SCRATCH = {"partial": "scratch", "sums": "scratch"}
"""What lies between kernels, by the names that trees give it."""

Case = Mapping[str, Any]


# --- the process of a tree -------------------------------------------------------------------------------


def adapter_of(path: str) -> ModuleType:
    """The module that knows how a tree is asked."""
    specification = importlib.util.spec_from_file_location("kernel_adapter", path)
    if specification is None or specification.loader is None:
        raise SystemExit(f"there is no adapter {path}")
    module = sys.modules[specification.name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def side(adapter: ModuleType, case: Case) -> tuple[dict[str, Any], list[bytes]]:
    """How a tree computes a case, as data, and its kernels' machine code; "raised" where it does not."""
    try:
        planned = adapter.plan(case)
        made = [adapter.compiled(launch) for launch in planned.launches]
    except Exception as error:  # noqa: BLE001
        return {"raised": f"{type(error).__name__}: {error}"}, []
    kernels = [
        {
            # programs of a tree that is older than clusters have neither
            "cluster": list(getattr(launch.kernel, "cluster", (1, 1, 1))),
            "cooperative": getattr(launch.kernel, "cooperative", False),
            **{name: getattr(one, name) for name in ("name", "threads", "dynamic_bytes", "dependent")},
            "grid": list(one.grid), "image": hashlib.sha256(one.image).hexdigest(),
            "arguments": [SCRATCH.get(x, x) if isinstance(x, str) else x for x in launch.arguments],
        }
        for one, launch in zip(made, planned.launches, strict=True)
    ]  # fmt: skip
    buffers = {
        SCRATCH.get(name, name): [one.nbytes, one.holds, one.written] for name, one in planned.buffers.items()
    }
    return {"kernels": kernels, "buffers": buffers}, [one.image for one in made]


_adapters: list[ModuleType] = []
"""That of this process."""


def _start(path: str) -> None:
    _adapters.append(adapter_of(path))


def _side(case: Case) -> tuple[dict[str, Any], list[bytes]]:
    return side(_adapters[0], case)


def serve(tree: str, adapter: str, folder: Path) -> None:
    """Answer the cases on standard input, a JSON list, by a line each; machine code goes into the folder."""
    sys.path.insert(0, tree)
    import layoutalg

    if not Path(layoutalg.__file__).is_relative_to(tree):
        raise SystemExit(f"layoutalg is imported from {layoutalg.__file__}, not from {tree}")
    cores, context = len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, _start, (adapter,)) as pool:
        for found, images in pool.map(_side, json.load(sys.stdin), chunksize=4):
            for image in images:
                store(folder, image)
            print(json.dumps(found), flush=True)


# --- the folder ------------------------------------------------------------------------------------------


def store(folder: Path, image: bytes) -> str:
    """Put machine code into a folder, once; its name."""
    name = hashlib.sha256(image).hexdigest()
    path = folder / f"{name}.cubin"
    if not path.exists():
        path.write_bytes(image)
    return name


def asked(tree: Path, adapter: Path, folder: Path, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """What a tree makes of the cases, in their order."""
    command = [sys.executable, str(HERE / "kernel_images.py"), str(tree), str(adapter), str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise SystemExit("the process of a tree has no pipes")
        process.stdin.write(json.dumps(list(cases)))
        process.stdin.close()
        answered = 0
        for line in process.stdout:
            answered += 1
            yield json.loads(line)
    if process.returncode or answered != len(cases):
        ended = f"it ended with {process.returncode}"
        raise SystemExit(f"{tree} answered {answered} of {len(cases)} cases, {ended}")


def adapter_at(revision: str, folder: Path) -> Path:
    """The adapter of a revision, written into the folder: its own, or the release's where it has none."""
    own = (f"{revision}:tests/{room}kernel_adapter.py" for room in ("frozen/", ""))
    for place in (*own, RELEASE_ADAPTER):
        shown = subprocess.run(["git", "-C", str(ROOT), "show", place], capture_output=True, check=False)
        if not shown.returncode:
            path = folder / "base_adapter.py"
            path.write_bytes(shown.stdout)
            return path
    raise SystemExit(f"{RELEASE_ADAPTER} is not in the history here; fetch it")


def write(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Store what both trees make of each case.  SystemExit where the folder has grown too large to travel."""
    (folder / "cases.json").write_text(json.dumps(list(records)), encoding="utf-8")
    nbytes = sum(path.stat().st_size for path in folder.iterdir())
    if nbytes > MOST_BYTES:
        raise SystemExit(f"{folder} has {nbytes} bytes, more than the {MOST_BYTES} that may travel")


def prepared(folder: Path, cases: Sequence[tuple[str, Case]], tree: Path, revision: str) -> None:
    """Ask this tree and an older one, of a revision, for labelled cases; store all in a private folder.

    What an earlier run left there is removed; SystemExit where anything else is in it.
    """
    folder, before = folder.resolve(), os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        old = [*folder.glob("*.cubin"), folder / "cases.json", folder / "base_adapter.py"]
        if others := set(folder.iterdir()) - set(old):
            raise SystemExit(f"{folder} is not empty: {min(others).name}")
        for path in old:
            path.unlink(missing_ok=True)
        asked_for = [case for _, case in cases]
        base = asked(tree, adapter_at(revision, folder), folder, asked_for)
        now = asked(ROOT, ROOT / "tests" / "frozen" / "kernel_adapter.py", folder, asked_for)
        sides = zip(cases, list(base), list(now), strict=True)
        names = ("case", "asked", "base", "now")
        write(folder, [dict(zip(names, (*case, *both), strict=True)) for case, *both in sides])
    finally:
        os.umask(before)


@dataclass(frozen=True)
class Pair:
    """A case as the older tree and this one compute it."""

    case: str
    base: Mapping[str, Any]
    now: Mapping[str, Any]
    asked: Case = field(default_factory=dict)

    @property
    def raised(self) -> str:
        """Why one of the trees does not compute it; empty where both do."""
        words = [f"{name}: {one['raised']}" for name, one in self.sides if "raised" in one]
        return "; ".join(words)

    @property
    def only_before(self) -> bool:
        """Whether the older tree computes it and this one does not."""
        return "raised" in self.now and "raised" not in self.base

    @property
    def equal(self) -> bool:
        """Whether both launch the same machine code in the same way."""
        return not self.raised and self.base["kernels"] == self.now["kernels"]

    @property
    def sides(self) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Both, by name."""
        return (("base", self.base), ("now", self.now))

    @property
    def buffers(self) -> dict[str, tuple[int, str, bool]]:
        """What either side needs: bytes, the type of the numbers, and whether it is a result."""
        found: dict[str, tuple[int, str, bool]] = {}
        for _, one in self.sides:
            for name, (nbytes, holds, written) in one["buffers"].items():
                most, before, result = found.get(name, (0, "", False))
                found[name] = (max(most, nbytes), before or holds, result or written)
        return found


def pairs(folder: Path) -> list[Pair]:
    """The cases of a folder."""
    found = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    return [Pair(one["case"], one["base"], one["now"], one.get("asked", {})) for one in found]


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
