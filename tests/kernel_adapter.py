"""What the freeze and the bench of kernels ask of the library, as plain data: the one place that knows how.

    planned = plan({"family": "softmax", "shape": [64, 1000], "axes": [1], "dtype": "f16"})
    planned.choice           the configuration that was chosen, its fields
    planned.predicted        the predicted accesses: by kernel, instruction -> (instructions, total, ideal)
    planned.buffers          the arrays that its launches need
    for launch in planned.launches:
        compiled(launch)     name, grid, threads, shared memory, registers and machine code

A case is the name of a family and the keyword arguments of its problem, all of it JSON.  Whoever changes how
a family is asked changes this module; what it answers is compared with data that was written before.  It
imports the library alone, so that another revision's library can be asked by that revision's copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.gpu.preparation import dynamic_bytes
from layoutalg.codegen.program import Global, Kernel
from layoutalg.codegen.traffic import Prediction
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.chains import Chain, chain_of
from layoutalg.kernels.families import FAMILIES
from layoutalg.kernels.gemm.bench import GEMM_FAMILIES
from layoutalg.kernels.gemm.launches import Launches, covering, launches, predictions
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move.permute_predict import predict as predict_permute
from layoutalg.kernels.move.plan import best
from layoutalg.kernels.move.problem import normalise, permute_problem, relayout_problem
from layoutalg.kernels.rowwise.norm import plan as norm_plan
from layoutalg.kernels.rowwise.norm_modes import OPS, NormProblem, norm_problem
from layoutalg.kernels.rowwise.norm_predict import predict as predict_norm
from layoutalg.kernels.rowwise.reduce_plan import FOLD, ReduceProblem, plans, reduce_problem
from layoutalg.kernels.rowwise.reduce_predict import predict as predict_reduction
from layoutalg.layout import AnyLayout, Swizzle
from layoutalg.notation import parse

ARCH = "sm_90a"
"""The H100's and H200's machine code."""

ALPHA, BETA = 1.0, 2.0
"""Factors of products."""

UNIT_BYTES = 16
"""Buffers are whole units."""

RENAMED: Mapping[str, str] = {
    "rows_per_block": "kept", "threads_per_row": "sharing", "lanes_per_row": "fast", "groups_per_row": "slow",
    "rows_per_thread": "outs",
}  # fmt: skip
"""Fields of configurations that had other names when choices were stored."""

Case: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Buffer:
    """An array of a launch: its length, the type of its numbers ("": any bytes), whether it is written."""

    nbytes: int
    holds: str = ""
    written: bool = False


@dataclass(frozen=True)
class Launch:
    """A kernel, and its arguments in order: integers, or the names of buffers."""

    kernel: Kernel
    arguments: tuple[int | str, ...]


@dataclass(frozen=True)
class Planned:
    """How a case is computed; `predicted` is a sentence where the family refuses to predict."""

    choice: dict[str, Any]
    launches: tuple[Launch, ...]
    buffers: dict[str, Buffer]
    predicted: list[dict[str, list[int]]] | str


@dataclass(frozen=True)
class Compiled:
    """A launch as the driver takes it, and what the assembler said of its code; `shared_bytes` are static."""

    name: str
    grid: tuple[int, int, int]
    threads: int
    dynamic_bytes: int
    dependent: bool
    registers: int
    spill_bytes: int
    shared_bytes: int
    image: bytes


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
    return _tensor(family, problem(family, **asked))


def configured(family: str, asked: Case, **fields: Any) -> Any:
    """The kernels of the chosen configuration with other fields.  Raises what the library raises."""
    p = problem(family, **asked)
    if family in FAMILIES:
        chosen = FAMILIES[family].configs(p, ARCH)[0]
        return FAMILIES[family].build(p, replace(chosen, **fields))
    if family in GEMM_FAMILIES:
        return launches(p, replace(GEMM_FAMILIES[family].configs(p, ARCH)[0], **fields), ARCH).kernels
    return norm_plan(p, ARCH, replace(norm_plan(p, ARCH).config, **fields)).kernels


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


def _matrix(name: str, p: MatrixProblem) -> Planned:
    family = FAMILIES[name]
    config = family.configs(p, ARCH)[0]
    given: dict[str, int | str] = {
        "m": p.m, "n": p.n, "lds": p.lds, "ldd": p.ldd, "src": "src", "dst": "dst"
    }  # fmt: skip
    kernel = family.build(p, config)
    buffers = {
        "src": _buffer(p.source_elems * p.element_bytes),
        "dst": _buffer(p.target_elems * p.element_bytes, written=True),
    }
    launch = Launch(kernel, tuple(given[q.name] for q in kernel.params))
    return Planned(plain(config), (launch,), buffers, [_costs(family.predict(p, config))])


def _product(name: str, p: GemmProblem, step: str | None, splits: int | None) -> Planned:
    """The way that is chosen, or a step by name, or the best one with so many parts of k."""
    family = GEMM_FAMILIES[name]
    found = family.configs(p, ARCH) if step is None else (family.steps[step],)
    c = next(c for c in found if splits in (None, c.splits))
    wide = launches(covering(p, c), replace(c, splits=min(c.splits, 2)), ARCH)
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
    try:
        predicted: Any = [_costs(x) for x in predictions(p, c, ARCH)]
    except (ShapeError, UnsupportedError) as error:
        predicted = str(error)
    return Planned(plain(c), steps, _taken(buffers, steps), predicted)


def _tensor(name: str, p: Any) -> Planned:
    if name in FOLD:
        return _reduction(p)
    if name in OPS:
        return _norm(p)
    moves = normalise(p)
    config = best(moves, ARCH)
    buffers = {
        "src": _buffer(p.source_elems * p.element_bytes),
        "dst": _buffer(p.target_elems * p.element_bytes, written=True),
    }
    return _chained(chain_of(p, ARCH), plain(config), [predict_permute(moves, config, ARCH)], buffers)


def _reduction(p: ReduceProblem) -> Planned:
    chosen = plans(p, ARCH)[0]
    choice = {"passes": [plain(one.config) for one in chosen.passes]}
    buffers = {
        "src": _buffer(p.axes.source_elems * p.axes.dtype.nbytes, p.axes.dtype.name),
        "dst": _buffer(p.axes.target_elems * p.result.nbytes, written=True),
    }
    return _chained(chain_of(p, ARCH), choice, predict_reduction(chosen, ARCH), buffers)


def _norm(p: NormProblem) -> Planned:
    chosen, element = norm_plan(p, ARCH), p.dtype
    elems = {
        "src": p.axes.source_elems, "dst": p.axes.target_elems,
        "weight": p.axes.count + p.weight_offset, "bias": p.axes.count + p.bias_offset,
    }  # fmt: skip
    buffers = {
        name: _buffer(n * element.nbytes, element.name, written=name == "dst") for name, n in elems.items()
    }
    return _chained(chain_of(p, ARCH), plain(chosen.config), [predict_norm(chosen, ARCH)], buffers)


def _chained(
    chain: Chain, choice: Any, predicted: Iterable[Prediction], buffers: dict[str, Buffer]
) -> Planned:
    steps = tuple(Launch(*pair) for pair in zip(chain.kernels, chain.buffers, strict=True))
    buffers["partial"] = _buffer(chain.partial_bytes)
    return Planned(choice, steps, _taken(buffers, steps), [_costs(one) for one in predicted])


# --- plain data ----------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A configuration as JSON: records by field, layouts and swizzles as text."""
    if is_dataclass(value):
        return {RENAMED.get(f.name, f.name): plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(x) for x in value]
    return value if isinstance(value, bool | int | float) else str(value)


def _argument(value: Any) -> Any:
    return tuple(map(_argument, value)) if isinstance(value, list | tuple) else value


def _layout(text: str) -> AnyLayout:
    found = parse(text)
    if isinstance(found, Swizzle):
        raise UnsupportedError(f"{text} is a swizzle: a layout is needed")
    return found


def _costs(prediction: Prediction) -> dict[str, list[int]]:
    return {op: [c.instructions, c.total, c.ideal] for op, c in sorted(prediction.items())}


def _buffer(nbytes: int, holds: str = "", *, written: bool = False) -> Buffer:
    return Buffer(-(-nbytes // UNIT_BYTES) * UNIT_BYTES, holds, written)


def _taken(buffers: Mapping[str, Buffer], steps: Sequence[Launch]) -> dict[str, Buffer]:
    """The buffers that launches take."""
    names = {x for step in steps for x in step.arguments if isinstance(x, str)}
    return {name: one for name, one in buffers.items() if name in names}
