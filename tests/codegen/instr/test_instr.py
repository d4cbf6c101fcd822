"""Instruction records: what each declares, says in C and does to arrays are one meaning."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layoutalg.arch import find_arch
from layoutalg.codegen import instr as isa
from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.instr.record import moves
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_helpers
from layoutalg.codegen.sim import simulate
from layoutalg.layout import Layout
from tests.codegen.instr.probe import ALL, MADE, Case, ran, signature
from tests.hostshim import run_cuda_text
from tests.sweeps import each

EVERY = each("instr", [*ALL.values(), *MADE], ids=str)
Words = NDArray[np.uint32]
GROUP = SimpleNamespace(lanes=32)
RANDOM = np.random.default_rng(1)


def random_words(words: int) -> Words:
    return RANDOM.integers(0, 1 << 32, (GROUP.lanes, words), dtype=np.uint32)


# --- every record --------------------------------------------------------------------------------------


def accepted(operand: isa.Operand) -> set[str]:
    """C types a parameter of this operand may have: one word by value or reference, several by pointer."""
    word = {"f32": "float", "f16x2": "f16x2", "bf16x2": "bf16x2"}.get(operand.element, "u32")
    match operand.role, operand.words:
        case "read", _:
            return {"const void*"}
        case "write" | "update", _:
            return {"void*"}
        case "place", _:
            return {"const void*", "void*"}
        case "barrier", _:
            return {"u64*"}
        case "map", _:
            return {"const TensorMap*"}
        case "guard", _:
            return {"bool"}
        case "value", _:
            return {"float" if operand.element == "f32" else "u32"}
        case "in", 1:
            return {word, f"const {word}&"}
        case "in", _:
            return {f"const {word}*"}
        case _, 1:
            return {f"{word}&", f"{word}*"}
        case _:
            return {f"{word}*"}


@EVERY
def test_the_helper_takes_the_operands_in_order(instr: isa.Instr) -> None:
    parameters = signature(instr.text)
    operands = [o for o in instr.operands if o.role != "imm"]
    assert [name for _, name in parameters] == [o.name for o in operands]
    for (kind, _), operand in zip(parameters, operands, strict=True):
        assert kind in accepted(operand), f"{operand} is passed as {kind}"
    if instr.float_text:
        of_floats = [
            kind.replace("u32", "float") if o.element == isa.ANY else kind
            for (kind, _), o in zip(parameters, operands, strict=True)
        ]
        assert [kind for kind, _ in signature(instr.float_text)] == of_floats


@pytest.mark.deep(but=("sm_90a",))
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100"])
def test_every_text_compiles(arch: str) -> None:
    made = [i for i in (*ALL.values(), *MADE) if not i.name.startswith("wgmma")]  # see test_wgmma
    major, minor = find_arch(arch).compute_capability
    here = [
        i
        for i in made
        if i.requires.sm <= 10 * major + minor and (arch == "sm_90a" or not i.requires.arch_specific)
    ]
    kernels = []
    for number, (instr, text) in enumerate(
        (i, text) for i in here for text in (i.text, i.float_text) if text
    ):
        taken = [(kind.replace("&", "*"), name, "*" * ("&" in kind)) for kind, name in signature(text)]
        fixed = [{"count": "64", "threads": "64"}.get(o.name, "1") for o in instr.operands if o.role == "imm"]
        template = f"<{', '.join(fixed)}>" if fixed else ""
        given = ", ".join(f"{kind} {name}" for kind, name, _ in taken)
        kernels.append(
            f'extern "C" __global__ void __launch_bounds__(128, 1) k{number}({given}) '
            f"{{ {instr.name}{template}({', '.join(at + name for _, name, at in taken)}); }}"
        )
    compile_cubin(print_helpers(here) + "\n".join(kernels), "k0", arch)


@EVERY
def test_memory_operands_are_known_to_the_analysis(instr: isa.Instr) -> None:
    known = find_arch(f"sm_{max(90, instr.requires.sm)}").instructions
    for o in instr.operands:
        match o.role:
            case "read" | "write":
                assert (known[o.op].space, known[o.op].width_bytes) == (o.space, o.bytes)
                assert o.words == max(1, o.bytes // 4)
                assert o.lanes == (8 * int(o.op.split(".x")[1][0]) if "matrix" in o.op else isa.WARP)
            case "update":
                way = "atom" if instr.operands[0].role == "out" else "red"
                assert o.op.split(".")[:2] == [way, o.space] and o.bytes == 4 * o.words
                assert o.bytes * 8 == int(o.op.rpartition(".")[2][1:])
            case "place" if "tensor" in o.op:
                assert (o.space, o.bytes, o.op[21:]) == ("shared", 128, instr.name.split("_")[1])
            case "place" if o.op:
                assert (o.space, 8 * o.bytes) == ("shared", int(o.op.rpartition("b")[2]))
            case "place":
                assert (o.space, o.bytes) == ("global", 4)
            case _:
                assert (o.space, o.bytes, o.op) == (None, 0, "")


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
@pytest.mark.parametrize("nbytes", isa.LDG)
def test_a_load_and_a_store_move_their_bytes(nbytes: int, way: str) -> None:
    """Narrow values are zero-extended when loaded; a store ends with its width; clearing is zero."""
    k, words = KernelBuilder("widths", 32), max(1, nbytes // 4)
    element = min(nbytes, 16)
    step = 2 * nbytes // element
    x, y = (k.pointer(name, element, writable=name == "y", align_bytes=32) for name in "xy")
    z, w = k.pointer("z", 4, (2 * words, 1), writable=True), k.reg("w", words, 1)
    tile = k.shared_buffer("tile", element, Layout(64), 64, 16)
    k.do(isa.LDG[nbytes], w, k.at(x, k.tid * step))
    if nbytes in isa.LDS:
        k.do(isa.STS[nbytes], k.at(tile, k.tid * 2), w)
        k.do(isa.LDS[nbytes], w, k.at(tile, k.tid * 2))
    k.do(isa.STG[nbytes], k.at(y, k.tid * step), w)
    for first, instr in ((0, None), (words, isa.CLEAR[nbytes])):
        if instr:
            k.do(instr, w)
        for i in range(words):
            k.do(isa.STG[4], k.at(z, k.tid, first + i), w[i])
    data = RANDOM.integers(0, 256, (64, nbytes), dtype=np.uint8)
    seen, held = np.full((64, nbytes), 0xEE, np.uint8), np.full((32, 2 * words), 7, np.uint32)
    if way == "text":
        run_cuda_text(to_cuda(k.build(), "sm_100"), "widths", (1,), (32,), [data, seen, held])
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


def test_instructions_go_to_other_processes() -> None:
    """Kernels are compiled in processes of their own, and their instructions are pickled with them."""
    for instr in ALL.values():
        assert str(pickle.loads(pickle.dumps(instr))) == str(instr)
