"""Values of the library stay as they are built: no attribute is set or deleted, and copies are equal."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator

import numpy
import pytest

import layoutalg
from layoutalg.analysis import Access, Guard, analyze
from layoutalg.arch import ARCHS
from layoutalg.atoms import find_copy_atom, find_mma_atom
from layoutalg.codegen.expr import Const, Var
from layoutalg.dtype import dtype
from layoutalg.f2 import LinearLayout, to_f2
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.matrix import matrix_problem
from layoutalg.kernels.move.matrix_plan import copy_configs
from layoutalg.layout import ArithTuple, ComposedLayout, Layout, ScaledBasis, Swizzle, Swizzles
from layoutalg.reading import parse_index
from layoutalg.synthesis import synthesize
from tests.sweeps import each

MUTABLE = {
    *(
        "codegen.KernelBuilder",
        "codegen.Costs",
        "codegen.ClusterBarrier",
        "kernels.Engine",
        "kernels.Summary",
    ),
    *(
        "source.Declaration",
        "source.Function",
        "source.Kernel",
        "source.Launch",
        "source.Node",
        "source.Parsed",
    ),
}
"""Dataclasses of faces that collect something while they work; they are no values."""

TILE = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1)))
ACCESS = Access.default("ld.shared.b32", TILE.inner, "f32")
FOUND = synthesize((8, 8), [ACCESS], element="f32")
VALUES: list[object] = [
    TILE, TILE.outer, TILE.inner, Layout((4, 8), (ScaledBasis(1, 0), ScaledBasis(1, 1))), ScaledBasis(3, 1),
    ArithTuple((1, (2, 3))), LinearLayout({"lane": [1, 2]}, {"offset": 4}),
    LinearLayout.from_layout(TILE), Swizzles(Swizzle(2, 0, 3), Swizzle(1, 0, 2)), to_f2(TILE),
    layoutalg.Tensor(numpy.arange(64), TILE), ACCESS, Guard((7, 8)), dtype("f16"),
    analyze(TILE, ACCESS), analyze(TILE, Access.default("ld.global.b32", TILE.inner, "f32")),
    FOUND, FOUND.certificate, ARCHS["sm_90"].instructions["ldmatrix.x4"], ARCHS["sm_90"],
    find_mma_atom("SM80_16x8x16_F32F16F16F32_TN"), find_copy_atom("SM75_U32x4_LDSM_N"), Var("lane", 32),
    Const(3), Var("lane", 32) * 4 + 1, parse_index("lane * 4"), gemm_problem(8, 8, 8),
    matrix_problem(8, 24, "f32", turned=False), layoutalg.kernels.FAMILIES["transpose"],
    copy_configs(matrix_problem(8, 24, "f32", turned=False), "sm_90")[0],
]  # fmt: skip


def attributes(value: object) -> list[str]:
    """Names that instances of a value's class have, and one that they do not have."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return [*dict.fromkeys([*slots, *fields]), "no_such_attribute"]


@each("value", VALUES, ids=lambda v: type(v).__name__)
def test_nothing_is_set_or_deleted(value: object) -> None:
    before = repr(value)
    for name in attributes(value):
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, 1)
        with pytest.raises((AttributeError, TypeError)):
            delattr(value, name)
    assert repr(value) == before


@each("value", VALUES, ids=lambda v: type(v).__name__)
def test_copies_are_equal(value: object) -> None:
    held_by_reference = isinstance(
        value, type(ARCHS["sm_90"]) | type(layoutalg.kernels.FAMILIES["transpose"])
    )
    assert copy.copy(value) == value
    if held_by_reference or isinstance(value, type(FOUND)):
        return  # they hold read-only mappings, which Python does not copy: the registries find them by name
    if not isinstance(value, layoutalg.Tensor):  # one tensor is another where they share a buffer
        assert copy.deepcopy(value) == value
        assert hash(copy.deepcopy(value)) == hash(value)
        assert pickle.loads(pickle.dumps(value)) == value


def test_values_of_the_core_are_built_printed_and_matched_by_the_same_arguments() -> None:
    names = {kind.__name__: kind for kind in map(type, VALUES[:9])} | {"Layout": Layout, "Swizzle": Swizzle}
    for value in VALUES[:9]:
        printed = repr(value)
        again = eval(printed, names)  # noqa: S307
        assert again == value and hash(again) == hash(value) and repr(again) == printed, printed
        assert type(again) is type(value) and value != printed and value is not None
    for value in VALUES[:9] + VALUES[10:11]:
        parts = [getattr(value, name) for name in getattr(type(value), "__match_args__", ())]
        assert parts or isinstance(value, ArithTuple), value
        for name in attributes(value):
            wanted = f"a {type(value).__name__} is immutable; .*{name}|has no attribute '{name}'"
            with pytest.raises(AttributeError, match=wanted):
                setattr(value, name, 1)
            with pytest.raises(AttributeError, match=wanted):
                delattr(value, name)
    match VALUES[0]:
        case ComposedLayout(Swizzle(bits, base, shift), offset, Layout(shape, stride)):
            assert (bits, base, shift, offset, shape, stride) == (2, 0, 3, 0, (8, 8), (8, 1))
        case _:
            raise AssertionError(VALUES[0])


def classes() -> Iterator[type]:
    """Every class of the library."""
    for module in pkgutil.walk_packages(layoutalg.__path__, "layoutalg."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value) and value.__module__ == module.name:
                    yield value


def defines(kind: type, name: str) -> bool:
    """Whether a class has its own way for it, or inherits one that is not `object`'s."""
    return any(name in vars(base) for base in kind.__mro__[:-1])


def test_a_class_whose_instances_are_values_lets_nothing_be_deleted() -> None:
    """Dataclasses of faces are frozen but for a few; a class that refuses to set refuses to delete."""
    rooms = [m.name for m in pkgutil.walk_packages(layoutalg.__path__, "layoutalg.") if m.ispkg]
    faces = [importlib.import_module(room) for room in rooms]
    names = [(face, name) for face in faces for name in getattr(face, "__all__", vars(face))]
    exported = {id(getattr(face, name, None)) for face, name in names}
    seen = 0
    for kind in classes():
        if dataclasses.is_dataclass(kind) and id(kind) in exported:
            frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
            assert frozen != (f"{kind.__module__.split('.')[1]}.{kind.__name__}" in MUTABLE), kind
            seen += 1
        elif defines(kind, "__setattr__") and not issubclass(kind, BaseException):
            assert defines(kind, "__delattr__") or dataclasses.is_dataclass(kind), kind
            seen += 1
    assert seen > 100
