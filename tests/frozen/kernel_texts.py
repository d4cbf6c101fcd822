"""Kernels as text, frozen: what is printed, chosen and launched for cases of the bench and for random ones.

    python -m tests.frozen.kernel_texts                  what differs between the file and what is there now
    python -m tests.frozen.kernel_texts --only gemm      of the families whose name a regular expression finds
    python -m tests.frozen.kernel_texts --write          store what is there now; also with --only

So that kernels can be moved and joined without the change of a byte.  The file holds two words per case, in
the order of the cases: the start of a sha256 over the launches (text, grid, threads, shared memory, cluster)
and the start of one over the configuration.  Of a problem that is refused both are the name of the error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import in_processes
from layoutalg.codegen.printing import to_cuda
from layoutalg.codegen.program import dynamic_bytes
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import bench_of
from tests.frozen.chosen_kinds import ROOMS, Case, attended

STORED = Path(__file__).parents[1] / "data" / "kernel_texts.json"
SEED, DRAWN, FEW = 20261129, 300, 12
"""Of the random problems of a family: the seed, how many are stored, how many are compared each time."""

ARCHS = {"gemm-sm75": "sm_75", "gemm-sm90": "sm_90a"}
"""Of the cases of the bench; of other families it is sm_90."""


def drawn(family: str, count: int = DRAWN) -> list[Case]:
    """Random problems of a family, by the generator of its room; fewer are the first of more."""
    rooms = (*ROOMS.values(), attended)
    (draw,) = (d for d in rooms if any(d(random.Random(n)).family == family for n in range(99)))
    rng = random.Random(f"{SEED} {family}")
    cases = iter(lambda: draw(rng), None)
    return list(islice((case for case in cases if case.family == family), count))


def benched(family: str) -> list[tuple[str, Any]]:
    """The labels and the problems of what `layoutalg bench` measures of a family."""
    return list(bench_of(FAMILIES[family]).cases(None, None))


def words(family: str, arch: str, problem: Callable[[], Any]) -> str:
    """The two words of a problem: of its launches, and of the configuration that is chosen."""
    try:
        asked = problem()
        config = FAMILIES[family].choose(asked, arch)
        kernels = FAMILIES[family].launches(asked, config, arch).kernels
    except LayoutAlgError as error:
        return f"{type(error).__name__} {type(error).__name__}"
    launches = [
        (to_cuda(k), str(k.grid), k.threads, dynamic_bytes(k), k.cluster, k.dependent) for k in kernels
    ]
    return f"{_digest(launches)[:12]} {_digest(config)[:6]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _problem(case: Case) -> Any:
    return case.problem


def _itself(problem: Any) -> Any:
    return problem


Words = Mapping[str, Sequence[str]]
"""Those of the bench and of the drawn problems."""


def of_drawn(cases: Sequence[Case]) -> Words:
    """The words of drawn problems."""
    return {"drawn": [words(case.family, case.arch, partial(_problem, case)) for case in cases]}


def made(family: str) -> Words:
    """The words of all cases of a family."""
    arch = ARCHS.get(family, "sm_90")
    bench = [words(family, arch, partial(_itself, problem)) for _, problem in benched(family)]
    return {**of_drawn(drawn(family)), "bench": bench}


def differences(family: str, before: Words, now: Words, cases: Sequence[Case]) -> Iterator[str]:
    """The cases of a family whose words are not as they were; `cases` are the drawn ones."""
    names = {"drawn": map(str, cases), "bench": [label for label, _ in benched(family)]}
    for kind, after in now.items():
        for name, old, new in zip(names[kind], before[kind], after, strict=False):
            if old != new:
                what = "choice" if old.split()[0] == new.split()[0] else "launches"
                yield f"{family}, {kind} {name}: {what}: {old} -> {new}"
        if kind == "bench" and len(after) != len(before[kind]):
            yield f"{family}: {len(before[kind])} cases of the bench, {len(after)} now"


def stored() -> dict[str, dict[str, list[str]]]:
    """The words in the file, by family."""
    found: dict[str, dict[str, list[str]]] = json.loads(STORED.read_text(encoding="utf-8"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression of families")
    parser.add_argument("--write", action="store_true", help="store what is there now")
    asked = parser.parse_args(arguments)
    families = [name for name in FAMILIES if re.search(asked.only, name)]
    now = dict(zip(families, in_processes(made, families), strict=True))
    if asked.write:
        found = {**(stored() if STORED.exists() else {}), **now}
        lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in FAMILIES]
        STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return 0
    before = stored()
    lines = [line for name in families for line in differences(name, before[name], now[name], drawn(name))]
    print(*lines, f"{len(lines)} of {sum(len(x) for f in now.values() for x in f.values())} differ", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
