"""Rules of clusters, mbarriers, roles and TMA, drawn on both sides of their ends, by the sentence of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from layoutalg.arch import SWIZZLE_MODES, find_arch
from layoutalg.codegen import instr
from layoutalg.codegen import instr as isa
from layoutalg.codegen.expr import Const, Var
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import (
    Do,
    Global,
    Kernel,
    Mbarrier,
    MemRef,
    Role,
    Roles,
    Shared,
    TensorMapParam,
)
from layoutalg.codegen.program.asynchronous import check_asynchronous
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, IRError, LayoutAlgError, ResourceError
from layoutalg.layout import Layout
from tests.sweeps import each

Sentence = tuple[bool, type[LayoutAlgError], str]
"""Whether a rule is broken, its error and what that says; the first one that is broken is named."""

Drawn = tuple[Kernel, list[Sentence]]


def empty(threads: int = 128) -> Kernel:
    return KernelBuilder("k", threads).build()


def clusters(rng: Random) -> Drawn:
    n = Var("n", 1000, "param", 1, multiple=rng.choice((2, 4, 6)))
    x, y, z = (rng.choice((1, 1, 2, 4, 16, 3, 0)) for _ in "xyz")
    i, j, k = (rng.choice((n, Const(1), Const(16), Const(6))) for _ in "xyz")
    steps = [g.multiple if isinstance(g, Var) else g.value for g in (i, j, k)]
    split = any(step % side for step, side in zip(steps, (x, y, z), strict=True) if side)
    return replace(empty(), cluster=(x, y, z), grid=(i, j, k)), [
        (min(x, y, z) < 1 or x * y * z > 16, ResourceError, "blocks of a cluster of k"),
        (split, IRError, "may not divide"),
    ]


def mbarriers(rng: Random) -> Drawn:
    count, offset = rng.choice((0, 1, 128, (1 << 20) - 1, 1 << 20)), rng.choice((0, 56, 60, 64, 72, 80))
    stage, stages, given = rng.choice((0, 1)), rng.choice((1, 2)), rng.choice((count, count, 3))
    by_nobody, foreign = rng.random() < 0.1, rng.random() < 0.1
    bar, other = Mbarrier("bar", count, stages, offset), Mbarrier("other", 1, 1, 88)
    used = Mbarrier("foreign", 1, 1, 96) if foreign else bar
    body = [Do(instr.MBARRIER_INIT, (other[0], 1)), Do(instr.TRY_WAIT, (used[stage], Const(0)))]
    body[1:1] = [] if by_nobody else [Do(instr.MBARRIER_INIT, (bar[0], given))]
    tile = Shared("tile", 1, Layout(64), 64, 16, 0)
    return replace(empty(), shared=(tile,), barriers=(bar, other), body=tuple(body)), [
        (not 1 <= count < 1 << 20, ResourceError, "arrivals of bar"),
        (offset % 8 > 0, AlignmentError, "bar starts at byte"),
        (by_nobody, IRError, "bar is initialised by nobody"),
        (offset < 64, IRError, "tile lies over the mbarriers bar"),
        (offset + 8 * stages > 88, IRError, "other lies over the mbarriers bar"),
        (given != count and not by_nobody, IRError, f"declared for {count} arrivals"),
        (foreign, IRError, "is not an mbarrier of k"),
        (stage >= stages, IRError, f"reaches stage {stage}; bar has {stages}"),
    ]


def roles(rng: Random) -> Drawn:
    first, warps = rng.choice((0, 0, 1, 4, -1)), rng.choice((1, 2, 4, 4, 0))
    second, more = rng.choice((2, 4, 4, 6)), rng.choice((1, 2, 4, 5))
    does, name = rng.choice((None, None, isa.BAR, isa.WGMMA_FENCE, "roles")), rng.choice("bbba")
    inner = (Roles(()),) if does == "roles" else (Do(does, ()),) if isinstance(does, isa.Instr) else ()
    parts = Role("a", first, warps, inner), Role(name, second, more, ())
    both = set(range(first, first + warps)) & set(range(second, second + more))
    ungrouped = does is isa.WGMMA_FENCE and (first % 4 > 0 or warps % 4 > 0)
    return replace(empty(256), body=(Roles(parts),)), [
        (name == "a", IRError, "two roles of k have one name"),
        (warps < 1 or first < 0 or first + warps > 8, IRError, "role a: .*: k has warps 0 to 7"),
        (does is isa.BAR, IRError, f"named barrier of its {32 * warps} threads"),
        (does == "roles", IRError, "roles inside of the role a"),
        (ungrouped, IRError, "is of whole warpgroups"),
        (second + more > 8, IRError, "role b: .*: k has warps 0 to 7"),
        (bool(both), IRError, f"warp {min(both, default=0)} is of the roles a and b"),
    ]


def named_barriers(rng: Random) -> Drawn:
    number, threads = rng.choice((0, 1, 15, 16)), rng.choice((0, 16, 32, 128, 160))
    call = Do(rng.choice((instr.NAMED_BARRIER, instr.NAMED_ARRIVE)), (number, threads))
    return replace(empty(), body=(call,)), [
        (not 1 <= number <= 15, IRError, "barriers 1 to 15"),
        (threads % 32 > 0 or not 32 <= threads <= 128, IRError, "whole warps, at most the 128"),
    ]


def registers(rng: Random) -> Drawn:
    """Warps of no role keep their share."""
    threads, rest = rng.choice((256, 384, 512)), rng.choice((0, 128))
    share, consumers = 65536 // threads // 8 * 8, threads - 128 - min(rest, threads - 256)
    counts = rng.choice((16, 24, 40, 36, share)), rng.choice((share, share + 8, 232, 240, 256, 264))
    ways = rng.choice(
        [(instr.SETMAXNREG_DEC, instr.SETMAXNREG_INC)] * 9 + [(instr.SETMAXNREG_INC, instr.SETMAXNREG_DEC)]
    )
    calls = [Do(way, (count,)) for way, count in zip(ways, counts, strict=True)]
    parts = Role("producer", 0, 4, (calls[0],)), Role("consumer", 4, consumers // 32, (calls[1],))
    total = 128 * counts[0] + consumers * counts[1] + (threads - 128 - consumers) * share
    sentences: list[Sentence] = []
    for way, count in zip(ways, counts, strict=True):
        wrong = (way is instr.SETMAXNREG_INC) != (count > share) and count != share
        sentences.append((count % 8 > 0 or not 24 <= count <= 256, IRError, "24 to 256 registers"))
        sentences.append((wrong, IRError, f"a thread starts with {share} registers"))
    sentences.append((total > share * threads, ResourceError, "registers of the roles of k"))
    return replace(empty(threads), body=(Roles(parts),)), sentences


def boxes(rng: Random) -> Drawn:
    rank, mode = rng.choice((1, 2, 2, 2, 3)), SWIZZLE_MODES[rng.choice(("none", "32B", "128B"))]
    align, offset = rng.choice((64, 128, 1024, 1024)), rng.choice((0, 128, 1024))
    index, nbytes, width = (
        rng.choice((0, 0, 0, 64, 128, 256)),
        rng.choice((512, 1024, 2048, 4096)),
        rng.choice((1, 2, 4)),
    )
    writable, stores = rng.random() < 0.8, rng.random() < 0.5
    elsewhere, unknown, foreign = (rng.random() < 0.1 for _ in range(3))
    n = Var("n", 1024, "param", 16, rng.choice((16, 8)))
    x, bar = Global("x", 2, (n, Const(1)), writable), Mbarrier("bar", 1, 1, 8192)
    m = TensorMapParam("m", x, (n, Const(64)), (n * width,), (16, 32), dtype("f16"), mode, order=(1, 0))
    tile = Shared("tile", 1, Layout(nbytes), nbytes, align, offset)
    place, crd = MemRef(x if elsewhere else tile, Const(index)), (Const(0),) * rank
    load, store = (
        Do(instr.TMA_LOAD[rank], (place, m, bar[0], *crd)),
        Do(instr.TMA_STORE[rank], (m, place, *crd)),
    )
    kernel = replace(
        empty(), params=() if unknown else (n, x), maps=() if foreign else (m,), shared=(tile,),
        barriers=(bar,), body=(Do(instr.MBARRIER_INIT, (bar[0], 1)), store if stores else load),
    )  # fmt: skip
    spanned = mode.swizzle.bits > 0
    period, box_bytes = max(128, mode.period_bytes * spanned), 32 * max(32, mode.row_bytes * spanned)
    return kernel, [
        (unknown and not foreign, IRError, "x is not a pointer of k"),
        (not foreign and n.multiple * width % 16 > 0, AlignmentError, "the stride of dimension 1 of x"),
        (foreign, IRError, "m is no tensor map of k"),
        (rank != 2, IRError, f"has {rank} coordinates; m has 2 dimensions"),
        (stores and not writable, IRError, "x is read only"),
        (elsewhere, IRError, "x is in global memory"),
        ((offset + index) % period > 0 or align % period > 0, AlignmentError, f"multiple of {period}"),
        (box_bytes > nbytes, IRError, f"takes {box_bytes} bytes, tile has {nbytes}"),
    ]


@each("rules", [clusters, mbarriers, roles, named_barriers, registers, boxes])
def test_a_kernel_is_refused_by_the_first_rule_that_it_breaks(rules: Callable[[Random], Drawn]) -> None:
    named = set()
    for seed in range(120):
        kernel, sentences = rules(Random(seed))
        error, said = next(((error, said) for broken, error, said in sentences if broken), (None, ""))
        named.add(said)
        if error:
            with pytest.raises(error, match=said):
                check_asynchronous(kernel, find_arch("sm_90"))
        else:
            check_asynchronous(kernel, find_arch("sm_90"))
    assert "" in named and len(named) > len(sentences) // 2
