"""Configurations that are chosen at real sizes, by kind, each run on a smaller problem of the same structure.

python -m tests.frozen.chosen_kinds            plan the published draws, name the kinds that no record holds
python -m tests.frozen.chosen_kinds --write    run every such kind, record those that are right, and
                                               drop those that their problem is no longer computed in
python -m tests.frozen.chosen_kinds --seed 7 --times 3 --run      run kinds of other draws and report faults

The idea.  A plan for 1e5 to 3e8 elements may take ways through a kernel that no problem of a test's size is
given.  What is chosen is grouped by `Kind`: its name says which code it takes, `more` how often (tiles,
rounds, tails).  Extents, blocks per row and resident blocks are lowered as long as both stay what they were,
and that configuration then runs in the simulator beside the definition.  The record names a real problem for
every kind that was run.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import ceil, exp, prod
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg import budget
from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.checks.record import Check, compare, copied, given_to
from layoutalg.kernels.elementwise import FORMULAS
from layoutalg.kernels.norms import NORMS
from tests.frozen.kinds import Kind, fewer, kind_of

RECORD = Path(__file__).parents[1] / "data" / "chosen_kinds.json"
SEED = 20261123
PROBLEMS = {"sums": 800, "norms": 420, "moves": 160, "maps": 200, "products": 260}
"""Of the published draws: the seed, and problems of each room."""

ARCHS = ("sm_75", "sm_80", "sm_90")
MOST_ELEMS, BLOCKS = 1_500_000, 4
"""Elements of a smaller problem, at most; multiprocessors that it is planned to run on."""

TOO_LARGE = "too large to be simulated:"
"""How what is said of a kind begins whose smaller problems have more elements."""

LADDER = (*range(1, 8), *(round(8 * 1.3**n) for n in range(46)))
"""Extents that are tried, from the least on: as such, and with what the real one leaves over 64 or 8."""

FLOATS = ("f32", "f16", "bf16")
PLAIN = tuple(op for op, norm in NORMS.items() if not norm.adds)
ADDING = tuple(op for op, norm in NORMS.items() if norm.adds)
SUMS = (
    "sum", "max", "min", "mean", "prod", "argmax", "argmin", "var", "logsumexp", "cross_entropy",
    "cross_entropy",
)  # fmt: skip
FEW = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 20, 24, 31, 32, 33, 48, 50, 64, 77, 96, 100, 127, 128)
PRIMES = (2, 3, 5, 7, 11, 13, 17, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 65521, 131071, 524287)


class Case(NamedTuple):
    """What a family is asked for on an architecture."""

    family: str
    arch: str
    asked: Mapping[str, Any]

    @property
    def problem(self) -> Any:
        """The problem."""
        return FAMILIES[self.family].problem(**self.asked)

    def with_shape(self, shape: tuple[int, ...]) -> Case:
        """The same with other extents."""
        extents: dict[str, Any] = (
            {"shape": shape} if "shape" in self.asked else dict(zip(EXTENTS, shape, strict=False))
        )
        return self._replace(asked={**self.asked, **extents})

    @property
    def asked_text(self) -> str:
        """The case as a key."""
        return json.dumps(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        if "shape" in self.asked:
            return tuple(self.asked["shape"])
        return tuple(self.asked[x] for x in EXTENTS if x in self.asked)


EXTENTS = ("m", "n", "k")


# --- problems of real sizes -----------------------------------------------------------------------------


def drawn_shape(rng: random.Random) -> tuple[int, ...]:
    """Extents of 1e5 to 3e8 elements: of any rank up to 6, few by many, primes, near powers of two."""
    style, total = rng.choice(("any", "any", "any", "few", "prime", "square")), exp(rng.uniform(11.5, 19.5))
    if style == "few":
        few, many = rng.choice(FEW), 0
        many = max(1, int(total / few))
        many = 1 << many.bit_length() - 1 if rng.random() < 0.5 else many
        return rng.choice(
            ((many, few), (few, many), (rng.choice((2, 3, 5)), max(1, many // 3), few),
             (few, max(1, many // 4), rng.choice((1, 2, 3, 5, 7))))
        )  # fmt: skip
    if style == "prime":
        shape: list[int] = []
        for _ in range(rng.randint(1, 3)):
            shape.append(rng.choice([q for q in PRIMES if prod(shape) * q < 3e8] or [1]))
        return tuple(shape)
    if style == "square":
        n = 1 << rng.randint(7, 13)
        return n + rng.choice((0, 0, 1, -1, 8)), n * rng.choice((1, 2, 4)) + rng.choice((0, 0, 0, 1, -1))
    cuts = [0.0, *sorted(rng.random() for _ in range(rng.randint(0, 5))), 1.0]
    shape = [max(1, round(total ** (b - a))) for a, b in pairwise(cuts)]
    grain = rng.choice((1, 1, 8, 32))
    return *shape[:-1], max(1, round(shape[-1] / grain)) * grain


def _rowwise(names: tuple[str, ...], rng: random.Random) -> Case:
    shape, name = drawn_shape(rng), rng.choice(names)
    axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, max(1, len(shape) - 1)))))
    asked: dict[str, Any] = {"shape": shape, "axes": axes, "dtype": rng.choice(FLOATS)}
    if name == "cross_entropy":
        asked |= {"axes": axes[:1], "target": rng.choice(("s32", "s64"))}
        asked |= {"reduction": rng.choice(("none", "none", "mean", "sum"))}
    if name in NORMS:
        asked |= {parameter: rng.random() < 0.5 for parameter in NORMS[name].parameters}
    return Case(name, rng.choice(ARCHS), asked)


def _moved(rng: random.Random) -> Case:
    shape, arch = drawn_shape(rng), rng.choice(ARCHS)
    if rng.random() < 0.15:
        m, n = exp(rng.uniform(0, 10)), exp(rng.uniform(5, 10))
        asked: dict[str, Any] = {
            "m": max(1, int(m)),
            "n": int(n),
            "dtype": rng.choice(("u8", "f16", "f32", "f64", "c128")),
        }
        return Case(rng.choice(("transpose", "tiled_copy")), arch, asked)
    axes = tuple(rng.sample(range(len(shape)), len(shape)))
    asked = {"shape": shape, "axes": axes, "dtype": rng.choice(("u8", "f16", "f32", "f64", "c128"))}
    if rng.random() < 0.3:
        dtype, result = rng.sample(("f32", "f16", "bf16", "f64", "u8", "s32"), 2)
        asked |= {"dtype": dtype, "result": result}
    return Case("permute", arch, asked)


def _mapped(rng: random.Random) -> Case:
    asked = {"shape": drawn_shape(rng), "dtype": rng.choice(FLOATS)}
    return Case(rng.choice([*FORMULAS]), rng.choice(ARCHS), asked)


def _quantized(rng: random.Random) -> Case:
    name = rng.choice(("quantize_nvfp4", "quantize_mxfp8", "quantize_mxfp4"))
    shape = rng.randint(1, 16384), rng.choice((2, 4, 8, 32, 128)) * rng.randint(1, 300)
    return Case(name, "sm_90", {"shape": shape, "dtype": rng.choice(FLOATS)})


def _extent(rng: random.Random) -> int:
    return rng.choice(
        (rng.choice((1024, 2048, 3072, 4096, 8192, 16384)), rng.choice(FEW), rng.randint(1, 8000),
         8 * rng.randint(1, 1000))
    )  # fmt: skip


def _multiplied(rng: random.Random) -> Case:
    name = rng.choice(("gemm-simt", "gemm-sm75", "gemm-sm80", "gemm-sm80", "gemm-sm90", "gemm-sm90", "gemv"))
    asked: dict[str, Any] = {x: _extent(rng) for x in EXTENTS}
    kinds = {
        "gemm-simt": ("f32", "f32", "f64"), "gemm-sm75": ("f16",), "gemm-sm90": ("f16", "bf16"),
        "gemm-sm80": ("f16", "f16", "bf16", "tf32", "s8"), "gemv": FLOATS,
    }  # fmt: skip
    asked["dtype"] = dtype = rng.choice(kinds[name])
    if name == "gemv":
        asked["m"] = rng.randint(1, 8)
    if name == "gemm-sm90":
        asked |= {x: -(-asked[x] // 8) * 8 for x in EXTENTS}
    if dtype not in ("s8", "tf32"):
        asked["b_major"] = rng.choice(("k", "mn"))
        asked["a_major"] = "k" if name == "gemv" else rng.choice(("k", "k", "mn"))
    asked |= {"reads_c": True} if rng.random() < 0.3 else {}
    asked |= {"bias": rng.choice((True, "m"))} if rng.random() < 0.3 else {}
    if name == "gemm-sm90" and rng.random() < 0.2:
        asked |= {"groups": rng.choice((2, 3, 5, 8)), "a_major": "k"}
    arch = {"gemm-sm75": "sm_75", "gemm-sm90": "sm_90"}.get(name)
    return Case(name, arch or rng.choice(ARCHS[1:] if name == "gemm-sm80" else ARCHS), asked)


ROOMS: Mapping[str, Callable[[random.Random], Case]] = {
    "sums": lambda rng: _rowwise(SUMS, rng), "norms": lambda rng: _rowwise(PLAIN, rng),
    "adding norms": lambda rng: _rowwise(ADDING, rng),
    "moves": _moved, "maps": _mapped, "products": _multiplied, "quantisations": _quantized,
}  # fmt: skip
"""What draws the problems of a room."""


def attended(rng: random.Random) -> Case:
    """Attention of drawn sizes and masks, which no room has."""
    shape = rng.randint(1, 4), 2 * rng.randint(1, 16), rng.randint(1, 1 << 14), rng.choice((64, 128, 256))
    sides = tuple(rng.choice((None, None, rng.randint(0, 4096))) for _ in "lr")
    asked: dict[str, Any] = {"shape": shape, "dtype": rng.choice(("bf16", "f16")), "window": sides}
    asked |= {"group": rng.choice((1, 2))}
    return Case("attention", "sm_90", {**asked, "causal": rng.random() < 0.4, "sums": rng.random() < 0.5})


def drawn(room: str, seed: int, count: int) -> Iterator[Case]:
    """The problems of a room, the same for the same seed."""
    rng = random.Random(f"{seed} {room}")
    return (ROOMS[room](rng) for _ in range(count))


def chosen(cases: Iterable[Case]) -> Iterator[tuple[Case, Any, Kind]]:
    """Each problem with what is chosen for it and its kind; those that a family refuses are left out."""
    for case in cases:
        try:
            problem = case.problem
            config = FAMILIES[case.family].choose(problem, case.arch)
        except LayoutAlgError:
            continue
        yield case, config, kind_of(case.family, problem, config, case.arch)


# --- smaller problems ------------------------------------------------------------------------------------


def smaller(case: Case, config: Any, kind: Kind) -> tuple[Case, Any]:
    """A smaller problem for which a configuration is of the same kind, and the configuration: perhaps with
    fewer blocks per row and resident ones.  The least that is found."""
    whole = getattr(config, "splits", 1)
    found = [(_shrunk(case, c, kind, getattr(c, "splits", 1) / whole), c) for c in fewer(config)]
    return min(((s, c) for s, c in found if s is not None), key=lambda one: prod(one[0].shape))


def _shrunk(case: Case, config: Any, kind: Kind, share: float) -> Case | None:
    """`share`: of the blocks per row, which extents may be scaled by."""

    def stands(shape: tuple[int, ...]) -> bool:
        other = case.with_shape(shape)
        try:
            return kind_of(case.family, other.problem, config, case.arch) == kind
        except (LayoutAlgError, ValueError, IndexError, ZeroDivisionError):
            return False

    shape = case.shape
    for _ in range(2):
        for k in sorted(range(len(shape)), key=lambda k: -shape[k]):
            n = shape[k]
            steps = sorted((*LADDER, *((ceil(n * share), ceil(n * share * 1.1)) if share < 1 else ())))
            near = (v for s in steps if s < n for v in (s + (n - s) % 64, s + (n - s) % 8, s))
            for v in dict.fromkeys(v for v in near if 1 <= v < n):
                if stands(other := (*shape[:k], v, *shape[k + 1 :])):
                    shape = other
                    break
    return case.with_shape(shape) if stands(shape) else None


def machine(arch: str, config: Any) -> Arch:
    """An architecture with so few multiprocessors that those blocks which go on have several tiles each."""
    chip = find_arch(arch)
    if chip.board is None or getattr(config, "via", "") != "tma":
        return chip
    return replace(chip, board=replace(chip.board, sms=BLOCKS * getattr(config, "cluster", 1)))


def run(case: Case, config: Any, seed: int = 0) -> Check:
    """A configuration in the simulator, on the family's first data, beside the definition."""
    family, p = FAMILIES[case.family], case.problem
    given = given_to(family, p, config, checks_of(family).trials(p)[0], seed)
    sequence = family.launches(p, config, machine(case.arch, config))
    mine = copied(given)
    budget.with_budget(
        1000, simulate_sequence, printed_sequence(sequence), mine, group=("block", "warp")[seed % 2],
        seed=seed, trace=False,
    )  # fmt: skip
    return compare("result", given, checks_of(family).expected(p, config, given), mine)


# --- the record ------------------------------------------------------------------------------------------


@cache
def recorded() -> Mapping[str, tuple[Case, int]]:
    """A real problem of each kind that was run, by the kind's name, and elements of the one that ran;
    0 where that would be too large."""
    read = json.loads(RECORD.read_text(encoding="utf-8"))
    return {name: (_of_lists(Case(*one)), elems) for name, (one, elems) in read.items()}


def still(known: Mapping[str, tuple[Case, int]]) -> dict[str, tuple[Case, int]]:
    """The recorded kinds whose problem is still computed in them: what is chosen changes with the models."""
    now = {case.asked_text: kind.name for case, _, kind in chosen([case for case, _ in known.values()])}
    return {name: one for name, one in known.items() if now.get(one[0].asked_text) == name}


def _of_lists(case: Case) -> Case:
    return case._replace(asked={k: tuple(v) if isinstance(v, list) else v for k, v in case.asked.items()})


def unrecorded(
    seed: int,
    times: int = 1,
    rooms: Iterable[str] = PROBLEMS,
    known: Mapping[str, tuple[Case, int]] | None = None,
) -> dict[str, tuple[Case, Any, Kind]]:
    """Of the draws of a seed, so many times the published number, one problem of each kind that no record
    holds."""
    known, found = recorded() if known is None else known, dict[str, tuple[Case, Any, Kind]]()
    for room in rooms:
        for case, config, kind in chosen(drawn(room, seed, times * PROBLEMS[room])):
            if kind.name not in known:
                found.setdefault(kind.name, (case, config, kind))
    return found


def write(record: Mapping[str, tuple[Case, int]]) -> None:
    """Make a record the recorded one, a kind per line."""
    lines = [f"{json.dumps(name)}: {json.dumps(record[name])}" for name in sorted(record)]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def checked(case: Case, config: Any, kind: Kind) -> str:
    """What is wrong with a kind, run on a smaller problem; empty where nothing is."""
    small, with_less = smaller(case, config, kind)
    if prod(small.shape) > MOST_ELEMS and "shape" in small.asked:
        return f"{TOO_LARGE} {small.shape}"
    try:
        made = run(small, with_less, seed=prod(small.shape) % 7)
    except LayoutAlgError as error:
        return f"RAISED {type(error).__name__}: {error} {small} {with_less}"
    return "" if made.passed else f"WRONG {made.detail} {small} {with_less}"


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--times", type=int, default=1, help="so many times the published number of problems")
    parser.add_argument("--rooms", default=",".join(PROBLEMS))
    parser.add_argument("--run", action="store_true", help="run them")
    parser.add_argument("--write", action="store_true", help="run them and record those that are right")
    parser.add_argument("--seconds", type=float, default=1e9, help="no kind is begun after these")
    asked = parser.parse_args()
    began, wrong = time.monotonic(), 0
    record = still(recorded()) if asked.write else dict(recorded())
    found = unrecorded(asked.seed, asked.times, asked.rooms.split(","), record)
    print(f"{len(found)} kinds that no record holds", flush=True)
    for name, (case, config, kind) in found.items():
        if time.monotonic() - began > asked.seconds:
            break
        seen = checked(case, config, kind) if asked.run or asked.write else "not run"
        if seen:
            wrong += not seen.startswith(TOO_LARGE)
            print(f"{name}\n    {case}\n    {seen}", flush=True)
        if asked.write and seen.startswith(TOO_LARGE):
            record[name] = case, 0
        elif asked.write and not seen:
            record[name] = case, prod(smaller(case, config, kind)[0].shape)
    if asked.write:
        write(record)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
