"""Random calls on random views: a sample, and what keeps the generator and the judge honest.

The full runs are `python tests/bench/bench_views.py` and, on a GPU, `python -m tests.gpu.views`.
"""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from layoutalg.codegen.gpu import ReadySequence
from layoutalg.kernels import plan_cache
from layoutalg.kernels.rowwise import walk
from layoutalg.kernels.rowwise.tensors import Form
from tests.draws.sequences import called_of, launches_of
from tests.draws.views import EVERY, FLOATS, FOLDS, FUNCTIONS, GUARD_BYTES, MOVES, Case, Placed, draw
from tests.gpu.views import BOTH, Unguarded, cases, compiled, run_one
from tests.judges.view_judge import Host, Verdict, contents, judge, reasons, run_in_numpy, run_in_simulator
from tests.stand_ins.hostgpu import KINDS, simulated_gpu

SAMPLE = range(7000, 7025)


def wrong_of(numbers: range, decide: Callable[[Case], Verdict], **asked: Any) -> list[str]:
    """What is wrong with the cases of some integers, of which at least half have to be served."""
    drawn = [draw(n, **asked) for n in numbers]
    verdicts = [decide(case) for case in drawn]
    assert 2 * sum(v.kind == "right" for v in verdicts) > len(verdicts)
    found = zip(drawn, verdicts, strict=True)
    return [f"case {case.seed}: {case}\n{v.why}" for case, v in found if v.kind == "wrong"]


@pytest.mark.deep(but=("max", "argmax", "mean", "sum"))
@pytest.mark.parametrize("function", EVERY)
def test_a_sample_by_the_code_of_a_gpu(function: str) -> None:
    assert wrong_of(SAMPLE, run_in_simulator, functions=(function,)) == []


def test_a_sample_by_the_code_of_the_cpu() -> None:
    assert wrong_of(range(40), run_in_numpy, library="numpy") == []
    assert wrong_of(range(120), run_in_numpy, functions=FOLDS, library="numpy") == []


@pytest.mark.deep
@pytest.mark.parametrize("function", FOLDS)
def test_300_of_each_by_the_code_of_a_gpu(function: str) -> None:
    assert wrong_of(range(8000, 8300), run_in_simulator, functions=(function,)) == []


# --- the generator -------------------------------------------------------------------------------------


def properties(case: Case) -> set[str]:
    """What is special about a case."""
    x, out = case.x, case.out
    found = {f"rank {len(x.shape)}", f"{case.function} of {case.kind}", case.numbers, *case.parameters}
    for name, p in (("x", x), *([("out", out)] if out else [])):
        width = KINDS[case.result if name == "out" else case.kind].itemsize
        long = [d for n, d in zip(p.shape, p.strides, strict=True) if n > 1]
        found |= {f"{name} reversed"} if min(long, default=0) < 0 else set()
        found |= {f"{name} broadcast"} if 0 in long else set()
        found |= {f"{name} between elements"} if any(v % width for v in (p.start, *long)) else set()
        found |= {f"{name} misaligned"} if p.start % 16 else set()
        found |= {f"{name} empty"} if 0 in p.shape else set()
    found |= {"new result"} if out is None else {f"out in the allocation of {out.allocation}"}
    found |= {"in place"} if out == x else set()
    found |= {"wider result"} if case.result != case.kind else set()
    several = not isinstance(case.axes, int) and case.function not in MOVES and len(case.over) > 1
    return found | ({"several axes"} if several else set()) | set(reasons(case).values())


@pytest.mark.deep
def test_what_is_asked_for_is_drawn() -> None:
    seen: Counter[str] = Counter()
    for n in range(1500):
        seen.update(properties(draw(n)))
    floats = {f"{f} of {kind}" for f in FUNCTIONS for kind in (KINDS if f in MOVES else FLOATS)}
    views = ("reversed", "broadcast", "between elements", "misaligned", "empty")
    wanted = floats | {f"rank {n}" for n in range(9)} | {f"{a} {v}" for a in ("x", "out") for v in views}
    wanted |= {
        *("new result", "in place", "wider result", "several axes", "special", "integers", "weight"),
        "bias",
    }
    wanted |= {"out in the allocation of x", "out in the allocation of out", "more than 8 modes"}
    wanted |= {"a destination with one place for two elements", "a maximum of nothing"}
    wanted |= {"a destination that shares bytes with the source"}
    wanted |= {"elements that start at no multiple of their width"}
    wanted |= {"a swizzled buffer that does not start at a multiple of 16 bytes"}
    assert not wanted - set(seen)


def test_an_integer_says_all_of_a_case() -> None:
    for n in range(50):
        case = draw(n)
        assert str(case) == str(draw(n))
        first, second = contents(case), contents(case)
        assert all(np.array_equal(first[name], second[name]) for name in first)
        for p in filter(None, (case.x, case.out, *case.parameters.values())):
            low, end = p.reach(KINDS[case.kind].itemsize)
            assert low >= GUARD_BYTES or 0 in p.shape
            assert end <= case.sizes[p.allocation] - GUARD_BYTES or 0 in p.shape


def test_what_pytorch_has_not_is_not_drawn_for_it() -> None:
    for n in range(500):
        case = draw(n, library="torch")
        for p in filter(None, (case.x, case.out)):
            assert all(d >= 0 for d in p.strides)
            assert not any(v % KINDS[case.kind].itemsize for v in (p.start, *p.strides))


# --- the judge -----------------------------------------------------------------------------------------

ROWS = Case(
    1, "softmax", "float32", "float32", Placed((4, 6), (32, 4), GUARD_BYTES, "x"),
    Placed((4, 6), (-32, 4), GUARD_BYTES + 96, "out"), 1,
    sizes=dict.fromkeys(("x", "out"), 128 + 2 * GUARD_BYTES),
)  # fmt: skip


@pytest.mark.parametrize(
    ("allocation", "at", "says"),
    [
        ("out", 0, "1 bytes beside the destination are overwritten, the first at -256 of out"),
        ("out", GUARD_BYTES + 27, "1 bytes beside the destination are overwritten, the first at 27 of out"),
        ("x", GUARD_BYTES, "1 bytes beside the destination are overwritten, the first at 0 of x"),
        ("out", GUARD_BYTES + 3, "1 of 24 elements are wrong"),
    ],
)
def test_a_byte_that_is_wrong_is_seen(allocation: str, at: int, says: str) -> None:
    before = contents(ROWS)
    memory = {name: raw.copy() for name, raw in before.items()}
    assert ROWS.out is not None
    x = ROWS.x.of(before["x"], 4).view("f4").astype("f8")
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    ROWS.out.of(memory["out"], 4).view("f4")[...] = powers / powers.sum(axis=1, keepdims=True)
    assert judge(ROWS, before, memory, None) == ""
    memory[allocation][at] ^= 0x40
    assert judge(ROWS, before, memory, None).startswith(says)


@pytest.mark.deep
def test_a_plan_that_takes_the_lowest_elements_for_the_first_ones_is_seen() -> None:
    """The sample finds what it was made for: vectors that do not lie alike in reversed rows."""

    def lowest(x: Form, vec: int) -> bool:
        return not any(d % vec for d in [m.src - m.dst for m in x.modes[1:]] + [x.src_offset - x.dst_offset])

    drawn = (draw(n, most=64, functions=("softmax",)) for n in range(9000, 9400))
    turned = (case for case in drawn if min(case.x.strides, default=0) < 0)
    with patch.object(walk, "one_phase", lowest):
        assert any(run_in_simulator(case).kind == "wrong" for case in turned)


def test_what_is_refused_without_reason_is_wrong() -> None:
    def refuse(*args: object) -> None:
        raise KeyError("max")

    with patch("tests.judges.view_judge.call", refuse):
        verdict = run_in_simulator(ROWS)
    assert verdict == Verdict("wrong", "refused without reason, KeyError: 'max'")


def test_what_ought_to_be_refused_is_wrong() -> None:
    aliasing = draw_with("a destination with one place for two elements")
    with patch("tests.judges.view_judge.call", lambda case, arrays: arrays["out"]):
        verdict = run_in_simulator(aliasing)
    assert verdict.kind == "wrong" and verdict.why.startswith("not refused: ")


def draw_with(reason: str) -> Case:
    """The first case that has to be refused for a reason."""
    return next(case for case in map(draw, range(10_000)) if reason in reasons(case).values())


# --- the script that runs on a GPU ---------------------------------------------------------------------


@pytest.mark.deep
def test_what_is_compiled_ahead_is_what_is_launched() -> None:
    """Of arrays of either library, the processes that see no GPU plan the problems of the one that does."""
    planned: list[Any] = []
    launched: list[Any] = []

    def keep(family: str, p: Any, arch: str, *_: object) -> ReadySequence:
        planned.append(p)
        one = launches_of(p, arch)
        return ReadySequence((), one.buffers, one.scratch_bytes)

    def count(family: str, p: Any, arch: str) -> Any:
        launched.append(p)
        return called_of(family, p, arch)

    with patch.object(plan_cache, "ready_sequence", keep):
        for n in range(30):
            compiled((n, "sm_90a", Namespace(library="both", most=200, functions=FUNCTIONS)))
    with patch("tests.stand_ins.hostgpu.called_of", count):
        for name, case in cases(0, 30, BOTH, 200):
            with simulated_gpu("sm_90a") as gpu:
                assert run_one(case, Unguarded(Host(gpu))).kind != "wrong", f"{name} {case}"
    assert planned == launched and len(planned) > 15
