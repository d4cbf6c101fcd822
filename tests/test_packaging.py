"""Three ways to get the package, one set of modules: the wheel, an editable install, and no install at all.

`codegen` and `kernels` stand at the top of the repository and install below `layoutalg`, through a mapping
in pyproject.toml and two links.  Each half fails silently without the other, so all ways are tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = (
    ".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff",
    "CONTRIBUTING.md", "DESIGN.md", "LICENSE", "MANIFEST.in", "Makefile", "README.md", "SECURITY.md",
    "codegen", "docs", "examples", "kernels", "layoutalg", "pyproject.toml", "tests",
)  # fmt: skip
LINKS = ("layoutalg/codegen", "layoutalg/kernels")
"""What a source archive does not hold; the Makefile makes them."""
SITE = sysconfig.get_path("purelib")


def _modules_of(package: Path) -> set[str]:
    """Every file that belongs to the package, relative to its parent, the links followed."""
    found = set()
    for folder, _, names in os.walk(package, followlinks=True):
        if "__pycache__" not in folder:
            found |= {str((Path(folder) / name).relative_to(package.parent)) for name in names}
    return {name for name in found if not name.endswith((".gitkeep", ".pyc"))}


def _files_of(place: Path) -> list[Path]:
    """A file, or all files in a folder; no links and nothing that an interpreter has made."""
    found = [place] if place.is_file() else [Path(f) / n for f, _, names in os.walk(place) for n in names]
    return [p for p in found if p.suffix != ".pyc" and not p.is_symlink()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is shipped, links kept as links: builders leave files behind, and not in our tree."""
    copy = tmp_path_factory.mktemp("tree")
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".gitkeep")
            )
        else:
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    """The wheel, built the long way round: from the source archive."""
    out = tree / "out"
    _ran([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)], tree)
    (built,) = out.glob("*.whl")
    return built


def _ran(command: list[str], cwd: Path) -> str:
    """What a command prints, which has to succeed."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def _python(code: str, path: list[str], *, cwd: Path) -> str:
    """Run `code` in an interpreter that sees the standard library and `path`, and nothing of ours."""
    setup = f"import site, sys; [site.addsitedir(p) for p in {path!r}]\n"
    return _ran([sys.executable, "-I", "-S", "-B", "-c", setup + code], cwd)


LIST_MODULES = """
import importlib, json, pkgutil
import layoutalg
names = [m.name for m in pkgutil.walk_packages(layoutalg.__path__, "layoutalg.")]
where = {name: importlib.util.find_spec(name).origin for name in names}
from layoutalg import codegen, kernels
where |= {m.__name__: m.__file__ for m in (layoutalg, codegen, kernels)}
print(json.dumps(where))
"""


def _seen(path: list[str], cwd: Path) -> dict[str, Path]:
    found = json.loads(_python("import importlib.util" + LIST_MODULES, path, cwd=cwd))
    return {name: Path(origin).resolve() for name, origin in found.items()}


def _expected() -> set[str]:
    names = {Path(n).with_suffix("") for n in _modules_of(ROOT / "layoutalg") if n.endswith(".py")}
    return {".".join(n.parts).removesuffix(".__init__") for n in names}


@pytest.mark.deep
def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
        assert archive.read(licences[0]).decode() == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert members == _modules_of(ROOT / "layoutalg")
    assert {"layoutalg/codegen/__init__.py", "layoutalg/kernels/__init__.py", "layoutalg/py.typed"} <= members


def test_the_source_archive_builds_what_the_tree_builds(wheel: Path) -> None:
    """`wheel` came out of the archive; the archive must carry the licence and both outer folders."""
    (source,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "codegen/__init__.py", "kernels/__init__.py"} <= names
    shipped = {str(p.relative_to(ROOT)) for name in SHIPPED for p in _files_of(ROOT / name)}
    assert {"tests/conftest.py", "tests/regressions/__init__.py", "tests/hostshim/shim.h"} <= shipped
    assert sorted(shipped - names) == []


def test_all_that_is_tracked_is_shipped() -> None:
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    tracked = set(run.stdout.splitlines())
    if "pyproject.toml" not in tracked:
        pytest.skip("this is not a checkout: nothing is tracked")
    assert {name.partition("/")[0] for name in tracked} == set(SHIPPED)
    found = {str(p.relative_to(ROOT)) for name in SHIPPED for p in _files_of(ROOT / name)}
    assert sorted(tracked - found) == sorted(LINKS)


@pytest.mark.deep
def test_a_wheel_works_as_it_is(wheel: Path, tmp_path: Path) -> None:
    """Imported from the archive itself, which has no folders."""
    code = (
        "import os, sys; os.environ['LAYOUTALG_CACHE'] = 'off'; "
        "sys.argv = 'layoutalg verify permute --shape 6,4 --axes 1,0 --target simulator'.split(); "
        "from layoutalg.cli import main; main()"
    )
    assert "Passed." in _python(code, [str(wheel), SITE], cwd=tmp_path)


@pytest.mark.deep
def test_an_unpacked_wheel_has_every_module(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    seen = _seen([str(tmp_path), SITE], tmp_path)
    assert set(seen) == _expected()
    assert all(origin.is_relative_to(tmp_path.resolve()) for origin in seen.values())


@pytest.mark.deep
def test_an_installed_wheel_has_the_command(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    _ran([*command, "--target", str(tmp_path)], tmp_path)
    code = "from importlib.metadata import distribution\nprint(*distribution('layoutalg').entry_points)"
    assert "layoutalg.cli:main" in _python(code, [str(tmp_path)], cwd=tmp_path)


@pytest.mark.deep
def test_an_editable_install_has_every_module(tree: Path, tmp_path: Path) -> None:
    """What `pip install -e` puts into site-packages, made by the same hook and laid out by hand."""
    code = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    _ran([sys.executable, "-c", code], tree)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(tmp_path / "site")
    seen = _seen([str(tmp_path / "site"), SITE], tmp_path)
    assert set(seen) == _expected()
    assert all(origin.is_relative_to(tree.resolve()) for origin in seen.values())


def test_no_install_has_every_module() -> None:
    seen = _seen([str(ROOT), SITE], ROOT)
    assert set(seen) == _expected()
    assert all(origin.is_relative_to(ROOT) for origin in seen.values())


def test_importing_the_library_needs_the_standard_library_alone() -> None:
    code = "import layoutalg; print(layoutalg.__name__, layoutalg.Layout((4, 8), (8, 1)))"
    assert _python(code, [str(ROOT)], cwd=ROOT) == "layoutalg (4,8):(8,1)\n"


EAGER = {"layoutalg", "compose", "errors", "layout"}
LAZY = {
    *("algebra", "analysis", "arch", "cli", "codegen", "decide", "draw", "f2", "kernels", "notation", "ops"),
    *("synthesis", "testing"),
}


def test_importing_the_library_loads_little() -> None:
    """The values and their composition come at once; everything else waits for its first use."""
    code = "import layoutalg; print(*sorted(sys.modules))"
    before = set(_python("print(*sys.modules)", [str(ROOT), SITE], cwd=ROOT).split())
    loaded = [x.split(".") for x in _python(code, [str(ROOT), SITE], cwd=ROOT).split() if x not in before]
    ours = {parts[1] if parts[1:] else parts[0] for parts in loaded if parts[0] == "layoutalg"}
    assert ours >= EAGER
    assert not ours & LAZY
    foreign = {parts[0] for parts in loaded} - sys.stdlib_module_names - {"layoutalg", "__main__"}
    assert not {name for name in foreign if not name.startswith("_")}


def test_what_is_not_loaded_comes_when_it_is_asked_for() -> None:
    code = f"import layoutalg\nfor name in {sorted(LAZY)}: print(getattr(layoutalg, name).__name__)"
    assert _python(code, [str(ROOT), SITE], cwd=ROOT).split() == [f"layoutalg.{n}" for n in sorted(LAZY)]


def test_a_family_is_found_without_the_rooms_of_others() -> None:
    code = (
        "import sys; from layoutalg.kernels import find_family; find_family('softmax'); print(*sys.modules)"
    )
    rooms = {name.split(".")[2] for name in _python(code, [str(ROOT), SITE], cwd=ROOT).split()
             if name.startswith("layoutalg.kernels.")}  # fmt: skip
    assert "rowwise" in rooms and not rooms & {"calls", "gemm", "ladder", "move", "tuning"}


@pytest.mark.parametrize("name", ["codegen", "kernels"])
def test_the_short_names_are_refused_and_the_links_are_relative(name: str) -> None:
    code = f"try:\n    import {name}\nexcept ImportError as error:\n    print(error)"
    expected = f"'{name}' is a part of layoutalg: import layoutalg.{name}\n"
    assert _python(code, [str(ROOT)], cwd=ROOT) == expected
    link = ROOT / "layoutalg" / name
    assert link.is_symlink() and link.readlink() == Path("..") / name


def test_every_package_is_listed() -> None:
    """setuptools ships what is listed, and says nothing of what is not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {Path(n).parent for n in _modules_of(ROOT / "layoutalg") if n.endswith("__init__.py")}
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(".".join(f.parts) for f in folders)


def test_what_make_demo_installs_answers_all_that_needs_no_gpu() -> None:
    """After `make demo`, `sass` and `bench --predict` were refused for want of a disassembler."""
    (rule,) = re.findall(r"^demo:.*", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (needed,) = project["optional-dependencies"][rule.rpartition("-")[2]]
    assert {"nvrtc", "sass"} <= set(needed.partition("[")[2].rstrip("]").split(","))
