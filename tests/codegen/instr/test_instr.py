"""Instruction records: what each declares, says in C and does to arrays are one meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layoutalg.arch import find_arch
from layoutalg.codegen import instr as isa
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import memory, mma
from layoutalg.codegen.instr.arithmetic.arith import add_same, add_scaled
from layoutalg.codegen.instr.memory import WIDTHS_BYTES
from layoutalg.codegen.instr.record import moves
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.sim import simulate
from layoutalg.layout import Layout
from tests.codegen.instr.probe import Case, ran
from tests.hostshim import run_cuda_text
from tests.sweeps import each

MODULES = (memory, mma)
REGISTRIES = tuple(module.INSTRUCTIONS for module in MODULES)
LISTED = {name: instr for registry in REGISTRIES for name, instr in registry.items()}
MADE = (
    isa.fma_outer(8, 8), isa.fma_outer(1, 4), isa.fma_outer(2, 2, "f64"), isa.scale(1), isa.scale(8),
    add_scaled(1, "f32"), add_scaled(8, "f16"), add_scaled(2, "bf16"), isa.pack(8, "f16"),
    isa.pack(2, "bf16"), isa.RELU.instr(4, "f32"), add_same(4, "f16"), isa.SILU.instr(2, "f32"),
    isa.GELU.instr(1, "f32"), isa.fill(1), isa.fill(3), isa.within(4), isa.window(8, 2),
    isa.fold("sum", 4, 1), isa.fold("max", 2, 2), isa.butterfly("sum", 2), isa.butterfly("max", 1),
    isa.add_exp(4, 1), isa.add_exp(2, 2), isa.rescale(2), isa.apply_softmax(4, 1), isa.reciprocal(2),
    isa.add_square(4, 1), isa.merge_moments(2), isa.deviation(1), isa.apply_norm(4, 4), isa.multiply(4, 1),
    isa.add_one(2),
)  # fmt: skip
ALL = {**LISTED, **{instr.name: instr for instr in MADE}}
EVERY = each("instr", ALL.values(), ids=str)
Words = NDArray[np.uint32]
GROUP = SimpleNamespace(lanes=32)
RANDOM = np.random.default_rng(1)


def random_words(words: int) -> Words:
    return RANDOM.integers(0, 1 << 32, (GROUP.lanes, words), dtype=np.uint32)


# --- every record --------------------------------------------------------------------------------------


def test_the_registries_hold_every_instruction_of_their_module_by_name() -> None:
    assert sum(map(len, REGISTRIES)) == len(LISTED)
    for module, registry in zip(MODULES, REGISTRIES, strict=True):
        assert all(name == instr.name == str(instr) for name, instr in registry.items())
        single = [v for v in vars(module).values() if isinstance(v, isa.Instr)]
        tables = [
            v for n, v in vars(module).items() if n.isupper() and hasattr(v, "values") and v != registry
        ]
        listed = [i for t in tables for i in t.values() if isinstance(i, isa.Instr)]
        assert {i.name for i in (*single, *listed)} == set(registry)


def signature(instr: isa.Instr) -> list[tuple[str, str]]:
    """Type and name of each parameter of the helper."""
    found = re.search(r"void (\w+)\(([^)]*)\) \{", instr.text)
    assert found and found[1] == instr.name, instr.text
    return [(p.rsplit(" ", 1)[0], p.rsplit(" ", 1)[1]) for p in filter(None, found[2].split(", "))]


def accepted(operand: isa.Operand) -> set[str]:
    """C types a parameter of this operand may have: one word by value or reference, several by pointer."""
    word = {"f32": "float", "f16x2": "f16x2", "bf16x2": "bf16x2"}.get(operand.element, "u32")
    match operand.role, operand.words:
        case "read", _:
            return {"const void*"}
        case "write", _:
            return {"void*"}
        case "guard", _:
            return {"bool"}
        case "value", _:
            return {word}
        case "in", 1:
            return {word, f"const {word}&"}
        case "in", _:
            return {f"const {word}*"}
        case _, 1:
            return {f"{word}&"}
        case _:
            return {f"{word}*"}


@EVERY
def test_the_helper_takes_the_operands_in_order(instr: isa.Instr) -> None:
    parameters = signature(instr)
    operands = [o for o in instr.operands if o.role != "imm"]
    assert [name for _, name in parameters] == [o.name for o in operands]
    for (kind, _), operand in zip(parameters, operands, strict=True):
        assert kind in accepted(operand), f"{operand} is passed as {kind}"
    for operand in instr.operands:
        assert re.search(rf"\b{operand.name}\b", instr.text.partition("{")[2]), f"{operand.name} is not used"


@EVERY
def test_memory_operands_are_known_to_the_analysis(instr: isa.Instr) -> None:
    chip = find_arch("sm_90")
    for operand in instr.operands:
        if operand.role in ("read", "write"):
            known = chip.instructions[operand.op]
            assert (known.space, known.width_bytes) == (operand.space, operand.bytes)
            assert operand.words == max(1, operand.bytes // 4)
        else:
            assert operand.space is None and operand.bytes == 0 and not operand.op


@EVERY
def test_an_instruction_says_from_which_architecture_on(instr: isa.Instr) -> None:
    needs = {"cp_async": 80, "ldmatrix": 75, "movmatrix": 75, "grid_wait": 90}
    needs |= {str(one): mma.sm for mma, one in isa.MMA_SYNC.items()}  # see test_instr_mma
    wanted = {sm for prefix, sm in needs.items() if instr.name.startswith(prefix)}
    assert instr.requires.sm == (max(wanted) if wanted else 70)
    tables = isa.CP_ASYNC, isa.CP_ASYNC_LINE, isa.CP_ASYNC_ZFILL
    copies = [copy for table in tables for copy in table.values()]
    assert (instr.engine is not None) == (instr in copies)
    assert (instr.ready is not None) == instr.requires.block_converged == (instr.name == "block_sync")


# --- what they do --------------------------------------------------------------------------------------


def test_plain_loads_and_stores_move_what_they_are_given() -> None:
    data = random_words(4)
    for table in (isa.LDG, isa.STG, isa.LDS, isa.STS, isa.CP_ASYNC):
        assert all(i.effect is moves and i.effect(None, GROUP, data) is data for i in table.values())


def turned(rows: list[Words], carrier: type[Any]) -> Words:
    """The definition: a lane's rows of narrow elements, transposed."""
    table = np.stack([row.view(carrier) for row in rows], axis=1)  # lane, row, column
    return np.ascontiguousarray(table.transpose(0, 2, 1)).view(np.uint32).reshape(len(table), -1)


@pytest.mark.parametrize(("instr", "carrier"), [(isa.TRANSPOSE_16, np.uint16), (isa.TRANSPOSE_8, np.uint8)])
def test_a_turn_is_a_transpose(instr: isa.Instr, carrier: type[Any]) -> None:
    rows = [random_words(1) for o in instr.operands if o.role == "in"]
    result = instr.effect(None, GROUP, *rows)
    assert result.dtype == np.uint32 and result.shape == (32, instr.operands[0].words)
    assert (result == turned(rows, carrier)).all()
    again = instr.effect(None, GROUP, *np.split(result, len(rows), axis=1))
    assert (again == np.concatenate(rows, axis=1)).all()  # turning twice gives the rows back


# --- what they say -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["simulator", "text"])
@pytest.mark.parametrize("nbytes", WIDTHS_BYTES)
def test_a_load_and_a_store_move_their_bytes(nbytes: int, way: str) -> None:
    """Narrow values are zero-extended when loaded; a store ends with its width; clearing is zero."""
    k, words = KernelBuilder("widths", 32), max(1, nbytes // 4)
    x, y = k.pointer("x", nbytes), k.pointer("y", nbytes, writable=True)
    z, w = k.pointer("z", 4, (2 * words, 1), writable=True), k.reg("w", words, 1)
    tile = k.shared_buffer("tile", nbytes, Layout(64), 64, 16)
    k.do(isa.LDG[nbytes], w, k.at(x, k.tid * 2))
    k.do(isa.STS[nbytes], k.at(tile, k.tid * 2), w)
    k.do(isa.LDS[nbytes], w, k.at(tile, k.tid * 2))
    k.do(isa.STG[nbytes], k.at(y, k.tid * 2), w)
    for first, instr in ((0, None), (words, isa.CLEAR[nbytes])):
        if instr:
            k.do(instr, w)
        for i in range(words):
            k.do(isa.STG[4], k.at(z, k.tid, first + i), w[i])
    data = RANDOM.integers(0, 256, (64, nbytes), dtype=np.uint8)
    seen, held = np.full((64, nbytes), 0xEE, np.uint8), np.full((32, 2 * words), 7, np.uint32)
    if way == "text":
        run_cuda_text(to_cuda(k.build()), "widths", (1,), (32,), [data, seen, held])
    else:
        simulate(k.build(), {"x": data, "y": seen, "z": held})
    assert (seen[::2] == data[::2]).all() and (seen[1::2] == 0xEE).all()
    assert (held[:, :words].view(np.uint8)[:, :nbytes] == data[::2]).all()
    assert not held[:, :words].view(np.uint8)[:, nbytes:].any() and not held[:, words:].any()


def test_the_text_of_a_turn_is_its_effect() -> None:
    turns = ((isa.TRANSPOSE_16, 2), (isa.TRANSPOSE_8, 4))
    cases: list[Case] = [
        (turn, [random_words(n), *(random_words(1) for _ in range(n))], []) for turn, n in turns
    ]
    for _, got, (wanted, *_) in ran(cases):
        assert (got[0] == wanted).all()


@pytest.mark.parametrize("nbytes", isa.CP_ASYNC)
def test_asynchronous_copies_name_their_width(nbytes: int) -> None:
    """PTX ISA, cp.async: .cg copies 16 bytes, .ca 4, 8 or 16."""
    cache = "cg" if nbytes == 16 else "ca"
    assert f"cp.async.{cache}.shared.global [%0], [%1], {nbytes};" in isa.CP_ASYNC[nbytes].text
    shared, source = isa.CP_ASYNC[nbytes].operands
    assert (shared.role, shared.space, source.role, source.space) == ("write", "shared", "read", "global")


def test_what_an_effect_tells_the_machine() -> None:
    told: list[tuple[str, tuple[Any, ...]]] = []

    class Machine:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            return lambda *args: told.append((name, args))

    machine, group = Machine(), object()
    memory.BAR.effect(machine, group)
    memory.WARP_SYNC.effect(machine, group)
    memory.CP_COMMIT.effect(machine, group)
    memory.CP_WAIT.effect(machine, group, 2)
    assert told == [
        ("arrive_block_barrier", (group,)),
        ("sync_warp", (group,)),
        ("commit_copies", (group,)),
        ("wait_copies", (group, 2)),
    ]
    assert memory.BAR.ready is not None
    for is_open in (True, False):
        assert memory.BAR.ready(SimpleNamespace(block_barrier_open=lambda g, o=is_open: o), group) is is_open
