"""Seeded mistakes in programs for Hopper: every one is refused, by name and place, in both schedules."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.program import printed
from layoutalg.errors import LayoutAlgError
from tests import hopper_programs
from tests.hopper_programs import arguments, expected

MISTAKES = {
    "scaled": {
        "odd stride": "not known to be a multiple of 16; declare it with multiple=4",
        "read only": "y is read only and 'tma_store_2d",
        "large box": "accepted are 1 to 256; nearest: 2 boxes of 256",
        "wide box": "at most 64 in mode 64B; nearest: 2 boxes of 16, or mode none",
        "swizzle": "load in mode 128B writes Sw<3,2,3> o 0 o (16,32):(32,1), which differs at element 1",
        "misaligned": "starts at byte 16 of shared memory; .* declare tile with align_bytes=128",
        "small tile": "a box of load takes 2048 bytes, tile has 1024",
        "other count": "full is declared for 1 arrivals",
        "never initialised": "full is initialised by nobody; k.init(full) does it",
        "no such stage": "reaches stage 1; full has 1",
        "high count": "deadlock .* 'mbarrier_wait(full[0], 0)', for parity 0 of full: phase 0 of full "
        "lacks 1 of 2 arr",
        "stores before the load": "thread 0 wrote it, with no fence.proxy.async behind the write",
        "every lane copies": "is one of 32 lanes that copy one box of tile; one does",
        "every lane expects": "and 31 more lanes of its warp arrive at full, whose phase 0 takes 1 arrivals",
        "no announcement": "reads byte 0 of tile: the copy for full is in flight",
        "few bytes": "brings phase 0 of full to 2048 bytes, 1024 were announced by expect_tx: .* whole box",
        "many bytes": "deadlock .* phase 0 of full lacks 2048 of 4096 bytes",
        "no copy": "deadlock .* phase 0 of full lacks 2048 of 2048 bytes",
        "late bytes": "brings phase 0 of full to 4096 bytes, 2048 were announced",
        "no wait": "the copy for full is in flight, and nobody has waited for it, at 'lds128|read it, with "
        "no barrier .* at 'tma",
        "nobody waits": "exits while 2048 bytes are in flight: nobody has waited for phase 0 of full",
        "one lane waits": "thread 1 .* the copy for full wrote it, with no wait for it in between|at "
        "'tma_load",
        "wrong parity": "reads byte 0 of tile: the copy for full is in flight|read it, .* at 'tma_load",
        "no such parity": "waits for parity 2 of full: 0 and 1 are there",
        "nothing is written": "stores bytes of out that nobody has written",
        "one lane fences": "byte 16 of out: thread 1 wrote it, with no fence.proxy.async",
        "no proxy fence": "byte 0 of out: thread 0 wrote it, with no fence.proxy.async",
        "no barrier": "byte 16 of out: thread 1 wrote it, with no warp or block barrier in between",
        "no commit": "has started a TMA store that it never commits, at the end of the kernel",
        "no read wait": "exits while its TMA store still reads shared memory: a bulk_wait_read is needed",
        "reuse before read": "writes byte 0 of out: a TMA store of warp 0 read it, with no wait for it",
        "initialised by all": "is one of several lanes that initialise full; one thread does",
        "initialised twice": "initialises full again, which thread 0 has initialised: its memory is in use",
        "no barrier behind init": "thread 32 .* uses full, which thread 0 has init|uses full, which nobody "
        "has init",
        "no fence behind init": "may not see: thread 0 needs a fence_barrier_init behind it",
        "buffer over the barrier": "over lies over the mbarriers full, whose bytes are their own",
        "remote wait": "a block waits at its own barriers; let that block arrive",
    },
    "ring": {
        "low count": "loads a box into byte .* of tiles: thread .* read it, with no barrier in between|may "
        "come too late for phase 0 of empty[0]: nothing keeps phase 1 from being complete before",
        "no empty wait": "arrives at full[0], whose phase 0 has all of its 1 arrivals, .* with t = 3",
        "producer's parity": "deadlock .* for parity 0 of empty[0]: phase 0 of empty[0] lacks 2 of 2 "
        "arrivals",
        "wrong stage": "of tiles: the copy for full[2] is in flight",
        "no full wait": "of tiles: the copy for full[0] is in flight|stores uninitialised shared memory to y",
        "consumer's parity": "of tiles: the copy for full[0] is in flight|deadlock .* phase 1 of empty[0]",
        "early release": "loads a box into byte .* of tiles: thread .* read it, with no barrier",
        "block barrier": "waits for warps that never get there; .* k.named_barrier(1, 64)",
        "no release": "deadlock .* phase 0 of empty[0] lacks 2 of 2 arrivals",
        "named barrier of too many": "deadlock .* named barrier 1: 64 of 96 threads have arrived, .* warp "
        "0 has finished",
        "no warp sync": "of tiles: thread 33 read it, with no barrier in between",
        "few arrivals": "deadlock .* phase 0 of empty[0] lacks 1 of 2 arrivals",
        "many arrivals": "lanes of its warp arrive at empty[0], whose phase 0 takes 2 arrivals",
        "named barrier 0": "barriers 1 to 15 have a number; 0 is the block's",
        "three quarters of a warp": "threads are whole warps, at most the 96 of a block",
        "too many warps": "role consumer of 3 warps: 2 of the block are left",
        "thread of the block": "tid is not in scope",
        "registers": "setmaxnreg_dec is of whole warpgroups",
    },
    "reduction": {
        "grid": "the grid of reduction has 4 blocks along x, which 3 blocks of a cluster may not divide",
        "nothing to read": "reads bytes of sums in the block of rank 0 that nobody has written",
        "relaxed": "of the block of rank 1 wrote it, with no barrier in between",
        "wait alone": "waits at the cluster barrier where it has not arrived",
        "two arrivals": "arrives at the cluster barrier again before it has waited there",
        "block barrier alone": "touches the shared memory of the block of rank 1, which may not have started",
        "no such rank": "reaches for the block of rank 4 in a cluster of 4",
        "no closing barrier": "of rank 1, which has left|may leave while thread .* touches its shared memory",
        "large cluster": "blocks of a cluster of reduction: 32 asked, the limit is 16; 8 fit every device",
        "a block stays away": "deadlock .* the cluster barrier: .* warps have not arrived",
    },
    "shared_tile": {
        "peer may still initialise": "touches the shared memory .* which may not have started",
        "peer expects nothing": "deadlock .* phase 0 of full[0] lacks 1 of 1 arrivals",
        "few arrivals of peers": "deadlock .* phase 0 of empty[0] lacks 1 of 2 arrivals",
        "leaves early": "which has left|may leave while",
        "empty of own consumers": "for full[0] of the block of rank .* wrote it, with no wait for it",
        "no such block": "reaches for the block of rank 2 in a cluster of 2",
    },
    "exchange": {
        "no fence behind init": "uses came, which thread 0 .* has initialised|may not see",
        "few bytes": "to 256 bytes, 128 were announced|to 192 bytes, 128 were announced",
        "no wait for the cluster": "touches the shared memory .* which may not have started",
        "half is sent": "deadlock .* phase 0 of came lacks 128 of 256 bytes",
        "no wait": "is in flight|passes on bytes|uninitialised|read it, with no barrier",
    },
    "pushed": {
        "no release": "of inbox: thread .* of the block of rank .* wrote it, with no barrier in "
        "between|may leave",
        "wait of the block": "of inbox: thread .* of the block of rank .* wrote it, with no barrier in "
        "between",
    },
    "persistent": {
        "one parity": "stores a box of byte 0 of tile: the copy for full is in flight",
        "no read wait": "loads a box into byte 0 of tile: a TMA store of warp 0 read it, with no wait for it",
        "one in flight": "loads a box into byte 0 of tile: a TMA store of warp 0 read it, with no wait for "
        "it",
    },
    "handed": {
        "overwrites": "read it, with no barrier in between|wrote it, with no barrier in between|deadlock|"
        "may meet other threads at named barrier 2: warp 1 met some there",
        "reads early": "wrote it, with no barrier in between|read it|uninitialised|deadlock|which then has",
        "other threads": "arrives at named barrier 2 of",
    },
    "uneven": {
        "many registers": "registers of the roles of uneven: .* and one role takes what another gives",
        "odd registers": "24 to 256 registers, a multiple of 8",
        "no warpgroup": "setmaxnreg_dec is of whole warpgroups, and role producer: warps 0 to 1 is none",
    },
}  # fmt: skip

CASES = [(program, mistake) for program, found in MISTAKES.items() for mistake in found]


def run(program: str, mistake: str, way: str, seed: int = 0) -> tuple[Any, dict[str, Any]]:
    kernel = printed(getattr(hopper_programs, program)(mistake))
    given = arguments(program)
    return cg.simulate(kernel, given, group=way, seed=seed), given


@pytest.mark.parametrize("way", ["block", "warp"])
@pytest.mark.parametrize(("program", "mistake"), CASES, ids=lambda x: x.replace(" ", "-"))
def test_mistake_is_refused(program: str, mistake: str, way: str) -> None:
    parts = (re.escape(part).replace(r"\.\*", ".*") for part in MISTAKES[program][mistake].split("|"))
    with pytest.raises(LayoutAlgError) as refused:
        run(program, mistake, way, seed=3)
    assert re.search("|".join(parts), str(refused.value)), str(refused.value)


@pytest.mark.parametrize("program", MISTAKES)
def test_without_mistake_it_is_right(program: str) -> None:
    for way, seed in (("block", 0), ("warp", 1), ("warp", 2)):
        _, given = run(program, "", way, seed)
        assert np.array_equal(given["y"], expected(program, given)), (way, seed)
