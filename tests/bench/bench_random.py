"""Long runs of random cases, each judged by a definition: counts by what became of them, and what is wrong.

    python tests/bench/bench_random.py                               every kind, as many cases as it says
    python tests/bench/bench_random.py views --seed 0 --cases 2000
    python tests/bench/bench_random.py views --functions softmax layer_norm
    python tests/bench/bench_random.py views --numpy                 by the code of the CPU
    python tests/bench/bench_random.py permutes --draw matrices --best --arch sm_75
    python tests/bench/bench_random.py synthesis --seed 12
    python tests/bench/bench_random.py text --only guards
    python tests/bench/bench_random.py readers --cases 18000
    python tests/bench/bench_random.py atheris --seconds 60
    python tests/bench/bench_random.py options --cases 500
    python tests/bench/bench_random.py commands --cases 200
    python tests/bench/bench_random.py index-text --compiled 100
    python tests/bench/bench_random.py index-code --compiled 20      so many compiled by check_index_function
    python tests/bench/bench_random.py index-code --wild             layouts over layouts, chains of swizzles
    python tests/bench/bench_random.py notation
    python tests/bench/bench_random.py cache-faults --cases 7200
    python tests/bench/bench_random.py command-faults --cases 250    about a second per case
    python tests/bench/bench_random.py ending-faults --cases 70      about three seconds per case

A kind draws its cases from the seed (tests/draws) and judges each by enumeration, a compiler, NumPy or
another definition.  The exit status is 1 where anything is wrong.  atheris looks for bytes by the lines that
they reach: pip install atheris==3.0.0; it stops at the first fault and exits with 77, its input in crash-...
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options

SHOWN = 8
"""Wrong cases of a sort that are printed."""

WRONG = "WRONG"
Judged = tuple[str, object]
"""What became of a case, beginning with WRONG where it is so; and the case, as it is printed then."""


def wrong(texts: Any, sort: str) -> Iterator[Judged]:
    """Texts of what is wrong, of a sort."""
    yield from ((f"{WRONG}, {sort}", text) for text in texts)


# --- arrays and layouts ----------------------------------------------------------------------------------


def views(asked: Namespace) -> Iterator[Judged]:
    """Random calls on random views, by the code of a GPU in the simulator."""
    from tests.draws.views import EVERY, FUNCTIONS, draw
    from tests.judges.view_judge import run_in_numpy, run_in_simulator

    functions = tuple(f for f in EVERY if f in (asked.functions or FUNCTIONS))
    library, run = ("numpy", run_in_numpy) if asked.numpy else ("host", run_in_simulator)
    for n in range(asked.seed, asked.seed + asked.cases):
        case = draw(n, most=asked.most, functions=functions, library=library)  # type: ignore[arg-type]
        verdict = run(case)
        said = f": {verdict.why}" if verdict.kind == "refused" else ""
        kind = WRONG if verdict.kind == "wrong" else verdict.kind
        yield f"{kind}, {case.function}{said}", f"case {case.seed}: {case}\n    {verdict.why}"


def permutes(asked: Namespace) -> Iterator[Judged]:
    """Moves between views and relayouts, every plan of each: proven by `check`, run, compared with NumPy."""
    from tests.draws.moves import plans, random_case, random_matrix, verdict

    for n in range(asked.cases):
        drawn = random_matrix if asked.draw == "matrices" else random_case
        case = drawn(random.Random(f"{asked.seed} {n}"), asked.most)
        for number, c in enumerate(islice(plans(case, asked.arch), 1 if asked.best else None)):
            said = verdict(case, c, n, asked.arch)
            text = f"case {n}, plan {number}: {case}\n    {c}\n    {said}"
            yield f"{WRONG}, {said.partition(':')[0]}" if said else "right plan", text


def synthesis(asked: Namespace) -> Iterator[Judged]:
    """Questions, rows of chunks that have a layout, mutated answers and ignored lanes, by enumeration."""
    from tests.draws import addressing, synthesis_cases
    from tests.mutants import syntheses

    for sort, mistakes, share in (
        ("questions", synthesis_cases.mistakes, 1), ("mutants", syntheses.mistakes, 10),
    ):  # fmt: skip
        outcomes, found = mistakes(asked.seed, max(1, asked.cases // share))
        for outcome, count in outcomes.items():
            yield from [(f"{sort}: {outcome}", "")] * count
        yield from wrong(found, sort)
    yield from wrong(synthesis_cases.missed_rows(asked.seed, max(1, asked.cases // 2)), "rows of chunks")
    answered, found = addressing.mistakes(asked.seed, max(1, asked.cases // 5))
    yield from [("ignored lanes: answered", "")] * answered
    yield from wrong(found, "ignored lanes")


# --- texts -----------------------------------------------------------------------------------------------


def text(asked: Namespace) -> Iterator[Judged]:
    """Expressions and index functions compiled, kernels at the edges of their domains, guards."""
    from layoutalg.codegen.expr import to_c
    from layoutalg.errors import CompileError, MismatchError
    from layoutalg.testing import check_index_function
    from tests.draws import ctext_cases, guards
    from tests.draws.domains import TRIALS

    def expressions(rng: random.Random, cases: int) -> Iterator[str]:
        for start in range(0, cases, 150):
            batch = [ctext_cases.draw_case(rng) for _ in range(min(150, cases - start))]
            for language in ("c", "c++"):
                for case in ctext_cases.wrong(batch, language):
                    yield f"{language}: {case.node} as {to_c(case.node)}"

    def functions(rng: random.Random, cases: int) -> Iterator[str]:
        for _ in range(cases):
            layout, function = ctext_cases.draw_function(rng)
            try:
                check_index_function(function, layout, "place")
            except (MismatchError, CompileError) as error:
                yield f"{layout}: {error}"

    def lanes(rng: random.Random, cases: int) -> Iterator[str]:
        for _ in range(cases):
            layout, guard, wanted = guards.draw_case(rng)
            found = guards.active_lanes(layout, guard)
            if found not in (wanted, None):
                yield f"{layout} under {guard}: {found} instead of {wanted}"

    def edges(family: str) -> Callable[[random.Random, int], Iterator[str]]:
        def three_launches_each(rng: random.Random, cases: int) -> Iterator[str]:
            for _ in range(cases):
                yield from TRIALS[family](random.Random(rng.random()), 3)

        return three_launches_each

    parts: dict[str, tuple[Callable[[random.Random, int], Iterator[str]], float]] = {
        "index expressions": (expressions, 5.0), "index functions": (functions, 0.25),
        **{f"edges of {name}": (edges(name), 0.1) for name in TRIALS}, "guards": (lanes, 2.0),
    }  # fmt: skip
    for name, (part, share) in parts.items():
        if asked.only in name:
            cases = max(1, round(asked.cases * share))
            yield from [(f"cases of {name}", "")] * cases
            yield from wrong(part(random.Random(f"{asked.seed} {name}"), cases), name)


RARE = {"mma atom": 100}
"""Readers that are asked less often, by how much: an unknown name is compared with a long table."""


def readers(asked: Namespace) -> Iterator[Judged]:
    """Bytes drawn evenly for every reader: answered, or refused by name."""
    from tests.draws.readers import READERS, check, draw_bytes

    for name in READERS:
        rng = random.Random(f"{name} {asked.seed}")
        for _ in range(asked.cases // RARE.get(name, 1)):
            raw = draw_bytes(rng)
            try:
                yield f"{name}: {'answered' if check(name, raw) else 'refused'}", ""
            except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked for
                yield f"{WRONG}, {name}", f"{raw!r}: {type(error).__name__}: {str(error)[:200]}"


def by_atheris(asked: Namespace) -> Iterator[Judged]:
    """Bytes that reach new lines; the first byte chooses the reader.  Ends the process itself."""
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with atheris.instrument_imports(include=["layoutalg"]):
        from tests.draws.readers import READERS, check
    chosen = [name for name in READERS if name not in RARE]

    def run(raw: bytes) -> None:
        if raw:
            check(chosen[raw[0] % len(chosen)], raw[1:])

    limits = [f"-max_total_time={asked.seconds}"] if asked.seconds else [f"-runs={asked.cases}"]
    atheris.Setup([sys.argv[0], f"-seed={asked.seed}", "-max_len=80", *limits], run)
    atheris.Fuzz()
    yield from ()


def command_lines(asked: Namespace) -> Iterator[Judged]:
    """Command lines in this process."""
    from tests.draws.option_fuzz import draw_words, outcome

    rng = random.Random(asked.seed)
    for _ in range(asked.cases):
        words = draw_words(rng)
        said = outcome(words)
        yield WRONG if said else "command lines as they should end", f"{[w[:60] for w in words]}: {said}"


EXTENTS = ("0", "1", "2", "3", "4", "7", "8", "16", "32", "64", "1099511627776", "n", "-1", "_", "")
STRIDES = ("0", "1", "2", "-1", "8", "64", "66", "1@0", "1@1", "2@1@0", "ld", "9" * 20, "_", "x")


def nearly_a_layout(rng: random.Random) -> str:
    """A layout's text, or nearly one."""
    leaves = (EXTENTS[1:10], STRIDES[:7]) if rng.random() < 0.7 else (EXTENTS, STRIDES)

    def tree(depth: int) -> list[str]:
        if depth == 0 or rng.random() < 0.4:
            return [rng.choice(some) for some in leaves]
        parts = [tree(depth - 1) for _ in range(rng.choice([0, 1, 2, 2, 2, 3]))]
        return [f"({','.join(part[i] for part in parts)})" for i in (0, 1)]

    made = ":".join(tree(2)[: 2 if rng.random() < 0.9 else 1])
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        b, m, s = rng.randrange(4), rng.randrange(6), rng.choice([-3, -1, 0, 1, 2, 3, 60])
        outer = f"Sw<{b},{m},{s}>" if rng.random() < 0.8 else "(4,64):(64,1)"
        made = f"{outer} o {rng.choice(['0', '0', '3', '9' * 20])} o {made}"
    if rng.random() < 0.05:
        at = rng.randrange(len(made) + 1)
        made = made[:at] + rng.choice("():,o<>@-_ 9x") + made[at:]
    return made


def commands(asked: Namespace) -> Iterator[Judged]:
    """Every command that takes a layout, on random texts: answered or refused by name, never a traceback."""
    from layoutalg.explanation import OPERATIONS
    from tests.cli.test_refusals import WAYS
    from tests.command import run

    rng = random.Random(asked.seed)
    for _ in range(asked.cases):
        layout = nearly_a_layout(rng)
        calls = [(*rng.choice(WAYS).split(), "--", layout) for _ in range(4)]
        calls.append(("explain", "--", layout, str(rng.randrange(9))))
        more = rng.choice([(), ("4:1",), (nearly_a_layout(rng),)])
        calls.append(("explain", "--", rng.choice(sorted(OPERATIONS)), layout, *more))
        for call in calls:
            try:
                done = run(*call)
            except Exception as error:  # noqa: BLE001 - whatever comes out is what is looked for
                place = traceback.extract_tb(error.__traceback__)[-1]
                yield WRONG, f"{call} {type(error).__name__}: {error} {place.filename}:{place.lineno}"
                continue
            silent = done.exit_code == 2 and not done.output.strip()
            wrong_end = silent or done.exit_code not in (0, 1, 2)
            yield WRONG if wrong_end else f"exit code {done.exit_code}", f"{call} {done.exit_code}"


def index_text(asked: Namespace) -> Iterator[Judged]:
    """Index expressions against their definition in C's types, and against the host's compiler."""
    import numpy as np

    from layoutalg.errors import ParseError, ResourceError
    from layoutalg.reading import parse_index
    from tests.draws import index_trees

    rng, lane = random.Random(asked.seed), np.arange(32)
    for _ in range(asked.cases):
        tree = index_trees.draw(rng, rng.randrange(1, 12))
        wanted = index_trees.expected(tree)
        try:
            right = parse_index(tree.text)(lane=lane).tolist() == wanted
            yield "accepted" if right else f"{WRONG}, accepted", tree.text
        except ResourceError:
            yield "refused as too large", ""
        except ParseError:
            yield (
                "refused, and disputed" if None in wanted else f"{WRONG}, refused, though all agree",
                tree.text,
            )
    for batch in range(0, asked.compiled, 100):
        found, accepted = index_trees.against_the_compiler(asked.seed + batch, 100)
        yield from [("compiled", "")] * accepted
        yield from wrong(found, "the compiler has something else")


def index_code(asked: Namespace) -> Iterator[Judged]:
    """identify(code(layout)) is the layout: as kernels have them, or of any kind, which may be refused."""
    import numpy as np

    import layoutalg
    from layoutalg.layout import product
    from layoutalg.testing import check_index_function
    from tests.draws import index_functions, random_layouts

    rng, cases = random.Random(asked.seed), 0
    kinds = (random_layouts.layout, random_layouts.swizzled, random_layouts.stacked)
    while cases < asked.cases:
        to = "python"
        try:
            layout = index_functions.tile(rng)
            if asked.wild:
                layout = eval(rng.choice(kinds)(rng), vars(layoutalg))  # noqa: S307 - a call that is written here
            if layoutalg.size(layout) > index_functions.LIMIT:
                continue
        except layoutalg.LayoutAlgError:
            continue
        cases, to = cases + 1, rng.choice(("c", "cuda", "python"))
        lost = "" if asked.wild else f"{WRONG}, "
        try:
            code = layoutalg.code(layout, to, "at")
        except layoutalg.LayoutAlgError as error:
            yield f"{lost}code: {type(error).__name__}", layout
            continue
        shape = tuple(map(product, layout.shape)) if isinstance(layout.shape, tuple) else layout.shape
        found, indices = layoutalg.identify(code, shape), np.arange(layoutalg.size(layout))
        if found.layout is None:
            yield f"{lost}not identified", layout
        elif np.array_equal(found.layout(indices) + 0 * indices, layout(indices) + 0 * indices):
            yield f"same, {found.kind}", ""
        else:
            yield f"{WRONG}, another function", layout
        if cases <= asked.compiled:
            check_index_function(code, layout, "at")


def notation(asked: Namespace) -> Iterator[Judged]:
    """parse(convert(layout, form)) is the layout, in every form that can express it; every fifth a map."""
    from tests.draws import notation_cases

    rng = random.Random(asked.seed)
    for case in range(asked.cases):
        value = notation_cases.linear(rng) if case % 5 == 4 else notation_cases.layout(rng)
        element = rng.choice(notation_cases.ELEMENTS)
        for form in notation_cases.forms(value):
            result = notation_cases.judged(value, form, element)
            kind = f"{WRONG}, {form}" if result.startswith(WRONG) else f"{form}: {result}"
            yield kind, f"{result}: {value!r}, {element}"


# --- faults of the machine -------------------------------------------------------------------------------


def cache_faults(asked: Namespace) -> Iterator[Judged]:
    """The cubin cache: what it believes and should not, damage by kills, contests, bytes past its limit."""
    from tests.stand_ins import cache_faults as faults

    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for _ in range(asked.cases):
            case = faults.random_case(rng)
            yield f"entries to be {'believed' if case.believed else 'refused'}", ""
            yield from wrong(faults.wrong_reads(case, base, rng), "read")
        yield from wrong(faults.damage_by_kills(base, asked.cases // 18, rng), "damaged by a kill")
        forged, own = faults.forged_reads(base, asked.cases // 4)
        yield from [("own entries kept in a contest", "")] * own
        yield from wrong(forged, "forged entry read")
        over = faults.past_the_limit(base, 6, max(asked.cases // 20, 50), rng)
        yield from wrong([f"{n} bytes" for n in over if n > 0], "past the limit")


def command_faults(asked: Namespace) -> Iterator[Judged]:
    """The command under faults of streams, files, environment and libraries: exit codes and sentences."""
    from tests.stand_ins import command_faults as faults

    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        faults.prepare(Path(folder))
        for _ in range(asked.cases):
            run = faults.random_run(rng, Path(folder))
            yield from wrong(faults.wrong_end(run, Path(folder)), "end")
            yield f"exit code {run.code}", ""


def ending_faults(asked: Namespace) -> Iterator[Judged]:
    """Commands ended by TERM, HUP, INT or KILL at random moments: what they leave, and their exit codes."""
    from tests.stand_ins import ending_faults as faults

    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        faults.prepare(Path(folder))
        for _ in range(asked.cases):
            ending = faults.random_ending(rng)
            yield from wrong(faults.wrong_end(ending, Path(folder)), "end")
            yield f"ended by {ending.number.name}", ""


# --- the program -----------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What judges cases, how many there are by default, and the options beside --seed and --cases."""

    judged: Callable[[Namespace], Iterator[Judged]]
    cases: int
    options: Mapping[str, Any] = {}
    """By name: what it is by default; True or False of a switch, a tuple of what may be chosen."""
    seed: int = 1


KINDS: Mapping[str, Kind] = {
    "views": Kind(views, 1000, {"most": 3000, "functions": [], "numpy": False}, 0),
    "permutes": Kind(
        permutes, 1000, {"most": 1500, "draw": ("any", "matrices"), "arch": "sm_90", "best": False}
    ),
    "synthesis": Kind(synthesis, 1000),
    "text": Kind(text, 400, {"only": ""}),
    "readers": Kind(readers, 2000, seed=0),
    "atheris": Kind(by_atheris, 2000, {"seconds": 0}, 0),
    "options": Kind(command_lines, 500, seed=0),
    "commands": Kind(commands, 400),
    "index-text": Kind(index_text, 20000, {"compiled": 400}),
    "index-code": Kind(index_code, 5000, {"compiled": 0, "wild": False}, 20261122),
    "notation": Kind(notation, 5000, seed=20261123),
    "cache-faults": Kind(cache_faults, 1000),
    "command-faults": Kind(command_faults, 100),
    "ending-faults": Kind(ending_faults, 40),
}


def counted(kind: Kind, asked: Namespace) -> int:
    """Judge the cases of a kind and print the counts; 1 where one is wrong, 2 where there was none."""
    seen, start = Counter[str](), time.perf_counter()
    for what, shown in kind.judged(asked):
        seen[what] += 1
        if what.startswith(WRONG) and seen[what] <= SHOWN:
            print(f"{what}: {str(shown)[:600]}", flush=True)
    for what, count in sorted(seen.items()):
        print(f"{count:8d}  {what}")
    faults = sum(count for what, count in seen.items() if what.startswith(WRONG))
    print(f"{faults} of {seen.total()} wrong, {time.perf_counter() - start:.0f} s", flush=True)
    return 1 if faults else 2 * (not seen)


def main() -> int:
    """Run a kind as asked, or all of them."""
    parser = options(__doc__, seed=None)
    below = parser.add_subparsers()
    for name, kind in KINDS.items():
        own = below.add_parser(name, help=(kind.judged.__doc__ or "").splitlines()[0])
        for option, default in {"seed": kind.seed, "cases": kind.cases, **kind.options}.items():
            if isinstance(default, bool):
                own.add_argument(f"--{option}", action="store_true")
            elif isinstance(default, tuple):
                own.add_argument(f"--{option}", choices=default, default=default[0])
            elif isinstance(default, list):
                own.add_argument(f"--{option}", nargs="+", default=default)
            else:
                own.add_argument(f"--{option}", type=type(default), default=default)
        own.set_defaults(kind=kind)
    words = sys.argv[1:]
    every = [[name] for name in KINDS if name != "atheris"]
    return max(counted(asked.kind, asked) for asked in map(parser.parse_args, [words] if words else every))


if __name__ == "__main__":
    sys.exit(main())
