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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

from layoutalg.codegen.costs import Prediction, total_costs
from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.program import Global, Kernel, dynamic_bytes
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import FAMILIES, Family
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move.problem import PermuteProblem, relayout_problem
from layoutalg.kernels.registry import find_steps
from layoutalg.kernels.rowwise import NormProblem, ReduceProblem, plan_with
from layoutalg.layout import AnyLayout, Swizzle
from layoutalg.notation import parse_cute as parse

ARCH = "sm_90a"
"""The H100's and H200's machine code."""

ALPHA, BETA = 1.0, 2.0
"""Factors of products."""

UNIT_BYTES = 16
"""Buffers are whole units."""

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
    if family == "relayout":
        return relayout_problem(_layout(asked["src"]), _layout(asked["dst"]), asked["dtype"])
    if family.startswith("gemm-"):
        return gemm_problem(**asked)
    return FAMILIES[family].problem(**asked)


def chosen(case: Case) -> tuple[Family, Any, Any]:
    """The family of a case, its problem, and the configuration in which it is computed on an H200: that which
    is chosen, a step by name, or the best one with so many parts of k.  Raises what the library raises."""
    name, asked = case["family"], {k: _argument(v) for k, v in case.items() if k != "family"}
    step, splits = asked.pop("step", None), asked.pop("splits", None)
    family, p = _family(name), problem(name, **asked)
    if step is not None:
        return family, p, find_steps(name)[step]
    return family, p, family.choose(p, ARCH, lambda c: splits in (None, getattr(c, "splits", None)))


def plan(case: Case) -> Planned:
    """The launches of a case, its buffers and its predictions.  Raises what the library raises."""
    family, p, config = chosen(case)
    sequence = family.launches(p, config, ARCH)
    buffers = _buffers(p) | {"scratch": _buffer(sequence.scratch_bytes)}
    given: dict[str, Any] = {x: x for x in buffers}
    if isinstance(p, GemmProblem):
        given |= scalar_words(p, "alpha", ALPHA) | scalar_words(p, "beta", BETA)
    steps = tuple(
        Launch(kernel, tuple(args[q.name] for q in kernel.params))
        for kernel, args in zip(sequence.kernels, sequence.arguments(given), strict=True)
    )
    return Planned(_choice(p, config), steps, _taken(buffers, steps), _predicted(family, p, config))


def configured(family: str, asked: Case, **changed: Any) -> Any:
    """The kernels of the chosen configuration with other fields.  Raises what the library raises."""
    p, found = problem(family, **asked), _family(family)
    return found.launches(p, replace(found.choose(p, ARCH), **changed), ARCH).kernels


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


def _family(name: str) -> Family:
    return FAMILIES["permute" if name == "relayout" else name]


def _choice(p: Any, config: Any) -> dict[str, Any]:
    if isinstance(p, ReduceProblem):
        return {"passes": [plain(one.config) for one in plan_with(p, config, ARCH).passes]}
    found: dict[str, Any] = plain(config)
    return found


def _predicted(family: Family, p: Any, config: Any) -> Any:
    """By launch, as they were stored; of norms, all launches together."""
    found = family.costs(p, config, ARCH)
    return [_costs(x) for x in ((total_costs(found),) if isinstance(p, NormProblem) else found)]


def _buffers(p: Any) -> dict[str, Buffer]:
    """The arrays of a problem, those that it may do without too."""
    if isinstance(p, GemmProblem):
        element, to = p.operand.name, p.result.name
        return {
            "a": _buffer(p.a_elems * p.operand.nbytes, element),
            "b": _buffer(p.b_elems * p.operand.nbytes, element),
            "c": _buffer(((p.m - 1) * p.ldc + p.n) * p.result.nbytes, to),
            "bias": _buffer(p.n * p.result.nbytes, to),
            "d": _buffer(((p.m - 1) * p.ldd + p.n) * p.result.nbytes, to, written=True),
        }
    if isinstance(p, MatrixProblem | PermuteProblem):
        return {
            "src": _buffer(p.source_elems * p.element_bytes),
            "dst": _buffer(p.target_elems * getattr(p, "result_bytes", p.element_bytes), written=True),
        }
    x, element, more = p.axes, p.axes.dtype, dict[str, int]()
    width = (p.result if isinstance(p, ReduceProblem) else element).nbytes
    if isinstance(p, NormProblem):
        more = {"weight": x.count + p.weight_offset, "bias": x.count + p.bias_offset}
        more |= dict.fromkeys(p.read, x.source_elems)
    sources = {"src": x.source_elems, **more}
    found = {name: _buffer(n * element.nbytes, element.name) for name, n in sources.items()}
    holds = element.name if isinstance(p, NormProblem) else ""
    return found | {"dst": _buffer(x.target_elems * width, holds, written=True)}


# --- plain data ----------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A configuration as JSON: records by field, layouts and swizzles as text."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
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
