"""softmax and layer norm: dst = f(src, statistics over some modes), any strides, f32, f16 or bf16.

The idea.  The plan (norm_plan) decides, the walk (norm_walk) says where everything lies, the body
(norm_program) has the parts, and this module puts them together:

    held, in registers or shared memory       maximum; sum of exponentials; result: read once, written once
    read twice, from L2 if that is enough     online: maximum and sum together; result
    split among blocks                        a first kernel writes the online statistics of each part, the
                                              second joins all parts, in order, and writes the result

Layer norm has the mean for the maximum, and squares of differences for exponentials.

How it is used:

    problem = norm_problem("softmax", shape, axes, dtype, src, dst, src_offset, dst_offset,
                           eps=1e-5, weight=False, bias=False, in_place=False)
    launches = plan(problem, "sm_90")         raises ShapeError for a tensor without elements: a no-op
    launches.workspace_elems                  floats of a scratch buffer `partial`; 0: none is needed
    for kernel in launches.kernels:           one or two, launched in this order on one stream
        load(kernel)(**arguments(kernel, src=..., dst=..., weight=..., bias=..., partial=...))

`arguments` picks those that a kernel has; in place there is no `src`.  Pointers are multiples of 16 bytes: a
tensor that starts elsewhere has an offset (elements from such a place on).  Where rows do not start at
vectors, whole 16-byte units are read: those that hold an element.  Weight and bias are contiguous.

Notes.  Statistics are floats, whatever the elements.  Rows with +infinity or NaN, and rows of -infinity only,
become NaN, as by definition.  Sums are made in a fixed order: equal launches give equal bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from layoutalg.arch import Arch
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise.norm_exchange import parts, save
from layoutalg.kernels.rowwise.norm_modes import NormModes, NormProblem, shortest
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.norm_program import Body, Vector
from layoutalg.kernels.rowwise.norm_recipes import RECIPES
from layoutalg.kernels.rowwise.norm_walk import NormConfig, Walk

Part: TypeAlias = Literal["whole", "statistics", "result"]
"""What a kernel does: all of it, or one of the two halves of a split."""


@dataclass(frozen=True, slots=True)
class NormLaunches:
    """What computes a problem: kernels in order, and the floats of scratch memory between them."""

    problem: NormProblem
    config: NormConfig
    kernels: tuple[Kernel, ...]
    workspace_elems: int


def plan(problem: NormProblem, arch: str | Arch = "sm_90", config: NormConfig | None = None) -> NormLaunches:
    """The launches of a problem, by the best configuration or a given one.

    Raises ShapeError for a tensor without elements, UnsupportedError for a split whose parts are held.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem
    >>> [k.name for k in plan(norm_problem("softmax", (8, 1000), 1, "f16")).kernels]
    ['softmax_f16']
    """
    x = shortest(problem)
    c = configs(x, arch)[0] if config is None else config
    if c.splits == 1:
        return NormLaunches(problem, c, (build(x, c),), 0)
    if c.hold != "global":
        raise UnsupportedError(f"{problem} split in {c.splits} by {c.hold}: parts are read twice, by global")
    kernels = build(x, c, "statistics"), build(x, c, "result")
    return NormLaunches(problem, c, kernels, c.splits * sum(Walk(x, c).told))


def arguments(kernel: Kernel, **given: Any) -> dict[str, Any]:
    """Those of the given arguments that a kernel has.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem
    >>> (kernel,) = plan(norm_problem("softmax", (8, 1000), 1, "f16")).kernels
    >>> arguments(kernel, src=1, dst=2, weight=None)
    {'src': 1, 'dst': 2}
    """
    return {p.name: given[p.name] for p in kernel.params if p.name in given}


def build(x: NormModes, c: NormConfig, part: Part = "whole") -> Kernel:
    """The tile program of a configuration, or of one half of a split.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem
    >>> x = shortest(norm_problem("layer_norm", (8, 1024), 1, "f32"))
    >>> build(x, NormConfig(4, 1, 128, "registers")).name
    'layer_norm_f32'
    """
    name = f"{x.problem.op}_{x.problem.dtype}" + ("" if part == "whole" else f"_{part}")
    body = Body(name, x, c, _notes(Walk(x, c), part), writes=part != "statistics", backwards=part == "result")
    recipe = RECIPES[x.problem.op]
    if part == "whole" and c.hold != "global":
        body.hold()
        recipe.held(body)
    else:
        body.hold()
        recipe.start(body)
        body.only_owned = part == "result"
        body.ahead(backwards=part == "result")
        if part == "result":
            planes = zip(recipe.told, body.walk.words, strict=True)
            for _ in parts(body, *(body.reg(name, n) for name, n in planes)):
                recipe.join(body)
        else:
            recipe.online(body)
        if part == "whole":
            body.only_owned = True
            body.ahead(backwards=True)
        recipe.meet(body)
    if part == "statistics":
        save(body, *recipe.tell(body))
        return body.k.build()
    recipe.ready(body)

    def result(v: Vector) -> None:
        f = body.floats(v)
        recipe.apply(body, f, v)
        body.store(f, v)

    body.each(result, backwards=c.hold == "global")
    return body.k.build()


def _notes(w: Walk, part: Part) -> list[str]:
    c, p = w.config, w.modes.problem
    held = {
        "registers": "held in registers",
        "shared": "held in shared memory" + (f", {c.staged} of them, or in registers" if c.staged else ""),
        "global": f"read twice, {c.depth} vectors of a thread at a time"
        + (f", {c.staged} on their way to shared memory" if c.staged else ""),
    }[c.hold]  # fmt: skip
    lines = [
        "",
        f"{p.op} of {w.modes}, {p.dtype}: {_formula(p)}.",
        f"{c.threads_per_row} threads share the statistics of a {'row' if w.rows else 'column'}, "
        f"{c.rows_per_block} groups of them per block; vectors of {c.vec} elements, "
        f"{w.rounds} per thread, {held}.",
    ]
    if c.splits > 1:
        half = "its statistics are written" if part == "statistics" else "the statistics of all are joined"
        lines.append(f"{c.splits} blocks have a part of a statistic each; {half}.")
    return lines


def _formula(p: NormProblem) -> str:
    """What becomes of an element x."""
    if p.op == "softmax":
        return "e^(x - max) / sum e^(x - max)"
    extra = f"{' * weight' if p.weight else ''}{' + bias' if p.bias else ''}"
    return f"(x - mean) / sqrt(variance + {p.eps}){extra}"
