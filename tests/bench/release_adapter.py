"""Release 0.1.0 asked for kernels: what kernel_adapter answers of this tree, of one that has none.

It imports that release's library alone: see kernel_images, which starts it with that tree first on the path.
"""
# mypy: ignore-errors
# (that release's library is not the one that is checked)

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from layoutalg.codegen.arguments import launch_grid
from layoutalg.codegen.prepare import dynamic_bytes, prepare
from layoutalg.codegen.tile import Global
from layoutalg.kernels.chains import chain_of
from layoutalg.kernels.families import FAMILIES
from layoutalg.kernels.gemm_bench import GEMM_FAMILIES
from layoutalg.kernels.gemm_launches import Launches, covering, launches
from layoutalg.kernels.norm_modes import OPS, norm_problem
from layoutalg.kernels.permute_modes import permute_problem
from layoutalg.kernels.reduce_plan import FOLD, reduce_problem
from layoutalg.kernels.refinement import relayout_problem

from layoutalg import ComposedLayout, Layout, Swizzle, parse
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.matrix import MatrixProblem

ARCH = "sm_90a"
"""The H100's and H200's machine code."""

ALPHA, BETA = 1.0, 2.0
"""Factors of products."""

UNIT_BYTES = 16
"""Buffers are whole units."""

Case: TypeAlias = Mapping[str, Any]


Buffer = namedtuple("Buffer", "nbytes holds written", defaults=("", False))
"""An array of a launch: its length, the type of its numbers ("": any bytes), whether it is written."""

Launch = namedtuple("Launch", "kernel arguments")
"""A kernel, and its arguments in order: integers, or the names of buffers."""

Planned = namedtuple("Planned", "launches buffers")
"""How a case is computed."""

Compiled = namedtuple(
    "Compiled", "name grid threads dynamic_bytes dependent registers spill_bytes shared_bytes image"
)
"""A launch as the driver takes it, and what the assembler said of its code; `shared_bytes` are static."""


def problem(family: str, **asked: Any) -> Any:
    """The checked problem of a family.  Raises what the library raises."""
    if family in FAMILIES:
        return FAMILIES[family].problem(**asked)
    if family in GEMM_FAMILIES:
        return gemm_problem(**asked)
    if family in FOLD:
        return reduce_problem(op=family, **asked)
    if family in OPS:
        return norm_problem(family, **asked)
    if family == "relayout":
        return relayout_problem(_layout(asked["src"]), _layout(asked["dst"]), asked["dtype"])
    return permute_problem(**asked)


def plan(case: Case) -> Planned:
    """How a case is computed on an H200.  Raises what the library raises."""
    family, asked = case["family"], {k: _argument(v) for k, v in case.items() if k != "family"}
    if family in FAMILIES:
        return _matrix(family, problem(family, **asked))
    if family in GEMM_FAMILIES:
        step, splits = asked.pop("step", None), asked.pop("splits", None)
        return _product(family, problem(family, **asked), step, splits)
    return _tensor(family, problem(family, **asked), asked)


def compiled(launch: Launch) -> Compiled:
    """The machine code of a launch, from the cache where it is there."""
    kernel = launch.kernel
    scalars = {
        p.name: value
        for p, value in zip(kernel.params, launch.arguments, strict=True)
        if not isinstance(p, Global) and isinstance(value, int)
    }
    ready = prepare(kernel, ARCH)
    return Compiled(
        kernel.name, launch_grid(kernel, scalars), kernel.threads, dynamic_bytes(kernel), kernel.dependent,
        ready.cubin.registers, ready.cubin.spill_bytes, ready.cubin.shared_bytes, ready.cubin.image,
    )  # fmt: skip


# --- families ------------------------------------------------------------------------------------------


def _moved(p: Any) -> dict[str, Buffer]:
    """The buffers of moves: any bytes."""
    elems = (("src", p.source_elems), ("dst", p.target_elems))
    return {name: _buffer(n * p.element_bytes, written=name == "dst") for name, n in elems}


def _matrix(name: str, p: MatrixProblem) -> Planned:
    family = FAMILIES[name]
    kernel = family.build(p, family.configs(p, ARCH)[0])
    given = {"m": p.m, "n": p.n, "lds": p.lds, "ldd": p.ldd, "src": "src", "dst": "dst"}
    return Planned((Launch(kernel, tuple(given[q.name] for q in kernel.params)),), _moved(p))


def _product(name: str, p: GemmProblem, step: str | None, splits: int | None) -> Planned:
    """The way that is chosen, or a step by name, or the best one with so many parts of k."""
    family = GEMM_FAMILIES[name]
    found = family.configs(p, ARCH) if step is None else (family.steps[step],)
    c = next(c for c in found if splits in (None, c.splits))
    wide = launches(covering(p, c), replace(c, splits=min(c.splits, 2)))
    one = Launches(p, c.splits, wide.kernels)
    element, to = p.operand.name, p.result.name
    buffers = {
        "a": _buffer(p.a_elems * p.operand.nbytes, element),
        "b": _buffer(p.b_elems * p.operand.nbytes, element),
        "c": _buffer(((p.m - 1) * p.ldc + p.n) * p.result.nbytes, to),
        "bias": _buffer(p.n * p.result.nbytes, to),
        "d": _buffer(((p.m - 1) * p.ldd + p.n) * p.result.nbytes, to, written=True),
        "sums": _buffer(one.workspace_elems * 8),
    }
    given = {x: x for x in buffers} | scalar_words(p, "alpha", ALPHA) | scalar_words(p, "beta", BETA)
    steps = tuple(
        Launch(kernel, tuple(args[q.name] for q in kernel.params))
        for kernel, args in zip(one.kernels, one.arguments(given, "sums"), strict=True)
    )
    return Planned(steps, _taken(buffers, steps))


def _tensor(name: str, p: Any, asked: Mapping[str, Any]) -> Planned:
    """The chain of a reduction, a norm or a move."""
    if name not in (*FOLD, *OPS):
        buffers = _moved(p)
    elif name in FOLD:
        source = _buffer(p.axes.source_elems * p.axes.dtype.nbytes, p.axes.dtype.name)
        buffers = {"src": source, "dst": _buffer(p.axes.target_elems * p.result.nbytes, written=True)}
    else:
        elems = {"src": p.axes.source_elems, "dst": p.axes.target_elems}
        elems |= {x: p.axes.count + asked.get(f"{x}_offset", 0) for x in ("weight", "bias")}
        sizes = {x: n * p.dtype.nbytes for x, n in elems.items()}
        buffers = {x: _buffer(n, p.dtype.name, written=x == "dst") for x, n in sizes.items()}
    chain = chain_of(p, ARCH)
    steps = tuple(Launch(*pair) for pair in zip(chain.kernels, chain.buffers, strict=True))
    buffers["partial"] = _buffer(chain.partial_bytes)
    return Planned(steps, _taken(buffers, steps))


# --- plain data ----------------------------------------------------------------------------------------


def _argument(value: Any) -> Any:
    return tuple(map(_argument, value)) if isinstance(value, list | tuple) else value


def _layout(text: str) -> Layout | ComposedLayout:
    found = parse(text)
    if isinstance(found, Swizzle):
        raise UnsupportedError(f"{text} is a swizzle: a layout is needed")
    return found


def _buffer(nbytes: int, holds: str = "", *, written: bool = False) -> Buffer:
    return Buffer(-(-nbytes // UNIT_BYTES) * UNIT_BYTES, holds, written)


def _taken(buffers: Mapping[str, Buffer], steps: Sequence[Launch]) -> dict[str, Buffer]:
    """The buffers that launches take."""
    names = {x for step in steps for x in step.arguments if isinstance(x, str)}
    return {name: one for name, one in buffers.items() if name in names}
