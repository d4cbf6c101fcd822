"""Statements of PTX in the texts of instructions: each is that of PTX ISA 9.0, operands in their places."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from layoutalg.atoms import find_mma_atom
from layoutalg.codegen import instr as isa
from layoutalg.codegen.instr import Instr
from tests.codegen.instr.probe import ALL

STATEMENT = re.compile(r'asm(?: volatile)?\(\s*((?:"[^"]*"\s*)+)([^;]*)\);')
OPERAND = re.compile(r'"[=+]?\w"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)')
CAST = re.compile(r"(?:shared_address|peer_address|static_cast<unsigned short>)\((\w+)(?:, rank)?\)")


def statements(instr: Instr) -> list[str]:
    """The statements with the operands' names for their numbers; an address is that of its pointer."""
    found = []
    for ptx, operands in STATEMENT.findall(instr.text):
        names = [CAST.sub(r"\1", name) for name in OPERAND.findall(operands)]
        holes = (
            "".join(re.findall(r'"([^"]*)"', ptx)).replace("\\n", "\n").replace("{", "{{").replace("}", "}}")
        )
        found.append(re.sub(r"%(\d+)", r"{\1}", holes).format(*names))
    return found


def told(instr: Instr) -> str:
    """What the effect calls of the machine, with the names of its operands."""
    calls: list[str] = []

    class Engine:
        def __init__(self, name: str = "") -> None:
            self.name = name

        def __getattr__(self, name: str) -> Engine:
            return Engine(f"{self.name}.{name}".lstrip("."))

        def __call__(self, group: str, *args: Any, **options: Any) -> None:
            given = [*map(str, args), *(f"{name}={x}" for name, x in options.items())]
            calls.append(f"{self.name}({', '.join(given)})".replace("'", ""))

    instr.effect(Engine(), "group", *(o.name for o in instr.operands if o.role != "out"))
    (call,) = calls
    return call


def vector(name: str, words: int) -> str:
    """Registers of a vector, or the one."""
    return "{" + ", ".join(f"{name}[{i}]" for i in range(words)) + "}" if words > 1 else name


CLUSTER_BYTES = ".shared::cluster.mbarrier::complete_tx::bytes"
WAIT = (
    "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity%s.shared::cta.b64 done, [bar], parity;\n"
    "@done bra DONE;\nbra WAIT;\nDONE:\n}"
)
WRITTEN: dict[str, tuple[str, str]] = {
    "bulk_commit": ("cp.async.bulk.commit_group;", "tma.commit()"),
    "bulk_wait": ("cp.async.bulk.wait_group newest;", "tma.wait(newest, written=True)"),
    "bulk_wait_read": ("cp.async.bulk.wait_group.read newest;", "tma.wait(newest, written=False)"),
    "cluster_arrive": ("barrier.cluster.arrive.release.aligned;", "cluster.arrive(relaxed=False)"),
    "cluster_arrive_relaxed": ("barrier.cluster.arrive.relaxed.aligned;", "cluster.arrive(relaxed=True)"),
    "cluster_wait": ("barrier.cluster.wait.acquire.aligned;", "cluster.wait()"),
    "cp_async_commit": ("cp.async.commit_group;", "commit_copies()"),
    "cp_async_wait": ("cp.async.wait_group newest;", "wait_copies(newest)"),
    "fence_barrier_init": ("fence.mbarrier_init.release.cluster;", "mbarriers.fence_inits()"),
    "fence_proxy_async": ("fence.proxy.async;", "fence_proxy_async()"),
    "fence_proxy_async_cta": ("fence.proxy.async.shared::cta;", "fence_proxy_async(cta=True)"),
    "mbarrier_init": ("mbarrier.init.shared::cta.b64 [bar], count;", "mbarriers.init(bar, count)"),
    "mbarrier_arrive": ("mbarrier.arrive.shared::cta.b64 _, [bar];", "mbarriers.arrive(bar)"),
    "mbarrier_arrive_expect_tx": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], nbytes;", "mbarriers.arrive(bar, nbytes)"
    ),
    "mbarrier_arrive_remote": (
        "mbarrier.arrive.shared::cluster.b64 _, [bar];", "mbarriers.arrive_remote(bar, rank, release=False)"
    ),
    "mbarrier_arrive_remote_release": (
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];",
        "mbarriers.arrive_remote(bar, rank, release=True)",
    ),
    "mbarrier_wait": (WAIT % "", "mbarriers.wait(bar, parity, cluster=False)"),
    "mbarrier_wait_cluster": (WAIT % ".acquire.cluster", "mbarriers.wait(bar, parity, cluster=True)"),
    "named_arrive": ("bar.arrive number, threads;", "mbarriers.arrive_named(number, threads)"),
    "named_barrier": ("bar.sync number, threads;", "mbarriers.sync_named(number, threads)"),
    "wgmma_commit": ("wgmma.commit_group.sync.aligned;", "matrix.commit()"),
    "wgmma_fence": ("wgmma.fence.sync.aligned;", "matrix.fence()"),
    "wgmma_wait": ("wgmma.wait_group.sync.aligned newest;", "matrix.wait(newest)"),
    "setmaxnreg_dec": ("setmaxnreg.dec.sync.aligned.u32 count;", ""),
    "setmaxnreg_inc": ("setmaxnreg.inc.sync.aligned.u32 count;", ""),
    "grid_wait": ("griddepcontrol.wait;", ""),
    "movmatrix_trans": ("movmatrix.sync.aligned.m8n8.trans.b16 d, v;", ""),
}  # fmt: skip
for n in (4, 8, 16):
    words, kind = n // 4, f"v{n // 4}.b32" if n > 4 else "b32"
    WRITTEN[f"lds{8 * n}_remote"] = (
        f"ld.shared::cluster.{kind} {vector('d', words)}, [p];", f"cluster.load(p, rank, {n})"
    )  # fmt: skip
    WRITTEN[f"sts{8 * n}_remote"] = (
        f"st.shared::cluster.{kind} [p], {vector('v', words)};", f"cluster.store(p, rank, {n}, v)"
    )  # fmt: skip
    WRITTEN[f"st_async{8 * n}"] = (
        f"st.async.weak{CLUSTER_BYTES}.{kind} [p], {vector('v', words)}, [bar];",
        f"cluster.store_async(p, bar, rank, {n}, v)",
    )
    for suffix, hint, size in (
        ("", "", ""),
        ("_line", ".L2::128B", ""),
        ("_zfill", "", f", inside ? {n} : 0"),
    ):
        copy = f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global{hint} [to], [p], {n}{size};"
        WRITTEN[f"cp_async_{n}{suffix}"] = copy, ""
    if n > 4:
        WRITTEN[f"stg{8 * n}_whole"] = f"st.global.{kind} [p], {vector('v', words)};", ""
    WRITTEN[f"ldg{8 * n}_fresh"] = f"ld.global.{kind if n > 4 else 'u32'} {vector('d', words)}, [p];", ""
for n in (1, 2):
    WRITTEN[f"ldg{8 * n}_fresh"] = f"ld.global.u{8 * n} d, [p];", ""
for n in (1, 2, 4):
    for suffix in ("", "_trans"):
        kind = f"sync.aligned.m8n8.x{n}{suffix.replace('_', '.')}.shared.b16"
        d, v = (vector(x, n) if n > 1 else f"{{{x}}}" for x in "dv")
        WRITTEN[f"ldmatrix_x{n}{suffix}"] = f"ldmatrix.{kind} {d}, [from];", ""
        WRITTEN[f"stmatrix_x{n}{suffix}"] = f"stmatrix.{kind} [s], {v};", ""
for rank in (1, 2, 3, 4, 5):
    crd = [f"c{i}" for i in range(rank)]
    place, listed = f"[map, {{{', '.join(crd)}}}]", f"({', '.join(crd)}{',' if rank == 1 else ''})"
    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group {place}, [box];"
    WRITTEN[f"tma_store_{rank}d"] = store, f"tma.store(box, map, {listed})"
    for suffix, qualifier, last in (
        ("", "", ""), ("_multicast", ".multicast::cluster", ", blocks"),
        ("_evict_first", ".L2::cache_hint", ", 0x12F0000000000000ull"),
        ("_evict_last", ".L2::cache_hint", ", 0x14F0000000000000ull"),
    ):  # fmt: skip
        mask = ", blocks" if suffix == "_multicast" else ""
        WRITTEN[f"tma_load_{rank}d{suffix}"] = (
            f"{load}{qualifier} [box], {place}, [bar]{last};", f"tma.load(box, map, bar, {listed}{mask})"
        )  # fmt: skip


def test_each_statement_is_that_of_ptx_and_its_effect_asks_an_engine_for_the_same() -> None:
    inline = {name for name, instr in ALL.items() if "asm" in instr.text and "mma_m" not in name}
    assert inline - {"grid_sync"} == set(WRITTEN)
    for name, (ptx, call) in WRITTEN.items():
        assert statements(ALL[name]) == [ptx]
        if call:
            assert told(ALL[name]) == call
    add, wait = statements(ALL["grid_sync"])
    assert add == "red.release.gpu.global.add.u32 [count], 1;"
    assert wait == "ld.acquire.gpu.global.u32 found, [count];"
    calls = {"grid_sync": "grid.meet(count, arrivals)", "warp_sync": "sync_warp()"}
    calls |= {"block_sync": "arrive_block_barrier()"}
    assert calls == {name: told(ALL[name]) for name in calls}


def registers(operand: isa.Operand, *, doubles: bool) -> str:
    """The registers of an operand of a product, in order; a double is two words, low half first."""
    name, words = operand.name, operand.words
    if not doubles:
        return f"{{{vector(name, words).strip('{}')}}}"
    pairs = [f"__hiloint2double({name}[{i + 1}], {name}[{i}])" for i in range(0, words, 2)]
    return f"{{{', '.join([f'x{i}' for i in range(words // 2)] if name == 'd' else pairs)}}}"


def test_a_product_names_its_registers_in_order() -> None:
    of_atoms = {find_mma_atom(name).ptx: instr for name, instr in isa.QUAD_PAIR_MMA.items()}
    for ptx, instr in [*((m.ptx, instr) for m, instr in isa.MMA_SYNC.items()), *of_atoms.items()]:
        d, a, b = (registers(o, doubles="f64" in ptx) for o in instr.operands)
        assert statements(instr) == [f"{ptx} {d}, {a}, {b}, {d};"]


SINCE = {
    "cp.async": 80, "__reduce_": 80, "ldmatrix": 75, "movmatrix": 75, "stmatrix": 90, "griddepcontrol": 90,
    "mbarrier": 90, "cluster": 90, "bulk": 90, "proxy.async": 90, "wgmma": 90, "setmaxnreg": 90,
}  # fmt: skip
"""From which architecture on PTX, or this project, has what a text names; mma.sync has a test of its own."""

WAITS = {
    "block_sync": "block_barrier_open", "grid_sync": "passed", "mbarrier_wait": "passed",
    "mbarrier_wait_cluster": "passed", "named_barrier": "passed", "cluster_wait": "passed",
}  # fmt: skip


def test_an_instruction_requires_what_its_text_names() -> None:
    for name, instr in ALL.items():
        text, needs = instr.text, instr.requires
        if "mma_m" not in name:
            assert needs.sm == max((sm for word, sm in SINCE.items() if word in text), default=70), name
        warp = any(word in text for word in (".aligned", "0xFFFFFFFFu", "bar.", "__syncwarp"))
        group = "wgmma" in text or "setmaxnreg" in text
        assert (needs.warp_converged, needs.warpgroup_converged, needs.arch_specific) == (warp, group, group)
        assert (needs.block_converged, needs.all_blocks) == ("__syncthreads" in text, name == "grid_sync")
        engine = {"cp_async": "cp.async", "tma_load": "tma", "tma_stor": "bulk", "st_async": "tma"}.get(
            name[:8]
        )
        assert instr.engine == (None if name in ("cp_async_commit", "cp_async_wait") else engine)
        assert (instr.ready is not None) == (name in WAITS)
        for answer in (True, False) if instr.ready else ():
            say = SimpleNamespace(**{WAITS[name]: lambda group, answer=answer: answer})
            say.mbarriers = say.grid = say
            assert instr.ready is not None and instr.ready(say, "group") is answer
