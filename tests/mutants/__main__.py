"""Mistakes drawn in the source of a room, and whether the room's tests find them.

python -m tests.mutants compose 1                 ten mistakes in layoutalg/compose, drawn from seed 1
python -m tests.mutants kernels/rowwise 1 --count 4 --then tests/test_documents.py
python -m tests.mutants compose 1 --only 3 7      the third and the seventh of them

Each mistake is planted in a copy of the tree; the room's tests and doctests run there up to the first
failure, then what `--then` names.  A mistake changes an operator, a comparison, a constant or a condition, or
leaves a statement out.  Survivors are printed as differences: each is a test that is missing, or a program
that does the same.  The exit status is the number of survivors.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
"""Seconds that the tests of one mistake may take: one that never ends is found."""

OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//", "+"), ast.FloorDiv: ("//", "*", "%"),
    ast.Mod: ("%", "//"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"), ast.BitXor: ("^", "|"), ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="), ast.GtE: (">=", ">", "<"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
"""The text of an operator, and those that it may be mistaken for."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A piece of a file, by offsets of its bytes, and the text that stands there instead."""

    path: str
    start: int
    end: int
    text: str

    def planted(self) -> str:
        """The file's text with the mistake."""
        source = (ROOT / self.path).read_bytes()
        return (source[: self.start] + self.text.encode() + source[self.end :]).decode()

    def __str__(self) -> str:
        before, after = (ROOT / self.path).read_text("utf-8"), self.planted()
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), self.path, "mistake", "", "", 1, ""
        )
        return "\n".join(lines)


class Sites(ast.NodeVisitor):
    """Every place of a file at which a mistake can be made, with the texts that may stand there."""

    def __init__(self, path: str) -> None:
        """Read and walk the file."""
        self.path, self.source = path, (ROOT / path).read_bytes()
        self.lines = [0]
        for line in self.source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.sites: list[tuple[Mistake, ...]] = []
        self.visit(ast.parse(self.source))

    def at(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The offsets of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[
            node.end_lineno - 1
        ] + node.end_col_offset

    def add(self, start: int, end: int, *texts: str) -> None:
        """A site."""
        self.sites.append(tuple(Mistake(self.path, start, end, text) for text in texts))

    def between(self, left: ast.expr, right: ast.expr, operator: ast.AST) -> None:
        """The operator between two operands, found in the text: the tree does not say where it stands."""
        word, *others = OPERATORS.get(type(operator), ("",))
        start, end = self.at(left)[1], self.at(right)[0]
        offset = self.source[start:end].find(word.encode())
        if others and offset >= 0:
            self.add(start + offset, start + offset + len(word), *others)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """a + b."""
        self.between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """a < b < c."""
        for left, right, operator in zip(
            (node.left, *node.comparators), node.comparators, node.ops, strict=False
        ):
            self.between(left, right, operator)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """a and b."""
        self.between(node.values[-2], node.values[-1], node.op)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A number or a truth value."""
        if isinstance(node.value, bool):
            self.add(*self.at(node), str(not node.value))
        elif isinstance(node.value, int):
            self.add(*self.at(node), str(node.value + 1), f"({node.value - 1})")

    def condition(self, test: ast.expr) -> None:
        """A condition that is turned round, or that always or never holds."""
        start, end = self.at(test)
        self.add(start, end, f"not ({self.source[start:end].decode()})", "True", "False")

    def visit_If(self, node: ast.If) -> None:
        """Conditions of statements."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.condition(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Conditions of expressions."""
        self.condition(node.test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call for its effect; docstrings are no sites."""
        if not isinstance(node.value, ast.Constant):
            self.add(*self.at(node), "pass")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """x += 1."""
        self.add(*self.at(node), "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """A refusal: what it says is not changed."""
        self.add(*self.at(node), "pass")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value alone, without its type."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Defaults and body, without the types and decorators."""
        for part in (*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body):
            self.visit(part)


def drawn(room: str, seed: int) -> Iterator[Mistake]:
    """Mistakes of a room, each site equally likely, none twice; each still parses."""
    rng = random.Random(f"{room} {seed}")
    files = sorted(str(p.relative_to(ROOT)) for p in (ROOT / room).rglob("*.py"))
    sites = [site for path in files for site in Sites(path).sites]
    rng.shuffle(sites)
    for site in sites:
        mistake = rng.choice(site)
        try:
            ast.parse(mistake.planted())
        except SyntaxError:
            continue
        yield mistake


def source_of(room: str) -> str:
    """The folder of a room, by its name or its path."""
    for folder in (room, f"layoutalg/{room}"):
        if (ROOT / folder).is_dir() and folder.split("/")[0] in ("layoutalg", "codegen", "kernels"):
            return folder
    raise SystemExit(f"{room} is not a room of layoutalg, codegen or kernels")


def places_of(folder: str) -> list[str]:
    """The room's tests, or those of the rooms around it, and its doctests."""
    parts = Path(folder.removeprefix("layoutalg/"))
    places = [ROOT / "tests" / place for place in (parts, *parts.parents) if str(place) != "."]
    own = next((str(place.relative_to(ROOT)) for place in places if place.is_dir()), None)
    doctests = folder if folder.startswith("layoutalg/") else f"layoutalg/{folder}"
    return [doctests, *([own] if own else [])]


def caught(mistake: Mistake, copy: Path, tests: list[str]) -> bool:
    """Plant it in the copy, run the tests up to the first failure, and take it out again."""
    path = copy / mistake.path
    right = path.read_bytes()
    path.write_text(mistake.planted(), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_bytes(right)
    return done.returncode != 0


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("room")
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--only", type=int, nargs="*", help="of those drawn, these by their numbers")
    parser.add_argument("--then", nargs="*", default=[], help="more tests for what the room's own let live")
    asked = parser.parse_args(args)
    folder = source_of(asked.room)
    steps = [places_of(folder), *([asked.then] if asked.then else [])]
    chosen = [
        (number, mistake)
        for number, mistake in zip(range(1, asked.count + 1), drawn(folder, asked.seed), strict=False)
        if asked.only is None or number in asked.only
    ]
    survivors = 0
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "tree"
        ignored = shutil.ignore_patterns(".venv", ".git", ".*_cache", "__pycache__", ".hypothesis", "build")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
        # Bytecode is checked by content: two mistakes may be written within one tick of the clock.
        hashed = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
        subprocess.run([sys.executable, *hashed], cwd=copy, check=False, capture_output=True)
        for number, mistake in chosen:
            found = next((tests for tests in steps if caught(mistake, copy, tests)), None)
            survivors += found is None
            outcome = f"caught by {' '.join(found)}" if found else "SURVIVES"
            print(f"{number}: {outcome}\n{mistake}\n", flush=True)
    print(f"{folder}, seed {asked.seed}: {len(chosen) - survivors} of {len(chosen)} are caught")
    return survivors


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
