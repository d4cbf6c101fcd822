"""Mistakes in the right programs of blocks and clusters: the edits that plant one, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from layoutalg import codegen as cg
from layoutalg.codegen import instr as isa
from layoutalg.codegen.expr import Const, substitute
from layoutalg.codegen.program import Do, If
from layoutalg.codegen.program.lowering import map_arg
from tests.tiles.clusters import RIGHT, reduction
from tests.tiles.edits import (
    Edit,
    before,
    change,
    count,
    cut,
    drop,
    edited,
    guard,
    moved,
    operand,
    other,
    twice,
    when,
)  # fmt: skip
from tests.tiles.frame import Frame, Program, scaled
from tests.tiles.one_block import ring, uneven, written

Mistake = tuple[str | Edit, ...]
"""What is said, and the edits of the right program."""


def made(program: str, mistake: str) -> Program:
    """The program with the mistake."""
    right, (_, *edits) = RIGHT[program](), MISTAKES[program][mistake]
    return replace(right, kernel=edited(right.kernel, *edits))  # type: ignore[arg-type]


def built(build: Callable[[], Program]) -> Edit:
    """Another program of the same arrays, in the place of the right one."""
    return lambda right: build().kernel


def declared(mistake: str) -> Edit:
    return built(lambda: scaled(mistake))


def then(instr: Any, *, stores: bool = False) -> Edit:
    """A box is stored, and its thread reads or writes y when the box has been read."""

    def access(f: Frame) -> None:
        args = (f.y.at(0, 0), f.total[None, 0])
        f.k.do(instr, *(args if stores else args[::-1]))

    return built(lambda: written(then=access))


def later(place: Any, known: Any) -> Any:
    """A place one turn later."""
    return map_arg(place, lambda e: substitute(e, {known["t"]: known["t"] + 1}))


def by_tid(place: Any, known: Any) -> Any:
    """A place of the block's thread, not of the role's."""
    return map_arg(place, lambda e: substitute(e, {known["consumer_tid"]: known["tid"] % 64}))


def one_lane_hands_back(k: Any, t: Any, full: Any, empty: Any) -> None:
    k.wait(full[t % 2], t // 2 % 2)
    with k.If(k.thread.eq(0)):
        k.arrive(empty[t % 2])


def turned(e: Any) -> Any:
    """The other parity."""
    return (e + 1) % 2


LATE = "too late for phase 0 of full|waits for phase 2 of full.*before phase 1 is complete"
RACE, FLIGHT = "with no barrier in between", "is in flight, and nobody has waited for it"
STORE = "a TMA store of warp 0 read it, with no wait"
UNFENCED = "no fence.proxy.async behind the write"
EXPECT, WAIT, TMA = "mbarrier_arrive_expect_tx", "mbarrier_wait", "tma_load_2d"
ARRIVE_EMPTY = "mbarrier_arrive(empty"

MISTAKES: dict[str, dict[str, Mistake]] = {
    "a tile is scaled": {
        "odd stride": ("multiple of 16; declare it with multiple=4", declared("odd stride")),
        "large box": ("accepted are 1 to 256; nearest: 2 boxes of 256", declared("large box")),
        "wide box": ("at most 64 in mode 64B; nearest: 2 boxes of 16, or mode none", declared("wide box")),
        "swizzle": ("load in mode 128B writes Sw<3,2,3>.*differs at element 1", declared("swizzle")),
        "remote wait": ("let that block arrive", declared("remote wait")),
        "stores before the load": (f"thread 0 wrote it, with {UNFENCED}", declared("stores before the load")),
        "reuse before read": (f"writes byte 0 of out: {STORE}", declared("reuse before read")),
        "another thread waits for the group": (
            f"writes byte 0 of out: {STORE}",
            declared("reuse before read"),
            change("block_sync", lambda s, v: (If(v["tid"].eq(1), (Do(isa.BULK_WAIT_READ, (0,)),)), s), at=2),
        ),
        "initialised by all": ("one thread does", guard("mbarrier_init", lambda v: v["tid"] < 32)),
        "initialised twice": ("initialises full again, which thread 0 has", twice("mbarrier_init")),
        "no barrier behind init": (
            "thread 32 .* uses full, which thread 0 has init|which nobody has init",
            drop("block_sync", 0),
        ),
        "no fence behind init": ("thread 0 needs a fence_barrier_init behind", drop("fence_barrier_init")),
        "high count": (r"deadlock .* for parity 0 of full: phase 0 of full lacks 1 of 2", count("full", 2)),
        "every lane copies": (
            "one of 32 lanes that copy",
            moved(TMA, "block_sync", lambda v: v["tid"] < 32, at=0),
        ),
        "every lane expects": (
            "31 more lanes of its warp arrive at full, whose phase 0 takes 1",
            moved(EXPECT, "block_sync", lambda v: v["tid"] < 32, at=0),
        ),
        "no announcement": (
            "reads byte 0 of tile: the copy for full is in flight",
            other(EXPECT, isa.ARRIVE),
        ),
        "few bytes": ("full to 2048 bytes, 1024 were announced .*whole box", operand(EXPECT, 1, 1024)),
        "many bytes": ("deadlock .* lacks 2048 of 4096 bytes", operand(EXPECT, 1, 4096)),
        "no copy": ("deadlock .* lacks 2048 of 2048 bytes", drop(TMA)),
        "late bytes": ("full to 4096 bytes, 2048 were announced", twice(TMA, {0: "out[0]"})),
        "no wait": (
            f"the copy for full {FLIGHT}, at 'lds128|read it, with no barrier .* at 'tma",
            drop(WAIT),
        ),
        "nobody waits": ("exits while 2048 bytes are in flight: .*phase 0 of full", cut(WAIT)),
        "one lane waits": (
            "thread 1 .* the copy for full wrote it, with no wait for it in between|at 'tma_load",
            when(WAIT, lambda v: v["tid"].eq(0)),
        ),
        "wrong parity": ("copy for full is in flight|read it, .* at 'tma_load", operand(WAIT, 1, 1)),
        "no such parity": ("waits for parity 2 of full: 0 and 1 are there", operand(WAIT, 1, 2)),
        "nothing is written": ("stores bytes of out that nobody has written", drop("sts128")),
        "one lane fences": (
            f"byte 16 of out: thread 1 wrote it, with {UNFENCED[:21]}",
            when("fence_proxy", lambda v: v["tid"].eq(0)),
        ),
        "no proxy fence": (f"byte 0 of out: thread 0 wrote it, with {UNFENCED[:21]}", drop("fence_proxy")),
        "no barrier": ("byte 16 of out: thread 1 wrote it, with no warp or block", drop("block_sync", 1)),
        "no commit": ("TMA store that it never commits, at the end", drop("bulk_commit"), drop("bulk_wait")),
        "no read wait": ("still reads shared memory: a bulk_wait_read is needed", drop("bulk_wait")),
    },
    "a ring whose turns are odd": {
        "low count": (
            rf"loads a box into .*: thread .* read it, {RACE}|too late for phase 0",
            count("empty", 1),
        ),
        "one warp releases for two": (
            "thread 64 read it, with no barrier in between|too late for phase 0",
            count("empty", 1), guard(ARRIVE_EMPTY, lambda v: v["consumer_tid"].eq(0)),
        ),
        "no empty wait": (
            r"arrives at full\[0\], whose phase 0 has all of its 1 .* with t = 3",
            drop("mbarrier_wait(empty"),
        ),
        "producer's parity": (
            r"deadlock .* phase 0 of empty\[0\] lacks 2 of 2",
            operand("mbarrier_wait(empty", 1, turned),
        ),
        "wrong stage": (
            r"of tiles: the copy for full\[2\] is in flight",
            change(TMA, lambda s, v: (Do(s.instr, (later(s.args[0], v), *s.args[1:])),)),
        ),
        "no full wait": (
            r"the copy for full\[0\] is in flight|stores uninitialised",
            drop("mbarrier_wait(full"),
        ),
        "another role waits": (
            "with no wait for it in between|uninitialised shared memory|is in flight",
            moved("mbarrier_wait(full", TMA),
        ),
        "consumer's parity": (
            r"the copy for full\[0\] is in flight|deadlock .* phase 1 of empty\[0\]|read it, with",
            operand("mbarrier_wait(full", 1, turned),
        ),
        "early release": (
            "loads a box into byte .* of tiles: thread .* read it, with no barrier",
            moved(ARRIVE_EMPTY, "mbarrier_wait(full", lambda v: (v["consumer_tid"] % 32).eq(0)),
        ),
        "no release": (r"deadlock .* phase 0 of empty\[0\] lacks 2 of 2 arrivals", drop(ARRIVE_EMPTY)),
        "no warp sync": ("of tiles: thread 33 read it, with no barrier in between", drop("warp_sync")),
        "few arrivals": (
            r"deadlock .* empty\[0\] lacks 1 of 2",
            guard(ARRIVE_EMPTY, lambda v: v["consumer_tid"].eq(0)),
        ),
        "many arrivals": (
            r"lanes of its warp arrive at empty\[0\], whose phase 0 takes 2",
            guard(ARRIVE_EMPTY, None),
        ),
        "block barrier": (
            r"warps that never get there; .* k.named_barrier\(1, 64\)",
            before("warp_sync", Do(cg.BAR, ())),
        ),
        "thread of the block": (
            "tid is not in scope",
            change("lds128", lambda s, v: (Do(s.instr, (s.args[0], by_tid(s.args[1], v))),)),
        ),
        "named barrier of too many": (
            "deadlock .* named barrier 1: 64 of 96 threads have arrived",
            built(lambda: ring(named=(1, 96))),
        ),
        "too many warps": ("role consumer of 3 warps: 2 of the block are left", built(lambda: ring(warps=3))),
    },
    "a warp more waits and hands back": {
        "it does not hand back": (LATE, drop(ARRIVE_EMPTY, 1), count("empty", 2)),
        "one lane hands back what all wait for": (
            LATE, built(lambda: ring(128, watch=one_lane_hands_back, arrivals=3))
        ),
        "it does not wait for the first phase": (
            "waits for phase 1 of full.*before phase 0 is complete|too late for the phase before the first",
            when("mbarrier_wait(full", lambda v: v["t"] >= 2, 1),
        ),
    },
    "one_warp_announces_and_another_loads": {
        "the load does not wait": (
            "too late for phase|loads a box into|has all of its|the copy for full is in flight",
            drop("mbarrier_wait(empty"),
        ),
    },
    "pairs of warps meet at barriers of their own": {
        "at one barrier": ("may meet other threads at named barrier 1", operand("named_barrier(4", 0, 1)),
    },
    "registers change hands in a pipeline": {
        "many": (
            "registers of the roles of uneven: .* one role takes what another",
            built(lambda: uneven((40, 256))),
        ),
    },
    "all boxes are fetched at once, announced each": {
        "two loads into one stage": (FLIGHT, operand(TMA, 0, lambda e: Const(0))),
    },
    "all waits for a buffer that is filled again": {
        "writes over what another thread waited for": (
            "with no wait for it in between|thread .* wrote it, with no",
            when(WAIT, lambda v: v["tid"].eq(0)),
            change("lds128", lambda s, v: (Do(cg.STS[16], (s.args[1], v["total[i]"])), s)),
        ),
    },
    "threads write a box that TMA stores": {
        "the fence is before the writes": (UNFENCED, moved("fence_proxy", "block_sync", at=0)),
        "reads what is yet to be written": (
            "reads byte 0 of y: a TMA store of warp 0 wrote it, with no wait",
            then(cg.LDG[16]),
        ),
        "writes what is yet to be written": (
            "writes byte 0 of y: a TMA store of warp 0 wrote it, with no wait",
            then(cg.STG[16], stores=True),
        ),
    },
    "cp.async writes a box that TMA stores": {
        "no fence": (UNFENCED, drop("fence_proxy")),
    },
    "loads_what_stores_wrote": {
        "no fence": (f"loads byte 0 of x: thread 0 wrote it, with {UNFENCED[:21]}", drop("fence_proxy")),
        "a fence of its own shared memory": (
            f"loads byte 0 of x: .* with {UNFENCED[:21]}",
            other("fence_proxy", isa.FENCE_PROXY_ASYNC_CTA),
        ),
    },
    "a_peer_wrote_what_is_stored": {
        "no fence": (UNFENCED, drop("fence_proxy")),
        "a fence of its own shared memory": (UNFENCED, other("fence_proxy", isa.FENCE_PROXY_ASYNC_CTA)),
    },
    "a_store_is_read_before_its_buffer_is_written_again": {
        "one group may still read": (STORE, operand("bulk_wait_read(1)", 0, 2)),
    },
    "a_box_goes_out_as_it_came": {
        "loads over what a store reads": (f"loads a box into .*{STORE}", drop("bulk_wait_read")),
        "stores a box that is in flight": (FLIGHT, moved(WAIT, "bulk_commit")),
        "two stores of one place": ("a TMA store of warp 0 wrote it, with no wait", twice("tma_store_2d")),
    },
    "three blocks share boxes of any number": {
        "one parity": ("stores a box of byte 0 of tile: the copy for full is in flight", operand(WAIT, 1, 0)),
    },
    "three blocks share three boxes": {
        "two blocks store one box": (
            "block 0 wrote it, and blocks are not ordered",
            operand("tma_store_2d", 3, lambda e: Const(0)),
        ),
    },
    "through": {
        "four warps at a barrier of two": (
            f"then has 128 of 64 threads|uninitialised shared memory|{RACE}|may meet other threads",
            change("block_sync", lambda s, v: (Do(isa.NAMED_BARRIER, (1, 64)),)),
        ),
    },
    "a named barrier hands over what stores wrote": {
        "one barrier for both turns": (
            RACE,
            *(drop("named_barrier(2"), drop("named_arrive(2"), other("named_arrive(1", isa.NAMED_BARRIER)),
        ),
        "overwrites": (f"{RACE}|deadlock|may meet other threads at named barrier", drop("named_barrier(2")),
        "reads early": (f"{RACE}|read it|uninitialised|deadlock|which then has", drop("named_barrier(1")),
        "barriers of two counts": (
            r"arrives at named barrier 1 of \d+ threads; others of",
            operand("named_arrive(1", 1, 96),
        ),
        "other threads": ("arrives at named barrier 1 of", operand("named_barrier(1", 1, 96)),
    },
    "a cluster of 2 pulls": {
        "a peer reads while its owner writes": (RACE, moved("sts32", "lds32_remote", keeps=True)),
        "a block alone arrives": (
            "may not have started|deadlock",
            *(when(f"cluster_{x}", lambda v: (v["block_x"] % 2).eq(0), 0) for x in ("arrive", "wait")),
        ),
        "stores to a peer that may leave": (
            "may leave while|which has left",
            change("lds32_remote", lambda s, v: (Do(cg.STS_REMOTE[4], (*s.args[1:], s.args[0])),)),
            drop("cluster_arrive", 1),
            drop("cluster_wait", 1),
        ),
    },
    "a cluster pushes": {
        "two peers write one word": (RACE, operand("sts32_remote", 1, 0)),
    },
    "a cluster signals what it stored": {
        "no release": (
            f"of box: thread .* of the block of rank .* wrote it, {RACE}|may leave",
            other("mbarrier_arrive_remote_release", isa.ARRIVE_REMOTE),
        ),
        "a wait of the block": (
            f"of box: thread .* of the block of rank .* wrote it, {RACE}",
            other("mbarrier_wait_cluster", isa.TRY_WAIT),
        ),
    },
    "a cluster sends": {
        "no fence behind init": (
            "uses came, which thread 0 .* has initialised|may not see",
            drop("fence_barrier_init"),
        ),
        "no wait for the cluster": (
            "touches the shared memory .* which may not have started",
            moved("cluster_wait", "stg32"),
        ),
        "half is sent": (
            "deadlock .* phase 0 of came lacks 64 of 128 bytes",
            when("st_async32", lambda v: v["tid"] < 16),
        ),
        "no wait": (
            "is in flight|passes on bytes|uninitialised|read it, with no barrier",
            drop("mbarrier_wait_cluster"),
        ),
    },
    "a cluster sums": {
        "grid": ("the grid of reduction has 4 blocks along x, which 3 blocks", built(lambda: reduction(3))),
        "large cluster": (
            "cluster of reduction: 32 asked, the limit is 16; 8 fit every",
            built(lambda: reduction(32)),
        ),
        "nothing to read": ("sums in the block of rank 0 that nobody has written", drop("sts32")),
        "relaxed": (
            f"the block of rank 1 wrote it, {RACE}",
            other("cluster_arrive()", isa.CLUSTER_ARRIVE_RELAXED, 0),
        ),
        "wait alone": ("waits at the cluster barrier where it has not arrived", drop("cluster_arrive()", 0)),
        "two arrivals": (
            "arrives at the cluster barrier again before it has",
            twice("cluster_arrive()", at=0),
        ),
        "block barrier alone": (
            "touches the shared memory of the block of rank 1, which may not have started",
            change("cluster_arrive()", lambda s, v: (Do(cg.BAR, ()),), 0), drop("cluster_wait", 0),
        ),
        "no such rank": (
            "reaches for the block of rank 4 in a cluster of 4",
            built(lambda: reduction(peers=5)),
        ),
        "no closing barrier": (
            "of rank 1, which has left|may leave while thread .* touches its shared memory",
            drop("cluster_arrive()", 1), drop("cluster_wait", 1),
        ),
        "a block stays away": (
            "deadlock .* the cluster barrier: .* warps have not arrived",
            built(lambda: reduction(away=True)),
        ),
    },
    "blocks of a cluster load for each other": {
        "a peer may still initialise": (
            "touches the shared memory .* which may not have started",
            change("cluster_arrive_relaxed", lambda s, v: (Do(cg.BAR, ()),)), drop("cluster_wait", 0),
        ),
        "a peer expects nothing": (
            r"deadlock .* phase 0 of full\[0\] lacks 1 of 1 arrivals",
            when(EXPECT, lambda v: (v["block_x"] % 2).eq(0)),
        ),
        "few arrivals of peers": (
            r"deadlock .* phase 0 of empty\[0\] lacks 1 of 2 arrivals",
            change("mbarrier_arrive_remote", lambda s, v: (Do(s.instr, (s.args[0], v["block_x"] % 2)),), 0),
            drop("mbarrier_arrive_remote", 1),
        ),
        "leaves early": (
            "which has left|may leave while", drop("cluster_arrive()"), drop("cluster_wait", 1)
        ),
        "empty of own consumers": (
            r"full\[0\] of the block of rank .* (wrote it, with no wait for it|is in flight)",
            change("mbarrier_arrive_remote", lambda s, v: (Do(s.instr, (s.args[0], v["block_x"] % 2)),), 0),
            drop("mbarrier_arrive_remote", 1), count("empty", 1),
        ),
        "no such block": ("reaches for the block of rank 2 in a cluster of 2", operand(TMA, 3, 4)),
    },
}  # fmt: skip
