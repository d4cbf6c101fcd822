"""Rules of clusters, mbarriers, roles and TMA: drawn on both sides of their ends, each judged by its sentence."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from layoutalg.arch import SWIZZLE_MODES, find_arch
from layoutalg.codegen import instr as isa
from layoutalg.codegen.expr import Const, Var
from layoutalg.codegen.instr import sm90
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

SM_90 = find_arch("sm_90")
Sentence = tuple[bool, type[LayoutAlgError], str]
"""Whether a rule is broken, its error and what that says."""


def judge(kernel: Kernel, sentences: Sequence[Sentence]) -> bool:
    """The first broken rule is the one that the check names; without any it says nothing."""
    broken = next(((error, said) for is_broken, error, said in sentences if is_broken), None)
    if broken is None:
        check_asynchronous(kernel, SM_90)
        return True
    with pytest.raises(broken[0], match=broken[1]):
        check_asynchronous(kernel, SM_90)
    return False


def draws(count: int = 150) -> Iterator[random.Random]:
    """Sources of numbers."""
    yield from map(random.Random, range(count))


def empty(threads: int = 128) -> Kernel:
    return KernelBuilder("k", threads).build()


def test_a_cluster_is_at_most_16_blocks_and_divides_the_grid() -> None:
    legal = 0
    for rng in draws():
        cluster = tuple(rng.choice((1, 1, 2, 4, 16, 3, 0)) for _ in "xyz")
        n = Var("n", 1000, "param", 1, multiple=rng.choice((2, 4, 6)))
        grid = tuple(rng.choice((n, Const(1), Const(16), Const(6))) for _ in "xyz")
        steps = [g.multiple if isinstance(g, Var) else g.value for g in grid]
        size = cluster[0] * cluster[1] * cluster[2]
        sentences = [
            (min(cluster) < 1 or size > 16, ResourceError, "blocks of a cluster of k"),
            (any(step % side for step, side in zip(steps, cluster, strict=True) if side), IRError, "may not divide"),
        ]  # fmt: skip
        legal += judge(replace(empty(), cluster=cluster, grid=grid), sentences)
    assert 10 < legal < 140


def test_an_mbarrier_has_its_own_bytes_and_somebody_who_initialises_it() -> None:
    legal = 0
    for rng in draws():
        count, offset, stages = (
            rng.choice((0, 1, 128, (1 << 20) - 1, 1 << 20)),
            rng.choice((0, 56, 60, 64, 72, 80)),
            rng.choice((1, 2)),
        )
        bar, other = Mbarrier("bar", count, stages, offset), Mbarrier("other", 1, 1, 88)
        stage, given, by_nobody = rng.choice((0, 1)), rng.choice((count, count, 3)), rng.random() < 0.1
        body = [Do(sm90.MBARRIER_INIT, (other[0], 1))]
        body += [] if by_nobody else [Do(sm90.MBARRIER_INIT, (bar[0], given))]
        foreign = rng.random() < 0.1
        used = Mbarrier("foreign", 1, 1, 96) if foreign else bar
        body.append(Do(sm90.TRY_WAIT, (used[stage], Const(0))))
        tile = Shared("tile", 1, Layout(64), 64, 16, 0)
        kernel = replace(empty(), shared=(tile,), barriers=(bar, other), body=tuple(body))
        sentences = [
            (not 1 <= count < 1 << 20, ResourceError, "arrivals of bar"),
            (offset % 8 > 0, AlignmentError, "bar starts at byte"),
            (by_nobody, IRError, "bar is initialised by nobody"),
            (offset < 64, IRError, "tile lies over the mbarriers bar"),
            (offset + 8 * stages > 88, IRError, "other lies over the mbarriers bar"),
            (given != count and not by_nobody, IRError, f"declared for {count} arrivals"),
            (foreign, IRError, "is not an mbarrier of k"),
            (stage >= stages, IRError, f"reaches stage {stage}; bar has {stages}"),
        ]
        legal += judge(kernel, sentences)
    assert 10 < legal < 140


def test_roles_are_warps_of_their_own() -> None:
    inner = {
        "": (), "barrier": (Do(isa.BAR, ()),), "roles": (Roles(()),), "group": (Do(isa.WGMMA_FENCE, ()),),
    }  # fmt: skip
    legal = 0
    for rng in draws():
        spans = [
            (rng.choice((0, 0, 1, 4, -1)), rng.choice((1, 2, 4, 4, 0))),
            (rng.choice((2, 4, 4, 6)), rng.choice((1, 2, 4, 5))),
        ]
        does = rng.choice(("", "", *inner))
        names = ("a", rng.choice(("b", "b", "b", "a")))
        a, b = (
            Role(name, *span, inner[does] if name == "a" else ())
            for name, span in zip(names, spans, strict=True)
        )
        (first, warps), (second, more) = spans
        outside = (warps < 1 or first < 0 or first + warps > 8, second + more > 8)
        both = set(range(first, first + warps)) & set(range(second, second + more))
        sentences = [
            (names[0] == names[1], IRError, "two roles of k have one name"),
            (outside[0], IRError, "role a: .*: k has warps 0 to 7"),
            (does == "barrier", IRError, f"named barrier of its {32 * warps} threads"),
            (does == "roles", IRError, "roles inside of the role a"),
            (does == "group" and (first % 4 > 0 or warps % 4 > 0), IRError, "is of whole warpgroups"),
            (outside[1], IRError, "role b: .*: k has warps 0 to 7"),
            (bool(both), IRError, f"warp {min(both, default=0)} is of the roles a and b"),
        ]
        legal += judge(replace(empty(256), body=(Roles((a, b)),)), sentences)
    assert 10 < legal < 140


def test_named_barriers_have_numbers_and_whole_warps() -> None:
    for number in (0, 1, 15, 16):
        for threads in (0, 16, 32, 128, 160):
            for instr in (sm90.NAMED_BARRIER, sm90.NAMED_ARRIVE):
                sentences = [
                    (not 1 <= number <= 15, IRError, "barriers 1 to 15"),
                    (threads % 32 > 0 or not 32 <= threads <= 128, IRError, "whole warps, at most the 128"),
                ]
                judge(replace(empty(), body=(Do(instr, (number, threads)),)), sentences)


def test_registers_of_roles_are_those_of_the_block() -> None:
    legal = 0
    for rng in draws(300):
        warps = rng.choice((4, 8, 12))
        threads, share = 128 + 32 * warps, 65536 // (128 + 32 * warps) // 8 * 8
        least, most = rng.choice((16, 24, 40, 36, share)), rng.choice((share, share + 8, 232, 240, 256, 264))
        dec, inc = Do(sm90.SETMAXNREG_DEC, (least,)), Do(sm90.SETMAXNREG_INC, (most,))
        if rng.random() < 0.1:
            dec, inc = Do(sm90.SETMAXNREG_INC, (least,)), Do(sm90.SETMAXNREG_DEC, (most,))
        rest = rng.choice((0, 4))  # warps of no role keep their share
        roles = Roles(
            (
                Role("producer", 0, 4, (dec,)),
                Role("consumer", 4, warps - rest, (inc,))
                if warps > rest
                else Role("other", 4, warps, (inc,)),
            )
        )
        consumers = 32 * (roles.parts[1].warps)
        total = 128 * least + consumers * most + (threads - 128 - consumers) * share
        sentences: list[Sentence] = []
        for s, count in ((dec, least), (inc, most)):
            wrong = (s.instr is sm90.SETMAXNREG_INC) != (count > share) and count != share
            sentences.append((count % 8 > 0 or not 24 <= count <= 256, IRError, "24 to 256 registers"))
            sentences.append((wrong, IRError, f"a thread starts with {share} registers"))
        sentences.append((total > share * threads, ResourceError, "registers of the roles of k"))
        legal += judge(replace(empty(threads), body=(roles,)), sentences)
    assert 20 < legal < 280


def test_a_box_starts_and_ends_where_tma_can_write_it() -> None:
    legal = 0
    for rng in draws():
        rank, mode = rng.choice((1, 2, 2, 3)), SWIZZLE_MODES[rng.choice(("none", "32B", "128B"))]
        writable, stores = rng.random() < 0.8, rng.random() < 0.5
        align, offset, index = (
            rng.choice((64, 128, 1024, 1024)),
            rng.choice((0, 128, 1024)),
            rng.choice((0, 0, 64, 128, 256, 1024)),
        )
        nbytes = rng.choice((1024, 2048, 4096, 512))
        width = rng.choice((1, 2, 4))
        n = Var("n", 1024, "param", 16, rng.choice((16, 8)))
        x = Global("x", 2, (n, Const(1)), writable)
        m = TensorMapParam("m", x, (n, Const(64)), (n * width,), (16, 32), dtype("f16"), mode, order=(1, 0))
        tile, box_bytes = (
            Shared("tile", 1, Layout(nbytes), nbytes, align, offset),
            32 * max(32, mode.row_bytes if mode.swizzle.bits else 0),
        )
        elsewhere, crd = rng.random() < 0.1, tuple(Const(0) for _ in range(rank))
        place = MemRef(x if elsewhere else tile, Const(index))
        bar = Mbarrier("bar", 1, 1, 8192)
        copy = (
            Do(sm90.TMA_STORE[rank], (m, place, *crd))
            if stores
            else Do(sm90.TMA_LOAD[rank], (place, m, bar[0], *crd))
        )
        unknown, foreign = rng.random() < 0.1, rng.random() < 0.1
        kernel = replace(
            empty(), params=() if unknown else (n, x), maps=() if foreign else (m,), shared=(tile,), barriers=(bar,),
            body=(Do(sm90.MBARRIER_INIT, (bar[0], 1)), copy),
        )  # fmt: skip
        period = max(128, mode.period_bytes if mode.swizzle.bits else 128)
        sentences = [
            (unknown and not foreign, IRError, "x is not a pointer of k"),
            (not foreign and n.multiple * width % 16 > 0, AlignmentError, "the stride of dimension 1 of x"),
            (foreign, IRError, "m is no tensor map of k"),
            (rank != 2, IRError, f"has {rank} coordinates; m has 2 dimensions"),
            (stores and not writable, IRError, "x is read only"),
            (elsewhere, IRError, "x is in global memory"),
            ((offset + index) % period > 0 or align % period > 0, AlignmentError, f"multiple of {period}"),
            (box_bytes > nbytes, IRError, f"takes {box_bytes} bytes, tile has {nbytes}"),
        ]
        legal += judge(kernel, sentences)
    assert 5 < legal < 140
