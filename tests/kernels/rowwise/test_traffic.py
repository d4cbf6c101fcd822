"""What kernels over rows move: whole sectors, tags of copies, bytes of memory, wide accesses without spills.

That accesses cost what is read off a program is held by test_agreement."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from layoutalg.codegen.costs import copied, traffic
from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.model import machine_of
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem, plans, reduce_problem
from layoutalg.kernels.rowwise.memory import norm_traffic as memory
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.programs.reduce import build
from layoutalg.kernels.rowwise.ways.norm_model import FOUND_SHARE
from layoutalg.model import tag_sectors
from tests.draws.sequences import family_of
from tests.judges.agreement import trial
from tests.sweeps import each


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (8192,), 0, "f16"), NormConfig(8, 1, 32, "global", 4, 2, 8)),
        (norm_problem("layer_norm", (1, 8, 1504), (0, 2), "f16"), NormConfig(8, 1, 32, "global", 4, 2, 8)),
        (norm_problem("layer_norm", (2560,), 0, "f16"), NormConfig(8, 1, 32, "global", 4, 1, 8)),
        (norm_problem("softmax", (300, 64), 0, "bf16"), NormConfig(8, 4, 16, "global", 2, 1, 4)),
    ],
    ids=str,
)
def test_a_ring_copies_every_vector_once_per_reading(p: NormProblem, c: NormConfig) -> None:
    """Forwards and backwards, the copies that its last turn starts are of no vector."""
    copies = [traffic(k, {})["cp.async.16:global"] for k in plan(p, config=c).kernels]
    read = sum(cost.total for cost in copies)
    assert read == sum(cost.ideal for cost in copies) == 2 * prod(p.axes.shape) * p.dtype.nbytes // 32


@each(
    ("shape", "axes"), [((8192, 8192), 1), ((8192, 8192), 0), ((64, 256, 56, 56), (0, 2, 3)), ((1 << 26,), 0)]
)
def test_dense_tensors_are_read_and_runs_moved_in_whole_sectors(shape: tuple[int, ...], axes: Any) -> None:
    first, *_ = build(plans(reduce_problem(shape, axes, "sum", "f16"))[0])
    p = norm_problem("layer_norm", (6400, 10), 1, "f32")
    (runs,) = plan(p, config=NormConfig(1, 64, 2, "registers", turns=4)).kernels
    for kernel, access, nbytes in (
        (first, "ld.global.b128", prod(shape) * 2),
        (runs, "cp.async.16:global", 256000),
        (runs, "st.global.b128", 256000),
    ):
        cost = traffic(kernel, {})[access]
        assert cost.total == cost.ideal == nbytes // 32 and cost.instructions == -(-nbytes // 512)


def test_tags_of_copies_are_those_that_were_counted_on_an_h200() -> None:
    """14477824 sectors for rows of 50257 halves, which start anywhere in a sector."""
    way = NormConfig(8, 1, 128, "shared", cluster=4)
    (kernel,) = plan(norm_problem("softmax", (4096, 50257), 1, "f16"), config=way).kernels
    assert copied(kernel, {}, 16, tag_sectors) == 14477824


@each(
    ("p", "c"),
    [
        (norm_problem("softmax", (6, 1001), 1, "f32"), NormConfig(4, 1, 64, "shared", 2)),
        (norm_problem("softmax", (3, 90, 72), 1, "f16"), NormConfig(8, 4, 16, "shared", 2, staged=2)),
        (norm_problem("layer_norm", (90, 100), 0, "f32"), NormConfig(4, 8, 16, "global", 2, 2, 4)),
        (norm_problem("softmax", (300, 64), 0, "bf16"), NormConfig(8, 4, 16, "global", 2, 3, 4)),
    ],
    sample=2,
)
def test_tags_of_copies_are_those_of_the_trace(p: Any, c: NormConfig) -> None:
    sequence, traced = family_of(p).launches(p, c, "sm_90"), 0
    for trace in (run.trace for run in simulate_sequence(sequence, trial(p, c, 1)[0])):
        sides = dict[int, dict[str, Any]]()
        for site in trace.sites:
            if site.op.startswith("cp.async.16"):
                sides.setdefault(site.statement, {})[site.space] = trace.instructions(site)
        for source, target in ((one["global"], one["shared"]) for one in sides.values()):
            traced += int(tag_sectors(source.addresses, target.addresses, source.active).sum())
    assert traced == sum(copied(kernel, {}, 16, tag_sectors) for kernel in sequence.kernels) > 0


def test_what_is_read_twice_comes_from_memory_twice_or_from_the_cache() -> None:
    once, twice = 8192 * 8192 * 4, NormConfig(4, 8, 64, "global", 8, 3)
    found = [
        memory(plan(norm_problem("softmax", (8192, 8192), 0, "f32"), config=twice)).read,
        memory(plan(norm_problem("softmax", (8192, 512), 0, "f32"), config=twice)).read,
        memory(plan(norm_problem("layer_norm", (8192, 8192), 1, "f32", weight=True))).read,
    ]
    assert found == [2 * once - int(FOUND_SHARE * machine_of("sm_90").l2_bytes), once // 16, once + 4 * 8192]
    together = NormConfig(4, 1, 512, "global", 2, 264, 12, resident=264)  # all but what rings keep
    read = memory(plan(norm_problem("softmax", (1, 8192 * 8192), 1, "f32"), config=together)).read
    assert read == 2 * once - 264 * 12 * 512 * 16


@pytest.mark.deep(but=("softmax-shape0-1-f32",))
@pytest.mark.parametrize(
    ("op", "shape", "axis", "dtype"),
    [
        ("softmax", (65536, 1024), 1, "f32"), ("softmax", (8192, 8192), 0, "bf16"),
        ("layer_norm", (8191, 8193), 1, "f16"), ("rms_norm", (8192, 8192), 1, "bf16"),
        ("rms_norm", (8191, 8193), 0, "f32"), ("rms_norm", (1, 1 << 24), 1, "f32"),
    ],
)  # fmt: skip
def test_the_code_has_wide_accesses_and_no_spills(
    op: str, shape: tuple[int, ...], axis: int, dtype: str
) -> None:
    """The last kernel of each, which writes."""
    *_, kernel = plan(norm_problem(op, shape, axis, dtype, weight=op != "softmax")).kernels
    cubin = compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a")
    (code,) = parse_sass(disassemble(cubin.image))
    opcodes = [i.opcode for i in code.instructions]
    assert cubin.spill_bytes == 0
    if (shape, axis) != ((8191, 8193), 0):  # of columns that start anywhere vectors are not whole
        assert "STG.E.128" in opcodes and any(o.startswith("LDG") and "128" in o for o in opcodes)
    assert any(o.startswith("MUFU.EX2") for o in opcodes) or op != "softmax"
