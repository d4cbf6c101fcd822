"""`layoutalg doctor`: what is installed, and when it says that the installation is broken."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from layoutalg.cli.commands.help import doctor
from layoutalg.errors import UnsupportedError
from tests.command import answer, run


@pytest.mark.deep
def test_an_installation_that_works() -> None:
    payload = answer("doctor")
    parts = {part["name"]: part for part in payload["parts"]}
    assert {name for name, part in parts.items() if part["needed"]} == {"numpy", "sympy", "graphviz", "rich"}
    for part in parts.values():
        assert part["found"] == (part["reason"] is None) and part["use"]
        assert any(word in part["get"] for word in ("pip install", "apt-get install", "Toolkit")), part
    assert parts["numpy"]["version"] == importlib.metadata.version("numpy")
    assert parts["pytest"]["found"] and payload["broken"] == []
    result = run("doctor")
    assert result.exit_code == 0 and "The installation works" in result.stdout


def test_what_is_absent_is_said_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("LAYOUTALG_CACHE", "off")
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name in {"cupy", "hypothesis", "ncu_report"} else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    payload = answer("doctor")
    reasons = {part["name"]: part["reason"] for part in payload["parts"]}
    assert reasons["nvcc"] == "nvcc is not on PATH"
    assert "no c++ compiler" in reasons["C++ compiler"]
    assert reasons["hypothesis"] == "hypothesis is not installed"
    assert reasons["ncu-report"] == "ncu-report is not installed"
    assert payload["cache"]["state"] == "off"
    said = " ".join(run("doctor").stdout.split())
    assert "hypothesis, for strategies of layouts for tests of your own: hypothesis is not installed." in said
    assert "LAYOUTALG_CACHE is off" in said


def test_a_wheel_that_breaks_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda wheel: "18.1.1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: importlib.machinery.ModuleSpec(name, None))
    with pytest.raises(UnsupportedError, match="the wheel clang is installed beside it"):
        doctor._library("clang", wheel="libclang", beside="clang")


def test_a_program_that_says_nothing_or_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    for name, text in (
        ("quiet", "#!/bin/sh\n"),
        ("loud", "#!/bin/sh\necho release 13.2, V13.2.1\n"),
        ("hangs", "#!/bin/sh\nsleep 9\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert doctor._program("quiet", "-V") == ("", str(tmp_path / "quiet"))
    assert doctor._program("loud")[0] == "13.2"
    monkeypatch.setattr(doctor, "_SECONDS", 0.1)
    with pytest.raises(UnsupportedError, match="no answer within"):
        doctor._program("hangs")


@pytest.mark.deep
def test_an_installation_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_bound", lambda wheel: "99.1" if wheel == "sympy" else "")
    version = importlib.metadata.version("sympy")
    payload = answer("doctor", exit_code=1)
    assert payload["broken"] == [f"sympy: version {version} is too old; 99.1 is needed"]
    assert f"Broken: sympy: version {version} is too old; 99.1 is needed." in run("doctor").stdout
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "sympy", None)
    assert "sympy" in answer("doctor", exit_code=1)["broken"][0]
    monkeypatch.undo()
    import layoutalg.analysis

    monkeypatch.setattr(layoutalg.analysis, "analyze", lambda *given: None)
    assert answer("doctor", exit_code=1)["broken"][0] == (
        "ldmatrix.x4 on (64,64):(64,1) gives None ways instead of 8"
    )


@pytest.mark.deep
def test_a_cache_that_others_may_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAYOUTALG_CACHE", str(folder))
    assert answer("doctor")["cache"]["state"] == "not made yet"
    folder.mkdir(mode=0o700)
    assert answer("doctor")["cache"]["state"] == "in use"
    folder.chmod(0o777)
    assert "others may write to it" in answer("doctor")["cache"]["state"]


def test_the_extras_that_it_names_exist() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    named = {name for part in doctor.OPTIONAL for name in re.findall(r"\[(\w+)\]", part.get)}
    assert {"nvrtc", "sass", "source", "profile", "testing", "monitor"} <= named
    assert named <= set(project["project"]["optional-dependencies"])
