"""Gates are green only where it is earned: what they speak of was looked at, and there was something."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from layoutalg.checks import Results, failure_lines, named_baseline, read_checks, run_checks
from layoutalg.checks.file import KINDS
from layoutalg.checks.formats import as_junit, as_sarif
from layoutalg.errors import ArgumentTypeError, MismatchError, ParseError
from layoutalg.kernels import VerifyReport
from layoutalg.layout import Layout
from layoutalg.limits import Most
from layoutalg.testing import Scope, all_pass, check_conflict_free, verdict, worst_of
from tests.checks import random_gates
from tests.command import answer, run
from tests.frozen import kernel_freeze
from tests.sweeps import first

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
BY_CONSTRUCTOR = """\
struct Tile {
    float* p;
    __device__ explicit Tile(float* q);
    __device__ float& operator()(int r, int c) { return p[r * 32 + c]; }
};
__global__ void k(float* o) {
    __shared__ float s[1024];
    Tile t(s);
    t(threadIdx.x, 0) = 1.f;
    o[threadIdx.x] = t(0, threadIdx.x);
}
"""


def outcome(folder: Path, source: str, *limits: str, keys: str = "", **how: Any) -> Any:
    """The outcome of the limits of a source."""
    (folder / "k.cu").write_text(source)
    text = f"[[kernel]]\nname = 'c'\nfile = 'k.cu'\nblock = 32\n{keys}\nlimits = {json.dumps(list(limits))}\n"
    (found,) = run_checks(read_checks(text, folder=folder), **how)
    return found


def kernel(body: str, top: str = "") -> str:
    """A kernel with a shared array, pointers to global memory and a number that is not known."""
    head = "__global__ void k(float* o, const float* g, int n) { __shared__ float s[2048];"
    return f"{top}\n{head} {body} }}\n"


# --- the law -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first(8, range(300)))
def test_no_gate_is_green_that_has_not_earned_it(seed: int) -> None:
    gate = random_gates.draw(seed)
    assert not random_gates.faults(gate, random_gates.run(gate)), f"{gate.config}\n{gate.source}"


def test_the_law_finds_a_gate_that_does_not_ask_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gates = [random_gates.draw(seed) for seed in range(40)]
    opaque = [gate for gate in gates if any(d.piece in random_gates.OPAQUE for d in gate.pieces)][:8]
    monkeypatch.setattr("layoutalg.checks.runner._Run._scope", lambda run, parts: Scope("accesses", 1))
    assert any(random_gates.faults(gate, random_gates.run(gate)) for gate in opaque)


def test_the_law_draws_gates_of_every_kind() -> None:
    gates = [random_gates.draw(seed) for seed in range(400)]
    names = {d.piece.name for gate in gates for d in gate.pieces}
    every = (*random_gates.PLAIN, *random_gates.COUNTABLE, *random_gates.OPAQUE)
    assert names == {piece.name for piece in every}
    words = {limit.split()[0] for gate in gates for limit in gate.limits}
    assert words == {*KINDS["kernel"].quantities({}), "conflict-free", "no"} - {"ideal"}
    assert any(gate.plain for gate in gates) and any(gate.other_unread for gate in gates)


# --- kernels -------------------------------------------------------------------------------------------


def test_a_store_through_a_constructor_is_not_free_of_conflicts(tmp_path: Path) -> None:
    limits = ("conflict-free", "ways <= 1", "wavefronts <= ideal", "wavefronts <= 99", "efficiency >= 80%")
    found = outcome(tmp_path, BY_CONSTRUCTOR, *limits)
    assert found.status == "undecided" and "ways" not in found.numbers
    assert {failure.why for failure in found.failures} == {
        "undecided: 3 accesses are not read: line 8, construct Tile s; line 9, st; line 10, ld"
    }
    assert [failure.limit for failure in found.failures] == list(limits)
    assert [one.line for one in found.evidence] == [8, 9, 10]


def test_a_limit_on_unread_allows_what_is_not_read(tmp_path: Path) -> None:
    source = kernel("s[threadIdx.x] = g[threadIdx.x]; s[int(n * .5f)] = 1.f;")
    assert outcome(tmp_path, source, "ways <= 1").measured == ("ways 1 in 1 of 2 read",)
    for unread, status in (("<= 1", "passed"), ("< 2", "passed"), ("== 1", "passed"), ("<= 0", "failed"),
                           (">= 0", "undecided")):  # fmt: skip
        found = outcome(tmp_path, source, "conflict-free", f"unread {unread}")
        assert found.status == status, unread
        assert found.measured == ("ways 1 in 1 of 2 read", "unread 1")
    found = outcome(tmp_path, kernel("s[int(n * .5f)] = g[threadIdx.x];"), "ways <= 1", "unread <= 1")
    assert "there are no accesses to shared memory that are counted" in found.failures[0].why


def verdicts(found: Any) -> dict[str, str]:
    """The verdict of each limit of an outcome."""
    return {one.limit: one.verdict for one in found.examined}


def test_unread_accesses_of_another_space_leave_a_limit_decided(tmp_path: Path) -> None:
    source = kernel("s[threadIdx.x] = g[n * threadIdx.x];")
    found = outcome(tmp_path, source, "conflict-free", "wavefronts <= 1", "sectors <= 9", "accesses >= 1")
    assert list(verdicts(found).values()) == ["passed", "passed", "undecided", "passed"]
    by_either = kernel("s[threadIdx.x] = g[threadIdx.x]; float* p = n > 3 ? s : o; p[threadIdx.x] = 2.f;")
    found = outcome(tmp_path, by_either, "conflict-free", "sectors <= 9", "efficiency >= 1%", "accesses >= 1")
    assert set(verdicts(found).values()) == {"undecided"}


def test_what_is_broken_by_what_is_read_has_failed(tmp_path: Path) -> None:
    source = kernel("s[threadIdx.x * 32] = g[threadIdx.x * 8]; s[int(n * .5f)] = 1.f; o[int(n * .5f)] = 1.f;")
    broken = ("ways <= 1", "conflict-free", "wavefronts <= ideal", "sectors <= 3", "efficiency >= 50%")
    others = ("ways >= 33", "wavefronts == 3", "sectors <= ideal", "efficiency <= 1%", "ways <= 32")
    found = outcome(tmp_path, source, *broken, *others)
    assert verdicts(found) == dict.fromkeys(broken, "failed") | dict.fromkeys(others, "undecided")
    assert found.status == "failed"


def test_a_reading_that_ends_early_answers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Most.NODES, "number", 40)
    body = "s[threadIdx.x] = 1.f;" + "n = n * 2 + 1;" * 20 + "put();"
    top = "__shared__ float far[2048]; __device__ void put() { far[threadIdx.x * 32] = 1.f; }"
    found = outcome(tmp_path, kernel(body, top), "conflict-free")
    assert found.status == "unanswered" and "k is not read to its end" in found.failures[0].why


# --- baselines -----------------------------------------------------------------------------------------


def test_a_baseline_decides_nothing_of_what_is_not_read(tmp_path: Path) -> None:
    source, no_worse = (
        kernel("s[threadIdx.x] = g[threadIdx.x]; s[int(n * .5f)] = 1.f;"),
        "no worse than the baseline",
    )
    written = outcome(tmp_path, source, no_worse, writes=True)
    assert written.status == "undecided" and written.numbers["wavefronts"] == 1
    before = {"c": written.numbers}
    assert outcome(tmp_path, source, no_worse, baseline=before).status == "undecided"
    assert outcome(tmp_path, source, no_worse, "unread <= 1", baseline=before).status == "passed"
    better = {"c": {**written.numbers, "wavefronts": 0}}
    assert outcome(tmp_path, source, no_worse, baseline=better).status == "failed"


def test_a_baseline_that_compares_nothing_is_not_green(tmp_path: Path) -> None:
    text = "[[layout]]\nname = 'a'\ntile = '4:1'\nlimits = ['no worse than the baseline']"
    for before in ({}, {"size": 4}, {"cosize": 4}):
        (found,) = run_checks(read_checks(text), baseline={"a": before})
        assert found.status == "undecided" and "the baseline has no" in found.failures[0].why
    (found,) = run_checks(read_checks(text), baseline={"a": {"cosize": 4, "bytes": 16, "extra_bytes": 0}})
    assert found.status == "passed"
    named = "[defaults]\nbaseline = 'b.json'\n[[layout]]\ntile = '4:1'\nlimits = ['injective']"
    with pytest.raises(ParseError, match="nothing would be compared with it"):
        named_baseline(read_checks(named))


# --- outputs -------------------------------------------------------------------------------------------


def test_every_output_says_what_is_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(BY_CONSTRUCTOR)
    (tmp_path / "layoutalg.toml").write_text(
        "[[kernel]]\nfile = 'k.cu'\nblock = 32\nlimits = ['conflict-free', 'unread >= 0']\n"
    )
    why = "undecided: 3 accesses are not read: line 8, construct Tile s; line 9, st; line 10, ld"
    found = run("ci")
    said = " ".join(found.stdout.split())
    assert found.exit_code == 1 and "0 of 1 checks pass" in said
    assert "ways unknown in 0 of 3 read, unread 3 undecided" in said
    assert f"Line 4: kernels of k.cu: {why}." in said
    payload = answer("ci", exit_code=1)
    (check,) = payload["checks"]
    assert (payload["undecided"], payload["passed"], check["status"]) == (1, 0, "undecided")
    assert [failure["why"] for failure in check["failures"]] == [why]
    assert check["examined"][0] == {
        "limit": "conflict-free", "verdict": "undecided", "seen": 0, "missed": 3,
        "what": "accesses to shared memory that are counted",
    }  # fmt: skip
    results = Results("layoutalg.toml", run_checks(read_checks((tmp_path / "layoutalg.toml").read_text())))
    log = json.loads(as_sarif(results))
    schema = json.loads((ROOT / "tests" / "data" / "sarif_2_1_0.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(log)
    assert why in log["runs"][0]["results"][0]["message"]["text"]
    junit = as_junit(results)
    assert 'failures="0" errors="1"' in junit and f'<error type="conflict-free" message="{why}' in junit
    assert f"::error file=layoutalg.toml,line=4,title=layoutalg kernel::kernels of k.cu: {why}." in (
        run("ci", "--format", "github").stdout
    )
    assert any(why in line for line in failure_lines(results))


def test_the_plugin_fails_what_is_undecided(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "k.cu").write_text(BY_CONSTRUCTOR)
    text = "[[kernel]]\nfile = 'k.cu'\nblock = 32\nlimits = ['conflict-free']\n"
    (pytester.path / "layoutalg.toml").write_text(text)
    result = pytester.runpytest_inprocess("-p", "layoutalg.checks.pytest_plugin")
    result.assert_outcomes(failed=1)
    assert "undecided: 3 accesses are not read: line 8, construct Tile s;" in result.stdout.str()


# --- gates that looked at nothing ----------------------------------------------------------------------


def test_a_verdict_on_nothing_is_undecided() -> None:
    assert verdict(Scope("accesses", 0), broken=False) == worst_of([]) == "undecided"
    assert not all_pass("checks", []) and not VerifyReport("a", "b", "simulator", ()).passed
    with pytest.raises(MismatchError, match="nothing was checked"):
        VerifyReport("a", "b", "simulator", ()).require()
    with pytest.raises(ArgumentTypeError, match="no access of"):
        check_conflict_free(Layout(64, 1), element="f32")


def test_a_kernel_that_no_name_matches_is_not_answered(tmp_path: Path) -> None:
    found = outcome(tmp_path, kernel("s[threadIdx.x] = 1.f;"), "ways <= 1", keys="kernel = 'other'")
    assert found.status == "unanswered"
    assert outcome(tmp_path, "int main() { return 0; }", "unread <= 0").status == "unanswered"


def test_nothing_but_the_gates_function_takes_all_of_what_passed() -> None:
    """`all` of an empty list is true: what passed is joined by all_pass."""
    breaches = []
    for part in ("layoutalg", "kernels", "codegen"):
        for path in sorted((ROOT / part).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "passed" in text and "all(" in text:
                calls = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call))
                breaches += [f"{path.name}:{n.lineno}" for n in calls if _joins(n)]
    assert not breaches


def _joins(call: ast.Call) -> bool:
    """Whether it is `all` of what passed."""
    return ast.unparse(call.func) == "all" and "passed" in ast.unparse(call)


def test_a_comparison_of_kernels_that_no_pattern_matches_does_not_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert kernel_freeze.main(["--choices", "--only", "no such kernel"]) == 1
    assert "0 cases compared" in capsys.readouterr().out
