"""Stand-ins of PyTorch and CuPy for launchers: arrays without memory, and the libraries that know them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from layoutalg.kernels.modes import compact_strides

AT, FAR, SCRATCH = 1 << 20, 1 << 30, 1 << 31
"""Addresses; the last one is of memory that a launcher allocates."""


class Kind(SimpleNamespace):
    """A type of elements, as both libraries show it."""

    def __str__(self) -> str:
        return f"torch.{self.name}"


@dataclass(frozen=True)
class Array:
    """What both libraries' arrays are asked for, without memory; strides in elements."""

    at: int
    shape: tuple[int, ...]
    strides_elems: tuple[float, ...]
    kind: str = "float32"
    width: int = 4
    gpu: int | None = 0
    native: bool = True
    layout: str = "strided"
    requires_grad: bool = False
    negated: bool = False

    @property
    def dtype(self) -> Kind:
        return Kind(name=self.kind, isnative=self.native, str=f">f{self.width}")

    @property
    def itemsize(self) -> int:
        return self.width

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(int(d * self.width) for d in self.strides_elems)

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.at)

    @property
    def device(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.gpu, index=self.gpu)

    @property
    def is_cuda(self) -> bool:
        return self.gpu is not None

    def data_ptr(self) -> int:
        return self.at

    def dim(self) -> int:
        return len(self.shape)

    def element_size(self) -> int:
        return self.width

    def stride(self, mode: int | None = None) -> Any:
        return self.strides_elems if mode is None else self.strides_elems[mode]

    def is_neg(self) -> bool:
        return self.negated

    def is_complex(self) -> bool:
        return self.kind.startswith("complex")

    def is_conj(self) -> bool:
        return self.is_complex() and self.negated


def dense(at: int, *shape: int, kind: str = "float32", width: int = 4) -> Array:
    """A row-major array."""
    return Array(at, shape, compact_strides(shape), kind, width)


def operator_of(name: str, **named: Any) -> Any:
    """Define an operator as the function itself, which keeps its schema and its function of shapes."""

    def define(function: Any) -> Any:
        function.name, function.named = name, named
        function.register_fake = lambda made: setattr(function, "made", made)
        return function

    return define


def stand_in(library: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that a library's import finds, on one GPU and stream 7."""
    stub: Any = ModuleType(library)
    current = SimpleNamespace(cuda_stream=7, ptr=7)
    stub.cuda = SimpleNamespace(
        current_device=lambda: 0, current_stream=lambda: current, get_current_stream=lambda: current,
        Device=lambda: SimpleNamespace(id=0),
    )  # fmt: skip
    stub.Tensor = stub.ndarray = Array
    stub.uint8, stub.strided = "uint8", "strided"
    stub.is_grad_enabled = lambda: True
    stub.library = SimpleNamespace(custom_op=operator_of)
    stub.empty_strided = lambda shape, strides, dtype, device: Array(FAR, shape, strides, *dtype)
    for kind, width in (("float32", 4), ("float16", 2), ("bfloat16", 2), ("int64", 8)):
        setattr(stub, kind, (kind, width))
    empty = dense(SCRATCH, 1, kind="uint8", width=1)
    stub.empty = lambda *given, **named: empty
    monkeypatch.setitem(sys.modules, library, stub)
    return stub
