"""Outcomes as JUnit, SARIF, annotations and JSON; baselines; the command and the plugin of pytest."""

from __future__ import annotations

import json
import re
import stat
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from layoutalg.checks import FORMATS, Results, baseline_text, load_baseline, read_checks, run_checks
from layoutalg.checks.formats import as_github, as_junit, as_sarif
from layoutalg.checks.runner import read_baseline
from layoutalg.cli.commands.layouts import ci
from layoutalg.errors import ParseError
from tests.command import answer, invoke, refusal, run
from tests.sweeps import each

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
SWIZZLED, PLAIN = "Sw<3,3,3> o 0 o (64,64):(64,1)", "(64,64):(64,1)"
FILE = f"""\
[tiles]
good = "{SWIZZLED}"
bad = "{PLAIN}"

[defaults]
dtype = "f16"

[[access]]
name = "a <good> & 'one', 100%"
tile = "good"
access = "ldmatrix.x4"
limits = ["ways <= 1"]

[[access]]
name = "two::limits, größer"
tile = "bad"
access = "ldmatrix.x4"
limits = [
  "ways <= 1",
  "wavefronts <= ideal",
]

[[access]]
name = "not answered"
tile = "(64,64):(65,1)"
access = "ld.shared.b128"
limits = ["ways <= 1"]
"""


def results() -> Results:
    """Of a file with a check that passes, one that fails twice and one that is not answered."""
    return Results("sub dir/layoutalg.toml", run_checks(read_checks(FILE)))


# --- SARIF ---------------------------------------------------------------------------------------------


def sarif_validator() -> Any:
    """The checker of what the standard requires."""
    schema = json.loads((ROOT / "tests" / "data" / "sarif_2_1_0.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_sarif_is_what_the_standard_requires() -> None:
    log = json.loads(as_sarif(results()))
    sarif_validator().validate(log)
    (one,) = log["runs"]
    rules = one["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    found = one["results"]
    assert [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in found] == [19, 20, 23]
    for result in found:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == "sub%20dir/layoutalg.toml"
    prints = [result["partialFingerprints"]["layoutalgCheck/v1"] for result in found]
    assert len(set(prints)) == len(prints)
    moved = json.loads(as_sarif(Results("x", run_checks(read_checks("\n\n" + FILE)))))["runs"][0]["results"]
    assert [result["partialFingerprints"]["layoutalgCheck/v1"] for result in moved] == prints


# --- JUnit ---------------------------------------------------------------------------------------------

JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}
"""Of each element the attributes it needs, those it may have, and its children (junit-10.xsd)."""


def junit_faults(element: ElementTree.Element) -> list[str]:
    """What the schema has against an element and all in it."""
    required, optional, children = JUNIT[element.tag]
    faults = [f"{element.tag} lacks {name}" for name in required - set(element.attrib)]
    faults += [f"{element.tag} has {name}" for name in set(element.attrib) - required - optional]
    time = element.get("time", "0")
    if not re.fullmatch(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?", time):
        faults.append(f"the time {time}")
    for child in element:
        faults += junit_faults(child) if child.tag in children else [f"{element.tag} holds {child.tag}"]
    return faults


def test_junit_is_what_its_schema_has() -> None:
    root = ElementTree.fromstring(as_junit(results()))
    assert root.tag == "testsuites" and not junit_faults(root)
    (suite,) = root
    assert [suite.get(key) for key in ("tests", "failures", "errors")] == ["3", "1", "1"]
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "a <good> & 'one', 100%": ["system-out"],
        "two::limits, größer": ["failure", "failure", "system-out"],
        "not answered": ["error"],
    }
    assert "line 19" in (suite[1][0].text or "")


# --- annotations ---------------------------------------------------------------------------------------


def test_annotations_of_github() -> None:
    *lines, last = as_github(results()).splitlines()
    assert last == "sub dir/layoutalg.toml: 3 checks, 1 passed"
    assert lines[0] == (
        "::error file=sub dir/layoutalg.toml,line=19,title=layoutalg access::two::limits, größer: ways is 8, "
        "and the limit is ways <= 1."
    )
    text = FILE.replace("two::limits", "50%\\nof").replace("name =", "name =")
    with pytest.raises(ParseError, match="one line that is not blank"):
        read_checks(text)
    named = Results("a,b:c%.toml", run_checks(read_checks(FILE.replace("two::limits", "50%"))))
    first = as_github(named).splitlines()[0]
    assert first.startswith("::error file=a%2Cb%3Ac%25.toml,line=19,title=layoutalg access::50%25, größer:")


# --- baselines -----------------------------------------------------------------------------------------


def checks_of(layout: str, op: str = "ldmatrix.x4") -> Any:
    """One check that is compared with the baseline."""
    return read_checks(
        f"[[access]]\nname = 'a'\ntile = '{layout}'\naccess = '{op}'\ndtype = 'f16'\n"
        f"limits = ['no worse than the baseline']"
    )


@each(
    "before, now, op, why",
    [
        (PLAIN, SWIZZLED, "ldmatrix.x4", []),
        (PLAIN, PLAIN, "ldmatrix.x4", []),
        (
            SWIZZLED, PLAIN, "ldmatrix.x4",
            [
                "wavefronts is 512, and was 64 in the baseline", "excess is 448, and was 0 in the baseline",
                "ways is 8, and was 1 in the baseline", "worst is 32, and was 4 in the baseline",
            ],
        ),
        ("(64,64):(66,1)", PLAIN, "ld.global.b16", []),
        (
            PLAIN, "(64,64):(66,1)", "ld.global.b16",
            [
                "sectors is 368, and was 256 in the baseline", "lines is 188, and was 128 in the baseline",
                "efficiency is 0.6957, and was 1 in the baseline",
            ],
        ),
    ],
)  # fmt: skip
def test_no_worse_than_the_baseline(before: str, now: str, op: str, why: list[str]) -> None:
    written = read_baseline(baseline_text(run_checks(checks_of(before, op=op), writes=True)))
    (found,) = run_checks(checks_of(now, op=op), baseline=written)
    assert [failure.why for failure in found.failures] == why
    assert found.status == ("failed" if why else "passed")


def test_a_baseline_that_lacks_a_check_or_is_none() -> None:
    with pytest.raises(ParseError, match=r"line 6, limits: 'no worse than the baseline' needs a baseline"):
        run_checks(checks_of(PLAIN))
    (found,) = run_checks(checks_of(PLAIN), baseline={})
    assert found.failures[0].why == "the baseline has no check 'a'"
    file = read_checks(FILE)
    with pytest.raises(ParseError, match="none of the checks of this file that have numbers"):
        run_checks(file, baseline={"another": {"ways": 1}}, compare_all=True)
    before = {"a <good> & 'one', 100%": {"ways": 0}}
    for outcome in run_checks(file, baseline=before, compare_all=True)[1:]:
        if outcome.numbers:
            assert outcome.notes == ("The baseline does not have this check.",)
    assert [o.status for o in run_checks(file, baseline=before)] == ["passed", "failed", "unanswered"]
    assert run_checks(file, baseline=before, compare_all=True)[0].status == "failed"


VALUE = '{{"schema": "layoutalg/baseline/1", "checks": {{"a": {{"b": {}}}}}}}'


@each(
    "text, part",
    [
        ("", "is not JSON"), ("[" * 100000, "is not JSON"),
        ("{}", '"schema" is not'), ("[]", '"schema" is not'),
        ('{"schema": "layoutalg/baseline/1"}', '"checks" is not an object'),
        ('{"schema": "layoutalg/baseline/1", "checks": {"a": 3}}', '"checks" is not an object'),
        (VALUE.format('1, "b": 2'), "the key 'b' is there twice"),
        (VALUE.format('1.5'), "'a', b: 1.5 is not a whole number"),
        (VALUE.format('true'), "True is not a whole number"),
        (VALUE.format('"1/0"'), "'1/0' is not a whole number"),
        (VALUE.format('"\\u001b"'), "is not a whole number"),
    ],
)  # fmt: skip
def test_what_is_no_baseline(text: str, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_baseline(text)
    assert part in str(caught.value) and str(caught.value).isprintable()


# --- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layoutalg.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def test_the_command_says_what_failed_and_exits_1(folder: Path) -> None:
    result = run("ci")
    assert result.exit_code == 1 and result.stderr == ""
    assert result.stdout.startswith("layoutalg.toml: 1 of 3 checks pass\n")
    assert "Line 19: two::limits, größer: ways is 8, and the limit is ways <= 1." in result.stdout
    payload = answer("ci", exit_code=1)
    assert [payload[key] for key in ("passed", "failed", "unanswered")] == [1, 1, 1]
    assert run("ci", "--format", "json", "layoutalg.toml").stdout.startswith('{\n  "schema"')
    (folder / "layoutalg.toml").write_text(FILE[: FILE.index('[[access]]\nname = "two')])
    assert run("ci").exit_code == 0


def test_reports_are_written_whole(folder: Path) -> None:
    outputs = [word for name in ("a.xml", "b.sarif", "c.json") for word in ("-o", name)]
    result = run("ci", "--format", "github", *outputs)
    assert result.exit_code == 1 and result.stdout.count("::error ") == 3
    assert not junit_faults(ElementTree.fromstring((folder / "a.xml").read_text(encoding="utf-8")))
    sarif_validator().validate(json.loads((folder / "b.sarif").read_text(encoding="utf-8")))
    assert json.loads((folder / "c.json").read_text())["command"] == "ci"
    assert ("table", "json", *FORMATS) == ci.FORMS and set(ci.BY_SUFFIX.values()) <= set(ci.FORMS)


def test_baselines_of_the_command(folder: Path) -> None:
    path = folder / "base.json"
    assert run("ci", "--write-baseline", "base.json").exit_code == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(load_baseline(path)) == {"a <good> & 'one', 100%", "two::limits, größer"}
    good = FILE[: FILE.index('[[access]]\nname = "two')]
    (folder / "layoutalg.toml").write_text(good, encoding="utf-8")
    assert run("ci", "--baseline", "base.json").exit_code == 0
    worse = good.replace(SWIZZLED, PLAIN).replace("ways <= 1", "ways <= 8")
    (folder / "layoutalg.toml").write_text(worse, encoding="utf-8")
    assert run("ci").exit_code == 0
    result = run("ci", "--baseline", "base.json")
    assert result.exit_code == 1 and "ways is 8, and was 1 in the baseline" in result.stdout
    named = worse.replace("[defaults]", "[defaults]\nbaseline = 'base.json'").replace(
        "ways <= 8", "no worse than the baseline"
    )
    (folder / "layoutalg.toml").write_text(named, encoding="utf-8")
    assert run("ci").exit_code == 1
    assert run("ci", "--write-baseline", "base.json").exit_code == 0
    assert run("ci").exit_code == 0
    path.unlink()
    error, message = refusal("ci")
    assert error == "ParseError" and message.startswith("layoutalg.toml: the baseline base.json is not there")


def test_bad_input_of_the_command(folder: Path) -> None:
    for words, part in (
        (("nothing.toml",), "nothing.toml: No such file or directory"),
        (("--format", "xml"), "unknown format 'xml'"),
        (("-o", "x.txt"), "unknown ending of --output '.txt'"),
        (("--baseline", "layoutalg.toml"), "layoutalg.toml is not JSON"),
        (("--baseline", "x", "--write-baseline", "y"), "compare or write, not both"),
    ):
        assert part in refusal("ci", *words)[1]
    assert "leave one of --json and --format junit out" in run("ci", "--format", "junit", "--json").stdout
    (folder / "layoutalg.toml").write_text("[[layout]]\ntile = '4:1'\nlimit = []")
    assert refusal("ci") == (
        "ParseError",
        "layoutalg.toml, line 3: unknown key 'limit': did you mean 'limits'? accepted are tile, dtype, arch, "
        "name, limits",
    )
    (folder / "layoutalg.toml").unlink()
    assert "no file of checks" in refusal("ci")[1]
    (folder / "pyproject.toml").write_text("[tool.other]\n")
    assert "no file of checks" in refusal("ci")[1]
    (folder / "pyproject.toml").write_text(
        "[[tool.layoutalg.layout]]\ntile = '4:1'\nlimits = ['injective']\n"
    )
    assert run("ci").exit_code == 0


def test_checks_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("ci", "-", "--format", "github", input=FILE.encode())
    assert result.exit_code == 1 and "::error file=stdin,line=19," in result.stdout


# --- pytest --------------------------------------------------------------------------------------------


@pytest.fixture
def plain(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder for pytest alone, with the plugin of this tree."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.plugins = ["layoutalg.checks.pytest_plugin"]
    return pytester


@pytest.mark.deep
def test_pytest_collects_a_file_of_checks(plain: pytest.Pytester) -> None:
    (plain.path / "layoutalg.toml").write_text(FILE, encoding="utf-8")
    result = plain.runpytest_subprocess("-v")
    result.assert_outcomes(passed=1, failed=2)
    said = result.stdout.str()
    assert "layoutalg.toml::a <good> & 'one', 100% PASSED" in said
    assert "layoutalg.toml::not answered FAILED" in said
    assert "Line 19: two::limits, größer: ways is 8, and the limit is ways <= 1.\nLine 20:" in said
    assert "Traceback" not in said and ".py" not in said.partition("FAILURES")[2]


@pytest.mark.deep
def test_pytest_says_where_a_file_is_not_understood(plain: pytest.Pytester) -> None:
    (plain.path / "layoutalg.toml").write_text("[[layout]]\ntile = '4'\nlimits = ['injective']")
    result = plain.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    assert "layoutalg.toml, line 2, tile: cannot read '4'" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_pytest_without_such_a_file_pays_for_little(
    plain: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.makepyfile(
        test_a="""
        import sys

        def test_a():
            loaded = {name for name in sys.modules if name.startswith("layoutalg.")}
            assert "layoutalg.checks.pytest_plugin" in loaded
            rooms = ("analysis", "notation", "arch", "testing", "checks.file", "checks.runner")
            assert not loaded & {f"layoutalg.{room}" for room in rooms}
            assert not {"numpy", "sympy", "rich"} & set(sys.modules)
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # what others load is not ours
    plain.runpytest_subprocess().assert_outcomes(passed=1)
