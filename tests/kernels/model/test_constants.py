"""Numbers in the modules that choose: each is a constant with words beneath it, or counts something."""

from __future__ import annotations

import ast
from pathlib import Path

import layoutalg
from tests.sweeps import each

KERNELS = Path(layoutalg.__file__).parent / "kernels"

CHOOSERS = (
    "calls/product_choice.py", "elementwise.py", "gemm/choice.py", "gemm/times.py", "model/accesses.py",
    "model/fit.py", "model/work.py", "move/matrix_plan.py", "move/plan.py", "move/tiles.py",
    "rowwise/memory.py", "rowwise/packed.py", "rowwise/times.py",
    "rowwise/ways/norm_columns.py", "rowwise/ways/norm_model.py", "rowwise/ways/norm_plan.py",
    "rowwise/ways/reduce_model.py", "rowwise/ways/reduce_plan.py", "tuning/board.py",
)  # fmt: skip
"""The modules whose times or thresholds choose."""


def constants(tree: ast.Module) -> list[str]:
    """Constants of a module that are numbers, or hold some, and have no text beneath."""
    found = []
    for node, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        code = {x for of in ast.walk(node.value) if isinstance(of, ast.Lambda) for x in ast.walk(of)}
        parts = (x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant) and x not in code)
        numbers = [x for x in parts if type(x) in (int, float)]
        text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if numbers and not text:
            found.append(ast.unparse(node)[:60])
    return found


def hidden(tree: ast.Module) -> list[str]:
    """Fractions inside of functions: a share or a rate that has no name; halves and whole numbers count."""
    return [
        f"{x.value} in line {x.lineno}"
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for x in ast.walk(node)
        if isinstance(x, ast.Constant) and isinstance(x.value, float) and not (2 * x.value).is_integer()
    ]


@each("name", CHOOSERS)
def test_a_number_of_a_chooser_has_a_name_and_a_meaning(name: str) -> None:
    tree = ast.parse((KERNELS / name).read_text(encoding="utf-8"))
    assert not constants(tree), "constants without words"
    assert not hidden(tree), "numbers without a name"
