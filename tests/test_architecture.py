"""The rules of the house, read off the source with `ast`: one test a rule, one case a file.

Which module may import which stands in `pyproject.toml` under `[tool.importlinter]`; what that tool cannot
say is here.  A rule is checked on the whole tree as it is, so a new file is held to it by existing.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SOFT_LINES, HARD_LINES = 400, 500
PACKAGES = ("layoutalg", "codegen", "kernels")
LAZY = {"numpy", "sympy", "cupy", "cupyx", "torch", "hypothesis"}
"""Imported inside functions in layoutalg/: `import layoutalg` must stay cheap."""

LAZY_EXEMPT = {"layoutalg.strategies": {"hypothesis"}}
"""A module nobody imports by accident: the strategies are hypothesis."""


def _modules() -> dict[str, Path]:
    """Dotted name -> file, for every module of the library (the two links are not followed)."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            if package != "layoutalg":
                parts.insert(0, "layoutalg")
            if not any((ROOT / Path(*parts[:n])).is_symlink() and package == "layoutalg" for n in (1, 2)):
                found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()
LIBRARY = pytest.mark.parametrize("module", sorted(MODULES))
SOURCES = sorted({*MODULES.values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*.py")})
IN_LAYOUTALG = [m for m in sorted(MODULES) if not m.startswith(("layoutalg.codegen", "layoutalg.kernels"))]


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _where(path: Path, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def _runs_later(node: ast.AST) -> bool:
    """True for what loading a module does not run: function bodies, and blocks for type checkers."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _imports(tree: ast.AST, *, eager: bool = False) -> Iterator[tuple[ast.stmt, str, str]]:
    """(statement, module, name or "") of each import; `eager`: those that run when the module is loaded."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, "." * node.level + (node.module or ""), alias.name) for alias in node.names)
        elif not (eager and _runs_later(node)):
            yield from _imports(node, eager=eager)


def _public_functions(module: str) -> list[ast.FunctionDef]:
    """Functions at the top of a module: those in `__all__`, or those without underscore if it has none."""
    tree = _tree(MODULES[module])
    listed: set[str] | None = None
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed = {str(e.value) for e in ast.walk(node.value) if isinstance(e, ast.Constant)}
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not any(ast.unparse(d).endswith("overload") for d in node.decorator_list)
        and (node.name in listed if listed is not None else not node.name.startswith("_"))
    ]


# --- files ---------------------------------------------------------------------------------------------


def test_the_tree_is_seen() -> None:
    assert {"layoutalg", "layoutalg.errors", "layoutalg.codegen", "layoutalg.kernels"} <= set(MODULES)
    assert len(MODULES) == len(set(MODULES.values()))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_holds_one_idea(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > SOFT_LINES:
        warnings.warn(f"{path.relative_to(ROOT)}: {lines} lines, {SOFT_LINES} is the aim", stacklevel=1)
    assert lines <= HARD_LINES, f"{lines} lines; split the file by idea (soft limit {SOFT_LINES})"


@LIBRARY
def test_a_module_opens_with_a_docstring(module: str) -> None:
    assert ast.get_docstring(_tree(MODULES[module])), f"{module} does not say what it is for"


TESTED_TOGETHER = (
    (re.compile(r"layoutalg\.arch\..*"), "arch"),
    (re.compile(r"layoutalg\.codegen\.instr_sm\d+"), "instr"),
    (re.compile(r"layoutalg\.(draw|cli)\..*"), r"\1"),
    (re.compile(r"layoutalg\.(derivation|explanations|steps)"), "explain"),
)
"""Records, tested through their registry; renderings and commands, tested through their one face."""


@LIBRARY
def test_a_module_has_a_test_module(module: str) -> None:
    defines = any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in _tree(MODULES[module]).body)
    if MODULES[module].name == "__init__.py" or not defines:
        return  # it gathers what others define
    shared = [m.expand(name) for pattern, name in TESTED_TOGETHER if (m := pattern.fullmatch(module))]
    names = [module.rpartition(".")[2], *shared]
    present = [path for n in names for path in (ROOT / "tests").rglob(f"test_{n}*.py")]
    assert present, f"there is no tests/test_{names[0]}.py"


# --- imports -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_are_absolute_and_long(path: Path) -> None:
    for node, name, _ in _imports(_tree(path)):
        assert not name.startswith("."), f"{_where(path, node)}: relative import"
        assert name.partition(".")[0] not in {"codegen", "kernels"}, f"{_where(path, node)}: short name"


@LIBRARY
def test_the_library_imports_names_from_where_they_are_defined(module: str) -> None:
    """`from layoutalg import analyze` inside the library would hide an upward import behind the root."""
    for node, name, imported in _imports(_tree(MODULES[module])):
        hidden = name == "layoutalg" and f"layoutalg.{imported}" not in {*MODULES, "layoutalg.__version__"}
        assert not hidden, f"{_where(MODULES[module], node)}: import the module that defines {imported!r}"


@pytest.mark.parametrize(
    "module", [m for m in IN_LAYOUTALG if not re.match(r"layoutalg\.cli\b|layoutalg$", m)]
)
def test_only_the_command_imports_upwards(module: str) -> None:
    for node, name, imported in _imports(_tree(MODULES[module])):
        target = f"{name}.{imported}"
        upward = target.startswith(("layoutalg.codegen.", "layoutalg.kernels."))
        assert not upward, f"{_where(MODULES[module], node)}: {target} stands above {module}"


@pytest.mark.parametrize("module", IN_LAYOUTALG)
def test_heavy_libraries_load_lazily(module: str) -> None:
    for node, name, _ in _imports(_tree(MODULES[module]), eager=True):
        top = name.partition(".")[0]
        lazy = top in LAZY - LAZY_EXEMPT.get(module, set())
        assert not lazy, f"{_where(MODULES[module], node)}: import {top} inside the function that uses it"


# --- statements ----------------------------------------------------------------------------------------


@LIBRARY
def test_nothing_is_asserted(module: str) -> None:
    path = MODULES[module]
    found = [_where(path, node) for node in ast.walk(_tree(path)) if isinstance(node, ast.Assert)]
    assert not found, f"assert vanishes under -O; raise an error of layoutalg.errors: {found}"


CATCHES_ALL = {
    "layoutalg.optional": "the import of another project's library may raise anything",
    "layoutalg.cli.entry": "whatever nobody foresaw is exit code 3, not 1",
}
"""Where a handler catches everything, and why."""


@LIBRARY
def test_no_handler_catches_everything(module: str) -> None:
    path = MODULES[module]
    for node in ast.walk(_tree(path)) if module not in CATCHES_ALL else ():
        if isinstance(node, ast.ExceptHandler):
            names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else {"bare"}
            broad = names & {"bare", "Exception", "BaseException"}
            assert not broad, f"{_where(path, node)}: catches {', '.join(broad)}"


@LIBRARY
def test_programs_are_run_in_one_place(module: str) -> None:
    """`layoutalg.tools` ends them with all that they started, and limits their memory and time."""
    path = MODULES[module]
    found = [_where(path, node) for node, name, _ in _imports(_tree(path)) if name == "subprocess"]
    assert not found or module == "layoutalg.tools", f"use layoutalg.tools: {found}"


@LIBRARY
def test_what_is_loaded_is_asked_in_one_place(module: str) -> None:
    """A module stands in `sys.modules` before it has its names: `layoutalg.optional` knows that."""
    path = MODULES[module]
    asked = [
        _where(path, node)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.modules.get"
    ]
    assert not asked or module == "layoutalg.optional", f"use layoutalg.optional: {asked}"


@LIBRARY
def test_no_text_is_evaluated(module: str) -> None:
    path = MODULES[module]
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            bad = called in {"eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "pickle.loads"}
            shell = any(k.arg == "shell" for k in node.keywords)
            assert not bad and not shell, f"{_where(path, node)}: {called}"


# --- public functions ----------------------------------------------------------------------------------


NO_DOCTEST = {
    r"layoutalg\.cli\..*": "commands document themselves through --help, which test_cli reads",
    r"layoutalg\.strategies": "what a strategy draws is random",
    r"layoutalg\.codegen\.runtime|layoutalg\.kernels\.(baselines|bench)": "an example would need a GPU",
}
"""Modules whose functions have a docstring but no example, and why."""


@LIBRARY
def test_a_public_function_says_what_it_does_and_shows_it(module: str) -> None:
    shown = not any(re.fullmatch(pattern, module) for pattern in NO_DOCTEST)
    for function in _public_functions(module):
        text = ast.get_docstring(function)
        place = _where(MODULES[module], function)
        assert text, f"{place}: {function.name} has no docstring"
        assert ">>> " in text or not shown, f"{place}: the docstring of {function.name} has no doctest"


@LIBRARY
def test_a_public_class_says_what_it_is(module: str) -> None:
    for node in _tree(MODULES[module]).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{_where(MODULES[module], node)}: {node.name} has no docstring"


@pytest.mark.parametrize("package", [m for m in sorted(MODULES) if MODULES[m].name == "__init__.py"])
def test_no_public_name_is_the_name_of_a_module(package: str) -> None:
    """`layoutalg.transpose` must not be a function now and a module after some import."""
    modules = {m.rpartition(".")[2] for m in MODULES if m.rpartition(".")[0] == package}
    exported = importlib.import_module(package)
    public = {n for n in getattr(exported, "__all__", dir(exported)) if not n.startswith("_")}
    for name in sorted(public & modules):
        assert isinstance(getattr(exported, name), ModuleType), f"{package}.{name} is also a module"


# --- words ---------------------------------------------------------------------------------------------

FOREIGN = {
    "a path of one machine": r"(?<![\w.])/(work|home|root|Users)/\w",
    "a file outside the repository": r"\.\./shared\b",
    "an issue by number": r"(?i)(?<![\w#])issue #?\d",
    "how the project was made": r"(?i)\b(this|the) session\b|\bsub-?agents?\b",
    "unfinished work": r"\b(TODO|FIXME|XXX)\b",
}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".h", ".cu", ".json", ".txt", ".yml", ""}


def _text_files() -> list[Path]:
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = run.stdout.splitlines()
    if not names:  # an unpacked archive has no index
        names = [
            str(p.relative_to(ROOT)) for folder in (*PACKAGES, "tests") for p in (ROOT / folder).rglob("*")
        ]
        names += [p.name for p in ROOT.iterdir()]
    paths = [ROOT / name for name in names]
    return [p for p in paths if p.is_file() and p.suffix in TEXT_SUFFIXES and p != Path(__file__)]


@pytest.mark.parametrize("what", FOREIGN)
def test_the_project_speaks_of_itself_alone(what: str) -> None:
    pattern = re.compile(FOREIGN[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in _text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found, f"{what}: {found}"


# --- what the README promises --------------------------------------------------------------------------


def _readme_commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else ""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) + re.findall(r"(?:^ {4}.*\n)+", text, re.M)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`((?:make|layoutalg) [^`]+)`", text)
    return [line for line in lines if re.match(r"(make|(\.venv/bin/)?layoutalg) ", line)]


def test_the_readme_names_commands_that_exist() -> None:
    commands = _readme_commands()
    assert {"make demo", "make test"} <= {" ".join(c.split()[:2]) for c in commands}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    from typer.main import get_command

    from layoutalg.cli.app import app

    known = set(getattr(get_command(app), "commands", {}))
    for command in commands:
        program, word = command.split()[:2]
        assert word in (targets if program == "make" else known | {"--help", "--version"}), command


def test_the_version_is_told_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
