"""The rules of the house, read off the source with `ast`: one test per rule, reporting every breach at once.

Which room may import which stands in `pyproject.toml` under `[tool.importlinter]`, and what ruff refuses
under `[tool.ruff.lint]`; what these tools cannot say is here.  A rule is checked on the whole tree as it is,
so a new file is held to it by existing.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from layoutalg.arch import ARCHS

Node = TypeVar("Node", bound=ast.AST)
ROOT = Path(__file__).parents[1]
MOST_LINES = 600
MOST_MODULES = 12
"""Modules of a room, beside its face."""

PACKAGES = ("layoutalg", "codegen", "kernels")
LAZY = {"numpy", "sympy", "cupy", "cupyx", "torch", "hypothesis"}
"""Imported inside functions in layoutalg/: `import layoutalg` must stay cheap."""

LAZY_EXEMPT = {"layoutalg.testing.strategies": {"hypothesis"}}
"""A module nobody imports by accident: the strategies are hypothesis."""


FACELESS = {"layoutalg.cli", "layoutalg.codegen", "layoutalg.kernels"}
"""Packages whose rooms are entered one by one."""

ASIDE = ("As", "How", "Of", "One", "That", "Those", "What", "Whatever", "Where", "Which")
"""Words that put off what a docstring is about."""


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
SOURCES = sorted({*MODULES.values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*.py")})
IN_LAYOUTALG = [m for m in sorted(MODULES) if not m.startswith(("layoutalg.codegen", "layoutalg.kernels"))]


def _parsed(path: Path) -> ast.Module:
    """The tree of a file.  No look for garbage goes through it meanwhile: that takes longer than to parse."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.enable()


@functools.cache
def _tree(path: Path) -> ast.Module:
    return _parsed(path)


@functools.cache
def _by_type(path: Path) -> dict[type[ast.AST], list[Any]]:
    found: dict[type[ast.AST], list[Any]] = {}
    for node in ast.walk(_tree(path)):
        found.setdefault(type(node), []).append(node)
    return found


def _nodes(path: Path, *kinds: type[Node]) -> list[Node]:
    """The nodes of some types in a file, which is walked once for all rules."""
    return [node for kind in kinds for node in _by_type(path).get(kind, ())]


def _where(path: Path, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def _runs_later(node: ast.AST) -> bool:
    """True for what loading a module does not run: function bodies, and blocks for type checkers."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


@functools.cache
def _imports(path: Path, *, eager: bool = False) -> tuple[tuple[ast.stmt, str, str], ...]:
    """(statement, module, name or "") of each import; `eager`: those that run when the module is loaded."""
    library = path in MODULES.values()  # of other files, trees would be kept for this alone
    return tuple(_imports_in(_tree(path) if library else _parsed(path), eager))


def _imports_in(tree: ast.AST, eager: bool) -> Iterator[tuple[ast.stmt, str, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, "." * node.level + (node.module or ""), alias.name) for alias in node.names)
        elif isinstance(node, ast.expr) or (eager and _runs_later(node)):
            continue  # an expression holds no statement
        else:
            yield from _imports_in(node, eager)


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


def test_a_file_holds_one_idea() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    long = [f"{path.relative_to(ROOT)}: {n} lines" for path, n in lengths.items() if n > MOST_LINES]
    assert not long, f"split by idea what has more than {MOST_LINES} lines: {long}"


def test_a_room_has_at_most_a_dozen_modules() -> None:
    rooms = Counter(module.rpartition(".")[0] for module, path in MODULES.items() if path.stem != "__init__")
    full = {room: n for room, n in rooms.items() if n > MOST_MODULES}
    assert not full, f"give what belongs together a room of its own: {full}"


def test_a_module_opens_with_a_docstring() -> None:
    silent = [module for module, path in MODULES.items() if not ast.get_docstring(_tree(path))]
    assert not silent, f"these do not say what they are for: {silent}"


# --- imports -------------------------------------------------------------------------------------------


def test_a_docstring_begins_with_the_thing_or_the_verb() -> None:
    """Of modules, classes, functions and constants: a reader looks for the noun or for what is done."""
    texts = [
        (_where(path, statement.value), statement.value.value)
        for path in MODULES.values()
        for statement in _nodes(path, ast.Expr)
        if isinstance(statement.value, ast.Constant)
    ]
    begins = re.compile(rf"({'|'.join(ASIDE)})\b")
    wrong = [f"{where}: {text[:60]}" for where, text in texts if isinstance(text, str) and begins.match(text)]
    assert not wrong, "\n".join(wrong)


def test_the_library_imports_names_from_where_they_are_defined() -> None:
    """`from layoutalg import analyze` inside the library would hide an upward import behind the root."""
    known = {*MODULES, "layoutalg.__version__"}
    hidden = [
        f"{_where(path, node)}: {imported}"
        for path in MODULES.values()
        for node, name, imported in _imports(path)
        if name == "layoutalg" and f"layoutalg.{imported}" not in known
    ]
    assert not hidden, f"import the module that defines them: {hidden}"


def _rooms(name: str) -> list[str]:
    """The rooms with faces around a module: those of layoutalg, and all of codegen and kernels."""
    parts = name.split(".")
    deep = name.startswith(("layoutalg.codegen.", "layoutalg.kernels."))
    around = (".".join(parts[:n]) for n in range(2, len(parts) if deep else min(3, len(parts))))
    return [r for r in around if r not in FACELESS and MODULES[r].name == "__init__.py"]


def test_a_room_is_entered_by_its_face() -> None:
    """From outside of a room its modules are not imported."""
    wrong = []
    for module, path in MODULES.items():
        for node, name, imported in _imports(path):
            target = f"{name}.{imported}" if f"{name}.{imported}" in MODULES else name
            if target not in MODULES or target.startswith(f"{module}."):
                continue
            outside = [r for r in _rooms(target) if not f"{module}.".startswith(f"{r}.")]
            wrong += [f"{_where(path, node)}: {target} is inside {room}" for room in outside]
    assert not wrong, "\n".join(wrong)


def _internal(name: str) -> str:
    """The room that a module is an internal of, or nothing; the command's parts are no room with a face."""
    parts = name.split(".")
    room, module = ".".join(parts[:2]), ".".join(parts[:3])
    return room if module in MODULES and len(parts) > 2 and room not in FACELESS else ""


def test_tests_import_faces_or_internals_of_their_own_room() -> None:
    """Imports are read as lines: to parse all tests takes seconds."""
    line = re.compile(
        r"^ *(?:from (layoutalg[\w.]*) import \(?([\w\s,]+)|import (layoutalg[\w.]*))", re.MULTILINE
    )
    wrong = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        own = f"layoutalg.{path.relative_to(ROOT / 'tests').parts[0]}"
        for name, imported, whole in line.findall(path.read_text(encoding="utf-8")):
            targets = [f"{name}.{word}" for word in re.findall(r"\w+", imported)] or [f"{whole}."]
            wrong += [f"{path}: {t}" for t in targets if _internal(t) not in {"", own}]
    assert not wrong, "\n".join(wrong)


def test_heavy_libraries_load_lazily() -> None:
    eager = [
        f"{_where(MODULES[module], node)}: {name}"
        for module in IN_LAYOUTALG
        for node, name, _ in _imports(MODULES[module], eager=True)
        if name.partition(".")[0] in LAZY - LAZY_EXEMPT.get(module, set())
    ]
    assert not eager, f"import these inside the functions that use them: {eager}"


# --- statements ----------------------------------------------------------------------------------------


def _broken(module: str, node: ast.Assert | ast.Call) -> str:
    """The rule of statements that a node breaks, of those that ruff does not know, or nothing."""
    if isinstance(node, ast.Assert):
        return "assert vanishes under -O; raise an error of layoutalg.errors"
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("loads", "get"):
        return ""
    if ast.unparse(node.func) == "pickle.loads":
        return "pickle.loads evaluates what it reads"
    if ast.unparse(node.func) == "sys.modules.get":
        known = module == "layoutalg.optional"
        return "" if known else "a module stands there before it has its names; use layoutalg.optional"
    return ""


_CHECKED: tuple[type[ast.Assert | ast.Call], ...] = ast.Assert, ast.Call


def test_no_statement_breaks_a_rule() -> None:
    broken = [
        f"{_where(path, node)}: {rule}"
        for module, path in MODULES.items()
        for node in _nodes(path, *_CHECKED)
        if (rule := _broken(module, node))
    ]
    assert not broken, "\n".join(broken)


def _defaults(path: Path) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The default of each parameter and field, with its annotation, and what `x or this` falls back to."""
    functions: list[ast.FunctionDef | ast.Lambda] = [
        *_nodes(path, ast.FunctionDef),
        *_nodes(path, ast.Lambda),
    ]
    for function in functions:
        a = function.args
        named = [*a.posonlyargs, *a.args]
        pairs = [*zip(named[len(named) - len(a.defaults) :], a.defaults, strict=True)]
        pairs += [(x, d) for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None]
        yield from ((default, x.annotation) for x, default in pairs)
    yield from ((x.value, x.annotation) for x in _nodes(path, ast.AnnAssign) if x.value is not None)
    yield from ((x.values[-1], None) for x in _nodes(path, ast.BoolOp))


def test_an_architecture_is_asked_once() -> None:
    """No default names an architecture but `DEFAULT_ARCH`; a form of descriptors is no architecture."""
    found = [
        f"{_where(path, default)}: {default.value!r}"
        for path in MODULES.values()
        for default, annotation in _defaults(path)
        if isinstance(default, ast.Constant) and default.value in ARCHS
        if not (isinstance(annotation, ast.Name) and annotation.id == "DescriptorForm")
    ]
    assert not found, found


def test_only_its_own_room_asks_for_the_type_of_a_configuration() -> None:
    """No type of a configuration is told apart outside of its room, but by the ladder of products."""
    found = [
        f"{_where(MODULES[module], node)}: {ast.unparse(node)}"
        for module in sorted(MODULES)
        if not module.startswith("layoutalg.kernels.ladder")
        for node in _told_apart(module)
    ]
    assert not found, found
    assert list(_told_apart("layoutalg.kernels.ladder.step"))


def _told_apart(module: str) -> Iterator[ast.Call]:
    """The `isinstance` of a module that ask for types of configurations of other rooms."""
    away = {name for _, source, name in _imports(MODULES[module]) if not _same_room(module, source)}
    for node in _nodes(MODULES[module], ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            if any(name.endswith("Config") for name in names & away):
                yield node


def _same_room(module: str, source: str) -> bool:
    """Whether a module imports from its own room of kernels, the first part of its name behind `kernels`."""
    return module.split(".")[:3] == source.split(".")[:3]


def test_programs_are_run_in_one_place() -> None:
    """`layoutalg.tools` ends them with all that they started, and limits their memory and time."""
    found = [
        _where(path, node)
        for module, path in MODULES.items()
        for node, name, _ in _imports(path)
        if name == "subprocess" and module != "layoutalg.tools"
    ]
    assert not found, f"use layoutalg.tools: {found}"


def test_machine_code_comes_through_the_cache() -> None:
    """`compile_cubin` is called where the cache misses, and nowhere else outside of tests."""
    examples = sorted((ROOT / "examples").rglob("*.py"))
    callers = {
        path.name
        for path in (*MODULES.values(), *examples)
        for node in _nodes(path, ast.Call)
        if "compile_cubin" in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    }
    assert callers == {"cubin_cache.py"}


# --- public functions ----------------------------------------------------------------------------------


def test_what_is_public_says_what_it_does() -> None:
    silent = []
    for module, path in MODULES.items():
        public: list[ast.FunctionDef | ast.ClassDef] = [*_public_functions(module), *_public_classes(module)]
        silent += [f"{_where(path, node)}: {node.name}" for node in public if not ast.get_docstring(node)]
    assert not silent, f"these have no docstring: {silent}"


def _public_classes(module: str) -> list[ast.ClassDef]:
    body = _tree(MODULES[module]).body
    return [node for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_faces_of_kernels_show_each_name_at_work() -> None:
    """Every class and function of a room's face has a doctest."""
    found = []
    for face in sorted((ROOT / "kernels").glob("*/__init__.py")):
        room = importlib.import_module(f"layoutalg.kernels.{face.parent.name}")
        found += [
            f"{room.__name__}.{name} is not shown"
            for name in vars(room)
            if not name.startswith("_")
            and isinstance(value := inspect.unwrap(getattr(room, name)), type | FunctionType)
            and value.__module__.startswith("layoutalg.kernels.")
            and ">>>" not in (value.__doc__ or "")
        ]
    assert not found, "\n".join(found)


def test_a_face_names_every_file_of_its_room() -> None:
    parents = {module.rpartition(".")[0] for module in MODULES} - {""}
    faces = {room: set(re.findall(r"\w+", ast.get_docstring(_tree(MODULES[room])) or "")) for room in parents}
    assert not [
        module
        for module in MODULES
        for room, _, name in [module.rpartition(".")]
        if room and not name.startswith("__") and name not in faces[room]
    ]


def test_no_public_name_is_the_name_of_a_module() -> None:
    """`layoutalg.ops.transpose` must not be a function now and a module after some import."""
    wrong = []
    for package in (m for m in sorted(MODULES) if MODULES[m].name == "__init__.py"):
        modules = {m.rpartition(".")[2] for m in MODULES if m.rpartition(".")[0] == package}
        exported = importlib.import_module(package)
        public = {n for n in getattr(exported, "__all__", dir(exported)) if not n.startswith("_")}
        wrong += [
            f"{package}.{name}"
            for name in sorted(public & modules)
            if not isinstance(getattr(exported, name), ModuleType)
        ]
    assert not wrong, f"these are modules as well: {wrong}"


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


def test_the_project_speaks_of_itself_alone() -> None:
    patterns = {what: re.compile(pattern) for what, pattern in FOREIGN.items()}
    texts = ((path, path.read_text(encoding="utf-8")) for path in _text_files())
    found = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match[0]}"
        for path, text in texts
        for what, pattern in patterns.items()
        for match in pattern.finditer(text)
    ]
    assert not found, "\n".join(found)
