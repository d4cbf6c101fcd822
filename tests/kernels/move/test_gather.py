"""Joined reads: what the rule says is so in every vector of every block, and what is so it mostly says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.instr import LDS
from layoutalg.codegen.program import calls
from layoutalg.codegen.program.checks import check
from layoutalg.kernels.move.gather import Read, kinds, permutes, reads
from layoutalg.kernels.move.partition import Store, block_base, block_origins
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.layout import Swizzle
from tests.draws.permutations import random_problem
from tests.sweeps import each

MOST_ELEMS = 1500


def places(stage: Stage) -> Any:
    """The byte of element e of vector x of block b: an array (e, b and x)."""
    x, every = np.arange(stage.stores), []
    for block in range(stage.blocks):
        origins = block_origins(stage, block)
        vector = Store(stage, x, origins, block_base(stage, origins))
        every.append([np.broadcast_to(vector.place(e), x.shape) for e in range(stage.config.vec)])
    return np.concatenate(every, axis=1)


def widths(stage: Stage) -> list[int]:
    """Bytes that a load may have, the widest first."""
    narrow = 4 if stage.config.turned else stage.size
    swizzle = stage.config.swizzle
    most = 1 << swizzle.base if swizzle.bits else 16
    return [n for n in (16, 8, 4, 2, 1) if n == narrow or narrow < n <= most]


def joined(stage: Stage) -> tuple[Read, ...]:
    """The definition: elements whose places, in all vectors, fill an aligned window, the widest first."""
    rows = {at.tobytes(): at for at in places(stage)}
    waiting: dict[bytes, list[int]] = {}
    for e, at in enumerate(places(stage)):
        waiting.setdefault(at.tobytes(), []).append(e)
    *_, narrow = widths(stage)
    found: list[Read] = []
    for nbytes in widths(stage):
        for first in rows:
            window = [(rows[first] + n).tobytes() for n in range(0, nbytes, narrow)]
            if (rows[first] % nbytes == 0).all() and all(at in waiting for at in window):
                found.append(Read(nbytes, tuple(tuple(waiting.pop(at)) for at in window)))
    return tuple(sorted(found, key=lambda read: read.first))


def random_stage(seed: int) -> Stage | None:
    """A staged configuration of a random problem, with vectors of any width; None where there is none."""
    rng = random.Random(seed)
    x = normalise(random_problem(rng, MOST_ELEMS))
    staged = [c for c in configs(x) if c.way == "staged"]
    if not staged:
        return None
    c = rng.choice(staged)
    if rng.random() < 0.5 and not c.turned and Stage(x, c).dst_run:
        most = 16 // x.element_bytes
        c = replace(c, vec=rng.choice([n for n in (1, 2, 4, 8, 16) if n <= most]))
    return Stage(x, c)


def is_simple(stage: Stage) -> bool:
    """True where no digit is carried and every coordinate changes places by itself."""
    rows_start_alike = stage.lead == 0 or all(
        k not in stage.dst_rows and count == 1
        for k, count in enumerate(stage.counts)
        if k not in stage.dst_run
    )
    return len(set(kinds(stage)[1])) == 1 and rows_start_alike


@given(st.integers(0, 10**9))
def test_the_rule_holds_in_every_vector(seed: int) -> None:
    """It is the definition where coordinates change places by themselves."""
    stage = random_stage(seed)
    if stage is None:
        return
    at = places(stage)
    assert not is_simple(stage) or reads(stage) == joined(stage)
    for read in reads(stage):
        assert (at[read.first] % read.nbytes == 0).all()
        assert all((at[e] == at[read.first] + read.byte(e)).all() for e in read.elements)
        last = at[read.first] + read.nbytes - 1
        assert (stage.layout(last) == stage.layout(at[read.first]) + read.nbytes - 1).all()
    assert sorted(e for read in reads(stage) for e in read.elements) == list(range(stage.config.vec))


@each("seed", range(60), sample=3)
def test_the_program_proves_that_its_loads_are_aligned(seed: int) -> None:
    """Also those of threads that have no vector."""
    x = normalise(random_problem(random.Random(seed), MOST_ELEMS))
    for c in configs(x):
        check(build(x, c))


@each(
    ("shape", "tile", "dtype", "vec", "swizzle", "loads"),
    [
        ((2, 4096), (2, 512), "f32", 4, Swizzle(0, 4, 3), [(8, ((0,), (2,))), (8, ((1,), (3,)))]),
        ((2, 4096), (2, 512), "f32", 4, Swizzle(3, 2, 5), [(4, ((e,),)) for e in range(4)]),
    ],
)
def test_neighbours_need_not_be_consecutive(
    shape: Any, tile: Any, dtype: str, vec: int, swizzle: Swizzle, loads: list[tuple[int, Any]]
) -> None:
    """Nor are they joined where a swizzle may part them."""
    x = normalise(permute_problem(shape, (1, 0), dtype))
    found = reads(Stage(x, PermuteConfig("staged", tile, 64, 4, vec, swizzle=swizzle)))
    assert [(read.nbytes, read.slots) for read in found] == loads


@given(st.lists(st.integers(0, 15), min_size=1, max_size=4))
def test_a_word_is_its_bytes(sources: list[int]) -> None:
    """Of registers whose bytes are numbered."""
    registers = [sum(4 * r + i << 8 * i for i in range(4)) for r in range(4)]
    word, steps = registers[sources[0] // 4], permutes(sources)
    for register, selector in steps:
        both = word | registers[register] << 32
        word = sum((both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i for i in range(4))
    assert [word >> 8 * i & 255 for i in range(len(sources))] == sources
    first = sources[0] // 4 * 4
    assert len(steps) == max(
        len({b // 4 for b in sources}) - 1, sources != [*range(first, first + len(sources))]
    )


OPCODES = {"LDS.U8": 1, "LDS.U16": 2, "LDS": 4, "LDS.64": 8, "LDS.128": 16}
REGARDED = (
    ((2, 6, 7310161), (1, 2, 0), "f32", {8}),
    ((2, 6, 7310161), (1, 2, 0), "f16", {8, 4}),
    ((75, 8, 2, 32, 2004), (0, 3, 1, 4, 2), "u8", {4}),
    ((33554432, 2), (1, 0), "f16", {16}),
    ((2, 4, 7606010), (2, 1, 0), "u8", {2}),
    ((31, 63, 127, 255), (3, 1, 0, 2), "u8", {1}),
)


@pytest.mark.deep
@each(("shape", "axes", "dtype", "nbytes"), REGARDED, ids=str)
def test_the_machine_loads_what_the_program_says(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, nbytes: set[int]
) -> None:
    """The compiler joins nothing more, and splits nothing."""
    x = normalise(permute_problem(shape, axes, dtype))
    c = configs(x)[0]
    stage, kernel = Stage(x, c), build(x, c)
    said = Counter(read.nbytes for read in reads(stage))
    assert set(said) == nbytes
    printed = Counter(s.instr.name for s in calls(kernel.body))
    assert {n: printed[LDS[n].name] for n in said} == said
    (code,) = parse_sass(disassemble(compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a").image))
    loads = Counter(OPCODES[i.opcode] for i in code.instructions if i.opcode.startswith("LDS"))
    rounds = min(4, -(-stage.stores // (c.storing or c.threads)))
    assert loads == {n: count * rounds for n, count in said.items()}
