"""The paths of CONTRIBUTING, "How to add something": a test fails when a place of a path was forgotten.

What other tests hold is named in the table there, and not held here again.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numpy

from layoutalg import Layout, kernels, make_tiled_copy, ops
from layoutalg import codegen as cg
from layoutalg.cli import commands
from layoutalg.cli.table import COMMANDS
from layoutalg.codegen import instr
from layoutalg.codegen.instr import FUNCTIONS, Instr
from layoutalg.kernels import FAMILIES, Family, verify
from layoutalg.kernels.calls.product_api import matmul
from layoutalg.kernels.elementwise import map_problem
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.rowwise.programs.recipes import NORMS as STEPS
from tests.command import run
from tests.documents import DOCUMENTS, ROOT
from tests.draws.symbolic_calls import OFFSETS_ALONE, WITH_BASES, WITH_SYMBOLS, A, integers_alone
from tests.frozen.schema import kinds
from tests.judges.exports import PUBLIC

LAWS = {*WITH_SYMBOLS, *WITH_BASES, *OFFSETS_ALONE, *integers_alone(A)}
"""Operations on which the laws of symbols and of strides along modes are tried."""

NO_LAYOUT = {"rotated_layout", "swizzle_inverse"}
"""Functions of the same rooms that take a shape or a swizzle, of which these laws say nothing."""


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """A package and all that is in it."""
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def said(*paths: Path) -> str:
    """Documents, each run of blanks as one."""
    return " ".join(" ".join(path.read_text(encoding="utf-8").split()) for path in paths)


def test_a_command_has_an_answer_a_line_in_the_table_and_in_the_face_and_a_page() -> None:
    """A module of commands brings the record of its answer, by which it is seen where the table lacks it."""
    assert {kind.command for kind in kinds()} - {""} == set(COMMANDS)
    pages = said(*DOCUMENTS)
    face = commands.__doc__ or ""
    assert not [name for name in COMMANDS if not re.search(rf"\b{name}\b", face)]
    assert not [name for name in COMMANDS if not re.search(rf"layoutalg {name}\b", pages)]


def test_an_operation_is_in_its_face_the_root_the_document_and_the_laws() -> None:
    made = {
        (path.parent.name, node.name)
        for path in sorted((ROOT / "layoutalg").glob("*/*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and "operation" in map(ast.unparse, node.decorator_list)
    }
    page = said(ROOT / "docs" / "algebra.md")
    assert len(made) >= 20
    for room, name in made:
        assert name in importlib.import_module(f"layoutalg.{room}").__all__, name
        assert f"`{name}`" in page, name
        assert hasattr(PUBLIC, name), name
    functions = {
        (room, name)
        for room in ("layout", "compose", "algebra", "decide", "f2")
        for name in importlib.import_module(f"layoutalg.{room}").__all__
        if inspect.isfunction(getattr(importlib.import_module(f"layoutalg.{room}"), name))
    }
    public = {name for _, name in functions if hasattr(PUBLIC, name)}
    assert public - LAWS == NO_LAYOUT
    inner = {name for room, name in functions if room in ("algebra", "decide")} - public
    assert inner == {"leaf_count", "storage_layout", "storage_order"}


def test_an_instruction_of_kernels_is_in_the_face() -> None:
    """Instructions of several widths are tables."""
    made = {
        name
        for module in modules(instr)
        for name, value in vars(module).items()
        for one in (value.values() if isinstance(value, Mapping) else (value,))
        if isinstance(one, Instr) and not name.startswith("_")
    }
    assert len(made) >= 40 and not made - set(vars(instr))


def test_a_family_is_registered_and_stands_on_a_page() -> None:
    """Families are records of a module, or tuples of them."""
    lists = [
        v if isinstance(v, tuple) else (v,) for module in modules(kernels) for v in vars(module).values()
    ]
    made = {family.name for items in lists for family in items if isinstance(family, Family)}
    assert made == set(FAMILIES)
    pages = said(ROOT / "docs" / "kernels.md", ROOT / "docs" / "ops.md")
    assert not [name for name in made if not re.search(rf"\b{re.escape(name)}\b", pages)]


def test_a_norm_has_steps_a_function_and_stands_in_the_help() -> None:
    """A norm is a record, and the steps of its formula."""
    assert {norm.formula for norm in NORMS.values()} == set(STEPS)
    assert set(NORMS) <= set(FAMILIES) & set(ops.__all__)
    for command in ("generate", "bench"):
        text = " ".join(re.sub("[│╭╮╰╯─]", " ", run(command, "--help").stdout).split())
        assert not [name for name in NORMS if not re.search(rf"\b{name}\b", text)]
    for name, norm in NORMS.items():
        takes = inspect.signature(getattr(ops, name)).parameters
        assert {"x", "out", *norm.parameters, *("residual",) * norm.adds} <= set(takes), name


def test_a_function_of_epilogues_is_offered_wherever_they_are() -> None:
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", run("generate", "--help").stdout).split())
    (offered,) = re.findall(r"Apply a function to the result of a GEMM: ([\w, ]+)\.", shown)
    assert offered.split(", ") == list(FUNCTIONS)
    assert all(f'"{name}"' in said(ROOT / "docs" / "ops.md") for name in FUNCTIONS)
    assert all(f"`{name}`" in said(ROOT / "docs" / "kernel_language.md") for name in FUNCTIONS)


def test_a_function_of_a_users_own_is_one_record() -> None:
    """The kernel language, an epilogue and a map compute it, on the simulator."""
    own = cg.ScalarFunction(
        "softplus", lambda x: cg.maximum(x, 0) + cg.log1p(cg.exp(-abs(x))),
        lambda x, y: (16 + 4 * abs(x)) * abs(y), absolute=2.0**-119,
    )  # fmt: skip
    k = cg.Kernel("softplus", threads=32)
    x, y = (k.tensor(name, "f32", (128,), (1,), writable=name == "y") for name in "xy")
    copy = k.get_slice(make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout(32), Layout(4)))
    k.store(own(k.load(copy.partition_S(x))), copy.partition_D(y))
    cg.verify(k.build(), own.meaning, tolerance=1e-6)
    values = numpy.linspace(-20, 20, 64, dtype="f4").reshape(8, 8)
    got = matmul(values, numpy.eye(8, dtype="f4"), activation=own, simulate=True)
    numpy.testing.assert_allclose(got, own.meaning(values.astype(float)), 1e-6)
    p = map_problem(own, (8, 24))
    assert verify(FAMILIES["relu"], p, FAMILIES["relu"].choose(p)).passed


def test_contributing_names_tests_that_exist() -> None:
    """Each row of the table says what fails."""
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)[
        1:
    ]
    assert len(rows) >= 10
    for added, _, fails in rows:
        tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", fails)
        assert tests, added
        for path, name in tests:
            assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), (added, path, name)
