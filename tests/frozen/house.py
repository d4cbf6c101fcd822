"""The size of the house: modules, rooms, import levels, lines, names, and files that an operation touches.

    python -m tests.frozen.house            of this tree
    python -m tests.frozen.house REV        of a revision, from `git archive`
    python -m tests.frozen.house --items    of this tree, with the items that `make test` collects

Read off the sources of layoutalg/ without codegen/ and kernels/, which are links; nothing is imported.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPERATION = "raked_product"
PARTS = {"layoutalg": ("codegen", "kernels"), "codegen": (), "kernels": (), "tests": ()}


def sources(root: Path, part: str) -> list[Path]:
    """The Python files of a part, links not followed."""
    apart = [root / part / name for name in PARTS[part]]
    return sorted(p for p in (root / part).rglob("*.py") if not any(p.is_relative_to(a) for a in apart))


def lines(paths: list[Path]) -> int:
    """Lines of text in all of them."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def exported(tree: ast.Module) -> set[str] | None:
    """The names of `__all__`, or None where a module has none."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__" and node.value is not None:
                return {str(e.value) for e in ast.walk(node.value) if isinstance(e, ast.Constant)}
    return None


def defined(tree: ast.Module) -> set[str]:
    """Names without underscore that a module defines at its top, not those it imports."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def levels(root: Path) -> tuple[int, int]:
    """Layers of the contract about layoutalg itself, and all contracts."""
    linter = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contracts = linter["contracts"]
    own = [c for c in contracts if c["type"] == "layers" and c["containers"] == ["layoutalg"]]
    return (len(own[0]["layers"]) if own else 0), len(contracts)


def facts(root: Path) -> list[tuple[str, object]]:
    """What is counted, in words, with its number."""
    files = sources(root, "layoutalg")
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    rooms = [p.parent for p in files if p.name == "__init__.py" and p.parent.parent == root / "layoutalg"]
    flat = [p for p in files if p.parent == root / "layoutalg" and not p.name.startswith("__")]
    faces = {path: names for path, tree in trees.items() if (names := exported(tree)) is not None}
    public = {path: names for path, names in faces.items() if path.name == "__init__.py" or path in flat}
    offered = set().union(*public.values())
    internal = sum(len(defined(tree) - offered) for tree in trees.values())
    layers, contracts = levels(root)
    word = re.compile(rf"\b{OPERATION}\b")
    touched = [p for p in files if word.search(p.read_text(encoding="utf-8"))]
    tests = [p for p in sources(root, "tests") if word.search(p.read_text(encoding="utf-8"))]
    documents = [
        p
        for p in [*root.glob("*.md"), *(root / "docs").glob("*.md")]
        if word.search(p.read_text(encoding="utf-8"))
    ]
    return [
        ("modules in layoutalg/", len([p for p in files if p.name != "__init__.py"])),
        ("of these flat in layoutalg/", len(flat)),
        ("rooms", len(rooms)),
        ("import levels of layoutalg", layers),
        ("import contracts", contracts),
        *((f"lines of {part}/", lines(sources(root, part))) for part in PARTS),
        ("names of layoutalg.__all__", len(faces.get(root / "layoutalg" / "__init__.py", ()))),
        ("names offered by faces and flat modules", len(offered)),
        ("names without underscore that no face offers", internal),
        (
            f"files of layoutalg/ that name {OPERATION}",
            f"{len(touched)}: {', '.join(str(p.relative_to(root / 'layoutalg')) for p in touched)}",
        ),
        (
            f"files of tests/ that name {OPERATION}",
            f"{len(tests)}: {', '.join(str(p.relative_to(root / 'tests')) for p in tests)}",
        ),
        (f"documents that name {OPERATION}", f"{len(documents)}: {', '.join(p.name for p in documents)}"),
    ]


def items() -> str:
    """What pytest says it has collected."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stdout.strip().splitlines()[-1]


def main(words: list[str] | None = None) -> None:
    """Print the numbers of a tree."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen.house", description=__doc__.splitlines()[0])
    parser.add_argument("rev", nargs="?", help="a revision; this tree without it")
    parser.add_argument("--items", action="store_true", help="collect the tests as well")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        root = ROOT
        if asked.rev:
            archive = subprocess.run(
                ["git", "archive", asked.rev], cwd=ROOT, capture_output=True, check=True
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
                packed.extractall(folder, filter="tar")
            root = Path(folder)
        for what, number in facts(root):
            print(f"{what:48} {number}")
    if asked.items and not asked.rev:
        print(f"{'tests':48} {items()}")


if __name__ == "__main__":
    main()
