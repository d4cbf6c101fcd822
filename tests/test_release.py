"""What a release needs beside the code: workflows that call what is there, and one version everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import layoutalg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_one() -> None:
    version = layoutalg.__version__
    assert PROJECT["version"] == version
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    assert re.search(rf"^## \[{re.escape(version)}\]", text("CHANGELOG.md"), re.M)


def test_the_changelog_is_kept_by_version() -> None:
    """Unreleased first, then versions in descending order."""
    heads = re.findall(r"^## \[(.+?)\]", text("CHANGELOG.md"), re.M)
    versions = [tuple(map(int, head.split("."))) for head in heads[1:]]
    assert heads[0] == "Unreleased" and versions == sorted(versions, reverse=True) and versions


def test_workflows_run_targets_of_the_makefile() -> None:
    runs = [line for path in WORKFLOWS for line in re.findall(r"run: (.+)$", path.read_text("utf-8"), re.M)]
    assert len(runs) >= 5
    assert all(run.startswith("make ") and set(run.split()[1:]) <= TARGETS for run in runs), runs
    assert {"make lint", "make pytest", "make docs", "make dist"} <= set(runs)


def test_workflows_try_every_python_that_is_promised() -> None:
    (matrix,) = re.findall(r"python: \[(.+)\]", text(".github/workflows/ci.yml"))
    tried = re.findall(r'"([\d.]+)"', matrix)
    promised = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: 3." in name]
    assert tried == promised and PROJECT["requires-python"] == f">={tried[0]}"


def test_workflows_may_only_read() -> None:
    for path in WORKFLOWS:
        found = path.read_text(encoding="utf-8")
        assert "permissions:\n  contents: read\n" in found and "pull_request_target" not in found, path.name
        assert "secrets." not in found, path.name


def test_hooks_are_tools_of_the_environment() -> None:
    entries = re.findall(r"entry: \.venv/bin/([\w-]+)", text(".pre-commit-config.yaml"))
    (dev,) = ([need.partition(">")[0] for need in PROJECT["optional-dependencies"]["dev"]],)
    packages = {"ruff": "ruff", "lint-imports": "import-linter", "pytest": "layoutalg[test]"}
    assert entries and {packages[entry] for entry in entries} <= set(dev)


def test_extras_that_the_makefile_installs_are_there() -> None:
    installed = set(re.findall(r"\.installed-(\w+)\b", text("Makefile")))
    assert installed <= set(PROJECT["optional-dependencies"]) and {"docs", "notebook", "dev"} <= installed


def test_issue_forms_ask_for_what_can_be_pasted() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) >= 3
    for path in forms:
        found = path.read_text(encoding="utf-8")
        if path.stem != "config":
            assert all(f"\n{key}:" in f"\n{found}" for key in ("name", "description", "body")), path.name
