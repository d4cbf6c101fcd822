"""Statements of PTX in the texts of instructions: each is that of PTX ISA 9.0, operands in their places."""

from __future__ import annotations

import re
from pathlib import Path
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


LISTED = Path(__file__).parents[2] / "data" / "ptx_statements.txt"


def test_each_statement_is_that_of_ptx_and_its_effect_asks_an_engine_for_the_same() -> None:
    entries = [entry.split("\n    ") for entry in LISTED.read_text("utf-8").strip().split("\n\n")[1:]]
    inline = {name for name, instr in ALL.items() if "asm" in instr.text and "mma_m" not in name}
    assert {name for name, *_ in entries} == inline | {"block_sync", "warp_sync"}
    for name, *lines in entries:
        ptx = [line for line in lines if not line.startswith("-> ")]
        assert "\n".join(statements(ALL[name])).splitlines() == ptx
        for line in lines[len(ptx) :]:
            assert told(ALL[name]) == line.removeprefix("-> ")


def registers(operand: isa.Operand, *, doubles: bool) -> str:
    """The registers of an operand of a product, in order; a double is two words, low half first."""
    name, words = operand.name, operand.words
    if not doubles:
        held = [f"{name}[{i}]" if words > 1 else name for i in range(words)]
    elif name == "d":
        held = [f"x{i}" for i in range(words // 2)]
    else:
        held = [f"__hiloint2double({name}[{i + 1}], {name}[{i}])" for i in range(0, words, 2)]
    return f"{{{', '.join(held)}}}"


def test_a_product_names_its_registers_in_order() -> None:
    of_atoms = {find_mma_atom(name).ptx: instr for name, instr in isa.QUAD_PAIR_MMA.items()}
    for ptx, instr in [*((m.ptx, instr) for m, instr in isa.MMA_SYNC.items()), *of_atoms.items()]:
        d, a, b = (registers(o, doubles="f64" in ptx) for o in instr.operands)
        assert statements(instr) == [f"{ptx} {d}, {a}, {b}, {d};"]


SINCE = {
    "cp.async": 80, "__reduce_": 80, "ldmatrix": 75, "movmatrix": 75, "stmatrix": 90, "griddepcontrol": 90,
    "mbarrier": 90, "cluster": 90, "bulk": 90, "proxy.async": 90, "wgmma": 90, "setmaxnreg": 90,
    ".v8.b32": 100, "alignas(32)": 100,
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
